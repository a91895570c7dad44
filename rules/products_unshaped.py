"""Products of unknown shapes, beside some whose shapes show that they are slow."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.hardware.roofline import T_FLOOR_NS
from traceroof.rule import Attainable, Rule

# So many launches with shapes tell something of the others.
_LEAST_LAUNCHES = 8


def _saves(k: Facts, peak: Attainable) -> Column:
    # Nothing is known of their work: at most all but a launch's floor. Likely: as the others.
    floor = np.nan_to_num(k.unshaped_products_launches) * T_FLOOR_NS
    spared = np.maximum(k.unshaped_products_ns - floor, 0)
    likely = np.fmin(k.unshaped_products_ns * (1 - k.shaped_reached_pct / 100), spared)
    return np.asanyarray(np.where(np.asanyarray(peak.compute) < 1, likely, spared) / k.time_ns)


_EXAMPLE = {
    "unshaped_products_pct": 60.0,
    "unshaped_products_ns": 60e6,
    "unshaped_products_launches": 2000.0,
    "shaped_products_launches": 150.0,
    "shaped_products_ns": 10e6,
    "shaped_roof_pct": 30.0,
    "shaped_reached_pct": 55.0,
    "time_ns": 100e6,
}

RULES = (
    Rule(
        id="products-unshaped",
        topic="gemm-efficiency",
        title="Most products have no shapes, and those that have are slow",
        scope="run",
        why=(
            "Replayed graphs record no shapes, so the least time of their products is unknown. "
            "Products of the same run that were recorded with shapes reach little of their roof; "
            "the others come from the same model and library."
        ),
        condition=(
            "products of 16 bits and less without shapes take 30 % of the GPU time or more outside "
            "of decoding, and 8 launches or more with shapes reach, by time, less than 56 % of "
            "their roof at nominal peaks and less than 90 % of what the GPU is known to attain"
        ),
        needs=("unshaped_products_pct", "shaped_roof_pct", "shaped_reached_pct"),
        uses=(
            "unshaped_products_ns", "unshaped_products_launches", "shaped_products_ns",
            "shaped_products_launches", "decode_pct", "time_ns",
        ),
        applies=lambda k: ~np.isnan(k.shaped_roof_pct) & ~(k.decode_pct >= 50),
        when=lambda k: (k.unshaped_products_pct >= 30)
        & (k.shaped_roof_pct < 56)
        & (k.shaped_reached_pct < 90)
        & ~(k.shaped_products_launches < _LEAST_LAUNCHES),
        because=(
            "{unshaped_products_launches} products without recorded shapes take "
            "{unshaped_products_ns}, {unshaped_products_pct} of the GPU time; the "
            "{shaped_products_launches} with shapes ({shaped_products_ns}) reach {shaped_roof_pct} "
            "of their roof. Likely is what goes if the others do as well; at most is all of their "
            "time"
        ),
        fix=(
            "Record one pass outside of graphs with record_shapes=True to see which sizes are slow. "
            "Then let the library search ([nvidia: max-autotune, cublasLt's heuristics][amd: "
            "TunableOp, hipBLASLt tuning]), batch products of few rows, or multiply in FP8."
        ),
        refute=(
            "Time the best library call for the shapes of that pass: if it is no faster, the shapes "
            "are unfavourable."
        ),
        saves=_saves,
        kind="conditional",
        grade="inferred",
        layer="operator",
        effort="config",
        thresholds={
            "unshaped_products_pct": ">= 30",
            "shaped_roof_pct": "< 56",
            "shaped_reached_pct": "< 90",
        },
        references=("docs/operators.md: the models of operations and bytes",),
        fires=(
            _EXAMPLE,
            {**_EXAMPLE, "unshaped_products_pct": 30.0},
            {**_EXAMPLE, "shaped_roof_pct": 55.9, "shaped_reached_pct": 89.9},
        ),
        silent=(
            {**_EXAMPLE, "unshaped_products_pct": 29.9},
            {**_EXAMPLE, "shaped_roof_pct": 56.0},
            {**_EXAMPLE, "shaped_reached_pct": 90.0},
            {**_EXAMPLE, "shaped_products_launches": 7.0},
            {**_EXAMPLE, "decode_pct": 50.0},
        ),
    ),
)  # fmt: skip
