"""How the ranks of a run differ, in a few lines."""

from collections.abc import Sequence

from traceroof.core.units import count, percent, quantity
from traceroof.timeline.rank_spread import SlowGroup, Straggler
from traceroof.timeline.ranks import Ranks

_SHOWN = 3
_CATEGORIES = 4
# Ranks that are named one by one.
_NAMED = 8


def rank_lines(across: Ranks | None) -> list[tuple[str, str]]:
    """(label, text) pairs; none where nothing is to be said."""
    if across is None:
        return []
    lines = [
        ("Across ranks", _spread(across)),
        ("Stragglers", _listed([straggler(one) for one in across.stragglers])),
        ("Slow links", _listed([slow_group(one) for one in across.slow_groups])),
        ("By group", _groups(across)),
        ("Missing", fell_out(across)),
    ]
    return [(label, text) for label, text in lines if text]


def _listed(texts: Sequence[str]) -> str:
    more = f"; and {len(texts) - _SHOWN} more" if texts[_SHOWN:] else ""
    return "; ".join(texts[:_SHOWN]) + more


def _spread(across: Ranks) -> str:
    """Time per rank by category: the median, and the range with the rank that has the most."""
    if len(across.ranks) < _NAMED:
        return ""
    return ", ".join(
        f"{one.category} {quantity(one.median_ns, 'ns')} "
        f"({quantity(one.least_ns, 'ns')} to {quantity(one.most_ns, 'ns')}, rank {one.rank})"
        for one in across.categories[:_CATEGORIES]
        if one.most_ns
    )


def straggler(one: Straggler) -> str:
    """A slow rank: how much slower, at what, who waited."""
    text = f"rank {one.rank} takes {quantity(one.more_ns, 'ns')} longer ({percent(one.share)})"
    if one.causes:
        causes = [
            f"{cause.name.replace('_', ' ')}{' idle' if cause.kind == 'idle' else ''} "
            f"+{quantity(cause.more_ns, 'ns')}"
            for cause in one.causes
        ]
        text += f": {', '.join(causes)}"
    if one.caused_ns:
        text += f"; others waited {quantity(one.caused_ns, 'ns')} for it in all"
    return text


def slow_group(one: SlowGroup) -> str:
    """A slow group, or the link between two ranks."""
    size = "" if one.message_bytes is None else f" of {quantity(one.message_bytes, 'byte')}"
    name = f" ({one.name})" if one.name else ""
    return (
        f"ranks {_ranks(one.ranks)}{name}: {one.collective}{size} takes "
        f"{quantity(one.median_ns, 'ns')}, {quantity(one.usual_ns, 'ns')} in "
        f"{count(one.among - 1, 'group')} like it"
    )


def _ranks(ranks: Sequence[int]) -> str:
    named = ", ".join(map(str, ranks[:_NAMED]))
    return named if len(ranks) <= _NAMED else f"{named} and {len(ranks) - _NAMED} more"


def _groups(across: Ranks) -> str:
    """Exposed communication per rank by kind of process group."""
    told = [one for one in across.group_kinds if one.name or one.size]
    if len({one.name for one in told}) < 2:
        return ""
    return "; ".join(
        f"{one.name or 'unnamed'} ({count(one.groups, 'group')}"
        f"{'' if one.size is None else f' of {one.size}'}): "
        f"{quantity(one.exposed_ns / one.ranks, 'ns')} of {quantity(one.time_ns / one.ranks, 'ns')} "
        "exposed per rank"
        for one in told[:_CATEGORIES]
    )


def fell_out(across: Ranks) -> str:
    """Ranks that are not there, or not to the end."""
    parts = []
    if across.missing:
        parts.append(
            f"no trace of {'rank' if len(across.missing) == 1 else 'ranks'} {_ranks(across.missing)}"
        )
    for one in across.short[:_SHOWN]:
        parts.append(f"rank {one.rank} has {one.steps} of {count(one.of_steps, 'step')}")
    if across.short[_SHOWN:]:
        parts.append(f"{len(across.short) - _SHOWN} more ranks lack steps")
    return "; ".join(parts)
