"""Counters and times that cannot be: which are taken back."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from traceroof.core import regex
from traceroof.core.recording import Note
from traceroof.parsers.amd.counter_book import book, matches
from traceroof.parsers.amd.counters import Pass, Reals

# Below this the cycles of launch and cache flush, which are counted too, outweigh the kernel's.
_SHORT_NS = 20_000
_FEWEST_TO_COMPARE = 3
_SAME = 0.25
_NEARLY_ALL = 0.8


def without_contradicted_times(
    passes: Sequence[Pass], duration_ns: Reals
) -> tuple[list[Pass], npt.NDArray[np.bool_]]:
    """The passes without durations that their own cycle counter contradicts by over half.

    The median clock of a pass says how long its cycles take. Returns also which of the dispatches'
    durations (``duration_ns``, which may be of another run) are such ones.
    """
    cleaned: list[Pass] = []
    count = len(passes[0].duration_ns) if passes else 0
    wrong = np.zeros(count, dtype=bool)
    for one in passes:
        cycles = one.counters.get("GRBM_GUI_ACTIVE")
        doubted = np.zeros(count, dtype=bool)
        if cycles is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                clock = cycles / one.duration_ns
            steady = np.isfinite(clock) & (clock > 0) & (one.duration_ns > _SHORT_NS)
            if steady.sum() >= _FEWEST_TO_COMPARE:
                middle = np.median(clock[steady])
                clock_ratio = clock / middle
                # Merged passes have the cycles of one run and the time of another, which say the
                # same of a kernel only where they do so of nearly all.
                if one.merged and np.mean(np.abs(clock_ratio[steady] - 1) < _SAME) < _NEARLY_ALL:
                    cleaned.append(one)
                    continue
                # A time that is far too short is one, too: what its cycles took was not.
                told = steady | (np.isfinite(clock) & (cycles / middle > _SHORT_NS))
                doubted = told & ((clock_ratio < 0.5) | (clock_ratio > 2))
        wrong |= doubted & (np.abs(one.duration_ns - duration_ns) <= 1)
        spent = np.where(doubted, np.nan, one.duration_ns) if doubted.any() else one.duration_ns
        cleaned.append(Pass(one.label, one.counters, spent, one.merged))
    return cleaned, wrong


_SIZE = regex.compile(r"_(?:32|64|96|128|256)B(?=_|$)")


def _any_size(name: str) -> str:
    """What the counters of one kind of request have in common, whatever its size. The total of
    writes has the name of another block."""
    return _SIZE.sub("", name).replace("GL2C_MC_WRREQ", "GL2C_EA_WRREQ")


def without_dead_counters(
    passes: Sequence[Pass], arch: str | None
) -> tuple[list[Pass], list[Note]]:
    """The passes with unknown where a zero means that nothing was counted.

    On RDNA a counter that is zero in every dispatch was not collected, unless requests of another
    size were counted beside it; anywhere, a counter that a dispatch, or a whole program, cannot
    leave at zero was not.
    """
    counting = {
        _any_size(name)
        for one in passes
        for name, values in one.counters.items()
        if np.nansum(np.abs(values)) > 0
    }
    unreliable = arch is not None and matches(arch, book().unreliable)
    dead: set[str] = set()
    cleaned: list[Pass] = []
    for one in passes:
        counters = dict(one.counters)
        for name, values in one.counters.items():
            known = ~np.isnan(values)
            if not known.any():
                continue
            zero = known & (values == 0)
            may_be_silent = name in book().somewhere or (
                unreliable and _any_size(name) not in counting
            )
            silent = may_be_silent and bool((zero == known).all())
            if zero.any() and (silent or matches(name, book().impossible)):
                counters[name] = np.where(zero, np.nan, values)
                dead.add(name)
        cleaned.append(Pass(one.label, counters, one.duration_ns, one.merged))
    if not dead:
        return cleaned, []
    shown = ", ".join(sorted(dead)[:4]) + (", …" if len(dead) > 4 else "")
    text = f"counters that stayed at zero were taken as not collected: {shown}"
    if unreliable:
        text += "; on RDNA, fix the performance level first (amd-smi set -l stable_std)"
    return cleaned, [Note(text, len(dead), severe=False)]
