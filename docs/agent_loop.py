"""The loops of ``docs/agents.md``: `python -m docs.agent_loop` runs them and writes them.

An optimisation loop on a sample (``sample_traces/play_edit.py``), once through the tools of
`traceroof mcp` and once on the command line alone. Answers are what the server sent, less the fields
that the page does not speak of (…).
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters

from sample_traces.play_edit import ncu, write_traces

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent
_MARK = "<!-- {}: python -m docs.agent_loop -->\n"
_END = "<!-- end -->\n"
_RUNS = 5
_LONGEST = 220

#: What is shown of an answer: a name, with what is shown below it; ... is all.
Shown = Mapping[str, Any]

_ADVICE: Shown = dict.fromkeys(("entry", "title", "rule", "kernels", "expected_ns", "bound_ns", "confidence", "because", "fix"), ...)  # fmt: skip
_KERNEL: Shown = {"name": ..., "class": ..., "share": ...}
_CHANGE: Shown = dict.fromkeys(("name", "verdict", "base_ns", "head_ns", "delta_pct", "interval_ns", "q", "because"), ...)  # fmt: skip


def looped() -> str:
    """The loop through the tools, as Markdown."""
    with tempfile.TemporaryDirectory() as folder:
        return anyio.run(_loop, Path(folder))


async def _loop(folder: Path) -> str:
    said: list[str] = []
    store = ["--store", str(folder / ".traceroof"), "--no-config", "--no-calibration"]
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "traceroof", "mcp", "--root", str(folder), *store]
    )
    async with Client(server) as client:

        async def call(name: str, shown: Shown, **arguments: Any) -> dict[str, Any]:
            result = await client.call_tool(name, arguments)
            answer: dict[str, Any] = result.structured_content
            asked = ", ".join(f"{key}={json.dumps(value)}" for key, value in arguments.items())
            said.append(f"```text\n{name}({asked})\n```\n\n```json\n{_json(answer, shown)}\n```\n")
            return answer

        base = [path.name for path in write_traces("base", _RUNS, folder)]
        said.append("Five runs of the program as it is; what limits it?\n")
        made = await call(
            "diagnose",
            {"run": {"id": ...}, "headline": ..., "advice": _ADVICE, "kernels": _KERNEL},
            paths=base, top=2,
        )  # fmt: skip
        said.append(
            "The first entry is a guess from a name (`confidence` 0.4), and no kernel has a class. "
            "What would tell more?\n"
        )
        run = made["run"]["id"]
        asked = await call(
            "next_capture",
            {
                "command": ...,
                "because": ...,
                "open_ns": ...,
                "share": ...,
                "then": ...,
                "rules": ...,
            },
            run=run,
        )
        (folder / "more.csv").write_text(ncu("base", asked["command"]), "utf-8")
        said.append("Run that command, and give the new file together with the traces:\n")
        made = await call(
            "diagnose",
            {"run": {"id": ..., "counters_cover_pct": ...}, "advice": _ADVICE, "kernels": _KERNEL},
            paths=[*base, "more.csv"], top=1,
        )  # fmt: skip
        said.append(
            "Another fix than before, and a sure one: the stores of `transpose` touch 32 sectors "
            "where 4 would do. Before the code is touched, how was that judged?\n"
        )
        await call(
            "explain",
            {"rule": ..., "says": ..., "refute": ..., "condition": {"figures": ..., "holds": ...},
             "bound": {"label": ..., "figures": ..., "result": ...}},
            run=made["run"]["id"], entry=1,
        )  # fmt: skip
        said.append(
            "Make both sides whole lines: a tile in shared memory. One run of the new program says "
            "little, and the tool says so:\n"
        )
        head = [path.name for path in write_traces("head", _RUNS, folder)]
        await call(
            "compare",
            {"verdict": ..., "needs": ..., "open": _CHANGE},
            base=base[0], head=head[0], kernel="transpose",
        )  # fmt: skip
        said.append("Five runs per side are enough for a verdict:\n")
        made = await call("diagnose", {"run": {"id": ...}, "headline": ...}, paths=head, top=1)
        await call(
            "compare",
            {"verdict": ..., "needs": ..., "total": _CHANGE, "moved": _CHANGE},
            base=run, head=made["run"]["id"], kernel="transpose",
        )  # fmt: skip
        said.append("The edit holds: keep it, and begin again with what is first now.\n")
    return "\n".join(said)


def _json(answer: Any, shown: Shown) -> str:
    picked = _picked(answer, shown)
    return json.dumps(picked, indent=2, ensure_ascii=False).replace('"…": "…"', "…")


def _picked(value: Any, shown: Any) -> Any:
    if shown is ...:
        return _short(value)
    if isinstance(value, Sequence):
        return [_picked(one, shown) for one in value]
    made = {name: _picked(value[name], inner) for name, inner in shown.items() if name in value}
    return made if len(made) == len(value) else made | {"…": "…"}


def _short(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _LONGEST:
        return f"{value[:_LONGEST]}…"
    return value


_SHELL = """\
traceroof ingest base.?.json --name base
traceroof diagnose base --format json -o base.json
get advice 0 title < base.json
get next_capture command < base.json | tee capture.sh
sh capture.sh   # with your program in place of YOUR_PROGRAM: writes more.csv
traceroof diagnose base.?.json more.csv --format json -o both.json
get advice 0 title < both.json
get advice 0 because < both.json
get advice 0 fix < both.json
traceroof compare base.0.json head.0.json --kernel transpose --format json | get kernels 0 reason
traceroof ingest head.?.json --name head
traceroof compare base head --kernel transpose --format json -o delta.json
get verdict < delta.json
get kernels 0 delta_pct < delta.json
traceroof compare base head --fail-on regression > delta.txt && echo no regression
"""
_GET = """\
get() { python -c 'import functools, json, sys
pick = lambda a, key: a[int(key) if key.isdigit() else key]
print(functools.reduce(pick, sys.argv[1:], json.load(sys.stdin)))' "$@"; }
"""


def shelled() -> str:
    """The loop on the command line, as Markdown."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for version in ("base", "head"):
            write_traces(version, _RUNS, folder)
        lines = [f"```console\n{_prompted(_GET)}"]
        for command in _SHELL.splitlines():
            lines += [f"$ {command}", *_run(command, folder)]
    return "\n".join([*lines, "```", ""])


def _prompted(text: str) -> str:
    first, *more = text.rstrip("\n").splitlines()
    return "\n".join([f"$ {first}", *(f"> {line}" for line in more)])


def _run(command: str, folder: Path) -> list[str]:
    """The lines that a command prints to stdout; the profiler is played."""
    if command.startswith("sh "):
        captured = (folder / "capture.sh").read_text("utf-8")
        (folder / "more.csv").write_text(ncu("base", captured), "utf-8")
        return []
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    environment = {**os.environ, "PATH": path, "TRACEROOF_CONFIG": ""}
    done = subprocess.run(
        ["bash", "-c", f"set -eo pipefail\n{_GET}{command}"],
        cwd=folder, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = []
    for line in done.stdout.splitlines():
        with suppress(ValueError):
            line = f"{float(line):.1f}"
        found.append(line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…")
    return found


def page(text: str, parts: Mapping[str, str]) -> str:
    """The page with each part between its marks."""
    for name, part in parts.items():
        begin = text.index(_MARK.format(name)) + len(_MARK.format(name))
        end = text.index(_END, begin)
        text = f"{text[:begin]}\n{part}\n{text[end:]}"
    return text


def parts() -> dict[str, str]:
    """Both loops."""
    return {"tools": looped(), "shell": shelled()}


if __name__ == "__main__":
    path = FOLDER / "agents.md"
    path.write_text(page(path.read_text("utf-8"), parts()), "utf-8")
