"""Work that runs as several launches and could be one: one rule a pattern of ``sequences``."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Attainable, Rule

# Order and names or grids alone suggest what sizes confirm.
_TRUST_IN_ORDER = 0.6


@dataclass(frozen=True, kw_only=True)
class _Pattern:
    """One pattern of launches. least_pct: share of the GPU time from which on it matters. roof:
    which peak the fused kernel is held against."""

    id: str
    topic: str
    pattern: str
    title: str
    condition: str
    why: str
    says: str
    fix: str
    refute: str
    references: tuple[str, ...]
    least_pct: float = 1
    roof: Literal["memory", "compute"] = "memory"
    effort: Any = "one-line"
    layer: Any = "framework"


_PATTERNS = (
    _Pattern(
        id="unfused-elementwise-chain",
        topic="unfused-elementwise",
        pattern="chain",
        title="Element-wise kernels run one after another on the same data",
        condition=(
            "two or more different element-wise or copying launches in a row on one stream, of one "
            "size (10 %), with nothing between them"
        ),
        why=(
            "Each of these kernels reads a whole tensor from memory, does an operation or two on "
            "each element and writes it back, for the next one to read again. One kernel would read "
            "the first input and write the last output."
        ),
        says="{chain_launches} element-wise launches run in {chain_regions} chains",
        fix=(
            "torch.compile, a fused operator of the library, or one hand-written kernel. Four or "
            "five operations at a time are safe; longer chains may run out of registers, so measure "
            "them, and keep a switch back."
        ),
        refute=(
            "Count launches and DRAM bytes of the region after fusing: both must fall as "
            "predicted. If a second reader needs the tensor between, the write stays."
        ),
        references=(
            "PyTorch 2: torch.compile, ASPLOS 2024 (TorchInductor's fusion)",
            "AMD TraceLens: kernel fusion opportunities",
        ),
    ),
    _Pattern(
        id="unfused-norm",
        topic="unfused-norm",
        pattern="norm",
        title="Normalisation runs in several kernels",
        condition=(
            "a reduction, a root and the element-wise launches around them, or an addition whose sum "
            "a layer or RMS norm reads at once"
        ),
        why=(
            "Mean and variance, reciprocal root, scaling and casting as launches of their own read "
            "and write the tensor each time. A fused norm reads it once and writes it once, with the "
            "residual addition in the same pass."
        ),
        says="{norm_launches} launches make {norm_regions} normalisations",
        fix=(
            "torch.nn.functional.rms_norm or layer_norm (fused kernels), a library's residual norm "
            "(fused_add_rms_norm in vLLM, Liger, Apex, TransformerEngine), or torch.compile around "
            "the module."
        ),
        refute="After the change each norm is one launch; the results must agree to rounding.",
        references=(
            "PyTorch documentation: torch.nn.functional.rms_norm",
            "Hsu et al.: Liger Kernel, 2024",
        ),
    ),
    _Pattern(
        id="unfused-softmax",
        topic="attention-kernel",
        pattern="softmax",
        title="Softmax runs in several kernels",
        condition="a maximum, an exponential, a sum and a division right after one another",
        why=(
            "Written out in single operations a softmax passes over its tensor four or five times. "
            "The fused kernel reads it once and writes it once."
        ),
        says="{softmax_launches} launches make {softmax_regions} softmaxes",
        fix="torch.softmax instead of single operations, or torch.compile around them.",
        refute="After the change each softmax is one launch; the results must agree to rounding.",
        references=("Milakov, Gimelshein: Online normalizer calculation for softmax, 2018",),
    ),
    _Pattern(
        id="attn-unfused-scores",
        topic="attention-kernel",
        pattern="attention",
        title="Attention writes out its score matrix",
        condition=(
            "a softmax between two batched matrix products, with nothing but element-wise work "
            "between them"
        ),
        why=(
            "Query times key makes a matrix of sequence length squared for every head. It is "
            "written, read by the softmax, written again and read by the second product. Fused "
            "attention keeps it on the chip."
        ),
        says="{attention_launches} launches make {attention_regions} attentions",
        fix=(
            "torch.nn.functional.scaled_dot_product_attention with a fused backend, FlashAttention "
            "or a library's own. Additive masks, odd head sizes and dropout may rule a backend out: "
            "torch.nn.attention.sdpa_kernel says why."
        ),
        refute="Switch the backend: one kernel remains, and peak memory falls.",
        references=("Dao et al.: FlashAttention, 2022",),
        roof="compute",
    ),
    _Pattern(
        id="gemm-epilogue-unfused",
        topic="unfused-elementwise",
        pattern="epilogue",
        title="Bias, activation or residual run behind a matrix product",
        condition=(
            "an element-wise launch, or two, right behind a matrix product and as large as its result"
        ),
        why=(
            "The product's result is on the chip when it is done, but goes to memory and comes back "
            "for a simple operation. The product's own kernel can do it in its epilogue."
        ),
        says="{epilogue_launches} element-wise launches follow {epilogue_regions} products",
        fix=(
            "torch.addmm and linear with a bias, cuBLASLt or hipBLASLt epilogues (bias, GELU, ReLU), "
            "torch.compile with max-autotune for the rest; a residual as the product's C input."
        ),
        refute="The element-wise launch must be gone and the product hardly slower.",
        references=("NVIDIA cuBLAS documentation: cublasLtEpilogue_t",),
    ),
    _Pattern(
        id="conv-bias-before-bn",
        topic="unfused-elementwise",
        pattern="bias",
        title="A convolution adds a bias that batch norm takes away again",
        condition="an addition launched for a convolution's bias, with a batch norm right behind it",
        why=(
            "Batch norm subtracts the mean of each channel, and with it any constant that the "
            "convolution added. The bias costs a pass over the output, and a gradient, for nothing."
        ),
        says="{bias_launches} bias additions stand before a batch norm",
        fix="bias=False in convolutions that a batch norm follows.",
        refute="The loss must not change, the additions must be gone.",
        references=("PyTorch performance tuning guide: disable bias before batch norm",),
        least_pct=0.5,
        layer="model",
    ),
)


def _rule(one: _Pattern) -> Rule:
    name = one.pattern
    pct, time, least, kept, known, example = (
        f"{name}_{what}"
        for what in ("pct", "time_ns", "least_ns", "kept_ns", "known_pct", "example")
    )
    counts = (f"{name}_launches", f"{name}_regions")

    def saves(k: Facts, peak: Attainable) -> Column:
        attainable = np.asanyarray(peak.compute if one.roof == "compute" else peak.memory)
        fused = getattr(k, least) / attainable + getattr(k, kept)
        return np.asanyarray((getattr(k, time) - fused) / k.time_ns)

    def trust(k: Facts) -> Column:
        share = np.nan_to_num(getattr(k, known) / 100)
        return np.asanyarray(_TRUST_IN_ORDER + (1 - _TRUST_IN_ORDER) * share)

    def found(value: float, **more: Any) -> Mapping[str, Any]:
        return {
            pct: value, time: value * 1e6, least: value * 3e5, kept: 0.0, known: 100.0,
            counts[0]: 48.0, counts[1]: 24.0, example: "mul > add, 24 times", "time_ns": 1e8, **more,
        }  # fmt: skip

    return Rule(
        id=one.id,
        topic=one.topic,
        title=one.title,
        scope="run",
        why=one.why,
        condition=f"{one.condition}; {one.least_pct:g} % of the GPU time or more",
        needs=(pct, time, least, kept),
        uses=(*counts, example, known, "time_ns"),
        # Where nothing was found there is nothing to judge.
        applies=lambda k: ~np.isnan(getattr(k, pct)),
        when=lambda k: getattr(k, pct) >= one.least_pct,
        because=f"{one.says} and take {{{pct}}} of the GPU time: {{{example}}}",
        fix=one.fix,
        refute=one.refute,
        saves=saves,
        kind="hard",
        grade="derived",
        layer=one.layer,
        effort=one.effort,
        trust=trust,
        thresholds={pct: f">= {one.least_pct:g}"},
        references=one.references,
        fires=(
            found(one.least_pct),
            found(20.0, **{least: 0.0, kept: 8e6, known: 0.0}),
        ),
        silent=(found(one.least_pct * 0.99), found(0.0)),
    )


RULES = tuple(_rule(one) for one in _PATTERNS)
