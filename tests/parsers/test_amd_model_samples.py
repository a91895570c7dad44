"""The samples for rocprofv3 and rocprof-compute: every derived figure is the model's own."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.parsers.amd_fixtures import claims, kernels, notes, raw, read
from traceroof.core.kernel_table import launches, total_time_ns


@pytest.fixture(scope="module")
def model(root: Path) -> Iterator[ModuleType]:
    """The script that makes the samples."""
    spec = importlib.util.spec_from_file_location("make_amd", root / "sample_traces/make_amd.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_amd"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["make_amd"]


def test_the_folder_of_all_samples_is_nobodys(samples: Path) -> None:
    assert claims(samples) == {}
    assert claims(samples / "rocprofv3") == {"rocprofv3-csv": 2}
    assert claims(samples / "rocprof_compute") == {"rocprof-compute": 2}


def test_rocprofv3_sample(samples: Path, model: ModuleType) -> None:
    recording = read(samples / "rocprofv3")
    frame = kernels(recording)
    assert recording.time_basis == "timeline"
    assert notes(recording) == []
    assert len(frame) == model.STEPS * len(model.KERNELS)
    each = [kernel.duration_ns(model.MI300X) for kernel in model.KERNELS]
    assert total_time_ns(recording.kernels) == model.STEPS * sum(each)
    assert launches(recording.kernels, "memcpy") == 1
    assert recording.spans.num_rows == model.STEPS
    assert frame["host_launch_ns"].notna().all()
    for kernel in model.KERNELS:
        mine = frame[frame["kernel_name"] == kernel.name]
        assert len(mine) == model.STEPS
        row = mine.iloc[0]
        spent = kernel.duration_ns(model.MI300X) / 1e9
        assert (row["grid_x"], row["grid_y"], row["grid_z"]) == kernel.blocks
        assert row["dram_read_bytes"] == kernel.read
        assert row["dram_write_bytes"] == kernel.written
        assert row["l2_hit_pct"] == pytest.approx(100 * kernel.l2_hit, abs=0.01)
        assert row["flop_tensor"] == kernel.matrix_flop
        share = 100 * kernel.matrix_flop / spent / model.MI300X.matrix_flops
        assert row["pipe_tensor_pct"] == pytest.approx(share, abs=0.01)
        assert row["wait_dependency"] == pytest.approx(kernel.waits[0], abs=1e-4)
        assert row["wait_issue"] == pytest.approx(kernel.waits[1], abs=1e-4)
        assert row["achieved_occupancy_pct"] == pytest.approx(100 * kernel.occupancy, abs=0.01)
        assert row["shared_wavefronts"] == kernel.waves * kernel.lds_cycles
        if kernel.lds_cycles:
            lost = row["shared_conflicts"] / row["shared_wavefronts"]
            assert lost == pytest.approx(kernel.conflicts, abs=1e-4)
    bandwidth = raw(recording, "HBM bandwidth of peak")
    moved = [
        100 * (kernel.read + kernel.written) / kernel.duration_ns(model.MI300X) / 5300
        for kernel in model.KERNELS
    ]
    assert bandwidth == pytest.approx(moved * model.STEPS, rel=1e-6)


def test_rocprof_compute_sample(samples: Path, model: ModuleType) -> None:
    recording = read(samples / "rocprof_compute")
    frame = kernels(recording)
    assert recording.time_basis == "counter-tool"
    assert notes(recording) == []
    assert frame["kernel_name"].tolist() == [kernel.name for kernel in model.KERNELS]
    assert frame["duration_ns"].tolist() == [
        kernel.duration_ns(model.MI210) for kernel in model.KERNELS
    ]
    assert frame["dram_read_bytes"].tolist() == [kernel.read for kernel in model.KERNELS]
    assert frame["flop_tensor"].tolist() == [kernel.matrix_flop for kernel in model.KERNELS]
    # Half of the vector instructions are FMAs: 64 lanes x 2 x instructions / 2.
    assert frame["flop_fp32"].tolist() == [
        64 * 2 * (kernel.vector_flop // 64 // 2) for kernel in model.KERNELS
    ]
    occupancy = [100 * kernel.occupancy for kernel in model.KERNELS]
    assert frame["achieved_occupancy_pct"].tolist() == pytest.approx(occupancy, abs=0.01)
    assert frame["cu_busy_pct"].tolist() == pytest.approx([95.0] * 4, abs=0.01)
    assert set(frame["peak_dram_bytes_per_s"]) == {1638.4e9}
    assert set(frame["calibrated_dram_bytes_per_s"]) == {1400e9}
    gemm = frame.iloc[0]
    # 512 registers a wave, 64 KiB of LDS: one wave a SIMD, one workgroup a compute unit.
    assert gemm["theoretical_occupancy_pct"] == 12.5
    assert gemm["occupancy_limit_registers"] == gemm["occupancy_limit_shared_memory"] == 1
    assert gemm["waves_per_sm"] == pytest.approx(256 / 104)
