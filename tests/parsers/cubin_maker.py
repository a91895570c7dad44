"""Modules of GPU code made in code: an ELF file with functions, line tables and PTX text."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

#: From a function's start: (bytes, line), ascending; each stands until the next.
Rows = Sequence[tuple[int, int]]

SLOT = 16  # bytes of an instruction


@dataclass(frozen=True)
class Function:
    """A function: its name, its number of instructions, its lines and those of its PTX text. value:
    of its symbol, which in reports of 2020 is the address that it is loaded to."""

    name: str
    slots: int
    lines: Rows = ()
    ptx_lines: Rows = ()
    value: int = 0


def program(rows: Rows, end: int) -> bytes:
    """A line program: one sequence, whose address a relocation gives."""
    made, address, line = b"\x00\x09\x02" + bytes(8), 0, 1
    for at, number in rows:
        step = number - line
        made += b"\x02" + bytes([at - address]) + b"\x03" + _sleb(step) + b"\x01"
        address, line = at, number
    return made + b"\x02" + bytes([end - address]) + b"\x00\x01\x01"


def _sleb(value: int) -> bytes:
    return bytes([value & 0x7F | 0x80, (value >> 7) & 0x7F])


def unit(file: str, programs: Sequence[bytes]) -> tuple[bytes, list[int]]:
    """A unit of DWARF 2 with one file, and where the operands of its sequences stand."""
    head = bytes([1, 1, 0xFB, 14, 10, 0, 1, 1, 1, 1, 0, 0, 0, 1])
    folder, _, name = file.rpartition("/")
    files = (folder.encode() + b"\0\0" if folder else b"\0") + (
        name.encode() + b"\0" + bytes([1 if folder else 0]) + b"\0\0\0" if name else b"\0"
    )
    body = struct.pack("<HI", 2, len(head) + len(files)) + head + files
    places = []
    for one in programs:
        places.append(4 + len(body) + 3)
        body += one
    return struct.pack("<I", len(body)) + body, places


def cubin(functions: Sequence[Function], file: str = "/src/f.cu", ptx: Sequence[str] = ()) -> bytes:
    """The image of a module."""
    sections: list[tuple[str, int, bytes, int, int]] = [("", 0, b"", 0, 0)]
    symbols, names = [bytes(24)], b"\0"
    for number, one in enumerate(functions, 1):
        sections.append((f".text.{one.name}", 1, bytes(SLOT * one.slots), 0, 0))
        symbols.append(struct.pack("<IBBHQQ", len(names), 2, 0, number, one.value, 0))
        names += one.name.encode() + b"\0"
    symtab = len(sections)
    sections.append((".symtab", 2, b"".join(symbols), symtab + 1, 0))
    sections.append((".strtab", 3, names, 0, 0))
    for section, rows_of, source in (
        (".debug_line", [one.lines for one in functions], file),
        (".nv_debug_line_sass", [one.ptx_lines for one in functions], ""),
    ):
        known = [(at, rows) for at, rows in enumerate(rows_of) if rows]
        if not known:
            continue
        ends = [SLOT * functions[at].slots for at, _ in known]
        data, places = unit(
            source, [program(rows, end) for (_, rows), end in zip(known, ends, strict=True)]
        )
        table = len(sections)
        sections.append((section, 1, data, 0, 0))
        entries = [
            struct.pack("<QQ", place, (at + 1) << 32 | 2)
            for place, (at, _) in zip(places, known, strict=True)
        ]
        sections.append((f".rel{section}", 9, b"".join(entries), symtab, table))
    if ptx:
        sections.append((".nv_debug_ptx_txt", 1, "\0".join(ptx).encode() + b"\0", 0, 0))
    return _elf(sections)


def _elf(sections: list[tuple[str, int, bytes, int, int]]) -> bytes:
    names = b""
    at_name = []
    for name, *_ in [*sections, (".shstrtab",)]:
        at_name.append(len(names))
        names += str(name).encode() + b"\0"
    every = [*sections, (".shstrtab", 3, names, 0, 0)]
    body, headers = b"", []
    for (_, kind, data, link, info), name in zip(every, at_name, strict=True):
        headers.append(struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, 64 + len(body), len(data), link, info, 1, 0))  # fmt: skip
        body += data
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack(
        "<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, 64 + len(body), 0, 64, 0, 0, 64, len(every), len(every) - 1
    )  # fmt: skip
    return head + body + b"".join(headers)
