"""Student's t: probabilities and quantiles for whole degrees of freedom, in closed form.

Source: Abramowitz and Stegun, Handbook of Mathematical Functions (1964), 26.7.3 and 26.7.4.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]

# Beyond so many degrees of freedom a few more change nothing in four digits.
_MOST = 200


def two_sided_p(t: Reals, degrees: int) -> Reals:
    """The chance that |T| is as large as each |t| or larger; NaN where t is. degrees: 1 or more."""
    degrees = min(degrees, _MOST)
    angle = np.arctan(np.abs(t) / np.sqrt(degrees))
    sine, cosine = np.sin(angle), np.cos(angle)
    if degrees % 2:
        term, total = cosine.copy(), np.zeros_like(angle)
        for k in range(3, degrees + 1, 2):
            total += term
            term *= cosine**2 * (k - 1) / k
        inside = 2 / np.pi * (angle + sine * total)
    else:
        term, total = np.ones_like(angle), np.zeros_like(angle)
        for k in range(2, degrees + 1, 2):
            total += term
            term *= cosine**2 * (k - 1) / k
        inside = sine * total
    return np.asarray(np.clip(1 - inside, 0.0, 1.0))


def critical(chance: Reals, degrees: int) -> Reals:
    """The t beyond which |T| lies with these chances (0 to 1), by halving."""
    low, high = np.zeros(len(chance)), np.full(len(chance), _FARTHEST)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        beyond = two_sided_p(middle, degrees) > chance
        low, high = np.where(beyond, middle, low), np.where(beyond, high, middle)
    return high


# With one degree of freedom this far off has a chance of 6e-5.
_FARTHEST, _HALVINGS = 1e4, 45


@lru_cache(maxsize=256)
def quantile(share: float, degrees: int) -> float:
    """The t below which T lies with this probability, 0.5 to 1."""
    return float(critical(np.array([2 * (1 - share)]), degrees)[0])
