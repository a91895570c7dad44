"""Too few bytes in flight: each thread loads one word at a time."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Attainable, Rule, at_least, at_most
from traceroof.rules._kernels import COUNTED, HEADROOM, STATE, counted, has_headroom
from traceroof.rules._least import KEPT, beyond_kept


def _applies(k: Facts) -> Mask:
    # Where stalls were collected they say it better.
    return np.asanyarray(counted(k) & has_headroom(k) & np.isnan(k.stall_long_scoreboard))


def _likely(k: Facts, peak: Attainable) -> Column:
    return np.asanyarray(0.5 * beyond_kept(k, peak))


_NARROW = {"by_counters": 1.0, "streaming_pct": 60.0, "load_sectors_per_request": 4.0,
           "load_bytes_per_sector": 32.0}  # fmt: skip

RULES = (
    Rule(
        id="narrow-loads",
        topic="long-scoreboard-latency",
        title="Too few bytes are in flight: one word per load",
        scope="kernel",
        why=(
            "Device memory reaches its rate only with enough bytes under way: bandwidth times "
            "latency, some tens of kilobytes per multiprocessor. Loads of 4 bytes per thread bring "
            "128 bytes per warp, and a warp waits for each before the next."
        ),
        condition=(
            "device memory (or memory as a whole, where most loads come from device memory) between "
            "{dram_least} and {dram_most} of its peak, loads of one word "
            "per thread (at most {load_sectors_per_request:.1f} sectors per request) that waste at "
            "most {load_wasted_pct} of their bytes; nothing at its wall, and stalls not collected"
        ),
        needs=("streaming_pct", "load_sectors_per_request"),
        uses=(
            *STATE,
            "stall_long_scoreboard",
            "load_wasted_pct",
            "load_bytes_per_sector",
            "achieved_occupancy_pct",
            *KEPT,
            *COUNTED,
        ),
        applies=_applies,
        when=lambda k: (
            k.meets("dram_least")
            & k.meets("dram_most")
            & k.meets("load_sectors_per_request")
            & k.meets("load_wasted_pct")
        ),
        because=(
            "memory runs at {streaming_pct} of its peak with loads of "
            "{load_sectors_per_request:.1f} sectors per request[ and {achieved_occupancy_pct} of "
            "the warp slots full]"
        ),
        fix=(
            "Load 16 bytes per thread (float4, aligned to 16 bytes), or let each thread load several "
            "elements a grid apart before it uses the first. Asynchronous copies to shared memory "
            "do the same for tiles."
        ),
        refute=(
            "Vectorise the loads: if the rate of device memory stays, latency was covered and "
            "another limit holds."
        ),
        saves=beyond_kept,
        likely=_likely,
        kind="conditional",
        grade="derived",
        layer="operator",
        thresholds={
            **HEADROOM,
            "dram_least": at_least(40, column="streaming_pct"),
            "dram_most": at_most(80, column="streaming_pct"),
            "load_sectors_per_request": at_most(4.5),
            "load_wasted_pct": at_most(25, or_unknown=True),
        },
        references=(
            "NVIDIA blog: CUDA Pro Tip, Increase Performance with Vectorized Memory Access",
            "Little's law: bytes in flight are bandwidth times latency",
        ),
        fires=(
            _NARROW,
            {**_NARROW, "streaming_pct": 40.0, "load_sectors_per_request": 4.5},
            {**_NARROW, "streaming_pct": 79.0, "load_wasted_pct": 25.0},
        ),
        silent=(
            {**_NARROW, "streaming_pct": 39.0},
            {**_NARROW, "streaming_pct": 80.5},
            {**_NARROW, "load_sectors_per_request": 4.6},
            {**_NARROW, "load_wasted_pct": 25.5},
            {**_NARROW, "stall_long_scoreboard": 0.2},
            {**_NARROW, "by_counters": 0.0},
        ),
    ),
)
