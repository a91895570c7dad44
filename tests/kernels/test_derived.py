"""The table of columns that follow from others: what rows declare is what their formulas read."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from traceroof.core.kernel_table import COLUMNS
from traceroof.kernels.derived import Derived, Hardware, See, work_out
from traceroof.kernels.group_columns import DERIVED, GROUP_COLUMNS

# Given by the operator's model, and dropped once model_dtype is known.
_HELPER = "model_on_tensor_cores"


def test_a_row_needs_nothing_that_comes_later() -> None:
    derived = {row.name for row in DERIVED}
    assert len(derived) == len(DERIVED)
    given = {one.name for one in COLUMNS} | {one.name for one in GROUP_COLUMNS} - derived
    known = {*given, "model_dtype", _HELPER}  # model_dtype is given, then refined
    for row in DERIVED:
        assert set(row.needs) <= known, row.name
        known.add(row.name)


class _Watched(See):
    """Notes which columns a formula reads."""

    def __init__(self, needs: tuple[str, ...]) -> None:
        super().__init__({}, Hardware([None, None], None), needs)
        self.read: set[str] = set()

    def _column(self, name: str) -> npt.NDArray[Any] | None:
        self.read.add(name)
        return super()._column(name)


@pytest.mark.parametrize("row", DERIVED, ids=lambda row: str(row.name))
def test_a_formula_reads_what_its_row_declares(row: Derived) -> None:
    see = _Watched(row.needs)
    with np.errstate(divide="ignore", invalid="ignore"):
        assert len(row.formula(see)) == 2
    assert see.read == set(row.needs)


def test_a_formula_that_reads_more_fails() -> None:
    row = Derived("twice", ("time_ns",), lambda see: see("launches") * 2)
    with pytest.raises(KeyError, match="reads launches, which its row does not declare"):
        work_out((row,), {"launches": np.ones(1)}, [None], None)


def test_rows_are_worked_out_in_order() -> None:
    table = (
        Derived("twice", ("time_ns",), lambda see: see("time_ns") * 2),
        Derived("four_times", ("twice",), lambda see: see("twice") * 2),
    )
    columns = work_out(table, {"time_ns": np.array([3.0, np.nan])}, [None, None], None)
    assert columns["four_times"].tolist()[0] == 12.0
    assert np.isnan(columns["four_times"][1])
