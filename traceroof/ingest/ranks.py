"""Ranks of a distributed program: which of them a file holds."""

from collections.abc import Sequence

import pyarrow.compute as pc

from traceroof.core.recording import Recording


def ranks_of(recording: Recording) -> frozenset[int]:
    return frozenset(pc.unique(recording.kernels["rank"]).drop_null().to_pylist())


def are_ranks(recordings: Sequence[Recording]) -> bool:
    """Whether every file is of other ranks than all the rest."""
    ranks = [ranks_of(one) for one in recordings]
    return all(ranks) and sum(map(len, ranks)) == len(frozenset().union(*ranks))
