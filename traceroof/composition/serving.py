"""What a serving run does: prefill or decode, and what one decoded token costs at least.

Engines annotate each pass over the model with the requests in it. vLLM writes
``execute_context_1(888)_generation_16(16)`` (newer versions count query and key tokens inside the
brackets: ``sq888sk9000...``), older versions ``execute_new_1_cached_16``, SGLang
``step[DECODE bs=16]``. Where no pass is annotated, the query lengths of attention decide.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.coding import Coded, coded
from traceroof.composition.launch_order import sizes_of
from traceroof.groups import Groups
from traceroof.table import Column, as_reals
from traceroof.timeline import Timeline

Reals = npt.NDArray[np.float64]

#: Columns of the facts of scope ``run`` that come from here; absent where nothing is served.
SERVING_COLUMNS: tuple[Column, ...] = tuple(
    Column(name, kind, unit, meaning, "run", basis)
    for name, kind, unit, meaning, basis in (
        ("serving_from", pa.string(), "", "what tells prefill from decode", ""),
        ("prefill_pct", pa.float64(), "%", "GPU time of passes that only read prompts", "passes"),
        ("decode_pct", pa.float64(), "%", "GPU time of passes that only make tokens", "passes"),
        ("mixed_pct", pa.float64(), "%", "GPU time of passes that do both", "passes"),
        ("prompt_tokens_pct", pa.float64(), "%", "prompt tokens among those of all passes",
         "tokens"),
        ("decode_steps", pa.float64(), "", "passes that only make tokens", ""),
        ("decode_step_ns", pa.float64(), "ns", "median time of such a pass on the GPU", ""),
        ("decode_time_ns", pa.float64(), "ns", "time of all such passes", ""),
        ("decode_sequences", pa.float64(), "", "median sequences of such a pass", ""),
        ("decode_weight_bytes", pa.float64(), "byte",
         "weights that such a pass reads, where nine tenths of its products' time have shapes", ""),
        ("decode_weights_pct", pa.float64(), "%",
         "time of such a pass's products whose weights are known", "their time"),
        ("decode_floor_ns", pa.float64(), "ns", "these weights over the nominal bandwidth", ""),
    )
)  # fmt: skip

# A pass decodes when every sequence asks for so few tokens (speculative decoding asks for several).
_DECODE_QUERIES = 4
_KNOWN_WEIGHTS = 0.9

_PASS = re.compile(r"^execute_(?:\d+_)?context_(\d+)\(([^)]*)\)_generation_(\d+)\(([^)]*)\)")
_OLD_PASS = re.compile(r"^execute_new_(\d+)_cached_(\d+)")
_SGLANG = re.compile(r"^step\[(\w+)(?: bs=(\d+))?(?: toks=(\d+))?")
_QUERY_TOKENS = re.compile(r"^(?:sq)?(\d+)")


@dataclass(frozen=True)
class Pass:
    """The requests in one pass: prompts read, sequences continued, and their tokens (NaN where the
    annotation does not count them)."""

    prompts: int
    sequences: int
    prompt_tokens: float
    new_tokens: float

    @property
    def kind(self) -> str:
        """ "prefill", "decode", "mixed", or "" for an empty pass."""
        if self.prompts:
            return "mixed" if self.sequences else "prefill"
        return "decode" if self.sequences else ""


@lru_cache(maxsize=65536)
def pass_of(name: str) -> Pass | None:
    """What the annotation of a pass says; None for any other name."""
    if found := _PASS.match(name):
        prompts, sequences = int(found[1]), int(found[3])
        return Pass(prompts, sequences, _tokens(found[2]), _tokens(found[4]))
    if found := _OLD_PASS.match(name):
        return Pass(int(found[1]), int(found[2]), float("nan"), float(found[2]))
    if found := _SGLANG.match(name):
        count = int(found[2] or 1)
        tokens = float(found[3]) if found[3] else float("nan")
        match found[1].upper():
            case "DECODE" | "TARGET_VERIFY":
                return Pass(0, count, 0.0, float(count))
            case "EXTEND" | "PREFILL" | "SPLIT_PREFILL":
                return Pass(count, 0, tokens, 0.0)
            case "MIXED":
                return Pass(1, count, tokens, float(count))
    return None


def _tokens(text: str) -> float:
    """Query tokens in the brackets: 888 of ``888_788544`` and of ``sq888sk9000sqsq..``."""
    found = _QUERY_TOKENS.match(text)
    return float(found[1]) if found else float("nan")


def serving(
    kernels: pa.Table, grouped: Groups, lines: Sequence[Timeline]
) -> Mapping[str, float | str]:
    """Values by the names of SERVING_COLUMNS; empty for a run that does not serve.

    grouped: the groups of the table's kernels. lines: the run's timelines, whose steps are the
    passes.
    """
    named = coded(kernels["step"])
    passes = [pass_of(name) for name in named.texts]
    if any(passes):
        return _from_passes(kernels, grouped, lines, named, passes)
    return _from_attention(grouped)


def _from_passes(
    kernels: pa.Table,
    grouped: Groups,
    lines: Sequence[Timeline],
    named: Coded,
    passes: Sequence[Pass | None],
) -> Mapping[str, float | str]:
    step, names = named.codes, named.texts
    time = as_reals(kernels["launch_count"]) * np.nan_to_num(as_reals(kernels["duration_ns"]))
    by_step = np.bincount(step[step >= 0], weights=time[step >= 0], minlength=len(names))
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
    spans = [one for line in lines for one in line.steps if one.name in decoding]
    steady = [one for one in spans if not one.warm_up] or spans
    if not steady:
        return facts
    facts["decode_steps"] = float(len(spans))
    facts["decode_step_ns"] = float(np.median([one.span_ns for one in steady]))
    facts["decode_time_ns"] = float(sum(one.span_ns for one in spans))
    facts["decode_sequences"] = float(np.median([decoding[one.name].sequences for one in steady]))
    facts.update(_weights(step, np.flatnonzero(kinds == "decode"), time, grouped))
    return facts


def _weights(
    step: npt.NDArray[np.int32], decoding: npt.NDArray[np.int64], time: Reals, grouped: Groups
) -> Mapping[str, float]:
    """The weights that a decoding pass reads; unknown where too many of its products are."""
    see = grouped.facts.only(("category", "model_weight_bytes", "dram_peak_bytes_per_s"))
    group = grouped.of_row
    inside = (group >= 0) & np.isin(step, decoding)
    products = inside & (see.category == "gemm")[group]
    weight = np.where(products, see.model_weight_bytes[group], np.nan)
    known = ~np.isnan(weight)
    every = float(time[products].sum())
    if not every:
        return {}
    share = float(time[known].sum()) / every
    facts = {"decode_weights_pct": share * 100}
    if share < _KNOWN_WEIGHTS:
        return facts
    by_step = np.bincount(step[known], weights=weight[known], minlength=int(step.max()) + 1)
    facts["decode_weight_bytes"] = float(np.median(by_step[decoding]))
    peaks = see.dram_peak_bytes_per_s[np.unique(group[inside])]
    if len(set(peaks)) == 1 and not np.isnan(peaks[0]):
        facts["decode_floor_ns"] = facts["decode_weight_bytes"] / float(peaks[0]) * 1e9
    return facts


def _from_attention(grouped: Groups) -> Mapping[str, float | str]:
    """By the query lengths of attention, where nothing is trained."""
    see = grouped.facts.only(("model", "model_shape", "time_ns", "phase"))
    if any(phase in ("forward", "backward", "optimizer") for phase in see.phase):
        return {}
    attention = np.flatnonzero(see.model == "attention")
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
