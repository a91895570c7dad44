"""Products of unknown shapes, beside some whose shapes show that they are slow."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.hardware.roofline import T_FLOOR_NS
from traceroof.rule import Attainable, Rule, at_least, below


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
            "16-bit and narrower products without shapes take {unshaped_products_pct} of the GPU "
            "time or more; {shaped_products_launches} launches or more with shapes reach, weighted "
            "by time, less than {shaped_roof_pct} of their roof at nominal peaks and less than "
            "{shaped_reached_pct} of what the GPU is known to attain; decoding takes less than "
            "{decode_pct}"
        ),
        needs=("unshaped_products_pct", "shaped_roof_pct", "shaped_reached_pct"),
        uses=(
            "unshaped_products_ns", "unshaped_products_launches", "shaped_products_ns",
            "shaped_products_launches", "decode_pct", "time_ns",
        ),
        applies=lambda k: ~np.isnan(k.shaped_roof_pct) & k.meets("decode_pct"),
        when=lambda k: (
            k.meets("unshaped_products_pct")
            & k.meets("shaped_roof_pct")
            & k.meets("shaped_reached_pct")
            & k.meets("shaped_products_launches")
        ),
        because=(
            "{unshaped_products_launches} products without recorded shapes take "
            "{unshaped_products_ns}, {unshaped_products_pct} of the GPU time; the "
            "{shaped_products_launches} with shapes ({shaped_products_ns}) reach {shaped_roof_pct} "
            "of their roof. The likely saving assumes that the others reach as little; the upper "
            "bound is all of their time"
        ),
        fix=(
            "Record one pass outside of graphs with record_shapes=True to see which sizes are slow. "
            "Then let the library search ([nvidia: max-autotune, cuBLASLt heuristics][amd: "
            "TunableOp, hipBLASLt tuning]), batch products of few rows, or multiply in FP8."
        ),
        refute=(
            "Time the best library call for the shapes of that pass. If it is no faster, the shapes "
            "are unfavourable."
        ),
        saves=_saves,
        kind="conditional",
        grade="inferred",
        layer="operator",
        effort="config",
        thresholds={
            "unshaped_products_pct": at_least(30),
            "shaped_roof_pct": below(56),
            "shaped_reached_pct": below(90),
            # So many launches with shapes tell something of the others.
            "shaped_products_launches": at_least(8, or_unknown=True),
            "decode_pct": below(50, or_unknown=True),
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
