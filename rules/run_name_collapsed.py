"""Kernels that are several under one name."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Doubt, Rule, at_least
from traceroof.scopes.measurement_quality import SCATTERED, collapsed


def _factor(k: Facts, run: Facts) -> Column:
    return np.asanyarray(np.where(collapsed(k) & (k.category != "communication"), 0.6, 1.0))


RULES = (
    Rule(
        id="run-name-collapsed",
        topic="measurement",
        title="One name stands for different work",
        scope="run",
        why=(
            "Launches are grouped by name, launch shape and, where recorded, input shapes. A "
            "persistent kernel has one grid for every problem, and a tool that cuts names off "
            "drops the template arguments that tell instances apart. Medians and shares then "
            "describe a mixture. Work counts as different when 20 launches or more lie more than "
            "a factor of 5 apart, 95th against 5th percentile."
        ),
        condition=(
            "{collapsed_pct} of the kernel time or more is in kernels without known shapes whose "
            "launches differ that much, or {cut_names_pct} or more in kernels whose name was cut "
            "off"
        ),
        needs=("cut_names_pct",),
        uses=("collapsed_pct",),
        when=lambda k: k.meets("collapsed_pct") | k.meets("cut_names_pct"),
        because=(
            "[kernels whose launches differ more than five-fold under one name and launch shape "
            "take {collapsed_pct} of the kernel time; ]kernels with a name cut off take "
            "{cut_names_pct}"
        ),
        fix=(
            "Record input shapes (record_shapes=True) and full names[amd:  (no "
            "--truncate-kernels)]. Each size is then a kernel of its own."
        ),
        refute="Launch one size only. If times still differ five-fold, the data decides.",
        kind="conditional",
        grade="inferred",
        layer="framework",
        effort="config",
        severity="info",
        doubts=(
            Doubt(
                scope="kernel",
                what="its launches do different work under one name",
                reads=(*SCATTERED, "category"),
                factor=_factor,
            ),
        ),
        thresholds={"collapsed_pct": at_least(5), "cut_names_pct": at_least(0.5)},
        references=(
            "ROCm/rocprofiler-compute issue 193: names of instances brought together",
            "rocprof guides: a spread of a factor of 5 is suspicious",
            "the shares of time are a judgement",
        ),
        fires=(
            {"cut_names_pct": 0.0, "collapsed_pct": 5.0},
            {"cut_names_pct": 0.5},
        ),
        silent=(
            {"cut_names_pct": 0.49, "collapsed_pct": 4.9},
            {"cut_names_pct": 0.0},
        ),
    ),
)
