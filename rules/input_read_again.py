"""A normalisation that reads its input from device memory more than once."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.core.tracing import one_of
from traceroof.rule import Attainable, Rule, above, at_least, below
from traceroof.rules._kernels import of_class, tunable

_MEMORY = ("dram-bound", "memory-bound", "memory-leaning", "balanced", "latency-bound")


def _applies(k: Facts) -> Mask:
    norm = one_of(k.category, "norm")
    return np.asanyarray(tunable(k) & norm & of_class(k, *_MEMORY))


def _fires(k: Facts) -> Mask:
    asked = k.meets("used_load_bytes") & k.meets("caught")
    return np.asanyarray(asked & k.meets("read") & k.meets("wider"))


def _saves(k: Facts, peak: Attainable) -> Column:
    return np.asanyarray((k.dram_read_bytes - k.used_store_bytes) / k.dram_bytes)


# 268 MB read twice, a part of it from L2 the second time, and 268 MB written.
_TWICE = {
    "category": "norm", "primary_class": "memory-leaning", "used_load_bytes": 805e6, "used_store_bytes": 268e6,
    "dram_read_bytes": 468e6, "dram_bytes": 720e6,
}  # fmt: skip

RULES = (
    Rule(
        id="input-read-again",
        topic="algorithm",
        title="The kernel reads its input from device memory more than once",
        scope="kernel",
        why=(
            "A normalisation needs its input twice: for the statistics of a row and for the result. "
            "What the second pass does not find in a cache comes from device memory again."
        ),
        condition=(
            "a normalisation whose loads ask for {used_load_bytes} "
            "times what it stores or more, and more than {caught} times what device memory reads, which "
            "is {read} to {wider} times what it stores; from there on a second input or a wider type explains them"
        ),
        needs=("used_load_bytes", "used_store_bytes", "dram_read_bytes", "dram_bytes"),
        uses=("category", "primary_class"),
        applies=_applies,
        when=_fires,
        because=(
            "device memory reads {dram_read_bytes} for {used_store_bytes} that the kernel stores, and "
            "its loads ask for {used_load_bytes}: the input comes from device memory again"
        ),
        fix=(
            "Keep the row in registers or shared memory between the two passes. For rows that do not "
            "fit, use one pass for the statistics (Welford) and give each row to a block cluster, or "
            "process fewer rows at a time so that L2 holds them."
        ),
        refute=(
            "Compare the bytes read with the size of the input. If they are equal, the kernel has "
            "a second input or a wider one."
        ),
        saves=_saves,
        # The fix moves fewer bytes, so those of today are no floor.
        kind="hard",
        grade="inferred",
        layer="operator",
        effort="kernel",
        thresholds={
            "used_load_bytes": at_least(1.9, of="used_store_bytes"),
            "caught": above(
                1.1, column="used_load_bytes", of="dram_read_bytes", words="{op} bytes read, caches help"
            ),
            "read": at_least(1.3, column="dram_read_bytes", of="used_store_bytes"),
            "wider": below(1.9, column="dram_read_bytes", of="used_store_bytes"),
        },
        references=(
            "Welford: Note on a method for calculating corrected sums of squares, 1962",
            "Apex and PyTorch layer_norm kernels: a row stays in registers",
        ),
        fires=(_TWICE, {**_TWICE, "primary_class": "dram-bound", "dram_read_bytes": 350e6}),
        silent=(
            {**_TWICE, "dram_read_bytes": 536e6},
            {**_TWICE, "dram_read_bytes": 270e6},
            {**_TWICE, "used_load_bytes": 500e6},
            {**_TWICE, "dram_read_bytes": 480e6, "used_load_bytes": 520e6},
            {**_TWICE, "category": "elementwise"},
            {**_TWICE, "primary_class": "compute-bound"},
        ),
    ),
)  # fmt: skip
