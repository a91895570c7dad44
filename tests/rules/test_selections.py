"""Selections of a few metrics, as kernel authors collect them: what is wrong is named all the same."""

from pathlib import Path

import pytest

import traceroof
from tests.runs import cut, selection

_TIME = ("gpu__time_duration.sum", "nsecond", "1,000,000")


@pytest.mark.parametrize(
    ("rule", "block", "grid", "metrics", "says"),
    [
        # 32 sectors where 16 are needed at most: half of the bytes.
        ("uncoalesced-global", 256, 65_536, (
            _TIME,
            ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", "request", "524,288"),
            ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "sector", "16,777,216"),
            ("dram__bytes_read.sum", "byte", "536,870,912"),
        ), "50 % of loads"),
        # 4,063,232 conflicts on as many wavefronts and 262,144 requests: 93.9 %.
        ("smem-bank-conflict", 1024, 4096, (
            _TIME,
            ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum", "", "4,063,232"),
            ("smsp__inst_executed_op_shared_ld.sum", "inst", "131,072"),
            ("smsp__inst_executed_op_shared_st.sum", "inst", "131,072"),
            ("l1tex__throughput.avg.pct_of_peak_sustained_active", "%", "60"),
        ), "93.9 %"),
        ("thread-divergence", 256, 8192, (
            _TIME,
            ("smsp__thread_inst_executed_per_inst_executed.ratio", "", "9.4"),
        ), "9.4 of 32 threads"),
        # (400 MB + 200 MB) / 128 bytes, in a thread with all 255 registers.
        ("register-spill", 256, 864, (
            _TIME,
            ("l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum", "byte", "400,000,000"),
            ("l1tex__t_bytes_pipe_lsu_mem_local_op_st.sum", "byte", "200,000,000"),
            ("launch__registers_per_thread", "register/thread", "255"),
        ), "4,687,500 local-memory requests"),
        # 3,200,000 passes for 200,000 atomics, on a path that is busy 75 % of the time.
        ("shared-atomics-contention", 256, 4096, (
            _TIME,
            ("smsp__inst_executed_op_shared_atom.sum", "inst", "200,000"),
            ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum", "", "3,200,000"),
            ("l1tex__throughput.avg.pct_of_peak_sustained_active", "%", "75"),
        ), "takes 16.0 passes"),
        ("few-blocks", 1024, 1, (_TIME,), "1 block of 1024 threads"),
        ("block-not-warp-multiple", 8, 4_194_304, (_TIME,), "8 threads per block"),
    ],
)  # fmt: skip
def test_the_defect_comes_first(
    tmp_path: Path,
    rule: str,
    block: int,
    grid: int,
    metrics: tuple[tuple[str, str, str], ...],
    says: str,
) -> None:
    found = traceroof.diagnose(selection(tmp_path / "few.csv", metrics, block=block, grid=grid))
    first = found.fired()[0]
    assert first.rule == rule
    assert says in first.because


_FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>>(int)"


def test_a_flush_of_the_caches_is_no_work(tmp_path: Path) -> None:
    """GIVEN a fill of 256 MB on an A100, whose L2 holds 40 MB THEN nothing else is said of it."""
    metrics = (
        _TIME,
        ("dram__bytes_write.sum", "byte", "256,000,000"),
        ("dram__bytes_read.sum", "byte", "100,000"),
        ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "%", "9"),
        ("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", "%", "55"),
    )
    file = selection(tmp_path / "few.csv", metrics, name=_FILL)
    found = traceroof.diagnose(file, device="NVIDIA A100-SXM4-40GB", calibrated=False)
    assert [one.rule for one in found.fired() if one.scope == "kernel"] == ["benchmark-flush"]
    assert "256 MB" in found.fired()[0].because


def test_operations_per_word_loaded_tell_a_product_without_tiles(tmp_path: Path) -> None:
    """GIVEN a product of 1,024^3 whose threads load two words per multiply-add, without any use of
    units WHEN read THEN it is told: 2 x 1024^3 operations, 2 x 1024^3 words, one per word."""
    load = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
    fma = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
    metrics = (
        ("gpu__time_duration.sum", "usecond", "4,000"),
        (load, "request", f"{2 * 1024**3 // 32:,}"),
        (fma, "inst", f"{1024**3:,}"),
        (fma.replace("ffma", "fadd"), "inst", "0"),
        (fma.replace("ffma", "fmul"), "inst", "0"),
    )
    file = selection(tmp_path / "few.csv", metrics, name="sgemm(float*, float*, float*)")
    found = traceroof.diagnose(file, device="NVIDIA A100-SXM4-80GB", calibrated=False)
    first = found.fired()[0]
    assert first.rule == "no-register-reuse"
    assert "1.0 operations per word" in first.because
    # 2.15 GFLOP in 4 ms are 0.54 of 19.5 TFLOP/s.
    assert "2.75 % of the FP32 peak" in first.because


_T = _TIME[0]
_GLOBAL = r"l1tex__t_(requests|sectors)_pipe_lsu_mem_global_op_(ld|st)\.sum"
#: Selections of at most a dozen metrics, as blogs and courses list them.
SELECTIONS = {
    "access": (
        _T, "sm__throughput.avg.pct_of_peak_sustained_elapsed",
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
        r"dram__bytes_(read|write)\.sum", _GLOBAL,
        "sm__warps_active.avg.pct_of_peak_sustained_active",
    ),
    "efficiency": (
        _T, r"smsp__sass_average_data_bytes_per_sector_mem_global_op_(ld|st)\.(pct|ratio)",
        r"dram__bytes_(read|write)\.sum(\.per_second)?",
        "sm__warps_active.avg.pct_of_peak_sustained_active",
    ),
    "shared": (
        _T, r"l1tex__data_bank_conflicts_pipe_lsu_mem_shared(_op_(ld|st))?\.sum",
        r"l1tex__data_pipe_lsu_wavefronts_mem_shared(_op_(ld|st))?\.sum",
        r"smsp__inst_executed_op_shared_(ld|st)\.sum",
        "l1tex__throughput.avg.pct_of_peak_sustained_active",
        "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    ),
    "work": (
        _T, "smsp__inst_executed.sum", _GLOBAL, "dram__bytes_read.sum",
        r"smsp__warp_issue_stalled_barrier.*pct",
    ),
    "stalls": (
        _T,
        r"smsp__average_warps_issue_stalled_(long_scoreboard|barrier|selected)_per_issue_active\.ratio",
        "smsp__average_warps_active_per_issue_active.ratio",
        "smsp__average_warp_latency_per_inst_issued.ratio",
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
        "sm__throughput.avg.pct_of_peak_sustained_elapsed",
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    ),
}  # fmt: skip

_LASHI = "known_faults/Lashi0812__CudaProgramming"
_OLAJIDE = "known_faults/Olajide-Badejo__GPU-Roofline-Profiler"
_REDUCE = "ncu_csv/Lashi0812__CudaProgramming__ncu_reduceInteger.csv"
_RMS = "known_faults/AlpriElse__cs599k/rms_norm_matrix_v1.raw.csv"


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("file", "kernel", "metrics", "topic"),
    [
        (f"{_LASHI}/smemTranspose.raw.csv", "naiveGmem(", "access", "uncoalesced"),
        (f"{_LASHI}/smemTranspose.raw.csv", "naiveGmem(", "efficiency", "uncoalesced"),
        (f"{_LASHI}/smemTranspose.raw.csv", "naiveGmem(", "work", "uncoalesced"),
        (f"{_LASHI}/smemTranspose.raw.csv", "transposeSmem(", "shared", "bank-conflicts"),
        (f"{_LASHI}/smemReduceInteger.raw.csv", "reduceSmem(", "work", "algorithm"),
        (f"{_LASHI}/simpleAOS.raw.csv", "testInner", "efficiency", "uncoalesced"),
        (f"{_LASHI}/smemSquare.raw.csv", "setRowReadCol(", "shared", "bank-conflicts"),
        (_RMS, "rms", "stalls", "long-scoreboard-latency"),
        (_RMS, "rms", "access", "long-scoreboard-latency"),
        (_REDUCE, "reduceUnroll2(", "work", "barrier"),
        (_REDUCE, "reduceNeighboredLess(", "efficiency", "uncoalesced"),
        (f"{_OLAJIDE}/gemm_naive.csv", "gemm", "access", "algorithm"),
        (f"{_OLAJIDE}/gemm_naive.csv", "gemm", "work", "algorithm"),
        (f"{_OLAJIDE}/gemm_tiled.csv", "gemm", "access", "algorithm"),
        (f"{_OLAJIDE}/transpose_naive.csv", "transpose", "access", "uncoalesced"),
        (f"{_OLAJIDE}/transpose_naive.csv", "transpose", "work", "uncoalesced"),
    ],
)  # fmt: skip
def test_a_selection_of_a_real_profile_names_the_defect(
    corpus: Path, tmp_path: Path, file: str, kernel: str, metrics: str, topic: str
) -> None:
    """GIVEN a real profile cut to what such a selection holds WHEN read THEN the known defect is named
    first or second."""
    few = cut(corpus / file, tmp_path / "few.csv", kernel, SELECTIONS[metrics])
    found = traceroof.diagnose(few, calibrated=False)
    assert topic in [one.topic for one in found.fired()][:2]


_GPU_LINE = "Device 0: NVIDIA GeForce RTX 5070, compute capability 12.0\n"


def test_a_gpu_in_the_programs_output_gives_its_peaks(tmp_path: Path) -> None:
    """GIVEN bytes and a time, and a card that only the program itself names WHEN read THEN the use of
    its memory is known: 33.55 MB in 163 us are 206 of 672 GB/s, 30.6 %; a note says where from."""
    metrics = (
        ("gpu__time_duration.sum", "usecond", "163"),
        ("dram__bytes_read.sum", "byte", "16,777,216"),
        ("dram__bytes_write.sum", "byte", "16,777,216"),
    )
    file = selection(tmp_path / "few.csv", metrics, compute_capability="12.0")
    bare = traceroof.diagnose(file, calibrated=False)
    assert "dram_pct" not in bare.kernels[0].metrics
    file.write_text(_GPU_LINE + file.read_text("utf-8"), "utf-8")
    found = traceroof.diagnose(file, calibrated=False)
    assert found.kernels[0].metrics["dram_pct"] == pytest.approx(30.6, abs=0.1)
    assert found.kernels[0].metrics["dram_basis"] == "nominal peak"
    notes = [str(note) for source in found.sources for note in source.notes]
    assert "GPU by the program's own output: NVIDIA GeForce RTX 5070" in notes
    # A card of another architecture is not believed.
    other = selection(tmp_path / "other.csv", metrics, compute_capability="8.0")
    other.write_text(_GPU_LINE + other.read_text("utf-8"), "utf-8")
    assert "dram_pct" not in traceroof.diagnose(other, calibrated=False).kernels[0].metrics
