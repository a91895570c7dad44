"""Kernel groups as they are judged: counters joined to them, clocks, ceilings, class."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceroof.calibration.apply import with_calibration
from traceroof.config import Settings
from traceroof.core.dictionary import Coded
from traceroof.core.facts import Facts
from traceroof.core.recording import (
    Recording,
)
from traceroof.diagnosis import sensitivity
from traceroof.hardware import ceilings
from traceroof.hardware.ceilings import Attainable, MeasuredRate
from traceroof.hardware.devices import Device
from traceroof.hardware.run_devices import (
    RunDevice,
    by_ordinal,
    devices_of,
    named_by,
    vendor_of,
    without_reported,
)
from traceroof.kernels import bound_class, counter_join, groups
from traceroof.kernels.categories import coded_categories, row_categories
from traceroof.kernels.groups import Groups
from traceroof.kernels.modelled_work import model_columns
from traceroof.kernels.variants import Variants
from traceroof.patterns import roles
from traceroof.patterns.dram_chains import dram_chains
from traceroof.patterns.launch_part import LaunchPart, part_of_rows, part_of_run
from traceroof.scopes import logged_clocks
from traceroof.scopes.logged_clocks import LoggedClocks


@dataclass(frozen=True)
class JudgedGroups:
    """The kernel groups of a recording, and what they were judged with.

    part: the launches that the groups are made of; grouped.of_row, categories, role: of each of its
    variants. of_row: the group of each row of the kernel table, category_of_row: its category, where
    rows are at hand (else -1 and none). named: the device of each group. joined: how the counters fit,
    where a timeline has some. verdict_rows: the group of each row of verdict_table's kernels.
    ceiling: what is attainable; measured: where that was measured.
    """

    part: LaunchPart
    grouped: Groups
    of_row: npt.NDArray[np.int64]
    category_of_row: Coded
    categories: list[str]
    role: Coded
    devices: tuple[RunDevice, ...]
    named: list[str | None]
    clocks: LoggedClocks | None
    joined: counter_join.Join | None
    verdict_rows: npt.NDArray[np.int64]
    verdict_table: pa.Table
    ceiling: Attainable
    measured: npt.NDArray[np.bool_]

    @property
    def by_row(self) -> Groups:
        """The groups, with the group of each row of the kernel table."""
        return replace(self.grouped, of_row=self.of_row)


def judged_groups(
    recording: Recording,
    device: str | None,
    settings: Settings,
    attainable: Attainable | None,
    calibration: Sequence[MeasuredRate],
) -> JudgedGroups:
    """Group the kernels of a recording, join its counters and class the groups.

    Raises TraceroofError where ``device`` is no known GPU.
    """
    kernels = recording.kernels
    category_of_row = coded_categories(kernels)
    device, devices = _devices(recording, device, settings)
    part, variant_of_row = _part(recording, category_of_row)
    variants = part.variants
    categories = _of_variants(variants, category_of_row, variant_of_row)
    role = roles.roles_of(variants.kernels, categories)
    modelled = {**model_columns(variants.kernels, categories, variants.part), "role": role}
    listed = by_ordinal(devices, unlisted=True)
    grouped = groups.group(variants, categories, listed, modelled, vendor_of(devices))
    of_row = np.full(kernels.num_rows, -1, dtype=np.int64)
    if variant_of_row is not None:
        of_row = grouped.of_row[variant_of_row]
    joined = None
    verdict_rows, verdict_table = of_row, recording.verdicts
    if recording.counters is not None:
        counters = without_reported(recording.counters, settings.peaks)
        counted, most = _counted(counters, device, devices, settings)
        joined = counter_join.join(grouped, counted, most=most)
        grouped = counter_join.with_counters(grouped, counted, joined)
        partner = {match.counted: at for at, match in enumerate(joined.matches) if match}
        verdict_rows = np.array(
            [partner.get(one, -1) for one in counted.of_row.tolist()], dtype=np.int64
        )
        verdict_table = recording.counters.verdicts
    ordinal = grouped.facts.only(("device",)).device
    of_group = groups.device_of_group(ordinal, listed)
    named = [one.name if one else None for one in of_group]
    logs = pc.unique(recording.clock_logs["source"]).to_pylist()
    tools = [recording.sources[at].format for at in logs]
    clocks = logged_clocks.logged_clocks(recording.clock_logs, tools, kernels)
    grouped = _clocked(grouped, of_row, recording, clocks, of_group)
    calibrated = with_calibration(grouped.facts, named, calibration, recording.time_basis)
    grouped = replace(grouped, facts=calibrated)
    ceiling, measured = ceilings.of_groups(grouped.facts)
    ceiling = attainable or ceiling
    chains = dram_chains(kernels, replace(grouped, of_row=of_row), _l2_sizes(of_group))
    grouped = _classed(grouped, ceiling, recording.time_basis == "counter-tool", chains)
    return JudgedGroups(
        part, grouped, of_row, category_of_row, categories, role, devices, named, clocks, joined, verdict_rows, verdict_table,
        ceiling, measured,
    )  # fmt: skip


def _part(
    recording: Recording, categories: Coded
) -> tuple[LaunchPart, npt.NDArray[np.int64] | None]:
    """The launches of a recording, and the variant of each row: what a counter tool says is of one
    launch, so that each of them stands for itself."""
    if recording.time_basis == "timeline":
        return part_of_run(recording, categories)
    return part_of_rows(recording.kernels, categories), np.arange(recording.kernels.num_rows)


def _of_variants(
    variants: Variants, of_row: Coded, variant_of_row: npt.NDArray[np.int64] | None
) -> list[str]:
    """The category of each variant: that of its rows, where they are at hand."""
    if variant_of_row is None:
        return row_categories(variants.kernels)
    codes = np.empty(len(variants), dtype=np.int32)
    codes[variant_of_row] = of_row.codes
    return cast(list[str], Coded(codes, of_row.texts).values().tolist())


def _devices(
    recording: Recording, device: str | None, settings: Settings
) -> tuple[str | None, tuple[RunDevice, ...]]:
    """The name that the user gave, and the devices of a recording by it or by its files."""
    if device is None and not any(one.name for one in recording.devices):
        device = settings.device
    devices = devices_of(recording, device, settings.peaks)
    if recording.counters is not None:
        counted_on = devices_of(recording.counters, device, settings.peaks)
        if not any(one.known for one in devices):
            devices = counted_on
        elif name := named_by(devices, counted_on):
            devices = devices_of(recording, name, settings.peaks)
    return device, devices


def _classed(
    grouped: Groups, ceiling: Attainable, alone: bool, chains: Mapping[str, npt.NDArray[Any]]
) -> Groups:
    """The groups with their class, and the one that they are near to."""
    primary = bound_class.primary_class(grouped.facts, ceiling)
    near, by = sensitivity.near_classes(grouped.facts, ceiling)
    facts = _with(
        grouped.facts, primary_class=primary, class_near=near, class_near_by=by,
        by_counters=np.full(len(grouped), float(alone)), **chains,
    )  # fmt: skip
    return replace(grouped, facts=facts)


def _clocked(
    grouped: Groups,
    of_row: npt.NDArray[np.int64],
    recording: Recording,
    clocks: LoggedClocks | None,
    of_group: Sequence[Device | None],
) -> Groups:
    """The groups with the clock of a log: a counter tool sets its own."""
    if clocks is None or recording.time_basis != "timeline":
        return grouped
    logged = logged_clocks.by_group(
        recording.clock_logs, clocks, recording.kernels, of_row, len(grouped)
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
        kernels, row_categories(kernels), by_ordinal(devices, unlisted=True), {}, vendor_of(devices)
    )
    models = [{one.known.name for one in side if one.known} for side in (timed_on, devices)]
    same = not all(models) or bool(models[0] & models[1])
    return made, 1.0 if same else counter_join.FORCED


def _with(facts: Facts, **columns: npt.NDArray[Any]) -> Facts:
    known = {name: getattr(facts, name) for name in facts.names()}
    return Facts({**known, **columns}, len(facts))


def _l2_sizes(devices: Sequence[Device | None]) -> npt.NDArray[np.float64]:
    return np.array(
        [np.nan if one is None or one.l2_bytes is None else one.l2_bytes for one in devices],
        dtype=np.float64,
    )
