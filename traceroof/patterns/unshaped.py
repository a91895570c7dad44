"""Matrix products without recorded shapes beside some that have them.

Replayed graphs record no shapes. Where the same run launches products outside of graphs too, what
those reach is the best guess of what the others do; it is said to be one.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from traceroof.core.kernel_table import Column
from traceroof.hardware.roofline import DEFAULT_FLOPS_SHARE
from traceroof.kernels.groups import Groups
from traceroof.kernels.utilisation import MODEL_LIMIT_PCT

#: Columns of the facts of scope ``run`` that come from here; absent where there is no such work.
UNSHAPED_COLUMNS: tuple[Column, ...] = tuple(
    Column(name, pa.float64(), unit, meaning, "run", basis)
    for name, unit, meaning, basis in (
        ("unshaped_products_ns", "ns", "products of 16 bits and less without known shapes", ""),
        ("unshaped_products_pct", "%", "products of 16 bits and less without known shapes",
         "GPU time"),
        ("unshaped_products_launches", "launch", "launches of these products", ""),
        ("shaped_products_ns", "ns", "products with known shapes", ""),
        ("shaped_products_launches", "launch", "launches of products with known shapes", ""),
        ("shaped_roof_pct", "%", "least time over the time taken, of products with known shapes",
         "nominal peak"),
        ("shaped_reached_pct", "%",
         "the same, held against the rates that were measured or published for the GPU, else 80 %",
         "attainable"),
    )
)  # fmt: skip

_COLUMNS = (
    "category", "role", "model", "operand_dtype", "half_speedup", "name_no_matrix", "roof_pct",
    "model_flop_pct", "model_dram_pct", "flop_attainable", "time_ns", "launches",
)  # fmt: skip


def unshaped(grouped: Groups, total_ns: float) -> Mapping[str, float]:
    """Values by the names of UNSHAPED_COLUMNS. total_ns: time of all GPU activities."""
    see = grouped.facts.only(_COLUMNS)
    # FP32 products are judged by their precision first; experts are no measure of other products.
    products = np.isin(see.category, ("gemm", "conv")) & ~(see.name_no_matrix == 1)
    products &= see.role != "expert product"
    products &= (see.time_ns > 0) & ~(see.half_speedup > 1)
    has_shape = np.array([isinstance(one, str) for one in see.model], dtype=bool)
    without = products & ~has_shape
    above = np.fmax(see.model_flop_pct, see.model_dram_pct) > MODEL_LIMIT_PCT
    known = products & has_shape & ~np.isnan(see.roof_pct) & ~above
    if not without.any():
        return {}
    facts = {
        "unshaped_products_ns": float(see.time_ns[without].sum()),
        "unshaped_products_pct": float(see.time_ns[without].sum()) / total_ns * 100,
        "unshaped_products_launches": float(see.launches[without].sum()),
    }
    if known.any():
        time = see.time_ns[known]
        attainable = see.flop_attainable[known]
        attainable = np.where(np.isnan(attainable), DEFAULT_FLOPS_SHARE, attainable)
        reached = np.minimum(see.roof_pct[known] / attainable, 100)
        facts |= {
            "shaped_products_ns": float(time.sum()),
            "shaped_products_launches": float(see.launches[known].sum()),
            "shaped_roof_pct": float(np.average(see.roof_pct[known], weights=time)),
            "shaped_reached_pct": float(np.average(reached, weights=time)),
        }
    return facts
