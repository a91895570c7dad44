"""nvprof: traces, metrics and summaries, as CSV and as text."""

import csv
import math
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import traceroof
from traceroof.core.recording import Run
from traceroof.errors import TraceroofError
from traceroof.parsers.nsight.nvprof_tables import tables

TRACE = """\
==12611== NVPROF is profiling process 12611, command: ./reduction
the program's own line
==12611== Profiling application: ./reduction
==12611== Profiling result:
"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z","Registers Per Thread","Static SMem","Dynamic SMem","Size","Throughput","SrcMemType","DstMemType","Device","Context","Stream","Name"
s,ms,,,,,,,,KB,B,MB,GB/s,,,,,,
0.866586,168.281164,,,,,,,,,,64.000000,0.371402,"Pageable","Device","GeForce GTX 1080 Ti (0)","1","7","[CUDA memcpy HtoD]"
1.034913,0.187331,64,2,1,256,1,1,10,1.000000,512,,,,,"GeForce GTX 1080 Ti (0)","1","7","void reduce6<int, unsigned int=256, bool=1>(int*, int*, unsigned int) [1098]"
1.035309,0.329575,,,,,,,,,,64.000000,189.638170,,,"GeForce GTX 1080 Ti (0)","1","7","[CUDA memset]"
"""

TEXT_TRACE = """\
==15561== NVPROF is profiling process 15561, command: ./a.out
==15561== Profiling result:
   Start  Duration            Grid Size      Block Size     Regs*    SSMem*    DSMem*      Size  Throughput  SrcMemType  DstMemType           Device   Context    Stream  Name
347.74ms  169.24us                    -               -         -         -         -  256.00KB  1.4426GB/s    Pageable      Device  GeForce GT 1030         1         7  [CUDA memcpy HtoD]
347.92ms  17.506us            (128 1 1)       (256 1 1)        10  4.0000KB        0B         -           -           -           -  GeForce GT 1030         1         7  sum_reduction(int*, int*) [114]
347.94ms  2.4e+03s              (1 1 1)       (256 1 1)        10  4.0000KB        0B         -           -           -           -  GeForce GT 1030         1         7  sum_reduction(int*, int*) [115]

Regs: Number of registers used per CUDA thread. This number includes registers used internally.
"""

TEXT_SUMMARY = """\
==9== NVPROF is profiling process 9, command: ./a.out
==9== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:   75.00%  30.000us        20  1.5000us  1.2000us  2.0000us  void scale<float, int=4>(float*)
                   25.00%  10.000us         1  10.000us  10.000us  10.000us  [CUDA memcpy DtoH]
      API calls:   99.00%  300.00ms         2  150.00ms     100ns  299.00ms  cudaMalloc
"""

METRICS = """\
==7853== NVPROF is profiling process 7853, command: ./binomialOptions
==7853== Metric result:
"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"
"GeForce GTX 1080 Ti (0)","k(void)",3,"achieved_occupancy","Achieved Occupancy",0.500000,0.600000,0.550000
"GeForce GTX 1080 Ti (0)","k(void)",3,"warp_execution_efficiency","Warp Execution Efficiency",50.000000%,50.000000%,50.000000%
"GeForce GTX 1080 Ti (0)","k(void)",3,"dram_utilization","Device Memory Utilization",Low (2),Low (2),Low (2)
"GeForce GTX 1080 Ti (0)","k(void)",3,"dram_read_transactions","Device Memory Read Transactions",100,100,100
"GeForce GTX 1080 Ti (0)","k(void)",3,"dram_write_transactions","Device Memory Write Transactions",0,0,0
"GeForce GTX 1080 Ti (0)","k(void)",3,"gld_efficiency","Global Memory Load Efficiency",0.000000%,0.000000%,0.000000%
"GeForce GTX 1080 Ti (0)","k(void)",3,"gld_transactions","Global Load Transactions",0,0,0
"GeForce GTX 1080 Ti (0)","k(void)",3,"gst_throughput","Global Store Throughput",1.500000MB/s,1.500000MB/s,1.500000MB/s
"GeForce GTX 1080 Ti (0)","k(void)",3,"stall_sync","Issue Stall Reasons (Synchronization)",39.000000%,39.000000%,39.000000%
"GeForce GTX 1080 Ti (0)","k(void)",3,"inst_fp_64","FP Instructions(Double)",<OVERFLOW>,<OVERFLOW>,<OVERFLOW>
"""

TEXT_METRICS = """\
==8527== NVPROF is profiling process 8527, command: matrixMul
==8527== Metric result:
Invocations                               Metric Name                        Metric Description         Min         Max         Avg
Device "GeForce GTX 1080 (0)"
    Kernel: void matrixMulCUDA<int=32>(float*, float*, float*, int, int)
        301                                       ipc                              Executed IPC    1.282576    1.299736    1.291500
        301                          dram_utilization                 Device Memory Utilization     Low (1)     Low (1)     Low (1)
"""


def _read(folder: Path, text: str, name: str = "nvprof.log") -> Run:
    path = folder / name
    path.write_text(text)
    return traceroof.read(path)


def test_csv_trace(tmp_path: Path) -> None:
    """GIVEN a trace with a line of units WHEN read THEN times to the ns and sizes in bytes."""
    run = _read(tmp_path, TRACE)
    rows = run.kernels
    assert list(rows.kind) == ["memcpy", "kernel", "memset"]
    assert list(rows.start_ns) == [866_586_000, 1_034_913_000, 1_035_309_000]
    assert list(rows.duration_ns) == [168_281_164, 187_331, 329_575]
    kernel = rows.iloc[1]
    assert (
        kernel.kernel_name
        == "void reduce6<int, unsigned int=256, bool=1>(int*, int*, unsigned int)"
    )
    assert (kernel.grid_x, kernel.grid_y, kernel.block_x) == (64, 2, 256)
    assert (kernel.registers_per_thread, kernel.correlation_id, kernel.stream) == (10, 1098, 7)
    # 1 KB and 512 B; nvprof counts in powers of 1,024.
    assert kernel.shared_memory_bytes == 1024 + 512
    # 64 MB are 2^24 integers of 4 bytes.
    assert rows.copy_bytes.iloc[0] == 1 << 26
    assert rows.copy_kind.iloc[0] == "HtoD (Pageable -> Device)"
    assert run.recording.devices[0].name == "GeForce GTX 1080 Ti"
    assert run.recording.time_basis == "timeline"


def test_text_trace(tmp_path: Path) -> None:
    """GIVEN the trace as text WHEN read THEN the same columns; 2.4e+03s is 2,400 s."""
    rows = _read(tmp_path, TEXT_TRACE).kernels
    assert list(rows.kind) == ["memcpy", "kernel", "kernel"]
    assert list(rows.duration_ns) == [169_240, 17_506, 2_400_000_000_000]
    assert list(rows.kernel_name)[1:] == ["sum_reduction(int*, int*)"] * 2
    assert (rows.grid_x.iloc[1], rows.block_x.iloc[1]) == (128, 256)
    assert rows.shared_memory_bytes.iloc[1] == 4096


def test_text_summary(tmp_path: Path) -> None:
    """GIVEN a summary WHEN read THEN means of GPU work; calls of the host are sums."""
    run = _read(tmp_path, TEXT_SUMMARY)
    rows = run.kernels
    assert list(rows.kernel_name) == ["void scale<float, int=4>(float*)", "[CUDA memcpy DtoH]"]
    assert list(rows.launch_count) == [20, 1]
    assert list(rows.duration_ns) == [1500, 10_000]
    assert list(rows.shortest_launch_ns) == [1200, 10_000]
    assert list(rows.longest_launch_ns) == [2000, 10_000]
    assert run.recording.call_sums.drop_columns(["source"]).to_pylist() == [
        {"name": "cudaMalloc", "calls": 2, "total_ns": 300_000_000, "typical_ns": 100}
    ]
    (note,) = run.recording.notes
    assert str(note) == "host calls took 300 ms, 300 ms of it in 2 calls of cudaMalloc"


@pytest.mark.parametrize("text", [TEXT_SUMMARY, TEXT_TRACE])
def test_tables_alone_are_recognised(text: str, tmp_path: Path) -> None:
    """GIVEN a table as people paste it, without nvprof's own lines THEN the same rows."""
    alone = "".join(line for line in text.splitlines(True) if not line.startswith("=="))
    assert len(_read(tmp_path, alone).kernels) == len(_read(tmp_path, text, "whole.log").kernels)


def test_tables_within_comments_are_read(tmp_path: Path) -> None:
    commented = "".join(f"// {line}" for line in TEXT_SUMMARY.splitlines(True))
    assert list(_read(tmp_path, commented).kernels.launch_count) == [20, 1]


MIGRATIONS = """\
==9== Unified Memory profiling result:
Device "Tesla P100-SXM2-16GB (0)"
   Count  Avg Size  Min Size  Max Size  Total Size  Total Time  Name
     100  80.000KB  4.0000KB  0.9922MB  7.812500MB  1.500000ms  Host To Device
      50  160.00KB  4.0000KB  0.9961MB  7.812500MB  500.0000us  Device To Host
     145         -         -         -           -  12.24735ms  Gpu page fault groups
Total CPU Page faults: 72
"""
MIGRATIONS_CSV = """\
==9== Unified Memory profiling result:
"Device","Count","Avg Size","Min Size","Max Size","Total Size","Total Time","Name"
,,KB,KB,KB,MB,ms,
"Tesla P100-SXM2-16GB (0)",100,80.000000,4.000000,1016.000000,7.812500,1.500000,"Host To Device"
"Tesla P100-SXM2-16GB (0)",50,160.000000,4.000000,1020.000000,7.812500,0.500000,"Device To Host"
"Tesla P100-SXM2-16GB (0)",145,,,,,12.247350,"Gpu page fault groups"
"""


@pytest.mark.parametrize("text", [MIGRATIONS, MIGRATIONS_CSV])
def test_unified_memory_is_copied(text: str, tmp_path: Path) -> None:
    """GIVEN the summary of managed memory, as text and CSV THEN copies by direction: 100 of 15 us and
    81,920 bytes, 50 of 10 us and 163,840; faults are no copies."""
    run = _read(tmp_path, TEXT_SUMMARY + "\n" + text)
    rows = run.kernels[run.kernels.kernel_name.str.startswith("[Unified")]
    assert list(rows.copy_kind) == ["Unified Host To Device", "Unified Device To Host"]
    assert list(rows.launch_count) == [100, 50]
    assert list(rows.duration_ns) == [15_000, 10_000]
    assert list(rows.copy_bytes) == [81_920, 163_840]
    assert run.recording.devices[0].name == "Tesla P100-SXM2-16GB"
    assert "rows of page faults, left out" in [str(one) for one in run.recording.notes]


def test_other_apis_are_no_gpu_work(tmp_path: Path) -> None:
    """GIVEN a summary with OpenACC's own calls WHEN read THEN they are neither kernels nor CUDA calls."""
    text = TEXT_SUMMARY + (
        " OpenACC (excl):   60.00%  9.0000us         3  3.0000us  2.0000us  4.0000us  "
        "acc_enqueue_launch@a.c:7 (main_7_gpu)\n"
        "                   40.00%  6.0000us         3  2.0000us  1.0000us  3.0000us  acc_wait@a.c:7\n"
    )
    run = _read(tmp_path, text)
    assert list(run.kernels.kernel_name) == [
        "void scale<float, int=4>(float*)",
        "[CUDA memcpy DtoH]",
    ]
    assert run.recording.call_sums["name"].to_pylist() == ["cudaMalloc"]
    assert "rows of host calls, left out (2 times)" in [str(one) for one in run.recording.notes]


def test_a_summary_that_contradicts_itself(tmp_path: Path) -> None:
    """GIVEN 30 ms in 20 calls of 1.5 us THEN a note: one of the figures is wrong."""
    run = _read(tmp_path, TEXT_SUMMARY.replace("30.000us", "30.000ms"))
    assert [note.count for note in run.recording.notes if "contradict" in note.text] == [1]


def test_csv_metrics(tmp_path: Path) -> None:
    """GIVEN means of metrics WHEN read THEN columns in their units, and unknown is not 0."""
    run = _read(tmp_path, METRICS)
    (row,) = run.kernels.to_dict("records")
    assert row["launch_count"] == 3
    assert row["achieved_occupancy_pct"] == pytest.approx(55.0)
    assert row["threads_per_instruction"] == pytest.approx(16.0)
    # Levels are tenths of the peak.
    assert row["dram_throughput_pct"] == 20.0
    assert (row["dram_read_bytes"], row["dram_write_bytes"], row["dram_bytes"]) == (3200, 0, 3200)
    # No load took place: the efficiency of none is unknown.
    assert math.isnan(row["load_bytes_per_sector"])
    assert row["stall_barrier"] == pytest.approx(0.39)
    raw = {one["metric"]: one for one in run.recording.raw_metrics.to_pylist()}
    assert raw["gst_throughput"]["value"] == 1.5 * (1 << 20)
    assert raw["inst_fp_64"]["text"] == "<OVERFLOW>"
    notes = [str(note) for note in run.recording.notes]
    assert any("<OVERFLOW>" in note for note in notes)
    assert run.recording.time_basis == "counter-tool"


def test_text_metrics(tmp_path: Path) -> None:
    """GIVEN metrics as text WHEN read THEN kernel and device come from the lines above."""
    run = _read(tmp_path, TEXT_METRICS)
    (row,) = run.kernels.to_dict("records")
    assert row["kernel_name"].startswith("void matrixMulCUDA<int=32>")
    assert (row["launch_count"], row["ipc"]) == (301, 1.2915)
    assert row["dram_throughput_pct"] == 10.0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("==1== NVPROF is profiling process 1\n==1== Profiling result:\nNo kernels were profiled.\n",
         "no kernel, copy or metric"),
        ("==1== NVPROF is profiling process 1\n==1== Error: Internal profiling error 4054:1.\n",
         "Internal profiling error 4054:1"),
        (("==1== NVPROF is profiling process 1\n==1== Warning: ERR_NVGPUCTRPERM - The user does not "
         "have permission to profile on the target device.\n"), "ERR_NVGPUCTRPERM"),
    ],
)  # fmt: skip
def test_logs_without_kernels(tmp_path: Path, text: str, reason: str) -> None:
    """GIVEN a log without GPU work WHEN read THEN refused with nvprof's own words."""
    with pytest.raises(TraceroofError, match="holds no GPU work") as raised:
        _read(tmp_path, text)
    assert reason in raised.value.message


@pytest.mark.corpus
@pytest.mark.parametrize("program", ["binomialOptions", "convolutionFFT2D", "reduction"])
def test_corpus_traces(corpus: Path, program: str) -> None:
    """GIVEN real traces WHEN read THEN counts and times equal those of a plain CSV reader."""
    path = corpus / "nvprof" / f"{program}_trace.csv"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("==")]
    table = list(csv.DictReader(lines))
    unit = {"s": 10**9, "ms": 10**6, "us": 10**3}[table[0]["Duration"]]
    times = [int(Decimal(row["Duration"]) * unit) for row in table[1:]]
    rows = traceroof.read(path).kernels
    assert list(rows.duration_ns) == times
    kernels = [row for row in table[1:] if not row["Name"].startswith("[CUDA")]
    assert (rows.kind == "kernel").sum() == len(kernels) > 0
    assert list(rows[rows.kind == "kernel"].grid_x) == [int(row["Grid X"]) for row in kernels]


@pytest.mark.corpus
@pytest.mark.parametrize("program", ["binomialOptions", "convolutionFFT2D", "reduction"])
def test_corpus_metrics(corpus: Path, program: str) -> None:
    """GIVEN real metrics WHEN read THEN every cell is a column or a raw metric, percent and
    levels included."""
    path = corpus / "nvprof" / f"{program}_metrics.csv"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("==")]
    table = list(csv.DictReader(lines))
    run = traceroof.read(path)
    rows = run.kernels
    kernels = {(row["Kernel"], row["Invocations"]) for row in table}
    assert len(rows) == len(kernels)
    assert rows.launch_count.sum() == sum(int(count) for _, count in kernels)
    for row in table:
        found = rows[
            (rows.kernel_name == row["Kernel"]) & (rows.launch_count == int(row["Invocations"]))
        ].iloc[0]
        if row["Metric Name"] == "achieved_occupancy":
            assert found.achieved_occupancy_pct == pytest.approx(100 * float(row["Avg"]))
        if row["Metric Name"] == "branch_efficiency":
            assert found.branch_efficiency_pct == float(row["Avg"].rstrip("%"))
        if row["Metric Name"] == "dram_utilization":
            # A level is a tenth of the peak, rounded up; what moved lies within it or a bit below.
            level = 10 * int(row["Avg"].partition("(")[2].rstrip(")"))
            # Bytes a nanosecond are GB/s.
            assert level - 10 <= found.dram_bytes / found.duration_ns / 484.4 * 100 <= level
            assert pd.isna(found.dram_throughput_pct)


RATES = """\
==1== NVPROF is profiling process 1, command: ./a.out
==1== Metric result:
"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"
"GeForce GTX 1080 Ti (0)","k(void)",1,"dram_utilization","Device Memory Utilization",High (8),High (8),High (8)
"GeForce GTX 1080 Ti (0)","k(void)",1,"dram_read_transactions","",1000000,1000000,1000000
"GeForce GTX 1080 Ti (0)","k(void)",1,"dram_write_transactions","",100000,100000,100000
"GeForce GTX 1080 Ti (0)","k(void)",1,"dram_read_throughput","",298.023224GB/s,298.023224GB/s,298.023224GB/s
"GeForce GTX 1080 Ti (0)","k(void)",1,"dram_write_throughput","",29.802322GB/s,29.802322GB/s,29.802322GB/s
"GeForce GTX 1080 Ti (0)","k(void)",1,"gld_transactions","",230000,230000,230000
"""


def test_a_count_over_its_rate_is_the_time_of_a_launch(tmp_path: Path) -> None:
    """GIVEN 1,000,000 sectors of 32 bytes read at 298.023224 GB/s (of 2^30 bytes), which are 320e9
    byte/s THEN the launch took 100 µs, and used 352 of the 484.4 GB/s of this GPU, not the upper edge
    of the eighth tenth."""
    file = tmp_path / "metrics.csv"
    file.write_text(RATES)
    run = traceroof.read(file)
    row = run.kernels.iloc[0]
    assert row.duration_ns == 100_000
    assert pd.isna(row.dram_throughput_pct)
    grounds = traceroof.diagnose(run).grounds
    assert grounds is not None
    facts = grounds.scopes["kernel"].facts
    assert facts.dram_pct[0] == pytest.approx(352e9 / 484.4e9 * 100, rel=1e-3)
    assert facts.dram_basis[0] == "nominal peak"
    assert row.global_load_sectors == 230_000
    notes = [str(note) for note in run.recording.notes]
    assert notes == ["durations computed from a count and its rate"]
    # Of a GPU that nobody knows the level is all there is.
    file.write_text(RATES.replace("GTX 1080 Ti", "GT 1"))
    assert traceroof.read(file).kernels.iloc[0].dram_throughput_pct == 80.0


@given(st.sampled_from([TRACE, TEXT_TRACE, TEXT_SUMMARY, METRICS, TEXT_METRICS]), st.data())
def test_cut_anywhere(text: str, data: st.DataObject) -> None:
    """GIVEN a log cut anywhere WHEN its tables are found THEN no error but ours."""
    cut = data.draw(st.integers(0, len(text)))
    whole = sum(len(table.rows) for table in tables(text))
    assert sum(len(table.rows) for table in tables(text[:cut])) <= whole


@pytest.mark.corpus
def test_where_the_time_is_silences_no_verdict(corpus: Path) -> None:
    """GIVEN one kernel of 98.7 % of the time with device memory at 72.6 % of its peak WHEN diagnosed THEN
    that leads: that the kernel dominates explains nothing."""
    found = traceroof.diagnose(corpus / "nvprof/reduction_metrics.csv", calibrated=False)
    assert found.advice[0].lead.rule == "dram-leaning-headroom"
