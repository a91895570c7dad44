"""Clocks, power and temperature of GPUs, recorded beside a profile: context, never kernel time."""

import pyarrow as pa
import pyarrow.compute as pc

from traceroof.core.kernel_table import TEXT

#: One row per sample and GPU; what was not recorded is null. ``time_ns`` is since the epoch;
#: ``local_time_ns`` is the same of a clock on the wall of unknown zone, read as if it were UTC; of a
#: tool that prints no date it is the time of day alone.
#: ``gpu`` is the tool's index. ``throttle_reasons`` are names with commas between, empty where none
#: was active, null where the log does not tell.
CLOCK_LOG: pa.Schema = pa.schema(
    [
        ("source", pa.int64()),
        ("time_ns", pa.int64()),
        ("local_time_ns", pa.int64()),
        ("gpu", pa.int64()),
        ("gpu_name", TEXT),
        ("sm_clock_hz", pa.float64()),
        ("memory_clock_hz", pa.float64()),
        ("power_w", pa.float64()),
        ("temperature_c", pa.float64()),
        ("utilisation_pct", pa.float64()),
        ("throttle_reasons", TEXT),
    ]
)

#: Bits of NVIDIA's clock event mask. Source: nvml.h, nvmlClocksEventReason*.
NVIDIA_REASONS = {
    0x1: "gpu_idle",
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
IDLE = "gpu_idle"
#: Reasons by which a limit of power or temperature holds the clock down. That the GPU has nothing to
#: do, or that somebody set its clock, is none.
LIMITS = frozenset(
    {
        "sw_power_cap", "hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown",
        "hw_power_brake_slowdown", "power", "temperature",
    }
)  # fmt: skip

#: Times of a timeline that lie between these are since the epoch (2000 to 2100, UTC, ns); what
#: counts from the start of a machine or of a recording is decades below.
_EPOCH_NS = (946_684_800 * 10**9, 4_102_444_800 * 10**9)


def utc_window(kernels: pa.Table) -> tuple[int, int] | None:
    """From the first start to the last end of a kernel table's rows, ns since the epoch; None where
    its times tell no date."""
    starts = kernels["start_ns"]
    first = pc.min(starts).as_py()
    last = pc.max(pc.add(starts, pc.fill_null(kernels["duration_ns"], 0))).as_py()
    if first is None or not _EPOCH_NS[0] <= first <= last <= _EPOCH_NS[1]:
        return None
    return first, last
