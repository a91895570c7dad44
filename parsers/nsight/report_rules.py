"""What the profiler's rules say of the launches of a report."""

import math
from collections.abc import Iterator
from typing import Any

from traceroof.core import regex
from traceroof.parsers.nsight.launches import Launches, Sentence
from traceroof.parsers.nsight.metrics import section_id
from traceroof.parsers.nsight.report_blocks import decoded
from traceroof.parsers.nsight.report_fields import report_messages
from traceroof.parsers.nsight.report_memo import Memo
from traceroof.parsers.nsight.report_metrics import parsed

_LEVELS = {1: "INF", 2: "WRN", 3: "ERR", 4: "OPT"}
_SCOPES = {1: "local", 2: "global"}
# @section:Identifier:Name@ and @url:Text:https://…@, which ncu prints as the name alone.
_LINK = regex.compile(
    r"@(?:section:[^:@\n]{1,100}:([^@\n]{1,300})|url:([^:@\n]{1,300}):[^@\n]{1,500})@"
)

#: Of rules as their bytes what they say; None for a rule that is damaged.
Rules = Memo[tuple[Sentence | None, ...]]


def add_rule(raw: bytes, launch: int, into: Launches, rules: Rules) -> None:
    """The sentences of one rule, which launches of one kernel repeat."""
    for said in rules.of(raw, _said):
        if said is None:
            into.note("results of rules that are damaged left out")
            continue
        into.add_sentence(launch, said)
        if said.level == "ERR":
            into.note("rules that failed in the profiler (ERR)", severe=False)


def _said(raw: bytes) -> tuple[Sentence | None, ...]:
    """A rule without a sentence was evaluated and has nothing to say."""
    rule = parsed(raw, report_messages()["Rule"])
    return (None,) if rule is None else tuple(_sentences(rule))


def _sentences(rule: Any) -> Iterator[Sentence]:
    section, name = section_id(decoded(rule.section)), decoded(rule.name)
    for item in rule.body.items:
        if not item.HasField("message"):
            continue
        text = decoded(item.message.text)
        if "@" in text:
            text = _LINK.sub(lambda match: match[1] or match[2], text)
        known = item.HasField("speedup") and math.isfinite(item.speedup.percent)
        scope = _SCOPES.get(item.speedup.scope, "") if known else ""
        speedup = f"{item.speedup.percent:.4g}" if known else ""
        yield Sentence(section, name, _LEVELS.get(item.message.level, ""), text, scope, speedup)
