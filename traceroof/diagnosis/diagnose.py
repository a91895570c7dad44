"""From a recording to a diagnosis: totals, categories, kernel groups with a class, findings, advice."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceroof import plugins, timeline
from traceroof.config import NONE, Settings
from traceroof.core.dictionary import coded, together
from traceroof.core.facts import Facts
from traceroof.core.recording import (
    Recording,
    Run,
)
from traceroof.diagnosis import sensitivity
from traceroof.diagnosis.advice import advice_of, name_of
from traceroof.diagnosis.concerned import Concerned
from traceroof.diagnosis.diagnosis import CategoryTime, Diagnosis, Grounds, Totals
from traceroof.diagnosis.find import find_all, fired, unjudged_each
from traceroof.diagnosis.findings import Context, Finding, ranked
from traceroof.diagnosis.headline import headline_of
from traceroof.diagnosis.judging import judge_all
from traceroof.diagnosis.kernel_groups import kernel_groups
from traceroof.diagnosis.run_devices import (
    RunDevice,
    by_ordinal,
    devices_of,
    named_by,
    tool_of,
    vendor_of,
    without_reported,
)
from traceroof.diagnosis.savings import bounds_pct
from traceroof.diagnosis.totals import pool_of_kernels, pool_of_run, run_totals, with_savings
from traceroof.diagnosis.vendor_verdicts import capped, verdicts_of_groups
from traceroof.hardware import ceiling_words, ceilings
from traceroof.hardware.ceilings import Attainable, MeasuredRate
from traceroof.hardware.devices import Device, knowing
from traceroof.kernels import bound_class, counter_join, groups
from traceroof.kernels.categories import categories_of
from traceroof.kernels.groups import Groups
from traceroof.kernels.modelled_work import model_columns
from traceroof.kernels.places import places_of
from traceroof.patterns import Patterns, find_patterns, roles
from traceroof.patterns.dram_chains import dram_chains
from traceroof.rule import Rule, Scope
from traceroof.scopes import logged_clocks, measurement_quality, subjects
from traceroof.scopes.logged_clocks import LoggedClocks
from traceroof.scopes.subjects import Subjects
from traceroof.timeline import ranks


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
    of ``Diagnosis.kernels`` (-1 for copies and fills). As long as the table, so no part of it."""

    category: Sequence[str]
    group: npt.NDArray[np.int64]


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
    kernels = recording.kernels
    categories = row_categories(kernels)
    if device is None and not any(one.name for one in recording.devices):
        device = settings.device
    devices = devices_of(recording, device, settings.peaks)
    if recording.counters is not None:
        counted_on = devices_of(recording.counters, device, settings.peaks)
        if not any(one.known for one in devices):
            devices = counted_on
        elif name := named_by(devices, counted_on):
            devices = devices_of(recording, name, settings.peaks)
    vendor = vendor_of(devices)

    role = roles.roles_of(kernels, categories)
    grouped = groups.group(
        kernels,
        categories,
        by_ordinal(devices),
        {**model_columns(kernels, categories), "role": role},
        vendor,
    )
    joined = None
    verdict_rows, verdict_table = grouped.of_row.tolist(), recording.verdicts
    if recording.counters is not None:
        counters = without_reported(recording.counters, settings.peaks)
        counted, most = _counted(counters, device, devices, settings)
        joined = counter_join.join(grouped, counted, most=most)
        grouped = counter_join.with_counters(grouped, counted, joined)
        partner = {match.counted: at for at, match in enumerate(joined.matches) if match}
        verdict_rows = [partner.get(one, -1) for one in counted.of_row.tolist()]
        verdict_table = recording.counters.verdicts
    ordinal = grouped.facts.only(("device",)).device
    of_group = groups.device_of_group(ordinal, by_ordinal(devices))
    named = [one.name if one else None for one in of_group]
    logs = pc.unique(recording.clock_logs["source"]).to_pylist()
    tools = [recording.sources[at].format for at in logs]
    clocks = logged_clocks.logged_clocks(recording.clock_logs, tools, kernels)
    grouped = _clocked(grouped, recording, clocks, of_group)
    calibrated = ceilings.with_calibration(grouped.facts, named, calibration, recording.time_basis)
    grouped = replace(grouped, facts=calibrated)
    ceiling, measured = ceilings.of_groups(grouped.facts)
    ceiling = attainable or ceiling
    primary = bound_class.primary_class(grouped.facts, ceiling)
    near, by = sensitivity.near_classes(grouped.facts, ceiling)
    alone = np.full(len(grouped), float(recording.time_basis == "counter-tool"))
    grouped = replace(
        grouped,
        facts=_with(
            grouped.facts, primary_class=primary, class_near=near, class_near_by=by,
            by_counters=alone, **dram_chains(kernels, grouped, _l2_sizes(of_group)),
        ),
    )  # fmt: skip
    lines = timeline.timelines(recording, categories)
    across = ranks.ranks(recording, categories, lines)
    totals = run_totals(kernels, lines)
    # The kernels that a counter tool was pointed at are no sample of where the time goes.
    sampled = recording.time_basis == "timeline"
    parts = find_patterns(kernels, categories, role, grouped, lines) if sampled else Patterns()
    by_category = subjects.of_categories(kernels, categories, parts)

    scopes: dict[Scope, Subjects] = {
        "kernel": Subjects(grouped.facts, grouped.names),
        "category": by_category,
        "timeline": subjects.of_timelines(lines, across),
        "run": subjects.of_run(
            grouped,
            launches=totals.launches,
            kernel_time_ns=totals.kernel_time_ns,
            span_ns=totals.span_ns,
            busy_ns=totals.gpu_busy_ns,
            across=across,
            parts=parts,
            measured=measurement_quality.facts_of(
                recording,
                grouped,
                lines,
                [(one.info, one.known) for one in devices],
                logged_clocks.of_run(clocks, kernels),
            ),
        ),
    }
    context = Context(
        total_ns=totals.span_ns or totals.kernel_time_ns,
        attainable=ceiling,
        overall=ceilings.overall(ceiling, grouped.facts.time_ns),
        calibrated=measured | (attainable is not None),
        few_matter=recording.time_basis == "timeline",
        vendor=vendor,
        tool=tool_of(devices),
        alone=recording.time_basis == "counter-tool",
        settings=settings,
        hidden_share=settings.steps["low"],
    )
    judged_by = settings.rules(plugins.rules() if rules is None else rules)
    grounds = Grounds(judged_by, scopes, context)
    found, hidden = find_all(grounds.rules, scopes, context)
    verdicts = capped(
        verdicts_of_groups(verdict_table, verdict_rows, len(grouped)),
        bounds_pct(grouped.facts, found).tolist(),
    )
    concerned = Concerned(places_of(kernels, grouped.of_row), categories, parts.rows, grounds.rules)
    wheres = concerned.wheres(len(grouped))
    found = concerned.with_wheres(found, wheres)
    groups_made = kernel_groups(grouped, verdicts, wheres)
    category_times = _category_times(by_category)
    advice = advice_of(found, pool_of_run(kernels, grouped, lines), concerned.place, settings.steps)
    holding = {name_of(one): one for one in found if one.state == "fired"}
    made = Diagnosis(
        run_id=run.id,
        run_name=run.name,
        format=recording.format,
        time_basis=recording.time_basis,
        sources=recording.all_sources,
        join=joined,
        clocks=clocks,
        devices=devices,
        totals=with_savings(totals, advice),
        categories=category_times,
        kernels=groups_made,
        findings=found,
        advice=advice,
        headline=headline_of(totals, category_times, groups_made, advice),
        ceilings=_CALIBRATED if attainable else ceiling_words.describe(grouped.facts),
        calibration=_used(calibration, named, recording.time_basis),
        timelines=tuple(lines),
        ranks=across,
        hidden_findings=hidden,
        notes=(*_run_notes(totals, devices, grouped.facts), *_failures(found)),
        settings=settings,
        places=concerned.tables(holding),
        grounds=grounds,
    )
    return made, Rows(categories, grouped.of_row)


def _clocked(
    grouped: Groups,
    recording: Recording,
    clocks: LoggedClocks | None,
    of_group: Sequence[Device | None],
) -> Groups:
    """The groups with the clock of a log: a counter tool sets its own."""
    if clocks is None or recording.time_basis != "timeline":
        return grouped
    logged = logged_clocks.by_group(
        recording.clock_logs, clocks, recording.kernels, grouped.of_row, len(grouped)
    )
    if np.isnan(logged).all():
        return grouped
    rated = np.array(
        [np.nan if one is None else one.boost_clock_hz or np.nan for one in of_group], dtype=float
    )
    facts = _with(grouped.facts, logged_clock_hz=logged, logged_clock_pct=logged / rated * 100)
    return replace(grouped, facts=facts)


def _counted(
    counters: Recording, device: str | None, timed_on: Sequence[RunDevice], settings: Settings
) -> tuple[groups.Groups, float]:
    """The kernel groups of a counter tool, and the most that a join with them is worth: less where
    they were measured on another GPU model."""
    kernels = counters.judged().kernels
    devices = devices_of(counters, device, settings.peaks)
    if name := named_by(devices, timed_on):
        devices = devices_of(counters, name, settings.peaks)
    made = groups.group(
        kernels, row_categories(kernels), by_ordinal(devices), {}, vendor_of(devices)
    )
    models = [{one.known.name for one in side if one.known} for side in (timed_on, devices)]
    same = not all(models) or bool(models[0] & models[1])
    return made, 1.0 if same else counter_join.FORCED


def of_kernels(diagnosis: Diagnosis, indices: Sequence[int]) -> Diagnosis:
    """The diagnosis of some kernel groups: they alone, with everything that was found on them.

    Findings too small for the whole run are there, and a rule that could not be judged says so for
    each kernel. Totals, categories and timelines stay those of the run. Raises ValueError without
    grounds.
    """
    grounds = diagnosis.grounds
    if grounds is None:
        raise ValueError("this diagnosis keeps no grounds")
    rows = np.asarray(indices, dtype=np.int64)
    subjects = grounds.scopes["kernel"]
    facts = subjects.facts
    taken = Facts({name: getattr(facts, name)[rows] for name in facts.names()}, len(rows))
    some = Subjects(taken, [subjects.names[row] for row in indices])
    context = grounds.context

    def of_rows(values: Any) -> Any:
        return values[rows] if np.ndim(values) else values

    narrow = replace(
        context,
        attainable=Attainable(
            of_rows(context.attainable.memory), of_rows(context.attainable.compute)
        ),
        calibrated=of_rows(context.calibrated),
        hidden_share=0.0,
    )
    scopes = {**grounds.scopes, "kernel": some}
    found: list[Finding] = []
    for judgement, by in judge_all(grounds.rules, scopes, narrow)[0]["kernel"]:
        found += fired(judgement, by, some, narrow)[0]
        found += unjudged_each(judgement, some, narrow)
    kernels = tuple(diagnosis.kernels[row] for row in indices)
    listed = tuple(
        replace(one, where=kernels[one.subject_index].where)
        if one.subject_index is not None
        else one
        for one in ranked(found)
    )
    return replace(
        diagnosis,
        kernels=kernels,
        findings=listed,
        advice=advice_of(listed, pool_of_kernels(taken), steps=grounds.context.settings.steps),
        hidden_findings=0,
        grounds=Grounds(grounds.rules, scopes, narrow),
    )


def _used(
    calibration: Sequence[MeasuredRate], named: Iterable[str | None], time_basis: str
) -> tuple[MeasuredRate, ...]:
    """The stored rates that hold for the devices of the run."""
    found = [
        rate
        for device in dict.fromkeys(named)
        for rate in ceilings.applicable(calibration, device, time_basis).values()
    ]
    return tuple(dict.fromkeys(found))


_CALIBRATED = "at most: nominal dense peaks; likely: calibrated on this device"


def row_categories(kernels: pa.Table) -> list[str]:
    """The category of every row of a kernel table; copies and fills by their kind."""
    names, operators, kinds = (coded(kernels[one]) for one in ("kernel_name", "operator", "kind"))
    of_row, first = together((names.codes, operators.codes, kinds.codes))
    from_names = categories_of(names.at(first), operators.at(first))
    found = [
        category if kind in ("kernel", "graph") else str(kind)
        for category, kind in zip(from_names, kinds.at(first), strict=True)
    ]
    return [found[number] for number in of_row.tolist()]


def _name_of(recording: Recording) -> str:
    return Path(recording.sources[0].path).name if recording.sources else "run"


def _with(facts: Facts, **columns: npt.NDArray[Any]) -> Facts:
    known = {name: getattr(facts, name) for name in facts.names()}
    return Facts({**known, **columns}, len(facts))


def _l2_sizes(devices: Sequence[Device | None]) -> npt.NDArray[np.float64]:
    return np.array(
        [np.nan if one is None or one.l2_bytes is None else one.l2_bytes for one in devices],
        dtype=np.float64,
    )


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
    work = facts.only(("dram_bytes", "flops", "model_bytes"))
    counted = any(not np.isnan(getattr(work, name)).all() for name in work.names())
    if counted and not any(device.name for device in devices):
        notes.append(
            "the files do not say which GPU it was, so its peaks are unknown: name it with "
            "--device (`traceroof devices` lists the names)"
        )
    return tuple(notes)
