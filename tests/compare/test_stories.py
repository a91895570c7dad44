"""What a comparison tells first: the largest part of the change, and what changed in it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from tests.sides import PROGRAM, one_run, repeated, side
from traceroof.compare import compare
from traceroof.report.compare import terminal, words
from traceroof.report.compare.stories import Story, stories

FIVE = (1.0, 1.01, 0.99, 1.005, 0.995)
Program = Mapping[str, tuple[int, int]]


def told(base: Program, head: Program, **more: Any) -> list[Story]:
    return stories(compare(repeated(FIVE, base, **more), repeated(FIVE, head, **more)))


def test_kernels_no_longer_launched_are_one_part() -> None:
    """GIVEN 5.2 of 6 ms in 20 kernels that are gone, one new kernel of 1 ms, and one kernel 0.1 ms
    faster WHEN compared THEN the gone ones are named, not the one that got faster."""
    chain = {
        f"pointwise_{letter}_kernel(float*)": (13, 20_000) for letter in "abcdefghijklmnopqrst"
    }
    base = {"sgemm_big(float*)": (10, 80_000), **chain}
    head = {"sgemm_big(float*)": (10, 70_000), "triton_fused(float*)": (10, 100_000)}
    (story,) = told(base, head)
    assert (story.title, story.name) == ("Where it came from", None)
    assert story.label == "20 kernels no longer launched, 1 kernel new"
    # -5.2 + 1 ms, of -5.2 + 1 - 0.1 ms.
    assert story.where == "-4.20 ms (97.7 % of the change)"
    assert story.why.startswith("gone: -5.20 ms, mostly pointwise_")


def test_a_gain_names_the_element_type_first() -> None:
    base = {"sgemm_64x64(float*)": (10, 400_000), "other(float*)": (10, 100_000)}
    head = {"bf16_s16816gemm_64x64(bf16*)": (10, 100_000), "other(float*)": (10, 100_000)}
    operator = {name: "aten::mm" for name in (*base, *head) if "gemm" in name}
    (story,) = told(base, head, columns={"operator": operator})
    assert story.where.startswith("400 → 100 µs × 10 launches = -3 ms")
    assert story.why.startswith("operands fp32 → bf16; replaces sgemm_64x64")
    # A gain needs no advice.
    assert story.attempt == ""


def test_a_kernel_that_is_only_launched_more_often_is_not_called_slower() -> None:
    """GIVEN launches of 300 instead of 10,000 ns, and 100 times as many, WHEN compared."""
    base = {**PROGRAM, "small(float*)": (1, 10_000)}
    head = {**PROGRAM, "small(float*)": (100, 300)}
    made = compare(repeated(FIVE, base), repeated(FIVE, {**head, "small(float*)": (100, 1_000)}))
    (change,) = made.of("regressed")
    assert words.more_or_less(change) == "more calls"
    text = terminal.render(made, width=100)
    assert "more calls, each no slower" in text
    assert " slower  small" not in text
    # 10,000 to 10,300 ns each, and 20 times as many: calls, not slower. 3 % more calls of 4 % more
    # are slower.
    some = compare(repeated(FIVE, base), repeated(FIVE, {**head, "small(float*)": (20, 10_300)}))
    (change,) = some.of("regressed")
    assert words.more_or_less(change) == "more calls"
    assert "more calls, each about as fast" in terminal.render(some, width=100)
    many = {**PROGRAM, "small(float*)": (100, 10_000)}
    both = compare(repeated(FIVE, many), repeated(FIVE, {**many, "small(float*)": (103, 10_400)}))
    assert [words.more_or_less(one) for one in both.of("regressed")] == [""]
    fewer = compare(repeated(FIVE, head), repeated(FIVE, {**base, "small(float*)": (1, 15_000)}))
    (change,) = fewer.of("improved")
    assert words.more_or_less(change) == "fewer calls"


def test_the_wall_time_comes_first_and_can_take_the_verdict_back() -> None:
    base, slow = one_run(), one_run(factor=0.5)
    late = one_run(factor=0.5)
    starts = [value + (20_000_000 if at else 0) for at, value in
              enumerate(late.kernels["start_ns"].to_pylist())]  # fmt: skip
    at = late.kernels.schema.get_field_index("start_ns")
    table = late.kernels.set_column(
        at, late.kernels.schema.field(at), pa.array(starts, late.kernels.schema.field(at).type)
    )
    faster = compare(side([base]), side([slow]))
    assert faster.verdict == "improved"
    assert words.total_line(faster).startswith("wall time -49.4 % (6.07 → 3.07 ms), kernel time")
    # Half the kernel time, but 20 ms more by the clock.
    worse = compare(side([base]), side([replace(late, kernels=table)]))
    assert worse.verdict == "inconclusive"
    assert "the wall time changed by +279.9 %" in words.missing(worse)
