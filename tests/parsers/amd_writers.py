"""The same launches as every AMD tool writes them: one stream, times in ns of the machine's clock."""

import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.parsers.amd_fixtures import (
    V3_COUNTER_HEADER,
    V3_TRACE_HEADER,
    table,
    v3_counter,
    v3_launch,
)
from tests.parsers.test_amd_rocpd import OWN_SCHEMA
from tests.parsers.test_amd_rocpd import Writer as Rocpd

#: A kernel's name, its start and its end as they stand in the file.
Launch = tuple[str, object, object]
Writer = Callable[[Path, Sequence[Launch]], Path]

_WIDE = (
    "Dispatch_ID", "GPU_ID", "Queue_ID", "PID", "TID", "Grid_Size", "Workgroup_Size",
    "LDS_Per_Workgroup", "Scratch_Per_Workitem", "Arch_VGPR", "Accum_VGPR", "SGPR", "Wave_Size",
    "Kernel_Name", "Start_Timestamp", "End_Timestamp",
)  # fmt: skip
_V1 = (
    "Index", "KernelName", "gpu-id", "queue-id", "queue-index", "pid", "tid", "grd", "wgr", "lds",
    "scr", "arch_vgpr", "accum_vgpr", "sgpr", "wave_size", "sig", "obj", "DispatchNs", "BeginNs",
    "EndNs", "CompleteNs", "DurationNs",
)  # fmt: skip


def _text(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def rocprofv3_csv(folder: Path, launches: Sequence[Launch]) -> Path:
    rows = [
        v3_launch(number + 1, name=name, start=start, end=end, correlation=number + 1)
        for number, (name, start, end) in enumerate(launches)
    ]
    return _text(folder / "7_kernel_trace.csv", table([V3_TRACE_HEADER, *rows]))


def rocprofv3_counters(folder: Path, launches: Sequence[Launch]) -> Path:
    rows = [
        v3_counter(number + 1, counter, 1000, name=name, start=start, end=end)
        for number, (name, start, end) in enumerate(launches)
        for counter in ("SQ_WAVES", "SQ_INSTS_VALU")
    ]
    return _text(folder / "7_counter_collection.csv", table([V3_COUNTER_HEADER, *rows]))


def rocprofv3_json(folder: Path, launches: Sequence[Launch]) -> Path:
    size = {"x": 256, "y": 1, "z": 1}
    names = list(dict.fromkeys(name for name, _, _ in launches))
    records = [
        {
            "start_timestamp": start, "end_timestamp": end, "stream_id": {"handle": 2},
            "correlation_id": {"internal": number + 1},
            "dispatch_info": {
                "agent_id": {"handle": 5}, "queue_id": {"handle": 1},
                "kernel_id": names.index(name), "dispatch_id": number + 1,
                "group_segment_size": 0, "private_segment_size": 0,
                "workgroup_size": size, "grid_size": {"x": 1024, "y": 1, "z": 1},
            },
        }
        for number, (name, start, end) in enumerate(launches)
    ]  # fmt: skip
    tool = {
        "metadata": {"pid": 908},
        "agents": [{"id": {"handle": 5}, "type": 2, "name": "gfx942", "logical_node_type_id": 0}],
        "counters": [],
        "strings": {"buffer_records": []},
        "kernel_symbols": [
            {"kernel_id": number, "formatted_kernel_name": name}
            for number, name in enumerate(names)
        ],
        "callback_records": {"counter_collection": []},
        "buffer_records": {"kernel_dispatch": records},
    }
    return _text(folder / "7_results.json", json.dumps({"rocprofiler-sdk-tool": [tool]}))


def rocprofv2_csv(folder: Path, launches: Sequence[Launch]) -> Path:
    rows = [
        (number, 0, 1, 815, 815, 65536, 256, 0, 0, 16, 0, 32, 64, name, start, end)
        for number, (name, start, end) in enumerate(launches)
    ]
    return _text(folder / "results_7.csv", table([_WIDE, *rows]))


def rocprof_compute(folder: Path, launches: Sequence[Launch]) -> Path:
    wide = [name for name in _WIDE if name not in ("Queue_ID", "PID", "TID")]
    rows = [
        (number, 0, 65536, 256, 0, 0, 16, 0, 32, 64, name, start, end)
        for number, (name, start, end) in enumerate(launches)
    ]
    system = {
        "workload_name": "w", "ip_blocks": "", "gpu_arch": "gfx942", "gpu_model": "MI300X",
        "gpu_chip_id": 29857, "cu_per_gpu": 304,
    }  # fmt: skip
    _text(folder / "sysinfo.csv", table([list(system), list(system.values())]))
    _text(folder / "pmc_perf.csv", table([wide, *rows]))
    return folder


def rocprof_v1_csv(folder: Path, launches: Sequence[Launch]) -> Path:
    rows = [
        (number, name, 0, 0, number, 815, 815, 65536, 256, 0, 0, 16, 0, 32, 64, "0x0", "0x7f0",
         start, start, end, end, 1)
        for number, (name, start, end) in enumerate(launches)
    ]  # fmt: skip
    return _text(folder / "results.csv", table([_V1, *rows]))


def rocprof_v1_json(folder: Path, launches: Sequence[Launch]) -> Path:
    events: list[dict[str, Any]] = [
        {},
        {"ph": "M", "pid": 6, "name": "process_name", "args": {"name": "GPU0"}},
    ]
    events += [
        {
            "ph": "X", "name": name, "pid": "6", "tid": "0", "ts": "7000000000", "dur": "1",
            "args": {"BeginNs": str(start), "EndNs": str(end), "dev-id": "0", "queue-id": "0",
                     "Name": name, "pid": "9", "tid": "9", "DurationNs": str(int(str(end)) - int(str(start)))},
        }
        for name, start, end in launches
    ]  # fmt: skip
    return _text(folder / "results.json", json.dumps({"traceEvents": events}))


def _stored(value: object) -> object:
    """SQLite keeps whole numbers of 64 bits, larger ones as text."""
    return str(value) if isinstance(value, int) and value >= 2**63 else value


def rocprof_v1_db(folder: Path, launches: Sequence[Launch]) -> Path:
    path = folder / "results.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        for name in ("KERN", "OPS", "HIP", "COPY"):
            connection.execute(
                f'CREATE TABLE {name} ("BeginNs" INTEGER, "EndNs" INTEGER, "dev-id" INTEGER, '
                '"queue-id" INTEGER, "Name" TEXT, "pid" INTEGER, "tid" INTEGER, '
                '"stream-id" INTEGER, "Index" INTEGER, "args" TEXT)'
            )
        connection.executemany(
            "INSERT INTO OPS VALUES (?, ?, 0, 0, ?, 9, 9, 1, ?, '')",
            [
                (_stored(start), _stored(end), name, number)
                for number, (name, start, end) in enumerate(launches)
            ],
        )
    connection.close()
    return path


def rpd(folder: Path, launches: Sequence[Launch]) -> Path:
    path = folder / "trace.rpd"
    names = list(dict.fromkeys(name for name, _, _ in launches))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(
            "CREATE TABLE rocpd_string (id INTEGER PRIMARY KEY, string TEXT);"
            "CREATE TABLE rocpd_api (id INTEGER, pid INT, tid INT, start INT, end INT,"
            " apiName_id INT, args_id INT);"
            "CREATE TABLE rocpd_api_ops (id INTEGER, api_id INT, op_id INT);"
            "CREATE TABLE rocpd_op (id INTEGER PRIMARY KEY, gpuId INT, queueId INT,"
            " sequenceId INT, start INT, end INT, description_id INT, opType_id INT);"
            "INSERT INTO rocpd_string VALUES (1000, 'KernelExecution');"
        )
        connection.executemany("INSERT INTO rocpd_string VALUES (?, ?)", enumerate(names))
        connection.executemany(
            "INSERT INTO rocpd_op VALUES (?, 0, 0, 0, ?, ?, ?, 1000)",
            [
                (number + 1, _stored(start), _stored(end), names.index(name))
                for number, (name, start, end) in enumerate(launches)
            ],
        )
    connection.close()
    return path


def rocpd(folder: Path, launches: Sequence[Launch]) -> Path:
    path = folder / "7_results.db"
    run = Rocpd(path, OWN_SCHEMA, "00003fdc")
    names = list(dict.fromkeys(name for name, _, _ in launches))
    for number, name in enumerate(names):
        run.add(
            "info_kernel_symbol", id=100 + number, nid=1, pid=1, code_object_id=1,
            kernel_name=name, display_name=name,
        )  # fmt: skip
    for number, (name, start, end) in enumerate(launches):
        times: Any = (_stored(start), _stored(end))
        run.dispatch(number + 1, 1000 + number, *times, kernel_id=100 + names.index(name))
    run.close()
    return path


def hipprof_db(folder: Path, launches: Sequence[Launch]) -> Path:
    path = folder / "hip-prof-9.db"
    names = list(dict.fromkeys(name for name, _, _ in launches))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE STR_TABLE (STR_ID INTEGER, STR_NAME TEXT)")
        connection.executemany("INSERT INTO STR_TABLE VALUES (?, ?)", enumerate(names))
        connection.execute(
            "CREATE TABLE HIPOPS_9 (BeginNs INT, EndNs INT, dev_id INT, queue_id INT, Name INT,"
            " _Index INT)"
        )
        connection.executemany(
            "INSERT INTO HIPOPS_9 VALUES (?, ?, 0, 1, ?, ?)",
            [
                (_stored(start), _stored(end), names.index(name), number)
                for number, (name, start, end) in enumerate(launches)
            ],
        )
    connection.close()
    return path


def hipprof_json(folder: Path, launches: Sequence[Launch]) -> Path:
    events = [
        {
            "ph": "X", "cat": "HIPOPS", "name": name,
            "args": {"BeginNs": str(start), "EndNs": str(end), "devId": 0, "queueId": 1,
                     "index": number},
        }
        for number, (name, start, end) in enumerate(launches)
    ]  # fmt: skip
    return _text(folder / "r.json", json.dumps({"traceEvents": events}))


def hipprof_csv(folder: Path, launches: Sequence[Launch]) -> Path:
    header = (
        "Index", "KernelName", "gpu-id", "queue-id", "queue-index", "pid", "tid", "grd", "wgr",
        "lds", "scr", "arch_vgpr", "accum_vgpr", "sgpr", "wave_size", "sig", "TCC_HIT[0]",
        "TCC_HIT[1]", "DispatchNs", "BeginNs", "EndNs", "CompleteNs",
    )  # fmt: skip
    rows = [
        (number, name, 0, 0, 0, 9, 9, 1024, 512, 0, 0, 16, 0, 32, 64, "0x0", 5, 5, start, start,
         end, end)
        for number, (name, start, end) in enumerate(launches)
    ]  # fmt: skip
    return _text(folder / "pmc_results_1.csv", table([header, *rows]))


#: Format -> who writes it.
WRITERS: dict[str, Writer] = {
    one.__name__: one
    for one in (
        rocprofv3_csv, rocprofv3_counters, rocprofv3_json, rocprofv2_csv, rocprof_compute,
        rocprof_v1_csv, rocprof_v1_json, rocprof_v1_db, rocpd, rpd, hipprof_db, hipprof_json, hipprof_csv,
    )
}  # fmt: skip
