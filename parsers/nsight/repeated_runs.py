"""A program that ran twice into one file: second runs told from rows that are repeated."""

from collections import Counter

import numpy as np
import numpy.typing as npt

from traceroof.parsers.nsight.launches import Launches
from traceroof.parsers.nsight.rows import Ints, Rows


def split_runs(launches: Launches, rows: Rows) -> Rows:
    """Tell second runs from repeated rows where a launch has a metric twice.

    A run of the program that was appended repeats the launch's first metric; its rows with
    other values make a launch of their own. Rows that say the same again are dropped.
    """
    repeated = rows.repeated(len(launches.slots))
    if not repeated.any():
        return rows
    keep = np.ones(len(rows), dtype=bool)
    affected = np.unique(rows.launch[repeated])
    member_order = np.argsort(rows.launch, kind="stable")
    starts = np.searchsorted(rows.launch[member_order], affected, side="left")
    ends = np.searchsorted(rows.launch[member_order], affected, side="right")
    for launch, start, end in zip(affected.tolist(), starts.tolist(), ends.tolist(), strict=True):
        _split_launch(launches, launch, member_order[start:end], rows, keep)
    for verdict in launches.verdicts:
        if verdict.after >= 0 and rows.origin(verdict.after) == verdict.launch:
            verdict.launch = int(rows.launch[verdict.after])
    rows = rows.kept(keep)
    _sort_launches(launches, rows)
    return rows


def _sort_launches(launches: Launches, rows: Rows) -> None:
    """Bring launches back into the order of their first metric row."""
    first = np.full(len(launches.found), len(rows), dtype=np.int64)
    np.minimum.at(first, rows.launch, np.arange(len(rows)))
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    launches.found = [launches.found[launch] for launch in order.tolist()]
    rows.launch = rank[rows.launch].astype(np.int32)
    for verdict in launches.verdicts:
        verdict.launch = int(rank[verdict.launch])
    launches.sources = [(int(rank[launch]), table) for launch, table in launches.sources]


def _split_launch(
    launches: Launches, launch: int, members: Ints, rows: Rows, keep: npt.NDArray[np.bool_]
) -> None:
    """Deal with one launch that has a metric twice. members: its rows, in file order."""
    slots = rows.slot[members].tolist()
    texts = rows.texts(members)
    starts_again = slots[0] in slots[1:]
    first: dict[int, str] = {}
    differs = any(
        first.setdefault(slot, text) != text for slot, text in zip(slots, texts, strict=True)
    )
    if starts_again and (differs or launches.found[launch].runs):
        runs = _run_numbers(slots)
        last = max(runs)
        numbers = [launch, *(launches.add_launch(launches.found[launch]) for _ in range(last))]
        rows.move(members, np.array([numbers[run] for run in runs], dtype=np.int64))
        if not launches.found[launch].runs:
            launches.note(
                "a launch number that comes again with other values read as another run",
                last,
                severe=False,
            )
        return
    said: set[tuple[int, str]] = set()
    for row, slot, text in zip(members.tolist(), slots, texts, strict=True):
        keep[row] = (slot, text) not in said
        said.add((slot, text))
    launches.note("repeated metric rows ignored", int((~keep[members]).sum()), severe=False)


def _run_numbers(slots: list[int]) -> list[int]:
    """Which run of the program each row of a launch belongs to, counted from 0.

    The n-th row of a metric belongs to the n-th run; a metric that comes once belongs to the
    run that was last seen, so that runs with different metrics stay apart.
    """
    total, times = Counter(slots), Counter[int]()
    runs: list[int] = []
    last = 0
    for slot in slots:
        run = times[slot] if total[slot] > 1 else last
        times[slot] += 1
        last = max(last, run)
        runs.append(run)
    return runs
