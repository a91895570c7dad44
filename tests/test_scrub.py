"""Scrubbed copies: they read the same, and hold nothing of who recorded them and where."""

import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from tests.parsers.nsys_fixtures import PROCESS, Writer
from tests.parsers.test_amd_rocpd import OWN_SCHEMA, write_counted
from tests.parsers.test_amd_rocpd import SECRET as ROCPD_SECRET
from traceroof.cli.main import app
from traceroof.core.recording import Recording
from traceroof.errors import TraceroofError
from traceroof.ingest import detect
from traceroof.scrub import scrub
from traceroof.scrub.texts import Redactor

SECRET = "hf_planted0123456789abcdefghijklmnop"
USER, HOST = "jdoe42", "node17.cluster.example"


def same(one: Recording, other: Recording, but: tuple[str, ...] = ()) -> None:
    """The same rows, whatever the order of dictionaries; texts of some columns may differ."""
    for name in ("kernels", "host_calls", "spans", "raw_metrics"):
        a, b = getattr(one, name), getattr(other, name)
        assert _plain(a.drop_columns([c for c in but if c in a.column_names])) == _plain(
            b.drop_columns([c for c in but if c in b.column_names])
        )
    assert one.devices == other.devices


def _plain(table: pa.Table) -> list[dict[str, object]]:
    found: list[dict[str, object]] = table.to_pylist()
    return found


def write_nsys(path: Path) -> None:
    made = Writer(path)
    made.gpu()
    made.call("cudaLaunchKernel_v7000", 1_000, 1_400, 5)
    made.kernel("f<int>(int*)", 2_000, 5_000, 5)
    made.range(f"load /home/{USER}/data/train.bin on {HOST}", 0, 9_000)
    made.range("aten::mm, op_id = 4", 900, 1_500)
    made.add("TARGET_INFO_SYSTEM_ENV", name="DeviceEnvironment", nameEnum="E", value=f"TOKEN={SECRET}\nUSER={USER}")  # fmt: skip
    made.add("TARGET_INFO_SYSTEM_ENV", name="Hostname", nameEnum="H", value=HOST)
    made.add("META_DATA_CAPTURE", name="PROCESS_0:ENVIRONMENT_VARIABLE_1", value=SECRET)
    made.add("META_DATA_CAPTURE", name="PROCESS_0:USER_NAME", value=USER)
    made.add("META_DATA_EXPORT", name="EXPORT_HOST", value=HOST)
    made.add("META_DATA_EXPORT", name="EXPORT_PARAM_INPUT_PATH", value=f"/home/{USER}/r.nsys-rep")
    made.add("PROCESSES", globalPid=PROCESS, pid=4711, name=f"/home/{USER}/bin/solver")
    made.add("PROCESSES", globalPid=1, pid=1, name=f"/home/{USER}/.vscode/server")
    made.add("DIAGNOSTIC_EVENT", severity=2, text=f"CUDA: see /home/{USER}/log/cuda.txt")
    made.add("OSRT_FILE_ACCESS_DESCRIPTORS", fileAccessId=1, filePath=f"/data/{SECRET}.bin")
    made.add("SOMETHING_OF_NEXT_YEAR", id=1, note=f"{USER}@{HOST}", blob=SECRET.encode())
    made.add("OSRT_CALLCHAINS", id=1, symbol=made.string(f"/opt/{USER}/lib.so"), stackDepth=0)
    made.string(f"TOKEN={SECRET}")
    # Deleted rows stay in the file until it is packed anew.
    made.add("StringIds", id=999, value=f"deleted {SECRET}")
    made.connection.execute("DELETE FROM StringIds WHERE id = 999")
    made.connection.execute(
        "CREATE TRIGGER evil AFTER UPDATE ON StringIds BEGIN"
        f" INSERT INTO SOMETHING_OF_NEXT_YEAR VALUES (2, '{USER}', NULL); END"
    )
    made.close()


def test_an_nsight_systems_export(tmp_path: Path) -> None:
    path, clean = tmp_path / "report.sqlite", tmp_path / "clean.sqlite"
    write_nsys(path)
    before = path.read_bytes()
    said = scrub(path, clean)
    assert path.read_bytes() == before
    data = clean.read_bytes()
    for word in (SECRET, USER, HOST, "/home/", "vscode"):
        assert word.encode() in before
        assert word.encode() not in data, word
    one, other = detect.read([path]), detect.read([clean])
    same(one, other, but=("module_path", "name"))
    assert other.kernels["module_path"].to_pylist() == ["load train.bin on …"]
    assert other.kernels["operator"].to_pylist() == ["aten::mm"]
    assert [str(note) for note in other.notes] == ["Nsight Systems says: CUDA: see cuda.txt"]
    assert said[0] == "2 rows of META_DATA_CAPTURE"
    # Nothing else lies beside it, and it is refused to write over it.
    assert sorted(one.name for one in tmp_path.iterdir()) == ["clean.sqlite", "report.sqlite"]
    with pytest.raises(TraceroofError, match="exists"):
        scrub(path, clean)


def test_a_rocpd_database(tmp_path: Path) -> None:
    path, clean = tmp_path / "28_results.db", tmp_path / "clean_results.db"
    write_counted(path, OWN_SCHEMA)
    scrub(path, clean)
    assert ROCPD_SECRET.encode() in path.read_bytes()
    assert ROCPD_SECRET.encode() not in clean.read_bytes()
    same(detect.read([path]), detect.read([clean]))


def trace(path: Path, packed: bool = False) -> None:
    events = [
        {"ph": "X", "cat": "kernel", "name": "f(int)", "pid": 0, "tid": 7, "ts": 10, "dur": 5,
         "args": {"device": 0, "stream": 7, "correlation": 1, "grid": [1, 1, 1]}},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": 1,
         "dur": 2, "args": {"correlation": 1}},
        {"ph": "X", "cat": "python_function", "pid": 9, "tid": 9, "ts": 0, "dur": 4,
         "name": f"/home/{USER}/train.py(3): main", "args": {"Python id": 1}},
        {"ph": "X", "cat": "cpu_op", "name": "aten::relu", "pid": 9, "tid": 9, "ts": 0, "dur": 4,
         "args": {"Input Dims": [[1, 2], []], "node": f"{HOST}: ]}}"}},
    ]  # fmt: skip
    text = json.dumps(
        {
            "schemaVersion": 1,
            "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}],
            "job_token": SECRET,
            "traceEvents": events,
            "username": USER,
            "host_name": HOST,
            "distributedInfo": {"rank": 3},
            "traceName": f"/home/{USER}/trace.json",
        },
        indent=1,
    ).encode()
    path.write_bytes(gzip.compress(text) if packed else text)


@pytest.mark.parametrize("packed", [False, True])
def test_a_torch_trace(packed: bool, tmp_path: Path) -> None:
    path = tmp_path / ("trace.json.gz" if packed else "trace.json")
    clean = tmp_path / ("clean.json.gz" if packed else "clean.json")
    trace(path, packed)
    said = scrub(path, clean)
    data = gzip.decompress(clean.read_bytes()) if packed else clean.read_bytes()
    for word in (SECRET, USER, HOST, "/home/"):
        assert word.encode() not in data, word
    found = json.loads(data)
    assert set(found) == {
        "schemaVersion", "deviceProperties", "traceEvents", "distributedInfo", "traceName",
    }  # fmt: skip
    assert found["traceName"] == "trace.json"
    assert found["traceEvents"][2]["name"] == "train.py(3): main"
    assert said[0] == "metadata: host_name, job_token, username"
    # The line of the program is named without the folders it lies in.
    same(detect.read([path]), detect.read([clean]), but=("source_line",))
    assert _plain(detect.read([clean]).kernels)[0]["source_line"] == "train.py(3): main"


def test_what_is_not_known_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("ID,Kernel Name\n")
    with closing(sqlite3.connect(tmp_path / "b.db")) as database:
        database.execute("CREATE TABLE notes (text)")
    for name in ("a.csv", "b.db", "missing"):
        with pytest.raises(TraceroofError):
            scrub(tmp_path / name, tmp_path / "clean")
    (tmp_path / "c.json").write_text('{"schemaVersion": 1, "traceEvents": [{"ph": "X"')
    with pytest.raises(TraceroofError, match="cut short"):
        scrub(tmp_path / "c.json", tmp_path / "clean")
    assert not (tmp_path / "clean").exists()


def test_the_command(tmp_path: Path) -> None:
    trace(tmp_path / "trace.json")
    result = CliRunner().invoke(
        app, ["scrub", str(tmp_path / "trace.json"), "-o", str(tmp_path / "clean.json")]
    )
    assert result.exit_code == 0
    assert "removed metadata" in result.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/jdoe42/src/a.cu:12", "a.cu:12"),
        ("see file:///home/jdoe42/a.txt", "see a.txt"),
        ("cd /home/jdoe42", "cd "),
        (r"C:\Users\jdoe42\a.cu", "a.cu"),
        (r'"name": "\/home\/jdoe42\/a.py(3): f"', '"name": "a.py(3): f"'),
        ("jdoe42@node17", "…@node17"),
        ("jdoe421", "jdoe421"),  # another word
        ("/nfs7/me/run.py(3): f", "run.py(3): f"),
        # No folders: layers of a model, names of operators, fractions, C++.
        ("/conv1/Conv + /relu/Relu", "/conv1/Conv + /relu/Relu"),
        ("jit(f)/jit(main)/dot_general", "jit(f)/jit(main)/dot_general"),
        ("iter 9/_ZN5a", "iter 9/_ZN5a"),
        ("torch/nn/modules/linear.py(114): forward", "torch/nn/modules/linear.py(114): forward"),
        ("void f<a::b, 1>(float const*)", "void f<a::b, 1>(float const*)"),
    ],
)
def test_folders_and_names_in_texts(text: str, expected: str) -> None:
    assert Redactor([USER, "root"])(text) == expected


@pytest.mark.corpus
def test_real_exports_read_the_same(corpus: Path, tmp_path: Path) -> None:
    """GIVEN real exports WHEN scrubbed THEN they read the same, and no folder is left in them."""
    for name in (
        "2025.3.1_s3.20.2_T4_cupy_nvtx__nsightful.sqlite",
        "2026.1.1_s3.24.14_4060Ti_streams1__test-cuda.sqlite",
        "2023.1.2_s3.1.2_RTX3090x_nvtx__memfusion.sqlite",
    ):
        path, clean = corpus / "nsys" / name, tmp_path / name
        scrub(path, clean)
        same(detect.read([path]), detect.read([clean]))
        data = clean.read_bytes()
        assert b"/home/" not in data
        assert b"/usr/" not in data
        with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as database:
            rows = database.execute("SELECT value FROM TARGET_INFO_SYSTEM_ENV").fetchall()
        for (text,) in rows:
            for line in str(text).splitlines():
                value = line.partition("=")[2]
                if len(value) > 24:
                    assert value.encode() not in data
