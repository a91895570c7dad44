"""What a notebook shows of results: parts of the page, without a script, in both themes."""

import re
from pathlib import Path
from typing import Any

import pytest

import traceroof
from tests.report.test_browser import _chromium
from tests.runs import recording, two_kernels
from traceroof.core.recording import Run
from traceroof.diagnosis.diagnose import diagnose
from traceroof.diagnosis.narrow import narrowed
from traceroof.report.html import scoped

TRACE, LAYER = "torch/training.rank0.json", "nsight_compute/transformer_layer.raw.csv"
HOSTILE = '<script>alert(1)</script><img src=x onerror=alert(1)>"&{{7*7}}'


@pytest.fixture(scope="module")
def results(samples: Path) -> dict[str, Any]:
    """One of each kind."""
    run = traceroof.read(samples / TRACE)
    diagnosis = traceroof.diagnose(run, config=False, calibrated=False)
    return {
        "run": run,
        "diagnosis": diagnosis,
        "comparison": traceroof.compare(run, samples / "torch/training.rank1.json", config=False),
        "card": traceroof.card(diagnosis, 2),
    }


@pytest.mark.parametrize("kind", ["run", "diagnosis", "comparison", "card"])
def test_no_script_no_request_no_stray_id(kind: str, results: dict[str, Any]) -> None:
    """GIVEN a result WHEN shown THEN one element with its own style, that runs nothing and fetches
    nothing, and stays small enough for a notebook that is kept in git."""
    made = results[kind]._repr_html_()
    assert made.startswith('<div class="traceroof">')
    assert "<script" not in made
    assert not re.search(r"\son\w+=", made)
    assert not re.search(r"(src|href)=\"(?!#)", made)
    assert "url(" not in made
    assert len(made.encode()) < 40_000
    assert made.count("<div") == made.count("</div>")


def test_a_diagnosis_shows_what_the_page_shows(results: dict[str, Any]) -> None:
    made = results["diagnosis"]._repr_html_()
    assert "Communication runs while nothing computes" in made
    assert "expect <b>5.61 ms</b>; at most <b>6.93 ms</b>" in made
    assert "38.2 ms" in made
    assert "20 more kernels" in made
    assert "ncu --csv" in made


def test_a_narrowed_diagnosis_keeps_the_numbers_of_the_run() -> None:
    made = narrowed(diagnose(two_kernels()), "wait")._repr_html_()
    assert "Narrowed to 1 of 2 kernels (wait)" in made
    assert '<td class="n">2</td><td class="name">wait' in made


def test_a_card_and_a_run(results: dict[str, Any]) -> None:
    card, run = results["card"]._repr_html_(), results["run"]._repr_html_()
    assert '<h1>#2 <span class="name">' in card
    assert "5.63 ms (14.8 % of kernel time)" in card
    # 15 names of kernels in 192 launches; the collective has 11,214,667 of 38,153,872 ns.
    assert "<dd>15</dd>" in run
    assert '<td class="n">11.2 ms</td><td class="n">29.4 %</td><td class="n">6</td>' in run


def test_a_comparison_says_what_is_missing(results: dict[str, Any]) -> None:
    made = results["comparison"]._repr_html_()
    assert "Inconclusive: step time" in made
    assert "a verdict needs 5 runs per side" in made
    assert "Between the kernels: +2.09 ms" in made


@pytest.mark.parametrize("kind", ["run", "diagnosis", "comparison", "card"])
def test_the_text_form_is_one_line(kind: str, results: dict[str, Any]) -> None:
    """GIVEN a result WHEN a notebook keeps its text beside the HTML THEN that is a line, not megabytes."""
    said = repr(results[kind])
    assert "\n" not in said
    assert len(said) < 400


def test_names_from_files_are_text() -> None:
    made = recording({"kernel_name": [HOSTILE], "duration_ns": [1_000], "grid_x": [1]})
    run = Run(made, name=HOSTILE)
    diagnosis = traceroof.diagnose(run, config=False, calibrated=False)
    for one in (run, diagnosis, traceroof.card(diagnosis, 1), traceroof.compare(run, run)):
        shown = one._repr_html_()
        assert "<script" not in shown
        assert "<img" not in shown
        assert "{{7*7}}" in shown


def test_figures_are_plotly_s(results: dict[str, Any]) -> None:
    """GIVEN a timeline WHEN figures are asked for THEN those that there are; WHEN one is asked for that
    there is not THEN a sentence that names the others."""
    import plotly.graph_objects as go

    for kind in ("run", "diagnosis", "comparison", "card"):
        figures = results[kind].figures
        assert {"categories", "timeline"} <= set(dir(figures))
        for name in dir(figures):
            assert isinstance(getattr(figures, name)(), go.Figure)
    light, dark = (results["diagnosis"].figures.roofline(dark=one) for one in (False, True))
    assert light.layout.paper_bgcolor == "#ffffff"
    assert dark.layout.paper_bgcolor == scoped.colors(dark=True)["paper"] == "#14171b"
    assert dark.layout.font.color == scoped.colors(dark=True)["ink"]
    assert [len(one.data) for one in (light, dark)] == [len(light.data)] * 2
    with pytest.raises(traceroof.TraceroofError, match="there is no clocks chart") as raised:
        results["diagnosis"].figures.clocks()
    assert "timeline" in raised.value.hint


def test_the_style_stays_within_its_element() -> None:
    """Every rule is of our element: a notebook around it looks as before."""
    style = scoped.style()
    before, _, within = style.partition("@scope (.traceroof) {")
    for line in before.strip().splitlines():
        assert ".traceroof {" in line
    assert ":root" not in within
    assert not re.search(r"\bbody\s*\{", within)
    assert within.count("{") == within.count("}") - 1
    light, dark = (scoped.colors(dark=one) for one in (False, True))
    assert set(light) - {"mono"} == set(dark)


def test_it_follows_the_theme_of_the_notebook(results: dict[str, Any]) -> None:
    """GIVEN the themes as JupyterLab tells them WHEN drawn THEN the colours are those of the theme, and
    what stands beside the output is not touched."""
    from playwright.sync_api import sync_playwright

    shown = results["diagnosis"]._repr_html_()
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=_chromium(), args=["--no-sandbox"])
        tab = browser.new_page()
        for theme, paper in (("true", "rgb(255, 255, 255)"), ("false", "rgb(20, 23, 27)")):
            tab.set_content(
                f'<body data-jp-theme-light="{theme}"><h1 id="beside">beside</h1>{shown}</body>'
            )
            colour = "e => getComputedStyle(e).backgroundColor"
            assert tab.locator(".traceroof").evaluate(colour) == paper
            size = "e => getComputedStyle(e).fontSize"
            assert tab.locator("#beside").evaluate(size) == "32px"
            assert tab.locator(".traceroof h1").evaluate(size) != "32px"
        browser.close()
