"""A launch is over before the GPU is in its stride."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.hardware.roofline import T_FLOOR_NS
from traceroof.kernels.bound_class import BUSY_PCT
from traceroof.rule import Attainable, Rule, at_most, below
from traceroof.rules._kernels import COUNTED, counted, of_class, on_amd


def _applies(k: Facts) -> Mask:
    return np.asanyarray(
        counted(k) & ~of_class(k, "communication", "copy") & k.meets("busiest_pct")
    )


def _short(k: Facts) -> Mask:
    # Kernels on AMD end with a flush of the caches.
    return np.where(on_amd(k), k.meets("median_ns_on_amd"), k.meets("median_ns"))


def _saves(k: Facts, peak: Attainable) -> Column:
    # The start-up comes on top of what the bytes need.
    bytes_need = np.nan_to_num(k.kernel_dram_pct) / (100 * np.asanyarray(peak.memory))
    return np.asanyarray(1 - bytes_need - T_FLOOR_NS / k.median_ns)


_SHORT = {"busiest_pct": 20.0, "by_counters": 1.0}
_LITTLE = {"instructions": 1_500.0, "dram_bytes": 2_140.0, "by_counters": 1.0}
# What a launch that is over at once makes pointless to tune.
_POINTLESS = (
    "latency-bound",
    "issue-slots-idle",
    "small-grid",
    "grid-lt-2sm",
    "tail-wave",
    "occ-*",
    "stall-*",
    "imbalance-*",
    "dram-leaning-headroom",
    "amd-*",
    "thread-divergence",
    "uncoalesced-global",
    "work-per-thread",
    "block-too-large",
)

RULES = (
    Rule(
        id="problem-too-small",
        topic="problem-too-small",
        title="The launch is too short to use the GPU",
        scope="kernel",
        why=(
            "A launch takes about 2 µs even if it does nothing, and the first bytes take another "
            "microsecond to arrive. A kernel of a few microseconds spends its time on that, "
            "whatever its code does."
        ),
        condition=(
            "a kernel with counters that takes less than {median_ns} per launch "
            "({median_ns_on_amd} on AMD, where the caches are flushed at its end) and keeps compute "
            "and memory below {busiest_pct}"
        ),
        needs=("median_ns",),
        uses=("vendor", "primary_class", "busiest_pct", "kernel_dram_pct", "blocks", "sm_count", *COUNTED),
        applies=_applies,
        when=_short,
        because=(
            "a launch takes {median_ns}, about 2 µs of it launch overhead[; its bytes keep device "
            "memory busy for {kernel_dram_pct} of that][; {blocks:,.0f} blocks on {sm_count:.0f} "
            "multiprocessors]"
        ),
        fix=(
            "Give each launch more work: fuse it with its neighbours, batch several inputs, or "
            "replay the sequence as a graph. Tuning inside the kernel gains next to nothing at this "
            "size."
        ),
        refute=(
            "Run it on ten times the data. If the time grows tenfold, launch overhead was not the "
            "limit. A profiler also starts each launch with cold caches. Compare with a timeline."
        ),
        saves=_saves,
        kind="conditional",
        grade="observed",
        layer="operator",
        effort="refactor",
        suppresses=_POINTLESS,
        thresholds={
            "median_ns": below(10_000),
            "median_ns_on_amd": below(20_000, column="median_ns", unit="ns", words="{op} {value} on AMD"),
            "busiest_pct": below(BUSY_PCT, or_unknown=True),
        },
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
        id="too-little-work",
        topic="problem-too-small",
        title="The launch does next to nothing",
        scope="kernel",
        why=(
            "A launch takes about 2 µs even if it does nothing. A few thousand instructions over "
            "all multiprocessors and a few kilobytes take far less, so whatever its warps wait for, "
            "the launch itself is the time."
        ),
        condition=(
            "a kernel with counters but without a time that executes fewer than {instructions:,.0f} "
            "warp instructions and moves less than {dram_bytes} of device memory per launch"
        ),
        needs=("instructions", "dram_bytes"),
        uses=("median_ns", "primary_class", *COUNTED),
        # With a time, the time tells.
        applies=lambda k: np.asanyarray(
            counted(k) & np.isnan(k.median_ns) & ~of_class(k, "communication", "copy")
        ),
        when=lambda k: k.meets("instructions") & k.meets("dram_bytes"),
        because=(
            "a launch executes {instructions:,.0f} warp instructions and moves {dram_bytes} of "
            "device memory"
        ),
        fix=(
            "Give each launch more work: fuse it with its neighbours, batch several inputs, or "
            "replay the sequence as a graph. Tuning inside the kernel gains next to nothing."
        ),
        refute="Time it. If a launch takes much longer than 5 µs, something else limits it.",
        kind="hard",
        grade="observed",
        layer="operator",
        severity="info",
        effort="refactor",
        suppresses=_POINTLESS,
        thresholds={"instructions": below(20_000), "dram_bytes": below(1e5)},
        references=(
            "RRZE-HPC/gpu-benches, gpu-small-kernels: 1.6 to 2.6 µs for an empty kernel",
            "20,000 instructions at one per cycle and scheduler on 16 multiprocessors: 0.2 µs",
        ),
        fires=(_LITTLE, {**_LITTLE, "instructions": 19_000.0, "dram_bytes": 9e4}),
        silent=(
            {**_LITTLE, "instructions": 21_000.0},
            {**_LITTLE, "dram_bytes": 1.1e5},
            {**_LITTLE, "median_ns": 9e4},
            {**_LITTLE, "by_counters": 0.0},
        ),
    ),
    Rule(
        id="toy-kernel",
        topic="toy-kernel-nothing-to-gain",
        title="One block for a few microseconds: nothing to gain",
        scope="kernel",
        why=(
            "A single block on one multiprocessor for a few microseconds is a demonstration, not a "
            "workload. Its time is launch overhead, and differences between such kernels are noise."
        ),
        condition="a kernel with counters of one block that takes less than {median_ns} per launch",
        needs=("median_ns", "blocks"),
        uses=COUNTED,
        applies=counted,
        when=lambda k: k.meets("blocks") & k.meets("median_ns"),
        because="one block takes {median_ns}, most of it launch overhead",
        fix="Profile code like this on a problem that fills the GPU: a thousand blocks or more.",
        refute="Repeat the launch a hundred times. If its time varies by less than the difference, that is not noise.",
        kind="hard",
        grade="observed",
        layer="operator",
        severity="info",
        # Whatever was not collected, it would not matter.
        suppresses=("not-enough-metrics", "problem-too-small", "small-grid", "few-blocks",
                    "latency-bound", "issue-slots-idle", "occ-*", "block-*", "stall-*", "tail-wave"),
        thresholds={"median_ns": below(5_000), "blocks": at_most(1)},
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
