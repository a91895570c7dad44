"""Work that runs as several launches and could be one: one rule a pattern of ``sequences``."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Attainable, Rule, at_least

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
            "two or more different element-wise or copying launches in a row on one stream, of about "
            "the same size, with nothing between them"
        ),
        why=(
            "Each of these kernels reads a whole tensor from memory, does an operation or two per "
            "element and writes it back, and the next kernel reads it again. One fused kernel would "
            "read the first input and write the last output. Sizes may differ by 10 %."
        ),
        says="{chain_launches} element-wise launches run in {chain_regions} chains",
        fix=(
            "Use torch.compile, a fused operator of the library, or one hand-written kernel. Four or "
            "five operations at a time are safe. Longer chains may run out of registers: measure "
            "them, and keep a way back."
        ),
        refute=(
            "Count launches and DRAM bytes of the region after fusing. Both must fall as predicted. "
            "If something else reads the intermediate tensor, its write stays."
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
            "a layer or RMS norm reads next"
        ),
        why=(
            "Mean and variance, reciprocal root, scaling and casting each read and write the tensor "
            "as separate launches. A fused norm reads it once and writes it once, with the residual "
            "addition in the same pass."
        ),
        says="{norm_launches} launches make {norm_regions} normalisations",
        fix=(
            "Use torch.nn.functional.rms_norm or layer_norm (fused kernels), a library's residual norm "
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
        condition="a maximum, an exponential, a sum and a division directly after one another",
        why=(
            "In single operations, a softmax passes over its tensor four or five times. The fused "
            "kernel reads it once and writes it once."
        ),
        says="{softmax_launches} launches make {softmax_regions} softmaxes",
        fix="Use torch.softmax instead of single operations, or torch.compile around them.",
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
            "Query times key makes a matrix of sequence length squared per head. It is written, read "
            "by the softmax, written again and read by the second product. Fused attention keeps it "
            "on chip."
        ),
        says="{attention_launches} launches make {attention_regions} attentions",
        fix=(
            "Use torch.nn.functional.scaled_dot_product_attention with a fused backend, "
            "FlashAttention, or the library's own. Additive masks, odd head sizes and dropout may "
            "exclude a backend: torch.nn.attention.sdpa_kernel says why."
        ),
        refute="Switch the backend. One kernel must remain, and peak memory must fall.",
        references=("Dao et al.: FlashAttention, 2022",),
        roof="compute",
    ),
    _Pattern(
        id="gemm-epilogue-unfused",
        topic="unfused-elementwise",
        pattern="epilogue",
        title="Bias, activation or residual run after a matrix product",
        condition=(
            "one or two element-wise launches directly after a matrix product, as large as its result"
        ),
        why=(
            "The result of the product is on chip when it is done, but it goes to memory and comes "
            "back for a simple operation. The product's own kernel can do it in its epilogue."
        ),
        says="{epilogue_launches} element-wise launches follow {epilogue_regions} products",
        fix=(
            "Use torch.addmm and linear with a bias, cuBLASLt or hipBLASLt epilogues (bias, GELU, ReLU), "
            "torch.compile with max-autotune for the rest; a residual as the product's C input."
        ),
        refute="Use the epilogue. The element-wise launch must be gone and the product hardly slower.",
        references=("NVIDIA cuBLAS documentation: cublasLtEpilogue_t",),
    ),
    _Pattern(
        id="conv-bias-before-bn",
        topic="unfused-elementwise",
        pattern="bias",
        title="A convolution adds a bias that batch norm removes again",
        condition="an addition launched for a convolution's bias, directly followed by a batch norm",
        why=(
            "Batch norm subtracts the mean of each channel, and with it any constant that the "
            "convolution added. The bias costs a pass over the output and a gradient for nothing."
        ),
        says="{bias_launches} bias additions run before a batch norm",
        fix="Set bias=False in convolutions that a batch norm follows.",
        refute="Set bias=False. The loss must not change, and the additions must be gone.",
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
        condition=f"{one.condition}; {{{pct}}} of the GPU time or more",
        needs=(pct, time, least, kept),
        uses=(*counts, example, known, "time_ns"),
        # Where nothing was found there is nothing to judge.
        applies=lambda k: ~np.isnan(getattr(k, pct)),
        when=lambda k: k.meets(pct),
        because=f"{one.says} and take {{{pct}}} of the GPU time: {{{example}}}",
        fix=one.fix,
        refute=one.refute,
        saves=saves,
        kind="hard",
        grade="derived",
        layer=one.layer,
        effort=one.effort,
        trust=trust,
        thresholds={pct: at_least(one.least_pct)},
        references=one.references,
        fires=(
            found(one.least_pct),
            found(20.0, **{least: 0.0, kept: 8e6, known: 0.0}),
        ),
        silent=(found(one.least_pct * 0.99), found(0.0)),
    )


RULES = tuple(_rule(one) for one in _PATTERNS)
