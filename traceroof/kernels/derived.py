"""Columns of a kernel group that follow from others: an ordered table of formulas.

Each row names the columns that it needs; a formula sees those and no others. Rows are worked out in
the order of the table, so a row may need what an earlier one gave.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core.dictionary import compact
from traceroof.core.kernel_table import Column, Source
from traceroof.hardware.devices import AMD, Device

Reals = npt.NDArray[np.float64]
Texts = npt.NDArray[Any]
Columns = dict[str, npt.NDArray[Any]]

TEXT, REAL = pa.string(), pa.float64()


class Hardware:
    """The device of each group. vendor: whose GPU it is where the device is not known."""

    def __init__(self, devices: Sequence[Device | None], vendor: str | None) -> None:
        distinct = {one: at for at, one in enumerate(dict.fromkeys(devices))}
        self.of_group = np.array([distinct[one] for one in devices], dtype=np.int64)
        self.devices = tuple(distinct)
        self.vendor = vendor


class See:
    """What a formula sees of ``count`` groups: the columns that it declared, and the devices."""

    def __init__(
        self,
        columns: Mapping[str, npt.NDArray[Any]],
        hardware: Hardware,
        needs: Sequence[str],
    ) -> None:
        self._columns, self._hardware, self._needs = columns, hardware, needs
        self.count = len(hardware.of_group)

    def __call__(self, name: str) -> Reals:
        """A column of numbers; NaN where unknown."""
        found = self._column(name)
        if found is None:
            return np.full(self.count, np.nan)
        return np.asarray(found, dtype=np.float64)

    def text(self, name: str) -> Texts:
        """A column of text; None where unknown."""
        found = self._column(name)
        return np.full(self.count, None, dtype=object) if found is None else found

    def device(self, name: str) -> Reals:
        """A figure of each group's device (``_device_figures``); NaN where unknown."""
        known = self._hardware.devices
        found = [_device_figures(one).get(name, np.nan) if one else np.nan for one in known]
        return np.array(found, dtype=np.float64)[self._hardware.of_group]

    def vendors(self) -> Texts:
        """Whose GPU each group ran on, where it is known."""
        of = self._hardware
        found = [one.vendor if one else of.vendor for one in of.devices]
        vendors: Texts = np.array(found, dtype=object)[of.of_group]
        return vendors

    def _column(self, name: str) -> npt.NDArray[Any] | None:
        if name not in self._needs:
            raise KeyError(f"the formula reads {name}, which its row does not declare")
        return self._columns.get(name)


@dataclass(frozen=True)
class Derived:
    """One column and how it comes about; ``needs`` are the columns that ``formula`` reads."""

    name: str
    needs: tuple[str, ...]
    formula: Callable[[See], npt.NDArray[Any]]
    unit: str = ""
    meaning: str = ""
    basis: str = ""
    source: Source = "derived"
    text: bool = False

    @property
    def column(self) -> Column | None:
        """The column that the row adds; None where it fills gaps of one of the kernel table."""
        if not self.meaning:
            return None
        kind = TEXT if self.text else REAL
        return Column(self.name, kind, self.unit, self.meaning, "group", self.basis, self.source)


def work_out(
    table: Sequence[Derived],
    columns: Columns,
    devices: Sequence[Device | None],
    vendor: str | None,
) -> Columns:
    """``columns`` with those of ``table``. devices: one a group. vendor: whose GPUs they are where
    the device is not known."""
    known, hardware = dict(columns), Hardware(devices, vendor)
    with np.errstate(divide="ignore", invalid="ignore"):
        for row in table:
            known[row.name] = compact(row.formula(See(known, hardware, row.needs)))
    return known


def of_device(name: str, meaning: str, unit: str = "") -> Derived:
    """A row that takes a figure of the device as it is."""
    return Derived(name, (), lambda see: see.device(name), unit, meaning, source="device")


def product(*names: str) -> Callable[[See], Reals]:
    """The formula that multiplies columns."""
    return lambda see: np.asarray(np.prod([see(name) for name in names], axis=0))


def first_known(*choices: Reals) -> Reals:
    """The first choice that is known, per group."""
    result = np.asarray(choices[0], dtype=np.float64)
    for other in choices[1:]:
        result = np.where(np.isnan(result), other, result)
    return result


def first_name(count: int, *choices: tuple[str, Reals]) -> Texts:
    """The name of the first choice that is known, per group."""
    result = np.full(count, None, dtype=object)
    for name, values in reversed(choices):
        result[~np.isnan(values)] = name
    return result


def seconds(see: See) -> Reals:
    """Time of a launch; a launch of no time has no rates."""
    return np.where(see("duration_ns") > 0, see("duration_ns"), np.nan) / 1e9


def amd(see: See) -> npt.NDArray[np.bool_]:
    """Which groups ran on a GPU of AMD's architecture."""
    return np.isin(see.vendors(), AMD)


@lru_cache(maxsize=1024)
def _device_figures(device: Device) -> Mapping[str, float]:
    peak = device.flops_per_s
    fp32 = peak.get("fp32")
    return {
        "warp_size": float(device.wavefront),
        "compute_capability": float(device.compute_capability or "nan"),
        "dram_peak": device.dram_bandwidth_bytes_per_s or np.nan,
        "tf32_speedup": peak["tf32"] / fp32 if fp32 and "tf32" in peak else np.nan,
        "fp64_ratio": peak["fp64"] / fp32 if fp32 and "fp64" in peak else np.nan,
        "tensor_half_rate": _half_rate(device),
        "boost_clock_hz": device.boost_clock_hz or np.nan,
        "sm_count": float(device.sm_count or "nan"),
        "l2_cache_bytes": float(device.l2_bytes or "nan"),
        "last_cache_bytes": float(device.last_cache_bytes or "nan"),
        "int8_speedup": _over(peak, ("int8",), ("bf16", "fp16")),
        "fp8_over_int8": _over(peak, ("fp8",), ("int8",)),
        **{f"peak_{dtype}": value for dtype, value in peak.items()},
    }


# Architectures of which GeForce cards add up in FP32 at half the rate of FP16, and what a
# multiprocessor does in a clock at that rate: FP16 operations of tensor cores.
_HALVED = {"7.5": 512, "8.6": 512, "8.9": 512, "12.0": 512}
_TOLERANCE = 1.25


def _half_rate(device: Device) -> float:
    """1 where products that add up in FP32 run at half of what the tensor pipe's counter calls 100 %
    (GeForce), NaN where the card is unknown, else 0."""
    peak, clock, count = device.flops_per_s.get("fp16"), device.boost_clock_hz, device.sm_count
    halved = _HALVED.get(device.compute_capability or "")
    if not halved:
        return 0.0
    if not (peak and clock and count):
        return float("nan")
    return float(peak / (clock * count) < _TOLERANCE * halved)


def _over(peak: Mapping[str, float], these: Sequence[str], those: Sequence[str]) -> float:
    """The first known peak of some element types over the first known one of others."""
    one, other = (next((peak[t] for t in types if t in peak), np.nan) for types in (these, those))
    return one / other
