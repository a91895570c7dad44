"""A history as CSV for dashboards: one row per run and series, safe to open in a spreadsheet."""

import csv
import io

import numpy as np

from traceroof.core.units import no_commands
from traceroof.history.history import History
from traceroof.report.run.csv import cell

_COLUMNS = (
    "run", "name", "when", "commit", "branch", "dirty", "level", "series", "unit", "value",
    "launches", "change_pct",
)  # fmt: skip


def render(history: History) -> str:
    """Rows by run, oldest first; change_pct where a change begins with the run."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(_COLUMNS)
    changed = {(one.level, one.series, one.at): one.point.ratio * 100 for one in history.changes}
    for at, run in enumerate(history.runs):
        origin = run.origin
        of_run = (run.run, run.name, run.when, origin.commit, origin.branch, origin.dirty)
        for one in history.series:
            if np.isnan(one.values[at]):
                continue
            launches = float(one.launches[at])
            row = (
                *of_run, one.level, one.name, one.unit, float(one.values[at]),
                None if np.isnan(launches) else launches,
                changed.get((one.level, one.name, at)),
            )  # fmt: skip
            writer.writerow([cell(value) for value in row])
    return no_commands(buffer.getvalue())
