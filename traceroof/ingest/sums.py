"""Summaries that contradict themselves: what a profiler adds up and divides must fit together."""

from typing import Final

import numpy as np
import numpy.typing as npt

from traceroof.core.recording import Note

Reals = npt.NDArray[np.float64]

CONTRADICTING: Final = "rows of a summary that contradict themselves (calls, total and mean time)"
# Shares are printed with one digit behind the point, at the least.
_ROUNDED_PCT: Final = 0.05
# What rounding leaves of 100 %, and what is more than rounding.
_SLACK_PCT: Final = 0.5


def contradictions(
    count: npt.ArrayLike,
    total: npt.ArrayLike,
    mean: npt.ArrayLike,
    *,
    least: npt.ArrayLike | None = None,
    most: npt.ArrayLike | None = None,
    share_pct: npt.ArrayLike | None = None,
    resolution: float = 1.0,
) -> list[Note]:
    """What the rows of a summary say against each other.

    Per row: launches, their total and mean time, the shortest and longest one, the share of all
    rows; NaN where unknown. resolution: the last digit that times are printed with, in their unit.
    """
    n, whole, each = (np.asarray(one, dtype=np.float64) for one in (count, total, mean))
    allowed = (np.abs(n) + 1) * resolution + 1e-6 * np.abs(whole)
    wrong = np.abs(whole - n * each) > allowed
    for bound, sign in ((least, 1), (most, -1)):
        if bound is not None:
            # A mean is printed rounded, too.
            wrong |= sign * (np.asarray(bound, dtype=np.float64) - each) > resolution
    notes = []
    if wrong.any():
        notes.append(Note(CONTRADICTING, int(wrong.sum())))
    if share_pct is not None:
        notes += _shares(whole, np.asarray(share_pct, dtype=np.float64))
    return notes


def _shares(total: Reals, share_pct: Reals) -> list[Note]:
    """What is said where the rows are not the whole that their shares are of."""
    known = (total > 0) & (share_pct > 0)
    if not known.any() or np.isnan(total).any():
        return []
    largest = int(np.argmax(np.where(known, share_pct, 0.0)))
    of_all_ns = total[largest] / share_pct[largest] * 100
    found_pct = float(total.sum() / of_all_ns * 100)
    if abs(found_pct - 100) <= 100 * _ROUNDED_PCT / share_pct[largest] + _SLACK_PCT:
        return []
    text = (
        f"by its shares a summary holds {found_pct:.1f} % of the time that it was made of: rows are "
        "missing, or stand there twice"
    )
    return [Note(text)]
