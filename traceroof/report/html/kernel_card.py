"""The card of one kernel group as the page holds it.

Columns of the kernel table are named by their place in a list that all cards share, so that a card
with seventy metrics stays near a kilobyte.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from traceroof.core.kernel_names import demangled
from traceroof.core.units import (
    quantity,
)
from traceroof.diagnosis.diagnosis import Diagnosis, KernelGroup
from traceroof.diagnosis.findings import Finding
from traceroof.kernels.group_columns import VOCABULARY
from traceroof.report.run.card_lines import Line
from traceroof.report.run.card_roof import roof_lines
from traceroof.report.run.operator_card import (
    STALL,
    USES,
    facts,
    occupancy,
    reason,
    saving,
    spread,
    stalls,
    uses,
    vendor,
)
from traceroof.report.run.source_lines import Sources, card_lines

# Real names reach six kilobytes.
_NAME_LENGTH = 8192


class Columns:
    """The columns that cards of a page speak of: name -> place, filled as cards are made."""

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
    texts: Sources | None = None,
) -> dict[str, Any]:
    """The card of ``diagnosis.kernels[index]`` for the page, beyond what its row there says.

    findings: what was found on it, each with the number of its entry among the fixes (0: none).
    named: how much of a name the page has anyway; a longer one stands in the card. texts: of source
    lines, where the user wants them in the page. Parts that
    there is nothing to say in are absent.
    """
    kernel = diagnosis.kernels[index]
    name = demangled(kernel.kernel)
    made = {
        "name": name[:_NAME_LENGTH] if len(name) > named else "",
        "why": reason(kernel),
        "spread": spread(kernel),
        "facts": _pairs(facts(kernel)),
        "uses": _bars(uses(kernel)),
        "roof": _pairs(roof_lines(kernel)),
        "occupancy": _pairs(occupancy(kernel)),
        "stalls": _bars(stalls(kernel)),
        "lines": _bars(card_lines(kernel, texts)),
        "findings": [(number, one.rule, one.because, saving(one)) for number, one in findings],
        "vendor": vendor(kernel),
        "metrics": _metrics(kernel, columns),
    }
    return {key: value for key, value in made.items() if value}


def _pairs(lines: Iterable[Line]) -> list[tuple[str, str]]:
    return [(line.label, line.text) for line in lines]


def _bars(lines: Iterable[Line]) -> list[tuple[str, float | None, str]]:
    return [(line.label, line.bar, line.text) for line in lines]


# What the lines on the roofline say already.
_PLACED = frozenset(
    {"flops", "flops_per_s", "flop_dtype", "flop_peak_per_s", "dram_bytes_per_s", "intensity",
     "dram_peak_bytes_per_s", "roof_flops_per_s", "roof_dtype", "dram_from", "flop_from"}
)  # fmt: skip


def _metrics(kernel: KernelGroup, columns: Columns) -> Mapping[str, list[tuple[int, str]]]:
    """The metrics of the group, by the groups of the kernel table, without those shown above."""
    drawn = {f"{STALL}{line.label.replace(' ', '_')}" for line in stalls(kernel)}
    drawn |= {name for use in USES for name in use[1:] if name}
    drawn |= _PLACED if kernel.roofline else frozenset()
    found: dict[str, list[tuple[int, str]]] = {}
    for name, value in kernel.metrics.items():
        if name in drawn or value == "":
            continue
        column = VOCABULARY.get(name)
        group = column.group if column else "other"
        group = "derived" if group == "group" else group
        unit = column.unit if column else ""
        found.setdefault(group, []).append((columns.place(name), quantity(value, unit)))
    return found
