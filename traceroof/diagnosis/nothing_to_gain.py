"""What to say where there is next to nothing to do: little to gain, at its wall, not to be told."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from traceroof.core.units import percent
from traceroof.diagnosis.advice_entries import Draft, passes_once, topic_of
from traceroof.diagnosis.findings import Finding
from traceroof.diagnosis.savings import Pool, together

#: What stands in place of a rule where no rule says it.
LITTLE = "little-to-gain"
OPEN = "time-without-a-reason"
#: The rule that says that neither the time nor the class of a kernel is known.
NO_TIME = "no-time-no-class"
#: Findings of the advice that no rule made.
UNSAID = (LITTLE, OPEN)

# Below this part of the busy time, what all advice together is expected to save is not worth a change.
_LITTLE = 0.02
# What could not be judged is the news from this part of the kernel time on.
_MOST = 0.5
# Where all that is advised is expected to save less than this part of the time that nothing explains,
# that time comes first.
_SMALL = 0.1
_COPIES = ("memcpy", "memset")


@dataclass(frozen=True)
class OpenTime:
    """Kernel groups of a timeline that have no class (their places), and the finding that speaks of
    them (``open_time.open_time``)."""

    rows: tuple[int, ...]
    finding: Finding

    def placed(self, kept: Sequence[Draft], pool: Pool) -> tuple[list[Draft], list[Draft]]:
        """The entry that speaks of them, before the others or behind them: where most of the run's
        time is theirs and asked for by no entry. First where the others are small beside it."""
        left = self._left(kept, pool)
        if left < _MOST * pool.whole_ns or left <= 0:
            return [], []
        entry = [Draft(self.finding.topic, [self.finding], together([]), False)]
        expected = sum(one.expected(one.claimed) for one in kept if not passes_once(one.topic))
        return (entry, []) if expected < _SMALL * left else ([], entry)

    def _left(self, kept: Sequence[Draft], pool: Pool) -> float:
        """ns of these groups that no entry of the advice asks for."""
        asked = together([one.demand for one in kept])
        taken = np.zeros(len(pool.capacity))
        taken[asked.cells] = asked.ns
        rows = list(self.rows)
        return float(np.maximum(pool.capacity[rows] - taken[rows], 0.0).sum())


def leading(unknown: Sequence[Draft], kept: Sequence[Draft], pool: Pool) -> list[Draft]:
    """Causes of which nobody knows what they cost, on kernels with most of the time: they come first
    where the others are small beside it."""
    expected = sum(one.expected(one.claimed) for one in kept if not passes_once(one.topic))
    times = [(one, _time(one, pool)) for one in unknown]
    return [
        one
        for one, time in times
        if time > 0 and time >= _MOST * pool.kernels_ns and expected < _SMALL * time
    ]


def little(kept: Sequence[Draft], pool: Pool) -> Draft | None:
    """All entries as one where together they are not worth much; None where they are. The entry that
    says why is that one."""
    expected = sum(one.expected(one.claimed) for one in kept)
    if (
        not kept
        or expected >= _LITTLE * pool.busy_ns
        or any(passes_once(one.topic) for one in kept)
    ):
        return None
    if short := next((one for one in kept if _too_short(one, pool)), None):
        others = [one for one in kept if one is not short]
        short.folded += [one for entry in others for one in (*entry.found, *entry.folded)]
        return short
    found = sum(one.claimed for one in kept)
    likely = sum(one.likely(one.claimed) for one in kept)
    sure = sum(one.claimed * one.confidence for one in kept) / found
    # What no rule found worth a word bounds it all the same: time in which nothing computes.
    waits = float(sum(pool.capacity[cell] for cell in pool.cells.values()))
    bound = min(max(found, waits), float(pool.whole_ns))
    of = "wall time" if pool.reference is not None else "kernel time"
    said = Finding(
        rule=LITTLE,
        topic="nothing-to-gain",
        title="Little to gain from what this recording shows",
        state="fired",
        scope="run",
        subject="run",
        subject_index=None,
        severity="info",
        confidence=round(expected / likely if likely else sure, 2),
        kind="hard",
        role="cause",
        time_saved_bound_ns=round(bound),
        time_saved_likely_ns=round(likely),
        because=(
            f"all that was found saves at most {percent(found / pool.whole_ns)} of the {of}, and is "
            f"expected to save {percent(expected / pool.whole_ns)}{_beside(waits, pool)}"
        ),
        fix=(
            "Look for less work rather than faster work: another algorithm, a smaller model, fewer "
            "steps. What could not be judged is listed below."
        ),
        refute="",
    )
    draft = Draft("nothing-to-gain", [said], together([]), False, claimed=bound)
    draft.folded = [one for entry in kept for one in (*entry.found, *entry.folded)]
    return draft


def _too_short(draft: Draft, pool: Pool) -> bool:
    """Whether an entry says why there is little to gain: most of the time is that of launches with too
    little work in them, which other advice than making kernels faster helps."""
    return draft.topic == "problem-too-small" and _time(draft, pool) >= _MOST * pool.kernels_ns


def _beside(waits: float, pool: Pool) -> str:
    if not waits:
        return ""
    return f"; nothing computes for {percent(waits / pool.whole_ns)} of it"


def settled(rest: Sequence[Draft], pool: Pool) -> list[Draft]:
    """Where nothing is to be done: what is as fast as it can be, or cannot be told; of most time."""
    found = [one for one in rest if topic_of(one.found[0]).nothing or _at_wall(one.found[0])]
    return sorted(found, key=lambda one: -_time(one, pool))[:1]


def _at_wall(finding: Finding) -> bool:
    return finding.informs and finding.role == "class" and not topic_of(finding).summary


def undecided(rest: Sequence[Draft], pool: Pool, kept: Sequence[Draft] = ()) -> Draft | None:
    """What could not be judged, where that is most of the kernel time and ``kept`` is expected to
    save little beside it; of copies by the runtime, other advice says more."""
    expected = sum(one.expected(one.claimed) for one in kept)
    for one in rest:
        time = _time(one, pool)
        if one.topic == "not-enough-metrics" and time >= _MOST * pool.kernels_ns:
            return (
                one if expected < _SMALL * _time(one, pool, but=_COPIES if kept else ()) else None
            )
    return None


def untold(rest: Sequence[Draft]) -> list[Draft]:
    """What says that a kernel has neither a time nor a class."""
    return [one for one in rest if one.found[0].rule == NO_TIME]


def _time(draft: Draft, pool: Pool, but: Sequence[str] = ()) -> float:
    """The time of the kernels that an entry speaks of, of other categories than ``but``, ns."""
    rows = {one.subject_index for one in draft.found if one.scope == "kernel"}
    own = (row for row in rows if row is not None and pool.category[row] not in but)
    return float(sum(pool.capacity[row] for row in own))
