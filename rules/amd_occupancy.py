"""What keeps further workgroups out of the compute units of an AMD GPU, as its counters saw it."""

from dataclasses import dataclass
from functools import reduce

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Attainable, Rule
from traceroof.rules._kernels import HEADROOM, STATE, has_headroom, on_amd, spare


@dataclass(frozen=True)
class _Resource:
    """One resource of a compute unit whose lack the workgroup manager counts.

    column: insufficient_<column>_pct. same: the rule that derives the same limit from the launch.
    """

    id: str
    topic: str
    column: str
    title: str
    words: str
    why: str
    fix: str
    same: str
    uses: tuple[str, ...] = ()


_RESOURCES = (
    _Resource(
        "amd-occ-vgpr",
        "occupancy-registers",
        "vector_registers",
        "Workgroups wait for vector registers",
        "vector registers (VGPRs)",
        "VGPRs and AGPRs share one register file (512 a lane and SIMD from MI200 on), given out in "
        "steps; while it is full no further workgroup starts.",
        "Fewer live values (a smaller tile, less unrolling), __launch_bounds__ or "
        "amdgpu_waves_per_eu with the occupancy wanted, accumulators in AGPRs on MI100. A cap that "
        "spills to scratch costs more than it gains.",
        "occ-limited-registers",
        ("registers_per_thread", "accumulation_registers_per_thread"),
    ),
    _Resource(
        "amd-occ-lds",
        "occupancy-shared",
        "lds",
        "Workgroups wait for LDS",
        "LDS",
        "Every resident workgroup keeps its LDS: a compute unit has 64 KB, 160 KB on MI350.",
        "Fewer stages or a smaller tile in LDS, a narrower element type there, values that one "
        "wavefront uses alone kept in registers.",
        "occ-limited-smem",
        ("shared_memory_static_bytes",),
    ),
    _Resource(
        "amd-occ-sgpr",
        "occupancy-registers",
        "scalar_registers",
        "Workgroups wait for scalar registers",
        "scalar registers (SGPRs)",
        "Wavefronts share the scalar registers of their SIMD; this is rare from MI100 on.",
        "Fewer uniform values alive at once: fewer kernel arguments and descriptors in flight, "
        "amdgpu_num_sgpr.",
        "",
        ("scalar_registers_per_wave",),
    ),
    _Resource(
        "amd-occ-waveslots",
        "occupancy-block",
        "wave_slots",
        "All wavefront slots are taken",
        "wavefront slots",
        "A SIMD holds 8 wavefronts (10 before MI200). Occupancy is as high as the hardware allows, "
        "so more parallelism must come from inside the wavefronts.",
        "More independent work in each wavefront: several elements a thread, 16-byte accesses "
        "(dwordx4), loads issued before the values of the last ones are used. Fewer wavefronts "
        "with more registers each may do better.",
        "occ-limited-warps",
        ("achieved_occupancy_pct",),
    ),
    _Resource(
        "amd-occ-barriers",
        "occupancy-block",
        "barriers",
        "Workgroups wait for barriers",
        "barriers",
        "Each workgroup of several wavefronts takes a barrier, and a compute unit has 16.",
        "Larger workgroups, or workgroups of one wavefront, which need no barrier.",
        "occ-limited-barriers",
    ),
    _Resource(
        "amd-occ-wg-limit",
        "occupancy-block",
        "workgroup_slots",
        "Workgroups wait for workgroup slots",
        "workgroup slots",
        "A compute unit holds 16 workgroups of more than one wavefront, and these are too small to "
        "fill it.",
        "Larger workgroups: twice the threads in each give twice the wavefronts in the same slots.",
        "occ-limited-blocks",
        ("threads_per_block",),
    ),
)

_COLUMNS = tuple(f"insufficient_{one.column}_pct" for one in _RESOURCES)


def _rule(one: _Resource) -> Rule:
    own = f"insufficient_{one.column}_pct"

    def when(k: Facts) -> Mask:
        most = reduce(np.fmax, [getattr(k, column) for column in _COLUMNS])
        return np.asanyarray((getattr(k, own) >= 5) & (getattr(k, own) >= most))

    def saves(k: Facts, peak: Attainable) -> Column:
        return np.asanyarray(np.fmin(getattr(k, own) / 100, spare(k, peak)))

    return Rule(
        id=one.id,
        topic=one.topic,
        title=one.title,
        scope="kernel",
        why=one.why,
        condition=(
            f"workgroups wait for {one.words} in 5 % of the time or more, longer than for any other "
            "resource, and nothing is at its wall"
        ),
        needs=(own,),
        uses=(
            "vendor",
            *STATE,
            "tensor_pct",
            "theoretical_occupancy_pct",
            *(column for column in _COLUMNS if column != own),
            *(name for name in one.uses if name not in STATE),
        ),
        # Matrix kernels trade wavefronts for registers and LDS on purpose.
        applies=lambda k: on_amd(k) & has_headroom(k) & ~(k.tensor_pct >= 50),
        when=when,
        because=f"workgroups could not start for lack of {one.words} in {{{own}}} of the time",
        fix=one.fix,
        refute=(
            "Lower the need and profile again: the share must fall and the time with it. If the "
            "time stays, occupancy was not the limit."
        ),
        saves=saves,
        kind="conditional",
        grade="observed",
        layer="hardware",
        # What the counter saw outranks what the launch suggests.
        suppresses=tuple(name for name in (one.same, "amd-sched-pipe-stall") if name),
        thresholds={**HEADROOM, own: ">= 5, the most"},
        references=(
            "rocprofiler-compute, workgroup manager: resource allocation (table 6.2)",
            "LLVM, AMDGPU usage: register allocation",
        ),
        fires=(
            {"vendor": "amd", own: 5.0},
            {"vendor": "amd", own: 40.0, "compute_pct": 20.0, "memory_pct": 50.0},
        ),
        silent=(
            {"vendor": "amd", own: 4.9},
            {"vendor": "amd", own: 20.0, _another(own): 21.0},
            {"vendor": "amd", own: 40.0, "memory_pct": 85.0, "primary_class": "dram-bound"},
            {"vendor": "amd", own: 40.0, "tensor_pct": 50.0},
            {"vendor": "nvidia", own: 40.0},
        ),
    )


def _another(own: str) -> str:
    return next(column for column in _COLUMNS if column != own)


RULES = tuple(_rule(one) for one in _RESOURCES)
