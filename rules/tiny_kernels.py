"""A summary of kernels that end sooner than a host can launch them."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Attainable, Rule, at_least, below
from traceroof.rules._timelines import TINY_NS


def _saves(k: Facts, peak: Attainable) -> Column:
    # What starting costs is in every launch, so that the shortest one takes no less.
    return np.asanyarray(k.summary_launches * k.summary_shortest_ns / k.time_ns)


_SWARM = {
    "summary_launches": 1_700_000.0,
    "summary_mean_ns": 2_920.0,
    "summary_shortest_ns": 700.0,
    "time_ns": 4.96e9,
}

RULES = (
    Rule(
        id="tiny-kernels",
        topic="small-kernels-graph",
        title="Kernels end sooner than the host can launch them",
        scope="run",
        why=(
            "A launch takes the host 2 to 5 µs in the driver, and more in the framework above it. "
            "Where a kernel ends sooner, the GPU waits for the next one, unless a graph replays "
            "them. A summary does not show the idle time. It does show that kernels are this short. "
            "Their own time falls by what starting them costs, which is no more than the shortest "
            "of them takes."
        ),
        condition=(
            "a summary without a timeline and without sums of launch calls, of {summary_launches} kernel launches or more, which "
            "take less than {summary_mean_ns} on average"
        ),
        needs=("summary_launches", "summary_mean_ns", "summary_shortest_ns", "time_ns"),
        uses=("launch_calls",),
        # Where the calls themselves were summed up, their time tells.
        applies=lambda k: ~np.isnan(k.summary_launches) & np.isnan(k.launch_calls),
        when=lambda k: k.meets("summary_launches") & k.meets("summary_mean_ns"),
        because=(
            "{summary_launches:,.0f} launches take {summary_mean_ns} on average, and launching one "
            "takes the host 2 µs or more; how long the GPU waits for it is not in a summary. "
            "The saving counts kernel time alone: at most {summary_shortest_ns} per launch, which is "
            "what the shortest kernel takes"
        ),
        fix=(
            "Launch less: replay the step as a graph, fuse chains of small operators "
            "(torch.compile), process more items per launch. Record a timeline to see how long the "
            "GPU waits ([nvidia: nsys profile --trace=cuda,nvtx][amd: rocprofv3 --sys-trace])."
        ),
        refute=(
            "Record a timeline. If the GPU is busy all the time, graphs or several streams hide the "
            "launches."
        ),
        saves=_saves,
        kind="conditional",
        grade="inferred",
        layer="framework",
        effort="refactor",
        thresholds={
            "summary_launches": at_least(100),
            "summary_mean_ns": below(TINY_NS),
        },
        references=(
            "Holistic Trace Analysis: kernels shorter than their launch call, 2 to 5 µs",
            "RRZE gpu-small-kernels: a queued empty kernel takes 1.6 to 2.6 µs on L40, A100, H200",
        ),
        fires=(_SWARM, {**_SWARM, "summary_launches": 100.0, "summary_mean_ns": 4_999.0}),
        silent=(
            {**_SWARM, "summary_launches": 99.0},
            {**_SWARM, "summary_mean_ns": 5_000.0},
            {**_SWARM, "launch_calls": 1_700_000.0},
            {"time_ns": 4.96e9},
        ),
    ),
)
