"""Lanes of a wavefront touch scattered addresses (AMD)."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Attainable, Rule, above
from traceroof.rules._kernels import on_amd, tunable

# Contiguous accesses of 8 or 16 bytes per lane need 16 lookups; those of 4 bytes need 4.
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
            "on neighbouring addresses share lines. Scattered or strided lanes each need their "
            "own line, and every level down to device memory moves bytes that no lane asked for."
        ),
        condition=(
            "more than {lines_per_request} cache-line lookups per vector-memory instruction, "
            "twice what the widest contiguous access needs. (The coalescing figure of "
            "rocprofiler-compute is not used: it shows its worst value for contiguous accesses of "
            "several words per lane too.)"
        ),
        needs=("lines_per_request",),
        uses=("vendor", "primary_class", "compute_pct", "dram_pct", "l1_hit_pct", "l2_hit_pct"),
        applies=lambda k: on_amd(k) & tunable(k),
        when=lambda k: k.meets("lines_per_request"),
        because=(
            "a vector-memory instruction of a wavefront looks up {lines_per_request:.0f} cache "
            "lines; contiguous lanes need 4 to 16"
        ),
        fix=(
            "Let neighbouring lanes access neighbouring addresses: swap loops or index order, use "
            "structures of arrays, transpose through LDS. Then load 16 bytes per lane (dwordx4) "
            "on 128-byte boundaries."
        ),
        refute=(
            "Make the accesses contiguous. If the time stays, the vector cache served the extra "
            "lookups (high L1 hit rate) and the scatter was harmless."
        ),
        saves=_saves,
        # The fix moves fewer bytes, so those of today are no floor.
        kind="hard",
        grade="observed",
        layer="operator",
        thresholds={"lines_per_request": above(2 * _WIDEST)},
        references=(
            "rocprofiler-sdk counter definitions: TCP_TOTAL_CACHE_ACCESSES, TA_TOTAL_WAVEFRONTS",
            "Measured on MI210: benchmark kernels of 2 to 16 bytes per lane, 4 and 16 lookups",
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
