"""Rules on operators as a user meets them: whole diagnoses of made timelines on an A100 80 GB
(312 TFLOP/s in FP16, 2,039 GB/s), alarms where something is wrong and none where nothing is."""

import json
from typing import Any

import pytest

from tests.runs import recording
from traceroof.core.recording import DeviceInfo
from traceroof.diagnosis.diagnose import diagnose
from traceroof.diagnosis.diagnosis import Diagnosis

A100 = DeviceInfo(name="NVIDIA A100-SXM4-80GB", index=0, sm_count=108)
GEMM = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn"
HALF = "c10::Half"


def launches(
    kernel: str, operator: str, shapes: list[Any], us: float, count: int = 20, **more: Any
) -> dict[str, Any]:
    one = {
        "kernel_name": kernel,
        "operator": operator,
        "input_shapes": json.dumps(shapes),
        "input_dtypes": json.dumps([HALF] * len(shapes)),
        "input_values": json.dumps([""] * len(shapes)),
        "duration_ns": int(us * 1000),
        "grid_x": 108 * 32, "grid_y": 1, "grid_z": 1,
        "block_x": 128, "block_y": 1, "block_z": 1,
        "device": 0, "stream": 7,
        **more,
    }  # fmt: skip
    return {name: [value] * count for name, value in one.items()}


def diagnosed(*parts: dict[str, Any], gap_ns: int = 0) -> Diagnosis:
    names = dict.fromkeys(name for part in parts for name in part)
    columns: dict[str, list[Any]] = {
        name: [value for part in parts
               for value in part.get(name, [None] * len(part["kernel_name"]))]
        for name in names
    }  # fmt: skip
    at, starts = 0, []
    for duration in columns["duration_ns"]:
        starts.append(at)
        at += duration + gap_ns
    columns["start_ns"] = starts
    columns["host_launch_ns"] = [start - 100_000 for start in starts]
    return diagnose(recording(columns, time_basis="timeline", devices=(A100,)))


def alarms(diagnosis: Diagnosis) -> dict[str, str]:
    return {f.rule: f.because for f in diagnosis.fired() if f.severity != "info"}


def product(m: int, n: int, k: int, us: float, **more: Any) -> dict[str, Any]:
    return launches(more.pop("kernel", GEMM), "aten::mm", [[m, k], [k, n]], us, **more)


# 2 x 8192 x 4096 x 4096 / 312e12 = 881 µs at peak; 1.16 ms are 76 %.
LARGE = product(8192, 4096, 4096, 1160, grid_x=2048)
# 3 x 2 x 64 Mi byte = 403 MB, 197 µs at peak; 232 µs are 85 %.
STREAMING = launches("void vectorized_elementwise_kernel<4, CUDAFunctor_add<c10::Half>>(int)",
                     "aten::add", [[64 * 2**20], [64 * 2**20]], 232)  # fmt: skip


@pytest.mark.parametrize(("part", "primary"), [(LARGE, "compute-bound"), (STREAMING, "dram-bound")])
def test_kernels_at_their_roof_raise_no_alarm(part: dict[str, Any], primary: str) -> None:
    diagnosis = diagnosed(part)
    assert diagnosis.kernels[0].primary_class == primary
    assert alarms(diagnosis) == {}
    said = {finding.rule for finding in diagnosis.findings if finding.state != "not-evaluable"}
    assert {"roofline-at-wall"} <= said


def test_a_healthy_layer_raises_no_alarm() -> None:
    """GIVEN products at 76 % and an addition at 85 % of peak in turn WHEN diagnosed THEN what is
    left is the addition behind the product, which one epilogue could do."""
    turn = [
        *(product(8192, 4096, 4096, 1160, count=1, grid_x=2048),
          launches("void vectorized_elementwise_kernel<4, CUDAFunctor_add<c10::Half>>(int)",
                   "aten::add", [[8192, 4096], [8192, 4096]], 116, count=1)) * 10
    ]  # fmt: skip
    assert set(alarms(diagnosed(*turn))) == {"gemm-epilogue-unfused"}


def test_a_slow_product_has_its_bound_from_its_shapes() -> None:
    """881 µs at peak and 1,101 µs at 80 % of it, taken 2 ms, 20 times."""
    diagnosis = diagnosed(product(8192, 4096, 4096, 2000, grid_x=2048))
    finding = next(f for f in diagnosis.fired() if f.rule == "roofline-headroom")
    assert finding.time_saved_bound_ns == pytest.approx(20 * (2000 - 881.0) * 1000, rel=1e-3)
    assert finding.time_saved_likely_ns == pytest.approx(20 * (2000 - 1101.3) * 1000, rel=1e-3)
    assert finding.severity == "high"
    # Whether it waits, its shapes do not tell: no finding says so.
    assert diagnosis.kernels[0].primary_class == "below-roof"
    assert not any(f.rule == "latency-bound" for f in diagnosis.fired())


def test_decoding_products_slow_and_at_the_wall() -> None:
    """M=1, N=K=8192: 134 MB, 65.8 µs at peak bandwidth."""
    slow = diagnosed(product(1, 8192, 8192, 160, kernel="gemv2T_kernel_val"))
    assert "gemv-decode-gemm" in alarms(slow)
    assert "quantise-weights" not in alarms(slow)
    fast = diagnosed(product(1, 8192, 8192, 75, kernel="gemvx::kernel"))
    assert set(alarms(fast)) == {"quantise-weights"}
    finding = next(f for f in fast.fired() if f.rule == "quantise-weights")
    assert finding.kind == "option"
    # Half of the weight, which is nearly all of the bytes.
    assert finding.time_saved_bound_ns == pytest.approx(20 * 75_000 / 2, rel=1e-3)
    # In training the weight is needed whole.
    trained = diagnosed(product(1, 8192, 8192, 75, kernel="gemvx::kernel", phase="forward"))
    assert "quantise-weights" not in alarms(trained)


def test_an_odd_vocabulary_costs_alignment() -> None:
    """N = 50257 is odd, 50264 a multiple of 8; 2 x 4096 x 50264 x 4096 FLOP take 5.41 ms at peak."""
    odd = diagnosed(product(4096, 50257, 4096, 12_000, grid_x=12_576))
    finding = next(f for f in odd.fired() if f.rule == "tc-misaligned-dims")
    assert finding.time_saved_bound_ns == pytest.approx(20 * (12_000 - 5406) * 1000, rel=2e-3)
    even = diagnosed(product(4096, 50264, 4096, 12_000, grid_x=12_576))
    assert "tc-misaligned-dims" not in alarms(even)


def test_a_long_narrow_product_asks_for_a_split() -> None:
    """512 x 512 makes 16 tiles of 128 x 128 for 108 multiprocessors, K = 65,536."""
    narrow = diagnosed(product(512, 512, 65_536, 900, grid_x=16))
    assert "gemm-splitk-missing" in alarms(narrow)
    split = diagnosed(product(512, 512, 65_536, 900, grid_x=96))
    assert "gemm-splitk-missing" not in alarms(split)


def test_small_cached_tensors_are_judged_by_nobody() -> None:
    """1 MB in 6 µs of a launch is no DRAM rate; 25 MB in 8 µs (3.1 TB/s) came from L2."""
    cached = diagnosed(
        launches("void vectorized_elementwise_kernel<4, MulFunctor<float>>(int)", "aten::mul",
                 [[4 * 2**20], [4 * 2**20]], 8)
    )  # fmt: skip
    assert cached.kernels[0].primary_class == "not-evaluable"
    assert not set(alarms(cached)) & {"roofline-headroom", "dram-at-wall", "roofline-at-wall"}


def test_the_two_largest_categories_are_named() -> None:
    diagnosis = diagnosed(LARGE, STREAMING)
    spots = {f.subject: f for f in diagnosis.fired() if f.rule == "category-hotspot"}
    assert list(spots) == ["gemm"]  # the addition takes 17 %, less than a fifth
    assert spots["gemm"].severity == "info"
    assert "83.3 %" in spots["gemm"].because
    dominating = {f.subject for f in diagnosis.fired() if f.rule == "single-kernel-dominates"}
    assert dominating == {GEMM}
