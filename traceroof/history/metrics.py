"""The figures of a whole run that have a history."""

from collections.abc import Mapping

#: The metrics of a run: id -> unit, and what it is.
METRICS: Mapping[str, tuple[str, str]] = {
    "step-time": ("ns", "median time of a step on the GPU, warm-up left out"),
    "wall-time": ("ns", "from the first start to the last end, of the GPU with the longest"),
    "kernel-time": ("ns", "sum over the kernels of all GPUs"),
    "idle-time": ("ns", "time without any activity, of the GPU with the most"),
    "launches": ("launch", "kernel launches of all GPUs"),
}
