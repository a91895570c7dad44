"""The arithmetic of findings, for a terminal and as Markdown."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from traceroof.core.units import count, one_line, quantity
from traceroof.diagnosis.explanation import Explanation, Explanations, Step
from traceroof.diagnosis.findings import Evidence
from traceroof.diagnosis.formulas import Check
from traceroof.report.common import markdown
from traceroof.report.common.console import heading, to_text, unbroken

_INDENT = 2
_NAME_LENGTH = 400


def render(explained: Explanations, *, width: int = 80, color: bool = False) -> str:
    """The explanations as text of at most ``width`` columns (no less than 60)."""

    def draw(console: Console) -> None:
        for position, one in enumerate(explained.answers):
            if position:
                console.print()
            _draw(console, one)
        if explained.left_out:
            console.print()
            console.print(f"and {count(explained.left_out, 'more subject')} of that name")

    return to_text(draw, width=width, color=color)


def _draw(console: Console, one: Explanation) -> None:
    console.print(Text(f"{one.rule}: {one.title}", style="bold"))
    console.print(Text(subject(one)))
    console.print(Text(unbroken(one.says)))
    console.print(Text(one.outcomes, style="dim"))
    heading(console, "Why it matters")
    _indented(console, one.why)
    for title, words, found in conditions(one):
        heading(console, title)
        if words:
            _indented(console, words)
        _checks(console, found)
    _figures(console, one)
    for title, lines in savings(one):
        heading(console, title)
        for line in lines:
            _indented(console, line)
    for title, text in verdict(one):
        heading(console, title)
        _indented(console, text)
    if one.command:
        heading(console, "Collect it")
        # One line, however long: the terminal wraps it, and it can be copied.
        console.print(Text(f"{' ' * _INDENT}{one.command}", style="green"), soft_wrap=True)


def subject(one: Explanation) -> str:
    """Of what the rule speaks: ``kernel #3 name``."""
    if one.scope == "run":
        return "of the run"
    name = one_line(one.subject)
    name = name if len(name) <= _NAME_LENGTH else name[:_NAME_LENGTH] + "…"
    return f"{one.scope} #{one.number} {name}"


def conditions(one: Explanation) -> Iterable[tuple[str, str, Sequence[Check]]]:
    """Whether the rule applies, and what must hold: title, words, comparisons."""
    if one.concerns:
        yield "Does this rule apply?", "", one.concerns
    title = "Condition" if one.traced else "Condition (its formula could not be followed)"
    yield title, one.words, one.condition


def savings(one: Explanation) -> Iterable[tuple[str, list[str]]]:
    """The two savings, step by step."""
    if one.bound:
        peaks = "at nominal dense peaks: every ceiling is 1"
        yield "At most", [*_held_against(one.bound, peaks), *_all_lines(one.bound)]
    if one.likely:
        yield "Likely", [*_held_against(one.likely, one.ceilings), *_all_lines(one.likely)]


def _held_against(steps: Sequence[Step], ceilings: str) -> list[str]:
    """The ceilings, where a formula has them."""
    return [ceilings] if any("ceiling" in step.formula for step in steps) else []


def _all_lines(steps: Sequence[Step]) -> list[str]:
    return [line for step in steps for line in _lines(step)]


def _lines(step: Step) -> list[str]:
    """A step: what it gives, then the formula, the numbers and the result, each on its line."""
    parts = [part for part in (step.formula, step.figures, step.result) if part]
    # A formula without columns reads the same with numbers.
    kept = list(dict.fromkeys(parts))
    if len(" = ".join(kept)) <= _SHORT:
        return [f"{step.label} = {' = '.join(kept)}"]
    return [step.label, *(f"= {part}" for part in kept)]


# A calculation up to this length reads better on one line.
_SHORT = 60


def verdict(one: Explanation) -> Iterable[tuple[str, str]]:
    """What follows: how severe, how sure, what to try, and what would show it wrong."""
    found = one.finding
    if found is not None:
        if not one.bound:
            yield "Saving", "none is claimed: nothing says how much time would go"
        yield "Severity", one.severity
        factors = " × ".join(
            f"{factor:g} ({reason})" for reason, factor in found.confidence_factors
        )
        yield "Confidence", f"{found.confidence:g} = {factors}"
        if one.trust:
            yield one.trust.label.capitalize(), " ".join(_lines(one.trust)[1:] or _lines(one.trust))
        if found.near_threshold:
            yield "How stable", found.near_threshold.says
        yield "Try", found.fix
    yield "To refute", one.refute
    yield "Source", "; ".join(one.references)


def figure(one: Evidence) -> tuple[str, str, str, str]:
    """One input: column, value, threshold, basis."""
    return one.metric, quantity(one.value, one.unit), one.threshold, one.basis


def _figures(console: Console, one: Explanation) -> None:
    heading(console, "What it read")
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("column", "value", "threshold", "against", "source"):
        table.add_column(name, overflow="fold", no_wrap=name == "column")
    for entry in one.inputs:
        source = f"{entry.source}, {entry.side}" if entry.side else entry.source
        cells = [one_line(cell) for cell in (*figure(entry), source)]
        table.add_row(*cells)
    if one.inputs:
        console.print(Padding(table, (0, 0, 0, _INDENT)))
    if one.unknown:
        _indented(console, f"unknown: {', '.join(one.unknown)}")


def _checks(console: Console, found: Sequence[Check]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    for holds, depth, text, figures in _rows(found, 0):
        shown = Padding(Text(text), (0, 0, 0, 2 * depth))
        table.add_row(Text(holds, style="" if holds == "yes" else "dim"), shown, figures)
    console.print(Padding(table, (0, 0, 0, _INDENT)))


def _rows(found: Sequence[Check], depth: int) -> Iterable[tuple[str, int, str, str]]:
    for one in found:
        yield ("yes" if one.holds else "no"), depth, one.text, one_line(one.figures)
        yield from _rows(one.parts, depth + 1)


def _indented(console: Console, text: str) -> None:
    console.print(Padding(Text(unbroken(one_line(text))), (0, 0, 0, _INDENT)))


def render_markdown(explained: Explanations) -> str:
    """The explanations as GitHub Markdown."""
    lines: list[str] = []
    for one in explained.answers:
        lines += [
            f"### {markdown.text(one.rule)}: {markdown.text(one.title)}", "",
            f"{markdown.text(subject(one))}: {markdown.text(one.says)}", "",
            markdown.text(one.outcomes), "", markdown.text(one.why), "",
        ]  # fmt: skip
        for title, words, found in conditions(one):
            lines += [f"**{markdown.text(title)}**", ""]
            lines += [markdown.text(words), ""] if words else []
            for holds, depth, text, figures in _rows(found, 0):
                indent = "  " * depth
                shown = f": {markdown.text(figures)}" if figures else ""
                lines.append(f"{indent}- {holds}: {markdown.text(text)}{shown}")
            lines.append("")
        lines += ["| Column | Value | Threshold | Measured against |", "|:--|--:|:--|:--|"]
        lines += [
            f"| {' | '.join(markdown.text(cell) for cell in figure(entry))} |"
            for entry in one.inputs
        ]
        lines.append("")
        if one.unknown:
            lines += [markdown.text(f"Unknown: {', '.join(one.unknown)}"), ""]
        for title, steps in savings(one):
            lines += [f"**{markdown.text(title)}**", ""]
            lines += [f"- {markdown.text(step)}" for step in steps]
            lines.append("")
        lines += [f"- **{title}**: {markdown.text(text)}" for title, text in verdict(one)]
        if one.command:
            lines += ["", "```sh", one.command.replace("```", "` ` `"), "```"]
        lines.append("")
    if explained.left_out:
        lines.append(f"And {count(explained.left_out, 'more subject')} of that name.")
    return "\n".join(lines)
