"""Expert layers: few rows for each expert, and time spent on sending rows about."""

import numpy as np

from traceroof.core.facts import Facts, Mask
from traceroof.rule import Rule, at_least, below
from traceroof.rules._kernels import tunable
from traceroof.rules._models import CEILINGS, CREDIBLE, FAR, IS_FAR, MODELLED, credible, far, missed


def _grouped(k: Facts) -> Mask:
    return np.asanyarray(tunable(k) & (k.model == "grouped gemm") & credible(k))


_EXAMPLE = {
    "model": "grouped gemm",
    "model_shape": "E=64 M=512 N=4096 K=2048",
    "model_intensity": 7.9,
    "model_ridge": 295.0,
    "roof_pct": 30.0,
    "model_flop_pct": 1.0,
    "model_dram_pct": 30.0,
}

RULES = (
    Rule(
        id="moe-small-groups",
        topic="moe",
        title="Each expert gets few rows, and reads its weight slowly",
        scope="kernel",
        why=(
            "A grouped product reads the weight of every expert that got a row. With few rows per "
            "expert, reading takes the time, and tiles made for many rows run mostly empty."
        ),
        condition=(
            "a grouped GEMM with an intensity below the ridge (too few rows per expert to be "
            f"compute-bound) and {IS_FAR}"
        ),
        needs=("model_intensity", "model_ridge"),
        uses=("primary_class", "model", "model_shape", *MODELLED, *CEILINGS, "duration_ns"),
        applies=_grouped,
        when=lambda k: k.meets("model_intensity") & far(k),
        because=(
            "{model_shape} (E experts share M rows) has {model_intensity} against a ridge of "
            "{model_ridge} and runs at {roof_pct} of its roof"
        ),
        fix=(
            "Use a grouped kernel with small row tiles, weights in fewer bits, or larger batches. "
            "Spread the experts over more GPUs, so that each expert gets more rows. Where some experts "
            "get most rows, use a balance loss or a capacity limit."
        ),
        refute=(
            "Time the product of the largest expert alone. The grouped product should take about "
            "that time, plus the time to read the other weights."
        ),
        saves=missed,
        kind="hard",
        grade="derived",
        layer="operator",
        suppresses=("roofline-headroom*", "latency-bound", "dram-leaning-headroom"),
        thresholds={**CREDIBLE, **FAR, "model_intensity": below(1, of="model_ridge")},
        references=("Gale et al.: MegaBlocks, 2022",),
        fires=(
            _EXAMPLE,
            {**_EXAMPLE, "model_intensity": 294.0, "roof_pct": 59.4, "model_dram_pct": 59.4},
        ),
        silent=(
            {**_EXAMPLE, "model_intensity": 295.0},
            {**_EXAMPLE, "roof_pct": 59.5, "model_dram_pct": 59.5},
            {**_EXAMPLE, "model": "gemm"},
        ),
    ),
    Rule(
        id="moe-permute-share",
        topic="moe",
        title="Routing rows to the experts takes long",
        scope="category",
        why=(
            "Choosing experts, counting, sorting and copying rows does no arithmetic of the "
            "model. In eager code it is a dozen small launches per layer."
        ),
        condition="kernels of expert routing take {share_pct} of the GPU time or more",
        needs=("share_pct",),
        uses=("category", "launches", "median_ns"),
        applies=lambda k: k.category == "moe-routing",
        when=lambda k: k.meets("share_pct"),
        because="{launches} routing launches (median {median_ns}) take {share_pct} of the GPU time",
        fix=(
            "Use one fused kernel for gating and sorting (vLLM, SGLang and Megatron have them), a "
            "grouped product that gathers its rows itself, and capture the routing in the graph."
        ),
        refute=(
            "Fuse the routing. The launches per layer must fall to one or two, and the time of "
            "the category with them."
        ),
        saves=lambda k, peak: np.ones(len(k)),
        kind="conditional",
        grade="inferred",
        layer="operator",
        thresholds={"share_pct": at_least(10)},
        references=("Gale et al.: MegaBlocks, 2022",),
        fires=(
            {"category": "moe-routing", "share_pct": 10.0, "launches": 144, "median_ns": 2700.0},
            {"category": "moe-routing", "share_pct": 30.0},
        ),
        silent=(
            {"category": "moe-routing", "share_pct": 9.9},
            {"category": "gemm", "share_pct": 60.0},
        ),
    ),
)
