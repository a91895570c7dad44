"""What a launch is for beyond its category: casts, layout changes, cache writes, samplers.

The knowledge is data: ``roles.toml``, ordered rows of patterns, each with samples that a test
checks. Rules add up the time of a role over the launches of a category or of the run.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core import regex
from traceroof.core.dictionary import Coded, coded, factorized
from traceroof.core.text_search import Texts
from traceroof.core.toml_tables import toml_table
from traceroof.operators.operands import element_type

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Role:
    """One row of the table; what is given must all hold."""

    name: str
    categories: frozenset[str]
    operator: re.Pattern[str] | None
    kernel: re.Pattern[str] | None
    within: re.Pattern[str] | None
    types: str
    least_columns: int
    samples: tuple[tuple[str, ...], ...]

    def fits(
        self,
        category: str,
        operator: str,
        kernel: str,
        within: str,
        types: str,
        shapes: str = "",
    ) -> bool:
        """Whether one launch has this role. types: "differ", "same" or "" where not recorded.
        shapes: as recorded."""
        return (
            (not self.categories or category in self.categories)
            and (not self.least_columns or _columns(shapes) >= self.least_columns)
            and (not self.types or types == self.types)
            and all(
                pattern is None or pattern.search(text) is not None
                for pattern, text in (
                    (self.operator, operator),
                    (self.kernel, kernel),
                    (self.within, within),
                )
            )
        )


@cache
def roles() -> tuple[Role, ...]:
    """The table in match order."""

    def pattern(row: Mapping[str, Any], key: str) -> re.Pattern[str] | None:
        return regex.compile(row[key], re.VERBOSE) if key in row else None

    return tuple(
        Role(
            name=row["name"],
            categories=frozenset(row.get("category", ())),
            operator=pattern(row, "operator"),
            kernel=pattern(row, "kernel"),
            within=pattern(row, "within"),
            types=row.get("types", ""),
            least_columns=row.get("least_columns", 0),
            samples=tuple(tuple(sample) for sample in row["samples"]),
        )
        for row in toml_table("traceroof.patterns", "roles.toml")["role"]
    )


@cache
def names() -> tuple[str, ...]:
    """The roles that there are, in the table's order."""
    return tuple(dict.fromkeys(role.name for role in roles()))


def roles_of(kernels: pa.Table, categories: Sequence[str]) -> Coded:
    """The role of every row of a kernel table, null where it has none.

    Each distinct text is searched once, so the cost hardly grows with the number of rows.
    """
    category, known_categories = _coded(np.asarray(categories, dtype=object))
    kernel, kernel_names = _searched(kernels, "kernel_name")
    operator, operators = _searched(kernels, "operator")
    paths = [_searched(kernels, name) for name in ("module_path", "operator_path")]
    types_of, types = _types(kernels)
    columns_of, shapes = _texts(kernels, "input_shapes")
    columns = np.array([_columns(text) for text in shapes])
    result = np.full(kernels.num_rows, -1, dtype=np.int32)
    for role in roles():
        fits = result < 0
        if role.categories:
            fits &= _flags(one in role.categories for one in known_categories)[category]
        if role.least_columns:
            fits &= columns[columns_of] >= role.least_columns
        if role.types:
            fits &= _flags(one == role.types for one in types)[types_of]
        for pattern, codes, texts in (
            (role.operator, operator, operators),
            (role.kernel, kernel, kernel_names),
        ):
            # Nothing left to look for: the longest part of the work is saved.
            if pattern is not None and fits.any():
                fits &= texts.found(pattern)[codes]
        if role.within is not None and fits.any():
            around = np.zeros(kernels.num_rows, dtype=bool)
            for codes, texts in paths:
                around |= texts.found(role.within)[codes]
            fits &= around
        result[fits] = names().index(role.name)
    return Coded(result, list(names()))


def _flags(values: Iterable[bool]) -> Mask:
    return np.array(list(values), dtype=bool)


def _texts(kernels: pa.Table, name: str) -> tuple[npt.NDArray[np.int32], list[str]]:
    """A text column as numbers and the texts they stand for; the last is empty, for null."""
    column = coded(kernels[name])
    return column.codes, [*column.texts, ""]


def _searched(kernels: pa.Table, name: str) -> tuple[npt.NDArray[np.int32], Texts]:
    codes, texts = _texts(kernels, name)
    return codes, Texts(texts)


def _coded(values: npt.NDArray[np.object_]) -> tuple[npt.NDArray[np.int64], list[str]]:
    codes, texts = factorized(values)
    return codes, [str(text) for text in texts]


def _types(kernels: pa.Table) -> tuple[npt.NDArray[np.int32], list[str]]:
    """For copies: whether source and target have the same element type."""
    codes, texts = _texts(kernels, "input_dtypes")
    return codes, [_compared(text) for text in texts]


@lru_cache(maxsize=4096)
def _columns(recorded: str) -> int:
    """Columns of the first input; 0 where it is no matrix or was not recorded."""
    try:
        listed = json.loads(recorded) if recorded else []
    except ValueError:
        return 0
    first = listed[0] if isinstance(listed, list) and listed else None
    # Scores of attention have more dimensions than [sequence, word].
    last = first[-1] if isinstance(first, list) and len(first) == 2 else None
    return last if isinstance(last, int) else 0


@lru_cache(maxsize=4096)
def _compared(recorded: str) -> str:
    try:
        listed = json.loads(recorded) if recorded else []
    except ValueError:
        return ""
    if not isinstance(listed, list):
        return ""
    found = [element_type(entry) for entry in listed[:2] if isinstance(entry, str)]
    if len(found) < 2 or None in found:
        return ""
    return "same" if found[0] == found[1] else "differ"
