"""What an NVTX range is: an operator, a step, or a named part of the program.

Told by domain and text, as frameworks write them: PyTorch's ``emit_nvtx`` (name, sequence number,
operator id, sizes), XLA (``TSL``: modules and thunks), TensorRT and CCCL (a domain each), vLLM's
layerwise ranges (a printed dict), serving passes of vLLM, SGLang and TensorRT-LLM. What nobody is
known to write is a named part of the program.
"""

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Final


class Role(IntEnum):
    """What a range stands for."""

    RANGE = 0
    OPERATOR = 1
    #: A call of a library in an operator: says nothing that its kernels do not.
    LIBRARY = 2


@dataclass(frozen=True)
class Meaning:
    """What a range means. sequence: autograd's number, None without one. shapes: JSON, or ''."""

    role: Role
    name: str
    sequence: int | None = None
    shapes: str = ""


# ``getNvtxStr`` of PyTorch (torch/csrc/autograd/profiler_legacy.cpp): every part may be missing,
# but what has none of them was written by somebody else.
_EMITTED: Final = re.compile(
    r"(?P<name>.*?)(?:, seq = (?P<seq>-?\d+))?(?:, op_id = \d+)?"
    r"(?:, sizes = (?P<sizes>\[.*?\]))?(?:, input_op_ids = .*)?",
    re.DOTALL,
)
_OPERATOR: Final = re.compile(r"\w+(::[\w.]+)*|autograd::engine::evaluate_function: .*")
# record_function ranges that look like operators.
_ANNOTATION: Final = re.compile(r"(FSDP|FSDP2|DDP|DistributedDataParallel)::")

_MODULE_DICT: Final = re.compile(r"""\{\s*['"]Module['"]:\s*['"](?P<name>[^'"]*)['"]""")
_XLA: Final = re.compile(r"(?P<kind>XlaModule|Thunk):#(?P<fields>.*)#$")
_XLA_FIELD: Final = {
    "XlaModule": re.compile(r"hlo_module=([^,#]+)"),
    "Thunk": re.compile(r"hlo_op=([^,#]+)"),
}
_DOMAINS: Final = {
    "TensorRT": Role.OPERATOR,
    "CCCL": Role.OPERATOR,
    "NCCL": Role.LIBRARY,
}
_PASS_OF_TENSORRT: Final = re.compile(r"ExecutionContext::")


def meaning_of(domain: str, text: str) -> Meaning:
    """What a range of a domain ('' for the default one) means."""
    if ", op_id = " in text or ", seq = " in text or ", sizes = " in text:
        return _emitted(text)
    if found := _XLA.match(text.removeprefix("TSL:")):
        return _of_xla(found["kind"], found["fields"], text)
    if found := _MODULE_DICT.match(text):
        return Meaning(Role.RANGE, found["name"] or "model")
    role = _DOMAINS.get(domain, Role.RANGE)
    if role is Role.OPERATOR and _PASS_OF_TENSORRT.match(text):
        role = Role.RANGE
    return Meaning(role, text)


def _emitted(text: str) -> Meaning:
    found = _EMITTED.fullmatch(text)
    if found is None:
        return Meaning(Role.RANGE, text)
    name = found["name"]
    is_operator = _OPERATOR.fullmatch(name) and not _ANNOTATION.match(name)
    sequence = int(found["seq"]) if found["seq"] else None
    if not is_operator:
        return Meaning(Role.RANGE, name)
    return Meaning(Role.OPERATOR, name, sequence, found["sizes"] or "")


def _of_xla(kind: str, fields: str, text: str) -> Meaning:
    named = _XLA_FIELD[kind].search(fields)
    role = Role.OPERATOR if kind == "Thunk" else Role.RANGE
    return Meaning(role, named[1] if named else text)


#: What steps are called, the surest names first: the first kind that a program repeats is its steps.
STEPS: Final[tuple[re.Pattern[str], ...]] = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # PyTorch's profiler schedule.
        r"ProfilerStep\s*#\s*\d+",
        # Passes of vLLM, SGLang, TensorRT-LLM (Python and C++), TensorRT.
        (
            r"execute_\w+.*|(?:decode|prefill|extend|step|mixed)\[.*\]"
            r"|\[Executor\] _forward_step \d+.*|executeStep\b.*|ExecutionContext::(?:execute|enqueue)\w*"
        ),
        # What people write.
        (
            r"(?:(?:train(?:ing)?|eval(?:uation)?|val(?:idation)?|test|inference|decod(?:e|ing)|global"
            r"|simulation|time|sampl(?:e|ing)|denois(?:e|ing)|diffusion|solver|main)[ _-]?)?"
            r"(?:step|iter|iteration|mini-?batch|micro-?batch|batch)(?:[ _:#=.-]*[\[(]?\d+.*)?"
        ),
    )
)

#: Phases by the names of ranges; the innermost range that names one decides.
PHASES: Final[tuple[tuple[str, re.Pattern[str]], ...]] = (
    ("optimizer", re.compile(r"(?<![A-Za-z_])(optim(izer)?|zero_grad)(?![A-Za-z])", re.IGNORECASE)),
    ("backward", re.compile(r"(?<![A-Za-z_])(backward|bwd)(?![A-Za-z])", re.IGNORECASE)),
    ("forward", re.compile(r"(?<![A-Za-z_])(forward|fwd)(?![A-Za-z])", re.IGNORECASE)),
)

#: Operators of the backward pass, as PyTorch names them.
BACKWARD: Final = re.compile(r"autograd::engine::evaluate_function|Backward\d*$")


def phase_of(names: str) -> str | None:
    """The phase that a chain of ranges (outermost first, joined by ' > ') names."""
    for name in reversed(names.split(" > ")):
        for phase, pattern in PHASES:
            if pattern.search(name):
                return phase
    return None
