"""What traceroof itself wrote: recognised, and refused with what to give instead.

An exported trace looks like a profiler's, and has lost what no trace holds: counters, inputs, notes.
"""

from pathlib import Path
from typing import Literal

from traceroof.core import regex
from traceroof.core.recording import Recording
from traceroof.errors import TraceroofError
from traceroof.parser import HEAD_BYTES, Options, Progress

_SCHEMA = regex.compile(
    rb'(?:\xef\xbb\xbf)?\s*\{\s*(?:"traceroof"\s*:\s*\{\s*)?"schema"\s*:\s*"traceroof/([a-z-]+)/'
)
_WORDS = {
    b"perfetto": "a trace that `traceroof export` wrote for Perfetto",
    b"diagnosis": "a diagnosis that traceroof wrote as JSON",
    b"comparison": "a comparison that traceroof wrote as JSON",
}


class OwnOutput:
    """Refuses traceroof's own files, by name."""

    name = "traceroof-output"
    title = "files that traceroof wrote"
    gives = ""
    collect = ""

    def recognises(self, head: bytes, path: Path) -> Literal[0, 1, 2]:
        return 2 if _SCHEMA.match(head) else 0

    def read(self, source: Path, progress: Progress, options: Options) -> Recording:
        from traceroof.ingest import decompress

        found = _SCHEMA.match(decompress.head(source, HEAD_BYTES))
        words = _WORDS.get(found[1] if found else b"", "a file that traceroof wrote")
        raise TraceroofError(
            f"{source} is {words}: it no longer holds all that the profiler wrote",
            "give the profiler's own file; the store keeps runs (`traceroof runs`)",
        )


PARSER = OwnOutput()
