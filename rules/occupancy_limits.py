"""What limits the resident warps: registers, shared memory, block slots, warp slots, barriers."""

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np

from traceroof.core.facts import (
    Column,
    Facts,
    Mask,
    unknown,
)
from traceroof.core.thresholds import Threshold
from traceroof.rule import Attainable, Rule, above, at_most, below
from traceroof.rules._kernels import HEADROOM, MATRIX, MATRIX_WORK, has_headroom, matrix_work, spare

_ALWAYS_REPORTED = ("registers", "shared_memory", "blocks", "warps")
_WARP_SLOTS = "occupancy_limit_warps"


@dataclass(frozen=True)
class _Limit:
    """One resource of a multiprocessor that resident blocks share."""

    name: str  #: as in the column occupancy_limit_<name>
    words: str
    why: str
    fix: str
    id: str = ""
    topic: str = "occupancy-block"
    uses: tuple[str, ...] = ()
    min_compute_capability: float = 0.0  #: profilers report the limit from here on


_LIMITS = (
    _Limit(
        "registers",
        "registers",
        "Every resident thread keeps its registers, and the register file is full.",
        "Keep fewer values live (smaller tile, less unrolling), set __launch_bounds__ to the blocks "
        "that you want, or cap the registers.[nvidia:  n blocks fit when registers per thread x threads per block "
        "x n is at most 65,536.][amd:  VGPRs and AGPRs count together from MI200 on: 512 per lane and "
        "SIMD.] A cap that causes spills costs more than it gains.",
        topic="occupancy-registers",
        uses=("registers_per_thread", "accumulation_registers_per_thread", "spill_requests"),
    ),
    _Limit(
        "shared_memory",
        "shared memory",
        "Every resident block keeps its shared memory (LDS), and the multiprocessor has no more.",
        "Use fewer pipeline stages, a smaller tile, a narrower element type in shared memory"
        "[nvidia: , or the largest shared-memory carve-out]. Values used by one warp only may stay in registers.",
        id="occ-limited-smem",
        topic="occupancy-shared",
        uses=("shared_memory_static_bytes", "shared_memory_dynamic_bytes"),
    ),
    _Limit(
        "blocks",
        "block slots",
        "A multiprocessor holds a limited number of blocks, and these are too small to fill it.",
        "Use larger blocks: twice the threads per block give twice the warps in the same slots.",
    ),
    _Limit(
        "warps",
        "warp slots",
        "Only whole blocks fit, and the warp slots that are left are less than one block.",
        "[nvidia: Use a block size that divides the threads of a multiprocessor (1,024, 1,536 or "
        "2,048): 128 or 256 divide all of them, 1,024 does not divide 1,536.][amd: Use a block size "
        "that divides the 2,048 threads of a multiprocessor from MI200 on: 64, 128 or 256.]",
    ),
    _Limit(
        "barriers",
        "barriers",
        "Every resident block keeps its named barriers, and the multiprocessor has no more.",
        "Use fewer named barriers per block: reuse them, or synchronise warps instead of blocks.",
        uses=("compute_capability",),
        min_compute_capability=9.0,
    ),
)


def _limit(k: Facts, name: str) -> Column:
    return np.asanyarray(getattr(k, f"occupancy_limit_{name}"))


def _fewest(k: Facts) -> Column:
    return np.asanyarray(reduce(np.fmin, [_limit(k, one.name) for one in _LIMITS]))


def _saves(k: Facts, peak: Attainable) -> Column:
    unused = np.fmin(1 - k.theoretical_occupancy_pct / 100, 1 - k.issue_active)
    return np.asanyarray(np.fmin(unused, spare(k, peak)))


def _column(one: _Limit) -> str:
    return f"occupancy_limit_{one.name}"


def _needs(one: _Limit) -> tuple[str, ...]:
    always = (f"occupancy_limit_{name}" for name in _ALWAYS_REPORTED)
    others = (name for name in always if name != _column(one))
    return ("compute_pct", "memory_pct", "theoretical_occupancy_pct", _column(one), *others)


def _applies(k: Facts, one: _Limit) -> Mask:
    # Matrix kernels with asynchronous copies trade warps for registers and stages on purpose.
    mask = has_headroom(k) & ~matrix_work(k)
    if one.min_compute_capability:
        mask &= ~unknown(_limit(k, one.name)) | (k.compute_capability >= one.min_compute_capability)
    return np.asanyarray(mask)


def _limits_blocks(one: _Limit) -> dict[str, Threshold]:
    """That a resource allows the fewest blocks, and fewer than the warp slots: where these hold no
    more, less of the resource adds no block, and blocks must be smaller."""
    fewest = {_column(one): at_most(1, of=_fewest, words="the fewest")}
    if _column(one) == _WARP_SLOTS:
        return fewest
    return {**fewest, _WARP_SLOTS: above(1, of=_column(one), words="more than that")}


def _rule(one: _Limit) -> Rule:
    own, needs, limits = _column(one), _needs(one), _limits_blocks(one)
    fewer = ", fewer than the warp slots" if _WARP_SLOTS in limits and own != _WARP_SLOTS else ""
    others = [name for name in map(_column, _LIMITS) if name not in needs]
    return Rule(
        id=one.id or f"occ-limited-{one.name}",
        topic=one.topic,
        title=f"Occupancy is limited by {one.words}",
        scope="kernel",
        why=(
            f"{one.why} So fewer warps are resident than the multiprocessor could switch between, "
            "and less latency is hidden."
        ),
        condition=(
            "theoretical occupancy is below {theoretical_occupancy_pct}, "
            f"{one.words} allow the fewest blocks (ties are all named){fewer}, and nothing is at its wall; "
            "not where tensor-core use is {matrix_work} or more, or the name marks a tensor-core or "
            "warp-specialised kernel"
        ),
        needs=needs,
        uses=(
            "primary_class",
            *others,
            *MATRIX,
            *("issue_active", "achieved_occupancy_pct", "threads_per_block"),
            *one.uses,
        ),
        applies=partial(_applies, one=one),
        when=lambda k: reduce(operator.and_, map(k.meets, ("theoretical_occupancy_pct", *limits))),
        because=(
            f"{one.words} allow {{{own}:.0f}} blocks per multiprocessor, which fills "
            "{theoretical_occupancy_pct} of its warp slots"
        ),
        fix=one.fix,
        refute=(
            "Force one more resident block. Achieved occupancy rises. If the time does not fall, "
            "occupancy was not the limit."
        ),
        saves=_saves,
        kind="conditional",
        grade="observed",
        layer="hardware",
        thresholds={
            **HEADROOM,
            **MATRIX_WORK,
            "theoretical_occupancy_pct": below(80),
            **limits,
        },
        references=(
            "Nsight Compute TheoreticalOccupancy rule: 80 %, smallest block limit",
            "NVIDIA CUDA C++ Programming Guide: occupancy and hardware resources",
        ),
        fires=(_example(one, 79.9, own=2, other=4), _example(one, 50.0, own=3, other=3, warps=4)),
        silent=(
            *(() if own == _WARP_SLOTS else (_example(one, 50.0, own=3, other=4, warps=3),)),
            _example(one, 80.0, own=2, other=4),
            _example(one, 50.0, own=4, other=2),
            {**_example(one, 25.0, own=1, other=4), "tensor_pct": 50.0},
            {**_example(one, 25.0, own=1, other=4), "compute_pct": 80.0},
        ),
    )


def _example(
    one: _Limit, occupancy: float, own: int, other: int, warps: int | None = None
) -> Mapping[str, Any]:
    limits = {f"occupancy_limit_{name}": other for name in _ALWAYS_REPORTED}
    limits[_WARP_SLOTS] = other if warps is None else warps
    return {
        "primary_class": "latency-bound",
        "compute_pct": 30.0,
        "memory_pct": 40.0,
        "theoretical_occupancy_pct": occupancy,
        **limits,
        f"occupancy_limit_{one.name}": own,
    }


RULES = tuple(_rule(one) for one in _LIMITS)
