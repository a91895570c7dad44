"""A picture of all ranks and steps: one cell each, darker the longer the rank itself took."""

import base64
import struct
import zlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from traceroof.core.units import count, percent
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.report.html.palette import COLORS
from traceroof.timeline import Timeline

# So many ranks side by side are read better as a picture than as bars.
_FEWEST = 8
# From this share above the median of its step on a cell is as dark as can be.
_FULL = 0.3
_SHADES = 64
# A cell is drawn as large as fits, in pixels.
_WIDTH, _HEIGHT, _LARGEST = 720, 480, 24
# Beyond this many the steps in between are left out.
_MOST_STEPS = 1_000


@dataclass(frozen=True)
class RankMap:
    """A picture as a data URL, how large it is shown, and what it shows in words."""

    picture: str
    width: int
    height: int
    summary: str
    caption: str


def rank_map(diagnosis: Diagnosis) -> RankMap | None:
    """Ranks (rows) by steps (columns); None for few ranks, and where no steps are known."""
    lines = {one.rank: one for one in diagnosis.timelines if one.rank is not None and one.steps}
    if len(lines) < _FEWEST:
        return None
    ranks = sorted(lines)
    steps = _steps(list(lines.values()))
    own = np.full((len(ranks), len(steps)), np.nan)
    place = {name: at for at, name in enumerate(steps)}
    for row, rank in enumerate(ranks):
        for step in lines[rank].steps:
            if step.name in place:
                own[row, place[step.name]] = step.span_ns - step.exposed_communication_ns
    usual = np.nanmedian(own, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        over = own / usual - 1
    cell = max(1, min(_LARGEST, _HEIGHT // len(ranks)))
    wide = max(1, min(2 * _LARGEST, _WIDTH // len(steps)))
    row, column = divmod(int(np.nanargmax(over)), over.shape[1])
    return RankMap(
        picture=_data_url(_shades(over)),
        width=wide * len(steps),
        height=cell * len(ranks),
        summary=f"{count(len(ranks), 'rank')} by {count(len(steps), 'step')}; rank {ranks[row]} in "
        f"{steps[column]} is the furthest above the median, by {percent(float(over[row, column]))}.",
        caption=f"Ranks from {ranks[0]} (top) to {ranks[-1]}, steps from {steps[0]} (left) to "
        f"{steps[-1]}. Time outside exposed communication against the median of the step: white at "
        f"the median or below, full colour from {percent(_FULL)} above it on, grey where the rank has "
        "no such step.",
    )


def _steps(lines: list[Timeline]) -> list[str]:
    """The names of all steps in the order of the rank that has most."""
    longest = max(lines, key=lambda one: len(one.steps))
    names = dict.fromkeys(step.name for step in longest.steps)
    for one in lines:
        names.update(dict.fromkeys(step.name for step in one.steps))
    listed = list(names)
    return listed[:: -(-len(listed) // _MOST_STEPS)]


def _shades(over: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8]:
    """The place of each cell in the palette; the last one is for what is unknown."""
    level = np.clip(np.nan_to_num(over) / _FULL, 0, 1) * (_SHADES - 1)
    shade = np.where(np.isnan(over), _SHADES, np.round(level))
    return np.asarray(shade, dtype=np.uint8)


def _data_url(shades: npt.NDArray[np.uint8]) -> str:
    """A PNG with a palette, one byte a cell before it is packed."""
    height, width = shades.shape
    paper, full, unknown = (_rgb(COLORS[name]) for name in ("paper", "compute", "line"))
    steps = np.linspace(0, 1, _SHADES)[:, None]
    palette = np.concatenate([np.round(paper + (full - paper) * steps), unknown[None]])
    lines = np.concatenate([np.zeros((height, 1), dtype=np.uint8), shades], axis=1)
    png = b"\x89PNG\r\n\x1a\n" + b"".join(
        _chunk(kind, content)
        for kind, content in (
            (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            (b"PLTE", palette.astype(np.uint8).tobytes()),
            (b"IDAT", zlib.compress(lines.tobytes(), 9)),
            (b"IEND", b""),
        )
    )
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def _chunk(kind: bytes, content: bytes) -> bytes:
    return (
        struct.pack(">I", len(content))
        + kind
        + content
        + struct.pack(">I", zlib.crc32(kind + content))
    )


def _rgb(color: str) -> npt.NDArray[np.float64]:
    return np.array([int(color[at : at + 2], 16) for at in (1, 3, 5)], dtype=np.float64)
