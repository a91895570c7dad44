"""The requests in a pass over the model, as serving engines annotate them.

vLLM writes ``execute_context_1(888)_generation_16(16)`` (newer versions count query and key tokens
inside the brackets: ``sq888sk9000...``), older versions ``execute_new_1_cached_16``, SGLang
``step[DECODE bs=16]``.
"""

from dataclasses import dataclass
from functools import lru_cache

from traceroof.core import regex

_PASS = regex.compile(r"^execute_(?:\d+_)?context_(\d+)\(([^)]*)\)_generation_(\d+)\(([^)]*)\)")

_OLD_PASS = regex.compile(r"^execute_new_(\d+)_cached_(\d+)")

_SGLANG = regex.compile(r"^step\[(\w+)(?: bs=(\d+))?(?: toks=(\d+))?")

_QUERY_TOKENS = regex.compile(r"^(?:sq)?(\d+)")

_KEYS = regex.compile(r"^sq\d+sk(\d+)")


@dataclass(frozen=True)
class Pass:
    """The requests in one pass: prompts read, sequences continued, and their tokens (NaN where the
    annotation does not count them). contexts: keys that the sequences attend to, all together."""

    prompts: int
    sequences: int
    prompt_tokens: float
    new_tokens: float
    contexts: float = float("nan")

    @property
    def kind(self) -> str:
        """ "prefill", "decode", "mixed", or "" for an empty pass."""
        if self.prompts:
            return "mixed" if self.sequences else "prefill"
        return "decode" if self.sequences else ""


@lru_cache(maxsize=65536)
def pass_of(name: str) -> Pass | None:
    """What the annotation of a pass says; None for any other name."""
    if not name.startswith(("execute_", "step[")):  # most names of steps
        return None
    if found := _PASS.match(name):
        prompts, sequences = int(found[1]), int(found[3])
        keys = _KEYS.match(found[4])
        contexts = float(keys[1]) if keys else float("nan")
        return Pass(prompts, sequences, _tokens(found[2]), _tokens(found[4]), contexts)
    if found := _OLD_PASS.match(name):
        return Pass(int(found[1]), int(found[2]), float("nan"), float(found[2]))
    if found := _SGLANG.match(name):
        count = int(found[2] or 1)
        tokens = float(found[3]) if found[3] else float("nan")
        match found[1].upper():
            case "DECODE" | "TARGET_VERIFY":
                return Pass(0, count, 0.0, float(count))
            case "EXTEND" | "PREFILL" | "SPLIT_PREFILL":
                return Pass(count, 0, tokens, 0.0)
            case "MIXED":
                return Pass(1, count, tokens, float(count))
    return None


def _tokens(text: str) -> float:
    """Query tokens in the brackets: 888 of ``888_788544`` and of ``sq888sk9000sqsq..``."""
    found = _QUERY_TOKENS.match(text)
    return float(found[1]) if found else float("nan")
