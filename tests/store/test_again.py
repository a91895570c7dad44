"""Equal content is equal: what is ingested again is the run that is there, and nothing is written."""

import shutil
from pathlib import Path

import pytest

import traceroof
from tests.test_tokens import PLANTS, Plant


def written(store: Path) -> dict[str, tuple[int, int]]:
    """Every file of the runs in a store: its size and when it was written."""
    return {
        str(path.relative_to(store)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in sorted(store.rglob("*"))
        if path.is_file() and not path.name.startswith("catalogue.db")
    }


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: str(plant.__name__))
def test_the_same_again_is_the_same_run(root: Path, tmp_path: Path, plant: Plant) -> None:
    """GIVEN a file of any format WHEN ingested twice THEN it is one run and no file of it is written
    again; under another name it is that run, too, and shows where it was found last."""
    (tmp_path / "in").mkdir()
    source, store = plant(root, tmp_path / "in"), tmp_path / "store"
    first = traceroof.ingest(source, store=store, config=False)
    before = written(store)
    assert before
    assert traceroof.ingest(source, store=store, config=False).id == first.id
    assert written(store) == before
    moved = tmp_path / "elsewhere" / (source.name if source.is_dir() else f"other{source.suffix}")
    for path in [source, *source.parent.glob(f"{source.name}-journal")]:
        place = moved.parent / path.name.replace(source.name, moved.name)
        place.parent.mkdir(exist_ok=True)
        shutil.copytree(path, place) if path.is_dir() else shutil.copy(path, place)
    again = traceroof.ingest(moved, store=store, config=False)
    assert again.id == first.id
    assert len(traceroof.runs(store=store, config=False)) == 1
