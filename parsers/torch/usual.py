"""Events as Kineto usually writes them, decoded into no more than is used of each category.

One union of small classes, told apart by ``cat`` while the text is parsed: what nobody reads of an
event (the arguments of Python's frames, flow arrows) never becomes an object. Whatever is not
usual, be it one odd number, is left to the classes of ``events``, which take anything.
"""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

from traceroof.parsers.torch.event_columns import LAUNCH_FIELDS
from traceroof.parsers.torch.events import EXACT_BELOW, Args, Event, ExactEvent

# Times that a double holds to the nanosecond.
_Time = Annotated[float, Meta(gt=-EXACT_BELOW, lt=EXACT_BELOW)]

_COLLECTIVE = (
    "collective", "elements_in", "elements_out", "group_size", "dtype", "group_name",
    "group_description", "group_ranks",
)  # fmt: skip
# Fields of ``Args`` by category, in the order in which Kineto writes them.
_OPERATOR = (*_COLLECTIVE, "sequence", "values", "dtypes", "shapes", "finished", "stack")
_CALL = ("correlation", "grid", "block", "shared_memory", "bytes", "size", "rank")
_GPU = ("device", "context", "stream", "correlation", "bytes", *LAUNCH_FIELDS[2:], *_COLLECTIVE)
_OTHER = ("device", "stream", "correlation")

_ARGUMENTS: Final = {
    "cpu_op": _OPERATOR,
    "cuda_runtime": _CALL,
    "cuda_driver": _CALL,
    "hip_runtime": _CALL,
    "kernel": _GPU,
    "gpu_memcpy": _GPU,
    "gpu_memset": _GPU,
    "user_annotation": (),
    "gpu_user_annotation": _OTHER,
    "cuda_sync": _OTHER,
    "overhead": _OTHER,
    "python_function": (),
}
# Nothing of these is used.
_UNUSED: Final = ("ac2g", "fwdbwd", "async_cpu_to_gpu", "cpu_instant_event", "Trace")


def _class(category: str, names: tuple[str, ...]) -> type[Struct]:
    """The class of the complete events of a category."""
    fields: list[Any] = [
        ("ph", Literal["X"]), ("name", str), ("pid", int), ("tid", int), ("ts", _Time),
        ("dur", _Time),
    ]  # fmt: skip
    if not names:
        # Arguments that nobody reads never become an object.
        return msgspec.defstruct(
            "Event", fields, gc=False, tag_field="cat", tag=category, namespace={"args": None}
        )
    known = {one.name: one for one in msgspec.structs.fields(Args)}
    found = [known[name] for name in dict.fromkeys(names)]
    arguments = msgspec.defstruct(
        "Args",
        [
            (one.name, one.type, msgspec.field(default=one.default, name=one.encode_name))
            for one in found
        ],
        gc=False,
    )
    fields.append(("args", arguments | None, None))
    return msgspec.defstruct("Event", fields, gc=False, tag_field="cat", tag=category)


#: The category of each class.
USUAL: Final[dict[type[Struct], str]] = {
    **{_class(category, names): category for category, names in _ARGUMENTS.items()},
    **{
        msgspec.defstruct("Unused", [("ph", str)], gc=False, tag_field="cat", tag=one): one
        for one in _UNUSED
    },
}

# So many pieces in a row may hold something unusual before all are taken for unusual.
_PATIENCE: Final = 8


class Decoder:
    """Decodes pieces of a trace; turns to exact times, for good, once a double does not hold
    them."""

    def __init__(self) -> None:
        union: Any = None
        for one in USUAL:
            union = one if union is None else union | one
        self._usual = msgspec.json.Decoder(list[union])
        self._any = msgspec.json.Decoder(list[Event])
        self._exact = msgspec.json.Decoder(list[ExactEvent])
        self._patience = _PATIENCE
        self.exact = False

    def __call__(self, piece: Any) -> list[Any]:
        if self._patience:
            try:
                usual: list[Any] = self._usual.decode(piece)
                self._patience = _PATIENCE
                return usual
            except msgspec.ValidationError:
                self._patience -= 1
        if self.exact:
            return self._exact.decode(piece)
        events = self._any.decode(piece)
        # Epoch microseconds with decimals were written in spring 2024; any event may be the first.
        for event in events:
            if type(event.ts) is float and not -EXACT_BELOW < event.ts < EXACT_BELOW:
                self.exact = True
                return self._exact.decode(piece)
        return events
