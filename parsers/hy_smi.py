"""Clock and power logs of Hygon's ``hy-smi``."""

from traceroof.parsers.clock_logs.layouts import table_rows
from traceroof.parsers.clock_logs.reader import ClockLogReader, layout

PARSER = ClockLogReader(
    name="hy-smi",
    title="hy-smi: its table, logged beside a run",
    collect=("while sleep 1; do hy-smi; done > clocks.txt & COMMAND; kill $!"),
    layouts=(layout(table_rows, r"^[HD]CU\s+temp\s"),),
)
