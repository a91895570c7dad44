"""What no rule says: that there is little to gain, or too little to judge by."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from traceroof.core.units import percent
from traceroof.diagnosis.drafts import Draft, passes_once, topic_of
from traceroof.diagnosis.findings import Finding
from traceroof.diagnosis.savings import Pool, together

#: What stands in place of a rule where no rule says it.
LITTLE, LACKING = "little-to-gain", "not-enough-metrics"
NO_RULES = (LITTLE, LACKING)


# Below this part of the busy time, what all advice together is expected to save is not worth a change.
_LITTLE = 0.02
# From this share of the kernel time on, what was not collected is the news.
_MOST = 0.5


@dataclass(frozen=True)
class Lacks:
    """What a counter profile did not collect. share: of the kernel time whose class is unknown
    for it, 0-1. missing: the columns. command: what collects them, None where nothing does."""

    share: float
    missing: tuple[str, ...]
    command: str | None


def little(kept: Sequence[Draft], pool: Pool) -> Draft | None:
    """All entries as one where together they are not worth much; None where they are."""
    expected = sum(one.expected(one.claimed) for one in kept)
    if (
        not kept
        or expected >= _LITTLE * pool.busy_ns
        or any(passes_once(one.topic) for one in kept)
    ):
        return None
    bound = sum(one.claimed for one in kept)
    likely = sum(one.likely(one.claimed) for one in kept)
    sure = sum(one.claimed * one.confidence for one in kept) / bound
    of = "wall time" if pool.reference is not None else "kernel time"
    said = _said(
        LITTLE,
        "nothing-to-gain",
        title="Little to gain from what this recording shows",
        because=(
            f"all that was found saves at most {percent(bound / pool.whole_ns)} of the {of}, and is "
            f"expected to save {percent(expected / pool.whole_ns)}"
        ),
        fix=(
            "Look for less work rather than faster work: another algorithm, a smaller model, fewer "
            "steps. What could not be judged is listed below."
        ),
    )
    said = replace(
        said,
        confidence=round(expected / likely if likely else sure, 2),
        time_saved_bound_ns=round(bound),
        time_saved_likely_ns=round(likely),
    )
    draft = Draft("nothing-to-gain", [said], together([]), False, claimed=bound)
    draft.folded = [one for entry in kept for one in (*entry.found, *entry.folded)]
    return draft


def at_walls(rest: Sequence[Draft]) -> list[Draft]:
    """Where nothing is to be done: what is as fast as it can be."""
    return [one for one in rest if one.topic == "dram-wall" or topic_of(one.found[0]).nothing][:1]


def not_enough(lacks: Lacks | None) -> list[Draft]:
    """Where nothing can be said because too little was collected: what to collect."""
    if lacks is None or lacks.share < _MOST:
        return []
    missing = ", ".join(lacks.missing[:_NAMED])
    more = len(lacks.missing) - _NAMED
    missing += f" and {more} more" if more > 0 else ""
    said = _said(
        LACKING,
        "not-enough-metrics",
        title="What would decide was not collected",
        because=(
            f"which wall the kernels of {percent(lacks.share)} of the kernel time hit is unknown: "
            f"missing {missing}"
        ),
        fix=f"Collect it: `{lacks.command}`" if lacks.command else "Collect it with a profiler.",
    )
    return [Draft("not-enough-metrics", [said], together([]), False)]


# More names of columns say less than their number.
_NAMED = 4


def _said(rule: str, topic: str, *, title: str, because: str, fix: str) -> Finding:
    """What no rule says, in the form of a finding on the run."""
    return Finding(
        rule=rule,
        topic=topic,
        title=title,
        state="fired",
        scope="run",
        subject="run",
        subject_index=None,
        severity="info",
        confidence=1.0,
        kind="hard",
        role="cause",
        time_saved_bound_ns=None,
        time_saved_likely_ns=None,
        because=because,
        fix=fix,
        refute="",
    )
