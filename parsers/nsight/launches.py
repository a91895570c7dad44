"""Launches and their metrics as they are read, and the recording they become.

``Launches`` takes rows in file order and keeps them in columns: a file of a million rows costs
its text once. ``recording`` then decides the decimal sign, brings units to their base, and fills
the kernel table; every metric row ends in a column or among the raw metrics.
"""

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core import regex
from traceroof.core.kernel_table import kernel_table
from traceroof.core.recording import (
    VERDICTS,
    DeviceInfo,
    Note,
    Recording,
    empty,
    source_of,
)
from traceroof.core.source_lines import SOURCE
from traceroof.core.units import count
from traceroof.errors import TraceroofError
from traceroof.hardware.device_lookup import find
from traceroof.parsers.nsight.derive import RuleFacts, derive
from traceroof.parsers.nsight.formulas import Columns, Floats, apply_formulas
from traceroof.parsers.nsight.metrics import (
    fits,
    is_counted,
    is_whole,
    metric_name,
    section_id,
)
from traceroof.parsers.nsight.numbers import (
    DecimalSign,
    number,
    vote,
    whole,
)
from traceroof.parsers.nsight.rows import (
    Ints,
    Measured,
    Rows,
    Slot,
    Small,
)
from traceroof.parsers.nsight.stray_rows import Remark, stray_launches

_BEYOND_PEAK_PCT = 110
# Percentages of a whole that cannot hold more: the warp slots of a multiprocessor.
_OCCUPANCIES = (
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "sm__maximum_warps_per_active_cycle_pct",
)

#: The name of a kernel in files that do not give one.
NO_NAME = "(name not in the file)"


class Launch(NamedTuple):
    """What identifies a launch, as text from the file; empty where it does not say.

    runs: whether a metric that comes twice means a second launch even with the same value, as in
    files without a column for the launch's number.
    """

    name: str = ""
    process_id: str = ""
    process_name: str = ""
    launch_id: str = ""
    context: str = ""
    stream: str = ""
    device: str = ""
    compute_capability: str = ""
    grid: str = ""
    block: str = ""
    range: str = ""
    launches: str = ""
    runs: bool = False


@dataclass
class _Verdict:
    launch: int
    after: int
    section: str
    rule: str | None
    level: str
    text: str
    scope: str
    speedup: str


@dataclass
class Launches:
    """Launches of one file, in file order, with their metric rows and rule verdicts.

    spreadsheet: the file was saved again by a spreadsheet (semicolons, tabs). sign: the decimal
    sign, where the format fixes it.
    """

    spreadsheet: bool = False
    sign: DecimalSign | None = None
    found: list[Launch] = field(default_factory=list)
    notes: Counter[tuple[str, bool]] = field(default_factory=Counter)
    _slots: list[Slot] = field(default_factory=list)
    _slot_ids: dict[tuple[str, str, str, str, str], int] = field(default_factory=dict)
    _row_launch: "array[int]" = field(default_factory=lambda: array("i"))
    _row_slot: "array[int]" = field(default_factory=lambda: array("i"))
    _row_cell: "array[int]" = field(default_factory=lambda: array("i"))
    _cells: list[str] = field(default_factory=list)
    _cell_ids: dict[str, int] = field(default_factory=dict)
    _columns: tuple[list[Any], ...] = field(default_factory=lambda: ([], [], [], []))
    _verdicts: list[_Verdict] = field(default_factory=list)
    _sources: list[tuple[int, pa.Table]] = field(default_factory=list)
    _knows_metrics: bool = False

    def note(self, text: str, count: int = 1, severe: bool = True) -> None:
        """Count something that a reader of the run should know."""
        if count:
            self.notes[text, severe] += count

    def add_launch(self, launch: Launch) -> int:
        """Begin a launch; returns its number for ``add_metric`` and ``add_verdict``."""
        self.found.append(launch)
        return len(self.found) - 1

    def slot(self, section: str, body: str, label: str, unit_text: str, statistic: str = "") -> int:
        """The number of a kind of metric row.

        statistic: "minimum" or "maximum" for figures of a summary that belong in no column.
        """
        key = (section, body, label, unit_text, statistic)
        found = self._slot_ids.get(key)
        if found is None:
            found = self._slot_ids[key] = len(self._slots)
            self._slots.append(self._new_slot(*(part.strip() for part in key)))
        return found

    def _new_slot(
        self, section: str, body: str, label: str, unit_text: str, statistic: str
    ) -> Slot:
        metric = metric_name(section, body, label, unit_text)
        self._knows_metrics |= metric is not None
        usable = metric is not None and not statistic and fits(metric, unit_text) is not False
        title = metric or (f"{body}: {label}" if body else label)
        return Slot(section_id(section), title, unit_text, statistic, usable)

    def add_metric(self, launch: int, slot: int, text: str) -> None:
        """Take one metric row: the cell as printed."""
        self._row_launch.append(launch)
        self._row_slot.append(slot)
        self._row_cell.append(len(self._cells))
        self._cells.append(text)

    def cell(self, text: str) -> int:
        """The number of a cell that many launches share, for ``add_rows``."""
        found = self._cell_ids.get(text)
        if found is None:
            found = self._cell_ids[text] = len(self._cells)
            self._cells.append(text)
        return found

    def add_rows(self, launches: Small, slots: Small, cells: Small, values: Floats) -> None:
        """Take metric rows in file order, from formats that hold numbers: values in base units (NaN:
        none), else the number of a cell (-1: none)."""
        for column, part in zip(self._columns, (launches, slots, cells, values), strict=True):
            column.append(part)

    def measured(self) -> frozenset[tuple[int, str]]:
        """Every launch with the metrics that it has rows of."""
        rows = zip(self._row_launch, self._row_slot, strict=True)
        return frozenset((launch, self._slots[slot].metric) for launch, slot in rows)

    def add_source(self, launch: int, table: pa.Table) -> None:
        """Take the source table of a launch; its ``row`` is filled in at the end."""
        self._sources.append((launch, table))

    def add_verdict(
        self,
        launch: int,
        section: str,
        rule: str | None,
        level: str,
        text: str,
        scope: str = "",
        speedup: str = "",
    ) -> None:
        """Take one rule row."""
        self._verdicts.append(
            _Verdict(
                launch,
                len(self._row_cell) - 1,
                section_id(section),
                rule,
                level,
                text,
                scope,
                speedup,
            )
        )

    def recording(
        self,
        path: str,
        format: str,
        notes: Iterable[Note] = (),
        reason: str = "",
        gpus: Collection[str] = (),
    ) -> Recording:
        """The recording. Raises TraceroofError when nothing in the file was measured.

        reason: what the profiler itself said of a failure. gpus: the GPUs that the program's own
        output names.
        """
        self._drop_strays()
        rows = self._rows()
        rows = self._split_runs(rows)
        sign = self.sign or self._decimal_sign(rows)
        measured = Measured.read(rows, self._slots, sign)
        self._refuse_unmeasured(path, rows, measured, reason)
        metrics = measured.metrics(len(self.found))
        self._doubt_beyond_peak(metrics)
        facts = RuleFacts((verdict.launch, verdict.text) for verdict in self._verdicts)
        facts.add_maxima(metrics)
        columns = apply_formulas(metrics, len(self.found))
        devices = [whole(launch.device) for launch in self.found]
        derive(columns, metrics, devices, facts)
        self.note("figures taken from the sentences of rules", facts.used, severe=False)
        self._add_identity(columns, devices)
        self._add_shapes(columns, metrics)
        self._check_times(columns)
        for name, statistic in (("shortest", "minimum"), ("longest", "maximum")):
            columns.values[f"{name}_launch_ns"] = measured.extreme(
                "gpu__time_duration.sum", statistic, len(self.found)
            )
        kernels = kernel_table(columns.values)
        self._note_cells(rows, measured)
        names = measured.texts("device__attribute_display_name")
        found = self._named(self._devices(columns, devices, metrics, names), gpus)
        raw = measured.raw_metrics(columns)
        every = [
            *notes,
            *(Note(text, count, severe) for (text, severe), count in self.notes.items()),
        ]
        return Recording(
            format=format,
            time_basis="counter-tool",
            kernels=kernels,
            sources=(source_of(path, format, kernels, every),),
            devices=found,
            raw_metrics=raw,
            verdicts=self._verdict_table(),
            source_lines=self._source_lines(),
        )

    # --- rows ----------------------------------------------------------------------------------

    def _drop_strays(self) -> None:
        """Leave out rows of damaged identity, which would be launches of their own."""
        if self._columns[0] or len(self.found) < 2:
            return
        launch, slot, cell = (
            np.array(column, np.int64)
            for column in (self._row_launch, self._row_slot, self._row_cell)
        )
        remarks = [Remark(one.launch, one.after) for one in self._verdicts]
        strays = stray_launches(self.found, launch, slot, remarks)
        if not strays:
            return
        keep = ~np.isin(launch, list(strays))
        # Of each row its place among those that are kept, or of the last kept one before it.
        place = np.cumsum(keep) - 1
        kept = [one for one in range(len(self.found)) if one not in strays]
        number = {old: new for new, old in enumerate(kept)}
        verdicts = [one for one in self._verdicts if one.launch not in strays]
        lost = int((~keep).sum()) + len(self._verdicts) - len(verdicts)
        self.note("rows whose number, process or kernel does not fit their launch, left out", lost)
        for one in verdicts:
            one.launch = number[one.launch]
            one.after = int(place[one.after]) if one.after >= 0 else -1
        self._verdicts = verdicts
        self._sources = [(number[one], table) for one, table in self._sources if one in number]
        self.found = [self.found[one] for one in kept]
        self._row_launch = array("i", [number[one] for one in launch[keep].tolist()])
        self._row_slot = array("i", slot[keep].tolist())
        self._row_cell = array("i", cell[keep].tolist())

    def _rows(self) -> Rows:
        if not self._columns[0]:
            launch, slot, cell = (
                np.frombuffer(column, dtype=np.int32).copy()
                for column in (self._row_launch, self._row_slot, self._row_cell)
            )
            return Rows(launch, slot, self._cells, cell)
        whole = []
        for column in self._columns:
            whole.append(np.concatenate(column))
            column.clear()
        launch, slot, cell, value = whole
        return Rows(launch, slot, self._cells, cell, value)

    def _split_runs(self, rows: Rows) -> Rows:
        """Tell second runs from repeated rows where a launch has a metric twice.

        A run of the program that was appended repeats the launch's first metric; its rows with
        other values make a launch of their own. Rows that say the same again are dropped.
        """
        repeated = rows.repeated(len(self._slots))
        if not repeated.any():
            return rows
        keep = np.ones(len(rows), dtype=bool)
        affected = np.unique(rows.launch[repeated])
        member_order = np.argsort(rows.launch, kind="stable")
        starts = np.searchsorted(rows.launch[member_order], affected, side="left")
        ends = np.searchsorted(rows.launch[member_order], affected, side="right")
        for launch, start, end in zip(
            affected.tolist(), starts.tolist(), ends.tolist(), strict=True
        ):
            self._split_launch(launch, member_order[start:end], rows, keep)
        for verdict in self._verdicts:
            if verdict.after >= 0 and rows.origin(verdict.after) == verdict.launch:
                verdict.launch = int(rows.launch[verdict.after])
        rows = rows.kept(keep)
        self._sort_launches(rows)
        return rows

    def _sort_launches(self, rows: Rows) -> None:
        """Bring launches back into the order of their first metric row."""
        first = np.full(len(self.found), len(rows), dtype=np.int64)
        np.minimum.at(first, rows.launch, np.arange(len(rows)))
        order = np.argsort(first, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        self.found = [self.found[launch] for launch in order.tolist()]
        rows.launch = rank[rows.launch].astype(np.int32)
        for verdict in self._verdicts:
            verdict.launch = int(rank[verdict.launch])
        self._sources = [(int(rank[launch]), table) for launch, table in self._sources]

    def _split_launch(
        self, launch: int, members: Ints, rows: Rows, keep: npt.NDArray[np.bool_]
    ) -> None:
        """Deal with one launch that has a metric twice. members: its rows, in file order."""
        slots = rows.slot[members].tolist()
        texts = rows.texts(members)
        starts_again = slots[0] in slots[1:]
        first: dict[int, str] = {}
        differs = any(
            first.setdefault(slot, text) != text for slot, text in zip(slots, texts, strict=True)
        )
        if starts_again and (differs or self.found[launch].runs):
            runs = _run_numbers(slots)
            last = max(runs)
            numbers = [launch, *(self.add_launch(self.found[launch]) for _ in range(last))]
            rows.move(members, np.array([numbers[run] for run in runs], dtype=np.int64))
            if not self.found[launch].runs:
                self.note(
                    "a launch number that comes again with other values read as another run",
                    last,
                    severe=False,
                )
            return
        said: set[tuple[int, str]] = set()
        for row, slot, text in zip(members.tolist(), slots, texts, strict=True):
            keep[row] = (slot, text) not in said
            said.add((slot, text))
        self.note("repeated metric rows ignored", int((~keep[members]).sum()), severe=False)

    def _decimal_sign(self, rows: Rows) -> DecimalSign:
        whole_slot = [is_whole(slot.metric, slot.unit_text) for slot in self._slots]
        base_slot = [is_counted(slot.unit_text) for slot in self._slots]
        marked = (
            (text, whole_slot[slot], base_slot[slot])
            for text, slot in zip(rows.texts(), rows.slot.tolist(), strict=True)
            if "," in text or "." in text
        )
        found = vote(marked, spreadsheet=self.spreadsheet)
        if found.sign is DecimalSign.COMMA:
            self.note(
                "numbers read in the locale of the file: '.' groups digits, ',' begins decimals"
                + (
                    " (every '.' of its counts and nanoseconds is followed by three digits)"
                    if found.by_groups
                    else ""
                ),
                severe=False,
            )
        if found.unclear and found.sign is DecimalSign.POINT:
            self.note(
                "numbers with three digits behind their only '.' or ',' read as in a US locale; "
                "nothing else in the file says which locale it has",
                found.unclear,
            )
        return found.sign

    def _refuse_unmeasured(self, path: str, rows: Rows, measured: Measured, reason: str) -> None:
        if len(rows) and not self._knows_metrics:
            names = sorted({slot.metric for slot in self._slots})
            raise TraceroofError(
                f"{path} has the layout of Nsight Compute's table, and none of its metrics is one "
                f"of Nsight Compute's: {', '.join(names[:5])}"[:400],
                "if labels of an own section hide them: add --print-metric-name name to ncu",
            )
        if measured.is_number.any() or not len(rows):
            return
        kinds = {_no_number(text) for text in set(rows.texts())}
        if reason and kinds <= {"n/a", "", "nan"}:
            raise TraceroofError(
                f"{path} holds no measurement: Nsight Compute reports {reason!r}, and the metrics "
                f"of its {count(len(self.found), 'launch', 'launches')} are not available",
                PERMISSION_HINT if "NVGPUCTRPERM" in reason else "solve that and profile again",
            )
        if kinds <= {"n/a", ""}:
            raise TraceroofError(
                f"{path} holds no measurement: every metric of its "
                f"{count(len(self.found), 'launch', 'launches')} is n/a, which happens when performance counters are not permitted "
                "(ERR_NVGPUCTRPERM)",
                PERMISSION_HINT,
            )
        if kinds <= {"n/a", "", "nan"}:
            raise TraceroofError(
                f"{path} holds no measurement: the metrics of its "
                f"{count(len(self.found), 'launch', 'launches')} are nan, which happens when ncu is older than the CUDA driver",
                "profile again with the Nsight Compute that belongs to the driver's CUDA version",
            )

    def _note_cells(self, rows: Rows, measured: Measured) -> None:
        """Say what cells held no number, by kind."""
        unreadable = ""
        for text, rows_of in Counter(rows.texts(np.flatnonzero(~measured.is_number))).items():
            text = text.strip().lower()
            kind = _no_number(text)
            if kind == "n/a":
                self.note("metrics that were not available (n/a)", rows_of, severe=False)
            elif kind == "":
                self.note("metric rows without a value", rows_of, severe=False)
            elif kind == "nan":
                self.note("values that are not finite (nan, inf)", rows_of, severe=False)
            elif text[0].isdigit() or text[0] in "+-.,":
                unreadable = unreadable or text[:40]
                self.note(f"numbers that could not be read, such as {unreadable!r}", rows_of)
        by_slot = np.bincount(rows.slot[measured.is_number], minlength=len(self._slots)).tolist()
        for slot, found in zip(self._slots, by_slot, strict=True):
            if fits(slot.metric, slot.unit_text) is False and not slot.statistic:
                reason = f"{slot.unit_text.strip()!r} is no unit for it"
                if not slot.unit_text.strip():
                    reason = "its unit is missing"
                self.note(f"values of {slot.metric} left out: {reason}", found)
        if measured.contradictions:
            self.note(
                "values that contradict another row of the same launch", measured.contradictions
            )

    def _doubt_beyond_peak(self, metrics: dict[str, Floats]) -> None:
        """Rounding and clock changes give 101 %; what is far beyond is a wrong number.

        More warps than there are slots cannot have been: that occupancy is unknown.
        """
        for name, values in metrics.items():
            beyond = values > _BEYOND_PEAK_PCT
            if not beyond.any():
                continue
            most = f"{np.nanmax(values):,.0f} %"
            if name in _OCCUPANCIES:
                metrics[name] = np.where(beyond, np.nan, values)
                self.note(f"{name} of up to {most} is impossible: left unknown", int(beyond.sum()))
            elif ".pct_of_peak_sustained_" in name:
                self.note(f"{name} of up to {most} of peak", int(beyond.sum()), severe=False)

    # --- the recording -------------------------------------------------------------------------

    def _add_identity(self, columns: Columns, devices: list[int | None]) -> None:
        found = self.found
        values = columns.values
        values["kernel_name"] = [_name_of(launch) for launch in found]
        values["process_name"] = [launch.process_name.strip() or None for launch in found]
        values["module_path"] = [launch.range or None for launch in found]
        values["process_id"] = [whole(launch.process_id) for launch in found]
        values["launch_id"] = [whole(launch.launch_id) for launch in found]
        values["context"] = [whole(launch.context) for launch in found]
        values["stream"] = [whole(launch.stream) for launch in found]
        values["device"] = devices
        values["launch_count"] = [max(whole(launch.launches) or 1, 1) for launch in found]

    def _add_shapes(self, columns: Columns, metrics: Mapping[str, Floats]) -> None:
        """Grid and block: from the launch's own cells, else its dimensions, else its total.

        Before 2023 tables have no columns for them, and the sections print only how many blocks
        and threads there are. Without those, launches of every size would be one kernel.
        """
        unknown = np.full(len(self.found), np.nan)
        flattened = np.zeros(len(self.found), dtype=bool)
        for what in ("grid", "block"):
            total = metrics.get(f"launch__{what}_size", unknown)
            by_axis = [columns.values.get(f"{what}_{letter}", unknown) for letter in "xyz"]
            shapes: list[tuple[int, int, int] | None] = []
            for row, launch in enumerate(self.found):
                known = shape(getattr(launch, what))
                if known is None and all(_countable(axis[row]) for axis in by_axis):
                    known = (int(by_axis[0][row]), int(by_axis[1][row]), int(by_axis[2][row]))
                if known is None and _countable(total[row]):
                    known = (int(total[row]), 1, 1)
                    flattened[row] = True
                shapes.append(known)
            for axis, letter in enumerate("xyz"):
                columns.values[f"{what}_{letter}"] = [known and known[axis] for known in shapes]
        self.note(
            "launches whose grid or block is known as a total only, written as (total, 1, 1)",
            int(flattened.sum()),
            severe=False,
        )

    def _check_times(self, columns: Columns) -> None:
        duration = columns.values.get("duration_ns")
        if duration is None:
            self.note("launches without a duration", len(self.found), severe=False)
            return
        wrong = (duration < 0) | (duration >= 2**63)
        duration[wrong] = np.nan
        self.note("launches whose duration is negative or absurd", int(wrong.sum()))
        unknown = int(np.isnan(duration).sum() - wrong.sum())
        self.note("launches without a duration", unknown, severe=False)
        printed = np.zeros(len(self.found), dtype=bool)
        for metric, launches in columns.direct.items():
            if metric.startswith("gpu__time_duration"):
                printed |= launches
        computed = int((~np.isnan(duration) & ~printed).sum())
        self.note("durations computed from a count and its rate", computed, severe=False)

    def _devices(
        self,
        columns: Columns,
        devices: list[int | None],
        metrics: Mapping[str, Floats],
        display_names: Mapping[int, str],
    ) -> Iterator[DeviceInfo]:
        """One entry per device that the launches name."""
        rows_of: dict[tuple[int | None, str, str], list[int]] = {}
        for row, (launch, device) in enumerate(zip(self.found, devices, strict=True)):
            # The column holds an ordinal, or, re-saved, a name.
            name = launch.device.strip() if device is None else ""
            if device is not None or name or launch.compute_capability:
                key = (device, name, self._stated_capability(launch))
                rows_of.setdefault(key, []).append(row)

        def first(values: Floats | None, rows: list[int]) -> int | None:
            if values is None:
                return None
            known = values[rows][np.abs(values[rows]) < 2**53]
            return round(float(known[0])) if len(known) else None

        if not rows_of and "device__attribute_compute_capability_major" in metrics:
            rows_of[None, "", ""] = list(range(len(self.found)))
        for (device, name, capability), rows in rows_of.items():
            capability = capability or _capability(metrics, rows)
            yield DeviceInfo(
                index=device,
                name=name or next(filter(None, map(display_names.get, rows)), None),
                compute_capability=capability or None,
                sm_count=first(columns.values.get("sm_count"), rows),
                l2_bytes=first(metrics.get("device__attribute_l2_cache_size"), rows),
                memory_bytes=first(metrics.get("device__attribute_total_memory"), rows),
                dram_bus_bits=first(metrics.get("device__attribute_global_memory_bus_width"), rows),
            )

    def _stated_capability(self, launch: Launch) -> str:
        """The compute capability that a launch names, "8.0"; empty where its cell holds none."""
        stated = launch.compute_capability.strip()
        found = _CAPABILITY.fullmatch(stated)
        if stated and not found:
            self.note("compute capabilities that are none left out")
        return f"{found[1]}.{found[2] or 0}" if found else ""

    def _named(
        self, devices: Iterable[DeviceInfo], gpus: Collection[str]
    ) -> tuple[DeviceInfo, ...]:
        """The devices, the only one by the name that the program printed where that can be it."""
        found = tuple(devices)
        if len(found) != 1 or found[0].name or len(gpus) != 1:
            return found
        name, device = next(iter(gpus)), found[0]
        if not device.compute_capability or not find(
            name, compute_capability=device.compute_capability, sm_count=device.sm_count
        ):
            return found
        self.note(f"GPU by the program's own output: {name}", severe=False)
        return (replace(device, name=name),)

    def _source_lines(self) -> pa.Table:
        at = SOURCE.get_field_index("row")
        parts = [
            table.set_column(at, "row", pa.repeat(pa.scalar(launch, pa.int64()), len(table)))
            for launch, table in self._sources
        ]
        return pa.concat_tables(parts) if parts else empty(SOURCE)

    def _verdict_table(self) -> pa.Table:
        rows = self._verdicts
        return pa.table(
            {
                "row": [verdict.launch for verdict in rows],
                "section": [verdict.section or None for verdict in rows],
                "rule": [verdict.rule or None for verdict in rows],
                "level": [verdict.level or None for verdict in rows],
                "text": [verdict.text for verdict in rows],
                "speedup_scope": [verdict.scope or None for verdict in rows],
                "speedup_pct": [_percentage(verdict.speedup) for verdict in rows],
            },
            schema=VERDICTS,
        )


def _capability(metrics: Mapping[str, Floats], rows: list[int]) -> str:
    """The compute capability by the device's attributes; empty where they are not printed."""
    parts = [
        metrics.get(f"device__attribute_compute_capability_{one}") for one in ("major", "minor")
    ]
    known = [one[rows][~np.isnan(one[rows])] for one in parts if one is not None]
    if len(known) < 2 or not all(len(one) for one in known):
        return ""
    return ".".join(f"{one[0]:.0f}" for one in known)


# Spreadsheets write 8.0 as 8, or 8,0.
_CAPABILITY = regex.compile(r"(\d{1,2})(?:[.,](\d))?")

# The page in text form marks what is no number with "(!)".
_NOT_FINITE = regex.compile(r"[-+]?(?:nan|inf(?:inity)?)")


def _no_number(text: str) -> str | None:
    """What a cell without a number says: "n/a", "nan" (or infinite), "" for nothing, else None."""
    text = text.strip().lower().removeprefix("(!)").strip()
    if text in ("n/a", ""):
        return text
    return "nan" if _NOT_FINITE.fullmatch(text) else None


def _name_of(launch: Launch) -> str:
    """The kernel's name; that of a range result is its range, each a workload of its own."""
    name = launch.name.strip()
    shapes = {"".join(one.split()) for one in (launch.grid, launch.block)}
    if name == "range" and shapes <= {"", "n/a", "(1,1,1)", "1,1,1", "1"}:
        return f"(range {launch.range})" if launch.range else "(range)"
    return name or NO_NAME


def _countable(value: float) -> bool:
    return 1 <= value < 2**62


def _percentage(text: str) -> float | None:
    """An estimated speed-up: up to three decimals and never grouped, so any sign is decimal."""
    value = number(text.replace(",", "."), DecimalSign.POINT)
    return None if np.isnan(value) else value


def _run_numbers(slots: list[int]) -> list[int]:
    """Which run of the program each row of a launch belongs to, counted from 0.

    The n-th row of a metric belongs to the n-th run; a metric that comes once belongs to the
    run that was last seen, so that runs with different metrics stay apart.
    """
    total, times = Counter(slots), Counter[int]()
    runs: list[int] = []
    last = 0
    for slot in slots:
        run = times[slot] if total[slot] > 1 else last
        times[slot] += 1
        last = max(last, run)
        runs.append(run)
    return runs


#: How to permit performance counters, for every refusal that has this cause.
PERMISSION_HINT = (
    "run ncu as administrator, or permit counters for all users "
    "(https://developer.nvidia.com/ERR_NVGPUCTRPERM), and profile again"
)

_SHAPE = regex.compile(r"\(?\s*(\d{1,10})\s*[,;x]\s*(\d{1,10})\s*[,;x]\s*(\d{1,10})\s*\)?")


def shape(text: str) -> tuple[int, int, int] | None:
    """``"(256, 1, 1)"`` -> ``(256, 1, 1)``; None for anything else, and for a shape of nothing."""
    match = _SHAPE.fullmatch(text.strip()) if text else None
    found = (int(match[1]), int(match[2]), int(match[3])) if match else (0, 0, 0)
    return found if all(found) else None
