"""What every report of a comparison says on how far to trust it: samples, surroundings, noise."""

from traceroof.compare import Comparison
from traceroof.compare.changes import Change
from traceroof.compare.comparable import CLOCKS
from traceroof.compare.known_noise import LEAST_RUNS
from traceroof.core.units import count, one_line, percent, quantity
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.ingest.detect import READ_ONCE


def trust(comparison: Comparison) -> list[str]:
    """What the verdict rests on, and what weakens it."""
    lines = [samples(comparison)]
    lines.append(surroundings(comparison))
    lines.append(_pairs(comparison))
    total = comparison.total
    if line := _noise(comparison, total):
        lines.append(line)
    if comparison.base.time_basis == comparison.head.time_basis == "counter-tool":
        lines.append("a counter tool timed each kernel alone: compare its times as ratios")
    lines += [str(one) for one in comparison.differences if not one.blocks]
    lines += comparison.notes
    return lines


def _noise(comparison: Comparison, total: Change) -> str:
    """Where the noise comes from, and from which change on it lets one show."""
    if total.noise is None or total.detectable is None:
        return ""
    base, head = comparison.samples if comparison.sampled == "runs" else (1, 1)
    sides = count(base, "run") if base == head else f"{base} against {head} runs"
    shows = f"detectable from {total.detectable:.1%} with {sides}{' per side' * (base == head)}"
    profile = comparison.noise
    if profile is not None and total.measured:
        text = (
            f"noise was measured on {profile.runs} runs of {one_line(profile.workload)} "
            f"({profile.measured}), whose {total.name} scatters by {total.noise:.1%}: {shows}"
        )
    elif comparison.sampled == "runs":
        text = (
            f"the runs' {total.name} scatters by {total.noise:.1%}: {shows} (`traceroof noise` "
            "measures the scatter of repeats; fewer runs are then enough)"
        )
    else:
        return ""
    return text.replace("%", " %")


def samples(comparison: Comparison) -> str:
    """How much was measured, and whether that decides anything."""
    base, head = comparison.samples
    if comparison.sampled == "runs":
        text = f"{base} against {head} runs"
        needed = _runs_needed(comparison)
        few = min(base, head) < needed
        return f"{text}; verdicts need {needed} per side" if few else text
    if comparison.total.measured:
        return (
            f"one run per side: the {comparison.total.name} is judged by the measured noise; "
            f"all other times need {_runs_needed(comparison)} runs per side{_equal_files(comparison)}"
        )
    single = (
        f"the {comparison.total.name} counts if it changes by "
        f"{comparison.limits.single_percent:.0f} % or more; all other times need "
        f"{comparison.limits.runs} runs per side"
    )
    single += _equal_files(comparison)
    if comparison.sampled == "steps":
        return f"one run per side ({base} against {head} steps): {single}"
    return f"one run per side: {single}"


def _runs_needed(comparison: Comparison) -> int:
    """Runs per side that decide the times of kernels."""
    return LEAST_RUNS if comparison.noise is not None else comparison.limits.runs


def _equal_files(comparison: Comparison) -> str:
    """Why files that were given as runs are none: equal files are one measurement."""
    notes = [
        note
        for side in (comparison.base, comparison.head)
        for source in side.sources
        for note in source.notes
        if note.text.startswith(READ_ONCE)
    ]
    copies = sum(note.count for note in notes)
    return (
        f" ({count(copies, 'file')} with the same content as another: one measurement)"
        if copies
        else ""
    )


def surroundings(comparison: Comparison) -> str:
    """Whether GPU, driver, clocks and tool are the same."""
    if comparison.blocked:
        apart = "; ".join(str(one) for one in comparison.differences if one.blocks)
        how = "compared anyway (--force)" if comparison.forced else "times not compared"
        return f"{apart}: {how}"
    known = [one.name for one in comparison.head.devices if one.name]
    gpu = ", ".join(dict.fromkeys(known)) or "not named"
    told = _clocked(comparison.base) and _clocked(comparison.head)
    clocks = "SM clock within 3 %" if told else "clocks not recorded"
    driver = ", ".join(sorted({one.info.driver or "" for one in comparison.head.devices} - {""}))
    # On one side only: said among the differences.
    alike = driver and not any(one.what == "driver" for one in comparison.differences)
    said = f"driver {driver}" if alike else "driver not recorded"
    return f"same GPU ({gpu}) and tool, {clocks}, {said}"


def _clocked(diagnosis: Diagnosis) -> bool:
    return any(name in one.metrics for one in diagnosis.kernels for name in CLOCKS)


def _pairs(comparison: Comparison) -> str:
    everything = sum(one.slower_ns for one in comparison.kernels)
    paired = [one for one in comparison.kernels if one.pair and one.pair.by]
    named = [one for one in paired if one.pair and one.pair.same_name]
    if not everything:
        return f"{len(paired)} of {len(comparison.kernels)} kernels paired"
    by_name = sum(one.slower_ns for one in named) / everything
    by_work = sum(one.slower_ns for one in paired) / everything - by_name
    text = f"{percent(by_name)} of the kernel time is in kernels paired by name"
    return (
        f"{text}, {percent(by_work)} in kernels paired by their work" if by_work >= 0.0005 else text
    )


def thresholds(comparison: Comparison) -> str:
    """The rule that the verdicts follow, in one line."""
    limits = comparison.limits
    least = (
        f"{limits.share_pct:g} % of the kernel time"
        if limits.least_ns is None
        else quantity(limits.least_ns, "ns")
    )
    return (
        f"a kernel is slower or faster if it changes by {limits.percent:g} % of its own time and by "
        f"{least} or more, with p < {limits.p:g} (Mann-Whitney), q <= {limits.q:g} "
        f"(Benjamini-Hochberg, weighted by time) and means apart by Student's t, over at least "
        f"{limits.runs} runs per side"
        + (
            f". Measured noise replaces these tests (Student's t) from {LEAST_RUNS} runs per side on"
            if comparison.noise is not None
            else ""
        )
    )
