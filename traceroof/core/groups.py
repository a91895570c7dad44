"""Rows by group: sums, extremes, medians, places."""

from typing import Any

import numpy as np
import numpy.typing as npt

Whole = npt.NDArray[np.int64]


class Groups:
    """n rows in g groups of one row or more.

    codes: n, the group of each row, 0 to g - 1 (as ``dictionary.together`` numbers them).
    sizes: g, the rows of each. order: n, the rows group by group, in their own order.
    starts: g, where each group begins in ``order``.
    """

    def __init__(self, codes: npt.NDArray[Any]) -> None:
        self.codes = codes
        self.sizes: Whole = np.bincount(codes)
        # Short numbers are sorted digit by digit, several times as fast.
        short = codes.astype(np.uint16) if len(self.sizes) <= 1 << 16 else codes
        self.order: Whole = np.argsort(short, kind="stable")
        self.starts: Whole = np.cumsum(self.sizes) - self.sizes

    def reduced(self, how: np.ufunc, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """One value per group: ``np.add`` (exact for whole numbers), ``np.minimum``, …"""
        if not len(values):
            return values
        found: npt.NDArray[Any] = how.reduceat(values[self.order], self.starts)
        return found

    def medians(self, values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """The median of each group; of an even number the mean of the middle two."""
        ordered = values[np.lexsort((values, self.codes))]
        middle, odd = self.starts + self.sizes // 2, self.sizes % 2
        found: npt.NDArray[np.float64] = (ordered[middle - 1 + odd] + ordered[middle]) / 2
        return found

    def places(self) -> Whole:
        """The place of each row among those of its group, from 0."""
        found = np.empty(len(self.codes), dtype=np.int64)
        found[self.order] = np.arange(len(self.codes)) - np.repeat(self.starts, self.sizes)
        return found
