"""Clock and power logs of ``amd-smi metric`` and ``amd-smi monitor``."""

from traceroof.parsers.clock_logs.layouts import csv_rows, table_rows
from traceroof.parsers.clock_logs.reader import ClockLogReader, layout

PARSER = ClockLogReader(
    name="amd-smi",
    title="amd-smi: metric and monitor, as CSV or text, logged beside a run",
    collect=("amd-smi monitor -p -t -u -m -V --csv -w 1 > clocks.csv & COMMAND; kill $!"),
    layouts=(
        layout(
            csv_rows,
            r"^(?:timestamp,)?gpu,[^\n]*(?:power_usage|socket_power|gfx_clock|gfx_clk|gfx_0_clk"
            r"|gfx_activity|hotspot)",
        ),
        layout(
            table_rows, r"^[ \t]*(?:timestamp\s+)?gpu\s+(?:xcp\s+)?(?:power|gpu_t|gfx_clk|gfx%)"
        ),
    ),
)
