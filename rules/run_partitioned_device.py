"""A part of a device, held against the peaks of the whole."""

import numpy as np

from traceroof.core.facts import Facts, Mask
from traceroof.rule import Doubt, Rule, below


def _seen(k: Facts) -> Mask:
    return np.asanyarray(~np.isnan(k.sm_share_pct) | ~np.isnan(k.dram_rated_pct))


def _fires(k: Facts) -> Mask:
    return np.asanyarray(k.meets("sm_share_pct") | k.meets("dram_rated_pct"))


RULES = (
    Rule(
        id="run-partitioned-device",
        topic="measurement",
        title="The program had only a part of the device",
        scope="run",
        why=(
            "A MIG slice, a share of the multiprocessors (MPS, green contexts), or a compute or "
            "memory partition of an AMD GPU reaches only a part of the peaks. Files rarely say "
            "how much memory bandwidth and L2 such a part has, and other partitions of the same "
            "GPU take their share."
        ),
        condition=(
            "less than {sm_share_pct} of the multiprocessors that the device of this name has, or "
            "a DRAM peak below {dram_rated_pct} of its nominal one"
        ),
        needs=("kernel_time_ns",),
        uses=("sm_share_pct", "dram_rated_pct", "sm_count", "whole_sm_count"),
        applies=_seen,
        when=_fires,
        because=(
            "[the program had {sm_count:,.0f} of {whole_sm_count:,.0f} multiprocessors, "
            "{sm_share_pct} of the device; ][its DRAM peak is {dram_rated_pct} of nominal; ]peaks "
            "of the whole device do not apply"
        ),
        fix=(
            "Read bandwidths against the share of the partition, and calibrate it (`traceroof "
            "calibrate`). For figures of the device, profile it unpartitioned and without other "
            "work."
        ),
        refute=(
            "Ask the driver[nvidia:  (nvidia-smi -L)][amd:  (amd-smi static --partition)]. If it "
            "reports no partition, the peaks of the whole device apply."
        ),
        kind="hard",
        grade="observed",
        layer="hardware",
        effort="config",
        severity="info",
        doubts=(
            Doubt(
                scope="kernel",
                what="the device is a partition, whose share of the memory is not known",
                columns=(
                    "dram_pct", "dram_bytes_per_s", "model_dram_pct", "roof_pct", "t_min_ns",
                    "dram_peak_*", "l2_cache_bytes",
                ),
                factor=lambda k, run: np.full(len(k), 0.8),
            ),
        ),
        thresholds={"sm_share_pct": below(99.5), "dram_rated_pct": below(80)},
        references=(
            "NVIDIA Multi-Instance GPU user guide",
            "ROCm documentation, compute and memory partitions of MI300",
        ),
        fires=(
            {"kernel_time_ns": 1e8, "sm_share_pct": 99.4, "sm_count": 107.0, "whole_sm_count": 108.0},
            {"kernel_time_ns": 1e8, "sm_share_pct": 12.5, "sm_count": 38.0, "whole_sm_count": 304.0},
            {"kernel_time_ns": 1e8, "dram_rated_pct": 79.9},
        ),
        silent=(
            {"kernel_time_ns": 1e8, "sm_share_pct": 100.0, "sm_count": 108.0, "whole_sm_count": 108.0},
            {"kernel_time_ns": 1e8, "sm_share_pct": 99.5, "dram_rated_pct": 80.0},
            {"kernel_time_ns": 1e8},
        ),
    ),
)  # fmt: skip
