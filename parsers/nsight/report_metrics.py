"""Metrics of a report in bulk: the usual forms of a metric and of its values per instruction decoded
as arrays, all others by the messages' own decoder.

A report of 500 MB holds a million metrics and ten million values per instruction; a message object
for each would take ten times as long as reading them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from traceroof.parsers.nsight import wire
from traceroof.parsers.nsight.wire import ROOM, Bytes, Ints, Mask, Reals, Words

# Tags: field number and wire type.
_NAME, VALUE, _INSTANCE, _FLAG = 0x08, 0x12, 0x1A, 0x20
_AT, _COUNT = 0x0A, 0x12
_LONGEST_NAME = 3
# The first word of a metric that is a double, by the bytes of its name's number: which bits tell, and
# what they are. Its length is that of the number and this.
_DOUBLES = {
    letters: tuple(np.uint64(int.from_bytes(bytes.fromhex(one), "little")) for one in pair)
    for letters, pair in {
        2: ("ff8080ffffff", "088000120919"),
        1: ("ff80ffffff", "0800120919"),
    }.items()
}
_DOUBLE_LENGTH = 12
_LOW, _HIGH = np.uint64(0x7F), np.uint64(0x3F80)


@dataclass(frozen=True)
class Metrics:
    """n metrics, in file order. name: number of its name, -1 where it is damaged. value: NaN where it
    is no finite number. listed: places of those with instances; begins: where in the data these
    begin, first: what the first of them is of (-1: no number). odd: places of those that are in no
    usual form."""

    name: Ints
    value: Reals
    listed: Ints
    begins: Ints
    first: Ints
    odd: Ints


@dataclass(frozen=True)
class Instances:
    """n values: which list each is of, what it is of (a program counter, a number; -1 where that is
    no number), and the value, NaN where there is none. code: what it is of as the bytes have it;
    empty where some have it in another form. Launches of one kernel share ``of`` and ``at``."""

    of: Ints
    at: Ints
    value: Reals
    code: Words


def read_metrics(data: Bytes, words: Words, start: Ints, end: Ints) -> Metrics:
    """Metrics of one result or several, each in ``data`` from start to end."""
    name, value = np.full(len(start), -1, np.int64), np.full(len(start), np.nan)
    # Most metrics are a double and nothing more, or a flag: their first word and length tell.
    word, size = words[start], end - start
    size[(data[end - 2] == _FLAG) & (size > 2)] -= 2
    usual = np.zeros(len(start), dtype=bool)
    for letters, (mask, form) in _DOUBLES.items():
        mine = np.flatnonzero(((word & mask) == form) & (size == letters + _DOUBLE_LENGTH))
        found = words[start[mine] + letters + 4].view("<f8")
        mine, found = mine[finite := np.isfinite(found)], found[finite]
        number = word[mine] >> np.uint64(8)
        name[mine] = (number & _LOW) | (number >> np.uint64(1) & _HIGH if letters > 1 else 0)
        value[mine], usual[mine] = found, True
    other = np.flatnonzero(~usual)
    rest = _read_each(data, words, start[other], end[other])
    name[other], value[other] = rest.name, rest.value
    return Metrics(name, value, other[rest.listed], rest.begins, rest.first, other[rest.odd])


def _read_each(data: Bytes, words: Words, start: Ints, end: Ints) -> Metrics:
    """The same of metrics of any form."""
    number, size, good = wire.varint(words, start + 1)
    good &= (data[start] == _NAME) & (size <= _LONGEST_NAME)
    value, after, fine = wire.value(data, words, np.minimum(start + 1 + size, end), VALUE)
    rest, following = end - after, data[np.minimum(after, end)]
    listed = following == _INSTANCE
    # A flag may follow.
    good &= fine & ((rest == 0) | listed | ((rest == 2) & (following == _FLAG)))
    name = number.view(np.int64)
    name[~good], value[~good] = -1, np.nan
    places = np.flatnonzero(good & listed)
    at, _, known = wire.value(data, words, after[places] + 2, _AT)
    first = np.where(known, np.minimum(at, 2.0**53), -1).astype(np.int64)
    return Metrics(name, value, places, after[places], first, np.flatnonzero(~good))


def read_instances(
    lists: Sequence[memoryview], message: Any, instance: Any, before: Instances | None = None
) -> Instances:
    """Values per instruction, or whatever else they are of.

    lists: of a metric each, as its bytes have them. message, instance: the classes of a metric and
    of one value. before: those of another launch, which share what they are of if it is the same.
    """
    data, start, end = wire.joined(lists)
    words = wire.words_of(data)
    place, then, of, regular = _instances_in(data, start, end)
    size = data[place + 3].astype(np.int64) - 1
    code, good = wire.bytes_at(words, place + 5, size)
    same = before is not None and np.array_equal(before.code, code)
    if same and before is not None:
        at = before.at[: len(code)]
    else:
        number, fits = wire.sized_varint(words, place + 5, size)
        at = np.where(good & fits & (number < 2**53), number, 2**64 - 1).view(np.int64)
    value, after, fine = wire.value(data, words, np.minimum(place + 5 + size, then), _COUNT)
    good &= fine & (after == then)
    every = bool(good.all() and regular.all())
    if same and every and before is not None and np.array_equal(before.of, of):
        return Instances(before.of, before.at, value, code)
    at = at.copy()
    for odd in np.flatnonzero(~good).tolist():
        found = _pair(parsed(data[place[odd] + 2 : then[odd]].tobytes(), instance))
        at[odd], value[odd] = _position(found[0]), found[1]
    parts = [(of, at, value)]
    for number_of_list in np.flatnonzero(~regular).tolist():
        pairs = [_pair(one) for one in _parsed_all(lists[number_of_list], message, instance)]
        if pairs:
            positions = np.array([_position(one) for one, _ in pairs])
            values = np.array([one for _, one in pairs])
            parts.append((np.full(len(pairs), number_of_list), positions, values))
    of, at, value = (np.concatenate(some) for some in zip(*parts, strict=True))
    return Instances(of, at, value, code if every else code[:0])


def _position(value: float) -> int:
    return int(value) if 0 <= value < 2.0**53 else -1


def parsed(data: bytes, message: Any) -> Any:
    """A message; None where it is damaged."""
    made = message()
    try:
        made.ParseFromString(data)
    except _damage():
        return None
    return made


@cache
def _damage() -> tuple[type[Exception], ...]:
    from google.protobuf.message import DecodeError

    return DecodeError, RecursionError


def number_of(value: Any) -> float:
    """The number in a value's message; NaN where it holds none."""
    for kind in ("whole", "real", "small", "single"):
        if value.HasField(kind):
            return float(getattr(value, kind))
    return float("nan")


def _pair(found: Any) -> tuple[float, float]:
    return (np.nan, np.nan) if found is None else (number_of(found.at), number_of(found.value))


def _parsed_all(listed: memoryview, message: Any, instance: Any) -> Iterator[Any]:
    found = parsed(listed.tobytes(), message)
    return (parsed(raw, instance) for raw in (found.instances if found is not None else ()))


def _instances_in(data: Bytes, start: Ints, end: Ints) -> tuple[Ints, Ints, Ints, Mask]:
    """Where the instances of lists begin and end, which list each is of, and which lists are nothing
    but instances with numbers, each behind the one before; those of other lists are left out.

    They are found by their first bytes; that these may stand inside of a value too is why each must
    end where the next begins.
    """
    size = len(data) - ROOM
    # Tag, a length, tag of what it is of, a length, and its kind: whole, of 32 or 64 bits.
    begins = data[:size] == _INSTANCE
    begins &= data[2 : size + 2] == _AT
    place = np.flatnonzero(begins)
    is_whole = (data[place + 4] & 0xF7) == wire.SMALL
    if not is_whole.all():
        place = place[is_whole]
    then = place + 2 + data[place + 1]
    until = np.searchsorted(place, end)
    count = np.diff(until, prepend=0)
    of = np.repeat(np.arange(len(start)), count)
    regular = count > 0
    first, last, stop = (until - count)[regular], until[regular] - 1, end[regular]
    follows = np.ones(len(place), dtype=bool)
    follows[:-1] = then[:-1] == place[1:]
    closes = (then[last] == stop) | ((then[last] + 2 == stop) & (data[then[last]] == _FLAG))
    follows[last] = closes & (place[first] == start[regular])
    if follows.all():
        return place, then, of, regular
    regular &= np.bincount(of, follows, len(start)) == count
    kept = regular[of]
    return place[kept], then[kept], of[kept], regular
