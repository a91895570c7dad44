"""Kernels that only one side has, and kernels that took another's place."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from traceroof.core.facts import Facts, Mask
from traceroof.rule import Rule, at_least
from traceroof.rules._changes import of_level, same_kernel


@dataclass(frozen=True)
class _Kind:
    id: str
    topic: str
    title: str
    condition: str
    when: Callable[[Facts], Mask]
    because: str
    example: dict[str, Any]
    other: dict[str, Any]


_KINDS = (
    _Kind(
        id="cmp-new-kernel",
        topic="change",
        title="New kernel: not in the base",
        condition="only in the head, and it replaces no kernel of the base",
        when=lambda k: k.verdict == "new",
        because="{launches_head} launches, {head_ns}, {share_pct} of the time of the base",
        example={"verdict": "new", "head_ns": 1e6, "launches_head": 2.0},
        other={"verdict": "unchanged"},
    ),
    _Kind(
        id="cmp-vanished-kernel",
        topic="change",
        title="Vanished kernel: not in the head",
        condition="only in the base, and no kernel of the head replaces it",
        when=lambda k: k.verdict == "gone",
        because="{launches_base} launches, {base_ns}, {share_pct} of the time of the base",
        example={"verdict": "gone", "base_ns": 1e6, "launches_base": 2.0},
        other={"verdict": "new"},
    ),
    _Kind(
        id="cmp-kernel-substituted",
        topic="change",
        title="Another kernel does the same work",
        condition=(
            "names differ, but the computation agrees: operator and inputs, a name that differs only "
            "in numbers, the operator, or category, launches and place in the run"
        ),
        when=lambda k: ~same_kernel(k) & (k.verdict != "new") & (k.verdict != "gone"),
        because="takes the place of {kernel_base} (paired by {matched_by})",
        example={"verdict": "unchanged", "matched_by": "operator", "kernel_base": "sgemm_64x64"},
        other={"verdict": "unchanged", "matched_by": "launch"},
    ),
)


def _rule(one: _Kind) -> Rule:
    big: dict[str, Any] = {"level": "kernel", "share_pct": 0.5, "matched_by": "none"}
    return Rule(
        id=one.id,
        topic=one.topic,
        title=one.title,
        scope="compare",
        why=(
            "Compilers renumber generated kernels, libraries and autotuners choose another tile, and "
            "fusion merges kernels. The time is then in a kernel of another name."
        ),
        condition=one.condition + "; {share_pct} of the time or more",
        needs=("verdict", "share_pct"),
        uses=("level", "matched_by", "kernel_base", "launches_base", "launches_head", "base_ns",
              "head_ns"),
        applies=lambda k: of_level(k, "kernel"),
        when=lambda k: one.when(k) & k.meets("share_pct"),
        because=one.because,
        fix=(
            "Check what replaced what. Warm up until the autotuner has settled, and pin its choice "
            "or its cache, so that both sides run the same kernels."
        ),
        refute="Trace both sides once more. The same kernels must appear and vanish.",
        kind="hard",
        grade="inferred",
        layer="framework",
        severity="info",
        thresholds={"share_pct": at_least(0.5)},
        references=("PyTorch documentation: torch.compile, max-autotune and its cache",),
        fires=({**big, **one.example}, {**big, **one.example, "share_pct": 30.0}),
        silent=({**big, **one.other}, {**big, **one.example, "share_pct": 0.49}),
    )  # fmt: skip


RULES = tuple(_rule(one) for one in _KINDS)
