"""Nsight Compute output made in code: the same launches in every form that the tool prints.

Layouts follow the header variants A to H and R of the format notes; numbers are printed as the
tool prints them (integers without decimals, everything else with two).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

_FRONT = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name")
_OLD = (*_FRONT, "Kernel Time", "Context", "Stream")
_NEW = (*_FRONT, "Context", "Stream", "Block Size", "Grid Size", "Device", "CC")
_METRIC = ("Section Name", "Metric Name", "Metric Unit", "Metric Value")
_RULE = ("Rule Name", "Rule Type", "Rule Description")
_SPEEDUP = ("Estimated Speedup Type", "Estimated Speedup")
PUSH_POP = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
START_STOP = "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"

#: Columns of the details page by variant.
VARIANTS: Mapping[str, tuple[str, ...]] = {
    "A": (*_OLD, *_METRIC),
    "B": (*_OLD, *_METRIC, *_RULE),
    "C": (*_NEW, *_METRIC),
    "D": (*_NEW, *_METRIC, *_RULE),
    "E": (*_NEW, *_METRIC, *_RULE, *_SPEEDUP),
    "F": (*_NEW, "Section Name", "Body Item Label", *_METRIC[1:], *_RULE, *_SPEEDUP),
    "G": (*_FRONT[:4], PUSH_POP, START_STOP, "Kernel Name", *_NEW[5:], *_METRIC, *_RULE, *_SPEEDUP),
}
SUMMARY = (
    *_FRONT[1:], "Block Size", "Grid Size", "Device", "CC", "Invocations",
    "Section Name", "Metric Name", "Metric Unit", "Minimum", "Maximum", "Average",
)  # fmt: skip

COMMAND_LINE = "Command line profiler metrics"

#: How a locale writes thousands and decimals.
LOCALES = {
    "C": ("", "."),
    "en_US": (",", "."),
    "de_DE": (".", ","),
    "fr_FR": ("\u202f", ","),
    "old_french": ("\u00a0", ","),
    "de_CH": ("\u2019", "."),
}


@dataclass(frozen=True)
class Metric:
    """A metric row: its cell is ``value`` as printed, in ``unit``."""

    label: str
    unit: str
    value: Decimal | str
    section: str = COMMAND_LINE
    body: str = ""


@dataclass(frozen=True)
class Rule:
    """A rule row."""

    section: str
    name: str
    level: str
    text: str
    scope: str = ""
    speedup: str = ""


@dataclass(frozen=True)
class Launch:
    """A launch with its rows."""

    metrics: Sequence[Metric]
    rules: Sequence[Rule] = ()
    name: str = "kernel(float *)"
    id: int = 0
    process: int = 4242
    grid: tuple[int, int, int] = (1024, 1, 1)
    block: tuple[int, int, int] = (256, 1, 1)
    nvtx: str = ""
    invocations: int = 1
    cells: Mapping[str, str] = field(default_factory=dict)

    def columns(self) -> dict[str, str]:
        """What all rows of the launch say."""
        return {
            "ID": str(self.id),
            "Process ID": str(self.process),
            "Process Name": "program",
            "Host Name": "127.0.0.1",
            "Kernel Name": self.name,
            "Kernel Time": "2020-Aug-27 18:57:25",
            "Context": "1",
            "Stream": "7",
            "Block Size": "({}, {}, {})".format(*self.block),
            "Grid Size": "({}, {}, {})".format(*self.grid),
            "Device": "0",
            "CC": "9.0",
            "Invocations": str(self.invocations),
            PUSH_POP: self.nvtx,
            START_STOP: "",
            **self.cells,
        }


# The empty cell that ends a metric row where rules have columns: never quoted.
_BARE = "\0"


def printed(value: Decimal | str, locale: str = "C") -> str:
    """A number as Nsight Compute prints it in a locale; text stays as it is."""
    if isinstance(value, str):
        return value
    group, point = LOCALES[locale]
    whole = value == value.to_integral_value()
    text = f"{value:,.0f}" if whole else f"{value:,.2f}"
    return text.replace(",", "\0").replace(".", point).replace("\0", group)


def line(cells: Iterable[str], delimiter: str = ",", quoted: bool = True) -> str:
    """One CSV line: every cell quoted, as the tool does, or only where it must be."""

    def cell(text: str) -> str:
        if text == _BARE:
            return ""
        must = any(sign in text for sign in (delimiter, '"', "\n", "\r"))
        return '"' + text.replace('"', '""') + '"' if quoted or must else text

    return delimiter.join(cell(text) for text in cells)


def details(
    launches: Sequence[Launch],
    variant: str = "E",
    locale: str = "C",
    *,
    ragged: bool = True,
    delimiter: str = ",",
    quoted: bool = True,
    index: bool = False,
    header: bool = True,
) -> str:
    """The details page. ragged: metric rows stop after one empty cell, as the tool prints them.

    index: an unnamed column of row numbers in front, as pandas adds it.
    """
    columns = VARIANTS[variant]
    rows = [list(columns)] if header else []
    for launch in launches:
        fixed = launch.columns()
        for metric in launch.metrics:
            cells = {
                **fixed,
                "Section Name": metric.section,
                "Body Item Label": metric.body,
                "Metric Name": metric.label,
                "Metric Unit": metric.unit,
                "Metric Value": printed(metric.value, locale),
            }
            row = [cells.get(column, "") for column in columns]
            if ragged and "Rule Name" in columns:
                row = [*row[: columns.index("Rule Name")], _BARE]
            rows.append(row)
        if "Rule Name" not in columns:
            continue
        for rule in launch.rules:
            cells = {
                **fixed,
                "Section Name": rule.section,
                "Rule Name": rule.name,
                "Rule Type": rule.level,
                "Rule Description": rule.text,
                "Estimated Speedup Type": rule.scope,
                "Estimated Speedup": rule.speedup,
            }
            rows.append([cells.get(column, "") for column in columns])
    if index:
        rows = [["", *rows[0]], *([str(n), *row] for n, row in enumerate(rows[1:]))]
    return "".join(line(row, delimiter, quoted) + "\n" for row in rows)


def raw(
    launches: Sequence[Launch],
    locale: str = "C",
    *,
    quoted: bool = True,
    columns: Sequence[str] = _NEW,
    index: bool = False,
    form: Callable[[Decimal | str], str] | None = None,
) -> str:
    """The raw page: a column per metric in alphabetical order, units in the second row.

    form: how a value is written, where it is not as the tool does in the locale.
    """
    written = form or (lambda value: printed(value, locale))
    units = {metric.label: metric.unit for launch in launches for metric in launch.metrics}
    names = sorted(units)
    rows = [[*columns, *names], [*("" for _ in columns), *(units[name] for name in names)]]
    for launch in launches:
        fixed = launch.columns()
        values = {metric.label: written(metric.value) for metric in launch.metrics}
        rows.append([*(fixed[name] for name in columns), *(values.get(name, "") for name in names)])
    if index:
        rows = [["", *rows[0]], *([str(n), *row] for n, row in enumerate(rows[1:]))]
    return "".join(line(row, quoted=quoted) + "\n" for row in rows)


def summary(launches: Sequence[Launch], columns: Sequence[str] = SUMMARY) -> str:
    """``--print-summary``: the value is the average, minimum and maximum are half and double."""
    rows = [list(columns)]
    for launch in launches:
        for metric in launch.metrics:
            value = metric.value
            low, high = (value, value) if isinstance(value, str) else (value / 2, value * 2)
            cells = {
                **launch.columns(),
                "Section Name": metric.section,
                "Metric Name": metric.label,
                "Metric Unit": metric.unit,
                "Minimum": printed(low),
                "Maximum": printed(high),
                "Average": printed(value),
            }
            rows.append([cells[column] for column in columns])
    return "".join(line(row) + "\n" for row in rows)


PREAMBLE = """==PROF== Connected to process 4242 (/usr/bin/python3.11)
loss 0.693, "accuracy" 0.5
==PROF== Profiling "kernel" - 0 (1/1): 0%....50%....100% - 10 passes
==PROF== Disconnected from process 4242
device: some GPU, 48 SMs
"""


def text_page(launches: Sequence[Launch], locale: str = "en_US", *, old: bool = False) -> str:
    """The details page as text. old: the look of 2020, without shapes and column titles."""
    lines: list[str] = []
    process = None
    for launch in launches:
        if launch.process != process:
            process = launch.process
            lines.append(f"[{process}] program@127.0.0.1")
        shapes = " ({}, {}, {})x({}, {}, {})".format(*launch.grid, *launch.block)
        tail = "Context 1, Stream 7" + ("" if old else ", Device 0, CC 9.0")
        time = ", 2020-Aug-27 18:57:25" if old else ""
        lines.append(f"  {launch.name}{'' if old else shapes}{time}, {tail}")
        sections = dict.fromkeys(
            [metric.section for metric in launch.metrics] + [rule.section for rule in launch.rules]
        )
        for section in sections:
            rows = [m for m in launch.metrics if m.section == section]
            lines.append(f"    Section: {section}")
            if rows:
                lines += _text_table(rows, locale, old)
                lines.append("")
            for position, rule in enumerate(r for r in launch.rules if r.section == section):
                if position:
                    lines.append("    ----- " + "-" * 110)
                lines += _text_rule(rule)
            lines.append("")
    return "\n".join(lines) + "\n"


def _text_table(rows: Sequence[Metric], locale: str, old: bool) -> list[str]:
    values = [printed(row.value, locale) for row in rows]
    widths = (
        [70, 15, 30]
        if old
        else [
            max(len("Metric Name"), *(len(row.label) for row in rows)),
            max(len("Metric Unit"), *(len(row.unit) for row in rows)),
            max(len("Metric Value"), *(len(value) for value in values)),
        ]
    )
    ruler = "    " + " ".join("-" * width for width in widths)
    lines = [ruler]
    if not old:
        lines += [_text_row(("Metric Name", "Metric Unit", "Metric Value"), widths), ruler]
    lines += [
        _text_row((row.label, row.unit, value), widths)
        for row, value in zip(rows, values, strict=True)
    ]
    return [*lines, ruler]


def _text_row(cells: tuple[str, str, str], widths: Sequence[int]) -> str:
    return f"    {cells[0]:<{widths[0]}} {cells[1]:>{widths[1]}} {cells[2]:>{widths[2]}}"


def _text_rule(rule: Rule) -> list[str]:
    words = rule.text.split()
    lines: list[str] = []
    current = ""
    for word in words:
        if current and len(current) + 1 + len(word) > 110:
            lines.append(current)
            current = word
        else:
            current = f"{current} {word}".strip()
    lines.append(current)
    if rule.speedup:
        scope = "Local " if rule.scope == "local" else ""
        lines.insert(0, f"Est. {scope}Speedup: {rule.speedup}%")
    return [f"    {rule.level}   {lines[0]:<110}"] + [
        f"          {text:<110}" for text in lines[1:]
    ]
