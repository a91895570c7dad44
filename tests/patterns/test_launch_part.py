"""Parts of launches: they add up in any order, and say what the rows say."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from traceroof.core import kernel_table
from traceroof.core.kernel_table import kernel_table as table_of
from traceroof.kernels.categories import coded_categories, row_categories
from traceroof.kernels.groups import group
from traceroof.kernels.variants import interned
from traceroof.patterns import launch_part
from traceroof.patterns.launch_part import LaunchPart

KERNELS = ("ampere_sgemm_128x64_nn", "vectorized_elementwise_kernel<4, AddFunctor>", "Memcpy DtoD")


def rank(number: int, launches: int = 40, source: int = 0) -> pa.Table:
    """Launches of one rank: three kernels, times and steps of its own."""
    dice = np.random.default_rng(number)
    which = dice.integers(0, 3, launches)
    start = np.cumsum(dice.integers(10, 30, launches))
    return table_of(
        {
            "kernel_name": [KERNELS[one] for one in which],
            "kind": ["memcpy" if one == 2 else "kernel" for one in which],
            "module_path": [f"Block_{one}" for one in dice.integers(0, 2, launches)],
            "step": [f"ProfilerStep#{one}" for one in np.arange(launches) // 10],
            "start_ns": start,
            "duration_ns": dice.integers(1, 9, launches),
            "rank": [number] * launches,
            "device": [number % 2] * launches,
            "process_id": [number + 100] * launches,
            "stream": [7] * launches,
            "source": [source] * launches,
            "grid_x": [8] * launches, "grid_y": [1] * launches, "grid_z": [1] * launches,
            "block_x": [64] * launches, "block_y": [1] * launches, "block_z": [1] * launches,
        }
    )  # fmt: skip


def part(number: int, file: int) -> LaunchPart:
    kernels = rank(number)
    made, _ = launch_part.part_of(kernels, coded_categories(kernels), (0,))
    return made.shifted(file)


def plain(one: LaunchPart) -> Any:
    """A part as values that compare."""
    decoded = launch_part.encoded(one)
    found = launch_part.decoded(decoded)
    variants, regions = found.variants, found.regions
    columns = [variants.sums.low, variants.sums.high, variants.firsts, variants.by_step,
               regions.regions, regions.sequences, regions.members]  # fmt: skip
    plain_sums = {
        name: value.tolist()
        for name, value in vars(variants.sums).items()
        if isinstance(value, np.ndarray)
    }
    times = variants.durations
    return (
        found.files, variants.kernels.to_pydict(), plain_sums, variants.steps,
        [{name: value.tolist() for name, value in one.items()} for one in columns],
        [one.tolist() for one in (times.thing, times.value, times.launches, times.sketched)],
        regions.launches.tolist(), regions.time_ns,
    )  # fmt: skip


def test_parts_add_up_in_any_order() -> None:
    parts = [part(number, number) for number in range(4)]
    whole = plain(launch_part.merge(parts))
    assert plain(launch_part.merge(parts[::-1])) == whole
    first = launch_part.merge(parts[2:])
    assert plain(launch_part.merge([launch_part.merge(parts[:2]), first])) == whole
    assert plain(launch_part.merge([first, parts[1], parts[0]])) == whole


def test_one_part_is_itself() -> None:
    """GIVEN the part of one rank WHEN it is added up with none THEN it stays as it is."""
    one = part(3, 0)
    assert plain(launch_part.merge([one])) == plain(one)


def test_parts_held_in_less_memory_are_the_same() -> None:
    known: dict[object, list[pa.Table]] = {}
    parts = [part(1, 0), part(1, 1), part(2, 2)]
    lighter = [replace(one, variants=interned(one.variants, known)) for one in parts]
    assert lighter[0].variants.kernels is lighter[1].variants.kernels
    assert plain(launch_part.merge(lighter)) == plain(launch_part.merge(parts))


def test_groups_of_parts_are_those_of_the_rows() -> None:
    """GIVEN three ranks WHEN their parts are grouped THEN groups have the launches, time, median and
    deviation that a plain computation over all rows gives."""
    merged = launch_part.merge([part(number, number) for number in range(3)]).variants
    grouped = group(merged, row_categories(merged.kernels))
    rows = pa.concat_tables([rank(number, source=number) for number in range(3)]).to_pylist()
    for at, name in enumerate(grouped.names):
        times = [one["duration_ns"] for one in rows if one["kernel_name"] == name]
        see = grouped.facts
        assert (see.launches[at], see.time_ns[at]) == (len(times), sum(times))
        middle = np.median(times)
        assert see.median_ns[at] == middle
        assert see.mad_ns[at] == np.median(np.abs(np.array(times) - middle))
        assert see.sketched[at] == 0
    assert set(grouped.names) == set(KERNELS[:2])


def test_kernels_by_name_keep_launches_time_and_window() -> None:
    kernels = rank(5, launches=61)
    told = launch_part.by_name(kernels)
    assert told.num_rows <= 6
    assert kernel_table.launches(told, None) == 61
    assert kernel_table.total_time_ns(told, None) == kernel_table.total_time_ns(kernels, None)
    for over in (min, max):
        assert over(told["start_ns"].to_pylist()) == over(kernels["start_ns"].to_pylist())


@pytest.mark.parametrize("data", [b"", b"\x92\x90\x80", b"nothing of the kind"])
def test_bytes_that_are_no_part_say_so(data: bytes) -> None:
    with pytest.raises(ValueError, match="no part of launches"):
        launch_part.decoded(data)
