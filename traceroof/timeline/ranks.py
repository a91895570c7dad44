"""Several ranks side by side: who waits for whom, once their clocks agree.

A collective ends on all of its ranks together, so matched collectives are the common clock: each
rank's times are shifted by the median difference of their ends. What remains tells how far the
ranks may be compared (``residual_ns``). A rank that enters a collective early only waits in it;
the one that enters last keeps the others waiting. Definitions: ``docs/timeline.md``.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.facts import Facts
from traceroof.table import Column
from traceroof.timeline import Timeline
from traceroof.timeline.lanes import Rows, lanes

if TYPE_CHECKING:
    import pandas as pd

    from traceroof.recording import Recording

Reals = npt.NDArray[np.float64]

# Clocks that still differ by more after alignment do not allow gaps across ranks.
RESIDUAL_LIMIT_NS = 100_000

# Collectives whose ranks leave together. Point-to-point transfers and broadcasts need not.
_TOGETHER = re.compile(
    r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|barrier", re.IGNORECASE
)

#: What is known of a run of several ranks, for rules of scope ``run``.
RANK_COLUMNS: tuple[Column, ...] = tuple(
    Column(name, pa.float64(), unit, meaning, "ranks")
    for name, unit, meaning in (
        ("ranks", "rank", "ranks with a timeline"),
        ("matched_collectives", "launch", "collectives found on all ranks"),
        ("clock_residual_ns", "ns", "median disagreement of the ranks' clocks after alignment"),
        ("slowest_rank", "", "rank that keeps the others waiting most"),
        ("slowest_share", "", "its share of all waiting in collectives, 0-1"),
        ("slowest_last_share", "", "share of collectives that it enters last, 0-1"),
        ("slowest_compute_ratio", "", "its compute time over the median rank's"),
        ("slowest_own_ratio", "", "its time outside communication over the median rank's"),
        ("compute_imbalance", "", "(largest - mean) / mean of the ranks' compute time"),
        ("step_imbalance", "", "(largest - mean) / mean of compute time, step by step"),
        ("compute_excess_ns", "ns", "largest minus median compute time, per step added up"),
        ("compute_over_mean_ns", "ns", "largest minus mean compute time, per step added up"),
        ("slowest_changes", "", "share of steps in which the slowest rank is another, 0-1"),
        ("waiting_ns", "ns", "time that ranks wait in collectives for the last one, mean of ranks"),
        ("waiting_share", "", "of the ranks' communication time, 0-1"),
    )
)


@dataclass(frozen=True)
class RankTimes:
    """One rank beside the others. Times in ns.

    offset_ns: what is added to its clock to agree with the first rank's; None where no
    collective was matched. waiting_ns: its time in matched collectives before the last rank came.
    caused_ns: what the others waited where it came last. last_share: share of matched collectives
    that it entered last, 0-1. own_ns: its span outside communication, idle time included.
    """

    rank: int
    compute_ns: int
    communication_ns: int
    exposed_communication_ns: int
    idle_ns: int
    own_ns: int
    offset_ns: int | None
    waiting_ns: int | None
    caused_ns: int | None
    last_share: float | None
    step_compute_ns: tuple[int, ...]


@dataclass(frozen=True)
class Ranks:
    """The ranks of a run. facts: RANK_COLUMNS -> value; what is unknown is absent.

    comparable: whether the clocks agree well enough for gaps across ranks; where not, nothing is
    said of waiting.
    """

    ranks: tuple[RankTimes, ...]
    facts: Mapping[str, float]
    comparable: bool

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return asdict(self)


def ranks(
    recording: "Recording", categories: Sequence[str], found: Sequence[Timeline]
) -> Ranks | None:
    """Compare the ranks of a recording; None where it has fewer than two.

    categories: the category of every row of the kernel table. found: its ``timelines``; a rank
    with several GPUs or windows counts with the one that computes most.
    """
    by_rank: dict[int, Timeline] = {}
    for one in found:
        if one.rank is not None:
            known = by_rank.get(one.rank)
            if known is None or one.compute_ns > known.compute_ns:
                by_rank[one.rank] = one
    if len(by_rank) < 2:
        return None
    order = sorted(by_rank)
    sent = _collectives(recording, categories, by_rank)
    together = sent[[bool(_TOGETHER.search(text)) for text in sent["operation"]]]
    matched = _matched(together, len(order))
    if matched.empty:  # an all-to-all made of transfers goes by their name
        matched = _matched(sent, len(order))
    alignment = _aligned(matched, order)
    comparable = alignment is not None and alignment.residual <= RESIDUAL_LIMIT_NS
    waits = alignment if comparable else None
    computes = _step_computes([by_rank[rank] for rank in order])
    facts = _facts(order, by_rank, waits, computes)
    if alignment is not None:
        facts["matched_collectives"] = float(len(alignment.last))
        facts["clock_residual_ns"] = alignment.residual
    return Ranks(
        ranks=tuple(
            RankTimes(
                rank=rank,
                compute_ns=by_rank[rank].compute_ns,
                communication_ns=by_rank[rank].communication_ns,
                exposed_communication_ns=by_rank[rank].exposed_communication_ns,
                idle_ns=by_rank[rank].idle_ns,
                own_ns=_own(by_rank[rank]),
                offset_ns=int(alignment.offset[at]) if alignment else None,
                waiting_ns=int(waits.waiting[:, at].sum()) if waits else None,
                caused_ns=int(waits.caused(at)) if waits else None,
                last_share=float((waits.last == at).mean()) if waits else None,
                step_compute_ns=tuple(int(step) for step in computes[:, at]),
            )
            for at, rank in enumerate(order)
        ),
        facts=facts,
        comparable=comparable,
    )


def facts_of(found: Ranks | None) -> Facts:
    """What rules of scope ``run`` read of the ranks: one subject, columns RANK_COLUMNS."""
    values = found.facts if found else {}
    columns = {entry.name: np.array([values.get(entry.name, np.nan)]) for entry in RANK_COLUMNS}
    return Facts(columns, 1)


# Matched collectives as matrices, one row a collective, one column a rank.


@dataclass(frozen=True)
class _Alignment:
    """offset: ns per rank. waiting, last: per collective and rank; which rank came last."""

    offset: npt.NDArray[np.int64]
    residual: float
    waiting: Reals
    last: npt.NDArray[np.int64]

    def caused(self, rank: int) -> float:
        """What the others waited in the collectives that the rank entered last. ns."""
        return float(self.waiting[self.last == rank].sum())


def _collectives(
    recording: "Recording", categories: Sequence[str], by_rank: Mapping[int, Timeline]
) -> "pd.DataFrame":
    """The collectives of each rank's timeline, in order, with what identifies them."""
    import pandas as pd

    kernels = recording.kernels
    parts = []
    for lane in lanes(Rows(kernels, categories)):
        chosen = by_rank.get(lane.rank) if lane.rank is not None else None
        if chosen is None or int(lane.start.min()) != chosen.start_ns:
            continue
        if (lane.process, lane.device) != (chosen.process, chosen.device):
            continue
        at = lane.at[lane.is_communication]
        rows = lane.rows
        names = np.array([*rows.names, ""], dtype=object)[rows.name[at]]
        number, texts = rows.text("collective", at)
        collective = np.array([*texts, ""], dtype=object)[number]
        operation = np.where(number >= 0, collective, names).astype(str)
        step_names = np.array([*rows.step_names, ""], dtype=object)
        parts.append(
            pd.DataFrame(
                {
                    "rank": lane.rank,
                    "operation": operation,
                    "size": np.nan_to_num(rows.reals("message_bytes", at), nan=-1.0),
                    "group": rows.wholes("group_size", at),
                    "step": step_names[rows.step[at]].astype(str),
                    "start": rows.start[at],
                    "end": rows.end[at],
                }
            )
        )
    columns = ["rank", "operation", "size", "group", "step", "start", "end"]
    return pd.concat(parts) if parts else pd.DataFrame(columns=columns)


def _matched(frame: "pd.DataFrame", count: int) -> "pd.DataFrame":
    """Collectives that all ranks have: the same operation, message and group at the same place
    among its kind, within the step where steps are known. Kinds of which one rank saw more than
    another (windows cut differently) are left out."""
    key = ["step", "operation", "size", "group"]
    if frame.empty:
        return frame
    numbers = frame.groupby([*key, "rank"]).size().unstack("rank")
    whole = numbers.dropna() if numbers.shape[1] == count else numbers.iloc[:0]
    whole = whole[whole.nunique(axis=1) == 1]
    frame = frame.set_index(key)
    frame = frame[frame.index.isin(whole.index)].reset_index()
    frame["turn"] = frame.sort_values("start", kind="stable").groupby([*key, "rank"]).cumcount()
    return frame


def _aligned(frame: "pd.DataFrame", order: Sequence[int]) -> _Alignment | None:
    if frame.empty:
        return None
    key = ["step", "operation", "size", "group", "turn"]
    # int64 throughout: nanoseconds since an epoch do not fit a double.
    start, end = (
        frame.pivot(index=key, columns="rank", values=what)[list(order)].to_numpy(dtype=np.int64)
        for what in ("start", "end")
    )
    apart = end - end[:, :1]
    # Medians are doubles: take them of what is left beside the first difference.
    offset = -(apart[0] + np.round(np.median(apart - apart[0], axis=0)).astype(np.int64))
    residual = float(np.median(np.abs(apart + offset).max(axis=1)))
    entered = start + offset
    last = np.argmax(entered, axis=1)
    waiting = np.clip(entered.max(axis=1, keepdims=True) - entered, 0, end - start)
    return _Alignment(offset, residual, waiting.astype(np.float64), last)


def _step_computes(found: Sequence[Timeline]) -> npt.NDArray[np.int64]:
    """Compute time per step (rows) and rank (columns): of steps that all ranks have, warm-up
    left out; of the whole timeline where they share none."""
    by_name = [{step.name: step.compute_ns for step in one.steady_steps} for one in found]
    shared = [name for name in by_name[0] if all(name in other for other in by_name)]
    if not shared:
        return np.array([[one.compute_ns for one in found]], dtype=np.int64)
    return np.array([[steps[name] for steps in by_name] for name in shared], dtype=np.int64)


def _own(one: Timeline) -> int:
    """Time outside communication: what the rank itself needed, or failed to fill."""
    return one.span_ns - one.communication_ns


def _facts(
    order: Sequence[int],
    by_rank: Mapping[int, Timeline],
    alignment: _Alignment | None,
    computes: npt.NDArray[np.int64],
) -> dict[str, float]:
    total = computes.sum(axis=0).astype(np.float64)
    facts: dict[str, float] = {"ranks": float(len(order))}
    if total.mean() > 0:
        facts["compute_imbalance"] = float((total.max() - total.mean()) / total.mean())
        over = (computes.max(axis=1) - computes.mean(axis=1)).sum()
        facts["step_imbalance"] = float(over / computes.mean(axis=1).sum())
    largest = computes.max(axis=1)
    facts["compute_excess_ns"] = float((largest - np.median(computes, axis=1)).sum())
    facts["compute_over_mean_ns"] = float((largest - computes.mean(axis=1)).sum())
    if len(computes) > 1:
        slowest = np.argmax(computes, axis=1)
        usual = np.bincount(slowest).argmax()
        facts["slowest_changes"] = float((slowest != usual).mean())
    if alignment is None:
        return facts
    caused = np.array([alignment.caused(at) for at in range(len(order))])
    at = int(caused.argmax())
    own = np.array([_own(by_rank[rank]) for rank in order], dtype=np.float64)
    if caused.sum() > 0:
        facts["slowest_rank"] = float(order[at])
        facts["slowest_share"] = float(caused[at] / caused.sum())
        facts["slowest_last_share"] = float((alignment.last == at).mean())
        if np.median(total) > 0:
            facts["slowest_compute_ratio"] = float(total[at] / np.median(total))
        if np.median(own) > 0:
            facts["slowest_own_ratio"] = float(own[at] / np.median(own))
    facts["waiting_ns"] = float(alignment.waiting.sum(axis=0).mean())
    communication = np.mean([by_rank[rank].communication_ns for rank in order])
    if communication > 0:
        facts["waiting_share"] = facts["waiting_ns"] / float(communication)
    return facts
