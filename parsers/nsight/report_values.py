"""The metrics of launches by name: numbers as arrays, everything else as the text that ncu prints."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from traceroof.parsers.nsight.formulas import Floats
from traceroof.parsers.nsight.launches import Launches
from traceroof.parsers.nsight.report_blocks import decoded, report_messages
from traceroof.parsers.nsight.report_metrics import number_of, parsed, read_metrics
from traceroof.parsers.nsight.report_units import unit_of
from traceroof.parsers.nsight.rows import Small
from traceroof.parsers.nsight.wire import Ints, Mask

#: Program counters and times are large numbers; other instances are numbered from 0.
LEAST_ADDRESS = 1 << 16
# Of metrics that are more than a number: how many are remembered, and up to which size.
_REMEMBERED, _LARGEST_REMEMBERED = 1 << 14, 1 << 14


class Said(NamedTuple):
    """A metric that is more than a number: of which name, its value as text (None: it has none), and
    the number of the cell that ``--print-metric-instances details`` prints. odd: its value is of an
    unknown kind."""

    name: int
    text: str | None
    cell: int
    odd: bool


@dataclass
class Names:
    """What the numbers of metric names stand for in one report, and where their rows go."""

    texts: list[str]
    into: Launches
    number: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Tables of several blocks may repeat a name.
        same = [self.number.setdefault(text, number) for number, text in enumerate(self.texts)]
        # The last place is that of a number without a name.
        self.same = np.array([*same, -1], np.int64)
        self._slots: Small = np.full(len(self.texts), -1, np.int32)
        # Launches of one kernel repeat most of what is no single number, byte by byte.
        self._said: dict[bytes, Said | None] = {}

    def slots(self, names: Ints) -> Small:
        """The kinds of metric row of these names."""
        for name in np.unique(names[self._slots[names] < 0]).tolist():
            text = self.texts[name]
            self._slots[name] = self.into.slot("", "", text, unit_of(text))
        return self._slots[names]

    def said(self, raw: bytes) -> Said | None:
        """A metric with text or with values per unit; None where it is damaged."""
        try:
            return self._said[raw]
        except KeyError:
            pass
        found = self._read(raw)
        if len(raw) <= _LARGEST_REMEMBERED:
            if len(self._said) >= _REMEMBERED:
                self._said.clear()
            self._said[raw] = found
        return found

    def _read(self, raw: bytes) -> Said | None:
        metric = parsed(raw, report_messages()["Metric"])
        if metric is None or metric.name >= 2**31:
            # A number that no table of strings reaches names nothing, as a damaged metric does.
            return None
        text = value_text(metric.value)
        cell = self.into.cell(_cell("n/a" if text is None else text, raw, metric))
        return Said(metric.name, text, cell, text is None and bool(metric.value.ByteSize()))


@dataclass(frozen=True)
class Values:
    """The metrics of several launches, in file order; each name once per launch.

    of: which launch, counted from 0. name: -1 is none. value: NaN where it is no number. said: place
    -> what is more than a number. lists: by launch, name -> values per instruction. called: by launch,
    where the kernel and what it calls begin.
    """

    names: Names
    launches: int
    of: Ints
    name: Ints
    value: Floats
    said: dict[int, Said]
    lists: list[dict[str, bytes]]
    called: list[tuple[int, ...]]

    def texts(self, metric: str) -> list[str | None]:
        """The value of one metric per launch; None where it has none."""
        found: list[str | None] = [None] * self.launches
        for place in np.flatnonzero(self.name == self.names.number.get(metric, -2)).tolist():
            found[int(self.of[place])] = _text_of(place, self.value, self.said)
        return found


def values_of(metrics: Sequence[Sequence[bytes]], names: Names) -> Values:
    """The metrics of launches. One that a launch has twice keeps its last value."""
    raws = [raw for one in metrics for raw in one]
    of = np.repeat(np.arange(len(metrics)), [len(one) for one in metrics])
    found = read_metrics(raws)
    name, value = found.name, found.value
    said: dict[int, Said] = {}
    listed: dict[int, bytes] = {}
    for place in found.odd:
        one = names.said(raws[place])
        if one is not None:
            said[place] = one
            name[place] = one.name
    for place, (offset, first) in found.instances.items():
        # Values per instruction and per point in time are for the source table, the others text.
        if first >= LEAST_ADDRESS:
            listed[place] = raws[place][offset:]
        elif (one := names.said(raws[place])) is not None:
            # Where the list is damaged, the value before it holds.
            said[place] = one
    known = (name >= 0) & (name < len(names.texts))
    names.into.note("metrics whose name is missing in the report left out", int((~known).sum()))
    name = names.same[np.where(known, name, -1)]
    for place in [place for place in said if not known[place]]:
        del said[place]
    odd = sum(one.odd for one in said.values())
    names.into.note("metrics whose value is of an unknown kind left unknown", odd)
    _keep_last(of, name, value, said, known, names)
    value[~known] = value[list(said)] = np.nan
    lists: list[dict[str, bytes]] = [{} for _ in metrics]
    for place, raw in listed.items():
        if known[place]:
            lists[int(of[place])][names.texts[int(name[place])]] = raw
    name = np.where(known, name, -1)
    called: list[tuple[int, ...]] = [()] * len(metrics)
    for place in np.flatnonzero(name == names.number.get(_CALLED, -2)).tolist():
        called[int(of[place])] = addresses_in(raws[place])
    kept = {place: one for place, one in said.items() if known[place]}
    return Values(names, len(metrics), of, name, value, kept, lists, called)


_CALLED = "launch__function_pcs"


def _keep_last(
    of: Ints, name: Ints, value: Floats, said: dict[int, Said], known: Mask, names: Names
) -> None:
    """Of several values of one metric in one launch the last that there is stays known."""
    key = of * (len(names.texts) + 1) + name + 1
    places_of: dict[int, list[int]] = defaultdict(list)
    repeated = np.bincount(key)[key] > 1
    for place in np.flatnonzero(repeated & (name >= 0)).tolist():
        places_of[int(key[place])].append(place)
    for places in places_of.values():
        texts = {place: _text_of(place, value, said) for place in places}
        with_value = [place for place in places if texts[place] is not None]
        for before, after in pairwise(with_value):
            if texts[before] != texts[after]:
                text = "metrics measured twice in one launch: the last value kept"
                names.into.note(text, severe=False)
        for place in places:
            known[place] = place == (with_value or places)[-1]


def _text_of(place: int, value: Floats, said: dict[int, Said]) -> str | None:
    if place in said:
        return said[place].text
    return None if np.isnan(value[place]) else _real(float(value[place]))


# --- what is more than a number ------------------------------------------------------------------


def value_text(value: Any) -> str | None:
    """A value as text, in base units and with all its digits; None where there is none."""
    if value.HasField("whole"):
        return str(value.whole)
    if value.HasField("real"):
        return _real(value.real)
    if value.HasField("text"):
        return decoded(value.text)
    if value.HasField("small"):
        return str(value.small)
    return _real(value.single) if value.HasField("single") else None


def _real(value: float) -> str:
    """The shortest text of a number; a whole one as ncu prints it, without decimals."""
    if value.is_integer() and -_EXACT < value < _EXACT:
        return str(int(value))
    return repr(value) if math.isfinite(value) else "nan"


# Whole numbers below it have one double each.
_EXACT = 2.0**53


def _cell(text: str, raw: bytes, metric: Any) -> str:
    """``12 (0: 5; 1: 7)``."""
    whole = parsed(raw, report_messages()["ListedMetric"])
    if whole is not None:
        found = list(whole.instances)
    else:
        instance = report_messages()["Instance"]
        found = [parsed(one, instance) for one in metric.instances]
    if not found or found[0] is None or found[0].at.whole >= LEAST_ADDRESS:
        return text
    listed = "; ".join(
        f"{value_text(one.at) or ''}: {value_text(one.value) or ''}".removeprefix(": ")
        for one in found
        if one is not None
    )
    return f"{text} ({listed})"


@lru_cache(maxsize=1024)
def addresses_in(raw: bytes) -> tuple[int, ...]:
    """The program counters that a metric lists: where a kernel and what it calls begin."""
    found = parsed(raw, report_messages()["ListedMetric"])
    values = [number_of(one.value) for one in (found.instances if found is not None else ())]
    return tuple(int(one) for one in values if LEAST_ADDRESS <= one < 2.0**53)
