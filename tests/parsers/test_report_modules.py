"""Instructions of a report and the modules that say where they are: all generations, several
functions and modules, and what is damaged, missing or too large."""

import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.mutate import fuzz_count, mutate, time_limit
from tests.parsers.cubin_maker import SLOT, Function, cubin
from tests.parsers.test_nsight_compute_report import WRITTEN, Maker, put, read, severe
from traceroof.core.recording import Recording
from traceroof.errors import TraceroofError
from traceroof.ingest.messages import messages
from traceroof.parsers.nsight import report_blocks
from traceroof.parsers.nsight.cubin import Cubin

_WRITE = messages("tests.ncu_modules", WRITTEN)
BASE = 0x7F0000001000
#: Where the second function is loaded: in front of the first, as the linker may do.
HELPER = BASE - 0x400
KEY = 0x500000001
F = Function("f", 4, [(0, 10), (16, 12), (32, 10)], [(0, 5), (16, 7)])
G = Function("helper", 2, [(0, 99)])
PTX = [f"line {number};" for number in range(1, 9)]
STALLED = "smsp__pcsamp_warps_issue_stalled_"


def module(
    functions: Sequence[Function] = (F, G),
    addresses: Sequence[int] = (BASE, HELPER),
    key: int = KEY,
) -> bytes:
    """A module of 2022 or later: its image and where its functions are loaded."""
    made = _WRITE["Module"](reference=key, image=cubin(functions, ptx=PTX))
    for number, (one, address) in enumerate(zip(functions, addresses, strict=False), 1):
        made.loaded.functions.add(name=one.name.encode(), address=address, symbol=number)
    return bytes(made.SerializeToString())


def launch(
    made: Maker, counts: Mapping[str, Mapping[int, int]], key: int = KEY, **more: Any
) -> Any:
    """A result with counts by program counter."""
    result = made.result({"gpu__time_duration.sum": 1_000_000, **more})
    result.source.reference = key
    for metric, by_pc in counts.items():
        one = made.metric(result, metric, sum(by_pc.values()))
        for pc, count in by_pc.items():
            listed = one.instances.add()
            put(listed.at, pc)
            put(listed.value, count)
    return result


COUNTS = {
    "smsp__pcsamp_sample_count": {BASE: 5, BASE + 16: 70, HELPER: 20, BASE + 64: 5},
    f"{STALLED}long_scoreboard": {BASE + 16: 70, HELPER: 20},
    f"{STALLED}selected": {BASE: 5},
    f"{STALLED}wait_not_issued": {BASE: 2},
    f"{STALLED}barrier_not_issued": {BASE: 1},
    "inst_executed": {BASE: 64, BASE + 16: 64, BASE + 32: 64, HELPER: 64},
    "memory_l2_theoretical_sectors_global": {BASE + 16: 256},
    "memory_type": {BASE + 16: 4, HELPER: 16},
    "memory_access_type": {BASE + 16: 2, HELPER: 4},
}


def lines(recording: Recording) -> list[tuple[Any, ...]]:
    names = ("function", "address", "line", "ptx_line", "samples")
    return [tuple(one[name] for name in names) for one in recording.source_lines.to_pylist()]


EXPECTED = [
    ("helper", 0, 99, None, 20),
    ("f", 0, 10, 5, 5),
    ("f", 16, 12, 7, 70),
    ("f", 32, 10, 7, 0),
]
#: Behind the last instruction of f: a sample of the module's, of no function that it lists.
OUTSIDE = (None, 64, None, None, 5)


def report(*sources: bytes, **more: Any) -> Maker:
    made = Maker()
    made.block(launch(made, COUNTS, **more), sources=sources)
    return made


def test_instructions_find_their_function_and_line(tmp_path: Path) -> None:
    recording = read(tmp_path, report(module()))
    assert lines(recording)[:4] == EXPECTED
    assert lines(recording)[4][4] == 5
    found = recording.source_lines.to_pylist()
    assert {one["file"] for one in found[:4]} == {"/src/f.cu"}
    assert [one["ptx"] for one in found] == [None, "line 5;", "line 7;", "line 7;", None]
    assert [one["memory"] for one in found] == ["shared", None, "global", None, None]
    assert [one["access"] for one in found] == ["store", None, "load", None, None]
    # Not issued: 2 + 1 of the reasons. No sector where no instruction moves any.
    assert [one["samples_not_issued"] for one in found] == [0, 3, 0, 0, 0]
    assert [one["global_sectors"] for one in found] == [None, None, 256, None, None]
    assert not severe(recording)


def test_launches_of_a_kernel_have_their_own_counts(tmp_path: Path) -> None:
    """GIVEN launches that list the same instructions, one that lists another, and one with a longer
    count THEN each has its own counts, wherever it comes among the others."""
    listed = [
        {BASE: 5, BASE + 16: 70},
        {BASE: 6, BASE + 16: 1},
        {BASE: 7, BASE + 32: 2},
        {BASE: 300_000, BASE + 16: 1 << 40},
        {BASE: 5, BASE + 16: 70},
    ]
    made = Maker()
    for counts in listed:
        made.block(launch(made, {"smsp__pcsamp_sample_count": counts}), sources=[module()])
    found = read(tmp_path, made).source_lines.to_pylist()
    assert [(one["row"], one["address"], one["samples"]) for one in found] == [
        (row, pc - BASE, count) for row, counts in enumerate(listed) for pc, count in counts.items()
    ]


def test_reports_of_2020_have_addresses_in_the_symbols(tmp_path: Path) -> None:
    """GIVEN no list of functions, symbols with device addresses, and no count of all samples."""
    placed = (
        Function("f", 4, F.lines, F.ptx_lines, BASE),
        Function("helper", 2, G.lines, (), HELPER),
    )
    counts = {
        f"{STALLED}long_scoreboard": {BASE + 16: 70, HELPER: 20},
        f"{STALLED}selected": {BASE: 5},
        "memory_l2_transactions_global": {BASE + 16: 256},
        "memory_ideal_l2_transactions_global": {BASE + 16: 64},
    }
    made = Maker()
    made.block(launch(made, counts), sources=[module(placed, ())])
    recording = read(tmp_path, made)
    assert lines(recording) == EXPECTED[:3]
    assert recording.source_lines["global_sectors_ideal"].to_pylist() == [None, None, 64]


def test_a_module_may_come_later_and_in_parts(tmp_path: Path) -> None:
    """GIVEN the image behind the launches and a second function in a block of its own."""
    made = Maker()
    made.block(launch(made, COUNTS))
    made.block(sources=[module((F, G), (BASE,))])
    added = _WRITE["Module"](reference=KEY)
    added.loaded.functions.add(name=b"helper", address=HELPER, symbol=2)
    made.block(sources=[added.SerializeToString()])
    assert lines(read(tmp_path, made))[:4] == EXPECTED


def test_launches_of_several_modules(tmp_path: Path) -> None:
    other = Function("other", 2, [(0, 7)])
    made = Maker()
    made.block(
        launch(made, COUNTS),
        launch(made, {"smsp__pcsamp_sample_count": {BASE: 3}}, key=KEY + 2**32),
        sources=[module(), module([other], [BASE], KEY + 2**32)],
    )
    recording = read(tmp_path, made)
    assert recording.source_lines["row"].to_pylist() == [0, 0, 0, 0, 0, 1]
    assert lines(recording)[-1] == ("other", 0, 7, None, 3)


def test_without_a_module_addresses_count_from_the_kernel(tmp_path: Path) -> None:
    made = Maker()
    result = launch(made, {"smsp__pcsamp_sample_count": {HELPER: 1, BASE: 2, BASE + 16: 3}})
    starts = made.metric(result, "launch__function_pcs", 2)
    for number, pc in enumerate((BASE, HELPER)):
        one = starts.instances.add()
        put(one.at, number)
        put(one.value, pc)
    made.block(result)
    recording = read(tmp_path, made)
    assert lines(recording) == [
        (None, 0, None, None, 1), (None, 0, None, None, 2), (None, 16, None, None, 3),
    ]  # fmt: skip


def test_samples_that_were_due(tmp_path: Path) -> None:
    """132 multiprocessors, 1e6 cycles, a sample every 1,024."""
    more: dict[str, Any] = {
        "device__attribute_multiprocessor_count": 132, "sm__cycles_active.avg": 1e6,
        "smsp__pcsamp_interval_cycles": 1024,
    }  # fmt: skip
    made = Maker()
    made.block(launch(made, COUNTS, **more), sources=[module()])
    due = read(tmp_path, made).source_lines["expected_samples"].to_pylist()
    assert due == [pytest.approx(132 * 1e6 / 1024)] * 5


@pytest.mark.parametrize(
    ("source", "words"),
    [(b"\xff" * 9, "damaged or over"), (b"\x08\x81\x80\x80\x80\x50\x22\x02MZ", "that are damaged")],
)
def test_a_damaged_module_costs_its_lines(tmp_path: Path, source: bytes, words: str) -> None:
    recording = read(tmp_path, report(source))
    assert [one[4] for one in lines(recording)] == [20, 5, 70, 0, 5]
    assert {one[2] for one in lines(recording)} == {None}
    assert any(words in note.text for note in recording.notes)


def test_a_module_too_large_to_hold_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_blocks, "_LARGEST_MODULE", 100)
    recording = read(tmp_path, report(module()))
    assert sum(one[4] for one in lines(recording)) == 100
    assert any("over 256 MiB" in note.text for note in recording.notes)


def test_a_function_without_lines_has_none(tmp_path: Path) -> None:
    bare = Function("f", 4)
    recording = read(tmp_path, report(module([bare, G])))
    assert [one[:4] for one in lines(recording)[1:4]] == [
        ("f", 0, None, None), ("f", 16, None, None), ("f", 32, None, None),
    ]  # fmt: skip


def test_a_cubin_as_it_is_made() -> None:
    made = Cubin(cubin([F, G], ptx=PTX))
    assert made.function_of(1) == "f"
    assert made.source.at(1, SLOT) == ("/src/f.cu", 12)
    assert made.source.at(2, 0) == ("/src/f.cu", 99)
    assert made.ptx_line(("", 7)) == "line 7;"


def test_ranges_with_the_layout_of_launches_are_read(tmp_path: Path) -> None:
    made = Maker()
    header = made.header()
    result = made.result({"gpu__time_duration.sum": 5_000.0}, b"", function=b"", mangled=b"")
    made.block(made.result({"gpu__time_duration.sum": 1_000.0}), header=header)
    header.ranges = 1
    made.blocks[-1][1].append(result)
    recording = read(tmp_path, made)
    assert recording.kernels["kernel_name"].to_pylist() == ["f(float *)", "range"]
    assert recording.kernels["duration_ns"].to_pylist() == [1_000, 5_000]
    assert [note.text for note in recording.notes if "ranges" in note.text] == [
        "results of ranges read by the layout of launches"
    ]
    assert not severe(recording)


def test_a_graph_has_no_grid(tmp_path: Path) -> None:
    made = Maker()
    result = made.result({"gpu__time_duration.sum": 5_000.0}, b"graph")
    result.ClearField("grid")
    result.ClearField("block")
    made.block(result)
    [row] = read(tmp_path, made).kernels.to_pylist()
    assert (row["kernel_name"], row["grid_x"], row["duration_ns"]) == ("graph", None, 5_000)


def test_damaged_reports_with_modules(tmp_path: Path) -> None:
    rng = random.Random(182)
    data = report(module()).written()
    for _ in range(fuzz_count(100)):
        with time_limit(10), suppress(TraceroofError):
            assert read(tmp_path, mutate(data, rng)).kernels.num_rows


def test_damaged_modules(tmp_path: Path) -> None:
    rng = random.Random(183)
    image = cubin([F, G], ptx=PTX)
    for _ in range(fuzz_count(100)):
        made = _WRITE["Module"](reference=KEY, image=mutate(image, rng))
        made.loaded.functions.add(name=b"f", address=BASE, symbol=1)
        with time_limit(10):
            found = read(tmp_path, report(made.SerializeToString()))
            assert sum(one[4] for one in lines(found)) == 100


@pytest.mark.parametrize("behind", [3, 5])
def test_a_damaged_list_costs_itself_not_its_value(tmp_path: Path, behind: int) -> None:
    """GIVEN a metric whose list of units has a length that leaves the metric, of an instance or of
    a value in it, THEN the metric's value stands."""
    made = Maker()
    result = made.result({"gpu__time_duration.sum": 1_000})
    metric = made.metric(result, "a__listed.sum", 7)
    put(metric.instances.add().at, 3)
    whole = metric.SerializeToString()
    made.block(result)
    data = made.written()
    broken = whole[:-behind] + b"\x7f" + whole[len(whole) - behind + 1 :]
    recording = read(tmp_path, data.replace(whole, broken))
    raw = {row["metric"]: row["value"] for row in recording.raw_metrics.to_pylist()}
    assert raw["a__listed.sum"] == 7
