"""What every report of a comparison says in words: the headline, where, why, what to try."""

import shlex
from collections import Counter
from collections.abc import Sequence

from traceroof.compare import Comparison, Overall
from traceroof.compare.changes import Change
from traceroof.compare.noise_threshold import Thresholds
from traceroof.compare.verdicts import Word
from traceroof.core.kernel_names import short_names
from traceroof.core.selection import Narrowed
from traceroof.core.units import one_line, percent, quantity
from traceroof.diagnosis.findings import Finding
from traceroof.report.run.summary import about as about_run

VERDICTS: dict[Overall, str] = {
    "regressed": "slower",
    "improved": "faster",
    "unchanged": "no change",
    "inconclusive": "inconclusive",
    "not-comparable": "not comparable",
}

# What is counted in the headline, in this order: one, several.
_COUNTED: dict[Word, tuple[str, str]] = {
    "regressed": ("regression", "regressions"),
    "improved": ("improvement", "improvements"),
    "unchanged": ("unchanged", "unchanged"),
    "inconclusive": ("inconclusive", "inconclusive"),
    "new": ("new", "new"),
    "gone": ("gone", "gone"),
    "not-compared": ("paired", "paired"),
}


def counts(comparison: Comparison) -> str:
    """'1 regression · 108 unchanged · 3 inconclusive': the kernels by verdict."""
    found = {word: len(comparison.of(word)) for word in _COUNTED}
    kept = [f"{number:,} {_COUNTED[word][number != 1]}" for word, number in found.items() if number]
    return " · ".join(kept) or f"{len(comparison.kernels):,} kernels"


def signed(value: float | None, unit: str = "ns") -> str:
    """A difference with its sign: '+211 ms', '-29.0 ms'."""
    if value is None:
        return "unknown"
    whole = round(value)
    return ("-" if whole < 0 else "+" if whole else "") + quantity(abs(whole), unit)


def change_pct(change: Change) -> str:
    """The relative change: '+3.8 %', or '×147' from ten times on; empty where there is none."""
    if change.ratio is None or change.delta_ns is None:
        return ""
    if change.ratio >= _TIMES:
        return f"×{change.ratio:,.0f}"
    return f"{(change.ratio - 1) * 100:+.1f} %"


# From here on percentages are harder to read than factors.
_TIMES = 10


def from_to(base: float | None, head: float | None, unit: str = "ns") -> str:
    """'76.9 → 115 ms', the unit once where both sides have the same."""
    one, other = quantity(base, unit), quantity(head, unit)
    figure, _, suffix = one.partition(" ")
    return f"{figure if suffix == other.partition(' ')[2] else one} → {other}"


def total_line(comparison: Comparison) -> str:
    """'wall time -24.0 % (5.00 → 3.80 s), kernel time -72.0 % (2.50 s → 700 ms)': what passed by the
    clock first; without the change where times do not compare."""
    if comparison.narrowed:
        return _narrowed_line(comparison, comparison.narrowed)
    total, kernels = comparison.total, comparison.kernel_time
    lines = [] if comparison.wall_ns is None else [_wall(comparison, *comparison.wall_ns)]
    lines.append(_timed(total))
    if comparison.steps_known and _timed(kernels) != _timed(total):
        lines.append(_timed(kernels))
    return ", ".join(lines)


def _timed(change: Change, name: str = "") -> str:
    times = from_to(change.base.median_ns, change.head.median_ns)
    pct, name = change_pct(change), name or change.name
    return f"{name} {pct} ({times})" if pct else f"{name} {times}"


def _narrowed_line(comparison: Comparison, to: Narrowed) -> str:
    """'multi_tensor_apply_kernel -28.9 % (5.63 → 4.00 ms), 1 of 30 kernels (multi_tensor)'."""
    if len(comparison.kernels) > 1:
        return to.words
    (change,) = comparison.kernels
    name = short_names([change.name], _NARROWED_WIDTH)[change.name]
    of_total = "" if change.of_total is None else f", {change.of_total:+.1%} of kernel time"
    return f"{_timed(change, name)}{of_total.replace('%', ' %')}, {to.words}"


_NARROWED_WIDTH = 48


def _wall(comparison: Comparison, base: float, head: float) -> str:
    pct = f" {(head / base - 1) * 100:+.1f} %" if comparison.compared else ""
    times = from_to(base, head)
    return f"wall time{pct} ({times})" if pct else f"wall time {times}"


def more_or_less(change: Change) -> str:
    """'more calls' or 'fewer calls' where their number turned the time: a launch that got no
    slower, or by much less than the calls became more, is not called slower. Empty elsewhere."""
    base, head = change.base, change.head
    if not (base.launches and head.launches and base.call_ns and head.call_ns):
        return ""
    calls, each = head.launches / base.launches, head.call_ns / base.call_ns
    if change.verdict == "regressed" and calls > max(each, 1.0) and each <= _AS_FAST:
        return "more calls"
    if change.verdict == "improved" and calls < min(each, 1.0) and each * _AS_FAST >= 1.0:
        return "fewer calls"
    return ""


# A launch counts as slower from a change of 5 % on, as a kernel does.
_AS_FAST = 1.05


def missing(comparison: Comparison) -> str:
    """Why there is no verdict: what differs, or what an inconclusive total lacks."""
    if comparison.verdict == "not-comparable":
        apart = "; ".join(str(one) for one in comparison.differences if one.blocks)
        return f"{apart}. Times were not compared (--force compares them)."
    if comparison.verdict == "inconclusive":
        return f"{comparison.why_open}."
    return ""


# What says that a change is there, not why.
NO_REASON = ("cmp-kernel-regressed", "cmp-improved", "cmp-kernel-substituted", "cmp-new-kernel")


def reasons(comparison: Comparison, change: Change) -> list[Finding]:
    """What fired on a change beside that it is one."""
    return [one for one in comparison.about(change) if one.rule not in NO_REASON]


def listed(comparison: Comparison, top: int) -> tuple[list[Change], int]:
    """The kernels worth a row, and how many more changed: what changed by the size of the change;
    with room left, what moved without a verdict, then the largest."""
    if comparison.narrowed:
        return list(comparison.kernels[:top]), 0
    lone = comparison.sampled != "runs"
    changed = list(comparison.of("regressed", "improved"))
    changed += [one for one in comparison.of("new", "gone") if (one.share or 0.0) >= _SHOWN]
    if lone:
        changed += comparison.of("inconclusive")
    changed.sort(key=lambda one: (one.verdict not in ("regressed", "improved"), -_size(one)))
    rows = changed[:top]
    if len(rows) < min(top, _FILL):
        rest = [one for one in comparison.kernels if one not in changed]
        rest.sort(key=lambda one: -_size(one))
        rows += rest[: min(top, _FILL) - len(rows)]
    return rows, max(len(changed) - top, 0)


# A kernel of one side is named from this part of the time on; so many rows are always shown.
_SHOWN = 0.005
_FILL = 3


def _size(change: Change) -> float:
    return abs(change.delta_ns) if change.delta_ns is not None else change.slower_ns


def labels(rows: Sequence[Change], width: int) -> list[str]:
    """Short names of changes, with the grid where the same name has several."""
    names = [one.name for one in rows]
    often = Counter(names)
    grids = [_grid(one) if often[one.name] > 1 else "" for one in rows]
    short = short_names(names, width - max(map(len, grids), default=0))
    return [short[name] + grid for name, grid in zip(names, grids, strict=True)]


def _grid(change: Change) -> str:
    group = (change.pair.head or change.pair.base)[0] if change.pair else None
    return f" [{'x'.join(map(str, group.grid))}]" if group and group.grid else ""


def call(change: Change, side: str) -> str:
    """'3.71 µs ± 1.3 %' a launch on one side; '-' where the side does not have it."""
    timed = change.base if side == "base" else change.head
    if not timed.call_ns:
        return "-"
    text = quantity(timed.call_ns, "ns")
    if timed.mad_ns is None or not timed.median_ns:
        return text
    return f"{text} ± {percent(timed.mad_ns / timed.median_ns)}"


def calls(change: Change) -> str:
    """'4 → 3 calls' where they differ: then the time changed for more than the speed of a call."""
    base, head = change.base.launches, change.head.launches
    if not base or not head or base == head:
        return ""
    return f"{from_to(base, head, '')} calls"


def difference(change: Change) -> str:
    """'+211 ms (+17.2 %, p < 0.001)'."""
    if change.delta_ns is None:
        return "-"
    inside = [change_pct(change)] if change.base.median_ns else []
    if change.p is not None:
        inside.append(p_value(change.p))
    text = signed(change.delta_ns)
    return f"{text} ({', '.join(part for part in inside if part)})" if any(inside) else text


def p_value(p: float) -> str:
    """'p < 0.001' or 'p = 0.21'."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def bound_by(change: Change) -> str:
    """The class of the head (of the base where there is no head); '-' where it is not known."""
    group = (change.pair.head or change.pair.base)[0] if change.pair else None
    if group is None or group.primary_class == "not-evaluable":
        return "-"
    return group.primary_class


def remark(comparison: Comparison, change: Change) -> str:
    """What a row says last: why there is no verdict, what counters say, how it was paired."""
    parts = []
    if change.verdict == "inconclusive":
        parts.append(change.reason)
    if change.basis == "counters":
        parts += [one.because for one in reasons(comparison, change) if one.severity != "info"]
    if change.pair and change.pair.by and not change.pair.same_name:
        parts.append(f"paired by {change.pair.by}")
    return "; ".join(parts)


def timeline_line(comparison: Comparison) -> str:
    """Idle time and exposed communication of a step, and copies that changed, on both sides; may be
    empty."""
    parts = [
        f"{label} {from_to(*pair)}"
        for label, pair in (
            ("idle", comparison.idle_ns),
            ("exposed communication", comparison.exposed_communication_ns),
        )
        if pair and any(pair)
    ]
    kernels = comparison.kernel_time
    if parts and kernels is not comparison.total:
        parts.insert(0, f"kernels {from_to(kernels.base.median_ns, kernels.head.median_ns)}")
    parts += _copies(comparison)
    return f"per {comparison.per}: {' · '.join(parts)}" if parts else ""


def _copies(comparison: Comparison) -> list[str]:
    """Time in copies on both sides, where it is another."""
    return [
        f"copies {from_to(one.base.median_ns, one.head.median_ns)}"
        for one in comparison.categories
        if one.category == "memcpy"
        and quantity(one.base.median_ns, "ns") != quantity(one.head.median_ns, "ns")
    ]


def commands(comparison: Comparison) -> list[str]:
    """What makes this comparison and the page with every change, once more.

    Runs go by their names: whoever repeats it stands in their folder, or has them in the store.
    Names that do not tell them apart give way to BASE and HEAD.
    """
    names = [one_line(one.run_name) for one in (comparison.base, comparison.head)]
    # In a comment, "|" would need a backslash.
    plain = names[0] != names[1] and all(
        0 < len(name) <= _LONGEST_NAME and "|" not in name for name in names
    )
    base, head = map(shlex.quote, names if plain else ("BASE", "HEAD"))
    limits, usual = comparison.limits, Thresholds()
    options = ["--force"] if comparison.forced else []
    if limits.percent != usual.percent:
        options.append(f"--min-percent {limits.percent:g}")
    if limits.least_ns is not None:
        options.append(f"--min-ms {limits.least_ns / 1e6:g}")
    more = "".join(f" {option}" for option in options)
    return [
        f"traceroof compare {base} {head}{more}",
        f"traceroof report {head} --base {base}{more}",
    ]


# A name longer than a path's parts may be (255 bytes) is no file's.
_LONGEST_NAME = 255


def sides(comparison: Comparison) -> tuple[str, str]:
    """Both runs in one line each."""
    return one_line(about_run(comparison.base)), one_line(about_run(comparison.head))
