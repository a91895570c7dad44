"""A recording too short to speak for the program."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Doubt, Rule, below
from traceroof.rules._doubts import halved

_WINDOW_NS = 100e6
_STEPS = 3


def _factor(k: Facts, run: Facts) -> Column:
    # Many short steps, or one long one, are more than neither.
    both = (run.window_ns < _WINDOW_NS) & ~(run.steady_steps >= _STEPS)
    return np.asanyarray(np.full(len(k), 1.0) * np.where(both, 0.7, 0.9))


def _work(k: Facts) -> Column:
    """What ran: kernels, and copies that ran alone, or that a summary lists. Few kernels beside many
    copies tell of those."""
    copies = np.nan_to_num(k.copies_alone_ns) + np.nan_to_num(k.summary_copy_ns)
    return np.asanyarray(k.kernel_time_ns + copies)


RULES = (
    Rule(
        id="run-short-window",
        topic="too-short-to-judge",
        title="The recording is short",
        scope="run",
        why=(
            "One or two steps, or a tenth of a second, show what happened then, not what usually "
            "happens. No step can be compared with others, and the start and stop of the profiler "
            "weigh heavily."
        ),
        condition=(
            "fewer than {steady_steps} whole steps after warm-up, or less than {window_ns} in all"
        ),
        needs=("window_ns",),
        uses=("steady_steps",),
        # A counter tool, or a summary, has no window.
        applies=lambda k: ~np.isnan(k.window_ns),
        when=lambda k: k.meets("steady_steps") | k.meets("window_ns"),
        because="the recording covers {window_ns}[; whole steps after warm-up: {steady_steps:,.0f}]",
        fix="Record at least 3 steps after warm-up, and 100 ms or more.",
        refute="Record ten steps. If shares and medians stay the same, this was long enough.",
        kind="conditional",
        grade="observed",
        layer="framework",
        effort="config",
        severity="info",
        doubts=(
            Doubt(
                scope="timeline",
                what="the recording is short",
                factor=_factor,
            ),
        ),
        thresholds={"window_ns": below(_WINDOW_NS), "steady_steps": below(_STEPS)},
        references=(
            "nsys-ai: windows under 100 ms are refused",
            "three steps are the fewest that have a median other than their mean; a judgement",
        ),
        fires=(
            {"window_ns": 99.9e6},
            {"window_ns": 600e6, "steady_steps": 2.0},
            {"window_ns": 60e6, "steady_steps": 20.0},
        ),
        silent=(
            {"window_ns": 100e6},
            {"window_ns": 600e6, "steady_steps": 3.0},
            {},
        ),
    ),
    Rule(
        id="run-few-launches",
        topic="too-short-to-judge",
        title="Too little ran to be judged",
        scope="run",
        why=(
            "A handful of short kernels is a test, a first use, or an excerpt of a recording. "
            "Set-up, the profiler and unrecorded work decide their times, which say little about "
            "how the program behaves."
        ),
        condition=(
            "a timeline or a summary with fewer than {program_launches} launches of the program's own kernels "
            "(copies and fills of the runtime do not count), whose kernels and exposed copies "
            "take less than {kernel_time_ns} in all"
        ),
        needs=("program_launches", "kernel_time_ns"),
        uses=("window_ns", "summary_launches", "copies_alone_ns", "summary_copy_ns", "launches"),
        # A counter tool is pointed at few launches on purpose.
        applies=lambda k: ~(np.isnan(k.window_ns) & np.isnan(k.summary_launches)),
        when=lambda k: k.meets("program_launches") & k.meets("kernel_time_ns"),
        because=(
            "launches of the program's own kernels: {program_launches:,.0f}; all kernels, those of "
            "the runtime included, take {kernel_time_ns}, too little to tell what the program usually does"
        ),
        fix=(
            "Record the loop itself: at least 3 steps, after warm-up (torch.profiler.schedule with "
            "wait and warm-up steps; nsys --capture-range=cudaProfilerApi; rocprofv3 "
            "--collection-period)."
        ),
        refute=("Record more launches of the same program. If the shares stay, this was enough."),
        kind="conditional",
        grade="observed",
        layer="framework",
        effort="config",
        severity="info",
        urgent=lambda k: np.ones(len(k), dtype=bool),
        doubts=halved("hardly anything was recorded", "timeline"),
        thresholds={
            "program_launches": below(10),
            "kernel_time_ns": below(10e6, measure=_work, unit="ns"),
        },
        references=("a training step or a token takes tens of launches; a judgement",),
        fires=(
            {"window_ns": 13e9, "program_launches": 1.0, "kernel_time_ns": 1_800.0},
            {"window_ns": 20e6, "program_launches": 9.0, "kernel_time_ns": 9.9e6},
            {"summary_launches": 2.0, "program_launches": 2.0, "kernel_time_ns": 35e3},
        ),
        silent=(
            {"window_ns": 20e6, "program_launches": 10.0, "kernel_time_ns": 9.9e6},
            {"window_ns": 2e9, "program_launches": 9.0, "kernel_time_ns": 10e6},
            {"program_launches": 1.0, "kernel_time_ns": 1_800.0},
            {
                "window_ns": 101e6,
                "program_launches": 4.0,
                "kernel_time_ns": 0.5e6,
                "copies_alone_ns": 91e6,
            },
            {
                "summary_launches": 2.0,
                "program_launches": 2.0,
                "kernel_time_ns": 0.5e6,
                "summary_copy_ns": 91e6,
            },
        ),
    ),
)
