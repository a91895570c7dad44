"""nvprof: what it prints, as CSV or as text.

``--print-gpu-trace`` lists launches and copies on a timeline; ``--metrics`` and ``--events`` give
the mean of each counter per kernel, or per launch with ``--print-gpu-trace``; without an option
nvprof sums up launches per kernel. Durations come from the first and the last; counters replay.
"""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from traceroof.core import regex
from traceroof.core.kernel_table import kernel_table
from traceroof.core.recording import DeviceInfo, Note, Recording, source_of
from traceroof.errors import TraceroofError
from traceroof.ingest import call_sums
from traceroof.ingest.call_sums import CallSum
from traceroof.ingest.decompress import open_inflated
from traceroof.ingest.sums import CONTRADICTING
from traceroof.parser import Options, Progress
from traceroof.parsers.nsight.nvprof_metrics import Measured, measured_kernels
from traceroof.parsers.nsight.nvprof_tables import Table, own_lines, tables
from traceroof.parsers.nsight.nvprof_values import size_bytes, time_ns, whole

_SIGNS = (b"NVPROF is profiling", b"== Profiling result:", b"== Metric result:")
_HEADERS = (
    b'"Start","Duration","Grid X"',
    b'"Device","Kernel","Invocations"',
    b'"Device","Context","Stream","Kernel"',
    b'"Type","Time(%)","Time","Calls"',
    b'"Time(%)","Time","Calls"',
)
# The header of a table of text, where nvprof's own lines above it were not kept.
_TEXT_HEADER = regex.compile(
    rb"(?m)^[ \t]*(?:(?:Type[ \t]+)?Time\(%\)[ \t]+Time[ \t]+Calls[ \t]+Avg|Start[ \t]+Duration[ \t]+Grid Size)\b"
)
_COMMENT = regex.compile(r"(?m)^[ \t]*(?://|#)")
_CORRELATION = regex.compile(r" \[(\d+)\]$")
_COPY = regex.compile(r"\[CUDA mem(?P<what>cpy|set)(?: (?P<kind>[A-Za-z]+))?\]")
_DEVICE = regex.compile(r"(?P<name>.*?)(?: \((?P<index>\d+)\))?")
_ERROR = regex.compile(r"(?:Error|Warning)s?: .*|.*(?:ERR_NVGPUCTRPERM|does not have permission).*")


class Nvprof:
    """Reader of nvprof's traces, metrics and summaries."""

    name = "nvprof"
    title = "nvprof: GPU trace, metrics, events and summary, as CSV or text"
    gives = "launches, copies and their times from a trace; counters per kernel from metrics"
    collect = "nvprof --print-gpu-trace --csv --log-file trace.csv COMMAND"

    def recognises(self, head: bytes, path: Path) -> Literal[0, 1, 2]:
        said = any(sign in head for sign in (*_SIGNS, *_HEADERS))
        return 2 if said or _TEXT_HEADER.search(head) else 0

    def read(self, source: Path, progress: Progress, options: Options) -> Recording:
        with open_inflated(source, options) as file:
            text = file.read().decode("utf-8", "replace")
        # In the comments of a program, people keep what it printed.
        found = tables(text) or tables(_COMMENT.sub("", text))
        timed = [one for one in found if one.kind in ("trace", "summary", "migrations")]
        counted = [one for one in found if one.kind in ("metrics", "events", "launch-metrics")]
        notes = [
            Note(f"lines in a table of nvprof that have another number of cells, {_LEFT}", broken)
            for broken in [sum(one.broken for one in found)]
            if broken
        ]
        if any(one.rows for one in timed):
            notes += _left_out(counted, "counters beside a timeline: give them as a file")
            return _timeline(source, _chosen(timed, notes), notes)
        if any(one.rows for one in counted):
            return _counters(source, counted, notes)
        raise _without_kernels(source, text)


PARSER = Nvprof()
_LEFT = "left out"


def _left_out(unread: Sequence[Table], why: str) -> list[Note]:
    rows = sum(len(one.rows) for one in unread)
    return [Note(f"rows left out: {why}", rows)] if rows else []


def _chosen(timed: Sequence[Table], notes: list[Note]) -> list[Table]:
    """The traces; the summaries, which hold the same launches again, only where no trace is."""
    traces = [one for one in timed if one.kind == "trace" and one.rows]
    if not traces:
        return [one for one in timed if one.rows]
    rows = sum(len(one.rows) for one in timed if one.kind != "trace")
    if rows:
        notes.append(Note("rows of a summary of the same launches, left out", rows, severe=False))
    return traces


def _without_kernels(source: Path, text: str) -> TraceroofError:
    said = [line for line in own_lines(text) if _ERROR.match(line)]
    reason = f"nvprof wrote: {said[0]}" if said else "no kernel, copy or metric is in its tables"
    hint = "nvprof supports GPUs up to compute capability 7.5; use nsys and ncu on newer ones"
    if "permission" in reason:
        hint = "run nvprof as administrator, or permit counters for all users, and profile again"
    return TraceroofError(f"{source} holds no GPU work: {reason.rstrip('.')}", hint)


def _device(cell: str) -> tuple[str | None, int | None]:
    found = _DEVICE.fullmatch(cell.strip())
    if found is None or cell.strip() in ("", "-"):
        return None, None
    return found["name"], None if found["index"] is None else int(found["index"])


def _devices(cells: Sequence[str]) -> tuple[DeviceInfo, ...]:
    known = [_device(cell) for cell in dict.fromkeys(cells)]
    return tuple(
        DeviceInfo(index=index, name=name, vendor="nvidia") for name, index in known if name
    )


def _recording(
    source: Path, basis: Literal["timeline", "counter-tool"], columns: dict[str, Any],
    devices: Sequence[str], notes: Sequence[Note], **tables: pa.Table,
) -> Recording:  # fmt: skip
    kernels = kernel_table(columns)
    return Recording(
        format=PARSER.name,
        time_basis=basis,
        kernels=kernels,
        sources=(source_of(str(source), PARSER.name, kernels, notes),),
        devices=_devices(devices),
        **tables,
    )


def _counters(source: Path, counted: Sequence[Table], notes: Sequence[Note]) -> Recording:
    found: Measured = measured_kernels(counted)
    devices = [row[0] for one in counted for row in one.rows]
    index = [_device(cell)[1] for cell in found.devices]
    columns = {"kernel_name": found.kernels, "launch_count": found.launches, "device": index}
    columns |= {"correlation_id": found.correlations} if any(found.correlations) else {}
    return _recording(
        source, "counter-tool", {**columns, **found.columns}, devices,
        [*notes, *found.notes], raw_metrics=found.raw,
    )  # fmt: skip


def _timeline(source: Path, timed: Sequence[Table], notes: list[Note]) -> Recording:
    rows: list[dict[str, Any]] = []
    calls: list[CallSum] = []
    skipped: Counter[str] = Counter()
    devices: list[str] = []
    for table in timed:
        cells_of = [dict(zip(table.header, row, strict=True)) for row in table.rows]
        units = dict(zip(table.header, table.units, strict=True)) if table.units else {}
        reader = _READERS[table.kind]
        group = ""
        for cells in cells_of:
            group = cells.get("Type", "").strip(" :") or group
            found = reader(cells, units, group)
            if isinstance(found, CallSum):
                calls.append(found)
                continue
            if isinstance(found, str):
                skipped[found] += 1
                continue
            rows.append(found)
            devices.append(cells.get("Device", ""))
    wrong = sum(row.pop("contradicts", False) for row in rows)
    if wrong:
        notes.append(Note(CONTRADICTING, wrong))
    unknown = sum(row["duration_ns"] is None for row in rows)
    if unknown:
        notes.append(Note("times that are not numbers, or below 0: unknown", unknown))
    notes += _of_copies(rows)
    for what, count in skipped.items():
        notes.append(Note(f"{what}, left out", count, severe=what not in _EXPECTED))
    if not rows:
        raise TraceroofError(
            f"{source} lists calls of the host and no GPU work",
            "nvprof --print-gpu-trace --csv lists the kernels",
        )
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: [row.get(name) for row in rows] for name in names}
    sums = call_sums.table(calls)
    notes += call_sums.notes(sums)
    return _recording(source, "timeline", columns, devices, notes, call_sums=sums)


_ROUNDING = 1e-3
_EXPECTED = {"rows of host calls", "rows of unified memory", "rows of page faults"}


def _launch(cells: dict[str, str], units: dict[str, str], group: str) -> dict[str, Any] | str:
    """One row of a trace; a text says why it is none."""
    name = cells.get("Name", "").strip()
    start = time_ns(cells.get("Start", ""), units.get("Start", ""))
    spent = time_ns(cells.get("Duration", ""), units.get("Duration", ""))
    if "Unified Memory" in name:
        return "rows of unified memory"
    if not name or start is None:
        return "rows without a name or a start"
    grid = _extent(cells, "Grid")
    if grid is None and not _COPY.fullmatch(name):
        return "rows of host calls"
    found = _CORRELATION.search(name)
    row: dict[str, Any] = {
        **_named(name[: found.start()] if found else name, cells),
        "start_ns": start,
        "duration_ns": spent if spent is None or spent >= 0 else None,
        "device": _device(cells.get("Device", ""))[1],
        "context": whole(cells.get("Context", "")),
        "stream": whole(cells.get("Stream", "")),
        "correlation_id": int(found[1]) if found else None,
    }
    if row["kind"] != "kernel":
        size = size_bytes(cells.get("Size", ""), units.get("Size", ""))
        rate = size_bytes(cells.get("Throughput", ""), units.get("Throughput", ""))
        return row | {
            "copy_bytes": None if size is None else float(round(size)),
            "by_rate_ns": size / rate * 1e9 if size and rate else None,
        }
    for axis, blocks, threads in zip(
        "xyz", grid or (), _extent(cells, "Block") or (), strict=False
    ):
        row |= {f"grid_{axis}": blocks, f"block_{axis}": threads}
    return row | _resources(cells, units)


def _of_copies(rows: Sequence[dict[str, Any]]) -> list[Note]:
    """Forget durations of copies that their size and throughput contradict by over half; where they
    contradict most copies, the unit of the column is wrong, and all durations are forgotten."""
    rated = [(row, by_rate) for row in rows if (by_rate := row.pop("by_rate_ns", None))]
    known = [(row, by_rate) for row, by_rate in rated if row["duration_ns"] is not None]
    wrong = [row for row, by_rate in known if not 0.5 <= by_rate / max(row["duration_ns"], 1) <= 2]
    if not wrong:
        return []
    text = "copies whose size and throughput contradict their duration: unknown"
    if len(wrong) > max(len(known) / 2, 1):
        text = "durations, whose unit the size and throughput of most copies contradict: unknown"
        wrong = [row for row in rows if row["duration_ns"] is not None]
    for row in wrong:
        row["duration_ns"] = None
    return [Note(text, len(wrong))]


def _resources(cells: dict[str, str], units: dict[str, str]) -> dict[str, float | None]:
    """Registers and shared memory; the titles of CSV and text differ."""
    static, dynamic = (
        next((size_bytes(cells[one], units.get(one, "B")) for one in titles if one in cells), None)
        for titles in (("Static SMem", "SSMem*"), ("Dynamic SMem", "DSMem*"))
    )
    registers = whole(cells.get("Registers Per Thread", cells.get("Regs*", "")))
    both = None if static is None or dynamic is None else static + dynamic
    return {
        "registers_per_thread": registers,
        "shared_memory_static_bytes": static,
        "shared_memory_dynamic_bytes": dynamic,
        "shared_memory_bytes": both,
    }


def _extent(cells: dict[str, str], what: str) -> tuple[int, int, int] | None:
    text = cells.get(f"{what} Size")
    parts = (
        text.strip("() ").split() if text is not None
        else [cells.get(f"{what} {axis}", "") for axis in "XYZ"]
    )  # fmt: skip
    numbers = [whole(part) for part in parts]
    if len(numbers) != 3 or None in numbers:
        return None
    x, y, z = (number or 0 for number in numbers)
    return x, y, z


def _named(name: str, cells: dict[str, str]) -> dict[str, Any]:
    copied = _COPY.fullmatch(name)
    if copied is None:
        return {"kind": "kernel", "kernel_name": name}
    if copied["what"] == "set":
        return {"kind": "memset", "kernel_name": name}
    memory = [cells.get(f"{end}MemType", "").strip() for end in ("Src", "Dst")]
    told = f" ({memory[0]} -> {memory[1]})" if all(one not in ("", "-") for one in memory) else ""
    return {"kind": "memcpy", "kernel_name": name, "copy_kind": f"{copied['kind'] or ''}{told}"}


def _summed(
    cells: dict[str, str], units: dict[str, str], group: str
) -> dict[str, Any] | CallSum | str:
    """One row of a summary: a kernel or copy with its mean duration, or a call of the host."""
    name = cells.get("Name", "").strip()
    calls = whole(cells.get("Calls", ""))
    total, mean, least, most = (
        time_ns(cells.get(title, ""), units.get(title, ""))
        for title in ("Time", "Avg", "Min", "Max")
    )
    if group.startswith("API") or (not group and re.fullmatch(r"cuda?[A-Z]\w*", name)):
        return CallSum(name, calls, total, least)
    if group and group != "GPU activities":
        return "rows of host calls"  # OpenACC's own: its kernels stand among the GPU activities
    if not name or not calls:
        return "rows without a name or a number of calls"
    # The sum has more digits than the mean, which is rounded to the unit that it prints in.
    exact = mean if total is None or mean is None else round(total / calls)
    if exact is not None and exact < 0:
        exact = None
    # Both are printed with five digits.
    contradicts = (
        total is not None
        and mean is not None
        and abs(total - calls * mean) > calls + abs(total) * _ROUNDING
    )
    row = {
        **_named(name, {}),
        "launch_count": calls,
        "duration_ns": exact,
        "shortest_launch_ns": least,
        "longest_launch_ns": most,
    }
    return {**row, "contradicts": True} if contradicts else row


_WAY = regex.compile(r"(Host|Device) To (Host|Device)")


def _migrated(cells: dict[str, str], units: dict[str, str], group: str) -> dict[str, Any] | str:
    """One row of the summary of unified memory: the pages that moved one way."""
    name = cells.get("Name", "").strip()
    count = whole(cells.get("Count", ""))
    total = time_ns(cells.get("Total Time", ""), units.get("Total Time", ""))
    size = size_bytes(cells.get("Total Size", ""), units.get("Total Size", ""))
    if not _WAY.fullmatch(name) or not count:
        return "rows of page faults"
    return {
        "kind": "memcpy",
        "kernel_name": f"[Unified Memory {name}]",
        "copy_kind": f"Unified {name}",
        "launch_count": count,
        "duration_ns": None if total is None or total < 0 else round(total / count),
        "copy_bytes": None if size is None else size / count,
        "device": _device(cells.get("Device", ""))[1],
    }


_READERS = {"trace": _launch, "summary": _summed, "migrations": _migrated}
