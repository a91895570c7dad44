"""Runs that are kept part by part: on disk, and in a real S3 storage with a real PostgreSQL."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from json import loads
from pathlib import Path

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

import traceroof
from tests.scale.ranks import written
from tests.store.conftest import SECRETS
from traceroof.cli.main import app
from traceroof.core.recording import Run
from traceroof.errors import TraceroofError
from traceroof.ingest import remote
from traceroof.ingest.detect import read_file
from traceroof.report.common import json
from traceroof.store import Store
from traceroof.store import parts as part_store
from traceroof.store.staging import new_claim


def shown(run: Run) -> str:
    """The JSON of a diagnosis, whatever the run's id."""
    found = traceroof.diagnose(run, config=False, calibrated=False).to_dict()
    found["run"]["id"] = ""
    return json.render(type("Shown", (), {"to_dict": lambda self, top=None: found})())


@pytest.fixture
def ranks(tmp_path: Path) -> list[Path]:
    return written(tmp_path / "traces", 4, late={2: 30})


def test_a_run_of_ranks_is_kept_file_by_file_and_read_without_what_the_host_did(
    tmp_path: Path, ranks: list[Path]
) -> None:
    run = traceroof.ingest(ranks[::-1], store=tmp_path / "s", config=False)
    kept = Store.open(tmp_path / "s")
    assert len(kept.shelf.names()) == 4
    light, whole = kept.get(), kept.get(keep="all")
    assert light.recording == run.recording
    assert (light.recording.host_calls.num_rows, whole.recording.host_calls.num_rows) == (0, 16)
    assert shown(light) == shown(whole) == shown(traceroof.read(ranks))
    assert traceroof.ingest(ranks, store=tmp_path / "s", config=False).id == run.id
    assert len(kept.runs()) == 1


def test_a_part_of_the_run_is_chosen_with_what_the_host_did(
    tmp_path: Path, ranks: list[Path]
) -> None:
    traceroof.ingest(ranks, store=tmp_path / "s", config=False)
    chosen = CliRunner().invoke(
        app,
        ["diagnose", "--store", str(tmp_path / "s"), "--no-config", "--rank", "2", "-f", "json"],
    )
    assert chosen.exit_code == 0, chosen.output
    (line,) = loads(chosen.stdout)["timelines"]
    assert (line["rank"], line["facts"]["launch_calls"]) == (2, 4.0)


def test_a_second_try_goes_on_where_the_first_was_killed(
    tmp_path: Path, ranks: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver dies when all files are read but the last: the others are not read again."""
    real, count = read_file, []

    def dying(file: Path, *rest: object) -> object:
        if file == ranks[3]:
            raise KeyboardInterrupt
        return real(file, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr("traceroof.scale.mapping.read_file", dying)
    with pytest.raises(KeyboardInterrupt):
        traceroof.ingest(ranks, store=tmp_path / "s", config=False)
    assert Store.open(tmp_path / "s").runs() == []
    assert len(Store.open(tmp_path / "s").shelf.names()) == 3

    def counted(file: Path, *rest: object) -> object:
        count.append(file)
        return real(file, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr("traceroof.scale.mapping.read_file", counted)
    run = traceroof.ingest(ranks, store=tmp_path / "s", config=False)
    assert count == [ranks[3]]
    assert shown(run) == shown(traceroof.read(ranks))


# A writer that is killed when the first file of its part is written.
_KILLED = """
import os, signal, sys
from pathlib import Path
from traceroof.store import staging
from traceroof.store.shelves import LocalShelf

os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)
LocalShelf(Path(sys.argv[1]) / "parts").write("part", {"a": b"a", "part.json": b"{}"})
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL there")
def test_what_a_killed_writer_leaves_goes_with_the_next_run(
    tmp_path: Path, ranks: list[Path]
) -> None:
    store = tmp_path / "s"
    (store / "parts").mkdir(parents=True)
    killed = subprocess.run([sys.executable, "-c", _KILLED, str(store)], check=False)
    assert killed.returncode == -signal.SIGKILL
    (lock,) = (store / "incoming").glob("*.lock")
    assert [one.name for one in lock.with_suffix("").iterdir()] == ["a"]
    # One that is alive is left alone.
    alive = new_claim(store / "incoming")
    alive.folder.mkdir()
    traceroof.ingest(ranks, store=store, config=False)
    assert {*(store / "incoming").iterdir()} == {alive.lock, alive.folder}
    os.close(alive.descriptor)
    assert len([*(store / "parts").iterdir()]) == 4


def test_parts_go_with_their_last_run_and_those_of_dead_writers_after_a_day(
    tmp_path: Path, ranks: list[Path]
) -> None:
    both = traceroof.ingest(ranks, store=tmp_path / "s", config=False)
    some = traceroof.ingest(ranks[:2], store=tmp_path / "s", config=False)
    kept = Store.open(tmp_path / "s")
    kept.remove(both.id)
    assert len(kept.shelf.names()) == 2
    assert shown(kept.get(some.id)) == shown(traceroof.read(ranks[:2]))
    part_store.write(kept.shelf, "orphan", some.recording)
    traceroof.ingest(ranks, store=tmp_path / "s", config=False)
    assert "orphan" in kept.shelf.names()
    long_ago = 1_000_000_000.0
    os.utime(tmp_path / "s" / "parts" / "orphan" / "part.json", (long_ago, long_ago))
    traceroof.ingest(ranks[:3], store=tmp_path / "s", config=False)
    assert "orphan" not in kept.shelf.names()


def test_a_damaged_part_is_said(tmp_path: Path, ranks: list[Path]) -> None:
    traceroof.ingest(ranks, store=tmp_path / "s", config=False)
    kept = Store.open(tmp_path / "s")
    (tmp_path / "s" / "parts" / kept.shelf.names()[0] / "kernels.parquet").write_bytes(b"x")
    with pytest.raises(TraceroofError, match=r"kernels\.parquet is not as it was written"):
        kept.get()


# Object storage


@pytest.fixture
def remote_store(bucket: str, postgresql: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TRACEROOF_CATALOGUE", postgresql)
    return f"{bucket}/store"


def uploaded(bucket: str, paths: list[Path]) -> None:
    place = remote.location_of(f"{bucket}/run")
    for path in paths:
        with place.filesystem.open_output_stream(place.below(path.name).path) as sink:
            sink.write(path.read_bytes())


def test_traces_and_store_in_a_bucket_give_what_files_here_give(
    bucket: str, remote_store: str, ranks: list[Path], postgresql: str
) -> None:
    uploaded(bucket, ranks)
    command = CliRunner(env={"COLUMNS": "120"})
    pattern, there = f"{bucket}/run/rank*.json", ["--store", remote_store, "--no-config"]
    first = command.invoke(app, ["ingest", pattern, "--jobs", "2", *there])
    assert first.exit_code == 0, first.output
    again = command.invoke(app, ["ingest", pattern, *there])
    assert again.stdout == first.stdout
    listed = command.invoke(app, ["runs", *there])
    assert listed.stdout.count("rank0.json+3") == 1
    kept = Store.open(remote_store)
    here = shown(traceroof.read(ranks)).replace(str(ranks[0].parent), f"{bucket}/run")
    assert shown(kept.get()) == here == shown(traceroof.read(pattern))
    one = command.invoke(app, ["diagnose", f"{bucket}/run/rank2.json", *there])
    assert one.exit_code == 0, one.output
    everything = f"{first.output}{again.output}{listed.output}{one.output}"
    engine = sa.create_engine(postgresql)
    with engine.connect() as connection:
        everything += str(connection.execute(sa.text("SELECT * FROM traceroof_runs")).all())
    engine.dispose()
    assert not any(secret in everything for secret in SECRETS.values())
    kept.remove("rank0.json+3")
    assert (kept.runs(), kept.shelf.names()) == ([], [])


def test_a_single_file_is_kept_in_a_bucket_too(remote_store: str, ranks: list[Path]) -> None:
    run = traceroof.ingest(ranks[0], store=remote_store, config=False)
    assert shown(Store.open(remote_store).get(run.id)) == shown(traceroof.read(ranks[0]))


def test_a_store_in_a_bucket_needs_a_catalogue(bucket: str, ranks: list[Path]) -> None:
    with pytest.raises(TraceroofError, match="needs a catalogue of its own") as error:
        traceroof.ingest(ranks, store=f"{bucket}/store", config=False)
    assert "TRACEROOF_CATALOGUE" in error.value.hint


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("s3://traces/none.json", r"s3://traces/none\.json does not exist"),
        ("s3://traces/none*.json", r"no file matches s3://traces/none\*\.json"),
        ("s3://no-bucket/rank*.json", "there is no such bucket"),
    ],
)
def test_what_is_not_there_is_said_in_a_sentence(bucket: str, url: str, says: str) -> None:
    with pytest.raises(TraceroofError, match=says):
        traceroof.read(url)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[BaseHTTPRequestHandler]]:
    """A storage that answers everything with ``status``; 0: not at all."""
    hang = threading.Event()

    class Storage(BaseHTTPRequestHandler):
        status = 503

        def do_GET(self) -> None:
            if not self.status:
                hang.wait(10)
                return
            self.send_response(self.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Storage)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
    remote._filesystem.cache_clear()
    yield Storage
    hang.set()
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (503, "overloaded (503)"),
        (403, "access denied"),
        (404, "does not exist"),
        (0, "timed out"),
    ],
)
def test_a_storage_that_does_not_serve_is_said_in_a_sentence(
    broken: type[BaseHTTPRequestHandler], status: int, says: str
) -> None:
    broken.status = status  # type: ignore[attr-defined]
    with pytest.raises(TraceroofError) as error:
        traceroof.read("s3://traces/rank0.json?timeout=1&attempts=1")
    assert str(error.value).startswith("s3://traces/rank0.json ")
    assert says in error.value.message
    assert not any(secret in str(error.value) for secret in SECRETS.values())


def test_a_url_of_a_file_here_is_read(ranks: list[Path]) -> None:
    found = traceroof.read(f"file://{ranks[0].parent}/rank[0-1].json")
    assert [Path(one.path).name for one in found.recording.sources] == ["rank0.json", "rank1.json"]


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("ftp://host/file", "ftp:// is not a storage that traceroof reads"),
        ("s3://key:hush@bucket/file", "holds credentials"),
        ("s3://bucket/file?colour=red", "colour is not an option of an s3:// URL"),
        ("gs://bucket/file?region=x", "takes no options"),
    ],
)
def test_a_url_that_is_none_is_said(url: str, says: str) -> None:
    with pytest.raises(TraceroofError, match=says) as error:
        remote.location_of(url)
    assert "hush" not in str(error.value)


@pytest.mark.parametrize(
    ("url", "kind"),
    [("gs://bucket/file", "gcs"), ("abfs://box@account.dfs.core.windows.net/file", "abfs")],
)
def test_other_storages_are_resolved_as_arrow_has_them(url: str, kind: str) -> None:
    """That they serve files is not tested: it takes an account."""
    assert remote.location_of(url).filesystem.type_name == kind


def test_hdfs_without_hadoop_is_said_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Arrow says it on a machine without Java."""
    from pyarrow import fs

    class Without:
        @staticmethod
        def from_uri(uri: str) -> object:
            raise OSError("Unable to load libjvm")

    monkeypatch.setattr(fs, "FileSystem", Without)
    remote._filesystem.cache_clear()
    with pytest.raises(TraceroofError) as error:
        traceroof.read("hdfs://namenode:8020/traces/rank0.json")
    assert error.value.message == (
        "hdfs:// needs Hadoop's libhdfs and Java, which are not found here: Unable to load libjvm"
    )
    assert "JAVA_HOME" in error.value.hint


def test_a_trace_for_perfetto_shows_what_the_host_did(tmp_path: Path, ranks: list[Path]) -> None:
    traceroof.ingest(ranks, store=tmp_path / "s", config=False)
    file = tmp_path / "out.json"
    traceroof.export(None, file, store=tmp_path / "s", config=False)
    assert file.read_text(encoding="utf-8").count("cudaLaunchKernel") == 16
