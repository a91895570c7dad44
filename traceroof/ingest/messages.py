"""Protocol-buffer messages by field number, for formats whose ``.proto`` is not ours to ship.

A message is described in one line a field, ``number name type``; only the fields that are read are
named, all others are skipped by the decoder. ``*`` before the type: repeated. A type is a scalar of
protobuf (``int64``, ``string``, …) or another message of the same description.
"""

from collections.abc import Mapping
from typing import Any

_SCALARS = (
    "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string",
    "bytes", "uint32", "sfixed32", "sfixed64", "sint32", "sint64",
)  # fmt: skip


def messages(package: str, described: Mapping[str, str]) -> Mapping[str, Any]:
    """Message classes by name. package: any name, unique to the format.

    Text fields are bytes: profilers cut names anywhere, and one bad letter must not lose a file.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package)
    for name, lines in described.items():
        message = file.message_type.add(name=name)
        for line in lines.strip().splitlines():
            number, field, type_name = line.split()
            entry = message.field.add(name=field, number=int(number))
            repeated = type_name.startswith("*")
            entry.label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
            type_name = type_name.lstrip("*")
            if type_name in _SCALARS:
                scalar = "bytes" if type_name == "string" else type_name
                entry.type = getattr(kinds, f"TYPE_{scalar.upper()}")
                if repeated and scalar not in ("bytes",):
                    entry.options.packed = True
            else:
                entry.type = kinds.TYPE_MESSAGE
                entry.type_name = f".{package}.{type_name}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
        for name in described
    }
