"""The version of the driver: read where a file has it, kept in the store, another machine's sign."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.sides import A100, one_run, side
from traceroof import ingest, read
from traceroof.compare import compare
from traceroof.core.recording import Recording
from traceroof.store import Store


def recording_of(path: Path) -> Recording:
    return read(path).recording


def trace(folder: Path, **metadata: Any) -> Path:
    event = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 5,
             "args": {"device": 0, "stream": 7, "correlation": 1}}  # fmt: skip
    device = {"id": 0, "name": "NVIDIA H100", "computeMajor": 9, "computeMinor": 0, "numSms": 132}
    path = folder / "trace.json"
    path.write_text(
        json.dumps(
            {"schemaVersion": 1, "deviceProperties": [device], **metadata, "traceEvents": [event]}
        )
    )
    return path


@pytest.mark.parametrize(
    ("metadata", "driver"),
    [
        # cudaDriverGetVersion: 1000 x major + 10 x minor.
        ({"cuda_driver_version": 13000, "cuda_runtime_version": 12090}, "CUDA 13.0"),
        ({"cuda_driver_version": 12040}, "CUDA 12.4"),
        # hipDriverGetVersion: major x 10^7 + minor x 10^5 + patch.
        ({"hip_driver_version": 70253211}, "HIP 7.2.53211"),
        ({"cuda_runtime_version": 12090}, None),
        ({"cuda_driver_version": 0}, None),
        ({"cuda_driver_version": "n/a"}, None),
        ({"cuda_driver_version": -5, "hip_driver_version": None}, None),
    ],
)
def test_torch_traces_say_it(tmp_path: Path, metadata: dict[str, Any], driver: str | None) -> None:
    (device,) = recording_of(trace(tmp_path, **metadata)).devices
    assert device.driver == driver


def sysinfo(samples: Path, folder: Path, **values: str) -> Path:
    """A copy of the sample profile folder with other values in its sysinfo.csv."""
    import csv
    import shutil

    copy = folder / "profile"
    shutil.copytree(samples / "rocprof_compute/MI210", copy)
    names, cells = list(csv.reader((copy / "sysinfo.csv").read_text().splitlines()))
    fields = {**dict(zip(names, cells, strict=True)), **values}
    with (copy / "sysinfo.csv").open("w", newline="") as file:
        csv.writer(file).writerows([list(fields), list(fields.values())])
    return copy


@pytest.mark.parametrize(
    ("values", "driver"),
    [
        ({"rocm_version": "6.2.4", "amd_gpu_kernel_version": ""}, "ROCm 6.2.4"),
        # The kernel module's own version goes before that of the release.
        ({"rocm_version": "6.2.4", "amd_gpu_kernel_version": "6.8.5"}, "amdgpu 6.8.5"),
        ({"rocm_version": "", "amd_gpu_kernel_version": "N/A"}, None),
    ],
)
def test_profile_folders_of_amd_say_it(
    samples: Path, tmp_path: Path, values: dict[str, str], driver: str | None
) -> None:
    (device,) = recording_of(sysinfo(samples, tmp_path, **values)).devices
    assert device.driver == driver


def test_the_store_keeps_it(tmp_path: Path) -> None:
    run = ingest([trace(tmp_path, cuda_driver_version=12040)], store=tmp_path / "store")
    (device,) = Store.open(tmp_path / "store").get(run.id).recording.devices
    assert device.driver == "CUDA 12.4"


def test_another_driver_keeps_times_apart() -> None:
    old, new = (
        side([one_run(device=replace(A100, driver=driver))])
        for driver in ("CUDA 12.4", "CUDA 13.0")
    )
    made = compare(old, new)
    (difference,) = made.differences
    assert str(difference) == "driver: CUDA 12.4 → CUDA 13.0"
    assert difference.blocks
    assert made.verdict == "not-comparable"
    assert compare(old, new, force=True).compared
    # Not recorded on one side: said, no obstacle.
    (said,) = compare(side([one_run()]), new).differences
    assert (said.what, said.base, said.blocks) == ("driver", None, False)


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("name", "driver"),
    [
        ("torch/kineto_docs_2026_cuda13_h100_unit.json", "CUDA 13.0"),
        ("torch/tracelens_b200_eager_vllm_moe.json.gz", "CUDA 13.0"),
        ("torch/tracelens_mi300_ddp_resnet18.json.gz", "HIP 7.2.53211"),
        # Elsewhere in this file the same number in words: "6.4.43483".
        ("torch/tracelens_mi300_Qwen1.5-0.5B.json.gz", "HIP 6.4.43483"),
        ("torch/hta_trace_diff_control_a100.json.gz", None),
        ("amd/vcopy_MI350", "ROCm 6.5.0-831"),
        ("amd/Axes1_mi200", "ROCm 5.1.3-66"),
        ("amd/bmm1_MI300X_A1", "ROCm 7.1.0"),
        ("pair", None),
    ],
)
def test_real_files(corpus: Path, name: str, driver: str | None) -> None:
    recording = recording_of(corpus / name)
    # Of a timeline summary without a GPU the counters beside it name the device.
    beside = recording.counters.devices if recording.counters else ()
    assert {one.driver for one in (*recording.devices, *beside)} == {driver}
