"""What can be saved."""

import numpy as np
import numpy.typing as npt

from traceroof.core.facts import Facts
from traceroof.diagnosis.findings import SEVERITY_STEPS
from traceroof.hardware.ceilings import Attainable
from traceroof.hardware.roofline import T_FLOOR_NS
from traceroof.rule import Rule, Severity


def capped(rule: Rule) -> bool:
    """Whether a rule's savings end where the kernel's own bytes and operations need the time."""
    return rule.scope == "kernel" and rule.kind == "conditional"


#: Columns that ``spare_ns`` reads.
SPARE = ("time_ns", "launches", "dram_bytes", "dram_peak_bytes_per_s", "flop_pct", "duration_ns")


def spare_ns(facts: Facts, attainable: Attainable) -> npt.NDArray[np.float64]:
    """Time of a group above what its own bytes and operations need, all launches; NaN unknown."""
    see = facts.only(SPARE)
    with np.errstate(divide="ignore", invalid="ignore"):
        by_bytes = see.dram_bytes / (see.dram_peak_bytes_per_s * attainable.memory) * 1e9
        by_flops = see.flop_pct / 100 * see.duration_ns / attainable.compute
        # The time covers launches with a known duration only.
        timed = np.where(see.duration_ns > 0, see.time_ns / see.duration_ns, see.launches)
    # Only a measured figure may cap: with neither known the floor alone remains.
    least = np.fmax(np.fmax(by_bytes, by_flops), T_FLOOR_NS)
    spare = see.time_ns - least * timed
    return np.asanyarray(np.maximum(spare, 0.0))


def severity(bound: float, total_ns: float) -> Severity:
    """The severity of a saving, by the share that it is of all time."""
    if np.isnan(bound) or not total_ns:
        return "info"
    for step, name in SEVERITY_STEPS:
        if bound >= step * total_ns:
            return name
    return "info"
