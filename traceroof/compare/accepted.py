"""Regressions that are known and wanted: what a gate lets pass, and until when."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from traceroof.compare import Comparison
from traceroof.compare.changes import Change
from traceroof.config.settings import Accepted
from traceroof.config.values import fits


@dataclass(frozen=True)
class Acceptance:
    """What the accepted regressions of the settings mean for one comparison.

    accepted: kernels that got slower, each with the entry that accepts it. expired: the same for
    entries whose day is over: they count no longer. unused: entries that no regression fits.
    """

    accepted: tuple[tuple[Change, Accepted], ...] = ()
    expired: tuple[tuple[Change, Accepted], ...] = ()
    unused: tuple[Accepted, ...] = ()

    def remaining(self, comparison: Comparison) -> list[Change]:
        """What got slower and is not accepted: kernels, and the sums that they do not explain."""
        allowed = [change for change, _ in self.accepted]
        kernels = [one for one in comparison.of("regressed") if one not in allowed]
        sums = [
            one
            for one in (() if comparison.narrowed else (comparison.total, *comparison.categories))
            if one.verdict == "regressed"
            and not _explained(one, allowed, comparison.limits.total_percent)
        ]
        return [*sums[:1], *kernels, *sums[1:]] if _whole(sums) else [*kernels, *sums]


def acceptance(comparison: Comparison, today: date) -> Acceptance:
    """The entries of the settings held against a comparison."""
    entries = comparison.settings.accept
    valid = [one for one in entries if one.until is None or today <= one.until]
    found: list[tuple[Change, Accepted]] = []
    expired: list[tuple[Change, Accepted]] = []
    for change in comparison.of("regressed"):
        by = _first(valid, change)
        if by is not None:
            found.append((change, by))
        elif (over := _first(entries, change)) is not None:
            expired.append((change, over))
    used = [entry for _, entry in (*found, *expired)]
    return Acceptance(
        tuple(found), tuple(expired), tuple(one for one in entries if one not in used)
    )


def _whole(sums: Sequence[Change]) -> bool:
    return bool(sums) and sums[0].level == "total"


def _first(entries: Sequence[Accepted], change: Change) -> Accepted | None:
    return next((one for one in entries if fits(one.kernel, change.name)), None)


def _explained(whole: Change, accepted: Sequence[Change], percent: float) -> bool:
    """Whether a sum would not have got slower without the accepted kernels."""
    own = [one for one in accepted if whole.level == "total" or one.category == whole.name]
    if not own or whole.delta_ns is None or not whole.base.median_ns:
        return False
    rest = whole.delta_ns - sum(one.delta_ns or 0.0 for one in own)
    return rest < percent / 100 * whole.base.median_ns
