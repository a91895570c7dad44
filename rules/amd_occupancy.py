"""What keeps further workgroups out of the compute units of an AMD GPU, as its counters saw it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Attainable, Rule, at_least, below
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
        "VGPRs and AGPRs share one register file (512 per lane and SIMD from MI200 on), allocated in "
        "steps. While it is full, no further workgroup starts.",
        "Keep fewer values live (a smaller tile, less unrolling), set __launch_bounds__ or "
        "amdgpu_waves_per_eu to the occupancy that you want, and keep accumulators in AGPRs on MI100. "
        "A cap that spills to scratch costs more than it gains.",
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
        "Use fewer stages, a smaller tile or a narrower element type in LDS. Keep values that only "
        "one wavefront uses in registers.",
        "occ-limited-smem",
        ("shared_memory_static_bytes",),
    ),
    _Resource(
        "amd-occ-sgpr",
        "occupancy-registers",
        "scalar_registers",
        "Workgroups wait for scalar registers",
        "scalar registers (SGPRs)",
        "Wavefronts share the scalar registers of their SIMD. This limit is rare from MI100 on.",
        "Keep fewer uniform values live: fewer kernel arguments and descriptors in flight, or "
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
        "Give each wavefront more independent work: several elements per thread, 16-byte accesses "
        "(dwordx4), loads issued before the values of the previous ones are used. Fewer wavefronts "
        "with more registers each may be faster.",
        "occ-limited-warps",
        ("achieved_occupancy_pct",),
    ),
    _Resource(
        "amd-occ-barriers",
        "occupancy-block",
        "barriers",
        "Workgroups wait for barriers",
        "barriers",
        "Each workgroup of several wavefronts takes a barrier, and a compute unit has 16 of them.",
        "Use larger workgroups, or workgroups of one wavefront, which need no barrier.",
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
        "Use larger workgroups: twice the threads in each give twice the wavefronts in the same slots.",
        "occ-limited-blocks",
        ("threads_per_block",),
    ),
)

_COLUMNS = tuple(f"insufficient_{one.column}_pct" for one in _RESOURCES)


def _most(k: Facts) -> Column:
    return np.asanyarray(reduce(np.fmax, [getattr(k, column) for column in _COLUMNS]))


def _saves(k: Facts, peak: Attainable, own: str) -> Column:
    # The counter says what the limit is, not how low: full occupancy at best shrinks the time by
    # the share of wave slots that were empty.
    empty = 1 - k.achieved_occupancy_pct / 100
    return np.asanyarray(np.fmin(np.fmin(getattr(k, own) / 100, empty), spare(k, peak)))


def _fires(own: str) -> tuple[Mapping[str, Any], ...]:
    return (
        {"vendor": "amd", own: 5.0},
        {"vendor": "amd", own: 40.0, "compute_pct": 20.0, "memory_pct": 50.0},
    )


def _silent(own: str) -> tuple[Mapping[str, Any], ...]:
    return (
        {"vendor": "amd", own: 4.9},
        {"vendor": "amd", own: 20.0, _another(own): 21.0},
        {"vendor": "amd", own: 40.0, "memory_pct": 85.0, "primary_class": "dram-bound"},
        {"vendor": "amd", own: 40.0, "tensor_pct": 50.0},
        {"vendor": "nvidia", own: 40.0},
    )


def _rule(one: _Resource) -> Rule:
    own = f"insufficient_{one.column}_pct"
    return Rule(
        id=one.id,
        topic=one.topic,
        title=one.title,
        scope="kernel",
        why=one.why,
        condition=(
            f"workgroups wait for {one.words} in {{{own}}} of the time or more, longer than for "
            f"any other resource, and nothing is at its wall; not with matrix-core use at "
            f"{{tensor_pct}} or more"
        ),
        needs=(own,),
        uses=(
            "vendor",
            *STATE,
            "tensor_pct",
            "theoretical_occupancy_pct",
            "achieved_occupancy_pct",
            *(column for column in _COLUMNS if column != own),
            *(name for name in one.uses if name != "achieved_occupancy_pct"),
        ),
        # Matrix kernels trade wavefronts for registers and LDS on purpose.
        applies=lambda k: on_amd(k) & has_headroom(k) & k.meets("tensor_pct"),
        when=lambda k: k.meets(own) & k.meets("most"),
        because=(
            f"workgroups could not start for lack of {one.words} in {{{own}}} of the time"
            "[; {achieved_occupancy_pct} of the wavefront slots were filled]"
        ),
        fix=one.fix,
        refute=(
            "Reduce the need and profile again. The share must fall, and the time with it. If the "
            "time stays, occupancy was not the limit."
        ),
        saves=lambda k, peak: _saves(k, peak, own),
        # Twice the wavefronts do not halve the time.
        likely=lambda k, peak: np.asanyarray(0.5 * _saves(k, peak, own)),
        kind="conditional",
        grade="observed",
        layer="hardware",
        # What the counter saw outranks what the launch suggests.
        suppresses=tuple(name for name in (one.same, "amd-sched-pipe-stall") if name),
        thresholds={
            **HEADROOM,
            own: at_least(5),
            "most": at_least(1, column=own, of=_most, words="the most"),
            "tensor_pct": below(50, or_unknown=True),
        },
        references=(
            "rocprofiler-compute, workgroup manager: resource allocation (table 6.2)",
            "LLVM, AMDGPU usage: register allocation",
        ),
        fires=_fires(own),
        silent=_silent(own),
    )


def _another(own: str) -> str:
    return next(column for column in _COLUMNS if column != own)


RULES = tuple(_rule(one) for one in _RESOURCES)
