"""What nsys stats prints: versions, units, locales, and agreement with the database."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from traceroof.core.kernel_table import launches, total_time_ns
from traceroof.core.recording import Recording
from traceroof.errors import TraceroofError
from traceroof.ingest import detect
from traceroof.parser import Options, silent
from traceroof.parsers import nsight_systems, nsys_stats

KERN_SUM = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name"
TRACE = (
    "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),"
    "DymSMem (MB),Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name"
)


def read(text: str, tmp_path: Path) -> Recording:
    path = tmp_path / "printed.csv"
    path.write_text(text, "utf-8")
    return nsys_stats.PARSER.read(path, silent, Options())


def table(recording: Recording) -> list[dict[str, Any]]:
    found = recording.kernels.to_pylist()
    return [{name: value for name, value in row.items() if value is not None} for row in found]


def refusal(text: str, tmp_path: Path) -> str:
    with pytest.raises(TraceroofError) as found:
        read(text, tmp_path)
    return str(found.value)


def test_a_summary_is_aggregates_with_means(tmp_path: Path) -> None:
    found = read(f'{KERN_SUM}\n75.0,300,4,75.0,70.0,60,100,9.5,"void f<int, 2>(int)"\n', tmp_path)
    [row] = table(found)
    assert row["kernel_name"] == "void f<int, 2>(int)"
    assert (row["launch_count"], row["duration_ns"]) == (4, 75)
    # A mean is no median: that one is kept beside it.
    raw = {one["metric"]: one["value"] for one in found.raw_metrics.to_pylist()}
    assert raw == {"Med": 70, "Min": 60, "Max": 100, "StdDev": 9.5}


def test_a_trace_is_launches(tmp_path: Path) -> None:
    found = read(
        f"{TRACE}\n"
        "1000,200,67,1,2,3,128,1,1,160,0.000,0.025,,,,,NVIDIA A100-SXM4-40GB (1),1,,7,f(int)\n"
        "500,100,66,,,,,,,,,,4.194,41943,Pageable,Device,NVIDIA A100-SXM4-40GB (1),1,,7,"
        "[CUDA memcpy Host-to-Device]\n",
        tmp_path,
    )
    launch, copy = table(found)
    assert (launch["start_ns"], launch["duration_ns"], launch["correlation_id"]) == (1000, 200, 67)
    assert [launch[f"grid_{axis}"] for axis in "xyz"] == [1, 2, 3]
    assert (launch["device"], launch["stream"], launch["registers_per_thread"]) == (1, 7, 160)
    assert "shared_memory_dynamic_bytes" not in launch  # 0.025 MB is no number of bytes
    assert copy["copy_kind"] == "Host-to-Device (Pageable -> Device)"
    assert copy["copy_bytes"] == 4_194_000
    assert (found.devices[0].name, found.devices[0].index) == ("NVIDIA A100-SXM4-40GB", 1)


@pytest.mark.parametrize(
    ("header", "start", "spent"),
    [
        ("Start (sec),Duration (nsec)", "1.000002", "200"),
        ("Start (us),Duration (us)", "1000002.0", "0.2"),
        ("Start (ms),Duration (ms)", "1000.002", "0.0002"),
    ],
)
def test_units_stand_in_the_header(header: str, start: str, spent: str, tmp_path: Path) -> None:
    text = f"{header},CorrId,Name\n{start},{spent},1,f()\n"
    [row] = table(read(text, tmp_path))
    assert (row["start_ns"], row["duration_ns"]) == (1_000_002_000, 200)


def test_names_with_commas_need_no_quotes_and_lines_may_end_in_one(tmp_path: Path) -> None:
    text = f"{KERN_SUM}\n1,300,4,75,70,60,100,9,void f<int, 2>(int, int)\n"
    assert table(read(text, tmp_path))[0]["kernel_name"] == "void f<int, 2>(int, int)"
    # As Alibaba's asys writes it, the range before the name.
    text = (
        "Row#,Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),"
        "GridXYZ,BlockXYZ,Name,\n"
        '1,6.7,650,65,10,10,10,10,0,"960 1 64","256 1 1","[prof_range]: iter 9/_Z1fi",\n'
    )
    [row] = table(read(text, tmp_path))
    assert (row["kernel_name"], row["module_path"], row["launch_count"]) == ("_Z1fi", "iter 9", 65)
    assert (row["grid_x"], row["grid_z"], row["block_x"]) == (960, 64, 256)


def test_text_columns_group_digits(tmp_path: Path) -> None:
    text = """Generating SQLite file r.sqlite from r.nsys-rep
Processing [r.sqlite] with [/opt/nsys/reports/cuda_gpu_kern_sum.py]...

 ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):

 Time (%)  Total Time (ns)  Instances   Avg (ns)    Med (ns)   Min (ns)  Max (ns)  StdDev (ns)          Name
 --------  ---------------  ---------  -----------  ---------  --------  --------  -----------  ---------------------
     63.2    1,346,714,824      5,000    269,342.9  318,030.0     1,313   630,729    269,467.8  void f<int>(int, int)
     36.8           10,000          2      5,000.0    5,000.0     5,000     5,000          0.0  g(int)

Processing [r.sqlite] with [/opt/nsys/reports/cuda_gpu_mem_time_sum.py]...

 ** CUDA GPU MemOps Summary (by Time) (cuda_gpu_mem_time_sum):

 Time (%)  Total Time (ns)  Count  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)            Operation
 --------  ---------------  -----  --------  --------  --------  --------  -----------  ----------------------------
    100.0            2,000      2   1,000.0   1,000.0     1,000     1,000          0.0  [CUDA memcpy Host-to-Device]

Processing [r.sqlite] with [/opt/nsys/reports/cuda_gpu_mem_size_sum.py]...

 ** CUDA GPU MemOps Summary (by Size) (cuda_gpu_mem_size_sum):

 Total (MB)  Count  Avg (MB)  Med (MB)  Min (MB)  Max (MB)  StdDev (MB)            Operation
 ----------  -----  --------  --------  --------  --------  -----------  ----------------------------
      8.000      2     4.000     4.000     4.000     4.000        0.000  [CUDA memcpy Host-to-Device]

"""
    one, other, copy = table(read(text, tmp_path))
    assert (one["kernel_name"], one["launch_count"]) == ("void f<int>(int, int)", 5000)
    assert one["duration_ns"] == 269_343  # 1,346,714,824 / 5,000
    assert other["kernel_name"] == "g(int)"
    assert (copy["kind"], copy["copy_kind"]) == ("memcpy", "Host-to-Device")
    assert (copy["launch_count"], copy["duration_ns"], copy["copy_bytes"]) == (2, 1_000, 4_000_000)


def test_a_boxed_table(tmp_path: Path) -> None:
    text = """
+----------+-----------------+-----------+----------+--------+
| Time (%) | Total Time (us) | Instances | Avg (us) |  Name  |
+----------+-----------------+-----------+----------+--------+
|    100.0 |         1,000.5 |         2 |    500.3 | f(int) |
+----------+-----------------+-----------+----------+--------+
"""
    text = text.replace("\n+--", "\n+--", 1)
    [row] = table(read(text, tmp_path))
    assert (row["launch_count"], row["duration_ns"]) == (2, 500_250)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        # 482,333 alone can be both; 0,000 beside it shows that commas are decimal.
        ('"482,333",3,"160,778","0,000"', 160_777_667),
        ('"482,333,000",3,"160,778,000","0"', 160_777_667_000_000),
        ('"1,482.333",3,"494.1","0.0"', 494_111_000),
    ],
)
def test_what_a_comma_means_shows_in_its_column(cells: str, expected: int, tmp_path: Path) -> None:
    sizes = f"Total (MB),Count,Avg (MB),StdDev (MB),Operation\n{cells},[CUDA memcpy DtoH]\n"
    times = "Time (%),Total Time (ns),Count,Avg (ns),Operation\n100,30,3,10,[CUDA memcpy DtoH]\n"
    [row] = table(read(f"{times}\n{sizes}", tmp_path))
    assert row["copy_bytes"] == pytest.approx(expected, rel=1e-6)
    assert row["copy_kind"] == "DtoH"


def test_of_several_tables_the_one_that_says_most_is_read(tmp_path: Path) -> None:
    text = (
        f"{KERN_SUM}\n100,200,1,200,200,200,200,0,f()\n\n"
        f"{TRACE}\n1000,200,67,1,2,3,128,1,1,160,0,0,,,,,GPU (0),1,,7,f()\n\n"
        "Time (%),Total Time (ns),Num Calls,Avg (ns),Name\n100,5000,2,2500,cudaLaunchKernel\n"
    )
    found = read(text, tmp_path)
    assert launches(found.kernels) == 1
    said = [str(one) for one in found.notes]
    assert "rows of other tables of the same launches, left out" in said
    assert any("5 µs" in one and "cudaLaunchKernel" in one for one in said)


def test_what_holds_no_kernels_says_why(tmp_path: Path) -> None:
    skipped = "SKIPPED: r.sqlite does not contain CUDA kernel data."
    assert "does not contain CUDA kernel data" in refusal(f"{skipped}\n", tmp_path)
    calls = "Time (%),Total Time (ns),Num Calls,Avg (ns),Name\n100,5000,2,2500,cudaFree\n"
    assert "sums up calls of the host" in refusal(calls, tmp_path)
    assert "no rows" in refusal(f"{KERN_SUM}\n", tmp_path)


# --- the corpus ------------------------------------------------------------------------------------


@pytest.mark.corpus
def test_real_summaries(corpus: Path) -> None:
    """GIVEN tables printed by nsys WHEN read THEN launches and totals are those of an independent
    sum of the cells; a mean of whole ns can be half of one off."""
    expected = {
        "other/nsys_stats/dotllm__nsys2024.6.2_cuda_gpu_kern_sum_476tok.csv": (679, 198_511_027),
        "other/nsys_stats/dotllm__nsys2024.6.2_cuda_gpu_kern_sum_2091tok.csv": (679, 1_958_848_287),
        "other/nsys_stats/a10g_burn__kern_sum_EXCERPT.csv": (5, 28_918_591),
        "other/nsys_stats/alibaba_ppu_asys__hggc_ppu_kern_gb_sum_EXCERPT.csv": (105, 31_101_117),
        "nsys/dsocr_projector_cuda_gpu_kern_sum.csv": (2, 35_488),
        "nsys/dsocr_clip_cuda_gpu_kern_sum.csv": (387, 3_424_837),
    }
    for name, (count, total) in expected.items():
        found = detect.read([corpus / name])
        assert found.format == "nsys-stats"
        assert launches(found.kernels) == count, name
        assert abs(total_time_ns(found.kernels) - total) <= count / 2, name


@pytest.mark.corpus
def test_a_summary_and_a_trace_agree_with_their_database(corpus: Path, tmp_path: Path) -> None:
    """GIVEN a database, its kernel summary and its trace WHEN read THEN they say the same."""
    path = corpus / "nsys/2025.3.1_s3.20.2_T4_cupy_nvtx__nsightful.sqlite"
    database = nsight_systems.PARSER.read(path, silent, Options())
    summary = detect.read([corpus / "nsys/COMPUTED_kern_sum_from_nsightful_sqlite.csv"])
    assert launches(summary.kernels) == launches(database.kernels)
    difference = total_time_ns(summary.kernels) - total_time_ns(database.kernels)
    assert abs(difference) <= launches(database.kernels) / 2
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as opened:
        rows = opened.execute(
            'SELECT k.start, "end" - start, correlationId, gridX, gridY, gridZ, blockX, blockY,'
            " blockZ, registersPerThread, streamId, s.value FROM CUPTI_ACTIVITY_KIND_KERNEL k"
            " JOIN StringIds s ON s.id = k.demangledName ORDER BY k.start"
        ).fetchall()
    lines = [
        ",".join(map(str, row[:10])) + f',,,,,,,Tesla T4 (0),1,,{row[10]},"{row[11]}"'
        for row in rows
    ]
    trace = read("\n".join([TRACE, *lines]) + "\n", tmp_path)
    assert launches(trace.kernels) == launches(database.kernels)
    for column in ("kernel_name", "duration_ns", "correlation_id", "grid_x", "block_z", "stream"):
        expected = [row[column] for row in database.kernels.to_pylist() if row["kind"] == "kernel"]
        assert trace.kernels[column].to_pylist() == expected, column


def test_the_tables_before_2021(tmp_path: Path) -> None:
    """GIVEN tables whose columns have no unit, and names for copies of managed memory that differ from
    those of today THEN the same kinds of rows."""
    text = """
    CUDA Kernel Statistics (nanoseconds)

    Time(%)      Total Time   Instances         Average  Name
    -------  --------------  ----------  --------------  --------------
      100.0        99957801           1      99957801.0  addVectorsInto


    CUDA Memory Operation Statistics (nanoseconds)

    Time(%)      Total Time  Operations         Average  Name
    -------  --------------  ----------  --------------  ---------------------------------
      100.0           50000          10          5000.0  [CUDA Unified Memory memcpy HtoD]
"""
    rows = read(text, tmp_path).kernels.to_pandas()
    assert list(rows.kind) == ["kernel", "memcpy"]
    assert list(rows.duration_ns) == [99_957_801, 5_000]
    assert list(rows.launch_count) == [1, 10]
    assert rows.copy_kind.iloc[1] == "Unified HtoD"
