"""What the README shows is what happens: its commands run, its transcript is real."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
SHELL = re.compile(r"```sh\n(.*?)```", re.DOTALL)
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, root: Path) -> Path:
    """An empty folder with the samples in it, as in a checkout."""
    (tmp_path / "sample_traces").symlink_to(root / "sample_traces")
    return tmp_path


def _run(arguments: list[str], folder: Path) -> str:
    result = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "80", "TRACEROOF_STORE": str(folder / "store")},
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_transcript_is_what_the_commands_print(
    folder: Path, root: Path, request: pytest.FixtureRequest
) -> None:
    readme = (root / "README.md").read_text("utf-8")
    blocks = CONSOLE.findall(readme)
    assert blocks
    shown = "".join(blocks)
    printed = ""
    for line in shown.splitlines():
        if line.startswith("$ "):
            printed += f"{line}\n{_run(shlex.split(line[2:]), folder)}"
    if request.config.getoption("--update-golden"):
        (root / "README.md").write_text(readme.replace(shown, printed), "utf-8")
    else:
        assert shown == printed


def test_shell_commands_of_the_readme_work(folder: Path, root: Path) -> None:
    sample = folder / "sample_traces/nsight_compute/transformer_layer.raw.csv"
    (folder / "trace.csv").write_bytes(sample.read_bytes())
    for block in SHELL.findall((root / "README.md").read_text("utf-8")):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            if words and words[0] == "traceroof":
                _run(words, folder)


def test_python_of_the_readme_works(folder: Path, root: Path) -> None:
    (code,) = PYTHON.findall((root / "README.md").read_text("utf-8"))
    script = folder / "example.py"
    script.write_text(code)
    result = subprocess.run(
        [sys.executable, str(script)], cwd=folder, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "dram_throughput_pct" in result.stdout


def test_links_of_the_readme_and_docs_lead_somewhere(root: Path) -> None:
    for page in (root / "README.md", *(root / "docs").glob("*.md"), root / "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_format_is_in_the_readme(root: Path) -> None:
    from traceroof.plugins import formats

    text = (root / "README.md").read_text("utf-8").lower()
    for parser in formats():
        tool = parser.title.split(":")[0].split(",")[0].lower()
        assert tool in text, f"the README's table of formats lacks {parser.title}"
