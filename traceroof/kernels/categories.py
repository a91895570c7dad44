"""Operator category of a GPU activity, from its name and from the operator that launched it.

The knowledge is data: `categories.toml` holds two ordered tables of patterns, one for kernel names
and one for operators, each pattern with real-looking samples that a test checks. This module only
reads a name, walks the tables and settles who is right when name and operator disagree.
`docs/categories.md` describes the order and the limits.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final, Literal, cast

import numpy as np
import pyarrow as pa

from traceroof.core import regex
from traceroof.core.dictionary import Coded, coded, factorized, together
from traceroof.core.text_search import FEW, Texts
from traceroof.core.toml_tables import toml_table

CATEGORIES: Final[tuple[str, ...]] = (
    "gemm",
    "attention",
    "conv",
    "norm",
    "softmax",
    "elementwise",
    "reduction",
    "embedding",
    "moe-routing",
    "layout",
    "communication",
    "optimizer",
    "loss",
    "pooling",
    "sort-scan",
    "random",
    "quantize",
    "memcpy",
    "memset",
    "other",
)

# A convolution launches a layout change, a GEMM a contiguous copy, a linear layer a cast to FP8.
# Such a helper is what its name says: its bytes, its limit and its fix are not the operator's.
_HELPERS: Final = frozenset({"memcpy", "memset", "communication", "layout", "quantize"})

# Families nobody else names so. An operator of a light category beside one of them is a bad link
# (shared correlation ids, an enclosing operator), so the name stays.
_HEAVY: Final = frozenset({"gemm", "conv", "attention"})

# Names every operator can launch: they say how the kernel is built, not what it is for.
_GENERIC: Final = frozenset({"elementwise", "reduction", "other"})

Overrides = Literal["all", "generic", "other"]


@dataclass(frozen=True, slots=True)
class KernelPattern:
    """One row of the kernel table.

    `pattern` is searched in the head of the name (see `head_of`) and, where `within` is given,
    that too must be found, anywhere in the full name: template arguments, mangled or not.
    """

    category: str
    family: str
    pattern: re.Pattern[str]
    within: re.Pattern[str] | None
    samples: tuple[str, ...]

    def matches(self, name: str, head: str) -> bool:
        return self.pattern.search(head) is not None and (
            self.within is None or self.within.search(name) is not None
        )


@dataclass(frozen=True, slots=True)
class OperatorPattern:
    """One row of the operator table; `pattern` is matched at the start of the operator's name.

    `overrides` says which kernel-name categories the operator outranks: `all` of them, only the
    `generic` ones (elementwise, reduction, other), or only `other`.
    """

    category: str
    family: str
    pattern: re.Pattern[str]
    overrides: Overrides
    samples: tuple[str, ...]


def category_of(name: str, operator: str | None = None) -> str:
    """The operator category of one GPU activity, always a member of `CATEGORIES`.

    `name` is the kernel (or copy) name in any spelling profilers use: demangled, mangled, with
    namespaces stripped, with `.kd` or `[clone ...]` behind it. `operator` is the innermost
    framework operator that launched it, where one is known.
    """
    return categories_of([name], [operator])[0]


def _category(named: KernelPattern | None, operator: str, fused: KernelPattern | None) -> str:
    """The category by the row that the name fits, the operator, and the row that the operator's own
    name fits."""
    by_name = named.category if named else "other"
    if not operator or by_name in _HELPERS:
        return by_name
    if operator.startswith("triton_"):  # Inductor records its kernels as operators of their own
        return fused.category if fused and by_name in _GENERIC else by_name
    known = operator_pattern_of(operator)
    if known is None or not _outranks(known, by_name):
        return by_name
    return known.category


def categories_of(
    names: Iterable[str | None], operators: Iterable[str | None] | None = None
) -> list[str]:
    """`category_of` for whole columns; each distinct (name, operator) is classified once.

    Takes lists, pandas Series and Arrow arrays. A null name is `other` unless its operator says
    more. Raises ValueError when the two columns differ in length.
    """
    texts = _texts(names)
    launched_by = _texts(operators) if operators is not None else [""] * len(texts)
    pairs = list(zip(texts, launched_by, strict=True))
    fused = (one for one in dict.fromkeys(launched_by) if one.startswith("triton_"))
    distinct = list(dict.fromkeys([*texts, *fused]))
    named = dict(zip(distinct, kernel_patterns_of(distinct), strict=True))
    known = {
        (name, operator): _category(named[name], operator, named.get(operator))
        for name, operator in dict.fromkeys(pairs)
    }
    return [known[pair] for pair in pairs]


def kernel_pattern_of(name: str) -> KernelPattern | None:
    """The first row of the kernel table that fits `name`, or None."""
    head = head_of(name)
    return next((row for row in kernel_patterns() if row.matches(name, head)), None)


def kernel_patterns_of(names: Sequence[str]) -> list[KernelPattern | None]:
    """`kernel_pattern_of` for many names: each row is searched in those that the rows before it
    left."""
    if len(names) < FEW:
        return [kernel_pattern_of(name) for name in names]
    # Thousands of instances of a template have one head.
    head, distinct = factorized(np.array([head_of(name) for name in names], dtype=object))
    heads, full = Texts(distinct.tolist()), Texts(names)
    rows = kernel_patterns()
    first = np.full(len(names), len(rows))
    for number, row in enumerate(rows):
        left = first == len(rows)
        wanted = np.zeros(len(distinct), dtype=bool)
        wanted[head[left]] = True
        fits = heads.found(row.pattern, wanted)[head] & left
        if row.within is not None and fits.any():
            fits = full.found(row.within, fits)
        first[fits] = number
    known = [*rows, None]
    return [known[number] for number in first.tolist()]


@lru_cache(maxsize=65536)
def operator_pattern_of(operator: str) -> OperatorPattern | None:
    """The first row of the operator table that fits `operator`, or None for wrappers and unknowns.

    The autograd engine's own range around a node (`autograd::engine::evaluate_function: X`) is
    read as the node.
    """
    text = operator.removeprefix("autograd::engine::evaluate_function: ")
    return next((row for row in operator_patterns() if row.pattern.match(text)), None)


def head_of(name: str) -> str:
    """The function's own qualified name: no return type, template arguments or parameters.

    `void cub::Kernel<A<B>, 4>(int)` gives `cub::Kernel`; a mangled `_ZN3cub6KernelI...` gives the
    same; anonymous namespaces and compiler suffixes go. Linear in the length of the name, and cut
    at 1,024 characters: patterns search it, and what a kernel is stands at the front.
    """
    text = name.strip()
    if text.endswith((".kd", "]")):  # as a suffix does: to look for one in every name takes longer
        text = _SUFFIX.sub("", text)
    head = _mangled_head(text) if text.startswith("_Z") else _demangled_head(text)
    return (head or text)[:_HEAD_LIMIT]


@cache
def kernel_patterns() -> tuple[KernelPattern, ...]:
    """The kernel table in match order."""
    return tuple(
        KernelPattern(
            category=row["category"],
            family=row["family"],
            pattern=regex.compile(row["pattern"], re.VERBOSE),
            within=regex.compile(row["within"], re.VERBOSE) if "within" in row else None,
            samples=tuple(row["samples"]),
        )
        for row in _tables()["kernel"]
    )


@cache
def operator_patterns() -> tuple[OperatorPattern, ...]:
    """The operator table in match order."""
    return tuple(
        OperatorPattern(
            category=row["category"],
            family=row["family"],
            pattern=regex.compile(f"(?:{row['pattern']}\n)(?![A-Za-z0-9_])", re.VERBOSE),
            overrides=cast(Overrides, row.get("overrides", "all")),
            samples=tuple(row["samples"]),
        )
        for row in _tables()["operator"]
    )


_SUFFIX = regex.compile(r"(?:\.kd)?(?: ?\[clone [^\]]{0,80}\])?$")
_ANONYMOUS = regex.compile(r"\(anonymous namespace\)::|<unnamed>::|`anonymous namespace'::")
_BRACKETS = regex.compile(r"[<>()]")
_IDENTIFIER = regex.compile(r"L?(\d{1,4})")
_HEAD_LIMIT = 1024


def _outranks(operator: OperatorPattern, by_name: str) -> bool:
    match operator.overrides:
        case "all":
            return by_name not in _HEAVY or operator.category in _HEAVY
        case "generic":
            return by_name in _GENERIC
        case "other":
            return by_name == "other"


# A return type that exists on a condition.
_CONDITIONAL, _TYPE = "std::enable_if<", ">::type "


def _demangled_head(text: str) -> str:
    """The name before its template arguments and parameters, without return type."""
    if "::" in text:
        text = _ANONYMOUS.sub("", text)
    text = text.removeprefix("void ")
    if text.startswith(_CONDITIONAL) and _TYPE in text:
        # Nsight Systems prints the comparison within without its parentheses: enable_if<T2>(int)0&&...
        text = text.split(_TYPE, 1)[1]
    parts: list[str] = []
    depth = parens = start = 0  # depth of <>, of () inside <>, where the kept piece began
    signature = False
    for found in _BRACKETS.finditer(text):
        at, sign = found.start(), found[0]
        if depth == 0:
            if sign == "<":
                parts.append(text[start:at])
                signature, depth = True, 1
            elif sign == "(":
                # "Memcpy HtoD (Pinned -> Device)" is no signature
                signature = signature or (at > 0 and text[at - 1] != " ")
                parts.append(text[start:at])
                start = len(text)
                break
        elif sign == "(":
            parens += 1
        elif sign == ")":
            parens = max(0, parens - 1)
        elif parens == 0:  # a < or > within parentheses is a comparison: enable_if<((8)>(0)), ...
            depth += 1 if sign == "<" else -1
            if depth == 0:
                start = at + 1
    if depth == 0:
        parts.append(text[start:])
    head = "".join(parts).strip()
    return head.rsplit(" ", 1)[-1] if signature else head


def _mangled_head(text: str) -> str:
    """The nested name at the start of an Itanium-mangled symbol, up to its template arguments."""
    at = 3 if text.startswith("_ZN") else 2
    parts = []
    while found := _IDENTIFIER.match(text, at):
        at = found.end() + int(found[1])
        part = text[found.end() : at]
        if not part.startswith(("_GLOBAL__N_", "_INTERNAL_")):
            parts.append(part)
    return "::".join(parts)


def _texts(column: Iterable[Any]) -> list[str]:
    """A column as text; whatever is no text (None, NaN, NA) is empty."""
    values = column.to_pylist() if hasattr(column, "to_pylist") else column
    return [value if isinstance(value, str) else "" for value in values]


@cache
def _tables() -> dict[str, Any]:
    return toml_table("traceroof.kernels", "categories.toml")


def row_categories(kernels: pa.Table) -> list[str]:
    """The category of every row of a kernel table; copies and fills by their kind."""
    found: list[str] = coded_categories(kernels).values().tolist()
    return found


def coded_categories(kernels: pa.Table) -> Coded:
    """The same as numbers: of as many rows as a trace has launches."""
    names, operators, kinds = (coded(kernels[one]) for one in ("kernel_name", "operator", "kind"))
    of_row, first = together((names.codes, operators.codes, kinds.codes))
    from_names = categories_of(names.at(first), operators.at(first))
    found = [
        category if kind in ("kernel", "graph") else str(kind)
        for category, kind in zip(from_names, kinds.at(first), strict=True)
    ]
    numbers, texts = factorized(np.array(found, dtype=object))
    return Coded(numbers.astype(np.int32)[of_row], texts.tolist())
