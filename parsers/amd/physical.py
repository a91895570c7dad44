"""Which physical GPU dispatches ran on, where the machine and the driver's number of it are known."""

import pyarrow as pa
import pyarrow.compute as pc

from traceroof.core.physical import gpu_number
from traceroof.parsers.amd.dispatches import Dispatches


def put_gpus(found: Dispatches, machine: str) -> None:
    """Number the physical GPUs: the driver's number of each holds in one machine."""
    device = found.columns.get("device")
    numbers = {
        index: gpu_number(machine, gpu.uid)
        for index, gpu in found.gpus.items()
        if index is not None and gpu.uid
    }
    if device is None or not numbers or not machine:
        return
    place = pc.index_in(device, value_set=pa.array(list(numbers), pa.int64()))
    found.columns["gpu"] = pa.array(list(numbers.values()), pa.int64()).take(place)
