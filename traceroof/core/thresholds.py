"""The numbers that conditions hold columns against, kept as data.

A rule lists its thresholds by name; its condition asks ``k.meets("waves")``. So the number stands
once: the condition reads it, the card prints it, configuration can change it, a test moves the
column across it.
"""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from traceroof.core.units import quantity

Op = Literal["<", "<=", ">", ">="]

_COMPARE: Mapping[Op, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_OPPOSITE: Mapping[Op, Op] = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}

#: Suffix of a column name -> unit of its values.
_UNITS = {"_pct": "%", "_bytes": "byte", "_bytes_per_s": "byte/s", "_ns": "ns", "_hz": "Hz"}

#: What a threshold is a share of, in words; other columns stand for themselves.
_CALLED = {"span_ns": "the span", "sm_count": "the multiprocessors", "idle_ns": "the idle time"}


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """A number that a figure of each subject is held against.

    value: the number, in the unit of the column; with ``of`` a multiple of that figure.
    column: the column that is compared; the name of the threshold when empty.
    of: another column, or a function of the facts, that ``value`` is a multiple of.
    measure: a function of the facts that is compared in place of the column.
    beside: the columns that it is printed beside, where ``measure`` reads several.
    or_unknown: an unknown figure passes too.
    unit: of the number, where the name of the column does not say it.
    usual: the number that the rule comes with, where configuration changed it.
    told: whether it is printed beside the evidence; not where another rule's condition is asked.
    words: how it is printed after the column, ``{op}`` and ``{value}`` for what it holds; generated
        when empty.
    """

    op: Op
    value: float
    column: str = ""
    of: str | Callable[[Any], Any] = ""
    measure: Callable[[Any], Any] | None = None
    beside: tuple[str, ...] = ()
    or_unknown: bool = False
    words: str = ""
    unit: str = ""
    told: bool = True
    usual: float | None = None

    def holds(self, name: str, facts: Any) -> Any:
        """Mask of the subjects that pass, given the name of the threshold."""
        figure = self.measure(facts) if self.measure else getattr(facts, self.column or name)
        limit: Any = self.value
        if self.of:
            base = self.of(facts) if callable(self.of) else getattr(facts, self.of)
            limit = base if self.value == 1 else self.value * base
        if self.or_unknown:
            return ~_COMPARE[_OPPOSITE[self.op]](figure, limit)
        return _COMPARE[self.op](figure, limit)

    def amount(self, name: str) -> "Amount":
        """The number alone, with its unit: what ``{name}`` in a condition becomes."""
        plain = "" if self.of or self.measure else unit_of(self.column or name)
        return Amount(self.value, self.unit or plain, self.usual)

    def text(self, name: str) -> str:
        """The threshold as it stands beside the value of its column: ``>= 5 % of the span``; one
        that configuration changed says so."""
        if self.usual is None:
            return self._text(name)
        usual = replace(self, value=self.usual, usual=None)._text(name)
        return f"{replace(self, usual=None)._text(name)} (configured; by default {usual})"

    def _text(self, name: str) -> str:
        if self.words:
            return self.words.format(op=self.op, value=self.amount(name))
        if not self.of or callable(self.of):
            return f"{self.op} {self.amount(name)}"
        base = _CALLED.get(self.of, self.of)
        if self.value == 1:
            return f"{self.op} {base}"
        if self.value < 1:
            return f"{self.op} {self.value * 100:.3g} % of {base}"
        return f"{self.op} {self.value:.3g} × {base}"


@dataclass(frozen=True)
class Amount:
    """A number in a text: with its unit, or in the format that the text asks for."""

    value: float
    unit: str
    usual: float | None = None

    def __format__(self, spec: str) -> str:
        if self.usual is not None:
            shown, usual = (
                format(Amount(one, self.unit), spec) for one in (self.value, self.usual)
            )
            return f"{shown} (configured; by default {usual})"
        if not spec:
            return quantity(self.value, self.unit)
        return format(self.value, spec).replace("%", " %")


def unit_of(column: str) -> str:
    """The unit that the name of a column ends in; empty for a count or a ratio."""
    ending = max((one for one in _UNITS if column.endswith(one)), key=len, default="")
    return _UNITS.get(ending, "")


def below(value: float, **more: Any) -> Threshold:
    """Less than a number."""
    return Threshold(op="<", value=value, **more)


def at_most(value: float, **more: Any) -> Threshold:
    """A number or less."""
    return Threshold(op="<=", value=value, **more)


def above(value: float, **more: Any) -> Threshold:
    """More than a number."""
    return Threshold(op=">", value=value, **more)


def at_least(value: float, **more: Any) -> Threshold:
    """A number or more."""
    return Threshold(op=">=", value=value, **more)
