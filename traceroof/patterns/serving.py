"""What a serving run does: prefill or decode, and what one decoded token costs at least.

Engines annotate each pass over the model with the requests in it (``pass_annotations``). Where no
pass is annotated, the query lengths of attention decide.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core import regex
from traceroof.core.dictionary import factorized, together
from traceroof.core.facts import Facts
from traceroof.core.kernel_table import Column, sourced
from traceroof.core.tracing import one_of
from traceroof.core.units import quantity
from traceroof.kernels.groups import Groups
from traceroof.kernels.variants import Variants, summed
from traceroof.operators.operands import element_bytes
from traceroof.patterns.launch_order import sizes_of
from traceroof.patterns.pass_annotations import Pass, pass_of
from traceroof.timeline import Timeline

Reals = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

#: Columns of the facts of scope ``run`` that come from here; absent where nothing is served.
SERVING_COLUMNS: tuple[Column, ...] = sourced(
    (Column(name, kind, unit, meaning, "run", basis)
    for name, kind, unit, meaning, basis in (
        ("serving_from", pa.string(), "", "what tells prefill from decode", ""),
        ("prefill_pct", pa.float64(), "%", "GPU time of passes that only read prompts", "passes"),
        ("decode_pct", pa.float64(), "%", "GPU time of passes that only make tokens", "passes"),
        ("mixed_pct", pa.float64(), "%", "GPU time of passes that do both", "passes"),
        ("prompt_tokens_pct", pa.float64(), "%", "prompt tokens among those of all passes",
         "tokens"),
        ("mixed_steps", pa.float64(), "", "passes that do both", ""),
        ("mixed_step_ns", pa.float64(), "ns", "median time of such a pass on the GPU", ""),
        ("mixed_delay_ns", pa.float64(), "ns",
         "what such passes take beyond the median of those that only make tokens", ""),
        ("mixed_prompt_tokens", pa.float64(), "token", "median prompt tokens of such a pass", ""),
        ("decode_steps", pa.float64(), "", "passes that only make tokens", ""),
        ("decode_step_ns", pa.float64(), "ns", "median time of such a pass on the GPU", ""),
        ("decode_time_ns", pa.float64(), "ns", "time of all such passes", ""),
        ("decode_sequences", pa.float64(), "", "median sequences of such a pass", ""),
        ("decode_weight_bytes", pa.float64(), "byte",
         "weights that such a pass reads, where nine tenths of its products' time have shapes", ""),
        ("decode_weights_pct", pa.float64(), "%",
         "time of such a pass's products whose weights are known", "their time"),
        ("decode_kv_bytes", pa.float64(), "byte",
         "keys and values that such a pass reads, by attention's shapes or the annotated contexts",
         ""),
        ("decode_reads", pa.string(), "", "what such a pass must read, part by part", ""),
        ("decode_floor_ns", pa.float64(), "ns",
         "weights, and cache where known, over the nominal bandwidth", ""),
        ("decode_products_ns", pa.float64(), "ns", "median time of such a pass's products", ""),
        ("decode_attention_ns", pa.float64(), "ns",
         "median time of such a pass's attention, writing the cache left out", ""),
    )),
    name="serving_from",
)  # fmt: skip

# A pass decodes when every sequence asks for so few tokens (speculative decoding asks for several).
_DECODE_QUERIES = 4
_KNOWN_WEIGHTS = _KNOWN_CACHE = 0.9
# Traffic at more than the nominal bandwidth did not happen; so much is left to rounding.
_CREDIBLE = 1.05


# What writes keys and values into a paged cache: (keys, values, cache of keys, ..) or, latent,
# (keys and values as one, rotary keys, cache).
_CACHE_WRITER = regex.compile(r"^_C_cache_ops::(reshape_and_cache(_flash)?|concat_and_cache_mla)$")
# Attention that reads the end of a context only.
_WINDOW = regex.compile(r"Sliding|(?<![a-z])window|local_att", re.IGNORECASE)


def serving(
    variants: Variants, grouped: Groups, lines: Sequence[Timeline]
) -> Mapping[str, float | str]:
    """Values by the names of SERVING_COLUMNS; empty for a run that does not serve.

    grouped: the groups of the variants. lines: the run's timelines, whose steps are the passes.
    """
    passes = [pass_of(name) for name in variants.steps]
    if any(passes):
        return _from_passes(variants, grouped, lines, passes)
    return _from_attention(grouped)


def _from_passes(
    variants: Variants,
    grouped: Groups,
    lines: Sequence[Timeline],
    passes: Sequence[Pass | None],
) -> Mapping[str, float | str]:
    names, step = variants.steps, variants.by_step["step"]
    inside = step >= 0
    by_step = summed(step[inside], variants.by_step["time_ns"][inside], len(names))
    kinds = np.array([one.kind if one else "" for one in passes], dtype=object)
    total = float(by_step[kinds != ""].sum())
    if not total:
        return {}
    facts: dict[str, float | str] = {
        "serving_from": "the annotations of the passes",
    }
    prompts = float(sum(one.prompt_tokens for one in passes if one))
    made = float(sum(one.new_tokens for one in passes if one))
    if prompts + made > 0:
        facts["prompt_tokens_pct"] = prompts / (prompts + made) * 100
    for kind in ("prefill", "decode", "mixed"):
        facts[f"{kind}_pct"] = float(by_step[kinds == kind].sum()) / total * 100
    decoding = {name: one for name, one in zip(names, passes, strict=True)
                if one and one.kind == "decode"}  # fmt: skip
    mixed = {name: one for name, one in zip(names, passes, strict=True)
             if one and one.kind == "mixed"}  # fmt: skip
    spans = [one for line in lines for one in line.steps if one.name in decoding]
    steady = [one for one in spans if not one.warm_up] or spans
    if not steady:
        return facts
    facts["decode_steps"] = float(len(spans))
    facts["decode_step_ns"] = float(np.median([one.span_ns for one in steady]))
    facts["decode_time_ns"] = float(sum(one.span_ns for one in spans))
    facts["decode_sequences"] = float(np.median([decoding[one.name].sequences for one in steady]))
    facts.update(_mixed(mixed, lines, float(facts["decode_step_ns"])))
    facts.update(_reads(_Decoding.of(variants, passes, grouped)))
    return facts


def _mixed(
    mixed: Mapping[str, Pass], lines: Sequence[Timeline], alone_ns: float
) -> Mapping[str, float]:
    """How long the passes take that read prompts and make tokens, beside those that only make tokens
    (``alone_ns``)."""
    spans = [one for line in lines for one in line.steps if one.name in mixed]
    if not spans:
        return {}
    facts = {
        "mixed_steps": float(len(spans)),
        "mixed_step_ns": float(np.median([one.span_ns for one in spans])),
        "mixed_delay_ns": float(sum(max(one.span_ns - alone_ns, 0.0) for one in spans)),
    }
    prompts = float(np.median([mixed[one.name].prompt_tokens for one in spans]))
    return facts if np.isnan(prompts) else {**facts, "mixed_prompt_tokens": prompts}


@dataclass(frozen=True)
class _Decoding:
    """The launches of decoding passes, those of one variant in one pass together. turn: the pass of
    each, a rank's own; contexts: by pass; group: of each, and names of the groups; see: their facts."""

    turn: Ints
    contexts: Reals
    group: Ints
    launches: Reals
    time: Reals
    see: Facts
    names: tuple[str, ...]

    @staticmethod
    def of(variants: Variants, passes: Sequence[Pass | None], grouped: Groups) -> "_Decoding":
        decodes = np.array([one is not None and one.kind == "decode" for one in passes] + [False])
        group = grouped.of_row[variants.by_step["variant"]]
        at = np.flatnonzero(decodes[variants.by_step["step"]] & (group >= 0))
        mine = {name: one[at] for name, one in variants.by_step.items()}
        # Ranks give their passes the same names; each reads its own weights and cache.
        turn, _ = together(
            factorized(mine[name])[0] for name in ("source", "rank", "process_id", "device", "step")
        )
        keys = np.array([one.contexts if one else np.nan for one in passes])
        contexts = np.full(int(turn.max(initial=-1)) + 1, np.nan)
        contexts[turn] = keys[mine["step"]]
        return _Decoding(
            turn=turn,
            contexts=contexts,
            group=group[at],
            launches=mine["launches"].astype(np.float64),
            time=mine["time_ns"].astype(np.float64),
            see=grouped.facts.only(
                ("category", "role", "operator", "input_shapes", "input_dtypes", "model",
                 "model_shape", "model_bytes", "model_weight_bytes", "dram_peak_bytes_per_s")
            ),
            names=grouped.names,
        )  # fmt: skip

    def times(self, where: Mask) -> Reals:
        """Time of some launches in each pass."""
        return self._added(self.time, where)

    def summed(self, values: Reals, where: Mask) -> Reals:
        """Sums of one value a launch, over each pass."""
        return self._added(values * self.launches, where)

    def _added(self, values: Reals, where: Mask) -> Reals:
        count = len(self.contexts)
        return np.asarray(
            np.bincount(self.turn[where], weights=values[where], minlength=count), dtype=np.float64
        )

    def share(self, part: Mask, of: Mask) -> float:
        """Share of the time of some launches that others of them take, 0-1."""
        every = float(self.time[of].sum())
        return float(self.time[part & of].sum()) / every if every else float("nan")


def _reads(decoding: _Decoding) -> Mapping[str, float | str]:
    """What a decoding pass must read, and the least time of that; unknown where too many of its
    products have no shapes."""
    see, group = decoding.see, decoding.group
    products = (see.category == "gemm")[group]
    attends = ((see.category == "attention") & (see.role != "cache write"))[group]
    if not decoding.time[products].sum():
        return {}
    attention = decoding.times(attends)
    facts: dict[str, float | str] = {
        "decode_products_ns": float(np.median(decoding.times(products))),
        "decode_attention_ns": float(np.median(attention)),
    }
    peaks = np.unique(see.dram_peak_bytes_per_s[np.unique(group)])
    peak = float(peaks[0]) if len(peaks) == 1 else float("nan")
    cache = _cache(decoding, attends)
    # More than the bandwidth moves in attention's time was not read: a window, or a shared prefix.
    if cache is not None and not (cache > _CREDIBLE * peak * attention / 1e9).any():
        facts["decode_kv_bytes"] = float(np.median(cache))
    weight = np.where(products, see.model_weight_bytes[group], np.nan)
    share = decoding.share(~np.isnan(weight), products)
    facts["decode_weights_pct"] = share * 100
    if share < _KNOWN_WEIGHTS:
        return facts
    weights = float(np.median(decoding.summed(weight, ~np.isnan(weight))))
    facts["decode_weight_bytes"] = weights
    reads = f"weights {quantity(weights, 'byte')}"
    kept = facts.get("decode_kv_bytes")
    if isinstance(kept, float):
        reads += f", cache {quantity(kept, 'byte')}"
        weights += kept
    elif attends.any():
        reads += "; the cache, of unknown size, comes on top"
    facts["decode_reads"] = reads
    if not np.isnan(peak):
        facts["decode_floor_ns"] = weights / peak * 1e9
    return facts


def _cache(decoding: _Decoding, attends: Mask) -> Reals | None:
    """Keys and values that each decoding pass reads, bytes; None where that is not known."""
    if not attends.any():
        return None
    see, group = decoding.see, decoding.group
    moved = np.array(
        [
            _cached_share(*one)
            for one in zip(see.model, see.model_shape, see.input_dtypes, strict=True)
        ]
    ) * see.model_bytes  # fmt: skip
    # A second kernel of such a call, which combines parts of the result, reads no cache.
    calls = list(zip(see.operator, see.input_shapes, strict=True))
    modelled = {call for call, size in zip(calls, moved, strict=True) if not np.isnan(size)}
    covered = np.array([call in modelled for call in calls], dtype=bool)[group]
    if decoding.share(covered, attends) >= _KNOWN_CACHE:
        return decoding.summed(moved[group], attends & ~np.isnan(moved[group]))
    return _cache_of_contexts(decoding, attends)


def _cached_share(model: Any, shape: Any, dtypes: Any) -> float:
    """The part of an attention call's least traffic that is cached keys and values; NaN where its
    shapes show no cache."""
    sizes = sizes_of(shape)
    if model != "attention" or not 0 < sizes.get("Sq", 0) < sizes.get("Skv", 0):
        return float("nan")
    types = _listed(dtypes)
    wide = [element_bytes(one) if isinstance(one, str) else None for one in types[:2]]
    if len(wide) < 2 or not wide[0] or not wide[1]:
        return float("nan")
    depth = (sizes["D"], sizes.get("Dv", sizes["D"]))
    kept = wide[1] * sizes["KV"] * sizes["Skv"] * sum(depth)
    # Queries in, results out, which are 16 bit at least (operators.models).
    rest = sizes["H"] * sizes["Sq"] * (wide[0] * depth[0] + max(wide[0], 2.0) * depth[1])
    return kept / (kept + rest)


def _cache_of_contexts(decoding: _Decoding, attends: Mask) -> Reals | None:
    """By the annotated contexts, and what one token takes in the caches of all layers: what the
    pass writes for each of its tokens."""
    see, group = decoding.see, decoding.group
    windowed = any(_WINDOW.search(decoding.names[one]) for one in np.unique(group[attends]))
    if windowed or np.isnan(decoding.contexts).any():
        return None
    token = np.array(
        [
            _token_bytes(*one)
            for one in zip(see.operator, see.input_shapes, see.input_dtypes, strict=True)
        ]
    )  # fmt: skip
    writes = (see.role == "cache write")[group]
    if not writes.any() or np.isnan(token[group[writes]]).any():
        return None
    return decoding.contexts * decoding.summed(token[group], writes)


def _token_bytes(operator: Any, shapes: Any, dtypes: Any) -> float:
    """Bytes that one token takes in a layer's cache, from the operator that writes it there: its
    inputs are keys and values [tokens, ...] and the cache; NaN for others."""
    listed, types = _listed(shapes), _listed(dtypes)
    known = isinstance(operator, str) and _CACHE_WRITER.match(operator)
    if not known or min(len(listed), len(types)) < 3 or not isinstance(types[2], str):
        return float("nan")
    rows = [one for one in listed[:2] if isinstance(one, list) and len(one) > 1 and one[0]]
    size = element_bytes(types[2])
    if len(rows) < 2 or rows[0][0] != rows[1][0] or not size:
        return float("nan")
    return float(sum(prod(one[1:]) for one in rows) * size)


def _listed(text: Any) -> list[Any]:
    try:
        found = json.loads(text) if isinstance(text, str) else []
    except ValueError:
        return []
    return found if isinstance(found, list) else []


def _from_attention(grouped: Groups) -> Mapping[str, float | str]:
    """By the query lengths of attention, where nothing is trained."""
    see = grouped.facts.only(("model", "model_shape", "time_ns", "phase"))
    if one_of(see.phase, "forward", "backward", "optimizer").any():
        return {}
    attention = np.flatnonzero(one_of(see.model, "attention"))
    sizes = [sizes_of(see.model_shape[row]) for row in attention]
    cached = [("Sq" in size and size["Sq"] < size["Skv"]) for size in sizes]
    queries = np.array([size.get("Sq", 0) for size in sizes])
    time = np.nan_to_num(see.time_ns[attention])
    # An encoder attends to all of its input at once as well: only a cache shows that this serves.
    if not any(cached) or not time.sum():
        return {}
    decode = float(time[(queries <= _DECODE_QUERIES) & np.array(cached)].sum()) / time.sum() * 100
    return {
        "serving_from": "the query lengths of attention",
        "decode_pct": decode,
        "prefill_pct": 100 - decode,
        "mixed_pct": 0.0,
    }
