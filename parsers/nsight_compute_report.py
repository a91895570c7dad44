"""Nsight Compute's reports (.ncu-rep), read without NVIDIA's tools.

A report is what ``ncu -o`` and the user interface save: every metric in full precision, the
device's attributes, and what the rules said. Reports of 2020 to 2026 have one layout.
"""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from traceroof.core.recording import Recording
from traceroof.core.units import count
from traceroof.errors import TraceroofError
from traceroof.ingest.decompress import open_inflated
from traceroof.parser import Options, Progress
from traceroof.parsers.nsight.report_blocks import (
    KNOWN_VERSION,
    MAGIC,
    Found,
    Headers,
    read_headers,
    read_results,
)

if TYPE_CHECKING:
    from traceroof.parsers.nsight.launches import Launches

FORMAT = "nsight-compute-report"
# Results are decoded together until they have so many bytes: small ones cost as little as large ones.
_BATCH = 1 << 19
# Reports whose container is another one, or not known.
_PACKED, _OF_2019 = ".ncu-repz", ".nsight-cuprof-report"


class _NsightComputeReport:
    """The parser of .ncu-rep."""

    name = FORMAT
    title = "Nsight Compute: reports (.ncu-rep)"
    gives = "one row per profiled launch: every metric in full precision, verdicts, source lines"
    collect = "ncu --set full -o kernels ./program"

    def recognises(self, head: bytes, path: Path) -> Literal[0, 1, 2]:
        if head.startswith(MAGIC):
            return 2
        binary = b"\x00" in head[:4096]
        return 2 if binary and path.suffix.lower() in (_PACKED, _OF_2019) else 0

    def read(self, source: Path, progress: Progress, options: Options) -> Recording:
        # Imported for a report alone: every file is held against every parser.
        from traceroof.core.locales import DecimalSign
        from traceroof.parsers.nsight.launches import Launches
        from traceroof.parsers.nsight.recording import recording
        from traceroof.parsers.nsight.report_results import add_results, is_read
        from traceroof.parsers.nsight.report_source import ReportSource
        from traceroof.parsers.nsight.report_values import Names

        size = source.stat().st_size
        with open_inflated(source, options) as stream:
            _refuse_other_kinds(source, stream.peek(len(MAGIC)))
            headers = read_headers(stream)
        launches = Launches(sign=DecimalSign.POINT)
        lines = ReportSource(lambda text: launches.note(text, severe=False))
        names = Names(headers.strings, launches)
        damaged = ranges = waiting = 0
        batch: list[tuple[int, Found]] = []
        with open_inflated(source, options) as stream:
            for number, found in enumerate(read_results(stream, lines.add_module)):
                if found.is_range and not is_read(found, names):
                    continue
                ranges += found.is_range
                if found.data is None:
                    damaged += 1
                    continue
                batch.append((number, found))
                waiting += len(found.data)
                if waiting >= _BATCH:
                    damaged += add_results(batch, headers, names, lines)
                    batch, waiting = [], 0
                    progress(stream.consumed, size)
            notes = stream.notes
        damaged += add_results(batch, headers, names, lines)
        if not launches.found:
            raise _why_nothing(source, headers, damaged)
        _note_losses(launches, headers, damaged, ranges)
        progress(size, size)
        table = lines.table()
        made = recording(launches, str(source), FORMAT, notes)
        return replace(made, source_lines=table)


def _note_losses(launches: "Launches", headers: Headers, damaged: int, ranges: int) -> None:
    """Say what is in the report, or should be, and was not read. ranges: those that were."""
    missing = max(headers.results - (len(launches.found) - ranges), damaged)
    if headers.cut:
        launches.note("the report is cut off or damaged: what stands behind that is not read")
    launches.note("launches that are cut off or damaged in the report left out", missing)
    launches.note("results of ranges read by the layout of launches", ranges, severe=False)
    launches.note("results of ranges in another layout left out", headers.ranges - ranges)
    if headers.version != KNOWN_VERSION:
        launches.note(
            f"the report has layout {headers.version}, which is not known: read as layout "
            f"{KNOWN_VERSION}"
        )


def _export(path: Path) -> str:
    csv = shlex.quote(f"{path.stem}.csv")
    return f"print it with ncu: ncu --import {shlex.quote(str(path))} --csv --page raw > {csv}"


def _refuse_other_kinds(path: Path, head: bytes) -> None:
    suffix = path.suffix.lower()
    if suffix == _OF_2019:
        raise TraceroofError(
            f"{path} is a report of Nsight Compute 2019, whose layout is not known",
            "open it with the Nsight Compute that wrote it and export its raw page as CSV",
        )
    if not head.startswith(MAGIC):
        what = "a packed report of Nsight Compute" if suffix == _PACKED else "no report"
        raise TraceroofError(
            f"{path} is {what} ({suffix or 'binary'}), whose layout is not known", _export(path)
        )


def _why_nothing(path: Path, headers: Headers, damaged: int) -> TraceroofError:
    """Why a report gave no launch, in one sentence."""
    if headers.ranges:
        return TraceroofError(
            f"{path} is a binary Nsight Compute report of "
            f"{count(headers.ranges, 'range', 'ranges')} and no launch, and its layout of ranges is "
            "not known",
            _export(path),
        )
    if headers.cut or headers.results or damaged:
        return TraceroofError(
            f"{path} is a binary Nsight Compute report that is cut off or damaged before its "
            "first launch is complete",
            "copy it again, or profile again",
        )
    return TraceroofError(
        f"{path} is a binary Nsight Compute report without a launch: no kernel was profiled",
        "check --kernel-name, --launch-skip and --nvtx-include, and add --target-processes all "
        "where a launcher starts the program",
    )


PARSER = _NsightComputeReport()
