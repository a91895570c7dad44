"""Profile folders of rocprof-compute (``rocprof-compute profile``) and of Omniperf before it.

A folder holds ``pmc_perf.csv`` (all passes merged: one row per dispatch and a column a counter, or
one row per counter), often the parts it was merged from, passes that add up a LEVEL counter, a
description of the machine, and measured ceilings. It is one run of one program.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from traceroof.core import regex
from traceroof.core.merge_recordings import merge
from traceroof.core.recording import Note, Recording, with_notes
from traceroof.errors import TraceroofError
from traceroof.ingest.folders import left_out, lost, readable
from traceroof.parser import Options, Progress
from traceroof.parsers.amd import kinds as amd_kinds
from traceroof.parsers.amd.counters import Pass
from traceroof.parsers.amd.dispatches import Dispatches, of_wide, spans_of
from traceroof.parsers.amd.folder import is_other_trace, looks_like_trace
from traceroof.parsers.amd.gpus import Gpu, of_sysinfo, with_ceilings
from traceroof.parsers.amd.kinds import Found, Kind, layout
from traceroof.parsers.amd.passes import join_passes, middle_duration, pivot
from traceroof.parsers.amd.run import Part, part_of, recording
from traceroof.parsers.amd.stray_rows import fitting_rows, row_numbers
from traceroof.parsers.amd.text import TextTable, read_table

# Tables with one row per dispatch: the merged one, its parts (v2, v3) and those of Omniperf v1.
_WIDE = frozenset({Kind.COMPUTE_WIDE, Kind.V2, Kind.V1})
_MERGED_NAME = regex.compile(r"pmc_perf\.csv", re.IGNORECASE)
_PART_NAME = regex.compile(r"pmc_perf_\d+\.csv|SQC?_.*LEVEL.*\.csv|SQ_IFETCH.*\.csv", re.IGNORECASE)
# In the pass of a LEVEL counter this counter adds that one up; the name of the file says which.
# Merged tables repeat it with numbers behind it, and nobody can tell which is which.
_ADDED_UP = regex.compile(r"SQ_ACCUM_PREV_HIRES(_\d+)?$")
_LEVEL_FILE = regex.compile(r"(SQC?_\w*LEVEL\w*)\.csv", re.IGNORECASE)


@dataclass(frozen=True)
class _Folder:
    """The files of one profile folder."""

    path: Path
    merged: Found | None
    parts: tuple[Found, ...]
    system: Found | None
    ceilings: Found | None


class RocprofCompute:
    """Reader of profile folders, and of a single ``pmc_perf.csv`` of them."""

    name = "rocprof-compute"
    title = "rocprof-compute and Omniperf: profile folder (pmc_perf.csv, sysinfo.csv, roofline.csv)"
    gives = "launches with HBM, cache, LDS, VALU and MFMA figures, occupancy, waits, measured peaks"
    collect = "rocprof-compute profile -n NAME -- COMMAND"

    def recognises(self, head: bytes, path: Path) -> Literal[0, 1, 2]:
        if not head:
            return 2 if path.is_dir() and _is_profile(path) else 0
        found = layout(head)
        mine = (Kind.COMPUTE_WIDE, Kind.COMPUTE_LONG)
        return 2 if found is not None and found.kind in mine else 0

    def read(self, source: Path, progress: Progress, options: Options) -> Recording:
        if not source.is_dir():
            return _read_file(source, progress, options)
        folders = _folders(source)
        ranks = [_rank(one.path) for one in folders]
        if len(folders) < 2 or None in ranks or len(set(ranks)) < len(ranks):
            return _read_folder(_the_folder(source, folders), progress, options)
        found, notes = readable(
            sorted(folders, key=lambda one: _rank(one.path) or 0),
            lambda one: _read_folder(one, progress, options, _rank(one.path)),
            lambda one: one.path,
        )
        return with_notes(merge(found), notes)


PARSER = RocprofCompute()


def _is_profile(path: Path) -> bool:
    """Whether a folder is a profile folder, or holds nothing else that looks like a trace."""
    homes = {folder.path for folder in _folders(path)}
    if not homes or path in homes:
        return bool(homes)
    return all(
        any(home in file.parents for home in homes)
        or not (amd_kinds.look(file) or is_other_trace(file))
        for file in amd_kinds.files_below(path)
        if looks_like_trace(file)
    )


def _folders(path: Path) -> list[_Folder]:
    """The profile folders at or below a path (NAME/GPU/), found by what their files hold."""
    by_folder: dict[Path, list[Found]] = {}
    candidates = [
        file
        for file in amd_kinds.files_below(path)
        if file.name.lower().removesuffix(".gz").endswith(".csv")
    ]
    # The description is what makes a folder one: without it nothing else need be opened.
    homes = {
        file.parent
        for file in candidates
        if file.name.lower() == "sysinfo.csv" or _MERGED_NAME.match(file.name)
    }
    for file in candidates:
        if file.parent in homes:
            found = amd_kinds.look(file)
            if found is not None:
                by_folder.setdefault(file.parent, []).append(found)
    return [
        folder for home, found in by_folder.items() if (folder := _folder(home, found)) is not None
    ]


def _folder(path: Path, found: list[Found]) -> _Folder | None:
    def first(*kinds: Kind) -> Found | None:
        return next((one for one in found if one.kind in kinds), None)

    merged = next(
        (
            one
            for one in found
            if _MERGED_NAME.match(one.path.name) and one.kind in _WIDE | {Kind.COMPUTE_LONG}
        ),
        None,
    )
    parts = tuple(one for one in found if _PART_NAME.match(one.path.name) and one.kind in _WIDE)
    system = first(Kind.COMPUTE_SYSTEM)
    if (merged is None and not parts) or (
        # A rocprof v1 table called pmc_perf.csv is not yet a profile folder.
        system is None and (merged is None or merged.kind is Kind.V1)
    ):
        return None
    return _Folder(path, merged, parts, system, first(Kind.COMPUTE_ROOFLINE))


# Under MPI every rank has a folder of its own, called by its number.
_RANK = regex.compile(r"(?:rank[_-]?)?(\d{1,6})", re.IGNORECASE)


def _rank(path: Path) -> int | None:
    match = _RANK.fullmatch(path.name)
    return int(match.group(1)) if match else None


def _the_folder(path: Path, folders: list[_Folder]) -> _Folder:
    if not folders:
        raise TraceroofError(
            f"{path} holds no profile folder of rocprof-compute (no pmc_perf.csv, no sysinfo.csv)"
        )
    if len(folders) > 1:
        names = ", ".join(str(one.path.relative_to(path)) for one in folders[:5])
        raise TraceroofError(
            f"{path} holds {len(folders)} profile folders ({names})", "name one of them"
        )
    return folders[0]


def _read_folder(
    folder: _Folder, progress: Progress, options: Options, rank: int | None = None
) -> Recording:
    gpu, explaining = _describe(folder, progress, options)
    others: list[Dispatches] = []
    left: list[Note] = []
    if folder.parts:
        others, left = readable(
            folder.parts, lambda found: _one_pass(found, progress, options), lambda one: one.path
        )
    if folder.merged is not None:
        base = _merged(folder.merged, progress, options)
    else:
        # Without the merged table, the part with the most counters gives the dispatches.
        others.sort(key=lambda one: (-len(one), -len(one.counters)))
        base = others.pop(0)
    if not len(base):
        raise TraceroofError(
            f"{base.path} lists no kernel", "did the program launch one while it was profiled?"
        )
    joined = join_passes(base, others)
    # Single passes come first: a ratio is best taken from one run.
    joined.passes.sort(key=lambda one: one.merged)
    joined.gpus = {None: gpu}
    joined.timeline = False
    joined.notes = _without_repeats([*joined.notes, *left, *_foreign(folder)])
    if rank is not None:
        joined.columns["rank"] = np.full(len(joined), rank, dtype=np.int64)
    parts = [part_of(joined, options), *explaining]
    parts += [Part(one.path) for one in folder.parts if one.path != base.path]
    return recording(PARSER.name, "counter-tool", parts, [gpu])


def _foreign(folder: _Folder) -> list[Note]:
    """What lies in the folder, looks like a table and is none of the tool's."""
    found = [
        path
        for path in sorted(folder.path.iterdir())
        if path.is_file() and path.suffix.lower() in (".csv", ".json") and not _is_ours(path)
    ]
    damaged = [left_out(path, reason) for path in found if (reason := lost(path))]
    names = [path.name for path in found if not lost(path)]
    if not names:
        return damaged
    text = f"files that are none of {PARSER.name} left out: {', '.join(names[:5])}"
    return [*damaged, Note(text, len(names), severe=False)]


def _is_ours(path: Path) -> bool:
    return amd_kinds.look(path) is not None


def _without_repeats(notes: list[Note]) -> list[Note]:
    """Each note once: every pass of a file with broken times says the same."""
    return list({note.text: note for note in reversed(notes)}.values())[::-1]


def _read_file(source: Path, progress: Progress, options: Options) -> Recording:
    found = amd_kinds.look(source)
    if found is None or found.kind not in (Kind.COMPUTE_WIDE, Kind.COMPUTE_LONG):
        raise TraceroofError(
            f"{source} holds no kernels of rocprof-compute", f"name its folder: {source.parent}"
        )
    near = [
        described
        for name in ("sysinfo.csv", "roofline.csv")
        if (path := source.parent / name).is_file()
        and (described := amd_kinds.look(path)) is not None
    ]
    system = next((one for one in near if one.kind is Kind.COMPUTE_SYSTEM), None)
    ceilings = next((one for one in near if one.kind is Kind.COMPUTE_ROOFLINE), None)
    folder = _Folder(source.parent, found, (), system, ceilings)
    return _read_folder(folder, progress, options)


def _describe(folder: _Folder, progress: Progress, options: Options) -> tuple[Gpu, list[Part]]:
    """The GPU, and the files that describe it."""
    gpu = Gpu()
    parts: list[Part] = []
    if folder.system is not None:
        found, notes = of_sysinfo(read_table(folder.system.path, options, progress))
        gpu = found or gpu
        parts.append(Part(folder.system.path, notes=notes))
    if folder.ceilings is not None:
        gpu, notes = with_ceilings(gpu, read_table(folder.ceilings.path, options, progress))
        parts.append(Part(folder.ceilings.path, notes=notes))
    return gpu, parts


def _merged(found: Found, progress: Progress, options: Options) -> Dispatches:
    """The merged table. Which of its counters came from one run, it does not say."""
    source = read_table(found.path, options, progress)
    if found.kind is Kind.COMPUTE_LONG:
        return _of_long(source)
    base = of_wide(source, found.path.name)
    base.passes = [replace(_named(one, level=None), merged=True) for one in base.passes]
    return base


def _one_pass(found: Found, progress: Progress, options: Options) -> Dispatches:
    """A part, or the pass of a LEVEL counter: one run of the program."""
    one = of_wide(read_table(found.path, options, progress), found.path.name)
    level = _LEVEL_FILE.match(found.path.name)
    one.passes = [_named(each, level.group(1) if level else None) for each in one.passes]
    return one


def _named(one: Pass, level: str | None) -> Pass:
    """The pass with the sum of its LEVEL counter under a name of its own, or without it."""
    counters = {name: values for name, values in one.counters.items() if not _ADDED_UP.match(name)}
    added = one.counters.get("SQ_ACCUM_PREV_HIRES")
    if level and added is not None:
        counters[f"{level}_ACCUM"] = added
    return replace(one, counters=counters)


def _of_long(source: TextTable) -> Dispatches:
    """The dispatches of a table with one row per counter; every pass has its own duration."""
    identity = ("dispatchid", "kernelname", "gridsize", "gpuid")
    fits, strays = fitting_rows(source, row_numbers(source, *identity))
    if strays:
        source = source.take(fits)
        source.notes += strays
    dispatch = row_numbers(source, *identity)
    names, values = source.text("countername"), source.reals("countervalue")
    if names is None or values is None:
        raise TraceroofError(f"{source.path} has no counter names or values")
    begun, spent = spans_of(source)
    turned = pivot(
        dispatch, names.combine_chunks(), values, begun, spent, source.path.name, merged=True
    )
    base = of_wide(source.take(turned.first), source.path.name)
    base.passes = turned.passes
    base.notes += turned.notes
    base.timeline = False
    middle = middle_duration(turned.passes)
    if middle is not None:
        # Each pass ran the dispatch anew: the middle of their durations stands for it.
        base.columns["duration_ns"] = middle
        known = len(middle) - middle.null_count
        text = "durations are the median over the passes of a dispatch"
        base.notes.append(Note(text, known, severe=False))
    return base
