"""The figures of a timeline that rules read: name, unit, meaning."""

import pyarrow as pa

from traceroof.core.kernel_table import Column, sourced
from traceroof.timeline.idle import CAUSES

_BASES = {
    "lost_pct": "launches",
    "call_id_density_pct": "range of ids",
    "blocking_pct": "kernel time",
    "kernel_growth_pct": "first quarter",
    "step_growth_pct": "median of the first quarter",
}


def _columns() -> tuple[Column, ...]:
    rows: list[Column] = []

    def add(group: str, *entries: tuple[str, str, str]) -> None:
        rows.extend(
            Column(
                name,
                pa.float64(),
                unit,
                meaning,
                group,
                _BASES.get(name, "span") if unit == "%" else "",
                "clock",
            )
            for name, unit, meaning in entries
        )

    add(
        "time",
        ("span_ns", "ns", "from the first start to the last end on this GPU"),
        ("busy_ns", "ns", "at least one activity on any stream"),
        ("idle_ns", "ns", "span without any activity"),
        ("unmeasured_ns", "ns", "span in which only activities of unknown duration may have run"),
        ("compute_ns", "ns", "at least one activity that is neither copy nor communication"),
        ("communication_ns", "ns", "at least one communication kernel"),
        ("exposed_communication_ns", "ns", "communication while nothing computes"),
        ("overlapped_communication_ns", "ns", "communication while something computes"),
        ("memcpy_ns", "ns", "at least one copy"),
        ("exposed_memcpy_ns", "ns", "copy while nothing computes or communicates"),
        ("idle_pct", "%", "part of the span without any activity"),
        ("exposed_communication_pct", "%", "part of the span with communication alone"),
        ("exposed_memcpy_pct", "%", "part of the span with copies alone"),
    )
    add("idle", *((f"idle_{cause}_ns", "ns", meaning) for cause, meaning in CAUSES.items()))
    add(
        "idle",
        ("gaps", "gap", "times the GPU was idle for 2 µs or longer"),
        ("longest_gap_ns", "ns", "longest time the GPU was idle"),
        ("gaps_after_sync", "gap", "of these gaps, those that follow a wait for the GPU"),
        ("pauses", "gap", "gaps of 1 ms or longer that a late launch ended"),
        ("pause_time_ns", "ns", "sum of these gaps, part of idle_host_ns"),
        ("late_launch_ns", "ns", "the rest of idle_host_ns: shorter waits for late launches"),
        ("launch_pauses_ns", "ns", "pause_time_ns, where it is at most late_launch_ns and not 0"),
        ("long_idle_unknown_ns", "ns", "of idle_unknown_ns in gaps of 1 ms or longer"),
        ("late_idle_allocate_ns", "ns", "of idle_allocate_ns after warm-up, or in the second half"),
        (
            "start_wait_ns",
            "ns",
            "idle_dependency_ns of the longest gap, where little ran before it",
        ),
        ("host_part_ns", "ns", "idle time until the host launched the next work, whatever it did"),
        ("cold_ns", "ns", "idle_cold_ns of the whole recording, warm-up steps included"),
        ("whole_span_ns", "ns", "span of the whole recording, warm-up steps included"),
    )
    add(
        "launches",
        ("activities", "activity", "kernels, copies and fills"),
        ("kernels", "launch", "kernels"),
        ("kernel_time_ns", "ns", "sum of all kernel times, overlap counted twice"),
        ("activity_time_ns", "ns", "sum of all times of kernels, copies and fills"),
        ("stream_overlap_ns", "ns", "of this beside another activity of the same stream"),
        ("median_kernel_ns", "ns", "median time of a kernel"),
        ("short_kernels", "launch", "kernels shorter than 10 µs"),
        ("short_kernel_time_ns", "ns", "sum of their times"),
        ("short_kernel_floor_ns", "ns", "of this at most 2.6 µs each: what an empty kernel takes"),
        ("tiny_kernels", "launch", "kernels shorter than 5 µs"),
        ("streams", "stream", "streams with activity"),
        ("linked_activities", "activity", "activities whose launch call is in the file"),
        ("launch_calls", "call", "host calls that launched them"),
        ("launch_time_ns", "ns", "sum of the times of those calls"),
        ("median_launch_ns", "ns", "median time of a launch call"),
        ("kernels_under_launch", "launch", "kernels shorter than the call that launched them"),
        ("median_launch_delay_ns", "ns", "median time from end of the launch call to start"),
        ("mean_launch_delay_ns", "ns", "mean time from end of the launch call to start"),
        ("median_queue_depth", "activity", "launched and not started, median over launches"),
        ("longest_queue", "activity", "launched and not started, at most"),
        ("graph_kernels", "launch", "kernels launched by replaying a graph"),
        ("launches_called", "call", "launch calls of kernels and graphs in the process"),
        ("lost_launches", "call", "of these without a record on the GPU, the last ones left out"),
        ("lost_graphs", "call", "graph launches without a record on the GPU"),
        ("call_id_density_pct", "%", "call ids seen in the range that they span"),
        ("lost_pct", "%", "work without a record, by launch calls or by the density of call ids"),
        ("blocking_pct", "%", "kernel time whose launch call returned only after the kernel"),
        (
            "kernel_growth_pct",
            "%",
            "equal kernels in the last quarter of their launches against the first, median by time",
        ),
        ("kernel_growth_ns", "ns", "what they take beyond the first quarter's medians"),
        ("compared_kernel_ns", "ns", "time of the kernels that are compared"),
        ("repeat_launches", "launch", "length of the launch sequence that repeats best"),
        ("repeats", "", "times that it fits into the timeline"),
        ("repeat_match", "", "share of launches equal to the one a sequence before, 0-1"),
    )
    add(
        "host",
        ("sync_calls", "call", "waits for the GPU with work launched after them"),
        ("sync_time_ns", "ns", "sum of their times"),
        ("copy_calls", "call", "copy calls that return when the copy is done"),
        ("copy_time_ns", "ns", "sum of their times"),
        ("fill_calls", "call", "fill calls that may wait"),
        ("fill_time_ns", "ns", "sum of their times"),
        ("allocate_calls", "call", "driver calls for memory, giving back included"),
        ("allocate_time_ns", "ns", "sum of their times"),
        ("late_allocate_calls", "call", "of these after warm-up, or in the second half"),
        ("late_allocate_time_ns", "ns", "sum of their times"),
        ("load_time_ns", "ns", "host time loading, compiling or tuning code"),
        ("warm_load_time_ns", "ns", "of this outside the cold start"),
        ("late_load_time_ns", "ns", "of this after warm-up, or in the second half"),
        ("warm_up_set_up_ns", "ns", "of this and of allocate_time_ns within warm-up steps"),
        ("collect_time_ns", "ns", "host time collecting garbage"),
        ("data_loader_time_ns", "ns", "host time waiting for or preparing batches"),
        ("loader_in_main", "call", "batches that the training process loads; 0 where workers do"),
        ("profiler_time_ns", "ns", "host time of the profiler itself"),
        ("stack_files", "file", "files that recorded Python stacks; unknown where none did"),
        ("host_collective_time_ns", "ns", "host time in barriers and host-side collectives"),
        ("data_parallel_calls", "call", "forward passes of torch.nn.DataParallel"),
    )
    add(
        "copies",
        ("copies", "copy", "copies"),
        ("copy_bytes", "byte", "payload of the copies that say so"),
        ("small_copies", "copy", "copies under 64 KiB"),
        ("small_copy_time_ns", "ns", "sum of their times"),
        ("small_copy_exposed_ns", "ns", "their time while nothing computes or communicates"),
        ("small_copy_gap_ns", "ns", "idle time directly before or after one of them"),
        *(
            entry
            for short, words in (
                ("h2d", "from host to device"),
                ("d2h", "from device to host"),
                ("d2d", "within the device"),
                ("p2p", "between devices"),
            )
            for entry in (
                (f"{short}_copies", "copy", f"copies {words}"),
                (f"{short}_bytes", "byte", f"payload {words}"),
                (f"{short}_time_ns", "ns", f"sum of the times of copies {words}"),
                (f"{short}_exposed_ns", "ns", f"copying {words} while nothing else runs"),
                (f"{short}_bytes_per_s", "byte/s", f"rate of copies {words} of 64 KiB or more"),
            )
        ),
        ("scalar_copies", "copy", "copies from device to host of 4 KiB or less"),
        ("managed_copies", "copy", "copies of managed memory; unknown where there are none"),
        ("managed_copy_ns", "ns", "mean time of one of these"),
        ("managed_under_kernels_ns", "ns", "their time while kernels run"),
        ("pageable_copies", "copy", "copies with pageable host memory; unknown if not recorded"),
        ("pageable_bytes", "byte", "their payload"),
        ("pageable_time_ns", "ns", "sum of their times"),
        ("pageable_exposed_ns", "ns", "their time while nothing else runs"),
    )
    add(
        "communication",
        ("collectives", "launch", "communication kernels"),
        ("small_collectives", "launch", "communication kernels with a message under 1 MiB"),
        ("message_bytes", "byte", "payload of the communication kernels that say so"),
        (
            "collective_excess_ns",
            "ns",
            "exposed time of equal collectives beyond the fastest of them",
        ),
        (
            "start_skew_ns",
            "ns",
            "exposed time that the first collective waited beyond what it takes",
        ),
        (
            "large_collective_floor_ns",
            "ns",
            "what the large collectives take at the speed of their fastest",
        ),
        ("large_collectives", "launch", "collectives with a known group and 16 MiB or more"),
        ("large_collective_time_ns", "ns", "sum of their times"),
        ("bus_bytes_per_s", "byte/s", "bus bandwidth of the fastest of them"),
        ("overlap_by_shapes", "", "1 where shapes tell which kernels are equal, else 0"),
        (
            "overlap_slowdown",
            "",
            "time of equal kernels under communication over their time alone, median by time",
        ),
    )
    add(
        "steps",
        ("steps", "step", "steps after warm-up"),
        ("warm_up_steps", "step", "steps set apart as warm-up"),
        ("warm_up_ns", "ns", "time of these"),
        ("median_step_ns", "ns", "median GPU time span of a step after warm-up"),
        ("median_step_busy_ns", "ns", "median busy time of a step after warm-up"),
        (
            "slowest_step",
            "",
            "longest step over the median one, warm-up and the last step left out",
        ),
        ("uneven_ns", "ns", "what steps that take over 1.5 times the median take beyond it"),
        (
            "uneven_busy_ns",
            "ns",
            "of this the GPU's own work: what they are busy beyond the median",
        ),
        ("step_trend", "", "rank correlation of a step's time with its place in the run, -1 to 1"),
        ("step_growth_pct", "%", "last steps against first ones, quarter by quarter, medians"),
        ("step_growth_ns", "ns", "what steps take beyond the median of the first quarter"),
        ("kernels_per_step", "launch", "median kernels of a step"),
        ("syncs_per_step", "call", "waits for the GPU per step, mean"),
        ("copies_per_step", "copy", "copies per step, mean"),
        ("collectives_per_step", "launch", "communication kernels per step, mean"),
    )
    return sourced(rows, launch="copy_bytes message_bytes", derived="small_copy_gap_ns")


#: Every fact of a timeline that a rule of scope ``timeline`` may read: unit and meaning.
TIMELINE_COLUMNS: tuple[Column, ...] = _columns()
