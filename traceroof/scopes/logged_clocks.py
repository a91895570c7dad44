"""What clock and power logs beside a run say: percentiles per GPU, and what held the clocks down.

A log also covers what was before and after the run, when the GPU had nothing to do and its clock
was low. Where log and run are on one clock (``ingest.log_times``), only the samples within the run
count. Clocks are judged over the samples under load; without a way to tell load, percentiles are
over all samples and nothing is judged.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceroof.core.clock_log import IDLE, LIMITS, utc_window
from traceroof.core.dictionary import coded
from traceroof.core.kernel_table import as_reals

#: A GPU is under load from this utilisation on: its tools count the time with any kernel.
LOAD_PCT = 50.0
#: Fewer samples under load say nothing of clocks, and fewer nothing of how far they fall.
LEAST_SAMPLES = 3
LEAST_TO_FALL = 20

#: A sample tells of what ran up to so many intervals away from it, and no further than this.
_REACH = 1.5
_MOST_REACH_NS = 5e9
#: So many points show how the clock went.
COURSE_POINTS = 240

Mask = npt.NDArray[np.bool_]
Reals = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Course:
    """How clock and power went, COURSE_POINTS or fewer: medians of neighbouring samples.

    time_ns: since the run began where the log is aligned, else since the first sample; None where
    the log has no times. limited: whether a limit held the clock in any of a point's samples.
    """

    time_ns: tuple[float, ...] | None
    sm_clock_hz: tuple[float | None, ...]
    power_w: tuple[float | None, ...]
    limited: tuple[bool | None, ...]


@dataclass(frozen=True)
class Spread:
    """Values at 5, 50 and 95 % of the samples."""

    p5: float
    p50: float
    p95: float


@dataclass(frozen=True)
class GpuClocks:
    """One GPU of a log. basis: the samples that everything is over, "load" or "all".

    loaded: samples under load, None where the log does not tell. throttled: share of the samples
    (0-1) in which a limit of power or temperature held the clock; None where the log has no reasons.
    reasons: share of each reason. course: how they went, of every sample of the log.
    """

    gpu: int | None
    samples: int
    loaded: int | None
    basis: str
    sm_clock_hz: Spread | None
    memory_clock_hz: Spread | None
    power_w: Spread | None
    temperature_c: Spread | None
    throttled: float | None
    reasons: dict[str, float]
    course: Course

    @property
    def main_reason(self) -> str | None:
        """The limit that held the clock most often."""
        found = [(share, name) for name, share in self.reasons.items() if name in LIMITS]
        return max(found)[1] if found else None

    @property
    def judged(self) -> bool:
        """Whether there are enough samples under load to judge its clock."""
        return self.basis == "load" and (self.loaded or 0) >= LEAST_SAMPLES


@dataclass(frozen=True)
class LoggedClocks:
    """All GPUs of the logs beside a run. tools: what wrote the logs. unaligned: why all samples
    count and not those within the run alone; empty where log and run are on one clock."""

    gpus: tuple[GpuClocks, ...]
    tools: tuple[str, ...]
    unaligned: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The JSON contract of ``clocks``."""
        return {
            "tools": list(self.tools),
            "aligned": not self.unaligned,
            "unaligned": self.unaligned or None,
            "gpus": [asdict(x) for x in self.gpus],
        }


def logged_clocks(log: pa.Table, tools: Sequence[str], kernels: pa.Table) -> LoggedClocks | None:
    """The log by GPU; None without a log. log: a table of CLOCK_LOG. kernels: those of the run."""
    if not log.num_rows:
        return None
    unaligned = _unaligned(log, kernels)
    found = [
        _of_gpu(gpu, part, None if unaligned else utc_window(kernels)) for gpu, part in _by_gpu(log)
    ]
    return LoggedClocks(tuple(found), tuple(dict.fromkeys(tools)), unaligned)


def _by_gpu(log: pa.Table) -> Iterator[tuple[int | None, pa.Table]]:
    ordinals = as_reals(log["gpu"])
    for ordinal in np.unique(ordinals).tolist():
        here = np.isnan(ordinals) if np.isnan(ordinal) else ordinals == ordinal
        yield None if np.isnan(ordinal) else int(ordinal), log.filter(pa.array(here))


def _unaligned(log: pa.Table, kernels: pa.Table) -> str:
    """Why a log cannot be aligned with a run; empty where it can."""
    if utc_window(kernels) is None:
        return "the profile has no date"
    if log["time_ns"].null_count < log.num_rows:
        return ""
    if log["local_time_ns"].null_count < log.num_rows:
        return "its time zone is unknown: give it with --clock-offset"
    return "the log has no times"


def of_run(logged: LoggedClocks | None, kernels: pa.Table) -> tuple[GpuClocks, ...]:
    """The GPUs of a log that the run ran on, as far as their clocks can be judged.

    A log counts all GPUs of a machine, a program those that it sees: of one GPU alone under load it
    is taken that the run loaded it.
    """
    if logged is None:
        return ()
    judged = tuple(one for one in logged.gpus if one.judged)
    ran = set(pc.unique(kernels["device"]).drop_null().to_pylist())
    same = tuple(one for one in judged if one.gpu in ran)
    return same or (judged if len(judged) == 1 and len(ran) <= 1 else ())


def by_group(
    log: pa.Table,
    logged: LoggedClocks | None,
    kernels: pa.Table,
    of_row: npt.NDArray[np.int64],
    count: int,
) -> Reals:
    """The core clock that the log saw while each of ``count`` kernel groups ran, Hz, by time.

    Where no sample under load is near, and where log and run are not on one clock, it is the median
    under load of the GPU, if the log tells of one; else NaN.
    """
    judged = of_run(logged, kernels)
    medians = {one.sm_clock_hz.p50 for one in judged if one.sm_clock_hz}
    found = np.full(count, medians.pop() if len(medians) == 1 else np.nan)
    if logged is None or logged.unaligned:
        return found
    ran = {one.gpu for one in judged}
    start, spent, device = (
        as_reals(kernels[name]) for name in ("start_ns", "duration_ns", "device")
    )
    clock = np.full(kernels.num_rows, np.nan)
    for gpu, part in _by_gpu(log):
        if gpu in ran:
            here = (device == gpu) if len(ran) > 1 else np.ones(len(device), dtype=bool)
            clock[here] = _near(part, (start + spent / 2)[here])
    known = (of_row >= 0) & ~np.isnan(clock) & ~np.isnan(spent)
    groups, weight = of_row[known], np.maximum(spent[known], 1.0)
    time = np.bincount(groups, weights=weight, minlength=count)
    some = time > 0
    found[some] = np.bincount(groups, weights=weight * clock[known], minlength=count)[some]
    found[some] /= time[some]
    return found


def _near(log: pa.Table, when: Reals) -> Reals:
    """The clock of the sample under load that is nearest to each time; NaN where none is near."""
    times, clock = as_reals(log["time_ns"]), as_reals(log["sm_clock_hz"])
    loaded = _loaded(log, _reasons(log))
    good = ~np.isnan(times) & ~np.isnan(clock) & (True if loaded is None else loaded)
    reach = _reach(times[~np.isnan(times)])
    order = np.argsort(times[good], kind="stable")
    times, clock = times[good][order], clock[good][order]
    if not len(times):
        return np.full(len(when), np.nan)
    after = np.clip(np.searchsorted(times, when), 0, len(times) - 1)
    before = np.maximum(after - 1, 0)
    nearest = np.where(np.abs(times[before] - when) <= np.abs(times[after] - when), before, after)
    return np.where(np.abs(times[nearest] - when) <= reach, clock[nearest], np.nan)


def _reach(times: Reals) -> float:
    """How far from a sample it still tells the clock, ns: by the usual interval of the log."""
    apart = np.diff(np.unique(times))
    return min(_REACH * float(np.median(apart)), _MOST_REACH_NS) if len(apart) else _MOST_REACH_NS


def _within(log: pa.Table, window: tuple[int, int]) -> Mask:
    """The samples within a run; about it, where a run is shorter than the log's interval."""
    times = as_reals(log["time_ns"])
    within = (times >= window[0]) & (times <= window[1])
    if within.any():
        return np.asarray(within)
    reach = _reach(times[~np.isnan(times)])
    return np.asarray((times >= window[0] - reach) & (times <= window[1] + reach))


def _of_gpu(gpu: int | None, log: pa.Table, window: tuple[int, int] | None) -> GpuClocks:
    """One GPU's log. window: the time of the run on the log's clock; None counts all of it."""
    course = _course(log, window)
    if window is not None:
        log = log.filter(pa.array(_within(log, window)))
    reasons = _reasons(log)
    loaded = _loaded(log, reasons)
    some = loaded is not None and bool(loaded.any())
    over = loaded if loaded is not None and some else np.ones(log.num_rows, dtype=bool)
    told = [
        one
        for one, counts in zip(reasons, over.tolist(), strict=True)
        if counts and one is not None
    ]
    names = dict.fromkeys(name for one in told for name in one)
    return GpuClocks(
        gpu=gpu,
        samples=log.num_rows,
        loaded=None if loaded is None else int(loaded.sum()),
        basis="load" if some else "all",
        **{
            name: _spread(as_reals(log[name])[over])
            for name in ("sm_clock_hz", "memory_clock_hz", "power_w", "temperature_c")
        },
        throttled=sum(not LIMITS.isdisjoint(one) for one in told) / len(told) if told else None,
        reasons={name: sum(name in one for one in told) / len(told) for name in names},
        course=course,
    )


def _course(log: pa.Table, window: tuple[int, int] | None) -> Course:
    times = as_reals(log["time_ns"])
    if np.isnan(times).all():
        times = as_reals(log["local_time_ns"])
    timed = not np.isnan(times).any()
    order = np.argsort(times, kind="stable") if timed else np.arange(log.num_rows)
    limited = np.array(
        [np.nan if one is None else not LIMITS.isdisjoint(one) for one in _reasons(log)]
    )
    # Neighbours in equal parts, so that a log of hours draws as fast as one of seconds.
    parts = np.array_split(order, min(len(order), COURSE_POINTS))
    start = window[0] if window is not None else times[order[0]]

    def points(values: Reals) -> tuple[float | None, ...]:
        return tuple(_median(values[part]) for part in parts)

    return Course(
        time_ns=tuple(float(times[part].mean() - start) for part in parts) if timed else None,
        sm_clock_hz=points(as_reals(log["sm_clock_hz"])),
        power_w=points(as_reals(log["power_w"])),
        limited=tuple(
            None if np.isnan(limited[part]).all() else bool(np.nanmax(limited[part]))
            for part in parts
        ),
    )


def _median(values: Reals) -> float | None:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else None


def _reasons(log: pa.Table) -> list[frozenset[str] | None]:
    """The reasons of each sample, None where it does not tell."""
    texts = coded(log["throttle_reasons"])
    sets = [frozenset(filter(None, text.split(", "))) for text in texts.texts]
    return [sets[code] if code >= 0 else None for code in texts.codes.tolist()]


def _loaded(log: pa.Table, reasons: Sequence[frozenset[str] | None]) -> Mask | None:
    """The samples under load; None where the log does not tell."""
    use = as_reals(log["utilisation_pct"])
    if not np.isnan(use).all():
        return np.asarray(use >= LOAD_PCT)
    if any(one is not None and IDLE in one for one in reasons):
        return np.array([one is not None and IDLE not in one for one in reasons], dtype=bool)
    return None


def _spread(values: npt.NDArray[np.float64]) -> Spread | None:
    known = values[~np.isnan(values)]
    if not len(known):
        return None
    return Spread(*np.percentile(known, (5, 50, 95), method="nearest").tolist())
