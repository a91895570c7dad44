"""The settings in force, for reading: every key, its value, and where it was set."""

import json
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from traceroof.config.settings import Settings
from traceroof.report.common.console import grid, terminal_width, to_text
from traceroof.rule import SEVERITY_STEPS

Row = tuple[str, Any, str]

_DEFAULT = "default"


def rows(settings: Settings, store: tuple[str, str] | None) -> list[Row]:
    """(key, value, where it was set). store: what goes before the store of the settings."""
    found = {key: (entry.value, entry.origin) for key, entry in settings.entries.items()}
    if store is not None:
        found["store"] = (str(store[0]), store[1])
    defaults: dict[str, Any] = {
        "device": None,
        "store": ".traceroof",
        "rules.off": [],
        **{f"severity.{name}": share * 100 for name, share in SEVERITY_STEPS.items()},
        "gates.diagnose": None,
        "gates.compare": [],
        "accept": [],
    }
    usual = {key: (value, _DEFAULT) for key, value in defaults.items()}
    return [(key, *pair) for key, pair in {**usual, **found}.items()]


def table(listed: Sequence[Row]) -> str:
    """A line per key."""
    lines = [(key, _words(value), origin) for key, value, origin in listed]

    def draw(console: Console) -> None:
        console.print(grid(("setting", "from", "value"), [(k, o, v) for k, v, o in lines]))

    return to_text(draw, width=terminal_width())


def as_json(listed: Sequence[Row]) -> str:
    """An object: key -> value and where it was set."""
    found = {key: {"value": value, "from": origin} for key, value, origin in listed}
    return json.dumps(found, indent=2) + "\n"


def _words(value: Any) -> str:
    if value is None or value == []:
        return "-"
    if isinstance(value, dict):
        return ", ".join(f"{key} = {_words(one)}" for key, one in value.items())
    if isinstance(value, list):
        return "; ".join(_words(one) for one in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
