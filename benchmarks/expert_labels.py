"""The first entry of the advice against what experts put first, profile by profile.

The labels were made from the raw files without our output: the topic that belongs first, accepted
alternatives, and an honest bound of what it saves.
"""

import csv
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import traceroof
from traceroof.errors import TraceroofError
from traceroof.report.run import terminal

_MUST_NOT = tomllib.loads(Path(__file__).with_name("must_not.toml").read_text("utf-8"))["must_not"]

# Where there is next to nothing to do, these say the same.
_NOTHING = {"nothing-to-gain", "toy-kernel-nothing-to-gain", "dram-wall", "too-short-to-judge",
            "problem-too-small"}  # fmt: skip
# A file without GPU work is refused, and that is right where the expert sees none either.
_NO_WORK = {"too-short-to-judge", "lost-records", "nothing-to-gain", "not-enough-metrics"}
# These rest on sizes of the model, which are not in the file.
_OUTSIDE = ("moe", "memory-bandwidth-decode")
#: A bound agrees within these multiples of the label's.
WITHIN = (0.7, 1.5)


@dataclass(frozen=True)
class Label:
    """What an expert says of one profile. bound_ms: None where it names no time."""

    file: str
    first: str
    topic: str
    also: frozenset[str]
    bound_ms: float | None
    confidence: str

    @property
    def accepted(self) -> frozenset[str]:
        """Every topic that may stand first."""
        topics = {self.topic, *self.also}
        return frozenset(
            topics | _NOTHING if topics & (_NOTHING - {"problem-too-small"}) else topics
        )


@dataclass(frozen=True)
class Outcome:
    """What we say of it: the topics of our entries, best first, the bound of the first, and all that
    is printed; refused where the file has no GPU work."""

    label: Label
    topics: tuple[str, ...]
    bound_ms: float | None
    text: str = ""
    refused: bool = False

    @property
    def forbidden(self) -> dict[str, bool]:
        """What must not be said of it, by the expert -> whether it is said."""
        said: dict[str, bool] = {}
        for one in _MUST_NOT:
            if not fnmatchcase(self.label.file, one["file"]):
                continue
            said |= {f"{topic} first": topic in self.topics[:1] for topic in one.get("first", ())}
            said |= {f"{topic} in three": topic in self.topics[:3] for topic in one.get("top", ())}
            said |= {
                f"says {words}": re.search(words, self.text) is not None
                for words in one.get("words", ())
            }
        return said

    @property
    def verdict(self) -> str:
        """right, accepted, in the top three, or contradicted."""
        if self.refused:
            return (
                "right" if self.label.accepted & _NO_WORK or _on_cpu(self.label) else "contradicted"
            )
        if self.topics[0] == self.label.topic:
            return "right"
        if self.topics[0] in self.label.accepted:
            return "accepted"
        return "in the top three" if self.label.accepted & {*self.topics[:3]} else "contradicted"

    @property
    def ratio(self) -> float | None:
        """Our bound over the label's, where both speak of the same thing and know its time."""
        same = not self.refused and self.topics[0] == self.label.topic
        if not same or self.label.topic in _OUTSIDE or not self.label.bound_ms:
            return None
        return (self.bound_ms or 0.0) / self.label.bound_ms


def _on_cpu(label: Label) -> bool:
    return "cpu_only" in label.file or "nokernels" in label.file


def labels(table: Path) -> list[Label]:
    """The labels that are sure enough to be held against us."""
    with table.open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t"))
    return [
        Label(
            file=row["file"],
            first=row["first"],
            topic=row["topic"],
            also=frozenset(one.strip() for one in re.split(r"[,;]", row["also_ok"]) if one.strip()),
            bound_ms=_number(row["bound_ms"]),
            confidence=row["confidence"],
        )
        for row in rows
        if row["confidence"] != "low"
    ]


def _number(text: str) -> float | None:
    found = re.match(r"[\d.]+", text.strip())
    return float(found[0]) if found else None


def outcomes(folder: Path) -> Iterator[Outcome]:
    """Every labelled profile below a folder, with what we say of it."""
    for label in labels(folder.parent / "reference" / "expert_labels_torch.tsv"):
        paths = [folder / "torch" / name for name in label.file.rstrip("/").split("+")]
        try:
            found = traceroof.diagnose(paths if len(paths) > 1 else paths[0], calibrated=False)
        except TraceroofError as error:
            # The name of the file is not ours.
            yield Outcome(label, (), None, str(error).replace(str(folder), ""), refused=True)
            continue
        first = found.advice[0] if found.advice else None
        bound = first.bound_ns if first else None
        yield Outcome(
            label,
            tuple(one.topic for one in found.advice) or ("nothing-to-gain",),
            None if bound is None else bound / 1e6,
            terminal.render(found, width=10_000),
        )
