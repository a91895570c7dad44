"""Matrix products, convolutions and attention in FP32 that the device could run in 16 bits.

Told by the operands' types and by kernel names: ``sgemm`` and ``scudnn`` multiply on vector units,
``s1688`` and ``tf32`` on tensor cores in TF32. Where a counter measured the use of tensor cores, the
rules on single kernels say more, so such kernels are left out.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core import kernel_names
from traceroof.core.kernel_table import Column, sourced
from traceroof.core.units import quantity
from traceroof.hardware.roofline import DEFAULT_FLOPS_SHARE
from traceroof.kernels.groups import Groups

Reals = npt.NDArray[np.float64]

#: Columns of the facts of scope ``run`` that come from here; absent where there is no such work.
PRECISION_COLUMNS: tuple[Column, ...] = sourced(
    (Column(name, kind, unit, meaning, "run", basis)
    for name, kind, unit, meaning, basis in (
        ("precision_pct", pa.float64(), "%", "FP32 products that 16 bits would speed up",
         "GPU time"),
        ("precision_time_ns", pa.float64(), "ns", "time of these products", ""),
        ("precision_launches", pa.float64(), "launch", "launches of these products", ""),
        ("precision_least_ns", pa.float64(), "ns",
         "their time in 16 bits, by the ratio of the peaks, reading half the bytes at least", ""),
        ("precision_likely_ns", pa.float64(), "ns", "their time in 16 bits as practice has it", ""),
        ("precision_tf32_pct", pa.float64(), "%", "part that runs in TF32 already", "their time"),
        ("precision_narrow_pct", pa.float64(), "%",
         "part in kernels for operands aligned to a single element", "their time"),
        ("precision_to", pa.string(), "", "16-bit type of the device: bf16, or fp16 without it", ""),
        ("precision_of", pa.string(), "", "whose peaks, where the GPU is not known", ""),
        ("precision_example", pa.string(), "", "the kernels with most of the time", ""),
    )),
    model="precision_least_ns", name="precision_example",
)  # fmt: skip

_PRODUCTS = ("gemm", "conv", "attention")

# Work that bytes limit gains what halving them gives.
_BYTES = 2.0

# Whole models gain a factor of up to 3 from FP16 on tensor cores, whatever the ratio of the peaks
# (NVIDIA, Train With Mixed Precision).
_PRACTICE = 3.0

_WIDTH = 48

# Whose peaks they are, where those of the GPU are unknown: the file names none, or one that the
# device table does not have.
_UNNAMED = "of the GPU that would gain most: the file names none, the kernels run on several"
_UNLISTED = "of the GPU of its compute capability that would gain most: its own are unknown"

_COLUMNS = (
    "category", "operand_dtype", "half_dtype", "half_speedup", "name_tensor_core", "name_no_matrix",
    "name_alignment", "tensor_pct", "model_dram_pct", "time_ns", "launches", "compute_capability",
    "least_capability", "fp64_ratio",
)  # fmt: skip


def precision(grouped: Groups, total_ns: float) -> Mapping[str, float | str]:
    """Values by the names of PRECISION_COLUMNS; empty where nothing runs in FP32.

    total_ns: time of all GPU activities.
    """
    see = grouped.facts.only(_COLUMNS)
    found = np.isin(see.category, _PRODUCTS) & (see.operand_dtype == "fp32")
    found &= (see.half_speedup > 1) & np.isnan(see.tensor_pct) & (see.time_ns > 0)
    if not found.any():
        return {}
    time = np.where(found, see.time_ns, 0.0)
    every = float(time.sum())
    ratio = np.where(see.name_no_matrix == 1, _BYTES, see.half_speedup)
    practice = np.minimum(np.maximum(ratio * DEFAULT_FLOPS_SHARE, 1.0), _PRACTICE)
    moved = np.nan_to_num(see.model_dram_pct) / 100 / _BYTES
    least, likely = (
        float((time * np.minimum(np.fmax(1 / faster, moved), 1.0))[found].sum())
        for faster in (ratio, practice)
    )
    first = int(np.argmax(time))
    unnamed = np.isnan(see.compute_capability) & ~np.isnan(see.least_capability)
    unlisted = ~np.isnan(see.compute_capability) & np.isnan(see.fp64_ratio)
    whose = _UNNAMED if unnamed[first] else _UNLISTED if unlisted[first] else ""

    def part(where: npt.NDArray[np.bool_]) -> float:
        return float(time[where].sum()) / every * 100

    return {
        "precision_pct": every / total_ns * 100,
        "precision_time_ns": every,
        "precision_launches": float(see.launches[found].sum()),
        "precision_least_ns": least,
        "precision_likely_ns": likely,
        "precision_tf32_pct": part(see.name_tensor_core == 1),
        "precision_narrow_pct": part(see.name_alignment == 1),
        "precision_to": str(see.half_dtype[first]),
        "precision_example": _example(grouped, time),
        **({"precision_of": whose} if whose else {}),
    }


def _example(grouped: Groups, time: Reals) -> str:
    """The three functions with most of the time, each with its time."""
    by_name: dict[str, float] = {}
    for at in np.flatnonzero(time).tolist():
        by_name[grouped.names[at]] = by_name.get(grouped.names[at], 0.0) + float(time[at])
    most = sorted(by_name, key=lambda name: -by_name[name])[:3]
    short = kernel_names.short_names(most, _WIDTH)
    return ", ".join(f"{short[name]} {quantity(by_name[name], 'ns')}" for name in most)
