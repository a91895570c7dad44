"""The wheel holds every module that git knows, under traceroof/ and nowhere else."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """A wheel built through the sdist of what git knows, so that no build/ folder leaks in."""
    work = tmp_path_factory.mktemp("wheel")
    checkout = work / "checkout"
    files = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    for name in filter(None, files):
        source, target = root / name, checkout / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            target.symlink_to(source.readlink())
        elif source.is_file():
            target.write_bytes(source.read_bytes())
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(work / "dist"), str(checkout)],
        capture_output=True,
        check=True,
    )
    (built,) = (work / "dist").glob("*.whl")
    return zipfile.ZipFile(built)


def _shipped(root: Path) -> set[str]:
    """Wheel paths of everything in the package folders that is not a cache."""
    found = set()
    for folder, prefix in (
        ("traceroof", "traceroof"),
        ("parsers", "traceroof/parsers"),
        ("rules", "traceroof/rules"),
    ):
        for path in (root / folder).rglob("*"):
            relative = path.relative_to(root / folder)
            linked = folder == "traceroof" and relative.parts[0] in ("parsers", "rules")
            if path.is_file() and not linked and "__pycache__" not in path.parts:
                found.add(f"{prefix}/{relative.as_posix()}")
    return found


def test_wheel_holds_exactly_the_package(wheel: zipfile.ZipFile, root: Path) -> None:
    inside = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert inside == _shipped(root)
    assert {name.split("/")[0] for name in inside} == {"traceroof"}


def test_folders_are_linked_for_type_checkers(root: Path) -> None:
    for name in ("parsers", "rules"):
        assert (root / "traceroof" / name).is_symlink()
        assert (root / "traceroof" / name).readlink().as_posix() == f"../{name}"
