"""Chrome traces of torch.profiler without what says where and by whom they were recorded.

The metadata around the events is an allow-list. Events are streamed through, whatever their
number: texts in them lose folders and names.
"""

import gzip
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, cast

from traceroof.errors import TraceroofError
from traceroof.ingest.decompress import open_inflated
from traceroof.parser import Options
from traceroof.scrub.texts import Redactor

_EVENTS: Final = re.compile(rb'"traceEvents"\s*:\s*\[')
_SIGN: Final = re.compile(rb'"traceEvents"\s*:|"schemaVersion"\s*:|"deviceProperties"\s*:')
# What torch.profiler itself writes about a recording.
_KEPT: Final = frozenset(
    {
        *("schemaVersion", "deviceProperties", "computeProperties", "distributedInfo"),
        *("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules"),
        *("cupti_version", "cuda_runtime_version", "cuda_driver_version", "roctracer_version"),
        *("hip_runtime_version", "hip_driver_version", "displayTimeUnit", "baseTimeNanoseconds"),
        *("traceName", "nccl_version"),
    }
)
_WHO: Final = re.compile(r"user|host", re.IGNORECASE)
_STEP: Final = 4 << 20
# Metadata before or behind the events is not larger.
_LARGEST: Final = 8 << 20
# So many brackets in metadata are none of the events'.
_MOST_TRIES: Final = 2000


@dataclass(frozen=True)
class _Outline:
    """Where the events lie, in bytes, and the metadata around them."""

    begin: int
    end: int
    before: Mapping[str, Any]
    after: Mapping[str, Any]


def is_torch(head: bytes) -> bool:
    """Whether a file begins like a trace of torch.profiler."""
    return head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") and bool(_SIGN.search(head))


def scrub_chrome(source: Path, made: Path, target: Path, options: Options) -> list[str]:
    """Write a scrubbed copy of a trace into ``made``; packed where the target's name says so."""
    outline = _outline(source, options)
    around = {**outline.before, **outline.after}
    names = {value for key, value in around.items() if _WHO.search(key) and isinstance(value, str)}
    redact = Redactor(names, [one for one in around.values() if isinstance(one, str)])
    packed = target.suffix == ".gz"
    with cast(IO[bytes], gzip.open(made, "wb") if packed else made.open("wb")) as file:
        file.write(_opening(outline.before, redact))
        _copy(source, file, outline, redact, options)
        file.write(_closing(outline.after, redact))
    gone = sorted(set(around) - _KEPT)
    said = [f"metadata: {', '.join(gone)}"] if gone else []
    return [*said, f"folders, users or hosts in {redact.changed:,} pieces of text"]


def _outline(source: Path, options: Options) -> _Outline:
    with open_inflated(source, options) as stream:
        head = stream.read(_LARGEST)
        found = _EVENTS.search(head)
        if found is None:
            raise TraceroofError(f"{source} holds no events", "scrub reads whole traces")
        last, size = head, len(head)
        while data := stream.read(_STEP):
            size += len(data)
            last = (last + data)[-_LARGEST:]
    close = _close(last, len(last) - (size - found.end()))
    if close is None:
        raise TraceroofError(f"{source} is cut short, or no JSON", "record it again")
    place, after = close
    before = _metadata(head[: found.end()] + b"]}")
    if before is None:
        raise TraceroofError(f"{source} is no JSON", "scrub reads whole traces")
    return _Outline(found.end(), size - len(last) + place, before, after)


def _close(last: bytes, first: int) -> tuple[int, dict[str, Any]] | None:
    """Where the events end: the first bracket behind which nothing but metadata comes."""
    found: tuple[int, dict[str, Any]] | None = None
    place, tried = len(last), 0
    while (place := last.rfind(b"]", max(first, 0), place)) >= 0 and tried < _MOST_TRIES:
        after = _metadata(b'{"traceEvents": [' + last[place:])
        # Behind a bracket within the metadata or an event stands no whole object.
        found, tried = (found, tried + 1) if after is None else ((place, after), 0)
    return found


def _metadata(text: bytes) -> dict[str, Any] | None:
    """The metadata of a trace whose events were taken out; None where it is no whole object."""
    try:
        found = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or found.pop("traceEvents", None) != []:
        return None
    return found


def _opening(before: Mapping[str, Any], redact: Redactor) -> bytes:
    kept = {key: _plain(value, redact) for key, value in before.items() if key in _KEPT}
    text = json.dumps(kept, indent=1)[1:-1].rstrip()
    return f'{{{text}{"," if kept else ""}\n"traceEvents": ['.encode()


def _closing(after: Mapping[str, Any], redact: Redactor) -> bytes:
    kept = {key: _plain(value, redact) for key, value in after.items() if key in _KEPT}
    text = json.dumps(kept, indent=1)[1:-1].rstrip()
    return f"{',' if kept else ''}{text}\n}}\n".encode()


def _plain(value: Any, redact: Redactor) -> Any:
    """A value of the metadata with its texts redacted."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [_plain(one, redact) for one in value]
    if isinstance(value, dict):
        return {redact(key): _plain(one, redact) for key, one in value.items()}
    return value


def _copy(
    source: Path, file: IO[bytes], outline: _Outline, redact: Redactor, options: Options
) -> None:
    """The events and the bracket that closes them, redacted piece by piece."""
    with open_inflated(source, options) as stream:
        left = outline.begin
        while left > 0:
            left -= len(stream.read(min(left, _STEP)))
        left, rest = outline.end + 1 - outline.begin, b""
        while left > 0 and (data := stream.read(min(left, _STEP))):
            left -= len(data)
            piece = rest + data
            # Between two events, so that no text is cut in two.
            cut = piece.rfind(b"},") + 1 if left else len(piece)
            rest = piece[cut:]
            text = piece[:cut].decode("utf-8", "surrogateescape")
            file.write(redact(text).encode("utf-8", "surrogateescape"))
        file.write(rest)
