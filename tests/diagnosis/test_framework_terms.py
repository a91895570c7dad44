"""Rules name PyTorch's means; a trace of XLA gets those of JAX."""

from pathlib import Path

import pytest

import traceroof
from traceroof.diagnosis.framework_terms import _IN_JAX, XLA, framework_of, in_terms_of
from traceroof.plugins import rules


def test_the_format_of_a_recording_tells_the_framework() -> None:
    assert framework_of("xplane") == XLA
    assert framework_of("xplane+nsight-compute") == XLA
    assert framework_of("torch-profiler") == ""


def test_only_xla_is_told_of_jax() -> None:
    text = "Launch less often: fuse chains of small operators (torch.compile), batch small tensors."
    assert in_terms_of(text, "") == text
    assert in_terms_of(text, XLA) == (
        "Launch less often: put the whole step under one jax.jit, batch small tensors."
    )


@pytest.mark.parametrize("phrase", _IN_JAX)
def test_each_phrase_stands_in_a_rule(phrase: str) -> None:
    assert any(phrase in rule.fix for rule in rules()), phrase


@pytest.mark.corpus
def test_advice_on_a_jax_trace_names_no_pytorch(corpus: Path) -> None:
    """GIVEN a JAX program whose GPU waits for launches, on a GPU that XLA names by its number only."""
    name = "TraceLens__jax08_elementwise_mi300x.xplane.pb"
    found = traceroof.diagnose(corpus / "other/xplane" / name, calibrated=False)
    assert found.advice[0].topic == "host-bound-launch"
    assert "jax.jit" in found.advice[0].fix
    assert not [one.rule for one in found.findings if one.state == "fired" and "torch." in one.fix]
    name = "jax_te_fused_attn_amd.xplane.pb"
    (device,) = traceroof.diagnose(corpus / "other/xplane" / name, calibrated=False).devices
    assert (device.info.gfx_target, device.info.sm_count) == ("gfx950", 256)
