"""The kernel's name marks a generic implementation."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.core.tracing import one_of
from traceroof.rule import Attainable, Rule
from traceroof.rules._kernels import tunable


def _saves(k: Facts, peak: Attainable) -> Column:
    # Only the arithmetic of a product survives a better implementation; bytes may go as well.
    product = one_of(k.category, "gemm", "conv", "attention")
    needed = k.flop_pct / (100 * np.asanyarray(peak.compute))
    return np.asanyarray(np.where(product & (k.flop_pct > 0), 1 - needed, np.nan))


RULES = (
    Rule(
        id="fallback-kernel",
        topic="fallback-kernel",
        title="The name marks a generic implementation",
        scope="kernel",
        why=(
            "Libraries fall back to a simple implementation when no tuned one supports the type, "
            "the layout or the device. They do so without a warning."
        ),
        condition=(
            "the name of a library's kernel says naive, reference, MAGMA or source code of Tensile, or "
            "the operator is the unfused attention backend"
        ),
        needs=("route",),
        uses=("primary_class", "category", "operator", "flop_pct"),
        applies=tunable,
        when=lambda k: k.route != "",
        because="by its name or its operator this is {route}",
        fix=(
            "Ask for the tuned route and compare: a current library, the layout and sizes it wants, "
            "torch.nn.attention.sdpa_kernel with a fused backend, MIOPEN_FIND_MODE or "
            "cudnn.benchmark for convolutions, a library that is tuned for this GPU (hipBLASLt, a newer "
            "rocBLAS), a library call in place of a hand-written product."
        ),
        refute="Time the tuned alternative on the same shapes: if it is no faster, keep this one.",
        saves=_saves,
        kind="option",
        grade="inferred",
        layer="framework",
        effort="config",
        thresholds={"route": "none"},
        references=("PyTorch documentation: torch.nn.attention.sdpa_kernel",),
        fires=(
            {"route": "a naive implementation", "category": "gemm", "flop_pct": 5.0},
            {"route": "the unfused attention backend", "operator": "aten::bmm"},
        ),
        silent=(
            {"route": ""},
            {"route": "", "category": "gemm", "flop_pct": 5.0},
            {"route": "a naive implementation", "primary_class": "launch-bound"},
        ),
    ),
)
