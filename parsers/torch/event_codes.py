"""Numbers for what the fields of events say, however a writer put it: each text or combination once."""

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from traceroof.parsers.torch.columns import Fold
from traceroof.parsers.torch.event_columns import LAUNCH_FIELDS, OPERATOR_CATEGORIES, Codes
from traceroof.parsers.torch.events import Args
from traceroof.parsers.torch.process_groups import described
from traceroof.parsers.torch.python_frames import own_line

NO_ARGS = Args()
# The operator that tells of a collective; others have the same arguments.
_COMMUNICATION = "record_param_comms"

_of_args = attrgetter(*LAUNCH_FIELDS[2:-3])


def args_of(events: Iterable[Any]) -> list[Any]:
    return [event.args or NO_ARGS for event in events]


def names(fold: Fold, events: Sequence[Any]) -> Codes:
    return fold.names.names([event.name for event in events])


def threads(fold: Fold, events: Sequence[Any]) -> Codes:
    pids, tids = [event.pid for event in events], [event.tid for event in events]
    if not pids:
        return np.empty(0, dtype=np.int32)
    if pids.count(pids[0]) == len(pids) == tids.count(tids[0]):
        pids, tids = pids[:1], tids[:1]
    try:
        codes = fold.threads.codes(zip(pids, tids, strict=True), len(pids))
    except TypeError:
        codes = fold.threads.codes(map(_hashable, zip(pids, tids, strict=True)), len(pids))
    return codes if len(codes) > 1 else np.full(len(events), codes[0], dtype=np.int32)


def signatures(fold: Fold, category: str, events: Sequence[Any]) -> Codes:
    args, called = args_of(events), [event.name for event in events]
    shapes = [arg.old_shapes if category == "Operator" else arg.shapes for arg in args]
    texts = (shapes, [arg.dtypes for arg in args], [arg.values for arg in args])

    def codes(named: Iterable[Any]) -> Codes:
        columns = (map(bytes, column) for column in texts)
        return fold.signatures.codes(zip(named, *columns, strict=True), len(called))

    try:
        return codes(called)
    except TypeError:
        return codes(map(str, called))


def launches(fold: Fold, events: Sequence[Any]) -> Codes:
    args = args_of(events)
    pids, tids = [event.pid for event in events], [event.tid for event in events]
    texts = ([arg.grid for arg in args], [arg.block for arg in args],
             [arg.occupancy for arg in args])  # fmt: skip

    def entries() -> Iterator[Any]:
        columns = (map(bytes, column) for column in texts)
        return zip(pids, tids, map(_of_args, args), *columns, strict=True)

    try:
        return fold.launches.codes(entries(), len(events))
    except TypeError:
        return fold.launches.codes(map(_hashable, entries()), len(events))


def texts(fold: Fold, raws: Sequence[Any]) -> Codes:
    return fold.texts.codes(map(bytes, raws), len(raws))


def collectives(fold: Fold, category: str, events: Sequence[Any]) -> Codes:
    """-1 for events that tell of none."""
    found = np.full(len(events), -1, dtype=np.int32)
    for at, event in enumerate(events):
        arg = event.args
        if arg is None or arg.collective is None:
            continue
        if category in OPERATOR_CATEGORIES and event.name != _COMMUNICATION:
            continue
        what = (arg.collective, arg.elements_in, arg.elements_out, arg.group_size, arg.dtype)
        group = described(_given(arg.group_name), _given(arg.group_description))
        found[at] = fold.collectives[(*map(str, what), group, _given(arg.group_ranks))]
    return found


def lines(fold: Fold, events: Sequence[Any]) -> Codes:
    """The program's line in each event's call stack as a code of a name, -1 for none."""
    stacks = [arg.stack for arg in args_of(events)]
    found = np.full(len(stacks), -1, dtype=np.int32)
    if any(stacks):
        own = [own_line(stack) if isinstance(stack, str) else None for stack in stacks]
        known = [at for at, line in enumerate(own) if line]
        found[known] = fold.names.codes([own[at] for at in known], len(known))
    return found


def unfinished(events: Sequence[Any]) -> Codes:
    """1 for an operator that had not finished when the recording stopped, else 0."""
    finished = (arg.finished for arg in args_of(events))
    return np.array(
        [one is not None and str(one).lower() == "false" for one in finished], dtype=np.int32
    )


def _given(value: Any) -> str:
    """What was written, '' for nothing."""
    return "" if value is None else str(value)


def _hashable(values: Sequence[Any]) -> tuple[Any, ...]:
    """The values without lists and objects, which none of them should be."""
    return tuple(
        None
        if isinstance(value, list | dict)
        else _hashable(value)
        if isinstance(value, tuple)
        else value
        for value in values
    )
