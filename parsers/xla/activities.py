"""GPU activities and host calls of XLA planes as rows."""

import re
from dataclasses import dataclass, field
from typing import Any

from traceroof.core import regex
from traceroof.parsers.xla.planes import Event, Plane

_PAIR = regex.compile(r"(\w+):(\S+)")
_STREAM = regex.compile(r"Stream #(\d+)")
_RUNTIME = regex.compile(r"(?:cuda|hip|cu)[A-Z]\w*")
# A thread has 255 registers at most (512 with AMD's accumulation registers): more is garbage of
# one generation of the AMD tracer, and so is the shared memory beside it.
_MOST_REGISTERS = 512
_COPY = regex.compile(r"(?:Memcpy|Copy)?(?P<kind>[HDP]2[HDP]|\w+To\w+)?", re.IGNORECASE)


@dataclass
class Rows:
    """Rows to be: activities of the GPUs, calls of the host, steps; and what was left out."""

    kernels: list[dict[str, Any]] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)
    replays: int = 0
    garbage: int = 0
    unknown: int = 0
    stacks: bool = False


def add_device(plane: Plane, device: int, rows: Rows) -> None:
    """The kernels and copies of a GPU. Lines that sum up others (steps, modules) hold neither."""
    for line in plane.lines():
        stream = _STREAM.match(line.name)
        for event in line.events:
            common = {
                "kernel_name": event.name,
                "start_ns": event.start_ns,
                "duration_ns": event.duration_ns,
                "device": device,
                "stream": int(stream[1]) if stream else line.id,
                "correlation_id": _whole(event.stats.get("correlation_id")),
                **_placed(event),
            }
            if "kernel_details" in event.stats:
                rows.kernels.append({**common, "kind": "kernel", **_launch(event, rows)})
            elif "memcpy_details" in event.stats:
                rows.kernels.append({**common, **_copy(event)})
            elif "memset_details" in event.stats:
                size = _pairs(event.stats["memset_details"]).get("num_bytes")
                rows.kernels.append({**common, "kind": "memset", "copy_bytes": _real(size)})
            elif "cuda_graph_exec_id" in event.stats:
                rows.replays += 1
            elif stream and "correlation_id" in event.stats:
                rows.unknown += 1


def _placed(event: Event) -> dict[str, Any]:
    """Where in the program: the HLO operator, its path in JAX, its module."""
    operator = event.stats.get("hlo_op")
    path = event.stats.get("name")
    graph = event.stats.get("cuda_graph_exec_id", event.stats.get("cuda_graph_id"))
    return {
        "operator": operator or None,
        "operator_path": path.replace("/", " > ") if isinstance(path, str) and path else None,
        "module_path": event.stats.get("hlo_module") or None,
        "graph_id": str(graph) if graph else None,
    }


def _pairs(details: Any) -> dict[str, str]:
    return dict(_PAIR.findall(details)) if isinstance(details, str) else {}


def _launch(event: Event, rows: Rows) -> dict[str, Any]:
    told = _pairs(event.stats["kernel_details"])
    found: dict[str, Any] = {}
    for what in ("grid", "block"):
        extent = [_whole(part) for part in told.get(what, "").split(",")]
        if len(extent) == 3 and all(extent):
            found |= {f"{what}_{axis}": size for axis, size in zip("xyz", extent, strict=True)}
    registers = _whole(told.get("regs"))
    static, dynamic = (_real(told.get(f"{one}_shared")) for one in ("static", "dynamic"))
    if registers is not None and registers > _MOST_REGISTERS:
        rows.garbage += 1
        registers = static = None
    occupancy = _real(told.get("occ_pct")) or _real(event.stats.get("theoretical_occupancy_pct"))
    found |= {
        "registers_per_thread": registers,
        "shared_memory_static_bytes": static,
        "shared_memory_dynamic_bytes": dynamic,
        "shared_memory_bytes": _real(told.get("group_mem")),
        "scratch_bytes_per_thread": _real(told.get("private_mem")),
        # The tracer writes 0 where it does not fill the figure.
        "theoretical_occupancy_pct": occupancy or None,
    }
    if static is not None and dynamic is not None:
        found["shared_memory_bytes"] = static + dynamic
    return found


def _copy(event: Event) -> dict[str, Any]:
    told = _pairs(event.stats["memcpy_details"])
    found = _COPY.match(event.name)
    kind = (found["kind"] if found else None) or told.get("kind", "")
    kind = re.sub(r"^([HDP])2([HDP])$", r"\1to\2", kind)
    ends = [told.get(f"kind_{end}") for end in ("src", "dst")]
    memory = f" ({ends[0]} -> {ends[1]})" if all(ends) else ""
    return {"kind": "memcpy", "copy_kind": f"{kind}{memory}", "copy_bytes": _real(told.get("size"))}


def add_host(plane: Plane, rows: Rows) -> None:
    """What the host did: calls of the runtime, ranges of the framework, steps.

    Frames of Python (``$file.py:1 f``) are no calls, but make the host slower than it is.
    """
    for line in plane.lines():
        for event in line.events:
            step = event.stats.get("step_num")
            number = _whole(event.stats.get("correlation_id"))
            named = _RUNTIME.fullmatch(event.name) is not None
            entry = {
                "thread_id": line.id,
                # One generation of the AMD tracer names a launch after its kernel.
                "name": event.name if named or number is None else "hipLaunchKernel",
                "start_ns": event.start_ns,
                "duration_ns": event.duration_ns,
            }
            if step is not None:
                rows.steps.append({**entry, "kind": "step", "name": str(step)})
            elif event.name.startswith("$"):
                rows.stacks = True
            elif named or number is not None or event.duration_ns:
                category = "framework" if number is None and not named else "runtime"
                rows.calls.append({**entry, "category": category, "correlation_id": number})


def _whole(value: Any) -> int | None:
    if isinstance(value, int):
        return value if abs(value) < 2**63 else None
    text = str(value).strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def _real(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
