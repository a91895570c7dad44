"""What the HTML report of a run says of its change from a base, as plain data in the page's order.

All verdicts are those of the ``Comparison``: nothing is judged here. Times that a verdict stands on
are those of one step or one run; everything else is shown on both sides, without a verdict. What is
unknown is a dash. Where times do not compare, both sides are shown and no difference is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from traceroof.compare.changes import Change
from traceroof.core.kernel_names import short_names
from traceroof.diagnosis import caveats
from traceroof.diagnosis.diagnosis import Diagnosis, KernelGroup
from traceroof.report.common.console import cut
from traceroof.report.compare import trust_words, words
from traceroof.report.compare.stories import Story
from traceroof.report.compare.stories import stories as stories_of
from traceroof.report.html import provenance
from traceroof.report.html.change_words import (
    DASH,
    MARKS,
    OVERALL,
    KernelChange,
    Line,
    Mark,
    Some,
    Told,
    arrow,
    class_of,
    count_of,
    delta,
    groups_of,
    notes_of,
    share_of,
    sides_of,
    time_of,
    verdict_mark,
)
from traceroof.report.html.changed_fixes import ChangedFixes
from traceroof.report.run import summary
from traceroof.report.run.verdict import at_a_wall, savable
from traceroof.timeline import Timeline

_NAME_WIDTH = 72
# How long lists may be: room that kernels' cards would have.
_MOST_GONE, _MOST_FINDINGS, _MOST_UNCLEAR = 40, 25, 25
# No sentence needs more; subjects come from files and may be of any length.
_LONGEST = 400


@dataclass(frozen=True)
class Changes(ChangedFixes):
    """A comparison, as the page of its head shows it."""

    # --- the top ----------------------------------------------------------------------------

    @property
    def mark(self) -> Mark:
        """The verdict on the whole."""
        return OVERALL[self.comparison.verdict]

    @property
    def headline(self) -> str:
        """'Slower: kernel time +0.5 % (6 → 6.03 ms per run)'."""
        word = self.mark.word
        text = f"{word[:1].upper()}{word[1:]}: {words.total_line(self.comparison)}"
        if self.comparison.steps_known:
            return text
        return f"{text[:-1]} {self.unit})" if text.endswith(")") else f"{text} {self.unit}"

    @property
    def counts(self) -> str:
        """The kernels by verdict."""
        return words.counts(self.comparison)

    @property
    def statement(self) -> str:
        """May the two sides be compared at all? Said before anything else."""
        comparison = self.comparison
        if comparison.blocked and not comparison.forced:
            return cut(words.missing(comparison), _LONGEST)
        surroundings = trust_words.surroundings(comparison)
        if comparison.forced:
            return cut(f"{surroundings}. The times differ for these reasons, too.", _LONGEST)
        text = f"{surroundings}; {trust_words.samples(comparison)}."
        return cut(f"{text[:1].upper()}{text[1:]}", _LONGEST)

    @property
    def warning(self) -> str:
        """'Not comparable' or 'Forced' where something other than the code differs."""
        if not self.comparison.blocked:
            return ""
        return "Forced" if self.comparison.forced else "Not comparable"

    @property
    def missing(self) -> str:
        """What an inconclusive verdict lacks."""
        inconclusive = self.comparison.verdict == "inconclusive"
        text = words.missing(self.comparison) if inconclusive else ""
        return f"{text[:1].upper()}{text[1:]}"

    @property
    def base_name(self) -> str:
        """What the base is called."""
        return cut(self.comparison.base.run_name, _LONGEST)

    @property
    def base_about(self) -> str:
        """The base in one line."""
        return cut(words.sides(self.comparison)[0], _LONGEST)

    @property
    def was(self) -> str:
        """The sentence that the base comes down to."""
        return self.comparison.base.headline

    @cached_property
    def figures(self) -> list[Line]:
        """The three numbers of the verdict on both sides."""
        saved, third = self._on_both(savable), self._thirds()
        whole = summary.whole_words(self.comparison.base)
        return [
            self._timed("", self.comparison.kernel_time, prefix=f"{self.unit}: "),
            Line("", "", f"base: {share_of(saved[0])} of {whole}", self.points(saved[0], saved[1])),
            Line("", "", f"base: {share_of(third[0])}", self.points(third[0], third[1])),
        ]

    def _on_both(
        self, of: Callable[[Diagnosis], float | None]
    ) -> tuple[float | None, float | None]:
        return of(self.comparison.base), of(self.comparison.head)

    def _thirds(self) -> tuple[float | None, float | None]:
        """The share that the third number shows: busy, else at a wall; on both sides."""
        return self._on_both(_busy if self.comparison.head.totals.span_ns else at_a_wall)

    # --- what changed, and why --------------------------------------------------------------

    @property
    def stories(self) -> list[Story]:
        """Where the time went, why, what to try."""
        return stories_of(self.comparison)

    def story_name(self, story: Story) -> str:
        """The kernel of a story in short."""
        return short_names([story.name], _NAME_WIDTH)[story.name] if story.name else ""

    def story_kernel(self, story: Story) -> int | None:
        """The first kernel of the head by that name whose time moved most, for a link."""
        found = [one for one in self.comparison.kernels if one.name == story.name]
        return next((self.index("head", g) for one in found for g in groups_of(one, "head")), None)

    @cached_property
    def base_care(self) -> list[Told]:
        """What a reader must know of the measurement of the base."""
        return [
            Told(one.finding.title, one.finding.rule, "", None, cut(one.finding.because, _LONGEST))
            for one in caveats.care(self.comparison.base)
        ]

    @cached_property
    def findings(self) -> Some:
        """What the rules of the comparison say, most worth first."""
        fired = self.comparison.fired()
        names = short_names((one.subject for one in fired[:_MOST_FINDINGS]), _NAME_WIDTH)
        order = self.comparison.order
        told = []
        for one in fired[:_MOST_FINDINGS]:
            change = order[one.subject_index] if one.subject_index is not None else None
            groups = groups_of(change, "head") if change else ()
            is_kernel = change is not None and change.level == "kernel"
            told.append(
                Told(
                    title=one.title,
                    rule=one.rule,
                    where=names[one.subject] if is_kernel else cut(one.subject, _LONGEST),
                    kernel=self.index("head", groups[0]) if groups else None,
                    because=cut(one.because, _LONGEST),
                    fix=one.fix,
                )
            )
        return Some(told, len(fired) - len(told))

    def lines(self, changes: Sequence[Change]) -> list[Line]:
        """Kernels with their times, the difference, the verdict, and why there is none."""
        return [
            self._timed(label, one, why=cut(words.remark(self.comparison, one), _LONGEST))
            for one, label in zip(changes, words.labels(changes, _NAME_WIDTH), strict=True)
        ]

    @cached_property
    def unclear(self) -> Some:
        """Kernels without a verdict, and those that counters alone call slower, with the reason."""
        if not self.comparison.compared:
            return Some((), 0)
        found = [one for one in self.comparison.of("regressed") if one.basis == "counters"]
        found += self.comparison.of("inconclusive")
        shown = found[:_MOST_UNCLEAR]
        return Some(self.lines(shown), len(found) - len(shown))

    # --- kernels ----------------------------------------------------------------------------

    def kernel(self, index: int) -> KernelChange:
        """Of ``comparison.head.kernels[index]``."""
        change = self._changes.get(id(self.comparison.head.kernels[index]))
        if change is None:
            # In warm-up steps perhaps, or between steps.
            outside = f"in no {self.comparison.per}"
            return KernelChange(DASH, DASH, None, None, MARKS["not-compared"], outside)
        return KernelChange(
            times=arrow(*sides_of(change)),
            delta=delta(change),
            base_ns=sides_of(change)[0],
            delta_ns=change.delta_ns,
            mark=verdict_mark(change),
            note=", ".join(notes_of(change)),
        )

    def change_of(self, index: int) -> Change | None:
        """The change of ``comparison.head.kernels[index]``."""
        return self._changes.get(id(self.comparison.head.kernels[index]))

    def base_of(self, index: int) -> KernelGroup | None:
        """The one kernel of the base that a kernel of the head is compared with."""
        change = self.change_of(index)
        if change is None or change.pair is None or change.pair.by is None:
            return None
        one_each = len(change.pair.base) == len(change.pair.head) == 1
        return change.pair.base[0] if one_each else None

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """What the kernel table has more, each with how it sorts."""
        return ((f"Base → now, {self.unit}", "n"), ("Change", "n"), ("Verdict", "n"))

    @property
    def gone_mark(self) -> Mark:
        """The mark of what only the base has."""
        return MARKS["gone"]

    @cached_property
    def gone(self) -> Some:
        """Kernels that only the base has: name, category, class, time, launches."""
        found = sorted(self.comparison.of("gone"), key=lambda one: -one.slower_ns)
        shown = found[:_MOST_GONE]
        rows = [
            (
                label,
                one.category or DASH,
                class_of(one),
                time_of(sides_of(one)[0]),
                count_of(one.base.launches),
            )
            for one, label in zip(shown, words.labels(shown, _NAME_WIDTH), strict=True)
        ]
        return Some(rows, len(found) - len(shown))

    def unlisted(self, listed: int) -> str:
        """The verdicts of the kernels that the table has no room for: '3 slower, 12 same'."""
        found: dict[Mark, int] = {}
        for index in range(listed, len(self.comparison.head.kernels)):
            change = self.change_of(index)
            mark = MARKS[change.verdict if change else "not-compared"]
            found[mark] = found.get(mark, 0) + 1
        ranked = sorted(found.items(), key=lambda one: -one[0].rank)
        return ", ".join(f"{count:,} {mark.word}" for mark, count in ranked)

    @property
    def words(self) -> list[str]:
        """The verdicts that kernels of the head have, for the filter."""
        present = {one.verdict for one in self.comparison.kernels if one.verdict != "gone"}
        marks = sorted((MARKS[word] for word in present), key=lambda one: -one.rank)
        return [one.word for one in marks]

    # --- timeline, provenance ---------------------------------------------------------------

    def timeline(self) -> list[Line]:
        """Step or kernel time with its verdict; how the time went by, on both sides."""
        comparison = self.comparison
        lines = [self._timed(f"{comparison.total.name}, {self.unit}", comparison.total)]
        if comparison.kernel_time is not comparison.total:
            lines.append(self._timed(f"kernel time, {self.unit}", comparison.kernel_time))
        for what, pair, rule in (
            ("idle", comparison.idle_ns, "cmp-idle-up"),
            ("exposed communication", comparison.exposed_communication_ns, "cmp-exposed-comm-up"),
        ):
            if pair:
                lines.append(self._of_pair(f"{what}, {self.unit}", *pair, rule))
        for what, part in _SHARES:
            base, now = (_of_span(run, part) for run in (comparison.base, comparison.head))
            if base or now:
                lines.append(
                    Line(what, share_of(base), share_of(now), self.points(base, now) or DASH)
                )
        return lines

    def idle_shares(self, cause: str) -> tuple[str, str, str]:
        """Idle time by a cause as a share of the span, in the base and now, and the difference."""
        base, now = (
            _of_span(run, lambda one: one.idle_by_cause.get(cause, 0))
            for run in (self.comparison.base, self.comparison.head)
        )
        return share_of(base), share_of(now), self.points(base, now) or DASH

    def _of_pair(self, what: str, base: float, now: float, rule: str) -> Line:
        fired = next((one for one in self.comparison.fired() if one.rule == rule), None)
        compared = self.comparison.compared
        return Line(
            what,
            time_of(base),
            time_of(now),
            words.signed(now - base) if compared else DASH,
            MARKS["regressed"] if fired else None,
            cut(fired.because, _LONGEST) if fired else "",
        )

    @property
    def rule(self) -> str:
        """The rule that the verdicts follow."""
        return trust_words.thresholds(self.comparison)

    @property
    def trust(self) -> list[str]:
        """What the verdict rests on."""
        return [cut(one, _LONGEST) for one in trust_words.trust(self.comparison)]

    @property
    def differences(self) -> list[tuple[str, str, str, str]]:
        """What differs besides the code: what, base, now, and whether it keeps times apart."""
        return [
            (
                one.what,
                cut(one.base or "not recorded", _LONGEST),
                cut(one.head or "not recorded", _LONGEST),
                "times do not compare" if one.blocks else "said, no obstacle",
            )
            for one in self.comparison.differences
        ]

    @property
    def base_sources(self) -> list[tuple[str, str, str]]:
        """The files of the base."""
        return provenance.sources(self.comparison.base)

    @property
    def base_devices(self) -> list[Sequence[tuple[str, str]]]:
        """The GPUs of the base."""
        return provenance.devices(self.comparison.base)

    @property
    def base_notes(self) -> list[str]:
        """The notes of the base."""
        return provenance.notes(self.comparison.base)


_SHARES: Sequence[tuple[str, Callable[[Timeline], int]]] = (
    ("GPU busy, of the span", lambda one: one.busy_ns),
    ("GPU idle, of the span", lambda one: one.idle_ns),
    ("exposed communication, of the span", lambda one: one.exposed_communication_ns),
    ("exposed copies, of the span", lambda one: one.exposed_memcpy_ns),
)


def _of_span(run: Diagnosis, part: Callable[[Timeline], int]) -> float | None:
    span = sum(one.span_ns for one in run.timelines)
    return sum(part(one) for one in run.timelines) / span if span else None


def _busy(run: Diagnosis) -> float | None:
    span, busy = run.totals.span_ns, run.totals.gpu_busy_ns
    return busy / span if span and busy is not None else None
