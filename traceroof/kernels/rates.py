"""What a group's launches did per second, by counters and by the operator's model, and the peaks
of the device that this is held against."""

from typing import Any

import numpy as np
import numpy.typing as npt

from traceroof.hardware.roofline import T_FLOOR_NS
from traceroof.kernels.derived import (
    Derived,
    Reals,
    See,
    Texts,
    amd,
    first_known,
    of_device,
    product,
    seconds,
)

_BLOCK_LIMITS = tuple(
    f"occupancy_limit_{one}"
    for one in ("blocks", "registers", "shared_memory", "warps", "barriers")
)

_FLOP_UNITS = ("fp64", "fp32", "fp16", "tensor")
_WORK = tuple(f"flop_{unit}" for unit in _FLOP_UNITS)
_RATES = tuple(f"rate_{unit}_flops_per_s" for unit in ("fp64", "fp32", "fp16"))
_REPORTED = tuple(f"peak_{unit}_flops_per_s" for unit in _FLOP_UNITS)
# No probe measures plain half arithmetic.
_CALIBRATED = tuple(f"calibrated_{unit}_flops_per_s" for unit in ("fp64", "fp32", "tensor"))
_COUNTED = (*_WORK, *_RATES, *_REPORTED, "tensor_dtype", "duration_ns")

# What shows that tensor cores worked.
_TENSOR = ("pipe_tensor_pct", "name_tensor_core")

# FP32 products of matrix units have a rate of their own.
_MATRIX_ROWS = {"fp32": "fp32_tensor"}

# What a tensor kernel could be cast to, best first; a device has the first that its row names.
_NARROWER = {
    "tf32": ("bf16", "fp16"),
    "bf16": ("fp8", "int8"),
    "fp16": ("fp8", "int8"),
    "fp8": ("fp4",),
    "int8": ("fp4",),
}


def _warp_size(see: See) -> Reals:
    # AMD's wavefronts have 32 or 64 lanes: there only the file or the device can say it.
    of_others = np.where(amd(see), np.nan, 32.0)
    return first_known(see("warp_size"), see.device("warp_size"), of_others)


def _waves(see: See) -> Reals:
    blocks, sm_count = see("blocks"), see("sm_count")
    limits = np.stack([see(limit) for limit in _BLOCK_LIMITS])
    resident = np.fmin.reduce(np.where(limits > 0, limits, np.nan), axis=0)
    # Fewer blocks than multiprocessors: at most this share of a wave, whatever the limits are.
    part = np.where(blocks < sm_count, blocks / sm_count, np.nan)
    return first_known(see("waves_per_sm"), blocks / (sm_count * resident), part)


def _dram_bytes(see: See) -> Reals:
    return first_known(see("dram_bytes"), see("dram_read_bytes") + see("dram_write_bytes"))


def _flops(see: See) -> Reals:
    work = _work(see)
    known = (~np.isnan(work)).any(axis=0) & ~_misses_tensor_work(see)
    return np.where(known, np.nansum(work, axis=0), np.nan)


# Of a kernel on tensor cores, a pipe that is used less than this did no work to speak of.
_USED_PCT = 1.0


def _misses_tensor_work(see: See) -> npt.NDArray[np.bool_]:
    """Kernels on tensor cores whose operations there nobody counted: the others are a small part."""
    used = (see("name_tensor_core") == 1) | (see("pipe_tensor_pct") >= _USED_PCT)
    idle = see("pipe_tensor_pct") < _USED_PCT
    return np.asarray(np.isnan(see("flop_tensor")) & used & ~idle)


def _flop_pct(see: See) -> Reals:
    known = np.fmax.reduce(_use(see), axis=0)
    return np.where(_misses_tensor_work(see), np.nan, known)


def _work(see: See) -> Reals:
    return np.stack([see(name) for name in _WORK])


def _per_second(see: See) -> Reals:
    """The rate of each unit: work over time, else the report's own."""
    none = np.full(see.count, np.nan)
    reported = np.stack([*(see(name) for name in _RATES), none])
    return first_known(_work(see) / seconds(see), reported)


def _tensor_rows(see: See) -> Texts:
    """Key of the device table for the element type of tensor operations: fp8_e4m3 is fp8."""
    dtypes = see.text("tensor_dtype").tolist()
    rows = {one: _tensor_row(one) for one in set(dtypes)}
    return np.array([rows[one] for one in dtypes], dtype=object)


def _tensor_row(dtype: Any) -> str | None:
    if not isinstance(dtype, str):
        return None
    name = dtype.split("_")[0]
    return "fp64_tensor" if name == "fp64" else name


def _peaks(see: See) -> Reals:
    """Peak rate of each unit: the report's, else the device's."""
    tensor = _tensor_rows(see)
    of_tensor = np.full(see.count, np.nan)
    for name in {value for value in tensor if value}:
        here = tensor == name
        of_tensor[here] = see.device(f"peak_{name}")[here]
    # The device table's fp16 is the tensor rate: no peak for plain half arithmetic.
    none = np.full(see.count, np.nan)
    nominal = (see.device("peak_fp64"), see.device("peak_fp32"), none, of_tensor)
    reported = [see(name) for name in _REPORTED]
    return np.stack([first_known(*pair) for pair in zip(reported, nominal, strict=True)])


def _use(see: See) -> Reals:
    """Use of each unit, percent of its peak."""
    return _per_second(see) / _peaks(see) * 100


def _nearest(see: See) -> npt.NDArray[np.intp]:
    """The unit nearest to its peak."""
    return np.asarray(np.argmax(np.nan_to_num(_use(see), nan=-1.0), axis=0))


def _most(see: See) -> npt.NDArray[np.intp]:
    """The unit with most of the operations."""
    work = _work(see)
    work = np.where(np.isnan(work).all(axis=0), _per_second(see), work)
    return np.asarray(np.argmax(np.where(~np.isnan(work), work, -1.0), axis=0))


def _works(see: See) -> npt.NDArray[np.bool_]:
    """Groups that are known to have operations."""
    return (see("flops") > 0) | (see("flops_per_s") > 0)


def _flops_per_s(see: See) -> Reals:
    rates = _per_second(see)
    known = (~np.isnan(rates)).any(axis=0) & ~_misses_tensor_work(see)
    by_report = np.where(known, np.nansum(rates, axis=0), np.nan)
    return first_known(see("flops") / seconds(see), by_report)


def _intensity(see: See) -> Reals:
    by_count = np.where(see("dram_bytes") > 0, see("flops") / see("dram_bytes"), np.nan)
    uncounted = np.isnan(see("dram_bytes")) & (see("dram_bytes_per_s") > 0)
    return first_known(
        by_count, np.where(uncounted, see("flops_per_s") / see("dram_bytes_per_s"), np.nan)
    )


def _of(table: Reals, unit: npt.NDArray[np.intp]) -> Reals:
    return np.asarray(table[unit, np.arange(len(unit))])


def _flop_attainable(see: See) -> Reals:
    fp64, fp32, tensor = (see(name) for name in _CALIBRATED)
    measured = np.stack([fp64, fp32, np.full(see.count, np.nan), tensor]) / _peaks(see)
    return _of(measured, _nearest(see))


def _narrower_speedup(see: See) -> Reals:
    tensor = _tensor_rows(see)
    none = np.full(see.count, np.nan)
    result = none.copy()
    for name in {value for value in tensor if value}:
        here = tensor == name
        narrower = first_known(none, *(see.device(f"peak_{to}") for to in _NARROWER.get(name, ())))
        result[here] = (narrower / see.device(f"peak_{name}"))[here]
    return result


_TENSOR_CORES_SINCE = 7.0


def _tensor_ceiling_pct(see: See) -> Reals:
    # BF16 and TF32 have no other accumulator.
    wide = np.isin(see.text("tensor_dtype").astype(str), ("bf16", "tf32"))
    wide |= see.text("name_accumulates") == "fp32"
    half = see.device("tensor_half_rate")
    known = np.where(half == 1, 50.0, 100.0)
    # Of a card without a name nobody knows; AMD's and those without tensor cores have no such rate.
    unknown = np.isnan(half) & (see.device("compute_capability") >= _TENSOR_CORES_SINCE)
    return np.where(wide, np.where(unknown, np.nan, known), 100.0)


def _tensor_pct(see: See) -> Reals:
    ceiling = np.nan_to_num(see("tensor_ceiling_pct"), nan=100.0)
    by_pipe = np.fmin(100 * see("pipe_tensor_pct") / ceiling, 100.0)
    by_pipe = np.where(np.isnan(see("pipe_tensor_pct")), np.nan, by_pipe)
    return first_known(by_pipe, _use(see)[3])


def _flop_dtype(see: See) -> Texts:
    names = np.array([*_FLOP_UNITS[:3], None], dtype=object)
    most = _most(see)
    dtype: Texts = names[most]
    dtype[most == 3] = see.text("tensor_dtype")[most == 3]
    dtype[~_works(see)] = None
    return dtype


def _counted_roof(see: See) -> Texts:
    """What flop_pct is held against: a row of the device's rates."""
    nearest = _nearest(see)
    rows: Texts = np.array(["fp64", "fp32", None, None], dtype=object)[nearest]
    of_tensor = np.array([_MATRIX_ROWS.get(one, one) for one in _tensor_rows(see)], dtype=object)
    rows[nearest == 3] = of_tensor[nearest == 3]
    return rows


# -------------------------------------------------------------------------- the operator's model

_MODEL_ROOF = ("model_dtype", "model_unit")


def _model_dtype(see: See) -> Texts:
    """Element type of the modelled arithmetic; FP32 products run in TF32 where units do that."""
    dtype = see.text("model_dtype").copy()
    tf32 = (dtype == "fp32") & (see.text("model_unit") == "tensor")
    tf32 &= (see("model_on_tensor_cores") == 1) & ~np.isnan(see.device("peak_tf32"))
    dtype[tf32] = "tf32"
    return dtype


def _model_roof(see: See) -> tuple[Texts, Reals]:
    """Row of the device's rates that the modelled work is held against, and its figure."""
    dtype, vector = see.text("model_dtype"), see.text("model_unit") == "vector"
    peak = np.full(see.count, np.nan)
    roof: Texts = np.full(see.count, None, dtype=object)
    for name in {value for value in dtype if value}:
        here = dtype == name
        # FP64 and FP32 have a matrix rate of their own where the units are made for them.
        own = see.device(f"peak_{name}_tensor")
        matrix = first_known(own, see.device(f"peak_{name}"))
        peak[here & ~vector] = matrix[here & ~vector]
        rows = np.where(np.isnan(own), name, f"{name}_tensor")
        roof[here & ~vector] = rows[here & ~vector]
        # Plain arithmetic of narrow types runs in the FP32 units at no less than their rate.
        wide = "fp64" if name == "fp64" else "fp32"
        peak[here & vector] = see.device(f"peak_{wide}")[here & vector]
        roof[here & vector] = wide
    return roof, peak


def _roof_dtype(see: See) -> Texts:
    counted = ~np.isnan(see("flop_pct"))
    return np.where(counted, _counted_roof(see), _model_roof(see)[0])


def _roof_flops_per_s(see: See) -> Reals:
    counted = ~np.isnan(see("flop_pct"))
    return np.where(counted, _of(_peaks(see), _nearest(see)), _model_roof(see)[1])


def _model_peak(see: See) -> Reals:
    return _model_roof(see)[1]


def _t_min_ns(see: See) -> Reals:
    flops, peak = see("model_flops"), _model_peak(see)
    by_bytes = see("model_bytes") / see.device("dram_peak")
    by_roof = np.fmax(flops / peak, by_bytes) * 1e9
    # Both roofs, or the bytes of work without arithmetic: one alone could be the lower one.
    complete = ~np.isnan(by_bytes) & (~np.isnan(flops / peak) | (flops == 0))
    return np.where(complete, np.maximum(by_roof, T_FLOOR_NS), np.nan)


TABLE: tuple[Derived, ...] = (
    Derived("blocks", ("grid_x", "grid_y", "grid_z"), product("grid_x", "grid_y", "grid_z"),
            "block", "thread blocks of the grid", source="launch"),
    Derived("threads_per_block", ("block_x", "block_y", "block_z"),
            product("block_x", "block_y", "block_z"),
            "thread", "threads of a block", source="launch"),
    of_device("compute_capability", "NVIDIA compute capability"),
    of_device("tf32_speedup", "device peak of TF32 over FP32"),
    of_device("fp64_ratio", "device peak of FP64 over FP32"),
    of_device("l2_cache_bytes", "size of the device's second-level cache", "byte"),
    of_device("last_cache_bytes", "size at most of the device's last cache before DRAM", "byte"),
    of_device("int8_speedup", "device peak of INT8 over 16 bit"),
    of_device("fp8_over_int8", "device peak of FP8 over INT8"),
    Derived("vendor", (), See.vendors,
            "", "whose GPU it is: nvidia, amd or hygon", source="device", text=True),
    Derived("warp_size", ("warp_size",), _warp_size),
    Derived("sm_count", ("sm_count",),
            lambda see: first_known(see("sm_count"), see.device("sm_count"))),
    Derived("waves", ("blocks", "sm_count", "waves_per_sm", *_BLOCK_LIMITS), _waves,
            "", "blocks over those that fit at once: the report's, else by limits or SMs",
            source="launch"),
    Derived("dram_bytes", ("dram_bytes", "dram_read_bytes", "dram_write_bytes"), _dram_bytes),
    Derived("dram_bytes_per_s", ("dram_bytes", "duration_ns", "rate_dram_bytes_per_s"),
            lambda see: first_known(see("dram_bytes") / seconds(see), see("rate_dram_bytes_per_s")),
            "byte/s", "measured DRAM bytes over time, else the report's own rate"),
    Derived("dram_peak_bytes_per_s", ("peak_dram_bytes_per_s",),
            lambda see: first_known(see("peak_dram_bytes_per_s"), see.device("dram_peak")),
            "byte/s", "DRAM peak: the report's, else the device's", source="device"),
    Derived("dram_attainable", ("calibrated_dram_bytes_per_s", "dram_peak_bytes_per_s"),
            lambda see: see("calibrated_dram_bytes_per_s") / see("dram_peak_bytes_per_s"),
            "", "DRAM rate measured on this device over its peak", "nominal peak"),
    Derived("flops", (*_WORK, *_TENSOR), _flops,
            "FLOP", "measured operations of one launch, all precisions"),
    Derived("flops_per_s", ("flops", *_WORK, *_RATES, *_TENSOR, "duration_ns"), _flops_per_s,
            "FLOP/s", "measured operations over time, else the report's own rate"),
    Derived("narrower_speedup", ("tensor_dtype",), _narrower_speedup,
            "", "device peak of the next narrower tensor type over tensor_dtype's",
            source="device"),
    Derived("flop_pct", (*_COUNTED, *_TENSOR), _flop_pct,
            "%", "operations over time and peak, of the precision nearest its peak",
            "peak FLOP rate"),
    Derived("fp64_rate_pct", _COUNTED, lambda see: _use(see)[0],
            "%", "FP64 operations over time and peak", "peak FLOP rate"),
    Derived("flop_attainable", (*_COUNTED, *_CALIBRATED), _flop_attainable,
            "", "FLOP rate measured on this device over its peak, of the precision of flop_pct",
            "nominal peak"),
    Derived("tensor_ceiling_pct", ("tensor_dtype", "name_accumulates"), _tensor_ceiling_pct,
            "%", "what the tensor pipe's counter shows at most: half on GeForce where products add up "
            "in FP32", "counter of the tensor pipe", source="device"),
    Derived("tensor_pct", (*_COUNTED, "pipe_tensor_pct", "tensor_ceiling_pct"), _tensor_pct,
            "%", "tensor-core use: their pipe, else operations over time and peak",
            "peak of the tensor cores"),
    Derived("flop_dtype",
            (*_WORK, *_RATES, "tensor_dtype", "duration_ns", "flops", "flops_per_s"), _flop_dtype,
            "", "precision of most of the operations", source="name", text=True),
    Derived("flop_peak_per_s", (*_COUNTED, "flops", "flops_per_s"),
            lambda see: np.where(_works(see), _of(_peaks(see), _most(see)), np.nan),
            "FLOP/s", "peak of that precision: the report's, else the device's", source="device"),
    Derived("intensity", ("flops", "dram_bytes", "flops_per_s", "dram_bytes_per_s"), _intensity,
            "FLOP/byte", "operations per DRAM byte, measured"),
    Derived("model_dtype", (*_MODEL_ROOF, "model_on_tensor_cores"), _model_dtype,
            "", "element type of the modelled arithmetic", source="name", text=True),
    Derived("roof_dtype", (*_COUNTED, *_MODEL_ROOF, "flop_pct"), _roof_dtype,
            "", "row of the device's rates that the FLOP rate is held against",
            source="name", text=True),
    Derived("roof_flops_per_s", (*_COUNTED, *_MODEL_ROOF, "flop_pct"), _roof_flops_per_s,
            "FLOP/s", "peak that the FLOP rate is held against"),
    Derived("model_intensity", ("model_flops", "model_bytes"),
            lambda see: see("model_flops") / see("model_bytes"),
            "FLOP/byte", "modelled operations per modelled byte", source="model"),
    Derived("model_ridge", _MODEL_ROOF,
            lambda see: _model_peak(see) / see.device("dram_peak"),
            "FLOP/byte", "nominal peak of model_dtype over nominal bandwidth", source="model"),
    Derived("model_flop_pct", (*_MODEL_ROOF, "model_flops", "duration_ns"),
            lambda see: see("model_flops") / seconds(see) / _model_peak(see) * 100,
            "%", "modelled operations over time and nominal peak", "nominal peak", "model"),
    Derived("model_dram_pct", ("model_bytes", "duration_ns"),
            lambda see: see("model_bytes") / seconds(see) / see.device("dram_peak") * 100,
            "%", "modelled bytes over time and nominal bandwidth", "nominal peak", "model"),
    Derived("t_min_ns", (*_MODEL_ROOF, "model_flops", "model_bytes"), _t_min_ns,
            "ns", "least time of one launch at nominal peaks, 2 µs at least", source="model"),
    Derived("roof_pct", ("t_min_ns", "duration_ns"),
            lambda see: see("t_min_ns") / (seconds(see) * 1e9) * 100,
            "%", "least time at nominal peaks over the time taken", "nominal peak", "model"),
    Derived("traffic_ratio", ("dram_bytes", "model_bytes"),
            lambda see: see("dram_bytes") / see("model_bytes"),
            "", "measured DRAM bytes over modelled bytes", source="model"),
)  # fmt: skip
