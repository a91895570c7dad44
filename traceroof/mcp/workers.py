"""Processes that do the work, so that the protocol is answered meanwhile.

A call that is cancelled ends its process at once, in whatever it is doing; the next call starts another.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from typing import Any, Self

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from traceroof.errors import TraceroofError
from traceroof.mcp.tools import Setup

#: Told (bytes done, bytes in all, what is done now) while a call is answered.
Told = Callable[[int, int, str], Awaitable[None]]

# Two calls at once: a look at a stored run need not wait for a large file.
_AT_ONCE = 2
_LONGEST_LINE = 1 << 20


class _Ended(TraceroofError):
    """A process that ended before it answered."""


class _Worker:
    """One process, and the stream of what it says."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process, self._stdin = process, process.stdin
        self._said = BufferedByteReceiveStream(process.stdout)

    @classmethod
    async def start(cls, setup: Setup) -> Self:
        process = await anyio.open_process(
            [sys.executable, "-m", "traceroof.mcp.work"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None,
            # What it starts to read a large file ends with it.
            start_new_session=True,
        )
        worker = cls(process)
        await worker._tell(asdict(setup))
        return worker

    async def ask(self, name: str, arguments: Mapping[str, Any], told: Told) -> dict[str, Any]:
        """The answer to a call. Raises TraceroofError where there is none."""
        try:
            await self._tell({"name": name, "arguments": arguments})
            while True:
                line = await self._said.receive_until(b"\n", _LONGEST_LINE)
                said: dict[str, Any] = json.loads(line)
                if "done" not in said:
                    break
                await told(said["done"], said["total"], said["what"])
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError):
            raise _Ended(
                f"{name} ended without an answer: its process was ended",
                "is there enough memory? --steps and --range read a part on the command line",
            ) from None
        if "error" in said:
            raise TraceroofError(said["error"])
        found: dict[str, Any] = said["answer"]
        return found

    async def _tell(self, message: Mapping[str, Any]) -> None:
        await self._stdin.send(json.dumps(message).encode() + b"\n")

    async def end(self) -> None:
        """End the process and all that it started."""
        with anyio.CancelScope(shield=True), suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(self.process.pid, signal.SIGKILL)
            else:
                self.process.kill()
            await self.process.aclose()


class Workers:
    """The processes of a server, started as calls need them."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._idle: list[_Worker] = []
        self._free = anyio.CapacityLimiter(_AT_ONCE)

    async def ask(self, name: str, arguments: Mapping[str, Any], told: Told) -> dict[str, Any]:
        """The answer to a call. Raises TraceroofError where there is none."""
        async with self._free, self._one() as worker:
            return await worker.ask(name, arguments, told)

    @asynccontextmanager
    async def _one(self) -> AsyncIterator[_Worker]:
        """An idle process, or a new one. It is kept unless the call was cancelled or it ended."""
        while self._idle and self._idle[-1].process.returncode is not None:
            await self._idle.pop().end()
        worker = self._idle.pop() if self._idle else await _Worker.start(self._setup)
        kept = False
        try:
            yield worker
            kept = True
        except TraceroofError as error:
            kept = not isinstance(error, _Ended)
            raise
        finally:
            if kept:
                self._idle.append(worker)
            else:
                await worker.end()

    async def end(self) -> None:
        """End all processes."""
        while self._idle:
            await self._idle.pop().end()
