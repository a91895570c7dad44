"""Percentages of different things side by side."""

import numpy as np

from traceroof.facts import Column, Facts, Mask
from traceroof.rule import Doubt, Rule


def _seen(k: Facts) -> Mask:
    return np.asanyarray(~np.isnan(k.other_basis_pct) | ~np.isnan(k.gpu_kinds))


def _factor(k: Facts, run: Facts) -> Column:
    main = str(run.main_basis[0])
    basis = k.compute_basis if run.mixed_use[0] == "compute" else k.dram_basis
    other = np.array([isinstance(one, str) and one != main for one in basis], dtype=bool)
    return np.asanyarray(np.where(run.gpu_kinds >= 2, 0.5, np.where(other, 0.8, 1.0)))


RULES = (
    Rule(
        id="run-mixed-denominators",
        title="Kernels are held against different peaks",
        scope="run",
        why=(
            "A percentage of the cycles that passed, one of the busiest pipe, one of a peak in a "
            "report and one of a data sheet differ by up to 15 % for the same kernel. Files that "
            "hold different counters, or that come from different GPUs, put them side by side in "
            "one table."
        ),
        condition=(
            "5 % of the kernel time or more whose compute or DRAM use is measured against another "
            "basis than that of most kernels, or kernels of different GPUs in one run"
        ),
        needs=("kernel_time_ns",),
        uses=("other_basis_pct", "mixed_use", "main_basis", "other_basis", "gpu_kinds"),
        applies=_seen,
        when=lambda k: (k.other_basis_pct >= 5) | (k.gpu_kinds >= 2),
        because=(
            "[the {mixed_use} use of {other_basis_pct} of the kernel time is measured against "
            "{other_basis}, that of most against {main_basis}; ]"
            "the kernels ran on {gpu_kinds:,.0f} kind(s) of GPU"
        ),
        fix=(
            "Collect the same counters for all kernels, and make one run of each kind of GPU; "
            "every percentage in the JSON form names its basis."
        ),
        refute="Compute the share from bytes, operations and time: it must be the one printed.",
        kind="conditional",
        grade="observed",
        layer="framework",
        effort="config",
        severity="info",
        urgent=lambda k: k.gpu_kinds >= 2,
        doubts=(
            Doubt(
                scope="kernel",
                what="it is held against another peak than most kernels",
                reads=("compute_basis", "dram_basis"),
                columns=("compute_pct", "memory_pct", "busiest_pct", "dram_pct", "roof_pct"),
                factor=_factor,
            ),
        ),
        thresholds={"other_basis_pct": ">= 5", "gpu_kinds": ">= 2"},
        references=(
            "Nsight Compute metric names: pct_of_peak_sustained_elapsed and _active",
            "the 5 % are a judgement",
        ),
        fires=(
            {"kernel_time_ns": 1e8, "other_basis_pct": 5.0, "main_basis": "elapsed",
             "other_basis": "pipe", "mixed_use": "compute", "gpu_kinds": 1.0},
            {"kernel_time_ns": 1e8, "other_basis_pct": 0.0, "gpu_kinds": 2.0},
        ),
        silent=(
            {"kernel_time_ns": 1e8, "other_basis_pct": 4.9, "gpu_kinds": 1.0},
            {"kernel_time_ns": 1e8, "gpu_kinds": 1.0},
            {"kernel_time_ns": 1e8},
        ),
    ),
)  # fmt: skip
