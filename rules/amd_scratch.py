"""Registers spill to scratch memory on AMD."""

from traceroof.rule import Rule, above
from traceroof.rules._kernels import on_amd, tunable

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
)
