"""Models of convolutions, forward and backward."""

from collections.abc import Mapping
from math import nan, prod

from traceroof.operators import closed_forms as models
from traceroof.operators.closed_forms import Cost
from traceroof.operators.operands import (
    Call,
    Shape,
    Unfit,
)
from traceroof.operators.work import Result, made


def convolution(call: Call) -> Result:
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
        made(model, cost, dims, dtype=x.dtype, unit="tensor", weight_bytes=w.bytes),
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


def convolution_backward(call: Call) -> Result:
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
    return made("convolution backward", cost, dims, dtype=grad.dtype, unit="tensor"), None
