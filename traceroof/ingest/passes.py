"""Counter passes of one program as one table: a row per launch, columns united.

A GPU counts a few things at once, so people run the same program again with other metrics, or
with a filter that picks some of its kernels. The same launch is then in several files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceroof.core import kernel_names, kernel_table
from traceroof.core.dictionary import coded
from traceroof.core.kernel_table import COLUMNS, TEXT, as_reals
from traceroof.core.recording import RAW_METRICS, VERDICTS, DeviceInfo, Note, Recording

Whole = npt.NDArray[np.int64]

#: Two passes that measure one thing may differ by this part before it is worth a note.
SCATTER = 0.05
_LAUNCH = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
# Numbers of the file, the process or the launch: the first pass has the say.
_NAMES_SOMETHING = frozenset(
    {"source", "launch_id", "launch_count", "rank", "process_id", "device", "context", "stream",
     "correlation_id", "operator_call", *_LAUNCH}
)  # fmt: skip


@dataclass(frozen=True)
class Launches:
    """The launches of a recording in order: for each which kernel (name, grid, block, process) it
    is, and the how many-th of that kernel. Keys are comparable between recordings."""

    keys: list[tuple[Any, ...]]
    nth: list[int]

    def counts(self) -> dict[tuple[Any, ...], int]:
        found: dict[tuple[Any, ...], int] = {}
        for key in self.keys:
            found[key] = found.get(key, 0) + 1
        return found

    def rows(self) -> dict[tuple[Any, ...], Whole]:
        """The rows of the launches of each kernel."""
        found: dict[tuple[Any, ...], list[int]] = {}
        for at, key in enumerate(self.keys):
            found.setdefault(key, []).append(at)
        return {key: np.array(rows, dtype=np.int64) for key, rows in found.items()}


def launches_of(recording: Recording) -> Launches:
    """What tells the launches of a recording apart, whichever run of the program they are of."""
    kernels = recording.kernels
    names = [kernel_names.key(text) for text in coded(kernels["kernel_name"]).texts]
    codes = coded(kernels["kernel_name"]).codes.tolist()
    # A process has another number in every run; its place among the processes stays.
    processes = kernels["process_id"].to_pylist()
    place: dict[Any, int] = {}
    for one in processes:
        place.setdefault(one, len(place))
    shape = zip(*(kernels[name].to_pylist() for name in _LAUNCH), strict=True)
    count = kernels["launch_count"].to_pylist()
    keys: list[tuple[Any, ...]] = []
    nth: list[int] = []
    seen: dict[tuple[Any, ...], int] = {}
    for code, process, extent, together in zip(codes, processes, shape, count, strict=True):
        key = (names[code] if code >= 0 else "", extent, place[process], together)
        keys.append(key)
        nth.append(seen.get(key, 0))
        seen[key] = nth[-1] + 1
    return Launches(keys, nth)


def shaped(recordings: Sequence[Recording]) -> list[Recording]:
    """The recordings, those that know no launch shapes (source pages) with the shapes of the n-th
    launch of the same function in one that does."""
    known = next((one for one in recordings if _has_shapes(one)), None)
    if known is None:
        return list(recordings)
    listed: dict[str, list[int]] = {}
    for row, name in enumerate(_functions(known)):
        listed.setdefault(name, []).append(row)
    return [
        one if _has_shapes(one) or not one.kernels.num_rows else _like(one, known, listed)
        for one in recordings
    ]


def is_view(recording: Recording) -> bool:
    """Whether a recording is source pages alone: another one is another view of the same samples."""
    kernels = recording.kernels
    timeless = kernels["duration_ns"].null_count == kernels.num_rows
    return bool(recording.source_lines.num_rows) and timeless and not _has_shapes(recording)


def _has_shapes(recording: Recording) -> bool:
    kernels = recording.kernels
    return any(kernels[name].null_count < kernels.num_rows for name in _LAUNCH)


def _functions(recording: Recording) -> list[str]:
    names = coded(recording.kernels["kernel_name"])
    plain = [kernel_names.function(kernel_names.demangled(text)) for text in names.texts]
    return [plain[code] if code >= 0 else "" for code in names.codes.tolist()]


def _like(recording: Recording, known: Recording, listed: Mapping[str, list[int]]) -> Recording:
    """The recording with name and shape of its launches as ``known`` has them, without the counters
    that it has too: a source page adds up samples, which are another basis."""
    seen: dict[str, int] = {}
    rows: list[int | None] = []
    for name in _functions(recording):
        nth = seen[name] = seen.get(name, -1) + 1
        there = listed.get(name, [])
        rows.append(there[nth] if nth < len(there) else None)
    place = pa.array(rows, pa.int64())
    kernels = recording.kernels
    for name in (*_LAUNCH, "kernel_name"):
        at = kernels.schema.get_field_index(name)
        theirs = known.kernels[name].combine_chunks().take(place)
        if name == "kernel_name":
            mine = kernels[name].cast(pa.string())
            theirs = pc.coalesce(theirs.cast(pa.string()), mine).cast(TEXT)
        kernels = kernels.set_column(at, kernels.schema.field(at), theirs)
    kept = {"kernel_name", "kind", *_NAMES_SOMETHING}
    for at, field in enumerate(kernels.schema):
        if field.name not in kept and known.kernels[field.name].null_count < known.kernels.num_rows:
            kernels = kernels.set_column(at, field, pa.nulls(kernels.num_rows, field.type))
    return replace(recording, kernels=kernels)


def metrics_of(recording: Recording) -> frozenset[str]:
    """What a recording measured: the known columns of counters, and its raw metrics."""
    kernels = recording.kernels
    counted = {
        one.name
        for one in COLUMNS
        if one.group not in ("identity", "time", "launch", "peaks", "clocks")
        and one.type != TEXT
        and kernels[one.name].null_count < kernels.num_rows
    }
    raw = recording.raw_metrics["metric"].unique().to_pylist()
    return frozenset(counted | {f"raw:{one}" for one in raw})


def united(recordings: Sequence[Recording]) -> Recording:
    """The passes as one recording: launches of the first that has them, in its order.

    A pass that holds as many launches of a kernel is paired launch by launch; one that holds fewer
    (``--launch-count``) gives its median to all of them. A column in several passes is the median
    per launch; where passes differ by more than SCATTER a note says so. ``sources`` of later
    passes stay listed, with no launches of their own.
    """
    base, *others = sorted(recordings, key=lambda one: -one.kernels.num_rows)
    launches = launches_of(base)
    slot_of = {pair: at for at, pair in enumerate(zip(launches.keys, launches.nth, strict=True))}
    total = launches.counts()
    tables, slots, sampled = [base.kernels], [np.arange(base.kernels.num_rows)], 0
    for other in others:
        placed, broadcast = _placed(launches_of(other), total, slot_of)
        sampled += broadcast
        tables.append(other.kernels)
        slots.append(placed)
    count = len(slot_of)
    rows_of = launches.rows() if sampled else {}
    spreads = [_spread(slot, launches.keys, rows_of) for slot in slots]
    kernels, scattered = _table(tables, spreads, count)
    notes = _notes(sampled, scattered)
    first = replace(base.sources[0], notes=(*base.sources[0].notes, *notes))
    sources = [first, *base.sources[1:]]
    sources += [replace(source, launches=0) for one in others for source in one.sources]
    return replace(
        base,
        kernels=kernels,
        sources=tuple(sources),
        devices=_devices(recordings),
        raw_metrics=_moved([base, *others], slots, "raw_metrics", RAW_METRICS),
        verdicts=_moved([base, *others], slots, "verdicts", VERDICTS),
        source_lines=_lines([base, *others], slots),
    )


def _lines(recordings: Sequence[Recording], slots: Sequence[Whole]) -> pa.Table:
    """The source tables: of every launch those of the pass that says most of it. Passes sample the
    same instructions again, so that two are never added."""
    tables, ranks, rows = [], [], []
    for recording, slot in zip(recordings, slots, strict=True):
        table = recording.source_lines
        if not table.num_rows:
            continue
        at = slot[table["row"].to_numpy()]
        row = np.where(at >= 0, at, -2 - at)
        ranks.append(_detail(table, row))
        rows.append(row)
        field = table.schema.get_field_index("row")
        tables.append(table.set_column(field, "row", pa.array(row)))
    if not tables:
        return recordings[0].source_lines
    best: dict[int, tuple[int, int]] = {}
    for at, (found, detail) in enumerate(zip(rows, ranks, strict=True)):
        for launch in np.unique(found).tolist():
            best[launch] = max(best.get(launch, (-1, 0)), (detail[launch], -at))
    kept = [
        table.filter(pa.array([best[one][1] == -at for one in found.tolist()]))
        for at, (table, found) in enumerate(zip(tables, rows, strict=True))
    ]
    return pa.concat_tables(kept)


def _detail(table: pa.Table, rows: Whole) -> dict[int, int]:
    """How much the rows of every launch say: instructions and lines, instructions, or lines."""
    has = [np.asarray(pc.is_valid(table[one]).combine_chunks()) for one in ("address", "line")]
    weight = 2 * has[0].astype(np.int64) + has[1]
    return {launch: int(weight[rows == launch].max()) for launch in np.unique(rows).tolist()}


def _devices(recordings: Sequence[Recording]) -> tuple[DeviceInfo, ...]:
    """The GPUs, each with what any pass says of it; a lone one without a number is the only one."""
    numbers = {device.index for one in recordings for device in one.devices}
    lone = next(iter(numbers - {None}), None) if len(numbers - {None}) == 1 else None
    found: dict[int | None, DeviceInfo] = {}
    for device in (device for one in recordings for device in one.devices):
        index = lone if device.index is None else device.index
        known = found.setdefault(index, device)
        told = {
            one.name: getattr(device, one.name)
            for one in fields(device)
            if getattr(known, one.name) in (None, ())
        }
        found[index] = replace(known, **told)
    return tuple(found.values())


def _notes(sampled: int, scattered: dict[str, int]) -> list[Note]:
    notes = []
    if sampled:
        text = "launches whose counters are the median of the launches that a later pass holds"
        notes.append(Note(text, sampled, severe=False))
    if scattered:
        worst = sorted(scattered, key=lambda name: -scattered[name])[:3]
        text = (
            f"values that differ by more than {SCATTER:.0%} between passes, their median taken "
            f"({', '.join(worst)})"
        )
        notes.append(Note(text, sum(scattered.values()), severe=False))
    return notes


def _placed(
    launches: Launches, total: dict[tuple[Any, ...], int], slot_of: dict[tuple[Any, int], int]
) -> tuple[Whole, int]:
    """The slot of each launch; new ones at the end. Launches that stand for all others of their
    kernel get slot -2 - k, where k is the slot of the kernel's first launch."""
    counts = launches.counts()
    placed, broadcast = [], 0
    for key, nth in zip(launches.keys, launches.nth, strict=True):
        if 0 < counts[key] < total.get(key, 0):
            broadcast += nth == 0 and total[key]
            placed.append(-2 - slot_of[key, 0])
        else:
            placed.append(slot_of.setdefault((key, nth), len(slot_of)))
    return np.array(placed, dtype=np.int64), broadcast


def _table(
    tables: Sequence[pa.Table], spreads: "Sequence[_Spread]", count: int
) -> tuple[pa.Table, dict[str, int]]:
    """One row a slot; and per column how many slots hold values that differ."""
    columns: dict[str, Any] = {}
    scattered: dict[str, int] = {}
    for entry in COLUMNS:
        known = [table[entry.name] for table in tables]
        if all(one.null_count == len(one) for one in known):
            continue
        if entry.type == TEXT or entry.name in _NAMES_SOMETHING:
            columns[entry.name] = _first(known, spreads, count)
            continue
        values, differing = _median([as_reals(one) for one in known], spreads, count)
        if differing:
            scattered[entry.name] = differing
        if pa.types.is_integer(entry.type):
            columns[entry.name] = [None if np.isnan(one) else round(one) for one in values]
        else:
            columns[entry.name] = values
    return kernel_table.kernel_table(columns), scattered


@dataclass(frozen=True)
class _Spread:
    """Which rows of a table go to which slots; a row may go to several."""

    row: Whole
    slot: Whole


def _spread(slot: Whole, keys: Sequence[Any], rows_of: Mapping[Any, Whole]) -> _Spread:
    """keys: of the rows of the first pass; rows_of: those of each key."""
    rows = np.arange(len(slot))
    plain = slot >= 0
    row, to = [rows[plain]], [slot[plain]]
    for mark in np.unique(slot[slot < -1]).tolist():
        anchor = -2 - mark
        mine = rows[slot == mark]
        targets = rows_of[keys[anchor]]
        row.append(np.repeat(mine, len(targets)))
        to.append(np.tile(targets, len(mine)))
    return _Spread(np.concatenate(row), np.concatenate(to))


def _first(known: Sequence[Any], slots: Sequence[_Spread], count: int) -> list[Any]:
    found: list[Any] = [None] * count
    for values, spread in zip(known, slots, strict=True):
        listed = values.to_pylist()
        for row, slot in zip(spread.row.tolist(), spread.slot.tolist(), strict=True):
            if found[slot] is None:
                found[slot] = listed[row]
    return found


def _median(
    known: Sequence[npt.NDArray[np.float64]], slots: Sequence[_Spread], count: int
) -> tuple[npt.NDArray[np.float64], int]:
    """The median over passes per slot, and how many slots differ by more than SCATTER.

    Launches that one pass samples are a median of their own before they meet the other passes.
    """
    of_pass = np.full((len(known), count), np.nan)
    for at, (values, spread) in enumerate(zip(known, slots, strict=True)):
        order = np.lexsort((values[spread.row], spread.slot))
        slot, value = spread.slot[order], values[spread.row[order]]
        keep = ~np.isnan(value)
        slot, value = slot[keep], value[keep]
        if not len(slot):
            continue
        edges = np.flatnonzero(np.diff(slot, prepend=-1))
        sizes = np.diff(np.append(edges, len(slot)))
        low, high = edges + (sizes - 1) // 2, edges + sizes // 2
        of_pass[at, slot[edges]] = (value[low] + value[high]) / 2
    known_passes = (~np.isnan(of_pass)).sum(axis=0)
    result = np.full(count, np.nan)
    some = known_passes > 0
    if some.any():
        result[some] = np.nanmedian(of_pass[:, some], axis=0)
    several = known_passes > 1
    if not several.any():
        return result, 0
    spans = np.nanmax(of_pass[:, several], axis=0) - np.nanmin(of_pass[:, several], axis=0)
    return result, int((spans > SCATTER * np.abs(result[several])).sum())


def _moved(
    recordings: Sequence[Recording], slots: Sequence[Whole], name: str, schema: pa.Schema
) -> pa.Table:
    """Tables that point at rows, pointing at slots; what a former pass said already is said once."""
    rows: list[dict[str, Any]] = []
    seen: set[tuple[Any, ...]] = set()
    for recording, slot in zip(recordings, slots, strict=True):
        for entry in getattr(recording, name).to_pylist():
            at = int(slot[entry["row"]])
            entry["row"] = at if at >= 0 else -2 - at
            same = tuple(entry.get(one) for one in ("row", "section", "metric", "rule", "text"))
            if same not in seen:
                seen.add(same)
                rows.append(entry)
    return pa.Table.from_pylist(rows, schema=schema)
