"""Instances of one unit carry uneven load: multiprocessors, schedulers, caches, channels."""

from dataclasses import dataclass

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Attainable, Rule, at_least, at_most
from traceroof.rules._kernels import HEADROOM, STATE, has_headroom, spare, tunable
from traceroof.rules._least import KEPT, beyond_kept


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


def _filled(k: Facts) -> Column:
    """Share of the multiprocessors' time that blocks of equal length would fill."""
    few = np.fmin(k.blocks / k.sm_count, 1.0)
    return np.asanyarray(np.where(k.waves < 1, few, k.waves / np.ceil(k.waves)))


def _uneven_saves(k: Facts, peak: Attainable) -> Column:
    return np.asanyarray(np.fmin(1 - k.sm_active_pct / 100, beyond_kept(k, peak)))


_UNEVEN = {
    "sm_active_pct": 2.2,
    "waves": 0.76,
    "blocks": 64.0,
    "sm_count": 84.0,
    "median_ns": 1.18e5,
}

_BLOCKS = Rule(
    id="uneven-blocks",
    topic="imbalance",
    title="A few blocks run much longer than the others",
    scope="kernel",
    why=(
        "Most blocks end early and leave their multiprocessors empty, while a few run on. The "
        "longest block sets the time of the kernel."
    ),
    condition=(
        "multiprocessors hold a block for at most {sm_active_pct:.0%} of the time that blocks of "
        "equal length would fill, by the number of blocks, in a kernel of {median_ns} or more"
    ),
    needs=("sm_active_pct", "waves", "median_ns"),
    uses=("primary_class", "blocks", "sm_count", *KEPT),
    applies=tunable,
    when=lambda k: k.meets("sm_active_pct") & k.meets("median_ns"),
    because=(
        "multiprocessors hold a block for {sm_active_pct} of the time on average[; {blocks:,.0f} "
        "blocks on {sm_count:.0f} multiprocessors would fill more]"
    ),
    fix=(
        "Split the longest parts over several blocks, or start them first. Assign work dynamically "
        "(a loop over a shared counter), or sort uneven inputs such as rows of a sparse matrix."
    ),
    refute=(
        "Let every block record the times of its start and its end. If all end together, the "
        "blocks are even and something else kept the multiprocessors empty."
    ),
    saves=_uneven_saves,
    kind="hard",
    grade="derived",
    layer="operator",
    suppresses=(
        "tail-by-active-cycles", "imbalance-sm", "imbalance-smsp", "imbalance-l1",
        "occ-limited-*", "occ-achieved-gap", "issue-slots-idle",
    ),
    thresholds={
        "sm_active_pct": at_most(0.5, of=lambda k: 100 * _filled(k), words="{op} {value} of what its blocks fill"),
        "median_ns": at_least(20_000),
    },
    references=("Nsight Compute WorkloadDistribution section: active cycles of multiprocessors",),
    fires=(
        _UNEVEN,
        # 1.8 of 2 waves fill 90 %: half of that.
        {"sm_active_pct": 45.0, "waves": 1.8, "median_ns": 20_000.0},
    ),
    silent=(
        {**_UNEVEN, "sm_active_pct": 38.3},
        {"sm_active_pct": 45.1, "waves": 1.8, "median_ns": 20_000.0},
        {**_UNEVEN, "median_ns": 19_900.0},
        {**_UNEVEN, "primary_class": "launch-bound"},
    ),
)  # fmt: skip

RULES = (*(_rule(unit) for unit in _UNITS), _BLOCKS)
