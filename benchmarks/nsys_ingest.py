"""How fast and in how much memory an Nsight Systems export is read.

    python benchmarks/nsys_ingest.py                       1 million kernels and as many calls
    python benchmarks/nsys_ingest.py --kernels 100000      fewer
    python benchmarks/nsys_ingest.py --database FILE       an export of your own

The database is made here, in the layout of Nsight Systems 2025.5: kernels of 40 names with as many
launch calls, one NVTX range around every ten launches, no index, as `nsys export` writes it. It is
read and diagnosed in processes of their own; CPU (user and system, import and exit included) and
peak memory are the operating system's figures. Bars: read in 6 s of CPU and 600 MB.
"""

import argparse
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

_TABLES = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, cuDevice INTEGER, smCount INTEGER,
  totalMemory INTEGER, memoryBandwidth INTEGER, clockRate INTEGER, l2CacheSize INTEGER,
  computeMajor INTEGER, computeMinor INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL,
  deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, greenContextId INTEGER,
  streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER,
  launchType INTEGER, cacheConfig INTEGER, registersPerThread INTEGER NOT NULL,
  gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL,
  blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL,
  staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL,
  localMemoryPerThread INTEGER NOT NULL, localMemoryTotal INTEGER NOT NULL,
  gridId INTEGER NOT NULL, sharedMemoryExecuted INTEGER, graphNodeId INTEGER,
  sharedMemoryLimitConfig INTEGER, graphId INTEGER, clusterX INTEGER, clusterY INTEGER,
  clusterZ INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL,
  eventClass INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL,
  returnValue INTEGER NOT NULL, callchainId INTEGER);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL,
  rangeId INTEGER, category INTEGER, color INTEGER, text TEXT, globalTid INTEGER,
  endGlobalTid INTEGER, textId INTEGER, domainId INTEGER);
"""
_PROCESS = (1 << 48) + (4711 << 24)
_THREAD = _PROCESS + 4712
_NAMES = 40
_LAUNCH = 1000


def write_database(path: Path, kernels: int) -> None:
    """An export with this many kernels, each launched by a call of its own."""
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(_TABLES)
        names = [(n, f"void kernel_{n}<float, {n}>(float*, int)") for n in range(_NAMES)]
        names += [(_LAUNCH, "cudaLaunchKernel_v7000"), (_LAUNCH + 1, "forward")]
        database.executemany("INSERT INTO StringIds VALUES (?, ?)", names)
        database.execute(
            "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000, '', '')"
        )
        database.execute(
            "INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H100 80GB HBM3', 0, 132, 84929347584,"
            " 3352320000000, 1980000000, 52428800, 9, 0)"
        )
        database.executemany(
            f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({', '.join('?' * 32)})",
            (
                (n * 5_000 + 3_000, n * 5_000 + 7_000 + n % 900, 0, 1, None, 7, n + 1, _PROCESS,
                 n % _NAMES, n % _NAMES, n % _NAMES, 1, 0, 64, 132 + n % 7, 1, 1, 256, 1, 1, 1024,
                 49152, 0, 0, n, 65536, None, 0, None, 1, 1, 1)
                for n in range(kernels)
            ),
        )  # fmt: skip
        database.executemany(
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, ?, ?, ?, 0, NULL)",
            ((n * 5_000, n * 5_000 + 2_500, _THREAD, n + 1, _LAUNCH) for n in range(kernels)),
        )
        database.executemany(
            "INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, NULL, NULL, NULL, NULL, ?, NULL, ?, 0)",
            ((n * 50_000, n * 50_000 + 49_000, _THREAD, _LAUNCH + 1) for n in range(kernels // 10)),
        )
    database.close()


_READ = "import sys, traceroof; print(traceroof.read([sys.argv[1]]).recording.kernels.num_rows)"


def measure(command: list[str]) -> tuple[float, float, float]:
    """CPU seconds, wall seconds and peak memory in MB of a process."""
    begun = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} failed")
    wall = time.perf_counter() - begun
    return usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * 1024 / 1e6


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--kernels", type=int, default=1_000_000)
    options.add_argument("--database", type=Path)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = given.database or Path(folder, "made.sqlite")
        if given.database is None:
            write_database(path, given.kernels)
        print(f"{path.name}: {path.stat().st_size / 1e6:,.0f} MB")
        print(f"{'':10}{'CPU s':>8}{'wall s':>8}{'peak MB':>9}")
        commands = {
            "read": [sys.executable, "-c", _READ, str(path)],
            "diagnose": [sys.executable, "-m", "traceroof", "diagnose", str(path)],
        }
        for name, command in commands.items():
            cpu, wall, peak = measure(command)
            print(f"{name:10}{cpu:8.2f}{wall:8.2f}{peak:9.0f}")


if __name__ == "__main__":
    main()
