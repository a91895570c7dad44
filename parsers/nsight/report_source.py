"""Per-instruction samples and counts of a report, with the source line of every instruction.

A metric lists values by program counter; the modules of the report say which function that is in,
and their line tables which line. A module may come after the launches that ran it, so that lines
are looked up at the end.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core.source_lines import SAMPLES_OF, SOURCE, source_table
from traceroof.parsers.nsight.cubin import Cubin, Placed
from traceroof.parsers.nsight.report_blocks import decoded, report_messages
from traceroof.parsers.nsight.report_metrics import number_of, parsed, read_instances
from traceroof.parsers.nsight.source_metrics import ACCESSES, SPACES, column_of

Ints = npt.NDArray[np.int64]

_MEMORY, _ACCESS = "memory_type", "memory_access_type"
_CODES = {_MEMORY: "memory", _ACCESS: "access"}
#: Program counters and times are large numbers; other instances are numbered from 0.
LEAST_ADDRESS = 1 << 16
_MOST_MODULES_BYTES = 1 << 30


@dataclass
class _Module:
    """The code behind a reference: image, and where its functions are."""

    image: bytes = b""
    functions: dict[tuple[int, int], str] = field(default_factory=dict)


@dataclass
class _Counted:
    """The instructions of one launch, n program counters, ascending, and a column per count."""

    launch: int
    reference: int
    pcs: Ints
    columns: dict[str, Any]
    starts: list[int]
    expected: float | None


@dataclass
class ReportSource:
    """Collects what a report says per instruction."""

    note: Callable[[str], None]
    _modules: dict[int, _Module] = field(default_factory=dict)
    _counted: list[_Counted] = field(default_factory=list)
    _bytes: int = 0

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
        lists: Mapping[str, bytes],
        called: Any,
        expected: float | None,
    ) -> None:
        """Take the instructions of a launch, if the report has any.

        lists: values per instruction, by metric. called: the metric that lists where the kernel and
        what it calls begin. expected: samples that were due in all of its time.
        """
        columns = {name: name if name in _CODES else column_of(name) for name in lists}
        counts = _by_instruction(
            [(column, lists[name]) for name, column in columns.items() if column is not None]
        )
        if counts is None:
            return
        pcs, found = counts
        made = _with_all_samples(found)
        for name, words in ((_MEMORY, SPACES), (_ACCESS, ACCESSES)):
            codes = found.get(name)
            made[_CODES[name]] = (
                [None] * len(pcs)
                if codes is None
                else [words.get(one) for one in codes.to_pylist()]
            )
        starts = _starts(called)
        self._counted.append(_Counted(launch, reference, pcs, made, starts, expected))

    def table(self) -> pa.Table:
        """The source table of the report."""
        opened: dict[int, tuple[Cubin, Placed] | None] = {}
        # Launches of one kernel run the same instructions.
        placed: dict[tuple[int, bytes, tuple[int, ...]], dict[str, pa.Array]] = {}
        parts = []
        for one in self._counted:
            if one.reference not in opened:
                opened[one.reference] = self._opened(one.reference)
            key = (one.reference, one.pcs.tobytes(), tuple(one.starts))
            if key not in placed:
                placed[key] = _places(one, opened[one.reference])
            size = len(one.pcs)
            row = np.full(size, one.launch)
            due = pa.repeat(pa.scalar(one.expected, pa.float64()), size)
            parts.append(
                source_table(
                    {"row": row, "expected_samples": due, **one.columns, **placed[key]}, size
                )
            )
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


def _by_instruction(of: Sequence[tuple[str, bytes]]) -> tuple[Ints, dict[str, pa.Array]] | None:
    """The program counters of a launch, ascending, and the counts of each column at them, null where
    none was taken; None where nothing but codes is known."""
    names = list(dict.fromkeys(column for column, _ in of))
    if not set(names) - _CODES.keys():
        return None
    classes = (report_messages()[name] for name in ("Metric", "Instance"))
    found = read_instances([raw for _, raw in of], *classes)
    place = np.array([names.index(column) for column, _ in of])[found.of]
    good = (found.at >= LEAST_ADDRESS) & (found.value >= 0) & (found.value < 2.0**62)
    coded = pa.array(found.at[good]).dictionary_encode()
    pcs = coded.dictionary.to_numpy()
    if not len(pcs):
        return None
    order = np.argsort(pcs)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    pcs, at = pcs[order], rank[coded.indices.to_numpy()]
    flat, size = place[good] * len(pcs) + at, len(names) * len(pcs)
    total = np.bincount(flat, np.floor(found.value[good]), size).astype(np.int64)
    seen = np.bincount(flat, minlength=size) > 0
    # What was sampled and has no sample at an instruction has none; other counts do not fit every
    # instruction.
    sampled = np.repeat([name.startswith("samples") for name in names], len(pcs))
    missing = (~(seen | sampled)).reshape(len(names), -1)
    rows, some, none = total.reshape(len(names), -1), missing.any(axis=1), missing.all(axis=1)
    counts = {
        name: pa.array(rows[number], mask=missing[number] if some[number] else None)
        for number, name in enumerate(names)
        if not none[number]
    }
    return (pcs, counts) if counts.keys() - _CODES.keys() else None


def _with_all_samples(counts: Mapping[str, pa.Array]) -> dict[str, Any]:
    """The counts, with all samples where only those of each reason are there."""
    made: dict[str, Any] = {name: values for name, values in counts.items() if name not in _CODES}
    reasons = [made[name] for name in SAMPLES_OF.values() if name in made]
    if "samples" not in made and reasons:
        made["samples"] = np.sum([one.to_numpy() for one in reasons], axis=0)
    return made


def _places(counted: _Counted, module: tuple[Cubin, Placed] | None) -> dict[str, pa.Array]:
    """Function, address and line of the instructions of a launch."""
    starts = sorted(counted.starts) or [int(counted.pcs[0])]
    begin = np.array(starts, np.int64)
    before = np.clip(np.searchsorted(begin, counted.pcs, side="right") - 1, 0, None)
    address = np.maximum(counted.pcs - begin[before], 0)
    made: dict[str, Any] = {"address": address}
    if module is not None:
        cubin, placed = module
        places = [placed.find(pc) for pc in counted.pcs.tolist()]
        made["function"] = [place and cubin.function_of(place[0]) for place in places]
        pairs = zip(places, address.tolist(), strict=True)
        made["address"] = [place[1] if place else own for place, own in pairs]
        lines = [_known(place and cubin.source.at(*place)) for place in places]
        made["file"] = [(line[0] or None) if line else None for line in lines]
        made["line"] = [line[1] if line and line[0] else None for line in lines]
        inner = [_known(place and cubin.intermediate.at(*place)) for place in places]
        made["ptx_line"] = [line[1] if line else None for line in inner]
        made["ptx"] = [cubin.ptx_line(line) if line else None for line in inner]
    return {name: pa.array(values, SOURCE.field(name).type) for name, values in made.items()}


def _known(line: tuple[str, int] | None) -> tuple[str, int] | None:
    """A line that can be one: a damaged table adds up to any number."""
    return line if line and 0 < line[1] < 2**31 else None


def _starts(metric: Any) -> list[int]:
    """Start addresses of the kernel and of what it calls."""
    instance = report_messages()["Instance"]
    found = (parsed(raw, instance) for raw in (metric.instances if metric is not None else ()))
    values = [number_of(one.value) for one in found if one is not None]
    return [int(one) for one in values if LEAST_ADDRESS <= one < 2.0**53]
