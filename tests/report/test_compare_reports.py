"""Reports of a comparison: the verdict first, safe and short enough for where they are read."""

import re
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from tests.sides import A100, PROGRAM, one_run, repeated, side, stepped
from traceroof.compare import Comparison, compare
from traceroof.compare.verdicts import Thresholds
from traceroof.recording import DeviceInfo
from traceroof.report import compare_markdown, compare_terminal, markdown
from traceroof.report import compare_words as words

FIVE = (1.00, 1.01, 0.99, 1.00, 1.01)
SLOW = {**PROGRAM, "small(float*)": (30, 11_000)}
EVIL = "evil|<img src=x onerror=alert(1)>`@torvalds`--><script>(int)"


@pytest.fixture(scope="module")
def slower() -> Comparison:
    registers = dict.fromkeys(PROGRAM, 128.0)
    return compare(
        repeated(FIVE, columns={"registers_per_thread": registers}),
        repeated(FIVE, SLOW, columns={
            "registers_per_thread": {**registers, "small(float*)": 168.0}
        }),
    )  # fmt: skip


def test_the_first_lines_say_all_that_ten_seconds_hold(slower: Comparison) -> None:
    marker, headline, empty, where, why, attempt, *_ = compare_markdown.render(slower).splitlines()
    assert marker == "<!-- traceroof:pr-report:v1 key=side -->"
    assert headline == (
        "### 🔴 traceroof: **slower**, kernel time +0.5 % (6 → 6.03 ms) — "
        "1 regression · 2 unchanged"
    )
    assert empty == ""
    assert where == (
        "**Where it went:** `small` 10 → 11 µs × 30 launches = +30 µs (100.0 % of the change)"
    )
    assert "registers 128 → 168 a thread" in why
    assert "\\_\\_launch\\_bounds\\_\\_" in attempt


def test_the_row_has_both_sides_the_change_and_its_chance(slower: Comparison) -> None:
    (row,) = [line for line in compare_markdown.render(slower).splitlines() if "slower |" in line]
    # 330 of 6,000 µs; the median deviation of 1.00, 1.01, 0.99, 1.00, 1.01 is 0.01, 1 %.
    assert row == (
        "| 🔴 slower | `small` | 5.5 % | 10 µs ± 1.0 % | 11 µs ± 1.0 % "
        "| **+30 µs** (+10.0 %, p = 0.0079) | - | 0.95 |"
    )


def test_a_loss_is_told_though_the_whole_got_faster() -> None:
    head = {**SLOW, "copy_medium(float*)": (34, 41_000)}
    page = compare_markdown.render(compare(repeated(FIVE), repeated(FIVE, head)))
    assert "### 🟢 traceroof: **faster**" in page
    assert "**Where it came from:** `copy_medium` 50 → 41 µs × 34 launches = -306 µs" in page
    assert "**Slower all the same:** `small` 10 → 11 µs × 30 launches = +30 µs" in page


def test_terminal_says_the_same(slower: Comparison) -> None:
    text = compare_terminal.render(slower, width=100)
    assert text.startswith("SLOWER: kernel time +0.5 % (6 → 6.03 ms)\n")
    assert "Where it went: small: 10 → 11 µs × 30 launches = +30 µs" in text
    assert "5 against 5 runs" in text
    assert "\x1b" not in text
    assert "\x1b[" in compare_terminal.render(slower, color=True)


@pytest.mark.parametrize("width", [60, 80, 140])
def test_terminal_keeps_to_its_width(slower: Comparison, width: int) -> None:
    for one in (
        slower,
        compare(stepped(2), stepped(3, SLOW)),
        compare(side([one_run()]), side([one_run()])),
    ):
        lines = compare_terminal.render(one, width=width).splitlines()
        assert max(map(len, lines)) <= width
        assert not any(line != line.rstrip() for line in lines)


def test_what_does_not_compare_is_said_at_the_top() -> None:
    other = DeviceInfo(index=0, name="NVIDIA H100 80GB HBM3")
    made = compare(repeated(FIVE), repeated(FIVE, SLOW, device=other))
    for lines in (compare_markdown.render(made).splitlines()[1:4],
                  compare_terminal.render(made).splitlines()[:3]):  # fmt: skip
        top = " ".join(lines)
        assert "not comparable" in top.lower()
        assert "A100-SXM4-80GB → H100-SXM5" in top
        assert "Times were not compared" in top
    assert "+10.0 %" not in compare_markdown.render(made)
    forced = compare(repeated(FIVE), repeated(FIVE, SLOW, device=other), force=True)
    assert "Forced:" in compare_markdown.render(forced)
    assert "Forced:" in compare_terminal.render(forced)


def test_inconclusive_says_what_is_missing() -> None:
    made = compare(side([one_run()]), side([one_run(factor=1.1)]))
    page = compare_markdown.render(made)
    assert "🟡 traceroof: **inconclusive**, kernel time +10.0 %" in page
    assert "**one run a side: 5 runs a side decide.**" in page
    assert "<details><summary>3 not decided, or decided by counters</summary>" in page


def html_of(page: str) -> str:
    return str(MarkdownIt("commonmark").enable("table").render(page))


def test_names_from_files_are_never_markup() -> None:
    program = {**PROGRAM, EVIL: (10, 100_000), "*bold*_it_[x](http://e.org)~~": (10, 90_000)}
    slower = {**program, EVIL: (10, 150_000), "*bold*_it_[x](http://e.org)~~": (10, 150_000)}
    gpu = replace(A100, name="A100|<b>@here")
    runs = [
        side([one_run(p, f, start_ns=at * 10**9, device=gpu) for at, f in enumerate(FIVE)], EVIL)
        for p in (program, slower)
    ]
    page = compare_markdown.render(compare(*runs))
    html = html_of(page)
    ours = {"h3", "p", "strong", "br", "table", "thead", "tbody", "tr", "th", "td", "code",
            "details", "summary", "ul", "li"}  # fmt: skip
    assert set(re.findall(r"<([a-z0-9]+)", html)) <= ours
    assert "<a " not in html
    # Eight columns in every row of the table of kernels.
    table = html[html.index("<table>") : html.index("</table>")]
    assert {
        row.count("<td") + row.count("<th ") + row.count("<th>") for row in table.split("<tr>")[1:]
    } == {8}
    # Nobody is mentioned: outside of code, "@" is followed by a zero-width space.
    outside = re.sub(r"<code>.*?</code>", "", html, flags=re.DOTALL)
    assert not re.search(r"@\w", outside)
    assert page.splitlines()[0].count("-->") == 1


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("main", "main"),
        ("a --> <script>", "a-script"),
        ("", "side"),
        ("--", "default"),
        ("x" * 99, "x" * 60),
    ],
)
def test_marker_is_one_comment_whatever_the_key(slower: Comparison, key: str, shown: str) -> None:
    first = compare_markdown.render(slower, key=key).splitlines()[0]
    assert first == f"<!-- traceroof:pr-report:v1 key={shown} -->"


def test_a_comment_fits_and_says_what_was_cut() -> None:
    """1,000 kernels with long names, all slower; GitHub takes 65,536 characters."""
    names = [f"k{at:04}<{'x' * 300}{at}>(int)" for at in range(1000)]
    base = side([one_run(dict.fromkeys(names, (1, 1000)))], "b" * 5000)
    head = side([one_run(dict.fromkeys(names, (1, 2000)))], "h" * 5000)
    made = compare(base, head, limits=Thresholds(least_ns=1.0))
    for top in (10, 5000):
        page = compare_markdown.render(made, top=top)
        assert len(page) <= markdown.MOST_CHARACTERS
        assert len(page.encode()) < 2**20
        assert re.search(r"[\d,]+ more kernels changed and are not listed", page)
        assert page.count("<details>") == page.count("</details>")
    assert "| `k" in page


@pytest.mark.parametrize(
    ("base", "head", "text"),
    [
        (3.71e3, 4.35e3, "3.71 → 4.35 µs"),
        (9e5, 1.2e6, "900 µs → 1.20 ms"),
        (None, 5.0, "unknown → 5 ns"),
    ],
)
def test_from_to_says_the_unit_once(base: float | None, head: float, text: str) -> None:
    assert words.from_to(base, head) == text


def test_numbers_have_signs() -> None:
    assert [words.signed(value) for value in (211e6, -29e6, 0.0, None)] == [
        "+211 ms", "-29 ms", "0 ns", "unknown",
    ]  # fmt: skip
    assert [words.p_value(p) for p in (0.0002, 0.0079, 0.21)] == [
        "p < 0.001", "p = 0.0079", "p = 0.21",
    ]  # fmt: skip
