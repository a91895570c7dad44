"""Kernels in a row at DRAM speed over one array."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.hardware.roofline import T_FLOOR_NS
from traceroof.rule import Attainable, Rule, at_least


def _share(k: Facts) -> Column:
    return np.asanyarray(k.dram_chain_bytes / k.dram_bytes)


def _saves(k: Facts, peak: Attainable) -> Column:
    """What the fused kernel still moves for this part, at the peak of DRAM."""
    rate = k.dram_peak_bytes_per_s * np.asanyarray(peak.memory)
    least = np.maximum(k.dram_bytes - k.dram_chain_bytes, 0.0) / rate * 1e9
    return np.asanyarray(1 - np.fmax(least, T_FLOOR_NS) / k.median_ns)


RULES = (
    Rule(
        id="dram-chain",
        topic="dram-wall",
        title="Kernels in a row move the same array through DRAM",
        scope="kernel",
        why=(
            "A kernel at the wall of DRAM cannot get faster alone. Where the next kernel reads at "
            "least as many bytes as this one wrote, it probably reads the same array. One fused "
            "kernel reads the first input and writes the last output, and what lies between stays "
            "in registers. Kernels that use shared memory are left out, because their blocks "
            "exchange data."
        ),
        condition=(
            "different kernels in a row on one stream, each at the wall of DRAM and without shared "
            "memory; the next reads all bytes that the one before wrote, which are more than L2 "
            "holds; these are {chained} of the kernel's traffic"
        ),
        needs=("dram_chain_bytes", "dram_bytes", "dram_peak_bytes_per_s"),
        uses=("dram_chain_with", "dram_pct", "median_ns"),
        applies=lambda k: ~np.isnan(k.dram_chain_bytes),
        when=lambda k: k.meets("chained"),
        saves=_saves,
        because=(
            "{dram_chain_bytes} of the {dram_bytes} of a launch are written and read again by its "
            "neighbours in a row, {dram_chain_with} among them"
        ),
        fix=(
            "Fuse the kernels that follow one another on the same elements into one: load once, do "
            "all steps in registers, store once."
        ),
        refute=(
            "Compare the pointers: the next kernel must read the array that this one writes. If "
            "something else reads that array too, its write stays."
        ),
        kind="option",
        grade="inferred",
        layer="operator",
        effort="kernel",
        thresholds={"chained": at_least(0.2, column="dram_chain_bytes", measure=_share,
                                        words="{op} {value:.0%}")},
        references=(
            "NVIDIA CUDA samples, convolutionFFT2D: three passes in 309 µs, one in 133 µs",
        ),
        fires=(
            {"dram_chain_bytes": 2e7, "dram_bytes": 1e8, "dram_peak_bytes_per_s": 1e12,
             "dram_pct": 80.0, "median_ns": 1.25e5, "dram_chain_with": "g"},
            {"dram_chain_bytes": 1.01e8, "dram_bytes": 1e8, "dram_peak_bytes_per_s": 1e12,
             "dram_pct": 80.0, "median_ns": 1.25e5, "dram_chain_with": "g"},
        ),
        silent=(
            {"dram_chain_bytes": 1.9e7, "dram_bytes": 1e8, "dram_peak_bytes_per_s": 1e12,
             "dram_pct": 80.0, "median_ns": 1.25e5, "dram_chain_with": "g"},
            {"dram_bytes": 1e8, "dram_peak_bytes_per_s": 1e12, "dram_pct": 80.0, "median_ns": 1.25e5},
        ),
    ),
)  # fmt: skip
