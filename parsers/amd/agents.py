"""Devices as rocprofv3's tables call them: agents, GPUs, nodes."""

import re
from collections.abc import Mapping

import pyarrow as pa

from traceroof.core import regex
from traceroof.parsers.amd.gpus import AgentList, Gpu, only

_AGENT = regex.compile(r"(?:(.*)\s)?(\d{1,6})$")


def _is_agent(found: re.Match[str]) -> bool:
    """Whether a cell says "Agent 2", and neither a bare number nor "GPU 2"."""
    return (found.group(1) or "").strip().lower() == "agent"


class Agents:
    """From what a table calls a device to its ordinal: "Agent 4", 4, "GPU 0"."""

    def __init__(self, listed: AgentList) -> None:
        self._listed = listed
        self.gpus: dict[int | None, Gpu] = {gpu.index: gpu for gpu in listed.gpus}
        same = only(listed.gpus)
        if same is not None:
            self.gpus[None] = same

    def ordinals(self, cells: pa.ChunkedArray | None, count: int) -> pa.Array:
        """Ordinals among the GPUs; node numbers where there is no list of agents."""
        if cells is None:
            return pa.nulls(count, pa.int64())
        encoded = cells.combine_chunks().dictionary_encode()
        found = [_AGENT.match(str(text).strip()) for text in encoded.dictionary.to_pylist()]
        called = {int(one.group(2)) for one in found if one is not None and _is_agent(one)}
        nodes = self._numbering(called)
        known = [None if one is None else self._ordinal(one, nodes) for one in found]
        indices = {gpu.index for gpu in self._listed.gpus}
        # Beside agents of the list, a number that is none of its GPUs is damaged.
        if indices.intersection(known):
            known = [one if one in indices else None for one in known]
        return pa.array(known, pa.int64()).take(encoded.indices)

    def _numbering(self, called: set[int]) -> Mapping[int, Gpu]:
        """What "Agent 2" counts: places in the list, the default, unless only nodes fit."""
        nodes, positions = self._listed.by_node, self._listed.by_position
        return positions if called <= positions.keys() or not called <= nodes.keys() else nodes

    def _ordinal(self, found: re.Match[str], numbering: Mapping[int, Gpu]) -> int | None:
        number = int(found.group(2))
        if (found.group(1) or "").upper().endswith("GPU"):
            return number
        # ROCm 6 writes the bare number of the node.
        gpu = (numbering if found.group(1) else self._listed.by_node).get(number)
        return gpu.index if gpu is not None else number
