"""A kernel takes more registers, spills, or fits fewer times: what the compiler decides."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np

from traceroof.rule import Rule, Threshold, above, at_least, at_most, below
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
    thresholds: Mapping[str, Threshold]
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
        title="Threads use more registers",
        column="registers_per_thread",
        condition="{registers_per_thread_head} or more registers per thread more than before, in a kernel of the same name",
        thresholds={
            "registers_per_thread_head": at_least(
                _STEP,
                measure=lambda k: k.registers_per_thread_head - k.registers_per_thread_base,
                words="{op} {value} more than registers_per_thread_base",
            )
        },
        because="registers {registers_per_thread_base:.0f} → {registers_per_thread_head:.0f} per thread",
        fix=_COMPILER + "Cap the registers with __launch_bounds__, or make the tile smaller.",
        refute="Compile both sides with -Xptxas -v. The registers must differ by this much.",
        reference="NVIDIA CUDA C++ Programming Guide: registers are allocated in units of 256 per warp",
        fires=((128, 136), (32, 168)),
        silent=((128, 135), (168, 32)),
    ),
    _Resource(
        id="cmp-spills-appeared",
        topic="spills",
        title="Registers spill that did not before",
        column="local_requests",
        condition="at most {local_requests_base} local-memory requests in the base, more than {local_requests_head} in the head, in a kernel of the same name",
        thresholds={"local_requests_base": at_most(0), "local_requests_head": above(0)},
        because="{local_requests_head:,.0f} local-memory requests per launch where there were none",
        fix=_COMPILER + "Relax the register cap, or index local arrays by constants.",
        refute=(
            "Compile both sides with -Xptxas -v. Only the head must report spills or a stack frame."
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
        condition="fewer resident blocks by any limit, in a kernel of the same name",
        thresholds={"resident_blocks_head": below(1, of="resident_blocks_base")},
        because="{resident_blocks_base:.0f} → {resident_blocks_head:.0f} blocks fit per SM",
        fix=_COMPILER + "Check which grew: registers, shared memory or the block size.",
        refute="Force as many resident blocks as before. If the time stays, this was not the reason.",
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
            "Registers, spills and resident blocks come from the compiler, not from a clock. A few "
            "more registers can cost a resident block, and with it the warps that hide latency."
        ),
        condition=one.condition,
        needs=(base, head),
        uses=("level", "verdict", "matched_by"),
        applies=lambda k: on_both_sides(k) & same_kernel(k),
        when=lambda k: reduce(np.logical_and, [k.meets(name) for name in one.thresholds]),
        because=one.because,
        fix=one.fix,
        refute=one.refute,
        kind="conditional",
        grade="observed",
        layer="operator",
        severity="low",
        thresholds=one.thresholds,
        references=(one.reference,),
        fires=tuple(example(pair) for pair in one.fires),
        silent=(
            *(example(pair) for pair in one.silent),
            {**example(one.fires[0]), "matched_by": "operator"},
        ),
    )


RULES = tuple(_rule(one) for one in _RESOURCES)
