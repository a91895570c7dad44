"""The recipes of docs/ci.md and the steps of action.yml, run as a CI system would run them.

Only installing (pip) and what others wrote (checkout, upload) is left out. Comments go to a small
server that answers as GitHub's and GitLab's interfaces do.
"""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

# Writes a small Kineto trace: 60 launches; the second kernel takes FACTOR times 500 µs.
TRACE = """
import json, sys
start, events = __import__("time").time_ns() // 1000, []
for at in range(60):
    name, time = (("gemm(float*)", 1000), ("tail(int)", round(500 * FACTOR)))[at % 2]
    events.append({"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": start,
                   "dur": time, "args": {"device": 0, "stream": 7, "correlation": at,
                                         "grid": [64, 1, 1], "block": [128, 1, 1]}})
    start += time + 2
device = {"id": 0, "name": "NVIDIA A100-SXM4-80GB", "numSms": 108, "computeMajor": 8,
          "computeMinor": 0, "totalGlobalMem": 85899345920}
json.dump({"schemaVersion": 1, "deviceProperties": [device], "traceEvents": events},
          open(sys.argv[1], "w"))
"""


@dataclass
class Comments:
    """What a pull request holds: id -> text, after 150 comments of other people."""

    held: dict[int, str] = field(default_factory=lambda: {n: f"hello {n}" for n in range(150)})
    allowed: bool = True


@pytest.fixture
def comments() -> Comments:
    return Comments()


@pytest.fixture
def api(comments: Comments) -> Iterator[str]:
    """A server that lists, makes and changes comments."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self, payload: Any, status: int = 200) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(payload).encode())

        def do_GET(self) -> None:
            page = int(re.findall(r"[?&]page=(\d+)", self.path)[0])
            listed = list(comments.held.items())[(page - 1) * 100 : page * 100]
            kinds = {True: "User", False: "Bot"}
            self.answer(
                [{"id": n, "body": text, "user": {"type": kinds[n < 150]}} for n, text in listed]
            )

        def do_POST(self) -> None:
            self.write(max(comments.held) + 1)

        def do_PATCH(self) -> None:
            self.write(int(self.path.rsplit("/", 1)[1]))

        do_PUT = do_PATCH

        def write(self, number: int) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if not comments.allowed:
                self.answer({"message": "Resource not accessible by integration"}, 403)
                return
            comments.held[number] = json.loads(body)["body"]
            self.answer({"id": number})

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


# What the `gh` program does with these arguments, for the recipe that uses it.
GH = """#!{python}
import json, os, subprocess, sys, urllib.request
words = sys.argv[2:]
method = words[words.index("--method") + 1] if "--method" in words else "GET"
path = next(word for word in words if word.startswith("repos/"))
url = os.environ["GITHUB_API_URL"] + "/" + path
def call(url, body=None):
    request = urllib.request.Request(url, method=method, data=body)
    return json.load(urllib.request.urlopen(request))
if method != "GET":
    name = words[words.index("--field") + 1].removeprefix("body=@")
    call(url, json.dumps({{"body": open(name).read()}}).encode())
else:
    assert "--paginate" in words
    for page in range(1, 9):
        found = json.dumps(call(f"{{url}}?page={{page}}"))
        subprocess.run(["jq", "-r", words[words.index("--jq") + 1]], input=found, text=True, check=True)
"""


@dataclass
class Runner:
    """A folder as CI prepares it: a checkout of the head beside the history with the base."""

    folder: Path
    env: dict[str, str]

    def run(self, script: str, shell: str = "bash", **env: str) -> subprocess.CompletedProcess[str]:
        command = {
            "bash": ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
            "sh": ["sh", "-ec", script],
            "python": [sys.executable, "-c", script],
        }[shell]
        return subprocess.run(
            command, cwd=self.folder, env={**self.env, **env}, text=True, capture_output=True,
            check=False,
        )  # fmt: skip

    def outputs(self) -> dict[str, str]:
        text = Path(self.env["GITHUB_OUTPUT"]).read_text()
        return dict(line.split("=", 1) for line in text.splitlines())

    @property
    def summary(self) -> str:
        return Path(self.env["GITHUB_STEP_SUMMARY"]).read_text("utf-8")


@pytest.fixture
def runner(tmp_path: Path, api: str, request: pytest.FixtureRequest) -> Runner:
    """A repository whose head is slower than its base by the parameter of the test."""
    head = tmp_path / "work"
    head.mkdir()
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "gh").write_text(GH.format(python=sys.executable))
    (tools / "gh").chmod(0o755)
    # The interpreter of the tests under the names that the recipes use.
    for name in ("traceroof", "python3", "python"):
        target = Path(sys.executable).with_name(name if name == "traceroof" else "python")
        (tools / name).write_text(f'#!/bin/sh\nexec "{target}" "$@"\n')
        (tools / name).chmod(0o755)
    made = Runner(
        head,
        {
            "PATH": f"{tools}:{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "RUNNER_TEMP": str(tmp_path),
            "GITHUB_API_URL": api,
            "GITHUB_REPOSITORY": "owner/repo",
            "GITHUB_OUTPUT": str(tmp_path / "output"),
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
            "CI_API_V4_URL": api,
            "CI_PROJECT_ID": "7",
            "CI_MERGE_REQUEST_IID": "12",
            "TRACEROOF_TOKEN": "secret",
            "TRACEROOF_STORE": str(tmp_path / "store"),
        },
    )
    git = "git -c user.name=t -c user.email=t@example.org -c init.defaultBranch=main"
    factor = getattr(request, "param", 1.5)
    for number, value in enumerate((1.0, factor)):
        (head / "trace.py").write_text(f"FACTOR = {value} + {number} * 1e-9\n{TRACE}")
        done = made.run(f"{git} init -q . && git add trace.py && {git} commit -qm {number}")
        assert done.returncode == 0, done.stderr
    return made


def recipes(root: Path) -> list[dict[str, Any]]:
    page = (root / "docs/ci.md").read_text("utf-8")
    return [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)]


def filled(values: Mapping[str, Any], expressions: Mapping[str, str]) -> dict[str, str]:
    """The env of a step with its ``${{ … }}`` filled in."""
    return {
        name: re.sub(r"\$\{\{ *(.*?) *\}\}", lambda found: expressions[found[1]], str(value))
        for name, value in values.items()
    }


def run_steps(
    runner: Runner, steps: list[dict[str, Any]], expressions: dict[str, str]
) -> subprocess.CompletedProcess[str] | None:
    """Run the steps in order and return the last, or the first that fails; installing is left out."""
    done = None
    for step in steps:
        if "run" not in step or "Install" in step["name"]:
            continue
        assert "${{" not in step["run"], "expressions in a script can be injected into"
        if "steps.compare.outputs.code" in str(step):
            expressions["steps.compare.outputs.code"] = runner.outputs()["code"]
        done = runner.run(
            step["run"], step.get("shell", "bash"), **filled(step.get("env", {}), expressions)
        )
        if done.returncode:
            return done
    return done


def base_sha(runner: Runner) -> str:
    return runner.run("git rev-parse HEAD~1").stdout.strip()


def test_github_recipe_without_the_action(root: Path, runner: Runner, comments: Comments) -> None:
    steps = recipes(root)[1]["jobs"]["compare"]["steps"]
    expressions = {
        "github.event.pull_request.base.sha": base_sha(runner),
        "github.event.pull_request.number": "12",
        "github.token": "secret",
    }
    done = run_steps(runner, steps, expressions)
    assert done is not None
    assert done.returncode == 1, done.stderr
    assert "🔴 traceroof: **slower**" in runner.summary
    assert "`tail`" in runner.summary
    report = (runner.folder / "report.html").read_text("utf-8")
    assert "Slower: wall time" in report
    assert 'id="changed"' in report
    assert list(comments.held)[150:] == [150]
    assert comments.held[150].startswith("<!-- traceroof:pr-report:v1 key=gpu -->")
    # The next push updates the comment.
    comments.held[150] = comments.held[150].replace("slower", "outdated")
    run_steps(runner, [step for step in steps if "Trace" not in step.get("name", "")], expressions)
    assert list(comments.held)[150:] == [150]
    assert "**slower**" in comments.held[150]


@pytest.mark.parametrize(("runner", "code"), [(1.5, 1), (1.0, 0)], indirect=["runner"])
def test_github_recipe_with_the_action(
    root: Path, runner: Runner, comments: Comments, code: int
) -> None:
    (workflow, *_) = recipes(root)
    trace, use = workflow["jobs"]["compare"]["steps"][1:]
    action = yaml.safe_load((root / "action.yml").read_text("utf-8"))
    assert set(use["with"]) <= set(action["inputs"])
    traced = run_steps(runner, [trace], {"github.event.pull_request.base.sha": base_sha(runner)})
    assert traced is not None
    assert traced.returncode == 0, traced.stderr
    given = {name: str(entry.get("default", "")) for name, entry in action["inputs"].items()}
    expressions = {f"inputs.{name}": value for name, value in {**given, **use["with"]}.items()}
    expressions |= {"github.event.pull_request.number": "12", "inputs.token": "secret"}
    done = run_steps(runner, action["runs"]["steps"], expressions)
    assert done is not None
    assert done.returncode == code, done.stderr
    assert runner.outputs()["verdict"] == ("regressed" if code else "unchanged")
    assert runner.summary.startswith("<!-- traceroof:pr-report:v1 key=default -->")
    assert {path.name for path in (runner.folder / "traceroof").iterdir()} == {
        "compare.md", "compare.json", "report.html",
    }  # fmt: skip
    report = (runner.folder / "traceroof/report.html").read_text("utf-8")
    assert ("Slower: wall time" if code else "No change: wall time") in report
    assert comments.held[150] == runner.summary
    run_steps(runner, action["runs"]["steps"], expressions)
    assert len(comments.held) == 151


def test_a_comment_that_may_not_be_written_fails_nothing(
    root: Path, runner: Runner, comments: Comments
) -> None:
    comments.allowed = False
    action = yaml.safe_load((root / "action.yml").read_text("utf-8"))
    (step,) = [one for one in action["runs"]["steps"] if one["name"] == "Comment"]
    (runner.folder / "traceroof").mkdir()
    (runner.folder / "traceroof/compare.md").write_text("<!-- traceroof -->\n")
    done = run_steps(
        runner, [step], {"inputs.token": "x", "github.event.pull_request.number": "12"}
    )
    assert done is not None
    assert done.returncode == 0
    assert "::warning::the comment could not be written: HTTP Error 403" in done.stdout


def test_gitlab_recipe(root: Path, runner: Runner, comments: Comments) -> None:
    job = recipes(root)[2]["gpu-compare"]
    script = "\n".join(job["script"])
    env = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": base_sha(runner)}
    done = runner.run(script, **env)
    assert done.returncode == 1, done.stderr
    assert comments.held[150].startswith("<!-- traceroof:pr-report:v1 key=gpu -->")
    for path in job["artifacts"]["paths"]:
        assert (runner.folder / path).exists(), path
    again = "\n".join(line for line in job["script"] if "worktree" not in line)
    assert runner.run(again, **env).returncode == 1
    assert len(comments.held) == 151
    comments.allowed = False
    done = runner.run(again, **env)
    assert done.returncode == 1, "the gate decides, not the note"
    assert "the note could not be written" in done.stdout


def test_stored_baseline(root: Path, runner: Runner) -> None:
    (runner.folder / "traces/base").mkdir(parents=True)
    (runner.folder / "traces/head").mkdir()
    made = runner.run(
        f"git worktree add -q --detach ../base {base_sha(runner)}\n"
        "for run in 1 2 3 4 5; do python3 ../base/trace.py traces/base/$run.json;"
        " python3 trace.py traces/head/$run.json; done"
    )
    assert made.returncode == 0, made.stderr
    page = (root / "docs/ci.md").read_text("utf-8")
    (script,) = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    done = runner.run(script)
    assert done.returncode == 1, done.stderr
    assert "gate failed: regression: kernel time, tail, category other" in done.stderr
    assert "base main · NVIDIA A100-SXM4-80GB" in done.stdout


def test_another_gpu_on_the_runner_does_not_pass(root: Path, runner: Runner) -> None:
    (runner.folder / "trace.py").write_text(
        (runner.folder / "trace.py").read_text().replace("A100-SXM4-80GB", "H100 80GB HBM3")
    )
    steps = recipes(root)[1]["jobs"]["compare"]["steps"]
    expressions = {
        "github.event.pull_request.base.sha": base_sha(runner),
        "github.event.pull_request.number": "12",
        "github.token": "secret",
    }
    done = run_steps(runner, steps, expressions)
    assert done is not None
    assert done.returncode == 2
    assert "🚫 traceroof: **not comparable**" in runner.summary
    report = (runner.folder / "report.html").read_text("utf-8")
    assert "Not comparable.</b>" in report[: report.index("<h1")]


def test_every_recipe_is_complete(root: Path) -> None:
    """Each has an artifact, a comment with a marker, a gate; GitHub's have a summary, too."""
    text = (root / "docs/ci.md").read_text("utf-8")
    plain, gitlab = (json.dumps(one) for one in recipes(root)[1:3])
    action = (root / "action.yml").read_text("utf-8")
    for recipe in (plain, action):
        assert "upload-artifact" in recipe
        assert "GITHUB_STEP_SUMMARY" in recipe
        assert "--fail-on" in recipe
    assert "artifacts" in gitlab
    assert "pr-report:v1 key=gpu" in text
    assert "pull-requests: write" in text
