"""What any version of a kernel must still do, each figure by hand."""

from typing import Any

import pytest

from tests.kernels.test_derived_metrics import value
from traceroof.hardware.device_lookup import fastest, find, of_capability, printed_in


def test_bytes_that_must_move_once() -> None:
    """Read: what threads asked for, at most what device memory delivered; written: likewise."""
    counted: dict[str, Any] = {
        "global_load_sectors": 1000.0, "load_bytes_per_sector": 8.0, "dram_read_bytes": 32_000.0,
        "global_store_sectors": 1000.0, "store_bytes_per_sector": 32.0, "dram_write_bytes": 10_000.0,
    }  # fmt: skip
    assert value("used_load_bytes", **counted) == 8_000.0
    assert value("compulsory_bytes", **counted) == 8_000.0 + 10_000.0
    # Writes that device memory did not count may have stayed in L2.
    del counted["dram_write_bytes"]
    assert value("compulsory_bytes", **counted) == 8_000.0
    # Half of the 32,000 bytes stored are taken to have left it, unless device memory was counted whole.
    assert value("carried_bytes", **counted) == 8_000.0 + 16_000.0
    # Of 320 MB, the 40 MB of an A100's L2 hold 40: between 280 and 320 leave it.
    stored = {**counted, "global_store_sectors": 10e6}
    assert value("carried_bytes", "A100-SXM4-40GB", **stored) == 8_000.0 + (640e6 - 40 * 2**20) / 2
    assert value("carried_bytes", dram_bytes=40_000.0, **counted) == 8_000.0


def test_bytes_that_nobody_counted_may_come_from_a_cache() -> None:
    """GIVEN loads of 8.6 GB, as a product without tiles makes, and no count of device memory THEN
    nothing says how many bytes had to move."""
    loads: dict[str, Any] = {"global_load_requests": 67_108_864.0, "warp_size": 32.0}
    assert value("used_load_bytes", **loads) == 67_108_864.0 * 128
    assert value("compulsory_bytes", **loads) is None


def test_geforce_adds_up_in_fp32_at_half_of_what_the_counter_shows() -> None:
    """A multiprocessor does 512 operations a clock with FP32 accumulation on GeForce: RTX 5090, 170 x
    2.407 GHz x 512 = 209.5 TFLOP/s. On the professional card of the chip it does 1,024."""
    bf16: dict[str, Any] = {"tensor_dtype": "bf16", "pipe_tensor_pct": 32.0}
    assert value("tensor_ceiling_pct", "RTX-5090", **bf16) == 50.0
    assert value("tensor_pct", "RTX-5090", **bf16) == 64.0
    for name in ("RTX-PRO-6000-WS", "A100-SXM4-80GB", "L40S"):
        assert value("tensor_ceiling_pct", name, **bf16) == 100.0
    for one in ("RTX-4090", "RTX-3090", "RTX-2080-Ti"):
        assert value("tensor_ceiling_pct", one, **bf16) == 50.0
    # FP16 accumulation has the full rate; nothing is known of a type without a name.
    assert value("tensor_ceiling_pct", "RTX-5090", tensor_dtype="fp16") == 100.0


def test_half_of_the_counter_is_all_of_the_compute_use() -> None:
    busy: dict[str, Any] = {
        "tensor_dtype": "bf16", "pipe_tensor_pct": 31.0, "sm_throughput_pct": 32.1,
    }  # fmt: skip
    assert value("compute_pct", "RTX-5090", **busy) == pytest.approx(64.2)
    assert value("compute_pct", "A100-SXM4-80GB", **busy) == 32.1
    # Another pipe is the busiest: its counter is right.
    assert value("compute_pct", "RTX-5090", **{**busy, "pipe_tensor_pct": 10.0}) == 32.1


def test_bytes_used_without_their_share_of_the_sectors() -> None:
    # 32 sectors a request: 4 bytes a thread are 128 a request, as sectors would be 1,024.
    scattered: dict[str, Any] = {"global_store_requests": 10.0, "global_store_sectors": 320.0}
    assert value("used_store_bytes", **scattered) == 1280.0
    # One sector a request is one word.
    assert value("used_store_bytes", **{**scattered, "global_store_sectors": 10.0}) == 320.0


def test_one_word_of_one_thread_is_no_waste() -> None:
    one: dict[str, Any] = {"store_bytes_per_sector": 4.0, "store_sectors_per_request": 1.0}
    assert value("store_wasted_pct", **one) == 0.0
    assert value("store_wasted_pct", **{**one, "store_sectors_per_request": 8.0}) == 87.5


def test_loads_and_stores_are_weighed_by_their_sectors() -> None:
    counted: dict[str, Any] = {
        "load_sectors_per_request": 4.0, "global_load_sectors": 1000.0,
        "store_sectors_per_request": 32.0, "global_store_sectors": 3000.0,
    }  # fmt: skip
    assert value("load_wasted_pct", **counted) == 0.0
    assert value("store_wasted_pct", **counted) == 50.0
    assert value("global_sectors_wasted_pct", **counted) == 37.5


def test_what_blocks_of_a_size_let_reside() -> None:
    # 1,024 threads are 32 warps, of which one block fits into the 48 of compute capability 8.9.
    launch: dict[str, Any] = {"block_x": 1024, "block_y": 1, "block_z": 1}
    found = value("block_occupancy_pct", "RTX-4090", **launch)
    assert found == pytest.approx(100 * 32 / 48)
    assert value("block_occupancy_pct", "A100-SXM4-80GB", **launch) == 100.0
    assert value("block_occupancy_pct", warp_slots=48.0, **launch) == pytest.approx(
        66.667, abs=0.01
    )


def test_a_gpu_without_a_name_is_as_fast_as_the_fastest_of_its_capability() -> None:
    assert fastest("8.9")[0] == 1008e9  # RTX 4090
    assert fastest("8.9")[1] == 91.6e12  # L40S
    several = of_capability("8.9")
    assert several is not None
    assert several.dram_bandwidth_bytes_per_s is None
    assert several.is_several
    # All V100 have 900 GB/s.
    volta = of_capability("7.0")
    assert volta is not None
    assert volta.dram_bandwidth_bytes_per_s == 900e9
    assert of_capability("1.3") is None


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("device: NVIDIA GeForce RTX 5070 (sm_120), 48 SMs, 2.625 GHz", "NVIDIA GeForce RTX 5070"),
        ("Using GPU 0: Tesla T4", "Tesla T4"),
        ("NVIDIA driver 550.54 loaded", None),
        ("RTX cores are a marketing word", None),
    ],
)
def test_the_gpu_in_a_line_of_program_output(line: str, name: str | None) -> None:
    assert printed_in(line) == name
    if name:
        assert find(name) is not None


def test_operations_of_a_product_by_what_it_loads() -> None:
    """2048 x 2048 x 2048, one thread a result: two values a multiply-add, 17.18 GFLOP."""
    counted: dict[str, Any] = {
        "kernel_name": "gemm(const float *, const float *, float *)",
        "grid_x": 64, "grid_y": 64, "grid_z": 1, "block_x": 32, "block_y": 32, "block_z": 1,
        "global_load_requests": 536_870_912.0, "global_load_sectors": 1_342_177_280.0,
        "load_sectors_per_request": 2.5, "global_store_sectors": 524_288.0,
    }  # fmt: skip
    assert value("product_flops", **counted) == 2 * 2048.0**3
    # With tiles of 32 x 32 in shared memory each value is loaded by one block in 32.
    tiled = {**counted, "load_sectors_per_request": 4.0, "global_load_requests": 16_777_216.0,
             "global_load_sectors": 67_108_864.0}  # fmt: skip
    assert value("product_flops", **tiled) == 2 * 2048.0**3
    # Eight results a thread and strided stores, 8 of 32 bytes of each sector: 4,194,304 results all
    # the same (a register-blocked kernel on an RTX 5070).
    blocked = {**tiled, "grid_x": 32, "grid_y": 32, "block_x": 16, "block_y": 16,
               "global_load_sectors": 33_554_432.0, "global_store_sectors": 2_097_152.0,
               "global_store_requests": 131_072.0}  # fmt: skip
    assert value("product_flops", **blocked) == 2 * 2048.0**3
    # Four words at a time, loaded and stored.
    vectors = {**blocked, "load_sectors_per_request": 16.0, "global_store_sectors": 524_288.0,
               "global_store_requests": 32_768.0}  # fmt: skip
    assert value("product_flops", **vectors) == 2 * 2048.0**3
    # 17.18 GFLOP in 1 ms are 17.18 TFLOP/s of the 30.9 of an RTX 5070.
    assert value("product_flop_pct", "RTX-5070", **counted) == pytest.approx(55.6, abs=0.1)
