"""Damaged input of every format: a result that states nothing impossible, or a refusal.

``make fuzz`` runs the long form; ``python -m benchmarks.fuzz`` the same with figures.
"""

from pathlib import Path

import pytest

import traceroof
from tests.fuzzing.inputs import made, written
from tests.fuzzing.outcomes import Baseline, outcome
from tests.fuzzing.seeds import FORMATS, Seed, seeds
from tests.mutate import fuzz_count, time_limit


@pytest.mark.fuzz
@pytest.mark.parametrize("name", FORMATS)
def test_damaged_input_gives_a_result_or_a_reason(name: str, tmp_path: Path) -> None:
    """GIVEN damaged cells, nodes, rows, fields and bytes WHEN read, diagnosed, compared and rendered
    THEN a result without negative times or numbers that are none, or our error, within 10 s."""
    sound = Baseline(traceroof.read(written(_first(name), tmp_path / "sound")))
    for number in range(fuzz_count(12)):
        path = written(made(name, number), tmp_path / str(number))
        with time_limit(10):
            try:
                outcome(path, sound, number)
            except Exception as error:
                error.add_note(f"python -m benchmarks.fuzz {name} --first {number} --inputs 1")
                raise


def _first(name: str) -> Seed:
    """A sound seed that is read: the first one, or of a format of folders the second."""
    refused = {"err_launchfailed.txt", "two_column_rulers.txt"}
    return next(one for one in seeds(name) if not refused & set(one.files))


@pytest.mark.parametrize("name", FORMATS)
def test_an_input_is_the_same_every_time(name: str) -> None:
    assert made(name, 7) == made(name, 7)
