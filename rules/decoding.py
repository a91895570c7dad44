"""Decoding without recorded shapes: one rule for each thing that a pass reads."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.hardware.roofline import T_FLOOR_NS
from traceroof.rule import Attainable, Rule, at_least


@dataclass(frozen=True, kw_only=True)
class _Part:
    """One part of ``patterns.decoding.PARTS``. least_pct: share of the passes' GPU time from which
    on it matters. what: its launches. against: what a reader holds the readable bytes against."""

    id: str
    part: str
    topic: str
    title: str
    what: str
    against: str
    least_pct: float
    why: str
    fix: str
    references: tuple[str, ...]


_PARTS = (
    _Part(
        id="decode-experts",
        part="experts",
        topic="moe",
        title="Decoding spends its time on the weights of the experts",
        what="products of experts",
        against="the weights of the experts that get a token, at their width",
        least_pct=20,
        why=(
            "In decode, every expert that gets a token is read in full for a few rows: with 32 tokens "
            "and 8 experts each, nearly all of them. Reading takes the time, and grouped kernels made "
            "for many rows reach a fraction of the bandwidth."
        ),
        fix=(
            "Use a grouped kernel made for few rows and this weight format ([amd: AITER's fused MoE"
            "][nvidia: FlashInfer or TensorRT-LLM's fused MoE, Marlin], tuned configurations in vLLM "
            "and SGLang), more sequences in a pass so that each expert gets more rows, experts "
            "spread over more GPUs, weights in 4 bits."
        ),
        references=(
            "Gale et al.: MegaBlocks, 2022",
            "vLLM documentation: fused MoE kernel features",
        ),
    ),
    _Part(
        id="decode-products",
        part="products",
        topic="memory-bandwidth-decode",
        title="Decoding spends its time on reading weights",
        what="matrix products",
        against="the weights that the GPU holds, experts left out, at their width",
        least_pct=20,
        why=(
            "A decoding pass multiplies a few rows with every weight of the model. Each weight is read "
            "once and hardly used. The bandwidth of device memory is the limit, and products of few "
            "rows often reach half of it."
        ),
        fix=(
            "Use weights in FP8, INT8 or 4 bits (half the bytes and less), products made for few rows "
            "([amd: hipBLASLt tuned for these shapes, AITER][nvidia: a tuned cuBLASLt, split-K or "
            "skinny kernels]), more sequences in a pass, speculative decoding."
        ),
        references=("Pope et al.: Efficiently scaling transformer inference, 2022",),
    ),
    _Part(
        id="decode-attention",
        part="attention",
        topic="attention-kernel",
        title="Decoding spends its time on reading the key-value cache",
        what="attention kernels",
        against="the keys and values of all cached tokens",
        least_pct=15,
        why=(
            "Each sequence reads its whole cache for one token, and batching does not share it. The "
            "speed of reading decides: keys split over enough blocks, wide pages."
        ),
        fix=(
            "Use a decoding kernel for this GPU ([amd: AITER's paged attention][nvidia: FlashInfer, "
            "TensorRT-LLM, FlashMLA]) with enough splits of the keys, an FP8 cache, grouped or latent "
            "attention, shared prefixes."
        ),
        references=("Dao et al.: Flash-Decoding for long-context inference, 2023",),
    ),
)


def _rule(one: _Part) -> Rule:
    time, pct, launches, readable, example = (
        f"decode_{one.part}_{name}"
        for name in (
            "unshaped_ns", "unshaped_pct", "unshaped_launches", "readable_bytes", "example",
        )
    )  # fmt: skip

    def saves(k: Facts, peak: Attainable) -> Column:
        # How many bytes they must read is unknown: the launches alone are a floor, and what is
        # likely to go cannot be said.
        floor = np.nan_to_num(getattr(k, launches)) * T_FLOOR_NS
        spared = np.maximum(getattr(k, time) - floor, 0) / k.time_ns
        return np.asanyarray(np.where(np.asanyarray(peak.memory) < 1, np.nan, spared))

    def found(value: float, **more: Any) -> Mapping[str, Any]:
        return {
            pct: value, time: value * 1e5, launches: 72.0, readable: 30e9, example: "a_kernel",
            "time_ns": 1e7, "decode_pct": 100.0, **more,
        }  # fmt: skip

    return Rule(
        id=one.id,
        title=one.title,
        scope="run",
        topic=one.topic,
        why=one.why,
        condition=(
            f"{one.what} of unknown shapes take {{{pct}}} of the GPU time of decoding passes or more, "
            "and decoding takes {decode_pct} of the passes' GPU time or more"
        ),
        needs=(pct, time, "decode_pct"),
        uses=(launches, readable, example, "decode_step_ns", "time_ns"),
        applies=lambda k: ~np.isnan(getattr(k, pct)),
        when=lambda k: k.meets(pct) & k.meets("decode_pct"),
        because=(
            f"{{{launches}}} {one.what} take {{{time}}}, {{{pct}}} of the GPU time of decoding passes "
            f"(mostly {{{example}}})[; in that time of a pass memory could deliver {{{readable}}}: "
            f"hold that against {one.against}]"
        ),
        fix=one.fix,
        refute=(
            "Record one pass without graph replay and with record_shapes=True. The bytes of these "
            "kernels over their time and the bandwidth must be far below 85 %."
        ),
        saves=saves,
        kind="conditional",
        grade="inferred",
        layer="operator",
        effort="config",
        thresholds={pct: at_least(one.least_pct), "decode_pct": at_least(50)},
        references=one.references,
        fires=(found(one.least_pct), found(70.0, decode_pct=50.0)),
        silent=(found(one.least_pct * 0.99), found(70.0, decode_pct=49.0)),
    )


RULES = tuple(_rule(one) for one in _PARTS)
