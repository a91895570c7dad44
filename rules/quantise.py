"""Whether fewer bits help: where bytes limit, and only there."""

import numpy as np

from traceroof.core.facts import (
    Column,
    Facts,
    Mask,
    unknown,
)
from traceroof.core.tracing import one_of
from traceroof.kernels.bound_class import BUSY_PCT, WALL_PCT
from traceroof.rule import Attainable, Rule, above, at_least, below
from traceroof.rules._kernels import tunable
from traceroof.rules._models import CEILINGS, CREDIBLE, MODELLED, by_bytes, credible

_WIDE = ("fp16", "bf16", "fp32")


def _serves(k: Facts) -> Mask:
    # Training needs its weights in full; only there a launch has a phase.
    trains = ~unknown(k.phase)
    return np.asanyarray(tunable(k) & (k.model == "gemm") & credible(k) & ~trains)


def _weight_share(k: Facts) -> Column:
    return np.asanyarray(k.model_weight_bytes / k.model_bytes)


def _saves(k: Facts, peak: Attainable) -> Column:
    # Half of the weight's bytes, of a kernel that bytes alone limit.
    size = np.where(k.operand_dtype == "fp32", 4, 2)
    return np.asanyarray(_weight_share(k) * (1 - 1 / size))


_DECODE = {
    "model": "gemm",
    "model_shape": "M=16 N=4096 K=4096",
    "operand_dtype": "bf16",
    "model_intensity": 15.9,
    "model_ridge": 295.0,
    "roof_pct": 66.0,
    "model_flop_pct": 3.6,
    "model_dram_pct": 66.0,
    "model_bytes": 33.8e6,
    "model_weight_bytes": 33.6e6,
}
_PACKED = {"role": "weight-only product", "model_ridge": 295.0}
_INT8 = {"category": "gemm", "operand_dtype": "int8"}

RULES = (
    Rule(
        id="quantise-weights",
        topic="quantisation",
        title="Reading the weights takes the time; fewer bits would help",
        scope="kernel",
        why=(
            "The product reads its weight at nearly full bandwidth and does little with it. Compared "
            "with 16-bit weights, 8-bit weights halve the bytes and nearly the time. 4-bit weights "
            "with a scale per 128 leave 26 % of the bytes. The arithmetic may stay in 16 bits."
        ),
        condition=(
            "a GEMM outside training with 16-bit or wider weights, an intensity below "
            "{model_intensity:.0%} of the ridge and weights of at least {model_weight_bytes:.0%} of "
            "its bytes, which it moves at {model_dram_pct:.0%} of the attainable bandwidth or more"
        ),
        needs=("model_intensity", "model_ridge", "model_weight_bytes"),
        uses=(
            "primary_class", "phase", "model", "model_shape", "operand_dtype", "model_bytes",
            *MODELLED,
            *CEILINGS,
        ),
        applies=_serves,
        when=lambda k: (
            k.meets("model_intensity")
            & k.meets("model_weight_bytes")
            & k.meets("model_dram_pct")
            & one_of(k.operand_dtype, *_WIDE)
        ),
        because=(
            "{model_shape} reads {model_weight_bytes} of {operand_dtype} weights at "
            "{model_dram_pct} of the nominal bandwidth, with an intensity of {model_intensity} "
            "against a ridge of {model_ridge}"
        ),
        fix=(
            "Store the weights in FP8 or INT8 (the bound), or in 4 bits, and use a kernel that "
            "converts them in registers, 16 bytes at a time. A separate conversion pass would undo "
            "the gain. Check the accuracy of the model's answers."
        ),
        refute=(
            "Time the quantised kernel on this shape. If its measured DRAM bytes do not halve, the "
            "weight is converted beforehand."
        ),
        saves=_saves,
        kind="option",
        grade="derived",
        layer="model",
        effort="refactor",
        risk="numerics",
        thresholds={
            **CREDIBLE,
            "model_intensity": below(0.5, of="model_ridge"),
            "model_weight_bytes": at_least(
                0.6, measure=_weight_share, words="{op} {value:.0%} of all bytes"
            ),
            "model_dram_pct": at_least(
                0.7, measure=by_bytes, words="{op} {value:.0%} of attainable"
            ),
        },
        references=(
            "Frantar et al.: GPTQ, 2022; MARLIN, 2024",
            "Williams, Waterman, Patterson: Roofline, CACM 2009",
        ),
        # 59.5 / 85 = 0.7.
        fires=(
            _DECODE,
            {**_DECODE, "model_intensity": 147.4, "roof_pct": 59.5, "model_dram_pct": 59.5,
             "model_weight_bytes": 20.3e6},
        ),
        silent=(
            {**_DECODE, "model_intensity": 147.5},
            {**_DECODE, "roof_pct": 59.4, "model_dram_pct": 59.4},
            {**_DECODE, "model_weight_bytes": 20.2e6},
            {**_DECODE, "operand_dtype": "fp8"},
            {**_DECODE, "phase": "forward"},
        ),
    ),
    Rule(
        id="quantise-not-useful",
        topic="quantisation",
        title="Weights in few bits gain nothing here",
        scope="kernel",
        why=(
            "The weight is stored in few bits but multiplied in 16 bits, and with this many rows the "
            "product is compute-bound. Reading less saves no time, and converting the weight costs "
            "some."
        ),
        condition=(
            "a weight-only quantised product with an intensity of {model_intensity:.0%} of the ridge "
            "or more"
        ),
        needs=("model_intensity", "model_ridge"),
        uses=("primary_class", "role", "model_shape"),
        applies=lambda k: tunable(k) & (k.role == "weight-only product"),
        when=lambda k: k.meets("model_intensity"),
        because=(
            "{model_shape} has an intensity of {model_intensity} against a ridge of {model_ridge}, so "
            "arithmetic limits it, not bytes"
        ),
        fix=(
            "Use low-precision arithmetic (FP8, INT8, FP4 with quantised activations), or convert the "
            "weights to 16 bits once for large batches and keep them packed for small ones."
        ),
        refute="Time the plain 16-bit product on this shape. It must not be slower.",
        kind="option",
        grade="derived",
        layer="model",
        severity="info",
        effort="refactor",
        risk="numerics",
        thresholds={"model_intensity": at_least(0.5, of="model_ridge")},
        references=("Williams, Waterman, Patterson: Roofline, CACM 2009",),
        fires=(
            {**_PACKED, "model_intensity": 147.5, "model_shape": "M=512 N=4096 K=4096"},
            {**_PACKED, "model_intensity": 900.0},
        ),
        silent=(
            {**_PACKED, "model_intensity": 147.4},
            {"model_intensity": 900.0, "model_ridge": 295.0},
        ),
    ),
    Rule(
        id="quantise-int8-slow-device",
        topic="quantisation",
        title="INT8 is slow on this device",
        scope="kernel",
        why=(
            "Most GPUs multiply INT8 twice as fast as 16 bit. Some new GPUs gave that up for FP8 "
            "and FP4: there INT8 is no faster than 16 bit, or far slower."
        ),
        condition=(
            "an INT8 product on a device whose INT8 peak is below {int8_speedup} times its "
            "half-precision peak, and whose FP8 peak is more than {fp8_over_int8} times its INT8 "
            "peak"
        ),
        needs=("int8_speedup", "fp8_over_int8"),
        uses=("category", "primary_class", "operand_dtype"),
        applies=lambda k: tunable(k)
        & one_of(k.category, "gemm", "conv", "attention")
        & (k.operand_dtype == "int8"),
        when=lambda k: k.meets("int8_speedup") & k.meets("fp8_over_int8"),
        because=(
            "INT8 peaks at {int8_speedup} times the 16-bit rate here, FP8 at {fp8_over_int8} times "
            "the INT8 rate"
        ),
        fix="Quantise to FP8 or FP4 for this device, or multiply in 16 bits.",
        refute=(
            "Time the same product in FP8. If it is no faster than INT8, the rates of the device "
            "table do not apply to this shape."
        ),
        saves=lambda k, peak: 1 - 1 / k.fp8_over_int8,
        kind="option",
        grade="derived",
        layer="model",
        effort="refactor",
        risk="numerics",
        thresholds={"int8_speedup": below(1.2), "fp8_over_int8": above(1)},
        references=("traceroof devices: dense peaks with their sources",),
        # B300: 0.15 against 2.25 POP/s.
        fires=(
            {**_INT8, "int8_speedup": 0.067, "fp8_over_int8": 30.0},
            {**_INT8, "int8_speedup": 1.19, "fp8_over_int8": 1.7, "category": "conv"},
        ),
        silent=(
            {**_INT8, "int8_speedup": 1.2, "fp8_over_int8": 1.7},
            {**_INT8, "int8_speedup": 2.0, "fp8_over_int8": 1.0},
            {**_INT8, "int8_speedup": 0.067, "fp8_over_int8": 30.0, "operand_dtype": "bf16"},
        ),
    ),
    Rule(
        id="dequant-alu-bound",
        topic="quantisation",
        title="Converting the weights takes longer than reading them",
        scope="kernel",
        why=(
            "The product reads weights in few bits and widens them in registers. The conversions "
            "keep the integer pipe busy while device memory is not."
        ),
        condition=(
            "a weight-only quantised product with the ALU pipe at {pipe_alu_pct} or more and DRAM "
            "below {dram_pct}"
        ),
        needs=("pipe_alu_pct", "dram_pct"),
        uses=("primary_class", "role", "pipe_xu_pct", "model_shape"),
        applies=lambda k: tunable(k) & (k.role == "weight-only product"),
        when=lambda k: k.meets("pipe_alu_pct") & k.meets("dram_pct"),
        because=(
            "the ALU pipe runs at {pipe_alu_pct} and device memory at {dram_pct} in a product of "
            "packed weights"
        ),
        fix=(
            "Use a layout in which one instruction converts several weights (interleaved, as in "
            "Marlin), 16-byte loads, scales applied after the product where possible, and larger "
            "groups."
        ),
        refute=(
            "Replace the conversion by a plain cast in a copy. If the time stays, the conversion "
            "was hidden."
        ),
        saves=lambda k, peak: 1 - k.dram_pct / WALL_PCT,
        kind="conditional",
        grade="observed",
        layer="operator",
        effort="kernel",
        thresholds={"pipe_alu_pct": at_least(BUSY_PCT), "dram_pct": below(BUSY_PCT)},
        references=("Frantar et al.: MARLIN, 2024",),
        fires=(
            {"role": "weight-only product", "pipe_alu_pct": 60.0, "dram_pct": 59.9},
            {"role": "weight-only product", "pipe_alu_pct": 85.0, "dram_pct": 30.0},
        ),
        silent=(
            {"role": "weight-only product", "pipe_alu_pct": 59.9, "dram_pct": 30.0},
            {"role": "weight-only product", "pipe_alu_pct": 85.0, "dram_pct": 60.0},
            {"role": "cast", "pipe_alu_pct": 85.0, "dram_pct": 30.0},
        ),
    ),
)  # fmt: skip
