"""A diagnosis as GitHub Markdown, for an issue, a pull request or a job summary.

The first line is a hidden marker; whoever posts looks for a comment that begins with it and
replaces that one. GitHub takes 65,536 characters in a comment and 1 MiB in a summary: what is cut
is counted.
"""

from collections.abc import Mapping
from typing import Literal

from traceroof.core.kernel_names import short_names
from traceroof.core.units import no_commands, one_line, percent, quantity
from traceroof.diagnosis import caveats
from traceroof.diagnosis.advice import Entry
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.kernels.places import By
from traceroof.report.common.markdown import code, fitting, marker, prose, short, table, text
from traceroof.report.run import summary
from traceroof.report.run.timeline_lines import timeline_lines

#: What a comment may hold.
MOST_CHARACTERS = 65_536
# How much of it is used, in all and by the parts that grow with a run.
_BUDGET, _KERNEL_BUDGET, _FINDING_BUDGET, _NOTE_BUDGET = 60_000, 20_000, 22_000, 6_000
_NAME_WIDTH = 60
_TIMES = 30  # lines of the table of times


def render(
    diagnosis: Diagnosis,
    *,
    top: int | None = 10,
    key: str | None = None,
    by: Literal["category"] | By = "category",
) -> str:
    """The diagnosis as Markdown of at most 65,536 characters; what is cut is counted.

    top: how many kernels and findings are shown, None for all that fit. key: what the comment is
    found again by; the name of the run by default. by: what the time is added up by.
    """
    kernels = diagnosis.kernels[:top]
    advised = diagnosis.advice
    worth = advised[:top]
    names = short_names((one.kernel for one in kernels), _NAME_WIDTH)
    labels = summary.labels(diagnosis, summary.advised_kernels(worth), _NAME_WIDTH)
    lines = [
        marker("diagnosis", key or diagnosis.run_name),
        f"**{short(diagnosis.headline)}**",
        "",
        f"{short(summary.about(diagnosis))}. {text(summary.total(diagnosis))}",
        "",
    ]
    beside = [*summary.settings(diagnosis), *summary.clocks(diagnosis)]
    lines += [*(f"- {text(line)}" for line in beside), ""] if beside else []
    lines += _care(diagnosis)
    if not diagnosis.narrowed:
        timelines = timeline_lines(diagnosis)
        lines += [f"- **{label}**: {text(words)}" for label, words in timelines]
        lines += [""] if timelines else []
        lines += _times(diagnosis, by)
    lines += ["", "| # | Kernel | Category | Class | Time | Share of kernel time | Calls |",
              "|--:|:--|:--|:--|--:|--:|--:|"]  # fmt: skip
    rows = fitting(
        [
            f"| {one.number or number} | {code(names[one.kernel])} | {one.category} | {one.primary_class} "
            f"| {quantity(one.time_ns, 'ns')} | {percent(one.share)} | {one.launches:,} |"
            for number, one in enumerate(kernels, 1)
        ],
        _KERNEL_BUDGET,
    )
    lines += rows
    if len(diagnosis.kernels) > len(rows):
        lines.append(f"\n{len(diagnosis.kernels) - len(rows):,} more kernels not shown.")
    lines += ["", f"### {_heading(diagnosis, len(worth), len(advised))}", ""]
    if not worth:
        lines.append("No rule fired: traceroof found nothing to change in this profile.")
    entries = ["\n".join(_entry(one, labels, summary.command(diagnosis))) for one in worth]
    listed = fitting(entries, _FINDING_BUDGET)
    lines += listed
    if len(entries) > len(listed):
        left = len(entries) - len(listed)
        lines += ["", f"{left:,} more do not fit here: `--format json` has all."]
    if ceilings := summary.ceilings(diagnosis):
        lines += ["", prose(ceilings)]
    for section in (_not_judged(diagnosis), _notes(diagnosis)):
        fits = sum(map(len, [*lines, *section])) + len(lines) + len(section) < _BUDGET
        lines += section if fits else []
    return no_commands("\n".join(lines) + "\n")


def _times(diagnosis: Diagnosis, by: Literal["category"] | By) -> list[str]:
    return table(
        (by.capitalize(), "Time", "Share of GPU time", "Launches"),
        "lrrr",
        (
            (
                text(one.name or "") if by == "category" else code(one.name or ""),
                quantity(one.time_ns, "ns"),
                percent(one.share),
                f"{one.launches:,}",
            )
            for one in summary.time_by(diagnosis, by)[:_TIMES]
        ),
    )


def _notes(diagnosis: Diagnosis) -> list[str]:
    notes = [f"- {short(note)}" for note in summary.note_lines(diagnosis)]
    shown = fitting(notes, _NOTE_BUDGET)
    if len(notes) > len(shown):
        shown.append(f"- {len(notes) - len(shown):,} more (`--format json` has all)")
    return ["", "### Notes", "", *shown] if notes else []


def _care(diagnosis: Diagnosis) -> list[str]:
    found = caveats.care(diagnosis)
    if not found:
        return []
    lines = ["### Read with care", ""]
    for one in found:
        finding = one.finding
        lines += [
            f"- **{text(finding.title)}**: {prose(finding.because)}; it {prose(one.means)}.",
            f"  - try: {prose(finding.fix)}",
        ]
    return [*lines, ""]


def _heading(diagnosis: Diagnosis, listed: int, all: int) -> str:
    some = f"{listed} of {all}; " if all > listed else ""
    return f"Worth trying, best first ({some}shares of {summary.whole_words(diagnosis)})"


def _entry(entry: Entry, names: Mapping[int, str], run: str) -> list[str]:
    """What is worth trying, on what, and how it could be wrong."""
    lead = entry.lead
    where = summary.subjects(entry, names)
    place = entry.where.words
    on = "on" if lead.scope == "timeline" else "in"
    gain = summary.gain(entry)
    more = [code(f"{run} {one}") for one in summary.commands(entry)]
    return [
        f"{entry.rank}. **{text(entry.title)}** ({entry.severity})"
        + (f" {on} {code(where) if lead.scope == 'kernel' else short(where)}" if where else "")
        + (f" in {code(place)}" if place else "")
        + (f" at {code(entry.where.source)}" if entry.where.source else ""),
        *([f"   - {text(gain)}; {text(summary.confidence(entry))}"] if gain else []),
        f"   - because {prose(entry.because)}",
        f"   - try: {prose(entry.fix)}",
        *([f"   - to refute: {prose(lead.refute)}"] if lead.refute else []),
        *([f"   - more: {' or '.join(more)}"] if more else []),
        *([f"   - also {code(summary.also(entry))}"] if entry.folded else []),
    ]


def _not_judged(diagnosis: Diagnosis) -> list[str]:
    found = diagnosis.not_judged
    if not found:
        return []
    lines = ["", "### Not judged", "", text(summary.not_judged(found))]
    if found.command:
        lines += ["", "```sh", one_line(found.command).replace("```", "` ` `"), "```"]
    return lines
