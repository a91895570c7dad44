"""Program-counter samples of AMD GPUs: why waves did not issue, as stall shares of a dispatch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceroof.core.recording import Note
from traceroof.core.source_lines import SAMPLES_OF, source_table
from traceroof.ingest.typed_columns import numbers, texts, wholes
from traceroof.parsers.amd.dispatches import Dispatches
from traceroof.parsers.amd.text import TextTable
from traceroof.parsers.amd.values import Integers, Mask

FROM_SAMPLES = "pc-samples"
Text: TypeAlias = pa.ChunkedArray | pa.Array | None
# "path:line" of an instruction; a Windows path has a colon of its own.
_PLACE = r"^(?P<file>.+):(?P<line>[0-9]{1,9})(?:\s.*)?$"

# Why a wave did not issue (rocprofiler-sdk, pc_sampling.h) -> the nearest stall reason of the
# kernel table. ARBITER_NOT_WIN: another wave was chosen; ARBITER_WIN_EX_STALL: chosen, but the
# unit could not take the instruction.
_REASONS = {
    "NO_INSTRUCTION_AVAILABLE": "no_instruction",
    "ALU_DEPENDENCY": "wait",
    "BARRIER_WAIT": "barrier",
    "ARBITER_NOT_WIN": "not_selected",
    "ARBITER_WIN_EX_STALL": "math_pipe_throttle",
    "SLEEP_WAIT": "sleeping",
    "INTERNAL_INSTRUCTION": "misc",
    "OTHER_WAIT": "misc",
    "NONE": "misc",
}
_PREFIX = "ROCPROFILER_PC_SAMPLING_INSTRUCTION_NOT_ISSUED_REASON_"
_WAITCNT = "WAITCNT"
# The order of the tool's list (rocprofiler-sdk, pc_sampling.h), for files that give its number.
_NUMBERED = (
    "NONE", "NO_INSTRUCTION_AVAILABLE", "ALU_DEPENDENCY", _WAITCNT, "INTERNAL_INSTRUCTION",
    "BARRIER_WAIT", "ARBITER_NOT_WIN", "ARBITER_WIN_EX_STALL", "OTHER_WAIT", "SLEEP_WAIT",
)  # fmt: skip
# Schedulers of a compute unit; a sample counts the waves of all of them.
_SIMDS = 4
# A wait for vector memory, whatever else it waits for; else it is for LDS, scalar memory or
# messages. From gfx12 on each counter has an instruction of its own.
_MEMORY_WAIT = r"vmcnt|vscnt|wait_loadcnt|wait_storecnt|wait_samplecnt|wait_bvhcnt"


@dataclass(frozen=True)
class Samples:
    """m samples: the dispatch, the instruction, whether the wave issued, and the stall reason
    otherwise.

    reason: name of a stall reason of the kernel table; None where the wave issued. waves: those
    on the compute unit at that moment, NaN where unknown. has_reasons: False for samples that the
    host took by traps, which say where a wave was and not why. comment: ``path:line`` of the
    instruction. offset: of the instruction in its code object, null where the file has none.
    """

    dispatch: Integers
    issued: Mask
    reason: npt.NDArray[np.object_]
    waves: npt.NDArray[np.float64]
    instruction: pa.Array
    comment: pa.Array
    offset: pa.Array
    has_reasons: bool

    @staticmethod
    def of(source: TextTable) -> "Samples | None":
        """The samples of a table; None where it does not name the dispatches."""
        dispatch = source.integers("dispatchid")
        if dispatch is None:
            return None
        return Samples.made(
            dispatch,
            source.text("instruction"),
            source.text("instructioncomment"),
            source.integers("waveissuedinstruction"),
            source.text("stallreason"),
            source.reals("wavecount"),
        )

    @staticmethod
    def made(
        dispatch: pa.Array,
        instruction: Text,
        comment: Text,
        issued: pa.Array | None,
        reason: Text,
        waves: npt.NDArray[np.float64] | None = None,
        offset: pa.Array | None = None,
    ) -> "Samples":
        """Samples by the columns of a file; None for one that it does not have."""
        size = len(dispatch)
        code, place = (
            pa.nulls(size, pa.string()) if one is None else _flat(one)
            for one in (instruction, comment)
        )
        has_reasons = issued is not None and reason is not None
        done, found = np.zeros(size, dtype=bool), np.full(size, None, dtype=object)
        if issued is not None and reason is not None:
            # The reason is meaningless where an instruction was issued.
            done = np.asarray(pc.equal(issued, 1).fill_null(False))
            found = _reasons(_flat(reason), code)
            found[done] = None
        return Samples(
            np.asarray(dispatch.fill_null(-1), dtype=np.int64),
            done,
            found,
            np.full(size, np.nan) if waves is None else waves,
            code,
            place,
            pa.nulls(size, pa.int64()) if offset is None else offset,
            has_reasons,
        )

    def lines(self) -> pa.Table:
        """The samples as a source table, one row per dispatch and instruction; ``row`` is the number
        of the dispatch."""
        import pandas as pd

        keys = [
            self.dispatch,
            *(
                one.dictionary_encode().indices.fill_null(-1).to_numpy()
                for one in (self.instruction, self.comment)
            ),
            self.offset.fill_null(-1).to_numpy(zero_copy_only=False),
        ]
        groups = pd.DataFrame(dict(enumerate(keys))).groupby(list(range(len(keys))), sort=False)
        number = groups.ngroup().to_numpy()
        first = np.flatnonzero(groups.cumcount().to_numpy() == 0)
        size = len(first)
        columns: dict[str, Any] = {"samples": np.bincount(number, minlength=size)}
        if self.has_reasons:
            columns["samples_selected"] = np.bincount(number[self.issued], minlength=size)
            columns["samples_not_issued"] = columns["samples"] - columns["samples_selected"]
            for name in sorted({str(one) for one in self.reason if one is not None}):
                count = np.bincount(number[self.reason == name], minlength=size)
                columns[SAMPLES_OF[name]] = count
        at = pa.array(first)
        comments = self.comment.take(at)
        columns |= {
            "row": self.dispatch[first],
            "address": self.offset.take(at),
            "instruction": self.instruction.take(at),
            "file": pc.struct_field(pc.extract_regex(comments, _PLACE), "file"),
            "line": pc.struct_field(pc.extract_regex(comments, _PLACE), "line").cast(pa.int64()),
        }
        return source_table(columns, size)


def _flat(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _reasons(reason: pa.Array, instruction: pa.Array) -> npt.NDArray[np.object_]:
    """The stall reason of each sample by the tool's name for it; None where that is unknown."""
    plain = pc.replace_substring_regex(reason, f"^{_PREFIX}", "")
    encoded = plain.dictionary_encode()
    names = [_REASONS.get(str(name).strip()) for name in encoded.dictionary.to_pylist()]
    by_code: npt.NDArray[np.object_] = np.array([*names, None], dtype=object)
    codes = np.asarray(encoded.indices.fill_null(len(names)), dtype=np.int64)
    found: npt.NDArray[np.object_] = by_code[codes]
    waiting = np.asarray(pc.equal(plain, _WAITCNT).fill_null(False))
    far = np.ones(len(waiting), dtype=bool)
    if instruction.null_count < len(instruction):
        far = np.asarray(pc.match_substring_regex(instruction, _MEMORY_WAIT).fill_null(False))
    found[waiting & far] = "long_scoreboard"
    found[waiting & ~far] = "short_scoreboard"
    return found


def reason_name(stated: Any) -> str | None:
    """A stall reason by its name, whether a file gives that or its number."""
    if isinstance(stated, int):
        return _NUMBERED[stated] if 0 <= stated < len(_NUMBERED) else None
    return stated if isinstance(stated, str) else None


def stall_columns(samples: Samples, dispatches: Integers) -> tuple[dict[str, Any], list[Note]]:
    """Columns stall_* and stalls_from for n dispatches, given by their numbers.

    A share is of all samples of the dispatch, issuing ones included, so that the shares and the
    share of issuing waves add up to 1. Samples without reasons give none.
    """
    import pandas as pd

    if not samples.has_reasons:
        return {}, []
    order = np.argsort(dispatches, kind="stable")
    place = np.searchsorted(dispatches[order], samples.dispatch)
    place = np.minimum(place, max(len(order) - 1, 0))
    hit = (
        dispatches[order][place] == samples.dispatch
        if len(order)
        else np.zeros(len(samples.dispatch), dtype=bool)
    )
    known = hit & (samples.issued | pd.notna(samples.reason))
    row = order[place[known]] if len(order) else np.empty(0, dtype=np.int64)
    total = np.bincount(row, minlength=len(dispatches)).astype(np.float64)
    seen = total > 0
    columns: dict[str, Any] = {}
    reasons = samples.reason[known]
    for name in sorted({str(one) for one in reasons if one is not None}):
        count = np.bincount(row[reasons == name], minlength=len(dispatches))
        share = np.full(len(dispatches), np.nan)
        share[seen] = count[seen] / total[seen]
        columns[f"stall_{name}"] = share
    issuing = np.full(len(dispatches), np.nan)
    issued = np.bincount(row[samples.issued[known]], minlength=len(dispatches))
    issuing[seen] = issued[seen] / total[seen]
    columns["wave_issuing"] = issuing
    resident = samples.waves[known]
    counted = ~np.isnan(resident)
    summed = np.bincount(row[counted], weights=resident[counted], minlength=len(dispatches))
    number = np.bincount(row[counted], minlength=len(dispatches))
    with np.errstate(divide="ignore", invalid="ignore"):
        columns["warps_active"] = summed / number / _SIMDS
    source = np.full(len(dispatches), None, dtype=object)
    source[seen] = FROM_SAMPLES
    if seen.any():
        columns["stalls_from"] = source
    notes: list[Note] = []
    lost = int((~hit).sum())
    if lost:
        text = "samples of dispatches that the trace does not list were left out"
        notes.append(Note(text, lost, severe=False))
    strange = int((hit & ~known).sum())
    if strange:
        notes.append(Note("samples with an unknown stall reason were left out", strange))
    return columns, notes


#: The columns of a database's table of samples.
SAMPLE = (
    "method", "dispatch_id", "instruction", "instruction_comment", "wave_issued_instruction",
    "stall_reason", "wave_count",
)  # fmt: skip


def of_database(rows: Mapping[str, list[Any]]) -> list[Samples]:
    """The samples of a database's table, which may hold those of both methods."""
    size = len(next(iter(rows.values()), []))
    columns = {name: np.array(rows.get(name, [None] * size), dtype=object) for name in SAMPLE}
    told = zip(columns["method"], columns["wave_issued_instruction"], strict=True)
    with_reasons = np.array(
        [issued is not None and how != "host_trap" for how, issued in told], bool
    )
    found = []
    for has_reasons in (True, False):
        kept = with_reasons == has_reasons
        count = int(kept.sum())
        if not count:
            continue
        some = {name: values[kept].tolist() for name, values in columns.items()}
        known = has_reasons
        found.append(
            Samples.made(
                wholes(some["dispatch_id"], count),
                texts(some["instruction"], count),
                texts(some["instruction_comment"], count),
                wholes(some["wave_issued_instruction"], count) if known else None,
                texts([reason_name(one) for one in some["stall_reason"]], count) if known else None,
                numbers(some["wave_count"], count) if known else None,
            )
        )
    return found


def put_samples(found: Sequence[Samples], dispatches: Dispatches) -> list[pa.Table]:
    """Add stall shares to the dispatches that were hit; returns the source tables of the samples,
    by the number of the dispatch. Of both methods the one that knows reasons is taken."""
    ids = dispatches.columns.get("launch_id")
    if ids is None:
        return []
    lines = []
    with_reasons = [one for one in found if one.has_reasons] or found
    for one in with_reasons:
        columns, notes = stall_columns(one, np.asarray(ids.fill_null(-1), dtype=np.int64))
        dispatches.columns |= columns
        dispatches.notes = [*dispatches.notes, *notes]
        lines.append(one.lines())
    return lines
