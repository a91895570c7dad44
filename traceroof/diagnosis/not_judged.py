"""What could not be judged, and the few metrics that would decide most.

A rule that lacks a column can still fire if what is known of the kernel, completed by an example of
the rule that fires, makes it fire. Of those rules the ones are asked about that such kernels usually
need (``deciding.toml``), what could save most first.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from traceroof.core.facts import Facts, is_unknown_value
from traceroof.core.toml_tables import toml_table
from traceroof.core.units import count, percent
from traceroof.diagnosis import collect
from traceroof.diagnosis.diagnosis import Grounds, KernelGroup, KernelGroups
from traceroof.diagnosis.findings import HIDDEN_SHARE, Finding, NotJudged
from traceroof.rule import GRADES, Rule, judge

# So many metrics a profiler collects in a few passes; blocks of rocprof-compute and presets of
# hipprof take several runs of the program each.
_MOST = {"amd": 3, "hygon": 2}
_MOST_METRICS = 14
# So many rules at most, and none that is worth hardly anything.
_QUESTIONS = 4
_LEAST = 0.02
# The kernels with most time decide what is asked; a rule that could only save little of them is
# not worth a pass.
_KERNELS = 4
_WORTH = 0.03
# What was found already, as surely, counts less.
_KNOWN_TOPIC = 0.3
# Of a rule that cannot say what it saves without figures of this kernel, unless more time is idle.
_UNKNOWN_SAVING = 0.5
# The class comes before every rule: it says which of them matter.
_CLASS_WEIGHT = 2.0
#: The name under which the class of a kernel is asked about.
CLASS = "class"


@dataclass(frozen=True)
class _Question:
    """A rule that could still fire, or the class. weight: what the answer is worth, 0-1."""

    rule: str
    columns: tuple[str, ...]
    weight: float


def not_judged(
    kernels: KernelGroups,
    findings: Sequence[Finding],
    grounds: Grounds,
    only: int | None = None,
) -> NotJudged | None:
    """The classes and rules that lack something, with the command that collects what would decide
    most; None where nothing is missing.

    kernels: as the kernel groups of ``grounds``. only: the one that is asked about, by its place.
    """
    about = range(len(kernels)) if only is None else (only,)
    unclassed = [at for at in kernels.of_class("not-evaluable") if only in (None, at)]
    lacking = [
        one
        for one in findings
        if one.state == "not-evaluable"
        and one.scope == "kernel"
        and (only is None or one.subject_index == only)
    ]
    if not unclassed and not lacking:
        return None
    shares = kernels.facts.share_pct / 100
    parts = [_classes(shares[unclassed])] if unclassed else []
    if lacking:
        parts.append(count(len({one.rule for one in lacking}), "rule"))
    missing = dict.fromkeys(
        [name for at in unclassed for name in kernels.missing[at]]
        + [name for one in lacking for name in one.missing]
    )
    # What takes an unknown part of the time may take much of it.
    weighty = ~(shares < HIDDEN_SHARE) | (shares == 0)
    listed = [at for at in about if weighty[at] or only is not None]
    lacks = set(unclassed)
    rows = [at for at in listed if at in lacks] or listed
    tool = grounds.context.tool
    asked = _few(_questions(kernels, findings, grounds, rows[:_KERNELS]), tool)
    columns = dict.fromkeys(name for one in asked for name in one.columns)
    waiting = _lacking([one.rule for one in asked], unclassed, grounds)
    rows = [at for at in rows if at in waiting]
    return NotJudged(
        what=" and ".join(parts),
        missing=tuple(missing),
        decides=tuple(one.rule for one in asked),
        command=collect.command(
            columns,
            [kernels.names[at] for at in rows],
            vendor=tool,
            launches=int(max(kernels.facts.launches[rows], default=0)),
        ),
        columns=tuple(columns),
        kernels=tuple(kernels[at].number for at in rows[: collect.MOST_KERNELS]),
    )


def _lacking(asked: Sequence[str], unclassed: Sequence[int], grounds: Grounds) -> set[int]:
    """The kernel groups of which some of these rules, or the class, cannot be judged."""
    facts = grounds.scopes["kernel"].facts
    found = set(unclassed) if CLASS in asked else set()
    for rule in grounds.rules:
        if rule.id in asked:
            found.update(np.flatnonzero(judge(rule, facts).unjudged).tolist())
    return found


def _classes(shares: npt.NDArray[np.float64]) -> str:
    known = [one for one in shares if not np.isnan(one)]
    share = f" ({percent(sum(known))} of kernel time)" if known else ""
    return f"the class of {count(len(shares), 'kernel')}{share}"


def _few(questions: Sequence[_Question], tool: str | None) -> list[_Question]:
    """The questions worth most whose metrics fit into a few passes; each metric counts once."""
    most = _MOST.get(tool or "", _MOST_METRICS)
    asked: list[_Question] = []
    taken: set[str] = set()
    needs = [(one, set(collect.pieces(one.columns, tool))) for one in questions]
    open_ones = [(one, needed) for one, needed in needs if needed]
    for one, needed in sorted(open_ones, key=lambda pair: -pair[0].weight):
        if one.weight >= _LEAST and len(taken | needed) <= most:
            asked.append(one)
            taken |= needed
    return asked[:_QUESTIONS]


def _questions(
    kernels: KernelGroups,
    findings: Sequence[Finding],
    grounds: Grounds,
    rows: Sequence[int],
) -> list[_Question]:
    """What could still be said of some kernel groups, one question a rule."""
    asked = [_Asked.of(kernels[at], at, findings, grounds) for at in rows]
    total = sum(one.kernel.share or 0 for one in asked)
    parts = [(one.kernel.share or 0) / total if total else 1 / len(asked) for one in asked]
    found = [
        _Question(CLASS, one.class_lacks, _CLASS_WEIGHT * part)
        for one, part in zip(asked, parts, strict=True)
        if one.class_lacks
    ]
    lacking = {one.rule for one in findings if one.state == "not-evaluable" and not one.failed}
    rooms = [one.room for one in asked]
    for rule in grounds.rules:
        if rule.id in lacking and _asks(rule):
            savings = _could_save(rule, [one.known(rule) for one in asked], rooms)
            found += [
                _Question(rule.id, one.missing(rule), part * one.worth(rule, saved))
                for one, part, saved in zip(asked, parts, savings, strict=True)
                if saved >= _WORTH and one.listens(rule)
            ]
    return [
        _Question(
            rule,
            tuple(dict.fromkeys(name for one in same for name in one.columns)),
            sum(one.weight for one in same),
        )
        for rule in dict.fromkeys(one.rule for one in found)
        if (same := [one for one in found if one.rule == rule])
    ]


@dataclass(frozen=True)
class _Asked:
    """A kernel group that is asked about.

    usual: lists of rules that such kernels usually need. silenced: patterns of the rules that would
    say nothing more on it. sure: per topic that was found, how good the evidence is.
    """

    kernel: KernelGroup
    row: int
    facts: Facts
    usual: Sequence[Sequence[str]]
    silenced: frozenset[str]
    sure: Mapping[str, float]

    @staticmethod
    def of(
        kernel: KernelGroup, row: int, findings: Sequence[Finding], grounds: Grounds
    ) -> "_Asked":
        facts = grounds.scopes["kernel"].facts
        fired = {
            one.rule: one.topic
            for one in findings
            if one.state == "fired" and one.scope == "kernel" and one.subject_index == row
        }
        said = [rule for rule in grounds.rules if rule.id in fired]
        sure: dict[str, float] = {}
        for rule in said:
            topic = fired[rule.id]
            sure[topic] = max(sure.get(topic, 0.0), GRADES[rule.grade])
        silenced = frozenset(pattern for rule in said for pattern in rule.suppresses)
        return _Asked(kernel, row, facts, _usual(facts, row), silenced, sure)

    @property
    def class_lacks(self) -> tuple[str, ...]:
        """The columns that its class lacks, the level of memory among them, and its time."""
        if self.kernel.primary_class != "not-evaluable" or not self.kernel.missing:
            return ()
        level = () if self.facts.value("dram_pct", self.row) is not None else ("dram_pct",)
        time = ("duration_ns",) if self.kernel.time_ns is None else ()
        return tuple(dict.fromkeys((*self.kernel.missing, *level, *time)))

    @property
    def room(self) -> float:
        """What a rule could save that does not know: idle time, or half of it."""
        busiest = self.facts.value("busiest_pct", self.row)
        return max(_UNKNOWN_SAVING, 0.0 if busiest is None else 1 - busiest / 100)

    def known(self, rule: Rule) -> Mapping[str, Any]:
        values = {
            name: self.facts.value(name, self.row) for name in rule.columns if name in self.facts
        }
        return {name: value for name, value in values.items() if not is_unknown_value(value)}

    def missing(self, rule: Rule) -> tuple[str, ...]:
        known = self.known(rule)
        return tuple(name for name in rule.needs if name not in known)

    def listens(self, rule: Rule) -> bool:
        """Whether what the rule says would be heard."""
        if self.class_lacks and rule.role == "class":
            return False
        return not any(fnmatchcase(rule.id, pattern) for pattern in self.silenced)

    def worth(self, rule: Rule, saved: float) -> float:
        """What the answer of the rule is worth, 0-1."""
        prior = _prior(rule.id, self.usual)
        told = self.sure.get(rule.topic_of(self.kernel.category), 0.0) >= GRADES[rule.grade]
        return saved * GRADES[rule.grade] * prior * (_KNOWN_TOPIC if told else 1.0)


def _asks(rule: Rule) -> bool:
    """Whether the answer of a rule would name something to do."""
    return (
        rule.scope == "kernel" and rule.severity != "info" and not rule.doubts and not rule.yields
    )


def _could_save(
    rule: Rule, known: Sequence[Mapping[str, Any]], rooms: Sequence[float]
) -> list[float]:
    """Per kernel: the share of the time that a rule would name at most were the unknown columns
    those of one of its examples; 0 where it fires with none of them, or waits for none."""
    rows = tuple({**example, **given} for given in known for example in ({}, *rule.fires))
    judged = judge(rule, Facts.of(rows, rule.columns))
    each = 1 + len(rule.fires)
    saved = np.where(np.isnan(judged.saved), np.repeat(rooms, each), judged.saved)
    most = np.where(judged.fired, saved, 0.0).reshape(-1, each).max(axis=1)
    waits = judged.unjudged.reshape(-1, each)[:, 0]
    return [float(one) for one in np.where(waits, most, 0.0)]


@cache
def _kinds() -> Sequence[Mapping[str, Any]]:
    return tuple(toml_table("traceroof.diagnosis", "deciding.toml")["kind"])


def _usual(facts: Facts, row: int) -> list[Sequence[str]]:
    """What kernels of this kind usually suffer from: the lists of rules that fit it, else the list
    for every kernel."""

    def fits(kind: Mapping[str, Any]) -> bool:
        column = "primary_class" if kind["column"] == CLASS else kind["column"]
        return column in facts and facts.value(column, row) == kind["value"]

    # What its name says outranks its class.
    found = [
        ["", "", *kind["rules"]] if kind["column"] == CLASS else kind["rules"]
        for kind in _kinds()
        if fits(kind)
    ]
    return found or [kind["rules"] for kind in _kinds() if not kind["column"]]


def _prior(rule: str, usual: Iterable[Sequence[str]]) -> float:
    """How usual what a rule says is: 1 for the first of a list, less for each that follows, 0 for others."""
    places = [
        at for listed in usual for at, pattern in enumerate(listed) if fnmatchcase(rule, pattern)
    ]
    return max((1 / (1 + at / 4) for at in places), default=0.0)
