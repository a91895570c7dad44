"""Tables that a spreadsheet saved in the locale of its machine: groups of digits, decimal commas."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from traceroof.core import regex
from traceroof.core.locales import LOCALE_READ, DecimalSign, vote
from traceroof.core.recording import Note

#: Squashed names of text columns that may hold anything, commas and quotation marks among it.
FREE_TEXT = frozenset({"kernelname", "name", "function"})
# Times in ns, calls and sizes are whole numbers, large ones among them in every table.
_WHOLE = regex.compile(
    r".*(?:begin|end|start|stop|complete|dispatch|duration)ns|.*timestamp|totaldurationns|calls|"
    r"(?:grd|wgr|gridsize|workgroupsize)[xyz]?"
)
_GROUPING = " '\u2019\u00a0\u202f\u2009"
_SEPARATED = rf"^\s*[+-]?\d+(?:[.,{_GROUPING}]\d+)+\s*%?\s*$"
_GROUPED = rf"^\s*[+-]?\d{{1,3}}(?:[,{_GROUPING}]\d{{2,3}})+"
# The first rows tell: a time in ns is never below a thousand for long.
_ROWS = 1000


def in_plain_numbers(
    names: Sequence[str], cells: list[pa.ChunkedArray], notes: list[Note]
) -> list[pa.ChunkedArray]:
    """The columns with their numbers as a program writes them: no groups, "." before decimals.

    names: squashed. One locale is decided for the table from its whole numbers; a table that needs
    nothing is given back as it is.
    """
    separated = {
        at: [one for one in column.slice(0, _ROWS).to_pylist() if one]
        for at, column in enumerate(cells)
        if pc.any(pc.match_substring_regex(column.slice(0, _ROWS), _SEPARATED)).as_py()
    }
    if not separated:
        return cells
    whole = {at for at in separated if _WHOLE.fullmatch(names[at])}

    def votes() -> Iterator[tuple[str, bool, bool]]:
        for at, found in separated.items():
            for one in found:
                # An address or a version has several points, too.
                if ("." in one or "," in one) and (at in whole or one.count(".") < 2):
                    yield one, False, at in whole

    sign = vote(votes(), spreadsheet=False).sign
    grouped = any(
        pc.any(pc.match_substring_regex(cells[at].slice(0, _ROWS), _GROUPED)).as_py()
        for at in whole
    )
    if sign is not DecimalSign.COMMA and not grouped:
        return cells
    if sign is DecimalSign.COMMA:
        notes.append(Note(LOCALE_READ, severe=False))
    return [_plain(column, sign) if at in separated else column for at, column in enumerate(cells)]


def _plain(column: pa.ChunkedArray, sign: DecimalSign) -> pa.ChunkedArray:
    groups = f"[{_GROUPING}{'.' if sign is DecimalSign.COMMA else ','}]"
    plain = pc.replace_substring_regex(column, rf"(\d){groups}", r"\1")
    if sign is DecimalSign.COMMA:
        plain = pc.replace_substring(plain, ",", ".", max_replacements=1)
    number = pc.match_substring_regex(column, _SEPARATED)
    return pc.if_else(number, plain, column)
