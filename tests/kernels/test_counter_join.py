"""Counters meet the timeline: names in every spelling, ownership, confidence, coverage."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import traceroof
from traceroof.core.canonical_names import canonical
from traceroof.core.kernel_table import kernel_table
from traceroof.core.recording import DeviceInfo, Recording, Source
from traceroof.diagnosis.diagnose import diagnose
from traceroof.errors import TraceroofError
from traceroof.ingest.combine import combine
from traceroof.kernels.counter_join import FORCED, side_of

A100 = DeviceInfo(index=0, name="NVIDIA A100-SXM4-80GB")


def _recording(path: str, basis: str, device: DeviceInfo = A100, **columns: Any) -> Recording:
    kernels = kernel_table(columns)
    return Recording(
        format="test",
        time_basis=basis,  # type: ignore[arg-type]
        kernels=kernels,
        sources=(Source(path, "test", kernels.num_rows),),
        devices=(device,),
    )


# One program's kernels as torch.profiler (GNU), Nsight Systems (EDG) and Nsight Compute print them.
SPELLINGS: tuple[tuple[str, str, str], ...] = (
    (
        ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, "
        "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul>)"),
        ("void at::native::vectorized_elementwise_kernel<(int)4, at::native::CUDAFunctor_add<c10::BFloat16>, "
        "std::array<char *, (unsigned long)3>>(int, T2, T3)"),
        "void vectorized_elementwise_kernel<4, CUDAFunctor_add<BFloat16>, array<char *, 3>>(int, T2, T3)",
    ),
    (
        ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::(anonymous namespace)::"
        "OpaqueType<2u>, unsigned int, 4, 64, 64>(at::native::(anonymous namespace)::OpaqueType<2u>*)"),
        ("void at::native::<unnamed>::CatArrayBatchedCopy<at::native::<unnamed>::OpaqueType<(unsigned int)2>, "
        "unsigned int, (int)4, (int)64, (int)64>(T1 *)"),
        "void unnamed>::CatArrayBatchedCopy<unnamed>::OpaqueType<2>, unsigned int, 4, 64, 64>(T1 *)",
    ),
    (
        ("void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<"
        "at::native::neg_kernel_cuda(at::TensorIteratorBase&)::{lambda()#2}::operator()() const::{lambda()#9}"
        "::operator()() const::{lambda(c10::BFloat16)#1}>(at::TensorIteratorBase&)::{lambda(int)#1}>(int, X)"),
        ("void at::native::elementwise_kernel<(int)128, (int)4, void at::native::gpu_kernel_impl_nocast<"
        "at::native::neg_kernel_cuda(at::TensorIteratorBase &)::[lambda() (instance 2)]::operator ()() const::"
        "[lambda() (instance 9)]::operator ()() const::[lambda(c10::BFloat16) (instance 1)]>"
        "(at::TensorIteratorBase &, const T1 &)::[lambda(int) (instance 1)]>(int, T3)"),
        ("void elementwise_kernel<128, 4, void gpu_kernel_impl_nocast<neg_kernel_cuda(TensorIteratorBase &)::"
        "[lambda() (instance 2)]::operator ()() lambda() (instance 9)]::operator ()() lambda(BFloat16) "
        "(instance 1)]>(TensorIteratorBase &, const T1 &)::[lambda(int) (instance 1)]>(int, T3)"),
    ),
    ("triton_poi_fused_add_0",) * 3,
    (
        "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_32x32_tn_align8>(X::Params)",
        "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_32x32_tn_align8>(T1::Params)",
        "void Kernel2<cutlass_80_wmma_tensorop_bf16_32x32_tn_align8>(Params)",
    ),
    ("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn",) * 3,
    ("yax(double*, int) [clone .kd]", "yax(double*, int)", "yax"),
)  # fmt: skip


def test_spellings_of_one_kernel_meet_and_others_do_not() -> None:
    """GIVEN kernels in three spellings WHEN brought to one THEN 7 of 7 meet, no two kernels do."""
    forms = [{canonical(name) for name in names} for names in SPELLINGS]
    assert [len(one) for one in forms] == [1] * len(SPELLINGS)
    assert len(set.union(*forms)) == len(SPELLINGS)


@pytest.mark.parametrize("dialect", [0, 1])
def test_every_spelling_is_joined(dialect: int) -> None:
    """GIVEN a timeline in one spelling, counters in Nsight Compute's WHEN joined THEN all matched,
    none ambiguous, none wrong: each kernel has its own counter."""
    count = len(SPELLINGS)
    shape: dict[str, Any] = {
        f"{what}_{axis}": [8] * count for what in ("grid", "block") for axis in "xyz"
    }
    timed = _recording(
        "trace", "timeline", kernel_name=[one[dialect] for one in SPELLINGS],
        duration_ns=[1000 + at for at in range(count)], start_ns=[at * 9000 for at in range(count)], **shape,
    )  # fmt: skip
    counted = _recording(
        "counters", "counter-tool", kernel_name=[one[2] for one in SPELLINGS],
        duration_ns=[2000 + 2 * at for at in range(count)],
        l2_hit_pct=[float(at) for at in range(count)], **shape,
    )  # fmt: skip
    made = diagnose(combine([timed, counted]))
    assert made.join is not None
    assert (made.join.coverage_time_pct, made.join.ambiguous_time_ns) == (100.0, 0)
    number = {canonical(names[2]): float(at) for at, names in enumerate(SPELLINGS)}
    for kernel in made.kernels:
        assert kernel.metrics["l2_hit_pct"] == number[canonical(kernel.kernel)]
        # Time is the timeline's, never the tool's.
        assert kernel.time_ns is not None
        assert kernel.time_ns < 2000
    assert made.totals.kernel_time_ns == sum(1000 + at for at in range(count))


def _two(**counters: Any) -> tuple[Recording, Recording]:
    shape: dict[str, Any] = {
        f"{what}_{axis}": [4, 8] for what in ("grid", "block") for axis in "xyz"
    }
    timed = _recording(
        "trace",
        "timeline",
        kernel_name=["f", "f"],
        duration_ns=[100, 300],
        start_ns=[0, 900],
        **shape,
    )
    return timed, _recording("counters", "counter-tool", **counters)


def test_another_launch_shape_is_no_partner() -> None:
    """GIVEN counters of one of two launch shapes WHEN joined THEN the other one is listed."""
    shape: dict[str, Any] = {f"{what}_{axis}": [8] for what in ("grid", "block") for axis in "xyz"}
    timed, counted = _two(kernel_name=["f"], l2_hit_pct=[5.0], **shape)
    made = diagnose(combine([timed, counted]))
    assert made.join is not None
    assert made.join.coverage_time_pct == 75.0
    (left,) = made.join.unmatched
    assert (left.side, left.time_ns) == ("timeline", 100)
    assert left.reason == "the counters hold other launch shapes of it"


def test_rates_are_the_counter_sides() -> None:
    """GIVEN bytes counted over 400 ns, run in 100 WHEN joined THEN the rate is over 400 ns."""
    shape: dict[str, Any] = {f"{what}_{axis}": [4] for what in ("grid", "block") for axis in "xyz"}
    timed, counted = _two(kernel_name=["f"], duration_ns=[400], dram_bytes=[400e3], **shape)
    made = diagnose(combine([timed, counted]))
    kernel = next(one for one in made.kernels if one.time_ns == 100)
    # 400 kB in 400 ns are 1 TB/s of 2.039 TB/s; over the timeline's 100 ns it would be 196 %.
    assert kernel.metrics["dram_pct"] == pytest.approx(100 * 1e12 / 2.039e12, rel=1e-3)


def test_ambiguous_is_listed_not_guessed() -> None:
    """GIVEN two counted kernels of the same base name and no launch shape WHEN joined THEN none."""
    timed = _recording("trace", "timeline", kernel_name=["f<1>"], duration_ns=[100], start_ns=[0])
    counted = _recording("c", "counter-tool", kernel_name=["f<2>", "f<3>"], l2_hit_pct=[1.0, 2.0])
    made = diagnose(combine([timed, counted]))
    assert made.join is not None
    assert made.join.ambiguous_time_ns == 100
    assert "l2_hit_pct" not in made.kernels[0].metrics
    assert made.join.unmatched[0].reason.startswith("ambiguous")


def test_another_gpu_and_another_program_are_refused() -> None:
    """GIVEN counters of an H100, or of other kernels WHEN joined THEN refused; --combine join takes
    the other GPU's, with little confidence."""
    timed, counted = _two(kernel_name=["f"], l2_hit_pct=[5.0])
    h100 = replace(counted, devices=(DeviceInfo(index=0, name="NVIDIA H100 80GB HBM3"),))
    with pytest.raises(TraceroofError, match="A100-SXM4-80GB.*H100-SXM5-80GB"):
        combine([timed, h100])
    forced = diagnose(combine([timed, h100], "join"))
    assert {one.metrics.get("join_confidence") for one in forced.kernels} <= {None, FORCED}
    other = _recording("c", "counter-tool", kernel_name=["g", "h"], l2_hit_pct=[1.0, 2.0])
    with pytest.raises(TraceroofError, match="shares 0 of 2 kernels with the timeline"):
        combine([timed, other])


def test_a_stored_run_is_joined_later(tmp_path: Path, root: Path) -> None:
    """GIVEN a stored timeline WHEN counters are ingested into it THEN a joined run that is read
    back whole, and more counters of it complete it."""
    trace = tmp_path / "trace.csv"
    trace.write_text(
        "==1== NVPROF is profiling process 1, command: ./a\n==1== Profiling result:\n"
        '"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z","Device","Name"\n'
        'ms,us,,,,,,,,\n1.0,10.0,8,1,1,64,1,1,"Tesla T4 (0)","f(int) [7]"\n'
    )
    metrics = (
        "==2== NVPROF is profiling process 2, command: ./a\n==2== Metric result:\n"
        '"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"\n'
        '"Tesla T4 (0)","f(int)",1,"{}","x",{},{},{}\n'
    )
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    first.write_text(metrics.format("achieved_occupancy", *["0.500000"] * 3))
    second.write_text(metrics.format("branch_efficiency", *["90.000000%"] * 3))
    store = tmp_path / "store"
    alone = traceroof.ingest(trace, store=store)
    joined = traceroof.ingest(first, store=store, into=alone.id)
    whole = traceroof.ingest(second, store=store, into=joined.id)
    from traceroof.store import Store

    again = Store.open(store).get(whole.id)
    assert again.recording == whole.recording
    made = diagnose(again)
    (kernel,) = made.kernels
    assert (kernel.time_ns, kernel.metrics["achieved_occupancy_pct"]) == (10_000, 50.0)
    assert kernel.metrics["branch_efficiency_pct"] == 90.0
    told = json.loads(json.dumps(made.to_dict()))["run"]
    assert told["join"]["coverage_time_pct"] == 100.0
    assert [one["role"] for one in told["recordings"]] == ["timeline", "counters", "counters"]


@pytest.mark.corpus
def test_the_pair_of_the_corpus(corpus: Path) -> None:
    """GIVEN a real timeline summary and 20 counter pages WHEN joined THEN 20 of 20 matched, 79.5 %
    of the time covered, the total the timeline's, all 113 names distinct."""
    files = sorted((corpus / "pair").glob("*.csv"))
    made = diagnose(traceroof.read(files))
    assert made.join is not None
    assert made.join.covered == 20
    assert made.join.coverage_time_pct == pytest.approx(79.5, abs=0.05)
    assert made.join.ambiguous_time_ns == 0
    assert not [one for one in made.join.unmatched if one.side == "counters"]
    assert len({canonical(one.kernel) for one in made.kernels}) == len(made.kernels) == 113
    alone = diagnose(traceroof.read(next(one for one in files if "kern_sum" in one.name)))
    assert made.totals.kernel_time_ns == alone.totals.kernel_time_ns


@pytest.mark.corpus
@pytest.mark.parametrize("program", ["binomialOptions", "convolutionFFT2D", "reduction"])
def test_nvprof_pairs_of_the_corpus(corpus: Path, program: str) -> None:
    """GIVEN trace and metrics of one program WHEN joined THEN all of the time is covered."""
    folder = corpus / "nvprof"
    made = diagnose(
        traceroof.read([folder / f"{program}_trace.csv", folder / f"{program}_metrics.csv"])
    )
    assert made.join is not None
    assert made.join.coverage_time_pct == made.join.coverage_launches_pct == 100.0


@pytest.mark.parametrize("named", ["timeline", "counters"])
def test_a_compute_capability_is_the_named_gpu(named: str) -> None:
    """GIVEN one side that names an A100, and one that tells its compute capability alone (as the CSV
    pages of Nsight Compute do) WHEN joined THEN they are one GPU: full confidence, its peaks."""
    only = DeviceInfo(index=0, compute_capability="8.0")
    columns: dict[str, Any] = {
        "kernel_name": ["f"], "source": [0], "duration_ns": [1000],
        **{f"{what}_{axis}": [8] for what in ("grid", "block") for axis in "xyz"},
    }  # fmt: skip
    devices = (A100, only) if named == "timeline" else (only, A100)
    timed = _recording("t", "timeline", devices[0], start_ns=[0], **columns)
    counted = _recording(
        "c", "counter-tool", devices[1], **columns, dram_bytes=[1e6], sm_throughput_pct=[20.0]
    )
    made = diagnose(combine([timed, counted]))
    assert made.kernels[0].metrics["join_confidence"] == 0.99
    assert made.kernels[0].metrics["dram_peak_bytes_per_s"] == 2.039e12  # the A100's data sheet
    assert [one.known and one.known.name for one in made.devices] == ["A100-SXM4-80GB"]


def test_each_figure_has_its_side() -> None:
    """GIVEN figures of a joined kernel WHEN asked THEN times are the timeline's, use of peaks the
    counters', what both say neither's; without a partner all are the timeline's."""
    asked = ("median_ns", "l2_hit_pct", "registers_per_thread", "traffic_ratio")
    assert [side_of(name, 0.9) for name in asked] == ["timeline", "counters", "", ""]
    assert side_of("l2_hit_pct", float("nan")) == "timeline"
