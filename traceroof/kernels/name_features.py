"""What a kernel name says about how the kernel computes: units, element types, variants.

The knowledge is data: ``markers.toml`` fills columns of a kernel group from ordered patterns, each
with samples that a test checks. A name is a hint and no measurement; rules use it where no counter
was collected, and trust it less.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from traceroof.core import regex
from traceroof.core.text_search import Texts
from traceroof.core.toml_tables import toml_table


@dataclass(frozen=True, slots=True)
class Marker:
    """One row of the table: what a name that fits ``pattern`` says in ``column``."""

    column: str
    value: float | str
    pattern: re.Pattern[str]
    samples: tuple[str, ...]


@cache
def markers() -> tuple[Marker, ...]:
    """The table in match order."""
    return tuple(
        Marker(
            column=row["column"],
            value=row["value"] if isinstance(row["value"], str) else float(row["value"]),
            pattern=regex.compile(row["pattern"], re.VERBOSE | re.IGNORECASE),
            samples=tuple(row["samples"]),
        )
        for row in toml_table("traceroof.kernels", "name_features.toml")["marker"]
    )


@lru_cache(maxsize=65536)
def marks(name: str) -> Mapping[str, float | str]:
    """Column -> value for everything that a kernel name says."""
    found: dict[str, float | str] = {}
    for marker in markers():
        if marker.column not in found and marker.pattern.search(name):
            found[marker.column] = marker.value
    return found


def columns(names: Sequence[str] | Texts, only: str | None = None) -> dict[str, npt.NDArray[Any]]:
    """The columns that any of the names fills: float64 with NaN, or objects with None, where a
    name says nothing. only: one of them."""
    texts = Texts.of(names)
    made: dict[str, npt.NDArray[Any]] = {}
    told: dict[str, npt.NDArray[np.bool_]] = {}
    for marker in markers():
        column = marker.column
        if only not in (None, column):
            continue
        if column not in made:
            word = isinstance(marker.value, str)
            made[column] = np.full(len(names), None if word else np.nan, object if word else float)
            told[column] = np.zeros(len(names), dtype=bool)
        fits = texts.found(marker.pattern, ~told[column])
        made[column][fits] = marker.value
        told[column] |= fits
    return {column: made[column] for column in sorted(made) if told[column].any()}
