"""From a recording to a diagnosis: totals, categories, kernel groups with a class, findings.

A ``Diagnosis`` is complete before any renderer sees it; ``to_dict`` is the JSON contract
``traceroof/diagnosis/1`` (``docs/diagnosis.schema.json``).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceroof import plugins, timeline
from traceroof.core import kernel_table
from traceroof.core.dictionary import coded, together
from traceroof.core.facts import Facts, is_unknown_value, whole
from traceroof.core.recording import (
    DeviceInfo,
    Recording,
    Run,
    Source,
)
from traceroof.diagnosis import sensitivity
from traceroof.diagnosis.findings import (
    Context,
    Finding,
    find_all,
    fired,
    judge_all,
    ranked,
    spare_ns,
    unjudged_each,
)
from traceroof.diagnosis.vendor_verdicts import VendorVerdict, capped, verdicts_of_groups
from traceroof.errors import TraceroofError
from traceroof.hardware import ceilings
from traceroof.hardware.ceilings import NOMINAL, Attainable, MeasuredRate
from traceroof.hardware.devices import (
    Device,
    find,
    in_common,
    matches,
)
from traceroof.hardware.roofline import Roofline, roofline, t_min_ns
from traceroof.kernels import bound_class, groups
from traceroof.kernels.categories import categories_of
from traceroof.kernels.groups import Groups
from traceroof.kernels.modelled_work import model_columns
from traceroof.patterns import Composition, composition, roles
from traceroof.rule import Rule, Scope
from traceroof.scopes import measurement_quality, subjects
from traceroof.scopes.subjects import Subjects
from traceroof.timeline import Timeline, ranks
from traceroof.timeline.ranks import Ranks

SCHEMA = "traceroof/diagnosis/1"


@dataclass(frozen=True)
class CategoryTime:
    """Time of one operator category; ``share`` is of all GPU time, 0-1."""

    category: str
    launches: int
    time_ns: int
    share: float | None


@dataclass(frozen=True)
class ClassNear:
    """The class that a kernel group would have if a threshold on ``metric`` moved by a tenth."""

    primary_class: str
    metric: str


@dataclass(frozen=True)
class KernelGroup:
    """One kernel group. ``share`` is of the kernel time, 0-1; ``missing`` says what the class lacks.

    roofline: by what was counted, else by the operator's model; modelled_roofline: by the model
    where there are counts too. number: as in the table of all kernels, from 1 on.
    """

    kernel: str
    category: str
    primary_class: str
    launches: int
    time_ns: int | None
    share: float | None
    median_ns: float | None
    mad_ns: float | None
    grid: tuple[int, int, int] | None
    block: tuple[int, int, int] | None
    operator: str | None
    metrics: Mapping[str, float | str]
    roofline: Mapping[str, Any] | None
    vendor: tuple[VendorVerdict, ...]
    missing: tuple[str, ...] = ()
    class_near: ClassNear | None = None
    input_shapes: str | None = None
    input_dtypes: str | None = None
    modelled_roofline: Mapping[str, Any] | None = None
    number: int = 0

    @property
    def disagreements(self) -> tuple[VendorVerdict, ...]:
        """Vendor verdicts that name a class other than ours."""
        return tuple(
            verdict
            for verdict in self.vendor
            if verdict.classes and self.primary_class not in verdict.classes
        )


@dataclass(frozen=True)
class Totals:
    """Sums of the run; times in ns. ``unknown_durations`` counts launches left out of them."""

    launches: int
    kernel_time_ns: int
    span_ns: int | None = None
    gpu_busy_ns: int | None = None
    gpu_idle_ns: int | None = None
    exposed_communication_ns: int | None = None
    unknown_durations: int = 0
    time_saved_bound_ns: int | None = None
    time_saved_likely_ns: int | None = None


@dataclass(frozen=True)
class RunDevice:
    """A GPU of the run: what the file says and the device-table row it was matched with."""

    info: DeviceInfo
    known: Device | None

    @property
    def name(self) -> str | None:
        """The name to show: the device table's where the file's alone would not tell."""
        if self.known is None or self.info.name is None:
            return self.info.name or (self.known.name if self.known else None)
        return self.info.name if matches(self.info.name) else self.known.name

    @property
    def vendor(self) -> str | None:
        """Whose GPU it is, where that is known."""
        if self.known is not None:
            return self.known.vendor
        return self.info.vendor or ("amd" if self.info.gfx_target else None)


@dataclass(frozen=True)
class Grounds:
    """What the findings of a run rest on: the rules, the facts of every scope, what they share."""

    rules: tuple[Rule, ...]
    scopes: Mapping[Scope, Subjects]
    context: Context


@dataclass(frozen=True)
class Diagnosis:
    """Everything that traceroof says about a run, ready to be rendered.

    grounds: what ``explain`` and ``of_kernels`` go back to; no part of the JSON form.
    """

    run_id: str
    run_name: str
    format: str
    time_basis: str
    sources: tuple[Source, ...]
    devices: tuple[RunDevice, ...]
    totals: Totals
    categories: tuple[CategoryTime, ...]
    kernels: tuple[KernelGroup, ...]
    findings: tuple[Finding, ...]
    ceilings: str
    calibration: tuple[MeasuredRate, ...] = ()
    timelines: tuple[Timeline, ...] = ()
    ranks: Ranks | None = None
    hidden_findings: int = 0
    notes: tuple[str, ...] = field(default=())
    grounds: Grounds | None = field(default=None, repr=False, compare=False)

    @property
    def vendor(self) -> str | None:
        """Whose GPUs the run used, where that is known."""
        return _vendor(self.devices)

    def fired(self) -> tuple[Finding, ...]:
        """The findings that hold, most worth first."""
        return tuple(finding for finding in self.findings if finding.state == "fired")

    def not_evaluable(self) -> tuple[Finding, ...]:
        """The rules that could not be judged somewhere."""
        return tuple(finding for finding in self.findings if finding.state == "not-evaluable")

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """The JSON contract (DESIGN §6); ``top`` cuts kernels and findings when given."""
        return {
            "schema": SCHEMA,
            "run": {
                "id": self.run_id,
                "name": self.run_name,
                "format": self.format,
                "time_basis": self.time_basis,
                "sources": [
                    {
                        "path": source.path,
                        "format": source.format,
                        "launches": source.launches,
                        "notes": [str(note) for note in source.notes],
                    }
                    for source in self.sources
                ],
                "devices": [_device_dict(device) for device in self.devices],
            },
            "totals": asdict(self.totals),
            "timelines": [one.to_dict() for one in self.timelines],
            "ranks": self.ranks.to_dict() if self.ranks else None,
            "categories": [asdict(category) for category in self.categories],
            "kernels": [_kernel_dict(kernel) for kernel in self.kernels[:top]],
            "findings": [asdict(finding) for finding in self.findings[:top]],
            "ceilings": self.ceilings,
            "calibration": [{**asdict(one), "share": one.share} for one in self.calibration],
            "hidden_findings": self.hidden_findings,
            "notes": list(self.notes),
        }


def diagnose(
    run: Run | Recording,
    *,
    device: str | None = None,
    rules: Sequence[Rule] | None = None,
    attainable: Attainable | None = None,
    calibration: Sequence[MeasuredRate] = (),
) -> Diagnosis:
    """Diagnose a run.

    device: name of the GPU where the file does not say it (raises TraceroofError when unknown).
    rules: the rules to hold against it; all of them by default. calibration: the rates that
    ``traceroof calibrate`` measured; they hold where the files did not measure their own, and
    ``ceilings.UNCALIBRATED`` where nobody did. attainable: shares that go before all of these.
    """
    return diagnose_rows(
        run, device=device, rules=rules, attainable=attainable, calibration=calibration
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
) -> tuple[Diagnosis, Rows]:
    """``diagnose``, and what the rows of the run's kernel table belong to."""
    run = run if isinstance(run, Run) else Run(recording=run, name=_name_of(run))
    recording = run.recording
    kernels = recording.kernels
    categories = row_categories(kernels)
    devices = devices_of(recording, device)
    vendor = _vendor(devices)

    role = roles.roles_of(kernels, categories)
    grouped = groups.group(
        kernels,
        categories,
        by_ordinal(devices),
        {**model_columns(kernels, categories), "role": role},
        vendor,
    )
    ordinal = grouped.facts.only(("device",)).device
    of_group = groups.device_of_group(ordinal, by_ordinal(devices))
    named = [one.name if one else None for one in of_group]
    calibrated = ceilings.with_calibration(grouped.facts, named, calibration, recording.time_basis)
    grouped = replace(grouped, facts=calibrated)
    ceiling, measured = ceilings.of_groups(grouped.facts)
    ceiling = attainable or ceiling
    primary = bound_class.primary_class(grouped.facts, ceiling)
    near, by = sensitivity.near_classes(grouped.facts, ceiling)
    grouped = replace(
        grouped,
        facts=_with(grouped.facts, primary_class=primary, class_near=near, class_near_by=by),
    )
    lines = timeline.timelines(recording, categories)
    across = ranks.ranks(recording, categories, lines)
    totals = _totals(kernels, lines)
    # The kernels that a counter tool was pointed at are no sample of where the time goes.
    sampled = recording.time_basis == "timeline"
    parts = composition(kernels, categories, role, grouped, lines) if sampled else Composition()
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
                recording, grouped, lines, [(one.info, one.known) for one in devices]
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
    )
    grounds = Grounds(tuple(plugins.rules() if rules is None else rules), scopes, context)
    found, hidden = find_all(grounds.rules, scopes, context)
    verdicts = capped(
        verdicts_of_groups(recording.verdicts, grouped.of_row.tolist(), len(grouped)),
        _bounds_pct(grouped.facts, found).tolist(),
    )
    made = Diagnosis(
        run_id=run.id,
        run_name=run.name,
        format=recording.format,
        time_basis=recording.time_basis,
        sources=recording.sources,
        devices=devices,
        totals=_with_savings(totals, found),
        categories=_category_times(by_category),
        kernels=_kernel_groups(grouped, verdicts),
        findings=found,
        ceilings=_CALIBRATED if attainable else ceilings.describe(grouped.facts),
        calibration=_used(calibration, named, recording.time_basis),
        timelines=tuple(lines),
        ranks=across,
        hidden_findings=hidden,
        notes=_run_notes(totals, devices, grouped.facts),
        grounds=grounds,
    )
    return made, Rows(categories, grouped.of_row)


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
    for judgement, by in judge_all(grounds.rules, scopes, narrow)["kernel"]:
        found += fired(judgement, by, some, narrow)[0]
        found += unjudged_each(judgement, some, narrow)
    return replace(
        diagnosis,
        kernels=tuple(diagnosis.kernels[row] for row in indices),
        findings=ranked(found),
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
        category if kind == "kernel" else str(kind)
        for category, kind in zip(from_names, kinds.at(first), strict=True)
    ]
    return [found[number] for number in of_row.tolist()]


def _vendor(devices: Iterable[RunDevice]) -> str | None:
    """Whose GPUs the run used, where a file or the device table says it."""
    return next((one.vendor for one in devices if one.vendor), None)


def _name_of(recording: Recording) -> str:
    return Path(recording.sources[0].path).name if recording.sources else "run"


def devices_of(recording: Recording, name: str | None = None) -> tuple[RunDevice, ...]:
    """The GPUs of a recording with their rows of the device table.

    name: the GPU as the user names it; raises TraceroofError where the table has no such one.
    """
    if name is not None:
        known = find(name)
        if known is None:
            several = ", ".join(one.name for one in matches(name))
            raise TraceroofError(
                f"{name} is not one GPU of the device table",
                f"say which: {several}" if several else "`traceroof devices` lists the names",
            )
        infos = recording.devices or (DeviceInfo(),)
        return tuple(RunDevice(info, known) for info in infos)
    peaks = _dram_peaks(recording.kernels)
    only = next(iter(peaks.values())) if len(recording.devices) == 1 and len(peaks) == 1 else None
    return tuple(
        RunDevice(info, _known_device(info, peaks.get(info.index, only)))
        for info in recording.devices
    )


def _known_device(info: DeviceInfo, dram_bytes_per_s: float | None) -> Device | None:
    """The row of the device table; what its candidates have in common where several remain."""
    known = find(
        info.name,
        compute_capability=info.compute_capability,
        sm_count=info.sm_count,
        memory_bytes=info.memory_bytes,
        pci_device_id=info.pci_device_id,
        gfx_target=info.gfx_target,
        wavefront=info.wavefront,
        dram_bytes_per_s=dram_bytes_per_s,
    )
    if known is not None or info.name:
        return known
    return in_common(
        compute_capability=info.compute_capability,
        sm_count=info.sm_count,
        dram_bytes_per_s=dram_bytes_per_s,
    )


def _dram_peaks(kernels: pa.Table) -> dict[int | None, float]:
    """Device ordinal -> median of the bandwidth peaks that its launches show, byte/s."""
    if kernels["peak_dram_bytes_per_s"].null_count == kernels.num_rows:
        return {}
    part = kernels.select(["device", "peak_dram_bytes_per_s"]).drop_null()
    grouped = part.group_by("device").aggregate([("peak_dram_bytes_per_s", "approximate_median")])
    return dict(zip(*(column.to_pylist() for column in grouped.select([0, 1])), strict=True))


def by_ordinal(devices: Iterable[RunDevice]) -> dict[int, Device | None]:
    """Device ordinal -> row of the device table, None where it has none; -1 stands for rows
    without an ordinal."""
    found: dict[int, Device | None] = {}
    for device in devices:
        index = device.info.index
        if device.known is not None:
            found[-1 if index is None else index] = device.known
        elif index is not None or device.info.name:
            # A GPU that nobody knows is another one all the same: it must not get these peaks.
            found.setdefault(-1 if index is None else index, None)
    return found


def _with(facts: Facts, **columns: npt.NDArray[Any]) -> Facts:
    known = {name: getattr(facts, name) for name in facts.names()}
    return Facts({**known, **columns}, len(facts))


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


def _totals(kernels: pa.Table, lines: Sequence[Timeline]) -> Totals:
    """Sums over the kernels, and over the timelines of all GPUs where there are any."""
    part = kernels.select(["kind", "launch_count", "duration_ns"])
    untimed = part.filter(
        pc.and_(pc.equal(part["kind"], "kernel"), pc.is_null(part["duration_ns"]))
    )
    totals = Totals(
        launches=kernel_table.launches(kernels),
        kernel_time_ns=kernel_table.total_time_ns(kernels),
        unknown_durations=kernel_table.launches(untimed),
    )
    if not lines:
        return totals
    return replace(
        totals,
        span_ns=sum(one.span_ns for one in lines),
        gpu_busy_ns=sum(one.busy_ns for one in lines),
        gpu_idle_ns=sum(one.idle_ns for one in lines),
        exposed_communication_ns=sum(one.exposed_communication_ns for one in lines),
    )


def _with_savings(totals: Totals, findings: Sequence[Finding]) -> Totals:
    """Add what all kernel findings together can save: per group the largest, groups add up."""
    best: dict[int, tuple[int, int]] = {}
    for finding in findings:
        if finding.state != "fired" or finding.scope != "kernel":
            continue
        if finding.kind == "option":
            continue  # another element type or algorithm is a choice, not time to be saved
        if finding.time_saved_bound_ns is None or finding.subject_index is None:
            continue
        bound, likely = best.get(finding.subject_index, (0, 0))
        best[finding.subject_index] = (
            max(bound, finding.time_saved_bound_ns),
            max(likely, finding.time_saved_likely_ns or 0),
        )
    if not best:
        return totals
    return replace(
        totals,
        time_saved_bound_ns=min(sum(one for one, _ in best.values()), totals.kernel_time_ns),
        time_saved_likely_ns=min(sum(one for _, one in best.values()), totals.kernel_time_ns),
    )


def _bounds_pct(facts: Facts, found: Sequence[Finding]) -> npt.NDArray[np.float64]:
    """The most that we say can be saved of each group's time, percent; NaN where nobody can tell.

    While the work stays as it is, its own bytes, its operations and its busiest unit need the rest;
    a finding that changes the work (fewer sectors, another type) may say more.
    """
    see = facts.only(("time_ns", "busiest_pct"))
    with np.errstate(divide="ignore", invalid="ignore"):
        by_work = spare_ns(facts, NOMINAL) / see.time_ns * 100
        bound = np.fmin(by_work, 100 - np.minimum(see.busiest_pct, 100))
        for one in found:
            row, saved = one.subject_index, one.time_saved_bound_ns
            if one.scope == "kernel" and row is not None and saved is not None:
                bound[row] = np.fmax(bound[row], saved / see.time_ns[row] * 100)
    return np.asarray(np.where(np.isfinite(bound), bound, np.nan))


# Where the launch itself, its identity and its time are concerned the group has fields of its own.
_NOT_METRICS = frozenset(
    entry.name for entry in kernel_table.COLUMNS if entry.group in ("identity", "time")
)
_METRIC_NAMES = tuple(name for name in groups.VOCABULARY if name not in _NOT_METRICS)
_OWN_FIELDS = frozenset(
    {"category", "primary_class", "launches", "time_ns", "share_pct", "rank_by_time", "median_ns",
     "mad_ns"}
)  # fmt: skip


def _kernel_groups(
    grouped: Groups, vendor: Sequence[tuple[VendorVerdict, ...]]
) -> tuple[KernelGroup, ...]:
    facts = grouped.facts
    metric_names = [n for n in _METRIC_NAMES if n in facts and n not in _OWN_FIELDS]
    texts = facts.only(("operator", "input_shapes", "input_dtypes"))
    result = []
    for row, name in enumerate(grouped.names):
        metrics = {metric: facts.value(metric, row) for metric in metric_names}
        primary = str(facts.value("primary_class", row))
        share = facts.value("share_pct", row)
        operator, shapes, dtypes = (
            None if is_unknown_value(column[row]) else str(column[row])
            for column in (texts.operator, texts.input_shapes, texts.input_dtypes)
        )
        by_counters, by_model = _rooflines(facts, row)
        result.append(
            KernelGroup(
                kernel=name,
                category=str(facts.value("category", row)),
                primary_class=primary,
                launches=int(facts.value("launches", row)),
                time_ns=whole(facts.value("time_ns", row)),
                share=None if share is None else share / 100,
                median_ns=facts.value("median_ns", row),
                mad_ns=facts.value("mad_ns", row),
                grid=_triple(facts, "grid", row),
                block=_triple(facts, "block", row),
                operator=operator,
                metrics={key: value for key, value in metrics.items() if value is not None},
                roofline=by_counters,
                modelled_roofline=by_model,
                number=row + 1,
                vendor=vendor[row],
                missing=_class_lacks(facts, row) if primary == "not-evaluable" else (),
                class_near=_class_near(facts, row),
                input_shapes=shapes,
                input_dtypes=dtypes,
            )
        )
    return tuple(result)


def _class_near(facts: Facts, row: int) -> ClassNear | None:
    other = facts.value("class_near", row)
    return None if other is None else ClassNear(other, facts.value("class_near_by", row))


def _class_lacks(facts: Facts, row: int) -> tuple[str, ...]:
    seen = facts.only(("compute_pct", "memory_pct", "dram_bytes", "duration_ns"))
    if is_unknown_value(seen.duration_ns[row]) and not is_unknown_value(seen.dram_bytes[row]):
        # The bytes are there; over which time is what nobody knows.
        return ("duration_ns",)
    lacks = []
    if is_unknown_value(seen.compute_pct[row]):
        lacks.append("sm_throughput_pct")
    if is_unknown_value(seen.memory_pct[row]):
        lacks.append("memory_throughput_pct")
    return tuple(lacks)


def _rooflines(facts: Facts, row: int) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
    """The group on the roofline of its device, by what was counted, else by its operator's model;
    then by its model where that says something too.

    None where neither says anything of its work.
    """
    names = ("dram_bytes", "dram_bytes_per_s", "dram_peak_bytes_per_s", "flops", "flops_per_s",
             "flop_dtype", "flop_peak_per_s", "duration_ns", "peaks_from", "model_flops",
             "model_bytes", "model_dtype", "model_ridge")  # fmt: skip
    seen = facts.only(names)
    value = {name: None if is_unknown_value(getattr(seen, name)[row]) else getattr(seen, name)[row]
             for name in names}  # fmt: skip
    counted = value["dram_bytes_per_s"] is not None or value["flops_per_s"] is not None
    modelled = value["model_flops"] is not None
    bandwidth = value["dram_peak_bytes_per_s"]
    made = []
    if counted:
        by_counters = roofline(
            flops=value["flops"],
            bytes=value["dram_bytes"],
            time_ns=value["duration_ns"],
            peak_flops_per_s=value["flop_peak_per_s"],
            peak_bytes_per_s=bandwidth,
            dtype=value["flop_dtype"],
            ceiling_basis="report" if value["peaks_from"] else "device-table",
            traffic_basis="measured",
        )
        made.append({**asdict(by_counters), **_likely(facts, row, by_counters)})
    if modelled:
        ridge = value["model_ridge"]
        by_model = roofline(
            flops=value["model_flops"],
            bytes=value["model_bytes"],
            time_ns=value["duration_ns"],
            peak_flops_per_s=None if ridge is None or bandwidth is None else ridge * bandwidth,
            peak_bytes_per_s=bandwidth,
            dtype=value["model_dtype"],
            ceiling_basis="device-table",
            traffic_basis="model",
        )
        made.append({**asdict(by_model), **_likely(facts, row, by_model)})
    first, second = (*made, None, None)[:2]
    return first, second


def _likely(facts: Facts, row: int, nominal: Roofline) -> Mapping[str, Any]:
    """The same at what is attainable: the ceilings, where each comes from, the least time."""
    ceiling = ceilings.likely(facts, row, nominal.peak_flops_per_s)
    least = t_min_ns(nominal.bytes, nominal.flops, ceiling.bytes_per_s, ceiling.flops_per_s)
    return {
        "likely_bytes_per_s": ceiling.bytes_per_s,
        "likely_bytes_basis": ceiling.bytes_from if ceiling.bytes_per_s else None,
        "likely_bytes_ceiling": ceiling.dram_ceiling,
        "likely_flops_per_s": ceiling.flops_per_s,
        "likely_flops_basis": ceiling.flops_from if ceiling.flops_per_s else None,
        "likely_t_min_ns": least,
    }


def _triple(facts: Facts, prefix: str, row: int) -> tuple[int, int, int] | None:
    if f"{prefix}_x" not in facts:
        return None
    values = [facts.only((f"{prefix}_{axis}",)) for axis in "xyz"]
    sizes = [getattr(one, f"{prefix}_{axis}")[row] for one, axis in zip(values, "xyz", strict=True)]
    if any(is_unknown_value(size) for size in sizes):
        return None
    return (int(sizes[0]), int(sizes[1]), int(sizes[2]))


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


def _device_dict(device: RunDevice) -> dict[str, Any]:
    known = device.known
    return {
        "index": device.info.index,
        "name": device.name,
        "architecture": known.architecture if known else None,
        "compute_capability": device.info.compute_capability
        or (known.compute_capability if known else None),
        "gfx_target": device.info.gfx_target,
        "sm_count": device.info.sm_count or (known.sm_count if known else None),
        "driver": device.info.driver,
        "table_row": known.name if known else None,
    }


def _kernel_dict(kernel: KernelGroup) -> dict[str, Any]:
    fields = asdict(kernel)
    fields["class"] = fields.pop("primary_class")
    if kernel.class_near:
        fields["class_near"]["class"] = fields["class_near"].pop("primary_class")
    fields["metrics"] = dict(kernel.metrics)
    for verdict, entry in zip(kernel.vendor, fields["vendor"], strict=True):
        entry["classes"] = sorted(verdict.classes)
        entry["agrees"] = kernel.primary_class in verdict.classes if verdict.classes else None
    return fields
