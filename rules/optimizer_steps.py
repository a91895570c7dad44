"""The optimizer's step: launches for each tensor, or as fast as memory allows."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.core.tracing import each
from traceroof.hardware.ceilings import UNCALIBRATED
from traceroof.operators.closed_forms import ADAM_FLOPS, OPTIMIZERS
from traceroof.rule import Attainable, Rule, above, at_least, at_most
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


def _attainable_ns(k: Facts) -> Column:
    return np.asanyarray(_least_ns(k) / UNCALIBRATED.memory)


def _steps(k: Facts) -> Column:
    return np.nan_to_num(k.optimizer_steps, nan=1.0)


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
            "The plain implementation launches several element-wise kernels per parameter tensor. "
            "Small tensors cost a launch each, and each state is read and written several times "
            "instead of once."
        ),
        condition=(
            "the optimizer takes {optimizer_pct} of the GPU time or more, with "
            "{optimizer_plain_launches} launches or more per step that update one tensor, and more "
            "than {per_grouped_launch} of these for each launch that updates several"
        ),
        needs=("optimizer_pct", "optimizer_plain_launches", "optimizer_launches"),
        uses=(
            "optimizer_steps", "optimizer_time_ns", "optimizer_parameters", "optimizer_least_ns",
            "time_ns",
        ),
        applies=lambda k: ~np.isnan(k.optimizer_pct),
        when=lambda k: (
            k.meets("optimizer_pct")
            & k.meets("optimizer_plain_launches")
            & k.meets("per_grouped_launch")
        ),
        because=(
            "{optimizer_plain_launches} of {optimizer_launches} launches update one tensor each "
            "(steps: {optimizer_steps}). The optimizer takes {optimizer_pct} of the GPU time, "
            "{optimizer_time_ns}"
        ),
        fix=(
            "Set fused=True (or foreach=True) in the optimizer, use a library's fused optimizer, or "
            "run the step inside torch.compile."
        ),
        refute="Set fused=True. The step must be a few launches, and its time must fall.",
        saves=_spared,
        kind="hard",
        grade="observed",
        layer="framework",
        effort="one-line",
        risk="memory",
        thresholds={
            "optimizer_pct": at_least(2),
            "optimizer_plain_launches": at_least(50, of=_steps, words="{op} {value} per step"),
            "per_grouped_launch": above(
                5,
                column="optimizer_plain_launches",
                of=lambda k: k.optimizer_launches - k.optimizer_plain_launches,
                words="{op} {value} × the other launches",
            ),
        },
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
            "of them back: 28 bytes in FP32, and as many in mixed precision. This step moves them at "
            "close to the attainable bandwidth."
        ),
        condition=(
            "a fused Adam step that takes at most {duration_ns:g} times as long as its bytes need at "
            "the attainable bandwidth, and whose bytes at the nominal bandwidth need at most {nominal:g} "
            "times its time"
        ),
        needs=("model_flops", "dram_peak_bytes_per_s", "duration_ns"),
        uses=("primary_class", "model", "model_shape", "operator"),
        applies=_fused_adam,
        # Faster than the nominal bandwidth: the states are narrower than assumed.
        when=lambda k: k.meets("duration_ns") & k.meets("nominal"),
        because=(
            "a launch takes {duration_ns} for its part of {model_shape}: 28 bytes per parameter at "
            "nearly the bandwidth of the device"
        ),
        fix=(
            "Only fewer bytes help. Shard the states over the ranks (ZeRO, FSDP), keep them in 8 or "
            "16 bits, or step less often (gradient accumulation)."
        ),
        refute=(
            "Time a plain copy of as many bytes. If it is much faster, the step is not yet at its "
            "floor."
        ),
        kind="option",
        grade="derived",
        layer="model",
        severity="info",
        thresholds={
            "duration_ns": at_most(
                1.3, of=_attainable_ns, words="{op} {value} × its bytes at the attainable bandwidth"
            ),
            "nominal": at_most(
                1.05,
                column="duration_ns",
                measure=_least_ns,
                of="duration_ns",
                words="its bytes at the nominal bandwidth {op} {value} × duration_ns",
            ),
        },
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
