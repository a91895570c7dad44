"""Closed forms that no rule needs: what articles and references state and tests hold us against.

Conventions as in ``traceroof.operators.closed_forms``.
"""

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

from traceroof.operators.closed_forms import OPTIMIZERS, Cost

#: Bytes on the link per byte of payload for n ranks, ring algorithms: 2(n-1)/n and (n-1)/n.
_TRAVERSALS = {
    "allreduce": 2,
    "all_reduce": 2,
    "allgather": 1,
    "all_gather": 1,
    "_allgather_base": 1,
    "reduce_scatter": 1,
    "_reduce_scatter_base": 1,
    "alltoall": 1,
    "all_to_all": 1,
    "alltoallv": 1,
    "all_to_allv": 1,
}


def grouped_gemm(
    rows: Sequence[int], n: int, k: int, *, a_size: float, b_size: float, out_size: float
) -> Cost:
    """One GEMM an expert: ``rows[e]`` rows against its own K x N weight; experts hit by none
    are not read."""
    total = sum(rows)
    hit = sum(1 for count in rows if count)
    moved = a_size * k * total + b_size * k * n * hit + out_size * n * total
    return Cost(2 * k * n * total, moved)


def quantised_size(bits: int, group: int = 0, scale_size: float = 2, zero_bits: int = 0) -> float:
    """Bytes of a weight element with one scale (and zero point) for every ``group`` elements."""
    overhead = (scale_size + zero_bits / 8) / group if group else 0.0
    return bits / 8 + overhead


def latent_decode(
    batch: int, heads: int, keys: int, latent: int, rope: int, *, size: float
) -> Cost:
    """One decoding step of multi-head latent attention with absorbed projections."""
    flops = 2 * batch * heads * keys * (2 * latent + rope)
    moved = size * batch * (keys * (latent + rope) + heads * (2 * latent + rope))
    return Cost(flops, moved)


def kv_cache_bytes(layers: int, kv_heads: int, dim: int, tokens: int, size: float) -> float:
    """Keys and values of ``tokens`` tokens over all layers. Bytes."""
    return 2 * layers * kv_heads * dim * tokens * size


def exponentials(batch: int, heads: int, pairs: int) -> int:
    """Exponentials that attention computes: one a score kept."""
    return batch * heads * pairs


def optimizer_step(parameters: int, kind: str) -> Cost:
    """One step of an optimizer of OPTIMIZERS."""
    rule = OPTIMIZERS[kind]
    return Cost(rule.flops * parameters, rule.bytes * parameters)


def wire_factor(collective: str, ranks: int) -> float | None:
    """Bytes a rank puts on its link per byte of the whole message; None for a collective without
    a model. For gather and scatter the message is the gathered (unscattered) tensor."""
    passes = _TRAVERSALS.get(collective.lower())
    if passes is None or ranks < 1:
        return None
    return passes * (ranks - 1) / ranks


def rows_at_ridge(
    ridge: float, n: int, k: int, *, activation_size: float, weight_size: float
) -> float | None:
    """Rows M at which a weight GEMM reaches the ridge; None where it never does.

    Solves 2MNK / (b_w NK + b_a M(N + K)) = ridge.
    """
    denominator = 2 * n * k - ridge * activation_size * (n + k)
    return ridge * weight_size * n * k / denominator if denominator > 0 else None


def tile_intensity(tile_m: int, tile_n: int, size: float) -> float:
    """FLOP per byte of one output tile: operands streamed once, the tile kept on chip."""
    return tile_m * tile_n * 2 / (size * (tile_m + tile_n))


class Waves(NamedTuple):
    """How a grid of tiles fills the machine. efficiency: share of the block slots in use;
    tile_efficiency: share of the tiles' area that is output."""

    tiles: int
    waves: float
    rounds: int
    efficiency: float
    tile_efficiency: float


def waves(m: int, n: int, tile_m: int, tile_n: int, slots: int) -> Waves:
    """Tiles of an M x N output over ``slots`` blocks that run at once."""
    tiles = ceil(m / tile_m) * ceil(n / tile_n)
    rounds = ceil(tiles / slots)
    return Waves(
        tiles=tiles,
        waves=tiles / slots,
        rounds=rounds,
        efficiency=tiles / (rounds * slots),
        tile_efficiency=m * n / (tiles * tile_m * tile_n),
    )


def time_per_token_floor(
    parameters: float, weight_size: float, bandwidth: float, kv_bytes: float = 0
) -> float:
    """Seconds a decoding step takes at least: every weight and the cache read once at
    ``bandwidth`` byte/s."""
    return (parameters * weight_size + kv_bytes) / bandwidth


def padding_waste(lengths: Sequence[int], longest: int) -> tuple[float, float]:
    """Share of linear-layer and of attention work spent on padding to ``longest``."""
    count = len(lengths)
    linear = 1 - sum(lengths) / (count * longest)
    quadratic = 1 - sum(length * length for length in lengths) / (count * longest * longest)
    return linear, quadratic
