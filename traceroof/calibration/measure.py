"""From profiles of probes to measured ceilings: what a device reaches, not what its maker says.

A probe is a kernel whose work is known and whose wall is the one that it measures: a large copy, a
read, a write, a large matrix product. ``measure`` finds the probes among the kernel groups of
ordinary recordings, takes the best large one of each kind, and says of every candidate what it
took or why it left it. It stores nothing.
"""

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.calibration.probes import SLOWER, Probe, candidates_of
from traceroof.core.kernel_table import as_reals, total_time_ns
from traceroof.core.merge_recordings import merge
from traceroof.core.recording import Recording
from traceroof.core.units import count, percent, quantity
from traceroof.errors import TraceroofError
from traceroof.hardware.ceilings import MeasuredRate
from traceroof.hardware.devices import Device
from traceroof.hardware.run_devices import by_ordinal, devices_of
from traceroof.kernels import groups

HINT = "docs/calibrate.md has a short program to profile, and the command for each profiler"


@dataclass(frozen=True)
class Measurement:
    """The ceilings that were found, and every candidate, most time first. ``others`` counts the
    kernel groups that are no probe of anything. ``replaced`` has for each rate the one that the
    store held until then, None where it held none; it is empty while nothing was stored."""

    rates: tuple[MeasuredRate, ...]
    probes: tuple[Probe, ...]
    others: int
    replaced: tuple[MeasuredRate | None, ...] = ()
    notes: tuple[str, ...] = ()


def measure(
    recordings: Sequence[Recording], *, device: str | None = None, now: str | None = None
) -> Measurement:
    """Find the probes in recordings and what they measured.

    Recordings of the same devices with times of the same kind count as one, so that counters of
    several passes meet. device: the GPU as the user names it. now: when, ISO 8601; by default the
    present.

    Raises TraceroofError where no recording tells its device, or no probe is good enough.
    """
    now = now or datetime.now(UTC).isoformat(timespec="seconds")
    rates: list[MeasuredRate] = []
    probes: list[Probe] = []
    others = 0
    unknown: list[str] = []
    idle: list[str] = []
    for recording in _together(recordings, device):
        found = _of_devices(recording, device)
        if not recording.kernels.num_rows:
            idle.append(f"{_path(recording)} has no GPU work in it")
        elif not found:
            unknown.append(_unknown_device(recording, device))
        for known, part in found.items():
            candidates, no_probes = candidates_of(known, part, recording.time_basis)
            others += no_probes
            probes += candidates
            rates += _by_the_tool(recording, known, part, device, now)
            probes += _refused(recording, known, part, device)
    rates = _one_of_each(rates)
    probes = _best_of_each([_against_the_tool(one, rates) for one in probes])
    taken = [_rate(probe, now) for probe in probes if probe.is_taken]
    have = {(one.device, one.time_basis, one.rate) for one in taken}
    rates = [one for one in rates if (one.device, one.time_basis, one.rate) not in have]
    result = Measurement(
        tuple(dict.fromkeys(taken + rates)),
        tuple(
            sorted(probes, key=lambda one: (not one.is_taken, -(one.time_ns or 0) * one.launches))
        ),
        others,
    )
    if not result.rates:
        raise _nothing_found(recordings, result, unknown, idle)
    return replace(result, notes=(*idle, *unknown, *_notes(recordings, result)))


def _notes(recordings: Iterable[Recording], result: Measurement) -> Iterator[str]:
    """What to mind about the ceilings that were found."""
    taken = [one for one in result.probes if one.is_taken]
    once = [one for one in taken if one.launches < _FEW]
    if once:
        yield (
            f"{count(len(once), 'ceiling rests', 'ceilings rest')} on fewer than {_FEW} launches: "
            "repeat the probes to be sure"
        )
    good = [one for one in result.probes if one.is_taken or one.is_slower]
    time = sum(total_time_ns(one.kernels, None) for one in recordings)
    share = sum(one.launches * (one.time_ns or 0) for one in good) / (time or 1)
    if taken and share < _MOSTLY_PROBES:
        yield (
            f"probes are {percent(share)} of the time of all kernels and copies: this looks like an "
            "application, whose kernels do not show what the GPU can do; profile a program of "
            "probes alone"
        )


# Fewer launches than this make a median uncertain; with less of the time it is no probe program.
_FEW = 5
_MOSTLY_PROBES = 0.9


def _together(recordings: Sequence[Recording], device: str | None) -> list[Recording]:
    """The recordings of the same devices and kind of times as one each, in their order."""
    of: dict[Any, list[Recording]] = {}
    for recording in recordings:
        known = by_ordinal(devices_of(recording, device))
        named = sorted((at, one.name if one else "") for at, one in known.items())
        same = (recording.time_basis, *named)
        of.setdefault(same, []).append(recording)
    return [merge(several) for several in of.values()]


def _of_devices(recording: Recording, device: str | None) -> dict[Device, pa.Table]:
    """Each device of the table with its rows; several cards of one kind are one device."""
    listed = by_ordinal(devices_of(recording, device))
    known = {at: None if one and one.is_several else one for at, one in listed.items()}
    only = groups.only_one(known)
    rows: dict[Device, npt.NDArray[np.bool_]] = {}
    ordinals = as_reals(recording.kernels["device"])
    for ordinal in np.unique(ordinals):  # NaN is one of them, once
        is_known = not np.isnan(ordinal)
        found = known.get(int(ordinal) if is_known else -1, only)
        if found is not None:
            here = ordinals == ordinal if is_known else np.isnan(ordinals)
            rows[found] = rows.get(found, np.zeros(len(ordinals), dtype=bool)) | here
    return {one: recording.kernels.filter(pa.array(here)) for one, here in rows.items()}


def _unknown_device(recording: Recording, device: str | None) -> str:
    path = _path(recording)
    gpus = devices_of(recording, device)
    several = [one.known.name for one in gpus if one.known is not None and one.known.is_several]
    if several:
        return f"{path} does not say which card it was: {several[0]}"
    names = [one.name for one in gpus if one.name and one.known is None]
    if names:
        return f"{path} was recorded on {names[0]}, which the device table does not have"
    if len({one.known for one in gpus if one.known is not None}) > 1:
        return f"{path} does not say on which of its GPUs its kernels ran"
    return f"{path} does not say which GPU it was recorded on"


def _path(recording: Recording) -> str:
    return recording.sources[0].path if recording.sources else "the recording"


def _best_of_each(probes: Sequence[Probe]) -> list[Probe]:
    """Of the good ones of each kind only the fastest is taken: a mean would blur what it reached."""
    best: dict[tuple[str, str, str | None], Probe] = {}
    for one in probes:
        key = (one.device, one.time_basis, one.rate)
        if one.is_taken and (key not in best or (one.per_s or 0) > (best[key].per_s or 0)):
            best[key] = one
    result = []
    for one in probes:
        winner = best.get((one.device, one.time_basis, one.rate))
        if one.is_taken and winner is not None and one is not winner:
            one = replace(one, reason=SLOWER)
        result.append(one)
    return result


def _against_the_tool(probe: Probe, rates: Iterable[MeasuredRate]) -> Probe:
    """A product says better what a product can reach than a tool's loop of multiply-adds, but not
    one that stays far below it."""
    for one in rates:
        same = (one.device, one.time_basis, one.rate) == (
            probe.device,
            probe.time_basis,
            probe.rate,
        )
        if same and probe.is_taken and (probe.per_s or 0) < _OF_THE_TOOL * one.per_s:
            share = percent((probe.per_s or 0) / one.per_s)
            return replace(probe, reason=f"{share} of what {one.probe} measured: not at its wall")
    return probe


# Products reach 54 to 87 % of the nominal rate (MAMF finder), such loops 90 % and more.
_OF_THE_TOOL = 0.7


def _rate(probe: Probe, now: str) -> MeasuredRate:
    if not (probe.rate and probe.per_s and probe.nominal_per_s):
        raise ValueError(f"a probe without a rate was taken: {probe}")
    return MeasuredRate(
        device=probe.device,
        time_basis=probe.time_basis,
        rate=probe.rate,
        per_s=probe.per_s,
        nominal_per_s=probe.nominal_per_s,
        probe=probe.kernel,
        launches=probe.launches,
        launch_size=probe.size,
        measured=now,
    )


def _by_the_tool(
    recording: Recording, known: Device, part: pa.Table, device: str | None, now: str
) -> Iterator[MeasuredRate]:
    """What the profiler itself measured on the device (``roofline.csv`` of rocprof-compute)."""
    for one in devices_of(recording, device):
        for name, per_s in one.info.measured if one.known == known else ():
            nominal = _nominal(known, part, name)
            if nominal:
                yield MeasuredRate(
                    device=known.name,
                    time_basis=recording.time_basis,
                    rate=name,
                    per_s=per_s,
                    nominal_per_s=nominal,
                    probe=_BY_THE_TOOL,
                    measured=now,
                )


def _refused(
    recording: Recording, known: Device, part: pa.Table, device: str | None
) -> Iterator[Probe]:
    """What the profiler measured and nobody can believe."""
    refused = {
        rate
        for one in devices_of(recording, device)
        if one.known == known
        for rate in one.info.refused
    }
    for name, per_s in sorted(refused):
        nominal = _nominal(known, part, name)
        rate = quantity(per_s, "byte/s" if name == "dram" else "FLOP/s")
        share = f" is {percent(per_s / nominal)} of nominal" if nominal else ""
        yield Probe(
            device=known.name,
            time_basis=recording.time_basis,
            kernel=_BY_THE_TOOL,
            rate=name,
            launches=0,
            size=None,
            time_ns=None,
            nominal_per_s=nominal,
            reason=f"{rate}{share}: the tool's own measurement cannot be right",
        )


_BY_THE_TOOL = "roofline.csv"


def _nominal(known: Device, part: pa.Table, name: str) -> float | None:
    """The peak that ``diagnose`` holds a rate against: the bandwidth of the device in the file where
    that tells it, else the device table's."""
    if name != "dram":
        return known.peak(name)
    told = as_reals(part["peak_dram_bytes_per_s"])
    told = told[~np.isnan(told)]
    return float(np.median(told)) if len(told) else known.dram_bandwidth_bytes_per_s


def _one_of_each(rates: Iterable[MeasuredRate]) -> list[MeasuredRate]:
    """One rate of each kind: the median of what a tool measured in several runs or on several
    cards."""
    of: dict[tuple[str, str, str], list[MeasuredRate]] = {}
    for one in rates:
        of.setdefault((one.device, one.time_basis, one.rate), []).append(one)
    return [
        replace(several[0], per_s=statistics.median(one.per_s for one in several))
        for several in of.values()
    ]


def _nothing_found(
    recordings: Iterable[Recording],
    result: Measurement,
    unknown: Sequence[str],
    idle: Sequence[str],
) -> TraceroofError:
    if idle and not unknown and not result.probes and not result.others:
        return TraceroofError(f"{idle[0]}: no kernel, no copy and no fill", HINT)
    if unknown and not result.probes:
        return TraceroofError(
            f"{unknown[0]}, so there is no peak to hold its probes against",
            "name the GPU with --device (`traceroof devices` lists the names)",
        )
    paths = [source.path for one in recordings for source in one.sources]
    where = Path(paths[0]).name + (f" and {len(paths) - 1} more" if paths[1:] else "")
    if result.probes:
        known = [one for one in result.probes if one.rate] or result.probes
        first = known[0]
        of = (
            "the candidate"
            if len(result.probes) == 1
            else f"one of {len(result.probes)} candidates"
        )
        return TraceroofError(
            f"no probe in {where} is good enough: {of}, {first.kernel[:60]}: {first.reason}", HINT
        )
    kernels = count(result.others, "kernel")
    return TraceroofError(
        f"no probe in {where}: of its {kernels} none is a copy, a read, a write or a matrix "
        f"product with known bytes or operations",
        HINT,
    )
