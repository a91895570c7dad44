"""The roofline of a kernel on its operator card, and where the ceilings come from."""

from collections.abc import Iterable, Mapping
from typing import Any

from traceroof.core.units import (
    digits,
    percent,
    quantity,
)
from traceroof.diagnosis.diagnosis import KernelGroup
from traceroof.report.run.card_lines import Line

_CEILINGS_FROM = {
    "report": "the report",
    "device-table": "the device table",
    "measured": "measured on this device",
    "calibrated": "calibrated",
    "published": "published for this GPU",
    "assumed": "assumed",
}
_SOURCE = {"measured": "counted", "model": "by its shapes"}


def roof_lines(kernel: KernelGroup) -> Iterable[Line]:
    roof, model = kernel.roofline, kernel.modelled_roofline
    if not roof:
        return
    yield from _work(kernel, roof, model)
    yield from _places(roof, model)
    yield from _reached(roof)
    yield from _least(kernel, roof, model)
    if roof["peak_flops_per_s"] or roof["peak_bytes_per_s"]:
        basis = _CEILINGS_FROM.get(roof["ceiling_basis"], roof["ceiling_basis"])
        yield Line("peaks from", basis)


def _work(
    kernel: KernelGroup, roof: Mapping[str, Any], model: Mapping[str, Any] | None
) -> Iterable[Line]:
    """Operations and bytes: counted, by the operator's shapes, and the ratio of the two."""
    measured = roof["traffic_basis"] == "measured"
    counted = roof if measured else None
    by_shapes = model if measured else roof
    for one, source in ((counted, _SOURCE["measured"]), (by_shapes, _SOURCE["model"])):
        if one and one["flops"] is not None:
            yield Line("operations", f"{quantity(one['flops'], 'FLOP')} ({source})")
    if counted and counted["bytes"] is not None:
        yield Line("DRAM traffic", f"{quantity(counted['bytes'], 'byte')} (counted)")
        for label, name in (("… read", "dram_read_bytes"), ("… written", "dram_write_bytes")):
            if name in kernel.metrics:
                yield Line(label, quantity(kernel.metrics[name], "byte"))
    if by_shapes and by_shapes["bytes"] is not None:
        yield Line("least traffic", f"{quantity(by_shapes['bytes'], 'byte')} (by its shapes)")
        if "traffic_ratio" in kernel.metrics:
            times = digits(float(kernel.metrics["traffic_ratio"]))
            yield Line("moved over least", f"{times} times")


def _places(roof: Mapping[str, Any], model: Mapping[str, Any] | None) -> Iterable[Line]:
    """Intensity against the ridge, of each basis."""
    for one in (roof, model):
        if one and one["intensity"] is not None:
            ridge = f" (ridge {digits(one['ridge'])})" if one["ridge"] is not None else ""
            source = f", {_SOURCE[one['traffic_basis']]}" if one is model else ""
            yield Line(f"intensity{source}", f"{digits(one['intensity'])} FLOP/byte{ridge}")


def _reached(roof: Mapping[str, Any]) -> Iterable[Line]:
    """The rates reached, of the nominal peak and of what is attainable."""
    dtype = f" {roof['dtype']}" if roof["dtype"] else ""
    sides = (("FLOP rate", "flops", "FLOP/s", dtype), ("bandwidth", "bytes", "byte/s", ""))
    for label, kind, unit, of in sides:
        reached, peak = roof[f"achieved_{kind}_per_s"], roof[f"peak_{kind}_per_s"]
        if not reached:
            continue
        yield Line(label, quantity(reached, unit))
        if peak:
            yield Line(f"… of nominal{of}", f"{percent(reached / peak)} of {quantity(peak, unit)}")
        if kind == "flops" and (ran := roof.get("clock_flops_per_s")):
            share = f"{percent(reached / ran)} of {quantity(ran, unit)}"
            clock = f"{quantity(roof['clock_hz'], 'Hz')}, by the clock log"
            yield Line("… at the clock that ran", f"{share} ({clock})")
        attainable = roof.get(f"likely_{kind}_per_s")
        if attainable:
            origin = str(roof.get(f"likely_{kind}_basis"))
            # What is only assumed to be attainable can be beaten.
            over = reached > attainable
            share = "above" if over else f"{percent(reached / attainable)} of"
            words = _CEILINGS_FROM.get(origin, origin)
            traffic = roof.get("likely_bytes_ceiling") if kind == "bytes" else None
            words += f": {traffic}" if traffic not in (None, "dram") else ""
            yield Line("… of attainable", f"{share} {quantity(attainable, unit)} ({words})")
    if roof["attainable_flops_per_s"] is not None:
        rate = quantity(roof["attainable_flops_per_s"], "FLOP/s")
        yield Line("roof at this intensity", rate)


def _least(
    kernel: KernelGroup, roof: Mapping[str, Any], model: Mapping[str, Any] | None
) -> Iterable[Line]:
    """The least time and how much of the time taken it is: for the work done, for that needed."""
    duration = kernel.metrics.get("duration_ns") or kernel.median_ns
    for one in (roof, model):
        if not one or one["t_min_ns"] is None:
            continue
        source = f", {_SOURCE[one['traffic_basis']]}" if one is model else ""
        yield Line(f"least time{source}", f"{quantity(one['t_min_ns'], 'ns')} at nominal peaks")
        likely = one.get("likely_t_min_ns")
        if likely and not (duration and likely > float(duration)):
            yield Line("… at attainable", quantity(likely, "ns"))
        if one["utilisation"]:
            yield Line("… over the time", f"{percent(one['utilisation'])} (utilisation)")
