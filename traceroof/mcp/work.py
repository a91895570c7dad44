"""The process that does the work of calls, one after another: ``python -m traceroof.mcp.work``.

A line of JSON on stdin is a call, the first one the set-up; lines on stdout are its progress and, last,
its answer or error. Whoever started it ends it to cancel a call, and it ends itself when nobody
listens any more. Whatever else prints goes to stderr.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TextIO

from traceroof.errors import TraceroofError
from traceroof.mcp.answers import page, sentence
from traceroof.mcp.calls import call_of
from traceroof.mcp.tools import Setup, Tools

_SECONDS_BETWEEN, _SECONDS_OF_SILENCE = 0.1, 1.0
_LONGEST_ERROR = 300


def main() -> None:
    """Answer calls until stdin ends."""
    out, asked = _own_stdout(), _lines()
    watch = Watch(out)
    tools = Tools(Setup(**json.loads(asked.get())), watch.read, watch.stage)
    while True:
        call = json.loads(asked.get())
        watch.begin()
        watch.end(answered(tools, call["name"], call["arguments"]))


def answered(tools: Tools, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a call as it is sent: a page of it, or an error in one sentence."""
    try:
        call = call_of(name, arguments)
        return {"answer": page(tools.answer(call), getattr(call, "more", None))}
    except TraceroofError as error:
        return {"error": sentence(error)}
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return {"error": sentence(TraceroofError(f"{where}{error.strerror or error}"))}
    except Exception as error:  # noqa: BLE001 - whatever it is, the client gets a sentence
        said = f"{type(error).__name__}: {error}"[:_LONGEST_ERROR]
        return {"error": sentence(TraceroofError(f"unexpected error: {said}"))}


class Watch:
    """Progress of one call, a few times a second: bytes of all files, then what is done with them.

    Where nothing is told for a second, the same is said again, one byte further: whoever waits knows
    that the work goes on, and a client's time limit begins anew.
    """

    def __init__(self, out: TextIO) -> None:
        self._out, self._lock, self._busy = out, threading.Lock(), False
        self.begin(busy=False)
        threading.Thread(target=self._repeat, daemon=True).start()

    def begin(self, *, busy: bool = True) -> None:
        """A new call: nothing is read yet."""
        self._before, self._done, self._total, self._said = 0, 0, 0, time.monotonic()
        self._what, self._busy, self._last, self._first = "bytes read", busy, 0, True

    def read(self, done: int, total: int) -> None:
        """Bytes of the file that is read now."""
        if done < self._done or total != self._total:  # the next file
            self._before += self._done
            self._total = total
        self._done = done
        if self._first or time.monotonic() - self._said >= _SECONDS_BETWEEN:
            self._first = False
            self._tell()

    def stage(self, what: str) -> None:
        """What is done now that all is read."""
        self._what = what
        self._tell()

    def end(self, message: Mapping[str, Any]) -> None:
        """The last word of a call."""
        with self._lock:
            self._busy = False
            _say(self._out, message)

    def _tell(self) -> None:
        with self._lock:
            if not self._busy:
                return
            self._said = time.monotonic()
            self._last = max(self._last + 1, self._before + self._done)
            total = max(self._before + self._total, self._last + 1)
            _say(self._out, {"done": self._last, "total": total, "what": self._what})

    def _repeat(self) -> None:
        while True:
            time.sleep(_SECONDS_OF_SILENCE)
            if time.monotonic() - self._said >= _SECONDS_OF_SILENCE:
                self._tell()


def _say(out: TextIO, message: Mapping[str, Any]) -> None:
    out.write(json.dumps(message) + "\n")
    out.flush()


def _own_stdout() -> TextIO:
    """The real stdout, for messages alone: to everyone else, stdout is stderr."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return out


def _lines() -> "SimpleQueue[str]":
    """The lines of stdin as they come. When it ends, so does this process, busy or not."""
    asked: SimpleQueue[str] = SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            asked.put(line)
        end_all()

    threading.Thread(target=listen, daemon=True).start()
    return asked


def end_all() -> None:
    """End this process and those that it started to read a file."""
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        with suppress(OSError):
            os.killpg(0, signal.SIGKILL)
    os._exit(0)


if __name__ == "__main__":
    main()
