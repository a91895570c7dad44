"""Whether a recording ran on a partition of a GPU, and on which part."""

from collections.abc import Sequence

from traceroof.core.recording import DeviceInfo
from traceroof.hardware.device_lookup import matches
from traceroof.hardware.devices import Device


def partition(gpus: Sequence[tuple[DeviceInfo, Device | None]]) -> dict[str, float | str]:
    values: dict[str, float | str] = {}
    kinds = {(device.name if device else info.name) for info, device in gpus}
    known = {one for one in kinds if one}
    if known:
        values["gpu_kinds"] = float(len(known))
    shares = []
    for info, device in gpus:
        whole = _whole_sm_count(info, device)
        count = info.sm_count or (device.sm_count if device else None)
        if whole and count:
            shares.append((count / whole, count, whole))
    if shares:
        least, count, whole = min(shares)
        values |= {
            "sm_count": float(count),
            "whole_sm_count": float(whole),
            "sm_share_pct": least * 100,
        }
    return values


def _whole_sm_count(info: DeviceInfo, device: Device | None) -> int | None:
    """Multiprocessors of the card that the GPU is a part of; of the smallest that its name means."""
    rows = matches(info.name) if info.name else ()
    if not rows and device is not None:
        # "MI300X (38 of 304 CUs)": the table's own name of a part begins with that of the whole.
        rows = matches(device.name.split(" (")[0])
    counts = [row.sm_count for row in rows if row.sm_count]
    if info.gfx_target and rows and rows[0].wavefront == 32:
        return None  # HIP counts pairs of compute units there (``devices``)
    return min(counts, default=None)
