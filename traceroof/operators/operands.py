"""The arguments of an operator call, as a profiler records them.

Profilers list an operator's arguments by position: dimensions, element type, and the value of
what is no tensor. ``operators.tsv`` gives the positions their names; here a recorded list becomes
a ``Call`` whose arguments are reached by those names.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import nan, prod
from typing import Any

Shape = tuple[int, ...]

#: Element types as profilers print them, without ``c10::`` and the like -> (our name, bytes).
#: Our names are those of the device table. A 4-bit pair type holds two values in its byte.
ELEMENT_TYPES: Mapping[str, tuple[str, float]] = {
    "double": ("fp64", 8),
    "float64": ("fp64", 8),
    "float": ("fp32", 4),
    "float32": ("fp32", 4),
    "half": ("fp16", 2),
    "float16": ("fp16", 2),
    "bfloat16": ("bf16", 2),
    "float8_e4m3fn": ("fp8", 1),
    "float8_e4m3fnuz": ("fp8", 1),
    "float8_e5m2": ("fp8", 1),
    "float8_e5m2fnuz": ("fp8", 1),
    "float8_e8m0fnu": ("fp8", 1),
    "float4_e2m1fn_x2": ("fp4", 1),
    "long int": ("int64", 8),
    "long": ("int64", 8),
    "long long": ("int64", 8),
    "int64": ("int64", 8),
    "unsigned long": ("int64", 8),
    "uint64": ("int64", 8),
    "int": ("int32", 4),
    "int32": ("int32", 4),
    "unsigned int": ("int32", 4),
    "uint32": ("int32", 4),
    "short int": ("int16", 2),
    "short": ("int16", 2),
    "int16": ("int16", 2),
    "unsigned short": ("int16", 2),
    "uint16": ("int16", 2),
    "signed char": ("int8", 1),
    "char": ("int8", 1),
    "int8": ("int8", 1),
    "unsigned char": ("uint8", 1),
    "byte": ("uint8", 1),
    "uint8": ("uint8", 1),
    "qint8": ("int8", 1),
    "quint8": ("uint8", 1),
    "qint32": ("int32", 4),
    "bool": ("bool", 1),
    "complex<half>": ("complex32", 4),
    "complex<float>": ("complex64", 8),
    "complex<double>": ("complex128", 16),
}

BYTES: Mapping[str, float] = dict(ELEMENT_TYPES.values())

# c10::ScalarType by number, as a dtype argument is recorded.
SCALAR_TYPES: Mapping[int, str] = {
    0: "uint8", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 5: "fp16", 6: "fp32", 7: "fp64",
    8: "complex32", 9: "complex64", 10: "complex128", 11: "bool", 15: "bf16",
    23: "fp8", 24: "fp8", 25: "fp8", 26: "fp8",
}  # fmt: skip

# What a profiler prints as the type of an argument that is no tensor. With an empty shape,
# `Double` and the like are numbers of the TorchScript era.
_NO_TENSOR = frozenset(
    {"", "Scalar", "ScalarList", "GenericList", "TensorList", "Int", "Bool", "Double", "Float"}
)

# Type promotion: the later kind wins, then the wider type.
KINDS: Mapping[str, int] = {"bool": 0, "uint8": 1, "int8": 1, "int16": 1, "int32": 1, "int64": 1}
COMPLEX = frozenset({"complex32", "complex64", "complex128"})


def element_type(name: str) -> tuple[str, float] | None:
    """Our name and the bytes of an element type as a profiler prints it (``c10::BFloat16``,
    ``torch.float16``, ``long int``); None for what is no element type."""
    text = name.removeprefix("c10::").removeprefix("at::").removeprefix("torch.")
    text = text.replace("complex<c10::", "complex<").strip().lower()
    return ELEMENT_TYPES.get(text)


def element_bytes(name: str) -> float | None:
    """Bytes of an element of a type as a profiler prints it; None for an unknown type."""
    found = element_type(name)
    return found[1] if found else None


class Unfit(Exception):
    """The shapes are not what the model needs."""


@dataclass(frozen=True)
class Entry:
    """One row of operators.tsv."""

    operator: str
    model: str
    options: Mapping[str, str]
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Argument:
    """One argument of a call: a tensor, a list of tensors, or something else.

    shapes: one entry a tensor; empty where the argument is no tensor. dtypes: our name per
    tensor, None where unknown. value: what was recorded of a number or a list; "" if nothing.
    kind: the recorded type, "" for an argument that was not given, None if types were not.
    """

    shapes: tuple[Shape, ...] = ()
    dtypes: tuple[str | None, ...] = ()
    value: Any = ""
    kind: Any = ""
    is_list: bool = False

    @property
    def is_tensor(self) -> bool:
        return bool(self.shapes) and not self.is_list

    @property
    def shape(self) -> Shape:
        if not self.is_tensor:
            raise Unfit
        return self.shapes[0]

    @property
    def dtype(self) -> str | None:
        return self.dtypes[0] if self.dtypes else None

    @property
    def size(self) -> float:
        """Bytes of an element; NaN where the type is unknown."""
        return BYTES[self.dtype] if self.dtype else nan

    @property
    def elements(self) -> int:
        return sum(prod(shape) for shape in self.shapes)

    @property
    def bytes(self) -> float:
        return sum(
            prod(shape) * (BYTES[dtype] if dtype else nan)
            for shape, dtype in zip(self.shapes, self.dtypes, strict=True)
        )

    def integer(self) -> int | None:
        numbers = self.integers()
        return numbers[0] if numbers and len(numbers) == 1 else None

    def integers(self) -> tuple[int, ...] | None:
        """The recorded whole numbers, of ``3`` or ``[3, 3]``; None where none were recorded."""
        value = self.value
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                return None
        values = value if isinstance(value, list) else [value]
        if not values or not all(type(one) is int for one in values):
            return None
        return tuple(values)

    def flag(self) -> bool | None:
        if isinstance(self.value, bool):
            return self.value
        return {"True": True, "False": False, "true": True, "false": False}.get(str(self.value))

    def flags(self) -> tuple[bool, ...] | None:
        """The recorded truth values of ``[True, False]``; None where none were recorded."""
        if isinstance(self.value, list):
            return tuple(bool(one) for one in self.value)
        words = str(self.value).strip("[]").split(",")
        found = [{"True": True, "False": False}.get(word.strip()) for word in words]
        return None if None in found else tuple(bool(one) for one in found)


ABSENT = Argument()


@dataclass(frozen=True)
class Call:
    """One call: its arguments by the names of operators.tsv."""

    arguments: Mapping[str, Argument]
    options: Mapping[str, str]
    training: bool
    in_place: bool
    has_values: bool

    def __getitem__(self, name: str) -> Argument:
        return self.arguments.get(name, ABSENT)

    def tensors(self) -> Iterator[Argument]:
        return (one for one in self.arguments.values() if one.is_tensor)

    def number(self, option: str, otherwise: float = 0) -> float:
        return float(self.options.get(option, otherwise))


@cache
def entries(operator: str) -> tuple[Entry, ...]:
    """The rows for an operator; an in-place form that has none takes those of its plain form."""
    table = _table()
    if operator not in table and operator.endswith("_") and not operator.endswith("__"):
        operator = operator[:-1]
    return table.get(operator, ())


def distance(known: int, given: int) -> tuple[bool, int]:
    """How ill a schema of ``known`` arguments fits ``given`` ones: too short is worst."""
    return known < given, abs(known - given)


@cache
def _table() -> Mapping[str, tuple[Entry, ...]]:
    text = files("traceroof.operators").joinpath("operators.tsv").read_text("utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    rows: dict[str, tuple[Entry, ...]] = {}
    for line in lines[1:]:
        operator, model, options, arguments = line.split("\t")
        entry = Entry(
            operator,
            model,
            dict(option.split("=") for option in options.split()),
            tuple(arguments.split()),
        )
        rows[operator] = (*rows.get(operator, ()), entry)
    return rows


def operators() -> tuple[str, ...]:
    """The operators that have a model, in the table's order."""
    return tuple(_table())


def readings(
    entry: Entry,
    shapes: Sequence[Any],
    dtypes: Sequence[Any],
    concrete: Sequence[Any] | None,
    training: bool,
    in_place: bool,
) -> Iterator[tuple[Call, tuple[Argument, ...]]]:
    """The ways to lay recorded arguments over the schema, the likeliest first.

    Fewer arguments than the schema has: an older version, the first n. More: an ``out=`` form
    appends its outputs; the TorchScript interpreter lists its whole stack, of which the last n
    are the call's (facebookresearch/HolisticTraceAnalysis samples; both seen in real traces).
    """
    arguments = _arguments(shapes, dtypes, concrete)
    if arguments is None:
        return
    known, given = len(entry.arguments), len(arguments)
    starts = [0] if given <= known else [0, given - known]
    if given > known + _MOST_OUTPUTS:
        starts = [given - known]
    for start in starts:
        named = dict(zip(entry.arguments, arguments[start : start + known], strict=False))
        call = Call(named, entry.options, training, in_place, concrete is not None)
        needed = entry.options.get("needs", "").split(",")
        if all(call[name].is_tensor for name in needed if name):
            yield call, tuple(arguments[known:]) if start == 0 else ()


_MOST_OUTPUTS = 3


def may_be_output(argument: Argument, result: Shape | None) -> bool:
    """Whether an argument behind the schema's last can be an ``out=`` tensor: of the result's
    shape, or still empty. Models that do not know their result accept any tensor. An argument
    that was not given is one that a newer schema added."""
    if not argument.is_tensor:
        return bool(argument.kind == "" and argument.value == "")
    return result is None or argument.shape == result or argument.elements == 0


def _arguments(
    shapes: Sequence[Any], dtypes: Sequence[Any], concrete: Sequence[Any] | None
) -> list[Argument] | None:
    typed = len(dtypes) == len(shapes)
    valued = concrete is not None and len(concrete) == len(shapes)
    result = []
    for at, dims in enumerate(shapes):
        kind = dtypes[at] if typed else None
        value = concrete[at] if valued and concrete is not None else ""
        argument = _argument(dims, kind, value)
        if argument is None:
            return None
        result.append(argument)
    return result


def _argument(dims: Any, kind: Any, value: Any) -> Argument | None:
    if not isinstance(dims, list | tuple):
        return None
    if any(isinstance(one, list | tuple) for one in dims):
        shapes = [_shape(one) for one in dims]
        if None in shapes:
            return None
        kinds = kind if isinstance(kind, list | tuple) and len(kind) == len(dims) else None
        dtypes = [_dtype(kinds[at]) if kinds else None for at in range(len(dims))]
        return Argument(
            tuple(shape for shape in shapes if shape is not None), tuple(dtypes), value, kind, True
        )
    shape = _shape(dims)
    if shape is None:
        return None
    if kind == "TensorList":  # old traces flatten the list away: the shapes are lost
        return Argument(value=value, kind=kind, is_list=True)
    if not shape and (not isinstance(kind, str) or kind in _NO_TENSOR or _dtype(kind) is None):
        return Argument(value=value, kind=kind)
    return Argument((shape,), (_dtype(kind),), value, kind)


def _shape(dims: Any) -> Shape | None:
    if not isinstance(dims, list | tuple):
        return None
    if not all(type(size) is int and size >= 0 for size in dims):
        return None
    return tuple(dims)


def _dtype(kind: Any) -> str | None:
    found = element_type(kind) if isinstance(kind, str) else None
    return found[0] if found else None
