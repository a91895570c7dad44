"""Rows of tables with a row a counter whose identity is damaged: they are no dispatch of their own."""

import numpy as np

from traceroof.core.recording import Note
from traceroof.parsers.amd.text import TextTable
from traceroof.parsers.amd.values import Integers, Mask


def row_numbers(source: TextTable, *names: str) -> Integers:
    """A number per row, equal for rows that have the same cells in these columns (squashed)."""
    import pandas as pd

    codes = np.zeros(source.num_rows, dtype=np.int64)
    for name in names:
        cells = source.text(name)
        if cells is not None:
            part = np.asarray(cells.combine_chunks().dictionary_encode().indices, dtype=np.int64)
            mixed = codes * (int(part.max(initial=0)) + 1) + part
            codes = pd.factorize(mixed)[0].astype(np.int64)
    return codes


def fitting_rows(source: TextTable, dispatch: Integers) -> tuple[Mask, list[Note]]:
    """Which rows of a table with a row a counter fit the others of their dispatch, and a note.

    dispatch: a number per row, equal for equal identity. A row whose process, agent, number or
    name is damaged would be a dispatch of its own: it is told by the dispatch that lacks it, at the
    same times or under the same number.
    """
    import pandas as pd

    fits = np.ones(len(dispatch), dtype=bool)
    size = np.bincount(dispatch) if len(dispatch) else np.zeros(0, dtype=np.int64)
    usual = int(np.bincount(size[size > 0]).argmax()) if len(size) else 0
    if not ((size > 0) & (size < usual)).any():
        return fits, []
    common = np.zeros(len(size), dtype=np.int64)
    for name in ("processid", "agentid", "gpuid", "kernelname"):
        if source.has(name):
            number = row_numbers(source, name)
            common[dispatch] += np.bincount(number)[number]
    for identity in (
        ("starttimestamp", "endtimestamp"),
        ("dispatchid", "processid", "guid"),
    ):
        if not source.has(identity[0]):
            continue
        place = row_numbers(source, *identity)
        frame = pd.DataFrame({"dispatch": dispatch, "place": place})[fits]
        parts = frame.value_counts(["place", "dispatch"], sort=False).rename("rows").reset_index()
        parts = parts[parts["rows"] < usual]
        whole = parts.groupby("place")["rows"].transform("sum") <= usual
        # Of equal parts the one in the process, on the agent and of the kernel of most rows.
        parts["common"] = common[parts["dispatch"]]
        parts = parts[whole].sort_values(
            ["rows", "common", "dispatch"], ascending=[False, False, True]
        )
        stray = parts[parts.duplicated("place")]["dispatch"].to_numpy()
        fits &= ~np.isin(dispatch, stray)
    stray_rows = int((~fits).sum())
    if not stray_rows:
        return fits, []
    text = "rows whose process, agent, number or name does not fit their dispatch were left out"
    return fits, [Note(text, stray_rows)]
