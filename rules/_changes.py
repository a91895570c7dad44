"""What several rules ask about the changes of a comparison; columns as in ``subjects``."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.core.tracing import one_of


def of_level(k: Facts, *levels: str) -> Mask:
    """The whole, the categories or the kernels."""
    return one_of(k.level, *levels)


def same_kernel(k: Facts) -> Mask:
    """Kernels that have one name on both sides."""
    return np.asanyarray((k.matched_by == "launch") | (k.matched_by == "name"))


def on_both_sides(k: Facts) -> Mask:
    """Kernels that both sides have, under whatever name."""
    return np.asanyarray(of_level(k, "kernel") & (k.verdict != "new") & (k.verdict != "gone"))


def lost(k: Facts) -> Column:
    """Share of the slower side's time that is back when the change is undone."""
    return np.asanyarray(np.where(k.delta_ns > 0, k.delta_ns / k.time_ns, np.nan))
