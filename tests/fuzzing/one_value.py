"""One value of a sound file damaged, and what became of launches and times.

Rows are those of a table, objects of a JSON list, rows of a database or repeated protobuf fields.
"""

import copy
import json
import random
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.fuzzing import messages, reports, tables
from tests.fuzzing.cells import delimiter_of, split
from tests.fuzzing.seeds import Seed, seeds

#: What happens to a value, and to the row that it is in.
KINDS = (
    "emptied",
    "digit",
    "sign",
    "times-ten",
    "unit",
    "neighbour",
    "string",
    "doubled",
    "deleted",
)

_UNITS = {"ns": "us", "us": "ms", "ms": "us", "nsecond": "usecond", "usecond": "msecond",
          "msecond": "usecond", "second": "msecond", "s": "ms", "byte": "Kbyte", "KB": "MB",
          "Kbyte": "Mbyte", "Mbyte": "Kbyte", "B": "KB", "MB": "KB"}  # fmt: skip


@dataclass(frozen=True)
class Damage:
    """One damage: its kind, the field that it is in, what stood there and stands there."""

    kind: str
    field: str
    before: str
    after: str


def damaged(seed: Seed, kind: str, rng: random.Random) -> tuple[Seed, Damage] | None:
    """The seed with one value of one file damaged; None where the value drawn has no such damage."""
    name = rng.choice(sorted(seed.files))
    data = seed.files[name]
    found = _of(data)(data, kind, rng)
    if found is None or found[0] == data:
        return None
    return Seed({**seed.files, name: found[0]}, seed.is_folder), found[1]


Changed = tuple[bytes, Damage] | None


def _of(data: bytes) -> Callable[[bytes, str, random.Random], Changed]:
    if data.startswith(b"SQLite format 3\0"):
        return _in_database
    if data.startswith(reports.MAGIC):
        return _in_report
    if data.lstrip()[:1] in (b"{", b"[") and data.rstrip()[-1:] in (b"}", b"]"):
        return _in_json
    return _in_message if b"\0" in data else _in_table


def _other(value: Any, kind: str, rng: random.Random) -> Any:
    """A value after damage; as it is where it has none of this kind."""
    if kind == "string":
        return "text"
    if isinstance(value, str):
        return _other_text(value, kind, rng)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None if kind == "emptied" else value
    number: dict[str, Callable[[], Any]] = {
        "emptied": lambda: None,
        "sign": lambda: -value,
        "times-ten": lambda: value * 10,
        "unit": lambda: value / 1000 if isinstance(value, float) else value // 1000,
        "digit": lambda: type(value)(_other_digit(repr(value), rng)),
    }
    return number[kind]()


def _other_text(text: str, kind: str, rng: random.Random) -> str:
    bare = text.strip('" ')
    digits = [at for at, sign in enumerate(text) if sign.isdigit()]
    if kind == "emptied":
        return text.replace(bare, "") if bare else text
    if kind == "unit":
        return text.replace(bare, _UNITS[bare]) if bare in _UNITS else text
    if not digits or not bare.replace(".", "").replace(",", "").replace("-", "").isdigit():
        return text
    if kind == "sign":
        return text[: digits[0]] + "-" + text[digits[0] :]
    if kind == "times-ten":
        whole = text.find(".")
        if whole < 0:
            return text[: digits[-1] + 1] + "0" + text[digits[-1] + 1 :]
        after = text[whole + 1 : whole + 2]
        return f"{text[:whole]}{after or 0}.{text[whole + 2 :]}"
    return _other_digit(text, rng)


def _other_digit(text: str, rng: random.Random) -> str:
    digits = [at for at, sign in enumerate(text) if sign.isdigit()]
    at = rng.choice(digits)
    others = [one for one in "123456789" if one != text[at]]
    return text[:at] + rng.choice(others) + text[at + 1 :]


def _in_table(data: bytes, kind: str, rng: random.Random) -> Changed:
    text = data.decode("utf-8", "surrogateescape")
    delimiter = delimiter_of(text)
    lines = text.split("\n")
    rows = [at for at, line in enumerate(lines) if line.strip()]
    if not rows:
        return None
    at = rng.choice(rows)
    if kind == "unit":
        with_unit = [
            one
            for one in rows
            if any(c.strip('" ') in _UNITS for c in split(lines[one], delimiter))
        ]
        if not with_unit:
            return None
        at = rng.choice(with_unit)
    cells = split(lines[at], delimiter)
    title = _title(lines, at, delimiter)
    if kind in ("doubled", "deleted"):
        lines[at : at + 1] = [lines[at]] * 2 if kind == "doubled" else []
        field = "row" if any(_is_number(cell) for cell in cells) else "header"
        return _text(lines), Damage(kind, field, ", ".join(cells)[:200], "")
    if kind == "unit":
        columns = [c for c, cell in enumerate(cells) if cell.strip('" ') in _UNITS]
    else:
        columns = [c for c, cell in enumerate(cells) if cell.strip('" ')]
    column = rng.choice(columns)
    before, swapped = cells[column], ""
    if kind == "neighbour":
        other = column + 1 if column + 1 < len(cells) else column - 1
        if other < 0:
            return None
        cells[column], cells[other] = cells[other], cells[column]
        swapped = f" <-> {title(other)}"
    elif kind == "string":
        cells[column] = '"text"' if before.startswith('"') else "text"
    else:
        cells[column] = _other_text(before, kind, rng)
    lines[at] = delimiter.join(cells)
    field = title(column)
    if field == "Metric Value" or field == "Metric Unit":
        field = f"{_metric(cells, title)}: {field}"
    return _text(lines), Damage(kind, field + swapped, before, cells[column])


def _is_number(cell: str) -> bool:
    return cell.strip('" \r').replace(".", "").isdigit()


def _metric(cells: Sequence[str], title: Callable[[int], str]) -> str:
    return next((cell.strip('"') for c, cell in enumerate(cells) if title(c) == "Metric Name"), "")


def _title(lines: Sequence[str], at: int, delimiter: str) -> Callable[[int], str]:
    """The title of a column at a line: the cell of the last line above without a number in it. A row
    may have more cells, where a name with commas is not quoted: they are counted from the end."""
    width = len(split(lines[at], delimiter))
    for above in range(at - 1, -1, -1):
        cells = [cell.strip('" \r') for cell in split(lines[above], delimiter)]
        if width > 1 < len(cells) and cells[0] and not any(map(_is_number, cells)):
            shift = max(width - len(cells), 0)
            return lambda column: cells[column - shift] if 0 <= column - shift < len(cells) else ""
    return lambda column: ""


def _text(lines: Sequence[str]) -> bytes:
    return "\n".join(lines).encode("utf-8", "surrogateescape")


def _in_json(data: bytes, kind: str, rng: random.Random) -> Changed:
    document = json.loads(data)
    objects: list[tuple[list[Any], int, str]] = []
    leaves: list[tuple[dict[str, Any], str, str]] = []

    def walk(node: Any, path: str) -> None:
        if isinstance(node, dict):
            for key, value in node.items():
                if isinstance(value, (dict, list)):
                    walk(value, f"{path}.{key}")
                else:
                    leaves.append((node, key, f"{path}.{key}"))
        elif isinstance(node, list):
            for at, value in enumerate(node):
                if isinstance(value, dict):
                    objects.append((node, at, path))
                walk(value, path)

    walk(document, "")
    if kind in ("doubled", "deleted"):
        if not objects:
            return None
        holder, at, path = rng.choice(objects)
        before = json.dumps(holder[at])[:300]
        holder[at : at + 1] = [holder[at], copy.deepcopy(holder[at])] if kind == "doubled" else []
        return json.dumps(document).encode(), Damage(kind, f"{path}[]", before, "")
    node, key, path = rng.choice(leaves)
    value = node[key]
    if kind == "neighbour":
        others = [one for one, held in node.items() if not isinstance(held, (dict, list))]
        other = others[(others.index(key) + 1) % len(others)]
        node[key], node[other] = node[other], node[key]
        path += f" <-> {other}"
    else:
        node[key] = _other(value, kind, rng)
    if node[key] == value:
        return None
    return json.dumps(document).encode(), Damage(kind, path, repr(value), repr(node[key]))


def _in_database(data: bytes, kind: str, rng: random.Random) -> Changed:
    with closing(sqlite3.connect(":memory:")) as database:
        database.deserialize(data)
        names = tables.tables_of(database)
        filled = [one for one in names if database.execute(f'SELECT 1 FROM "{one}"').fetchone()]
        table = rng.choice(filled)
        columns = tables.columns_of(database, table)
        ids = [row[0] for row in database.execute(f'SELECT rowid FROM "{table}"')]
        row, at = rng.choice(ids), rng.randrange(len(columns))
        cells = database.execute(f'SELECT * FROM "{table}" WHERE rowid = ?', (row,)).fetchone()
        column, value = columns[at], cells[at]
        field, changed = f"{table}.{column}", value
        try:
            if kind == "deleted":
                database.execute(f'DELETE FROM "{table}" WHERE rowid = ?', (row,))
                field, value = f"{table}[]", str(cells)[:300]
            elif kind == "doubled":
                keys = {
                    one[1] for one in database.execute(f'PRAGMA table_info("{table}")') if one[5]
                }
                listed = ", ".join(f'"{one}"' for one in columns if one not in keys)
                database.execute(
                    f'INSERT INTO "{table}" ({listed}) SELECT {listed} FROM "{table}" WHERE rowid = {row}'
                )
                field, value = f"{table}[]", str(cells)[:300]
            else:
                pair = {}
                if kind == "neighbour":
                    other = (at + 1) % len(columns)
                    pair = {columns[at]: cells[other], columns[other]: cells[at]}
                    changed = cells[other]
                    field += f" <-> {columns[other]}"
                else:
                    changed = _other(value, kind, rng)
                    pair = {column: changed}
                if changed == value:
                    return None
                sets = ", ".join(f'"{one}" = ?' for one in pair)
                database.execute(
                    f'UPDATE "{table}" SET {sets} WHERE rowid = ?', (*pair.values(), row)
                )
        except (sqlite3.Error, OverflowError):
            return None
        database.commit()
        return database.serialize(), Damage(kind, field, str(value), str(changed))


def _in_message(data: bytes, kind: str, rng: random.Random) -> Changed:
    fields = messages.parsed(data, 0)
    found = _in_fields(fields, kind, rng) if fields else None
    return (messages.written(fields), found) if fields and found else None


def _in_report(data: bytes, kind: str, rng: random.Random) -> Changed:
    damage: list[Damage] = []

    def of(part: bytes) -> bytes:
        fields = messages.parsed(part, 0)
        found = _in_fields(fields, kind, rng) if fields else None
        if not fields or not found:
            return part
        damage.append(found)
        return messages.written(fields)

    changed = reports.changed(data, rng, of)
    return (changed, damage[0]) if damage else None


def _in_fields(fields: list[Any], kind: str, rng: random.Random) -> Damage | None:
    holder, at, path = fields, 0, ""
    deeper: Any = fields
    while isinstance(deeper, list) and deeper:
        holder, at = deeper, rng.randrange(len(deeper))
        path += f".{holder[at][0]}"
        deeper = holder[at][2]
        if kind in ("doubled", "deleted") and rng.random() < 0.2:
            break
    field = holder[at]
    before = str(field[2])[:200]
    if kind in ("doubled", "deleted"):
        holder[at : at + 1] = [field, copy.deepcopy(field)] if kind == "doubled" else []
        return Damage(kind, f"{path}[]", before, "")
    if kind == "neighbour":
        other = holder[(at + 1) % len(holder)]
        if other is field or other[1] != field[1]:
            return None
        field[2], other[2] = other[2], field[2]
    elif field[1] == 0:
        changed = _other(field[2], kind, rng)
        if not isinstance(changed, int):
            del holder[at]
        else:
            field[2] = changed % (1 << 64)
    elif field[1] == 2 and isinstance(field[2], bytes):
        field[2] = b"" if kind == "emptied" else b"text"
    else:
        return None
    return Damage(kind, path, before, str(field[2])[:80])


@cache
def sound_seeds(name: str) -> tuple[Seed, ...]:
    """The seeds, JSON as this writes it: doubles lose the last digits of some times."""
    return tuple(
        Seed({file: _rewritten(data) for file, data in seed.files.items()}, seed.is_folder)
        for seed in seeds(name)
    )


def _rewritten(data: bytes) -> bytes:
    return json.dumps(json.loads(data)).encode() if _of(data) is _in_json else data
