"""A comparison for a terminal: the verdict first, then where, why, what to try, and the rows."""

from collections.abc import Sequence

from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from traceroof.compare import Comparison, Overall
from traceroof.compare.changes import Change
from traceroof.core.kernel_names import short_names
from traceroof.core.units import percent, quantity
from traceroof.report.common.console import heading, to_text, unbroken
from traceroof.report.compare import trust_words, words
from traceroof.report.compare.stories import stories

_STYLES: dict[Overall, str] = {
    "regressed": "bold red",
    "improved": "bold green",
    "unchanged": "bold",
    "inconclusive": "bold yellow",
    "not-comparable": "bold yellow",
}
_CATEGORIES = 6
_INCONCLUSIVE = 5


def render(comparison: Comparison, *, top: int = 10, width: int = 80, color: bool = False) -> str:
    """The comparison as text of at most ``width`` columns (no less than 60).

    top: how many kernels are shown.
    """

    def draw(console: Console) -> None:
        _verdict(console, comparison)
        _story(console, comparison, width)
        _kernels(console, comparison, top, width)
        if not comparison.narrowed:
            _categories(console, comparison)
        counted = [one for one in comparison.of("regressed") if one.basis == "counters"]
        _remarks(console, comparison, "Slower by counters", counted, width)
        _remarks(console, comparison, "Inconclusive", comparison.of("inconclusive"), width)
        _trust(console, comparison)

    return to_text(draw, width=width, color=color)


def _verdict(console: Console, comparison: Comparison) -> None:
    verdict = Text(words.VERDICTS[comparison.verdict].upper(), style=_STYLES[comparison.verdict])
    console.print(verdict.append(f": {words.total_line(comparison)}", style="bold"))
    missing = words.missing(comparison)
    if missing:
        _indented(console, missing)
    if comparison.forced:
        apart = "; ".join(str(one) for one in comparison.differences if one.blocks)
        _indented(console, f"Forced: {apart}. The times differ for these reasons, too.")
    if configured := comparison.settings.words():
        _indented(console, configured)
    _indented(console, f"kernels: {words.counts(comparison)}")
    base, head = words.sides(comparison)
    console.print(Text(f"base {base}", style="dim"))
    console.print(Text(f"head {head}", style="dim"))


def _story(console: Console, comparison: Comparison, width: int) -> None:
    for told in stories(comparison):
        console.print()
        name = short_names([told.name], width - 24)[told.name] if told.name else told.label
        console.print(
            Text(f"{told.title}: ", style="bold").append(unbroken(f"{name}: {told.where}"))
        )
        for label, text in (("why", told.why), ("try", told.attempt)):
            if text:
                _indented(console, f"{label}: {text}")


def _kernels(console: Console, comparison: Comparison, top: int, width: int) -> None:
    rows, more = words.listed(comparison, top)
    if not rows:
        return
    heading(console, f"Kernels{f' ({more:,} more changed)' if more else ''}")
    # Without a verdict on times there is no column for their difference.
    compared = comparison.compared
    table = Table(box=None, padding=(0, 1), header_style="dim")
    table.add_column("", no_wrap=True)
    table.add_column("kernel", no_wrap=True, overflow="ellipsis")
    table.add_column("share", justify="right", no_wrap=True)
    table.add_column("per call", justify="right", no_wrap=True)
    table.add_column("change" if compared else "launches", justify="right", no_wrap=True)
    cells = [_cells(one, compared=compared, stacked=False) for one in rows]
    room = width - _taken(cells)
    if room < _LEAST_NAME:  # a name can be cut, a number cannot
        cells = [_cells(one, compared=compared, stacked=True) for one in rows]
        room = max(width - _taken(cells), _LEAST_NAME)
    for (verdict, *figures), label in zip(cells, words.labels(rows, room), strict=True):
        table.add_row(verdict, label, *(Group(*map(Text, one.split("\n"))) for one in figures))
    console.print(table)


_LEAST_NAME = 14


def _taken(cells: Sequence[Sequence[str]]) -> int:
    """Columns that all but the name take: the longest line of each, and the padding."""
    headers = ("", "share", "per call", "launches")
    widths = (
        max(len(line) for cell in column for line in cell.split("\n"))
        for column in zip(headers, *cells, strict=True)
    )
    return sum(widths) + 2 * (len(headers) + 1)


def _cells(one: Change, *, compared: bool, stacked: bool) -> tuple[str, str, str, str]:
    """Verdict, share, times of a call and change of a kernel; stacked: no line has two figures."""
    call, calls = _call(one), words.calls(one) if compared else ""
    last = words.from_to(one.base.launches, one.head.launches, "")
    if compared:
        change, pct = _change(one)
        last = "\n".join(filter(None, (change, pct))) if stacked else f"{change}{pct:>9}".rstrip()
    if stacked:
        call = call.replace(" → ", " →\n")
    return (
        words.more_or_less(one) or _WORDS.get(one.verdict, one.verdict),
        percent(one.share),
        f"{call}\n{calls}" if calls else call,
        last,
    )


_WORDS = {
    "regressed": "slower",
    "improved": "faster",
    "unchanged": "same",
    "inconclusive": "unclear",
    "not-compared": "",
}


def _call(one: Change) -> str:
    base, head = one.base.call_ns, one.head.call_ns
    if one.verdict in ("new", "gone"):
        return quantity(head or base, "ns")
    return words.from_to(base, head)


def _change(one: Change) -> tuple[str, str]:
    """The difference, and what part of the time it is."""
    if one.basis == "counters":
        return "counters", ""
    return words.signed(one.delta_ns), words.change_pct(one)


def _categories(console: Console, comparison: Comparison) -> None:
    heading(console, "Categories")
    table = Table(box=None, padding=(0, 1), show_header=False)
    for justify in ("left", "right", "right", "left"):
        table.add_column(justify=justify, no_wrap=True)
    for one in comparison.categories[:_CATEGORIES]:
        table.add_row(
            one.name,
            words.from_to(one.base.median_ns, one.head.median_ns),
            words.change_pct(one),
            _WORDS.get(one.verdict, one.verdict) if comparison.compared else "",
        )
    console.print(table)
    line = words.timeline_line(comparison)
    if line:
        console.print(f" {line}")


def _remarks(
    console: Console, comparison: Comparison, title: str, changes: Sequence[Change], width: int
) -> None:
    reasons: dict[str, list[Change]] = {}
    for one in changes:
        reasons.setdefault(words.remark(comparison, one), []).append(one)
    if reasons:
        heading(console, title)
    for reason, alike in list(reasons.items())[:_INCONCLUSIVE]:
        name = words.labels(alike[:1], max(width - 40, 24))[0]
        more = f" and {len(alike) - 1:,} more" if len(alike) > 1 else ""
        _indented(console, f"{name}{more}: {reason}")
    if len(reasons) > _INCONCLUSIVE:
        _indented(console, f"and {len(reasons) - _INCONCLUSIVE:,} more (--format json lists all)")


def _trust(console: Console, comparison: Comparison) -> None:
    heading(console, "Basis of the verdict")
    for line in (*trust_words.trust(comparison), trust_words.thresholds(comparison)):
        _indented(console, line)


def _indented(console: Console, text: str) -> None:
    console.print(Padding(Text(unbroken(text)), (0, 0, 0, 3)))
