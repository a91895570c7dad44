"""Line tables of GPU code: DWARF 2 line programs as NVIDIA's compilers write them.

The operand of ``set_address`` holds no address; a relocation at its place names the function.
``.nv_debug_line_sass`` has the same form and gives lines of the PTX text.
"""

import struct
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from traceroof.core import regex

# One wrong length in a damaged table must not make endless rows.
_MOST_ROWS = 4_000_000
_WINDOWS = regex.compile(r"^/?([A-Za-z]):[\\/]")


@dataclass
class LineTable:
    """Lines of the functions of a module.

    rows: function -> (address, file, line), ascending by address; of rows at one address the last.
    file: its path as written; empty where the table has none.
    """

    rows: dict[int, tuple[list[int], list[tuple[str, int] | None]]] = field(default_factory=dict)

    def at(self, function: int, address: int) -> tuple[str, int] | None:
        """File and line of an address; None where it has none."""
        if function not in self.rows:
            return None
        addresses, lines = self.rows[function]
        place = bisect_right(addresses, address) - 1
        return lines[place] if place >= 0 else None


def read_line_table(data: bytes, function_at: Mapping[int, int]) -> LineTable:
    """Read the units of a section, as far as they can be read.

    function_at: offset in the section -> the function (its symbol) whose address stands there. A
    sequence without one is of a function that the linker dropped.
    """
    found: dict[int, dict[int, tuple[str, int] | None]] = {}
    start, budget = 0, _MOST_ROWS
    while start + 15 <= len(data) and budget > 0:
        (length,) = struct.unpack_from("<I", data, start)
        end = min(start + 4 + length, len(data))
        if length < 11 or length >= 0xFFFFFFF0:
            break
        try:
            for function, address, where in _unit(data, start, end, function_at):
                found.setdefault(function, {})[address] = where
                budget -= 1
                if budget <= 0:
                    break
        except (IndexError, struct.error):
            pass  # A cut unit: its rows so far hold.
        start = end
    table = LineTable()
    for function, rows in found.items():
        ordered = sorted(rows)
        table.rows[function] = (ordered, [rows[address] for address in ordered])
    return table


@dataclass
class _Header:
    unit: int
    default_is_statement: int
    line_base: int
    line_range: int
    operands: bytes
    folders: list[str]
    files: list[str]


def _unit(
    data: bytes, start: int, end: int, function_at: Mapping[int, int]
) -> Iterator[tuple[int, int, tuple[str, int] | None]]:
    """The rows of one unit: function, address, and file with line (None: the sequence ends)."""
    (header_length,) = struct.unpack_from("<I", data, start + 6)
    header = _header(data, start + 10, min(start + 10 + header_length, end))
    at = start + 10 + header_length
    function: int | None = None
    address, file, line = 0, 1, 1
    while at < end:
        code = data[at]
        at += 1
        emits = False
        if code >= len(header.operands) + 1:
            code -= len(header.operands) + 1
            address += code // header.line_range * header.unit
            line += header.line_base + code % header.line_range
            emits = True
        elif code == 0:
            length, at = _uleb(data, at)
            if length and data[at] == 1:
                if function is not None:
                    yield function, address, None
                function, address, file, line = None, 0, 1, 1
            elif length > 1 and data[at] == 2:
                function = function_at.get(at + 1)
                address = 0
            elif length > 1 and data[at] == 3:
                name = _text(data, at + 1)[0]
                header.files.append(name)
            at += max(length, 1) if length else 0
        elif code == 1:
            emits = True
        elif code == 2:
            amount, at = _uleb(data, at)
            address += amount * header.unit
        elif code == 3:
            amount, at = _sleb(data, at)
            line += amount
        elif code == 4:
            file, at = _uleb(data, at)
        elif code == 8:
            address += (255 - len(header.operands) - 1) // header.line_range * header.unit
        elif code == 9:
            address += struct.unpack_from("<H", data, at)[0]
            at += 2
        else:
            for _ in range(header.operands[code - 1]):
                _, at = _uleb(data, at)
        if emits and function is not None:
            name = header.files[file] if 0 <= file < len(header.files) else ""
            yield function, address, (name, line)


def _header(data: bytes, at: int, end: int) -> _Header:
    unit, statement, base, span, opcodes = struct.unpack_from("<BBbBB", data, at)
    at += 5
    operands = data[at : at + max(opcodes - 1, 0)]
    at += len(operands)
    folders = [""]
    while at < end and data[at]:
        name, at = _text(data, at)
        folders.append(name)
    at += 1
    # Files count from 1; 0 is none.
    files = [""]
    while at < end and data[at]:
        name, at = _text(data, at)
        folder, at = _uleb(data, at)
        _, at = _uleb(data, at)  # time of change
        _, at = _uleb(data, at)  # length
        files.append(_path(folders[folder] if folder < len(folders) else "", name))
    return _Header(unit, statement, base, max(span, 1), operands, folders, files)


def _path(folder: str, name: str) -> str:
    """The path of a file; Windows' have doubled backslashes and a '/' before the file name."""
    path = name if not folder or name.startswith("/") else f"{folder}/{name}"
    if _WINDOWS.match(path):
        path = path.lstrip("/").replace("\\\\", "\\").replace("/", "\\")
    return path


def _text(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(b"\0", at) if b"\0" in data[at : at + 65536] else len(data)
    return data[at:end].decode("utf-8", "replace"), end + 1


def _uleb(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise IndexError


def _sleb(data: bytes, at: int) -> tuple[int, int]:
    begin = at
    value, at = _uleb(data, at)
    bits = 7 * (at - begin)
    return (value - (1 << bits) if data[at - 1] & 0x40 else value), at
