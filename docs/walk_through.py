"""The walk-through of ``docs/combining.md``: `python docs/walk_through.py` runs it and writes it.

A trace, the command that its diagnosis prints, that command played by the sample's model
(``sample_traces/play_ncu.py``), and the diagnosis of both.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent
TRACE = Path("sample_traces", "torch", "training.rank0.json")
_MARKS = ("<!-- walk-through: python docs/walk_through.py -->\n", "<!-- end -->\n")
# What is shown: the coverage, the kernels, the command. The rest speaks of other things.
_SHOWN = re.compile(
    r"^Counters cover .*?(?=\ntraining)|^Kernels by time .*?(?=\n   Left out|\n\n)|^ *collect it: .*?$",
    re.DOTALL | re.MULTILINE,
)


def walked() -> str:
    """The walk-through as Markdown."""
    with tempfile.TemporaryDirectory() as folder:
        more = Path(folder) / "more.csv"
        before = _diagnosed(str(TRACE))
        collect = re.search(r"collect it: (ncu .*)", before)
        if collect is None:
            raise ValueError("the diagnosis of the trace asks for no counters")
        player = ROOT / "sample_traces" / "play_ncu.py"
        more.write_text(_run(str(player), collect[1]), "utf-8")
        after = _diagnosed(str(TRACE), str(more)).replace(str(more), more.name)
    name = TRACE.name
    return "\n".join(
        [
            "```console",
            f"$ traceroof diagnose {name} --top 5",
            *_excerpt(before),
            f"$ {collect[1].replace('YOUR_PROGRAM', 'python train.py')}",
            f"$ traceroof diagnose {name} more.csv --top 5",
            *_excerpt(after.partition("collect it")[0]),
            "…",
            "```",
            "",
        ]
    )


def _diagnosed(*files: str) -> str:
    return _run("-m", "traceroof", "diagnose", *files, "--top", "5", "--no-calibration")


def _run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return done.stdout


def _excerpt(output: str) -> list[str]:
    return [line for found in _SHOWN.findall(output) for line in ("…", *found.split("\n"))]


def page(text: str, walk: str) -> str:
    """The page with the walk-through between its marks."""
    begin, end = (text.index(mark) for mark in _MARKS)
    return text[: begin + len(_MARKS[0])] + "\n" + walk + "\n" + text[end:]


if __name__ == "__main__":
    path = FOLDER / "combining.md"
    path.write_text(page(path.read_text("utf-8"), walked()), "utf-8")
