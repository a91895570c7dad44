"""How the tiles of a product divide among the multiprocessors; columns as in ``traceroof.groups``."""

from collections.abc import Mapping

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Threshold, at_most
from traceroof.rules._models import size

#: Columns that the functions below read.
TILED = ("blocks", "sm_count", "tile_m", "tile_n", "model_shape", "warp_size")

_AMD = 64  # wavefront


def exact(k: Facts) -> Mask:
    """Where sizes and tile are known, so that tiles can be counted."""
    return np.asanyarray(~np.isnan(size(k, "M") * size(k, "N") * k.tile_m * k.tile_n))


def tiles(k: Facts) -> Column:
    """Output tiles; blocks of the grid where sizes or tile are unknown. A grid of whole multiples
    shares each tile among several blocks (on NVIDIA; HIP traces may count threads)."""
    counted = _counted(k)
    split = (k.blocks >= 2 * counted) & (k.blocks % counted == 0) & (k.warp_size != _AMD)
    return np.asanyarray(np.where(np.isnan(counted) | split, k.blocks, counted))


def divided(k: Facts) -> Mask:
    """Where the grid shows that several blocks share a tile."""
    return np.asanyarray(~k.meets("whole_tiles"))


def _counted(k: Facts) -> Column:
    batch = np.nan_to_num(size(k, "B"), nan=1.0)
    return np.asanyarray(
        batch * np.ceil(size(k, "M") / k.tile_m) * np.ceil(size(k, "N") / k.tile_n)
    )


#: Threshold of ``divided``.
WHOLE_TILES: Mapping[str, Threshold] = {
    "whole_tiles": at_most(1, measure=tiles, of=_counted, or_unknown=True, told=False),
}


def rounds(k: Facts) -> Column:
    """How often every multiprocessor takes a tile."""
    return np.asanyarray(np.ceil(tiles(k) / k.sm_count))


def wave_efficiency(k: Facts) -> Column:
    """Tiles over what the same number of rounds could hold, 0-1."""
    return np.asanyarray(tiles(k) / (rounds(k) * k.sm_count))


def tile_efficiency(k: Facts) -> Column:
    """Share of the tiles' area that is output, 0-1; NaN where it cannot be counted."""
    rows, columns = size(k, "M"), size(k, "N")
    covered = np.ceil(rows / k.tile_m) * k.tile_m * np.ceil(columns / k.tile_n) * k.tile_n
    return np.asanyarray(rows * columns / covered)
