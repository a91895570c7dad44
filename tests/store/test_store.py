"""The store keeps what it is given, whoever else writes, and whatever happens to the process."""

import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from traceroof.core import kernel_table
from traceroof.core.recording import (
    HOST_CALLS,
    RAW_METRICS,
    SPANS,
    VERDICTS,
    DeviceInfo,
    Note,
    Recording,
    Source,
)
from traceroof.errors import TraceroofError
from traceroof.hardware.ceilings import MeasuredRate
from traceroof.store import Store, calibration_of, catalogue, lookup, parquet, staging, tables
from traceroof.store.digests import digest_of

WORKER = Path(__file__).with_name("store_worker.py")


@pytest.fixture(scope="module")
def worker() -> dict[str, Any]:
    """What the worker defines: ``recording_of(seed, rows)``, ``digest(seed)``, ``add``, ``ids``."""
    import runpy

    return runpy.run_path(str(WORKER))


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRACEROOF_STORE", raising=False)
    monkeypatch.delenv("TRACEROOF_CATALOGUE", raising=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / ".traceroof"


def run_worker(*arguments: object, env: dict[str, str] | None = None) -> Any:
    """What the worker prints, as JSON."""
    done = subprocess.run(
        [sys.executable, WORKER, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=120,
        env={**os.environ, **(env or {})},
    )
    return json.loads(done.stdout)


def start_worker(*arguments: object, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, WORKER, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
    )


def folders(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "runs").iterdir())


def incoming(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "incoming").iterdir())


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def small(name: str = "k", path: str = "trace.csv") -> Recording:
    kernels = kernel_table.kernel_table({"kernel_name": [name], "duration_ns": [5]})
    return Recording("made-up", "timeline", kernels, (Source(path, "made-up", 1),))


# Round trip


def test_a_run_comes_back_as_it_was(folder: Path, url: str | None) -> None:
    kernels = kernel_table.kernel_table(
        {
            "kernel_name": ["gemm<128, 64>", "copy", "</script>\x1b[0m é 漢"],
            "kind": ["kernel", "memcpy", "kernel"],
            "duration_ns": [0, None, 2**62],
            "launch_count": [3, 1, 1],
            "dram_throughput_pct": [0.0, None, 99.5],
            "stream": [7, None, 0],
        }
    )
    recording = Recording(
        format="nsight-systems-sqlite",
        time_basis="timeline",
        kernels=kernels,
        sources=(
            Source("a/b.sqlite", "x", 4, (Note("skipped", 3), Note("is old", severe=False))),
            Source("c\udcff.json", "y", 0),  # a file name that is not UTF-8
        ),
        devices=(DeviceInfo(index=0, name="H100", sm_clock_hz=1.98e9, l2_bytes=0), DeviceInfo()),
        raw_metrics=pa.table([[0], ["s"], ["m"], [None], [0.1], [None]], schema=RAW_METRICS),
        verdicts=pa.table([[2], [None], ["r"], ["OPT"], [""], [None], [0.0]], schema=VERDICTS),
        host_calls=pa.table(
            [[0], [1], [None], ["runtime"], ["cudaLaunch"], [-5], [0], [2**62]], schema=HOST_CALLS
        ),
        spans=pa.table([[1], [1], [None], ["step"], ["1"], [0], [None]], schema=SPANS),
    )

    added = Store.open(folder, url).add(recording, name="base", digest=digest("x"))
    read = Store.open(folder, url).get()

    assert read.recording == recording
    assert read.recording.kernels.schema.equals(kernel_table.KERNELS, check_metadata=True)
    assert read.recording.kernels["duration_ns"].to_pylist() == [0, None, 2**62]
    assert (read.id, read.name, read.created) == (added.id, "base", added.created)
    assert read.id == digest("x")[:12]
    (info,) = Store.open(folder, url).runs()
    assert info.launches == 4  # 3 + 1: the copy is not a kernel
    assert info.kernel_time_ns == 2**62  # 3 x 0 + 1 x 2**62
    assert info.sources == recording.sources
    assert info.devices == recording.devices
    assert info.created.endswith("+00:00")


whole = st.none() | st.integers(-(2**63), 2**63 - 1)
real = st.none() | st.floats(allow_nan=False)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
anything = st.text(max_size=20)  # lone surrogates, too: a path need not be UTF-8


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    rows=st.lists(st.tuples(text, whole, real), max_size=4),
    spans=st.lists(st.tuples(whole, st.none() | text), max_size=3),
    sources=st.lists(
        st.builds(
            Source,
            anything,
            text,
            st.integers(0, 2**63 - 1),
            st.lists(
                st.builds(Note, anything, st.integers(0, 2**70), st.booleans()), max_size=2
            ).map(tuple),
        ),
        max_size=3,
    ),
    devices=st.lists(
        st.builds(DeviceInfo, index=st.none() | st.integers(), name=anything, sm_clock_hz=real),
        max_size=2,
    ),
)
def test_any_recording_comes_back_equal(
    tmp_path: Path,
    rows: list[tuple[str, int | None, float | None]],
    spans: list[tuple[int | None, str | None]],
    sources: list[Source],
    devices: list[DeviceInfo],
) -> None:
    names, starts, percents = zip(*rows, strict=True) if rows else ((), (), ())
    recording = Recording(
        format="made-up",
        time_basis="counter-tool",
        kernels=kernel_table.kernel_table(
            {
                "kernel_name": pa.array(names, pa.string()),
                "start_ns": pa.array(starts, pa.int64()),
                "l2_hit_pct": pa.array(percents, pa.float64()),
            }
        ),
        sources=tuple(sources),
        devices=tuple(devices),
        spans=pa.Table.from_pylist(
            [{"start_ns": start, "name": name} for start, name in spans], schema=SPANS
        ),
    )
    kept = Store.open(tmp_path / "s").add(recording, digest=digest(repr(recording)))
    assert Store.open(tmp_path / "s").get(kept.id).recording == recording


def test_a_table_of_another_shape_is_refused_rather_than_cut(folder: Path) -> None:
    odd = replace(small(), kernels=small().kernels.append_column("colour", [["red"]]))
    with pytest.raises(TraceroofError, match="made-up gave a kernels table of another shape"):
        Store.open(folder).add(odd, digest=digest("x"))
    assert Store.open(folder).runs() == []


def test_tables_of_an_older_version_are_read_in_todays_shape(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN spans written when there was no `kind`, starts were int32, and colours were kept
    before = pa.schema([("name", pa.string()), ("start_ns", pa.int32()), ("colour", pa.string())])
    with monkeypatch.context() as old:
        old.setattr(parquet, "TABLES", {**parquet.TABLES, "spans": before})
        spans = pa.table([["s"], [7], ["red"]], schema=before)
        Store.open(folder).add(replace(small(), spans=spans), digest=digest("x"))

    read = Store.open(folder).get().recording.spans

    assert read.schema == SPANS
    assert read.select(["name", "start_ns", "kind"]).to_pylist() == [
        {"name": "s", "start_ns": 7, "kind": None}
    ]


def test_a_column_that_changed_its_meaning_is_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = pa.schema([("start_ns", pa.string())])
    with monkeypatch.context() as old:
        old.setattr(parquet, "TABLES", {**parquet.TABLES, "spans": before})
        spans = pa.table([["noon"]], schema=before)
        Store.open(folder).add(replace(small(), spans=spans), digest=digest("x"))
    with pytest.raises(TraceroofError, match=r"spans\.parquet is not as expected"):
        Store.open(folder).get()


def test_the_folder_hides_itself_from_git_and_keeps_no_path_of_its_own(folder: Path) -> None:
    Store.open(folder).add(small(), digest=digest("x"))
    assert (folder / ".gitignore").read_text() == "*\n"
    assert sorted(os.listdir(folder)) == [".gitignore", "catalogue.db", "incoming", "runs"]
    everything = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert b"trace.csv" in everything
    assert str(folder.parent).encode() not in everything


def test_an_own_gitignore_stays(folder: Path) -> None:
    folder.mkdir()
    (folder / ".gitignore").write_text("catalogue.db-*\n")
    Store.open(folder)
    assert (folder / ".gitignore").read_text() == "catalogue.db-*\n"


# Identity


def test_the_same_bytes_are_the_same_run(folder: Path, url: str | None) -> None:
    kept = Store.open(folder, url)
    first = kept.add(small(), digest=digest("a"))
    second = kept.add(small(), digest=digest("a"))
    assert (second.id, second.name, second.created) == (first.id, "trace.csv", first.created)
    assert len(kept.runs()) == 1


def test_ingesting_again_makes_a_run_the_newest_and_can_rename_it(
    folder: Path, url: str | None
) -> None:
    kept = Store.open(folder, url)
    a, b = (kept.add(small(x), digest=digest(x)).id for x in "ab")
    assert [info.id for info in kept.runs()] == [b, a]

    kept.add(small("a"), name="renamed", digest=digest("a"))
    assert [(info.id, info.name) for info in kept.runs()] == [(a, "renamed"), (b, "trace.csv")]
    kept.add(small("a"), digest=digest("a"))
    assert kept.get().name == "renamed"


def test_the_same_bytes_read_otherwise_replace_what_the_run_holds(
    folder: Path, url: str | None
) -> None:
    kept = Store.open(folder, url)
    first = kept.add(small(), digest=digest("a"))
    kept.set_baseline("main", first.id)
    better = replace(small(), devices=(DeviceInfo(name="H100"),))

    second = kept.add(better, digest=digest("a"))

    assert (second.id, second.created) == (first.id, first.created)
    assert kept.get(first.id).recording == better
    assert kept.baselines()["main"].devices == better.devices
    assert len(folders(folder)) == 1
    assert incoming(folder) == []
    third = kept.add(small(), digest=digest("a"))
    assert kept.get(third.id).recording == small()


def test_ids_grow_where_they_collide(folder: Path, url: str | None) -> None:
    kept = Store.open(folder, url)
    ids = [kept.add(small(x), digest="ab" * 6 + x * 52).id for x in "012"]
    assert ids == ["ab" * 6, "ab" * 6 + "1", "ab" * 6 + "2"]
    assert kept.get("ab" * 6).recording == small("0")
    with pytest.raises(ValueError, match="not a digest"):
        kept.add(small(), digest="../../../etc/passwd")


def test_names_come_from_the_sources(folder: Path) -> None:
    def name_of(*paths: str) -> str:
        sources = tuple(Source(path, "made-up", 0) for path in paths)
        recording = replace(small(), sources=sources)
        return Store.open(folder).add(recording, digest=digest(repr(paths))).name

    assert name_of("out/resnet.csv") == "resnet.csv"
    assert name_of("ranks/0.json", "ranks/1.json") == "ranks"
    assert name_of("0.json", "1.json") == "0.json"
    assert name_of("a\nb\x1b.csv") == "a?b?.csv"
    assert name_of("x" * 300) == "x" * 200
    assert name_of() == "run"
    for bad in ("", " ", "a\nb", "x" * 201, "\udcff"):
        with pytest.raises(TraceroofError, match="cannot be a name"):
            Store.open(folder).add(small(), name=bad, digest=digest("x"))


# Asking for a run


def test_a_run_is_found_by_id_baseline_name_and_prefix(folder: Path, url: str | None) -> None:
    kept = Store.open(folder, url)
    a, b, c = (kept.add(small(x), name="n", digest=x * 64).id for x in "abc")
    kept.set_baseline("main", a)

    assert kept.get().id == c
    assert kept.get(b).id == b
    assert kept.get(b.upper()).id == b
    assert kept.get("bbbb").id == b
    assert kept.get("main").id == a
    assert kept.get("n").id == c
    kept.set_baseline("n", b)
    assert kept.get("n").id == b  # a baseline before a name
    kept.set_baseline("main", "n")
    assert {name: info.id for name, info in kept.baselines().items()} == {"main": b, "n": b}
    kept.remove(b)
    assert kept.baselines() == {}
    assert kept.get("n").id == c


def test_a_run_that_is_not_there_is_answered_with_what_there_is(
    folder: Path, url: str | None
) -> None:
    kept = Store.open(folder, url)
    for ask in (None, "x"):
        with pytest.raises(TraceroofError) as nothing:
            kept.get(ask)
        assert "traceroof ingest" in nothing.value.hint
    for x in "0123456":
        kept.add(small(x), name=f"run{x}", digest="abcd" + x * 60)

    for ask in ("", "abc", "nope", "a'; drop table traceroof_runs; --", "\0", "\udcff", "%"):
        with pytest.raises(TraceroofError) as absent:
            kept.get(ask)
        assert f"holds no run {ask!r}" in absent.value.message
        assert absent.value.hint.startswith("it holds abcd66666666 (run6), ")
        assert absent.value.hint.endswith(" and 2 more")
    with pytest.raises(TraceroofError, match="abcd is the beginning of 7 runs"):
        kept.get("abcd")
    for call in (kept.remove, lambda run: kept.set_baseline("b", run)):
        with pytest.raises(TraceroofError, match="holds no run 'nope'"):
            call("nope")
    assert len(kept.runs()) == 7


def test_a_removed_run_leaves_nothing(folder: Path, url: str | None) -> None:
    kept = Store.open(folder, url)
    a, b = (kept.add(small(x), digest=digest(x)).id for x in "ab")
    info = kept.remove(a)
    assert (info.id, info.sources) == (a, small().sources)
    assert [info.id for info in kept.runs()] == [b]
    assert folders(folder) == [b]
    assert incoming(folder) == []
    assert kept.add(small("a"), digest=digest("a")).id == a
    assert kept.get(a).recording == small("a")


# Where the store is


def test_the_environment_and_the_current_folder_say_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Store.open()
    assert (tmp_path / ".traceroof" / "catalogue.db").is_file()
    monkeypatch.setenv("TRACEROOF_STORE", str(tmp_path / "deep" / "down"))
    Store.open()
    assert (tmp_path / "deep" / "down" / "catalogue.db").is_file()
    monkeypatch.setenv("TRACEROOF_CATALOGUE", f"sqlite:///{tmp_path}/shared.db")
    Store.open(tmp_path / "other").add(small(), digest=digest("x"))
    assert (tmp_path / "shared.db").is_file()
    assert not (tmp_path / "other" / "catalogue.db").exists()
    assert len(Store.open(tmp_path / "other").runs()) == 1
    monkeypatch.delenv("TRACEROOF_CATALOGUE")
    odd = tmp_path / "a?b #%20é"
    Store.open(odd).add(small(), digest=digest("x"))
    assert sorted(os.listdir(odd)) == [".gitignore", "catalogue.db", "incoming", "runs"]


def test_no_store_is_an_error_when_none_is_to_be_made(folder: Path) -> None:
    with pytest.raises(TraceroofError, match=f"there is no store in {folder}"):
        Store.open(folder, create=False)
    assert not folder.exists()


def test_a_path_that_is_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(TraceroofError, match="file is a file, not the folder of a store"):
        Store.open(tmp_path / "file")
    with pytest.raises(TraceroofError, match="cannot be used: Not a directory"):
        Store.open(tmp_path / "file" / "sub")
    with pytest.raises(TraceroofError, match=r"other things in it \(file\), not a store"):
        Store.open(tmp_path)
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("nonsense", "is not a database URL"),
        ("oracle+nonsense://host/db", "cannot be used"),
        ("sqlite://", "would be forgotten"),
        ("sqlite:////nowhere/at/all.db", "unable to open database file"),
        (
            "postgresql+pg8000://me:secret@host/db?password=secret",
            "needs the Python package pg8000",
        ),
        ("postgresql+psycopg://me:secret@127.0.0.1:1/db?password=secret", "cannot be used"),
    ],
)
def test_a_catalogue_that_cannot_be_reached_is_an_error_without_secrets(
    folder: Path, url: str, says: str
) -> None:
    with pytest.raises(TraceroofError, match=says) as error:
        Store.open(folder, url)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("mounts", "networked"),
    [
        ("/dev/sda / ext4 rw 0 0\n", False),
        ("/dev/sda / ext4 rw 0 0\nhost:/h {} nfs4 rw 0 0\n", True),
        ("host:/h / nfs rw 0 0\n/dev/sdb {} xfs rw 0 0\n", False),
        ("/dev/sda / ext4 rw 0 0\nhost:/h {}-not nfs rw 0 0\n", False),
        ("a {} ext4 rw 0 0\nb {} lustre rw 0 0\n", True),
        ("garbage\n\n", False),
    ],
)
def test_a_file_system_that_machines_share_is_known_by_its_mount(
    tmp_path: Path, mounts: str, networked: bool
) -> None:
    text = mounts.replace("{}", str(tmp_path.resolve()))
    assert catalogue.is_networked(tmp_path / "store", text) is networked


def test_the_log_is_written_ahead_except_on_a_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mode(folder: Path) -> str:
        Store.open(folder).add(small(), digest=digest("x"))
        database = sqlite3.connect(folder / "catalogue.db")
        try:
            return str(database.execute("PRAGMA journal_mode").fetchone()[0])
        finally:
            database.close()

    assert mode(tmp_path / "local") == "wal"
    monkeypatch.setattr(catalogue, "is_networked", lambda folder, mounts: True)
    assert mode(tmp_path / "nfs") == "delete"


# Versions


# The steps that the catalogue has today; tests add steps of their own.
STEPS = tables.MIGRATIONS


def add_colour(connection: sa.Connection) -> None:
    connection.exec_driver_sql("ALTER TABLE traceroof_runs ADD COLUMN colour TEXT")
    connection.exec_driver_sql("UPDATE traceroof_runs SET colour = 'red'")


def add_taste(connection: sa.Connection) -> None:
    connection.exec_driver_sql("ALTER TABLE traceroof_runs ADD COLUMN taste TEXT")


def fail(connection: sa.Connection) -> None:
    connection.exec_driver_sql("SELECT nonsense")


def dump(kept: Store) -> dict[str, list[tuple[Any, ...]]]:
    """Everything in the catalogue, with the columns that it really has."""
    found, tables = sa.MetaData(), {}
    with kept._catalogue.reading() as connection:
        found.reflect(connection)
        for name, part in found.tables.items():
            rows = [tuple(row) for row in connection.execute(sa.select(part))]
            tables[name] = [tuple(part.columns.keys()), *rows]
    return tables


def test_an_older_catalogue_is_migrated_once_and_keeps_its_runs(
    folder: Path, url: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Store.open(folder, url)
    run = old.add(small(), digest=digest("x"))
    assert dump(old)["traceroof_schema"] == [("version",), (4,)]
    monkeypatch.setattr(catalogue, "MIGRATIONS", (*STEPS, add_colour, add_taste))

    for _ in range(2):  # a second time would fail on a column that exists
        assert Store.open(folder, url).get().recording == run.recording
    assert dump(old)["traceroof_schema"] == [("version",), (6,)]
    columns, row = dump(old)["traceroof_runs"]
    assert (columns[-2:], row[-2:]) == (("colour", "taste"), ("red", None))

    monkeypatch.setattr(catalogue, "MIGRATIONS", (*STEPS, add_colour))
    before = dump(old)
    for use in (lambda: Store.open(folder, url), lambda: old.add(small("y"), digest=digest("y"))):
        with pytest.raises(TraceroofError, match="newer traceroof .*version 6, .*knows 5") as newer:
            use()
        assert "upgrade traceroof" in newer.value.hint
    assert dump(old) == before
    assert folders(folder) == [run.id]
    assert incoming(folder) == []


def test_a_read_only_catalogue_of_another_version_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "MIGRATIONS", (*STEPS, add_colour))
    Store.open(folder).add(small(), digest=digest("x"))
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.setattr(catalogue, "MIGRATIONS", (*STEPS, add_colour, add_taste))
    with pytest.raises(TraceroofError, match="cannot be written: it is read-only"):
        Store.open(folder)
    monkeypatch.setattr(catalogue, "MIGRATIONS", STEPS)
    with pytest.raises(TraceroofError, match="written by a newer traceroof"):
        Store.open(folder)


def test_a_migration_that_fails_changes_nothing(
    folder: Path, url: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Store.open(folder, url)
    old.add(small(), digest=digest("x"))
    before = dump(old)
    monkeypatch.setattr(catalogue, "MIGRATIONS", (*STEPS, add_colour, fail))
    with pytest.raises(TraceroofError, match="nonsense"):
        Store.open(folder, url)
    assert dump(old) == before
    monkeypatch.setattr(catalogue, "MIGRATIONS", STEPS)
    assert len(Store.open(folder, url).runs()) == 1


def test_two_that_migrate_at_once_do_it_once(
    folder: Path, url: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store.open(folder, url).add(small(), digest=digest("x"))
    meet = threading.Barrier(2, timeout=30)
    steps = []

    def slow(connection: sa.Connection) -> None:
        steps.append(1)
        time.sleep(0.2)
        add_colour(connection)

    monkeypatch.setattr(catalogue, "MIGRATIONS", (*STEPS, slow))
    found: list[int] = []

    def migrate() -> None:
        meet.wait()
        found.append(len(Store.open(folder, url).runs()))

    threads = [threading.Thread(target=migrate) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(steps), found) == (1, [1, 1])


# Measured ceilings


def measured(rate: str = "copy", per_s: float = 2.9e12, device: str = "H100") -> MeasuredRate:
    return MeasuredRate(
        device, "timeline", rate, per_s, 3.35e12, "probe", 12, 2.0**31, "2026-01-02"
    )


def test_measured_ceilings_are_kept_and_replaced(folder: Path, url: str | None) -> None:
    kept = Store.open(folder, url)
    assert kept.calibration() == ()
    copy, read, other = measured(), measured("read", 3.1e12), measured(device="A100")
    assert kept.calibrate([copy, read, other]) == [(copy, None), (read, None), (other, None)]
    again = replace(measured(per_s=2.95e12), launches=None, launch_size=None)
    assert kept.calibrate([again]) == [(again, copy)]
    assert Store.open(folder, url).calibration() == (other, again, read)
    counted = replace(copy, time_basis="counter-tool")
    assert kept.calibrate([counted]) == [(counted, None)]

    assert kept.forget_calibration("h100 ") == (counted, again, read)
    assert kept.calibration() == (other,)
    with pytest.raises(TraceroofError, match="holds no calibration of 'H200'") as unknown:
        kept.forget_calibration("H200")
    assert unknown.value.hint == "it holds A100"


def test_a_store_of_the_first_version_gets_a_place_for_ceilings(
    folder: Path, url: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Store.open(folder, url)
    run = old.add(small(), digest=digest("x"))
    with old._catalogue.writing() as connection:  # as version 1 was
        for name in ("calibration", "history", "series", "noise"):
            connection.exec_driver_sql(f"DROP TABLE traceroof_{name}")
        connection.exec_driver_sql("UPDATE traceroof_schema SET version = 1")
    new = Store.open(folder, url)
    assert dump(new)["traceroof_schema"] == [("version",), (4,)]
    assert new.get().recording == run.recording
    new.calibrate([measured()])
    assert new.calibration() == (measured(),)
    # What knows version 1 alone refuses it.
    monkeypatch.setattr(catalogue, "MIGRATIONS", ())
    with pytest.raises(TraceroofError, match="newer traceroof .*version 4, .*knows 1"):
        Store.open(folder, url)


def test_ceilings_are_of_one_folder(tmp_path: Path, postgresql: str) -> None:
    a, b = (Store.open(tmp_path / name, postgresql) for name in "ab")
    a.calibrate([measured()])
    assert (a.calibration(), b.calibration()) == ((measured(),), ())
    with pytest.raises(TraceroofError, match="it holds none|holds no calibration"):
        b.forget_calibration("H100")
    assert a.calibration() == (measured(),)


def test_asking_for_ceilings_makes_no_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRACEROOF_STORE", raising=False)
    assert calibration_of() == ()
    assert calibration_of(tmp_path / "there") == ()
    assert list(tmp_path.iterdir()) == []
    Store.open(None).calibrate([measured()])
    assert calibration_of() == (measured(),)
    monkeypatch.setenv("TRACEROOF_STORE", str(tmp_path / "other"))
    assert calibration_of() == ()


def test_a_damaged_ceiling_is_said(folder: Path) -> None:
    kept = Store.open(folder)
    kept.calibrate([measured()])
    with kept._catalogue.writing() as connection:
        connection.exec_driver_sql("UPDATE traceroof_calibration SET contents = '['")
    with pytest.raises(TraceroofError, match="damaged: a calibration in it"):
        kept.calibration()


# Damage


def test_a_damaged_run_is_named_and_the_others_stay_readable(folder: Path) -> None:
    kept = Store.open(folder)
    good = kept.add(small("good"), digest=digest("good")).id
    harms: list[Callable[[Path], object]] = [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(bytes(len(path.read_bytes()))),
        lambda path: path.unlink() or path.mkdir(),  # type: ignore[func-returns-value]
        lambda path: shutil.rmtree(path.parent),
    ]
    for number, harm in enumerate(harms):
        bad = kept.add(small("bad"), name=f"bad{number}", digest=digest(f"bad{number}")).id
        harm(folder / "runs" / bad / "kernels.parquet")

        with pytest.raises(TraceroofError, match=rf"run {bad} \(bad{number}\)") as damage:
            kept.get(bad)
        assert f"`traceroof runs remove {bad}`" in damage.value.hint
        assert kept.get(good).recording == small("good")
        assert len(kept.runs()) == 2
        assert kept.remove(bad).name == f"bad{number}"
        assert folders(folder) == [good]
        assert incoming(folder) == []


def test_ingesting_again_heals_a_damaged_run(folder: Path) -> None:
    kept = Store.open(folder)
    run = kept.add(small(), name="n", digest=digest("x"))
    (folder / "runs" / run.id / "kernels.parquet").write_bytes(b"PAR1")
    assert kept.add(small(), digest=digest("x")).id == run.id
    assert kept.get("n").recording == small()
    assert len(folders(folder)) == 1


def test_any_changed_byte_in_a_table_is_noticed(folder: Path, worker: dict[str, Any]) -> None:
    kept = Store.open(folder)
    run = worker["add"](kept, 1)
    path = folder / "runs" / run / "kernels.parquet"
    whole = path.read_bytes()
    dice = random.Random(1)
    for _ in range(200):
        place = dice.randrange(len(whole))
        changed = bytes([whole[place] ^ 1 << dice.randrange(8)])
        path.write_bytes(whole[:place] + changed + whole[place + 1 :])
        with pytest.raises(TraceroofError, match="is not as it was written"):
            kept.get(run)
    path.write_bytes(whole)
    assert kept.get(run).recording == worker["recording_of"](1)


HARM: dict[str, Callable[[Path], object]] = {
    "other content": lambda path: path.write_bytes(b"something that is no database" * 100),
    "zeros": lambda path: path.write_bytes(path.read_bytes()[:100] + bytes(8000)),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:5000]),
    "empty": lambda path: path.write_bytes(b""),
    "gone": lambda path: path.unlink(),
}


@pytest.mark.parametrize("harm", HARM.values(), ids=HARM)
def test_a_damaged_catalogue_is_said_to_be_so(folder: Path, harm: Callable[[Path], object]) -> None:
    run = Store.open(folder).add(small(), digest=digest("x")).id
    harm(folder / "catalogue.db")
    with pytest.raises(TraceroofError, match=r"catalogue\.db is damaged") as damage:
        Store.open(folder).runs()
    assert f"move {folder} out of the way" in damage.value.hint
    assert folders(folder) == [run]  # nothing is lost that was not lost


def test_no_damage_to_the_catalogue_ends_in_a_traceback(tmp_path: Path) -> None:
    original = tmp_path / "original"
    kept = Store.open(original)
    for x in "abc":
        kept.add(small(x), name=x, digest=digest(x))
    kept.set_baseline("main", "a")
    dice = random.Random(7)
    outcomes = []
    for number in range(60):
        folder = tmp_path / str(number)
        shutil.copytree(original, folder)
        data = bytearray((folder / "catalogue.db").read_bytes())
        for _ in range(dice.choice([1, 10, 200])):
            data[dice.randrange(len(data))] = dice.randrange(256)
        (folder / "catalogue.db").write_bytes(data)

        for use in (
            lambda folder: Store.open(folder).runs(),
            lambda folder: Store.open(folder).baselines(),
            lambda folder: Store.open(folder).get("b"),
            lambda folder: Store.open(folder).add(small("d"), digest=digest("d")),
            lambda folder: Store.open(folder).remove("c"),
        ):
            try:
                use(folder)
                outcomes.append("works")
            except TraceroofError:
                outcomes.append("says")
    assert {"works", "says"} == set(outcomes)


def test_a_damaged_entry_spares_the_other_runs(folder: Path) -> None:
    kept = Store.open(folder)
    good, bad = (kept.add(small(x), digest=digest(x)).id for x in "ab")
    for value in ("{", "[]", '{"sources": 1}', "[" * 100_000):
        database = sqlite3.connect(folder / "catalogue.db")
        database.execute("UPDATE traceroof_runs SET contents = ? WHERE id = ?", (value, bad))
        database.commit()
        database.close()
        for use in (lambda: kept.get(bad), kept.runs):
            with pytest.raises(TraceroofError, match=f"run {bad} .* entry in the catalogue") as e:
                use()
            assert f"runs remove {bad}" in e.value.hint
        assert kept.get(good).recording == small("a")
    assert kept.remove(bad).sources == ()
    assert folders(folder) == [good]


def test_a_catalogue_cannot_make_us_touch_folders_elsewhere(tmp_path: Path, folder: Path) -> None:
    kept = Store.open(folder)
    run = kept.add(small(), digest=digest("x")).id
    (tmp_path / "precious").mkdir()
    database = sqlite3.connect(folder / "catalogue.db")
    database.execute("UPDATE traceroof_runs SET folder = '../../precious'")
    database.commit()
    database.close()
    with pytest.raises(TraceroofError, match="is damaged: run .* has no proper folder"):
        kept.remove(run)
    lock = folder / "incoming" / "0123.lock"
    lock.write_text(json.dumps({"catalogue": "catalogue.db", "folders": ["../../precious"]}))
    with pytest.raises(TraceroofError):
        kept.add(small("y"), digest=digest("y"))
    assert (tmp_path / "precious").is_dir()


# Several at once


@pytest.mark.parametrize("processes", [2, 4])
def test_processes_that_ingest_at_once_all_succeed(
    folder: Path, url: str | None, processes: int, worker: dict[str, Any]
) -> None:
    # Each has files of its own and one that all ingest; the store does not exist yet.
    env = {"TRACEROOF_CATALOGUE": url or ""}
    running = [
        start_worker("add", folder, 1000, 10 * number, 1000, 10 * number + 1, 1000, env=env)
        for number in range(processes)
    ]
    outcomes = [json.loads(process.communicate(timeout=120)[0]) for process in running]

    seeds = [1000, *(10 * n + m for n in range(processes) for m in range(2))]
    assert [o for outcome in outcomes for o in outcome if "error" in o] == []
    kept = Store.open(folder, url)
    ids = {seed: worker["digest"](seed)[:12] for seed in seeds}
    assert sorted(info.id for info in kept.runs()) == sorted(ids.values())
    for seed, id in ids.items():
        assert kept.get(id).recording == worker["recording_of"](seed)
    assert folders(folder) == sorted(ids.values())
    assert incoming(folder) == []


def test_readers_of_a_run_that_comes_and_goes_see_all_of_it_or_none(
    folder: Path, worker: dict[str, Any]
) -> None:
    kept = Store.open(folder)
    stays = worker["add"](kept, 1)
    goes, recording = worker["digest"](2)[:12], worker["recording_of"](2)
    churn = start_worker("churn", folder, 2, 60)
    seen, complaints = {"whole": 0, "none": 0}, list[str]()
    while churn.poll() is None:
        try:
            found = kept.get(goes).recording
        except TraceroofError as error:
            seen["none"] += 1
            complaints.append(error.message)
        else:
            assert found == recording
            seen["whole"] += 1
        assert kept.get(stays).id == stays
    churn.communicate()
    assert churn.returncode == 0
    assert min(seen.values()) > 0
    assert [text for text in complaints if not re.search("holds no run|was removed", text)] == []
    assert [info.id for info in kept.runs()] == [stays]


def test_a_run_removed_while_it_is_read_is_said_to_be(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Store.open(folder)
    run = kept.add(small(), digest=digest("x")).id
    contents = lookup.contents

    def removed_first(*asked: Any) -> Any:
        monkeypatch.setattr(lookup, "contents", contents)
        Store.open(folder).remove(run)
        return contents(*asked)

    monkeypatch.setattr(lookup, "contents", removed_first)
    with pytest.raises(TraceroofError, match=f"run {run} .* removed while it was being read"):
        kept.get(run)


def test_a_run_replaced_while_it_is_read_is_read_anew(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Store.open(folder)
    run = kept.add(small(), digest=digest("x")).id
    contents = lookup.contents

    def replaced_first(*asked: Any) -> Any:
        monkeypatch.setattr(lookup, "contents", contents)
        Store.open(folder).add(small("new"), digest=digest("x"))
        return contents(*asked)

    monkeypatch.setattr(lookup, "contents", replaced_first)
    assert kept.get(run).recording == small("new")


def test_what_a_live_process_is_writing_is_left_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, staged, go = staging.write_folder, threading.Event(), threading.Event()

    def pausing(place: Path, files: Any) -> None:
        write(place, files)
        if threading.current_thread() is slow:
            staged.set()
            assert go.wait(60)

    monkeypatch.setattr(staging, "write_folder", pausing)
    done: list[str] = []
    slow = threading.Thread(
        target=lambda: done.append(Store.open(folder).add(small("a"), digest=digest("a")).id)
    )
    slow.start()
    assert staged.wait(60)
    other = Store.open(folder)
    other.remove(other.add(small("b"), digest=digest("b")).id)  # both sweep
    assert len(incoming(folder)) == 2  # the slow one's folder and lock
    go.set()
    slow.join()
    assert other.get().recording == small("a")
    assert [info.id for info in other.runs()] == done
    assert incoming(folder) == []


def test_where_files_cannot_be_locked_a_day_tells_that_a_writer_is_dead(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "_try_lock", lambda descriptor: None)
    kept = Store.open(folder)
    kept.add(small("a"), digest=digest("a"))
    for name, hours in (("dead", 25), ("alive", 23)):
        (folder / "incoming" / name / "run").mkdir(parents=True)
        lock = folder / "incoming" / f"{name}.lock"
        lock.touch()
        os.utime(lock, (time.time() - hours * 3600,) * 2)
    kept.add(small("b"), digest=digest("b"))
    assert incoming(folder) == ["alive", "alive.lock"]
    assert len(kept.runs()) == 2


def test_a_busy_catalogue_is_said_to_be_busy(
    folder: Path, url: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store.open(folder, url).add(small(), digest=digest("x"))
    monkeypatch.setattr(catalogue, "BUSY_SECONDS", 0.2)
    kept = Store.open(folder, url)
    with Store.open(folder, url)._catalogue.writing():
        assert len(kept.runs()) == 1  # readers do not wait
        with pytest.raises(TraceroofError, match="have kept the catalogue .* busy for 0.2 s"):
            kept.add(small("y"), digest=digest("y"))
    assert folders(folder) == [digest("x")[:12]]
    kept.add(small("y"), digest=digest("y"))
    assert len(folders(folder)) == 2
    assert incoming(folder) == []


def test_folders_that_share_a_catalogue_do_not_mix(tmp_path: Path, postgresql: str) -> None:
    a, b = (Store.open(tmp_path / name, postgresql) for name in "ab")
    for kept in (a, b):
        kept.add(small(), name="same", digest=digest("x"))
    a.add(small("only a"), digest=digest("y"))
    a.set_baseline("main", "same")

    assert [len(a.runs()), len(b.runs())] == [2, 1]
    assert b.baselines() == {}
    a.remove("same")
    assert b.get("same").recording == small()
    assert Store.open(tmp_path / "a", postgresql).get().recording == small("only a")


def test_a_catalogue_removes_only_what_it_knew(tmp_path: Path, folder: Path) -> None:
    # GIVEN a writer that died just after it had told one catalogue of its run
    kept = Store.open(folder)
    run = kept.add(small(), digest=digest("x")).id
    lock = folder / "incoming" / "0123.lock"
    lock.write_text(json.dumps({"catalogue": "catalogue.db", "folders": [run]}))
    # WHEN another catalogue, which does not know the run, tidies up
    Store.open(folder, f"sqlite:///{tmp_path}/new.db").add(small("y"), digest=digest("y"))
    # THEN the run is still there, and the first catalogue can tidy up
    assert kept.get(run).recording == small()
    assert incoming(folder) == ["0123.lock"]
    kept.add(small("z"), digest=digest("z"))
    assert incoming(folder) == []


# Killed


class Victims:
    """Children of a worker that ingest one recording each and can be killed (see ``serve``)."""

    def __init__(self, url: str = "") -> None:
        self._worker = start_worker("serve", env={"TRACEROOF_CATALOGUE": url})
        assert self._worker.stdin is not None
        assert self._worker.stdout is not None
        self._ask, self._answer = self._worker.stdin, self._worker.stdout

    def add(
        self, folder: Path, seed: int, *, rows: int = 50, step: int = 0, delay: float | None = None
    ) -> tuple[int, str]:
        """Exit status and steps taken, of a child that dies before ``step`` or after ``delay``."""
        self._ask.write(f"{folder} {seed} {rows} {step}\n")
        self._ask.flush()
        child = int(self._answer.readline())
        if delay is not None:
            time.sleep(delay)
            # A child that has ended meanwhile is waited for by its parent; no other process can
            # have got its number within these milliseconds.
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        status, steps = self._answer.readline().split()
        return int(status), steps

    def close(self) -> None:
        self._worker.communicate(timeout=60)
        assert self._worker.returncode == 0


@pytest.fixture
def victims(request: pytest.FixtureRequest) -> Iterator[Victims]:
    url = request.getfixturevalue("url") if "url" in request.fixturenames else None
    running = Victims(url or "")
    yield running
    running.close()


def check_after_kill(
    folder: Path, url: str | None, worker: dict[str, Any], old: list[int], seed: int
) -> bool:
    """The store opens and holds the old runs; the new one is complete, or absent and ingested
    easily; nothing else is left. Returns whether it was there."""
    kept = Store.open(folder, url)
    there = {info.id for info in kept.runs()}
    ids = {one: worker["digest"](one)[:12] for one in [*old, seed]}
    assert there - {ids[seed]} == {ids[one] for one in old}
    for one in old:
        assert kept.get(ids[one]).recording == worker["recording_of"](one)
    if ids[seed] in there:
        assert kept.get(ids[seed]).recording.kernels["kernel_name"][0].as_py() == f"kernel_{seed}"
    worker["add"](kept, seed)
    assert kept.get(ids[seed]).recording == worker["recording_of"](seed)
    assert {path.split(".")[0] for path in folders(folder)} == set(ids.values())
    assert len(folders(folder)) == len(ids)
    assert incoming(folder) == []
    return ids[seed] in there


def forget_tables(url: str | None) -> None:
    """Make a database as it was before its first store."""
    if url is not None:
        engine = sa.create_engine(url)
        tables.METADATA.drop_all(engine)
        engine.dispose()


def test_a_kill_before_any_step_of_the_first_ingest_is_harmless(
    tmp_path: Path, url: str | None, worker: dict[str, Any], victims: Victims
) -> None:
    status, steps = victims.add(tmp_path / "whole", 1)
    assert status == 0
    there = []
    for step in range(1, int(steps) + 1):
        forget_tables(url)
        folder = tmp_path / str(step)
        assert victims.add(folder, 1, step=step) == (-signal.SIGKILL, "-")
        there.append(check_after_kill(folder, url, worker, [], 1))
    assert len(there) > 30
    assert there == sorted(there)  # absent until the commit, present from then on
    assert set(there) == {False, True}


def test_a_kill_before_any_step_of_a_replacement_is_harmless(
    folder: Path, worker: dict[str, Any], victims: Victims
) -> None:
    kept = Store.open(folder)
    for seed in (1, 2):
        worker["add"](kept, seed)
    run = worker["digest"](2)[:12]
    status, steps = victims.add(folder, 2, rows=60)
    assert (status, kept.get(run).recording.kernels.num_rows) == (0, 60)
    held = []
    for step in range(1, int(steps) + 1):
        worker["add"](kept, 2)
        assert victims.add(folder, 2, rows=60, step=step) == (-signal.SIGKILL, "-")
        held.append(kept.get(run).recording.kernels.num_rows)
        check_after_kill(folder, None, worker, [1], 2)
    assert held == sorted(held)
    assert set(held) == {50, 60}


def test_kills_at_random_moments_leave_the_old_state_or_the_new(
    folder: Path, worker: dict[str, Any], victims: Victims
) -> None:
    rows = 30_000
    old = [1, 2]
    kept = Store.open(folder)
    for seed in old:
        worker["add"](kept, seed)
    usual = []
    for seed in (3, 4, 5):
        assert victims.add(folder, 1)[0] == 0  # so that the worker is there
        begin = time.monotonic()
        assert victims.add(folder, seed, rows=rows)[0] == 0
        usual.append(time.monotonic() - begin)
        kept.remove(worker["digest"](seed)[:12])

    dice = random.Random(20)
    killed = 0
    for seed in range(100, 300):
        status, _ = victims.add(folder, seed, rows=rows, delay=dice.uniform(0, min(usual)))
        killed += status == -signal.SIGKILL
        check_after_kill(folder, None, worker, old, seed)
        kept.remove(worker["digest"](seed)[:12])
        if killed == 20:
            break
    assert killed == 20


# No room, no permission


def test_a_file_that_may_not_grow_is_an_error_and_leaves_no_trace(
    folder: Path, worker: dict[str, Any]
) -> None:
    # 8,000 rows of noise take more than 100 kB: 8 bytes each for at least one column of doubles.
    run = worker["add"](Store.open(folder), 1)
    outcome = run_worker("starve", folder, 60_000, 2, 8000)
    assert "there is no room left in the store in" in outcome["error"]
    assert str(folder) in outcome["error"]
    assert "the run needs 1" in outcome["error"]  # 1xx.x kB
    assert "File too large" in outcome["error"]
    assert "--store" in outcome["hint"]
    kept = Store.open(folder)
    assert [info.id for info in kept.runs()] == [run] == folders(folder)
    assert kept.get(run).recording == worker["recording_of"](1)
    assert incoming(folder) == []


def test_a_catalogue_that_may_not_grow_is_an_error_and_leaves_no_trace(
    folder: Path, worker: dict[str, Any]
) -> None:
    kept = Store.open(folder)
    run = worker["add"](kept, 1)

    def bound(connection: sqlite3.Connection, _: object) -> None:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")

    engine = kept._catalogue.engine
    sa.event.listen(engine, "connect", bound)
    with pytest.raises(TraceroofError, match="there is no room left in the store in") as full:
        worker["add"](kept, 2, notes=1000)  # some 40 kB for the catalogue
    assert str(folder) in full.value.message
    assert "are free" in full.value.message
    assert [info.id for info in kept.runs()] == [run] == folders(folder)
    assert incoming(folder) == []
    sa.event.remove(engine, "connect", bound)
    worker["add"](kept, 2, notes=1000)
    assert len(kept.runs()) == 2


def test_a_full_disk_is_an_error_and_leaves_no_trace(tmp_path: Path) -> None:
    inside = ["unshare", "--mount", "--map-root-user"]
    mount = [*inside, "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)]
    if not shutil.which("unshare") or subprocess.run(mount, check=False).returncode:
        pytest.skip("this system lets us mount no file system")
    done = subprocess.run(
        [*inside, sys.executable, str(WORKER), "fill", str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=120,
    )
    *outcomes, frozen = json.loads(done.stdout)
    old = frozen["runs"]
    failed = [outcome for outcome in outcomes if "error" in outcome]
    # 8,000 rows of noise need more than 64 kB (8 bytes a row for the doubles), less than 400 kB.
    assert {outcome["rest"] for outcome in failed} >= {0, 4096, 8192, 16384, 32768, 65536}
    assert "result" in outcomes[-1]
    for outcome in outcomes:
        new = [outcome["result"]] if "result" in outcome else []
        assert outcome["runs"] == [*new, *old]
        assert outcome["folders"] == sorted(outcome["runs"])
        assert outcome["incoming"] == []
    for outcome in failed:
        assert "no room left in the store" in outcome["error"], outcome
        assert "are free" in outcome["error"]
    assert any("the run needs 1" in outcome["error"] for outcome in failed)
    assert "cannot be written" in frozen["error"]


def test_a_store_that_we_may_only_read_is_read(worker: dict[str, Any]) -> None:
    # Not below tmp_path, where another user may not look.
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        folder = Path(place) / "store"
        try:
            run = worker["add"](Store.open(folder), 1)
            for root, names, files in os.walk(folder):
                for name in [*names, *files]:
                    os.chmod(Path(root) / name, 0o555 if name in names else 0o444)
            os.chmod(folder, 0o555)
            before = sorted(folder.rglob("*"))
            outcome = run_worker("as-nobody", folder)
            assert sorted(folder.rglob("*")) == before
        finally:
            os.chmod(folder, 0o755)
            for root, names, _ in os.walk(folder):
                for name in names:
                    os.chmod(Path(root) / name, 0o755)
    assert outcome["runs"] == [run]
    assert outcome["read"] is True
    for what in ("add", "again", "remove", "baseline"):
        assert "cannot be written" in outcome[what]["error"], what
        assert "--store" in outcome[what]["hint"]
    assert "Permission denied" in outcome["new"]["error"]


# The digest


def test_the_digest_is_of_contents(tmp_path: Path) -> None:
    def file(name: str, content: bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    a, same, b = file("a", b"1"), file("elsewhere/b.csv", b"1"), file("b", b"2")
    assert len(digest_of([a])) == 64
    assert digest_of([a]) == digest_of([same]) != digest_of([b])
    assert digest_of([a, b]) == digest_of([b, a]) != digest_of([a])
    assert digest_of([a, same]) != digest_of([a])
    for folder in "xy":
        file(f"{folder}/r0/t.csv", b"1")
        file(f"{folder}/r1.csv", b"2")
    x, y = tmp_path / "x", tmp_path / "y"
    assert digest_of([x]) == digest_of([y])
    (y / "r1.csv").rename(y / "r2.csv")
    assert digest_of([x]) != digest_of([y])
    (y / "r2.csv").rename(y / "r1.csv")
    (y / "loop").symlink_to(y)
    (y / "nowhere").symlink_to(tmp_path / "not there")
    assert digest_of([x]) == digest_of([y])
    # SHA-256 of 'file' and the SHA-256 of '1', sorted (one), and hashed again
    one = sha256(b"file" + sha256(b"1").digest()).digest()
    assert digest_of([a]) == sha256(one).hexdigest()


def test_what_cannot_be_digested_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceroofError, match=r"absent\.csv cannot be read: No such file"):
        digest_of([tmp_path / "absent.csv"])
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TraceroofError, match="pipe is neither a file nor a folder"):
        digest_of([tmp_path / "pipe"])
