"""Nsight Systems exports made here, table by table, in the column names of any version."""

import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

PROCESS = (1 << 48) | (4711 << 24)
THREAD = PROCESS | 4712
EPOCH = 1_700_000_000_000_000_000

KERNEL, MEMCPY, MEMSET = (f"CUPTI_ACTIVITY_KIND_{name}" for name in ("KERNEL", "MEMCPY", "MEMSET"))
RUNTIME, GRAPH = "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"

H100 = {
    "id": 0, "cuDevice": 0, "name": "NVIDIA H100 80GB HBM3", "smCount": 132,
    "totalMemory": 84_929_347_584, "memoryBandwidth": 3_352_320_000_000,
    "clockRate": 1_980_000_000, "l2CacheSize": 52_428_800, "computeMajor": 9, "computeMinor": 0,
    "chipName": "GH100", "busLocation": "0000:1b:00.0",
}  # fmt: skip
LAUNCH = {
    "gridX": 4, "gridY": 1, "gridZ": 1, "blockX": 256, "blockY": 1, "blockZ": 1,
    "registersPerThread": 32, "staticSharedMemory": 1024, "dynamicSharedMemory": 0,
}  # fmt: skip


class Writer:
    """Fills an export; a table is made when its first row is added, with that row's columns."""

    def __init__(self, path: Path, *, bare: bool = False) -> None:
        path.unlink(missing_ok=True)
        self.connection = sqlite3.connect(path)
        self.connection.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        self._strings: dict[str, int] = {}
        if not bare:
            self.add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=EPOCH, utcTime="", localTime="")
            self.add("META_DATA_EXPORT", name="EXPORT_SCHEMA_VERSION", value="3.24.0")

    def string(self, text: str) -> int:
        """The id of a text."""
        if text not in self._strings:
            self._strings[text] = len(self._strings) + 1
            self.add("StringIds", id=self._strings[text], value=text)
        return self._strings[text]

    def add(self, table: str, **values: Any) -> None:
        names = ", ".join(f'"{name}"' for name in values)
        self.connection.execute(f"CREATE TABLE IF NOT EXISTS {table} ({names})")
        marks = ", ".join("?" * len(values))
        self.connection.execute(
            f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(values.values())
        )

    def gpu(self, **more: Any) -> None:
        self.add("TARGET_INFO_GPU", **(H100 | more))

    def call(
        self, name: str, start: int, end: int, correlation: int = 0, thread: int = THREAD
    ) -> None:
        self.add(
            RUNTIME, start=start, end=end, globalTid=thread, correlationId=correlation,
            nameId=self.string(name), returnValue=0,
        )  # fmt: skip

    def kernel(self, name: str, start: int, end: int, correlation: int = 0, **more: Any) -> None:
        text = self.string(name)
        values = {
            "start": start, "end": end, "deviceId": 0, "contextId": 1, "streamId": 7,
            "correlationId": correlation, "globalPid": PROCESS, "demangledName": text,
            "shortName": text, "graphNodeId": None, **LAUNCH,
        }  # fmt: skip
        self.add(KERNEL, **(values | more))

    def copy(self, start: int, end: int, correlation: int = 0, **more: Any) -> None:
        values = {
            "start": start, "end": end, "deviceId": 0, "contextId": 1, "streamId": 7,
            "correlationId": correlation, "globalPid": PROCESS, "bytes": 4096, "copyKind": 1,
            "srcKind": 0, "dstKind": 2,
        }  # fmt: skip
        self.add(MEMCPY, **(values | more))

    def range(self, text: str | None, start: int, end: int | None, **more: Any) -> None:
        values = {
            "start": start, "end": end, "eventType": 59, "text": text, "globalTid": THREAD,
            "textId": None, "domainId": 0,
        }  # fmt: skip
        self.add("NVTX_EVENTS", **(values | more))

    def enumeration(self, table: str, rows: Mapping[int, str] | Iterable[tuple[int, str]]) -> None:
        for number, label in dict(rows).items():
            self.add(table, id=number, name=label, label=label)

    def close(self) -> None:
        self.connection.commit()
        self.connection.close()
