"""The same small launches again and again, which one launch could replace."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Rule, at_least


@dataclass(frozen=True, kw_only=True)
class _Repeat:
    """One pattern of ``sequences`` in which launches repeat."""

    id: str
    topic: str
    pattern: str
    title: str
    condition: str
    why: str
    fix: str
    refute: str
    references: tuple[str, ...]
    layer: Any = "framework"


_REPEATS = (
    _Repeat(
        id="workgroup-serial-launch",
        topic="small-kernels-graph",
        pattern="serial",
        title="One kernel is launched many times in a row",
        condition=("one short kernel on one grid ten times or more in a row on one stream"),
        why=(
            "Each launch costs about 2 µs on the GPU whatever it does, and a small grid leaves most "
            "multiprocessors idle. The same work in one launch pays once and fills them. Launches of "
            "up to 100 µs count."
        ),
        fix=(
            "Use a batched call (bmm, a foreach operator, vmap, a grouped product), stack or "
            "concatenate the tensors first, or move the loop into the kernel."
        ),
        refute=(
            "Check whether each launch needs the result of the previous one. If so, they cannot be "
            "merged, but a graph replay removes the gaps."
        ),
        references=("Zhou et al.: GPA, a GPU performance advisor, CGO 2021 (kernel merge)",),
    ),
    _Repeat(
        id="for-loop-indexing",
        topic="small-kernels-graph",
        pattern="loop",
        title="A loop indexes tensors one piece at a time",
        condition=(
            "a pattern of up to four launches with an indexing operator ten times or more in a row"
        ),
        why=(
            "A Python loop that reads or writes one element or row at a time launches several kernels "
            "of 2 µs for a few bytes, and the host spends far longer on each."
        ),
        fix=(
            "Use one indexing call with all indices (x[index], gather, index_put_), a mask, or "
            "torch.vmap over the loop."
        ),
        refute="After the change one or two launches must remain, with the same result.",
        references=("PyTorch profiler, ForLoopIndexingPattern",),
    ),
)


def _columns(one: _Repeat) -> tuple[str, ...]:
    """pct, launches, time, kept, gap, example and regions of the pattern."""
    what = ("pct", "launches", "time_ns", "kept_ns", "gap_ns", "example", "regions")
    return tuple(f"{one.pattern}_{name}" for name in what)


def _spared_ns(k: Facts, one: _Repeat) -> Column:
    _, _, time, kept, gap, _, _ = _columns(one)
    return np.asanyarray(getattr(k, time) - getattr(k, kept) + getattr(k, gap))


def _whole_ns(k: Facts, one: _Repeat) -> Column:
    _, _, time, _, gap, _, _ = _columns(one)
    return np.asanyarray(getattr(k, time) + getattr(k, gap))


def _found(one: _Repeat, fixed: float, between: float) -> Mapping[str, Any]:
    pct, launches, time, kept, gap, example, regions = _columns(one)
    return {
        launches: 480.0, regions: 24.0, time: 2e6, kept: 2e6 - fixed, gap: between, pct: 2.0,
        example: "copy_ (20 times in a row), 24 times", "time_ns": 1e8,
    }  # fmt: skip


def _rule(one: _Repeat) -> Rule:
    pct, launches, time, kept, gap, example, regions = _columns(one)
    found = partial(_found, one)
    return Rule(
        id=one.id,
        topic=one.topic,
        title=one.title,
        scope="run",
        why=one.why,
        condition=f"{one.condition}; fixed costs and gaps are {{{time}:.1%}} of the run or more, and "
        "{part:.0%} of the time that the launches and their gaps take or more",
        needs=(time, kept, gap),
        uses=(pct, launches, regions, example, "time_ns"),
        applies=lambda k: ~np.isnan(getattr(k, time)),
        # Launches of full work lose little by being many.
        when=lambda k: k.meets(time) & k.meets("part"),
        because=(
            f"{{{launches}}} launches of this kind take {{{time}}}, and the GPU is idle for {{{gap}}} while "
            f"they are launched: {{{example}}}"
        ),
        fix=one.fix,
        refute=one.refute,
        saves=lambda k, peak: np.asanyarray(_spared_ns(k, one) / k.time_ns),
        thresholds={
            time: at_least(
                0.005,
                measure=partial(_spared_ns, one=one),
                of="time_ns",
                words="with gaps, less what stays: {op} {value:.1%} of the run",
            ),
            "part": at_least(
                0.1,
                column=time,
                measure=partial(_spared_ns, one=one),
                of=partial(_whole_ns, one=one),
                told=False,
            ),
        },
        kind="conditional",
        grade="inferred",
        layer=one.layer,
        effort="refactor",
        references=one.references,
        # 0.5 % of 100 ms are 0.5 ms; of 20 ms they are less than a tenth.
        fires=(found(500_000.0, 0.0), found(100_000.0, 30e6)),
        silent=(
            found(300_000.0, 199_999.0),
            found(0.0, 0.0),
            {**found(600_000.0, 0.0), time: 20e6, kept: 19.4e6},
        ),
    )


RULES = tuple(_rule(one) for one in _REPEATS)
