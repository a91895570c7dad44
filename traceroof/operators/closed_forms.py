"""How much work an operation is: FLOPs and compulsory bytes in closed form.

Conventions, the same everywhere (docs/operators.md says why and where other tools differ):

- a multiply-accumulate is 2 FLOPs, a transcendental function 1;
- every tensor is read once and written once; caches, splits and recomputation are ignored;
- bytes are therefore a lower bound: no kernel that keeps the interface can move fewer;
- index tensors count with their own width; statistics (log-sum-exp, mean, reciprocal deviation)
  only in training;
- causal attention counts the exact share of the score matrix, not one half.

Element sizes are in bytes and may be fractions (0.5 for 4-bit weights). Everything here is
arithmetic on numbers; ``operands.py`` finds the numbers in an operator's input shapes.
"""

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

# Convention per element, simple counting (transcendental = 1):
LAYER_NORM_FLOPS = 8  # mean 1, variance 3, normalise 2, scale and shift 2
RMS_NORM_FLOPS = 4  # square 1, sum 1, scale 2
BATCH_NORM_FLOPS = 8
SOFTMAX_FLOPS = 5  # max, subtract, exp, sum, divide
SOFTMAX_BACKWARD_FLOPS = 4  # multiply, sum, subtract, multiply
CROSS_ENTROPY_FLOPS = 5
NORM_BACKWARD_FACTOR = 2  # backward of a norm is about twice its forward
RESIDUAL_ADD_FLOPS = 1
GELU_FLOPS = 8
SILU_FLOPS = 4
SWIGLU_FLOPS = 5
ROPE_FLOPS = 3  # 6 per rotated pair
ADAM_FLOPS = 12
SGD_FLOPS = 2
MOMENTUM_FLOPS = 4


class Cost(NamedTuple):
    """What an operation is at least: arithmetic in FLOP, memory traffic in byte."""

    flops: float
    bytes: float

    @property
    def intensity(self) -> float:
        """FLOP per byte."""
        return self.flops / self.bytes


class Optimizer(NamedTuple):
    """Bytes an optimizer reads and writes per parameter, and its FLOPs per parameter."""

    read: float
    written: float
    flops: float

    @property
    def bytes(self) -> float:
        return self.read + self.written


#: Optimizer steps by element types: gradient and model copy / master weight and states.
OPTIMIZERS: dict[str, Optimizer] = {
    # reads g2 w4 m4 v4, writes w4 m4 v4 and the 16-bit copy 2
    "adam 16-bit model, fp32 states": Optimizer(14, 14, ADAM_FLOPS),
    # reads w4 g4 m4 v4, writes w4 m4 v4
    "adam fp32": Optimizer(16, 12, ADAM_FLOPS),
    # reads w2 g2 m2 v2, writes w2 m2 v2
    "adam 16-bit": Optimizer(8, 6, ADAM_FLOPS),
    # reads w4 g4, writes w4
    "sgd fp32": Optimizer(8, 4, SGD_FLOPS),
    # reads w4 g4 m4, writes w4 m4
    "sgd momentum fp32": Optimizer(12, 8, MOMENTUM_FLOPS),
}


def gemm(
    m: int,
    n: int,
    k: int,
    *,
    a_size: float,
    b_size: float,
    out_size: float,
    batch: int = 1,
    a_batch: int | None = None,
    b_batch: int | None = None,
    bias: int = 0,
    reads_c: bool = False,
    activations: int = 0,
) -> Cost:
    """``batch`` products of M x K by K x N.

    a_size, b_size, out_size: bytes of an element. a_batch, b_batch: copies of an operand that
    exist, where it is broadcast over the batch. bias: elements of an added bias (N, or M x N).
    reads_c: the output is also an input. activations: fused functions of one FLOP per output.
    """
    outputs = batch * m * n
    flops = outputs * (2 * k + (1 if bias else 0) + activations)
    moved = (
        a_size * (batch if a_batch is None else a_batch) * m * k
        + b_size * (batch if b_batch is None else b_batch) * k * n
        + out_size * outputs * (2 if reads_c else 1)
        + out_size * bias
    )
    return Cost(flops, moved)


def convolution_outputs(
    inputs: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> tuple[int, ...]:
    """Spatial size of a convolution's output: floor((H + 2p - d(R - 1) - 1) / s) + 1 per axis."""
    return tuple(
        (size + 2 * pad - dilate * (width - 1) - 1) // step + 1
        for size, width, step, pad, dilate in zip(
            inputs, kernel, stride, padding, dilation, strict=True
        )
    )


def inputs_touched(
    inputs: Sequence[int], outputs: Sequence[int], kernel: Sequence[int]
) -> tuple[int, ...]:
    """Input positions per axis that any output needs: a stride wider than the kernel skips some."""
    return tuple(
        min(size, out * width) for size, out, width in zip(inputs, outputs, kernel, strict=True)
    )


def transposed_outputs(
    inputs: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    output_padding: Sequence[int],
) -> tuple[int, ...]:
    """Spatial size of a transposed convolution's output per axis."""
    return tuple(
        (size - 1) * step - 2 * pad + dilate * (width - 1) + extra + 1
        for size, width, step, pad, dilate, extra in zip(
            inputs, kernel, stride, padding, dilation, output_padding, strict=True
        )
    )


def convolution(
    batch: int,
    channels: int,
    filters: int,
    inputs: Sequence[int],
    outputs: Sequence[int],
    kernel: Sequence[int],
    *,
    size: float,
    groups: int = 1,
    weight_size: float | None = None,
    out_size: float | None = None,
    explicit_im2col: bool = False,
) -> Cost:
    """A convolution of any dimension; its two gradients cost the same, with the same three tensors
    (docs/operators.md).

    inputs: spatial size of the input that is read or written, see ``inputs_touched``.
    explicit_im2col: adds the column buffer, written and read.
    """
    weight = filters * (channels // groups) * prod(kernel)
    out = batch * filters * prod(outputs)
    flops = 2 * out * (channels // groups) * prod(kernel)
    moved = (
        size * batch * channels * prod(inputs)
        + (size if weight_size is None else weight_size) * weight
        + (size if out_size is None else out_size) * out
    )
    if explicit_im2col:
        moved += 2 * size * batch * prod(outputs) * channels * prod(kernel)
    return Cost(flops, moved)


def causal_pairs(queries: int, keys: int, *, top_left: bool = False) -> int:
    """Scores that a causal mask keeps.

    The mask is aligned with the last query and key (decoding behind a cache), or with the first
    (``top_left``). For a square of S it keeps S(S + 1)/2 either way.
    """
    if top_left:
        inside = min(queries, keys)
        return inside * (inside + 1) // 2 + (queries - inside) * keys
    seen = min(queries, keys)
    return seen * (2 * keys - seen + 1) // 2


def window_pairs(queries: int, keys: int, left: int | None, right: int | None) -> int:
    """Scores that a sliding window keeps: ``left`` keys before and ``right`` after the diagonal
    (None: no limit), the mask aligned with the last query and key. A causal mask has right 0."""
    upper = queries * keys if right is None else _pairs_up_to(queries, keys, right)
    lower = 0 if left is None else _pairs_up_to(queries, keys, -left - 1)
    return max(0, upper - lower)


def _pairs_up_to(queries: int, keys: int, distance: int) -> int:
    """Scores whose key is at most ``distance`` behind the diagonal (before it, if negative)."""

    def below(end: int) -> int:
        """Sum of min(max(n, 0), keys) over all n <= end."""
        ramp = min(max(end, 0), keys)
        return ramp * (ramp + 1) // 2 + max(0, end - keys) * keys

    first = keys - queries + distance + 1
    return below(first + queries - 1) - below(first - 1)


def attention(
    batch: int,
    heads: int,
    kv_heads: int,
    queries: int,
    keys: int,
    qk_dim: int,
    v_dim: int,
    *,
    size: float,
    kv_size: float | None = None,
    out_size: float | None = None,
    pairs: float | None = None,
    lse: bool = False,
    fused: bool = True,
) -> Cost:
    """Softmax(Q K^T) V, prefill and decode alike.

    pairs: scores of one head that are computed (None: all, queries x keys; NaN: unknown). lse: the log-sum-exp
    is written, FP32. fused: no score leaves the chip; otherwise scores and probabilities are each
    written and read once. The softmax itself is not counted (5 of 4d FLOPs per score).
    """
    kept = queries * keys if pairs is None else pairs
    kv_size = size if kv_size is None else kv_size
    out_size = size if out_size is None else out_size
    moved = (
        batch * heads * queries * (size * qk_dim + out_size * v_dim)
        + kv_size * batch * kv_heads * keys * (qk_dim + v_dim)
        + (4 * batch * heads * queries if lse else 0)
        + (0 if fused else 4 * size * batch * heads * queries * keys)
    )
    return Cost(2 * batch * heads * kept * (qk_dim + v_dim), moved)


def attention_backward(
    batch: int,
    heads: int,
    kv_heads: int,
    queries: int,
    keys: int,
    qk_dim: int,
    v_dim: int,
    *,
    size: float,
    pairs: float | None = None,
) -> Cost:
    """Flash-style backward: five products (scores again, dV, dP, dQ, dK), 2.5 times the forward.

    Reads Q, K, V, O, dO and the log-sum-exp; writes dQ, dK, dV.
    """
    kept = queries * keys if pairs is None else pairs
    flops = 2 * batch * heads * kept * (3 * qk_dim + 2 * v_dim)
    moved = size * (
        batch * heads * queries * (2 * qk_dim + 2 * v_dim)
        + 2 * batch * kv_heads * keys * (qk_dim + v_dim)
    )
    return Cost(flops, moved + 4 * batch * heads * queries)


def streaming(
    elements: int,
    *,
    flops: float,
    reads: Sequence[float],
    writes: Sequence[float],
    extra: float = 0,
) -> Cost:
    """An operation that passes over tensors of ``elements`` elements.

    flops: per element. reads, writes: bytes of an element, one entry a tensor passed over (the
    same tensor twice where it is read in two passes). extra: bytes of small operands.
    """
    return Cost(flops * elements, elements * (sum(reads) + sum(writes)) + extra)


def embedding(tokens: int, dim: int, *, size: float, index_size: float = 8) -> Cost:
    """Gather ``tokens`` rows: index, row read, row written; no row is assumed to repeat."""
    return Cost(0, tokens * (index_size + 2 * size * dim))
