"""Damaged Nsight Systems files: a recording that is whole in itself, or a reason; no traceback."""

import random
from pathlib import Path

import pytest

from tests.mutate import fuzz_count, mutate, time_limit
from tests.parsers.test_nsight_systems import SECRET, with_secrets
from traceroof.errors import TraceroofError
from traceroof.scrub import scrub


@pytest.mark.fuzz
def test_scrub_of_damaged_files_leaves_no_secret(tmp_path: Path) -> None:
    path, clean = tmp_path / "damaged.sqlite", tmp_path / "clean.sqlite"
    with_secrets(path)
    seed = path.read_bytes()
    rng = random.Random(9)
    for _ in range(fuzz_count(100)):
        path.write_bytes(mutate(seed, rng))
        clean.unlink(missing_ok=True)
        with time_limit(30):
            try:
                scrub(path, clean)
            except TraceroofError as refused:
                assert SECRET not in str(refused)  # noqa: PT017 - both outcomes are right
        assert not [one for one in tmp_path.iterdir() if one.name.endswith(".part")]
