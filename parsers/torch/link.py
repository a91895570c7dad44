"""From a GPU activity back to what asked for it: call, operator, module, step.

The correlation id leads from the activity to the call that launched it; which operator made the
call is told by time: the innermost one on the call's thread that contains the whole call. The
External id that Kineto writes is not used: before torch 2.3 it is the correlation id, and then
often that of another operator (8,509 of 26,796 times in one trace); since then it says the same as
time does (89,006 of 89,006 kernels).
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from traceroof.parsers.torch.columns import Codes, Columns, Fold
from traceroof.parsers.torch.containment import Containers, containers, holding
from traceroof.parsers.torch.events import UNKNOWN, Whole, whole_number
from traceroof.parsers.torch.launches import Launches

Mask = npt.NDArray[np.bool_]

GRAPH_LAUNCH: Final = re.compile(r"(cuda|hip|cu)GraphLaunch")
_STEP = re.compile(r"ProfilerStep\s*#\s*\d+")
# Serving has no ProfilerStep: vLLM, SGLang and xDiT annotate each pass of the model.
_PASS = re.compile(r"execute_\w+|step\[.*\]")
# Up to torch 1.12 annotations are operators by category; these are the ones that torch makes.
_ANNOTATION = re.compile(
    r"ProfilerStep\s*#|Optimizer\.(step|zero_grad)#|enumerate\(DataLoader\)|DataParallel\."
    r"|DistributedDataParallel\.|(nccl|gloo|mpi|ucc):"
)
_BACKWARD = re.compile(r"autograd::engine::evaluate_function|Backward\d*$")
_OPTIMIZER = re.compile(r"Optimizer\.(step|zero_grad)#")
_MODULE = "nn.Module: "

# TraceFusion makes process ids of several ranks distinct by adding rank times this.
_RANK_PIDS: Final = 100_000_000
# What the host did for less than this explains no gap between kernels.
_LONG_NS: Final = 10_000
# Deeper chains of operators start anew; names deeper than _SHOWN are elided.
_DEEPEST: Final = 256
_SHOWN: Final = 48
# Distinct numbers below this are found by table, others by sorting.
_TABLE: Final = 1 << 22
# A longer name is shortened in a path, which many rows repeat.
_LONGEST_NAME: Final = 500

PHASES: Final = ("forward", "backward", "optimizer")


@dataclass(frozen=True)
class Paths:
    """Chains of names, outermost first. ``codes`` point at ``texts``; -1 is no chain."""

    codes: npt.NDArray[Any]
    texts: Sequence[str]
    flags: Mask


@dataclass(frozen=True)
class Steps:
    """Training steps or serving passes by process and start. ``names`` are unique in a process."""

    process: Whole
    start: Whole
    end: Whole
    names: Sequence[str]
    rows: Whole


@dataclass(frozen=True)
class Links:
    """For each GPU activity, in the order of the fold; -1 is unknown.

    call: row of the host's calls. operator_call: number of the operator's call. operator, shapes,
    dtypes, values, collective: codes of the fold. by_time counts activities whose correlation id several calls share.
    """

    call: Whole
    is_graph: Mask
    operator_call: Codes
    operator: Codes
    shapes: Codes
    dtypes: Codes
    values: Codes
    collective: Codes
    operator_path: Paths
    module_path: Paths
    phase: Codes
    step: Codes
    steps: Steps
    process: Whole
    rank: Whole
    by_time: int


class Ranges:
    """Named stretches of host time as arrays: name (code), lane (of Host.threads), start, end."""

    def __init__(self, name: Codes, lane: Codes, start: Whole, end: Whole) -> None:
        self.name, self.lane, self.start, self.end = name, lane, start, end

    def __len__(self) -> int:
        return len(self.start)

    def at(self, rows: npt.NDArray[np.int64]) -> "Ranges":
        return Ranges(self.name[rows], self.lane[rows], self.start[rows], self.end[rows])

    def containers(self) -> Containers:
        return containers(self.lane, self.start, self.end)


class Host:
    """What the host did; taken out of a fold.

    threads: (process, thread) by lane. ``operators`` are all of them until ``link`` has used them,
    then only the outermost of those that launched something or took long enough to matter.
    """

    def __init__(self, fold: Fold) -> None:
        self.names = [text if isinstance(text, str) else "" for text in fold.names]
        pairs = np.array(
            [[whole_number(pid), whole_number(tid)] for pid, tid in fold.threads], dtype=np.int64
        ).reshape(-1, 2)
        self.threads, lane = np.unique(pairs, axis=0, return_inverse=True)
        self.lane_of_thread = lane.reshape(-1).astype(np.int32)
        self.operators = self._taken(fold.operators)
        self.ranges = self._taken(fold.ranges)
        self.calls = self._taken(fold.calls)
        self.call_category = fold.calls.pop("category")
        self.call_correlation = fold.calls.pop("correlation")
        self.call_rank = fold.calls.pop("rank")
        is_annotation = self.matching(_ANNOTATION)[self.operators.name]
        if is_annotation.any():
            moved = self.operators.at(np.flatnonzero(is_annotation))
            self.ranges = Ranges(
                *(
                    np.concatenate((getattr(self.ranges, name), getattr(moved, name)))
                    for name in ("name", "lane", "start", "end")
                )
            )
            # They stay where they are, as other columns have a row for them, but contain nothing.
            self.operators.end[is_annotation] = self.operators.start[is_annotation] - 1

    def _taken(self, columns: Columns) -> Ranges:
        start, end = columns.pop("start"), columns.pop("duration")
        np.maximum(end, 0, out=end)
        end += start
        return Ranges(columns.pop("name"), self.lane_of_thread[columns.pop("thread")], start, end)

    def matching(self, pattern: re.Pattern[str]) -> Mask:
        """For each name whether it begins with the pattern."""
        return np.array([bool(pattern.match(name)) for name in self.names] + [False])

    def process(self, lane: npt.NDArray[Any]) -> Whole:
        processes: Whole = self.threads[lane, 0]
        return processes

    @cached_property
    def slack(self) -> int:
        """How much an end can be too early: clocks of whole microseconds cut start and length."""
        coarse = all(
            not np.any(part.start % 1000) for part in (self.calls, self.operators, self.ranges)
        )
        return 1000 if coarse else 0


def link(fold: Fold, host: Host, launches: Launches) -> Links:
    """Link all GPU activities of a trace. Uses up the columns of the fold's operators."""
    correlation = fold.gpu.peek("correlation")
    gpu_rank, call_rank = _ranks(fold, host, launches)
    call, by_time = _calls(
        (host.call_correlation, call_rank, host.calls.start),
        (correlation, gpu_rank, fold.gpu.peek("start")),
    )
    is_linked = call >= 0
    launching, of_row = _distinct(call[is_linked], len(host.calls))
    made = host.calls.at(launching)
    sequence_of = fold.operators.pop("sequence")

    operators = host.operators
    chosen = holding(operators.lane, operators.start, operators.end, (made.lane, made.start))
    chosen |= operators.start <= operators.end - _LONG_NS
    rows = np.flatnonzero(chosen)
    candidates = operators.at(rows)
    around = candidates.containers()
    rows = rows[around.order]
    parents = around.parents(host.slack)
    position = around.innermost(made.lane, made.start, made.end, host.slack)
    operator_path = _paths(position, parents, candidates.name[around.order], host.names, _BACKWARD)
    sequence = _nearest(position, parents, sequence_of[rows])
    row = np.where(position >= 0, np.append(rows, -1)[position], -1)
    outermost = candidates.at(np.sort(around.order[parents < 0]))
    del candidates, around, parents, rows, chosen

    steps, is_step = _steps(host)
    others = host.ranges.at(np.flatnonzero(~is_step))
    modules = others.containers()
    inside = modules.innermost(made.lane, made.start, made.end, host.slack)
    is_backward = _flag(operator_path)
    lost = np.flatnonzero(is_backward & (inside < 0) & (sequence >= 0))
    inside[lost] = _forward_range(host, sequence_of, modules, sequence[lost])
    module_path = _paths(
        inside, modules.parents(host.slack), others.name[modules.order], host.names, _OPTIMIZER
    )
    phase = np.full(len(launching), -1, dtype=np.int64)
    phase[sequence >= 0] = PHASES.index("forward")
    phase[is_backward] = PHASES.index("backward")
    phase[_flag(module_path)] = PHASES.index("optimizer")

    def spread(values: npt.NDArray[Any]) -> Codes:
        """Codes of launching calls as codes of activities."""
        result = np.full(len(call), -1, dtype=np.int32)
        result[is_linked] = values[of_row]
        return result

    def of_operator(column: npt.NDArray[Any]) -> Codes:
        return spread(np.append(column, -1)[row])

    is_graph = spread(host.matching(GRAPH_LAUNCH)[made.name]) == 1
    process = host.process(made.lane)
    row_process = np.full(len(call), UNKNOWN, dtype=np.int64)
    row_process[is_linked] = process[of_row]
    links = Links(
        call=call,
        is_graph=is_graph,
        operator_call=spread(_numbered(row, host.operators)),
        operator=of_operator(host.operators.name),
        shapes=of_operator(fold.operators.pop("shapes")),
        dtypes=of_operator(fold.operators.pop("dtypes")),
        values=of_operator(fold.operators.pop("values")),
        collective=_collectives(fold, of_operator),
        operator_path=replace(operator_path, codes=spread(operator_path.codes)),
        module_path=replace(module_path, codes=spread(module_path.codes)),
        phase=spread(phase),
        step=spread(_containing_step(steps, process, made.start)),
        steps=steps,
        process=_only_process(row_process, gpu_rank, host, call_rank),
        rank=gpu_rank,
        by_time=by_time,
    )
    # What a replayed graph's node was is not in the file: the operator around the replay is not
    # what launched it.
    for values in (
        links.operator_call, links.operator, links.shapes, links.dtypes, links.values
    ):  # fmt: skip
        values[is_graph] = -1
    host.operators = outermost
    return links


def _numbered(row: Whole, operators: Ranges) -> Whole:
    """Rows of operators as numbers from 0 by start, whatever their order in the file; -1 stays."""
    distinct, place = _distinct(row[row >= 0], len(operators))
    number = np.empty(len(distinct), dtype=np.int64)
    found = operators.at(distinct)
    number[np.lexsort((-found.end, found.lane, found.start))] = np.arange(len(distinct))
    result = np.full(len(row), -1, dtype=np.int64)
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
    return gpu[fold.gpu.peek("launch")], calls


def _calls(calls: tuple[Whole, Whole, Whole], gpu: tuple[Whole, Whole, Whole]) -> tuple[Whole, int]:
    """For each activity the call with its correlation id and rank, or -1; and how many had a
    choice. Both arguments are (correlation, rank, start). Of several calls it is the last one
    before the activity."""
    call_key, gpu_key = _keys(calls[:2], gpu[:2])
    candidates = np.flatnonzero((calls[0] != UNKNOWN) & (calls[0] != 0))
    order = candidates[np.argsort(call_key[candidates], kind="stable")]
    if np.any(call_key[order][1:] == call_key[order][:-1]):
        order = candidates[np.lexsort((calls[2][candidates], call_key[candidates]))]
    ordered = call_key[order]
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
    correlation, rank = (np.concatenate(both) for both in zip(calls, gpu, strict=True))
    if not len(rank) or not np.any(rank != rank[0]):
        return calls[0], gpu[0]
    _, dense = np.unique(correlation, return_inverse=True)
    _, group = np.unique(rank, return_inverse=True)
    keys = group.astype(np.int64) * (int(dense.max()) + 1) + dense
    return keys[: len(calls[0])], keys[len(calls[0]) :]


def _distinct(values: npt.NDArray[Any], count: int) -> tuple[Whole, Whole]:
    """The distinct ones of values below ``count``, in order, and where each value is in them.
    Done by table: sorting millions takes longer."""
    is_there = np.zeros(count, dtype=bool)
    is_there[values] = True
    distinct = np.flatnonzero(is_there)
    place = np.empty(count, dtype=np.int64)
    place[distinct] = np.arange(len(distinct))
    return distinct, place[values]


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


def _nearest(position: Whole, parents: Whole, values: Whole) -> Whole:
    """The first value that is no -1, from an interval outwards; -1 where there is none."""
    found = np.full(len(position), -1, dtype=np.int64)
    at = position.copy()
    active = np.flatnonzero(at >= 0)
    for _ in range(_DEEPEST):
        if not len(active):
            break
        found[active] = values[at[active]]
        active = active[found[active] < 0]
        at[active] = parents[at[active]]
        active = active[at[active] >= 0]
    return found


def _paths(
    position: Whole,
    parents: Whole,
    names: npt.NDArray[np.int32],
    texts: Sequence[str],
    flagged: re.Pattern[str],
) -> Paths:
    """The chain of names from the outermost interval to each of ``position``.

    flags: for each chain whether one of its names begins with (or holds) ``flagged``.
    """
    needed = np.zeros(len(parents), dtype=bool)
    frontier = position[position >= 0]
    while len(frontier):
        needed[frontier] = True
        frontier = parents[frontier]
        frontier = frontier[frontier >= 0]
        frontier = frontier[~needed[frontier]]
    nodes = np.flatnonzero(needed)
    depth = np.zeros(len(nodes), dtype=np.int64)
    active, at = np.arange(len(nodes)), parents[nodes]
    while len(active) and depth.max(initial=0) < _DEEPEST:
        active, at = active[at >= 0], at[at >= 0]
        depth[active] += 1
        at = parents[at]

    codes = np.full(len(parents), -1, dtype=np.int64)
    chains: list[str] = []
    bases: list[str] = []
    flags: list[bool] = []
    for level in range(int(depth.max(initial=-1)) + 1):
        here = nodes[depth == level]
        # Beyond the deepest level that is told apart, chains have no beginning.
        is_rooted = level and level < _DEEPEST
        outer = codes[parents[here]] if is_rooted else np.full(len(here), -1)
        keys = (outer + 1) * len(texts) + names[here]
        among = (len(chains) + 1) * len(texts)
        if among < _TABLE:
            distinct, code = _distinct(keys, among)
        else:
            distinct, code = np.unique(keys, return_inverse=True)
        codes[here] = len(chains) + code
        for key in distinct.tolist():
            before, name = divmod(key, len(texts))
            text = texts[name].removeprefix(_MODULE)
            text = text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}…"
            base = bases[before - 1] if before else "…" if level else ""
            shown = f"{base} > {text}" if base else text
            chains.append(shown)
            # Beyond what is shown, a chain goes on from its beginning and an ellipsis.
            bases.append(shown if level < _SHOWN else base)
            if level == _SHOWN:
                bases[-1] = f"{base} > …"
            flags.append(bool(before and flags[before - 1]) or bool(flagged.search(texts[name])))
    result = np.where(position >= 0, codes[position], -1) if len(parents) else position
    return Paths(result, chains, np.array(flags, dtype=bool))


def _flag(paths: Paths) -> Mask:
    flags: Mask = np.append(paths.flags, False)[paths.codes]
    return flags


def _forward_range(host: Host, sequence_of: Whole, modules: Containers, wanted: Whole) -> Whole:
    """For each sequence number the innermost range around the forward operator that drew it, as a
    position in ``modules``; -1 where there is none, or one on each of several threads."""
    result = np.full(len(wanted), -1, dtype=np.int64)
    if not len(wanted) or not len(modules.start):
        return result
    is_backward = np.array([bool(_BACKWARD.search(name)) for name in host.names] + [False])
    numbered = np.flatnonzero(np.isin(sequence_of, wanted))
    numbered = numbered[~is_backward[host.operators.name[numbered]]]
    found = host.operators.at(numbered)
    engine = host.operators.at(np.flatnonzero(is_backward[host.operators.name])).containers()
    forward = np.flatnonzero(engine.innermost(found.lane, found.start, found.end, host.slack) < 0)
    found, number = found.at(forward), sequence_of[numbered[forward]]
    order = np.lexsort((found.start, found.lane, number))
    found, number = found.at(order), number[order]
    inside = modules.innermost(found.lane, found.start, found.end, host.slack)
    first = np.searchsorted(number, wanted, side="left")
    last = np.searchsorted(number, wanted, side="right") - 1
    known = np.flatnonzero(last >= first)
    known = known[found.lane[first[known]] == found.lane[last[known]]]
    # Operators that draw no number share that of the next one that does: the last one drew it.
    result[known] = inside[last[known]]
    return result


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
    names = [host.names[code] for code in steps.name]
    seen: dict[tuple[int, str], int] = {}
    for at, key in enumerate(zip(process.tolist(), names, strict=True)):
        seen[key] = number = seen.get(key, 0) + 1
        if number > 1:
            # The same pass once more: told apart, as steps are compared with one another.
            names[at] = f"{names[at]} ({number})"
    return Steps(process, steps.start, steps.end, names, chosen), is_step


def _containing_step(steps: Steps, process: Whole, start: Whole) -> Whole:
    """The step that was under way in a process (on whatever thread) at each time, or -1."""
    found = np.full(len(start), -1, dtype=np.int64)
    for one in np.unique(steps.process):
        mine = np.flatnonzero(steps.process == one)
        at = np.flatnonzero(process == one)
        last = np.searchsorted(steps.start[mine], start[at], side="right") - 1
        inside = (last >= 0) & (start[at] < steps.end[mine][np.maximum(last, 0)])
        found[at[inside]] = mine[last[inside]]
    return found
