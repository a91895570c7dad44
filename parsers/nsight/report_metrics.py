"""Metrics of a report in bulk: the usual forms of a metric and of its values per instruction decoded
as arrays, all others by the messages' own decoder.

A report of 500 MB holds a million metrics and twenty million values per instruction; a message
object for each would take ten times as long as reading them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]

# Tags: field number and wire type. A value is 32 or 64 bits whole, single or double.
_NAME, _VALUE, _INSTANCE, _FLAG = 0x08, 0x12, 0x1A, 0x20
_AT, _COUNT = 0x0A, 0x12
_SMALL, _WHOLE, _SINGLE, _DOUBLE = 0x20, 0x28, 0x15, 0x19
_LONGEST_VARINT, _LONGEST_NAME = 10, 3
# Behind the last byte, so that a look ahead stays in the array.
_ROOM = 32


@dataclass(frozen=True)
class Metrics:
    """n metrics of a result, in file order. name: number of its name, -1 where it is damaged. value:
    NaN where it is no finite number. instances: place -> where in its bytes its instances begin, and
    what the first of them is of (-1: no number). messages: place -> message, of those that are in no
    usual form."""

    raws: Sequence[bytes]
    name: Ints
    value: Reals
    instances: dict[int, tuple[int, int]]
    messages: dict[int, Any]


@dataclass(frozen=True)
class Instances:
    """n values: which list each is of, what it is of (a program counter, a number; -1 where that is
    no number), and the value, NaN where there is none."""

    of: Ints
    at: Ints
    value: Reals


def read_metrics(raws: Sequence[bytes], message: Any) -> Metrics:
    """The metrics of a result. message: class of those in no usual form."""
    data, start, end = _joined(raws)
    name, size, good = _varint(data, start + 1, _LONGEST_NAME)
    good &= data[start] == _NAME
    value, after, fine = _value(data, np.minimum(start + 1 + size, end), _VALUE)
    rest, following = end - after, data[np.minimum(after, end)]
    listed = following == _INSTANCE
    # A flag may follow.
    good &= fine & ((rest == 0) | listed | ((rest == 2) & (following == _FLAG)))
    value[~good] = np.nan
    messages = {}
    for place in np.flatnonzero(~good).tolist():
        found = parsed(raws[place], message)
        messages[place] = found
        # A number that no table of strings reaches names nothing, as a damaged metric does.
        name[place] = -1 if found is None or found.name >= 2**31 else found.name
    places = np.flatnonzero(good & listed)
    at, _, known = _value(data, after[places] + 2, _AT)
    first = np.where(known & (at < 2.0**53), at, -1).astype(np.int64)
    pairs = zip((after - start)[places].tolist(), first.tolist(), strict=True)
    instances = dict(zip(places.tolist(), pairs, strict=True))
    return Metrics(raws, name, value, instances, messages)


def read_instances(lists: Sequence[bytes], message: Any, instance: Any) -> Instances:
    """Values per instruction, or whatever else they are of.

    lists: of a metric each, as its bytes have them. message, instance: the classes of a metric and
    of one value.
    """
    data, start, end = _joined(lists)
    place, then, regular = _instances_in(data, start, end)
    of = np.searchsorted(end, place, side="right")
    kept = regular[of]
    place, then, of = place[kept], then[kept], of[kept]
    at, after, good = _value(data, place + 2, _AT)
    value, after, fine = _value(data, np.minimum(after, then), _COUNT)
    good &= fine & (after == then)
    at[~good] = value[~good] = np.nan
    for odd in np.flatnonzero(~good).tolist():
        raw = data[place[odd] + 2 : then[odd]].tobytes()
        at[odd], value[odd] = _pair(parsed(raw, instance))
    parts = [(of, at, value)]
    for number in np.flatnonzero(~regular).tolist():
        pairs = [_pair(one) for one in _parsed_all(lists[number], message, instance)]
        if pairs:
            both = np.array(pairs)
            parts.append((np.full(len(pairs), number), both[:, 0], both[:, 1]))
    of, at, value = (np.concatenate(some) for some in zip(*parts, strict=True))
    known = (at >= 0) & (at < 2.0**53)
    return Instances(of, np.where(known, at, -1).astype(np.int64), value)


def parsed(data: bytes, message: Any) -> Any:
    """A message; None where it is damaged."""
    from google.protobuf.message import DecodeError

    made = message()
    try:
        made.ParseFromString(data)
    except (DecodeError, RecursionError):
        return None
    return made


def number_of(value: Any) -> float:
    """The number in a value's message; NaN where it holds none."""
    for kind in ("whole", "real", "small", "single"):
        if value.HasField(kind):
            return float(getattr(value, kind))
    return float("nan")


def _pair(found: Any) -> tuple[float, float]:
    return (np.nan, np.nan) if found is None else (number_of(found.at), number_of(found.value))


def _parsed_all(listed: bytes, message: Any, instance: Any) -> Iterator[Any]:
    found = parsed(listed, message)
    return (parsed(raw, instance) for raw in (found.instances if found is not None else ()))


def _instances_in(data: Bytes, start: Ints, end: Ints) -> tuple[Ints, Ints, Mask]:
    """Where the instances of lists begin and end, and which lists are nothing but instances with
    numbers, each behind the one before.

    They are found by their first bytes; that these may stand inside of a value too is why each must
    end where the next begins.
    """
    place = np.flatnonzero(data[: len(data) - _ROOM] == _INSTANCE)
    kind = data[place + 4]
    place = place[(data[place + 2] == _AT) & ((kind == _WHOLE) | (kind == _SMALL))]
    then = place + 2 + data[place + 1]
    of = np.searchsorted(end, place, side="right")
    regular = np.zeros(len(start), dtype=bool)
    if not len(place):
        return place, then, regular
    is_first = np.diff(of, prepend=-1) > 0
    is_last = np.diff(of, append=len(start)) > 0
    closes = (then == end[of]) | ((then + 2 == end[of]) & (data[then] == _FLAG))
    follows = np.append(place[1:], -1) == then
    fine = np.where(is_last, closes, follows) & (~is_first | (place == start[of]))
    found = np.bincount(of, minlength=len(start))
    regular = (found > 0) & (np.bincount(of, fine, len(start)) == found)
    return place, then, regular


def _joined(raws: Sequence[bytes]) -> tuple[Bytes, Ints, Ints]:
    """The bytes in one array, with room behind them, and where each begins and ends."""
    end = np.cumsum(np.fromiter(map(len, raws), np.int64, len(raws)))
    data = np.frombuffer(b"".join(raws) + bytes(_ROOM), np.uint8)
    start = np.concatenate([[0], end[:-1]]) if len(raws) else end
    return data, start.astype(np.int64), end


def _value(data: Bytes, at: Ints, tag: int) -> tuple[Reals, Ints, Mask]:
    """(value, where it ends, whether it is a finite number) of the values that begin at ``at`` with
    their tag and length."""
    length = data[at + 1].astype(np.int64)
    good = (data[at] == tag) & (length > 1) & (length <= _LONGEST_VARINT + 1)
    kind = data[at + 2]
    value = np.full(len(at), np.nan)
    begin = at + 3
    whole = good & ((kind == _WHOLE) | (kind == _SMALL))
    if whole.any():
        every = bool(whole.all())
        number, size, fine = _varint(data, begin if every else begin[whole], _LONGEST_VARINT)
        fits = fine & (size + 1 == (length if every else length[whole]))
        value[whole] = np.where(fits, number.view(np.uint64), np.nan)
    for wanted, size_of, form in ((_DOUBLE, 8, "<f8"), (_SINGLE, 4, "<f4")):
        mine = good & (kind == wanted) & (length == size_of + 1)
        if mine.any():
            places = begin[mine][:, None] + np.arange(size_of)
            value[mine] = data[places].view(form)[:, 0]
    return value, at + 2 + length, good & np.isfinite(value)


def _varint(data: Bytes, at: Ints, most: int) -> tuple[Ints, Ints, Mask]:
    """(number, bytes, whether it ends within ``most`` bytes) of the numbers that begin at ``at``."""
    number = np.zeros(len(at), np.uint64)
    size = np.zeros(len(at), np.int64)
    more = np.ones(len(at), np.uint8)
    for place in range(most):
        byte = data[at + place]
        number |= ((byte & 0x7F) * more).astype(np.uint64) << np.uint64(7 * place)
        size += more
        more &= byte >> 7
        if not more.any():
            break
    return number.view(np.int64), size, more == 0
