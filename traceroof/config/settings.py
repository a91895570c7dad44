"""Settings as data: the keys that exist, and what their values must be."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from traceroof.config.own_devices import checked_row, device_named
from traceroof.config.values import fits, listed_of, near, number, plain, text
from traceroof.core.units import percent, quantity
from traceroof.errors import TraceroofError
from traceroof.hardware.devices import Device
from traceroof.rule import SEVERITIES, SEVERITY_STEPS, Rule, Severity

#: Who suppresses a finding that the user does not want.
BY_CONFIGURATION = "configuration"

# Tables whose keys are settings of their own, so that files are merged within them.
_TABLES: Mapping[str, tuple[str, ...]] = {
    "rules": ("off",),
    "severity": tuple(one for one in SEVERITIES if one != "info"),
    "gates": ("diagnose", "compare", "history"),
}
# Tables with names of the user's choice or of rules.
_NAMED = ("thresholds", "devices")
_KEYS = ("device", "store", *_TABLES, *_NAMED, "accept")


@dataclass(frozen=True)
class Entry:
    """The value of one key, and where it was set (a file, an option)."""

    value: Any
    origin: str


@dataclass(frozen=True)
class Off:
    """Rules that are not wanted: everywhere, or on kernels or categories whose name fits."""

    rule: str
    kernel: str | None = None
    category: str | None = None

    @property
    def everywhere(self) -> bool:
        """Whether the rules are not judged at all."""
        return self.kernel is None and self.category is None

    def __str__(self) -> str:
        limits = [f"{name} {value}" for name, value in self._limits() if value is not None]
        return f"{self.rule} on {', '.join(limits)}" if limits else self.rule

    def _limits(self) -> tuple[tuple[str, str | None], ...]:
        return ("kernel", self.kernel), ("category", self.category)


@dataclass(frozen=True)
class Accepted:
    """A regression that is known and wanted: of kernels whose name fits, until a day, and why."""

    kernel: str
    until: date | None
    reason: str


@dataclass(frozen=True)
class Settings:
    """What the user set; what is empty or None has its default.

    off: rules that are not wanted. thresholds: rule -> threshold -> number, in the unit of its
    column. severity: severity -> least share of the time, 0-1. gates: command -> its gates.
    devices: GPUs of the user's own. peaks: rates for this once (``devices.DTYPES`` and
    ``bandwidth``), per second. entries: key -> value as written, with its origin.
    """

    device: str | None = None
    store: Path | str | None = None
    off: tuple[Off, ...] = ()
    thresholds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    severity: Mapping[Severity, float] = field(default_factory=dict)
    gates: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    accept: tuple[Accepted, ...] = ()
    devices: tuple[Device, ...] = ()
    peaks: Mapping[str, float] = field(default_factory=dict)
    entries: Mapping[str, Entry] = field(default_factory=dict)

    @property
    def files(self) -> tuple[str, ...]:
        """Where something was set, the strongest first."""
        return tuple(dict.fromkeys(entry.origin for entry in self.entries.values()))

    @property
    def steps(self) -> Mapping[Severity, float]:
        """From which share of the time, 0-1, on a finding is that severe, the most severe first."""
        return {**SEVERITY_STEPS, **self.severity}

    def rules(self, known: Sequence[Rule]) -> tuple[Rule, ...]:
        """The rules that are judged, with the thresholds that were set.

        Raises TraceroofError for a rule or threshold that does not exist.
        """
        off = [one.rule for one in self.off if one.everywhere]
        limited = self.limited(known)
        ids = [rule.id for rule in known]
        for one in self.off:
            if not any(fnmatchcase(id, one.rule) for id in ids):
                raise self._unknown("rules.off", f"no rule is called {one.rule}", one.rule, ids)
        return tuple(
            rule for rule in limited if not any(fnmatchcase(rule.id, pattern) for pattern in off)
        )

    def limited(self, known: Sequence[Rule]) -> tuple[Rule, ...]:
        """All rules, with the thresholds that were set; raises as ``rules``."""
        ids = [rule.id for rule in known]
        for id, limits in self.thresholds.items():
            found = next((rule for rule in known if rule.id == id), None)
            if found is None:
                raise self._unknown(f"thresholds.{id}", f"no rule is called {id}", id, ids)
            for name in limits:
                if name not in found.limits:
                    says = f"{id} has no threshold {name}"
                    raise self._unknown(f"thresholds.{id}.{name}", says, name, list(found.limits))
        return tuple(
            rule.with_limits(self.thresholds[rule.id]) if rule.id in self.thresholds else rule
            for rule in known
        )

    def unwanted(self, rule: str, names: Sequence[str], categories: Sequence[Any]) -> list[bool]:
        """For each subject of a rule whether it is unwanted there; empty where it is nowhere.

        names: of the subjects; categories: of kernels, the names themselves for categories.
        """
        limits = [one for one in self.off if not one.everywhere and fnmatchcase(rule, one.rule)]
        if not limits:
            return []
        return [
            any(
                (one.kernel is None or fits(one.kernel, name))
                and (one.category is None or fnmatchcase(str(category), one.category))
                for one in limits
            )
            for name, category in zip(names, categories, strict=True)
        ]

    def with_peaks(self, peaks: Mapping[str, float], origin: str) -> "Settings":
        """The same with peaks for this once."""
        if not peaks:
            return self
        given = {f"peak.{name}": Entry(rate, origin) for name, rate in peaks.items()}
        return replace(self, peaks=peaks, entries={**given, **self.entries})

    def words(self) -> str:
        """What of a result the user's settings change, in one line; empty where nothing does."""
        parts = []
        if self.peaks:
            rates = (
                f"{name} {quantity(rate, 'byte/s' if name == 'bandwidth' else 'FLOP/s')}"
                for name, rate in self.peaks.items()
            )
            parts.append(f"peaks {', '.join(rates)}")
        if self.off:
            parts.append(f"off: {', '.join(map(str, self.off))}")
        limits = [f"{id}.{one}" for id, limits in self.thresholds.items() for one in limits]
        if limits:
            parts.append(f"thresholds of {', '.join(limits)}")
        if self.severity:
            steps = (f"{name} from {percent(share)}" for name, share in self.severity.items())
            parts.append(f"severity {', '.join(steps)}")
        if not parts:
            return ""
        return f"Settings ({', '.join(self.files)}): {'; '.join(parts)}."

    def to_dict(self) -> dict[str, Any] | None:
        """The JSON form: every key that was set, its value, and where; None where nothing was."""
        if not self.entries:
            return None
        return {
            key: {"value": entry.value, "from": entry.origin} for key, entry in self.entries.items()
        }

    def _unknown(self, key: str, says: str, word: str, known: Sequence[str]) -> TraceroofError:
        entry = next((one for name, one in self.entries.items() if name.startswith(key)), None)
        return TraceroofError(f"{entry.origin if entry else 'settings'}: {key}: {says}",
                              near(word, known))  # fmt: skip


#: Nothing was set.
NONE = Settings()


def entries_of(table: Mapping[str, Any], file: Path) -> dict[str, Entry]:
    """Every key that a file sets. Raises TraceroofError for one that does not exist."""
    found: dict[str, Entry] = {}
    origin = shown(file)
    for key, value in table.items():
        if key not in _KEYS:
            raise TraceroofError(f"{origin}: unknown key {key}", near(key, _KEYS))
        if key in (*_TABLES, *_NAMED) and not isinstance(value, dict):
            raise TraceroofError(f"{origin}: {key} is not a table", f"write [{key}]")
        if key in _TABLES:
            for name, inner in value.items():
                if name not in _TABLES[key]:
                    raise TraceroofError(
                        f"{origin}: unknown key {key}.{name}", near(name, _TABLES[key])
                    )
                found[f"{key}.{name}"] = Entry(plain(inner), origin)
        elif key == "thresholds":
            for rule, limits in value.items():
                if not isinstance(limits, dict):
                    raise TraceroofError(
                        f"{origin}: thresholds.{rule} is not a table",
                        f"write [thresholds.{rule}], then threshold = number",
                    )
                for name, number in limits.items():
                    found[f"thresholds.{rule}.{name}"] = Entry(plain(number), origin)
        elif key == "devices":
            for name, row in value.items():
                checked_row(name, row, origin)
                found[f"devices.{name}"] = Entry(row, origin)
        elif key == "store":
            store = text(value, f"{origin}: store")
            found[key] = Entry(store if "://" in store else str(file.parent / store), origin)
        else:
            found[key] = Entry(plain(value), origin)
    return found


def shown(file: Path) -> str:
    """A file as people call it: as seen from the working folder where that is shorter."""
    near_by = os.path.relpath(file)
    return near_by if len(near_by) < len(str(file)) else str(file)


def settings_of(entries: Mapping[str, Entry]) -> Settings:
    """The settings that keys make. Raises TraceroofError for a value that is none."""
    thresholds: dict[str, dict[str, float]] = {}
    severity: dict[Severity, float] = {}
    gates: dict[str, tuple[str, ...]] = {}
    own: list[Device] = []
    more: dict[str, Any] = {}
    for key, entry in entries.items():
        where, value = f"{entry.origin}: {key}", entry.value
        table, _, name = key.partition(".")
        if table == "thresholds":
            rule, _, limit = name.rpartition(".")
            thresholds.setdefault(rule, {})[limit] = number(value, where)
        elif table == "severity":
            severity[_severity(name)] = number(value, where) / 100
        elif table == "gates":
            listed = value if isinstance(value, list) else [value]
            gates[name] = tuple(text(one, where) for one in listed)
        elif table == "devices":
            own.append(device_named(name, value, where))
        elif key == "rules.off":
            more["off"] = tuple(_off(one, where) for one in listed_of(value, where))
        elif key == "accept":
            more["accept"] = tuple(_accepted(one, where) for one in listed_of(value, where))
        elif key == "device":
            more["device"] = text(value, where)
        elif key == "store":
            store = text(value, where)
            more["store"] = store if "://" in store else Path(store)
    steps = [severity.get(one, default) for one, default in SEVERITY_STEPS.items()]
    if steps != sorted(steps, reverse=True):
        origin = next(entry.origin for key, entry in entries.items() if key.startswith("severity."))
        shown_steps = (
            f"{name} {percent(share)}" for name, share in zip(SEVERITY_STEPS, steps, strict=True)
        )
        raise TraceroofError(
            f"{origin}: severity: {', '.join(shown_steps)} is not in descending order",
            "they are percent of the time: 10, 3 and 0.5 by default",
        )
    rows = {key: replace(one, value=plain(one.value)) for key, one in entries.items()}
    return Settings(
        **more, thresholds=thresholds, severity=severity, gates=gates, devices=tuple(own),
        entries=rows,
    )  # fmt: skip


def _off(value: Any, where: str) -> Off:
    if isinstance(value, str):
        return Off(value)
    if not isinstance(value, dict) or "rule" not in value:
        raise TraceroofError(
            f"{where}: {value!r} names no rule",
            'write "small-grid", "stall-*" or { rule = "small-grid", kernel = "*scan*" }',
        )
    for name in value:
        if name not in ("rule", "kernel", "category"):
            raise TraceroofError(
                f"{where}: unknown key {name}", near(name, ("rule", "kernel", "category"))
            )
    return Off(**{name: text(one, where) for name, one in value.items()})


def _accepted(value: Any, where: str) -> Accepted:
    keys = ("kernel", "until", "reason")
    if not isinstance(value, dict):
        raise TraceroofError(f"{where}: {value!r} is not a table", "write [[accept]]")
    for name in value:
        if name not in keys:
            raise TraceroofError(f"{where}: unknown key {name}", near(name, keys))
    for name in ("kernel", "reason"):
        if name not in value:
            raise TraceroofError(f"{where}: an entry lacks {name}", f"it has {', '.join(keys)}")
    until = value.get("until")
    if isinstance(until, str):
        try:
            until = date.fromisoformat(until)
        except ValueError:
            raise TraceroofError(f"{where}: until = {until!r} is not a day",
                                 "write until = 2027-01-31") from None  # fmt: skip
    return Accepted(text(value["kernel"], where), until, text(value["reason"], where))


def _severity(name: str) -> Severity:
    return next(one for one in SEVERITIES if one == name)
