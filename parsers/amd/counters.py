"""What the hardware counters of an AMD GPU say about a dispatch: columns of the kernel table.

The formulas are data (``amd_counters.toml``, which also names their sources). Three rules keep
them honest: a counter that was not collected makes a formula unknown, never zero; a ratio takes
all its counters from one pass, since two passes are two runs; and a value outside the range that
the machine allows is not believed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from traceroof.core import regex
from traceroof.core.recording import Note
from traceroof.parsers.amd.counter_book import Formula, Kind, Node, book

Reals: TypeAlias = npt.NDArray[np.float64]


_INSTANCE = regex.compile(r"(.+)\[(\d+)\]$")
# How far beyond its range a ratio may lie before it is disbelieved: sub-counters exceed their
# totals a little where they are read at different moments.
_SLACK = 0.05


@dataclass(frozen=True)
class Pass:
    """The counters of one run over n dispatches.

    label: what the pass is called (its file). counters: name -> n values, NaN where the counter
    was not collected. duration_ns: n durations in this pass, NaN where unknown. merged: counters
    of several runs in one table, which does not say which came together; ratios take them only
    where no single pass has them.
    """

    label: str
    counters: Mapping[str, Reals]
    duration_ns: Reals
    merged: bool = False

    def take(self, rows: npt.NDArray[np.int64]) -> "Pass":
        """The pass of some of the dispatches; -1 stands for one that it does not have."""
        here = rows >= 0
        counters = {
            name: np.where(here, values[rows], np.nan)
            if len(values)
            else np.full(len(rows), np.nan)
            for name, values in self.counters.items()
        }
        duration = (
            np.where(here, self.duration_ns[rows], np.nan)
            if len(self.duration_ns)
            else np.full(len(rows), np.nan)
        )
        return Pass(self.label, counters, duration, self.merged)


@dataclass
class Derived:
    """What follows from the counters of n dispatches.

    columns: kernel-table columns. metrics: (name, unit, values). NaN is unknown.
    """

    columns: dict[str, Reals]
    metrics: list[tuple[str, str, Reals]]
    tensor_dtype: npt.NDArray[np.object_]
    notes: list[Note]


def derive(
    passes: Sequence[Pass],
    arch: str | None,
    facts: Mapping[str, float | None],
    duration_ns: Reals,
) -> Derived:
    """Evaluate every formula for n dispatches on GPUs of one kind.

    passes: the counters. arch: "gfx942"; None where unknown. facts: what amd_counters.toml lists
    under that word, None where unknown. duration_ns: n durations of the dispatches.
    """
    count = len(duration_ns)
    found = Derived({}, [], np.full(count, None, dtype=object), [])
    single = [_Scope([one], arch, facts, one.duration_ns) for one in passes if not one.merged]
    merged = [_Scope([one], arch, facts, one.duration_ns) for one in passes if one.merged]
    pooled = _Scope(passes, arch, facts, duration_ns)
    scopes: Mapping[Kind, list[_Scope]] = {
        "ratio": [*single, *merged],
        "rate": [*single, *merged, pooled],
        "count": [*single, *merged, pooled],
    }
    for formula in book().formulas:
        values, estimated = _first_known(formula, scopes[formula.kind], arch, count)
        values = _believed(formula, values, found.notes)
        if np.isnan(values).all():
            continue
        if estimated:
            text = f"{formula.target} estimated: the counters for read sizes were not collected"
            found.notes.append(Note(text, estimated, severe=False))
        if formula.unit is None:
            found.columns[formula.target] = values
        else:
            found.metrics.append((formula.target, formula.unit, values))
    _matrix_operations(pooled, arch, found)
    return found


def _first_known(
    formula: Formula, scopes: Sequence["_Scope"], arch: str | None, count: int
) -> tuple[Reals, int]:
    """The first choice that is known, dispatch by dispatch, and how many were estimates."""
    values = np.full(count, np.nan)
    estimated = 0
    for choice in formula.choices:
        if not choice.fits(arch):
            continue
        for scope in scopes:
            missing = np.isnan(values)
            if not missing.any():
                return values, estimated
            found = scope.value(choice.expression)
            if found is None:
                continue
            found = np.broadcast_to(np.asarray(found, dtype=np.float64), (count,))
            filled = missing & np.isfinite(found)
            values[filled] = found[filled]
            estimated += int(filled.sum()) if choice.estimate else 0
    return values, estimated


def _believed(formula: Formula, values: Reals, notes: list[Note]) -> Reals:
    """Values in the range that the machine allows; just outside is its edge, beyond unknown."""
    if not np.isfinite(formula.high):
        return values
    slack = _SLACK * (formula.high - formula.low)
    with np.errstate(invalid="ignore"):
        absurd = (values < formula.low - slack) | (values > formula.high + slack)
    if absurd.any():
        text = (
            f"{formula.target} came out beyond {formula.low:g} to {formula.high:g}, "
            "so its counters contradict each other and it is left unknown"
        )
        notes.append(Note(text, int(absurd.sum()), severe=False))
        values = np.where(absurd, np.nan, values)
    return np.clip(values, formula.low, formula.high)


def _matrix_operations(scope: "_Scope", arch: str | None, found: Derived) -> None:
    """Operations of the matrix units and the type of most of them.

    The total is known only when every type that the architecture counts was collected.
    """
    types = book().matrix_collected.get(arch or "", ())
    counts = {one: scope.counter(book().matrix_counter + one) for one in types}
    known = {one: values for one, values in counts.items() if values is not None}
    if not known:
        return
    stacked = np.stack([np.asarray(values) for values in known.values()])
    most = np.argmax(np.nan_to_num(stacked, nan=-1.0), axis=0)
    names = np.array([book().matrix_types[one] for one in known], dtype=object)
    used = np.nan_to_num(stacked, nan=0.0).max(axis=0) > 0
    found.tensor_dtype[used] = names[most[used]]
    if len(known) == len(types):
        total = book().matrix_operations * stacked.sum(axis=0)
        if not np.isnan(total).all():
            found.columns["flop_tensor"] = total


class _Scope:
    """The names that an expression may use: counters of some passes, facts, and other counts."""

    def __init__(
        self,
        passes: Sequence[Pass],
        arch: str | None,
        facts: Mapping[str, float | None],
        duration_ns: Reals,
    ) -> None:
        self._passes = passes
        self._arch = arch
        self._facts = facts
        self._duration = duration_ns
        self._known: dict[str, Reals | float | None] = {}

    def value(self, node: Node) -> Reals | float | None:
        """What an expression comes to; None when a name in it is not known at all."""
        if isinstance(node, float):
            return node
        if isinstance(node, str):
            if node not in self._known:
                self._known[node] = self._name(node)
            return self._known[node]
        operator, left, right = node
        a, b = self.value(left), self.value(right)
        if a is None or b is None:
            return None
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            match operator:
                case "+":
                    return a + b
                case "-":
                    return a - b
                case "*":
                    return a * b
                case "/":
                    # Nothing per nothing is unknown.
                    return np.where(np.asarray(b) == 0, np.nan, np.divide(a, b))
                case _:
                    return np.asarray(np.maximum(a, b), dtype=np.float64)

    def _name(self, name: str) -> Reals | float | None:
        if name == "t":
            return self._duration
        if name in book().short:
            return self.value(book().short[name])
        if name in self._facts:
            return self._facts[name]
        for formula in book().formulas:
            if formula.target == name:
                count = len(self._duration)
                values, _ = _first_known(formula, [self], self._arch, count)
                return None if np.isnan(values).all() else values
        return self.counter(name)

    def counter(self, name: str) -> Reals | None:
        """A counter by any of its names, from the first pass that has it, dispatch by dispatch."""
        result: Reals | None = None
        for one in self._passes:
            values = _counter_of(one, name)
            if values is not None:
                result = values if result is None else np.where(np.isnan(result), values, result)
        return result


def _counter_of(one: Pass, name: str) -> Reals | None:
    for candidate in _names_of(name):
        if candidate in one.counters:
            return one.counters[candidate]
        summed = _sum_of_instances(one, candidate)
        if summed is not None:
            return summed
    return None


@cache
def _names_of(name: str) -> tuple[str, ...]:
    names = [name, *book().alias.get(name, ())]
    if name.startswith("TCC_EA0_"):
        names.append("TCC_EA_" + name.removeprefix("TCC_EA0_"))
    elif name.startswith("TCC_EA_"):
        names.append("TCC_EA0_" + name.removeprefix("TCC_EA_"))
    return tuple(names)


def _sum_of_instances(one: Pass, name: str) -> Reals | None:
    """``X_sum`` from ``X[0]``, ``X[1]``, …, provided that none is missing."""
    if not name.endswith("_sum") or f"{name[:-4]}[0]" not in one.counters:
        return None
    base = name[:-4]
    numbers = {
        int(match.group(2))
        for match in map(_INSTANCE.match, one.counters)
        if match and match.group(1) == base
    }
    # Files exist that list every other instance only: a sum of what is there would be too low.
    if len(numbers) < 2 or numbers != set(range(len(numbers))) or len(numbers) % 2:
        return None
    instances = np.stack([one.counters[f"{base}[{number}]"] for number in sorted(numbers)])
    return np.asarray(instances.sum(axis=0), dtype=np.float64)
