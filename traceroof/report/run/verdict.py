"""The verdict on a run: one sentence and three numbers, what a reader takes away in ten seconds."""

from dataclasses import dataclass

from traceroof.core.units import count, percent, quantity
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.diagnosis.headline import class_shares
from traceroof.report.run import summary

_AT_A_WALL = ("dram-bound", "l2-bound", "l1-bound", "memory-bound", "compute-bound")


@dataclass(frozen=True)
class Figure:
    """One of the three numbers: the value, and what it is a value of."""

    value: str
    meaning: str


@dataclass(frozen=True)
class Verdict:
    """What to do first, one sentence on the run, three numbers."""

    first: str
    sentence: str
    figures: tuple[Figure, Figure, Figure]


def verdict(diagnosis: Diagnosis) -> Verdict:
    """What a run comes down to."""
    figures = (_time(diagnosis), _savings(diagnosis), _third(diagnosis))
    return Verdict(_first(diagnosis), diagnosis.headline, figures)


def _first(diagnosis: Diagnosis) -> str:
    """The entry to begin with, where in the program it is, and what it is expected to save; empty
    where there is none."""
    if not diagnosis.advice:
        return ""
    entry = diagnosis.advice[0]
    module = (entry.where.module or "").partition(" (")[0]
    text = f"{entry.title} in {module}" if module else entry.title
    if entry.once or not entry.expected_ns or not entry.share or not entry.bound_ns:
        return f"{text}."
    share = percent(entry.share * entry.expected_ns / entry.bound_ns)
    of = summary.whole_words(diagnosis)
    return f"{text}: expect {quantity(entry.expected_ns, 'ns')} less, {share} of {of}."


def at_a_wall(diagnosis: Diagnosis) -> float | None:
    """Share of the kernel time at a wall of memory, cache or compute, 0-1; None if none is judged."""
    shares = class_shares(diagnosis.kernels, diagnosis.totals.kernel_time_ns)
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
    """What share of its time (``summary.whole``) the advice saves at most in all, 0-1; None where
    no saving is known."""
    bound, whole = diagnosis.totals.time_saved_bound_ns, summary.whole(diagnosis)
    return bound / whole if bound is not None and whole else None


def _savings(diagnosis: Diagnosis) -> Figure:
    """What the advice saves together: its entries never promise the same time."""
    totals, share = diagnosis.totals, savable(diagnosis)
    if totals.time_saved_bound_ns is None or share is None:
        return Figure("none", "no fix whose saving could be estimated")
    text = f"at most saved by all advice, {percent(share)} of {summary.whole_words(diagnosis)}"
    if totals.time_saved_likely_ns is not None:
        text += f"; likely {quantity(totals.time_saved_likely_ns, 'ns')}"
    return Figure(quantity(totals.time_saved_bound_ns, "ns"), text)


def _third(diagnosis: Diagnosis) -> Figure:
    """How busy the GPU was where there is a timeline, else how much time hit a wall."""
    totals = diagnosis.totals
    if totals.span_ns and totals.gpu_busy_ns is not None:
        return Figure(
            percent(totals.gpu_busy_ns / totals.span_ns),
            f"of {quantity(totals.span_ns, 'ns')} the GPU was busy",
        )
    if not totals.kernel_time_ns:
        return Figure("unknown", "part of the time at a wall: no duration is known")
    at_wall = at_a_wall(diagnosis)
    if at_wall is None:
        return Figure("0 %", "of the kernel time could be judged")
    return Figure(percent(at_wall), "of the kernel time is at a wall of memory, cache or compute")
