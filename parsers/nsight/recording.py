"""From launches and metric rows as they were read to a recording.

Decides the decimal sign, brings units to their base, and fills the kernel table; every metric row
ends in a column or among the raw metrics.
"""

from collections.abc import Collection, Iterable, Mapping, MutableMapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core.kernel_table import kernel_table
from traceroof.core.locales import LOCALE_READ, DecimalSign, number, vote
from traceroof.core.recording import VERDICTS, Note, Recording, empty, source_of
from traceroof.core.source_lines import SOURCE
from traceroof.ingest.sums import CONTRADICTING
from traceroof.parsers.nsight.derive import derive
from traceroof.parsers.nsight.formulas import Columns, Floats, apply_formulas
from traceroof.parsers.nsight.launch_devices import devices_of, with_printed_name
from traceroof.parsers.nsight.launch_identity import add_identity, add_shapes
from traceroof.parsers.nsight.launches import Launches, Sentence
from traceroof.parsers.nsight.metrics import is_counted, is_whole
from traceroof.parsers.nsight.number_rows import MeasuredNumbers
from traceroof.parsers.nsight.numbers import split_instances, whole
from traceroof.parsers.nsight.repeated_runs import split_runs
from traceroof.parsers.nsight.rows import Measured, Rows
from traceroof.parsers.nsight.rule_facts import RuleFacts
from traceroof.parsers.nsight.stray_rows import drop_strays
from traceroof.parsers.nsight.unmeasured import note_cells, refuse_unmeasured

_BEYOND_PEAK_PCT = 110
# Percentages of a whole that cannot hold more: the warp slots of a multiprocessor.
_OCCUPANCIES = (
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "sm__maximum_warps_per_active_cycle_pct",
)


def recording(
    launches: Launches,
    path: str,
    format: str,
    notes: Iterable[Note] = (),
    reason: str = "",
    gpus: Collection[str] = (),
) -> Recording:
    """The recording. Raises TraceroofError when nothing in the file was measured.

    reason: what the profiler itself said of a failure. gpus: the GPUs that the program's own
    output names.
    """
    measured = _measured(launches)
    refuse_unmeasured(launches, path, measured, reason)
    metrics = measured.metrics(len(launches.found))
    _doubt_beyond_peak(launches, metrics)
    facts = RuleFacts((verdict.launch, verdict.says.text) for verdict in launches.verdicts)
    facts.add_maxima(metrics)
    doubted = _contradicted(metrics, len(launches.found))
    columns = apply_formulas(metrics, len(launches.found))
    columns.forget("duration_ns", doubted)
    launches.note(_CONTRADICTED, int(doubted.sum()))
    devices = [whole(launch.device) for launch in launches.found]
    derive(columns, metrics, devices, facts)
    launches.note("figures taken from the sentences of rules", facts.used, severe=False)
    add_identity(launches, columns, devices)
    add_shapes(launches, columns, metrics)
    _check_times(launches, columns)
    launches.note(_MIXED, _mixed_units(measured), severe=False)
    for name, statistic in (("shortest", "minimum"), ("longest", "maximum")):
        columns.values[f"{name}_launch_ns"] = measured.extreme(
            "gpu__time_duration.sum", statistic, len(launches.found)
        )
    _check_spread(launches, columns)
    kernels = kernel_table(columns.values)
    note_cells(launches, measured)
    names = measured.texts("device__attribute_display_name")
    found = with_printed_name(
        launches, devices_of(launches, columns, devices, metrics, names), gpus
    )
    raw = measured.raw_metrics(columns)
    every = [
        *notes,
        *(Note(text, count, severe) for (text, severe), count in launches.notes.items()),
    ]
    return Recording(
        format=format,
        time_basis="counter-tool",
        kernels=kernels,
        sources=(source_of(path, format, kernels, every),),
        devices=found,
        raw_metrics=raw,
        verdicts=_verdict_table(launches),
        source_lines=_source_lines(launches),
    )


def _measured(launches: Launches) -> Measured | MeasuredNumbers:
    if launches.numbers:
        return MeasuredNumbers(launches.numbers, launches.slots, launches.cells)
    drop_strays(launches)
    rows = split_runs(launches, launches.rows())
    return Measured.read(rows, launches.slots, launches.sign or _decimal_sign(launches, rows))


def _decimal_sign(launches: Launches, rows: Rows) -> DecimalSign:
    whole_slot = [is_whole(slot.metric, slot.unit_text) for slot in launches.slots]
    base_slot = [is_counted(slot.unit_text) for slot in launches.slots]
    marked = (
        (split_instances(text)[0], whole_slot[slot], base_slot[slot])
        for text, slot in zip(rows.texts(), rows.slot.tolist(), strict=True)
        if "," in text or "." in text
    )
    found = vote(marked, spreadsheet=launches.spreadsheet)
    if found.sign is DecimalSign.COMMA:
        launches.note(
            LOCALE_READ
            + (
                " (every '.' of its counts and nanoseconds is followed by three digits)"
                if found.by_groups
                else ""
            ),
            severe=False,
        )
    if found.unclear and found.sign is DecimalSign.POINT:
        launches.note(
            "numbers with three digits behind their only '.' or ',' read as in a US locale; "
            "nothing else in the file says which locale it has",
            found.unclear,
        )
    return found.sign


def _doubt_beyond_peak(launches: Launches, metrics: MutableMapping[str, Floats]) -> None:
    """Rounding and clock changes give 101 %; what is far beyond is a wrong number.

    More warps than there are slots cannot have been: that occupancy is unknown.
    """
    for name in list(metrics):
        if name not in _OCCUPANCIES and ".pct_of_peak_sustained_" not in name:
            continue
        values = metrics[name]
        beyond = values > _BEYOND_PEAK_PCT
        if not beyond.any():
            continue
        most = f"{np.nanmax(values):,.0f} %"
        if name in _OCCUPANCIES:
            metrics[name] = np.where(beyond, np.nan, values)
            launches.note(f"{name} of up to {most} is impossible: left unknown", int(beyond.sum()))
        else:
            launches.note(f"{name} of up to {most} of peak", int(beyond.sum()), severe=False)


_UNITS = ("sm", "smsp", "gpc")
_CONTRADICTED = "durations that cycles and clock contradict by over half: unknown"


def _contradicted(metrics: Mapping[str, Floats], count: int) -> npt.NDArray[np.bool_]:
    """Launches whose duration is not what any count of elapsed cycles takes at any clock of the
    same launch, by a factor of two. In sound files they agree to 8 %."""
    duration_ns = metrics.get("gpu__time_duration.sum")
    told, agrees = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
    if duration_ns is None:
        return told
    cycles, clocks = (
        [metrics[name] for unit in _UNITS for mean in ("avg", "max")
         if (name := f"{unit}__cycles_elapsed.{mean}{rate}") in metrics]
        for rate in ("", ".per_second")
    )  # fmt: skip
    with np.errstate(all="ignore"):
        for ratio in (one / (clock * duration_ns * 1e-9) for one in cycles for clock in clocks):
            told |= np.isfinite(ratio) & (ratio > 0)
            agrees |= (ratio >= 0.5) & (ratio <= 2)
    return told & ~agrees


_MIXED = "durations in a larger unit, beside others in nanoseconds of four digits and more"


def _mixed_units(measured: Measured | MeasuredNumbers) -> int:
    """How many durations have another unit than those of their section in base units: Nsight Compute
    scales all of a page, so that a value has at most three digits, or none."""
    if isinstance(measured, MeasuredNumbers):
        return 0
    sizes: dict[str, dict[bool, list[Floats]]] = {}
    for at, slot in enumerate(measured.slots):
        if slot.metric == "gpu__time_duration.sum" and not slot.statistic:
            is_base = slot.unit_text in ("ns", "nsecond")
            values = measured.value[measured.rows.slot == at]
            sizes.setdefault(slot.section, {}).setdefault(is_base, []).append(values)
    return sum(
        sum(map(len, found[False]))
        for found in sizes.values()
        if len(found) == 2 and any((one >= 1000).any() for one in found[True])
    )


def _check_times(launches: Launches, columns: Columns) -> None:
    duration = columns.values.get("duration_ns")
    if duration is None:
        launches.note("launches without a duration", len(launches.found), severe=False)
        return
    wrong = (duration < 0) | (duration >= 2**63)
    duration[wrong] = np.nan
    launches.note("launches whose duration is negative or absurd", int(wrong.sum()))
    unknown = int(np.isnan(duration).sum() - wrong.sum())
    launches.note("launches without a duration", unknown, severe=False)
    printed = np.zeros(len(launches.found), dtype=bool)
    for metric, measured in columns.direct.items():
        if metric.startswith("gpu__time_duration"):
            printed |= measured
    computed = int((~np.isnan(duration) & ~printed).sum())
    launches.note("durations computed from a count and its rate", computed, severe=False)


def _check_spread(launches: Launches, columns: Columns) -> None:
    """A mean lies between the shortest and the longest launch, but for what printing rounds."""
    spread = [
        columns.values.get(name)
        for name in ("shortest_launch_ns", "duration_ns", "longest_launch_ns")
    ]
    if any(one is None for one in spread):
        return
    shortest, mean, longest = (np.asarray(one, dtype=np.float64) for one in spread)
    rounded = mean * _ROUNDED_SHARE
    outside = (shortest > mean + rounded) | (longest < mean - rounded)
    launches.note(CONTRADICTING, int(outside.sum()))


# Means, shortest and longest are printed with three digits or more.
_ROUNDED_SHARE = 0.01


def _source_lines(launches: Launches) -> pa.Table:
    at = SOURCE.get_field_index("row")
    parts = [
        table.set_column(at, "row", pa.repeat(pa.scalar(launch, pa.int64()), len(table)))
        for launch, table in launches.sources
    ]
    return pa.concat_tables(parts) if parts else empty(SOURCE)


def _verdict_table(launches: Launches) -> pa.Table:
    # Launches of one kernel share most of what is said.
    number: dict[Sentence, int] = {}
    said = [number.setdefault(one.says, len(number)) for one in launches.verdicts]
    section, rule, level, text, scope, speedup = zip(*number, strict=True) if number else ((),) * 6
    columns = [
        *([one or None for one in words] for words in (section, rule, level)),
        text,
        [one or None for one in scope],
        [_percentage(one) if one else None for one in speedup],
    ]
    schema = VERDICTS.remove(0)
    arrays = [pa.array(one, field.type) for one, field in zip(columns, schema, strict=True)]
    distinct = pa.Table.from_arrays(arrays, schema=schema)
    rows = pa.array([one.launch for one in launches.verdicts], pa.int64())
    return distinct.take(pa.array(said, pa.int64())).add_column(0, VERDICTS.field(0), rows)


def _percentage(text: str) -> float | None:
    """An estimated speed-up: up to three decimals and never grouped, so any sign is decimal."""
    value = number(text.replace(",", "."), DecimalSign.POINT)
    return None if np.isnan(value) else value
