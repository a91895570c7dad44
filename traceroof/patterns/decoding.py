"""What decoding passes spend on reading weights and cache, where shapes are not recorded.

A replayed graph records no shapes, so neither the bytes nor the least time of its kernels are
known. Their share of the pass is, and what memory could deliver in that time: a reader who knows
the model holds that against its weights.
"""

import re
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core import kernel_names, regex
from traceroof.core.dictionary import Coded
from traceroof.core.kernel_table import Column
from traceroof.core.tracing import one_of
from traceroof.kernels.groups import Groups
from traceroof.kernels.variants import Variants
from traceroof.patterns.pass_annotations import pass_of

Reals = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

#: What a decoding pass reads, with the words for it.
PARTS: Mapping[str, str] = {
    "experts": "products of experts",
    "products": "other matrix products",
    "attention": "attention, writing the cache left out",
}

#: Columns of the facts of scope ``run`` that come from here; absent where nothing decodes.
DECODING_COLUMNS: tuple[Column, ...] = (
    Column("decode_gpu_ns", pa.float64(), "ns", "GPU time of decoding passes", "run"),
    *(
        Column(f"decode_{part}_{name}", pa.float64(), unit, meaning.format(what=what), "run", basis)
        for part, what in PARTS.items()
        for name, unit, meaning, basis in (
            ("unshaped_ns", "ns", "time in decoding passes without known shapes: {what}", ""),
            ("unshaped_pct", "%", "share of such passes without known shapes: {what}",
             "GPU time of decoding passes"),
            ("unshaped_launches", "launch", "launches of these: {what}", ""),
            ("readable_bytes", "byte",
             "what memory could deliver in that time of one pass, nominally: {what}", ""),
        )
    ),
    *(
        Column(f"decode_{part}_example", pa.string(), "", f"kernel with most of it: {what}", "run",
               source="name")
        for part, what in PARTS.items()
    ),
)  # fmt: skip

# Attention kernels that only decode: they take a few queries a sequence and split the keys.
_DECODES = regex.compile(
    r"paged_?attention_(ll4mi|v[12])|ForGen|BatchDecode|SingleDecode|split_?kv|flash_?decod|flash_?mla"
    r"|decode_(attention|attn|mla)|(attention|attn|mla)\w{0,20}_decode|fwd_(grouped_)?kernel_stage\d"
    r"|mla_a(8w8|16w16)_qh",
    re.IGNORECASE,
)
# Combining parts of the result is attention's helper, under a third of it.
_BY_NAMES = 0.7
_DECIDED_PCT = 90
_WIDTH = 48


def by_names(grouped: Groups) -> Mapping[str, float | str]:
    """Whether the run decodes, by the names of its attention kernels: where passes are not
    annotated and shapes not recorded. Empty where the names do not tell."""
    see = grouped.facts.only(("category", "role", "time_ns", "phase"))
    if one_of(see.phase, "forward", "backward", "optimizer").any():
        return {}
    attends = (see.category == "attention") & (see.role != "cache write") & (see.time_ns > 0)
    names = [grouped.names[at] for at in np.flatnonzero(attends)]
    time = see.time_ns[attends]
    decodes = np.array([_DECODES.search(name) is not None for name in names], dtype=bool)
    if not len(time) or float(time[decodes].sum()) < _BY_NAMES * float(time.sum()):
        return {}
    return {
        "serving_from": "the names of attention kernels",
        "decode_pct": 100.0,
        "prefill_pct": 0.0,
        "mixed_pct": 0.0,
    }


def decoding_entries(variants: Variants, served: Mapping[str, float | str]) -> Mask:
    """Which entries of ``by_step`` are of decoding passes: by the passes' names, else all of a run
    that decodes.

    served: what ``serving`` or ``by_names`` found.
    """
    step = variants.by_step["step"]
    passes = [pass_of(name) for name in variants.steps]
    if any(passes):
        decodes = [one is not None and one.kind == "decode" for one in passes]
        return np.array([*decodes, False], dtype=bool)[step]
    share = served.get("decode_pct")
    every = isinstance(share, float) and share >= _DECIDED_PCT
    return np.full(len(step), every, dtype=bool)


def parts(
    variants: Variants, grouped: Groups, role: Coded, served: Mapping[str, float | str]
) -> Mapping[str, float | str]:
    """Values by the names of DECODING_COLUMNS. role: of every variant."""
    inside = decoding_entries(variants, served)
    variant = variants.by_step["variant"]
    time, launches = (variants.by_step[one].astype(float) for one in ("time_ns", "launches"))
    every = float(time[inside].sum())
    if not every:
        return {}
    group = grouped.of_row[variant]
    see = grouped.facts.only(("category", "model", "dram_peak_bytes_per_s"))
    unshaped = np.array([not isinstance(one, str) for one in see.model] + [True], dtype=bool)[group]
    category = np.array([*see.category, None], dtype=object)[group]
    experts = role.is_("expert product")[variant]
    of_part = {
        "experts": (category == "gemm") & experts,
        "products": (category == "gemm") & ~experts,
        "attention": (category == "attention") & ~role.is_("cache write")[variant],
    }
    peaks = np.unique(see.dram_peak_bytes_per_s)
    steps = served.get("decode_steps")
    facts: dict[str, float | str] = {"decode_gpu_ns": every}
    for part, mask in of_part.items():
        here = mask & inside & unshaped & (group >= 0)
        taken = float(time[here].sum())
        if not taken:
            continue
        facts[f"decode_{part}_unshaped_ns"] = taken
        facts[f"decode_{part}_unshaped_pct"] = taken / every * 100
        facts[f"decode_{part}_unshaped_launches"] = float(launches[here].sum())
        facts[f"decode_{part}_example"] = _longest(grouped, group[here], time[here])
        if len(peaks) == 1 and not np.isnan(peaks[0]) and isinstance(steps, float) and steps:
            facts[f"decode_{part}_readable_bytes"] = taken / steps / 1e9 * float(peaks[0])
    return facts


def _longest(grouped: Groups, group: npt.NDArray[np.int64], time: Reals) -> str:
    by_group = np.bincount(group, weights=time, minlength=len(grouped))
    name = grouped.names[int(np.argmax(by_group))]
    return kernel_names.short_names((name,), _WIDTH)[name]
