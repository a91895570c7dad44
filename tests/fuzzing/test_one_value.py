"""One damaged value of a file: what changes launches or times is noted, or nobody could know."""

from pathlib import Path

import pytest

from tests.fuzzing.one_value import CLASSES, Damage, class_of, sound_signatures, trial
from tests.fuzzing.seeds import FORMATS
from tests.mutate import fuzz_count


@pytest.mark.fuzz
@pytest.mark.parametrize("name", FORMATS)
def test_what_could_be_known_is_said(name: str, tmp_path: Path) -> None:
    """GIVEN files with one value damaged WHEN read THEN refused, unchanged, noted, or of a class that
    docs/reliability.md names."""
    sound = sound_signatures(name, tmp_path)
    known = {"none", "unchanged", "noted", "refused", *(one.name for one in CLASSES)}
    assert {trial(name, number, sound, tmp_path) for number in range(fuzz_count(18))} <= known


@pytest.mark.parametrize("name", FORMATS)
def test_a_row_that_stands_there_twice_is_no_launch(name: str, tmp_path: Path) -> None:
    """GIVEN a row, object or record that stands there twice WHEN read THEN as many launches as
    before, or a note."""
    sound = sound_signatures(name, tmp_path)
    found = {trial(name, number, sound, tmp_path) for number in range(7, 70, 9)}
    assert found <= {"none", "unchanged", "noted", "refused", "a heading of a printed page"}


def test_classes_are_told_by_kind_and_field() -> None:
    assert class_of(Damage("digit", ".traceEvents.dur", "5", "6")) == CLASSES[1].name
    assert class_of(Damage("deleted", "row", "", "")) == CLASSES[0].name
    assert class_of(Damage("unit", "Metric Unit", "us", "ms")) == CLASSES[2].name
