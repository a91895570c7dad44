"""The kernel groups of a diagnosis, from their facts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from traceroof.core import kernel_table
from traceroof.core.facts import Facts, is_unknown_value, unknown, whole
from traceroof.diagnosis.diagnosis import ClassNear, KernelGroup, KernelGroups
from traceroof.diagnosis.lines import Lines
from traceroof.diagnosis.vendor_verdicts import VendorVerdict
from traceroof.hardware import ceilings
from traceroof.hardware.roofline import Roofline, roofline, t_min_ns
from traceroof.kernels import group_columns
from traceroof.kernels.groups import Groups
from traceroof.kernels.places import Place

# Where the launch itself, its identity and its time are concerned the group has fields of its own.
_NOT_METRICS = frozenset(
    entry.name for entry in kernel_table.COLUMNS if entry.group in ("identity", "time")
)
_METRIC_NAMES = tuple(name for name in group_columns.VOCABULARY if name not in _NOT_METRICS)
_OWN_FIELDS = frozenset(
    {"category", "primary_class", "launches", "time_ns", "share_pct", "rank_by_time", "median_ns",
     "mad_ns", "sketched"}
)  # fmt: skip


def kernel_groups(
    grouped: Groups,
    vendor: Sequence[tuple[VendorVerdict, ...]],
    where: Callable[[int], Place],
    lines: Lines,
) -> KernelGroups:
    """The groups of a diagnosis. vendor: what the vendor says of each. where: what the launches of
    one come from. lines: of their source, where that was sampled."""
    facts = grouped.facts
    missing = _class_lacks(facts)
    metric_names = [n for n in _METRIC_NAMES if n in facts and n not in _OWN_FIELDS]
    columns = {name: getattr(facts, name) for name in metric_names}
    texts = facts.only(("operator", "input_shapes", "input_dtypes"))

    def make(row: int) -> KernelGroup:
        metrics = {name: _plain(column[row]) for name, column in columns.items()}
        share = facts.value("share_pct", row)
        operator, shapes, dtypes = (
            None if is_unknown_value(column[row]) else str(column[row])
            for column in (texts.operator, texts.input_shapes, texts.input_dtypes)
        )
        by_counters, by_model = _rooflines(facts, row)
        return KernelGroup(
            kernel=grouped.names[row],
            category=str(facts.value("category", row)),
            primary_class=str(facts.value("primary_class", row)),
            launches=int(facts.value("launches", row)),
            time_ns=whole(facts.value("time_ns", row)),
            share=None if share is None else share / 100,
            median_ns=facts.value("median_ns", row),
            mad_ns=facts.value("mad_ns", row),
            grid=_triple(facts, "grid", row),
            block=_triple(facts, "block", row),
            operator=operator,
            metrics={name: value for name, value in metrics.items() if value is not None},
            roofline=by_counters,
            modelled_roofline=by_model,
            number=row + 1,
            vendor=vendor[row],
            missing=missing[row],
            class_near=_class_near(facts, row),
            input_shapes=shapes,
            input_dtypes=dtypes,
            where=where(row),
            source_lines=lines.kernel(row),
            sketched=facts.value("sketched", row) == 1,
        )

    return KernelGroups(facts, grouped.names, missing, make)


def _plain(value: Any) -> Any:
    """A value of a column without numpy's type, None for unknown."""
    if is_unknown_value(value):
        return None
    return value.item() if isinstance(value, np.generic) else value


def _class_near(facts: Facts, row: int) -> ClassNear | None:
    other = facts.value("class_near", row)
    return None if other is None else ClassNear(other, facts.value("class_near_by", row))


def _class_lacks(facts: Facts) -> list[tuple[str, ...]]:
    """What the class of each group lacks; nothing where it has one."""
    seen = facts.only(("compute_pct", "compute_basis", "memory_pct", "dram_bytes", "duration_ns"))
    # The bytes are there; over which time is what nobody knows.
    untimed = unknown(seen.duration_ns) & ~unknown(seen.dram_bytes)
    judged = facts.primary_class != "not-evaluable"
    by_number: tuple[tuple[str, ...], ...] = (
        (), ("sm_throughput_pct",), ("memory_throughput_pct",),
        ("sm_throughput_pct", "memory_throughput_pct"), ("duration_ns",),
    )  # fmt: skip
    number = unknown(seen.compute_pct) + 2 * unknown(seen.memory_pct)
    # Both are known, but of single units: the rate of one data type, device memory alone.
    number = np.where(number == 0, 3, number)
    number = np.where(judged, 0, np.where(untimed, 4, number))
    return [by_number[one] for one in number.tolist()]


def _rooflines(facts: Facts, row: int) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
    """The group on the roofline of its device, by what was counted, else by its operator's model;
    then by its model where that says something too.

    None where neither says anything of its work.
    """
    names = ("dram_bytes", "dram_bytes_per_s", "dram_peak_bytes_per_s", "flops", "flops_per_s",
             "flop_dtype", "flop_peak_per_s", "duration_ns", "peaks_from", "model_flops",
             "model_bytes", "model_dtype", "model_ridge")  # fmt: skip
    value = {
        name: None if name not in facts else _known(getattr(facts, name)[row]) for name in names
    }
    counted = value["dram_bytes_per_s"] is not None or value["flops_per_s"] is not None
    modelled = value["model_flops"] is not None
    bandwidth = value["dram_peak_bytes_per_s"]
    made = []
    if counted:
        # Of what only rates are known, a second of the kernel has its place.
        of_rates = value["duration_ns"] is None
        by_counters = roofline(
            flops=value["flops_per_s"] if of_rates else value["flops"],
            bytes=value["dram_bytes_per_s"] if of_rates else value["dram_bytes"],
            time_ns=1e9 if of_rates else value["duration_ns"],
            peak_flops_per_s=value["flop_peak_per_s"],
            peak_bytes_per_s=bandwidth,
            dtype=value["flop_dtype"],
            ceiling_basis="report" if value["peaks_from"] else "device-table",
            traffic_basis="measured",
        )
        if of_rates:
            by_counters = replace(by_counters, flops=None, bytes=None, t_min_ns=None)
        made.append(_with_ceilings(facts, row, by_counters))
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
        made.append(_with_ceilings(facts, row, by_model))
    first, second = (*made, None, None)[:2]
    return first, second


def _known(value: Any) -> Any:
    return None if is_unknown_value(value) else value


def _with_ceilings(facts: Facts, row: int, nominal: Roofline) -> Mapping[str, Any]:
    return {
        **asdict(nominal),
        **_likely(facts, row, nominal),
        **_at_the_clock(facts, row, nominal),
    }


def _at_the_clock(facts: Facts, row: int, nominal: Roofline) -> Mapping[str, Any]:
    """The nominal FLOP rate at the clock that a log saw; a report's peaks are at its clock already."""
    share = facts.value("logged_clock_pct", row) if "logged_clock_pct" in facts else None
    if share is None or nominal.peak_flops_per_s is None or nominal.ceiling_basis == "report":
        return {}
    return {
        "clock_hz": facts.value("logged_clock_hz", row),
        "clock_flops_per_s": nominal.peak_flops_per_s * share / 100,
    }


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
    names = [f"{prefix}_{axis}" for axis in "xyz"]
    sizes = [facts.value(name, row) if name in facts else None for name in names]
    x, y, z = sizes
    return None if x is None or y is None or z is None else (int(x), int(y), int(z))
