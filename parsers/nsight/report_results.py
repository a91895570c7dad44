"""Results of a report as launches: the same entry that the CSV pages use."""

import math
from typing import Any

from traceroof.core import regex
from traceroof.parsers.nsight.launches import Launch, Launches
from traceroof.parsers.nsight.report_blocks import Found, Headers, decoded
from traceroof.parsers.nsight.report_source import LEAST_ADDRESS, ReportSource
from traceroof.parsers.nsight.report_units import unit_of

_LEVELS = {1: "INF", 2: "WRN", 3: "ERR", 4: "OPT"}
_SCOPES = {1: "local", 2: "global"}
_DEFAULT_DOMAIN = "<default domain>"
# @section:Identifier:Name@ and @url:Text:https://…@, which ncu prints as the name alone.
_LINK = regex.compile(
    r"@(?:section:[^:@\n]{1,100}:([^@\n]{1,300})|url:([^:@\n]{1,300}):[^@\n]{1,500})@"
)


def is_read(result: Any, headers: Headers) -> bool:
    """Whether a result of a range has the layout of a launch: measurements whose names are known."""
    if result is None or not len(result.metrics):
        return False
    names = [one.name for one in result.metrics]
    if max(names) >= len(headers.strings):
        return False
    measured = sum("__" in headers.strings[name] for name in names)
    valued = any(value_text(one.value) is not None for one in result.metrics)
    return 2 * measured > len(names) and valued


def add_result(
    found: Found, number: int, headers: Headers, into: Launches, source: ReportSource
) -> None:
    """Add one result: a launch with its metrics and what the rules say of it.

    number: its position in the report, which ncu prints as the launch's ID. source: takes what is
    counted per instruction.
    """
    result, process = found.message, found.process
    metrics = _named_metrics(result, headers, into)
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
    for name, metric in metrics.items():
        into.add_metric(launch, into.slot("", "", name, unit_of(name)), _cell(metric))
    source.add_result(launch, result, metrics)
    for rule in result.rules:
        _add_rule(rule, launch, into)


# --- metrics -----------------------------------------------------------------------------------


def _named_metrics(result: Any, headers: Headers, into: Launches) -> dict[str, Any]:
    """Metric -> its message. One that comes twice keeps its last value."""
    found: dict[str, Any] = {}
    for metric in result.metrics:
        if metric.name >= len(headers.strings):
            into.note("metrics whose name is missing in the report left out")
            continue
        name = headers.strings[metric.name]
        text = value_text(metric.value)
        if text is None and metric.value.ByteSize():
            into.note("metrics whose value is of an unknown kind left unknown")
        before = found.get(name)
        if before is not None:
            if text is None:
                continue
            if value_text(before.value) not in (None, text):
                into.note("metrics measured twice in one launch: the last value kept", severe=False)
        found[name] = metric
    return found


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
    # Values per instruction and per point in time are for the source table, not for text.
    if not len(metric.instances) or metric.instances[0].at.whole >= LEAST_ADDRESS:
        return cell
    listed = "; ".join(
        f"{value_text(one.at) or ''}: {value_text(one.value) or ''}".removeprefix(": ")
        for one in metric.instances
    )
    return f"{cell} ({listed})"


def _device(metrics: dict[str, Any]) -> str:
    for name in ("device__attribute_device_index", "launch__device_id"):
        if name in metrics and (text := value_text(metrics[name].value)):
            return text
    return ""


def _capability(metrics: dict[str, Any]) -> str:
    parts = [
        value_text(metrics[name].value) if name in metrics else None
        for name in (
            "device__attribute_compute_capability_major",
            "device__attribute_compute_capability_minor",
        )
    ]
    return ".".join(part for part in parts if part) if all(parts) else ""


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
