"""Results of a report as launches: the same entry that the CSV pages use."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from traceroof.core import regex
from traceroof.parsers.nsight.formulas import Floats
from traceroof.parsers.nsight.launches import Launch, Launches
from traceroof.parsers.nsight.report_blocks import Found, Headers, decoded, report_messages
from traceroof.parsers.nsight.report_metrics import Ints, Mask, parsed, read_metrics
from traceroof.parsers.nsight.report_source import LEAST_ADDRESS, ReportSource
from traceroof.parsers.nsight.report_units import unit_of

_LEVELS = {1: "INF", 2: "WRN", 3: "ERR", 4: "OPT"}
_SCOPES = {1: "local", 2: "global"}
_DEFAULT_DOMAIN = "<default domain>"
# @section:Identifier:Name@ and @url:Text:https://…@, which ncu prints as the name alone.
_LINK = regex.compile(
    r"@(?:section:[^:@\n]{1,100}:([^@\n]{1,300})|url:([^:@\n]{1,300}):[^@\n]{1,500})@"
)


@dataclass
class Names:
    """What the numbers of metric names stand for in one report, and where their rows go."""

    texts: list[str]
    into: Launches

    def __post_init__(self) -> None:
        first: dict[str, int] = {}
        # Tables of several blocks may repeat a name.
        same = [first.setdefault(text, number) for number, text in enumerate(self.texts)]
        # The last place is that of a number without a name.
        self.same = np.array([*same, -1], np.int64)
        self.number = first
        self._slots = np.full(len(self.texts), -1, np.int64)

    def slots(self, names: Ints) -> Ints:
        """The kinds of metric row of these names."""
        for name in names[self._slots[names] < 0].tolist():
            text = self.texts[name]
            self._slots[name] = self.into.slot("", "", text, unit_of(text))
        return self._slots[names]


@dataclass(frozen=True)
class _Measured:
    """The metrics of one result, each name once: name -1 is none. value: NaN where it is no number.
    lists: name -> values per instruction. messages: name -> message, of those that hold text."""

    names: Names
    name: Ints
    value: Floats
    lists: dict[int, bytes]
    messages: dict[int, Any]

    def text(self, metric: str) -> str | None:
        """The value of one metric; None where it has none."""
        number = self.names.number.get(metric, -1)
        message = self.messages.get(number)
        if message is not None:
            return value_text(message.value)
        found = self.value[self.name == number]
        return _real(float(found[0])) if len(found) and not np.isnan(found[0]) else None


def is_read(result: Any, names: Names) -> bool:
    """Whether a result of a range has the layout of a launch: measurements whose names are known."""
    if result is None or not len(result.metrics):
        return False
    found = read_metrics(result.metrics, report_messages()["Metric"])
    if found.name.min() < 0 or found.name.max() >= len(names.texts):
        return False
    measured = sum("__" in names.texts[name] for name in found.name.tolist())
    return 2 * measured > len(found.name) and bool(np.isfinite(found.value).any())


def add_result(
    found: Found, number: int, headers: Headers, names: Names, source: ReportSource
) -> None:
    """Add one result: a launch with its metrics and what the rules say of it.

    number: its position in the report, which ncu prints as the launch's ID. source: takes what is
    counted per instruction.
    """
    result, process, into = found.message, found.process, names.into
    metrics = _named_metrics(result, names)
    name = decoded(result.demangled or result.function or result.mangled)
    launch = into.add_launch(
        Launch(
            name=name or ("range" if found.is_range else ""),
            # Reports of one thread give the same number for both.
            process_id=str(process) if process else _present(result, "thread"),
            process_name=headers.processes.get(process or result.thread, ""),
            launch_id=str(number),
            context=_present(result, "context"),
            stream=_present(result, "stream"),
            device=_device(metrics),
            compute_capability=_capability(metrics),
            grid=_extent(result, "grid"),
            block=_extent(result, "block"),
            range=_ranges(result.nvtx),
        )
    )
    plain = ~np.isnan(metrics.value)
    into.add_numbers(launch, names.slots(metrics.name[plain]), metrics.value[plain])
    of_messages = names.slots(np.array(list(metrics.messages), np.int64)).tolist()
    for slot, message in zip(of_messages, metrics.messages.values(), strict=True):
        into.add_metric(launch, slot, _cell(message))
    lists = {names.texts[number_of]: raw for number_of, raw in metrics.lists.items()}
    called = metrics.messages.get(names.number.get("launch__function_pcs", -1))
    source.add_result(launch, result.source.reference, lists, called, _expected(metrics))
    for rule in result.rules:
        _add_rule(rule, launch, into)


# --- metrics -----------------------------------------------------------------------------------


def _named_metrics(result: Any, names: Names) -> _Measured:
    """The metrics of a result by name. One that comes twice keeps its last value."""
    found = read_metrics(result.metrics, report_messages()["Metric"])
    known = (found.name >= 0) & (found.name < len(names.texts))
    names.into.note("metrics whose name is missing in the report left out", int((~known).sum()))
    name = names.same[np.where(known, found.name, -1)]
    messages = {place: one for place, one in found.messages.items() if known[place]}
    lists = {}
    for place, (offset, first) in found.instances.items():
        # Values per instruction and per point in time are for the source table, the others text.
        if first >= LEAST_ADDRESS:
            lists[place] = found.raws[place][offset:]
        elif known[place]:
            # Where the list is damaged, the value before it holds.
            one = parsed(found.raws[place], report_messages()["Metric"])
            messages |= {} if one is None else {place: one}
    for one in messages.values():
        if value_text(one.value) is None and one.value.ByteSize():
            names.into.note("metrics whose value is of an unknown kind left unknown")
    count = np.bincount(name + 1, minlength=len(names.texts) + 1)
    for repeated in np.flatnonzero(count[1:] > 1).tolist():
        _keep_last(np.flatnonzero(name == repeated).tolist(), found.value, messages, known, names)
    value = np.where(known, found.value, np.nan)
    value[list(messages)] = np.nan
    return _Measured(
        names,
        np.where(known, name, -1),
        value,
        {int(name[place]): raw for place, raw in lists.items() if known[place]},
        {int(name[place]): one for place, one in messages.items() if known[place]},
    )


def _keep_last(
    places: list[int], value: Floats, messages: dict[int, Any], known: Mask, names: Names
) -> None:
    """Of several values of one metric the last that there is stays known."""

    def said(place: int) -> str | None:
        message = messages.get(place)
        return _real(float(value[place])) if message is None else value_text(message.value)

    with_value = [place for place in places if said(place) is not None]
    for before, after in pairwise(with_value):
        if said(before) != said(after):
            text = "metrics measured twice in one launch: the last value kept"
            names.into.note(text, severe=False)
    for place in places:
        known[place] = place == (with_value or places)[-1]


def _expected(metrics: _Measured) -> float | None:
    """Samples that sampling from the first to the last cycle takes: one per multiprocessor and
    interval."""
    found = [metrics.text(name) for name in _SAMPLING]
    try:
        units, cycles, interval = (float(text or 0) for text in found)
    except ValueError:
        return None
    return units * cycles / interval if units and cycles and interval else None


_SAMPLING = (
    "device__attribute_multiprocessor_count",
    "sm__cycles_active.avg",
    "smsp__pcsamp_interval_cycles",
)


def value_text(value: Any) -> str | None:
    """A value as text, in base units and with all its digits; None where there is none."""
    if value.HasField("whole"):
        return str(value.whole)
    if value.HasField("real"):
        return _real(value.real)
    if value.HasField("text"):
        return decoded(value.text)
    if value.HasField("small"):
        return str(value.small)
    return _real(value.single) if value.HasField("single") else None


def _real(value: float) -> str:
    """The shortest text of a number; a whole one as ncu prints it, without decimals."""
    if value.is_integer() and -_EXACT < value < _EXACT:
        return str(int(value))
    return repr(value) if math.isfinite(value) else "nan"


# Whole numbers below it have one double each.
_EXACT = 2.0**53


def _cell(metric: Any) -> str:
    """The cell that ``--print-metric-instances details`` prints: ``12 (0: 5; 1: 7)``."""
    text = value_text(metric.value)
    cell = "n/a" if text is None else text
    instance = report_messages()["Instance"]
    found = [parsed(raw, instance) for raw in metric.instances]
    if not found or found[0] is None or found[0].at.whole >= LEAST_ADDRESS:
        return cell
    listed = "; ".join(
        f"{value_text(one.at) or ''}: {value_text(one.value) or ''}".removeprefix(": ")
        for one in found
        if one is not None
    )
    return f"{cell} ({listed})"


def _device(metrics: _Measured) -> str:
    for name in ("device__attribute_device_index", "launch__device_id"):
        if text := metrics.text(name):
            return text
    return ""


def _capability(metrics: _Measured) -> str:
    name = "device__attribute_compute_capability_"
    major, minor = (metrics.text(f"{name}{part}") for part in ("major", "minor"))
    return f"{major}.{minor}" if major and minor else ""


# --- what identifies a launch ------------------------------------------------------------------


def _present(result: Any, what: str) -> str:
    return str(getattr(result, what)) if result.HasField(what) else ""


def _extent(result: Any, what: str) -> str:
    if not result.HasField(what):
        return ""
    extent = getattr(result, what)
    return f"({extent.x}, {extent.y}, {extent.z})"


def _ranges(nvtx: Any) -> str:
    """The push/pop ranges around a launch, outermost first, with their domain unless it is
    the default one."""
    domains = {domain.id: decoded(domain.name) for domain in nvtx.domains}
    found = []
    for thread in nvtx.threads:
        for stack in thread.stacks:
            domain = domains.get(stack.domain, _DEFAULT_DOMAIN)
            prefix = "" if domain == _DEFAULT_DOMAIN else f"{domain}:"
            found += [prefix + decoded(one.name) for one in stack.ranges]
    return " > ".join(found)


# --- rules -------------------------------------------------------------------------------------


def _add_rule(rule: Any, launch: int, into: Launches) -> None:
    """The sentences of one rule. A rule without any was evaluated and has nothing to say."""
    for item in rule.body.items:
        if not item.HasField("message"):
            continue
        level = _LEVELS.get(item.message.level, "")
        text = _LINK.sub(lambda match: match[1] or match[2], decoded(item.message.text))
        known = item.HasField("speedup") and math.isfinite(item.speedup.percent)
        into.add_verdict(
            launch,
            decoded(rule.section),
            decoded(rule.name),
            level,
            text,
            _SCOPES.get(item.speedup.scope, "") if known else "",
            f"{item.speedup.percent:.4g}" if known else "",
        )
        if level == "ERR":
            into.note("rules that failed in the profiler (ERR)", severe=False)
