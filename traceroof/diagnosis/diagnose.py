"""From a recording to a diagnosis: totals, categories, kernel groups with a class, findings, advice."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from traceroof import plugins
from traceroof.calibration.apply import applicable
from traceroof.config import NONE, Settings
from traceroof.core.dictionary import Coded
from traceroof.core.facts import Facts
from traceroof.core.memory import give_back
from traceroof.core.recording import (
    Recording,
    Run,
)
from traceroof.core.units import count
from traceroof.diagnosis.advice import advice_of, name_of
from traceroof.diagnosis.collect import tool_of
from traceroof.diagnosis.diagnosis import CategoryTime, Diagnosis, Grounds, Totals
from traceroof.diagnosis.find import find_all
from traceroof.diagnosis.finding_places import Concerned
from traceroof.diagnosis.findings import Context, Finding
from traceroof.diagnosis.framework_terms import framework_of
from traceroof.diagnosis.headline import headline_of
from traceroof.diagnosis.judged_groups import JudgedGroups, judged_groups
from traceroof.diagnosis.kernel_groups import kernel_groups
from traceroof.diagnosis.lines import Lines, lines_of_groups
from traceroof.diagnosis.not_judged import not_judged
from traceroof.diagnosis.open_time import open_time
from traceroof.diagnosis.savings import bounds_pct
from traceroof.diagnosis.totals import pool_of_run, run_totals, with_savings
from traceroof.diagnosis.vendor_verdicts import VendorVerdict, capped, verdicts_of_groups
from traceroof.hardware import ceiling_words, ceilings
from traceroof.hardware.ceilings import Attainable, MeasuredRate
from traceroof.hardware.devices import knowing
from traceroof.hardware.run_devices import (
    RunDevice,
    vendor_of,
    without_reported,
)
from traceroof.kernels.places import places_of
from traceroof.kernels.variants import Variants
from traceroof.patterns import Patterns, find_patterns
from traceroof.rule import Rule, Scope
from traceroof.scopes import host_sums, logged_clocks, measurement_quality, subjects
from traceroof.scopes.subjects import Subjects
from traceroof.timeline import Timeline, ranks
from traceroof.timeline.partial import partial_of_run


def diagnose(
    run: Run | Recording,
    *,
    device: str | None = None,
    rules: Sequence[Rule] | None = None,
    attainable: Attainable | None = None,
    calibration: Sequence[MeasuredRate] = (),
    settings: Settings = NONE,
) -> Diagnosis:
    """Diagnose a run.

    device: name of the GPU where the file does not say it (raises TraceroofError when unknown).
    rules: the rules to hold against it; all of them by default. calibration: the rates that
    ``traceroof calibrate`` measured; they hold where the files did not measure their own, and
    ``ceilings.UNCALIBRATED`` where nobody did. attainable: shares that go before all of these.
    settings: what the user set; ``device`` goes before theirs. Raises TraceroofError for a rule or
    threshold that they name and that does not exist.
    """
    return diagnose_rows(
        run,
        device=device,
        rules=rules,
        attainable=attainable,
        calibration=calibration,
        settings=settings,
    )[0]


@dataclass(frozen=True)
class Rows:
    """What each row of a kernel table belongs to: its category, and its kernel group by the order
    of ``Diagnosis.kernels`` (-1 for copies and fills). As long as the table, so no part of it.

    variants: what its launches were put together to; of_variant, category_of_variant: the same of
    these."""

    category: Coded
    group: npt.NDArray[np.int64]
    variants: Variants
    of_variant: npt.NDArray[np.int64]
    category_of_variant: Sequence[str]


def diagnose_rows(
    run: Run | Recording,
    *,
    device: str | None = None,
    rules: Sequence[Rule] | None = None,
    attainable: Attainable | None = None,
    calibration: Sequence[MeasuredRate] = (),
    settings: Settings = NONE,
) -> tuple[Diagnosis, Rows]:
    """``diagnose``, and what the rows of the run's kernel table belong to."""
    with knowing(settings.devices):
        return _diagnosed(run, device, rules, attainable, calibration, settings)


def _diagnosed(
    run: Run | Recording,
    device: str | None,
    rules: Sequence[Rule] | None,
    attainable: Attainable | None,
    calibration: Sequence[MeasuredRate],
    settings: Settings,
) -> tuple[Diagnosis, Rows]:
    run = run if isinstance(run, Run) else Run(recording=run, name=_name_of(run))
    recording = without_reported(run.recording.judged(), settings.peaks)
    judged = judged_groups(recording, device, settings, attainable, calibration)
    grouped, categories, variants = judged.grouped, judged.categories, judged.part.variants
    give_back()
    partial = partial_of_run(recording, judged.category_of_row)
    lines, across = list(partial.timelines), ranks.ranks(partial)
    totals = run_totals(variants, lines)
    parts = _patterns(recording, judged, lines)
    scopes = _scopes(recording, judged, lines, across, totals, parts)
    context = _context(recording, judged, totals, attainable, settings)
    judged_by = settings.rules(plugins.rules() if rules is None else rules)
    pool = pool_of_run(variants, grouped, lines, across)
    grounds = Grounds(judged_by, scopes, context, pool, _source_lines(recording, judged))
    places = places_of(variants, grouped.of_row)
    concerned = Concerned(places, categories, parts.members, judged_by)
    found, hidden = find_all(grounds.rules, scopes, context)
    found = tuple(grounds.lines.named(one) for one in concerned.with_wheres(found))
    verdicts = _vendor_verdicts(judged, found)
    groups_made = kernel_groups(grouped, verdicts, concerned.where, grounds.lines)
    category_times = _category_times(scopes["category"])
    asked = not_judged(groups_made, found, grounds)
    unexplained = open_time(groups_made, pool, asked)
    advice = advice_of(found, pool, concerned.place, settings.steps, unexplained)
    diagnosis = Diagnosis(
        run_id=run.id,
        run_name=run.name,
        format=recording.format,
        time_basis=recording.time_basis,
        sources=recording.all_sources,
        join=judged.joined,
        clocks=judged.clocks,
        devices=judged.devices,
        totals=with_savings(totals, advice),
        categories=category_times,
        kernels=groups_made,
        findings=found,
        advice=advice,
        headline=headline_of(totals, category_times, groups_made, advice),
        ceilings=_CALIBRATED if attainable else ceiling_words.describe(grouped.facts),
        calibration=_used(calibration, judged.named, recording.time_basis),
        timelines=tuple(lines),
        ranks=across,
        hidden_findings=hidden,
        not_judged=asked,
        notes=(*_run_notes(totals, judged.devices, grouped.facts), *_failures(found)),
        settings=settings,
        places=concerned.tables({name_of(one): one for one in found if one.state == "fired"}),
        grounds=grounds,
    )
    return diagnosis, Rows(
        judged.category_of_row, judged.of_row, variants, grouped.of_row, categories
    )


def _patterns(recording: Recording, judged: JudgedGroups, lines: Sequence[Timeline]) -> Patterns:
    """What kernels do together; only a timeline has their order."""
    if recording.time_basis != "timeline":
        return Patterns()
    return find_patterns(judged.part, judged.categories, judged.role, judged.grouped, lines)


#: So many kernels somebody profiles one by one, each for its own sake.
_LOOKED_AT = 1000


def _context(
    recording: Recording,
    judged: JudgedGroups,
    totals: Totals,
    attainable: Attainable | None,
    settings: Settings,
) -> Context:
    """What the findings of a run are weighed against."""
    return Context(
        total_ns=totals.span_ns or totals.kernel_time_ns,
        attainable=judged.ceiling,
        overall=ceilings.overall(judged.ceiling, judged.grouped.facts.time_ns),
        calibrated=judged.measured | (attainable is not None),
        # The kernels that a counter tool was pointed at are no sample of where the time goes.
        few_matter=recording.time_basis == "timeline",
        vendor=vendor_of(judged.devices),
        tool=tool_of(judged.devices),
        alone=recording.time_basis == "counter-tool" and len(judged.grouped) <= _LOOKED_AT,
        settings=settings,
        hidden_share=settings.steps["low"],
        framework=framework_of(recording.format),
    )


def _vendor_verdicts(
    judged: JudgedGroups, found: Sequence[Finding]
) -> tuple[tuple[VendorVerdict, ...], ...]:
    """What the profilers say of each kernel group, with bounds no larger than ours."""
    verdicts = verdicts_of_groups(judged.verdict_table, judged.verdict_rows, len(judged.grouped))
    return capped(verdicts, bounds_pct(judged.grouped.facts, found).tolist())


def _source_lines(recording: Recording, judged: JudgedGroups) -> Lines:
    """The hot lines of each kernel group; those of a timeline's kernels are its counters'."""
    sampled_by = recording.counters.judged() if recording.counters else recording
    times = judged.grouped.facts.time_ns.tolist()
    return lines_of_groups(sampled_by.source_lines, judged.verdict_rows, times)


def _scopes(
    recording: Recording,
    judged: JudgedGroups,
    lines: Sequence[Timeline],
    across: ranks.Ranks | None,
    totals: Totals,
    parts: Patterns,
) -> dict[Scope, Subjects]:
    """What the rules of each scope judge."""
    grouped, kernels = judged.grouped, recording.kernels
    return {
        "kernel": Subjects(grouped.facts, grouped.names),
        "category": subjects.of_categories(judged.part.variants, judged.categories, parts),
        "timeline": subjects.of_timelines(lines, across),
        "run": subjects.of_run(
            grouped,
            launches=totals.launches,
            kernel_time_ns=totals.kernel_time_ns,
            span_ns=totals.span_ns,
            busy_ns=totals.gpu_busy_ns,
            across=across,
            parts=parts,
            measured={
                **measurement_quality.facts_of(
                    recording,
                    judged.by_row,
                    lines,
                    [(one.info, one.known) for one in judged.devices],
                    logged_clocks.of_run(judged.clocks, kernels),
                ),
                **host_sums.facts_of(recording.call_sums),
            },
        ),
    }


def _used(
    calibration: Sequence[MeasuredRate], named: Iterable[str | None], time_basis: str
) -> tuple[MeasuredRate, ...]:
    """The stored rates that hold for the devices of the run."""
    found = [
        rate
        for device in dict.fromkeys(named)
        for rate in applicable(calibration, device, time_basis).values()
    ]
    return tuple(dict.fromkeys(found))


_CALIBRATED = "at most: nominal dense peaks; likely: calibrated on this device"


def _name_of(recording: Recording) -> str:
    return Path(recording.sources[0].path).name if recording.sources else "run"


def _category_times(by_category: Subjects) -> tuple[CategoryTime, ...]:
    facts = by_category.facts
    return tuple(
        CategoryTime(
            category=name,
            launches=int(facts.launches[row]),
            time_ns=int(facts.time_ns[row]),
            share=None if np.isnan(facts.share_pct[row]) else float(facts.share_pct[row]) / 100,
        )
        for row, name in enumerate(by_category.names)
    )


def _failures(found: Sequence[Finding]) -> list[str]:
    """The rules of plug-ins that broke."""
    return [one.failed for one in found if one.failed]


def _run_notes(totals: Totals, devices: Sequence[RunDevice], facts: Facts) -> tuple[str, ...]:
    notes = []
    if totals.unknown_durations:
        notes.append(
            f"{totals.unknown_durations:,} of {totals.launches:,} launches have no known duration "
            "and are left out of all times"
        )
    notes += [
        f"{device.info.name} is not in the device table: peaks come from the report or are unknown"
        for device in devices
        if device.info.name and device.known is None
    ]
    ranges = int((facts.only(("name_range",)).name_range == 1).sum())
    if ranges:
        notes.append(
            f"{count(ranges, 'result')} of ranges: a range holds several kernels and the gaps "
            "between them, so no rule on kernels judges it; its class is that of the whole"
        )
    work = facts.only(("dram_bytes", "flops", "model_bytes"))
    counted = any(not np.isnan(getattr(work, name)).all() for name in work.names())
    if counted and not any(device.name for device in devices):
        notes.append(
            "the files do not say which GPU it was, so its peaks are unknown: name it with "
            "--device (`traceroof devices` lists the names)"
        )
    return tuple(notes)
