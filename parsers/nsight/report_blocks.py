"""The container of a ``.ncu-rep`` report: blocks of messages, each behind its length.

Magic ``NVR\\0``, a file header, then blocks: a header, then a payload of sources, results and range
results. Lengths are 32 bits, little-endian. Names of metrics are numbers into one table of strings,
which stands in a block header anywhere in the file: the headers are read first, results after them.
"""

import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from traceroof.ingest.decompress import Inflated
from traceroof.parsers.nsight.report_fields import report_messages
from traceroof.parsers.nsight.report_metrics import parsed

MAGIC = b"NVR\0"
#: The version in the file header of every report from 2020 to 2026.
KNOWN_VERSION = 7

# No header is larger: real ones, with the strings of 2,200 metrics, have 200 kB.
_LARGEST_HEADER = 256 << 20
# Modules of libraries with all their kernels have 100 MB at most; larger ones are skipped.
_LARGEST_MODULE = 256 << 20
_STEP = 1 << 20
# What is skipped within the stream's buffer is there already.
_BUFFER = 1 << 16


@dataclass
class Headers:
    """What the headers of all blocks say.

    version: of the layout. strings: names by number. processes: process -> name of its program.
    cut: the file ends inside a block, or a header is damaged: nothing behind it can be found.
    """

    version: int = 0
    strings: list[str] = field(default_factory=list)
    processes: dict[int, str] = field(default_factory=dict)
    results: int = 0
    ranges: int = 0
    cut: bool = False


class _Cut(Exception):
    """The stream ends, or cannot be followed, before a message is complete."""


def read_headers(stream: Inflated) -> Headers:
    """Read the headers of every block and skip their payloads."""
    found = Headers()
    try:
        found.version = _file_header(stream)
        while (header := _next_header(stream)) is not None:
            found.strings += [decoded(text) for text in header.strings.texts]
            # Each message has a length of four bytes: a damaged header can promise no more.
            found.results += min(header.results, header.payload // 4)
            found.ranges += min(header.ranges, header.payload // 4)
            if header.process.name and header.process.id not in found.processes:
                name = PurePosixPath(decoded(header.process.name).replace("\\", "/")).name
                found.processes[header.process.id] = name
            _skip(stream, header.payload)
    except _Cut:
        found.cut = True
    return found


@dataclass(frozen=True)
class Found:
    """A result: the process of its block (it names only the thread that launched) and its bytes (None
    where they are not all there). is_range: it is of a range of launches, whose layout no real file
    has shown: it is read as that of a launch."""

    process: int
    data: bytes | None
    is_range: bool = False


def read_results(stream: Inflated, take_module: Callable[[Any], None]) -> Iterator[Found]:
    """Every result in file order.

    take_module: is given every module of code, as it comes; None for one that is damaged or too
    large to be held.
    """
    try:
        _file_header(stream)
        while (header := _next_header(stream)) is not None:
            yield from _payload(stream, header, take_module)
    except _Cut:
        return


def decoded(text: bytes) -> str:
    """Text of a message."""
    return text.decode("utf-8", "replace")


def _file_header(stream: Inflated) -> int:
    if stream.read(len(MAGIC)) != MAGIC:
        raise _Cut
    header = _parsed("FileHeader", _sized(stream, _LARGEST_HEADER))
    if header is None:
        raise _Cut
    return int(header.version)


def _next_header(stream: Inflated) -> Any:
    """The header of the next block; None at the end of the file."""
    if not stream.peek(1):
        return None
    header = _parsed("BlockHeader", _sized(stream, _LARGEST_HEADER))
    if header is None:
        raise _Cut
    return header


def _payload(stream: Inflated, header: Any, take_module: Callable[[Any], None]) -> Iterator[Found]:
    """The results of one block. A length that leaves the block costs the rest of the block."""
    left, process = header.payload, header.process.id
    launches = header.sources + header.results
    for number in range(launches + header.ranges):
        length = _length(stream) if left >= 4 else left + 1
        left -= 4
        if length > left:
            if number < launches:
                yield Found(process, None)
            break
        left -= length
        if number >= header.sources:
            yield Found(process, _exactly(stream, length), number >= launches)
        elif length > _LARGEST_MODULE:
            _skip(stream, length)
            take_module(None)
        else:
            take_module(_parsed("Module", _exactly(stream, length)))
    _skip(stream, max(left, 0))


def _parsed(kind: str, data: bytes) -> Any:
    return parsed(data, report_messages()[kind])


def _sized(stream: Inflated, most: int) -> bytes:
    length = _length(stream)
    if length > most:
        raise _Cut
    return _exactly(stream, length)


def _length(stream: Inflated) -> int:
    return int(struct.unpack("<I", _exactly(stream, 4))[0])


def _exactly(stream: Inflated, count: int) -> bytes:
    parts, left = [], count
    while left:
        # In steps, so that a wrong length allocates no more than the file holds.
        part = stream.read(min(left, _STEP))
        if not part:
            raise _Cut
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _skip(stream: Inflated, count: int) -> None:
    if stream.plain and count > _BUFFER:
        if count >= 2**62:
            raise _Cut
        stream.seek(count - 1, os.SEEK_CUR)
        count = 1
    while count:
        part = stream.read(min(count, _STEP))
        if not part:
            raise _Cut
        count -= len(part)
