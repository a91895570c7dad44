"""What a damaged input may end in: a recording whose tables fit together, with a diagnosis, a
comparison and reports that state nothing impossible; or a refusal in words."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc  # pa.ipc

import traceroof
from traceroof.compare import Comparison, compare
from traceroof.compare.sides import Side
from traceroof.core.kernel_table import KERNELS
from traceroof.core.recording import Recording, Run
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.errors import TraceroofError
from traceroof.report.common import json as as_json
from traceroof.report.compare import markdown as compare_markdown
from traceroof.report.compare import terminal as compare_terminal
from traceroof.report.html.notebook import html_of
from traceroof.report.html.render import render as as_html
from traceroof.report.run import csv, markdown, terminal

Render = Callable[[Comparison, Run], str]


def _perfetto(found: Comparison, run: Run) -> str:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        traceroof.export(run, path, config=False, calibrated=False)
        return path.read_text("utf-8")


#: In turn, one after another: each accepted input goes through one of them.
RENDERERS: tuple[Render, ...] = (
    lambda found, run: terminal.render(found.head),
    lambda found, run: markdown.render(found.head),
    lambda found, run: csv.render(found.head),
    lambda found, run: as_json.render(found.head, top=None),
    lambda found, run: as_html(found.head),
    lambda found, run: compare_terminal.render(found),
    lambda found, run: compare_markdown.render(found),
    lambda found, run: as_json.render(found),
    lambda found, run: as_html(found),
    lambda found, run: html_of(found.head) + html_of(found),
    _perfetto,
)

#: A number that is none, as a word of a text; a kernel may be called so.
_NO_NUMBER = re.compile(r"(?<![\w\"'`./-])-?(?:nan|inf)(?![\w\"'`./-])")
_TIME = re.compile(
    r"(?:^|_)(?:duration|kernel_time|wall|span|busy|idle|bound|likely|expected)(?:_ns)?$"
)
_SCRIPT = re.compile(r"<script.*?</script>|<style.*?</style>", re.DOTALL)


#: Of runs with nothing new in them, one in so many is diagnosed all the same: its notes may be new.
_KNOWN = 8


class Baseline:
    """A sound run that damaged ones are compared with; it is diagnosed once.

    diagnosed: how many runs were; damage that changes nothing that is read makes no new one.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.diagnosed = 0
        self._side: Side | None = None
        self._seen: set[bytes] = set()

    def is_known(self, run: Run) -> bool:
        """Whether a run of the same tables was diagnosed before."""
        digest = blake2b()
        for recording in filter(None, (run.recording, run.recording.counters)):
            for table in (
                recording.kernels, recording.raw_metrics, recording.verdicts, recording.host_calls,
                recording.spans, recording.call_sums, recording.source_lines, recording.clock_logs,
            ):  # fmt: skip
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, table.schema) as stream:
                    stream.write_table(table)
                digest.update(sink.getvalue())
            digest.update(repr((recording.devices, recording.time_basis)).encode())
        seen = digest.digest() in self._seen
        self._seen.add(digest.digest())
        return seen

    def compared(self, head: Run) -> Comparison:
        """What changed from the sound run to this one."""
        of = Side.of

        def known(run: Run, *more: Any) -> Side:
            if run is not self.run:
                return of(run, *more)
            self._side = self._side or of(run, *more)
            return self._side

        with patch.object(Side, "of", known):
            return compare(self.run, head)


def outcome(path: Path, baseline: Baseline, number: int, every: int = 1) -> str | None:
    """Read, diagnose, compare and render an input; why it was refused, None where it was read.

    every: of the runs with something new in them, one in so many goes on to be diagnosed.
    Raises AssertionError on what must not be, and whatever else the code raises."""
    try:
        run = traceroof.read(path)
        check_recording(run.recording)
        if number % (every * _KNOWN if baseline.is_known(run) else every):
            return None
        found = baseline.compared(run)
    except TraceroofError as refused:
        return f"{refused.message} {refused.hint or ''}"
    baseline.diagnosed += 1
    check_diagnosis(found.head)
    try:
        text = RENDERERS[number % len(RENDERERS)](found, run)
    except TraceroofError as refused:  # Perfetto shows no run without times
        return f"{refused.message} {refused.hint or ''}" if not refused.message else None
    check_text(text)
    return None


def check_recording(recording: Recording) -> None:
    """Whether the tables of a recording fit together and hold nothing that cannot be."""
    kernels = recording.kernels
    assert kernels.num_rows > 0
    assert kernels.schema == KERNELS
    assert _least(kernels["duration_ns"]) >= 0
    assert _least(kernels["launch_count"]) > 0
    assert _least(recording.host_calls["duration_ns"]) >= 0
    assert _least(recording.raw_metrics["row"]) >= 0
    assert _most(recording.raw_metrics["row"]) < (recording.counters or recording).kernels.num_rows
    assert _least(kernels["source"]) >= 0
    assert _most(kernels["source"]) < len(recording.sources)
    if recording.counters is not None:
        check_recording(recording.counters)


def _least(column: pa.ChunkedArray) -> float:
    value = pc.min(column).as_py()
    return 1 if value is None else value


def _most(column: pa.ChunkedArray) -> float:
    value = pc.max(column).as_py()
    return -1 if value is None else value


def check_diagnosis(diagnosis: Diagnosis) -> None:
    """Whether times are none that cannot be, and the advice takes no time twice."""
    totals = diagnosis.totals
    for name in ("launches", "kernel_time_ns", "wall_ns", "span_ns", "gpu_busy_ns", "gpu_idle_ns"):
        value = getattr(totals, name, None)
        assert value is None or value >= 0, name
    whole = totals.wall_ns or totals.kernel_time_ns
    bounds = [one.bound_ns for one in diagnosis.advice if one.bound_ns and not one.once]
    assert not whole or sum(bounds) <= whole * 1.000001 + 1, "the advice saves more than there is"
    assert all(one >= 0 for one in bounds)


def check_text(text: str) -> None:
    """Whether a page, a comment or a document states a number that is none, or a time below 0."""
    if text.startswith("{"):
        document = json.loads(text, parse_constant=_refuse)
        for name, value in _numbers(document, ""):
            assert value >= 0 or not _TIME.search(name), f"{name} is {value}"
        return
    text = _SCRIPT.sub("", text).replace("(nan, inf)", "")
    found = _NO_NUMBER.search(text)
    assert found is None, text[max(0, found.start() - 80) : found.end() + 80]


def _refuse(name: str) -> None:
    raise AssertionError(f"{name} in JSON")


def _numbers(node: Any, name: str) -> Iterator[tuple[str, float]]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _numbers(value, key)
    elif isinstance(node, list):
        for value in node:
            yield from _numbers(value, name)
    elif isinstance(node, (int, float)) and not isinstance(node, bool):
        yield name, node
