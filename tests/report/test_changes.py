"""The report with a base: the comparison's verdicts beside every number, dashes for the unknown."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.report.pages import HOSTILE, Elements, data_of, kernels, many
from tests.runs import recording
from tests.sides import A100, one_run, repeated, side, stepped
from traceroof.compare import Comparison, compare
from traceroof.compare.verdicts import tally
from traceroof.core.recording import DeviceInfo, Recording, Run
from traceroof.diagnosis.diagnose import diagnose
from traceroof.report.compare import markdown as compare_markdown
from traceroof.report.html import change_figures, pictures, render
from traceroof.report.html.change_words import DASH, MARKS
from traceroof.report.html.changes import Changes
from traceroof.report.html.compared_card import compared_card

FIVE = (1.00, 1.01, 0.99, 1.00, 1.01)
#: "small" takes 10 % longer; "copy_medium" is gone, "newcomer" has come.
HEAD = {
    "sgemm_big(float*)": (10, 400_000),
    "small(float*)": (30, 11_000),
    "newcomer<int>(int*)": (4, 90_000),
}
SAMPLE = "nsight_compute/transformer_layer.raw.csv"


def of(made: Recording, name: str = "side") -> Run:
    return Run(made, name=name)


@pytest.fixture(scope="module")
def changed() -> Comparison:
    return compare(repeated(FIVE), repeated(FIVE, HEAD))


@pytest.fixture(scope="module")
def page(changed: Comparison) -> str:
    return render.render(changed)


def rows_of(text: str) -> list[list[str]]:
    """The cells of the kernel table's rows, their tags left out."""
    rows = re.findall(r"<tr id=k\d+>(.*)", text)
    return [
        [re.sub(r"<[^>]*>", "", cell).strip() for cell in re.split(r"<t[dh]\b[^>]*>", row)[1:]]
        for row in rows
    ]


def test_what_may_be_compared_is_said_before_the_verdict(page: str) -> None:
    body = page[page.index("<main>") :]
    statement, verdict = body.index('class="statement"'), body.index('<h1 id="verdict">')
    assert statement < verdict < body.index('<dl class="figures">')
    assert (
        "Same GPU (NVIDIA A100-SXM4-80GB) and tool, clocks not recorded, driver not recorded; "
        "5 against 5 runs." in body
    )


def test_verdict_and_numbers_have_their_change(page: str, changed: Comparison) -> None:
    # 4.00 + 1.70 + 0.30 = 6.00 ms before, 4.00 + 0.33 + 0.36 = 4.69 ms now.
    assert changed.verdict == "improved"
    assert "kernel time -21.8\u00a0% (6 → 4.69\u00a0ms per run)" in page
    assert (
        '<dd class="was">per run: 6 → 4.69 ms <span class="soft">-1.31 ms (-21.8 %)</span>' in page
    )
    assert "Kernels: 1 regression · 1 unchanged · 1 new · 1 gone." in page


def test_rows_carry_both_times_the_change_and_the_verdict(page: str) -> None:
    by_name = {row[1]: row[-3:] for row in rows_of(page)}
    # 30 launches of 10 and 11 µs a run; 4 of 90 µs.
    assert by_name["small"] == ["300 → 330 µs", "+30 µs (+10.0 %)", "▲ slower"]
    assert by_name["sgemm_big"] == ["4 → 4 ms", "0 ns (+0.0 %)", "= same"]
    assert by_name["newcomer&lt;int&gt;"] == [f"{DASH} → 360 µs", "+360 µs", "+ new"]


def test_kernels_of_the_base_alone_are_listed(page: str) -> None:
    assert re.search(r"gone</span>: 1 kernels that only the base has", page)
    # 34 launches of 50 µs.
    row = '<tr><td><code>copy_medium</code><td>layout<td>–<td class="n">1.70 ms<td class="n">34'
    assert row in page


def test_page_says_what_compare_says(changed: Comparison, page: str) -> None:
    """One source of truth: every verdict on the page is the comparison's."""
    shown = [row[-1].split()[-1] for row in rows_of(page)]
    expected = [MARKS[one.verdict].word for one in changed.kernels if one.verdict != "gone"]
    assert sorted(shown) == sorted(expected)
    assert tally([one.verdict for one in changed.kernels])["gone"] == 1
    # Where it went: the story of the pull-request comment.
    markdown = compare_markdown.render(changed)
    for told in Changes(changed).stories:
        assert told.where in page
        assert told.where in markdown


def test_inconclusive_is_said_with_what_is_missing() -> None:
    page = render.render(compare(side([one_run()]), side([one_run(factor=1.1)])))
    assert "Inconclusive: wall time +9.9\u00a0%" in page
    assert "<b>One run per side; a verdict needs 5 runs per side.</b>" in page
    assert [row[-1] for row in rows_of(page)] == ["? unclear"] * 3
    assert "Kernels without a verdict, or judged by counters alone: 3" in page


OTHER = DeviceInfo(index=0, name="NVIDIA H100 80GB HBM3")


def test_times_that_do_not_compare_have_no_difference() -> None:
    made = compare(repeated(FIVE), repeated(FIVE, HEAD, device=OTHER))
    page = render.render(made)
    body = page[page.index("<main>") :]
    assert body.index("Not comparable.</b> Base: ") < body.index("<h1")
    assert "A100-SXM4-80GB → H100-SXM5" in body[: body.index("<h1")]
    assert "Times were not compared (--force compares them)." in body[: body.index("<h1")]
    rows = rows_of(page)
    assert {row[-2] for row in rows} == {DASH}
    assert {row[-1] for row in rows} == {"≠ not compared", "+ new"}
    assert not re.search(
        r"[+-]\d[\d.]* (points|µs|ms)", re.sub(r"<script.*", "", body, flags=re.DOTALL)
    )
    # Both sides stand beside each other all the same, the chart shows the head alone.
    assert "300 → 330 µs" in page
    traces = data_of(page)["charts"]["categories"]["data"]
    assert "base" not in {trace.get("name") for trace in traces}


def test_forced_times_compare_under_a_warning() -> None:
    made = compare(repeated(FIVE), repeated(FIVE, HEAD, device=OTHER), force=True)
    page = render.render(made)
    assert "Forced.</b>" in page
    assert "The times differ for these reasons, too." in page
    assert "+30 µs (+10.0 %)" in page


def walls(*pcts: float | None, names: tuple[str, ...] = ("a", "b", "c"), factor: int = 1) -> Run:
    """One launch of each name, 40, 60, 80 … µs; DRAM busy by so many percent."""
    return of(
        recording(
            {
                "kernel_name": list(names),
                "duration_ns": [(2 + at) * 20_000 * factor for at in range(len(names))],
                "sm_throughput_pct": [10.0] * len(names),
                "memory_throughput_pct": list(pcts),
                "dram_throughput_pct": list(pcts),
            },
            devices=(A100,),
        )
    )


def test_fixes_are_new_kept_or_gone() -> None:
    def marks(made: Changes) -> dict[str, str]:
        return {
            name: made.fixes[entry.rank].mark.word
            for entry in made.comparison.head.advice
            for name in entry.subjects
        }

    # "b" leaves the wall of device memory and waits, which nothing did before.
    assert marks(Changes(compare(walls(90, 90, 90), walls(90, 30, 90)))) == {"b": "new"}
    # "a" waited before; that "b" does now too is the same entry.
    made = Changes(compare(walls(30, 90, 90), walls(30, 30, 90)))
    assert marks(made) == {"a": "also in the base", "b": "also in the base"}
    page = render.render(made.comparison)
    assert "also in the base" in page


def _kernel_fixes(made: Changes) -> list[tuple[int, int]]:
    from traceroof.report.html.fixes import fixes

    return [
        (one.number, one.kernel) for one in fixes(made.comparison.head) if one.kernel is not None
    ]


def test_time_saved_is_that_of_a_run() -> None:
    """Two runs against one: what a fix saves is compared run by run, not sum by sum."""
    one = walls(50, 50, 50)
    two = side([walls(50, 50, 50, factor=1).recording] * 2)
    made = Changes(compare(one, two, force=True))
    assert made.comparison.samples == (1, 2)
    kept = [made.fixes[number].saved for number, _ in _kernel_fixes(made)]
    assert kept
    for text in kept:
        if text:
            assert text.endswith(", 0 ns"), text


def test_fixes_that_are_gone_are_listed_with_what_they_saved() -> None:
    made = compare(walls(90, 90, 90), walls(30, 90, 90))
    gone = Changes(made).gone_fixes
    resolved = {one.rule for one in made.resolved}
    assert {one.rule for one in gone.shown} <= resolved
    page = render.render(made)
    for one in gone.shown:
        assert one.title in page


def test_unknown_is_a_dash_and_never_zero() -> None:
    base = of(recording({"kernel_name": ["k", "u"], "duration_ns": [50_000, None]}))
    head = of(recording({"kernel_name": ["k", "u"], "duration_ns": [50_000, None]}))
    (row,) = [row for row in rows_of(render.render(compare(base, head))) if row[1] == "u"]
    assert row[-3:] == [DASH, DASH, "? unclear"]


def test_categories_have_bars_and_rows_of_both_sides(changed: Comparison) -> None:
    chart = change_figures.charts(Changes(changed))["categories"]
    assert chart
    assert chart.header[0:5] == (
        ("Category", False), ("Base", True), ("Now", True), ("Change", True), ("Verdict", False),
    )  # fmt: skip
    rows = {row[0]: row[1:5] for row in chart.rows}
    assert rows["gemm"] == ("4 ms", "4 ms", "0 ns (+0.0 %)", "=\u00a0same")
    assert rows["layout"][1] == DASH, "nothing of it runs now"
    base = next(trace for trace in chart.figure["data"] if trace.get("name") == "base")
    now = [trace for trace in chart.figure["data"] if trace["type"] == "bar" and trace is not base]
    # ms of a run, in the order of the rows; the parts of a bar add up to its category.
    names = [row[0] for row in chart.rows]
    assert base["x"][names.index("layout")] == pytest.approx(1.7)
    assert sum(trace["x"][names.index("gemm")] for trace in now) == pytest.approx(4.0)
    assert all(len(row) == len(chart.header) for row in chart.rows)


def placed(intensity: float, rate: float) -> Run:
    """A kernel of 1 ms with so many FLOP/byte and FLOP/s."""
    return of(
        recording(
            {
                "kernel_name": ["k"],
                "duration_ns": [1_000_000],
                "dram_bytes": [rate / 1000 / intensity],
                "flop_fp32": [rate / 1000],
                "peak_dram_bytes_per_s": [2e12],
                "peak_fp32_flops_per_s": [2e13],
            },
            devices=(A100,),
        )
    )


def test_roofline_has_a_tail_from_the_base() -> None:
    made = Changes(compare(placed(0.01, 1e10), placed(2.0, 1e12)))
    chart = change_figures.charts(made)["roofline"]
    assert chart
    line, dot = chart.figure["data"][-2:]
    assert list(line["x"]) == [0.01, 2.0, None]
    assert list(line["y"]) == [1e10, 1e12, None]
    assert (list(dot["x"]), list(dot["y"])) == ([0.01], [1e10])
    low, _ = chart.figure["layout"]["xaxis"]["range"]
    assert low < -2, "the axis reaches the base, 10^-2"
    (row,) = chart.rows
    cells = dict(zip([title for title, _ in chart.header], row, strict=True))
    assert cells["FLOP/byte"] == "2"
    assert cells["Base FLOP/byte"] == "0.01"
    assert cells["Base rate"] == "10 GFLOP/s"


def test_counted_and_modelled_places_are_not_joined() -> None:
    made = Changes(compare(placed(1.0, 1e10), placed(2.0, 1e12)))
    base = made.comparison.base.kernels[0]
    assert base.roofline
    modelled = replace(base, roofline={**base.roofline, "traffic_basis": "model"})
    (change,) = made.comparison.kernels
    assert change.pair
    other = replace(change, pair=replace(change.pair, base=(modelled,)))
    chart = change_figures.charts(Changes(replace(made.comparison, kernels=(other,))))["roofline"]
    assert chart
    assert [trace.get("name") for trace in chart.figure["data"]].count("base") == 0
    assert DASH in chart.rows[0]


def test_cards_have_the_figures_of_the_base() -> None:
    made = compare(walls(90, 90, 30), walls(90, 60, 30))
    cards = data_of(render.render(made))["cards"]
    at = [one.kernel for one in made.head.kernels].index("b")
    uses = {label: text for label, _, text in cards[at]["uses"]}
    assert uses["memory"].startswith("60 %")
    assert "; base 90 %" in uses["memory"]
    assert "base" not in uses["compute"], "the same on both sides"
    facts = dict(cards[at]["facts"])
    assert facts["time per run"] == "60 → 60 µs"
    assert "dram-bound" in facts["class"]


def test_lines_of_one_label_are_compared_in_turn() -> None:
    made = Changes(compare(walls(90, 90, 30), walls(90, 60, 30)))
    card = {"roof": [("peak", "1"), ("peak", "2")], "metrics": {"x": [(0, "7")]}}
    base = {"roof": [("peak", "1"), ("peak", "3")], "metrics": {"y": [(0, "8")]}}
    joined = compared_card(made, 0, card, base)
    assert joined["roof"] == [("peak", "1"), ("peak", "2; base 3")]
    assert joined["metrics"] == {"x": [(0, "7; base 8")]}
    assert compared_card(made, 0, {"roof": [("peak", "1")]}, {})["roof"] == [
        ("peak", f"1; base {DASH}")
    ]


def test_timeline_has_both_sides() -> None:
    lines = {one.what: one for one in Changes(compare(stepped(6), stepped(6, HEAD))).timeline()}
    step = lines["step time, per step"]
    # To the start of the next step, 1 ms later: 74 launches 1 µs apart, 6.00 + 0.073 + 1 ms; 44 of
    # the head, 4.69 + 0.043 + 1 ms.
    assert (step.base, step.now) == ("7.07 ms", "5.73 ms")
    # 20 % decide where one run per side was recorded: 19 % do not.
    assert (step.change, step.mark) == ("-1.34 ms (-18.9 %)", MARKS["inconclusive"])
    assert lines["idle, per step"].mark is None, "nothing judges it"
    assert lines["idle, per step"].change == "-30 µs"
    # Of 6 steps and 5 gaps of 1 ms.
    busy = lines["GPU busy, of the span"]
    assert busy.base == f"{6 * 6.0 / (6 * 6.073 + 5) * 100:.1f} %"


def test_a_kernel_outside_the_steps_says_so() -> None:
    def made() -> Run:
        run = stepped(3)
        names = run.recording.kernels["step"].to_pylist()
        last = {"kernel_name": "after(int)", "duration_ns": 5000, "start_ns": 10**9, "step": None}
        columns = {
            name: [*run.recording.kernels[name].to_pylist(), last[name]]
            for name in ("kernel_name", "duration_ns", "start_ns", "step")
        }
        columns["device"] = [0] * (len(names) + 1)
        return of(recording(columns, time_basis="timeline", devices=(A100,)))

    rows = {row[1]: row[-3:] for row in rows_of(render.render(compare(made(), made())))}
    assert rows["after"] == [DASH, f"{DASH} in no step", "≠ not compared"]


def test_provenance_names_both_sides(page: str) -> None:
    provenance = page[page.index('id="provenance"') :]
    assert provenance.count("<td>side0.csv<td>") == 2
    assert "Files of the base" in provenance
    assert "Rule: a kernel is slower or faster if it changes by 5 % of its own time" in provenance


def test_another_driver_is_another_machine() -> None:
    old, new = (replace(A100, driver=text) for text in ("CUDA 12.4", "CUDA 13.0"))
    made = compare(repeated(FIVE, device=old), repeated(FIVE, device=new))
    assert made.verdict == "not-comparable"
    page = render.render(made)
    assert "driver: CUDA 12.4 → CUDA 13.0" in page[: page.index("<h1")]
    same = render.render(compare(repeated(FIVE, device=new), repeated(FIVE, device=new)))
    assert "driver CUDA 13.0" in same[: same.index("<h1")]
    # Known on one side only: said, no obstacle.
    half = compare(repeated(FIVE), repeated(FIVE, device=new))
    assert half.verdict == "unchanged"
    assert "said, no obstacle" in render.render(half)


def test_page_without_base_holds_nothing_of_one(page: str) -> None:
    bare = render.render(diagnose(repeated(FIVE)))
    assets = Path(render.__file__).parent / "assets"
    styles = [raw for tag, _, raw in Elements(bare).raw if tag == "style"]
    assert styles == [(assets / "report.css").read_text("utf-8")]
    outside = bare.replace((assets / "report.js").read_text("utf-8"), "")
    for part in ('id="change', 'class="was"', "statement", "Verdict", "Base → now", "base →"):
        assert part not in outside, part
        assert part in page or part == "base →"
    assert render.render(diagnose(repeated(FIVE))) == bare


def test_hostile_names_on_both_sides_stay_text() -> None:
    def made(base: list[str], head: list[str]) -> str:
        return render.render(compare(of(kernels(base), base[0]), of(kernels(head), head[0])))

    plain = [f"kernel_{at}" for at in range(len(HOSTILE))]
    harmless = made([*plain[:-1], "z_gone"], [*plain[:-1], "a_new"])
    hostile = made([*HOSTILE[:-1], HOSTILE[-1] + "z"], [*HOSTILE[:-1], "y" + HOSTILE[-1]])
    assert {tag for tag, _ in Elements(hostile).tags} <= {tag for tag, _ in Elements(harmless).tags}
    assert len(Elements(hostile).raw) == len(Elements(harmless).raw) == 4
    assert "javascript:" not in " ".join(Elements(hostile).attributes("href"))
    assert not any(name.startswith("on") for _, attrs in Elements(hostile).tags for name in attrs)
    assert "style" not in {name for _, attrs in Elements(hostile).tags for name in attrs}
    for chart in data_of(hostile)["charts"].values():
        for trace in chart["data"]:
            assert all("<" not in part for one in trace.get("hovertext", ())
                       for part in one.split("<br>"))  # fmt: skip


@pytest.fixture(scope="module")
def ten_thousand() -> Comparison:
    """10,000 kernels a side; every fifth has another name, every seventh takes 30 % longer."""

    def one(head: bool) -> Run:
        made = many(10_000)
        table = made.kernels
        for name, change in (
            ("kernel_name", lambda at, value: f"void other_{at}<{'Tile, ' * 15}int>(P)"
             if at % 5 == 0 else value),
            ("duration_ns", lambda at, value: round(value * 1.3) if at % 7 == 0 else value),
        ):  # fmt: skip
            if head:
                table = _exchanged(table, name, change)
        return of(replace(made, kernels=table))

    return compare(one(False), one(True))


def _exchanged(table: Any, name: str, change: Any) -> Any:
    import pyarrow as pa

    place = table.column_names.index(name)
    values = [change(at, value) for at, value in enumerate(table[name].to_pylist())]
    kind = table.schema.field(place)
    return table.set_column(
        place,
        kind,
        pa.array(values, pa.string() if name == "kernel_name" else kind.type).cast(kind.type),
    )


def test_ten_thousand_kernels_fit_with_their_base(ten_thousand: Comparison) -> None:
    made = render.render(ten_thousand)
    assert len(made.encode()) <= render.MOST_BYTES
    rows = rows_of(made)
    assert len(rows) > 100
    assert all(len(row) == 15 for row in rows)
    # What the table has no room for is counted by verdict.
    unlisted = re.search(r"<tfoot>.*<td>([^<]*)$", made, re.MULTILINE)
    assert unlisted
    counted = sum(int(part.split()[0].replace(",", "")) for part in unlisted[1].split(", "))
    assert counted + len(rows) == 10_000
    assert len(data_of(made)["cards"]) > 30


def test_the_fullest_page_fits() -> None:
    """All lists full: 190 kernels of equal weight with long names of brackets, all of them
    advised, each changed, new, gone or unclear."""

    def one(word: str, pct: float, nanoseconds: int) -> Run:
        names = [f"{word if at % 3 == 0 else 'k'}{at}<{'&<>' * 100}{at}>(int)" for at in range(190)]
        made = kernels(
            names,
            duration_ns=[nanoseconds + 100 * at * (word == "head") for at in range(190)],
            dram_throughput_pct=[pct] * 190,
            l2_throughput_pct=[95.0] * 190,
            achieved_occupancy_pct=[10.0] * 190,
            theoretical_occupancy_pct=[20.0] * 190,
            registers_per_thread=[255 if word == "head" else 32] * 190,
            dram_bytes=[1_000_000 * (1 + (word == "head"))] * 190,
            flop_fp32=[500_000] * 190,
            peak_dram_bytes_per_s=[2.0e12] * 190,
            peak_fp32_flops_per_s=[2.0e13] * 190,
            stall_long_scoreboard=[0.6] * 190,
        )
        return of(made, word * 300)

    page = render.render(compare(one("base", 20.0, 100_000), one("head", 90.0, 160_000)))
    assert len(page.encode()) <= render.MOST_BYTES
    assert len(rows_of(page)) >= 15
    for part in (
        "more are not shown here",
        "more are not listed here",
    ):
        assert part in page, part


def command(*arguments: str | Path, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "traceroof", *map(str, arguments)],
        cwd=cwd, capture_output=True, text=True, env={**os.environ, **env}, check=False,
    )  # fmt: skip


def test_report_takes_a_base(samples: Path, tmp_path: Path) -> None:
    made = []
    for seed in ("1", "2"):
        result = command(
            "report", samples / SAMPLE, "--base", samples / SAMPLE, "-o", f"{seed}.html",
            cwd=tmp_path, PYTHONHASHSEED=seed,
        )  # fmt: skip
        assert result.returncode == 0, result.stderr
        assert result.stderr == f"wrote {seed}.html\n"
        made.append((tmp_path / f"{seed}.html").read_bytes())
    assert made[0] == made[1]
    assert "No change: kernel time +0.0\u00a0%" in made[0].decode()
    assert str(tmp_path).encode() not in made[0]


def test_base_is_a_run_or_a_baseline_of_the_store(samples: Path, tmp_path: Path) -> None:
    command("ingest", samples / SAMPLE, "--name", "layer", cwd=tmp_path)
    command("baseline", "set", "main", "layer", cwd=tmp_path)
    for base in ("main", "layer"):
        result = command("report", "--base", base, "-o", "-", cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        assert "Base: <b>layer</b>" in result.stdout
    missing = command("report", "--base", "nothing.csv", cwd=tmp_path)
    assert missing.returncode == 2
    assert "nothing.csv does not exist" in missing.stderr
    assert not (tmp_path / "report.html").exists()


def test_pictures_show_the_base_too(
    changed: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import plotly.io

    drawn: list[Any] = []

    def draw(figures: list[Any], paths: list[Path], **_: object) -> None:
        drawn.extend(figures)
        for path in paths:
            path.write_bytes(b"x")

    monkeypatch.setattr(pictures, "find_spec", lambda name: object())
    monkeypatch.setattr(plotly.io, "write_images", draw)
    pictures.write_pictures(changed, tmp_path)
    assert (tmp_path / "categories.svg").exists()
    assert "base" in {trace.get("name") for trace in drawn[0]["data"]}


@pytest.mark.corpus
def test_real_pairs_make_pages_of_bounded_size(corpus: Path) -> None:
    from traceroof import read

    torch = corpus / "torch"
    for base, head, verdict in (
        ("hta_trace_diff_control_a100.json.gz", "hta_trace_diff_test_v100.json.gz",
         "not-comparable"),
        ("torchrec_a2a_qcomm_v100_54105.pt.trace.json",
         "torchrec_a2a_qcomm_v100_54106.pt.trace.json", "inconclusive"),
    ):  # fmt: skip
        sides = [read(torch / name) for name in (base, head)]
        for force in (False, True):
            made = compare(sides[0], sides[1], force=force)
            page = render.render(made)
            assert force or made.verdict == verdict
            assert len(page.encode()) <= render.MOST_BYTES
            assert str(corpus) not in page
            assert len(rows_of(page)) == len(data_of(page)["nameOf"])
