"""What the rules on tensor-core use ask; columns as in ``traceroof.groups``."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.core.tracing import one_of
from traceroof.rules._kernels import of_class

#: Columns that the functions below read.
PRODUCT = ("category", "primary_class", "name_no_matrix", "name_tensor_core", "tensor_pct")


def products(k: Facts, *categories: str) -> Mask:
    """Matrix products worth judging: no matrix-vector or helper kernel, none shorter than its
    launch."""
    plain = ~(k.name_no_matrix == 1) & ~of_class(k, "launch-bound")
    return np.asanyarray(one_of(k.category, *categories) & plain)


def marked_only(k: Facts) -> Mask:
    """Where no counter tells the use of tensor cores but the name says they are used."""
    return np.asanyarray(np.isnan(k.tensor_pct) & (k.name_tensor_core == 1))


def name_trust(k: Facts) -> Column:
    """Names are hints (0.5) where counters are observations (0.9)."""
    return np.where(np.isnan(k.tensor_pct), 0.5 / 0.9, 1.0)
