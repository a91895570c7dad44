"""Timelines of single files add up to those of the run, whatever the order or the machine."""

import pickle
from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest

from traceroof.core.dictionary import coded
from traceroof.core.kernel_table import kernel_table
from traceroof.core.merge_recordings import merge
from traceroof.core.recording import Recording, Source
from traceroof.timeline.partial import (
    Partial,
    decoded,
    encoded,
    overlapping,
    partial_of,
    partial_of_run,
)
from traceroof.timeline.partial import merge as merge_partials
from traceroof.timeline.ranks import ranks

US = 1_000
CATEGORIES = coded(pa.array(["gemm", "communication", "gemm"]))


def file(rank: int | None, process: int = 100, late: int = 0, gpu: int | None = None) -> Recording:
    """A file of one step: work, an all-reduce that ends at 100 µs, work."""
    kernels = kernel_table(
        {
            "kernel_name": ["work", "ncclDevKernel_AllReduce", "work"],
            "start_ns": [0, (40 + late) * US, 110 * US],
            "duration_ns": [(40 + late) * US, (60 - late) * US, 10 * US],
            "rank": [rank] * 3,
            "device": [0] * 3,
            "process_id": [process] * 3,
            "gpu": [gpu] * 3,
            "step": ["ProfilerStep#1"] * 3,
            "collective": [None, "allreduce", None],
            "process_group": [None, "dp", None],
            "group_ranks": [None, "[0, 1, 2]", None],
            "group_size": [None, 3, None],
        }
    )
    return Recording("test", "timeline", kernels, (Source(f"rank{rank}.json", "test", 3),))


def seen(recordings: list[Recording]) -> Partial:
    """The run of these files, all of its rows at hand."""
    return partial_of_run(
        merge(recordings), CATEGORIES.take(np.tile(np.arange(3), len(recordings)))
    )


def test_partials_merge_to_that_of_the_run_in_any_order() -> None:
    """Rank 1 comes 20 µs late, so ranks 0 and 2 wait as long in the one collective."""
    files = [file(0), file(1, late=20), file(2)]
    parts = [partial_of(one, CATEGORIES).shifted(at) for at, one in enumerate(files)]
    whole = seen(files)
    assert [one.rank for one in whole.timelines] == [0, 1, 2]
    assert whole.categories[1] == {"ProfilerStep#1": {"communication": 40 * US, "gemm": 70 * US}}
    for order in permutations(parts):
        assert merge_partials(order) == whole
    found = ranks(whole)
    assert found is not None
    assert [one.caused_ns for one in found.ranks] == [0, 40 * US, 0]


def test_a_partial_goes_to_another_process_and_back() -> None:
    part = partial_of(file(3), CATEGORIES)
    assert pickle.loads(pickle.dumps(part)) == part
    assert decoded(encoded(part)) == part


def test_what_a_file_was_found_to_show_stands_for_its_rows() -> None:
    """Files whose host calls are elsewhere give the same run."""
    files = [file(0), file(1, late=20)]
    known = [partial_of(one, CATEGORIES) for one in files]
    from dataclasses import replace

    light = [replace(one, summaries=(part,)) for one, part in zip(files, known, strict=True)]
    joined = merge(light)
    assert [one.files for one in joined.summaries] == [(0,), (1,)]
    assert partial_of_run(joined, coded(pa.array(["other"] * 6))) == seen(files)


@pytest.mark.parametrize(
    ("owners", "together"),
    [
        # Ranks of their own.
        ({0: [(0, 7, 0, -9)], 1: [(1, 7, 0, -9)]}, [(0,), (1,)]),
        # One process in two files.
        ({0: [(0, 7, 0, -9)], 1: [(0, 7, 0, -9)]}, [(0, 1)]),
        # Two processes on one GPU, known by its number.
        ({0: [(0, 7, 0, 5)], 1: [(1, 8, 0, 5)], 2: [(2, 9, 0, 6)]}, [(0, 1), (2,)]),
        # Nobody is known: two files are two programs.
        ({0: [(-9, -9, 0, -9)], 1: [(-9, -9, 0, -9)]}, [(0,), (1,)]),
    ],
)
def test_files_of_one_gpu_or_process_are_looked_at_together(
    owners: dict[int, list[tuple[int, int, int, int]]], together: list[tuple[int, ...]]
) -> None:
    from traceroof.core.kernel_table import UNKNOWN

    unknown = {
        file: [tuple(UNKNOWN if one == -9 else one for one in owner) for owner in each]
        for file, each in owners.items()
    }
    assert overlapping(unknown) == together  # type: ignore[arg-type]


def test_two_files_of_one_gpu_are_one_timeline() -> None:
    files = [file(None, 1, gpu=4), file(None, 2, gpu=4)]
    (line,) = seen(files).timelines
    assert (line.sources, line.process, line.span_ns) == ((0, 1), None, 120 * US)
