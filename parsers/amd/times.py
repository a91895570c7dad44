"""Times and identities of AMD's launches that cannot be, in whatever format they come."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traceroof.core import kernel_table
from traceroof.core.recording import Note
from traceroof.ingest.credible import REACHING, impossible
from traceroof.parsers.amd.counters import Pass
from traceroof.parsers.amd.dispatches import UNKNOWN_KERNEL, as_reals, masked
from traceroof.parsers.amd.values import Integers, Mask

_EARLY = "start and duration are of another clock than the rest of the run: unknown"
_LONG = "durations longer than a hundred times the rest of the run: unknown"


def table_of(columns: dict[str, Any]) -> tuple[pa.Table, list[Note]]:
    """The kernel table of these columns, times that cannot be unknown, and what was noticed."""
    notes = [*unreadable(columns), *forget_impossible(columns, [])[1]]
    return kernel_table.kernel_table(columns), notes


# What tells where a launch ran and which one it was -> as a note calls it.
_IDENTITY = {"device": "GPU", "process_id": "process", "launch_id": "dispatch number"}


def unreadable(columns: Mapping[str, Any]) -> list[Note]:
    """Notes on launches whose GPU, process or number cannot be read, where those of most can."""
    notes = []
    for name, words in _IDENTITY.items():
        values = columns.get(name)
        if values is None:
            continue
        missing = int(np.isnan(as_reals(values)).sum())
        if 0 < 2 * missing < len(values):
            notes.append(Note(f"launches whose {words} cannot be read: unknown", missing))
    names = columns["kernel_name"]
    nameless = int(pc.sum(pc.equal(names, UNKNOWN_KERNEL)).as_py() or 0)
    if nameless:
        notes.append(Note(f"launches of kernels without a name: {UNKNOWN_KERNEL}", nameless))
    return notes


def forget_impossible(
    columns: dict[str, Any], passes: Sequence[Pass]
) -> tuple[list[Pass], list[Note]]:
    """Make times that cannot be unknown in ``columns``; the passes without the same durations."""
    if "start_ns" not in columns or "duration_ns" not in columns:
        return list(passes), []
    start, start_known = _wholes(columns["start_ns"])
    duration, duration_known = _wholes(columns["duration_ns"])
    known = np.flatnonzero(start_known & duration_known)
    # A table without streams is of a counter tool, which runs one kernel after the other.
    lane, name = _codes(columns, ("process_id", "device", "stream")), _codes(columns, _KERNEL)
    no_start, no_duration, over = impossible(
        start[known], duration[known], lane[known], name[known]
    )
    counted = (no_start, _EARLY), (no_duration & ~no_start, _LONG), (over, REACHING)
    notes = [Note(text, int(mask.sum())) for mask, text in counted if mask.any()]
    if not notes:
        return list(passes), []
    gone = known[no_duration | over]
    start_known[known[no_start]] = False
    before = duration.astype(np.float64)
    duration_known[gone] = False
    columns["start_ns"] = masked(start, start_known)
    columns["duration_ns"] = masked(duration, duration_known)
    return [_without(one, gone, before) for one in passes], notes


_KERNEL = ("kind", "kernel_name")


def _without(one: Pass, gone: Integers, duration: Any) -> Pass:
    spent = one.duration_ns.copy()
    same = gone[np.abs(spent[gone] - duration[gone]) <= 1]
    spent[same] = np.nan
    return Pass(one.label, one.counters, spent, one.merged)


def _wholes(values: Any) -> tuple[Integers, Mask]:
    found = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    known = np.array(found.is_valid().to_numpy(zero_copy_only=False), dtype=bool)
    return np.array(found.fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64), known


def _codes(columns: Mapping[str, Any], names: Sequence[str]) -> Integers:
    """A number for each distinct combination of these columns, from 0."""
    import pandas as pd

    codes: Any = np.zeros(len(columns["kernel_name"]), dtype=np.int64)
    for name in names:
        values = columns.get(name)
        if values is None:
            continue
        if name == "kernel_name":
            array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
            encoded = array.dictionary_encode().indices
            part = np.asarray(encoded.fill_null(-1).to_numpy(zero_copy_only=False)) + 1
        elif name == "kind":
            part = pd.factorize(np.asarray(values, dtype=object))[0] + 1
        else:
            part = pd.factorize(as_reals(values))[0] + 1
        codes = pd.factorize(codes * (int(part.max(initial=0)) + 1) + part)[0]
    return np.asarray(codes, dtype=np.int64)
