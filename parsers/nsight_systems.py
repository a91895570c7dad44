"""Nsight Systems: the SQLite database that ``nsys export --type sqlite`` and ``nsys stats`` write.

Schemas 2.7 (2021.5) to 3.25 (2026.2) have been read. The environment of the profiled program and
the settings of the capture lie in the file too and are never read.
"""

from pathlib import Path
from typing import Final, Literal

from traceroof.core.recording import Recording
from traceroof.ingest.sqlite import table_names
from traceroof.parser import Options, Progress
from traceroof.parsers.nsight.nsys_tables import is_export

FORMAT: Final = "nsight-systems"


class NsightSystems:
    """Reader of Nsight Systems exports."""

    name = FORMAT
    title = "Nsight Systems: SQLite export of a report (.sqlite)"
    gives = "one row per kernel, copy and fill: times, launch, NVTX ranges, step; host calls"
    collect = (
        "nsys profile --trace=cuda,nvtx,osrt --cuda-graph-trace=node -o report COMMAND; "
        "nsys export --type sqlite -o report.sqlite report.nsys-rep"
    )

    def recognises(self, head: bytes, path: Path) -> Literal[0, 1, 2]:
        return 2 if is_export(table_names(head, path)) else 0

    def read(self, source: Path, progress: Progress, options: Options) -> Recording:
        from traceroof.parsers.nsight.nsys_export import read_export

        return read_export(source, progress, options)


PARSER = NsightSystems()
