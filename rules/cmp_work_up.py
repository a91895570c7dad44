"""A launch moves more bytes or does more operations than before."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Attainable, Rule, above, at_least
from traceroof.rules._changes import on_both_sides


def _share(more: Column, rate: Column, k: Facts) -> Column:
    """The extra work at the rate that is attainable, as a share of the time; at most the extra
    share of the work, where the rate is not known."""
    seconds = more / rate * k.launches_head
    return np.asanyarray(np.where(np.isnan(seconds), np.nan, seconds * 1e9 / k.time_ns))


def _more_bytes(k: Facts, peak: Attainable) -> Column:
    extra = k.dram_bytes_head - k.dram_bytes_base
    by_rate = _share(extra, k.dram_peak_bytes_per_s * peak.memory, k)
    return np.asanyarray(np.where(np.isnan(by_rate), extra / k.dram_bytes_head, by_rate))


def _more_flops(k: Facts, peak: Attainable) -> Column:
    extra = k.flops_head - k.flops_base
    by_rate = _share(extra, k.flop_peak_per_s * peak.compute, k)
    return np.asanyarray(np.where(np.isnan(by_rate), extra / k.flops_head, by_rate))


_KERNEL = {"level": "kernel", "verdict": "inconclusive"}

RULES = (
    Rule(
        id="cmp-bytes-up",
        topic="change",
        title="A launch moves more bytes",
        scope="compare",
        why=(
            "DRAM bytes are counted, not timed. They repeat to within a few percent, however "
            "noisy the clock is. More bytes cost time in every kernel that memory limits."
        ),
        condition=(
            "DRAM bytes per launch are {dram_bytes_head} times those of the base or more (from "
            "more than {dram_bytes_base})"
        ),
        needs=("dram_bytes_base", "dram_bytes_head"),
        uses=("level", "verdict", "dram_peak_bytes_per_s", "launches_head", "time_ns"),
        applies=on_both_sides,
        when=lambda k: k.meets("dram_bytes_base") & k.meets("dram_bytes_head"),
        because="DRAM bytes per launch {dram_bytes_base} → {dram_bytes_head}",
        fix=(
            "Look for a wider element type, a lost fusion, a layout change, spills, or a tile "
            "that no longer fits the cache."
        ),
        refute=(
            "Count the bytes of this kernel on both sides once more, with the cache flushed. If "
            "they agree, the difference came from the contents of the cache."
        ),
        saves=_more_bytes,
        kind="conditional",
        grade="observed",
        layer="operator",
        thresholds={"dram_bytes_base": above(0), "dram_bytes_head": at_least(1.05, of="dram_bytes_base")},
        references=("NVIDIA Nsight Compute: dram__bytes.sum; replay flushes the caches",),
        # 100 MB more at 1 TB/s are 0.1 ms, 10 % of 1 ms.
        fires=(
            {**_KERNEL, "dram_bytes_base": 1e9, "dram_bytes_head": 1.1e9, "launches_head": 1.0,
             "dram_peak_bytes_per_s": 1e12, "time_ns": 1e6},
            {**_KERNEL, "dram_bytes_base": 1.00e6, "dram_bytes_head": 1.05e6},
        ),
        silent=(
            {**_KERNEL, "dram_bytes_base": 1.00e6, "dram_bytes_head": 1.049e6},
            {**_KERNEL, "dram_bytes_base": 2e6, "dram_bytes_head": 1e6},
        ),
    ),
    Rule(
        id="cmp-flops-up",
        topic="change",
        title="A launch does more operations",
        scope="compare",
        why=(
            "Operations follow from the shapes and the algorithm, and they do not scatter. More "
            "of them is more work: larger inputs, padding, recomputation or another algorithm."
        ),
        condition=(
            "operations per launch, counted or modelled from its shapes, are {flops_head} times "
            "those of the base or more (from more than {flops_base})"
        ),
        needs=("flops_base", "flops_head"),
        uses=("level", "verdict", "flop_peak_per_s", "launches_head", "time_ns"),
        applies=on_both_sides,
        when=lambda k: k.meets("flops_base") & k.meets("flops_head"),
        because="operations per launch {flops_base} → {flops_head}",
        fix="Compare the input shapes of both sides, then the algorithm that the library chose.",
        refute="Print the shapes of this operator on both sides. They must differ.",
        saves=_more_flops,
        kind="conditional",
        grade="observed",
        layer="model",
        thresholds={"flops_base": above(0), "flops_head": at_least(1.01, of="flops_base")},
        references=("docs/operators.md: operations by shapes",),
        # 1e9 more at 1e13 a second are 0.1 ms, 10 % of 1 ms.
        fires=(
            {**_KERNEL, "flops_base": 1e10, "flops_head": 1.1e10, "launches_head": 1.0,
             "flop_peak_per_s": 1e13, "time_ns": 1e6},
            {**_KERNEL, "flops_base": 1.00e6, "flops_head": 1.01e6},
        ),
        silent=(
            {**_KERNEL, "flops_base": 1.00e6, "flops_head": 1.009e6},
            {**_KERNEL, "flops_base": 2e6, "flops_head": 1e6},
        ),
    ),
)  # fmt: skip
