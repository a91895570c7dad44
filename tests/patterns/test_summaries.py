"""Summaries without a timeline: what shows of launches all the same."""

from pathlib import Path

import pytest

import traceroof
from tests.patterns.test_own_attention import summary


def test_kernels_shorter_than_their_launches_come_first(tmp_path: Path) -> None:
    """GIVEN 1,000 products of 4 µs and 1,000 additions of 1 µs in a summary THEN a launch takes 2.5 µs
    on average, so that launching comes first; it saves 1 µs of each at most, half of it expected."""
    file = summary(
        tmp_path / "sums_cuda_gpu_kern_sum.csv",
        ("void gemvx_kernel<__nv_bfloat16>(int)", 4_000_000, 1_000),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)",
         1_000_000, 1_000),
    )  # fmt: skip
    first = traceroof.diagnose(file, calibrated=False).advice[0]
    assert (first.lead.rule, first.topic) == ("tiny-kernels", "small-kernels-graph")
    assert (first.bound_ns, first.expected_ns) == (2_000_000, 1_000_000)
    assert "2,000 launches take 2.50 µs on average" in first.because


def test_longer_kernels_are_no_matter_of_launches(tmp_path: Path) -> None:
    """On average 5.5 µs."""
    file = summary(
        tmp_path / "sums_cuda_gpu_kern_sum.csv",
        ("void gemvx_kernel<__nv_bfloat16>(int)", 10_000_000, 1_000),
        ("void mine(int)", 1_000_000, 1_000),
    )
    found = traceroof.diagnose(file, calibrated=False)
    assert not [one for one in found.fired() if one.rule == "tiny-kernels"]


def test_two_short_launches_of_a_summary_are_too_few(tmp_path: Path) -> None:
    file = summary(
        tmp_path / "sums_cuda_gpu_kern_sum.csv",
        ("ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_tn", 33_696, 1),
        ("void mine(int)", 1_792, 1),
    )
    (only,) = traceroof.diagnose(file, calibrated=False).advice
    assert only.topic == "too-short-to-judge"


COPIES = """\
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:   58.00%  580.00ms       300  1.9333ms  64.000us  3.8251ms  [CUDA memcpy DtoH]
                   40.00%  400.00ms       201  1.9900ms  85.000us  6.5813ms  [CUDA memcpy HtoD]
                    1.00%  10.000ms         9  1.1111ms  1.1000ms  1.2000ms  [CUDA memcpy DtoD]
                    1.00%  10.000ms       200  50.000us  49.000us  52.000us  scale(float*, int)
      API calls:   99.00%  1.00000s       510  1.9608ms  10.000us  6.7000ms  cudaMemcpy
"""


def test_copies_that_outweigh_the_kernels_come_first(tmp_path: Path) -> None:
    """GIVEN 980 ms of 501 copies to and from the GPU and 10 ms of kernels THEN the copies are the
    advice, not the counters of a kernel."""
    file = tmp_path / "nvprof.txt"
    file.write_text(COPIES)
    (only,) = traceroof.diagnose(file, calibrated=False).advice
    assert (only.lead.rule, only.topic) == ("copies-outlast-kernels", "input-copy")
    assert only.because == (
        "501 copies take 980 ms: to the GPU 400 ms, to the host 580 ms; all kernels take 10 ms"
    )
    # How long the GPU waits is not in a summary.
    assert only.bound_ns is None


def test_copies_shorter_than_the_kernels_are_no_news(tmp_path: Path) -> None:
    file = tmp_path / "nvprof.txt"
    file.write_text(COPIES.replace("10.000ms       200  50.000us", "981.00ms       200  4.9050ms"))
    (only,) = traceroof.diagnose(file, calibrated=False).advice
    assert only.lead.rule == "time-without-a-reason"


MEMORY = """\
** CUDA GPU MemOps Summary (by Time) (cuda_gpu_mem_time_sum):

Time (%)  Total Time (ns)  Count  Avg (ns)  Operation
--------  ---------------  -----  --------  ----------------------------
    90.0       90,000,000    100   900,000  [CUDA memcpy Host-to-Device]
    10.0       10,000,000    100   100,000  [CUDA memset]
"""


def test_copies_alone_ask_for_the_kernels(tmp_path: Path) -> None:
    """GIVEN the table of copies alone, its lines without a margin THEN what it lists, and the report
    that lists the kernels."""
    file = tmp_path / "memory.txt"
    file.write_text(MEMORY)
    (only,) = traceroof.diagnose(file, calibrated=False).advice
    assert only.lead.rule == "copies-without-kernels"
    assert only.because == "100 copies take 90 ms: to the GPU 90 ms"
    assert "nsys stats --report cuda_gpu_kern_sum" in only.fix


ALL_REDUCE = (
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)"
)
GEMM = "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_tn"


@pytest.mark.parametrize(
    ("communicating", "first"),
    # Of 100 ms: a fifth is much, but the products could hide it.
    [
        (60_000_000, "collectives-take-much"),
        (30_000_000, "time-without-a-reason"),
        (19_000_000, "time-without-a-reason"),
    ],
)
def test_collectives_of_a_summary(communicating: int, first: str, tmp_path: Path) -> None:
    file = summary(
        tmp_path / "sums_cuda_gpu_kern_sum.csv",
        (ALL_REDUCE, communicating, 10),
        (GEMM, 100_000_000 - communicating, 100),
    )
    found = traceroof.diagnose(file, calibrated=False)
    assert found.advice[0].lead.rule == first
    said = any(one.lead.rule == "collectives-take-much" for one in found.advice)
    assert said == (communicating >= 20_000_000)


def test_what_computes_hides_no_more_than_it_takes(tmp_path: Path) -> None:
    """GIVEN 60 of 100 ms in 10 collectives of 6 ms THEN at most 60 ms: what the other 40 ms hide
    is not in a summary. A third is longer than they are, so 0.5 x (0.4 + 0.6 / 3) of it is expected."""
    file = summary(
        tmp_path / "sums_cuda_gpu_kern_sum.csv",
        (ALL_REDUCE, 60_000_000, 10),
        (GEMM, 40_000_000, 100),
    )
    first = traceroof.diagnose(file, calibrated=False).advice[0]
    assert (first.topic, first.bound_ns) == ("exposed-communication", 60_000_000)
    assert first.expected_ns == 18_000_000
    assert first.because == (
        "10 collectives take 60 ms, all other kernels 40 ms, which is the most that can hide them; the "
        "longest takes 6 ms"
    )


def test_collectives_without_extremes(tmp_path: Path) -> None:
    """rocprof v1 prints neither the shortest nor the longest launch."""
    file = tmp_path / "results.stats.csv"
    file.write_text(
        '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n'
        '"rccl_main_kernel(ncclDevComm*, unsigned long, ncclWork*)",10,60000000,6000000,60.0\n'
        '"Cijk_Ailk_Bljk_BBS_BH_MT128x128x32_MI32x32x8x1",100,40000000,400000,40.0\n'
    )
    first = traceroof.diagnose(file, calibrated=False).advice[0]
    assert first.because.endswith("which is the most that can hide them")


PAGES = """\
[5/7] Executing 'cuda_gpu_kern_sum' stats report

 Time (%)  Total Time (ns)  Instances   Avg (ns)   Name
 --------  ---------------  ---------  ----------  -------------------------
    100.0       20,000,000          1  20,000,000  inc(int *, unsigned long)

[6/7] Executing 'cuda_gpu_mem_time_sum' stats report

 Time (%)  Total Time (ns)  Count  Avg (ns)  Operation
 --------  ---------------  -----  --------  ---------------------------------
    100.0        9,000,000  2,000     4,500  [CUDA Unified Memory memcpy HtoD]
"""


def test_managed_memory_that_moves_page_by_page(tmp_path: Path) -> None:
    """GIVEN 2,000 pieces of 4.5 us beside one kernel of 20 ms THEN they are copies, not kernels, and
    what the kernel waits for."""
    file = tmp_path / "pages.txt"
    file.write_text(PAGES)
    found = traceroof.diagnose(file, calibrated=False)
    assert found.totals.kernel_time_ns == 20_000_000
    assert found.advice[0].lead.rule == "managed-memory-migrates"
    assert found.advice[0].because == (
        "2,000 pieces of managed memory moved, 4.50 µs each on average and 9 ms in all; kernels take "
        "20 ms, their waiting for pages included"
    )


def test_prefetched_memory_is_copied(tmp_path: Path) -> None:
    """GIVEN 200 pieces of 150 us, as 2 MiB take over PCIe 3.0 THEN no kernel waited for a page."""
    file = tmp_path / "pages.txt"
    file.write_text(
        PAGES.replace("9,000,000  2,000     4,500", "30,000,000    200   150,000").replace(
            "        30,000,000", "       30,000,000"
        )
    )
    (only,) = traceroof.diagnose(file, calibrated=False).advice
    assert only.lead.rule == "copies-outlast-kernels"
