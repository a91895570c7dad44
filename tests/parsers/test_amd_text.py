"""AMD's tables as text: which is which, what is broken in them, and what their numbers mean."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parsers.amd_fixtures import V3_TRACE_HEADER, table, v3_launch, write
from traceroof.errors import TraceroofError
from traceroof.parser import Options, silent
from traceroof.parsers.amd import text as amd_text
from traceroof.parsers.amd.kinds import Kind, layout, squash
from traceroof.parsers.amd.text import TextTable, read_table
from traceroof.parsers.amd.values import integers, length_of, reals, times

V1 = "Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd,wgr,lds,scr"


def read(path: Path) -> TextTable:
    return read_table(path, Options(), silent)


def text(*cells: str | None) -> pa.ChunkedArray:
    return pa.chunked_array([list(cells)], pa.string())


# --------------------------------------------------------------------------------------------
# Which table it is

HEADERS = {
    Kind.V1: f"{V1},vgpr,sgpr,fbar,sig,obj,SQ_WAVES,DispatchNs,BeginNs,EndNs,CompleteNs",
    Kind.HIPPROF: f"{V1},arch_vgpr,accum_vgpr,sgpr,wave_size,sig,TCC_EA_RDREQ[0],BeginNs,EndNs",
    Kind.V2: "Dispatch_ID,GPU_ID,Queue_ID,Queue_Index,PID,TID,GRD,WGR,LDS,SCR,Kernel_Name",
    Kind.V2_OPERATIONS: "Domain,Operation,Kernel_Name,Start_Timestamp,Stop_Timestamp,Correlation_ID",
    Kind.V3_KERNELS: "Kind,Agent_Id,Queue_Id,Kernel_Id,Kernel_Name,Correlation_Id,Start_Timestamp",
    Kind.V3_COUNTERS: "Dispatch_Id,Agent_Id,Kernel_Name,Counter_Name,Counter_Value",
    Kind.V3_COPIES: "Kind,Direction,Source_Agent_Id,Destination_Agent_Id,Start_Timestamp",
    Kind.V3_API: "Domain,Function,Process_Id,Thread_Id,Correlation_Id,Start_Timestamp",
    Kind.V3_SAMPLES: "Sample_Timestamp,Exec_Mask,Dispatch_Id,Instruction",
    Kind.STATISTICS: "Name,Calls,TotalDurationNs,AverageNs,Percentage",
    Kind.COMPUTE_WIDE: "Dispatch_ID,GPU_ID,Grid_Size,LDS_Per_Workgroup,Kernel_Name,SQ_WAVES",
    Kind.COMPUTE_LONG: "GPU_ID,Dispatch_ID,Kernel_Name,Counter_Name,Counter_Value",
}


@pytest.mark.parametrize("kind", HEADERS)
@pytest.mark.parametrize("between", ["_", " ", "-", ""])
@pytest.mark.parametrize("upper", [False, True])
def test_a_table_is_known_by_its_columns(kind: Kind, between: str, upper: bool) -> None:
    header = HEADERS[kind].replace("_", between) + "\n"
    found = layout((header.upper() if upper else header).encode())
    assert found is not None
    assert found.kind is kind
    assert found.skip == 1


def test_noise_before_the_header() -> None:
    head = b"RPL: on '240321' from '/opt/rocm'\nROCProfiler: input, from x.txt\n" + V1.encode()
    found = layout(head)
    assert found is not None
    assert (found.kind, found.skip) == (Kind.V1, 3)


def test_a_byte_order_mark_is_no_part_of_a_name() -> None:
    found = layout(b"\xef\xbb\xbf" + HEADERS[Kind.STATISTICS].encode())
    assert found is not None
    assert found.kind is Kind.STATISTICS


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"hello",
        b"a,b,c\n1,2,3\n",
        b'{"traceEvents": []}',
        b"SQLite format 3\x00",
        b"\x00" * 99,
        b"[]",
    ],
)
def test_other_text_is_no_table(head: bytes) -> None:
    assert layout(head) is None


@pytest.mark.parametrize(
    ("cells", "last"),
    [
        # ROCm up to 5.0 with duration; 5.1 and later without: both have 21 cells.
        ("0,0,64,64,0,0,56,56,11584,0x0,0x7f,1,2,3,4,5", "DurationNs"),
        ("0,0,64,64,0,0,56,8,112,64,0x0,0x7f,1,2,3,4", "CompleteNs"),
    ],
)
def test_the_addresses_tell_the_age_of_a_row_without_header(cells: str, last: str) -> None:
    found = layout(f'156,"void f<int, 2>(int) [clone .kd]",0,0,557,{cells}\n'.encode())
    assert found is not None
    assert found.kind is Kind.V1_BARE
    assert found.header[-1] == last
    assert len(found.header) == 21


# --------------------------------------------------------------------------------------------
# Rows


def trace(*names: str) -> str:
    rows = [V3_TRACE_HEADER, *(v3_launch(n, name=name) for n, name in enumerate(names, 1))]
    return table(rows)


def test_clean_tables_are_read_whole(tmp_path: Path) -> None:
    found = read(write(tmp_path / "t.csv", trace("f(int, float)", "g<a, b>()")))
    assert found.text("kernelname").to_pylist() == ["f(int, float)", "g<a, b>()"]  # type: ignore[union-attr]
    assert found.notes == []


def test_unescaped_quotation_marks_are_repaired(tmp_path: Path) -> None:
    # rocprofv3 puts marks around a name and does not look into it.
    names = ['operator"" _km(int)', 'f<"a", "b">(int, int)', "plain(int)"]
    header = ",".join(f'"{name}"' for name in V3_TRACE_HEADER)
    rows = [
        ",".join(
            f'"{cell}"' if isinstance(cell, str) else str(cell) for cell in v3_launch(n, name=name)
        )
        for n, name in enumerate(names, 1)
    ]
    found = read(write(tmp_path / "t.csv", "\n".join([header, *rows]) + "\n"))
    assert found.text("kernelname").to_pylist()[1:] == names[1:]  # type: ignore[union-attr]
    assert found.integers("gridsizex").to_pylist() == [1024] * 3  # type: ignore[union-attr]
    assert any("repaired" in note.text for note in found.notes)


def test_escaped_quotation_marks_are_undone(tmp_path: Path) -> None:
    names = ['f<"a", "b">(int)', 'g"" _x']
    found = read(write(tmp_path / "t.csv", trace(*names)))
    assert found.text("kernelname").to_pylist() == names  # type: ignore[union-attr]
    assert found.notes == []


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_line_ends_and_blank_lines(end: str, last: bool, tmp_path: Path) -> None:
    content = trace("f()", "g()").replace("\n", f"{end}{end}")
    found = read(write(tmp_path / "t.csv", content if last else content.rstrip()))
    assert found.num_rows == 2
    assert found.text("gridsizez").to_pylist() == ["1", "1"]  # type: ignore[union-attr]


def test_a_repeated_header_and_noise_between_rows(tmp_path: Path) -> None:
    once = trace("f()")
    found = read(write(tmp_path / "t.csv", once + once + "ROCProfiler: done\n" + once[:-20]))
    assert found.num_rows == 2
    assert {note.text: note.count for note in found.notes} == {
        "lines that are not rows of the table were skipped": 2,
        "repeated header rows were skipped": 2,
    }


def test_bytes_that_are_no_text_become_a_mark(tmp_path: Path) -> None:
    data = trace("f()").encode().replace(b"f()", b"f\xff()")
    assert read(write(tmp_path / "t.csv", data)).text("kernelname").to_pylist() == ["f�()"]  # type: ignore[union-attr]


def test_an_unclosed_quotation_mark_costs_one_row(tmp_path: Path) -> None:
    lines = trace("f(a, b)", "g(c, d)", "h(e, f)").split("\n")
    lines[2] = lines[2].replace('d)"', "d)")
    found = read(write(tmp_path / "t.csv", "\n".join(lines)))
    assert found.text("kernelname").to_pylist() == ["f(a, b)", "h(e, f)"]  # type: ignore[union-attr]


def test_rows_beyond_one_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amd_text, "_BLOCK_BYTES", 1_000)
    names = [f"kernel_{number}(int, int)" for number in range(200)]
    path = write(tmp_path / "t.csv", trace(*names))
    assert read(path).text("kernelname").to_pylist() == names  # type: ignore[union-attr]
    # A line longer than a block is no row: it is given up, and that is said.
    long = names[:100] + ["x" * 5_000] + names[100:]
    found = read(write(tmp_path / "t.csv", trace(*long)))
    assert found.text("kernelname").to_pylist() == names  # type: ignore[union-attr]
    assert [(note.text, note.count) for note in found.notes] == [
        ("lines that are not rows of the table were skipped", 1)
    ]


def test_names_of_6_kb_and_2718_columns(tmp_path: Path) -> None:
    counters = [f"TCC_HIT[{number}]" for number in range(2_700)]
    header = ["Dispatch_ID", "GPU_ID", "Grid_Size", "LDS_Per_Workgroup", "Kernel_Name", *counters]
    row = [0, 0, 64, 0, "f<" + "int, " * 1_200 + ">()", *range(2_700)]
    found = read(write(tmp_path / "pmc_perf.csv", table([header, row])))
    assert found.reals("tcchit[2699]").tolist() == [2_699]  # type: ignore[union-attr]
    assert len(found.text("kernelname")[0].as_py()) > 6_000  # type: ignore[index]


def test_a_file_without_a_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceroofError, match="no table"):
        read(write(tmp_path / "t.csv", "a,b\n1,2\n"))


# --------------------------------------------------------------------------------------------
# Numbers


def test_whole_numbers_in_every_spelling() -> None:
    column = text("4", "4.000000", "0.00000000e+00", "8e2", " 7 ", "", "x", "1.5", None)
    assert integers(column).to_pylist() == [4, 4, 0, 800, 7, None, None, None, None]
    # Pointers and masks do not fit: unknown.
    assert integers(text("18446744073709551615", "9223372036854775807")).to_pylist() == [
        None,
        9223372036854775807,
    ]


def test_counters_that_are_no_finite_number_are_unknown() -> None:
    found = reals(text("1.5", "nan", "inf", "", "x", "1e999", "8.00000000e-01"))
    assert [None if np.isnan(one) else one for one in found] == [
        1.5, None, None, None, None, None, 0.8,
    ]  # fmt: skip


def test_times_are_exact() -> None:
    # 2**53 + 1 has no double.
    found = times(text("9007199254740993", "13386742234700548"))
    assert found.values.tolist() == [9007199254740993, 13386742234700548]
    assert found.known.all()


def test_times_with_fractions_differ_exactly() -> None:
    start, end = times(text("10.46", "10")), times(text("32.96", "26929.75"))
    # 22.5 rounds to even, 26,919.75 up.
    assert length_of(start, end).tolist() == [22, 26_920]


def test_times_that_lost_their_digits_are_coarse() -> None:
    found = times(text("8.1097E+14", "1.62068E+14", "1.000000000E+3", "0", "x", "1e999999"))
    assert found.coarse.tolist() == [True, True, False, False, False, False]
    assert found.known.tolist() == [False, False, True, True, False, False]


@given(st.integers(-(2**62), 2**62), st.integers(-(2**62), 2**62))
def test_lengths_of_whole_times(start: int, end: int) -> None:
    found = length_of(times(text(str(start))), times(text(str(end)))).tolist()[0]
    assert found == (end - start if abs(end // 2 - start // 2) < 2**61 else 0)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_table_or_none(data: bytes) -> None:
    found = layout(data)
    assert found is None or isinstance(found.kind, Kind)


def test_squash() -> None:
    assert squash(" VGPR_Count ") == squash("vgpr-count") == squash("VgprCount") == "vgprcount"
