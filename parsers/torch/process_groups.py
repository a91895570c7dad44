"""What process groups are called."""

from collections.abc import Mapping
from typing import Any, Final

# Descriptions that say nothing.
_NO_DESCRIPTION: Final = ("", "default_pg", "undefined", "None")


def described(name: str, description: str) -> str:
    """A process group with what the framework calls its kind: "tp 3"; its name alone where that
    says nothing, and the other way round."""
    if description in _NO_DESCRIPTION:
        return name or description
    return f"{description} {name}".strip()


def descriptions(metadata: Mapping[str, Any]) -> dict[str, str]:
    """The groups that ``pg_config`` of a trace describes, by name."""
    distributed = metadata.get("distributedInfo")
    listed = distributed.get("pg_config") if isinstance(distributed, dict) else None
    found = {}
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, dict) and isinstance(one.get("pg_name"), str | int):
            name = str(one["pg_name"])
            found[name] = described(name, str(one.get("pg_desc") or ""))
    return found
