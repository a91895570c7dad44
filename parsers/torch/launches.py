"""How and where GPU activities ran: columns over the distinct launches of a trace."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from traceroof.parsers.torch.columns import Fold
from traceroof.parsers.torch.event_columns import LAUNCH_FIELDS
from traceroof.parsers.torch.events import (
    UNKNOWN,
    Reals,
    Whole,
    real_number,
    whole_number,
)
from traceroof.parsers.torch.rank_labels import label_of, ranks_of_labels
from traceroof.parsers.torch.repair import lenient

# What the writer of CUDA 12.9 and later adds: the occupancy calculator's result for the launch.
# The names are those of Kineto's source; no file with them was at hand.
_OCCUPANCY: Final[Mapping[str, str]] = {
    "occupancy_limit_blocks": "blockLimitBlocks",
    "occupancy_limit_registers": "blockLimitRegs",
    "occupancy_limit_shared_memory": "blockLimitSharedMem",
    "occupancy_limit_warps": "blockLimitWarps",
    "occupancy_limit_barriers": "blockLimitBarriers",
}


class Launches:
    """Columns with an entry for each distinct launch; the fold's GPU activities have its code.

    grid and block are (x, y, z), UNKNOWN where not given. ``limits`` are columns of the kernel
    table, empty where no launch has them.
    """

    def __init__(self, fold: Fold) -> None:
        entries = [(pid, tid, *others, *texts) for pid, tid, others, *texts in fold.launches]

        def column(name: str) -> list[Any]:
            position = LAUNCH_FIELDS.index(name)
            return [entry[position] for entry in entries]

        def wholes(name: str) -> Whole:
            return np.array([whole_number(value) for value in column(name)], dtype=np.int64)

        def reals(name: str) -> Reals:
            return np.array([real_number(value) for value in column(name)], dtype=np.float64)

        # The rows of a Chrome trace are called process and thread; for a GPU they are the device
        # and the stream, which not all files say once more. Copies between GPUs have fromDevice.
        self.process = wholes("pid")
        self.device = _first(wholes("device"), wholes("from_device"), self.process)
        self.stream = _first(wholes("stream"), wholes("tid"))
        labels = ranks_of_labels(fold)
        labelled = np.array(
            [labels.get(label_of(pid), UNKNOWN) for pid in column("pid")], dtype=np.int64
        )
        self.context, self.rank = wholes("context"), _first(wholes("rank"), labelled)
        # Kineto writes graph id 0 for work that is in no graph.
        graph = wholes("graph")
        self.graph = np.where(graph > 0, graph, UNKNOWN)
        self.registers, self.shared_memory = reals("registers"), reals("shared_memory")
        self.estimated_occupancy = reals("estimated_occupancy")
        self.theoretical_occupancy = reals("theoretical_occupancy")
        self.grid, self.block = sizes(column("grid")), sizes(column("block"))
        found = [_object(text) for text in column("occupancy")]
        self.limits: dict[str, Reals] = {}
        if any(found):
            for name, key in _OCCUPANCY.items():
                self.limits[name] = np.array([real_number(one.get(key)) for one in found])


def sizes(texts: Sequence[bytes]) -> Whole:
    """(x, y, z) for each JSON text of a list of up to three numbers, UNKNOWN for other texts."""
    return np.array([_size(text) for text in texts], dtype=np.int64).reshape(-1, 3)


def _size(text: bytes) -> list[int]:
    found = lenient(text) if text else None
    if not isinstance(found, list) or not 0 < len(found) <= 3:
        return [UNKNOWN] * 3
    return [whole_number(one) for one in found] + [1] * (3 - len(found))


def _first(*choices: Whole) -> Whole:
    """The first known number of each row."""
    result = choices[0].copy()
    for other in choices[1:]:
        result = np.where(result == UNKNOWN, other, result)
    return result


def _object(text: bytes) -> dict[str, Any]:
    found = lenient(text) if text else None
    return found if isinstance(found, dict) else {}
