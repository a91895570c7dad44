"""What counts as one measurement: sums over samples, steps that are averaged, runs told apart."""

import numpy as np
import pyarrow as pa
import pytest

from tests.sides import one_run, side, stepped
from traceroof.compare.samples import Samples, Steps, runs_of, samples_of
from traceroof.compare.sides import Side
from traceroof.kernels.variants import of_rows


def test_sums_are_per_thing_and_sample_and_for_one_step() -> None:
    """Two things, two samples of two steps each; the row with code or sample -1 counts nowhere."""
    counted = Samples(
        of_row=np.array([0, 0, 1, 1, -1]),
        parts=np.array([2.0, 2.0]),
        of_step=np.array([0, 0, 1, 1]),
    )
    codes = np.array([0, 1, 0, -1, 0])
    weights = np.array([10.0, 20.0, 30.0, 40.0, 50.0])
    assert counted.sums(codes, 2, weights).tolist() == [[5.0, 15.0], [10.0, 0.0]]
    assert counted.of_steps(np.array([1.0, 3.0, 8.0, 8.0])).tolist() == [2.0, 8.0]


def test_warm_up_steps_are_left_out() -> None:
    """The first step takes three times the others: warm-up (over 1.5 times their median)."""
    made = Side.of(stepped(4, factors=(3.0, 1.0, 1.0, 1.0)), None, ())
    assert len(made.steps) == 3
    assert made.steps.covers  # 18 of 36 ms lie in the steady steps: half
    counted = made.counted("step", "steps")
    assert counted.times(made.group, 3).sum(axis=0).tolist() == [6e6] * 3


def test_many_steps_become_fifty_samples() -> None:
    count = 120
    steps = Steps(
        of_row=np.arange(count),
        run=np.zeros(count, dtype=np.int64),
        span_ns=np.ones(count),
        idle_ns=np.ones(count),
        exposed_ns=np.ones(count),
        covers=True,
    )
    runs = Side.of(side([one_run()]), None, ()).runs
    made = samples_of(steps, runs, np.zeros(count, dtype=np.int64), "step", "steps")
    assert len(made) == 50
    assert made.parts.sum() == count
    assert set(made.parts.tolist()) == {2.0, 3.0}
    # Each row is one launch of one step: one launch a step in every sample.
    assert made.sums(np.zeros(count, dtype=np.int64), 1, np.ones(count)).tolist() == [[1.0] * 50]


@pytest.mark.parametrize("columns", [{}, {"rank": [0, 0]}])
def test_two_files_of_one_program_are_two_runs(columns: dict[str, list[int]]) -> None:
    kernels = side([one_run(), one_run(start_ns=10**9)]).recording.kernels
    if columns:
        ranks = pa.array([0] * kernels.num_rows, pa.int64())
        kernels = kernels.set_column(kernels.column_names.index("rank"), "rank", ranks)
    group = np.zeros(kernels.num_rows, dtype=np.int64)
    made = runs_of(of_rows(kernels).by_step, kernels, group, np.ones(kernels.num_rows))
    assert [made.count, made.of_source.tolist(), made.notes] == [2, [0, 1], ()]
