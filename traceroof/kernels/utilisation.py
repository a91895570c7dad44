"""How much of each part of the GPU a group used: by the profiler's own figure, else by what comes
nearest to it."""

from collections.abc import Mapping

import numpy as np

from traceroof.core.kernel_table import PIPES, Source
from traceroof.kernels.derived import Derived, Reals, See, Texts, amd, first_known, first_name

_PIPES = tuple(f"pipe_{pipe}_pct" for pipe in PIPES)

# A modelled rate above the peak by more than rounding shows that the bytes came from a cache, or
# the operations were fewer: then the model says nothing about the wall.
MODEL_LIMIT_PCT = 105.0

_MODEL = ("model_flop_pct", "model_dram_pct", "t_min_ns")
_DRAM = ("dram_throughput_pct", "dram_bytes_per_s", "dram_peak_bytes_per_s",
         "peak_dram_bytes_per_s", *_MODEL)  # fmt: skip
_COMPUTE = ("sm_throughput_pct", "sm_busy_pct", "top_pipe_pct", "flop_pct", "tensor_pct",
            "pipe_tensor_pct", "tensor_ceiling_pct", *_MODEL)  # fmt: skip
# Clocks differ from the rated one, so operations over time tell the busiest pipe roughly.
_NEARLY = 0.7

# SM throughput counts the queue of loads and stores too. Where it is that queue, memory throughput,
# which counts it as well, shows the same figure (they are rounded, and of several passes).
_SAME_POINTS, _LESS_POINTS = 0.1, 1.0
_LOAD_PATH = ("sm_throughput_pct", "memory_throughput_pct", "memory_pipes_busy_pct",
              "l1_throughput_pct", "l2_throughput_pct", "dram_throughput_pct", "top_pipe",
              "top_pipe_pct")  # fmt: skip

_UNITS_IDLE_PCT = 20.0
_APART = ("vector_l1_pct", "shared_memory_busy_pct")
_FIRST_LEVEL = ("l1_throughput_pct", *_APART)

#: Columns that take the best figure there is, with the one that says what it is measured against.
BASIS_OF: Mapping[str, str] = {
    "dram_pct": "dram_basis",
    "compute_pct": "compute_basis",
    "l1_pct": "l1_basis",
}
#: Where such a figure comes from, by what it is measured against; else it is derived.
SOURCE_OF_BASIS: Mapping[str, Source] = {
    "elapsed": "counter",
    "active": "counter",
    "pipe": "counter",
    "tensor peak with FP32 accumulation": "counter",
    "model, nominal peak": "model",
}


def _pipe(see: See, place: int) -> Reals:
    """Use of the busiest pipe (-1), of the next (-2)."""
    pipes = np.stack([see(name) for name in _PIPES])
    ranked = np.sort(np.where(np.isnan(pipes), -1.0, pipes), axis=0)
    return np.where(ranked[place] >= 0, ranked[place], np.nan)


def _top_pipe(see: See) -> Texts:
    pipes = np.nan_to_num(np.stack([see(name) for name in _PIPES]), nan=-1.0)
    names = np.array(list(PIPES), dtype=object)
    top: Texts = names[np.argmax(pipes, axis=0)]
    top[np.isnan(see("top_pipe_pct"))] = None
    return top


def _modelled(see: See) -> tuple[Reals, Reals]:
    """Use of arithmetic and of DRAM by the operator's model, where that is plausible."""
    flop, dram = see("model_flop_pct"), see("model_dram_pct")
    plausible = ~(np.fmax(flop, dram) > MODEL_LIMIT_PCT) & ~np.isnan(see("t_min_ns"))
    return np.where(plausible, np.nan_to_num(flop), np.nan), np.where(plausible, dram, np.nan)


def _dram(see: See) -> tuple[tuple[str, Reals], ...]:
    """DRAM use by each way to know it, best first, with what that is measured against."""
    rate = see("dram_bytes_per_s") / see("dram_peak_bytes_per_s") * 100
    reported = np.where(np.isnan(see("peak_dram_bytes_per_s")), np.nan, rate)
    return (
        ("elapsed", see("dram_throughput_pct")),
        ("report peak", reported),
        ("nominal peak", rate),
        ("model, nominal peak", _modelled(see)[1]),
    )


def _compute(see: See) -> tuple[tuple[str, Reals], ...]:
    """Compute use by each way to know it, best first, with what that is measured against."""
    # Where FP32 accumulation halves the rate, half of the counter is all there is.
    counter = first_known(see("pipe_tensor_pct"), see("tensor_pct") / 2)
    halved = (see("tensor_ceiling_pct") < 100) & (counter >= _NEARLY * see("sm_throughput_pct"))
    scaled = np.fmin(100 * see("sm_throughput_pct") / see("tensor_ceiling_pct"), 100.0)
    return (
        ("tensor peak with FP32 accumulation", np.where(halved, scaled, np.nan)),
        ("elapsed", see("sm_throughput_pct")),
        ("pipe", np.fmax(see("sm_busy_pct"), see("top_pipe_pct"))),
        ("peak FLOP rate", see("flop_pct")),
        ("model, nominal peak", _modelled(see)[0]),
    )


def _first_level(see: See) -> tuple[tuple[str, Reals], ...]:
    """First-level use; AMD counts LDS and vector cache apart from each other, over all cycles."""
    return ("active", see("l1_throughput_pct")), ("elapsed", _apart(see))


def _apart(see: See) -> Reals:
    busier = np.fmax(see("vector_l1_pct"), see("shared_memory_busy_pct"))
    return np.where(amd(see), busier, np.nan)


def _load_path_pct(see: See) -> Reals:
    """Compute use where it is that of the loads and stores, and of no other unit."""
    compute = see("sm_throughput_pct")
    same = np.abs(compute - see("memory_throughput_pct")) <= _SAME_POINTS
    same |= np.abs(compute - see("memory_pipes_busy_pct")) <= _SAME_POINTS
    less = compute - _LESS_POINTS
    # The figure is neither that of a lower level of the memory nor that of another pipe.
    elsewhere = np.fmax(see("dram_throughput_pct"), see("l2_throughput_pct")) >= less
    elsewhere |= (see("top_pipe_pct") >= less) & (see.text("top_pipe") != "lsu")
    path = same & ~elsewhere & (see("l1_throughput_pct") >= less)
    return np.where(path, compute, np.nan)


def _memory_pct(see: See) -> Reals:
    levels = np.fmax(see("dram_pct"), see("l2_throughput_pct"))
    levels = np.where(np.isnan(levels), np.nan, np.fmax(levels, _apart(see)))
    # Every vector access passes AMD's address units: where they idle, so does the memory below.
    units = see("memory_pipes_busy_pct")
    units = np.where(amd(see) & (units < _UNITS_IDLE_PCT), units, np.nan)
    return first_known(see("memory_throughput_pct"), levels, units)


TABLE: tuple[Derived, ...] = (
    Derived("top_pipe_pct", _PIPES, lambda see: _pipe(see, -1),
            "%", "use of the busiest instruction pipe", "row"),
    Derived("second_pipe_pct", _PIPES, lambda see: _pipe(see, -2),
            "%", "use of the second busiest instruction pipe", "row"),
    Derived("top_pipe", (*_PIPES, "top_pipe_pct"), _top_pipe,
            "", "the busiest instruction pipe", text=True),
    Derived("load_path_pct", _LOAD_PATH, _load_path_pct,
            "%", "compute use, where it is that of the loads and stores alone", "elapsed"),
    Derived("dram_pct", _DRAM, lambda see: first_known(*(one for _, one in _dram(see))),
            "%", "DRAM use: DRAM throughput, else bytes over time and peak"),
    Derived("dram_basis", _DRAM, lambda see: first_name(see.count, *_dram(see)),
            "", "what dram_pct is measured against", text=True),
    Derived("compute_pct", _COMPUTE, lambda see: first_known(*(one for _, one in _compute(see))),
            "%", "compute use: SM throughput, else busiest pipe or FLOP rate"),
    Derived("compute_basis", _COMPUTE, lambda see: first_name(see.count, *_compute(see)),
            "", "what compute_pct is measured against", text=True),
    Derived("l1_pct", _FIRST_LEVEL, lambda see: first_known(*(one for _, one in _first_level(see))),
            "%", "first-level use: L1 throughput, else LDS or vector cache, the busier"),
    Derived("l1_basis", _FIRST_LEVEL, lambda see: first_name(see.count, *_first_level(see)),
            "", "what l1_pct is measured against", text=True),
    Derived("memory_pct", (*_APART, "memory_pipes_busy_pct", "memory_throughput_pct", "dram_pct",
                           "l2_throughput_pct"), _memory_pct,
            "%", "memory use: memory throughput, else the busiest level known, else that of AMD's "
            "address units if below 20 %", "peak of the busiest level"),
    # Half an answer is none: a kernel that leaves DRAM idle may still fill its pipes.
    Derived("busiest_pct", ("compute_pct", "memory_pct"),
            lambda see: np.maximum(see("compute_pct"), see("memory_pct")),
            "%", "the larger of compute_pct and memory_pct", "peak of the busier side"),
)  # fmt: skip
