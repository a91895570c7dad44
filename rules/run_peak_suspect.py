"""Kernels above a peak: then the peak is not theirs."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Doubt, Rule, above, at_least
from traceroof.scopes.measurement_quality import OVER_PEAK, over_peak


def _factor(k: Facts, run: Facts) -> Column:
    others = np.where(run.over_peak_pct > 110, 0.7, 1.0)
    return np.asanyarray(np.where(over_peak(k) > 100, 0.5, others))


def _nothing_left(k: Facts, run: Facts) -> Column:
    # What a model says of a kernel that exceeds a peak by a tenth rests on a wrong peak or a wrong
    # count: there is no roofline to hold it against.
    return np.asanyarray(np.where(over_peak(k) > 110, 0.0, 1.0))


RULES = (
    Rule(
        id="run-peak-suspect",
        topic="measurement",
        title="A kernel exceeds a peak of the device",
        scope="run",
        why=(
            "Nothing runs faster than its peak. A figure above 100 % shows that the peak is not "
            "this device's (another model, a partition, a board with higher clocks, a rate with "
            "sparsity), that it is for another element type, or that the operations were counted "
            "too high. Every share of that peak is then wrong. Above 110 % all figures against "
            "peaks are in doubt."
        ),
        condition=(
            "a use of a peak above {over_peak_pct}, measured or by shapes, in kernels with "
            "{over_peak_time_pct} of the time or more; bytes by shapes count as far as no cache "
            "can hold them"
        ),
        needs=("over_peak_pct", "over_peak_time_pct"),
        uses=("over_peak_of",),
        when=lambda k: k.meets("over_peak_pct") & k.meets("over_peak_time_pct"),
        because=(
            "[{over_peak_of} is at ]{over_peak_pct} of its peak; kernels above 100 % of a peak "
            "take {over_peak_time_pct} of the kernel time"
        ),
        fix=(
            "Name the right device (--device, `traceroof devices`) and calibrate it (`traceroof "
            "calibrate`). If the device is right, the operator's model counts too much: please "
            "report the kernel and its shapes."
        ),
        refute=(
            "Look up the dense peak of the device for this element type. It must be larger."
        ),
        kind="hard",
        grade="observed",
        layer="hardware",
        effort="config",
        severity="info",
        urgent=lambda k: k.over_peak_pct > 110,
        doubts=(
            Doubt(
                scope="kernel",
                what="a peak that it is held against is exceeded",
                reads=OVER_PEAK,
                columns=(
                    "compute_pct", "memory_pct", "busiest_pct", "dram_pct", "flop_pct",
                    "tensor_pct", "model_flop_pct", "model_dram_pct", "roof_pct", "t_min_ns",
                    "*_peak_*",
                ),
                factor=_factor,
            ),
            Doubt(
                scope="kernel",
                what="a peak that it is held against is exceeded by more than a tenth",
                reads=OVER_PEAK,
                columns=("model_flop_pct", "model_dram_pct", "roof_pct", "t_min_ns"),
                factor=_nothing_left,
                silences=True,
            ),
        ),
        thresholds={"over_peak_pct": above(100), "over_peak_time_pct": at_least(0.5)},
        references=(
            "TraceLens: shares of a peak over 110 % are an error of the device or the model",
            "nsys-ai: shares over 100 % are rejected",
        ),
        fires=(
            {"over_peak_pct": 100.1, "over_peak_time_pct": 0.5},
            {"over_peak_pct": 141.0, "over_peak_time_pct": 30.0, "over_peak_of": "FLOP rate"},
        ),
        silent=(
            {"over_peak_pct": 100.0, "over_peak_time_pct": 5.0},
            {"over_peak_pct": 120.0, "over_peak_time_pct": 0.49},
        ),
    ),
)  # fmt: skip
