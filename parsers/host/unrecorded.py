"""Where launches come from whose call the recording does not hold.

A recording starts while the GPU still works off what was launched before: those launches have no
call, so no operator, module, line or shapes. A program repeats itself: the same kernels in the same
order were launched again while it was recorded. What all those repetitions say alike is taken over,
from the longest runs of kernels that repeat; what they say differently stays unknown.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core import regex
from traceroof.core.dictionary import coded, factorized, one_array, together
from traceroof.core.kernel_table import TEXT, as_reals, column

Whole = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_WHERE: Final = (
    "operator", "operator_path", "operator_call", "module_path", "source_line", "phase",
    "collective",
)  # fmt: skip
_GRID: Final = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
# The number of a module among those of its class.
_INSTANCE: Final = regex.compile(r"_\d+(?= > |$)")
# AMD's tools write the launch shape on the call.
_SIZES: Final = (
    "input_shapes", "input_dtypes", "input_values", *_GRID, "shared_memory_dynamic_bytes",
)  # fmt: skip
# Work of other sizes under the same names takes another time: its shapes are not taken over.
_ALIKE: Final = 1.5
# Repetitions that a launch is compared with, and what of them is held at once.
_COMPARED: Final = 4096
_HELD: Final = 1 << 20
# Launches that are looked up; more without a call are a fault of another kind.
_MOST: Final = 100_000


@dataclass(frozen=True)
class _Repeated:
    """Launches without a call, and the recorded ones that repeat them: a row each repetition."""

    rows: Whole
    twins: Whole

    def alike(self, codes: npt.NDArray[Any]) -> Mask:
        """Which launches have the same value in all repetitions."""
        found = codes[self.twins]
        same: Mask = (found == found[0]).all(axis=0)
        return same


def placed(kernels: pa.Table) -> tuple[pa.Table, int]:
    """A kernel table, by start, with what repetitions tell of launches whose call was not recorded;
    and how many they tell the operator, the module or the line of."""
    lost = np.asarray(kernels["host_launch_ns"].is_null())
    if not lost.any() or lost.all():
        return kernels, 0
    found = list(_repetitions(kernels, lost))
    sized = list(_whole(_as_long(found, kernels), kernels))
    told = np.zeros(len(lost), dtype=bool)
    for names, repeated in ((_WHERE, found), (_SIZES, sized)):
        for name in names:
            values = kernels[name]
            if values.null_count in (0, len(values)):
                continue
            if column(name).type == TEXT:
                filled = _texts(values, name, repeated)
            elif name == "operator_call":
                filled = _calls(values, np.asarray(kernels["operator"].is_valid()), repeated)
            else:
                filled = _numbers(values, repeated)
            if names is _WHERE:
                told |= np.asarray(filled.is_valid()) & np.asarray(values.is_null())
            kernels = kernels.set_column(kernels.schema.get_field_index(name), name, filled)
    return kernels, int(told.sum())


def _texts(values: pa.ChunkedArray, name: str, repeated: list[_Repeated]) -> pa.Array:
    """A text column, filled where all repetitions say the same."""
    found = coded(values)
    codes, texts = found.codes.copy(), found.texts
    for one in repeated:
        takes = one.alike(found.codes) & (found.codes[one.rows] < 0)
        codes[one.rows[takes]] = found.codes[one.twins[0][takes]]
    if name == "module_path":
        # Layers that are alike: which of them it was is not known.
        number = {text: code for code, text in enumerate(texts)}
        coarse = [number.setdefault(_INSTANCE.sub("_?", text), len(number)) for text in texts]
        of_row = np.array([*coarse, -1])[found.codes]
        for one in repeated:
            takes = one.alike(of_row) & (codes[one.rows] < 0) & (of_row[one.twins[0]] >= 0)
            codes[one.rows[takes]] = of_row[one.twins[0][takes]]
        texts = list(number)
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), texts).cast(TEXT)


def _numbers(values: pa.ChunkedArray, repeated: list[_Repeated]) -> pa.Array:
    """A column of numbers, filled where all repetitions say the same."""
    source = np.arange(len(values))
    own = np.asarray(values.is_valid())
    codes = factorized(as_reals(values))[0]
    for one in repeated:
        takes = ~own[one.rows] & one.alike(codes)
        source[one.rows[takes]] = one.twins[0][takes]
    return one_array(values).take(pa.array(source))


def _calls(values: pa.ChunkedArray, known: Mask, repeated: list[_Repeated]) -> pa.Array:
    """Numbers for the calls that were not recorded: launches that repeat one call, in one run, are
    one. known: which launches have an operator."""
    number = np.asarray(one_array(values).fill_null(-1))
    run, call = np.zeros_like(number), np.full_like(number, -1)
    for at, one in enumerate(repeated, 1):
        run[one.rows], call[one.rows] = at, number[one.twins[0]]
    taken = known & (number < 0) & (call >= 0)
    result = number.copy()
    result[taken] = number.max() + 1 + together((run[taken], call[taken]))[0]
    return pa.array(result, mask=result < 0)


def _as_long(found: list[_Repeated], kernels: pa.Table) -> Iterator[_Repeated]:
    """Those whose launches took about as long as their repetitions."""
    duration = np.nan_to_num(as_reals(kernels["duration_ns"]))
    for one in found:
        usual = float(np.median(duration[one.twins].sum(axis=1)))
        took = float(duration[one.rows].sum())
        if usual / _ALIKE <= took <= usual * _ALIKE:
            yield one


def _whole(found: Iterator[_Repeated], kernels: pa.Table) -> Iterator[_Repeated]:
    """The launches of calls that are repeated whole: sizes of a product are not those of a helper
    that it launches too."""
    calls = np.nan_to_num(as_reals(kernels["operator_call"]), nan=-1).astype(np.int64)
    size = np.bincount(calls + 1)
    for one in found:
        call = calls[one.twins[0]] + 1
        _, which, here = np.unique(call, return_inverse=True, return_counts=True)
        kept = (call == 0) | (here[which] == size[call])
        yield _Repeated(one.rows[kept], one.twins[:, kept])


def _repetitions(kernels: pa.Table, lost: Mask) -> Iterator[_Repeated]:
    """The longest runs of launches without a call that recorded launches of their stream repeat,
    each with its repetitions."""
    lane, _ = together(
        factorized(as_reals(kernels[name]))[0] for name in ("rank", "device", "stream")
    )
    order = np.argsort(lane, kind="stable")
    token = _tokens(kernels, lane, lost)[order]
    # A launch without a call repeats nothing, and ends what others repeat.
    recorded = np.where(lost[order], -1, token)
    by_token = np.argsort(recorded, kind="stable")
    sorted_tokens = recorded[by_token]
    looked_up = 0
    for first, last in _runs(lost[order], lane[order]):
        while last >= first and looked_up < _MOST:
            low, high = np.searchsorted(sorted_tokens, [token[last], token[last] + 1])
            ends = by_token[low : min(high, low + _COMPARED)]
            ends, length = _longest(ends, recorded, token[first : last + 1])
            if len(ends):
                steps = np.arange(1 - length, 1)
                ends = ends[-max(1, _HELD // length) :]
                yield _Repeated(order[last + steps], order[ends[:, None] + steps])
            last -= length
            looked_up += length


def _runs(is_lost: Mask, lane: Whole) -> list[tuple[int, int]]:
    """First and last of each run of launches without a call, within one lane."""
    begins = np.append(True, ~is_lost[:-1] | (lane[1:] != lane[:-1]))
    ends = np.append(begins[1:] | ~is_lost[1:], True)
    first, last = np.flatnonzero(is_lost & begins), np.flatnonzero(is_lost & ends)
    return list(zip(first.tolist(), last.tolist(), strict=True))


def _longest(ends: Whole, recorded: Whole, run: Whole) -> tuple[Whole, int]:
    """Where the longest end of a run of kernels was recorded, and how long that is (at least 1).

    ends: where its last kernel was recorded.
    """
    length = 1
    while length < len(run):
        before = ends[ends >= length]
        before = before[recorded[before - length] == run[-1 - length]]
        if not len(before):
            break
        ends, length = before, length + 1
    return ends, length


def _tokens(kernels: pa.Table, lane: Whole, lost: Mask) -> Whole:
    """A number for each kernel and launch shape of each lane."""
    known = [name for name in _GRID if np.asarray(kernels[name].is_valid())[lost].any()]
    return together(
        (
            lane,
            *(coded(kernels[name]).codes for name in ("kind", "kernel_name")),
            *(factorized(as_reals(kernels[name]))[0] for name in known),
        )
    )[0]
