"""The wheel holds every module that git knows, under traceroof/ and nowhere else."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def checkout(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What git knows, so that no build/ folder leaks in."""
    checkout = tmp_path_factory.mktemp("wheel") / "checkout"
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
    return checkout


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """A wheel built through the sdist."""
    built = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(built), str(checkout)],
        capture_output=True,
        check=True,
    )
    return zipfile.ZipFile(next(built.glob("*.whl")))


def _shipped(root: Path) -> set[str]:
    """Wheel paths of everything in the package folders but caches and the C source, of which the
    compiled scanner is shipped."""
    found = set()
    for folder, prefix in (
        ("traceroof", "traceroof"),
        ("parsers", "traceroof/parsers"),
        ("rules", "traceroof/rules"),
    ):
        for path in (root / folder).rglob("*"):
            relative = path.relative_to(root / folder)
            linked = folder == "traceroof" and relative.parts[0] in ("parsers", "rules")
            is_left_out = "__pycache__" in path.parts or path.suffix in (".c", ".h")
            if path.is_file() and not linked and not is_left_out:
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


def test_one_wheel_serves_every_python(wheel: zipfile.ZipFile) -> None:
    """The compiled scanner keeps to Python's stable interface."""
    assert Path(wheel.filename or "").name.split("-")[2:4] == ["cp311", "abi3"]


def test_traceroof_is_installed_without_a_c_compiler(checkout: Path, tmp_path: Path) -> None:
    """GIVEN a machine on which nothing can be compiled WHEN a wheel is built THEN it lacks no more
    than the scanner."""
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), str(checkout)],
        env={**os.environ, "CC": "false"},
        capture_output=True,
        check=True,
    )
    (built,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(built).namelist()
    assert "traceroof/parsers/torch/scanned.py" in names
    assert not [name for name in names if name.endswith(".so")]
