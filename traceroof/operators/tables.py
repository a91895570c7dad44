"""Models of what reads or writes rows of tables: embeddings, gathers, scatters, losses, caches."""

from math import prod

from traceroof.operators import closed_forms as models
from traceroof.operators.closed_forms import Cost
from traceroof.operators.elementwise import broadcast
from traceroof.operators.operands import (
    Call,
    Unfit,
)
from traceroof.operators.work import Result, made


def cross_entropy(call: Call) -> Result:
    x, target = call["x"], call["target"]
    if len(x.shape) != 2 or target.shape != x.shape[:1]:
        raise Unfit
    cost = Cost(models.CROSS_ENTROPY_FLOPS * x.elements, x.bytes + target.bytes)
    dims = {"R": x.shape[0], "C": x.shape[1]}
    return made("cross-entropy", cost, dims, dtype=x.dtype), None


def gather_loss(call: Call) -> Result:
    x, target = call["x"], call["target"]
    count = target.elements
    if not target.is_tensor or len(x.shape) < 2:
        raise Unfit
    cost = Cost(count, target.bytes + x.size * count)
    return made("loss", cost, {"R": count, "C": x.shape[1]}, dtype=x.dtype), None


def pair_loss(call: Call) -> Result:
    x, y = call["x"], call["y"]
    shape = broadcast(x.shape, y.shape)
    cost = Cost(call.number("flops") * prod(shape), x.bytes + y.bytes)
    return made("loss", cost, {"elements": prod(shape)}, dtype=x.dtype), None


def embedding(call: Call) -> Result:
    w, index = call["w"], call["index"]
    if len(w.shape) != 2 or not index.is_tensor:
        raise Unfit
    tokens, dim = index.elements, w.shape[1]
    cost = models.embedding(tokens, dim, size=w.size, index_size=index.size)
    return made("embedding", cost, {"T": tokens, "D": dim, "V": w.shape[0]}, dtype=w.dtype), (
        *index.shape,
        dim,
    )


def embedding_backward(call: Call) -> Result:
    grad, index = call["grad"], call["index"]
    tokens, dim = index.elements, grad.shape[-1] if grad.shape else 0
    if not index.is_tensor or grad.elements != tokens * dim:
        raise Unfit
    rows = call["num_weights"].integer()
    # The dense gradient of the whole table is written; which rows repeat is not recorded.
    table = grad.size * rows * dim if rows is not None else 0
    cost = Cost(tokens * dim, grad.bytes + index.bytes + table)
    dims = {"T": tokens, "D": dim, **({"V": rows} if rows is not None else {})}
    return made("embedding backward", cost, dims, dtype=grad.dtype), None


def embedding_bag(call: Call) -> Result:
    w, index, offsets = call["w"], call["index"], call["offsets"]
    if len(w.shape) != 2 or not index.is_tensor or not offsets.is_tensor:
        raise Unfit
    tokens, dim, bags = index.elements, w.shape[1], offsets.elements
    moved = index.bytes + offsets.bytes + w.size * dim * (tokens + bags)
    dims = {"T": tokens, "D": dim, "V": w.shape[0], "bags": bags}
    return made("embedding", Cost(tokens * dim, moved), dims, dtype=w.dtype), None


def index_select(call: Call) -> Result:
    x, index = call["x"], call["index"]
    dim = call["dim"].integer()
    if dim is None and len(x.shape) == 1:
        dim = 0
    if dim is None or not index.is_tensor or not -len(x.shape) <= dim < len(x.shape):
        raise Unfit
    rows = x.shape[dim]
    elements = x.elements // rows * index.elements if rows else 0
    cost = Cost(0, index.bytes + 2 * x.size * elements)
    return made("gather", cost, {"elements": elements}, dtype=x.dtype), None


def gather(call: Call) -> Result:
    x, index = call["x"], call["index"]
    if not x.is_tensor or not index.is_tensor:
        raise Unfit
    cost = Cost(0, index.bytes + 2 * x.size * index.elements)
    return made("gather", cost, {"elements": index.elements}, dtype=x.dtype), index.shape


def scatter(call: Call) -> Result:
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
    return made("scatter", cost, {"elements": touched}, dtype=x.dtype), None


def kv_cache_write(call: Call) -> Result:
    key, value, cache_, slots = (
        call[name] for name in ("key", "value", "key_cache", "slot_mapping")
    )
    elements = prod(key.shape) + prod(value.shape)
    moved = key.bytes + value.bytes + cache_.size * elements + slots.bytes
    dims = {"T": key.shape[0], "elements": elements}
    return made("kv-cache write", Cost(0, moved), dims, dtype=key.dtype), None
