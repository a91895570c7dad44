"""A hostile name in every place that names come from reaches every output as text alone."""

import csv as csv_module
import io
import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from markdown_it import MarkdownIt

import traceroof
from tests.report.test_injection import PAYLOADS
from traceroof.core.kernel_table import kernel_table
from traceroof.core.recording import (
    HOST_CALLS,
    RAW_METRICS,
    SPANS,
    VERDICTS,
    DeviceInfo,
    Note,
    Recording,
    Run,
    source_of,
)
from traceroof.diagnosis.diagnose import diagnose_rows
from traceroof.history.history import Wanted, history_of
from traceroof.mcp.answers import text as mcp_text
from traceroof.mcp.roots import Roots
from traceroof.mcp.tools import diagnosed
from traceroof.report.common import json as as_json
from traceroof.report.common.tables import run_card, runs_table
from traceroof.report.compare import markdown as compare_markdown
from traceroof.report.compare import terminal as compare_terminal
from traceroof.report.history import csv as history_csv
from traceroof.report.history import page as history_page
from traceroof.report.history import terminal as history_terminal
from traceroof.report.html.notebook import html_of
from traceroof.report.perfetto.export import trace_of
from traceroof.report.run import csv, export, kernel_cards, markdown, terminal
from traceroof.store.rows import RunInfo
from traceroof.store.summaries import Kept, Origin, Series

ALL = (
    *PAYLOADS, "##[error]x", "##vso[task.x]y", "# own", "GH-12", "www.example.com", "\r\n## own",
    '" onload="x', "' onload='x", "</script><b>x", "[a]: http://x.example",
)  # fmt: skip
html_render = import_module("traceroof.report.html.render")
#: A word that no text of ours holds, so that what follows a name's own line end is recognised.
MARK = "zqmark"
# Text columns of the kernel table that hold names; the rest is of a closed set of words, or JSON.
NAMES = (
    "kernel_name", "operator", "operator_path", "module_path", "source_line", "step", "collective",
    "process_group", "group_ranks", "copy_kind", "phase",
)  # fmt: skip
LAUNCHES = 6


def table(schema: pa.Schema, **columns: Any) -> pa.Table:
    rows = max(len(one) for one in columns.values())
    return pa.table(
        [pa.array(columns.get(one.name, [None] * rows)).cast(one.type) for one in schema],
        schema=schema,
    )


def hostile(payload: str, scale: int = 1) -> Recording:
    """A timeline with counters on which every name is the payload, and the place behind it."""

    def named(place: str) -> str:
        return f"{payload}{MARK}_{place}"

    spread = list(range(LAUNCHES))
    kernels = kernel_table(
        {name: [named(name)] * LAUNCHES for name in NAMES}
        | {
            "kernel_name": [named(f"kernel{at % 2}") for at in spread],
            "step": [f"{named('step')}#{at // 2}" for at in spread],
            "kind": ["kernel"] * (LAUNCHES - 1) + ["memcpy"],
            "start_ns": [at * 100_000 for at in spread], "device": [0] * LAUNCHES,
            "duration_ns": [30_000 * scale + at for at in spread], "stream": [7] * LAUNCHES,
            "dram_throughput_pct": [93.0] * LAUNCHES, "sm_throughput_pct": [12.0] * LAUNCHES,
            "memory_throughput_pct": [93.0] * LAUNCHES,
            "grid_x": [4] * LAUNCHES, "block_x": [64] * LAUNCHES,
        }
    )  # fmt: skip
    return Recording(
        format="made", time_basis="timeline", kernels=kernels,
        sources=(source_of(f"{named('folder')}/{named('file')}", "made", kernels,
                           (Note(named("note"), 3),)),),
        devices=(DeviceInfo(index=0, name=named("device"), driver=named("driver"),
                            vendor="nvidia", gfx_target=None),),
        raw_metrics=table(RAW_METRICS, row=[0, 1], section=[named("section")] * 2,
                          metric=[named("metric")] * 2, unit=[named("unit")] * 2,
                          value=[1.5, None], text=[None, named("text")]),
        verdicts=table(VERDICTS, row=[0], section=[named("section")], rule=[named("rule")],
                       level=["OPT"], text=[named("verdict")], speedup_scope=["global"],
                       speedup_pct=[30.0]),
        host_calls=table(HOST_CALLS, source=[0], process_id=[1], thread_id=[1],
                         category=["operator"], name=[named("call")], start_ns=[1],
                         duration_ns=[500_000]),
        spans=table(SPANS, source=[0], process_id=[1], thread_id=[1], kind=["range"],
                    name=[named("span")], start_ns=[0], duration_ns=[600_000]),
    )  # fmt: skip


def history(payload: str) -> Any:
    """40 runs whose kernel, name, branch and commit are the payload; slower from the 20th on."""
    keys = {1: Series("metric", "kernel-time"), 2: Series("category", f"{payload}{MARK}_category"),
            3: Series("kernel", f"{payload}{MARK}_kernel")}  # fmt: skip
    runs = []
    for at, noise in enumerate(np.random.default_rng(5).standard_normal(40).tolist()):
        when = f"2026-{1 + at // 28:02}-{1 + at % 28:02}T00:00:00+00:00"
        time = 1e7 * (1 + 0.005 * noise) * (1.06 if at >= 20 else 1)
        origin = Origin(f"{payload}{MARK}{at}", when, f"{payload}{MARK}_branch", False, payload)
        runs.append(Kept(
            run=f"{at:012x}", name=f"{payload}{MARK}_run", created=when, sequence=at,
            time_basis="timeline", origin=origin, device=f"{payload}{MARK}_device", per="run",
            series=[1, 2, 3], values=[time] * 3, launches=[None, 1000.0, 1000.0],
        ))  # fmt: skip
    return history_of(runs, keys, Wanted())


def outputs(payload: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Kind of output and text, of each that traceroof writes."""
    name = f"{payload}{MARK}_run"
    run, base = Run(hostile(payload), name, "ab" * 6), Run(hostile(payload, 2), name, "cd" * 6)
    diagnosis, rows = diagnose_rows(run)
    comparison = traceroof.compare(base, run)
    told = history(payload)
    info = RunInfo(id="ab" * 6, name=name, created="2026-01-01T00:00:00", format="made",
                   sources=(), launches=6, kernel_time_ns=1, devices=())  # fmt: skip
    for width in (80, 140):
        yield "text", terminal.render(diagnosis, width=width)
        yield "text", compare_terminal.render(comparison, width=width)
    yield "coloured", terminal.render(diagnosis, color=True)
    yield "text", kernel_cards.render(diagnosis)
    yield "text", history_terminal.render(told, width=140)
    yield "text", run_card(run)
    yield "text", runs_table([info])
    yield "text", repr(run) + "\n" + repr(diagnosis) + "\n" + repr(comparison)
    yield "csv", csv.render(diagnosis)
    yield "csv", history_csv.render(told)
    export.export_kernels(run.recording.kernels, folder / "kernels.csv")
    yield "csv", (folder / "kernels.csv").read_text(encoding="utf-8")
    yield "markdown", markdown.render(diagnosis)
    for by in ("module", "operator", "range"):
        yield "markdown", markdown.render(diagnosis, by=by)
        yield "text", terminal.render(diagnosis, by=by)
    yield "markdown", compare_markdown.render(comparison)
    yield "html", html_render.render(diagnosis)
    yield "html", html_render.render(comparison)
    yield "html", history_page.render(told)
    for what in (run, diagnosis, comparison, traceroof.card(diagnosis, 1)):
        yield "html", html_of(what)
    for what in (diagnosis, comparison, told):
        yield "json", as_json.render(what)
    trace_of(run.recording, diagnosis, rows).write(str(folder / "trace.json"), diagnosis)
    yield "json", (folder / "trace.json").read_text(encoding="utf-8")
    answer = diagnosed(diagnosis, 5, Roots((folder,)))
    for part in (answer.head, *answer.parts):
        yield "mcp", mcp_text(part)


_KINDS = {"Cc", "Cf", "Zl", "Zp", "Cs"}
_UNPRINTABLE = re.compile(
    "[{}]".format("".join(f"\\U{at:08x}" for at in range(0x110000)
                          if unicodedata.category(chr(at)) in _KINDS and chr(at) not in "\n\u200b"))
)  # fmt: skip


def unprintable(text: str) -> list[str]:
    """What a terminal obeys, or what turns or breaks a line."""
    return _UNPRINTABLE.findall(text)


def no_command(text: str) -> None:
    assert unprintable(text) == []
    assert re.findall(r"^\s*::.*|##\[.*|##vso\[.*", text, re.MULTILINE) == []
    # No line begins with what stood behind a name's own line end.
    assert re.findall(rf"^(?:b|x|evil){MARK}.*", text, re.MULTILINE) == []


def check_coloured(text: str) -> None:
    no_command(re.sub(r"\x1b\[[0-9;]*m", "", text))
    assert "\x1b[31mred" not in text


def check_csv(text: str) -> None:
    no_command(text)
    for row in csv_module.reader(io.StringIO(text)):
        assert [one for one in row if one.startswith(("=", "+", "-", "@", "\t", "\r"))
                and not re.fullmatch(r"-?[\d.e+-]+", one)] == []  # fmt: skip


_HTML = re.compile(r"</?details>|</?summary>|<br>|<!-- traceroof:[^>]*-->")
# What GitHub's renderer links in plain text, escaped or not.
_LINKED = re.compile(r"@\w|#\d|GH-\d|https?://|ftp://|mailto:\w|www\.\w", re.IGNORECASE)


def check_markdown(text: str) -> None:
    no_command(text)
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    for at, token in enumerate(tokens):
        if token.type == "html_block":
            assert set(re.findall(r"<[^>]*>", token.content)) <= set(_HTML.findall(token.content))
            assert MARK not in re.sub(r"<!-- traceroof:\S+ key=[\w.-]+ -->", "", token.content)
        if token.type == "inline" and tokens[at - 1].type == "heading_open":
            assert not token.content.startswith(MARK)
        for one in token.children or ():
            assert one.type not in ("link_open", "image"), token.content
            assert one.type != "html_inline" or _HTML.fullmatch(one.content), token.content
            assert one.type != "text" or not _LINKED.search(one.content), token.content
    headings = [one.markup for one in tokens if one.type == "heading_open"]
    assert set(headings) <= {"###"}
    start = ""
    for line in text.splitlines():
        start = "" if not line.startswith("|") else start or line
        cells = [len(re.findall(r"(?<!\\)\|", one)) for one in (start, line)]
        assert not start or cells[0] == cells[1], line


class Parsed(HTMLParser):
    """The elements of a page and their attributes. What scripts hold is no markup: whatever would
    end a script stands behind it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: set[tuple[str, tuple[str, ...]]] = set()
        self.links: list[str] = []
        self.feed(re.sub(r"(<script\b[^>]*>).*?</script>", r"\1</script>", page, flags=re.DOTALL))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add((tag, tuple(name for name, _ in attrs)))
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]


def check_html(text: str, harmless: Parsed) -> None:
    assert set(unprintable(text)) <= {"\t"}  # of scripts
    found = Parsed(text)
    # The same kinds of elements with the same attributes as with names of letters.
    assert found.elements <= harmless.elements
    assert [one for one in found.links if MARK in one] == []


def check_json(text: str) -> None:
    json.loads(text)
    assert unprintable(text) == []
    assert "##" not in text


def check_protocol(text: str) -> None:
    json.loads(text)
    assert unprintable(text) == []


CHECKS: dict[str, Callable[[str], None]] = {
    "text": no_command, "coloured": check_coloured, "csv": check_csv, "json": check_json,
    "markdown": check_markdown, "mcp": check_protocol,
}  # fmt: skip


@pytest.fixture(scope="module")
def without_bundle() -> Iterator[None]:
    """Reports without the megabyte of the chart library, which holds no name."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(html_render, "_BUNDLE", "report.js")
        yield


@pytest.fixture(scope="module")
def harmless(without_bundle: None, tmp_path_factory: pytest.TempPathFactory) -> list[Parsed | None]:
    """The pages with names of letters, in the order of all outputs."""
    made = outputs("letters", tmp_path_factory.mktemp("harmless"))
    return [Parsed(text) if kind == "html" else None for kind, text in made]


@pytest.mark.parametrize("number", range(len(ALL)))
def test_every_place_and_every_output(
    tmp_path: Path, number: int, harmless: list[Parsed | None]
) -> None:
    """GIVEN a hostile name in every place WHEN written by every output THEN it is text in all."""
    payload = ALL[number]
    made = list(outputs(payload, tmp_path))
    for (kind, text), clean in zip(made, harmless, strict=True):
        if clean:
            check_html(text, clean)
        else:
            CHECKS[kind](text)
    full = [text for kind, text in made if kind == "json"]
    assert f"{payload}{MARK}_kernel0" in {one["kernel"] for one in json.loads(full[0])["kernels"]}
