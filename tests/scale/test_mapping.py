"""Many files: the same diagnosis whatever runs the map, and whatever becomes of single files."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import traceroof
from tests.scale.ranks import written
from traceroof.core.recording import Run
from traceroof.errors import TraceroofError
from traceroof.ingest import detect
from traceroof.ingest.combine import combine
from traceroof.parser import Options, silent
from traceroof.report.common import json
from traceroof.scale import engines
from traceroof.scale.engines import Done, Engine, cores, jobs_for, processes, run
from traceroof.scale.mapping import Mapping
from traceroof.scale.messages import packed, unpacked
from traceroof.timeline.partial import Partial


def shown(paths: list[Path], **options: object) -> str:
    """The JSON of the diagnosis of some files."""
    found = traceroof.read(paths, **options)
    return json.render(traceroof.diagnose(found, config=False, calibrated=False))


def test_processes_and_a_cluster_give_the_same_bytes(tmp_path: Path) -> None:
    paths = written(tmp_path, 4, late={2: 30})
    here = shown(paths)
    assert shown(paths[::-1], jobs=2) == here
    assert shown(paths[2:] + paths[:2], jobs=2, scheduler="local") == here


def test_files_read_apart_give_what_files_read_together_give(tmp_path: Path) -> None:
    """Without the host's calls at hand the diagnosis is the same as with them."""
    paths = written(tmp_path, 3, late={1: 20})
    whole = combine(detect.read_each(paths, silent, Options()))
    assert whole.host_calls.num_rows == 12
    light = traceroof.read(paths)
    assert light.recording.host_calls.num_rows == 0
    seen = [Run(one, "run") for one in (whole, light.recording)]
    first, second = (
        json.render(traceroof.diagnose(one, config=False, calibrated=False)) for one in seen
    )
    assert first == second


def test_the_rank_that_keeps_the_others_waiting_is_found(tmp_path: Path) -> None:
    """Rank 5 enters both all-reduces 40 µs after the seven others: 2 x 7 x 40 µs of waiting."""
    found = traceroof.diagnose(traceroof.read(written(tmp_path, 8, late={5: 40})), config=False)
    assert found.ranks is not None
    caused = {one.rank: one.caused_ns for one in found.ranks.ranks if one.caused_ns}
    assert caused == {5: 2 * 7 * 40_000}


def test_of_many_files_one_that_cannot_be_read_is_named_and_the_rest_stands(
    tmp_path: Path,
) -> None:
    paths = written(tmp_path, 8)
    paths[3].write_text("{")
    found = traceroof.read(paths, jobs=2)
    assert len(found.recording.sources) == 7
    (note,) = [one for one in found.recording.notes if "rank3.json" in one.text]
    assert note.severe


def test_of_few_files_one_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    paths = written(tmp_path, 2)
    paths[1].write_text("{")
    with pytest.raises(TraceroofError, match=r"rank1\.json"):
        traceroof.read(paths)


def test_files_of_one_gpu_are_looked_at_together(tmp_path: Path) -> None:
    """Two files of one rank and process, one after the other: windows of one timeline each, as
    when both are at hand."""
    paths = written(tmp_path, 1)
    late = tmp_path / "later.json"
    text = paths[0].read_text(encoding="utf-8").replace('"ts": 1', '"ts": 91')
    late.write_text(text.replace('"ts": 2', '"ts": 92'), encoding="utf-8")
    mapping = Mapping()
    recordings = detect.read_each([paths[0], late], silent, Options(), mapping.read)
    settled = mapping.settled(combine(recordings, "ranks"))
    seen = [one for one in settled.summaries if isinstance(one, Partial)]
    assert [one.files for one in seen] == [(0, 1)]


# Engines


@dataclass(frozen=True)
class Fatal:
    """A task that kills its process, as long as a file of this name is there."""

    at: Path
    always: bool = False

    def __call__(self, number: int) -> int:
        if number == 2 and (self.always or self.at.exists()):
            self.at.unlink(missing_ok=True)
            os.kill(os.getpid(), signal.SIGKILL)
        if number == 4:
            raise TraceroofError("four is no file", "give five")
        return number * number


def results(found: list[Done[int]]) -> dict[int, int | str | None]:
    return {
        one.number: str(one.error) if one.error else one.result
        for one in sorted(found, key=lambda one: one.number)
    }


EXPECTED: dict[int, int | str | None] = {
    0: 0, 1: 1, 2: 4, 3: 9, 4: "four is no file. give five", 5: 25
}  # fmt: skip


def test_in_this_process(tmp_path: Path) -> None:
    task = Fatal(tmp_path / "none")
    assert results(list(run(Engine(), task, range(6)))) == EXPECTED


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL there")
def test_a_task_whose_process_was_killed_runs_again(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    mark.touch()
    assert results(list(run(Engine(2), Fatal(mark), range(6)))) == EXPECTED


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL there")
def test_a_task_that_kills_every_process_is_named_and_the_rest_stands(tmp_path: Path) -> None:
    found = results(list(run(Engine(2), Fatal(tmp_path / "x", always=True), range(6))))
    killed = "the process that read it was killed twice (out of memory?)"
    assert found == {**EXPECTED, 2: killed}


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL there")
@pytest.mark.parametrize("always", [False, True])
def test_of_tasks_sent_together_only_the_one_that_kills_is_lost(
    tmp_path: Path, always: bool
) -> None:
    """With two processes, the first of 70 tasks go eight at once. After a death they go one by one."""
    mark = tmp_path / "mark"
    mark.touch()
    found = results(list(run(Engine(2), Fatal(mark, always), range(70), together=8)))
    killed = "the process that read it was killed twice (out of memory?)"
    rest = {number: number * number for number in range(6, 70)}
    assert found == {**EXPECTED, **rest, 2: killed if always else 4}


class Unloadable(Exception):
    """Can be written, and not read again."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")


def unsendable(number: int) -> Any:
    """What two of ten tasks come to cannot be sent to another process."""
    if number == 3:
        return threading.Lock()
    if number == 5:
        raise Unloadable("five", "is odd")
    return number


@pytest.mark.parametrize("engine", [Engine(2), Engine(2, "local")], ids=["processes", "cluster"])
def test_a_result_that_cannot_be_sent_is_lost_alone_and_said(engine: Engine) -> None:
    """With two processes the first of 70 tasks go eight at once."""
    found = {one.number: one for one in run(engine, unsendable, range(70), together=8)}
    assert {number: one.result for number, one in found.items()} == {
        number: None if number in (3, 5) else number for number in range(70)
    }
    assert "what came of it cannot be sent to another process: cannot pickle" in str(found[3].error)
    assert str(found[5].error) == "it failed with Unloadable: five is odd"
    assert not any(one.error for number, one in found.items() if number not in (3, 5))


def test_what_is_sent_together_is_what_was_sent() -> None:
    """A table that others equal, another of the same columns, a column of one value, an empty one."""
    table = pa.table({"a": [1, 2], "b": pa.array(["x", None]).dictionary_encode()})
    other = pa.table({"a": [1, 3], "b": pa.array(["x", None]).dictionary_encode()})
    columns = [np.broadcast_to(np.int64(7), 5), np.arange(5), np.zeros(0, dtype=np.int64)]
    again = pa.table({name: table[name] for name in table.column_names})
    tables, found = unpacked(packed([[table, other, again], columns]))
    assert [one.to_pylist() for one in tables] == [one.to_pylist() for one in (table, other, table)]
    assert [one.schema for one in tables] == [table.schema] * 3
    assert tables[2] is tables[0]
    for one, before in zip(found, columns, strict=True):
        assert (one.dtype, one.tolist()) == (before.dtype, before.tolist())


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGTERM there")
def test_all_processes_end_when_their_body_is_left_early() -> None:
    """Those that wait for a task too: one that stayed waited for a lock of one that was ended."""
    before = set(active_children())
    with suppress(LookupError), processes(3) as pool:
        assert list(pool.map(abs, range(-6, 0))) == [6, 5, 4, 3, 2, 1]
        started = set(active_children()) - before
        raise LookupError
    assert [one.exitcode for one in started] == [-signal.SIGTERM] * 3


def test_processes_do_not_import_pandas() -> None:
    """Arrow imports it at the first list that becomes an array: 0.2 s and 40 MB for each process."""
    asked = "(__import__('pyarrow').array([1]), 'pandas' in __import__('sys').modules)[1]"
    with processes(1) as pool:
        assert not pool.submit(eval, asked).result()


_DRIVER = """
import os, time
from traceroof.scale.engines import Engine, run

if __name__ == "__main__":
    for one in run(Engine(2), os.getpgid, [0, 0]):
        print(one.result, flush=True)
        time.sleep(600)
"""


def is_running(process: str) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text("ascii").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_processes_end_with_the_driver_that_was_killed(tmp_path: Path) -> None:
    script = tmp_path / "driver.py"
    script.write_text(_DRIVER, encoding="utf-8")
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline()
        command = ["ps", "-o", "pid=", "--ppid", str(driver.pid)]
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        driver.kill()
    assert listed
    for process in listed:
        while is_running(process):
            time.sleep(0.05)


def test_a_scheduler_that_does_not_answer_is_said_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engines, "_PATIENCE_SECONDS", 0.2)
    with pytest.raises(TraceroofError, match="no Dask scheduler answers at tcp://127.0.0.1:1"):
        list(run(Engine(2, "tcp://127.0.0.1:1"), Fatal(Path("x")), range(2)))


def test_processes_are_as_many_as_asked_for_else_as_cores_where_that_pays() -> None:
    assert jobs_for(3, 1) == 3
    assert jobs_for(None, 63_999_999) == 1
    assert jobs_for(None, 64_000_000) == cores() >= 1
