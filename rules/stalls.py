"""What warps wait for between two instructions: one rule a stall reason."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from traceroof.core.facts import Column, Facts, Mask, unknown
from traceroof.core.tracing import each
from traceroof.kernels.bound_class import WALL_PCT
from traceroof.rule import Attainable, Rule, above, below
from traceroof.rules._kernels import HEADROOM, STATE, has_headroom, spare
from traceroof.rules._least import KEPT, beyond_kept
from traceroof.rules._stall_reasons import STALLS, Stall

# How good the shares are: all reasons counted, sampled, or only those that a sentence mentions.
_TRUST: Mapping[str, float] = {"pc-samples": 0.9, "rule text (partial)": 0.8}


# The profiler's rule prints each reason above 30 %, so one that it does not print is below. AMD's
# wait fractions know no reasons; rules of their own judge them.
_NAMES_NO_OTHERS = ("rule text", "wait fractions")


def _trust(k: Facts) -> Column:
    return each(
        k.stalls_from, lambda source: _TRUST.get(str(source), 1.0), "trust in the source of stalls"
    )


def _share(k: Facts, one: Stall) -> Column:
    return np.asanyarray(getattr(k, _column(one)))


def _column(one: Stall) -> str:
    return f"stall_{one.reason}"


def _applies(k: Facts, one: Stall) -> Mask:
    silent = unknown(_share(k, one))
    # A reason that the source of the shares cannot name, or the architecture lacks, is not missing.
    spoken = each(
        k.stalls_from,
        lambda source: str(source).startswith(_NAMES_NO_OTHERS),
        "a source that names few reasons",
        kind=bool,
    )
    absent = ~one.exists(k) if one.exists else np.zeros(len(k), dtype=bool)
    idle = k.meets("issue_active_ceiling")
    return np.asanyarray(has_headroom(k) & idle & ~(silent & (spoken | absent)))


def _when(k: Facts, one: Stall) -> Mask:
    fires = k.meets(_column(one)) & k.meets("issue_active_ceiling") & k.meets("kernel_dram_pct")
    return np.asanyarray(fires & ~one.unless(k) if one.unless else fires)


def _waiting(k: Facts, one: Stall) -> Column:
    return np.asanyarray(np.fmin(_share(k, one), 1 - k.issue_active_ceiling))


def _saves(k: Facts, peak: Attainable, one: Stall) -> Column:
    # A share of the warps' time bounds nothing once they do less: bytes and busy units do.
    room = np.fmin(spare(k, peak), beyond_kept(k, peak))
    return np.asanyarray(np.where(np.isnan(room), _waiting(k, one), room))


def _likely(k: Facts, peak: Attainable, one: Stall) -> Column:
    return np.asanyarray(np.fmin(_waiting(k, one), _saves(k, peak, one)))


def _fires(one: Stall) -> tuple[Mapping[str, Any], ...]:
    own = _column(one)
    return (
        _typical(own),
        {own: 0.301, "issue_active_ceiling": 0.799},
        {own: 0.45, "issue_active_ceiling": 0.3, "stalls_from": "rule text (partial)"},
    )


def _silent(one: Stall) -> tuple[Mapping[str, Any], ...]:
    typical = _typical(_column(one))
    return (
        {**typical, _column(one): 0.3},
        {**typical, "issue_active_ceiling": 0.8},
        {**typical, "kernel_dram_pct": 80.0},
        {**typical, "memory_pct": 80.0},
        {**typical, "primary_class": "l1-bound"},
        {"stalls_from": "rule text (partial)", "issue_active_ceiling": 0.3},
        *({**typical, **pardoned} for pardoned in one.pardoned),
    )


def _typical(own: str) -> Mapping[str, Any]:
    return {own: 0.5, "issue_active_ceiling": 0.4, "compute_pct": 40.0, "memory_pct": 40.0}


def _rule(one: Stall) -> Rule:
    own = _column(one)
    return Rule(
        id=one.id,
        topic=one.topic,
        title=one.title,
        scope="kernel",
        why=one.why,
        condition=(
            f"more than {{{own}:.0%}} of a warp's time between two instructions, while schedulers "
            "issue in less than {issue_active_ceiling:.0%} of their cycles, where that was measured, "
            "device memory is used below {kernel_dram_pct}, and nothing is at its wall"
            + one.condition
        ),
        needs=(own,),
        uses=(
            *STATE,
            "issue_active_ceiling",
            "stalls_from",
            "warp_cycles_per_issue",
            *KEPT,
            *one.uses,
        ),
        applies=partial(_applies, one=one),
        when=partial(_when, one=one),
        because=f"warps spend {{{own}:.0%}} of their cycles {one.waits}",
        fix=one.fix,
        refute=(
            f"{one.refute} Judge by the time and by the cycles of this reason. Its share also falls "
            "when another reason grows."
        ),
        saves=None if one.info else partial(_saves, one=one),
        likely=None if one.info else partial(_likely, one=one),
        # A reason without a gain of its own is a choice between warps and registers, if anything.
        kind="option" if one.info else "conditional",
        grade="observed",
        layer="operator",
        severity="info" if one.info else None,
        trust=_trust,
        thresholds={
            **HEADROOM,
            own: above(0.3),
            "issue_active_ceiling": below(0.8, or_unknown=True),
            "kernel_dram_pct": below(WALL_PCT, or_unknown=True),
            **one.limits,
        },
        references=(
            "Nsight Compute CPIStall rule: reason above 30 %, issue slots below 80 %",
            "Nsight Compute Profiling Guide: warp stall reasons",
        ),
        fires=_fires(one),
        silent=_silent(one),
    )


RULES = tuple(_rule(one) for one in STALLS)
