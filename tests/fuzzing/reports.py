"""Damage to the messages of a ``.ncu-rep`` report, with the lengths of its blocks made right again."""

import random
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tests.fuzzing import messages

MAGIC = b"NVR\0"
_PAYLOAD = 5  # field of a block's header: bytes of its payload


@dataclass
class Block:
    header: bytes
    parts: list[bytes]


def damaged(data: bytes, rng: random.Random) -> bytes:
    """A report after damage to one or two of its headers, results and modules."""
    found = blocks_of(data)
    if found is None:
        return data
    head, blocks = found
    for _ in range(rng.randint(1, 2)):
        block = rng.choice(blocks)
        if not block.parts or rng.random() < 0.2:
            block.header = messages.damaged(block.header, rng)
            continue
        at = rng.randrange(len(block.parts))
        kind = rng.randrange(8)
        if kind == 0:
            del block.parts[at]
        elif kind == 1:
            block.parts.insert(at, block.parts[at])
        else:
            block.parts[at] = messages.damaged(block.parts[at], rng)
    if rng.random() < 0.1:
        rng.shuffle(blocks)
    return MAGIC + _sized(head) + b"".join(_written(one, rng.random() < 0.9) for one in blocks)


def changed(data: bytes, rng: random.Random, change: Callable[[bytes], bytes]) -> bytes:
    """A report with one message of its payloads changed."""
    found = blocks_of(data)
    if found is None:
        return data
    head, blocks = found
    block = rng.choice([one for one in blocks if one.parts])
    at = rng.randrange(len(block.parts))
    block.parts[at] = change(block.parts[at])
    return written(head, blocks)


def written(head: bytes, blocks: Iterable[Block]) -> bytes:
    """The bytes of a report."""
    return MAGIC + _sized(head) + b"".join(_written(one) for one in blocks)


def _sized(part: bytes) -> bytes:
    return struct.pack("<I", len(part)) + part


def _written(block: Block, sound: bool = True) -> bytes:
    payload = b"".join(map(_sized, block.parts))
    fields = messages.parsed(block.header, messages.DEEPEST) or []
    if sound:
        fields = [one for one in fields if one[0] != _PAYLOAD] + [[_PAYLOAD, 0, len(payload)]]
    return _sized(messages.written(fields)) + payload


def blocks_of(data: bytes) -> tuple[bytes, list[Block]] | None:
    if not data.startswith(MAGIC):
        return None
    at, blocks = len(MAGIC), []

    def take() -> bytes:
        nonlocal at
        (length,) = struct.unpack_from("<I", data, at)
        at += 4 + length
        return data[at - length : at]

    head = take()
    while at < len(data):
        header = take()
        known = {
            number: value for number, _, value in messages.parsed(header, messages.DEEPEST) or []
        }
        end = at + known.get(_PAYLOAD, 0)
        parts = []
        while at < end:
            parts.append(take())
        blocks.append(Block(header, parts))
    return head, blocks
