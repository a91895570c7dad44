"""JSON that is none: what Kineto and those who rewrite its traces leave behind, mended.

Seen in public reports: bytes that are no UTF-8, backslashes of Windows paths, line ends and quotes
inside names, NaN and Infinity, halves of surrogate pairs, a comma before a closing bracket.
Everything here works on text, so that numbers keep all their digits.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from traceroof.core import regex

_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_ESCAPE = regex.compile(rb'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})?')
_ESCAPED_UNIT = regex.compile(rb"\\u([dD][89abAB][0-9a-fA-F]{2})(\\u[dD][c-fC-F][0-9a-fA-F]{2})?|"
                           rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}")  # fmt: skip
_ODDITY = regex.compile(
    _STRING + rb"|[+-]?(?:\bnan\b|\binf(?:inity)?\b)|,(?=\s*[}\]])", re.DOTALL | re.IGNORECASE
)
_MAYBE_ODD = regex.compile(rb"(?i:nan|inf)|,\s*[}\]]")
_NAME = regex.compile(rb'"name"\s*:\s*"')
_NAME_END = regex.compile(rb'"\s*,\s*"(?:pid|tid|ts|cat|ph|dur|args|id)"\s*:')
# A name that holds these is no name: the event's own end is missing.
_NO_NAME = regex.compile(rb'"(?:ph|cat|name|pid|tid|ts|dur|args)"\s*:')
_BARE_QUOTE = regex.compile(rb'(?<!\\)((?:\\\\)*)"')
_CONTROLS: Final = bytes(max(byte, 32) for byte in range(256))

_REPLACEMENT = "\ufffd".encode()

# A name with quotes in it has as many possible ends as quotes; more than this is no name.
_MOST_NAME_ENDS = 64


def _utf8(text: bytes) -> bytes:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return text.decode("utf-8", "replace").encode()
    return text


def _escapes(text: bytes) -> bytes:
    if b"\\" not in text:
        return text
    return _ESCAPE.sub(lambda found: found[0] if found[1] else rb"\\", text)


def _surrogates(text: bytes) -> bytes:
    if rb"\u" not in text:
        return text
    return _ESCAPED_UNIT.sub(lambda found: found[0] if found[2] else rb"\ufffd", text)


def _controls(text: bytes) -> bytes:
    return text.translate(_CONTROLS)


def _oddities(text: bytes) -> bytes:
    if not _MAYBE_ODD.search(text):
        return text

    def replacement(found: re.Match[bytes]) -> bytes:
        first = found[0][:1]
        return found[0] if first == b'"' else b"" if first == b"," else b"null"

    return _ODDITY.sub(replacement, text)


# In this order, each on top of the ones before.
_STEPS: tuple[Callable[[bytes], bytes], ...] = (
    _utf8,
    _escapes,
    _surrogates,
    _controls,
    _oddities,
)


def is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text)
        msgspec.json.decode(text, type=msgspec.Raw)  # what is passed over is checked otherwise
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def mended(text: bytes) -> bytes | None:
    """``text`` made JSON; None where that fails. Text that is JSON already comes back as it is."""
    if is_json(text):
        return text
    for step in _STEPS:
        before, text = text, step(text)
        if text != before and is_json(text):
            return text
    return next(filter(is_json, _with_quotes_escaped(text)), None)


def _with_quotes_escaped(text: bytes) -> Iterator[bytes]:
    """The event ``text`` with its name taken to end at each place where it could."""
    start = _NAME.search(text)
    if start is None:
        return
    for count, end in enumerate(_NAME_END.finditer(text, start.end())):
        if count == _MOST_NAME_ENDS:
            return
        if _NO_NAME.search(text, start.end(), end.start()):
            return
        name = _BARE_QUOTE.sub(rb'\1\\"', text[start.end() : end.start()])
        yield text[: start.end()] + name + text[end.start() :]


def unbroken(text: bytes) -> tuple[bytes, int]:
    """Many events with what can be mended without knowing where each begins (odd bytes and
    backslashes), and how many of those there were."""
    good = _utf8(text)
    count = good.count(_REPLACEMENT) - text.count(_REPLACEMENT)
    longer = _escapes(good)
    return _surrogates(longer), count + len(longer) - len(good)


def lenient(text: bytes) -> Any:
    """The value that ``text`` stands for, mended where need be; None where that fails."""
    good = mended(text)
    return None if good is None else msgspec.json.decode(good)
