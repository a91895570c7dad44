"""An FP32 product runs without tensor cores."""

import numpy as np

from traceroof.core.facts import (
    Column,
    Facts,
    Mask,
    unknown,
)
from traceroof.core.tracing import one_of
from traceroof.rule import Attainable, Rule, at_least, below
from traceroof.rules._matrix import PRODUCT, products


def _applies(k: Facts) -> Mask:
    # An unknown element type or device leaves the question open; a known other one settles it.
    fp32 = one_of(k.operand_dtype, "fp32") | unknown(k.operand_dtype)
    capable = k.meets("compute_capability") | (
        np.isnan(k.compute_capability) & np.isnan(k.tf32_speedup)
    )
    # What names alone say of a whole run, gemm-precision-* says in one finding.
    counted = ~np.isnan(k.tensor_pct)
    return np.asanyarray(products(k, "gemm", "conv") & fp32 & capable & counted)


def _saves(k: Facts, peak: Attainable) -> Column:
    faster = 1 - 1 / (k.tf32_speedup * np.asanyarray(peak.compute))
    # Operands stay FP32 in memory, so their traffic stays too.
    return np.asanyarray(np.fmin(faster, 1 - k.dram_pct / (100 * np.asanyarray(peak.memory))))


_EXAMPLE = {
    "category": "gemm",
    "operand_dtype": "fp32",
    "pipe_tensor_use_pct": 0.0,
    "tensor_pct": 0.0,
    "compute_capability": 8.0,
    "tf32_speedup": 8.0,
}

RULES = (
    Rule(
        id="fp32-gemm-no-tf32",
        topic="gemm-precision",
        title="An FP32 product runs without tensor cores",
        scope="kernel",
        why=(
            "FP32 matrix products and convolutions run on the FMA pipes unless TF32 is allowed. "
            "TF32 keeps FP32's range with 10 bits of mantissa and runs on the tensor cores."
        ),
        condition=(
            "a GEMM or convolution on FP32 operands with measured tensor-core use below "
            "{pipe_tensor_use_pct}, on a device of compute capability {compute_capability:.1f} or "
            "newer whose TF32 peak is at least {tf32_speedup:g} times its FP32 peak"
        ),
        needs=("pipe_tensor_use_pct", "operand_dtype", "tf32_speedup"),
        uses=(*PRODUCT, "compute_capability", "dram_pct", "pipe_fma_pct"),
        applies=_applies,
        when=lambda k: (
            k.meets("pipe_tensor_use_pct")
            & k.meets("tf32_speedup")
            & k.meets("compute_capability")
            & one_of(k.operand_dtype, "fp32")
        ),
        because=(
            "tensor cores are used {pipe_tensor_use_pct} in this FP32 product. The device's TF32 "
            "peak is {tf32_speedup:.1f} times its FP32 peak"
        ),
        fix=(
            'Allow TF32 where 10 mantissa bits suffice: torch.set_float32_matmul_precision("high") '
            "(convolutions: torch.backends.cudnn.allow_tf32), CUBLAS_COMPUTE_32F_FAST_TF32 in "
            "cuBLAS, TF32 fragments in your own kernels. BF16 or FP16 autocast gains more."
        ),
        refute=(
            "Allow TF32 and profile again. The kernel's name and its tensor-core use must change, "
            "and the time must fall. Compare the results with FP32 before keeping it."
        ),
        saves=_saves,
        kind="option",
        grade="observed",
        layer="framework",
        effort="one-line",
        risk="numerics",
        thresholds={
            "pipe_tensor_use_pct": below(5),
            "tf32_speedup": at_least(1.2),
            "compute_capability": at_least(8.0, words="{op} {value:.1f}"),
        },
        references=(
            "PyTorch profiler, FP32MatMulPattern",
            "NVIDIA/cutlass discussion 390: no gain where TF32 and FP32 peaks are equal",
        ),
        fires=(
            _EXAMPLE,
            {**_EXAMPLE, "pipe_tensor_use_pct": 4.9, "tf32_speedup": 1.2, "tensor_pct": 4.9},
            {**_EXAMPLE, "category": "conv", "name_tensor_core": 0},
        ),
        silent=(
            {**_EXAMPLE, "pipe_tensor_use_pct": 5.0, "tensor_pct": 5.0},
            # RTX 3090, 4090: TF32 is as fast as FP32.
            {**_EXAMPLE, "tf32_speedup": 1.0},
            {**_EXAMPLE, "tf32_speedup": 1.19},
            {**_EXAMPLE, "compute_capability": 7.0},
            {**_EXAMPLE, "compute_capability": 7.5},
            {**_EXAMPLE, "operand_dtype": "fp64"},
            {**_EXAMPLE, "category": "elementwise"},
            {**_EXAMPLE, "name_no_matrix": 1},
            # No counter: the run is judged as a whole, by names.
            {**_EXAMPLE, "tensor_pct": None},
        ),
    ),
)
