"""The output tile that the name of a matrix-product kernel states."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from traceroof.core import regex
from traceroof.core.text_search import Texts

# Tile sizes as libraries write them into names: Tensile's macro tile, xmma, nvjet (tile, then K
# and stages, then cluster), CUTLASS 3 (tile, then cluster), cuBLAS and CUTLASS 2.
_SPELLINGS = tuple(
    regex.compile(pattern)
    for pattern in (
        r"_MT(\d{1,4})x(\d{1,4})x\d",
        r"tilesize(\d{1,4})x(\d{1,4})x\d",
        r"nvjet_(?:sm\d{1,3}_)?[a-z]{1,8}_(\d{1,4})x(\d{1,4})_\d{1,4}x\d",
        r"cutlass3x_\w{1,200}?_(\d{1,4})x(\d{1,4})x\d{1,4}_\dx\dx\d",
        r"gemm_(?:[a-z0-9]{1,8}_){0,4}?(\d{1,3})x(\d{1,3})(?=_|$)",
    )
)


@lru_cache(maxsize=65536)
def tile_of(name: str) -> tuple[int, int] | None:
    """Rows and columns of the tile in the library's own, column-major order; None where the name
    states none.

    A framework's row-major M x N result is the library's N x M: the first size runs along N, the
    second along M (checked against the grids of 120 products in torch.profiler traces).
    """
    for spelling in _SPELLINGS:
        found = spelling.search(name)
        if found and int(found[1]) and int(found[2]):
            return int(found[1]), int(found[2])
    return None


def columns(names: Sequence[str] | Texts) -> dict[str, npt.NDArray[np.float64]]:
    """The columns tile_n and tile_m of kernel groups; NaN where a name states no tile."""
    texts = Texts.of(names)
    some = np.logical_or.reduce([texts.found(spelling) for spelling in _SPELLINGS])
    table = np.full((len(names), 2), np.nan)
    for row in np.flatnonzero(some).tolist():
        table[row] = tile_of(texts[row]) or np.nan
    if np.isnan(table).all():
        return {}
    return {"tile_n": table[:, 0], "tile_m": table[:, 1]}
