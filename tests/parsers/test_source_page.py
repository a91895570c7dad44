"""The source page of Nsight Compute: every view of it, several at once, and what it is joined to.

Layouts: the excerpt and the readers of real output that the format notes name. ``SASS`` is one
kernel of three instructions: a load with all of its samples waiting, an add, and an exit.
"""

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.mutate import fuzz_count, mutate, time_limit
from tests.parsers.ncu_fixtures import Launch, Metric, line, raw
from traceroof.core.recording import Recording
from traceroof.diagnosis.diagnose import diagnose
from traceroof.errors import TraceroofError
from traceroof.ingest.combine import combine
from traceroof.parser import HEAD_BYTES, Options, silent
from traceroof.parsers.nsight_compute import PARSER

Read = Callable[[str], Recording]
Cells = tuple[str, ...]

METRICS: Cells = (
    "Warp Stall Sampling (All Samples)", "Warp Stall Sampling (Not-issued Samples)", "# Samples",
    "Instructions Executed", "Address Space", "Access Operation", "L2 Theoretical Sectors Global",
    "L2 Theoretical Sectors Global Ideal", "stall_long_sb", "stall_selected", "stall_wait",
    "stall_long_sb (Not Issued)", "stall_wait (Not Issued)",
)  # fmt: skip
NAME = "void f<float>(float *)"
AT = 0x7FC48541D900
# address, text, line, cells: 100 samples, 90 of them at the load, which moves 4 times its ideal.
SASS: tuple[tuple[int, str, int, Cells], ...] = (
    (AT, "  LDG.E R2, [R4]", 12,
     ("90", "80", "90", "64", "Global", "Load", "256", "64", "85", "5", "0", "80", "0")),
    (AT + 16, "  FADD R2, R2, R3", 13,
     ("8", "4", "8", "64", "-", "-", "0", "0", "0", "4", "4", "0", "4")),
    (AT + 32, "  EXIT", 14,
     ("2", "0", "2", "64", "-", "-", "0", "0", "0", "2", "0", "0", "0")),
)  # fmt: skip


def rows_of(*rows: Cells) -> str:
    return "".join(line(row) + "\n" for row in rows)


def title(what: str, name: str) -> str:
    return line([what, name]) + ",\n"


def sass(name: str = NAME) -> str:
    rows = [(hex(address), text, *cells) for address, text, _, cells in SASS]
    return title("Kernel Name", name) + rows_of(("Address", "Source", *METRICS), *rows)


def cuda_sass(name: str = NAME, file: str = "/src/f.cu", dash: str = "-") -> str:
    rows: list[Cells] = []
    for address, text, number, cells in SASS:
        rows.append((str(number), f"code {number};", dash, dash, *cells))
        rows.append(("", "", hex(address), text, *cells))
    header = ("Line No", "Source", "Address", "Source", *METRICS)
    head = title("File Path", file) + title("Function Name", name)
    return head + rows_of(header, *rows)


def cuda(name: str = NAME, file: str = "/src/f.cu") -> str:
    rows = [(str(number), f"code {number};", *cells) for _, _, number, cells in SASS]
    head = title("File Path", file) + title("Function Name", name)
    return head + rows_of(("Line No", "Source", *METRICS), *rows)


PTX = ("ld.global.f32 %f1, [%rd1];", "add.f32 %f2, %f1, %f0;", "ret;")


def ptx(name: str = NAME) -> str:
    rows = [
        (str(at), text, *one[3]) for at, (text, one) in enumerate(zip(PTX, SASS, strict=True), 7)
    ]
    directives = [(str(at), text, *("-",) * len(METRICS)) for at, text in
                  ((1, ".version 8.4"), (2, ".visible .entry f("), (3, ".reg .f32 %f<3>;"))]  # fmt: skip
    head = title("Kernel Name", name) + rows_of(("#", "Source", *METRICS))
    return head + rows_of(*directives, *rows)


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read_text(text: str) -> Recording:
        path = tmp_path / "out.csv"
        path.write_text(text)
        assert PARSER.recognises(text.encode()[:HEAD_BYTES], path) == 2
        return PARSER.read(path, silent, Options())

    return read_text


def lines(recording: Recording) -> list[dict[str, Any]]:
    return list(recording.source_lines.to_pylist())


def column(recording: Recording, name: str) -> list[Any]:
    return list(recording.source_lines[name].to_pylist())


def test_instructions_of_the_sass_view(read: Read) -> None:
    recording = read(sass())
    assert column(recording, "address") == [0, 16, 32]
    assert column(recording, "instruction") == ["LDG.E R2, [R4]", "FADD R2, R2, R3", "EXIT"]
    assert column(recording, "samples") == [90, 8, 2]
    assert column(recording, "samples_long_scoreboard") == [85, 0, 0]
    assert column(recording, "samples_not_issued") == [80, 4, 0]
    assert column(recording, "memory") == ["global", None, None]
    assert column(recording, "access") == ["load", None, None]
    assert column(recording, "global_sectors_ideal") == [64, 0, 0]
    assert column(recording, "line") == [None] * 3
    kernel = recording.kernels.to_pylist()[0]
    assert (kernel["kernel_name"], kernel["instructions"]) == (NAME, 192)
    # 85 of 100 samples.
    assert kernel["stall_long_scoreboard"] == 0.85
    assert not [note for note in recording.notes if note.severe]


@pytest.mark.parametrize("dash", ["-", ""])
def test_lines_with_their_instructions(read: Read, dash: str) -> None:
    recording = read(cuda_sass(dash=dash))
    assert column(recording, "line") == [12, 13, 14]
    assert column(recording, "file") == ["/src/f.cu"] * 3
    assert column(recording, "address") == [0, 16, 32]
    assert sum(column(recording, "samples")) == 100


def test_line_and_instruction_in_one_row(read: Read) -> None:
    header = ("Line No", "Source", "Address", "Source", *METRICS)
    rows = [(str(n), "code;", hex(address), text, *cells) for address, text, n, cells in SASS]
    recording = read(
        title("File Path", "f.cu") + title("Function Name", NAME) + rows_of(header, *rows)
    )
    assert column(recording, "line") == [12, 13, 14]
    assert column(recording, "instruction")[2] == "EXIT"
    assert sum(column(recording, "samples")) == 100


def test_an_inlined_instruction_is_counted_once(read: Read) -> None:
    recording = read(cuda_sass() + cuda_sass(file="/src/inlined.h"))
    assert recording.kernels.num_rows == 1
    assert column(recording, "samples") == [90, 8, 2]
    assert {one["file"] for one in lines(recording)} == {"/src/f.cu"}
    assert [note.count for note in recording.notes if "inlined" in note.text] == [3]
    assert recording.kernels["instructions"].to_pylist() == [192]


def test_lines_alone(read: Read) -> None:
    recording = read(cuda())
    assert column(recording, "line") == [12, 13, 14]
    assert column(recording, "address") == [None] * 3
    assert column(recording, "samples") == [90, 8, 2]


def test_lines_of_ptx(read: Read) -> None:
    recording = read(ptx())
    found = [one for one in lines(recording) if one["samples"]]
    assert [one["ptx_line"] for one in found] == [7, 8, 9]
    assert [one["ptx"] for one in found] == list(PTX)
    assert column(recording, "line") == [None] * 6
    assert sum(one["samples"] for one in found) == 100


def test_numbered_rows_without_addresses_are_lines(read: Read) -> None:
    rows = [("1", "", "x = y[i];", "70"), ("2", "", "}", "30")]
    recording = read(
        rows_of(("#", "Address", "Source", "Warp Stall Sampling (All Samples)"), *rows)
    )
    assert column(recording, "line") == [1, 2]
    assert column(recording, "samples") == [70, 30]


@pytest.mark.parametrize(
    "views",
    [(sass, cuda_sass), (cuda_sass, sass), (cuda, sass, ptx, cuda_sass), (ptx, cuda, cuda_sass)],
)
def test_views_of_one_kernel_are_one_launch(read: Read, views: tuple[Any, ...]) -> None:
    recording = read("\n".join(view() for view in views))
    assert recording.kernels.num_rows == 1
    # The view with lines and instructions says most.
    assert column(recording, "line") == [12, 13, 14]
    assert column(recording, "address") == [0, 16, 32]
    assert sum(column(recording, "samples")) == 100


def test_several_kernels_and_a_kernel_again(read: Read) -> None:
    recording = read(sass() + sass("g") + sass())
    assert recording.kernels["kernel_name"].to_pylist() == [NAME, "g", NAME]
    assert column(recording, "row") == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    again = read(cuda_sass() + cuda_sass("g") + cuda_sass())
    assert again.kernels["kernel_name"].to_pylist() == [NAME, "g", NAME]


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        ("Sampling Data (All)", "stall_long_sb"),  # 2020
        ("Warp Stall Sampling (All Cycles)", "stall_long_sb"),  # 2022 and 2023
        ("smsp__pcsamp_sample_count", "smsp__pcsamp_warps_issue_stalled_long_scoreboard"),
    ],
)
def test_titles_of_all_years(read: Read, samples: str, reason: str) -> None:
    header = ("Address", "Source", samples, reason)
    recording = read(title("Kernel Name", "f") + rows_of(header, (hex(AT), "LDG", "1,200", "900")))
    assert column(recording, "samples") == [1200]
    assert column(recording, "samples_long_scoreboard") == [900]


def test_samples_of_reasons_alone_add_up(read: Read) -> None:
    header = ("Address", "Source", "stall_wait", "stall_barrier")
    recording = read(title("Kernel Name", "f") + rows_of(header, (hex(AT), "BAR", "3", "4")))
    assert column(recording, "samples") == [7]


def test_a_title_that_comes_twice_is_read_once(read: Read) -> None:
    """About 2023 the page prints "Instructions Executed" twice."""
    header = ("Address", "Source", "Instructions Executed", "# Samples", "Instructions Executed")
    recording = read(
        title("Kernel Name", "f") + rows_of(header, (hex(AT), "MOV", "3632", "42", "3632"))
    )
    assert column(recording, "instructions") == [3632]
    assert recording.kernels["instructions"].to_pylist() == [3632]


def test_a_page_without_samples_or_counts_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    text = title("Kernel Name", "f") + rows_of(("Address", "Source"), (hex(AT), "MOV"))
    path.write_text(text)
    with pytest.raises(TraceroofError, match="holds no table"):
        PARSER.read(path, silent, Options())


def test_a_raw_page_of_one_metric_is_no_title(read: Read) -> None:
    page = rows_of(("Kernel Name", "gpu__time_duration.sum"), ("", "ns"), ("f(int)", "1000"))
    assert read(page).kernels["duration_ns"].to_pylist() == [1000]


def test_the_page_as_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text(
        "File Path: /src/f.cu\nFunction Name: f\n"
        "Line No Source       # Samples\n------- ------------ ---------\n12      x = y[i];           90\n"
    )
    assert PARSER.recognises(path.read_bytes(), path)
    with pytest.raises(TraceroofError, match="source page as text") as caught:
        PARSER.read(path, silent, Options())
    assert "--csv" in (caught.value.hint or "")


DURATION = Metric("gpu__time_duration.sum", "ns", "1000000")
RAW = raw([Launch([DURATION], name=NAME, id=0), Launch([DURATION], name="g()", id=1)])


def test_pages_of_one_log_are_one_launch(read: Read) -> None:
    """GIVEN the raw page and behind it the source page THEN the kernels take their lines."""
    recording = read(RAW + "\n" + cuda_sass() + sass("g"))
    assert recording.kernels["duration_ns"].to_pylist() == [1_000_000, 1_000_000]
    assert column(recording, "row") == [0, 0, 0, 1, 1, 1]
    assert recording.kernels["stall_long_scoreboard"].to_pylist() == [0.85, 0.85]


def read_as(folder: Path, name: str, text: str) -> Recording:
    (folder / name).write_text(text)
    return PARSER.read(folder / name, silent, Options())


def test_files_of_one_program_are_one_launch(tmp_path: Path) -> None:
    """GIVEN raw page and two views of the source page as files THEN one row a launch, with the
    lines of the view that says most, and every sample once."""
    files = {"raw.csv": RAW, "sass.csv": sass() + sass("g"), "lines.csv": cuda_sass()}
    for order in (list(files), list(reversed(files))):
        made = combine([read_as(tmp_path, name, files[name]) for name in order])
        assert sorted(made.kernels["kernel_name"].to_pylist()) == ["g()", NAME]
        first = made.kernels["kernel_name"].to_pylist().index(NAME)
        of_first = [one for one in lines(made) if one["row"] == first]
        assert [one["line"] for one in of_first] == [12, 13, 14]
        assert [one["samples"] for one in of_first] == [90, 8, 2]
        of_other = [one for one in lines(made) if one["row"] != first]
        assert [one["samples"] for one in of_other] == [90, 8, 2]
        assert {one["line"] for one in of_other} == {None}


def test_views_as_files_are_no_runs(tmp_path: Path) -> None:
    made = combine([read_as(tmp_path, "a.csv", ptx()), read_as(tmp_path, "b.csv", sass())])
    assert [source.role for source in made.sources] == ["pass", "pass"]
    assert column(made, "address") == [0, 16, 32]


def test_the_finding_names_the_line(read: Read) -> None:
    # The launch of the raw page has a duration: the wait is a finding of 85 % of it.
    recording = read(raw([Launch([DURATION], name=NAME)]) + "\n" + cuda_sass())
    found = {one.rule: one for one in diagnose(recording).fired()}
    wait = found["stall-long-scoreboard"]
    assert wait.lines[0].place == "f.cu:12"
    assert wait.lines[0].share == 1.0
    assert wait.where.source == "f.cu:12"


def test_damaged_pages_give_launches_or_a_sentence(tmp_path: Path) -> None:
    rng = random.Random(181)
    data = (RAW + "\n" + cuda_sass() + cuda_sass(file="i.h") + sass("g") + ptx("h")).encode()
    path = tmp_path / "out.csv"
    for _ in range(fuzz_count(100)):
        path.write_bytes(mutate(data, rng))
        with time_limit(10), suppress(TraceroofError):
            assert PARSER.read(path, silent, Options()).kernels.num_rows
