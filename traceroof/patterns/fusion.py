"""What kernels do one after another: work that runs as several launches and could be one.

The launches of one stream, in the order in which they started, are searched for a few patterns.
No launch belongs to two of them; the earlier in this list wins:

attention   two matrix products with a softmax between them (and what scales, masks, casts or drops
            its scores): the score matrix goes through memory. All of it is the region.
softmax     a softmax in single steps: a maximum, the exponential, a sum, a division.
norm        a normalisation in single steps: a reduction, at most three launches on its root, and
            the element-wise launches around both; or an addition right before a normalisation.
epilogue    at most two element-wise launches right behind a matrix product, as large as its
            result.
chain       two or more different element-wise launches in a row, of one size (10 %), each of 16,384
            elements or more. Compiled kernels are no part: the compiler has fused what it could.
bias        an addition that a convolution made for its bias, with a batch norm behind it.

Apart from these, loops are found: ``serial`` is one kernel on one grid ten times or more in a row,
each launch of 100 µs at most; ``loop`` is a pattern of up to four launches, an indexing operator
among them, ten times or more in a row.

Sizes are those of the operators' shapes (``model_shape``). Where there are none, launches with the
same grid count as of one size. What a fused kernel would still take: the bytes that enter and leave
the region at the peak of the device's bandwidth, ``least``, where sizes and device are known;
otherwise the longest of the launches, ``kept``, since it moves no more than the fused one. The steps
of an optimizer are left out: ``optimizer-single-tensor`` judges them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from traceroof.core.kernel_table import Column
from traceroof.hardware.roofline import T_FLOOR_NS
from traceroof.kernels.groups import Groups
from traceroof.patterns.fusion_facts import (
    Valued,
    Worth,
    sequence_facts,
)
from traceroof.patterns.launch_order import SAME_SIZE, Launches, LaunchKinds, Reals, numbers
from traceroof.patterns.regions import (
    NO_REGIONS,
    THIRDS,
    Found,
    Ints,
    Mask,
    Regions,
    disjoint,
    regions_of,
)
from traceroof.patterns.repeats import loops, serial

PATTERNS: Mapping[str, str] = {
    "attention": "attention in single steps",
    "softmax": "softmax in single steps",
    "norm": "normalisation in single steps",
    "epilogue": "element-wise work behind a matrix product",
    "chain": "element-wise work in a row",
    "bias": "bias of a convolution before a batch norm",
    "serial": "the same launch in a row",
    "loop": "indexing in a loop",
}

_FACTS = (
    ("regions", "", "times that it occurs: {what}", ""),
    ("launches", "launch", "launches in it: {what}", ""),
    ("time_ns", "ns", "GPU time in it: {what}", ""),
    ("pct", "%", "share of all GPU time: {what}", "GPU time"),
    ("least_ns", "ns", "time at peak bandwidth (attention: peak FLOP rate) when fused: {what}", ""),
    ("kept_ns", "ns", "measured time that would stay: {what}", ""),
    ("gap_ns", "ns", "idle time for its launches: {what}", ""),
    ("known_pct", "%", "part of its time with known sizes: {what}", "time of the pattern"),
)

#: Columns of the facts of scope ``run`` that come from here; absent where nothing was found.
SEQUENCE_COLUMNS: tuple[Column, ...] = tuple(
    Column(f"{pattern}_{name}", pa.float64(), unit, meaning.format(what=what), "run", basis,
           "model" if name == "least_ns" else "derived")
    for pattern, what in PATTERNS.items()
    for name, unit, meaning, basis in _FACTS
) + tuple(
    Column(f"{pattern}_example", pa.string(), "", f"the longest in all: {what}", "run",
           source="name")
    for pattern, what in PATTERNS.items()
)  # fmt: skip

_REACH = 6  # launches between a softmax and its products

_ROOT = frozenset({"rsqrt", "sqrt"})
_BEFORE_REDUCTION = frozenset({"pow", "square", "mul", "copy_", "sub", "mean", "sum"})
_AFTER_ROOT = frozenset({"mul", "mul_", "div", "copy_", "add", "add_", "type_as", "_to_copy"})
_AVERAGES = frozenset({"mean", "var", "var_mean", "std", "sum", "linalg_vector_norm", "norm"})
_MAXIMA = frozenset({"amax", "max"})
_SUMS = frozenset({"sum"})
_DIVISIONS = frozenset({"div", "div_", "true_divide"})
_ADDITIONS = frozenset({"add", "add_"})
_EPILOGUES = frozenset(
    {"add", "add_", "mul", "mul_", "div", "div_", "gelu", "silu", "silu_", "relu", "relu_",
     "clamp", "clamp_min", "clamp_min_", "tanh", "sigmoid", "sigmoid_", "threshold", "leaky_relu",
     "leaky_relu_", "native_dropout", "hardtanh", "gelu_backward", "threshold_backward",
     "silu_backward", "tanh_backward"}
)  # fmt: skip


def regions(
    kernels: pa.Table, variant: Ints, kernel: Ints, first: Ints, kinds: LaunchKinds
) -> Regions:
    """The regions of the rows of one file; none where start times are unknown.

    variant: of each row. kernel: of each variant, -1 for copies and fills. first: variant of each
    kernel. kinds: of the kernels.
    """
    rows = Launches.of(kernels, kernel[variant], kinds)
    if not len(rows.at):
        return NO_REGIONS
    free = ~rows.get(rows.groups.optimizer)
    found = [kind.find(rows, free) for kind in KINDS]
    names = list(PATTERNS)
    counted = [names.index(kind.pattern) for kind in KINDS]
    return regions_of(rows, found, counted, variant, first[rows.group])


def sequences(found: Regions, grouped: Groups) -> Mapping[str, float | str]:
    """What regions there are, by the names of SEQUENCE_COLUMNS.

    grouped: the groups of the variants, with their modelled work.
    """
    if not len(found.sequences["kind"]):
        return {}
    worth = Worth.of(found, grouped)
    least, known = np.zeros(len(worth), dtype=np.float64), np.ones(len(worth), dtype=bool)
    kept = np.ones(len(worth), dtype=bool)
    for number, kind in enumerate(KINDS):
        at = np.flatnonzero(found.sequences["kind"] == number)
        if kind.least is not None and len(at):
            value = kind.least(worth, at)
            known[at] = ~np.isnan(value)
            least[at] = np.nan_to_num(value)
            kept[at] = ~known[at]
    facts: dict[str, float | str] = {}
    for pattern in PATTERNS:
        mine = [number for number, kind in enumerate(KINDS) if kind.pattern == pattern]
        facts |= sequence_facts(pattern, found, mine, worth, Valued(least, kept, known))
    return facts


def _attention(rows: Launches, free: Mask) -> Found:
    softmax = np.flatnonzero(rows.kind("softmax") & free)
    if not len(softmax):
        return Found.none()
    product, passing = rows.kind("product"), rows.kind("stream", "reduction", "compiled")
    before = _nearest(rows, softmax, product, passing, -1)
    after = _nearest(rows, softmax, product, passing, 1)
    some = (before >= 0) & (after >= 0)
    before, after, softmax = before[some], after[some], softmax[some]
    groups, group = rows.groups, rows.group
    # A gate is a softmax between products too; its products are not batched, attention's are.
    batched = (groups.batched[group[before]] != 1) & (groups.batched[group[after]] != 1)
    scores, result = groups.elements[group[softmax]], groups.elements[group[before]]
    alike = ~(np.abs(scores - result) > SAME_SIZE * np.maximum(scores, result))
    before, after = before[batched & alike], after[batched & alike]
    # Two softmaxes between the same products, or one product shared by two regions: keep the first.
    apart = np.append(True, before[1:] > after[:-1]) if len(before) else np.zeros(0, dtype=bool)
    before, after = before[apart], after[apart]
    rows.take(before, after)
    return Found.of(before, after, THIRDS * (rows.time[before] + rows.time[after]))


def _least_of_attention(worth: "Worth", at: Ints) -> Reals:
    """All of it on chip: what the products move without the scores, or their arithmetic."""
    costs, before, after = worth.costs, worth.first[at], worth.last[at]
    scores = costs.out[before]
    moved = (costs.bytes[before] + costs.bytes[after] - 2 * scores).clip(min=0)
    by_bytes, by_flops = (
        moved / costs.bandwidth[before],
        costs.flop_ns[before] + costs.flop_ns[after],
    )
    return np.asarray(np.maximum(np.maximum(by_bytes, by_flops), T_FLOOR_NS))


def _nearest(rows: Launches, at: Ints, wanted: Mask, passing: Mask, way: int) -> Ints:
    """The nearest wanted launch before or behind each, past none but passing ones; -1 if none."""
    found = np.full(len(at), -1, dtype=np.int64)
    open_ = np.ones(len(at), dtype=bool)
    for step in range(1, _REACH + 1):
        place = at + way * step
        inside = (place >= 0) & (place < len(rows.at))
        place = np.clip(place, 0, len(rows.at) - 1)
        inside &= rows.lane[place] == rows.lane[at]
        hit = open_ & inside & wanted[place]
        found[hit] = place[hit]
        open_ &= inside & ~hit & passing[place]
    return found


def _softmaxes(rows: Launches, free: Mask) -> Found:
    free = free & ~rows.used
    peak = rows.operation(_MAXIMA) & rows.kind("reduction") & free
    total = rows.operation(_SUMS) & rows.kind("reduction") & free
    divided = rows.operation(_DIVISIONS) & rows.kind("stream") & free
    exponential = rows.operation(frozenset({"exp", "exp_"})) & rows.kind("stream") & free
    # maximum, subtraction, exponential, sum, division; a compiler may have merged the first two.
    whole = exponential & rows.shifted(total, 1) & rows.shifted(divided, 2)
    early = whole & rows.shifted(peak, -2)
    first = np.flatnonzero(early | (whole & rows.shifted(peak, -1)))
    last = first + 2
    first = np.where(early[first], first - 2, first - 1)
    apart = disjoint(first, last)
    first, last = first[apart], last[apart]
    rows.take(first, last)
    return Found.of(first, last, THIRDS * rows.longest(first, last))


def _norms(rows: Launches, free: Mask) -> Found:
    free = free & ~rows.used
    root = np.flatnonzero(rows.operation(_ROOT) & rows.kind("stream") & free)
    average = rows.operation(_AVERAGES) & rows.kind("reduction") & free
    anchored = np.full(len(root), -1, dtype=np.int64)
    for step in range(3, 0, -1):
        anchored = np.where(rows.shifted(average, -step)[root], root - step, anchored)
    root, reduction = root[anchored >= 0], anchored[anchored >= 0]
    element_wise = (rows.kind("stream") | average) & free
    first, last = reduction.copy(), root.copy()
    before = element_wise & rows.operation(_BEFORE_REDUCTION)
    behind = element_wise & rows.operation(_AFTER_ROOT)
    for edge, allowed, way, reach in ((first, before, -1, 3), (last, behind, 1, 4)):
        open_ = np.ones(len(root), dtype=bool)
        for _ in range(reach):
            place = edge + way
            inside = (place >= 0) & (place < len(rows.at))
            place = np.clip(place, 0, len(rows.at) - 1)
            open_ &= inside & (rows.lane[place] == rows.lane[root]) & allowed[place]
            open_ &= _not_smaller(rows, place, reduction)
            edge[open_] = place[open_]
    whole = disjoint(first, last)
    first, last = first[whole], last[whole]
    rows.take(first, last)
    return Found.of(first, last, THIRDS * rows.longest(first, last))


def _added_norms(rows: Launches, free: Mask) -> Found:
    """Additions whose sum a normalisation reads at once: the sum is kept, but not read again."""
    norm = rows.kind("norm") & free
    added = np.flatnonzero(
        rows.operation(_ADDITIONS) & rows.kind("stream") & free & ~rows.used & rows.shifted(norm, 1)
    )
    added = added[rows.same_size(added, added + 1)]
    rows.take(added, added + 1)
    # Of three tensors that the addition moves, the fused kernel moves two besides its own two.
    return Found.of(added, added + 1, THIRDS * rows.time[added + 1] + 2 * rows.time[added])


def _least_of_added_norms(worth: "Worth", at: Ints) -> Reals:
    costs, added, norm = worth.costs, worth.first[at], worth.last[at]
    moved = costs.bytes[added] + costs.bytes[norm] - costs.out[added]
    return np.asarray(np.maximum(moved / costs.bandwidth[added], T_FLOOR_NS))


def _not_smaller(rows: Launches, place: Ints, reduction: Ints) -> Mask:
    """Whether launches are as large as what a reduction reads, or nobody knows."""
    elements = rows.groups.elements[rows.group]
    return np.asarray(~(elements[place] < (1 - SAME_SIZE) * elements[reduction]))


def _biases(rows: Launches, free: Mask) -> Found:
    added = rows.get(rows.groups.convolution_bias) & free & ~rows.used
    at = np.flatnonzero(added & rows.shifted(rows.kind("batch norm"), 1))
    rows.take(at, at)
    return Found.of(at, at)


def _epilogues(rows: Launches, free: Mask) -> Found:
    element_wise = rows.kind("stream") & rows.operation(_EPILOGUES) & free & ~rows.used
    first = np.flatnonzero(element_wise & rows.shifted(rows.kind("product"), -1))
    elements = rows.groups.elements[rows.group]
    first = first[~np.isnan(elements[first]) & ~np.isnan(elements[first - 1])]
    first = first[rows.same_size(first, first - 1)]
    last = first.copy()
    place = np.minimum(first + 1, len(rows.at) - 1)
    more = element_wise[place] & (rows.lane[place] == rows.lane[first]) & (place > first)
    more &= rows.same_size(first, place)
    last[more] = place[more]
    whole = disjoint(first, last)
    first, last = first[whole], last[whole]
    rows.take(first, last)
    return Found.of(first, last)


def _least_of_epilogues(worth: "Worth", at: Ints) -> Reals:
    """The product's result is neither written before nor read again; other operands still are."""
    costs = worth.costs
    moved, unread = worth.summed(costs.bytes, at), worth.summed(2 * costs.out, at)
    return np.asarray(np.maximum(moved - unread, 0) / costs.bandwidth[worth.first[at]])


def _chains(rows: Launches, free: Mask) -> Found:
    member = rows.kind("stream") & free & ~rows.used
    if not len(member):
        return Found.none()
    place = np.arange(1, len(rows.at))
    linked = np.zeros(len(rows.at), dtype=bool)
    operation = numbers(rows.groups.operation)[rows.group]
    # The same operation again and again works through separate tensors.
    linked[1:] = (
        member[1:]
        & member[:-1]
        & (rows.lane[1:] == rows.lane[:-1])
        & (operation[1:] != operation[:-1])
        & rows.same_size(place - 1, place)
    )
    head = np.flatnonzero(~linked & np.append(linked[1:], False))
    tail = np.flatnonzero(linked & ~np.append(linked[1:], False))
    rows.take(head, tail)
    return Found.of(head, tail, THIRDS * rows.longest(head, tail))


def _least_of_rows(worth: "Worth", at: Ints) -> Reals:
    """Everything enters through the first launch, as rows of a norm do, however often they are read
    inside; what enters and leaves the region must move."""
    costs = worth.costs
    known = worth.summed(costs.bytes + costs.out, at) * 0
    least = costs.bytes[worth.first[at]] - costs.out[worth.first[at]] + costs.out[worth.last[at]]
    least = least / costs.bandwidth[worth.first[at]]
    return np.asarray(np.maximum(least, T_FLOOR_NS) + known)


def _least_of_chains(worth: "Worth", at: Ints) -> Reals:
    """Each launch reads what the one before wrote: only what enters and leaves must move."""
    costs = worth.costs
    ends = costs.bytes[worth.first[at]] - costs.out[worth.first[at]] + costs.out[worth.last[at]]
    between = 2 * (worth.summed(costs.out, at) - costs.out[worth.last[at]])
    least = np.maximum(worth.summed(costs.bytes, at) - between, ends)
    return np.asarray(np.maximum(least / costs.bandwidth[worth.first[at]], T_FLOOR_NS))


@dataclass(frozen=True)
class Kind:
    """One kind of region: what it is counted as, how it is found among the launches that no other
    has taken, and its least time, fused, ns (NaN where unknown); None: what it keeps is known."""

    pattern: str
    find: Callable[[Launches, Mask], Found]
    least: "Callable[[Worth, Ints], Reals] | None" = None


#: The kinds of regions, those that win first.
KINDS: tuple[Kind, ...] = (
    Kind("attention", _attention, _least_of_attention),
    Kind("softmax", _softmaxes, _least_of_rows),
    Kind("norm", _norms, _least_of_rows),
    Kind("norm", _added_norms, _least_of_added_norms),
    Kind("bias", _biases),
    Kind("epilogue", _epilogues, _least_of_epilogues),
    Kind("chain", _chains, _least_of_chains),
    Kind("serial", serial),
    Kind("loop", loops),
)
