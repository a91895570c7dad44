"""Dispatches of several passes as one run, launch shapes, occupancy, and what devices are called."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceroof.core.recording import Note
from traceroof.parsers.amd import fields, gpus, rocminfo
from traceroof.parsers.amd import run as amd_run
from traceroof.parsers.amd.calls import copy_kind
from traceroof.parsers.amd.columns import complete
from traceroof.parsers.amd.counters import Pass
from traceroof.parsers.amd.dispatches import (
    Dispatches,
    cleaned_names,
    shape_columns,
    time_columns,
)
from traceroof.parsers.amd.gpus import Gpu
from traceroof.parsers.amd.passes import (
    join_passes,
    joined_runs,
    pivot,
    stacked,
)
from traceroof.parsers.amd.values import times


def run(
    names: list[str],
    *,
    counters: dict[str, list[float]] | None = None,
    timeline: bool = False,
    grid: int = 1024,
    path: str = "a.csv",
    **columns: Any,
) -> Dispatches:
    count = len(names)
    spent = np.full(count, 100.0)
    made = {name: np.array(values, dtype=float) for name, values in (counters or {}).items()}
    shape = {f"{side}_{axis}": [1] * count for side in ("grid", "block") for axis in "xyz"}
    return Dispatches(
        Path(path),
        {
            "kernel_name": pa.array(names, pa.string()),
            "duration_ns": pa.array([100] * count),
            **{name: pa.array(values) for name, values in (shape | columns).items()},
        },
        [Pass(path, made, spent)] if made else [],
        timeline=timeline,
        work_items=np.full(count, grid),
        group_items=np.full(count, 64),
    )


def whole(*values: int | None) -> pa.Array:
    return pa.array(values, pa.int64())


# --------------------------------------------------------------------------------------------
# Names, shapes, times


def test_symbol_suffixes_are_cut() -> None:
    names = pa.array(["f(int) [clone .kd]", "g.kd", "h (.kd)", "i.kd [clone .kd]", "kd", "", None])
    assert cleaned_names(names).to_pylist() == [
        "f(int)", "g", "h", "i", "kd", "(unknown kernel)", "(unknown kernel)",
    ]  # fmt: skip


def test_work_items_become_workgroups() -> None:
    columns, work, group = shape_columns(
        [whole(1000, 64, None), whole(4, 1, 1), whole(1, 1, 1)],
        [whole(256, 0, 64), whole(2, 1, 1), whole(1, 1, 1)],
    )
    assert columns["grid_x"].to_pylist() == [4, None, None]
    assert columns["grid_y"].to_pylist() == [2, 1, 1]
    assert work.tolist() == [4000, 64, -1]
    assert group.tolist() == [512, -1, 64]


def test_a_product_of_sizes_is_shown_in_x() -> None:
    columns, _, _ = shape_columns([whole(1000, None)], [whole(256, 256)])
    assert columns["grid_x"].to_pylist() == [4, None]
    assert columns["grid_y"].to_pylist() == columns["block_z"].to_pylist() == [1, None]


def test_times_that_cannot_be_right_are_unknown() -> None:
    start = times(pa.chunked_array([["100", "100", "100", "0", "8.1E+14", None]]))
    end = times(pa.chunked_array([["150", "100", "90", "0", "8.1E+14", "5"]]))
    columns, notes = time_columns(start, end, None, 6)
    assert columns["duration_ns"].to_pylist() == [50, None, None, None, None, None]
    assert columns["start_ns"].to_pylist() == [100, 100, 100, None, None, None]
    assert {note.text.partition(":")[0].partition(" (")[0]: note.count for note in notes} == {
        "dispatches that end before they begin": 1,
        "dispatches that last 0 ns": 1,
        "timestamps lost their last digits": 1,
        "dispatches without timestamps": 2,
    }


def test_a_file_without_any_times_is_not_broken() -> None:
    nothing = times(pa.chunked_array([["0", "0"]]))
    columns, notes = time_columns(nothing, nothing, None, 2)
    assert columns["duration_ns"].null_count == 2
    assert notes == [Note("dispatches without timestamps: duration unknown", 2, severe=False)]
    assert time_columns(None, None, None, 2) == ({}, [])


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("MEMORY_COPY_HOST_TO_DEVICE", "HtoD"),
        ("CopyDeviceToHost", "DtoH"),
        ("async-copy", "async-copy"),
    ],
)
def test_copy_kinds(name: str, kind: str) -> None:
    assert copy_kind(name) == kind


# --------------------------------------------------------------------------------------------
# Passes


def test_passes_meet_by_kernel_size_and_occurrence() -> None:
    base = run(["f", "g", "f"], timeline=True)
    other = run(["g", "f", "f", "x"], counters={"C": [1, 2, 3, 4]})
    joined = join_passes(base, [other])
    assert joined.passes[0].counters["C"].tolist() == [2, 1, 3]
    assert joined.notes[-1].count == 1


def test_another_size_is_another_dispatch() -> None:
    base = run(["f"], grid=64, timeline=True)
    joined = join_passes(base, [run(["f"], counters={"C": [1]}, grid=128)])
    assert np.isnan(joined.passes[0].counters["C"]).all()


def test_sizes_that_nobody_knows_do_not_separate() -> None:
    base = run(["f"], grid=-1, timeline=True)
    joined = join_passes(base, [run(["f"], counters={"C": [1]})])
    assert joined.passes[0].counters["C"].tolist() == [1]


@given(st.lists(st.sampled_from("fgh"), max_size=12), st.randoms())
def test_a_pass_that_reorders_kernels_finds_them_all(names: list[str], rng: object) -> None:
    shuffled = list(names)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    base = run(names, timeline=True)
    other = run(shuffled, counters={"C": list(range(len(shuffled)))})
    joined = join_passes(base, [other])
    found = joined.passes[0].counters["C"].tolist()
    assert sorted(found) == list(range(len(names)))
    assert [shuffled[int(place)] for place in found] == names
    assert joined.notes == []


def test_the_same_counters_are_processes_others_passes() -> None:
    one = run(["f"], counters={"GRBM_COUNT": [1], "A": [1], "B": [1], "C": [1]}, path="1")
    # Multiplexing left a gap: still the same collection.
    two = run(["f"], counters={"GRBM_COUNT": [1], "A": [2], "B": [2]}, path="2")
    joined, timeline = joined_runs([one, two])
    assert ([len(each) for each in joined], timeline) == ([1, 1], False)
    # GRBM counters are in every pass.
    other = run(["f"], counters={"GRBM_COUNT": [1], "D": [3]}, path="3")
    joined, _ = joined_runs([one, two, other])
    assert [len(each) for each in joined] == [2]
    traced = run(["f"], timeline=True, path="4")
    joined, timeline = joined_runs([one, other, traced])
    assert ([len(each) for each in joined], timeline) == ([1], True)
    assert joined[0].path == Path("4")


def test_processes_stack_with_gaps() -> None:
    one = run(["f"], counters={"A": [1]}, device=[3])
    two = run(["g", "h"], path="b")
    both = stacked([one, two])
    assert both.columns["kernel_name"].to_pylist() == ["f", "g", "h"]
    assert both.columns["device"].to_pylist() == [3, None, None]
    assert both.passes[0].counters["A"].tolist()[0] == 1
    assert np.isnan(both.passes[0].counters["A"][1:]).all()


def test_pivot() -> None:
    found = pivot(
        np.array([7, 7, 5, 7]),
        pa.array(["A", "B", "A", "A"]),
        np.array([1.0, 2.0, 3.0, 4.0]),
        np.array([100, 100, 50, 900]),
        np.array([10.0, 10.0, 11.0, 12.0]),
        "file",
    )
    assert found.first.tolist() == [0, 2]
    first, second = found.passes
    assert first.counters["A"].tolist() == [1, 3]
    assert first.duration_ns.tolist() == [10, 11]
    assert second.counters["A"].tolist()[0] == 4
    assert np.isnan(second.counters["A"][1])
    assert found.notes[0].count == 1


def test_pivot_without_times_counts_repeats() -> None:
    found = pivot(
        np.array([1, 1, 1]), pa.array(["A", "A", "B"]), np.array([1.0, 2.0, 3.0]), None, None, "f"
    )
    assert [one.counters["A"].tolist() for one in found.passes] == [[1], [2]]


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from("ABC"), st.integers(0, 2)),
        unique=True,
        max_size=30,
    )
)
def test_pivot_keeps_every_value(rows: list[tuple[int, str, int]]) -> None:
    values = np.arange(len(rows), dtype=float)
    found = pivot(
        np.array([row[0] for row in rows], dtype=np.int64),
        pa.array([row[1] for row in rows], pa.string()),
        values,
        np.array([row[2] for row in rows], dtype=np.int64),
        None,
        "f",
    )
    kept = [
        float(one)
        for each in found.passes
        for column in each.counters.values()
        for one in column
        if not np.isnan(one)
    ]
    assert sorted(kept) == values.tolist()


# --------------------------------------------------------------------------------------------
# Occupancy


def occupancy(
    gpu: Gpu, *, threads: int, vgprs: int, agprs: int | None, lds: int = 0
) -> dict[str, float]:
    one = run(["f"], timeline=True, block_x=[threads])
    known = {
        "registers_per_thread": vgprs,
        "shared_memory_static_bytes": lds,
        "accumulation_registers_per_thread": agprs,
    }
    one.columns |= {name: np.array([value], dtype=float) for name, value in known.items()}
    one.columns["grid_x"] = pa.array([1040])
    one.gpus = {None: gpu}
    row = complete(one)[0].to_pylist()[0]
    return {
        "pct": row["theoretical_occupancy_pct"],
        "registers": row["occupancy_limit_registers"],
        "lds": row["occupancy_limit_shared_memory"],
        "waves": row["waves_per_sm"],
    }


MI210 = Gpu(arch="gfx90a", cu=104)
MI100 = Gpu(arch="gfx908", cu=120)


def test_registers_shared_with_accumulation() -> None:
    # 128 + 384 = 512 of 512 registers: one wave a SIMD, one workgroup of 4 waves.
    found = occupancy(MI210, threads=256, vgprs=128, agprs=384, lds=65536)
    assert found == {"pct": 12.5, "registers": 1, "lds": 1, "waves": 10}
    # 84 registers are given out as 88: five waves a SIMD.
    assert occupancy(MI210, threads=64, vgprs=84, agprs=0)["registers"] == 20
    # Without the accumulation registers nothing is said.
    assert occupancy(MI210, threads=64, vgprs=84, agprs=None)["pct"] is None


def test_registers_of_their_own() -> None:
    # 65 registers are given out as 68 of 256: three waves a SIMD, whatever the other file holds.
    assert occupancy(MI100, threads=64, vgprs=65, agprs=32)["registers"] == 12
    assert occupancy(MI100, threads=64, vgprs=8, agprs=0)["pct"] == 100


def test_lds_limits() -> None:
    found = occupancy(MI210, threads=256, vgprs=8, agprs=0, lds=20_000)
    # 65,536 / 20,000: three workgroups of four waves, 12 of 32.
    assert (found["lds"], found["pct"]) == (3, 37.5)
    # gfx950 has 160 KiB.
    assert (
        occupancy(Gpu(arch="gfx950", cu=256), threads=256, vgprs=8, agprs=0, lds=20_000)["lds"] == 8
    )


def test_no_occupancy_is_made_up() -> None:
    for arch in ("gfx1100", "gfx936", None):
        assert occupancy(Gpu(arch=arch), threads=64, vgprs=8, agprs=0)["pct"] is None


def test_two_kinds_of_gpu_in_one_run() -> None:
    one = run(
        ["f", "g"],
        counters={"SQ_BUSY_CU_CYCLES": [52, 60], "GRBM_GUI_ACTIVE": [1, 1]},
        device=[0, 1],
    )
    one.gpus = {0: MI210, 1: MI100}
    rows = complete(one)[0].to_pylist()
    assert [row["sm_count"] for row in rows] == [104, 120]
    assert [row["cu_busy_pct"] for row in rows] == [50, 50]


def test_half_an_answer_is_no_compute_figure() -> None:
    # VALU alone says nothing about a kernel that may fill the matrix units.
    counters = {"SQ_ACTIVE_INST_VALU": [52], "GRBM_GUI_ACTIVE": [1]}
    one = run(
        ["f"], counters={name: [float(v) for v in values] for name, values in counters.items()}
    )
    one.gpus = {None: MI210}
    row = complete(one)[0].to_pylist()[0]
    assert (row["pipe_valu_pct"], row["sm_busy_pct"]) == (50, 50)
    assert row["sm_throughput_pct"] is None


# --------------------------------------------------------------------------------------------
# Devices


@pytest.mark.parametrize(
    ("version", "arch"),
    [
        (90010, "gfx90a"),
        (90402, "gfx942"),
        (90500, "gfx950"),
        (110001, "gfx1101"),
        (90008, "gfx908"),
        (0, None),
        ("", None),
    ],
)
def test_gfx_from_its_number(version: object, arch: str | None) -> None:
    assert fields.gfx_of_version(version) == arch


def test_gfx_from_text() -> None:
    assert fields.gfx("gfx90a:sramecc+:xnack-") == "gfx90a"
    assert fields.gfx("AMD EPYC") is None


def test_rocminfo_in_both_forms() -> None:
    text = (
        "Agent 1\n  Name:                    AMD EPYC\n  Node: 0\nAgent 3\n*******\n"
        "  Name:                    gfx90a\n  Marketing Name:          AMD Instinct MI210\n"
        "  Node:                    2\n  Chip ID:                 29711(0x740f)\n"
        "  Compute Unit:            104\n  Max Clock Freq. (MHz):   1700\n"
        "    Name:                    amdgcn-amd-amdhsa--gfx90a\n"
    )
    flat = {
        "Agent1.Name": "AMDEPYC", "Agent3.Name": "gfx90a", "Agent3.MarketingName": "AMDInstinctMI210",
        "Agent3.Node": "2", "Agent3.ChipID": "29711(0x740f)", "Agent3.ComputeUnit": "104",
        "Agent3.MaxClockFreq.(MHz)": "1700", "Agent3.PoolInfo.Pool1.Size": "64",
    }  # fmt: skip
    expected = [("AMD Instinct MI210", "gfx90a", 29711, 104, 2, 1700.0)]
    for found in (rocminfo.rocminfo_text(text), rocminfo.rocminfo_mapping(flat)):
        assert [
            (one.name, one.arch, one.pci_device_id, one.cu, one.index, one.sclk_mhz)
            for one in found
        ] == expected


def test_a_note_is_said_once() -> None:
    gathered = amd_run.recording(
        "x", "timeline",
        [amd_run.Part(Path("a"), notes=[Note("n", 2), Note("n", 3), Note("n", 1, severe=False)])],
        [],
    )  # fmt: skip
    assert gathered.sources[0].notes == (Note("n", 5), Note("n", 1, severe=False))


# --------------------------------------------------------------------------------------------
# A device that the user names


def test_the_named_device_completes_what_the_file_does_not_say() -> None:
    named = gpus.of_name("MI300X")
    assert named is not None
    assert (named.arch, named.cu, named.xcd) == ("gfx942", 304, 8)
    assert Gpu().completed(named).arch == "gfx942"
    partly = Gpu(arch="gfx942", cu=38).completed(named)
    assert (partly.cu, partly.xcd) == (38, 8)
    # What the file says of another kind of GPU is not mixed with it.
    assert Gpu(arch="gfx90a", cu=104).completed(named) == Gpu(arch="gfx90a", cu=104)
    assert gpus.of_name("H100 SXM5") is None
    assert gpus.of_name("no such GPU") is None
    assert gpus.of_name(None) is None


def test_hygons_architecture_is_completed_by_name() -> None:
    unnamed = Gpu(arch=gpus.HYGON)
    assert unnamed.info().vendor == "hygon"
    assert unnamed.info().gfx_target is None
    named = unnamed.completed(gpus.of_name("BW1000"))
    assert (named.arch, named.cu, named.info().vendor) == ("gfx936", 80, "hygon")
    assert unnamed.completed(gpus.of_name("MI300X")) == unnamed


def test_formulas_work_for_a_named_device() -> None:
    counters = {"SQ_ACTIVE_INST_VALU": [400.0], "GRBM_GUI_ACTIVE": [800.0]}
    unknown, _, _ = complete(run(["k"], counters=counters))
    assert unknown["pipe_valu_pct"].to_pylist() == [None]
    # 800 cycles are 100 on each of 8 dies; 400 of 100 x 304.
    known, _, _ = complete(run(["k"], counters=counters), gpus.of_name("MI300X"))
    assert known["pipe_valu_pct"].to_pylist() == [pytest.approx(100 * 400 / (100 * 304))]
    assert known["warp_size"].to_pylist() == [64]


def test_the_stated_wave_size_wins_and_nonsense_is_unknown() -> None:
    table, _, _ = complete(run(["a", "b"], warp_size=[32.0, None]), Gpu(arch="gfx1100"))
    assert table["warp_size"].to_pylist() == [32, None]
    table, _, _ = complete(run(["a"]), Gpu(arch="gfx1100"))
    assert table["warp_size"].to_pylist() == [32]
    assert complete(run(["a"]))[0]["warp_size"].to_pylist() == [None]
