"""Bounds of timeline rules against simulated programs whose true saving is known: the cause is taken
out, the program runs again. A bound is no less than that, and no more than the time of the cause."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.timeline.test_timeline import recording, run
from traceroof.plugins import rules
from traceroof.rule import judge
from traceroof.scopes.subjects import of_timelines
from traceroof.timeline import timelines

US = 1_000
RULES = {rule.id: rule for rule in rules()}

# A launch call, and from its end to the start on an empty queue. us.
CALL, LATENCY = 5, 4


@dataclass(frozen=True)
class Op:
    """One launch. Times in us. cause: what the host does for ``spent`` before it, a name of a call;
    '' for nothing that is recorded. waits: the host waits for the GPU before it."""

    kernel: int
    spent: int = 0
    cause: str = ""
    own: int = 3
    waits: bool = False
    category: str = "gemm"
    step: str | None = None
    bytes_: int | None = None


def simulated(ops: Sequence[Op]) -> tuple[list[dict[str, Any]], list[tuple[str, int, int]]]:
    """Rows and host calls of a program on one stream, whose host runs ahead of its GPU."""
    host, gpu = 0, 0
    rows, calls = [], []
    for op in ops:
        if op.waits and gpu > host:
            calls.append(("cudaStreamSynchronize", host * US, gpu * US))
            host = gpu
        if op.spent:
            if op.cause:
                calls.append((op.cause, host * US, (host + op.spent) * US))
            host += op.spent
        host += op.own
        start = max(gpu, host + CALL + LATENCY)
        gpu = start + op.kernel
        rows.append(
            run(start * US, gpu * US, op.category, host_launch_ns=host * US, step=op.step,
                host_launch_duration_ns=CALL * US, message_bytes=op.bytes_,
                collective="allreduce" if op.category == "communication" else None)
        )  # fmt: skip
        host += CALL
    return rows, calls


def span(ops: Sequence[Op]) -> int:
    """What the program takes on the GPU, ns."""
    rows, _ = simulated(ops)
    ends = [int(row["start_ns"] + row["duration_ns"]) for row in rows]
    return max(ends) - int(rows[0]["start_ns"])


def bound(rule: str, ops: Sequence[Op]) -> int:
    """What the rule says is saved at most, ns, whether it fires or not."""
    rows, calls = simulated(ops)
    found = timelines(recording(rows, calls), [row["category"] for row in rows])
    facts = of_timelines(found).facts
    saved = judge(RULES[rule], facts).saved[0]
    return 0 if np.isnan(saved) else int(np.rint(saved * facts.time_ns[0]))


def check(
    rule: str, ops: Sequence[Op], without: Sequence[Op], touched: int, slack: int = 1
) -> None:
    """The bound lies between what is saved without the cause and the time that it touches. slack: of
    rounding, ns. Gaps below 2 us are back to back: no host is blamed for what is left of them."""
    at_most, truly = bound(rule, ops), span(ops) - span(without)
    assert at_most >= truly - slack - 2 * US * len(ops), (at_most, truly)
    assert at_most <= touched + slack, (at_most, touched)


kernels = st.integers(1, 120)
times = st.one_of(st.just(0), st.integers(1, 900))
programs = st.lists(st.tuples(kernels, times), min_size=3, max_size=25)
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


@settings(max_examples=25)
@given(programs)
def test_a_loader(given_ops: list[tuple[int, int]]) -> None:
    """Batches of which the GPU hides a part: the host gets ahead by all of what is taken out."""
    ops = [Op(kernel, spent, LOADER) for kernel, spent in given_ops]
    ops[0] = replace(ops[0], spent=0)
    without = [replace(op, spent=0) for op in ops]
    check("dataloader-in-main-process", ops, without, sum(op.spent for op in ops) * US)


@settings(max_examples=25)
@given(programs)
def test_memory(given_ops: list[tuple[int, int]]) -> None:
    """cudaMalloc in the second half of a program without steps; none at its start."""
    half = [Op(5) for _ in range(3 * len(given_ops) + 20)]
    ops = half + [Op(kernel, spent, "cudaMalloc") for kernel, spent in given_ops]
    without = [replace(op, spent=0) for op in ops]
    rows, _ = simulated(ops)
    middle = rows[0]["host_launch_ns"] + (rows[-1]["start_ns"] + rows[-1]["duration_ns"]) // 2
    if rows[len(half)]["host_launch_ns"] - ops[len(half)].spent * US >= middle:
        check("alloc-in-steady-state", ops, without, sum(op.spent for op in ops) * US)


@settings(max_examples=25)
@given(programs)
def test_garbage(given_ops: list[tuple[int, int]]) -> None:
    ops = [Op(kernel, spent, "gc.collect") for kernel, spent in given_ops]
    ops[0] = replace(ops[0], spent=0)
    without = [replace(op, spent=0) for op in ops]
    check("gc-or-jit-pause", ops, without, sum(op.spent for op in ops) * US)


@settings(max_examples=25)
@given(programs)
def test_launches(given_ops: list[tuple[int, int]]) -> None:
    """All that the host does, for less than 1 ms each: without it kernels run back to back. Gaps
    below 2 us, which no host is blamed for, may be left over."""
    ops = [Op(kernel, spent) for kernel, spent in given_ops]
    rows, _ = simulated(ops)
    busy = sum(row["duration_ns"] for row in rows)
    at_most = bound("launch-bound", ops)
    idle = span(ops) - busy
    assert idle - 2 * US * len(ops) <= at_most <= idle


@settings(max_examples=25)
@given(programs, st.integers(1_100, 5_000))
def test_a_pause(given_ops: list[tuple[int, int]], pause: int) -> None:
    """One pause of the host that no call fills, longer than all other waits. What it hides below the
    kernels before it is saved as well, and so is the launch behind it: they are no part of it."""
    ops = [Op(kernel, min(spent, 30)) for kernel, spent in given_ops]
    place = len(ops) // 2
    ops[place] = replace(ops[place], spent=pause)
    without = [*ops[:place], replace(ops[place], spent=0), *ops[place + 1 :]]
    found = bound("host-bound", ops)
    rows, _ = simulated(ops)
    gap = rows[place]["start_ns"] - (rows[place - 1]["start_ns"] + rows[place - 1]["duration_ns"])
    if gap >= (1_000 + CALL + LATENCY + 3) * US and found:
        end = rows[place - 1]["start_ns"] + rows[place - 1]["duration_ns"]
        began = rows[place]["host_launch_ns"] - (pause + ops[place].own) * US
        hidden = max(end - began, 0) + (CALL + LATENCY) * US
        assert found >= span(ops) - span(without) - hidden
        assert found <= gap


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(20, 120), st.booleans()), min_size=3, max_size=25))
def test_waits_for_the_gpu(given_ops: list[tuple[int, bool]]) -> None:
    """Kernels longer than what launching them takes: without the waits there is no gap."""
    ops = [Op(kernel, waits=waits) for kernel, waits in given_ops]
    without = [replace(op, waits=False) for op in ops]
    # The launch behind a wait is launching, 9 us each.
    waits = sum(op.waits for op in ops[1:])
    at_most, truly = bound("host-sync-in-step", ops), span(ops) - span(without)
    assert at_most + waits * (CALL + LATENCY) * US >= truly
    assert at_most <= truly


@settings(max_examples=25)
@given(st.lists(st.tuples(kernels, st.integers(0, 300)), min_size=9, max_size=25))
def test_equal_collectives_that_wait(given_ops: list[tuple[int, int]]) -> None:
    """All-reduces of 100 us that wait for other ranks on top, one of them not at all."""
    waits = [wait for _, wait in given_ops]
    waits[len(waits) // 2] = 0

    def program(waiting: Sequence[int]) -> list[Op]:
        pairs = zip(given_ops, waiting, strict=True)
        return [
            op
            for (kernel, _), wait in pairs
            for op in (Op(kernel), Op(100 + wait, category="communication", bytes_=1 << 20))
        ]

    ops, without = program(waits), program([0] * len(waits))
    rows, calls = simulated(ops)
    (one,) = timelines(recording(rows, calls), [row["category"] for row in rows])
    excess = one.facts["collective_excess_ns"] + one.facts["start_skew_ns"]
    assert excess >= span(ops) - span(without)
    assert excess <= sum(waits) * US
    # What is left is what communication takes without waiting.
    assert bound("exposed-comm", ops) >= 0


@settings(max_examples=25)
@given(st.lists(st.integers(0, 300), min_size=4, max_size=10))
def test_steps_with_more_work(extra: list[int]) -> None:
    """Steps of ten kernels of 30 us, some with more. The last one is left out."""

    def program(more: Sequence[int]) -> list[Op]:
        return [
            Op(30 + (add if at == 5 else 0), step=f"step {number}")
            for number, add in enumerate(more)
            for at in range(10)
        ]

    ops = program(extra)
    rows, calls = simulated(ops)
    (one,) = timelines(recording(rows, calls), ["gemm"] * len(rows))
    steady = [at for at, step in enumerate(one.steps) if not step.warm_up][:-1]
    usual = sorted(extra[at] for at in steady)[(len(steady) - 1) // 2]
    long = [at for at in steady if 300 + extra[at] > 1.5 * (300 + usual)]
    cut = [usual if at in long else add for at, add in enumerate(extra)]
    facts = one.steady_facts or one.facts
    if "uneven_busy_ns" in facts:
        assert facts["uneven_busy_ns"] >= span(ops) - span(program(cut)) - 1
        assert facts["uneven_busy_ns"] <= sum(extra[at] for at in long) * US


@settings(max_examples=15)
@given(st.lists(st.integers(1, 9), min_size=100, max_size=140))
def test_short_kernels(lengths: list[int]) -> None:
    """Fusing neighbours saves what starting one of each two takes, 2.6 us at most: their work stays."""
    ops = [Op(length) for length in lengths]
    at_most = bound("small-kernel-swarm", ops)
    kernel_time = sum(lengths) * US
    saved = sum(min(length * US, 2_600) for length in lengths[1::2])
    assert saved <= at_most
    idle = span(ops) - kernel_time
    assert at_most <= min(kernel_time, 2_600 * len(lengths)) + idle
