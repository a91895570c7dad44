"""What every report says in words: the headline, the savings, what could not be judged."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from shlex import quote
from typing import Literal

from traceroof.core import recording, regex
from traceroof.core.kernel_names import short_names
from traceroof.core.selection import Narrowed
from traceroof.core.units import (
    count,
    one_line,
    percent,
    quantity,
)
from traceroof.diagnosis.advice import Entry
from traceroof.diagnosis.diagnosis import Diagnosis, KernelGroup
from traceroof.diagnosis.findings import Finding, NotJudged
from traceroof.diagnosis.not_judged import CLASS
from traceroof.diagnosis.nothing_to_gain import UNSAID
from traceroof.ingest.roles import said
from traceroof.kernels.places import By, PlaceTime
from traceroof.scopes.logged_clocks import GpuClocks

#: What kind of times a run has.
TIMES = {
    "counter-tool": "times measured one kernel at a time by a counter tool",
    "timeline": "times from a timeline",
}


def about(diagnosis: Diagnosis) -> str:
    """The run, its devices and what kind of times it has, in one line."""
    devices = ", ".join(dict.fromkeys(_devices(diagnosis))) or "GPU not named in the file"
    combined = said([source.role for source in diagnosis.sources])
    parts = [
        diagnosis.run_name,
        devices,
        _times(diagnosis),
        *([combined] if combined else []),
    ]
    return one_line(" · ".join(parts))


def _times(diagnosis: Diagnosis) -> str:
    # A summary has production times, but no timeline.
    summary = diagnosis.time_basis == "timeline" and not diagnosis.timelines
    return "times without a timeline" if summary else TIMES[diagnosis.time_basis]


def coverage(diagnosis: Diagnosis) -> str:
    """How much of the kernel time the joined counters speak of; empty without a join."""
    join = diagnosis.join
    if join is None:
        return ""
    share = "no known part" if join.coverage_time_pct is None else f"{join.coverage_time_pct:.1f} %"
    return (
        f"Counters cover {share} of kernel time ({join.covered:,} of "
        f"{count(_all_kernels(diagnosis), 'kernel')}); "
        f"{quantity(join.ambiguous_time_ns, 'ns')} ambiguous. Times are the timeline's; use of "
        "peaks, stalls and bytes are the counters'."
    )


def _all_kernels(diagnosis: Diagnosis) -> int:
    """The kernels of the whole run."""
    return diagnosis.narrowed.of_kernels if diagnosis.narrowed else len(diagnosis.kernels)


def settings(diagnosis: Diagnosis) -> list[str]:
    """What of the user's settings changes the result, a line; empty where nothing does."""
    return [one_line(words)] if (words := diagnosis.settings.words()) else []


def clocks(diagnosis: Diagnosis) -> list[str]:
    """What clock logs say, a line per GPU, those under load first; empty without a log."""
    if diagnosis.clocks is None:
        return []
    gpus = sorted(diagnosis.clocks.gpus, key=lambda one: one.basis != "load")
    lines = [_clocks_of(one) for one in gpus[:_GPUS]]
    if gpus[_GPUS:]:
        lines[-1] += f" And {count(len(gpus) - _GPUS, 'more GPU')}."
    tools = " and ".join(diagnosis.clocks.tools)
    unaligned = diagnosis.clocks.unaligned
    how = f"not aligned with the run ({unaligned})" if unaligned else "the samples of the run"
    lines[0] = f"Clock log of {tools}, {how}. {lines[0]}"
    return lines


# Of so many GPUs a report says the clocks.
_GPUS = 2


def _clocks_of(one: GpuClocks) -> str:
    name = "GPU" if one.gpu is None else f"GPU {one.gpu}"
    over = f"{one.loaded:,} of {one.samples:,} samples under load"
    if one.basis == "all":
        idle = "none under load" if one.loaded == 0 else "load not recorded"
        over = f"{count(one.samples, 'sample')}, {idle}"
    parts = []
    if clock := one.sm_clock_hz:
        low, high = (quantity(at, "Hz") for at in (clock.p5, clock.p95))
        parts.append(f"core clock {quantity(clock.p50, 'Hz')} (5 to 95 %: {low} to {high})")
    if one.power_w:
        parts.append(f"power {one.power_w.p50:,.0f} W")
    if one.temperature_c:
        parts.append(f"{one.temperature_c.p50:.0f} °C")
    if one.throttled:
        parts.append(f"held by a limit in {percent(one.throttled)} ({one.main_reason})")
    elif one.throttled is not None:
        parts.append("held by no limit")
    return f"{name}, {over}: {', '.join(parts) or 'no clock'}."


def covers_little(diagnosis: Diagnosis) -> bool:
    """Whether the joined counters speak of under half of the kernel time."""
    return diagnosis.join is not None and (diagnosis.join.coverage_time_pct or 0.0) < 50


def _devices(diagnosis: Diagnosis) -> Iterable[str]:
    for device in diagnosis.devices:
        capability = device.info.gfx_target or device.info.compute_capability
        if device.name:
            yield device.name
        elif capability:
            yield f"a GPU of {'CC ' if capability[0].isdigit() else ''}{capability}"


def total(diagnosis: Diagnosis) -> str:
    """Time, launches, and what the findings could save together."""
    totals = diagnosis.totals
    if not totals.launches:
        others = sum(one.launches for one in diagnosis.categories)
        time = quantity(sum(one.time_ns for one in diagnosis.categories), "ns")
        return f"No kernels: {count(others, 'copy or fill', 'copies and fills')} of {time} in all."
    launches = count(totals.launches, "launch", "launches")
    groups = count(len(diagnosis.kernels), "kernel")
    # No known duration at all: the sum is not zero but unknown.
    known = totals.kernel_time_ns or not totals.unknown_durations
    time = f"{quantity(totals.kernel_time_ns, 'ns')} of kernel time" if known else "An unknown time"
    text = f"{time} in {launches} of {groups}."
    if diagnosis.narrowed:
        text = _narrowed(diagnosis, diagnosis.narrowed)
    if totals.time_saved_bound_ns:
        share = saved_share(totals.time_saved_bound_ns, whole(diagnosis))
        which = "Advice on them" if diagnosis.narrowed else "All advice together"
        text += (
            f" {which} saves at most {quantity(totals.time_saved_bound_ns, 'ns')} "
            f"({share} of {whole_words(diagnosis)}), "
            f"likely {quantity(totals.time_saved_likely_ns, 'ns')}"
            f"{'' if diagnosis.timelines else '; overlap unknown'}."
        )
    return text


def _narrowed(diagnosis: Diagnosis, to: Narrowed) -> str:
    """'Narrowed to 1 of 30 kernels (gemm): 2.29 ms in 3 launches, 6.0 % of kernel time. …'"""
    kernels = diagnosis.kernels
    launches = count(sum(one.launches for one in kernels), "launch", "launches")
    known = [one.time_ns for one in kernels if one.time_ns is not None]
    time = quantity(sum(known), "ns") if known else "an unknown time"
    shares = [one.share for one in kernels if one.share is not None]
    share = f", {percent(sum(shares))} of kernel time" if shares else ""
    return f"Narrowed to {to.words}: {time} in {launches}{share}. Shares are of the whole run."


def whole(diagnosis: Diagnosis) -> int:
    """The time that savings are a part of, in ns: the wall time, without a timeline all kernel
    time."""
    return diagnosis.totals.wall_ns or diagnosis.totals.kernel_time_ns


def whole_words(diagnosis: Diagnosis) -> str:
    """What ``whole`` is, for a reader."""
    return "wall time" if diagnosis.totals.wall_ns else "kernel time"


def saved_share(bound_ns: int, whole_ns: int) -> str:
    """'12.0 %'."""
    return percent(min(bound_ns / whole_ns, 1.0)) if whole_ns else ""


def savings(finding: Finding) -> str:
    """'saves at most 1.2 ms, likely 0.8 ms'; empty where there is nothing to say."""
    bound, likely = finding.time_saved_bound_ns, finding.time_saved_likely_ns
    option = finding.kind == "option"
    if bound is None and finding.bound_share:
        share = percent(finding.bound_share)
        return f"{'could save' if option else 'saves'} at most {share} of its time"
    if not bound:
        return ""
    text = f"{'could save' if option else 'saves'} at most {quantity(bound, 'ns')}"
    if likely is not None:
        text += f", likely {quantity(likely, 'ns')}"
    return text + (", as an option that changes results" if option else "")


def gain(entry: Entry) -> str:
    """What an entry is expected to save, first the figure that entries are ordered by."""
    if entry.bound_ns is None:
        return savings(entry.lead).capitalize() if entry.lead.bound_share else ""
    at_most = f"at most {quantity(entry.bound_ns, 'ns')}{_of(entry)}"
    if entry.once:
        return f"Passes once per process, {at_most}: no saving of the steady state"
    if not entry.expected_ns:
        return f"{at_most[0].upper()}{at_most[1:]}, likely nothing"
    text = f"Expect {quantity(entry.expected_ns, 'ns')}{_expected(entry)}; {at_most}"
    if entry.likely_ns is not None:
        text += f", likely {quantity(entry.likely_ns, 'ns')}"
    return text + ("; changes numerics" if entry.lead.kind == "option" else "")


def _of(entry: Entry) -> str:
    return "" if entry.share is None else f" ({percent(entry.share)})"


def _expected(entry: Entry) -> str:
    """The expected saving as a part of the time."""
    if entry.share is None or not entry.bound_ns or entry.expected_ns is None:
        return ""
    return f" ({percent(entry.share * entry.expected_ns / entry.bound_ns)})"


def confidence(entry: Entry) -> str:
    """'confidence 0.57, lowered by run-variance'."""
    doubts = [one.rule for finding in entry.found for one in finding.doubted_by]
    by = ", ".join(dict.fromkeys(doubts))
    return f"confidence {entry.confidence}{f', lowered by {by}' if by else ''}"


def subjects(entry: Entry, names: Mapping[int, str]) -> str:
    """Which subjects an entry is about: kernels by name (``labels``), the first of many; empty for
    the run as a whole."""
    if entry.lead.scope == "run":
        return ""
    listed = [
        names.get(one.subject_index or 0, one.subject) if one.scope == "kernel" else one.subject
        for one in entry.found
    ]
    listed = list(dict.fromkeys(listed))
    more = len(listed) - _SUBJECTS
    return ", ".join(listed[:_SUBJECTS]) + (f" and {more} more" if more > 0 else "")


_SUBJECTS = 3
# Of an entry on thousands of kernels, those that may be named.
_NAMED = 100


def advised_kernels(entries: Sequence[Entry]) -> list[int]:
    """The kernel groups that entries are about, by their place; of each entry the first."""
    return [
        one.subject_index
        for entry in entries
        for one in entry.found[:_NAMED]
        if one.scope == "kernel" and one.subject_index is not None
    ]


def located(entry: Entry, names: Mapping[int, str]) -> list[str]:
    """Where an entry is, a line each: first in the program, with the kernels (``subjects``); then
    the line of Python that launches them."""
    found = [part for part in (entry.where.words, subjects(entry, names)) if part]
    on = entry.lead.scope == "timeline" and not entry.where.words
    lines = [f"{'On' if on else 'In'} {': '.join(found)}"] if found else []
    return lines + ([f"At {entry.where.source}"] if entry.where.source else [])


def time_by(diagnosis: Diagnosis, by: Literal["category"] | By) -> list[PlaceTime]:
    """The time by category, module, operator or range, most first; empty where none is recorded."""
    if by == "category":
        return [
            PlaceTime(one.category, one.launches, one.time_ns, one.share)
            for one in diagnosis.categories
        ]
    return [
        replace(one, name=one.name or f"(no {by} recorded)") for one in diagnosis.places.get(by, ())
    ]


def commands(entry: Entry) -> list[str]:
    """The options that go on from an entry: its arithmetic, the cards of its kernels, and the source
    lines of the first that has any."""
    kernels = [one.subject_index for one in entry.found if one.scope == "kernel"]
    numbers = dict.fromkeys(index + 1 for index in kernels if index is not None)
    lined = [
        one.subject_index + 1 for one in entry.found if one.lines and one.subject_index is not None
    ]
    # What rests on no rule has no arithmetic.
    explained = [] if entry.lead.rule in UNSAID else [f"--explain {entry.rank}"]
    return [
        *explained,
        *(f"--card {number}" for number in list(numbers)[:_CARDS]),
        *(f"--lines {number}" for number in lined[:1]),
    ]


_CARDS = 2


def command(diagnosis: Diagnosis) -> str:
    """The command that gives this diagnosis, in the folder of its file or of the store."""
    return f"traceroof diagnose {quote(diagnosis.run_name)}"


def also(entry: Entry) -> str:
    """The rules whose findings an entry explains, each once."""
    counts = Counter(one.rule for one in entry.folded)
    return ", ".join(f"{rule} ({n})" if n > 1 else rule for rule, n in counts.items())


def labels(diagnosis: Diagnosis, indices: Iterable[int], width: int) -> Mapping[int, str]:
    """Short, distinct names of kernel groups: equal names are told apart by their launch shape, and
    one that says nothing of what it does stands behind its operator."""
    wanted = list(dict.fromkeys(indices))
    kernels = diagnosis.kernels
    alike = Counter(kernels.names[index] for index in wanted)
    shapes = {
        index: f" ({_shape(kernels[index])})"
        for index in wanted
        if alike[kernels[index].kernel] > 1 and kernels[index].grid
    }
    does = {index: _operator(kernels[index]) for index in wanted}
    found: dict[int, str] = {}
    # Names are as long as what stands around them in their like leaves room for.
    for around in sorted({(bool(does[index]), index in shapes) for index in wanted}):
        these = [one for one in wanted if (bool(does[one]), one in shapes) == around]
        taken = max(len(does[one]) + len(shapes.get(one, "")) for one in these)
        names = short_names((kernels[one].kernel for one in these), width - taken)
        for one in these:
            found[one] = does[one] + names[kernels[one].kernel] + shapes.get(one, "")
    return {index: found[index] for index in wanted}


# Kernels of libraries that are named by how they run, not by what they do.
_GENERIC = regex.compile(
    r"^Cijk_|^nvjet_|^cutlass|^gemm_kernel|\b(elementwise|reduce|distribution)\w*_kernel"
    r"|\b(unrolled|vectorized)_"
)
_LONGEST_OPERATOR = 18


def _operator(kernel: KernelGroup) -> str:
    """'mul: ' for a kernel whose name does not say what it does; empty for others."""
    operator = (kernel.where.operator or "").rsplit("::", 1)[-1]
    if not operator or len(operator) > _LONGEST_OPERATOR or not _GENERIC.search(kernel.kernel):
        return ""
    return f"{one_line(operator)}: "


def _shape(kernel: KernelGroup) -> str:
    """The grid without the axes that have one block: 128x64."""
    x, y, z = kernel.grid or (0, 0, 0)
    return f"{x}x{y}x{z}" if z > 1 else f"{x}x{y}" if y > 1 else f"{x}"


def ceilings(diagnosis: Diagnosis) -> str:
    """Which ceilings the likely figures stand for, and how to measure those that are assumed; empty
    where no figure needs one."""
    likely = any(
        one.time_saved_likely_ns is not None and one.scope in ("kernel", "category")
        for one in diagnosis.fired()
    )
    if not likely and not diagnosis.kernels.has_roofline():
        return ""
    # What others published of the model says less than one's own card.
    measured = any(word in diagnosis.ceilings for word in ("calibrated", "measured"))
    advice = "" if measured else "; `traceroof calibrate` measures what this GPU reaches"
    return f"Likely: {diagnosis.ceilings.partition('likely: ')[2]}{advice}."


def note_lines(diagnosis: Diagnosis) -> list[str]:
    """The notes of the run and of every file, each said once."""
    lines = [*diagnosis.notes, *recording.note_lines(diagnosis.sources)]
    return list(dict.fromkeys(one_line(line) for line in lines))


def not_judged(found: NotJudged) -> str:
    """What lacks data, and which of it the command would decide."""
    words = ["the class" if one == CLASS else one for one in found.decides]
    first = f". Most telling next: {', '.join(words)}" if words else ""
    return f"{found.what} {lack(found)} data{first}"


def lack(found: NotJudged) -> str:
    """The verb behind what could not be judged."""
    one = found.what.startswith(("the class of", "1 rule")) and " and " not in found.what
    return "lacks" if one else "lack"
