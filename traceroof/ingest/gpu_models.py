"""The GPU models of files: those of one run have the same."""

from collections.abc import Sequence

from traceroof.core.kernel_table import launches
from traceroof.core.recording import Recording
from traceroof.errors import TraceroofError
from traceroof.hardware.device_lookup import find
from traceroof.ingest.ranks import are_ranks
from traceroof.ingest.roles import SEPARATE, path_of


def refuse_several_gpus(recordings: Sequence[Recording]) -> None:
    """Refuse files of several GPU models, unless they are ranks of one program."""
    for told in (models, architectures):
        known = {gpus: one for one in reversed(recordings) if (gpus := told(one))}
        if len(known) < 2 or are_ranks(recordings):
            continue
        (others, second), (gpus, first), *_ = known.items()
        raise TraceroofError(
            f"{path_of(first)} was recorded on {' and '.join(sorted(gpus))}, {path_of(second)} on "
            f"{' and '.join(sorted(others))}: they are not recordings of one run",
            SEPARATE,
        )


def of_one_gpu(recordings: Sequence[Recording]) -> tuple[list[Recording], list[Recording]]:
    """The recordings of the GPU model with the most launches (the first of equals) and of unknown ones,
    and those of other models: in a folder they are foreign, not a reason to refuse it. Of files that
    name no model the architecture counts."""
    kept, foreign = list(recordings), list[Recording]()
    for told in (models, architectures):
        rows: dict[frozenset[str], int] = {}
        for one in kept:
            if known := told(one):
                rows[known] = rows.get(known, 0) + launches(one.kernels, None)
        if len(rows) < 2 or are_ranks(kept):
            continue
        most = max(rows, key=rows.__getitem__)
        # A file may name no model and still the architecture.
        built = frozenset().union(*(architectures(one) for one in kept if told(one) == most))
        meant = [
            told(one) == most or (not told(one) and architectures(one) <= built) for one in kept
        ]
        foreign += [one for one, is_meant in zip(kept, meant, strict=True) if not is_meant]
        kept = [one for one, is_meant in zip(kept, meant, strict=True) if is_meant]
    return kept, foreign


def models(recording: Recording) -> frozenset[str]:
    """The GPU models of a recording that the device table knows."""
    return frozenset(
        found.name
        for device in recording.devices
        if device.name and (found := find(device.name, sm_count=device.sm_count))
    )


def architectures(recording: Recording) -> frozenset[str]:
    """The architectures of its GPUs: a file may name no more than that."""
    found = set()
    for device in recording.devices:
        row = find(device.name, sm_count=device.sm_count) if device.name else None
        gfx = (row and row.gfx_target) or (device.gfx_target or "").partition(":")[0]
        capability = (row and row.compute_capability) or device.compute_capability
        if gfx:
            found.add(gfx)
        # HIP prints such a pair too, of which several GPUs have the same.
        elif capability and device.wavefront != 64:
            found.add(f"compute capability {capability}")
    return frozenset(found)
