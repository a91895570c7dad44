"""Reports of a comparison: the verdict first, safe and short enough for where they are read."""

import re
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from tests.runs import recording
from tests.sides import A100, PROGRAM, one_run, repeated, side, stepped
from traceroof.compare import Comparison, compare
from traceroof.compare.noise_threshold import Thresholds
from traceroof.core.recording import DeviceInfo, Run
from traceroof.report.compare import markdown as compare_markdown
from traceroof.report.compare import stories, terminal, words
from traceroof.report.run import markdown

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
        "### 🔴 traceroof: **slower**, wall time +0.5 % (6.13 → 6.16 ms), kernel time +0.5 % "
        "(6 → 6.03 ms) — 1 regression · 2 unchanged"
    )
    assert empty == ""
    assert where == (
        "**Where it went:** `small` 10 → 11 µs × 30 launches = +30 µs (100.0 % of the change)"
    )
    assert "registers 128 → 168 per thread" in why
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
    text = terminal.render(slower, width=100)
    assert text.startswith(
        "SLOWER: wall time +0.5 % (6.13 → 6.16 ms), kernel time +0.5 % (6 → 6.03 ms)\n"
    )
    assert "Where it went: small: 10 → 11 µs × 30 launches = +30 µs" in text
    assert "5 against 5 runs" in text
    assert "\x1b" not in text
    assert "\x1b[" in terminal.render(slower, color=True)


@pytest.mark.parametrize("width", [60, 80, 140])
def test_terminal_keeps_to_its_width(slower: Comparison, width: int) -> None:
    for one in (
        slower,
        compare(stepped(2), stepped(3, SLOW)),
        compare(side([one_run()]), side([one_run()])),
    ):
        lines = terminal.render(one, width=width).splitlines()
        assert max(map(len, lines)) <= width
        assert not any(line != line.rstrip() for line in lines)


def test_launches_that_differ_are_shown_beside_the_time_of_a_call() -> None:
    """A call takes longer, and the kernel less: 4 launches became 3."""
    base = {**PROGRAM, "cat_copy(float*)": (4, 312_000)}
    head = {**PROGRAM, "cat_copy(float*)": (3, 320_000)}
    made = compare(repeated(FIVE, base), repeated(FIVE, head))
    for width in (60, 80, 120):
        text = terminal.render(made, width=width)
        assert text.count("4 → 3 calls") == 1
    (row,) = [
        line for line in compare_markdown.render(made).splitlines()
        if line.startswith("| ") and "`cat_copy`" in line
    ]  # fmt: skip
    # 4 x 312 µs became 3 x 320 µs: 288 µs of 1,248 less.
    assert "**-288 µs** (-23.1 %" in row
    assert "), 4 → 3 calls |" in row


@pytest.mark.parametrize("width", [60, 70, 80, 100])
def test_a_number_is_never_cut(width: int) -> None:
    """The widest figures: another unit on either side, and a factor."""
    names = ("a_kernel_with_a_rather_long_name", "another_kernel_with_a_long_name")
    base = {names[0]: (1, 9_590_000), names[1]: (1, 6_750)}
    head = {names[0]: (1, 6_750), names[1]: (1, 9_590_000)}
    made = compare(side([one_run(base)]), side([one_run(head)]))
    text = terminal.render(made, width=width)
    table = text[text.index("\nKernels") : text.index("\nCategories")]
    for figure in ("9.59 ms", "6.75 µs", "-9.58 ms", "+9.58 ms", "-99.9 %", "×1,421"):
        assert figure in table
    assert max(map(len, text.splitlines())) <= width


def test_what_does_not_compare_is_said_at_the_top() -> None:
    other = DeviceInfo(index=0, name="NVIDIA H100 80GB HBM3")
    made = compare(repeated(FIVE), repeated(FIVE, SLOW, device=other))
    for lines in (compare_markdown.render(made).splitlines()[1:4],
                  terminal.render(made).splitlines()[:3]):  # fmt: skip
        top = " ".join(lines)
        assert "not comparable" in top.lower()
        assert "A100-SXM4-80GB → H100-SXM5" in top
        assert "Times were not compared" in top
    assert "+10.0 %" not in compare_markdown.render(made)
    forced = compare(repeated(FIVE), repeated(FIVE, SLOW, device=other), force=True)
    assert "Forced:" in compare_markdown.render(forced)
    assert "Forced:" in terminal.render(forced)


def test_inconclusive_says_what_is_missing() -> None:
    made = compare(side([one_run()]), side([one_run(factor=1.1)]))
    page = compare_markdown.render(made)
    assert "🟡 traceroof: **inconclusive**, wall time +9.9 % (6.07 → 6.67 ms), kernel" in page
    assert "**one run per side; a verdict needs 5 runs per side.**" in page
    assert "<details><summary>3 without a verdict, or judged by counters</summary>" in page


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (("main", "head 2.csv"), ("main", "'head 2.csv'")),
        (("side", "side"), ("BASE", "HEAD")),
        (("a|b", "c"), ("BASE", "HEAD")),
    ],
)
def test_a_comment_says_how_to_reproduce_it(names: tuple[str, str], shown: tuple[str, str]) -> None:
    base, head = (replace(side([one_run()]), name=name) for name in names)
    page = compare_markdown.render(compare(base, head))
    assert (
        f"- Reproduce: `traceroof compare {shown[0]} {shown[1]}`, "
        f"`traceroof report {shown[1]} --base {shown[0]}`\n"
    ) in page
    limits = Thresholds(percent=3.0, least_ns=2e6)
    assert words.commands(compare(base, head, limits=limits))[0].endswith(
        f"{shown[1]} --min-percent 3 --min-ms 2"
    )


def test_copies_are_told_where_they_changed() -> None:
    def run(copied_ns: int) -> Run:
        columns = {
            "kind": ["kernel", "memcpy"],
            "kernel_name": ["k(int)", "Memcpy HtoD"],
            "duration_ns": [100_000, copied_ns],
            "start_ns": [0, 200_000],
            "device": [0, 0],
        }
        return Run(recording(columns, time_basis="timeline", devices=(A100,)), "moved")

    page = compare_markdown.render(compare(run(30_000), run(45_000)))
    assert "Per run: copies 30 → 45 µs" in page
    assert "copies" not in compare_markdown.render(compare(run(30_000), run(30_000)))


def test_one_run_a_side_tells_where_the_time_went_although_no_kernel_is_judged() -> None:
    slow = {**PROGRAM, "sgemm_big(float*)": (10, 640_000)}
    made = compare(stepped(6), stepped(6, slow))
    page = compare_markdown.render(made)
    assert "**slower**, step time +33.9 %" in page  # 2.4 of 7.073 ms
    assert "**Where it went:** `sgemm_big` 400 → 640 µs × 10 launches = +2.40 ms" in page
    assert "| 🟡 unclear | `sgemm_big` |" in page
    assert (
        "the step time counts if it changes by 20 % or more; all other times need 5 runs per side"
        in page
    )
    back = compare_markdown.render(compare(stepped(6, slow), stepped(6)))
    assert "**Where it came from:** `sgemm_big` 640 → 400 µs" in back


def test_why_says_what_was_recorded() -> None:
    (told,) = stories.stories(compare(repeated(FIVE), repeated(FIVE, SLOW)))
    assert told.why == (
        "launches unchanged; bytes, operations and registers not recorded; its limit is not known"
    )
    counters = {
        "registers_per_thread": dict.fromkeys(PROGRAM, 64.0),
        "dram_bytes": dict.fromkeys(PROGRAM, 1e6),
        "sm_throughput_pct": dict.fromkeys(PROGRAM, 20.0),
        "memory_throughput_pct": dict.fromkeys(PROGRAM, 90.0),
    }
    made = compare(repeated(FIVE, columns=counters), repeated(FIVE, SLOW, columns=counters))
    (told,) = stories.stories(made)
    assert told.why.startswith("launches, bytes and registers unchanged; operations not recorded")
    assert told.why.endswith("memory-leaning (compute 20 %, memory 90 %)")


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
