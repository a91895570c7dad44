"""Workgroups start slowly because resources are full (AMD)."""

import numpy as np

from traceroof.rule import Rule, above
from traceroof.rules._kernels import HEADROOM, STATE, has_headroom, on_amd, spare

RULES = (
    Rule(
        id="amd-sched-pipe-stall",
        topic="small-grid",
        title="The workgroup manager cannot place workgroups",
        scope="kernel",
        why=(
            "A scheduler pipe assigns workgroups to the shader engines. It stalls while no "
            "compute unit has all the resources that a workgroup needs. With many small "
            "workgroups, their launch rate is the limit."
        ),
        condition=(
            "the scheduler pipes stall for lack of resources in more than "
            "{scheduler_pipe_stall_pct} of their cycles, and nothing is at its wall"
        ),
        needs=("scheduler_pipe_stall_pct",),
        uses=("vendor", *STATE, "threads_per_block", "blocks", "achieved_occupancy_pct"),
        applies=lambda k: on_amd(k) & has_headroom(k),
        when=lambda k: k.meets("scheduler_pipe_stall_pct"),
        because="the scheduler pipes stall in {scheduler_pipe_stall_pct} of their cycles",
        fix=(
            "Launch fewer and longer workgroups: more elements per thread, larger workgroups, or "
            "a persistent kernel that loops over its work. Otherwise reduce the resources that "
            "each workgroup needs."
        ),
        refute=("Give each workgroup twice the work. The share must fall, and the time with it."),
        saves=lambda k, peak: np.fmin(k.scheduler_pipe_stall_pct / 100, spare(k, peak)),
        kind="conditional",
        grade="observed",
        layer="hardware",
        thresholds={**HEADROOM, "scheduler_pipe_stall_pct": above(25)},
        references=("rocprofiler-compute, workgroup manager: 0 to 25 % is normal",),
        fires=(
            {"vendor": "amd", "scheduler_pipe_stall_pct": 25.1},
            {"vendor": "amd", "scheduler_pipe_stall_pct": 60.0, "memory_pct": 50.0},
        ),
        silent=(
            {"vendor": "amd", "scheduler_pipe_stall_pct": 25.0},
            {"vendor": "amd", "scheduler_pipe_stall_pct": 60.0, "memory_pct": 90.0},
            {"vendor": "nvidia", "scheduler_pipe_stall_pct": 60.0},
        ),
    ),
)
