"""Prefill and decode told apart, and the least time of a decoding step."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import traceroof
from tests.patterns.parts import judged
from tests.runs import recording
from traceroof import timeline
from traceroof.core.recording import DeviceInfo, Recording
from traceroof.diagnosis.diagnose import diagnose
from traceroof.hardware.device_lookup import find
from traceroof.kernels.categories import row_categories
from traceroof.patterns import pass_annotations, serving


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
    found = pass_annotations.pass_of(name)
    assert found
    assert (found.kind, found.sequences) == (kind, sequences)
    for value, expected in ((found.prompt_tokens, prompt_tokens), (found.new_tokens, new_tokens)):
        assert value == expected or (expected is None and np.isnan(value))


@pytest.mark.parametrize("name", ["ProfilerStep#3", "execute_diffusion_1_256x256", "step", ""])
def test_other_names_are_no_pass(name: str) -> None:
    assert pass_annotations.pass_of(name) is None


def facts_of(run: Recording, device: str = "A100-SXM4-80GB") -> Mapping[str, Any]:
    categories = row_categories(run.kernels)
    part, *_, grouped = judged(run.kernels, {-1: find(device)})
    return serving.serving(part.variants, grouped, timeline.timelines(run, categories))


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


def test_prompts_delay_the_tokens_of_their_pass() -> None:
    """GIVEN decoding passes of 400 and 250 us and one between that reads 3,000 prompt tokens as well,
    600 us WHEN they are compared THEN it takes 275 us beyond the median of 325."""
    mixed = "step[MIXED bs=1 toks=3000]"
    steps = [f"{DECODE} 0", f"{DECODE} 0", mixed, f"{DECODE} 1", f"{DECODE} 1"]
    found = facts_of(recording(passes(step=steps), time_basis="timeline"))
    assert (found["mixed_steps"], found["mixed_step_ns"]) == (1, 600_000)
    assert found["decode_step_ns"] == 325_000
    assert found["mixed_delay_ns"] == 275_000
    assert found["mixed_prompt_tokens"] == 3_000
    assert "mixed_steps" not in facts_of(recording(passes(), time_basis="timeline"))


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
    assert "reading what it must (weights 268 MB) takes 132 µs" in finding.because


ATTENDS = "aten::_scaled_dot_product_flash_attention"
WRITES = "_C_cache_ops::reshape_and_cache_flash"
CONTEXTS = "execute_1_context_0(sq0sk0sqsq0sqsk0)_generation_1(sq1sk32768sqsq1sqsk32768)"


def decoding(
    *launches: tuple[str, str, str | None, str, int],
    name: str = DECODE,
    products: int = 100_000,
    **more: Any,
) -> Recording:
    """Two decoding passes of 1 ms, each of two products and these launches (kernel, operator,
    shapes, element types, duration), back to back."""
    types = '["c10::Half", "c10::Half"]'
    one = [("gemvx", "aten::mm", SHAPES, types, products)] * 2 + list(launches)
    starts = np.cumsum([0, *(launch[4] for launch in one)])[:-1]
    columns = {
        column: [launch[at] for launch in one] * 2
        for at, column in enumerate(
            ("kernel_name", "operator", "input_shapes", "input_dtypes", "duration_ns")
        )
    }
    columns["start_ns"] = [int(at) for first in (0, 1_000_000) for at in first + starts]
    columns["host_launch_ns"] = list(range(2 * len(one)))
    columns["step"] = [f"{name} {number}" for number in (0, 1) for _ in one]
    columns["input_values"] = [
        '["", "", "", "0.", "False", "False", ""]' if operator == ATTENDS else None
        for operator in columns["operator"]
    ]
    device = (DeviceInfo(index=0, name="A100-SXM4-80GB"),)
    return recording(
        {**columns, "device": [0] * 2 * len(one), **more}, time_basis="timeline", devices=device
    )


def cached_attention(
    keys: int, duration: int, kernel: str = "flash_fwd_kernel"
) -> tuple[str, str, str, str, int]:
    """One query of 32 heads on keys of 8 heads of 128 in FP16: 4,096 byte of cache a token."""
    shapes = [[1, 32, 1, 128], [1, 8, keys, 128], [1, 8, keys, 128], [], [], [], []]
    types = '["c10::Half", "c10::Half", "c10::Half", "Scalar", "Scalar", "Scalar", ""]'
    return kernel, ATTENDS, json.dumps(shapes), types, duration


def paged(kernel: str = "paged_attention_v1_kernel", written: str = "c10::BFloat16") -> list[Any]:
    """A layer with a paged cache: what is written shows its sizes, attention does not."""
    shapes = [[1, 8, 128], [1, 8, 128], [900, 16, 8, 128], [900, 16, 8, 128], [1]]
    types = ["c10::BFloat16", "c10::BFloat16", written, written, "long int"]
    write = ("vllm::reshape_and_cache_flash_kernel", WRITES, json.dumps(shapes),
             json.dumps(types), 2_000)  # fmt: skip
    return [write, (kernel, "vllm::unified_attention", None, "[]", 150_000)]


def test_the_floor_has_the_cache_that_attention_reads() -> None:
    # 4,096 byte x 32,768 tokens = 134,217,728 byte beside 268,435,456 of weights; the queries and
    # results are left out.
    run = decoding(cached_attention(32_768, 100_000))
    found = facts_of(run)
    assert found["decode_kv_bytes"] == pytest.approx(134_217_728)
    assert found["decode_floor_ns"] == pytest.approx((268_435_456 + 134_217_728) / 2.039e12 * 1e9)
    assert found["decode_reads"] == "weights 268 MB, cache 134 MB"
    assert (found["decode_products_ns"], found["decode_attention_ns"]) == (200_000, 100_000)
    # 197 µs at nominal bandwidth are 232 at 85 %: 0.77 of a step of 300 µs.
    assert "tpot-floor" not in {one.rule for one in diagnose(run).fired()}
    slow = diagnose(decoding(cached_attention(32_768, 100_000), products=150_000))
    finding = next(f for f in slow.fired() if f.rule == "tpot-floor")
    # The first pass, 1 ms until the next starts, is warm-up; the next lasts 400 µs. 1.4 ms in all.
    assert finding.time_saved_bound_ns == pytest.approx((1 - 197.48 / 400) * 1.4e6, rel=1e-3)
    assert "(weights 268 MB, cache 134 MB) takes 197 µs" in finding.because


@pytest.mark.parametrize(("written", "size"), [("c10::BFloat16", 2), ("unsigned char", 1)])
def test_the_annotated_contexts_give_the_cache_of_paged_attention(written: str, size: int) -> None:
    """GIVEN two layers whose cache has 2 x 8 x 128 elements a token, and 32,768 tokens."""
    run = decoding(*paged(written=written), *paged(written=written), name=CONTEXTS)
    found = facts_of(run)
    assert found["decode_kv_bytes"] == 2 * 2 * 8 * 128 * 32_768 * size
    assert found["decode_attention_ns"] == 300_000  # what writes the cache is left out


@pytest.mark.parametrize(
    ("launches", "name"),
    [
        # No contexts in the annotation.
        (paged(), DECODE),
        # A window: the contexts are longer than what is read.
        (paged(kernel="fmhaPagedKvSlidingOrChunkedCausal_attention"), CONTEXTS),
        # 134 MB in 60 µs would be 2.2 TB/s.
        ([cached_attention(32_768, 60_000)], DECODE),
        # As many queries as keys: no cache in these shapes.
        ([cached_attention(1, 100_000)], DECODE),
        # Half of attention's time has no shapes.
        ([cached_attention(8_192, 100_000), ("flash_fwd_splitkv", "x::attend", None, "[]", 100_000)],
         DECODE),
    ],
)  # fmt: skip
def test_an_unknown_cache_leaves_the_products_to_be_judged(launches: list[Any], name: str) -> None:
    """WHEN products take 200 µs for weights of 132 µs (155 µs at 85 %) THEN they are near their
    wall, and the rest of the step is not held against the weights."""
    found = facts_of(decoding(*launches, name=name))
    assert "decode_kv_bytes" not in found
    assert found["decode_floor_ns"] == pytest.approx(268_435_456 / 2.039e12 * 1e9)
    run = decoding(*launches, name=name)
    assert "tpot-floor" not in {finding.rule for finding in diagnose(run).fired()}
    # At 300 µs they are not: (300 - 131.65) µs in each of two passes could be saved.
    slow = diagnose(decoding(*launches, name=name, products=150_000))
    finding = next(f for f in slow.fired() if f.rule == "tpot-floor")
    assert finding.time_saved_bound_ns == pytest.approx(2 * (300_000 - 131_650), rel=1e-3)
    assert "the cache, of unknown size, comes on top" in finding.because


def test_ranks_read_their_own_weights() -> None:
    """GIVEN two ranks whose passes have the same names THEN their weights are not added up."""
    one = decoding().kernels.to_pydict()
    both = {name: values * 2 for name, values in one.items()}
    found = facts_of(recording({**both, "rank": [0] * 4 + [1] * 4}, time_basis="timeline"))
    assert found["decode_weight_bytes"] == 268_435_456


@pytest.mark.parametrize(("name", "fires"), [(DECODE, True), ("ProfilerStep#1", False)])
def test_sorting_a_vocabulary_is_sampling_where_tokens_are_made(name: str, fires: bool) -> None:
    """GIVEN a sort of 8 rows of 32,000 entries, 12 µs beside products of 200 µs: 5.7 % of the time.
    Without passes it may be a detector's choice among its anchors."""
    sort = ("cub::DeviceRadixSortOnesweepKernel", "aten::sort", "[[8, 32000], [], []]",
            '["float", "Scalar", "Scalar"]', 12_000)  # fmt: skip
    found = [f for f in diagnose(decoding(sort, name=name)).fired()
             if f.rule == "sampling-sort-overhead"]  # fmt: skip
    assert bool(found) == fires
    if found:
        evidence = {one.metric: one.value for one in found[0].evidence}
        assert evidence["sampling_pct"] == pytest.approx(12 / 212 * 100)


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
