"""What rules on the measurement take off the confidence of others."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Doubt, Scope


def _half(k: Facts, run: Facts) -> Column:
    return np.full(len(k), 0.5)


def halved(what: str, *scopes: Scope) -> tuple[Doubt, ...]:
    """Doubts that halve the confidence of everything in these scopes; ``what`` says why."""
    return tuple(Doubt(scope=scope, what=what, factor=_half) for scope in scopes)
