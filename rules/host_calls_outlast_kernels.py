"""The host takes longer to launch or to allocate than the GPU to compute, by sums of its calls."""

from typing import Any

import numpy as np

from traceroof.rule import Rule, at_least
from traceroof.rules._doubts import halved

# Fewer calls are a program's start.
_MANY = 100


def _rule(
    calls: str, spent: str, waited_for: str, example: tuple[float, float, float], **card: Any
) -> Rule:
    """The card of one kind of call. calls, spent: the columns of their number and time. example: these
    and the kernel time of a run where it fires."""
    what = f"the GPU probably waits for {waited_for}, so faster kernels gain less"
    many = {calls: 100.0, spent: 9e6, "kernel_time_ns": 1e6}
    return Rule(
        scope="run",
        needs=(calls, spent, "kernel_time_ns"),
        uses=("window_ns",),
        # A timeline tells when the GPU waited.
        applies=lambda k: ~np.isnan(getattr(k, calls)) & np.isnan(k.window_ns),
        when=lambda k: k.meets(calls) & k.meets(spent),
        kind="conditional",
        grade="observed",
        layer="framework",
        effort="refactor",
        severity="info",
        urgent=lambda k: np.ones(len(k), dtype=bool),
        doubts=halved(what, "kernel", "category", "run"),
        thresholds={
            calls: at_least(_MANY),
            spent: at_least(1.0, of="kernel_time_ns", told=False),
        },
        fires=(
            {**many, spent: 1e6},
            dict(zip((calls, spent, "kernel_time_ns"), example, strict=True)),
        ),
        silent=({**many, calls: 99.0}, {**many, spent: 0.99e6}, {**many, "window_ns": 1e9}, {}),
        **card,
    )


RULES = (
    _rule(
        "launch_calls",
        "launching_ns",
        "launches",
        (411_939.0, 1.46e9, 0.9e9),
        id="launch-calls-outlast-kernels",
        topic="host-bound-launch",
        title="Launching the kernels takes longer than the kernels",
        why=(
            "A launch costs the host some microseconds. The GPU runs a kernel only after that. Where "
            "all launches together take longer than all kernels, a program that launches from one "
            "thread leaves the GPU idle, and faster kernels do not make it faster."
        ),
        condition=(
            "a summary without a timeline, {launch_calls} launch calls or more, and their typical "
            "(median, else shortest) time adds up to the kernel time or more"
        ),
        because=(
            "{launch_calls:,.0f} launch calls of a typical length take the host {launching_ns}, all "
            "kernels the GPU {kernel_time_ns}"
        ),
        fix=(
            "Launch less often: replay the step as a graph, fuse chains of small kernels, batch "
            "small inputs. Record a timeline (nsys profile, rocprofv3 --sys-trace): it shows when "
            "the GPU waits and for what."
        ),
        refute=(
            "Record a timeline. If the GPU is busy nearly all the time, several threads launch at "
            "once, or launches wait for a full queue."
        ),
        # Counted launches say it better than the length of kernels.
        suppresses=("tiny-kernels",),
        references=(
            "NVIDIA blog, Getting Started with CUDA Graphs: launches that outlast short kernels",
        ),
    ),
    _rule(
        "allocate_calls",
        "allocating_ns",
        "allocations",
        (20_000.0, 2e9, 0.2e9),
        id="allocations-outlast-kernels",
        topic="allocation",
        title="Allocating memory takes longer than the kernels",
        why=(
            "An allocation by the driver takes tens to hundreds of microseconds, as long as many "
            "kernels. A program that allocates in its loop leaves the GPU idle meanwhile."
        ),
        condition=(
            "a summary without a timeline, {allocate_calls} calls or more that allocate memory, and "
            "their typical (median, else shortest) time adds up to the kernel time or more"
        ),
        because=(
            "{allocate_calls:,.0f} allocations of a typical length take the host {allocating_ns}, all "
            "kernels the GPU {kernel_time_ns}"
        ),
        fix=(
            "Allocate once, outside the loop, and use the memory again; or use a pool "
            "(cudaMallocAsync, hipMallocAsync, the memory cache of the framework)."
        ),
        refute=(
            "Record a timeline. If the GPU is not idle during the allocations, they cost nothing."
        ),
        risk="memory",
        references=(
            "CUDA C++ Programming Guide, Stream Ordered Memory Allocator: what cudaMalloc costs",
        ),
    ),
)
