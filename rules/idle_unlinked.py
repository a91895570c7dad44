"""The GPU waits, and what the host did was not recorded: the length of the gaps is all that tells."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Rule, at_least
from traceroof.rules._timelines import MATTERS, part


def _short(k: Facts) -> Column:
    """Gaps under 1 ms; where these are most of the idle time, the longer ones too. ns."""
    short = k.idle_unknown_ns - k.long_idle_unknown_ns
    return np.asanyarray(np.where(k.long_idle_unknown_ns <= short, k.idle_unknown_ns, short))


def _long(k: Facts) -> Column:
    """Gaps of 1 ms or longer, where these are most of the idle time. ns."""
    return np.asanyarray(k.idle_unknown_ns - _short(k))


@dataclass(frozen=True, kw_only=True)
class _Gaps:
    """Gaps of one length, and what they usually come from."""

    id: str
    topic: str
    title: str
    length: str
    usually: str
    fix: str
    time: Callable[[Facts], Column]
    long_pct: float


_KINDS = (
    _Gaps(
        id="idle-in-short-gaps",
        topic="host-bound-launch",
        title="The GPU goes idle between kernels, probably for launches",
        length="shorter than a millisecond",
        usually="waits for launches, one by one",
        fix=(
            "If it is, launch less often: replay the step as a graph, fuse chains of small operators "
            "(torch.compile), batch small tensors."
        ),
        time=_short,
        long_pct=10.0,
    ),
    _Gaps(
        id="idle-in-long-gaps",
        topic="host-bound-other",
        title="The GPU waits in long gaps, probably for the host",
        length="of a millisecond or longer",
        usually="waits for the host, which does something else",
        fix=(
            "If it is, see what the program does in the longest gaps: input, post-processing, logging, "
            "set-up that comes once."
        ),
        time=_long,
        long_pct=90.0,
    ),
)


def _rule(one: _Gaps) -> Rule:
    def example(idle: float, long: float) -> dict[str, float]:
        return {
            "span_ns": 100e6,
            "idle_unknown_ns": idle,
            "long_idle_unknown_ns": idle * long / 100,
        }

    return Rule(
        id=one.id,
        topic=one.topic,
        title=one.title,
        scope="timeline",
        why=(
            "The recording holds what the GPU did, and not the calls that launched it, so that the cause "
            f"of the idle time is not known. Gaps of this length between kernels are usually {one.usually}."
        ),
        condition=(
            "the GPU is idle for {idle:.0%} of the span or more before work whose launch call is not in "
            f"the recording, in gaps of one length, {one.length} here (shorter and longer than a millisecond; where the "
            "shorter ones are most, all gaps are theirs), its start left out"
        ),
        needs=("idle_unknown_ns", "long_idle_unknown_ns", "span_ns"),
        uses=("longest_gap_ns",),
        when=lambda k: k.meets("idle"),
        because=(
            "the GPU is idle for {idle_unknown_ns} of {span_ns} before work whose launch call was not "
            f"recorded, most of it in gaps {one.length}[ (the longest of all: {{longest_gap_ns}})]; "
            "the cause is inferred from their length"
        ),
        fix=(
            "Record the host as well, which tells the cause: torch.profiler with "
            "ProfilerActivity.CPU[nvidia: , nsys profile --trace=cuda,nvtx][amd: , rocprofv3 "
            f"--sys-trace]. {one.fix}"
        ),
        refute="Record the host's calls: the gaps must end with a late launch.",
        saves=lambda k, peak: part(one.time(k), k),
        kind="hard",
        grade="inferred",
        layer="framework",
        effort="refactor",
        suppresses=("gpu-idle-share",),
        thresholds={
            "idle": at_least(
                MATTERS, measure=one.time, column="idle_unknown_ns", of="span_ns",
                words="{op} {value:.0%} of the span in such gaps",
            ),
        },
        references=("Holistic Trace Analysis, idle time breakdown: host wait",),
        fires=(example(50e6, one.long_pct), example(6e6, one.long_pct)),
        silent=(
            example(4.9e6, one.long_pct),
            example(6e6, 100 - one.long_pct),
        ),
    )  # fmt: skip


RULES = tuple(_rule(one) for one in _KINDS)
