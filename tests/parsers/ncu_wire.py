"""A second decoder of ``.ncu-rep``, to check the product's against: no protobuf library, no code of
the product, only the wire format and the field numbers that the format notes give.

``python -m tests.parsers.report_table`` prints what comparing both gives.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

Value = int | float | str | None


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(field number, value) of one message; fixed-width values stay bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield number, value
            continue
        if kind == 2:
            length, at = _varint(data, at)
        else:
            length = {1: 8, 5: 4}[kind]
        yield number, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def every(data: bytes, number: int) -> list[bytes]:
    """All values of a field that is a message or text."""
    return [value for at, value in fields(data) if at == number and isinstance(value, bytes)]


def whole(data: bytes, number: int) -> int | None:
    """The last value of a field that is a number."""
    found = [value for at, value in fields(data) if at == number and isinstance(value, int)]
    return found[-1] if found else None


def text(data: bytes, number: int) -> str:
    """The last value of a field that is text."""
    found = every(data, number)
    return found[-1].decode("utf-8", "replace") if found else ""


def value_of(data: bytes) -> Value:
    """A MetricValue: text, float, double, 32 or 64 bits."""
    found: Value = None
    for number, value in fields(data):
        if number == 1 and isinstance(value, bytes):
            found = value.decode("utf-8", "replace")
        elif number == 2 and isinstance(value, bytes):
            (found,) = struct.unpack("<f", value)
        elif number == 3 and isinstance(value, bytes):
            (found,) = struct.unpack("<d", value)
        elif number in (4, 5) and isinstance(value, int):
            found = value
    return found


@dataclass(frozen=True)
class Marker:
    """What a rule wrote at an instruction: 0 at the instruction, 1 at its source line."""

    kind: int | None
    line: int | None
    pc: int | None
    text: str
    path: str


@dataclass
class Result:
    """A launch as a report holds it. instances: metric -> program counter -> value."""

    name: str
    process: int | None
    thread: int | None
    context: int | None
    stream: int | None
    grid: tuple[int, int, int] | None
    block: tuple[int, int, int] | None
    metrics: dict[str, Value] = field(default_factory=dict)
    instances: dict[str, dict[int, int]] = field(default_factory=dict)
    sentences: list[str] = field(default_factory=list)
    markers: list[Marker] = field(default_factory=list)


def results(path: Path) -> list[Result]:
    """All launches of a report, in file order."""
    data = path.read_bytes()
    strings: list[str] = []
    found: list[tuple[int | None, bytes]] = []
    for header, payload in _blocks(data):
        for table in every(header, 4):
            strings += [one.decode("utf-8", "replace") for one in every(table, 1)]
        process = next((whole(one, 1) for one in every(header, 6)), None)
        parts = list(_sized(payload))
        sources, count = whole(header, 1) or 0, whole(header, 2) or 0
        found += [(process, part) for part in parts[sources : sources + count]]
    return [_result(part, process, strings) for process, part in found]


def _blocks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    assert data[:4] == b"NVR\0"
    (length,) = struct.unpack_from("<I", data, 4)
    at = 8 + length
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at)
        header = data[at + 4 : at + 4 + length]
        at += 4 + length
        size = whole(header, 5) or 0
        yield header, data[at : at + size]
        at += size


def _sized(payload: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(payload):
        (length,) = struct.unpack_from("<I", payload, at)
        yield payload[at + 4 : at + 4 + length]
        at += 4 + length


def _result(data: bytes, process: int | None, strings: list[str]) -> Result:
    def extent(number: int) -> tuple[int, int, int] | None:
        found = every(data, number)
        if not found:
            return None
        x, y, z = (whole(found[-1], axis) or 0 for axis in (1, 2, 3))
        return x, y, z

    names = [text(data, number) for number in (7, 6, 5)]
    made = Result(
        next(filter(None, names), ""), process, whole(data, 1), whole(data, 22), whole(data, 23),
        extent(10), extent(11),
    )  # fmt: skip
    for metric in every(data, 13):
        name = strings[whole(metric, 1) or 0]
        value = next((value_of(one) for one in every(metric, 2)), None)
        if value is not None or name not in made.metrics:
            made.metrics[name] = value
        listed = [
            (value_of(next(iter(every(one, 1)), b"")), value_of(next(iter(every(one, 2)), b"")))
            for one in every(metric, 3)
        ]
        made.instances[name] = {
            pc: round(count)
            for pc, count in listed
            if isinstance(pc, int) and pc > 0xFFFF and isinstance(count, int | float)
        }
    made.grid = _in_blocks(made)
    for rule in every(data, 19):
        for item in (item for body in every(rule, 3) for item in every(body, 1)):
            made.sentences += [text(message, 1) for message in every(item, 1)]
        made.markers += [
            Marker(whole(one, 1), whole(one, 2), whole(one, 3), text(one, 4), text(one, 6))
            for one in every(rule, 5)
        ]
    return made


def _in_blocks(one: Result) -> tuple[int, int, int] | None:
    """Reports of 2020 have the grid in threads; the number of blocks stands beside it."""
    if one.grid is None or one.block is None:
        return one.grid
    (x, y, z), (width, height, depth) = one.grid, one.block
    if x * y * z == one.metrics.get("launch__grid_size", x * y * z):
        return one.grid
    return x // width, y // height, z // depth
