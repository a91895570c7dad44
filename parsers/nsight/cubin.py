"""NVIDIA's GPU code (cubin, ELF64): its functions, and the lines that its instructions come from.

Only sections and symbols are read. A library for ELF would not shorten that: its reader of line
programs does not take these (no ``.debug_info``, relocations of its own kind).
"""

import struct
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from traceroof.parsers.nsight.line_table import LineTable, read_line_table

_MAGIC = b"\x7fELF\x02\x01"
_FUNCTION = 2
_PTX = ".nv_debug_ptx_txt"


@dataclass(frozen=True)
class Section:
    """A section: name, type, place and the two numbers that its type gives a meaning."""

    name: str
    kind: int
    offset: int
    size: int
    link: int
    info: int
    entry: int


@dataclass(frozen=True)
class Symbol:
    """A symbol: its name, what it stands for, its section and its value."""

    name: str
    kind: int
    section: int
    value: int


@dataclass
class Cubin:
    """The code of one module. Raises ValueError where it is none."""

    image: bytes
    sections: list[Section] = field(default_factory=list)
    symbols: list[Symbol] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.image.startswith(_MAGIC):
            raise ValueError("no ELF file of 64 bits")
        try:
            self._read_sections()
            self._read_symbols()
        except (struct.error, IndexError, OverflowError):
            raise ValueError("a damaged ELF file") from None

    def _read_sections(self) -> None:
        (table,) = struct.unpack_from("<Q", self.image, 0x28)
        size, count, names = struct.unpack_from("<HHH", self.image, 0x3A)
        raw = [
            struct.unpack_from("<IIQQQQIIQQ", self.image, table + size * one)
            for one in range(count)
        ]
        strings = raw[names][4] if names < count else len(self.image)
        self.sections = [
            Section(
                _name(self.image, strings + one[0]), one[1], one[4], one[5], one[6], one[7], one[9]
            )
            for one in raw
        ]

    def _read_symbols(self) -> None:
        table = self._named(".symtab")
        if table is None:
            return
        strings = self.sections[table.link].offset
        for name, info, _, section, value, _ in self._entries(table, "<IBBHQQ"):
            self.symbols.append(
                Symbol(_name(self.image, strings + name), info & 15, section, value)
            )

    def _named(self, name: str) -> Section | None:
        return next((one for one in self.sections if one.name == name), None)

    def _bytes(self, section: Section) -> bytes:
        return self.image[section.offset : section.offset + section.size]

    def _entries(self, section: Section, form: str) -> Iterator[tuple[Any, ...]]:
        """The entries of a table that are whole."""
        data, step = self._bytes(section), struct.calcsize(form)
        return struct.iter_unpack(form, data[: len(data) // step * step])

    def function_of(self, section: int) -> str:
        """The function whose code a section holds."""
        return self.sections[section].name.removeprefix(".text.")

    def is_code(self, section: int) -> bool:
        """Whether a section holds a function's code."""
        return 0 < section < len(self.sections) and self.sections[section].name.startswith(".text.")

    def base(self, symbol: int, address: int | None = None) -> tuple[int, int] | None:
        """(section, device address of its start) by a symbol: where it is loaded, or its value
        where the file holds device addresses already."""
        if not 0 <= symbol < len(self.symbols) or not self.is_code(self.symbols[symbol].section):
            return None
        found = self.symbols[symbol]
        start = found.value if address is None else address - found.value
        return found.section, start

    def bases_by_value(self) -> dict[int, int]:
        """Section -> device address, where the values of symbols are addresses (reports of 2020)."""
        found = {}
        for one in self.symbols:
            if (
                one.kind == _FUNCTION
                and self.is_code(one.section)
                and one.name == self.function_of(one.section)
                and one.value > 0xFFFF
            ):
                found[one.section] = one.value
        return found

    @cached_property
    def source(self) -> LineTable:
        """Lines of source files, by the section of the function."""
        return self._lines(".debug_line")

    @cached_property
    def intermediate(self) -> LineTable:
        """Lines of the PTX text, by the section of the function."""
        return self._lines(".nv_debug_line_sass")

    @cached_property
    def ptx(self) -> Mapping[str, list[str]]:
        """PTX text by section name, line by line; lines end with NUL."""
        return {
            one.name: self._bytes(one).decode("utf-8", "replace").split("\0")
            for one in self.sections
            if one.name == _PTX or one.name.startswith(f"{_PTX}.")
        }

    def ptx_line(self, where: tuple[str, int]) -> str | None:
        """The text of a line that ``intermediate`` gave."""
        file, line = where
        text = self.ptx.get(file)
        if text is None and len(self.ptx) == 1:
            text = next(iter(self.ptx.values()))
        found = text[line - 1].strip() if text and 1 <= line <= len(text) else ""
        return found or None

    def _lines(self, name: str) -> LineTable:
        section = self._named(name)
        if section is None:
            return LineTable()
        function_at: dict[int, int] = {}
        for prefix, form in ((".rel", "<QQ"), (".rela", "<QQq")):
            table = self._named(prefix + name)
            if table is None:
                continue
            for entry in self._entries(table, form):
                symbol = entry[1] >> 32
                if symbol < len(self.symbols) and self.is_code(self.symbols[symbol].section):
                    function_at[entry[0]] = self.symbols[symbol].section
        return read_line_table(self._bytes(section), function_at)


@dataclass
class Placed:
    """Where the functions of a module are loaded."""

    ranges: list[tuple[int, int, int]] = field(default_factory=list)

    def add(self, start: int, size: int, section: int) -> None:
        """A function of ``size`` bytes at a device address."""
        self.ranges.append((start, start + size, section))

    @cached_property
    def _ordered(self) -> tuple[list[int], list[tuple[int, int, int]]]:
        ordered = sorted(set(self.ranges))
        return [one[0] for one in ordered], ordered

    def find(self, address: int) -> tuple[int, int] | None:
        """(section, offset in it) of a device address; None outside of the module."""
        starts, ordered = self._ordered
        place = bisect_right(starts, address) - 1
        if place < 0 or address >= ordered[place][1]:
            return None
        return ordered[place][2], address - ordered[place][0]


def _name(image: bytes, at: int) -> str:
    end = image.find(b"\0", at)
    return image[at : end if end >= 0 else at].decode("utf-8", "replace")
