"""What a log puts before each line of Nsight Compute's output, and is none of it.

A line's number (``grep -n``, ``cat -n``, a viewer), a time stamp (CI, containers, loggers), a label
(``torchrun``, ``srun --label``, Ray): what stands before the lines that only Nsight Compute prints
is the same but for its digits, and stands before nearly every other line, too.
"""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from traceroof.core import regex

# Lines that only Nsight Compute prints: the one way to know where its own text begins.
_OWN = regex.compile(
    r"Section: [A-Z]|Metric Name +Metric |==(?:PROF|ERROR|WARNING)== |"
    r'"(?:ID","Process ID|Process ID","|Kernel Name",")'
)
# The indentation of sections and tables on its pages.
_INDENT = 4
_LONGEST = 160
_LINES = 500
# Some lines lack it: a name that a terminal broke, an empty line.
_SHARE = 0.9
# Parts of seconds do not grow with the time before them as whole numbers.
_NUMBERS = regex.compile(r"(?<![:.,]\d\d[.,])\d+")
_DIGITS = regex.compile(r" *\d+")
# grep puts "-" behind the numbers of the lines around a match.
_GREP = regex.compile(r"(\\d\+)(?::|\\-)$")


def line_prefix(lines: Sequence[str]) -> re.Pattern[str] | None:
    """The pattern of what stands before each of these lines; None where nothing does.

    The labels of several processes whose lines alternate are none: their pages cannot be read as
    one.
    """
    lines = [line for line in lines[:_LINES] if line.strip()]
    found = Counter(
        _spelling(line[: own.start()])
        for line in lines
        if (own := _OWN.search(line, 0, _LONGEST)) is not None
    )
    spelling = max(found, key=lambda one: found[one], default="")
    if not spelling:
        return None
    pattern = re.compile(spelling)
    heads = [match[0] for line in lines if (match := pattern.match(line))]
    if len(heads) < 3 or len(heads) < _SHARE * len(lines):
        return None
    numbers = [[int(one) for one in _NUMBERS.findall(head)] for head in heads]
    backwards = sum(left > right for left, right in pairwise(numbers))
    return pattern if backwards <= (1 - _SHARE) / 2 * len(heads) else None


def _spelling(before: str) -> str:
    """The pattern of a text that differs in its digits only; "" where there is no text."""
    if before.endswith(" " * _INDENT):
        before = before[:-_INDENT]
    body = before.rstrip(" ")
    if not body.strip():
        return ""
    parts, end = list[str](), 0
    for digits in _DIGITS.finditer(body):
        parts += [re.escape(body[end : digits.start()]), r" *\d+"]
        end = digits.end()
    parts.append(re.escape(body[end:]))
    spelling = _GREP.sub(r"\1[:-]", "".join(parts))
    # Blanks at the end of a line are lost in many copies.
    return rf"\A{spelling} {{0,{len(before) - len(body)}}}"
