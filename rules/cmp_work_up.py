"""A launch moves more bytes or does more operations than before."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Attainable, Rule
from traceroof.rules._changes import on_both_sides

_MORE_BYTES = 1.05
_MORE_FLOPS = 1.01


def _grew(base: Column, head: Column, factor: float) -> Mask:
    return np.asanyarray((base > 0) & (head >= factor * base))


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
            "DRAM bytes are counted, not timed: they come out the same to a few percent however "
            "noisy the clock is. More bytes cost time in every kernel that memory limits."
        ),
        condition="DRAM bytes of a launch up by 5 % or more",
        needs=("dram_bytes_base", "dram_bytes_head"),
        uses=("level", "verdict", "dram_peak_bytes_per_s", "launches_head", "time_ns"),
        applies=on_both_sides,
        when=lambda k: _grew(k.dram_bytes_base, k.dram_bytes_head, _MORE_BYTES),
        because="DRAM bytes of a launch {dram_bytes_base} → {dram_bytes_head}",
        fix=(
            "Look for a wider element type, a lost fusion, a layout change, spills, or a tile that "
            "no longer fits the cache."
        ),
        refute=(
            "Count the bytes of this kernel on both sides once more, with the cache flushed: if "
            "they agree, the difference was what the cache held."
),
        saves=_more_bytes,
        kind="conditional",
        grade="observed",
        layer="operator",
        thresholds={"dram_bytes_head": "5 % above dram_bytes_base"},
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
            "Operations follow from the shapes and the algorithm; they do not scatter. More of "
            "them is more work: larger inputs, padding, recomputation or another algorithm."
        ),
        condition="operations of a launch up by 1 % or more, counted or modelled from its shapes",
        needs=("flops_base", "flops_head"),
        uses=("level", "verdict", "flop_peak_per_s", "launches_head", "time_ns"),
        applies=on_both_sides,
        when=lambda k: _grew(k.flops_base, k.flops_head, _MORE_FLOPS),
        because="operations of a launch {flops_base} → {flops_head}",
        fix="Compare the input shapes of both sides, then the algorithm that the library chose.",
        refute="Print the shapes of this operator on both sides: they must differ.",
        saves=_more_flops,
        kind="conditional",
        grade="observed",
        layer="model",
        thresholds={"flops_head": "1 % above flops_base"},
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
