"""Columns that remember how they were made, so that a rule's own formula can be printed.

``Traced`` is a numpy array of one value that carries the ``Term`` it was computed by: a rule that
runs over traced columns computes what it always computes and leaves its arithmetic behind. Numpy
hands every operation over (``__array_ufunc__``, ``__array_function__``); only ``np.asarray`` drops
what an array carries, so formulas that are to be printed use ``np.asanyarray``.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from traceroof.core.words import Words

#: Leaves of a calculation: a column of the facts, a number in the formula, an attainable share.
COLUMN, NUMBER, CEILING = "column", "number", "ceiling"
#: A function of one value that numpy does not know, called by ``Term.name``.
EACH = "each"
WHERE, IS_UNKNOWN, ONE_OF = "where", "isnan", "one of"


@dataclass(frozen=True)
class Term:
    """One step of a calculation.

    op: COLUMN, NUMBER, CEILING, EACH, WHERE, ONE_OF, or the name of the numpy function. value: what
    came out, for one subject. name: of the column, the ceiling or the function; ONE_OF: its
    choices. function: what EACH applied.
    """

    op: str
    args: tuple["Term", ...]
    value: Any
    name: str = ""
    choices: tuple[str, ...] = ()
    function: Callable[[Any], Any] | None = field(default=None, compare=False)
    unit: str = ""

    def leaves(self) -> Iterable["Term"]:
        """The columns and ceilings that the term was computed from, in order of appearance."""
        if self.op in (COLUMN, CEILING):
            yield self
        for arg in self.args:
            yield from arg.leaves()


class Traced(np.ndarray[Any, np.dtype[Any]]):
    """An array of one value with the term that it came from."""

    term: Term

    @staticmethod
    def of(value: Any, op: str, name: str, unit: str = "") -> "Traced":
        """A leaf: the value of a column or of a ceiling; unknown is NaN or None."""
        kind = object if isinstance(value, str) or value is None else np.float64
        return _traced(np.array([value], dtype=kind), Term(op, (), value, name, unit=unit))

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, _plain(value))
        plain = _plain(self)
        self.term = Term(NUMBER, (), _value(plain))

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **options: Any
    ) -> Any:
        plain = [_plain(one) for one in inputs]
        options = {name: _plain(one) for name, one in options.items()}
        in_place = out is not None and out[0] is inputs[0]
        if out is not None and not in_place:
            options["out"] = tuple(_plain(one) for one in out)
        if method != "__call__" or "out" in options or "where" in options:
            # What is computed in part, or into something else, is a value without a formula.
            return getattr(ufunc, method)(*plain, **options)
        if ufunc in (np.equal, np.not_equal):
            # The operator also compares an unknown number with text, which the ufunc refuses.
            result = plain[0] == plain[1] if ufunc is np.equal else plain[0] != plain[1]
        else:
            result = ufunc(*plain, **options)
        if isinstance(result, tuple):
            return result
        return _made(result, ufunc.__name__, inputs)

    def __array_function__(
        self, func: Any, types: Any, args: Iterable[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        args = tuple(args)
        if func is np.select:
            return _select(*args, **kwargs)
        result = func(*_unpack(args), **{name: _plain(one) for name, one in kwargs.items()})
        if func in (np.max, np.min) and len(args) == 1:
            return args[0]  # of one value
        if func in (np.where, np.clip):
            return _made(result, func.__name__, args)
        if func is np.nan_to_num:
            otherwise = float(args[2] if len(args) > 2 else kwargs.get("nan", 0.0))
            known = _made(~np.isnan(_plain(args[0])), "invert", [np.isnan(args[0])])
            return _made(result, WHERE, [known, args[0], otherwise])
        return result


def each(
    column: npt.NDArray[Any], function: Callable[[Any], Any], name: str, kind: Any = np.float64
) -> npt.NDArray[Any]:
    """A function of every value of a column, for what numpy has no word for.

    name: what the result is called where the formula is printed.
    """
    result = _of_distinct(column, function, kind)
    if not isinstance(column, Traced):
        return result
    return _traced(result, Term(EACH, (column.term,), _value(result), name, (), function))


def _of_distinct(
    column: npt.NDArray[Any], function: Callable[[Any], Any], kind: Any
) -> npt.NDArray[Any]:
    """``function`` of every value, worked out once per distinct text and once for unknown."""
    if isinstance(column, Words) and column.codes is not None:
        return np.array([*map(function, column.texts), function(None)], dtype=kind)[column.codes]
    plain = np.asarray(column)
    if len(plain) and plain.dtype.kind == "f" and np.isnan(plain).all():
        return np.full(len(plain), function(np.nan), dtype=kind)
    values = plain.tolist()
    known: dict[Any, Any] = {}
    keys = [None if isinstance(value, float) and math.isnan(value) else value for value in values]
    for key, value in zip(keys, values, strict=True):
        if key not in known:
            known[key] = function(value)
    return np.array([known[key] for key in keys], dtype=kind)


def one_of(column: npt.NDArray[Any], *values: str) -> npt.NDArray[np.bool_]:
    """Where a text column is one of these."""
    if isinstance(column, Words) and column.codes is not None:
        chosen: npt.NDArray[np.bool_] = np.array([*(one in values for one in column.texts), False])
        return chosen[column.codes]
    plain = np.asarray(column)
    result = np.zeros(len(plain), dtype=bool)
    for value in values if plain.dtype == object else ():
        result |= plain == value
    if not isinstance(column, Traced):
        return result
    return _traced(result, Term(ONE_OF, (column.term,), _value(result), choices=values))


def is_unknown(column: Traced, found: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """``found`` as the answer to whether the value of ``column`` is unknown."""
    return _traced(found, Term(IS_UNKNOWN, (column.term,), _value(found)))


def term_of(result: Any) -> Term:
    """The term that a result came from; a number where nothing was traced."""
    if isinstance(result, Traced) and hasattr(result, "term"):
        return result.term
    return Term(NUMBER, (), _value(np.asarray(result)))


def _traced(values: npt.NDArray[Any], term: Term) -> Traced:
    made = values.view(Traced)
    made.term = term
    return made


def _made(result: Any, op: str, args: Iterable[Any]) -> Traced:
    values = np.atleast_1d(np.asarray(result))
    return _traced(values, Term(op, tuple(term_of(arg) for arg in args), _value(values)))


def _select(conditions: Sequence[Any], choices: Sequence[Any], default: Any = 0) -> Any:
    chosen = default
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        chosen = np.where(condition, choice, chosen)
    return chosen


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, Traced) else value


def _unpack(args: Sequence[Any]) -> list[Any]:
    return [
        [_plain(one) for one in arg] if isinstance(arg, list | tuple) else _plain(arg)
        for arg in args
    ]


def _value(values: npt.NDArray[Any]) -> Any:
    """The one value of an array: a number, a truth, text; NaN and None where it is unknown."""
    return values.reshape(-1)[0].item() if values.dtype != object else values.reshape(-1)[0]
