"""From the rows of a clock log to a recording without kernels: columns by name, never by place."""

import calendar
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from traceroof.core import kernel_table, regex
from traceroof.core.clock_log import CLOCK_LOG, NVIDIA_REASONS
from traceroof.core.recording import Note, Recording, Source, empty
from traceroof.errors import TraceroofError
from traceroof.parsers.clock_logs.layouts import Rows

# What each tool calls a column, best first. Names are lower case, without unit and colon.
_NAMES: Mapping[str, Sequence[str]] = {
    "time": ("timestamp",),
    "date": ("date",),
    "clock": ("time",),
    "gpu": ("index", "gpu", "device", "entity", "hcu"),
    "uuid": ("uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "gpu_name_index"),
    "gpu_name": ("name", "gpu_name", "card series"),
    "sm_clock_hz": (
        r"clocks\.current\.sm", r"clocks\.sm", r"clocks\.current\.graphics", r"clocks\.gr", "pclk",
        "smclk", "sclk", r"gfx_\d+_clk", "gfx_clock", "gfx_clk", "sclk clock speed",
        "sclk clock level",
    ),
    "memory_clock_hz": (
        r"clocks\.current\.memory", r"clocks\.mem", "mclk", "mmclk", r"mem_\d+_clk", "mem_clock",
        "mem_clk", "mclk clock speed", "mclk clock level",
    ),
    "power_w": (
        r"power\.draw", r"power\.draw\.average", r"power\.draw\.instant", "pwr", "power",
        "socket_power", "power_usage", "current socket graphics package power",
        "average graphics package power", "avgpwr",
    ),
    "temperature_c": (
        r"temperature\.gpu", "gtemp", "tmptr", "gputmp", "temp", r"temp\(\w+\)", "gpu_t",
        "hotspot_temperature", "hotspot", "temperature [(]sensor junction[)]", "edge",
        "temperature [(]sensor edge[)]",
    ),
    "utilisation_pct": (
        r"utilization\.gpu", "sm", "gputl", "gpu use", "gfx_activity", "gfx", "gfx%", "gpu%",
        "hcu%", "gract", "smact",
    ),
    "mask": (r"clocks_(?:throttle|event)_reasons\.active", "dvcctr", "clevt"),
    "power": ("pviol",),
    "temperature": ("tviol",),
}  # fmt: skip
_NUMBERS = ("sm_clock_hz", "memory_clock_hz", "power_w", "temperature_c", "utilisation_pct")
_REASON = regex.compile(r"^clocks_(?:throttle|event)_reasons\.(?!active$|supported$)(\w+)$")
_FRACTIONS = ("gract", "smact")

_HEAD_UNIT = regex.compile(r"\s*(?:\[(\w+|%)\]|\((W|C|%|Mhz|MHz|B)\))\s*$")
_NUMBER = regex.compile(r"^\(?\s*([-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)\s*(°?[A-Za-z%]*)\)?$")
_SCALES = {"w": 1.0, "mw": 1e-3, "c": 1.0, "°c": 1.0, "%": 1.0,
           "hz": 1.0, "khz": 1e3, "mhz": 1e6, "ghz": 1e9}  # fmt: skip
_HERTZ = ("sm_clock_hz", "memory_clock_hz")

Cells = Sequence[str]


class _Columns:
    """Where the columns of one header stand."""

    def __init__(self, header: Sequence[str]) -> None:
        units = [_HEAD_UNIT.search(one) for one in header]
        self.units = ["".join(filter(None, one.groups())) if one else "" for one in units]
        self.names = [_HEAD_UNIT.sub("", one).strip(" :").lower() for one in header]
        self.places = {
            field: [found for name in names if (found := self._matching(name))]
            for field, names in _NAMES.items()
        }
        self.reasons = [
            (at, match[1]) for at, name in enumerate(self.names) if (match := _REASON.match(name))
        ]

    def _matching(self, pattern: str) -> list[int]:
        return [at for at, name in enumerate(self.names) if re.fullmatch(pattern, name)]

    def text(self, field: str, cells: Cells) -> str | None:
        for places in self.places[field]:
            # "[N/A]" and "[Not Supported]" are no texts.
            if (text := cells[places[0]].strip()) and text[0] != "[" and text != "N/A":
                return text
        return None

    def number(self, field: str, cells: Cells) -> float | None:
        """The first column that knows it; of several dies the fastest."""
        for places in self.places[field]:
            known = [
                value
                for at in places
                if (value := _number(cells[at], self.units[at], field in _HERTZ)) is not None
            ]
            if known:
                return max(known) * (100 if self.names[places[0]] in _FRACTIONS else 1)
        return None


def _number(cell: str, unit: str, hertz: bool) -> float | None:
    match = _NUMBER.match(cell.strip())
    if not match:
        return None
    scale = _SCALES.get((match[2] or unit or ("mhz" if hertz else "")).lower(), 1.0)
    value = float(match[1]) * scale
    # A driver that cannot read a sensor prints nonsense: no GPU is at 1 THz or 100 kW.
    return value if 0 <= value < (1e11 if hertz else 1e5) else None


def _reasons(columns: _Columns, cells: Cells) -> str | None:
    """The reasons that are active; None where the row does not tell."""
    found: list[str] = []
    told = False
    mask = columns.text("mask", cells)
    if mask is not None:
        try:
            bits = int(mask, 0)
        except ValueError:
            pass
        else:
            told = True
            found += [name for bit, name in NVIDIA_REASONS.items() if bits & bit]
    for at, name in columns.reasons:
        state = cells[at].strip().lower()
        told |= state in ("active", "not active")
        found += [name] if state == "active" else []
    for limit in ("power", "temperature"):
        if (share := columns.number(limit, cells)) is not None:
            told = True
            found += [limit] if share > 0 else []
    return ", ".join(dict.fromkeys(found)) if told else None


_CALENDAR = regex.compile(
    r"^(\d{4})[/-]?(\d\d)[/-]?(\d\d)[ T]+(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?$"
)
_TIME_OF_DAY = regex.compile(r"^([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:\.(\d{1,9}))?$")
_EPOCH = regex.compile(r"^(\d{10})(?:\.(\d{1,9}))?$")


@lru_cache(maxsize=64)
def _time(text: str) -> tuple[int | None, int | None]:
    """Time since the epoch, and local time as if it were UTC (of a day, where no date is told), ns;
    None where it is not told."""
    if match := _EPOCH.match(text):
        return int(match[1]) * 10**9 + _fraction(match[2]), None
    if match := _CALENDAR.match(text):
        try:
            moment = datetime(*map(int, match.groups()[:6]))  # type: ignore[arg-type]
        except ValueError:
            return None, None
        seconds = calendar.timegm(moment.timetuple())
        # A clock that was never set tells nothing.
        return None, seconds * 10**9 + _fraction(match[7]) if moment.year >= 2000 else None
    if match := _TIME_OF_DAY.match(text):
        hours, minutes, seconds = (int(one) for one in match.groups()[:3])
        return None, ((hours * 60 + minutes) * 60 + seconds) * 10**9 + _fraction(match[4])
    return None, None


def _fraction(digits: str | None) -> int:
    return int((digits or "0").ljust(9, "0"))


def clock_recording(path: Path, format: str, rows: Rows, collect: str) -> Recording:
    """The log as a recording without kernels. collect: the command that records such a log.

    Raises TraceroofError where no row has a clock, a power, a temperature or a load.
    """
    headers: dict[tuple[str, ...], _Columns] = {}
    numbered: dict[str, int] = {}
    samples: dict[tuple[Any, ...], None] = {}
    repeated = 0
    for at, (header, cells) in enumerate(rows.found):
        columns = headers.get(header) or headers.setdefault(header, _Columns(header))
        sample = _sample(columns, cells, numbered)
        if all(one is None for one in sample[4:]):
            rows.broken += 1
            continue
        # Without a time two samples may well be equal.
        timed = sample[0] is not None or sample[1] is not None
        repeated += timed and (*sample, None) in samples
        samples.setdefault((*sample, None if timed else at))
    if not samples:
        raise TraceroofError(
            f"{path} is a log of {format} without a clock, a power, a temperature or a load",
            f"record them with: {collect}",
        )
    arrays = list(zip(*samples, strict=True))[:-1]
    table = pa.table(
        [
            pa.array(values, type=one.type if not pa.types.is_dictionary(one.type) else pa.string())
            for one, values in zip(CLOCK_LOG, ([0] * len(samples), *arrays), strict=True)
        ],
        names=CLOCK_LOG.names,
    ).cast(CLOCK_LOG)
    notes = [
        Note("lines of the clock log are cut or hold no figure, left out", rows.broken, False)
    ] * bool(rows.broken) + [
        Note("samples of the clock log stand twice, read once", repeated, False)
    ] * bool(repeated)
    return Recording(
        format=format,
        time_basis="timeline",
        kernels=empty(kernel_table.KERNELS),
        sources=(Source(str(path), format, 0, tuple(notes), role="clock-log"),),
        clock_logs=table,
    )


def _sample(columns: _Columns, cells: Cells, numbered: dict[str, int]) -> tuple[Any, ...]:
    """The columns of CLOCK_LOG, without the first."""
    text = columns.text("time", cells)
    if text is None and (clock := columns.text("clock", cells)):
        text = f"{columns.text('date', cells) or ''} {clock}"
    gpu = columns.text("gpu", cells)
    digits = re.search(r"\d{1,4}$", gpu) if gpu else None
    index = int(digits[0]) if digits else None
    if index is None and (uuid := columns.text("uuid", cells)):
        index = numbered.setdefault(uuid, len(numbered))
    return (
        *_time((text or "").strip()),
        index,
        columns.text("gpu_name", cells),
        *(columns.number(one, cells) for one in _NUMBERS),
        _reasons(columns, cells),
    )
