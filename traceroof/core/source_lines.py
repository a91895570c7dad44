"""The source table: what was sampled and counted per instruction, and the source line of each.

It stands beside the kernel table; ``row`` points into it. A row is an instruction where the file
has instructions, and a source line where it has lines only: the two are never in one kernel, so
that every column adds up. Unknown is null, never 0.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from traceroof.core.kernel_table import STALL_REASONS, TEXT

#: Samples by stall reason; ``selected`` are warps that issued.
REASONS: tuple[str, ...] = ("selected", *STALL_REASONS)
#: The column of samples for a reason.
SAMPLES_OF: Mapping[str, str] = {reason: f"samples_{reason}" for reason in REASONS}

#: What is counted per instruction, all launches of the row of the kernel table together.
COUNTS: tuple[str, ...] = (
    "samples",  # of all reasons
    "samples_not_issued",  # taken in cycles in which the scheduler issued nothing
    *SAMPLES_OF.values(),
    "instructions",  # executed by warps
    "thread_instructions",  # by threads that were active
    "thread_instructions_predicated",  # by threads active and not predicated off
    "divergent_branches",
    "global_sectors",  # of 32 bytes, between L1 and L2
    "global_sectors_ideal",
    "local_sectors",
    "shared_wavefronts",
    "shared_wavefronts_ideal",
)

#: address: bytes from the start of ``function``. instruction: its text, where the file has it.
#: ptx_line: in the PTX text of its module; ptx: that line. file: as the compiler wrote it.
#: memory: the space an access goes to. expected_samples: of the kernel, if all of it was sampled.
SOURCE: pa.Schema = pa.schema(
    [
        ("row", pa.int64()),
        ("function", TEXT),
        ("address", pa.int64()),
        ("instruction", TEXT),
        ("file", TEXT),
        ("line", pa.int64()),
        ("ptx_line", pa.int64()),
        ("ptx", TEXT),
        ("memory", TEXT),
        ("access", TEXT),
        ("expected_samples", pa.float64()),
        *((name, pa.int64()) for name in COUNTS),
    ]
)


def source_table(columns: Mapping[str, Any], rows: int) -> pa.Table:
    """n rows of ``SOURCE`` from sequences or arrays; a column that is not given is null."""
    arrays = [
        _array(columns[one.name], one.type) if one.name in columns else pa.nulls(rows, one.type)
        for one in SOURCE
    ]
    return pa.Table.from_arrays(arrays, schema=SOURCE)


def _array(values: Any, type: pa.DataType) -> pa.Array:
    if isinstance(values, pa.Array):
        return values if values.type == type else values.cast(type)
    return pa.array(values, type)
