"""What several rules ask about kernel groups; columns as in ``traceroof.groups``."""

from collections.abc import Mapping

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.core.tracing import one_of
from traceroof.hardware.devices import AMD
from traceroof.kernels.bound_class import WALL_PCT
from traceroof.rule import Attainable, Threshold, at_least, below

#: Columns that ``has_headroom`` and ``spare`` read.
STATE = ("primary_class", "compute_pct", "memory_pct")

_AT_WALL = ("dram-bound", "l2-bound", "l1-bound", "memory-bound", "compute-bound")
_LINKS = ("communication", "copy")

#: Thresholds of ``has_headroom``: a rule that asks it lists them with its own.
HEADROOM: Mapping[str, Threshold] = {
    "compute_wall": below(WALL_PCT, column="compute_pct", or_unknown=True),
    "memory_wall": below(WALL_PCT, column="memory_pct", or_unknown=True),
}


def of_class(k: Facts, *classes: str) -> Mask:
    """Groups whose primary class is one of these."""
    return one_of(k.primary_class, *classes)


def on_amd(k: Facts) -> Mask:
    """Groups that ran on a GPU of AMD or Hygon."""
    return one_of(k.vendor, *AMD)


def computes(k: Facts) -> Mask:
    """Groups that do work of their own: no copies and no collectives, which wait for a link."""
    return ~of_class(k, *_LINKS)


def tunable(k: Facts) -> Mask:
    """Groups that compute for longer than a launch takes: below that, fewer launches help."""
    return ~of_class(k, *_LINKS, "launch-bound")


def pipe_may_reach(k: Facts) -> Mask:
    """Computing groups in which some pipe may be as busy as the threshold ``may_reach`` says: compute
    use is that of the busiest part, so a lower one settles it for all pipes, collected or not."""
    return np.asanyarray(computes(k) & k.meets("may_reach"))


def may_reach(pct: float) -> dict[str, Threshold]:
    """The threshold of ``pipe_may_reach``."""
    return {"may_reach": at_least(pct, column="compute_pct", or_unknown=True)}


def has_headroom(k: Facts) -> Mask:
    """Tunable groups with nothing at its wall: at the wall, a better launch or more warps gain
    nothing, so advice on them would be false."""
    below_walls = k.meets("compute_wall") & k.meets("memory_wall")
    return tunable(k) & ~of_class(k, *_AT_WALL) & below_walls


def matrix_work(k: Facts) -> Mask:
    """Groups that use the tensor cores for a quarter of the time or more, or, where that was not measured, whose
    name marks tensor cores or warps of different roles: few warps and few issue slots suffice."""
    by_name = (k.name_tensor_core == 1) | (k.name_warp_specialised == 1)
    return np.asanyarray(k.meets("matrix_work") | (by_name & np.isnan(k.tensor_pct)))


#: Columns that ``matrix_work`` reads.
MATRIX = ("tensor_pct", "name_tensor_core", "name_warp_specialised")

#: Its threshold.
MATRIX_WORK: Mapping[str, Threshold] = {
    "matrix_work": at_least(25, column="tensor_pct", words="not {op} {value}"),
}


def spare(k: Facts, peak: Attainable) -> Column:
    """Share of the time that goes if the same work fills the busier side; NaN where unknown."""
    compute = k.compute_pct / (100 * np.asanyarray(peak.compute))
    memory = k.memory_pct / (100 * np.asanyarray(peak.memory))
    return np.asanyarray(1 - np.fmax(compute, memory))


def spare_beside_caches(k: Facts, peak: Attainable) -> Column:
    """The same for a fix that relieves the caches: compute and device memory keep their work."""
    compute = k.compute_pct / (100 * np.asanyarray(peak.compute))
    memory = k.kernel_dram_pct / (100 * np.asanyarray(peak.memory))
    return np.asanyarray(1 - np.fmax(compute, memory))


#: Columns that ``counted`` reads.
COUNTED = ("by_counters",)


def counted(k: Facts) -> Mask:
    """Groups that a counter tool was pointed at: their times are of single launches with cold
    caches, and what was measured is what their author asked for."""
    return np.asanyarray(k.by_counters == 1)
