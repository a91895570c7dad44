"""Serving: what the run does, what a token costs at least, and what choosing it costs."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.hardware.ceilings import UNCALIBRATED
from traceroof.rule import Attainable, Rule, above, at_least, below


def _judged(k: Facts) -> Column:
    """The time that the floor is held against: of a step; of its products alone where attention
    runs, so that its unknown cache is not taken for waste."""
    alone = np.isnan(k.decode_kv_bytes) & (k.decode_attention_ns > 0)
    return np.asanyarray(np.where(alone, k.decode_products_ns, k.decode_step_ns))


def _used(k: Facts) -> Column:
    """Floor over the time it is held against, of what is attainable."""
    return np.asanyarray(k.decode_floor_ns / UNCALIBRATED.memory / _judged(k))


def _saves_step(k: Facts, peak: Attainable) -> Column:
    judged = _judged(k)
    waste = 1 - k.decode_floor_ns / np.asanyarray(peak.memory) / judged
    every = np.where(judged == k.decode_step_ns, k.decode_time_ns, judged * k.decode_steps)
    return np.asanyarray(waste * every / k.time_ns)


def _decodes(k: Facts) -> Mask:
    return k.meets("decode_steps")


# 13.5 GB at 2.039 TB/s: 6.61 ms (LLaMA-7B in FP16 on an A100 80 GB); at 85 % 7.79 ms.
_STEP = {
    "decode_steps": 20.0,
    "decode_weight_bytes": 13.476e9,
    "decode_reads": "weights 13.5 GB",
    "decode_floor_ns": 6.61e6,
    "decode_products_ns": 7e6,
    "decode_attention_ns": 0.0,
    "decode_step_ns": 30e6,
    "decode_time_ns": 600e6,
    "decode_sequences": 1.0,
    "time_ns": 700e6,
}

# With 1.07 GB of cache (2,048 tokens at 512 KiB): 14.55 GB, 7.14 ms; at 85 % 8.40 ms.
_CACHED = {
    **_STEP,
    "decode_attention_ns": 1e6,
    "decode_kv_bytes": 1.074e9,
    "decode_reads": "weights 13.5 GB, cache 1.07 GB",
    "decode_floor_ns": 7.14e6,
}

# Attention runs, over a cache of unknown size: the products are judged.
_ALONE = {
    **_STEP,
    "decode_attention_ns": 20e6,
    "decode_reads": "weights 13.5 GB; the cache, of unknown size, comes on top",
    "decode_products_ns": 11.2e6,
}

RULES = (
    Rule(
        id="prefill-decode-mix",
        topic="summary",
        title="What the run serves: prompts or tokens",
        scope="run",
        why=(
            "Reading prompts (prefill) is limited by arithmetic and decides the time to the first "
            "token. Generating tokens one by one (decode) is limited by reading weights and "
            "cache, and decides the time of each further token. The same kernel can be right for "
            "one and wrong for the other."
        ),
        condition=(
            "passes of a serving engine, or attention with a cache, that tell prefill from decode"
        ),
        needs=("prefill_pct", "decode_pct"),
        uses=("mixed_pct", "serving_from", "prompt_tokens_pct", "decode_sequences", "decode_step_ns"),
        applies=lambda k: ~np.isnan(k.prefill_pct),
        when=lambda k: (k.prefill_pct + k.decode_pct) >= 0,
        because=(
            "{prefill_pct} of the GPU time goes to reading prompts, {decode_pct} to generating "
            "tokens, by {serving_from}"
        ),
        fix=(
            "Optimise prefill for FLOPs, decode for bytes. Where one pass does both, chunked "
            "prefill trades the delay of tokens against throughput. With a single request it "
            "changes nothing."
        ),
        refute=(
            "Compare with the engine's own counts of prompt and generated tokens. Steps with more "
            "tokens than sequences must be the prefill steps."
        ),
        kind="hard",
        grade="observed",
        layer="framework",
        severity="info",
        thresholds={"prefill_pct": "known"},
        references=("AMD TraceLens: prefill and decode phases",
                    "Agrawal et al.: Sarathi-Serve, OSDI 2024"),
        fires=(
            {"prefill_pct": 100.0, "decode_pct": 0.0, "mixed_pct": 0.0,
             "serving_from": "the annotations of the passes"},
            {"prefill_pct": 0.0, "decode_pct": 0.0, "mixed_pct": 100.0},
        ),
        silent=({"decode_pct": 0.0, "mixed_pct": 100.0}, {"decode_pct": 0.0}, {}),
    ),
    Rule(
        id="mixed-passes",
        topic="mixed-prefill-decode",
        title="Prompts delay the tokens that are made in the same pass",
        scope="run",
        why=(
            "Where a pass reads prompts and makes tokens at once (chunked prefill), every sequence that "
            "waits for its next token waits for the prompt too. The GPU is used better, and the time "
            "between two tokens becomes that of the longest pass."
        ),
        condition=(
            "passes that do both take more than {mixed_step_ns:.1f} times as long as those that only "
            "make tokens, by the medians"
        ),
        needs=("mixed_step_ns", "decode_step_ns", "mixed_steps"),
        uses=("mixed_delay_ns", "mixed_prompt_tokens", "mixed_pct", "decode_sequences"),
        applies=lambda k: ~np.isnan(k.mixed_steps),
        when=lambda k: k.meets("mixed_step_ns"),
        because=(
            "{mixed_steps:,.0f} passes read prompts and make tokens; they take {mixed_step_ns} (median), "
            "passes that only make tokens {decode_step_ns}[, with {mixed_prompt_tokens:,.0f} prompt "
            "tokens in a pass][; that delays tokens by {mixed_delay_ns} in all]"
        ),
        fix=(
            "If the time between tokens matters: fewer prompt tokens in a pass (vLLM "
            "max_num_batched_tokens, SGLang chunked_prefill_size), or prefill on GPUs of its own "
            "(disaggregated serving). If only throughput matters, larger chunks are better, and nothing "
            "is lost here."
        ),
        refute=(
            "Serve the same requests with half the chunk: the longest time between two tokens must fall, "
            "and the time to the first token rise."
        ),
        kind="option",
        grade="observed",
        layer="framework",
        effort="config",
        thresholds={"mixed_step_ns": above(1.5, of="decode_step_ns")},
        references=("Agrawal et al.: Sarathi-Serve, OSDI 2024",
                    "Zhong et al.: DistServe, OSDI 2024"),
        fires=(
            {"mixed_steps": 4.0, "mixed_step_ns": 61e6, "decode_step_ns": 40e6, "mixed_delay_ns": 80e6,
             "mixed_prompt_tokens": 2_048.0},
            {"mixed_steps": 1.0, "mixed_step_ns": 600e6, "decode_step_ns": 40e6},
        ),
        silent=(
            {"mixed_steps": 4.0, "mixed_step_ns": 60e6, "decode_step_ns": 40e6},
            {"mixed_step_ns": 600e6, "decode_step_ns": 40e6},
        ),
    ),
    Rule(
        id="tpot-floor",
        topic="memory-bandwidth-decode",
        title="A decoding step takes far longer than reading the weights",
        scope="run",
        why=(
            "A step that generates one token per sequence must read every weight once, and the "
            "keys and values of all previous tokens. These bytes over the bandwidth are the least "
            "time of a step. Where attention runs and the size of its cache is unknown, the "
            "weights are held against the time of the products only. Nine tenths of the products' "
            "time must have shapes."
        ),
        condition=(
            "decoding steps were found (more than {decode_steps}), and weights and cache over the "
            "attainable bandwidth take less than {decode_step_ns:.0%} of the median time of a "
            "step (where attention runs and its cache is unknown: the weights, of the time of the "
            "step's products)"
        ),
        needs=("decode_step_ns", "decode_floor_ns"),
        uses=("decode_reads", "decode_products_ns", "decode_attention_ns", "decode_kv_bytes", "decode_steps", "decode_weight_bytes", "decode_time_ns", "decode_sequences", "decode_weights_pct", "time_ns"),
        applies=_decodes,
        when=lambda k: k.meets("decode_step_ns"),
        because=(
            "a decoding step takes {decode_step_ns}, its products {decode_products_ns}; reading "
            "what it must ({decode_reads}) takes {decode_floor_ns} at the nominal bandwidth"
        ),
        fix=(
            "Find what fills the step: gaps between launches (replay a graph), slow products of "
            "few rows, attention over the cache, collectives. At the floor only fewer bytes help: "
            "weights in fewer bits, more sequences per step, speculative decoding. With one "
            "sequence, the scheduler's options change nothing."
        ),
        refute=(
            "Double the sequences of a step. If its time hardly changes, reading the weights "
            "takes it. If it doubles, something else does."
        ),
        saves=_saves_step,
        kind="hard",
        grade="derived",
        layer="framework",
        effort="config",
        thresholds={
            "decode_steps": above(0, told=False),
            "decode_step_ns": below(0.7, measure=_used, words="floor {op} {value} of it"),
        },
        references=("Pope et al.: Efficiently scaling transformer inference, 2022",),
        # 7.79 / 11.1 = 0.702; 7.79 / 11.2 = 0.695.
        # 8.40 / 12.1 = 0.694; 8.40 / 11.9 = 0.706.
        fires=(
            _STEP,
            {**_STEP, "decode_step_ns": 11.2e6},
            {**_CACHED, "decode_step_ns": 12.1e6},
            _ALONE,
        ),
        silent=(
            {**_STEP, "decode_step_ns": 11.1e6},
            {**_CACHED, "decode_step_ns": 11.9e6},
            # However long the step: attention may be reading what it must.
            {**_ALONE, "decode_products_ns": 11.1e6},
            {**_STEP, "decode_steps": 0.0},
        ),
    ),
    Rule(
        id="sampling-sort-overhead",
        topic="sampling",
        title="Sampling the next token takes long",
        scope="run",
        why=(
            "Sorting or scanning a vocabulary of a hundred thousand entries per sequence, in "
            "several launches, can take as long as several layers of the model. Where no sampler "
            "is recorded, sorts, scans and softmaxes over rows of 30,000 entries or more count."
        ),
        condition=(
            "launches of the sampler, or where tokens are generated of sorts, scans and softmaxes "
            "over rows as long as a vocabulary, take {sampling_pct} of the GPU time or more"
        ),
        needs=("sampling_pct",),
        uses=("sampling_launches", "gpu_time_ns", "time_ns", "decode_pct"),
        applies=lambda k: ~np.isnan(k.sampling_pct),
        when=lambda k: k.meets("sampling_pct"),
        because="{sampling_launches} launches that choose tokens take {sampling_pct} of the GPU time",
        fix=(
            "Use a sampler without a full sort (FlashInfer's rejection sampling, a top-k kernel "
            "of small "
            "k), greedy choice as one argmax, penalties and masks only where a request asks for them, "
            "the vocabulary split over the ranks."
        ),
        refute=(
            "Sample greedily: the step must get shorter by the time of the sampler's kernels."
),
        saves=lambda k, peak: k.sampling_pct / 100 * k.gpu_time_ns / k.time_ns,
        kind="hard",
        grade="inferred",
        layer="framework",
        effort="config",
        thresholds={"sampling_pct": at_least(5)},
        references=("FlashInfer documentation: sorting-free sampling",),
        fires=(
            {"sampling_pct": 5.0, "sampling_launches": 12.0, "gpu_time_ns": 1e7, "time_ns": 1.1e7},
            {"sampling_pct": 30.0},
        ),
        silent=({"sampling_pct": 4.9}, {"sampling_pct": 0.0}),
    ),
)  # fmt: skip
