"""What ``compare`` answers: the delta after an edit."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from traceroof.compare import Comparison
from traceroof.compare.changes import Change
from traceroof.compare.verdicts import Word
from traceroof.core.facts import whole
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.diagnosis.findings import Finding
from traceroof.mcp.answers import Answer

# Of a name, so much tells kernels apart; of what did not move, so much is worth a line.
_NAME = 160
_UNMOVED = 5
_MOVED: tuple[Word, ...] = ("regressed", "improved", "new", "gone")
_LISTS = ("moved", "open", "unmoved", "reasons", "new_findings", "gone_findings")


def compared(made: Comparison) -> Answer:
    """A comparison: what moved, what cannot be told, what did not move, and why."""
    base, head = made.samples
    needs = None
    if made.verdict == "inconclusive":
        needs = {
            "because": made.why_open,
            "runs_a_side": made.limits.runs,
            "runs_of_base": base if made.sampled == "runs" else 1,
            "runs_of_head": head if made.sampled == "runs" else 1,
        }
    top = {
        "base": _side(made.base),
        "head": _side(made.head),
        "narrowed": asdict(made.narrowed) if made.narrowed else None,
        "verdict": made.verdict,
        "needs": needs,
        "differences": [asdict(one) for one in made.differences][:6],
        "per": made.per,
        "total": _change(made.total),
        "wall_ns": [whole(one) for one in made.wall_ns] if made.wall_ns else None,
        "counts": {word: count for word, count in made.to_dict(top=0)["counts"].items() if count},
        "counts_from": {
            "percent_of_own_time": made.limits.percent,
            "percent_of_kernel_time": made.limits.share_pct,
        },
    }
    return Answer(top, list(_parts(made)), _LISTS)


def _parts(made: Comparison) -> Iterable[tuple[str, Any]]:
    for one in made.of(*_MOVED):
        yield "moved", _kernel(made, one)
    for one in made.of("inconclusive", "not-compared"):
        yield "open", _kernel(made, one)
    rest = sorted(made.of("unchanged"), key=lambda one: -one.slower_ns)
    for one in rest if made.narrowed else rest[:_UNMOVED]:
        yield "unmoved", _kernel(made, one)
    for finding in made.fired():
        yield "reasons", _finding(finding)
    for finding in made.appeared:
        yield "new_findings", _finding(finding)
    for finding in made.resolved:
        yield "gone_findings", _finding(finding)


def _side(diagnosis: Diagnosis) -> dict[str, Any]:
    return {"id": diagnosis.run_id, "name": diagnosis.run_name}


def _change(one: Change) -> dict[str, Any]:
    ratio, base, head = one.ratio, one.base, one.head
    return {
        "name": one.name if len(one.name) <= _NAME else f"{one.name[: _NAME - 1]}…",
        "verdict": one.verdict,
        "by": one.basis,
        "because": one.reason or None,
        "base_ns": whole(base.median_ns),
        "head_ns": whole(head.median_ns),
        "delta_ns": whole(one.delta_ns),
        "delta_pct": None if ratio is None or one.delta_ns is None else _pct(ratio - 1),
        "interval_ns": None
        if one.low_ns is None or one.high_ns is None
        else [whole(one.low_ns), whole(one.high_ns)],
        "detectable_pct": None if one.detectable is None else _pct(one.detectable),
        "noise_pct": None if one.noise is None else _pct(one.noise),
        "launches": [base.launches, head.launches],
    }


def _pct(share: float) -> float:
    return round(share * 100, 3)


def _kernel(made: Comparison, one: Change) -> dict[str, Any]:
    """A kernel on both sides: times, what bounds it, and the counters that changed."""
    found = _change(one) | {
        "category": one.category,
        "share_of_base": one.share,
        "delta_of_kernel_time": one.of_total,
        "q": one.q,
        "why": [finding.because for finding in made.about(one)][:3],
    }
    if one.pair is None:
        return found
    classes = [group.primary_class for group in (*one.pair.base[:1], *one.pair.head[:1])]
    return found | {"class": classes, "paired_by": one.pair.by}


def _finding(one: Finding) -> dict[str, Any]:
    return {
        "rule": one.rule,
        "subject": one.subject[:_NAME],
        "severity": one.severity,
        "bound_ns": one.time_saved_bound_ns,
        "because": one.because,
        "fix": one.fix or None,
    }
