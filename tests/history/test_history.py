"""The history of a store: which runs, which series, which changes, and what the command says."""

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import traceroof
from tests.runs import recording
from traceroof.cli.main import app
from traceroof.config.settings import Accepted
from traceroof.core.recording import DeviceInfo, Recording
from traceroof.errors import TraceroofError
from traceroof.history.gates import checked, failing
from traceroof.history.history import History, Wanted, history_of
from traceroof.history.summary import summary_of
from traceroof.report.history import csv, page, terminal
from traceroof.store import Store
from traceroof.store.summaries import Kept, Origin, Series, Summary

runner = CliRunner()


def stepped_recording() -> Recording:
    """Three steps on one GPU; the first is warm-up: 3,000 ns against 1,000 and 1,000.

    Steady: gemm 500 and 500, copy 100 and 100; idle 400 of each step that another follows, and the
    last ends with its work.
    """
    return recording(
        {
            "kernel_name": ["gemm", "gemm", "Memcpy DtoD", "gemm", "Memcpy DtoD"],
            "kind": ["kernel", "kernel", "memcpy", "kernel", "memcpy"],
            "start_ns": [0, 3000, 3500, 4000, 4900],
            "duration_ns": [3000, 500, 100, 500, 100],
            "step": ["s#1", "s#2", "s#2", "s#3", "s#3"],
            "device": [0] * 5,
        },
        time_basis="timeline",
        devices=(DeviceInfo(index=0, name="NVIDIA H100 80GB HBM3"),),
    )


def figures(summary: Summary) -> dict[tuple[str, str], tuple[float, float | None]]:
    return {(one.level, one.name): (one.value, one.launches) for one in summary.figures}


def test_a_summary_is_of_a_steady_step() -> None:
    """GIVEN a warm-up step and two steady ones WHEN summarised THEN times are those of one step."""
    made = summary_of(stepped_recording())
    assert (made.per, made.device) == ("run", "H100-SXM5-80GB")  # 1,000 of 4,000 ns are steady
    found = figures(made)
    assert found["metric", "kernel-time"] == (4000.0, None)
    assert found["metric", "wall-time"] == (5000.0, None)
    assert found["metric", "idle-time"] == (800.0, None)
    assert found["metric", "launches"] == (3.0, None)
    assert found["category", "memcpy"] == (200.0, 2.0)
    assert found["kernel", "gemm"] == (4000.0, 3.0)


def test_steps_count_where_they_hold_the_time() -> None:
    """GIVEN steps of 1,000 ns without warm-up WHEN summarised THEN per step: 500 ns of gemm."""
    made = recording(
        {
            "kernel_name": ["gemm"] * 4,
            "start_ns": [0, 1000, 2000, 3000],
            "duration_ns": [500, 500, 500, 500],
            "step": ["s#1", "s#2", "s#3", "s#4"],
        },
        time_basis="timeline",
    )
    summary = summary_of(made)
    found = figures(summary)
    assert summary.per == "step"
    assert found["kernel", "gemm"] == (500.0, 1.0)
    assert found["metric", "step-time"] == (1000.0, None)
    assert ("metric", "wall-time") not in found


def test_counter_tools_and_unknown_times_have_no_wall_time() -> None:
    made = recording({"kernel_name": ["a", "b"], "duration_ns": [5, None]})
    found = figures(summary_of(made))
    assert found == {
        ("metric", "kernel-time"): (5.0, None),
        ("metric", "launches"): (2.0, None),
        ("category", "other"): (5.0, 2.0),
        ("kernel", "a"): (5.0, 1.0),
    }


KEYS = {1: Series("metric", "kernel-time"), 2: Series("category", "gemm"),
        3: Series("kernel", "fast_gemm<float>"), 4: Series("metric", "launches")}  # fmt: skip
FIRST = datetime(2026, 1, 1, tzinfo=UTC)


def kept(at: int, time: float, **more: Any) -> Kept:
    """The run of day ``at`` with 1,000 launches, all its time in one kernel."""
    when = (FIRST + timedelta(days=at)).isoformat(timespec="seconds")
    given: dict[str, Any] = {
        "run": f"{at:012x}", "name": "nightly", "created": when, "sequence": at,
        "time_basis": "timeline",
        "origin": Origin(f"{at:040x}", when, "main", False, None),
        "device": "H100", "per": "run", "series": [1, 2, 3, 4],
        "values": [time, time, time, 1000.0], "launches": [None, 1000.0, 1000.0, None],
    }  # fmt: skip
    return Kept(**{**given, **more})


def nightly(slower: float = 1.06, runs: int = 40) -> list[Kept]:
    """Half of the runs at 10 ms with 0.5 % noise, then slower."""
    random = np.random.default_rng(5)
    noise = 1 + 0.005 * random.standard_normal(runs)
    return [
        kept(at, 10e6 * one * (slower if at >= runs // 2 else 1.0))
        for at, one in enumerate(noise.tolist())
    ]


def test_a_change_names_the_commits_between_which_it_happened() -> None:
    """GIVEN 40 nightly runs, 6 % slower from run 20 on WHEN asked THEN one event with the commits
    of runs 19 and 20, led by the whole, with the category and the kernel."""
    made = history_of(nightly(), KEYS, Wanted())
    assert [(one.level, one.series, one.at) for one in made.changes] == [
        ("metric", "kernel-time", 20), ("category", "gemm", 20),
        ("kernel", "fast_gemm<float>", 20),
    ]  # fmt: skip
    (event,) = made.events()
    lead = event.lead
    assert (lead.last.origin.commit, lead.first.origin.commit) == (f"{19:040x}", f"{20:040x}")
    assert lead.slower
    assert lead.point.ratio == pytest.approx(0.06, abs=0.005)
    text = terminal.render(made, width=100)
    assert "between 0000000000 (run 000000000013) and 0000000000 (run 000000000014)" in text
    assert "with it: gemm (category) +" in text
    assert "▁" in text


def test_runs_are_ordered_by_their_commits_and_dirty_ones_by_their_day() -> None:
    """GIVEN an old commit measured late WHEN asked THEN it stands at its commit; a run with changes
    is newer than its commit."""
    runs = nightly(1.0, 10)
    late = runs[2]
    runs[2] = kept(2, 10e6, created="2026-06-01T00:00:00+00:00", sequence=99)
    dirty = kept(5, 10e6, run="d" * 12, created="2026-07-01T00:00:00+00:00", sequence=100,
                 origin=Origin(f"{5:040x}", late.created, "main", True, None))  # fmt: skip
    made = history_of([*runs, dirty], KEYS, Wanted())
    assert [one.run for one in made.runs] == [*(one.run for one in runs), "d" * 12]
    assert made.runs[-1].code == "0000000000+"


def test_only_runs_that_compare_are_one_history() -> None:
    """GIVEN runs of other names, GPUs and branches WHEN asked THEN those like the newest, and the
    others are told."""
    runs = [*nightly(1.0, 8), kept(20, 1e6, name="other"), kept(21, 5e6, device="A100"),
            kept(22, 10e6)]  # fmt: skip
    made = history_of(runs, KEYS, Wanted())
    assert (len(made.runs), made.device) == (9, "H100")
    assert made.notes == (
        "left out: 1 run of this name on another GPU, of another kind of times, or per step",
    )
    assert history_of(runs, KEYS, Wanted(name="other")).workload == "other"
    assert len(history_of(runs, KEYS, Wanted(name="*")).runs) == 10
    assert len(history_of(runs, KEYS, Wanted(device="a100")).runs) == 1
    assert len(history_of(runs, KEYS, Wanted(last=3)).runs) == 3
    for wrong, says in (
        (Wanted(branch="mian"), "did you mean main"), (Wanted(name="nightli"), "did you mean"),
        (Wanted(device="H200"), "did you mean H100"), (Wanted(series=["gem2"]), "gemm"),
    ):  # fmt: skip
        with pytest.raises(TraceroofError) as error:
            history_of(runs, KEYS, wrong)
        assert says in error.value.hint
    with pytest.raises(TraceroofError, match="holds no run"):
        history_of([], KEYS, Wanted())


def test_series_are_named_by_metric_category_or_part_of_a_kernel() -> None:
    def names(*wanted: str) -> list[str]:
        return [one.name for one in history_of(nightly(), KEYS, Wanted(wanted)).series]

    assert names("kernel-time", "GEMM") == ["kernel-time", "gemm"]
    assert names("fast_") == ["fast_gemm<float>"]
    assert names("*gemm<*>") == ["fast_gemm<float>"]


def test_a_change_within_one_commit_is_not_the_code() -> None:
    runs = [
        kept(at, one.values[0], origin=Origin("a" * 40, None, "main", False, None))
        for at, one in enumerate(nightly())
    ]
    made = history_of(runs, KEYS, Wanted(["kernel-time"]))
    assert made.changes[0].same_code
    assert "not the code (driver, clocks, machine)" in terminal.render(made, width=140)


def test_gates_look_at_the_newest_runs() -> None:
    """GIVEN a slowdown 20 runs ago WHEN a gate looks THEN at 20 runs it fails, at 19 it does not;
    an accepted kernel passes until its day, and a speed-up is a change but no regression."""
    made = history_of(nightly(), KEYS, Wanted())
    assert {one.series for one in failing(made, ["regression"], 20)} >= {"kernel-time"}
    assert not failing(made, ["change"], 19)
    known = [Accepted("fast_*", date(2027, 1, 31), "exact")]
    named = [one.series for one in failing(made, ["change"], 20, known, date(2027, 1, 31))]
    assert named == ["kernel-time", "gemm"]
    assert len(failing(made, ["change"], 20, known, date(2027, 2, 1))) == 3
    faster = history_of(nightly(0.94), KEYS, Wanted())
    assert failing(faster, ["change"], 20)
    assert not failing(faster, ["regression"], 20)
    with pytest.raises(TraceroofError, match="not a gate of `history`"):
        checked(["changes"])


def test_every_format_says_the_same() -> None:
    """GIVEN one history WHEN written as JSON, CSV and HTML THEN the same values and changes."""
    made: History = history_of(nightly(), KEYS, Wanted(["kernel-time"]))
    form = json.loads(json.dumps(made.to_dict()))
    assert form["schema"] == "traceroof/history/1"
    (series,) = form["series"]
    assert series["values"] == [one.values[0] for one in nightly()]
    assert series["changes"] == [20] == [one["at"] for one in form["changes"]]
    rows = csv.render(made).splitlines()
    assert len(rows) == 1 + 40
    assert rows[21].split(",")[-1].startswith("5.") or rows[21].split(",")[-1].startswith("6.")
    html = page.render(made)
    assert html.count('<circle class="run"') == 40
    assert html.count('class="mark slower"') == 1
    assert "<script" not in html
    assert page.render(made) == html


def test_names_cannot_write_into_the_page() -> None:
    keys = {**KEYS, 3: Series("kernel", "<script>alert(1)</script>")}
    runs = [kept(at, 1e6, name="<b>") for at in range(3)]
    html = page.render(history_of(runs, keys, Wanted()))
    assert "<script" not in html
    assert "<b>" not in html


def stored(folder: Path, url: str | None, runs: int = 12, slower: float = 1.2) -> Store:
    """A store with so many runs, slower from half-way on."""
    store = Store.open(folder, url)
    for at in range(runs):
        time = int(1e6 * (slower if at >= runs // 2 else 1.0)) + at % 3
        made = recording({"kernel_name": ["gemm_kernel"], "duration_ns": [time]})
        when = (FIRST + timedelta(days=at)).isoformat(timespec="seconds")
        origin = Origin(f"{at:040x}", when, "main", at == 3, "https://ci/1")
        store.add(made, name="n", digest=f"{at + 1:064x}", summary=summary_of(made), origin=origin)
    return store


def test_both_catalogues_keep_the_history(tmp_path: Path, url: str | None) -> None:
    """GIVEN a store in SQLite or PostgreSQL WHEN runs are added THEN their figures and origins come
    back; a removed run is gone from it."""
    store = stored(tmp_path / "s", url)
    made = history_of(*store.history(), Wanted())
    assert [one.origin.commit for one in made.runs if not one.origin.dirty] == [
        f"{at:040x}" for at in range(12) if at != 3
    ]
    lead = made.changes[0]
    assert (lead.series, lead.last.origin.commit) == ("kernel-time", f"{5:040x}")
    first = made.runs[0].run
    assert store.origin(first) == Origin("0" * 40, FIRST.isoformat(), "main", False, "https://ci/1")
    store.remove(first)
    assert len(history_of(*store.history(), Wanted()).runs) == 11


def test_the_origin_of_stored_bytes_stays_unless_it_is_told(
    tmp_path: Path, url: str | None
) -> None:
    """GIVEN a run WHEN the same bytes are ingested from another commit THEN they still are of the
    first, as nothing was measured; with --commit they move."""
    store = stored(tmp_path / "s", url, runs=1)
    made = store.get().recording
    run = store.get().id
    there = Origin("f" * 40, None, "work", None, None)
    again: dict[str, Any] = {
        "digest": f"{1:064x}", "summary": summary_of(made), "origin": there,
    }  # fmt: skip
    store.add(made, **again)
    assert store.origin(run) == Origin("0" * 40, FIRST.isoformat(), "main", False, "https://ci/1")
    store.add(made, **again, moved=True)
    assert store.origin(run) == there


def test_an_older_store_is_summarised_once(tmp_path: Path, url: str | None) -> None:
    """GIVEN runs of an older traceroof WHEN the history is asked for THEN they are in it, by the day
    that they were ingested, of no commit."""
    store = Store.open(tmp_path / "s", url)
    for at in range(2):
        made = recording({"kernel_name": ["k"], "duration_ns": [10 + at]})
        store.add(made, name="n", digest=f"{at + 1:064x}")
    assert len(store.without_summary()) == 2
    if url is None:
        made_history = traceroof.history(store=tmp_path / "s", config=False)
        assert [one.code for one in made_history.runs] == ["", ""]
        assert store.without_summary() == []


def test_the_command_end_to_end(
    samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN ingested samples WHEN asked THEN table, JSON, CSV, page and gate, and one sentence for
    what is wrong."""
    folder = str(tmp_path / "s")
    for name in ("training.rank0.json", "decode.json"):
        path = str(samples / "torch" / name)
        done = runner.invoke(
            app,
            ["ingest", path, "--store", folder, "--commit", f"c-{name[:3]}", "--branch", "main"],
        )
        assert done.exit_code == 0, done.output
    done = runner.invoke(app, ["runs", "show", "decode.json", "--store", folder])
    assert "commit c-dec on main" in done.output
    done = runner.invoke(app, ["history", "--store", folder])
    assert done.exit_code == 0, done.output
    assert "1 run" in done.output
    assert "changes are looked for from 6 runs on" in done.output
    assert "training.rank0.json (1)" in done.output
    stored(tmp_path / "s", None)
    done = runner.invoke(app, ["history", "gemm_", "--store", folder, "--fail-on", "regression"])
    assert done.exit_code == 1
    assert "gate failed: gemm_kernel +20.0 % between 0000000000 (run" in done.stderr
    for format in ("json", "csv"):
        done = runner.invoke(app, ["history", "--store", folder, "-f", format])
        assert done.exit_code == 0
    done = runner.invoke(app, ["history", "--store", folder, "-o", str(tmp_path / "h.html")])
    assert (tmp_path / "h.html").read_text("utf-8").startswith("<!DOCTYPE html>")
    done = runner.invoke(app, ["history", "nothing", "--store", folder])
    assert isinstance(done.exception, TraceroofError)
    assert "no metric, category or kernel" in done.exception.message
