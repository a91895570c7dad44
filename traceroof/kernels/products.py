"""Operations of hand-written matrix products, by what their threads load.

Selections of metrics seldom hold operation counts. A product gives them away: without a tile in
shared memory a thread loads two values per multiply-add, one operation per value; with tiles, each
value that a block loads is used once for every row or column of the block's tile.
"""

import numpy as np
import numpy.typing as npt

from traceroof.kernels.derived import Derived, Reals, See, first_known, seconds

Mask = npt.NDArray[np.bool_]

_WORD = 4.0  # bytes of an FP32 value
_WORDS_PER_SECTOR = 8
_WIDEST = 4  # words of the widest access


def _concerned(see: See) -> Mask:
    """FP32 products whose operations nobody counted."""
    plain = (see.text("category") == "gemm") & (see.text("operand_dtype") == "fp32")
    return np.asarray(plain & np.isnan(see("flops")) & ~(see("name_no_matrix") == 1))


def _outputs(see: See) -> Reals:
    return np.fmin(see("global_store_sectors") * _WORDS_PER_SECTOR, _stored(see))


def _shares(see: See) -> Mask:
    """Whether threads load their operands themselves: a row or column that they share comes as one
    word for many of them."""
    return np.asarray(see("load_sectors_per_request") < _WORD)


def _per_thread(see: See) -> Reals:
    """Results of a thread, each of which uses every value that it loads."""
    return np.fmax(_outputs(see) / (see("blocks") * see("threads_per_block")), 1.0)


def _product_flops(see: See) -> Reals:
    # Of a square tile; of any other fewer operations per value, so the estimate is high.
    tile = np.sqrt(_outputs(see) / see("blocks"))
    by_thread = see("global_load_requests") * see("warp_size") * _per_thread(see)
    by_tile = see("global_load_sectors") * _WORDS_PER_SECTOR * tile
    flops = np.where(_shares(see), by_thread, by_tile)
    return np.where(_concerned(see) & (flops > 0), flops, np.nan)


def _stored(see: See) -> Reals:
    """Most words that the stores can write: strided ones use a part of their sectors. A thread
    stores as many words at a time as it loads."""
    width = np.clip(see("load_sectors_per_request") / _WORD, 1, _WIDEST)
    return np.asarray(see("global_store_requests") * see("warp_size") * width)


def _flops_per_load(see: See) -> Reals:
    """Operations per word that a thread loads from L1 or shared memory: counted, where a wide load
    counts as one word, so that it is never too low; else the results of a thread that loads its
    operands itself."""
    words = see("warp_size") * (see("global_load_requests") + np.nan_to_num(see("shared_requests")))
    moved = (see("l1_bytes") + np.nan_to_num(see("shared_bytes"))) / _WORD
    loaded = first_known(words, moved)
    counted = np.where(loaded > 0, see("flops") / loaded, np.nan)
    return first_known(counted, np.where(_concerned(see) & _shares(see), _per_thread(see), np.nan))


def _product_use_pct(see: See) -> Reals:
    # The multiply-add pipe also does index arithmetic, so counted operations come first.
    return first_known(see("flop_pct"), see("product_flop_pct"), see("pipe_fma_pct"))


_LOADS = (
    "category", "operand_dtype", "flops", "name_no_matrix", "global_store_sectors",
    "global_store_requests", "blocks", "threads_per_block", "load_sectors_per_request",
    "global_load_requests", "warp_size",
)  # fmt: skip

TABLE: tuple[Derived, ...] = (
    Derived("product_flops", (*_LOADS, "global_load_sectors"), _product_flops,
            "FLOP", "operations of a product by what its threads load, where none were counted"),
    Derived("product_flop_pct", ("product_flops", "duration_ns"),
            lambda see: 100 * (see("product_flops") / seconds(see)) / see.device("peak_fp32"),
            "%", "product_flops over time and FP32 peak", "peak FLOP rate"),
    Derived("flops_per_load",
            (*_LOADS, "shared_requests", "l1_bytes", "shared_bytes"),
            _flops_per_load,
            "FLOP", "operations per word that threads load from L1 or shared memory: counted, else "
            "by what a product's threads load themselves"),
    Derived("product_use_pct", ("flop_pct", "product_flop_pct", "pipe_fma_pct"), _product_use_pct,
            "%", "use of the arithmetic: flop_pct, else product_flop_pct, else of the FMA pipe",
            "peak FLOP rate"),
)  # fmt: skip
