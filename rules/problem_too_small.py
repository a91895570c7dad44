"""A launch is over before the GPU is in its stride."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.hardware.roofline import T_FLOOR_NS
from traceroof.rule import Attainable, Rule
from traceroof.rules._kernels import COUNTED, counted, of_class, on_amd

_SHORT_NS = 10_000
# AMD's kernels end with a flush of the caches.
_SHORT_ON_AMD_NS = 20_000


def _applies(k: Facts) -> Mask:
    return np.asanyarray(
        counted(k) & ~of_class(k, "communication", "copy") & ~(k.busiest_pct >= 60)
    )


def _short(k: Facts) -> Mask:
    limit = np.where(on_amd(k), _SHORT_ON_AMD_NS, _SHORT_NS)
    return np.asanyarray(k.median_ns < limit)


def _saves(k: Facts, peak: Attainable) -> Column:
    # The start-up comes on top of what the bytes need.
    bytes_need = np.nan_to_num(k.kernel_dram_pct) / (100 * np.asanyarray(peak.memory))
    return np.asanyarray(1 - bytes_need - T_FLOOR_NS / k.median_ns)


_SHORT = {"busiest_pct": 20.0, "by_counters": 1.0}

RULES = (
    Rule(
        id="problem-too-small",
        topic="problem-too-small",
        title="The launch is too short to use the GPU",
        scope="kernel",
        why=(
            "A launch takes about 2 µs even if it does nothing, and the first bytes take another "
            "microsecond to arrive. A kernel that ends within a few microseconds spends its time "
            "on that, whatever its code looks like."
        ),
        condition=(
            "counters of a launch under 10 µs (20 µs on AMD, where the caches are flushed at its "
            "end) that uses less than 60 % of compute and memory"
        ),
        needs=("median_ns",),
        uses=("vendor", "primary_class", "busiest_pct", "kernel_dram_pct", "blocks", "sm_count", *COUNTED),
        applies=_applies,
        when=_short,
        because=(
            "a launch takes {median_ns}, about 2 µs of it start-up[; its bytes keep device memory "
            "busy for {kernel_dram_pct} of that][; {blocks:,.0f} blocks on {sm_count:.0f} "
            "multiprocessors]"
        ),
        fix=(
            "Give each launch more to do: fuse it with its neighbours, batch several inputs, replay "
            "the sequence as a graph. Tuning inside the kernel gains next to nothing at this size."
        ),
        refute=(
            "Run it on ten times the data: if the time grows tenfold, it was not the start-up. A "
            "profiler also starts each launch with cold caches: compare with a timeline."
        ),
        saves=_saves,
        kind="conditional",
        grade="observed",
        layer="operator",
        effort="refactor",
        suppresses=(
            "latency-bound", "issue-slots-idle", "small-grid", "grid-lt-2sm", "tail-wave",
            "occ-*", "stall-*", "imbalance-*", "dram-leaning-headroom", "amd-*",
            "thread-divergence", "uncoalesced-global", "work-per-thread", "block-too-large",
        ),
        thresholds={"median_ns": "< 10 µs (20 µs on AMD)"},
        references=(
            "RRZE-HPC/gpu-benches, gpu-small-kernels: 1.6 to 2.6 µs for an empty kernel",
            "the 10 and 20 µs are a judgement: five and ten times that",
        ),
        fires=(
            {**_SHORT, "median_ns": 9_900.0},
            {**_SHORT, "median_ns": 4_700.0, "kernel_dram_pct": 2.0},
            {**_SHORT, "median_ns": 19_900.0, "vendor": "amd"},
        ),
        silent=(
            {**_SHORT, "median_ns": 10_000.0},
            {**_SHORT, "median_ns": 20_000.0, "vendor": "amd"},
            {**_SHORT, "median_ns": 9_000.0, "busiest_pct": 60.0},
            # A timeline: short kernels are its launch-bound.
            {"median_ns": 4_000.0},
        ),
    ),
    Rule(
        id="toy-kernel",
        topic="toy-kernel-nothing-to-gain",
        title="One block for a few microseconds: nothing to gain",
        scope="kernel",
        why=(
            "A single block on one multiprocessor that ends within a few microseconds shows how a "
            "feature works. Its time is the launch, and differences between such kernels are "
            "noise."
        ),
        condition="counters of a launch of one block that takes less than 5 µs",
        needs=("median_ns", "blocks"),
        uses=COUNTED,
        applies=counted,
        when=lambda k: (k.blocks == 1) & (k.median_ns < 5_000),
        because="one block takes {median_ns}, most of it start-up",
        fix="Judge code like this on a problem that fills the GPU: a thousand blocks and more.",
        refute="Repeat the launch a hundred times: if the time scatters by less, it is no noise.",
        kind="hard",
        grade="observed",
        layer="operator",
        severity="info",
        suppresses=("problem-too-small", "small-grid", "few-blocks", "latency-bound",
                    "issue-slots-idle", "occ-*", "block-*", "stall-*", "tail-wave"),
        thresholds={"median_ns": "< 5 µs", "blocks": "one"},
        references=("RRZE-HPC/gpu-benches, gpu-small-kernels: 1.6 to 2.6 µs for an empty kernel",),
        fires=(
            {"by_counters": 1.0, "blocks": 1.0, "median_ns": 4_900.0},
            {"by_counters": 1.0, "blocks": 1.0, "median_ns": 2_100.0},
        ),
        silent=(
            {"by_counters": 1.0, "blocks": 1.0, "median_ns": 5_000.0},
            {"by_counters": 1.0, "blocks": 2.0, "median_ns": 2_100.0},
            {"by_counters": 0.0, "blocks": 1.0, "median_ns": 2_100.0},
        ),
    ),
)  # fmt: skip
