"""What more than its samples decides of a verdict: counters, clocks, the kernels of a whole, the wall."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from traceroof.compare.changes import Change
from traceroof.compare.noise_threshold import Thresholds
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.diagnosis.findings import Finding

# What one run per side decides: counters that come out the same however long a launch takes.
_COUNTER_RULES = frozenset(
    {"cmp-count-changed", "cmp-bytes-up", "cmp-flops-up", "cmp-registers-up", "cmp-spills-appeared"}
)
_CLOCK_RULE = "cmp-clock-explains"
_DECIDED = ("regressed", "improved", "unchanged")


def settled_kernels(
    kernels: Sequence[Change], findings: Sequence[Finding], skip: int, *, lone: bool
) -> list[Change]:
    """The kernels' verdicts with what rules know: a clock that explains a change takes the
    verdict back; where no times can be judged, counters that got worse give one.

    skip: subjects of the findings before the first kernel. lone: a side has one run.
    """
    fired: dict[int, dict[str, Finding]] = {}
    for finding in findings:
        if finding.state == "fired" and finding.subject_index is not None:
            fired.setdefault(finding.subject_index - skip, {})[finding.rule] = finding
    return [_settled(one, fired.get(at, {}), lone) for at, one in enumerate(kernels)]


def _settled(change: Change, fired: Mapping[str, Finding], lone: bool) -> Change:
    clock = fired.get(_CLOCK_RULE)
    if clock and change.verdict in ("regressed", "improved"):
        return _open(change, clock.because)
    if lone and change.verdict in ("unchanged", "inconclusive"):
        worse = [
            one for one in fired.values() if one.rule in _COUNTER_RULES and one.severity != "info"
        ]
        if worse:
            return replace(change, verdict="regressed", basis="counters", reason="")
    return change


def settled_whole(
    total: Change,
    kernels: Sequence[Change],
    sides: tuple[Diagnosis, Diagnosis],
    limits: Thresholds,
    *,
    lone: bool,
) -> Change:
    """The whole of a run without steps: of single runs no better founded than its kernels, and no
    verdict against the wall time."""
    founded = _founded(total, kernels, sides) if lone else total
    return _not_against_the_wall(founded, wall_times(*sides), limits)


def _founded(
    total: Change, kernels: Sequence[Change], sides: tuple[Diagnosis, Diagnosis]
) -> Change:
    """Where no kernel is paired, two programs were measured; where a counter tool timed single
    kernels and none has a verdict, their sum has none either."""
    if total.verdict not in ("regressed", "improved"):
        return total
    if all(one.verdict in ("new", "gone") for one in kernels):
        return _open(total, "the runs have no kernel in common")
    is_counted = all(one.time_basis == "counter-tool" for one in sides)
    if is_counted and not any(one.verdict in _DECIDED for one in kernels):
        return _open(total, "a counter tool timed each kernel alone, and no kernel has a verdict")
    return total


def wall_times(base: Diagnosis, head: Diagnosis) -> tuple[float, float] | None:
    """The wall times of two timelines, ns; a counter tool's launches pass one by one, between passes."""
    if {base.time_basis, head.time_basis} != {"timeline"}:
        return None
    one, other = base.totals.wall_ns, head.totals.wall_ns
    return (float(one), float(other)) if one and other else None


def _not_against_the_wall(
    total: Change, walls: tuple[float, float] | None, limits: Thresholds
) -> Change:
    """The kernel time is no verdict on a run whose wall time went the other way, or moved alone by
    what a single run would have to show."""
    if walls is None or total.verdict not in _DECIDED:
        return total
    moved = (walls[1] / walls[0] - 1) * 100
    least = limits.single_percent if total.verdict == "unchanged" else limits.total_percent
    against = {"regressed": moved <= -least, "improved": moved >= least}
    if not against.get(total.verdict, abs(moved) >= least):
        return total
    return _open(
        total,
        f"the wall time changed by {moved:+.1f} %, but the kernel time did not change with it",
    )


def _open(change: Change, reason: str) -> Change:
    """The change without a verdict, and why."""
    return replace(change, verdict="inconclusive", basis=None, reason=reason)
