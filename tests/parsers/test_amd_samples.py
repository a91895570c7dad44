"""Program-counter samples of AMD GPUs as source lines: tables, JSON and databases, both methods."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.parsers.amd_fixtures import read, v3_launch
from tests.parsers.test_amd_formats import REASON, SAMPLES, v3_json, v3_record, v3_trace
from tests.parsers.test_amd_rocpd import OWN_SCHEMA, Writer
from traceroof.core.recording import Recording
from traceroof.diagnosis.diagnose import diagnose

TRAP = "Sample_Timestamp,Exec_Mask,Dispatch_Id,Instruction,Instruction_Comment,Correlation_Id\n"
LOAD, ADD, BARRIER = "s_waitcnt vmcnt(0)", "v_add_f32 v1, v2, v0", "s_barrier"
# Dispatch, instruction, line, issued, reason: of dispatch 1 four samples at line 12, one at 20.
TAKEN = [
    *[(1, LOAD, "/src/f.hip:12", 0, "WAITCNT")] * 3,
    (1, ADD, "/src/f.hip:12", 1, "OTHER_WAIT"),
    (1, BARRIER, "/src/f.hip:20", 0, "BARRIER_WAIT"),
    (2, ADD, "", 0, "ALU_DEPENDENCY"),
]


def lines(recording: Recording) -> list[tuple[Any, ...]]:
    """(row, instruction, file, line, samples), as they stand."""
    names = ("row", "instruction", "file", "line", "samples")
    return [tuple(one[name] for name in names) for one in recording.source_lines.to_pylist()]


EXPECTED = [
    (0, LOAD, "/src/f.hip", 12, 3),
    (0, ADD, "/src/f.hip", 12, 1),
    (0, BARRIER, "/src/f.hip", 20, 1),
    (1, ADD, None, None, 1),
]


def stochastic(folder: Path, taken: list[Any] = TAKEN) -> Recording:
    write_stochastic(folder, taken)
    return read(folder)


def write_stochastic(folder: Path, taken: list[Any] = TAKEN) -> None:
    rows = [
        f'1,255,{dispatch},"{code}","{place}",1,{issued},"T","{REASON}{reason}",4\n'
        for dispatch, code, place, issued, reason in taken
    ]
    first, second = v3_launch(1, end=4_001_000), v3_launch(2, start=4_002_000, end=8_002_000)
    (folder / "7_kernel_trace.csv").write_text(v3_trace(first, second))
    (folder / "7_pc_sampling_stochastic.csv").write_text(SAMPLES + "".join(rows))


def write_host_trap(folder: Path) -> None:
    rows = [f'1,255,{one[0]},"{one[1]}","{one[2]}",1\n' for one in TAKEN]
    (folder / "7_kernel_trace.csv").write_text(v3_trace(v3_launch(1), v3_launch(2)))
    (folder / "7_pc_sampling_host_trap.csv").write_text(TRAP + "".join(rows))


def test_stochastic_samples_of_a_table(tmp_path: Path) -> None:
    recording = stochastic(tmp_path)
    assert lines(recording) == EXPECTED
    found = recording.source_lines.to_pylist()
    assert [one["samples_long_scoreboard"] for one in found] == [3, 0, 0, 0]
    assert [one["samples_selected"] for one in found] == [0, 1, 0, 0]
    assert [one["samples_not_issued"] for one in found] == [3, 0, 1, 1]
    assert [one["samples_barrier"] for one in found] == [0, 0, 1, 0]


def test_the_hot_line_and_the_finding_that_names_it(tmp_path: Path) -> None:
    diagnosis = diagnose(stochastic(tmp_path))
    # One kernel, two launches: 6 samples, 4 at line 12.
    [kernel] = diagnosis.kernels
    assert kernel.source_lines is not None
    assert [one.place for one in kernel.source_lines.lines] == ["f.hip:12", "f.hip:20", ADD]
    assert kernel.source_lines.lines[0].share == pytest.approx(4 / 6)
    assert kernel.source_lines.lines_known == pytest.approx(5 / 6)
    every = diagnose(stochastic(tmp_path, TAKEN[:5] + [(2, *TAKEN[0][1:])]))
    wait = next(one for one in every.fired() if one.rule == "stall-long-scoreboard")
    assert wait.where.source == "f.hip:12"


def test_host_trap_samples_have_no_reason(tmp_path: Path) -> None:
    write_host_trap(tmp_path)
    recording = read(tmp_path)
    assert lines(recording) == EXPECTED
    assert recording.source_lines["samples_selected"].null_count == 4
    assert recording.kernels["stalls_from"].null_count == 2


def test_of_both_methods_the_one_with_reasons(tmp_path: Path) -> None:
    (tmp_path / "7_pc_sampling_host_trap.csv").write_text(TRAP + f'1,255,1,"{ADD}","",1\n' * 50)
    assert lines(stochastic(tmp_path)) == EXPECTED


def write_json(path: Path, numbered: bool = False) -> None:
    known = sorted({(one[1], one[2]) for one in TAKEN})
    # The order of pc_sampling.h.
    number = {"WAITCNT": 3, "OTHER_WAIT": 8, "BARRIER_WAIT": 5, "ALU_DEPENDENCY": 2}
    taken = [
        {
            "record": {
                "dispatch_id": dispatch, "wave_issued": bool(issued), "wave_cnt": 4,
                "pc": {"code_object_id": 1, "code_object_offset": 64 * known.index((code, place))},
                "snapshot": {"stall_reason": number[reason] if numbered else REASON + reason},
            },
            "inst_index": known.index((code, place)),
        }
        for dispatch, code, place, issued, reason in TAKEN
    ]  # fmt: skip
    # A sample whose instruction is not known.
    taken.append({"record": {"dispatch_id": 2}, "inst_index": -1})
    document = json.loads(
        v3_json(
            kernel_dispatch=[v3_record(1, 10, 30), v3_record(2, 50, 80)], pc_sample_stochastic=taken
        )
    )
    strings = document["rocprofiler-sdk-tool"][0]["strings"]
    strings["pc_sample_instructions"] = [code for code, _ in known]
    strings["pc_sample_comments"] = [place for _, place in known]
    path.write_text(json.dumps(document))


@pytest.mark.parametrize("numbered", [False, True])
def test_samples_of_json(tmp_path: Path, numbered: bool) -> None:
    known = sorted({(one[1], one[2]) for one in TAKEN})
    path = tmp_path / "908_results.json"
    write_json(path, numbered)
    recording = read(path)
    assert lines(recording) == [*EXPECTED, (1, None, None, None, 1)]
    assert recording.source_lines["address"].to_pylist()[0] == 64 * known.index(
        (LOAD, "/src/f.hip:12")
    )
    assert recording.kernels["stall_long_scoreboard"].to_pylist()[0] == pytest.approx(3 / 5)
    assert not [note for note in recording.notes if "not read" in note.text]


def write_database(path: Path) -> None:
    run = Writer(path, OWN_SCHEMA, "00003fdc")
    run.dispatch(1, 11, 1_000, 11_000)
    run.dispatch(2, 12, 20_000, 32_000)
    run.connection.execute(
        f'CREATE TABLE "rocpd_pc_sampling{run.uuid}" (id INTEGER PRIMARY KEY, guid TEXT, method TEXT,'
        " timestamp BIGINT, exec_mask BIGINT, dispatch_id INTEGER, instruction TEXT,"
        " instruction_comment TEXT, correlation_id INTEGER, wave_issued_instruction INTEGER,"
        " instruction_type TEXT, stall_reason TEXT, wave_count INTEGER)"
    )
    for dispatch, code, place, issued, reason in TAKEN:
        run.add(
            "pc_sampling", method="stochastic", dispatch_id=dispatch, instruction=code,
            instruction_comment=place, wave_issued_instruction=issued,
            stall_reason=REASON + reason, wave_count=4,
        )  # fmt: skip
    run.add("pc_sampling", method="host_trap", dispatch_id=1, instruction=ADD)
    run.close()


def test_samples_of_a_database(tmp_path: Path) -> None:
    path = tmp_path / "28_results.db"
    write_database(path)
    recording = read(path)
    assert lines(recording) == EXPECTED
    assert recording.kernels["stall_barrier"].to_pylist() == [pytest.approx(1 / 5), 0]


def test_a_database_before_the_table_came(tmp_path: Path) -> None:
    path = tmp_path / "28_results.db"
    run = Writer(path, OWN_SCHEMA, "00003fdc")
    run.dispatch(1, 11, 1_000, 11_000)
    run.connection.execute(
        f'CREATE TABLE "rocpd_pc_sampling{run.uuid}" (id INTEGER PRIMARY KEY, dispatch_id INTEGER,'
        " instruction TEXT)"
    )
    run.add("pc_sampling", dispatch_id=1, instruction=ADD)
    run.close()
    assert lines(read(path)) == [(0, ADD, None, None, 1)]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f'DELETE FROM "rocpd_pc_sampling{run.uuid}"')
    assert lines(read(path)) == []


# Counted in the files: samples, the hot place and its samples, the second and its.
_REAL = [
    ("stochastic_debug", 97, ("vector-ops.cpp:82", 23), ("vector-ops.cpp:133", 21)),
    ("host_trap", 79, ("s_endpgm", 36), ("s_waitcnt vmcnt(0)", 30)),
]


@pytest.mark.corpus
@pytest.mark.parametrize(("name", "samples", "first", "second"), _REAL)
def test_real_samples(
    corpus: Path, tmp_path: Path, name: str, samples: int, first: Any, second: Any
) -> None:
    [real] = (corpus / "amd").glob(f"*pc_sampling_{name}.csv")
    text = real.read_text()
    (tmp_path / f"7_pc_sampling_{name}.csv").write_text(text)
    ids = sorted({int(row.split(",")[2]) for row in text.splitlines()[1:]})
    (tmp_path / "7_kernel_trace.csv").write_text(v3_trace(*map(v3_launch, ids)))
    [kernel] = diagnose(read(tmp_path)).kernels
    assert kernel.source_lines is not None
    assert kernel.source_lines.samples == samples
    hot = [(one.place, one.counts["samples"]) for one in kernel.source_lines.lines[:2]]
    assert hot == [first, second]
