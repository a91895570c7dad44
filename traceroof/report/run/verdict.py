"""The verdict on a run: one sentence and three numbers, what a reader takes away in ten seconds."""

from dataclasses import dataclass

from traceroof.core.units import count, percent, quantity
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.diagnosis.findings import Finding
from traceroof.kernels.bound_class import CLASSES
from traceroof.report.run import summary

# From this share on a class, a category or the idle time is the news.
_MOST = 0.5
_MUCH_IDLE = 0.2

_WORTH_SAYING = 0.1

_NO_WALLS = ("communication", "copy")
_AT_A_WALL = ("dram-bound", "l2-bound", "l1-bound", "compute-bound")


@dataclass(frozen=True)
class Figure:
    """One of the three numbers: the value, and what it is a value of."""

    value: str
    meaning: str


@dataclass(frozen=True)
class Verdict:
    """One sentence, three numbers."""

    sentence: str
    figures: tuple[Figure, Figure, Figure]


def verdict(diagnosis: Diagnosis) -> Verdict:
    """What a run comes down to."""
    return Verdict(_sentence(diagnosis), (_time(diagnosis), _savings(diagnosis), _third(diagnosis)))


def _sentence(diagnosis: Diagnosis) -> str:
    totals = diagnosis.totals
    if not totals.launches:
        return "No kernel ran in what was read."
    if not totals.kernel_time_ns:
        return f"None of the {totals.launches:,} launches has a known duration."
    parts = [_idle(diagnosis), _category(diagnosis), _class(diagnosis)]
    text = "; ".join(part for part in parts if part)
    return f"{text[0].upper()}{text[1:]}."


def _idle(diagnosis: Diagnosis) -> str:
    totals = diagnosis.totals
    if not totals.span_ns or totals.gpu_idle_ns is None:
        return ""
    share = totals.gpu_idle_ns / totals.span_ns
    return f"the GPU is idle {percent(share)} of the time" if share >= _MUCH_IDLE else ""


def _category(diagnosis: Diagnosis) -> str:
    if not diagnosis.categories:
        return ""
    first = diagnosis.categories[0]
    if first.share is None:
        return ""
    if len(diagnosis.categories) == 1:
        return f"all GPU time goes to {first.category}"
    most = "most GPU time goes" if first.share >= _MOST else "the largest part of GPU time goes"
    return f"{most} to {first.category} ({percent(first.share)})"


def _class(diagnosis: Diagnosis) -> str:
    """Which wall most of the kernel time hit; the walls where no one has most."""
    shares = class_shares(diagnosis)
    unjudged = shares.pop("not-evaluable", 0.0)
    if unjudged >= _MOST or not shares:
        return f"{percent(unjudged)} of the kernel time could not be judged"
    ranked = sorted(shares.items(), key=lambda one: (-one[1], one[0]))
    name, share = ranked[0]
    if share >= _MOST:
        return f"{percent(share)} of the kernel time is {name} ({CLASSES[name]})"
    walls = [(other, part) for other, part in ranked if other not in _NO_WALLS][:3]
    if unjudged >= _WORTH_SAYING:
        walls.append(("not judged", unjudged))
    listed = ", ".join(f"{other} {percent(part)}" for other, part in walls)
    return "no one wall stands out" + (f" ({listed} of the kernel time)" if listed else "")


def class_shares(diagnosis: Diagnosis) -> dict[str, float]:
    """Class -> its share of the kernel time, 0-1; classes without time are absent."""
    total = diagnosis.totals.kernel_time_ns
    shares: dict[str, float] = {}
    for kernel in diagnosis.kernels:
        if kernel.time_ns and total:
            name = kernel.primary_class
            shares[name] = shares.get(name, 0.0) + kernel.time_ns / total
    return shares


def at_a_wall(diagnosis: Diagnosis) -> float | None:
    """Share of the kernel time at a wall of memory, cache or compute, 0-1; None if none is judged."""
    shares = class_shares(diagnosis)
    if not shares or shares.get("not-evaluable", 0.0) > 1 - 1e-9:
        return None
    return sum(shares.get(name, 0.0) for name in _AT_A_WALL)


def _time(diagnosis: Diagnosis) -> Figure:
    totals = diagnosis.totals
    kernels = len(diagnosis.kernels)
    return Figure(
        quantity(totals.kernel_time_ns, "ns") if totals.kernel_time_ns else "unknown",
        f"kernel time: {count(totals.launches, 'launch', 'launches')} "
        f"of {count(kernels, 'kernel')}",
    )


def savable(diagnosis: Diagnosis) -> float | None:
    """What share the second number is of the time that it is a part of (``summary.whole_of``),
    0-1; None where no saving is known."""
    largest = _of_the_run(diagnosis)
    if largest:
        bound, whole = largest.time_saved_bound_ns, summary.whole_of(diagnosis, largest)
    else:
        bound, whole = diagnosis.totals.time_saved_bound_ns, summary.whole(diagnosis)
    return min(bound / whole, 1.0) if bound is not None and whole else None


def _of_the_run(diagnosis: Diagnosis) -> Finding | None:
    """The finding beside those of kernels that saves more than they together."""
    others = [one for one in diagnosis.fired() if one.scope != "kernel"]
    largest = max(others, key=lambda one: one.time_saved_bound_ns or 0, default=None)
    bound = diagnosis.totals.time_saved_bound_ns or 0
    return largest if largest and (largest.time_saved_bound_ns or 0) > bound else None


def _savings(diagnosis: Diagnosis) -> Figure:
    """What the fixes of kernels save together, or what one of the run saves where that is more."""
    totals = diagnosis.totals
    bound, likely = totals.time_saved_bound_ns, totals.time_saved_likely_ns
    by = "the fixes of kernels"
    overlap = "" if diagnosis.timelines else "; overlap unknown"
    largest = _of_the_run(diagnosis)
    if largest:
        bound, likely = largest.time_saved_bound_ns, largest.time_saved_likely_ns
        by, overlap = f"one fix below ({largest.title[:1].lower()}{largest.title[1:]})", ""
    share = savable(diagnosis)
    if bound is None or share is None:
        return Figure("none", "no fix whose saving could be estimated")
    text = f"at most saved by {by}, {percent(share)} of {summary.whole_words(diagnosis)}"
    if likely is not None:
        text += f"; likely {quantity(likely, 'ns')}"
    return Figure(quantity(bound, "ns"), text + overlap)


def _third(diagnosis: Diagnosis) -> Figure:
    """How busy the GPU was where there is a timeline, else how much time hit a wall."""
    totals = diagnosis.totals
    if totals.span_ns and totals.gpu_busy_ns is not None:
        return Figure(
            percent(totals.gpu_busy_ns / totals.span_ns),
            f"of {quantity(totals.span_ns, 'ns')} the GPU was busy",
        )
    at_wall = at_a_wall(diagnosis)
    if at_wall is None:
        return Figure("0 %", "of the kernel time could be judged")
    return Figure(percent(at_wall), "of the kernel time is at a wall of memory, cache or compute")
