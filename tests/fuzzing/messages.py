"""Damage to the fields of protobuf messages, with the lengths around them made right again."""

import random
import struct
from typing import Any

_ODD = (0, 1, 2, 127, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
_TEXTS = (b"", b"text", b"\xff\xfe", b"\x1b[2J", b"9" * 40, b"\0")
DEEPEST = 8

# A field: its number, its wire type, its value (int, bytes, or a list of fields).
Field = list[Any]


def damaged(data: bytes, rng: random.Random) -> bytes:
    """A message after one to four damages to its fields."""
    fields = parsed(data, 0)
    if fields is None:
        return data
    for _ in range(rng.randint(1, 4)):
        _damage(fields, rng)
    return written(fields)


def parsed(data: bytes, depth: int) -> list[Field] | None:
    """The fields of a message; None for what is none."""
    fields: list[Field] = []
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if number == 0 or kind not in (0, 1, 2, 5) or at > len(data):
            return None
        if kind == 0:
            value, at = _varint(data, at)
            fields.append([number, kind, value])
            continue
        length = {1: 8, 5: 4}.get(kind, 0)
        if kind == 2:
            length, at = _varint(data, at)
        part = data[at : at + length]
        at += length
        if len(part) != length:
            return None
        inner = parsed(part, depth + 1) if kind == 2 and length > 1 and depth < DEEPEST else None
        fields.append([number, kind, part if inner is None else inner])
    return fields


def written(fields: list[Field]) -> bytes:
    """The bytes of a message."""
    out = bytearray()
    for number, kind, value in fields:
        out += _written(number << 3 | kind)
        if kind == 0:
            out += _written(value)
            continue
        part = written(value) if isinstance(value, list) else value
        if kind == 2:
            out += _written(len(part))
        out += part
    return bytes(out)


def _damage(fields: list[Field], rng: random.Random) -> None:
    holder, at = fields, 0
    deeper: Any = fields
    while isinstance(deeper, list) and deeper:
        holder, at = deeper, rng.randrange(len(deeper))
        deeper = holder[at][2]
        if rng.random() < 0.12:
            break
    if not holder:
        return
    field = holder[at]
    kind = rng.randrange(7)
    if kind == 0:
        del holder[at]
    elif kind == 1:
        holder[at:at] = [list(field)] * rng.choice((1, 2, 20))
    elif kind == 2:
        other = rng.randrange(len(holder))
        holder[at], holder[other] = holder[other], holder[at]
    elif kind == 3:
        field[0] = rng.choice((field[0] + 1, 1, 2, 31))
    elif kind == 4:
        taken = rng.choice(holder)
        if taken[1] == field[1]:
            field[2] = taken[2]
    else:
        _another_value(field, rng)


def _another_value(field: Field, rng: random.Random) -> None:
    if field[1] == 0:
        field[2] = rng.choice((*_ODD, field[2] + 1, field[2] * 1000, -field[2] % (1 << 64)))
        field[2] %= 1 << 64
    elif field[1] == 1:
        number = rng.choice((0.0, -1.0, 1.5, 1e300, float("nan"), float("inf")))
        field[2] = struct.pack("<d", number)
    elif field[1] == 5:
        field[2] = struct.pack("<f", rng.choice((0.0, -1.0, 1.5, float("nan"), float("inf"))))
    else:
        field[2] = rng.choice(_TEXTS)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
    return value, len(data) + 1


def _written(value: int) -> bytes:
    out = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)
