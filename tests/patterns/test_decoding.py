"""What decoding passes read where shapes are not recorded."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.patterns.parts import judged
from tests.runs import recording
from traceroof import timeline
from traceroof.core.recording import DeviceInfo, Recording
from traceroof.diagnosis.diagnose import diagnose
from traceroof.hardware.device_lookup import find
from traceroof.kernels.categories import row_categories
from traceroof.patterns import decoding, find_patterns

DECODE = "step[DECODE bs=16]"
KERNELS = (
    ("_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1", 600_000),
    ("nvjet_tst_64x16_64x16_4x1_v_bz_TNT", 200_000),
    ("fmhaSm100fKernel_QkvBfloat16OBfloat16H128PagedKvCausalP64VarSeqQ8SwapsAbForGen", 100_000),
    ("void store_kvcache<2048l, 4, false, long>(Params)", 50_000),
    ("void vllm::rms_norm_kernel<float>(int)", 50_000),
)


def run_of(step: str | None, names: Mapping[str, str] | None = None, **more: Any) -> Recording:
    starts = [sum(time for _, time in KERNELS[:at]) for at in range(len(KERNELS))]
    return recording(
        {
            "kernel_name": [(names or {}).get(name, name) for name, _ in KERNELS],
            "duration_ns": [time for _, time in KERNELS],
            "start_ns": starts,
            "step": [step] * len(KERNELS),
            "device": [0] * len(KERNELS),
            **more,
        },
        time_basis="timeline",
        devices=(DeviceInfo(index=0, name="B200"),),
    )


def facts_of(run: Recording) -> Mapping[str, Any]:
    lines = timeline.timelines(run, row_categories(run.kernels))
    return find_patterns(*judged(run.kernels, {-1: find("B200")}), lines).of_run


def test_the_parts_of_a_pass_and_what_memory_could_deliver() -> None:
    found = facts_of(run_of(DECODE))
    assert found["decode_gpu_ns"] == 1_000_000
    assert found["decode_experts_unshaped_pct"] == pytest.approx(60)
    assert found["decode_products_unshaped_pct"] == pytest.approx(20)
    assert found["decode_attention_unshaped_ns"] == 100_000
    gpu = find("B200")
    assert gpu
    assert gpu.dram_bandwidth_bytes_per_s
    assert found["decode_experts_readable_bytes"] == pytest.approx(
        600_000 / 1e9 * gpu.dram_bandwidth_bytes_per_s
    )


def test_the_experts_are_a_finding_whose_likely_saving_is_unknown() -> None:
    fired = {one.rule: one for one in diagnose(run_of(DECODE)).fired()}
    experts = fired["decode-experts"]
    # One launch takes 2 µs at least, whatever it reads.
    assert experts.time_saved_bound_ns == 598_000
    assert experts.time_saved_likely_ns is None
    assert "decode-attention" not in fired


def test_names_of_attention_tell_decode_where_passes_are_not_annotated() -> None:
    assert facts_of(run_of(None))["serving_from"] == "the names of attention kernels"
    prompt = {KERNELS[2][0]: "void flash_fwd_kernel<Flash_fwd_kernel_traits<128>>(Params)"}
    assert "decode_pct" not in facts_of(run_of(None, prompt))
    assert "decode_pct" not in facts_of(run_of(None, phase=["backward"] * len(KERNELS)))


@pytest.mark.parametrize(
    "name",
    [
        "void paged_attention_ll4mi_QKV_mfma16_kernel<0, __hip_bfloat16>(int)",
        "void vllm::paged_attention_v2_kernel<half>(int)",
        "void pytorch_flash::flash_fwd_splitkv_kernel<Traits>(Params)",
        "_fwd_grouped_kernel_stage1",
        "void flashinfer::BatchDecodeWithPagedKVCacheKernel<0>(Params)",
        "void flash_fwd_splitkv_mla_kernel<Traits>(Params)",
    ],
)
def test_kernels_that_only_decode(name: str) -> None:
    assert decoding._DECODES.search(name)
