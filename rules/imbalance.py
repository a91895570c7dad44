"""Instances of one unit carry uneven load: multiprocessors, schedulers, caches, channels."""

from dataclasses import dataclass

import numpy as np

from traceroof.rule import Rule, at_least
from traceroof.rules._kernels import HEADROOM, STATE, has_headroom, spare


@dataclass(frozen=True)
class _Unit:
    """One kind of unit; the column is imbalance_<name>_pct."""

    name: str
    words: str
    why: str
    fix: str


_CAMPING = (
    "Addresses with a large power-of-two stride map to few of them, and so do many threads that "
    "read or update the same address."
)
_SPREAD = (
    "Change the stride: pad rows by 128 bytes, or swizzle the order of the tiles. Spread counters "
    "and other hot addresses."
)

_UNITS = (
    _Unit(
        "sm",
        "multiprocessors",
        "Blocks differ in length or number, so some multiprocessors finish early.",
        "Assign work dynamically (a loop over a shared counter), longest parts first. Sort or split "
        "uneven inputs. Choose the grid so that every multiprocessor gets the same number of blocks.",
    ),
    _Unit(
        "smsp",
        "schedulers",
        "Each warp of a block belongs to a fixed scheduler. Some schedulers get the longer warps.",
        "Spread long work over the warps of a block. Use blocks of a multiple of four warps.",
    ),
    _Unit(
        "l1",
        "first-level caches",
        "Multiprocessors load and store different amounts of data.",
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
        title=f"The load of the {unit.words} is uneven",
        scope="kernel",
        why=f"{unit.why} The busiest one sets the time; the others wait for it.",
        condition=(
            "the gap between the largest and the mean of their active cycles, as a share of the "
            "largest, times the share of cycles in which they "
            f"are active, is {{{column}}} or more; nothing at its wall"
        ),
        needs=(column,),
        uses=STATE,
        applies=has_headroom,
        when=lambda k: k.meets(column),
        because=f"uneven load of the {unit.words} costs {{{column}}} of the time",
        fix=unit.fix,
        refute=(
            "Even out the work. The largest of their active cycles must come down to the mean, and "
            "the time must fall with it."
        ),
        saves=lambda k, peak: np.fmin(getattr(k, column) / 100, spare(k, peak)),
        kind="conditional",
        grade="observed",
        layer="hardware",
        thresholds={**HEADROOM, column: at_least(5)},
        references=("Nsight Compute WorkloadImbalance rule: 5 %",),
        fires=({column: 5.0}, {column: 40.0, "compute_pct": 30.0, "memory_pct": 20.0}),
        silent=({column: 4.9}, {column: 9.0, "compute_pct": 50.0, "memory_pct": 91.0}),
    )


RULES = tuple(_rule(unit) for unit in _UNITS)
