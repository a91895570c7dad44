"""What several paths are together: each content once, and what is no profiler file."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import traceroof
from traceroof import TraceroofError, plugins
from traceroof.compare import compare
from traceroof.core.recording import Recording, Run
from traceroof.ingest import decompress, detect
from traceroof.ingest.detect import File
from traceroof.parser import HEAD_BYTES, Options, Progress
from traceroof.parsers._first_look import LOOKS

SAMPLE = "nsight_compute/transformer_layer.raw.csv"
STATS = """"Name","Calls","TotalDurationNs","AverageNs","Percentage"
"{name}(float*)",10,1000000,100000.0,100
"""


def stats(path: Path, name: str = "kern_a") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(STATS.format(name=name))
    return path


def sample(samples: Path, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(samples / SAMPLE, path)
    return path


def test_the_same_content_is_read_once_and_said(tmp_path: Path) -> None:
    first, *copies = (stats(tmp_path / f"{at}_kernel_stats.csv") for at in range(3))
    recording = detect.read([first, *copies])
    assert recording.kernels.num_rows == 1
    (source,) = recording.sources
    (note,) = source.notes
    assert note.severe
    assert note.count == 2
    assert note.text == (
        f"read once: the same content was given again as {copies[0]}, {copies[1]}"
    )  # fmt: skip


def test_content_of_the_same_size_may_differ(tmp_path: Path) -> None:
    """kern_a and kern_b: as many bytes, not the same ones."""
    one = stats(tmp_path / "1_kernel_stats.csv")
    other = stats(tmp_path / "2_kernel_stats.csv", "kern_b")
    assert one.stat().st_size == other.stat().st_size
    recording = detect.read([one, other, one], mode="ranks")
    assert [len(one.notes) for one in recording.sources] == [1, 0]
    assert recording.kernels["kernel_name"].to_pylist() == ["kern_a(float*)", "kern_b(float*)"]


def test_content_with_equal_ends_may_differ(tmp_path: Path) -> None:
    """As many bytes, and the same 4 kB at both ends: only the name in the middle tells them apart."""
    head, row = STATS.format(name="filler").splitlines()
    files = []
    for name in ("kern_a", "kern_b"):
        rows = [*([row] * 200), row.replace("filler", name), *([row] * 200)]
        path = tmp_path / f"{name}_kernel_stats.csv"
        path.write_text("\n".join([head, *rows]) + "\n")
        files.append(path)
    recording = detect.read(files, mode="ranks")
    assert len(recording.sources) == 2
    assert {"kern_a(float*)", "kern_b(float*)"} < {*recording.kernels["kernel_name"].to_pylist()}


def test_a_reader_is_read_to_its_end(tmp_path: Path) -> None:
    """Cut off, its processes would be ended rather than let go."""
    ended = []

    def reader(
        files: Sequence[File], progress: Progress, options: Options
    ) -> Iterator[Recording | TraceroofError]:
        yield from detect.in_turn(files, progress, options)
        ended.append(len(files))

    detect.read_each([stats(tmp_path / "1_kernel_stats.csv")], reader=reader)
    assert ended == [1]


def test_copies_in_and_across_folders_are_read_once(samples: Path, tmp_path: Path) -> None:
    for name in ("base/0", "base/1", "base/2", "more/0"):
        sample(samples, tmp_path / f"{name}.csv")
    recording = detect.read([tmp_path / "base", tmp_path / "more"])
    assert len(recording.sources) == 1
    assert recording.kernels.num_rows == 17
    assert [note.count for note in recording.notes if "read once" in note.text] == [3]


def test_a_profile_folder_given_twice_is_read_once(tmp_path: Path) -> None:
    stats(tmp_path / "a" / "results.stats.csv")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    assert detect.read([tmp_path / "a", tmp_path / "b"]).kernels.num_rows == 1


def test_copies_of_a_run_are_no_further_runs(samples: Path, tmp_path: Path) -> None:
    sides = []
    for name in ("base", "head"):
        for at in range(5):
            sample(samples, tmp_path / name / f"{at}.csv")
        sides.append(Run(recording=detect.read([tmp_path / name]), name=name))
    made = compare(*sides)
    assert made.samples == (1, 1)
    assert made.sampled == "none"


def test_other_files_are_said_of_their_folder(samples: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pair"
    sample(samples, folder / "kernel_0001.csv")
    (folder / "command.yaml").write_text("ncu: --set full\n")
    texts = [note.text for note in detect.read([folder]).notes]
    assert f"other files in {folder.name} are not profiler files, skipped: command.yaml" in texts


def test_a_folder_without_profiles_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello\n")
    with pytest.raises(TraceroofError, match="no profiler file in"):
        detect.read([tmp_path])


def _all_files(*folders: Path) -> list[Path]:
    return [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]


def _not_asked(path: Path) -> set[str]:
    """The parsers that would know a file and are not asked after the first look."""
    try:
        head = decompress.head(path, HEAD_BYTES)
    except TraceroofError:
        return set()
    asked = {one.name for one in plugins.parsers_for(head)}
    known = {one.name for one in plugins.parsers() if head and one.recognises(head, path)}
    return known - asked


def test_a_parser_that_knows_a_file_is_asked(samples: Path) -> None:
    files = _all_files(samples, Path(__file__).parents[1] / "field_cases")
    assert {path: lost for path in files if (lost := _not_asked(path))} == {}


@pytest.mark.corpus
def test_a_parser_that_knows_a_real_file_is_asked(corpus: Path) -> None:
    files = _all_files(corpus)
    assert {path: lost for path in files if (lost := _not_asked(path))} == {}


def test_a_first_look_leaves_most_parsers_unloaded(samples: Path) -> None:
    """A table of Nsight Compute is no JSON, no database, no binary and no table of AMD's tools."""
    asked = {one.name for one in plugins.parsers_for((samples / SAMPLE).read_bytes())}
    assert {"nsight-compute-csv", "nsight-compute-text"} <= asked
    assert not asked & {"rocprofv3-csv", "rocpd", "torch-profiler", "nsight-systems"}
    trace = (samples / "torch/training.rank0.json").read_bytes()[:HEAD_BYTES]
    asked = {one.name for one in plugins.parsers_for(trace)}
    assert "torch-profiler" in asked
    assert not asked & {"hipprof", "nsys-stats", "nvprof", "proton", "rocprofv3-json", "rpd"}


def test_every_first_look_is_at_a_parser() -> None:
    modules = {path.stem for path in (Path(__file__).parents[2] / "parsers").glob("[a-z]*.py")}
    assert set(LOOKS) <= modules


def test_a_timeline_of_another_tool_in_a_folder_is_left_out(samples: Path, tmp_path: Path) -> None:
    """GIVEN a trace of Nsight Systems, and in its folder one of XLA with fewer and other kernels
    WHEN the folder is read THEN the trace alone, and a note that names the other file."""
    shutil.copy(samples / "nsight_systems/training.gpu_trace.csv", tmp_path)
    shutil.copy(samples / "xplane/step.xplane.pb", tmp_path)
    found = traceroof.read(tmp_path).recording
    assert {one.format for one in found.sources} == {"nsys-stats"}
    said = [one for one in found.notes if "left out" in one.text]
    assert [(one.count, "step.xplane.pb" in one.text, one.severe) for one in said] == [
        (1, True, True)
    ]
