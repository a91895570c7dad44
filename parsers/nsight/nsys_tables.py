"""The tables of an Nsight Systems export: names, enumerations, times and ids as they are meant.

Tables are written only where something was recorded, and columns come and go between versions:
everything is asked for by name, and what is not there is unknown. Times in the file count from the
start of the session; here they are on the UTC clock, so that several files lie side by side.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from traceroof.ingest.sqlite import UNKNOWN, Database, Whole

Codes = npt.NDArray[np.int32]

KERNEL: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY: Final = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET: Final = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPH: Final = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
RUNTIME: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
STRINGS: Final = "StringIds"

#: What tables of an export are called, one of which every version has.
_OWN: Final = frozenset({"TARGET_INFO_SESSION_START_TIME", "META_DATA_EXPORT", "EXPORT_META_DATA"})

# Labels of Nsight Systems for exports without tables of enumerations (before 2022.4).
_COPIES: Final = {
    1: "Host-to-Device", 2: "Device-to-Host", 3: "Host-to-Array", 4: "Array-to-Host",
    5: "Array-to-Array", 6: "Array-to-Device", 7: "Device-to-Array", 8: "Device-to-Device",
    9: "Host-to-Host", 10: "Peer-to-Peer", 11: "Unified Host-to-Device",
    12: "Unified Device-to-Host", 13: "Unified Device-to-Device",
}  # fmt: skip
_MEMORIES: Final = {
    0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed", 5: "Device Static",
    6: "Managed Static",
}  # fmt: skip
_OVERHEADS: Final = {
    2: "OVERHEAD_DRIVER_COMPILER", 3: "OVERHEAD_CUPTI_BUFFER_FLUSH",
    4: "OVERHEAD_CUPTI_INSTRUMENTATION", 5: "OVERHEAD_CUPTI_RESOURCE",
    6: "OVERHEAD_RUNTIME_TRIGGERED_MODULE_LOADING", 7: "OVERHEAD_LAZY_FUNCTION_LOADING",
    8: "OVERHEAD_COMMAND_BUFFER_FULL",
}  # fmt: skip
_EVENTS: Final = {59: "NvtxPushPopRange", 60: "NvtxStartEndRange", 75: "NvtxDomainCreate"}


def is_export(tables: frozenset[str]) -> bool:
    """Whether tables of these names make an Nsight Systems export."""
    return "StringIds" in tables and bool(tables & _OWN)


def process_of(global_id: Whole) -> Whole:
    """The process of a globalPid or globalTid: bits 24 to 47; UNKNOWN stays."""
    return np.where(global_id == UNKNOWN, UNKNOWN, (global_id >> 24) & 0xFFFFFF)


def thread_of(global_id: Whole) -> Whole:
    """The thread of a globalTid: bits 0 to 23; UNKNOWN stays."""
    return np.where(global_id == UNKNOWN, UNKNOWN, global_id & 0xFFFFFF)


@dataclass(frozen=True)
class Names:
    """Text by row: which of ``texts``, -1 for none."""

    codes: Codes
    texts: Sequence[str]


class Export:
    """One export. Only what is named in the source is read: never the environment."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def count(self, table: str) -> int:
        """Rows of a table; 0 where it is not there."""
        start = self.database.wholes(table, ("start",))["start"]
        return len(start)

    def timed(self, table: str, columns: Sequence[str]) -> dict[str, Whole]:
        """Columns of a table and its ``start`` and ``end``, ns on the UTC clock."""
        found = self.database.wholes(table, ("start", "end", *columns))
        for name in ("start", "end"):
            found[name] = self.on_clock(found[name])
        return found

    def on_clock(self, times: Whole) -> Whole:
        """Times of the file on the UTC clock. UNKNOWN where they cannot be."""
        known = (times > -_LONGEST_NS) & (times < _LONGEST_NS)
        return np.where(known, times + self.epoch_ns, UNKNOWN)

    @cached_property
    def epoch_ns(self) -> int:
        """When the session began, ns since 1970; 0 where the file does not say."""
        found = self.database.wholes("TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",))
        known = [int(one) for one in found["utcEpochNs"] if 0 < one < _LATEST_NS]
        return known[0] if known else 0

    def names(self, ids: Whole) -> Names:
        """The strings with these ids. Equal texts have one code."""
        distinct, place = np.unique(ids, return_inverse=True)
        wanted = [int(one) for one in distinct if one != UNKNOWN]
        found = self.database.texts(STRINGS, wanted)
        texts: dict[str, int] = {}
        code = np.full(len(distinct), -1, dtype=np.int32)
        for at, key in enumerate(distinct.tolist()):
            if key in found:
                code[at] = texts.setdefault(found[key], len(texts))
        return Names(code[place.reshape(-1)], list(texts))

    @cached_property
    def copy_kinds(self) -> Mapping[int, str]:
        return _COPIES | self._enumeration("ENUM_CUDA_MEMCPY_OPER", "label")

    @cached_property
    def memory_kinds(self) -> Mapping[int, str]:
        named = _MEMORIES | self._enumeration("ENUM_CUDA_MEM_KIND", "label")
        return {key: name for key, name in named.items() if name != "Unknown"}

    @cached_property
    def overhead_kinds(self) -> Mapping[int, str]:
        """CUPTI's names of the kinds of overhead: those of the profiler's own have CUPTI in them."""
        return _OVERHEADS | self._enumeration("ENUM_CUPTI_OVERHEAD_TYPE", "name")

    def event_types(self, name: str) -> list[int]:
        """The numbers of an NVTX event type."""
        known = _EVENTS | self._enumeration("ENUM_NSYS_EVENT_TYPE", "name")
        return [number for number, one in known.items() if one == name]

    def _enumeration(self, table: str, what: str) -> dict[int, str]:
        rows = self.database.read(table, ("id", what))
        pairs = zip(rows.get("id", ()), rows.get(what, ()), strict=False)
        return {key: name for key, name in pairs if isinstance(key, int) and isinstance(name, str)}

    @cached_property
    def process_names(self) -> Mapping[int, str]:
        """Programs by globalPid, without their folders. A process that became another program has
        several names: the launcher's own says nothing."""
        rows = self.database.read("PROCESSES", ("globalPid", "name"))
        found: dict[int, str] = {}
        for key, name in zip(rows.get("globalPid", ()), rows.get("name", ()), strict=False):
            plain = Path(name).name if isinstance(name, str) else ""
            if isinstance(key, int) and plain and not plain.startswith("nsys"):
                found[key] = plain
        return found


# A session of a year, and a clock of the year 2200, are broken.
_LONGEST_NS: Final = 366 * 24 * 3600 * 10**9
_LATEST_NS: Final = 7_258_118_400 * 10**9
