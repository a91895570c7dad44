"""Measured noise as text: what scatters by how much, and from which change on it is told."""

from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from traceroof.compare.known_noise import LEAST_RUNS
from traceroof.compare.noise_profile import Profile, Scatter
from traceroof.compare.noise_threshold import Thresholds
from traceroof.core.kernel_names import short_names
from traceroof.core.units import count, percent, quantity
from traceroof.report.common.console import grid, to_text

#: Runs per side for which the detectable change is told.
SIDES = (1, 3, 5, 10)


def render(found: Profile, *, top: int = 12, width: int = 80, color: bool = False) -> str:
    """A profile in at most ``width`` columns."""
    limits = Thresholds()

    def draw(console: Console) -> None:
        console.print(Text(headline(found), style="bold"))
        console.print()
        table = Table(box=None, padding=(0, 1), header_style="dim")
        table.add_column("", no_wrap=True, overflow="ellipsis")
        narrow = width < _WIDE
        figures = ("time", "scatter") if narrow else ("time", "share", "scatter", "largest")
        for name in (*figures, *(f"{n} per side" for n in SIDES)):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_row(
            found.total.name, *_figures(found.total, narrow=narrow),
            *(_pct(found.of_total(runs, limits)) for runs in SIDES),
        )  # fmt: skip
        room = max(width - (62 if narrow else 80), 18)
        kernels = found.kernels[:top]
        names = short_names([_name(one) for one in kernels], room)
        for one in kernels:
            told = [
                _pct(found.of_kernel(one, runs, limits)) if runs >= LEAST_RUNS else "-"
                for runs in SIDES
            ]
            table.add_row(names[_name(one)], *_figures(one, narrow=narrow), *told)
        console.print(table)
        if more := len(found.kernels) - len(kernels):
            console.print(Text(f" and {count(more, 'kernel')} more (--top N, --format json)"))
        console.print()
        for line in lines(found):
            console.print(Padding(Text(line), (0, 0, 0, 3)))

    return to_text(draw, width=width, color=color)


def headline(found: Profile) -> str:
    """'train on H100-SXM5: 10 runs of unchanged code; detectable from 1.8 % with 5 runs per side'."""
    limits = Thresholds()
    change = _pct(found.of_total(limits.runs, limits))
    return (
        f"{found.workload} on {found.device}: {found.runs} runs, whose {found.total.name} scatters "
        f"by {_pct(found.total.sigma)}; detectable from {change} with {limits.runs} runs per side"
    )


def lines(found: Profile) -> list[str]:
    """What the table means, and what it rests on."""
    limits = Thresholds()
    made = [
        (
            "scatter: standard deviation of one run (largest: largest difference between two runs). N per "
            "side: smallest change that compare finds in 95 of 100 comparisons with N runs per side. "
            f"Changes of less than {limits.percent:.0f} % of a kernel and {limits.total_percent:.0f} % "
            "of the whole are never reported (--min-percent)."
        ),
        _correlation(found),
    ]
    steps = found.steps
    if steps is not None and not np.isnan(steps.sigma):
        text = f"within a run, a step scatters by {_pct(steps.sigma)}"
        if steps.correlation >= _SEEN:
            text += (
                f"; successive steps are correlated ({steps.correlation:.2f}), so {steps.steps:.0f} steps "
                f"are worth {steps.independent:.0f} independent ones"
            )
        made.append(text)
    if found.runs < _FEW:
        made.append(
            f"{found.runs} runs give a rough estimate of the scatter: with {_FEW} or more, smaller changes "
            "are detectable"
        )
    return made


# Less correlation than this is none to speak of.
_SEEN = 0.05
_FEW = 10
# From so many columns on there is room for share and largest difference.
_WIDE = 100


def _correlation(found: Profile) -> str:
    if found.correlation < _SEEN:
        return "successive runs are not correlated"
    return f"successive runs are correlated ({found.correlation:.2f}): run base and head in turn"


def _name(one: Scatter) -> str:
    return one.name.split("|")[0]


def _figures(one: Scatter, *, narrow: bool) -> tuple[str, ...]:
    time, scatter = quantity(one.median_ns, "ns"), _pct(one.sigma)
    if narrow:
        return time, scatter
    return time, "" if one.share is None else percent(one.share), scatter, _pct(one.reach)


def _pct(share: float) -> str:
    return f"{share * 100:.1f} %" if np.isfinite(share) else "-"


def listed(profiles: Sequence[Profile], *, width: int = 80) -> str:
    """What is stored, a line each."""
    if not profiles:
        return "No noise was measured yet: `traceroof noise RUN RUN RUN…` measures it.\n"
    limits = Thresholds()
    rows = [
        (
            one.workload, one.device, str(one.runs), one.measured, _pct(one.total.sigma),
            _pct(one.of_total(limits.runs, limits)),
        )
        for one in profiles
    ]  # fmt: skip
    header = ("workload", "device", "runs", "measured", "scatter", f"with {limits.runs} per side")
    right = ("runs", "scatter")
    return to_text(lambda console: console.print(grid(header, rows, right=right)), width=width)
