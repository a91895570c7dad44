"""What follows from a kernel group's counters and names: access patterns, operand types, route."""

import json
from functools import lru_cache
from typing import Any

import numpy as np

from traceroof.hardware.devices import all_devices
from traceroof.kernels.derived import Derived, Reals, See, Texts, amd, first_known, seconds
from traceroof.operators.operands import element_type

# The widest access, 16 bytes a thread, needs 16 sectors of 32 bytes for a warp.
_SECTOR_BYTES, _WIDEST_SECTORS = 32, 16
# What a warp needs for 4 bytes a thread, and what is one access for all of its threads.
_SCALAR_SECTORS, _FEW_SECTORS = 4, 2

# What AMD's first-level cache asks the second for at most, but for whole lines it reads.
_AMD_REQUEST_BYTES = 64

# The backend of scaled_dot_product_attention that writes out the whole score matrix.
_UNFUSED_ATTENTION = "_scaled_dot_product_attention_math"

# Element types that arithmetic runs in, narrowest first; indices and masks are no operands.
_OPERAND_TYPES = ("fp4", "fp8", "int8", "bf16", "fp16", "fp32", "fp64")


# ------------------------------------------------------------------------------ memory accesses


def _issue_active_ceiling(see: See) -> Reals:
    # SM throughput is the busiest of several units, issue slots among them: a ceiling.
    return first_known(
        see("issue_active"),
        see("issue_slots_busy_pct") / 100,
        see("sm_throughput_pct") / 100,
        # PC samples: how many of the resident warps issue.
        np.minimum(see("wave_issuing") * see("warps_active"), 1),
    )


def _sectors(see: See) -> tuple[Reals, Reals]:
    """Sectors that global accesses moved and needed, where both are known."""
    moved, needed = see("global_sectors"), see("global_sectors_ideal")
    both = (moved > 0) & (needed > 0)
    return np.where(both, moved, np.nan), np.where(both, needed, np.nan)


def _sectors_excess_pct(see: See) -> Reals:
    moved, needed = _sectors(see)
    return (moved / needed - 1) * 100


def _sectors_wasted_pct(see: See) -> Reals:
    moved, needed = _sectors(see)
    loads, stores = _wasted("load", see), _wasted("store", see)
    of_loads, of_stores = see("global_load_sectors"), see("global_store_sectors")
    both = (loads * of_loads + stores * of_stores) / (of_loads + of_stores)
    return 100 * first_known(1 - needed / moved, both, loads, stores)


def _wasted(what: str, see: See) -> Reals:
    """Share of the sectors' bytes that no thread asked for, of loads or stores.

    One sector a request or less is one word for all threads, or of one thread: nothing to merge.
    Without the bytes used, sectors beyond those of the widest access are certain waste.
    """
    used, sectors = see(f"{what}_bytes_per_sector"), see(f"{what}_sectors_per_request")
    by_bytes = np.where(sectors < _FEW_SECTORS, 0.0, 1 - used / _SECTOR_BYTES)
    by_request = np.maximum(1 - _WIDEST_SECTORS / sectors, 0.0)
    certain = np.where((by_request > 0) | (sectors <= _SCALAR_SECTORS), by_request, np.nan)
    return first_known(by_bytes, certain)


def _local_requests(see: See) -> Reals:
    accesses = see("local_load_instructions") + see("local_store_instructions")
    return first_known(see("spill_requests"), accesses)


def _atomic_requests_pct(see: See) -> Reals:
    # AMD's L2 takes requests of up to 64 bytes, NVIDIA's sectors of 32.
    of_l2 = see("l2_bytes") / np.where(amd(see), _AMD_REQUEST_BYTES, _SECTOR_BYTES)
    return 100 * _ratio(see("atomic_requests"), of_l2)


def _shared_wavefronts(see: See) -> Reals:
    # A request is one wavefront and one more for each conflict. Wide accesses need several in any
    # case, so counted wavefronts come first; AMD counts conflicts in cycles.
    by_conflicts = see("shared_requests") + see("shared_conflicts")
    return first_known(see("shared_wavefronts"), np.where(amd(see), np.nan, by_conflicts))


def _shared_conflict_pct(see: See) -> Reals:
    wavefronts = _shared_wavefronts(see)
    conflicts = 100 * _ratio(see("shared_conflicts"), wavefronts)
    return np.where(wavefronts == 0, 0.0, conflicts)


def _shared_conflict_time_pct(see: See) -> Reals:
    # A multiprocessor passes one wavefront a cycle; AMD counts conflicts in cycles of its own.
    clock = first_known(see("sm_clock_hz"), see.device("boost_clock_hz"))
    cycles = see("sm_count") * clock * seconds(see)
    return np.where(amd(see), np.nan, 100 * _ratio(see("shared_conflicts"), cycles))


def _tensor_use_pct(see: See) -> Reals:
    return first_known(see("tensor_pct"), np.where(see("name_tensor_core") == 0, 0.0, np.nan))


# On AMD one unit runs every type; how much of it FP64 takes only its operations tell.
def _fp32_use_pct(see: See) -> Reals:
    return first_known(see("pipe_fma_pct"), np.where(amd(see), see("pipe_valu_pct"), np.nan))


def _fp64_use_pct(see: See) -> Reals:
    return first_known(see("pipe_fp64_pct"), np.where(amd(see), see("fp64_rate_pct"), np.nan))


# ------------------------------------------------------------------------------ types of operands


def _operand_dtype(see: See) -> Texts:
    found = []
    for recorded, tensor, name, flop in zip(
        *(see.text(one) for one in ("input_dtypes", "tensor_dtype", "name_dtype", "flop_dtype")),
        strict=True,
    ):
        # Counters of plain arithmetic see only the epilogue of a tensor kernel, so they come last.
        least = (*_types(recorded)[:1], _in_memory(tensor), name, _in_memory(flop))
        found.append(next((one for one in least if one), None))
    return np.array(found, dtype=object)


def _declared_dtype(see: See) -> Texts:
    found = []
    for recorded, name, name_fp64 in zip(
        see.text("input_dtypes"), see.text("name_dtype"), see("name_fp64"), strict=True
    ):
        types = _types(recorded)
        found.append(types[-1] if types else "fp64" if name_fp64 == 1 else name)
    return np.array(found, dtype=object)


def _types(recorded: Any) -> tuple[str, ...]:
    return _operand_types(recorded) if isinstance(recorded, str) else ()


def _tensor_speedup(see: See) -> Reals:
    """What tensor cores are worth for the operands."""
    operand = see.text("operand_dtype")
    speedup = np.full(see.count, np.nan)
    for dtype in {one for one in operand if one}:
        here = operand == dtype
        key = {"fp32": "tf32", "fp64": "fp64_tensor"}.get(dtype, dtype)
        speedup[here] = (see.device(f"peak_{key}") / see.device("peak_fp32"))[here]
    return speedup


# BF16 came with Ampere.
_BF16_SINCE = 8.0


def _least_capability(see: See) -> Reals:
    """The device's compute capability; where no device is known the highest that a name of such
    kernels is compiled for, since older GPUs cannot run it."""
    own, told = see.device("compute_capability"), see("name_capability")
    unnamed = np.isnan(own) & np.isnan(see.device("peak_fp32"))
    unnamed &= np.array([one in (None, "nvidia") for one in see.vendors()], dtype=bool)
    least = float(np.max(told[unnamed & ~np.isnan(told)], initial=-np.inf))
    return np.where(unnamed, least if np.isfinite(least) else np.nan, own)


def _half_speedup(see: See) -> Reals:
    """What 16 bits are worth where operands are FP32: the peak of the device's 16-bit type over that
    of the units which the name marks: tensor cores in TF32 (matrix cores in FP32), else vector.
    Where the device is not known, of those that it may be the one that gains most."""
    half = first_known(see.device("peak_bf16"), see.device("peak_fp16"))
    fp32 = see.text("operand_dtype") == "fp32"
    vector = see.device("peak_fp32")
    matrix = first_known(see.device("peak_tf32"), see.device("peak_fp32_tensor"), vector)
    on_matrix = see("name_tensor_core") == 1
    known = half / np.where(on_matrix, matrix, vector)
    least = see("least_capability")
    unnamed = np.isnan(vector) & fp32 & ~np.isnan(least)
    # Of a GPU that the table does not have, the file tells the capability.
    told = ~np.isnan(see.device("compute_capability"))
    for capability in np.unique(least[unnamed]).tolist():
        for matrix_units, wide in ((True, ("tf32", "fp32")), (False, ("fp32",))):
            here = unnamed & (least == capability) & (on_matrix == matrix_units)
            for only, those in ((True, here & told), (False, here & ~told)):
                known[those] = _most_from_half(capability, wide, only)
    return np.where(fp32, known, np.nan)


def _most_from_half(least: float, wide: tuple[str, ...], only: bool) -> float:
    """The highest ratio of 16-bit peak to that of a wider type, of GPUs from a compute capability
    on, or with it only; NaN where there is none."""
    ratios = [
        half / full
        for one in all_devices()
        if one.compute_capability
        and (capability := float(one.compute_capability)) >= least
        and (capability == least or not only)
        for half in (one.flops_per_s.get("bf16") or one.flops_per_s.get("fp16"),)
        for full in (next((one.flops_per_s[t] for t in wide if t in one.flops_per_s), None),)
        if half and full
    ]
    return max(ratios, default=np.nan)


def _half_dtype(see: See) -> Texts:
    has_bf16 = ~np.isnan(see.device("peak_bf16"))
    has_bf16 |= np.isnan(see.device("peak_fp32")) & (see("least_capability") >= _BF16_SINCE)
    here: Texts = np.array(["fp16", "bf16"], dtype=object)[has_bf16.astype(int)]
    here[np.isnan(see("half_speedup"))] = None
    return here


def _in_memory(dtype: Any) -> str | None:
    """The type that operands of this arithmetic have in memory: fp8_e4m3 is fp8, tf32 is fp32."""
    if not isinstance(dtype, str):
        return None
    name = dtype.split("_")[0]
    return "fp32" if name == "tf32" else name


@lru_cache(maxsize=4096)
def _operand_types(recorded: str) -> tuple[str, ...]:
    """The operand types in a JSON list of recorded types, narrowest first."""
    try:
        listed = json.loads(recorded)
    except ValueError:
        return ()
    entries: list[Any] = []
    for entry in listed if isinstance(listed, list) else []:
        entries += entry if isinstance(entry, list) else [entry]
    found = {element_type(entry) for entry in entries if isinstance(entry, str)}
    known = {one[0] for one in found if one}
    return tuple(name for name in _OPERAND_TYPES if name in known)


def _route(see: See) -> Texts:
    routes = []
    for mark, *operators in zip(
        see.text("name_route"), see.text("operator_path"), see.text("operator"), strict=True
    ):
        unfused = any(isinstance(one, str) and _UNFUSED_ATTENTION in one for one in operators)
        word = "the unfused attention backend" if unfused else ""
        routes.append(mark if isinstance(mark, str) else word)
    return np.array(routes, dtype=object)


def _ratio(part: Reals, whole: Reals) -> Reals:
    return np.asarray(np.where(whole > 0, part / whole, np.nan))


_LOADS = ("load_bytes_per_sector", "load_sectors_per_request")
_STORES = ("store_bytes_per_sector", "store_sectors_per_request")

TABLE: tuple[Derived, ...] = (
    Derived("issue_active_ceiling",
            ("issue_active", "issue_slots_busy_pct", "sm_throughput_pct", "wave_issuing",
             "warps_active"),
            _issue_active_ceiling,
            "inst/cycle", "issue_active, else issue slots busy, else SM throughput, which it cannot "
            "exceed, else by samples"),
    Derived("global_sectors_excess_pct", ("global_sectors", "global_sectors_ideal"),
            _sectors_excess_pct,
            "%", "sectors that global accesses move beyond what they need", "sectors needed"),
    Derived("global_sectors_wasted_pct",
            ("global_sectors", "global_sectors_ideal", "global_load_sectors",
             "global_store_sectors", *_LOADS, *_STORES),
            _sectors_wasted_pct,
            "%", "moved bytes that no thread asked for: by sectors, else of loads, else of stores",
            "bytes moved"),
    Derived("load_wasted_pct", _LOADS, lambda see: 100 * _wasted("load", see),
            "%", "bytes that global loads move and no thread asked for", "bytes loaded"),
    Derived("store_wasted_pct", _STORES, lambda see: 100 * _wasted("store", see),
            "%", "bytes of the sectors that global stores touch and no thread wrote",
            "bytes stored"),
    Derived("local_requests",
            ("spill_requests", "local_load_instructions", "local_store_instructions"),
            _local_requests,
            "request", "spill_requests, else local loads and stores"),
    Derived("atomic_requests_pct", ("atomic_requests", "l2_bytes"), _atomic_requests_pct,
            "%", "atomic and reduction requests, a sector each at least", "L2 sectors"),
    Derived("shared_conflict_pct", ("shared_wavefronts", "shared_conflicts", "shared_requests"),
            _shared_conflict_pct,
            "%", "shared-memory wavefronts caused by bank conflicts: of those counted, else of "
            "requests and conflicts", "wavefronts"),
    Derived("shared_wavefronts_per_request",
            ("shared_wavefronts", "shared_conflicts", "shared_requests"),
            lambda see: _ratio(_shared_wavefronts(see), see("shared_requests")),
            "wavefront/request", "shared-memory wavefronts per request"),
    Derived("shared_conflict_time_pct",
            ("shared_conflicts", "sm_count", "sm_clock_hz", "duration_ns"),
            _shared_conflict_time_pct,
            "%", "cycles in which the shared-memory path serves bank conflicts, at the boost clock "
            "where none was measured", "cycles of all multiprocessors"),
    Derived("shared_atomic_wavefronts_per_request",
            ("shared_atomic_wavefronts", "shared_atomic_requests"),
            lambda see: _ratio(see("shared_atomic_wavefronts"), see("shared_atomic_requests")),
            "wavefront/request", "wavefronts of an atomic on shared memory"),
    Derived("flops_over_model", ("flops", "model_flops"),
            lambda see: _ratio(see("flops"), see("model_flops")),
            "", "operations counted over those that the operator's shapes need"),
    Derived("pipe_tensor_use_pct", ("tensor_pct", "name_tensor_core"), _tensor_use_pct,
            "%", "tensor_pct, else 0 where the name marks a kernel without tensor cores",
            "peak of the tensor cores"),
    Derived("pipe_fp32_use_pct", ("pipe_fma_pct", "pipe_valu_pct"), _fp32_use_pct,
            "%", "pipe that runs FP32 arithmetic: FMA pipe, on AMD the VALU", "peak of the pipe"),
    Derived("pipe_fp64_use_pct", ("pipe_fp64_pct", "fp64_rate_pct"), _fp64_use_pct,
            "%", "FP64 pipe, on AMD FP64 operations over time and peak", "peak of the pipe"),
    Derived("operand_dtype", ("input_dtypes", "tensor_dtype", "name_dtype", "flop_dtype"),
            _operand_dtype,
            "", "narrowest operand type: the framework's, else of tensor operations, the name, most "
            "operations", source="name", text=True),
    Derived("declared_dtype", ("input_dtypes", "name_dtype", "name_fp64"), _declared_dtype,
            "", "widest type that the framework declares for the operands, else in the name",
            source="name", text=True),
    Derived("tensor_speedup", ("operand_dtype",), _tensor_speedup,
            "", "device peak of operand_dtype on tensor cores over FP32", source="device"),
    Derived("least_capability", ("name_capability",), _least_capability,
            "", "NVIDIA compute capability; without a device the least that the kernels' names need",
            source="name"),
    Derived("half_speedup", ("operand_dtype", "name_tensor_core", "least_capability"),
            _half_speedup,
            "", "device peak of half_dtype over that of the units that FP32 operands use, by name",
            source="device"),
    Derived("half_dtype", ("half_speedup", "least_capability"), _half_dtype,
            "", "16-bit type that FP32 operands could have on this device: bf16, or fp16 without it",
            source="name", text=True),
    Derived("route", ("name_route", "operator_path", "operator"), _route,
            "", "generic implementation that name or operator marks, empty where none",
            source="name", text=True),
)  # fmt: skip
