"""The options that several commands share, in groups that are passed whole.

A command takes a group as one parameter; ``grouped`` shows the command line its fields.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum, StrEnum
from functools import cached_property, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from traceroof.cli.completion import complete_run

if TYPE_CHECKING:
    from traceroof.compare.noise_threshold import Thresholds
    from traceroof.config import Settings
    from traceroof.core.part import Part
    from traceroof.ingest.roles import Mode
    from traceroof.parser import Options
    from traceroof.scale.mapping import Keeper, Mapping


class Format(StrEnum):
    """How ``diagnose`` writes its result."""

    table = "table"
    json = "json"
    markdown = "markdown"
    csv = "csv"


class Combine(Enum):
    """What files are that are given together."""

    auto = "auto"
    passes = "passes"
    join = "join"
    repeats = "repeats"
    ranks = "ranks"
    separate = "separate"


class ComparisonFormat(StrEnum):
    """How ``compare`` writes its result."""

    table = "table"
    json = "json"
    markdown = "markdown"


class ExportFormat(StrEnum):
    """What ``export`` writes."""

    parquet = "parquet"
    csv = "csv"
    jsonl = "jsonl"
    perfetto = "perfetto"


class NoiseFormat(StrEnum):
    """How ``noise`` writes its result."""

    table = "table"
    json = "json"


class HistoryFormat(StrEnum):
    """How ``history`` writes its result."""

    table = "table"
    json = "json"
    csv = "csv"
    html = "html"


Paths = Annotated[
    list[str], typer.Argument(metavar="PATH...", help="Profiler files, folders, URLs or patterns.")
]
RunOrPaths = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[RUN|PATH...]",
        help="A stored run (id, beginning of an id, or name; default: the newest) or files.",
        autocompletion=complete_run,
    ),
]
StoreFolder = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="DIR|URL",
        help="Store folder or URL; default $TRACEROOF_STORE, the settings' or .traceroof.",
    ),
]
NoCalibration = Annotated[
    bool,
    typer.Option(
        "--no-calibration",
        help="Ignore the ceilings of `traceroof calibrate`: the same result on every machine.",
    ),
]
KernelName = Annotated[
    str | None,
    typer.Option(
        "--kernel",
        metavar="NAME",
        help="Show only these kernels (#N of the table, a part of a name, or a pattern); shares "
        "stay those of the whole run.",
    ),
]
SourceRoot = Annotated[
    Path | None,
    typer.Option(
        "--source-root",
        metavar="DIR",
        help="Show the text of source lines, from the files in this folder.",
    ),
]
Top = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Number of kernels and findings to show.")
]
Output = Annotated[
    str | None, typer.Option("--output", "-o", metavar="FILE", help="File to write; - is stdout.")
]
Wide = Annotated[
    bool,
    typer.Option(
        "--wide",
        help="Print 140 columns whatever the width of the terminal, so that no column is left out.",
    ),
]
Key = Annotated[
    str | None,
    typer.Option(
        metavar="KEY",
        help="Markdown: key that identifies the comment to update; default: the run, or BASE.",
    ),
]
_AS = typer.Option("--format", "-f", case_sensitive=False, help="Output format.")


@dataclass(frozen=True)
class ConfigOptions:
    """Which settings are in force."""

    config: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="FILE", help="Settings file that overrides traceroof.toml."
        ),
    ] = None
    no_config: Annotated[bool, typer.Option("--no-config", help="Ignore all settings files.")] = (
        False
    )

    @cached_property
    def settings(self) -> "Settings":
        """The settings in force."""
        from traceroof.config import load

        return load(self.config, without=self.no_config)


@dataclass(frozen=True)
class StoreOptions(ConfigOptions):
    """Which store is meant, where the settings may name it."""

    store: StoreFolder = None

    @property
    def folder(self) -> "Path | str | None":
        """The store: the option's, else the environment's (None), else the settings'."""
        if self.store:
            return self.store if "://" in self.store else Path(self.store)
        if os.environ.get("TRACEROOF_STORE"):
            return None
        return self.settings.store


@dataclass(frozen=True)
class ReadOptions(StoreOptions):
    """How to read profiler files, and which store holds the runs that are named."""

    device: Annotated[
        str | None,
        typer.Option("--device", metavar="NAME", help="The GPU, if the file does not name it."),
    ] = None
    peak: Annotated[
        str | None,
        typer.Option(
            "--peak",
            metavar="NAME=RATE,…",
            help="Peaks for this command: bandwidth=3350,bf16=989 (GB/s, TFLOP/s).",
        ),
    ] = None
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Refuse a file if anything in it was skipped or guessed."),
    ] = False
    combine: Annotated[
        Combine,
        typer.Option(
            "--combine",
            case_sensitive=False,
            help="What several files are: counter passes, timeline and counters, repeats, ranks.",
        ),
    ] = Combine.auto
    clock_offset: Annotated[
        str | None,
        typer.Option(
            "--clock-offset",
            metavar="OFFSET",
            help="Offset of the clock log from UTC: +02:00, -5, -12.5s, or auto.",
        ),
    ] = None
    steps: Annotated[
        str | None,
        typer.Option(
            "--steps", metavar="A:B", help="Judge only these steps, by number, both ends included."
        ),
    ] = None
    range: Annotated[
        str | None,
        typer.Option(
            "--range", metavar="NAME[@N]", help="Judge only what was launched in this range."
        ),
    ] = None
    rank: Annotated[
        int | None, typer.Option("--rank", metavar="N", help="Judge only this rank.")
    ] = None
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            metavar="N",
            min=1,
            help="Number of reader processes; default: one per core from 64 MB of input on.",
        ),
    ] = None
    scheduler: Annotated[
        str | None,
        typer.Option(
            "--scheduler",
            metavar="ADDRESS|FILE|local",
            help="Read on a Dask cluster: its address, its scheduler file, or one made here.",
        ),
    ] = None
    max_inflated: Annotated[
        int, typer.Option(metavar="GIB", min=1, help="Maximum decompressed size of a file.")
    ] = 64
    max_inflation: Annotated[
        int,
        typer.Option(
            metavar="FACTOR", min=1, help="Maximum ratio of decompressed to compressed size."
        ),
    ] = 200

    @cached_property
    def settings(self) -> "Settings":
        """The settings in force, with the peaks that an option gives."""
        found = super().settings
        if self.peak is None:
            return found
        from traceroof.config.own_devices import peaks_of

        return found.with_peaks(peaks_of(self.peak), "--peak")

    @property
    def mode(self) -> "Mode":
        """What several files are, as ``ingest.combine`` takes it."""
        found: Mode = self.combine.value
        return found

    def part(self) -> "Part":
        """The part of a recording that is judged."""
        from traceroof.core.part import Part

        return Part(self.steps, self.range, self.rank)

    def mapping(self, keeper: "Keeper | None" = None) -> "Mapping":
        """How several files are read. keeper: where what is read is kept."""
        from traceroof.scale.mapping import Mapping

        return Mapping(
            jobs=self.jobs,
            scheduler=self.scheduler,
            keep="all" if self.part() else "parts",
            own=tuple(self.settings.devices),
            keeper=keeper,
        )

    def parser_options(self) -> "Options":
        """The same as a parser takes it."""
        from traceroof.parser import Options

        return Options(
            device=self.device,
            meanwhile=("traceroof.diagnosis.diagnose", "traceroof.report.run.terminal"),
            max_inflated_bytes=self.max_inflated << 30,
            max_inflation=self.max_inflation,
        )


@dataclass(frozen=True)
class View:
    """What of a diagnosis to show, how, and where."""

    top: Top = None
    format: Annotated[Format, _AS] = Format.table
    output: Output = None
    wide: Wide = False
    key: Key = None


@dataclass(frozen=True)
class ComparisonView:
    """What of a comparison to show, how, and where."""

    top: Top = None
    format: Annotated[ComparisonFormat, _AS] = ComparisonFormat.table
    output: Output = None
    wide: Wide = False
    key: Key = None


@dataclass(frozen=True)
class CompareOptions:
    """What counts as a change between two runs."""

    force: Annotated[
        bool,
        typer.Option("--force", help="Compare times even if GPU, driver, clocks or tool differ."),
    ] = False
    min_percent: Annotated[
        float, typer.Option(metavar="PCT", min=0, help="Smallest change of a kernel that counts.")
    ] = 5.0
    min_ms: Annotated[
        float | None,
        typer.Option(
            metavar="MS",
            min=0,
            help="Smallest change of a kernel that counts, in ms; default 0.25 % of kernel time.",
        ),
    ] = None

    def thresholds(self) -> "Thresholds":
        """The same as ``compare`` takes it."""
        from traceroof.compare.noise_threshold import Thresholds

        least = None if self.min_ms is None else self.min_ms * 1e6
        return Thresholds(percent=self.min_percent, least_ns=least)


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """``command`` as the command line sees it: each group of options stands for its fields."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    seen: list[Parameter] = []
    for parameter in signature(command).parameters.values():
        if parameter.name in groups:
            seen += _fields_of(groups[parameter.name])
        else:
            seen.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))

    @wraps(command)
    def called(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{one.name: given.pop(one.name) for one in fields(group)})
        with _own_devices(given.values()):
            command(**given)

    called.__signature__ = Signature(seen)  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in seen}
    return called


@contextmanager
def _own_devices(given: Iterable[Any]) -> Iterator[None]:
    """The user's GPUs, known to everything that a command does."""
    options = next((one for one in given if isinstance(one, ConfigOptions)), None)
    if options is None or not options.settings.devices:
        yield
        return
    from traceroof.hardware.devices import knowing

    with knowing(options.settings.devices):
        yield


def _fields_of(group: Any) -> list[Parameter]:
    types = get_type_hints(group, include_extras=True)
    # What a group has of its own before what it shares with others.
    own = group.__annotations__
    listed = sorted(fields(group), key=lambda one: one.name not in own)
    return [
        Parameter(one.name, Parameter.KEYWORD_ONLY, default=one.default, annotation=types[one.name])
        for one in listed
    ]
