"""Clock and power logs of ``nvidia-smi``: --query-gpu as CSV, and dmon."""

from traceroof.parsers.clock_logs.layouts import csv_rows, table_rows
from traceroof.parsers.clock_logs.reader import ClockLogReader, layout

PARSER = ClockLogReader(
    name="nvidia-smi",
    title="nvidia-smi: --query-gpu … --format=csv and dmon, logged beside a run",
    collect=(
        "nvidia-smi --query-gpu=timestamp,index,name,clocks.sm,clocks.mem,power.draw,"
        "temperature.gpu,utilization.gpu,clocks_event_reasons.active "
        "--format=csv -lms 100 > clocks.csv & COMMAND; kill $!"
    ),
    layouts=(
        # No other tool's columns are named so; "noheader" leaves nothing to read by.
        layout(
            csv_rows,
            r"^[^\n]*(?:power\.draw|temperature\.gpu|utilization\.gpu|clocks(?:\.current)?\.\w+ \[MHz\]"
            r"|clocks_(?:throttle|event)_reasons\.)",
        ),
        layout(table_rows, r"^#\s*(?:date\s+)?(?:time\s+)?gpu\s+[a-z]"),
    ),
)
