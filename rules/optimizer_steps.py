"""The optimizer's step: launches for each tensor, or as fast as memory allows."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.core.tracing import each
from traceroof.operators.closed_forms import ADAM_FLOPS, OPTIMIZERS
from traceroof.rule import Attainable, Rule, at_least
from traceroof.rules._kernels import computes

# Adam moves as many bytes for a parameter in FP32 as in mixed precision.
_ADAM_BYTES = OPTIMIZERS["adam fp32"].bytes


def _spared(k: Facts, peak: Attainable) -> Column:
    least = k.optimizer_least_ns / np.asanyarray(peak.memory)
    return np.asanyarray((k.optimizer_time_ns - least) / k.time_ns)


def _least_ns(k: Facts) -> Column:
    """Time of a fused Adam launch at nominal bandwidth; the parameters of the launch from its
    operations."""
    parameters = k.model_flops / ADAM_FLOPS
    return np.asanyarray(parameters * _ADAM_BYTES / k.dram_peak_bytes_per_s * 1e9)


def _fused_adam(k: Facts) -> Mask:
    named = each(
        k.operator, lambda operator: "_fused_adam" in str(operator), "a fused Adam", kind=bool
    )
    return np.asanyarray(computes(k) & (k.model == "optimizer") & named)


_SINGLE = {
    "optimizer_pct": 6.0,
    "optimizer_plain_launches": 1500.0,
    "optimizer_launches": 1500.0,
    "optimizer_steps": 3.0,
    "optimizer_time_ns": 6e6,
    "time_ns": 1e8,
}
# 1e9 parameters: 28 GB; at 2.039 TB/s 13.73 ms, at 85 % of that 16.16 ms.
_ADAM = {
    "model": "optimizer",
    "operator": "aten::_fused_adamw_",
    "model_flops": 12e9,
    "dram_peak_bytes_per_s": 2.039e12,
}

RULES = (
    Rule(
        id="optimizer-single-tensor",
        topic="optimizer",
        title="The optimizer updates one tensor at a time",
        scope="run",
        why=(
            "The plain implementation launches a handful of element-wise kernels for every parameter "
            "tensor. Small tensors cost a launch each, and each state is read and written several "
            "times instead of once."
        ),
        condition=(
            "the optimizer's steps take 2 % of the GPU time or more, with 50 launches per step or more "
            "that work on one tensor, and more than 5 of these for each that works on several"
        ),
        needs=("optimizer_pct", "optimizer_plain_launches", "optimizer_launches"),
        uses=(
            "optimizer_steps", "optimizer_time_ns", "optimizer_parameters", "optimizer_least_ns",
            "time_ns",
        ),
        applies=lambda k: ~np.isnan(k.optimizer_pct),
        when=lambda k: (k.meets("optimizer_pct"))
        & (k.optimizer_plain_launches >= 50 * np.nan_to_num(k.optimizer_steps, nan=1.0))
        & (
            k.optimizer_plain_launches > 5 * (k.optimizer_launches - k.optimizer_plain_launches)
        ),
        because=(
            "{optimizer_plain_launches} of {optimizer_launches} launches work on one tensor each "
            "(steps: {optimizer_steps}); they take {optimizer_pct} of the GPU time, "
            "{optimizer_time_ns}"
        ),
        fix=(
            "fused=True (or foreach=True) in the optimizer, a library's fused optimizer, or the step "
            "inside torch.compile."
        ),
        refute="With fused=True the step must be a few launches, and faster.",
        saves=_spared,
        kind="hard",
        grade="observed",
        layer="framework",
        effort="one-line",
        risk="memory",
        thresholds={"optimizer_pct": at_least(2), "optimizer_plain_launches": ">= 50 per step"},
        references=("PyTorch profiler, OptimizerSingleTensorPattern",
                    "docs/operators.md: bytes of an optimizer step"),
        fires=(
            {**_SINGLE, "optimizer_least_ns": 2e6},
            {**_SINGLE, "optimizer_pct": 2.0, "optimizer_plain_launches": 150.0,
             "optimizer_launches": 179.0},
        ),
        silent=(
            {**_SINGLE, "optimizer_pct": 1.99},
            {**_SINGLE, "optimizer_plain_launches": 149.0, "optimizer_launches": 149.0},
            # 150 plain launches for 30 others: no more than five each.
            {**_SINGLE, "optimizer_plain_launches": 150.0, "optimizer_launches": 180.0},
        ),
    ),
    Rule(
        id="optimizer-at-floor",
        topic="nothing-to-gain",
        title="The optimizer is as fast as memory allows",
        scope="kernel",
        why=(
            "Adam reads the gradient, the weight and two states of every parameter and writes three "
            "of them back: 28 bytes in FP32, and as many in mixed precision. This step runs close to "
            "the bandwidth."
        ),
        condition=(
            "a fused Adam step that takes at most 1.3 times 28 bytes per parameter at the attainable "
            "bandwidth"
        ),
        needs=("model_flops", "dram_peak_bytes_per_s", "duration_ns"),
        uses=("primary_class", "model", "model_shape", "operator"),
        applies=_fused_adam,
        # Faster than the nominal bandwidth: the states are narrower than supposed.
        when=lambda k: (1.3 * _least_ns(k) / 0.85 >= k.duration_ns)
        & (_least_ns(k) <= 1.05 * k.duration_ns),
        because=(
            "a launch of {duration_ns} for its part of {model_shape}: 28 bytes per parameter at nearly "
            "the bandwidth of the device"
        ),
        fix=(
            "Only fewer bytes help: states sharded over the ranks (ZeRO, FSDP), states in 8 or 16 "
            "bits, steps less often (gradient accumulation)."
        ),
        refute=(
            "Time a plain copy of as many bytes: if it is much faster, the step is not yet at its"
            " floor."
),
        kind="option",
        grade="derived",
        layer="model",
        severity="info",
        thresholds={"duration_ns": "<= 1.3 times 28 bytes per parameter at 85 % of the bandwidth"},
        effort="config",
        risk="numerics",
        references=(
            "Rajbhandari et al.: ZeRO, 2020",
            "docs/operators.md: bytes of an optimizer step",
        ),
        # 1.3 x 16.16 ms = 21.0 ms; 13.73 ms / 1.05 = 13.08 ms.
        fires=({**_ADAM, "duration_ns": 20.9e6}, {**_ADAM, "duration_ns": 13.2e6}),
        silent=(
            {**_ADAM, "duration_ns": 21.1e6},
            {**_ADAM, "duration_ns": 13.0e6},
            {**_ADAM, "duration_ns": 20.0e6, "operator": "aten::_foreach_addcdiv_"},
        ),
    ),
)  # fmt: skip
