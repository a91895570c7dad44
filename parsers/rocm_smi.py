"""Clock and power logs of ``rocm-smi``."""

import re

from traceroof.core import regex
from traceroof.parsers.clock_logs.layouts import csv_rows, keyed_rows, table_rows
from traceroof.parsers.clock_logs.reader import ClockLogReader, Layout, layout

_KEYS = regex.compile(
    r"(?m)^GPU\[\d+\]\s*:\s*(?:temperature|.*power|gpu use|[ms]clk)", re.IGNORECASE
)

PARSER = ClockLogReader(
    name="rocm-smi",
    title="rocm-smi: CSV, table and key lines, logged beside a run",
    collect=("while sleep 1; do rocm-smi -P -t -u -c --csv; done > clocks.csv & COMMAND; kill $!"),
    layouts=(
        layout(
            csv_rows,
            r"^device,[^\n]*(?:temperature \(|power \(W\)|gpu use \(%\)|clock (?:speed|level):)",
        ),
        layout(table_rows, r"^(?:device\s+node|gpu\s+temp \()"),
        Layout(_KEYS, keyed_rows),
    ),
)
