"""Operations of hand-written matrix products, by what their threads load.

Selections of metrics seldom hold operation counts. A product gives them away: without a tile in
shared memory a thread loads two values per multiply-add, one operation per value; with tiles, each
value that a block loads is used once for every row or column of the block's tile.
Adds to the columns of a group what ``groups.GROUP_COLUMNS`` lists under the same names.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]

_WORD = 4.0  # bytes of an FP32 value
_WORDS_PER_SECTOR = 8


def derive(
    columns: dict[str, npt.NDArray[Any]], count: int, of_device: Callable[[str], Reals]
) -> None:
    """Add the columns of ``count`` groups; of FP32 products whose operations nobody counted."""
    missing = np.full(count, np.nan)

    def get(name: str) -> Reals:
        return np.asarray(columns.get(name, missing), dtype=np.float64)

    nothing = np.full(count, None, dtype=object)
    category, dtype = columns.get("category", nothing), columns.get("operand_dtype", nothing)
    concerned = (category == "gemm") & (dtype == "fp32")
    concerned &= np.isnan(get("flops")) & ~(get("name_no_matrix") == 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        outputs = get("global_store_sectors") * _WORDS_PER_SECTOR
        # Of a square tile; of any other fewer operations per value, so the estimate is high.
        tile = np.sqrt(outputs / get("blocks"))
        per_thread = outputs / (get("blocks") * get("threads_per_block"))
        # A row or column that threads share comes as one word for many of them.
        shares = get("load_sectors_per_request") < _WORD
        by_thread = get("global_load_requests") * get("warp_size") * np.fmax(per_thread, 1.0)
        by_tile = get("global_load_sectors") * _WORDS_PER_SECTOR * tile
        flops = np.where(shares, by_thread, by_tile)
        columns["product_flops"] = np.where(concerned & (flops > 0), flops, np.nan)
        seconds = np.where(get("duration_ns") > 0, get("duration_ns") / 1e9, np.nan)
        rate = columns["product_flops"] / seconds
        columns["product_flop_pct"] = 100 * rate / of_device("peak_fp32")
