"""The printed tables of rocprof-compute analyze."""

from pathlib import Path

import pytest

import traceroof
from traceroof.core.recording import Run
from traceroof.diagnosis.diagnose import diagnose


def analysis(workload: str, mean: float, occupancy: float, grid: float = 256) -> str:
    """One analysis as the tool prints it; a long kernel name goes on in a second line."""
    return f"""\
$ rocprof-compute analyze -p workloads/{workload} --dispatch 1
Analysis mode = cli
--------------------------------------------------------------------------------
0. Top Stats
0.1 Top Kernels
╒════╤════════════════════╤═════════╤══════════════╤══════════════╤════════╕
│    │ Kernel_Name        │   Count │      Sum(ns) │     Mean(ns) │    Pct │
╞════╪════════════════════╪═════════╪══════════════╪══════════════╪════════╡
│  0 │ yax(double*, int,  │    1.00 │ {mean:12.2f} │ {mean:12.2f} │ 100.00 │
│    │ int) [clone .kd]   │         │              │              │        │
╘════╧════════════════════╧═════════╧══════════════╧══════════════╧════════╛        0.2 Dispatch List
╒════╤═══════════════╤══════════╕
│    │   Dispatch_ID │   GPU_ID │
╞════╪═══════════════╪══════════╡
│  0 │             1 │        2 │
╘════╧═══════════════╧══════════╛
--------------------------------------------------------------------------------
2. System Speed-of-Light
2.1 Speed-of-Light
│ Metric_ID   │ Metric              │    Avg │ Unit       │    Peak │   Pct of Peak │
│ 2.1.15      │ Wavefront Occupancy │ 103.00 │ Wavefronts │ 3328.00 │ {occupancy:13.2f} │
--------------------------------------------------------------------------------
7. Wavefront
7.1 Wavefront Launch Stats
│ Metric_ID   │ Metric           │    Avg │    Min │    Max │ Unit       │
│ 7.1.0       │ Grid Size        │ {grid} │ {grid} │ {grid} │ Work items │
│ 7.1.1       │ Workgroup Size   │  64.00 │  64.00 │  64.00 │ Work items │
│ 7.1.2       │ Total Wavefronts │   4.00 │   4.00 │   4.00 │ Wavefronts │
--------------------------------------------------------------------------------
17. L2 Cache
17.1 Speed-of-Light
│ Metric_ID   │ Metric                        │    Avg │ Unit   │
│ 17.1.2      │ Hit Rate                      │  93.45 │ Pct    │
│ 17.1.3      │ L2-Fabric Read BW             │ 100.00 │ Gb/s   │
│ 17.1.4      │ L2-Fabric Write and Atomic BW │   0.00 │ Gb/s   │

some text of the page between two analyses
"""


COMPARED = """\
rocprof-compute analyze -p workloads/problem/MI300A_A1 -p workloads/solution/MI300A_A1 --dispatch 1
0. Top Stats
2. System Speed-of-Light
2.1 Speed-of-Light
│ Metric_ID   │ Metric              │   Avg │ Avg                 │   Abs Diff │ Unit       │    Peak │ Peak          │   Pct of Peak │ Pct of Peak       │
│ 2.1.15      │ Wavefront Occupancy │ 15.82 │ 3444.16 (21670.92%) │    3428.34 │ Wavefronts │ 7296.00 │ 7296.0 (0.0%) │          0.22 │ 47.21 (21677.65%) │
"""


def _read(folder: Path, text: str) -> Run:
    path = folder / "analysis.txt"
    path.write_text(text)
    return traceroof.read(path)


def test_one_analysis(tmp_path: Path) -> None:
    """GIVEN an analysis of one dispatch WHEN read THEN name, time, launch and figures."""
    run = _read(tmp_path, analysis("problem/MI200", 69_513_618.0, 3.1))
    (row,) = run.kernels.to_dict("records")
    assert row["kernel_name"] == "yax(double*, int, int) [clone .kd]"
    assert (row["duration_ns"], row["launch_count"]) == (69_513_618, 1)
    # 256 work items in workgroups of 64.
    assert (row["grid_x"], row["block_x"]) == (4, 64)
    assert (row["achieved_occupancy_pct"], row["l2_hit_pct"]) == (3.1, 93.45)
    # 100 Gbyte/s over 69,513,618 ns.
    assert row["dram_bytes"] == row["dram_read_bytes"] == 6_951_361_800
    # 3,328 waves are 104 compute units of 32: an MI210, or one half of an MI250.
    assert run.recording.devices[0].sm_count == 104
    raw = run.recording.raw_metrics.to_pylist()
    assert [(one["metric"], one["value"]) for one in raw] == [("Total Wavefronts", 4.0)]


def test_several_analyses(tmp_path: Path) -> None:
    """GIVEN two programs and one of them again WHEN read THEN two rows, told apart by program."""
    text = analysis("problem/MI200", 1000.0, 3.1) + analysis("solution/MI200", 500.0, 60.0)
    run = _read(tmp_path, text + analysis("solution/MI200", 500.0, 60.0))
    rows = run.kernels
    assert list(rows.process_name) == ["problem/MI200", "solution/MI200"]
    assert list(rows.duration_ns) == [1000, 500]
    assert len(diagnose(run).kernels) == 2


def test_a_comparison_has_two_sides(tmp_path: Path) -> None:
    """GIVEN analyze with two paths WHEN read THEN a row for each side, the change left out."""
    rows = _read(tmp_path, COMPARED).kernels
    assert list(rows.achieved_occupancy_pct) == [0.22, 47.21]
    assert list(rows.process_name) == ["problem/MI300A_A1", "solution/MI300A_A1"]
    assert rows.duration_ns.isna().all()


def test_metrics_of_several_kernels_are_no_kernels_own(tmp_path: Path) -> None:
    """GIVEN two top kernels WHEN read THEN times, and a severe note on what is left out."""
    text = analysis("problem/MI200", 1000.0, 3.1).replace(
        "╘════╧════════════════════╧",
        "│  1 │ other(int) │ 2.00 │ 8.00 │ 4.00 │ 1.00 │\n╘════╧═══╧",
        1,
    )
    run = _read(tmp_path, text)
    assert list(run.kernels.duration_ns) == [1000, 4]
    assert run.kernels.achieved_occupancy_pct.isna().all()
    assert any(note.severe and "several kernels" in note.text for note in run.recording.notes)


@pytest.mark.corpus
def test_corpus(corpus: Path) -> None:
    """GIVEN pages of a real tutorial WHEN read THEN the times that the page prints."""
    folder = corpus / "known_faults" / "amd__HPCTrainingExamples"
    rows = traceroof.read(folder / "1-LaunchParameters.txt").kernels
    assert 751_342_314 in set(rows.duration_ns.dropna())
    for path in sorted(folder.glob("*.txt")):
        run = traceroof.read(path)
        assert len(run.kernels) >= 2
        printed = path.read_text()
        for duration in run.kernels.duration_ns.dropna():
            assert f"{int(duration)}." in printed or f"{int(duration) - 1}.5" in printed


SPEED_OF_LIGHT = """\
0. Top Stats
0.1 Top Kernels
│    │ Kernel_Name │   Count │     Sum(ns) │    Mean(ns) │    Pct │
│  0 │ mine(int)   │    1.00 │ 10000000.00 │ 10000000.00 │ 100.00 │
2. System Speed-of-Light
2.1 Speed-of-Light
│ Metric_ID │ Metric             │    Avg │ Unit │    Peak │ Pct of Peak │
│ 2.1.7     │ Active CUs         │  12.00 │ Cus  │  228.00 │        5.26 │
│ 2.1.9     │ VALU Utilization   │  40.00 │ Pct  │  100.00 │       40.00 │
│ 2.1.10    │ MFMA Utilization   │   1.00 │ Pct  │  100.00 │        1.00 │
│ 2.1.21    │ L2 Cache BW        │ 980.00 │ Gb/s │ 3481.60 │       28.15 │
│ 2.1.22    │ L2-Fabric Read BW  │ 700.00 │ Gb/s │ 1638.40 │ {pct:11.2f} │
│ 2.1.23    │ L2-Fabric Write BW │ 100.00 │ Gb/s │ 1638.40 │        6.10 │
7. Wavefront
7.1 Wavefront Launch Stats
│ Metric_ID │ Metric         │    Avg │    Min │    Max │ Unit       │
│ 7.1.0     │ Grid Size      │ 512.00 │ 512.00 │ 512.00 │ Work items │
│ 7.1.1     │ Workgroup Size │  32.00 │  32.00 │  32.00 │ Work items │
7.2 Wavefront Runtime Stats
│ Metric_ID │ Metric                 │     Avg │     Min │     Max │ Unit            │
│ 7.2.3     │ Wave Cycles            │ 7273.37 │ 7273.37 │ 7273.37 │ Cycles per wave │
│ 7.2.4     │ Dependency Wait Cycles │ 5526.10 │ 5526.10 │ 5526.10 │ Cycles per wave │
│ 7.2.5     │ Issue Wait Cycles      │ 8000.00 │ 8000.00 │ 8000.00 │ Cycles per wave │
"""


def test_the_speed_of_light_panel(tmp_path: Path) -> None:
    """GIVEN the system panel of an unnamed GPU WHEN read THEN pipes, bytes, peak and waits."""
    run = _read(tmp_path, SPEED_OF_LIGHT.format(pct=42.8))
    (row,) = run.kernels.to_dict("records")
    assert (row["pipe_valu_pct"], row["pipe_tensor_pct"]) == (40.0, 1.0)
    # 700 and 100 Gbyte/s over 10 ms.
    assert (row["dram_read_bytes"], row["dram_write_bytes"]) == (7e9, 1e9)
    assert (row["dram_bytes"], row["peak_dram_bytes_per_s"]) == (8e9, 1.6384e12)
    assert row["wait_dependency"] == pytest.approx(5526.1 / 7273.37)
    # A wave waits for no longer than it lives.
    assert row["wait_issue"] == 1.0
    assert row["sm_count"] == 228


def test_a_share_above_the_peak_is_of_another_peak(tmp_path: Path) -> None:
    """ROCm 6.4 prints the peak of one die of an MI300X: 303 % of it."""
    run = _read(tmp_path, SPEED_OF_LIGHT.format(pct=303.0))
    assert run.kernels["peak_dram_bytes_per_s"].isna().all()


def test_workgroups_fewer_than_compute_units_come_first(tmp_path: Path) -> None:
    found = diagnose(_read(tmp_path, SPEED_OF_LIGHT.format(pct=42.8)))
    # 16 workgroups on 228 compute units leave 93 % of them empty; memory is used 48.8 %.
    first = found.advice[0]
    assert first.topic == "small-grid"
    assert first.bound_ns == pytest.approx(0.512e7, rel=0.01)
