"""Nsight Compute's details page as text: what ``ncu`` prints and people paste."""

from pathlib import Path
from typing import Literal

from traceroof.core.recording import Recording
from traceroof.parser import Options, Progress
from traceroof.parsers.nsight.csv_variants import TEXT, head_text, headers_of, is_binary
from traceroof.parsers.nsight.page_lines import has_page_words, is_launch_line, is_page_line

FORMAT = TEXT


class _NsightComputeText:
    """The parser of the text page."""

    name = FORMAT
    title = "Nsight Compute: the details page as text, from a terminal or a log"
    gives = "one row per profiled launch: utilisation, occupancy, stalls named by rules, verdicts"
    collect = "ncu --set full ./program > kernels.txt"

    def recognises(self, head: bytes, path: Path) -> Literal[0, 1, 2]:
        if not head or is_binary(head):
            return 0
        text = head_text(head)
        if any(headers_of(text)):
            return 0
        lines = text.splitlines()
        if has_page_words(text) and any(is_page_line(line) for line in lines):
            return 2
        return 1 if any(map(is_launch_line, lines)) else 0

    def read(self, source: Path, progress: Progress, options: Options) -> Recording:
        from traceroof.parsers.nsight.log import read_log

        return read_log(source, progress, options)


PARSER = _NsightComputeText()
