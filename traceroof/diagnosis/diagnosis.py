"""A diagnosis: everything that traceroof says about a run, complete before any renderer sees it.

``Diagnosis.to_dict`` is the JSON contract ``traceroof/diagnosis/1``
(``docs/diagnosis.schema.json``).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, overload

import msgspec
import numpy as np
import numpy.typing as npt

from traceroof.config import NONE, Settings
from traceroof.core.displayed import Displayed
from traceroof.core.facts import Facts, unknown
from traceroof.core.recording import (
    Source,
)
from traceroof.core.selection import Narrowed
from traceroof.diagnosis.advice import Entry
from traceroof.diagnosis.collect import tool_of
from traceroof.diagnosis.findings import Context, Finding, NotJudged
from traceroof.diagnosis.lines import NO_LINES, KernelLines, Lines
from traceroof.diagnosis.next_capture import Capture, next_capture
from traceroof.diagnosis.savings import Pool
from traceroof.diagnosis.vendor_verdicts import VendorVerdict
from traceroof.hardware.ceilings import MeasuredRate
from traceroof.hardware.run_devices import RunDevice, vendor_of
from traceroof.kernels.counter_join import Join
from traceroof.kernels.places import BY, NOWHERE, By, Place, PlaceTime
from traceroof.rule import Rule, Scope
from traceroof.scopes.logged_clocks import LoggedClocks
from traceroof.scopes.subjects import Subjects
from traceroof.timeline import Timeline
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
    where there are counts too. number: as in the table of all kernels, from 1 on. where: what its launches
    come from. source_lines: where in its source the time goes, where that was sampled. not_judged: what
    would decide for it, where it was asked about alone (``of_kernels``).
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
    where: Place = NOWHERE
    source_lines: KernelLines | None = None
    not_judged: NotJudged | None = None
    sketched: bool = False

    @property
    def disagreements(self) -> tuple[VendorVerdict, ...]:
        """What the vendor says of most launches and that names a class other than ours."""
        return tuple(
            verdict
            for verdict in self.vendor
            if verdict.classes and verdict.is_usual and self.primary_class not in verdict.classes
        )


class KernelGroups(Sequence[KernelGroup]):
    """The kernel groups of a run, most time first, each made when somebody looks at it: a run may
    have a hundred thousand, and a page shows ten.

    facts: of all groups, as ``groups.Groups``. names: kernel per group. missing: what the class of
    each lacks. make: one group by its place.
    """

    def __init__(
        self,
        facts: Facts,
        names: Sequence[str],
        missing: Sequence[tuple[str, ...]],
        make: Callable[[int], KernelGroup],
    ) -> None:
        self.facts, self.names, self.missing = facts, names, missing
        self._make = make
        self._made: dict[int, KernelGroup] = {}

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, at: int) -> KernelGroup: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[KernelGroup, ...]: ...
    def __getitem__(self, at: int | slice) -> KernelGroup | tuple[KernelGroup, ...]:
        places = range(len(self))[at]
        if isinstance(places, range):
            return tuple(self[one] for one in places)
        if places not in self._made:
            self._made[places] = self._make(places)
        return self._made[places]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KernelGroups | tuple) and self[:] == other[:]

    def only(self, places: Sequence[int]) -> "KernelGroups":
        """Some of the groups, in this order."""
        rows = np.asarray(places, dtype=np.int64)
        facts = {name: getattr(self.facts, name)[rows] for name in self.facts.names()}
        return KernelGroups(
            Facts(facts, len(rows)),
            [self.names[one] for one in places],
            [self.missing[one] for one in places],
            lambda at: self[places[at]],
        )

    def changed(self, change: Callable[[int, KernelGroup], KernelGroup]) -> "KernelGroups":
        """The same groups, each changed when it is looked at."""
        return KernelGroups(self.facts, self.names, self.missing, lambda at: change(at, self[at]))

    def times(self) -> npt.NDArray[np.float64]:
        """ns of each group, 0 where unknown."""
        return np.nan_to_num(self.facts.time_ns)

    def of_class(self, name: str) -> list[int]:
        """The places of the groups of a class."""
        found: list[int] = np.flatnonzero(self.facts.primary_class == name).tolist()
        return found

    def has_roofline(self) -> bool:
        """Whether the work of any group is known."""
        rates = ("dram_bytes_per_s", "flops_per_s", "model_flops")
        return any(name in self.facts and not unknown(getattr(self.facts, name)).all()
                   for name in rates)  # fmt: skip

    def time_of_classes(self) -> dict[str, float]:
        """ns of each class, in the order of their first group; classes without time are absent."""
        found: dict[str, float] = {}
        times = self.times()
        for at in np.flatnonzero(times).tolist():
            name = self.facts.primary_class[at]
            found[name] = found.get(name, 0.0) + times[at]
        return found


@dataclass(frozen=True)
class Totals:
    """Sums of the run; times in ns. ``unknown_durations`` counts launches left out of them.

    wall_ns: the longest span of a GPU. span_ns to exposed_communication_ns: all GPUs together.
    time_saved_bound_ns, time_saved_likely_ns: of all advice, once-per-process time left out.
    """

    launches: int
    kernel_time_ns: int
    wall_ns: int | None = None
    span_ns: int | None = None
    gpu_busy_ns: int | None = None
    gpu_idle_ns: int | None = None
    exposed_communication_ns: int | None = None
    unknown_durations: int = 0
    time_saved_bound_ns: int | None = None
    time_saved_likely_ns: int | None = None


@dataclass(frozen=True)
class Grounds:
    """What the findings of a run rest on: the rules, the facts of every scope, what they share, and
    the time that savings are taken from."""

    rules: tuple[Rule, ...]
    scopes: Mapping[Scope, Subjects]
    context: Context
    pool: Pool
    lines: Lines = NO_LINES


@dataclass(frozen=True, repr=False)
class Diagnosis(Displayed):
    """Everything that traceroof says about a run, ready to be rendered.

    places: the time by module, operator and range. narrowed: which kernels alone are listed, None for
    all; totals, categories and timelines are those of the whole run all the same. grounds: what ``explain`` and ``of_kernels`` go
    back to; no part of the JSON form.
    """

    run_id: str
    run_name: str
    format: str
    time_basis: str
    sources: tuple[Source, ...]
    devices: tuple[RunDevice, ...]
    totals: Totals
    categories: tuple[CategoryTime, ...]
    kernels: KernelGroups
    findings: tuple[Finding, ...]
    advice: tuple[Entry, ...]
    headline: str
    ceilings: str
    calibration: tuple[MeasuredRate, ...] = ()
    timelines: tuple[Timeline, ...] = ()
    ranks: Ranks | None = None
    hidden_findings: int = 0
    not_judged: NotJudged | None = None
    join: Join | None = None
    clocks: LoggedClocks | None = None
    notes: tuple[str, ...] = field(default=())
    places: Mapping[By, tuple[PlaceTime, ...]] = field(default_factory=dict)
    settings: Settings = NONE
    narrowed: Narrowed | None = None
    grounds: Grounds | None = field(default=None, repr=False, compare=False)

    @property
    def said(self) -> str:
        """The run and what it comes down to."""
        return f"{self.run_name}: {self.headline}"

    @property
    def vendor(self) -> str | None:
        """Whose GPUs the run used, where that is known."""
        return vendor_of(self.devices)

    @property
    def tool(self) -> str | None:
        """Whose tool collects on its GPUs (``collect.tool_for``)."""
        return tool_of(self.devices)

    @cached_property
    def next_capture(self) -> Capture | None:
        """The capture that would decide most of what is open; None where none would."""
        return next_capture(self)

    def numbered(self, numbers: Sequence[int]) -> list[KernelGroup]:
        """The kernels of these numbers that are listed, in their order."""
        if self.narrowed is None:
            return [self.kernels[one - 1] for one in numbers if 0 < one <= len(self.kernels)]
        by_number = {one.number: one for one in self.kernels}
        return [by_number[one] for one in numbers if one in by_number]

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
                "recordings": [
                    {"path": source.path, "format": source.format, "role": source.role}
                    for source in self.sources
                ],
                "join": self.join.to_dict() if self.join else None,
                "devices": [_device_dict(device) for device in self.devices],
            },
            "narrowed": asdict(self.narrowed) if self.narrowed else None,
            "totals": asdict(self.totals),
            "timelines": [one.to_dict() for one in self.timelines],
            "ranks": self.ranks.to_dict() if self.ranks else None,
            "clocks": self.clocks.to_dict() if self.clocks else None,
            "categories": [asdict(category) for category in self.categories],
            **{f"{by}s": [asdict(one) for one in self.places.get(by, ())[:top]] for by in BY},
            "kernels": [_kernel_dict(kernel) for kernel in self.kernels[:top]],
            "headline": self.headline,
            "advice": [one.to_dict() for one in self.advice[:top]],
            "findings": [_finding_dict(finding) for finding in self.findings[:top]],
            "next_capture": self.next_capture.to_dict() if self.next_capture else None,
            "ceilings": self.ceilings,
            "calibration": [{**asdict(one), "share": one.share} for one in self.calibration],
            "hidden_findings": self.hidden_findings,
            "not_judged": asdict(self.not_judged) if self.not_judged else None,
            "notes": list(self.notes),
            "config": self.settings.to_dict(),
        }


def _finding_dict(finding: Finding) -> dict[str, Any]:
    made: dict[str, Any] = msgspec.to_builtins(finding)
    for one in made["evidence"]:
        if not one["side"]:
            del one["side"]
    return made


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
    fields: dict[str, Any] = msgspec.to_builtins(kernel)
    fields["class"] = fields.pop("primary_class")
    if kernel.not_judged is None:
        del fields["not_judged"]
    if not kernel.sketched:
        del fields["sketched"]
    if kernel.class_near:
        fields["class_near"]["class"] = fields["class_near"].pop("primary_class")
    fields["metrics"] = dict(kernel.metrics)
    for verdict, entry in zip(kernel.vendor, fields["vendor"], strict=True):
        entry["classes"] = sorted(verdict.classes)
        entry["agrees"] = kernel.primary_class in verdict.classes if verdict.classes else None
    return fields
