"""A diagnosis as GitHub Markdown, for an issue, a pull request or a job summary.

The first line is a hidden marker; whoever posts looks for a comment that begins with it and
replaces that one. GitHub takes 65,536 characters in a comment and 1 MiB in a summary: what is cut
is counted.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from traceroof.diagnosis import Diagnosis
from traceroof.findings import Finding
from traceroof.names import short_names
from traceroof.report import summary
from traceroof.report.timeline_lines import timeline_lines
from traceroof.report.verdict import verdict
from traceroof.units import one_line, percent, quantity

#: What a comment may hold.
MOST_CHARACTERS = 65_536
# How much of it is used, in all and by the parts that grow with a run.
_BUDGET, _KERNEL_BUDGET, _FINDING_BUDGET, _NOTE_BUDGET = 60_000, 20_000, 22_000, 6_000
# No sentence needs more; names of runs and of files may be of any length.
_LONGEST = 600

_NAME_WIDTH = 60


def marker(what: str, key: str) -> str:
    """The hidden first line of a comment; one comment a key. what: 'pr-report', 'diagnosis'."""
    # No "--": it would end the comment.
    safe = re.sub(r"[^A-Za-z0-9._]+", "-", key).strip("-")[:60] or "default"
    return f"<!-- traceroof:{what}:v1 key={safe} -->"


def render(diagnosis: Diagnosis, *, top: int | None = 10, key: str | None = None) -> str:
    """The diagnosis as Markdown of at most 65,536 characters; what is cut is counted.

    top: how many kernels and findings are shown, None for all that fit. key: what the comment is
    found again by; the name of the run by default.
    """
    kernels = diagnosis.kernels[:top]
    cared = {one.finding.rule for one in summary.care(diagnosis)}
    rest = [one for one in diagnosis.fired() if one.rule not in cared]
    findings = summary.once(rest)[:top]
    shown = [one.kernel for one in kernels]
    shown += [one.subject for one, _ in findings if one.scope == "kernel"]
    names = short_names(shown, _NAME_WIDTH)
    lines = [
        marker("diagnosis", key or diagnosis.run_name),
        f"**{short(verdict(diagnosis).sentence)}**",
        "",
        f"{short(summary.about(diagnosis))}. {text(summary.total(diagnosis))}",
        "",
    ]
    lines += _care(diagnosis)
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
    rows = fitting(
        [
            f"| {number} | {code(names[one.kernel])} | {one.category} | {one.primary_class} "
            f"| {quantity(one.time_ns, 'ns')} | {percent(one.share)} | {one.launches:,} |"
            for number, one in enumerate(kernels, 1)
        ],
        _KERNEL_BUDGET,
    )
    lines += rows
    if len(diagnosis.kernels) > len(rows):
        lines.append(f"\n{len(diagnosis.kernels) - len(rows):,} more kernels not shown.")
    lines += ["", "### Worth trying, most time saved first", ""]
    if not findings:
        lines.append("Nothing: no rule fired on what this file shows.")
    entries = [
        "\n".join(_finding(number, one, others, names, summary.whole_of(diagnosis, one)))
        for number, (one, others) in enumerate(findings, 1)
    ]
    listed = fitting(entries, _FINDING_BUDGET)
    lines += listed
    if len(entries) > len(listed):
        left = len(entries) - len(listed)
        lines += ["", f"{left:,} more do not fit here: `--format json` has all."]
    if ceilings := summary.ceilings(diagnosis):
        lines += ["", text(ceilings)]
    for section in (_not_judged(diagnosis), _notes(diagnosis)):
        fits = sum(map(len, [*lines, *section])) + len(lines) + len(section) < _BUDGET
        lines += section if fits else []
    return "\n".join(lines) + "\n"


def _notes(diagnosis: Diagnosis) -> list[str]:
    notes = [f"- {short(note)}" for note in summary.note_lines(diagnosis)]
    shown = fitting(notes, _NOTE_BUDGET)
    if len(notes) > len(shown):
        shown.append(f"- {len(notes) - len(shown):,} more (`--format json` has all)")
    return ["", "### Notes", "", *shown] if notes else []


def fitting(lines: Iterable[str], budget: int) -> list[str]:
    """The first lines that have room in so many characters."""
    kept: list[str] = []
    for line in lines:
        budget -= len(line) + 1
        if budget < 0:
            break
        kept.append(line)
    return kept


def short(value: str) -> str:
    """Plain text inside Markdown, of a length that leaves room for the rest."""
    return text(value if len(value) <= _LONGEST else value[: _LONGEST - 1] + "…")


def _care(diagnosis: Diagnosis) -> list[str]:
    found = summary.care(diagnosis)
    if not found:
        return []
    lines = ["### Read with care", ""]
    for one in found:
        finding = one.finding
        lines += [
            f"- **{text(finding.title)}**: {text(finding.because)}; it {text(one.means)}.",
            f"  - try: {text(finding.fix)}",
        ]
    return [*lines, ""]


def _finding(
    number: int, finding: Finding, others: int, names: Mapping[str, str], whole_ns: int
) -> list[str]:
    where = code(names[finding.subject]) if finding.scope == "kernel" else short(finding.subject)
    where += f" and {others} more" if others else ""
    gain = summary.savings(finding, whole_ns)
    return [
        f"{number}. **{text(finding.title)}** ({finding.severity}) in {where}"
        + (f": {gain}" if gain else ""),
        f"   - because {text(finding.because)}",
        *([f"   - {text(summary.confidence(finding))}"] if finding.doubted_by else []),
        *([f"   - {text(finding.near_threshold.says)}"] if finding.near_threshold else []),
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
    escaped = re.sub(r"([\\`*_{}\[\]<>#|~$])", r"\\\1", one_line(" ".join(value.split())))
    # A zero-width space keeps GitHub from mentioning whoever is called like the word after "@".
    return escaped.replace("@", "@\u200b")


def code(value: str) -> str:
    """Text as inline code that holds whatever the text holds, backticks and pipes included."""
    value = " ".join(value.split()).replace("|", "\\|") or " "
    fence = "`" * (max((len(run) for run in re.findall(r"`+", value)), default=0) + 1)
    pad = " " if value.startswith("`") or value.endswith("`") else ""
    return f"{fence}{pad}{value}{pad}{fence}"
