"""XLA's profiler: ``*.xplane.pb`` of JAX and TensorFlow, NVIDIA and AMD."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from traceroof.core import regex
from traceroof.core.kernel_table import kernel_table
from traceroof.core.recording import (
    HOST_CALLS,
    SPANS,
    DeviceInfo,
    Note,
    Recording,
    Source,
)
from traceroof.errors import TraceroofError
from traceroof.hardware.device_lookup import gfx_of_pair
from traceroof.ingest.decompress import open_inflated
from traceroof.parser import Options, Progress
from traceroof.parsers.xla.activities import Rows, add_device, add_host
from traceroof.parsers.xla.planes import Plane, Space, space
from traceroof.parsers.xla.reasons import reasons

_DEVICE = regex.compile(r"/device:(?P<kind>\w+):(?P<index>\d+)")
_SIGNS = (b"/device:GPU:", b"/device:TPU:", b"/host:CPU", b"/host:metadata", b"Task Environment")


class XPlane:
    """Reader of XLA's traces."""

    name = "xplane"
    title = "XLA profiler (JAX, TensorFlow): *.xplane.pb"
    gives = "kernels and copies with HLO operator, module and step, host calls, launch shapes"
    collect = (
        "jax.profiler.trace(FOLDER) around a few steps, then FOLDER/plugins/profile/*/*.xplane.pb"
    )

    def recognises(self, head: bytes, path: Path) -> Literal[0, 1, 2]:
        # Field 1 of the outer message is a plane; its name stands near its beginning.
        if not head.startswith(b"\x0a"):
            return 0
        return 2 if any(sign in head[:4096] for sign in _SIGNS) else 0

    def read(self, source: Path, progress: Progress, options: Options) -> Recording:
        with open_inflated(source, options) as file:
            found = space(file.read())
        rows, devices, broken = Rows(), [], 0
        for plane in found.planes:
            told = _DEVICE.fullmatch(plane.name)
            if told is not None and told["kind"] == "GPU" and not plane.is_empty:
                add_device(plane, int(told["index"]), rows)
                devices.append(_device(plane, int(told["index"])))
            elif plane.name == "/host:CPU":
                add_host(plane, rows)
            broken += plane.broken()
        if not rows.kernels:
            raise _without_kernels(source, found, rows)
        kernels = kernel_table(_columns(rows))
        notes = _notes(rows, found, broken)
        launches = sum(row["kind"] == "kernel" for row in rows.kernels)
        return Recording(
            format=self.name,
            time_basis="timeline",
            kernels=kernels,
            sources=(Source(str(source), self.name, launches, tuple(notes), stacks=rows.stacks),),
            devices=tuple(devices),
            host_calls=_table(rows.calls, HOST_CALLS),
            spans=_table(rows.steps, SPANS),
        )


PARSER = XPlane()


def _table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    arrays = []
    for entry in schema:
        values = [0 if entry.name == "source" else row.get(entry.name) for row in rows]
        plain = pa.string() if pa.types.is_dictionary(entry.type) else entry.type
        arrays.append(pa.array(values, plain).cast(entry.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def _columns(rows: Rows) -> dict[str, list[Any]]:
    names = dict.fromkeys(name for row in rows.kernels for name in row)
    columns: dict[str, list[Any]] = {
        name: [row.get(name) for row in rows.kernels] for name in names
    }
    calls = {
        call["correlation_id"]: call for call in rows.calls if call["correlation_id"] is not None
    }
    launched = [calls.get(number) for number in columns["correlation_id"]]
    columns["host_launch_ns"] = [call["start_ns"] if call else None for call in launched]
    columns["host_launch_duration_ns"] = [
        call["duration_ns"] if call else None for call in launched
    ]
    if rows.steps:
        columns["step"] = _steps(columns, rows.steps)
    return columns


def _steps(
    columns: Mapping[str, list[Any]], steps: Sequence[Mapping[str, Any]]
) -> list[str | None]:
    """The step that launched each activity; of one without a launch, the step that it ran in."""
    import numpy as np

    ordered = sorted(steps, key=lambda step: step["start_ns"])
    begins = np.array([step["start_ns"] for step in ordered], dtype=np.int64)
    ends = begins + np.array([step["duration_ns"] for step in ordered], dtype=np.int64)
    when = np.array(
        [start if host is None else host
         for start, host in zip(columns["start_ns"], columns["host_launch_ns"], strict=True)],
        dtype=np.int64,
    )  # fmt: skip
    at = np.searchsorted(begins, when, side="right") - 1
    inside = (at >= 0) & (when < ends[np.maximum(at, 0)])
    return [
        ordered[step]["name"] if is_in else None
        for step, is_in in zip(at.tolist(), inside.tolist(), strict=True)
    ]


def _notes(rows: Rows, found: Space, broken: int) -> list[Note]:
    notes = []
    if found.cut:
        notes.append(Note("the file ends inside a plane: what follows is missing"))
    if broken:
        notes.append(Note("events without a sane time, left out", broken))
    if rows.garbage:
        text = "kernels whose registers and shared memory the tracer filled with garbage: unknown"
        notes.append(Note(text, rows.garbage, severe=False))
    if rows.unknown:
        text = "GPU activities without details of a kernel or copy, left out"
        notes.append(Note(text, rows.unknown))
    if rows.replays:
        text = "graph replays without their kernels: they are in no sum"
        notes.append(Note(text, rows.replays))
    notes += [Note(f"XLA's profiler wrote: {reason}") for reason in reasons(found.errors)[:3]]
    return notes


def _device(plane: Plane, index: int) -> DeviceInfo:
    stats = plane.stats
    maker = str(stats.get("device_vendor", "")).lower()
    vendor = "amd" if "amd" in maker else "nvidia" if "nvidia" in maker else None
    major, minor = stats.get("compute_cap_major"), stats.get("compute_cap_minor")
    capability = None if major is None or minor is None else f"{major}.{minor}"
    clock = stats.get("clock_rate")
    return DeviceInfo(
        index=index,
        name=stats.get("device_type_string") or None,
        vendor=vendor,
        compute_capability=capability,
        gfx_target=gfx_of_pair(capability) if vendor == "amd" and capability else None,
        sm_count=stats.get("core_count"),
        memory_bytes=stats.get("memory_size"),
        sm_clock_hz=clock * 1000.0 if isinstance(clock, int | float) and clock else None,
    )


def _without_kernels(source: Path, found: Space, rows: Rows) -> TraceroofError:
    planes = [plane.name for plane in found.planes]
    kinds = {told["kind"] for name in planes if (told := _DEVICE.match(name))}
    if found.cut and not planes:
        reason = "it is cut or damaged before its first plane ends"
    elif found.errors:
        reason = f"XLA's profiler wrote: {reasons(found.errors)[0]}"
    elif "TPU" in kinds:
        reason = "it was recorded on a TPU"
    elif "GPU" in kinds:
        replays = f" but {rows.replays} graph replays without kernels" if rows.replays else ""
        reason = f"no GPU ran a kernel while it was recorded{replays}"
    else:
        reason = "it has no GPU plane, so the program ran on the CPU or the GPU tracer was off"
    return TraceroofError(
        f"{source} holds no GPU work: {reason}",
        "record a few steps after warm-up inside jax.profiler.trace, on a GPU",
    )
