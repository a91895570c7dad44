"""Copies that nothing hides: one rule for each way that most of them go."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_

from traceroof.rule import Rule, Threshold, above, at_least, at_most

_WAYS = ("h2d_exposed_ns", "d2h_exposed_ns", "d2d_exposed_ns", "p2p_exposed_ns")
# Of the exposed copies, what makes a direction the one that most go.
_MOST = 0.5


def _share(way: str) -> Threshold:
    return above(_MOST, column=way, of="exposed_memcpy_ns")


def _no_share(way: str) -> Threshold:
    return at_most(_MOST, column=way, of="exposed_memcpy_ns", or_unknown=True)


@dataclass(frozen=True)
class _Way:
    """Where the copies go. shares: what tells. hidden: whether overlap helps, and not fewer
    copies alone."""

    id: str
    title: str
    where: str
    fix: str
    hidden: bool
    shares: Mapping[str, Threshold]
    example: Mapping[str, float]
    others: tuple[Mapping[str, float], ...]


_EXPOSED = (
    _Way(
        id="memcpy-exposed",
        title="Copies to the GPU run while nothing computes",
        where=(
            "no more than {to_host:.0%} of it to the host, {within:.0%} within the GPU or {between:.0%} "
            "between GPUs"
        ),
        fix=(
            "Keep what does not change on the GPU. Copy the rest from pinned memory, the next batch "
            "on a second stream while this one computes."
        ),
        hidden=True,
        shares={
            "to_host": _no_share("d2h_exposed_ns"),
            "within": _no_share("d2d_exposed_ns"),
            "between": _no_share("p2p_exposed_ns"),
        },
        example={"h2d_exposed_ns": 87e6, "d2h_exposed_ns": 8e6, "d2d_exposed_ns": 0.0},
        others=(
            {"h2d_exposed_ns": 8e6, "d2h_exposed_ns": 87e6, "d2d_exposed_ns": 0.0},
            {"h2d_exposed_ns": 8e6, "d2h_exposed_ns": 0.0, "d2d_exposed_ns": 87e6},
            {"h2d_exposed_ns": 8e6, "d2h_exposed_ns": 0.0, "p2p_exposed_ns": 87e6},
        ),
    ),
    _Way(
        id="memcpy-exposed-to-host",
        title="Copies to the host run while nothing computes",
        where="more than {to_host:.0%} of it to the host",
        fix=(
            "Keep the data on the GPU, or copy it to pinned memory on a second stream while the next "
            "step computes. Read it later than that."
        ),
        hidden=True,
        shares={"to_host": _share("d2h_exposed_ns")},
        example={"h2d_exposed_ns": 8e6, "d2h_exposed_ns": 87e6, "d2d_exposed_ns": 0.0},
        others=({"h2d_exposed_ns": 87e6, "d2h_exposed_ns": 8e6, "d2d_exposed_ns": 0.0},),
    ),
    _Way(
        id="memcpy-exposed-within-gpu",
        title="Copies within the GPU run while nothing computes",
        where="more than {within:.0%} of it within the GPU",
        fix=(
            "Find the operators that copy (contiguous, clone, cat, padding, inputs of graphs). "
            "Write into the destination at once, or fuse the copy into a neighbour."
        ),
        hidden=False,
        shares={"within": _share("d2d_exposed_ns")},
        example={"h2d_exposed_ns": 8e6, "d2h_exposed_ns": 0.0, "d2d_exposed_ns": 87e6},
        others=({"h2d_exposed_ns": 87e6, "d2h_exposed_ns": 0.0, "d2d_exposed_ns": 8e6},),
    ),
    _Way(
        id="memcpy-exposed-between-gpus",
        title="Copies between GPUs run while nothing computes",
        where="more than {between:.0%} of it between GPUs",
        fix=(
            "Copy on a second stream while this GPU computes, and start before the data is needed. "
            "Exchange through collectives of a library, which use all links: in PyTorch "
            "DistributedDataParallel in place of DataParallel."
        ),
        hidden=True,
        shares={"between": _share("p2p_exposed_ns")},
        example={"h2d_exposed_ns": 8e6, "d2h_exposed_ns": 0.0, "p2p_exposed_ns": 87e6},
        others=({"h2d_exposed_ns": 87e6, "d2h_exposed_ns": 0.0, "p2p_exposed_ns": 8e6},),
    ),
)


def _rule(way: _Way) -> Rule:
    exposed = {"exposed_memcpy_pct": 12.8, "exposed_memcpy_ns": 95e6}
    whole = {**exposed, "compute_ns": 400e6, "span_ns": 742e6}
    return Rule(
        id=way.id,
        topic="input-copy",
        title=way.title,
        scope="timeline",
        why=(
            "GPUs copy with engines of their own, beside the kernels, if another stream has work. "
            "These copies run alone: the kernels after them wait for the data, or are in the same "
            "stream."
        ),
        condition=(
            "copies run alone, without computation or communication, for {exposed_memcpy_pct} of "
            f"the span or more, {way.where}"
        ),
        needs=("exposed_memcpy_pct", "exposed_memcpy_ns"),
        uses=(
            "copies",
            "copy_bytes",
            "compute_ns",
            "span_ns",
            "pageable_copies",
            "h2d_bytes_per_s",
            "d2h_bytes_per_s",
            *_WAYS,
        ),
        applies=lambda k: reduce(and_, [k.meets(name) for name in way.shares]),
        when=lambda k: k.meets("exposed_memcpy_pct"),
        because=(
            "copies run alone for {exposed_memcpy_ns} ({exposed_memcpy_pct})"
            "[: to the GPU {h2d_exposed_ns:some}][, to the host {d2h_exposed_ns:some}]"
            "[, within the GPU {d2d_exposed_ns:some}][, between GPUs {p2p_exposed_ns:some}]"
            "[; at {h2d_bytes_per_s} to the GPU][; at {d2h_bytes_per_s} to the host]"
            "[; {pageable_copies:,.0f} of {copies:,.0f} copies use pageable host memory]"
            + "[; computation takes {compute_ns} and hides no more than that]"
            * way.hidden
        ),
        fix=way.fix,
        refute="Remove the copies in a test. The step must get shorter by about this time.",
        saves=lambda k, peak: k.exposed_memcpy_pct / 100,
        kind="hard",
        grade="observed",
        layer="framework",
        effort="refactor",
        thresholds={"exposed_memcpy_pct": at_least(5), **way.shares},
        references=("TraceLens: exposed copy time above 5 %",),
        fires=({**whole, **way.example}, {**whole, **way.example, "exposed_memcpy_pct": 5.0}),
        silent=(
            {**whole, **way.example, "exposed_memcpy_pct": 4.9},
            *({**whole, **other} for other in way.others),
            {**way.example, "exposed_memcpy_pct": 0.0, "exposed_memcpy_ns": 0.0},
        ),
    )


RULES = tuple(_rule(way) for way in _EXPOSED)
