"""The HTML report in a browser: offline, silent, usable by mouse, keyboard and screen reader.

Driven against the system's Chromium; skipped where there is none, except in CI (TRACEROOF_CI).
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.report.pages import HOSTILE, extremes, kernels, many, timeline
from tests.runs import two_kernels
from tests.sides import repeated, stepped
from traceroof.compare import Comparison, compare
from traceroof.core.recording import Recording, Run
from traceroof.core.units import one_line
from traceroof.diagnosis.diagnose import diagnose
from traceroof.report.html import render

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SAMPLE = "nsight_compute/transformer_layer.raw.csv"


def _chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("google-chrome")


pytestmark = pytest.mark.skipif(
    _chromium() is None and not os.environ.get("TRACEROOF_CI"), reason="no Chromium here"
)


class Opened:
    """A page with everything that it asked for and complained of."""

    def __init__(self, page: "Page", path: Path) -> None:
        self.page = page
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")

    def rows(self) -> list[str]:
        """The kernels shown, by their rank, in the order shown."""
        shown: list[str] = self.page.evaluate(
            "[...document.querySelectorAll('#table tbody tr[id]')]"
            ".filter(row => !row.hidden).map(row => row.id.slice(1))"
        )
        return shown

    def focused(self) -> str:
        """The row that has the focus."""
        where: str = self.page.evaluate("document.activeElement.closest('tr')?.id ?? ''")
        return where


def until(page: "Page", expression: str) -> None:
    """Wait until a JavaScript expression holds, five seconds at most.

    Playwright's own wait evaluates text in the page, which the page's policy rightly forbids.
    """
    for _ in range(250):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(20)
    raise AssertionError(f"never: {expression}")


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # In a container Chromium runs as root, which its sandbox does not allow.
        opened = playwright.chromium.launch(executable_path=_chromium(), args=["--no-sandbox"])
        yield opened
        opened.close()


class Opener:
    """Opens the report of a recording or of a sample file, offline. A sample is rendered once."""

    def __init__(self, browser: "Browser", folder: Path, samples: Path) -> None:
        self._browser, self._folder, self._samples = browser, folder, samples

    def __call__(self, what: Recording | Comparison | str, **context: Any) -> Opened:
        made = self._browser.new_context(offline=True, **context)
        made.set_default_timeout(10_000)
        return Opened(made.new_page(), self._report(what))

    def _report(self, what: Recording | Comparison | str) -> Path:
        from traceroof import read

        path = self._folder / ("sample" if isinstance(what, str) else "made") / "report.html"
        if not isinstance(what, str) or not path.exists():
            run = read(self._samples / what) if isinstance(what, str) else what
            shown = run if isinstance(run, Comparison) else diagnose(run)
            path.parent.mkdir(exist_ok=True)
            path.write_text(render.render(shown), "utf-8")
        return path


@pytest.fixture(scope="module")
def opener(browser: "Browser", tmp_path_factory: pytest.TempPathFactory, samples: Path) -> Opener:
    return Opener(browser, tmp_path_factory.mktemp("reports"), samples)


@pytest.fixture
def open_report(opener: Opener, browser: "Browser") -> Iterator[Opener]:
    yield opener
    for context in browser.contexts:
        context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_loads_offline_without_request_or_complaint(open_report: Opener, scheme: str) -> None:
    opened = open_report(SAMPLE, color_scheme=scheme)
    opened.page.wait_for_timeout(300)
    assert opened.complaints == []
    assert [url for url in opened.requests if not url.endswith("/report.html")] == []
    drawn = opened.page.evaluate(
        "[...document.querySelectorAll('.chart')].map(one => [one.dataset.chart,"
        " one.querySelectorAll('.point path, .points path').length])"
    )
    assert [name for name, _ in drawn] == ["categories", "roofline", "use"]
    assert all(marks > 0 for _, marks in drawn)


@pytest.mark.parametrize("made", [extremes, timeline])
def test_no_tick_or_bar_asks_for_more_than_the_policy_allows(
    open_report: Opener, made: Callable[[], Recording]
) -> None:
    opened = open_report(made())
    opened.page.keyboard.press("t")
    opened.page.wait_for_timeout(200)
    assert opened.complaints == []
    assert opened.page.locator(".chart .xtick").count() > 0


def test_colours_of_bars_are_drawn_under_the_policy(open_report: Opener) -> None:
    opened = open_report(SAMPLE)
    # A pattern that the policy had blocked would leave the bar without paint.
    fills = opened.page.evaluate(
        "[...document.querySelectorAll('[data-chart=categories] .point path')]"
        ".map(one => getComputedStyle(one).fill)"
    )
    assert all(fill.startswith(("rgb", "url")) for fill in fills)
    assert opened.page.evaluate("document.querySelectorAll('.chart pattern rect').length") > 0


def test_hostile_names_change_nothing(open_report: Opener) -> None:
    opened = open_report(kernels(list(HOSTILE)))
    page = opened.page
    for rank, name in enumerate(HOSTILE, 1):
        page.click(f"#k{rank} th button")
        visible = one_line(name)
        assert page.inner_text(f"#k{rank} + tr .name") == visible
    marks = page.locator("[data-chart=use] .points path")
    assert marks.count() == len(HOSTILE)
    for mark in marks.all():
        mark.hover(force=True)
        page.wait_for_timeout(50)
    page.wait_for_timeout(200)
    assert page.title() == "made.csv: traceroof report"
    assert page.evaluate("document.images.length") == 0
    assert page.locator("svg[onload], [onerror]").count() == 0
    assert opened.complaints == []


def test_columns_sort_both_ways(open_report: Opener) -> None:
    opened = open_report(SAMPLE)
    by_time = [str(rank) for rank in range(1, 18)]
    assert opened.rows() == by_time
    header = opened.page.locator("#table thead th", has_text="Per call")
    header.get_by_role("button").click()
    assert header.get_attribute("aria-sort") == "descending"
    assert opened.rows() == by_time, "one launch each: the same order as by time"
    header.get_by_role("button").click()
    assert header.get_attribute("aria-sort") == "ascending"
    assert opened.rows() == by_time[::-1]
    opened.page.get_by_role("button", name="Category", exact=True).click()
    names = opened.page.locator("#table tbody tr[id] td:nth-child(3)").all_inner_texts()
    assert names == sorted(names)
    assert opened.page.locator("[aria-sort=ascending]").count() == 1


def test_unknown_values_come_last_either_way(open_report: Opener) -> None:
    recording = kernels(
        ["a", "b", "c"],
        dram_throughput_pct=[None, 90.0, 80.0],
        duration_ns=[9000, 8000, None],
    )
    opened = open_report(recording)
    for column, downwards, upwards in (
        ("DRAM", ["2", "3", "1"], ["3", "2", "1"]),
        ("Time", ["1", "2", "3"], ["2", "1", "3"]),
        ("Per call", ["1", "2", "3"], ["2", "1", "3"]),
    ):
        button = opened.page.get_by_role("button", name=column, exact=True)
        button.click()
        assert opened.rows() == downwards
        button.click()
        assert opened.rows() == upwards


def test_search_and_filters_narrow_the_table(open_report: Opener) -> None:
    from playwright.sync_api import expect

    opened = open_report(SAMPLE)
    page = opened.page
    page.fill("#search", "vectorized")
    found = opened.rows()
    assert 0 < len(found) < 17
    assert page.inner_text("#count") == f"{len(found)} of 17 kernels"
    page.fill("#search", "no such kernel")
    assert opened.rows() == []
    assert page.is_visible("#nothing")
    page.get_by_role("button", name="Clear").click()
    # The form is reset after the click.
    expect(page.locator("#count")).to_have_text("17 kernels")
    page.select_option("#category", "gemm")
    assert opened.rows() == ["1", "2", "3", "4"]
    page.select_option("#class", "compute-leaning")
    assert opened.rows() == ["4"]


def test_search_looks_at_the_whole_name(open_report: Opener) -> None:
    opened = open_report(kernels(["void deep::space::kernel_a<int>(float const*)", "kernel_b"]))
    opened.page.fill("#search", "deep::space float")
    assert opened.rows() == ["1"]


def test_card_unfolds_with_findings_and_metrics(open_report: Opener) -> None:
    opened = open_report(SAMPLE)
    page = opened.page
    button = page.locator("#k4 th button")
    assert button.get_attribute("aria-expanded") == "false"
    button.click()
    assert button.get_attribute("aria-expanded") == "true"
    card = page.inner_text(".card")
    for part in ("Launches", "Use, of peak", "Roofline", "Where warps wait", "Findings"):
        assert part in card
    page.click(".card summary")
    assert "registers_per_thread" in page.inner_text(".card .metrics")
    # Sorting takes the card along with its kernel.
    page.get_by_role("button", name="Kernel", exact=True).click()
    assert page.evaluate("document.querySelector('.card').parentElement.previousSibling.id") == "k4"
    button.click()
    assert page.locator(".card").count() == 0


def test_fix_leads_to_its_kernel_and_back(open_report: Opener) -> None:
    opened = open_report(SAMPLE)
    page = opened.page
    page.select_option("#category", "norm")
    page.click("#fix-1 .where a")
    # The browser tells the page of the new address after the click has returned.
    until(page, "document.activeElement.closest('tr') !== null")
    kernel = opened.focused()
    assert kernel
    assert page.is_visible(f"#{kernel}"), "what the filter hid is shown again"
    assert page.locator(f"#{kernel} th button").get_attribute("aria-expanded") == "true"
    page.click(f"#{kernel} td:last-child a")
    until(page, "location.hash === '#fix-1'")


def test_link_to_a_folded_fix_opens_it(open_report: Opener) -> None:
    opened = open_report(SAMPLE)
    page = opened.page
    last = page.locator("li.fix").last
    assert not last.is_visible()
    number = last.get_attribute("id")
    page.evaluate(f"location.hash = '{number}'")
    last.wait_for(state="visible")


def test_mark_in_a_chart_opens_the_card(open_report: Opener) -> None:
    opened = open_report(two_kernels())
    opened.page.locator("[data-chart=use] .points path").first.click(force=True)
    opened.page.wait_for_selector(".card")
    assert opened.focused() == "k1"


def test_keyboard_alone_is_enough(open_report: Opener) -> None:
    opened = open_report(SAMPLE)
    page = opened.page
    page.keyboard.press("j")
    assert opened.focused() == "k1"
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    assert page.locator("#k2 th button").get_attribute("aria-expanded") == "true"
    page.keyboard.press("k")
    assert opened.focused() == "k1"
    page.keyboard.press("/")
    page.keyboard.type("jkt?f")
    assert page.input_value("#search") == "jkt?f", "keys are letters while one types"
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    assert page.is_visible("dialog")
    page.keyboard.press("Escape")
    assert not page.is_visible("dialog")
    page.keyboard.press("f")
    assert page.evaluate("document.activeElement.id") == "fixes"


def test_theme_switches_page_and_charts(open_report: Opener) -> None:
    opened = open_report(SAMPLE, color_scheme="light")
    page = opened.page

    def colours() -> tuple[str, str]:
        return (
            page.evaluate("getComputedStyle(document.body).backgroundColor"),
            page.evaluate("getComputedStyle(document.querySelector('.chart .xtick text')).fill"),
        )

    light = colours()
    page.keyboard.press("t")
    dark = colours()
    assert page.inner_text("#theme") == "Theme: dark"
    assert light[0] != dark[0]
    assert light[1] != dark[1]
    page.keyboard.press("t")
    assert colours() == light
    page.keyboard.press("t")
    assert page.inner_text("#theme") == "Theme: system"
    page.emulate_media(color_scheme="dark")
    page.wait_for_timeout(100)
    assert colours() == dark
    assert opened.complaints == []


@pytest.mark.parametrize("made", ["sample", "many", "timeline"])
def test_nothing_is_wider_than_the_screen(open_report: Opener, made: str) -> None:
    what: dict[str, Recording | str] = {
        "sample": SAMPLE, "many": many(40), "timeline": timeline(),
    }  # fmt: skip
    page = open_report(what[made]).page
    page.locator("#table tbody th button").first.click()
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    for width in (390, 768, 1100, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_timeout(100)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_page_is_whole_without_javascript(open_report: Opener, browser: "Browser") -> None:
    opened = open_report(SAMPLE)
    context = browser.new_context(offline=True, java_script_enabled=False)
    page = context.new_page()
    page.goto(opened.page.url)
    assert "kernel time" in page.inner_text(".figures")
    assert page.locator("#table tbody tr").count() == 17
    assert page.is_visible("noscript p")


def test_print_shows_light_paper_and_no_buttons(open_report: Opener) -> None:
    opened = open_report(SAMPLE, color_scheme="dark")
    page = opened.page
    page.emulate_media(media="print", color_scheme="dark")
    page.wait_for_timeout(200)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    text = "getComputedStyle(document.querySelector('.chart .xtick text')).fill"
    assert page.evaluate(text) == "rgb(27, 31, 36)"
    assert not page.is_visible("#theme")
    assert not page.is_visible("#search")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_no_serious_accessibility_violation(open_report: Opener, scheme: str, width: int) -> None:
    opened = open_report(SAMPLE, color_scheme=scheme, viewport={"width": width, "height": 900},
                         bypass_csp=True)  # fmt: skip
    page = opened.page
    assert serious_violations(page) == []


def serious_violations(page: "Page") -> list[object]:
    """What axe-core finds with everything unfolded."""
    from axe_playwright_python.sync_playwright import Axe

    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    page.click("#k1 th button")
    if page.locator(".card summary").count():
        page.click(".card summary")
    found = Axe().run(page)
    return [
        (one["id"], one["impact"], [node["html"][:120] for node in one["nodes"]][:3])
        for one in found.response["violations"]
        if one["impact"] in ("serious", "critical")
    ]


def test_many_kernels_come_in_view_on_demand(open_report: Opener) -> None:
    from playwright.sync_api import expect

    opened = open_report(many(600))
    page = opened.page
    assert opened.rows() == [str(rank) for rank in range(1, 51)]
    page.get_by_role("button", name="Calls", exact=True).click()
    assert len(opened.rows()) == 50
    # A kernel out of view is found by its name, and by a link.
    page.fill("#search", "device_kernel<120,")
    assert opened.rows() == ["121"]
    page.get_by_role("button", name="Clear").click()
    expect(page.locator("#count")).to_have_text(re.compile(r"^\d+ kernels$"))
    page.evaluate("location.hash = 'k100'")
    page.wait_for_selector("#k100 + tr .card")
    assert len(opened.rows()) == 51
    page.click("#more button")
    assert len(opened.rows()) > 150
    assert not page.is_visible("#more")
    assert opened.complaints == []


FIVE = (1.00, 1.01, 0.99, 1.00, 1.01)
CHANGED = {
    "sgemm_big(float*)": (10, 400_000),
    "small(float*)": (30, 11_000),
    "newcomer<int>(int*)": (4, 90_000),
}


def with_base() -> Comparison:
    """ "small" is slower, "newcomer" new, "copy_medium" gone, "sgemm_big" the same."""
    return compare(repeated(FIVE), repeated(FIVE, CHANGED))


def counters() -> Comparison:
    """Kernels on the roofline and by use, each elsewhere than in the base; one run per side."""
    base, head = many(12), many(12)
    moved = head.kernels.set_column(
        head.kernels.column_names.index("dram_bytes"),
        head.kernels.schema.field("dram_bytes"),
        [[value * 3 for value in head.kernels["dram_bytes"].to_pylist()]],
    )
    return compare(Run(base, "base"), Run(replace(head, kernels=moved), "head"))


@pytest.mark.parametrize("made", [with_base, counters, lambda: compare(stepped(3), stepped(4))])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_base_loads_offline_without_request_or_complaint(
    open_report: Opener, made: Callable[[], Comparison], scheme: str
) -> None:
    opened = open_report(made(), color_scheme=scheme)
    opened.page.keyboard.press("t")
    opened.page.wait_for_timeout(200)
    assert opened.complaints == []
    assert [url for url in opened.requests if not url.endswith("/report.html")] == []
    drawn = opened.page.locator("[data-chart=categories] .point path")
    assert drawn.count() > 0


def test_rows_sort_by_change_and_filter_by_verdict(open_report: Opener) -> None:
    from playwright.sync_api import expect

    opened = open_report(with_base())
    page = opened.page
    names = dict(enumerate(page.locator("#table tbody tr[id] th button").all_inner_texts(), 1))

    def shown() -> list[str]:
        return [names[int(rank)] for rank in opened.rows()]

    page.get_by_role("button", name="Change", exact=True).click()
    assert shown() == ["newcomer<int>", "small", "sgemm_big"], "+360 µs, +30 µs, 0"
    page.get_by_role("button", name="Change", exact=True).click()
    assert shown() == ["sgemm_big", "small", "newcomer<int>"]
    page.get_by_role("button", name="Base → now, per run", exact=True).click()
    assert shown() == ["sgemm_big", "small", "newcomer<int>"], "no base comes last"
    page.get_by_role("button", name="Verdict", exact=True).click()
    assert shown()[0] == "small", "what got slower comes first"
    options = page.locator("#change option").all_inner_texts()
    assert options == ["all", "slower", "new", "same"]
    page.select_option("#change", "slower")
    assert shown() == ["small"]
    assert page.inner_text("#count") == "1 of 3 kernels"
    page.select_option("#change", "new")
    assert shown() == ["newcomer<int>"]
    page.get_by_role("button", name="Clear").click()
    expect(page.locator("#count")).to_have_text("3 kernels")
    page.fill("#search", "slower")
    assert shown() == ["small"], "a verdict is found by its word, too"


def test_card_has_the_figures_of_the_base(open_report: Opener) -> None:
    opened = open_report(counters())
    page = opened.page
    page.click("#k1 th button")
    card = page.inner_text(".card")
    assert "time per run" in card
    assert re.search(r"verdict\s+slower, by counters", card)
    # Three times 1,000,000 bytes.
    assert re.search(r"DRAM traffic\s+3\.?0*\d* MB.*; base 1\.?0*\d* MB", card)
    assert opened.complaints == []


def test_tail_of_a_mark_leads_to_its_kernel(open_report: Opener) -> None:
    opened = open_report(counters())
    page = opened.page
    marks = page.locator("[data-chart=roofline] .scatterlayer .trace").last.locator(".points path")
    assert marks.count() == 12
    marks.first.click(force=True)
    page.wait_for_selector(".card")
    assert opened.focused() == "k1"


def test_story_leads_to_its_kernel(open_report: Opener) -> None:
    opened = open_report(with_base())
    opened.page.locator(".story a").first.click()
    until(opened.page, "document.activeElement.closest('tr') !== null")
    assert opened.page.is_visible(f"#{opened.focused()} + tr .card")


def test_hostile_names_on_both_sides_change_nothing(open_report: Opener) -> None:
    names = list(HOSTILE)
    base, head = kernels([*names, "gone " + names[0]]), kernels([*names, "new " + names[1]])
    opened = open_report(compare(Run(base, names[1]), Run(head, names[0])))
    page = opened.page
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    for rank in range(1, len(names) + 2):
        page.click(f"#k{rank} th button")
    for mark in page.locator("[data-chart=use] .points path").all():
        mark.hover(force=True)
        page.wait_for_timeout(20)
    page.keyboard.press("t")
    page.wait_for_timeout(200)
    assert page.title() == f"{names[0]}: traceroof report"
    assert page.evaluate("document.images.length") == 0
    assert page.locator("svg[onload], [onerror]").count() == 0
    assert page.locator("a[href^='javascript']").count() == 0
    assert opened.complaints == []


@pytest.mark.parametrize("made", [with_base, counters])
def test_page_with_base_is_no_wider_than_the_screen(
    open_report: Opener, made: Callable[[], Comparison]
) -> None:
    page = open_report(made()).page
    page.locator("#table tbody th button").first.click()
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    for width in (390, 768, 1100, 1280, 1600):
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_timeout(100)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        # The verdict is in view without scrolling the table.
        box = page.locator("#k1 td:nth-child(15)").bounding_box()
        assert box
        assert box["x"] + box["width"] <= width


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
@pytest.mark.parametrize("made", [with_base, counters])
def test_page_with_base_has_no_serious_accessibility_violation(
    open_report: Opener, made: Callable[[], Comparison], scheme: str, width: int
) -> None:
    opened = open_report(
        made(), color_scheme=scheme, viewport={"width": width, "height": 900}, bypass_csp=True
    )
    assert serious_violations(opened.page) == []


def test_page_with_base_is_whole_without_javascript(
    open_report: Opener, browser: "Browser"
) -> None:
    opened = open_report(with_base())
    context = browser.new_context(offline=True, java_script_enabled=False)
    page = context.new_page()
    page.goto(opened.page.url)
    assert "Faster" in page.inner_text("h1")
    assert page.inner_text("#k3 td:nth-child(15)") == "▲ slower"
