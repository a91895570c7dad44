"""The sample traces are what their scripts write, and each is read by exactly one parser."""

import subprocess
import sys
from pathlib import Path

import pytest

import traceroof
from traceroof.ingest.decompress import head
from traceroof.parser import HEAD_BYTES
from traceroof.plugins import parsers

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = sorted((ROOT / "sample_traces").glob("make_*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_samples_are_what_their_script_writes(script: Path, tmp_path: Path) -> None:
    copy = tmp_path / script.name
    copy.write_text(script.read_text("utf-8"), "utf-8")
    subprocess.run([sys.executable, str(copy)], check=True, cwd=tmp_path)
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path != copy]
    assert written
    for path in written:
        kept = ROOT / "sample_traces" / path.relative_to(tmp_path)
        assert path.read_bytes() == kept.read_bytes(), kept


def test_every_sample_file_comes_from_a_script(tmp_path: Path) -> None:
    folders = {path.name for path in (ROOT / "sample_traces").iterdir() if path.is_dir()}
    told = (ROOT / "sample_traces/README.md").read_text("utf-8")
    for folder in folders - {"__pycache__"}:
        assert f"`{folder}/`" in told


def test_a_sample_is_recognised_by_one_parser(samples: Path) -> None:
    for path in sorted((samples / "nsight_compute").iterdir()):
        start = head(path, HEAD_BYTES)
        sure = [one.name for one in parsers() if one.recognises(start, path) == 2]
        assert sure == ["nsight-compute-csv"], path


@pytest.mark.parametrize("page", ["raw", "details"])
def test_the_layer_shows_each_class_of_bottleneck(page: str, samples: Path) -> None:
    diagnosis = traceroof.diagnose(samples / f"nsight_compute/transformer_layer.{page}.csv")
    assert {kernel.primary_class for kernel in diagnosis.kernels} == {
        "dram-bound", "l2-bound", "l1-bound", "compute-bound", "memory-leaning",
        "compute-leaning", "balanced", "latency-bound", "launch-bound", "communication",
    }  # fmt: skip


def test_pages_of_one_run_say_the_same(samples: Path) -> None:
    raw, details, selection = (
        traceroof.diagnose(samples / f"nsight_compute/transformer_layer.{page}.csv")
        for page in ("raw", "details", "metrics")
    )
    assert raw.totals.launches == details.totals.launches == selection.totals.launches == 17
    assert raw.totals.kernel_time_ns == details.totals.kernel_time_ns
    assert raw.totals.kernel_time_ns == selection.totals.kernel_time_ns
    assert [device.name for device in raw.devices] == ["NVIDIA A100-SXM4-80GB"]
    ours = {(one.kernel, one.time_ns): one.primary_class for one in raw.kernels}
    for kernel in details.kernels:
        assert ours[kernel.kernel, kernel.time_ns] == kernel.primary_class


def test_the_vendor_agrees_on_the_details_page(samples: Path) -> None:
    diagnosis = traceroof.diagnose(samples / "nsight_compute/transformer_layer.details.csv")
    apart = [one for one in diagnosis.kernels if one.disagreements]
    # NVIDIA's rule does not know that a kernel talks to other GPUs.
    assert [one.primary_class for one in apart] == ["communication"]
