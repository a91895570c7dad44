"""From a recording to a diagnosis: totals, categories, kernel groups with a class, findings.

A ``Diagnosis`` is complete before any renderer sees it; ``to_dict`` is the JSON contract
``traceroof/diagnosis/1`` (``docs/diagnosis.schema.json``).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof import classes, collect, groups, plugins, table
from traceroof.categories import categories_of
from traceroof.ceilings import NOMINAL, UNCALIBRATED, Attainable
from traceroof.devices import Device, find
from traceroof.errors import TraceroofError
from traceroof.facts import Facts, is_unknown_value
from traceroof.groups import Groups
from traceroof.recording import DeviceInfo, Recording, Run, Source
from traceroof.roofline import T_FLOOR_NS
from traceroof.rule import Judgement, Rule, Scope, Severity, State, judge
from traceroof.table import Column
from traceroof.units import Sentence, quantity
from traceroof.vendor import VendorVerdict, verdicts_of_groups

SCHEMA = "traceroof/diagnosis/1"

# Severity from the share of the run that the finding can save at most; below the last step a
# finding is left out and only counted.
_SEVERITY_STEPS: tuple[tuple[float, Severity], ...] = (
    (0.10, "high"),
    (0.03, "medium"),
    (0.005, "low"),
)
HIDDEN_SHARE = 0.005

# Few samples make a median uncertain; hardware counters of a replayed kernel do not scatter so.
_FEW_LAUNCHES = 5
_FEW_LAUNCHES_TRUST = 0.5
_UNCALIBRATED_TRUST = 0.8

#: Columns of the facts of scope ``category``: one subject a category.
CATEGORY_COLUMNS: tuple[Column, ...] = tuple(
    Column(name, pa.float64() if unit else pa.string(), unit, meaning, "category", basis)
    for name, unit, meaning, basis in (
        ("category", "", "operator category", ""),
        ("launches", "launch", "launches (copies and fills included)", ""),
        ("time_ns", "ns", "GPU time", ""),
        ("share_pct", "%", "share of all GPU time", "GPU time"),
        ("median_ns", "ns", "median time of a launch", ""),
        ("groups", "kernel", "kernel groups", ""),
    )
)

#: Columns of the facts of scope ``run``: one subject, the run.
RUN_COLUMNS: tuple[Column, ...] = tuple(
    Column(name, pa.float64(), unit, meaning, "run", basis)
    for name, unit, meaning, basis in (
        ("launches", "launch", "kernel launches", ""),
        ("kernel_time_ns", "ns", "time of all kernels", ""),
        ("time_ns", "ns", "time that savings are measured against", ""),
        ("busiest_pct", "%", "time-weighted larger of compute and memory use", "kernel time"),
        ("judged_pct", "%", "kernel time with a class", "kernel time"),
        ("other_pct", "%", "kernel time without a category", "kernel time"),
        ("over_peak_pct", "%", "largest utilisation of any kernel", "row"),
        ("gpu_busy_pct", "%", "time in which any kernel or copy ran", "span of the run"),
    )
)


def vocabulary(scope: Scope) -> Mapping[str, Column]:
    """Every column that a rule of this scope may read."""
    if scope == "kernel":
        return groups.VOCABULARY
    if scope == "category":
        return {entry.name: entry for entry in CATEGORY_COLUMNS}
    if scope == "run":
        return {entry.name: entry for entry in RUN_COLUMNS}
    return {}


@dataclass(frozen=True)
class Evidence:
    """One figure that a finding rests on."""

    metric: str
    value: float | str | None
    unit: str
    threshold: str
    basis: str


@dataclass(frozen=True)
class Finding:
    """What one rule says of one subject.

    subject: the kernel, category, timeline or "run"; subject_index: its place in the list of its
    scope, None where it speaks of several. Times are ns over all launches of the subject: the
    bound holds at nominal peaks, the likely figure at what good code reaches. missing: columns
    that a not-evaluable rule lacked, with the command that collects them.
    """

    rule: str
    title: str
    state: State
    scope: Scope
    subject: str
    subject_index: int | None
    severity: Severity
    confidence: float
    kind: str
    time_saved_bound_ns: int | None
    time_saved_likely_ns: int | None
    because: str
    fix: str
    refute: str
    evidence: tuple[Evidence, ...] = ()
    missing: tuple[str, ...] = ()
    suppressed_by: str | None = None
    command: str | None = None

    @property
    def weight(self) -> float:
        """What findings are ranked by: the bound in ns, discounted by the confidence."""
        return (self.time_saved_bound_ns or 0) * self.confidence


@dataclass(frozen=True)
class CategoryTime:
    """Time of one operator category; ``share`` is of all GPU time, 0-1."""

    category: str
    launches: int
    time_ns: int
    share: float | None


@dataclass(frozen=True)
class KernelGroup:
    """One kernel group. ``share`` is of the kernel time, 0-1; ``missing`` says what the class lacks."""

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
        """The name to show."""
        return self.info.name or (self.known.name if self.known else None)


@dataclass(frozen=True)
class Diagnosis:
    """Everything that traceroof says about a run, ready to be rendered."""

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
    timelines: tuple[Mapping[str, Any], ...] = ()
    hidden_findings: int = 0
    notes: tuple[str, ...] = field(default=())

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
            "timelines": [dict(timeline) for timeline in self.timelines],
            "categories": [asdict(category) for category in self.categories],
            "kernels": [_kernel_dict(kernel) for kernel in self.kernels[:top]],
            "findings": [asdict(finding) for finding in self.findings[:top]],
            "ceilings": self.ceilings,
            "hidden_findings": self.hidden_findings,
            "notes": list(self.notes),
        }


def diagnose(
    run: Run | Recording,
    *,
    device: str | None = None,
    rules: Sequence[Rule] | None = None,
    attainable: Attainable | None = None,
) -> Diagnosis:
    """Diagnose a run.

    device: name of the GPU where the file does not say it (raises TraceroofError when unknown).
    rules: the rules to hold against it; all of them by default. attainable: calibrated ceilings;
    the defaults of ``rule.UNCALIBRATED`` where there are none.
    """
    run = run if isinstance(run, Run) else Run(recording=run, name=_name_of(run))
    recording = run.recording
    kernels = recording.kernels
    categories = row_categories(kernels)
    devices = _devices(recording, device)
    grouped = groups.group(kernels, categories, _by_ordinal(devices))
    ceiling = attainable or UNCALIBRATED
    primary = classes.primary_class(grouped.facts, ceiling)
    facts = _with(grouped.facts, primary_class=primary)
    grouped = Groups(facts=facts, names=grouped.names, of_row=grouped.of_row)

    category_times, category_facts = _categories(kernels, categories)
    totals = _totals(kernels)
    scopes: dict[Scope, _Subjects] = {
        "kernel": _Subjects(facts, grouped.names),
        "category": category_facts,
        "run": _run_facts(grouped, totals),
    }
    amd = any(one.known and one.known.vendor != "nvidia" for one in devices)
    found, hidden = _findings(
        rules if rules is not None else plugins.rules(),
        scopes,
        total_ns=totals.span_ns or totals.kernel_time_ns,
        attainable=ceiling,
        calibrated=attainable is not None,
        few_matter=recording.time_basis == "timeline",
        amd=amd,
    )
    vendor = verdicts_of_groups(recording.verdicts, grouped.of_row.tolist(), len(grouped))
    return Diagnosis(
        run_id=run.id,
        run_name=run.name,
        format=recording.format,
        time_basis=recording.time_basis,
        sources=recording.sources,
        devices=devices,
        totals=_with_savings(totals, found),
        categories=category_times,
        kernels=_kernel_groups(grouped, vendor),
        findings=found,
        ceilings=_CEILINGS if attainable is None else "calibrated on this device",
        hidden_findings=hidden,
        notes=_run_notes(totals, devices),
    )


_CEILINGS = (
    "at most: nominal dense peaks; likely: 85 % of nominal bandwidth and 80 % of nominal FLOP rate"
)


def row_categories(kernels: pa.Table) -> list[str]:
    """The category of every row of a kernel table; copies and fills by their kind."""
    from_names = categories_of(kernels["kernel_name"].to_pylist(), kernels["operator"].to_pylist())
    return [
        category if kind == "kernel" else kind
        for category, kind in zip(from_names, kernels["kind"].to_pylist(), strict=True)
    ]


def _name_of(recording: Recording) -> str:
    from pathlib import Path

    return Path(recording.sources[0].path).name if recording.sources else "run"


def _devices(recording: Recording, name: str | None) -> tuple[RunDevice, ...]:
    if name is not None:
        known = find(name)
        if known is None:
            raise TraceroofError(
                f"no GPU called {name} in the device table",
                "`traceroof devices` lists the names",
            )
        infos = recording.devices or (DeviceInfo(),)
        return tuple(RunDevice(info, known) for info in infos)
    return tuple(
        RunDevice(
            info,
            find(
                info.name,
                compute_capability=info.compute_capability,
                sm_count=info.sm_count,
                memory_bytes=info.memory_bytes,
                pci_device_id=info.pci_device_id,
                gfx_target=info.gfx_target,
            ),
        )
        for info in recording.devices
    )


def _by_ordinal(devices: Iterable[RunDevice]) -> dict[int, Device]:
    return {
        -1 if device.info.index is None else device.info.index: device.known
        for device in devices
        if device.known is not None
    }


def _with(facts: Facts, **columns: npt.NDArray[Any]) -> Facts:
    known = {name: getattr(facts, name) for name in facts.names()}
    return Facts({**known, **columns}, len(facts))


@dataclass(frozen=True)
class _Subjects:
    """The subjects of one scope: their facts and what they are called."""

    facts: Facts
    names: Sequence[str]


def _categories(
    kernels: pa.Table, categories: Sequence[str]
) -> tuple[tuple[CategoryTime, ...], _Subjects]:
    import pandas as pd

    frame = pd.DataFrame(
        {
            "category": categories,
            "launches": kernels["launch_count"].to_numpy(zero_copy_only=False),
            "duration": kernels["duration_ns"].to_numpy(zero_copy_only=False).astype(float),
        }
    )
    frame["time"] = frame["launches"] * frame["duration"].fillna(0.0)
    by_category = frame.groupby("category", sort=True)
    summed = by_category[["launches", "time"]].sum()
    summed["median"] = by_category["duration"].median()
    summed = summed.sort_values("time", ascending=False, kind="stable")
    total = float(summed["time"].sum())
    shares = summed["time"].to_numpy() / total if total else np.full(len(summed), np.nan)
    names_in_order = [str(name) for name in summed.index]
    times = tuple(
        CategoryTime(name, int(row_launches), int(time), None if np.isnan(share) else float(share))
        for name, row_launches, time, share in zip(
            names_in_order, summed["launches"], summed["time"], shares, strict=True
        )
    )
    columns = {
        "category": np.array(names_in_order, dtype=object),
        "launches": summed["launches"].to_numpy(dtype=float),
        "time_ns": summed["time"].to_numpy(dtype=float),
        "share_pct": shares * 100,
        "median_ns": summed["median"].to_numpy(dtype=float),
    }
    return times, _Subjects(Facts(columns, len(times)), names_in_order)


def _totals(kernels: pa.Table) -> Totals:
    import pyarrow.compute as pc

    only = kernels.filter(pc.equal(kernels["kind"], "kernel"))
    untimed = only.filter(pc.is_null(only["duration_ns"]))
    return Totals(
        launches=table.launches(kernels),
        kernel_time_ns=table.total_time_ns(kernels),
        unknown_durations=table.launches(untimed),
    )


def _run_facts(grouped: Groups, totals: Totals) -> _Subjects:
    facts = grouped.facts.only(
        ("time_ns", "busiest_pct", "primary_class", "category", "compute_pct", "memory_pct",
         "dram_pct")
    )  # fmt: skip
    time = np.nan_to_num(facts.time_ns)
    total = float(time.sum())

    def share(mask: npt.NDArray[np.bool_]) -> float:
        return float(time[mask].sum() / total * 100) if total else float("nan")

    known = ~np.isnan(facts.busiest_pct)
    weight = float(time[known].sum())
    busiest = float((time * np.nan_to_num(facts.busiest_pct)).sum() / weight) if weight else np.nan
    peaks = np.concatenate([facts.compute_pct, facts.memory_pct, facts.dram_pct])
    columns = {
        "launches": float(totals.launches),
        "kernel_time_ns": float(totals.kernel_time_ns),
        "time_ns": float(totals.span_ns or totals.kernel_time_ns),
        "busiest_pct": busiest,
        "judged_pct": share(facts.primary_class != "not-evaluable"),
        "other_pct": share(facts.category == "other"),
        "over_peak_pct": float(np.nanmax(peaks)) if (~np.isnan(peaks)).any() else np.nan,
        "gpu_busy_pct": (
            totals.gpu_busy_ns / totals.span_ns * 100
            if totals.span_ns and totals.gpu_busy_ns is not None
            else np.nan
        ),
    }
    return _Subjects(
        Facts({name: np.array([value]) for name, value in columns.items()}, 1), ["run"]
    )


def _findings(
    rules: Sequence[Rule],
    scopes: Mapping[Scope, _Subjects],
    *,
    total_ns: float,
    attainable: Attainable,
    calibrated: bool,
    few_matter: bool,
    amd: bool,
) -> tuple[tuple[Finding, ...], int]:
    """All findings, ranked, and how many were too small to list."""
    findings: list[Finding] = []
    hidden = 0
    for scope, subjects in scopes.items():
        judged = [judge(rule, subjects.facts, attainable) for rule in rules if rule.scope == scope]
        suppressed = _suppressions(judged, len(subjects.facts))
        for judgement, by in zip(judged, suppressed, strict=True):
            made, small = _fired(
                judgement, by, subjects, total_ns, attainable, calibrated, few_matter
            )
            findings += made
            hidden += small
            missing = _unjudged(judgement, subjects, total_ns, amd)
            if missing:
                findings.append(missing)
    order: Mapping[State, int] = {"fired": 0, "suppressed": 1, "not-evaluable": 2, "clear": 3}
    findings.sort(
        key=lambda one: (order[one.state], -one.weight, _RANK[one.severity], one.rule, one.subject)
    )
    return tuple(findings), hidden


_RANK: Mapping[Severity, int] = {"high": 0, "medium": 1, "low": 2, "info": 3}


NOBODY = ""


def _suppressions(judged: Sequence[Judgement], length: int) -> list[npt.NDArray[np.object_]]:
    """Per judgement and subject: the rule that silences it, NOBODY where it may speak."""
    result = [np.full(length, NOBODY, dtype=object) for _ in judged]
    for loud in judged:
        for pattern in loud.rule.suppresses:
            for position, quiet in enumerate(judged):
                if quiet is not loud and fnmatchcase(quiet.rule.id, pattern):
                    both = loud.fired & quiet.fired & (result[position] == NOBODY)
                    result[position][both] = loud.rule.id
    return result


def _fired(
    judgement: Judgement,
    suppressed_by: npt.NDArray[np.object_],
    subjects: _Subjects,
    total_ns: float,
    attainable: Attainable,
    calibrated: bool,
    few_matter: bool,
) -> tuple[list[Finding], int]:
    rule, facts = judgement.rule, subjects.facts
    time = facts.only(("time_ns",)).time_ns
    bound = judgement.saved * time
    likely = judgement.likely * time
    if rule.scope == "kernel" and rule.kind == "conditional":
        # A bound that the rule cannot give stays unknown: what could be spared is no finding.
        bound = np.minimum(bound, _spare_ns(facts, NOMINAL))
        likely = np.minimum(likely, _spare_ns(facts, attainable))
    likely = np.minimum(likely, bound)
    trust = judgement.trust.copy()
    if rule.saves is not None and not calibrated:
        trust *= _UNCALIBRATED_TRUST
    if few_matter and rule.scope == "kernel":
        trust[facts.launches < _FEW_LAUNCHES] *= _FEW_LAUNCHES_TRUST
    columns = vocabulary(rule.scope)
    findings: list[Finding] = []
    hidden = 0
    for row in np.flatnonzero(judgement.fired).tolist():
        # What only informs matters by the time that it speaks of, saved or not.
        informs = rule.severity == "info" or np.isnan(bound[row])
        weight = time[row] if informs else bound[row]
        if total_ns and not np.isnan(weight) and weight < HIDDEN_SHARE * total_ns:
            hidden += 1
            continue
        values = {name: facts.value(name, row) for name in rule.columns if name in facts}
        values = {name: values.get(name) for name in rule.columns}
        sentence = Sentence({name: columns[name].unit for name in rule.columns})
        silencer = suppressed_by[row]
        findings.append(
            Finding(
                rule=rule.id,
                title=rule.title,
                state="suppressed" if silencer else "fired",
                scope=rule.scope,
                subject=subjects.names[row],
                subject_index=row,
                severity=rule.severity or _severity(bound[row], total_ns),
                confidence=round(float(trust[row]), 2),
                kind=rule.kind,
                time_saved_bound_ns=_whole(bound[row]),
                time_saved_likely_ns=_whole(likely[row]),
                because=sentence.format(rule.because, **values),
                fix=sentence.format(rule.fix, **values),
                refute=rule.refute,
                evidence=_evidence(rule, values, facts, row, columns),
                suppressed_by=silencer or None,
            )
        )
    return findings, hidden


def _spare_ns(facts: Facts, attainable: Attainable) -> npt.NDArray[np.float64]:
    """Time of a group above what its own bytes and operations need, all launches; NaN unknown."""
    see = facts.only(
        ("time_ns", "launches", "dram_bytes", "dram_peak_bytes_per_s", "flop_pct", "duration_ns")
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        by_bytes = see.dram_bytes / (see.dram_peak_bytes_per_s * attainable.memory) * 1e9
        by_flops = see.flop_pct / 100 * see.duration_ns / attainable.compute
        # The time covers launches with a known duration only.
        timed = np.where(see.duration_ns > 0, see.time_ns / see.duration_ns, see.launches)
    # Only a measured figure may cap: with neither known the floor alone remains.
    least = np.fmax(np.fmax(by_bytes, by_flops), T_FLOOR_NS)
    spare = see.time_ns - least * timed
    return np.asarray(np.maximum(spare, 0.0))


def _severity(bound: float, total_ns: float) -> Severity:
    if np.isnan(bound) or not total_ns:
        return "info"
    for step, severity in _SEVERITY_STEPS:
        if bound >= step * total_ns:
            return severity
    return "info"


def _evidence(
    rule: Rule,
    values: Mapping[str, Any],
    facts: Facts,
    row: int,
    columns: Mapping[str, Column],
) -> tuple[Evidence, ...]:
    thresholds = rule.thresholds or {}
    return tuple(
        Evidence(
            metric=name,
            value=value,
            unit=columns[name].unit,
            threshold=thresholds.get(name, ""),
            basis=basis_of(columns[name], facts, row),
        )
        for name, value in values.items()
        if value is not None
    )


def basis_of(column: Column, facts: Facts, row: int) -> str:
    """What the value of a column is measured against, for one subject."""
    named = {
        "dram_pct": "dram_basis",
        "compute_pct": "compute_basis",
    }.get(column.name, "pipe_basis" if column.basis == "row" else None)
    if named is None:
        return column.basis
    if named not in facts:
        return ""
    return str(facts.value(named, row) or "")


def _unjudged(
    judgement: Judgement, subjects: _Subjects, total_ns: float, amd: bool
) -> Finding | None:
    """One finding for all subjects of a rule that lack what it needs."""
    rows = np.flatnonzero(judgement.unjudged)
    time = np.nan_to_num(subjects.facts.only(("time_ns",)).time_ns)
    if total_ns:
        rows = rows[time[rows] >= HIDDEN_SHARE * total_ns]
    if not len(rows):
        return None
    rule = judgement.rule
    missing = tuple(dict.fromkeys(name for row in rows.tolist() for name in judgement.missing[row]))
    named = [subjects.names[row] for row in rows.tolist()]
    return Finding(
        rule=rule.id,
        title=rule.title,
        state="not-evaluable",
        scope=rule.scope,
        subject=named[0] if len(named) == 1 else f"{len(named)} {_PLURAL[rule.scope]}",
        subject_index=int(rows[0]) if len(named) == 1 else None,
        severity="info",
        confidence=0.0,
        kind=rule.kind,
        time_saved_bound_ns=None,
        time_saved_likely_ns=None,
        because=f"missing: {', '.join(missing)}",
        fix="",
        refute="",
        missing=missing,
        command=collect.command(missing, named if rule.scope == "kernel" else (), amd=amd),
    )


_PLURAL: Mapping[Scope, str] = {
    "kernel": "kernels",
    "category": "categories",
    "timeline": "timelines",
    "run": "runs",
    "compare": "comparisons",
}


def _with_savings(totals: Totals, findings: Sequence[Finding]) -> Totals:
    """Add what all kernel findings together can save: per group the largest, groups add up."""
    from dataclasses import replace

    best: dict[int, tuple[int, int]] = {}
    for finding in findings:
        if finding.state != "fired" or finding.scope != "kernel":
            continue
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


# Where the launch itself, its identity and its time are concerned the group has fields of its own.
_NOT_METRICS = frozenset(
    entry.name for entry in table.COLUMNS if entry.group in ("identity", "time")
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
    operators = facts.only(("operator",)).operator
    result = []
    for row, name in enumerate(grouped.names):
        metrics = {metric: facts.value(metric, row) for metric in metric_names}
        primary = str(facts.value("primary_class", row))
        share = facts.value("share_pct", row)
        operator = operators[row]
        result.append(
            KernelGroup(
                kernel=name,
                category=str(facts.value("category", row)),
                primary_class=primary,
                launches=int(facts.value("launches", row)),
                time_ns=_whole(facts.value("time_ns", row)),
                share=None if share is None else share / 100,
                median_ns=facts.value("median_ns", row),
                mad_ns=facts.value("mad_ns", row),
                grid=_triple(facts, "grid", row),
                block=_triple(facts, "block", row),
                operator=operator if isinstance(operator, str) else None,
                metrics={key: value for key, value in metrics.items() if value is not None},
                roofline=_roofline(facts, row),
                vendor=vendor[row],
                missing=_class_lacks(facts, row) if primary == "not-evaluable" else (),
            )
        )
    return tuple(result)


def _class_lacks(facts: Facts, row: int) -> tuple[str, ...]:
    seen = facts.only(("compute_pct", "memory_pct"))
    lacks = []
    if is_unknown_value(seen.compute_pct[row]):
        lacks.append("sm_throughput_pct")
    if is_unknown_value(seen.memory_pct[row]):
        lacks.append("memory_throughput_pct")
    return tuple(lacks)


def _roofline(facts: Facts, row: int) -> Mapping[str, Any] | None:
    """The group on the roofline of its device; None where bytes or operations are unknown."""
    names = ("dram_bytes", "dram_bytes_per_s", "dram_peak_bytes_per_s", "flops", "flops_per_s",
             "flop_dtype", "flop_peak_per_s", "intensity", "duration_ns", "peaks_from")  # fmt: skip
    seen = facts.only(names)
    value = {name: None if is_unknown_value(getattr(seen, name)[row]) else getattr(seen, name)[row]
             for name in names}  # fmt: skip
    if value["dram_bytes_per_s"] is None and value["flops_per_s"] is None:
        return None
    from traceroof.roofline import roofline

    made = roofline(
        flops=value["flops"],
        bytes=value["dram_bytes"],
        time_ns=value["duration_ns"],
        peak_flops_per_s=value["flop_peak_per_s"],
        peak_bytes_per_s=value["dram_peak_bytes_per_s"],
        dtype=value["flop_dtype"],
        ceiling_basis="report" if value["peaks_from"] else "device-table",
        traffic_basis="measured",
    )
    return asdict(made)


def _triple(facts: Facts, prefix: str, row: int) -> tuple[int, int, int] | None:
    if f"{prefix}_x" not in facts:
        return None
    values = [facts.only((f"{prefix}_{axis}",)) for axis in "xyz"]
    sizes = [getattr(one, f"{prefix}_{axis}")[row] for one, axis in zip(values, "xyz", strict=True)]
    if any(is_unknown_value(size) for size in sizes):
        return None
    return (int(sizes[0]), int(sizes[1]), int(sizes[2]))


def _run_notes(totals: Totals, devices: Sequence[RunDevice]) -> tuple[str, ...]:
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
        "table_row": known.name if known else None,
    }


def _kernel_dict(kernel: KernelGroup) -> dict[str, Any]:
    fields = asdict(kernel)
    fields["class"] = fields.pop("primary_class")
    fields["metrics"] = dict(kernel.metrics)
    for verdict, entry in zip(kernel.vendor, fields["vendor"], strict=True):
        entry["classes"] = sorted(verdict.classes)
        entry["agrees"] = kernel.primary_class in verdict.classes if verdict.classes else None
    return fields


def _whole(value: float | None) -> int | None:
    return None if value is None or np.isnan(value) else round(float(value))


def describe_savings(finding: Finding) -> str:
    """'at most 1.2 ms, likely 0.8 ms', or what can be said instead."""
    if finding.time_saved_bound_ns is None:
        return "not estimable"
    bound = quantity(finding.time_saved_bound_ns, "ns")
    if finding.time_saved_likely_ns is None:
        return f"at most {bound}"
    return f"at most {bound}, likely {quantity(finding.time_saved_likely_ns, 'ns')}"
