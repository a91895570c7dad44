"""A comparison of some kernels: their verdicts as judged among all, with the shares of the whole."""

from collections.abc import Sequence
from dataclasses import replace

from traceroof.compare import Comparison, Overall
from traceroof.compare.changes import Change
from traceroof.core.selection import Narrowed, choose
from traceroof.core.units import count
from traceroof.diagnosis.diagnosis import Diagnosis, KernelGroup
from traceroof.diagnosis.findings import Finding
from traceroof.errors import TraceroofError


def narrowed(comparison: Comparison, wanted: str) -> Comparison:
    """The comparison of the kernels that ``wanted`` means: a number of the head's kernel table, a part
    of the name on either side, or a pattern.

    Every verdict stays as it was judged among all kernels, every share keeps its base; the overall
    verdict is that of these kernels. Raises TraceroofError where no kernel is meant.
    """
    places = _meant(comparison, wanted)
    kernels = tuple(comparison.kernels[at] for at in places)
    before = 1 + len(comparison.categories)
    moved = {before + at: before + now for now, at in enumerate(places)}
    return replace(
        comparison,
        kernels=kernels,
        verdict=_overall(kernels, comparison),
        findings=tuple(
            replace(one, subject_index=moved[one.subject_index])
            for one in comparison.findings
            if one.subject_index in moved
        ),
        hidden_findings=0,
        appeared=_on(comparison.appeared, comparison.head, _groups(kernels, "head")),
        resolved=_on(comparison.resolved, comparison.base, _groups(kernels, "base")),
        narrowed=Narrowed(wanted.strip(), len(kernels), len(comparison.kernels)),
    )


def _meant(comparison: Comparison, wanted: str) -> tuple[int, ...]:
    """The changes by the number in the head, or by the name of either side: a fix may have renamed the
    kernel."""
    changes = comparison.kernels
    if (number := wanted.strip().removeprefix("#")).isdecimal():
        found = tuple(
            at
            for at, one in enumerate(changes)
            if any(group.number == int(number) for group in _groups([one], "head"))
        )
        if found:
            return found
        there = count(len(comparison.head.kernels), "kernel")
        raise TraceroofError(
            f"there is no kernel {int(number)} in {comparison.head.run_name}, which has {there}",
            "`traceroof diagnose` of the head numbers them",
        )
    names = [
        "\n".join(dict.fromkeys((one.name, *(group.kernel for group in _of(one)))))
        for one in changes
    ]
    return choose(
        wanted,
        names,
        one="kernel",
        many="kernels",
        numbered_by="`traceroof compare` lists them, largest change first",
    )


def _of(change: Change) -> tuple[KernelGroup, ...]:
    return (*change.pair.head, *change.pair.base) if change.pair else ()


def _groups(changes: Sequence[Change], side: str) -> list[KernelGroup]:
    return [group for one in changes if one.pair for group in getattr(one.pair, side)]


def _on(
    findings: Sequence[Finding], diagnosis: Diagnosis, groups: Sequence[KernelGroup]
) -> tuple[Finding, ...]:
    """The findings on these kernels."""
    return tuple(
        one
        for one in findings
        if one.scope == "kernel"
        and one.subject_index is not None
        and diagnosis.kernels[one.subject_index] in groups
    )


def _overall(kernels: Sequence[Change], comparison: Comparison) -> Overall:
    """One verdict on several kernels: a slower one counts, an undecided one leaves it open."""
    if not comparison.compared:
        return "not-comparable"
    words = {one.verdict for one in kernels}
    if "regressed" in words:
        return "regressed"
    if words <= {"improved", "unchanged", "gone"}:
        return "improved" if words - {"unchanged"} else "unchanged"
    return "inconclusive"
