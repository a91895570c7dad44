"""Chains of names around a call: operators, modules, ranges, outermost first."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from traceroof.parsers.host.containment import Places

Whole = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# Deeper chains of operators start anew; names deeper than _SHOWN are elided.
_DEEPEST: Final = 256
_SHOWN: Final = 48
# Distinct numbers below this are found by table, others by sorting.
_TABLE: Final = 1 << 22
# A longer name is shortened in a path, which many rows repeat.
_LONGEST_NAME: Final = 500
# How torch marks a range as a module.
_MODULE: Final = "nn.Module: "


@dataclass(frozen=True)
class Paths:
    """Chains of names, outermost first. ``codes`` point at ``texts``; -1 is no chain."""

    codes: npt.NDArray[Any]
    texts: Sequence[str]
    flags: Mask


def paths_to(
    position: Places,
    parents: Places,
    names: npt.NDArray[np.int32],
    texts: Sequence[str],
    flag: re.Pattern[str],
) -> Paths:
    """The chain of names from the outermost interval to each of ``position``.

    flags: for each chain whether one of its names begins with (or holds) ``flag``.
    """
    needed = np.zeros(len(parents), dtype=bool)
    frontier = position[position >= 0]
    while len(frontier):
        needed[frontier] = True
        frontier = parents[frontier]
        frontier = frontier[frontier >= 0]
        frontier = frontier[~needed[frontier]]
    rest = np.flatnonzero(needed).astype(np.int32)
    codes = np.full(len(parents), -1, dtype=np.int32)
    chains: list[str] = []
    bases: list[str] = []
    flags: list[bool] = []
    for level in range(_DEEPEST + 1):
        if not len(rest):
            break
        if level < _DEEPEST:
            # Those whose parent has its code by now.
            outer = codes[parents[rest]] if level else parents[rest]
            now = outer >= 0 if level else outer < 0
            here, rest, outer = rest[now], rest[~now], outer[now]
        else:  # beyond what is told apart, chains have no beginning
            here, rest, outer = rest, rest[:0], np.full(len(rest), -1, dtype=np.int32)
        among = (len(chains) + 1) * len(texts)
        if among < _TABLE:
            distinct, code = distinct_below((outer + 1) * np.int32(len(texts)) + names[here], among)
        else:
            keys = (outer.astype(np.int64) + 1) * len(texts) + names[here]
            distinct, code = np.unique(keys, return_inverse=True)
        codes[here] = len(chains) + code
        for key in distinct.tolist():
            before, name = divmod(key, len(texts))
            text = texts[name].removeprefix(_MODULE)
            text = text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}…"
            base = bases[before - 1] if before else "…" if level else ""
            shown = f"{base} > {text}" if base else text
            chains.append(shown)
            # Beyond what is shown, a chain goes on from its beginning and an ellipsis.
            bases.append(shown if level < _SHOWN else base)
            if level == _SHOWN:
                bases[-1] = f"{base} > …"
            flags.append(bool(before and flags[before - 1]) or bool(flag.search(texts[name])))
    return Paths(taken(codes, position), chains, np.array(flags, dtype=bool))


def taken(values: npt.NDArray[Any], at: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The values at these places, -1 where a place is -1."""
    found = np.full(len(at), -1, dtype=values.dtype)
    known = at >= 0
    found[known] = values[at[known]]
    return found


def flagged(paths: Paths) -> Mask:
    flags: Mask = np.append(paths.flags, False)[paths.codes]
    return flags


def nearest(position: Places, parents: Places, values: Whole) -> Whole:
    """The first value that is no -1, from an interval outwards; -1 where there is none."""
    found = np.full(len(position), -1, dtype=np.int64)
    at = position.copy()
    active = np.flatnonzero(at >= 0)
    for _ in range(_DEEPEST):
        if not len(active):
            break
        found[active] = values[at[active]]
        active = active[found[active] < 0]
        at[active] = parents[at[active]]
        active = active[at[active] >= 0]
    return found


def distinct_below(values: npt.NDArray[Any], count: int) -> tuple[Whole, Places]:
    """The distinct ones of values below ``count``, in order, and where each value is in them.
    Done by table: sorting millions takes longer."""
    is_there = np.zeros(count, dtype=bool)
    is_there[values] = True
    distinct = np.flatnonzero(is_there)
    place = np.empty(count, dtype=np.int32)
    place[distinct] = np.arange(len(distinct), dtype=np.int32)
    return distinct, place[values]
