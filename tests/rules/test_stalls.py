"""The family of stall reasons: what its examples cannot say."""

from typing import Any

import numpy as np
import pytest

from traceroof.core.kernel_table import STALL_REASONS
from traceroof.rule import Facts, Judgement, Rule, judge
from traceroof.rules.stalls import RULES

BY_ID = {rule.id: rule for rule in RULES}
LONG = BY_ID["stall-long-scoreboard"]


def judged(rule: Rule, **values: Any) -> Judgement:
    return judge(rule, Facts.of((values,), rule.columns))


def test_every_reason_of_the_table_has_its_rule() -> None:
    assert {rule.needs[0] for rule in RULES} == {f"stall_{reason}" for reason in STALL_REASONS}


@pytest.mark.parametrize(
    ("share", "issue", "compute", "memory", "saved", "likely"),
    [
        # Busy units bound the saving; the share of the waiting is what is likely.
        (0.4, 0.5, 30.0, 20.0, 0.7, 0.4),
        # Schedulers issue in 70 % of the cycles, so 30 % are free.
        (0.6, 0.7, 30.0, 20.0, 0.7, 0.3),
        # Memory fills 62 % of its peak; of the 85 % that good code reaches, 62/85 = 72.9 %.
        (0.6, 0.1, 30.0, 62.0, 0.38, 1 - 62 / 85),
        # Compute fills 60 % of its peak, 75 % of the attainable 80 %.
        (0.6, 0.1, 60.0, 20.0, 0.4, 0.25),
        (0.4, 0.5, None, None, 0.4, 0.4),
    ],
)
def test_busy_units_bound_the_saving_and_the_wait_makes_it_likely(
    share: float,
    issue: float,
    compute: float | None,
    memory: float | None,
    saved: float,
    likely: float,
) -> None:
    result = judged(
        LONG,
        stall_long_scoreboard=share,
        issue_active_ceiling=issue,
        compute_pct=compute,
        memory_pct=memory,
    )
    assert result.fired.all()
    np.testing.assert_allclose(result.saved, saved)
    np.testing.assert_allclose(result.likely, likely)


@pytest.mark.parametrize(
    ("source", "trust"),
    [("ratios", 0.9), ("pc-samples", 0.81), ("rule text (partial)", 0.72), (None, 0.9)],
)
def test_confidence_follows_the_source_of_the_shares(source: str | None, trust: float) -> None:
    # Observed is 0.9; samples count 0.9 of it, sentences 0.8.
    result = judged(LONG, stall_long_scoreboard=0.5, issue_active_ceiling=0.2, stalls_from=source)
    np.testing.assert_allclose(result.trust, trust)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_reason_that_the_profilers_rule_did_not_mention_is_clear(rule: Rule) -> None:
    spoken = judged(rule, stalls_from="rule text (partial)", issue_active_ceiling=0.2)
    assert not spoken.unjudged.any()
    assert not spoken.fired.any()
    counted = judged(rule, stalls_from="ratios", issue_active_ceiling=0.2)
    assert counted.unjudged.all()


@pytest.mark.parametrize(
    ("id", "capability", "unjudged"),
    [
        ("stall-gmma", 8.0, False),
        ("stall-gmma", 9.0, True),
        ("stall-gmma", 10.0, False),
        ("stall-gmma", None, True),
        ("stall-imc-miss", 9.0, True),
        ("stall-imc-miss", 10.0, False),
        ("stall-imc-miss", None, True),
    ],
)
def test_a_reason_that_the_architecture_lacks_is_not_missing(
    id: str, capability: float | None, unjudged: bool
) -> None:
    result = judged(BY_ID[id], compute_capability=capability, issue_active_ceiling=0.2)
    assert result.unjudged.tolist() == [unjudged]


@pytest.mark.parametrize(
    "primary",
    ["dram-bound", "l2-bound", "l1-bound", "compute-bound", "communication", "launch-bound"],
)
def test_a_stall_never_speaks_at_a_wall(primary: str) -> None:
    values = {"issue_active_ceiling": 0.2, "compute_pct": 10.0, "primary_class": primary}
    for rule in RULES:
        assert not judged(rule, **{**values, rule.needs[0]: 0.9}).fired.any()
        assert judged(
            rule, **{**values, "primary_class": "balanced", rule.needs[0]: 0.9}
        ).fired.all()


def test_information_claims_no_time() -> None:
    informing = {rule.id for rule in RULES if rule.severity == "info"}
    assert informing == {"stall-not-selected", "stall-misc"}
    assert all(rule.saves is None for rule in RULES if rule.severity == "info")
