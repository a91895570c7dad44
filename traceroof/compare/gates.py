"""Does this comparison pass? The gates of ``compare --fail-on``."""

from collections.abc import Iterable, Sequence
from datetime import date
from difflib import get_close_matches
from typing import get_args

from traceroof.compare import Comparison
from traceroof.compare.accepted import acceptance
from traceroof.compare.changes import Change
from traceroof.compare.reasons import UNKNOWN_TIMES
from traceroof.core.kernel_names import function
from traceroof.core.units import one_line
from traceroof.errors import TraceroofError
from traceroof.rule import SEVERITIES, Severity

_OF_TIMES = ("regression", "inconclusive")
_FINDING = "finding:"
# Times that nothing tests against noise: of one run per side they only explain.
_UNTESTED = ("cmp-idle-up", "cmp-exposed-comm-up", "cmp-mix-shift")
# An info only tells: a gate on it would fail on good news.
_SEVERITIES = tuple(one for one in get_args(Severity) if one != "info")


def checked(
    gates: Iterable[str], rules: Sequence[str], origin: str = "--fail-on"
) -> tuple[str, ...]:
    """The gates as given. Raises TraceroofError for one that does not exist.

    rules: ids of all rules, for ``finding:ID``. origin: where the gates were set.
    """
    found = tuple(gates)
    for gate in found:
        if gate.startswith(_FINDING):
            rule = gate.removeprefix(_FINDING)
            if rule not in rules:
                near = get_close_matches(rule, rules, n=3)
                hint = (
                    f"did you mean {', '.join(near)}?" if near else "`traceroof rules` lists them"
                )
                raise TraceroofError(f"{origin} {gate}: no rule is called {rule}", hint)
        elif gate not in (*_OF_TIMES, *_SEVERITIES):
            near = get_close_matches(gate, (*_OF_TIMES, *_SEVERITIES), n=1)
            listed = (
                f"regression, inconclusive, finding:ID, or a severity: {', '.join(_SEVERITIES)}"
            )
            raise TraceroofError(
                f"{origin} {gate} is no gate", f"did you mean {near[0]}?" if near else listed
            )
    return found


def failures(comparison: Comparison, gates: Sequence[str], today: date | None = None) -> list[str]:
    """Why the comparison does not pass, a sentence each; empty where it passes.

    today: by which accepted regressions expire; the day of the call by default.

    Raises TraceroofError for a gate on times where times do not compare: that is no pass.
    """
    found: list[str] = []
    for gate in gates:
        if gate in _OF_TIMES:
            if not comparison.compared:
                apart = "; ".join(str(one) for one in comparison.differences if one.blocks)
                raise TraceroofError(
                    f"--fail-on {gate} cannot be decided: {apart}",
                    "measure both sides alike; --force compares the times all the same",
                )
            found += _verdict(comparison, gate, today or date.today())
        elif gate.startswith(_FINDING):
            found += _finding(comparison, gate.removeprefix(_FINDING))
        else:
            found += _severe(comparison, gate)
    return found


def _verdict(comparison: Comparison, gate: str, today: date) -> list[str]:
    if gate == "inconclusive":
        inconclusive = comparison.verdict == "inconclusive"
        return [f"inconclusive: {comparison.why_open}"] if inconclusive else []
    # What was not timed may have become slower: that is no pass.
    untimed = [one for one in comparison.decided_by if one.reason == UNKNOWN_TIMES]
    if comparison.verdict != "regressed" and untimed:
        return [f"{_said(untimed[0])} cannot be judged: {UNKNOWN_TIMES}"]
    if comparison.verdict != "regressed":
        return []
    known = acceptance(comparison, today)
    slower = [_said(one) for one in known.remaining(comparison)]
    if not slower:
        return []
    more = f" and {len(slower) - _NAMED} more" if len(slower) > _NAMED else ""
    return [
        f"regression: {', '.join(slower[:_NAMED])}{more}",
        *(
            f"the regression of {_name(change.name)} was accepted until {entry.until}: "
            f"{entry.reason}"
            for change, entry in known.expired
        ),
    ]


def accepted(comparison: Comparison, today: date | None = None) -> list[str]:
    """What of the comparison the settings accept, and which of their entries fit nothing."""
    known = acceptance(comparison, today or date.today())
    return [
        *(
            f"accepted: {_name(change.name)} got slower"
            f"{f', until {entry.until}' if entry.until else ''}: {entry.reason}"
            for change, entry in known.accepted
        ),
        *(
            f"accept {entry.kernel}: no regression matches, remove this entry"
            for entry in known.unused
        ),
    ]


_NAMED = 3


def _said(change: Change) -> str:
    if change.level == "kernel":
        return _name(change.name)
    return f"category {change.name}" if change.level == "category" else change.name


def _name(kernel: str) -> str:
    return one_line(function(kernel)).split("<")[0]


def _finding(comparison: Comparison, rule: str) -> list[str]:
    """A finding of the comparison, or one of the diagnosis that only the head has."""
    fired = [*comparison.fired(), *comparison.appeared]
    return [f"{rule}: {one.because}" for one in fired if one.rule == rule][:_NAMED]


def _severe(comparison: Comparison, gate: str) -> list[str]:
    least = SEVERITIES.index(gate)
    untested = _UNTESTED if comparison.lone else ()
    fired = [
        *(one for one in comparison.fired() if one.rule not in untested),
        *comparison.appeared,
    ]
    severe = [one for one in fired if SEVERITIES.index(one.severity) <= least]
    return [f"{one.rule} ({one.severity}): {one.because}" for one in severe][:_NAMED]
