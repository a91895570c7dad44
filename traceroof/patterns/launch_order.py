"""The launches of each stream in the order in which they ran, and what is known about each.

``sequences`` searches them for patterns. Facts about a launch are those of its kernel group: equal
launches are described once.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core import kernel_names, regex
from traceroof.core.dictionary import factorized, together
from traceroof.core.facts import Facts, unknown
from traceroof.core.kernel_table import UNKNOWN, whole
from traceroof.core.text_search import Texts
from traceroof.core.tracing import one_of
from traceroof.core.words import words
from traceroof.kernels.groups import Groups
from traceroof.operators.operands import element_bytes
from traceroof.timeline.idle import LAUNCH_LATENCY_NS, PAUSE_NS

Reals = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# Two launches are of one size within this share. Below so many elements, or blocks, launching
# takes longer than the work.
SAME_SIZE = 0.10
_LEAST_ELEMENTS = 16_384
_LEAST_BLOCKS = 32

# What an ATen kernel does, by the functor in its name, where the operator is not known.
_BY_KERNEL: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (regex.compile(pattern), operation)
    for pattern, operation in (
        (r"rsqrt_kernel", "rsqrt"),
        (r"(?<!r)sqrt_kernel", "sqrt"),
        (r"pow_tensor|square_kernel", "pow"),
        (r"MeanOps", "mean"),
        (r"WelfordOps|var_mean", "var"),
        (r"MulFunctor|mul_kernel", "mul"),
        (r"CUDAFunctor_add|CUDAFunctorOnSelf_add|AddFunctor|add_kernel", "add"),
        (r"DivFunctor|div_true_kernel", "div"),
        (r"copy_kernel|copy_device", "copy_"),
        (r"GeluCUDA|gelu_kernel|GeluFunctor", "gelu"),
        (r"silu_kernel", "silu"),
        (r"threshold_kernel|clamp", "clamp"),
        (r"tanh_kernel", "tanh"),
        (r"sigmoid_kernel", "sigmoid"),
        (r"masked_fill", "masked_fill"),
        (r"where_kernel", "where"),
        (r"dropout", "dropout"),
        (r"(?<![a-z])exp_kernel", "exp"),
        (r"(?<!Arg)MaxOps|MaxNanFunctor", "amax"),
        (r"func_wrapper_t<.{0,200}sum_functor", "sum"),
    )
)


@dataclass(frozen=True)
class LaunchKinds:
    """What the patterns ask about a launch, one value a kernel; NaN where unknown.

    kind: see ``_kind``. operation: what it does, in a word. elements: of the result (of a
    reduction: what it reads). threads: grid times block. batched: products of a batch. optimizer:
    whether a step of an optimizer launched it. convolution_bias: whether a convolution adds its
    bias with it.
    """

    kind: npt.NDArray[np.object_]
    operation: npt.NDArray[np.object_]
    elements: Reals
    threads: Reals
    blocks: Reals
    batched: Reals
    optimizer: Mask
    convolution_bias: Mask

    @staticmethod
    def of(see: Facts, names: Sequence[str]) -> "LaunchKinds":
        """see: KINDS_FROM of each kernel. names: of the kernels."""
        sizes = [sizes_of(text) for text in see.model_shape]
        operation = operations(see.operator, names)
        return LaunchKinds(
            kind=words(_kinds(see, operation, names)),
            operation=words(operation),
            elements=np.array([_elements(size) for size in sizes], dtype=np.float64),
            threads=see.blocks * see.threads_per_block,
            blocks=see.blocks,
            batched=np.array([size.get("B", np.nan if not size else 1) for size in sizes], float),
            optimizer=see.phase == "optimizer",
            convolution_bias=_flags(len(names), see.operator_path, "_convolution > aten::add_"),
        )


#: What ``LaunchKinds`` reads.
KINDS_FROM = (
    "category", "operator", "operator_path", "role", "phase", "model_shape", "blocks",
    "threads_per_block",
)  # fmt: skip


def _kinds(
    see: Facts, operation: npt.NDArray[np.object_], names: Sequence[str]
) -> npt.NDArray[np.object_]:
    columns = (see.category, see.role, operation, names, see.operator)
    return np.array([_kind(*one) for one in zip(*columns, strict=True)], dtype=object)


@dataclass(frozen=True)
class Costs:
    """What a launch of each kernel group costs at least; NaN where unknown.

    bytes, out: least traffic of a launch, and the part that is written. flop_ns: modelled
    operations at the nominal peak. bandwidth: byte/ns at the nominal peak.
    """

    bytes: Reals
    out: Reals
    flop_ns: Reals
    bandwidth: Reals

    @staticmethod
    def of(grouped: Groups) -> "Costs":
        see = grouped.facts.only(
            ("category", "operator", "role", "model_shape", "model_bytes", "model_flop_pct",
             "duration_ns", "input_shapes", "input_dtypes", "dram_peak_bytes_per_s")
        )  # fmt: skip
        elements = [_elements(sizes_of(text)) for text in see.model_shape]
        # The size of a reduction is that of what it reads; what it writes is small beside that.
        out = [
            0.0 if category == "reduction" and not np.isnan(moved) else _written(moved, *one)
            for category, moved, *one in zip(
                see.category, see.model_bytes, elements, see.input_shapes, see.input_dtypes,
                strict=True,
            )
        ]  # fmt: skip
        return Costs(
            bytes=see.model_bytes,
            out=np.array(out, dtype=np.float64),
            flop_ns=see.model_flop_pct / 100 * see.duration_ns,
            bandwidth=see.dram_peak_bytes_per_s / 1e9,
        )


# Launches that are looked at together, where there are many columns of them.
_BLOCK = 1 << 16


def in_order(kernels: pa.Table, at: Ints) -> tuple[Ints, Ints, Ints]:
    """Rows ``at`` of a kernel table by stream and start: the rows, their stream as a number, their
    start in ns. Their starts are known."""
    owner = ("source", "rank", "process_id", "device", "stream")
    lane, _ = together(whole(kernels[name])[at] for name in owner)
    # Whole numbers: nanoseconds since an epoch do not fit a double.
    start = whole(kernels["start_ns"])[at]
    order = np.lexsort((start, lane))
    return at[order], lane[order], start[order]


def _idle_for_launch(kernels: pa.Table) -> Ints:
    """How long nothing ran on the GPU before each row because it was being launched, ns: until the
    launch call, less than a pause of the host, and what a launch takes to arrive. What waits longer
    in its queue waits for something else. Where the call is unknown, all of it below a pause."""
    start, duration = (whole(kernels[name]) for name in ("start_ns", "duration_ns"))
    idle = np.zeros(len(start), dtype=np.int64)
    timed = np.flatnonzero((start != UNKNOWN) & (duration != UNKNOWN))
    owner = (whole(kernels[name])[timed] for name in ("source", "rank", "process_id", "device"))
    gpu, _ = together(np.where(one == UNKNOWN, -1, one) for one in owner)
    for one in np.unique(gpu):
        mine = timed[gpu == one]
        mine = mine[np.argsort(start[mine], kind="stable")]
        reached = np.maximum(duration[mine], 0)
        reached += start[mine]
        np.maximum.accumulate(reached, out=reached)
        idle[mine[1:]] = np.maximum(start[mine[1:]] - reached[:-1], 0)
        del mine, reached
    del timed, gpu
    launch = whole(kernels["host_launch_ns"])
    late = launch - (start - idle)
    np.clip(late, 0, idle, out=late)
    late = np.where(launch == UNKNOWN, idle, late)
    idle -= late
    np.minimum(idle, LAUNCH_LATENCY_NS, out=idle)  # until it arrives
    idle += late
    idle[late >= PAUSE_NS] = 0
    return idle


@dataclass(frozen=True)
class Launches:
    """The launches by stream and start. at: their rows in the kernel table; group: their kernel;
    lane: number of the stream; gap: idle time of the GPU for their launch, ns, behind another one of
    the stream; used: which a pattern has taken."""

    at: Ints
    group: Ints
    lane: Ints
    time: Ints
    gap: Ints
    used: Mask
    groups: LaunchKinds

    @staticmethod
    def of(kernels: pa.Table, group: Ints, kinds: LaunchKinds) -> "Launches":
        """group: kernel of each row, -1 for none. kinds: of the kernels."""
        idle = _idle_for_launch(kernels)  # first: it holds as much as all that follows
        start, duration = whole(kernels["start_ns"]), whole(kernels["duration_ns"])
        good = (group >= 0) & (start != UNKNOWN) & (duration > 0)
        good &= whole(kernels["launch_count"]) == 1
        at, lane, _ = in_order(kernels, np.flatnonzero(good))
        follows = np.append(False, lane[1:] == lane[:-1]) if len(at) else np.zeros(0, dtype=bool)
        return Launches(
            at=at,
            group=group[at],
            lane=lane,
            time=duration[at],
            gap=np.where(follows, idle[at], 0),
            used=np.zeros(len(at), dtype=bool),
            groups=kinds,
        )

    def within(self, first: Ints, last: Ints) -> Ints:
        """The places from each first to its last launch."""
        edge = np.zeros(len(self.at) + 1, dtype=np.int64)
        np.add.at(edge, first, 1)
        np.add.at(edge, last + 1, -1)
        return np.flatnonzero(np.cumsum(edge[:-1]) > 0)

    def get(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A column of the groups, one value a launch."""
        return values[self.group]

    def kind(self, *wanted: str) -> Mask:
        """Launches of these kinds."""
        return np.asarray(one_of(self.groups.kind, *wanted)[self.group])

    def operation(self, wanted: frozenset[str]) -> Mask:
        """Launches of these operations."""
        return np.asarray(one_of(self.groups.operation, *wanted)[self.group])

    def shifted(self, mask: Mask, by: int) -> Mask:
        """Where the launch ``by`` places later (earlier if negative) on the same stream is so."""
        result = np.zeros(len(mask), dtype=bool)
        if by > 0:
            result[:-by] = mask[by:] & (self.lane[by:] == self.lane[:-by])
        elif by < 0:
            result[-by:] = mask[:by] & (self.lane[:by] == self.lane[-by:])
        else:
            result = mask.copy()
        return result

    def same_size(self, one: Ints, other: Ints) -> Mask:
        """Whether launches have as many elements, or the same grid where that is not known."""
        same = np.zeros(len(one), dtype=bool)
        # Block by block, so that the intermediate arrays stay small.
        for low in range(0, len(one), _BLOCK):
            here = slice(low, low + _BLOCK)
            same[here] = self._same_size(self.group[one[here]], self.group[other[here]])
        return same

    def _same_size(self, one: Ints, other: Ints) -> Mask:
        """The same of groups."""
        elements, threads = self.groups.elements, self.groups.threads
        a, b = elements[one], elements[other]
        known = ~np.isnan(a) & ~np.isnan(b)
        alike = np.abs(a - b) <= SAME_SIZE * np.maximum(a, b)
        blocks = self.groups.blocks[one]
        grids = (threads[one] == threads[other]) & (blocks >= _LEAST_BLOCKS)
        return np.asarray(np.where(known, alike & (a >= _LEAST_ELEMENTS), grids))

    def take(self, first: Ints, last: Ints) -> None:
        """Mark the launches of regions as used."""
        edge = np.zeros(len(self.at) + 1, dtype=np.int64)
        np.add.at(edge, first, 1)
        np.add.at(edge, last + 1, -1)
        self.used[:] |= np.cumsum(edge[:-1]) > 0

    def summed(self, values: Ints | Mask, first: Ints, last: Ints) -> Ints:
        """Sums over regions, whose ends count."""
        total = np.concatenate(([0], np.cumsum(values, dtype=np.int64)))
        return np.asarray(total[last + 1] - total[first])

    def longest(self, first: Ints, last: Ints) -> Ints:
        """The longest launch of each region; regions are disjoint and in order."""
        if not len(first):
            return np.zeros(0, dtype=np.int64)
        edges = np.column_stack((first, last + 1)).reshape(-1)
        padded = np.append(self.time, 0)
        return np.asarray(np.maximum.reduceat(padded, edges)[::2])


def numbers(values: npt.NDArray[np.object_]) -> Ints:
    return factorized(values)[0]


def _flags(count: int, texts: npt.NDArray[Any], part: str) -> Mask:
    found = [isinstance(text, str) and part in text for text in texts]
    return np.array(found, dtype=bool) if len(found) else np.zeros(count, dtype=bool)


_STREAMING_ROLES = frozenset({"cast", "copy", "layout change"})
_BATCH_NORM = regex.compile(r"batch_?norm|(?<![a-z])bn_|BatchNorm", re.IGNORECASE)


def _kind(category: Any, role: Any, operation: str, kernel: str, operator: Any) -> str:
    """What a launch is to the patterns: ``stream`` passes over tensors of one size, ``compiled`` is
    such work that a compiler fused already."""
    if category in ("softmax", "reduction"):
        return str(category)
    if category == "norm":
        # Batch statistics span the rows: such a norm does not merge with an addition before it.
        batch = _BATCH_NORM.search(f"{operator} {kernel}")
        return "batch norm" if batch else "norm"
    if category == "gemm":
        return "product"
    if kernel.startswith("triton_"):
        return "compiled"
    if category == "elementwise" or (category == "random" and "dropout" in operation):
        return "stream"
    if category == "layout" and role in _STREAMING_ROLES and operation in ("copy_", "_to_copy"):
        return "stream"
    return "link" if category in ("communication", "memcpy", "memset") else "other"


def operations(operators: npt.NDArray[Any], kernels: Sequence[str]) -> npt.NDArray[np.object_]:
    """What each launch does, in a word: the operator, else what the kernel's functor says, else the
    kernel's function."""
    result = np.array(
        [one.rsplit("::", 1)[-1] if isinstance(one, str) and one else None for one in operators],
        dtype=object,
    )
    texts = Texts(kernels)
    for pattern, operation in _BY_KERNEL:
        result[texts.found(pattern, unknown(result))] = operation
    for row in np.flatnonzero(unknown(result)).tolist():
        kernel = kernels[row]
        function = kernel_names.function(kernel).partition("<")[0]
        result[row] = function[:40] or kernel[:40]
    return result


_NO_SIZES: Mapping[str, int] = MappingProxyType({})


@lru_cache(maxsize=65536)
def sizes_of(shape: Any) -> Mapping[str, int]:
    """``M=8 N=4`` as numbers; empty for what is no such text."""
    if not isinstance(shape, str):
        return _NO_SIZES
    pairs = (part.partition("=") for part in shape.split())
    return {name: int(size) for name, _, size in pairs if size.isdecimal()}


def _elements(sizes: Mapping[str, int]) -> float:
    """Elements that a modelled call works on: of its result, or of what a reduction reads."""
    if "elements" in sizes:
        return float(sizes["elements"])
    if {"M", "N"} <= sizes.keys():
        return float(sizes.get("B", 1) * sizes["M"] * sizes["N"])
    if {"R", "C"} <= sizes.keys():
        return float(sizes["R"] * sizes["C"])
    return float("nan")


def _written(moved: float, elements: float, shapes: Any, dtypes: Any) -> float:
    """Bytes of a call's result: what it moves beyond its inputs, at most ``elements`` of the widest
    type among them. In-place and ``out=`` forms list the result as an input, whose type is then
    the first."""
    if np.isnan(moved) or np.isnan(elements) or not isinstance(shapes, str):
        return float("nan")
    read, first, widest = _operands(shapes, dtypes if isinstance(dtypes, str) else "[]")
    if not widest:
        return float("nan")
    rest = moved - read
    return min(rest, elements * widest) if rest >= elements else elements * first


@lru_cache(maxsize=65536)
def _operands(shapes: str, dtypes: str) -> tuple[float, float, float]:
    """Bytes of all input tensors, and the element sizes of the first and the widest of them."""
    try:
        listed, kinds = json.loads(shapes), json.loads(dtypes)
    except ValueError:
        return 0.0, 0.0, 0.0
    if not (isinstance(listed, list) and isinstance(kinds, list)) or len(listed) != len(kinds):
        return 0.0, 0.0, 0.0
    read, sizes = 0.0, []
    for shape, kind in zip(listed, kinds, strict=True):
        size = element_bytes(kind) if isinstance(kind, str) else None
        if not size or not isinstance(shape, list) or not shape:
            continue
        if all(isinstance(one, int) for one in shape):
            read += size * prod(shape)
            sizes.append(size)
    return (read, sizes[0], max(sizes)) if sizes else (0.0, 0.0, 0.0)
