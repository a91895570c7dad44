"""Selections of a few metrics, as kernel authors collect them: what is wrong is named all the same."""

from pathlib import Path

import pytest

import traceroof
from tests.runs import selection

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
    assert "1 operations per word" in first.because.replace("1.0", "1")
    # 2.15 GFLOP in 4 ms are 0.54 of 19.5 TFLOP/s.
    assert "2.75 % of the FP32 peak" in first.because
