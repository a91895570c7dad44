"""Values of protocol buffers decoded many at once: against encoding one number after the other."""

import random

import numpy as np
import pytest

from traceroof.parsers.nsight import wire


def encoded(number: int) -> bytes:
    """A number as protocol buffers write it: seven bits a byte, the lowest first."""
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])


_EDGES = [0, 1, 127, 128, 2**14 - 1, 2**14, 2**21, 2**28, 2**35, 2**56 - 1, 2**56, 2**63, 2**64 - 1]


def test_numbers_of_every_size() -> None:
    rng = random.Random(1)
    numbers = [*_EDGES, *(rng.getrandbits(rng.randrange(1, 65)) for _ in range(2_000))]
    data, start, end = wire.joined([encoded(one) for one in numbers])
    found, size, good = wire.varint(wire.words_of(data), start)
    assert found.tolist() == numbers
    assert size.tolist() == (end - start).tolist()
    assert good.all()


def test_a_number_of_eleven_bytes_is_none() -> None:
    data, start, _ = wire.joined([b"\xff" * 11])
    assert wire.varint(wire.words_of(data), start)[2].tolist() == [False]


@pytest.mark.parametrize("most", [1, 2, 3, 4, 5, 8, 10])
def test_numbers_of_a_known_size(most: int) -> None:
    """GIVEN sizes that are right THEN all are read; one byte too many or too few is no number."""
    numbers = [one for one in _EDGES if len(encoded(one)) <= most]
    data, start, end = wire.joined([encoded(one) for one in numbers])
    words = wire.words_of(data)
    found, good = wire.sized_varint(words, start, end - start)
    assert found.tolist() == numbers
    assert good.all()
    assert not wire.sized_varint(words, start, end - start + 1)[1].any()
    longer = end - start > 1
    assert not wire.sized_varint(words, start[longer], (end - start)[longer] - 1)[1].any()


def test_values_of_each_kind() -> None:
    """GIVEN 300 in 64 and in 32 bits, 1.5 double, 0.25 single, an infinite one, and text THEN numbers are
    read and the others are none."""
    raws = [
        b"\x12\x03\x28\xac\x02",
        b"\x12\x03\x20\xac\x02",
        b"\x12\x09\x19" + np.float64(1.5).tobytes(),
        b"\x12\x05\x15" + np.float32(0.25).tobytes(),
        b"\x12\x09\x19" + np.float64(np.inf).tobytes(),
        b"\x12\x03\x0a\x01x",
        b"\x12\x03\x28\xac\x82",  # goes on behind its end
    ]
    data, start, end = wire.joined(raws)
    value, after, good = wire.value(data, wire.words_of(data), start, 0x12)
    assert good.tolist() == [True, True, True, True, False, False, False]
    assert value[good].tolist() == [300.0, 300.0, 1.5, 0.25]
    assert after.tolist() == end.tolist()
