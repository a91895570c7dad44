"""Columns of the facts of scope ``run`` that say how well the run was measured."""

import pyarrow as pa

from traceroof.core.kernel_table import Column, sourced

_TEXT, _REAL = pa.string(), pa.float64()

#: Columns of the facts of scope ``run`` that tell how well it was measured.
QUALITY_COLUMNS: tuple[Column, ...] = sourced(
    (Column(name, kind, unit, meaning, "measurement", basis)
    for name, kind, unit, meaning, basis in (
        ("first_excess_pct", _REAL, "%", "time of first launches above their kernel's median", "kernel time"),
        ("warm_up_pct", _REAL, "%", "time of the steps set apart as warm-up", "span"),
        ("set_up_pct", _REAL, "%", "host time loading or compiling code and asking for memory before steady work, less that during it", "span"),
        ("repeated_pct", _REAL, "%", "kernels launched often enough to show how times scatter", "kernel time"),
        ("scattered_pct", _REAL, "%", "kernels whose times scatter by more than 5 % of their median", "kernel time"),
        ("typical_scatter_pct", _REAL, "%", "how far the times of those scatter, mean by time", "median"),
        ("slow_clock_hz", _REAL, "Hz", "core clock that launches of 100 µs or more stay above for 95 % of their time, or that 95 % of a clock log's samples under load reach", ""),
        ("fast_clock_hz", _REAL, "Hz", "core clock that they stay below for 95 % of their time", ""),
        ("clock_fall_pct", _REAL, "%", "how far the first of these lies below the second, on the GPU that fell furthest", "highest clock"),
        ("clock_gpu", _REAL, "", "ordinal of this GPU, which the five clocks and shares around are of", ""),
        ("throttled_pct", _REAL, "%", "samples of a clock log in which a limit of power or temperature held the clock", "samples under load"),
        ("throttled_by", _TEXT, "", "the limit that did so most often, by the tool's name of it", ""),
        ("boost_clock_hz", _REAL, "Hz", "clock that the device's peaks are rated at", ""),
        ("boost_share_pct", _REAL, "%", "core clock, median by time, where no tool locks it", "rated clock"),
        ("fast_dram_clock_hz", _REAL, "Hz", "memory clock that launches of 100 µs or more stay below for 95 % of their time", ""),
        ("dram_clock_fall_pct", _REAL, "%", "how far the memory clock falls, on the GPU where it falls furthest", "highest clock"),
        ("dram_clock_gpu", _REAL, "", "ordinal of this GPU", ""),
        ("dram_rated_pct", _REAL, "%", "DRAM peak at the memory clock measured, median by time, of the GPU where it is least", "nominal peak"),
        ("cached_pct", _REAL, "%", "kernels whose bytes came from a cache, by their model", "kernel time"),
        ("working_set_pct", _REAL, "%", "bytes that all launches of a step, or of the run, move at least, by models", "L2 size"),
        ("working_set_of", _TEXT, "", "what working_set_pct is of: a step, or the run where no steps are known", ""),
        ("over_peak_pct", _REAL, "%", "largest measured or modelled use of any peak", "over_peak_of"),
        ("over_peak_time_pct", _REAL, "%", "kernels above 100 % of a peak", "kernel time"),
        ("over_peak_of", _TEXT, "", "which peak was exceeded most", ""),
        ("window_ns", _REAL, "ns", "longest timeline", ""),
        ("copies_alone_ns", _REAL, "ns", "copies beside which nothing computed or communicated", ""),
        ("steady_steps", _REAL, "step", "steps after warm-up, fewest of the timelines that have any", ""),
        ("overlap_pct", _REAL, "%", "kernel and copy time beyond the time in which any ran", "span"),
        ("busy_share_pct", _REAL, "%", "time in which any kernel or copy ran", "kernel and copy time"),
        ("stream_overlap_pct", _REAL, "%", "activities that ran beside another of their own stream", "kernel and copy time"),
        ("sm_count", _REAL, "SM", "multiprocessors that the profiled program could use", ""),
        ("whole_sm_count", _REAL, "SM", "multiprocessors of the whole device", ""),
        ("sm_share_pct", _REAL, "%", "multiprocessors that the program could use", "the device's"),
        ("mixed_use", _TEXT, "", "which use has the most kernel time on another basis: compute or DRAM", ""),
        ("main_basis", _TEXT, "", "what that use is measured against for most of the kernel time", ""),
        ("other_basis", _TEXT, "", "what it is measured against for most of the rest", ""),
        ("other_basis_pct", _REAL, "%", "kernels whose use has another basis than main_basis", "kernel time"),
        ("gpu_kinds", _REAL, "", "different GPUs in the run", ""),
        ("collapsed_pct", _REAL, "%", "kernels of unknown shapes whose launches differ more than five-fold", "kernel time"),
        ("whole_graphs_pct", _REAL, "%", "replays of graphs that were recorded as a whole", "kernel and replay time"),
        ("cut_names_pct", _REAL, "%", "kernels whose name was cut off", "kernel time"),
    )),
    device="sm_count",
)  # fmt: skip
