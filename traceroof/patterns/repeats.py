"""Launches that come again and again: one kernel in a row, and loops around indexing."""

import numpy as np

from traceroof.patterns.fusion_facts import (
    LONGEST_PERIOD,
    REPEATS,
)
from traceroof.patterns.launch_order import Launches
from traceroof.patterns.regions import (
    Found,
    Ints,
    Mask,
    disjoint,
    launches_saved,
    runs,
)

_LONGEST_SERIAL_NS = 100_000

_INDEXING = frozenset(
    {"index", "index_select", "index_put_", "_index_put_impl_", "gather", "masked_select", "take"}
)


def serial(rows: Launches, free: Mask) -> Found:
    if not len(rows.at):
        return Found.none()
    short = (rows.time <= _LONGEST_SERIAL_NS) & rows.kind(
        "stream", "compiled", "reduction", "norm", "batch norm", "softmax", "product", "other"
    )
    again = np.zeros(len(rows.at), dtype=bool)
    again[1:] = short[1:] & short[:-1] & (rows.group[1:] == rows.group[:-1])
    again[1:] &= rows.lane[1:] == rows.lane[:-1]
    first, last = runs(again, REPEATS - 1)
    return launches_saved(rows, first - 1, last, np.ones(len(first), dtype=np.int64))


def loops(rows: Launches, free: Mask) -> Found:
    if not rows.operation(_INDEXING).any():
        return Found.none()
    indexing = rows.operation(_INDEXING)
    best = np.zeros(len(rows.at), dtype=bool)
    edges: list[tuple[Ints, Ints, Ints]] = []
    for period in range(1, LONGEST_PERIOD + 1):
        again = np.zeros(len(rows.at), dtype=bool)
        again[period:] = rows.group[period:] == rows.group[:-period]
        again[period:] &= rows.lane[period:] == rows.lane[:-period]
        first, last = runs(again, (REPEATS - 1) * period)
        first = first - period
        indexed = rows.summed(indexing, first, last) * period >= last - first + 1
        taken = rows.summed(best, first, last) > 0
        first, last = first[indexed & ~taken], last[indexed & ~taken]
        for one, other in zip(first.tolist(), last.tolist(), strict=True):
            best[one : other + 1] = True
        edges.append((first, last, np.full(len(first), period)))
    first, last, periods = (np.concatenate(one) for one in zip(*edges, strict=True))
    order = np.argsort(first)
    order = order[disjoint(first[order], last[order])]
    return launches_saved(rows, first[order], last[order], periods[order])
