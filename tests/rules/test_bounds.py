"""What each rule of class and launch says can be saved: at nominal peaks, and likely (0.85, 0.80)."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import traceroof
from traceroof.errors import TraceroofError
from traceroof.plugins import rules
from traceroof.rule import Facts, judge

BY_ID = {rule.id: rule for rule in rules()}
NONE = float("nan")

BOUNDS: list[tuple[str, dict[str, float | str], float, float]] = [
    # 1 - 0.8415; at 85 % of nominal nothing is left.
    ("dram-at-wall", {"dram_pct": 84.15}, 0.1585, 0.01),
    ("dram-at-wall", {"dram_pct": 92.0}, 0.08, 0.0),
    # max(0.68/1, 0.2/1) = 0.68; likely max(0.68/0.85, 0.2/0.8) = 0.8.
    (
        "dram-leaning-headroom",
        {"dram_pct": 68.0, "memory_pct": 68.0, "compute_pct": 20.0},
        0.32,
        0.20,
    ),
    # The next wall is compute, 0.4 and 0.4/0.8; DRAM 0.17 and 0.17/0.85.
    ("l2-bound", {"l2_throughput_pct": 90.0, "kernel_dram_pct": 17.0, "compute_pct": 40.0}, 0.6, 0.5),
    ("l2-bound", {"l2_throughput_pct": 90.0}, NONE, NONE),
    # Loads and stores fill the compute side: the second pipe counts instead, 0.24 and 0.24/0.8.
    (
        "l1-smem-bound",
        {
            "l1_pct": 90.0,
            "compute_pct": 88.0,
            "top_pipe": "lsu",
            "top_pipe_pct": 88.0,
            "second_pipe_pct": 24.0,
        },
        0.76,
        0.70,
    ),
    ("l1-smem-bound", {"l1_pct": 90.0, "compute_pct": 40.0, "vendor": "amd"}, 0.6, 0.5),
    ("l1-smem-bound", {"l1_pct": 90.0, "compute_pct": 40.0, "sm_busy_pct": 40.0}, 0.6, 0.5),
    # Without pipes compute use may be that of loads: device memory bounds it, 0.2 and 0.2 / 0.85.
    (
        "l1-smem-bound",
        {"l1_pct": 90.0, "compute_pct": 64.0, "kernel_dram_pct": 20.0, "category": "other"},
        0.8,
        1 - 0.64 / 0.8,
    ),
    # Tiles in registers saved 83 % of a product at 64 % compute use: half of the room at least.
    (
        "l1-smem-bound",
        {"l1_pct": 96.0, "compute_pct": 64.0, "kernel_dram_pct": 0.0, "category": "gemm"},
        1.0,
        0.5,
    ),
    ("l1-smem-bound", {"l1_pct": 90.0, "compute_pct": 60.0, "sm_busy_pct": 20.0}, 0.8, 0.75),
    # Twice the rate: 0.88 of the peak now is 0.44 of the narrower type's, 0.55 of what is likely.
    (
        "compute-tensor-bound",
        {"tensor_pct": 88.0, "pipe_tensor_pct": 88.0, "narrower_speedup": 2.0},
        0.56,
        0.45,
    ),
    ("compute-tensor-bound", {"tensor_pct": 88.0, "pipe_tensor_pct": 88.0}, NONE, NONE),
    ("compute-fma-bound", {"pipe_fma_pct": 80.0}, NONE, NONE),
    ("compute-xu-bound", {"pipe_xu_pct": 80.0}, 0.25, 0.25),
    ("compute-xu-bound", {"pipe_xu_pct": 45.0, "stall_mio_throttle": 0.5}, NONE, NONE),
    # Memory is next: 0.51 and 0.51/0.85; the second pipe has 0.4 and 0.4/0.8.
    (
        "compute-alu-bound",
        {
            "pipe_alu_pct": 90.0,
            "pipe_fma_pct": 40.0,
            "top_pipe": "alu",
            "top_pipe_pct": 90.0,
            "second_pipe_pct": 40.0,
            "memory_pct": 51.0,
        },
        0.49,
        0.40,
    ),
    (
        "compute-lsu-bound",
        {
            "pipe_lsu_pct": 90.0,
            "top_pipe": "lsu",
            "top_pipe_pct": 90.0,
            "second_pipe_pct": 40.0,
            "dram_pct": 34.0,
        },
        0.60,
        0.50,
    ),
    # 1e9 of 4e9 operations are FP64: 0.25 x (1 - 1/32) x 0.96 = 0.2325.
    (
        "compute-fp64-bound",
        {"pipe_fp64_use_pct": 96.0, "flop_fp64": 1e9, "flop_fp32": 3e9, "fp64_ratio": 1 / 32},
        0.2325,
        0.2325,
    ),
    # Operations not counted: all of them may be FP64. 1 x (1 - 1/2) x 0.6.
    ("compute-fp64-bound", {"pipe_fp64_use_pct": 60.0, "fp64_ratio": 0.5}, 0.3, 0.3),
    ("compute-fp64-bound", {"pipe_fp64_use_pct": 60.0}, NONE, NONE),
    # (90 - 18) / 90 x 0.75.
    (
        "slow-pipe-limiter",
        {"sm_busy_pct": 90.0, "issue_slots_busy_pct": 18.0, "compute_pct": 75.0},
        0.6,
        0.6,
    ),
    # max(0.64, 0.68); likely max(0.64/0.8, 0.68/0.85) = 0.8.
    ("balanced-high", {"compute_pct": 64.0, "memory_pct": 68.0}, 0.32, 0.2),
    (
        "latency-bound",
        {"primary_class": "latency-bound", "compute_pct": 40.0, "memory_pct": 17.0},
        0.6,
        0.5,
    ),
    (
        "aperture-remote-bound",
        {"remote_memory_pct": 90.0, "l2_throughput_pct": 51.0, "memory_pct": 51.0},
        0.49,
        0.4,
    ),
    # Of the 90 % of the time in which kernels run: (1 - 0.34) x 0.9, (1 - 0.34/0.85) x 0.9.
    (
        "gpu-busy-not-efficient",
        {"busiest_pct": 34.0, "gpu_busy_pct": 95.0, "kernel_time_ns": 90.0, "time_ns": 100.0},
        0.594,
        0.54,
    ),
    # Empty multiprocessors: 1 - 27/108, which is less than what the busier side leaves.
    (
        "small-grid",
        {"waves": 0.1, "blocks": 27.0, "sm_count": 108.0, "compute_pct": 5.0, "memory_pct": 5.0},
        0.75,
        0.75,
    ),
    # Every multiprocessor has a block, the wave is not full: 1 - 0.6.
    ("small-grid", {"waves": 0.6, "blocks": 130.0, "sm_count": 108.0}, 0.4, 0.4),
    ("small-grid", {"waves": 0.1, "compute_pct": 64.0}, 0.36, 0.2),
    # One block more than a wave of 108.
    ("tail-wave", {"waves": 109 / 108}, 1 - 109 / 216, 1 - 109 / 216),
    ("tail-wave", {"waves": 1.2, "memory_pct": 68.0}, 0.32, 0.2),  # 1 - 1.2/2 = 0.4
    # Nsight Compute's formula: 100 threads in 4 warps, (1/4) x (1 - 4/32).
    ("block-not-warp-multiple", {"threads_per_block": 100.0, "warp_size": 32.0}, 0.21875, 0.21875),
    ("block-not-warp-multiple", {"threads_per_block": 96.0, "warp_size": 64.0}, 0.25, 0.25),
    (
        "grid-lt-2sm",
        {"blocks": 108.0, "sm_count": 108.0, "stall_barrier": 0.3, "compute_pct": 60.0},
        0.3,
        0.25,
    ),
    # min(1 - theoretical, 1 - busiest, 1 - issue): 0.5, 0.6, 0.7; likely 0.5, 0.5, 0.7.
    (
        "occ-limited-registers",
        {
            "theoretical_occupancy_pct": 50.0,
            "compute_pct": 40.0,
            "memory_pct": 34.0,
            "issue_active": 0.3,
            "occupancy_limit_registers": 2.0,
            "occupancy_limit_shared_memory": 4.0,
            "occupancy_limit_blocks": 32.0,
            "occupancy_limit_warps": 8.0,
        },
        0.5,
        0.5,
    ),
    (
        "occ-achieved-gap",
        {
            "theoretical_occupancy_pct": 80.0,
            "achieved_occupancy_pct": 60.0,
            "compute_pct": 20.0,
            "memory_pct": 20.0,
        },
        0.25,  # (80 - 60) / 80
        0.25,
    ),
    (
        "occ-low-but-fine",
        {"achieved_occupancy_pct": 12.0, "busiest_pct": 90.0},
        NONE,
        NONE,
    ),
    ("imbalance-dram", {"imbalance_dram_pct": 12.0, "compute_pct": 50.0}, 0.12, 0.12),
    ("imbalance-sm", {"imbalance_sm_pct": 40.0, "compute_pct": 72.0}, 0.28, 0.1),
    # Full warps need 16/32 of the instructions, which keep the pipes busy for half of 50 % of the
    # time; likely is what the lanes waste of the busy half: (1 - 16/32) x 0.5.
    (
        "thread-divergence",
        {
            "threads_per_instruction": 20.0,
            "threads_per_instruction_predicated": 16.0,
            "warp_size": 32.0,
            "compute_pct": 50.0,
        },
        0.75,
        0.25,
    ),
    ("issue-slots-idle", {"issue_active": 0.4, "compute_pct": 34.0, "memory_pct": 17.0}, 0.6, 0.575),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "facts", "at_most", "likely"), BOUNDS)
def test_share_of_the_time_saved(
    rule: str, facts: dict[str, Any], at_most: float, likely: float
) -> None:
    judgement = judge(BY_ID[rule], Facts.of((facts,), BY_ID[rule].columns))
    assert judgement.fired.all()
    np.testing.assert_allclose(judgement.saved, [at_most], atol=1e-12)
    np.testing.assert_allclose(judgement.likely, [likely], atol=1e-12)


def test_every_limit_that_ties_is_named() -> None:
    limits = {"registers": 2.0, "shared_memory": 2.0, "blocks": 16.0, "warps": 4.0, "barriers": 2.0}
    facts = {
        "primary_class": "latency-bound",
        "compute_pct": 20.0,
        "memory_pct": 20.0,
        "theoretical_occupancy_pct": 50.0,
        **{f"occupancy_limit_{name}": value for name, value in limits.items()},
    }
    named = {
        rule.id
        for rule in BY_ID.values()
        if rule.id.startswith("occ-limited-")
        and judge(rule, Facts.of((facts,), rule.columns)).fired.all()
    }
    assert named == {"occ-limited-registers", "occ-limited-smem", "occ-limited-barriers"}


@pytest.mark.parametrize(("capability", "unjudged"), [(9.0, True), (8.9, False), (None, False)])
def test_barriers_are_asked_for_only_where_profilers_report_them(
    capability: float | None, unjudged: bool
) -> None:
    rule = BY_ID["occ-limited-barriers"]
    facts = {**rule.fires[0], "compute_capability": capability, "occupancy_limit_barriers": None}
    judgement = judge(rule, Facts.of((facts,), rule.columns))
    assert judgement.unjudged.tolist() == [unjudged]
    assert not judgement.fired.any()


LEAST = [rule for rule in rules() if "compulsory_bytes" in rule.columns and rule.saves]


@given(
    duration_ns=st.floats(1e3, 1e10),
    compulsory_bytes=st.floats(0, 1e12),
    flop_pct=st.floats(0, 100),
    compute_pct=st.floats(0, 59),
)
def test_no_change_of_the_algorithm_saves_what_bytes_operations_and_a_launch_need(
    duration_ns: float, compulsory_bytes: float, flop_pct: float, compute_pct: float
) -> None:
    """GIVEN any work and time THEN the bound leaves the longest of: the bytes that must move once at
    1 TB/s, the operations at their peak, 1.6 µs of a launch."""
    needed = max(compulsory_bytes / 1e12 * 1e9, flop_pct / 100 * duration_ns, 1600.0)
    for rule in LEAST:
        work = {
            "duration_ns": duration_ns,
            "compulsory_bytes": compulsory_bytes,
            "dram_peak_at_most": 1e12,
            "flop_pct": flop_pct,
        }
        result = judge(rule, Facts.of(({**rule.fires[0], **work},), rule.columns))
        for saved in (*result.saved, *result.likely):
            assert np.isnan(saved) or saved <= max(1 - needed / duration_ns, 0) + 1e-9, rule.id


@pytest.mark.corpus
def test_no_kernel_of_the_corpus_is_promised_more(corpus: Path) -> None:
    """The same over real profiles, whatever the rule."""
    judged = 0
    for path in sorted([*corpus.glob("known_faults/*/*.csv"), *corpus.glob("ncu_csv/*.csv")]):
        try:
            found = traceroof.diagnose(path, calibrated=False)
        except TraceroofError:
            continue
        assert found.grounds is not None
        see = found.grounds.scopes["kernel"].facts.only(
            ("duration_ns", "compulsory_bytes", "dram_peak_at_most", "flop_pct")
        )
        memory = see.compulsory_bytes / see.dram_peak_at_most * 1e9
        needed = np.fmax(np.fmax(memory, see.flop_pct / 100 * see.duration_ns), 1600.0)
        left = 1 - needed / see.duration_ns
        for one in found.fired():
            # What was read is taken to be needed; that rule shows that it is not.
            counted = one.kind != "option" and one.rule != "input-read-again"
            if one.scope == "kernel" and one.bound_share is not None and counted:
                room = left[one.subject_index or 0]
                assert np.isnan(room) or one.bound_share <= max(room, 0) + 0.005, (path, one.rule)
                judged += 1
    assert judged > 100
