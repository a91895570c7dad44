"""Models of norms and softmax, forward and backward."""

from math import prod

from traceroof.operators import closed_forms as models
from traceroof.operators.operands import (
    BYTES,
    SCALAR_TYPES,
    Argument,
    Call,
    Unfit,
)
from traceroof.operators.work import Result, made, rows


def norm(call: Call) -> Result:
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
    return made(kind, cost, {"R": rows, "C": columns}, dtype=x.dtype), x.shape


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


def norm_backward(call: Call) -> Result:
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
    return made(f"{kind} backward", cost, {"R": rows, "C": columns}, dtype=x.dtype), x.shape


def softmax(call: Call) -> Result:
    x = call["x"]
    widened = call["half_to_float"].flag()
    chosen = call["dtype"].integer()
    out = 4.0 if widened else BYTES.get(SCALAR_TYPES.get(chosen or -1, ""), x.size)
    cost = models.streaming(x.elements, flops=models.SOFTMAX_FLOPS, reads=[x.size], writes=[out])
    return made("softmax", cost, rows(call, x), dtype=x.dtype), x.shape


def softmax_backward(call: Call) -> Result:
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
    return made("softmax backward", cost, rows(call, out), dtype=out.dtype), out.shape
