"""Registers spill to scratch memory on AMD."""

from traceroof.rule import Rule
from traceroof.rules._kernels import on_amd, tunable

RULES = (
    Rule(
        id="amd-scratch",
        topic="spills",
        title="Threads keep values in scratch memory",
        scope="kernel",
        why=(
            "What does not fit into the vector registers, arrays indexed at run time and the stack "
            "of calls that were not inlined live in scratch, which is device memory behind the "
            "caches. Each access is a memory instruction like any other."
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
        when=lambda k: k.scratch_bytes_per_thread > 0,
        because=(
            "{scratch_bytes_per_thread:.0f} bytes of scratch a thread"
            "[, with {registers_per_thread:.0f} vector registers]"
        ),
        fix=(
            "Fewer values alive at once (a smaller tile, less unrolling), a higher register limit "
            "(__launch_bounds__, amdgpu_waves_per_eu), local arrays indexed by constants, device "
            "functions inlined. -Rpass-analysis=kernel-resource-usage shows spills and scratch."
        ),
        refute=(
            "If the compiler reports no spills, the scratch is a stack that may never be touched; "
            "build without it: if the time stays, it was not."
        ),
        # How often it is touched is not counted.
        kind="conditional",
        grade="observed",
        layer="operator",
        thresholds={"scratch_bytes_per_thread": "> 0"},
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
