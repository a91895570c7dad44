"""``nsys stats``: the tables that it prints of an Nsight Systems report, as CSV or as text.

``cuda_gpu_trace`` lists launches; the summaries (``cuda_gpu_kern_sum``, ``_kern_gb_sum``,
``_mem_time_sum``, ``_mem_size_sum``) give means, so that there is no timeline. Where a text holds
several, the one that says most is read: the others are of the same launches.
"""

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa

from traceroof.core import regex
from traceroof.core.kernel_table import kernel_table
from traceroof.core.locales import LOCALE_READ, DecimalSign
from traceroof.core.recording import RAW_METRICS, DeviceInfo, Note, Recording, source_of
from traceroof.errors import TraceroofError
from traceroof.ingest import call_sums
from traceroof.ingest.call_sums import CallSum
from traceroof.ingest.decompress import open_inflated
from traceroof.ingest.sums import contradictions
from traceroof.parser import Options, Progress
from traceroof.parsers.nsight.stats_tables import Printed, Table, printed

_SIGN = regex.compile(
    rb"(?m)^(?:Row#[,;\t])?\"?Time ?\(%\)\"?[,;\t]\"?Total Time|^\"?Start \(\w+\)\"?[,;\t]\"?Duration \(\w+\)\"?[,;\t]\"?Corr"
    rb"|^Total \(\w+\)[,;\t]Count[,;\t]|^Total[,;\t]Operations[,;\t]|^SKIPPED: .* does not contain "
    rb"|^ ?\*\* .*\((?:cuda|osrt|nvtx|openmp|gpu|cudaapi)\w*\):|^[ \t]*Time ?\(%\)\s+Total Time"
)

# Before 2023: [CUDA Unified Memory memcpy HtoD].
_MEMORY = regex.compile(
    r"\[CUDA (?P<unified>Unified Memory )?mem(?P<what>cpy|set)\s*(?P<way>[^\]]*)\]"
)
# Alibaba's asys puts the range before the name: [prof_range]: iter 9/_ZN...
_IN_RANGE = regex.compile(r"\[[^\]]*\]: (?P<range>[^/]+)/(?P<name>.+)")
_DEVICE = regex.compile(r"(?P<name>.*?)(?:\s*\((?P<index>\d+)\))?")
_SPREAD: Final = ("Med", "Min", "Max", "StdDev")
_COLLECT: Final = (
    "nsys stats --report cuda_gpu_trace,cuda_gpu_kern_sum --format csv report.nsys-rep"
)
# The best table of launches comes first.
_LAUNCHES: Final = ("trace", "shapes", "kernels", "mixed")
_QUOTED: Final = 3

Row = dict[str, Any]


class NsysStats:
    """Reader of what ``nsys stats`` prints."""

    name = "nsys-stats"
    title = "nsys stats: cuda_gpu_trace and the summaries of kernels and copies, as CSV or text"
    gives = "launches with times from a trace; launches and mean times from a summary; sums of CUDA calls"
    collect = _COLLECT

    def recognises(self, head: bytes, path: Path) -> Literal[0, 1, 2]:
        return 2 if _SIGN.search(head) else 0

    def read(self, source: Path, progress: Progress, options: Options) -> Recording:
        with open_inflated(source, options) as file:
            found = printed(file.read().decode("utf-8-sig", "replace"))
            notes = list(file.notes)
        chosen, more = _chosen(found)
        rows = [row for table in chosen for row in _rows(table)]
        rows += _copies(found, chosen)
        if not rows:
            raise _refusal(source, found)
        calls = dict.fromkeys(one for one in found.tables if one.kind == "calls")
        sums = call_sums.table(row for one in calls for row in _calls(one))
        notes += [*more, *call_sums.notes(sums), *_of_start(rows), *_unnamed(rows)]
        names = dict.fromkeys(name for row in rows for name in row if name not in _ASIDE)
        kernels = kernel_table({name: [row.get(name) for row in rows] for name in names})
        devices = dict.fromkeys(row["gpu"] for row in rows if row.get("gpu"))
        return Recording(
            format=self.name,
            time_basis="timeline",
            kernels=kernels,
            sources=(source_of(str(source), self.name, kernels, notes),),
            devices=tuple(
                DeviceInfo(index=index, name=name, vendor="nvidia") for name, index in devices
            ),
            raw_metrics=_spread(rows),
            call_sums=sums,
        )


PARSER = NsysStats()

# What rows carry beside columns of the kernel table.
_ASIDE: Final = ("gpu", "spread")


# A session that begins within its first second has work at its zero only by mistake.
_FIRST_NS: Final = 1_000_000_000


def _of_start(rows: list[Row]) -> list[Note]:
    """Forget starts before the session, and at its zero where all other work is far later."""
    starts = sorted(row["start_ns"] for row in rows if row.get("start_ns") is not None)
    late = len(starts) > 1 and starts[1] > _FIRST_NS
    early = 0
    for row in rows:
        start = row.get("start_ns")
        if start is not None and (start < 0 or (start == 0 and late)):
            row["start_ns"] = None
            early += 1
    return [Note("work that begins before the session: start unknown", early)] if early else []


def _unnamed(rows: Sequence[Row]) -> list[Note]:
    """Notes on rows whose kernel or GPU cannot be read, where those of most can."""
    notes = []
    for column, text in (("kernel_name", "kernels without a name"),
                         ("device", "launches whose GPU cannot be read: unknown")):  # fmt: skip
        missing = sum(row.get(column) in (None, "") for row in rows)
        if 0 < 2 * missing < len(rows):
            notes.append(Note(text, missing))
    return notes


def _chosen(found: Printed) -> tuple[list[Table], list[Note]]:
    """The tables of launches to read, and what is said about the others."""
    tables = list(dict.fromkeys(found.tables))
    kind = next((one for one in _LAUNCHES if any(t.kind == one and t.rows for t in tables)), None)
    chosen = [table for table in tables if table.kind == kind and table.rows]
    notes = []
    rest = sum(len(one.rows) for one in tables if one.kind in _LAUNCHES and one not in chosen)
    if rest:
        notes.append(Note("rows of other tables of the same launches, left out", rest, False))
    if any(table.sign is DecimalSign.COMMA for table in chosen):
        notes.append(Note(LOCALE_READ, severe=False))
    broken = sum(one.broken for one in tables)
    if broken:
        notes.append(Note("lines with too few cells, left out", broken))
    repeated = len(found.tables) - len(tables)
    if repeated:
        notes.append(Note("tables printed twice, read once", repeated, False))
    notes += [note for table in chosen for note in _doubts(table)]
    return chosen, notes


def _doubts(table: Table) -> list[Note]:
    """Times of a table that are none, and sums that do not fit together."""
    titles = ("Start", "Duration") if table.kind == "trace" else ("Total Time", "Avg")
    counts = table.numbers("Instances" if "Instances" in table.titles else "Count")
    lost = sum(
        one is None or one < 0 or (one == 0 and title == "Duration")
        for title in titles
        if title in table.titles
        for one in table.times_ns(title)
    )
    notes = [Note("times that are not numbers, or that cannot be: unknown", lost)] if lost else []
    if table.kind == "trace":
        return notes
    uncounted = sum(not one or one < 0 for one in counts)
    if uncounted:
        notes.append(Note("rows without a number of launches, left out", uncounted))
    of = {title: _floats(table.times_ns(title)) for title in ("Total Time", "Avg", "Min", "Max")}
    return notes + contradictions(
        _floats(counts),
        of["Total Time"],
        of["Avg"],
        least=of["Min"],
        most=of["Max"],
        share_pct=_floats(table.numbers("Time")),
        resolution=max(float(table.scale("Avg")), float(table.scale("Total Time"))) / 1000,
    )


def _floats(values: Sequence[Decimal | None]) -> list[float]:
    return [float("nan") if one is None else float(one) for one in values]


def _calls(table: Table) -> list[CallSum]:
    """The rows of a summary of CUDA calls; before 2022 they have no median."""
    times = [table.times_ns(title) for title in ("Total Time", "Med", "Min")]
    return [
        CallSum(name, _whole(count), _spent(total), _spent(least if middle is None else middle))
        for name, count, total, middle, least in zip(
            table.column("Name"), table.numbers("Num Calls"), *times, strict=True
        )
    ]


def _rows(table: Table) -> list[Row]:
    return _launches(table) if table.kind == "trace" else _sums(table, "Instances")


def _launches(table: Table) -> list[Row]:
    """The rows of ``cuda_gpu_trace``."""
    times = [table.times_ns(title) for title in ("Start", "Duration")]
    numbers = {
        column: table.numbers(title)
        for column, title in (
            ("correlation_id", "CorrId"), ("context", "Ctx"), ("stream", "Strm"),
            ("registers_per_thread", "Reg/Trd"),
            *((f"grid_{axis.lower()}", f"Grd{axis}") for axis in "XYZ"),
            *((f"block_{axis.lower()}", f"Blk{axis}") for axis in "XYZ"),
        )
    }  # fmt: skip
    shared = {
        f"shared_memory_{name}_bytes": _exact(table, title)
        for name, title in (("static", "StcSMem"), ("dynamic", "DymSMem"))
    }
    moved = table.sizes("Bytes")
    ends = [table.column(title) for title in ("SrcMemKd", "DstMemKd")]
    rows = []
    for at, (name, gpu) in enumerate(
        zip(table.column("Name"), table.column("Device"), strict=True)
    ):
        start, spent = _whole(times[0][at]), _spent(times[1][at])
        row: Row = _named(name) | {
            "start_ns": start,
            "duration_ns": spent or None,
            **{column: _whole(values[at]) for column, values in (numbers | shared).items()},
        }
        way = row.get("copy_kind")
        if way and ends[0][at] and ends[1][at]:
            row["copy_kind"] = f"{way} ({ends[0][at]} -> {ends[1][at]})"
        if row["kind"] != "kernel":
            row["copy_bytes"] = _real(moved[at])
        found = _DEVICE.fullmatch(gpu)
        if found and found["name"]:
            row["gpu"] = found["name"], _index(found["index"])
            row["device"] = _index(found["index"])
        rows.append(row)
    return rows


def _exact(table: Table, title: str) -> list[Decimal | None]:
    """Sizes in bytes where they are printed to the byte: MB with three digits are not."""
    fine = table.unit(title) in ("B", "b", "byte", "bytes", "KB")
    return table.sizes(title) if fine else [None] * len(table.rows)


def _index(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 9 else None


def _sums(table: Table, counted: str) -> list[Row]:
    """The rows of a summary: one per kernel or kind of copy, with the mean time."""
    counts, totals = table.numbers(counted), table.times_ns("Total Time")
    spread = {title: table.times_ns(title) for title in _SPREAD}
    names = table.column("Operation" if "Operation" in table.titles else "Name")
    shapes = [table.column(title) for title in ("GridXYZ", "BlockXYZ")]
    rows = []
    for at, name in enumerate(names):
        count, total = _whole(counts[at]), totals[at]
        if not count or count < 0:
            continue
        row: Row = _named(name) | {
            "launch_count": count,
            "duration_ns": None if total is None else _spent(total / count),
            "spread": {title: values[at] for title, values in spread.items()},
            "shortest_launch_ns": _some(spread["Min"][at]),
            "longest_launch_ns": _some(spread["Max"][at]),
        }
        for what, cells in zip(("grid", "block"), shapes, strict=True):
            sizes = [_index(part) for part in cells[at].replace(",", " ").split()]
            row |= {f"{what}_{axis}": size for axis, size in zip("xyz", sizes, strict=False)}
        rows.append(row)
    return rows


def _copies(found: Printed, chosen: Sequence[Table]) -> list[Row]:
    """Copies and fills by kind, from the table of their times and that of their sizes; none where a
    trace or a mixed table has them already."""
    if any(table.kind in ("trace", "mixed") for table in chosen):
        return []
    tables = list(dict.fromkeys(found.tables))
    rows = [row for one in tables if one.kind == "copies" for row in _sums(one, "Count")]
    sizes: dict[str, Decimal] = {}
    for one in (one for one in tables if one.kind == "sizes"):
        for name, count, total in zip(
            one.column("Operation"), one.numbers("Count"), one.sizes("Total"), strict=True
        ):
            if count and total is not None:
                sizes[_named(name)["kernel_name"]] = total / count
    for row in rows:
        row["copy_bytes"] = _real(sizes.get(row["kernel_name"]))
    return rows


def _named(name: str) -> Row:
    """Name and kind of an activity."""
    found = _MEMORY.fullmatch(name)
    if found is None:
        ranged = _IN_RANGE.fullmatch(name)
        if ranged is None:
            return {"kind": "kernel", "kernel_name": name}
        return {"kind": "kernel", "kernel_name": ranged["name"], "module_path": ranged["range"]}
    if found["what"] == "set":
        return {"kind": "memset", "kernel_name": name}
    way = f"Unified {found['way']}" if found["unified"] else found["way"]
    return {"kind": "memcpy", "kernel_name": name, "copy_kind": way or None}


def _whole(value: Decimal | None) -> int | None:
    if value is None:
        return None
    found = int(value.to_integral_value())
    return found if abs(found) < 1 << 63 else None


def _spent(value: Decimal | None) -> int | None:
    """A duration in ns; one below zero is none."""
    found = _whole(value)
    return None if found is None or found < 0 else found


def _some(value: Decimal | None) -> float | None:
    return None if value is None else float(value)


def _real(value: Decimal | None) -> float | None:
    return float(value) if value else None  # 0.000 MB is less than a kilobyte, not nothing


def _spread(rows: Sequence[Row]) -> pa.Table:
    """What the kernel table has no column for: median, extremes and deviation of a summary."""
    found = [
        {"row": at, "section": "nsys stats", "metric": title, "unit": "ns", "value": float(value)}
        for at, row in enumerate(rows)
        for title, value in row.get("spread", {}).items()
        if value is not None
    ]
    return pa.Table.from_pylist(found, schema=RAW_METRICS)


def _refusal(source: Path, found: Printed) -> TraceroofError:
    # Tables of the host that are missing too say nothing about the GPU.
    said = sorted(dict.fromkeys(found.skipped), key=lambda text: "CUDA kernel" not in text)
    said = said[:_QUOTED]
    if said:
        quoted = "; ".join(f"“{text}”" for text in said)
        why = f"nsys stats left the tables out: {quoted}"
    elif any(table.kind == "calls" for table in found.tables):
        why = "it sums up calls of the host"
    elif any(table.kind == "sizes" for table in found.tables):
        why = "it sums up sizes of copies, without their times"
    elif found.tables:
        why = "its tables have no rows"
    else:
        why = "it has no table of kernels or copies"
    return TraceroofError(f"{source} holds no GPU work: {why}", f"print the tables: {_COLLECT}")
