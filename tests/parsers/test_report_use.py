"""Reports as they are used: in folders, beside a timeline, cut, of several sessions, of later versions;
siblings of real reports made by hand."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import traceroof
from tests.fuzzing.reports import MAGIC, Block, blocks_of, written
from tests.parsers.nsys_fixtures import Writer
from tests.parsers.report_table import CORPUS
from tests.parsers.test_nsight_compute_report import WRITTEN, sized
from traceroof.diagnosis.diagnose import diagnose
from traceroof.errors import TraceroofError
from traceroof.ingest.messages import messages

REPORTS = sorted(CORPUS.glob("*.ncu-rep")) if CORPUS.is_dir() else []
ARMLETH, EXTRAP, GENE, MISTIC = (
    next((one for one in REPORTS if name in one.name), Path(name))
    for name in ("armleth", "extra-p", "wdmapp", "bwd29")
)
_WRITE = messages("tests.report_use", WRITTEN)
_ALL = [pytest.param(path, id=path.name) for path in REPORTS]


def parts(path: Path) -> tuple[bytes, list[Block]]:
    """The file header and the blocks of a real report."""
    found = blocks_of(path.read_bytes())
    assert found is not None
    return found


def header_of(block: Block) -> Any:
    header = _WRITE["BlockHeader"]()
    header.ParseFromString(block.header)
    return header


def emptied(block: Block) -> Block:
    """A block without its results; the names of metrics stand in one of them."""
    header = header_of(block)
    header.results = 0
    return Block(header.SerializeToString(), block.parts[: header.sources])


def read(path: Path) -> Any:
    return traceroof.read(path).recording


def values(recording: Any, rows: slice = slice(None)) -> dict[str, list[Any]]:
    """The kernel table as values, without what names the file and numbers the launch."""
    kernels = recording.kernels.to_pydict()
    return {
        name: cells[rows] for name, cells in kernels.items() if name not in ("source", "launch_id")
    }


# --- folders -----------------------------------------------------------------------------------


@pytest.mark.corpus
def test_a_folder_with_reports_that_cannot_be_read(tmp_path: Path) -> None:
    """GIVEN a sound report beside a packed one and one of 2019 THEN it is read and both are named."""
    (tmp_path / "good.ncu-rep").write_bytes(ARMLETH.read_bytes())
    (tmp_path / "new.ncu-repz").write_bytes(b"\x28\x00packed")
    (tmp_path / "old.nsight-cuprof-report").write_bytes(EXTRAP.read_bytes())
    recording = read(tmp_path)
    assert recording.kernels["duration_ns"].to_pylist() == [52_576]
    for name, words in (
        ("new.ncu-repz", "is a packed report of Nsight Compute (.ncu-repz)"),
        ("old.nsight-cuprof-report", "is a report of Nsight Compute 2019"),
    ):
        with pytest.raises(TraceroofError) as caught:
            traceroof.read(tmp_path / name)
        assert f"{name} {words}" in caught.value.message
        assert "export" in (caught.value.hint or "") or "ncu --import" in (caught.value.hint or "")


@pytest.mark.corpus
def test_a_folder_of_reports_of_several_gpus(tmp_path: Path) -> None:
    """GIVEN reports of three GPU models in a folder THEN those of the most launches are judged,
    and the others named."""
    for path in (ARMLETH, MISTIC, GENE):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    recording = read(tmp_path)
    assert recording.kernels.num_rows == 8
    [note] = [one for one in recording.notes if "another GPU model" in one.text]
    assert ARMLETH.name in note.text
    assert MISTIC.name in note.text


@pytest.mark.corpus
def test_a_folder_with_a_report_per_kernel(tmp_path: Path) -> None:
    """GIVEN a report cut into two by its kernels, which alternate THEN both together are the whole; cut
    into two by time, with the same kernels in the same order, they are runs: one supplies the rows."""
    head, blocks = parts(GENE)
    results = [one for one in blocks if header_of(one).results]
    for kind, halves in {
        "kernels": (results[::2], results[1::2]),
        "runs": (results[:4], results[4:]),
    }.items():
        (tmp_path / kind).mkdir()
        for at, half in enumerate(halves):
            kept = [emptied(one) if one in results and one not in half else one for one in blocks]
            (tmp_path / kind / f"{at}.ncu-rep").write_bytes(written(head, kept))
    whole = sorted(values(read(GENE))["duration_ns"])
    pieces, runs = (read(tmp_path / kind) for kind in ("kernels", "runs"))
    assert sorted(pieces.kernels["duration_ns"].to_pylist()) == whole
    assert [one.role for one in pieces.sources] == ["part", "part"]
    assert runs.judged().kernels.num_rows == 4
    assert "repeat" in [one.role for one in runs.sources]


# --- beside a timeline -------------------------------------------------------------------------


def torch_trace(path: Path, report: Any, stretch: int) -> Path:
    """A trace of PyTorch with the launches of a report, each so many times as long."""
    kernels = report.kernels.to_pydict()
    at, events = 1_000_000, []
    for row, (name, duration) in enumerate(
        zip(kernels["kernel_name"], kernels["duration_ns"], strict=True)
    ):
        grid, block = (
            [kernels[f"{what}_{axis}"][row] for axis in "xyz"] for what in ("grid", "block")
        )
        events.append(
            {
                "ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": at,
                "dur": duration * stretch / 1000,
                "args": {"device": 0, "stream": 7, "correlation": row + 1, "grid": grid, "block": block},
            }
        )  # fmt: skip
        at += duration * stretch // 1000 + 10
    device = {"id": 0, "name": report.devices[0].name}
    path.write_text(
        json.dumps({"schemaVersion": 1, "deviceProperties": [device], "traceEvents": events})
    )
    return path


def nsys_export(path: Path, report: Any, stretch: int) -> Path:
    kernels = report.kernels.to_pydict()
    made, at = Writer(path), 1_000_000
    device, stated = report.devices[0], str(report.devices[0].compute_capability)
    major, minor = (int(one) for one in stated.split("."))
    made.gpu(name=device.name, computeMajor=major, computeMinor=minor)
    for row, (name, duration) in enumerate(
        zip(kernels["kernel_name"], kernels["duration_ns"], strict=True)
    ):
        shape = {f"{what}{axis.upper()}": kernels[f"{what}_{axis}"][row]
                 for what in ("grid", "block") for axis in "xyz"}  # fmt: skip
        made.kernel(name, at, at + duration * stretch, **shape)
        at += duration * stretch + 10_000
    made.close()
    return path


@pytest.mark.corpus
@pytest.mark.parametrize("path", _ALL)
@pytest.mark.parametrize("write", [torch_trace, nsys_export], ids=["torch", "nsys"])
def test_a_report_beside_a_timeline(tmp_path: Path, path: Path, write: Any) -> None:
    """GIVEN a real report and a timeline of its launches, each twice as long THEN all of the time is
    covered by counters, time is the timeline's, and the lines stand with the timeline's time."""
    report = read(path)
    name = "trace.json" if write is torch_trace else "trace.sqlite"
    trace = write(tmp_path / name, report, 2)
    made = diagnose(traceroof.read([trace, path]))
    assert made.join is not None
    assert made.join.coverage_time_pct == pytest.approx(100.0)
    twice = 2 * sum(report.kernels["duration_ns"].to_pylist())
    assert made.totals.kernel_time_ns == pytest.approx(twice, rel=1e-3)
    alone = diagnose(report)
    known = {one.kernel: one.source_lines for one in alone.kernels if one.source_lines is not None}
    found = {one.kernel: one.source_lines for one in made.kernels if one.source_lines is not None}
    assert {name: [one.place for one in of.lines] for name, of in known.items()} == {
        name: [one.place for one in of.lines] for name, of in found.items()
    }


# --- losses, sessions, versions, ranges --------------------------------------------------------


@pytest.mark.corpus
@pytest.mark.parametrize("path", _ALL)
def test_a_real_report_cut_at_many_points(tmp_path: Path, path: Path) -> None:
    """GIVEN a report cut at 24 points THEN the launches before the cut are as in the whole one, and it
    is said; before the first it is refused in a sentence."""
    data = path.read_bytes()
    whole = values(read(path))
    launches, refused = len(whole["duration_ns"]), list[str]()
    cut = tmp_path / path.name
    for step in range(1, 25):
        cut.write_bytes(data[: len(data) * step // 25])
        try:
            recording = read(cut)
        except TraceroofError as error:
            refused.append(error.message)
            continue
        count = recording.kernels.num_rows
        assert 0 < count <= launches
        for name in ("kernel_name", "duration_ns", "registers_per_thread"):
            assert recording.kernels[name].to_pylist() == whole[name][:count]
        assert any("cut off" in note.text for note in recording.notes)
    assert refused
    assert all("cut off or damaged" in one for one in refused)


def renamed(blocks: Sequence[Block], offset: int) -> list[Block]:
    """The blocks of a report for a file with so many names of metrics before theirs."""
    made = []
    for block in blocks:
        header, sources = header_of(block), header_of(block).sources
        results = []
        for part in block.parts[sources:]:
            result = _WRITE["Result"]()
            result.ParseFromString(part)
            for metric in result.metrics:
                metric.name += offset
            results.append(result.SerializeToString())
        made.append(Block(header.SerializeToString(), [*block.parts[:sources], *results]))
    return made


@pytest.mark.corpus
def test_two_sessions_in_one_report(tmp_path: Path) -> None:
    """GIVEN the blocks of two reports of the same GPU model in one file THEN it has the launches of
    both, each with its own program."""
    v7, v8 = (one for one in REPORTS if "silu-2025" in one.name)
    head, first = parts(v7)
    _, second = parts(v8)
    names = sum(len(header_of(one).strings.texts) for one in first)
    path = tmp_path / "both.ncu-rep"
    path.write_bytes(written(head, [*first, *renamed(second, names)]))
    both, one, other = (values(read(file)) for file in (path, v7, v8))
    assert both["duration_ns"] == one["duration_ns"] + other["duration_ns"]
    for name, cells in both.items():
        if name in one and name in other:
            assert cells == one[name] + other[name], name


@pytest.mark.corpus
@pytest.mark.parametrize("path", _ALL)
def test_a_later_version_with_more_fields(tmp_path: Path, path: Path) -> None:
    """GIVEN a report of layout 8 with fields that are not known THEN its launches are as before, and
    the layout is said."""
    head, blocks = parts(path)
    for block in blocks:
        first = header_of(block).sources
        # Field 99: a text; field 98: a number.
        block.parts[first:] = [one + b"\x9a\x06\x03new\x90\x06\x05" for one in block.parts[first:]]
    later = _WRITE["FileHeader"](version=8).SerializeToString()
    made = tmp_path / path.name
    made.write_bytes(MAGIC + sized(later) + written(b"", blocks)[len(MAGIC) + 4 :])
    recording = read(made)
    assert values(recording) == values(read(path))
    assert any("layout 8" in note.text for note in recording.notes)
    assert head


@pytest.mark.corpus
def test_results_of_ranges(tmp_path: Path) -> None:
    """GIVEN launches that the report counts as ranges, one without a name THEN they are read as
    launches, and it is said; those in another layout are counted and left out."""
    head, blocks = parts(GENE)
    for block in blocks:
        header = header_of(block)
        if header.results:
            header.ranges, header.results = header.results, 0
            block.header = header.SerializeToString()
    path = tmp_path / "ranges.ncu-rep"
    path.write_bytes(written(head, blocks))
    recording = read(path)
    assert values(recording)["duration_ns"] == values(read(GENE))["duration_ns"]
    assert any("results of ranges read" in note.text for note in recording.notes)
    blocks[-1].parts[-1:] = [b"\x0a\x03new"] if blocks[-1].parts else blocks[-1].parts
    for block in blocks:
        if header_of(block).ranges:
            block.parts = [b"\x0a\x03new"]
    path.write_bytes(written(head, blocks))
    with pytest.raises(TraceroofError, match="8 ranges and no launch"):
        read(path)


@pytest.mark.corpus
def test_a_graph_as_one_result(tmp_path: Path) -> None:
    """GIVEN a result without name, grid and block, as of a whole graph THEN it is a launch whose name
    is not in the file, with its time."""
    head, blocks = parts(GENE)
    for block in blocks:
        for at in range(header_of(block).sources, len(block.parts)):
            result = _WRITE["Result"]()
            result.ParseFromString(block.parts[at])
            for field in ("mangled", "function", "demangled", "grid", "block"):
                result.ClearField(field)
            block.parts[at] = result.SerializeToString()
    path = tmp_path / "graph.ncu-rep"
    path.write_bytes(written(head, blocks))
    recording = read(path)
    assert recording.kernels["duration_ns"].to_pylist() == values(read(GENE))["duration_ns"]
    assert set(recording.kernels["kernel_name"].to_pylist()) == {"(name not in the file)"}
