"""What makes a GPU wait has the same names on each vendor's: small traces of CUDA, HIP, SYCL."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import traceroof
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.ingest.detect import read


@dataclass(frozen=True)
class Vendor:
    """The names of a runtime's calls as Kineto records them."""

    category: str
    device: str
    launch: str
    wait: str
    sync: str
    load: str
    malloc: str
    graph: str
    capture: tuple[str, str, str]


VENDORS = {
    "cuda": Vendor(
        "cuda_runtime", "NVIDIA H100 80GB HBM3", "cudaLaunchKernel", "cudaStreamWaitEvent",
        "cudaStreamSynchronize", "cuModuleLoadData", "cudaMalloc", "cudaGraphLaunch",
        ("cudaStreamBeginCapture", "cudaStreamEndCapture", "cudaGraphInstantiate"),
    ),
    "cuda driver": Vendor(
        "cuda_driver", "NVIDIA H100 80GB HBM3", "cuLaunchKernelEx", "cuStreamWaitEvent",
        "cuStreamSynchronize", "cuModuleLoadDataEx", "cuMemAlloc_v2", "cuGraphLaunch",
        ("cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags"),
    ),
    "hip": Vendor(
        "cuda_runtime", "AMD Instinct MI300X", "hipLaunchKernel", "hipStreamWaitEvent",
        "hipStreamSynchronize", "hipModuleLoadData", "hipMalloc", "hipGraphLaunch",
        ("hipStreamBeginCapture", "hipStreamEndCapture", "hipGraphInstantiate"),
    ),
    "hip modules": Vendor(
        "cuda_runtime", "AMD Instinct MI300X", "hipExtModuleLaunchKernel", "hipStreamWaitEvent",
        "hipDeviceSynchronize", "hipModuleLoad", "hipExtMallocWithFlags", "hipGraphLaunch",
        ("hipStreamBeginCapture", "hipStreamEndCapture", "hipGraphInstantiateWithFlags"),
    ),
    "sycl": Vendor(
        "xpu_runtime", "Intel(R) Data Center GPU Max 1550", "urEnqueueKernelLaunch",
        "urEnqueueEventsWaitWithBarrier", "urQueueFinish", "urProgramBuildExp", "urUSMDeviceAlloc",
        "", ("", "", ""),
    ),
}  # fmt: skip
EACH = pytest.mark.parametrize("vendor", VENDORS.values(), ids=list(VENDORS))
WITH_GRAPHS = [one for one in VENDORS.values() if one.graph]


@dataclass
class Trace:
    """Events of one process on one GPU. Times in us."""

    vendor: Vendor
    events: list[dict[str, Any]] = field(default_factory=list)
    number: int = 100

    def call(self, name: str, start: int, end: int) -> int:
        self.number += 1
        self._event(self.vendor.category, name, start, end, 5000, 5000, correlation=self.number)
        return self.number

    def kernel(
        self, start: int, end: int, launch: int, *, call: int = 4, stream: int = 7, name: str = "k"
    ) -> None:
        """A kernel, and the call that launched it, ``call`` long."""
        self.kernel_of(
            self.call(self.vendor.launch, launch, launch + call), start, end, stream, name
        )

    def kernel_of(
        self, number: int, start: int, end: int, stream: int = 7, name: str = "k"
    ) -> None:
        self._event(
            "kernel", f"{name}_gemm_bf16", start, end, 0, stream, correlation=number, device=0,
            stream=stream, grid=[264 * 256, 1, 1], block=[256, 1, 1],
        )  # fmt: skip

    def _event(
        self, category: str, name: str, start: int, end: int, pid: int, tid: int, **more: Any
    ) -> None:
        self.events.append(
            {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": start,
             "dur": end - start, "args": more}
        )  # fmt: skip

    def diagnosed(self, folder: Path) -> Diagnosis:
        return traceroof.diagnose(self.written(folder))

    def written(self, folder: Path) -> Path:
        device = {"id": 0, "name": self.vendor.device}
        path = folder / "trace.json"
        content = {"deviceProperties": [device], "traceEvents": self.events}
        path.write_text(json.dumps(content), "utf-8")
        return path


def first(found: Diagnosis) -> str:
    return found.advice[0].topic if found.advice else ""


def topics(found: Diagnosis) -> set[str]:
    return {one.topic for one in found.advice}


@EACH
def test_launches_without_records(vendor: Vendor, tmp_path: Path) -> None:
    """GIVEN 400 launches of which every tenth has a record THEN that comes first, and the idle time
    between is nobody's fault."""
    trace = Trace(vendor)
    for at in range(400):
        number = trace.call(vendor.launch, 100 * at, 100 * at + 4)
        if at % 10 == 0:
            trace.kernel_of(number, 100 * at + 8, 100 * at + 98)
    found = trace.diagnosed(tmp_path)
    assert first(found) == "lost-records"
    assert not topics(found) & {"host-bound-launch", "host-bound-other", "idle", "dependency-wait"}


@pytest.mark.parametrize("vendor", WITH_GRAPHS, ids=lambda one: one.launch)
def test_graphs_without_nodes(vendor: Vendor, tmp_path: Path) -> None:
    """GIVEN 400 replays of a graph of which every tenth has its nodes THEN records were lost."""
    trace = Trace(vendor)
    for at in range(400):
        number = trace.call(vendor.graph, 100 * at, 100 * at + 4)
        if at % 10 == 0:
            trace.kernel_of(number, 100 * at + 8, 100 * at + 50)
            trace.kernel_of(number, 100 * at + 51, 100 * at + 98)
    found = trace.diagnosed(tmp_path)
    assert first(found) == "lost-records"
    assert "host-bound-launch" not in topics(found)


@EACH
def test_launches_that_block(vendor: Vendor, tmp_path: Path) -> None:
    """GIVEN launch calls that return after their kernel THEN that comes before everything."""
    trace = Trace(vendor)
    for at in range(200):
        trace.kernel(150 * at + 10, 150 * at + 110, launch=150 * at, call=115)
    assert first(trace.diagnosed(tmp_path)) == "blocking-launches"


@EACH
def test_work_behind_an_event(vendor: Vendor, tmp_path: Path) -> None:
    """GIVEN twenty times a kernel that was launched in time and waits 4 ms for an event THEN the host
    is not late: 80 ms are dependencies."""
    trace = Trace(vendor)
    for at in range(20):
        start = 5_000 * at
        trace.kernel(start + 10, start + 1_000, launch=start)
        trace.call(vendor.wait, start + 20, start + 22)
        trace.kernel(start + 4_990, start + 4_999, launch=start + 30, stream=20, name="after")
    found = trace.diagnosed(tmp_path)
    assert first(found) == "dependency-wait"
    assert (found.advice[0].bound_ns or 0) == pytest.approx(20 * 3_990e3, rel=0.01)
    assert not topics(found) & {"host-bound-launch", "host-bound-other", "sync"}


@EACH
def test_a_first_launch_that_loads_code(vendor: Vendor, tmp_path: Path) -> None:
    """GIVEN a process whose first launch of a kernel takes 400 ms, and 300 quick ones after it THEN
    cold start, as time that passes once."""
    trace = Trace(vendor)
    trace.call(vendor.malloc, 100, 5_100)
    trace.call(vendor.load, 6_000, 56_000)
    trace.kernel(57_010, 57_100, launch=57_000)
    trace.kernel(460_000, 460_500, launch=58_000, call=400_000, name="slow")
    for at in range(300):
        trace.kernel(461_000 + 500 * at, 461_490 + 500 * at, launch=460_600 + 20 * at, name="slow")
    found = trace.diagnosed(tmp_path)
    assert first(found) == "cold-start"
    assert found.advice[0].once
    assert (found.advice[0].bound_ns or 0) == pytest.approx(402e6, rel=0.02)
    assert "host-bound-other" not in topics(found)


@pytest.mark.parametrize("vendor", WITH_GRAPHS, ids=lambda one: one.launch)
def test_capturing_a_graph_is_set_up(vendor: Vendor, tmp_path: Path) -> None:
    """GIVEN a graph that is captured and instantiated for 300 ms, then replayed 100 times THEN cold
    start; launches within the capture lost no record."""
    trace = Trace(vendor)
    trace.kernel(10, 100, launch=0)
    begin, end, instantiate = vendor.capture
    trace.call(begin, 200, 210)
    for at in range(50):
        trace.call(vendor.launch, 1_000 + 100 * at, 1_004 + 100 * at)
    trace.call(end, 10_000, 10_100)
    trace.call(instantiate, 10_200, 300_000)
    for at in range(100):
        number = trace.call(vendor.graph, 300_100 + 1_000 * at, 300_110 + 1_000 * at)
        for node in range(5):
            trace.kernel_of(
                number, 300_120 + 1_000 * at + 195 * node, 300_310 + 1_000 * at + 195 * node
            )
    found = trace.diagnosed(tmp_path)
    assert first(found) == "cold-start"
    assert "lost-records" not in topics(found)


@EACH
def test_waits_for_the_gpu_in_a_loop(vendor: Vendor, tmp_path: Path) -> None:
    """GIVEN kernels of 200 us, each waited for, with the next launch 150 us after the wait THEN the
    wait is named."""
    trace = Trace(vendor)
    for at in range(100):
        start = 400 * at
        trace.kernel(start + 10, start + 210, launch=start)
        trace.call(vendor.sync, start + 20, start + 212)
    assert first(trace.diagnosed(tmp_path)) == "sync"


@EACH
def test_strict_refuses_lost_records(vendor: Vendor, tmp_path: Path) -> None:
    """GIVEN every second launch without a record THEN a note that --strict fails on."""
    trace = Trace(vendor)
    for at in range(40):
        number = trace.call(vendor.launch, 100 * at, 100 * at + 4)
        if at % 2 == 0:
            trace.kernel_of(number, 100 * at + 8, 100 * at + 98)
    notes = read([trace.written(tmp_path)]).notes
    assert [note.count for note in notes if note.severe and "without a record" in note.text] == [19]
