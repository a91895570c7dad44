"""What tests of the AMD readers share: writing small files, reading them, independent figures."""

import csv
import gzip
import io
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd

from traceroof.core.recording import Recording
from traceroof.ingest.decompress import head
from traceroof.parser import HEAD_BYTES, Options, Parser, silent
from traceroof.parsers import (
    amd_counter_list,
    amd_kernel_stats,
    amd_no_kernels,
    hipprof,
    rocpd,
    rocprof_compute,
    rocprof_v1_csv,
    rocprof_v1_db,
    rocprof_v1_json,
    rocprofv2_csv,
    rocprofv3_csv,
    rocprofv3_json,
    rpd,
)

PARSERS: tuple[Parser, ...] = (
    amd_counter_list.PARSER,
    amd_kernel_stats.PARSER,
    amd_no_kernels.PARSER,
    hipprof.PARSER,
    rocpd.PARSER,
    rocprof_compute.PARSER,
    rocprof_v1_csv.PARSER,
    rocprof_v1_db.PARSER,
    rocprof_v1_json.PARSER,
    rocprofv2_csv.PARSER,
    rocprofv3_csv.PARSER,
    rocprofv3_json.PARSER,
    rpd.PARSER,
)


def claims(path: Path) -> dict[str, int]:
    """How sure each AMD parser is about a path; those that are not are left out."""
    start = b"" if path.is_dir() else head(path, HEAD_BYTES)
    scores = {parser.name: parser.recognises(start, path) for parser in PARSERS}
    return {name: score for name, score in scores.items() if score}


def read(path: Path) -> Recording:
    """Read a path with the one parser that is surest, checking that there is one."""
    scores = claims(path)
    best = max(scores.values(), default=0)
    names = [name for name, score in scores.items() if score == best]
    assert len(names) == 1, (path, scores)
    parser = next(one for one in PARSERS if one.name == names[0])
    recording = parser.read(path, silent, Options())
    assert recording.format == parser.name
    return recording


def kernels(recording: Recording) -> pd.DataFrame:
    """The kernel rows of a recording."""
    frame = recording.kernels.to_pandas()
    mine: pd.DataFrame = frame[frame["kind"] == "kernel"]
    return mine


def notes(recording: Recording) -> list[str]:
    return [note.text for note in recording.notes]


def raw(recording: Recording, metric: str, section: str | None = None) -> list[float]:
    """Values of a raw metric, in row order."""
    frame = recording.raw_metrics.to_pandas()
    mine = frame[frame["metric"] == metric]
    if section is not None:
        mine = mine[mine["section"] == section]
    return [float(value) for value in mine.sort_values("row", kind="stable")["value"]]


def table(rows: Iterable[Sequence[object]]) -> str:
    """Rows as a CSV file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


V3_COUNTER_HEADER = (
    "Correlation_Id", "Dispatch_Id", "Agent_Id", "Queue_Id", "Process_Id", "Thread_Id",
    "Grid_Size", "Kernel_Id", "Kernel_Name", "Workgroup_Size", "LDS_Block_Size", "Scratch_Size",
    "VGPR_Count", "Accum_VGPR_Count", "SGPR_Count", "Counter_Name", "Counter_Value",
    "Start_Timestamp", "End_Timestamp",
)  # fmt: skip

V3_TRACE_HEADER = (
    "Kind", "Agent_Id", "Queue_Id", "Stream_Id", "Thread_Id", "Dispatch_Id", "Kernel_Id",
    "Kernel_Name", "Correlation_Id", "Start_Timestamp", "End_Timestamp", "LDS_Block_Size",
    "Scratch_Size", "VGPR_Count", "Accum_VGPR_Count", "SGPR_Count", "Workgroup_Size_X",
    "Workgroup_Size_Y", "Workgroup_Size_Z", "Grid_Size_X", "Grid_Size_Y", "Grid_Size_Z",
)  # fmt: skip

V3_AGENT_HEADER = (
    "Node_Id", "Agent_Type", "Num_Xcc", "Cu_Count", "Num_Shader_Banks", "Gfx_Target_Version",
    "Device_Id", "Max_Engine_Clk_Fcompute", "Max_Waves_Per_Cu", "Name", "Product_Name",
)  # fmt: skip

#: Node 2 is an MI300X, nodes 0 and 1 are processors.
V3_AGENTS = table(
    [
        V3_AGENT_HEADER,
        (0, "CPU", 1, 96, 0, 0, 0, 0, 0, "AMD EPYC", "AMD EPYC"),
        (1, "CPU", 1, 96, 0, 0, 0, 0, 0, "AMD EPYC", "AMD EPYC"),
        (2, "GPU", 8, 304, 32, 90402, 29857, 2100, 32, "gfx942", "AMD Instinct MI300X"),
    ]
)


def v3_counter(
    dispatch: int,
    counter: str,
    value: object,
    *,
    name: str = "k(float*)",
    process: int = 7,
    start: object = 1_000,
    end: object = 11_000,
    grid: int = 1024,
    agent: object = "Agent 2",
) -> tuple[object, ...]:
    """One row of a counter table: workgroups of 256, 16 VGPRs, 10 microseconds."""
    return (
        dispatch, dispatch, agent, 1, process, process, grid, 5, name, 256, 0, 0, 16, 0, 32,
        counter, value, start, end,
    )  # fmt: skip


def v3_launch(
    dispatch: int,
    *,
    name: str = "k(float*)",
    start: object = 1_000,
    end: object = 11_000,
    grid: int = 1024,
    correlation: int = 0,
    agent: object = "Agent 2",
) -> tuple[object, ...]:
    """One row of a kernel trace, the same launch as ``v3_counter``."""
    return (
        "KERNEL_DISPATCH", agent, 1, 3, 7, dispatch, 5, name, correlation, start, end, 0, 0, 16,
        0, 32, 256, 1, 1, grid, 1, 1,
    )  # fmt: skip


# --------------------------------------------------------------------------------------------
# Independent readings of the corpus: the csv module and exact arithmetic, nothing of ours


def cells(path: Path) -> list[dict[str, str]]:
    """Every row of a CSV file with a header in its first line."""
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    csv.field_size_limit(1 << 30)
    return list(csv.DictReader(io.StringIO(data.decode("utf-8-sig"))))


def duration(row: Mapping[str, str]) -> Decimal | None:
    """The duration of a row in ns by whatever its columns are called; None where it has none."""
    for begin, end in (
        ("Start_Timestamp", "End_Timestamp"),
        ("BeginNs", "EndNs"),
    ):
        if row.get(begin) and row.get(end):
            return Decimal(row[end]) - Decimal(row[begin])
    return None


def select(path: Path, sql: str) -> list[tuple[Any, ...]]:
    """Ask a database of the corpus directly."""
    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()
