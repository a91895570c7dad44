"""Per-instruction samples and counts of a report, with the source line of every instruction.

A metric lists values by program counter; the modules of the report say which function that is in,
and their line tables which line. A module may come after the launches that ran it, so that lines
are looked up at the end.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core.source_lines import SAMPLES_OF, SOURCE, source_table
from traceroof.parsers.nsight.cubin import Cubin, Placed
from traceroof.parsers.nsight.report_blocks import decoded
from traceroof.parsers.nsight.source_metrics import ACCESSES, NOT_ISSUED, SPACES, column_of

Ints = npt.NDArray[np.int64]

_MEMORY, _ACCESS = "memory_type", "memory_access_type"
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
    columns: dict[str, list[int | None]]
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

    def add_result(self, launch: int, result: Any, metrics: Mapping[str, Any]) -> None:
        """Take the instructions of a launch, if the report has any."""
        found: dict[str, dict[int, int]] = {}
        for name, metric in metrics.items():
            column = name if name in (_MEMORY, _ACCESS) else column_of(name)
            if column is None or not len(metric.instances):
                continue
            into = found.setdefault(column, {})
            for one in metric.instances:
                pc, value = one.at.whole, _whole(one.value)
                if pc >= LEAST_ADDRESS and pc < 2**63 and value is not None:
                    into[pc] = into.get(pc, 0) + value
        counted = {name: values for name, values in found.items() if name not in (_MEMORY, _ACCESS)}
        if not any(counted.values()):
            return
        if not counted.get("samples"):
            counted["samples"] = _summed(counted)
        pcs = sorted({pc for values in counted.values() for pc in values})
        columns: dict[str, list[Any]] = {
            # What was sampled and has no sample at an instruction has none; other counts do not
            # fit every instruction.
            name: [values.get(pc, 0 if name.startswith("samples") else None) for pc in pcs]
            for name, values in counted.items()
            if values
        }
        for name, words, of in (("memory", SPACES, _MEMORY), ("access", ACCESSES, _ACCESS)):
            codes = found.get(of, {})
            columns[name] = [words.get(codes.get(pc, 0)) for pc in pcs]
        self._counted.append(
            _Counted(
                launch, result.source.reference, np.array(pcs, np.int64), columns,
                _starts(metrics.get("launch__function_pcs")), _expected(metrics),
            )
        )  # fmt: skip

    def table(self) -> pa.Table:
        """The source table of the report."""
        opened: dict[int, tuple[Cubin, Placed] | None] = {}
        parts = []
        for one in self._counted:
            if one.reference not in opened:
                opened[one.reference] = self._opened(one.reference)
            parts.append(_table(one, opened[one.reference]))
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


def _table(counted: _Counted, module: tuple[Cubin, Placed] | None) -> pa.Table:
    """The instructions of one launch, each with its function and line."""
    count = len(counted.pcs)
    made: dict[str, Any] = {
        "row": [counted.launch] * count,
        "expected_samples": [counted.expected] * count,
        **counted.columns,
    }
    starts = sorted(counted.starts) or [int(counted.pcs[0])]
    begin = np.array(starts, np.int64)
    before = np.clip(np.searchsorted(begin, counted.pcs, side="right") - 1, 0, None)
    made["address"] = np.maximum(counted.pcs - begin[before], 0)
    if module is None:
        return source_table(made, count)
    cubin, placed = module
    places = [placed.find(pc) for pc in counted.pcs.tolist()]
    made["function"] = [place and cubin.function_of(place[0]) for place in places]
    made["address"] = [
        place[1] if place else address
        for place, address in zip(places, made["address"].tolist(), strict=True)
    ]
    lines = [_known(place and cubin.source.at(*place)) for place in places]
    made["file"] = [(line[0] or None) if line else None for line in lines]
    made["line"] = [line[1] if line and line[0] else None for line in lines]
    inner = [_known(place and cubin.intermediate.at(*place)) for place in places]
    made["ptx_line"] = [line[1] if line else None for line in inner]
    made["ptx"] = [cubin.ptx_line(line) if line else None for line in inner]
    return source_table(made, count)


def _known(line: tuple[str, int] | None) -> tuple[str, int] | None:
    """A line that can be one: a damaged table adds up to any number."""
    return line if line and 0 < line[1] < 2**31 else None


def _summed(counted: Mapping[str, Mapping[int, int]]) -> dict[int, int]:
    """All samples by program counter, where only those of each reason are there."""
    total: dict[int, int] = {}
    for name, values in counted.items():
        if name in SAMPLES_OF.values() and name != NOT_ISSUED:
            for pc, value in values.items():
                total[pc] = total.get(pc, 0) + value
    return total


def _starts(metric: Any) -> list[int]:
    """Start addresses of the kernel and of what it calls."""
    if metric is None:
        return []
    values: Iterable[int | None] = (_whole(one.value) for one in metric.instances)
    return [value for value in values if value is not None and LEAST_ADDRESS <= value < 2**63]


def _expected(metrics: Mapping[str, Any]) -> float | None:
    """Samples that sampling from the first to the last cycle takes: one per multiprocessor and
    interval."""
    found = [
        _real(metrics[name].value) if name in metrics else None
        for name in (
            "device__attribute_multiprocessor_count",
            "sm__cycles_active.avg",
            "smsp__pcsamp_interval_cycles",
        )
    ]
    units, cycles, interval = found
    return units * cycles / interval if units and cycles and interval else None


def _real(value: Any) -> float | None:
    for name in ("real", "whole", "small", "single"):
        if value.HasField(name):
            return float(getattr(value, name))
    return None


def _whole(value: Any) -> int | None:
    """A count; None where there is none."""
    found = value.whole if value.HasField("whole") else _real(value)
    return int(found) if found is not None and 0 <= found < 2**62 else None
