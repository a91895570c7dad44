"""Events that were decoded into objects, as the columns that ``Fold`` takes."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from traceroof.parsers.torch import event_codes as codes_of
from traceroof.parsers.torch.columns import Fold, Rows, kept_frames
from traceroof.parsers.torch.event_columns import FAMILIES, GPU_KINDS
from traceroof.parsers.torch.events import UNKNOWN, nanoseconds, reals, wholes

_NO_PHASE = "GPU activities of an unknown phase (ph), left out"


def fold_events(fold: Fold, events: Sequence[Any]) -> None:
    """Take what is needed of these events."""
    by_category: defaultdict[Any, list[Any]] = defaultdict(list)
    try:
        for event in events:
            by_category[event.cat].append(event)
    except TypeError:
        by_category.clear()
        for event in events:
            by_category[event.cat if isinstance(event.cat, str) else None].append(event)
    for category, found in by_category.items():
        fold.categories[category] += len(found)
        if category not in FAMILIES:
            continue
        complete = [event for event in found if event.ph == "X"]
        if category in GPU_KINDS and len(complete) < len(found):
            fold.counts[_NO_PHASE] += len(found) - len(complete)
        if complete:
            fold.add(category, _ROWS[FAMILIES[category]](fold, category, complete))


def _times(events: list[Any]) -> Rows:
    return {
        "start": nanoseconds([event.ts for event in events]),
        "duration": nanoseconds([event.dur for event in events]),
    }


def _ranges(fold: Fold, category: str, events: list[Any]) -> Rows:
    return {
        "name": codes_of.names(fold, events),
        "thread": codes_of.threads(fold, events),
        **_times(events),
    }


def _operators(fold: Fold, category: str, events: list[Any]) -> Rows:
    args = codes_of.args_of(events)
    return {
        "signature": codes_of.signatures(fold, category, events),
        "thread": codes_of.threads(fold, events),
        **_times(events),
        "sequence": wholes([-1 if arg.sequence is None else arg.sequence for arg in args]),
        "collective": codes_of.collectives(fold, category, events),
        "unfinished": codes_of.unfinished(events),
        "line": codes_of.lines(fold, events),
    }


def _calls(fold: Fold, category: str, events: list[Any]) -> Rows:
    args = codes_of.args_of(events)
    return {
        **_ranges(fold, category, events),
        "correlation": wholes([arg.correlation for arg in args]),
        # Ranks that a tool wrote into the events when it merged the files of several.
        "rank": wholes([UNKNOWN if arg.rank is None else arg.rank for arg in args]),
        "grid": codes_of.texts(fold, [arg.grid for arg in args]),
        "block": codes_of.texts(fold, [arg.block for arg in args]),
        "shared_memory": reals([arg.shared_memory for arg in args]),
        "bytes": reals([arg.bytes for arg in args]),
        "size": reals([arg.size for arg in args]),
    }


def _gpu(fold: Fold, category: str, events: list[Any]) -> Rows:
    args = codes_of.args_of(events)
    return {
        "name": codes_of.names(fold, events),
        "launch": codes_of.launches(fold, events),
        **_times(events),
        "correlation": wholes([arg.correlation for arg in args]),
        "bytes": reals([arg.bytes for arg in args]),
        "collective": codes_of.collectives(fold, category, events),
    }


def _frames(fold: Fold, category: str, events: list[Any]) -> Rows:
    kinds = fold.frame_kinds.of([event.name for event in events])
    kept = kept_frames(kinds, nanoseconds([event.dur for event in events]))
    return {**_ranges(fold, category, [events[at] for at in kept]), "kind": kinds[kept]}


def _other(fold: Fold, category: str, events: list[Any]) -> Rows:
    args = codes_of.args_of(events)
    return {
        **_ranges(fold, category, events),
        "stream": wholes([arg.stream for arg in args]),
        "device": wholes([arg.device for arg in args]),
        "correlation": wholes([arg.correlation for arg in args]),
    }


_ROWS: Final[Mapping[str, Callable[[Fold, str, list[Any]], Rows]]] = {
    "gpu": _gpu,
    "operators": _operators,
    "calls": _calls,
    "ranges": _ranges,
    "frames": _frames,
    "other": _other,
}
