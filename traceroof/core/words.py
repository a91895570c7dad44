"""Text columns that know which text each value has: what follows from a text is found once a text."""

from typing import Any

import numpy as np
import numpy.typing as npt

from traceroof.core.dictionary import factorized


class Words(np.ndarray[Any, np.dtype[Any]]):
    """A column of text, None for unknown, with the number of each value's text.

    codes: one for each value, -1 for unknown; None for what was made of the column. texts: what the
    numbers stand for.
    """

    codes: npt.NDArray[np.int64] | None = None
    texts: list[Any]


def words(column: npt.NDArray[Any]) -> Words:
    """A column of objects as words."""
    made = column.view(Words)
    codes, texts = factorized(column)
    made.codes, made.texts = codes, texts.tolist()
    return made
