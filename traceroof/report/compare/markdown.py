"""A comparison as GitHub Markdown: a pull-request comment that is updated, and a job summary.

The first line is a hidden marker; whoever posts looks for a comment that begins with it and
replaces that one. Names from files are inline code, so that nothing in them is markup, a mention
or the end of a table cell. GitHub takes 65,536 characters in a comment and 1 MiB in a summary.
"""

from collections.abc import Sequence

import traceroof
from traceroof.compare import Comparison, Overall
from traceroof.compare.changes import Change
from traceroof.core.kernel_names import short_names
from traceroof.core.units import no_commands, percent, quantity
from traceroof.diagnosis.findings import Finding
from traceroof.report.common.markdown import code, details, fitting, marker, table
from traceroof.report.common.markdown import short as text
from traceroof.report.compare import trust_words, words
from traceroof.report.compare.stories import stories

# How much of ``MOST_CHARACTERS`` is used.
_BUDGET = 60_000
_KERNEL_BUDGET = 40_000
# No sentence needs more; names of runs and GPUs come from files and may be of any length.
_LONGEST = 600

_MARKS: dict[Overall, str] = {
    "regressed": "🔴",
    "improved": "🟢",
    "unchanged": "⚪",
    "inconclusive": "🟡",
    "not-comparable": "🚫",
}
_ROW_MARKS = {
    "regressed": "🔴 slower",
    "improved": "🟢 faster",
    "unchanged": "⚪ same",
    "inconclusive": "🟡 unclear",
    "new": "➕ new",
    "gone": "➖ gone",
    "not-compared": "",
}
_NAME_WIDTH = 60
_LISTED = 20


def render(comparison: Comparison, *, key: str | None = None, top: int = 10) -> str:
    """The comparison as Markdown of at most 65,536 characters; what is cut is counted.

    key: what the comment is found again by; the name of the base by default.
    """
    head = [
        marker("pr-report", key or comparison.base.run_name),
        *_verdict(comparison),
        *_story(comparison),
    ]
    sections = [
        _kernels(comparison, top),
        _trust(comparison),
        [] if comparison.narrowed else details("Categories", _categories(comparison)),
        _inconclusive(comparison),
        _findings("New findings on the head", comparison.appeared),
        _findings("Findings that the head no longer has", comparison.resolved),
        _rule(comparison),
    ]
    return _fit(head, sections)


def _fit(head: Sequence[str], sections: Sequence[Sequence[str]]) -> str:
    """Whole sections while they fit, then a line that says how many do not."""
    page = "\n".join(head)
    kept, left = 0, 0
    for section in sections:
        if not section:
            continue
        added = "\n".join(("", "", *section))
        if len(page) + len(added) <= _BUDGET:
            page += added
            kept += 1
        else:
            left += 1
    if left:
        page += f"\n\n{left} of {kept + left} sections do not fit here: `--format json` has all."
    return no_commands(page + "\n")


def _verdict(comparison: Comparison) -> list[str]:
    mark, verdict = _MARKS[comparison.verdict], words.VERDICTS[comparison.verdict]
    line = (
        f"### {mark} traceroof: **{verdict}**, {text(words.total_line(comparison))} — "
        f"{words.counts(comparison)}"
    )
    lines = [line]
    missing = words.missing(comparison)
    if missing:
        lines += ["", f"**{text(missing)}**"]
    if comparison.forced:
        apart = "; ".join(str(one) for one in comparison.differences if one.blocks)
        lines += ["", f"⚠ **Forced:** {text(apart)}. The times differ for these reasons, too."]
    if configured := comparison.settings.words():
        lines += ["", text(configured)]
    return lines


def _story(comparison: Comparison) -> list[str]:
    lines: list[str] = []
    for told in stories(comparison):
        name = text(told.label) + ":" if told.name is None else code(_short([told.name])[0])
        lines += ["", f"**{told.title}:** {name} {text(told.where)}"]
        if told.why:
            lines.append(f"<br>**Why:** {text(told.why)}")
        if told.attempt:
            lines.append(f"<br>**Try:** {text(told.attempt)}")
    return lines


def _kernels(comparison: Comparison, top: int) -> list[str]:
    rows, more = words.listed(comparison, top)
    if not rows:
        return []
    labels = words.labels(rows, _NAME_WIDTH)
    if not comparison.compared:
        lines = table(
            ("", "Kernel", "Share", "Per call, base", "Head", "Launches"),
            "llrrrr",
            (
                (
                    _ROW_MARKS[one.verdict],
                    code(label),
                    percent(one.share),
                    words.call(one, "base"),
                    words.call(one, "head"),
                    words.from_to(one.base.launches, one.head.launches, ""),
                )
                for one, label in zip(rows, labels, strict=True)
            ),
        )
    else:
        lines = table(
            ("", "Kernel", "Share", "Per call, base", "Head", "Δ time", "Bound by", "Trust"),
            "llrrrrlr",
            (
                (
                    _ROW_MARKS[one.verdict],
                    code(label),
                    percent(one.share),
                    words.call(one, "base"),
                    words.call(one, "head"),
                    _difference(one),
                    words.bound_by(one),
                    f"{one.pair.trust:.2f}" if one.pair and one.pair.by else "-",
                )
                for one, label in zip(rows, labels, strict=True)
            ),
        )
    shown = fitting(lines, _KERNEL_BUDGET)
    more += len(lines) - len(shown)
    lines = shown
    if more:
        lines += ["", f"{more:,} more kernels changed and are not listed."]
    line = words.timeline_line(comparison)
    if line:
        lines += ["", text(f"{line[0].upper()}{line[1:]}")]
    return lines


def _difference(change: Change) -> str:
    calls = f", {words.calls(change)}" if words.calls(change) else ""
    return _time_difference(change) + calls


def _time_difference(change: Change) -> str:
    if change.basis == "counters":
        return "by counters"
    shown = text(words.difference(change))
    if change.verdict not in ("regressed", "improved"):
        return shown
    figure, _, rest = shown.partition(" (")
    return f"**{figure}** ({rest}" if rest else f"**{figure}**"


def _trust(comparison: Comparison) -> list[str]:
    return [
        "**Basis of the verdict:** "
        + " · ".join(text(one) for one in trust_words.trust(comparison))
    ]


def _categories(comparison: Comparison) -> list[str]:
    return table(
        ("Category", "Base", "Head", "Δ time", ""),
        "lrrrl",
        (
            (
                text(one.category or ""),
                quantity(one.base.median_ns, "ns"),
                quantity(one.head.median_ns, "ns"),
                text(words.difference(one)),
                _ROW_MARKS[one.verdict] if comparison.compared else "",
            )
            for one in comparison.categories
        ),
    )


def _inconclusive(comparison: Comparison) -> list[str]:
    found = [
        *(one for one in comparison.of("regressed") if one.basis == "counters"),
        *comparison.of("inconclusive"),
    ]
    if not found or not comparison.compared:
        return []
    shown = found[:_LISTED]
    lines = table(
        ("Kernel", "Δ time", "Why"),
        "lrl",
        (
            (code(label), text(words.difference(one)), text(words.remark(comparison, one)))
            for one, label in zip(shown, words.labels(shown, _NAME_WIDTH), strict=True)
        ),
    )
    if len(found) > len(shown):
        lines += ["", f"{len(found) - len(shown):,} more are not listed."]
    return details(f"{len(found):,} without a verdict, or judged by counters", lines)


def _findings(title: str, findings: Sequence[Finding]) -> list[str]:
    if not findings:
        return []
    shown = findings[:_LISTED]
    lines = [
        f"- {text(one.title)} ({one.severity}, {code(one.rule)}) in "
        f"{_subject(one)}: {text(one.because)}"
        for one in shown
    ]
    if len(findings) > len(shown):
        lines.append(f"- {len(findings) - len(shown):,} more are not listed.")
    return details(f"{title}: {len(findings):,}", lines)


def _subject(finding: Finding) -> str:
    name = _short([finding.subject])[0] if finding.scope == "kernel" else finding.subject
    return code(name[:_LONGEST])


def _rule(comparison: Comparison) -> list[str]:
    base, head = words.sides(comparison)
    lines = [
        f"- Rule: {text(trust_words.thresholds(comparison))}.",
        f"- Base: {_run(base, comparison.base.run_id)}",
        f"- Head: {_run(head, comparison.head.run_id)}",
        f"- Reproduce: {', '.join(code(one) for one in words.commands(comparison))}",
        f"- traceroof {traceroof.__version__}",
    ]
    return details("Rule and provenance", lines)


def _run(line: str, run_id: str) -> str:
    return text(line) + (f" ({code(run_id)})" if run_id else "")


def _short(names: Sequence[str]) -> list[str]:
    short = short_names(names, _NAME_WIDTH)
    return [short[name] for name in names]
