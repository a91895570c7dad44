"""Candidates on one device: what each would measure, and the objection to it."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof import operators
from traceroof.core.dictionary import coded
from traceroof.core.facts import Facts, is_unknown_value
from traceroof.core.kernel_table import as_reals
from traceroof.core.units import count, percent, quantity
from traceroof.hardware.ceilings import BANDWIDTHS
from traceroof.hardware.devices import Device
from traceroof.hardware.roofline import T_FLOOR_NS
from traceroof.kernels import groups
from traceroof.kernels.categories import row_categories
from traceroof.kernels.modelled_work import model_columns
from traceroof.timeline.hostcalls import direction_of

#: The traffic of one launch, against the last cache before DRAM and in bytes. Every card of
#: RRZE-HPC/gpu-benches, gpu-l2-cache, streams from DRAM from 1.9 times the size of its L2 on; the
#: usual advice for a bandwidth probe is 1 to 4 GiB.
LEAST_CACHES = 4.0
LEAST_BYTES = 512 * 2**20
#: A launch takes so many times the cost of an empty one, which then changes its rate by 2 % at
#: most; a product more, as its last wave of blocks is mostly idle.
LEAST_FLOORS = 50
LEAST_FLOORS_OF_PRODUCT = 100
#: A timeline's times scatter, and the first launches are warm-up; a counter tool replays a launch.
LEAST_LAUNCHES: Mapping[str, int] = {"timeline": 5, "counter-tool": 1}
#: From this scatter on (MAD x 1.4826 over the median) a median says little.
MOST_SCATTER = 0.05
#: Shares of the nominal peak between which a rate is believed. Memory keeps its rated clock; the
#: boost clock of a board may be a few percent above the reference. Large copies reach 69 to 98 % of
#: nominal bandwidth (RRZE gpu-stream), large products 54 to 87 % of the dense rate (MAMF finder):
#: far below, something other than the device was the limit.
MOST_OF_BANDWIDTH, MOST_OF_FLOPS = 1.02, 1.05
LEAST_OF_BANDWIDTH, LEAST_OF_FLOPS = 0.5, 0.3
# Shares of the bytes that are read: one way, and half and half.
_ONE_WAY, _HALF = 0.95, (0.4, 0.6)
# So much of a launch's operations is of one precision, and a product's operations take so many
# times as long as its bytes (at nominal peaks), where it measures the arithmetic.
_ONE_PRECISION, _ABOVE_RIDGE = 0.95, 2.0
# These move bytes for other reasons than a stream.
_NO_STREAM = frozenset({"gemm", "attention", "conv", "communication", "moe-routing", "sort-scan"})
_BUSY_PCT = 60.0
# Less traffic than this is no try at a stream at all.
_NO_PROBE_BYTES = 2**20
# What the models of an operator do with memory; elementwise only with one tensor.
_STREAMS: Mapping[str, str] = {
    "copy": "copy",
    "elementwise": "copy",
    "fill": "write",
    "reduction": "read",
}
_NEEDED = (
    "launches", "median_ns", "mad_ns", "duration_ns", "category", "dram_read_bytes",
    "dram_write_bytes", "compute_pct", "dram_peak_bytes_per_s", "flops",
    "flop_pct", "roof_dtype", "roof_flops_per_s", "intensity", "model", "model_flops",
    "model_bytes", "model_shape", "model_intensity", "model_ridge", "input_shapes",
    "input_dtypes",
)  # fmt: skip
#: Why a good probe is left.
SLOWER = "another one was faster"


@dataclass(frozen=True)
class Probe:
    """One candidate: a kernel group, or copies of one size, and what became of it.

    rate: what it would measure, a name of ``MeasuredRate.rate``; None where that is not clear.
    size: bytes or FLOP of one launch; time_ns: median. reason: why it was left; empty where taken.
    """

    device: str
    time_basis: str
    kernel: str
    rate: str | None
    launches: int
    size: float | None
    time_ns: float | None
    nominal_per_s: float | None
    reason: str = ""

    @property
    def per_s(self) -> float | None:
        """byte/s or FLOP/s; None where size or time is unknown."""
        if self.size is None or not self.time_ns:
            return None
        return self.size / self.time_ns * 1e9

    @property
    def share(self) -> float | None:
        """Of the nominal peak, 0-1."""
        return None if self.per_s is None or not self.nominal_per_s else (
            self.per_s / self.nominal_per_s
        )  # fmt: skip

    @property
    def is_taken(self) -> bool:
        """Whether the ceiling of its kind is its rate."""
        return not self.reason

    @property
    def is_slower(self) -> bool:
        """Whether nothing speaks against it but a faster one."""
        return self.reason == SLOWER


def candidates_of(known: Device, part: pa.Table, time_basis: str) -> tuple[list[Probe], int]:
    """Everything on one device that could be a probe, and how many kernel groups could not."""
    categories = row_categories(part)
    ordinals = as_reals(part["device"])
    here = {int(at): known for at in np.unique(ordinals[~np.isnan(ordinals)])}
    grouped = groups.group(
        part, categories, {**here, -1: known}, model_columns(part, categories), known.vendor
    )
    see = grouped.facts.only(_NEEDED)
    found: list[Probe] = []
    others = 0
    for row, name in enumerate(grouped.names):
        values = {column: _value(see, column, row) for column in _NEEDED}
        group = _Group(known, time_basis, name, values)
        probe = group.product() if values["category"] == "gemm" else group.stream()
        if probe is None:
            others += 1
        else:
            found.append(group.judged(probe))
    found += [
        _Group(known, time_basis, "", {"mad_ns": mad_ns}).judged(one)
        for one, mad_ns in _copies(known, part, time_basis)
    ]
    return found, others


def _value(see: Facts, column: str, row: int) -> Any:
    value = getattr(see, column)[row]
    if is_unknown_value(value):
        return None
    return value if isinstance(value, str) else float(value)


@dataclass(frozen=True)
class _Group:
    """One kernel group of a device: what it would measure, and whether it does."""

    device: Device
    time_basis: str
    name: str
    values: Mapping[str, Any]

    def _probe(
        self, rate: str | None, size: float | None, nominal: float | None, reason: str = ""
    ) -> Probe:
        return Probe(
            device=self.device.name,
            time_basis=self.time_basis,
            kernel=self.name,
            rate=rate,
            launches=int(self.values["launches"]),
            size=size,
            time_ns=self.values["median_ns"],
            nominal_per_s=nominal,
            reason=reason,
        )

    def stream(self) -> Probe | None:
        """The group as a copy, read or write; None where it does not look like one at all."""
        value = self.values
        if value["category"] in _NO_STREAM:
            return None
        nominal = value["dram_peak_bytes_per_s"]
        read, written = value["dram_read_bytes"], value["dram_write_bytes"]
        if read is None and written is None:
            rate, size, reason = self._modelled_stream()
            if size is None or size < _NO_PROBE_BYTES:
                return None
            return self._probe(rate, size, nominal, reason)
        if (read or 0.0) + (written or 0.0) < _NO_PROBE_BYTES:
            return None
        if read is None or written is None:
            way = "read" if read is None else "written"
            known = written if read is None else read
            reason = f"its {way} bytes were not counted: profile them too, in another pass"
            return self._probe(None, known, nominal, reason)
        reads = read / (read + written)
        rate = "read" if reads >= _ONE_WAY else "write" if reads <= 1 - _ONE_WAY else None
        rate = "copy" if _HALF[0] <= reads <= _HALF[1] else rate
        reason = ""
        if rate is None:
            reason = f"{percent(reads)} of its bytes are read: neither one way nor half and half"
        elif (value["compute_pct"] or 0.0) > _BUSY_PCT:
            reason = f"it keeps compute busy as well ({quantity(value['compute_pct'], '%')})"
        return self._probe(rate, read + written, nominal, reason)

    def _modelled_stream(self) -> tuple[str | None, float | None, str]:
        """Kind, bytes and objection by the operator's shapes."""
        value = self.values
        rate, size = _STREAMS.get(value["model"] or ""), value["model_bytes"]
        if rate is None or size is None:
            return None, None, ""
        element = _element_bytes(value["input_shapes"], value["input_dtypes"])
        elements = _elements(value["model_shape"])
        if element is None or elements is None:
            return rate, size, "its operator's shapes do not tell what it reads and what it writes"
        whole = elements * element * (2 if rate == "copy" else 1)
        if not math.isclose(size, whole, rel_tol=1e-6):
            return None, size, "it does more than copy, read or write one tensor once"
        return rate, size, ""

    def product(self) -> Probe | None:
        """The group as a matrix product; None where its operations are unknown."""
        value = self.values
        nominal, rate = value["roof_flops_per_s"], value["roof_dtype"]
        if value["flop_pct"] is not None and rate is not None and value["duration_ns"]:
            size = value["flop_pct"] / 100 * nominal * value["duration_ns"] / 1e9
            reason = ""
            if size < _ONE_PRECISION * value["flops"]:
                reason = "its operations are of several precisions"
            return self._probe(rate, size, nominal, reason)
        if value["model"] != "gemm" or value["model_flops"] is None or rate is None:
            return None
        reason = ""
        intensity, ridge = value["model_intensity"], value["model_ridge"]
        if intensity is None or ridge is None or intensity < _ABOVE_RIDGE * ridge:
            reason = f"{value['model_shape']} has too few operations a byte to measure arithmetic"
        return self._probe(rate, value["model_flops"], nominal, reason)

    def judged(self, probe: Probe) -> Probe:
        """The candidate, with the first objection to it."""
        if probe.reason:
            return probe
        return replace(probe, reason=self._objection(probe))

    def _objection(self, probe: Probe) -> str:
        if probe.time_ns is None or probe.per_s is None or probe.size is None:
            return "its time is unknown"
        least = LEAST_LAUNCHES[self.time_basis]
        if probe.launches < least:
            return f"{count(probe.launches, 'launch', 'launches')}, and {least} are needed"
        moves = probe.rate in BANDWIDTHS
        needed = _least_bytes(self.device)
        if moves and probe.size < needed:
            return (
                f"{quantity(probe.size, 'byte')} a launch, and {quantity(needed, 'byte')} are "
                "needed to stay clear of the caches"
            )
        needed = T_FLOOR_NS * (LEAST_FLOORS if moves else LEAST_FLOORS_OF_PRODUCT)
        if probe.time_ns < needed:
            return (
                f"{quantity(probe.time_ns, 'ns')} a launch, and {quantity(needed, 'ns')} are "
                "needed to outweigh the launch itself"
            )
        scatter = 1.4826 * (self.values.get("mad_ns") or 0.0) / probe.time_ns
        if scatter > MOST_SCATTER:
            return f"its times scatter by {percent(scatter)}: lock the clocks, or repeat it more"
        return _implausible(probe, moves)


def _implausible(probe: Probe, moves: bool) -> str:
    share = probe.share
    if share is None or probe.per_s is None:
        return "the nominal peak of the device is unknown, so nothing tells whether it is right"
    most = MOST_OF_BANDWIDTH if moves else MOST_OF_FLOPS
    least = LEAST_OF_BANDWIDTH if moves else LEAST_OF_FLOPS
    rate = (
        f"{quantity(probe.per_s, 'byte/s' if moves else 'FLOP/s')} is {percent(share)} of nominal"
    )
    if share > most:
        why = (
            "the data came from a cache, or it is another device"
            if moves
            else "the operations were fewer, of another type, or it is another device"
        )
        return f"{rate}: {why}"
    if share < least:
        return f"{rate}: below {percent(least)} something other than the device was the limit"
    return ""


def _least_bytes(device: Device) -> float:
    return max(LEAST_CACHES * (device.last_cache_bytes or 0), LEAST_BYTES)


def _elements(shape: str | None) -> int | None:
    """The size of an element-wise model's shape, ``elements=268435456``."""
    name, _, size = (shape or "").partition("=")
    return int(size) if name == "elements" and size.isdigit() else None


def _element_bytes(shapes: str | None, dtypes: str | None) -> float | None:
    """Bytes of an element where all tensors of a call have the same type; else None."""
    try:
        sizes, types = json.loads(shapes or ""), json.loads(dtypes or "")
    except ValueError:
        return None
    if not isinstance(sizes, list) or not isinstance(types, list):
        return None
    found = {
        operators.element_bytes(str(dtype))
        for size, dtype in zip(sizes, types, strict=False)
        if size
    }
    return found.pop() if len(found) == 1 else None


def _copies(known: Device, part: pa.Table, time_basis: str) -> Iterator[tuple[Probe, float]]:
    """Copies within device memory and fills, by their size, each with the MAD of its times, ns.

    Rows that do not say how many copies they stand for are left out.
    """
    kind, way = coded(part["kind"]), coded(part["copy_kind"])
    fills = kind.spread(np.array([one == "memset" for one in kind.texts] + [False]))
    copies = kind.spread(np.array([one == "memcpy" for one in kind.texts] + [False]))
    within = [direction_of(one) == "device-to-device" for one in way.texts]
    copies &= way.spread(np.array([*within, False]))
    size, time = as_reals(part["copy_bytes"]), as_reals(part["duration_ns"])
    launches = as_reals(part["launch_count"])
    for rate, rows, times in (("write", fills, 1), ("copy", copies, 2)):
        rows = rows & (size * times >= _NO_PROBE_BYTES) & (time > 0) & (launches > 0)
        for moved in np.unique(size[rows]).tolist():
            mine = rows & (size == moved)
            taken, times_each = time[mine], launches[mine]
            median = _median(taken, times_each)
            probe = Probe(
                device=known.name,
                time_basis=time_basis,
                kernel="memset" if rate == "write" else "memcpy",
                rate=rate,
                launches=int(times_each.sum()),
                # Each byte of a copy is read and written.
                size=moved * times,
                time_ns=median,
                nominal_per_s=known.dram_bandwidth_bytes_per_s,
            )
            yield probe, _median(np.abs(taken - median), times_each)


def _median(values: npt.NDArray[np.float64], launches: npt.NDArray[np.float64]) -> float:
    """Median over the launches: a row of a summary counts once per launch."""
    order = np.argsort(values)
    reached = np.cumsum(launches[order])
    middle = [np.searchsorted(reached, reached[-1] / 2, side) for side in ("left", "right")]
    return float(np.mean(values[order][np.minimum(middle, len(values) - 1)]))
