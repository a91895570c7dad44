"""The card of a kernel with the figures of the base beside its own."""

from collections.abc import Mapping, Sequence
from typing import Any

from traceroof.core.kernel_names import demangled
from traceroof.report.compare import words
from traceroof.report.html import page
from traceroof.report.html.change_words import DASH, MARKS, arrow, count_of, delta, sides_of
from traceroof.report.html.changes import Changes


def with_base(now: Any, base: Any) -> Any:
    """A card's value with that of the base beside it where the two differ."""
    return now if now == base else f"{now}; base {base or DASH}"


def compared_card(
    changes: Changes, index: int, made: Mapping[str, Any], base: Mapping[str, Any] | None
) -> dict[str, Any]:
    """A card (``kernel_card.card``) of a kernel of the head with the figures of the base.

    base: the card of the one kernel that it is compared with; None where there is none.
    """
    result = dict(made)
    for name, entries in made.items() if base is not None else ():
        before = (base or {}).get(name, ())
        if name in _LINES:
            was = _by_label(before)
            result[name] = [
                (*entry[:-1], with_base(entry[-1], was.get(key)))
                for key, entry in zip(_by_label(entries), entries, strict=True)
            ]
        elif name == "metrics":
            was = {at: text for part in dict(before).values() for at, text in part}
            result[name] = {
                group: [(at, with_base(text, was.get(at))) for at, text in part]
                for group, part in entries.items()
            }
    result["facts"] = [*_card_lines(changes, index), *result.get("facts", ())]
    return result


# Parts of a card that are lines: (label, ..., text).
_LINES = ("facts", "uses", "roof", "occupancy", "stalls")


def _by_label(entries: Sequence[Sequence[Any]]) -> dict[tuple[str, int], Any]:
    """Label, and how many entries before have the same, -> the text."""
    seen: dict[str, int] = {}
    found: dict[tuple[str, int], Any] = {}
    for label, *_, text in entries:
        seen[label] = seen.get(label, -1) + 1
        found[label, seen[label]] = text
    return found


def _card_lines(changes: Changes, index: int) -> list[tuple[str, str]]:
    """What a card says of the change itself."""
    change, base = changes.change_of(index), changes.base_of(index)
    if change is None:
        return []
    said = [MARKS[change.verdict].word, "by counters" if change.basis else "", change.reason]
    if change.basis == "time":
        said[1] = words.p_value(change.p) if change.p is not None else ""
    lines = [
        (f"time {changes.unit}", arrow(*sides_of(change))),
        ("change", delta(change)),
        ("verdict", ", ".join(part for part in said if part)),
    ]
    if change.pair is None or change.pair.by is None:
        return lines
    now = changes.comparison.head.kernels[index]
    launches = change.base.launches, change.head.launches
    several = len(change.pair.base), len(change.pair.head)
    for label, text, worth in (
        ("class", f"{now.primary_class}; base {base.primary_class}" if base else "",
         base is not None and base.primary_class != now.primary_class),
        (f"launches {changes.unit}", " → ".join(count_of(one) for one in launches),
         launches[0] != launches[1]),
        ("paired by", change.pair.by, not change.pair.same_name),
        ("in the base", demangled(base.kernel)[: page.NAMED] if base else "",
         base is not None and not change.pair.same_name),
        ("compared together", f"{several[0]} of the base, {several[1]} now", max(several) > 1),
    ):  # fmt: skip
        if worth:
            lines.append((label, text))
    return lines
