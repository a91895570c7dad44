"""The HTML report: one page, the same bytes, nothing of the machine, safe, small."""

import base64
import dataclasses
import hashlib
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import plotly
import pytest
from plotly.offline import get_plotlyjs_version

import traceroof
from tests.report.pages import HOSTILE, Elements, data_of, extremes, kernels, many, timeline
from tests.runs import recording, two_kernels
from traceroof.diagnosis.diagnose import diagnose
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.diagnosis.headline import headline_of
from traceroof.errors import TraceroofError
from traceroof.kernels.bound_class import CLASSES
from traceroof.report import html as pages
from traceroof.report.html import (
    figures,
    page,
    pictures,
    provenance,
    render,
    roofline_figure,
)
from traceroof.report.html.fixes import fixes as fixes_of
from traceroof.report.html.marks import MOST_MARKS
from traceroof.report.html.palette import COLORS, LOOKS
from traceroof.report.html.templates import prose
from traceroof.report.run.verdict import verdict

SAMPLE = "nsight_compute/transformer_layer.raw.csv"
ASSETS = Path(str(pages.__file__)).parent / "assets"


@pytest.fixture(scope="module")
def text() -> str:
    return render.render(diagnose(two_kernels()))


@pytest.fixture(scope="module")
def large() -> Diagnosis:
    return diagnose(many(10_000))


def command(*arguments: str | Path, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "traceroof", "report", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        check=False,
    )


def test_page_says_what_the_diagnosis_says(text: str) -> None:
    # 3 x 30 µs and 10 µs; the copy is at the DRAM wall.
    assert '<h1 id="verdict">All GPU time goes to' in text or "Most GPU time goes to" in text
    assert "90.0\u00a0% of the kernel time is dram-bound" in text
    assert "<dd>100 µs</dd>" in text
    assert "4 launches of 2 kernels" in text
    assert "lines that are no row, skipped (2 times)" in text
    rows = re.findall(r"<tr id=k\d+>.*", text)
    assert len(rows) == 2
    assert "copy&lt;float&gt;" in rows[0]
    assert '<td data-v="90000">90 µs<td>90.0 %' in rows[0]


def test_sections_come_in_the_order_of_reading() -> None:
    found = re.findall(
        r'<section aria-labelledby="([a-z-]+)">', render.render(diagnose(timeline()))
    )
    assert found == [
        "verdict", "care", "fixes", "categories", "roofline", "kernels", "timeline", "not-judged",
        "provenance",
    ]  # fmt: skip


def test_same_bytes_whatever_the_machine(samples: Path, tmp_path: Path) -> None:
    made = []
    for folder, env in (
        ("one-place", {"PYTHONHASHSEED": "1", "TZ": "UTC", "USER": "q-somebody", "COLUMNS": "60"}),
        ("other-place", {"PYTHONHASHSEED": "2", "TZ": "Asia/Tokyo", "USER": "bob", "LANG": "C"}),
    ):
        work = tmp_path / folder
        work.mkdir()
        (work / "trace.csv").write_bytes((samples / SAMPLE).read_bytes())
        result = command(work / "trace.csv", cwd=work, HOME=str(work), **env)
        assert result.returncode == 0, result.stderr
        assert result.stderr == "wrote report.html\n"
        made.append((work / "report.html").read_bytes())
    assert made[0] == made[1]
    for secret in (str(tmp_path), "one-place", "q-somebody"):
        assert secret.encode() not in made[0]
    # No clock: no time of day, no date (the licence of the bundle names years, not days).
    outside = made[0].decode().replace((ASSETS / "plotly-basic.min.js").read_text(), "")
    assert not re.search(r"\b20\d\d-\d\d-\d\d\b|\b\d\d:\d\d:\d\d\b", outside)


def test_policy_lets_only_the_pages_own_code_act(text: str) -> None:
    elements = Elements(text)
    (policy,) = [
        attrs["content"] or ""
        for tag, attrs in elements.tags
        if tag == "meta" and attrs.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert "*" not in policy.replace("'", "")
    code = [raw for tag, attrs, raw in elements.raw if tag == "script" and not attrs.get("type")]
    styles = [raw for tag, _, raw in elements.raw if tag == "style"]
    assert [len(code), len(styles)] == [2, 1]
    for source, allowed in (("script-src", code), ("style-src", [*styles, ""])):
        hashes = {
            "'sha256-" + base64.b64encode(hashlib.sha256(raw.encode()).digest()).decode() + "'"
            for raw in allowed
        }
        listed = re.search(rf"{source} ([^;]*)", policy)
        assert listed
        assert set(listed[1].split()) == hashes


def test_page_refers_to_nothing_outside(text: str) -> None:
    elements = Elements(text)
    assert elements.attributes("src") == []
    assert all(target.startswith("#") for target in elements.attributes("href"))
    used = {tag for tag, _ in elements.tags}
    assert not used & {"link", "img", "iframe", "object", "embed", "base", "video", "audio"}
    attributes = {name for _, attrs in elements.tags for name in attrs}
    assert not any(name.startswith("on") for name in attributes)
    # The policy allows no style attribute, so one would do nothing.
    assert "style" not in attributes


def test_hostile_names_stay_text() -> None:
    harmless = Elements(
        render.render(diagnose(kernels([f"kernel_{n}" for n in range(len(HOSTILE))])))
    )
    made = render.render(diagnose(kernels(list(HOSTILE))))
    assert [tag for tag, _ in Elements(made).tags] == [tag for tag, _ in harmless.tags]
    assert len(Elements(made).raw) == len(harmless.raw)
    data = data_of(made)
    assert data["names"][0] == HOSTILE[0]
    # Control characters and marks of direction become blanks.
    assert data["names"][-1] == "a\\u202eb\\x07c"
    # Plotly takes text for markup: it gets escaped names.
    hover = data["charts"]["use"]["data"][2]["hovertext"]
    assert hover[0].startswith("#1 ")
    assert all("<" not in part for one in hover for part in one.split("<br>"))
    made.encode("utf-8")


def test_notes_and_file_names_stay_text(tmp_path: Path) -> None:
    made = two_kernels()
    source = dataclasses.replace(made.sources[0], path="a/<b>trace\udcff.csv")
    text = render.render(diagnose(dataclasses.replace(made, sources=(source,))))
    assert "a/<b>trace" not in text
    assert "&lt;b&gt;trace\\udcff.csv · " in text
    assert "<td>&lt;b&gt;trace\\udcff.csv<td>" in text


def test_prose_marks_code_and_escapes_all() -> None:
    assert prose("no `x<y>` in <b> of 5 ms") == (
        "no <code>x&lt;y&gt;</code> in &lt;b&gt; of 5\u00a0ms"
    )
    assert prose("one ` alone <i>") == "one ` alone &lt;i&gt;"


def test_verdict_names_walls_where_none_has_most() -> None:
    made = kernels(
        ["a", "b", "c"],
        duration_ns=[40_000, 35_000, 25_000],
        sm_throughput_pct=[10.0, 10.0, None],
        memory_throughput_pct=[90.0, 20.0, None],
        dram_throughput_pct=[90.0, 20.0, None],
    )
    assert verdict(diagnose(made)).sentence.endswith(
        "no one wall stands out (dram-bound 40.0 %, latency-bound 35.0 %, not judged 25.0 % of "
        "the kernel time)."
    )


def test_template_escapes_everything() -> None:
    for file in sorted(ASSETS.glob("*.j2")):
        template = file.read_text("utf-8")
        assert "safe" not in template
        assert "autoescape" not in template.replace("(autoescape)", "")


def test_ten_thousand_kernels_fit(large: Diagnosis) -> None:
    made = render.render(large)
    assert len(made.encode()) <= render.MOST_BYTES
    rows = re.findall(r"<tr id=k\d+>", made)
    assert len(rows) > 200
    unlisted = re.search(r"<tfoot><tr><td><th scope=\"row\">([\d,]+) more kernels", made)
    assert unlisted
    assert len(rows) + int(unlisted[1].replace(",", "")) == 10_000
    # As many as fit beside everything else.
    assert len(data_of(made)["cards"]) > 80
    for chart in ("roofline", "use"):
        marks = sum(
            len(trace.get("customdata", ())) for trace in data_of(made)["charts"][chart]["data"]
        )
        assert marks == MOST_MARKS
    assert "The 60 of 10,000 kernels with the most time." in made


@pytest.mark.parametrize("length", [2_000, 6_000])
def test_long_names_do_not_make_it_larger(length: int) -> None:
    made = render.render(diagnose(many(300, length)))
    assert len(made.encode()) <= render.MOST_BYTES
    assert len(re.findall(r"<tr id=k\d+>", made)) > 100
    # The card has the whole name.
    card = data_of(made)["cards"][0]
    assert card["name"].endswith("int>(Params)")


def test_unlisted_kernels_add_up(large: Diagnosis) -> None:
    rows, unlisted = page.rows(large, [])
    assert unlisted
    assert unlisted.launches == f"{10_000 - len(rows):,}"
    listed = sum(row.time_ns or 0 for row in rows)
    # Σ (20,000 + 1000 n) ns for n = 1 … 10,000.
    whole = 10_000 * 20_000 + 1000 * 10_000 * 10_001 // 2
    assert large.totals.kernel_time_ns == whole
    assert unlisted.share == f"{(whole - listed) / whole * 100:.1f} %"


def test_bundle_is_the_one_of_the_installed_plotly() -> None:
    bundle = (ASSETS / "plotly-basic.min.js").read_bytes()
    readme = (ASSETS / "README.md").read_text("utf-8")
    assert f"- SHA-256: {hashlib.sha256(bundle).hexdigest()}\n" in readme
    version = re.search(r"^- version: ([\d.]+)$", readme, re.MULTILINE)
    assert version
    assert f"plotly.js (basic - minified) v{version[1]}".encode() in bundle[:200]
    # The bundle draws what a plotly.py of its major version checked.
    assert version[1].split(".")[0] == get_plotlyjs_version().split(".")[0], plotly.__version__
    assert b"</script" not in bundle
    assert b"<!--" not in bundle
    # One text in Python and in the browser: no line ending would be exchanged.
    assert b"\r" not in bundle


def test_licence_of_the_bundle_is_in_every_page(text: str) -> None:
    assert "Copyright (c) 2016-2024 Plotly Technologies Inc." in text
    assert "The above copyright notice and this permission notice shall be included" in text


def test_charts_use_only_what_the_basic_bundle_draws(samples: Path) -> None:
    from traceroof import diagnose as diagnose_paths

    for diagnosis in (diagnose_paths(samples / SAMPLE), diagnose(timeline())):
        for chart in figures.charts(diagnosis).values():
            if chart:
                assert {trace["type"] for trace in chart.figure["data"]} <= {"bar", "scatter"}


def test_every_chart_has_its_numbers_as_a_table(samples: Path) -> None:
    from traceroof import diagnose as diagnose_paths

    for diagnosis in (diagnose_paths(samples / SAMPLE), diagnose(timeline())):
        for chart in figures.charts(diagnosis).values():
            if chart:
                assert chart.rows
                assert all(len(row) == len(chart.header) for row in chart.rows)
                assert chart.summary.endswith(".")


def test_roofline_places_kernels_under_their_roof() -> None:
    # 1e9 FLOP over 5e8 byte in 1 ms under 2 TB/s and 20 TFLOP/s: 2 FLOP/byte, 1 TFLOP/s; the roof
    # there is 2 x 2e12 = 4 TFLOP/s. DRAM needs 0.25 ms, so 25 % of the roof.
    made = recording(
        {
            "kernel_name": ["k"],
            "duration_ns": [1_000_000],
            "dram_bytes": [500_000_000],
            "flop_fp32": [1e9],
            "peak_dram_bytes_per_s": [2e12],
            "peak_fp32_flops_per_s": [2e13],
        }
    )
    chart = roofline_figure.roofline(diagnose(made))
    assert chart
    assert chart.rows[0][3:] == ("2", "1 TFLOP/s", "4 TFLOP/s", "25.0 %", "counted", "1 ms")
    dram, fp32, marks = chart.figure["data"]
    assert [(x, y) for x, y in zip(marks["x"], marks["y"], strict=True)] == [(2.0, 1e12)]
    # The two roofs meet at 2e13 / 2e12 = 10 FLOP/byte.
    assert [dram["x"][-1], dram["y"][-1]] == [10.0, 2e13]
    assert [fp32["x"][0], fp32["y"][0]] == [10.0, 2e13]


def test_logarithmic_axes_name_powers_of_ten() -> None:
    chart = roofline_figure.roofline(diagnose(extremes()))
    assert chart
    # 1e3 FLOP/s to the peak of 3e15 and a tenth of that at either end for the marks; 1e-6 to 1e6
    # FLOP/byte: every second power has a tick.
    assert chart.figure["layout"]["yaxis"]["ticktext"] == [
        "100", "1k", "10k", "100k", "1M", "10M", "100M", "1G", "10G", "100G", "1T", "10T", "100T",
        "1P", "10P",
    ]  # fmt: skip
    assert "1e-6" in chart.figure["layout"]["xaxis"]["ticktext"]
    assert "0.01" in chart.figure["layout"]["xaxis"]["ticktext"]


def test_marks_at_the_ends_of_the_roofline_are_whole() -> None:
    chart = roofline_figure.roofline(diagnose(extremes()))
    assert chart
    marks = [one for one in chart.figure["data"] if one["mode"] == "markers+text"]
    # The largest mark has a radius of 21 pixels; with labels the axes are at least 300 long.
    for name, axis in (("x", "xaxis"), ("y", "yaxis")):
        low, high = chart.figure["layout"][axis]["range"]
        places = [math.log10(value) for one in marks for value in one[name]]
        least = 21 / 300 * (high - low)
        assert min(places) - low > least
        assert high - max(places) > least
    assert all(one["cliponaxis"] is False for one in marks)


def test_a_ceiling_is_named_after_types_that_a_data_sheet_has_a_rate_for() -> None:
    peak = {"peak_flops_per_s": 19.5e12, "peak_bytes_per_s": 2e12, "ceiling_basis": "device-table"}
    roof = {"intensity": 1.0, "achieved_flops_per_s": 1e9, "utilisation": 0.1} | peak
    one = diagnose(two_kernels()).kernels[0]

    def of(*dtypes: str) -> list[str | None]:
        made = [dataclasses.replace(one, roofline=roof | {"dtype": name}) for name in dtypes]
        return [ceiling.dtype for ceiling in roofline_figure._ceilings(made)]

    assert of("int64", "bool", "fp32") == [None, "fp32"]
    assert of("bf16", "fp16") == [None, "bf16, fp16"]
    assert of("int64") == [None, "int64"], "better than no name"


def test_no_roofline_says_why_and_what_to_collect(text: str) -> None:
    assert "operations and DRAM bytes are both known, so none has a place on the roofline" in text
    assert "--section SpeedOfLight_RooflineChart" in text


def test_timeline_section_only_where_there_is_one(text: str) -> None:
    assert 'id="timeline"' not in text
    with_timeline = render.render(diagnose(timeline()))
    assert 'id="timeline"' in with_timeline
    chart = figures.charts(diagnose(timeline()))["timeline"]
    assert chart
    # Span 90 µs, busy 70, computing 60, copying 10, idle 20: 22.2 %.
    assert chart.rows == [
        ("GPU 0", "90 µs", "70 µs", "60 µs", "0 ns", "0 ns", "10 µs", "20 µs", "22.2 %")
    ]


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ([], "No kernel ran in what was read."),
        (["sgemm_128"], "All GPU time goes to gemm; 100.0 % of the kernel time is dram-bound"),
    ],
)
def test_verdict(names: list[str], sentence: str) -> None:
    diagnosis = diagnose(kernels(names))
    assert verdict(diagnosis).sentence.startswith(sentence)
    assert render.render(diagnosis)


def test_verdict_without_times_or_classes() -> None:
    untimed = diagnose(recording({"kernel_name": ["k", "k"], "duration_ns": [None, None]}))
    assert verdict(untimed).sentence == "None of the 2 launches has a known duration."
    assert [one.value for one in verdict(untimed).figures] == ["unknown", "none", "unknown"]
    assert "No time is known." in render.render(untimed)
    bare = diagnose(recording({"kernel_name": ["k"], "duration_ns": [10_000]}))
    assert "100.0 % of the kernel time could not be judged" in verdict(bare).sentence
    assert "--section SpeedOfLight" in render.render(bare)


def test_idle_gpu_is_the_first_news() -> None:
    # 20 of 90 µs are idle; so little time has another headline, were it all that was recorded.
    made = diagnose(timeline())
    said = headline_of(made.totals, made.categories, made.kernels)
    assert said.startswith("The GPU is idle 22.2 % of the time; ")


def test_every_class_has_a_look_and_every_colour_two_themes() -> None:
    assert set(LOOKS) == set(CLASSES)
    assert {look.family for look in LOOKS.values()} <= set(COLORS)
    style = (ASSETS / "report.css").read_text("utf-8")
    blocks = re.findall(r"\{([^{}]*--paper:[^{}]*)\}", style)
    light, by_system, by_switch = [dict(re.findall(r"--([a-z]+): (#\w+);", one)) for one in blocks]
    assert {name: light[name] for name in COLORS} == dict(COLORS)
    assert by_system == by_switch
    assert set(by_system) == set(light)


def test_file_names_without_folders() -> None:
    assert provenance.file_names(["/home/me/a.csv"]) == ["a.csv"]
    assert provenance.file_names(["x/rank0/t.json", "x/rank1/t.json", "C:\\runs\\u.json"]) == [
        "rank0/t.json", "rank1/t.json", "u.json",
    ]  # fmt: skip
    assert provenance.file_names(["t.json", "t.json"]) == ["t.json", "t.json"]


def test_fixes_come_with_both_figures(samples: Path) -> None:
    from traceroof import diagnose as diagnose_paths

    diagnosis = diagnose_paths(samples / SAMPLE)
    fixes = fixes_of(diagnosis)
    assert max(fix.bound_bar for fix in fixes) == 100.0
    assert all(fix.likely_bar <= fix.bound_bar for fix in fixes)
    assert [fix.number for fix in fixes] == list(range(1, len(fixes) + 1))
    made = render.render(diagnosis)
    for fix in fixes[:5]:
        assert f'id="fix-{fix.number}"' in made
        assert fix.bound in made


def test_report_goes_to_stdout(samples: Path, tmp_path: Path) -> None:
    result = command(samples / SAMPLE, "-o", "-", cwd=tmp_path)
    assert result.stdout.startswith("<!doctype html>")
    assert list(tmp_path.iterdir()) == []


def test_pictures_need_kaleido_and_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "find_spec", lambda name: None)
    with pytest.raises(TraceroofError, match="kaleido, which is not installed") as caught:
        pictures.write_pictures(diagnose(two_kernels()), tmp_path / "charts")
    assert "pip install" in (caught.value.hint or "")
    assert not (tmp_path / "charts").exists()


def test_pictures_without_a_browser_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import plotly.io

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no Chrome here\nlong story")

    monkeypatch.setattr(pictures, "find_spec", lambda name: object())
    monkeypatch.setattr(plotly.io, "write_images", fail)
    with pytest.raises(
        TraceroofError, match=r"could not draw the charts: no Chrome here\. it needs"
    ):
        pictures.write_pictures(diagnose(two_kernels()), tmp_path)


def test_pictures_are_one_file_a_chart_and_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import plotly.io

    def draw(figures: list[object], paths: list[Path], **_: object) -> None:
        for path in paths:
            path.write_bytes(path.suffix.encode())

    monkeypatch.setattr(pictures, "find_spec", lambda name: object())
    monkeypatch.setattr(plotly.io, "write_images", draw)
    pictures.write_pictures(diagnose(two_kernels()), tmp_path / "charts")
    assert sorted(path.name for path in (tmp_path / "charts").iterdir()) == [
        "categories.png", "categories.svg", "use.png", "use.svg",
    ]  # fmt: skip


def test_pictures_are_drawn_where_kaleido_and_a_browser_are(tmp_path: Path) -> None:
    pytest.importorskip("kaleido")
    if not (shutil.which("chromium") or shutil.which("google-chrome")):
        pytest.skip("no Chromium here")
    pictures.write_pictures(diagnose(two_kernels()), tmp_path)
    for name in ("categories", "use"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
        drawn = (tmp_path / f"{name}.svg").read_text("utf-8")
        assert drawn.startswith("<svg")
        assert "GPU time" in drawn or "memory use" in drawn


@pytest.mark.corpus
def test_real_files_make_pages_of_bounded_size(corpus: Path) -> None:
    from traceroof import diagnose as diagnose_paths

    for name in (
        "pair",
        "ncu_csv/CodeGandee__llm-perf-opt__k0001_v2_ncu.details.csv",
        "torch/hta_trace_diff_control_a100.json.gz",
        "torch/dlrm_8ranks",
        "amd/vcopy_MI350",
    ):
        diagnosis = diagnose_paths(corpus / name)
        made = render.render(diagnosis)
        assert len(made.encode()) <= render.MOST_BYTES, name
        assert str(corpus) not in made
        data = data_of(made)
        assert len(data["nameOf"]) == len(re.findall(r"<tr id=k\d+>", made))
        elements = Elements(made)
        assert {tag for tag, _ in elements.tags}.isdisjoint({"link", "iframe"})
        # Pictures are drawn into the page, never fetched.
        assert all(one.startswith("data:image/png;base64,") for one in elements.attributes("src"))


def test_the_page_begins_with_what_to_do(samples: Path) -> None:
    """GIVEN the sample WHEN rendered THEN its heading is the first entry with its figure, and the
    sentence on the run stands below."""
    made = diagnose(traceroof.read(samples / SAMPLE))
    entry, page = made.advice[0], render.render(made)
    assert verdict(made).first.startswith(f"{entry.title}: expect ")
    assert f'<h1 id="verdict">{entry.title}: expect ' in page
    assert '<p class="lead">' in page
