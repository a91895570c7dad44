"""The roofline: how fast a kernel can run on a device, from its work and the device's ceilings.

Pure arithmetic. Units are FLOP (OP for int8), byte, second and nanosecond; rates are per second.
A quantity that is not known is None, and every result that would need it is None: a number that is
negative, infinite or not a number counts as unknown, because counters and converters write such
things for "not collected".

Source: S. Williams, A. Waterman, D. Patterson, "Roofline: An Insightful Visual Performance Model
for Multicore Architectures", Communications of the ACM 52(4), 2009.
"""

import math
from dataclasses import dataclass
from typing import Literal

#: Which ceilings a roofline was drawn with, and whether its bytes were measured or modelled.
CeilingBasis = Literal["report", "device-table", "calibrated"]
TrafficBasis = Literal["measured", "model"]

#: Share of the nominal bandwidth that a large kernel reaches. Source: RRZE-HPC/gpu-benches,
#: gpu-stream (1038c5d, 2025-02), read and write in equal parts: 75 % (MI300X) to 94 % (A40) over
#: nine GPUs, 85 % on A100 80 GB.
DEFAULT_BANDWIDTH_SHARE = 0.85

#: Share of the nominal dense rate that a large GEMM reaches. Source: the MAMF finder of
#: github.com/stas00/ml-engineering (2026-08): 73 % (GB200) to 87 % (A100 SXM), 80 % on H100 SXM.
DEFAULT_FLOPS_SHARE = 0.80

#: Time that the GPU spends on a kernel with no work, back to back. Source: fit T = a + V/b of
#: RRZE-HPC/gpu-benches, gpu-small-kernels: 1.6 us (L40) to 2.6 us (A100 80 GB).
T_FLOOR_NS = 2000.0

#: The least of them: no figure of what can be saved at most may rest on a longer one.
LEAST_LAUNCH_NS = 1600.0

_NS_PER_S = 1e9


def _known(value: float | None) -> float | None:
    """The value, or None unless it is a finite number that is not negative."""
    return float(value) if value is not None and math.isfinite(value) and value >= 0 else None


def _ratio(numerator: float | None, denominator: float | None) -> float | None:
    top, bottom = _known(numerator), _known(denominator)
    if top is None or not bottom:
        return None
    return _known(top / bottom)


def intensity(flops: float | None, bytes: float | None) -> float | None:
    """Arithmetic intensity I = FLOP / byte.

    None when no byte moved: such a kernel has no place on the roofline's axis.
    """
    return _ratio(flops, bytes)


def ridge(peak_flops_per_s: float | None, bandwidth_bytes_per_s: float | None) -> float | None:
    """Ridge point I* = P_peak / B, in FLOP / byte: below it bandwidth is the lower roof."""
    return _ratio(peak_flops_per_s, bandwidth_bytes_per_s)


def attainable(
    intensity: float | None,
    peak_flops_per_s: float | None,
    bandwidth_bytes_per_s: float | None,
) -> float | None:
    """Attainable rate P(I) = min(P_peak, B * I), in FLOP/s (Williams et al. 2009)."""
    position, peak = _known(intensity), _known(peak_flops_per_s)
    bandwidth = _known(bandwidth_bytes_per_s)
    if position is None or peak is None or bandwidth is None:
        return None
    return min(peak, bandwidth * position)


def t_min_ns(
    bytes: float | None,
    flops: float | None,
    bandwidth_bytes_per_s: float | None,
    peak_flops_per_s: float | None,
    floor_ns: float = T_FLOOR_NS,
) -> float | None:
    """The least time t_min = max(bytes / B, FLOP / P, floor) of one call, in nanoseconds.

    No work needs no ceiling: a copy (0 FLOP) has a t_min on a device whose FLOP rate is unknown.
    """
    memory_ns = _time_ns(bytes, bandwidth_bytes_per_s)
    compute_ns = _time_ns(flops, peak_flops_per_s)
    if memory_ns is None or compute_ns is None:
        return None
    return max(memory_ns, compute_ns, floor_ns)


def _time_ns(work: float | None, rate_per_s: float | None) -> float | None:
    amount = _known(work)
    if amount == 0:
        return 0.0
    seconds = _ratio(amount, rate_per_s)
    return _known(seconds * _NS_PER_S) if seconds is not None else None


def utilisation(t_min_ns: float | None, time_ns: float | None) -> float | None:
    """Share of the roof that was reached, u = t_min / t.

    Above 1 the ceiling, the work or the time is wrong; it is not clipped, so that this shows.
    """
    return _ratio(t_min_ns, time_ns)


@dataclass(frozen=True)
class Roofline:
    """One kernel's place on the roofline; per call, None where unknown."""

    flops: float | None
    bytes: float | None
    intensity: float | None  #: FLOP / byte
    ridge: float | None  #: FLOP / byte
    attainable_flops_per_s: float | None
    achieved_flops_per_s: float | None
    achieved_bytes_per_s: float | None
    t_min_ns: float | None
    utilisation: float | None  #: t_min / t, 0 to 1
    dtype: str | None
    peak_flops_per_s: float | None
    peak_bytes_per_s: float | None
    ceiling_basis: CeilingBasis
    traffic_basis: TrafficBasis


def roofline(
    *,
    flops: float | None,
    bytes: float | None,
    time_ns: float | None,
    peak_flops_per_s: float | None,
    peak_bytes_per_s: float | None,
    dtype: str | None,
    ceiling_basis: CeilingBasis,
    traffic_basis: TrafficBasis,
    floor_ns: float = T_FLOOR_NS,
) -> Roofline:
    """Place one call of a kernel on the roofline.

    flops, bytes: work of the call. time_ns: its time. peak_*: the ceilings, for ``dtype``.
    """
    position = intensity(flops, bytes)
    least = t_min_ns(bytes, flops, peak_bytes_per_s, peak_flops_per_s, floor_ns)
    return Roofline(
        flops=_known(flops),
        bytes=_known(bytes),
        intensity=position,
        ridge=ridge(peak_flops_per_s, peak_bytes_per_s),
        attainable_flops_per_s=attainable(position, peak_flops_per_s, peak_bytes_per_s),
        achieved_flops_per_s=_per_second(flops, time_ns),
        achieved_bytes_per_s=_per_second(bytes, time_ns),
        t_min_ns=least,
        utilisation=utilisation(least, time_ns),
        dtype=dtype,
        peak_flops_per_s=_known(peak_flops_per_s),
        peak_bytes_per_s=_known(peak_bytes_per_s),
        ceiling_basis=ceiling_basis,
        traffic_basis=traffic_basis,
    )


def _per_second(amount: float | None, time_ns: float | None) -> float | None:
    return _times(_ratio(amount, time_ns), _NS_PER_S)


def _times(value: float | None, factor: float) -> float | None:
    return _known(value * factor) if value is not None else None
