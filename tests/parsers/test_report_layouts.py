"""Metrics in places that are known from launches before are what they are where they are looked for:
with values of any kind, in lists, under damage."""

import random
from pathlib import Path
from typing import Any

import pytest

from tests.parsers.test_nsight_compute_report import Maker, Number, read
from traceroof.parsers import nsight_compute_report
from traceroof.parsers.nsight import report_layouts, report_results

_TIME: dict[str, Number] = {"gpu__time_duration.sum": 1_000}


def metrics(at: int) -> dict[str, Number]:
    """Values of each kind: doubles, whole numbers of one byte to five, a text, none."""
    return {
        **_TIME,
        "a__b.sum": at + 0.5,
        "c__d.sum": 100 + at % 8,
        "e__f.sum": (1 << 30) + at,
        "g__text": f"text {at % 8}",
        "h__none": None,
        **{f"m__{one}.avg": at * 1000.0 + one for one in range(200)},
    }


def tables(recording: Any) -> Any:
    return [
        getattr(recording, name).to_pylist()
        for name in ("kernels", "raw_metrics", "verdicts", "source_lines")
    ] + [recording.notes]


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Each result is read before the next; gives how many were in a known layout."""
    known: list[int] = []

    def read_known(found: Any) -> Any:
        made = report_layouts.read_known(found)
        known.append(len(found) if made is not None else 0)
        return made

    monkeypatch.setattr(nsight_compute_report, "_BATCH", 1)
    monkeypatch.setattr(report_results, "read_known", read_known)
    return known


def test_launches_of_one_kernel(tmp_path: Path, one_by_one: list[int]) -> None:
    """GIVEN six launches whose metrics are in the same places THEN from the third on these are known,
    and each has its own values."""
    made = Maker()
    for at in range(6):
        made.block(made.result(metrics(at)))
    found = read(tmp_path, made)
    assert one_by_one == [1, 1, 1, 1]
    for name, cell, of in (
        ("a__b.sum", "value", lambda at: at + 0.5),
        ("c__d.sum", "value", lambda at: 100.0 + at),
        ("e__f.sum", "value", lambda at: float((1 << 30) + at)),
        ("g__text", "text", lambda at: f"text {at}"),
        ("m__199.avg", "value", lambda at: at * 1000.0 + 199),
    ):
        rows = [row for row in found.raw_metrics.to_pylist() if row["metric"] == name]
        assert [row[cell] for row in rows] == [of(at) for at in range(6)]
        assert [row["row"] for row in rows] == list(range(6))


@pytest.mark.parametrize(
    "other",
    [
        {"a__b.sum": float("nan")},
        {"c__d.sum": 1_000_000},
        {"c__d.sum": 2.5},
        {"g__text": "longer"},
        {"z__z.sum": 1},
    ],
)
def test_a_launch_that_differs(
    tmp_path: Path, one_by_one: list[int], other: dict[str, Number]
) -> None:
    """GIVEN, after launches in known places, one with no number, a longer one, one of another kind, a
    longer text, or one metric more THEN it is read as if it stood alone."""
    made, alone = Maker(), Maker()
    for at in range(3):
        made.block(made.result(metrics(at)))
    made.block(made.result(metrics(7) | other))
    alone.block(alone.result(metrics(7) | other))
    (tmp_path / "alone").mkdir()
    rows = [row for row in read(tmp_path, made).raw_metrics.to_pylist() if row["row"] == 3]
    wanted = read(tmp_path / "alone", alone).raw_metrics.to_pylist()
    assert str(rows) == str([{**row, "row": 3} for row in wanted])
    assert one_by_one[0] == 1


def test_damage_of_any_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN 150 launches, from the fourth on with one byte changed anywhere THEN read one by one, after
    launches in known places, they are what they are together, where each is looked for."""
    rng = random.Random(18)
    made = Maker()
    for at in range(150):
        result = bytearray(made.result(metrics(at)).SerializeToString())
        if at > 2:
            result[rng.randrange(len(result))] = rng.choice((0, 1, 8, 0x6A, 0x80, 0xFF))
        made.block(bytes(result))
    together = read(tmp_path, made)
    monkeypatch.setattr(nsight_compute_report, "_BATCH", 1)
    assert str(tables(read(tmp_path, made))) == str(tables(together))
