"""The GPUs of a file: by what launches name, by device attributes, by the program's own output."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from traceroof.core import regex
from traceroof.core.recording import DeviceInfo
from traceroof.hardware.device_lookup import find
from traceroof.parsers.nsight.formulas import Columns, Floats
from traceroof.parsers.nsight.launches import Launch, Launches

# Spreadsheets write 8.0 as 8, or 8,0.
_CAPABILITY = regex.compile(r"(\d{1,2})(?:[.,](\d))?")


def devices_of(
    launches: Launches,
    columns: Columns,
    devices: list[int | None],
    metrics: Mapping[str, Floats],
    display_names: Mapping[int, str],
) -> Iterator[DeviceInfo]:
    """One entry per device that the launches name."""
    rows_of: dict[tuple[int | None, str, str], list[int]] = {}
    for row, (launch, device) in enumerate(zip(launches.found, devices, strict=True)):
        # The column holds an ordinal, or, re-saved, a name.
        name = launch.device.strip() if device is None else ""
        if device is not None or name or launch.compute_capability:
            key = (device, name, _stated_capability(launches, launch))
            rows_of.setdefault(key, []).append(row)

    def first(values: Floats | None, rows: list[int]) -> int | None:
        if values is None:
            return None
        known = values[rows][np.abs(values[rows]) < 2**53]
        return round(float(known[0])) if len(known) else None

    if not rows_of and "device__attribute_compute_capability_major" in metrics:
        rows_of[None, "", ""] = list(range(len(launches.found)))
    for (device, name, capability), rows in rows_of.items():
        capability = capability or _capability(metrics, rows)
        yield DeviceInfo(
            index=device,
            name=name or next(filter(None, map(display_names.get, rows)), None),
            compute_capability=capability or None,
            sm_count=first(columns.values.get("sm_count"), rows),
            l2_bytes=first(metrics.get("device__attribute_l2_cache_size"), rows),
            memory_bytes=first(metrics.get("device__attribute_total_memory"), rows),
            dram_bus_bits=first(metrics.get("device__attribute_global_memory_bus_width"), rows),
        )


def _stated_capability(launches: Launches, launch: Launch) -> str:
    """The compute capability that a launch names, "8.0"; empty where its cell holds none."""
    stated = launch.compute_capability.strip()
    found = _CAPABILITY.fullmatch(stated)
    if stated and not found:
        launches.note("invalid compute capabilities left out")
    return f"{found[1]}.{found[2] or 0}" if found else ""


def with_printed_name(
    launches: Launches, devices: Iterable[DeviceInfo], gpus: Collection[str]
) -> tuple[DeviceInfo, ...]:
    """The devices, the only one by the name that the program printed where that can be it."""
    found = tuple(devices)
    if len(found) != 1 or found[0].name or len(gpus) != 1:
        return found
    name, device = next(iter(gpus)), found[0]
    if not device.compute_capability or not find(
        name, compute_capability=device.compute_capability, sm_count=device.sm_count
    ):
        return found
    launches.note(f"GPU by the program's own output: {name}", severe=False)
    return (replace(device, name=name),)


def _capability(metrics: Mapping[str, Floats], rows: list[int]) -> str:
    """The compute capability by the device's attributes; empty where they are not printed."""
    parts = [
        metrics.get(f"device__attribute_compute_capability_{one}") for one in ("major", "minor")
    ]
    known = [one[rows][~np.isnan(one[rows])] for one in parts if one is not None]
    if len(known) < 2 or not all(len(one) for one in known):
        return ""
    return ".".join(f"{one[0]:.0f}" for one in known)
