"""Frames of Python's stack: which are lines of the program."""

import sys
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from traceroof.core import regex

# "transformers/models/qwen2/modeling_qwen2.py(230): forward"; built-ins and modules have no file.
_FRAME = regex.compile(r"(?P<file>[^<>]+\.pyx?)\(\d+\): (?P<function>.+)")
# Whose lines say nothing about the program: the framework's and those of Python itself.
_FRAMEWORK = frozenset({"torch", "torch_xla", "triton", *sys.stdlib_module_names})
_PACKAGES = regex.compile(r".*/(?:site|dist)-packages/|.*/lib/python3\.\d+/")


@lru_cache(maxsize=1 << 14)
def own_line(stack: str) -> str | None:
    """The innermost line of the program in a call stack as torch of 2021 writes it: frames from
    the inside out, ``train.py(51): main;…``, each with the line that was running."""
    return next((frame for frame in stack.split(";") if _is_own(frame)), None)


@cache
def is_own_code(frame: str) -> bool:
    """Whether a frame of Python's stack is a line of the program, or of a library of models. The
    frame of a module that is imported says where it begins, which is no line of the program."""
    return _is_own(frame) and not frame.rpartition("): ")[2].startswith("<module>")


def _is_own(frame: str) -> bool:
    found = _FRAME.fullmatch(frame)
    if found is None:
        return False
    first = _PACKAGES.sub("", found["file"]).split("/")[0]
    return first.removesuffix(".py") not in _FRAMEWORK


#: Kinds of frames of Python's stack: calls of modules, and the program's own files.
MODULE: Final = 1
OWN: Final = 2
_MOST_FRAMES: Final = 1 << 14


class FrameKinds(dict[str, int]):
    """The kind of a frame by its name, for as many names as are worth remembering."""

    def of(self, names: Sequence[Any]) -> npt.NDArray[np.int8]:
        """The kinds of some frames, by what their JSON says where a writer put no text for a name."""
        try:
            return np.fromiter(map(self.__getitem__, names), dtype=np.int8, count=len(names))
        except (TypeError, AttributeError):
            return self.of([str(name) for name in names])

    def __missing__(self, name: str) -> int:
        if len(self) >= _MOST_FRAMES:
            self.clear()
        kind = MODULE if name.startswith("nn.Module") else OWN if is_own_code(name) else 0
        self[name] = kind
        return kind
