"""The GPUs of an Nsight Systems export: which one a device number of a process means."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from traceroof.core.physical import gpu_number
from traceroof.core.recording import DeviceInfo
from traceroof.ingest.sqlite import UNKNOWN, Whole
from traceroof.parsers.nsight.nsys_tables import Export

_COLUMNS: Final = (
    "id", "cuDevice", "name", "l2CacheSize", "totalMemory", "memoryBandwidth", "clockRate",
    "smCount", "computeMajor", "computeMinor", "busLocation", "uuid",
)  # fmt: skip


@dataclass(frozen=True)
class Gpus:
    """The GPUs that worked.

    number: by row the number of its GPU in ``devices``. physical: by row what tells the GPU in every
    export, UNKNOWN where the export does not. bandwidth: number -> theoretical peak of
    the memory, byte/s. ids: number -> Nsight Systems' own number.
    """

    number: Whole
    physical: Whole
    devices: tuple[DeviceInfo, ...]
    bandwidth: Mapping[int, float]
    ids: Mapping[int, int]


def gpus_of(export: Export, process: Whole, device: Whole) -> Gpus:
    """The GPU of each row, from its process and the device number in that process.

    CUDA's numbers stay where each means one GPU; where two processes mean different GPUs by one
    number (CUDA_VISIBLE_DEVICES), GPUs have the numbers that Nsight Systems gives them.
    """
    rows = _listed(export)
    place, pairs = _pairs(process, device)
    found = [_gpu(export, rows, one, number) for one, number in pairs]
    numbers = [number for _, number in pairs]
    meant: dict[int, set[int]] = {}
    for number, gpu in zip(numbers, found, strict=True):
        if gpu is not None:
            meant.setdefault(number, set()).add(gpu["id"])
    ambiguous = any(len(ids) > 1 for ids in meant.values())
    if ambiguous and all(gpu is not None for gpu in found):
        numbers = [int(gpu["id"]) for gpu in found if gpu is not None]
    devices: dict[int, DeviceInfo] = {}
    bandwidth: dict[int, float] = {}
    ids: dict[int, int] = {}
    for number, gpu in sorted(zip(numbers, found, strict=True), key=lambda one: one[0]):
        if number == UNKNOWN:
            continue
        devices.setdefault(number, _device(number, gpu))
        ids.setdefault(number, gpu["id"] if gpu and isinstance(gpu["id"], int) else number)
        rate = _whole(gpu, "memoryBandwidth")
        if rate:
            bandwidth[number] = float(rate)
    physical = [_physical(export, rows, one, number) for one, number in pairs]
    return Gpus(
        np.array(numbers, dtype=np.int64)[place], np.array(physical, dtype=np.int64)[place],
        tuple(devices.values()), bandwidth, ids,
    )  # fmt: skip


def _physical(export: Export, rows: list[dict[str, Any]], process: int, device: int) -> int:
    """The GPU that a process means by a number, told by its uuid; UNKNOWN where the export does not
    tell it, and for a MIG slice without a uuid of its own.

    A number means a GPU only by the table of the process, or where the machine has one."""
    given = export.database.read("TARGET_INFO_CUDA_DEVICE", _OWN)
    size = len(next(iter(given.values()), []))
    own = [
        {name: given[name][at] if name in given else None for name in _OWN} for at in range(size)
    ]
    mine = [one for one in own if one["pid"] == process]
    if not mine:
        return _by_uuid(rows[0], None) if len(rows) == 1 and not size else UNKNOWN
    meant = [one for one in mine if one["cudaId"] == device]
    found = [row for row in rows if len(meant) == 1 and row["id"] == meant[0]["gpuId"]]
    shared = len({one["gpuId"] for one in mine}) < len(mine)
    if len(found) != 1 or (shared and not meant[0]["uuid"]):
        return UNKNOWN
    return _by_uuid(found[0], meant[0])


_OWN: Final = ("pid", "cudaId", "gpuId", "uuid", "numMultiprocessors")


def _by_uuid(gpu: Mapping[str, Any], own: Mapping[str, Any] | None) -> int:
    if own is not None and own["uuid"]:
        return gpu_number(own["uuid"])
    sms, all_sms = own and own["numMultiprocessors"], gpu["smCount"]
    is_slice = "MIG" in str(gpu["name"]) or (sms and all_sms and sms < all_sms)
    return UNKNOWN if is_slice or not gpu["uuid"] else gpu_number(gpu["uuid"])


def _pairs(one: Whole, other: Whole) -> tuple[Whole, list[tuple[int, int]]]:
    """Which distinct pair each row has, and the pairs."""
    ones, first = np.unique(one, return_inverse=True)
    others, second = np.unique(other, return_inverse=True)
    both = first.reshape(-1) * len(others) + second.reshape(-1)
    distinct, place = np.unique(both, return_inverse=True)
    pairs = [
        (int(ones[at // len(others)]), int(others[at % len(others)])) for at in distinct.tolist()
    ]
    return place.reshape(-1), pairs


def _listed(export: Export) -> list[dict[str, Any]]:
    rows = export.database.read("TARGET_INFO_GPU", _COLUMNS)
    size = len(next(iter(rows.values()), []))
    return [
        {name: rows[name][at] if name in rows else None for name in _COLUMNS} for at in range(size)
    ]


def _gpu(
    export: Export, rows: list[dict[str, Any]], process: int, device: int
) -> dict[str, Any] | None:
    """The row of TARGET_INFO_GPU that a process means by a number; None where nothing tells."""
    by_process = export.database.wholes("TARGET_INFO_CUDA_DEVICE", ("gpuId", "cudaId", "pid"))
    mine = (by_process["pid"] == process) & (by_process["cudaId"] == device)
    ids = {int(one) for one in by_process["gpuId"][mine]}
    found = [row for row in rows if row["id"] in ids]
    # Before 2025.1 there is no such table, and the number is the one of the driver.
    found = found or [row for row in rows if row["cuDevice"] == device]
    kinds = {tuple(row[name] for name in _SAME) for row in found or rows}
    # Of several that fit, any will do if they are alike.
    return (found or rows)[0] if len(kinds) == 1 else None


_SAME: Final = ("name", "smCount", "totalMemory", "memoryBandwidth")


def _whole(gpu: Mapping[str, Any] | None, name: str) -> int | None:
    value = gpu[name] if gpu is not None else None
    return value if isinstance(value, int) and 0 < value < 1 << 62 else None


def _device(number: int, gpu: Mapping[str, Any] | None) -> DeviceInfo:
    if gpu is None:
        return DeviceInfo(index=number, vendor="nvidia")
    major, minor = gpu["computeMajor"], gpu["computeMinor"]
    name, clock = gpu["name"], _whole(gpu, "clockRate")
    return DeviceInfo(
        index=number,
        # Versions of 2021 cut the name after 31 letters.
        name=name.strip() if isinstance(name, str) and name.strip() else None,
        compute_capability=(
            f"{major}.{minor}" if isinstance(major, int) and isinstance(minor, int) else None
        ),
        sm_count=_whole(gpu, "smCount"),
        memory_bytes=_whole(gpu, "totalMemory"),
        l2_bytes=_whole(gpu, "l2CacheSize"),
        sm_clock_hz=float(clock) if clock else None,
        vendor="nvidia",
    )
