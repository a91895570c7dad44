"""Two runs -> what changed, with a verdict that knows noise.

A ``Comparison`` is complete before any renderer sees it; ``to_dict`` is the JSON contract
``traceroof/comparison/1`` (``docs/comparison.schema.json``). How verdicts come about:
``verdicts`` and ``docs/compare.md``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Literal

from traceroof import plugins
from traceroof.compare.changes import Change, facts_of
from traceroof.compare.comparable import Difference, differences, one_after_another
from traceroof.compare.judged import Judged, Paired, of_steps, of_total, summed
from traceroof.compare.noise_profile import Profile, profile_for
from traceroof.compare.noise_threshold import Thresholds
from traceroof.compare.samples import By, Per
from traceroof.compare.sides import Side
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

# What one run per side decides: counters that come out the same however long a launch takes.
_COUNTER_RULES = frozenset(
    {"cmp-count-changed", "cmp-bytes-up", "cmp-flops-up", "cmp-registers-up", "cmp-spills-appeared"}
)
_CLOCK_RULE = "cmp-clock-explains"


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
    rules = settings.rules(rules)
    per: Per = "step" if all(side.steps.covers for side in sides) else "run"
    sampled = _sampled(sides, per)
    counted = sides[0].counted(per, sampled), sides[1].counted(per, sampled)
    paired = Paired.of(counted)
    found = differences(sides[0], sides[1], paired.recorded_work if per == "run" else None)
    blocked = any(one.blocks for one in found)
    profile = profile_for(noise, sides[0].diagnosis, per, blocked=blocked)
    judged = Judged(counted, paired, sampled, limits, force or not blocked, profile)

    kernels = judged.kernels()
    kernel_time = summed(judged.kernel_time(), kernels)
    total = judged.step_time() if per == "step" else kernel_time
    categories = [summed(one, kernels) for one in judged.categories()]

    def of_rules(whole: Change) -> tuple[tuple[Finding, ...], int]:
        came_from = of_total(found, kernels, counted if judged.compared else None, per)
        changes = [whole, *categories, *kernels]
        facts = facts_of(changes, sampled, came_from, whole.base.median_ns or 0.0)
        return find_all(
            [rule for rule in rules if rule.scope == "compare"],
            {"compare": facts},
            _context(whole, sides[1], settings),
        )

    findings, hidden = of_rules(total)
    lone = sampled != "runs" or min(judged.samples) < limits.runs
    settled = _settled(kernels, findings, 1 + len(categories), lone)
    if per == "run" and judged.compared:
        founded = _founded(total, settled, _is_counted(sides)) if lone else total
        founded = _not_against_the_wall(founded, _walls(sides), limits)
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
        settings=settings,
        idle_ns=of_steps(counted, "idle_ns") if per == "step" else None,
        exposed_communication_ns=of_steps(counted, "exposed_ns") if per == "step" else None,
        notes=(*_notes(sides), *one_after_another(base, head, judged.samples)),
        noise=profile,
    )


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
    reason = f"the wall time changed by {moved:+.1f} %, but the kernel time did not change with it"
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
