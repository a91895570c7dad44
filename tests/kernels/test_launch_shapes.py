"""Launches of one kernel beside each other: fewest instructions on the same bytes."""

import numpy as np
import pytest

from traceroof.core.facts import Facts
from traceroof.kernels.launch_shapes import same_work
from traceroof.plugins import rules
from traceroof.rule import judge

RULE = next(rule for rule in rules() if rule.id == "split-work-redone")


def known(
    blocks: list[float], instructions: list[float], moved: list[float]
) -> dict[str, np.ndarray]:
    return {
        "blocks": np.array(blocks),
        "threads_per_block": np.full(len(blocks), 128.0),
        "instructions": np.array(instructions),
        "dram_bytes": np.array(moved),
    }


def test_splits_are_held_against_the_fewest_instructions() -> None:
    """GIVEN 2, 4 and 8 splits of one attention on the same 100 MB THEN each knows the fewest."""
    columns = known([128, 256, 512], [1.0e8, 1.4e8, 2.2e8], [1.00e8, 1.01e8, 1.03e8])
    found = same_work(["f", "f", "f"], columns)["least_instructions"]
    assert found.tolist() == [1.0e8] * 3


@pytest.mark.parametrize(
    ("names", "blocks", "moved"),
    [
        (["f", "g"], [128, 256], [1e8, 1e8]),  # two kernels
        (["f", "f"], [128, 128], [1e8, 1e8]),  # one grid
        (["f", "f"], [128, 256], [1e8, 2e8]),  # twice the data
        (["f", "f"], [128, 256], [1e8, np.nan]),
        (["f"], [128], [1e8]),
    ],
)
def test_other_work_is_not_compared(
    names: list[str], blocks: list[float], moved: list[float]
) -> None:
    assert same_work(names, known(blocks, [1e8, 2e8][: len(names)], moved)) == {}
    assert same_work(names, {}) == {}


def test_the_part_that_is_done_again_is_the_bound() -> None:
    """1 - 1.2 / 2.0 = 40 % of the instructions, half of it likely; by operations, 1 - 1 / 1.6."""
    rows = (
        {"threads_per_block": 128.0, "instructions": 2.0e8, "least_instructions": 1.2e8},
        {"threads_per_block": 128.0, "name_split_k": 1.0, "flops_over_model": 1.6},
    )
    result = judge(RULE, Facts.of(rows, RULE.columns))
    assert result.fired.all()
    np.testing.assert_allclose(result.saved, [0.4, 0.375])
    np.testing.assert_allclose(result.likely, [0.2, 0.1875])
