"""Damaged inputs of a format, each made from its number alone: the same for everybody."""

import random
from collections.abc import Mapping
from pathlib import Path

from tests.fuzzing import cells, messages, nodes, reports, tables
from tests.fuzzing.seeds import Seed, seeds
from tests.mutate import mutate

#: The share of inputs whose bytes are damaged, whatever they mean.
_BYTES = 0.25


def made(name: str, number: int) -> Seed:
    """Input ``number`` of a format."""
    rng = random.Random(f"{name}:{number}")
    seed = rng.choice(seeds(name))
    files = dict(seed.files)
    for _ in range(1 if len(files) == 1 else rng.randint(1, 2)):
        if seed.is_folder and len(files) > 1 and rng.random() < 0.15:
            _damage_folder(files, rng)
        else:
            file = rng.choice(sorted(files))
            files[file] = damaged(files[file], rng)
    return Seed(files, seed.is_folder)


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Content after damage of the kind that fits it, now and then of its bytes."""
    if rng.random() < _BYTES:
        return mutate(data, rng)
    if data.startswith(b"SQLite format 3\0"):
        return tables.damaged(data, rng)
    if data.startswith(reports.MAGIC):
        return reports.damaged(data, rng)
    # A log may begin with a bracket, too.
    if data.lstrip()[:1] in (b"{", b"[") and data.rstrip()[-1:] in (b"}", b"]"):
        return nodes.damaged(data, rng)
    if b"\0" in data:
        return messages.damaged(data, rng)
    return cells.damaged(data, rng)


def _damage_folder(files: dict[str, bytes], rng: random.Random) -> None:
    one, other = rng.sample(sorted(files), 2)
    kind = rng.randrange(4)
    if kind == 0:
        del files[one]
    elif kind == 1:
        files[one] = files[other]
    elif kind == 2:
        files[one] = b""
    else:
        files[f"{one.rpartition('.')[0]}_2.{one.rpartition('.')[2]}"] = files[one]


def written(seed: Seed, folder: Path) -> Path:
    """Write an input into an empty folder; what to read of it."""
    at = folder / "input"
    for name, data in _safe(seed.files).items():
        path = at / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return at if seed.is_folder else at / next(iter(seed.files))


def _safe(files: Mapping[str, bytes]) -> Mapping[str, bytes]:
    return files or {"empty.csv": b""}
