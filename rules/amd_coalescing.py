"""Lanes of a wavefront touch scattered addresses (AMD)."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Attainable, Rule, above, at_least, at_most
from traceroof.rules._kernels import on_amd, tunable
from traceroof.rules._least import LEAST, beyond_least

# Contiguous accesses of 8 or 16 bytes per lane need 16 lookups; those of 4 bytes need 4.
_WIDEST = 16


def _saves(k: Facts, peak: Attainable) -> Column:
    waste = 1 - _WIDEST / k.lines_per_request
    # The same arithmetic remains, however well its operands arrive.
    return np.asanyarray(np.fmin(waste, 1 - k.compute_pct / (100 * np.asanyarray(peak.compute))))


_STRIDED = {"vendor": "amd", "vector_l1_pct": 87.7, "l1_hit_pct": 0.0, "l2_hit_pct": 93.4}

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
    Rule(
        id="amd-strided",
        topic="uncoalesced",
        title="The vector cache is busy with lookups that miss",
        scope="kernel",
        why=(
            "Lanes that each walk along their own row use a few bytes of a cache line per "
            "instruction. The line is evicted from the small vector cache before the next "
            "instruction uses the rest, and is fetched from L2 again. L2 serves nearly all of "
            "it, so "
            "device memory looks idle."
        ),
        condition=(
            "vector cache at {vector_l1_pct} of its lookups or more with at most {l1_hit_pct} hits, "
            "while L2 hits {l2_hit_pct} or more"
        ),
        needs=("vector_l1_pct", "l1_hit_pct", "l2_hit_pct"),
        uses=("vendor", "primary_class", "l2_throughput_pct", "dram_bytes_per_s", *LEAST),
        applies=lambda k: on_amd(k) & tunable(k),
        when=lambda k: k.meets("vector_l1_pct") & k.meets("l1_hit_pct") & k.meets("l2_hit_pct"),
        because=(
            "the vector cache runs at {vector_l1_pct} of its peak lookup rate and hits "
            "{l1_hit_pct}, and L2 hits {l2_hit_pct}: the same lines are fetched many times"
        ),
        fix=(
            "Let neighbouring lanes access neighbouring addresses: store the matrix transposed, "
            "swap the loops, or give a row to a wavefront instead of a lane. Each line is then "
            "used as a whole when it comes."
        ),
        refute=(
            "Transpose the data in a copy of the program. L2 hits must fall and the time with "
            "them; where atomics or a small problem take the time, it stays."
        ),
        # Fewer lookups and fewer misses: only the bytes of device memory stay.
        saves=beyond_least,
        likely=lambda k, peak: np.asanyarray(0.8 * beyond_least(k, peak)),
        kind="hard",
        grade="observed",
        layer="operator",
        suppresses=("l1-smem-bound", "l2-bound", "amd-dependency-wait"),
        thresholds={
            "vector_l1_pct": at_least(60),
            "l1_hit_pct": at_most(10),
            "l2_hit_pct": at_least(80),
        },
        references=(
            "amd/HPCTrainingExamples, rocprof-compute: strided access, before and after",
            "rocprofiler-compute documentation: vector L1 cache, hit rates and utilization",
        ),
        fires=(
            _STRIDED,
            {**_STRIDED, "vector_l1_pct": 60.0, "l1_hit_pct": 10.0, "l2_hit_pct": 80.0},
        ),
        silent=(
            {**_STRIDED, "vector_l1_pct": 59.0},
            {**_STRIDED, "l1_hit_pct": 10.5},
            {**_STRIDED, "l2_hit_pct": 79.0},
            {**_STRIDED, "vendor": "nvidia"},
        ),
    ),
)
