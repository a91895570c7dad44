"""What the time of a run is made of: roles within categories, least times, the optimizer's steps."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import traceroof
from tests.patterns.parts import judged
from tests.runs import recording
from traceroof import patterns
from traceroof.core.kernel_table import kernel_table
from traceroof.core.recording import DeviceInfo
from traceroof.diagnosis.diagnose import diagnose
from traceroof.hardware.device_lookup import find
from traceroof.scopes import subjects

A100 = "A100-SXM4-80GB"
TRANSPOSE = "batched_transpose_32x32_half"
CAST = "void vectorized_elementwise_kernel<4, bfloat16_copy_kernel_cuda>(int)"
GEMM = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn"
ADD = "void vectorized_elementwise_kernel<4, CUDAFunctor_add<float>>(int)"


def parts_of(columns: dict[str, Any]) -> patterns.Patterns:
    kernels = kernel_table(columns)
    return patterns.find_patterns(*judged(kernels, {-1: find(A100)}))


def test_roles_split_a_category_in_shares_of_all_gpu_time() -> None:
    """GIVEN 100 µs: a product of 60, two transposes of 10, a cast of 20."""
    parts = parts_of(
        {
            "kernel_name": [GEMM, TRANSPOSE, TRANSPOSE, CAST],
            "operator": ["aten::mm", "aten::convolution", "aten::convolution", "aten::copy_"],
            "operator_path": [
                None,
                "A > B > aten::conv2d > aten::conv2d > aten::convolution",
                None,
                "aten::to",
            ],
            "duration_ns": [60_000, 10_000, 10_000, 20_000],
        }
    )
    layout = parts.by_category["layout"]
    assert layout["layout_change_pct"] == pytest.approx(20)
    assert layout["layout_change_launches"] == 2
    assert layout["layout_change_from"] == "B > aten::conv2d > aten::convolution"
    assert layout["cast_pct"] == pytest.approx(20)
    assert layout["conv_layout_pct"] == pytest.approx(20)
    assert (layout["rank_by_time"], layout["products"]) == (2, 1)
    # What is not there is 0, not unknown; a role that nothing has names no launcher.
    assert layout["padding_pct"] == 0
    assert "padding_from" not in layout
    assert parts.by_category["gemm"]["rank_by_time"] == 1


def test_rows_of_a_summary_count_with_their_launches() -> None:
    parts = parts_of(
        {"kernel_name": [TRANSPOSE, GEMM], "launch_count": [30, 1], "duration_ns": [1_000, 70_000]}
    )
    assert parts.by_category["layout"]["layout_change_pct"] == pytest.approx(30)
    assert parts.by_category["layout"]["layout_change_launches"] == 30
    assert parts.by_category["layout"]["layout_change_from"] == TRANSPOSE


def test_layout_changes_for_each_convolution() -> None:
    parts = parts_of(
        {
            "kernel_name": ["implicit_convolve_sgemm", TRANSPOSE, TRANSPOSE, TRANSPOSE],
            "operator": ["aten::cudnn_convolution"] * 3 + ["aten::contiguous"],
            "duration_ns": [10, 10, 10, 10],
        }
    )
    assert parts.by_category["layout"]["conv_layout_per_conv"] == 2
    assert parts.by_category["layout"]["conv_layout_pct"] == 50


def test_a_categorys_place_under_the_roof() -> None:
    """Half of the time has shapes: 12 MB in 10 µs of 2,039 GB/s need 5.886 µs."""
    shapes = json.dumps([[1_000_000], [1_000_000], []])
    parts = parts_of(
        {
            "kernel_name": [ADD, ADD],
            "operator": ["aten::add", None],
            "input_shapes": [shapes, None],
            "input_dtypes": ['["float", "float", "Scalar"]', None],
            "duration_ns": [10_000, 10_000],
            "grid_x": [100, 200],
        }
    )
    found = parts.by_category["elementwise"]
    assert found["modelled_pct"] == pytest.approx(50)
    assert found["roof_pct"] == pytest.approx(12e6 / 2.039e12 / 10e-6 * 100)
    assert found["spare_ns"] == pytest.approx(10_000 - 12e6 / 2.039e12 * 1e9)


def test_less_than_half_of_a_category_does_not_speak_for_it() -> None:
    shapes = json.dumps([[1_000_000], [1_000_000], []])
    parts = parts_of(
        {
            "kernel_name": [ADD, ADD],
            "operator": ["aten::add", None],
            "input_shapes": [shapes, None],
            "input_dtypes": ['["float", "float", "Scalar"]', None],
            "duration_ns": [10_000, 10_100],
            "grid_x": [100, 200],
        }
    )
    found = parts.by_category["elementwise"]
    assert found["modelled_pct"] == pytest.approx(10 / 20.1 * 100)
    assert np.isnan([found["roof_pct"], found["spare_ns"]]).all()


def adam(tensors: int, steps: int = 1, elements: int = 1_000_000) -> dict[str, Any]:
    """The plain optimizer: for each tensor a multiplication, a division and the update."""
    count = 3 * tensors * steps
    shapes = json.dumps([[elements], [elements], [elements], []])
    return {
        "kernel_name": [
            f"void vectorized_elementwise_kernel<4, {functor}>(int)"
            for functor in ("MulFunctor", "DivFunctor", "addcdiv_cuda_scalar")
        ]
        * (tensors * steps),
        "operator": ["aten::mul_", "aten::div_", "aten::addcdiv_"] * (tensors * steps),
        "input_shapes": [shapes] * count,
        "input_dtypes": ['["float", "float", "float", "Scalar"]'] * count,
        "phase": ["optimizer"] * count,
        "step": [f"ProfilerStep#{at // (3 * tensors)}" for at in range(count)],
        "duration_ns": [20_000] * count,
        "start_ns": [30_000 * at for at in range(count)],
        "host_launch_ns": [30_000 * at for at in range(count)],
    }


def test_the_optimizers_step_against_one_that_touches_each_state_once() -> None:
    """20 tensors of 1e6 parameters: 28 byte each, 560 MB, 274.6 µs a step; it takes 1.2 ms."""
    found = parts_of(adam(20, steps=2)).of_run
    assert found["optimizer_steps"] == 2
    assert found["optimizer_launches"] == found["optimizer_plain_launches"] == 120
    assert found["optimizer_parameters"] == 20e6
    assert found["optimizer_least_ns"] == pytest.approx(2 * 20e6 * 28 / 2.039e12 * 1e9)
    assert found["optimizer_pct"] == pytest.approx(100)


def test_zeroed_gradients_and_collectives_are_no_optimizer_step() -> None:
    columns = {
        "kernel_name": [ADD, "void vectorized_elementwise_kernel<4, FillFunctor<float>>(int)",
                        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(int)"],
        "operator": ["aten::add_", "aten::zero_", None],
        "module_path": ["Optimizer.step#SGD.step", "Optimizer.zero_grad#SGD.zero_grad", None],
        "phase": ["optimizer"] * 3,
        "duration_ns": [10_000, 20_000, 70_000],
    }  # fmt: skip
    parts = parts_of(columns)
    assert parts.of_run["optimizer_time_ns"] == 10_000
    assert "optimizer_least_ns" not in parts.of_run
    assert parts.by_category["layout"]["gradient_reset_pct"] == pytest.approx(20)


def test_many_launches_a_step_are_reported_and_a_fused_step_is_not() -> None:
    plain = recording(adam(20), time_basis="timeline", devices=(DeviceInfo(name=A100),))
    finding = next(f for f in diagnose(plain).fired() if f.rule == "optimizer-single-tensor")
    # 60 launches of 20 µs, less 274.6 µs.
    assert finding.time_saved_bound_ns == pytest.approx(1_200_000 - 274_645, abs=5)
    fused = {**adam(20), "operator": ["aten::_fused_adamw_"] * 60}
    rules = {f.rule for f in diagnose(recording(fused, time_basis="timeline")).fired()}
    assert "optimizer-single-tensor" not in rules
    # Ten tensors make 30 launches: too few to matter.
    few = {f.rule for f in diagnose(recording(adam(10), time_basis="timeline")).fired()}
    assert "optimizer-single-tensor" not in few


def test_every_fact_is_a_column() -> None:
    parts = parts_of(adam(2))
    of_category = {entry.name for entry in patterns.CATEGORY_COLUMNS}
    assert all(set(values) <= of_category for values in parts.by_category.values())
    assert set(parts.of_run) <= {entry.name for entry in patterns.RUN_COLUMNS}
    for scope in ("category", "run"):
        columns = [*patterns.CATEGORY_COLUMNS, *patterns.RUN_COLUMNS]
        assert all(entry.meaning for entry in columns if entry.group == scope)
    assert not {entry.name for entry in patterns.CATEGORY_COLUMNS} & {
        entry.name for entry in subjects.CATEGORY_COLUMNS
    }


def test_an_empty_run_has_no_parts() -> None:
    assert parts_of({"kernel_name": []}) == patterns.Patterns()


@pytest.mark.corpus
def test_a_real_resnet_in_channels_first_transposes_for_every_convolution(corpus: Path) -> None:
    """tracelens ResNet-18 on MI300X: input, weight and output of each convolution."""
    diagnosis = traceroof.diagnose([corpus / "torch" / "tracelens_mi300_ddp_resnet18.json.gz"])
    fired = {finding.rule: finding for finding in diagnosis.fired()}
    evidence = {e.metric: e.value for e in fired["channels-last-missing"].evidence}
    assert evidence["conv_layout_per_conv"] == 3.0
    assert "layout-conversion-share" not in fired  # the same copies, said once


@pytest.mark.corpus
def test_copies_from_the_host_are_no_copies_within_the_device(corpus: Path) -> None:
    """The A100 run copies 51 ms from the host and 2.7 ms within the GPU; the V100 run 86.7 ms
    within the GPU, most of it clones of a compiled function."""
    torch = corpus / "torch"
    control = traceroof.diagnose([torch / "hta_trace_diff_control_a100.json.gz"])
    assert "redundant-copy" not in {finding.rule for finding in control.fired()}
    test = traceroof.diagnose([torch / "hta_trace_diff_test_v100.json.gz"])
    finding = next(f for f in test.fired() if f.rule == "redundant-copy")
    evidence = {one.metric: one.value for one in finding.evidence}
    assert evidence["copy_launches"] == 4645
    assert "CompiledFunction" in str(evidence["copy_from"])
