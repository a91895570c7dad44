"""A likely saving is never more than what the device reaches in practice leaves."""

from pathlib import Path

import pytest

import traceroof


@pytest.mark.corpus
@pytest.mark.parametrize(
    "name",
    [
        "tracelens_mi300_Qwen1.5-0.5B.json.gz",
        "tracelens_mi300_torch_compile_triton.json.gz",
    ],
)
def test_likely_leaves_the_time_that_the_practical_rates_need(corpus: Path, name: str) -> None:
    """GIVEN kernels whose work is modelled WHEN judged THEN no finding promises more than their time
    less the time of that work at the attainable rates (options, which change the work, aside)."""
    found = traceroof.diagnose(corpus / "torch" / name, calibrated=False, config=False)
    seen = 0
    for one in found.fired():
        if one.scope != "kernel" or one.time_saved_likely_ns is None or one.kind == "option":
            continue
        assert one.time_saved_likely_ns <= (one.time_saved_bound_ns or 0) + 1
        kernel = found.kernels[one.subject_index or 0]
        rates = [
            (kernel.metrics.get(f"model_{what}_pct"), kernel.metrics.get(f"{what}_attainable"))
            for what in ("flop", "dram")
        ]
        needs = [
            used / 100 / attainable
            for used, attainable in rates
            if isinstance(used, float) and isinstance(attainable, float)
        ]
        if len(needs) == 2 and kernel.time_ns:
            seen += 1
            left = kernel.time_ns * (1 - max(needs))
            assert one.time_saved_likely_ns <= left * 1.02 + 1_000, (one.rule, kernel.kernel)
    assert seen
