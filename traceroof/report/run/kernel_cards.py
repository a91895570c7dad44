"""Operator cards for a terminal and as Markdown: what ``operator_card`` says, laid out."""

from collections.abc import Iterable

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from traceroof.core.kernel_names import demangled
from traceroof.core.units import count, one_line
from traceroof.diagnosis.diagnosis import Diagnosis, KernelGroup
from traceroof.report.common import markdown
from traceroof.report.common.console import to_text, unbroken
from traceroof.report.run import summary
from traceroof.report.run.card_lines import Line, Section
from traceroof.report.run.operator_card import sections

_INDENT = 2
# Real names reach six kilobytes: on a screen their beginning tells them apart.
_NAME_LENGTH = 400
_BAR = 16
_EXPLAIN = "--explain RULE:N prints the arithmetic of a finding on kernel N"


def render(diagnosis: Diagnosis, *, left_out: int = 0, width: int = 80, color: bool = False) -> str:
    """One card for each kernel of a narrowed diagnosis (``diagnosis.of_kernels``).

    left_out: how many more kernels were meant. width: columns, no less than 60.
    """

    def draw(console: Console) -> None:
        console.print(Text(summary.about(diagnosis), style="dim"))
        for kernel, made in _cards(diagnosis):
            console.print()
            console.print(Text(_title(kernel), style="bold"))
            for section in made:
                console.print()
                console.print(Text(section.title, style="bold underline"))
                _section(console, section)
        console.print()
        console.print(Text(unbroken(diagnosis.ceilings), style="dim"))
        console.print(Text(_EXPLAIN, style="dim"))
        if left_out:
            console.print(_more(left_out))

    return to_text(draw, width=width, color=color)


def _cards(diagnosis: Diagnosis) -> Iterable[tuple[KernelGroup, list[Section]]]:
    for index, kernel in enumerate(diagnosis.kernels):
        found = [
            one
            for one in diagnosis.findings
            if one.scope == "kernel" and one.subject_index == index
        ]
        yield kernel, sections(kernel, found)


def _title(kernel: KernelGroup) -> str:
    name = one_line(demangled(kernel.kernel))
    name = name if len(name) <= _NAME_LENGTH else f"{name[:_NAME_LENGTH]}…"
    return f"#{kernel.number} {name}"


def _more(left_out: int) -> str:
    words = count(left_out, "more kernel has", "more kernels have")
    return f"{words} that name: --top N shows more, #N in the kernel table is one of them"


def _section(console: Console, section: Section) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(style="dim", no_wrap=len(section.lines) > 0)
    if any(line.bar is not None for line in section.lines):
        table.add_column(no_wrap=True, width=_BAR)
        for line in section.lines:
            filled = "█" * round((line.bar or 0) / 100 * _BAR)
            table.add_row(one_line(line.label), filled, unbroken(one_line(line.text)))
    else:
        table.add_column(overflow="fold")
        for line in section.lines:
            table.add_row(one_line(line.label), unbroken(one_line(line.text)))
    console.print(Padding(table, (0, 0, 0, _INDENT)))
    if section.command:
        # One line, however long: the terminal wraps it, and it can be copied.
        command = f"{' ' * _INDENT}collect it: {section.command}"
        console.print(Text(command, style="green"), soft_wrap=True)


def render_markdown(diagnosis: Diagnosis, *, left_out: int = 0) -> str:
    """The cards as GitHub Markdown."""
    lines = [f"**{markdown.text(summary.about(diagnosis))}**", ""]
    for kernel, made in _cards(diagnosis):
        lines += [f"### #{kernel.number} {markdown.code(_title(kernel).split(' ', 1)[1])}", ""]
        for section in made:
            lines += [f"**{markdown.text(section.title)}**", ""]
            lines += [_item(line) for line in section.lines]
            if section.command:
                lines += ["", "```sh", section.command.replace("```", "` ` `"), "```"]
            lines.append("")
    lines.append(f"Ceilings: {markdown.text(diagnosis.ceilings)}")
    if left_out:
        lines += ["", markdown.text(_more(left_out))]
    return "\n".join(lines) + "\n"


def _item(line: Line) -> str:
    return f"- {markdown.text(line.label)}: {markdown.text(line.text)}"
