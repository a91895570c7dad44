"""Damaged Nsight Systems files: a recording that is whole in itself, or a reason; no traceback."""

import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.mutate import fuzz_count, mutate, time_limit
from tests.parsers.test_nsight_systems import SECRET, with_secrets
from traceroof.core.kernel_table import KERNELS
from traceroof.core.recording import Recording
from traceroof.diagnosis.diagnose import diagnose
from traceroof.errors import TraceroofError
from traceroof.parser import HEAD_BYTES, Options, silent
from traceroof.parsers import nsight_systems, nsys_stats
from traceroof.report.run import terminal
from traceroof.scrub import scrub

_LARGEST = 200_000
_DIAGNOSED = 0.1
#: What a column can hold that no profiler writes.
_ODD = (
    None,
    -1,
    0,
    1 << 62,
    -(1 << 62),
    2**63 - 1,
    1.5,
    float("inf"),
    "text",
    "",
    b"\x00\xff",
    "9" * 40,
)


def _whole(recording: Recording) -> bool:
    """Whether the tables of a recording fit together."""
    count = recording.kernels.num_rows
    rows = recording.raw_metrics["row"].to_pylist()
    return (
        count > 0
        and recording.kernels.schema == KERNELS
        and all(0 <= row < count for row in rows)
        and all((one or 1) >= 0 for one in recording.kernels["duration_ns"].to_pylist())
        and all((one or 1) > 0 for one in recording.kernels["launch_count"].to_pylist())
        and all((one or 0) >= 0 for one in recording.host_calls["duration_ns"].to_pylist())
    )


def _outcome(parser: Any, path: Path, said: list[str], rng: random.Random) -> None:
    with time_limit(30):
        try:
            recording = parser.read(path, silent, Options())
        except TraceroofError as refused:
            said.append(f"{refused} {refused.hint}")
            return
    assert _whole(recording)
    said.append("\n".join(map(str, recording.notes)))
    if rng.random() < _DIAGNOSED:
        # Whatever numbers came through, rules and reports take them.
        terminal.render(diagnose(recording))


@pytest.mark.fuzz
def test_damaged_bytes(samples: Path, tmp_path: Path) -> None:
    with_secrets(tmp_path / "secret.sqlite")
    seeds = [
        (samples / "nsight_systems/training.sqlite").read_bytes(),
        (tmp_path / "secret.sqlite").read_bytes(),
    ]
    rng = random.Random(6)
    said: list[str] = []
    path = tmp_path / "damaged.sqlite"
    for _ in range(fuzz_count(200)):
        data = mutate(rng.choice(seeds), rng, seeds)
        path.write_bytes(data)
        if data:
            nsight_systems.PARSER.recognises(data[:HEAD_BYTES], path)
        _outcome(nsight_systems.PARSER, path, said, rng)
    assert any("cannot be read" in text or "damaged" in text for text in said)
    assert not any(SECRET in text for text in said)


@pytest.mark.fuzz
def test_values_that_no_profiler_writes(samples: Path, tmp_path: Path) -> None:
    seed = (samples / "nsight_systems/training.sqlite").read_bytes()
    rng = random.Random(7)
    said: list[str] = []
    path = tmp_path / "odd.sqlite"
    for _ in range(fuzz_count(150)):
        path.write_bytes(seed)
        with closing(sqlite3.connect(path)) as database:
            tables = [
                name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            ]  # fmt: skip
            for _ in range(rng.randint(1, 6)):
                table = rng.choice(tables)
                columns = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]
                change = rng.randrange(4)
                if change == 0:
                    database.execute(f'DELETE FROM "{table}"')
                elif change == 1:
                    tables.remove(table)
                    database.execute(f'DROP TABLE "{table}"')
                elif table != "StringIds":
                    column, value = rng.choice(columns), rng.choice(_ODD)
                    part = "" if change == 2 else " WHERE rowid % 3 = 0"
                    database.execute(f'UPDATE "{table}" SET "{column}" = ?{part}', (value,))
            database.commit()
        _outcome(nsight_systems.PARSER, path, said, rng)


@pytest.mark.fuzz
def test_damaged_tables_of_text(samples: Path, tmp_path: Path) -> None:
    seeds = [path.read_bytes() for path in sorted((samples / "nsight_systems").glob("*.csv"))]
    folder = Path(__file__).resolve().parents[2].parent / "shared/corpus"
    seeds += [one.read_bytes()[:_LARGEST] for one in sorted(folder.glob("other/nsys_stats/*"))]
    seeds += [one.read_bytes()[:_LARGEST] for one in sorted(folder.glob("nsys/*.txt"))]
    rng = random.Random(8)
    said: list[str] = []
    path = tmp_path / "damaged.csv"
    for _ in range(fuzz_count(300)):
        data = mutate(rng.choice(seeds), rng, seeds)
        path.write_bytes(data)
        nsys_stats.PARSER.recognises(data[:HEAD_BYTES], path)
        if data:
            _outcome(nsys_stats.PARSER, path, said, rng)
    assert said


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
