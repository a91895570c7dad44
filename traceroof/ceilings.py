"""How much of a nominal peak good code reaches: the two figures behind every saving."""

from dataclasses import dataclass

from traceroof.facts import Column
from traceroof.roofline import DEFAULT_BANDWIDTH_SHARE, DEFAULT_FLOPS_SHARE


@dataclass(frozen=True)
class Attainable:
    """The share of the nominal peak that is attainable, 0-1, one number or one a subject.

    Physics caps a bound at the nominal peak (1, 1); what is likely stops earlier.
    """

    memory: float | Column
    compute: float | Column


NOMINAL = Attainable(memory=1.0, compute=1.0)

#: Where the device was not calibrated (sources: ``roofline.DEFAULT_*_SHARE``).
UNCALIBRATED = Attainable(memory=DEFAULT_BANDWIDTH_SHARE, compute=DEFAULT_FLOPS_SHARE)
