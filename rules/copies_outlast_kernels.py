"""Copies between host and GPU that outweigh the kernels, in a summary without a timeline."""

from typing import Any

import numpy as np

from traceroof.rule import Rule, above, at_least, at_most
from traceroof.rules._doubts import halved

# Shorter copies are those of a test.
_SHORTEST_NS = 1e6
_EVIDENCE = (
    "{summary_copies:,.0f} copies take {summary_copy_ns}[: to the GPU {summary_to_gpu_ns:some}]"
    "[, to the host {summary_to_host_ns:some}]"
)
_FEWER = (
    "Keep the data on the GPU between kernels; copy once what does not change, and only the "
    "results that are read. Join many small copies into one. Copy from pinned memory "
    "([nvidia: cudaMallocHost][amd: hipHostMalloc]), on a second stream."
)


def _rule(**card: Any) -> Rule:
    return Rule(
        topic="input-copy",
        scope="run",
        needs=("summary_copies", "summary_copy_ns", "kernel_time_ns"),
        uses=("summary_to_gpu_ns", "summary_to_host_ns"),
        # A timeline tells what copies hide.
        applies=lambda k: ~np.isnan(k.summary_copies) & k.meets("kernel_time_ns"),
        kind="conditional",
        grade="observed",
        layer="framework",
        effort="refactor",
        urgent=lambda k: np.ones(len(k), dtype=bool),
        severity="info",
        doubts=halved(
            "copies take longer than the kernels, so faster kernels gain less",
            "kernel",
            "category",
            "run",
        ),
        references=(
            "CUDA C++ Best Practices Guide: minimise data transfer between host and device",
        ),
        **card,
    )


_COPIES = {
    "summary_copies": 501.0,
    "summary_copy_ns": 1.3e9,
    "summary_to_gpu_ns": 0.53e9,
    "summary_to_host_ns": 0.77e9,
    "kernel_time_ns": 27e6,
}
_ALONE = {**_COPIES, "kernel_time_ns": 0.0}

RULES = (
    _rule(
        id="copies-outlast-kernels",
        title="Copies between host and GPU take longer than the kernels",
        why=(
            "Data crosses the link to the host tens of times more slowly than the GPU reads its own "
            "memory. Where all copies together take longer than all kernels, overlap cannot hide "
            "them, and faster kernels gain little."
        ),
        condition=(
            "a summary without a timeline, whose copies between host and GPU take {summary_copy_ns} "
            "or more in all, and no less than its kernels"
        ),
        when=lambda k: k.meets("summary_copy_ns") & k.meets("as_the_kernels"),
        because=f"{_EVIDENCE}; all kernels take {{kernel_time_ns}}",
        fix=_FEWER,
        refute=(
            "Leave out the copies in a test run. The run must get shorter by what they take beyond "
            "the kernels, or more."
        ),
        thresholds={
            "summary_copy_ns": at_least(_SHORTEST_NS),
            "kernel_time_ns": above(0, told=False),
            "as_the_kernels": at_least(
                1.0, column="summary_copy_ns", of="kernel_time_ns", told=False
            ),
        },
        fires=(
            _COPIES,
            {**_COPIES, "kernel_time_ns": 1.3e9},
        ),
        silent=(
            {**_COPIES, "kernel_time_ns": 1.31e9},
            {**_COPIES, "summary_copy_ns": 0.9e6, "kernel_time_ns": 1e3},
            {"kernel_time_ns": 27e6},
            _ALONE,
        ),
    ),
    _rule(
        id="copies-without-kernels",
        title="The file lists copies between host and GPU, and no kernel",
        why=(
            "A summary of copies alone does not show whether kernels ran, nor what they took. "
            "Copies that kernels do not hide are time of the program."
        ),
        condition=(
            "a summary without a timeline and without kernels, whose copies between host and GPU "
            "take {summary_copy_ns} or more in all"
        ),
        when=lambda k: k.meets("summary_copy_ns"),
        because=_EVIDENCE,
        fix=(
            "Print the summary of the kernels too ([nvidia: nsys stats --report cuda_gpu_kern_sum,"
            "cuda_gpu_mem_time_sum][amd: rocprofv3 --kernel-trace --memory-copy-trace --stats]), and "
            "diagnose both. " + _FEWER
        ),
        refute="Diagnose the copies beside the kernels. If those take longer, look at them first.",
        thresholds={
            "summary_copy_ns": at_least(_SHORTEST_NS),
            "kernel_time_ns": at_most(0, told=False),
        },
        fires=(_ALONE, {"summary_copies": 3.0, "summary_copy_ns": 1e6, "kernel_time_ns": 0.0}),
        silent=({**_ALONE, "summary_copy_ns": 0.9e6}, _COPIES, {"kernel_time_ns": 0.0}),
    ),
)
