"""What follows from a kernel group's counters and names: access patterns, operand types, route.

Adds to the columns of a group what ``groups.GROUP_COLUMNS`` lists under the same names.
"""

import json
from collections.abc import Callable, Mapping
from functools import lru_cache, reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from traceroof.hardware.devices import AMD
from traceroof.operators.operands import element_type

Reals = npt.NDArray[np.float64]
Columns = dict[str, npt.NDArray[Any]]

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


def derive(columns: Columns, count: int, of_device: Callable[[str], Reals]) -> None:
    """Add the traits of ``count`` groups. of_device: a figure of each group's device by name."""
    missing = np.full(count, np.nan)

    def get(name: str) -> Reals:
        return np.asarray(columns.get(name, missing), dtype=np.float64)

    with np.errstate(divide="ignore", invalid="ignore"):
        _derive_accesses(columns, get)
        _derive_operands(columns, count, of_device)
    columns["route"] = _routes(columns, count)


def _derive_accesses(columns: Columns, get: Callable[[str], Reals]) -> None:
    # SM throughput is the busiest of several units, issue slots among them: a ceiling.
    columns["issue_active_ceiling"] = _first_known(
        get("issue_active"),
        get("issue_slots_busy_pct") / 100,
        get("sm_throughput_pct") / 100,
        # PC samples: how many of the resident warps issue.
        np.minimum(get("wave_issuing") * get("warps_active"), 1),
    )
    moved, needed = get("global_sectors"), get("global_sectors_ideal")
    moved, needed = (np.where((moved > 0) & (needed > 0), one, np.nan) for one in (moved, needed))
    columns["global_sectors_excess_pct"] = (moved / needed - 1) * 100
    loads, stores = _wasted("load", get), _wasted("store", get)
    columns["load_wasted_pct"], columns["store_wasted_pct"] = 100 * loads, 100 * stores
    of_loads, of_stores = get("global_load_sectors"), get("global_store_sectors")
    both = (loads * of_loads + stores * of_stores) / (of_loads + of_stores)
    columns["global_sectors_wasted_pct"] = 100 * _first_known(
        1 - needed / moved, both, loads, stores
    )
    columns["local_requests"] = _first_known(
        get("spill_requests"), get("local_load_instructions") + get("local_store_instructions")
    )
    # AMD's L2 takes requests of up to 64 bytes, NVIDIA's sectors of 32.
    amd = np.array([vendor in AMD for vendor in columns["vendor"]], dtype=bool)
    of_l2 = get("l2_bytes") / np.where(amd, _AMD_REQUEST_BYTES, _SECTOR_BYTES)
    columns["atomic_requests_pct"] = 100 * _ratio(get("atomic_requests"), of_l2)
    wavefronts = get("shared_wavefronts")
    conflicts = 100 * _ratio(get("shared_conflicts"), wavefronts)
    columns["shared_conflict_pct"] = np.where(wavefronts == 0, 0.0, conflicts)
    columns["shared_wavefronts_per_request"] = _ratio(wavefronts, get("shared_requests"))
    columns["pipe_tensor_use_pct"] = _first_known(
        get("tensor_pct"), np.where(get("name_tensor_core") == 0, 0.0, np.nan)
    )
    # On AMD one unit runs every type; how much of it FP64 takes only its operations tell.
    vector = np.where(amd, get("pipe_valu_pct"), np.nan)
    columns["pipe_fp32_use_pct"] = _first_known(get("pipe_fma_pct"), vector)
    columns["pipe_fp64_use_pct"] = _first_known(
        get("pipe_fp64_pct"), np.where(amd, get("fp64_rate_pct"), np.nan)
    )


def _wasted(what: str, get: Callable[[str], Reals]) -> Reals:
    """Share of the sectors' bytes that no thread asked for, of loads or stores.

    One sector a request or less is one word for all threads, or of one thread: nothing to merge.
    Without the bytes used, sectors beyond those of the widest access are certain waste.
    """
    used, sectors = get(f"{what}_bytes_per_sector"), get(f"{what}_sectors_per_request")
    by_bytes = np.where(sectors < _FEW_SECTORS, 0.0, 1 - used / _SECTOR_BYTES)
    by_request = np.maximum(1 - _WIDEST_SECTORS / sectors, 0.0)
    certain = np.where((by_request > 0) | (sectors <= _SCALAR_SECTORS), by_request, np.nan)
    return _first_known(by_bytes, certain)


def _derive_operands(columns: Columns, count: int, of_device: Callable[[str], Reals]) -> None:
    """Element types of the operands, and what tensor cores are worth for them."""
    missing = np.full(count, None, dtype=object)
    narrowest, widest = [], []
    for recorded, tensor, name, name_fp64, flop in zip(
        columns.get("input_dtypes", missing),
        columns.get("tensor_dtype", missing),
        columns.get("name_dtype", missing),
        columns.get("name_fp64", missing),
        columns.get("flop_dtype", missing),
        strict=True,
    ):
        types = _operand_types(recorded) if isinstance(recorded, str) else ()
        # Counters of plain arithmetic see only the epilogue of a tensor kernel, so they come last.
        least = (*types[:1], _in_memory(tensor), name, _in_memory(flop))
        narrowest.append(next((one for one in least if one), None))
        widest.append(types[-1] if types else "fp64" if name_fp64 == 1 else name)
    columns["operand_dtype"] = np.array(narrowest, dtype=object)
    columns["declared_dtype"] = np.array(widest, dtype=object)
    speedup = np.full(count, np.nan)
    for dtype in {one for one in narrowest if one}:
        here = columns["operand_dtype"] == dtype
        key = {"fp32": "tf32", "fp64": "fp64_tensor"}.get(dtype, dtype)
        speedup[here] = (of_device(f"peak_{key}") / of_device("peak_fp32"))[here]
    columns["tensor_speedup"] = speedup
    _derive_half(columns, count, of_device)


def _derive_half(columns: Columns, count: int, of_device: Callable[[str], Reals]) -> None:
    """What 16 bits are worth where operands are FP32: the peak of the device's 16-bit type over that
    of the units which the name marks: tensor cores in TF32 (matrix cores in FP32), else vector."""
    bf16 = of_device("peak_bf16")
    half = _first_known(bf16, of_device("peak_fp16"))
    fp32 = columns["operand_dtype"] == "fp32"
    vector = of_device("peak_fp32")
    matrix = _first_known(of_device("peak_tf32"), of_device("peak_fp32_tensor"), vector)
    on_matrix = np.asarray(columns.get("name_tensor_core", np.full(count, np.nan))) == 1
    columns["half_speedup"] = np.where(fp32, half / np.where(on_matrix, matrix, vector), np.nan)
    columns["half_dtype"] = np.where(np.isnan(bf16), "fp16", "bf16").astype(object)
    columns["half_dtype"][np.isnan(columns["half_speedup"])] = None


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


def _routes(columns: Mapping[str, npt.NDArray[Any]], count: int) -> npt.NDArray[np.object_]:
    missing = np.full(count, None, dtype=object)
    marked, path, operator = (
        columns.get(name, missing) for name in ("name_route", "operator_path", "operator")
    )
    routes = []
    for mark, *operators in zip(marked, path, operator, strict=True):
        unfused = any(isinstance(one, str) and _UNFUSED_ATTENTION in one for one in operators)
        word = "the unfused attention backend" if unfused else ""
        routes.append(mark if isinstance(mark, str) else word)
    return np.array(routes, dtype=object)


def _first_known(*choices: Reals) -> Reals:
    return reduce(lambda first, other: np.where(np.isnan(first), other, first), choices)


def _ratio(part: Reals, whole: Reals) -> Reals:
    return np.asarray(np.where(whole > 0, part / whole, np.nan))
