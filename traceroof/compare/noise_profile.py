"""The noise of a program, from repeats of unchanged code: what a difference must exceed to be one.

A ``Profile`` is kept in the store per device and workload; ``compare`` takes the one whose kernels the
runs have (``profile_for``) in place of what few runs per side tell.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Self

import msgspec
import numpy as np
import numpy.typing as npt

from traceroof.compare.changes import KernelPair
from traceroof.compare.known_noise import KnownNoise, least_called
from traceroof.compare.noise_threshold import Thresholds
from traceroof.compare.samples import Per
from traceroof.compare.sides import Counted, Side
from traceroof.config import NONE, Settings
from traceroof.core import kernel_names
from traceroof.core.recording import Run
from traceroof.diagnosis.diagnosis import Diagnosis, KernelGroup
from traceroof.errors import TraceroofError

SCHEMA = "traceroof/noise/1"
Reals = npt.NDArray[np.float64]

#: Fewer repeats tell no spread that is worth using.
LEAST_RUNS = 3
# A profile is of a workload whose kernels have at least this part of the time in both.
_SHARED = 0.8
# Kernels with a smaller part of the time are left out.
_LEAST_SHARE = 0.0005
_MOST_CORRELATED = 0.8


@dataclass(frozen=True)
class Scatter:
    """How one thing scattered over the repeats. sigma: standard deviation of one run; reach: largest
    difference of two runs; both relative to the median. share: of the kernel time, 0-1."""

    name: str
    median_ns: float
    sigma: float
    reach: float
    share: float | None = None


@dataclass(frozen=True)
class StepScatter:
    """Steps within a run. sigma: of one step, relative, mean over the runs; correlation: of a step
    with the next; steps: of a run, median; independent: steps that tell as much as these if steps
    were independent."""

    sigma: float
    correlation: float
    steps: float
    independent: float


@dataclass(frozen=True)
class Profile:
    """The noise of one workload on one device. runs: repeats; correlation: of runs one after
    another, 0-0.8; kernels: by ``key_of``, most time first."""

    workload: str
    device: str
    time_basis: str
    per: Per
    runs: int
    measured: str
    correlation: float
    total: Scatter
    kernel_time: Scatter
    categories: tuple[Scatter, ...]
    kernels: tuple[Scatter, ...]
    steps: StepScatter | None = None
    notes: tuple[str, ...] = ()

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """The JSON form; top cuts kernels."""
        made = {"schema": SCHEMA, **asdict(self)}
        made["kernels"] = made["kernels"][:top]
        return made

    def brief(self) -> dict[str, Any]:
        """Which measurement it is, without its figures."""
        names = ("workload", "device", "runs", "measured", "correlation")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_dict(cls, form: Mapping[str, Any]) -> Self:
        """The profile as it was kept. Raises ValueError where it is damaged."""
        return msgspec.convert({name: form[name] for name in form if name != "schema"}, cls)

    def detectable(
        self, one: Scatter, runs: int, percent: float, false: float, least_ns: float = 0.0
    ) -> float:
        """The least relative change of one thing that so many runs per side show in 95 of 100
        comparisons. percent, least_ns: least change that matters; false: chance of a false call."""
        floor = max(percent / 100, least_ns / one.median_ns if one.median_ns else np.inf)
        found = least_called(
            np.array([one.sigma]), np.array([one.reach]), np.array([floor]), np.array([false]),
            (runs, runs), self.runs - 1, self.correlation,
        )  # fmt: skip
        return float(found[0])

    def of_total(self, runs: int, limits: Thresholds) -> float:
        """``detectable`` of the whole."""
        return self.detectable(self.total, runs, limits.total_percent, 2 * limits.false)

    def of_kernel(self, kernel: Scatter, runs: int, limits: Thresholds) -> float:
        """``detectable`` of a kernel, among all kernels of the workload."""
        counted = sum(one.share or 0.0 for one in self.kernels) or 1.0
        part = (kernel.share or 0.0) / counted
        least = limits.least(self.kernel_time.median_ns)
        return self.detectable(kernel, runs, limits.percent, 2 * limits.false * part, least)

    # What a comparison asks for

    def known(self, scatters: Sequence[Scatter | None]) -> KnownNoise:
        """The noise of some things; None: not measured."""
        return KnownNoise(
            sigma=np.array([np.nan if one is None else one.sigma for one in scatters]),
            reach=np.array([np.nan if one is None else one.reach for one in scatters]),
            degrees=self.runs - 1,
            correlation=self.correlation,
        )

    def of_categories(self, names: Sequence[str]) -> KnownNoise:
        """The noise of categories."""
        by_name = {one.name: one for one in self.categories}
        return self.known([by_name.get(name) for name in names])

    def of_pairs(self, pairs: Sequence[KernelPair]) -> KnownNoise:
        """The noise of kernel pairs: that of their kernels of the base, the largest of several."""
        by_name = {one.name: one for one in self.kernels}

        def of(pair: KernelPair) -> Scatter | None:
            found = [by_name.get(key_of(group)) for group in pair.base]
            told = [one for one in found if one is not None]
            if not told or len(told) < len(found):
                return None
            return max(told, key=lambda one: one.sigma)

        return self.known([of(pair) for pair in pairs])


def key_of(group: KernelGroup) -> str:
    """What a kernel group is called in a profile: its name, grid and block."""
    sizes = ("x".join(map(str, size)) if size else "" for size in (group.grid, group.block))
    return "|".join((kernel_names.key(group.kernel), *sizes))


def device_of(diagnosis: Diagnosis) -> str:
    """The GPUs of a run by name."""
    names = {
        one.known.name if one.known else one.name or "unknown GPU" for one in diagnosis.devices
    }
    return " + ".join(sorted(names)) or "unknown GPU"


def measure(
    repeats: Run, *, device: str | None = None, settings: Settings = NONE, today: str | None = None
) -> Profile:
    """The noise of a run whose files are repeats of unchanged code, in the order in which they ran.

    device: name of the GPU where the files do not say it. today: when it was measured. Raises
    TraceroofError where there are fewer than 3 repeats.
    """
    side = Side.of(repeats, device, [], (), settings)
    if side.runs.count < LEAST_RUNS:
        raise TraceroofError(
            f"noise needs {LEAST_RUNS} runs of unchanged code or more, and "
            f"{side.runs.count} {'is' if side.runs.count == 1 else 'are'} given",
            "name more runs, or a folder with a trace of each",
        )
    per: Per = "step" if side.steps.covers else "run"
    counted = side.counted(per, "runs")
    groups = side.diagnosis.kernels
    kernels = counted.times(side.group, len(groups))
    kernel_time = kernels.sum(axis=0)
    total = counted.of_steps(side.steps.span_ns)[0] if per == "step" else kernel_time
    names = sorted({str(one) for one in side.category})
    of_category = np.searchsorted(np.array(names, dtype=object), side.category)
    whole = float(np.median(kernel_time)) or 1.0
    share = np.median(kernels, axis=1) / whole
    kept = np.flatnonzero((share >= _LEAST_SHARE) & (kernels > 0).all(axis=1))
    kept = kept[np.argsort(-share[kept], kind="stable")]
    return Profile(
        workload=repeats.name,
        device=device_of(side.diagnosis),
        time_basis=side.diagnosis.time_basis,
        per=per,
        runs=side.runs.count,
        measured=today or datetime.now(UTC).date().isoformat(),
        correlation=correlation_of(np.concatenate([kernels[kept], total[None, :]])),
        total=_scatter("step time" if per == "step" else "kernel time", total),
        kernel_time=_scatter("kernel time", kernel_time, 1.0),
        categories=tuple(
            _scatter(name, values, float(np.median(values)) / whole)
            for name, values in zip(names, counted.times(of_category, len(names)), strict=True)
        ),
        kernels=tuple(
            _scatter(key_of(groups[at]), kernels[at], float(share[at])) for at in kept.tolist()
        ),
        steps=_steps(side) if per == "step" else None,
        notes=(*side.runs.notes, *_unequal(counted, len(groups))),
    )


def _unequal(counted: Counted, count: int) -> tuple[str, ...]:
    """That the runs did not launch the same: then they differ for more than noise."""
    launches = counted.launches(counted.side.group, count)
    middle = np.median(launches, axis=1)[:, None]
    odd = int((np.abs(launches - middle) > 0.02 * np.maximum(middle, 1)).any(axis=1).sum())
    if not odd:
        return ()
    kernels = "1 kernel has" if odd == 1 else f"{odd} kernels have"
    return (f"{kernels} other launch counts in some runs: was the code unchanged?",)


def scatter(values: Reals) -> tuple[Reals, Reals, Reals]:
    """Median, standard deviation and largest difference over the repeats of g things (g, n); the
    latter two relative, infinite where the median is 0."""
    median = np.median(values, axis=1)
    safe = np.where(median > 0, median, np.nan)
    sigma = values.std(axis=1, ddof=1) / safe
    reach = (values.max(axis=1) - values.min(axis=1)) / safe
    return median, *(np.nan_to_num(one, nan=np.inf) for one in (sigma, reach))


def _scatter(name: str, values: Reals, share: float | None = None) -> Scatter:
    median, sigma, reach = (float(one[0]) for one in scatter(values[None, :]))
    return Scatter(name, median, sigma, reach, share)


def correlation_of(values: Reals) -> float:
    """First-order autocorrelation of the columns of (g, n), pooled over the rows by their variance
    relative to their size, and freed of the bias of few columns (Marriott and Pope, Biometrika 41
    (1954) 390); 0 to 0.8."""
    n = values.shape[1]
    away = values / np.maximum(values.mean(axis=1), np.finfo(float).tiny)[:, None] - 1
    squares = (away**2).sum(axis=1)
    moving = squares > 0
    if n < 4 or not moving.any():
        return 0.0
    each = (away[:, 1:] * away[:, :-1]).sum(axis=1)[moving] / squares[moving]
    found = (float(each.mean()) + 1 / n) / max(1 - 3 / n, 0.1)
    return float(np.clip(found, 0.0, _MOST_CORRELATED))


def _steps(side: Side) -> StepScatter:
    """The steps within the runs."""
    of_run = [side.steps.span_ns[side.steps.run == run] for run in range(side.runs.count)]
    told = [one for one in of_run if len(one) > 1]
    counts = float(np.median([len(one) for one in of_run]))
    if not told:
        return StepScatter(float("nan"), 0.0, counts, counts)
    sigma = float(np.mean([one.std(ddof=1) / np.median(one) for one in told]))
    found = [correlation_of(one[None, :]) for one in told]
    r = float(np.mean(found))
    return StepScatter(sigma, r, counts, counts * (1 - r) / (1 + r))


def same_workload(one: Profile, other: Profile) -> bool:
    """Whether two profiles are of the same program on the same device: the newer replaces the
    older."""
    alike = (one.device, one.time_basis, one.per) == (other.device, other.time_basis, other.per)
    mine, theirs = ({k.name: k.share or 0.0 for k in p.kernels} for p in (one, other))
    shared = mine.keys() & theirs.keys()
    return alike and all(
        sum(side[name] for name in shared) >= _SHARED * sum(side.values())
        for side in (mine, theirs)
    )


def profile_for(
    profiles: Sequence[Profile], diagnosis: Diagnosis, per: Per, *, blocked: bool = False
) -> Profile | None:
    """The profile that holds for a run: of its device, its kind of times, and with kernels that have
    most of its time; the newest of several. blocked: times do not compare at all."""
    if blocked:
        return None
    device, basis = device_of(diagnosis), diagnosis.time_basis
    time = {key_of(one): float(one.time_ns or 0) for one in diagnosis.kernels}
    whole = sum(time.values())

    def fits(one: Profile) -> bool:
        known = sum(time.get(kernel.name, 0.0) for kernel in one.kernels)
        same = (one.device, one.time_basis, one.per) == (device, basis, per)
        return same and whole > 0 and known >= _SHARED * whole

    return max((one for one in profiles if fits(one)), key=lambda one: one.measured, default=None)
