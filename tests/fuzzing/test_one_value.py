"""One damaged value of a file: what changes launches or times is noted, or nobody could know."""

from pathlib import Path

import pytest

from tests.fuzzing.one_value import Damage
from tests.fuzzing.seeds import FORMATS
from tests.fuzzing.silent import CLASSES, FAULT, class_of, sound_signatures, trial
from tests.mutate import fuzz_count


@pytest.mark.fuzz
@pytest.mark.parametrize("name", FORMATS)
def test_what_could_be_known_is_said(name: str, tmp_path: Path) -> None:
    """GIVEN files with one value damaged WHEN read THEN refused, unchanged, noted, or of a class that
    docs/reliability.md names."""
    sound = sound_signatures(name, tmp_path)
    found = {trial(name, number, sound, tmp_path) for number in range(fuzz_count(18))}
    assert FAULT not in found


@pytest.mark.parametrize("name", FORMATS)
def test_a_row_that_stands_there_twice_is_no_launch(name: str, tmp_path: Path) -> None:
    """GIVEN a row, object or record that stands there twice WHEN read THEN as many launches as
    before, or a note."""
    sound = sound_signatures(name, tmp_path)
    found = {trial(name, number, sound, tmp_path) for number in range(7, 70, 9)}
    assert found <= {"none", "unchanged", "noted", "refused", "unknown", CLASSES[2].name}


def test_classes_are_told_by_kind_field_and_launches() -> None:
    classes = [one.name for one in CLASSES]
    assert class_of(Damage("deleted", "row", "", ""), -1) == classes[0]
    assert class_of(Damage("digit", ".traceEvents.dur", "5", "6"), 0) == classes[3]
    assert class_of(Damage("neighbour", "Queue_Id <-> Start_Timestamp", "5", "6"), 0) == classes[3]
    assert class_of(Damage("times-ten", "Instances", "5", "50"), 0) == classes[4]
    assert class_of(Damage("unit", "Duration: Metric Unit", "us", "ms"), 0) == classes[5]
    # What fits no class is a fault: a launch lost by a name, a time changed by a stream.
    assert class_of(Damage("string", "Kernel", "k", "text"), -1) == FAULT
    assert class_of(Damage("digit", ".traceEvents.args.stream", "7", "8"), 0) == FAULT
    assert class_of(Damage("digit", ".traceEvents.dur", "5", "6"), 1) == FAULT
