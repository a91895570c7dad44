"""What traceroof knows, for reading: rules, devices, formats."""

import math
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from rich.console import Console
from rich.padding import Padding

from traceroof.core.selection import known_rule
from traceroof.core.units import percent, quantity
from traceroof.errors import TraceroofError
from traceroof.hardware import device_lookup
from traceroof.hardware import devices as device_table
from traceroof.hardware.devices import Device
from traceroof.hardware.vendor_terms import on_card
from traceroof.plugins import formats, rule_file, rules
from traceroof.report.common.console import grid, terminal_width, to_text
from traceroof.rule import NOMINAL, UNCALIBRATED, Facts, Rule, judge
from traceroof.scopes.subjects import vocabulary


def rules_table() -> str:
    """All rules, a line each, by scope."""
    rows = [(rule.id, rule.scope, rule.title) for rule in sorted(rules(), key=lambda r: r.id)]
    rows.sort(key=lambda row: row[1] != "kernel")
    return to_text(
        lambda console: console.print(grid(("rule", "scope", "what it finds"), rows)),
        width=terminal_width(),
    )


def rule_card(rule_id: str, known: Sequence[Rule] | None = None) -> str:
    """The card of one rule, of all rules or those given. Raises TraceroofError for an id that no
    rule has."""
    rule = known_rule(rule_id, {rule.id: rule for rule in known or rules()})

    def draw(console: Console) -> None:
        console.print(f"{rule.id}: {rule.title}")
        for label, text in card_lines(rule):
            console.print(Padding(f"{label}: {text}", (0, 0, 0, 2)))

    return to_text(draw, width=min(terminal_width(), 100))


def card_lines(rule: Rule) -> list[tuple[str, str]]:
    """A rule as (label, text) pairs, in reading order; the same in terminal and docs."""
    lines = [
        ("why", on_card(rule.why)),
        ("topic", ", ".join(dict.fromkeys(rule.topics))),
        ("fires when", on_card(rule.condition_words())),
        ("needs", ", ".join(rule.needs) or "nothing"),
    ]
    if rule.limits:
        limits = (f"{name} {one.value:g}" for name, one in rule.limits.items())
        lines.append(("thresholds", ", ".join(limits)))
    if rule.uses:
        lines.append(("uses", ", ".join(rule.uses)))
    lines += [
        ("says", on_card(rule.because)),
        ("try", on_card(rule.fix)),
        ("to refute", on_card(rule.refute)),
        ("scope", f"{rule.scope}; fix in the {rule.layer}, effort {rule.effort}, risk {rule.risk}"),
        ("time saved", f"{rule.kind} bound; evidence {rule.grade}"),
        ("file", rule_file(rule.id)),
    ]
    if rule.suppresses:
        lines.append(("silences", ", ".join(rule.suppresses)))
    for scope in rule.hides or ():
        lines.append(("hides", f"{scope} findings that it explains (see the condition)"))
    for doubt in rule.doubts:
        rests = f"that read {', '.join(doubt.columns)}" if doubt.columns else "with a time saved"
        lines.append(
            ("lowers the confidence of", f"{doubt.scope} findings {rests}: {on_card(doubt.what)}")
        )
    lines += [("fires on", _example(rule, example)) for example in rule.fires]
    lines += [("silent on", _example(rule, example)) for example in rule.silent]
    lines += [("source", reference) for reference in rule.references]
    return lines


def _example(rule: Rule, example: Mapping[str, Any]) -> str:
    columns = vocabulary(rule.scope)
    text = ", ".join(f"{name} {quantity(v, columns[name].unit)}" for name, v in example.items())
    facts = Facts.of((example,), rule.columns)
    judged = judge(rule, facts, UNCALIBRATED)
    saved = judged.saved[0]
    if judged.fired[0] and not math.isnan(saved):
        bound, likely = judge(rule, facts, NOMINAL).saved[0], judged.likely[0]
        if not bound:
            return text  # a cause whose time another rule counts
        text += f" (saves at most {percent(bound)}, likely {percent(likely)})"
    return text


_RATES = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp4", "int8")


def devices_table() -> str:
    """All GPUs, a line each: bandwidth and dense peaks."""
    header = ("device", "arch", "SMs", "GB/s", "FP32", "16-bit", "8-bit", "grade")
    rows = [
        (
            one.name,
            one.compute_capability or one.gfx_target or one.architecture,
            _number(one.sm_count),
            _number(one.dram_bandwidth_bytes_per_s, 1e9),
            _number(one.peak("fp32"), 1e12),
            _number(one.peak("bf16") or one.peak("fp16"), 1e12),
            _number(one.peak("fp8") or one.peak("int8"), 1e12),
            one.grade,
        )
        for one in device_table.all_devices()
    ]

    def draw(console: Console) -> None:
        console.print(grid(header, rows, right=header[2:7]))
        console.print("Dense peaks in TFLOP/s (TOP/s); - is unknown or not supported.")
        console.print("Grade: A two agreeing sources, B one, C not confirmed.")

    return to_text(draw, width=terminal_width())


_NEAR = 6


def device_card(name: str) -> str:
    """One GPU with every figure and its source. Raises TraceroofError for an unknown name."""
    device = device_lookup.find(name)
    matches = (device,) if device else device_lookup.matches(name)
    if not matches:
        names = {one.name.lower(): one.name for one in device_table.all_devices()}
        like = [full for low, full in names.items() if low.startswith(name.lower())]
        close = get_close_matches(name.lower(), names, n=3, cutoff=0.4)
        near = like[:_NEAR] or [names[found] for found in close]
        hint = f"did you mean {', '.join(near)}?" if near else "`traceroof devices` lists them"
        raise TraceroofError(f"no GPU called {name} in the device table", hint)

    def draw(console: Console) -> None:
        for number, one in enumerate(matches):
            if number:
                console.print()
            console.print(one.name)
            for label, text in _device_lines(one):
                console.print(Padding(f"{label}: {text}", (0, 0, 0, 2)))

    return to_text(draw, width=min(terminal_width(), 100))


def _device_lines(device: Device) -> list[tuple[str, str]]:
    target = device.compute_capability or device.gfx_target or "unknown"
    unit, lanes = ("SMs", "warps") if device.vendor == "nvidia" else ("CUs", "wavefronts")
    bandwidth = device.dram_bandwidth_bytes_per_s
    lines = [
        ("architecture", f"{device.architecture} ({target}), {device.vendor}"),
        (unit, f"{_number(device.sm_count)}, {lanes} of {device.wavefront} threads"),
        ("boost clock", quantity(device.boost_clock_hz, "Hz")),
        ("memory", quantity(device.memory_bytes, "byte")),
        ("DRAM bandwidth", quantity(bandwidth, "byte/s")),
        ("L2 cache", quantity(device.l2_bytes, "byte")),
    ]
    for dtype, rate in device.flops_per_s.items():
        ridge = f", ridge {rate / bandwidth:,.0f} FLOP/byte" if bandwidth else ""
        lines.append((f"dense {dtype}", f"{rate / 1e12:,.4g} TFLOP/s{ridge}"))
    for name, rate in device.attainable_bytes_per_s.items():
        share = f", {rate / bandwidth:.0%} of nominal".replace("%", " %") if bandwidth else ""
        lines.append((f"attainable {name}", f"{quantity(rate, 'byte/s')}{share}"))
    for dtype, rate in device.attainable_flops_per_s.items():
        share = f"{rate / device.flops_per_s[dtype]:.0%}".replace("%", " %")
        lines.append((f"attainable {dtype}", f"{rate / 1e12:,.4g} TFLOP/s, {share} of nominal"))
    if device.attainable_source:
        lines.append(("attainable by", device.attainable_source))
    lines += [("source", device.source), ("grade", device.grade)]
    if device.remark:
        lines.append(("remark", device.remark))
    if device.aliases or device.shared_names:
        lines.append(("also called", ", ".join((*device.aliases, *device.shared_names))))
    return lines


def _number(value: float | None, scale: float = 1.0) -> str:
    return "-" if value is None else f"{value / scale:,.4g}"


def formats_table() -> str:
    """What traceroof reads, what each file gives, and how to collect it."""

    def draw(console: Console) -> None:
        for parser in formats():
            console.print(f"{parser.name}: {parser.title}")
            console.print(Padding(f"gives: {parser.gives}", (0, 0, 0, 2)))
            console.print(Padding(f"collect: {parser.collect}", (0, 0, 0, 2)))

    return to_text(draw, width=min(terminal_width(), 100))
