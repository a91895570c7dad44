"""Nsight Compute's CSV pages: every layout, what they measure, and what is refused."""

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.parsers.ncu_fixtures import (
    COMMAND_LINE,
    LOCALES,
    PREAMBLE,
    SUMMARY,
    VARIANTS,
    Launch,
    Metric,
    Rule,
    details,
    line,
    raw,
    summary,
)
from traceroof.core.kernel_table import COLUMNS, launches, total_time_ns
from traceroof.core.recording import Recording
from traceroof.errors import TraceroofError
from traceroof.parser import HEAD_BYTES, Options, silent
from traceroof.parsers import nsight_compute, nsight_compute_text
from traceroof.parsers.nsight.formulas import book, parse_formula
from traceroof.parsers.nsight.launch_identity import NO_NAME
from traceroof.parsers.nsight.metrics import metric_name
from traceroof.parsers.nsight.numbers import unit

PARSER = nsight_compute.PARSER


SOL = "GPU Speed Of Light Throughput"
ROOFLINE = "GPU Speed Of Light Roofline Chart"
PCT = "pct_of_peak_sustained_elapsed"

Reader = Callable[..., Recording]


@pytest.fixture
def read(tmp_path: Path) -> Reader:
    """Read text or bytes as a file, after checking that the parser claims it."""

    def read_file(
        content: str | bytes, encoding: str = "utf-8", name: str = "out.csv"
    ) -> Recording:
        path = tmp_path / name
        data = content if isinstance(content, bytes) else content.encode(encoding)
        path.write_bytes(data)
        assert PARSER.recognises(data[:HEAD_BYTES], path) > 0
        return PARSER.read(path, silent, Options())

    return read_file


def refusal(tmp_path: Path, content: str | bytes, name: str = "out.csv") -> TraceroofError:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(TraceroofError) as caught:
        PARSER.read(path, silent, Options())
    return caught.value


def rows(recording: Recording) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = recording.kernels.to_pylist()
    return found


def row(recording: Recording) -> dict[str, Any]:
    [only] = rows(recording)
    return only


def notes(recording: Recording) -> list[str]:
    return [str(note) for note in recording.notes]


def severe(recording: Recording) -> list[str]:
    return [str(note) for note in recording.notes if note.severe]


def m(label: str, unit: str, value: str, section: str = COMMAND_LINE, body: str = "") -> Metric:
    is_number = re.fullmatch(r"-?\d+(\.\d+)?", value) is not None
    return Metric(label, unit, Decimal(value) if is_number else value, section, body)


DURATION = m("gpu__time_duration.sum", "ns", "21058944")
RATE = m("Memory Throughput", "byte/s", "196456177859.63", "Memory Workload Analysis")
SHARE = m("Memory Throughput", "%", "61.84", SOL)


# --- layouts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", sorted(VARIANTS))
@pytest.mark.parametrize("ragged", [True, False])
def test_every_layout_of_the_details_page(read: Reader, variant: str, ragged: bool) -> None:
    rule = Rule("SpeedOfLight", "SOLBottleneck", "OPT", 'Look at "this", then\nthat, and go.')
    one = Launch([SHARE, RATE, DURATION], [rule], name="f<int, float>(int, float)", id=0)
    two = Launch([SHARE, DURATION], name="g", id=1)

    recording = read(details([one, two], variant, ragged=ragged))

    first, second = rows(recording)
    assert first["kernel_name"] == "f<int, float>(int, float)"
    assert first["duration_ns"] == 21_058_944
    assert first["memory_throughput_pct"] == 61.84
    # dram rate x duration: 196456177859.63 x 0.021058944 s
    assert first["dram_bytes"] == pytest.approx(196456177859.63 * 0.021058944, rel=1e-12)
    assert (first["process_id"], first["launch_id"], first["stream"]) == (4242, 0, 7)
    assert second["kernel_name"] == "g"
    assert recording.time_basis == "counter-tool"
    has_shape = "Grid Size" in VARIANTS[variant]
    assert (first["grid_x"], first["block_x"]) == ((1024, 256) if has_shape else (None, None))
    if "Rule Name" in VARIANTS[variant]:
        [verdict] = recording.verdicts.to_pylist()
        assert verdict["text"] == 'Look at "this", then\nthat, and go.'
        assert (verdict["row"], verdict["rule"], verdict["level"]) == (0, "SOLBottleneck", "OPT")
    assert severe(recording) == []


def test_time_of_day_is_no_duration(read: Reader) -> None:
    recording = read(details([Launch([SHARE])], "A"))
    assert row(recording)["duration_ns"] is None
    assert row(recording)["start_ns"] is None
    assert "launches without a duration" in notes(recording)


def test_raw_page_with_its_row_of_units(read: Reader) -> None:
    one = Launch(
        [m("gpu__time_duration.sum", "us", "6.75"), m("dram__bytes_read.sum", "Mbyte", "2.33")]
    )
    two = Launch(
        [m("gpu__time_duration.sum", "us", "1250"), m("dram__bytes_read.sum", "Mbyte", "0")], id=1
    )
    first, second = rows(read(PREAMBLE + raw([one, two])))
    assert (first["duration_ns"], first["dram_read_bytes"]) == (6750, 2_330_000)
    assert (second["duration_ns"], second["dram_read_bytes"]) == (1_250_000, 0)
    assert (first["grid_x"], first["block_y"], first["process_name"]) == (1024, 1, "program")


@pytest.mark.parametrize("index", [False, True])
def test_raw_page_saved_again_by_pandas(read: Reader, index: bool) -> None:
    one = Launch([DURATION, m(f"sm__throughput.avg.{PCT}", "%", "9.15")], name="f<1, 2>(int)")
    recording = read(raw([one], quoted=False, index=index))
    assert row(recording)["sm_throughput_pct"] == 9.15
    assert row(recording)["kernel_name"] == "f<1, 2>(int)"
    assert recording.raw_metrics.num_rows == 0


def test_raw_page_whose_first_columns_were_cut_off(read: Reader) -> None:
    shape = [
        m(f"launch__{what}_dim_{axis}", "block", "4")
        for what in ("block", "grid")
        for axis in "xyz"
    ]
    one = Launch([m("gpu__time_duration.sum", "msecond", "17.61"), *shape])
    two = Launch([m("gpu__time_duration.sum", "msecond", "18.54"), *shape])
    recording = read(raw([one, two], columns=(), quoted=False))
    assert [r["duration_ns"] for r in rows(recording)] == [17_610_000, 18_540_000]
    assert {r["kernel_name"] for r in rows(recording)} == {NO_NAME}
    assert rows(recording)[0]["grid_y"] == rows(recording)[0]["block_z"] == 4
    assert "the file does not name its kernels" in notes(recording)


def test_wide_table_with_units_in_its_titles(read: Reader) -> None:
    text = "Kernel Name,gpu__time_duration.sum (us),dram__bytes.sum (Kbyte)\nf,6.75,1.5\n"
    assert row(read(text))["duration_ns"] == 6750
    assert row(read(text))["dram_bytes"] == 1500


def test_summary_per_kernel(read: Reader) -> None:
    one = Launch(
        [m("Duration", "us", "10", SOL), m("Achieved Occupancy", "%", "40.00", "Occupancy")],
        invocations=14,
    )
    other = Launch([m("Duration", "us", "2", SOL)], grid=(1, 1, 1), invocations=3)
    recording = read(summary([one, other]))
    first, second = rows(recording)
    assert (first["launch_count"], first["duration_ns"], first["launch_id"]) == (14, 10_000, None)
    assert first["achieved_occupancy_pct"] == 40
    assert second["launch_count"] == 3
    assert launches(recording.kernels) == 17
    # 14 x 10 us + 3 x 2 us
    assert total_time_ns(recording.kernels) == 146_000
    extremes = {
        (raw_row["metric"], raw_row["value"]) for raw_row in recording.raw_metrics.to_pylist()
    }
    assert ("gpu__time_duration.sum (minimum)", 5000.0) in extremes
    assert ("gpu__time_duration.sum (maximum)", 20000.0) in extremes


def test_summary_per_device_has_no_kernel_names(read: Reader) -> None:
    columns = [
        column for column in SUMMARY if column not in ("Kernel Name", "Block Size", "Grid Size")
    ]
    recording = read(summary([Launch([m("Duration", "us", "10", SOL)], invocations=5)], columns))
    assert row(recording)["kernel_name"] == "(all kernels of device 0)"
    assert row(recording)["launch_count"] == 5


def test_nvtx_ranges_become_the_path(read: Reader) -> None:
    nvtx = (
        '97844  "<default domain>:step 1:none:none:none:none:none:none" '
        '"<default domain>:op:matmul:none:none:none:none:none:none" '
        '"CCCL:reduce:none:none:none:none:none:none"'
    )
    recording = read(details([Launch([DURATION], nvtx=nvtx), Launch([DURATION], id=1)], "G"))
    first, second = rows(recording)
    assert first["module_path"] == "step 1 > op:matmul > CCCL:reduce"
    assert second["module_path"] is None


def test_labels_and_names_together_as_label_name_prints_them(read: Reader) -> None:
    metric = m(f"Compute (SM) Throughput (sm__throughput.avg.{PCT})", "%", "9.15", SOL)
    named = m("dram__bytes_read.sum", "byte", "64", "Memory Workload Analysis")
    assert row(read(details([Launch([metric, named])])))["sm_throughput_pct"] == 9.15
    assert row(read(details([Launch([metric, named])])))["dram_read_bytes"] == 64


def test_metrics_that_are_called_like_words(read: Reader) -> None:
    recording = read(raw([Launch([m("memory_l2_theoretical_sectors_global", "", "64"), DURATION])]))
    assert row(recording)["global_sectors"] == 64


def test_metric_instances_are_kept(read: Reader) -> None:
    recording = read(details([Launch([m("sm__warps_active.avg", "warp", "12.50 (1; 2; 3)")])]))
    found = {entry["metric"]: entry for entry in recording.raw_metrics.to_pylist()}
    assert found["sm__warps_active.avg"]["value"] == 12.5
    assert found["sm__warps_active.avg (instances)"]["text"] == "1; 2; 3"


def test_source_page_gives_stall_shares(read: Reader) -> None:
    header = [
        "Address",
        "Source",
        "Warp Stall Sampling (All Samples)",
        "# Samples",
        "Instructions Executed",
        "stall_long_sb",
        "stall_selected",
        "stall_wait",
        "stall_long_sb (Not Issued)",
    ]
    body = [
        ["0x10", "LDG R2, [R4]", "60", "60", "8", "60", "-", "0", "50"],
        ["0x20", "FADD R2, R2, R3", "40", "40", "8", "0", "10", "30", "0"],
    ]
    table = "".join(line(cells) + "\n" for cells in [header, *body])
    text = line(["Kernel Name", "my__kernel"]) + "\n" + table + "\n"
    text += line(["Kernel Name", "second"]) + "\n" + table
    recording = read(text)
    first, second = rows(recording)
    assert (first["kernel_name"], second["kernel_name"]) == ("my__kernel", "second")
    assert (first["stall_long_scoreboard"], first["stall_wait"]) == (0.6, 0.3)
    assert first["stalls_from"] == "pc-samples"
    assert first["instructions"] == 16
    assert first["duration_ns"] is None


# --- what stands around the table ----------------------------------------------------------------


def test_program_output_before_among_and_behind(read: Reader) -> None:
    table = details([Launch([DURATION], id=0), Launch([DURATION], id=1)]).splitlines()
    text = "\n".join(
        [
            PREAMBLE.rstrip(),
            *table[:2],
            "epoch 1, loss 0.5",
            "==PROF== Profiling more",
            'He said "hello',
            *table[2:],
            "==ERROR== The application returned an error code (1).",
            "",
        ]
    )
    recording = read(text)
    assert launches(recording.kernels) == 2
    assert "lines of program output skipped (4 times)" in notes(recording)
    assert any("The application returned an error code (1)" in note for note in notes(recording))
    assert severe(recording) == []


def test_output_without_a_line_end_before_header_and_row(read: Reader) -> None:
    table = details([Launch([DURATION], id=0), Launch([DURATION], id=1)]).splitlines()
    recording = read("\n".join(["Done." + table[0], table[1], "50%..." + table[2]]))
    assert launches(recording.kernels) == 2


def test_the_table_may_start_after_more_than_we_look_at(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    noise = "==PROF== Connected to process 1 (x)\n" + "a line of output\n" * 8000
    path.write_text(noise + details([Launch([DURATION])]))
    assert PARSER.recognises(path.read_bytes()[:HEAD_BYTES], path) == 1
    assert row(PARSER.read(path, silent, Options()))["duration_ns"] == 21_058_944


def test_tables_in_one_file_are_runs_of_their_own(read: Reader) -> None:
    table = details([Launch([DURATION])])
    old = details([Launch([m("gpu__time_duration.sum", "nsecond", "500")])], "A")
    recording = read(PREAMBLE + table + PREAMBLE + table + old)
    assert [r["duration_ns"] for r in rows(recording)] == [21_058_944, 21_058_944, 500]


def test_same_number_under_two_processes_is_two_launches(read: Reader) -> None:
    bytes_run = Launch([m("dram__bytes.sum", "byte", "690960320")], process=85801)
    flop_run = Launch(
        [m("sm__sass_thread_inst_executed_op_dfma_pred_on.sum", "inst", "137625600")],
        process=127605,
    )
    assert len(rows(read(details([bytes_run, flop_run], "A")))) == 2


def test_same_number_and_process_with_other_values_is_a_second_run(read: Reader) -> None:
    """GIVEN two runs in containers, where process numbers repeat, joined without a header."""
    name = m("launch__registers_per_thread", "register/thread", "32")
    fast = Launch([name, m("gpu__time_duration.sum", "ns", "100")])
    slow = Launch(
        [name, m("gpu__time_duration.sum", "ns", "200"), m("smsp__inst_executed.sum", "inst", "9")]
    )
    recording = read(details([fast]) + details([slow], header=False))
    assert [r["duration_ns"] for r in rows(recording)] == [100, 200]
    assert [r["instructions"] for r in rows(recording)] == [None, 9]
    assert any("read as another run" in note for note in notes(recording))


def test_rows_sorted_by_metric_stay_with_their_launch(read: Reader) -> None:
    table = details([Launch([DURATION, SHARE], id=n) for n in range(3)]).splitlines()
    recording = read("\n".join([table[0], *sorted(table[1:], key=lambda text: "Memory" in text)]))
    assert [r["memory_throughput_pct"] for r in rows(recording)] == [61.84] * 3


def test_repeated_rows_count_once(read: Reader) -> None:
    table = details([Launch([DURATION, SHARE])]).splitlines()
    recording = read("\n".join([*table, *table[1:]]))
    assert row(recording)["duration_ns"] == 21_058_944
    assert "repeated metric rows ignored (2 times)" in notes(recording)


def test_a_label_twice_in_one_section_is_no_second_run(read: Reader) -> None:
    """``--print-details all`` repeats "SM Frequency" in the roofline section."""
    twice = [
        m(
            "Theoretical DRAM Bytes Accessible",
            "byte/cycle",
            "128",
            ROOFLINE,
            "Single Precision Roofline",
        ),
        m("SM Frequency", "Ghz", "2.15", ROOFLINE, "Single Precision Roofline"),
        m("SM Frequency", "Ghz", "2.14", ROOFLINE, "Single Precision Roofline"),
        m("DRAM Frequency", "Ghz", "13.72", ROOFLINE, "Single Precision Roofline"),
    ]
    recording = read(details([Launch(twice)], "F"))
    assert row(recording)["sm_clock_hz"] == 2.15e9
    # 128 byte/cycle x 13.72 GHz
    assert row(recording)["peak_dram_bytes_per_s"] == pytest.approx(1756.16e9)


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_encodings_and_line_ends(read: Reader, encoding: str, line_end: str) -> None:
    text = PREAMBLE + details([Launch([DURATION], name="größe(float)")])
    assert row(read(text.replace("\n", line_end), encoding))["kernel_name"] == "größe(float)"


def test_digits_grouped_by_a_windows_code_page(read: Reader) -> None:
    found = row(read(details([Launch([DURATION, RATE])], locale="old_french"), "cp1252"))
    assert found["duration_ns"] == 21_058_944
    assert found["dram_bytes"] == pytest.approx(196456177859.63 * 0.021058944, rel=1e-12)


def test_time_stamps_of_a_ci_log(read: Reader) -> None:
    rule = Rule("SpeedOfLight", "SOLBottleneck", "OPT", "two\nlines")
    text = PREAMBLE + details([Launch([DURATION], [rule])])
    recording = read(re.sub(r"(?m)^", "2026-01-31T10:00:00.1234567Z ", text))
    assert row(recording)["duration_ns"] == 21_058_944
    assert recording.verdicts["text"].to_pylist() == ["two\nlines"]


def test_a_table_without_numbers_of_launches(read: Reader) -> None:
    """GIVEN a table cut to four columns THEN a metric that comes again begins a launch."""
    titles = ["Kernel Name", "Metric Name", "Metric Unit", "Metric Value"]
    cells = [["f", "gpu__time_duration.sum", "ns", "5"], ["f", "smsp__inst_executed.sum", "", "9"]]
    recording = read(
        "".join(line(c) + "\n" for c in [titles, *cells, *cells, ["g", *cells[0][1:]]])
    )
    assert [(r["kernel_name"], r["duration_ns"], r["instructions"]) for r in rows(recording)] == [
        ("f", 5, 9),
        ("f", 5, 9),
        ("g", 5, None),
    ]


def test_a_byte_order_mark_read_as_latin_1(read: Reader) -> None:
    assert row(read("ï»¿" + details([Launch([DURATION])])))["duration_ns"] == 21_058_944


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("index", [False, True])
def test_saved_again_without_quotes(read: Reader, delimiter: str, index: bool) -> None:
    name = "void at::f<float, (int)4>(float const*, T1)"
    rule = Rule("LaunchStats", "LaunchConfiguration", "ERR", "division by zero\n/x/y.py:68")
    launch = Launch([SHARE, DURATION, RATE], [rule], name=name)
    text = details([launch], "B", ragged=False, quoted=False, delimiter=delimiter, index=index)
    recording = read(text)
    assert row(recording)["kernel_name"] == name
    assert row(recording)["duration_ns"] == 21_058_944
    assert recording.verdicts["text"].to_pylist() == ["division by zero\n/x/y.py:68"]


# --- numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("locale", sorted(LOCALES))
def test_locales(read: Reader, locale: str) -> None:
    launch = Launch([DURATION, RATE, SHARE, m("launch__waves_per_multiprocessor", "", "1.89")])
    found = row(read(details([launch], locale=locale)))
    assert found["duration_ns"] == 21_058_944
    assert found["waves_per_sm"] == 1.89
    assert found["memory_throughput_pct"] == 61.84
    assert found["dram_bytes"] == pytest.approx(4137159648, rel=1e-9)


def test_really_ambiguous_numbers_stay_unknown(read: Reader) -> None:
    """GIVEN a spreadsheet's copy where only "1,234" could tell the decimal sign, and does not."""
    text = details(
        [Launch([m("gpu__time_duration.sum", "us", "1,234")])], delimiter=";", quoted=False
    )
    recording = read(text)
    assert row(recording)["duration_ns"] is None
    assert any("could not be read" in note for note in severe(recording))


def test_zero_and_almost_zero(read: Reader) -> None:
    recording = read(
        details(
            [
                Launch(
                    [
                        m("dram__bytes_write.sum", "byte", "0"),
                        DURATION,
                        m("L2 Hit Rate", "%", "0.00", "Memory Workload Analysis"),
                    ]
                )
            ]
        )
    )
    assert (row(recording)["dram_write_bytes"], row(recording)["l2_hit_pct"]) == (0, 0)


def test_negative_counts_and_more_than_all(read: Reader) -> None:
    recording = read(
        details(
            [
                Launch(
                    [
                        m("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", "", "-2191"),
                        m("lts__t_sector_hit_rate.pct", "%", "100.39"),
                    ]
                )
            ],
            locale="en_US",
        )
    )
    assert (row(recording)["shared_conflicts"], row(recording)["l2_hit_pct"]) == (-2191, 100.39)


def test_words_and_missing_values_are_kept_as_text(read: Reader) -> None:
    recording = read(
        details(
            [
                Launch(
                    [
                        DURATION,
                        m(
                            "Function Cache Configuration",
                            "",
                            "CachePreferNone",
                            "Launch Statistics",
                        ),
                        m("sm__warps_active.avg.pct_of_peak_sustained_active", "", "n/a"),
                        m("lts__t_sector_hit_rate.pct", "%", "(!) nan"),
                        m("l1tex__t_sector_hit_rate.pct", "%", "inf"),
                    ]
                )
            ]
        )
    )
    assert row(recording)["achieved_occupancy_pct"] is None
    assert row(recording)["l2_hit_pct"] is None
    assert [entry["text"] for entry in recording.raw_metrics.to_pylist()] == [
        "CachePreferNone",
        "n/a",
        "(!) nan",
        "inf",
    ]
    assert "metrics that were not available (n/a)" in notes(recording)
    assert "values that are not finite (nan, inf) (2 times)" in notes(recording)


def test_the_most_precise_printing_wins(read: Reader) -> None:
    rough = m("Duration", "us", "6.75", SOL)
    fine = m("gpu__time_duration.sum", "ns", "6752")
    for order in ([rough, fine], [fine, rough]):
        recording = read(details([Launch(order)]))
        assert row(recording)["duration_ns"] == 6752
        assert severe(recording) == []


def test_a_contradiction_is_said_and_kept(read: Reader) -> None:
    recording = read(
        details(
            [Launch([m("Duration", "ns", "6752", SOL), m("gpu__time_duration.sum", "ns", "9000")])]
        )
    )
    assert row(recording)["duration_ns"] == 6752
    assert recording.raw_metrics["value"].to_pylist() == [9000.0]
    assert any("contradict" in note for note in severe(recording))


def test_a_time_without_a_unit_of_time_is_left_out(read: Reader) -> None:
    recording = read(details([Launch([m("gpu__time_duration.sum", "", "6752"), SHARE])]))
    assert row(recording)["duration_ns"] is None
    assert recording.raw_metrics["metric"].to_pylist() == ["gpu__time_duration.sum"]
    [note] = severe(recording)
    assert note == "values of gpu__time_duration.sum left out: its unit is missing"


def test_negative_durations_are_unknown(read: Reader) -> None:
    recording = read(details([Launch([m("gpu__time_duration.sum", "ns", "-5"), SHARE])]))
    assert row(recording)["duration_ns"] is None
    assert any("negative" in note for note in severe(recording))


@pytest.mark.parametrize("duration", ["-10", "0", "1" + "0" * 40])
def test_no_bytes_from_a_rate_over_an_impossible_time(read: Reader, duration: str) -> None:
    recording = read(details([Launch([m("gpu__time_duration.sum", "ns", duration), RATE])]))
    assert row(recording)["dram_bytes"] is None


def test_a_figure_far_beyond_its_peak_is_noted(read: Reader) -> None:
    over = m(f"dram__throughput.avg.{PCT}", "%", "185.5")
    usual = m(f"lts__throughput.avg.{PCT}", "%", "100.39")
    recording = read(details([Launch([DURATION, over, usual])]))
    assert row(recording)["dram_throughput_pct"] == 185.5
    assert notes(recording) == [f"dram__throughput.avg.{PCT} of up to 186 % of peak"]


@pytest.mark.parametrize("cut", range(1, 140, 7))
def test_cut_short_in_the_last_row(read: Reader, cut: int) -> None:
    """GIVEN a profiler killed while writing THEN no half of a number is read."""
    text = details([Launch([DURATION, SHARE]), Launch([SHARE, DURATION], id=1)])
    recording = read(text[:-cut])
    first, second = rows(recording)
    assert first["duration_ns"] == 21_058_944
    assert second["memory_throughput_pct"] == 61.84
    assert second["duration_ns"] == 21_058_944 or (
        second["duration_ns"] is None
        and severe(recording) == ["table rows that are cut short or broken left out"]
    )


def test_an_unclosed_quote_costs_its_row_only(read: Reader) -> None:
    table = details([Launch([DURATION, SHARE], id=n) for n in range(3)]).splitlines()
    table[3] = table[3][:-3]
    recording = read("\n".join(table))
    assert [r["duration_ns"] for r in rows(recording)] == [21_058_944, None, 21_058_944]
    assert [r["memory_throughput_pct"] for r in rows(recording)] == [61.84] * 3
    assert "table rows that are cut short or broken left out" in severe(recording)


# --- columns -------------------------------------------------------------------------------------


def test_both_memory_throughputs(read: Reader) -> None:
    found = row(
        read(details([Launch([SHARE, m("DRAM Throughput", "%", "61.84", SOL), RATE, DURATION])]))
    )
    assert found["memory_throughput_pct"] == 61.84
    # rate over percentage: 196456177859.63 / 0.6184
    assert found["peak_dram_bytes_per_s"] == pytest.approx(196456177859.63 / 0.6184)
    assert found["peaks_from"] == "device-memory rate over its percentage of peak"


def test_old_labels(read: Reader) -> None:
    old = "GPU Speed Of Light"
    found = row(
        read(
            details(
                [
                    Launch(
                        [
                            m("SOL SM", "%", "12.5", old),
                            m("SOL FB", "%", "80", old),
                            m("SOL Memory", "%", "81", old),
                            m("Memory Frequency", "cycle/usecond", "877", old),
                            m("SM Frequency", "cycle/nsecond", "1.25", old),
                            m("Duration", "usecond", "3", old),
                        ]
                    )
                ],
                "A",
            )
        )
    )
    assert (found["sm_throughput_pct"], found["dram_throughput_pct"]) == (12.5, 80)
    assert found["memory_throughput_pct"] == 81
    assert (found["dram_clock_hz"], found["sm_clock_hz"]) == (877e6, 1.25e9)
    assert found["duration_ns"] == 3000


def test_duration_from_cycles_and_their_rate(read: Reader) -> None:
    found = row(
        read(
            details(
                [
                    Launch(
                        [
                            m("sm__cycles_elapsed.avg", "cycle", "1000000"),
                            m("sm__cycles_elapsed.avg.per_second", "cycle/second", "1250000000"),
                        ]
                    )
                ],
                "A",
            )
        )
    )
    assert found["duration_ns"] == 800_000  # 1e6 cycles / 1.25 GHz


def test_memory_use_from_the_roofline_chart_alone(read: Reader) -> None:
    chart = [
        m("DRAM Frequency", "Ghz", "13.72", ROOFLINE, "Single Precision Roofline"),
        m("Theoretical DRAM Bytes Accessible", "byte/cycle", "128", ROOFLINE,
          "Single Precision Roofline"),
        m("DRAM Bandwidth", "Gbyte/s", "345.14", ROOFLINE, "Single Precision Achieved Value"),
    ]  # fmt: skip
    found = row(read(details([Launch(chart)], "F")))
    assert found["dram_throughput_pct"] == pytest.approx(345.14 / (128 * 13.72) * 100)


# --- launch shapes -------------------------------------------------------------------------------


def _sized(blocks: str, waves: str, occupancy: str = "62.5", **more: Any) -> Launch:
    section = "Launch Statistics"
    return Launch(
        [
            DURATION,
            m("Block Size", "", "256", section),
            m("Grid Size", "", blocks, section),
            m("Waves Per SM", "", waves, section),
            m("Theoretical Occupancy", "%", occupancy, "Occupancy"),
        ],
        **more,
    )


def test_tables_without_shape_columns_have_the_totals(read: Reader) -> None:
    """Header variants A and B print no shape, the section of the launch how many blocks it has."""
    recording = read(details([_sized("864", "1.6"), _sized("9", "0.02", id=1)], "B"))
    first, second = rows(recording)
    assert (first["grid_x"], first["grid_y"], first["grid_z"]) == (864, 1, 1)
    assert (second["grid_x"], second["block_x"], second["block_y"]) == (9, 256, 1)
    assert any("total only" in note and "2 times" in note for note in notes(recording))
    assert severe(recording) == []


def test_shape_columns_outrank_the_totals(read: Reader) -> None:
    recording = read(details([_sized("4096", "1.6", grid=(64, 64, 1), block=(32, 8, 1))], "E"))
    found = row(recording)
    assert (found["grid_x"], found["grid_y"], found["block_y"]) == (64, 64, 8)
    assert not any("total only" in note for note in notes(recording))


def test_a_shape_of_nothing_is_unknown(read: Reader) -> None:
    """What a range or a graph has is no grid."""
    found = row(read(details([Launch([DURATION], grid=(0, 0, 0), block=(0, 0, 0))])))
    assert (found["grid_x"], found["block_z"]) == (None, None)


def test_occupancy_that_could_not_be_computed_is_unknown(read: Reader) -> None:
    """Seen beside "ERR float division by zero": 0 % occupancy and 0 waves of a launch that ran."""
    recording = read(details([_sized("36", "0", "0"), _sized("1", "0.00", "100", id=1)]))
    broken, tiny = rows(recording)
    assert (broken["theoretical_occupancy_pct"], broken["waves_per_sm"]) == (None, None)
    assert (tiny["theoretical_occupancy_pct"], tiny["waves_per_sm"]) == (100, 0)
    raw_of_broken = {r["metric"] for r in recording.raw_metrics.to_pylist() if r["row"] == 0}
    assert "launch__waves_per_multiprocessor" in raw_of_broken


def test_floating_point_work(read: Reader) -> None:
    counts = {
        "fadd": 1,
        "fmul": 2,
        "ffma": 10,
        "dadd": 3,
        "dmul": 1,
        "dfma": 0,
        "hadd": 1,
        "hmul": 1,
        "hfma": 5,
    }
    found = row(
        read(
            details(
                [
                    Launch(
                        [
                            *(
                                m(
                                    f"sm__sass_thread_inst_executed_op_{op}_pred_on.sum",
                                    "inst",
                                    str(n),
                                )
                                for op, n in counts.items()
                            ),
                            m("sm__ops_path_tensor_src_fp16_dst_fp32.sum", "", "4096"),
                            m("sm__ops_path_tensor_src_fp16_dst_fp32_sparsity_off.sum", "", "4096"),
                            m("sm__ops_path_tensor_src_int8.sum", "", "512"),
                        ]
                    )
                ]
            )
        )
    )
    assert found["flop_fp32"] == 1 + 2 + 2 * 10
    assert found["flop_fp64"] == 3 + 1
    assert found["flop_fp16"] == 2 * (1 + 1) + 4 * 5
    assert found["fp32_nonfused_pct"] == pytest.approx(100 * 3 / 13)
    assert found["fp64_nonfused_pct"] == 100
    assert (found["flop_tensor"], found["tensor_dtype"]) == (4608, "fp16")


def test_tensor_work_is_unknown_where_only_instructions_were_counted(read: Reader) -> None:
    some = Launch([DURATION, m("sm__inst_executed_pipe_tensor.sum", "inst", "64")], id=0)
    none = Launch([DURATION, m("sm__inst_executed_pipe_tensor.sum", "inst", "0")], id=1)
    zero_of_one_type = Launch(
        [DURATION, m("sm__ops_path_tensor_src_bf16_dst_fp32.sum", "", "0")], id=2
    )
    found = [r["flop_tensor"] for r in rows(read(details([some, none, zero_of_one_type])))]
    assert found == [None, 0, None]


def test_work_from_rates_per_cycle(read: Reader) -> None:
    """FLOPs = (fadd + fmul + 2 ffma) per cycle x cycles per second x seconds."""
    found = row(
        read(
            details(
                [
                    Launch(
                        [
                            m(
                                "Predicated-On FADD Thread Instructions Executed Per Cycle",
                                "inst/cycle",
                                "1",
                                ROOFLINE,
                            ),
                            m(
                                "Predicated-On FMUL Thread Instructions Executed Per Cycle",
                                "inst/cycle",
                                "3",
                                ROOFLINE,
                            ),
                            m(
                                "Predicated-On FFMA Thread Instructions Executed Per Cycle",
                                "inst/cycle",
                                "10",
                                ROOFLINE,
                            ),
                            m(
                                "SM Frequency",
                                "Ghz",
                                "2",
                                ROOFLINE,
                                "Single Precision Achieved Value",
                            ),
                            m("SM Frequency", "Ghz", "2", ROOFLINE, "Single Precision Roofline"),
                            m(
                                "Theoretical Predicated-On FFMA Operations",
                                "inst",
                                "43520",
                                ROOFLINE,
                                "Single Precision Roofline",
                            ),
                            m("Duration", "us", "5", SOL),
                        ]
                    )
                ],
                "F",
            )
        )
    )
    # (1 + 3 + 2 x 10) x 2e9 x 5e-6
    assert found["flop_fp32"] == pytest.approx(240_000)
    assert found["peak_fp32_flops_per_s"] == 43520 * 2e9
    assert found["peaks_from"] == "roofline metrics"


def test_stall_shares_from_ratios(read: Reader) -> None:
    def ratio(reason: str, value: str) -> Metric:
        return m(
            f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio", "inst", value
        )

    known = [
        ratio("long_scoreboard", "6"),
        ratio("wait", "1"),
        ratio("no_instruction", "2"),
        ratio("selected", "1"),
    ]
    latency = m("smsp__average_warp_latency_per_inst_issued.ratio", "cycle", "20")
    first, second = rows(read(details([Launch([*known, latency], id=0), Launch(known, id=1)])))
    assert (first["stall_long_scoreboard"], first["stall_wait"]) == (0.3, 0.05)
    # Without the latency: the ratios, "selected" among them, add up to it: 6 + 1 + 2 + 1.
    assert (second["stall_long_scoreboard"], second["stall_no_instruction"]) == (0.6, 0.2)
    assert first["stalls_from"] == second["stalls_from"] == "ratios"


def test_stall_shares_from_samples_and_percentages(read: Reader) -> None:
    def sample(reason: str, value: str) -> Metric:
        return m(f"smsp__pcsamp_warps_issue_stalled_{reason}", "", value)

    sampled = [
        sample("no_instructions", "30"),
        sample("warpgroup_arrive", "50"),
        sample("selected", "20"),
        sample("no_instructions_not_issued", "9"),
    ]
    percent = [m("smsp__warp_issue_stalled_barrier_per_warp_active.pct", "%", "12.5")]
    first, second = rows(read(details([Launch(sampled, id=0), Launch(percent, id=1)])))
    assert (first["stall_no_instruction"], first["stall_gmma"]) == (0.3, 0.5)
    assert first["stalls_from"] == "pc-samples"
    assert (second["stall_barrier"], second["stalls_from"]) == (0.125, "ratios")


@pytest.mark.parametrize(
    ("phrase", "reason"), [(phrase, reason) for phrase, reason in book().stall_phrases.items()]
)
def test_stall_shares_from_rule_text(read: Reader, phrase: str, reason: str) -> None:
    text = (
        "On average, each warp of this workload spends 19.4 cycles being stalled waiting for "
        f"{phrase} x. More, words. This stall type represents about 69.3% of the total average of "
        "27.9 cycles between issuing two instructions."
    )
    rule = Rule("WarpStateStats", "CPIStall", "OPT", text, "global", "69.28")
    recording = read(details([Launch([DURATION], [rule])]))
    assert row(recording)[f"stall_{reason}"] == pytest.approx(0.693)
    assert row(recording)["stalls_from"] == "rule text (partial)"
    assert recording.verdicts["speedup_pct"].to_pylist() == [69.28]


def test_old_stall_rule_text(read: Reader) -> None:
    text = (
        "On average each warp of this kernel spends 17.4 cycles being stalled waiting for a "
        "scoreboard dependency on a L1TEX (local, global, surface, texture) operation. This "
        "represents about 78.3% of the total average of 22.2 cycles between two instructions."
    )
    rule = Rule("WarpStateStats", "CPIStallLongScoreboard", "WRN", text)
    found = row(read(details([Launch([DURATION], [rule])], "B")))
    assert found["stall_long_scoreboard"] == pytest.approx(0.783)


def _said(read: Reader, *texts: str, metrics: Sequence[Any] = ()) -> dict[str, Any]:
    """The row of one launch whose rules say this."""
    rules = [Rule("x", "y", "OPT", text) for text in texts]
    return row(read(details([Launch([DURATION, *metrics], rules)])))


CONFLICTS = (
    "The memory access pattern for shared {what}s might not be optimal and causes on average a {ways} - "
    "way bank conflict across all {requests} shared {what} requests.This results in {conflicts} bank "
    "conflicts,  which represent {share}% of the overall {total} wavefronts for shared {what}s."
)
LOADS = CONFLICTS.format(
    what="load", ways="3.8", requests=102400, conflicts=286727, share="72.87", total=393480
)
STORES = CONFLICTS.format(
    what="store", ways="2.8", requests="81,920", conflicts="143,674", share="63.69", total="225,592"
)


def test_bank_conflicts_that_a_rule_counts(read: Reader) -> None:
    """GIVEN a sentence for loads and one for stores THEN their sums; the sentence on all accesses, which
    knows what wide ones need, comes first."""
    columns = ("shared_requests", "shared_conflicts", "shared_wavefronts")
    found = _said(read, LOADS)
    assert [found[name] for name in columns] == [102400, 286727, 393480]
    found = _said(read, LOADS, STORES)
    assert [found[name] for name in columns] == [184320, 430401, 619072]
    every = (
        "This kernel has uncoalesced shared accesses resulting in a total of 430080 excessive "
        "wavefronts (70% of the total 614400 wavefronts)."
    )
    found = _said(read, LOADS, STORES, every)
    assert [found.get(name) for name in columns] == [None, 430080, 614400]


def test_requests_of_rules_until_2023(read: Reader) -> None:
    """GIVEN 4 bytes a thread in 12.2 sectors a request THEN 32 x 4 / 12.2 of 32 bytes are used."""
    text = (
        "The memory access pattern for global stores in L1TEX might not be optimal. On average, this "
        "kernel accesses 4.0 bytes per thread per memory request; but the address pattern, possibly "
        "caused by the stride between threads, results in 12.2 sectors per request, or 12.2*32 = 390.1 "
        "bytes of cache data transfers per request."
    )
    found = _said(read, text)
    assert found["store_sectors_per_request"] == 12.2
    assert found["store_bytes_per_sector"] == pytest.approx(128 / 12.2)
    assert found["load_bytes_per_sector"] is None


def test_single_and_fused_arithmetic_is_in_a_sentence(read: Reader) -> None:
    text = (
        "This kernel executes 1564468 fused and 1029052 non-fused FP64 instructions. By converting "
        "pairs of non-fused instructions to their fused, higher-throughput equivalent"
    )
    found = _said(read, text)
    assert found["fp64_nonfused_pct"] == pytest.approx(100 * 1029052 / (1029052 + 1564468))
    assert found["fp32_nonfused_pct"] is None


SOL = "GPU Speed Of Light Throughput"


@pytest.mark.parametrize(
    ("sentence", "metrics", "column", "expected"),
    [
        ("FP64 is the highest-utilized pipeline (85.2%) based on active cycles, taking", (),
         "pipe_fp64_pct", 85.2),
        ("ALU is the highest-utilized pipeline (36.7%).", (), "pipe_alu_pct", 36.7),
        ("Tensor (FP) is the highest-utilized pipeline (52.4%) based on active cycles", (),
         "pipe_tensor_pct", 52.4),
        # Nothing else is known of pipes: their basis is the sentence's.
        ("ALU is the highest-utilized pipeline (45.4%) based on elapsed cycles", (), "pipe_alu_pct", 45.4),
        # SM Busy is of active cycles, 800 of 1,000.
        ("ALU is the highest-utilized pipeline (40.0%) based on elapsed cycles",
         (m("SM Busy", "%", "50", "Compute Workload Analysis"),
          m("SM Active Cycles", "cycle", "800", SOL), m("Elapsed Cycles", "cycle", "1000", SOL)),
         "pipe_alu_pct", 50.0),
        # How long the multiprocessors were active is unknown: so is the pipe's use of that time.
        ("ALU is the highest-utilized pipeline (40.0%) based on elapsed cycles",
         (m("SM Busy", "%", "50", "Compute Workload Analysis"),), "pipe_alu_pct", None),
    ],
)  # fmt: skip
def test_the_busiest_pipe_is_in_a_sentence(
    read: Reader, sentence: str, metrics: Sequence[Any], column: str, expected: float | None
) -> None:
    found = _said(read, sentence, metrics=metrics)
    assert found.get(column) == expected


def test_figures_that_only_rules_print(read: Reader) -> None:
    texts = [
        "This kernel has uncoalesced global accesses resulting in a total of 25165824 excessive "
        + "sectors (75% of the total 33554432 sectors). Check the table.",
        "This kernel has uncoalesced shared accesses resulting in a total of 2445066 excessive "
        + "wavefronts (86% of the total 2838282 wavefronts).",
        "The memory access pattern for global loads from DRAM might not be optimal. On average, "
        + "only 8.0 of the 32 bytes transmitted per sector are utilized by each thread.",
        "One or more SMs have a much lower number of active cycles than the average number of "
        + "active cycles. Maximum instance value is 25.00% above the average, while it goes on.",
    ]
    distribution = "GPU and Memory Workload Distribution"
    found = row(
        read(
            details(
                [
                    Launch(
                        [
                            m("Average SM Active Cycles", "cycle", "800", distribution),
                            m("Total SM Elapsed Cycles", "cycle", "10000", distribution),
                            m("# SMs", "SM", "10", "Launch Statistics"),
                        ],
                        [Rule("SourceCounters", "x", "OPT", text) for text in texts],
                    )
                ]
            )
        )
    )
    assert (found["global_sectors"], found["global_sectors_ideal"]) == (
        33554432,
        33554432 - 25165824,
    )
    assert (found["shared_wavefronts"], found["shared_conflicts"]) == (2838282, 2445066)
    assert found["load_bytes_per_sector"] == 8.0
    # (1 - 1/1.25) x 100 x (800 x 10 / 10000)
    assert found["imbalance_sm_pct"] == pytest.approx(16.0)


def test_waves_and_multiprocessors_that_only_rules_print(read: Reader) -> None:
    rules = [
        Rule("SpeedOfLight", "SOLBottleneck", "OPT",
             "This kernel grid is too small to fill the available resources on this device, "
             "resulting in only 0.2 full waves across all SMs. Look at Launch Statistics."),
        Rule("LaunchStats", "LaunchConfiguration", "WRN",
             "The grid for this launch is configured to execute only 9 blocks, which is less "
             "than the GPU's 108 multiprocessors. This can underutilize some multiprocessors."),
    ]  # fmt: skip
    recording = read(details([Launch([DURATION, SHARE], rules)]))
    assert (row(recording)["waves_per_sm"], row(recording)["sm_count"]) == (0.2, 108)
    assert recording.devices[0].sm_count == 108
    assert "figures taken from the sentences of rules (2 times)" in notes(recording)


def test_imbalance_from_counters(read: Reader) -> None:
    found = row(
        read(
            details(
                [
                    Launch(
                        [
                            m("lts__cycles_active.avg", "cycle", "80"),
                            m("lts__cycles_active.max", "cycle", "100"),
                            m("lts__cycles_active.sum", "cycle", "800"),
                            m("lts__cycles_elapsed.sum", "cycle", "1000"),
                        ]
                    )
                ]
            )
        )
    )
    assert found["imbalance_l2_pct"] == pytest.approx((1 - 80 / 100) * 100 * 800 / 1000)


def test_pipes_of_one_launch_have_one_basis(read: Reader) -> None:
    def pipe(name: str, basis: str, value: str) -> Metric:
        return m(f"{name}.avg.pct_of_peak_sustained_{basis}", "%", value)

    mixed = [
        pipe("sm__pipe_tensor_op_hmma_cycles_active", "elapsed", "40"),
        pipe("sm__pipe_tensor_op_imma_cycles_active", "elapsed", "3"),
        pipe("sm__inst_executed_pipe_lsu", "elapsed", "5"),
        pipe("sm__inst_executed_pipe_xu", "active", "7"),
    ]
    found = row(read(details([Launch(mixed)])))
    assert (found["pipe_tensor_pct"], found["pipe_lsu_pct"], found["pipe_xu_pct"]) == (40, 5, None)
    assert found["pipe_basis"] == "elapsed"


def test_memory_peak_of_a_neighbour_scaled_by_its_clock(read: Reader) -> None:
    def launch(number: int, rate: str, share: str, clock: str) -> Launch:
        return Launch(
            [
                m("dram__bytes.sum.per_second", "Gbyte/s", rate),
                m("DRAM Throughput", "%", share, SOL),
                m("DRAM Frequency", "Ghz", clock, SOL),
                DURATION,
            ],
            id=number,
        )

    busy, idle, half = rows(
        read(
            details(
                [
                    launch(0, "800", "80", "4"),
                    launch(1, "1", "0.1", "4"),
                    launch(2, "1", "0.1", "2"),
                ]
            )
        )
    )
    assert busy["peak_dram_bytes_per_s"] == pytest.approx(1e12)
    assert idle["peak_dram_bytes_per_s"] == pytest.approx(
        1e12
    )  # its own: 1 GB/s / 0.1 % is too rough
    assert half["peak_dram_bytes_per_s"] == pytest.approx(0.5e12)
    assert idle["peaks_from"] == "rate over percentage of another launch"


def test_memory_peak_from_device_attributes_comes_last(read: Reader) -> None:
    attributes = [
        m("device__attribute_memory_clock_rate", "", "1593000"),  # kHz
        m("device__attribute_global_memory_bus_width", "", "5120"),
    ]
    alone = row(read(raw([Launch([DURATION, *attributes])])))
    # 2 x 1.593 GHz x 5120 bit / 8
    assert alone["peak_dram_bytes_per_s"] == pytest.approx(2 * 1.593e9 * 5120 / 8)
    assert alone["peaks_from"] == "device attributes"
    measured = [
        m("dram__bytes.sum.per_second", "Gbyte/s", "500"),
        m(f"gpu__dram_throughput.avg.{PCT}", "%", "50"),
    ]
    both = row(read(raw([Launch([DURATION, *attributes, *measured])])))
    assert both["peak_dram_bytes_per_s"] == pytest.approx(1e12)
    chart = [
        m("dram__bytes.sum.peak_sustained", "byte/cycle", "0"),
        m("dram__cycles_elapsed.avg.per_second", "cycle/nsecond", "1.2"),
    ]
    no_peak = row(read(raw([Launch([DURATION, *chart, *measured])])))
    assert no_peak["peak_dram_bytes_per_s"] == pytest.approx(1e12)
    assert no_peak["peaks_from"] == "device-memory rate over its percentage of peak"
    nothing_moved = [m("dram__bytes.sum.per_second", "Gbyte/s", "0"), *measured[1:]]
    idle = row(read(raw([Launch([DURATION, *nothing_moved])])))
    assert idle["peak_dram_bytes_per_s"] is None


def test_limits_of_zero_do_not_limit(read: Reader) -> None:
    recording = read(
        details(
            [
                Launch(
                    [
                        m("Block Limit Barriers", "block", "0", "Occupancy"),
                        m("Block Limit Warps", "block", "4", "Occupancy"),
                    ]
                )
            ]
        )
    )
    assert row(recording)["occupancy_limit_barriers"] is None
    assert row(recording)["occupancy_limit_warps"] == 4
    assert recording.raw_metrics["metric"].to_pylist() == ["launch__occupancy_limit_barriers"]


def test_issue_rate_comes_from_the_finer_figure(read: Reader) -> None:
    found = row(
        read(
            details(
                [
                    Launch(
                        [
                            m("One or More Eligible", "%", "0.82", "Scheduler Statistics"),
                            m("Issued Warp Per Scheduler", "", "0.01", "Scheduler Statistics"),
                        ]
                    )
                ]
            )
        )
    )
    assert found["issue_active"] == pytest.approx(0.0082)


def test_device(read: Reader) -> None:
    [device] = read(details([Launch([m("# SMs", "SM", "132", "Launch Statistics")])])).devices
    assert (device.index, device.compute_capability, device.sm_count) == (0, "9.0", 132)


def test_no_memory_counters_is_unknown_and_not_zero(read: Reader) -> None:
    """GIVEN a device without DRAM counters (Orin, Thor): there are no such rows."""
    found = row(read(details([Launch([DURATION, m("Compute (SM) Throughput", "%", "40", SOL)])])))
    assert (
        found["dram_throughput_pct"]
        is found["dram_bytes"]
        is found["peak_dram_bytes_per_s"]
        is None
    )


def test_long_and_odd_kernel_names(read: Reader) -> None:
    names = [
        "f<" + "at::native::<unnamed>::g, " * 300 + "int>(T1)",
        "void unnamed>::saxpyKernel(float)",
        "copy[v1](Array<long long, 1, C>)",
        '=cmd|"/c calc"',
        "</script><img onerror=x>",
    ]
    recording = read(details([Launch([DURATION], name=name, id=n) for n, name in enumerate(names)]))
    assert [r["kernel_name"] for r in rows(recording)] == names


def test_every_formula_names_a_column_and_parses() -> None:
    table = {column.name for column in COLUMNS}
    assert set(book().columns) <= table
    assert set(book().pipes["active"]) <= table
    with pytest.raises(ValueError, match="no function"):
        parse_formula("min(a__b.sum)")


# --- refusals ------------------------------------------------------------------------------------


_CONNECTED = "==PROF== Connected to process 1 (x)\n"
_NO_PERMISSION = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n"
_FOREIGN = m("FetchSize", "bytes", "1125436000")
_REFUSED = {
    "pivot": ("Metric Name,dram__bytes.sum,gpu__time_duration.sum\n0,41.0,11.0\n", "pivot table"),
    "pivot with names": ("ID,Kernel Name,dram__bytes.sum\n0,f,4194688.0\n", "pivot table"),
    "no kernels": (_CONNECTED + "==WARNING== No kernels were profiled.\n", "no kernels were"),
    "no permission": (_CONNECTED + _NO_PERMISSION, "not permitted"),
    "failed": (_CONNECTED + "==ERROR== Failed to prepare kernel\n", "Failed to prepare"),
    "report": (_CONNECTED + "==PROF== Report: /x/y.ncu-rep\n", "/x/y.ncu-rep"),
    "traceback": (_CONNECTED + "Traceback (most recent call last):\n  File x\n", "traceback"),
    "progress only": (_CONNECTED, "no table"),
    "something else": ("hello\n", "no table"),
    "web page": ("<!DOCTYPE html><html><body>gpu__time</body></html>", "web page"),
    "binary": (b"\x00\x01\x02\x03" * 50, "binary"),
    "binary report": (b"NVR\0\x10\0\0\0", "binary"),
    "nothing": ("", "is empty"),
    "header only": (details([]), "no complete row"),
    "foreign metrics": (details([Launch([_FOREIGN])]), "none of its metrics"),
}


@pytest.mark.parametrize(("content", "words"), list(_REFUSED.values()), ids=list(_REFUSED))
def test_refusals_say_what_it_is(tmp_path: Path, content: str | bytes, words: str) -> None:
    error = refusal(tmp_path, content)
    assert words in error.message
    assert "out.csv" in error.message
    assert "\n" not in error.message


def test_no_permission_shows_as_n_a_everywhere(tmp_path: Path) -> None:
    everything = details(
        [Launch([m("dram__bytes.sum", "", "n/a"), m("smsp__inst_executed.sum", "", "n/a")])]
    )
    error = refusal(tmp_path, everything)
    assert "n/a" in error.message
    assert "ERR_NVGPUCTRPERM" in str(error)


@pytest.mark.parametrize(
    ("cell", "words"), [("n/a", "not permitted"), ("(!) n/a", "not permitted"), ("nan", "are nan")]
)
def test_nothing_measured_is_refused(tmp_path: Path, cell: str, words: str) -> None:
    error = refusal(tmp_path, details([Launch([m("gpu__time_duration.sum", "", cell)])]))
    assert words in error.message
    assert error.hint


_NVPROF = (
    "==4242== NVPROF is profiling process 4242\n"
    '"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"\n'
)
_SEEN = {
    "details": (details([Launch([DURATION])]), 2),
    "summary": (summary([Launch([DURATION])]), 2),
    "raw": (raw([Launch([DURATION])]), 2),
    "pivot": ("Metric Name,dram__bytes.sum,gpu__time_duration.sum\n0,1,2\n", 1),
    "progress": (_CONNECTED, 1),
    "nvprof": (_NVPROF, 0),
    "nsys stats": ("Time (%),Total Time (ns),Instances,Avg (ns),Name\n", 0),
    "rocprof": ("Kernel_Name,GRD,WGR\nf,1,1\n", 0),
    "nothing": ("", 0),
    "binary report": (b"NVR\0\x10\0\0\0", 0),
}


@pytest.mark.parametrize(("content", "sure"), list(_SEEN.values()), ids=list(_SEEN))
def test_recognises(tmp_path: Path, content: str | bytes, sure: int) -> None:
    data = content if isinstance(content, bytes) else content.encode()
    assert PARSER.recognises(data, tmp_path / "x") == sure


def test_progress_and_compressed_input(tmp_path: Path) -> None:
    import gzip

    path = tmp_path / "out.csv.gz"
    path.write_bytes(
        gzip.compress(details([Launch([DURATION], id=n) for n in range(9000)]).encode())
    )
    seen: list[tuple[int, int]] = []
    recording = PARSER.read(path, lambda done, total: seen.append((done, total)), Options())
    assert launches(recording.kernels) == 9000
    assert seen
    assert all(done <= total == path.stat().st_size for done, total in seen)


# --- properties ----------------------------------------------------------------------------------

# Metric, the column that takes it over, unit spellings with their factor to the base unit.
_PLAIN = (
    ("dram__bytes_read.sum", "dram_read_bytes", (("byte", 1), ("Kbyte", 10**3), ("Gbyte", 10**9))),
    (f"sm__throughput.avg.{PCT}", "sm_throughput_pct", (("%", 1),)),
    ("launch__registers_per_thread", "registers_per_thread", (("register/thread", 1),)),
    ("smsp__inst_executed.sum", "instructions", (("inst", 1),)),
    (
        "gpc__cycles_elapsed.avg.per_second",
        "sm_clock_hz",
        (("hz", 1), ("Ghz", 10**9), ("cycle/second", 1)),
    ),
    (
        "gpu__time_duration.sum",
        "duration_ns",
        (("ns", 1), ("us", 10**3), ("msecond", 10**6), ("second", 10**9)),
    ),
    ("made__up_counter.sum", None, (("", 1), ("sector", 1))),
)
_CENTS = st.integers(min_value=0, max_value=10**9).map(lambda cents: Decimal(cents) / 100)


@st.composite
def _tables(draw: st.DrawFn) -> list[Launch]:
    names = draw(st.lists(st.sampled_from(_PLAIN), min_size=1, max_size=7, unique=True))
    kernels = st.text(
        st.characters(codec="utf-8", categories=("L", "N", "P", "Zs")), min_size=1, max_size=40
    )
    found = []
    for number in range(draw(st.integers(1, 5))):
        metrics = []
        for metric, _, units in names:
            unit, _ = draw(st.sampled_from(units))
            metrics.append(Metric(metric, unit, draw(_CENTS)))
        found.append(Launch(metrics, name=draw(kernels).strip() or "k", id=number))
    return found


def _check(found: Recording, wanted: Sequence[Launch]) -> None:
    got = rows(found)
    assert len(got) == len(wanted)
    columns = {metric: (column, dict(units)) for metric, column, units in _PLAIN}
    extra = {
        (entry["row"], entry["metric"]): entry["value"] for entry in found.raw_metrics.to_pylist()
    }
    for number, (one, launch) in enumerate(zip(got, wanted, strict=True)):
        assert one["kernel_name"] == launch.name
        for metric in launch.metrics:
            column, units = columns[metric.label]
            assert isinstance(metric.value, Decimal)
            value = metric.value * units[metric.unit]
            if column is None:
                assert extra[number, metric.label] == pytest.approx(float(value), rel=1e-12)
            elif column == "duration_ns":
                assert abs(one[column] - value) <= Decimal("0.5")
            else:
                assert one[column] == pytest.approx(float(value), rel=1e-12)
    assert [note for note in found.notes if note.severe] == []


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    table=_tables(),
    variant=st.sampled_from(sorted(VARIANTS)),
    locale=st.sampled_from(sorted(LOCALES)),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    ragged=st.booleans(),
    quoted=st.booleans(),
    before=st.booleans(),
)
def test_any_table_in_any_form_reads_the_same(
    tmp_path: Path,
    table: list[Launch],
    variant: str,
    locale: str,
    encoding: str,
    ragged: bool,
    quoted: bool,
    before: bool,
) -> None:
    text = details(table, variant, locale, ragged=ragged, quoted=quoted)
    # Without any cell that can be read in one way only, the sign of a foreign locale is lost.
    if LOCALES[locale][1] == "," and not re.search(r"\d,\d{2}\D", text):
        return
    path = tmp_path / "table.csv"
    path.write_bytes(((PREAMBLE if before else "") + text).encode(encoding))
    _check(PARSER.read(path, silent, Options()), table)


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(table=_tables(), locale=st.sampled_from(["C", "en_US"]), index=st.booleans())
def test_any_raw_page_reads_the_same(
    tmp_path: Path, table: list[Launch], locale: str, index: bool
) -> None:
    units = {metric.label: metric.unit for metric in table[0].metrics}
    table = [
        Launch(
            [Metric(x.label, units[x.label], x.value) for x in launch.metrics],
            name=launch.name,
            id=launch.id,
        )
        for launch in table
    ]
    path = tmp_path / "raw.csv"
    path.write_text(raw(table, locale, index=index))
    _check(PARSER.read(path, silent, Options()), table)


# --- real files ----------------------------------------------------------------------------------


def _details_pages(corpus: Path) -> list[Path]:
    """The real files that hold a details page as CSV: neither pivot, text nor raw page."""
    files = [*(corpus / "ncu_csv").iterdir(), *(corpus / "pair").glob("*.details.csv")]
    others = ("pivot.csv", "relu_nsight_result.csv", ".txt", "Occp.csv")
    return sorted(path for path in files if not path.name.endswith(others))


def _independent_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a details page, by a way of our own: text from the header on, csv module."""
    text = path.read_text(encoding="utf-8-sig").replace("\r\n", "\n")
    start = re.search(r'^"?ID"?,"?Process ID', text, re.MULTILINE)
    assert start is not None, path
    found: list[dict[str, str]] = []
    reader = csv.reader(io.StringIO(text[start.start() :]))
    header = next(reader)
    for cells in reader:
        if len(cells) > 5 and cells[0].isdigit():
            found.append(dict(zip(header, cells, strict=False)))
    return found


_NS = {"ns": 1, "nsecond": 1, "us": 1000, "usecond": 1000, "msecond": 10**6, "ms": 10**6}


def _independent_total(found: Sequence[dict[str, str]]) -> tuple[int, Decimal | None]:
    """Launches, and the sum of their durations in ns: by number and process, finest figure."""
    per_launch: dict[tuple[str, str], dict[str, Decimal]] = {}
    for cells in found:
        values = per_launch.setdefault((cells["Process ID"], cells["ID"]), {})
        name = cells["Metric Name"]
        if name in ("gpu__time_duration.sum", "Duration"):
            scale = _NS[cells["Metric Unit"]]
            values[f"ns{scale}"] = Decimal(cells["Metric Value"].replace(",", "")) * scale
        if name.startswith("sm__cycles_elapsed.avg"):
            values[name] = Decimal(cells["Metric Value"].replace(",", ""))
    total: Decimal | None = None
    for values in per_launch.values():
        time = min(((k, v) for k, v in values.items() if k.startswith("ns")), default=None)
        if time is not None:
            total = (total or Decimal(0)) + time[1]
        elif "sm__cycles_elapsed.avg.per_second" in values:
            seconds = values["sm__cycles_elapsed.avg"] / values["sm__cycles_elapsed.avg.per_second"]
            total = (total or Decimal(0)) + round(seconds * 10**9)
    return len(per_launch), total


@pytest.mark.corpus
def test_real_files_launches_and_times(corpus: Path) -> None:
    checked = 0
    for path in _details_pages(corpus):
        if "pivot" in path.name or path.name.endswith(
            ("relu_nsight_result.csv", ".txt", "Occp.csv")
        ):
            continue
        recording = PARSER.read(path, silent, Options())
        count, total = _independent_total(_independent_rows(path))
        assert launches(recording.kernels) == count, path.name
        assert total_time_ns(recording.kernels) == (total or 0), path.name
        checked += 1
    assert checked == 18 + 20


@pytest.mark.corpus
def test_real_files_lose_no_metric_row(corpus: Path) -> None:
    """Every metric row stands among the raw metrics, or a column holds its value."""
    book_of = book()
    ways = [*book_of.columns.items(), *book_of.rates.items(), *book_of.pipes["active"].items()]
    direct = {way.direct: (column, way) for column, some in ways for way in some if way.direct}
    for path in _details_pages(corpus):
        recording = PARSER.read(path, silent, Options())
        kernels = rows(recording)
        left = Counter((r["row"], r["metric"]) for r in recording.raw_metrics.to_pylist())
        found = [cells for cells in _independent_rows(path) if cells["Metric Name"]]
        keys = dict.fromkeys((cells["Process ID"], cells["ID"]) for cells in found)
        numbers = {key: number for number, key in enumerate(keys)}
        for cells in found:
            launch = numbers[cells["Process ID"], cells["ID"]]
            body, unit_text = cells.get("Body Item Label", ""), cells["Metric Unit"]
            label = cells["Metric Name"]
            metric = metric_name(cells["Section Name"], body, label, unit_text) or label
            if left[launch, metric]:
                left[launch, metric] -= 1
                continue
            column, way = direct[metric]
            value = float(cells["Metric Value"].replace(",", "")) * unit(unit_text).scale
            wanted = way({metric: np.array([value])}, 1)
            assert wanted is not None
            # Another printing of the same figure may have more digits.
            assert kernels[launch][column] == pytest.approx(wanted[0], rel=5e-3), path.name
        assert not +left, path.name


@pytest.mark.corpus
def test_golden_copy_blocked(corpus: Path) -> None:
    found = row(
        PARSER.read(
            corpus / "ncu_csv" / "brycelelbach__nsightful__copy_blocked.csv", silent, Options()
        )
    )
    assert (found["duration_ns"], found["dram_throughput_pct"]) == (21_058_944, 61.84)
    assert (found["stall_long_scoreboard"], found["stall_lg_throttle"]) == (0.527, 0.469)
    assert found["sm_count"] == 40


@pytest.mark.corpus
def test_golden_pair(corpus: Path) -> None:
    recording = PARSER.read(corpus / "pair" / "kernel_0001.details.csv", silent, Options())
    found = row(recording)
    assert (found["duration_ns"], found["dram_throughput_pct"]) == (6750, 19.66)
    # 345.14 GB/s / 19.66 % = 1755.5 GB/s
    assert found["peak_dram_bytes_per_s"] == pytest.approx(1755.5e9, rel=1e-4)
    roofline = "CodeGandee__llm-perf-opt__k0001_v2_ncu.section_SpeedOfLight_RooflineChart.csv"
    chart = row(PARSER.read(corpus / "ncu_csv" / roofline, silent, Options()))
    assert chart["peak_dram_bytes_per_s"] == pytest.approx(128 * 13.72e9)
    assert chart["peak_fp32_flops_per_s"] == pytest.approx(43520 * 2.15e9)


@pytest.mark.corpus
def test_golden_repeated_numbers(corpus: Path) -> None:
    path = (
        corpus / "ncu_csv" / "wdmapp__gene-paper-artifacts-pop2020__out_nvroof_dgdxy-1_concat.csv"
    )
    recording = PARSER.read(path, silent, Options())
    assert launches(recording.kernels) == 16
    assert rows(recording)[0]["dram_bytes"] == 690_960_320
    # The second half counted FLOPs: dadd 0, dmul 55050240, dfma 137625600.
    assert rows(recording)[8]["flop_fp64"] == 55_050_240 + 2 * 137_625_600


@pytest.mark.corpus
def test_golden_pivots_are_refused_and_cut_pages_read(corpus: Path) -> None:
    for path in (corpus / "ncu_csv").iterdir():
        if "pivot" in path.name or path.name.endswith("relu_nsight_result.csv"):
            assert PARSER.recognises(path.read_bytes()[:HEAD_BYTES], path) == 1
            with pytest.raises(TraceroofError, match="pivot table"):
                PARSER.read(path, silent, Options())
    cut = PARSER.read(
        corpus / "ncu_csv" / "Lashi0812__CudaProgramming__sumMatrix_Occp.csv", silent, Options()
    )
    assert launches(cut.kernels) == 29
    assert rows(cut)[0]["duration_ns"] == 17_610_000


@pytest.mark.corpus
def test_other_formats_are_not_claimed(corpus: Path) -> None:
    for folder in ("nvprof", "nsys", "amd", "torch", "ncu_rep", "other"):
        for path in (corpus / folder).rglob("*"):
            if not path.is_file():
                continue
            with path.open("rb") as file:
                head = file.read(HEAD_BYTES)
            if b"ID,Process ID,Process Name" in head[:100]:
                # Somebody typed AMD counters into a table of this layout.
                with pytest.raises(TraceroofError, match="none of its metrics"):
                    PARSER.read(path, silent, Options())
                continue
            assert PARSER.recognises(head, path) == 0, path
            assert nsight_compute_text.PARSER.recognises(head, path) == 0, path
