"""A diagnosis as JSON: the contract ``traceroof/diagnosis/1`` (``docs/diagnosis.schema.json``)."""

import json
import math
from typing import Any

from traceroof.diagnosis import Diagnosis


def render(diagnosis: Diagnosis, *, top: int | None = None) -> str:
    """The diagnosis as JSON; ``top`` cuts kernels and findings when it is given."""
    return json.dumps(_plain(diagnosis.to_dict(top)), indent=2, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """Only what JSON has: no NaN or infinity (unknown is null), no tuples, no numpy numbers."""
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
