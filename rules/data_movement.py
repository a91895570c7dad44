"""Launches that move data without computing: one rule a role of ``roles.toml``."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from traceroof.core import regex
from traceroof.core.facts import (
    Column,
    Facts,
    Mask,
    is_unknown_value,
)
from traceroof.core.tracing import each
from traceroof.patterns import slug
from traceroof.rule import Attainable, Grade, Layer, Rule, Threshold, at_least, at_most

# Where both figures are at hand: the part of the role's time that goes.
_ALL = 1.0
# What is nearly all of a run is what it was made for: a test of copies, not a waste beside work.
_MOST_PCT = 90
# What a copy is launched by when somebody asked for it by name, with no operator around it.
_BARE = regex.compile(r"aten::(_foreach_)?copy_|ProfilerStep.*")


def _by_the_way(k: Facts) -> Mask:
    """Where an operator that is no copy made the copies: contiguous(), a collective, autograd."""

    def made(launcher: object) -> bool:
        parts = [] if is_unknown_value(launcher) else str(launcher).split(" > ")
        # A lone name is that of the copy itself: a kernel, or "DtoD".
        return len(parts) > 1 and not all(_BARE.fullmatch(part) for part in parts)

    return each(k.copy_from, made, "names an operator around the copy", bool)


def _asked_for(k: Facts) -> Mask:
    return np.asanyarray(~_by_the_way(k))


@dataclass(frozen=True, kw_only=True)
class _Waste:
    """One role whose time could be spared.

    least_pct: share of the GPU time from which on the rule fires. also: a second condition that
    fires it too; only: one without which it does not. likely: part of the time that goes in
    practice. more: further columns. launcher: of the examples.
    """

    id: str
    topic: str
    role: str
    title: str
    least_pct: float
    what: str
    why: str
    fix: str
    refute: str
    layer: Layer
    references: tuple[str, ...]
    likely: float = _ALL
    also: Callable[[Facts], Mask] | None = None
    only: Callable[[Facts], Mask] | None = None
    limits: Mapping[str, Threshold] = field(default_factory=dict)
    condition: str = ""
    more: tuple[str, ...] = ()
    fires: tuple[Mapping[str, Any], ...] = ()
    silent: tuple[Mapping[str, Any], ...] = ()
    launcher: str = "aten::clone > aten::copy_"
    severity: Any = None
    grade: Grade = "inferred"
    effort: Any = "refactor"
    risk: Any = "none"


_WASTES = (
    _Waste(
        id="layout-conversion-share",
        topic="layout",
        role="layout change",
        title="Layout changes take long",
        least_pct=5,
        what="transpose, concatenate or copy tensors into another layout",
        why=(
            "A transpose, a permuted copy or a concatenation reads and writes a whole tensor and "
            "computes nothing. They appear where two neighbours need different layouts, often in "
            "pairs that undo each other."
        ),
        fix=(
            "Use one layout from end to end (channels_last for convolutions). Fold the transpose "
            "into the product's flags or strides. Write outputs into slices of one preallocated "
            "tensor instead of concatenating them. Fuse the copy with a neighbour (torch.compile)."
        ),
        refute="After the change the copies must be gone, and the total time lower by half their time.",
        layer="framework",
        # Some of them are needed somewhere.
        likely=0.5,
        references=(
            "PyTorch tutorial: channels last memory format",
            "NVIDIA, Convolutional Layers User's Guide: tensor layouts",
        ),
    ),
    _Waste(
        id="redundant-copy",
        topic="device-copy",
        role="copy",
        title="Copies within the device take long",
        least_pct=3,
        what="copy tensors on the device as they are",
        only=_by_the_way,
        condition=", most of it inside another operator (contiguous, clone, a collective)",
        why=(
            "clone(), contiguous() and copies between buffers move every byte twice, and the model did "
            "not ask for it. Even at device bandwidth they add up."
        ),
        fix=(
            "Write into the target directly (out=, views, preallocated buffers), remove unneeded "
            "clones, keep collective buffers and gradients in one place "
            "(gradient_as_bucket_view=True in DDP)."
        ),
        refute=(
            "Remove one copy. Its launch must be gone, the step shorter by its time, and the result "
            "the same."
        ),
        layer="framework",
        effort="one-line",
        references=(
            "PyTorch profiler, ExtraCUDACopyPattern",
            "PyTorch documentation: DDP buckets",
        ),
        silent=(
            {"copy_pct": 20.0, "copy_launches": 20.0, "copy_from": "aten::copy_"},
            {"copy_pct": 20.0, "copy_launches": 20.0, "copy_from": "DtoD"},
            {"copy_pct": 20.0, "copy_launches": 20.0},
        ),
    ),
    _Waste(
        id="device-copy-share",
        topic="device-copy",
        role="copy",
        title="The code copies tensors within the device",
        least_pct=3,
        what="copy tensors on the device as they are",
        only=_asked_for,
        launcher="aten::copy_",
        condition=", most of it with no other operator around the copy",
        why=(
            "Each copy reads and writes every byte once. The code requests these explicitly (copy_(), "
            "a copy of the runtime), so the profile does not show whether they can be removed."
        ),
        fix=(
            "Check for each copy whether its target can be written directly: a view, out=, a double "
            "buffer."
        ),
        refute=(
            "Remove one copy. If the result changes, or the step takes as long as before, keep it."
        ),
        layer="framework",
        severity="info",
        references=("PyTorch documentation: Tensor.copy_",),
        silent=(
            {
                "copy_pct": 20.0,
                "copy_launches": 1.0,
                "copy_from": "aten::contiguous > aten::clone > aten::copy_",
            },
        ),
    ),
    _Waste(
        id="precision-convert-churn",
        topic="precision-cast",
        role="cast",
        title="Casts between element types take long",
        least_pct=3,
        what="cast tensors between element types",
        also=lambda k: k.meets("cast_launches") & k.meets("products") & k.meets("some_casts"),
        limits={
            "cast_launches": at_least(1, of="products", words="or {op} products"),
            "products": at_least(8),
            "some_casts": at_least(1, column="cast_pct", told=False),
        },
        condition=(
            ", or there is one cast or more per matrix product ({products} products or more) and "
            "{some_casts} of the GPU time"
        ),
        more=("products",),
        why=(
            "A cast reads and writes a whole tensor. Autocast casts weights on every use, and "
            "modules that switch to FP32 and back cast their input and their output."
        ),
        fix=(
            "Use one type throughout a region. Cast weights once, not in every step. Fuse casts into "
            "the previous kernel (torch.compile does that). Use norms and activations that take "
            "16-bit input and accumulate in FP32."
        ),
        refute=(
            "Count the casts in one step before and after the change. Launches and time of the casts "
            "must fall together, and no other kernel must get slower."
        ),
        layer="framework",
        risk="numerics",
        references=("PyTorch documentation: automatic mixed precision",),
        fires=({"cast_pct": 1.0, "cast_launches": 24, "products": 24},),
    ),
    _Waste(
        id="padding-waste",
        topic="device-copy",
        role="padding",
        title="Padding copies tensors",
        least_pct=1,
        what="pad tensors",
        why=(
            "Padding copies the tensor into a larger one, and everything after it computes on the "
            "padded part as well. This figure does not count that, because a profile does not have "
            "the true lengths."
        ),
        fix=(
            "Sort sequences into buckets of similar length, pack them and use kernels for variable "
            "lengths, or let the convolution or the next kernel pad on the fly."
        ),
        refute=(
            "Print how many elements of a batch are padding. If it is less than a fifth, keep it. "
            "After packing, the products must get faster by that share."
        ),
        layer="model",
        severity="info",
        references=("Krell et al.: Efficient sequence packing without cross-contamination, 2021",),
    ),
    _Waste(
        id="grad-zeroing",
        topic="optimizer",
        role="gradient reset",
        title="Gradients are overwritten with zeros",
        least_pct=0.5,
        what="set gradients to zero",
        why=(
            "Zeroing writes every gradient once, and the first backward pass then reads and adds "
            "instead of just writing."
        ),
        fix="Use optimizer.zero_grad(set_to_none=True), the default from PyTorch 2.0 on.",
        refute="After the change the fills must be gone from the trace.",
        layer="framework",
        effort="one-line",
        grade="observed",
        references=("PyTorch documentation: Optimizer.zero_grad",),
    ),
    _Waste(
        id="embedding-scatter",
        topic="embedding",
        role="scattered gradient",
        title="Adding gradients into embedding rows takes long",
        least_pct=3,
        what="add gradients into table rows",
        why=(
            "Rows that occur several times in a batch must be summed. The framework's own kernels "
            "sort the indices first or let threads with the same row wait for each other. A few very "
            "frequent rows make that serial."
        ),
        fix=(
            "Use fused embedding tables (FBGEMM, TorchRec) or sparse gradients, index_select or gather "
            "with unique indices, or a one-hot product for small tables. For x[index] with a "
            "gradient, use index_select instead of indexing."
        ),
        refute="Train on random instead of real indices. If the time falls, repeated rows were the cause.",
        layer="framework",
        # Rows still have to be read and added.
        likely=0.5,
        references=(
            "PyTorch documentation: torch.nn.Embedding, sparse gradients",
            "FBGEMM documentation: table batched embeddings",
        ),
    ),
    _Waste(
        id="kv-cache-write-share",
        topic="kv-cache",
        role="cache write",
        title="Writing the key-value cache takes long",
        least_pct=10,
        what="write keys and values into the cache",
        why=(
            "A decoding step writes one key and one value per layer and sequence: a few kilobytes. "
            "The time goes to a separate launch per layer, or to copying more than the new tokens."
        ),
        fix=(
            "Use one kernel that rotates query and key and writes the cache, or fuse the write into "
            "the attention kernel. Replay a graph so that launches cost little. Copy only new "
            "tokens."
        ),
        refute=(
            "Compare the bytes of the new keys and values with the DRAM bytes that the kernels move. "
            "If the two agree, nothing is written twice."
        ),
        layer="operator",
        effort="kernel",
        references=("vLLM documentation: paged attention and cache kernels",),
    ),
    _Waste(
        id="dequant-overhead",
        topic="precision-cast",
        role="dequantisation",
        title="Converting quantised data back takes long",
        least_pct=5,
        what="convert quantised tensors back",
        why=(
            "Weights or messages in few bits save bytes only while they stay narrow. A separate pass "
            "that widens them reads the narrow tensor and writes the wide one, and the product reads "
            "that again: more bytes than without quantisation."
        ),
        fix=(
            "Use a product that converts in registers (Marlin, Machete, torchao's int4 and int8 "
            "products, FP8 scaled_mm), or widen the weights once where memory allows."
        ),
        refute=(
            "Time the fused product on the same shape. If it is no faster than dequantisation and"
            " product together, keep them apart."
        ),
        layer="operator",
        effort="refactor",
        references=("Frantar et al.: MARLIN, 2024",),
    ),
)


def _when(k: Facts, waste: _Waste) -> Mask:
    found = k.meets(f"{slug(waste.role)}_pct")
    if waste.also:
        found = np.asanyarray(found | waste.also(k))
    if waste.only:
        found = np.asanyarray(found & waste.only(k))
    return np.asanyarray(found & k.meets("most"))


def _saves(k: Facts, peak: Attainable, waste: _Waste) -> Column:
    part = np.where(np.asanyarray(peak.memory) < 1, waste.likely, _ALL)
    return np.asanyarray(part * getattr(k, f"{slug(waste.role)}_pct") / k.share_pct)


def _example(waste: _Waste, value: float) -> Mapping[str, Any]:
    role = slug(waste.role)
    return {
        f"{role}_pct": value,
        f"{role}_launches": 12.0,
        f"{role}_from": waste.launcher,
        "share_pct": 40.0,
        **dict.fromkeys(waste.more, 4.0),
    }


def _rule(waste: _Waste) -> Rule:
    pct, launches, source = (f"{slug(waste.role)}_{what}" for what in ("pct", "launches", "from"))
    example = partial(_example, waste)
    return Rule(
        id=waste.id,
        topic=waste.topic,
        title=waste.title,
        scope="category",
        why=waste.why,
        condition=(
            f"launches that {waste.what} take {{{pct}}} of the GPU time or more{waste.condition}; not "
            "where they take more than {most}, because then the run was made for them"
        ),
        needs=(pct,),
        uses=(launches, source, "share_pct", "category", *waste.more),
        # Shares of what a counter tool was pointed at say nothing.
        applies=lambda k: ~np.isnan(getattr(k, pct)),
        when=partial(_when, waste=waste),
        because=(
            f"{{{launches}}} launches that {waste.what} take {{{pct}}} of the GPU time, most of it "
            f"from {{{source}}}"
        ),
        fix=waste.fix,
        refute=waste.refute,
        saves=partial(_saves, waste=waste),
        kind="hard",
        grade=waste.grade,
        layer=waste.layer,
        effort=waste.effort,
        risk=waste.risk,
        severity=waste.severity,
        thresholds={
            pct: at_least(waste.least_pct),
            "most": at_most(_MOST_PCT, column=pct),
            **waste.limits,
        },
        references=waste.references,
        fires=(
            example(waste.least_pct),
            example(30.0),
            example(float(_MOST_PCT)),
            *({"share_pct": 40.0, **more} for more in waste.fires),
        ),
        silent=(
            example(waste.least_pct * 0.99),
            example(0.0),
            example(_MOST_PCT + 0.1),
            *({"share_pct": 40.0, **more} for more in waste.silent),
        ),
    )


RULES = tuple(_rule(waste) for waste in _WASTES)
