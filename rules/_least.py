"""How much of a kernel's time any version of it must take: what bounds a change of the algorithm.

The busy share of a unit is no such bound: a better version asks less of that unit. Kernels with
their load/store path at 97 % lost two thirds of their time to tiles in registers.
"""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.hardware.roofline import LEAST_LAUNCH_NS
from traceroof.rule import Attainable

#: Columns that ``beyond_least`` reads.
LEAST = (
    "duration_ns",
    "compulsory_bytes",
    "dram_peak_at_most",
    "kernel_dram_pct",
    "dram_bytes",
    "flop_pct",
    "product_flop_pct",
)

#: Columns that ``beyond_kept`` reads.
KEPT = ("duration_ns", "kernel_dram_pct", "flop_pct")


def beyond_least(k: Facts, peak: Attainable) -> Column:
    """Share of the time beyond what the bytes that must move once, the operations and a launch
    need; NaN where neither bytes nor operations are known."""
    by_time = k.compulsory_bytes / k.dram_peak_at_most * 1e9 / k.duration_ns
    # Without a time: what part of the busy time of device memory these bytes take.
    by_share = k.kernel_dram_pct / 100 * np.fmin(k.compulsory_bytes / k.dram_bytes, 1.0)
    memory = np.where(np.isnan(by_time), by_share, by_time)
    return _beyond(k, memory / np.asanyarray(peak.memory), peak)


def beyond_kept(k: Facts, peak: Attainable) -> Column:
    """The same for a change that leaves the bytes of device memory as they are."""
    memory = k.kernel_dram_pct / (100 * np.asanyarray(peak.memory))
    return _beyond(k, memory, peak)


def _beyond(k: Facts, memory: Column, peak: Attainable) -> Column:
    counted = k.flop_pct if "product_flop_pct" not in k else np.fmax(k.flop_pct, k.product_flop_pct)
    operations = counted / (100 * np.asanyarray(peak.compute))
    # Unknown as long as neither is known: a launch alone bounds nothing.
    needed = np.fmax(memory, operations)
    floor = np.nan_to_num(LEAST_LAUNCH_NS / k.duration_ns)
    return np.asanyarray(1 - np.maximum(needed, floor))
