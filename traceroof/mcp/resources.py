"""What a client can read beside the tools: the card of every rule."""

from collections.abc import Iterable

from traceroof.core.selection import known_rule
from traceroof.core.units import one_line
from traceroof.errors import TraceroofError
from traceroof.plugins import rules
from traceroof.rule import Rule

_PREFIX = "traceroof://rules/"
#: The address of any rule's card.
TEMPLATE = f"{_PREFIX}{{id}}"
MIME_TYPE = "text/markdown"


def uri_of(rule_id: str) -> str:
    """The address of a rule's card."""
    return f"{_PREFIX}{rule_id}"


def listed() -> Iterable[Rule]:
    """The rules, by id."""
    return sorted(rules(), key=lambda one: one.id)


def card(uri: str) -> str:
    """The card at an address, as Markdown. Raises TraceroofError where there is none."""
    from traceroof.report.common.cards import card_lines

    if not uri.startswith(_PREFIX):
        raise TraceroofError(
            f"there is no resource {one_line(uri)[:80]}", f"rule cards are at {TEMPLATE}"
        )
    wanted = uri.removeprefix(_PREFIX)[:200]
    rule = known_rule(wanted, {one.id: one for one in rules()})
    lines = [f"# {rule.id}", "", f"**{rule.title}**", ""]
    return "\n".join([*lines, *(f"- {label}: {text}" for label, text in card_lines(rule)), ""])
