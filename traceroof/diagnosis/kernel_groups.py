"""The kernel groups of a diagnosis, from their facts."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from traceroof.core import kernel_table
from traceroof.core.facts import Facts, is_unknown_value, whole
from traceroof.diagnosis.diagnosis import ClassNear, KernelGroup
from traceroof.diagnosis.vendor_verdicts import VendorVerdict
from traceroof.hardware import ceilings
from traceroof.hardware.roofline import Roofline, roofline, t_min_ns
from traceroof.kernels import groups
from traceroof.kernels.groups import Groups
from traceroof.kernels.places import Place

# Where the launch itself, its identity and its time are concerned the group has fields of its own.
_NOT_METRICS = frozenset(
    entry.name for entry in kernel_table.COLUMNS if entry.group in ("identity", "time")
)
_METRIC_NAMES = tuple(name for name in groups.VOCABULARY if name not in _NOT_METRICS)
_OWN_FIELDS = frozenset(
    {"category", "primary_class", "launches", "time_ns", "share_pct", "rank_by_time", "median_ns",
     "mad_ns"}
)  # fmt: skip


def kernel_groups(
    grouped: Groups, vendor: Sequence[tuple[VendorVerdict, ...]], wheres: Sequence[Place]
) -> tuple[KernelGroup, ...]:
    facts = grouped.facts
    metric_names = [n for n in _METRIC_NAMES if n in facts and n not in _OWN_FIELDS]
    texts = facts.only(("operator", "input_shapes", "input_dtypes"))
    known = {metric: _values(getattr(facts, metric)) for metric in metric_names}
    result = []
    for row, name in enumerate(grouped.names):
        metrics = {
            metric: value for metric, values in known.items() if (value := values[row]) is not None
        }
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
                metrics=metrics,
                roofline=by_counters,
                modelled_roofline=by_model,
                number=row + 1,
                vendor=vendor[row],
                missing=_class_lacks(facts, row) if primary == "not-evaluable" else (),
                class_near=_class_near(facts, row),
                input_shapes=shapes,
                input_dtypes=dtypes,
                where=wheres[row],
            )
        )
    return tuple(result)


def _values(column: Any) -> list[Any]:
    """A column as plain values, None for unknown."""
    return [None if is_unknown_value(one) else one for one in column.tolist()]


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
    if f"{prefix}_x" not in facts:
        return None
    values = [facts.only((f"{prefix}_{axis}",)) for axis in "xyz"]
    sizes = [getattr(one, f"{prefix}_{axis}")[row] for one, axis in zip(values, "xyz", strict=True)]
    if any(is_unknown_value(size) for size in sizes):
        return None
    return (int(sizes[0]), int(sizes[1]), int(sizes[2]))
