"""Measured ceilings for reading: what ``calibrate`` found, what it left, what the store holds."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from traceroof.calibration.measure import Measurement
from traceroof.calibration.probes import Probe
from traceroof.core.kernel_names import short_names
from traceroof.core.units import count, percent, quantity
from traceroof.hardware.ceilings import BANDWIDTHS, MeasuredRate
from traceroof.report.common.console import grid, terminal_width, to_text
from traceroof.report.run.summary import TIMES

# So many candidates that were left are told one by one.
_LEFT = 10
_NAME = 30
_RIGHT = ("measured", "of nominal", "a launch", "launches")


def measured(measurement: Measurement) -> str:
    """What was measured, against what it replaces, and what was left with the reason."""
    names = short_names((one.probe for one in measurement.rates), _NAME)

    def draw(console: Console) -> None:
        for device, rates in _by_device(measurement.rates):
            console.print(Text(device, style="bold"))
            before = dict(zip(measurement.rates, measurement.replaced, strict=False))
            again = any(before.get(one) for one in rates)
            header = ("rate", *_RIGHT, *(("before",) if again else ()), "probe")
            rows = [
                (
                    *_figures(one),
                    *((_change(one, before.get(one)),) if again else ()),
                    names[one.probe],
                )
                for one in rates
            ]
            console.print(grid(header, rows, right=(*_RIGHT, "before")))
        _left(console, measurement)

    return to_text(draw, width=terminal_width())


def _left(console: Console, measurement: Measurement) -> None:
    left = [one for one in measurement.probes if not one.is_taken and not one.is_slower]
    slower = sum(one.is_slower for one in measurement.probes)
    if left or slower or measurement.others:
        console.print()
        console.print("Not used")
    names = short_names((one.kernel for one in left[:_LEFT]), _NAME)
    for one in left[:_LEFT]:
        line = f"{_kind(one)}{names[one.kernel]}{_size(one)}: {one.reason}"
        console.print(Padding(line, (0, 0, 0, 1)))
    if len(left) > _LEFT:
        console.print(f" and {len(left) - _LEFT:,} more with less time")
    if slower:
        console.print(f" {count(slower, 'good probe')} of the same kind: slower than the one taken")
    if measurement.others:
        console.print(f" {count(measurement.others, 'other kernel')} that measure no ceiling")


def _size(probe: Probe) -> str:
    if probe.size is None:
        return ""
    return f" ({quantity(probe.size, 'byte' if probe.rate in (*BANDWIDTHS, None) else 'FLOP')})"


def _kind(probe: Probe) -> str:
    return f"{probe.rate} " if probe.rate else ""


def _change(now: MeasuredRate, before: MeasuredRate | None) -> str:
    if before is None:
        return "none"
    change = now.per_s / before.per_s - 1
    return f"{quantity(before.per_s, before.unit)} ({change:+.1%})".replace("%)", " %)")


def stored(rates: Sequence[MeasuredRate]) -> str:
    """The measured ceilings that a store holds, by device."""
    if not rates:
        return (
            "No calibration: `traceroof calibrate PATH` keeps what the probes in a profile "
            "measured.\n"
        )
    names = short_names((one.probe for one in rates), _NAME)

    def draw(console: Console) -> None:
        for device, found in _by_device(rates):
            console.print(Text(device, style="bold"))
            rows = [
                (*_figures(one), one.measured[:16].replace("T", " "), names[one.probe])
                for one in found
            ]
            header = ("rate", *_RIGHT, "when (UTC)", "probe")
            console.print(grid(header, rows, right=_RIGHT))

    return to_text(draw, width=terminal_width())


def _figures(one: MeasuredRate) -> tuple[str, ...]:
    size = "byte" if one.rate in BANDWIDTHS else "FLOP"
    return (
        one.rate,
        quantity(one.per_s, one.unit),
        percent(one.share),
        quantity(one.launch_size, size) if one.launch_size else "",
        f"{one.launches:,}" if one.launches else "",
    )


def _by_device(rates: Iterable[MeasuredRate]) -> list[tuple[str, list[MeasuredRate]]]:
    """Headline and rates per device and kind of times; bandwidths first."""
    found: dict[str, list[MeasuredRate]] = {}
    order = {name: place for place, name in enumerate(BANDWIDTHS)}
    for one in sorted(rates, key=lambda one: (order.get(one.rate, len(order)), one.rate)):
        found.setdefault(f"{one.device}, {TIMES[one.time_basis]}", []).append(one)
    return sorted(found.items())
