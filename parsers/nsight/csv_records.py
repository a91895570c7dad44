"""The rows of a CSV table in a log, also rows whose quoted cells go over several lines."""

import csv
from collections.abc import Callable, Iterator

from traceroof.core import regex
from traceroof.parsers.nsight.csv_variants import (
    Header,
    Lines,
    Skipped,
    header_of,
    may_hold_header,
    source_title,
)

# A quoted cell that spans more is an unbalanced quote, not a rule's description.
_MAX_ROW_LINES = 400
_MAX_ROW_LETTERS = 120_000
_ROW_START = regex.compile(r'"\d{1,18}","')
_LOOSE_ROW_START = regex.compile(r'"?\d{1,18}"?[,;\t]"?\d{1,18}"?[,;\t]')


def records(
    lines: Lines, header: Header, skipped: Skipped, ends: Callable[[str], bool]
) -> Iterator[list[str]]:
    """The rows below a header, until the next header or a line that ``ends`` the table.

    That line is given back to ``lines``.
    """
    reader = csv.reader(_rows(lines, header, skipped, ends), delimiter=header.delimiter)
    while True:
        try:
            yield next(reader)
        except StopIteration:
            return
        except csv.Error:
            skipped.broken += 1


# One of these stands in every header and in hardly any row.
_MARKS = ("Metric Name", "Kernel Name")
# Titles of the source page, which may follow any table.
_TITLES = ('"Kernel', '"File', '"Function', "Kernel", "File", "Function")
_SOURCE_MARKS = (*_MARKS, '"Source"', "Warp Stall Sampling")


def _rows(
    lines: Lines, header: Header, skipped: Skipped, ends: Callable[[str], bool]
) -> Iterator[str]:
    """Lines of a table, quoted line breaks joined, without what else was printed among them."""
    quoted = header.quoted
    start = '"' if quoted else ""
    marks = _SOURCE_MARKS if header.kind == "source" else _MARKS
    for line in lines:
        if line.startswith(_TITLES) and source_title(line):
            lines.give_back(line)
            return
        if not line.startswith(start) or line.startswith("==") or not line:
            if (may_hold_header(line) and header_of(line)) or ends(line):
                lines.give_back(line)
                return
            # Program output without a line end runs into the row that follows.
            row = _ROW_START.search(line) if quoted and line else None
            if row is None:
                skipped.line(line)
                continue
            skipped.line(line[: row.start()])
            line = line[row.start() :]
        elif any(mark in line for mark in marks) and header_of(line):
            lines.give_back(line)
            return
        if line.count('"') & 1:
            joined = _joined(line, lines, quoted)
            if joined is None:
                skipped.broken += 1
                continue
            line = joined
        yield line


def _joined(line: str, lines: Lines, quoted: bool) -> str | None:
    """A row whose quoted cell goes on over the next lines, up to its closing quote.

    None where the quote is never closed: the last cell is cut, and half a number is a wrong one.
    """
    begins = _ROW_START if quoted else _LOOSE_ROW_START
    parts, length = [line], len(line)
    for more in lines:
        # Quotes inside a cell are doubled, so this can only be the next row.
        if begins.match(more) and (quoted or more.count('"') % 2 == 0):
            lines.give_back(more)
            break
        parts.append(more)
        length += len(more)
        if more.count('"') & 1:
            return "\n".join(parts)
        if len(parts) > _MAX_ROW_LINES or length > _MAX_ROW_LETTERS:
            break
    return None
