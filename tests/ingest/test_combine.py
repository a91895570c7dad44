"""Several files, one program: passes unite, parts and ranks stand side by side, repeats beside."""

import csv
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import traceroof
from traceroof.compare.samples import runs_of
from traceroof.core.kernel_table import COLUMNS, KERNELS, kernel_table
from traceroof.core.recording import DeviceInfo, Recording, Run, Source
from traceroof.core.source_lines import source_table
from traceroof.diagnosis.diagnose import diagnose
from traceroof.errors import TraceroofError
from traceroof.ingest.combine import combine
from traceroof.ingest.detect import read
from traceroof.ingest.gpu_models import of_one_gpu
from traceroof.ingest.roles import said
from traceroof.kernels.variants import of_rows


def _recording(path: str, basis: str = "counter-tool", **columns: Any) -> Recording:
    kernels = kernel_table({"source": [0] * len(columns["kernel_name"]), **columns})
    return Recording(
        format="test",
        time_basis=basis,  # type: ignore[arg-type]
        kernels=kernels,
        sources=(Source(path, "test", kernels.num_rows),),
        devices=(DeviceInfo(index=0, name="NVIDIA A100-SXM4-80GB"),),
    )


def _roles(recording: Recording) -> list[str]:
    return [source.role for source in recording.sources]


def test_passes_unite() -> None:
    """GIVEN the same launches with other metrics WHEN combined THEN a row per launch, columns
    united, durations the median of the passes."""
    names = ["a", "b", "a"]
    first = _recording(
        "1", kernel_name=names, duration_ns=[100, 50, 102], l2_hit_pct=[1.0, 2.0, 3.0]
    )
    second = _recording(
        "2", kernel_name=names, duration_ns=[104, 50, 102], l1_hit_pct=[7.0, 8.0, 9.0]
    )
    made = combine([first, second])
    assert made.kernels.num_rows == 3
    assert made.kernels["duration_ns"].to_pylist() == [102, 50, 102]
    assert made.kernels["l2_hit_pct"].to_pylist() == [1.0, 2.0, 3.0]
    assert made.kernels["l1_hit_pct"].to_pylist() == [7.0, 8.0, 9.0]
    assert _roles(made) == ["pass", "pass"]
    assert [source.launches for source in made.sources] == [3, 0]
    assert made.notes == ()


def test_a_later_pass_of_some_kernels() -> None:
    """GIVEN a second file of one kernel, all its launches or one of them WHEN combined THEN its
    values reach the launches they were measured on, or stand for all of that kernel."""
    first = _recording("1", kernel_name=["a", "b", "a"], duration_ns=[10, 20, 30])
    every = _recording("2", kernel_name=["a", "a"], l1_hit_pct=[5.0, 6.0])
    assert combine([first, every]).kernels["l1_hit_pct"].to_pylist() == [5.0, None, 6.0]
    one = _recording("2", kernel_name=["a"], l1_hit_pct=[5.0])
    made = combine([first, one])
    assert made.kernels["l1_hit_pct"].to_pylist() == [5.0, None, 5.0]
    assert [str(note) for note in made.notes] == [
        "launches whose counters are the median of the launches that a later pass holds (2 times)"
    ]


def test_passes_that_differ_are_noted() -> None:
    """GIVEN a column in two passes, 10 % apart WHEN combined THEN the median, and a note."""
    first = _recording("1", kernel_name=["a"], duration_ns=[100], l2_hit_pct=[1.0])
    second = _recording("2", kernel_name=["a"], duration_ns=[110], l1_hit_pct=[1.0])
    made = combine([first, second])
    assert made.kernels["duration_ns"].to_pylist() == [105]
    assert [str(note) for note in made.notes] == [
        "values that differ by more than 5% between passes, their median taken (duration_ns)"
    ]


def test_parts_stand_below_one_another() -> None:
    """GIVEN files of other kernels on one GPU WHEN combined THEN put together."""
    first = _recording("1", kernel_name=["a"], duration_ns=[100])
    second = _recording("2", kernel_name=["b"], duration_ns=[110])
    made = combine([first, second])
    assert made.kernels["kernel_name"].to_pylist() == ["a", "b"]
    assert _roles(made) == ["part", "part"]


def test_repeats_stand_beside() -> None:
    """GIVEN three runs of the same thing WHEN combined THEN the one of median time is judged."""
    runs = [
        _recording(
            str(time), kernel_name=["a", "b"], duration_ns=[time, time], l2_hit_pct=[1.0, 1.0]
        )
        for time in (300, 100, 200)
    ]
    made = combine(runs)
    assert _roles(made) == ["repeat", "repeat", "counters"]
    assert diagnose(made).totals.kernel_time_ns == 400
    assert made.judged().kernels["source"].to_pylist() == [2, 2]


def test_repeats_of_a_timeline() -> None:
    """GIVEN two timelines, one after the other, without ranks WHEN combined THEN the lower one."""
    runs = [
        _recording(str(at), "timeline", kernel_name=["a", "b"], duration_ns=[9 + at, 5],
                   start_ns=[at * 1000, at * 1000 + 500])
        for at in (1, 2)
    ]  # fmt: skip
    made = combine(runs)
    assert _roles(made) == ["timeline", "repeat"]
    assert diagnose(made).totals.kernel_time_ns == 15


def test_ranks_stand_side_by_side() -> None:
    """GIVEN timelines of two ranks WHEN combined THEN both count."""
    runs = [
        _recording(
            str(rank), "timeline", kernel_name=["a"], duration_ns=[10], start_ns=[5], rank=[rank]
        )
        for rank in (0, 1)
    ]
    made = combine(runs)
    assert _roles(made) == ["rank", "rank"]
    assert diagnose(made).totals.kernel_time_ns == 20


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"kernel_name": ["a", "x", "y", "z"], "l1_hit_pct": [1.0] * 4}, "another build"),
        ({"kernel_name": ["q"], "process_name": ["other"], "l1_hit_pct": [1.0]}, "two programs"),
    ],
)
def test_two_programs_are_refused(other: dict[str, Any], reason: str) -> None:
    """GIVEN files of two programs WHEN combined THEN one sentence, and nothing is added up."""
    first = _recording(
        "1", kernel_name=["a", "b", "c", "d"], duration_ns=[1, 2, 3, 4], process_name=["mine"] * 4
    )
    with pytest.raises(TraceroofError, match=reason) as raised:
        combine([first, _recording("2", **other)])
    assert "--combine separate" in (raised.value.hint or "")


def test_two_gpu_models_are_refused() -> None:
    """GIVEN counters of an A100 and an H100 WHEN combined THEN refused by name."""
    first = _recording("1", kernel_name=["a"], duration_ns=[1])
    second = replace(first, devices=(DeviceInfo(index=0, name="NVIDIA H100 80GB HBM3"),))
    with pytest.raises(TraceroofError, match="A100-SXM4-80GB.*H100-SXM5-80GB"):
        combine([first, second])


def test_what_was_decided_is_said() -> None:
    """GIVEN roles WHEN told THEN one line with the number of files; nothing for one file."""
    assert said(["pass", "pass"]) == "2 files are passes of one program: one row per launch"
    assert said(["timeline", "repeat"]).startswith("2 files are runs of the same program")
    assert said([""]) == ""


# A recording, cut in two, is whole again


def _by_columns(whole: Recording) -> tuple[Recording, Recording]:
    """Half of the metrics each; both know the launches and their times."""
    counted = [
        one.name for one in COLUMNS
        if one.group not in ("identity", "time", "launch") and one.type in (pa.float64(),)
        and whole.kernels[one.name].null_count < whole.kernels.num_rows
    ]  # fmt: skip
    halves = []
    for drop in (counted[::2], counted[1::2]):
        kernels = whole.kernels
        for name in drop:
            at = kernels.column_names.index(name)
            nulls = pa.nulls(kernels.num_rows, KERNELS.field(name).type)
            kernels = kernels.set_column(at, KERNELS.field(name), nulls)
        halves.append(replace(whole, kernels=kernels))
    return halves[0], halves[1]


def _by_kernels(whole: Recording) -> tuple[Recording, Recording]:
    """Every second kernel name in a file of its own."""
    names = whole.kernels["kernel_name"].cast(pa.string()).to_pylist()
    numbers = {name: at for at, name in enumerate(dict.fromkeys(names))}
    odd = np.array([numbers[name] % 2 == 1 for name in names])
    marked = [replace(one, role="repeat") for one in whole.sources]
    halves = []
    for drop in (odd, ~odd):
        source = pa.array(np.where(drop, 0, 1))
        at = whole.kernels.column_names.index("source")
        kernels = whole.kernels.set_column(at, KERNELS.field("source"), source)
        cut = replace(whole, kernels=kernels, sources=(marked[0], replace(marked[0], role="")))
        kept = cut.judged()
        zero = pa.array(np.zeros(kept.kernels.num_rows, dtype=np.int64))
        kernels = kept.kernels.set_column(at, KERNELS.field("source"), zero)
        halves.append(replace(kept, kernels=kernels, sources=whole.sources))
    return halves[0], halves[1]


def _judgement(recording: Recording) -> Any:
    """The diagnosis, without what names the files and numbers kernels: kernels and findings of equal
    weight may change places with the order of the rows, and with them which of them are asked about."""
    made = diagnose(Run(recording, "x")).to_dict()
    for name in ("run", "notes", "next_capture"):
        made.pop(name)
    lacking = made["not_judged"]
    made["not_judged"] = lacking and (lacking["what"], sorted(lacking["missing"]))
    made["kernels"] = _sorted({**one, "number": 0} for one in made["kernels"])
    made["findings"] = _sorted({**one, "subject_index": 0} for one in made["findings"])
    made["advice"] = _sorted(
        {
            **one, "rank": 0,
            **{name: sorted(ref.split(":")[0] for ref in one[name]) for name in ("findings", "includes")},
            "subjects": sorted(one["subjects"]),
        }
        for one in made["advice"]
    )  # fmt: skip
    return made


def _sorted(entries: Iterable[Any]) -> list[Any]:
    return sorted(entries, key=lambda one: json.dumps(one, sort_keys=True, default=str))


SAMPLES = (
    "transformer_layer.raw.csv",
    "transformer_layer.details.csv",
    "transformer_layer.metrics.csv",
)


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("cut", [_by_columns, _by_kernels])
def test_a_sample_cut_in_two_is_whole_again(root: Path, name: str, cut: Any) -> None:
    """GIVEN a sample cut by metrics or by kernels WHEN combined THEN the diagnosis of the whole."""
    whole = traceroof.read(root / "sample_traces" / "nsight_compute" / name).recording
    first, second = cut(whole)
    made = combine([first, second])
    assert _judgement(made) == _judgement(whole)


@pytest.mark.corpus
@pytest.mark.parametrize("cut", [_by_columns, _by_kernels])
@pytest.mark.parametrize("folder", ["ncu_csv", "ncu_rep"])
def test_corpus_files_cut_in_two_are_whole_again(corpus: Path, folder: str, cut: Any) -> None:
    """GIVEN every Nsight Compute file of the corpus with two kernels or metrics WHEN cut and combined
    THEN the diagnosis is that of the whole."""
    checked = 0
    for path in sorted((corpus / folder).iterdir()):
        try:
            whole = traceroof.read(path).recording
        except TraceroofError:
            continue
        first, second = cut(whole)
        if first.kernels.equals(second.kernels) or not (
            first.kernels.num_rows and second.kernels.num_rows
        ):
            continue
        made = combine([first, second])
        assert made.kernels.num_rows == whole.kernels.num_rows, path
        mine, theirs = _judgement(made), _judgement(whole)
        for name in theirs:
            assert mine[name] == theirs[name], (path, name)
        checked += 1
    assert checked > 3


def test_files_through_the_library_and_the_store(root: Path, tmp_path: Path) -> None:
    """GIVEN a raw page cut in two by metrics WHEN ingested one into the other THEN one run of 17
    launches with the time of one pass; the old run is still there."""
    whole = root / "sample_traces" / "nsight_compute" / "transformer_layer.raw.csv"
    rows = list(csv.reader(whole.read_text().splitlines()))
    named = [
        at for at, title in enumerate(rows[0]) if "__" not in title or "time_duration" in title
    ]
    metrics = [at for at in range(len(rows[0])) if at not in named]
    for name, kept in (("a.csv", metrics[::2]), ("b.csv", metrics[1::2])):
        with (tmp_path / name).open("w", newline="") as file:
            csv.writer(file).writerows([[row[at] for at in (*named, *kept)] for row in rows])
    store = tmp_path / "store"
    first = traceroof.ingest(tmp_path / "a.csv", store=store)
    both = traceroof.ingest(tmp_path / "b.csv", store=store, into=first.id)
    assert both.id != first.id
    assert len(both.kernels) == 17
    alone = traceroof.read(whole)
    assert int(both.kernels.duration_ns.sum()) == int(alone.kernels.duration_ns.sum())
    mine, theirs = diagnose(both), diagnose(alone)
    assert [one.primary_class for one in mine.kernels] == [
        one.primary_class for one in theirs.kernels
    ]
    assert traceroof.ingest(tmp_path / "b.csv", store=store, into=first.id).id == both.id


def _rank_file(path: str, rank: int, duration: int, start: int) -> Recording:
    return _recording(
        path, "timeline", kernel_name=["a", "b"], rank=[rank] * 2, device=[0] * 2,
        start_ns=[start, start + 1000], duration_ns=[duration] * 2,
    )  # fmt: skip


def test_runs_of_ranks_are_no_sum() -> None:
    """GIVEN three runs of two ranks each WHEN combined THEN the run of median time is judged, the
    others are samples of a comparison."""
    files = [
        _rank_file(f"run{run}.rank{rank}", rank, duration, run * 100_000)
        for run, duration in enumerate((300, 100, 200))
        for rank in (0, 1)
    ]
    made = combine(files)
    assert _roles(made) == ["repeat", "repeat", "repeat", "repeat", "rank", "rank"]
    # 2 ranks with 2 kernels of 200 ns.
    assert diagnose(made).totals.kernel_time_ns == 800
    assert said(_roles(made)) == (  # type: ignore[arg-type]
        "6 files are 3 runs of the same 2 ranks: the run of median time is judged"
    )
    entries = of_rows(made.kernels).by_step
    group = np.zeros(12, dtype=np.int64)
    runs = runs_of(entries, made.kernels, group, np.ones(12), made.sources)
    assert (runs.count, runs.of_source.tolist()) == (3, [0, 0, 1, 1, 2, 2])


def test_two_architectures_are_two_gpus() -> None:
    """GIVEN files that name no GPU but its compute capability WHEN it differs THEN that is the reason,
    not the kernels; HIP's pair, which several GPUs share, is none."""
    one = _recording("1", kernel_name=["a"], duration_ns=[1])
    other = _recording("2", kernel_name=["b"], duration_ns=[1])
    turing = replace(one, devices=(DeviceInfo(compute_capability="7.5"),))
    blackwell = replace(other, devices=(DeviceInfo(compute_capability="10.0"),))
    with pytest.raises(TraceroofError, match=r"1 was recorded on compute capability 7\.5, 2 on"):
        combine([turing, blackwell])
    # The A100 of the other file has 8.0 (CUDA programming guide, compute capabilities).
    ampere = replace(one, devices=(DeviceInfo(compute_capability="8.0"),))
    assert _roles(combine([ampere, other])) == ["part", "part"]
    cdna = replace(one, devices=(DeviceInfo(gfx_target="gfx942:sramecc+", index=0),))
    hip = replace(other, devices=(DeviceInfo(compute_capability="9.4", wavefront=64),))
    assert _roles(combine([cdna, hip])) == ["part", "part"]


def test_a_file_that_names_its_architecture_alone_is_of_another_gpu() -> None:
    """GIVEN a file of an A100, one of compute capability 8.0 and one of 12.0, both without a model
    THEN the last is foreign."""
    named = _recording("1", kernel_name=["a"], duration_ns=[100])
    same, other = (
        replace(named, devices=(DeviceInfo(index=0, compute_capability=capability),))
        for capability in ("8.0", "12.0")
    )
    second = replace(named, devices=(DeviceInfo(index=0, name="NVIDIA H100 PCIe"),))
    kept, foreign = of_one_gpu([named, same, other, second])
    assert kept == [named, same]
    assert foreign == [other, second]


def test_views_of_source_pages_give_way_to_counters() -> None:
    """GIVEN counters with a stall share and a source page that adds up samples to another one THEN
    the counters' stands, and the lines come from the page."""
    shape: Any = {f"{what}_{axis}": [2] for what in ("grid", "block") for axis in "xyz"}
    counted = _recording(
        "1",
        kernel_name=["f(int)"],
        duration_ns=[100],
        stall_wait=[0.2],
        stalls_from=["rates"],
        **shape,
    )
    lines = source_table({"row": [0], "line": [12], "samples": [7]}, 1)
    page = replace(
        _recording("2", kernel_name=["f"], stall_wait=[0.5], stalls_from=["pc-samples"]),
        source_lines=lines,
    )
    made = combine([page, counted])
    assert made.kernels["stall_wait"].to_pylist() == [0.2]
    assert made.kernels["kernel_name"].to_pylist() == ["f(int)"]
    assert made.source_lines["samples"].to_pylist() == [7]
    assert not made.notes


def cuda_trace(path: Path, device: int, length: int) -> Path:
    """A GPU trace of ``nsys stats``: four launches from 1 ms on, on the clock of its session."""
    header = ("Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),"
              "DymSMem (MB),Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,Strm,Name")  # fmt: skip
    rows = [f"{1_000_000 + at * 20_000},{length},{at},8,1,1,128,1,1,32,0.000,0.000,,,,,"
            f"NVIDIA A100 ({device}),1,7,k(int)" for at in range(4)]  # fmt: skip
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def test_runs_whose_clocks_begin_at_zero(tmp_path: Path) -> None:
    """GIVEN two traces that name no process, on one GPU THEN runs, and what is unclear is said."""
    paths = [cuda_trace(tmp_path / f"{at}.csv", 0, 10_000 + at) for at in range(2)]
    made = read(paths)
    assert [one.role for one in made.sources] == ["timeline", "repeat"]
    assert [note for note in made.notes if "nothing tells runs from ranks" in note.text]
    assert [one.role for one in read(paths, mode="ranks").sources] == ["rank", "rank"]


def test_ranks_whose_clocks_begin_at_zero(tmp_path: Path) -> None:
    """GIVEN the same of two GPUs THEN they are ranks."""
    made = read([cuda_trace(tmp_path / f"{at}.csv", at, 10_000) for at in range(2)])
    assert [one.role for one in made.sources] == ["rank", "rank"]


def test_a_folder_for_each_rank(tmp_path: Path) -> None:
    """GIVEN traces in folders of a folder THEN all are read, ranks by the names of the folders."""
    for rank in range(2):
        (tmp_path / f"rank_{rank}").mkdir()
        events = [{"ph": "X", "cat": "kernel", "name": "k", "pid": rank, "tid": 7,
                   "ts": 1000 + 10 * at, "dur": 5, "args": {"device": rank, "stream": 7}}
                  for at in range(4)]  # fmt: skip
        events.append({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 2})
        text = json.dumps({"schemaVersion": 1, "traceEvents": events})
        (tmp_path / f"rank_{rank}" / "t.pt.trace.json").write_text(text)
    made = read([tmp_path])
    assert made.kernels["rank"].to_pylist() == [0] * 4 + [1] * 4
