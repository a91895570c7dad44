"""What rules judge: the subjects of each scope, as tables of facts.

Kernel groups come from ``groups``, timelines from ``timeline``; here are the categories, the run,
and the one list of what a rule of each scope may read.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof import patterns, timeline
from traceroof.core.dictionary import factorized
from traceroof.core.facts import Facts
from traceroof.core.kernel_table import Column, sourced
from traceroof.hardware.devices import AMD
from traceroof.kernels import group_columns, group_figures
from traceroof.kernels.groups import Groups
from traceroof.kernels.variants import Variants, summed
from traceroof.patterns import Patterns
from traceroof.rule import Scope
from traceroof.scopes.host_sums import HOST_SUM_COLUMNS
from traceroof.scopes.quality_columns import QUALITY_COLUMNS
from traceroof.timeline import Timeline, ranks
from traceroof.timeline.rank_spread import excess_of_ranks
from traceroof.timeline.ranks import Ranks

#: Columns of the facts of scope ``category``: one subject a category.
CATEGORY_COLUMNS: tuple[Column, ...] = sourced(
    (
        Column(name, pa.float64() if unit else pa.string(), unit, meaning, "category", basis)
        for name, unit, meaning, basis in (
            ("category", "", "operator category", ""),
            ("launches", "launch", "launches (copies and fills included)", ""),
            ("time_ns", "ns", "GPU time", ""),
            ("share_pct", "%", "share of all GPU time", "GPU time"),
            ("median_ns", "ns", "median time of a launch", ""),
        )
    ),
    name="category",
    launch="launches",
    clock="time_ns share_pct median_ns",
)

#: Below it AMD's occupancy is low whatever ran: the cycles of launch and cache flush count as
#: elapsed (rocprofiler-compute documentation).
BRIEF_NS = 1e6

#: Columns of the facts of scope ``run``: one subject, the run.
RUN_COLUMNS: tuple[Column, ...] = sourced(
    (
        Column(name, pa.float64(), unit, meaning, "run", basis)
        for name, unit, meaning, basis in (
            ("launches", "launch", "kernel launches", ""),
            (
                "program_launches",
                "launch",
                "of these, without the copies and fills of the runtime",
                "",
            ),
            ("kernel_time_ns", "ns", "time of all kernels", ""),
            ("time_ns", "ns", "time that savings are measured against", ""),
            ("busiest_pct", "%", "time-weighted larger of compute and memory use", "kernel time"),
            ("judged_pct", "%", "kernel time with a class", "kernel time"),
            ("measured_pct", "%", "kernel time with known compute or memory use", "kernel time"),
            ("other_pct", "%", "kernel time without a category", "kernel time"),
            (
                "brief_pct",
                "%",
                "time of AMD kernels under 1 ms with counted occupancy",
                "kernel time",
            ),
            ("gpu_busy_pct", "%", "time in which any kernel or copy ran", "span of the run"),
        )
    ),
    launch="launches program_launches",
    clock="kernel_time_ns time_ns brief_pct gpu_busy_pct",
)


#: Columns of the facts of scope ``timeline``: what the timeline itself says, the one that savings
#: are measured against, what only the other ranks tell, and the worst gap that the host caused.
TIMELINE_COLUMNS: tuple[Column, ...] = (
    *timeline.TIMELINE_COLUMNS,
    Column("time_ns", pa.float64(), "ns", "span: what savings are measured against", "time", source="clock"),
    Column("waiting_ns", pa.float64(), "ns", "time in collectives before the last rank came",
           "communication", source="clock"),
    Column("slow_link_ns", pa.float64(), "ns",
           "what the collectives of its slow groups take beyond those of groups like them",
           "communication", source="clock"),
    Column("late_gap_ns", pa.float64(), "ns", "longest gap that ended with a late launch", "idle", source="clock"),
    Column("sync_operator", pa.string(), "", "operator whose copies the host waits for", "idle", source="clock"),
    Column("late_gap_host", pa.string(), "", "what the host did in it", "idle", source="clock"),
)  # fmt: skip


_TEXT, _REAL = pa.string(), pa.float64()

#: Columns of the facts of scope ``compare``: one subject for the whole, one per category, one per
#: paired kernel. Times and launches are those of one step, or of one run where no steps are known;
#: ``_base`` and ``_head`` are the two sides. What one launch needs is known where a kernel is one
#: group on either side.
COMPARE_COLUMNS: tuple[Column, ...] = sourced(
    (Column(name, kind, unit, meaning, "compare", basis)
    for name, kind, unit, meaning, basis in (
        ("level", _TEXT, "", "what is compared: total, category or kernel", ""),
        ("verdict", _TEXT, "", "regressed, improved, unchanged, inconclusive, new, gone, not-compared", ""),
        ("sampled", _TEXT, "", "what the samples are: runs, steps, none", ""),
        ("samples_base", _REAL, "", "samples of the base", ""),
        ("samples_head", _REAL, "", "samples of the head", ""),
        ("differences", _TEXT, "", "what differs besides the code and keeps times from comparing", ""),
        ("matched_by", _TEXT, "", "what paired it: launch, name, inputs, family, operator, order", ""),
        ("kernel_base", _TEXT, "", "the kernel of the base", ""),
        ("category", _TEXT, "", "operator category", ""),
        ("time_ns", _REAL, "ns", "time of the slower side: what savings are measured against", ""),
        ("base_ns", _REAL, "ns", "median time of the base", ""),
        ("head_ns", _REAL, "ns", "median time of the head", ""),
        ("delta_ns", _REAL, "ns", "head less base", ""),
        ("delta_pct", _REAL, "%", "change", "base"),
        ("total_pct", _REAL, "%", "change against the time of everything", "total of the base"),
        ("share_pct", _REAL, "%", "time of the slower side against everything", "total of the base"),
        ("p_value", _REAL, "", "of the Mann-Whitney test", ""),
        ("noise_pct", _REAL, "%", "spread of a single sample", "median"),
        ("detectable_pct", _REAL, "%", "least change that so many samples show in 95 of 100 cases", "base"),
        ("speed_ns", _REAL, "ns", "part of the change that comes from the time of a launch", ""),
        ("mix_ns", _REAL, "ns", "part of the change that comes from how many launches of what", ""),
        ("launches_base", _REAL, "launch", "launches of the base", ""),
        ("launches_head", _REAL, "launch", "launches of the head", ""),
        ("category_launches_pct", _REAL, "%", "change of the launches of the whole category", "base"),
        ("call_base_ns", _REAL, "ns", "time over launches, base", ""),
        ("call_head_ns", _REAL, "ns", "time over launches, head", ""),
        ("class_base", _TEXT, "", "the wall that the base hit", ""),
        ("class_head", _TEXT, "", "the wall that the head hit", ""),
        ("dram_bytes_base", _REAL, "byte", "DRAM bytes of a launch, base", ""),
        ("dram_bytes_head", _REAL, "byte", "DRAM bytes of a launch, head", ""),
        ("dram_peak_bytes_per_s", _REAL, "byte/s", "DRAM peak of the head", ""),
        ("flops_base", _REAL, "FLOP", "operations of a launch, counted, else by its shapes; base", ""),
        ("flops_head", _REAL, "FLOP", "operations of a launch, counted, else by its shapes; head", ""),
        ("flop_peak_per_s", _REAL, "FLOP/s", "peak of the operations of the head", ""),
        ("registers_per_thread_base", _REAL, "register/thread", "registers of a thread, base", ""),
        ("registers_per_thread_head", _REAL, "register/thread", "registers of a thread, head", ""),
        ("local_requests_base", _REAL, "request", "local-memory requests of a launch, base", ""),
        ("local_requests_head", _REAL, "request", "local-memory requests of a launch, head", ""),
        ("resident_blocks_base", _REAL, "block/SM", "blocks that fit on a multiprocessor, base", ""),
        ("resident_blocks_head", _REAL, "block/SM", "blocks that fit on a multiprocessor, head", ""),
        ("operand_dtype_base", _TEXT, "", "narrowest operand type, base", ""),
        ("operand_dtype_head", _TEXT, "", "narrowest operand type, head", ""),
        ("pipe_tensor_use_pct_base", _REAL, "%", "tensor-core use, base", "peak of the tensor cores"),
        ("pipe_tensor_use_pct_head", _REAL, "%", "tensor-core use, head", "peak of the tensor cores"),
        ("sm_clock_hz_base", _REAL, "Hz", "clock of the multiprocessors, base", ""),
        ("sm_clock_hz_head", _REAL, "Hz", "clock of the multiprocessors, head", ""),
        ("idle_base_ns", _REAL, "ns", "time in which the GPU ran nothing, base", ""),
        ("idle_head_ns", _REAL, "ns", "time in which the GPU ran nothing, head", ""),
        ("exposed_communication_base_ns", _REAL, "ns", "communication while nothing computes, base", ""),
        ("exposed_communication_head_ns", _REAL, "ns", "communication while nothing computes, head", ""),
        ("kernels_changed", _REAL, "", "kernels that regressed or improved", ""),
    )),
    name="category", clock="time_ns share_pct", device="dram_peak_bytes_per_s flop_peak_per_s",
)  # fmt: skip


@dataclass(frozen=True)
class Subjects:
    """The subjects of one scope: their facts and what they are called."""

    facts: Facts
    names: Sequence[str]


@cache
def vocabulary(scope: Scope) -> Mapping[str, Column]:
    """Every column that a rule of this scope may read."""
    return {entry.name: entry for entry in _COLUMNS[scope]}


_COLUMNS: Mapping[Scope, Sequence[Column]] = {
    "kernel": tuple(group_columns.VOCABULARY.values()),
    "category": (*CATEGORY_COLUMNS, *patterns.CATEGORY_COLUMNS),
    "timeline": TIMELINE_COLUMNS,
    "run": (
        *RUN_COLUMNS,
        *ranks.RANK_COLUMNS,
        *patterns.RUN_COLUMNS,
        *QUALITY_COLUMNS,
        *HOST_SUM_COLUMNS,
    ),
    "compare": COMPARE_COLUMNS,
}


def of_categories(
    variants: Variants, categories: Sequence[str], parts: Patterns | None = None
) -> Subjects:
    """One subject per category, most time first; copies and fills are categories too.

    categories: of each variant. parts: what their time is made of.
    """
    codes, known = factorized(np.asarray(categories, dtype=object))

    def added(values: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        return summed(codes, values, len(known)).astype(np.float64)

    time = added(variants.sums.time_ns)
    times = variants.durations.by(codes, len(known))
    medians = group_figures.medians(times.thing, times.ns, times.launches, len(known))
    order = sorted(range(len(known)), key=lambda at: (-time[at], known[at]))
    time, total = time[order], float(time.sum())
    names = [str(name) for name in known[order]]
    columns: dict[str, npt.NDArray[np.float64] | npt.NDArray[np.object_]] = {
        "category": np.array(names, dtype=object),
        "launches": added(variants.sums.launches)[order],
        "time_ns": time,
        "share_pct": time / total * 100 if total else np.full(len(names), np.nan),
        "median_ns": medians[order],
    }
    of_category = parts.by_category if parts else {}
    for entry in patterns.CATEGORY_COLUMNS if of_category else ():
        values = [of_category.get(name, {}).get(entry.name) for name in names]
        if entry.type == pa.string():
            columns[entry.name] = np.array(values, dtype=object)
        else:
            columns[entry.name] = np.array(values, dtype=np.float64)  # None becomes NaN
    return Subjects(Facts(columns, len(names)), names)


def of_timelines(found: Sequence[Timeline], across: Ranks | None = None) -> Subjects:
    """One subject per timeline, called by rank, process and device where they differ.

    across: the ranks beside each other, which tells a rank's waiting from its communication.
    """
    facts = timeline.facts_of(found)
    columns = {name: getattr(facts, name) for name in facts.names()}
    columns["time_ns"] = columns["span_ns"]
    # Of a rank with several timelines, the one that was compared.
    compared = across.ranks if across else ()
    waiting = {(one.rank, one.compute_ns): one.waiting_ns for one in compared}
    columns["waiting_ns"] = _reals(
        None if one.rank is None else waiting.get((one.rank, one.compute_ns)) for one in found
    )
    beyond = excess_of_ranks(across.slow_groups) if across else {}
    seen = {(one.rank, one.compute_ns) for one in compared}
    columns["slow_link_ns"] = _reals(
        beyond.get(one.rank)
        if one.rank is not None and (one.rank, one.compute_ns) in seen
        else None
        for one in found
    )
    skew = {(one.rank, one.compute_ns): one.skew_ns for one in compared}
    columns["start_skew_ns"] = np.fmax(
        columns["start_skew_ns"],
        _reals(None if one.rank is None else skew.get((one.rank, one.compute_ns)) for one in found),
    )
    # The gaps of a timeline are its longest, longest first.
    late = [next((gap for gap in one.gaps if gap.cause == "host"), None) for one in found]
    columns["late_gap_ns"] = _reals(gap.duration_ns if gap else None for gap in late)
    columns["sync_operator"] = np.array([one.sync_operator for one in found], dtype=object)
    columns["late_gap_host"] = np.array(
        [gap.host or "code that was not recorded" if gap else None for gap in late], dtype=object
    )
    return Subjects(Facts(columns, len(found)), timeline_names(found))


def _reals(values: Iterable[float | None]) -> npt.NDArray[np.float64]:
    return np.array([np.nan if one is None else one for one in values], dtype=np.float64)


def timeline_names(found: Sequence[Timeline]) -> list[str]:
    """'rank 3' or 'process 12, GPU 0': the fewest words that tell the timelines of a run apart."""
    if len(found) == 1:
        device = found[0].device
        return ["GPU" if device is None else f"GPU {device}"]
    for names in _TELLING:
        if len({tuple(getattr(one, name) for name in names) for one in found}) == len(found):
            break
    return [", ".join(f"{_LABELS[name]} {getattr(one, name)}" for name in names) for one in found]


_LABELS = {"rank": "rank", "process": "process", "device": "GPU", "start_ns": "from"}
_TELLING = (
    ("rank",), ("device",), ("process",), ("rank", "device"), ("process", "device"),
    ("rank", "process", "device"), ("rank", "process", "device", "start_ns"),
)  # fmt: skip


def of_run(
    grouped: Groups,
    *,
    launches: int,
    kernel_time_ns: int,
    span_ns: int | None,
    busy_ns: int | None,
    across: Ranks | None,
    parts: Patterns | None = None,
    measured: Mapping[str, float | str] | None = None,
) -> Subjects:
    """The run as one subject; what its ranks show together is part of it, what its time is made
    of (``parts``), how well it was measured and what the host spent (``measured``:
    ``measurement_quality.facts_of``, ``host_sums.facts_of``)."""
    facts = grouped.facts.only(
        ("time_ns", "busiest_pct", "primary_class", "category", "compute_pct", "memory_pct",
         "dram_pct", "vendor", "median_ns", "achieved_occupancy_pct", "launches")
    )  # fmt: skip
    moved = np.nan_to_num(facts.launches)[facts.primary_class == "copy"].sum()
    time = np.nan_to_num(facts.time_ns)
    total = float(time.sum())

    def share(mask: npt.NDArray[np.bool_]) -> float:
        return float(time[mask].sum() / total * 100) if total else float("nan")

    known = ~np.isnan(facts.busiest_pct)
    weight = float(time[known].sum())
    busiest = float((time * np.nan_to_num(facts.busiest_pct)).sum() / weight) if weight else np.nan
    on_amd = np.array([vendor in AMD for vendor in facts.vendor], dtype=bool)
    counted = on_amd & ~np.isnan(facts.achieved_occupancy_pct)
    values = {
        "launches": float(launches),
        "program_launches": float(launches - moved),
        "kernel_time_ns": float(kernel_time_ns),
        "time_ns": float(span_ns or kernel_time_ns),
        "busiest_pct": busiest,
        "judged_pct": share(facts.primary_class != "not-evaluable"),
        "measured_pct": share(known),
        "other_pct": share(facts.category == "other"),
        "brief_pct": share(counted & (facts.median_ns < BRIEF_NS)) if counted.any() else np.nan,
        "gpu_busy_pct": busy_ns / span_ns * 100 if span_ns and busy_ns is not None else np.nan,
    }
    columns = {name: np.array([value]) for name, value in values.items()}
    of_ranks = ranks.facts_of(across)
    columns |= {name: getattr(of_ranks, name) for name in of_ranks.names()}
    known_of_run = {**(parts.of_run if parts else {}), **(measured or {})}
    for entry in (*patterns.RUN_COLUMNS, *QUALITY_COLUMNS, *HOST_SUM_COLUMNS):
        if entry.name in known_of_run:
            kind = object if entry.type == pa.string() else np.float64
            columns[entry.name] = np.array([known_of_run[entry.name]], dtype=kind)
    return Subjects(Facts(columns, 1), ["run"])
