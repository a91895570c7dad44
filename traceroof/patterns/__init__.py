"""What the time of a run is made of beyond its categories: roles, least times, the optimizer.

Roles (``roles.toml``) split categories further; the optimizer's step is found by its phase, which
the framework's annotation gives.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core import kernel_names, regex
from traceroof.core.dictionary import Coded, coded, factorized, together
from traceroof.core.kernel_table import Column, Source
from traceroof.core.text_search import Texts
from traceroof.kernels.groups import Groups
from traceroof.kernels.places import Members
from traceroof.kernels.utilisation import MODEL_LIMIT_PCT
from traceroof.kernels.variants import Variants
from traceroof.operators.closed_forms import ADAM_FLOPS, OPTIMIZERS
from traceroof.patterns import (
    decoding,
    elementwise,
    fusion,
    precision,
    roles,
    serving,
    summaries,
    unshaped,
)  # fmt: skip
from traceroof.patterns.launch_part import LaunchPart
from traceroof.timeline import Timeline

Reals = npt.NDArray[np.float64]

_REAL, _TEXT = pa.float64(), pa.string()


def slug(role: str) -> str:
    """A role as the name of a column: ``layout change`` is ``layout_change``."""
    return role.replace(" ", "_").replace("-", "_")


_SOURCES: Mapping[str, Source] = {
    "rank_by_time": "clock",
    "modelled_pct": "model",
    "roof_pct": "model",
    "optimizer_least_ns": "model",
}

#: Columns of the facts of scope ``category`` that come from here.
CATEGORY_COLUMNS: tuple[Column, ...] = tuple(
    Column(name, _TEXT if name.endswith("_from") else _REAL, unit, meaning, "category", basis,
           _SOURCES.get(name, "name" if name.endswith("_from") else "derived"))
    for name, unit, meaning, basis in (
        ("rank_by_time", "", "1 for the category with the most time", ""),
        ("modelled_pct", "%", "time of launches whose least time is known", "category's time"),
        ("roof_pct", "%", "least time at nominal peaks over the time taken, of those launches",
         "nominal peak"),
        ("spare_ns", "ns", "time above the least time at nominal peaks, of those launches", ""),
        ("products", "launch", "matrix products of the whole run", ""),
        ("matrix_products_pct", "%", "products of two matrices in the whole run", "GPU time"),
        ("matrix_products", "launch", "products of two matrices in the whole run", ""),
        ("conv_layout_pct", "%", "layout changes that convolutions launch, by operator or name",
         "GPU time"),
        ("conv_layout_per_conv", "", "layout changes for each kernel that convolves", ""),
        *(
            entry
            for role in roles.names()
            for entry in (
                (f"{slug(role)}_pct", "%", f"launches in the role: {role}", "GPU time"),
                (f"{slug(role)}_launches", "launch", f"launches in the role: {role}", ""),
                (f"{slug(role)}_from", "", f"what launches most of the time of: {role}", ""),
            )
        ),
    )
)  # fmt: skip

#: Columns of the facts of scope ``run`` that come from here.
RUN_COLUMNS: tuple[Column, ...] = (
    *(
        Column(name, _REAL, unit, meaning, "run", basis, _SOURCES.get(name, "derived"))
        for name, unit, meaning, basis in (
            ("gpu_time_ns", "ns", "time of all GPU activities, one by one", ""),
            ("sampling_pct", "%", "choosing the next tokens", "GPU time"),
            ("sampling_launches", "launch", "launches that choose the next tokens", ""),
            ("optimizer_pct", "%", "steps of the optimizer", "GPU time"),
            ("optimizer_time_ns", "ns", "GPU time of the optimizer's steps", ""),
            ("optimizer_steps", "", "steps in which the optimizer ran", ""),
            ("optimizer_launches", "launch", "launches of the optimizer's steps", ""),
            ("optimizer_plain_launches", "launch",
             "of these, launches that work on one tensor each", ""),
            ("optimizer_parameters", "", "parameters updated in one step, by shapes", ""),
            ("optimizer_least_ns", "ns",
             "all steps at nominal bandwidth, each state read and written once", ""),
        )
    ),
    *fusion.SEQUENCE_COLUMNS,
    *precision.PRECISION_COLUMNS,
    *elementwise.ELEMENTWISE_COLUMNS,
    *unshaped.UNSHAPED_COLUMNS,
    *serving.SERVING_COLUMNS,
    *decoding.DECODING_COLUMNS,
    *summaries.SUMMARY_COLUMNS,
)  # fmt: skip

# Which states an optimizer has shows in the operators that update the weights: operator -> FLOPs
# that its model counts for a parameter, with the bytes that one fused step moves for it
# (models.OPTIMIZERS: Adam in FP32, and in mixed precision too; SGD with momentum; SGD).
_UPDATES: tuple[tuple[Mapping[str, float], float], ...] = (
    (
        {
            "aten::addcdiv_": 3, "aten::_foreach_addcdiv_": 3,
            "aten::_fused_adam_": ADAM_FLOPS, "aten::_fused_adamw_": ADAM_FLOPS,
        },
        OPTIMIZERS["adam fp32"].bytes,
    ),
    ({"aten::mul_": 1, "aten::_foreach_mul_": 1}, OPTIMIZERS["sgd momentum fp32"].bytes),
    ({"aten::add_": 1, "aten::_foreach_add_": 1}, OPTIMIZERS["sgd fp32"].bytes),
)  # fmt: skip


@dataclass(frozen=True)
class Patterns:
    """by_category: category -> values by the names of CATEGORY_COLUMNS. of_run: values by the names
    of RUN_COLUMNS; what is unknown is absent. members: the launches that belong to each pattern of
    ``fusion.PATTERNS``."""

    by_category: Mapping[str, Mapping[str, float | str]] = field(default_factory=dict)
    of_run: Mapping[str, float | str] = field(default_factory=dict)
    members: Mapping[str, Members] = field(default_factory=dict)


def find_patterns(
    part: LaunchPart,
    categories: Sequence[str],
    role: Coded,
    grouped: Groups,
    lines: Sequence[Timeline] = (),
) -> Patterns:
    """part: the launches of a run. categories, role: of every variant (``roles.roles_of``). grouped:
    the groups of the variants, with their class and modelled work. lines: the run's timelines."""
    variants = part.variants
    time, launches = variants.time, variants.launches
    total = float(variants.sums.time_ns.sum())
    if not total:
        return Patterns()
    served = serving.serving(variants, grouped, lines) or decoding.by_names(grouped)
    # Where tokens are made, what chooses among so many entries chooses the next one.
    sampling = role.is_("sampling") | (role.is_("choice among many") & bool(served))
    of_run: dict[str, float | str] = {
        "gpu_time_ns": total,
        "sampling_pct": float(time[sampling].sum()) / total * 100,
        "sampling_launches": float(launches[sampling].sum()),
        **_optimizer(variants, role, grouped),
        **fusion.sequences(part.regions, grouped),
        **precision.precision(grouped, total),
        **elementwise.elementwise(grouped, total),
        **unshaped.unshaped(grouped, total),
        **summaries.summaries(variants, grouped, lines),
        **served,
        **(decoding.parts(variants, grouped, role, served) if served else {}),
    }
    by_category = _by_category(variants, np.asarray(categories, dtype=object), role, grouped)
    return Patterns(by_category, of_run, _members(part))


def _members(part: LaunchPart) -> Mapping[str, Members]:
    """The launches that belong to each pattern."""
    columns = part.regions.members
    found: dict[str, Members] = {}
    for number, name in enumerate(fusion.PATTERNS):
        at = columns["pattern"] == number
        if at.any():
            launches, time = (
                columns[one][at].astype(np.float64) for one in ("launches", "time_ns")
            )
            found[name] = columns["variant"][at], launches, time
    return found


def _by_category(
    variants: Variants, category: npt.NDArray[np.object_], role: Coded, grouped: Groups
) -> Mapping[str, Mapping[str, float | str]]:
    time, launches = variants.time, variants.launches
    codes, found_names = factorized(category)
    labels = [str(name) for name in found_names]
    places = {one: at for at, one in enumerate(role.texts)}
    # A number for each pair of category and role; the last role is none.
    place = role.spread(np.arange(len(places) + 1))
    pair = codes * (len(places) + 1) + place
    shape = (len(labels), len(places) + 1)
    time_of, launches_of = (
        np.bincount(pair, weights=values, minlength=shape[0] * shape[1]).reshape(shape)
        for values in (time, launches)
    )
    total = float(time_of.sum())
    convolving = _within_convolution(variants.kernels) & role.is_("layout change")
    moved_time, moved_launches = (
        np.bincount(codes[convolving], weights=values[convolving], minlength=len(labels))
        for values in (time, launches)
    )
    per_category = dict(zip(labels, launches_of.sum(axis=1).tolist(), strict=True))
    own, products = per_category.get("conv", 0.0), per_category.get("gemm", 0.0)
    launchers = _Launchers(variants.kernels)
    matrix_time, matrix_launches = _products_of_matrices(grouped)
    ranked = sorted(range(len(labels)), key=lambda at: (-time_of[at].sum(), labels[at]))
    found: dict[str, Mapping[str, float | str]] = {}
    for rank, at in enumerate(ranked, start=1):
        values: dict[str, float | str] = {
            "rank_by_time": float(rank),
            "products": products,
            "matrix_products_pct": matrix_time / total * 100 if total else np.nan,
            "matrix_products": matrix_launches,
            "conv_layout_pct": float(moved_time[at]) / total * 100,
            "conv_layout_per_conv": float(moved_launches[at]) / own if own else np.nan,
            **_under_the_roof(labels[at], grouped),
        }
        for one, column in places.items():
            values[f"{slug(one)}_pct"] = float(time_of[at, column]) / total * 100
            values[f"{slug(one)}_launches"] = float(launches_of[at, column])
            if launches_of[at, column]:
                here = np.flatnonzero(pair == at * (len(places) + 1) + column)
                values[f"{slug(one)}_from"] = launchers.most(here, time)
        found[labels[at]] = values
    return found


def _products_of_matrices(grouped: Groups) -> tuple[float, float]:
    """Time in ns and launches of the products of two matrices: not of those with a vector, as their
    names say."""
    see = grouped.facts.only(("category", "time_ns", "launches", "name_no_matrix"))
    mine = (see.category == "gemm") & (see.name_no_matrix != 1)
    return float(np.nansum(see.time_ns[mine])), float(np.nansum(see.launches[mine]))


def _under_the_roof(category: str, grouped: Groups) -> Mapping[str, float]:
    """How far the launches of a category with a credible model are from their least time; unknown
    where they take less than half of the category's time, for then they do not speak for it."""
    see = grouped.facts.only(
        ("category", "time_ns", "roof_pct", "model_flop_pct", "model_dram_pct")
    )
    # A model above the peak is wrong for this launch (``groups``): it does not count as known.
    plausible = ~np.isnan(see.roof_pct) & ~(
        np.fmax(see.model_flop_pct, see.model_dram_pct) > MODEL_LIMIT_PCT
    )
    groups = (see.category == category) & (see.time_ns > 0)
    known = groups & plausible
    taken = float(see.time_ns[known].sum())
    least = float((see.time_ns * np.minimum(see.roof_pct, 100) / 100)[known].sum())
    whole = float(see.time_ns[groups].sum())
    speaks = taken > 0 and 2 * taken >= whole
    return {
        "modelled_pct": taken / whole * 100 if whole else np.nan,
        "roof_pct": least / taken * 100 if speaks else np.nan,
        "spare_ns": taken - least if speaks else np.nan,
    }


class _Launchers:
    """What launched each row, in words: its operators, innermost last, else its kernel."""

    def __init__(self, kernels: pa.Table) -> None:
        self._columns = []
        for name, word in (("operator_path", _last_operators), ("kernel_name", _function)):
            column = coded(kernels[name])
            codes = np.where(column.codes < 0, len(column.texts), column.codes)
            self._columns.append((codes, column.texts, word))

    def most(self, here: npt.NDArray[np.int64], time: Reals) -> str:
        """What launched most of the time of some rows."""
        for codes, texts, word in self._columns:
            weight = np.bincount(codes[here], weights=time[here], minlength=len(texts) + 1)
            if texts and 2 * weight[-1] <= weight.sum():
                by_word: dict[str, float] = {}
                for at in np.flatnonzero(weight[:-1]).tolist():
                    text = word(str(texts[at]))
                    by_word[text] = by_word.get(text, 0.0) + float(weight[at])
                return max(by_word, key=lambda text: by_word[text], default="")
        return ""


def _last_operators(path: str) -> str:
    parts = path.split(" > ")
    # An operator that calls itself is said once.
    apart = [one for one, before in zip(parts, ["", *parts], strict=False) if one != before]
    return " > ".join(apart[-3:])


def _function(name: str) -> str:
    return kernel_names.function(name).partition("<")[0][:60]


# Channels first to channels last and back: nobody but convolutions asks for it.
_CHANNELS = regex.compile(r"nchw_?(to|2)_?(nhwc|cnhw)|nhwc_?(to|2)_?nchw", re.IGNORECASE)


def _within_convolution(kernels: pa.Table) -> npt.NDArray[np.bool_]:
    """Rows that an operator of a convolution launched, or whose name says that they did."""
    operators, names = coded(kernels["operator"]), coded(kernels["kernel_name"])
    named = ["conv" in name.lower() and "convert" not in name.lower() for name in operators.texts]
    channels = Texts(names.texts).found(_CHANNELS)
    by_operator = operators.spread(np.array([*named, False], dtype=bool))
    return np.asarray(by_operator | names.spread(np.array([*channels, False], dtype=bool)))


def _optimizer(variants: Variants, role: Coded, grouped: Groups) -> dict[str, float | str]:
    """The launches of the optimizer's steps; zeroing gradients and collectives are none of them."""
    kernels, time, launches = variants.kernels, variants.time, variants.launches
    phase = coded(kernels["phase"]).is_("optimizer")
    see = grouped.facts.only(("category", "model_flops", "dram_peak_bytes_per_s"))
    group = grouped.of_row
    stepping = phase & (group >= 0) & ~role.is_("gradient reset")
    if not stepping.any():
        return {}
    stepping &= ~(see.category == "communication")[group]
    if not stepping.any():
        return {}
    # The same step of another file or process is that of another rank.
    mine = stepping[variants.by_step["variant"]]
    _, first = together(
        factorized(variants.by_step[name][mine])[0] for name in ("source", "process_id", "step")
    )
    steps = len(first)
    named = coded(kernels["operator"])
    operators, operator = [*named.texts, ""], named.codes
    of_list = np.array(["foreach" in text or "fused" in text for text in operators], dtype=bool)
    several = np.array(["multi_tensor" in name for name in grouped.names], dtype=bool)
    plain = stepping & ~(several[group] | of_list[operator])
    facts: dict[str, float | str] = {
        "optimizer_pct": float(time[stepping].sum()) / float(time.sum()) * 100,
        "optimizer_time_ns": float(time[stepping].sum()),
        "optimizer_steps": float(steps),
        "optimizer_launches": float(launches[stepping].sum()),
        "optimizer_plain_launches": float(launches[plain].sum()),
    }
    for updates, moved in _UPDATES:
        flops = np.array([updates.get(text, np.nan) for text in operators], dtype=np.float64)
        updating = stepping & ~np.isnan(flops[operator])
        if not updating.any():
            continue
        # The row's own part of its call, which may be several launches.
        count = see.model_flops[group[updating]] / flops[operator[updating]] * launches[updating]
        if not np.isnan(count).any():
            facts["optimizer_parameters"] = float(count.sum()) / steps
            least = float((count * moved / see.dram_peak_bytes_per_s[group[updating]]).sum()) * 1e9
            if not np.isnan(least):
                facts["optimizer_least_ns"] = least
        break
    return facts
