"""Lanes of a wavefront touch scattered addresses (AMD)."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Attainable, Rule
from traceroof.rules._kernels import on_amd, tunable

# Contiguous accesses of 8 or 16 bytes a lane need 16 lookups; those of 4 bytes need 4.
_WIDEST = 16


def _saves(k: Facts, peak: Attainable) -> Column:
    waste = 1 - _WIDEST / k.lines_per_request
    # The same arithmetic remains, however well its operands arrive.
    return np.asanyarray(np.fmin(waste, 1 - k.compute_pct / (100 * np.asanyarray(peak.compute))))


RULES = (
    Rule(
        id="amd-coalescing",
        topic="uncoalesced",
        title="Lanes of a wavefront touch scattered addresses",
        scope="kernel",
        why=(
            "The vector cache serves a wavefront one cache line after another. Neighbouring lanes "
            "on neighbouring addresses share lines; scattered or strided lanes each need their "
            "own, and every level down to device memory carries what nobody asked for."
        ),
        condition=(
            "more than 32 cache-line lookups for a vector-memory instruction, twice what the "
            "widest contiguous access needs (16 for 8 or 16 bytes a lane, 4 for 4 bytes; 64 is one "
            "a lane). The coalescing figure of rocprofiler-compute is not used: it gives 25 %, its "
            "worst, for contiguous 8- and 16-byte accesses too"
        ),
        needs=("lines_per_request",),
        uses=("vendor", "primary_class", "compute_pct", "dram_pct", "l1_hit_pct", "l2_hit_pct"),
        applies=lambda k: on_amd(k) & tunable(k),
        when=lambda k: k.lines_per_request > 2 * _WIDEST,
        because=(
            "a vector-memory instruction of a wavefront looks up {lines_per_request:.0f} cache "
            "lines; contiguous lanes need 4 to 16"
        ),
        fix=(
            "Let neighbouring lanes touch neighbouring addresses: swap loops or index order, "
            "structures of arrays, a transpose through LDS, then 16 bytes a lane (dwordx4) on "
            "128-byte boundaries."
        ),
        refute=(
            "If the vector cache serves the other lookups (high L1 hit rate) and the time stays "
            "after the change, the scatter was harmless."
        ),
        saves=_saves,
        # The fix moves fewer bytes, so those of today are no floor.
        kind="hard",
        grade="observed",
        layer="operator",
        thresholds={"lines_per_request": "> 32"},
        references=(
            "rocprofiler-sdk counter definitions: TCP_TOTAL_CACHE_ACCESSES, TA_TOTAL_WAVEFRONTS",
            "Measured on MI210: benchmark kernels of 2 to 16 bytes a lane, 4 and 16 lookups",
        ),
        fires=(
            {"vendor": "amd", "lines_per_request": 32.1},
            {"vendor": "amd", "lines_per_request": 64.0, "compute_pct": 10.0},
        ),
        silent=(
            {"vendor": "amd", "lines_per_request": 32.0},
            {"vendor": "amd", "lines_per_request": 16.0},
            {"vendor": "amd", "lines_per_request": 64.0, "primary_class": "launch-bound"},
            {"vendor": "nvidia", "lines_per_request": 64.0},
        ),
    ),
)
