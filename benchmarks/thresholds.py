"""Thresholds of rules, moved where they stand: an independent check of ``traceroof.sensitivity``.

``sensitivity`` moves columns and knows no threshold. Here each threshold of a rule, and each other
number in its compiled condition (literals, constants of its module, numbers that a family of rules closes over, the same in
the helpers that it calls) is moved by a tenth, one at a time. A finding of the first five that goes
when a number moves must say that it is near its threshold.
"""

import dis
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from types import CellType, CodeType, FunctionType
from typing import Any

import traceroof
from traceroof.core.facts import Facts
from traceroof.core.thresholds import Threshold
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.diagnosis.find import find_all
from traceroof.diagnosis.findings import Context, Finding
from traceroof.errors import TraceroofError
from traceroof.kernels import bound_class
from traceroof.plugins import rules
from traceroof.rule import Rule, Scope, judge
from traceroof.scopes.subjects import Subjects

STEPS = (1.1, 0.9)
TOP = 5

# Literals that convert units; a constant with a name is a threshold whatever its value.
_UNITS = (100, 1_000, 1_000_000, 1_000_000_000)
_SMALL = 4  # whole numbers up to here are counts, flags and factors, as in sensitivity


def _is_number(value: Any) -> bool:
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return plain and not (value == round(value) and abs(value) <= _SMALL)


def _is_threshold(value: Any) -> bool:
    """Of a literal: a number that converts no unit."""
    return _is_number(value) and value not in _UNITS


@cache
def _versions(code: CodeType) -> set[int]:
    """Places of literals that a compute capability is compared with: they name architectures."""
    steps = list(dis.get_instructions(code))
    return {
        after.arg
        for step, after in pairwise(steps)
        if step.argval == "compute_capability" and after.opname == "LOAD_CONST"
        if after.arg is not None
    }


def _is_helper(value: Any) -> bool:
    return isinstance(value, FunctionType) and value.__module__.startswith("traceroof.rules")


def moved(function: Callable[..., Any], factor: float) -> Iterator[Callable[..., Any]]:
    """The function once for every number in it and in what it calls, that number moved."""
    if isinstance(function, partial):
        for other in moved(function.func, factor):
            yield partial(other, *function.args, **function.keywords)
        return
    assert isinstance(function, FunctionType)
    code, names = function.__code__, function.__globals__
    versions = _versions(code)
    for position, literal in enumerate(code.co_consts):
        if _is_threshold(literal) and position not in versions:
            number: Any = literal
            changed = (*code.co_consts[:position], number * factor, *code.co_consts[position + 1 :])
            yield _made(function, code.replace(co_consts=changed))
    for name in code.co_names:
        value: Any = names.get(name)
        if _is_number(value):
            yield _made(function, code, {**names, name: value * factor})
        elif _is_helper(value):
            for other in moved(value, factor):
                yield _made(function, code, {**names, name: other})
    for position, cell in enumerate(function.__closure__ or ()):
        if _is_number(cell.cell_contents):
            cells = list(function.__closure__ or ())
            cells[position] = CellType(cell.cell_contents * factor)
            yield _made(function, code, closure=tuple(cells))


def moved_together(function: Callable[..., Any], factor: float) -> Callable[..., Any]:
    """The function with all numbers in it and in what it calls moved."""
    if isinstance(function, partial):
        whole = moved_together(function.func, factor)
        return partial(whole, *function.args, **function.keywords)
    assert isinstance(function, FunctionType)
    code, names = function.__code__, dict(function.__globals__)
    versions = _versions(code)
    literals = tuple(
        one * factor if _is_threshold(one) and position not in versions else one
        for position, one in enumerate(code.co_consts)
    )
    for name in code.co_names:
        value: Any = names.get(name)
        if _is_number(value):
            names[name] = value * factor
        elif _is_helper(value):
            names[name] = moved_together(value, factor)
    cells = tuple(
        CellType(one.cell_contents * factor) if _is_number(one.cell_contents) else one
        for one in function.__closure__ or ()
    )
    return _made(function, code.replace(co_consts=literals), names, cells or None)


def _made(
    function: FunctionType,
    code: CodeType,
    names: dict[str, Any] | None = None,
    closure: tuple[CellType, ...] | None = None,
) -> FunctionType:
    made = FunctionType(
        code,
        function.__globals__ if names is None else names,
        function.__name__,
        function.__defaults__,
        function.__closure__ if closure is None else closure,
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _limit(name: str, one: Threshold, factor: float) -> float:
    """A threshold moved by a factor; a percentage near all moves by what it leaves of the whole."""
    share = (one.column or name).endswith("_pct") and not one.of and one.value < 100
    if share and one.value * max(STEPS) > 100:
        return 100 - (100 - one.value) / factor
    return one.value * factor


def moved_rules(rule: Rule) -> Iterator[Rule]:
    """The rule once for every number in its condition, up and down."""
    for factor in STEPS:
        for name, one in rule.limits.items():
            if _is_threshold(one.value):  # not all of something
                yield rule.with_limits({name: _limit(name, one, factor)})
        for when in moved(rule.when, factor):
            yield replace(rule, when=when)
        if rule.applies is not None:
            for applies in moved(rule.applies, factor):
                yield replace(rule, applies=applies)


def _all_moved(rule: Rule, factor: float) -> Rule:
    limits = rule.limits.items()
    return replace(
        rule.with_limits(
            {name: _limit(name, one, factor) for name, one in limits if _is_threshold(one.value)}
        ),
        when=moved_together(rule.when, factor),
        applies=rule.applies and moved_together(rule.applies, factor),
    )


def moved_classes(facts: Facts, context: Context) -> Iterator[Facts]:
    """Kernel groups whose class was read with each threshold of the classes moved."""
    for factor in STEPS:
        for classed in moved(bound_class.primary_class, factor):
            primary = classed(facts, context.attainable)
            columns = {name: getattr(facts, name) for name in facts.names()}
            yield Facts({**columns, "primary_class": primary}, len(facts))


@dataclass
class Profile:
    """The first findings of one profile, and which of them a moved threshold takes away.

    entered: (rule, subject) of alarms, above "info", that come among the first where all thresholds
    move, and did not hold before.
    """

    name: str
    top: tuple[Finding, ...]
    lost: list[Finding] = field(default_factory=list)
    entered: set[tuple[str, str]] = field(default_factory=set)

    @property
    def unmarked(self) -> list[Finding]:
        """What would go without having said so."""
        return [one for one in self.lost if one.near_threshold is None]


@dataclass(frozen=True)
class Asked:
    """A diagnosis, with what the rules were held against."""

    found: Diagnosis
    scopes: Mapping[Scope, Subjects]
    context: Context


@cache
def asked(path: Path) -> Asked | None:
    """Diagnose the profile at a path; None where nothing there can be read."""
    try:
        found = traceroof.diagnose(path, calibrated=False)
    except TraceroofError:
        return None
    if found.grounds is None:
        return None
    return Asked(found, found.grounds.scopes, found.grounds.context)


def profiles(folder: Path) -> Iterator[Profile]:
    """Every profile below a folder of profiles that can be read."""
    others = [[_all_moved(rule, factor) for rule in rules()] for factor in STEPS]
    for path in sources(folder):
        one = asked(path)
        if one is None:
            continue
        fired = one.found.fired()
        profile = Profile(str(path.relative_to(folder)), fired[:TOP])
        profile.lost = [finding for finding in profile.top if _goes(finding, one)]
        known = {(finding.rule, finding.subject) for finding in fired}
        for every in others:
            moved_top = [
                finding
                for finding in find_all(every, one.scopes, one.context)[0]
                if finding.state == "fired"
            ][:TOP]
            profile.entered |= {
                (finding.rule, finding.subject)
                for finding in moved_top
                if finding.severity != "info"
            } - known
        yield profile


def sources(folder: Path) -> Iterator[Path]:
    """The files, and the folders that are one run, of the kinds that have parsers."""
    for kind in ("ncu_csv", "pair", "torch", "amd"):
        yield from sorted((folder / kind).iterdir())


def _goes(finding: Finding, asked_of: Asked) -> bool:
    facts, row = asked_of.scopes[finding.scope].facts, finding.subject_index
    rule = next(one for one in rules() if one.id == finding.rule)
    ceiling = asked_of.context.ceilings(finding.scope)[0]
    if row is None:
        return False
    if any(not judge(one, facts, ceiling).fired[row] for one in moved_rules(rule)):
        return True
    return finding.scope == "kernel" and any(
        not judge(rule, other, ceiling).fired[row]
        for other in moved_classes(facts, asked_of.context)
    )
