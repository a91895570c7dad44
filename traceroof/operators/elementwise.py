"""Models of element-wise work, copies, reductions and optimizer steps."""

from collections.abc import Sequence
from dataclasses import replace
from math import nan, prod

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
from traceroof.operators.work import Result, made


def elementwise(call: Call) -> Result:
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
        return made("elementwise", cost, {"elements": out.elements}, dtype=dtype), out.shape
    shape: Shape = ()
    for one in operands:
        shape = broadcast(shape, one.shape)
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
    return made("elementwise", cost, {"elements": elements}, dtype=dtype), shape


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


def broadcast(one: Shape, other: Shape) -> Shape:
    width = max(len(one), len(other))
    result = []
    for a, b in zip(
        (1,) * (width - len(one)) + one, (1,) * (width - len(other)) + other, strict=True
    ):
        if a != b and a != 1 and b != 1:
            raise Unfit
        result.append(b if a == 1 else a)
    return tuple(result)


def dropout(call: Call) -> Result:
    x = call["x"]
    kept = [1.0] if call["train"].flag() is not False else []
    cost = models.streaming(x.elements, flops=2, reads=[x.size], writes=[x.size, *kept])
    return made("dropout", cost, {"elements": x.elements}, dtype=x.dtype), None


def rope(call: Call) -> Result:
    turned = [one for one in (call["query"], call["key"]) if one.is_tensor]
    if not turned:
        raise Unfit
    elements = sum(one.elements for one in turned)
    moved = 2 * sum(one.bytes for one in turned) + call["positions"].bytes
    cost = Cost(models.ROPE_FLOPS * elements, moved)
    return made("rope", cost, {"elements": elements}, dtype=turned[0].dtype), None


def copy(call: Call) -> Result:
    x, out = call["x"], call["out"]
    if out.is_tensor:
        if broadcast(x.shape, out.shape) != out.shape:
            raise Unfit
        cost, shape = Cost(0, x.bytes + out.bytes), out.shape
    else:
        written = x.size
        if "to" in call.options:
            chosen = SCALAR_TYPES.get(-1 if (number := call["dtype"].integer()) is None else number)
            written = BYTES[chosen] if chosen else nan
        cost, shape = Cost(0, x.bytes + written * x.elements), x.shape
    return made("copy", cost, {"elements": prod(shape)}, dtype=x.dtype), shape


def concatenate(call: Call) -> Result:
    tensors = call["tensors"]
    if not tensors.shapes:
        raise Unfit
    dtype = tensors.dtypes[0]
    return made("copy", Cost(0, 2 * tensors.bytes), {"elements": tensors.elements},
                 dtype=dtype), None  # fmt: skip


def fill(call: Call) -> Result:
    x = call["x"]
    return made("fill", Cost(0, x.bytes), {"elements": prod(x.shape)}, dtype=x.dtype), x.shape


def reduction(call: Call) -> Result:
    x = call["x"]
    if call["dim"].is_tensor:  # max(x, y): no reduction at all
        pair = replace(call, arguments={"x": x, "y": call["dim"]}, options={"flops": "1"})
        return elementwise(pair)
    cost = Cost(call.number("flops", 1) * prod(x.shape), x.bytes)
    return made("reduction", cost, {"elements": x.elements}, dtype=x.dtype), None


def scan(call: Call) -> Result:
    x = call["x"]
    out = 8.0 if x.dtype in KINDS else x.size  # integers accumulate in 64 bit
    cost = models.streaming(prod(x.shape), flops=1, reads=[x.size], writes=[out])
    return made("scan", cost, {"elements": x.elements}, dtype=x.dtype), x.shape


def optimizer(call: Call) -> Result:
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
    return made("optimizer", Cost(per_parameter * count, moved), dims, dtype=dtype), None


def foreach(call: Call) -> Result:
    lists = [one for one in call.arguments.values() if one.is_list]
    if not lists or not lists[0].shapes:
        raise Unfit
    first, *others = lists
    count = first.elements
    reads = 0.0 if "writes_only" in call.options else first.bytes
    moved = first.bytes + reads + sum(one.bytes for one in others)
    dims = {"elements": count, "tensors": len(first.shapes)}
    cost = Cost(call.number("flops", 1) * count, moved)
    return made("foreach", cost, dims, dtype=first.dtypes[0]), None


def foreach_norm(call: Call) -> Result:
    x = call["x"]
    if not x.is_list or not x.shapes:
        raise Unfit
    dims = {"elements": x.elements, "tensors": len(x.shapes)}
    return made("reduction", Cost(2 * x.elements, x.bytes), dims, dtype=x.dtypes[0]), None
