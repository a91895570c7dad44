"""The picture of ranks and steps, and what the page and the terminal say of many ranks."""

import base64
import re
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

import traceroof
from tests.report.pages import Elements
from tests.scale.ranks import written
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.report.html import render
from traceroof.report.html.rank_map import rank_map
from traceroof.report.run.timeline_lines import timeline_lines


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Diagnosis:
    """Twelve ranks of two steps; rank 5 works for 40 µs longer in each, 130 µs instead of 90."""
    paths = written(tmp_path_factory.mktemp("ranks"), 12, late={5: 40})
    return traceroof.diagnose(traceroof.read(paths), config=False, calibrated=False)


def cells(url: str) -> list[list[int]]:
    """The palette places of a PNG of one byte a pixel."""
    data = base64.b64decode(url.partition(",")[2])
    width, height = struct.unpack(">II", data[16:24])
    at, packed = 8, b""
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        if data[at + 4 : at + 8] == b"IDAT":
            packed += data[at + 8 : at + 8 + length]
        at += 12 + length
    lines = zlib.decompress(packed)
    return [[*lines[row * (width + 1) + 1 : (row + 1) * (width + 1)]] for row in range(height)]


def test_one_cell_a_rank_and_step(found: Diagnosis) -> None:
    made = rank_map(found)
    assert made is not None
    seen = cells(made.picture)
    assert (len(seen), len(seen[0])) == (12, 2)
    # Only rank 5's are dark: the last step lasts until its work ends, the other until the next.
    assert [row for row, line in enumerate(seen) if any(line)] == [5]
    assert "rank 5 in ProfilerStep#1 is the furthest above the median" in made.summary


def test_few_ranks_have_no_picture(tmp_path: Path) -> None:
    few = traceroof.read(written(tmp_path, 4))
    assert rank_map(traceroof.diagnose(few, config=False, calibrated=False)) is None


def test_the_page_links_the_straggler_to_its_row(found: Diagnosis) -> None:
    page = render.render(found)
    assert len(page.encode()) <= render.MOST_BYTES
    elements = Elements(page)
    assert "#rank-5" in elements.attributes("href")
    assert [one for one in elements.attributes("id") if one.startswith("rank-")] == [
        f"rank-{rank}" for rank in range(12)
    ]
    assert re.search(r"img-src data:", page)


def test_the_terminal_says_who_is_slow_and_at_what(found: Diagnosis) -> None:
    """The second step is judged, as the first lasts until the second: 40 µs more of its 90 µs
    outside the all-reduce. Eleven ranks waited 40 µs twice."""
    lines = dict(timeline_lines(found))
    assert lines["Stragglers"].startswith("rank 5 takes 40 µs longer (44.4 %): gemm +40 µs;")
    assert "others waited 880 µs for it in all" in lines["Stragglers"]
    assert "gemm 90 µs (90 µs to 130 µs, rank 5)" in lines["Across ranks"]


def test_many_ranks_leave_the_kernels_their_place(found: Diagnosis) -> None:
    """GIVEN 3,000 rows of ranks, which alone are larger than a page of few ranks may be beside what
    draws its charts THEN the kernels are there, and the page grows by its ranks alone."""
    assert found.ranks is not None
    (one, *_) = found.ranks.ranks
    many = tuple(replace(one, rank=number) for number in range(3_000))
    page = render.render(replace(found, ranks=replace(found.ranks, ranks=many)))
    assert page.count('<tr id="rank-') == 3_000
    assert "No kernel ran" not in page
    assert len(re.findall(r"<tr id=k\d+>", page)) == len(found.kernels)
    assert len(page.encode()) <= render.MOST_BYTES + 3_000 * 330
