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
from traceroof.parsers.nsight.report_blocks import decoded
from traceroof.parsers.nsight.report_fields import report_messages
from traceroof.parsers.nsight.report_layouts import Layouts
from traceroof.parsers.nsight.report_memo import Memo
from traceroof.parsers.nsight.report_metrics import Metrics, number_of, parsed
from traceroof.parsers.nsight.report_places import Places
from traceroof.parsers.nsight.report_rules import Rules
from traceroof.parsers.nsight.report_units import unit_of
from traceroof.parsers.nsight.rows import Small
from traceroof.parsers.nsight.wire import Ints, Mask

#: Program counters and times are large numbers; other instances are numbered from 0.
LEAST_ADDRESS = 1 << 16

_NO_SLOT = -2


class Said(NamedTuple):
    """Metrics that are more than numbers, one behind the other: of which names, and the numbers of the
    cells that ``--print-metric-instances details`` prints (-1: the metric is damaged). odd: values
    of an unknown kind."""

    name: Ints
    cell: Small
    odd: Mask


@dataclass
class Names:
    """What the numbers of metric names stand for in one report, and where their rows go."""

    texts: list[str]
    into: Launches
    number: dict[str, int] = field(default_factory=dict)
    layouts: Layouts = field(default_factory=Layouts)

    def __post_init__(self) -> None:
        # Tables of several blocks may repeat a name.
        same = [self.number.setdefault(text, number) for number, text in enumerate(self.texts)]
        # The last place is that of a number without a name.
        self.same = np.array([*same, -1], np.int64)
        self._slots: Small = np.array([*[_NO_SLOT] * len(self.texts), -1], np.int32)
        self._last: Schema | None = None
        # Launches of one kernel repeat most of what is no single number, byte by byte.
        self._said = Memo[Said]()
        self.rules = Rules()
        #: Of a cell the value before what is listed; None where it has none.
        self.text_of: dict[int, str | None] = {}

    def schema(self, read: Ints, of: Ints) -> "Schema":
        """The metrics with these names in these launches. Launches of one kernel share theirs."""
        last = self._last
        if last is not None and np.array_equal(last.read, read) and np.array_equal(last.of, of):
            return last
        known = (read >= 0) & (read < len(self.texts))
        name = self.same[np.where(known, read, -1)]
        for one in np.unique(name[self._slots[name] == _NO_SLOT]).tolist():
            text = self.texts[one]
            self._slots[one] = self.into.slot("", "", text, unit_of(text))
        repeated = len(_repeated(of, name)[0]) > 0
        self._last = Schema(read.copy(), of, name, self._slots[name], repeated)
        return self._last

    def said(self, found: Places, first: int, last: int) -> Said:
        """Some metrics with text or with values per unit, one behind the other."""
        raw = found.data[found.start[first] : found.end[last]].tobytes()
        return self._said.of(
            raw, lambda _: self._read([found.raw(place) for place in range(first, last + 1)])
        )

    def _read(self, raws: Sequence[bytes]) -> Said:
        name = np.full(len(raws), -1, np.int64)
        cell: Small = np.full(len(raws), -1, np.int32)
        odd = np.zeros(len(raws), dtype=bool)
        for place, raw in enumerate(raws):
            metric = parsed(raw, report_messages()["Metric"])
            if metric is None or metric.name >= 2**31:
                # A number that no table of strings reaches names nothing, as a damaged metric does.
                continue
            text = value_text(metric.value)
            name[place] = metric.name
            cell[place] = self.into.cell(_cell("n/a" if text is None else text, raw, metric))
            self.text_of[int(cell[place])] = text
            odd[place] = text is None and bool(metric.value.ByteSize())
        return Said(name, cell, odd)


@dataclass(frozen=True)
class Schema:
    """Which metrics several launches have, in file order; those of one kernel share it.

    read: the numbers of their names as read. of: which launch, counted from 0. name: -1 is none. slot:
    the kind of metric row, -1 where there is no name. repeated: whether a launch has a name twice.
    """

    read: Ints
    of: Ints
    name: Ints
    slot: Small
    repeated: bool
    _places: dict[int, Ints] = field(default_factory=dict)

    def places(self, name: int) -> Ints:
        """Where one metric stands."""
        if name not in self._places:
            self._places[name] = np.flatnonzero(self.name == name)
        return self._places[name]


@dataclass(frozen=True)
class Values:
    """The metrics of several launches, in file order; each name once per launch.

    value: NaN where it is no number. known: which of them count. cell: of what is more than a number;
    -1 for the others. lists: by launch, name -> values per instruction. called: by launch, where the kernel and
    what it calls begin.
    """

    names: Names
    launches: int
    schema: Schema
    value: Floats
    known: Mask
    cell: Small
    lists: list[dict[str, memoryview]]
    called: list[tuple[int, ...]]

    @property
    def slot(self) -> Small:
        """The kind of metric row of each; -1 for those that do not count."""
        return np.where(self.known, self.schema.slot, -1).astype(np.int32)

    def texts(self, metric: str) -> list[str | None]:
        """The value of one metric per launch; None where it has none."""
        found: list[str | None] = [None] * self.launches
        for place in self._places(metric):
            found[int(self.schema.of[place])] = _text_of(place, self.value, self.cell, self.names)
        return found

    def numbers(self, metric: str) -> Floats:
        """The value of one metric per launch; NaN where it has none."""
        found = np.full(self.launches, np.nan)
        for place in self._places(metric):
            found[self.schema.of[place]] = self.value[place]
        return found

    def _places(self, metric: str) -> list[int]:
        places = self.schema.places(self.names.number.get(metric, -2))
        found: list[int] = places[self.known[places]].tolist()
        return found


def values_of(found: Places, read: Metrics, launches: int, names: Names) -> Values:
    """The metrics of launches, where they are and as they were read. One that a launch has twice keeps
    its last value."""
    name, value = read.name, read.value
    # Values per instruction and per point in time are for the source table, the others text.
    is_count = read.first >= LEAST_ADDRESS
    more = np.sort(np.concatenate([read.odd, read.listed[~is_count]]))
    cell, odd = _said(found, more, name, names)
    schema = names.schema(name, found.of)
    known = schema.name >= 0
    names.into.note("metrics whose name is missing in the report left out", int((~known).sum()))
    odd_ones = int((odd & known).sum())
    names.into.note("metrics whose value is of an unknown kind left unknown", odd_ones)
    if schema.repeated:
        _keep_last(schema, value, cell, known, names)
    value[~known | (cell >= 0)] = np.nan
    cell[~known] = -1
    lists: list[dict[str, memoryview]] = [{} for _ in range(launches)]
    view = found.data.data
    counts = read.listed[is_count], read.begins[is_count]
    for place, begins in zip(*(one.tolist() for one in counts), strict=True):
        if known[place]:
            listed = view[begins : int(found.end[place])]
            lists[int(found.of[place])][names.texts[int(schema.name[place])]] = listed
    called: list[tuple[int, ...]] = [()] * launches
    for place in schema.places(names.number.get(_CALLED, -2)).tolist():
        if known[place]:
            called[int(found.of[place])] = addresses_in(found.raw(place))
    return Values(names, launches, schema, value, known, cell, lists, called)


def _said(found: Places, more: Ints, name: Ints, names: Names) -> tuple[Small, Mask]:
    """(the cells of metrics, whether their value is of an unknown kind). more: places of those that
    are more than a number. name: filled in where these name themselves."""
    cell: Small = np.full(len(name), -1, np.int32)
    odd = np.zeros(len(name), dtype=bool)
    if not len(more):
        return cell, odd
    apart = (np.diff(more) > 1) | (np.diff(found.of[more]) > 0)
    last = np.append(more[:-1][apart], more[-1])
    first = np.append(more[0], more[1:][apart])
    for begin, end in zip(first.tolist(), last.tolist(), strict=True):
        said = names.said(found, begin, end)
        mine = slice(begin, end + 1)
        # Where a list is damaged, the value before it holds.
        name[mine] = np.where(said.cell >= 0, said.name, name[mine])
        cell[mine] = said.cell
        odd[mine] = said.odd
    return cell, odd


_CALLED = "launch__function_pcs"


def _repeated(of: Ints, name: Ints) -> tuple[Ints, Ints]:
    """(where a launch has a name of which it has several, launch and name as one number)."""
    key = of * (int(name.max(initial=0)) + 2) + name + 1
    return np.flatnonzero((np.bincount(key)[key] > 1) & (name >= 0)), key


def _keep_last(schema: Schema, value: Floats, cell: Small, known: Mask, names: Names) -> None:
    """Of several values of one metric in one launch the last that there is stays known."""
    places_of: dict[int, list[int]] = defaultdict(list)
    repeated, key = _repeated(schema.of, schema.name)
    for place in repeated.tolist():
        places_of[int(key[place])].append(place)
    for places in places_of.values():
        texts = {place: _text_of(place, value, cell, names) for place in places}
        with_value = [place for place in places if texts[place] is not None]
        for before, after in pairwise(with_value):
            if texts[before] != texts[after]:
                text = "metrics measured twice in one launch: the last value kept"
                names.into.note(text, severe=False)
        for place in places:
            known[place] = place == (with_value or places)[-1]


def _text_of(place: int, value: Floats, cell: Small, names: Names) -> str | None:
    if cell[place] >= 0:
        return names.text_of[int(cell[place])]
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
