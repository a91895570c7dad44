"""The server as clients meet it: a process of its own, driven by the SDK's client over stdio."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError, StdioServerParameters

from tests.mcp.traces import large_trace

TRACE = "torch/training.rank0.json"
SIX = ["diagnose", "explain", "card", "compare", "next_capture", "list"]


def command(root: Path, store: Path) -> list[str]:
    """The command that a client is configured with."""
    return [
        sys.executable, "-m", "traceroof", "mcp", "--root", str(root), "--store", str(store),
        "--no-config",
    ]  # fmt: skip


@asynccontextmanager
async def connected(root: Path, store: Path) -> AsyncIterator[Client]:
    """A client of a server that was started for it."""
    program, *arguments = command(root, store)
    async with Client(StdioServerParameters(command=program, args=arguments)) as client:
        yield client


def with_client(
    root: Path, store: Path, body: Callable[[Client], Awaitable[None]], seconds: float = 250
) -> None:
    """Run a body with a client; a server that hangs fails the test."""

    async def run() -> None:
        with anyio.fail_after(seconds):
            async with connected(root, store) as client:
                await body(client)

    anyio.run(run)


async def ask(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    """The answer to a call: as structured content and as text the same, and not too long."""
    result = await client.call_tool(name, arguments)
    (content,) = result.content
    assert content.type == "text"
    assert not result.is_error, content.text
    assert json.loads(content.text) == result.structured_content
    assert len(content.text.encode()) <= 8_000
    answer: dict[str, Any] = result.structured_content
    return answer


async def refused(client: Client, name: str, **arguments: Any) -> str:
    """The sentence of a call that is refused."""
    result = await client.call_tool(name, arguments)
    (content,) = result.content
    assert content.type == "text"
    assert result.is_error
    assert result.structured_content is None
    assert "\n" not in content.text
    assert len(content.text) <= 600
    return content.text


def test_six_tools_and_the_rule_cards(samples: Path, tmp_path: Path) -> None:
    async def body(client: Client) -> None:
        tools = (await client.list_tools()).tools
        assert [one.name for one in tools] == SIX
        for one in tools:
            assert one.description
            assert one.input_schema["type"] == "object"
            assert one.input_schema["additionalProperties"] is False
        made = await ask(client, "diagnose", paths=[TRACE], top=3)
        run = made["run"]["id"]
        assert made["advice"][0]["rule"] == "exposed-comm"
        assert (await ask(client, "explain", run=run, entry=1))["says"]
        assert (await ask(client, "card", run=run, kernel=2))["kernel"]["number"] == 2
        assert (await ask(client, "next_capture", run=run))["command"]
        assert (await ask(client, "compare", base=run, head=run))["verdict"] == "unchanged"
        assert (await ask(client, "list", what="runs"))["runs"][0]["id"] == run
        listed = (await client.list_resources()).resources
        uris = [str(one.uri) for one in listed]
        assert "traceroof://rules/small-grid" in uris
        (card,) = (await client.read_resource("traceroof://rules/small-grid")).contents
        assert card.mime_type == "text/markdown"
        assert "fires when" in card.text  # type: ignore[union-attr]
        for uri in ("traceroof://rules/nosuch", "traceroof://rules/../../etc/passwd"):
            with pytest.raises(MCPError, match="no rule is called"):
                await client.read_resource(uri)
        with pytest.raises(MCPError, match="there is no resource"):
            await client.read_resource("file:///etc/passwd")

    with_client(samples, tmp_path / "store", body)


def test_hostile_paths_are_refused_and_nothing_is_written(samples: Path, tmp_path: Path) -> None:
    """GIVEN a root WHEN asked for what lies outside, by path, link, URL or name, THEN one sentence; the
    root and what lies beside it are as they were."""
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret.json").write_text('{"traceEvents": []}')
    (root / "link.json").symlink_to(tmp_path / "secret.json")
    before = sorted(tmp_path.rglob("*"))

    async def body(client: Client) -> None:
        for path in (
            "../secret.json", str(tmp_path / "secret.json"), "link.json", "/etc/passwd",
            "file:///etc/passwd", "s3://bucket/x", "/dev/stdin", "-", "\x00", "x" * 5_000,
        ):  # fmt: skip
            assert await refused(client, "diagnose", paths=[path])
            assert await refused(client, "card", run=path, kernel=1)
            assert await refused(client, "compare", base=path, head=path)
        assert "lies outside" in await refused(client, "diagnose", paths=["."])

    with_client(root, tmp_path / "store", body)
    after = [one for one in sorted(tmp_path.rglob("*")) if "store" not in one.parts]
    assert after == before


def test_a_large_trace_tells_its_progress_and_can_be_cancelled(tmp_path: Path) -> None:
    """GIVEN a trace of 1 GB WHEN diagnosed THEN progress comes while other calls are answered; WHEN
    cancelled THEN its process is gone, nothing was stored, and the next call is answered."""
    trace = large_trace(tmp_path / "large.json.gz", 1_000)
    small = large_trace(tmp_path / "small.json.gz", 1)

    async def body(client: Client) -> None:
        told: list[tuple[float, float | None, str | None]] = []
        with anyio.CancelScope() as scope:

            async def hear(progress: float, total: float | None, message: str | None) -> None:
                told.append((progress, total, message))
                if len(told) == 5:
                    assert (await ask(client, "list", what="rules"))["rules"]
                    scope.cancel()

            await client.call_tool("diagnose", {"paths": [trace.name]}, progress_callback=hear)
        assert scope.cancelled_caught
        amounts = [done for done, _, _ in told]
        assert amounts == sorted(set(amounts))
        assert all(total is not None and done <= total for done, total, _ in told)
        assert told[-1][2] == "bytes read"
        assert (await ask(client, "list", what="runs"))["runs"] == []
        made = await ask(client, "diagnose", paths=[small.name])
        assert made["totals"]["launches"] > 4_000
        assert len((await ask(client, "list", what="runs"))["runs"]) == 1

    with_client(tmp_path, tmp_path / "store", body)


def test_a_process_that_is_killed_is_said_and_replaced(samples: Path, tmp_path: Path) -> None:
    """GIVEN a server whose worker is ended from outside (as for want of memory) WHEN asked next THEN a
    sentence or an answer of a new one, and then answers again."""

    async def body(client: Client) -> None:
        await ask(client, "list", what="runs")
        for pid in _workers():
            os.kill(pid, signal.SIGKILL)
        result = await client.call_tool("list", {"what": "runs"})
        if result.is_error:
            assert "its process was ended" in result.content[0].text  # type: ignore[union-attr]
        assert (await ask(client, "list", what="runs"))["runs"] == []

    with_client(samples, tmp_path / "store", body)


def _workers() -> list[int]:
    """The processes of the server that this test started."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().split(b"\0")
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                above = int(Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            if b"traceroof.mcp.work" in line and above == os.getpid():
                found.append(int(entry.name))
    return found


def started(root: Path, store: Path) -> "subprocess.Popen[bytes]":
    """A server without a client around it."""
    return subprocess.Popen(
        command(root, store),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def send(server: "subprocess.Popen[bytes]", **message: Any) -> None:
    assert server.stdin is not None
    server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    server.stdin.flush()


def greet(server: "subprocess.Popen[bytes]") -> None:
    send(server, id=1, method="initialize", params={
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    })  # fmt: skip
    assert server.stdout is not None
    assert json.loads(server.stdout.readline())["id"] == 1
    send(server, method="notifications/initialized")


def test_stdout_carries_the_protocol_alone(samples: Path, tmp_path: Path) -> None:
    """GIVEN calls that are answered and that are refused WHEN made THEN every line on stdout is a message
    of the protocol, and the server ends when stdin does."""
    server = started(samples, tmp_path / "store")
    greet(server)
    for at, paths in enumerate(([TRACE], ["nosuch.json"], ["README.md"]), start=2):
        send(server, id=at, method="tools/call", params={
            "name": "diagnose", "arguments": {"paths": paths},
        })  # fmt: skip
    assert server.stdout is not None
    lines = [json.loads(server.stdout.readline()) for _ in range(3)]
    assert {one["id"] for one in lines} == {2, 3, 4}
    assert server.stdin is not None
    server.stdin.close()
    assert server.wait(60) == 0
    assert server.stdout.read() == b""
    server.stdout.close()
    assert server.stderr is not None
    server.stderr.close()


def test_what_it_needs_and_what_it_refuses(tmp_path: Path) -> None:
    """GIVEN no folder of a project, or a root that is none, WHEN started THEN exit 2 and one sentence."""
    for arguments, where, says in (
        ([], "/", "the current folder is the root of the file system"),
        (["--root", "nosuch"], str(tmp_path), "--root nosuch is not a folder"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "traceroof", "mcp", "--no-config", *arguments],
            cwd=where, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"traceroof: {says}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_its_processes(number: signal.Signals, tmp_path: Path) -> None:
    """GIVEN a server that reads a large file WHEN a signal asks it to end THEN it does, by the code of
    that signal, and no process of its stays."""
    trace = large_trace(tmp_path / "large.json.gz", 500)
    server = started(tmp_path, tmp_path / "store")
    greet(server)
    send(server, id=2, method="tools/call", params={
        "name": "diagnose", "arguments": {"paths": [trace.name]}, "_meta": {"progressToken": "p"},
    })  # fmt: skip
    assert server.stdout is not None
    assert json.loads(server.stdout.readline())["method"] == "notifications/progress"
    workers = _workers()
    assert workers
    server.send_signal(number)
    assert server.wait(60) == 128 + number
    for pid in workers:
        for _ in range(600):
            if not Path(f"/proc/{pid}").exists() or "Z" in _state(pid):
                break
            time.sleep(0.1)
        else:
            pytest.fail(f"process {pid} goes on")
    for stream in (server.stdin, server.stdout, server.stderr):
        assert stream is not None
        stream.close()


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"
