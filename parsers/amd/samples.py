"""Program-counter samples of AMD GPUs: why waves did not issue, as stall shares of a dispatch."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from traceroof.core.recording import Note
from traceroof.parsers.amd.text import TextTable
from traceroof.parsers.amd.values import Integers, Mask

FROM_SAMPLES = "pc-samples"

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
# Schedulers of a compute unit; a sample counts the waves of all of them.
_SIMDS = 4
# A wait for vector memory, whatever else it waits for; else it is for LDS, scalar memory or
# messages. From gfx12 on each counter has an instruction of its own.
_MEMORY_WAIT = r"vmcnt|vscnt|wait_loadcnt|wait_storecnt|wait_samplecnt|wait_bvhcnt"


@dataclass(frozen=True)
class Samples:
    """m samples: the dispatch, whether the wave issued, and the stall reason otherwise.

    reason: name of a stall reason of the kernel table; None where the wave issued. waves: those
    on the compute unit at that moment, NaN where unknown.
    """

    dispatch: Integers
    issued: Mask
    reason: npt.NDArray[np.object_]
    waves: npt.NDArray[np.float64]

    @staticmethod
    def of(source: TextTable) -> "Samples | None":
        """The samples of a table; None for samples without reasons (host trap)."""
        dispatch, issued = source.integers("dispatchid"), source.integers("waveissuedinstruction")
        reason, instruction = source.text("stallreason"), source.text("instruction")
        if dispatch is None or issued is None or reason is None:
            return None
        plain = pc.replace_substring_regex(reason.combine_chunks(), f"^{_PREFIX}", "")
        encoded = plain.dictionary_encode()
        names = [_REASONS.get(str(name).strip()) for name in encoded.dictionary.to_pylist()]
        found = np.array([*names, None], dtype=object)[
            np.asarray(encoded.indices.fill_null(len(names)))
        ]
        waiting = np.asarray(pc.equal(plain, _WAITCNT).fill_null(False))
        if instruction is not None:
            memory = pc.match_substring_regex(instruction.combine_chunks(), _MEMORY_WAIT)
            far = np.asarray(memory.fill_null(False))
        else:
            far = np.ones(len(waiting), dtype=bool)
        found[waiting & far] = "long_scoreboard"
        found[waiting & ~far] = "short_scoreboard"
        # The reason is meaningless where an instruction was issued.
        done = np.asarray(pc.equal(issued, 1).fill_null(False))
        found[done] = None
        waves = source.reals("wavecount")
        unknown = np.full(len(found), np.nan)
        return Samples(
            np.asarray(dispatch.fill_null(-1), dtype=np.int64),
            done,
            found,
            unknown if waves is None else waves,
        )


def stall_columns(samples: Samples, dispatches: Integers) -> tuple[dict[str, Any], list[Note]]:
    """Columns stall_* and stalls_from for n dispatches, given by their numbers.

    A share is of all samples of the dispatch, issuing ones included, so that the shares and the
    share of issuing waves add up to 1.
    """
    import pandas as pd

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
