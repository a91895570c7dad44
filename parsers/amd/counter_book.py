"""The formulas by which AMD's tools derive metrics from counters, read from their table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Literal, TypeAlias

import numpy as np

from traceroof.core import regex
from traceroof.core.toml_tables import toml_table

Kind = Literal["count", "ratio", "rate"]
#: Expression: a number, a name, or (operator, left, right).
Node: TypeAlias = "float | str | tuple[str, Node, Node]"
_TOKEN = regex.compile(r"\s*(?:(\d+(?:\.\d+)?)|([A-Za-z_]\w*)|([-+*/(),]))")


@dataclass(frozen=True)
class Choice:
    """One way to get at a quantity: on which architectures, and how."""

    on: tuple[str, ...]
    off: tuple[str, ...]
    expression: Node
    estimate: bool = False

    def fits(self, arch: str | None) -> bool:
        """Whether the choice holds for an architecture; None is an unknown one."""
        return matches(arch, self.on) and not (arch and matches(arch, self.off))


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
    data = toml_table("traceroof.parsers.amd", "counters.toml")
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


def matches(arch: str | None, patterns: Sequence[str]) -> bool:
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
