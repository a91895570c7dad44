"""The fixes of a run beside those of its base: which are new, which are gone, what they save now."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from traceroof.core.kernel_names import short_names
from traceroof.diagnosis.advice import Entry
from traceroof.diagnosis.findings import Finding
from traceroof.report.common.console import cut
from traceroof.report.compare import words
from traceroof.report.html.change_pairs import Pairs
from traceroof.report.html.change_words import (
    KEPT,
    NEW,
    FixChange,
    Some,
    Told,
    arrow,
    share_of,
)
from traceroof.report.run import summary

_NAME_WIDTH = 72
# How long the list may be: room that kernels' cards would have.
_MOST_GONE_FIXES = 25
# No sentence needs more; subjects come from files and may be of any length.
_LONGEST = 400


@dataclass(frozen=True)
class ChangedFixes(Pairs):
    """The part of a page of changes that speaks of fixes."""

    @cached_property
    def fixes(self) -> Mapping[int, FixChange]:
        """By the number of the fix in the page."""
        appeared = {(one.rule, self._where("head", one)) for one in self.comparison.appeared}
        had = {(one.rule, self._where("base", one)) for one in self.comparison.base.fired()}
        found: dict[int, FixChange] = {}
        for one in self.comparison.head.advice:
            found_here = (*one.found, *one.folded)
            old = {f.rule for f in found_here if not self._is_new(f, appeared, had)}
            rules = {f.rule for f in found_here}
            new = rules - old
            partner = self._partner(one)
            if new == rules:
                found[one.rank] = FixChange(NEW, "", frozenset())
            else:
                found[one.rank] = FixChange(
                    KEPT, self._saved_change(partner, one) if partner else "", frozenset(new)
                )
        return found

    def _is_new(self, finding: Finding, appeared: set[Any], had: set[Any]) -> bool:
        key = (finding.rule, self._where("head", finding))
        return key not in had if finding.severity == "info" else key in appeared

    def _where(self, side: Literal["base", "head"], finding: Finding) -> object:
        """What tells the subject of a finding on either side."""
        if finding.scope == "category":
            return finding.subject
        if finding.scope == "kernel" and finding.subject_index is not None:
            group = self._run(side).kernels[finding.subject_index]
            return self._change_of.get(id(group), (side, finding.subject_index))
        # Ranks and processes have other numbers in every run: any of them will do.
        return None

    def _partner(self, one: Entry) -> Entry | None:
        """What the base was advised of the same fix."""
        return self._base_advice.get((one.topic, one.lead.rule))

    @cached_property
    def _base_advice(self) -> Mapping[tuple[str, str], Entry]:
        found: dict[tuple[str, str], Entry] = {}
        for one in self.comparison.base.advice:
            found.setdefault((one.topic, one.lead.rule), one)
        return found

    def _saved_change(self, base: Entry, head: Entry) -> str:
        """'at most 4.1 → 3.2 ms a step, -900 µs': of kernels and categories; else of the time."""
        if base.lead.scope in ("kernel", "category"):
            scales = self._scale("base"), self._scale("head")
            one, other = (
                bound * scale if bound is not None and scale else None
                for bound, scale in zip((base.bound_ns, head.bound_ns), scales, strict=True)
            )
            return self._from_to(one, other, self.unit)
        if base.share is None or head.share is None:
            return ""
        points = self.points(base.share, head.share)
        return f"{share_of(base.share)} → {share_of(head.share)} of the time" + (
            f", {points}" if points else ""
        )

    def _from_to(self, base: float | None, now: float | None, unit: str) -> str:
        if base is None and now is None:
            return ""
        text = f"{arrow(base, now)} {unit}"
        if base is None or now is None or not self.comparison.compared:
            return text
        return f"{text}, {words.signed(now - base)}"

    @cached_property
    def gone_fixes(self) -> Some:
        """Fixes that only the base was advised."""
        resolved = {(one.rule, self._where("base", one)) for one in self.comparison.resolved}
        gone = []
        for one in self.comparison.base.advice:
            real = [finding for finding in one.found if finding.severity != "info"]
            if real and all((f.rule, self._where("base", f)) in resolved for f in real):
                gone.append(one)
        shown = gone[:_MOST_GONE_FIXES]
        names = short_names((one.lead.subject for one in shown), _NAME_WIDTH)
        told = []
        for one in shown:
            lead = one.lead
            is_kernel = lead.scope == "kernel"
            told.append(
                Told(
                    title=one.title,
                    rule=lead.rule,
                    where=names[lead.subject] if is_kernel else cut(lead.subject, _LONGEST),
                    kernel=0 if is_kernel else None,
                    because=summary.gain(one),
                )
            )
        return Some(told, len(gone) - len(shown))
