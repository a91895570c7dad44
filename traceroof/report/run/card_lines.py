"""Lines and sections of an operator card."""

from dataclasses import dataclass, replace

from traceroof.hardware.vendor_terms import AMD as AMD_WORDS
from traceroof.hardware.vendor_terms import said


@dataclass(frozen=True)
class Line:
    """One line of a card. bar: percent, where the line is a share that can be drawn."""

    label: str
    text: str
    bar: float | None = None


@dataclass(frozen=True)
class Section:
    """Some lines of a card that belong together; ``key`` names them for a renderer. command: what
    collects what is missing."""

    key: str
    title: str
    lines: tuple[Line, ...]
    command: str | None = None


def in_amd_words(section: Section) -> Section:
    """A section in AMD's words, where the text is the card's own."""
    own = section.key in ("class", "uses", "occupancy")
    lines = tuple(
        Line(said(one.label, AMD_WORDS), said(one.text, AMD_WORDS) if own else one.text, one.bar)
        for one in section.lines
    )
    return replace(section, title=said(section.title, AMD_WORDS), lines=lines)
