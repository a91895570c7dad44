"""Bounds of the other causes of idle time, and of copies, communication and drift, against simulated
programs (``test_timeline_bounds``): no less than what is saved without the cause, no more than its time."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.patterns.test_fusion import ADD, GELU, MUL, E, found_in, launch
from tests.rules.test_timeline_bounds import (
    CALL,
    LATENCY,
    RULES,
    US,
    Op,
    bound,
    check,
    programs,
    simulated,
    span,
)
from tests.timeline.test_ranks import of
from tests.timeline.test_timeline import recording, run
from traceroof.hardware.device_lookup import find
from traceroof.rule import judge
from traceroof.scopes.subjects import of_timelines
from traceroof.timeline import CAUSES, timelines

EACH = settings(max_examples=25)
short = st.integers(1, 120)
#: What the host runs ahead by, so that it is never the limit.
AHEAD = 100_000


def of_rows(
    rule: str, rows: Sequence[dict[str, Any]], calls: Sequence[tuple[str, int, int]] = ()
) -> int:
    """What a rule says is saved at most of some rows, ns."""
    found = timelines(recording(rows, calls), [row["category"] for row in rows])
    facts = of_timelines(found).facts
    saved = judge(RULES[rule], facts).saved[0]
    return 0 if np.isnan(saved) else int(np.rint(saved * facts.time_ns[0]))


def queued(ops: Sequence[tuple[str, int, int]], **more: Any) -> tuple[list[dict[str, Any]], int]:
    """Rows of (category, us, held) that were all launched early, one after another: each starts when
    the one before is done and what holds it is ready, ``held`` us later; and their span, ns."""
    rows, at = [], 0
    for number, (category, length, held) in enumerate(ops):
        at += held
        rows.append(
            run(at * US, (at + length) * US, category, host_launch_ns=(number - AHEAD) * US,
                host_launch_duration_ns=US // 2, **more)
        )  # fmt: skip
        at += length
    return rows, at * US - rows[0]["start_ns"]


@EACH
@given(st.lists(st.tuples(short, st.integers(0, 900)), min_size=21, max_size=40))
def test_an_event(given_ops: list[tuple[int, int]]) -> None:
    """Kernels that were launched long before and are held; the first ones are not."""
    ops = [("gemm", length, held if at > 2 else 0) for at, (length, held) in enumerate(given_ops)]
    rows, whole = queued(ops)
    _, without = queued([(category, length, 0) for category, length, _ in ops])
    at_most = of_rows("dependency-wait", rows)
    # What a launch takes to arrive is launching: 10 us a gap at most; under 2 us is back to back.
    gaps = sum(held > 0 for _, _, held in ops)
    assert whole - without - 10 * US * gaps <= at_most <= whole - without


def test_a_wait_at_the_start_promises_nothing() -> None:
    """GIVEN 500 ms in which the first of 40 kernels was held WHEN judged THEN it is told, and no saving."""
    rows, _ = queued([("gemm", 10, 0), ("gemm", 10, 500_000), *[("gemm", 1_000, 0)] * 38])
    assert of_rows("dependency-wait", rows) == 0
    facts = of_timelines(timelines(recording(rows), ["gemm"] * 40)).facts
    judged = judge(RULES["wait-at-start"], facts)
    assert judged.fired[0]
    assert np.isnan(judged.saved[0])


@EACH
@given(st.lists(st.tuples(short, st.integers(0, 400)), min_size=3, max_size=20))
def test_first_launches(given_ops: list[tuple[int, int]]) -> None:
    """Each kernel's first launch loads its code for 1 ms and more; then 40 ms of long kernels."""

    def program(slow: bool) -> tuple[list[dict[str, Any]], int]:
        host, gpu, rows = 0, 0, []
        for number, (length, extra) in enumerate(given_ops):
            call = 1_000 + extra if slow else CALL
            start = max(gpu, host + call + LATENCY)
            gpu = start + length
            rows.append(
                run(start * US, gpu * US, kernel_name=f"k{number}", host_launch_ns=host * US,
                    host_launch_duration_ns=call * US)
            )  # fmt: skip
            host += call + 3
        for _ in range(40):
            start = max(gpu, host + CALL + LATENCY)
            gpu = start + 1_000
            rows.append(
                run(start * US, gpu * US, kernel_name="last", host_launch_ns=host * US,
                    host_launch_duration_ns=CALL * US)
            )  # fmt: skip
            host += CALL + 3
        return rows, gpu * US - rows[0]["start_ns"]

    rows, whole = program(True)
    _, without = program(False)
    at_most = of_rows("cold-start", rows)
    touched = sum(1_000 + extra for _, extra in given_ops) * US
    # The launch itself stays: 9 us each.
    assert at_most >= whole - without - (CALL + LATENCY) * US * len(given_ops)
    assert at_most <= touched


@EACH
@given(programs)
def test_loading_code_later(given_ops: list[tuple[int, int]]) -> None:
    """Code that is loaded for less than a millisecond each time, while the program runs."""
    ops = [Op(kernel, spent, "cuModuleLoadData") for kernel, spent in given_ops]
    ops[0] = replace(ops[0], spent=0)
    without = [replace(op, spent=0) for op in ops]
    check("gc-or-jit-pause", ops, without, sum(op.spent for op in ops) * US)


@EACH
@given(programs)
def test_the_profiler(given_ops: list[tuple[int, int]]) -> None:
    ops = [Op(kernel, spent, "Buffer Flush") for kernel, spent in given_ops]
    ops[0] = replace(ops[0], spent=0)
    without = [replace(op, spent=0) for op in ops]
    check("run-profiler-overhead", ops, without, sum(op.spent for op in ops) * US)


@EACH
@given(st.lists(st.tuples(short, st.integers(0, 400)), min_size=3, max_size=25))
def test_copies_that_run_alone(given_ops: list[tuple[int, int]]) -> None:
    """Copies between kernels of one stream, launched long before: without them the rest moves up."""
    ops = [
        one for kernel, copy in given_ops
        for one in (("gemm", kernel, 0), *((("memcpy", copy, 0),) if copy else ()))
    ]  # fmt: skip
    rows, whole = queued(ops)
    _, without = queued([one for one in ops if one[0] != "memcpy"])
    at_most = of_rows("memcpy-exposed", rows)
    assert at_most == whole - without


@EACH
@given(st.lists(st.tuples(short, st.integers(0, 400)), min_size=3, max_size=25))
def test_communication_that_runs_alone(given_ops: list[tuple[int, int]]) -> None:
    """Collectives between kernels of one stream: hidden, all of them is saved. What equal ones take
    beyond the fastest is waiting for other ranks; both together are all of it."""
    ops = [
        one for kernel, length in given_ops
        for one in (("gemm", kernel, 0), *((("communication", length, 0),) if length else ()))
    ]  # fmt: skip
    rows, whole = queued(ops, message_bytes=1 << 20, collective="allreduce")
    _, without = queued([one for one in ops if one[0] != "communication"])
    saved = of_rows("exposed-comm", rows) + of_rows("collective-waits", rows)
    skew = timelines(recording(rows), [one for one, _, _ in ops])[0].facts.get("start_skew_ns", 0)
    assert saved + skew == pytest.approx(whole - without, abs=2)


@EACH
@given(programs)
def test_a_graph(given_ops: list[tuple[int, int]]) -> None:
    """All launches in one graph: kernels run back to back. Pauses of the host are no launches."""
    ops = [Op(kernel, min(spent, 300)) for kernel, spent in given_ops]
    rows, _ = simulated(ops)
    idle = span(ops) - sum(row["duration_ns"] for row in rows)
    at_most = bound("cuda-graph-candidate", ops)
    assert idle - 2 * US * len(ops) <= at_most <= idle


@EACH
@given(programs)
def test_gaps_without_launch_calls(given_ops: list[tuple[int, int]]) -> None:
    """The same program without its host: all idle time is one of the two kinds of gaps."""
    rows, _ = simulated([Op(kernel, 2 * spent) for kernel, spent in given_ops])
    bare = [
        {name: value for name, value in row.items() if not name.startswith("host_")} for row in rows
    ]
    idle = rows[-1]["start_ns"] + rows[-1]["duration_ns"] - rows[0]["start_ns"]
    idle -= sum(row["duration_ns"] for row in rows)
    at_most = sum(of_rows(f"idle-in-{length}-gaps", bare) for length in ("short", "long"))
    cold = timelines(recording(bare), ["gemm"] * len(bare))[0].idle_by_cause["cold"]
    assert idle - 2 * US * len(bare) <= at_most + cold <= idle


@EACH
@given(st.lists(st.integers(1, 60), min_size=6, max_size=14))
def test_steps_that_grow(growth: list[int]) -> None:
    """Steps of ten kernels that take more each time; the last step is left out."""
    lengths = (100 + np.cumsum(growth)).tolist()

    def rows_of(times: Sequence[int]) -> tuple[list[dict[str, Any]], int]:
        rows, whole = queued([("gemm", time, 0) for time in times for _ in range(10)])
        for at, row in enumerate(rows):
            row["step"] = f"step {at // 10}"
        return rows, whole

    rows, _ = rows_of(lengths)
    (one,) = timelines(recording(rows), ["gemm"] * len(rows))
    steady = [at for at, step in enumerate(one.steps) if not step.warm_up][:-1]
    if len(steady) < 6:
        return
    first = float(np.median([lengths[at] for at in steady[: max(len(steady) // 4, 2)]]))
    cut = [min(time, first) if at in steady else time for at, time in enumerate(lengths)]
    truly = (sum(lengths) - sum(cut)) * 10 * US
    at_most = of_rows("steps-slow-down", rows)
    assert at_most >= truly - len(lengths)
    assert at_most <= sum(lengths[at] for at in steady) * 10 * US


@EACH
@given(st.integers(16, 60), st.integers(0, 40), st.integers(0, 5))
def test_a_clock_that_falls(launches: int, fall_pct: int, jitter: int) -> None:
    """Equal kernels that take longer as the clock falls: at the first quarter's clock they would not."""
    times = [
        round(100 * (1 + fall_pct / 100 * at / launches)) + (at * jitter) % 3
        for at in range(launches)
    ]
    rows, whole = queued([("gemm", time, 0) for time in times])
    at_most = of_rows("kernels-slow-down", rows)
    first = float(np.median(times[: -(-launches // 4)]))
    truly = sum(max(time - first, 0) for time in times) * US
    assert at_most == 0 or at_most >= truly - launches * US
    assert at_most <= whole


@EACH
@given(st.lists(st.tuples(st.integers(20, 200), st.integers(0, 150)), min_size=3, max_size=12))
def test_a_rank_that_is_always_late(given_steps: list[tuple[int, int]]) -> None:
    """Rank 1 computes longer before each all-reduce of 20 us. As fast as rank 0, it saves what rank 0
    waits, and no more."""
    ranks: list[list[tuple[str, int, int]]] = [[], []]
    at = 0
    for compute, late in given_steps:
        met = at + compute + late
        ranks[0] += [("gemm", at, at + compute), ("communication", at + compute, met + 20)]
        ranks[1] += [("gemm", at, met), ("communication", met, met + 20)]
        at = met + 20
    found = of(ranks, (0, 7_000))
    assert found is not None
    truly = sum(late for _, late in given_steps) * US
    assert found.facts["waiting_ns"] * found.facts["ranks"] == pytest.approx(truly)


BANDWIDTH = 2_039.0  # byte/ns of an A100-SXM4-80GB
ELEMENTS = 16_777_216


@EACH
@given(st.lists(st.floats(0.2, 1.0), min_size=3, max_size=3))
def test_a_chain_of_kernels(reached: list[float]) -> None:
    """add, mul and gelu on 2^24 halfs, each at a share of the bandwidth: fused at the best of these
    shares, they move four passes in place of eight."""
    gpu = find("A100-SXM4-80GB")
    assert gpu
    assert gpu.dram_bandwidth_bytes_per_s == BANDWIDTH * 1e9
    size = 2.0 * ELEMENTS
    times = [
        passes * size / BANDWIDTH / share for passes, share in zip((3, 3, 2), reached, strict=True)
    ]
    shape = [ELEMENTS]
    rows = [
        launch(ADD, "aten::add", [shape, shape], us=times[0] / US),
        launch(MUL, "aten::mul", [shape, shape], us=times[1] / US),
        launch(GELU, "aten::gelu", [shape], us=times[2] / US),
    ]
    found = found_in(*rows)
    at_most = found["chain_time_ns"] - found["chain_least_ns"] - found["chain_kept_ns"]
    truly = sum(times) - 4 * size / BANDWIDTH / max(reached)
    assert at_most >= truly - 10
    assert at_most <= sum(times)
    assert E


#: Causes of idle time -> the tests that hold a bound against a simulated program with that cause.
HELD = {
    "back_to_back": "test_short_kernels, test_a_graph", "cold": "test_first_launches",
    "data_loader": "test_a_loader", "load": "test_loading_code_later", "collect": "test_garbage",
    "allocate": "test_memory", "profiler": "test_the_profiler",
    "communication": "test_a_rank_that_is_always_late", "sync": "test_waits_for_the_gpu",
    "host": "test_launches, test_a_pause", "copy": "test_copies_that_run_alone",
    "launch": "test_launches", "dependency": "test_an_event",
    "unknown": "test_gaps_without_launch_calls",
}  # fmt: skip


def test_every_cause_of_idle_time_is_held_against_a_simulation() -> None:
    from tests.rules import test_timeline_bounds as others

    assert set(HELD) == set(CAUSES)
    for names in HELD.values():
        for name in names.split(", "):
            assert hasattr(others, name) or name in globals(), name
