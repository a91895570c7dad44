"""The words of a GPU's vendor: one text of a rule, read by users of NVIDIA's GPUs and of AMD's.

Rules speak of warps, blocks, shared memory and tensor cores. On AMD the same things have other
names, which a vocabulary knows; what exists on one side only stands in a clause of its own:
``"double buffer[nvidia:  with cp.async or TMA][amd:  through LDS]"``.
"""

import re
from collections.abc import Mapping

from traceroof.core import regex

NVIDIA, AMD, INTEL = "nvidia", "amd", "intel"

_CLAUSE = regex.compile(r"\[(nvidia|amd): ([^\[\]]*)\]")

# NVIDIA's words -> AMD's, the longest first; a capital stays one. AMD calls a group of lanes a
# wavefront, so what fills the device at once is called a round there.
_AMD_WORDS: Mapping[str, str] = {
    "shared memory (LDS)": "LDS",
    "shared-memory wavefronts": "LDS cycles",
    "shared-memory": "LDS",
    "shared memory": "LDS",
    "local-memory": "scratch-memory",
    "local memory": "scratch memory",
    "multiprocessors (compute units)": "compute units",
    "multiprocessors": "compute units",
    "multiprocessor": "compute unit",
    "tensor cores (matrix cores)": "matrix cores (MFMA)",
    "tensor cores": "matrix cores",
    "tensor-core": "MFMA",
    "tensor core": "matrix core",
    "tensor pipe": "MFMA pipe",
    "tensor use": "MFMA use",
    "tensor operations": "MFMA operations",
    "tensor instructions": "MFMA instructions",
    "warp (wavefront)": "wavefront",
    "warp or wavefront": "wavefront",
    "warps": "wavefronts",
    "warp": "wavefront",
    "thread blocks": "workgroups",
    "blocks": "workgroups",
    "block": "workgroup",
    "waves": "rounds",
    "wave": "round",
    "SASS": "ISA",
    "SMs": "CUs",
    "SM": "CU",
    "CUDA graphs": "HIP graphs",
    "CUDA graph": "HIP graph",
}

# The same for Intel's (oneAPI GPU optimisation guide); DPC++ records graphs of queues.
_INTEL_WORDS: Mapping[str, str] = {
    "shared memory (LDS)": "shared local memory",
    "shared-memory": "shared-local-memory",
    "shared memory": "shared local memory",
    "multiprocessors (compute units)": "Xe cores",
    "multiprocessors": "Xe cores",
    "multiprocessor": "Xe core",
    "tensor cores (matrix cores)": "XMX engines",
    "tensor cores": "XMX engines",
    "tensor core": "XMX engine",
    "tensor-core": "XMX",
    "warp (wavefront)": "sub-group",
    "warp or wavefront": "sub-group",
    "warps": "sub-groups",
    "warp": "sub-group",
    "thread blocks": "work-groups",
    "blocks": "work-groups",
    "block": "work-group",
    "SMs": "Xe cores",
    "SM": "Xe core",
    "cudaStreamWaitEvent, hipStreamWaitEvent before": "an event wait before",
    " torch.cuda.set_sync_debug_mode('warn') names the places.": "",
    " or torch.cuda.make_graphed_callables": "",
    "torch.cuda.empty_cache": "torch.xpu.empty_cache",
    # What all back ends read, since PyTorch 2.9.
    "PYTORCH_CUDA_ALLOC_CONF": "PYTORCH_ALLOC_CONF",
    "ProfilerActivity.CUDA": "ProfilerActivity.XPU",
    "CUDA graphs": "SYCL graphs",
    "CUDA graph": "SYCL graph",
}
_WORDS: Mapping[str, Mapping[str, str]] = {AMD: _AMD_WORDS, INTEL: _INTEL_WORDS}


def _any_of(words: Mapping[str, str]) -> re.Pattern[str]:
    return regex.compile(
        r"(?<![\w-])("
        + "|".join(
            f"[{word[0]}{word[0].upper()}]{re.escape(word[1:])}"
            for word in sorted(words, key=len, reverse=True)
        )
        # "Copies block the host": the verb has no other name.
        + r")(?!\w)(?! the host)"
    )


_PATTERNS = {vendor: _any_of(words) for vendor, words in _WORDS.items()}


def said(text: str, vendor: str) -> str:
    """A text of a rule in the words of ``vendor``: "nvidia", "amd" or "intel"."""
    chosen = _CLAUSE.sub(lambda found: found.group(2) if found.group(1) == vendor else "", text)
    words = _WORDS.get(vendor)
    if words is None:
        return chosen

    def own(found: re.Match[str]) -> str:
        word = found.group(1)
        said = words.get(word) or words[word[:1].lower() + word[1:]]
        return said[:1].upper() + said[1:] if word[:1].isupper() else said

    # Names of columns in braces are no words.
    return "".join(
        part if part.startswith("{") else _PATTERNS[vendor].sub(own, part)
        for part in re.split(r"(\{[^{}]*\})", chosen)
    )


def on_card(text: str) -> str:
    """A text of a rule as its card shows it: NVIDIA's words, AMD's clauses marked."""

    def clause(found: re.Match[str]) -> str:
        vendor, words = found.groups()
        return words if vendor == NVIDIA else f" (AMD: {words.strip(' ,;')})"

    return _CLAUSE.sub(clause, text)
