"""Peaks of GPUs: what each device can do at most.

The table is ``devices.toml`` beside this module: dense rates, one device as software sees it, a
source for every row. Which row a profiler means: ``device_lookup``.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from traceroof.core.toml_tables import toml_table

#: The rates that a row may have. ``fp64`` and ``fp32`` are vector rates, ``fp64_tensor`` and
#: ``fp32_tensor`` the matrix rates; the others are the fastest dense path for that type.
DTYPES = (
    "fp64",
    "fp64_tensor",
    "fp32",
    "fp32_tensor",
    "tf32",
    "fp16",
    "bf16",
    "fp8",
    "fp4",
    "int8",
)

#: Vendors whose GPUs AMD's tools and words fit.
AMD = ("amd", "hygon")

GIB = 2**30
_MIB = 2**20

# How the name of what differing cards have in common ends.
SEVERAL = " cards)"


@dataclass(frozen=True)
class Device:
    """One GPU as software sees it: a card, one GCD of a card, or a partition.

    Unknown figures are None, and unknown rates are absent from ``flops_per_s``. Rates are dense:
    never with sparsity. For GeForce and Radeon cards they are those of the reference card; boards
    with a higher boost clock exceed them by a few percent.
    """

    name: str  #: canonical, for example "A100-SXM4-80GB"
    vendor: str  #: "nvidia", "amd" or "hygon"
    architecture: str  #: "Ampere", "CDNA 3", ...
    compute_capability: str | None  #: "8.0"; NVIDIA only
    gfx_target: str | None  #: "gfx942"; AMD and Hygon only
    sm_count: int | None  #: streaming multiprocessors, or compute units
    boost_clock_hz: float | None  #: the clock of the rating
    memory_bytes: int | None  #: installed; drivers report a little less
    dram_bandwidth_bytes_per_s: float | None
    l2_bytes: int | None
    flops_per_s: Mapping[str, float] = field(hash=False)  #: key of ``DTYPES`` -> FLOP/s or OP/s
    wavefront: int  #: threads in a warp or wavefront: 32 or 64
    source: str  #: where the figures come from
    grade: str  #: "A" two agreeing sources, "B" one, or some arithmetic, "C" not confirmed
    remark: str | None = None  #: what is suspect or easily misread
    aliases: tuple[str, ...] = ()  #: names that only this device has
    shared_names: tuple[str, ...] = ()  #: names that several devices print
    pci_device_ids: tuple[int, ...] = ()
    xcd_count: int | None = None  #: accelerator dies, each of which can be a partition
    #: The last cache before DRAM: L2, or AMD's Infinity Cache behind it. Of a partition that of the
    #: whole, which it has at most.
    last_cache_bytes: int | None = None
    #: Published measurements: key of ``DTYPES`` -> FLOP/s, and "read", "write", "copy" -> byte/s.
    attainable_flops_per_s: Mapping[str, float] = field(default_factory=dict, hash=False)
    attainable_bytes_per_s: Mapping[str, float] = field(default_factory=dict, hash=False)
    attainable_source: str | None = None

    @property
    def is_several(self) -> bool:
        """Whether it stands for cards that differ, of which nobody knows which it was."""
        return self.name.endswith(SEVERAL)

    def peak(self, dtype: str) -> float | None:
        """Dense FLOP/s (OP/s for int8) for a key of ``DTYPES``; None where unknown."""
        return self.flops_per_s.get(dtype)


# The user's own GPUs, while a command runs with them. Parsers, combine and the diagnosis all look
# devices up, so the table itself knows them, for the time of a ``with``.
_OWN: ContextVar[tuple[Device, ...]] = ContextVar("own devices", default=())


@contextmanager
def knowing(own: Iterable[Device]) -> Iterator[None]:
    """Within the block the table has these devices too; they go before rows of equal name."""
    before = _OWN.set(tuple(own))
    try:
        yield
    finally:
        _OWN.reset(before)


def own_devices() -> tuple[Device, ...]:
    """The user's own rows (``knowing``)."""
    return _OWN.get()


def all_devices() -> tuple[Device, ...]:
    """Every row of the table, in its order; the user's own first."""
    return (*own_devices(), *shipped_devices())


@cache
def shipped_devices() -> tuple[Device, ...]:
    # Decimals, so that 989.4 TFLOP/s is 989.4e12 to the last bit.
    rows = toml_table("traceroof.hardware", "devices.toml", exact=True)["device"]
    return tuple(map(device_of, rows))


#: The columns of a row: what ``device_of`` reads.
COLUMNS = (
    "name", "vendor", "architecture", "compute_capability", "gfx_target", "sm_count", "boost_mhz",
    "memory_gib", "bandwidth_gb_per_s", "l2_mib", "last_cache_mib", "tflops", "wavefront", "source",
    "grade", "remark", "aliases", "shared_names", "pci_device_ids", "xcd_count",
    "attainable_tflops", "attainable_gb_per_s", "attainable_source",
)  # fmt: skip


def device_of(row: Mapping[str, Any]) -> Device:
    """A row of the table, with the keys of ``COLUMNS``, as a device."""

    def scaled_to(key: str, unit: int) -> float | None:
        return float(row[key] * unit) if key in row else None

    def whole(key: str, unit: int) -> int | None:
        return int(row[key] * unit) if key in row else None

    def rates(key: str, unit: int) -> dict[str, float]:
        return {name: float(rate * unit) for name, rate in row.get(key, {}).items()}

    return Device(
        name=row["name"],
        vendor=row["vendor"],
        architecture=row["architecture"],
        compute_capability=row.get("compute_capability"),
        gfx_target=row.get("gfx_target"),
        sm_count=row.get("sm_count"),
        boost_clock_hz=scaled_to("boost_mhz", 10**6),
        memory_bytes=whole("memory_gib", GIB),
        dram_bandwidth_bytes_per_s=scaled_to("bandwidth_gb_per_s", 10**9),
        l2_bytes=whole("l2_mib", _MIB),
        flops_per_s=rates("tflops", 10**12),
        wavefront=row.get("wavefront", 32),
        source=row["source"],
        grade=row["grade"],
        remark=row.get("remark"),
        aliases=tuple(row.get("aliases", ())),
        shared_names=tuple(row.get("shared_names", ())),
        pci_device_ids=tuple(row.get("pci_device_ids", ())),
        xcd_count=row.get("xcd_count"),
        last_cache_bytes=whole("last_cache_mib" if "last_cache_mib" in row else "l2_mib", _MIB),
        attainable_flops_per_s=rates("attainable_tflops", 10**12),
        attainable_bytes_per_s=rates("attainable_gb_per_s", 10**9),
        attainable_source=row.get("attainable_source"),
    )
