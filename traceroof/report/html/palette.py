"""What the classes look like: seven families, each with a colour, a mark and a pattern.

Colour is never the only sign: a mark's shape tells the family, an open mark a kernel short of its
wall, and the words stand beside it. The colours are those of ``assets/report.css`` in its light
theme, chosen to stay apart for colour-blind readers; the page exchanges them for the dark ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass

#: Name of a CSS variable of the page -> its light colour.
COLORS: Mapping[str, str] = {
    "paper": "#ffffff",
    "ink": "#1b1f24",
    "soft": "#57606a",
    "line": "#d5dae0",
    "memory": "#1f6fb4",
    "compute": "#c5500f",
    "balanced": "#8b5a9e",
    "waiting": "#a67c00",
    "below": "#7a7340",
    "moving": "#10826a",
    "unknown": "#7d858f",
}


@dataclass(frozen=True)
class Family:
    """Classes of one kind: ``name`` is that of a colour, ``pattern`` one of Plotly's for bars."""

    name: str
    title: str
    pattern: str

    @property
    def sign(self) -> str:
        """The pattern as text, for a legend beside the figure."""
        return _SIGNS[self.pattern]


_SIGNS = {"": "■", "/": "▨", "x": "▩", ".": "▦", "+": "⊞", "-": "▤", "|": "▥"}

FAMILIES: tuple[Family, ...] = (
    Family("memory", "memory", ""),
    Family("compute", "compute", "/"),
    Family("balanced", "balanced", "x"),
    Family("waiting", "waiting", "."),
    Family("below", "below roof", "+"),
    Family("moving", "communication and copies", "-"),
    Family("unknown", "not judged", "|"),
)


@dataclass(frozen=True)
class Look:
    """A class: its family, its mark as text, and the same mark as a Plotly symbol."""

    family: str
    mark: str
    symbol: str


LOOKS: Mapping[str, Look] = {
    "dram-bound": Look("memory", "●", "circle"),
    "l2-bound": Look("memory", "●", "circle"),
    "l1-bound": Look("memory", "●", "circle"),
    "memory-bound": Look("memory", "●", "circle"),
    "memory-leaning": Look("memory", "○", "circle-open"),
    "compute-bound": Look("compute", "◆", "diamond"),
    "compute-leaning": Look("compute", "◇", "diamond-open"),
    "balanced": Look("balanced", "■", "square"),
    "latency-bound": Look("waiting", "▲", "triangle-up"),
    "below-roof": Look("below", "▽", "triangle-down-open"),
    "launch-bound": Look("waiting", "△", "triangle-up-open"),
    "communication": Look("moving", "✚", "cross"),
    "copy": Look("moving", "✚", "cross"),
    "not-evaluable": Look("unknown", "✕", "x"),
}

_UNKNOWN = Look("unknown", "✕", "x")


def look(primary_class: str) -> Look:
    """What a class looks like."""
    return LOOKS.get(primary_class, _UNKNOWN)
