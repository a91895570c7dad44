"""One block per multiprocessor, waiting at its barriers."""

import numpy as np

from traceroof.core.facts import Facts, Mask
from traceroof.rule import Rule
from traceroof.rules._kernels import STATE, has_headroom, spare


def _applies(k: Facts) -> Mask:
    other_grid = (k.blocks < k.sm_count) | (k.blocks >= 2 * k.sm_count)
    # Warp-specialised matrix kernels run one block each on purpose: loading warps wait.
    return np.asanyarray(has_headroom(k) & ~other_grid & ~(k.tensor_pct >= 50))


RULES = (
    Rule(
        id="grid-lt-2sm",
        topic="small-grid",
        title="One block per multiprocessor, waiting at its barriers",
        scope="kernel",
        why=(
            "When a block waits at a barrier, only another block of the same multiprocessor could "
            "run meanwhile. With fewer than two blocks for each there is none."
        ),
        condition=(
            "at least one but fewer than two blocks per multiprocessor, and over 10 % of a warp's "
            "time at barriers"
        ),
        needs=("blocks", "sm_count", "stall_barrier"),
        uses=(*STATE, "tensor_pct", "threads_per_block"),
        applies=_applies,
        when=lambda k: k.stall_barrier > 0.10,
        because=(
            "{blocks:.0f} blocks for {sm_count:.0f} multiprocessors, and a share of "
            "{stall_barrier:.2f} of the warps' time goes to barriers"
        ),
        fix=(
            "Make smaller blocks, at least two for every multiprocessor, or use fewer barriers: "
            "synchronise warps instead of blocks, arrive early and wait late."
        ),
        refute="Launch twice as many blocks of half the size: the barrier share must fall.",
        saves=lambda k, peak: np.fmin(k.stall_barrier, spare(k, peak)),
        kind="conditional",
        grade="observed",
        layer="hardware",
        thresholds={"blocks": "< 2 x sm_count", "stall_barrier": "> 0.10"},
        references=("Nsight Compute LaunchConfiguration rule: grid below two blocks each",),
        fires=(
            {"blocks": 108.0, "sm_count": 108.0, "stall_barrier": 0.105},
            {"blocks": 215.0, "sm_count": 108.0, "stall_barrier": 0.4},
        ),
        silent=(
            {"blocks": 107.0, "sm_count": 108.0, "stall_barrier": 0.4},
            {"blocks": 216.0, "sm_count": 108.0, "stall_barrier": 0.4},
            {"blocks": 108.0, "sm_count": 108.0, "stall_barrier": 0.10},
            {"blocks": 132.0, "sm_count": 132.0, "stall_barrier": 0.4, "tensor_pct": 50.0},
        ),
    ),
)
