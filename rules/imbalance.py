"""Instances of one unit carry uneven load: multiprocessors, schedulers, caches, channels."""

from dataclasses import dataclass

import numpy as np

from traceroof.rule import Rule
from traceroof.rules._kernels import STATE, has_headroom, spare


@dataclass(frozen=True)
class _Unit:
    """One kind of unit; the column is imbalance_<name>_pct."""

    name: str
    words: str
    why: str
    fix: str


_CAMPING = (
    "Addresses with a large power-of-two stride fall on few of them, as do many threads that "
    "read or update one address."
)
_SPREAD = (
    "Change the stride: pad rows by 128 bytes, swizzle the order of the tiles, spread counters "
    "and other hot addresses."
)

_UNITS = (
    _Unit(
        "sm",
        "multiprocessors",
        "Blocks differ in length or number, so that some multiprocessors finish early.",
        "Hand out work as blocks get free (a loop over a shared counter), long parts first; sort or "
        "split uneven inputs; choose the grid so that every multiprocessor gets equally many.",
    ),
    _Unit(
        "smsp",
        "schedulers",
        "Warps of a block belong to fixed schedulers; some of them get the longer warps.",
        "Spread long work over the warps of a block, and make blocks of a multiple of four warps.",
    ),
    _Unit(
        "l1",
        "first-level caches",
        "Multiprocessors differ in the bytes that they load and store.",
        "Give every block the same amount of data: sort or split uneven rows.",
    ),
    _Unit("l2", "second-level cache slices", _CAMPING, _SPREAD),
    _Unit("dram", "memory channels", _CAMPING, _SPREAD),
)


def _rule(unit: _Unit) -> Rule:
    column = f"imbalance_{unit.name}_pct"
    return Rule(
        id=f"imbalance-{unit.name}",
        topic="imbalance",
        title=f"The {unit.words} carry uneven load",
        scope="kernel",
        why=f"{unit.why} The busiest one sets the time; the others wait for it.",
        condition=(
            "(1 - mean/largest) of their active cycles, times the share of cycles in which they "
            "are active, at 5 % or more; nothing at its wall"
        ),
        needs=(column,),
        uses=STATE,
        applies=has_headroom,
        when=lambda k: getattr(k, column) >= 5,
        because=f"uneven load between the {unit.words} takes {{{column}}} of the time",
        fix=unit.fix,
        refute=(
            "With even work the largest of their active cycles must come down to the mean, and the "
            "time with it."
        ),
        saves=lambda k, peak: np.fmin(getattr(k, column) / 100, spare(k, peak)),
        kind="conditional",
        grade="observed",
        layer="hardware",
        thresholds={column: ">= 5"},
        references=("Nsight Compute WorkloadImbalance rule: 5 %",),
        fires=({column: 5.0}, {column: 40.0, "compute_pct": 30.0, "memory_pct": 20.0}),
        silent=({column: 4.9}, {column: 9.0, "compute_pct": 50.0, "memory_pct": 91.0}),
    )


RULES = tuple(_rule(unit) for unit in _UNITS)
