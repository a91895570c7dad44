"""Triton's Proton: the ``.hatchet`` tree that it writes by default.

A tree of scopes with metrics, and a block of devices. Times stand on the leaves (kernels), FLOPs
and bytes on whatever scope stated them: they belong to the kernels below it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from traceroof.core import regex
from traceroof.core.kernel_table import kernel_table
from traceroof.core.recording import DeviceInfo, Note, Recording, source_of
from traceroof.errors import TraceroofError
from traceroof.ingest import json_words
from traceroof.ingest.decompress import open_inflated
from traceroof.parser import Options, Progress

_SIGNS = (b'"frame"', b'"metrics"', b'"children"')
_OVERHEAD = "__proton_launch_metadata"
_FLOPS = regex.compile(r"flops(\d+)")
_TYPES = {"8": "fp8", "16": "fp16", "32": "fp32", "64": "fp64"}
_VENDORS = {"CUDA": "nvidia", "HIP": "amd"}
_DEEPEST = 400


class Proton:
    """Reader of Proton's trees."""

    name = "proton"
    title = "Triton Proton: the .hatchet tree of scopes and kernels"
    gives = "launches and mean times by scope; a roofline where scopes state flops and bytes"
    collect = 'proton.start("profile"), the kernels, proton.finalize(): profile.hatchet'

    def recognises(self, head: bytes, path: Path) -> Literal[0, 1, 2]:
        start = head.lstrip()[:1]
        if start != b"[" or not all(sign in head for sign in _SIGNS):
            return 2 if start == b"[" and path.name.endswith(".hatchet") else 0
        return 2

    def read(self, source: Path, progress: Progress, options: Options) -> Recording:
        with open_inflated(source, options) as file:
            tree, devices = _parts(source, file.read())
        found = _Found()
        for root in _once(tree, found):
            _walk(root, (), {}, found, 0)
        if not found.rows:
            raise TraceroofError(
                f"{source} holds no GPU work: Proton recorded no kernel time",
                "run the kernels between proton.start() and proton.finalize()",
            )
        known = tuple(_devices(devices))
        peaks = {one.index: _peak(one) for one in known}
        for row in found.rows:
            row["peak_dram_bytes_per_s"] = peaks.get(row["device"])
        names = dict.fromkeys(name for row in found.rows for name in row)
        kernels = kernel_table({name: [row.get(name) for row in found.rows] for name in names})
        return Recording(
            format=self.name,
            time_basis="timeline",
            kernels=kernels,
            sources=(source_of(str(source), self.name, kernels, tuple(_notes(found))),),
            devices=known,
        )


PARSER = Proton()


# Copies stand close together; to compare all with all takes the square of the time.
_NEAR = 4


@dataclass
class _Found:
    """What a tree holds: kernel rows, and what of it is not in them."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    overhead: int = 0
    cycles: int = 0
    broken: int = 0
    odd: int = 0
    doubled: int = 0
    shared: int = 0


def _parts(source: Path, data: bytes) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The trees and the block of devices, which comes last."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise TraceroofError(
            f"{source} is not a complete Proton tree: {json_words.why(error)}",
            "was the program stopped before proton.finalize()?",
        ) from None
    entries = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    trees = [one for one in entries if "frame" in one]
    devices = next((one for one in reversed(entries) if "frame" not in one), {})
    if not trees:
        raise TraceroofError(f"{source} holds no Proton tree: no frame is in it")
    return trees, devices


def _walk(
    node: Mapping[str, Any], above: tuple[str, ...], stated: Mapping[str, float], found: _Found,
    depth: int,
) -> None:  # fmt: skip
    """Take a node and what is below it. stated: FLOPs and bytes of the nearest scope that has
    them, for its whole time."""
    frame, metrics = node.get("frame"), node.get("metrics")
    if not isinstance(frame, dict) or not isinstance(metrics, dict) or depth > _DEEPEST:
        found.broken += 1
        return
    named = frame.get("name")
    name = named if isinstance(named, str) else ""
    if name == _OVERHEAD:
        found.overhead += 1
        return
    children = _children(node)
    own = {key: value for key in metrics if (value := _number(metrics[key])) is not None}
    works = {
        key: value
        for key, value in own.items()
        if (_FLOPS.fullmatch(key) or key == "bytes") and value > 0
    }
    found.odd += sum(key in metrics and key not in own for key in ("time (ns)", "count"))
    time = own.get("time (ns)")
    found.odd += bool(time) and own.get("count", 1) < 1
    if time is not None and time > 0 and "device_id" in metrics:
        _add(name, above, metrics, own, works or stated, found)
    elif "device_id" in metrics and any("cycle" in key for key in metrics):
        found.cycles += 1
    timed = sum(_is_timed(one) for one in children)
    if works and timed > 1:
        # Which of several kernels did how much of a scope's work is not stated.
        found.shared += timed
    below = (works or stated) if timed <= 1 else {}
    path = above if name == "ROOT" else (*above, name)
    for child in _once(children, found):
        _walk(child, path, below, found, depth + 1)


def _once(nodes: Sequence[Mapping[str, Any]], found: _Found) -> Iterator[Mapping[str, Any]]:
    """Nodes beside one another. A tree has one a name and place: an equal one is a copy."""
    seen: list[Any] = []
    for node in nodes:
        told = node.get("frame"), node.get("metrics"), len(_children(node))
        if told in seen[-_NEAR:]:
            found.doubled += 1
            continue
        seen.append(told)
        yield node


def _children(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    listed = node.get("children")
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def _is_timed(node: Mapping[str, Any]) -> bool:
    metrics = node.get("metrics")
    return isinstance(metrics, dict) and bool(_number(metrics.get("time (ns)")))


def _add(
    name: str, above: tuple[str, ...], metrics: Mapping[str, Any], own: Mapping[str, float],
    works: Mapping[str, float], found: _Found,
) -> None:  # fmt: skip
    count = max(int(own.get("count", 1)), 1)
    device = str(metrics["device_id"])
    row: dict[str, Any] = {
        "kernel_name": name,
        "launch_count": count,
        "duration_ns": round(own["time (ns)"] / count),
        "device": int(device) if device.isascii() and device.isdigit() else None,
        "operator": above[-1] if above else None,
        "operator_path": " > ".join(above) or None,
        "stated_bytes": works["bytes"] / count if "bytes" in works else None,
    }
    flops = {_FLOPS.fullmatch(key): value for key, value in works.items() if key != "bytes"}
    # Work in several widths has no one peak.
    if len(flops) == 1:
        ((width, operations),) = flops.items()
        if width is not None and width[1] in _TYPES:
            row |= {"stated_flops": operations / count, "stated_dtype": _TYPES[width[1]]}
    found.rows.append(row)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 2**62 else None


def _notes(found: _Found) -> Iterator[Note]:
    if found.overhead:
        text = "scopes in which Proton itself ran kernels to learn metrics, left out"
        yield Note(text, found.overhead, severe=False)
    if found.cycles:
        yield Note("entries with cycles and no time, left out", found.cycles)
    if found.broken:
        yield Note("nodes without frame or metrics, left out with what is below", found.broken)
    if found.doubled:
        yield Note("nodes that stand in the tree twice, read once", found.doubled)
    if found.odd:
        text = "times and counts that cannot be: left out, a count taken as 1"
        yield Note(text, found.odd)
    if found.shared:
        text = "kernels that share the flops and bytes of one scope: which did how much is unknown"
        yield Note(text, found.shared, severe=False)


def _devices(blocks: Mapping[str, Any]) -> Iterator[DeviceInfo]:
    for kind, listed in blocks.items():
        for index, told in listed.items() if isinstance(listed, dict) else ():
            if not isinstance(told, dict) or not str(index).isdigit():
                continue
            arch = str(told.get("arch", ""))
            clock, memory = (_number(told.get(f"{one}clock_rate")) for one in ("", "memory_"))
            yield DeviceInfo(
                index=int(index),
                vendor=_VENDORS.get(kind),
                compute_capability=f"{arch[:-1]}.{arch[-1]}"
                if arch.isdigit() and len(arch) > 1
                else None,
                gfx_target=arch if arch.startswith("gfx") else None,
                sm_count=told.get("num_sms") if isinstance(told.get("num_sms"), int) else None,
                sm_clock_hz=clock * 1e3 if clock else None,
                dram_clock_hz=memory * 1e3 if memory else None,
                dram_bus_bits=told.get("bus_width")
                if isinstance(told.get("bus_width"), int)
                else None,
            )


def _peak(device: DeviceInfo) -> float | None:
    """The bandwidth of the memory, byte/s: two transfers a clock over the width of the bus."""
    if not device.dram_clock_hz or not device.dram_bus_bits:
        return None
    return 2 * device.dram_clock_hz * device.dram_bus_bits / 8
