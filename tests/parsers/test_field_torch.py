"""Torch traces as users' machines write them: each file of tests/field_cases/torch is a kind."""

import gzip
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import traceroof
from traceroof.core.recording import Recording, Run
from traceroof.errors import TraceroofError
from traceroof.ingest.detect import read as read_paths
from traceroof.report.run import terminal
from traceroof.timeline import timelines

Read = Callable[[str], Recording]


@pytest.fixture
def case(root: Path) -> Read:
    """Reads a field case by its name."""
    return lambda name: read_paths([root / "tests/field_cases" / name])


def column(recording: Recording, name: str) -> list[Any]:
    return list(recording.kernels[name].to_pylist())


def notes(recording: Recording) -> str:
    return "\n".join(map(str, recording.notes))


def gpus(recording: Recording) -> list[tuple[int, int]]:
    """(busy, span) of each GPU in ns."""
    kinds = ["gemm"] * recording.kernels.num_rows
    return [(one.busy_ns, one.span_ns) for one in timelines(recording, kinds)]


def test_times_are_exact_whatever_comes_before(case: Read, root: Path) -> None:
    """GIVEN epoch microseconds with decimals behind 80 metadata events THEN exact to the ns."""
    name = "torch/exact_times_after_64_metadata.json.gz"
    with gzip.open(root / "tests/field_cases" / name, "rt") as file:
        events = json.load(file, parse_float=str)["traceEvents"]
    wanted = []
    for event in events:
        if event.get("cat") == "kernel":
            whole, _, decimals = str(event["ts"]).partition(".")
            wanted.append(int(whole) * 1000 + int(decimals.ljust(3, "0")))
    assert column(case(name), "start_ns") == sorted(wanted)


def test_a_duration_over_all_that_follows(case: Read) -> None:
    """GIVEN 100 ms among 199 launches of 950 us on one stream THEN unknown: 189 ms."""
    recording = case("torch/rocm_overflow_duration.json.gz")
    durations = column(recording, "duration_ns")
    assert durations.count(None) == 1
    assert sum(filter(None, durations)) == 199 * 950_000
    assert [note.severe for note in recording.notes if "reach far over" in note.text] == [True]


def test_labels_of_ranks_before_processes(case: Read) -> None:
    """GIVEN "[TP00] 5000" THEN rank 0, and each rank keeps its operators."""
    recording = case("torch/sglang_merged.trace.json.gz")
    pairs = set(zip(column(recording, "rank"), column(recording, "operator"), strict=True))
    assert pairs == {(0, "aten::mm"), (1, "aten::add_")}


@pytest.mark.parametrize(
    "label", ["[TP{r}-DP00] {p}", "[rank{r}] {p}", "TP{r}_{p}", "rank{r}:{p}", "DP{r}_TP0 {p}"]
)
def test_labels_in_other_words(label: str, tmp_path: Path) -> None:
    """GIVEN two ranks with equal links in one file THEN each launch is its own rank's."""
    events = []
    for rank in (0, 1):
        for at in range(3):
            args = {"correlation": at + 1}
            own, gpu = label.format(r=rank, p=5000 + rank), label.format(r=rank, p=0)
            times = 1000 + 200 * at + 100 * rank
            events += [
                {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": own,
                 "tid": 5000, "ts": times - 10 - rank, "dur": 5, "args": args},
                {"ph": "X", "cat": "kernel", "name": f"k{rank}", "pid": gpu, "tid": 7, "ts": times,
                 "dur": 50, "args": {**args, "device": 0, "stream": 7}},
            ]  # fmt: skip
    path = tmp_path / "merged.trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    recording = read_paths([path])
    queued = [
        (one["kernel_name"], one["rank"], one["start_ns"] - one["host_launch_ns"])
        for one in recording.kernels.to_pylist()
    ]
    assert set(queued) == {("k0", 0, 10_000), ("k1", 1, 11_000)}


def test_local_ranks_of_a_node(root: Path, tmp_path: Path) -> None:
    """GIVEN the local rank 0 of node 0 THEN its rank is unknown; without a node it is the rank."""
    source = root / "tests/field_cases/torch/local_rank/local_rank_0_global_rank_0.json.gz"
    shutil.copy(source, tmp_path / "node0_local_rank_0.json.gz")
    shutil.copy(source, tmp_path / "local_rank_0.json.gz")
    assert set(column(read_paths([tmp_path / "node0_local_rank_0.json.gz"]), "rank")) == {None}
    assert set(column(read_paths([tmp_path / "local_rank_0.json.gz"]), "rank")) == {0}


def test_global_ranks_in_names(case: Read) -> None:
    """GIVEN local_rank_0_global_rank_8 THEN rank 8."""
    assert sorted(set(column(case("torch/local_rank"), "rank"))) == [0, 1, 8, 9]


def test_equal_process_numbers_of_two_hosts(case: Read) -> None:
    """GIVEN process 26 on two hosts THEN two GPUs, each busy half of 300 ms."""
    found = gpus(case("torch/same_pid"))
    assert len(found) == 2
    assert [busy for busy, _ in found] == [150_000_000] * 2


def test_two_processes_on_one_gpu(case: Read) -> None:
    """GIVEN two processes and one Gpu_Id THEN one GPU, busy 180 of 200 ms."""
    ((busy, span),) = gpus(case("amd/T2_two_ranks_one_gpu"))
    assert busy == 180_000_000
    assert span == pytest.approx(200e6, rel=0.001)


def test_a_file_without_gpu_work_beside_the_ranks(case: Read) -> None:
    """GIVEN a trace of the CPU beside two ranks THEN it is left out with a note."""
    recording = case("torch/vllm_dir")
    assert sorted(set(column(recording, "rank"))) == [0, 1]
    assert "host_77.async_llm.1700.pt.trace.json.gz" in notes(recording)


@pytest.mark.parametrize(
    "content",
    [b"", b"version https://git-lfs.github.com/spec/v1\n", b"\x28\xb5\x2f\xfd...."],
)
def test_a_lost_file_beside_the_ranks(root: Path, tmp_path: Path, content: bytes) -> None:
    """GIVEN an empty, packed or LFS-pointer file among ranks THEN left out; strict refuses."""
    folder = tmp_path / "ranks"
    shutil.copytree(root / "tests/field_cases/torch/local_rank", folder)
    (folder / "local_rank_2_global_rank_2.json").write_bytes(content)
    recording = read_paths([folder])
    assert sorted(set(column(recording, "rank"))) == [0, 1, 8, 9]
    lost = [note for note in recording.notes if "global_rank_2.json" in note.text]
    assert [note.severe for note in lost] == [True]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("mtia_events.json.gz", "MTIA"),
        ("paddle_trace.json.gz", "PaddlePaddle"),
        ("vllm_dir/host_77.async_llm.1700.pt.trace.json.gz", "only the CPU was recorded"),
    ],
)
def test_what_is_refused_and_why(case: Read, name: str, reason: str) -> None:
    with pytest.raises(TraceroofError, match=reason):
        case(f"torch/{name}")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'[{"ph":"M","name":"process_name","pid":1,"args":{"name":"Ascend Hardware"}}]', "Ascend"),
        (b'[{"cat":"Session","pid":1,"tid":1,"dur":5,"ts":1,"ph":"X","name":"model_run","args":{}}]',
         "ONNX Runtime"),
        (b'{"schema": "1.1.1-chakra.0.0.4", "nodes": []}', "execution trace"),
        (b"\x80\x04\x95\x10\x00", "pickle"),
        (b"\x28\xb5\x2f\xfd\x00\x00", "zstd"),
    ],
)  # fmt: skip
def test_files_of_other_tools_are_named(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    with pytest.raises(TraceroofError) as caught:
        read_paths([path])
    assert reason in str(caught.value)


def test_words_of_an_intel_gpu(case: Read) -> None:
    """GIVEN a trace of an Intel GPU THEN no advice names CUDA, and no tool of NVIDIA's collects."""
    recording = case("torch/xpu_sync_and_copies.json.gz")
    assert [one.vendor for one in recording.devices] == ["intel"]
    text = terminal.render(traceroof.diagnose(Run(recording, "xpu")))
    assert not re.search(r"CUDA|cuda[A-Z]|\bncu\b|\bwarps?\b", text)


def test_launches_of_an_intel_gpu(tmp_path: Path) -> None:
    """GIVEN many small kernels of an Intel GPU THEN launches are late, in words of Intel's."""
    events: list[dict[str, Any]] = []
    for at in range(400):
        start, same = 1000.0 + 80 * at, {"correlation": at, "External id": at}
        events += [
            {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 9, "tid": 9,
             "ts": start - 60, "dur": 50, "args": {"External id": at}},
            {"ph": "X", "cat": "xpu_runtime", "name": "urEnqueueKernelLaunch", "pid": 9, "tid": 9,
             "ts": start - 50, "dur": 20, "args": same},
            {"ph": "X", "cat": "kernel", "name": "VectorizedElementwiseKernel", "pid": 0, "tid": 7,
             "ts": start, "dur": 5, "args": {"device": 0, "stream": 7} | same},
        ]  # fmt: skip
    path = tmp_path / "xpu.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    found = traceroof.diagnose(Run(read_paths([path]), "xpu"))
    assert found.advice[0].topic == "host-bound-launch"
    said = json.dumps([one.fix for one in found.findings if one.fix])
    commands = json.dumps([one.command for one in found.findings])
    assert not re.search(r"CUDA|\bcuda|hip[A-Z]|\bncu\b|nsys", said + commands)


# --- one damaged byte ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sound", "broken", "read"),
    [
        # Between two events: the event behind it is whole.
        (b",\n", b",\x08", 2000),
        (b",\n", b",x\n", 2000),
        # A bracket lost or too many within an event: that event alone is lost.
        (b'"block":[8,1,1]', b'"block":Z8,1,1]', 1999),
        (b'"block":[8,1,1]', b'"block":[8,1,1]]', 1999),
    ],
)
def test_one_damaged_byte_costs_one_event(
    tmp_path: Path, sound: bytes, broken: bytes, read: int
) -> None:
    """GIVEN 2,000 kernels and one byte damaged in the tenth WHEN read THEN the others are there."""
    event = (
        b'{"ph":"X","name":"k","cat":"kernel","ts":%d,"dur":1,"pid":0,"tid":7,'
        b'"args":{"device":0,"stream":7,"correlation":%d,"block":[8,1,1]}}'
    )
    events = [event % (2 * n, n) for n in range(2000)]
    text = b'{"traceEvents":[\n' + b",\n".join(events) + b"\n]}"
    at = text.index(sound, text.index(b'"correlation":10,'))
    path = tmp_path / "trace.json"
    path.write_bytes(text[:at] + broken + text[at + len(sound) :])
    recording = read_paths([path])
    assert recording.kernels.num_rows == read
    assert any(note.severe for note in recording.notes)
