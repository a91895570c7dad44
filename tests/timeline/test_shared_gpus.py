"""One GPU is one timeline where files show that it is one: by uuid, or machine and number there.

Two processes in turn, ten launches of 90 us each, every 200 us: busy 1.8 ms of 1.99 ms together.
"""

import json
from pathlib import Path
from typing import Any

import pytest

import traceroof
from tests.parsers.amd_writers import rocprofv3_json
from tests.parsers.nsys_fixtures import Writer

US = 1_000
START = 1_000 * US
TOGETHER = (1_800 * US, 1_990 * US)
ALONE = (900 * US, 1_890 * US)


def times(second: int) -> list[tuple[int, int]]:
    """When the kernels of the first (0) or second (1) process run."""
    begins = [START + at * 200 * US + second * 100 * US for at in range(10)]
    return [(begin, begin + 90 * US) for begin in begins]


def gpus(paths: list[Path], combine: Any = "auto") -> list[tuple[int, int]]:
    """Busy time and span of each timeline."""
    run = traceroof.read(paths, combine=combine)
    found = traceroof.diagnose(run).to_dict()["timelines"]
    return [(one["busy_ns"], one["span_ns"]) for one in found]


def export(path: Path, *processes: tuple[int, int, int], uuid: str = "", **cuda: Any) -> Path:
    """An export of Nsight Systems. processes: (pid, device, which times)."""
    writer = Writer(path)
    for number in sorted({device for _, device, _ in processes}):
        told = {"uuid": f"{uuid}{number}"} if uuid else {}
        writer.gpu(id=number, cuDevice=number, busLocation=f"0000:{number}b:00.0", **told)
    for pid, device, second in processes:
        for at, (start, end) in enumerate(times(second)):
            number = (1 << 48) | (pid << 24)
            writer.kernel("k", start, end, pid + at, globalPid=number, deviceId=device)
        if cuda:
            own = {name.replace("own", "uuid"): value[second] for name, value in cuda.items()}
            writer.add("TARGET_INFO_CUDA_DEVICE", pid=pid, cudaId=device, gpuId=device, **own)
    writer.close()
    return path


@pytest.mark.parametrize("table", [{}, {"numMultiprocessors": (132, 132)}])
def test_two_processes_of_one_export(tmp_path: Path, table: dict[str, Any]) -> None:
    """GIVEN two processes on the one GPU of a machine THEN one timeline, nearly always busy."""
    path = export(tmp_path / "a.sqlite", (100, 0, 0), (200, 0, 1), uuid="u", **table)
    assert gpus([path]) == [TOGETHER]


def test_two_processes_on_two_gpus(tmp_path: Path) -> None:
    path = export(
        tmp_path / "a.sqlite", (100, 0, 0), (200, 1, 1), uuid="u", numMultiprocessors=(132, 132)
    )
    assert gpus([path]) == [ALONE, ALONE]


def test_two_exports_of_one_gpu(tmp_path: Path) -> None:
    """GIVEN an export a rank with one uuid THEN one GPU; with two, or none, two."""
    one = export(tmp_path / "r0.sqlite", (100, 0, 0), uuid="u")
    assert gpus([one, export(tmp_path / "r1.sqlite", (200, 0, 1), uuid="u")]) == [TOGETHER]
    assert gpus([one, export(tmp_path / "r2.sqlite", (200, 0, 1), uuid="v")]) == [ALONE, ALONE]
    assert gpus([one, export(tmp_path / "r3.sqlite", (200, 0, 1))]) == [ALONE, ALONE]


@pytest.mark.parametrize(
    ("cuda", "expected"),
    [
        ({"numMultiprocessors": (16, 16)}, [ALONE, ALONE]),
        ({"own": ("MIG-1", "MIG-2")}, [ALONE, ALONE]),
        ({"own": ("MIG-1", "MIG-1")}, [TOGETHER]),
    ],
)
def test_slices_of_one_gpu(
    tmp_path: Path, cuda: dict[str, Any], expected: list[tuple[int, int]]
) -> None:
    """GIVEN two processes on MIG slices of one GPU THEN one timeline only for one slice."""
    path = export(tmp_path / "a.sqlite", (100, 0, 0), (200, 0, 1), uuid="u", **cuda)
    assert gpus([path]) == expected


def test_recordings_of_one_gpu_at_different_times(tmp_path: Path) -> None:
    """GIVEN one GPU recorded twice, a second apart THEN the time between is no idle time."""
    first = export(tmp_path / "a.sqlite", (100, 0, 0), uuid="u")
    writer = Writer(tmp_path / "b.sqlite")
    writer.gpu(uuid="u0")
    for at, (start, end) in enumerate(times(0)):
        later = 10**9
        writer.kernel(
            "other", start + later, end + later, at + 1, globalPid=(1 << 48) | (200 << 24)
        )
    writer.close()
    found = gpus([first, tmp_path / "b.sqlite"], "ranks")
    assert found == [ALONE, ALONE]


@pytest.mark.parametrize(
    ("machines", "uids", "expected"),
    [
        (("host", "host"), (11, 11), [TOGETHER]),
        (("host", "host"), (11, 12), [ALONE, ALONE]),
        (("host", "other"), (11, 11), [ALONE, ALONE]),
        (("host", "host"), (0, 0), [ALONE, ALONE]),
    ],
)
def test_two_documents_of_rocprofv3(
    tmp_path: Path, machines: tuple[str, str], uids: tuple[int, int], expected: list[Any]
) -> None:
    """GIVEN two processes' JSON in HOST/PID folders THEN one GPU by the machine and Gpu_Id."""
    paths = []
    for second, (machine, uid) in enumerate(zip(machines, uids, strict=True)):
        folder = tmp_path / f"{second}" / machine
        folder.mkdir(parents=True)
        path = rocprofv3_json(folder, [("k", start, end) for start, end in times(second)])
        document = json.loads(path.read_text())
        (tool,) = document["rocprofiler-sdk-tool"]
        tool["metadata"]["pid"] = 100 + second
        tool["agents"][0]["gpu_id"] = uid
        path.write_text(json.dumps(document))
        paths.append(path)
    assert gpus(paths) == expected
