"""Bounds that hold: what measured fixes taught, each a guard with a test of its own.

The figures are those of the programs that were measured before and after a fix.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.kernels.test_derived_metrics import value
from tests.runs import recording
from traceroof.core.recording import DeviceInfo
from traceroof.diagnosis.diagnose import diagnose
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.diagnosis.findings import Context
from traceroof.diagnosis.savings import saved
from traceroof.hardware.ceilings import NOMINAL
from traceroof.hardware.roofline import LEAST_LAUNCH_NS
from traceroof.plugins import rules
from traceroof.rule import Facts, Judgement, Rule, judge

BY_ID = {rule.id: rule for rule in rules()}


def judged(id: str, **values: Any) -> Judgement:
    rule = BY_ID[id]
    result = judge(rule, Facts.of(({**rule.fires[0], **values},), rule.columns))
    assert result.fired.all()
    return result


def of_columns(device: str = "NVIDIA A100-SXM4-80GB", **columns: Any) -> Diagnosis:
    rows = max(len(one) for one in columns.values())
    filled = {"kernel_name": ["mine(float*)"] * rows, **columns}
    return diagnose(recording(filled, devices=(DeviceInfo(name=device),)))


# ---------------------------------------------------------------- what bounds a change of algorithm


def test_a_busy_load_path_does_not_bound_tiles_in_registers() -> None:
    """A product at 97 % of the multiprocessor and 5 % of its FP32 peak lost 69 % of its time."""
    result = judged("no-register-reuse", compute_pct=97.3, duration_ns=9.59e6, flop_pct=5.3)
    assert result.saved[0] == pytest.approx(0.947)


def test_bytes_and_operations_do() -> None:
    # 134 MB at 1 TB/s are 134 of 200 us.
    work = {"compulsory_bytes": 134e6, "dram_peak_at_most": 1e12, "duration_ns": 2e5}
    assert judged("work-per-thread", **work).saved[0] == pytest.approx(1 - 134 / 200)
    assert judged("work-per-thread", **work, flop_pct=80.0).saved[0] == pytest.approx(0.2)


def test_a_launch_does() -> None:
    short = {"compulsory_bytes": 1e3, "dram_peak_at_most": 1e12, "duration_ns": 3_200.0}
    assert judged("work-per-thread", **short).saved[0] == pytest.approx(1 - LEAST_LAUNCH_NS / 3_200)


# ------------------------------------------------------------------------------ local speed-ups


def test_occupancy_is_no_saving() -> None:
    """Estimates of 42 and 39 % gained 21 and 15 %: what the bytes need stays, however many warps."""
    limits: dict[str, Any] = {
        f"occupancy_limit_{one}": [4.0] for one in ("blocks", "shared_memory", "warps")
    }
    found = of_columns(
        duration_ns=[1_000_000], sm_throughput_pct=[20.0], memory_throughput_pct=[74.0],
        dram_throughput_pct=[74.0], theoretical_occupancy_pct=[33.0], achieved_occupancy_pct=[32.0],
        occupancy_limit_registers=[1.0], **limits,
    )  # fmt: skip
    (one,) = [one for one in found.findings if one.rule == "occ-limited-registers"]
    assert one.bound_share == pytest.approx(0.26)


def test_the_profilers_own_estimate_is_no_saving() -> None:
    """The vendor's rule says 80 %; nothing of what is printed as a saving comes from it."""
    from traceroof.diagnosis.vendor_verdicts import VendorVerdict, capped

    verdict = VendorVerdict(
        section="SchedulerStats", rule="IssueSlotUtilization", level="OPT", text="", launches=1,
        classes=frozenset(), speedup_scope="global", speedup_pct=80.3,
    )  # fmt: skip
    ((kept,),) = capped([(verdict,)], [20.0])
    assert kept.estimate_pct == 20.0


# ------------------------------------------------------------------------------ memory accesses


@pytest.mark.parametrize(("dram_pct", "likely"), [(90.0, 0.1), (50.0, 0.5), (0.0, 1.0)])
def test_bank_conflicts_hide_behind_device_memory(dram_pct: float, likely: float) -> None:
    """A transpose lost 7.9 million conflicts and 0.8 % of its time, at 86 % of device memory."""
    conflicts = {"shared_conflict_pct": 94.0, "l1_throughput_pct": 37.0}
    result = judged("smem-bank-conflict", **conflicts, kernel_dram_pct=dram_pct)
    assert result.likely[0] == pytest.approx(0.94 * 0.37 * likely)


def test_conflicts_cost_what_the_shared_path_is_busy() -> None:
    # 50 % conflicts where LDS is busy 22 % of the time: 11 %, and padding made it slower.
    result = judged("smem-bank-conflict", shared_conflict_pct=50.0, shared_memory_busy_pct=22.0)
    assert result.saved[0] == pytest.approx(0.11)


def test_wasted_sectors_cost_what_memory_is_busy_with_them() -> None:
    """Strided loads that hit in the caches: three quarters of the sectors, and 9 % of the time."""
    result = judged(
        "uncoalesced-global", global_sectors_wasted_pct=75.0, memory_pct=12.0, dram_pct=12.0,
        l2_throughput_pct=10.0, kernel_dram_pct=12.0,
    )  # fmt: skip
    assert result.likely[0] == pytest.approx(0.75 * 0.12)


def test_wasted_sectors_cost_little_where_device_memory_carries_useful_bytes() -> None:
    """GIVEN an array of structures on an RTX 4090: half of each sector unused by its access, but used by
    the next; 33.5 MB loaded and half of as much stored in 65.5 µs, 76 % of 1008 GB/s (measured gain of
    the structure of arrays: 4 %)."""
    result = judged(
        "uncoalesced-global", global_sectors_wasted_pct=50.0, kernel_dram_pct=52.3,
        compulsory_bytes=33.5e6, carried_bytes=50.3e6, dram_peak_at_most=1008e9, duration_ns=65_504.0,
    )  # fmt: skip
    assert result.saved[0] == pytest.approx(1 - 33.5e6 / 1008e9 * 1e9 / 65_504)
    # At 85 % of the nominal bandwidth these bytes take 90 % of the time.
    assert result.likely[0] == pytest.approx(1 - 50.3e6 / 1008e9 * 1e9 / 65_504 / 0.85)


# ------------------------------------------------------------------------------------- stalls


def test_a_share_of_stalls_bounds_nothing_once_the_work_shrinks() -> None:
    """Barriers took 57 % of a reduction's cycles; with more work per thread it lost 75 %."""
    result = judged(
        "stall-barrier", stall_barrier=0.57, compute_pct=20.0, memory_pct=13.0, kernel_dram_pct=13.0
    )
    assert result.saved[0] == pytest.approx(0.8)
    assert result.likely[0] == pytest.approx(0.57)


# ------------------------------------------------------------------------------ waves and setup


def test_active_cycles_tell_what_waves_hide() -> None:
    """1.95 waves of a swizzled grid look full; multiprocessors hold a block for 72 % of the time."""
    found = of_columns(
        duration_ns=[112_000], sm_throughput_pct=[32.0], memory_throughput_pct=[28.0],
        waves_per_sm=[1.2], sm_active_pct=[71.7], grid_x=[332], grid_y=[1], grid_z=[1],
    )  # fmt: skip
    state = {one.rule: one.suppressed_by for one in found.findings if one.scope == "kernel"}
    assert state["tail-by-active-cycles"] is None
    assert state["tail-wave"] == "tail-by-active-cycles"


_FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>>(int)"
_NORMAL = "void at::native::distribution_elementwise_grid_stride_kernel<float, 4>(int)"


@pytest.mark.parametrize("longest", [_FILL, _NORMAL])
def test_the_longest_kernel_may_be_setup(longest: str) -> None:
    """GIVEN a fill or a set-up of random numbers that takes ten times as long as the work WHEN both
    are profiled THEN the work comes first, and nothing is to be gained from the other."""
    found = of_columns(
        kernel_name=[longest, "mine(float*)"], duration_ns=[10_000_000, 1_000_000],
        sm_throughput_pct=[20.0, 20.0], memory_throughput_pct=[50.0, 40.0],
        dram_throughput_pct=[50.0, 20.0], dram_write_bytes=[3e8, 1e7], dram_read_bytes=[1e5, 1e7],
        load_bytes_per_sector=[8.0, 8.0],
    )  # fmt: skip
    assert found.advice[0].found[0].subject == "mine(float*)"
    of_longest = [one for one in found.fired() if one.scope == "kernel" and one.subject == longest]
    assert [one.informs for one in of_longest] == [True]


def test_a_launch_floor_is_not_tuned() -> None:
    """A kernel of two blocks took 4.7 us with and without every change to its code."""
    found = of_columns(
        duration_ns=[4_700], sm_throughput_pct=[2.0], memory_throughput_pct=[2.0],
        dram_throughput_pct=[1.0], grid_x=[2], grid_y=[1], grid_z=[1], stall_long_scoreboard=[0.8],
        load_bytes_per_sector=[8.0],
    )  # fmt: skip
    assert [one.topic for one in found.fired() if one.scope == "kernel"] == ["problem-too-small"]


def test_times_of_a_counter_tool_are_cold() -> None:
    """Nsight Compute flushes the caches: 6.75 us of a launch that takes 3.74 us in the program."""
    counters = of_columns(
        duration_ns=[6_750], sm_throughput_pct=[9.2], memory_throughput_pct=[19.7],
        dram_throughput_pct=[19.7],
    )  # fmt: skip
    (one,) = [one for one in counters.fired() if one.rule == "problem-too-small"]
    assert "cold caches" in one.refute
    assert counters.time_basis == "counter-tool"


# ------------------------------------------------------------------------------ what is unknown


def test_an_unknown_level_of_memory_is_no_room() -> None:
    l2 = {"l2_throughput_pct": 90.0, "dram_pct": None, "compute_pct": 40.0, "memory_pct": 90.0}
    assert np.isnan(judged("l2-bound", **l2).saved[0])
    assert judged("l2-bound", **l2, kernel_dram_pct=70.0).saved[0] == pytest.approx(0.3)


def test_a_busy_vector_unit_has_no_bound() -> None:
    """How many of its operations could go nobody knows: 1 - 60/99 is a threshold, not physics."""
    assert BY_ID["compute-valu-bound"].saves is None
    assert BY_ID["compute-fma-bound"].saves is None


def test_tensor_operations_that_nobody_counted_are_unknown() -> None:
    """The scalar operations of a tensor-core kernel are its epilogue and no share of its work."""
    epilogue: dict[str, Any] = {"flop_fp32": 1e9, "duration_ns": 1e6, "dram_bytes": 1e8}
    tensor = {**epilogue, "kernel_name": "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_nn"}
    for name in ("flops", "flop_pct", "intensity"):
        assert value(name, "A100-SXM4-80GB", **tensor) is None
        assert value(name, "A100-SXM4-80GB", **epilogue) is not None
        # The pipe was idle: there is nothing to count.
        assert value(name, "A100-SXM4-80GB", **tensor, pipe_tensor_pct=0.0) is not None
    assert value("flops", "A100-SXM4-80GB", **tensor, flop_tensor=1e12) == 1.001e12
    # Whatever the name says, the pipe worked.
    assert value("flops", "A100-SXM4-80GB", **epilogue, pipe_tensor_pct=40.0) is None


# ------------------------------------------------------------------- the property, for every rule

#: Rules whose fix changes what must move or be computed: their own model is the floor.
OWN_FLOOR = {
    "block-shape-measured": "the faster shape was measured in the file",
    "excess-traffic": "bytes beyond the operator's model go",
    "im2col-traffic": "the copy of the input goes",
    "input-read-again": "bytes of the second reading go",
    "roofline-headroom": "the model's least time is the bound",
    "roofline-headroom-attention": "the model's least time is the bound",
    "roofline-headroom-bytes": "the model's least time is the bound",
    "roofline-headroom-stated": "the stated work's least time is the bound",
    "attn-decode-kv": "the model's least time is the bound",
    "attn-prefill-compute": "the model's least time is the bound",
    "gemv-decode-gemm": "the model's bytes are the bound",
    "depthwise-conv": "the model's bytes are the bound",
    "moe-small-groups": "the model's bytes are the bound",
    "misaligned-128": "sectors that are fetched twice go",
    "partial-sector-writes": "the reads that fill partial sectors go",
    "amd-coalescing": "cache lines that are looked up twice go",
    "single-kernel-dominates": "it only says where the time is",
    "dram-at-wall": "it only says what is left to the nominal peak",
}
JUDGED = [
    rule
    for rule in rules()
    if rule.scope == "kernel" and rule.saves and rule.kind != "option" and rule.id not in OWN_FLOOR
]
_PEAK = 1e12
_CONTEXT = Context(
    total_ns=1e12, attainable=NOMINAL, calibrated=False, few_matter=False, vendor="nvidia"
)


def test_every_exception_is_a_rule() -> None:
    assert set(OWN_FLOOR) <= set(BY_ID)


@pytest.mark.parametrize("rule", JUDGED, ids=lambda rule: str(rule.id))
@settings(max_examples=20)
@given(
    duration_ns=st.floats(1e3, 1e9),
    memory=st.just(0.0) | st.floats(1e-6, 1),
    arithmetic=st.just(0.0) | st.floats(1e-6, 1),
    launches=st.sampled_from([1.0, 3.0]),
)
@example(duration_ns=1_000.0, memory=0.0, arithmetic=0.0, launches=1.0)
@example(duration_ns=1e6, memory=1.0, arithmetic=0.0, launches=1.0)
@example(duration_ns=1e6, memory=0.0, arithmetic=1.0, launches=3.0)
def test_no_bound_is_longer_than_the_time_that_the_work_can_spare(
    rule: Rule, duration_ns: float, memory: float, arithmetic: float, launches: float
) -> None:
    """GIVEN any kernel on which a rule fires THEN its bound is at most the time less the longest of:
    bytes that must move over the peak, operations over theirs, and a launch."""
    moved = memory * duration_ns * 1e-9 * _PEAK
    work = {
        "duration_ns": duration_ns, "time_ns": launches * duration_ns, "launches": launches,
        "dram_bytes": moved, "compulsory_bytes": moved, "dram_peak_at_most": _PEAK,
        "dram_peak_bytes_per_s": _PEAK, "kernel_dram_pct": 100 * memory,
        "flop_pct": 100 * arithmetic, "product_flop_pct": 100 * arithmetic,
        "dram_pct": 100 * memory, "median_ns": duration_ns,
    }  # fmt: skip
    names = tuple(dict.fromkeys([*rule.columns, *work]))
    facts = Facts.of(tuple({**one, **work} for one in rule.fires), names)
    made = saved(judge(rule, facts), facts, _CONTEXT)
    needed = launches * max(memory * duration_ns, arithmetic * duration_ns, LEAST_LAUNCH_NS)
    room = max(launches * duration_ns - needed, 0.0)
    for figure in (made.bound, made.likely):
        known = figure[~np.isnan(figure)]
        assert (known <= room + 1e-6 * launches * duration_ns).all(), rule.id


def test_a_start_without_calls_of_the_host_is_half_as_sure() -> None:
    """The place of the gaps is all that tells of it."""
    trust = BY_ID["cold-start"].trust
    assert trust is not None
    found = ({"linked_activities": 0.0}, {"linked_activities": 900.0})
    activities = Facts.of(found, ("linked_activities",))
    assert trust(activities).tolist() == [0.5, 1.0]


# ------------------------------------------------------------------- the path of loads and stores


def test_compute_use_by_loads_alone_does_not_bound_what_register_tiles_save() -> None:
    """Three products of 4096 x 4096 on an H20: 41.0 ms from global memory, 6.18 ms with tiles in
    registers; the first shows 73.5 % compute use, all of it loads."""
    naive = {"l1_pct": 73.9, "compute_pct": 73.49, "load_path_pct": 73.49, "kernel_dram_pct": 4.4}
    assert judged("l1-smem-bound", **naive).saved[0] == pytest.approx(0.956)
    assert 1 - 6.18 / 41.0 < 0.956
    # Operations that were counted bound it, and so do pipes that are less busy than loads.
    assert judged("l1-smem-bound", **naive, flop_pct=18.0).saved[0] == pytest.approx(0.82)
    assert judged("l1-smem-bound", **naive, sm_busy_pct=33.4).saved[0] == pytest.approx(0.666)


def test_l1_full_of_loads_is_no_full_arithmetic() -> None:
    """An RTX 4090 on shared memory alone: 99.68 % compute, as much memory, issue slots 28.6 %."""
    found = of_columns(
        "NVIDIA GeForce RTX 4090",
        duration_ns=[5_030_000], sm_throughput_pct=[99.68], memory_throughput_pct=[99.68],
        l1_throughput_pct=[99.73], l2_throughput_pct=[23.9], dram_throughput_pct=[56.91],
        sm_busy_pct=[33.44],
    )  # fmt: skip
    assert found.kernels[0].primary_class == "l1-bound"
    assert found.advice[0].topic == "l1-traffic"


def test_a_compute_wall_without_pipes_is_said_and_nothing_else() -> None:
    """A tensor-core product on a T4 with the SpeedOfLight section alone."""
    found = of_columns(
        "Tesla T4",
        duration_ns=[671_870], sm_throughput_pct=[83.64], memory_throughput_pct=[38.47],
        l1_throughput_pct=[76.95], l2_throughput_pct=[27.71], dram_throughput_pct=[24.57],
    )  # fmt: skip
    assert [one.rule for one in found.findings if one.state == "fired"] == ["compute-at-wall"]


def test_spills_by_the_profilers_own_share_are_worth_that_of_the_busy_memory() -> None:
    """45 % of the requests to L1 are due to spilling while memory is busy 66 % of the time."""
    facts = {"spill_overhead_pct": 45.0, "registers_per_thread": 64.0, "threads_per_block": 256.0}
    result = judged("register-spill", **facts, l1_bytes=None, memory_pct=66.0)
    assert result.saved[0] == pytest.approx(0.45 * 0.66)
    # Fewer registers for more occupancy would spill more.
    assert "occ-limited-registers" in BY_ID["register-spill"].suppresses
