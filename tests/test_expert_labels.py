"""What experts forbid is held against topics and against the text."""

import pytest

from benchmarks.expert_labels import Label, Outcome


def outcome(*topics: str, text: str = "") -> Outcome:
    label = Label(
        "hta_ns_resolution_rank-0.pt.trace.json.gz", "", "gemm-precision", frozenset(), None, "high"
    )
    return Outcome(label, topics, None, text)


@pytest.mark.parametrize(
    ("said", "what"),
    [
        (outcome("gemm-precision", "unfused-norm", "late-rank"), "late-rank in three"),
        (outcome("gemm-precision", text="run it in BF16"), "says BF16"),
    ],
)
def test_what_must_not_be_said_is_found(said: Outcome, what: str) -> None:
    assert [name for name, is_said in said.forbidden.items() if is_said] == [what]


def test_what_is_not_said_holds() -> None:
    said = outcome("gemm-precision", "unfused-norm", "a", "late-rank", text="run it in FP16")
    assert not any(said.forbidden.values())
    assert len(said.forbidden) > 5
