"""What the launches of some files show, apart from their rows: the part that groups and patterns are
made from.

``part_of`` is the map: a pure function of one file. ``merge`` adds parts up, in any order to the same
result. What a part holds is what diagnosis asks of rows:

    variants    launches of which the file says the same: counts, time, durations, extremes
                (``kernels.variants``); groups, categories, roles, places and models follow from them
    by step     launches and time of each variant in each step on each GPU: serving, decoding,
                the optimizer, comparisons, the reference timeline
    regions     sequences of launches that could be one (``fusion``), with their times

The part of one rank and that of a thousand are judged by the same functions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core import kernel_table
from traceroof.core.arrow_bytes import packed, unpacked
from traceroof.core.dictionary import Coded, coded, compact, factorized, together
from traceroof.core.facts import Facts
from traceroof.core.kernel_table import UNKNOWN, whole
from traceroof.kernels import variants as launched
from traceroof.kernels.durations import Durations
from traceroof.kernels.group_figures import first_known
from traceroof.kernels.groups import kernels_of
from traceroof.kernels.modelled_work import model_columns, parts_of_rows
from traceroof.kernels.variants import Sums, Variants, greatest, least, summed
from traceroof.patterns import fusion, regions, roles
from traceroof.patterns.launch_order import KINDS_FROM, LaunchKinds
from traceroof.patterns.regions import NO_REGIONS, Regions

if TYPE_CHECKING:
    from traceroof.core.recording import Recording

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LaunchPart:
    """The launches of some files of a run. files: their numbers."""

    files: tuple[int, ...]
    variants: Variants
    regions: Regions

    def shifted(self, files: int) -> "LaunchPart":
        """The same as part of a run in which so many files come before."""
        if not files:
            return self
        return replace(
            self,
            files=tuple(one + files for one in self.files),
            variants=launched.shifted(self.variants, files),
        )


def part_of(kernels: pa.Table, categories: Coded, files: Sequence[int]) -> tuple[LaunchPart, Ints]:
    """The part of the kernel rows of some files, and the variant of each row.

    categories: of each row.
    """
    kernel = np.zeros(0, dtype=np.int64)

    def kernel_of(variants: Variants) -> Ints:
        nonlocal kernel
        kernel = kernels_of(variants, categories.take(variants.sums.row).values().tolist())
        return kernel

    part = parts_of_rows(kernels, categories)
    made, of_row = launched.variants_of(kernels, part, kernel_of)
    kinds, variant = _kinds(made, categories.take(made.sums.row).values(), kernel)
    found = fusion.regions(kernels, of_row, kernel, variant, kinds)
    return LaunchPart(tuple(files), made, found), of_row


def _kinds(
    variants: Variants, category: npt.NDArray[np.object_], kernel: Ints
) -> tuple[LaunchKinds, Ints]:
    """What each kernel of a file is to the patterns, and its first variant."""
    table, categories = variants.kernels, category.tolist()
    rows = np.flatnonzero(kernel >= 0)
    codes = kernel[rows]
    count = int(codes.max(initial=-1)) + 1
    first = np.empty(count, dtype=np.int64)
    first[codes[::-1]] = rows[::-1]
    shape = model_columns(table, categories, variants.part).get("model_shape")
    texts = {
        **{name: coded(table[name]) for name in ("operator", "operator_path", "phase")},
        "role": roles.roles_of(table, categories),
        **({"model_shape": shape} if isinstance(shape, Coded) else {}),
    }
    columns = {
        name: first_known(Coded(one.codes[rows], one.texts), codes, count)
        for name, one in texts.items()
    }
    columns["category"] = category[first]
    for name, axes in (("blocks", "grid"), ("threads_per_block", "block")):
        sizes = [whole(table[f"{axes}_{axis}"])[first] for axis in "xyz"]
        known = np.all([one != UNKNOWN for one in sizes], axis=0)
        product = np.prod([np.where(known, one, 1).astype(np.float64) for one in sizes], axis=0)
        columns[name] = np.where(known, product, np.nan)
    names = [str(name) for name in coded(table["kernel_name"]).at(first)]
    return LaunchKinds.of(Facts(columns, count).only(KINDS_FROM), names), first


def part_of_rows(kernels: pa.Table, categories: Coded) -> LaunchPart:
    """A kernel table whose launches stand for themselves: the rows of a counter tool."""
    made = launched.of_rows(kernels, parts_of_rows(kernels, categories))
    return LaunchPart((), made, NO_REGIONS)


def merge(parts: Sequence[LaunchPart]) -> LaunchPart:
    """Parts of different files of one run as one, whatever their order."""
    return _merged(parts)[0]


def _merged(parts: Sequence[LaunchPart]) -> tuple[LaunchPart, list[Ints]]:
    """The parts as one, and which variant of it each of theirs is."""
    merged, places = launched.merge([one.variants for one in parts])
    made = LaunchPart(
        files=tuple(sorted(file for one in parts for file in one.files)),
        variants=merged,
        regions=regions.merge(
            [regions.moved(one.regions, at) for one, at in zip(parts, places, strict=True)]
        ),
    )
    return made, places


def part_of_run(recording: "Recording", categories: Coded) -> tuple[LaunchPart, Ints | None]:
    """The part of a run, and the variant of each row where all rows are at hand; what is known
    already (``Recording.summaries``) is taken as it is."""
    kernels = recording.kernels
    known = [one for one in recording.summaries if isinstance(one, LaunchPart)]
    covered = {file for one in known for file in one.files}
    left = [file for file in range(len(recording.sources)) if file not in covered]
    if not covered and len(left) < 2:
        return part_of(kernels, categories, left)
    source = whole(kernels["source"])
    parts, of_rows = list(known), []
    rows = [np.flatnonzero(source == file) for file in left]
    for file, at in zip(left, rows, strict=True):
        made, of_row = part_of(kernels.take(pa.array(at)), categories.take(at), (file,))
        parts.append(made)
        of_rows.append(of_row)
    merged, places = _merged(parts)
    if known:
        return merged, None
    of_all = np.full(kernels.num_rows, -1, dtype=np.int64)
    for at, of_row, place in zip(rows, of_rows, places, strict=True):
        of_all[at] = place[of_row]
    return merged, of_all


def narrowed(part: LaunchPart) -> LaunchPart:
    """The part without the columns that hold nothing: as it is sent and kept."""
    kernels = kernel_table.narrowed(part.variants.kernels)
    return replace(part, variants=replace(part.variants, kernels=kernels))


#: The tables of variants that parts share.
Known = dict[object, list[pa.Table]]


def interned(recording: "Recording", known: Known) -> "Recording":
    """The recording, its part in less memory where ranks have launched the same before (``known``,
    to which it is added)."""
    summaries = tuple(
        replace(one, variants=launched.interned(one.variants, known))
        if isinstance(one, LaunchPart)
        else one
        for one in recording.summaries
    )
    # Every table that came from elsewhere without rows costs 15 kB.
    shared: dict[str, Any] = {
        name: known.setdefault(name, [table])[0]
        for name in _OFTEN_EMPTY
        if not (table := getattr(recording, name)).num_rows
    }
    return replace(recording, summaries=summaries, **shared)


_OFTEN_EMPTY = (
    "raw_metrics", "verdicts", "host_calls", "call_sums", "spans", "source_lines", "clock_logs",
)  # fmt: skip


def encoded(part: LaunchPart) -> bytes:
    """A part as bytes that another process, machine or day can read: no pickle."""
    variants, found = narrowed(part).variants, part.regions
    tables = {
        "kernels": variants.kernels,
        "sums": pa.table({name: getattr(variants.sums, name) for name in _SUMS}),
        "low": pa.table(dict(variants.sums.low)),
        "high": pa.table(dict(variants.sums.high)),
        "durations": pa.table({name: getattr(variants.durations, name) for name in _DURATIONS}),
        "sketched": pa.table({"sketched": variants.durations.sketched}),
        "firsts": pa.table(dict(variants.firsts)),
        "by_step": pa.table(dict(variants.by_step)),
        "steps": pa.table({"name": pa.array(variants.steps, pa.string())}),
        "regions": pa.table(dict(found.regions)),
        "sequences": pa.table(dict(found.sequences)),
        "launches": pa.table({"variant": found.launches}),
        "members": pa.table(dict(found.members)),
        "looked_at": pa.table({"time_ns": np.array([found.time_ns])}),
    }
    whole_part = {name: packed(table) for name, table in tables.items()}
    return msgspec.msgpack.encode((part.files, whole_part))


def decoded(data: bytes) -> LaunchPart:
    """The inverse of ``encoded``. Raises ValueError where ``data`` is something else."""
    try:
        files, packs = msgspec.msgpack.decode(data, type=tuple[tuple[int, ...], dict[str, bytes]])
        tables = {name: unpacked(pack) for name, pack in packs.items()}
        columns = {name: _arrays(one) for name, one in tables.items() if name not in _TEXTS}
        sums = Sums(**columns["sums"], low=columns["low"], high=columns["high"])
        sketched = columns["sketched"]["sketched"].astype(bool)
        times = Durations(**columns["durations"], sketched=sketched)
        variants = Variants(
            kernels=tables["kernels"],
            sums=sums,
            durations=times,
            firsts=columns["firsts"],
            by_step=columns["by_step"],
            steps=tuple(tables["steps"]["name"].to_pylist()),
        )
        found = Regions(
            columns["regions"],
            columns["sequences"],
            columns["launches"]["variant"],
            columns["members"],
            int(columns["looked_at"]["time_ns"][0]),
        )
    except (msgspec.MsgspecError, pa.ArrowException, KeyError, TypeError, IndexError) as error:
        raise ValueError(f"no part of launches: {error}") from None
    return LaunchPart(files, variants, found)


_TEXTS = ("kernels", "steps")
_SUMS = tuple(one.name for one in fields(Sums) if one.name not in ("low", "high"))
_DURATIONS = ("thing", "value", "launches")


def _arrays(table: pa.Table) -> dict[str, npt.NDArray[np.int64]]:
    """The columns of a table as arrays of their own, one value where all are the same."""
    return {
        name: compact(np.array(table[name].to_numpy(zero_copy_only=False)))
        for name in table.column_names
    }


#: What a kernel of ``by_name`` is told by.
_NAMED_BY = ("kind", "kernel_name", "process_name", "source", "rank", "process_id", "device")


def by_name(kernels: pa.Table) -> pa.Table:
    """A kernel table that says how often and how long each kernel ran on each GPU, in two rows: of its
    first start and of its last. Launches and times of both together are exact."""
    codes, first = together(
        coded(kernels[name]).codes
        if kernels.schema.field(name).type == kernel_table.TEXT
        else factorized(whole(kernels[name]))[0]
        for name in _NAMED_BY
    )
    count = len(first)
    launches, duration, start = (
        whole(kernels[name]) for name in ("launch_count", "duration_ns", "start_ns")
    )
    known = duration != UNKNOWN
    every = summed(codes, launches, count)
    time = summed(codes, np.where(known, duration * launches, 0), count)
    timed = least(codes, np.where(known, 1, UNKNOWN), count) != UNKNOWN
    each, rest = np.divmod(time, every)
    # What is left over of a whole number of nanoseconds a launch goes to the rows of the last start.
    later = np.where(rest > 0, rest, np.minimum(every - 1, 1))
    parts = []
    for number, ns, at in (
        (every - later, each, least(codes, start, count)),
        (later, each + (rest > 0), greatest(codes, start, count)),
    ):
        kept = np.flatnonzero(number > 0)
        columns = {name: kernels[name].take(pa.array(first[kept])) for name in _NAMED_BY}
        columns["launch_count"] = pa.array(number[kept])
        for name, values, there in (
            ("duration_ns", ns, timed), ("start_ns", at, at != UNKNOWN),
        ):  # fmt: skip
            columns[name] = pa.array(values[kept], mask=~there[kept])
        parts.append(kernel_table.kernel_table(columns))
    return kernel_table.widened(kernel_table.stack(parts))
