"""Clock and power logs of ``dcgmi dmon``."""

from traceroof.parsers.clock_logs.layouts import Rows, table_rows
from traceroof.parsers.clock_logs.reader import ClockLogReader, Layout, layout

_HEADER = layout(table_rows, r"^#\s*entity\s+[a-z]")
# Time since the driver came up, where others print the share of a sample.
_COUNTERS = ("PVIOL", "TVIOL")


def _rows(text: str) -> Rows:
    found = _HEADER.rows(text)
    named = [
        (tuple(f"{name} since" if name in _COUNTERS else name for name in names), cells)
        for names, cells in found.found
    ]
    return Rows(named, found.broken)


PARSER = ClockLogReader(
    name="dcgmi",
    title="dcgmi dmon: fields of DCGM, logged beside a run",
    collect=("dcgmi dmon -e 100,101,112,150,155,203 -d 100 > clocks.txt & COMMAND; kill $!"),
    layouts=(Layout(_HEADER.mark, _rows),),
)
