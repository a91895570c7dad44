"""Per-instruction samples and lines of reports: goldens computed from the reports themselves, and
what ncu wrote into them."""

from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from traceroof.core.recording import Recording
from traceroof.parser import Options, silent
from traceroof.parsers.nsight.cubin import Cubin
from traceroof.parsers.nsight.line_table import read_line_table
from traceroof.parsers.nsight_compute_report import PARSER

_REPORTS = Path(__file__).parents[3] / "shared/corpus/ncu_rep"
_V7 = "AlpriElse__cs599k__silu-2025-04-18-v7.ncu-rep"
_V8 = "AlpriElse__cs599k__silu-2025-04-18-v8.ncu-rep"
_RMS = "AlpriElse__cs599k__2025-04-21_v1.ncu-rep"
_MLP = "armleth__cuda-mlp-inference__report.ncu-rep"
_JOIN = "bwd29__self-join-MiSTIC__profileMSDKT23.out.ncu-rep"


def _read(name: str) -> Recording:
    return PARSER.read(_REPORTS / name, silent, Options())


def _rows(recording: Recording, launch: int) -> list[dict[str, Any]]:
    table = recording.source_lines
    return list(table.filter(pc.equal(table["row"], launch)).to_pylist())


# samples of the launch; offset, samples and long_scoreboard samples of the hot instruction
_HOT = [
    (_V7, 1, 14160, 0x240, 3903, 3902),
    (_RMS, 0, 31903, 0x690, 13427, 13367),
    (_RMS, 1, 31896, 0x150, 13780, 13738),
    (_RMS, 2, 31576, 0x150, 13464, 13428),
    (_MLP, 0, 1143, 0x110, 869, 866),
    (_JOIN, 0, 3669964, 0x5B0, 1909450, 1619668),
    (_JOIN, 1, 3669964, 0x5B0, 2662646, 2565877),
    (_JOIN, 2, 3669964, 0x5B0, 3039705, 3017752),
    (_JOIN, 3, 3669964, 0x5B0, 3034766, 2995398),
]


@pytest.mark.corpus
@pytest.mark.parametrize(("name", "launch", "samples", "offset", "hot", "waiting"), _HOT)
def test_hot_instruction(
    name: str, launch: int, samples: int, offset: int, hot: int, waiting: int
) -> None:
    rows = _rows(_read(name), launch)
    assert sum(row["samples"] for row in rows) == samples
    most = max(rows, key=lambda row: row["samples"])
    assert (most["address"], most["samples"]) == (offset, hot)
    assert most["samples_long_scoreboard"] == waiting


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("name", "launch", "first", "second"),
    [(_V7, 1, 9254, 3488), (_V8, 1, 9521, 3219), (_V8, 2, 9522, 3238)],
)
def test_hot_lines_are_those_of_the_python_source(
    name: str, launch: int, first: int, second: int
) -> None:
    found: dict[tuple[str, int], int] = {}
    for row in _rows(_read(name), launch):
        key = (Path(row["file"] or "").name, row["line"])
        found[key] = found.get(key, 0) + row["samples"]
    assert found["standard.py", 47] == first
    assert found["silu-triton.py", 157] == second
    assert len(found) == 11  # lines; every instruction has one


@pytest.mark.corpus
def test_ptx_text_of_an_instruction() -> None:
    rows = _rows(_read(_V7), 1)
    hot = next(row for row in rows if row["address"] == 0x240)
    assert (hot["ptx_line"], hot["ptx"]) == (132, "sub.f32 \t%f50, %f49, %f33;")


@pytest.mark.corpus
@pytest.mark.parametrize("name", [_V7, _V8, _RMS, _MLP, _JOIN])
def test_instructions_add_up_to_the_kernel(name: str) -> None:
    recording = _read(name)
    counted = recording.kernels["instructions"].to_pylist()
    for launch, total in enumerate(counted):
        rows = _rows(recording, launch)
        assert sum(row["instructions"] or 0 for row in rows) == pytest.approx(total, rel=0.01)
        # Every sample has one reason, the issuing ones included.
        reasons = [key for key in rows[0] if key.startswith("samples_") and key[8:12] != "not_"]
        reasons.append("samples_not_selected")
        for row in rows:
            assert sum(row[key] or 0 for key in reasons) == row["samples"]


@pytest.mark.corpus
def test_a_kernel_that_was_sampled_in_part_says_so() -> None:
    rows = _rows(_read(_JOIN), 0)
    assert 3669964 / rows[0]["expected_samples"] == pytest.approx(0.047, abs=0.0005)


def test_damaged_code_is_no_code() -> None:
    with pytest.raises(ValueError, match="no ELF"):
        Cubin(b"MZ")
    with pytest.raises(ValueError, match="damaged"):
        Cubin(b"\x7fELF\x02\x01" + b"\xff" * 80)


def _unit(program: bytes) -> bytes:
    """A unit with one folder and one file, in the compilers' form of DWARF 2."""
    head = bytes([1, 1, 0xFB, 14, 10, 0, 1, 1, 1, 1, 0, 0, 0, 1])
    files = b"/src\0\0" + b"f.cu\0\x01\0\0" + b"\0"
    body = (len(head) + len(files)).to_bytes(4, "little") + head + files + program
    unit = b"\x02\0" + body
    return len(unit).to_bytes(4, "little") + unit


# set_address 0; line += 9 (10), row; address += 32; line += 2, row; address += 16, end
_PROGRAM = (
    b"\x00\x09\x02" + bytes(8) + b"\x03\x09\x01" + b"\x02\x20\x03\x02\x01" + b"\x02\x10\x00\x01\x01"
)


def test_the_function_of_a_sequence_is_its_relocations() -> None:
    data = _unit(_PROGRAM)
    operand = data.index(_PROGRAM) + 3
    table = read_line_table(data, {operand: 7})
    assert table.at(7, 0) == ("/src/f.cu", 10)
    assert table.at(7, 31) == ("/src/f.cu", 10)
    assert table.at(7, 32) == ("/src/f.cu", 12)
    assert table.at(7, 48) is None  # behind the end of the sequence
    # Without a relocation the linker dropped the function.
    assert read_line_table(data, {}).rows == {}


def test_every_cut_of_a_line_table_is_read_as_far_as_it_goes() -> None:
    data = _unit(_PROGRAM)
    operand = data.index(_PROGRAM) + 3
    for length in range(len(data)):
        rows = read_line_table(data[:length], {operand: 7}).rows
        assert set(rows) <= {7}
