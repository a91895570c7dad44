"""One block per multiprocessor, waiting at its barriers."""

import numpy as np

from traceroof.core.facts import Facts, Mask
from traceroof.rule import Rule, above, at_least, below
from traceroof.rules._kernels import HEADROOM, STATE, has_headroom, spare


def _applies(k: Facts) -> Mask:
    # Warp-specialised matrix kernels run one block each on purpose: loading warps wait.
    one_each = k.meets("blocks_least") & k.meets("blocks") & k.meets("tensor_pct")
    return np.asanyarray(has_headroom(k) & one_each)


RULES = (
    Rule(
        id="grid-lt-2sm",
        topic="small-grid",
        title="One block per multiprocessor, waiting at its barriers",
        scope="kernel",
        why=(
            "While a block waits at a barrier, only another block on the same multiprocessor can "
            "run. With fewer than two blocks per multiprocessor there is none."
        ),
        condition=(
            "at least one but fewer than {blocks} blocks per multiprocessor, and warps spend more "
            "than {stall_barrier:.0%} of their time at barriers; not with tensor-core use at "
            "{tensor_pct} or more"
        ),
        needs=("blocks", "sm_count", "stall_barrier"),
        uses=(*STATE, "tensor_pct", "threads_per_block"),
        applies=_applies,
        when=lambda k: k.meets("stall_barrier"),
        because=(
            "{blocks:.0f} blocks for {sm_count:.0f} multiprocessors, and warps spend "
            "{stall_barrier:.0%} of their time at barriers"
        ),
        fix=(
            "Launch smaller blocks, at least two per multiprocessor. Or use fewer barriers: "
            "synchronise warps instead of blocks, arrive early and wait late."
        ),
        refute="Launch twice as many blocks of half the size. The barrier share must fall.",
        saves=lambda k, peak: np.fmin(k.stall_barrier, spare(k, peak)),
        kind="conditional",
        grade="observed",
        layer="hardware",
        thresholds={
            **HEADROOM,
            "blocks_least": at_least(1, column="blocks", of="sm_count", or_unknown=True),
            "blocks": below(2, of="sm_count", or_unknown=True),
            "stall_barrier": above(0.10),
            "tensor_pct": below(50, or_unknown=True),
        },
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
