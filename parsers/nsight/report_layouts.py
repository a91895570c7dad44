"""Metrics of small results in places that are known from results before.

Launches of one kernel, and often those of several, have their metrics in the same places: their bytes
differ in values, not in tags, names or lengths. Where all bytes but those of values are the same, what
was found for one result holds for the next, and nothing needs to be looked for again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from traceroof.parsers.nsight import wire
from traceroof.parsers.nsight.report_fields import report_messages
from traceroof.parsers.nsight.report_metrics import VALUE, Metrics, parsed
from traceroof.parsers.nsight.report_places import METRIC, Places, before_metrics
from traceroof.parsers.nsight.wire import Bytes, Ints, Words

# Bytes of a result that is small. In large ones lists of other lengths move what is behind them.
_SMALL = 1 << 16
# Bytes of an instance that say what it is of: four tags and lengths, a kind and a number.
_FIRST = 16
# Layouts that are remembered of launches that begin alike; bytes of all of them.
_PER_HEAD, _REMEMBERED = 4, 1 << 24
_ANY, _SAME, _GOES_ON = 0x00, 0xFF, 0x80


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the metrics of a result are, counted from the first of them.

    mask: the bits of each byte that are the same in all such results, and fixed: what they are. then: the
    byte behind them, which is that of another field.
    start, end: of each metric. double: places of those that are a double, whole: of those that are a whole number;
    double_at and whole_at: where that stands, filled: which bits of the eight bytes there are a whole
    number's. metrics: all but the values.
    """

    mask: Bytes
    fixed: Bytes
    then: bytes
    start: Ints
    end: Ints
    double: Ints
    double_at: Ints
    whole: Ints
    whole_at: Ints
    filled: Words
    metrics: Metrics

    def fits(self, raw: bytes, at: int) -> bool:
        """Whether the metrics of a result, which begin at ``at``, are in these places."""
        size = len(self.mask)
        end = at + size
        if len(raw) < end or raw[end : end + 1] != self.then:
            return False
        # Eight bytes at once, and those that are left.
        eights = size & ~7
        found = np.frombuffer(raw, np.uint64, eights // 8, at)
        same = (found & self.mask[:eights].view(np.uint64)) == self.fixed[:eights].view(np.uint64)
        rest = np.frombuffer(raw, np.uint8, size - eights, at + eights) & self.mask[eights:]
        return bool(same.all() and (rest == self.fixed[eights:]).all())


@dataclass(frozen=True)
class Known:
    """A result in a known layout: where its metrics begin, and its message without them."""

    raw: bytes
    layout: Layout
    at: int
    message: Any


@dataclass
class Layouts:
    """The layouts of one report. They are learnt where a layout comes for the second time."""

    _of_head: dict[bytes, list[Layout]] = field(default_factory=dict)
    _layouts: dict[tuple[bytes, bytes], Layout] = field(default_factory=dict)
    _seen: set[tuple[bytes, int]] = field(default_factory=set)
    _bytes: int = 0

    def find(self, raw: bytes) -> Known | None:
        """A result whose layout is known; None for others."""
        if len(raw) > _SMALL or not self._layouts:
            return None
        at = before_metrics(raw)
        for layout in self._of_head.get(raw[:at], ()):
            if layout.fits(raw, at):
                message = parsed(
                    raw[:at] + raw[at + len(layout.mask) :], report_messages()["Result"]
                )
                # Metrics behind other fields are in no layout.
                whole = message is not None and not message.metrics
                return Known(raw, layout, at, message) if whole else None
        return None

    def learn(self, raws: Sequence[bytes], places: Places, metrics: Metrics) -> None:
        """Remember the layouts of results that have been read."""
        begin = wire.joined(raws)[1]
        bounds = np.searchsorted(places.of, np.arange(len(raws) + 1)).tolist()
        for number, raw in enumerate(raws):
            first, last = bounds[number], bounds[number + 1]
            if len(raw) > _SMALL or first == last:
                continue
            at = before_metrics(raw)
            head, size = raw[:at], int(places.end[last - 1] - begin[number]) - at
            key = (head, size)
            if key not in self._seen:
                self._seen.add(key)
                continue
            then = raw[at + size : at + size + 1]
            made = _layout(places, metrics, int(begin[number]) + at, then, first, last)
            if made is not None:
                self._remember(head, made)

    def _remember(self, head: bytes, made: Layout) -> None:
        self._bytes += len(head) + 6 * len(made.mask)
        if self._bytes > _REMEMBERED:
            self._of_head.clear()
            self._layouts.clear()
            self._seen.clear()
            self._bytes = 0
        layout = self._layouts.setdefault((made.mask.tobytes(), made.fixed.tobytes()), made)
        mine = self._of_head.setdefault(head, [])
        if layout not in mine:
            mine[_PER_HEAD - 1 :] = []
            mine.insert(0, layout)


def _layout(
    places: Places, metrics: Metrics, origin: int, then: bytes, first: int, last: int
) -> Layout | None:
    """The layout of one result, whose metrics begin at ``origin`` and are those from first to last;
    None where they are not one behind the other, with another field behind them."""
    data, start, end = places.data, places.start[first:last], places.end[first:last]
    name, value = metrics.name[first:last], metrics.value[first:last]
    if then == METRIC or not bool((data[[origin, *end[:-1].tolist()]] == METRIC[0]).all()):
        return None
    mask = np.full(int(end[-1]) - origin, _SAME, np.uint8)
    good = np.flatnonzero(name >= 0)
    letters = 1 + (name[good] > 0x7F) + (name[good] > 0x3FFF)
    begins = start[good] + 1 + letters
    size, kind = data[begins + 1] - 1, data[begins + 2]
    double = (kind == wire.DOUBLE) & (size == 8)
    whole = ((kind & 0xF7) == wire.SMALL) & (size <= 8)
    # Numbers in rarer forms are read one by one.
    if not bool(((data[begins] == VALUE) & (double | whole)).all()):
        return None
    at = begins + 3 - origin
    for byte in range(8):
        mask[at[double] + byte] = _ANY
        mask[at[whole & (size > byte)] + byte] = _GOES_ON
    mine = slice(*np.searchsorted(metrics.listed, (first, last)).tolist())
    listed, lists = metrics.listed[mine] - first, metrics.begins[mine]
    for one, stop in zip(
        (lists + _FIRST - origin).tolist(), (end[listed] - origin).tolist(), strict=True
    ):
        mask[one:stop] = _ANY
    odd = metrics.odd[slice(*np.searchsorted(metrics.odd, (first, last)).tolist())] - first
    for one, stop in zip((start[odd] - origin).tolist(), (end[odd] - origin).tolist(), strict=True):
        mask[one:stop] = _ANY
    fixed = data[origin : int(end[-1])] & mask
    found = Metrics(name, value[:0], listed, lists - origin, metrics.first[mine], odd)
    return Layout(
        mask, fixed, then, start - origin, end - origin, good[double], at[double],
        good[whole], at[whole], wire.FILLED[size[whole]], found,
    )  # fmt: skip


def read_known(known: Sequence[Known]) -> tuple[Places, Metrics] | None:
    """The metrics of results in known layouts; None where one has a value that is no usual one."""
    layouts = [one.layout for one in known]
    data, origin, _ = wire.joined(
        [memoryview(one.raw)[one.at : one.at + len(one.layout.mask)] for one in known]
    )
    words = wire.words_of(data)
    counts = [len(one.start) for one in layouts]
    first = np.cumsum([0, *counts[:-1]])

    def moved(parts: Sequence[Ints], by: Ints) -> Ints:
        """Places or bytes of each result, counted through all of them."""
        sizes = [len(one) for one in parts]
        if len(set(sizes)) == 1:
            return (np.concatenate(parts).reshape(len(parts), -1) + by[:, None]).ravel()
        return np.concatenate(parts) + np.repeat(by, sizes)

    value = np.full(sum(counts), np.nan)
    double = words[moved([one.double_at for one in layouts], origin)].view("<f8")
    if not bool(np.isfinite(double).all()):
        return None
    value[moved([one.double for one in layouts], first)] = double
    bits = words[moved([one.whole_at for one in layouts], origin)]
    bits &= np.concatenate([one.filled for one in layouts])
    value[moved([one.whole for one in layouts], first)] = wire.folded(bits, 8)
    start = moved([one.start for one in layouts], origin)
    end = moved([one.end for one in layouts], origin)
    found = [one.metrics for one in layouts]
    metrics = Metrics(
        np.concatenate([one.name for one in found]),
        value,
        moved([one.listed for one in found], first),
        moved([one.begins for one in found], origin),
        np.concatenate([one.first for one in found]),
        moved([one.odd for one in found], first),
    )
    of = np.repeat(np.arange(len(known)), counts)
    return Places(data, words, start, end, of), metrics
