"""What an operator computes, from the shapes that the profiler recorded.

``work`` gives the FLOPs and the compulsory bytes of one call; ``works`` does it for a kernel
table, each distinct (operator, shapes, element types) once. Which operator follows which model,
and what its arguments mean by position, is data: ``operators.tsv``. The arithmetic is in
``models.py``, the conventions in ``docs/operators.md``.

Nothing is guessed: an operator without a model, shapes that do not fit it, or arguments that
change the count and were not recorded give None, for the whole or for the figure concerned.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from traceroof.core.dictionary import Coded, coded, together
from traceroof.core.groups import Groups
from traceroof.core.kernel_table import as_reals
from traceroof.operators.models import CATEGORY_OF, MODELS
from traceroof.operators.operands import (
    Unfit,
    distance,
    element_bytes,
    element_type,
    entries,
    may_be_output,
    operators,
    readings,
)
from traceroof.operators.work import Work

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "Work",
    "Works",
    "element_bytes",
    "element_type",
    "operators",
    "shares",
    "work",
    "works",
]

Reals = npt.NDArray[np.float64]


def work(
    operator: str,
    shapes: Sequence[Any],
    dtypes: Sequence[Any],
    *,
    training: bool = False,
    concrete: Sequence[Any] | None = None,
) -> Work | None:
    """FLOPs and compulsory bytes of one call of ``operator``.

    shapes: per argument its dimensions (a list of lists for a list of tensors, empty for
        anything else), as PyTorch records them in ``Input Dims``.
    dtypes: per argument its element type (``Input type``); empty when not recorded.
    concrete: per argument its value as text (``Concrete Inputs``); None when not recorded.
    training: statistics that only training keeps (log-sum-exp, mean, deviation) count.

    None for an operator without a model and for shapes that do not fit it.
    """
    given = len(shapes)
    in_place = operator.endswith("_") and not operator.endswith("__")
    rows = entries(operator)
    for entry in sorted(rows, key=lambda one: distance(len(one.arguments), given)):
        for call, extra in readings(entry, shapes, dtypes, concrete, training, in_place):
            try:
                found, result = MODELS[entry.model](call)
            except Unfit:
                continue
            if all(may_be_output(one, result) for one in extra):
                return found
    return None


@dataclass(frozen=True)
class Works:
    """The work of every row of a kernel table.

    distinct: the work of each distinct (operator, shapes, types, values).
    of_row: index into ``distinct`` per row; -1 for a row without an operator.
    """

    distinct: tuple[Work | None, ...]
    of_row: npt.NDArray[np.int64]

    def row(self, index: int) -> Work | None:
        """The work of the operator call behind one row."""
        at = int(self.of_row[index])
        return self.distinct[at] if at >= 0 else None

    def column(self, name: Literal["flops", "bytes_min", "weight_bytes"]) -> Reals:
        """One figure per row, NaN where unknown. It is the whole call's: times ``shares`` it is
        the row's own."""
        values = np.array(
            [_known(getattr(one, name) if one else None) for one in self.distinct] + [nan]
        )
        return values[self.of_row]


_CALL_COLUMNS = ("operator", "input_shapes", "input_dtypes", "input_values")


def works(kernels: "pa.Table", *, training: bool = False) -> Works:
    """The work behind each row, from the columns operator, input_shapes, input_dtypes and
    input_values (JSON lists). Each distinct combination is computed once; text that is no JSON
    list gives None."""
    columns = {name: coded(kernels[name]) for name in _CALL_COLUMNS}
    codes, first = together(one.codes for one in columns.values())
    texts = (dict(zip(columns, row, strict=True)) for row in
             zip(*(one.at(first) for one in columns.values()), strict=True))  # fmt: skip
    distinct = tuple(_parsed_work(values, training) for values in texts)
    return Works(distinct, np.where(columns["operator"].codes < 0, -1, codes))


def shares(found: Works, kernels: "pa.Table", categories: Coded) -> Reals:
    """The part of its operator call's work that each row did, 0-1; the parts of a call add to 1.

    One operator call may launch several kernels (a split product and its reduction, a layout
    change, the two gradients of a convolution). Its work goes to those of its kernels whose
    category is the model's own, in proportion to their time; to the longest where none is. The
    utilisation of such a kernel is then that of the call's own kernels together, and no call is
    counted twice.

    Which kernels are one call's says the column operator_call, where the table has it. Without
    it, neighbours in launch order with equal operator and shapes are taken for as many calls as
    the commonest kernel of the model's own category was launched.

    categories: the category of every row. Rows without an operator get 0; they are set aside, as in
    launch order they would stand between the kernels of one call.
    """
    result = np.zeros(kernels.num_rows)
    rows = np.flatnonzero(found.of_row >= 0)
    if not len(rows):
        return result
    duration = np.maximum(np.nan_to_num(as_reals(kernels["duration_ns"])[rows]), 1.0)
    number = {text: at for at, text in enumerate(categories.texts)}
    own = np.array(
        [number.get(CATEGORY_OF.get(one.model, ""), -1) if one else -1 for one in found.distinct]
    )
    key = found.of_row[rows]
    mine = own[key] == categories.codes[rows]
    recorded = as_reals(kernels["operator_call"])[rows]
    if np.isnan(recorded).any():
        order = _launch_order(kernels, rows)
        name = coded(kernels["kernel_name"]).codes[rows[order]]
        call = np.empty(len(rows), dtype=np.int64)
        call[order] = _calls(key[order], name, mine[order], duration[order])
    else:
        source = as_reals(kernels["source"])[rows]
        call, _ = together(one.astype(np.int64) for one in (source, recorded))

    has_own = np.bincount(call, weights=mine) > 0
    bears = mine.copy()
    alone = np.flatnonzero(~has_own[call])
    if len(alone):
        by_call = together((call[alone],))[0]
        longest = np.lexsort((-duration[alone], by_call))[Groups(by_call).starts]
        bears[alone[longest]] = True
    weight = np.where(bears, duration, 0.0)
    result[rows] = weight / np.bincount(call, weights=weight)[call]
    return result


def _calls(
    key: npt.NDArray[np.int64],
    name: npt.NDArray[np.int32],
    mine: npt.NDArray[np.bool_],
    duration: Reals,
) -> npt.NDArray[np.int64]:
    """Number of the operator call per row, rows in launch order: a guess from what was launched
    how often. key: of the operator's work; name: of the kernel; mine: whether the kernel is of the
    model's own category."""
    run = np.cumsum(np.concatenate(([True], (key[1:] != key[:-1])))).astype(np.int64)
    # One entry per kernel name and run: how often, how long, and whether it is the model's own kind.
    pair, first = together((run, name))
    count = np.bincount(pair)
    own = np.bincount(pair, weights=mine) > 0
    total = np.bincount(pair, weights=duration)
    run_of = run[first] - 1
    calls = np.zeros(run[-1], dtype=np.int64)
    np.maximum.at(calls, run_of, np.where(own, count, 0))
    by_time = np.lexsort((total, run_of))
    longest = by_time[np.append(run_of[by_time][1:] != run_of[by_time][:-1], True)]
    calls = np.where(calls > 0, calls, count[longest])
    # The n-th of a name's launches goes to the call at the same place of the run.
    within = Groups(pair).places() * calls[run - 1] // count[pair]
    return together((run, within))[0]


def _launch_order(kernels: "pa.Table", rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Some rows by file, process and launch time; by start where the launch is unknown."""
    names = ("host_launch_ns", "start_ns", "process_id", "source")
    launch, start, process, source = (as_reals(kernels[name])[rows] for name in names)
    launch = np.where(np.isnan(launch), start, launch)
    return np.lexsort((start, launch, process, source)).astype(np.int64)


def _parsed_work(values: Mapping[str, str | None], training: bool) -> Work | None:
    operator = values.get("operator")
    shapes = _json_list(values.get("input_shapes"))
    if operator is None or shapes is None:
        return None
    return work(
        operator,
        shapes,
        _json_list(values.get("input_dtypes")) or [],
        training=training,
        concrete=_json_list(values.get("input_values")),
    )


def _json_list(text: str | None) -> list[Any] | None:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, list) else None


def _known(value: float | None) -> float:
    return nan if value is None else value
