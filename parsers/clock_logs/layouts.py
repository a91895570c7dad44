"""From the text of a clock log to its rows: the names above each column, and the cells."""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from traceroof.core import regex
from traceroof.errors import TraceroofError
from traceroof.ingest.decompress import open_inflated
from traceroof.parser import Options

Row = tuple[tuple[str, ...], Sequence[str]]

# Logs are written by loops; one of more is no log of a run.
_MOST_BYTES = 1 << 30


@dataclass
class Rows:
    """The rows of a log, in order. broken: lines that have other cells than the names above."""

    found: list[Row] = field(default_factory=list)
    broken: int = 0

    def add(self, names: tuple[str, ...], cells: Sequence[str]) -> None:
        if len(cells) == len(names):
            self.found.append((names, cells))
        else:
            self.broken += 1


def text_of(source: Path, options: Options) -> str:
    """The whole text of a log. Raises TraceroofError where it is no text of a sane size."""
    with open_inflated(source, options) as stream:
        data = stream.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise TraceroofError(f"{source} is a clock log of more than 1 GiB", "log less often")
    return decoded(data)


def decoded(data: bytes) -> str:
    """Text of a tool; PowerShell redirects it as UTF-16."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8-sig", "replace")


def csv_rows(text: str, is_header: re.Pattern[str]) -> Rows:
    """Rows of comma-separated tables. Names stand again where a log was appended to; what stands
    before the first names are words of the tool."""
    rows = Rows()
    names: tuple[str, ...] | None = None
    lines = [line for line in text.replace("\0", "").splitlines() if line.strip()]
    for line, cells in zip(lines, _cells(lines), strict=True):
        if is_header.search(line):
            names = tuple(cells)
        elif names is not None:
            rows.add(names, cells)
    return rows


def _cells(lines: Iterable[str]) -> Iterator[list[str]]:
    """The cells of each line by itself: a quote that is cut must not swallow the lines after."""
    for line in lines:
        try:
            yield next(csv.reader([line], skipinitialspace=True), [])
        except csv.Error:
            yield []


# Cells that hold blanks: a number and its unit, lists, "GPU 0" of an entity, a name's bracket.
_UNIT = regex.compile(r"(?<=\d) +(?=(?:W|mW|°C|C|MHz|Mhz|GHz|%|MB|GB|MiB|GiB)(?:\s|$))")
_LIST = regex.compile(r"(?<=[,/]) +")
_ENTITY = regex.compile(r"^\s*GPU +(?=\d)")
_BRACKET = regex.compile(r" +(?=\()")


def table_rows(text: str, is_header: re.Pattern[str]) -> Rows:
    """Rows of a table for people: columns set apart by blanks, names again now and then. Rules,
    units and comments begin with no digit."""
    rows = Rows()
    names: tuple[str, ...] | None = None
    for line in text.replace("\0", "").splitlines():
        if is_header.search(line):
            names = tuple(_BRACKET.sub("", line.replace("#", " ")).split())
            continue
        line = _ENTITY.sub("", line).strip()
        if names is not None and line[:1].isdigit():
            rows.add(names, _LIST.sub("", _UNIT.sub("", line)).split())
    return rows


_KEY = regex.compile(r"^(?:GPU|DCU|HCU)\[(\d+)\]\s*:\s*(.+?):\s*(.*)$")


def keyed_rows(text: str) -> Rows:
    """Rows of ``GPU[0] : key: value`` lines; a key that comes again begins another sample."""
    rows = Rows()
    samples: dict[str, dict[str, str]] = {}
    for match in filter(None, map(_KEY.match, text.splitlines())):
        gpu, key, value = match.groups()
        # "sclk clock level: 1: (1700Mhz)" names level and clock at once.
        key, value = (part.strip() for part in (key, value.rpartition(": ")[2]))
        sample = samples.get(gpu)
        if sample is None or key in sample:
            if sample:
                rows.add(tuple(sample), list(sample.values()))
            samples[gpu] = sample = {"gpu": gpu}
        sample[key] = value
    for sample in samples.values():
        rows.add(tuple(sample), list(sample.values()))
    return rows
