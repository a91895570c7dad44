"""Results of a report as launches: the same entry that the CSV pages use."""

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from traceroof.parsers.nsight.launches import Launch
from traceroof.parsers.nsight.report_blocks import Found, Headers, decoded
from traceroof.parsers.nsight.report_layouts import read_known
from traceroof.parsers.nsight.report_metrics import Metrics, read_metrics
from traceroof.parsers.nsight.report_places import Places, locate
from traceroof.parsers.nsight.report_rules import add_rule
from traceroof.parsers.nsight.report_source import ReportSource
from traceroof.parsers.nsight.report_values import Names, Values, values_of

_DEFAULT_DOMAIN = "<default domain>"


def is_read(found: Found, names: Names) -> bool:
    """Whether a result of a range has the layout of a launch: measurements whose names are known."""
    _, places = locate([found.data or b""])
    read = read_metrics(places.data, places.words, places.start, places.end)
    name = read.name[read.name >= 0]
    if not len(name) or name.max() >= len(names.texts):
        return False
    measured = sum("__" in names.texts[one] for one in name.tolist())
    return 2 * measured > len(name) and bool(np.isfinite(read.value).any())


def add_results(
    results: Sequence[tuple[int, Found]], headers: Headers, names: Names, source: ReportSource
) -> int:
    """Add results: launches with their metrics and what the rules say of them. Returns how many are
    damaged.

    results: each with its position in the report, which ncu prints as the launch's ID. source: takes
    what is counted per instruction.
    """
    known = [names.layouts.find(found.data or b"") for _, found in results]
    pairs = zip(results, known, strict=True)
    damaged = 0
    for is_known, some in groupby(pairs, lambda pair: pair[1] is not None):
        batch = list(some)
        read = read_known([one for _, one in batch if one is not None]) if is_known else None
        if read is not None:
            sound = [_Result(*one, layout.message) for one, layout in batch if layout is not None]
            _add(sound, *read, headers, names, source)
        else:
            damaged += _add_unknown([one for one, _ in batch], headers, names, source)
    return damaged


def _add_unknown(
    results: Sequence[tuple[int, Found]], headers: Headers, names: Names, source: ReportSource
) -> int:
    """Add results whose metrics must be looked for. Returns how many are damaged."""
    raws = [found.data or b"" for _, found in results]
    messages, places = locate(raws)
    sound = [
        _Result(position, found, message)
        for (position, found), message in zip(results, messages, strict=True)
        if message is not None
    ]
    metrics = read_metrics(places.data, places.words, places.start, places.end)
    if len(sound) < len(results):
        places = places.renumbered([message is not None for message in messages])
    else:
        names.layouts.learn(raws, places, metrics)
    _add(sound, places, metrics, headers, names, source)
    return len(results) - len(sound)


def _add(
    sound: Sequence["_Result"], places: Places, metrics: Metrics,
    headers: Headers, names: Names, source: ReportSource,
) -> None:  # fmt: skip
    """Add results that are not damaged, with their metrics."""
    into = names.into
    values = values_of(places, metrics, len(sound), names)
    identities = _identities(sound, headers, values)
    launches = np.array([into.add_launch(one) for one in identities], np.int32)
    into.numbers.add(launches, values.schema.of, values.slot, values.value, values.cell)
    counted = zip(values.lists, values.called, _expected(values), strict=True)
    for launch, one, counts in zip(launches.tolist(), sound, counted, strict=True):
        if counts[0]:
            source.add_result(launch, one.message.source.reference, *counts)
        for rule in one.message.rules:
            add_rule(rule, launch, into, names.rules)


class _Result(NamedTuple):
    """A result with its position in the report and its message, which lacks the metrics."""

    position: int
    found: Found
    message: Any


def _identities(results: Sequence[_Result], headers: Headers, values: Values) -> list[Launch]:
    devices = [values.texts(name) for name in _DEVICE]
    capability = [values.texts(f"device__attribute_compute_capability_{one}") for one in _PARTS]
    return [
        _identity(
            one, headers,
            next(filter(None, device), None) or "",
            f"{major}.{minor}" if major and minor else "",
        )
        for one, *device, major, minor in zip(results, *devices, *capability, strict=True)
    ]  # fmt: skip


_DEVICE = ("device__attribute_device_index", "launch__device_id")
_PARTS = ("major", "minor")


def _identity(one: _Result, headers: Headers, device: str, capability: str) -> Launch:
    result, process = one.message, one.found.process
    name = decoded(result.demangled or result.function or result.mangled)
    return Launch(
        name=name or ("range" if one.found.is_range else ""),
        # Reports of one thread give the same number for both.
        process_id=str(process) if process else _present(result, "thread"),
        process_name=headers.processes.get(process or result.thread, ""),
        launch_id=str(one.position),
        context=_present(result, "context"),
        stream=_present(result, "stream"),
        device=device,
        compute_capability=capability,
        grid=_extent(result, "grid"),
        block=_extent(result, "block"),
        range=_ranges(result.nvtx),
    )


def _expected(values: Values) -> list[float | None]:
    """Samples that sampling from the first to the last cycle takes: one per multiprocessor and
    interval."""
    units, cycles, interval = (values.numbers(name) for name in _SAMPLING)
    with np.errstate(all="ignore"):
        due = units * cycles / interval
    return [one if 0 < one < math.inf else None for one in due.tolist()]


_SAMPLING = (
    "device__attribute_multiprocessor_count",
    "sm__cycles_active.avg",
    "smsp__pcsamp_interval_cycles",
)


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
