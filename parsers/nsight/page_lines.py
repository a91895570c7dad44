"""What a line of the details page is told by: the launch it names, a section, a table's titles."""

import re

from traceroof.core import regex
from traceroof.parsers.nsight.metrics import is_section

_TRIPLE = r"\(\s*\d+,\s*\d+,\s*\d+\s*\)"
TAIL = r"(?:,\s*(?:Context\s*\d+|Stream\s*\d+|Device\s*\d+|CC\s*\d+\.\d+|Invocations\s*[\d,.]+))+"
# name (grid)x(block), Context 1, Stream 7, Device 0, CC 7.5; before 2022 without the shapes and
# with the time of day; in summaries with the number of invocations.
_LAUNCH = regex.compile(
    rf"(?P<name>\S.*?)(?:\s*(?P<grid>{_TRIPLE})\s*x\s*(?P<block>{_TRIPLE}))?"
    rf"(?:,\s*\d{{4}}-[A-Za-z]{{3}}-\d{{1,2}}\s*[\d:]{{8}})?(?P<tail>{TAIL})",
    re.DOTALL,
)
SECTION = regex.compile(r"Section:\s*(\S.*)")
COLUMNS = regex.compile(
    r"Metric Name\s+(?:Metric Unit\s+)?(Metric Value|Minimum\s+Maximum\s+Average)"
)
# Quotation marks of a mail or a comment.
QUOTED = regex.compile(r"(?:>\s?)+")
LAUNCH_END = regex.compile(r"(?:Context|Stream|Device|CC|Invocations)\s*[\d.,]*\d$")
# A program may print "Some GPU, CC 9.0"; what the profiler prints always has one of these.
HAS_CERTAIN_PART = regex.compile(r"Stream|Invocations")
# A name of more letters is none.
_MAX_LETTERS = 20_000


def is_launch_line(line: str) -> bool:
    """Whether a line names a launch."""
    return LAUNCH_END.search(line) is not None and launch_in(line) is not None


def has_page_words(text: str) -> bool:
    """Whether a text has what every page has (``is_page_line``): most heads of files have not."""
    return "Section:" in text or "Metric Name" in text


def is_page_line(line: str) -> bool:
    """Whether a line can only come from the text page: a known section, or a table's titles."""
    stripped = QUOTED.sub("", line, count=1).strip()
    section = SECTION.fullmatch(stripped)
    return bool(COLUMNS.match(stripped) or (section and is_section(section[1].strip())))


def launch_in(text: str) -> re.Match[str] | None:
    """The parts of a line that names a launch; None for any other line."""
    if len(text) > _MAX_LETTERS:
        return None
    match = _LAUNCH.fullmatch(" ".join(text.split()))
    if match is None or not any(letter.isalpha() or letter == "_" for letter in match["name"]):
        return None
    return match if HAS_CERTAIN_PART.search(match["tail"]) else None
