"""Schedulers find no warp that can issue."""

import numpy as np

from traceroof.rule import Rule, below
from traceroof.rules._kernels import HEADROOM, MATRIX, MATRIX_WORK, has_headroom, matrix_work, spare

RULES = (
    Rule(
        id="issue-slots-idle",
        topic="long-scoreboard-latency",
        title="Schedulers find no warp that can issue",
        scope="kernel",
        why=(
            "In every cycle a scheduler picks one warp that is ready. In many cycles there is "
            "none: too few warps are resident, or all of them wait. The stall reasons say for "
            "what."
        ),
        condition=(
            "fewer than {issue_active} instructions per scheduler and active cycle, nothing at its "
            "wall; not where tensor-core use is {matrix_work} or more, or the name marks a "
            "tensor-core or warp-specialised kernel"
        ),
        needs=("issue_active", "compute_pct", "memory_pct"),
        uses=("primary_class", *MATRIX, "warps_active", "warps_eligible"),
        # A matrix instruction does the work of many: few issue slots keep its pipe busy.
        applies=lambda k: has_headroom(k) & ~matrix_work(k),
        when=lambda k: k.meets("issue_active"),
        because="a scheduler issues {issue_active:.2f} instructions per active cycle, of 1 possible",
        fix=(
            "Give the schedulers more ready warps: more resident warps (see the occupancy "
            "findings), or more independent instructions in each warp (unrolling, several "
            "elements per thread, early loads)."
        ),
        refute="Unroll by two. Eligible warps and issued instructions per cycle must rise.",
        saves=lambda k, peak: np.fmin(1 - k.issue_active, spare(k, peak)),
        kind="conditional",
        role="class",
        yields=True,
        grade="observed",
        layer="hardware",
        thresholds={**HEADROOM, **MATRIX_WORK, "issue_active": below(0.6)},
        references=("Nsight Compute IssueSlotUtilization rule: 0.6",),
        fires=(
            {"issue_active": 0.59, "compute_pct": 59.0, "memory_pct": 40.0},
            {"issue_active": 0.1, "compute_pct": 20.0, "memory_pct": 70.0, "warps_active": 3.0},
        ),
        silent=(
            {"issue_active": 0.6, "compute_pct": 60.0, "memory_pct": 40.0},
            {"issue_active": 0.3, "compute_pct": 30.0, "memory_pct": 80.0},
            {"issue_active": 0.2, "compute_pct": 65.0, "memory_pct": 40.0, "tensor_pct": 50.0},
        ),
    ),
)
