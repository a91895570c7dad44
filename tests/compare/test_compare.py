"""Two runs in, what changed out: samples, pairs, verdicts, and what keeps times from comparing."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import traceroof
from tests.runs import recording, two_kernels
from tests.sides import A100, PROGRAM, one_run, repeated, side, stepped
from traceroof.compare import Comparison, compare
from traceroof.compare.changes import Change
from traceroof.compare.gates import accepted, checked, failures
from traceroof.compare.noise_threshold import Thresholds
from traceroof.config import Accepted, Settings
from traceroof.core.recording import DeviceInfo, Run
from traceroof.errors import TraceroofError
from traceroof.report.common import json as json_report
from traceroof.rule import SEVERITIES

FIVE = (1.00, 1.01, 0.99, 1.00, 1.01)
SLOW = {**PROGRAM, "small(float*)": (30, 11_000)}  # +0.3 ms of 6 ms


def kernel(comparison: Comparison, start: str) -> Change:
    (found,) = [one for one in comparison.kernels if one.name.startswith(start)]
    return found


def rules(comparison: Comparison) -> set[str]:
    return {one.rule for one in comparison.fired()}


# Samples


def test_five_runs_a_side_find_a_kernel_that_got_ten_percent_slower() -> None:
    made = compare(repeated(FIVE), repeated(FIVE, SLOW))
    assert [made.sampled, made.samples, made.per] == ["runs", (5, 5), "run"]
    small = kernel(made, "small")
    assert [small.verdict, small.basis] == ["regressed", "time"]
    # 30 launches of 10 and 11 µs, as the median run has factor 1.00.
    assert [small.base.median_ns, small.head.median_ns] == [300_000, 330_000]
    assert [small.delta_ns, small.speed_ns, small.mix_ns] == [30_000, 30_000, 0]
    assert small.share == pytest.approx(330 / 6000)
    assert small.p == pytest.approx(2 / 252)
    assert made.verdict == "regressed"
    assert [one.verdict for one in made.kernels] == ["regressed", "unchanged", "unchanged"]
    assert "cmp-kernel-regressed" in rules(made)


def test_the_same_program_again_is_noise_only() -> None:
    made = compare(repeated(FIVE), repeated((0.99, 1.00, 1.01, 1.00, 1.00)))
    assert made.verdict == "unchanged"
    assert "cmp-noise-only" in rules(made)
    assert not made.of("regressed", "improved", "inconclusive")


def test_one_run_a_side_decides_twenty_percent_of_the_whole_and_nothing_less() -> None:
    base = side([one_run()])
    for factor, verdict in ((1.01, "unchanged"), (1.19, "inconclusive"), (1.21, "regressed")):
        made = compare(base, side([one_run(factor=factor)]))
        assert made.verdict == verdict, factor
        assert made.sampled == "none"
        assert not made.of("regressed"), "a kernel is never judged by one run's time"
    assert kernel(made, "sgemm").reason == "one run per side; a verdict needs 5 runs per side"


def test_steps_of_one_run_gate_on_the_step_time_alone() -> None:
    slow = {**PROGRAM, "small(float*)": (30, 13_000)}  # +30 % of 5 % of the time: +1.5 %
    made = compare(stepped(6), stepped(6, slow))
    assert [made.sampled, made.samples, made.verdict] == ["steps", (6, 6), "unchanged"]
    assert failures(made, ("regression", *SEVERITIES)) == []
    small = kernel(made, "small")
    assert [small.verdict, small.delta_ns] == ["inconclusive", 90_000]
    assert small.reason == "one run per side; a verdict needs 5 runs per side"
    (other,) = [one for one in made.categories if one.name == small.category]
    assert [other.verdict, other.reason] == ["inconclusive", small.reason]
    # 7.073 ms and 60 % of 4 ms more.
    made = compare(stepped(6), stepped(6, {**PROGRAM, "sgemm_big(float*)": (10, 640_000)}))
    assert made.verdict == "regressed"
    assert failures(made, ("regression",)) == ["regression: step time"]


def test_idle_time_of_one_run_is_shown_and_is_no_gate() -> None:
    made = compare(stepped(6), stepped(6, gap_ns=1_700_000))
    # 0.7 of 7.073 ms: 9.9 %.
    assert made.verdict == "inconclusive"
    assert "cmp-idle-up" in rules(made)
    assert failures(made, SEVERITIES) == []
    assert len(failures(made, ("finding:cmp-idle-up",))) == 1, "asked for by name"


def test_a_run_that_recorded_more_steps_is_compared_step_by_step() -> None:
    made = compare(stepped(3), stepped(6))
    assert [made.per, made.sampled, made.samples] == ["step", "steps", (3, 6)]
    assert made.verdict == "unchanged"
    assert [one.base.launches for one in made.kernels] == [10, 34, 30]
    assert made.kernel_time.base.median_ns == 6_000_000
    # 6 ms in 74 launches, 1 µs between them, 1 ms to the next step; the last step has no next.
    assert [made.total.name, made.total.base.median_ns] == ["step time", 7_073_000]


def test_without_steps_more_recorded_work_does_not_compare() -> None:
    twice = {name: (2 * count, time) for name, (count, time) in PROGRAM.items()}
    made = compare(side([one_run()]), side([one_run(twice)]))
    assert made.verdict == "not-comparable"
    assert [str(one) for one in made.differences] == [
        "recorded work: 1 times the launches → 2 times"
    ]
    more = {**PROGRAM, "small(float*)": (60, 10_000)}
    assert compare(side([one_run()]), side([one_run(more)])).compared


def test_files_of_ranks_are_one_run_and_repetitions_are_several() -> None:
    ranks = side([one_run(rank=0), one_run(rank=1)])
    assert compare(ranks, ranks).samples == (1, 1)
    twice = side([one_run(rank=rank, start_ns=at * 10**9) for at in (0, 1) for rank in (0, 1)])
    made = compare(twice, twice)
    assert [made.sampled, made.samples] == ["runs", (2, 2)]
    # Both ranks count: 2 x 6 ms.
    assert made.kernel_time.base.median_ns == 12_000_000


def test_gpus_at_once_are_one_run_and_in_turn_they_are_two() -> None:
    other = replace(A100, index=1)
    at_once = side([one_run(), one_run(device=other)])
    assert compare(at_once, at_once).samples == (1, 1)
    in_turn = side([one_run(), one_run(device=other, start_ns=10**9)])
    assert compare(in_turn, in_turn).samples == (2, 2)


def test_a_run_that_lacks_a_rank_is_left_out() -> None:
    three = side([one_run(rank=0), one_run(rank=1), one_run(rank=0, start_ns=10**9)])
    made = compare(three, three)
    assert made.samples == (1, 1)
    assert made.notes == tuple(
        f"{name}: 1 runs lack a rank that others have, and are left out"
        for name in ("base", "head")
    )
    assert made.kernel_time.base.median_ns == 12_000_000


def test_files_that_hold_different_kernels_are_parts_of_one_run() -> None:
    parts = side(
        [one_run({name: work}, time_basis="counter-tool") for name, work in PROGRAM.items()]
    )
    made = compare(parts, parts)
    assert made.samples == (1, 1)
    assert "3 files that hold different kernels" in made.notes[0]
    assert made.kernel_time.base.median_ns == 6_000_000


def test_noise_between_runs_is_not_called_a_change() -> None:
    """30 comparisons of 5 against 5 runs with 2 % jitter of each kernel, through the whole line."""
    generator = np.random.default_rng(5)

    def noisy() -> Run:
        runs = []
        for at in range(5):
            program = {
                name: (count, round(time * (1 + 0.02 * generator.standard_normal())))
                for name, (count, time) in PROGRAM.items()
            }
            runs.append(one_run(program, start_ns=at * 10**9))
        return side(runs)

    words = [one.verdict for _ in range(30) for one in compare(noisy(), noisy()).kernels]
    assert words.count("regressed") + words.count("improved") <= 2  # of 90
    assert words.count("unchanged") >= 75


# Pairs


def test_another_kernel_for_the_same_operator_is_a_substitute() -> None:
    def with_operator(name: str, time: int) -> Run:
        operator = {"operator": {name: "aten::mm"}, "input_shapes": {name: "[[8,8],[8,8]]"}}
        program = {name: (10, time), "copy_medium(float*)": (34, 50_000)}
        return side(
            [one_run(program, f, start_ns=at * 10**9, columns=operator)
             for at, f in enumerate(FIVE)]
        )  # fmt: skip

    made = compare(
        with_operator("sgemm_64(float*)", 400_000), with_operator("hgemm(half*)", 300_000)
    )
    tuned = kernel(made, "hgemm")
    assert tuned.pair is not None
    assert [tuned.pair.by, tuned.pair.trust, tuned.verdict] == ["inputs", 0.7, "improved"]
    assert {"cmp-kernel-substituted", "cmp-improved"} <= rules(made)
    assert made.verdict == "improved"


def test_kernels_of_one_side_are_new_or_gone() -> None:
    base = {**PROGRAM, "lost_alone(int)": (2, 100_000)}
    head = {**PROGRAM, "fresh_alone(int)": (3, 100_000)}
    made = compare(repeated(FIVE, base), repeated(FIVE, head))
    assert [kernel(made, "lost").verdict, kernel(made, "fresh").verdict] == ["gone", "new"]
    assert [kernel(made, "lost").delta_ns, kernel(made, "fresh").delta_ns] == [-200_000, 300_000]
    assert {"cmp-new-kernel", "cmp-vanished-kernel"} <= rules(made)


def single(name: str, time: int, **more: float) -> Run:
    """One launch of a counter tool."""
    columns = {column: {name: value} for column, value in more.items()}
    return side([one_run({name: (1, time)}, time_basis="counter-tool", columns=columns)])


def test_programs_without_a_kernel_in_common_are_not_faster_or_slower() -> None:
    """9.59 ms against 6.75 µs is no improvement: these are two programs."""
    one, other = single("gemm_naive(float*)", 9_590_000), single("cutlass_x(int)", 6_750)
    for base, head in ((one, other), (other, one)):
        made = compare(base, head)
        assert {one.verdict for one in made.kernels} == {"new", "gone"}
        assert [made.verdict, made.total.verdict] == ["inconclusive", "inconclusive"]
        assert made.total.reason == "the runs have no kernel in common"
        assert not {"cmp-step-regressed", "cmp-improved"} & rules(made)


def test_one_launch_of_a_counter_tool_decides_no_more_for_the_whole_than_for_itself() -> None:
    base = single("sgemm(float*)", 400_000)
    made = compare(base, single("sgemm(float*)", 200_000))
    assert [one.verdict for one in made.kernels] == ["inconclusive"]
    assert made.verdict == "inconclusive"
    assert "no kernel has a verdict" in made.total.reason
    # What counters decide, the whole may rest on.
    slower = compare(
        single("sgemm(float*)", 400_000, registers_per_thread=64.0),
        single("sgemm(float*)", 800_000, registers_per_thread=128.0),
    )
    assert [one.basis for one in slower.kernels] == ["counters"]
    assert slower.verdict == "regressed"
    # A timeline's run counts from 20 % on.
    whole = compare(
        side([one_run({"sgemm(float*)": (9, 400_000)})]),
        side([one_run({"sgemm(float*)": (9, 200_000)})]),
    )
    assert whole.verdict == "improved"


# Reasons


def counted(**columns: Mapping[str, float | str]) -> Run:
    """One run of a counter tool."""
    filled = {
        column: {name: values.get(name, values["else"]) for name in PROGRAM}
        for column, values in columns.items()
    }
    return side([one_run(time_basis="counter-tool", columns=filled)])


@pytest.mark.parametrize(
    ("column", "base", "head", "rule"),
    [
        ("registers_per_thread", 128.0, 136.0, "cmp-registers-up"),
        ("spill_requests", 0.0, 1000.0, "cmp-spills-appeared"),
        ("dram_bytes", 1e9, 1.06e9, "cmp-bytes-up"),
        # 0.14 GFLOP more at 19.5 TFLOP/s: 7 µs of each 400.
        ("flop_fp32", 7e9, 7.14e9, "cmp-flops-up"),
    ],
)
def test_counters_decide_where_times_cannot(
    column: str, base: float, head: float, rule: str
) -> None:
    one = counted(**{column: {"else": base}})
    made = compare(one, counted(**{column: {"else": base, "sgemm_big(float*)": head}}))
    assert rule in rules(made)
    big = kernel(made, "sgemm")
    assert [big.verdict, big.basis] == ["regressed", "counters"]
    assert made.verdict == "regressed"
    assert compare(one, one).verdict == "unchanged"


def test_narrower_operands_that_move_as_many_bytes() -> None:
    """GIVEN a DRAM-bound product whose weights went from 16 to 8 bits WHEN its DRAM bytes fall by
    a tenth THEN quantising saved no traffic; by half, and it did."""

    def run(dtypes: str, moved: float) -> Run:
        dram = {"else": 90.0}
        return counted(
            input_dtypes={"else": dtypes}, dram_bytes={"else": moved},
            dram_throughput_pct=dram, memory_throughput_pct=dram, sm_throughput_pct={"else": 9.0},
        )  # fmt: skip

    wide = run('["c10::BFloat16", "c10::BFloat16"]', 1e9)
    narrow = '["c10::BFloat16", "signed char"]'
    assert "quantise-no-byte-drop" in rules(compare(wide, run(narrow, 0.9e9)))
    assert "quantise-no-byte-drop" not in rules(compare(wide, run(narrow, 0.5e9)))
    assert "quantise-no-byte-drop" not in rules(compare(run(narrow, 1e9), wide))


def test_counters_only_explain_where_times_decide() -> None:
    registers = dict.fromkeys(PROGRAM, 128.0)
    more = {**registers, "sgemm_big(float*)": 168.0}
    made = compare(
        repeated(FIVE, columns={"registers_per_thread": registers}),
        repeated(FIVE, columns={"registers_per_thread": more}),
    )
    assert "cmp-registers-up" in rules(made)
    assert made.verdict == "unchanged"


def test_more_launches_decide_unless_they_only_moved() -> None:
    more = {**PROGRAM, "sgemm_big(float*)": (11, 400_000)}
    made = compare(side([one_run()]), side([one_run(more)]))
    assert kernel(made, "sgemm").basis == "counters"
    # One launch of the same category less elsewhere: the gemms are as many as before.
    base = {**PROGRAM, "hgemm_other(half*)": (10, 400_000)}
    moved = {**more, "hgemm_other(half*)": (9, 400_000)}
    made = compare(side([one_run(base)]), side([one_run(moved)]))
    assert not made.of("regressed")
    assert "cmp-count-changed" in rules(made)


def test_more_launches_of_the_same_speed_are_a_mix_shift() -> None:
    made = compare(repeated(FIVE), repeated(FIVE, {**PROGRAM, "sgemm_big(float*)": (12, 400_000)}))
    big = kernel(made, "sgemm")
    assert [big.verdict, big.speed_ns, big.mix_ns] == ["regressed", 0, 800_000]
    assert {"cmp-mix-shift", "cmp-count-changed", "cmp-category-regressed"} <= rules(made)


def test_a_clock_that_explains_the_change_takes_the_verdict_back() -> None:
    """2 % less clock, 2 % more time: under the 3 % that block, over the 1 % that explain."""
    high, low = ({"sm_clock_hz": dict.fromkeys(PROGRAM, clock)} for clock in (1.40e9, 1.372e9))
    counters = {
        name: dict.fromkeys(PROGRAM, value)
        for name, value in (("sm_throughput_pct", 90.0), ("memory_throughput_pct", 20.0))
    }
    limits = Thresholds(percent=1.0)
    base = repeated((1.0, 1.0001, 0.9999, 1.0, 1.0002), columns={**high, **counters})
    slower = (1.0204, 1.0205, 1.0203, 1.0204, 1.0206)
    made = compare(base, repeated(slower, columns={**low, **counters}), limits=limits)
    big = kernel(made, "sgemm")
    assert big.verdict == "inconclusive"
    assert "the core clock went from 1.40 GHz to 1.37 GHz" in big.reason
    same = compare(base, repeated(slower, columns={**high, **counters}), limits=limits)
    assert kernel(same, "sgemm").verdict == "regressed"


def test_a_whole_that_got_faster_outweighs_a_slower_part() -> None:
    head = {**PROGRAM, "sgemm_big(float*)": (10, 300_000), "small(float*)": (30, 12_000)}
    made = compare(repeated(FIVE), repeated(FIVE, head))
    assert kernel(made, "small").verdict == "regressed"
    assert made.verdict == "improved"


def test_findings_that_only_the_head_has_are_told() -> None:
    spills = {"local_load_instructions": {"else": 0.0}, "registers_per_thread": {"else": 64.0}}
    more = {
        "local_load_instructions": {"else": 0.0, "sgemm_big(float*)": 1e6},
        "registers_per_thread": {"else": 64.0, "sgemm_big(float*)": 255.0},
    }
    fixed = {
        "local_store_instructions": {"else": 0.0},
        "instructions": {"else": 1e7},
        "sm_throughput_pct": {"else": 40.0},
        "memory_throughput_pct": {"else": 40.0},
    }
    made = compare(counted(**spills, **fixed), counted(**more, **fixed))
    assert "register-spill" in {one.rule for one in made.appeared}
    back = compare(counted(**more, **fixed), counted(**spills, **fixed))
    assert "register-spill" in {one.rule for one in back.resolved}


def test_unknown_durations_are_no_zeros() -> None:
    columns = {"kernel_name": ["k", "l"], "duration_ns": [None, 10]}
    run = Run(recording(columns), "unknown")
    made = compare(run, run)
    assert kernel(made, "k").verdict == "inconclusive"
    assert kernel(made, "k").reason == "some durations are unknown"


# What keeps times from comparing


def test_another_gpu_blocks_unless_forced() -> None:
    head = repeated(FIVE, SLOW, device=DeviceInfo(index=0, name="NVIDIA H100 80GB HBM3"))
    made = compare(repeated(FIVE), head)
    assert made.verdict == "not-comparable"
    assert [one.what for one in made.differences if one.blocks] == ["GPU"]
    assert {one.verdict for one in made.kernels} == {"not-compared"}
    assert all(one.delta_ns is None and one.p is None for one in made.kernels)
    assert made.total.base.median_ns == 6_000_000, "the times of each side stay"
    assert "cmp-not-comparable" in rules(made)
    with pytest.raises(TraceroofError, match="cannot be decided: GPU"):
        failures(made, ("regression",))
    forced = compare(repeated(FIVE), head, force=True)
    assert [forced.verdict, forced.forced] == ["regressed", True]


@pytest.mark.parametrize(
    ("head", "what"),
    [
        (Run(replace(one_run(), format="other tool"), "h"), "tool"),
        (side([one_run(time_basis="counter-tool")]), "kind of times"),
        (side([one_run(rank=0), one_run(rank=1)]), "GPUs side by side"),
        (side([one_run(columns={"sm_clock_hz": dict.fromkeys(PROGRAM, 1.0e9)})]), "SM clock"),
    ],
)
def test_another_tool_or_setup_blocks(head: Run, what: str) -> None:
    base = side([one_run(columns={"sm_clock_hz": dict.fromkeys(PROGRAM, 1.1e9)})])
    made = compare(base, head)
    assert what in [one.what for one in made.differences if one.blocks]


def test_what_one_side_does_not_say_does_not_block() -> None:
    made = compare(side([one_run(device=DeviceInfo(index=0))]), side([one_run()]))
    assert made.compared
    assert str(made.differences[0]) == "GPU: not recorded → A100-SXM4-80GB"


# Gates and JSON


def test_gates() -> None:
    slower = compare(repeated(FIVE), repeated(FIVE, SLOW))
    ids = [rule.id for rule in traceroof.plugins.rules()]
    assert failures(slower, checked(["regression"], ids)) == ["regression: small"]
    assert failures(slower, checked(["inconclusive"], ids)) == []
    (text,) = failures(slower, checked(["finding:cmp-kernel-regressed"], ids))
    assert text.startswith("cmp-kernel-regressed: 300 µs → 330 µs (+10.0 %)")
    # 0.03 of 6 ms is under 1.5 %: low.
    assert failures(slower, ("medium",)) == []
    assert len(failures(slower, ("low",))) == 1
    unclear = compare(side([one_run()]), side([one_run(factor=1.1)]))
    assert failures(unclear, ("inconclusive",)) == [
        "inconclusive: one run per side; a verdict needs 5 runs per side"
    ]
    assert failures(compare(repeated(FIVE), repeated(FIVE)), ("regression", "low")) == []


@pytest.mark.parametrize(
    ("gate", "hint"),
    [("regresion", "regression"), ("finding:cmp-bytes", "cmp-bytes-up"), ("info", "severity")],
)
def test_a_gate_that_does_not_exist_is_refused(gate: str, hint: str) -> None:
    ids = [rule.id for rule in traceroof.plugins.rules()]
    with pytest.raises(TraceroofError) as error:
        checked([gate], ids)
    assert hint in f"{error.value.hint}"


@pytest.mark.parametrize("force", [False, True])
def test_json_follows_its_schema(root: Path, force: bool) -> None:
    schema = json.loads((root / "docs/comparison.schema.json").read_text("utf-8"))
    other = DeviceInfo(index=0, name="NVIDIA H100 80GB HBM3")
    for base, head in (
        (repeated(FIVE), repeated(FIVE, SLOW)),
        (stepped(3), stepped(6, SLOW)),
        (repeated(FIVE), repeated(FIVE, SLOW, device=other)),
        (Run(two_kernels(), "a"), Run(two_kernels(), "b")),
    ):
        payload = json.loads(json_report.render(compare(base, head, force=force)))
        jsonschema.validate(payload, schema)
    assert payload["verdict"] == "unchanged"


def test_json_says_what_the_comparison_says() -> None:
    payload = json.loads(json_report.render(compare(repeated(FIVE), repeated(FIVE, SLOW)), top=1))
    assert payload["counts"] == {"regressed": 1, "unchanged": 2}
    (small,) = payload["kernels"]
    assert [small["name"], small["delta_ns"], small["matched_by"]] == [
        "small(float*)", 30_000, "launch",
    ]  # fmt: skip
    assert small["delta_pct"] == pytest.approx(10)


# Real pairs


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("base", "head", "gpus"),
    [
        ("hta_trace_diff_control_a100.json.gz", "hta_trace_diff_test_v100.json.gz",
         "GPU: A100-SXM4-40GB → V100-SXM2-16GB"),
        ("sglang_deepseek_r1/deepseek_r1_MI300_1782841132.2905657-TP-0-DECODE.trace.json.gz",
         "sglang_deepseek_r1/deepseek_r1_B300_1782843274.7730265-TP-0-DECODE.trace.json.gz",
         "GPU: MI300X → B300-SXM-270GB"),
    ],
)  # fmt: skip
def test_real_traces_of_two_gpus_are_refused(corpus: Path, base: str, head: str, gpus: str) -> None:
    runs = [traceroof.read(corpus / "torch" / name) for name in (base, head)]
    made = compare(*runs)
    assert made.verdict == "not-comparable"
    assert gpus in [str(one) for one in made.differences]
    forced = compare(*runs, force=True)
    assert forced.per == "step"
    assert forced.verdict in ("regressed", "improved")
    # Every launch of the steady steps is in exactly one pair.
    for at, name in enumerate(("base", "head")):
        total = sum(getattr(one, name).median_ns for one in forced.kernels)
        assert total == pytest.approx(getattr(forced.kernel_time, name).median_ns, rel=0.25), at


@pytest.mark.corpus
def test_two_ranks_of_one_job_are_no_regression(corpus: Path) -> None:
    """Ranks 0 and 1 of a job of equal halves, three steps each."""
    runs = [
        traceroof.read(corpus / f"torch/torchrec_a2a_qcomm_v100_{process}.pt.trace.json")
        for process in (54105, 54106)
    ]
    made = compare(*runs)
    assert [made.per, made.sampled, made.samples] == ["step", "steps", (3, 3)]
    assert not made.of("regressed", "improved")
    assert sum(one.pair is not None and one.pair.by == "launch" for one in made.kernels) == 114
    assert made.verdict == "inconclusive", "its steps take 141, 370 and 212 ms"
    assert failures(made, ("regression",)) == []


@pytest.mark.corpus
def test_a_real_trace_compared_with_itself_is_unchanged(corpus: Path) -> None:
    run = traceroof.read(corpus / "torch/hta_nccl_data_a100.json.gz")
    made = compare(run, run)
    assert made.verdict == "unchanged"
    assert {one.verdict for one in made.kernels} == {"unchanged"}
    assert not made.appeared
    assert not made.resolved


def accepting(*entries: Accepted) -> Settings:
    return Settings(accept=entries)


def test_an_accepted_regression_passes_until_its_day() -> None:
    """GIVEN small +10 % (0.03 of 6 ms, so the total does not change) WHEN accepted THEN the gate
    passes up to that day, fails from the next on, and says both."""
    known = Accepted("SMALL(", date(2027, 1, 31), "exact softmax")
    made = compare(repeated(FIVE), repeated(FIVE, SLOW), settings=accepting(known))
    assert failures(made, ["regression"], date(2027, 1, 31)) == []
    assert accepted(made, date(2027, 1, 31)) == [
        "accepted: small got slower, until 2027-01-31: exact softmax"
    ]
    assert failures(made, ["regression"], date(2027, 2, 1)) == [
        "regression: small",
        "the regression of small was accepted until 2027-01-31: exact softmax",
    ]


def test_an_entry_that_fits_nothing_is_named() -> None:
    made = compare(
        repeated(FIVE), repeated(FIVE, SLOW), settings=accepting(Accepted("flash*", None, "x"))
    )
    assert failures(made, ["regression"]) == ["regression: small"]
    assert accepted(made) == ["accept flash*: no regression matches, remove this entry"]


def test_a_sum_is_accepted_only_where_the_kernel_explains_it() -> None:
    """GIVEN one kernel +50 % (2 ms of 6) WHEN it is accepted THEN the total passes; WHEN another
    doubles as well THEN the total and that one fail."""
    known = accepting(Accepted("sgemm*", None, "larger tile"))
    slow = {**PROGRAM, "sgemm_big(float*)": (10, 600_000)}
    made = compare(repeated(FIVE), repeated(FIVE, slow), settings=known)
    assert made.total.verdict == "regressed"
    assert failures(made, ["regression"]) == []
    both = {**slow, "copy_medium(float*)": (34, 100_000)}
    made = compare(repeated(FIVE), repeated(FIVE, both), settings=known)
    (failed,) = failures(made, ["regression"])
    assert "copy_medium" in failed
    assert made.total.name in failed
    assert "sgemm" not in failed
