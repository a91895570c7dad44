"""The text of ``rocprof-compute analyze`` (Omniperf), as people paste it.

Figures are means over the dispatches that were analysed. Where several kernels were, the panels
speak of all of them together and are no kernel's own: times stay, the rest is left out.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from traceroof.core import regex
from traceroof.core.kernel_table import kernel_table
from traceroof.core.recording import RAW_METRICS, DeviceInfo, Note, Recording, source_of
from traceroof.core.toml_tables import toml_table
from traceroof.errors import TraceroofError
from traceroof.ingest.decompress import open_inflated
from traceroof.ingest.sums import contradictions
from traceroof.parser import Options, Progress
from traceroof.parsers.amd.analysis_text import Analysis, Table, analyses

_SIGNS = ("Metric_ID", "Top Kernels", "Kernel_Name", "KernelName")
_FAMILIES = (
    (regex.compile(r"MI2\d\d"), None, "gfx90a"),
    (regex.compile(r"MI300A"), "MI300A", "gfx942"),
    (regex.compile(r"MI300"), None, "gfx942"),
    (regex.compile(r"MI3[25]\d"), None, "gfx950"),
    (regex.compile(r"MI100"), "MI100", "gfx908"),
)
_NUMBER = regex.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_UNNAMED = "(name not in the file)"
#: A compute unit of CDNA 2 and 3 holds 32 waves: 4 SIMDs with 8 slots (LLVM AMDGPU usage).
_WAVES_OF_A_CU = 32


class RocprofComputeText:
    """Reader of printed analyses."""

    name = "rocprof-compute-text"
    title = "rocprof-compute analyze and omniperf analyze: the printed tables"
    gives = "times of the top kernels; launch, occupancy, units and caches of a single kernel"
    collect = "rocprof-compute analyze -p workloads/NAME/MI300X --dispatch N > analysis.txt"

    def recognises(self, head: bytes, path: Path) -> Literal[0, 1, 2]:
        text = head.decode("utf-8", "replace")
        if "│" not in text or not any(sign in text for sign in _SIGNS):
            return 0
        return 2

    def read(self, source: Path, progress: Progress, options: Options) -> Recording:
        with open_inflated(source, options) as file:
            found = analyses(file.read().decode("utf-8", "replace"))
        made = _Made()
        for one in found:
            made.add(one)
        if not made.rows:
            raise TraceroofError(
                f"{source} holds no table of rocprof-compute with a kernel or a metric",
                "paste the output from `0. Top Stats` on, or give the profile folder",
            )
        names = dict.fromkeys(name for row in made.rows for name in row)
        kernels = kernel_table({name: [row.get(name) for row in made.rows] for name in names})
        return Recording(
            format=self.name,
            time_basis="counter-tool",
            kernels=kernels,
            sources=(source_of(str(source), self.name, kernels, tuple(made.notes(len(found)))),),
            devices=tuple(made.devices),
            raw_metrics=pa.Table.from_pylist(made.raw, schema=RAW_METRICS),
        )


PARSER = RocprofComputeText()


@cache
def _panels() -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    return toml_table("traceroof.parsers.amd", "analysis_panels.toml")


class _Made:
    """Rows, raw metrics and devices so far."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.raw: list[dict[str, Any]] = []
        self.devices: list[DeviceInfo] = []
        self._shared = 0
        self._doubts: Counter[str] = Counter()

    def add(self, one: Analysis) -> None:
        """The rows of an analysis; of a comparison the kernels of either side."""
        sides = max(len(one.workloads), 1 + any(_is_compared(table) for table in one.tables))
        for side in range(min(sides, 2)):
            workload = one.workloads[side] if side < len(one.workloads) else ""
            kernels = list(_kernels(one, side, self._doubts)) or [
                {"kernel_name": _UNNAMED, "launch_count": 1}
            ]
            metrics = list(_metrics(one, side))
            if not metrics and kernels[0]["kernel_name"] == _UNNAMED:
                continue
            device = self._device(workload, metrics)
            program = workload.rpartition("workloads/")[2].strip("/") or None
            # The size is known where the model is not.
            units = self.devices[device].sm_count
            for row in kernels:
                row |= {"process_name": program, "device": device, "sm_count": units}
            if len(kernels) > 1:
                self.rows += kernels
                self._shared += len(metrics)
                continue
            row, raw = _measured(kernels[0], metrics)
            known = next((one for one in self.rows if _is_same(one, row)), None)
            if known is None:
                self.rows.append(row)
            else:
                # The same dispatch analysed again, with other blocks or beside another run.
                known |= {name: value for name, value in row.items() if name not in _IDENTITY}
            number = next(at for at, one in enumerate(self.rows) if one is (known or row))
            self.raw += [{**one, "row": number} for one in raw]

    def notes(self, found: int) -> Iterator[Note]:
        if found > 1:
            text = "analyses in one text: each is a program of its own"
            yield Note(text, found, severe=False)
        if self._shared:
            text = "metrics over several kernels together, left out: analyse one with --dispatch"
            yield Note(text, self._shared)
        for text, count in self._doubts.items():
            if count:
                yield Note(text, count)

    def _device(self, workload: str, metrics: list["_Metric"]) -> int:
        """The GPU, AMD's in any case: its family from the workload's folder, its size from peaks."""
        units = next((one.peak for one in metrics if one.name == "Active CUs"), None)
        waves = next((one.peak for one in metrics if one.name == "Wavefront Occupancy"), None)
        count = int(units) if units else int(waves / _WAVES_OF_A_CU) if waves else None
        family = next(
            ((name, target) for sign, name, target in _FAMILIES if sign.search(workload)), None
        )
        name, target = family or (None, None)
        # A peak that a later analysis does not print is still the GPU's.
        for place, known in enumerate(self.devices):
            if known.gfx_target == target and count in (None, known.sm_count):
                return place
        index = len(self.devices)
        self.devices.append(
            DeviceInfo(index=index, name=name, vendor="amd", gfx_target=target, sm_count=count)
        )
        return index


_IDENTITY = ("kernel_name", "launch_count", "duration_ns", "process_name", "device", "sm_count")


def _is_same(known: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """Whether two analyses speak of one dispatch: same program, and no sign against it."""
    if row["process_name"] is None or known["process_name"] != row["process_name"]:
        return False
    unnamed = _UNNAMED in (known["kernel_name"], row["kernel_name"])
    pairs = [(known.get(name), row.get(name)) for name in ("duration_ns", "grid_x", "block_x")]
    told = [(one, other) for one, other in pairs if one is not None and other is not None]
    if any(one != other for one, other in told):
        return False
    return bool(told) and (unnamed or known["kernel_name"] == row["kernel_name"])


def _measured(
    row: dict[str, Any], metrics: list["_Metric"]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The row with the columns that the metrics fill, and the metrics that are none."""
    raw: list[dict[str, Any]] = []
    threads = next((one.avg for one in metrics if one.name == "Workgroup Size"), None)
    items = next((one.avg for one in metrics if one.name == "Grid Size"), None)
    if threads and items and items % threads == 0:
        row |= {"block_x": int(threads), "block_y": 1, "block_z": 1}
        row |= {"grid_x": int(items / threads), "grid_y": 1, "grid_z": 1}
    for one in metrics:
        known = _column(one)
        value = _taken(one, known, row.get("duration_ns")) if known else None
        if known and value is not None:
            row[known["column"]] = value
        elif one.name not in ("Workgroup Size", "Grid Size"):
            raw.append(
                {"section": one.title, "metric": one.name, "unit": one.unit, "value": one.avg}
            )
    _waits(row, metrics)
    fabric = next((one for one in metrics if one.name == "L2-Fabric Read BW" and one.peak), None)
    # Releases that print the peak of one die show shares above 100 %.
    if fabric is not None and fabric.peak and (fabric.pct or 0.0) <= 100:
        row["peak_dram_bytes_per_s"] = fabric.peak * 1e9
    both = [row.get(f"dram_{way}_bytes") for way in ("read", "write")]
    if None not in both:
        row["dram_bytes"] = sum(one for one in both if one is not None)
    return row, raw


_WAITS = {"Dependency Wait Cycles": "wait_dependency", "Issue Wait Cycles": "wait_issue"}


def _waits(row: dict[str, Any], metrics: list["_Metric"]) -> None:
    """The shares of the cycles of a wave in which it waits."""
    cycles = next((one.avg for one in metrics if one.name == "Wave Cycles"), None)
    for one in metrics:
        if (column := _WAITS.get(one.name)) and cycles and one.avg is not None:
            row[column] = min(one.avg / cycles, 1.0)


class _Metric:
    """One line of a panel, for one side."""

    def __init__(self, table: Table, cells: list[str], side: int) -> None:
        told = _sides(table.header, cells, side)
        self.panel, self.title = table.panel, table.title
        self.name = told.get("Metric", "")
        self.unit = told.get("Unit", "")
        self.avg = _number(told.get("Avg", told.get("Value", "")))
        self.peak = _number(told.get("Peak", ""))
        self.pct = _number(told.get("Pct of Peak", told.get("PoP", "")))


def _is_compared(table: Table) -> bool:
    return "Abs Diff" in table.header


def _sides(header: tuple[str, ...], cells: list[str], side: int) -> dict[str, str]:
    """The cells of one side; a comparison repeats each title for the other, with its change."""
    found: dict[str, list[str]] = {}
    for title, cell in zip(header, cells, strict=True):
        found.setdefault(title, []).append(cell)
    return {title: values[min(side, len(values) - 1)] for title, values in found.items()}


def _number(cell: str) -> float | None:
    """The number that a cell starts with; a comparison appends the change in brackets."""
    found = _NUMBER.match(cell.strip())
    value = float(found[0]) if found else math.inf
    return value if math.isfinite(value) else None


def _kernels(one: Analysis, side: int, doubts: Counter[str]) -> Iterator[dict[str, Any]]:
    table = one.table("Top Kernels") or one.table("Top Stat") or one.table("Top Stats")
    seen: set[tuple[str, ...]] = set()
    for cells in table.rows if table is not None else ():
        if tuple(cells) in seen:
            doubts["rows of kernels that stand there twice, read once"] += 1
            continue
        seen.add(tuple(cells))
        told = _sides(table.header, cells, side) if table is not None else {}
        name = told.get("Kernel_Name", told.get("KernelName", ""))
        count, mean, total = (
            _number(told.get(title, "")) for title in ("Count", "Mean(ns)", "Sum(ns)")
        )
        if name and count:
            doubts["times that are not numbers, or below 0: unknown"] += mean is None or mean < 0
            if total is not None and mean is not None:
                found = contradictions([count], [total], [mean])
                doubts.update({note.text: note.count for note in found})
            yield {
                "kernel_name": name,
                "launch_count": max(int(count), 1),
                "duration_ns": round(mean) if mean is not None and mean > 0 else None,
            }
        elif name or count:
            doubts["rows of kernels without a name or a number of calls, left out"] += 1


def _metrics(one: Analysis, side: int) -> Iterator[_Metric]:
    for table in one.tables:
        if "Metric" in table.header:
            for cells in table.rows:
                made = _Metric(table, cells, side)
                if made.name and made.avg is not None:
                    yield made


def _column(one: _Metric) -> Mapping[str, str] | None:
    panels = _panels()
    for place in (f"{one.panel} / {one.title}", one.title):
        if place in panels:
            known = panels[place].get(one.name)
            return known if known and known["column"] else None
    return None


def _taken(one: _Metric, known: Mapping[str, str], duration_ns: int | None) -> float | None:
    if known["figure"] == "rate":
        if one.avg is None or duration_ns is None:
            return None
        # "Gb/s" is how the tool abbreviates Gbyte/s; times ns, bytes remain.
        return one.avg * duration_ns
    return one.pct if known["figure"] == "pct" else one.avg
