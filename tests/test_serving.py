"""Prefill and decode told apart, and the least time of a decoding step."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import traceroof
from tests.runs import recording
from traceroof import groups, timeline
from traceroof.composition import serving
from traceroof.devices import find
from traceroof.diagnosis import diagnose, row_categories
from traceroof.groups import workload
from traceroof.recording import DeviceInfo, Recording


@pytest.mark.parametrize(
    ("name", "kind", "sequences", "prompt_tokens", "new_tokens"),
    [
        ("execute_context_1(888_788544)_generation_0(0)", "prefill", 0, 888, 0),
        ("execute_context_0(0)_generation_16(16)", "decode", 16, 0, 16),
        (
            "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)",
            "decode", 32, 0, 32,
        ),
        ("execute_2064_context_1(sq2048sk2048)_generation_16(sq16sk8209)", "mixed", 16, 2048, 16),
        ("step[DECODE bs=16]", "decode", 16, 0, 16),
        ("step[EXTEND bs=2 toks=4096]", "prefill", 0, 4096, 0),
        ("step[MIXED bs=8 toks=512]", "mixed", 8, 512, 8),
        ("execute_new_0_cached_8", "decode", 8, None, 8),
        ("execute_new_3_cached_0", "prefill", 0, None, 0),
        ("execute_context_0()_generation_0()", "", 0, None, None),
    ],
)  # fmt: skip
def test_annotations_of_passes(
    name: str, kind: str, sequences: int, prompt_tokens: float | None, new_tokens: float | None
) -> None:
    found = serving.pass_of(name)
    assert found
    assert (found.kind, found.sequences) == (kind, sequences)
    for value, expected in ((found.prompt_tokens, prompt_tokens), (found.new_tokens, new_tokens)):
        assert value == expected or (expected is None and np.isnan(value))


@pytest.mark.parametrize("name", ["ProfilerStep#3", "execute_diffusion_1_256x256", "step", ""])
def test_other_names_are_no_pass(name: str) -> None:
    assert serving.pass_of(name) is None


def facts_of(run: Recording, device: str = "A100-SXM4-80GB") -> Mapping[str, Any]:
    categories = row_categories(run.kernels)
    gpu = find(device)
    assert gpu
    grouped = groups.group(
        run.kernels, categories, {-1: gpu}, workload.model_columns(run.kernels, categories)
    )
    return serving.serving(run.kernels, grouped, timeline.timelines(run, categories))


DECODE, PROMPT = "step[DECODE bs=1]", "step[EXTEND bs=1 toks=3000]"
# M=1, N=K=8192 in FP16: a weight of 134,217,728 byte, 65.8 µs at 2,039 GB/s.
SHAPES = json.dumps([[1, 8192], [8192, 8192]])


def passes(**more: Any) -> dict[str, Any]:
    """Two decoding passes of two products each, 400 µs apart, and a prompt between."""
    return {
        "kernel_name": ["gemvx", "gemvx", "big", "gemvx", "gemvx"],
        "operator": ["aten::mm"] * 5,
        "input_shapes": [SHAPES, SHAPES, None, SHAPES, SHAPES],
        "input_dtypes": ['["c10::Half", "c10::Half"]'] * 5,
        "start_ns": [0, 150_000, 400_000, 1_000_000, 1_150_000],
        "duration_ns": [100_000, 100_000, 500_000, 100_000, 100_000],
        "host_launch_ns": [0, 1_000, 2_000, 3_000, 4_000],
        "step": [f"{DECODE} 0", f"{DECODE} 0", PROMPT, f"{DECODE} 1", f"{DECODE} 1"],
        "device": [0] * 5,
        **more,
    }


def test_time_of_prompts_and_tokens() -> None:
    found = facts_of(recording(passes(), time_basis="timeline"))
    # 400 µs in decoding passes, 500 µs in the prompt's.
    assert found["decode_pct"] == pytest.approx(400 / 900 * 100)
    assert found["prefill_pct"] == pytest.approx(500 / 900 * 100)
    assert found["mixed_pct"] == 0
    assert found["serving_from"] == "the annotations of the passes"
    assert found["prompt_tokens_pct"] == pytest.approx(3000 / 3002 * 100)


def test_the_floor_of_a_decoding_step_is_its_weights_over_the_bandwidth() -> None:
    found = facts_of(recording(passes(), time_basis="timeline"))
    assert found["decode_weights_pct"] == pytest.approx(100)
    assert found["decode_weight_bytes"] == 2 * 8192 * 8192 * 2
    assert found["decode_floor_ns"] == pytest.approx(268_435_456 / 2.039e12 * 1e9)
    assert (found["decode_steps"], found["decode_sequences"]) == (2, 1)
    # Steps tile the timeline: the first lasts until the prompt starts, the last until it ends.
    assert found["decode_step_ns"] == np.median([400_000, 250_000])
    assert found["decode_time_ns"] == 650_000


def test_the_floor_is_unknown_where_products_have_no_shapes() -> None:
    """GIVEN a tenth and more of the products' time without shapes THEN no floor is given."""
    run = recording(
        passes(input_shapes=[SHAPES, SHAPES, None, SHAPES, None]), time_basis="timeline"
    )
    found = facts_of(run)
    assert found["decode_weights_pct"] == pytest.approx(75)
    assert "decode_floor_ns" not in found
    missing = [f for f in diagnose(run).not_evaluable() if f.rule == "tpot-floor"]
    assert [finding.missing for finding in missing] == [("decode_floor_ns",)]


def test_slow_steps_are_reported_with_their_floor() -> None:
    run = recording(
        passes(), time_basis="timeline", devices=(DeviceInfo(index=0, name="A100-SXM4-80GB"),)
    )
    diagnosis = diagnose(run)
    finding = next(f for f in diagnosis.fired() if f.rule == "tpot-floor")
    # (1 - 131.65 / 325) of 650 µs.
    assert finding.time_saved_bound_ns == pytest.approx((1 - 131.65 / 325) * 650_000, rel=1e-3)
    assert "reading its 268 MB of weights takes 132 µs" in finding.because


def attention(queries: int, keys: int, **more: Any) -> dict[str, Any]:
    q, k = [8, 32, queries, 128], [8, 32, keys, 128]
    return {
        "kernel_name": ["flash_fwd_kernel"],
        "operator": ["aten::_scaled_dot_product_flash_attention"],
        "input_shapes": [json.dumps([q, k, k, [], [], [], []])],
        "input_dtypes": ['["c10::Half", "c10::Half", "c10::Half", "Scalar", "Scalar", "Scalar", ""]'],
        "input_values": ['["", "", "", "0.", "False", "False", ""]'],
        "duration_ns": [50_000],
        "start_ns": [0],
        **more,
    }  # fmt: skip


def test_without_annotations_the_queries_of_attention_tell() -> None:
    found = facts_of(recording(attention(1, 4096), time_basis="timeline"))
    assert found["serving_from"] == "the query lengths of attention"
    assert (found["decode_pct"], found["prefill_pct"]) == (100, 0)
    # As many queries as keys are an encoder, a prompt or a training step: nothing is claimed.
    assert not facts_of(recording(attention(4096, 4096), time_basis="timeline"))
    trained = attention(1, 4096, phase=["forward"])
    assert not facts_of(recording(trained, time_basis="timeline"))


REAL = {
    "sglang_deepseek_r1": (0, 100, 16),
    "tracelens_mi300_vllm_decode_full_graph_execution.json.gz": (0, 100, 32),
    "tracelens_mi300_sglang_Qwen3-8B_decode.json.gz": (0, 100, 32),
    "tracelens_b200_eager_vllm_moe.json.gz": (100, 0, None),
}


@pytest.mark.corpus
@pytest.mark.parametrize("name", sorted(REAL))
def test_real_serving_traces(corpus: Path, name: str) -> None:
    prefill, decode, sequences = REAL[name]
    diagnosis = traceroof.diagnose([corpus / "torch" / name])
    finding = next(f for f in diagnosis.fired() if f.rule == "prefill-decode-mix")
    evidence = {one.metric: one.value for one in finding.evidence}
    assert (evidence["prefill_pct"], evidence["decode_pct"]) == (prefill, decode)
    assert evidence.get("decode_sequences") == sequences


@pytest.mark.corpus
@pytest.mark.parametrize("name", ["astrasim_megatron_tp8_rank0_a100.json",
                                  "tracelens_mi300_xdit_flux_aiter_sage.json.gz",
                                  "tracelens_mi300_Qwen1.5-0.5B.json.gz"])  # fmt: skip
def test_training_and_image_models_do_not_serve(corpus: Path, name: str) -> None:
    diagnosis = traceroof.diagnose([corpus / "torch" / name])
    rules = {finding.rule for finding in diagnosis.findings}
    assert not rules & {"prefill-decode-mix", "tpot-floor"}
