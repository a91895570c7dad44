"""The hot source lines of kernels: where the samples fall, and what warps wait for there."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from traceroof.core.kernel_names import demangled
from traceroof.core.units import count, one_line, percent, quantity
from traceroof.diagnosis.diagnosis import Diagnosis, KernelGroup
from traceroof.diagnosis.lines import KernelLines, SourceLine
from traceroof.hardware.vendor_terms import AMD, NVIDIA
from traceroof.report.common import markdown
from traceroof.report.common.console import cut, to_text
from traceroof.report.run.card_lines import Line

SHOWN = 20
_ON_CARD = 8
_STALLS, _NAME = 3, 300
_LEAST_STALL = 0.01
_LARGEST_SOURCE = 16 << 20
_TITLES = ("line", "samples", "time", "where warps wait", "code")
_WAITS = _TITLES.index("where warps wait")
_LONGEST_PLACE = 36
# How lines are collected, by vendor; and what makes them known.
_HOW = {
    NVIDIA: (
        "ncu --set full -o report YOUR_PROGRAM, or --section SourceCounters; the program compiled "
        "with -lineinfo"
    ),
    AMD: (
        "rocprofv3 --kernel-trace --pc-sampling-beta-enabled --pc-sampling-method stochastic "
        "--pc-sampling-unit cycles --pc-sampling-interval 1048576 -f csv -- YOUR_PROGRAM; the program "
        "compiled with -g"
    ),
}
_COMPILE = {NVIDIA: "compile with -lineinfo", AMD: "compile with -g"}


def _none(diagnosis: Diagnosis) -> str:
    how = _HOW.get(diagnosis.vendor or "", _HOW[NVIDIA])
    return f"no samples per instruction in these files; collect them: {how}"


def stalls(line: SourceLine) -> str:
    """``long scoreboard 90 %, wait 4 %``: what the samples of a line wait for, most first."""
    listed = [
        f"{reason.replace('_', ' ')} {percent(share)}"
        for reason, share in line.stalls[:_STALLS]
        if share >= _LEAST_STALL
    ]
    return ", ".join(listed)


def card_lines(kernel: KernelGroup, texts: "Sources | None" = None) -> Iterable[Line]:
    """The lines of a kernel's card."""
    found = kernel.source_lines
    if found is None:
        return
    for one in found.lines[:_ON_CARD]:
        text = (texts.text(one) if texts else "") or ""
        parts = (percent(one.share), stalls(one), cut(text, _NAME))
        bar = None if one.share is None else round(100 * one.share, 1)
        yield Line(one.place, "; ".join(part for part in parts if part), bar)
    if found.caveat:
        yield Line("note", found.caveat)


class Sources:
    """Text of source files under one folder that the user named; a file is found by the longest end
    of its path that exists there."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files: dict[str, list[str]] = {}

    def text(self, line: SourceLine) -> str | None:
        """The text of a line; None where its file is not there."""
        if not line.file or not line.line:
            return None
        if line.file not in self._files:
            self._files[line.file] = self._read(line.file)
        lines = self._files[line.file]
        return lines[line.line - 1].strip() if line.line <= len(lines) else None

    def _read(self, file: str) -> list[str]:
        parts = [one for one in file.replace("\\", "/").split("/") if one not in ("", ".", "..")]
        root = self._root.resolve()
        for begin in range(len(parts)):
            path = root.joinpath(*parts[begin:])
            try:
                # Nothing outside of the folder is read, whatever a path or a link says.
                if path.is_file() and path.resolve().is_relative_to(root):
                    if path.stat().st_size > _LARGEST_SOURCE:
                        return []
                    return path.read_text("utf-8", "replace").splitlines()
            except (OSError, ValueError):
                continue
        return []


def _rows(found: KernelLines, most: int, texts: Sources | None) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for one in found.lines[:most]:
        code = (texts.text(one) if texts else None) or one.text or ""
        rows.append(
            (
                one.place,
                f"{one.counts.get('samples', 0):,} ({percent(one.share)})" if one.share else "",
                "" if one.time_ns is None else quantity(one.time_ns, "ns"),
                stalls(one),
                one_line(cut(code, _NAME)),
            )
        )
    return rows


def _about(found: KernelLines, shown: int, vendor: str) -> list[str]:
    known = found.lines_known
    said = [f"{found.samples:,} samples" if found.samples else "counts of instructions, no samples"]
    if known == 0:
        said.append(f"no source line is known: {_COMPILE.get(vendor, _COMPILE[NVIDIA])}")
    elif known is not None and known < 1:
        said.append(f"{percent(known)} of them at a known source line")
    if len(found.lines) > shown:
        said.append(f"{count(shown, 'line', 'lines')} shown, --top N shows more")
    return ["; ".join(said), *([found.caveat] if found.caveat else [])]


def _title(kernel: KernelGroup) -> str:
    return f"#{kernel.number} {cut(one_line(demangled(kernel.kernel)), _NAME)}"


def render(
    diagnosis: Diagnosis,
    *,
    most: int = SHOWN,
    texts: Sources | None = None,
    width: int = 80,
    color: bool = False,
) -> str:
    """The lines of every kernel of a narrowed diagnosis, as a table for a terminal."""

    def draw(console: Console) -> None:
        for kernel in diagnosis.kernels:
            console.print(Text(_title(kernel), style="bold"))
            found = kernel.source_lines
            if found is None:
                console.print(Text(f"  {_none(diagnosis)}"))
                continue
            rows = _rows(found, most, texts)
            for text in _about(found, len(rows), diagnosis.vendor or ""):
                console.print(Text(f"  {text}", style="dim"))
            console.print(_table(rows))
            for one in _of_kernel(diagnosis, kernel):
                console.print(Text(f"  {one}"))

    return to_text(draw, width=width, color=color)


def _table(rows: Sequence[Sequence[str]]) -> Table:
    """The lines as a table, without columns that are empty."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    shown = [at for at in range(len(_TITLES)) if any(row[at] for row in rows)]
    for at in shown:
        right = _TITLES[at] in ("samples", "time")
        # A line number is never wrapped: what is after it may be.
        whole = right or (not at and max(len(row[at]) for row in rows) < _LONGEST_PLACE)
        table.add_column(
            _TITLES[at], justify="right" if right else "left", overflow="fold", no_wrap=whole
        )
    for row in rows:
        table.add_row(*(Text(row[at]) for at in shown))
    return table


def _of_kernel(diagnosis: Diagnosis, kernel: KernelGroup) -> list[str]:
    """What findings say of lines of a kernel."""
    at = diagnosis.kernels.index(kernel)
    said = []
    for one in diagnosis.fired():
        if one.scope != "kernel" or one.subject_index != at or not one.lines:
            continue
        saves = one.time_saved_bound_ns
        bound = f" (saves at most {quantity(saves, 'ns')})" if saves else ""
        said.append(f"{one.rule}{bound}: {one.because}")
    return said


def render_markdown(
    diagnosis: Diagnosis, *, most: int = SHOWN, texts: Sources | None = None
) -> str:
    """The same as GitHub Markdown."""
    lines = []
    for kernel in diagnosis.kernels:
        lines += [f"### {markdown.code(_title(kernel))}", ""]
        found = kernel.source_lines
        if found is None:
            lines += [markdown.text(_none(diagnosis)), ""]
            continue
        rows = _rows(found, most, texts)
        lines += [
            *(markdown.text(text) for text in _about(found, len(rows), diagnosis.vendor or "")),
            "",
        ]
        lines += ["| " + " | ".join(_TITLES) + " |", "|---|---:|---:|---|---|"]
        lines += ["| " + " | ".join(_cells(row)) + " |" for row in rows]
        lines += ["", *(f"- {markdown.text(one)}" for one in _of_kernel(diagnosis, kernel)), ""]
    return "\n".join(lines) + "\n"


def _cells(row: Sequence[str]) -> list[str]:
    *told, code = row
    return [*(markdown.text(cell) for cell in told), markdown.code(code) if code else ""]


@dataclass(frozen=True)
class LinesOf:
    """The lines of the kernels of a narrowed diagnosis, for JSON."""

    diagnosis: Diagnosis

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """Kernels with all that ``kernels[].source_lines`` holds."""
        kept = ("number", "kernel", "time_ns", "source_lines")
        listed = self.diagnosis.to_dict(top)["kernels"]
        return {"kernels": [{name: one[name] for name in kept} for one in listed]}
