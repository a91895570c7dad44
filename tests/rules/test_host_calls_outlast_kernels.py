"""What a summary of host calls says of the run, from the printed tables to the first entry."""

from pathlib import Path

import pytest

import traceroof
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.ingest.call_sums import CallSum, table
from traceroof.report.run.summary import about
from traceroof.scopes.host_sums import facts_of

KERNELS = """
 ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):

Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
100.0,3000000,500,6000.0,6000.0,6000,6000,0.0,"step()"
"""
CALLS = """
 ** CUDA API Summary (cuda_api_sum):

Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
50.0,4000000,500,8000.0,{launch},900,1000000,0.0,cudaLaunchKernel_v7000
50.0,4000000,500,8000.0,{allocate},900,1000000,0.0,cudaMalloc_v3020
"""


def diagnosed(text: str, folder: Path) -> Diagnosis:
    path = folder / "stats.txt"
    path.write_text(text, "utf-8")
    return traceroof.diagnose(path)


def first_rule(found: Diagnosis) -> str:
    return found.advice[0].lead.rule


@pytest.mark.parametrize(
    ("launch", "allocate", "first"),
    [
        # 500 calls of 6.4 us are 3.2 ms; the kernels take 3 ms.
        ("6400.0", "900.0", "launch-calls-outlast-kernels"),
        ("900.0", "6400.0", "allocations-outlast-kernels"),
        # Their means are 8 us either way: those hold waits.
        ("5900.0", "5900.0", "time-without-a-reason"),
    ],
)
def test_a_summary_of_calls_leads_where_the_host_takes_longer(
    launch: str, allocate: str, first: str, tmp_path: Path
) -> None:
    found = diagnosed(KERNELS + CALLS.format(launch=launch, allocate=allocate), tmp_path)
    assert first_rule(found) == first
    assert "times without a timeline" in about(found)
    # Nothing says when the GPU waited, so no time is promised.
    assert found.advice[0].bound_ns is None


def test_what_kernels_could_gain_is_less_sure(tmp_path: Path) -> None:
    """GIVEN casts, 1 of 3 ms, WHEN launching takes longer THEN half of that is left,
    and the same after the run was stored."""
    name = (
        "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda("
        "at::TensorIteratorBase &)::[lambda() (instance 3)], std::array<char *, (unsigned long)2>, "
        "(int)4, at::native::memory::LoadWithCast<(int)1>, at::native::memory::StoreWithCast<(int)1>>"
    )
    casts = f'33.3,1000000,100,10000.0,10000.0,10000,10000,0.0,"{name}"'
    kernels = f"{KERNELS.replace('100.0,3000000,500,6000', '66.7,2000000,333,6006')}{casts}\n"
    alone = diagnosed(kernels, tmp_path)
    beside = diagnosed(kernels + CALLS.format(launch="6400.0", allocate="1.0"), tmp_path)
    before = {one.rule: one.confidence for one in alone.fired() if one.time_saved_bound_ns}
    after = {one.rule: one.confidence for one in beside.fired() if one.time_saved_bound_ns}
    assert before
    assert after == {rule: pytest.approx(sure / 2) for rule, sure in before.items()}
    run = traceroof.ingest([tmp_path / "stats.txt"], store=tmp_path / "store")
    stored = traceroof.diagnose(run.id, store=tmp_path / "store")
    assert first_rule(stored) == "launch-calls-outlast-kernels"


def test_counted_launches_stand_for_the_length_of_kernels(tmp_path: Path) -> None:
    """GIVEN kernels of 3 us, and 500 launch calls of 6.4 us (graphs) THEN one entry."""
    kernels = KERNELS.replace("500,6000.0,6000.0,6000,6000", "1000,3000.0,3000.0,3000,3000")
    assert first_rule(diagnosed(kernels, tmp_path)) == "tiny-kernels"
    found = diagnosed(kernels + CALLS.format(launch="6400.0", allocate="1.0"), tmp_path)
    assert {one.rule for one in found.fired()} & {
        "tiny-kernels",
        "launch-calls-outlast-kernels",
    } == {"launch-calls-outlast-kernels"}


def test_facts_of_sums() -> None:
    """GIVEN sums THEN launches and allocations by kind; what waits or copies is neither."""
    rows = [
        CallSum("cudaLaunchKernel", 10, 900, 50),
        CallSum("hipGraphLaunch", 2, 900, 200),
        CallSum("cudaMemcpyAsync", 7, 900, 1),
        CallSum("cudaFree", 7, 900, 1),
        CallSum("hipHostMalloc", 3, 900, 30),
        CallSum("cudaDeviceSynchronize", 3, 900, 30),
    ]
    assert facts_of(table(rows)) == {
        "launch_calls": 12.0,
        "launching_ns": 10 * 50 + 2 * 200,
        "allocate_calls": 3.0,
        "allocating_ns": 90.0,
    }
    # One launch call without a typical time: how long launching takes is unknown.
    unknown = facts_of(table([*rows, CallSum("cuLaunchKernel", 1, 5, None)]))
    assert (unknown["launch_calls"], "launching_ns" in unknown) == (13.0, False)
    assert facts_of(table([])) == {}


def test_rows_that_cannot_be_are_no_calls() -> None:
    rows = [
        CallSum("a", 0, 1),
        CallSum("b", -1, 1),
        CallSum("", 1, 1),
        CallSum("c", 1, -5, 1 << 70),
    ]
    assert table(rows).drop_columns(["source"]).to_pylist() == [
        {"name": "c", "calls": 1, "total_ns": None, "typical_ns": None}
    ]
