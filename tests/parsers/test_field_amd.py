"""Folders and files of AMD's tools as users' machines leave them: each stands for a kind.

The files are in ``tests/field_cases``; every expected number is a sum of cells of the file.
"""

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.parsers.amd_fixtures import (
    V3_AGENT_HEADER,
    V3_AGENTS,
    V3_COUNTER_HEADER,
    table,
    v3_counter,
    write,
)
from traceroof.core.recording import Recording
from traceroof.errors import TraceroofError
from traceroof.ingest.detect import read as read_paths
from traceroof.parser import Options, silent
from traceroof.parsers.amd.gpus import Gpu, of_agent, of_sysinfo
from traceroof.parsers.amd.text import read_table

Read = Callable[[str], Recording]


@pytest.fixture
def case(root: Path) -> Read:
    """Reads a field case by its name."""
    return lambda name: read_paths([root / "tests/field_cases" / name])


def column(recording: Recording, name: str) -> list[Any]:
    return list(recording.kernels[name].to_pylist())


def notes(recording: Recording) -> str:
    return "\n".join(map(str, recording.notes))


def severe(recording: Recording) -> list[str]:
    return [note.text for note in recording.notes if note.severe]


# --- folders -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("foreign", "alone"),
    [
        ("P3_csv_json_foreign", "P3_csv_json"),
        ("P2_input", "P2_good"),
        ("P4_passes_input", "P4_passes"),
    ],
)
def test_a_foreign_file_changes_nothing(case: Read, foreign: str, alone: str) -> None:
    """GIVEN the user's input.json in the folder THEN the same 8 launches, and a note names it."""
    recording, expected = case(f"amd/{foreign}"), case(f"amd/{alone}")
    assert recording.kernels.equals(expected.kernels)
    assert column(recording, "duration_ns") == [20_000] * 8
    assert "input.json" in notes(recording)
    assert severe(recording) == []


@pytest.mark.parametrize(
    ("name", "content", "is_severe"),
    [
        ("results.csv", b"epoch,loss\n1,0.5\n", False),
        ("config.json", b'{"lr": 1}', False),
        ("run.log", b"loss 0.5\n", False),
        ("4_kernel_trace.csv", b"", True),
        ("4_kernel_trace.json", b"version https://git-lfs.github.com/spec/v1\n", True),
    ],
)
def test_other_files_in_the_folder(
    root: Path, tmp_path: Path, name: str, content: bytes, is_severe: bool
) -> None:
    """GIVEN a CSV, JSON, log or an empty file of another kind THEN it is left out."""
    folder = tmp_path / "run"
    shutil.copytree(root / "tests/field_cases/amd/P2_good", folder)
    (folder / name).write_bytes(content)
    recording = read_paths([folder])
    assert column(recording, "duration_ns") == [20_000] * 8
    assert bool(severe(recording)) == is_severe


@pytest.mark.parametrize("beside", ["sysinfo.csv", "roofline.csv"])
def test_a_profile_without_its_counters(tmp_path: Path, beside: str) -> None:
    """GIVEN a folder of rocprof-compute that was stopped THEN what is missing is named."""
    texts = {"sysinfo.csv": SYSINFO, "roofline.csv": "device,HBMBw,L2Bw\n0,1,2\n"}
    (tmp_path / beside).write_text(texts[beside])
    for path in (tmp_path, tmp_path / beside):
        with pytest.raises(TraceroofError) as refused:
            read_paths([path])
        assert "pmc_perf.csv is missing" in (refused.value.hint or "")


def test_devices_without_a_trace(tmp_path: Path) -> None:
    """GIVEN a folder with the list of agents only THEN it is named, with what to give."""
    (tmp_path / "3_agent_info.csv").write_text(V3_AGENTS)
    with pytest.raises(TraceroofError, match="list of the machine's devices") as refused:
        read_paths([tmp_path])
    assert "kernel_trace.csv" in (refused.value.hint or "")


def test_a_pass_of_a_header_only(root: Path, tmp_path: Path) -> None:
    """GIVEN a third pass whose table ends with its header THEN it is left out with a note."""
    folder = tmp_path / "run"
    shutil.copytree(root / "tests/field_cases/amd/P4_passes", folder)
    (folder / "pmc_3").mkdir()
    (folder / "pmc_3" / "3_counter_collection.csv").write_text(table([V3_COUNTER_HEADER]))
    recording = read_paths([folder])
    assert column(recording, "duration_ns") == [20_000] * 8
    assert severe(recording) == ["left out: 3_counter_collection.csv lists no kernel"]


def test_folders_of_ranks(case: Read) -> None:
    """GIVEN NAME/0 and NAME/1 THEN two ranks of 6 launches each."""
    recording = case("amd/J_ranks")
    assert column(recording, "rank") == [0] * 6 + [1] * 6


def test_every_database_of_hipprof(case: Read) -> None:
    """GIVEN a database a rank THEN 100 + 200 launches, 21 ms, each with its rank."""
    recording = case("amd/H3_hipprof_two_ranks")
    assert recording.kernels.num_rows == 300
    assert sum(column(recording, "duration_ns")) == 21_000_000
    ranks = column(recording, "rank")
    assert (ranks.count(0), ranks.count(1)) == (100, 200)


def test_names_with_commas_and_no_quotes(case: Read) -> None:
    """GIVEN names that are not quoted THEN the numbers at the end say where each ends."""
    recording = case("amd/K_stats_unquoted")
    assert column(recording, "launch_count") == [40, 40, 1]
    assert column(recording, "duration_ns") == [200_000, 47_500, 100_000]
    assert column(recording, "kernel_name")[1] == (
        "void axpy_view<double, 256u>(double*, double const*, int)"
    )


def test_the_one_gpu_of_a_summary(case: Read) -> None:
    """GIVEN a summary and a list of agents with one GPU THEN it is the GPU."""
    assert [one.pci_device_id for one in case("amd/BB_stats_agent").devices] == [29857]


# --- GPUs --------------------------------------------------------------------------------------


def test_agents_by_their_place(case: Read) -> None:
    """GIVEN "Agent 2" and logical ids THEN the MI210: 512 MiB in 400 us, 82 % of 1,638 GB/s."""
    recording = case("amd/A_agent_relative")
    used = recording.devices[column(recording, "device")[0]]
    assert used.name == "AMD Instinct MI210"
    assert column(recording, "dram_bytes") == [536_870_912] * 5


SYSINFO = (
    "workload_name,ip_blocks,gpu_arch,gpu_model,gpu_chip_id,compute_partition,memory_partition,"
    "cu_per_gpu,se_per_gpu,total_l2_chan,num_xcd,max_sclk,max_mclk,num_hbm_channels\n"
)


def sysinfo(tmp_path: Path, row: str) -> Gpu:
    path = tmp_path / "sysinfo.csv"
    path.write_text(SYSINFO + row)
    gpu, _ = of_sysinfo(read_table(path, Options(), silent))
    assert gpu is not None
    return gpu


@pytest.mark.parametrize(
    ("mode", "memory", "channels", "gb_per_s"),
    [
        ("SPX", "NPS1", 128, 5324.8),
        ("CPX", "NPS1", 128, 5324.8),
        ("SPX", "NPS4", 128, 1331.2),
        ("CPX", "NPS4", 32, 1331.2),
        ("DPX", "NPS2", 64, 2662.4),
        ("DPX", "NPS2", 128, 2662.4),
        ("CPX", "NPS8", 16, 665.6),
    ],
)
def test_the_memory_of_a_partition(
    tmp_path: Path, mode: str, memory: str, channels: int, gb_per_s: float
) -> None:
    """GIVEN channels of the card or of its part THEN the part's bandwidth: 32 B x 1.3 GHz each."""
    gpu = sysinfo(
        tmp_path,
        f"t,,gfx942,MI300X,29857,{mode},{memory},304,32,128,8,2100,1300,{channels}\n",
    )
    assert gpu.dram_bytes_per_s == pytest.approx(gb_per_s * 1e9)


@pytest.mark.parametrize("chip", ["29857", "", "0"])
@pytest.mark.parametrize("channels", ["32", "128", ""])
def test_a_partition_of_a_card_without_its_id(tmp_path: Path, chip: str, channels: str) -> None:
    """GIVEN no id, as before version 2 of the file THEN the name tells the card, divided once."""
    gpu = sysinfo(
        tmp_path,
        f"t,,gfx942,MI300X_A1,{chip},CPX,NPS4,38,4,16,1,2100,1300,{channels}\n",
    )
    # 32 B x 1.3 GHz x 128 channels; without channels the card's 5,300 GB/s.
    assert gpu.dram_bytes_per_s == (1331.2e9 if channels else 1325e9)


def test_channels_of_other_memory_than_hbm(tmp_path: Path) -> None:
    """GIVEN an integrated GPU THEN the table's bus, not the formula of HBM (512 GB/s)."""
    gpu = sysinfo(tmp_path, "t,,gfx1151,gfx1151,5510,NA,NA,40,2,16,1,2900,1000,16\n")
    assert gpu.facts()["peak_dram"] == 256e9


@pytest.mark.parametrize(
    ("name", "units", "device", "banks", "gb_per_s"),
    [
        ("gfx1151", 40, 5510, None, 256),
        # An id that no row has says nothing.
        ("gfx1151", 32, 5511, None, 256),
        # 256 bits at LPDDR5X-7500; 128 bits at LPDDR5X-7500 and at DDR5-5600.
        ("gfx1151", 40, 5510, [{"width": 256, "mem_clk_max": 937.5}], 240),
        ("gfx1150", 16, 5390, [{"width": 128, "mem_clk_max": 937.5}], 120),
        ("gfx1103", 12, 5567, [{"width": 128, "mem_clk_max": 2800}], 89.6),
        ("gfx1150", 16, 5390, [{"width": 0, "mem_clk_max": 0}], None),
        # Cards have memory of their own, which the table knows.
        ("gfx942", 228, 29856, [{"width": 8192, "mem_clk_max": 1300}], 5300),
    ],
)
def test_memory_shared_with_the_processor(
    name: str, units: int, device: int, banks: Any, gb_per_s: float | None
) -> None:
    fields = {"name": name, "productname": "AMD Radeon Graphics", "cucount": units,
              "deviceid": device, "membanks": banks}  # fmt: skip
    peak = of_agent(fields, 0).facts()["peak_dram"]
    assert peak == (None if gb_per_s is None else pytest.approx(gb_per_s * 1e9))


@pytest.mark.parametrize(
    ("row", "size"),
    [
        ("29857,CPX,NPS1,304,32,128,8", (38, 1, 16, 4)),
        ("29857,CPX,NPS1,38,4,16,1", (38, 1, 16, 4)),
        ("29857,DPX,NPS1,304,32,128,8", (152, 4, 64, 16)),
        ("29857,DPX,NPS1,152,16,64,4", (152, 4, 64, 16)),
        ("29856,TPX,NPS1,228,24,96,6", (76, 2, 32, 8)),
        ("29857,SPX,NPS1,304,32,128,8", (304, 8, 128, 32)),
    ],
)
def test_the_size_of_a_partition(tmp_path: Path, row: str, size: tuple[int, int, int, int]) -> None:
    """GIVEN sizes of the card or of its part THEN those of the part, divided once."""
    gpu = sysinfo(tmp_path, f"t,,gfx942,MI300,{row},2100,1300,128\n")
    assert (gpu.cu, gpu.xcd, gpu.l2_channels, gpu.se) == size


@pytest.mark.parametrize(
    ("gfx", "units", "name"),
    [
        ("gfx1151", 40, "Radeon-8060S"),
        ("gfx1200", 32, "RX-9060-XT"),
        ("gfx1031", 40, "RX-6700-XT"),
        ("gfx1030", 72, "RX-6800-XT"),
    ],
)
def test_cards_by_architecture_and_units(gfx: str, units: int, name: str) -> None:
    known = Gpu(arch=gfx, cu=units).known()
    assert known is not None
    assert known.name == name


def test_the_r9700(case: Read) -> None:
    gpu = case("amd/F_gfx1201_256B").devices[0]
    known = Gpu(name=gpu.name, arch=gpu.gfx_target, cu=64, pci_device_id=gpu.pci_device_id).known()
    assert known is not None
    assert known.dram_bandwidth_bytes_per_s == 640e9


# --- counters ----------------------------------------------------------------------------------


def test_a_partition_of_memory_and_dies(case: Read) -> None:
    """GIVEN NPS4 and CPX THEN 450 MB in 1.5 ms are 22.5 % of 1,331 GB/s."""
    recording = case("amd/C_nps4_cpx")
    assert column(recording, "peak_dram_bytes_per_s")[0] == 1_331.2e9
    assert column(recording, "dram_bytes")[0] == 450_000_000
    assert column(recording, "sm_count")[0] == 38


def test_a_level_counter_of_zero_is_unknown(case: Read) -> None:
    """GIVEN no wave in flight in a kernel that ran THEN SQ_WAVE_CYCLES say 50 %."""
    assert column(case("amd/H2_level_waves_zero"), "achieved_occupancy_pct") == [50] * 6


def test_zeros_beside_requests_of_another_size(case: Read) -> None:
    """GIVEN reads of 128 bytes only THEN none of 32, 64 or 96: 4 M x 128 + 4 M x 64 bytes."""
    recording = case("amd/M_7900xtx_plain")
    assert column(recording, "dram_bytes") == [768_000_000] * 40


def test_reads_of_256_bytes(case: Read) -> None:
    """GIVEN 1,048,578 requests, none of the sizes that have a counter THEN 256 bytes each."""
    recording = case("amd/F_gfx1201_256B")
    assert column(recording, "dram_read_bytes")[0] == 1_048_578 * 256


def test_the_infinity_cache_is_no_dram(case: Read) -> None:
    """GIVEN 192 MB in 24 us on 5.3 TB/s THEN cache traffic: DRAM is unknown, and the note says so."""
    recording = case("amd/M_infinity_mi300x")
    assert set(column(recording, "dram_bytes")) == {None}
    assert "Infinity Cache" in notes(recording)
    raw = recording.raw_metrics.to_pylist()
    assert [one["value"] for one in raw if "Infinity Cache" in one["metric"]] == [192e6] * 40


def test_times_that_the_cycles_contradict(case: Read) -> None:
    """GIVEN 6 ms for the cycles of 100 us in 2 of 20 launches THEN both are unknown."""
    recording = case("amd/G_outlier")
    times = column(recording, "duration_ns")
    assert (times.count(None), times.count(100_000)) == (2, 18)
    assert severe(recording) == [
        "durations that the dispatch's own cycles contradict by over half: unknown"
    ]


def counted(tmp_path: Path, agents: str, agent: str, counters: dict[str, int]) -> Recording:
    """Six dispatches of a millisecond with these counters."""
    rows = [
        v3_counter(
            number, name, value, start=number * 2 * MS, end=number * 2 * MS + MS, agent=agent
        )
        for number in range(1, 7)
        for name, value in counters.items()
    ]
    write(tmp_path / "7_agent_info.csv", agents)
    write(tmp_path / "7_counter_collection.csv", table([V3_COUNTER_HEADER, *rows]))
    return read_paths([tmp_path])


MS = 1_000_000
RDNA4 = table([V3_AGENT_HEADER, (1, "GPU", 1, 64, 8, 120001, 30033, 2920, 32, "gfx1201", "R9700")])
RDNA3 = table([V3_AGENT_HEADER, (1, "GPU", 1, 96, 12, 110000, 29772, 2500, 32, "gfx1100", "7900")])


def test_reads_of_every_size(tmp_path: Path) -> None:
    """GIVEN 3,000,100 requests, 100 of 32 and 2 M of 128 bytes THEN the other million are of 256."""
    counters = {"GL2C_EA_RDREQ_32B_sum": 100, "GL2C_EA_RDREQ_64B_sum": 0,
                "GL2C_EA_RDREQ_128B_sum": 2_000_000, "GL2C_EA_RDREQ_sum": 3_000_100}  # fmt: skip
    recording = counted(tmp_path, RDNA4, "Agent 1", counters)
    assert set(column(recording, "dram_read_bytes")) == {100 * 32 + 2_000_000 * 128 + 256_000_000}


def test_writes_of_32_bytes_only(tmp_path: Path) -> None:
    """GIVEN no write of 64 bytes beside 4 M writes THEN all are of 32; reads are of 64."""
    counters = {"GL2C_EA_RDREQ_32B_sum": 0, "GL2C_EA_RDREQ_64B_sum": 4_000_000,
                "GL2C_EA_RDREQ_96B_sum": 0, "GL2C_EA_RDREQ_128B_sum": 0,
                "GL2C_EA_WRREQ_64B_sum": 0, "GL2C_MC_WRREQ_sum": 4_000_000}  # fmt: skip
    recording = counted(tmp_path, RDNA3, "Agent 1", counters)
    assert set(column(recording, "dram_read_bytes")) == {256_000_000}
    assert set(column(recording, "dram_write_bytes")) == {128_000_000}


def test_an_occupancy_of_zero_is_unknown(tmp_path: Path) -> None:
    """GIVEN a kernel that ran with an occupancy of 0 THEN SQ_WAVE_CYCLES say 64 of 128 waves."""
    cycles = 2_100_000  # of each of 8 dies, 304 compute units
    counters = {"OccupancyPercent": 0, "GRBM_GUI_ACTIVE": 8 * cycles,
                "SQ_WAVE_CYCLES": cycles * 304 * 16 // 4}  # fmt: skip
    recording = counted(tmp_path, V3_AGENTS, "Agent 2", counters)
    assert column(recording, "achieved_occupancy_pct") == [50] * 6


@pytest.mark.parametrize(("length", "is_known"), [(100, False), (5_000, False), (900_000, True)])
def test_a_time_shorter_than_its_cycles(tmp_path: Path, length: int, is_known: bool) -> None:
    """GIVEN one time of eight far below what its cycles take THEN it is unknown."""
    rows = [
        v3_counter(at, "GRBM_GUI_ACTIVE", 16_800_000, start=at * 2 * MS,
                   end=at * 2 * MS + (length if at == 3 else MS))
        for at in range(1, 9)
    ]  # fmt: skip
    write(tmp_path / "7_agent_info.csv", V3_AGENTS)
    write(tmp_path / "7_counter_collection.csv", table([V3_COUNTER_HEADER, *rows]))
    recording = read_paths([tmp_path])
    assert column(recording, "duration_ns").count(None) == (0 if is_known else 1)
    assert bool(severe(recording)) != is_known


# --- times -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["kt_start_0.csv", "v2_start_minus5.csv"])
def test_starts_that_cannot_be(case: Read, name: str) -> None:
    """GIVEN one start at 0 or before THEN it and its duration are unknown, with a note."""
    recording = case(f"hostile/{name}")
    assert column(recording, "start_ns").count(None) == 1
    assert column(recording, "duration_ns").count(None) == 1
    assert any("begin at 0 ns or before" in text for text in severe(recording))


def test_a_database_with_its_journal(case: Read) -> None:
    """GIVEN a database whose last transaction was not ended THEN it is refused, not half read."""
    with pytest.raises(TraceroofError, match="journal"):
        case("hostile/hot.rpd")


# --- identity ----------------------------------------------------------------------------------


def counters_with(root: Path, tmp_path: Path, line: int, cell: int, value: str) -> Recording:
    """The counter table with one cell of one row damaged."""
    path = root / "tests/field_cases/hostile/v3_counter_twice.csv"
    rows = list(csv.reader(path.read_text().splitlines()))
    rows[1][2] = rows[2][2]  # the damage that the field case itself has
    rows[line][cell] = value
    damaged = tmp_path / "1_counter_collection.csv"
    with damaged.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return read_paths([damaged])


def test_a_row_without_its_agent_is_no_launch(case: Read) -> None:
    """GIVEN one of 96 rows without its agent THEN 12 launches, and the row is said not to fit."""
    recording = case("hostile/v3_counter_twice.csv")
    assert recording.kernels.num_rows == 12
    assert sum(column(recording, "duration_ns")) == 1_608_159
    assert [note.count for note in recording.notes if note.severe] == [1]


@pytest.mark.parametrize("line", [1, 4, 20])
@pytest.mark.parametrize(
    ("cell", "value"),
    [(1, "77"), (1, ""), (1, "x"), (2, "Agent 9"), (4, "99"), (4, ""), (8, "foo"), (8, "")],
)
def test_a_row_of_damaged_identity_is_no_launch(
    root: Path, tmp_path: Path, line: int, cell: int, value: str
) -> None:
    """GIVEN a damaged number, agent, process or name THEN 12 launches and a severe note."""
    recording = counters_with(root, tmp_path, line, cell, value)
    assert recording.kernels.num_rows == 12
    assert sum(column(recording, "duration_ns")) == 1_608_159
    assert [note.count for note in recording.notes if note.severe] == [1]


def test_operations_that_end_before_they_begin(case: Read) -> None:
    """GIVEN a negative dur in RPD's JSON THEN unknown, never -26 ms."""
    recording = case("hostile/rpd_negative_dur.json")
    assert set(column(recording, "duration_ns")) == {None}
    assert any("end before they begin" in text for text in severe(recording))


def test_a_database_without_a_column(case: Read) -> None:
    """GIVEN a database that lacks BeginNs in one table THEN it is read or refused, not a crash."""
    assert case("hostile/v1db_no_beginns.db").kernels.num_rows == 4


CPU_ONLY = json.dumps(
    {"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1,
                                          "dur": 2, "pid": 1, "tid": 1}]}
)  # fmt: skip


@pytest.mark.parametrize("folder", ["P3_csv_json", "P4_passes"])
@pytest.mark.parametrize(
    "content", [CPU_ONLY, '{"traceEvents": [{"ph":', "==PROF== Connected\n==ERROR== LaunchFailed\n"]
)
def test_traces_of_other_tools_without_gpu_work(
    root: Path, tmp_path: Path, folder: str, content: str
) -> None:
    """GIVEN a trace of another tool without GPU work beside an AMD run, in CSV and JSON and in
    passes THEN the run is what it is alone: 8 launches, 160 us."""
    shutil.copytree(root / "tests/field_cases/amd" / folder, tmp_path / folder)
    (tmp_path / folder / "other.json").write_text(content)
    kernels = read_paths([tmp_path / folder]).kernels
    assert (len(kernels), sum(kernels["duration_ns"].to_pylist())) == (8, 160_000)


def test_one_process_in_two_formats_named(root: Path) -> None:
    """GIVEN the CSV and the JSON of one process by name THEN its launches once."""
    folder = root / "tests/field_cases/amd/P3_csv_json"
    named = [folder / "3_kernel_trace.csv", folder / "3_results.json"]
    kernels = read_paths(named).kernels
    assert (len(kernels), sum(kernels["duration_ns"].to_pylist())) == (8, 160_000)


def test_files_of_another_architecture_in_a_folder(root: Path, tmp_path: Path) -> None:
    """GIVEN a file of an NVIDIA GPU that names no model beside an AMD run THEN it is left out."""
    folder = tmp_path / "run"
    shutil.copytree(root / "tests/field_cases/amd/P3_csv_json", folder)
    shutil.copy(root / "tests/field_cases/nsight_compute/eu_ns_only.csv", folder)
    recording = read_paths([folder])
    assert sum(recording.kernels["duration_ns"].to_pylist()) == 160_000
    assert any("another GPU model" in note.text for note in recording.notes)


@pytest.mark.parametrize(("factor", "known"), [(3.0, False), (0.3, False), (1.4, True)])
def test_cycles_of_merged_passes(root: Path, tmp_path: Path, factor: float, known: bool) -> None:
    """GIVEN pmc_perf.csv with 3.15 M cycles in each of six launches, of 1.5 ms but for one THEN
    that time is unknown where it is twice or half of what the cycles took."""
    folder = tmp_path / "profile"
    shutil.copytree(root / "tests/field_cases/amd/C_nps4_cpx", folder)
    path = folder / "pmc_perf.csv"
    rows = list(csv.reader(path.read_text().splitlines()))
    start, end = (rows[0].index(f"{name}_Timestamp") for name in ("Start", "End"))
    rows[3][end] = str(int(rows[3][start]) + int(1_500_000 * factor))
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    durations = read_paths([folder]).kernels["duration_ns"].to_pylist()
    assert durations.count(1_500_000) == 5
    assert durations[2] == (int(1_500_000 * factor) if known else None)
