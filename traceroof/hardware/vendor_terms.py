"""The words of a GPU's vendor: one text of a rule, read by users of NVIDIA's GPUs and of AMD's.

Rules speak of warps, blocks, shared memory and tensor cores. On AMD the same things have other
names, which a vocabulary knows; what exists on one side only stands in a clause of its own:
``"double buffer[nvidia:  with cp.async or TMA][amd:  through LDS]"``.
"""

import re
from collections.abc import Mapping

from traceroof.core import regex

NVIDIA, AMD = "nvidia", "amd"

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

_WORD = regex.compile(
    r"(?<![\w-])("
    + "|".join(
        f"[{word[0]}{word[0].upper()}]{re.escape(word[1:])}"
        for word in sorted(_AMD_WORDS, key=len, reverse=True)
    )
    + r")(?!\w)"
)


def said(text: str, vendor: str) -> str:
    """A text of a rule in the words of ``vendor``: "nvidia" or "amd"."""
    chosen = _CLAUSE.sub(lambda found: found.group(2) if found.group(1) == vendor else "", text)
    if vendor != AMD:
        return chosen
    # Names of columns in braces are no words.
    return "".join(
        part if part.startswith("{") else _WORD.sub(_in_amd_words, part)
        for part in re.split(r"(\{[^{}]*\})", chosen)
    )


def _in_amd_words(found: re.Match[str]) -> str:
    word = found.group(1)
    said = _AMD_WORDS.get(word) or _AMD_WORDS[word[:1].lower() + word[1:]]
    return said[:1].upper() + said[1:] if word[:1].isupper() else said


def on_card(text: str) -> str:
    """A text of a rule as its card shows it: NVIDIA's words, AMD's clauses marked."""

    def clause(found: re.Match[str]) -> str:
        vendor, words = found.groups()
        return words if vendor == NVIDIA else f" (AMD: {words.strip(' ,;')})"

    return _CLAUSE.sub(clause, text)
