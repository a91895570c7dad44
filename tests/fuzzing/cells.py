"""Damage to a table of text: cells, columns, rows and units, so that it stays a table."""

import random
from collections.abc import Callable, Sequence

_DELIMITERS = (",", ";", "\t", "│", "|")

#: What a cell can hold that no profiler writes there.
ODD = (
    "", " ", "0", "-1", "-0", "1.5", "1,5", "1.234.567", "1 234", "1e309", "-1e30", "9" * 40,
    "18446744073709551615", "9223372036854775807", "NaN", "n/a", "N/A", "Infinity", "text", "=1+1",
    "1024x4x1", "(1, 1, 1)", "(1)", "100%", "0x7f", "\u0661\u0662", "True", "\x1b[2J", "usecond", "ms",
)  # fmt: skip

_UNITS = (
    "ns",
    "us",
    "usecond",
    "ms",
    "msecond",
    "s",
    "second",
    "%",
    "byte",
    "Kbyte",
    "GB/s",
    "inst",
    "",
)

Cells = list[list[str]]


def damaged(data: bytes, rng: random.Random) -> bytes:
    """The text after one to three damages to its cells, rows or columns."""
    text = data.decode("utf-8", "surrogateescape")
    delimiter = delimiter_of(text)
    rows = [split(line, delimiter) for line in text.split("\n")]
    for _ in range(rng.randint(1, 3)):
        rng.choice(_DAMAGES)(rows, rng)
        rows = [row or [""] for row in rows] or [[""]]
    if rng.random() < 0.03:
        delimiter = rng.choice(_DELIMITERS)
    return "\n".join(delimiter.join(row) for row in rows).encode("utf-8", "surrogateescape")


def delimiter_of(text: str) -> str:
    """What separates most cells of a text."""
    return max(_DELIMITERS, key=text.count)


def split(line: str, delimiter: str) -> list[str]:
    """The cells of a line as they stand, quotes included."""
    if '"' not in line:
        return line.split(delimiter)
    cells, start, quoted = [], 0, False
    for at, sign in enumerate(line):
        if sign == '"':
            quoted = not quoted
        elif sign == delimiter and not quoted:
            cells.append(line[start:at])
            start = at + 1
    return [*cells, line[start:]]


def _pick(rows: Cells, rng: random.Random) -> tuple[int, int]:
    row = rng.randrange(len(rows))
    return row, rng.randrange(len(rows[row]))


def _quoted(value: str, old: str) -> str:
    return f'"{value}"' if old.startswith('"') else value


def changed_number(cell: str, rng: random.Random) -> str:
    """The cell with its number changed: a digit, the sign, the power of ten; any other as it is."""
    digits = [at for at, sign in enumerate(cell) if sign.isdigit()]
    if not digits:
        return cell
    at, kind = rng.choice(digits), rng.randrange(5)
    if kind == 0:
        return cell[:at] + rng.choice("0123456789") + cell[at + 1 :]
    if kind == 1:
        return cell[: digits[0]] + "-" + cell[digits[0] :]
    if kind == 2:
        return cell[: digits[-1] + 1] + "0" * rng.choice((1, 3, 9)) + cell[digits[-1] + 1 :]
    if kind == 3:
        return cell[: digits[0]] + cell[digits[-1] :]
    return cell[:at] + rng.choice(".,:e- ") + cell[at:]


def _odd(rows: Cells, rng: random.Random) -> None:
    row, column = _pick(rows, rng)
    rows[row][column] = _quoted(rng.choice(ODD), rows[row][column])


def _number(rows: Cells, rng: random.Random) -> None:
    for _ in range(rng.randint(1, 4)):
        row, column = _pick(rows, rng)
        rows[row][column] = changed_number(rows[row][column], rng)


def _odd_column(rows: Cells, rng: random.Random) -> None:
    _, column = _pick(rows, rng)
    value, every = rng.choice(ODD), rng.choice((1, 2, 3))
    for row in rows[1::every]:
        if column < len(row):
            row[column] = _quoted(value, row[column])


def _number_column(rows: Cells, rng: random.Random) -> None:
    _, column = _pick(rows, rng)
    for row in rows[1:]:
        if column < len(row):
            row[column] = changed_number(row[column], rng)


def _swap_columns(rows: Cells, rng: random.Random) -> None:
    _, one = _pick(rows, rng)
    _, other = _pick(rows, rng)
    first = rng.randrange(2)  # with the header, or without it
    for row in rows[first:]:
        if max(one, other) < len(row):
            row[one], row[other] = row[other], row[one]


def _drop_column(rows: Cells, rng: random.Random) -> None:
    _, column = _pick(rows, rng)
    for row in rows:
        if column < len(row):
            del row[column]


def _double_column(rows: Cells, rng: random.Random) -> None:
    _, column = _pick(rows, rng)
    for row in rows:
        if column < len(row):
            row.insert(column, row[column])


def _rename_column(rows: Cells, rng: random.Random) -> None:
    row = rows[rng.randrange(min(3, len(rows)))]
    at, other = rng.randrange(len(row)), rng.randrange(len(row))
    row[at] = rng.choice((row[other], row[at].upper(), row[at] + "x", "", "Metric Name", "Name"))


def _unit(rows: Cells, rng: random.Random) -> None:
    row, column = _pick(rows, rng)
    known = [(r, c) for r, cells in enumerate(rows) for c, cell in enumerate(cells)
             if cell.strip('" ') in _UNITS and cell]  # fmt: skip
    if known:
        row, column = rng.choice(known)
    rows[row][column] = _quoted(rng.choice(_UNITS), rows[row][column])


def _drop_rows(rows: Cells, rng: random.Random) -> None:
    start, end = sorted(rng.randrange(len(rows) + 1) for _ in range(2))
    end = min(end, start + rng.choice((1, 2, len(rows))))
    del rows[start:end]


def _double_rows(rows: Cells, rng: random.Random) -> None:
    start = rng.randrange(len(rows))
    part = rows[start : start + rng.choice((1, 3, 30))]
    at = rng.randrange(len(rows) + 1)
    rows[at:at] = [list(row) for row in part]


def _swap_rows(rows: Cells, rng: random.Random) -> None:
    one, other = rng.randrange(len(rows)), rng.randrange(len(rows))
    rows[one], rows[other] = rows[other], rows[one]


def _cut_row(rows: Cells, rng: random.Random) -> None:
    row = rows[rng.randrange(len(rows))]
    if rng.randrange(2):
        del row[rng.randrange(len(row)) + 1 :]
    else:
        row.extend(rng.choices(ODD, k=rng.randint(1, 3)))


def _swap_cells(rows: Cells, rng: random.Random) -> None:
    (one, at), (other, to) = _pick(rows, rng), _pick(rows, rng)
    rows[one][at], rows[other][to] = rows[other][to], rows[one][at]


def _quote(rows: Cells, rng: random.Random) -> None:
    row, column = _pick(rows, rng)
    cell = rows[row][column]
    rows[row][column] = rng.choice((cell.replace('"', ""), f'"{cell}', f'"{cell}"', cell + '"'))


_DAMAGES: Sequence[Callable[[Cells, random.Random], None]] = (
    _odd, _odd, _odd, _number, _number, _odd_column, _number_column, _swap_columns, _drop_column,
    _double_column, _rename_column, _unit, _drop_rows, _double_rows, _swap_rows, _cut_row, _swap_cells,
    _quote,
)  # fmt: skip
