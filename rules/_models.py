"""What the rules on modelled work ask; columns as in ``traceroof.groups``."""

from collections.abc import Mapping

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
from traceroof.rule import Threshold, at_most, below

#: Columns that the functions below read.
MODELLED = ("roof_pct", "model_flop_pct", "model_dram_pct")

#: What a least time that both rates decide is printed beside.
RATES = ("model_flop_pct", "model_dram_pct")

#: Columns that sharpen them: measured ceilings of the device, as shares of the nominal ones.
CEILINGS = ("flop_attainable", "dram_attainable")

#: Threshold of ``credible``. A modelled rate above the peak by more than rounding: the data came from
#: a cache, or the model is wrong for this launch (``groups``). Then it says nothing.
CREDIBLE: Mapping[str, Threshold] = {
    "model_fits": at_most(
        MODEL_LIMIT_PCT,
        measure=lambda k: np.fmax(k.model_flop_pct, k.model_dram_pct),
        or_unknown=True,
        told=False,
    ),
}


def credible(k: Facts) -> Mask:
    """Groups whose modelled work fits their time and their device."""
    return np.asanyarray(~np.isnan(k.roof_pct) & k.meets("model_fits"))


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
    return np.asanyarray(k.meets("usual_reached") & k.meets("known_reached"))


def _usual_reached(k: Facts) -> Column:
    usual = np.fmax(
        k.model_flop_pct / (100 * np.asanyarray(UNCALIBRATED.compute)),
        k.model_dram_pct / (100 * np.asanyarray(UNCALIBRATED.memory)),
    )
    return np.asanyarray(np.fmin(np.fmax(usual, k.roof_pct / 100), attained(k)))


#: Thresholds of ``far``, and how a condition says them.
FAR: Mapping[str, Threshold] = {
    "usual_reached": below(
        0.7, measure=_usual_reached, beside=RATES, words="{op} {value:.0%} of attainable"
    ),
    "known_reached": below(0.9, measure=attained, told=False),
}
IS_FAR = (
    "a least time below {usual_reached:.0%} of the time taken at the usual attainable rates, and "
    "below {known_reached:.0%} at the rates that were measured or published for this GPU"
)


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


#: Attention over this many queries or more is held against what fused kernels reach at its length,
#: not against its roof.
LONG_QUERIES = 512


def traced(k: Facts) -> Mask:
    """Groups that a framework's operator launched: those that can have shapes."""
    return ~unknown(k.operator)
