"""The inputs of an operator in few words, as they fit a line."""

import json
from collections.abc import Iterable
from itertools import groupby
from typing import Any

# What profilers write for an input that is no tensor.
_NO_TENSOR = ("", "Scalar", "ScalarList", "GenericList", "None")


def shapes(recorded: str) -> str:
    """``3 × 16x559x16x64, 1024``: the shapes of the tensors among the inputs, equal neighbours once.

    recorded: as the profiler wrote them, a list of lists; returned as it is where it is none.
    """
    listed = _list(recorded)
    if listed is None:
        return recorded
    return _counted(_shape(one) for one in listed if one not in ([], "", None))


def types(recorded: str) -> str:
    """``3 × BFloat16``: the element types of the tensors, without namespaces."""
    listed = _list(recorded)
    if listed is None:
        return recorded
    named = [str(one) for one in listed if str(one) not in _NO_TENSOR]
    return _counted(name.rsplit("::", 1)[-1] for name in named)


def _list(recorded: str) -> list[Any] | None:
    try:
        found = json.loads(recorded)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, list) else None


def _shape(one: Any) -> str:
    if isinstance(one, list) and all(isinstance(size, int) for size in one):
        return "x".join(map(str, one))
    if isinstance(one, list):  # a list of tensors
        return f"({_counted(_shape(inner) for inner in one if inner not in ([], None))})"
    return str(one)


def _counted(words: Iterable[str]) -> str:
    runs = [(word, len(list(same))) for word, same in groupby(words)]
    return ", ".join(f"{count} × {word}" if count > 1 else word for word, count in runs)
