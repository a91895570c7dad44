"""Models of matrix products: GEMM, batched, packed and grouped, einsum."""

from math import nan, prod

from traceroof.operators import closed_forms as models
from traceroof.operators.closed_forms import Cost
from traceroof.operators.elementwise import broadcast
from traceroof.operators.operands import (
    BYTES,
    SCALAR_TYPES,
    Argument,
    Call,
    Shape,
    Unfit,
)
from traceroof.operators.work import Result, Unit, made


def gemm(call: Call) -> Result:
    a, b, c = call["a"], call["b"], call["c"]
    left, right = a.shape, b.shape
    a_packed, b_packed = (_packed(call, name) for name in ("a", "b"))
    if call.options.get("weight") == "nk":
        if len(right) != 2:
            raise Unfit
        right = (right[1], right[0])
    if not left or not right:
        raise Unfit
    left = (*left[:-1], left[-1] * a_packed)
    right = (*right[:-2], right[-2] * b_packed, right[-1]) if len(right) > 1 else right
    batch, m, n, k, a_batch, b_batch, result = _product(left, right)
    size = _gemm_output_size(call, a, b)
    bias = 0
    if c.is_tensor and call["beta"].value not in ("0", "0.", 0, 0.0):
        bias = c.elements
    cost = models.gemm(
        m,
        n,
        k,
        a_size=a.size / a_packed,
        b_size=b.size / b_packed,
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
    a_scales, b_scales = _block_scales(call["scale_a"], m), _block_scales(call["scale_b"], n)
    cost = cost._replace(bytes=cost.bytes + a_scales + b_scales)
    weight = b.bytes + b_scales if len(b.shape) == 2 else None
    return made(
        "gemm",
        cost,
        {**dims, "M": m, "N": n, "K": k},
        dtype="fp4" if a_packed > 1 else a.dtype,
        unit=unit,
        weight_bytes=weight,
    ), result


def _packed(call: Call, name: str) -> int:
    """Values in an element of an operand: two of 4 bits in one of Float4_e2m1fn_x2, and in a byte
    where the operator packs that operand."""
    packs = name in call.options.get("fp4", "").split(",") and call[name].dtype in ("uint8", "int8")
    return 2 if packs or call[name].dtype == "fp4" else 1


def _block_scales(scales: Argument, rows: int) -> float:
    """Bytes of scales that change along K as well; one a row, or one for all, is not counted."""
    return scales.bytes if scales.is_tensor and scales.elements > rows else 0.0


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
    lead = broadcast(left[:-2], right[:-2])
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


def packed_gemm(call: Call) -> Result:
    a, b, scales = call["a"], call["b"], call["scales"]
    if len(a.shape) != 2 or len(scales.shape) != 3:
        raise Unfit
    (m, k), n = a.shape, scales.shape[1]
    if b.elements * b.size != n * k / 2:  # 4 bits a weight
        raise Unfit
    weight = b.bytes + scales.bytes
    cost = Cost(2 * m * n * k, a.bytes + weight + a.size * m * n)
    dims = {"M": m, "N": n, "K": k}
    return made("gemm", cost, dims, dtype=a.dtype, unit="tensor", weight_bytes=weight), (m, n)


def grouped_gemm(call: Call) -> Result:
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
        return made("grouped gemm", cost, dims, dtype=a.dtype, unit="tensor"), (experts, m, n)
    else:
        raise Unfit
    work = made("grouped gemm", cost, dims, dtype=a.dtype, unit="tensor", weight_bytes=weight)
    return work, result


def einsum(call: Call) -> Result:
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
    return made("gemm", cost, dims, dtype=dtype, unit="tensor"), result
