"""Counters meet the timeline: which kernel of one recording is which of the other.

The timeline says which kernel matters, the counters say why. Time, launches and operators stay the
timeline's; use of peaks, stalls, bytes and FLOPs of a launch are the counters'. A counter tool's
duration (cold caches, locked clocks, serialised) never becomes time.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from traceroof.core import kernel_names
from traceroof.core.canonical_names import base, canonical
from traceroof.core.facts import Facts
from traceroof.kernels.group_columns import VOCABULARY
from traceroof.kernels.groups import Groups

#: A join below this confidence covers nothing.
LEAST = 0.5
#: The most that a join of another GPU model, asked for by name, is worth.
FORCED = 0.3


@dataclass(frozen=True)
class Level:
    """One way to recognise a kernel, and how sure it is. shape: which launch columns must agree."""

    number: int
    confidence: float
    name: Callable[[str], str]
    shape: tuple[str, ...]
    says: str


_GRID = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
_RESOURCES = (*_GRID, "registers_per_thread", "shared_memory_bytes")

#: Tried in this order; the first whose key means one kernel on either side wins.
LEVELS: tuple[Level, ...] = (
    Level(1, 0.99, kernel_names.key, _GRID, "same name, grid and block"),
    Level(2, 0.95, canonical, _GRID, "same name in another spelling, grid and block"),
    Level(3, 0.80, canonical, (), "same name; one side has no launch shape"),
    Level(4, 0.70, base, _RESOURCES, "same function, grid, block, registers and shared memory"),
    Level(5, 0.55, base, _GRID, "same function, grid and block"),
    Level(6, 0.35, base, (), "same function name alone"),
)


@dataclass(frozen=True)
class Match:
    """The counters of one kernel group of the timeline: its group there, how it was recognised."""

    counted: int
    level: Level
    confidence: float


@dataclass(frozen=True)
class Unmatched:
    """A kernel that has no partner. side: "timeline" or "counters"; time in ns of its own side."""

    kernel: str
    side: str
    time_ns: int | None
    reason: str


@dataclass(frozen=True)
class Join:
    """What was joined. matches: by kernel group of the timeline, None without counters."""

    matches: tuple[Match | None, ...]
    unmatched: tuple[Unmatched, ...]
    coverage_time_pct: float | None
    coverage_launches_pct: float | None
    ambiguous_time_ns: int
    covered: int

    def to_dict(self) -> dict[str, Any]:
        """The JSON contract of ``run.join``."""
        return {
            "coverage_time_pct": self.coverage_time_pct,
            "coverage_launches_pct": self.coverage_launches_pct,
            "ambiguous_time_ns": self.ambiguous_time_ns,
            "unmatched": [vars(one) for one in self.unmatched],
        }


def join(timed: Groups, counted: Groups, *, most: float = 1.0) -> Join:
    """Find the counters of each kernel group of a timeline.

    most: the most that any match is worth (FORCED where the GPUs differ). Ambiguous kernels are
    listed, never guessed.
    """
    found: list[Match | None] = [None] * len(timed)
    ambiguous = np.zeros(len(timed), dtype=bool)
    shaped, their_shaped = (
        ~np.isnan(one.facts.only(("grid_x",)).grid_x) for one in (timed, counted)
    )
    for level in LEVELS:
        if None not in found:
            break
        mine, theirs = (_keys(one, level) for one in (timed, counted))
        by_key: dict[Any, list[int]] = {}
        for at, key in enumerate(theirs):
            if key is not None:
                by_key.setdefault(key, []).append(at)
        names = _names_by_key(timed, mine)
        taken = {match.counted for match in found if match is not None}
        for at, key in enumerate(mine):
            if found[at] is not None or key is None or key not in by_key:
                continue
            # Who has a partner that is surer is no question any more.
            partners = [one for one in by_key[key] if one not in taken]
            if not partners:
                continue
            if not level.shape and shaped[at]:
                # Launch shapes that are known on both sides and differ: names prove nothing.
                partners = [one for one in partners if not their_shaped[one]]
                if not partners:
                    continue
            one_name = len({counted.names[one] for one in partners}) == 1
            if one_name and len(names[key]) == 1:
                found[at] = Match(partners[0], level, min(level.confidence, most))
                ambiguous[at] = False
            else:
                ambiguous[at] = True
    matches = _weighed(found, timed, counted)
    return _summary(matches, ambiguous, timed, counted)


def _keys(of: Groups, level: Level) -> list[Any]:
    """The key of each group at a level; None where the level does not apply to it."""
    facts = of.facts.only(_RESOURCES)
    shape = np.array([getattr(facts, name) for name in level.shape], dtype=np.float64)
    told = shape.reshape(-1, len(of)).T
    known = np.atleast_1d(~np.isnan(told).any(axis=1))
    return [
        (level.name(name), tuple(extent)) if complete else None
        for name, extent, complete in zip(of.names, told.tolist(), known.tolist(), strict=True)
    ]


def _names_by_key(of: Groups, keys: Sequence[Any]) -> Mapping[Any, set[str]]:
    found: dict[Any, set[str]] = {}
    for name, key in zip(of.names, keys, strict=True):
        if key is not None:
            found.setdefault(key, set()).add(name)
    return found


# How much a few samples tell of all launches, by the scatter of the launches' times.
_SCATTER = ((0.15, 0.9), (0.5, 0.75), (np.inf, 0.5))
# Times of both sides may differ by one factor for all; a kernel off it by more is suspect.
_OFF_FACTOR = 2.0


def _weighed(
    found: Sequence[Match | None], timed: Groups, counted: Groups
) -> tuple[Match | None, ...]:
    """Confidences after what launches and times say against a match."""
    mine = timed.facts.only(("launches", "median_ns", "mad_ns"))
    theirs = counted.facts.only(("launches", "median_ns"))
    at = [number for number, match in enumerate(found) if match is not None]
    to = [match.counted for match in found if match is not None]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log2(theirs.median_ns[to] / mine.median_ns[at])
        scatter = mine.mad_ns[at] / mine.median_ns[at]
    usual = np.nanmedian(ratio) if np.isfinite(ratio).any() else np.nan
    result = list(found)
    for number, (row, partner) in enumerate(zip(at, to, strict=True)):
        match = found[row]
        if match is None:
            continue
        confidence = match.confidence
        if theirs.launches[partner] < mine.launches[row]:
            spread = scatter[number] if np.isfinite(scatter[number]) else np.inf
            known = np.isfinite(scatter[number])
            confidence *= next(part for most, part in _SCATTER if spread < most) if known else 0.9
        # Without a launch shape the tool may have sampled another size: the level says so already.
        sane = not match.level.shape or not abs(ratio[number] - usual) > _OFF_FACTOR
        if not sane:
            confidence *= 0.5
        result[row] = replace(match, confidence=round(confidence, 3))
    return tuple(result)


def _summary(
    matches: tuple[Match | None, ...],
    ambiguous: npt.NDArray[np.bool_],
    timed: Groups,
    counted: Groups,
) -> Join:
    facts = timed.facts.only(("time_ns", "launches"))
    time, launches = np.nan_to_num(facts.time_ns), facts.launches
    covered = np.array([one is not None and one.confidence >= LEAST for one in matches], dtype=bool)
    taken = {one.counted for one in matches if one is not None}
    theirs = {canonical(name) for name in counted.names}
    unmatched = [
        Unmatched(
            timed.names[at], "timeline", int(time[at]),
            _why(canonical(timed.names[at]) in theirs, ambiguous=bool(ambiguous[at])),
        )
        for at in np.flatnonzero([one is None for one in matches]).tolist()
    ]  # fmt: skip
    their_time = counted.facts.only(("time_ns",)).time_ns
    unmatched += [
        Unmatched(
            name, "counters", None if np.isnan(their_time[at]) else int(their_time[at]),
            "no kernel of the timeline has this name and launch shape",
        )
        for at, name in enumerate(counted.names) if at not in taken
    ]  # fmt: skip
    return Join(
        matches=matches,
        unmatched=tuple(unmatched),
        coverage_time_pct=_pct(time[covered].sum(), time.sum()),
        coverage_launches_pct=_pct(launches[covered].sum(), launches.sum()),
        ambiguous_time_ns=int(time[ambiguous].sum()),
        covered=int(covered.sum()),
    )


def _pct(part: float, whole: float) -> float | None:
    return round(float(part / whole * 100), 2) if whole else None


def _why(has_name: bool, *, ambiguous: bool) -> str:
    """Why a kernel of the timeline has no partner. has_name: whether any counters have its name."""
    if ambiguous:
        return "ambiguous: several kernels have this name or launch shape"
    if has_name:
        return "the counters hold other launch shapes of it"
    return "not profiled by the counter tool"


#: What the timeline knows better than a counter tool, or alone.
_KEPT = frozenset(
    {"category", "primary_class", "launches", "timed_launches", "time_ns", "share_pct",
     "rank_by_time", "median_ns", "mad_ns", "best_shape_ns", "best_shape", "role"}
)  # fmt: skip
_KEPT_GROUPS = frozenset({"identity", "time"})
# Names and models speak of both sides alike.
_KEPT_SOURCES = frozenset({"name", "model"})


def with_counters(timed: Groups, counted: Groups, joined: Join) -> Groups:
    """The groups of the timeline with the counters of their partners.

    Columns that a launch fixes (registers, grid) come from the counters where the timeline does
    not know them; what follows from both sides (bytes moved over bytes needed) is worked out.
    ``join_confidence`` says how sure each group's counters are its own.
    """
    rows = np.array([-1 if one is None else one.counted for one in joined.matches], dtype=np.int64)
    has = rows >= 0
    columns: dict[str, Any] = {name: getattr(timed.facts, name) for name in timed.facts.names()}
    for name in counted.facts.names():
        if not _is_theirs(name):
            continue
        theirs = getattr(counted.facts, name)[rows]
        mine = columns.get(name)
        known = has & ~_unknown(theirs)
        if mine is None:
            mine = np.full(
                len(rows), None if theirs.dtype == object else np.nan, dtype=theirs.dtype
            )
        elif name in VOCABULARY and VOCABULARY[name].group == "launch":
            known &= _unknown(mine)
        columns[name] = np.where(known, theirs, mine)
    if {"traffic_ratio", "dram_bytes", "model_bytes"} <= columns.keys():
        # The one figure of both sides: bytes counted over bytes that the shapes need.
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = columns["dram_bytes"] / columns["model_bytes"]
        known = columns["traffic_ratio"]
        columns["traffic_ratio"] = np.where(has & np.isnan(known), ratio, known)
    columns["join_confidence"] = np.array(
        [np.nan if one is None else one.confidence for one in joined.matches]
    )
    columns["join_level"] = np.array(
        [None if one is None else one.level.says for one in joined.matches], dtype=object
    )
    return replace(timed, facts=Facts(columns, len(timed)))


def side_of(name: str, confidence: float) -> str:
    """Which recording a figure of a joined kernel comes from: "timeline" or "counters".

    Empty for what both say (the launch), for arithmetic on both, and without a join. confidence: of
    the kernel's join, NaN without a partner.
    """
    if name not in VOCABULARY or VOCABULARY[name].group == "launch" or name in _OF_BOTH:
        return ""
    return "counters" if _is_theirs(name) and not np.isnan(confidence) else "timeline"


# The bytes that were counted over those that the shapes need.
_OF_BOTH = frozenset({"traffic_ratio"})


def _is_theirs(name: str) -> bool:
    if name in _KEPT or name not in VOCABULARY:
        return False
    known = VOCABULARY[name]
    return known.group not in _KEPT_GROUPS and known.source not in _KEPT_SOURCES


def _unknown(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    if values.dtype == object:
        return np.array([one is None for one in values], dtype=bool)
    return np.asarray(np.isnan(values))
