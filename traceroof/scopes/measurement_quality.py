"""What a run says about its own measurement: warm-up, scatter, clocks, caches, peaks, windows.

These are facts, not verdicts: rules of scope ``run`` judge them (``rules/run_*.py``), and lower the
confidence of what rests on a figure that is in doubt. Shares are of the time of the kernels that
compute: collectives wait for each other, so that their times scatter whatever is measured.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from traceroof.core import regex
from traceroof.core.facts import Facts, Mask, is_unknown_value
from traceroof.core.kernel_table import total_time_ns
from traceroof.core.recording import DeviceInfo, Recording
from traceroof.hardware.devices import Device
from traceroof.kernels.groups import Groups
from traceroof.scopes.clock_facts import Reals, all_clocks
from traceroof.scopes.logged_clocks import GpuClocks
from traceroof.scopes.partitions import partition
from traceroof.timeline import Timeline

#: Times scatter when 1.4826 MAD exceeds this share of the median.
SCATTER_PCT = 5.0
#: Launches of one name whose 95th and 5th percentiles lie further apart do different work.
SPREAD = 5.0
#: A first launch this many times as long as the median of its kernel is warm-up.
FIRST_RATIO = 2.0
# Below this share of modelled kernel time the models do not tell what all launches moved.
_MOSTLY = 0.8

#: What the masks below read.
CACHED = (
    "model_dram_pct", "traffic_ratio", "model_bytes", "last_cache_bytes", "model_intensity",
    "model_ridge", "l2_hit_pct", "dram_pct",
)  # fmt: skip
PEAKS: Mapping[str, str] = {
    "compute_pct": "compute",
    "memory_pct": "memory",
    "dram_pct": "DRAM",
    "flop_pct": "FLOP rate",
    "tensor_pct": "tensor cores",
    "model_flop_pct": "FLOP rate by shapes",
}
#: What the profiler measured by itself on the device of this very file: FLOP rates by unit.
_OWN_FLOPS = (
    "calibrated_fp64_flops_per_s", "calibrated_fp32_flops_per_s", "calibrated_tensor_flops_per_s",
)  # fmt: skip


def cached(k: Facts) -> Mask:
    """Groups that cannot have had all their bytes from DRAM: by shapes they move more than it can
    in their time; or measured DRAM bytes are less than half of what the shapes need; or the shapes
    make it a matter of memory, and yet it hits L2 with more than 90 % and uses DRAM under 20 %.

    Hits alone are no sign: a kernel that reads its data often hits L2 as well.
    """
    above = (k.model_dram_pct > 100) & ~(beyond_cache_pct(k) > 100)
    hits = (k.l2_hit_pct > 90) & (k.dram_pct < 20) & (k.model_intensity < k.model_ridge)
    return np.asanyarray(above | (k.traffic_ratio < 0.5) | hits)


def beyond_cache_pct(k: Facts) -> Reals:
    """Modelled DRAM use in percent without what the last cache before DRAM may have held before and
    may hold after: of the bytes at most its size twice."""
    spared = np.nan_to_num(2 * k.last_cache_bytes, nan=np.inf) / k.model_bytes
    return np.asanyarray(k.model_dram_pct * np.maximum(1 - spared, 0))


def over_peak(k: Facts) -> Reals:
    """The largest use of any peak, percent; modelled bytes count where no cache can explain them."""
    return np.asanyarray(np.fmax.reduce(list(_uses(k).values())))


def _uses(k: Facts) -> dict[str, Reals]:
    """Every peak in words -> its use, percent."""
    # A modelled DRAM use above the peak is the cache's (``cached``), not a peak's.
    from_model = k.model_dram_pct > 100
    uses = {
        label: np.where(from_model, np.nan, getattr(k, name))
        if name in ("memory_pct", "dram_pct")
        else getattr(k, name)
        for name, label in PEAKS.items()
    }
    # What ``traceroof calibrate`` stored is of another run, and may lie a few percent above.
    rate = k.flop_attainable * k.roof_flops_per_s
    own = np.any([np.isclose(rate, getattr(k, name), rtol=1e-6) for name in _OWN_FLOPS], axis=0)
    return {
        **uses,
        "DRAM by the profiler's own measurement": (
            k.calibrated_dram_bytes_per_s / k.dram_peak_bytes_per_s * 100
        ),
        "FLOP rate by the profiler's own measurement": np.where(
            own, k.flop_attainable * 100, np.nan
        ),
        "DRAM by shapes, beyond what a cache can hold": beyond_cache_pct(k),
    }


#: What ``over_peak`` reads.
OVER_PEAK = (
    *PEAKS, "model_dram_pct", "model_bytes", "last_cache_bytes", "calibrated_dram_bytes_per_s",
    "dram_peak_bytes_per_s", "flop_attainable", "roof_flops_per_s", *_OWN_FLOPS,
)  # fmt: skip


def scattered(k: Facts) -> Mask:
    """Groups whose launches take different times and do the same work, as far as one can tell."""
    return np.asanyarray((k.scatter_pct > SCATTER_PCT) & ~collapsed(k))


#: What ``scattered`` and ``collapsed`` read.
SCATTERED = ("scatter_pct", "spread", "input_shapes")


def collapsed(k: Facts) -> Mask:
    """Groups without known shapes whose launches differ more than five-fold."""
    shaped = np.array([isinstance(text, str) for text in k.input_shapes], dtype=bool)
    return np.asanyarray((k.spread > SPREAD) & ~shaped)


def facts_of(
    recording: Recording,
    grouped: Groups,
    lines: Sequence[Timeline],
    gpus: Sequence[tuple[DeviceInfo, Device | None]],
    logged: Sequence[GpuClocks] = (),
) -> Mapping[str, float | str]:
    """QUALITY_COLUMNS -> value; what is unknown is absent.

    logged: what clock logs say of the GPUs that it ran on.

    grouped: the kernel groups with SCATTER_COLUMNS. gpus: what the files say of each GPU, and its
    row of the device table.
    """
    values: dict[str, float | str] = {
        **_of_groups(grouped, sum(len(one.steps) for one in lines)),
        **all_clocks(recording, grouped, gpus, logged),
        **_of_timelines(lines),
        **partition(_used(recording, gpus)),
        **_replays(recording),
    }
    return {name: one for name, one in values.items() if not is_unknown_value(one)}


_GROUP_COLUMNS = (
    "time_ns", "launches", "category", "median_ns", "scatter_pct", "spread", "first_ratio",
    "first_excess_ns", "input_shapes", "compute_basis", "dram_basis", "l2_cache_bytes", *OVER_PEAK,
    *CACHED,
)  # fmt: skip


def _working_set_pct(k: Facts, time: Reals, steps: float) -> float:
    """All bytes that the launches of a step (of the run, without steps) move by their models,
    percent of L2: no less than the tensors that they share. Unknown where a fifth of the time has
    no model."""
    known = ~np.isnan(k.model_bytes) & (time > 0)
    cache = k.l2_cache_bytes[~np.isnan(k.l2_cache_bytes)]
    if not len(cache) or float(time[known].sum()) < _MOSTLY * float(time.sum()):
        return np.nan
    moved = float((k.launches * k.model_bytes)[known].sum()) / max(steps, 1.0)
    return moved / float(cache.min()) * 100


def _of_groups(grouped: Groups, steps: float) -> dict[str, float | str]:
    k = grouped.facts.only(tuple(dict.fromkeys(_GROUP_COLUMNS)))
    time = np.nan_to_num(k.time_ns)
    computes = k.category != "communication"
    own = np.where(computes, time, 0.0)
    total = float(own.sum())
    if not total:
        return {}

    def share(mask: Mask, known: Mask | None = None) -> float:
        if known is not None and not known.any():
            return np.nan
        return float(own[mask].sum()) / total * 100

    with np.errstate(divide="ignore", invalid="ignore"):
        scatters = computes & scattered(k)
        first = computes & (k.first_ratio > FIRST_RATIO)
        peaks = over_peak(k)
        hot = cached(k)
    timed = ~np.isnan(k.first_ratio)
    values: dict[str, float | str] = {
        "first_excess_pct": float(np.nansum(k.first_excess_ns[first])) / total * 100
        if timed.any()
        else np.nan,
        "repeated_pct": share(~np.isnan(k.scatter_pct)),
        "scattered_pct": share(scatters, ~np.isnan(k.scatter_pct)),
        "cached_pct": share(hot, ~np.isnan(k.model_dram_pct) | ~np.isnan(k.traffic_ratio)),
        "working_set_pct": _working_set_pct(k, own, steps),
        "working_set_of": "a step" if steps else "the run",
        "collapsed_pct": share(collapsed(k), ~np.isnan(k.spread)),
        "cut_names_pct": float(own[_cut(grouped.names)].sum()) / total * 100,
        **_bases(k, own, total),
    }
    if own[scatters].sum():
        values["typical_scatter_pct"] = float(
            np.average(k.scatter_pct[scatters], weights=own[scatters])
        )
    if not np.isnan(peaks).all():
        at = int(np.nanargmax(peaks))
        values["over_peak_pct"] = float(peaks[at])
        values["over_peak_time_pct"] = share(peaks > 100)
        values["over_peak_of"] = next(
            label for label, one in _uses(k).items() if one[at] == peaks[at]
        )
    return values


def _bases(k: Facts, time: Reals, total: float) -> dict[str, float | str]:
    """Whether the kernels' compute and DRAM use are measured against one thing."""
    found: dict[str, float | str] = {}
    for use, column in (("compute", k.compute_basis), ("DRAM", k.dram_basis)):
        by_basis: dict[str, float] = {}
        for basis, one in zip(column.tolist(), time.tolist(), strict=True):
            if isinstance(basis, str):
                by_basis[basis] = by_basis.get(basis, 0.0) + one
        ranked = sorted(by_basis.items(), key=lambda entry: (-entry[1], entry[0]))
        if not ranked:
            continue
        other = sum(one for _, one in ranked[1:]) / total * 100
        if other > float(found.get("other_basis_pct", -1.0)):
            found |= {"mixed_use": use, "other_basis_pct": other, "main_basis": ranked[0][0]}
            if len(ranked) > 1:
                found["other_basis"] = ranked[1][0]
    return found


# Operators whose brackets do not come in pairs, and shifts of template arguments.
_UNPAIRED_MARKS = ("->", "operator", "<<", "<=", ">=")
_UNPAIRED = regex.compile(r"->|operator\s*[<>=]+|<<|<=|>=")

_OPENED = regex.compile(r"\w[<(]")


def _cut(names: Iterable[str]) -> Mask:
    """Names of functions that end before their brackets do, or in dots."""
    return np.array([_is_cut(name) for name in names], dtype=bool)


def _is_cut(name: str) -> bool:
    if name.rstrip().endswith(("...", "\u2026")):
        return True
    text = _UNPAIRED.sub("", name) if any(one in name for one in _UNPAIRED_MARKS) else name
    unclosed = text.count("(") > text.count(")") or text.count("<") > text.count(">")
    return unclosed and _OPENED.search(text) is not None


def _of_timelines(lines: Sequence[Timeline]) -> dict[str, float | str]:
    span = float(sum(one.span_ns for one in lines))
    if not span:
        return {}

    def fact(name: str) -> float:
        return sum(one.facts.get(name, 0.0) for one in lines)

    # What goes on as before is no setting up: steady work asks for memory as well.
    set_up = sum(
        max(fact(f"{what}_time_ns") - 2 * fact(f"late_{what}_time_ns"), 0.0)
        for what in ("load", "allocate")
    )
    stepped = [one.facts["steps"] for one in lines if one.steps]
    values: dict[str, float | str] = {
        "window_ns": float(max(one.span_ns for one in lines)),
        "copies_alone_ns": float(sum(one.exposed_memcpy_ns for one in lines)),
        "warm_up_pct": sum(
            step.span_ns for one in lines for step in one.steps if step.warm_up
        ) / span * 100,
        "set_up_pct": set_up / span * 100,
        **_overlap(lines, span),
    }  # fmt: skip
    if stepped:
        values["steady_steps"] = min(stepped)
    return values


def _replays(recording: Recording) -> dict[str, float]:
    """How much of the GPU's work has no kernels because graphs were recorded as a whole."""
    replays = total_time_ns(recording.kernels, "graph")
    if not replays:
        return {}
    return {"whole_graphs_pct": replays / (replays + total_time_ns(recording.kernels)) * 100}


def _overlap(lines: Sequence[Timeline], span: float) -> dict[str, float]:
    """How far times that are added up exceed wall time."""
    summed, beside = (
        sum(one.facts.get(name, 0.0) for one in lines)
        for name in ("activity_time_ns", "stream_overlap_ns")
    )
    busy = float(sum(one.busy_ns for one in lines))
    if not summed:
        return {}
    return {
        "overlap_pct": (summed - busy) / span * 100,
        "busy_share_pct": busy / summed * 100,
        "stream_overlap_pct": beside / summed * 100,
    }


def _used(
    recording: Recording, gpus: Sequence[tuple[DeviceInfo, Device | None]]
) -> list[tuple[DeviceInfo, Device | None]]:
    """The GPUs on which something ran; files list those that stood by as well."""
    ran = set(recording.kernels["device"].unique().to_pylist())
    return [one for one in gpus if one[0].index is None or one[0].index in ran] or list(gpus)
