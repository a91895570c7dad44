"""From the arguments of an operator call to its FLOPs and bytes.

One function per model of ``operators.tsv``, one module per family: it takes the sizes out of the
shapes, checks that they belong together, and hands them to ``closed_forms``. A function raises
``Unfit`` when the call is not what the model describes; an unknown element type or mask becomes NaN
on the way and None in the ``Work``.
"""

from collections.abc import Callable, Mapping

from traceroof.operators.attention import attention, attention_backward
from traceroof.operators.convolutions import convolution, convolution_backward
from traceroof.operators.elementwise import (
    concatenate,
    copy,
    dropout,
    elementwise,
    fill,
    foreach,
    foreach_norm,
    optimizer,
    reduction,
    rope,
    scan,
)
from traceroof.operators.normalisation import norm, norm_backward, softmax, softmax_backward
from traceroof.operators.operands import (
    Call,
)
from traceroof.operators.products import einsum, gemm, grouped_gemm, packed_gemm
from traceroof.operators.tables import (
    cross_entropy,
    embedding,
    embedding_backward,
    embedding_bag,
    gather,
    gather_loss,
    index_select,
    kv_cache_write,
    pair_loss,
    scatter,
)
from traceroof.operators.work import Result

MODELS: Mapping[str, Callable[[Call], Result]] = {
    "gemm": gemm,
    "packed-gemm": packed_gemm,
    "grouped-gemm": grouped_gemm,
    "einsum": einsum,
    "convolution": convolution,
    "convolution-backward": convolution_backward,
    "attention": attention,
    "attention-backward": attention_backward,
    "norm": norm,
    "norm-backward": norm_backward,
    "softmax": softmax,
    "softmax-backward": softmax_backward,
    "elementwise": elementwise,
    "dropout": dropout,
    "rope": rope,
    "copy": copy,
    "concatenate": concatenate,
    "fill": fill,
    "reduction": reduction,
    "scan": scan,
    "cross-entropy": cross_entropy,
    "gather-loss": gather_loss,
    "pair-loss": pair_loss,
    "embedding": embedding,
    "embedding-backward": embedding_backward,
    "embedding-bag": embedding_bag,
    "index-select": index_select,
    "gather": gather,
    "scatter": scatter,
    "kv-cache-write": kv_cache_write,
    "optimizer": optimizer,
    "foreach": foreach,
    "foreach-norm": foreach_norm,
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
