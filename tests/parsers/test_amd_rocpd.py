"""rocpd databases with counters, several runs in one file, and secrets that must stay in it."""

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.parsers.amd_fixtures import claims, kernels, notes, raw, read
from traceroof.core.kernel_table import launches, total_time_ns
from traceroof.core.recording import Recording
from traceroof.errors import TraceroofError
from traceroof.parser import Options, silent
from traceroof.parsers import rocpd

SECRET = "hf_PLANTED_do_not_leak_7Qz"

# The tables of schema version 3 that a trace with counters fills, with the columns that matter.
# Column names: the DDL of rocprofiler-sdk (rocpd_tables.sql).
OWN_SCHEMA = """
CREATE TABLE "rocpd_metadata{uuid}" (id INTEGER PRIMARY KEY, tag TEXT, value TEXT);
CREATE TABLE "rocpd_string{uuid}" (id INTEGER PRIMARY KEY, guid TEXT DEFAULT '{guid}', string TEXT);
CREATE TABLE "rocpd_info_node{uuid}" (id INTEGER PRIMARY KEY, guid TEXT DEFAULT '{guid}',
  hash BIGINT, machine_id TEXT);
CREATE TABLE "rocpd_info_process{uuid}" (id INTEGER PRIMARY KEY, guid TEXT DEFAULT '{guid}',
  nid INTEGER, pid INTEGER, command TEXT, environment TEXT DEFAULT '{{}}', extdata TEXT);
CREATE TABLE "rocpd_info_thread{uuid}" (id INTEGER PRIMARY KEY, guid TEXT DEFAULT '{guid}',
  nid INTEGER, pid INTEGER, tid INTEGER);
CREATE TABLE "rocpd_info_agent{uuid}" (id INTEGER PRIMARY KEY, guid TEXT DEFAULT '{guid}',
  nid INTEGER, pid INTEGER, type TEXT, absolute_index INTEGER, type_index INTEGER, uuid INTEGER,
  name TEXT, product_name TEXT, extdata TEXT DEFAULT '{{}}');
CREATE TABLE "rocpd_info_code_object{uuid}" (id INTEGER PRIMARY KEY,
  guid TEXT DEFAULT '{guid}', nid INTEGER, pid INTEGER);
CREATE TABLE "rocpd_info_kernel_symbol{uuid}" (id INTEGER PRIMARY KEY,
  guid TEXT DEFAULT '{guid}', nid INTEGER, pid INTEGER, code_object_id INTEGER, kernel_name TEXT,
  display_name TEXT, sgpr_count INTEGER, arch_vgpr_count INTEGER, accum_vgpr_count INTEGER);
CREATE TABLE "rocpd_info_queue{uuid}" (id INTEGER PRIMARY KEY, guid TEXT DEFAULT '{guid}',
  nid INTEGER, pid INTEGER, name TEXT);
CREATE TABLE "rocpd_info_stream{uuid}" (id INTEGER PRIMARY KEY, guid TEXT DEFAULT '{guid}',
  nid INTEGER, pid INTEGER, name TEXT);
CREATE TABLE "rocpd_info_pmc{uuid}" (id INTEGER PRIMARY KEY, guid TEXT DEFAULT '{guid}',
  nid INTEGER, pid INTEGER, agent_id INTEGER, name TEXT, symbol TEXT);
CREATE TABLE "rocpd_event{uuid}" (id INTEGER PRIMARY KEY, guid TEXT DEFAULT '{guid}',
  category_id INTEGER, stack_id INTEGER, parent_stack_id INTEGER, correlation_id INTEGER);
CREATE TABLE "rocpd_pmc_event{uuid}" (id INTEGER PRIMARY KEY, guid TEXT DEFAULT '{guid}',
  event_id INTEGER, pmc_id INTEGER, value REAL);
CREATE TABLE "rocpd_region{uuid}" (id INTEGER PRIMARY KEY, guid TEXT DEFAULT '{guid}',
  nid INTEGER, pid INTEGER, tid INTEGER, start BIGINT, "end" BIGINT, name_id INTEGER,
  event_id INTEGER);
CREATE TABLE "rocpd_memory_copy{uuid}" (id INTEGER PRIMARY KEY, guid TEXT DEFAULT '{guid}',
  nid INTEGER, pid INTEGER, tid INTEGER, start BIGINT, "end" BIGINT, name_id INTEGER,
  dst_agent_id INTEGER, src_agent_id INTEGER, size INTEGER, stream_id INTEGER, event_id INTEGER);
CREATE TABLE "rocpd_kernel_dispatch{uuid}" (id INTEGER PRIMARY KEY, guid TEXT DEFAULT '{guid}',
  nid INTEGER, pid INTEGER, tid INTEGER, agent_id INTEGER, kernel_id INTEGER,
  dispatch_id INTEGER, queue_id INTEGER, stream_id INTEGER, start BIGINT, "end" BIGINT,
  private_segment_size INTEGER, group_segment_size INTEGER, workgroup_size_x INTEGER,
  workgroup_size_y INTEGER, workgroup_size_z INTEGER, grid_size_x INTEGER, grid_size_y INTEGER,
  grid_size_z INTEGER, region_name_id INTEGER, event_id INTEGER);
"""

AGENT = {
    "cu_count": 304, "num_xcc": 8, "max_engine_clk_fcompute": 2100, "gfx_target_version": 90402,
    "device_id": 29857, "num_shader_banks": 32, "max_waves_per_cu": 32,
}  # fmt: skip


class Writer:
    """Fills one run of a database, by column names."""

    def __init__(self, path: Path, schema: str, run: str) -> None:
        self.connection = sqlite3.connect(path)
        self.uuid = f"_{run}_92cb_72cb_9169_c7e541b1fcdf"
        self.guid = self.uuid[1:].replace("_", "-")
        own = schema is OWN_SCHEMA
        text = (
            schema.format(uuid=self.uuid, guid=self.guid)
            if own
            else schema.replace("{{uuid}}", self.uuid).replace("{{guid}}", self.guid)
        )
        self.connection.executescript(text)
        self.connection.execute("PRAGMA foreign_keys = OFF")
        self.add("info_node", id=1, hash=int(run, 16), machine_id=f"m{run}")
        self.add(
            "info_process", id=1, nid=1, pid=4711, command=f"./a.out --token={SECRET}",
            environment=json.dumps({"HF_TOKEN": SECRET, "PATH": "/bin"}), extdata="{}",
        )  # fmt: skip
        self.add("info_thread", id=1, nid=1, pid=1, tid=4712)
        self.add("info_agent", id=0, nid=1, pid=1, type="CPU", absolute_index=0, type_index=0, uuid=0, name="EPYC", product_name="EPYC", extdata="{}")  # fmt: skip
        self.add("info_agent", id=2, nid=1, pid=1, type="GPU", absolute_index=2, type_index=0, uuid=29857, name="gfx942", product_name="AMD Instinct MI300X", extdata=json.dumps(AGENT))  # fmt: skip
        self.add("info_code_object", id=1, nid=1, pid=1)
        self.add("info_kernel_symbol", id=7, nid=1, pid=1, code_object_id=1, kernel_name="_Z1fi.kd", display_name=f"f(int) of {run}", sgpr_count=112, arch_vgpr_count=128, accum_vgpr_count=384)  # fmt: skip
        self.add("info_queue", id=1, nid=1, pid=1, name="Queue 0")
        self.add("info_stream", id=0, nid=1, pid=1, name="Default Stream")
        for number, name in enumerate(("KERNEL_DISPATCH", "HIP_RUNTIME_API", "hipLaunchKernel", "MARKER_CORE_API", "step 1", "MEMORY_COPY_HOST_TO_DEVICE"), 1):  # fmt: skip
            self.add("string", id=number, string=name)
        for number, name in enumerate(("TCC_HIT_sum", "TCC_MISS_sum", "GRBM_GUI_ACTIVE"), 1):
            self.add("info_pmc", id=number, nid=1, pid=1, agent_id=2, name=name, symbol=name)

    def add(self, table: str, **values: Any) -> None:
        names = ", ".join(f'"{name}"' for name in values)
        marks = ", ".join("?" * len(values))
        self.connection.execute(
            f'INSERT INTO "rocpd_{table}{self.uuid}" ({names}) VALUES ({marks})',
            tuple(values.values()),
        )

    def dispatch(self, number: int, event: int, start: int, end: int, **more: Any) -> None:
        self.add("event", id=event, category_id=1, stack_id=100 + number, parent_stack_id=100 + number, correlation_id=0)  # fmt: skip
        self.add(
            "kernel_dispatch", **(
                {"nid": 1, "pid": 1, "tid": 1, "agent_id": 2, "kernel_id": 7, "dispatch_id": number,
                 "queue_id": 1, "stream_id": 0, "start": start, "end": end, "private_segment_size": 0,
                 "group_segment_size": 65536, "workgroup_size_x": 256, "workgroup_size_y": 1,
                 "workgroup_size_z": 1, "grid_size_x": 512, "grid_size_y": 128, "grid_size_z": 1,
                 "region_name_id": None, "event_id": event} | more
            ),
        )  # fmt: skip

    def count(self, event: int, counter: int, *values: float) -> None:
        for value in values:
            self.add("pmc_event", event_id=event, pmc_id=counter, value=value)

    def close(self) -> None:
        self.connection.commit()
        self.connection.close()


@pytest.fixture(params=["own", pytest.param("published", marks=pytest.mark.corpus)])
def schema(request: pytest.FixtureRequest) -> Iterator[str]:
    """The tables that we need, and the DDL as it is published."""
    if request.param == "own":
        yield OWN_SCHEMA
        return
    corpus: Path = request.getfixturevalue("corpus")
    yield (corpus / "other/rocpd/rocpd_tables.sql").read_text()


def write_counted(path: Path, schema: str) -> None:
    """Two dispatches; the first was replayed three times, the second ran once."""
    run = Writer(path, schema, "00003fdc")
    run.dispatch(1, 11, 1_000, 11_000)
    run.dispatch(1, 12, 20_000, 32_000)
    run.dispatch(1, 13, 40_000, 51_000)
    run.dispatch(2, 14, 60_000, 65_000)
    # Instances of one counter in one run are added up: 8 dies of 100 cycles.
    run.count(11, 3, *[100.0] * 8)
    run.count(12, 1, 20.0, 10.0)
    run.count(12, 2, 10.0)
    run.count(13, 3, *[110.0] * 8)
    run.count(14, 1, 1.0)
    run.count(14, 2, 3.0)
    run.close()


def test_a_run_that_stands_there_twice_is_one_measurement(tmp_path: Path) -> None:
    """GIVEN the second of three runs of a dispatch twice WHEN read THEN the middle is that of three
    (10, 12 and 11 us), with a note."""
    path = tmp_path / "28_results.db"
    write_counted(path, OWN_SCHEMA)
    with closing(sqlite3.connect(path)) as database:
        (table,) = database.execute(
            "SELECT name FROM sqlite_master WHERE name LIKE 'rocpd_kernel_dispatch%'"
        ).fetchone()
        columns = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]
        names = ", ".join(f'"{one}"' for one in columns if one != "id")
        database.execute(
            f'INSERT INTO "{table}" ({names}) SELECT {names} FROM "{table}" WHERE id = 2'
        )
        database.commit()
    recording = read(path)
    assert kernels(recording)["duration_ns"].tolist() == [11_000, 5_000]
    assert any("stand in the file twice" in note.text for note in recording.notes)


def test_a_replayed_dispatch_counts_once(schema: str, tmp_path: Path) -> None:
    path = tmp_path / "28_results.db"
    write_counted(path, schema)
    recording = read(path)
    frame = kernels(recording)
    assert recording.time_basis == "counter-tool"
    assert launches(recording.kernels) == 2
    assert frame["launch_id"].tolist() == [1, 2]
    # 10, 12 and 11 microseconds: the middle.
    assert frame["duration_ns"].tolist() == [11_000, 5_000]
    assert total_time_ns(recording.kernels) == 16_000
    assert frame["l2_hit_pct"].tolist() == [75, 25]
    assert raw(recording, "TCC_HIT_sum") == [30, 1]
    # Two runs had the cycle counter: both values are kept, neither is added to the other.
    assert sorted(raw(recording, "GRBM_GUI_ACTIVE")) == [800, 880]
    assert any("ran several times" in note for note in notes(recording))
    first = frame.iloc[0]
    assert first["kernel_name"] == "f(int) of 00003fdc"
    assert (first["grid_x"], first["grid_y"], first["block_x"]) == (2, 128, 256)
    assert (first["registers_per_thread"], first["accumulation_registers_per_thread"]) == (128, 384)
    assert (first["device"], first["process_id"]) == (0, 4711)
    assert recording.devices[0].pci_device_id == 29857


def test_events_of_another_run_are_not_mixed_in(schema: str, tmp_path: Path) -> None:
    # Merged databases: the same ids in both runs, told apart by guid and by table name.
    path = tmp_path / "merged.db"
    for run, value in (("00003fdc", 30.0), ("00004abc", 99.0)):
        one = Writer(path, schema, run)
        one.dispatch(1, 11, 1_000, 11_000)
        one.count(11, 1, value)
        one.close()
    recording = read(path)
    frame = kernels(recording)
    assert frame["kernel_name"].tolist() == ["f(int) of 00003fdc", "f(int) of 00004abc"]
    assert raw(recording, "TCC_HIT_sum") == [30, 99]
    assert len(recording.sources) == 1
    assert recording.sources[0].launches == 2


def test_host_calls_ranges_and_copies(schema: str, tmp_path: Path) -> None:
    path = tmp_path / "28_results.db"
    run = Writer(path, schema, "00003fdc")
    run.dispatch(1, 11, 1_000, 11_000)
    run.add("event", id=1, category_id=2, stack_id=101, parent_stack_id=0, correlation_id=0)
    run.add("event", id=2, category_id=4, stack_id=3, parent_stack_id=0, correlation_id=0)
    run.add("region", nid=1, pid=1, tid=1, start=500, end=560, name_id=3, event_id=1)
    run.add("region", nid=1, pid=1, tid=1, start=400, end=12_000, name_id=5, event_id=2)
    run.add("memory_copy", nid=1, pid=1, tid=1, start=100, end=300, name_id=6, dst_agent_id=2, src_agent_id=0, size=4096, stream_id=0)  # fmt: skip
    run.close()
    recording = read(path)
    row = kernels(recording).iloc[0]
    assert recording.time_basis == "timeline"
    assert (row["host_launch_ns"], row["host_launch_duration_ns"]) == (500, 60)
    call = recording.host_calls.to_pylist()[0]
    assert (call["name"], call["process_id"], call["thread_id"]) == ("hipLaunchKernel", 4711, 4712)
    assert [one["name"] for one in recording.spans.to_pylist()] == ["step 1"]
    copy = recording.kernels.to_pandas().query("kind == 'memcpy'").iloc[0]
    assert (copy["copy_kind"], copy["copy_bytes"], copy["duration_ns"]) == ("HtoD", 4096, 200)


def everything(recording: Recording) -> str:
    """All text that a recording holds."""
    tables = (recording.kernels, recording.raw_metrics, recording.host_calls, recording.spans)
    return json.dumps(
        [[str(one.to_pylist()) for one in tables], str(recording.sources), str(recording.devices)]
    )


def test_the_environment_never_leaves_the_file(schema: str, tmp_path: Path) -> None:
    path = tmp_path / "28_results.db"
    write_counted(path, schema)
    assert SECRET.encode() in path.read_bytes()
    assert SECRET not in everything(read(path))
    # Nor in what is said about a damaged file.
    data = path.read_bytes()
    for cut in range(1, 10):
        path.write_bytes(data[: len(data) * cut // 10])
        try:
            assert SECRET not in everything(rocpd.PARSER.read(path, silent, Options()))
        except TraceroofError as refused:
            assert SECRET not in str(refused)  # noqa: PT017 - both outcomes are right


def test_views_are_never_run(tmp_path: Path) -> None:
    path = tmp_path / "28_results.db"
    write_counted(path, OWN_SCHEMA)
    with closing(sqlite3.connect(path)) as connection, connection:
        # Views under the names that a merged file gives its unions.
        for name in ("kernel_dispatch", "info_agent", "string"):
            connection.execute(
                f'CREATE VIEW "rocpd_{name}" AS SELECT environment AS string, 1 AS id, 1 AS guid '
                'FROM "rocpd_info_process_00003fdc_92cb_72cb_9169_c7e541b1fcdf"'
            )
    connection.close()
    recording = read(path)
    assert launches(recording.kernels) == 2
    assert SECRET not in everything(recording)


def test_the_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "28_results.db"
    write_counted(path, OWN_SCHEMA)
    before = path.read_bytes()
    path.chmod(0o444)
    read(path)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_an_unfinished_database_with_a_journal_is_read(tmp_path: Path) -> None:
    path = tmp_path / "28_results.db"
    write_counted(path, OWN_SCHEMA)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    table_name = "rocpd_kernel_dispatch_00003fdc_92cb_72cb_9169_c7e541b1fcdf"
    connection.execute(
        f'INSERT INTO "{table_name}" (id, nid, pid, agent_id, kernel_id, dispatch_id, start, "end") '
        "VALUES (99, 1, 1, 2, 7, 3, 70000, 71000)"
    )
    connection.commit()
    try:
        assert launches(read(path).kernels) == 3
    finally:
        connection.close()


def test_a_packed_database(tmp_path: Path) -> None:
    import gzip

    path = tmp_path / "plain.db"
    write_counted(path, OWN_SCHEMA)
    packed = tmp_path / "28_results.db.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert claims(packed) == {"rocpd": 2}
    assert launches(read(packed).kernels) == 2


def test_kernels_without_a_name_are_kept_and_noted(tmp_path: Path) -> None:
    path = tmp_path / "28_results.db"
    run = Writer(path, OWN_SCHEMA, "00003fdc")
    run.dispatch(1, 11, 1_000, 11_000, kernel_id=555)
    run.dispatch(2, 12, 1_000, 900)
    run.close()
    recording = read(path)
    assert kernels(recording)["kernel_name"].tolist()[0] == "(unknown kernel)"
    assert kernels(recording)["duration_ns"].isna().tolist() == [False, True]
    assert any("without a name" in note for note in notes(recording))
    assert any("end before they begin" in note for note in notes(recording))


def test_a_database_without_activity_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "28_results.db"
    Writer(path, OWN_SCHEMA, "00003fdc").close()
    with pytest.raises(TraceroofError, match="without kernel dispatches"):
        read(path)


def test_passes_in_databases_of_a_folder(tmp_path: Path) -> None:
    # ROCm 7 writes a database for every pass of a run by default.
    for place, (counter, value) in enumerate(((1, 30.0), (2, 10.0)), start=1):
        path = tmp_path / f"pmc_{place}/host/{place}_results.db"
        path.parent.mkdir(parents=True)
        run = Writer(path, OWN_SCHEMA, "00003fdc")
        run.dispatch(1, 11, 1_000, 11_000)
        run.count(11, counter, value)
        run.close()
    recording = read(tmp_path)
    assert recording.format == "rocprofv3-csv"
    assert launches(recording.kernels) == 1
    assert raw(recording, "TCC_HIT_sum") == [30]
    assert raw(recording, "TCC_MISS_sum") == [10]


def test_other_databases_are_not_ours(tmp_path: Path) -> None:
    for name, ddl in (
        ("nsys", "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT)"),
        ("catalogue", "CREATE TABLE runs (id TEXT)"),
        ("half", "CREATE TABLE rocpd_kernel_dispatch (id INT)"),
    ):
        path = tmp_path / f"{name}.db"
        connection = sqlite3.connect(path)
        connection.execute(ddl)
        connection.commit()
        connection.close()
        assert claims(path) == {}
    assert re.match("SQLite format 3", path.read_bytes()[:15].decode())
