"""Managed memory on a timeline: pages that move while a kernel runs, from the printed trace on."""

from pathlib import Path

import pytest

import traceroof

HEAD = (
    "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),"
    "Bytes (MB),Throughput (MBps),SrcMemKd,DstMemKd,Device,Ctx,Strm,Name"
)
GPU = "NVIDIA A100-SXM4-40GB (0)"


def trace(folder: Path, copy: int, each: int) -> Path:
    """20 kernels of 10 ms, and copies of ``copy`` ns, one every ``each`` ns while they run."""
    rows = [
        (at, f"{at},10000000,{at},4096,1,1,256,1,1,16,0,0,,,,,{GPU},1,7,inc(int *)")
        for at in range(1_000_000, 201_000_000, 10_000_000)
    ]
    rows += [
        (at, f"{at},{copy},,,,,,,,,,,0.1,,,,{GPU},,,[CUDA memcpy Unified Host-to-Device]")
        for at in range(1_000_001, 200_000_000, each)
    ]
    path = folder / "trace.csv"
    path.write_text("\n".join([HEAD, *(row for _, row in sorted(rows))]) + "\n")
    return path


@pytest.mark.parametrize(
    ("copy", "each", "fires"),
    [
        (6_000, 20_000, True),  # 30 % of the kernels' time
        (6_000, 40_000, False),  # 15 %
        (150_000, 200_000, False),  # 2 MiB at once: prefetched
    ],
)
def test_pages_that_move_under_kernels(copy: int, each: int, fires: bool, tmp_path: Path) -> None:
    found = traceroof.diagnose(trace(tmp_path, copy, each), calibrated=False)
    assert ("pages-move-under-kernels" in {one.rule for one in found.fired()}) == fires
    assert (found.advice[0].lead.rule == "pages-move-under-kernels") == fires


def test_what_moved_and_for_how_long(tmp_path: Path) -> None:
    """9,950 copies of 6 us in 200 ms of kernels."""
    first = traceroof.diagnose(trace(tmp_path, 6_000, 20_000), calibrated=False).advice[0]
    assert first.because == (
        "9,950 pieces of managed memory moved, 6 µs each on average, for 59.7 ms of the 200 ms in which "
        "kernels run"
    )
