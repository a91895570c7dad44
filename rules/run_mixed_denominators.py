"""Percentages of different things side by side."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Doubt, Rule, at_least


def _seen(k: Facts) -> Mask:
    return np.asanyarray(~np.isnan(k.other_basis_pct) | ~np.isnan(k.gpu_kinds))


def _other_gpus(k: Facts, run: Facts) -> Column:
    return np.asanyarray(np.full(len(k), 1.0) * np.where(run.gpu_kinds >= 2, 0.5, 1.0))


def _compute(k: Facts, run: Facts) -> Column:
    return _other_basis(k.compute_basis, "compute", run)


def _dram(k: Facts, run: Facts) -> Column:
    return _other_basis(k.dram_basis, "DRAM", run)


def _other_basis(basis: Column, use: str, run: Facts) -> Column:
    main = str(run.main_basis[0])
    # Kernels of several GPUs are in doubt as it is, whatever their bases.
    mixed = run.mixed_use[0] == use and not run.gpu_kinds[0] >= 2
    other = np.array([mixed and isinstance(one, str) and one != main for one in basis], dtype=bool)
    return np.where(other, 0.8, 1.0)


_WHAT = "its use of {} is held against another peak than that of most kernels"
_COMPUTE, _MEMORY = ("compute_pct", "busiest_pct"), ("dram_pct", "memory_pct", "busiest_pct")


RULES = (
    Rule(
        id="run-mixed-denominators",
        topic="measurement",
        title="Kernels are measured against different peaks",
        scope="run",
        why=(
            "A percentage of elapsed cycles, of the busiest pipe, of a peak in a report and of a "
            "data-sheet peak differ by up to 15 % for the same kernel. Files with different "
            "counters, or from different GPUs, put them side by side in one table."
        ),
        condition=(
            "{other_basis_pct} of the kernel time or more has compute or DRAM use measured "
            "against another basis than most kernels, or kernels of {gpu_kinds:.0f} or more kinds "
            "of GPU are in one run"
        ),
        needs=("kernel_time_ns",),
        uses=("other_basis_pct", "mixed_use", "main_basis", "other_basis", "gpu_kinds"),
        applies=_seen,
        when=lambda k: k.meets("other_basis_pct") | k.meets("gpu_kinds"),
        because=(
            "[the {mixed_use} use of {other_basis_pct} of the kernel time is measured against "
            "{other_basis}, that of most against {main_basis}; ]kinds of GPU that "
            "the kernels ran on: {gpu_kinds:,.0f}"
        ),
        fix=(
            "Collect the same counters for all kernels, and make one run per kind of GPU. Every "
            "percentage in the JSON form names its basis."
        ),
        refute=(
            "Compute the share from bytes, operations and time. It must be the one printed."
        ),
        kind="conditional",
        grade="observed",
        layer="framework",
        effort="config",
        severity="info",
        doubts=(
            Doubt(
                scope="kernel",
                what="it is held against peaks of another GPU than other kernels",
                columns=(*_COMPUTE, *_MEMORY, "roof_pct"),
                factor=_other_gpus,
            ),
            Doubt(
                scope="kernel",
                what=_WHAT.format("compute"),
                reads=("compute_basis",),
                columns=_COMPUTE,
                factor=_compute,
            ),
            Doubt(
                scope="kernel",
                what=_WHAT.format("DRAM"),
                reads=("dram_basis",),
                columns=_MEMORY,
                factor=_dram,
            ),
        ),
        thresholds={"other_basis_pct": at_least(5), "gpu_kinds": at_least(2)},
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
