"""What formulas cannot say about a launch: stall shares, tensor work, peaks."""

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from traceroof.core import regex
from traceroof.core.kernel_table import STALL_REASONS
from traceroof.parsers.nsight.formulas import (
    Columns,
    Floats,
    Metrics,
    book,
)
from traceroof.parsers.nsight.rule_facts import RuleFacts

# Below this percentage of peak, its two printed decimals leave the peak uncertain by over 0.5 %.
_LEAST_PCT_FOR_PEAK = 1.0
# Memory clocks are given in kHz by device attributes and in Hz by counters; the slowest memory
# clock of a GPU with counters (405 MHz when idle) in Hz is far above the fastest one in kHz.
_LEAST_HZ = 1e8


def derive(
    columns: Columns, metrics: Metrics, devices: Sequence[int | None], rules: RuleFacts
) -> None:
    """Add to ``columns`` what needs more than one formula.

    devices: device ordinal per launch. rules: what rule texts say.
    """
    _drop_uncomputed(columns, metrics)
    _add_tensor_work(columns, metrics)
    _add_stalls(columns, metrics, rules)
    _add_peaks(columns, metrics, devices)
    _add_pipes(columns, rules)
    for name, known in rules.columns.items():
        into = columns.values.setdefault(name, np.full(columns.count, np.nan))
        for row, value in known.items():
            if np.isnan(into[row]):
                into[row] = value
                rules.used += 1


def _add_pipes(columns: Columns, rules: RuleFacts) -> None:
    """The busiest pipe that a sentence names, of the cycles that the launch's other pipes are measured
    against."""
    unknown = np.full(columns.count, None, dtype=object)
    basis = columns.values.setdefault("pipe_basis", unknown)
    active = columns.values.get("sm_active_pct", np.full(columns.count, np.nan))
    for told, pipes in rules.pipes.items():
        for name, known in pipes.items():
            for row, percent in known.items():
                basis[row] = basis[row] or told
                if basis[row] != told:
                    scale = active[row] / 100
                    percent = percent / scale if told == "elapsed" else percent * scale
                if np.isfinite(percent):
                    rules.columns.setdefault(name, {})[row] = min(percent, 100.0)


def _drop_uncomputed(columns: Columns, metrics: Metrics) -> None:
    """Occupancy and waves of a launch whose occupancy the profiler could not compute.

    It then prints 0 for both (seen beside "ERR float division by zero"); a launch that ran has
    more. Waves of less than 0.005 are printed as 0, too, but beside an occupancy.
    """
    occupancy = metrics.get("sm__maximum_warps_per_active_cycle_pct")
    if occupancy is None:
        return
    columns.forget("theoretical_occupancy_pct", occupancy == 0)
    waves = metrics.get("launch__waves_per_multiprocessor")
    if waves is not None:
        columns.forget("waves_per_sm", (occupancy == 0) & (waves == 0))


def _where(first: Floats, second: Floats) -> Floats:
    return np.where(np.isnan(first), second, first)


# --- tensor cores ------------------------------------------------------------------------------

_TENSOR_OPS = regex.compile(r"sm__ops_path_(?P<path>tensor(?:_\w+)?)\.(?P<rest>sum(?:\.\w+)?)")
_TENSOR_SOURCE = regex.compile(r"_src_(?P<dtype>[a-z]+\d+(?:_e\dm\d)?)")


def _add_tensor_work(columns: Columns, metrics: Metrics) -> None:
    """Tensor-core operations by ``sm__ops_path_tensor_*``, the element type, and the peak.

    Before about 2023 there are only instruction counts, whose FLOPs depend on the architecture:
    the work then stays unknown. A zero of the types that happened to be collected is unknown
    too: another type may have been used.
    """
    work, dtype = _tensor_sum(metrics, columns.count, "sum")
    rate, rate_dtype = _tensor_sum(metrics, columns.count, "sum.per_cycle_elapsed")
    clock = metrics.get("sm__cycles_elapsed.avg.per_second")
    duration = columns.values.get("duration_ns")
    if clock is not None and duration is not None:
        by_rate = rate * clock * duration * 1e-9
        dtype = np.where(np.isnan(work), rate_dtype, dtype)
        work = _where(work, by_rate)
    executed = metrics.get("sm__inst_executed_pipe_tensor.sum")
    if executed is not None:  # no instruction at all is no work, on any architecture
        work[np.isnan(work) & (executed == 0)] = 0.0
    if not np.isnan(work).all():
        columns.values["flop_tensor"] = work
        dtype[~(work > 0)] = None
        columns.values["tensor_dtype"] = dtype
    if clock is not None:
        peak = _tensor_peak(metrics, columns.count, dtype) * clock
        if not np.isnan(peak).all():
            columns.values["peak_tensor_flops_per_s"] = peak


def _tensor_metrics(metrics: Metrics, ending: str) -> Iterator[tuple[str, str | None, Floats]]:
    """(path, element type, values), the most general paths only: their parts are counted in."""
    found = [
        (match["path"], name)
        for name in metrics
        if (match := _TENSOR_OPS.fullmatch(name)) and match["rest"] == ending
    ]
    kept: list[str] = []
    for path, name in sorted(found, key=lambda entry: len(entry[0])):
        if any(path == general or path.startswith(general + "_") for general in kept):
            continue
        kept.append(path)
        source = _TENSOR_SOURCE.search(path)
        yield path, source["dtype"] if source else None, metrics[name]


def _tensor_sum(
    metrics: Metrics, count: int, ending: str
) -> tuple[Floats, npt.NDArray[np.object_]]:
    total, largest = np.zeros(count), np.zeros(count)
    dtype = np.full(count, None, dtype=object)
    for _, name, value in _tensor_metrics(metrics, ending):
        known = np.nan_to_num(value)
        total += known
        dtype[known > largest] = name
        largest = np.maximum(largest, known)
    return np.where(total > 0, total, np.nan), dtype


def _tensor_peak(metrics: Metrics, count: int, dtype: npt.NDArray[np.object_]) -> Floats:
    """Operations per cycle at peak, of the element type that did the work."""
    peak = np.full(count, np.nan)
    for _, name, value in _tensor_metrics(metrics, "sum.peak_sustained"):
        same = np.array([name is not None and used == name for used in dtype], dtype=bool)
        peak[same] = np.fmax(peak[same], value[same])
    return peak


# --- stalls ------------------------------------------------------------------------------------

_RATIOS = (
    regex.compile(r"smsp__average_warps_issue_stalled_(?P<reason>\w+)_per_issue_active\.ratio"),
    regex.compile(r"smsp__average_warp_latency_issue_stalled_(?P<reason>\w+)\.ratio"),
)
_SHARES = regex.compile(r"smsp__warp_issue_stalled_(?P<reason>\w+)_per_warp_active\.pct")
_SAMPLES = regex.compile(r"smsp__pcsamp_warps_issue_stalled_(?P<reason>\w+?)(?:\.sum)?")


def _add_stalls(columns: Columns, metrics: Metrics, rules: RuleFacts) -> None:
    """Share of a warp's time between two issues by reason, from the best family known.

    The ratios of all reasons, the issuing cycle ("selected") among them, add up to the warp
    cycles per issue (checked on H100: 58.148 of 58.150); samples are taken as shares of all
    samples in the same way.
    """
    latency = columns.values.get("warp_cycles_per_issue", np.full(columns.count, np.nan))
    families: list[tuple[str, dict[str, Floats]]] = []
    for pattern in _RATIOS:
        ratios = _by_reason(metrics, pattern)
        families.append(
            ("ratios", _divided(ratios, _where(latency, _total(ratios, columns.count))))
        )
    percents = _by_reason(metrics, _SHARES)
    families.append(("ratios", {reason: value / 100 for reason, value in percents.items()}))
    samples = _by_reason(metrics, _SAMPLES)
    families.append(("pc-samples", _divided(samples, _total(samples, columns.count))))
    families.append(("rule text (partial)", rules.stalls(columns.count)))

    origin = np.full(columns.count, None, dtype=object)
    for name, shares in families:
        shares.pop("selected", None)
        if not shares:
            continue
        known = ~np.isnan(np.array(list(shares.values()))).all(axis=0)
        used = known & np.array([entry is None for entry in origin], dtype=bool)
        origin[used] = name
        for reason, share in shares.items():
            into = columns.values.setdefault(f"stall_{reason}", np.full(columns.count, np.nan))
            into[used] = share[used]
    if any(origin):
        columns.values["stalls_from"] = origin


def _by_reason(metrics: Metrics, pattern: re.Pattern[str]) -> dict[str, Floats]:
    found: dict[str, Floats] = {}
    for name in metrics:
        match = pattern.fullmatch(name)
        if match and not match["reason"].endswith("_not_issued"):
            reason = book().stall_names.get(match["reason"], match["reason"])
            if reason in STALL_REASONS or reason == "selected":
                found[reason] = metrics[name]
    return found


def _total(family: Mapping[str, Floats], count: int) -> Floats:
    """Sum over the reasons where the issuing cycle is among them; unknown otherwise."""
    if "selected" not in family:
        return np.full(count, np.nan)
    return np.where(np.isnan(family["selected"]), np.nan, np.nansum(list(family.values()), axis=0))


def _divided(family: Mapping[str, Floats], total: Floats) -> dict[str, Floats]:
    with np.errstate(all="ignore"):
        shares = {reason: value / total for reason, value in family.items()}
    return {reason: np.where(np.isfinite(value), value, np.nan) for reason, value in shares.items()}


# --- peaks -------------------------------------------------------------------------------------


_PEAKS = (
    "peak_dram_bytes_per_s",
    *(f"peak_{unit}_flops_per_s" for unit in ("fp32", "fp64", "fp16", "tensor")),
)


def _add_peaks(columns: Columns, metrics: Metrics, devices: Sequence[int | None]) -> None:
    """Device-memory peak where the roofline chart does not give it, and where peaks are from.

    In order: the chart's own figures; achieved rate over percentage of peak, on this launch or,
    scaled by the memory clock, on the launch of the device that used most of it; device
    attributes (within 8 % of the counters on 29 real reports).
    """
    none = np.full(columns.count, np.nan)
    origin = np.full(columns.count, None, dtype=object)
    charted = np.zeros(columns.count, dtype=bool)
    for name in _PEAKS:
        if name in columns.values:
            value = columns.values[name]
            # No unit has a peak of zero.
            columns.values[name] = np.where(value > 0, value, np.nan)
            charted |= value > 0
    peak = columns.values.get("peak_dram_bytes_per_s", none).copy()
    origin[charted] = "roofline metrics"

    by_rate = _peak_by_rate(columns, metrics)
    sources = (
        ("device-memory rate over its percentage of peak", by_rate),
        ("rate over percentage of another launch", _peak_by_neighbour(columns, by_rate, devices)),
        ("device attributes", _peak_by_attributes(metrics, columns.count)),
    )
    for name, value in sources:
        used = np.isnan(peak) & (value > 0)
        peak[used] = value[used]
        also = used & charted
        origin[also] = f"roofline metrics; {name}"
        origin[used & ~charted] = name
    if not np.isnan(peak).all():
        columns.values["peak_dram_bytes_per_s"] = peak
    if any(origin):
        columns.values["peaks_from"] = origin


def _peak_by_rate(columns: Columns, metrics: Metrics) -> Floats:
    rate = metrics.get("dram__bytes.sum.per_second", np.full(columns.count, np.nan))
    moved, duration = (columns.values.get(name) for name in ("dram_bytes", "duration_ns"))
    percent = columns.values.get("dram_throughput_pct")
    if percent is None:
        return np.full(columns.count, np.nan)
    with np.errstate(all="ignore"):
        if moved is not None and duration is not None:
            rate = _where(rate, moved / (duration * 1e-9))
        peak = rate / (percent / 100)
    return np.where((percent >= _LEAST_PCT_FOR_PEAK) & np.isfinite(peak), peak, np.nan)


def _peak_by_neighbour(columns: Columns, own: Floats, devices: Sequence[int | None]) -> Floats:
    """The peak of the launch with the highest percentage, for all launches of its device."""
    peak = np.full(columns.count, np.nan)
    percent = columns.values.get("dram_throughput_pct")
    clock = columns.values.get("dram_clock_hz", np.full(columns.count, np.nan))
    if percent is None or np.isnan(own).all():
        return peak
    device = np.array([-1 if entry is None else entry for entry in devices], dtype=np.int64)
    for ordinal in np.unique(device):
        same = device == ordinal
        known = same & ~np.isnan(own)
        if not known.any():
            continue
        best = int(np.argmax(np.where(known, percent, -np.inf)))
        with np.errstate(all="ignore"):
            ratio = clock / clock[best]
        peak[same] = own[best] * np.where(np.isfinite(ratio), ratio, 1.0)[same]
    return peak


def _peak_by_attributes(metrics: Metrics, count: int) -> Floats:
    clock = metrics.get("device__attribute_memory_clock_rate")
    width = metrics.get("device__attribute_global_memory_bus_width")
    if clock is None or width is None:
        return np.full(count, np.nan)
    hertz = np.where(clock < _LEAST_HZ, clock * 1e3, clock)
    peak = 2 * hertz * width / 8
    return np.where(peak > 0, peak, np.nan)
