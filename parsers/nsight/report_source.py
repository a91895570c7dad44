"""Per-instruction samples and counts of a report, with the source line of every instruction.

A metric lists values by program counter; the modules of the report say which function that is in,
and their line tables which line. A module may come after the launches that ran it, so that lines
are looked up at the end.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from traceroof.core.kernel_table import TEXT
from traceroof.core.source_lines import COUNTS, SAMPLES_OF, SOURCE, source_table
from traceroof.parsers.nsight.cubin import Cubin, Placed
from traceroof.parsers.nsight.report_blocks import decoded
from traceroof.parsers.nsight.report_fields import report_messages
from traceroof.parsers.nsight.report_metrics import Instances, read_instances
from traceroof.parsers.nsight.report_values import LEAST_ADDRESS
from traceroof.parsers.nsight.source_metrics import ACCESSES, SPACES, column_of
from traceroof.parsers.nsight.wire import Ints, Mask, Reals

_MEMORY, _ACCESS = "memory_type", "memory_access_type"
_CODES = {"memory": (_MEMORY, SPACES), "access": (_ACCESS, ACCESSES)}
_REASONS = frozenset(SAMPLES_OF.values())
_MOST_MODULES_BYTES = 1 << 30
# Counts become columns of the table once there are those of so many instructions.
_CHUNK = 1 << 14
# Kernels whose layout is remembered.
_REMEMBERED = 256


@dataclass
class _Module:
    """The code behind a reference: image, and where its functions are."""

    image: bytes = b""
    functions: dict[tuple[int, int], str] = field(default_factory=dict)


class _Kernel(NamedTuple):
    """What launches of one kernel share: its module, what is counted (columns), where it and what it
    calls begin, and the program counter of its first count."""

    reference: int
    columns: tuple[str, ...]
    starts: tuple[int, ...]
    first: bytes


@dataclass(frozen=True, eq=False)
class _Layout:
    """Where the counts of launches of one kernel go: a row per column, in it a count per program
    counter (pcs, ascending).

    row_of: of a column. flat: where each value of the report goes, counted through all rows.
    distinct: no two go to one place. taken: which counts there are. reasons: rows that the last row is
    the sum of.
    """

    kernel: _Kernel
    pcs: Ints
    row_of: Mapping[str, int]
    flat: Ints
    distinct: bool
    taken: Mask
    reasons: Sequence[int]


@dataclass(frozen=True)
class _Counted:
    """The counts of one launch, as the rows of its layout."""

    launch: int
    layout: _Layout
    counts: Ints
    expected: float | None


@dataclass
class ReportSource:
    """Collects what a report says per instruction."""

    note: Callable[[str], None]
    _modules: dict[int, _Module] = field(default_factory=dict)
    _bytes: int = 0
    _known: dict[_Kernel, tuple[Instances, _Layout]] = field(default_factory=dict)
    _waiting: list[_Counted] = field(default_factory=list)
    _instructions: int = 0
    _tables: deque[tuple[pa.Table, list[_Layout]]] = field(default_factory=deque)

    def add_module(self, source: Any) -> None:
        """Take a module, or what a later block adds to it; None for one that was not read."""
        if source is None:
            self.note("modules of code that are damaged or over 256 MiB: their lines are not known")
            return
        module = self._modules.setdefault(source.reference, _Module())
        if source.image and not module.image:
            if self._bytes + len(source.image) > _MOST_MODULES_BYTES:
                self.note("modules of code whose lines are not known: together they are over 1 GiB")
            else:
                self._bytes += len(source.image)
                module.image = source.image
        for one in (*source.loaded.functions, *source.loaded.data):
            module.functions[one.symbol, one.address] = decoded(one.name)

    def add_result(
        self,
        launch: int,
        reference: int,
        lists: Mapping[str, memoryview],
        called: tuple[int, ...],
        expected: float | None,
    ) -> None:
        """Take the instructions of a launch, if the report has any.

        lists: values per instruction, by metric. called: where the kernel and what it calls begin.
        expected: samples that were due in all of its time.
        """
        columns = {name: _column(name) for name in lists}
        wanted = [(column, lists[name]) for name, column in columns.items() if column is not None]
        if all(column in _OF_CODES for column, _ in wanted):
            return
        kernel = _Kernel(
            reference, tuple(one for one, _ in wanted), called, wanted[0][1][:16].tobytes()
        )
        before, layout = self._known.get(kernel, (None, None))
        metric, instance = (report_messages()[name] for name in ("Metric", "Instance"))
        found = read_instances([raw for _, raw in wanted], metric, instance, before)
        good = (found.value >= 0) & (found.value < 2.0**62)
        shared = before is not None and found.at is before.at
        if layout is None or not shared or not good.all():
            good &= found.at >= LEAST_ADDRESS
            layout = _layout(kernel, found.of[good], found.at[good])
            if good.all() and len(found.code):
                if len(self._known) >= _REMEMBERED:
                    self._known.clear()
                self._known[kernel] = found, layout
        if not len(layout.pcs) or not layout.row_of.keys() - _OF_CODES:
            return
        self._waiting.append(_Counted(launch, layout, _counts(layout, found.value[good]), expected))
        self._instructions += len(layout.pcs)
        if self._instructions >= _CHUNK:
            self._take_waiting()

    def _take_waiting(self) -> None:
        """Make columns of what is waiting."""
        waiting, self._waiting, self._instructions = self._waiting, [], 0
        if not waiting:
            return
        sizes = [len(one.layout.pcs) for one in waiting]
        columns: dict[str, Any] = {
            "row": np.repeat([one.launch for one in waiting], sizes),
            "expected_samples": pa.array([one.expected for one in waiting], pa.float64()).take(
                pa.array(np.repeat(np.arange(len(waiting)), sizes))
            ),
        }
        for name in COUNTS:
            columns[name] = _united(waiting, name)
        for name, (metric, words) in _CODES.items():
            codes = _united(waiting, metric)
            columns[name] = None if codes is None else _words(codes, words)
        table = pa.table({name: made for name, made in columns.items() if made is not None})
        self._tables.append((table, [one.layout for one in waiting]))

    def table(self) -> pa.Table:
        """The source table of the report."""
        self._take_waiting()
        opened: dict[int, tuple[Cubin, Placed] | None] = {}
        # Layouts of one kernel that differ in what is counted are in the same places.
        placed: dict[tuple[int, bytes, tuple[int, ...]], dict[str, pa.Array]] = {}
        parts = []
        while self._tables:
            table, layouts = self._tables.popleft()
            places = []
            for one in layouts:
                kernel = one.kernel
                if kernel.reference not in opened:
                    opened[kernel.reference] = self._opened(kernel.reference)
                key = (kernel.reference, one.pcs.tobytes(), kernel.starts)
                if key not in placed:
                    placed[key] = _places(one, opened[kernel.reference])
                places.append(placed[key])
            parts.append(_with_places(table, places))
        return pa.concat_tables(parts) if parts else SOURCE.empty_table()

    def _opened(self, reference: int) -> tuple[Cubin, Placed] | None:
        module = self._modules.get(reference)
        if module is None or not module.image:
            return None
        try:
            cubin = Cubin(module.image)
        except ValueError:
            self.note("modules of code that are damaged: their lines are not known")
            return None
        placed = Placed()
        for symbol, address in module.functions:
            base = cubin.base(symbol, address)
            if base is not None:
                section, start = base
                placed.add(start, cubin.sections[section].size, section)
        if not module.functions:
            for section, start in cubin.bases_by_value().items():
                placed.add(start, cubin.sections[section].size, section)
        return cubin, placed


_OF_CODES = frozenset(metric for metric, _ in _CODES.values())


@cache
def _column(metric: str) -> str | None:
    return metric if metric in _OF_CODES else column_of(metric)


def _layout(kernel: _Kernel, of: Ints, at: Ints) -> _Layout:
    """The layout of values: of which list, and of which program counter."""
    names = list(dict.fromkeys(kernel.columns))
    coded = pa.array(at).dictionary_encode()
    pcs = coded.dictionary.to_numpy()
    order = np.argsort(pcs)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    place = np.array([names.index(column) for column in kernel.columns])[of]
    flat = place * len(pcs) + rank[coded.indices.to_numpy()]
    seen = np.bincount(flat, minlength=len(names) * len(pcs))
    taken = (seen > 0).reshape(len(names), len(pcs))
    # What was sampled and has no sample at an instruction has none; other counts do not fit every
    # instruction.
    for number, name in enumerate(names):
        if name.startswith("samples") and taken[number].any():
            taken[number] = True
    row_of = {name: number for number, name in enumerate(names) if taken[number].any()}
    reasons = [] if "samples" in row_of else [row_of[one] for one in row_of if one in _REASONS]
    if reasons:
        # All samples are those of each reason together.
        row_of["samples"] = len(names)
        taken = np.vstack([taken, np.ones(len(pcs), dtype=bool)])
    distinct = int(seen.max(initial=0)) <= 1
    return _Layout(kernel, pcs[order], row_of, flat, distinct, taken, reasons)


def _counts(layout: _Layout, values: Reals) -> Ints:
    """The rows of a layout. values: as the report lists them."""
    size = layout.taken.size
    counts: Ints = np.zeros(size, np.int64)
    if layout.distinct:
        counts[layout.flat] = values
    else:
        counts[:] = np.bincount(layout.flat, np.floor(values), size)
    counts = counts.reshape(layout.taken.shape)
    if layout.reasons:
        counts[-1] = counts[layout.reasons].sum(axis=0)
    return counts


def _united(waiting: Sequence[_Counted], name: str) -> pa.Array | None:
    """One column of several launches; None where none of them counts it."""
    rows = [one.layout.row_of.get(name) for one in waiting]
    if all(row is None for row in rows):
        return None
    pairs = [
        (np.zeros(len(one.layout.pcs), np.int64), np.zeros(len(one.layout.pcs), dtype=bool))
        if row is None
        else (one.counts[row], one.layout.taken[row])
        for one, row in zip(waiting, rows, strict=True)
    ]
    counts, taken = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
    return pa.array(counts, mask=None if taken.all() else ~taken)


def _words(codes: pa.Array, words: Mapping[int, str]) -> pa.Array:
    """The words for codes; null for others."""
    found = codes.fill_null(-1).to_numpy()
    index = np.full(len(found), -1, np.int32)
    for number, code in enumerate(words):
        index[found == code] = number
    return pa.DictionaryArray.from_arrays(pa.array(index, mask=index < 0), list(words.values()))


def _with_places(table: pa.Table, places: Sequence[Mapping[str, pa.Array]]) -> pa.Table:
    """The counts of launches with the places of their instructions."""
    columns = {name: table[name].chunk(0) for name in table.column_names}
    for name in _PLACES:
        made = pa.concat_arrays([one[name] for one in places])
        columns[name] = made.dictionary_encode() if SOURCE.field(name).type == TEXT else made
    return source_table(columns, len(table))


_PLACES = ("function", "address", "file", "line", "ptx_line", "ptx")


def _places(layout: _Layout, module: tuple[Cubin, Placed] | None) -> dict[str, pa.Array]:
    """Function, address and line of the instructions of a kernel."""
    pcs = layout.pcs
    begin = np.array(sorted(layout.kernel.starts) or [int(pcs[0])], np.int64)
    before = np.clip(np.searchsorted(begin, pcs, side="right") - 1, 0, None)
    address = np.maximum(pcs - begin[before], 0)
    made: dict[str, Any] = {name: [None] * len(pcs) for name in _PLACES}
    made["address"] = address
    if module is not None:
        cubin, placed = module
        places = [placed.find(pc) for pc in pcs.tolist()]
        made["function"] = [place and cubin.function_of(place[0]) for place in places]
        pairs = zip(places, address.tolist(), strict=True)
        made["address"] = [place[1] if place else own for place, own in pairs]
        lines = [_known(place and cubin.source.at(*place)) for place in places]
        made["file"] = [(line[0] or None) if line else None for line in lines]
        made["line"] = [line[1] if line and line[0] else None for line in lines]
        inner = [_known(place and cubin.intermediate.at(*place)) for place in places]
        made["ptx_line"] = [line[1] if line else None for line in inner]
        made["ptx"] = [cubin.ptx_line(line) if line else None for line in inner]
    types = {name: SOURCE.field(name).type for name in _PLACES}
    return {
        name: pa.array(values, pa.string() if types[name] == TEXT else types[name])
        for name, values in made.items()
    }


def _known(line: tuple[str, int] | None) -> tuple[str, int] | None:
    """A line that can be one: a damaged table adds up to any number."""
    return line if line and 0 < line[1] < 2**31 else None
