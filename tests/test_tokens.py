"""Tokens in a profiler's file go nowhere: nothing of its metadata is stored or printed.

Traces carry command lines, environments, host names and settings, and with them secrets. A token
is planted in every place of a format that is none of the fields which traceroof uses; neither the
store nor any output holds it.
"""

import json
import random
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import traceroof
from tests.fuzzing import messages, reports
from tests.parsers.test_amd_rocpd import OWN_SCHEMA, write_counted
from tests.parsers.test_nsight_compute_report import Maker
from tests.parsers.test_report_modules import COUNTS, launch, module
from traceroof.core.recording import Run
from traceroof.errors import TraceroofError
from traceroof.ingest.detect import read
from traceroof.report.common import json as as_json
from traceroof.report.html.render import render as as_html
from traceroof.report.run import csv, markdown, terminal
from traceroof.store import Store

TOKEN = "secret-token-for-tests"

Plant = Callable[[Path, Path], Path]


def torch(root: Path, folder: Path) -> Path:
    """Top-level keys, distributed and device information, arguments, names of processes."""
    trace = json.loads((root / "sample_traces/torch/decode.json").read_text())
    for key in ("username", "command", "environment", "traceName", "trace_id", "host_name", "INFO"):
        trace[key] = TOKEN
    trace["config"] = {"env": {"HF_TOKEN": TOKEN}, "argv": ["train.py", f"--token={TOKEN}"]}
    trace.setdefault("distributedInfo", {})["store_url"] = TOKEN
    for one in trace["deviceProperties"]:
        one["driver_path"] = TOKEN
    for event in trace["traceEvents"]:
        event["note"] = TOKEN
        event.setdefault("args", {})["cmdline"] = TOKEN
    trace["traceEvents"][:0] = [
        {"ph": "M", "name": name, "pid": 1, "tid": 1, "ts": 0, "args": {"name": TOKEN}}
        for name in ("process_name", "process_labels", "thread_name")
    ]
    path = folder / "trace.json"
    path.write_text(json.dumps(trace))
    return path


def nsight_compute_csv(root: Path, folder: Path) -> Path:
    """What a log holds beside the table, and the column of the host."""
    text = (root / "sample_traces/nsight_compute/transformer_layer.details.csv").read_text()
    text = re.sub(r'"127\.0\.0\.1"', f'"{TOKEN}"', text)
    assert TOKEN in text
    before = (
        f"$ HF_TOKEN={TOKEN} ncu --csv python train.py --key {TOKEN}\n"
        f"==PROF== Connected to process 7 (/home/{TOKEN}/bin/python)\n"
        f"==WARNING== Could not deploy sections to /home/{TOKEN}\n"
        f"logged in with {TOKEN}\n"
    )
    path = folder / "log.csv"
    path.write_text(before + text + f"==PROF== Report: /home/{TOKEN}/report.ncu-rep\n")
    return path


def nsight_compute_text(root: Path, folder: Path) -> Path:
    """The lines around a page."""
    text = (root / "tests/field_cases/nsight_compute/table_name.txt").read_text()
    path = folder / "page.txt"
    text = text.replace("app@127.0.0.1", f"app@{TOKEN}")
    path.write_text(f"$ ncu ./app --token {TOKEN}\n==PROF== {TOKEN}\n{TOKEN}\n\n{text}\n{TOKEN}\n")
    return path


def rocprof_compute(root: Path, folder: Path) -> Path:
    """The command line and the host in the description, the log and the settings."""
    shutil.copytree(root / "tests/field_cases/amd/J_ranks/0", folder / "profile")
    description = folder / "profile/sysinfo.csv"
    header, row = description.read_text().splitlines()[:2]
    cells = row.split(",")
    for name in ("command", "hostname", "workload_name", "cpu_model", "sbios", "vbios"):
        cells[header.split(",").index(name)] = TOKEN
    description.write_text(f"{header}\n{','.join(cells)}\n")
    (folder / "profile/log.txt").write_text(f"rocprofiler-compute version: 3\n{TOKEN}\n")
    (folder / "profile/profiling_config.yaml").write_text(
        f"format_rocprof_output: csv\nk: {TOKEN}\n"
    )
    return folder / "profile"


def rocprofv3_json(root: Path, folder: Path) -> Path:
    """All metadata of the tool, and unknown fields of every agent and kernel."""
    document = json.loads((root / "tests/field_cases/amd/P3_csv_json/3_results.json").read_text())
    for process in document["rocprofiler-sdk-tool"]:
        process["metadata"] = {
            **process.get("metadata", {}),
            "command": ["python", f"--token={TOKEN}"], "environment": {"HF_TOKEN": TOKEN},
            "node": {"hostname": TOKEN}, "config": {"output_path": TOKEN}, "build_spec": TOKEN,
        }  # fmt: skip
        process["host_functions"] = [{"name": TOKEN}]
        process["summary"] = [{"domain": TOKEN}]
        for agent in process.get("agents", []):
            agent["serial"] = TOKEN
    path = folder / "3_results.json"
    path.write_text(json.dumps(document))
    return path


def rocprofv3_csv(root: Path, folder: Path) -> Path:
    """A column that is none of the list of agents, and files of another kind."""
    shutil.copytree(root / "tests/field_cases/amd/P2_good", folder / "run")
    agents = folder / "run/3_agent_info.csv"
    header, *rows = agents.read_text().splitlines()
    agents.write_text("\n".join([f'{header},"Serial"', *(f'{row},"{TOKEN}"' for row in rows)]))
    (folder / "run/input.json").write_text(json.dumps({"env": TOKEN}))
    (folder / "run/config.txt").write_text(TOKEN)
    return folder / "run"


def rocprof_v1_json(root: Path, folder: Path) -> Path:
    """The description of the machine and the arguments of calls."""
    event = {"ph": "X", "name": "k(int)", "pid": "6", "tid": "0", "ts": "10", "dur": "5",
             "args": {"BeginNs": "10000", "EndNs": "15000", "DurationNs": "5000", "Data": TOKEN,
                      "args": f"( stream(0x0) token({TOKEN}))"}}  # fmt: skip
    process = {"ph": "M", "pid": 6, "name": "process_name", "args": {"name": "GPU0"}}
    path = folder / "results.json"
    path.write_text(
        '{"traceEvents":[{},' + f"{json.dumps(process)},{json.dumps(event)}],"
        + f'"otherData":{{"command":"{TOKEN}","Agent1.Uuid":"{TOKEN}"}}}}'
    )  # fmt: skip
    return path


def rocprof_v1_database(root: Path, folder: Path) -> Path:
    """Arguments and data of every row, and a table of settings."""
    path = folder / "results.db"
    shutil.copy(root / "tests/field_cases/hostile/v1db_no_beginns.db", path)
    _fill_texts(path, ("args", "Data", "roctx-range"))
    return path


def hipprof_database(root: Path, folder: Path) -> Path:
    """A table of settings beside the kernels."""
    path = folder / "rank0.db"
    shutil.copy(root / "tests/field_cases/amd/H3_hipprof_two_ranks/hip_prof_rank0.db", path)
    _fill_texts(path, ())
    return path


def rocm_database(root: Path, folder: Path) -> Path:
    """Commands, environments and extra data of rocpd."""
    path = folder / "results.db"
    write_counted(path, OWN_SCHEMA)
    _fill_texts(path, ("command", "environment", "extdata", "hostname", "args", "serial", "init"))
    return path


def rpd_database(root: Path, folder: Path) -> Path:
    """Metadata and the arguments of calls of a RocmProfileData database."""
    path = folder / "trace.rpd"
    for name in ("hot.rpd", "hot.rpd-journal"):
        shutil.copy(
            root / "tests/field_cases/hostile" / name, folder / name.replace("hot", "trace")
        )
    with closing(sqlite3.connect(path)) as database:
        database.execute(
            "CREATE TABLE IF NOT EXISTS rocpd_metadata (id INTEGER, tag TEXT, value TEXT)"
        )
        database.execute("INSERT INTO rocpd_metadata VALUES (99, 'command', ?)", (TOKEN,))
        database.execute("INSERT INTO rocpd_string VALUES (9999999, ?)", (TOKEN,))
        database.execute("UPDATE rocpd_api SET args_id = 9999999")
        database.commit()
    return path


def rpd_json(root: Path, folder: Path) -> Path:
    """Arguments of calls, names of processes and unknown keys."""
    document = json.loads((root / "tests/field_cases/hostile/rpd_negative_dur.json").read_text())
    events = document["traceEvents"] if isinstance(document, dict) else document
    for event in events:
        if "args" in event and "name" not in event.get("args", {}):
            event["args"]["cmdline"] = TOKEN
    events.append({"name": "process_labels", "ph": "M", "pid": "7", "args": {"labels": TOKEN}})
    path = folder / "trace.json"
    path.write_text(json.dumps(document))
    return path


def rocprof_v1_csv(root: Path, folder: Path) -> Path:
    """A column that none of the tool's is, and the description of the machine beside it."""
    header = (
        "Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd,wgr,lds,scr,vgpr,sgpr,fbar,sig,obj,"
        "DispatchNs,BeginNs,EndNs,CompleteNs,Command"
    )
    rows = [
        f'{n},"k(int)",0,0,{n},7,7,256,64,0,0,8,16,0,0x0,0x0,{n * 100 + 1},{n * 100 + 10},'
        f"{n * 100 + 60},{n * 100 + 70},{TOKEN}"
        for n in range(3)
    ]
    path = folder / "results.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    (folder / "results.sysinfo.txt").write_text(f"Name: {TOKEN}\n")
    return path


def kernel_stats(root: Path, folder: Path) -> Path:
    """A column beside the statistics."""
    shutil.copytree(root / "tests/field_cases/amd/BB_stats_agent", folder / "run")
    path = folder / "run/77_kernel_stats.csv"
    header, *rows = path.read_text().splitlines()
    path.write_text("\n".join([f'{header},"Env"', *(f'{row},"{TOKEN}"' for row in rows)]))
    return folder / "run"


def nsight_systems(root: Path, folder: Path) -> Path:
    """Environments, users, machines, and the folder of a program."""
    path = folder / "report.sqlite"
    shutil.copy(root / "sample_traces/nsight_systems/training.sqlite", path)
    with closing(sqlite3.connect(path)) as database:
        for table in ("TARGET_INFO_SYSTEM_ENV", "META_DATA_CAPTURE", "ANALYSIS_DETAILS"):
            database.execute(f"CREATE TABLE {table} (name TEXT, nameEnum TEXT, value TEXT)")
            database.execute(f"INSERT INTO {table} VALUES ('HF_TOKEN', 'Env', ?)", (TOKEN,))
        database.execute("INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_USER', ?)", (TOKEN,))
        database.execute("INSERT INTO StringIds VALUES (99999999, ?)", (f"HF_TOKEN={TOKEN}",))
        database.execute("UPDATE PROCESSES SET name = ?", (f"/home/{TOKEN}/bin/python",))
        database.commit()
    return path


def nsys_stats(root: Path, folder: Path) -> Path:
    """The lines around a table."""
    text = (root / "sample_traces/nsight_systems/training.kern_sum.csv").read_text()
    path = folder / "stats.csv"
    path.write_text(
        f"Processing [/home/{TOKEN}/report.sqlite] with [cuda_gpu_kern_sum.py]...\n{text}\n{TOKEN}\n"
    )
    return path


def nvprof(root: Path, folder: Path) -> Path:
    """The command that was profiled."""
    text = (root / "sample_traces/nvprof/scale.gpu_trace.csv").read_text()
    path = folder / "nvprof.log"
    path.write_text(
        f"==7== NVPROF is profiling process 7, command: ./a.out --key {TOKEN}\n{TOKEN}\n"
        f"==7== Profiling application: ./a.out --key {TOKEN}\n{text}"
    )
    return path


def proton(root: Path, folder: Path) -> Path:
    """Unknown metrics of every node and unknown facts of the devices."""
    tree = json.loads((root / "sample_traces/proton/matmul.hatchet").read_text())

    def plant(node: Any) -> None:
        if isinstance(node, dict) and "frame" in node:
            node["command"] = TOKEN
            node.setdefault("metrics", {})["env"] = TOKEN
            for child in node.get("children", ()):
                plant(child)

    for node in tree:
        plant(node)
    tree[-1].setdefault("CUDA", {}).setdefault("0", {})["host"] = TOKEN
    path = folder / "trace.hatchet"
    path.write_text(json.dumps(tree))
    return path


def xplane(root: Path, folder: Path) -> Path:
    """The name of the host, and a plane of the environment."""
    data = (root / "sample_traces/xplane/step.xplane.pb").read_bytes()
    text = TOKEN.encode()
    data += bytes([4 << 3 | 2, len(text)]) + text
    plane = bytes([2 << 3 | 2, len(text)]) + text  # XPlane.name
    data += bytes([1 << 3 | 2, len(plane)]) + plane
    path = folder / "host.xplane.pb"
    path.write_bytes(data)
    return path


def rocprof_compute_text(root: Path, folder: Path) -> Path:
    """The lines before and behind the tables of `analyze`."""
    text = (root / "sample_traces/rocprof_compute_text/scale.txt").read_text()
    path = folder / "analyze.txt"
    path.write_text(f"$ rocprof-compute analyze -p /home/{TOKEN}\n{TOKEN}\n{text}\n{TOKEN}\n")
    return path


def nsight_compute_report(root: Path, folder: Path) -> Path:
    """The folder of the program, and fields of every message that nobody reads."""
    made = Maker()
    result = launch(made, COUNTS)
    made.metric(result, "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", 40.0)
    made.block(
        result,
        header=made.header(program=f"/home/{TOKEN}/bin/python".encode()),
        sources=[messages.written([*(messages.parsed(module(), 0) or []), _UNREAD])],
    )
    data = made.written()
    head, blocks = reports.blocks_of(data) or (b"", [])
    for block in blocks:
        block.header = messages.written([*(messages.parsed(block.header, 0) or []), _UNREAD])
        block.parts = [messages.written([*(messages.parsed(part, 0) or []), _UNREAD])
                       for part in block.parts]  # fmt: skip
    path = folder / "run.ncu-rep"
    path.write_bytes(reports.written(head, blocks))
    return path


# A field of text whose number no message of ours has.
_UNREAD = [199, 2, TOKEN.encode()]


def _fill_texts(path: Path, columns: tuple[str, ...]) -> None:
    connection = sqlite3.connect(path)
    names = [
        row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")
    ]
    for name in names:
        known = [row[1] for row in connection.execute(f'PRAGMA table_info("{name}")')]
        for column in columns:
            if column in known:
                connection.execute(f'UPDATE "{name}" SET "{column}" = ?', (TOKEN,))
    connection.execute("CREATE TABLE settings (command TEXT, environment TEXT)")
    connection.execute("INSERT INTO settings VALUES (?, ?)", (TOKEN, TOKEN))
    connection.commit()
    connection.close()


PLANTS: tuple[Plant, ...] = (
    torch, nsight_compute_csv, nsight_compute_text, rocprof_compute, rocprofv3_json, rocprofv3_csv,
    rocprof_v1_json, rocprof_v1_database, hipprof_database, rocm_database, rpd_database, rpd_json,
    rocprof_v1_csv, kernel_stats, nsight_systems, nsys_stats, nvprof, proton, xplane,
    rocprof_compute_text, nsight_compute_report,
)  # fmt: skip


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: str(plant.__name__))
def test_a_planted_token_is_nowhere(root: Path, tmp_path: Path, plant: Plant) -> None:
    source = tmp_path / "in"
    source.mkdir()
    recording = read([plant(root, source)])
    run = Run(recording, "planted")
    diagnosis = traceroof.diagnose(run)
    for text in (
        terminal.render(diagnosis), markdown.render(diagnosis), csv.render(diagnosis),
        as_json.render(diagnosis, top=None), as_html(diagnosis),
    ):  # fmt: skip
        assert TOKEN not in text
    assert TOKEN not in repr(recording.devices) + repr(recording.sources)
    store = tmp_path / "store"
    Store.open(store).add(recording, name="planted", digest="0" * 64)
    for path in filter(Path.is_file, store.rglob("*")):
        assert TOKEN.encode() not in path.read_bytes()
        if path.suffix == ".parquet":
            assert not _holds(pq.read_table(path).to_pylist())


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: str(plant.__name__))
def test_a_refusal_quotes_no_token(root: Path, tmp_path: Path, plant: Plant) -> None:
    """GIVEN the same files cut, or with damaged bytes WHEN read THEN neither a refusal nor a note
    holds the token."""
    source = tmp_path / "in"
    source.mkdir()
    made = plant(root, source)
    whole = {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    rng = random.Random(13)
    said: list[str] = []
    for share in (0.0, 0.02, 0.1, 0.3, 0.5, 0.8, 0.95, 1.0):
        for path, data in whole.items():
            cut = bytearray(data[: int(len(data) * share)])
            for _ in range(3 if cut else 0):
                cut[rng.randrange(len(cut))] ^= 0x15
            path.write_bytes(cut)
        try:
            said.append(str(read([made]).notes))
        except TraceroofError as error:
            said.append(f"{error.message} {error.hint}")
    assert len(said) == 8
    assert [text for text in said if TOKEN in text] == []


def _holds(rows: list[dict[str, Any]]) -> bool:
    return any(TOKEN in str(value) for row in rows for value in row.values())
