"""The ceilings of a run in one line, for the foot of a report."""

from collections.abc import Mapping

import numpy as np

from traceroof.core.facts import Facts
from traceroof.core.units import digits, quantity
from traceroof.hardware.ceilings import BANDWIDTHS, COLUMNS, by_flop_rate
from traceroof.hardware.roofline import DEFAULT_BANDWIDTH_SHARE, DEFAULT_FLOPS_SHARE


def describe(facts: Facts) -> str:
    """What the two figures of a saving stand for, in one line."""
    see = facts.only(COLUMNS)
    memory, compute = _memory(see), _compute(see)
    if memory.endswith(_ASSUMED) and compute.endswith(_ASSUMED):
        both = f"{memory.removesuffix(_ASSUMED)} and {compute.removesuffix(_ASSUMED)}"
        if _ELSEWHERE not in both:
            return f"at most: nominal dense peaks; likely: {both}, both assumed"
    return f"at most: nominal dense peaks; likely: {memory} and {compute}"


_ASSUMED = " (assumed)"
_ELSEWHERE = ", elsewhere "


#: How each origin of a rate is said.
_SAID: Mapping[str, str] = {"calibrated": "as calibrated", "published": "as published for it"}


def _memory(see: Facts) -> str:
    assumed = f"{_percent(DEFAULT_BANDWIDTH_SHARE)} of nominal bandwidth{_ASSUMED}"
    known = ~np.isnan(see.dram_attainable)
    elsewhere = np.isin(see.dram_from, list(_SAID))
    measured = known & ~elsewhere
    parts = []
    if measured.any():
        rate = quantity(float(np.median(see.calibrated_dram_bytes_per_s[measured])), "byte/s")
        share = _percent(float(np.median(see.dram_attainable[measured])))
        parts.append(f"{rate} of DRAM as measured on this device ({share} of nominal)")
    rates = see.dram_attainable * see.dram_peak_bytes_per_s
    for origin, words in _SAID.items():
        listed = [
            f"{name} {quantity(float(np.median(rates[here])), 'byte/s')}, "
            f"{_percent(float(np.median(see.dram_attainable[here])))} of nominal"
            for name in BANDWIDTHS
            if (here := known & (see.dram_from == origin) & (see.dram_ceiling == name)).any()
        ]
        if listed:
            parts.append(f"bandwidth {words} ({'; '.join(listed)})")
    if parts and not known.all():
        parts[-1] += f"{_ELSEWHERE}{assumed}"
    return " and ".join(parts) or assumed


def _compute(see: Facts) -> str:
    assumed = f"{_percent(DEFAULT_FLOPS_SHARE)} of nominal FLOP rate{_ASSUMED}"
    known = by_flop_rate(see)
    parts = []
    if (known & ~np.isin(see.flop_from, list(_SAID))).any():
        parts.append("FLOP rates as measured on this device")
    rates = see.flop_attainable * see.roof_flops_per_s
    for origin, words in _SAID.items():
        here = known & (see.flop_from == origin)
        listed = [
            f"{name} {quantity(float(np.median(rates[here & (see.roof_dtype == name)])), 'FLOP/s')}"
            for name in sorted({str(one) for one in see.roof_dtype[here]})
        ]
        if listed:
            parts.append(f"FLOP rates {words} ({'; '.join(listed)})")
    if parts and not known.all():
        parts[-1] += f"{_ELSEWHERE}{assumed}"
    return " and ".join(parts) or assumed


def _percent(share: float) -> str:
    return f"{digits(round(share * 100, 1))} %"
