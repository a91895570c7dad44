"""What the hardware counters of an AMD GPU say about a dispatch: columns of the kernel table.

The formulas are data (``amd_counters.toml``, which also names their sources). Three rules keep
them honest: a counter that was not collected makes a formula unknown, never zero; a ratio takes
all its counters from one pass, since two passes are two runs; and a value outside the range that
the machine allows is not believed.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from traceroof.core import regex
from traceroof.core.recording import Note

Reals: TypeAlias = npt.NDArray[np.float64]
Kind = Literal["count", "ratio", "rate"]

#: Expression: a number, a name, or (operator, left, right).
Node: TypeAlias = "float | str | tuple[str, Node, Node]"

_TOKEN = regex.compile(r"\s*(?:(\d+(?:\.\d+)?)|([A-Za-z_]\w*)|([-+*/(),]))")
_INSTANCE = regex.compile(r"(.+)\[(\d+)\]$")
# How far beyond its range a ratio may lie before it is disbelieved: sub-counters exceed their
# totals a little where they are read at different moments.
_SLACK = 0.05


@dataclass(frozen=True)
class Choice:
    """One way to get at a quantity: on which architectures, and how."""

    on: tuple[str, ...]
    off: tuple[str, ...]
    expression: Node
    estimate: bool = False

    def fits(self, arch: str | None) -> bool:
        """Whether the choice holds for an architecture; None is an unknown one."""
        return _matches(arch, self.on) and not (arch and _matches(arch, self.off))


@dataclass(frozen=True)
class Formula:
    """One quantity. ``target`` is a column of the kernel table, or a metric when ``unit`` is set."""

    target: str
    unit: str | None
    kind: Kind
    low: float
    high: float
    choices: tuple[Choice, ...]


@dataclass(frozen=True)
class Architecture:
    """What one architecture is like; None where it is not known. Sizes in bytes."""

    wave: int = 64
    max_waves: int | None = None
    lds_banks: int | None = None
    lds_bytes: int | None = None
    registers: int | None = None
    register_step: int = 4
    unified: bool = False
    l1_line: int | None = None
    l2_line: int | None = None
    flop: Mapping[str, float] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Book:
    """Everything that ``amd_counters.toml`` says."""

    formulas: tuple[Formula, ...]
    short: Mapping[str, Node]
    alias: Mapping[str, tuple[str, ...]]
    impossible: tuple[str, ...]
    somewhere: frozenset[str]
    unreliable: tuple[str, ...]
    architectures: Mapping[str, Architecture]
    matrix_counter: str
    matrix_operations: float
    matrix_types: Mapping[str, str]
    matrix_collected: Mapping[str, tuple[str, ...]]


@cache
def book() -> Book:
    """The formulas, read once."""
    text = files("traceroof.parsers.amd").joinpath("counters.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text)
    families: Mapping[str, list[str]] = data["families"]
    matrix = data["matrix"]
    return Book(
        formulas=tuple(_formula(entry, families) for entry in data["formula"]),
        short={name: parse(words) for name, words in data["short"].items()},
        alias={name: tuple(others) for name, others in data["alias"].items()},
        impossible=tuple(data["zero"]["impossible"]),
        somewhere=frozenset(data["zero"]["somewhere"]),
        unreliable=tuple(data["zero"]["unreliable"]),
        architectures=_architectures(data["arch"]),
        matrix_counter=matrix["counter"],
        matrix_operations=float(matrix["operations"]),
        matrix_types=matrix["types"],
        matrix_collected={name: tuple(types) for name, types in matrix["collected"].items()},
    )


def _architectures(data: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Architecture]:
    found = {name: Architecture(**row) for name, row in data.items() if "same" not in row}
    same = {name: found[row["same"]] for name, row in data.items() if "same" in row}
    return found | same


def _formula(entry: Mapping[str, Any], families: Mapping[str, list[str]]) -> Formula:
    def spread(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(one for name in names for one in families.get(name, [name]))

    low, high = entry.get("range", (-np.inf, np.inf))
    return Formula(
        target=entry.get("column") or entry["metric"],
        unit=entry.get("unit"),
        kind=entry["kind"],
        low=float(low),
        high=float(high),
        choices=tuple(
            Choice(
                on=spread(choice["for"]),
                off=spread(choice.get("not", ())),
                expression=parse(choice["is"]),
                estimate=choice.get("estimate", False),
            )
            for choice in entry["choices"]
        ),
    )


def architecture(arch: str | None) -> Architecture | None:
    """What an architecture is like; None for one that the book does not have."""
    if arch is None:
        return None
    known = book().architectures
    if arch in known:
        return known[arch]
    return next((row for name, row in known.items() if fnmatchcase(arch, name)), None)


def _matches(arch: str | None, patterns: Sequence[str]) -> bool:
    return any(one == "*" or (arch is not None and fnmatchcase(arch, one)) for one in patterns)


@cache
def parse(text: str) -> Node:
    """Read an expression: ``+ - * / ( ) max(a, b)`` over numbers and names.

    Raises ValueError, naming the place, for anything else. Nothing is ever executed.
    """
    tokens: list[str] = []
    position = 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"no expression: {text!r} at {position}")
        tokens.append(match.group().strip())
        position = match.end()
    node, rest = _sum(tokens, 0)
    if rest != len(tokens):
        raise ValueError(f"no expression: {text!r} at token {rest}")
    return node


def _sum(tokens: list[str], place: int) -> tuple[Node, int]:
    left, place = _product(tokens, place)
    while place < len(tokens) and tokens[place] in "+-":
        operator = tokens[place]
        right, place = _product(tokens, place + 1)
        left = (operator, left, right)
    return left, place


def _product(tokens: list[str], place: int) -> tuple[Node, int]:
    left, place = _factor(tokens, place)
    while place < len(tokens) and tokens[place] in "*/":
        operator = tokens[place]
        right, place = _factor(tokens, place + 1)
        left = (operator, left, right)
    return left, place


def _factor(tokens: list[str], place: int) -> tuple[Node, int]:
    token = tokens[place] if place < len(tokens) else ""
    if token == "(":
        node, place = _sum(tokens, place + 1)
        return node, _expect(tokens, place, ")")
    if token == "max":
        place = _expect(tokens, place + 1, "(")
        left, place = _sum(tokens, place)
        right, place = _sum(tokens, _expect(tokens, place, ","))
        return ("max", left, right), _expect(tokens, place, ")")
    if token[:1].isdigit():
        return float(token), place + 1
    if token[:1].isalpha():
        return token, place + 1
    raise ValueError(f"a number or a name was expected, not {token!r}")


def _expect(tokens: list[str], place: int, token: str) -> int:
    if place >= len(tokens) or tokens[place] != token:
        raise ValueError(f"{token!r} was expected")
    return place + 1


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


# Below this the cycles of launch and cache flush, which are counted too, outweigh the kernel's.
_SHORT_NS = 20_000
_FEWEST_TO_COMPARE = 3


def without_contradicted_times(
    passes: Sequence[Pass], duration_ns: Reals
) -> tuple[list[Pass], npt.NDArray[np.bool_]]:
    """The passes without durations that their own cycle counter contradicts by over half.

    The median clock of a pass says how long its cycles take. Returns also which of the dispatches'
    durations (``duration_ns``, which may be of another run) are such ones.
    """
    cleaned: list[Pass] = []
    count = len(passes[0].duration_ns) if passes else 0
    wrong = np.zeros(count, dtype=bool)
    for one in passes:
        cycles = one.counters.get("GRBM_GUI_ACTIVE")
        doubted = np.zeros(count, dtype=bool)
        if cycles is not None and not one.merged:
            with np.errstate(divide="ignore", invalid="ignore"):
                clock = cycles / one.duration_ns
            steady = np.isfinite(clock) & (one.duration_ns > _SHORT_NS)
            if steady.sum() >= _FEWEST_TO_COMPARE:
                clock_ratio = clock / np.median(clock[steady])
                doubted = steady & ((clock_ratio < 0.5) | (clock_ratio > 2))
        wrong |= doubted & (np.abs(one.duration_ns - duration_ns) <= 1)
        spent = np.where(doubted, np.nan, one.duration_ns) if doubted.any() else one.duration_ns
        cleaned.append(Pass(one.label, one.counters, spent, one.merged))
    return cleaned, wrong


_SIZE = regex.compile(r"_(?:32|64|96|128|256)B(?=_|$)")


def _any_size(name: str) -> str:
    """What the counters of one kind of request have in common, whatever its size."""
    return _SIZE.sub("", name)


def without_dead_counters(
    passes: Sequence[Pass], arch: str | None
) -> tuple[list[Pass], list[Note]]:
    """The passes with unknown where a zero means that nothing was counted.

    On RDNA a counter that is zero in every dispatch was not collected, unless requests of another
    size were counted beside it; anywhere, a counter that a dispatch, or a whole program, cannot
    leave at zero was not.
    """
    counting = {
        _any_size(name)
        for one in passes
        for name, values in one.counters.items()
        if np.nansum(np.abs(values)) > 0
    }
    unreliable = arch is not None and _matches(arch, book().unreliable)
    dead: set[str] = set()
    cleaned: list[Pass] = []
    for one in passes:
        counters = dict(one.counters)
        for name, values in one.counters.items():
            known = ~np.isnan(values)
            if not known.any():
                continue
            zero = known & (values == 0)
            may_be_silent = name in book().somewhere or (
                unreliable and _any_size(name) not in counting
            )
            silent = may_be_silent and bool((zero == known).all())
            if zero.any() and (silent or _matches(name, book().impossible)):
                counters[name] = np.where(zero, np.nan, values)
                dead.add(name)
        cleaned.append(Pass(one.label, counters, one.duration_ns, one.merged))
    if not dead:
        return cleaned, []
    shown = ", ".join(sorted(dead)[:4]) + (", …" if len(dead) > 4 else "")
    text = f"counters that stayed at zero were taken as not collected: {shown}"
    if unreliable:
        text += "; on RDNA, fix the performance level first (amd-smi set -l stable_std)"
    return cleaned, [Note(text, len(dead), severe=False)]
