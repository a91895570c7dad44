"""Nsight Compute output as users' machines print it: each file stands for a kind.

The files are in ``tests/field_cases/nsight_compute``; every expected number is printed in the file
itself or is the sum of numbers printed there.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import traceroof
from traceroof.core.recording import Recording
from traceroof.errors import TraceroofError
from traceroof.ingest.detect import read as read_paths
from traceroof.report.run import operator_card

Read = Callable[[str], Recording]


@pytest.fixture
def case(root: Path) -> Read:
    """Reads a field case by its name."""
    return lambda name: read_paths([root / "tests/field_cases/nsight_compute" / name])


@pytest.fixture
def made(tmp_path: Path) -> Callable[[str], Recording]:
    """Reads a text as the content of a file."""

    def read(text: str) -> Recording:
        path = tmp_path / "made.csv"
        path.write_text(text, encoding="utf-8")
        return read_paths([path])

    return read


def column(recording: Recording, name: str) -> list[Any]:
    return list(recording.kernels[name].to_pylist())


def notes(recording: Recording) -> str:
    return "\n".join(map(str, recording.notes))


# --- locale ------------------------------------------------------------------------------------

HEADER = (
    '"ID","Process ID","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC",'
    '"Section Name","Metric Name","Metric Unit","Metric Value"\n'
)


def table(*cells: tuple[str, str, str]) -> str:
    """A details page: (metric, unit, cell) of one launch."""
    front = '"0","1","k","1","7","(1, 1, 1)","(1, 1, 1)","0","8.9","Command line profiler metrics"'
    return HEADER + "".join(f'{front},"{name}","{unit}","{cell}"\n' for name, unit, cell in cells)


def test_points_that_group_nanoseconds(case: Read) -> None:
    """GIVEN 117.344, 120.416 and 14.912 ns THEN 252,672 ns: a nanosecond has no decimals."""
    recording = case("eu_ns_only.csv")
    assert column(recording, "duration_ns") == [117_344, 120_416, 14_912]
    assert "'.' groups digits" in notes(recording)


@pytest.mark.parametrize(
    ("unit", "cell", "nanoseconds"),
    [
        ("ns", "117.344", 117_344),
        ("nsecond", "1.117.344", 1_117_344),
        ("ns", "117 344", 117_344),
        ("ns", "117\u202f344", 117_344),
        ("ns", "117,344", 117_344),
        ("us", "117.34", 117_340),
        ("us", "117,34", 117_340),
        ("ns", "117.3", 117),
    ],
)
def test_grouped_durations(
    made: Callable[[str], Recording], unit: str, cell: str, nanoseconds: int
) -> None:
    recording = made(table(("gpu__time_duration.sum", unit, cell)))
    assert column(recording, "duration_ns") == [nanoseconds]


@pytest.mark.parametrize(("ends", "wrong"), [(("23.49", "83.26"), 0), (("93.49", "83.26"), 1)])
def test_a_mean_outside_its_ends(tmp_path: Path, ends: tuple[str, str], wrong: int) -> None:
    """GIVEN 31.21 us on average and 93.49 us at least THEN a note: one of them is wrong."""
    path = tmp_path / "page.txt"
    page = (
        "[1] a@127.0.0.1\n  k(int) (63, 1, 1)x(16, 1, 1), Device 0, CC 8.9, Invocations 250\n"
        "    Section: GPU Speed Of Light Throughput\n"
        "    Metric Name Metric Unit Minimum Maximum Average\n"
        f"    Duration us {ends[0]} {ends[1]} 31.21\n"
    )
    path.write_text(page)
    found = [note for note in read_paths([path]).notes if "contradict" in note.text]
    assert sum(note.count for note in found) == wrong


@pytest.mark.parametrize("count", ["2.500", "2,500", "2\u202f500", "2500"])
def test_launches_that_a_summary_counts(tmp_path: Path, count: str) -> None:
    """GIVEN 2,500 invocations in any locale THEN so many launches, not two."""
    path = tmp_path / "summary.csv"
    path.write_text(
        '"Process ID","Process Name","Host Name","Kernel Name","Block Size","Grid Size","Device",'
        '"CC","Invocations","Section Name","Metric Name","Metric Unit","Minimum","Maximum",'
        f'"Average"\n"1","a","h","k","(1, 1, 1)","(1, 1, 1)","0","8.9","{count}","Command line '
        'profiler metrics","gpu__time_duration.sum","us","23.49","83.26","31.21"\n'
    )
    recording = read_paths([path])
    assert column(recording, "launch_count") == [2500]
    assert column(recording, "duration_ns") == [31_210]


def test_two_decimals_elsewhere_decide_against_groups(made: Callable[[str], Recording]) -> None:
    """GIVEN 41.36 % in the same file THEN the point begins decimals, of means of cycles, too."""
    recording = made(
        table(
            ("gpu__time_duration.sum", "us", "12.25"),
            ("dram__bytes_read.sum", "byte", "1,234"),
            ("dram__throughput.avg.pct_of_peak_sustained_elapsed", "%", "41.36"),
        )
    )
    assert column(recording, "dram_read_bytes") == [1234]
    assert column(recording, "duration_ns") == [12_250]
    assert recording.notes == ()


def test_what_stays_ambiguous_is_said(made: Callable[[str], Recording]) -> None:
    """GIVEN one 1.234 of a ratio and nothing else THEN it is a decimal, with a note to check."""
    recording = made(table(("smsp__inst_executed.avg.per_cycle_active", "inst/cycle", "1.234")))
    assert [note.severe for note in recording.notes if "locale" in note.text] == [True]


@pytest.mark.parametrize("blank", ["\u202f", "\u00a0", "\u2009"])
@pytest.mark.parametrize("rulers", [True, False])
def test_blanks_that_group_digits_on_a_page(tmp_path: Path, blank: str, rulers: bool) -> None:
    """GIVEN a page of a French machine, its rulers kept or lost THEN the groups are one number."""
    ruler = "    ---------------- ----- ---------\n" if rulers else ""
    path = tmp_path / "page.txt"
    path.write_text(
        "[1] app@127.0.0.1\n"
        "  k(int) (1, 1, 1)x(32, 1, 1), Context 1, Stream 7, Device 0, CC 8.9\n"
        "    Section: GPU Speed Of Light Throughput\n"
        f"{ruler}    Metric Name      Metric Unit Metric Value\n{ruler}"
        f"    Elapsed Cycles   cycle 1{blank}252{blank}672\n"
        f"    Duration         ns      117{blank}344\n{ruler}\n"
    )
    recording = read_paths([path])
    assert column(recording, "duration_ns") == [117_344]
    cycles = [one["value"] for one in recording.raw_metrics.to_pylist() if "ycles" in one["metric"]]
    assert cycles == [1_252_672]


# --- text pages --------------------------------------------------------------------------------


def test_rulers_of_two_columns(case: Read) -> None:
    """GIVEN a table in which no metric has a unit THEN its rows are read: 0 + 34,046,671."""
    assert column(case("two_column_rulers.txt"), "shared_conflicts") == [34_046_671]


def test_tables_that_have_a_name(case: Read) -> None:
    """GIVEN two tables of pipes THEN the name of each says what its figures are shares of."""
    recording = case("table_name.txt")
    assert column(recording, "pipe_fma_pct") == [86.30]
    assert column(recording, "pipe_alu_pct") == [12.00]
    assert column(recording, "pipe_fp64_pct") == [0]
    assert column(recording, "pipe_tensor_pct") == [0]
    assert column(recording, "pipe_lsu_pct") == [9.00]
    assert column(recording, "pipe_basis") == ["active"]
    assert recording.notes == ()


@pytest.mark.parametrize(
    "number",
    [
        "{n}: ",
        "{n:6d}\t",
        "{n}|",
        "{n:>4} → ",
        "{n:5d}  ",
        "L{n}: ",
        "[{n:03d}] ",
        # torchrun, srun --label, mpirun --tag-output, docker compose.
        "[rank3]: ",
        "[default0]:",
        "0: ",
        "[1,0]<stdout>:",
        "worker-1  | ",
        # grep -n of a file and with lines around, a pager, bat.
        "out/ncu.txt:{n}:",
        "{n}-",
        "{n:7d} ",
        "{n:4d}   \u2502 ",
        # Loggers and CI.
        "2024-05-01T12:00:00.{n:03d}+02:00 ",
        "[2024-05-01 12:00:{n:02d}] ",
        "2024-05-01 12:00:01,{n:03d} INFO ",
        "build\tRun ncu\t2024-05-01T12:00:00.{n:07d}Z ",
        "(train_fn pid=1234, ip=10.0.0.1) ",
        "INFO:root:",
        "# ",
    ],
)
def test_line_numbers_before_the_lines(case: Read, root: Path, tmp_path: Path, number: str) -> None:
    """GIVEN a page behind line numbers THEN it is the page without them."""
    assert column(case("numbered.txt"), "duration_ns") == [172_900]
    page = (root / "tests/field_cases/nsight_compute/table_name.txt").read_text()
    numbered = tmp_path / "page.txt"
    numbered.write_text(
        "".join(number.format(n=n) + line for n, line in enumerate(page.splitlines(True), 1))
    )
    assert read_paths([numbered]).kernels.equals(case("table_name.txt").kernels)


def test_pages_of_ranks_that_alternate_are_not_one(root: Path, tmp_path: Path) -> None:
    """GIVEN lines of two ranks in turn THEN their labels stay: two pages would become one."""
    page = (root / "tests/field_cases/nsight_compute/table_name.txt").read_text()
    lines = [line for line in page.splitlines(True) if line.strip()]
    mixed = tmp_path / "page.txt"
    mixed.write_text("".join(f"[rank{rank}]: {line}" for line in lines for rank in (0, 1)))
    kernels = read_paths([mixed]).kernels
    assert kernels["duration_ns"].to_pylist() == [None, None]
    assert [name[:7] for name in kernels["kernel_name"].to_pylist()] == ["[rank0]", "[rank1]"]


def test_the_number_of_a_launch_is_no_label(root: Path, tmp_path: Path) -> None:
    """GIVEN a table whose rows begin with their launch THEN that is no label before the lines."""
    rows = ["ID|Process ID|Kernel Name|Section Name|Metric Name|Metric Unit|Metric Value"]
    rows += [f"0|1|k(int)||gpu__time_duration.sum|ns|{length}" for length in range(100, 101)]
    rows += ["0|1|k(int)||launch__registers_per_thread|register/thread|32"] * 12
    path = tmp_path / "table.csv"
    path.write_text("\n".join(rows) + "\n")
    assert column(read_paths([path]), "duration_ns") == [100]


def test_text_and_csv_in_one_log(case: Read, root: Path, tmp_path: Path) -> None:
    """GIVEN a page and a table in one log THEN both are read, whichever comes first."""
    recording = case("mixed_text_then_csv.log")
    assert column(recording, "kernel_name") == ["text_kernel(int*, int*, int*, int)", "csv_kernel"]
    assert column(recording, "duration_ns") == [39_744, 100_250]
    assert column(recording, "dram_bytes") == [12_582_912, None]
    log = (root / "tests/field_cases/nsight_compute/mixed_text_then_csv.log").read_text()
    text, csv = log.split("$ ncu --csv ./b\n")
    turned = tmp_path / "turned.log"
    turned.write_text(csv + text)
    assert column(read_paths([turned]), "duration_ns") == [100_250, 39_744]


def test_an_impossible_occupancy(case: Read) -> None:
    """GIVEN 128 % of the warp slots in the mean THEN unknown, and the note names it."""
    recording = case("summary_occ.txt")
    assert column(recording, "achieved_occupancy_pct") == [None]
    assert column(recording, "theoretical_occupancy_pct") == [100]
    assert "sm__warps_active.avg.pct_of_peak_sustained_active of up to 128 %" in notes(recording)


# --- labels ------------------------------------------------------------------------------------


def test_labels_of_the_breakdown_tables(case: Read) -> None:
    """GIVEN the same values by label and by metric name THEN the same kernel table."""
    by_label, by_name = case("breakdown_label.csv"), case("breakdown_name.csv")
    assert by_label.kernels.equals(by_name.kernels)
    assert column(by_label, "pipe_fma_pct") == [84]
    assert column(by_label, "pipe_basis") == ["elapsed"]


# --- source page -------------------------------------------------------------------------------


def test_lines_and_their_instructions_are_counted_once(case: Read) -> None:
    """GIVEN source lines and below each its instructions THEN 3 x 4,096, not twice that."""
    recording = case("source_cuda_sass.csv")
    assert column(recording, "instructions") == [12_288]
    raw = recording.raw_metrics.to_pylist()
    samples = [one["value"] for one in raw if one["metric"] == "smsp__pcsamp_sample_count"]
    assert samples == [120 + 60 + 20]


@pytest.mark.parametrize("page", ["text", "csv"])
def test_a_source_page_behind_another(tmp_path: Path, page: str) -> None:
    """GIVEN a page of a kernel and its source page in one log THEN both are of one launch."""
    front = table(("gpu__time_duration.sum", "us", "31.21"))
    if page == "text":
        front = (
            "  k (64, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 8.9\n"
            "    Section: GPU Speed Of Light Throughput\n"
            "    ----------------- ----------- ------------\n"
            "    Metric Name       Metric Unit Metric Value\n"
            "    ----------------- ----------- ------------\n"
            "    Duration                   us        31.21\n"
            "    ----------------- ----------- ------------\n"
        )
    source = (
        '"Kernel Name","k"\n'
        '"#","Address","Source","# Samples","Instructions Executed"\n'
        '"0","0x10","LDG","10","4096"\n"1","0x20","EXIT","20","4096"\n'
    )
    path = tmp_path / "both.log"
    path.write_text(f"{front}\n{source}")
    recording = read_paths([path])
    assert column(recording, "duration_ns") == [31_210]
    assert column(recording, "instructions") == [8192]


# --- reasons -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("err_driver.log", "Profiling failed because a driver resource was unavailable"),
        ("err_launchfailed.txt", "LaunchFailed"),
    ],
)
def test_the_reason_that_the_log_gives(case: Read, name: str, reason: str) -> None:
    with pytest.raises(TraceroofError, match=reason):
        case(name)


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("==ERROR== Cuda driver is not compatible with Nsight Compute.\n", "Cuda driver is not"),
        ("Traceback (most recent call last):\n  File \"a.py\"\nImportError: no torch\n",
         "ImportError: no torch"),
        ("torch.OutOfMemoryError: CUDA out of memory.\n==ERROR== An error occurred\n",
         "CUDA out of memory"),
        ("Segmentation fault (core dumped)\n", "Segmentation fault"),
        ("CUDA error: invalid device function (err_no=98)\n", "invalid device function"),
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n", "not permitted"),
        ("", "--kernel-name"),
    ],
)  # fmt: skip
def test_reasons_come_before_guesses(
    made: Callable[[str], Recording], log: str, reason: str
) -> None:
    with pytest.raises(TraceroofError) as caught:
        made(f"==PROF== Connected to process 1 (/a)\n{log}==WARNING== No kernels were profiled.\n")
    assert reason in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("==ERROR== Cuda driver is not compatible with Nsight Compute\n", "Cuda driver is not"),
        ("Error: no such metric\n==ERROR== Failed to find metric sm__foo\n", "Failed to find metric"),
        ("==ERROR== An error occurred while trying to profile.\n==ERROR== Another tool is running\n",
         "Another tool is running"),
        # The header of a table, and the reason why no row follows.
        (HEADER + "==ERROR== LaunchFailed\n", "LaunchFailed"),
    ],
)  # fmt: skip
def test_errors_that_stand_alone(made: Callable[[str], Recording], log: str, reason: str) -> None:
    """GIVEN errors of ncu without any line of its progress THEN they are the reason."""
    with pytest.raises(TraceroofError, match=reason):
        made(log)


def test_the_vendor_in_most_launches(root: Path) -> None:
    """GIVEN 9 of 10 launches on which the vendor agrees THEN it does not say otherwise, and each
    sentence keeps its own estimate: 70 % achieved with 30 %."""
    path = root / "tests/field_cases/nsight_compute/vendor_pairing.csv"
    (kernel,) = traceroof.diagnose(path).kernels
    assert kernel.disagreements == ()
    (occupancy,) = [one for one in kernel.vendor if one.rule == "AchievedOccupancy"]
    assert occupancy.speedup_pct == 30
    assert "(70.0%)" in occupancy.text


def test_variants_of_one_name(root: Path) -> None:
    """GIVEN one name and shape with 32 and 45 registers THEN two kernels, 90 and 70 us."""
    path = root / "tests/field_cases/nsight_compute/merged_variants.csv"
    kernels = traceroof.diagnose(path).kernels
    assert [(one.metrics["registers_per_thread"], one.time_ns) for one in kernels] == [
        (45, 90_000),
        (32, 70_000),
    ]


@pytest.mark.parametrize(
    ("metric", "unit"),
    [
        ("launch__registers_per_thread", "register/thread"),
        ("launch__shared_mem_per_block_static", "byte/block"),
        ("launch__shared_mem_per_block_dynamic", "byte/block"),
        ("launch__cluster_size", "block"),
    ],
)
def test_every_launch_constant_splits_a_group(
    made: Callable[[str], Recording], tmp_path: Path, metric: str, unit: str
) -> None:
    """GIVEN one name and shape with 1 and 2 of a constant of the launch THEN two kernels."""
    text = table(("gpu__time_duration.sum", "us", "10"), (metric, unit, "1"))
    second = table(("gpu__time_duration.sum", "us", "20"), (metric, unit, "2"))
    made(text + second.removeprefix(HEADER).replace('"0","1"', '"1","1"'))
    kernels = traceroof.diagnose(tmp_path / "made.csv").kernels
    assert [one.time_ns for one in kernels] == [20_000, 10_000]


def test_durations_of_nothing(made: Callable[[str], Recording]) -> None:
    """GIVEN nothing but durations of 0 ns THEN they are unknown: a kernel takes time."""
    recording = made(table(("gpu__time_duration.sum", "ns", "0")))
    assert column(recording, "duration_ns") == [None]
    assert [note.severe for note in recording.notes if "no time at all" in note.text] == [True]


def test_ranges_are_workloads_of_their_own(root: Path) -> None:
    """GIVEN two results called "range" in two NVTX ranges THEN two workloads, decode leaning on
    memory: 61 % of DRAM, 8 % of compute."""
    path = root / "tests/field_cases/nsight_compute/range_two_nvtx.csv"
    kernels = {one.kernel: one for one in traceroof.diagnose(path).kernels}
    assert set(kernels) == {"(range prefill)", "(range decode)"}
    assert kernels["(range decode)"].primary_class == "memory-leaning"
    assert {one.category for one in kernels.values()} == {"other"}


# --- what a verdict may rest on ------------------------------------------------------------------


def diagnosed(root: Path, name: str) -> Any:
    return traceroof.diagnose(root / "tests/field_cases/nsight_compute" / name)


def test_rates_without_a_duration(root: Path) -> None:
    """GIVEN FADD 100, FMUL 12, 2 FFMA 800 a cycle at 2.4 GHz and no duration THEN 2.19 TFLOP/s of
    9,216 a cycle, 22.1; and 98 GB/s of 32 bytes at 13.79 GHz, 441."""
    (kernel,) = diagnosed(root, "roofline_only.csv").kernels
    assert kernel.metrics["flops_per_s"] == pytest.approx(912 * 2.4e9)
    assert kernel.metrics["flop_peak_per_s"] == pytest.approx(9216 * 2.4e9)
    assert kernel.metrics["dram_pct"] == pytest.approx(100 * 98 / (32 * 13.79))
    roof = kernel.roofline
    assert roof["achieved_flops_per_s"] == pytest.approx(2.1888e12)
    assert roof["intensity"] == pytest.approx(2.1888e12 / 98e9)
    assert (roof["flops"], roof["bytes"], roof["t_min_ns"]) == (None, None, None)
    # min(9216 x 2.4e9, 22.335 x 441.28e9) FLOP/s is the roof there.
    assert roof["utilisation"] == pytest.approx(2.1888e12 / (2.1888e12 / 98e9 * 32 * 13.79e9))


@pytest.mark.parametrize(
    ("unit", "clock", "names"),
    [
        ("1/ns", "", "smsp__sass_thread_inst_executed_op_{}_pred_on.sum.per_second"),
        ("inst/ns", "", "sm__sass_thread_inst_executed_op_{}_pred_on.sum.per_second"),
        (
            "inst/cycle",
            "1.00",
            "smsp__sass_thread_inst_executed_op_{}_pred_on.sum.per_cycle_elapsed",
        ),
    ],
)
@pytest.mark.parametrize("kind", ["f", "d"])
def test_rates_by_metric_name(
    made: Callable[[str], Recording], unit: str, clock: str, names: str, kind: str
) -> None:
    """GIVEN ADD 100, MUL 12, FMA 400 a ns and no duration THEN 912 GFLOP/s."""
    cells = [
        (names.format(f"{kind}{name}"), unit, figure)
        for name, figure in (("add", "100"), ("mul", "12"), ("fma", "400"))
    ]
    cells += [("sm__cycles_elapsed.avg.per_second", "Ghz", clock)] if clock else []
    precision = {"f": "fp32", "d": "fp64"}[kind]
    assert column(made(table(*cells)), f"rate_{precision}_flops_per_s") == [pytest.approx(912e9)]
    timed = made(table(*cells, ("gpu__time_duration.sum", "us", "10")))
    assert column(timed, f"flop_{precision}") == [pytest.approx(9.12e6)]


def test_rates_are_taken_only_where_no_duration_is(root: Path, tmp_path: Path) -> None:
    """GIVEN the same with 10 us THEN operations, and no rate of the report's own."""
    text = (root / "tests/field_cases/nsight_compute/roofline_only.csv").read_text()
    front = '"0","11","a.out","127.0.0.1","my_gemm","1","7","(256, 1, 1)","(32, 16, 1)","0","12.0"'
    path = tmp_path / "timed.csv"
    path.write_text(text + f'{front},"GPU Speed Of Light Throughput","","Duration","us","10"\n')
    kernels = read_paths([path]).kernels
    assert kernels["flop_fp32"].to_pylist() == [pytest.approx(912 * 2.4e9 * 1e-5)]
    assert kernels["rate_fp32_flops_per_s"].to_pylist() == [None]


def test_memory_at_its_wall_of_unknown_level(root: Path) -> None:
    """GIVEN memory at 93 % and nothing of DRAM THEN memory-bound, and what to collect."""
    found = diagnosed(root, "mem_wall_only.csv")
    assert found.kernels[0].primary_class == "memory-bound"
    assert [one.rule for one in found.fired()] == ["memory-at-wall"]
    # The section that holds gpu__dram_throughput.
    assert "--section SpeedOfLight" in found.fired()[0].fix


@pytest.mark.parametrize("shape", [",", " (1, 1, 1)x(1, 1, 1),"])
def test_no_rule_on_kernels_judges_a_range(root: Path, tmp_path: Path, shape: str) -> None:
    """GIVEN results of ranges THEN they have a class, no finding, and a note says why."""
    found = diagnosed(root, "range_two_nvtx.csv")
    assert found.fired() == ()
    assert not [one for one in found.not_evaluable() if one.scope == "kernel"]
    assert any("2 results of ranges" in note for note in found.notes)
    page = tmp_path / "page.txt"
    page.write_text(
        f"[1] a@127.0.0.1\n  range{shape} Context 1, Stream 7, Device 0, CC 8.0\n"
        "    Section: GPU Speed Of Light Throughput\n"
        "    ----------------- ----------- ------------\n"
        "    Metric Name       Metric Unit Metric Value\n"
        "    ----------------- ----------- ------------\n"
        "    Memory Throughput           %        12.15\n"
        "    Duration                   ms        31.21\n"
        "    Compute Throughput          %         4.66\n"
        "    ----------------- ----------- ------------\n"
    )
    of_text = traceroof.diagnose(page)
    assert ([one.kernel for one in of_text.kernels], of_text.fired()) == (["(range)"], ())


def test_an_average_is_called_one(root: Path) -> None:
    """GIVEN a summary of 250 launches, 23.49 to 83.26 us, 31.21 on average THEN a mean with its
    ends, not a median."""
    path = root / "tests/field_cases/nsight_compute/summary_occ.txt"
    kernels = read_paths([path]).kernels
    assert kernels["shortest_launch_ns"].to_pylist() == [pytest.approx(23_490)]
    assert kernels["longest_launch_ns"].to_pylist() == [pytest.approx(83_260)]
    (kernel,) = traceroof.diagnose(path).kernels
    (launches,) = [
        one for one in operator_card.sections(kernel, ()) if one.title.startswith("Launches")
    ]
    assert {one.label: one.text for one in launches.lines}["per launch"] == (
        "31.2 µs (mean), 23.5 µs to 83.3 µs"
    )


def test_tables_of_sections_that_users_share(made: Callable[[str], Recording]) -> None:
    """GIVEN the tables of the sections Memory Check and Frame Buffer Partition THEN their labels
    are the metrics that the section files name: 64 MB read, 2,000 sectors of 500 requests."""
    cells = [
        ("Frame Buffer Partition", "Read Bytes", "Mbyte", "64"),
        ("Frame Buffer Partition", "Write Sectors", "sector", "1000"),
        ("Memory Check", "L1 Cache Request", "", "500"),
        ("Memory Check", "L1 Cache Sector", "sector", "2000"),
    ]
    front = '"0","1","k","1","7","(1, 1, 1)","(1, 1, 1)","0","8.9"'
    rows = [f'{front},"{one}","{name}","{unit}","{cell}"\n' for one, name, unit, cell in cells]
    recording = made(HEADER + "".join(rows))
    assert column(recording, "dram_read_bytes") == [64_000_000]
    assert column(recording, "dram_write_bytes") == [32_000]
    assert column(recording, "global_load_requests") == [500]
