"""Metrics that are found in the bytes of results as arrays: in every order of fields, beside bytes that
look like metrics, and in launches of very different sets."""

import struct
from pathlib import Path
from typing import Any

from tests.parsers.report_table import against_wire
from tests.parsers.test_nsight_compute_report import Maker, Number, read

_TIME: dict[str, Number] = {"gpu__time_duration.sum": 1_000}


def raw(recording: Any) -> set[tuple[int, str, float | None]]:
    rows = recording.raw_metrics.to_pylist()
    return {(row["row"], row["metric"], row["value"]) for row in rows}


def test_metrics_behind_other_fields(tmp_path: Path) -> None:
    """GIVEN a result with metrics before and behind its other fields THEN all of them are read."""
    made = Maker()
    result = made.result(_TIME | {"a__b.sum": 5})
    rule = result.rules.add(name=b"Rule", section=b"S").body.items.add()
    rule.message.text = b"A sentence."
    made.names += [b"c__d.sum", b"e__f.sum"]
    # Field 13: a metric of name 2 and whole value 7; of name 3, 9.
    more = b"\x6a\x06\x08\x02\x12\x02\x28\x07" + b"\x6a\x06\x08\x03\x12\x02\x28\x09"
    made.block(result.SerializeToString() + more)
    made.block(made.result(_TIME | {"a__b.sum": 6}))
    found = read(tmp_path, made)
    assert found.kernels["duration_ns"].to_pylist() == [1_000, 1_000]
    assert raw(found) == {
        (0, "a__b.sum", 5.0), (0, "c__d.sum", 7.0), (0, "e__f.sum", 9.0), (1, "a__b.sum", 6.0),
    }  # fmt: skip
    assert found.verdicts.num_rows == 1


def test_values_that_look_like_metrics(tmp_path: Path) -> None:
    """GIVEN doubles and texts whose bytes are those of a metric (tag, length, tag of a name) THEN the
    values are what they are."""
    (looks_like,) = struct.unpack("<d", b"\x00\x6a\x04\x08\x01\x6a\x02\x08")
    made = Maker()
    values: dict[str, Number] = {f"a__{at}.sum": looks_like for at in range(20)}
    made.block(made.result(_TIME | values | {"a__text": "j\x04\x08\x01j\x02\x08\x01"}))
    path = tmp_path / "run.ncu-rep"
    found = read(tmp_path, made)
    assert {row for row in raw(found) if row[2] is not None} == {
        (0, name, looks_like) for name in values
    }
    assert against_wire(path).differences == ()


def test_launches_of_very_different_sets(tmp_path: Path) -> None:
    """GIVEN launches in turn with 3, 40, and 41 metrics in other orders THEN each has its own."""
    many: dict[str, Number] = {f"m__{at}.sum": float(at) + 0.5 for at in range(40)}
    backwards = dict(reversed((many | {"z__z.sum": 1}).items()))
    sets: list[dict[str, Number]] = [{"a__b.sum": 2, "c__d.sum": "text"}, many, backwards] * 3
    made = Maker()
    for one in sets:
        made.block(made.result(_TIME | one))
    found = read(tmp_path, made)
    wanted = {
        (row, name, value if not isinstance(value, str) else None)
        for row, one in enumerate(sets)
        for name, value in one.items()
    }
    assert raw(found) == wanted
    texts = [row["text"] for row in found.raw_metrics.to_pylist() if row["metric"] == "c__d.sum"]
    assert texts == ["text"] * 3


def test_a_damaged_result_among_sound_ones(tmp_path: Path) -> None:
    """GIVEN a result cut inside its last metric (6 bytes follow it) between two sound ones THEN these are read, and one is lost."""
    made = Maker()
    whole = [made.result(_TIME | {"a__b.sum": at}).SerializeToString() for at in range(3)]
    made.block(whole[0])
    made.block(whole[1][:-8])
    made.block(whole[2])
    found = read(tmp_path, made)
    assert raw(found) == {(0, "a__b.sum", 0.0), (1, "a__b.sum", 2.0)}
    assert [note.count for note in found.notes if "damaged" in note.text] == [1]
