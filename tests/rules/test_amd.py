"""Rules on AMD's counters: what they save, whom they silence, what they say and to whom."""

from typing import Any

import numpy as np
import pytest

from tests.runs import recording
from traceroof.core.facts import Facts
from traceroof.core.recording import DeviceInfo
from traceroof.diagnosis.diagnose import diagnose
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.plugins import rules
from traceroof.rule import NOMINAL, UNCALIBRATED, judge

RULES = {rule.id: rule for rule in rules()}


@pytest.mark.parametrize(
    ("rule", "facts", "bound", "likely"),
    [
        # The share, while less than compute and memory leave: 1 - 0.45, and 1 - 0.45 / 0.85.
        ("amd-dependency-wait", {"wait_dependency": 0.5, "memory_pct": 45.0}, 0.5, 0.470588),
        ("amd-dependency-wait", {"wait_dependency": 0.9, "memory_pct": 45.0}, 0.55, 0.470588),
        ("amd-issue-wait", {"wait_issue": 0.4, "compute_pct": 20.0}, 0.4, 0.4),
        # Twice the wavefronts do not halve the time. Half of their slots were empty at most.
        (
            "amd-occ-vgpr",
            {"insufficient_vector_registers_pct": 30.0, "memory_pct": 20.0},
            0.3,
            0.15,
        ),
        (
            "amd-occ-vgpr",
            {"insufficient_vector_registers_pct": 94.9, "achieved_occupancy_pct": 49.9},
            0.501,
            0.2505,
        ),
        ("amd-fabric-bound", {"fabric_stalled_pct": 25.0, "memory_pct": 50.0}, 0.25, 0.25),
        ("amd-sched-pipe-stall", {"scheduler_pipe_stall_pct": 60.0, "memory_pct": 51.0}, 0.49, 0.4),
        # 64 lookups where 16 are enough at most: three quarters; 1 - 0.4 and 1 - 0.4 / 0.8 remain.
        ("amd-coalescing", {"lines_per_request": 64.0, "compute_pct": 10.0}, 0.75, 0.75),
        ("amd-coalescing", {"lines_per_request": 64.0, "compute_pct": 40.0}, 0.6, 0.5),
        # How many operations could go is not known.
        ("compute-valu-bound", {"pipe_valu_pct": 96.0}, np.nan, np.nan),
        # How often scratch or the instruction cache is missed is not known.
        ("amd-scratch", {"scratch_bytes_per_thread": 64.0}, np.nan, np.nan),
        ("amd-icache-miss", {"instruction_cache_hit_pct": 70.0}, np.nan, np.nan),
        # Half of the LDS cycles are conflicts, and LDS is busy in a fifth of the time.
        (
            "smem-bank-conflict",
            {"shared_conflict_pct": 50.0, "shared_memory_busy_pct": 20.0},
            0.1,
            0.1,
        ),
    ],
)
def test_share_of_the_time_saved(
    rule: str, facts: dict[str, Any], bound: float, likely: float
) -> None:
    known = Facts.of(({"vendor": "amd", **facts},), ("vendor", *facts))
    judged = judge(RULES[rule], known, UNCALIBRATED)
    assert judged.fired.all()
    assert judge(RULES[rule], known, NOMINAL).saved[0] == pytest.approx(bound, nan_ok=True)
    assert judged.likely[0] == pytest.approx(likely, rel=1e-5, nan_ok=True)


def test_no_rule_rests_on_busy_compute_units() -> None:
    # In a short kernel they look idle whatever it does.
    assert not [rule.id for rule in rules() if "cu_busy_pct" in rule.columns]


def _run(vendor: str | None = "amd", **columns: Any) -> Diagnosis:
    known = {
        "kernel_name": ["k(float*)"], "duration_ns": [2_000_000], "sm_throughput_pct": [20.0],
        # 3.2 GB in 2 ms: 40 % of 4 TB/s.
        "dram_bytes": [3.2e9], "peak_dram_bytes_per_s": [4e12],
    } | columns  # fmt: skip
    return diagnose(recording(known, devices=(DeviceInfo(vendor=vendor),)))


def _states(diagnosis: Diagnosis) -> dict[str, str]:
    return {one.rule: one.state for one in diagnosis.findings}


def test_what_counters_saw_outranks_what_the_launch_suggests() -> None:
    found = _run(
        insufficient_vector_registers_pct=[30.0],
        occupancy_limit_registers=[2], occupancy_limit_shared_memory=[8],
        occupancy_limit_blocks=[16], occupancy_limit_warps=[8], theoretical_occupancy_pct=[25.0],
        scheduler_pipe_stall_pct=[50.0],
    )  # fmt: skip
    states = _states(found)
    assert states["amd-occ-vgpr"] == "fired"
    assert states["occ-limited-registers"] == "suppressed"
    assert states["amd-sched-pipe-stall"] == "suppressed"


def test_samples_name_what_wait_fractions_only_add_up() -> None:
    coarse = _run(wait_dependency=[0.8], stalls_from=["wait fractions (coarse)"])
    assert _states(coarse)["amd-dependency-wait"] == "fired"
    sampled = _run(
        wait_dependency=[0.8], stalls_from=["pc-samples"], stall_long_scoreboard=[0.7],
        wave_issuing=[0.1], warps_active=[2.0],
    )  # fmt: skip
    states = _states(sampled)
    assert "amd-dependency-wait" not in states
    assert states["stall-long-scoreboard"] == "fired"


def test_occupancy_of_a_short_kernel_is_no_finding() -> None:
    occupancy: dict[str, Any] = {
        "theoretical_occupancy_pct": [100.0],
        "achieved_occupancy_pct": [30.0],
    }
    assert _states(_run(**occupancy))["occ-achieved-gap"] == "fired"
    short = _run(**occupancy, duration_ns=[900_000])
    assert "occ-achieved-gap" not in _states(short)
    assert _states(short)["amd-short-kernel"] == "fired"
    assert "amd-short-kernel" not in _states(_run(**occupancy))


def test_a_full_lds_is_a_wall_of_the_first_level() -> None:
    assert _run(shared_memory_busy_pct=[85.0]).kernels[0].primary_class == "l1-bound"
    assert _run(vector_l1_pct=[85.0]).kernels[0].primary_class == "l1-bound"
    found = _run(shared_memory_busy_pct=[30.0], vector_l1_pct=[40.0]).kernels[0]
    assert (found.primary_class, found.metrics["l1_pct"]) == ("latency-bound", 40.0)
    assert found.metrics["l1_basis"] == "elapsed"


def test_a_cache_alone_is_half_an_answer() -> None:
    found = _run(shared_memory_busy_pct=[5.0], dram_bytes=[None]).kernels[0]
    assert found.primary_class == "not-evaluable"


def test_texts_speak_of_wavefronts_on_amd_and_of_warps_elsewhere() -> None:
    shape = {"grid_x": [1], "grid_y": [1], "grid_z": [1], "block_x": [96], "block_y": [1],
             "block_z": [1], "sm_count": [304.0], "warp_size": [64.0]}  # fmt: skip
    for vendor, word, other in (("amd", "wavefront", "warp"), (None, "warp", "wavefront")):
        found = _run(vendor, **shape)
        texts = " ".join(
            text for one in found.fired() for text in (one.title, one.because, one.fix, one.refute)
        )
        assert word in texts.lower()
        assert other not in texts.lower()


def test_only_what_the_vendors_tool_collects_is_asked_for() -> None:
    on_amd = _run(dram_bytes=[None])
    asked = [one for one in on_amd.not_evaluable() if one.scope == "kernel"]
    assert asked
    assert all((one.command or "").startswith("rocprof-compute") for one in asked)
    assert not {one.rule for one in asked} & {"issue-slots-idle", "compute-fma-bound"}
    elsewhere = {one.rule for one in _run(None, dram_bytes=[None]).not_evaluable()}
    assert "issue-slots-idle" in elsewhere
    assert not [name for name in elsewhere if name.startswith("amd-")]
    hygon = [one for one in _run("hygon", dram_bytes=[None]).not_evaluable() if one.command]
    assert {(one.command or "").split()[0] for one in hygon} == {"hipprof"}


def test_the_wave_size_is_never_guessed_on_amd() -> None:
    block: dict[str, Any] = {"block_x": [48], "block_y": [1], "block_z": [1]}
    assert "warp_size" not in _run(**block).kernels[0].metrics
    assert "block-not-warp-multiple" in {one.rule for one in _run(**block).not_evaluable()}
    assert _run(None, **block).kernels[0].metrics["warp_size"] == 32
    assert "block-not-warp-multiple" not in _states(_run(**block, warp_size=[48.0]))
