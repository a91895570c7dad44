"""A kernel takes more registers, spills, or fits fewer times: what the compiler decides."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from traceroof.core.facts import Facts, Mask
from traceroof.rule import Rule
from traceroof.rules._changes import on_both_sides, same_kernel

# Registers are handed out in steps of 8 per thread.
_STEP = 8

_COMPILER = "Compare compiler version, flags and unrolling of the two builds. "


@dataclass(frozen=True)
class _Resource:
    id: str
    topic: str
    title: str
    column: str
    condition: str
    threshold: str
    worse: Callable[[Facts], Mask]
    because: str
    fix: str
    refute: str
    reference: str
    fires: tuple[tuple[float, float], ...]
    silent: tuple[tuple[float, float], ...]


_RESOURCES = (
    _Resource(
        id="cmp-registers-up",
        topic="occupancy-registers",
        title="A thread takes more registers",
        column="registers_per_thread",
        condition="8 registers per thread more, in a kernel of one name",
        threshold=">= 8 more than registers_per_thread_base",
        worse=lambda k: k.registers_per_thread_head - k.registers_per_thread_base >= _STEP,
        because="registers {registers_per_thread_base:.0f} → {registers_per_thread_head:.0f} a thread",
        fix=_COMPILER + "Cap the registers with __launch_bounds__, or make the tile smaller.",
        refute="Compile both sides with -Xptxas -v: registers must differ by this much.",
        reference="NVIDIA CUDA C++ Programming Guide: registers are allocated in units of 256 per warp",
        fires=((128, 136), (32, 168)),
        silent=((128, 135), (168, 32)),
    ),
    _Resource(
        id="cmp-spills-appeared",
        topic="spills",
        title="Local-memory requests where there were none",
        column="local_requests",
        condition="no local-memory requests in the base, some in the head, in a kernel of one name",
        threshold="> 0",
        worse=lambda k: (k.local_requests_base == 0) & (k.local_requests_head > 0),
        because="{local_requests_head:,.0f} local-memory requests per launch where there were none",
        fix=_COMPILER + "Relax the register cap, or index local arrays by constants.",
        refute=(
            "Compile both sides with -Xptxas -v: the head alone must report spills or a stack "
            "frame."
        ),
        reference="NVIDIA Nsight Compute: local memory spilling requests",
        fires=((0, 1), (0, 1e6)),
        silent=((0, 0), (10, 1e6)),
    ),
    _Resource(
        id="cmp-occupancy-lost",
        topic="change",
        title="Fewer blocks fit on a multiprocessor",
        column="resident_blocks",
        condition="fewer resident blocks by any limit, in a kernel of one name",
        threshold="< resident_blocks_base",
        worse=lambda k: k.resident_blocks_head < k.resident_blocks_base,
        because="{resident_blocks_base:.0f} → {resident_blocks_head:.0f} blocks fit per SM",
        fix=_COMPILER + "Registers, shared memory or the block size took the room: see which grew.",
        refute="Force as many resident blocks as before: if the time stays, it was not the reason.",
        reference="NVIDIA CUDA C++ Programming Guide: resident blocks by registers, shared memory, warps",
        fires=((2, 1), (16, 15)),
        silent=((2, 2), (1, 2)),
    ),
)


def _rule(one: _Resource) -> Rule:
    base, head = f"{one.column}_base", f"{one.column}_head"

    def example(pair: tuple[float, float]) -> dict[str, float | str]:
        kernel = {"level": "kernel", "verdict": "unchanged", "matched_by": "launch"}
        return {**kernel, base: float(pair[0]), head: float(pair[1])}

    return Rule(
        id=one.id,
        topic=one.topic,
        title=one.title,
        scope="compare",
        why=(
            "Registers, spills and resident blocks come from the compiler, not from a clock. One "
            "step more can cost a resident block, and with it the warps that hide latency."
        ),
        condition=one.condition,
        needs=(base, head),
        uses=("level", "verdict", "matched_by"),
        applies=lambda k: on_both_sides(k) & same_kernel(k),
        when=lambda k: np.asanyarray(one.worse(k)),
        because=one.because,
        fix=one.fix,
        refute=one.refute,
        kind="conditional",
        grade="observed",
        layer="operator",
        severity="low",
        thresholds={head: one.threshold},
        references=(one.reference,),
        fires=tuple(example(pair) for pair in one.fires),
        silent=(
            *(example(pair) for pair in one.silent),
            {**example(one.fires[0]), "matched_by": "operator"},
        ),
    )


RULES = tuple(_rule(one) for one in _RESOURCES)
