"""Which of AMD's tools wrote an SQLite database."""

import re
from collections.abc import Iterable
from enum import Enum
from pathlib import Path

from traceroof.core import regex
from traceroof.ingest.sqlite import table_names

#: What the tables of a rocpd database are called: a name, and the run's id behind it.
ROCPD_TABLE = regex.compile(r"rocpd_([a-z_]+?)(_[0-9a-f]{8}_[0-9a-f_]{20,})?$", re.IGNORECASE)


class Schema(Enum):
    """Which tool wrote a database."""

    ROCPD = "rocpd"
    RPD = "rpd"
    ROCPROF_V1 = "rocprof v1"
    HIPPROF = "hipprof"


def schema_of(head: bytes, path: Path) -> Schema | None:
    """Which tool wrote the database at ``path``; None for any other file or database."""
    return _schema(table_names(head, path))


def _schema(names: Iterable[str]) -> Schema | None:
    found = set(names)
    rocpd = {match.group(1).lower() for name in found if (match := ROCPD_TABLE.match(name))}
    if {"kernel_dispatch", "info_agent"} <= rocpd:
        return Schema.ROCPD
    if {"op", "api"} <= rocpd:
        return Schema.RPD
    if "STR_TABLE" in found and any(name.startswith("HIPOPS_") for name in found):
        return Schema.HIPPROF
    if "KERN" in found or ("OPS" in found and found & {"HIP", "HSA", "COPY"}):
        return Schema.ROCPROF_V1
    return None
