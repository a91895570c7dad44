"""Both sides paired kernel by kernel, and each pair held against the noise of the runs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from traceroof.compare import pairing
from traceroof.compare.changes import Change, KernelPair, Level, changes_of
from traceroof.compare.comparable import Difference
from traceroof.compare.noise_profile import Profile
from traceroof.compare.noise_threshold import Thresholds
from traceroof.compare.samples import By, Per, Whole
from traceroof.compare.sides import Counted
from traceroof.compare.verdicts import Verdicts, judge, judge_total

Reals = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Paired:
    """The kernel pairs of two sides; of_base, of_head: pair of each kernel group."""

    pairs: tuple[KernelPair, ...]
    of_base: Whole
    of_head: Whole
    times: tuple[Reals, Reals]
    launches: tuple[Reals, Reals]

    @classmethod
    def of(cls, counted: tuple[Counted, Counted]) -> Self:
        found = pairing.pair(counted[0].identities(), counted[1].identities())
        groups = [one.side.diagnosis.kernels for one in counted]
        # The last place takes the -1 of copies and fills.
        of = [np.full(len(kernels) + 1, -1, dtype=np.int64) for kernels in groups]
        for number, one in enumerate(found):
            of[0][list(one.base)] = number
            of[1][list(one.head)] = number
        codes = [of[at][one.side.group] for at, one in enumerate(counted)]
        return cls(
            pairs=tuple(
                KernelPair(
                    one.by,
                    tuple(groups[0][index] for index in one.base),
                    tuple(groups[1][index] for index in one.head),
                )
                for one in found
            ),
            of_base=of[0][:-1],
            of_head=of[1][:-1],
            times=(
                counted[0].times(codes[0], len(found)),
                counted[1].times(codes[1], len(found)),
            ),
            launches=(
                counted[0].launches(codes[0], len(found)),
                counted[1].launches(codes[1], len(found)),
            ),
        )

    @property
    def recorded_work(self) -> float | None:
        """How many times the work of the base the head recorded, where that is plain: nearly all
        kernels have as many times the launches. None where it is as much, or not plain."""
        base, head = (np.median(launches, axis=1) for launches in self.launches)
        time = np.median(self.times[0], axis=1)
        both = (base > 0) & (head > 0)
        if not time[both].sum():
            return None
        ratio = head[both] / base[both]
        order = np.argsort(ratio)
        reached = np.cumsum(time[both][order])
        middle = float(ratio[order][np.searchsorted(reached, reached[-1] / 2)])
        like = np.abs(ratio / middle - 1) <= _ALIKE
        plain = time[both][like].sum() >= _MOST_WORK * time.sum()
        return middle if plain and abs(middle - 1) > _ALIKE else None


# Launch counts this close are the same work; and how much of the time must agree on the factor.
_ALIKE = 0.02
_MOST_WORK = 0.8


# Shares of launches of unknown time this close leave out the same on both sides.
_UNTIMED_ALIKE = 0.005


@dataclass(frozen=True)
class Judged:
    """Judges the levels of a comparison."""

    counted: tuple[Counted, Counted]
    paired: Paired
    sampled: By
    limits: Thresholds
    compared: bool
    noise: Profile | None = None

    @property
    def samples(self) -> tuple[int, int]:
        return len(self.counted[0].samples), len(self.counted[1].samples)

    @cached_property
    def _kernel_times(self) -> list[Reals]:
        return [one.times(np.where(one.side.group >= 0, 0, -1), 1) for one in self.counted]

    @property
    def _everything_ns(self) -> float:
        """Kernel time of the base."""
        return float(np.median(self._kernel_times[0]))

    def _changes(self, level: Level, names: Sequence[str], verdicts: Verdicts,
                 launches: Sequence[Reals], **more: Any) -> list[Change]:  # fmt: skip
        return changes_of(
            level, names, verdicts, (launches[0], launches[1]), self._everything_ns,
            samples=self.samples, compared=self.compared, **more,
        )  # fmt: skip

    def _hidden(self, times: list[Reals], codes: list[Whole]) -> tuple[Reals, Reals]:
        """Times of base and head, NaN where they miss launches that the other side knows: a sum
        that lost some of its parts is no faster."""
        count = len(times[0])
        shares = [
            np.median(one.untimed(code, count), axis=1)
            for one, code in zip(self.counted, codes, strict=True)
        ]
        hidden = []
        for at in (0, 1):
            lost = (shares[at] >= 1) | (shares[at] > shares[1 - at] + _UNTIMED_ALIKE)
            hidden.append(np.where(lost[:, None], np.nan, times[at]))
        return hidden[0], hidden[1]

    def kernel_time(self) -> Change:
        """The time of all kernels."""
        codes = [np.where(one.side.group >= 0, 0, -1) for one in self.counted]
        base, head = self._hidden(self._kernel_times, codes)
        launches = [one.launches(np.where(one.side.group >= 0, 0, -1), 1) for one in self.counted]
        noise = None if self.noise is None else self.noise.known([self.noise.kernel_time])
        verdicts = judge_total(base, head, by=self.sampled, limits=self.limits, noise=noise)
        return self._changes("total", ["kernel time"], verdicts, launches)[0]

    def step_time(self) -> Change:
        """The time of a step on the GPU."""
        base, head = (one.of_steps(one.side.steps.span_ns) for one in self.counted)
        none = [np.ones((1, count)) for count in self.samples]
        noise = None if self.noise is None else self.noise.known([self.noise.total])
        verdicts = judge_total(base, head, by=self.sampled, limits=self.limits, noise=noise)
        return self._changes("total", ["step time"], verdicts, none)[0]

    def categories(self) -> list[Change]:
        """Time by operator category, copies and fills included; most time first."""
        found = sorted({str(name) for one in self.counted for name in one.side.category})
        times, launches, every = [], [], []
        for one in self.counted:
            codes = np.searchsorted(np.array(found, dtype=object), one.side.category)
            times.append(one.times(codes, len(found)))
            launches.append(one.launches(codes, len(found)))
            every.append(codes)
        base, head = self._hidden(times, every)
        verdicts = judge(
            base,
            head,
            by=self.sampled,
            least_ns=self.limits.least_of_category(self._everything_ns),
            percent=self.limits.total_percent,
            limits=self.limits,
            noise=None if self.noise is None else self.noise.of_categories(found),
        )
        made = self._changes("category", found, verdicts, launches, categories=found)
        return sorted(made, key=lambda one: -one.slower_ns)

    def kernels(self) -> list[Change]:
        """The kernel pairs, largest change first; those that ran in no sample are left out."""
        ran = np.flatnonzero(
            (self.paired.launches[0].max(axis=1) > 0) | (self.paired.launches[1].max(axis=1) > 0)
        )
        pairs = [self.paired.pairs[at] for at in ran.tolist()]
        pair_of = (self.paired.of_base, self.paired.of_head)
        codes = [
            np.append(of, -1)[one.side.group] for of, one in zip(pair_of, self.counted, strict=True)
        ]
        base, head = (times[ran] for times in self._hidden(list(self.paired.times), codes))
        verdicts = judge(
            base,
            head,
            by=self.sampled,
            least_ns=self.limits.least(self._everything_ns),
            percent=self.limits.percent,
            limits=self.limits,
            noise=None if self.noise is None else self.noise.of_pairs(pairs),
        )
        shown = [(pair.head or pair.base)[0] for pair in pairs]
        made = self._changes(
            "kernel",
            [one.kernel for one in shown],
            verdicts,
            [launches[ran] for launches in self.paired.launches],
            categories=[one.category for one in shown],
            pairs=pairs,
        )
        return sorted(made, key=lambda one: (-abs(one.delta_ns or 0.0), -one.slower_ns))


def summed(change: Change, kernels: Sequence[Change]) -> Change:
    """A change of several kernels, with the parts of theirs."""
    inside = [one for one in kernels if change.category in (None, one.category)]
    if change.delta_ns is None or not inside:
        return change
    return replace(
        change,
        speed_ns=sum(one.speed_ns or 0.0 for one in inside),
        mix_ns=sum(one.mix_ns or 0.0 for one in inside),
    )


def of_total(
    found: Sequence[Difference],
    kernels: Sequence[Change],
    counted: tuple[Counted, Counted] | None,
    per: Per,
) -> dict[str, Any]:
    """What only the whole has, for the rules; counted: None where times do not compare."""
    more: dict[str, Any] = {
        "differences": "; ".join(str(one) for one in found if one.blocks),
        "kernels_changed": sum(one.verdict in ("regressed", "improved") for one in kernels),
    }
    if counted and per == "step":
        for name, what in (("idle", "idle_ns"), ("exposed_communication", "exposed_ns")):
            base, head = of_steps(counted, what)
            more |= {f"{name}_base_ns": base, f"{name}_head_ns": head}
    return more


def of_steps(counted: tuple[Counted, Counted], what: str) -> tuple[float, float]:
    base, head = (float(np.median(one.of_steps(getattr(one.side.steps, what)))) for one in counted)
    return base, head
