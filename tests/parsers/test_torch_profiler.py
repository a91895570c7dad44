"""torch.profiler traces: what is read, what is linked, what is repaired, what is refused."""

import gzip
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import traceroof
from tests.mutate import time_limit
from traceroof.core.recording import Recording
from traceroof.errors import TraceroofError
from traceroof.ingest.decompress import head
from traceroof.parser import HEAD_BYTES, Options, silent
from traceroof.parsers.torch import read as torch_read
from traceroof.parsers.torch.events import UNKNOWN, nanoseconds
from traceroof.parsers.torch.python_frames import is_own_code, own_line
from traceroof.parsers.torch.stream import Reader
from traceroof.parsers.torch_profiler import PARSER
from traceroof.plugins import parsers

Event = dict[str, Any]
Write = Callable[..., Path]

MAIN, AUTOGRAD = 100, 101


def event(
    cat: str, name: str, ts: Any, dur: Any, *, pid: Any = 100, tid: Any = MAIN, **args: Any
) -> Event:
    return {
        "ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur,
        "args": args,
    }  # fmt: skip


def op(name: str, ts: Any, dur: Any, *, tid: Any = MAIN, **args: Any) -> Event:
    return event("cpu_op", name, ts, dur, tid=tid, **args)


def annotation(name: str, ts: Any, dur: Any, *, tid: Any = MAIN) -> Event:
    return event("user_annotation", name, ts, dur, tid=tid)


def module(name: str, ts: Any, dur: Any, *, tid: Any = MAIN) -> Event:
    return event("python_function", f"nn.Module: {name}", ts, dur, tid=tid)


def call(
    ts: Any, dur: Any, correlation: Any, name: Any = "cudaLaunchKernel", *, tid: Any = MAIN,
    pid: Any = 100, **args: Any,
) -> Event:  # fmt: skip
    return event("cuda_runtime", name, ts, dur, tid=tid, pid=pid, correlation=correlation, **args)


def kernel(
    ts: Any, dur: Any, correlation: Any = None, name: Any = "k", *, stream: Any = 7, pid: Any = 0,
    cat: Any = "kernel", device: Any = 0, **args: Any,
) -> Event:  # fmt: skip
    return event(
        cat, name, ts, dur, pid=pid, tid=stream, device=device, stream=stream,
        correlation=correlation, **args,
    )  # fmt: skip


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def make(content: Any, name: str = "trace.json", **top: Any) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not isinstance(content, bytes):
            whole = {"schemaVersion": 1, **top, "traceEvents": content} if top else content
            content = json.dumps(whole).encode()
        path.write_bytes(content)
        return path

    return make


def read(path: Path, jobs: int = 1) -> Recording:
    return PARSER.read(path, silent, Options(jobs=jobs))


def column(recording: Recording, name: str) -> list[Any]:
    values: list[Any] = recording.kernels[name].to_pylist()
    return values


def row(recording: Recording, at: int = 0) -> dict[str, Any]:
    """What is known of a kernel-table row."""
    found: dict[str, Any] = recording.kernels.slice(at, 1).to_pylist()[0]
    return {name: value for name, value in found.items() if value is not None}


def notes(recording: Recording) -> dict[str, int]:
    return {note.text: note.count for note in recording.notes}


# ------------------------------------------------------------------------------------------------
# What is read


TRAINING = [
    annotation("ProfilerStep#3", 1000, 1000),
    module("Net_0", 1010, 300),
    module("Linear_1", 1020, 200),
    op("aten::linear", 1030, 150, **{"Sequence number": 5}),
    op(
        "aten::addmm", 1040, 100,
        **{
            "Sequence number": 5, "Input Dims": [[8], [4, 2], [2, 8], [], []],
            "Input type": ["float", "float", "float", "Scalar", "Scalar"],
            "Concrete Inputs": ["", "", "", "1", "1"],
        },
    ),
    call(1060, 10, 1),
    op("autograd::engine::evaluate_function: AddmmBackward0", 1400, 200, tid=AUTOGRAD,
       **{"Sequence number": 5}),
    op("AddmmBackward0", 1410, 180, tid=AUTOGRAD, **{"Sequence number": 5}),
    op("aten::mm", 1420, 100, tid=AUTOGRAD),
    call(1430, 10, 2, tid=AUTOGRAD),
    annotation("Optimizer.step#SGD.step", 1700, 200),
    op("aten::_foreach_add_", 1710, 150),
    call(1720, 10, 3),
    kernel(
        1100, 50, 1, "gemm", context=1, grid=[4, 2, 1], block=[128, 1, 1],
        **{"registers per thread": 80, "shared memory": 2048, "est. achieved occupancy %": 25},
    ),
    kernel(1500, 70, 2, "gemm_backward"),
    kernel(1800, 30, 3, "update"),
]  # fmt: skip


def test_the_line_of_the_program_that_launched(write: Write) -> None:
    """GIVEN a stack of frames around a call WHEN read THEN the innermost line that is not PyTorch's
    or Python's own; none where there is no such frame."""

    def frame(name: str, ts: int, dur: int) -> Event:
        return event("python_function", name, ts, dur)

    stack = [
        frame("train.py(12): <module>", 0, 5000),
        frame("train.py(40): step", 1000, 900),
        frame("/opt/venv/lib/python3.11/site-packages/models/qwen.py(218): forward", 1005, 300),
        frame("torch/nn/modules/module.py(1501): _call_impl", 1008, 290),
        frame("contextlib.py(79): inner", 1009, 280),
        frame("<built-in method linear of type object at 0x7f>", 1025, 160),
    ]
    lines = read(write([*TRAINING, *stack])).kernels["source_line"].to_pylist()
    # Calls at 1060 (in forward), 1430 (another thread: the backward of it, by its sequence number)
    # and 1720 (in step, in the optimizer).
    forward = "/opt/venv/lib/python3.11/site-packages/models/qwen.py(218): forward"
    assert lines[:3] == [forward, forward, "train.py(40): step"]
    assert set(read(write(TRAINING)).kernels["source_line"].to_pylist()) == {None}


def test_the_line_of_a_call_stack(write: Write) -> None:
    """GIVEN operators with a call stack (torch to 2021) WHEN read THEN the innermost line that is
    the program's own, `<module>` included, as such a stack has the line that ran."""
    site = "/opt/lib/python3.7/site-packages"
    stack = f"{site}/torch/nn/functional.py(1): linear;models/net.py(7): forward;x.py(9): <module>"
    events = json.loads(json.dumps(TRAINING))
    for one in events:
        if one["name"] in ("aten::linear", "aten::_foreach_add_"):
            one["args"]["Call stack"] = (
                stack
                if one["name"] == "aten::linear"
                else (f"{site}/torch/optim/sgd.py(2): step;train.py(51): <module>")
            )
    found = read(write(events)).kernels["source_line"].to_pylist()
    assert found == ["models/net.py(7): forward"] * 2 + ["train.py(51): <module>"]
    assert own_line(f"{site}/torch/optim/sgd.py(2): step;<built-in function mm>") is None


@pytest.mark.parametrize(
    ("frame", "own"),
    [
        ("transformers/models/qwen2/modeling_qwen2.py(230): forward", True),
        ("train.py(40): step", True),
        ("/usr/lib/python3.11/threading.py(982): run", False),
        ("torch/optim/adam.py(120): step", False),
        ("/x/lib/python3.9/site-packages/torch/_ops.py(4): __call__", False),
        ("nn.Module: Linear_0", False),
        ("<built-in function mm>", False),
        ("train.py: no line", False),
    ],
)
def test_own_code_is_told_from_the_framework(frame: str, own: bool) -> None:
    assert is_own_code(frame) is own


def test_a_training_step_is_read_and_linked(write: Write) -> None:
    recording = read(
        write(
            TRAINING,
            distributedInfo={"rank": 3, "world_size": 8},
            baseTimeNanoseconds=7_000_000_000,
            deviceProperties=[
                {"id": 0, "name": "NVIDIA H100", "totalGlobalMem": 85, "computeMajor": 9,
                 "computeMinor": 0, "numSms": 132},
                {"id": 1, "name": "NVIDIA H100"},
            ],
        )
    )  # fmt: skip
    assert recording.time_basis == "timeline"
    assert row(recording, 0) == {
        "kind": "kernel", "kernel_name": "gemm", "launch_count": 1, "source": 0, "rank": 3,
        "process_id": 100, "device": 0, "context": 1, "stream": 7, "correlation_id": 1,
        "operator_call": 0, "start_ns": 7_001_100_000, "duration_ns": 50_000,
        "host_launch_ns": 7_001_060_000, "host_launch_duration_ns": 10_000,
        "operator": "aten::addmm", "operator_path": "aten::linear > aten::addmm",
        "module_path": "Net_0 > Linear_1", "phase": "forward", "step": "ProfilerStep#3",
        "input_shapes": "[[8], [4, 2], [2, 8], [], []]",
        "input_dtypes": '["float", "float", "float", "Scalar", "Scalar"]',
        "input_values": '["", "", "", "1", "1"]',
        "grid_x": 4, "grid_y": 2, "grid_z": 1, "block_x": 128, "block_y": 1, "block_z": 1,
        "registers_per_thread": 80.0, "shared_memory_bytes": 2048.0,
        "estimated_occupancy_pct": 25.0, "sm_count": 132.0,
    }  # fmt: skip
    backward, optimizer = row(recording, 1), row(recording, 2)
    # Backward work has the module of the forward operator with its sequence number.
    assert backward["phase"] == "backward"
    assert backward["module_path"] == "Net_0 > Linear_1"
    assert backward["operator_path"] == (
        "autograd::engine::evaluate_function: AddmmBackward0 > AddmmBackward0 > aten::mm"
    )
    assert backward["step"] == "ProfilerStep#3"  # a step is the process's, not the thread's
    assert optimizer["phase"] == "optimizer"
    assert optimizer["module_path"] == "Optimizer.step#SGD.step"
    assert [(one.index, one.name, one.compute_capability) for one in recording.devices] == [
        (0, "NVIDIA H100", "9.0")
    ]
    assert recording.sources[0].launches == 3
    assert recording.notes == ()


def test_host_calls_and_spans(write: Write) -> None:
    events = [
        *TRAINING,
        annotation("enumerate(DataLoader)#_Iter.__next__", 1950, 20),
        call(1980, 15, 9, "cudaStreamSynchronize"),
        event("cuda_sync", "Stream Sync", 1981, 14, pid=0, tid=7, stream=7, correlation=9),
        event("overhead", "Buffer Flush", 1975, 3, pid=-1, tid=0),
        event("gpu_user_annotation", "ProfilerStep#3", 1100, 730, pid=0, tid=7),
    ]
    recording = read(write(events))
    calls = recording.host_calls.to_pylist()
    assert [(c["category"], c["name"], c["start_ns"], c["duration_ns"]) for c in calls] == [
        ("cpu_op", "aten::linear", 1_030_000, 150_000),
        ("cuda_runtime", "cudaLaunchKernel", 1_060_000, 10_000),
        ("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", 1_400_000, 200_000),
        ("cuda_runtime", "cudaLaunchKernel", 1_430_000, 10_000),
        ("cpu_op", "aten::_foreach_add_", 1_710_000, 150_000),
        ("cuda_runtime", "cudaLaunchKernel", 1_720_000, 10_000),
        ("overhead", "Buffer Flush", 1_975_000, 3_000),
        ("cuda_runtime", "cudaStreamSynchronize", 1_980_000, 15_000),
        ("cuda_sync", "Stream Sync", 1_981_000, 14_000),
    ]
    assert [(c["process_id"], c["thread_id"]) for c in calls[-3:]] == [
        (None, None), (100, MAIN), (None, None),
    ]  # fmt: skip
    assert calls[-2]["correlation_id"] == 9
    spans = recording.spans.to_pylist()
    assert [(s["kind"], s["name"], s["start_ns"]) for s in spans] == [
        ("step", "ProfilerStep#3", 1_000_000),
        ("gpu-annotation", "ProfilerStep#3", 1_100_000),
        ("annotation", "Optimizer.step#SGD.step", 1_700_000),
        ("annotation", "enumerate(DataLoader)#_Iter.__next__", 1_950_000),
    ]


def test_copies_and_fills(write: Write) -> None:
    recording = read(
        write(
            [
                kernel(1, 5, 1, "Memcpy HtoD (Pageable -> Device)", cat="gpu_memcpy", bytes=4096),
                kernel(9, 2, 2, "Memset (Device)", cat="gpu_memset", bytes=512),
                # A copy between GPUs has no device of its own; bytes may be quoted.
                event("gpu_memcpy", "Memcpy PtoP (Device -> Device)", 20, 2, pid=1, tid=8,
                      fromDevice=1, toDevice=2, stream=8, bytes="64"),
            ]
        )
    )  # fmt: skip
    assert column(recording, "kind") == ["memcpy", "memset", "memcpy"]
    assert column(recording, "copy_kind") == [
        "HtoD (Pageable -> Device)", None, "PtoP (Device -> Device)",
    ]  # fmt: skip
    assert column(recording, "copy_bytes") == [4096, 512, 64]
    assert column(recording, "device") == [0, 0, 1]
    assert recording.sources[0].launches == 0


def test_amd_writes_the_launch_on_the_call(write: Write) -> None:
    recording = read(
        write(
            [
                call(1, 5, 1, "hipLaunchKernel", kernel="k", grid=[3, 1, 1], block=[256, 1, 1],
                     **{"shared memory": 64}),
                call(7, 5, 2, "hipMemcpyWithStream", size="4", kind="2"),
                kernel(10, 5, 1, stream=0, device=2, pid=2, kind="Dispatch Kernel"),
                kernel(20, 5, 2, "Memcpy DtoH (Device -> Host)", cat="gpu_memcpy", stream=0,
                       device=2, pid=2),
            ],
            deviceProperties=[{"id": 0, "name": "AMD Instinct MI300X", "numSms": 304}],
        )
    )  # fmt: skip
    first = row(recording)
    assert (first["grid_x"], first["block_x"]) == (3, 256)
    assert first["shared_memory_dynamic_bytes"] == 64
    assert "shared_memory_bytes" not in first
    assert column(recording, "copy_bytes") == [None, 4]
    assert column(recording, "stream") == [0, 0]
    # AMD's number of a GPU is not the one in the list; the list has one kind of GPU only.
    assert [(one.index, one.name) for one in recording.devices] == [(2, "AMD Instinct MI300X")]
    assert column(recording, "sm_count") == [304, 304]


@pytest.mark.parametrize(
    ("name", "grid"),
    [
        ("hipExtModuleLaunchKernel", (4, 4, 256)),  # the global work size: threads
        ("hipHccModuleLaunchKernel", (4, 4, 256)),
        ("hipModuleLaunchKernel", (1000, 4, 256)),
        ("hipExtLaunchKernel", (1000, 4, 256)),
    ],
)
def test_some_calls_of_hip_give_the_grid_in_threads(
    write: Write, name: str, grid: tuple[int, int, int]
) -> None:
    """GIVEN 1000 x 4 x 256 in blocks of 256 x 1 x 1: as threads these are 4 blocks in x."""
    shape: dict[str, Any] = {"grid": [1000, 4, 256], "block": [256, 1, 1]}
    events = [call(1, 5, 1, name, **shape), kernel(10, 5, 1), call(30, 5, 2, name, **shape),
              kernel(40, 5, 2, **shape)]  # fmt: skip
    recording = read(write(events))
    assert [column(recording, f"grid_{axis}") for axis in "xyz"] == [[one] * 2 for one in grid]


def test_what_cuda_12_9_adds(write: Write) -> None:
    limits = {
        "blockLimitBlocks": 32, "blockLimitRegs": 5, "blockLimitSharedMem": 7,
        "blockLimitWarps": 16, "blockLimitBarriers": 16,
    }  # fmt: skip
    recording = read(
        write([kernel(1, 1, occupancy=limits), kernel(3, 1), kernel(5, 1, occupancy=5)])
    )
    assert column(recording, "occupancy_limit_registers") == [5, None, None]
    assert column(recording, "occupancy_limit_warps") == [16, None, None]


def test_unfinished_operators_and_hosts_without_time(write: Write) -> None:
    events = [kernel(1, 1), op("aten::mm", 5, 0, finished=False), op("aten::add", None, 3)]
    assert notes(read(write(events))) == {
        "operators that had not finished when the recording stopped": 1,
        "host events without a time, left out": 1,
        "GPU activities whose launch call was not recorded (most: from before the recording)": 1,
    }


def test_arguments_too_long_to_repeat_are_left_out(write: Write) -> None:
    shapes = {"Input Dims": [[1, 2]] * 20_000, "Input type": ["float"]}
    recording = read(
        write([op("x" * 2000, 0, 50, **shapes), call(1, 1, 1), kernel(5, 1, 1, "k" * 9000)])
    )
    known = row(recording)
    assert known["kernel_name"] == "k" * 9000
    assert known["operator"] == "x" * 2000
    assert known["operator_path"] == "x" * 500 + "…"
    assert "input_shapes" not in known
    assert known["input_dtypes"] == '["float"]'


COLLECTIVE = {
    "Collective name": "_allgather_base", "In msg nelems": 1000, "Out msg nelems": 8000,
    "Group size": 8, "dtype": "BFloat16",
}  # fmt: skip


def test_collectives(write: Write) -> None:
    recording = read(
        write(
            [
                op("record_param_comms", 1, 50, **{**COLLECTIVE, "Collective name": "allreduce",
                                                   "dtype": "Float"}),
                call(5, 5, 1),
                op("record_param_comms", 61, 10, **{**COLLECTIVE, "Collective name": "wait"}),
                call(62, 5, 2),
                kernel(10, 9, 1, "ncclDevKernel_AllReduce"),
                kernel(70, 9, 2, "not one"),
                kernel(90, 9, None, "ncclDevKernel_AllGather", **COLLECTIVE),
            ]
        )
    )  # fmt: skip
    assert column(recording, "collective") == ["allreduce", None, "_allgather_base"]
    # The larger of what goes in and out: 8,000 floats of 4 bytes, 8,000 bfloat16 of 2.
    assert column(recording, "message_bytes") == [32_000, None, 16_000]
    assert column(recording, "group_size") == [8, None, 8]
    assert column(recording, "process_group") == [None, None, None]
    assert column(recording, "group_ranks") == [None, None, None]


def test_process_groups(write: Write) -> None:
    """GIVEN a group by name, one by description with a list that torch elided, the default group
    without its ranks, and ranks as a list of JSON."""
    named = {"Process Group Name": "7", "Process Group Description": "TP"}
    elided = "[0, 1, 2, ..., 63]"
    recording = read(
        write(
            [
                op("record_param_comms", 1, 50, **COLLECTIVE, **named,
                   **{"Process Group Ranks": "[4, 5]"}),
                call(5, 5, 1),
                kernel(10, 9, 1, "ncclDevKernel_AllGather"),
                kernel(20, 9, None, "ncclDevKernel_AllGather", **COLLECTIVE,
                       **{"Process Group Description": "DP", "Process Group Ranks": elided}),
                kernel(30, 9, None, "ncclDevKernel_AllGather", **COLLECTIVE,
                       **{"Process Group Name": "0", "Process Group Ranks": "[]"}),
                kernel(40, 9, None, "ncclDevKernel_AllGather", **COLLECTIVE,
                       **{"Process Group Name": 0, "Process Group Ranks": [0, 1]}),
            ]
        )
    )  # fmt: skip
    assert column(recording, "process_group") == ["TP 7", "DP", "0", "0"]
    assert column(recording, "group_ranks") == ["[4, 5]", elided, None, "[0, 1]"]


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("name", "group", "ranks", "count"),
    [
        # 15 all-reduces and 6 broadcasts; its 6 entries with ranks [] are not on kernels.
        ("hta_nccl_data_a100.json.gz", "0", "[0, 1]", 21),
        ("tracelens_b200_eager_vllm_moe.json.gz", "3", "[0, 1, 2, 3, 4, 5, 6, 7]", 1),
    ],
)
def test_process_groups_of_real_traces(
    corpus: Path, name: str, group: str, ranks: str, count: int
) -> None:
    recording = read(corpus / "torch" / name)
    for named, value in (("process_group", group), ("group_ranks", ranks)):
        found = [one for one in column(recording, named) if one is not None]
        assert found == [value] * count


def test_replayed_graphs(write: Write) -> None:
    # GIVEN two replays of one graph and one of another WHEN read THEN kernels of one correlation
    # are linked to the replay, graphs are told apart, and the operator around it is no operator
    # of theirs.
    recording = read(
        write(
            [
                op("vllm::step", 1, 90),
                call(10, 5, 1, "cudaGraphLaunch"), call(30, 5, 2, "cudaGraphLaunch"),
                call(50, 5, 3, "cudaGraphLaunch"),
                kernel(20, 1, 1, "a"), kernel(22, 1, 1, "b"),
                kernel(40, 1, 2, "a"), kernel(42, 1, 2, "b"),
                kernel(60, 1, 3, "c"),
                kernel(70, 1, 9, "d", **{"graph id": 0}),
                kernel(80, 1, 3, "e", **{"graph id": 17}),
            ]
        )
    )  # fmt: skip
    assert column(recording, "graph_id") == [
        "replay 1", "replay 1", "replay 1", "replay 1", "replay 2", None, "17",
    ]  # fmt: skip
    assert column(recording, "operator") == [None] * 7
    assert column(recording, "operator_path") == ["vllm::step"] * 5 + [None, "vllm::step"]
    assert column(recording, "host_launch_ns")[:3] == [10_000, 10_000, 30_000]
    assert notes(recording) == {
        "GPU activities of replayed graphs: operators not known": 6,
        "GPU activities whose launch call was not recorded (most: from before the recording)": 1,
    }


def test_steps_of_serving(write: Write) -> None:
    # vLLM and SGLang annotate passes; the outer one counts, and equal names are told apart.
    recording = read(
        write(
            [
                annotation("execute_16_context_0(sq0)_generation_16(sq16)", 0, 50),
                annotation("step[DECODE bs=16]", 10, 20), call(12, 2, 1),
                annotation("execute_16_context_0(sq0)_generation_16(sq16)", 60, 50),
                call(70, 2, 2),
                call(200, 2, 3),
                kernel(20, 1, 1), kernel(80, 1, 2), kernel(210, 1, 3),
            ]
        )
    )  # fmt: skip
    name = "execute_16_context_0(sq0)_generation_16(sq16)"
    assert column(recording, "step") == [name, f"{name} (2)", None]
    assert recording.spans.filter([kind == "step" for kind in recording.spans["kind"].to_pylist()])[
        "name"
    ].to_pylist() == [name, f"{name} (2)"]
    assert column(recording, "module_path") == ["step[DECODE bs=16]", None, None]


def test_files_of_2020(write: Write) -> None:
    # A bare list, capitalised categories, quoted thread ids, annotations that are operators.
    recording = read(
        write(
            [
                {},
                event("Operator", "ProfilerStep#2", 0, 90, tid="1441273664"),
                event("Operator", "Optimizer.step#SGD.step", 5, 30, tid="1441273664"),
                event("Operator", "aten::add_", 10, 20, tid="1441273664",
                      **{"Input dims": [[2], []], "Input type": []}),
                event("Runtime", "cudaLaunchKernel", 12, 5, tid="1441273664", correlation=4),
                event("Kernel", "add", 30, 5, pid=0, tid="stream 7", device=0, stream=7,
                      correlation=4),
                event("Memset", "Memset (Device)", 40, 1, pid=0, tid="stream 23"),
            ]
        )
    )  # fmt: skip
    first = row(recording)
    assert first["operator_path"] == "aten::add_"
    assert first["module_path"] == "Optimizer.step#SGD.step"
    assert (first["step"], first["phase"]) == ("ProfilerStep#2", "optimizer")
    assert first["input_shapes"] == "[[2], []]"
    assert column(recording, "stream") == [7, 23]
    assert recording.host_calls["thread_id"].to_pylist() == [1441273664, 1441273664]


# ------------------------------------------------------------------------------------------------
# Ranks


@pytest.mark.parametrize(
    ("name", "top", "rank"),
    [
        ("trace.json", {"distributedInfo": {"rank": 5}}, 5),
        ("rank-7.json", {"distributedInfo": {"backend": "nccl"}}, 7),
        ("rank-7.json", {"distributedInfo": {"rank": 2}}, 2),
        ("megatron_tp8_rank3_a100.json", {"x": 1}, 3),
        ("worker12_step_4.json", {"x": 1}, 12),
        ("x-TP-1-DECODE.trace.json", {"x": 1}, 1),
        ("rank_4/trace.json", {"x": 1}, 4),
        ("frank1_54105.json", {"x": 1}, None),
    ],
)
def test_rank(name: str, top: dict[str, Any], rank: int | None, write: Write) -> None:
    recording = read(write([kernel(1, 1)], name, **top))
    assert column(recording, "rank") == [rank]
    is_guess = rank is not None and "rank" not in top.get("distributedInfo", {})
    assert bool([text for text in notes(recording) if "guess" in text]) == is_guess


@pytest.mark.parametrize("how", ["arguments", "process ids"])
def test_merged_ranks_with_equal_correlations(how: str, write: Write) -> None:
    # GIVEN the files of two ranks merged into one, correlation ids as they were WHEN read THEN
    # each kernel is linked within its rank, whoever launched first.
    shift = 100_000_000
    own = [{"rank": 0}, {"rank": 1}] if how == "arguments" else [{}, {}]
    events = [
        call(100, 5, 1, pid=33, tid=33, **own[0]),
        call(50, 5, 1, pid=33 + shift, tid=33, **own[1]),
        event("cpu_op", "aten::one", 90, 30, pid=33, tid=33),
        event("cpu_op", "aten::two", 40, 30, pid=33 + shift, tid=33),
        event("user_annotation", "ProfilerStep#1", 0, 80, pid=33 + shift, tid=33),
        event("user_annotation", "ProfilerStep#1", 80, 80, pid=33, tid=33),
        kernel(120, 5, 1, "of 0", **own[0]),
        kernel(130, 5, 1, "of 1", pid=shift, **own[1]),
    ]
    recording = read(write(events))
    assert column(recording, "operator") == ["aten::one", "aten::two"]
    assert column(recording, "process_id") == [33, 33 + shift]
    assert column(recording, "host_launch_ns") == [100_000, 50_000]
    assert column(recording, "step") == ["ProfilerStep#1", "ProfilerStep#1"]
    assert column(recording, "rank") == [0, 1]
    assert notes(recording) == {}


def test_calls_that_share_a_correlation_are_told_apart_by_time(write: Write) -> None:
    recording = read(
        write([call(100, 5, 1), call(10, 5, 1), kernel(50, 5, 1, "a"), kernel(130, 5, 1, "b"),
               kernel(2, 5, 1, "before both")])
    )  # fmt: skip
    assert column(recording, "kernel_name") == ["before both", "a", "b"]
    assert column(recording, "host_launch_ns") == [10_000, 10_000, 100_000]
    assert notes(recording)["GPU activities linked by time among calls of one correlation id"] == 3


# ------------------------------------------------------------------------------------------------
# Linking


def test_the_whole_call_must_lie_in_the_operator(write: Write) -> None:
    # In whole microseconds a sibling ends in the microsecond in which the call begins.
    recording = read(
        write(
            [
                op("aten::mm", 10, 20), op("aten::empty", 11, 2), call(13, 9, 1), kernel(40, 5, 1),
                # The call seems to outlast its operator by one microsecond.
                op("aten::add", 50, 9), op("aten::add_", 51, 6), call(53, 5, 2), kernel(60, 5, 2),
                # On another thread nothing is around it.
                op("aten::mul", 70, 20), call(75, 5, 3, tid=5), kernel(90, 5, 3),
            ]
        )
    )  # fmt: skip
    assert column(recording, "operator") == ["aten::mm", "aten::add_", None]
    assert notes(recording) == {"kernels launched outside of any operator": 1}


def test_nanoseconds_leave_no_such_doubt(write: Write) -> None:
    recording = read(
        write(
            [op("aten::add", 50.001, 9), op("aten::add_", 51, 6), call(53, 5, 2), kernel(60, 5, 2)]
        )
    )
    assert column(recording, "operator") == ["aten::add"]


def test_orphans_are_kept(write: Write) -> None:
    recording = read(
        write(
            [call(10, 5, 1), kernel(1, 5, 8, "before"), kernel(9, 5, 0, "zero"), kernel(20, 5, 1)]
        )
    )
    assert column(recording, "host_launch_ns") == [None, None, 10_000]
    # There is one process, so they are its.
    assert column(recording, "process_id") == [100, 100, 100]
    assert list(notes(recording).values()) == [2, 1]


def test_external_id_is_not_believed(write: Write) -> None:
    external = {"External id": 1}
    recording = read(
        write(
            [op("aten::wrong", 0, 5, **external), op("aten::right", 10, 20, **external),
             call(12, 5, 1, **external), kernel(20, 5, 1, **external)]
        )
    )  # fmt: skip
    assert column(recording, "operator") == ["aten::right"]


def test_deep_paths_are_elided(write: Write) -> None:
    nest = [op(f"op{n}", n, 2000 - 2 * n) for n in range(300)]
    calls = [call(101, 5, 1, tid=5), call(900, 5, 2)]
    shallow = [op(f"op{n}", n, 2000 - 2 * n, tid=5) for n in range(100)]
    recording = read(write([*nest, *shallow, *calls, kernel(950, 5, 1), kernel(960, 5, 2)]))
    assert column(recording, "operator") == ["op99", "op299"]
    first, second = column(recording, "operator_path")
    assert first.startswith("op0 > op1 > ")
    assert first.endswith(" > op47 > … > op99")
    assert second == "… > op299"


# ------------------------------------------------------------------------------------------------
# Times


def test_eras_of_timestamps(write: Write) -> None:
    # Whole microseconds since 1970 (before 2024), with decimals (spring 2024: no double holds
    # them), and decimals since a base (later).
    texts = ["1712195495519689", "1712195495519689.047", "2241346192852.157"]
    for ts in texts:
        path = write(
            b'{"traceEvents":[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":%s,'
            b'"dur":12.005,"args":{}}]}' % ts.encode()
        )
        recording = read(path)
        assert column(recording, "start_ns") == [int(Decimal(ts) * 1000)]
        assert column(recording, "duration_ns") == [12_005]


def test_quoted_times(write: Write) -> None:
    recording = read(write([kernel("1712195495519689.047", "3.5"), kernel("12", 1)]))
    assert sorted(column(recording, "start_ns")) == [12_000, 1_712_195_495_519_689_047]
    assert sorted(column(recording, "duration_ns")) == [1_000, 3_500]


@given(st.lists(st.integers(0, (1 << 43) * 1000 - 1), min_size=1, max_size=20))
def test_doubles_of_three_decimals_are_exact_up_to_101_days(times: list[int]) -> None:
    microseconds = [float(f"{time // 1000}.{time % 1000:03}") for time in times]
    assert nanoseconds(microseconds).tolist() == times


@given(
    st.lists(
        st.one_of(
            st.integers(-(1 << 50), 1 << 50),
            st.floats(-1e9, 1e9),
            st.none(),
            st.text(max_size=5),
            st.lists(st.integers(), max_size=2),
            st.sampled_from([float("nan"), float("inf"), 10**400, "1e99999999", "-0.5", "7"]),
        ),
        max_size=8,
    )
)
def test_any_value_is_a_time_or_unknown(values: list[Any]) -> None:
    found = nanoseconds(values).tolist()
    assert len(found) == len(values)
    for value, time in zip(values, found, strict=True):
        if isinstance(value, int) and abs(value) < 1 << 52:
            assert time == value * 1000
        elif isinstance(value, float) and abs(value) <= 1e9:
            assert abs(time - value * 1000) <= 0.5001
        elif not isinstance(value, str):
            assert time == UNKNOWN


def test_broken_times_are_unknown(write: Write) -> None:
    week = 7 * 24 * 3600 * 10**6
    recording = read(
        write(
            [
                kernel(0, 5, name="clamped"), kernel(10, -1, name="negative"),
                kernel(20, week + 1, name="overflow"), kernel(0, 0, name="nothing"),
                {"ph": "X", "cat": "kernel", "name": "no duration", "pid": 0, "tid": 7, "ts": 30},
                kernel(40, 0, name="short"),
            ]
        )
    )  # fmt: skip
    times = {
        name: (start, duration)
        for name, start, duration in zip(
            *(column(recording, c) for c in ("kernel_name", "start_ns", "duration_ns")), strict=True
        )
    }
    assert times == {
        "clamped": (None, 5_000), "negative": (10_000, None), "overflow": (20_000, None),
        "nothing": (None, None), "no duration": (30_000, None), "short": (40_000, 0),
    }  # fmt: skip
    assert notes(recording)["GPU activities without a start"] == 2
    assert notes(recording)["GPU activities without a credible duration"] == 4


def test_events_of_the_host_that_end_before_they_begin_take_no_time(write: Write) -> None:
    """GIVEN negative durations of a call, an operator, an annotation and a wait THEN 0, counted."""
    wait = event("cuda_sync", "Event Sync", 20, -4, pid=0, tid=-1, stream=-1)
    on_gpu = event("gpu_user_annotation", "step", 30, -2, pid=0, tid=7)
    recording = read(
        write([
            call(1, -3, 1), kernel(10, 5, 1), op("aten::add", 0, -1), annotation("part", 5, -19),
            wait, on_gpu,
        ])
    )  # fmt: skip
    calls = recording.host_calls.select(["name", "duration_ns"]).to_pylist()
    assert {(one["name"], one["duration_ns"]) for one in calls} >= {
        ("cudaLaunchKernel", 0), ("Event Sync", 0)
    }  # fmt: skip
    assert recording.spans["duration_ns"].to_pylist() == [0, 0]
    assert notes(recording)["host events that end before they begin: counted as no time"] == 5


@pytest.mark.parametrize(("length", "known"), [(2_000_000, False), (2_000, True)])
def test_overlap_on_a_stream_is_doubted(write: Write, length: int, known: bool) -> None:
    """GIVEN a kernel that ran once and ends inside of what follows THEN it is doubted, and unknown
    where it lasts a hundred times as long as all the rest; 4 us are dependent launches and are
    normal."""
    recording = read(
        write([kernel(10, length, name="alone"), kernel(1_000, 50), kernel(10, 50, stream=8),
               kernel(56, 10, stream=8)])
    )  # fmt: skip
    durations = dict(
        zip(
            *(recording.kernels[one].to_pylist() for one in ("kernel_name", "duration_ns")),
            strict=True,
        )
    )
    assert (durations["alone"] is not None) == known
    text = (
        "GPU activities that end well after the next one on their stream began" if known
        else "durations that reach far over the next work on their stream: unknown"
    )  # fmt: skip
    assert notes(recording)[text] == 1


# ------------------------------------------------------------------------------------------------
# Broken text


GOOD = [op("aten::mm", 10, 20), call(12, 5, 1), kernel(30, 5, 1, "good"), kernel(40, 5, 2, "last")]


def broken(middle: bytes) -> bytes:
    """A trace with ``middle`` in place of an event."""
    texts = [json.dumps(one).encode() for one in GOOD]
    return b'{"traceEvents": [' + b",\n".join([*texts[:2], middle, *texts[2:]]) + b"]}"


PYTHON = b'{"ph":"X","cat":"python_function","name":"%s","pid":1,"tid":1,"ts":1,"dur":1,"args":{}}'
KERNEL = b'{"ph":"X","cat":"kernel","name":"%s","pid":0,"tid":7,"ts":35,"dur":1,"args":{}}'

CUT = "the file is cut short: only what comes before the cut was read"
BEHIND = "text behind the end of the trace, not read"
MENDED = "broken text in events, repaired"
LOST = "events that could not be read, left out"


@pytest.mark.parametrize(
    ("middle", "name", "note"),
    [
        (KERNEL % rb"C:\Users\x", r"C:\Users\x", MENDED),
        (KERNEL % b"a \xff b", "a � b", MENDED),
        (KERNEL % b"a\nb\tc", "a b c", MENDED),
        (KERNEL % b'{"device": "cpu"}(12): run', '{"device": "cpu"}(12): run', MENDED),
        (KERNEL % rb"half \ud83d of a pair", "half � of a pair", MENDED),
        (KERNEL.replace(b'"args":{}', b'"args":{"x":NaN,"y":[-Infinity,inf]}') % b"n", "n", MENDED),
        (KERNEL.replace(b'"args":{}', b'"args":{"grid":[1,2,3,],}') % b"n", "n", MENDED),
        (b"5, null, [1, {}], \"text\"", None, LOST),
        (PYTHON.replace(b'"tid":1', b'"tid":') % b"f", None, LOST),
        (KERNEL.replace(b'"args":{}', b'"args":[]') % b"n", None, LOST),
        (b'{"ph":"X","cat":"kernel","name":"never ends', None, LOST),
    ],
)  # fmt: skip
def test_broken_events_are_mended_or_left_out(
    middle: bytes, name: str | None, note: str, write: Write
) -> None:
    # GIVEN one broken event WHEN read THEN all others are there, it is mended where it can be,
    # and a note says so.
    recording = read(write(broken(middle)))
    names = ["good", *([name] if name else []), "last"]
    assert column(recording, "kernel_name") == names
    assert column(recording, "operator")[0] == "aten::mm"
    found = notes(recording)
    assert found.pop("GPU activities whose launch call was not recorded (most: from before the "
                     "recording)") == len(names) - 1  # fmt: skip
    assert list(found) == [note]


def test_many_broken_events_among_many(write: Write) -> None:
    texts = []
    for at in range(3000):
        texts.append(json.dumps(kernel(at * 10 + 1, 1, name=f"k{at}")).encode())
        if at % 7 == 0:
            texts.append(PYTHON % b'a "quoted" name')
    recording = read(write(b"[" + b", ".join(texts) + b"]"))
    assert column(recording, "kernel_name") == [f"k{at}" for at in range(3000)]
    assert notes(recording)[MENDED] == 429  # ceil(3000 / 7)


MANY = 3000  # events of 85 bytes: several fill no piece of a file


def many(change: Callable[[int, bytes], bytes], between: bytes = b", ") -> bytes:
    """A trace of MANY kernels k0, k1, …, 1 µs each 10 µs, whose texts ``change`` makes."""
    texts = (
        KERNEL.replace(b'"ts":35', b'"ts":%d' % (10 * at + 1)) % (b"k%d" % at) for at in range(MANY)
    )
    return b"[" + between.join(change(at, text) for at, text in enumerate(texts)) + b"]"


def damage(recording: Recording) -> dict[str, int]:
    """What the notes count as broken; these kernels have no launch calls either."""
    return {text: count for text, count in notes(recording).items() if "launch call" not in text}


@pytest.mark.parametrize("between", [b"", b" ", b"\n  "])
def test_events_without_commas(between: bytes, write: Write) -> None:
    """GIVEN nothing but space between events THEN each is read, and each comma is a repair."""
    recording = read(write(many(lambda at, text: text, between)))
    assert column(recording, "kernel_name") == [f"k{at}" for at in range(MANY)]
    assert damage(recording) == {MENDED: MANY - 1}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"args":{}', b'"args":{{}'),  # its brackets close with the last event
        (b'"args":{}', b'"args":[[{}'),
        (b'"args"', b'"args'),  # its strings are the next one's gaps
        (b'"cat":"kernel"', b'"cat":kernel"'),
        (b'"tid":7', b'"tid":7]'),
        (b'"tid":7', b'"tid":x7'),
        (b"{", b""),  # ends with what looks like the end of the list
    ],
)
def test_a_broken_event_costs_no_other(old: bytes, new: bytes, write: Write) -> None:
    """GIVEN one event with a sign too many or too few, beyond repair, THEN all others are there."""

    def change(at: int, text: bytes) -> bytes:
        if at != 1000:
            return text
        assert old in text
        return text.replace(b"}}", b'},"x":[[1],[2]]}').replace(old, new, 1)

    recording = read(write(many(change)))
    assert column(recording, "kernel_name") == [f"k{at}" for at in range(MANY) if at != 1000]
    assert list(damage(recording)) == [LOST]
    assert damage(recording)[LOST] <= 2  # without its first brace it is two things


@pytest.mark.parametrize("every", [2, 3, 30])
def test_every_lost_event_is_counted(every: int, write: Write) -> None:
    """GIVEN each second, third, thirtieth event without a start THEN so many are noted, the others
    there."""

    def change(at: int, text: bytes) -> bytes:
        return text.replace(b'"ts":', b'"ts":,') if at % every == 0 else text

    recording = read(write(many(change)))
    assert column(recording, "kernel_name") == [f"k{at}" for at in range(MANY) if at % every]
    assert damage(recording) == {LOST: MANY // every}


@pytest.mark.parametrize("every", [2, 30])
def test_what_can_be_mended_is_mended_to_the_end(every: int, write: Write) -> None:
    """GIVEN each second event without its closing brace THEN all are there: mending ends only where
    it mends nothing."""

    def change(at: int, text: bytes) -> bytes:
        return text.replace(b"}}", b"}") if at % every == 0 else text

    recording = read(write(many(change)))
    assert column(recording, "kernel_name") == [f"k{at}" for at in range(MANY)]
    assert damage(recording) == {MENDED: MANY // every}


def decoded(data: bytes) -> tuple[list[Any], list[int], Counter[str]]:
    """The events of a trace, how many bytes each call of the decoder was given, and the counts."""
    from traceroof.parsers.torch.events import Decoder

    decode, lengths = Decoder(), list[int]()

    def counted(text: Any) -> list[Any]:
        lengths.append(len(text))
        return decode(text)

    reader = Reader(_Stream(data, 1 << 20), counted, frozenset())
    found = [one for part in reader.whole() if isinstance(part, list) for one in part]
    return found, lengths, reader.counts


def test_little_is_decoded_twice_around_what_is_broken() -> None:
    """GIVEN each hundredth event without a start WHEN read THEN each call of the decoder is given
    about what stands between two of these, and the file twice in all."""

    def change(at: int, text: bytes) -> bytes:
        return text.replace(b'"ts":', b'"ts":,') if at % 100 == 0 else text

    data = many(change)
    found, lengths, counts = decoded(data)
    assert (len(found), counts) == (MANY - MANY // 100, {LOST: MANY // 100})
    # At first the file is given whole, which ends where it is broken.
    assert sum(sorted(lengths)[:-1]) < 2 * len(data)


def test_broken_events_beyond_the_budget_are_counted_not_looked_at() -> None:
    """GIVEN 40,000 events of which all but each tenth are beyond repair WHEN read THEN the decoder is
    called half as often, and each event is read or counted as lost."""
    events = 40_000

    def text(at: int) -> bytes:
        one = KERNEL.replace(b'"ts":35', b'"ts":%d' % (10 * at + 1)) % (b"k%d" % at)
        return one if at % 10 == 0 else one.replace(b'"ts":', b'"ts":,')

    found, lengths, counts = decoded(b"[" + b",".join(map(text, range(events))) + b"]")
    assert len(lengths) < events // 2
    assert 100 < len(found) < events // 10
    assert len(found) + counts[LOST] == events


def test_a_value_beside_the_events_without_its_end(write: Write) -> None:
    """GIVEN device properties that have lost a bracket THEN the events are read all the same."""
    recording = read(write(b'{"deviceProperties": [{"id": 0}, "traceEvents": [%s]}'
                           % json.dumps(kernel(1, 1)).encode()))  # fmt: skip
    assert column(recording, "kernel_name") == ["k"]
    assert damage(recording) == {"broken text beside the events, passed over": 1}


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (b"\xef\xbb\xbf[", b"]", {}),
        (b"\n\n  [", b",\n]\n\n", {}),
        (b'{"traceEvents":[', b"]}}", {}),
        (b'{"traceEvents":[', b"]}\0\0", {}),
        (b'{"traceEvents":[', b"]} {}", {BEHIND: 1}),
        (b'{"a":[1,{"b":"]}"}],"c":{"d":"\\"}"},"e":1.5e3,"f":null,"traceEvents":[', b"]}", {}),
        (b'{oops, "traceEvents" : [', b"]}", {"broken text beside the events, passed over": 1}),
        (b'{"traceEvents":[', b"]", {CUT: 1}),
    ],
)  # fmt: skip
def test_containers(start: bytes, end: bytes, expected: dict[str, int], write: Write) -> None:
    events = b", ".join(
        json.dumps(one).encode() for one in [op("o", 1, 3), call(2, 1, 1), kernel(3, 1, 1)]
    )
    recording = read(write(start + events + end))
    assert column(recording, "kernel_name") == ["k"]
    assert notes(recording) == expected


def test_metadata_may_come_before_or_behind(write: Write) -> None:
    events = json.dumps([kernel(1, 1)])
    for text in (
        '{"baseTimeNanoseconds": 5000, "distributedInfo": {"rank": 2}, "traceEvents": %s}',
        '{"traceEvents": %s, "distributedInfo": {"rank": 2}, "baseTimeNanoseconds": 5000}',
        '{"traceEvents": %s, "distributedInfo": {"rank": 2},"baseTimeNanoseconds":5000',
    ):
        recording = read(write((text % events).encode()))
        assert (column(recording, "rank"), column(recording, "start_ns")) == ([2], [6_000])


def test_gzip_that_is_cut(write: Write) -> None:
    events = [
        kernel(at * 10 + 1, 1, name=f"k{at} {random.Random(at).random()}") for at in range(5000)
    ]
    packed = gzip.compress(json.dumps(events).encode())
    recording = read(write(packed[: len(packed) // 2], "trace.json.gz"))
    found = column(recording, "kernel_name")
    assert 1000 < len(found) < 4000
    assert found == [one["name"] for one in events[: len(found)]]
    assert notes(recording)["gzip data cut short: only what comes before the cut was read"] == 1


# ------------------------------------------------------------------------------------------------
# Pieces: the same events come out however the file is laid out and read


NASTY = st.lists(
    st.sampled_from([*'ab{}[],:"\\/ \n\té😀', '},{"name":', "traceEvents", '"ts":']), max_size=12
).map("".join)
VALUE = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 1 << 70), st.floats(-1e6, 1e6), NASTY),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(NASTY, st.sampled_from(["name", "ph", "args"])), inner, max_size=3
        ),
    ),
    max_leaves=6,
)
EVENT = st.builds(
    lambda name, ts, extra, order: dict(
        order(list({**event("kernel", name, ts, 1), "args": extra}.items()))
    ),
    NASTY,
    st.integers(1, 10**6),
    st.dictionaries(st.sampled_from(["x", "list", "name"]), VALUE, max_size=3),
    st.sampled_from([lambda x: x, lambda x: x[::-1], sorted]),
)
LAYOUTS = [
    {"separators": (",", ":")},
    {},
    {"indent": 2},
    {"indent": 1, "separators": (" ,", " : ")},
    {"sort_keys": True, "indent": 4},
    {"ensure_ascii": False},
]


class _Stream:
    """Bytes that come in small portions."""

    def __init__(self, data: bytes, portion: int) -> None:
        self._data, self._portion, self._at = data, portion, 0

    def readinto(self, buffer: memoryview, /) -> int:
        part = self._data[self._at : self._at + min(self._portion, len(buffer))]
        buffer[: len(part)] = part
        self._at += len(part)
        return len(part)


def pieces(data: bytes, size: int, portion: int = 1 << 20) -> tuple[list[Any], Reader]:
    """Names and times of all events of a trace read with a buffer of ``size`` bytes."""
    from traceroof.parsers.torch.events import Decoder

    reader = Reader(_Stream(data, portion), Decoder(), frozenset({"meta"}), size)
    found = [
        (one.name, one.ts) for part in reader.whole() if isinstance(part, list) for one in part
    ]
    return [one for one in found if one[1] is not None], reader


@pytest.mark.parametrize("name", ["training.rank0.json", "decode.json"])
def test_events_of_the_usual_kind_are_read_like_any_others(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN an installation without the compiled scanner THEN every table is the same."""
    path = Path(__file__).parents[2] / "sample_traces/torch" / name
    usual = PARSER.read(path, silent, Options())
    monkeypatch.setattr("traceroof.parsers.torch.scanned._compiled", lambda layouts: None)
    other = PARSER.read(path, silent, Options())
    assert usual == other
    assert usual.kernels.equals(other.kernels)
    assert usual.host_calls.equals(other.host_calls)
    assert usual.spans.equals(other.spans)


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    st.lists(EVENT, max_size=12),
    st.sampled_from(LAYOUTS),
    st.one_of(st.integers(16, 300), st.just(1 << 19)),
    st.integers(1, 500),
    st.booleans(),
)
def test_any_layout_in_any_piece_size(
    events: list[Event], layout: dict[str, Any], size: int, portion: int, is_list: bool
) -> None:
    whole = (
        events if is_list else {"a": [{"name": 1}], "traceEvents": events, "meta": [{"id": 1}, {}]}
    )
    data = json.dumps(whole, **layout).encode("utf-8", "surrogatepass")
    found, reader = pieces(data, size, portion)
    assert found == [(one["name"], one["ts"]) for one in events]
    assert not reader.counts
    assert reader.metadata == ({} if is_list else {"meta": [{"id": 1}, {}]})


@settings(max_examples=50, deadline=None)
@given(
    st.lists(EVENT, min_size=1, max_size=3),
    st.sampled_from(LAYOUTS),
    st.sampled_from([32, 1 << 19]),
)
def test_a_file_cut_at_any_byte_gives_the_events_before(
    events: list[Event], layout: dict[str, Any], size: int
) -> None:
    data = json.dumps({"traceEvents": events}, **layout).encode("utf-8", "surrogatepass")
    names = [(one["name"], one["ts"]) for one in events]
    longest = 0
    for end in range(data.index(b"{"), len(data)):
        found, reader = pieces(data[: end + 1], size)
        assert found == names[: len(found)]
        # A cut may end where an event lacks nothing but its brackets, and is closed.
        if MENDED not in reader.counts:
            assert len(found) >= longest
            longest = len(found)
        # Cut behind brackets inside it, the last event looks broken, or the list ended. One that
        # lacks nothing but its closing brackets is an event.
        assert set(reader.counts) <= {CUT, LOST, BEHIND, MENDED}
        assert bool(reader.counts) == (end + 1 < len(data))
    assert longest == len(names)


def test_an_event_larger_than_the_buffer(write: Write) -> None:
    big = kernel(5, 1, name="x" * 300_000, note=[{"name": "}, {" * 50_000}])
    found, reader = pieces(json.dumps([kernel(1, 1), big, kernel(9, 1)]).encode(), 1 << 12)
    assert [ts for _, ts in found] == [1, 5, 9]
    assert not reader.counts


@settings(max_examples=30, deadline=None)
@given(order=st.permutations(TRAINING))
def test_the_order_of_events_does_not_matter(
    order: list[Event], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "order.json"
    tables = []
    for events in (TRAINING, order):
        path.write_text(json.dumps(events))
        recording = read(path)
        tables.append((recording.kernels, recording.host_calls, recording.spans))
    assert all(one.equals(other) for one, other in zip(*tables, strict=True))


def test_sections_read_by_several_processes_give_the_same(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[Event] = [annotation("ProfilerStep#1", 0, 10**6)]
    for at in range(4000):
        events += [
            op(f"aten::op{at % 50}", at * 100 + 1, 50, **{"Input Dims": [[at % 7]]}),
            call(at * 100 + 5, 10, at + 1, "hipLaunchKernel", grid=[at % 5, 1, 1]),
            kernel(
                at * 100 + 30, 20, at + 1, f"k{at % 90}", **(COLLECTIVE if at % 40 == 0 else {})
            ),
        ]
    path = write(events, distributedInfo={"rank": 1}, deviceProperties=[{"id": 0, "name": "X"}])
    one = read(path)
    monkeypatch.setattr("traceroof.parsers.torch.trace.PARALLEL_BYTES", 1)
    monkeypatch.setattr(torch_read, "_SECTION_BYTES", 100_000)
    size = path.stat().st_size
    sections = torch_read.in_sections(path, size, Options(jobs=2), silent, 100_000)
    assert sections is not None
    assert size > 1_000_000
    assert sections.fold.gpu.rows == 4000
    other = read(path, jobs=2)
    assert other == one
    # Something broken in a section: then the file is read in one go, with the same outcome.
    text = path.read_bytes()
    at = text.index(b'"k45"')
    path.write_bytes(text[:at] + b"nonsense" + text[at:])
    assert torch_read.in_sections(path, size, Options(jobs=2), silent, 100_000) is None


# ------------------------------------------------------------------------------------------------
# What is recognised, and refused


@pytest.mark.parametrize(
    ("head", "sure"),
    [
        (b'{"schemaVersion": 1, "deviceProperties": [{"id": 0, "computeMajor": 9', 2),
        (b'\xef\xbb\xbf\n [ {"ph": "X", "cat": "Operator", "name": "aten::empty"', 2),
        (b'{"traceEvents":[{"ph":"X","cat":"cpu_op"', 2),
        (b'{"traceEvents": [\n{"ph": "X", "cat": "kernel", "args": {"External id": 4', 2),
        (b'{"traceEvents":[{"ph":"X","name":"a"', 1),
        (b'{ "traceEvents":[{}\n,{"args":{"BeginNs":"1"},"ph":"X"', 0),
        (b'{"rocprofiler-sdk-tool": [', 0),
        (b"ID,Kernel Name", 0),
        (b'{"a": 1}', 0),
        (b"", 0),
        (b"\x00\x01", 0),
    ],
)
def test_recognises(head: bytes, sure: int) -> None:
    assert PARSER.recognises(head, Path("x.json")) == sure


@pytest.mark.parametrize("percent", [20, 40, 60])
def test_a_trace_cut_before_its_gpu_work_says_so(tmp_path: Path, percent: int) -> None:
    """GIVEN our sample, whose operators and launch calls stand before its kernels, cut among them
    THEN the cut is told, not that CUPTI gave no records."""
    whole = Path(__file__).parents[2] / "sample_traces" / "torch" / "training.rank0.json"
    content = whole.read_bytes()
    path = tmp_path / "cut.json"
    path.write_bytes(content[: len(content) * percent // 100])
    with pytest.raises(TraceroofError, match="holds no GPU work: it is cut short"):
        read(path)


CPU_ONLY = [op("aten::mm", 1, 5), op("aten::add", 7, 5)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (CPU_ONLY, r"no GPU work: only the CPU was recorded \(2 operators\)"),
        ([*CPU_ONLY, call(2, 1, 1)], "1 calls to the GPU were recorded, but none of the work"),
        ([*CPU_ONLY, call(2, 1, 1, "cudaMalloc")], "no launch call was made"),
        ([*CPU_ONLY, event("cuda_profiler_range", "x", 1, 2)], "ranges of CUPTI counters"),
        (json.dumps(CPU_ONLY).encode()[:-9], "it is cut short, and GPU work stands last"),
        (json.dumps([call(2, 1, 1), *CPU_ONLY]).encode()[:-9], "it is cut short, and GPU work"),
        (b'{"schemaVersion": 1, "deviceProperties": [{"id": 0, "na', "cut short before its first"),
        (b"no JSON at all", "is not JSON"),
        ([{"ph": "X", "cat": "gui", "name": "x", "ts": 1, "dur": 1}], "its events are called gui"),
        ({"traceEvents": []}, "it holds no events of its kinds"),
        (
            {
                "displayTimeUnit": "ns",
                "metadata": {"highres-ticks": True},
                "traceEvents": [{"ph": "M"}],
            },
            "is a trace of XLA",
        ),
        (
            [{"ph": "X", "cat": "cuda", "name": "k"}, {"ph": "X", "cat": "cuda_api", "name": "c"}],
            "is a trace converted from Nsight Systems",
        ),
        (
            {"traceEvents": [{}, {"ph": "X", "ts": "1", "args": {"BeginNs": "2"}}]},
            r"is a trace of rocprof \(version 1\)",
        ),
    ],
)
def test_what_is_refused_and_why(content: Any, message: str, write: Write) -> None:
    path = write(content)
    with pytest.raises(TraceroofError, match=message) as caught:
        read(path)
    assert str(path) in caught.value.message
    assert caught.value.hint


# ------------------------------------------------------------------------------------------------
# Our samples


def test_samples_are_recognised_by_this_parser_alone(samples: Path) -> None:
    found = sorted((samples / "torch").iterdir())
    assert [path.name for path in found] == [
        "decode.json", "training.rank0.json", "training.rank1.json",
    ]  # fmt: skip
    for path in found:
        start = head(path, HEAD_BYTES)
        sure = [one.name for one in parsers() if one.recognises(start, path) == 2]
        assert sure == ["torch-profiler"], path


def test_the_training_sample(samples: Path) -> None:
    one, other = (read(samples / f"torch/training.rank{rank}.json") for rank in range(2))
    for rank, recording in enumerate((one, other)):
        # Forward: per layer 2 norms, 4 products, 1 attention, 3 elementwise, then the product
        # with the vocabulary and a softmax: 2 * 10 + 2. Backward: per layer 2 norms, 4 * (2
        # products and a sum), 1 attention, 3 elementwise, then 3 for the vocabulary: 2 * 18 + 3.
        # Two all-reduces and one optimizer kernel.
        assert recording.sources[0].launches == 3 * (22 + 39 + 2 + 1)
        phases = Counter(zip(column(recording, "kind"), column(recording, "phase"), strict=True))
        assert phases == {
            ("kernel", "forward"): 3 * 21,
            ("kernel", "backward"): 3 * 39,
            ("kernel", "optimizer"): 3,
            ("kernel", None): 3 * 3,  # the softmax draws no number; all-reduces stand apart
            ("memcpy", None): 3 * 2,
        }
        assert set(column(recording, "step")) == {f"ProfilerStep#{n}" for n in (4, 5, 6)}
        assert set(column(recording, "rank")) == {rank}
        assert column(recording, "collective").count("allreduce") == 6
    paths = Counter(column(one, "module_path"))
    # Forward, the two backward products and the sum, in three steps.
    assert paths["Transformer_0 > Block_1 > MLP_1 > Linear_7"] == 3 * 4
    # The collective ends on both ranks at once; the one whose peer is late takes longer.
    ends = [
        [start + took for start, took, what in zip(
            *(column(r, c) for c in ("start_ns", "duration_ns", "collective")), strict=True
        ) if what] for r in (one, other)
    ]  # fmt: skip
    assert ends[0] == ends[1]


def test_the_decoding_sample(samples: Path) -> None:
    recording = read(samples / "torch/decode.json")
    assert Counter(column(recording, "graph_id")) == {"replay 1": 4 * 8 * 11, None: 4 * 2}
    assert Counter(column(recording, "operator"))["aten::argmax"] == 4
    assert len(set(column(recording, "step"))) == 4
    assert [(d.index, d.name, d.vendor) for d in recording.devices] == [
        (2, "AMD Instinct MI300X", "amd")
    ]


# ------------------------------------------------------------------------------------------------
# Real files


GPU_CATEGORIES = {
    "kernel": "kernel", "Kernel": "kernel", "gpu_memcpy": "memcpy", "Memcpy": "memcpy",
    "gpu_memset": "memset", "Memset": "memset",
}  # fmt: skip

# Files without GPU work, and others' traces.
WITHOUT_WORK = (
    "hta_cpu_only", "hta_cupti_profiler_range", "switchtransformers_trace_a100_nokernels", "OTHER_",
)  # fmt: skip


def real_traces() -> list[str]:
    folder = Path(__file__).resolve().parents[2].parent / "shared" / "corpus" / "torch"
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*.json*"))


@pytest.mark.corpus
@pytest.mark.parametrize("name", real_traces())
def test_real_traces_are_complete(name: str, corpus: Path) -> None:
    """Counts and times per kind equal to an independent count with the json module, in decimal."""
    path = corpus / "torch" / name
    if path.name.startswith(WITHOUT_WORK):
        with pytest.raises(TraceroofError):
            read(path)
        return
    expected: list[tuple[str, str, int, int]] = []
    base = 0
    data = path.read_bytes()
    whole = json.loads(
        gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data, parse_float=Decimal
    )
    if isinstance(whole, dict):
        base = whole.get("baseTimeNanoseconds", 0)
    for one in whole if isinstance(whole, list) else whole["traceEvents"]:
        kind = GPU_CATEGORIES.get(one.get("cat", ""))
        if kind and one["ph"] == "X":
            start, duration = (int(Decimal(one[key]) * 1000) for key in ("ts", "dur"))
            expected.append((kind, one["name"], start + base, duration))
    recording = read(path)
    found = zip(
        *(column(recording, c) for c in ("kind", "kernel_name", "start_ns", "duration_ns")),
        strict=True,
    )
    assert Counter(found) == Counter(expected)
    assert recording.sources[0].launches == sum(kind == "kernel" for kind, *_ in expected)
    severe = [note.text for note in recording.notes if note.severe]
    # Of these two only a sample of the records was kept, by those who published them.
    thinned = path.name.startswith("hta_sampled")
    assert [text.startswith("the file holds only 0.") for text in severe] == [True] * thinned


# From the reference on these traces: activities, of them linked to a call; of those linked to an
# operator; and of those launched by replaying graphs (whose operators are not known).
LINKS = {
    "hta_ns_resolution_rank-0.pt.trace.json.gz": (6095, 6095, 6095, 0),
    "hta_trace_diff_test_v100.json.gz": (15632, 15632 - 614, 9924, 5046),
    "hta_trace_diff_control_a100.json.gz": (9450, 9450, 9402, 0),
    "tracelens_mi300_Qwen1.5-0.5B.json.gz": (1517, 1517 - 463, 1054, 0),
    "tracelens_mi300_resnet_act_checkpoint.json.gz": (3653, 3653 - 968, 2685, 0),
    "torchrec_a2a_qcomm_v100_54105.pt.trace.json": (752, 752 - 98, 651, 0),
    "deepseek_profile-data_train_h800.json": (983, 983, 688, 0),
    "saf_asdf_True_compile_cudagraph_a100.json.gz": (24984, 24984, 23544, 1440),
    "tracelens_mi300_xdit_flux_aiter_sage.json.gz": (7866, 7866, 1602, 6264),
    "hpctraining_mi300_merged_4ranks_tracefusion.json.gz": (16287, 16287, 16287, 0),
    "kineto_tb_2020-12_resnet50_barelist.pt.trace.json.gz": (9927, 9927 - 765, 9060, 0),
}


@pytest.mark.corpus
@pytest.mark.parametrize("name", LINKS)
def test_real_traces_are_linked(name: str, corpus: Path) -> None:
    recording = read(corpus / "torch" / name)
    linked = [call is not None for call in column(recording, "host_launch_ns")]
    known = [
        sum(value is not None for value in column(recording, c))
        for c in ("kernel_name", "host_launch_ns", "graph_id")
    ]
    operators = [
        one
        for one, is_linked in zip(column(recording, "operator"), linked, strict=True)
        if is_linked
    ]
    assert (*known[:2], len(operators) - operators.count(None), known[2]) == LINKS[name]


# Launches without a call: how many, and how many of them repetitions tell the operator and the
# module (range) of. The recorded launches of the same name come from several operators for the
# rest, or there are none. Qwen: eight are a layer's norm or the model's.
TOLD = {
    "tracelens_mi300_Qwen1.5-0.5B.json.gz": (463, 463, 455),
    "tracelens_mi300_resnet_act_checkpoint.json.gz": (968, 968, 769),
    "hta_trace_diff_test_v100.json.gz": (614, 587, 338),
    "torchrec_a2a_qcomm_v100_54105.pt.trace.json": (98, 87, 76),
    "kineto_tb_2020-12_resnet50_barelist.pt.trace.json.gz": (765, 757, 483),
}


@pytest.mark.corpus
@pytest.mark.parametrize("name", TOLD)
def test_launches_from_before_the_recording_are_told_by_their_repetitions(
    name: str, corpus: Path
) -> None:
    recording = read(corpus / "torch" / name)
    lost = [at for at, call in enumerate(column(recording, "host_launch_ns")) if call is None]
    known = [
        sum(column(recording, c)[at] is not None for at in lost)
        for c in ("operator", "module_path")
    ]
    assert (len(lost), *known) == TOLD[name]


def test_what_repetitions_say_alike_is_taken_over(write: Write) -> None:
    """GIVEN launches of a step whose call was not recorded, then two layers of a step and a last
    kernel WHEN read THEN each gets what all repetitions of the longest run say: the operator, the
    module with its number where that is one, the shapes where the launches take as long; a number
    of its own as operator call; nothing from one kernel name that two operators share."""
    dims = {"Input Dims": [[8, 8]]}
    recorded: list[Event] = []
    for layer, start in ((0, 1000), (1, 2000)):
        recorded += [
            module(f"Layer_{layer}", start, 500),
            op("aten::mm", start + 10, 100, **dims), call(start + 20, 5, start + 1),
            op("aten::mul", start + 200, 100, **dims), call(start + 210, 5, start + 2),
            kernel(start + 3000, 50, start + 1, "gemm"), kernel(start + 3100, 20, start + 2, "ew"),
        ]  # fmt: skip
    recorded += [
        op("aten::add", 2600, 100), call(2610, 5, 9), kernel(5300, 20, 9, "ew"),
        op("aten::sum", 2800, 100), call(2810, 5, 8), kernel(5400, 20, 8, "ew"),
    ]  # fmt: skip
    lost = [
        kernel(10, 100, 101, "ew"), kernel(110, 100, 102, "unseen"),  # no run of two repeats
        kernel(200, 50, 103, "gemm"), kernel(300, 21, 104, "ew"),  # either layer
    ]  # fmt: skip
    recording = read(write([*lost, *recorded]))
    assert column(recording, "operator")[:4] == [None, None, "aten::mm", "aten::mul"]
    assert column(recording, "module_path")[:4] == [None, None, "Layer_?", "Layer_?"]
    assert column(recording, "input_shapes")[:4] == [None, None, "[[8, 8]]", "[[8, 8]]"]
    assert column(recording, "host_launch_ns")[:4] == [None] * 4
    calls = column(recording, "operator_call")
    assert calls[:2] == [None, None]
    assert len({*calls[2:]}) == len(calls[2:])
    told = [count for text, count in notes(recording).items() if "in the same order" in text]
    assert told == [2]
    # The whole second layer and what follows repeats once: its number is known. Its launches take
    # twice as long: other sizes.
    lost = [
        kernel(10, 100, 101, "gemm"), kernel(110, 40, 102, "ew"), kernel(210, 40, 103, "ew"),
        kernel(310, 40, 104, "ew"),
    ]  # fmt: skip
    recording = read(write([*lost, *recorded]))
    assert column(recording, "module_path")[:4] == ["Layer_1", "Layer_1", None, None]
    assert column(recording, "operator")[:4] == ["aten::mm", "aten::mul", "aten::add", "aten::sum"]
    assert column(recording, "input_shapes")[:4] == [None] * 4
    calls = column(recording, "operator_call")
    assert len({*calls}) == len(calls)


def labelled() -> Iterator[tuple[str, Counter[tuple[str, str]]]]:
    """Kernel names and operators by file, as an independent program linked them."""
    import csv

    csv.field_size_limit(1 << 30)
    path = Path(__file__).resolve().parents[2].parent / "shared" / "corpus"
    found: dict[str, Counter[tuple[str, str]]] = {}
    with (path / "torch_kernel_labels.tsv").open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file, delimiter="\t"):
            if line["link_method"] == "corr+containment":
                counter = found.setdefault(line["source_file"], Counter())
                counter[line["kernel_name"], line["leaf_cpu_op"]] += int(line["count"])
    yield from found.items()


@pytest.mark.corpus
def test_operators_of_real_traces_are_the_labelled_ones(corpus: Path) -> None:
    # Of 114,179 labelled launches 28 in two files of whole microseconds differ: the labels want
    # a call to end no later than its operator by a clock that cuts both start and length, so they
    # name an outer operator (binary_cross_entropy_with_logits for an add_); ours is inside it.
    paths = {path.name: path for path in (corpus / "torch").rglob("*.json*")}
    labels = launches = different = 0
    for source, expected in labelled():
        short = source.removeprefix("dlrm_kineto_")
        path = paths.get(short) or next(p for name, p in paths.items() if short in name)
        recording = read(path)
        found = Counter(
            zip(column(recording, "kernel_name"), column(recording, "operator"), strict=True)
        )
        labels += 1
        launches += sum(expected.values())
        missing = sum((expected - found).values())
        assert missing == 0 or path.name.startswith("torchrec_")
        different += missing
    assert (labels, launches, different) == (40, 114_179, 28)


# ------------------------------------------------------------------------------------------------
# Damaged files


_EVENTS = [
    f'{{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":{10 * at + 1},"dur":2,'
    '"args":{"stream":7,"device":0}}'
    for at in range(9_001)
]
_START = '{"schemaVersion":1,"traceEvents":['
BROKEN_THROUGHOUT = {
    "a bracket lost per event": _START
    + ",\n".join([_EVENTS[0], *(one[:-1] for one in _EVENTS[1:])])
    + "]}",
    "brackets": _START + "[" * 500_000,
    "objects": _START + "{" * 500_000,
    "names that never end": _START + '{"name":"' * 60_000,
    "nested": _START + '{"a":' * 100_000,
}


@pytest.mark.parametrize("kind", BROKEN_THROUGHOUT)
def test_what_is_broken_throughout_ends_soon(tmp_path: Path, kind: str) -> None:
    """GIVEN half a megabyte in which every event is broken WHEN read THEN seconds of CPU at most:
    the search for the ends of broken events has a budget."""
    path = tmp_path / "trace.json"
    path.write_text(BROKEN_THROUGHOUT[kind])
    with time_limit(10):
        try:
            run = traceroof.read(path)
        except TraceroofError:
            return
    # Closing brackets that are missing before the next event are put back.
    assert len(run.kernels) == 9_000
