"""What the profiler's own rules concluded, in our terms, so that a disagreement can be seen."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_WAITING = frozenset({"latency-bound", "launch-bound"})
_MEMORY = frozenset({"memory-leaning", "memory-bound", "dram-bound", "l2-bound", "l1-bound"})
_COMPUTE = frozenset({"compute-leaning", "compute-bound"})

#: Nsight Compute's SpeedOfLight verdict -> the classes that mean the same; first match wins.
#: Wording of versions 2020 to 2026. Its "high throughput" verdict covers any unit at 80 % or
#: more, so it agrees with every class of being at a wall unless the text names the unit.
_SPEED_OF_LIGHT: Sequence[tuple[str, frozenset[str]]] = (
    (r"grid is too small", _WAITING),
    (r"low compute throughput and memory bandwidth|latency (issues|bound)", _WAITING),
    (r"well.balanced", frozenset({"balanced"})),
    (r"memory is more heavily utilized.*(identify the|analyzing) DRAM",
     frozenset({"dram-bound", "memory-bound", "memory-leaning"})),
    (r"memory is more heavily utilized.*(identify the|analyzing) L2",
     frozenset({"l2-bound", "memory-bound", "memory-leaning"})),
    (r"memory is more heavily utilized.*(identify the|analyzing) L1",
     frozenset({"l1-bound", "memory-bound", "memory-leaning"})),
    (r"memory is more heavily utilized", _MEMORY),
    (r"compute is more heavily utilized", _COMPUTE),
    (r"(more|greater) than \d+(\.\d+)?%.*analyzing DRAM", frozenset({"dram-bound", "memory-bound"})),
    (r"(more|greater) than \d+(\.\d+)?%.*analyzing L2", frozenset({"l2-bound", "memory-bound"})),
    (r"(more|greater) than \d+(\.\d+)?%.*analyzing L1", frozenset({"l1-bound", "memory-bound"})),
    (r"(more|greater) than \d+(\.\d+)?%.*Compute Workload Analysis", frozenset({"compute-bound"})),
    (r"(more|greater) than \d+(\.\d+)?%", _MEMORY | _COMPUTE | {"balanced"}),
)  # fmt: skip

_SPEED_OF_LIGHT_RULE = "SOLBottleneck"
_SPEED_OF_LIGHT_SECTION = "SpeedOfLight"


@dataclass(frozen=True)
class VendorVerdict:
    """One rule of the profiler on one kernel group.

    classes: our classes that agree with it, empty where the rule names no class.
    speedup_scope: "global" (share of the kernel's time) or "local" (of one unit only), or None.
    speedup_pct: the largest estimate over the group's launches, percent of time saved; text is that
    launch's. launches: launches on which the rule said this, of ``of_launches`` on which any rule
    said anything. capped_pct: the most that we say can be saved of
    the kernel's time, where a global estimate exceeds it; None where it does not.
    """

    rule: str
    level: str
    section: str
    text: str
    speedup_scope: str | None
    speedup_pct: float | None
    launches: int
    classes: frozenset[str]
    capped_pct: float | None = None
    of_launches: int = 0

    @property
    def is_usual(self) -> bool:
        """Whether the rule says this of most launches: what it says of a few is not the group."""
        return 2 * self.launches > self.of_launches

    @property
    def estimate_pct(self) -> float | None:
        """What is shown of the estimate, percent: never more than our own bound."""
        return self.speedup_pct if self.capped_pct is None else self.capped_pct


def classes_meant(rule: str | None, section: str | None, text: str) -> frozenset[str]:
    """Our classes that agree with a vendor verdict; empty where it names no class.

    Text pages print no rule names: there the section tells.
    """
    if rule != _SPEED_OF_LIGHT_RULE and (rule or section != _SPEED_OF_LIGHT_SECTION):
        return frozenset()
    for pattern, classes in _SPEED_OF_LIGHT:
        if re.search(pattern, text, re.IGNORECASE | re.DOTALL):
            return classes
    return frozenset()


def verdicts_of_groups(
    verdicts: pa.Table, of_row: Sequence[int] | npt.NDArray[np.int64], count: int
) -> tuple[tuple[VendorVerdict, ...], ...]:
    """The verdicts of each of ``count`` groups, one per rule and shape of text.

    verdicts: a table of schema VERDICTS. of_row: group of each row of the kernel table, -1 none.
    """
    found: defaultdict[int, dict[tuple[str, str], VendorVerdict]] = defaultdict(dict)
    judged: defaultdict[int, set[int]] = defaultdict(set)
    for entry in verdicts.to_pylist():
        group = int(of_row[entry["row"]])
        if group < 0:
            continue
        judged[group].add(entry["row"])
        text = entry["text"] or ""
        # The same advice with other numbers in it is the same verdict.
        key = (entry["rule"], re.sub(r"[\d.,]+", "#", text))
        before = found[group].get(key)
        best = _larger(before.speedup_pct if before else None, entry["speedup_pct"])
        # A sentence and its estimate are of one launch.
        is_best = before is None or best != before.speedup_pct
        found[group][key] = VendorVerdict(
            rule=entry["rule"] or "",
            level=entry["level"] or "",
            section=entry["section"] or "",
            text=text if is_best or before is None else before.text,
            speedup_scope=entry["speedup_scope"],
            speedup_pct=best,
            launches=(before.launches if before else 0) + 1,
            classes=classes_meant(entry["rule"], entry["section"], text),
        )
    return tuple(
        tuple(replace(one, of_launches=len(judged[at])) for one in found[at].values())
        if at in found
        else ()
        for at in range(count)
    )


def capped(
    of_group: Sequence[tuple[VendorVerdict, ...]], bounds_pct: Sequence[float]
) -> tuple[tuple[VendorVerdict, ...], ...]:
    """The verdicts with global estimates capped at our own bounds.

    bounds_pct: the most that can be saved of each group's time, percent; NaN caps nothing. Local
    estimates are of one unit, so that no bound on the kernel's time applies to them.
    """
    return tuple(
        tuple(
            replace(one, capped_pct=bound)
            if one.speedup_scope == "global"
            and one.speedup_pct is not None
            and one.speedup_pct > bound
            else one
            for one in verdicts
        )
        for verdicts, bound in zip(of_group, bounds_pct, strict=True)
    )


def _larger(first: float | None, second: float | None) -> float | None:
    known = [value for value in (first, second) if value is not None]
    return max(known) if known else None
