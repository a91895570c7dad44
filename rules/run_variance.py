"""Times that scatter from launch to launch."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Doubt, Rule, above
from traceroof.scopes.measurement_quality import SCATTERED, scattered


def _factor(k: Facts, run: Facts) -> Column:
    scatters = scattered(k) & (k.category != "communication")
    return np.asanyarray(np.where(scatters, 1 - np.minimum(k.scatter_pct, 50) / 100, 1.0))


RULES = (
    Rule(
        id="run-variance",
        topic="measurement",
        title="Kernels take different times from launch to launch",
        scope="run",
        why=(
            "Launches of one kernel on the same shapes should take the same time. Where they do "
            "not, clocks move, other work shares the GPU, or the data decides. A single figure "
            "describes such a kernel badly, and a small change cannot be told from noise. Times "
            "scatter when 1.4826 times their median absolute deviation is over 5 % of the median, "
            "in kernels of five launches or more."
        ),
        condition=(
            "more than {scattered_pct} of the kernel time is in kernels whose times scatter; "
            "collectives, which wait for each other, and names that stand for different work "
            "(run-name-collapsed) are left out"
        ),
        needs=("scattered_pct",),
        uses=("typical_scatter_pct", "repeated_pct"),
        when=lambda k: k.meets("scattered_pct"),
        because=(
            "kernels whose times scatter by more than 5 % take {scattered_pct} of the kernel time "
            "without collectives[; they scatter by {typical_scatter_pct} on average][ "
            "({repeated_pct} was launched often enough to tell)]"
        ),
        fix=(
            "[nvidia: Lock the clocks (nvidia-smi --lock-gpu-clocks)][amd: Fix the clocks "
            "(rocm-smi --setperfdeterminism)], keep other work off the GPU, record more steps, "
            "and compare medians of several runs."
        ),
        refute=(
            "Record the same steps at locked clocks. If times still scatter, the data decides."
        ),
        kind="conditional",
        grade="observed",
        layer="hardware",
        effort="config",
        severity="info",
        doubts=(
            Doubt(
                scope="kernel",
                what="its time scatters from launch to launch",
                reads=(*SCATTERED, "category"),
                factor=_factor,
            ),
        ),
        thresholds={"scattered_pct": above(20)},
        references=(
            "nsys-ai and rocprof guides: 1.4826 MAD over 5 % of the median",
            "Hoefler and Belli, Scientific Benchmarking of Parallel Computing Systems (SC 2015)",
            "the share of the kernel time is a judgement",
        ),
        fires=(
            {"scattered_pct": 20.1},
            {"scattered_pct": 67.0, "typical_scatter_pct": 6.4, "repeated_pct": 99.0},
        ),
        silent=({"scattered_pct": 20.0}, {"scattered_pct": 0.0, "repeated_pct": 100.0}),
    ),
)
