"""Kernel names: one key for the spellings of one kernel, and short forms that stay distinct."""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from traceroof.core import regex
from traceroof.core.units import one_line

# One kernel has several spellings: c++filt writes "(anonymous namespace)" and "> >", CUDA tools
# "<unnamed>" and "(int)4"; Nsight Compute 2025 drops namespaces and leaves "unnamed>::". Beside each
# what a name must hold for it: most names hold none of it, and looking for that takes no time.
_SPELLINGS = (
    (
        ("namespace", "unnamed"),
        regex.compile(r"\(anonymous namespace\)|(?<!\w)<unnamed>|\bunnamed>"),
        "{anonymous}",
    ),
    (
        ("int)", "long)", "short)", "char)", "bool)"),
        regex.compile(r"\((?:unsigned |signed )?(?:int|long|long long|short|char|bool)\)(?=-?\d)"),
        "",
    ),
    (
        (" >", " ,", " )", " *", " &", "< ", ", ", "( "),
        regex.compile(r"\s+(?=[>,)*&])|(?<=[<,(])\s+"),
        "",
    ),
    (("[clone ", ".kd"), regex.compile(r"\s*(?:\[clone [^\]]*\]|\.kd)+\s*$"), ""),
)
_LAUNCH = regex.compile(r" \[[^\[\]]*\]$")
_CLONE = regex.compile(r"(?:\s*\[clone [^\]]*\]|\.kd)+$")
_BRACKETS, _PARENTHESES = regex.compile(r"[<>()]"), regex.compile(r"[()]")
# Longer ones are no names that a compiler made; demangling them could take long.
_LONGEST_SYMBOL = 16_384
_ELLIPSIS = "…"


def _is_word(name: str) -> bool:
    """Whether a name is one word, as those of C and of Triton are: it has one spelling."""
    return name.isascii() and name.isidentifier()


@lru_cache(maxsize=65536)
def key(name: str) -> str:
    """One spelling for all spellings of a kernel name, template arguments kept."""
    if _is_word(name):
        return name
    name = one_line(name)
    for marks, pattern, replacement in _SPELLINGS:
        for mark in marks:
            if mark in name:
                name = pattern.sub(replacement, name)
                break
    return name.strip()


@lru_cache(maxsize=65536)
def demangled(name: str) -> str:
    """A name as people read it: an Itanium-mangled symbol (``_ZN2at…``) is demangled.

    Any other name, and a symbol that is cut or damaged, stays as it is.
    """
    symbol = _CLONE.sub("", name.strip())
    if not symbol.startswith("_Z") or len(symbol) > _LONGEST_SYMBOL:
        return name
    try:
        from cpp_demangle import demangle

        return str(demangle(symbol))
    except (ImportError, ValueError):
        return name


@lru_cache(maxsize=65536)
def function(name: str) -> str:
    """The function with its template arguments: no return type, parameters or namespaces.

    ``void at::native::f<float, (int)4>(float *)`` is ``f<float, 4>``.
    """
    if _is_word(name):
        return name
    name = key(name)
    if name.startswith("("):
        return name  # "(name not in the file)" and the like
    # Triton appends what a launch hook says of it: "matmul [M=8192, N=8192]".
    launch = _LAUNCH.search(name)
    if launch is not None and launch.start():
        return function(name[: launch.start()]) + name[launch.start() :]
    head, arguments = _split_template(without_parameters(name))
    # A return type ends at the last blank outside brackets, a namespace at the last "::".
    head = head.rstrip()
    head = head.rsplit(" ", 1)[-1] if " " in head else head
    head = head.rsplit("::", 1)[-1] or head
    return (head + arguments) or name


def short_names(names: Iterable[str], width: int) -> Mapping[str, str]:
    """Names of at most ``width`` characters (at least 12), every two of them different.

    Mangled names are demangled. The function name stays readable; what gives way is the middle of the template arguments.
    Names that would become the same are told apart by the place where they differ.
    """
    distinct = list(dict.fromkeys(names))
    width = max(width, 12)
    short = {name: _elide(function(demangled(name)), width) for name in distinct}
    for clashing in _clashes(short):
        short.update(_apart(clashing, width, taken=set(short.values())))
    return short


def _clashes(short: Mapping[str, str]) -> list[list[str]]:
    groups: dict[str, list[str]] = {}
    for name, text in short.items():
        groups.setdefault(text, []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def _apart(names: list[str], width: int, taken: set[str]) -> dict[str, str]:
    """Short forms around the first difference; numbered where even that is not enough."""
    full = [key(demangled(name)) for name in names]
    start = _common_prefix(full)
    result: dict[str, str] = {}
    for number, (name, text) in enumerate(zip(names, full, strict=True), start=1):
        head = function(demangled(name))[: width // 3]
        room = width - len(head) - 2
        candidate = f"{head}{_ELLIPSIS}{text[max(start - 4, 0) :][:room]}"
        candidate = candidate if len(candidate) <= width else candidate[:width]
        if candidate in taken:
            mark = f"#{number}"
            while candidate in taken:
                candidate = _elide(function(demangled(name)), width - len(mark)) + mark
                number += len(names)
                mark = f"#{number}"
        taken.add(candidate)
        result[name] = candidate
    return result


def _common_prefix(texts: list[str]) -> int:
    first, last = min(texts), max(texts)
    for position, (a, b) in enumerate(zip(first, last, strict=False)):
        if a != b:
            return position
    return min(len(first), len(last))


def _elide(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    head, arguments = _split_template(text)
    room = width - 1
    # Keep the whole function name where it leaves something for the arguments.
    front = min(len(head) + 1, room - 6) if arguments else room // 2
    front = max(front, room // 2)
    back = room - front
    return text[:front] + _ELLIPSIS + (text[-back:] if back else "")


def without_parameters(name: str) -> str:
    """Cut the parameter list: from the first parenthesis that lies in no template arguments."""
    depth, after = 0, 0
    for found in _BRACKETS.finditer(name):
        letter, position = found[0], found.start()
        if position < after:
            continue
        if letter == "<":
            depth += 1
        elif letter == ">":
            depth = max(depth - 1, 0)
        elif letter == "(":
            if depth == 0 and position > 0:
                return name[:position]
            # "(8)>(0)" inside template arguments: a comparison, not the end of them.
            after = _closing(name, position)
    return name


def _closing(name: str, opening: int) -> int:
    """Place of the parenthesis that closes the one at ``opening``; the last one if none does."""
    depth = 0
    for found in _PARENTHESES.finditer(name, opening):
        depth += 1 if found[0] == "(" else -1
        if depth == 0:
            return found.start()
    return len(name) - 1


def _split_template(name: str) -> tuple[str, str]:
    """Split ``f<a, b>`` at its outermost bracket; names that merely start with one stay whole.

    ``enable_if<…>::type kernel<int>`` splits before ``<int>``: only the last top-level template
    argument list belongs to the function.
    """
    if not name.endswith(">"):
        return name, ""
    depth = parentheses = 0
    for found in reversed([*_BRACKETS.finditer(name)]):
        letter, position = found[0], found.start()
        parentheses += (letter == ")") - (letter == "(")
        if parentheses > 0:
            continue
        if letter == ">":
            depth += 1
        elif letter == "<":
            depth -= 1
            if depth == 0:
                return (name, "") if position == 0 else (name[:position], name[position:])
    return name, ""
