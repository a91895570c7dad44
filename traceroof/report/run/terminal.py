"""A diagnosis for a terminal: one screen, legible at 80 columns."""

import re
from collections.abc import Mapping
from typing import Literal

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from traceroof.core.units import count, one_line, percent, quantity
from traceroof.diagnosis import caveats
from traceroof.diagnosis.advice import Entry
from traceroof.diagnosis.diagnosis import Diagnosis, KernelGroup
from traceroof.kernels.places import By
from traceroof.report.common.console import cut, heading, to_text, unbroken
from traceroof.report.run import summary
from traceroof.report.run.timeline_lines import timeline_lines

_STYLES = {"high": "bold red", "medium": "bold yellow", "low": "cyan", "info": "dim"}
_CATEGORIES, _PLACES = 5, 10
# From this width on the kernels show how busy they keep compute, memory and DRAM.
_WIDE = 100
# Below this width they do without the number of calls.
_NARROW = 72
_USES = (("compute_pct", "compute"), ("memory_pct", "memory"), ("dram_pct", "DRAM"))
_NOTES = 5
# What the kernels do without, by whether there is room for the calls.
_LEFT_OUT = {
    True: "Left out at this width: use of compute, memory and DRAM (--wide shows it).",
    False: "Left out at this width: calls, use of compute, memory and DRAM (--wide shows them).",
}


def render(
    diagnosis: Diagnosis,
    *,
    top: int | None = 10,
    width: int = 80,
    color: bool = False,
    by: Literal["category"] | By = "category",
) -> str:
    """The diagnosis as text of at most ``width`` columns (no less than 60).

    top: how many kernels and findings are shown; None shows all. by: what the time is added up by.
    """
    shown = diagnosis.kernels[:top]
    room = width - (80 if width >= _WIDE else 52 if width >= _NARROW else 40)
    names = summary.labels(diagnosis, range(len(shown)), room)

    def draw(console: Console) -> None:
        covered = summary.coverage(diagnosis)
        if covered and summary.covers_little(diagnosis):
            console.print(covered)
            covered = ""
        console.print(Text(summary.about(diagnosis), style="bold"))
        console.print(unbroken(summary.total(diagnosis)))
        if covered:
            console.print(covered)
        for line in (*summary.settings(diagnosis), *summary.clocks(diagnosis)):
            console.print(unbroken(line))
        _care(console, diagnosis)
        if not diagnosis.narrowed:
            _timelines(console, diagnosis)
            _times(console, diagnosis, by)
        _kernels(console, diagnosis, shown, names, width)
        _advice(console, diagnosis, top, width)
        _vendor(console, shown, names)
        _not_judged(console, diagnosis)
        _notes(console, diagnosis)

    return to_text(draw, width=width, color=color)


def _care(console: Console, diagnosis: Diagnosis) -> None:
    found = caveats.care(diagnosis)
    if not found:
        return
    heading(console, "Read with care")
    for one in found:
        finding = one.finding
        head = Text(f" - {finding.title}", style="bold")
        where = finding.subject if finding.scope == "timeline" else ""
        more = f" and {one.others} more" if one.others else ""
        head.append(f" ({where}{more})" if where else "", style="bold")
        console.print(head)
        _indented(console, f"{finding.rule}: {finding.because}")
        _indented(console, f"It {one.means}.")
        _indented(console, _advice_text(f"Try: {finding.fix}", console.width - 4))


def _timelines(console: Console, diagnosis: Diagnosis) -> None:
    lines = timeline_lines(diagnosis)
    if not lines:
        return
    table = Table(box=None, padding=(0, 1), show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for label, text in lines:
        table.add_row(label, unbroken(text))
    console.print()
    console.print(table)


def _times(console: Console, diagnosis: Diagnosis, by: Literal["category"] | By) -> None:
    times = summary.time_by(diagnosis, by)
    heading(console, f"Time by {by} (shares of GPU time)")
    if not times and by != "category":
        console.print(f"  no {by} is recorded in this run")
    table = Table(box=None, padding=(0, 1), show_header=False)
    for justify in ("left", "right", "right", "left", "right"):
        table.add_column(justify=justify, no_wrap=True)
    listed = times[: _CATEGORIES if by == "category" else _PLACES]
    bar = 20 if by == "category" else 0
    names = [one_line(one.name or "") for one in listed]
    room = max(console.width - 41, 20)
    for name, one in zip(names, listed, strict=True):
        table.add_row(
            name if len(name) <= room else f"…{name[1 - room :]}",
            quantity(one.time_ns if one.share is not None else None, "ns"),
            percent(one.share),
            "█" * round((one.share or 0) * bar),
            count(one.launches, "launch", "launches"),
        )
    rest = times[len(listed) :]
    if rest:
        table.add_row(
            count(len(rest), "other"),
            quantity(sum(one.time_ns for one in rest), "ns"),
            percent(sum(one.share or 0 for one in rest)),
            "",
            count(sum(one.launches for one in rest), "launch", "launches"),
        )
    console.print(table)


def _kernels(
    console: Console,
    diagnosis: Diagnosis,
    shown: tuple[KernelGroup, ...],
    names: Mapping[int, str],
    width: int,
) -> None:
    wide, calls = width >= _WIDE, width >= _NARROW
    more = len(diagnosis.kernels) - len(shown)
    listed = f"{len(shown)} of {len(diagnosis.kernels):,}; " if more else ""
    heading(console, f"Kernels by time ({listed}shares of kernel time)")
    table = Table(box=None, padding=(0, 1), header_style="dim")
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("kernel", no_wrap=True, overflow="ellipsis")
    table.add_column("class", no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    if calls:
        table.add_column("calls", justify="right", no_wrap=True)
    for _, title in _USES if wide else ():
        table.add_column(title, justify="right", no_wrap=True)
    for number, kernel in enumerate(shown, start=1):
        table.add_row(
            f"#{kernel.number or number}",
            names[number - 1],
            kernel.primary_class,
            quantity(kernel.time_ns, "ns"),
            percent(kernel.share),
            *((f"{kernel.launches:,}",) if calls else ()),
            *(_use(kernel, name) for name, _ in _USES if wide),
        )
    console.print(table)
    if not wide:
        _indented(console, _LEFT_OUT[calls], style="dim")


def _use(kernel: KernelGroup, name: str) -> str:
    value = kernel.metrics.get(name)
    return f"{value:.1f} %" if isinstance(value, float) else "unknown"


def _advice(console: Console, diagnosis: Diagnosis, top: int | None, width: int) -> None:
    found = diagnosis.advice
    listed = found[:top]
    shown = f"{len(listed)} of {len(found)}; " if len(found) > len(listed) else ""
    heading(
        console, f"Worth trying, best first ({shown}shares of {summary.whole_words(diagnosis)})"
    )
    if not found:
        console.print("  nothing: no rule fired on what this file shows")
    names = summary.labels(diagnosis, summary.advised_kernels(listed), width - 30)
    for entry in listed:
        head = Text(f"{entry.rank:2} ")
        head.append(f"{entry.severity} ", style=_STYLES[entry.severity])
        head.append(entry.title, style="bold")
        console.print(head)
        if gain := summary.gain(entry):
            _indented(console, f"{gain}; {summary.confidence(entry)}")
        for where in summary.located(entry, names):
            _indented(console, where)
        _indented(console, f"{entry.lead.rule}: {entry.because}")
        _indented(console, _advice_text(f"Try: {entry.fix}", _LINES * (console.width - 4)))
        if more := summary.commands(entry):
            _indented(console, f"More: {' or '.join(more)}", style="green")
        others = [one for one in (summary.also(entry), *_vendor_says(diagnosis, entry)) if one]
        if others:
            _indented(console, f"Also: {', '.join(others)}", style="dim")
    if ceilings := summary.ceilings(diagnosis):
        console.print(Text(unbroken(ceilings), style="dim"))


# How many lines a fix may take; --explain N and --format json have all of it.
_LINES = 2


def _advice_text(fix: str, length: int) -> str:
    """Whole sentences while they fit, and the first in any case: it may hold a command."""
    first, *others = re.split(r"(?<=[.!?]) ", one_line(" ".join(fix.split())))
    kept = first
    for sentence in others:
        if len(kept) + 1 + len(sentence) > length:
            break
        kept += f" {sentence}"
    return kept


def _vendor_says(diagnosis: Diagnosis, one: Entry) -> list[str]:
    """The vendor's own advice on a kernel in few words: the rule with the largest estimate."""
    if one.lead.scope != "kernel" or one.lead.subject_index is None:
        return []
    vendor = diagnosis.kernels[one.lead.subject_index].vendor
    advised = [verdict for verdict in vendor if verdict.level in ("OPT", "WRN")]
    if not advised:
        return []
    most = max(advised, key=lambda verdict: verdict.estimate_pct or 0.0)
    whose = (
        "of one unit's time, not the kernel's" if most.speedup_scope == "local" else "of its time"
    )
    capped = ", capped" if most.capped_pct is not None else ""
    estimate = f" ({most.estimate_pct:.0f} % {whose}{capped})" if most.estimate_pct else ""
    return [f"the vendor's rule {most.rule or most.section}{estimate}"]


def _indented(console: Console, text: str, style: str = "") -> None:
    console.print(Padding(Text(unbroken(text), style=style), (0, 0, 0, 3)))


def _vendor(console: Console, shown: tuple[KernelGroup, ...], names: Mapping[int, str]) -> None:
    apart = [(number, one) for number, one in enumerate(shown, 1) if one.disagreements]
    if not apart:
        return
    heading(console, "The vendor says otherwise")
    for number, kernel in apart[:3]:
        verdict = kernel.disagreements[0]
        inputs = ", ".join(
            f"{label} {quantity(kernel.metrics[name], '%')}"
            for label, name in (
                ("compute", "compute_pct"),
                ("memory", "memory_pct"),
                ("DRAM", "dram_pct"),
            )
            if name in kernel.metrics
        )
        console.print(
            f" #{kernel.number or number} {names[number - 1]}: we say {kernel.primary_class} ({inputs})"
        )
        _indented(console, f"{verdict.rule or verdict.section}: {cut(verdict.text, 200)}")


def _not_judged(console: Console, diagnosis: Diagnosis) -> None:
    found = diagnosis.not_judged
    if not found:
        return
    heading(console, "Not judged")
    _indented(console, summary.not_judged(found))
    if found.command:
        # One line, however long: the terminal wraps it, and it can be copied.
        console.print(Text(f"   collect it: {found.command}", style="green"), soft_wrap=True)


def _notes(console: Console, diagnosis: Diagnosis) -> None:
    lines = summary.note_lines(diagnosis)
    if not lines:
        return
    heading(console, "Notes")
    for line in lines[:_NOTES]:
        _indented(console, line)
    if len(lines) > _NOTES:
        _indented(console, f"and {len(lines) - _NOTES} more (--format json lists all)")
