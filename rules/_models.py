"""What the rules on modelled work ask; columns as in ``traceroof.groups``."""

import numpy as np

from traceroof.core.facts import (
    Column,
    Facts,
    Mask,
    unknown,
)
from traceroof.core.tracing import each
from traceroof.hardware.ceilings import UNCALIBRATED, Attainable
from traceroof.kernels.utilisation import MODEL_LIMIT_PCT
from traceroof.patterns.launch_order import sizes_of

#: Columns that the functions below read.
MODELLED = ("roof_pct", "model_flop_pct", "model_dram_pct")

#: Columns that sharpen them: measured ceilings of the device, as shares of the nominal ones.
CEILINGS = ("flop_attainable", "dram_attainable")

# A modelled rate above the peak by more than rounding: the data came from a cache, or the model is
# wrong for this launch (``groups``). Then it says nothing.


def credible(k: Facts) -> Mask:
    """Groups whose modelled work fits their time and their device."""
    above = np.fmax(k.model_flop_pct, k.model_dram_pct) > MODEL_LIMIT_PCT
    return np.asanyarray(~np.isnan(k.roof_pct) & ~above)


def attained(k: Facts, peak: Attainable | None = None) -> Column:
    """Least time over the time taken, 0-1, held against what is attainable of the peaks."""
    compute = _share(k, "flop_attainable", UNCALIBRATED.compute) if peak is None else peak.compute
    by_flops = k.model_flop_pct / (100 * np.asanyarray(compute))
    # The roof knows one thing more: no launch takes less than its fixed cost.
    return np.asanyarray(np.fmax(np.fmax(by_flops, by_bytes(k, peak)), k.roof_pct / 100))


def far(k: Facts) -> Mask:
    """Groups far from their roof: below 0.7 of what is usual or known of the device, and not yet at
    0.9 of the latter. On a GPU whose practical rate is half of its peak, 40 % of the peak is no
    hint of a bad kernel, but a fifth of the time may still go."""
    usual = np.fmax(
        k.model_flop_pct / (100 * np.asanyarray(UNCALIBRATED.compute)),
        k.model_dram_pct / (100 * np.asanyarray(UNCALIBRATED.memory)),
    )
    reached = attained(k)
    least = np.fmin(np.fmax(usual, k.roof_pct / 100), reached)
    return np.asanyarray((least < 0.7) & (reached < 0.9))


def by_bytes(k: Facts, peak: Attainable | None = None) -> Column:
    """Modelled bytes over time and attainable bandwidth, 0-1."""
    memory = _share(k, "dram_attainable", UNCALIBRATED.memory) if peak is None else peak.memory
    return np.asanyarray(k.model_dram_pct / (100 * np.asanyarray(memory)))


def _share(k: Facts, measured: str, otherwise: float | Column) -> Column:
    known = getattr(k, measured) if measured in k else np.full(len(k), np.nan)
    return np.where(np.isnan(known), otherwise, known)


def missed(k: Facts, peak: Attainable) -> Column:
    """Share of the time above the least time."""
    return np.asanyarray(1 - attained(k, peak))


def size(k: Facts, name: str) -> Column:
    """One size of ``model_shape`` (``M`` of ``M=8 N=4``); NaN where it is not there."""
    return each(
        k.model_shape, lambda text: sizes_of(text).get(name, np.nan), f"{name} of the shape"
    )


def traced(k: Facts) -> Mask:
    """Groups that a framework's operator launched: those that can have shapes."""
    return ~unknown(k.operator)
