"""A diagnosis or a comparison as JSON: the contracts ``traceroof/diagnosis/1`` and
``traceroof/comparison/1`` (``docs/diagnosis.schema.json``, ``docs/comparison.schema.json``)."""

import json
import math
from typing import Any, Protocol


class Contract(Protocol):
    """What has a JSON form: a ``Diagnosis``, a ``Comparison``."""

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """The JSON form; ``top`` cuts kernels and findings when given."""


def render(what: Contract, *, top: int | None = None) -> str:
    """A diagnosis or comparison as JSON; ``top`` cuts kernels and findings when it is given."""
    import msgspec  # the library's own indentation is in Python, three times as slow

    made = what.to_dict(top)
    try:
        found = json.dumps(made, allow_nan=False)
    except ValueError:
        found = json.dumps(_plain(made), allow_nan=False)
    text = msgspec.json.format(found, indent=2) + "\n"
    # Only texts hold it; a CI runner obeys ##[error] wherever it reads it.
    return text.replace("##", "#\\u0023")


def _plain(value: Any) -> Any:
    """With null in place of NaN and infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
