"""From a GPU activity back to what asked for it: call, operator, module, step.

The correlation id leads from the activity to the call that launched it; which operator made the
call is told by time: the innermost one on the call's thread that contains the whole call. The
External id that Kineto writes is not used: before torch 2.3 it is the correlation id, and then
often that of another operator (8,509 of 26,796 times in one trace); since then it says the same as
time does (89,006 of 89,006 kernels).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from traceroof.core import regex
from traceroof.core.dictionary import compact
from traceroof.parsers.host.containment import Places, holding
from traceroof.parsers.host.paths import (
    Paths,
    distinct_below,
    flagged,
    nearest,
    paths_to,
    taken,
)
from traceroof.parsers.host.steps import Steps, containing_step, told_apart
from traceroof.parsers.torch.columns import Fold
from traceroof.parsers.torch.event_columns import Codes
from traceroof.parsers.torch.events import UNKNOWN, Whole
from traceroof.parsers.torch.host_events import Host, Mask, Ranges
from traceroof.parsers.torch.launches import Launches

GRAPH_LAUNCH: Final = regex.compile(r"(cuda|hip|cu)GraphLaunch")
_STEP = regex.compile(r"ProfilerStep\s*#\s*\d+")
# Serving has no ProfilerStep: vLLM, SGLang and xDiT annotate each pass of the model.
_PASS = regex.compile(r"execute_\w+|step\[.*\]")
_BACKWARD = regex.compile(r"autograd::engine::evaluate_function|Backward\d*$")
_OPTIMIZER = regex.compile(r"Optimizer\.(step|zero_grad)#")

# TraceFusion makes process ids of several ranks distinct by adding rank times this.
_RANK_PIDS: Final = 100_000_000
# What the host did for less than this explains no gap between kernels.
_LONG_NS: Final = 10_000
PHASES: Final = ("forward", "backward", "optimizer")


@dataclass(frozen=True)
class Links:
    """For each GPU activity, in the order of the fold; -1 is unknown.

    call: row of the host's calls. codes: columns that the kernel table takes out as it needs them:
    operator_call, the number of the operator's call; operator, source_line, shapes, dtypes, values and
    collective, codes of the fold; operator_path and module_path, places in ``operator_paths`` and
    ``module_paths``; phase, a place in ``PHASES``; step, a row of ``steps``. by_time counts activities
    whose correlation id several calls share.
    """

    call: Whole
    is_graph: Mask
    codes: dict[str, Codes]
    operator_paths: Sequence[str]
    module_paths: Sequence[str]
    steps: Steps
    process: Whole
    rank: Whole
    by_time: int

    def forget_operators(self, rows: Mask) -> None:
        """What a replayed graph's node was is not in the file: the operator around the replay is
        not what launched it."""
        for name in ("operator_call", "operator", "shapes", "dtypes", "values"):
            self.codes[name][rows] = -1


def link(fold: Fold, host: Host, launches: Launches) -> Links:
    """Link all GPU activities of a trace. Uses up the columns of the fold's operators; of the host's it
    leaves the outermost."""
    gpu_rank, call_rank = _ranks(fold, host, launches)
    call, by_time = _calls(
        (host.call_correlation, call_rank, host.calls.start),
        (fold.gpu.peek("correlation"), gpu_rank, fold.gpu.peek("start")),
    )
    launching = _Launching.of(call, host)
    sequence_of = fold.operators.pop("sequence")
    operators = _operators_around(launching.calls, host, sequence_of)
    steps, is_step = _steps(host)
    ranges = host.ranges.at(np.flatnonzero(~is_step))
    module_path, line = _program_around(
        launching.calls, operators, host, ranges, _Lines(fold, host), sequence_of
    )
    del sequence_of, ranges

    spread = launching.spread

    def of_operator(column: npt.NDArray[Any]) -> Codes:
        return spread(taken(column, operators.row))

    signature = taken(host.signature, operators.row)
    codes = {
        "operator_call": spread(_numbered(operators.row, host.operators)),
        "operator": of_operator(host.operators.name),
        "collective": _collectives(fold, of_operator),
    }
    del host.signature
    host.operators = operators.outermost
    for name, texts in zip(("shapes", "dtypes", "values"), host.signature_texts, strict=True):
        codes[name] = spread(taken(texts, signature))
    codes |= {
        "operator_path": spread(operators.path.codes),
        "module_path": spread(module_path.codes),
        "source_line": spread(line),
        "phase": spread(_phases(operators, module_path)),
    }
    is_graph = spread(host.matching(GRAPH_LAUNCH)[launching.calls.name]) == 1
    process = host.process(launching.calls.lane)
    codes["step"] = spread(containing_step(steps, process, launching.calls.start))
    row_process = np.full(len(call), UNKNOWN, dtype=np.int64)
    row_process[launching.is_linked] = process[launching.of_linked]
    links = Links(
        call=call,
        is_graph=is_graph,
        codes=codes,
        operator_paths=operators.path.texts,
        module_paths=module_path.texts,
        steps=steps,
        process=compact(_only_process(row_process, gpu_rank, host, call_rank)),
        rank=gpu_rank,
        by_time=by_time,
    )
    links.forget_operators(is_graph)
    return links


@dataclass(frozen=True)
class _Launching:
    """The calls that launched something.

    is_linked: of each activity whether its call is known; of_linked: which of the calls it is.
    """

    calls: Ranges
    is_linked: Mask
    of_linked: Places

    @classmethod
    def of(cls, call: Whole, host: Host) -> "_Launching":
        """call: row of the host's calls of each activity, or -1."""
        is_linked = call >= 0
        rows, of_linked = distinct_below(call[is_linked], len(host.calls))
        return cls(host.calls.at(rows), is_linked, of_linked)

    def spread(self, values: npt.NDArray[Any]) -> Codes:
        """Codes of launching calls as codes of activities."""
        result = np.full(len(self.is_linked), -1, dtype=np.int32)
        result[self.is_linked] = values[self.of_linked]
        return result


def _numbered(row: Places, operators: Ranges) -> Places:
    """Rows of operators as numbers from 0 by start, whatever their order in the file; -1 stays."""
    distinct, place = distinct_below(row[row >= 0], len(operators))
    number = np.empty(len(distinct), dtype=np.int32)
    found = operators.at(distinct)
    number[np.lexsort((-found.end, found.lane, found.start))] = np.arange(
        len(distinct), dtype=np.int32
    )
    result = np.full(len(row), -1, dtype=np.int32)
    result[row >= 0] = number[place]
    return result


def _collectives(fold: Fold, of_operator: Callable[[npt.NDArray[Any]], Codes]) -> Codes:
    """Collectives by activity: as the kernel says, else as the operator that records them does."""
    table = fold.operator_collectives
    found = np.full(fold.operators.rows, -1, dtype=np.int32)
    found[table.pop("row")] = table.pop("what")
    what = of_operator(found)
    table = fold.gpu_collectives
    what[table.pop("row")] = table.pop("what")
    return what


# ------------------------------------------------------------------------------------------------
# Activity to call


def _ranks(fold: Fold, host: Host, launches: Launches) -> tuple[Whole, Whole]:
    """Ranks of GPU activities and of calls where one file holds several, else UNKNOWN."""
    gpu, calls = launches.rank, host.call_rank
    if not np.any(gpu != UNKNOWN) and not np.any(calls != UNKNOWN):
        processes = host.process(host.calls.lane)
        if np.any(launches.process >= _RANK_PIDS) and np.any(processes >= _RANK_PIDS):
            gpu, calls = launches.process // _RANK_PIDS, processes // _RANK_PIDS
    return compact(gpu[fold.gpu.peek("launch")]), calls


def _calls(calls: tuple[Whole, Whole, Whole], gpu: tuple[Whole, Whole, Whole]) -> tuple[Whole, int]:
    """For each activity the call with its correlation id and rank, or -1; and how many had a
    choice. Both arguments are (correlation, rank, start). Of several calls it is the last one
    before the activity."""
    call_key, gpu_key = _keys(calls[:2], gpu[:2])
    candidates = np.flatnonzero((calls[0] != UNKNOWN) & (calls[0] != 0))
    order = candidates[np.argsort(call_key[candidates], kind="stable")]
    ordered = call_key[order]
    if np.any(ordered[1:] == ordered[:-1]):
        order = candidates[np.lexsort((calls[2][candidates], call_key[candidates]))]
    del candidates
    found = np.full(len(gpu_key), -1, dtype=np.int64)
    if not len(order):
        return found, 0
    low = np.searchsorted(ordered, gpu_key, side="left")
    at = np.minimum(low, len(order) - 1)
    linked = (ordered[at] == gpu_key) & (gpu[0] != UNKNOWN) & (gpu[0] != 0)
    found[linked] = order[at[linked]]
    following = np.minimum(low + 1, len(order) - 1)
    choice = np.flatnonzero(linked & (following > low) & (ordered[following] == gpu_key))
    if len(choice):
        # Calls and activities on one scale of ranks by start, below each key.
        starts = np.concatenate((calls[2][order], gpu[2][choice]))
        size = len(starts)
        scale = np.empty(size, dtype=np.int64)
        scale[np.argsort(starts, kind="stable")] = np.arange(size)
        _, dense = np.unique(np.concatenate((ordered, gpu_key[choice])), return_inverse=True)
        both = dense * size + scale
        last = np.searchsorted(both[: len(order)], both[len(order) :], side="right") - 1
        found[choice] = order[np.maximum(last, low[choice])]
    return found, len(choice)


def _keys(calls: tuple[Whole, Whole], gpu: tuple[Whole, Whole]) -> tuple[Whole, Whole]:
    """A number for each (correlation, rank), equal where both are. The correlation itself serves
    where there is one rank."""
    if len(np.unique([one for _, rank in (calls, gpu) for one in _span(rank)])) < 2:
        return calls[0], gpu[0]
    correlation, rank = (np.concatenate(both) for both in zip(calls, gpu, strict=True))
    _, dense = np.unique(correlation, return_inverse=True)
    _, group = np.unique(rank, return_inverse=True)
    keys = group.astype(np.int64) * (int(dense.max()) + 1) + dense
    return keys[: len(calls[0])], keys[len(calls[0]) :]


def _span(values: Whole) -> tuple[int, ...]:
    """The least and the greatest of some numbers."""
    return (int(values.min()), int(values.max())) if len(values) else ()


def _only_process(process: Whole, rank: Whole, host: Host, call_rank: Whole) -> Whole:
    """The process of activities without a call: the only one that makes calls (for its rank)."""
    orphans = process == UNKNOWN
    if not orphans.any() or not len(host.calls):
        return process
    callers = host.process(host.calls.lane)
    for one in np.unique(rank[orphans]):
        mine = np.unique(callers[call_rank == one])
        if len(mine) == 1:
            process[orphans & (rank == one)] = mine[0]
    return process


# ------------------------------------------------------------------------------------------------
# Call to operator and module


@dataclass(frozen=True)
class _Operators:
    """The operators around each launching call.

    row: of the innermost one, or -1. path: all of them. sequence: the nearest number that autograd
    gave one of them. outermost: those of all operators that nothing else contains.
    """

    row: Places
    path: Paths
    sequence: Whole
    outermost: Ranges


def _operators_around(calls: Ranges, host: Host, sequence_of: Whole) -> _Operators:
    """Of the operators only those count that hold a call, or took long enough to matter."""
    operators = host.operators
    chosen = holding(operators.lane, operators.start, operators.end, (calls.lane, calls.start))
    chosen |= operators.start <= operators.end - _LONG_NS
    around = operators.containers(np.flatnonzero(chosen))
    del chosen
    rows, parents = around.order, around.parents(host.slack)
    position = around.innermost(calls.lane, calls.start, calls.end, host.slack)
    del around
    return _Operators(
        row=taken(rows, position),
        path=paths_to(position, parents, operators.name[rows], host.names, _BACKWARD),
        sequence=nearest(position, parents, sequence_of[rows]),
        outermost=operators.at(np.sort(rows[parents < 0])),
    )


def _program_around(
    calls: Ranges,
    operators: _Operators,
    host: Host,
    ranges: Ranges,
    lines: "_Lines",
    sequence_of: Whole,
) -> tuple[Paths, Codes]:
    """Modules and line of the program around each launching call; of a backward call that has none,
    those around the forward operator with its sequence number."""
    modules = ranges.containers()
    inside = modules.innermost(calls.lane, calls.start, calls.end, host.slack)
    line = lines.around(calls)
    nowhere = (inside < 0) & bool(len(modules.start)) | (line < 0) & lines.exist
    lost = np.flatnonzero(flagged(operators.path) & nowhere & (operators.sequence >= 0))
    forward, known = _forward(host, sequence_of, operators.sequence[lost])
    lost = lost[known]
    of_forward = modules.innermost(forward.lane, forward.start, forward.end, host.slack)
    inside[lost] = np.where(inside[lost] < 0, of_forward, inside[lost])
    line[lost] = np.where(line[lost] < 0, lines.around(forward), line[lost])
    names, parents = ranges.name[modules.order], modules.parents(host.slack)
    return paths_to(inside, parents, names, host.names, _OPTIMIZER), line


def _phases(operators: _Operators, module_path: Paths) -> Codes:
    """The phase of each launching call, a place in ``PHASES`` or -1."""
    phase = np.full(len(operators.row), -1, dtype=np.int32)
    phase[operators.sequence >= 0] = PHASES.index("forward")
    phase[flagged(operators.path)] = PHASES.index("backward")
    phase[flagged(module_path)] = PHASES.index("optimizer")
    return phase


def _forward(host: Host, sequence_of: Whole, wanted: Whole) -> tuple[Ranges, Mask]:
    """The forward operator that drew each sequence number, and for which numbers there is one: not
    where it is missing, or one on each of several threads."""
    if not len(wanted):
        return host.operators.at(np.empty(0, dtype=np.int64)), np.zeros(0, dtype=bool)
    is_backward = np.array([bool(_BACKWARD.search(name)) for name in host.names] + [False])
    numbered = np.flatnonzero(np.isin(sequence_of, wanted))
    numbered = numbered[~is_backward[host.operators.name[numbered]]]
    found = host.operators.at(numbered)
    engine = host.operators.containers(np.flatnonzero(is_backward[host.operators.name]))
    forward = np.flatnonzero(engine.innermost(found.lane, found.start, found.end, host.slack) < 0)
    found, number = found.at(forward), sequence_of[numbered[forward]]
    order = np.lexsort((found.start, found.lane, number))
    found, number = found.at(order), number[order]
    first = np.searchsorted(number, wanted, side="left")
    last = np.searchsorted(number, wanted, side="right") - 1
    known = last >= first
    known[known] = found.lane[first[known]] == found.lane[last[known]]
    # Operators that draw no number share that of the next one that does: the last one drew it.
    return found.at(last[known]), known


class _Lines:
    """Lines of the program by time: the frames of Python's stack, else (to 2021) the call stacks of
    operators."""

    def __init__(self, fold: Fold, host: Host) -> None:
        table = fold.operator_lines
        stacked = host.operators.at(table.pop("row"))
        stacked.name = table.pop("line")
        self._slack = host.slack
        self.exist = bool(len(host.frames) or len(stacked))
        self._sources = [(one, one.containers()) for one in (host.frames, stacked)]

    def around(self, calls: Ranges) -> npt.NDArray[Any]:
        """For each call the innermost line around it, by its name; -1 for none."""
        found = np.full(len(calls), -1, dtype=np.int32)
        for ranges, lines in self._sources:
            inside = lines.innermost(calls.lane, calls.start, calls.end, self._slack)
            found = np.where(found < 0, taken(ranges.name[lines.order], inside), found)
        return found


# ------------------------------------------------------------------------------------------------
# Call to step


def _steps(host: Host) -> tuple[Steps, Mask]:
    """The steps of a trace, and which ranges they are."""
    ranges = host.ranges
    chosen = np.flatnonzero(host.matching(_STEP)[ranges.name])
    if not len(chosen):
        passes = np.flatnonzero(host.matching(_PASS)[ranges.name])
        found = ranges.at(passes).containers()
        chosen = passes[found.order[found.parents() < 0]]
    chosen = chosen[np.lexsort((ranges.start[chosen], host.process(ranges.lane[chosen])))]
    is_step = np.zeros(len(ranges), dtype=bool)
    is_step[chosen] = True
    steps = ranges.at(chosen)
    process = host.process(steps.lane)
    names = told_apart(process, [host.names[code] for code in steps.name])
    return Steps(process, steps.start, steps.end, names, chosen), is_step
