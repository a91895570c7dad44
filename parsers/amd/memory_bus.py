"""The memory of GPUs that share it with their processor, from the list of agents."""

from collections.abc import Mapping
from typing import Any

_INTEGRATED = ("gfx902", "gfx909", "gfx90c", "gfx1033", "gfx1035", "gfx1036", "gfx1103", "gfx115")
# Transfers per memory clock as the driver counts it: LPDDR5 runs its data at four clocks, both
# edges; DDR5 at one. Their clocks do not overlap.
_TRANSFERS_LPDDR5, _TRANSFERS_DDR5, _FASTEST_LPDDR5_MHZ = 8, 2, 1_400
_BELIEVABLE = (10e9, 1e12)


def bus_bytes_per_s(arch: str | None, banks: Any) -> float | None:
    """The bandwidth of an integrated GPU by the width (bits) and clock (MHz) of its memory, which
    the maker of the machine chooses; None for other GPUs and where the agent does not tell.

    banks: ``mem_banks`` of an agent (rocprofv3 JSON, rocpd).
    """
    if not (arch or "").startswith(_INTEGRATED) or not isinstance(banks, list):
        return None
    rate = max(map(_rate, banks), default=0.0)
    return rate if _BELIEVABLE[0] <= rate <= _BELIEVABLE[1] else None


def _rate(bank: Any) -> float:
    fields = bank if isinstance(bank, Mapping) else {}
    width, clock = fields.get("width"), fields.get("mem_clk_max")
    if not isinstance(width, int | float) or not isinstance(clock, int | float):
        return 0.0
    transfers = _TRANSFERS_LPDDR5 if clock <= _FASTEST_LPDDR5_MHZ else _TRANSFERS_DDR5
    return width / 8 * clock * 1e6 * transfers
