"""A normalisation that reads its rows twice, on real counters."""

from pathlib import Path

import pytest

import traceroof


@pytest.mark.corpus
def test_rows_that_l2_does_not_hold_are_read_again(corpus: Path) -> None:
    """GIVEN 8,192 rows of 32 KB, normalised in two passes at 89 % of device memory WHEN 490 of 741 MB
    are reads, for 268 MB stored THEN the 221 MB beyond one reading come first, not the wall."""
    file = corpus / "known_faults/AlpriElse__cs599k/rms_norm_matrix_v2-float4.raw.csv"
    first = traceroof.diagnose(file, calibrated=False).advice[0]
    assert (first.lead.rule, first.topic) == ("input-read-again", "algorithm")
    assert first.share == pytest.approx((489.5 - 268.4) / 740.6, abs=0.001)


@pytest.mark.corpus
def test_what_a_second_reading_costs_yields_to_the_wait_for_loads(corpus: Path) -> None:
    """With loads of 4 bytes each, at 67 % of device memory, more bytes in flight gained 22 %."""
    file = corpus / "ncu_rep/AlpriElse__cs599k__2025-04-21_v1.ncu-rep"
    first = traceroof.diagnose(file, calibrated=False).advice[0]
    assert first.lead.rule == "stall-long-scoreboard"
    assert "input-read-again" in [one.rule for one in first.folded]
