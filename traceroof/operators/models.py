"""From the arguments of an operator call to its FLOPs and bytes.

One function a model of ``operators.tsv``: it takes the sizes out of the shapes, checks that they
belong together, and hands them to the closed forms of ``models.py``. A function raises ``Unfit``
when the call is not what the model describes; an unknown element type or mask becomes NaN on the
way and None in the ``Work``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, nan, prod
from typing import Literal

from traceroof.operators import closed_forms as models
from traceroof.operators.closed_forms import Cost
from traceroof.operators.operands import (
    BYTES,
    COMPLEX,
    KINDS,
    SCALAR_TYPES,
    Argument,
    Call,
    Shape,
    Unfit,
)

Unit = Literal["tensor", "vector"]


@dataclass(frozen=True)
class Work:
    """What one call of an operator is at least.

    model: which model counted it.
    unit: the part of the GPU that the arithmetic may use: matrix units (where the device has
        them for this type) or vector units.
    dtype: type of the arithmetic, in the device table's names: what picks the peak. FP32 matrix
        work may run as TF32; only the kernel's name tells.
    flops: FLOP, a multiply-accumulate counting 2; None where an argument that decides it is
        unknown.
    bytes_min: compulsory memory traffic in bytes; None where an element type is unknown.
    dims: the sizes that the model used, for the operator card and for rules.
    weight_bytes: the part of ``bytes_min`` that is a weight, where there is one.
    """

    model: str
    unit: Unit
    dtype: str | None
    flops: float | None
    bytes_min: float | None
    dims: Mapping[str, int] = field(default_factory=dict)
    weight_bytes: float | None = None

    @property
    def shape(self) -> str:
        """The sizes in words: ``M=128 N=4096 K=4096``."""
        return " ".join(f"{name}={size}" for name, size in self.dims.items())

    @property
    def intensity(self) -> float | None:
        """FLOP per byte; None where either is unknown or no byte moves."""
        if self.flops is None or not self.bytes_min:
            return None
        return self.flops / self.bytes_min


# What a model returns: the work, and the output's shape where out= forms must be told apart.
Result = tuple[Work, Shape | None]


def _made(
    model: str,
    cost: Cost,
    dims: Mapping[str, int],
    *,
    dtype: str | None,
    unit: Unit = "vector",
    weight_bytes: float | None = None,
) -> Work:
    return Work(
        model=model,
        unit=unit,
        dtype=dtype if unit == "tensor" else _vector_dtype(dtype),
        flops=float(cost.flops) if isfinite(cost.flops) else None,
        bytes_min=float(cost.bytes) if isfinite(cost.bytes) else None,
        dims=dims,
        weight_bytes=weight_bytes if weight_bytes is not None and isfinite(weight_bytes) else None,
    )


def _vector_dtype(dtype: str | None) -> str | None:
    """What element-wise code computes in: half types in FP32 (ATen's opmath type)."""
    return {"fp16": "fp32", "bf16": "fp32", "fp8": "fp32", "fp4": "fp32"}.get(dtype or "", dtype)


def _gemm(call: Call) -> Result:
    a, b, c = call["a"], call["b"], call["c"]
    left, right = a.shape, b.shape
    if call.options.get("weight") == "nk":
        if len(right) != 2 or not left or left[-1] != right[1]:
            raise Unfit
        right = (right[1], right[0])
    batch, m, n, k, a_batch, b_batch, result = _product(left, right)
    packed = 2 if a.dtype == "fp4" else 1  # two values in an element of Float4_e2m1fn_x2
    size = _gemm_output_size(call, a, b)
    bias = 0
    if c.is_tensor and call["beta"].value not in ("0", "0.", 0, 0.0):
        bias = c.elements
    cost = models.gemm(
        m,
        n,
        k * packed,
        a_size=a.size / packed,
        b_size=b.size / packed,
        out_size=size,
        batch=batch,
        a_batch=a_batch,
        b_batch=b_batch,
        bias=bias,
        activations=int(call.number("activations")),
    )
    if "sums_batch" in call.options:  # addbmm: one output for all products
        cost = cost._replace(bytes=cost.bytes - size * (batch - 1) * m * n)
        result = (m, n)
    unit: Unit = "vector" if call.options.get("unit") == "vector" else "tensor"
    dims = {"B": batch} if batch > 1 else {}
    weight = b.bytes if len(b.shape) == 2 else None
    return _made(
        "gemm",
        cost,
        {**dims, "M": m, "N": n, "K": k * packed},
        dtype=a.dtype,
        unit=unit,
        weight_bytes=weight,
    ), result


def _product(left: Shape, right: Shape) -> tuple[int, int, int, int, int, int, Shape]:
    """batch, M, N, K, copies of A, copies of B and the result of a matmul with broadcasting."""
    if not left or not right:
        raise Unfit
    rows: Shape = left[-2:-1] if len(left) > 1 else ()
    columns: Shape = right[-1:] if len(right) > 1 else ()
    k = left[-1]
    if k != (right[-2] if len(right) > 1 else right[0]):
        raise Unfit
    m, n = prod(rows), prod(columns)
    if len(right) <= 2:  # a weight shared by the whole batch: rows of one product
        return 1, prod(left[:-1]), n, k, 1, 1, (*left[:-1], *columns)
    lead = _broadcast(left[:-2], right[:-2])
    return (
        prod(lead), m, n, k, prod(left[:-2]), prod(right[:-2]), (*lead, *rows, *columns)
    )  # fmt: skip


def _gemm_output_size(call: Call, a: Argument, b: Argument) -> float:
    kind = call.options.get("out", "")
    if kind == "out":
        return call["out"].size
    chosen = call["out_dtype"].integer()
    if chosen is not None:
        return BYTES[SCALAR_TYPES[chosen]] if chosen in SCALAR_TYPES else nan
    if kind == "16bit":
        # Without an out_dtype the result has the input's type; not recorded, it is unknown.
        return a.size if call.has_values else nan
    return BYTES[kind] if kind else max(a.size, b.size)


def _packed_gemm(call: Call) -> Result:
    a, b, scales = call["a"], call["b"], call["scales"]
    if len(a.shape) != 2 or len(scales.shape) != 3:
        raise Unfit
    (m, k), n = a.shape, scales.shape[1]
    if b.elements * b.size != n * k / 2:  # 4 bits a weight
        raise Unfit
    weight = b.bytes + scales.bytes
    cost = Cost(2 * m * n * k, a.bytes + weight + a.size * m * n)
    dims = {"M": m, "N": n, "K": k}
    return _made("gemm", cost, dims, dtype=a.dtype, unit="tensor", weight_bytes=weight), (m, n)


def _grouped_gemm(call: Call) -> Result:
    a, b = call["a"], call["b"]
    size = _gemm_output_size(call, a, b)
    if len(a.shape) == 2 and len(b.shape) == 3:  # rows of all experts, one weight each
        (rows, k), (experts, inner, n) = a.shape, b.shape
        if k != inner:
            raise Unfit
        # How rows spread over experts is not recorded; at most one expert a row is needed.
        hit = min(experts, rows)
        moved = a.bytes + b.size * k * n * hit + size * rows * n
        dims = {"E": experts, "M": rows, "N": n, "K": k}
        weight: float | None = b.size * k * n * hit
        cost, result = Cost(2 * rows * n * k, moved), (rows, n)
    elif len(a.shape) == 2 and len(b.shape) == 2:  # weight gradient: K is split over the experts
        (m, k), (inner, n) = a.shape, b.shape
        experts = call["offsets"].elements
        if k != inner or not experts:
            raise Unfit
        dims = {"E": experts, "M": m, "N": n, "K": k}
        weight = None
        cost = Cost(2 * m * n * k, a.bytes + b.bytes + size * experts * m * n)
        return _made("grouped gemm", cost, dims, dtype=a.dtype, unit="tensor"), (experts, m, n)
    else:
        raise Unfit
    work = _made("grouped gemm", cost, dims, dtype=a.dtype, unit="tensor", weight_bytes=weight)
    return work, result


def _einsum(call: Call) -> Result:
    tensors, equation = call["tensors"], str(call["equation"].value).replace(" ", "")
    inputs, arrow, output = equation.partition("->")
    terms = inputs.split(",")
    if not arrow or "." in equation or len(terms) != 2 or len(tensors.shapes) != 2:
        raise Unfit
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, tensors.shapes, strict=True):
        if len(term) != len(shape):
            raise Unfit
        for letter, size in zip(term, shape, strict=True):
            if sizes.setdefault(letter, size) not in (size, 1) and size != 1:
                raise Unfit
            sizes[letter] = max(sizes[letter], size)
    if not set(output) <= set(sizes):
        raise Unfit
    summed = set(sizes) - set(output)
    total = prod(sizes.values())
    result = tuple(sizes[letter] for letter in output)
    out_size = max(BYTES[one] if one else nan for one in tensors.dtypes)
    cost = Cost(total * (2 if summed else 1), tensors.bytes + out_size * prod(result))
    dims = {"out": prod(result), "K": prod(sizes[letter] for letter in summed)}
    dtype = tensors.dtypes[0]
    return _made("gemm", cost, dims, dtype=dtype, unit="tensor"), result


def _convolution(call: Call) -> Result:
    x, w = call["x"], call["w"]
    transposed = call["transposed"].flag() or "transposed" in call.options
    groups, inputs, kernel = _convolution_sizes(call, x.shape, w.shape, transposed)
    axes = len(inputs)
    stride, padding, dilation = (
        _per_axis(call, name, axes, otherwise)
        for name, otherwise in (("stride", None), ("padding", None), ("dilation", 1))
    )
    if transposed:
        extra = _per_axis(call, "output_padding", axes, 0)
        outputs = models.transposed_outputs(inputs, kernel, stride, padding, dilation, extra)
        filters = w.shape[1] * groups
    else:
        outputs = models.convolution_outputs(inputs, kernel, stride, padding, dilation)
        filters = w.shape[0]
    if min(outputs, default=0) <= 0:
        raise Unfit
    batch, channels = x.shape[0], x.shape[1]
    result = (batch, filters, *outputs)
    # A transposed convolution is the input gradient of the mirrored one: same three tensors.
    if transposed:
        cost = models.convolution(
            batch, filters, channels, outputs, inputs, kernel, size=x.size, weight_size=w.size,
            groups=groups,
        )  # fmt: skip
    else:
        cost = models.convolution(
            batch, channels, filters, models.inputs_touched(inputs, outputs, kernel), outputs,
            kernel, size=x.size, weight_size=w.size, groups=groups,
        )  # fmt: skip
    cost = _with_epilogue(call, cost, prod(result), x.size)
    dims = _convolution_dims(batch, channels, filters, inputs, outputs, kernel, groups)
    model = "transposed convolution" if transposed else "convolution"
    return (
        _made(model, cost, dims, dtype=x.dtype, unit="tensor", weight_bytes=w.bytes),
        result,
    )


def _with_epilogue(call: Call, cost: Cost, outputs: int, size: float) -> Cost:
    bias, other = call["bias"], call["z"]
    flops = outputs * ((1 if bias.is_tensor else 0) + call.number("activations"))
    moved = (bias.bytes if bias.is_tensor else 0) + (size * outputs if other.is_tensor else 0)
    return Cost(cost.flops + flops, cost.bytes + moved)


def _convolution_sizes(
    call: Call, x: Shape, w: Shape, transposed: bool
) -> tuple[int, Shape, Shape]:
    """Groups, spatial input and kernel sizes; the groups follow from the two shapes where the
    convolution is not transposed."""
    if len(x) < 3 or len(w) != len(x):
        raise Unfit
    groups = call["groups"].integer()
    if not transposed:
        derived, rest = divmod(x[1], w[1]) if w[1] else (0, 1)
        if rest or not derived or groups not in (None, derived):
            raise Unfit
        groups = derived
    elif w[0] != x[1] or (groups is None and call.has_values):
        raise Unfit
    return groups or 1, x[2:], w[2:]


def _per_axis(call: Call, name: str, axes: int, otherwise: int | None) -> tuple[int, ...]:
    """A stride, padding or dilation per axis; unknown without a recorded value, unless the
    operator has no such argument."""
    values = call[name].integers() if name in call.arguments else None
    if values is None and name not in call.arguments and otherwise is not None:
        values = (otherwise,)
    if values is None or len(values) not in (1, axes):
        raise Unfit
    return values if len(values) == axes else values * axes


def _convolution_dims(
    batch: int,
    channels: int,
    filters: int,
    inputs: Shape,
    outputs: Shape,
    kernel: Shape,
    groups: int,
) -> Mapping[str, int]:
    letters = {1: "W", 2: "HW", 3: "DHW"}.get(len(inputs), "")
    dims = {"N": batch, "C": channels, "K": filters}
    dims.update(zip(letters, inputs, strict=False))
    dims.update({f"out_{letter}": size for letter, size in zip(letters, outputs, strict=False)})
    kernel_names = {1: "S", 2: "RS", 3: "TRS"}.get(len(kernel), "")
    dims.update(zip(kernel_names, kernel, strict=False))
    return {**dims, "groups": groups}


def _convolution_backward(call: Call) -> Result:
    gradient = call.options.get("gradient")
    grad = call["grad"]
    x_shape = call["x"].shape if call["x"].is_tensor else call["input_size"].integers()
    w_shape = call["w"].shape if call["w"].is_tensor else call["weight_size"].integers()
    if w_shape is None or len(grad.shape) < 3:
        raise Unfit
    if gradient:
        wanted = (gradient == "input", gradient == "weight")
    else:
        mask = call["output_mask"].flags()
        if mask is None or len(mask) < 2:
            raise Unfit
        wanted = (mask[0], mask[1])
    transposed = call["transposed"].flag() or False
    # The mirrored convolution maps the larger map to the smaller: 2 x outputs x C/g x kernel.
    if transposed:
        if x_shape is None or w_shape[0] != x_shape[1]:
            raise Unfit
        flops = 2 * prod(x_shape) * prod(w_shape[1:])
    else:
        if w_shape[0] != grad.shape[1]:
            raise Unfit
        flops = 2 * grad.elements * prod(w_shape[1:])
    count = sum(wanted)
    if not count:
        raise Unfit
    size = grad.size
    # Each gradient reads two of (dY, W or X) and writes the third: the same three tensors. The
    # input's is written whole; the weight's reads only what the forward read.
    written, read = nan, nan
    if x_shape:
        written = read = prod(x_shape)
        if not transposed:
            touched = models.inputs_touched(x_shape[2:], grad.shape[2:], w_shape[2:])
            read = prod(x_shape[:2]) * prod(touched)
    moved = size * (
        count * (grad.elements + prod(w_shape))
        + (written if wanted[0] else 0)
        + (read if wanted[1] else 0)
    )
    dims = {
        "N": grad.shape[0],
        "C": x_shape[1] if x_shape else w_shape[1],
        "K": grad.shape[1],
        "gradients": count,
    }
    cost = Cost(count * flops, moved)
    return _made("convolution backward", cost, dims, dtype=grad.dtype, unit="tensor"), None


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


def _attention(call: Call) -> Result:
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
    return _made("attention", cost, sizes.dims, dtype=q.dtype, unit="tensor"), None


def _attention_backward(call: Call) -> Result:
    sizes = _heads(call)
    q = call["q"]
    cost = models.attention_backward(*sizes.numbers, size=q.size, pairs=sizes.pairs)
    return _made("attention backward", cost, sizes.dims, dtype=q.dtype, unit="tensor"), None


def _norm(call: Call) -> Result:
    x, w, b = call["x"], call["w"], call["b"]
    kind = call.options["kind"]
    elements = x.elements
    rows, columns = _norm_rows(call, x, w)
    per_element = {
        "layer-norm": models.LAYER_NORM_FLOPS,
        "rms-norm": models.RMS_NORM_FLOPS,
    }.get(kind, models.BATCH_NORM_FLOPS)
    reads, writes = [x.size], [x.size]
    if "residual" in call.options:  # the sum is kept: two tensors in, two out
        per_element += models.RESIDUAL_ADD_FLOPS
        reads, writes = [x.size] * 2, [x.size] * 2
    # Batch statistics need all of x before the first output: two passes unless it fits a cache.
    if kind == "batch-norm" and (call["training"].flag() or "two_pass" in call.options):
        reads = [x.size] * 2
    extra = sum(one.bytes for one in (w, b) if one.is_tensor)
    if call.training:
        extra += rows * (4 if kind == "rms-norm" else 8)
    cost = models.streaming(elements, flops=per_element, reads=reads, writes=writes, extra=extra)
    return _made(kind, cost, {"R": rows, "C": columns}, dtype=x.dtype), x.shape


def _norm_rows(call: Call, x: Argument, w: Argument) -> tuple[int, int]:
    """Rows that are normalised, and elements of each."""
    over = call.options["over"]
    shape = x.shape
    if over == "channel":
        if len(shape) < 2:
            raise Unfit
        return shape[1], x.elements // max(shape[1], 1)
    if over == "group":
        groups = call["groups"].integer()
        rows = shape[0] * (groups or 1)
        return rows, x.elements // max(rows, 1)
    columns = w.elements if w.is_tensor else 0
    normalized = call["normalized_shape"].integers()
    if normalized:
        columns = prod(normalized)
    if not columns:
        columns = shape[-1] if shape else 0
    if not columns or x.elements % columns:
        raise Unfit
    return x.elements // columns, columns


def _norm_backward(call: Call) -> Result:
    grad, x, w = call["grad"], call["x"], call["w"]
    kind = call.options["kind"]
    if grad.shape != x.shape:
        raise Unfit
    rows, columns = _norm_rows(call, x, w)
    forward = {
        "layer-norm": models.LAYER_NORM_FLOPS,
        "rms-norm": models.RMS_NORM_FLOPS,
    }.get(kind, models.BATCH_NORM_FLOPS)
    weights = 2 if kind == "rms-norm" else 3  # weight read; its gradient and the bias's written
    stats = sum(one.bytes for one in (call["mean"], call["rstd"]) if one.is_tensor)
    cost = models.streaming(
        x.elements,
        flops=models.NORM_BACKWARD_FACTOR * forward,
        reads=[grad.size, x.size],
        writes=[x.size],
        extra=stats + (weights * w.bytes if w.is_tensor else 0),
    )
    return _made(f"{kind} backward", cost, {"R": rows, "C": columns}, dtype=x.dtype), x.shape


def _softmax(call: Call) -> Result:
    x = call["x"]
    widened = call["half_to_float"].flag()
    chosen = call["dtype"].integer()
    out = 4.0 if widened else BYTES.get(SCALAR_TYPES.get(chosen or -1, ""), x.size)
    cost = models.streaming(x.elements, flops=models.SOFTMAX_FLOPS, reads=[x.size], writes=[out])
    return _made("softmax", cost, _rows(call, x), dtype=x.dtype), x.shape


def _softmax_backward(call: Call) -> Result:
    grad, out = call["grad"], call["out"]
    if grad.shape != out.shape:
        raise Unfit
    chosen = SCALAR_TYPES.get(call["input_dtype"].integer() or -1)
    written = BYTES[chosen] if chosen else out.size
    cost = models.streaming(
        out.elements,
        flops=models.SOFTMAX_BACKWARD_FLOPS,
        reads=[grad.size, out.size],
        writes=[written],
    )
    return _made("softmax backward", cost, _rows(call, out), dtype=out.dtype), out.shape


def _rows(call: Call, x: Argument) -> Mapping[str, int]:
    shape = x.shape
    dim = call["dim"].integer()
    if not shape or dim is None or not -len(shape) <= dim < len(shape):
        return {"elements": x.elements}
    return {"R": x.elements // max(shape[dim], 1), "C": shape[dim]}


def _elementwise(call: Call) -> Result:
    flops = call.number("flops")
    kind = call.options.get("result", "")
    operands = list(call.tensors())
    if not operands:
        raise Unfit
    if kind == "first":  # the output is the first argument
        out, *operands = operands
        if not operands:
            raise Unfit
        cost = Cost(flops * out.elements, out.bytes + sum(one.bytes for one in operands))
        dtype = operands[0].dtype
        return _made("elementwise", cost, {"elements": out.elements}, dtype=dtype), out.shape
    shape: Shape = ()
    for one in operands:
        shape = _broadcast(shape, one.shape)
    if call.in_place and operands[0].shape != shape:
        raise Unfit
    elements = prod(shape)
    if kind == "half":
        elements //= 2
    written = operands[0].size if call.in_place else _result_size(kind, operands)
    # A number beside tensors travels as a kernel argument.
    read = sum(one.bytes for one in operands if one.shape or not shape)
    cost = Cost(flops * elements, read + written * elements)
    dtype = _promoted(operands)
    return _made("elementwise", cost, {"elements": elements}, dtype=dtype), shape


def _result_size(kind: str, operands: Sequence[Argument]) -> float:
    if kind == "bool":
        return 1.0
    if kind == "choice" and len(operands) > 1:  # where(condition, a, b): the condition has no say
        operands = operands[1:]
    dtype = _promoted(operands)
    if dtype is None:
        return nan
    if kind == "real" and dtype in KINDS:
        dtype = "fp32"  # PyTorch's default type for real functions of integers
    return BYTES[dtype]


def _promoted(operands: Sequence[Argument]) -> str | None:
    """The result type of mixed operands by PyTorch's rules; None where one is unknown.

    The higher kind wins (bool, integer, real, complex), then the wider type. A number (no
    dimensions) beside tensors only counts by its kind, as PyTorch's default real type.
    """
    if not operands or any(one.dtype is None for one in operands):
        return None
    tensors = [one.dtype for one in operands if one.shape]
    numbers = [one.dtype for one in operands if not one.shape]

    def kind(dtype: str | None) -> int:
        return 3 if dtype in COMPLEX else KINDS.get(dtype or "", 2)

    def widest(dtypes: Sequence[str | None]) -> str | None:
        best = max(dtypes, key=lambda one: (kind(one), BYTES[one or "bool"]))
        return "fp32" if {"fp16", "bf16"} <= set(dtypes) and best in ("fp16", "bf16") else best

    if not tensors:
        return widest(numbers)
    best = widest(tensors)
    if numbers and max(map(kind, numbers)) > kind(best):
        return {1: "int64", 2: "fp32"}.get(max(map(kind, numbers)), "complex64")
    return best


def _broadcast(one: Shape, other: Shape) -> Shape:
    width = max(len(one), len(other))
    result = []
    for a, b in zip(
        (1,) * (width - len(one)) + one, (1,) * (width - len(other)) + other, strict=True
    ):
        if a != b and a != 1 and b != 1:
            raise Unfit
        result.append(b if a == 1 else a)
    return tuple(result)


def _dropout(call: Call) -> Result:
    x = call["x"]
    kept = [1.0] if call["train"].flag() is not False else []
    cost = models.streaming(x.elements, flops=2, reads=[x.size], writes=[x.size, *kept])
    return _made("dropout", cost, {"elements": x.elements}, dtype=x.dtype), None


def _rope(call: Call) -> Result:
    turned = [one for one in (call["query"], call["key"]) if one.is_tensor]
    if not turned:
        raise Unfit
    elements = sum(one.elements for one in turned)
    moved = 2 * sum(one.bytes for one in turned) + call["positions"].bytes
    cost = Cost(models.ROPE_FLOPS * elements, moved)
    return _made("rope", cost, {"elements": elements}, dtype=turned[0].dtype), None


def _copy(call: Call) -> Result:
    x, out = call["x"], call["out"]
    if out.is_tensor:
        if _broadcast(x.shape, out.shape) != out.shape:
            raise Unfit
        cost, shape = Cost(0, x.bytes + out.bytes), out.shape
    else:
        written = x.size
        if "to" in call.options:
            chosen = SCALAR_TYPES.get(-1 if (number := call["dtype"].integer()) is None else number)
            written = BYTES[chosen] if chosen else nan
        cost, shape = Cost(0, x.bytes + written * x.elements), x.shape
    return _made("copy", cost, {"elements": prod(shape)}, dtype=x.dtype), shape


def _concatenate(call: Call) -> Result:
    tensors = call["tensors"]
    if not tensors.shapes:
        raise Unfit
    dtype = tensors.dtypes[0]
    return _made("copy", Cost(0, 2 * tensors.bytes), {"elements": tensors.elements},
                 dtype=dtype), None  # fmt: skip


def _fill(call: Call) -> Result:
    x = call["x"]
    return _made("fill", Cost(0, x.bytes), {"elements": prod(x.shape)}, dtype=x.dtype), x.shape


def _reduction(call: Call) -> Result:
    x = call["x"]
    if call["dim"].is_tensor:  # max(x, y): no reduction at all
        pair = replace(call, arguments={"x": x, "y": call["dim"]}, options={"flops": "1"})
        return _elementwise(pair)
    cost = Cost(call.number("flops", 1) * prod(x.shape), x.bytes)
    return _made("reduction", cost, {"elements": x.elements}, dtype=x.dtype), None


def _scan(call: Call) -> Result:
    x = call["x"]
    out = 8.0 if x.dtype in KINDS else x.size  # integers accumulate in 64 bit
    cost = models.streaming(prod(x.shape), flops=1, reads=[x.size], writes=[out])
    return _made("scan", cost, {"elements": x.elements}, dtype=x.dtype), x.shape


def _cross_entropy(call: Call) -> Result:
    x, target = call["x"], call["target"]
    if len(x.shape) != 2 or target.shape != x.shape[:1]:
        raise Unfit
    cost = Cost(models.CROSS_ENTROPY_FLOPS * x.elements, x.bytes + target.bytes)
    dims = {"R": x.shape[0], "C": x.shape[1]}
    return _made("cross-entropy", cost, dims, dtype=x.dtype), None


def _gather_loss(call: Call) -> Result:
    x, target = call["x"], call["target"]
    count = target.elements
    if not target.is_tensor or len(x.shape) < 2:
        raise Unfit
    cost = Cost(count, target.bytes + x.size * count)
    return _made("loss", cost, {"R": count, "C": x.shape[1]}, dtype=x.dtype), None


def _pair_loss(call: Call) -> Result:
    x, y = call["x"], call["y"]
    shape = _broadcast(x.shape, y.shape)
    cost = Cost(call.number("flops") * prod(shape), x.bytes + y.bytes)
    return _made("loss", cost, {"elements": prod(shape)}, dtype=x.dtype), None


def _embedding(call: Call) -> Result:
    w, index = call["w"], call["index"]
    if len(w.shape) != 2 or not index.is_tensor:
        raise Unfit
    tokens, dim = index.elements, w.shape[1]
    cost = models.embedding(tokens, dim, size=w.size, index_size=index.size)
    return _made("embedding", cost, {"T": tokens, "D": dim, "V": w.shape[0]}, dtype=w.dtype), (
        *index.shape,
        dim,
    )


def _embedding_backward(call: Call) -> Result:
    grad, index = call["grad"], call["index"]
    tokens, dim = index.elements, grad.shape[-1] if grad.shape else 0
    if not index.is_tensor or grad.elements != tokens * dim:
        raise Unfit
    rows = call["num_weights"].integer()
    # The dense gradient of the whole table is written; which rows repeat is not recorded.
    table = grad.size * rows * dim if rows is not None else 0
    cost = Cost(tokens * dim, grad.bytes + index.bytes + table)
    dims = {"T": tokens, "D": dim, **({"V": rows} if rows is not None else {})}
    return _made("embedding backward", cost, dims, dtype=grad.dtype), None


def _embedding_bag(call: Call) -> Result:
    w, index, offsets = call["w"], call["index"], call["offsets"]
    if len(w.shape) != 2 or not index.is_tensor or not offsets.is_tensor:
        raise Unfit
    tokens, dim, bags = index.elements, w.shape[1], offsets.elements
    moved = index.bytes + offsets.bytes + w.size * dim * (tokens + bags)
    dims = {"T": tokens, "D": dim, "V": w.shape[0], "bags": bags}
    return _made("embedding", Cost(tokens * dim, moved), dims, dtype=w.dtype), None


def _index_select(call: Call) -> Result:
    x, index = call["x"], call["index"]
    dim = call["dim"].integer()
    if dim is None and len(x.shape) == 1:
        dim = 0
    if dim is None or not index.is_tensor or not -len(x.shape) <= dim < len(x.shape):
        raise Unfit
    rows = x.shape[dim]
    elements = x.elements // rows * index.elements if rows else 0
    cost = Cost(0, index.bytes + 2 * x.size * elements)
    return _made("gather", cost, {"elements": elements}, dtype=x.dtype), None


def _gather(call: Call) -> Result:
    x, index = call["x"], call["index"]
    if not x.is_tensor or not index.is_tensor:
        raise Unfit
    cost = Cost(0, index.bytes + 2 * x.size * index.elements)
    return _made("gather", cost, {"elements": index.elements}, dtype=x.dtype), index.shape


def _scatter(call: Call) -> Result:
    x, index, source = call["x"], call["index"], call["src"]
    if not x.is_tensor or not index.is_tensor:
        raise Unfit
    adds = "adds" in call.options
    touched = source.elements if source.is_tensor else index.elements
    passes = 2 if adds else 1  # an addition reads what it writes
    moved = index.bytes + (source.bytes if source.is_tensor else 0) + passes * x.size * touched
    if not call.in_place:
        moved += 2 * x.bytes  # the rest of x is copied into the result
    cost = Cost(touched if adds else 0, moved)
    return _made("scatter", cost, {"elements": touched}, dtype=x.dtype), None


def _kv_cache_write(call: Call) -> Result:
    key, value, cache_, slots = (
        call[name] for name in ("key", "value", "key_cache", "slot_mapping")
    )
    elements = prod(key.shape) + prod(value.shape)
    moved = key.bytes + value.bytes + cache_.size * elements + slots.bytes
    dims = {"T": key.shape[0], "elements": elements}
    return _made("kv-cache write", Cost(0, moved), dims, dtype=key.dtype), None


def _optimizer(call: Call) -> Result:
    params = call["params"]
    if not params.is_list or not params.shapes:
        raise Unfit
    per_parameter = call.number("flops")
    if call["momentum_buffers"].shapes:
        per_parameter += call.number("momentum")
    written = call.options["writes"].split(",")
    states = [
        name
        for name, one in call.arguments.items()
        if one.is_list and one.shapes and name != "state_steps"
    ]
    moved = sum(call[name].bytes * (2 if name in written else 1) for name in states)
    count = params.elements
    dims = {"parameters": count, "tensors": len(params.shapes)}
    dtype = params.dtypes[0]
    return _made("optimizer", Cost(per_parameter * count, moved), dims, dtype=dtype), None


def _foreach(call: Call) -> Result:
    lists = [one for one in call.arguments.values() if one.is_list]
    if not lists or not lists[0].shapes:
        raise Unfit
    first, *others = lists
    count = first.elements
    reads = 0.0 if "writes_only" in call.options else first.bytes
    moved = first.bytes + reads + sum(one.bytes for one in others)
    dims = {"elements": count, "tensors": len(first.shapes)}
    cost = Cost(call.number("flops", 1) * count, moved)
    return _made("foreach", cost, dims, dtype=first.dtypes[0]), None


def _foreach_norm(call: Call) -> Result:
    x = call["x"]
    if not x.is_list or not x.shapes:
        raise Unfit
    dims = {"elements": x.elements, "tensors": len(x.shapes)}
    return _made("reduction", Cost(2 * x.elements, x.bytes), dims, dtype=x.dtypes[0]), None


MODELS: Mapping[str, Callable[[Call], Result]] = {
    "gemm": _gemm,
    "packed-gemm": _packed_gemm,
    "grouped-gemm": _grouped_gemm,
    "einsum": _einsum,
    "convolution": _convolution,
    "convolution-backward": _convolution_backward,
    "attention": _attention,
    "attention-backward": _attention_backward,
    "norm": _norm,
    "norm-backward": _norm_backward,
    "softmax": _softmax,
    "softmax-backward": _softmax_backward,
    "elementwise": _elementwise,
    "dropout": _dropout,
    "rope": _rope,
    "copy": _copy,
    "concatenate": _concatenate,
    "fill": _fill,
    "reduction": _reduction,
    "scan": _scan,
    "cross-entropy": _cross_entropy,
    "gather-loss": _gather_loss,
    "pair-loss": _pair_loss,
    "embedding": _embedding,
    "embedding-backward": _embedding_backward,
    "embedding-bag": _embedding_bag,
    "index-select": _index_select,
    "gather": _gather,
    "scatter": _scatter,
    "kv-cache-write": _kv_cache_write,
    "optimizer": _optimizer,
    "foreach": _foreach,
    "foreach-norm": _foreach_norm,
}

# The category whose kernels do a model's work; others of the same call are helpers.
CATEGORY_OF: Mapping[str, str] = {
    "gemm": "gemm",
    "grouped gemm": "gemm",
    "convolution": "conv",
    "transposed convolution": "conv",
    "convolution backward": "conv",
    "attention": "attention",
    "attention backward": "attention",
    "layer-norm": "norm",
    "rms-norm": "norm",
    "batch-norm": "norm",
    "group-norm": "norm",
    "layer-norm backward": "norm",
    "rms-norm backward": "norm",
    "batch-norm backward": "norm",
    "group-norm backward": "norm",
    "softmax": "softmax",
    "softmax backward": "softmax",
    "elementwise": "elementwise",
    "reduction": "reduction",
    "copy": "layout",
    "embedding": "embedding",
    "embedding backward": "embedding",
    "gather": "embedding",
    "scatter": "embedding",
    "optimizer": "optimizer",
    "foreach": "optimizer",
    "loss": "loss",
}
