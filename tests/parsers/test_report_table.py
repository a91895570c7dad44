"""Reports against a second decoder, against NVIDIA's own output, and against what ncu itself wrote
at instructions and lines."""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.parsers import ncu_wire as wire
from tests.parsers.report_table import CORPUS, against_page, against_wire, partner, program_counters
from tests.parsers.test_nsight_compute_report import Maker, put
from traceroof.core.source_lines import SAMPLES_OF
from traceroof.parser import Options, silent
from traceroof.parsers.nsight.source_metrics import canonical
from traceroof.parsers.nsight_compute_report import PARSER

REPORTS = sorted(CORPUS.glob("*.ncu-rep")) if CORPUS.is_dir() else []
PARTNERS = [(path, page) for path in REPORTS if (page := partner(path))]


@pytest.mark.corpus
@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.name)
def test_all_columns_and_instructions_are_what_the_second_decoder_reads(path: Path) -> None:
    found = against_wire(path)
    assert found.differences == ()
    # Identity, launch and at least one measurement.
    assert found.columns >= 25
    assert found.launches == len(wire.results(path)) > 0


@pytest.mark.corpus
@pytest.mark.parametrize(("path", "page"), PARTNERS, ids=lambda path: path.name)
def test_all_columns_are_those_of_nvidias_output(path: Path, page: Path) -> None:
    found = against_page(path, page)
    assert found.differences == ()
    assert found.columns >= 10


@pytest.mark.corpus
def test_there_are_reports_and_a_partner(corpus: Path) -> None:
    assert (len(REPORTS), len(PARTNERS)) == (11, 1)


def test_a_difference_is_found(tmp_path: Path) -> None:
    """GIVEN a report that differs from its page by one metric THEN the table names the column."""
    made = Maker()
    made.block(made.result({"gpu__time_duration.sum": 1_000, "launch__registers_per_thread": 40}))
    (tmp_path / "a.ncu-rep").write_bytes(made.written())
    header = (
        '"ID","Process ID","Kernel Name","gpu__time_duration.sum","launch__registers_per_thread"'
    )
    page = f'{header}\n"","","","ns","register/thread"\n"0","4242","f(float *)","1000","41"\n'
    (tmp_path / "a.csv").write_text(page)
    found = against_page(tmp_path / "a.ncu-rep", tmp_path / "a.csv")
    assert found.differences == ("registers_per_thread: 40.0, not 41.0 (1)",)


# --- what ncu wrote at instructions (field 5 of a rule's result) -------------------------------

# The two sentences with figures, from 2024 on.
_STALLS = re.compile(
    r"responsible for ([\d.]+)% of all warp stalls.*?([\d.]+)% .*?of type (\w+)", re.DOTALL
)
_EXCESS = re.compile(r"([\d.]+)% of this line's global accesses are excessive")
# They have one decimal.
_PRINTED = 0.00051


def _marked() -> Iterator[tuple[Any, wire.Marker, dict[int, dict[str, Any]]]]:
    """Every marker with its place, and our rows of its launch by program counter."""
    for path in REPORTS:
        found = wire.results(path)
        if not any(one.markers for one in found):
            continue
        table = PARSER.read(path, silent, Options()).source_lines.to_pylist()
        for launch, one in enumerate(found):
            rows = [row for row in table if row["row"] == launch]
            by_pc = dict(zip(program_counters(one), rows, strict=True))
            for marker in one.markers:
                yield (path.name, launch, marker.text), marker, by_pc


@pytest.mark.corpus
def test_our_figures_are_those_of_ncus_markers() -> None:
    """Every figure that ncu wrote at an instruction: its share of the stalls, its main reason's share
    of its samples, its excess of sectors; and every source line that it marked."""
    stalls = places = 0
    for where, marker, rows in _marked():
        if marker.kind == 1:
            places += 1
            assert (marker.path, marker.line) in {
                (row["file"], row["line"]) for row in rows.values()
            }, where
            continue
        row = rows[marker.pc or 0]
        if found := _STALLS.search(marker.text):
            stalls += 1
            samples = sum(one["samples"] or 0 for one in rows.values())
            assert row["samples"] / samples == pytest.approx(float(found[1]) / 100, abs=_PRINTED)
            of_reason = row[SAMPLES_OF[canonical(found[3])]] / row["samples"]
            assert of_reason == pytest.approx(float(found[2]) / 100, abs=_PRINTED), where
        if found := _EXCESS.search(marker.text):
            moved, ideal = row["global_sectors"], row["global_sectors_ideal"]
            share = float(found[1]) / 100
            assert (moved - ideal) / moved == pytest.approx(share, abs=_PRINTED), where
    # All that the reports of the corpus hold; none of them marks an excess.
    assert (stalls, places) == (16, 9)


@pytest.mark.corpus
@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.name)
def test_sectors_of_instructions_add_up_to_the_kernels_counters(path: Path) -> None:
    """Loads, stores, reductions and atomics at L1 are what the instructions move; another replay
    counts up to 1.7 % more or less."""
    table = PARSER.read(path, silent, Options()).source_lines.to_pylist()
    for launch, one in enumerate(wire.results(path)):
        counted = [
            one.metrics.get(f"l1tex__t_sectors_pipe_lsu_mem_global_op_{kind}.sum")
            for kind in ("ld", "st", "red", "atom")
        ]
        known = [value for value in counted if isinstance(value, int | float)]
        moved = [row["global_sectors"] for row in table if row["row"] == launch]
        if len(known) == 4 and any(moved):
            assert sum(one or 0 for one in moved) == pytest.approx(sum(known), rel=0.017)


@pytest.mark.corpus
@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.name)
def test_grids_are_in_blocks(path: Path) -> None:
    """The shapes of launches multiply to the numbers of blocks and threads that ncu stored beside them,
    also in reports of 2020, which have the grid in threads."""
    kernels = PARSER.read(path, silent, Options()).kernels.to_pydict()
    for row, one in enumerate(wire.results(path)):
        for what in ("grid", "block"):
            sizes = [kernels[f"{what}_{axis}"][row] for axis in "xyz"]
            assert math.prod(sizes) == one.metrics[f"launch__{what}_size"]


# --- the second decoder itself -----------------------------------------------------------------


def test_the_second_decoder_reads_every_kind_of_value(tmp_path: Path) -> None:
    made = Maker()
    result = made.result({"a__text": "x", "b__real.sum": 0.5, "c__whole.sum": 2**40})
    made.metric(result, "d__single.sum", None).value.single = 0.25
    made.metric(result, "e__small.sum", None).value.small = 7
    listed = made.metric(result, "inst_executed", 12).instances.add()
    put(listed.at, 0x7F0000001000)
    put(listed.value, 12)
    made.block(result, sources=[b"\x08\x01"])
    path = tmp_path / "a.ncu-rep"
    path.write_bytes(made.written())
    [found] = wire.results(path)
    assert found.metrics == {
        "a__text": "x", "b__real.sum": 0.5, "c__whole.sum": 2**40, "d__single.sum": 0.25,
        "e__small.sum": 7, "inst_executed": 12,
    }  # fmt: skip
    assert found.instances["inst_executed"] == {0x7F0000001000: 12}
    assert (found.name, found.process, found.grid) == ("f(float *)", 4242, (1024, 1, 1))
    assert against_wire(path).differences == ()
