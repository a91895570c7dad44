"""Nsight Systems reports (.nsys-rep, .qdrep): closed formats, refused with the command that exports
them."""

import shlex
from pathlib import Path
from typing import Final, Literal

from traceroof.core.recording import Recording
from traceroof.errors import TraceroofError
from traceroof.ingest.sqlite import MAGIC
from traceroof.parser import Options, Progress

_REPORTS: Final = (".nsys-rep", ".qdrep")
_STREAM: Final = ".qdstrm"


class NsightSystemsReport:
    """Refuses reports of Nsight Systems."""

    name = "nsight-systems-report"
    title = "Nsight Systems reports (.nsys-rep, .qdrep), to be exported first"
    gives = ""
    collect = ""

    def recognises(self, head: bytes, path: Path) -> Literal[0, 1, 2]:
        if path.suffix not in (*_REPORTS, _STREAM) or not head:
            return 0
        # A database under a report's name is a database; a text is whatever it says.
        binary = b"\x00" in head[:4096] and not head.startswith(MAGIC)
        return 2 if binary else 0

    def read(self, source: Path, progress: Progress, options: Options) -> Recording:
        if source.suffix == _STREAM:
            raise TraceroofError(
                f"{source} is a stream that Nsight Systems has not yet made a report of",
                f"import it with QdstrmImporter -i {shlex.quote(str(source))}, then export the report",
            )
        database = shlex.quote(str(source.with_suffix(".sqlite")))
        raise TraceroofError(
            f"{source} is a report of Nsight Systems, whose format is closed",
            f"nsys export --type sqlite -o {database} {shlex.quote(str(source))}",
        )


PARSER = NsightSystemsReport()
