"""What the host did, by thread: operators, ranges, frames of Python's stack, calls."""

import re
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from traceroof.core import regex
from traceroof.core.dictionary import compact
from traceroof.core.text_search import Texts
from traceroof.parsers.host.containment import Containers, containers
from traceroof.parsers.torch.columns import Fold
from traceroof.parsers.torch.event_columns import Codes, Columns
from traceroof.parsers.torch.events import UNKNOWN, Whole, whole_number
from traceroof.parsers.torch.rank_labels import label_of, ranks_of_labels

Mask = npt.NDArray[np.bool_]

# Up to torch 1.12 annotations are operators by category; these are the ones that torch makes.
_ANNOTATION = regex.compile(
    r"ProfilerStep\s*#|Optimizer\.(step|zero_grad)#|enumerate\(DataLoader\)|DataParallel\."
    r"|DistributedDataParallel\.|(nccl|gloo|mpi|ucc):"
)


class Ranges:
    """Named stretches of host time as arrays: name (code), lane (of Host.threads), start, end."""

    def __init__(self, name: Codes, lane: Codes, start: Whole, end: Whole) -> None:
        self.name, self.lane, self.start, self.end = name, lane, start, end

    def __len__(self) -> int:
        return len(self.start)

    def at(self, rows: npt.NDArray[np.int64]) -> "Ranges":
        return Ranges(self.name[rows], self.lane[rows], self.start[rows], self.end[rows])

    def containers(self, rows: npt.NDArray[np.int64] | None = None) -> Containers:
        return containers(self.lane, self.start, self.end, rows)


class Host:
    """What the host did; taken out of a fold.

    threads: (process, thread) by lane. signature: of each operator; signature_texts: of each
    signature the shapes, dtypes and values (``Fold.signed``). ``operators`` are all of them until ``link`` has used them,
    then only the outermost of those that launched something or took long enough to matter; ``signature``
    is gone then.
    """

    def __init__(self, fold: Fold) -> None:
        signature_name, *self.signature_texts = fold.signed()
        self.names = [text if isinstance(text, str) else "" for text in fold.names]
        ranks = ranks_of_labels(fold)
        triples = np.array(
            [
                [whole_number(pid), whole_number(tid), ranks.get(label_of(pid), UNKNOWN)]
                for pid, tid in fold.threads
            ],
            dtype=np.int64,
        ).reshape(-1, 3)
        owners, lane = np.unique(triples, axis=0, return_inverse=True)
        self.threads = owners[:, :2]
        self.lane_of_thread = lane.reshape(-1).astype(np.int32)
        self.signature = fold.operators.pop("signature")
        self.operators = self._taken(fold.operators, signature_name[self.signature])
        self.ranges = self._taken(fold.ranges)
        self.frames = self._taken(fold.frames)
        self.calls = self._taken(fold.calls)
        self.call_category = fold.calls.pop("category")
        self.call_correlation = fold.calls.pop("correlation")
        rank = fold.calls.pop("rank").copy()
        unknown = rank == UNKNOWN
        rank[unknown] = owners[:, 2][self.calls.lane[unknown]]
        self.call_rank = compact(rank)
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

    def _taken(self, columns: Columns, name: Codes | None = None) -> Ranges:
        start, end = columns.pop("start"), columns.pop("duration")
        end += start
        name = columns.pop("name") if name is None else name
        return Ranges(name, self.lane_of_thread[columns.pop("thread")], start, end)

    def tabled(self) -> None:
        """Drop what only the tables of the host are made of."""
        del self.operators, self.ranges, self.frames
        del self.call_category, self.call_correlation, self.call_rank

    def matching(self, pattern: re.Pattern[str]) -> Mask:
        """For each name whether it begins with the pattern."""
        found = self._texts.found(pattern)
        found[found] = [bool(pattern.match(self.names[at])) for at in np.flatnonzero(found)]
        return np.append(found, False)

    @cached_property
    def _texts(self) -> Texts:
        return Texts(self.names)

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
