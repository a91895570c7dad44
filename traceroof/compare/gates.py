"""Does this comparison pass? The gates of ``compare --fail-on``."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import get_args

from traceroof.compare import Comparison
from traceroof.compare.verdicts import UNKNOWN_TIMES
from traceroof.core.kernel_names import function
from traceroof.core.units import one_line
from traceroof.errors import TraceroofError
from traceroof.rule import SEVERITIES, Severity

_OF_TIMES = ("regression", "inconclusive")
_FINDING = "finding:"
# Times that nothing tests against noise: of one run a side they only explain.
_UNTESTED = ("cmp-idle-up", "cmp-exposed-comm-up", "cmp-mix-shift")
# An info only tells: a gate on it would fail on good news.
_SEVERITIES = tuple(one for one in get_args(Severity) if one != "info")


def checked(gates: Iterable[str], rules: Sequence[str]) -> tuple[str, ...]:
    """The gates as given. Raises TraceroofError for one that does not exist.

    rules: ids of all rules, for ``finding:ID``.
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
                raise TraceroofError(f"--fail-on {gate}: no rule is called {rule}", hint)
        elif gate not in (*_OF_TIMES, *_SEVERITIES):
            raise TraceroofError(
                f"--fail-on {gate} is no gate",
                f"regression, inconclusive, finding:ID, or a severity: {', '.join(_SEVERITIES)}",
            )
    return found


def failures(comparison: Comparison, gates: Sequence[str]) -> list[str]:
    """Why the comparison does not pass, a sentence each; empty where it passes.

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
            found += _verdict(comparison, gate)
        elif gate.startswith(_FINDING):
            found += _finding(comparison, gate.removeprefix(_FINDING))
        else:
            found += _severe(comparison, gate)
    return found


def _verdict(comparison: Comparison, gate: str) -> list[str]:
    if gate == "inconclusive":
        inconclusive = comparison.verdict == "inconclusive"
        return [f"inconclusive: {comparison.total.reason}"] if inconclusive else []
    # What was not timed may have become slower: that is no pass.
    if comparison.verdict != "regressed" and comparison.total.reason == UNKNOWN_TIMES:
        return [f"{comparison.total.name} cannot be judged: {UNKNOWN_TIMES}"]
    if comparison.verdict != "regressed":
        return []
    slower = [_name(one.name) for one in comparison.of("regressed")]
    slower += [
        f"category {one.name}" for one in comparison.categories if one.verdict == "regressed"
    ]
    if comparison.total.verdict == "regressed":
        slower.insert(0, comparison.total.name)
    more = f" and {len(slower) - _NAMED} more" if len(slower) > _NAMED else ""
    return [f"regression: {', '.join(slower[:_NAMED])}{more}"]


_NAMED = 3


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
