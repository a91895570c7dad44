"""What can be saved, in one place: of one finding, of one kernel, and of all together.

A rule says which share of its subject's time goes at most; here that becomes nanoseconds, ends where
the kernel's own work needs the time, and is held against what other fixes already claimed.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import numpy as np
import numpy.typing as npt

from traceroof.core.facts import Facts
from traceroof.core.topics import COMMUNICATION, COPY, IDLE, KERNELS, TOPICS, Topic
from traceroof.diagnosis.findings import Context, Finding
from traceroof.hardware.ceilings import NOMINAL, Attainable
from traceroof.hardware.roofline import LEAST_LAUNCH_NS
from traceroof.rule import SEVERITY_STEPS, Judgement, Rule, Scope, Severity
from traceroof.timeline import Timeline

Reals = npt.NDArray[np.float64]

_TIME_SCOPES: tuple[Scope, ...] = ("timeline", "run")

#: Columns that ``spare_ns`` reads.
SPARE = ("time_ns", "launches", "dram_bytes", "dram_peak_bytes_per_s", "flop_pct", "duration_ns")


@dataclass(frozen=True)
class Saved:
    """What one rule saves of each subject, ns: NaN where nothing can be said.

    rests_on_ceilings: whether what is attainable enters the likely figure.
    """

    bound: Reals
    likely: Reals
    rests_on_ceilings: npt.NDArray[np.bool_]


def saved(judgement: Judgement, facts: Facts, context: Context) -> Saved:
    """What a rule saves at most and likely, of each of its subjects."""
    rule, time = judgement.rule, facts.only(("time_ns",)).time_ns
    bound = judgement.saved * time
    likely, at_peak = judgement.likely * time, judgement.likely_at_peak * time
    if capped(rule):
        # A bound that the rule cannot give stays unknown: what could be spared is no finding.
        spare = spare_ns(facts, NOMINAL)
        bound, at_peak = np.minimum(bound, spare), np.minimum(at_peak, spare)
        likely = np.minimum(likely, spare_ns(facts, context.attainable))
    likely, at_peak = np.minimum(likely, bound), np.minimum(at_peak, bound)
    ceilings = ~np.isclose(likely, at_peak, equal_nan=True)
    if rule.scope in _TIME_SCOPES:
        # Measured intervals: nothing more likely than the bound is known.
        likely = np.where(judgement.saved != judgement.likely, likely, np.nan)
    return Saved(bound, likely, ceilings)


def capped(rule: Rule) -> bool:
    """Whether a rule's savings end where the kernel's own bytes and operations need the time."""
    return rule.scope == "kernel" and rule.kind == "conditional"


def spare_ns(facts: Facts, attainable: Attainable) -> Reals:
    """Time of a group above what its own bytes and operations need, all launches; NaN unknown."""
    see = facts.only(SPARE)
    with np.errstate(divide="ignore", invalid="ignore"):
        by_bytes = see.dram_bytes / (see.dram_peak_bytes_per_s * attainable.memory) * 1e9
        by_flops = see.flop_pct / 100 * see.duration_ns / attainable.compute
        # The time covers launches with a known duration only.
        timed = np.where(see.duration_ns > 0, see.time_ns / see.duration_ns, see.launches)
    # Only a measured figure may cap: with neither known the floor alone remains.
    least = np.fmax(np.fmax(by_bytes, by_flops), LEAST_LAUNCH_NS)
    spare = see.time_ns - least * timed
    return np.asanyarray(np.maximum(spare, 0.0))


def bounds_pct(facts: Facts, found: Sequence[Finding]) -> Reals:
    """The most that we say can be saved of each group's time, percent; NaN where nobody can tell.

    While the work stays as it is, its own bytes, its operations and its busiest unit need the rest;
    a finding that changes the work (fewer sectors, another type) may say more.
    """
    see = facts.only(("time_ns", "busiest_pct"))
    with np.errstate(divide="ignore", invalid="ignore"):
        by_work = spare_ns(facts, NOMINAL) / see.time_ns * 100
        bound = np.fmin(by_work, 100 - np.minimum(see.busiest_pct, 100))
        for one in found:
            row, saved_ns = one.subject_index, one.time_saved_bound_ns
            if one.scope == "kernel" and row is not None and saved_ns is not None:
                bound[row] = np.fmax(bound[row], saved_ns / see.time_ns[row] * 100)
    return np.asarray(np.where(np.isfinite(bound), bound, np.nan))


def severity(
    bound: float, total_ns: float, steps: Mapping[Severity, float] = SEVERITY_STEPS
) -> Severity:
    """The severity of a saving, by the share that it is of all time."""
    if math.isnan(bound) or not total_ns:
        return "info"
    for name, step in steps.items():
        if bound >= step * total_ns:
            return name
    return "info"


# --- many fixes, no time promised twice -------------------------------------------------------


@dataclass(frozen=True)
class Pool:
    """The time of a run, in cells that fixes take their savings from.

    The first cells are the kernel groups, by their order; then the idle time by cause, the
    communication and the copies that nothing hides, with what a slow link and late ranks cost of
    the former apart. GPUs run side by side, so they share these
    cells, and each holds the time of the GPU on which it is longest. Times in ns, kernels' as on
    the timeline ``reference`` (the longest; None without any).

    whole_ns: the wall time, without timelines the kernel time. busy_ns: that of it in which
    anything runs. kernels_ns: the time in which
    kernels compute. of_run: what part of a sum over all GPUs lies on one.
    """

    capacity: Reals
    cells: Mapping[str, int]
    category: Sequence[str]
    part: Reals
    reference: int | None
    whole_ns: int
    busy_ns: int
    kernels_ns: float
    of_run: float

    def only(self, rows: Sequence[int]) -> "Pool":
        """The time of some kernel groups: a saving is still a share of the time of the whole run."""
        at = np.asarray(rows, dtype=np.int64)
        time, category = self.capacity[at], [self.category[row] for row in rows]
        exposed = self.cells.get(COMMUNICATION) if COMMUNICATION in category else None
        capacity = time if exposed is None else np.append(time, self.capacity[exposed])
        return replace(
            self,
            capacity=capacity,
            cells={} if exposed is None else {COMMUNICATION: len(time)},
            category=category,
            part=self.part[at],
            busy_ns=round(float(capacity.sum())),
            kernels_ns=float(time.sum()),
        )


@dataclass(frozen=True)
class Demand:
    """The savings of one finding: which cells of the pool it takes, and how much of each, ns."""

    cells: npt.NDArray[np.int64]
    ns: Reals

    @property
    def total(self) -> float:
        """All that it asks for."""
        return float(self.ns.sum())


def pool_of(
    time_ns: Reals,
    category: Sequence[str],
    lines: Sequence[Timeline],
    on_reference: Reals | None = None,
    apart: Mapping[str, float] | None = None,
) -> Pool:
    """The pool of a run.

    time_ns: of each kernel group, all GPUs together; on_reference: what part of it, 0-1, lies on
    the longest timeline. apart: what certain causes cost of the exposed communication, ns.
    """
    time = np.nan_to_num(time_ns)
    part = np.ones(len(time)) if on_reference is None else on_reference
    if not lines:
        total = float(time.sum())
        return Pool(time, {}, category, part, None, round(total), round(total), total, 1.0)
    reference = longest(lines)
    hidden: dict[str, float] = {}
    for line in lines:
        pause = min(round(line.facts.get("pause_time_ns", 0)), line.idle_by_cause.get("host", 0))
        own_time = {
            **{f"idle:{cause}": ns for cause, ns in line.idle_by_cause.items()},
            # Short and long waits have fixes of their own.
            "idle:host": line.idle_by_cause.get("host", 0) - pause,
            "idle:pause": pause,
            COMMUNICATION: line.exposed_communication_ns,
            COPY: line.exposed_memcpy_ns,
        }
        for name, ns in own_time.items():
            hidden[name] = max(hidden.get(name, 0.0), float(ns))
    for name, cost in (apart or {}).items():
        hidden[name] = min(cost, hidden[COMMUNICATION])
        hidden[COMMUNICATION] -= hidden[name]
    line = lines[reference]
    exposed = line.exposed_communication_ns + line.exposed_memcpy_ns
    # Communication claims from its own cell: what of it is hidden shortens nothing.
    own = np.array([0.0 if one == "communication" else 1.0 for one in category])
    return Pool(
        capacity=np.concatenate([time * part * own, list(hidden.values())]),
        cells={name: len(time) + at for at, name in enumerate(hidden)},
        category=category,
        part=part,
        reference=reference,
        whole_ns=line.span_ns,
        busy_ns=line.busy_ns,
        kernels_ns=float(max(line.busy_ns - exposed, 0)),
        of_run=line.span_ns / max(sum(one.span_ns for one in lines), 1),
    )


def longest(lines: Sequence[Timeline]) -> int:
    """The timeline that the wall time is taken from: the longest, the first of equals."""
    return max(range(len(lines)), key=lambda number: lines[number].span_ns)


def demand_of(finding: Finding, pool: Pool) -> Demand:
    """What a finding takes from the pool."""
    bound, row = float(finding.time_saved_bound_ns or 0), finding.subject_index
    if finding.scope == "kernel" and row is not None:
        return Demand(np.array([row]), np.array([bound * pool.part[row]]))
    if finding.scope == "category":
        cells = _groups(pool, (finding.subject,)) or _named(pool, COPY)
        return _spread(pool, cells, bound * pool.of_run)
    topic = TOPICS.get(finding.topic, Topic(""))
    if finding.scope != "timeline":
        bound *= pool.of_run
    demands: list[Demand] = []
    for claim in _claims(topic, pool):
        cells = _groups(pool, _categories(topic)) if claim == KERNELS else _named(pool, claim)
        demands.append(_spread(pool, cells, bound))
        bound -= demands[-1].total
    if any(claim.startswith("idle:") for claim in topic.claims) and bound >= 1:
        # Measured otherwise than idle time is split: the rest is idle time under another cause.
        taken = {cell for demand in demands for cell in demand.cells.tolist()}
        others = [cell for cell in _named(pool, IDLE) if cell not in taken]
        demands.append(_spread(pool, others, bound))
    return together(demands)


def _claims(topic: Topic, pool: Pool) -> Sequence[str]:
    """What a topic claims; without a timeline the kernels' time is all there is."""
    return topic.claims if pool.cells else (KERNELS,)


def _categories(topic: Topic) -> Sequence[str]:
    """Whose kernels a topic claims; communication has a cell of its own on a timeline only."""
    return topic.categories or ((COMMUNICATION,) if COMMUNICATION in topic.claims else ())


def _groups(pool: Pool, categories: Sequence[str]) -> list[int]:
    return [row for row, name in enumerate(pool.category) if not categories or name in categories]


def _named(pool: Pool, claim: str) -> list[int]:
    return [cell for name, cell in pool.cells.items() if fnmatchcase(name, claim)]


def _spread(pool: Pool, cells: Sequence[int], bound: float) -> Demand:
    """A saving over its cells, in proportion to what they hold; no more than that."""
    at = np.array(cells, dtype=np.int64)
    held = pool.capacity[at]
    total = float(held.sum())
    return Demand(at, held * min(bound / total, 1.0) if total else np.zeros(len(at)))


class Ledger:
    """Who claimed how much of each cell. Savings of one cell overlap as far as they can: a second
    fix has what it saves beyond the first one."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._claimed = np.zeros(len(pool.capacity))
        self._owner = np.full(len(pool.capacity), -1)
        self._kernels, self._all = pool.kernels_ns, float(pool.whole_ns)

    def left(self, demand: Demand) -> float:
        """How much of a demand nobody claimed, ns."""
        return self._fits(demand, self._beyond(demand))

    def claim(self, demand: Demand, owner: int, *, once: bool = False) -> float:
        """Take what is left of a demand; returns it. once: it is no part of the sum."""
        beyond = self._beyond(demand)
        taken = self._fits(demand, beyond)
        self._claimed[demand.cells] += beyond
        free = self._owner[demand.cells] < 0
        self._owner[demand.cells[free & (beyond > 0)]] = owner
        if not once:
            self._all -= taken
            self._kernels -= min(taken, float(beyond[self._of_kernels(demand)].sum()))
        return taken

    def owner(self, demand: Demand) -> int | None:
        """Who claimed most of the cells of a demand; None where nobody did."""
        owners = self._owner[demand.cells]
        if not (owners >= 0).any():
            return None
        weight = np.bincount(owners[owners >= 0], demand.ns[owners >= 0] + 1e-9)
        return int(weight.argmax())

    def _of_kernels(self, demand: Demand) -> npt.NDArray[np.bool_]:
        return np.asarray(demand.cells < len(self._pool.part))

    def _beyond(self, demand: Demand) -> Reals:
        wanted = np.minimum(demand.ns, self._pool.capacity[demand.cells])
        return np.maximum(wanted - self._claimed[demand.cells], 0.0)

    def _fits(self, demand: Demand, beyond: Reals) -> float:
        kernels = float(beyond[self._of_kernels(demand)].sum())
        others = float(beyond.sum()) - kernels
        return min(min(kernels, max(self._kernels, 0.0)) + others, max(self._all, 0.0))


def together(demands: Sequence[Demand]) -> Demand:
    """Several findings of one fix: of each cell, the one that saves most."""
    most: dict[int, float] = {}
    for demand in demands:
        for cell, ns in zip(demand.cells.tolist(), demand.ns.tolist(), strict=True):
            most[cell] = max(most.get(cell, 0.0), ns)
    return Demand(np.array(list(most), dtype=np.int64), np.array(list(most.values())))
