"""Summaries that AMD's and Hygon's tools write: one row per kernel, without single launches.

``Name,Calls,TotalDurationNs,AverageNs,Percentage`` comes from rocprof v1 (``results.stats.csv``),
rocprofv3 (``*_kernel_stats.csv``, with minimum, maximum and deviation; and as the table that
``--summary`` prints) and hipprof (with a last row "Total"). The same layout also sums up host calls
and copies; which it is, the names tell.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traceroof.core import kernel_table, regex
from traceroof.core.recording import RAW_METRICS, Note, Recording
from traceroof.errors import TraceroofError
from traceroof.ingest import call_sums, decompress
from traceroof.ingest.call_sums import CallSum
from traceroof.ingest.sums import contradictions
from traceroof.parser import HEAD_BYTES, Options, Progress
from traceroof.parsers.amd.calls import copy_kind
from traceroof.parsers.amd.dispatches import cleaned_names
from traceroof.parsers.amd.folder import Family, survey
from traceroof.parsers.amd.gpus import Gpu, of_agent_table, only
from traceroof.parsers.amd.kinds import Kind, cells_of, is_printed, layout, look
from traceroof.parsers.amd.printed_summary import read_printed
from traceroof.parsers.amd.run import Part, recording
from traceroof.parsers.amd.text import TextTable, read_table
from traceroof.parsers.amd.values import Integers, Mask

# Names that are no kernels: runtime calls, sums over whole domains, copies and fills.
_CALL = r"(?:hip[A-Z]|__hip|hsa_|nccl[A-Z]|rccl[A-Z]|roctx|rocdec|rocjpeg)\w*|MEMORY_ALLOC\w*"
_DOMAIN = (
    r"(?:HIP|HSA|RCCL|MARKER|ROCDECODE|ROCJPEG)\w*_API\w*|KERNEL_DISPATCH|MEMORY_COPY|SCRATCH\w*"
)
_COPY = r"Copy\w+|async-copy|MEMORY_COPY_\w+"
_FILL = r"FillBuffer|MEMORY_FILL\w*"


# rocprofv3 writes these and ``*agent_info.csv`` behind one process number.
_SUMMARY = regex.compile(r"(.*)(?:kernel|memory_copy|domain)_stats\.csv")
_LONGEST_NS = 2**62


class AmdKernelStats:
    """Reader of summary tables."""

    name = "amd-kernel-stats"
    title = (
        "rocprof summaries: Name, Calls, TotalDurationNs, … of rocprof v1, rocprofv3 and hipprof; "
        "what rocprofv3 --summary prints"
    )
    gives = "one row per kernel: launches and mean duration"
    collect = "rocprofv3 --kernel-trace --stats -f csv -- COMMAND"

    def recognises(self, head: bytes, path: Path) -> Literal[0, 1, 2]:
        if not head:
            survey_found = survey(path) if path.is_dir() else None
            return 2 if survey_found and survey_found.family is Family.SUMMARIES else 0
        if is_printed(head):
            return 2
        found = layout(head)
        if found is None or found.kind is not Kind.STATISTICS:
            return 0
        # Sums of host calls are recognised only to be refused with a reason.
        return 2 if _names_kernels(head, found.skip) else 1

    def read(self, source: Path, progress: Progress, options: Options) -> Recording:
        if not source.is_dir():
            parts = read_statistics(source, progress, options, strict=True)
            gpus = _gpus(_lists_beside(source), progress, options)
            return recording(PARSER.name, "timeline", parts, gpus)
        found = survey(source)
        tables = found.of(Kind.STATISTICS) if found is not None else ()
        parts = [
            part
            for one in tables
            for part in read_statistics(one.path, progress, options, strict=False)
        ]
        if all(part.kernels is None for part in parts):
            raise TraceroofError(f"{source} holds no summary of kernels")
        parts[0].notes += found.notes if found is not None else []
        lists = [one.path for one in found.of(Kind.V3_AGENTS)] if found is not None else []
        return recording(PARSER.name, "timeline", parts, _gpus(lists, progress, options))


PARSER = AmdKernelStats()


def _lists_beside(source: Path) -> list[Path]:
    """The list of agents of the same run of rocprofv3: that of another may name another GPU."""
    found = _SUMMARY.match(source.name)
    path = source.parent / f"{found.group(1)}agent_info.csv" if found else source
    return [path] if found and path.is_file() else []


def _gpus(lists: Sequence[Path], progress: Progress, options: Options) -> list[Gpu]:
    """The GPU, where the lists of agents beside the summary have one only."""
    found = [
        gpu
        for path in lists
        if (kind := look(path)) is not None and kind.kind is Kind.V3_AGENTS
        for gpu in of_agent_table(read_table(path, options, progress)).gpus
    ]
    same = only(found)
    return [same] if same is not None else []


def _names_kernels(head: bytes, skip: int) -> bool:
    """Whether any row at the start of a file is no host call."""
    lines = head.decode("utf-8", "replace").splitlines()[skip:]
    names = [cells[0].strip() for line in lines if (cells := cells_of(line))]
    host = regex.compile(f"(?:{_CALL}|{_DOMAIN}|Total|)$")
    return not names or any(not host.match(name) for name in names)


def read_statistics(source: Path, progress: Progress, options: Options, strict: bool) -> list[Part]:
    """The kernels, copies and host calls of a summary.

    Raises TraceroofError where ``strict`` and the summary holds neither kernels nor copies.
    """
    rows = _rows(source, progress, options)
    names, calls = rows.text("name"), rows.integers("calls")
    if names is None or calls is None or not rows.num_rows:
        raise TraceroofError(
            f"{source} is a summary without rows",
            "did the program launch a kernel while it was profiled?",
        )
    flat = names.combine_chunks()
    keep, notes = _kernels(rows, flat, calls)
    sums = _calls(rows.take(_is(flat, _CALL)))
    notes += call_sums.notes(sums)
    if not keep.any():
        if not strict:
            return [Part(rows.path, call_sums=sums, notes=[*rows.notes, *notes])]
        raise TraceroofError(
            f"{source} sums up calls of the host runtime and holds no kernel",
            "give the summary of the kernels (results.stats.csv, *_kernel_stats.csv) or the trace",
        )
    part = _part(rows.take(keep), [*rows.notes, *notes], bool(keep.all()))
    return [replace(part, call_sums=sums)]


def _rows(source: Path, progress: Progress, options: Options) -> TextTable:
    if is_printed(decompress.head(source, HEAD_BYTES)):
        return read_printed(source, options)
    return read_table(source, options, progress)


def _calls(rows: TextTable) -> pa.Table:
    """Sums of host calls; rocprof v1 does not say how short the shortest was."""
    names, calls = rows.text("name"), rows.integers("calls")
    assert names is not None  # looked at before
    assert calls is not None
    spent, least = rows.integers("totaldurationns"), rows.integers("minns")
    unknown = [None] * rows.num_rows
    return call_sums.table(
        CallSum(name.strip(), count, total, shortest)
        for name, count, total, shortest in zip(
            names.to_pylist(),
            calls.to_pylist(),
            unknown if spent is None else spent.to_pylist(),
            unknown if least is None else least.to_pylist(),
            strict=True,
        )
    )


def _kernels(rows: TextTable, names: pa.Array, calls: pa.Array) -> tuple[Mask, list[Note]]:
    """Which rows are kernels, copies or fills."""
    notes: list[Note] = []
    spent = rows.integers("totaldurationns")
    host = _is(names, _CALL) | _is(names, _DOMAIN)
    # Among domains and calls a row without a name is one of them.
    nameless = _is(names, r"\s*")
    host |= nameless & (host | nameless).all()
    bad = ~np.asarray(pc.greater(calls, 0).fill_null(False))
    total = np.array([str(name).strip().lower() == "total" for name in names.to_pylist()])
    # hipprof ends with a sum. A kernel may be called so too: the sum shows it.
    if total.any() and spent is not None:
        rest = pc.sum(spent.filter(pa.array(~total))).as_py() or 0
        last = pc.sum(spent.filter(pa.array(total))).as_py() or 0
        total &= abs(last - rest) <= len(names)
        if total.any():
            notes.append(Note("the row of totals was left out", severe=False))
    else:
        total[:] = False
    lost = bad & ~host & ~total
    if lost.any():
        notes.append(Note("rows without a number of calls were skipped", int(lost.sum())))
    if nameless.any():
        notes.append(Note("rows without a name", int(nameless.sum())))
    return ~(host | bad | total), notes


def _is(names: pa.Array, pattern: str) -> Mask:
    return np.asarray(pc.match_substring_regex(names, f"^(?:{pattern})$").fill_null(False))


def _part(rows: TextTable, notes: list[Note], is_all: bool) -> Part:
    names = rows.text("name")
    calls = rows.integers("calls")
    assert names is not None  # looked at before
    assert calls is not None
    flat = names.combine_chunks()
    kinds = np.where(_is(flat, _COPY), "memcpy", np.where(_is(flat, _FILL), "memset", "kernel"))
    mean, known, garbled = _means(rows, np.asarray(calls.fill_null(1), dtype=np.int64))
    if garbled:
        notes = [*notes, Note("times that are not numbers", garbled)]
    spent = [rows.reals(name) for name in ("totaldurationns", "averagens")]
    if spent[0] is not None and spent[1] is not None:
        notes = [*notes, *contradictions(
            np.asarray(calls.fill_null(1), dtype=np.int64), spent[0], spent[1],
            least=rows.reals("minns"), most=rows.reals("maxns"),
            share_pct=rows.reals("percentage") if is_all else None,
        )]  # fmt: skip
    if not known.all():
        notes = [*notes, Note("kernels whose time is unknown", int((~known).sum()))]
    columns: dict[str, Any] = {
        "kind": pa.array(kinds.tolist(), pa.string()),
        "kernel_name": cleaned_names(flat),
        "launch_count": calls,
        "duration_ns": pa.array(mean, mask=~known),
        "copy_kind": pa.array(
            [
                copy_kind(name) if kind == "memcpy" else None
                for name, kind in zip(flat.to_pylist(), kinds, strict=True)
            ],
            pa.string(),
        ),
    }
    for name, printed in (("shortest", "minns"), ("longest", "maxns")):
        columns[f"{name}_launch_ns"] = rows.reals(printed)
    return Part(rows.path, kernel_table.kernel_table(columns), _spread(rows), notes=notes)


def _means(rows: TextTable, calls: Integers) -> tuple[Integers, Mask, int]:
    """Mean duration in whole ns, where it is known, and how many cells should say but do not.

    Total over calls, which loses less than the printed average; the average where there are no
    totals, not where a total is no number: then the line cannot be trusted.
    """
    # Sums of times this long (146 years) are no sums of times.
    counted = calls < _LONGEST_NS
    name = "totaldurationns" if _is_filled(rows, "totaldurationns") else "averagens"
    values = rows.reals(name)
    if values is None:
        return np.zeros(len(calls), dtype=np.int64), np.zeros(len(calls), dtype=bool), 0
    known = (values > 0) & (values < _LONGEST_NS) & counted
    garbled = int((np.isnan(values) & ~_blank(rows, name)).sum())
    rounded = np.round(np.where(known, values, 0)).astype(np.int64)
    if name == "averagens":
        return rounded, known, garbled
    exact = rows.integers(name)
    if exact is not None:  # a double holds no whole number beyond 2**53
        whole = np.asarray(exact.is_valid())
        rounded = np.where(known & whole, np.asarray(exact.fill_null(0), np.int64), rounded)
    return np.where(known, (rounded + calls // 2) // calls, 0), known, garbled


def _is_filled(rows: TextTable, name: str) -> bool:
    return rows.has(name) and not _blank(rows, name).all()


def _blank(rows: TextTable, name: str) -> Mask:
    """Which cells of a column say nothing."""
    column = rows.text(name)
    assert column is not None  # asked only for columns that are there
    text = pc.utf8_trim_whitespace(column.combine_chunks())
    return np.asarray(pc.equal(text, "").fill_null(True))


def _spread(rows: TextTable) -> pa.Table:
    """What the kernel table has no column for: shortest, longest and deviation."""
    parts: list[pa.Table] = []
    for column, metric in (
        ("minns", "shortest launch"),
        ("maxns", "longest launch"),
        ("stddev", "standard deviation of a launch"),
    ):
        values = rows.reals(column)
        if values is None:
            continue
        known = np.flatnonzero(~np.isnan(values))
        size = len(known)
        parts.append(
            pa.Table.from_arrays(
                [
                    pa.array(known, pa.int64()),
                    pa.repeat(pa.scalar("summary"), size),
                    pa.repeat(pa.scalar(metric), size),
                    pa.repeat(pa.scalar("ns"), size),
                    pa.array(values[known], pa.float64()),
                    pa.nulls(size, pa.string()),
                ],
                schema=RAW_METRICS,
            )
        )
    return pa.concat_tables(parts) if parts else RAW_METRICS.empty_table()
