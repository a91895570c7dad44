"""The timelines of a run in a few words: busy, idle and why, communication, steps, ranks."""

from collections.abc import Mapping, Sequence

import numpy as np

from traceroof.core.units import count, percent, quantity
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.diagnosis.headline import no_shares
from traceroof.report.run.rank_lines import rank_lines
from traceroof.timeline import Gap, Timeline
from traceroof.timeline.ranks import RESIDUAL_LIMIT_NS, Ranks

# Causes of idle time in a reader's words; those of ``timeline.CAUSES``.
_BEFORE = "start_wait"
_CAUSES: Mapping[str, str] = {
    "back_to_back": "between kernels",
    "cold": "cold start",
    "copy": "waiting for a copy",
    "data_loader": "waiting for data",
    "load": "module loading or compilation",
    "collect": "garbage collection",
    "allocate": "memory allocation",
    "sync": "after a host synchronisation",
    "communication": "behind a collective",
    "profiler": "the profiler",
    "host": "host-bound",
    "launch": "launch overhead",
    "dependency": "queued behind an event",
    "unknown": "launch not recorded",
    _BEFORE: "queued behind work that was not recorded",
}

# From here on a wait at the very start is what the busy share is about.
_MOST_WAITS = 0.5
# A part of the span below this is not worth a word.
_WORTH = 0.01
_CAUSES_SHOWN = 4
# From here on the GPU itself is the limit, and only its kernels can be improved.
_FULL = 0.95


def timeline_lines(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """(label, text) pairs, six and what is to be said of ranks; none where the run has no timeline."""
    found = diagnosis.timelines
    span = sum(one.span_ns for one in found)
    if not span:
        return []
    label = "GPU" if len(found) == 1 else "GPUs"
    if reason := no_shares(diagnosis.advice):
        return [
            (label, _recorded(found, reason)),
            *([("Steps", text)] if (text := _steps(found)) else []),
        ]
    lines = [
        (label, _busy(found, span)),
        ("Idle", _idle(found, span)),
        ("Gaps", _gaps(found)),
        ("Moving data", _moving(found, span)),
        ("Steps", _steps(found)),
        ("Ranks", _ranks(diagnosis.ranks)),
        *rank_lines(diagnosis.ranks),
    ]
    return [(label, text) for label, text in lines if text]


def _recorded(found: Sequence[Timeline], reason: str) -> str:
    number = sum(int(one.facts.get("activities", 0)) for one in found)
    number_of = f"{len(found)}, " if len(found) > 1 else ""
    over = _times([one.span_ns for one in found])
    return f"{number_of}{count(number, 'activity', 'activities')} in {over}: {reason}"


def _busy(found: Sequence[Timeline], span: int) -> str:
    busy = sum(one.busy_ns for one in found)
    exposed = sum(one.exposed_communication_ns + one.exposed_memcpy_ns for one in found)
    if len(found) == 1:
        text = f"busy {percent(busy / span)} of {quantity(span, 'ns')}"
    else:
        shares = [one.busy_ns / one.span_ns for one in found if one.span_ns]
        text = (
            f"{len(found)}, busy {_range(percent(min(shares)), percent(max(shares)))} "
            f"of {_times([one.span_ns for one in found])}"
        )
    before = sum(_start_wait(one) for one in found)
    if before >= _MOST_WAITS * span:
        text += f"; after a wait for work that was not recorded, {percent(busy / (span - before))}"
    elif busy - exposed >= _FULL * span:
        text += ": its kernels are the limit"
    return text


def _start_wait(one: Timeline) -> int:
    """How long the GPU waited, at the very start, for work from before the recording. ns."""
    return min(int(one.facts.get("start_wait_ns", 0)), one.idle_by_cause.get("dependency", 0))


def _times(times: Sequence[int]) -> str:
    return _range(quantity(min(times), "ns"), quantity(max(times), "ns"))


def _range(least: str, most: str) -> str:
    return least if least == most else f"{least} to {most}"


def _idle(found: Sequence[Timeline], span: int) -> str:
    text = percent(sum(one.idle_ns for one in found) / span)
    causes = {
        cause: sum(one.idle_by_cause.get(cause, 0) for one in found) / span for cause in _CAUSES
    }
    causes[_BEFORE] = sum(_start_wait(one) for one in found) / span
    causes["dependency"] -= causes[_BEFORE]
    ranked = sorted(causes.items(), key=lambda one: -one[1])[:_CAUSES_SHOWN]
    worth = [f"{_CAUSES[cause]} {percent(share)}" for cause, share in ranked if share >= _WORTH]
    return f"{text}: {', '.join(worth)}" if worth else text


# Gaps below this are no pause: the causes above say enough.
_GAP_NS = 1_000_000
_GAPS_SHOWN = 3
_NAME = 48


def _gaps(found: Sequence[Timeline]) -> str:
    """The longest gaps, each with its parts and what the host did in its host part."""
    listed = [(gap, one) for one in found for gap in one.gaps if gap.duration_ns >= _GAP_NS]
    listed.sort(key=lambda pair: -pair[0].duration_ns)
    return "; ".join(
        _gap(gap, _start_wait(one))
        + (f", rank {one.rank}" if len(found) > 1 and one.rank is not None else "")
        for gap, one in listed[:_GAPS_SHOWN]
    )


def _gap(gap: Gap, start_wait: int) -> str:
    is_before = start_wait and gap.parts.get("dependency") == start_wait
    words = {**_CAUSES, "dependency": _CAUSES[_BEFORE]} if is_before else _CAUSES
    parts = sorted(gap.parts.items(), key=lambda part: -part[1])
    worth = [
        words[cause] if time >= 0.95 * gap.duration_ns
        else f"{words[cause]} {quantity(time, 'ns')}"
        for cause, time in parts
        if time >= 0.05 * gap.duration_ns
    ]  # fmt: skip
    text = f"{quantity(gap.duration_ns, 'ns')} {', '.join(worth)}"
    if 2 * gap.host_part_ns < gap.duration_ns:
        return text
    host = gap.host or "no host call recorded"
    return f"{text} (host: {host if len(host) <= _NAME else host[: _NAME - 1] + '…'})"


def _moving(found: Sequence[Timeline], span: int) -> str:
    communication = sum(one.communication_ns for one in found) / span
    exposed = sum(one.exposed_communication_ns for one in found) / span
    copies = sum(one.exposed_memcpy_ns for one in found) / span
    parts = []
    if communication >= _WORTH:
        parts.append(f"communication {percent(communication)}, {percent(exposed)} exposed")
    if copies >= _WORTH:
        parts.append(f"exposed copies {percent(copies)}")
    return "; ".join(parts)


def _steps(found: Sequence[Timeline]) -> str:
    """The steps of the timeline whose steady ones take longest."""
    stepped = [one for one in found if one.steps]
    if not stepped:
        return ""
    worst = max(stepped, key=lambda one: one.facts.get("median_step_ns", 0.0))
    steady, warm_up = worst.steady_steps, len(worst.steps) - len(worst.steady_steps)
    spans = [step.span_ns for step in steady]
    if len(spans) == 1:
        text = f"1 of {quantity(spans[0], 'ns')}"
    else:
        text = f"{len(spans)}, median {quantity(float(np.median(spans)), 'ns')}"
        text += f" ({_times(spans)})" if max(spans) > 1.01 * min(spans) else ""
    if len(stepped) > 1 and worst.rank is not None:
        text += f" on rank {worst.rank}"
    if warm_up:
        first = quantity(sum(step.span_ns for step in worst.steps[:warm_up]), "ns")
        text += f"; {warm_up} of warm-up set apart ({first})"
    return text


def _ranks(across: Ranks | None) -> str:
    if across is None:
        return ""
    facts = across.facts
    text = f"{len(across.ranks)}"
    if not across.comparable:
        residual = facts.get("clock_residual_ns")
        if residual is None:
            return f"{text}, no collective in common: waiting is not judged"
        return (
            f"{text}, clocks apart by {quantity(residual, 'ns')} after alignment "
            f"(limit {quantity(RESIDUAL_LIMIT_NS, 'ns')}): waiting is not judged"
        )
    text += f", waiting for each other {quantity(facts['waiting_ns'], 'ns')} on average"
    if "waiting_share" in facts:
        text += f", {percent(facts['waiting_share'])} of their communication"
    if "slowest_rank" in facts:
        text += f"; {percent(facts['slowest_share'])} for rank {facts['slowest_rank']:.0f}"
    if facts.get("clock_sets", 1) > 1:
        text += (
            f"; {facts['clock_sets']:.0f} sets of them share no collective and are not compared "
            "with each other"
        )
    return text
