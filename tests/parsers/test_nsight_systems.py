"""Nsight Systems exports: ours, made table by table, and the real ones of the corpus."""

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.parsers.nsys_fixtures import EPOCH, GRAPH, MEMSET, PROCESS, THREAD, Writer
from traceroof.core.kernel_table import launches, total_time_ns
from traceroof.core.recording import Recording
from traceroof.errors import TraceroofError
from traceroof.ingest import detect
from traceroof.parser import Options, silent
from traceroof.parsers import nsight_systems

SECRET = "hf_planted0123456789abcdefghijklmnop"


def read(path: Path) -> Recording:
    return nsight_systems.PARSER.read(path, silent, Options())


def rows(recording: Recording, kind: str = "kernel") -> pd.DataFrame:
    frame: pd.DataFrame = recording.kernels.to_pandas()
    return frame[frame["kind"] == kind].reset_index(drop=True)


def notes(recording: Recording) -> str:
    return "\n".join(map(str, recording.notes))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "report.sqlite"


def test_a_launch_is_linked_to_its_call_and_times_are_utc(path: Path) -> None:
    made = Writer(path)
    made.gpu()
    made.call("cudaLaunchKernel_v7000", 1_000, 1_400, 5)
    made.kernel("void f<float>(float*)", 2_000, 5_000, 5)
    made.call("cudaMemcpyAsync_v3020", 5_100, 5_200, 6)
    made.copy(6_000, 6_800, 6)
    made.add(
        MEMSET, start=7_000, end=7_100, deviceId=0, contextId=1, streamId=7, correlationId=0,
        globalPid=PROCESS, bytes=64,
    )  # fmt: skip
    made.add("PROCESSES", globalPid=PROCESS, pid=4711, name="/home/somebody/bin/solver")
    made.close()
    recording = read(path)
    row = rows(recording).iloc[0]
    assert (row["start_ns"], row["duration_ns"]) == (EPOCH + 2_000, 3_000)
    assert (row["host_launch_ns"], row["host_launch_duration_ns"]) == (EPOCH + 1_000, 400)
    assert (row["process_id"], row["device"], row["context"], row["stream"]) == (4711, 0, 1, 7)
    assert (row["grid_x"], row["block_x"], row["registers_per_thread"]) == (4, 256, 32)
    assert row["shared_memory_bytes"] == 1024
    assert row["process_name"] == "solver"
    assert row["sm_count"] == 132
    assert row["peak_dram_bytes_per_s"] == 3_352_320_000_000
    copy, fill = rows(recording, "memcpy").iloc[0], rows(recording, "memset").iloc[0]
    assert copy["kernel_name"] == "[CUDA memcpy Host-to-Device]"
    assert copy["copy_kind"] == "Host-to-Device (Pageable -> Device)"
    assert (copy["copy_bytes"], copy["host_launch_ns"]) == (4096, EPOCH + 5_100)
    assert (fill["kernel_name"], fill["copy_bytes"]) == ("[CUDA memset]", 64)
    # The version behind a name says nothing; libraries are called as torch.profiler calls them.
    calls = recording.host_calls.to_pylist()
    assert [(one["name"], one["category"], one["thread_id"]) for one in calls] == [
        ("cudaLaunchKernel", "cuda_runtime", 4712), ("cudaMemcpyAsync", "cuda_runtime", 4712),
    ]  # fmt: skip
    assert recording.devices[0].compute_capability == "9.0"
    assert not recording.notes


def test_words_come_from_the_files_own_enumerations(path: Path) -> None:
    made = Writer(path)
    made.kernel("f()", 10, 20)
    made.copy(30, 40, copyKind=77, srcKind=9, dstKind=2)
    made.enumeration("ENUM_CUDA_MEMCPY_OPER", {77: "Peer-to-Peer"})
    made.enumeration("ENUM_CUDA_MEM_KIND", {9: "Managed", 2: "Device"})
    made.close()
    copy = rows(read(path), "memcpy").iloc[0]
    assert copy["copy_kind"] == "Peer-to-Peer (Managed -> Device)"


def test_equal_correlation_ids_of_two_processes_are_two_calls(path: Path) -> None:
    other = (1 << 48) | (4800 << 24)
    made = Writer(path)
    for process, start in ((PROCESS, 100), (other, 200)):
        made.call("cudaLaunchKernel_v7000", start, start + 10, 5, thread=process | 1)
        made.kernel("f()", start + 50, start + 60, 5, globalPid=process)
    made.close()
    frame = rows(read(path))
    assert frame["host_launch_ns"].tolist() == [EPOCH + 100, EPOCH + 200]
    assert frame["process_id"].tolist() == [4711, 4800]


def test_the_gpu_is_told_by_the_drivers_number_then_by_the_process(path: Path) -> None:
    # GIVEN a machine where the order of the profiler is not that of the driver.
    made = Writer(path)
    made.gpu(id=0, cuDevice=1, name="NVIDIA A40", smCount=84)
    made.gpu(id=1, cuDevice=0, name="NVIDIA A100-PCIE-40GB", smCount=108)
    made.kernel("f()", 10, 20)
    made.close()
    assert read(path).devices[0].name == "NVIDIA A100-PCIE-40GB"
    # GIVEN two processes that see one GPU each, both as number 0 (CUDA_VISIBLE_DEVICES).
    other = (1 << 48) | (4800 << 24)
    made = Writer(path)
    made.gpu(id=0, cuDevice=1, name="NVIDIA A40", smCount=84)
    made.gpu(id=1, cuDevice=0, name="NVIDIA A100-PCIE-40GB", smCount=108)
    made.kernel("f()", 10, 20)
    made.kernel("f()", 30, 40, globalPid=other)
    made.add("TARGET_INFO_CUDA_DEVICE", gpuId=0, cudaId=0, pid=4711)
    made.add("TARGET_INFO_CUDA_DEVICE", gpuId=1, cudaId=0, pid=4800)
    made.close()
    recording = read(path)
    assert rows(recording)["device"].tolist() == [0, 1]
    assert [(one.index, one.name) for one in recording.devices] == [
        (0, "NVIDIA A40"), (1, "NVIDIA A100-PCIE-40GB"),
    ]  # fmt: skip


def test_a_mig_slice_reports_its_own_figures(path: Path) -> None:
    # As a real export of an A30 has it: 28 SMs, half the bandwidth.
    made = Writer(path)
    made.gpu(
        name="NVIDIA A30 MIG 2g.12gb", smCount=28, memoryBandwidth=466_560_000_000,
        totalMemory=12_582_912_000, computeMajor=8,
    )  # fmt: skip
    made.kernel("f()", 10, 20)
    made.close()
    recording = read(path)
    assert recording.devices[0].sm_count == 28
    assert rows(recording)["peak_dram_bytes_per_s"].tolist() == [466_560_000_000]


def test_unlike_gpus_that_nothing_tells_apart_stay_unknown(path: Path) -> None:
    made = Writer(path)
    made.gpu(id=0, cuDevice=None, name="NVIDIA A40")
    made.gpu(id=1, cuDevice=None, name="NVIDIA A100-PCIE-40GB")
    made.kernel("f()", 10, 20)
    made.close()
    assert read(path).devices[0].name is None


def test_ranges_become_operators_modules_steps_and_phases(path: Path) -> None:
    made = Writer(path)
    for number, begin in enumerate((0, 10_000)):
        made.range(f"iteration {number}", begin, begin + 9_000)
        made.range("forward", begin + 100, begin + 5_000)
        made.range("encoder", begin + 200, begin + 4_000)
        text = "aten::linear, seq = 7, op_id = 12, sizes = [[4, 8], [8, 8]], input_op_ids = []"
        made.range(text, begin + 300, begin + 3_000)
        made.range("aten::addmm, seq = 7, op_id = 13", begin + 400, begin + 2_000)
        made.call("cudaLaunchKernel_v7000", begin + 500, begin + 600, number + 1)
        made.kernel("gemm", begin + 700, begin + 900, number + 1)
    made.close()
    recording = read(path)
    row = rows(recording).iloc[0]
    assert row["operator"] == "aten::addmm"
    assert row["operator_path"] == "aten::linear > aten::addmm"
    assert row["module_path"] == "forward > encoder"
    assert row["phase"] == "forward"
    assert rows(recording)["step"].tolist() == ["iteration 0", "iteration 1"]
    spans = [(one["kind"], one["name"]) for one in recording.spans.to_pylist()]
    assert spans[:3] == [("step", "iteration 0"), ("range", "forward"), ("range", "encoder")]
    # Of operators the outermost one is kept, as a host call.
    operators = [one for one in recording.host_calls.to_pylist() if one["category"] == "cpu_op"]
    assert [one["name"] for one in operators] == ["aten::linear"] * 2


def test_a_backward_kernel_is_of_the_module_of_its_forward_operator(path: Path) -> None:
    """GIVEN backward on a thread of its own, as autograd runs it WHEN read THEN its kernels are in
    the range in which the forward operator with their number ran."""
    engine = THREAD + 1
    made = Writer(path)
    for number, layer in ((7, "layer 0"), (8, "layer 1")):
        begin = number * 1_000
        made.range(layer, begin, begin + 900)
        made.range(f"aten::linear, seq = {number}, op_id = 1", begin + 100, begin + 800)
        made.range(f"aten::addmm, seq = {number}, op_id = 2", begin + 200, begin + 700)
    for number in (8, 7):
        begin = 30_000 - number * 1_000
        outer = f"autograd::engine::evaluate_function: AddmmBackward0, seq = {number}, op_id = 3"
        made.range(outer, begin, begin + 900, globalTid=engine)
        made.range("aten::mm, op_id = 4", begin + 100, begin + 800, globalTid=engine)
        made.call("cudaLaunchKernel_v7000", begin + 200, begin + 300, number, engine)
        made.kernel("gemm", begin + 400, begin + 500, number)
    made.close()
    found = read(path).kernels.to_pylist()
    assert [one["module_path"] for one in found] == ["layer 1", "layer 0"]
    assert [one["phase"] for one in found] == ["backward"] * 2


def test_text_may_be_registered_and_domains_name_their_writer(path: Path) -> None:
    made = Writer(path)
    made.range("TSL", -1_878_291_120, None, eventType=75, domainId=3)
    module = made.string("XlaModule:#hlo_module=jit_step,program_id=1#")
    made.range(None, 100, 900, textId=module, domainId=3)
    thunk = made.string("Thunk:#name=jit(step)/dot_general,hlo_op=dot.1#")
    made.range(None, 200, 800, textId=thunk, domainId=3)
    made.call("cuLaunchKernel", 300, 350, 1)
    made.kernel("gemm_fusion_dot_1", 400, 500, 1)
    made.close()
    recording = read(path)
    row = rows(recording).iloc[0]
    assert (row["operator"], row["module_path"]) == ("dot.1", "jit_step")
    assert recording.host_calls.to_pylist()[-1]["category"] == "cuda_driver"


@pytest.mark.parametrize(
    ("domain", "text", "column", "expected"),
    [
        # vLLM's layerwise ranges print a dict (vllm/utils/nvtx_pytorch_hooks.py).
        ("", "{'Module': 'model.layers.0.mlp', 'TrainableParams': {}}", "module_path",
         "model.layers.0.mlp"),
        # Megatron-LM: <module>.<suffix>.
        ("", "TransformerLayer.forward.qkv", "module_path", "TransformerLayer.forward.qkv"),
        ("TensorRT", "onnx::Conv_239", "operator", "onnx::Conv_239"),
        ("CCCL", "cub::DeviceReduce::Sum", "operator", "cub::DeviceReduce::Sum"),
        # PyTorch's annotations have an operator id too.
        ("", "FSDP::pre_forward (blocks.0), op_id = 4", "module_path",
         "FSDP::pre_forward (blocks.0)"),
        ("", "autograd::engine::evaluate_function: MmBackward0, op_id = 9", "operator",
         "autograd::engine::evaluate_function: MmBackward0"),
        ("", "autograd::engine::evaluate_function: MmBackward0, op_id = 9", "phase", "backward"),
        ("", "Optimizer.step#Adam.step, op_id = 3", "phase", "optimizer"),
        # A call of NCCL inside an operator says nothing that its kernel does not.
        ("NCCL", "ncclAllReduce", "operator", None),
    ],
)  # fmt: skip
def test_who_writes_what(
    domain: str, text: str, column: str, expected: str | None, path: Path
) -> None:
    made = Writer(path)
    if domain:
        made.range(domain, -5, None, eventType=75, domainId=1)
    made.range(text, 0, 1_000, domainId=1 if domain else 0)
    made.call("cudaLaunchKernel_v7000", 100, 200, 1)
    made.kernel("f()", 300, 400, 1)
    made.close()
    assert read(path).kernels[column].to_pylist() == [expected]


@pytest.mark.parametrize(
    "name",
    [
        "ProfilerStep#{}", "step {}", "Iteration: {}", "train_step_{}", "[Executor] _forward_step {}: 1 ctx reqs, 3 gen reqs",
        "execute_context_{}(17)_generation_3(3)", "decode[bs={}]", "batch {}",
    ],
)  # fmt: skip
def test_steps_by_many_names(name: str, path: Path) -> None:
    made = Writer(path)
    for number in range(3):
        begin = number * 1_000
        made.range(name.format(number), begin, begin + 900)
        # A launch of another thread of the process belongs to the step as well.
        made.call("cudaLaunchKernel_v7000", begin + 100, begin + 200, number + 1, THREAD + 1)
        made.kernel("f()", begin + 300, begin + 400, number + 1)
    made.close()
    assert rows(read(path))["step"].tolist() == [name.format(number) for number in range(3)]


def test_a_name_that_stands_once_is_no_step(path: Path) -> None:
    made = Writer(path)
    made.range("step 1", 0, 900)
    made.call("cudaLaunchKernel_v7000", 100, 200, 1)
    made.kernel("f()", 300, 400, 1)
    made.close()
    row = read(path).kernels.to_pylist()[0]
    assert (row["step"], row["module_path"]) == (None, "step 1")


def test_replays_without_kernels_are_rows_of_their_own_and_said(path: Path) -> None:
    made = Writer(path)
    made.kernel("f()", 1_000, 1_500)
    for number in range(2):
        made.call("cudaGraphLaunch_v10000", number * 5_000, number * 5_000 + 300, number + 1)
        made.add(
            GRAPH, start=number * 5_000 + 2_000, end=number * 5_000 + 4_000, deviceId=0,
            contextId=1, streamId=7, correlationId=number + 1, globalPid=PROCESS, graphId=3,
            graphExecId=4,
        )  # fmt: skip
    made.close()
    recording = read(path)
    assert launches(recording.kernels) == 1
    replays = rows(recording, "graph")
    assert replays["kernel_name"].tolist() == ["[CUDA graph 3]"] * 2
    assert (replays["duration_ns"].sum(), replays["graph_id"].tolist()) == (4_000, ["3", "3"])
    launched = [one["host_launch_ns"] for one in recording.kernels.to_pylist()]
    assert sorted(one for one in launched if one) == [EPOCH, EPOCH + 5_000]
    assert "--cuda-graph-trace=node" in notes(recording)


def test_nodes_of_a_graph_are_kernels_without_an_operator(path: Path) -> None:
    made = Writer(path)
    made.range("aten::mm, op_id = 1", 0, 1_000)
    made.call("cudaGraphLaunch_v10000", 100, 200, 1)
    for node in (1, 2):
        made.kernel("f()", 300 * node, 300 * node + 100, 1, graphNodeId=(7 << 32) + node)
    made.close()
    kernels = read(path).kernels
    assert kernels["operator"].to_pylist() == [None, None]
    assert len(set(kernels["graph_id"].to_pylist())) == 1


def test_waits_of_the_operating_system_explain_only_launching_threads(path: Path) -> None:
    made = Writer(path)
    made.call("cudaLaunchKernel_v7000", 100_000, 100_400, 1)
    made.call("cudaStreamSynchronize_v3020", 200_000, 300_000, 2)
    made.kernel("f()", 150_000, 160_000, 1)
    for thread, start, end, name in (
        (THREAD, 110_000, 150_000, "read"),
        (THREAD, 160_000, 160_500, "write"),  # too short to explain a gap
        (THREAD, 210_000, 290_000, "poll"),  # inside a CUDA call, which says more
        (THREAD + 1, 0, 500_000, "pthread_cond_wait"),  # a helper that sleeps
    ):
        made.add("OSRT_API", start=start, end=end, globalTid=thread, nameId=made.string(name))
    made.close()
    found = [one for one in read(path).host_calls.to_pylist() if one["category"] == "os_runtime"]
    assert [one["name"] for one in found] == ["read"]


def test_overhead_is_the_profilers_or_the_drivers(path: Path) -> None:
    made = Writer(path)
    made.kernel("f()", 1_000, 2_000)
    for kind, name in ((3, "CUPTI buffer flush"), (7, "Lazy Function Loading"),
                       (8, "Command Buffer Full")):  # fmt: skip
        made.add(
            "CUPTI_ACTIVITY_KIND_OVERHEAD", start=kind * 100, end=kind * 100 + 50,
            globalTid=THREAD, correlationId=0, nameId=made.string(name), overheadType=kind,
        )  # fmt: skip
    made.add("PROFILER_OVERHEAD", start=10, end=20, globalTid=THREAD,
             nameId=made.string("CUDA profiling initialization"))  # fmt: skip
    made.close()
    found = {one["name"]: one["category"] for one in read(path).host_calls.to_pylist()}
    assert found == {
        "CUDA profiling initialization": "overhead", "CUPTI buffer flush": "overhead",
        "Lazy Function Loading": "cuda_driver", "Command Buffer Full": "cuda_driver",
    }  # fmt: skip


def test_migrations_belong_to_no_call_and_no_stream(path: Path) -> None:
    made = Writer(path)
    made.kernel("f()", 10, 20)
    made.copy(12, 14, 0, copyKind=11, srcKind=7, dstKind=7, streamId=0)
    made.close()
    copy = rows(read(path), "memcpy").iloc[0]
    assert copy["copy_kind"] == "Unified Host-to-Device"
    assert pd.isna(copy["stream"])
    assert pd.isna(copy["correlation_id"])


def test_lost_kernels_are_counted_but_captured_launches_are_none(path: Path) -> None:
    made = Writer(path)
    made.call("cudaStreamBeginCapture_v10000", 0, 10)
    made.call("cudaLaunchKernel_v7000", 20, 30, 1)
    made.call("cudaStreamEndCapture_v10000", 40, 50)
    made.call("cudaLaunchKernel_v7000", 60, 70, 2)
    made.call("cudaLaunchKernel_v7000", 80, 90, 3)
    made.kernel("f()", 100, 110, 3)
    made.close()
    recording = read(path)
    lost = [one for one in recording.notes if "without a record" in one.text]
    assert [(one.count, one.severe) for one in lost] == [(1, True)]


def test_broken_times_are_unknown_and_said(path: Path) -> None:
    made = Writer(path)
    made.kernel("f()", 100, 90)
    made.kernel("f()", None, 90)  # type: ignore[arg-type]
    made.kernel("f()", 200, 300)
    made.close()
    recording = read(path)
    assert total_time_ns(recording.kernels) == 100
    assert "without a credible duration" in notes(recording)
    assert "without a start" in notes(recording)


def test_ranks_from_mpi_then_from_the_name(tmp_path: Path) -> None:
    made = Writer(tmp_path / "a.rank7.sqlite")
    made.kernel("f()", 10, 20)
    made.close()
    named = read(tmp_path / "a.rank7.sqlite")
    assert rows(named)["rank"].tolist() == [7]
    assert "guess" in notes(named)
    made = Writer(tmp_path / "a.rank7.sqlite")
    made.kernel("f()", 10, 20)
    made.add("MPI_RANKS", globalTid=THREAD, rank=3)
    made.close()
    assert rows(read(tmp_path / "a.rank7.sqlite"))["rank"].tolist() == [3]


def test_gpu_metrics_are_context(path: Path) -> None:
    """GIVEN samples of the second GPU of the list, which is CUDA's first, one before the session
    WHEN read THEN the mean of what lies in a launch, and of the busy time."""
    made = Writer(path)
    made.gpu(id=0, cuDevice=1)
    made.gpu(id=1, cuDevice=0)
    made.kernel("long()", 1_000, 2_000)
    made.kernel("short()", 3_000, 3_100)
    names = {1: "SMs Active [Throughput %]", 2: "DRAM Read Bandwidth [Throughput %]",
             3: "GPC Clock Frequency [MHz]"}  # fmt: skip
    for metric, name in names.items():
        made.add("TARGET_INFO_GPU_METRICS", typeId=0x10001, metricId=metric, metricName=name)
    for time, active in ((-5, 99), (1_100, 40), (1_300, 60), (1_500, 80), (2_500, 0), (3_050, 20)):
        for metric, value in ((1, active), (2, 10), (3, 1410)):
            made.add("GPU_METRICS", timestamp=time, typeId=0x10001, metricId=metric, value=value)
        made.add("GPU_METRICS", timestamp=time, typeId=0x10000, metricId=1, value=1)
    made.close()
    recording = read(path)
    found = [(one["row"], one["metric"], one["value"]) for one in recording.raw_metrics.to_pylist()]
    assert found == [(0, "SMs Active", 60.0), (0, "DRAM Read Bandwidth", 10.0)]
    assert "while GPU 0 worked: SMs Active 50 %, DRAM Read Bandwidth 10 %" in notes(recording)


# --- files without kernels -------------------------------------------------------------------------


def refused(path: Path) -> str:
    with pytest.raises(TraceroofError) as refusal:
        read(path)
    return f"{refusal.value} {refusal.value.hint}"


def test_each_reason_for_no_kernels(path: Path) -> None:
    Writer(path).close()
    assert "CUDA was not traced" in refused(path)

    made = Writer(path)
    made.call("cuInit", 0, 10)
    made.close()
    assert "1 CUDA call was recorded (cuInit), which launched no kernel" in refused(path)

    made = Writer(path)
    made.call("cudaLaunchKernel_v7000", 0, 10, 1)
    said = "Installed CUDA driver version (13.3) is not supported by this build of Nsight Systems."
    made.add("DIAGNOSTIC_EVENT", severity=2, text=said)
    made.add("DIAGNOSTIC_EVENT", severity=1, text="CUDA: all is well")
    made.add("DIAGNOSTIC_EVENT", severity=2, text="No NVTX events collected.")
    made.close()
    text = refused(path)
    assert "1 kernel launch was recorded, but no kernel" in text
    assert said in text
    assert "all is well" not in text
    assert "NVTX events" not in text

    made = Writer(path)
    made.copy(0, 10)
    made.close()
    assert "only 1 copy was recorded" in refused(path)

    made = Writer(path)
    made.add(GRAPH, start=0, end=10, deviceId=0, globalPid=PROCESS, graphId=1)
    made.close()
    assert "--cuda-graph-trace=node" in refused(path)


# --- privacy and care ------------------------------------------------------------------------------


def with_secrets(path: Path) -> None:
    made = Writer(path)
    made.gpu()
    made.call("cudaLaunchKernel_v7000", 1_000, 1_400, 5)
    made.kernel("f()", 2_000, 5_000, 5)
    made.add("TARGET_INFO_SYSTEM_ENV", name="DeviceEnvironment", nameEnum="Env", value=SECRET)
    made.add("META_DATA_CAPTURE", name="PROCESS_0:ENVIRONMENT_VARIABLE_1", value=SECRET)
    made.add("META_DATA_EXPORT", name="EXPORT_USER", value=SECRET)
    made.string(f"TOKEN={SECRET}")
    made.add("PROCESSES", globalPid=PROCESS, pid=4711, name=f"/home/{SECRET}/a.out")
    made.close()


def everything(recording: Recording) -> str:
    tables = (recording.kernels, recording.raw_metrics, recording.host_calls, recording.spans)
    return json.dumps(
        [[str(one.to_pylist()) for one in tables], str(recording.sources), str(recording.devices)]
    )


def test_the_environment_never_leaves_the_file(path: Path) -> None:
    with_secrets(path)
    data = path.read_bytes()
    assert SECRET.encode() in data
    assert SECRET not in everything(read(path))
    # Nor in what is said about a damaged file.
    for cut in range(1, 20):
        path.write_bytes(data[: len(data) * cut // 20])
        try:
            assert SECRET not in everything(read(path))
        except TraceroofError as error:
            assert SECRET not in f"{error} {error.hint}"  # noqa: PT017 - both outcomes are right


def test_the_file_is_left_alone_and_none_is_made(tmp_path: Path) -> None:
    path = tmp_path / "report.sqlite"
    with_secrets(path)
    before = path.read_bytes()
    path.chmod(0o444)
    read(path)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    with pytest.raises(TraceroofError):
        read(tmp_path / "missing.sqlite")
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_a_database_that_is_still_written_is_refused(path: Path) -> None:
    with_secrets(path)
    # What a journal begins with (SQLite's file format, "The Rollback Journal").
    header = bytes.fromhex("d9d505f920a163d7")
    path.with_name(path.name + "-journal").write_bytes(header + bytes(504))
    assert "still being written" in refused(path)


def test_a_cut_database_is_said_to_be_cut(path: Path) -> None:
    made = Writer(path)
    for number in range(2_000):
        made.kernel(f"kernel {number % 7}", number * 10, number * 10 + 5)
    made.close()
    data = path.read_bytes()
    path.write_bytes(data[:-4096])
    assert "cannot be read" in refused(path)
    # Cut within its last page SQLite itself says nothing.
    path.write_bytes(data[:-100])
    recording = read(path)
    assert "cut short" in notes(recording)
    assert any(one.severe for one in recording.notes)


def test_reports_themselves_are_refused_with_the_command(tmp_path: Path) -> None:
    for name in ("run.nsys-rep", "run.qdrep"):
        (tmp_path / name).write_bytes(b"\x00\x01binary")
        with pytest.raises(TraceroofError) as refusal:
            detect.read([tmp_path / name])
        assert f"nsys export --type sqlite -o {tmp_path}/run.sqlite {tmp_path}/{name}" in (
            refusal.value.hint or ""
        )


# --- the corpus ------------------------------------------------------------------------------------


def databases(corpus: Path) -> Iterator[Path]:
    for path in sorted((corpus / "nsys").glob("*.sqlite")):
        if path.stat().st_size > 1000:  # else a Git LFS pointer
            yield path


def ask(path: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as database:
        return database.execute(query).fetchall()


def tables_of(path: Path) -> set[str]:
    return {name for (name,) in ask(path, "SELECT name FROM sqlite_master WHERE type = 'table'")}


@pytest.mark.corpus
def test_counts_and_times_of_real_exports(corpus: Path) -> None:
    """GIVEN real exports WHEN read THEN rows and times are those of plain SQL."""
    seen = 0
    for path in databases(corpus):
        tables = tables_of(path)
        if "CUPTI_ACTIVITY_KIND_KERNEL" not in tables:
            assert "holds no GPU kernels" in refused(path)
            continue
        recording = read(path)
        for kind, table in (("kernel", "KERNEL"), ("memcpy", "MEMCPY"), ("memset", "MEMSET"),
                            ("graph", "GRAPH_TRACE")):  # fmt: skip
            if f"CUPTI_ACTIVITY_KIND_{table}" not in tables:
                assert rows(recording, kind).empty
                continue
            [(count, spent)] = ask(
                path, f'SELECT count(*), sum("end" - start) FROM CUPTI_ACTIVITY_KIND_{table}'
            )
            assert launches(recording.kernels, kind) == count, path
            assert total_time_ns(recording.kernels, kind) == (spent or 0), path
        if not rows(recording, "memcpy").empty:
            [(moved,)] = ask(path, "SELECT sum(bytes) FROM CUPTI_ACTIVITY_KIND_MEMCPY")
            assert rows(recording, "memcpy")["copy_bytes"].sum() == moved
        seen += 1
    assert seen == 10


@pytest.mark.corpus
def test_busy_time_of_real_exports(corpus: Path) -> None:
    """GIVEN real exports WHEN read THEN the union of all activities is that of sorted intervals."""
    from traceroof.timeline import intervals

    for path in databases(corpus):
        tables = tables_of(path) & {
            f"CUPTI_ACTIVITY_KIND_{name}" for name in ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE")
        }
        if "CUPTI_ACTIVITY_KIND_KERNEL" not in tables:
            continue
        query = " UNION ALL ".join(f'SELECT start, "end", deviceId FROM {one}' for one in tables)
        busy: dict[int, int] = {}
        reach: dict[int, int] = {}
        for start, end, device in sorted(ask(path, query)):
            begin = max(start, reach.get(device, start))
            busy[device] = busy.get(device, 0) + max(0, end - begin)
            reach[device] = max(end, reach.get(device, end))
        frame = read(path).kernels.to_pandas()
        for device, expected in busy.items():
            one = frame[frame["device"] == device]
            start = one["start_ns"].to_numpy(dtype="int64")
            union = intervals.union(start, start + one["duration_ns"].to_numpy(dtype="int64"))
            assert intervals.length(union) == expected, path


@pytest.mark.corpus
def test_launch_calls_of_real_exports(corpus: Path) -> None:
    """GIVEN real exports WHEN read THEN each kernel's launch is the call that SQL joins to it."""
    for path in databases(corpus):
        if "CUPTI_ACTIVITY_KIND_KERNEL" not in tables_of(path):
            continue
        joined = ask(
            path,
            "SELECT k.start, min(r.start) FROM CUPTI_ACTIVITY_KIND_KERNEL k"
            " LEFT JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId"
            " AND r.globalTid - r.globalTid % 16777216 = k.globalPid"
            " GROUP BY k.rowid ORDER BY k.start, k.rowid",
        )
        kernels = [one for one in read(path).kernels.to_pylist() if one["kind"] == "kernel"]
        epoch = kernels[0]["start_ns"] - joined[0][0]
        launched = [one["host_launch_ns"] for one in kernels]
        found = [None if one is None else one - epoch for one in launched]
        assert found == [launch for _, launch in joined], path


def innermost(path: Path) -> list[tuple[int, str | None]]:
    """By brute force: for each kernel the innermost range of its launching thread around its launch
    call, NCCL's own left out."""
    names = 'SELECT n.start, n."end", n.globalTid, coalesce(n.text, s.value) FROM NVTX_EVENTS n LEFT JOIN StringIds s ON s.id = n.textId WHERE n.eventType IN (59, 60)'
    by_thread: dict[int, list[tuple[int, int, str]]] = {}
    for start, end, thread, text in ask(path, names):
        if not text.startswith("nccl") or "op_id" in text:
            by_thread.setdefault(thread, []).append((start, end, text))
    found = []
    launched = ask(
        path,
        'SELECT k.start, r.start, r."end", r.globalTid FROM CUPTI_ACTIVITY_KIND_KERNEL k'
        " LEFT JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId"
        " AND r.globalTid - r.globalTid % 16777216 = k.globalPid ORDER BY k.start, k.rowid",
    )
    for at, start, end, thread in launched:
        around = [
            one for one in by_thread.get(thread, []) if start is not None
            and one[0] <= start and end <= one[1]
        ]  # fmt: skip
        best = max(around, key=lambda one: (one[0], -one[1]), default=None)
        found.append((at, best[2] if best else None))
    return found


@pytest.mark.corpus
def test_ranges_of_real_exports_by_brute_force(corpus: Path) -> None:
    """GIVEN the real exports with NVTX WHEN read THEN each kernel is in the range that contains its
    launch call, whatever that range stands for."""
    seen: list[int] = []
    for path in databases(corpus):
        tables = tables_of(path)
        if not {"NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_KERNEL"} <= tables:
            continue
        kernels = [one for one in read(path).kernels.to_pylist() if one["kind"] == "kernel"]
        seen.append(0)
        for (_, expected), row in zip(innermost(path), kernels, strict=True):
            last = row["module_path"].split(" > ")[-1] if row["module_path"] else None
            named = {row["operator"], last, re.sub(r" \(\d+\)$", "", str(row["step"]))}
            plain = re.split(r", (?:seq|op_id) = ", expected)[0] if expected else None
            assert plain in named, (path.name, expected)
            seen[-1] += plain is not None
    # CuPy outside of its ranges, and launches from before the recording, are in none.
    assert seen == [36, 3_682, 1_632, 3_986]


@pytest.mark.corpus
def test_goldens_of_the_corpus(corpus: Path) -> None:
    """Figures read off by hand when the files were collected."""
    folder = corpus / "nsys"
    infer = read(folder / "nsysai__2026.2.1_H100x2_emit_nvtx_fsdp_infer.sqlite")
    by_device = rows(infer).groupby("device")["duration_ns"].sum().tolist()
    assert by_device == [22_385_163, 22_444_359]
    copies = rows(infer, "memcpy")
    for kind, count, spent in (
        ("Device-to-Host (Device -> Pinned)", 4, 7_872),
        ("Device-to-Device (Device -> Device)", 450, 39_203_544),
    ):
        mine = copies[copies["copy_kind"] == kind]["duration_ns"]
        assert (len(mine), mine.sum()) == (count, spent)
    graph = read(folder / "flameox__2025.5.2_graphtrace_overhead.sqlite")
    assert total_time_ns(graph.kernels) == 3_840
    assert total_time_ns(graph.kernels, "graph") == 3_104
    # The driver's number 0 is the second GPU in the profiler's list: an A100 among A40s.
    mixed = read(folder / "2023.2.3_s3.1.7_A40_cutlass__cutlass_benchmark.sqlite")
    assert [(one.index, one.name) for one in mixed.devices] == [(0, "NVIDIA A100-PCIE-40GB")]
