"""Registers spill on AMD: to scratch memory, and before that to the accumulation registers."""

import numpy as np

from traceroof.core.facts import Facts, Mask
from traceroof.core.tracing import one_of
from traceroof.rule import Rule, above, at_least, at_most
from traceroof.rules._kernels import on_amd, tunable

# Work in these categories accumulates in them, whatever the kernel is called.
_ACCUMULATES = ("gemm", "conv", "attention", "moe-routing")


def _no_matrix(k: Facts) -> Mask:
    """Kernels on AMD without matrix instructions, by counters, name and category."""
    named = (k.name_tensor_core == 1) | one_of(k.category, *_ACCUMULATES)
    counted = ~(k.meets("tensor_pct") & k.meets("flop_tensor"))
    return np.asanyarray(on_amd(k) & tunable(k) & ~named & ~counted)


RULES = (
    Rule(
        id="amd-scratch",
        topic="spills",
        title="Threads keep values in scratch memory",
        scope="kernel",
        why=(
            "Scratch is device memory behind the caches. It holds what does not fit into the "
            "vector registers, arrays indexed at run time, and the stack of calls that were not "
            "inlined. Each access is a memory instruction."
        ),
        condition="the kernel allocates scratch memory",
        needs=("scratch_bytes_per_thread",),
        uses=(
            "vendor",
            "primary_class",
            "registers_per_thread",
            "accumulation_registers_per_thread",
            "theoretical_occupancy_pct",
        ),
        applies=lambda k: on_amd(k) & tunable(k),
        when=lambda k: k.meets("scratch_bytes_per_thread"),
        because=(
            "{scratch_bytes_per_thread:.0f} bytes of scratch per thread[, with "
            "{registers_per_thread:.0f} vector registers]"
        ),
        fix=(
            "Keep fewer values live (a smaller tile, less unrolling), raise the register limit "
            "(__launch_bounds__, amdgpu_waves_per_eu), index local arrays by constants, inline "
            "device functions. -Rpass-analysis=kernel-resource-usage reports spills and scratch."
        ),
        refute=(
            "Build without scratch. If the time stays, the scratch was a stack that is rarely "
            "accessed; the compiler then reports no spills."
        ),
        # How often it is touched is not counted.
        kind="conditional",
        grade="observed",
        layer="operator",
        thresholds={"scratch_bytes_per_thread": above(0)},
        references=("LLVM, AMDGPU usage: private segment; ROCm documentation, register pressure",),
        fires=(
            {"vendor": "amd", "scratch_bytes_per_thread": 16.0},
            {"vendor": "amd", "scratch_bytes_per_thread": 272.0, "registers_per_thread": 256.0},
        ),
        silent=(
            {"vendor": "amd", "scratch_bytes_per_thread": 0.0},
            # The generic kernel of RCCL has a stack.
            {
                "vendor": "amd",
                "scratch_bytes_per_thread": 272.0,
                "primary_class": "communication",
            },
        ),
    ),
    Rule(
        id="amd-agpr-spill",
        topic="spills",
        title="Registers spill to the accumulation registers",
        scope="kernel",
        why=(
            "Accumulation registers (AGPRs) are for matrix instructions. A kernel without any has them "
            "where its values do not fit into the vector registers that its launch bounds allow. "
            "Each spilled value costs an instruction to write and one to read."
        ),
        condition=(
            "{accumulation_registers_per_thread:g} accumulation registers or more, the granule of an "
            "allocation, in a kernel without matrix instructions by its counters (matrix use "
            "{tensor_pct}, matrix operations {flop_tensor}), name and category"
        ),
        needs=("accumulation_registers_per_thread",),
        uses=(
            "vendor",
            "primary_class",
            "category",
            "tensor_pct",
            "flop_tensor",
            "name_tensor_core",
            "registers_per_thread",
            "theoretical_occupancy_pct",
        ),
        applies=_no_matrix,
        when=lambda k: k.meets("accumulation_registers_per_thread"),
        because=(
            "{accumulation_registers_per_thread:.0f} accumulation registers[ beside "
            "{registers_per_thread:.0f} vector registers], and no sign of matrix instructions"
        ),
        fix=(
            "Keep fewer values live (a smaller tile, less unrolling, no assert or printf in the "
            "kernel), and tell the compiler the block size (__launch_bounds__). "
            "-Rpass-analysis=kernel-resource-usage reports spills."
        ),
        refute=(
            "Look for v_accvgpr_write and v_accvgpr_read in the assembly. If there are none, the "
            "registers are allocated and unused."
        ),
        # How often they are accessed is not counted; expect a few per cent.
        kind="conditional",
        grade="inferred",
        layer="operator",
        thresholds={
            "accumulation_registers_per_thread": at_least(8),
            "tensor_pct": at_most(0, or_unknown=True),
            "flop_tensor": at_most(0, or_unknown=True),
        },
        references=(
            "LLVM, AMDGPU usage: accumulation registers as spill space on gfx90a and later",
        ),
        fires=(
            {
                "vendor": "amd",
                "accumulation_registers_per_thread": 132.0,
                "registers_per_thread": 92.0,
            },
            {"vendor": "amd", "accumulation_registers_per_thread": 8.0},
        ),
        silent=(
            {"vendor": "amd", "accumulation_registers_per_thread": 7.0},
            {"vendor": "amd", "accumulation_registers_per_thread": 128.0, "name_tensor_core": 1},
            {"vendor": "amd", "accumulation_registers_per_thread": 128.0, "category": "gemm"},
            {"vendor": "amd", "accumulation_registers_per_thread": 128.0, "tensor_pct": 20.0},
            {"vendor": "amd", "accumulation_registers_per_thread": 128.0, "flop_tensor": 1e9},
            {"vendor": "nvidia", "accumulation_registers_per_thread": 128.0},
        ),
    ),
)
