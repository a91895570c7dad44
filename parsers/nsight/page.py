"""The details page as text: one line names a launch, below it stand sections.

Each section has a ruled table and sentences of rules. Pasted copies lose indentation, break long
names over several lines and carry terminal colours, so a line is told by what it says before where
it stands.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from traceroof.core import regex
from traceroof.parsers.nsight.csv_variants import Skipped
from traceroof.parsers.nsight.launches import Launch, Launches
from traceroof.parsers.nsight.metrics import is_metric_name, known_labels
from traceroof.parsers.nsight.numbers import unit
from traceroof.parsers.nsight.page_lines import (
    COLUMNS,
    HAS_CERTAIN_PART,
    LAUNCH_END,
    QUOTED,
    SECTION,
    TAIL,
    is_launch_line,
    is_page_line,
    launch_in,
)

_PART = regex.compile(r"(Context|Stream|Device|CC|Invocations)\s*([\d.,]+?)(?=,\s*[A-Z]|$)")
_DEVICE_LINE = regex.compile(r"Device (\d+), CC (\d+\.\d+)")
_PROCESS = regex.compile(r"\[(\d+)\]\s+(\S.*)@\S+")
# What --print-details prints before the table of a chart.
_TABLE = regex.compile(r"Table (?:Name|Description)\s*:\s*(\S.*)")
_RULER = regex.compile(r"-{4,}(?:\s+-{3,})*")
_RULE = regex.compile(r"(OPT|INF|WRN|ERR)(?:\s+(\S.*))?")
_SPEEDUP = regex.compile(
    r"Est(?:\.|imated)\s+(?:(?P<scope>Local|Global)\s+)?Speedup:\s*(?P<pct>[\d.,]+)\s*%\s*"
)
_CONTINUED = regex.compile(TAIL)
# Lines of a name that a terminal broke are equally long, but for blanks lost at their ends.
_BLANKS_LOST = 3
# A name over more lines is none.
_MAX_LOOSE = 200

_GROUPING = regex.compile("(?<=\\d)[\u00a0\u202f\u2009](?=\\d{3}(?:\\D|$))")

_UNIT_WORDS = frozenset(
    {"%", "byte", "ns", "Hz", "byte/s", "inst", "cycle", "warp", "thread", "block", "sector",
     "request", "cluster", "sample", "SM", "W"}
)  # fmt: skip


def begins_page(line: str) -> bool:
    """Whether a line among the rows of a CSV table begins a page in text form."""
    if ", Context " not in line and "Section: " not in line and "@" not in line:
        return False
    stripped = line.strip()
    return (
        is_page_line(stripped)
        or _PROCESS.fullmatch(stripped) is not None
        or is_launch_line(stripped)
    )


@dataclass
class _OpenRule:
    level: str
    parts: list[str]


@dataclass
class Page:
    """Where we are on the page, and what has been read of it.

    quoted: every line stands behind quotation marks.
    """

    quoted: bool = False
    launches: Launches = field(default_factory=Launches)
    skipped: Skipped = field(default_factory=Skipped)
    _launch: int | None = None
    _section: str = ""
    _body: str = ""
    _process: tuple[str, str] = ("", "")
    _device: tuple[str, str] = ("", "")
    _spans: Sequence[tuple[int, int]] = ()
    _in_table: bool = False
    _rows_in_table: int = 0
    _figures: int = 1
    _rule: _OpenRule | None = None
    _loose: list[str] = field(default_factory=list)

    def read(self, line: str) -> None:
        """Take the next line."""
        line = line.expandtabs(8)
        if self.quoted:
            line = QUOTED.sub("", line, count=1)
        stripped = line.strip()
        if not stripped:
            self._end_rule()
            self._drop_loose()
        elif match := SECTION.fullmatch(stripped):
            self._begin_section(match[1].strip())
        elif match := _TABLE.fullmatch(stripped):
            self._begin_body(match[1].strip(), named=stripped.startswith("Table Name"))
        elif _RULER.fullmatch(stripped):
            self._read_ruler(line)
        elif match := COLUMNS.match(stripped):
            self._figures = 3 if match[1].startswith("Min") else 1
            self._in_table, self._rows_in_table = True, 0
        elif self.begun and (match := _RULE.fullmatch(stripped)):
            self._end_rule()
            self._in_table = False
            self._rule = _OpenRule(match[1], [match[2] or ""])
        elif stripped.startswith("=="):
            self._end_rule()
            self.skipped.line(stripped)
        elif self._begins_launch(line):
            pass
        elif self._rule is not None:
            self._rule.parts.append(stripped)
        elif self._in_table:
            self._read_row(line)
        elif not self._read_process(stripped) and not self._read_bare_row(line):
            self._loose.append(line)

    @property
    def begun(self) -> bool:
        """Whether a launch or a section has been seen."""
        return self._launch is not None or bool(self._section)

    def end(self) -> None:
        """Finish what the last line left open."""
        self._end_rule()
        self._drop_loose()

    # --- launches ------------------------------------------------------------------------------

    def _begins_launch(self, line: str) -> bool:
        """Whether this line, with loose lines before it, names a launch; begins it if so."""
        stripped = line.strip()
        whole = self._loose[-1] + line if self._loose else line
        if not LAUNCH_END.search(whole.rstrip()):
            return False
        taken = self._broken_before(line)
        if not taken and self._read_device_line(stripped):
            return True
        if not HAS_CERTAIN_PART.search(whole):
            return False
        text = "".join([*self._loose[len(self._loose) - taken :], line]).strip()
        match = launch_in(text)
        # Broken by hand: go back until the parentheses of the name are closed.
        while (match is None or _is_open(match["name"])) and taken < min(
            len(self._loose), _MAX_LOOSE
        ):
            taken += 1
            text = self._loose[-taken].strip() + text
            match = launch_in(text)
        if match is None:
            self._drop_loose()
            return False
        self._end_rule()
        if taken:
            del self._loose[-taken:]
        self._drop_loose()
        self._begin_launch(match)
        return True

    def _broken_before(self, line: str) -> int:
        """How many loose lines are the beginning of this one, broken at a terminal's width."""
        if not self._loose:
            return 0
        width = len(self._loose[-1])
        if width < len(line.rstrip()):
            return 0
        taken = 0
        for loose in reversed(self._loose[-_MAX_LOOSE:]):
            if abs(len(loose) - width) > _BLANKS_LOST:
                break
            taken += 1
        return taken

    def _begin_launch(self, match: re.Match[str]) -> None:
        parts = {name: value.rstrip(",.") for name, value in _PART.findall(match["tail"])}
        self._launch = self.launches.add_launch(
            Launch(
                name=match["name"],
                process_id=self._process[0],
                process_name=self._process[1],
                context=parts.get("Context", ""),
                stream=parts.get("Stream", ""),
                device=parts.get("Device", self._device[0]),
                compute_capability=parts.get("CC", self._device[1]),
                grid=match["grid"] or "",
                block=match["block"] or "",
                launches=parts.get("Invocations", ""),
            )
        )
        self._section = self._body = ""
        self._in_table = False

    def _read_device_line(self, stripped: str) -> bool:
        """A summary's line for a device, or the end of a launch's line that was broken before."""
        if match := _DEVICE_LINE.fullmatch(stripped):
            self._device = (match[1], match[2])
            return True
        if self._launch is None or self._section or not _CONTINUED.fullmatch(stripped):
            return False
        parts = {name: value.rstrip(",.") for name, value in _PART.findall(stripped)}
        before = self.launches.found[self._launch]
        self.launches.found[self._launch] = before._replace(
            device=parts.get("Device", before.device),
            compute_capability=parts.get("CC", before.compute_capability),
            stream=parts.get("Stream", before.stream),
        )
        return True

    def _read_process(self, stripped: str) -> bool:
        if match := _PROCESS.fullmatch(stripped):
            self._process = (match[1], match[2])
            self._drop_loose()
        return match is not None

    def _drop_loose(self) -> None:
        for line in self._loose:
            self.skipped.line(line)
        self._loose.clear()

    def _current(self) -> int:
        if self._launch is None:
            # Only the sections were pasted: there is no line that tells launches apart.
            self._launch = self.launches.add_launch(Launch(runs=True))
        return self._launch

    # --- sections ------------------------------------------------------------------------------

    def _begin_section(self, name: str) -> None:
        self._end_rule()
        self._drop_loose()
        self._section, self._body = name, ""
        self._in_table = False
        self._figures = 1

    def _begin_body(self, name: str, *, named: bool) -> None:
        """The table of a chart in this section: ``Table Name : Pipe Utilization (…)``."""
        self._end_rule()
        if named:
            # The chart's title stands alone above the name of its table.
            self._loose = self._loose[:-1]
            self._body = name
            self._in_table = False
        self._drop_loose()

    def _read_ruler(self, line: str) -> None:
        spans = [match.span() for match in re.finditer(r"-+", line)]
        self._end_rule()
        if len(spans) < 2:  # between two rules
            return
        self._spans = spans
        if self._in_table and self._rows_in_table:
            self._in_table = False
        else:
            self._in_table, self._rows_in_table = True, 0

    def _read_row(self, line: str) -> None:
        label, unit_text, figures = split_row(line, self._spans, self._figures)
        if not label or not figures:
            self._loose.append(line)
            return
        self._rows_in_table += 1
        launch = self._current()
        statistics = ("minimum", "maximum", "") if len(figures) == 3 else ("",)
        for figure, statistic in zip(figures, statistics, strict=True):
            slot = self.launches.slot(self._section, self._body, label, unit_text, statistic)
            self.launches.add_metric(launch, slot, figure)

    def _read_bare_row(self, line: str) -> bool:
        """A row whose rulers were lost: only a label that we know can begin one."""
        if not self._section:
            return False
        label, _, figures = split_row(line, (), self._figures)
        if label not in known_labels() or not figures:
            return False
        self._read_row(line)
        return True

    def _end_rule(self) -> None:
        if self._rule is None:
            return
        text = " ".join(" ".join(self._rule.parts).split())
        scope = speedup = ""
        if match := _SPEEDUP.match(text):
            scope = (match["scope"] or "global").lower()
            speedup = match["pct"]
            text = text[match.end() :]
        self.launches.add_verdict(
            self._current(), self._section, None, self._rule.level, text, (scope, speedup)
        )
        self._rule = None


def _is_open(name: str) -> bool:
    return name.count("(") != name.count(")")


def split_row(
    line: str, spans: Sequence[tuple[int, int]], figures: int
) -> tuple[str, str, list[str]]:
    """A table row as (label, unit, figures); figures are empty where it is none.

    spans: where the ruler above has its dashes, in the same columns as ``line``.
    """
    if len(spans) in (figures + 1, figures + 2) and _fits_spans(line, spans):
        cells = [line[start:end].strip() for start, end in spans]
        if len(spans) == figures + 1:  # no metric of the table has a unit
            cells.insert(1, "")
        if cells[0] and all(cells[2:]):
            return cells[0], cells[1], cells[2:]
    # Blanks that group digits would split the number.
    text = _GROUPING.sub("", line.strip())
    values = [listed] if figures == 1 and (listed := _value_with_blanks(text)) else []
    if not values:
        words = text.split()
        values = words[-figures:] if len(words) > figures else []
    for value in reversed(values):
        text = text.removesuffix(value).rstrip()
    if not text or not values:
        return "", "", []
    return *_split_unit(text), values


def _value_with_blanks(text: str) -> str:
    """The value at the end of a row that is more than a word: ``(!) nan``, ``12.50 (1; 2)``."""
    if (start := text.rfind("(!)")) >= 0 and len(text) - start < 20:
        return text[start:]
    start = text.rfind(" (")
    if not text.endswith(")") or start < 0 or ";" not in text[start:]:
        return ""
    return text[text.rfind(" ", 0, start) + 1 :]


def _fits_spans(line: str, spans: Sequence[tuple[int, int]]) -> bool:
    gaps = [(0, spans[0][0])]
    gaps += [(left[1], right[0]) for left, right in pairwise(spans)]
    return len(line.rstrip()) <= spans[-1][1] and not any(
        line[start:end].strip() for start, end in gaps
    )


def _split_unit(text: str) -> tuple[str, str]:
    """Label and unit of a row whose columns are lost. "Waves Per SM" ends in no unit."""
    labels = known_labels()
    label = " ".join(text.split())
    if label in labels or is_metric_name(label):
        return label, ""
    before, _, last = label.rpartition(" ")
    base = unit(last).base
    if before in labels or is_metric_name(before):
        return before, last
    if base in _UNIT_WORDS or "/" in last:
        return before, last
    return label, ""
