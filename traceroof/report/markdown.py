"""A diagnosis as GitHub Markdown, for an issue, a pull request or a job summary."""

import re
from collections.abc import Iterable, Mapping, Sequence

from traceroof.diagnosis import Diagnosis
from traceroof.findings import Finding
from traceroof.names import short_names
from traceroof.report import summary
from traceroof.report.timeline_lines import timeline_lines
from traceroof.units import percent, quantity

_NAME_WIDTH = 60


def render(diagnosis: Diagnosis, *, top: int | None = 10) -> str:
    """The diagnosis as Markdown; ``top`` cuts kernels and findings, None shows all."""
    kernels = diagnosis.kernels[:top]
    findings = summary.once(diagnosis.fired())[:top]
    shown = [one.kernel for one in kernels]
    shown += [one.subject for one, _ in findings if one.scope == "kernel"]
    names = short_names(shown, _NAME_WIDTH)
    lines = [f"**{text(summary.about(diagnosis))}**", "", text(summary.total(diagnosis)), ""]
    timelines = timeline_lines(diagnosis)
    lines += [f"- **{label}**: {text(words)}" for label, words in timelines]
    lines += [""] if timelines else []
    lines += _table(
        ("Category", "Time", "Share", "Launches"),
        "lrrr",
        (
            (
                one.category,
                quantity(one.time_ns, "ns"),
                percent(one.share),
                f"{one.launches:,}",
            )
            for one in diagnosis.categories
        ),
    )
    lines += ["", "| # | Kernel | Category | Class | Time | Share | Calls |",
              "|--:|:--|:--|:--|--:|--:|--:|"]  # fmt: skip
    for number, one in enumerate(kernels, 1):
        lines.append(
            f"| {number} | {code(names[one.kernel])} | {one.category} | {one.primary_class} "
            f"| {quantity(one.time_ns, 'ns')} | {percent(one.share)} | {one.launches:,} |"
        )
    if len(diagnosis.kernels) > len(kernels):
        lines.append(f"\n{len(diagnosis.kernels) - len(kernels):,} more kernels not shown.")
    lines += ["", "### Worth trying, most time saved first", ""]
    if not findings:
        lines.append("Nothing: no rule fired on what this file shows.")
    for number, (finding, others) in enumerate(findings, 1):
        lines += _finding(number, finding, others, names, summary.whole_of(diagnosis, finding))
    lines += _not_judged(diagnosis)
    notes = summary.note_lines(diagnosis)
    if notes:
        lines += ["", "### Notes", "", *(f"- {text(note)}" for note in notes)]
    return "\n".join(lines) + "\n"


def _finding(
    number: int, finding: Finding, others: int, names: Mapping[str, str], whole_ns: int
) -> list[str]:
    where = code(names[finding.subject]) if finding.scope == "kernel" else text(finding.subject)
    where += f" and {others} more" if others else ""
    gain = summary.savings(finding, whole_ns)
    return [
        f"{number}. **{text(finding.title)}** ({finding.severity}) in {where}"
        + (f": {gain}" if gain else ""),
        f"   - because {text(finding.because)}",
        f"   - try: {text(finding.fix)}",
        f"   - wrong if: {text(finding.refute)}",
    ]


def _not_judged(diagnosis: Diagnosis) -> list[str]:
    entries = summary.not_judged(diagnosis)
    if not entries:
        return []
    lines = ["", "### Not judged", ""]
    for entry in entries:
        missing = f": missing {', '.join(entry.missing)}" if entry.missing else ""
        lines.append(f"- {text(entry.what)}{text(missing)}")
    command = next((entry.command for entry in entries if entry.command), None)
    if command:
        lines += ["", "```sh", command.replace("```", "` ` `"), "```"]
    return lines


def _table(header: Sequence[str], alignment: str, rows: Iterable[Sequence[str]]) -> list[str]:
    marks = {"l": ":--", "r": "--:"}
    return [
        f"| {' | '.join(header)} |",
        f"|{'|'.join(marks[letter] for letter in alignment)}|",
        *(f"| {' | '.join(text(entry) for entry in row)} |" for row in rows),
    ]


def text(value: str) -> str:
    """Plain text inside Markdown: nothing in it is markup, a mention or the end of a cell."""
    escaped = re.sub(r"([\\`*_{}\[\]<>#|~$])", r"\\\1", " ".join(value.split()))
    # A zero-width space keeps GitHub from mentioning whoever is called like the word after "@".
    return escaped.replace("@", "@\u200b")


def code(value: str) -> str:
    """Text as inline code that holds whatever the text holds, backticks and pipes included."""
    value = " ".join(value.split()).replace("|", "\\|") or " "
    fence = "`" * (max((len(run) for run in re.findall(r"`+", value)), default=0) + 1)
    pad = " " if value.startswith("`") or value.endswith("`") else ""
    return f"{fence}{pad}{value}{pad}{fence}"
