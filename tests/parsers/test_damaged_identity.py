"""A damaged process, agent, number or name in any AMD format: no launch more, none less, a note."""

import csv
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.parsers.amd_fixtures import V3_AGENTS, V3_COUNTER_HEADER, table, v3_counter
from tests.parsers.amd_writers import WRITERS
from traceroof.core.recording import Recording
from traceroof.ingest.detect import read
from traceroof.timeline import timelines

US = 1_000
START = 7_000_000_000_000
LAUNCHES = [("copy_k(float*)" if at % 2 else "gemm_k(float*)", START + at * 500 * US,
             START + at * 500 * US + 200 * US) for at in range(12)]  # fmt: skip


def holds(recording: Recording) -> None:
    """Twelve launches of 200 us on one GPU, and one severe note on one of them."""
    assert recording.kernels["duration_ns"].to_pylist() == [200 * US] * 12
    assert [note.count for note in recording.notes if note.severe] == [1]
    found = timelines(recording, ["other"] * 12)
    assert [one.busy_ns for one in found] in ([12 * 200 * US], [])  # a counter tool has none


@pytest.mark.parametrize("value", ["", "x", "-"])
@pytest.mark.parametrize(
    ("tool", "column"),
    [
        ("rocprofv3_csv", "Agent_Id"), ("rocprofv3_csv", "Dispatch_Id"),
        ("rocprofv2_csv", "GPU_ID"), ("rocprofv2_csv", "Dispatch_ID"), ("rocprofv2_csv", "PID"),
        ("rocprof_v1_csv", "gpu-id"), ("rocprof_v1_csv", "Index"), ("rocprof_v1_csv", "pid"),
        ("rocprof_compute", "GPU_ID"), ("rocprof_compute", "Dispatch_ID"),
        ("hipprof_csv", "gpu-id"), ("hipprof_csv", "Index"),
    ],
)  # fmt: skip
def test_a_cell_of_a_table(tool: str, column: str, value: str, tmp_path: Path) -> None:
    written = WRITERS[tool](tmp_path, LAUNCHES)
    path = written / "pmc_perf.csv" if written.is_dir() else written
    rows = list(csv.reader(path.read_text().splitlines()))
    rows[6][rows[0].index(column)] = value
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    holds(read([written]))


@pytest.mark.parametrize("tool", ["rocprofv3_csv", "rocprofv2_csv", "rocprof_v1_csv"])
def test_a_name_that_is_gone(tool: str, tmp_path: Path) -> None:
    rows: list[Any] = [*LAUNCHES]
    rows[5] = ("", *rows[5][1:])
    holds(read([WRITERS[tool](tmp_path, rows)]))


@pytest.mark.parametrize("agent", ["Agent 9", "99"])
def test_an_agent_that_is_not_listed(agent: str, tmp_path: Path) -> None:
    """GIVEN a list of agents, and one row of one that is none of it THEN no second GPU."""
    path = WRITERS["rocprofv3_csv"](tmp_path, LAUNCHES)
    lines = path.read_text().splitlines()
    lines[6] = lines[6].replace("Agent 2", agent)
    path.write_text("\n".join(lines) + "\n")
    (tmp_path / "7_agent_info.csv").write_text(V3_AGENTS)
    holds(read([tmp_path]))


@pytest.mark.parametrize(
    "damage",
    [{"agent_id": {"handle": 77}}, {"agent_id": None}, {"kernel_id": 77}, {"dispatch_id": None}],
    ids=str,
)
def test_a_value_of_rocprofv3_json(damage: dict[str, Any], tmp_path: Path) -> None:
    path = WRITERS["rocprofv3_json"](tmp_path, LAUNCHES)
    document = json.loads(path.read_text())
    records = document["rocprofiler-sdk-tool"][0]["buffer_records"]["kernel_dispatch"]
    records[5]["dispatch_info"].update(damage)
    path.write_text(json.dumps(document))
    holds(read([path]))


ROCPD = '"rocpd_kernel_dispatch_00003fdc_92cb_72cb_9169_c7e541b1fcdf"'


@pytest.mark.parametrize(
    ("tool", "statement"),
    [
        ("rocpd", f"UPDATE {ROCPD} SET agent_id = 99 WHERE dispatch_id = 6"),
        ("rocpd", f"UPDATE {ROCPD} SET agent_id = NULL WHERE dispatch_id = 6"),
        ("rocpd", f"UPDATE {ROCPD} SET pid = 99 WHERE dispatch_id = 6"),
        ("rocpd", f"UPDATE {ROCPD} SET kernel_id = 9999 WHERE dispatch_id = 6"),
        ("rocpd", f"UPDATE {ROCPD} SET dispatch_id = NULL WHERE dispatch_id = 6"),
        ("rpd", "UPDATE rocpd_op SET gpuId = 'x' WHERE id = 6"),
        ("rpd", "UPDATE rocpd_op SET description_id = 777 WHERE id = 6"),
        ("rocprof_v1_db", """UPDATE OPS SET "dev-id" = 'x' WHERE "Index" = 6"""),
        ("rocprof_v1_db", 'UPDATE OPS SET Name = NULL WHERE "Index" = 6'),
        ("hipprof_db", "UPDATE HIPOPS_9 SET dev_id = NULL WHERE _Index = 6"),
        ("hipprof_db", "UPDATE HIPOPS_9 SET Name = 777 WHERE _Index = 6"),
    ],
)
def test_a_value_of_a_database(tool: str, statement: str, tmp_path: Path) -> None:
    path = WRITERS[tool](tmp_path, LAUNCHES)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)
    connection.close()
    holds(read([path]))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("Process_Id", "78"), ("Process_Id", "x"), ("Dispatch_Id", "999"), ("Dispatch_Id", ""),
        ("Agent_Id", "Agent 9"), ("Kernel_Name", "another(int)"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("counters", [2, 3])
def test_a_row_of_few_counters(column: str, value: str, counters: int, tmp_path: Path) -> None:
    """GIVEN one row of 12 dispatches with two or three counters whose identity is another THEN 12
    launches, though its dispatch has no more rows than it."""
    rows = [
        v3_counter(at + 1, name, 100, start=10**12 + at * 10**4, end=10**12 + at * 10**4 + 1000)
        for at in range(12)
        for name in ("SQ_WAVES", "SQ_INSTS_VALU", "SQ_INSTS_SALU")[:counters]
    ]
    rows[5 * counters + 1] = tuple(
        value if title == column else cell
        for title, cell in zip(V3_COUNTER_HEADER, rows[5 * counters + 1], strict=True)
    )
    path = tmp_path / "7_counter_collection.csv"
    path.write_text(table([V3_COUNTER_HEADER, *rows]))
    recording = read([path])
    assert len(recording.kernels) == 12
    assert len(set(recording.kernels["kernel_name"].to_pylist())) == 1
    assert [(note.count, note.severe) for note in recording.notes] == [(1, True)]
