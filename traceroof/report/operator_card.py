"""The card of one kernel group, as the HTML report unfolds it: plain data, every value as text.

Columns of the kernel table are named by their place in a list that all cards share, so that a
card with seventy metrics stays near a kilobyte.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from traceroof.diagnosis import Diagnosis, KernelGroup
from traceroof.findings import Finding, describe_savings
from traceroof.groups import VOCABULARY
from traceroof.units import digits, percent, quantity

# Use of the machine, as bars: label, metric, and the metric that says what it is measured against.
_USES = (
    ("compute", "compute_pct", "compute_basis"),
    ("memory", "memory_pct", None),
    ("DRAM", "dram_pct", "dram_basis"),
    ("L2", "l2_throughput_pct", None),
    ("L1", "l1_throughput_pct", None),
    ("tensor cores", "tensor_pct", None),
    ("occupancy", "achieved_occupancy_pct", None),
    ("possible occupancy", "theoretical_occupancy_pct", None),
)

_STALL = "stall_"
_STALLS_SHOWN = 8
_VENDOR_LENGTH = 700
# Real names reach six kilobytes.
_NAME_LENGTH = 8192
# Optimizers take lists of a hundred tensors.
_SHAPES_LENGTH = 600


def shape(size: tuple[int, int, int] | None) -> str:
    """A launch shape: ``256``, ``86 × 128``; empty where unknown."""
    if size is None:
        return ""
    kept = list(size)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return " × ".join(f"{one:,}" for one in kept)


class Columns:
    """The columns that cards speak of: name -> place, filled as cards are made."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def place(self, name: str) -> int:
        return self._places.setdefault(name, len(self._places))

    def listed(self) -> list[tuple[str, str]]:
        """Name and meaning of every column, by place."""
        return [
            (name, VOCABULARY[name].meaning if name in VOCABULARY else "") for name in self._places
        ]


def card(
    diagnosis: Diagnosis,
    index: int,
    columns: Columns,
    findings: Sequence[tuple[int, Finding]],
    *,
    named: int,
) -> dict[str, Any]:
    """The card of ``diagnosis.kernels[index]``, beyond what its row in the table says.

    findings: what was found on it, each with the number of its entry among the fixes (0: none).
    named: how much of a name the page has anyway; a longer one stands in the card. Parts that
    there is nothing to say in are absent.
    """
    kernel = diagnosis.kernels[index]
    made = {
        "name": kernel.kernel[:_NAME_LENGTH] if len(kernel.kernel) > named else "",
        "missing": list(kernel.missing),
        "spread": f" ± {quantity(kernel.mad_ns, 'ns')}" if kernel.mad_ns else "",
        "facts": _facts(kernel),
        "uses": _uses(kernel),
        "roof": _roof(kernel),
        "stalls": _stalls(kernel),
        "findings": [_finding(number, one) for number, one in findings],
        "vendor": _vendor(kernel),
        "metrics": _metrics(kernel, columns),
    }
    return {key: value for key, value in made.items() if value}


def _facts(kernel: KernelGroup) -> list[tuple[str, str]]:
    facts = [
        ("operator", kernel.operator or ""),
        ("input shapes", (kernel.input_shapes or "")[:_SHAPES_LENGTH]),
        ("input types", (kernel.input_dtypes or "")[:_SHAPES_LENGTH]),
        ("grid", shape(kernel.grid)),
        ("block", shape(kernel.block)),
    ]
    return [fact for fact in facts if fact[1]]


def _uses(kernel: KernelGroup) -> list[tuple[str, float, str]]:
    found = []
    for label, name, basis in _USES:
        value = kernel.metrics.get(name)
        if not isinstance(value, float | int):
            continue
        against = kernel.metrics.get(basis) if basis else VOCABULARY[name].basis
        text = quantity(value, "%") + (f" of {against}" if against and against != "group" else "")
        found.append((label, _bar(value), text))
    return found


def _roof(kernel: KernelGroup) -> list[tuple[str, str]]:
    roof = kernel.roofline
    if not roof:
        return []
    dtype = f" {roof['dtype']}" if roof["dtype"] else ""
    lines: Sequence[tuple[str, float | None, str]] = (
        ("operations", roof["flops"], "FLOP"),
        ("DRAM traffic", roof["bytes"], "byte"),
        ("rate reached", roof["achieved_flops_per_s"], "FLOP/s"),
        ("DRAM rate reached", roof["achieved_bytes_per_s"], "byte/s"),
        (f"peak{dtype}", roof["peak_flops_per_s"], "FLOP/s"),
        ("DRAM peak", roof["peak_bytes_per_s"], "byte/s"),
        ("roof at this intensity", roof["attainable_flops_per_s"], "FLOP/s"),
        ("least time", roof["t_min_ns"], "ns"),
    )
    made = [(label, quantity(value, unit)) for label, value, unit in lines if value is not None]
    if roof["intensity"] is not None:
        ridge = f" (ridge {digits(roof['ridge'])})" if roof["ridge"] is not None else ""
        made.append(("intensity", f"{digits(roof['intensity'])} FLOP/byte{ridge}"))
    if roof["utilisation"] is not None:
        made.append(("of the roof", percent(roof["utilisation"])))
    basis = {"report": "the report", "device-table": "the device table"}
    made.append(("ceilings from", basis.get(roof["ceiling_basis"], roof["ceiling_basis"])))
    if roof["traffic_basis"] == "model":
        made.append(("work", "by the operator's model"))
    return made


def _stalls(kernel: KernelGroup) -> list[tuple[str, float, str]]:
    shares = sorted(
        (
            (-float(value), name)
            for name, value in kernel.metrics.items()
            if name.startswith(_STALL) and isinstance(value, float | int)
        ),
    )
    return [
        (name.removeprefix(_STALL).replace("_", " "), _bar(-share * 100), percent(-share))
        for share, name in shares[:_STALLS_SHOWN]
        if share
    ]


def _bar(pct: float) -> float:
    return round(min(max(float(pct), 0.0), 100.0), 1)


def _finding(number: int, finding: Finding) -> tuple[int, str, str, str]:
    if finding.suppressed_by:
        saved = f"silenced by {finding.suppressed_by}"
    elif finding.time_saved_bound_ns is None:
        saved = ""
    else:
        saved = describe_savings(finding)
    return number, finding.rule, finding.because, saved


def _vendor(kernel: KernelGroup) -> list[tuple[str, str, str]]:
    said = []
    for verdict in kernel.vendor:
        stands = ""
        if verdict.classes:
            agrees = kernel.primary_class in verdict.classes
            stands = "agrees" if agrees else f"says otherwise: we say {kernel.primary_class}"
        elif verdict.speedup_pct is not None:
            stands = f"estimates {quantity(verdict.speedup_pct, '%')}"
            if verdict.speedup_scope:
                stands += f" ({verdict.speedup_scope})"
        text = verdict.text
        if len(text) > _VENDOR_LENGTH:
            text = text[:_VENDOR_LENGTH].rsplit(" ", 1)[0] + " …"
        said.append((verdict.rule or verdict.section, stands, text))
    return said


def _metrics(kernel: KernelGroup, columns: Columns) -> Mapping[str, list[tuple[int, str]]]:
    """The metrics of the group, by the groups of the kernel table, without those drawn as bars."""
    drawn = {f"{_STALL}{label.replace(' ', '_')}" for label, _, _ in _stalls(kernel)}
    drawn |= {name for _, name, _ in _USES}
    found: dict[str, list[tuple[int, str]]] = {}
    for name, value in kernel.metrics.items():
        if name in drawn:
            continue
        column = VOCABULARY.get(name)
        group = column.group if column else "other"
        group = "derived" if group == "group" else group
        unit = column.unit if column else ""
        found.setdefault(group, []).append((columns.place(name), quantity(value, unit)))
    return found
