"""What experts forbid is held against topics and against the text."""

import pytest

from benchmarks import kernel_labels
from benchmarks.expert_labels import Label, Outcome
from tests.runs import recording
from traceroof.diagnosis.diagnose import diagnose


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


def test_what_must_not_be_said_of_a_kernel_is_found() -> None:
    """GIVEN a copy at 92 % of device memory WHEN its class, its first topic, a topic and a word are
    forbidden THEN each is found, and what is not said is not."""
    columns = {
        "kernel_name": ["copy(float*)"], "duration_ns": [1_000_000], "sm_throughput_pct": [10.0],
        "memory_throughput_pct": [92.0], "dram_throughput_pct": [92.0],
    }  # fmt: skip
    found = diagnose(recording(columns))
    rules = {
        "class": ["dram-bound", "compute-bound"],
        "first": ["dram-wall", "tail-wave"],
        "topics": ["dram-wall", "uncoalesced"],
        "words": [r"92(\.0)? %", "wavefront"],
    }
    said = kernel_labels._forbidden(rules, found.kernels[0], found.fired())
    assert [name for name, is_said in said.items() if is_said] == [
        "class dram-bound", "dram-wall first", "dram-wall said", r"says 92(\.0)? %",
    ]  # fmt: skip
    assert len(said) == 8
