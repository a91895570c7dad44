"""The profiler did not record the work that was launched."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Doubt, Rule, at_least

# Where so much of the work is missing, the rest tells nothing about idle time.
_VOID_PCT = 50
# What is missing may have run in any gap and beside any collective.
_READ = ("idle_*", "late_launch_ns", "pause_time_ns", "exposed_*", "collective_excess_ns")


def _remains(k: Facts, own: Facts) -> Column:
    return np.asanyarray(1 - np.nan_to_num(k.lost_pct) / 100)


def _nothing(k: Facts, own: Facts) -> Column:
    return np.asanyarray(np.where(k.lost_pct >= _VOID_PCT, 0.0, 1.0))


def _of_run(k: Facts, own: Facts) -> Column:
    return np.full(len(k), float(np.min(_remains(own, own), initial=1.0)))


def _nothing_of_run(k: Facts, own: Facts) -> Column:
    return np.full(len(k), float(np.min(_nothing(own, own), initial=1.0)))


# Between two launches of the run there may be ones that were not recorded.
_READ_OF_RUN = (
    "*_gap_ns", "waiting_ns", "waiting_share", "slowest_share", "compute_imbalance",
    "compute_over_mean_ns", "step_imbalance",
)  # fmt: skip

_WHAT = "work that was launched has no record on the GPU"

RULES = (
    Rule(
        id="lost-records",
        topic="lost-records",
        title="The profiler lost records of the GPU",
        scope="timeline",
        why=(
            "The host launched work of which the profiler kept no record: a buffer overflowed, "
            "another tool held the counters, or the file was thinned out. Where that work ran, the "
            "GPU looks idle, and communication looks exposed."
        ),
        condition=(
            "launch calls of kernels or graphs without a record on the GPU, {lost_pct} of all or "
            "more (those at the very end and within a graph capture do not count), or a file that "
            "holds hardly any of its call ids; findings on idle time and exposed communication lose "
            "that share of their confidence, and say nothing where half is missing"
        ),
        needs=("lost_pct",),
        uses=("launches_called", "lost_launches", "lost_graphs", "call_id_density_pct"),
        when=lambda k: k.meets("lost_pct"),
        because=(
            "{lost_pct} of the launched work is estimated to have no record[: {lost_launches:,.0f} "
            "of {launches_called:,.0f} launch calls have none][, {lost_graphs:,.0f} graph launches "
            "have none][; the file holds {call_id_density_pct} of the call ids, where 5 % and more "
            "are usual]"
        ),
        fix=(
            "Record again, and less: fewer steps, no stacks, a larger profiler buffer "
            "(KINETO_CUPTI_BUFFER_SIZE, roctracer's buffer), no second profiler on the GPU, and a "
            "warm-up step before. Synchronise before the profiler stops. Do not read idle time from "
            "this file."
        ),
        refute="Count launches in the program: if they are as many as the kernels here, nothing was lost.",
        kind="hard",
        grade="observed",
        layer="framework",
        effort="config",
        severity="high",
        doubts=(
            Doubt(
                scope="timeline",
                what=_WHAT,
                reads=("lost_pct",),
                columns=_READ,
                factor=_remains,
            ),
            Doubt(
                scope="timeline",
                what=_WHAT,
                reads=("lost_pct",),
                columns=_READ,
                factor=_nothing,
                silences=True,
            ),
            Doubt(scope="run", what=_WHAT, columns=_READ_OF_RUN, factor=_of_run),
            Doubt(
                scope="run",
                what=_WHAT,
                columns=_READ_OF_RUN,
                factor=_nothing_of_run,
                silences=True,
            ),
        ),
        urgent=lambda k: k.lost_pct >= 20,
        thresholds={"lost_pct": at_least(1)},
        references=(
            "CUPTI documentation, activity buffers: records are dropped when buffers run out",
            "Kineto: launch calls and GPU activities share a correlation id",
        ),
        fires=(
            {"lost_pct": 95.0, "lost_launches": 361.0, "launches_called": 400.0},
            {"lost_pct": 1.0, "lost_launches": 4.0, "launches_called": 400.0, "lost_graphs": 1.0},
        ),
        silent=(
            {"lost_pct": 0.0, "lost_launches": 0.0, "launches_called": 400.0},
            {"lost_pct": 0.9, "lost_launches": 9.0, "launches_called": 1_000.0},
        ),
    ),
)
