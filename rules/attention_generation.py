"""Attention kernels written for an older GPU than the one that they run on."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Attainable, Rule, at_least, below
from traceroof.rules._kernels import tunable

# FlashAttention 3 beside 2 on an H100, forward in 16 bits: 1.5 to 2.0 times as fast.
_MOST, _LIKELY = 2.0, 1.5


def _saves(k: Facts, peak: Attainable) -> Column:
    practice = bool(np.any(np.asanyarray(peak.compute) < 1))
    return np.full(len(k), 1 - 1 / (_LIKELY if practice else _MOST))


RULES = (
    Rule(
        id="attention-generation",
        topic="attention-kernel",
        title="Attention runs a kernel for older GPUs",
        scope="kernel",
        why=(
            "FlashAttention 2 uses the tensor-core instructions of Ampere. Since Hopper, tensor cores "
            "take their operands from shared memory asynchronously, and copies run beside them; "
            "kernels without that reach 35 to 40 % of the peak."
        ),
        condition=(
            "the name marks the second generation of FlashAttention, on a data-centre GPU of compute capability "
            "{least_capability:.1f} or higher (below {consumer:.1f})"
        ),
        needs=("least_capability",),
        uses=("name_flash2", "primary_class", "category", "median_ns", "launches"),
        applies=lambda k: tunable(k) & (k.name_flash2 == 1),
        when=lambda k: k.meets("least_capability") & k.meets("consumer"),
        because=(
            "by its name this is FlashAttention 2, on a GPU of compute capability "
            "{least_capability:.1f} or higher[; {launches:,.0f} launches, typically {median_ns} each]"
        ),
        fix=(
            "Use FlashAttention 3 (Hopper) or 4 (Hopper, Blackwell), cuDNN's attention "
            "(torch.nn.attention.sdpa_kernel with SDPBackend.CUDNN_ATTENTION), or the FlashInfer or "
            "TensorRT-LLM backend of the serving engine."
        ),
        refute=(
            "Time the other backend on the same shapes: its kernel must take less time. With short "
            "sequences, few heads or odd head sizes it may not."
        ),
        saves=_saves,
        kind="conditional",
        grade="derived",
        layer="framework",
        effort="config",
        thresholds={
            "least_capability": at_least(9.0),
            "consumer": below(12.0, column="least_capability", told=False),
        },
        references=("Shah et al.: FlashAttention-3, 2024",),
        fires=(
            {"name_flash2": 1.0, "least_capability": 9.0, "median_ns": 4e6, "launches": 34.0},
            {"name_flash2": 1.0, "least_capability": 10.0},
        ),
        silent=(
            {"name_flash2": 1.0, "least_capability": 8.0},
            {"name_flash2": 1.0, "least_capability": 12.0},
            {"least_capability": 9.0},
            {"name_flash2": 1.0, "least_capability": 9.0, "primary_class": "launch-bound"},
        ),
    ),
)
