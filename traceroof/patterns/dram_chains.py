"""Kernels in a row at the wall of DRAM, each reading what the one before wrote.

A kernel alone at DRAM speed has nothing to gain; a chain of such kernels over one array has, since
one fused kernel leaves out what goes to memory in between. Counters show the bytes of each kernel
and not whose they are, so a chain is told by its sizes: the next kernel reads at least what this one
wrote. Kernels that exchange data in shared memory are no part of a chain: their blocks work together,
and what the next one reads may come from all of them. Nor is an array that fits into L2.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core.facts import Facts
from traceroof.core.kernel_table import as_reals
from traceroof.kernels.bound_class import BUSY_PCT
from traceroof.kernels.groups import Groups
from traceroof.patterns.launch_order import Ints, Mask, Reals, in_order

# Of what the one kernel wrote, so much at least is read by the next.
_READ_AGAIN = 0.95
# What is a small part of a kernel's traffic is no array that the chain is about.
_LEAST_WRITTEN = 0.2

_READS = (
    "dram_read_bytes", "dram_write_bytes", "dram_pct", "dram_peak_bytes_per_s",
    "shared_memory_static_bytes", "shared_memory_dynamic_bytes",
)  # fmt: skip


def dram_chains(
    kernels: pa.Table, grouped: Groups, l2_sizes: Reals
) -> Mapping[str, npt.NDArray[Any]]:
    """``dram_chain_bytes`` and ``dram_chain_with`` of each kernel group: the bytes of a launch that
    its neighbours in a chain move again, and the neighbour that moves most. Empty without a chain.

    grouped: the groups of these rows, with counters of DRAM. l2_sizes: of the GPU of each group,
    bytes, NaN where unknown.
    """
    see = grouped.facts.only(_READS)
    if np.isnan(see.dram_read_bytes).all() or np.isnan(see.dram_peak_bytes_per_s).all():
        return {}
    # Counters alone may leave out what ran between two kernels: order is what starts tell.
    at, lane, _ = in_order(kernels, np.flatnonzero(kernels["start_ns"].is_valid().to_numpy()))
    # Rows that stand for many launches have no neighbours.
    single = as_reals(kernels["launch_count"])[at] == 1
    group = np.where(single, grouped.of_row[at], -1)
    after = np.flatnonzero(_linked(group, lane, see, np.nan_to_num(l2_sizes)))
    if not len(after):
        return {}
    writer, reader = group[after - 1], group[after]
    written = see.dram_write_bytes[writer]
    moved = np.bincount(writer, weights=written, minlength=len(grouped))
    moved += np.bincount(reader, weights=written, minlength=len(grouped))
    launches = np.bincount(group[group >= 0], minlength=len(grouped))
    partner = np.full(len(grouped), None, dtype=object)
    for one, other in zip(writer.tolist(), reader.tolist(), strict=True):
        partner[one] = partner[one] or grouped.names[other]
        partner[other] = partner[other] or grouped.names[one]
    chained = moved > 0
    share = np.where(chained, moved, np.nan) / np.maximum(launches, 1)
    return {"dram_chain_bytes": share, "dram_chain_with": partner}


def _linked(group: Ints, lane: Ints, see: Facts, l2_sizes: Reals) -> Mask:
    """Whether each launch reads at DRAM speed what the one before on its stream wrote so.

    group: of each launch in order, -1 for none. lane: its stream.
    """
    is_kernel = group >= 0
    exchanged = np.nan_to_num(see.shared_memory_static_bytes, nan=1.0) + np.nan_to_num(
        see.shared_memory_dynamic_bytes, nan=0.0
    )
    streams = (see.dram_pct >= BUSY_PCT) & (exchanged == 0)
    written, read = see.dram_write_bytes, see.dram_read_bytes
    array = written >= np.fmax(_LEAST_WRITTEN * (written + read), l2_sizes)
    found = np.zeros(len(group), dtype=bool)
    before, after = group[:-1], group[1:]
    found[1:] = (
        is_kernel[:-1] & is_kernel[1:] & (lane[1:] == lane[:-1]) & (before != after)
        & streams[before] & streams[after] & array[before]
        & (read[after] >= _READ_AGAIN * written[before])
    )  # fmt: skip
    return found
