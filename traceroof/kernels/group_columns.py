"""What is known of a kernel group: its columns beyond those of the kernel table."""

from collections.abc import Mapping
from typing import cast

from traceroof.core.kernel_table import COLUMNS, Column, Source
from traceroof.kernels import (
    derived_metrics,
    least_time,
    products,
    rates,
    utilisation,
    variability,
)
from traceroof.kernels.derived import REAL, TEXT, Derived

# What grouping itself, the operator's model, roles and the kernel's name say of a group.
_GIVEN: tuple[Column, ...] = tuple(
    Column(name, kind, unit, meaning, "group", basis, cast(Source, source))
    for name, kind, unit, meaning, basis, source in (
        ("category", TEXT, "", "operator category", "", "name"),
        ("join_confidence", REAL, "", "how sure the counters joined to a timeline are this kernel's, 0-1", "", "name"),
        ("join_level", TEXT, "", "how they were recognised", "", "name"),
        ("logged_clock_hz", REAL, "Hz", "core clock in the clock log while the kernel ran, else while the GPU was under load", "", "log"),
        ("logged_clock_pct", REAL, "%", "the same over the clock that the device's peaks are rated at", "boost clock", "log"),
        ("primary_class", TEXT, "", "the wall that the kernel hit", "", "derived"),
        ("by_counters", REAL, "", "1 where a counter tool ran the kernel for its own sake", "", "launch"),
        ("dram_chain_bytes", REAL, "byte", "bytes of a launch that its neighbours in a chain at DRAM speed move again", "", "counter"),
        ("dram_chain_with", TEXT, "", "a neighbour in that chain", "", "name"),
        ("launches", REAL, "launch", "launches of the group", "", "launch"),
        ("mean_over_launches", REAL, "launch", "most launches that a row of a summary stands for: its time is their mean", "", "launch"),
        ("timed_launches", REAL, "launch", "launches of the group with a known duration", "", "launch"),
        ("time_ns", REAL, "ns", "GPU time of all launches with a known duration", "", "clock"),
        ("share_pct", REAL, "%", "share of all kernel time", "kernel time", "clock"),
        ("rank_by_time", REAL, "", "1 for the group with the most time", "", "clock"),
        ("median_ns", REAL, "ns", "median time of a launch", "", "clock"),
        ("mad_ns", REAL, "ns", "median absolute deviation of a launch's time", "", "clock"),
        ("sketched", REAL, "", "1 where median and deviation are read from a sketch (0.1 %), 0 where exact", "", "clock"),
        ("model", TEXT, "", "model that counted the operator's work", "", "model"),
        ("model_shape", TEXT, "", "sizes that the model used", "", "model"),
        ("model_unit", TEXT, "", "unit that the modelled arithmetic may use: tensor or vector", "", "model"),
        ("model_flops", REAL, "FLOP", "operations of one launch by the operator's shapes", "", "model"),
        ("model_bytes", REAL, "byte", "least DRAM traffic of one launch by the operator's shapes", "", "model"),
        ("model_weight_bytes", REAL, "byte", "the part of model_bytes that is a weight of the product", "", "model"),
        ("best_shape_ns", REAL, "ns", "least median of the kernel with as many threads in blocks of another shape", "", "derived"),
        ("best_shape", TEXT, "", "the block shape of best_shape_ns", "", "derived"),
        ("role", TEXT, "", "what the launch is for beyond its category (roles.toml)", "", "name"),
        ("tile_m", REAL, "row", "rows of the product's output tile that the kernel name states", "", "name"),
        ("tile_n", REAL, "column", "columns of the product's output tile that the kernel name states", "", "name"),
        ("name_tensor_core", REAL, "", "1 where the kernel name marks tensor cores, 0 vector units", "", "name"),
        ("name_no_matrix", REAL, "", "1 where the name marks matrix-vector, depthwise or helper work", "", "name"),
        ("name_scatter", REAL, "", "1 where the name marks counting, scattering or adding up by key", "", "name"),
        ("name_flush", REAL, "", "1 where the name marks a flush of the caches, 0 a fill", "", "name"),
        ("name_accumulates", TEXT, "", "type in which the name says that products are added up", "", "name"),
        ("least_instructions", REAL, "inst", "fewest instructions of the kernel on the same bytes with another grid", "", "counter"),
        ("name_split_k", REAL, "", "1 where the name marks split-K or stream-K", "", "name"),
        ("name_warp_specialised", REAL, "", "1 where the name marks producer and consumer warps", "", "name"),
        ("name_range", REAL, "", "1 where the result is of a range of several kernels", "", "name"),
        ("name_dtype", TEXT, "", "narrowest element type that the kernel name mentions", "", "name"),
        ("name_fp64", REAL, "", "1 where the kernel name mentions FP64", "", "name"),
        ("name_alignment", REAL, "element", "operand alignment that the kernel name states", "", "name"),
        ("name_route", TEXT, "", "generic implementation that the kernel name marks", "", "name"),
        ("name_flash2", REAL, "", "1 where the name is that of FlashAttention 2", "", "name"),
        ("name_capability", REAL, "", "NVIDIA compute capability that the name says it is compiled for", "", "name"),
        ("name_operands", TEXT, "", "operands of PyTorch's element-wise kernel: contiguous or strided", "", "name"),
    )
)  # fmt: skip

#: The columns that follow from others, in the order in which they are worked out.
DERIVED: tuple[Derived, ...] = (
    *rates.TABLE,
    *utilisation.TABLE,
    *derived_metrics.TABLE,
    *least_time.TABLE,
    *products.TABLE,
)

#: What a group has beyond the columns of the kernel table.
GROUP_COLUMNS: tuple[Column, ...] = (
    *_GIVEN,
    *(row.column for row in DERIVED if row.column is not None),
)

#: Every column that a rule of scope ``kernel`` may read, by name.
VOCABULARY: Mapping[str, Column] = {
    entry.name: entry for entry in (*COLUMNS, *GROUP_COLUMNS, *variability.SCATTER_COLUMNS)
}
