"""The kernel table: one row per GPU activity, whatever profiler saw it.

``COLUMNS`` is the one list of what a column is called, holds, and is measured against;
``KERNELS`` is the same list as a pyarrow schema, and ``kernel_table`` the only door into a
table. ``docs/kernel-table.md`` is generated from here by ``make docs``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traceroof.core.dictionary import PART, one_array, repeated
from traceroof.errors import TraceroofError

# Why a warp did not issue, in Nsight Compute's metric spelling (`gmma` is
# `warpgroup_arrive` in PC samples, `no_instruction` is `no_instructions` there).
STALL_REASONS: tuple[str, ...] = (
    "long_scoreboard",
    "short_scoreboard",
    "lg_throttle",
    "mio_throttle",
    "tex_throttle",
    "math_pipe_throttle",
    "wait",
    "barrier",
    "membar",
    "branch_resolving",
    "no_instruction",
    "imc_miss",
    "drain",
    "dispatch_stall",
    "sleeping",
    "gmma",
    "not_selected",
    "misc",
)

# The functional units whose utilisation the table carries, with what runs on them.
PIPES: Mapping[str, str] = {
    "tensor": "matrix multiply-accumulate (tensor cores, MFMA)",
    "fma": "single-precision multiply-add",
    "fp16": "half-precision arithmetic outside the tensor cores",
    "fp64": "double-precision arithmetic",
    "alu": "integer, logic and conversion",
    "xu": "transcendental functions and conversions (special function unit)",
    "lsu": "loads and stores",
    "tex": "texture fetches",
    "uniform": "uniform (scalar) arithmetic",
    "valu": "vector arithmetic of every type (AMD VALU)",
    "tma": "bulk asynchronous copies",
}


#: Text columns hold each distinct text once and a number a row: a million launches share a few
#: hundred names, paths and shapes (``coding.coded`` takes them apart).
TEXT: pa.DataType = pa.dictionary(pa.int32(), pa.string())


Source = Literal["counter", "clock", "launch", "device", "model", "name", "log", "derived"]

#: Where the figure of a column can come from: the word that stands beside each piece of evidence.
SOURCES: Mapping[Source, str] = {
    "counter": "a hardware counter, as the profiler reports it",
    "clock": "times that the profiler took",
    "launch": "the launch itself: its grid, its resources, how often it ran",
    "device": "the device, by the report or the device table",
    "model": "the operator's model from its shapes, or a measured time held against it",
    "name": "the name or the recorded inputs of the kernel or its operator",
    "log": "a log of clocks and power beside the run",
    "derived": "arithmetic on figures of several origins",
}


@dataclass(frozen=True)
class Column:
    """One column of the kernel table.

    basis: what a percentage or ratio is measured against ("elapsed": peak sustained over all
    elapsed cycles; "active": over the cycles in which the unit was active; "row": the column
    named in the meaning says it for each row); empty for plain quantities. source: where its figures
    come from, one of ``SOURCES``.
    """

    name: str
    type: pa.DataType
    unit: str
    meaning: str
    group: str
    basis: str = ""
    source: Source = "derived"


def sourced(columns: Iterable[Column], **names: str) -> tuple[Column, ...]:
    """The columns with the sources of some: ``clock="time_ns median_ns"``."""
    source_of = {name: source for source, listed in names.items() for name in listed.split()}
    return tuple(
        replace(one, source=cast(Source, source_of.get(one.name, one.source))) for one in columns
    )


_SOURCE_OF_GROUP: Mapping[str, Source] = {
    "identity": "name",
    "time": "clock",
    "utilisation": "counter",
    "traffic": "counter",
    "arithmetic": "counter",
    "scheduler": "counter",
    "balance": "counter",
    "clocks": "counter",
    "peaks": "device",
    "launch": "launch",
}


def _columns() -> tuple[Column, ...]:
    text, whole, real = TEXT, pa.int64(), pa.float64()
    rows: list[Column] = []

    def add(group: str, type: pa.DataType, *entries: tuple[str, ...]) -> None:
        """Name, unit, meaning, basis, and the source where it is not the group's."""
        for name, unit, meaning, *more in entries:
            basis = more[0] if more else ""
            source = more[1] if len(more) > 1 else _SOURCE_OF_GROUP[group]
            rows.append(Column(name, type, unit, meaning, group, basis, cast(Source, source)))

    add(
        "identity",
        text,
        (
            "kind",
            "",
            "what the GPU did: kernel, memcpy, memset, or graph (a replay recorded whole)",
        ),
        ("kernel_name", "", "name as the profiler wrote it, complete"),
        ("operator", "", "innermost framework operator that launched it"),
        ("operator_path", "", "enclosing operators, outermost first, joined by ' > '"),
        (
            "module_path",
            "",
            "enclosing modules or annotations, outermost first, joined by ' > '; Layer_? is any layer",
        ),
        (
            "source_line",
            "",
            "line of the program's own Python that launched it: 'file(line): function'",
        ),
        ("input_shapes", "", "operator input shapes as JSON"),
        ("input_dtypes", "", "operator input element types as JSON"),
        ("input_values", "", "operator inputs other than tensors as JSON, '' for each tensor"),
        ("phase", "", "forward, backward or optimizer where it is known"),
        ("step", "", "training or decoding step that contains the launch"),
        ("collective", "", "collective operation of a communication kernel"),
        ("process_group", "", "group of ranks that a collective runs in, by its name"),
        ("group_ranks", "", "ranks of that group as the profiler wrote them; long lists elided"),
        ("copy_kind", "", "direction and memory kinds of a copy, as the profiler wrote it"),
        ("graph_id", "", "graph whose replay launched it"),
        ("process_name", "", "program that was profiled"),
    )
    add(
        "identity",
        whole,
        ("source", "", "index of the run's source file that this row comes from"),
        ("launch_id", "", "the profiler's own number of this result"),
        (
            "launch_count",
            "launch",
            "launches in this row: 1, or more for a row of a summary",
            "",
            "launch",
        ),
        ("rank", "", "rank in a distributed run"),
        ("process_id", "", "operating-system process"),
        ("device", "", "GPU ordinal as the profiler numbers it"),
        ("gpu", "", "the physical GPU, equal where files show that it is the same one"),
        ("context", "", "GPU context"),
        ("stream", "", "GPU stream or queue"),
        ("correlation_id", "", "number that links the row to the host call that launched it"),
        ("operator_call", "", "which call of its operator, in its file, launched it"),
        ("grid_x", "block", "thread blocks (workgroups) in x", "", "launch"),
        ("grid_y", "block", "thread blocks (workgroups) in y", "", "launch"),
        ("grid_z", "block", "thread blocks (workgroups) in z", "", "launch"),
        ("block_x", "thread", "threads of a block in x", "", "launch"),
        ("block_y", "thread", "threads of a block in y", "", "launch"),
        ("block_z", "thread", "threads of a block in z", "", "launch"),
        ("group_size", "rank", "ranks that take part in a collective", "", "launch"),
    )
    add(
        "time",
        whole,
        ("start_ns", "ns", "start on the profiler's clock"),
        ("duration_ns", "ns", "GPU time of one launch; the mean where launch_count > 1"),
        ("host_launch_ns", "ns", "start of the host call that launched it, same clock"),
        ("host_launch_duration_ns", "ns", "duration of the host call that launched it"),
    )
    add(
        "utilisation",
        real,
        ("sm_throughput_pct", "%", "busiest part of the compute units", "elapsed"),
        ("memory_throughput_pct", "%", "busiest part of the memory system", "elapsed"),
        ("dram_throughput_pct", "%", "device memory", "elapsed"),
        ("l2_throughput_pct", "%", "second-level cache", "elapsed"),
        ("l1_throughput_pct", "%", "first-level cache, shared memory, texture unit", "active"),
        ("memory_busy_pct", "%", "busiest cache or memory interface", "elapsed"),
        ("memory_bandwidth_pct", "%", "busiest link between caches and memory", "elapsed"),
        ("memory_pipes_busy_pct", "%", "busiest pipe that issues memory instructions", "elapsed"),
        ("shared_memory_busy_pct", "%", "data path of the shared memory (LDS)", "elapsed"),
        ("vector_l1_pct", "%", "lookups of the first-level data cache (AMD), 1 a cycle", "elapsed"),
        ("sm_active_pct", "%", "multiprocessors that held a block", "elapsed"),
        ("cu_busy_pct", "%", "compute units that held a wave (AMD); low when short", "elapsed"),
        ("sm_busy_pct", "%", "busiest instruction pipe of the compute units", "row"),
        ("issue_slots_busy_pct", "%", "issue slots used", "row"),
        *((f"pipe_{pipe}_pct", "%", f"pipe for {what}", "row") for pipe, what in PIPES.items()),
    )
    add(
        "utilisation",
        text,
        (
            "pipe_basis",
            "",
            "basis of the pipe columns, sm_busy and issue_slots: elapsed or active",
            "",
            "derived",
        ),
    )
    add(
        "traffic",
        real,
        ("dram_bytes", "byte", "device memory, read and written"),
        ("dram_read_bytes", "byte", "device memory, read"),
        ("dram_write_bytes", "byte", "device memory, written"),
        ("l2_bytes", "byte", "between first- and second-level cache"),
        ("l1_bytes", "byte", "through the first-level cache"),
        ("copy_bytes", "byte", "payload of a copy or fill", "", "launch"),
        ("message_bytes", "byte", "payload of a collective on this rank", "", "launch"),
        ("l1_hit_pct", "%", "sectors that hit in the first-level cache", "accesses"),
        ("l2_hit_pct", "%", "sectors that hit in the second-level cache", "accesses"),
        ("global_sectors", "sector", "32-byte sectors that global accesses moved"),
        ("global_sectors_ideal", "sector", "sectors the same accesses need when coalesced"),
        ("global_load_requests", "request", "global load instructions of warps"),
        ("global_load_sectors", "sector", "32-byte sectors of global loads, those in L1 included"),
        ("global_store_requests", "request", "global store instructions of warps"),
        ("global_store_sectors", "sector", "32-byte sectors of global stores"),
        ("load_bytes_per_sector", "byte/sector", "bytes used of each 32-byte sector loaded"),
        ("store_bytes_per_sector", "byte/sector", "bytes used of each 32-byte sector stored"),
        ("load_sectors_per_request", "sector/request", "sectors per global load request"),
        ("store_sectors_per_request", "sector/request", "sectors per global store request"),
        ("local_load_instructions", "inst", "loads from local memory (spills, local arrays)"),
        ("local_store_instructions", "inst", "stores to local memory (spills, local arrays)"),
        ("spill_requests", "request", "local-memory requests caused by register spilling"),
        ("spill_overhead_pct", "%", "first-level requests that are due to spilling", "accesses"),
        ("atomic_requests", "request", "atomic and reduction requests"),
        ("shared_wavefronts", "wavefront", "shared-memory wavefronts"),
        ("shared_conflicts", "wavefront", "shared-memory wavefronts caused by bank conflicts"),
        ("shared_requests", "request", "shared-memory requests"),
        ("shared_bytes", "byte", "shared memory (LDS), read and written"),
        ("shared_atomic_requests", "request", "atomic instructions of warps on shared memory"),
        ("shared_atomic_wavefronts", "wavefront", "wavefronts of atomics on shared memory"),
        ("remote_memory_pct", "%", "L2 misses that went to a peer or to the host", "misses"),
        ("lines_per_request", "", "cache-line lookups of a wave's vector-memory instruction (AMD)"),
        ("fabric_stalled_pct", "%", "L2 requests held back by the fabric (AMD)", "L2 busy"),
    )
    add(
        "arithmetic",
        real,
        ("flop_fp64", "FLOP", "double-precision operations, an FMA counting 2"),
        ("flop_fp32", "FLOP", "single-precision operations, an FMA counting 2"),
        ("flop_fp16", "FLOP", "half-precision operations outside the tensor cores"),
        ("flop_tensor", "FLOP", "tensor-core operations"),
        ("stated_flops", "FLOP", "operations of one launch as the program itself states them"),
        ("stated_bytes", "byte", "bytes that one launch must move, as the program states them"),
        ("fp32_nonfused_pct", "%", "FP32 add and multiply among FP32 instructions", "instructions"),
        ("fp64_nonfused_pct", "%", "FP64 add and multiply among FP64 instructions", "instructions"),
        ("instructions", "inst", "warp instructions executed"),
    )
    add(
        "arithmetic",
        text,
        ("tensor_dtype", "", "element type of the tensor-core operations"),
        ("stated_dtype", "", "element type of stated_flops: fp8, fp16, fp32 or fp64", "", "name"),
    )
    add(
        "peaks",
        real,
        ("peak_dram_bytes_per_s", "byte/s", "device-memory peak that the report itself shows"),
        ("peak_fp64_flops_per_s", "FLOP/s", "FP64 peak at the measured clock, from the report"),
        ("peak_fp32_flops_per_s", "FLOP/s", "FP32 peak at the measured clock, from the report"),
        ("peak_fp16_flops_per_s", "FLOP/s", "FP16 peak at the measured clock, from the report"),
        ("peak_tensor_flops_per_s", "FLOP/s", "tensor peak at the measured clock, from the report"),
    )
    add(
        "arithmetic",
        real,
        ("rate_dram_bytes_per_s", "byte/s", "DRAM rate that the report shows, without a duration"),
        ("rate_fp64_flops_per_s", "FLOP/s", "FP64 rate that the report shows, without a duration"),
        ("rate_fp32_flops_per_s", "FLOP/s", "FP32 rate that the report shows, without a duration"),
        ("rate_fp16_flops_per_s", "FLOP/s", "FP16 rate that the report shows, without a duration"),
    )
    add(
        "launch",
        whole,
        ("shortest_launch_ns", "ns", "the shortest launch of a row of a summary", "", "clock"),
        ("longest_launch_ns", "ns", "the longest launch of a row of a summary", "", "clock"),
    )
    add("peaks", text, ("peaks_from", "", "what the peaks were derived from", "", "derived"))
    add(
        "peaks",
        real,
        ("calibrated_dram_bytes_per_s", "byte/s", "device-memory rate measured on this device"),
        ("calibrated_fp64_flops_per_s", "FLOP/s", "FP64 rate measured on this device"),
        ("calibrated_fp32_flops_per_s", "FLOP/s", "FP32 rate measured on this device"),
        ("calibrated_tensor_flops_per_s", "FLOP/s", "tensor rate measured on this device"),
    )
    add(
        "launch",
        real,
        ("registers_per_thread", "register/thread", "registers of a thread (VGPRs on AMD)"),
        ("accumulation_registers_per_thread", "register/thread", "AMD accumulation VGPRs"),
        ("scalar_registers_per_wave", "register/wave", "AMD scalar registers"),
        ("shared_memory_bytes", "byte/block", "shared memory (LDS), fixed and asked for together"),
        ("shared_memory_static_bytes", "byte/block", "shared memory (LDS) fixed at compile time"),
        ("shared_memory_dynamic_bytes", "byte/block", "shared memory asked for at launch"),
        ("shared_memory_driver_bytes", "byte/block", "shared memory the driver takes"),
        ("scratch_bytes_per_thread", "byte/thread", "AMD scratch (private) memory"),
        ("cluster_size", "block", "blocks of a cluster"),
        ("warp_size", "thread", "threads of a warp (wavefront)", "", "device"),
        (
            "sm_count",
            "SM",
            "multiprocessors (compute units) of the device or partition",
            "",
            "device",
        ),
        ("warp_slots", "warp/SM", "warps that fit on a multiprocessor at most"),
        ("waves_per_sm", "", "blocks divided by the blocks that fit on the device at once"),
        ("theoretical_occupancy_pct", "%", "warps that the launch lets reside", "warp slots"),
        (
            "estimated_occupancy_pct",
            "%",
            "theoretical, less where the grid is small",
            "warp slots",
            "derived",
        ),
        ("achieved_occupancy_pct", "%", "warps that resided on average", "active", "counter"),
        ("occupancy_limit_blocks", "block/SM", "resident blocks allowed by block slots"),
        ("occupancy_limit_registers", "block/SM", "resident blocks allowed by registers"),
        ("occupancy_limit_shared_memory", "block/SM", "resident blocks allowed by shared memory"),
        ("occupancy_limit_warps", "block/SM", "resident blocks allowed by warp slots"),
        ("occupancy_limit_barriers", "block/SM", "resident blocks allowed by barriers"),
    )
    add(
        "scheduler",
        real,
        ("issue_active", "inst/cycle", "instructions issued per scheduler and active cycle, 0-1"),
        ("warps_active", "warp", "resident warps per scheduler", "active"),
        ("warps_eligible", "warp", "warps per scheduler that could issue", "active"),
        ("warp_cycles_per_issue", "cycle", "cycles of a warp between two issued instructions"),
        ("ipc", "inst/cycle", "instructions executed per multiprocessor and active cycle"),
        ("threads_per_instruction", "thread", "threads active in an average warp instruction"),
        ("threads_per_instruction_predicated", "thread", "the same, not predicated off"),
        ("branch_efficiency_pct", "%", "branches without divergence", "branches"),
        *(
            (f"stall_{reason}", "", f"share of a warp's time between issues: {reason}", "issue")
            for reason in STALL_REASONS
        ),
    )
    add(
        "scheduler",
        text,
        (
            "stalls_from",
            "",
            "where stall shares come from: ratios, pc-samples, rule text (partial)",
            "",
            "derived",
        ),
    )
    add(
        "scheduler",
        real,
        ("wait_dependency", "", "share of wave time waiting for data or a barrier (AMD)", "wave"),
        ("wait_issue", "", "share of wave time ready but not issued (AMD)", "wave"),
        ("wave_issuing", "", "share of wave time issuing (AMD)", "wave"),
        ("instruction_cache_hit_pct", "%", "instruction fetches that hit (AMD)", "fetches"),
        (
            "scheduler_pipe_stall_pct",
            "%",
            "workgroups held back by full resources (AMD)",
            "elapsed",
        ),
        *(
            (
                f"insufficient_{resource}_pct",
                "%",
                f"time in which workgroups waited for {what} (AMD)",
                "elapsed",
            )
            for resource, what in {
                "wave_slots": "wave slots of a SIMD",
                "vector_registers": "vector registers",
                "scalar_registers": "scalar registers",
                "lds": "LDS",
                "barriers": "barriers",
                "workgroup_slots": "workgroup slots of a compute unit",
            }.items()
        ),
    )
    add(
        "balance",
        real,
        *(
            (
                f"imbalance_{unit}_pct",
                "%",
                f"time lost to uneven load between {what}: (1 - mean/max) x active/elapsed",
                "elapsed",
            )
            for unit, what in {
                "sm": "multiprocessors",
                "smsp": "schedulers",
                "l1": "first-level caches",
                "l2": "second-level cache slices",
                "dram": "memory channels",
            }.items()
        ),
    )
    add(
        "clocks",
        real,
        ("sm_clock_hz", "Hz", "core clock while the kernel ran"),
        ("dram_clock_hz", "Hz", "memory clock while the kernel ran"),
    )
    return tuple(rows)


COLUMNS: tuple[Column, ...] = _columns()

#: The kernel table as a schema; unit, basis and meaning travel in each field's metadata.
KERNELS: pa.Schema = pa.schema(
    [
        pa.field(
            column.name,
            column.type,
            metadata={"unit": column.unit, "basis": column.basis, "meaning": column.meaning},
        )
        for column in COLUMNS
    ]
)

KINDS = ("kernel", "memcpy", "memset", "graph")


@cache
def column(name: str) -> Column:
    """The column called ``name``. Raises KeyError for a name that the table does not have."""
    return _BY_NAME[name]


_BY_NAME: Mapping[str, Column] = {entry.name: entry for entry in COLUMNS}


def kernel_table(columns: Mapping[str, Any]) -> pa.Table:
    """Make a kernel table from named columns: the only door into one.

    columns: column name -> values (list, numpy array or Arrow array), all n long. ``kernel_name``
    is required; ``kind`` is 'kernel', ``launch_count`` 1 and ``source`` 0 where absent; every
    other absent column is null. NaN and infinity in a column of reals mean unknown and become
    null.

    Returns a ``pa.Table`` of schema ``KERNELS``. Raises TraceroofError naming the column when
    one is unknown, required but missing, of the wrong length or of the wrong type.
    """
    unknown = sorted(set(columns) - set(_BY_NAME))
    if unknown:
        raise TraceroofError(f"the kernel table has no column {', '.join(unknown)}")
    if "kernel_name" not in columns:
        raise TraceroofError("a kernel table needs the column kernel_name")
    length = len(columns["kernel_name"])
    given = {name: values for name, values in columns.items() if values is not None}
    for name, value in (("kind", "kernel"), ("launch_count", 1), ("source", 0)):
        if name not in given:
            given[name] = pa.repeat(pa.scalar(value, _BY_NAME[name].type), length)
    # One array of nulls per type serves all absent columns: at millions of rows they are most of
    # the table.
    nulls = {type_: _nulls(length, type_) for type_ in {entry.type for entry in COLUMNS}}
    arrays = [
        _array(entry, given[entry.name], length) if entry.name in given else nulls[entry.type]
        for entry in COLUMNS
    ]
    arrays = [
        nulls[entry.type] if length and values.null_count == length else values
        for entry, values in zip(COLUMNS, arrays, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=KERNELS)


def _nulls(length: int, type_: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """A column of nulls."""
    part = pa.nulls(min(length, PART), type_)
    return part if length <= PART else repeated(part, length)


def _array(entry: Column, values: Any, length: int) -> pa.Array | pa.ChunkedArray:
    if len(values) != length:
        raise TraceroofError(
            f"column {entry.name} has {len(values)} values where kernel_name has {length}"
        )
    try:
        if isinstance(values, pa.Array | pa.ChunkedArray):
            return values.cast(entry.type)
        # NaN and None both mean unknown; from_pandas turns either into null.
        array = pa.array(values, from_pandas=True)
        if pa.types.is_integer(entry.type) and pa.types.is_floating(array.type):
            array = pc.round(array)
        if entry.type == TEXT and pa.types.is_primitive(array.type):
            # Arrow would print the numbers; a number where a name belongs is a mistake.
            raise pa.ArrowTypeError(f"values of type {array.type}")
        array = array.cast(entry.type)
        if pa.types.is_floating(entry.type) and not pc.all(pc.is_finite(array)).as_py():
            # Text such as 1e999 is a number to Python, and no measurement.
            array = pc.if_else(pc.is_finite(array), array, None)
        return array
    except (
        pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError,
    ) as error:  # fmt: skip
        raise TraceroofError(
            f"column {entry.name} holds something other than {entry.type}: {error}"
        ) from None


def total_time_ns(table: pa.Table, kind: str | None = "kernel") -> int:
    """Sum of launch_count x duration_ns over rows of ``kind`` (None: all), unknown left out. ns."""
    table = _of_kind(table, kind, ["launch_count", "duration_ns"])
    total = pc.sum(pc.multiply(table["launch_count"], table["duration_ns"])).as_py()
    return int(total or 0)


def known_time_ns(table: pa.Table) -> int | None:
    """Time of all kernels, ns; None where there are kernels and no duration of any is known."""
    total = total_time_ns(table)
    part = _of_kind(table, "kernel", ["duration_ns"])
    return None if part.num_rows and part["duration_ns"].null_count == part.num_rows else total


def launches(table: pa.Table, kind: str | None = "kernel") -> int:
    """Sum of launch_count over rows of ``kind`` (None: all kinds)."""
    return int(pc.sum(_of_kind(table, kind, ["launch_count"])["launch_count"]).as_py() or 0)


def by_name(table: pa.Table) -> list[tuple[str, int | None, int]]:
    """Kernel name, known time in ns (None where no launch has one) and launches, most time first."""
    part = _of_kind(table, "kernel", ["kernel_name", "launch_count", "duration_ns"])
    time = pc.multiply(part["launch_count"], part["duration_ns"])
    summed = (
        pa.table(
            {
                "name": part["kernel_name"].cast(pa.string()),
                "time": time,
                "launches": part["launch_count"],
            }
        )
        .group_by("name", use_threads=False)
        .aggregate([("time", "sum"), ("launches", "sum")])
        .to_pylist()
    )
    rows = [(one["name"] or "", one["time_sum"], int(one["launches_sum"] or 0)) for one in summed]
    return sorted(rows, key=lambda one: (-(one[1] or 0), one[0]))


def _of_kind(table: pa.Table, kind: str | None, columns: Sequence[str]) -> pa.Table:
    """These columns of the rows of a kind (None: all); filtering every column would copy all."""
    part = table.select(columns)
    return part if kind is None else part.filter(pc.equal(table["kind"], kind))


def known_columns(table: pa.Table) -> tuple[str, ...]:
    """Names of the columns that hold at least one known value, in table order."""
    return tuple(
        name for name in table.column_names if table[name].null_count < max(table.num_rows, 1)
    )


def narrowed(table: pa.Table) -> pa.Table:
    """The columns of a kernel table that hold anything: what is worth sending elsewhere."""
    return table.select(list(known_columns(table)))


def widened(table: pa.Table) -> pa.Table:
    """The kernel table that ``narrowed`` made this of, or that was put together of several: each
    column in one piece, and of columns that hold nothing one for all."""
    length = table.num_rows
    there = {name: table[name] for name in table.column_names if table[name].null_count < length}
    nulls = {type_: _nulls(length, type_) for type_ in {entry.type for entry in COLUMNS}}
    arrays = [
        _in_one(there[entry.name]) if entry.name in there else nulls[entry.type]
        for entry in COLUMNS
    ]
    return pa.Table.from_arrays(arrays, schema=KERNELS)


def _in_one(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    return column if column.num_chunks == 1 else column.unify_dictionaries().combine_chunks()


def stack(tables: Sequence[pa.Table]) -> pa.Table:
    """Put kernel tables below one another."""
    return pa.concat_tables(list(tables)) if tables else KERNELS.empty_table()


#: A whole number that is not known, in arrays.
UNKNOWN = np.iinfo(np.int64).min


def whole(values: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.int64]]:
    """A column of whole numbers; UNKNOWN where null. A view of it where nothing is null, and of one
    number where all rows have the same."""
    if _is_repeated(values) and values.null_count in (0, len(values)):
        part = np.full(1, UNKNOWN) if values.null_count else values.chunk(0).to_numpy()
        if (part == part[0]).all():
            return np.broadcast_to(part[0], len(values))
    if values.null_count:
        values = pc.fill_null(values, UNKNOWN)
    found: np.ndarray[Any, np.dtype[np.int64]] = one_array(values).to_numpy(zero_copy_only=True)
    return found


def _is_repeated(column: pa.ChunkedArray) -> bool:
    """Whether a column is one part over and over (``dictionary.repeated``)."""
    if column.num_chunks < 2 or len(column.chunk(0)) != PART:
        return False
    places = {
        (one.offset, *(part.address if part else 0 for part in one.buffers()))
        for one in column.chunks
    }
    return len(places) == 1


def as_reals(values: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A column as float64 with NaN for unknown (times stay exact below 2**53 ns = 104 days)."""
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64)
