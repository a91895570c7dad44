"""What a run comes down to, in one sentence: how idle, which kind of work, which wall."""

from collections import Counter
from collections.abc import Sequence

from traceroof.core.units import one_line, percent
from traceroof.diagnosis.advice import Entry
from traceroof.diagnosis.diagnosis import CategoryTime, KernelGroups, Totals
from traceroof.kernels.bound_class import CLASSES

# From this share on a class, a category or the idle time is the news.
_MOST = 0.5
_MUCH_IDLE = 0.2

_WORTH_SAYING = 0.1

_NO_WALLS = ("communication", "copy")


#: Topics that, where they lead the advice, leave shares of time without a meaning.
_NO_SHARES = {
    "too-short-to-judge": "too little ran to say where the time goes",
    "lost-records": "records are missing, so shares of the time say nothing",
}


def no_shares(advice: Sequence[Entry]) -> str:
    """Why the shares of the time (idle, communication, a class) say nothing; "" where they do."""
    return _NO_SHARES.get(advice[0].topic, "") if advice else ""


def headline_of(
    totals: Totals,
    categories: Sequence[CategoryTime],
    kernels: KernelGroups,
    advice: Sequence[Entry] = (),
) -> str:
    """The headline of a diagnosis."""
    if not totals.launches:
        return "No kernel ran in what was read."
    if not totals.kernel_time_ns:
        return f"None of the {totals.launches:,} launches has a known duration."
    if reason := no_shares(advice):
        return f"{reason[0].upper()}{reason[1:]}."
    parts = [_idle(totals), _category(categories), _class(kernels, totals.kernel_time_ns)]
    text = "; ".join(part for part in parts if part)
    return f"{text[0].upper()}{text[1:]}."


def headline_of_kernels(kernels: KernelGroups, wanted: str) -> str:
    """The headline of a diagnosis that is narrowed to some kernels."""
    shares = [kernel.share for kernel in kernels if kernel.share is not None]
    part = f"{percent(sum(shares))} of the kernel time" if shares else "an unknown part of the time"
    if len(kernels) == 1:
        name = kernels[0].primary_class
        said = f" ({CLASSES[name]})" if name in CLASSES else ""
        return f"This kernel takes {part}; it is {name}{said}."
    classes = Counter(kernel.primary_class for kernel in kernels)
    listed = ", ".join(f"{number} {name}" for name, number in classes.most_common(_CLASSES))
    return f"{len(kernels):,} kernels ({one_line(wanted)}) take {part}: {listed}."


_CLASSES = 4


def class_shares(kernels: KernelGroups, total_ns: int) -> dict[str, float]:
    """Class -> its share of the kernel time, 0-1; classes without time are absent."""
    if not total_ns:
        return {}
    return {name: time / total_ns for name, time in kernels.time_of_classes().items()}


def _idle(totals: Totals) -> str:
    if not totals.span_ns or totals.gpu_idle_ns is None:
        return ""
    share = totals.gpu_idle_ns / totals.span_ns
    return f"the GPU is idle {percent(share)} of the time" if share >= _MUCH_IDLE else ""


def _category(categories: Sequence[CategoryTime]) -> str:
    if not categories:
        return ""
    first = categories[0]
    if first.share is None:
        return ""
    name = "kernels of no known category" if first.category == "other" else first.category
    if len(categories) == 1:
        return f"all GPU time goes to {name}"
    most = "most GPU time goes" if first.share >= _MOST else "the largest part of GPU time goes"
    return f"{most} to {name} ({percent(first.share)})"


def _class(kernels: KernelGroups, total_ns: int) -> str:
    """Which wall most of the kernel time hit; the walls where no one has most."""
    shares = class_shares(kernels, total_ns)
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
