"""When the samples of a clock log were taken, on the clock of the run that it stands beside."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core import regex
from traceroof.core.clock_log import utc_window
from traceroof.core.kernel_table import as_reals
from traceroof.core.recording import Recording
from traceroof.errors import TraceroofError

Whole = npt.NDArray[np.int64]

#: Finds the offset by the load that the log shows.
AUTO = "auto"

_SECOND = 10**9
_HOUR = 3600 * _SECOND
_DAY = 24 * _HOUR
# The zones of the world: UTC-12 to UTC+14.
_ZONES = range(-12, 15)
# A log that ends this long before a run may have been stopped with it.
_SLACK_NS = 2 * _SECOND
# The load of one offset lies so many points (of utilisation, or of the range of power) over others'.
_CLEARLY = 10.0

_HOURS = regex.compile(r"^([+-]?)(\d{1,2})(?::?(\d\d))?$")
_SECONDS = regex.compile(r"^([+-]?\d+(?:\.\d+)?)s$", re.IGNORECASE)
_HINT = "give the log that was recorded beside this run"


def offset_ns(text: str) -> int:
    """What a log's clock is ahead of UTC, ns: hours as +2, -05:30, or seconds as -12.5s.

    Raises TraceroofError for anything else.
    """
    if match := _HOURS.match(text.strip()):
        sign = -1 if match[1] == "-" else 1
        hours, minutes = int(match[2]), int(match[3] or 0)
        if hours <= 24 and minutes < 60:
            return sign * (hours * 60 + minutes) * 60 * _SECOND
    if match := _SECONDS.match(text.strip()):
        return round(float(match[1]) * _SECOND)
    raise TraceroofError(
        f"--clock-offset {text} is not an offset",
        "say what the log's clock is ahead of UTC: +02:00, -5, -12.5s, or auto",
    )


def timed(log: Recording, run: Recording, offset: str | None = None) -> Recording:
    """The log with its times since the epoch, as far as they can be told.

    offset: what its clock is ahead of UTC (``offset_ns``), or AUTO. Raises TraceroofError for a log
    of another day, and for an offset that cannot be found.
    """
    window = utc_window(run.kernels)
    path = log.sources[0].path
    table = log.clock_logs
    if window is None:
        if offset:
            raise TraceroofError(
                f"--clock-offset: the times of {run.sources[0].path} have no date, so no log can "
                f"be aligned with them",
                "leave it out: the log then counts as a whole",
            )
        return log
    known = table["time_ns"]
    if known.null_count < len(known):
        if not _near(as_reals(known), window):
            raise _elsewhen(path, as_reals(known), run, window, "UTC")
        return log
    local = table["local_time_ns"]
    if local.null_count == len(local):
        return log
    wall = _with_day(local.fill_null(0).to_numpy().astype(np.int64), window, offset)
    if wall is None:
        return log
    if offset is None:
        reach = (window[0] + _ZONES[0] * _HOUR, window[1] + _ZONES[-1] * _HOUR)
        if not _near(wall, reach):
            raise _elsewhen(path, wall, run, window, "its own time")
        return log
    ahead = _found(wall, log, window) if offset == AUTO else offset_ns(offset)
    times = wall - ahead
    if not _near(times, window):
        raise _elsewhen(path, times, run, window, f"UTC by --clock-offset {offset}")
    stamped = pa.array(times, mask=np.asarray(local.is_null().to_numpy(), dtype=bool))
    at = table.column_names.index("time_ns")
    return replace(log, clock_logs=table.set_column(at, "time_ns", stamped))


def _near(times: npt.NDArray[np.float64] | Whole, window: tuple[int, int]) -> bool:
    """Whether a log has samples in a window, or about it."""
    return bool(
        np.nanmin(times) <= window[1] + _SLACK_NS and np.nanmax(times) >= window[0] - _SLACK_NS
    )


def _elsewhen(
    path: str,
    times: npt.NDArray[np.float64] | Whole,
    run: Recording,
    window: tuple[int, int],
    of: str,
) -> TraceroofError:
    first, last = (_said(float(one)) for one in (np.nanmin(times), np.nanmax(times)))
    begins, ends = (_said(float(one)) for one in window)
    return TraceroofError(
        f"{path} logs {first} to {last} ({of}), and {run.sources[0].path} ran {begins} to {ends} "
        "UTC: it is a log of another time",
        _HINT,
    )


def _said(time_ns: float) -> str:
    return datetime.fromtimestamp(time_ns / _SECOND, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _with_day(local: Whole, window: tuple[int, int], offset: str | None) -> Whole | None:
    """Times of day on the day that brings them nearest to the run; None where nobody said the zone."""
    if local.max() >= _DAY:
        return local
    if offset is None or offset == AUTO:
        return None
    # Past midnight the time of day begins again.
    days = np.cumsum(np.diff(local, prepend=local[0]) < -_DAY // 2)
    wall = local + days * _DAY
    middle = (window[0] + window[1]) // 2 + offset_ns(offset)
    day = round((middle - int((wall.min() + wall.max()) // 2)) / _DAY)
    return np.asarray(wall + day * _DAY)


def _found(wall: Whole, log: Recording, window: tuple[int, int]) -> int:
    """The whole hours by which the log's load falls into the run."""
    scores = sorted(_scores(wall, log.clock_logs, window), reverse=True)
    path = log.sources[0].path
    if not scores:
        raise TraceroofError(
            f"--clock-offset auto: at no whole hour does {path} cover the run", _HINT
        )
    if scores[1:] and scores[0][0] - scores[1][0] < _CLEARLY:
        likely = " and ".join(f"{hours:+d}" for _, hours in scores[:2])
        raise TraceroofError(
            f"--clock-offset auto: the load of {path} fits the run at {likely} hours alike",
            "name the offset of the log's clock from UTC",
        )
    return scores[0][1] * _HOUR


def _scores(wall: Whole, table: pa.Table, window: tuple[int, int]) -> Iterator[tuple[float, int]]:
    """For each whole hour at which the log covers the run: how much more load lies in it."""
    load = as_reals(table["utilisation_pct"])
    if np.isnan(load).all():
        power = as_reals(table["power_w"])
        if np.isnan(power).all():
            load = np.zeros(len(wall))
        else:
            low, high = np.nanmin(power), np.nanmax(power)
            load = (power - low) / max(high - low, 1.0) * 100
    for hours in _ZONES:
        times = wall - hours * _HOUR
        within = (times >= window[0] - _SLACK_NS) & (times <= window[1] + _SLACK_NS)
        if within.any():
            yield _mean(load[within]) - _mean(load[~within]), hours


def _mean(load: npt.NDArray[np.float64]) -> float:
    known = load[~np.isnan(load)]
    return float(known.mean()) if len(known) else 0.0
