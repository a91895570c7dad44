"""Nsight Compute's CSV output: details, raw, summary and source pages, and logs that hold them.

``ncu --csv`` prints a row per metric (details), a column per metric (raw), or figures per kernel
(``--print-summary``); which columns there are depends on the version and on the options, so they
are found by their titles. Everything else in the file is program output and is skipped.
"""

from pathlib import Path
from typing import Literal

from traceroof.core.recording import Recording
from traceroof.parser import Options, Progress
from traceroof.parsers import nsight_compute_text
from traceroof.parsers.nsight.csv_variants import (
    COLLECT,
    CSV,
    ERROR,
    PERMISSION,
    PROGRESS,
    SOURCE_AS_TEXT,
    head_text,
    headers_of,
    is_binary,
)

FORMAT = CSV


def _is_source_as_text(text: str) -> bool:
    first, _, rest = text.lstrip().partition("\n")
    return bool(SOURCE_AS_TEXT.match(first)) and "Function Name: " in rest[:2000]


class _NsightComputeCsv:
    """The parser of Nsight Compute's CSV pages."""

    name = FORMAT
    title = "Nsight Compute: CSV pages (details, raw, summary, source), also inside a log"
    gives = "one row per profiled launch: utilisation, traffic, stalls, verdicts, source lines"
    collect = COLLECT

    def recognises(self, head: bytes, path: Path) -> Literal[0, 1, 2]:
        if not head or is_binary(head):
            return 0
        text = head_text(head)
        kinds = {header.kind for header in headers_of(text)}
        if kinds - {"pivot"}:
            return 2
        if kinds:
            return 1
        if nsight_compute_text.PARSER.recognises(head, path):
            return 0
        # The table may start after more program output than we were shown.
        is_known = (
            PROGRESS in text or ERROR.search(text) or PERMISSION in text or _is_source_as_text(text)
        )
        return 1 if is_known else 0

    def read(self, source: Path, progress: Progress, options: Options) -> Recording:
        from traceroof.parsers.nsight.log import read_log

        return read_log(source, progress, options)


PARSER = _NsightComputeCsv()
