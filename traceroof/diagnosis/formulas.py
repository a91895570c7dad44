"""Calculations as people read them: a formula with names, the same with numbers, and a verdict.

``written`` gives one line of text for a ``Term``; ``checks`` takes a condition apart into the
comparisons that it is made of, each with its figures and whether it holds.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from traceroof.core.tracing import (
    CEILING,
    COLUMN,
    EACH,
    IS_UNKNOWN,
    NUMBER,
    ONE_OF,
    WHERE,
    Term,
)
from traceroof.core.units import quantity

UNKNOWN = "unknown"

# numpy's name -> sign and how strongly it binds.
_SIGNS = {
    "add": ("+", 1),
    "subtract": ("−", 1),
    "multiply": ("×", 2),
    "divide": ("/", 2),
    "remainder": ("mod", 2),
    "power": ("^", 3),
}
_COMPARISONS = {
    "greater": ">",
    "greater_equal": "≥",
    "less": "<",
    "less_equal": "≤",
    "equal": "=",
    "not_equal": "≠",
}
_OPPOSITE = {
    "greater": "less_equal",
    "greater_equal": "less",
    "less": "greater_equal",
    "less_equal": "greater",
    "equal": "not_equal",
    "not_equal": "equal",
}
_JOINS = {"bitwise_and": "all", "logical_and": "all", "bitwise_or": "any", "logical_or": "any"}
_NOT = ("invert", "logical_not")
_FUNCTIONS = {"fmax": "max", "maximum": "max", "fmin": "min", "minimum": "min"}
# What changes nothing as the second operand, and as the first where the order is free.
_IDENTITY = {"add": 0, "subtract": 0, "multiply": 1, "divide": 1}
_WORDS = {CEILING: " ceiling"}
_ATOM = 9


def number(value: Any) -> str:
    """A value as a formula shows it: four significant digits, whole from a thousand on."""
    if _is_unknown(value):
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return str(value) or '""'
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == int(value) and abs(value) < 1e15 or 1000 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value:.4g}".replace("e+", "e").replace("e0", "e").replace("e-0", "e-")


def written(term: Term, *, values: bool = False) -> str:
    """A term as one line: with the names of its columns, or with their values."""
    return _text(simplified(term), values)[0]


# Units in which quantities are written; anything else is a plain number.
_UNITS = frozenset({"ns", "byte", "byte/s", "FLOP", "FLOP/s", "Hz"})
_ANY, _MIXED = "any", "mixed"


def unit_of(term: Term) -> str:
    """The unit of a term: one of quantities, empty for a plain number, "any" for a number in the
    formula, which takes the unit of what it stands beside, "mixed" where that cannot be said."""
    if term.op == NUMBER:
        return _ANY
    if not term.args:
        return term.unit if term.unit in _UNITS else ""
    units = [unit_of(arg) for arg in term.args]
    if term.op in ("add", "subtract", "absolute", "negative") or term.op in _FUNCTIONS:
        return _same(units)
    if _MIXED in units or term.op not in ("multiply", "divide"):
        return "" if term.op in (EACH, "ceil", "floor", "remainder") else _MIXED
    first, second = ("" if unit == _ANY else unit for unit in units)
    if term.op == "divide":
        return first if not second else "" if first == second else _MIXED
    return _MIXED if first and second else first or second


def _same(units: Iterable[str]) -> str:
    kinds = {unit for unit in units if unit != _ANY}
    if len(kinds) > 1:
        return _MIXED
    return kinds.pop() if kinds else _ANY


def simplified(term: Term) -> Term:
    """The same calculation without what does not matter for this subject: the branch not taken,
    what is unknown to a ``max`` of others, arithmetic between plain numbers."""
    args = tuple(simplified(arg) for arg in term.args)
    if term.op == WHERE:
        return args[1] if args[0].value else args[2]
    if term.args and all(arg.op == NUMBER for arg in args) and term.op not in _JOINS:
        return Term(NUMBER, (), term.value)
    if term.op in _FUNCTIONS or term.op in _JOINS:
        args = tuple(_merged(term.op, args))
        if term.op in _JOINS:
            args = _without(args, neutral=_JOINS[term.op] == "all")
        elif term.op in ("fmax", "fmin") and not _unknown(term):
            args = tuple(arg for arg in args if not _unknown(arg))
        if len(args) == 1:
            return args[0]
    if term.op in _NOT and args[0].op in _NOT:
        return args[0].args[0]
    if term.op in _IDENTITY:
        idle = _IDENTITY[term.op]
        if args[1].op == NUMBER and args[1].value == idle:
            return args[0]
        if term.op in ("add", "multiply") and args[0].op == NUMBER and args[0].value == idle:
            return args[1]
    return replace(term, args=args)


def _merged(op: str, args: Iterable[Term]) -> Iterable[Term]:
    alike = _FUNCTIONS if op in _FUNCTIONS else _JOINS
    for arg in args:
        if arg.op in alike and alike[arg.op] == alike[op]:
            yield from arg.args
        else:
            yield arg


def _without(args: tuple[Term, ...], *, neutral: bool) -> tuple[Term, ...]:
    """The parts of an "and" or "or" without plain truths that change nothing."""
    kept = tuple(arg for arg in args if not (arg.op == NUMBER and arg.value == neutral))
    return kept or args[:1]


def _text(term: Term, values: bool, unit: str = "") -> tuple[str, int]:
    """The text of a simplified term, and how strongly it binds.

    unit: in which its numbers are written; plain where empty.
    """
    if term.op == NUMBER:
        return _number(term.value, unit), _ATOM
    if term.op in (COLUMN, CEILING, EACH):
        shown = _number(term.value, unit) if values else term.name + _WORDS.get(term.op, "")
        return shown, _ATOM
    if term.op in _SIGNS:
        sign, strength = _SIGNS[term.op]
        left, right = (_text(arg, values, _passed(term, arg, unit)) for arg in term.args)
        one = _in_brackets(left, left[1] < strength)
        # Neither a difference nor a quotient may be regrouped.
        other = _in_brackets(right, right[1] < strength + (term.op not in ("add", "multiply")))
        return f"{one} {sign} {other}", strength
    if term.op in _COMPARISONS:
        first, second = (_text(arg, values)[0] for arg in term.args)
        return f"{first} {_COMPARISONS[term.op]} {second}", 0
    if term.op in _JOINS:
        word = " and " if _JOINS[term.op] == "all" else " or "
        return word.join(_in_brackets(_text(arg, values), True) for arg in term.args), 0
    if term.op in _NOT:
        return f"not {_in_brackets(_text(term.args[0], values), True)}", 0
    if term.op == IS_UNKNOWN:
        return f"{_text(term.args[0], values)[0]} is unknown", 0
    if term.op == ONE_OF:
        return f"{_text(term.args[0], values)[0]} is {_choices(term.choices)}", 0
    if term.op == "absolute":
        return f"|{_text(term.args[0], values, unit)[0]}|", _ATOM
    if term.op == "negative":
        return f"−{_in_brackets(_text(term.args[0], values), True)}", 3
    inner = ", ".join(_text(arg, values, _passed(term, arg, unit))[0] for arg in term.args)
    return f"{_FUNCTIONS.get(term.op, term.op)}({inner})", _ATOM


def _passed(term: Term, arg: Term, unit: str) -> str:
    """The unit of a part of a term that is written in ``unit``: of a product, what carries it."""
    if not unit or unit_of(arg) == unit:
        return unit
    return unit if term.op not in ("multiply", "divide") and unit_of(arg) == _ANY else ""


def _number(value: Any, unit: str) -> str:
    return quantity(value, unit) if unit and not _is_unknown(value) else number(value)


def _in_brackets(part: tuple[str, int], needed: bool) -> str:
    text, strength = part
    return f"({text})" if needed and strength < _ATOM else text


def _choices(choices: tuple[str, ...]) -> str:
    return choices[0] if len(choices) == 1 else f"one of {', '.join(choices)}"


@dataclass(frozen=True)
class Check:
    """One comparison of a condition, or several joined.

    text: the comparison with names, of a joint what must hold of its parts. figures: the same with
    numbers. holds: whether it does. parts: what it joins, empty for a comparison.
    """

    text: str
    figures: str
    holds: bool
    join: Literal["", "all", "any"] = ""
    parts: tuple["Check", ...] = ()


def checks(term: Term) -> tuple[Check, ...]:
    """The comparisons that must all hold for a condition to hold."""
    check = _check(simplified(term), wanted=True)
    return check.parts if check.join == "all" else (check,)


def _check(term: Term, *, wanted: bool) -> Check:
    """A simplified condition that must be ``wanted``, as a check."""
    if term.op in _NOT:
        return _check(term.args[0], wanted=not wanted)
    holds = bool(term.value) == wanted
    if term.op in _JOINS:
        # Not (a and b) is not a or not b.
        join: Literal["all", "any"] = "all" if (_JOINS[term.op] == "all") == wanted else "any"
        made = [_check(arg, wanted=wanted) for arg in term.args]
        flat: list[Check] = []
        for one in made:
            flat += one.parts if one.join == join else [one]
        return Check(f"{join} of these", "", holds, join, tuple(flat))
    return Check(*_comparison(term, wanted), holds)


def _comparison(term: Term, wanted: bool) -> tuple[str, str]:
    """One comparison with names and with numbers, turned round where it must not hold."""
    if term.op in _COMPARISONS:
        left = term.args[0]
        open_question = any(_unknown(arg) for arg in term.args)
        op = term.op if wanted else _OPPOSITE[term.op]
        unit = _same(unit_of(arg) for arg in term.args)
        unit = unit if unit in _UNITS else ""
        sides = (_text(arg, False, unit)[0] for arg in term.args)
        names = f" {_COMPARISONS[op]} ".join(sides)
        if open_question:
            # A comparison with what is unknown does not hold, and its opposite does not either.
            return (names if wanted else f"{names}, or unknown"), UNKNOWN
        if isinstance(left.value, str):
            return names, _text(left, True)[0] or '""'
        return names, f" {_COMPARISONS[op]} ".join(_figures(arg, unit) for arg in term.args)
    if term.op == IS_UNKNOWN:
        name = _text(term.args[0], False)[0]
        value = number(term.args[0].value)
        return f"{name} is {'unknown' if wanted else 'known'}", value
    if term.op == ONE_OF:
        name = _text(term.args[0], False)[0]
        if not wanted:
            none = "not" if len(term.choices) == 1 else "none of"
            return f"{name} is {none} {', '.join(term.choices)}", number(term.args[0].value)
        return f"{name} is {_choices(term.choices)}", number(term.args[0].value)
    text, figures = _text(term, False)[0], number(term.value)
    return (text if wanted else f"not {text}"), figures


def _figures(side: Term, unit: str) -> str:
    """A side of a comparison in numbers, and what it comes to."""
    text = _text(side, True, unit)[0]
    result = _number(side.value, unit)
    return text if text == result else f"{text} = {result}"


def _unknown(term: Term) -> bool:
    return _is_unknown(term.value)


def _is_unknown(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))
