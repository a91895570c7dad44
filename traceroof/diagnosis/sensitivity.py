"""How near a verdict is to its thresholds: would it change if they moved by a tenth?

A threshold that moves by a factor is the same as its column moving by the inverse, so a condition
is asked once more on copies of its subjects in which one column after the other is a little larger
or smaller. Nothing has to know where a rule keeps its numbers: plug-ins are judged alike.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from traceroof.core.facts import Column, Facts, unknown
from traceroof.hardware.ceilings import Attainable
from traceroof.kernels import bound_class
from traceroof.rule import Rule

#: How far thresholds are moved, as a share of them.
STEP = 0.1

#: Stands for a column where the verdict holds against each threshold alone, not against all.
SEVERAL = "several"

#: Optional column of the facts: the class that a kernel group is near to, None where none is.
CLASS_NEAR = "class_near"

_FACTORS = (1 / (1 + STEP), 1 / (1 - STEP))

# Counts up to here have no neighbour within a tenth, and 0 and 1 are mostly flags.
_SMALL_COUNT = 4

# Numbers that name something: there is nothing between one and the next.
_VERSIONS = ("compute_capability",)


def moved(column: Column, factor: float) -> Column:
    """A column of numbers, all larger or smaller by a factor; small counts as they are."""
    counts = (column == np.round(column)) & (np.abs(column) <= _SMALL_COUNT)
    return np.asarray(np.where(counts, column, column * factor))


def _share_moved(column: Column, factor: float) -> Column:
    """A percentage moved: one of at most 100 stays so, and moves by what it leaves of the whole.

    "Less than all" is then no threshold that 99 % is near to.
    """
    free = column + (100 - column) * (1 - 1 / factor)
    beyond = (column <= 100) & (column * factor > 100)
    return np.asarray(np.where(beyond, free, moved(column, factor)))


def near(rule: Rule, facts: Facts, rows: npt.NDArray[np.int64]) -> list[str | None]:
    """Per row: the column whose threshold would silence the rule if it moved by a tenth.

    rows: subjects on which the rule fires. SEVERAL where only all thresholds together would, the
    column primary_class where the class is that near; None where the verdict stands.
    """
    if not len(rows):
        return []
    chosen = np.asarray(rows)
    seen = facts.only((*rule.columns, CLASS_NEAR))
    columns = {name: getattr(seen, name)[chosen] for name in seen.names()}
    variants = _variants(rule, columns)
    if not variants:
        return [None] * len(chosen)
    tiled = {
        name: np.concatenate([changed.get(name, values) for _, changed in variants])
        for name, values in columns.items()
    }
    asked = rule.sees(Facts(tiled, len(chosen) * len(variants)))
    holds = np.asarray(rule.when(asked), dtype=bool)
    if rule.applies:
        holds &= np.asarray(rule.applies(asked), dtype=bool)
    silenced = ~holds.reshape(len(variants), len(chosen))
    first = np.argmax(silenced, axis=0)
    return [
        variants[which][0] if silenced[which, row] else None
        for row, which in enumerate(first.tolist())
    ]


def _variants(rule: Rule, columns: Mapping[str, Column]) -> list[tuple[str, Mapping[str, Column]]]:
    """What may change, each with the columns that then read otherwise: one at a time, then all."""
    numbers = [
        name
        for name in rule.columns
        if columns[name].dtype != object
        and name not in _VERSIONS
        and not np.isnan(columns[name]).all()
    ]
    single: list[tuple[str, Mapping[str, Column]]] = [
        (name, {name: _moved(name, columns[name], factor)})
        for name in numbers
        for factor in _FACTORS
    ]
    nearest = columns[CLASS_NEAR]
    if "primary_class" in rule.columns and nearest.dtype == object:
        here = np.where(unknown(nearest), columns["primary_class"], nearest)
        single.append(("primary_class", {"primary_class": here}))
    together: list[tuple[str, Mapping[str, Column]]] = [
        (SEVERAL, {name: _moved(name, columns[name], factor) for name in numbers})
        for factor in _FACTORS
    ]
    return single + (together if len(numbers) > 1 else [])


def _moved(name: str, column: Column, factor: float) -> Column:
    return (_share_moved if name.endswith("_pct") else moved)(column, factor)


def near_classes(
    facts: Facts, attainable: Attainable
) -> tuple[npt.NDArray[np.object_], npt.NDArray[np.object_]]:
    """Per kernel group: the class that it would have, and the column whose threshold decides it.

    Both are None where no threshold of the classes, moved by a tenth, changes the class.
    """
    seen = facts.only(bound_class.COLUMNS)
    base = {name: getattr(seen, name) for name in seen.names()}
    ours = bound_class.primary_class(seen, attainable)
    other = np.full(len(facts), None, dtype=object)
    by = other.copy()
    for name in _CLASS_COLUMNS:
        for factor in _FACTORS:
            changed = Facts({**base, name: moved(base[name], factor)}, len(facts))
            theirs = bound_class.primary_class(changed, attainable)
            new = (theirs != ours) & unknown(other)
            other[new] = theirs[new]
            by[new] = name
    return other, by


# The figures that the class is read from; the rest of classes.COLUMNS is words and a rank.
_CLASS_COLUMNS = (
    "compute_pct", "memory_pct", "dram_pct", "l2_throughput_pct", "l1_pct", "median_ns",
)  # fmt: skip
