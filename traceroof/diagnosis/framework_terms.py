"""The words of the program's framework: rules name PyTorch's means; traces of XLA need those of JAX."""

import re
from collections.abc import Mapping

from traceroof.core import regex

#: What JAX and TensorFlow run on; "" stands for PyTorch and for programs without a framework.
XLA = "xla"
_FORMATS: Mapping[str, str] = {"xplane": XLA}

# What rules say -> what it is in JAX. Each stands in some rule, which a test checks.
_IN_JAX: Mapping[str, str] = {
    "replay the step as a graph": (
        "let XLA replay the step as command buffers (--xla_gpu_enable_command_buffer)"
    ),
    "fuse chains of small operators (torch.compile), use foreach or fused optimizers": (
        "put the whole step under one jax.jit (TensorFlow: tf.function with jit_compile=True)"
    ),
    "fuse chains of small operators (torch.compile)": "put the whole step under one jax.jit",
    "in PyTorch torch.compile(mode='reduce-overhead') or torch.cuda.make_graphed_callables; the "
    "graph mode of the serving engine": (
        "in XLA --xla_gpu_enable_command_buffer, with the whole step under one jax.jit"
    ),
    "torch.compile for elementwise chains and norms, fused or foreach optimizers, fused attention "
    "or expert kernels, one batched operator for a loop": (
        "one jax.jit around the whole step, jax.vmap or jax.lax.scan for a loop, fused attention or "
        "expert kernels"
    ),
    "a neighbour (torch.compile)": "a neighbour, under one jax.jit",
    "(torch.compile does that)": "(XLA does that under one jax.jit)",
    "(torch.profiler.schedule with wait and warm-up steps; nsys --capture-range=cudaProfilerApi; "
    "rocprofv3 --collection-period)": "(jax.profiler.start_trace after them)",
    "(TORCHINDUCTOR_CACHE_DIR, TRITON_CACHE_DIR, CUDA_CACHE_PATH": "(JAX_COMPILATION_CACHE_DIR",
    "after a warm-up step of the profiler's schedule, without stacks, shapes and memory": (
        "after warm-up, without Python calls (jax.profiler.ProfileOptions: python_tracer_level = 0)"
    ),
}
_ANY = regex.compile("|".join(re.escape(one) for one in sorted(_IN_JAX, key=len, reverse=True)))


def framework_of(formats: str) -> str:
    """The framework of a recording's format ("xplane", "xplane+nsight-compute")."""
    return next((_FORMATS[one] for one in formats.split("+") if one in _FORMATS), "")


def in_terms_of(text: str, framework: str) -> str:
    """A text of a rule with the framework's means."""
    if framework != XLA:
        return text
    return _ANY.sub(lambda found: _IN_JAX[found.group()], text)
