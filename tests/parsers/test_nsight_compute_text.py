"""Nsight Compute's text page, as printed and as pasted."""

import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.parsers.ncu_fixtures import PREAMBLE, Launch, Metric, Rule, details, text_page
from traceroof.core.kernel_table import launches, total_time_ns
from traceroof.core.recording import Recording
from traceroof.errors import TraceroofError
from traceroof.parser import HEAD_BYTES, Options, silent
from traceroof.parsers import nsight_compute, nsight_compute_text
from traceroof.parsers.nsight.launch_identity import NO_NAME
from traceroof.parsers.nsight.page import split_row

PARSER = nsight_compute_text.PARSER
SOL = "GPU Speed Of Light Throughput"

Reader = Callable[[str], Recording]

METRICS = [
    Metric("Duration", "us", Decimal("777.95"), SOL),
    Metric("DRAM Throughput", "%", Decimal("33.42"), SOL),
    Metric("Memory Throughput", "%", Decimal("33.42"), SOL),
    Metric("SM Active Cycles", "cycle", Decimal("1176713.90"), SOL),
    Metric("Memory Throughput", "Tbyte/s", Decimal("1.12"), "Memory Workload Analysis"),
    Metric("Waves Per SM", "", Decimal("1.60"), "Launch Statistics"),
    Metric("# SMs", "SM", Decimal(132), "Launch Statistics"),
    Metric("Driver Shared Memory Per Block", "Kbyte/block", Decimal("1.02"), "Launch Statistics"),
    Metric("Function Cache Configuration", "", "CachePreferNone", "Launch Statistics"),
]
RULES = [
    Rule(SOL, "", "OPT", "Compute is more heavily utilized than Memory: look there. " * 4),
    Rule(
        "Warp State Statistics",
        "",
        "OPT",
        "On average, each warp of this workload spends 19.4 cycles being stalled waiting for "
        "sibling warps at a CTA barrier. This stall type represents about 69.3% of the total "
        "average of 27.9 cycles between issuing two instructions.",
        "global",
        "69.28",
    ),
    Rule("Warp State Statistics", "", "INF", "Check the Warp Stall Sampling table."),
    Rule("Occupancy", "", "OPT", "Too few.", "local", "19.35"),
]
NAME = "void f<int, float, (bool)0>(const T1 *, T2, unsigned long)"


@pytest.fixture
def read(tmp_path: Path) -> Reader:
    def read_text(text: str) -> Recording:
        path = tmp_path / "page.txt"
        path.write_text(text)
        assert PARSER.recognises(text.encode()[:HEAD_BYTES], path) > 0
        return PARSER.read(path, silent, Options())

    return read_text


def rows(recording: Recording) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = recording.kernels.to_pylist()
    return found


def check(recording: Recording) -> None:
    """What METRICS and RULES say of the first launch."""
    found = rows(recording)[0]
    assert found["kernel_name"] == NAME
    assert found["duration_ns"] == 777_950
    assert (found["dram_throughput_pct"], found["memory_throughput_pct"]) == (33.42, 33.42)
    # 1.12 TB/s x 777.95 us
    assert found["dram_bytes"] == pytest.approx(1.12e12 * 777.95e-6)
    assert (found["waves_per_sm"], found["sm_count"]) == (1.6, 132)
    assert found["shared_memory_driver_bytes"] == 1020
    assert found["stall_barrier"] == pytest.approx(0.693)
    assert found["stalls_from"] == "rule text (partial)"
    verdicts = [verdict for verdict in recording.verdicts.to_pylist() if verdict["row"] == 0]
    assert [(v["section"], v["level"], v["speedup_scope"], v["speedup_pct"]) for v in verdicts] == [
        ("SpeedOfLight", "OPT", None, None),
        ("WarpStateStats", "OPT", "global", 69.28),
        ("WarpStateStats", "INF", None, None),
        ("Occupancy", "OPT", "local", 19.35),
    ]
    assert [v["text"] for v in verdicts] == [" ".join(rule.text.split()) for rule in RULES]
    assert [note for note in recording.notes if note.severe] == []


def page(**options: Any) -> str:
    other = Launch(METRICS[:1], name="g", id=1, process=99)
    return PREAMBLE + text_page([Launch(METRICS, RULES, name=NAME), other], **options)


@pytest.mark.parametrize("locale", ["en_US", "C"])
@pytest.mark.parametrize("old", [False, True])
def test_page_as_printed(read: Reader, locale: str, old: bool) -> None:
    recording = read(page(locale=locale, old=old))
    check(recording)
    first, second = rows(recording)
    assert (first["process_id"], first["process_name"]) == (4242, "program")
    assert (second["kernel_name"], second["process_id"]) == ("g", 99)
    assert (first["grid_x"], first["block_x"]) == ((None, None) if old else (1024, 256))
    assert (first["context"], first["stream"], first["device"]) == (1, 7, None if old else 0)


_PASTED: dict[str, Callable[[str], str]] = {
    "crlf": lambda text: text.replace("\n", "\r\n"),
    "no indentation": lambda text: re.sub(r"(?m)^ +", "", text),
    "quoted mail": lambda text: re.sub(r"(?m)^", "> ", text),
    "time stamps": lambda text: re.sub(r"(?m)^", "2026-01-31T10:00:00.1234567Z ", text),
    "tabs": lambda text: re.sub(r"(?m)^    ", "\t", text),
    "colours": lambda text: text.replace("OPT", "\x1b[32mOPT\x1b[0m").replace("Sec", "\x1b[1mSec"),
    "trimmed": lambda text: re.sub(r"(?m) +$", "", text),
    "no rulers": lambda text: re.sub(r"(?m)^ +-[- ]+\n", "", text),
    "blanks collapsed": lambda text: re.sub(r"(?m)(?<=\S) {2,}(?=\S)", " ", text),
    "prompts": lambda text: f"$ ncu ./program\n{text}\n$ \n",
}


@pytest.mark.parametrize("change", list(_PASTED.values()), ids=list(_PASTED))
def test_page_as_pasted(read: Reader, change: Callable[[str], str]) -> None:
    recording = read(change(page()))
    found = rows(recording)
    assert [one["kernel_name"] for one in found] == [NAME, "g"]
    assert (found[0]["duration_ns"], found[1]["duration_ns"]) == (777_950, 777_950)
    assert (found[0]["waves_per_sm"], found[0]["sm_count"]) == (1.6, 132)
    assert found[0]["memory_throughput_pct"] == 33.42


@pytest.mark.parametrize("width", range(20, 130, 7))
def test_a_long_name_broken_over_lines(read: Reader, width: int) -> None:
    name = "void unnamed>::f<" + "at::native::X<4>, " * 20 + "int>(T1, const T5 &, T6)"
    lines = text_page([Launch(METRICS, name=name)]).split("\n")
    broken = [lines[1][start : start + width] for start in range(0, len(lines[1]), width)]
    recording = read("\n".join([lines[0], *broken, *lines[2:]]))
    [found] = rows(recording)
    assert found["kernel_name"].replace(" ", "") == name.replace(" ", "")
    assert (found["grid_x"], found["duration_ns"]) == (1024, 777_950)


def test_sections_without_the_line_that_names_the_kernel(read: Reader) -> None:
    text = "\n".join(text_page([Launch(METRICS)]).split("\n")[2:])
    recording = read(text)
    assert rows(recording)[0]["kernel_name"] == NO_NAME
    assert rows(recording)[0]["duration_ns"] == 777_950
    assert "the text does not name its kernels" in [str(note) for note in recording.notes]


def test_sections_of_two_kernels_without_their_names(read: Reader) -> None:
    page_of = ["\n".join(text_page([Launch([m])]).split("\n")[2:]) for m in METRICS[:1] * 2]
    assert [one["duration_ns"] for one in rows(read("\n".join(page_of)))] == [777_950] * 2


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-8-sig"])
def test_page_of_a_windows_shell(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "page.txt"
    path.write_bytes(page().replace("\n", "\r\n").encode(encoding))
    assert PARSER.recognises(path.read_bytes()[:HEAD_BYTES], path) == 2
    check(PARSER.read(path, silent, Options()))


def test_program_output_that_ends_like_a_launch(read: Reader) -> None:
    recording = read("Running on Some GPU, CC 9.0\n" + text_page([Launch(METRICS, name=NAME)]))
    assert [one["kernel_name"] for one in rows(recording)] == [NAME]


def test_summary_with_minimum_maximum_average(read: Reader) -> None:
    text = """
  f(float *) (4096, 1, 1)x(256, 1, 1), Device 0, CC 11.0, Invocations 14
    Section: Launch Statistics
    -------------------------------- --------------- ------------ ------------ ------------
    Metric Name                          Metric Unit      Minimum      Maximum      Average
    -------------------------------- --------------- ------------ ------------ ------------
    Block Size                                             256.00       256.00       256.00
    ...
    Registers Per Thread             register/thread        16.00        16.00        16.00
    Waves Per SM                                            34.13        34.13        34.13
    -------------------------------- --------------- ------------ ------------ ------------

    Section: Occupancy
    ------------------------------- ----------- ------- ------- -------
    Metric Name                     Metric Unit Minimum Maximum Average
    ------------------------------- ----------- ------- ------- -------
    Achieved Occupancy                        %   74.45   77.70   76.66
    ------------------------------- ----------- ------- ------- -------
"""
    [found] = rows(read(text))
    assert (found["launch_count"], found["achieved_occupancy_pct"]) == (14, 76.66)
    assert (found["waves_per_sm"], found["registers_per_thread"]) == (34.13, 16)
    assert found["grid_x"] == 4096


def test_summary_per_device(read: Reader) -> None:
    text = """[11139] a.out@127.0.0.1
  Device 0, CC 9.0
    merge(int *, int) (16384, 1, 1)x(512, 1, 1), Invocations 300
      Section: Command line profiler metrics
      ---------------------------------------- ----------- ------- ------- -------
      Metric Name                              Metric Unit Minimum Maximum Average
      ---------------------------------------- ----------- ------- ------- -------
      gpu__time_duration.sum                            us   56.59   72.29   64.43
      ---------------------------------------- ----------- ------- ------- -------

    fill(int *) (52947, 1, 1)x(128, 1, 1), Invocations 1
      Section: Command line profiler metrics
      ---------------------------------------- ----------- ------- ------- -------
      Metric Name                              Metric Unit Minimum Maximum Average
      ---------------------------------------- ----------- ------- ------- -------
      gpu__time_duration.sum                            us    5.00    5.00    5.00
      ---------------------------------------- ----------- ------- ------- -------
"""
    recording = read(text)
    merge, fill = rows(recording)
    assert (merge["launch_count"], merge["duration_ns"], merge["device"]) == (300, 64_430, 0)
    assert (fill["kernel_name"], fill["duration_ns"]) == ("fill(int *)", 5000)
    assert total_time_ns(recording.kernels) == 300 * 64_430 + 5000
    assert recording.devices[0].compute_capability == "9.0"


@pytest.mark.parametrize(
    ("line", "cells"),
    [
        ("Waves Per SM 11.38", ("Waves Per SM", "", ["11.38"])),
        ("# SMs SM 30", ("# SMs", "SM", ["30"])),
        ("SM Active Cycles cycle 6,539,545.23", ("SM Active Cycles", "cycle", ["6,539,545.23"])),
        ("Block Limit SM  block  16", ("Block Limit SM", "block", ["16"])),
        ("dram__bytes.sum Mbyte 2.33", ("dram__bytes.sum", "Mbyte", ["2.33"])),
        ("dram__bytes.sum 2.33", ("dram__bytes.sum", "", ["2.33"])),
        ("Own Label of Mine byte/s 7", ("Own Label of Mine", "byte/s", ["7"])),
        ("L2 Hit Rate % (!) nan", ("L2 Hit Rate", "%", ["(!) nan"])),
        ("sm__x.avg warp 12.50 (1; 2)", ("sm__x.avg", "warp", ["12.50 (1; 2)"])),
        ("...", ("", "", [])),
    ],
)
def test_rows_without_columns(line: str, cells: tuple[str, str, list[str]]) -> None:
    assert split_row(line, (), 1) == cells


def test_rows_and_columns_of_a_ruler() -> None:
    ruler = "--------- ---- ------"
    spans = [match.span() for match in re.finditer("-+", ruler)]
    assert split_row("Odd thing warp   7.00", spans, 1) == ("Odd thing", "warp", ["7.00"])
    assert split_row("Odd warp         7.00", spans, 1) == ("Odd warp", "", ["7.00"])


def test_the_csv_reader_passes_a_page_on(tmp_path: Path) -> None:
    """GIVEN a log whose page starts after more output than anybody looks at."""
    path = tmp_path / "log"
    path.write_text("==PROF== Connected to process 1 (x)\n" + "output\n" * 20_000 + page())
    head = path.read_bytes()[:HEAD_BYTES]
    assert (nsight_compute.PARSER.recognises(head, path), PARSER.recognises(head, path)) == (1, 0)
    recording = nsight_compute.PARSER.read(path, silent, Options())
    assert recording.format == "nsight-compute-text"
    check(recording)


def test_what_is_no_page(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    for text in ("OPT this and that\n", "==PROF== Connected\n", "[1] a@b\nSection: \n"):
        path.write_text(text)
        with pytest.raises(TraceroofError, match="no launch of Nsight Compute"):
            PARSER.read(path, silent, Options())
    assert PARSER.recognises(details([Launch(METRICS)]).encode(), path) == 0
    assert PARSER.recognises(b"Section: 3 of the report\n", path) == 0
    assert PARSER.recognises(b"  f(int) (1, 1, 1)x(1, 1, 1), Context 1, Stream 7\n", path) == 1
    assert PARSER.recognises(b"Section: Occupancy\n", path) == 2
    assert PARSER.recognises(b"hello\n", path) == 0


_CENTS = st.integers(min_value=0, max_value=10**9).map(lambda cents: Decimal(cents) / 100)
_LABELS = (
    ("Compute (SM) Throughput", "%", SOL, "sm_throughput_pct"),
    ("Duration", "msecond", SOL, "duration_ns"),
    ("Registers Per Thread", "register/thread", "Launch Statistics", "registers_per_thread"),
    ("Waves Per SM", "", "Launch Statistics", "waves_per_sm"),
    ("Achieved Occupancy", "%", "Occupancy", "achieved_occupancy_pct"),
    ("dram__bytes_read.sum", "Kbyte", "Command line profiler metrics", "dram_read_bytes"),
)
_SCALE = {"msecond": 10**6, "Kbyte": 10**3}


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    picked=st.lists(st.sampled_from(_LABELS), min_size=1, unique=True),
    values=st.lists(st.lists(_CENTS, min_size=6, max_size=6), min_size=1, max_size=4),
    locale=st.sampled_from(["C", "en_US"]),
    old=st.booleans(),
)
def test_any_page_reads_the_same(
    tmp_path: Path,
    picked: list[tuple[str, str, str, str]],
    values: list[list[Decimal]],
    locale: str,
    old: bool,
) -> None:
    made = [
        Launch(
            [
                Metric(label, unit, value, section)
                for (label, unit, section, _), value in zip(picked, some, strict=False)
            ],
            name=f"kernel_{number}(int)",
        )
        for number, some in enumerate(values)
    ]
    path = tmp_path / "page.txt"
    path.write_text(text_page(made, locale, old=old))
    found = rows(PARSER.read(path, silent, Options()))
    assert [one["kernel_name"] for one in found] == [launch.name for launch in made]
    for one, some in zip(found, values, strict=True):
        for (_, unit, _, column), value in zip(picked, some, strict=False):
            wanted = value * _SCALE.get(unit, 1)
            if column == "duration_ns":
                assert abs(one[column] - wanted) <= Decimal("0.5")
            elif column == "achieved_occupancy_pct" and wanted > 110:
                assert one[column] is None  # more warps than there are slots
            else:
                assert one[column] == pytest.approx(float(wanted), rel=1e-12)


@pytest.mark.corpus
@pytest.mark.parametrize(
    "name",
    [
        "AlpriElse__cs599k__silu-pytorch-ncu-report.txt",
        "BobbyAl__cuda-kmer-counting__ecoli_gpu_kmer_optimized_k12.txt",
    ],
)
def test_real_pages(corpus: Path, name: str) -> None:
    """Launches, times, rows and verdicts, counted by patterns over the text."""
    path = corpus / "ncu_csv" / name
    text = path.read_text()
    recording = PARSER.read(path, silent, Options())
    heads = re.findall(r"(?m)^  (\S.*) \(\d+, \d+, \d+\)x\(\d+, \d+, \d+\), Context 1", text)
    assert [one["kernel_name"] for one in rows(recording)] == heads
    assert launches(recording.kernels) == len(heads)
    scale = {"us": 1000, "ms": 10**6}
    times = re.findall(r"(?m)^ +Duration +(us|ms) +([\d.]+)$", text)
    total = sum(int(Decimal(value) * scale[unit]) for unit, value in times)
    assert total_time_ns(recording.kernels) == total
    assert recording.verdicts.num_rows == len(re.findall(r"(?m)^    (?:OPT|INF|WRN) ", text))
    # Rows of tables: four blanks, a label, a value; everything that is no ruler, title or rule.
    table = re.findall(r"(?m)^    (?!---|Metric Name|Section:|OPT|INF|WRN| )(\S.*\S)$", text)
    known = {column for column in recording.kernels.column_names if column.endswith("_pct")}
    assert known
    in_raw = recording.raw_metrics.num_rows
    assert in_raw < len(table)
    assert [note for note in recording.notes if note.severe] == []


@pytest.mark.corpus
def test_golden_page(corpus: Path) -> None:
    name = "BobbyAl__cuda-kmer-counting__ecoli_gpu_kmer_optimized_k12.txt"
    [found] = rows(PARSER.read(corpus / "ncu_csv" / name, silent, Options()))
    assert found["duration_ns"] == 4_830_000
    assert (found["sm_throughput_pct"], found["dram_throughput_pct"]) == (20.40, 0.06)
    assert found["shared_memory_dynamic_bytes"] == 4100
    assert found["stall_barrier"] == pytest.approx(0.693)
    assert (found["shared_wavefronts"], found["shared_conflicts"]) == (2_838_282, 2_445_066)
    assert found["warp_cycles_per_issue"] == 27.95
