"""How a rule came to what it says of a subject, as data: steps, checks, figures."""

from dataclasses import asdict, dataclass
from typing import Any

from traceroof.diagnosis.findings import Evidence, Finding
from traceroof.diagnosis.formulas import (
    Check,
)
from traceroof.rule import Scope

SCHEMA = "traceroof/explanation/1"


@dataclass(frozen=True)
class Step:
    """One step of a calculation: what it gives, by which formula, with which numbers."""

    label: str
    formula: str
    figures: str
    result: str


@dataclass(frozen=True)
class Explanation:
    """How one rule came to what it says of one subject.

    number: of the subject among those of its scope, from 1 on. says: the outcome in a sentence.
    concerns: what makes the rule apply to this subject; condition: what must hold, ``words`` the
    same in the words of its card. inputs: the columns with a known value; unknown: the others. bound, likely: the two savings, step by step,
    empty where the rule claims none; ceilings: what the likely one is held against. severity: the
    class of the saving and why.
    finding: what is reported, None unless the condition holds. outcomes: how the other subjects
    fared. traced: whether the rule's own formula could be followed.
    """

    rule: str
    title: str
    why: str
    scope: Scope
    subject: str
    number: int
    state: str
    says: str
    concerns: tuple[Check, ...]
    words: str
    condition: tuple[Check, ...]
    inputs: tuple[Evidence, ...]
    unknown: tuple[str, ...]
    bound: tuple[Step, ...]
    likely: tuple[Step, ...]
    ceilings: str
    severity: str
    trust: Step | None
    finding: Finding | None
    missing: tuple[str, ...]
    command: str | None
    fix: str
    refute: str
    references: tuple[str, ...]
    outcomes: str
    traced: bool = True


@dataclass(frozen=True)
class Explanations:
    """Answers to one question about a run."""

    run_name: str
    answers: tuple[Explanation, ...]
    left_out: int = 0

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """The JSON form ``traceroof/explanation/1``."""
        return {
            "schema": SCHEMA,
            "run": {"name": self.run_name},
            "explanations": [asdict(one) for one in self.answers[:top]],
            "left_out": self.left_out + len(self.answers[top or len(self.answers) :]),
        }
