"""Values of protocol buffers decoded as arrays: many at once, each at its place in a run of bytes."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]

#: Behind the last byte, so that a look ahead by any length of one byte stays in the array.
ROOM = 512
#: Kinds of value, by tag: 32 or 64 bits whole, single or double.
SMALL, WHOLE, SINGLE, DOUBLE = 0x20, 0x28, 0x15, 0x19
_LONGEST_VARINT = 10
_BYTE = np.uint64(0xFF)
_SEVEN = np.uint64(0x7F)
_HIGHEST = np.uint64(0x8080808080808080)
# Which of eight bytes, from 1, by a lone bit in it.
_WHICH = np.uint64(0x0102030405060708)
# How the seven bits of each byte move together: of pairs, of fours, of eights.
_FOLDS = tuple(
    (np.uint64(low), np.uint64(high), np.uint64(shift))
    for low, high, shift in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
)
#: The bits of a word that a number of so many bytes fills.
FILLED = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)
_FILLED_OF_FOUR = FILLED[:5].astype(np.uint32)
_HIGHEST_OF_FOUR = np.uint32(0x80808080)


def joined(raws: Sequence[bytes | memoryview]) -> tuple[Bytes, Ints, Ints]:
    """The bytes in one array, with room behind them, and where each begins and ends."""
    end = np.cumsum(np.fromiter(map(len, raws), np.int64, len(raws)))
    data = np.frombuffer(b"".join([*raws, bytes(ROOM)]), np.uint8)
    start = np.zeros(len(end), np.int64)
    start[1:] = end[:-1]
    return data, start, end


def words_of(data: Bytes) -> Words:
    """The eight bytes from every byte on, as one number each."""
    return np.ndarray(len(data) - 7, np.dtype("<u8"), data.data, strides=(1,))


def value(data: Bytes, words: Words, at: Ints, tag: int) -> tuple[Reals, Ints, Mask]:
    """(value, where it ends, whether it is a finite number) of the values that begin at ``at`` with
    their tag and length."""
    length, kind = data[at + 1], data[at + 2]
    good = (data[at] == tag) & (length > 1) & (length <= _LONGEST_VARINT + 1)
    # 32 and 64 bits whole differ in one bit.
    whole = good & ((kind & 0xF7) == SMALL)
    after = at + 2 + length
    if whole.all():
        number, fits = _of_size(data, words, at + 3, length - np.uint8(1))
        return number.astype(np.float64), after, good & fits
    found = np.full(len(at), np.nan)
    if whole.any():
        size = (length[whole] - np.uint8(1)).astype(np.int64)
        number, fits = sized_varint(words, at[whole] + 3, size)
        found[whole] = np.where(fits, number, np.nan)
    for wanted, size_of, form in ((DOUBLE, 8, "<f8"), (SINGLE, 4, "<f4")):
        mine = good & (kind == wanted) & (length == size_of + 1)
        if mine.any():
            found[mine] = words[at[mine] + 3].view(form)[:: 8 // size_of]
    return found, after, good & np.isfinite(found)


def _of_size(data: Bytes, words: Words, at: Ints, size: Bytes) -> tuple[Words, Mask]:
    """(number, whether it is one) of numbers of a known size in bytes that begin at ``at``."""
    if int(size.max(initial=0)) > 4:
        return sized_varint(words, at, size.astype(np.int64))
    # Half the width is half the work.
    filled = _FILLED_OF_FOUR[size]
    fours = np.ndarray(len(data) - 3, np.dtype("<u4"), data.data, strides=(1,))
    number = fours[at] & filled
    good = (number & _HIGHEST_OF_FOUR) == (_HIGHEST_OF_FOUR & filled >> np.uint32(8))
    found = number & np.uint32(0x7F)
    for byte in range(1, int(size.max(initial=0))):
        found |= number >> np.uint32(byte) & np.uint32(0x7F << 7 * byte)
    return found.astype(np.uint64), good


def bytes_at(words: Words, at: Ints, size: Ints) -> tuple[Words, Mask]:
    """(the bytes as one number, whether so many fit into one) of up to eight bytes at each place."""
    good = (size >= 1) & (size <= 8)
    return words[at] & FILLED[np.where(good, size, 0)], good


def sized_varint(words: Words, at: Ints, size: Ints) -> tuple[Words, Mask]:
    """(number, whether it is one) of numbers of a known size in bytes that begin at ``at``."""
    if int(size.max(initial=0)) > 8 or int(size.min(initial=1)) < 1:
        number, found, good = varint(words, at)
        return number, good & (found == size)
    return _sized(words[at], size)


def _sized(number: Words, size: Ints) -> tuple[Words, Mask]:
    """The same of numbers of one to eight bytes, each at the low end of a word."""
    filled = FILLED[size]
    number = number & filled
    # All bytes but the last go on.
    good = (number & _HIGHEST) == (_HIGHEST & filled >> np.uint64(8))
    return folded(number, int(size.max(initial=0))), good


def varint(words: Words, at: Ints) -> tuple[Words, Ints, Mask]:
    """(number, bytes, whether it ends) of the numbers of up to ten bytes that begin at ``at``."""
    word = words[at]
    ends = ~word & _HIGHEST
    ends &= ~ends + np.uint64(1)
    size = ((ends >> np.uint64(7)) * _WHICH >> np.uint64(56)).view(np.int64)
    number = folded(word & (ends ^ (ends - np.uint64(1))), 8)
    good = np.ones(len(at), dtype=bool)
    longer = np.flatnonzero(size == 0)
    if len(longer):
        rest = words[at[longer] + 8]
        ninth, tenth = rest & _BYTE, rest >> np.uint64(8) & _BYTE
        goes_on = ninth > _SEVEN
        number[longer] |= (ninth & _SEVEN) << np.uint64(56)
        number[longer] |= np.where(goes_on, tenth, np.uint64(0)) << np.uint64(63)
        size[longer] = np.where(goes_on, 10, 9)
        good[longer] = ~goes_on | (tenth <= _SEVEN)
    return number, size, good


def folded(number: Words, most: int) -> Words:
    """The seven bits of each byte as one number. most: bytes of the longest."""
    for (low, high, shift), reach in zip(_FOLDS, (1, 2, 4), strict=True):
        if most > reach:
            number = (number & low) | ((number & high) >> shift)
        else:
            number = number & low
            break
    return number
