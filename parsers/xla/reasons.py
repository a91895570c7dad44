"""What the profiler of XLA says about itself, in words of ours.

Its messages may hold names of hosts, paths and arguments, so that none of their text is passed on.
"""

import re
from collections.abc import Iterable

from traceroof.core import regex

# What a message speaks of -> what it says. The first that fits wins.
_KNOWN = (
    (
        regex.compile(r"insufficient.?privileges|root access", re.IGNORECASE),
        "CUPTI may not read the GPU: insufficient privileges",
    ),
    (
        regex.compile(r"multiple_subscribers|another (?:profiler|subscriber|tool)", re.IGNORECASE),
        "another profiler was attached to the GPU",
    ),
    (
        regex.compile(r"could not be loaded|symbol could not be found", re.IGNORECASE),
        "CUPTI could not be loaded",
    ),
    (regex.compile(r"\bdrop", re.IGNORECASE), "events were dropped"),
    (regex.compile(r"disabled due to", re.IGNORECASE), "CUPTI was disabled after errors"),
    (regex.compile(r"\bno gpu|gpu not (?:found|available)", re.IGNORECASE), "no GPU was found"),
    (regex.compile(r"roctracer|rocprofiler", re.IGNORECASE), "the ROCm tracer failed"),
    (regex.compile(r"cupti", re.IGNORECASE), "CUPTI failed"),
)
_CODE = regex.compile(r"\bCUPTI_ERROR_[A-Z_]{3,48}\b")
_UNKNOWN = "a message that traceroof does not know"


def reasons(messages: Iterable[str]) -> list[str]:
    """What the messages say, each thing once."""
    return list(dict.fromkeys(map(_reason, messages)))


def _reason(message: str) -> str:
    words = next((words for pattern, words in _KNOWN if pattern.search(message)), _UNKNOWN)
    code = _CODE.search(message)
    return f"{words} ({code.group()})" if code else words
