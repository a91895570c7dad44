"""Models of attention, forward and backward."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import nan

from traceroof.operators import closed_forms as models
from traceroof.operators.operands import (
    Call,
    Shape,
    Unfit,
)
from traceroof.operators.work import Result, made


@dataclass(frozen=True)
class _Heads:
    """The sizes of an attention call. pairs: scores of a head; NaN where the mask is unknown."""

    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    qk_dim: int
    v_dim: int
    pairs: float

    @property
    def numbers(self) -> tuple[int, int, int, int, int, int, int]:
        """The sizes in the order of ``models.attention``."""
        return (
            self.batch, self.heads, self.kv_heads, self.queries, self.keys, self.qk_dim, self.v_dim,
        )  # fmt: skip

    @property
    def dims(self) -> Mapping[str, int]:
        """The sizes by name, for the card."""
        return {
            "B": self.batch,
            "H": self.heads,
            "KV": self.kv_heads,
            "Sq": self.queries,
            "Skv": self.keys,
            "D": self.qk_dim,
            **({"Dv": self.v_dim} if self.v_dim != self.qk_dim else {}),
        }


def _heads(call: Call) -> _Heads:
    q, k, v = (call[name].shape for name in ("q", "k", "v"))
    if call["block_table"].is_tensor or call["seqused_k"].is_tensor or call["seqlen_k"].is_tensor:
        raise Unfit  # paged or partly filled: the lengths are inside tensors
    if len(q) == 3 and len(k) == len(v) == 3:
        q, k, v = _packed_sequences(call, q, k, v)
    if not len(q) == len(k) == len(v) == 4:
        raise Unfit
    if call.options["layout"] == "bhsd":
        q, k, v = ((b, s, h, d) for b, h, s, d in (q, k, v))
    (batch, queries, heads, qk_dim), (k_batch, keys, kv_heads, k_dim) = q, k
    v_batch, v_keys, v_heads, v_dim = v
    if (k_batch, v_batch, v_keys, v_heads, k_dim) != (batch, batch, keys, kv_heads, qk_dim):
        raise Unfit
    if not kv_heads or heads % kv_heads:
        raise Unfit
    pairs = _pairs(call, queries, keys)
    return _Heads(batch, heads, kv_heads, queries, keys, qk_dim, v_dim, pairs)


def _packed_sequences(call: Call, q: Shape, k: Shape, v: Shape) -> tuple[Shape, Shape, Shape]:
    """Sequences laid end to end, [tokens, heads, dim]. Only sequences of one length, batch x
    longest = tokens, have a known score matrix."""
    bounds_q, bounds_k = call["cum_seq_q"], call["cum_seq_k"]
    longest_q, longest_k = call["max_q"].integer(), call["max_k"].integer()
    if not (bounds_q.is_tensor and bounds_k.is_tensor) or longest_q is None or longest_k is None:
        raise Unfit
    batch = bounds_q.elements - 1
    if batch < 1 or q[0] != batch * longest_q or k[0] != batch * longest_k or v[0] != k[0]:
        raise Unfit
    return (
        (batch, longest_q, *q[1:]),
        (batch, longest_k, *k[1:]),
        (batch, longest_k, *v[1:]),
    )


def _pairs(call: Call, queries: int, keys: int) -> float:
    """Scores of one head that are computed."""
    left, right = call["window_left"].integer(), call["window_right"].integer()
    kind = call["custom_mask_type"].integer()  # 0 none, 1 causal from top left, 2 bottom right
    causal = call["is_causal"].flag() if kind is None else kind in (1, 2)
    if kind not in (None, 0, 1, 2) or call["window"].integer():
        return nan
    if causal is None:
        # The default of is_causal is false, but a call without recorded values says nothing.
        return nan
    if causal:
        right = 0
    bounded = [None if edge is None or edge < 0 else edge for edge in (left, right)]
    if bounded == [None, 0]:
        top_left = kind == 1 or (kind is None and call.options.get("diagonal") == "top-left")
        return models.causal_pairs(queries, keys, top_left=top_left)
    return models.window_pairs(queries, keys, *bounded)


def attention(call: Call) -> Result:
    sizes = _heads(call)
    q, k = call["q"], call["k"]
    cost = models.attention(
        *sizes.numbers,
        size=q.size,
        kv_size=k.size,
        out_size=max(q.size, 2.0),  # FP8 attention writes 16 bit
        pairs=sizes.pairs,
        lse=call.training,
    )
    return made("attention", cost, sizes.dims, dtype=q.dtype, unit="tensor"), None


def attention_backward(call: Call) -> Result:
    sizes = _heads(call)
    q = call["q"]
    cost = models.attention_backward(*sizes.numbers, size=q.size, pairs=sizes.pairs)
    return made("attention backward", cost, sizes.dims, dtype=q.dtype, unit="tensor"), None
