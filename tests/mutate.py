"""Damaged copies of real input, the same for the same seed: what fuzz tests feed to readers.

A fuzz test takes ``fuzz_count()`` inputs, gives each to its reader inside ``time_limit``, and
accepts two outcomes: a recording, or a TraceroofError.
"""

import os
import random
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any


def fuzz_count(default: int = 300) -> int:
    """How many mutated inputs to try; ``make fuzz`` sets TRACEROOF_FUZZ to more."""
    return int(os.environ.get("TRACEROOF_FUZZ", default))


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise AssertionError when the body takes more than ``seconds`` of CPU time: it hangs."""

    def stop(number: int, frame: FrameType | None) -> Any:
        raise AssertionError(f"still running after {seconds} s of CPU time")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def mutate(data: bytes, rng: random.Random, donors: Sequence[bytes] = ()) -> bytes:
    """``data`` after one to four random damages. donors: other files to splice in."""
    for _ in range(rng.randint(1, 4)):
        data = rng.choice(_DAMAGES)(data, rng, donors or (data,))
    return data


Damage = Callable[[bytes, random.Random, Sequence[bytes]], bytes]


def _span(data: bytes, rng: random.Random, longest: int = 4096) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.randint(1, longest))


def _truncate(data: bytes, rng: random.Random, donors: Sequence[bytes]) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _behead(data: bytes, rng: random.Random, donors: Sequence[bytes]) -> bytes:
    return data[rng.randrange(len(data) + 1) :]


def _flip(data: bytes, rng: random.Random, donors: Sequence[bytes]) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 40) if changed else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _delete(data: bytes, rng: random.Random, donors: Sequence[bytes]) -> bytes:
    start, end = _span(data, rng)
    return data[:start] + data[end:]


def _duplicate(data: bytes, rng: random.Random, donors: Sequence[bytes]) -> bytes:
    start, end = _span(data, rng)
    return data[:end] + data[start:end] * rng.randint(1, 3) + data[end:]


def _splice(data: bytes, rng: random.Random, donors: Sequence[bytes]) -> bytes:
    donor = rng.choice(donors)
    start, end = _span(donor, rng, 20_000)
    at = rng.randrange(len(data) + 1)
    return data[:at] + donor[start:end] + data[at:]


def _insert_noise(data: bytes, rng: random.Random, donors: Sequence[bytes]) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.randbytes(rng.randint(1, 200)) + data[at:]


# What is special to somebody: quotes, line ends, zeros, brackets, huge and odd numbers.
_TOKENS = (
    b'"', b"'", b"\n", b"\r", b"\0", b",", b";", b"\t", b"{", b"}", b"[", b"]", b"\\", b"\\u0000",
    b"NaN", b"Infinity", b"-1", b"1e309", b"9223372036854775808", b"0.1.2", b"n/a", b"==PROF==",
    b"</script>", b"\xff\xfe", b"\xef\xbb\xbf", "µ\u202f".encode(), b"\x1b[31m",
)  # fmt: skip


def _insert_token(data: bytes, rng: random.Random, donors: Sequence[bytes]) -> bytes:
    for _ in range(rng.randint(1, 10)):
        at = rng.randrange(len(data) + 1)
        data = data[:at] + rng.choice(_TOKENS) + data[at:]
    return data


def _replace_digits(data: bytes, rng: random.Random, donors: Sequence[bytes]) -> bytes:
    start, end = _span(data, rng, 400)
    digits = bytes(rng.choice(b"0123456789.,-e") for _ in range(256))
    table = bytes(digits[n] if 48 <= n < 58 else n for n in range(256))
    return data[:start] + data[start:end].translate(table) + data[end:]


def _shuffle_lines(data: bytes, rng: random.Random, donors: Sequence[bytes]) -> bytes:
    lines = data.split(b"\n")
    start, end = sorted(rng.randrange(len(lines) + 1) for _ in range(2))
    middle = lines[start:end]
    rng.shuffle(middle)
    return b"\n".join(lines[:start] + middle + lines[end:])


def _re_encode(data: bytes, rng: random.Random, donors: Sequence[bytes]) -> bytes:
    text = data.decode("utf-8", errors="replace")
    encoding = rng.choice(("utf-16", "utf-16-le", "utf-16-be", "utf-8-sig", "cp1252", "utf-32"))
    return text.encode(encoding, errors="replace")


def _change_line_ends(data: bytes, rng: random.Random, donors: Sequence[bytes]) -> bytes:
    return data.replace(b"\n", rng.choice((b"\r\n", b"\r", b"\n\n")))


def _swap_signs(data: bytes, rng: random.Random, donors: Sequence[bytes]) -> bytes:
    one, other = rng.sample((b",", b".", b";", b'"', b"\t", b" ", b":"), 2)
    start, end = _span(data, rng, 20_000)
    part = data[start:end].replace(one, b"\x01").replace(other, one).replace(b"\x01", other)
    return data[:start] + part + data[end:]


_DAMAGES: Sequence[Damage] = (
    _truncate, _behead, _flip, _delete, _duplicate, _splice, _insert_noise, _insert_token,
    _replace_digits, _shuffle_lines, _re_encode, _change_line_ends, _swap_signs,
)  # fmt: skip
