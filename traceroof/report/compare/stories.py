"""What a comparison tells first: where most of the change is, why, and what to try.

The largest part may be no kernel: kernels that are no longer launched, several that changed their
element type together, or time between the kernels.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from traceroof.compare import Comparison
from traceroof.compare.changes import Change
from traceroof.compare.verdicts import Word
from traceroof.core.kernel_names import short_names
from traceroof.core.units import percent, quantity
from traceroof.kernels.places import NOWHERE
from traceroof.report.compare.words import NO_REASON, from_to, more_or_less, reasons, signed


@dataclass(frozen=True)
class Story:
    """Where the time went, why, and what to try.

    title: of the first line; what is told second is what went the other way. name: of the kernel, or
    None where it is none: then label says what it is.
    """

    title: str
    name: str | None
    where: str
    why: str
    attempt: str
    label: str = "between the kernels"


@dataclass(frozen=True)
class _Part:
    """A part of a change: kernels that belong together, or none. delta_ns: of all of them."""

    delta_ns: float
    changes: tuple[Change, ...] = ()
    label: str = ""


def stories(comparison: Comparison) -> list[Story]:
    """The largest change, and the largest loss where the whole got faster all the same."""
    if not comparison.compared:
        return []
    lost = _lost(comparison)
    if comparison.verdict != "improved":
        return [lost] if lost else []
    parts = _parts(comparison, "improved", "gone")
    most = min(parts, key=lambda one: one.delta_ns, default=None)
    told = [_told(comparison, "Where it came from", most)] if most and most.delta_ns < 0 else []
    return [*told, replace(lost, title="Slower all the same")] if lost else told


def _undecided(comparison: Comparison) -> tuple[Word, ...]:
    """One run per side may decide the whole, never a kernel; where the time went is told all the
    same."""
    return ("inconclusive",) if comparison.lone else ()


def _parts(comparison: Comparison, word: Word, one_sided: Word) -> list[_Part]:
    """Kernels with this verdict, those together that changed for the same reason, and the kernels
    that only one side has as one part. What took their place counts against them."""
    together: dict[str, list[Change]] = {}
    for at, change in enumerate(comparison.of(word, *_undecided(comparison))):
        together.setdefault(_shared_reason(comparison, change) or str(at), []).append(change)
    parts = [
        _Part(sum(one.delta_ns or 0.0 for one in alike), tuple(alike), reason)
        for reason, alike in together.items()
    ]
    apart = comparison.of("gone", "new")
    if any(one.verdict == one_sided for one in apart):
        parts.append(_Part(sum(one.delta_ns or 0.0 for one in apart), apart))
    idle = None if comparison.narrowed else comparison.idle_ns
    if idle is not None and comparison.exposed_communication_ns is not None:
        parts.append(_Part(idle[1] - idle[0]))
    return parts


# What changes many kernels at once.
_SHARED = ("cmp-precision-changed", "cmp-tensor-cores-changed")


def _shared_reason(comparison: Comparison, change: Change) -> str:
    return next((one.because for one in comparison.about(change) if one.rule in _SHARED), "")


def _lost(comparison: Comparison) -> Story | None:
    """Where most time was lost: in kernels, or in a step between them."""
    parts = [_Part(one.delta_ns or 0.0, (one,)) for one in comparison.of("regressed")]
    if comparison.total.verdict == "regressed":
        parts = [one for one in _parts(comparison, "regressed", "new") if one.changes]
    top = max(parts, key=lambda one: one.delta_ns, default=None)
    waits = [one for one in comparison.fired() if one.rule in _WAITS]
    wait = max(waits, key=lambda one: one.time_saved_bound_ns or 0, default=None)
    if wait and (top is None or (wait.time_saved_bound_ns or 0) > top.delta_ns):
        grown = signed(wait.time_saved_bound_ns)
        return Story("Where it went", None, grown, wait.because, wait.fix)
    if top is None or (not top.delta_ns > 0 and not _counters_decide(top)):
        return None
    return _told(comparison, "Where it went", top)


_WAITS = ("cmp-idle-up", "cmp-exposed-comm-up")


def _counters_decide(part: _Part) -> bool:
    return any(one.basis == "counters" or one.delta_ns is None for one in part.changes)


def _told(comparison: Comparison, title: str, part: _Part) -> Story:
    if not part.changes:
        assert comparison.idle_ns is not None
        where = f"{from_to(*comparison.idle_ns)} idle in a step = {signed(part.delta_ns)}"
        where += _share(comparison, part.delta_ns)
        return Story(title, None, where, "the GPU waits less between kernels", "")
    if len(part.changes) == 1:
        return _of_kernel(comparison, title, part.changes[0])
    where = f"{signed(part.delta_ns)}{_share(comparison, part.delta_ns)}"
    one_sided = [[one for one in part.changes if one.verdict == word] for word in ("gone", "new")]
    if any(one_sided):
        gone, new = one_sided
        label = ", ".join(
            f"{len(ones):,} kernel{'s' if len(ones) > 1 else ''} {words}"
            for ones, words in ((gone, "no longer launched"), (new, "new"))
            if ones
        )
        why = "; ".join(
            f"{words} {signed(sum(one.delta_ns or 0.0 for one in ones))}, mostly {_largest(ones)}"
            for ones, words in ((gone, "gone:"), (new, "new:"))
            if ones
        )
        return Story(title, None, where, why, "", label)
    label = f"{len(part.changes):,} kernels"
    attempt = _try(comparison, part.changes[0]) if part.delta_ns > 0 else ""
    return Story(
        title, None, where, f"{part.label}; mostly {_largest(part.changes)}", attempt, label
    )


def _largest(changes: Sequence[Change]) -> str:
    """The three that moved most, in short."""
    most = sorted(changes, key=lambda one: -abs(one.delta_ns or 0.0))[:3]
    short = short_names([one.name for one in most], _NAME_WIDTH)
    return ", ".join(short[one.name] for one in most)


_NAME_WIDTH = 32


def _share(comparison: Comparison, delta_ns: float | None) -> str:
    """' (86.0 % of the change)'; empty where it went the other way."""
    whole = comparison.total.delta_ns
    if not (whole and delta_ns and whole * delta_ns > 0):
        return ""
    part = delta_ns / whole
    return f" ({percent(part)} of the change)" if part <= 1 else " (more than the change)"


def _of_kernel(comparison: Comparison, title: str, change: Change) -> Story:
    return Story(
        title,
        change.name,
        _where(comparison, change),
        _why(comparison, change),
        _try(comparison, change),
    )


def _where(comparison: Comparison, change: Change) -> str:
    """'3.71 → 4.35 µs × 329,035 launches = +211 ms (86 % of the whole change), in MLP.Linear'."""
    return _launched(comparison, change) + _placed(change)


def _placed(change: Change) -> str:
    """', in Layer[0-23].MLP, train.py(3): step': where in the program the kernel is launched."""
    groups = (*change.pair.head, *change.pair.base) if change.pair else ()
    where = groups[0].where if groups else NOWHERE
    known = ((where.module or where.range or "").rsplit(" > ", 1)[-1], where.source or "")
    return "".join(f", {word}{one}" for word, one in zip(("in ", ""), known, strict=True) if one)


def _launched(comparison: Comparison, change: Change) -> str:
    base, head = change.base, change.head
    if change.verdict == "new":
        text = f"new, {_launches(head.launches)} = {signed(change.delta_ns)}"
    elif change.basis == "counters":
        return f"{quantity(change.slower_ns, 'ns')} in {_launches(head.launches)}"
    elif base.launches == head.launches:
        text = f"{from_to(base.call_ns, head.call_ns)} × {_launches(head.launches)}"
        text += f" = {signed(change.delta_ns)}"
    else:
        text = f"{from_to(base.launches, head.launches, 'launch')} launches of "
        text += f"{from_to(base.call_ns, head.call_ns)} = {signed(change.delta_ns)}"
    return text + _share(comparison, change.delta_ns)


def _launches(count: float | None) -> str:
    return f"{quantity(count)} launch{'' if count == 1 else 'es'}"


def _why(comparison: Comparison, change: Change) -> str:
    """What changed first, then what another kernel it is, and last what bounds it now."""
    fired = sorted(reasons(comparison, change), key=lambda one: one.rule not in _SHARED)
    found = [one.because for one in fired]
    by_calls = more_or_less(change)
    if by_calls:
        found.insert(0, f"{by_calls}, each {_each(change, by_calls)}")
    if change.pair and not change.pair.same_name and change.pair.base and change.pair.head:
        found.append(_took_the_place(change))
    elif not found and change.pair and change.pair.same_name:
        found.append(_as_before(change))
    if change.pair and change.pair.head:
        found.append(_limits(change) or "its limit is not known")
    return "; ".join(found)


def _each(change: Change, by_calls: str) -> str:
    """How a launch of a kernel that is called more or less often compares with before."""
    base, head = change.base.call_ns or 0.0, change.head.call_ns or 0.0
    if by_calls == "more calls":
        return "no slower" if head <= base else "about as fast"
    return "no faster" if head >= base else "about as fast"


def _took_the_place(change: Change) -> str:
    assert change.pair is not None
    name = change.pair.base[0].kernel
    return f"replaces {short_names([name], _NAME_WIDTH)[name]} (paired by {change.pair.by})"


def _as_before(change: Change) -> str:
    """'launches and registers unchanged; bytes and operations not recorded': no rule fired."""
    assert change.pair is not None
    pair = change.pair
    same: list[str] = ["launches"]
    unknown: list[str] = []
    for label, names in _EXPLAINING.items():
        recorded = len(pair.base) == len(pair.head) == 1 and all(
            any(name in group.metrics for name in names) for group in (*pair.base, *pair.head)
        )
        (same if recorded else unknown).append(label)
    text = f"{_listing(same)} unchanged"
    return f"{text}; {_listing(unknown)} not recorded" if unknown else text


# What explains a time, and the metrics that hold it.
_EXPLAINING = {
    "bytes": ("dram_bytes",),
    "operations": ("flops", "model_flops"),
    "registers": ("registers_per_thread",),
}


def _listing(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def _limits(change: Change) -> str:
    """'latency-bound (compute 9 %, memory 20 %, occupancy 11 %)' of the head; empty if unknown."""
    assert change.pair is not None
    group = change.pair.head[0]
    if group.primary_class == "not-evaluable":
        return ""
    uses = [
        f"{label} {quantity(group.metrics[name], '%')}"
        for label, name in (
            ("compute", "compute_pct"),
            ("memory", "memory_pct"),
            ("occupancy", "achieved_occupancy_pct"),
        )
        if name in group.metrics
    ]
    return f"{group.primary_class} ({', '.join(uses)})" if uses else group.primary_class


def _try(comparison: Comparison, change: Change) -> str:
    if change.verdict == "improved":
        return ""
    found = comparison.about(change)
    causes = [one for one in found if one.rule not in NO_REASON and one.severity != "info"]
    own = [one for one in found if one.rule in NO_REASON]
    advice = [
        one
        for one in comparison.head.fired()
        if change.pair
        and one.scope == "kernel"
        and one.subject_index is not None
        and comparison.head.kernels[one.subject_index] in change.pair.head
        and one.role == "cause"
    ]
    chosen = next(iter((*causes, *advice, *own)), None)
    return chosen.fix if chosen else ""
