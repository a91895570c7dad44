"""XLA's traces: planes, lines, kernels with their operators, what is left out."""

from pathlib import Path
from typing import Any

import pytest

import traceroof
from traceroof.core.recording import Run
from traceroof.errors import TraceroofError
from traceroof.ingest.messages import messages
from traceroof.parsers.xla.planes import _DESCRIBED

# The outer message is read field by field; here it is written whole.
_WRITE = messages("tests.xplane", {**_DESCRIBED, "XSpace": "1 planes *XPlane\n2 errors *string"})


class Maker:
    """Writes planes as XLA does: names once, statistics by number."""

    def __init__(self) -> None:
        self.space = _WRITE["XSpace"]()

    def plane(self, name: str, **stats: Any) -> Any:
        plane = self.space.planes.add(name=name.encode())
        for key, value in stats.items():
            self._stat(plane, plane, key, value)
        return plane

    def line(self, plane: Any, number: int, name: str, timestamp_ns: int = 0) -> Any:
        return plane.lines.add(id=number, name=name.encode(), timestamp_ns=timestamp_ns)

    def event(
        self, plane: Any, line: Any, name: str, offset_ps: int, duration_ps: int, /, **stats: Any
    ) -> None:
        known = {entry.value.name: entry.key for entry in plane.event_metadata}
        number = known.get(name.encode(), len(known) + 1)
        if name.encode() not in known:
            entry = plane.event_metadata.add(key=number)
            entry.value.name = name.encode()
        event = line.events.add(metadata_id=number, offset_ps=offset_ps, duration_ps=duration_ps)
        for key, value in stats.items():
            self._stat(plane, event, key, value)

    def _stat(self, plane: Any, owner: Any, key: str, value: Any) -> None:
        stat = owner.stats.add(metadata_id=self._name(plane, key))
        if isinstance(value, int):
            stat.int64_value = value
        else:
            stat.ref_value = self._name(plane, value)

    @staticmethod
    def _name(plane: Any, text: str) -> int:
        for entry in plane.stat_metadata:
            if entry.value.name == text.encode():
                return int(entry.key)
        entry = plane.stat_metadata.add(key=len(plane.stat_metadata) + 1)
        entry.value.name = text.encode()
        return int(entry.key)

    def bytes(self) -> bytes:
        data: bytes = self.space.SerializeToString()
        return data


def _nvidia() -> Maker:
    """One step of two kernels and a copy on an H100, launched from one thread."""
    make = Maker()
    gpu = make.plane(
        "/device:GPU:0", device_vendor="Nvidia", compute_cap_major=9, compute_cap_minor=0,
        core_count=132, memory_size=85_000_000_000, clock_rate=1_980_000,
    )  # fmt: skip
    stream = make.line(gpu, 13, "Stream #13(MemcpyH2D,Kernel)", 1_000)
    details = (
        "regs:40 static_shared:1024 dynamic_shared:512 grid:128,2,1 block:256,1,1 occ_pct:75.0"
    )
    make.event(
        gpu, stream, "fusion_3", 500_499, 2_000_500, kernel_details=details, correlation_id=7,
        hlo_op="fusion.3", hlo_module="jit_step", name="jit(step)/mul",
    )  # fmt: skip
    make.event(gpu, stream, "gemm", 5_000_000, 1_000, kernel_details=details, correlation_id=8)
    copied = "kind_src:pageable kind_dst:device size:4096 dest:0 async:1"
    make.event(gpu, stream, "MemcpyH2D", 9_000_000, 700_000, memcpy_details=copied)
    make.event(gpu, stream, "CudaGraph", 9_900_000, 1_000, cuda_graph_exec_id=5)
    steps = make.line(gpu, 99, "Steps")
    make.event(gpu, steps, "1", 0, 10_000_000)
    host = make.plane("/host:CPU")
    thread = make.line(host, 41, "main/41")
    make.event(host, thread, "train", 0, 3_000_000, step_num=12)
    make.event(host, thread, "$model.py:3 step", 10, 2_000_000)
    make.event(host, thread, "cudaLaunchKernel", 100_000, 5_000, correlation_id=7)
    make.event(host, thread, "cudaLaunchKernel", 4_200_000, 5_000, correlation_id=8)
    return make


def _read(folder: Path, data: bytes) -> Run:
    path = folder / "host.xplane.pb"
    path.write_bytes(data)
    return traceroof.read(path)


def test_properties_of_a_gpu_that_are_no_numbers_are_unknown(tmp_path: Path) -> None:
    make = _nvidia()
    gpu = next(plane for plane in make.space.planes if plane.name.startswith(b"/device"))
    for stat in gpu.stats:
        stat.Clear()
    for number, entry in enumerate(gpu.stat_metadata):
        gpu.stats.add(metadata_id=entry.key, str_value=b"many" if number else b"Nvidia")
    (device,) = _read(tmp_path, make.bytes()).recording.devices
    assert (device.sm_clock_hz, device.sm_count, device.memory_bytes) == (None, None, None)


def test_kernels_copies_and_launches(tmp_path: Path) -> None:
    """GIVEN a made plane WHEN read THEN times are rounded from ps and rows carry their place."""
    run = _read(tmp_path, _nvidia().bytes())
    rows = run.kernels
    assert list(rows.kind) == ["kernel", "kernel", "memcpy"]
    # 1,000 ns of the line and 500.499 ns of the event; 2,000.5 ns round up.
    assert (rows.start_ns[0], rows.duration_ns[0]) == (1_500, 2_001)
    assert (rows.grid_x[0], rows.grid_y[0], rows.block_x[0]) == (128, 2, 256)
    assert (rows.registers_per_thread[0], rows.shared_memory_bytes[0]) == (40, 1536)
    assert rows.theoretical_occupancy_pct[0] == 75.0
    assert (rows.operator[0], rows.module_path[0]) == ("fusion.3", "jit_step")
    assert rows.operator_path[0] == "jit(step) > mul"
    assert (rows.host_launch_ns[0], rows.host_launch_duration_ns[0]) == (100, 5)
    # The step ends at 3 µs; the second launch comes after it.
    assert list(rows.step.isna()) == [False, True, True]
    assert rows.step[0] == "12"
    assert rows.copy_kind[2] == "HtoD (pageable -> device)"
    assert rows.copy_bytes[2] == 4096
    recording = run.recording
    assert recording.devices[0].compute_capability == "9.0"
    assert recording.sources[0].stacks
    assert [str(note) for note in recording.notes] == [
        "graph replays without their kernels: they are in no sum"
    ]
    assert recording.host_calls["name"].to_pylist() == ["cudaLaunchKernel"] * 2


def test_an_activity_without_details_is_noted(tmp_path: Path) -> None:
    """GIVEN a stream's event with the number of a launch and no details of a kernel or copy (the name
    of that statistic was damaged) THEN it is left out, with a note."""
    make = _nvidia()
    gpu = make.space.planes[0]
    make.event(gpu, gpu.lines[0], "gemm", 12_000_000, 1_000, text="regs:40", correlation_id=9)
    run = _read(tmp_path, make.bytes())
    assert len(run.kernels) == 3
    text = "GPU activities without details of a kernel or copy, left out"
    assert text in [note.text for note in run.recording.notes]


def test_a_cut_file_keeps_its_whole_planes(tmp_path: Path) -> None:
    """GIVEN a file that ends inside the host plane WHEN read THEN the kernels stay, with a note."""
    data = _nvidia().bytes()
    run = _read(tmp_path, data[:-20])
    assert len(run.kernels) == 3
    assert any("ends inside a plane" in str(note) for note in run.recording.notes)


def test_garbage_of_the_tracer_is_unknown(tmp_path: Path) -> None:
    """GIVEN registers of two thousand millions WHEN read THEN unknown, and said so."""
    make = Maker()
    gpu = make.plane("/device:GPU:3", device_vendor="AMD", compute_cap_major=9, compute_cap_minor=4)
    line = make.line(gpu, 1, "Stream #1(Kernel)")
    details = (
        "regs:2191500840 static_shared:32462 dynamic_shared:0 grid:8,1,1 block:64,1,1 occ_pct:0"
    )
    make.event(gpu, line, "k", 0, 1_000_000, kernel_details=details)
    run = _read(tmp_path, make.bytes())
    (row,) = run.kernels.to_dict("records")
    assert row["device"] == 3
    assert row["registers_per_thread"] != row["registers_per_thread"]
    assert row["shared_memory_bytes"] != row["shared_memory_bytes"]
    assert row["theoretical_occupancy_pct"] != row["theoretical_occupancy_pct"]


@pytest.mark.parametrize(
    ("planes", "errors", "reason"),
    [
        (["/host:CPU"], [], "no GPU plane"),
        (["/host:CPU", "/device:GPU:0"], [], "no GPU ran a kernel"),
        (["/host:CPU", "/device:TPU:0"], [], "recorded on a TPU"),
        (["/host:CPU"], ["CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"], "INSUFFICIENT_PRIVILEGES"),
        (["/host:CPU"], ["on host-17: CUPTI needs root access"], "insufficient privileges"),
        (["/host:CPU"], ["CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"], "another profiler"),
        (["/host:CPU"], ["--token=s3cret: Dropped 4 events"], "events were dropped"),
        (["/host:CPU"], ["roctracer_enable --token=s3cret"], "the ROCm tracer failed"),
        (["/host:CPU"], ["s3cret"], "a message that traceroof does not know"),
    ],
)
def test_files_without_kernels(
    tmp_path: Path, planes: list[str], errors: list[str], reason: str
) -> None:
    """GIVEN no kernels WHEN read THEN refused with what happened."""
    make = Maker()
    for name in planes:
        make.plane(name)
    make.space.errors.extend(error.encode() for error in errors)
    with pytest.raises(TraceroofError, match="holds no GPU work") as raised:
        _read(tmp_path, make.bytes())
    assert reason in raised.value.message
    # Nothing of the text itself, which may hold anything.
    assert "s3cret" not in str(raised.value)
    assert "host-17" not in str(raised.value)


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("name", "kernels", "kernel_ns", "copies", "copy_ns"),
    [
        # Counted with an independent wire decoder.
        ("jax_conv_mi300x8", 235, 28_137_077, 0, 0),
        ("jax_te_fused_attn_amd", 150, 12_133_585, 0, 0),
        ("TraceLens__jax08_attention_mi300x", 105, 3_845_562, 0, 0),
        ("TraceLens__jax08_elementwise_mi300x", 75, 3_880_724, 0, 0),
        ("TraceLens__jax_conv_minimal_legacy_mi300x", 25, 3_586_493, 53, 889_028),
    ],
)
def test_corpus(
    corpus: Path, name: str, kernels: int, kernel_ns: int, copies: int, copy_ns: int
) -> None:
    """GIVEN real traces WHEN read THEN counts and times, and every kernel has its launch."""
    run = traceroof.read(corpus / "other" / "xplane" / f"{name}.xplane.pb")
    rows = run.kernels
    of_kernels = rows[rows.kind == "kernel"]
    assert (len(of_kernels), int(of_kernels.duration_ns.sum())) == (kernels, kernel_ns)
    of_copies = rows[rows.kind == "memcpy"]
    assert (len(of_copies), int(of_copies.duration_ns.sum())) == (copies, copy_ns)
    assert of_kernels.host_launch_ns.notna().all()
    if copies:
        assert int(of_copies.copy_bytes.sum()) == 34_734_080


@pytest.mark.corpus
def test_a_cpu_trace_of_the_corpus_is_refused(corpus: Path) -> None:
    """GIVEN JAX on a CPU WHEN read THEN it is said that no GPU plane is there."""
    folder = corpus / "other" / "xplane" / "jax_0.10.2_cpu_selfmade"
    with pytest.raises(TraceroofError, match="no GPU plane"):
        traceroof.read(folder / "host.xplane.pb")
