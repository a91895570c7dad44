"""Two runs -> what changed, with a verdict that knows noise.

A ``Comparison`` is complete before any renderer sees it; ``to_dict`` is the JSON contract
``traceroof/comparison/1`` (``docs/comparison.schema.json``). How verdicts come about:
``verdicts`` and ``docs/compare.md``.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

from traceroof import plugins
from traceroof.compare.changes import Change, facts_of
from traceroof.compare.comparable import Difference, differences, one_after_another
from traceroof.compare.judged import Judged, Paired, of_steps, of_total, summed
from traceroof.compare.noise_profile import Profile, profile_for
from traceroof.compare.noise_threshold import Thresholds
from traceroof.compare.samples import By, Per
from traceroof.compare.settled import settled_kernels, settled_whole, wall_times
from traceroof.compare.sides import Counted, Side
from traceroof.compare.verdicts import Word, tally
from traceroof.config import NONE, Settings
from traceroof.core.displayed import Displayed
from traceroof.core.recording import Run
from traceroof.core.selection import Narrowed
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.diagnosis.find import find_all
from traceroof.diagnosis.findings import Context, Finding
from traceroof.hardware.ceilings import UNCALIBRATED, MeasuredRate
from traceroof.rule import Rule

SCHEMA = "traceroof/comparison/1"
Overall = Literal["regressed", "improved", "unchanged", "inconclusive", "not-comparable"]


@dataclass(frozen=True, repr=False)
class Comparison(Displayed):
    """Everything that traceroof says about the difference of two runs, ready to be rendered.

    per: what a time is given for. sampled: what a sample is. forced: times are compared although
    they do not compare. total: step time, or the time of all kernels where no steps are known.
    appeared, resolved: findings of the diagnosis that one side alone has. narrowed: which kernels
    alone are listed and make the verdict, None for all (``compare.narrow``); total and categories are
    those of the whole all the same.
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
    settings: Settings = NONE
    narrowed: Narrowed | None = None
    noise: Profile | None = None

    @property
    def said(self) -> str:
        """Both runs and the verdict."""
        return f"{self.base.run_name} -> {self.head.run_name}: {self.verdict}"

    @property
    def blocked(self) -> bool:
        """Whether something other than the code keeps the times from comparing."""
        return any(one.blocks for one in self.differences)

    @property
    def compared(self) -> bool:
        """Whether times were compared."""
        return self.forced or not self.blocked

    @property
    def decided_by(self) -> tuple[Change, ...]:
        """What the verdict is read from first: the total, or the kernels that alone are listed."""
        return self.kernels if self.narrowed else (self.total,)

    @property
    def why_open(self) -> str:
        """What an inconclusive verdict lacks; empty where nothing is open."""
        reasons = [one.reason for one in self.decided_by if one.verdict == "inconclusive"]
        reasons += ["only one side has it" for one in self.decided_by if one.verdict == "new"]
        return "; ".join(dict.fromkeys(filter(None, reasons)))

    @property
    def lone(self) -> bool:
        """Whether a side has one run, whose times decide nothing but a total far off."""
        return self.sampled != "runs" or min(self.samples) < 2

    @property
    def wall_ns(self) -> tuple[float, float] | None:
        """The wall time of both sides, where it is told beside the total: timelines without steps."""
        return None if self.per == "step" else wall_times(self.base, self.head)

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
            "narrowed": asdict(self.narrowed) if self.narrowed else None,
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
            "noise": self.noise and self.noise.brief(),
            "config": self.settings.to_dict(),
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
    settings: Settings = NONE,
    noise: Sequence[Profile] = (),
) -> Comparison:
    """Compare two runs.

    device: name of the GPU where the files do not say it. force: compare times although GPU,
    clocks or tool differ. limits: what counts as a change. rules: all by default.
    calibration: measured ceilings, for both; settings: what the user set (as for ``diagnose``).
    noise: profiles of ``traceroof noise``; the one of this workload and device is used.
    """
    limits = limits or Thresholds()
    rules = plugins.rules() if rules is None else rules
    sides = (
        Side.of(base, device, rules, calibration, settings),
        Side.of(head, device, rules, calibration, settings),
    )
    matched = _Matched.of(sides, limits, noise, force=force)
    decided = _decided(matched, settings.rules(rules), settings)
    appeared, resolved = _one_sided(sides, matched.paired)
    return Comparison(
        base=sides[0].diagnosis,
        head=sides[1].diagnosis,
        differences=matched.differences,
        forced=force and matched.blocked,
        per=matched.per,
        sampled=matched.sampled,
        samples=matched.judged.samples,
        limits=limits,
        verdict=_overall(
            decided.total, [*decided.categories, *decided.kernels], matched.judged.compared
        ),
        total=decided.total,
        kernel_time=decided.kernel_time,
        categories=tuple(decided.categories),
        kernels=tuple(decided.kernels),
        findings=decided.findings,
        hidden_findings=decided.hidden,
        appeared=appeared,
        resolved=resolved,
        settings=settings,
        idle_ns=matched.of_steps("idle_ns"),
        exposed_communication_ns=matched.of_steps("exposed_ns"),
        notes=(*_notes(sides), *one_after_another(base, head, matched.runs)),
        noise=matched.judged.noise,
    )


@dataclass(frozen=True)
class _Matched:
    """Both sides paired kernel by kernel, and what keeps their times from comparing."""

    sides: tuple[Side, Side]
    per: Per
    sampled: By
    counted: tuple[Counted, Counted]
    paired: Paired
    differences: tuple[Difference, ...]
    judged: Judged

    @classmethod
    def of(
        cls, sides: tuple[Side, Side], limits: Thresholds, noise: Sequence[Profile], *, force: bool
    ) -> "_Matched":
        per: Per = "step" if all(side.steps.covers for side in sides) else "run"
        sampled = _sampled(sides, per)
        counted = sides[0].counted(per, sampled), sides[1].counted(per, sampled)
        paired = Paired.of(counted)
        found = differences(*sides, paired.recorded_work if per == "run" else None)
        blocked = any(one.blocks for one in found)
        profile = profile_for(noise, sides[0].diagnosis, per, blocked=blocked)
        judged = Judged(counted, paired, sampled, limits, force or not blocked, profile)
        return cls(sides, per, sampled, counted, paired, found, judged)

    @property
    def blocked(self) -> bool:
        """Whether something other than the code keeps the times from comparing."""
        return any(one.blocks for one in self.differences)

    @property
    def runs(self) -> tuple[int, int]:
        """Runs per side: steps are samples of one."""
        return self.judged.samples if self.sampled == "runs" else (1, 1)

    def of_steps(self, what: str) -> tuple[float, float] | None:
        """A time of a step, ns; None where no steps are compared."""
        return of_steps(self.counted, what) if self.per == "step" else None

    def findings(
        self, changes: Sequence[Change], rules: Sequence[Rule], settings: Settings
    ) -> tuple[tuple[Finding, ...], int]:
        """What the rules on comparisons say of the whole (first), the categories and the kernels;
        and how many findings are too small to be listed."""
        whole, kernels = changes[0], [one for one in changes if one.level == "kernel"]
        counted = self.counted if self.judged.compared else None
        came_from = of_total(self.differences, kernels, counted, self.per)
        facts = facts_of(changes, self.sampled, came_from, whole.base.median_ns or 0.0)
        return find_all(
            [rule for rule in rules if rule.scope == "compare"],
            {"compare": facts},
            _context(whole, self.sides[1], settings),
        )


@dataclass(frozen=True)
class _Decided:
    """The changes with their verdicts, and what rules say of them; hidden: findings too small to list."""

    total: Change
    kernel_time: Change
    categories: Sequence[Change]
    kernels: Sequence[Change]
    findings: tuple[Finding, ...]
    hidden: int


def _decided(matched: _Matched, rules: Sequence[Rule], settings: Settings) -> _Decided:
    """Judge every level by its samples, then by what rules and the wall time say."""
    judged, sides = matched.judged, matched.sides
    changed = judged.kernels()
    kernel_time = summed(judged.kernel_time(), changed)
    total = judged.step_time() if matched.per == "step" else kernel_time
    categories = [summed(one, changed) for one in judged.categories()]
    findings, hidden = matched.findings([total, *categories, *changed], rules, settings)
    lone = matched.sampled != "runs" or min(judged.samples) < judged.limits.runs
    kernels = settled_kernels(changed, findings, 1 + len(categories), lone=lone)
    if matched.per == "run" and judged.compared:
        diagnoses = sides[0].diagnosis, sides[1].diagnosis
        whole = settled_whole(total, kernels, diagnoses, judged.limits, lone=lone)
        if whole != total:
            kernel_time = total = whole
            findings, hidden = matched.findings([total, *categories, *changed], rules, settings)
    return _Decided(total, kernel_time, categories, kernels, findings, hidden)


def _context(whole: Change, head: Side, settings: Settings) -> Context:
    """What findings on a comparison are weighed against."""
    return Context(
        # Half of it: a change of 5 % weighs as much as a saving of 10 %.
        total_ns=whole.slower_ns / 2,
        attainable=UNCALIBRATED,
        calibrated=True,
        few_matter=False,
        vendor=head.diagnosis.vendor,
        settings=settings,
        hidden_share=settings.steps["low"],
    )


def _notes(sides: tuple[Side, Side]) -> tuple[str, ...]:
    return tuple(
        f"{name}: {note}"
        for name, side in zip(("base", "head"), sides, strict=True)
        for note in side.runs.notes
    )


def _sampled(sides: tuple[Side, Side], per: Per) -> By:
    if max(side.runs.count for side in sides) > 1:
        return "runs"
    several = per == "step" and min(len(side.steps) for side in sides) > 1
    return "steps" if several else "none"


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
    sides: tuple[Side, Side], paired: Paired
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
