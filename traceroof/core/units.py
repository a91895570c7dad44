"""Numbers for people: three significant digits, the unit that reads best, never a bare figure."""

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache
from string import Formatter
from typing import Any

from traceroof.core import regex

# unit of a column -> steps (factor, suffix), largest first. Prefixes are decimal, as Nsight
# Compute prints them.
_SCALES: Mapping[str, Sequence[tuple[float, str]]] = {
    "ns": ((1e9, " s"), (1e6, " ms"), (1e3, " µs"), (1.0, " ns")),
    "byte": ((1e12, " TB"), (1e9, " GB"), (1e6, " MB"), (1e3, " kB"), (1.0, " B")),
    "byte/s": ((1e12, " TB/s"), (1e9, " GB/s"), (1e6, " MB/s"), (1e3, " kB/s"), (1.0, " B/s")),
    "FLOP": ((1e12, " TFLOP"), (1e9, " GFLOP"), (1e6, " MFLOP"), (1e3, " kFLOP"), (1.0, " FLOP")),
    "FLOP/s": ((1e12, " TFLOP/s"), (1e9, " GFLOP/s"), (1e6, " MFLOP/s"), (1.0, " FLOP/s")),
    "Hz": ((1e9, " GHz"), (1e6, " MHz"), (1e3, " kHz"), (1.0, " Hz")),
}


def quantity(value: float | str | None, unit: str = "") -> str:
    """A value with its unit: ``quantity(21_058_944, 'ns')`` is '21.1 ms', None is 'unknown'."""
    if value is None:
        return "unknown"
    if isinstance(value, str):
        return value
    if unit == "%":
        return f"{digits(value)} %"
    for factor, suffix in _SCALES.get(unit, ()):
        # The last step also takes what is smaller than it.
        if abs(value) >= factor * 0.9995 or factor == 1.0:
            return digits(value / factor) + suffix
    return digits(value) if unit in ("", "launch") else f"{digits(value)} {unit}"


def digits(value: float) -> str:
    """Three significant digits, whole above 100, no exponent for what people count."""
    if not math.isfinite(value):
        return "unknown"
    size = abs(value)
    if value == int(value) and size < 1e15:
        return f"{int(value):,}"
    if size >= 99.95:
        return f"{value:,.0f}"
    if size >= 9.995:
        return f"{value:.1f}"
    if size >= 0.9995:
        return f"{value:.2f}"
    return f"{value:.3g}"


def count(number: int, one: str, many: str = "") -> str:
    """'1 launch', '2 launches': the word in the form that the number asks for."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def percent(share: float | None) -> str:
    """A share (0-1) in percent with one decimal: shares are compared, so they line up."""
    if share is None or math.isnan(share):
        return "unknown"
    if 0 < share < 0.0005:
        return "<0.1 %"
    return f"{share * 100:.1f} %"


def one_line(text: str) -> str:
    """Text as one line without commands: what is not printable (escape sequences, ends of lines,
    marks that turn the direction of writing) as escapes, other blanks as blanks. So a name is
    recognised and reaches no terminal as a command."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else _escape(letter) for letter in text)


def _escape(letter: str) -> str:
    blank = unicodedata.category(letter) == "Zs"
    return " " if blank else letter.encode("unicode_escape").decode()


def no_commands(text: str) -> str:
    """Lines of which a CI runner takes none for its commands: ``::error::`` where a line begins, and
    ``##[error]`` or ``##vso[...]`` anywhere."""
    return _RUNNER_MARK.sub("# #", _RUNNER_LINE.sub(r"\1: :", text))


_RUNNER_LINE = regex.compile(r"^((?:[^\S\n]|\x1b\[[\d;]*m)*)::", re.MULTILINE)  # also in colour
_RUNNER_MARK = regex.compile(r"##(?=\[|vso\[|teamcity\[)")


# What rules count, for the number one: "1 launches" is nobody's English.
_SINGULAR: Mapping[str, str] = {
    many: one
    for one, many in (
        ("launch", "launches"), ("copy", "copies"), ("time", "times"), ("call", "calls"),
        ("kernel", "kernels"), ("block", "blocks"), ("wave", "waves"), ("gap", "gaps"),
        ("step", "steps"), ("chain", "chains"), ("change", "changes"), ("workgroup", "workgroups"),
        ("event", "events"), ("rank", "ranks"), ("stream", "streams"), ("wait", "waits"),
    )
}  # fmt: skip
# Not the end of a larger number (21, 0.1), and not a factor ("1 times the launches").
_ONE = regex.compile(rf"(?<![\w.,])1 ({'|'.join(_SINGULAR)})\b(?! (?:the|as)\b)")


# The format of a figure that is worth telling where it is not zero.
_SOME = "some"


class Sentence:
    """Fills ``{column}`` with the value and its unit, ``{column:.0f}`` with the plain number.

    A clause in square brackets is left out where a column in it is unknown:
    ``"{waves} waves[: {blocks} blocks for {sm_count} multiprocessors]"``. With ``{column:some}``
    it is left out at zero as well: that nothing of a kind was found is no evidence.
    """

    def __init__(self, units: Mapping[str, str]) -> None:
        self._units = units

    def fill(self, template: str, values: Mapping[str, Any]) -> str:
        """The template with the values in it."""
        said: list[str] = []
        for is_clause, parts in _parts(template):
            if is_clause and not all(
                _tells(values.get(name), spec) for _, name, spec in parts if name
            ):
                continue
            for text, name, spec in parts:
                said.append(text)
                if name:
                    said.append(self._figure(name, values[name], spec))
        text = "".join(said).rstrip(" ;,")
        if "1 " not in text:
            return text
        return _ONE.sub(lambda found: f"1 {_SINGULAR[found.group(1)]}", text)

    def _figure(self, name: str, number: Any, spec: str) -> str:
        if number is None or spec in ("", _SOME) or isinstance(number, str):
            return quantity(number, self._units.get(name, ""))
        # "69 %" as everywhere, where Python would write "69%".
        return format(number, spec).replace("%", " %")


#: Text, the column whose figure follows it ("" for none), and the format of the figure.
_Part = tuple[str, str, str]


@lru_cache(maxsize=1024)
def _parts(template: str) -> tuple[tuple[bool, tuple[_Part, ...]], ...]:
    """A template in pieces, every other one a clause."""
    pieces = re.split(r"\[([^\[\]]*)\]", template)
    return tuple(
        (
            bool(at % 2),
            tuple((text, name or "", spec or "") for text, name, spec, _ in Formatter().parse(one)),
        )
        for at, one in enumerate(pieces)
    )


def _tells(value: Any, spec: str) -> bool:
    return value is not None and (spec != _SOME or value != 0)
