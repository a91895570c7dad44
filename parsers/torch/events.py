"""One event of a torch.profiler trace, decoded: which fields are read, and how numbers become exact."""

from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Raw, field

Whole = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

#: Stands for an unknown whole number.
UNKNOWN: Final = np.iinfo(np.int64).min

_NOTHING = Raw()


class Args(msgspec.Struct, gc=False):
    """The arguments that are read, of all kinds of events together.

    Types are not checked here: writers quote numbers, omit them, or put a text where others have
    a list. Lists are kept as their JSON text, which is interned.
    """

    # GPU activities and the calls that launch them
    correlation: Any = None
    device: Any = None
    stream: Any = None
    context: Any = None
    rank: Any = None
    grid: Raw = _NOTHING
    block: Raw = _NOTHING
    registers: Any = field(default=None, name="registers per thread")
    shared_memory: Any = field(default=None, name="shared memory")
    estimated_occupancy: Any = field(default=None, name="est. achieved occupancy %")
    theoretical_occupancy: Any = field(default=None, name="theoretical occupancy %")
    occupancy: Raw = _NOTHING
    bytes: Any = None
    size: Any = None
    graph: Any = field(default=None, name="graph id")
    from_device: Any = field(default=None, name="fromDevice")
    # collectives
    collective: Any = field(default=None, name="Collective name")
    elements_in: Any = field(default=None, name="In msg nelems")
    elements_out: Any = field(default=None, name="Out msg nelems")
    group_size: Any = field(default=None, name="Group size")
    group_name: Any = field(default=None, name="Process Group Name")
    group_description: Any = field(default=None, name="Process Group Description")
    group_ranks: Any = field(default=None, name="Process Group Ranks")
    dtype: Any = None
    # operators
    shapes: Raw = field(default=_NOTHING, name="Input Dims")
    old_shapes: Raw = field(default=_NOTHING, name="Input dims")
    dtypes: Raw = field(default=_NOTHING, name="Input type")
    values: Raw = field(default=_NOTHING, name="Concrete Inputs")
    sequence: Any = field(default=None, name="Sequence number")
    finished: Any = None
    stack: Any = field(default=None, name="Call stack")


class Event(msgspec.Struct, gc=False):
    """One event. ``ts`` and ``dur`` are microseconds."""

    ph: Any = None
    cat: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = None
    args: Args | None = None


class ExactEvent(msgspec.Struct, gc=False):
    """The same with times as they are written, for times that a double cannot hold."""

    ph: Any = None
    cat: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: Raw = _NOTHING
    dur: Raw = _NOTHING
    args: Args | None = None


# Microseconds below this keep three decimals in a double: half the distance between neighbours is
# under 0.0005. It is 101 days, and Kineto counts from a boundary at most three months back.
_EXACT_BELOW: Final = float(1 << 43)
# Below this a double and its product with 1000 are off by under a hundredth of a nanosecond.
_FINE_BELOW: Final = float(1 << 33)


class Decoder:
    """Decodes pieces of a trace; a piece with a time that a double does not hold as it is written."""

    def __init__(self) -> None:
        self._any = msgspec.json.Decoder(list[Event])
        self._exact = msgspec.json.Decoder(list[ExactEvent])

    def __call__(self, piece: Any) -> list[Any]:
        events = self._any.decode(piece)
        # Epoch microseconds with decimals were written in spring 2024; any event may be the first.
        for event in events:
            if type(event.ts) is float and not -_EXACT_BELOW < event.ts < _EXACT_BELOW:
                return self._exact.decode(piece)
        return events


def nanoseconds(times: Sequence[Any]) -> Whole:
    """Microseconds as they stand in events, as whole nanoseconds; UNKNOWN where none is given."""
    try:
        plain = np.fromiter(times, dtype=np.float64, count=len(times))
    except (TypeError, ValueError, OverflowError):
        # What is no number, or a text of one, makes no other time slow.
        plain = np.array([one if _is_plain(one) else np.nan for one in times])
    odd = np.flatnonzero(~(np.abs(plain) < _EXACT_BELOW))
    if len(odd):
        plain[odd] = 0
    if np.abs(plain).max(initial=0) < _FINE_BELOW:
        plain *= 1000
        exact: Whole = np.rint(plain, out=plain).astype(np.int64)
    else:
        # The part below a microsecond is exact after the subtraction, so nothing is lost twice.
        whole = np.floor(plain)
        plain -= whole
        exact = whole.astype(np.int64) * 1000
        exact += np.rint(plain * 1000).astype(np.int64)
    if len(odd):
        exact[odd] = [_exact(times[at]) for at in odd.tolist()]
    return exact


def _is_plain(time: Any) -> bool:
    return type(time) is float or (type(time) is int and abs(time) < 1 << 62)


def _exact(time: Any) -> int:
    if isinstance(time, Raw):
        text = bytes(time).decode("utf-8", "replace").strip('"')
        whole, _, decimals = text.partition(".")
        if whole.isdecimal() and (decimals.isdecimal() or not decimals) and len(decimals) <= 3:
            return _bounded(int(whole) * 1000 + int(decimals.ljust(3, "0")))
        time = text
    if isinstance(time, bool) or not isinstance(time, int | float | str):
        return UNKNOWN
    try:
        number = Decimal(time)
    except (InvalidOperation, ValueError):
        return UNKNOWN
    if not number.is_finite() or number.adjusted() > 18:
        return UNKNOWN
    return _bounded(int((number * 1000).to_integral_value()))


def _as_array(values: Sequence[Any]) -> npt.NDArray[Any]:
    """The values as an array of numbers where they are numbers all, else of objects."""
    try:
        plain: npt.NDArray[Any] = np.array(values)
    except (ValueError, OverflowError):
        return np.empty(0, dtype=object)
    return plain if plain.ndim == 1 else np.empty(0, dtype=object)


def _bounded(number: int) -> int:
    return number if -(1 << 63) < number < 1 << 63 else UNKNOWN


def wholes(values: Sequence[Any], one: Callable[[Any], int] | None = None) -> Whole:
    """Whole numbers as they stand in events (also quoted); UNKNOWN where there is none."""
    one = one or whole_number
    if not values:
        return np.empty(0, dtype=np.int64)
    plain = _as_array(values)
    if plain.dtype == np.int64:
        return plain
    return np.array([one(value) for value in values], dtype=np.int64)


def whole_number(value: Any) -> int:
    """``value`` as a whole number ("stream 7" is 7); UNKNOWN for anything else."""
    if isinstance(value, bool):
        return UNKNOWN
    if isinstance(value, str):
        value = value.rpartition(" ")[2]
        try:
            value = int(value, 0)
        except ValueError:
            return UNKNOWN
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return _bounded(value) if isinstance(value, int) else UNKNOWN


def reals(values: Sequence[Any]) -> Reals:
    """Numbers as they stand in events (also quoted); NaN where there is none."""
    try:
        plain = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        plain = np.empty((0, 0))
    if plain.ndim == 1:
        return plain
    return np.array([real_number(value) for value in values], dtype=np.float64)


def real_number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")
