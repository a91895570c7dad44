"""Two runs -> what changed, with a verdict that knows noise.

A ``Comparison`` is complete before any renderer sees it; ``to_dict`` is the JSON contract
``traceroof/comparison/1`` (``docs/comparison.schema.json``). How verdicts come about:
``verdicts`` and ``docs/compare.md``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from traceroof import plugins
from traceroof.compare import pairing
from traceroof.compare.changes import Change, KernelPair, Level, changes_of, facts_of
from traceroof.compare.comparable import Difference, differences
from traceroof.compare.samples import By, Per, Whole
from traceroof.compare.sides import Counted, Side
from traceroof.compare.verdicts import Thresholds, Verdicts, Word, judge, judge_total, tally
from traceroof.core.recording import Run
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.diagnosis.find import find_all
from traceroof.diagnosis.findings import Context, Finding
from traceroof.hardware.ceilings import UNCALIBRATED, MeasuredRate
from traceroof.rule import Rule

SCHEMA = "traceroof/comparison/1"

Reals = npt.NDArray[np.float64]
Overall = Literal["regressed", "improved", "unchanged", "inconclusive", "not-comparable"]

# What one run a side decides: counters that come out the same however long a launch takes.
_COUNTER_RULES = frozenset(
    {"cmp-count-changed", "cmp-bytes-up", "cmp-flops-up", "cmp-registers-up", "cmp-spills-appeared"}
)
_CLOCK_RULE = "cmp-clock-explains"


@dataclass(frozen=True)
class Comparison:
    """Everything that traceroof says about the difference of two runs, ready to be rendered.

    per: what a time is given for. sampled: what a sample is. forced: times are compared although
    they do not compare. total: step time, or the time of all kernels where no steps are known.
    appeared, resolved: findings of the diagnosis that one side alone has.
    """

    base: Diagnosis
    head: Diagnosis
    differences: tuple[Difference, ...]
    forced: bool
    per: Per
    sampled: By
    samples: tuple[int, int]
    limits: Thresholds
    verdict: Overall
    total: Change
    kernel_time: Change
    categories: tuple[Change, ...]
    kernels: tuple[Change, ...]
    findings: tuple[Finding, ...]
    hidden_findings: int
    appeared: tuple[Finding, ...]
    resolved: tuple[Finding, ...]
    idle_ns: tuple[float, float] | None
    exposed_communication_ns: tuple[float, float] | None
    notes: tuple[str, ...] = ()

    @property
    def blocked(self) -> bool:
        """Whether something other than the code keeps the times from comparing."""
        return any(one.blocks for one in self.differences)

    @property
    def compared(self) -> bool:
        """Whether times were compared."""
        return self.forced or not self.blocked

    @property
    def lone(self) -> bool:
        """Whether a side has one run, whose times decide nothing but a total far off."""
        return self.sampled != "runs" or min(self.samples) < 2

    @property
    def wall_ns(self) -> tuple[float, float] | None:
        """The wall time of both sides, where it is told beside the total: timelines without steps."""
        return None if self.per == "step" else _wall_ns(self.base, self.head)

    @property
    def steps_known(self) -> bool:
        """Whether the total is the time of a step."""
        return self.per == "step"

    def of(self, *words: Word) -> tuple[Change, ...]:
        """The kernels with one of these verdicts, largest change first."""
        return tuple(one for one in self.kernels if one.verdict in words)

    def fired(self) -> tuple[Finding, ...]:
        """The findings of the comparison that hold, most worth first."""
        return tuple(one for one in self.findings if one.state == "fired")

    def about(self, change: Change) -> tuple[Finding, ...]:
        """What fired on one change, most worth first."""
        index = self.order.index(change)
        return tuple(one for one in self.fired() if one.subject_index == index)

    @cached_property
    def order(self) -> list[Change]:
        """What ``subject_index`` of the comparison's findings counts: whole, categories, kernels."""
        return [self.total, *self.categories, *self.kernels]

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """The JSON contract; ``top`` cuts kernels and findings when given."""
        return {
            "schema": SCHEMA,
            "verdict": self.verdict,
            "base": _side_dict(self.base, self.samples[0]),
            "head": _side_dict(self.head, self.samples[1]),
            "compared": self.compared,
            "forced": self.forced,
            "differences": [asdict(one) for one in self.differences],
            "per": self.per,
            "sampled": self.sampled,
            "thresholds": asdict(self.limits),
            "total": self.total.to_dict(),
            "kernel_time": self.kernel_time.to_dict(),
            "wall_ns": self.wall_ns,
            "idle_ns": self.idle_ns,
            "exposed_communication_ns": self.exposed_communication_ns,
            "categories": [one.to_dict() for one in self.categories],
            "counts": tally([one.verdict for one in self.kernels]),
            "kernels": [one.to_dict() for one in self.kernels[:top]],
            "findings": [asdict(one) for one in self.findings[:top]],
            "hidden_findings": self.hidden_findings,
            "appeared": [asdict(one) for one in self.appeared],
            "resolved": [asdict(one) for one in self.resolved],
            "notes": list(self.notes),
        }


def compare(
    base: Run,
    head: Run,
    *,
    device: str | None = None,
    force: bool = False,
    limits: Thresholds | None = None,
    rules: Sequence[Rule] | None = None,
    calibration: Sequence[MeasuredRate] = (),
) -> Comparison:
    """Compare two runs.

    device: name of the GPU where the files do not say it. force: compare times although GPU,
    clocks or tool differ. limits: what counts as a change. rules: all by default.
    calibration: measured ceilings, for both (as for ``diagnose``).
    """
    limits = limits or Thresholds()
    rules = plugins.rules() if rules is None else rules
    sides = (
        Side.of(base, device, rules, calibration),
        Side.of(head, device, rules, calibration),
    )
    per: Per = "step" if all(side.steps.covers for side in sides) else "run"
    sampled = _sampled(sides, per)
    counted = sides[0].counted(per, sampled), sides[1].counted(per, sampled)
    paired = _Paired.of(counted)
    found = differences(sides[0], sides[1], paired.recorded_work if per == "run" else None)
    blocked = any(one.blocks for one in found)
    judged = _Judged(counted, paired, sampled, limits, compared=force or not blocked)

    kernels = judged.kernels()
    kernel_time = _summed(judged.kernel_time(), kernels)
    total = judged.step_time() if per == "step" else kernel_time
    categories = [_summed(one, kernels) for one in judged.categories()]

    def of_rules(whole: Change) -> tuple[tuple[Finding, ...], int]:
        return find_all(
            [rule for rule in rules if rule.scope == "compare"],
            {
                "compare": facts_of(
                    [whole, *categories, *kernels],
                    sampled,
                    _of_total(found, kernels, counted if judged.compared else None, per),
                    whole.base.median_ns or 0.0,
                )
            },
            Context(
                # Half of it: a change of 5 % weighs as much as a saving of 10 %.
                total_ns=whole.slower_ns / 2,
                attainable=UNCALIBRATED,
                calibrated=True,
                few_matter=False,
                vendor=sides[1].diagnosis.vendor,
            ),
        )

    findings, hidden = of_rules(total)
    lone = sampled != "runs" or min(judged.samples) < limits.runs
    settled = _settled(kernels, findings, 1 + len(categories), lone)
    if lone and per == "run" and judged.compared:
        founded = _founded(total, settled, _is_counted(sides))
        if founded != total:
            kernel_time = total = founded
            findings, hidden = of_rules(total)
    if per == "run" and judged.compared:
        founded = _not_against_the_wall(total, _walls(sides), limits)
        if founded != total:
            kernel_time = total = founded
            findings, hidden = of_rules(total)
    kernels = settled
    appeared, resolved = _one_sided(sides, paired)
    return Comparison(
        base=sides[0].diagnosis,
        head=sides[1].diagnosis,
        differences=found,
        forced=force and blocked,
        per=per,
        sampled=sampled,
        samples=judged.samples,
        limits=limits,
        verdict=_overall(total, [*categories, *kernels], judged.compared),
        total=total,
        kernel_time=kernel_time,
        categories=tuple(categories),
        kernels=tuple(kernels),
        findings=findings,
        hidden_findings=hidden,
        appeared=appeared,
        resolved=resolved,
        idle_ns=_of_steps(counted, "idle_ns") if per == "step" else None,
        exposed_communication_ns=_of_steps(counted, "exposed_ns") if per == "step" else None,
        notes=tuple(
            f"{name}: {note}"
            for name, side in zip(("base", "head"), sides, strict=True)
            for note in side.runs.notes
        ),
    )


def _sampled(sides: tuple[Side, Side], per: Per) -> By:
    if max(side.runs.count for side in sides) > 1:
        return "runs"
    several = per == "step" and min(len(side.steps) for side in sides) > 1
    return "steps" if several else "none"


@dataclass(frozen=True)
class _Paired:
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
class _Judged:
    """Judges the levels of a comparison."""

    counted: tuple[Counted, Counted]
    paired: _Paired
    sampled: By
    limits: Thresholds
    compared: bool

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
        verdicts = judge_total(base, head, by=self.sampled, limits=self.limits)
        return self._changes("total", ["kernel time"], verdicts, launches)[0]

    def step_time(self) -> Change:
        """The time of a step on the GPU."""
        base, head = (one.of_steps(one.side.steps.span_ns) for one in self.counted)
        none = [np.ones((1, count)) for count in self.samples]
        verdicts = judge_total(base, head, by=self.sampled, limits=self.limits)
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


def _summed(change: Change, kernels: Sequence[Change]) -> Change:
    """A change of several kernels, with the parts of theirs."""
    inside = [one for one in kernels if change.category in (None, one.category)]
    if change.delta_ns is None or not inside:
        return change
    return replace(
        change,
        speed_ns=sum(one.speed_ns or 0.0 for one in inside),
        mix_ns=sum(one.mix_ns or 0.0 for one in inside),
    )


def _of_total(
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
            base, head = _of_steps(counted, what)
            more |= {f"{name}_base_ns": base, f"{name}_head_ns": head}
    return more


def _of_steps(counted: tuple[Counted, Counted], what: str) -> tuple[float, float]:
    base, head = (float(np.median(one.of_steps(getattr(one.side.steps, what)))) for one in counted)
    return base, head


def _settled(
    kernels: Sequence[Change], findings: Sequence[Finding], skip: int, lone: bool
) -> list[Change]:
    """The kernels' verdicts with what rules know: a clock that explains a change takes the
    verdict back; where no times can be judged, counters that got worse give one."""
    fired: dict[int, dict[str, Finding]] = {}
    for finding in findings:
        if finding.state == "fired" and finding.subject_index is not None:
            fired.setdefault(finding.subject_index - skip, {})[finding.rule] = finding
    return [_settle(one, fired.get(at, {}), lone) for at, one in enumerate(kernels)]


def _settle(change: Change, fired: Mapping[str, Finding], lone: bool) -> Change:
    clock = fired.get(_CLOCK_RULE)
    if clock and change.verdict in ("regressed", "improved"):
        return replace(change, verdict="inconclusive", basis=None, reason=clock.because)
    if lone and change.verdict in ("unchanged", "inconclusive"):
        worse = [
            one for one in fired.values() if one.rule in _COUNTER_RULES and one.severity != "info"
        ]
        if worse:
            return replace(change, verdict="regressed", basis="counters", reason="")
    return change


def _is_counted(sides: tuple[Side, Side]) -> bool:
    return all(one.diagnosis.time_basis == "counter-tool" for one in sides)


def _founded(total: Change, kernels: Sequence[Change], is_counted: bool) -> Change:
    """The whole of a run without steps, no better founded than its kernels: where none is paired,
    two programs were measured; where a counter tool timed single kernels and none is decided, their
    sum is not either."""
    if total.verdict not in ("regressed", "improved"):
        return total
    if all(one.verdict in ("new", "gone") for one in kernels):
        reason = "the runs have no kernel in common"
    elif is_counted and not any(one.verdict in _DECIDED for one in kernels):
        reason = "a counter tool timed single kernels, of which none is decided"
    else:
        return total
    return replace(total, verdict="inconclusive", basis=None, reason=reason)


_DECIDED = ("regressed", "improved", "unchanged")


def _wall_ns(base: Diagnosis, head: Diagnosis) -> tuple[float, float] | None:
    """The wall times of two timelines; a counter tool's launches pass one by one, between passes."""
    if {base.time_basis, head.time_basis} != {"timeline"}:
        return None
    one, other = base.totals.wall_ns, head.totals.wall_ns
    return (float(one), float(other)) if one and other else None


def _walls(sides: tuple[Side, Side]) -> tuple[float, float] | None:
    return _wall_ns(sides[0].diagnosis, sides[1].diagnosis)


def _not_against_the_wall(
    total: Change, walls: tuple[float, float] | None, limits: Thresholds
) -> Change:
    """The kernel time is no verdict on a run whose wall time went the other way, or moved alone by
    what a single run would have to show."""
    if walls is None or total.verdict not in ("regressed", "improved", "unchanged"):
        return total
    moved = (walls[1] / walls[0] - 1) * 100
    least = limits.single_percent if total.verdict == "unchanged" else limits.total_percent
    against = {"regressed": moved <= -least, "improved": moved >= least}
    if not against.get(total.verdict, abs(moved) >= least):
        return total
    reason = f"the wall time changed by {moved:+.1f} %, the kernel time did not go with it"
    return replace(total, verdict="inconclusive", basis=None, reason=reason)


def _overall(total: Change, parts: Sequence[Change], compared: bool) -> Overall:
    """One verdict: a slower part counts unless the whole got faster."""
    if not compared:
        return "not-comparable"
    words = {one.verdict for one in parts}
    if total.verdict == "regressed" or ("regressed" in words and total.verdict != "improved"):
        return "regressed"
    if total.verdict == "improved":
        return "improved"
    if total.verdict == "inconclusive":
        return "inconclusive"
    return "improved" if "improved" in words else "unchanged"


def _one_sided(
    sides: tuple[Side, Side], paired: _Paired
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """The findings of the head that the base does not have, and the other way round."""
    keys: list[dict[tuple[str, object], Finding]] = []
    for side, pair_of in zip(sides, (paired.of_base, paired.of_head), strict=True):
        mine: dict[tuple[str, object], Finding] = {}
        for one in side.diagnosis.fired():
            if one.severity == "info":
                continue
            where: object = one.subject if one.scope == "category" else None
            if one.scope == "kernel" and one.subject_index is not None:
                where = int(pair_of[one.subject_index])
            # Ranks and processes have other numbers in every run: any of them will do.
            mine.setdefault((one.rule, where), one)
        keys.append(mine)
    base, head = keys
    return (
        tuple(one for key, one in head.items() if key not in base),
        tuple(one for key, one in base.items() if key not in head),
    )


def _side_dict(diagnosis: Diagnosis, samples: int) -> dict[str, Any]:
    run = diagnosis.to_dict(top=0)["run"]
    return {**run, "samples": samples}
