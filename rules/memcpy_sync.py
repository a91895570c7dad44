"""Copies and fills that keep the host waiting."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Rule, above, at_least
from traceroof.rules._timelines import part


@dataclass(frozen=True, kw_only=True)
class _Blocking:
    """One kind of call. bound: how much of the GPU's time it can have cost at most. ns."""

    id: str
    topic: str
    title: str
    calls: str
    time: str
    words: str
    why: str
    fix: str
    uses: tuple[str, ...]
    bound: Callable[[Facts], Column]


_KINDS = (
    _Blocking(
        id="memcpy-sync",
        topic="sync",
        title="Copies block the host",
        calls="copy_calls",
        time="copy_time_ns",
        words="copy calls that return when the copy is done",
        why=(
            "A blocking copy first waits for the work before it, then for itself. Meanwhile the "
            "host launches nothing. It costs GPU time only while the GPU is idle."
        ),
        fix=(
            "Use the asynchronous copy ([nvidia: cudaMemcpyAsync][amd: hipMemcpyAsync]; in PyTorch "
            "non_blocking=True) from pinned memory on a stream, and wait only where the value is used."
        ),
        uses=("idle_sync_ns", "idle_copy_ns", "h2d_exposed_ns", "d2h_exposed_ns"),
        bound=lambda k: (
            np.nan_to_num(k.idle_sync_ns)
            + np.nan_to_num(k.idle_copy_ns)
            + np.nan_to_num(k.h2d_exposed_ns)
            + np.nan_to_num(k.d2h_exposed_ns)
        ),
    ),
    _Blocking(
        id="memset-sync",
        topic="sync",
        title="Fills block the host",
        calls="fill_calls",
        time="fill_time_ns",
        words="fill calls that may wait for the GPU",
        why=(
            "cudaMemset and similar calls may wait for the work before them (on pinned host memory "
            "they always do). The asynchronous form only takes its place in the stream."
        ),
        fix=(
            "Use [nvidia: cudaMemsetAsync][amd: hipMemsetAsync] on the stream that needs the memory."
        ),
        uses=("idle_ns",),
        bound=lambda k: np.asanyarray(k.idle_ns),
    ),
)


def _rule(one: _Blocking) -> Rule:
    def cost(k: Facts) -> Column:
        return part(np.fmin(getattr(k, one.time), one.bound(k)), k)

    example = {
        "span_ns": 100e6,
        one.calls: 5.0,
        one.time: 0.5e6,
        **dict.fromkeys(one.uses, 0.5e6),
    }
    return Rule(
        id=one.id,
        topic=one.topic,
        title=one.title,
        scope="timeline",
        why=one.why,
        condition=(
            f"{one.words} (more than {{{one.calls}}} of them) and cost the GPU {{{one.time}:.1%}} of the span "
            "or more (host time of these calls, counted only while the GPU is idle)"
        ),
        needs=(one.calls, one.time, "span_ns"),
        uses=one.uses,
        when=lambda k: k.meets(one.calls) & k.meets(one.time),
        because=f"{{{one.calls}:,.0f}} {one.words} hold the host for {{{one.time}}}",
        fix=one.fix,
        refute="Replace one of them. If the gap after it stays, the host waited for something else.",
        saves=lambda k, peak: cost(k),
        kind="hard",
        grade="observed",
        layer="framework",
        effort="one-line",
        thresholds={
            one.calls: above(2, told=False),
            one.time: at_least(
                0.005, measure=cost, words="{op} {value:.1%} of the span, as far as the GPU waited"
            ),
        },
        references=(
            "Nsight Systems expert rules cuda_memcpy_sync and cuda_memset_sync",
            "CUDA Runtime API, API synchronization behavior",
        ),
        fires=(example, {**example, one.calls: 3.0, one.time: 50e6}),
        silent=(
            {**example, one.time: 0.49e6},
            {**example, one.calls: 2.0},
            {**example, **dict.fromkeys(one.uses, 0.1e6)},
        ),
    )


RULES = tuple(_rule(one) for one in _KINDS)
