"""NVTX ranges of an export, and which of them each launch lies in.

A range belongs to the thread that opened it; a launch lies in the innermost range of its thread
that contains the whole launch call. Steps belong to the process: a pass of the model launches from
several threads.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core.recording import SPANS
from traceroof.ingest.sqlite import UNKNOWN, Whole
from traceroof.parsers.host.arrow import Texts, wholes
from traceroof.parsers.host.containment import Containers, containers, holding
from traceroof.parsers.host.paths import Paths, nearest, paths_to
from traceroof.parsers.host.steps import Steps, containing_step, told_apart
from traceroof.parsers.nsight.nsys_host import Calls
from traceroof.parsers.nsight.nsys_roles import (
    BACKWARD,
    STEPS,
    Meaning,
    Role,
    meaning_of,
    phase_of,
)
from traceroof.parsers.nsight.nsys_tables import Codes, Export, process_of, thread_of

Mask = npt.NDArray[np.bool_]

NVTX: Final = "NVTX_EVENTS"
PHASE_NAMES: Final = ("forward", "backward", "optimizer")
# What took the host less than this explains no gap between kernels.
_LONG_NS: Final = 10_000


@dataclass(frozen=True)
class Ranges:
    """n ranges. thread: globalTid. meaning: codes of ``meanings``. unclosed: those that were still
    open when the recording ended, which is taken as their end."""

    thread: Whole
    start: Whole
    end: Whole
    meaning: Codes
    meanings: Sequence[Meaning]
    unclosed: int = 0

    def __len__(self) -> int:
        return len(self.start)

    def at(self, rows: npt.NDArray[Any]) -> "Ranges":
        """Some of the ranges."""
        names = ("thread", "start", "end", "meaning")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def of_role(self, role: Role) -> "Ranges":
        """Those that stand for something."""
        is_role = np.array([one.role is role for one in self.meanings] + [False])
        return self.at(np.flatnonzero(is_role[self.meaning]))

    @cached_property
    def names(self) -> list[str]:
        return [one.name for one in self.meanings]


@dataclass(frozen=True)
class Links:
    """For each launch call what it lies in; -1 for nothing.

    operator, shapes: codes of the meanings. operator_call: number of the operator's call. phase:
    of PHASE_NAMES. step: of ``steps``. module_path is the chain of named ranges.
    """

    operator: Codes
    operator_call: Whole
    operator_path: Paths
    module_path: Paths
    phase: Whole
    step: Whole
    steps: Steps
    meanings: Sequence[Meaning]


def ranges_of(export: Export) -> Ranges:
    """Read the ranges; marks, and events without a time, are none."""
    rows = export.timed(NVTX, ("eventType", "textId", "domainId", "globalTid"))
    text, texts = _texts(export, rows["textId"])
    domain = _domains(export, rows, text, texts)
    kinds = [
        number
        for name in ("NvtxPushPopRange", "NvtxStartEndRange")
        for number in export.event_types(name)
    ]
    mine = np.isin(rows["eventType"], kinds) & (rows["start"] != UNKNOWN) & (text >= 0)
    mine &= (rows["end"] == UNKNOWN) | (rows["end"] >= rows["start"])
    at = np.flatnonzero(mine)
    start, end = rows["start"][at], rows["end"][at]
    is_open = end == UNKNOWN
    last = max(int(end.max(initial=UNKNOWN)), int(start.max(initial=UNKNOWN)))
    meanings: list[Meaning] = []
    code_of: dict[tuple[str, str], int] = {}
    codes = np.zeros(len(at), dtype=np.int32)
    for place, key in enumerate(zip(domain[at].tolist(), text[at].tolist(), strict=True)):
        pair = key[0], texts[key[1]]
        code = code_of.get(pair)
        if code is None:
            code = code_of[pair] = len(meanings)
            meanings.append(meaning_of(*pair))
        codes[place] = code
    return Ranges(
        rows["globalTid"][at], start, np.where(is_open, last, end), codes, meanings,
        int(is_open.sum()),
    )  # fmt: skip


def _texts(export: Export, ids: Whole) -> tuple[Codes, list[str]]:
    """The text of each event: its own, else the one that its id means."""
    own = export.database.read(NVTX, ("text",)).get("text", [])
    registered = export.names(ids)
    texts = list(registered.texts)
    codes = registered.codes.copy()
    code_of = {text: code for code, text in enumerate(texts)}
    for row, text in enumerate(own[: len(codes)]):
        if isinstance(text, str) and text:
            code = code_of.setdefault(text, len(code_of))
            if code == len(texts):
                texts.append(text)
            codes[row] = code
    return codes, texts


def _domains(
    export: Export, rows: dict[str, Whole], text: Codes, texts: Sequence[str]
) -> npt.NDArray[np.object_]:
    """The name of each event's domain, '' for the default one. Numbers are a process's own."""
    process = process_of(rows["globalTid"])
    made = np.isin(rows["eventType"], export.event_types("NvtxDomainCreate")) & (text >= 0)
    found = np.full(len(text), "", dtype=object)
    for row in np.flatnonzero(made).tolist():
        same = (rows["domainId"] == rows["domainId"][row]) & (process == process[row])
        found[same] = texts[text[row]]
    # Cut recordings lost the names of their domains, but functions of NCCL say whose they are.
    unnamed = np.flatnonzero((found == "") & (rows["domainId"] > 0) & (text >= 0))
    is_nccl = np.array([one.startswith("nccl") for one in texts], dtype=bool)
    found[unnamed[is_nccl[text[unnamed]]]] = "NCCL"
    return found


def link(ranges: Ranges, calls: Calls) -> Links:
    """Find what each call lies in."""
    steps, is_step = _steps(ranges)
    rest = ranges.at(np.flatnonzero(~is_step))
    operators, named = rest.of_role(Role.OPERATOR), rest.of_role(Role.RANGE)
    lanes = _Lanes(ranges, calls)

    operator_lane = lanes.of(operators)
    around = containers(operator_lane, operators.start, operators.end)
    parents = around.parents()
    inside = around.innermost(lanes.calls, calls.start, calls.end)
    meaning = operators.meaning[around.order]
    operator_path = paths_to(inside, parents, meaning, ranges.names, BACKWARD)
    drawn = [-1 if one.sequence is None else one.sequence for one in ranges.meanings]
    sequence = nearest(inside, parents, np.array([*drawn, -1], dtype=np.int64)[meaning])

    parts = containers(lanes.of(named), named.start, named.end)
    within = parts.innermost(lanes.calls, calls.start, calls.end)
    is_backward = np.append(operator_path.flags, False)[operator_path.codes]
    lost = np.flatnonzero(is_backward & (within < 0) & (sequence >= 0))
    within[lost] = _of_forward(ranges, operators, (operator_lane, parts), sequence[lost])
    module_path = paths_to(
        within, parts.parents(), named.meaning[parts.order], ranges.names, BACKWARD
    )
    of_chain = [phase_of(text) for text in module_path.texts]
    phases = [-1 if one is None else PHASE_NAMES.index(one) for one in of_chain]
    phase = np.array([*phases, -1], dtype=np.int64)[module_path.codes]
    phase[(phase < 0) & (sequence >= 0)] = PHASE_NAMES.index("forward")
    phase[is_backward] = PHASE_NAMES.index("backward")
    return Links(
        operator=np.append(meaning, np.int32(-1))[inside],
        operator_call=inside.astype(np.int64),
        operator_path=operator_path,
        module_path=module_path,
        phase=phase,
        step=containing_step(steps, process_of(calls.thread), calls.start),
        steps=steps,
        meanings=ranges.meanings,
    )


def _of_forward(
    ranges: Ranges, operators: Ranges, at: tuple[Whole, Containers], wanted: Whole
) -> Whole:
    """For each of autograd's numbers the named range around the operator of the forward pass that
    drew it, as a position in the containers; -1 where there is none. Backward runs on a thread of
    its own, outside of the ranges of the model."""
    lane, parts = at
    drawn = np.array(
        [-1 if one.sequence is None or BACKWARD.search(one.name) else one.sequence
         for one in ranges.meanings] + [-1], dtype=np.int64,
    )[operators.meaning]  # fmt: skip
    rows = np.flatnonzero(np.isin(drawn, wanted) & (drawn >= 0))
    rows = rows[np.lexsort((operators.start[rows], drawn[rows]))]
    inside = parts.innermost(lane[rows], operators.start[rows], operators.end[rows])
    if not len(rows):
        return np.full(len(wanted), -1, dtype=np.int64)
    # Operators that draw no number share that of the next one that does: the last one drew it.
    last = np.searchsorted(drawn[rows], wanted, side="right") - 1
    known = (last >= 0) & (drawn[rows][np.maximum(last, 0)] == wanted)
    return np.where(known, inside[np.maximum(last, 0)], -1)


class _Lanes:
    """Threads as small numbers, alike for ranges and calls."""

    def __init__(self, ranges: Ranges, calls: Calls) -> None:
        self._threads = np.unique(np.concatenate((ranges.thread, calls.thread)))
        self.calls = np.searchsorted(self._threads, calls.thread)

    def of(self, ranges: Ranges) -> npt.NDArray[np.int64]:
        return np.searchsorted(self._threads, ranges.thread)


def _steps(ranges: Ranges) -> tuple[Steps, Mask]:
    """The steps of each process, and which ranges they are."""
    is_step = np.zeros(len(ranges), dtype=bool)
    for pattern in STEPS:
        named = np.array(
            [
                one.role is Role.RANGE and bool(pattern.fullmatch(one.name))
                for one in ranges.meanings
            ]
            + [False]
        )
        rows = np.flatnonzero(named[ranges.meaning])
        if len(rows) < 2:
            continue
        part = ranges.at(rows)
        process, lane = np.unique(process_of(part.thread), return_inverse=True)
        around = containers(lane.reshape(-1), part.start, part.end)
        outermost = rows[around.order[around.parents() < 0]]
        if len(outermost) >= 2 * len(process):
            is_step[outermost] = True
            break
    rows = np.flatnonzero(is_step)
    rows = rows[np.lexsort((ranges.start[rows], process_of(ranges.thread[rows])))]
    steps = ranges.at(rows)
    process = process_of(steps.thread)
    names = told_apart(process, [ranges.names[code] for code in steps.meaning])
    return Steps(process, steps.start, steps.end, names, rows), is_step


def operator_calls(ranges: Ranges, launches: Calls) -> Calls:
    """The outermost operators that launched something or took the host long, as host calls."""
    operators = ranges.of_role(Role.OPERATOR)
    lanes = _Lanes(ranges, launches)
    lane = lanes.of(operators)
    around = containers(lane, operators.start, operators.end)
    outermost = np.sort(around.order[around.parents() < 0])
    one = operators.at(outermost)
    kept = holding(lane[outermost], one.start, one.end, (lanes.calls, launches.start))
    kept |= one.end - one.start >= _LONG_NS
    one = one.at(np.flatnonzero(kept))
    return Calls(
        "cpu_op", one.thread, one.start, one.end, one.meaning, ranges.names,
        np.full(len(one), UNKNOWN, dtype=np.int64),
    )  # fmt: skip


def spans_of(ranges: Ranges, steps: Steps) -> pa.Table:
    """Steps and named ranges as ``SPANS``, by start. Operators are no spans: they are in the
    kernels' operator_path."""
    is_step = np.zeros(len(ranges), dtype=bool)
    is_step[steps.rows] = True
    named = np.array([one.role is Role.RANGE for one in ranges.meanings] + [False])
    rest = np.flatnonzero(named[ranges.meaning] & ~is_step)
    rows = np.concatenate((steps.rows, rest))
    order = np.argsort(ranges.start[rows], kind="stable")
    name = np.concatenate((np.arange(len(steps.rows)), len(steps.names) + ranges.meaning[rest]))
    kind = np.repeat([0, 1], [len(steps.rows), len(rest)])
    rows = rows[order]
    columns = {
        "source": wholes(np.zeros(len(rows), dtype=np.int64)),
        "process_id": wholes(process_of(ranges.thread[rows])),
        "thread_id": wholes(thread_of(ranges.thread[rows])),
        "kind": Texts(("step", "range")).at(kind[order]),
        "name": Texts([*steps.names, *ranges.names]).at(name[order]),
        "start_ns": wholes(ranges.start[rows]),
        "duration_ns": wholes(ranges.end[rows] - ranges.start[rows]),
    }
    return pa.Table.from_arrays([columns[one.name] for one in SPANS], schema=SPANS)
