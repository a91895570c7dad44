"""Counter profiles against what fixes really gained, and against what experts say of each kernel.

``known_faults.tsv`` holds programs before and after a fix, with the defect, the gain and an honest
bound; where the side before the fix lies is data (``accuracy.toml``, ``[[fault]]``).
``expert_labels_counters.tsv`` holds a class and a topic for each kernel, and what must not be said of
it (``must_not_counters.toml``).
"""

import csv
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import traceroof
from traceroof.diagnosis.diagnosis import Diagnosis, KernelGroup
from traceroof.diagnosis.findings import Finding
from traceroof.errors import TraceroofError

#: A fix that gained more is one whose defect must be named, one that gained less gained nothing.
WORTH_PCT, NOTHING_PCT = 10.0, 3.0
#: A bound may exceed an honest one by this factor.
GENEROUS = 1.2
_MUST_NOT = {
    one["number"]: one
    for one in tomllib.loads(Path(__file__).with_name("must_not_counters.toml").read_text("utf-8"))[
        "must_not"
    ]
}

# Percentages are rounded to one digit in the table.
_ROUNDING = 0.5
_PLACES = 2


@dataclass(frozen=True)
class Fault:
    """One fix, and what we say of the kernel before it. topics: of its findings, best first.
    bound_pct: of the first finding on the defect, of the kernel's time; None where it names none."""

    number: int
    program: str
    defect: str
    topic: str
    gain_pct: float
    honest_pct: float | None
    topics: tuple[str, ...]
    bound_pct: float | None

    @property
    def place(self) -> int | None:
        """Which of our topics the defect is, from 1 on; None where we do not name it."""
        return self.topics.index(self.topic) + 1 if self.topic in self.topics else None

    @property
    def named(self) -> bool | None:
        """Whether it is the first or second; None where the fix gained too little to ask."""
        if self.gain_pct <= WORTH_PCT:
            return None
        return self.place is not None and self.place <= _PLACES

    @property
    def holds(self) -> bool | None:
        """Whether the bound is at least the gain; None without a bound."""
        return None if self.bound_pct is None else self.bound_pct >= self.gain_pct - _ROUNDING

    @property
    def honest(self) -> bool | None:
        """Whether it is an honest bound, with some room; None where nothing can be compared."""
        if self.honest_pct is None or self.bound_pct is None:
            return None
        room = GENEROUS if self.gain_pct >= NOTHING_PCT else 1.0
        return self.bound_pct <= room * self.honest_pct + _ROUNDING


@dataclass(frozen=True)
class Label:
    """What an expert says of one kernel, and what we say. forbidden: what must not be said of it ->
    whether it is said."""

    file: str
    kernel: str
    classes: tuple[str, ...]
    topics: tuple[str, ...]
    confidence: str
    our_class: str
    our_topic: str
    forbidden: Mapping[str, bool]


def faults(folder: Path, where: Sequence[Mapping[str, Any]]) -> Iterator[Fault]:
    """Every fix whose side before it is a profile that is read.

    where: per fix its number in the table, from 0 on, the file below ``folder``, and what tells
    the kernel: a part of its name, its block.
    """
    rows = _rows(folder.parent / "reference" / "known_faults.tsv")
    for entry in where:
        row = rows[entry["number"]]
        found = _diagnosed(folder / entry["file"])
        at = _kernel(found.kernels, entry.get("kernel", ""), entry.get("block"))
        ours = _of_kernel(found, at)
        share = [one.bound_share for one in ours if one.topic == row["topic"]]
        yield Fault(
            number=entry["number"],
            program=row["kernel_before"],
            defect=row["defect"],
            topic=row["topic"],
            gain_pct=float(row["real_gain_pct"]),
            honest_pct=float(row["honest_bound_pct"]) if row["honest_bound_pct"] else None,
            topics=tuple(dict.fromkeys(one.topic for one in ours)),
            bound_pct=next((100 * one for one in share if one is not None), None),
        )


def labels(folder: Path) -> Iterator[Label]:
    """Every labelled kernel of the profiles that are read."""
    table = _rows(folder.parent / "reference" / "expert_labels_counters.tsv")
    for number, row in enumerate(table):
        try:
            found = _diagnosed(folder / row["file"])
        except TraceroofError:
            continue
        at = _labelled(found.kernels, row["kernel"])
        ours = _of_kernel(found, at)
        yield Label(
            file=row["file"],
            kernel=row["kernel"],
            classes=(row["class"], *_several(row["class_also_ok"])),
            topics=(row["topic"], *_several(row["also_ok"])),
            confidence=row["confidence"],
            our_class=found.kernels[at].primary_class,
            our_topic=ours[0].topic if ours else "none",
            forbidden=_forbidden(_MUST_NOT.get(number, {}), found.kernels[at], ours),
        )


def _forbidden(
    rules: Mapping[str, Any], kernel: KernelGroup, ours: Sequence[Finding]
) -> dict[str, bool]:
    """What must not be said of a kernel -> whether it is."""
    topics = [one.topic for one in ours]
    said = " ".join(f"{one.title}. {one.because}. {one.fix}" for one in ours)
    return {
        **{f"class {one}": kernel.primary_class == one for one in rules.get("class", ())},
        **{f"{one} first": one in topics[:1] for one in rules.get("first", ())},
        **{f"{one} said": one in topics for one in rules.get("topics", ())},
        **{f"says {one}": re.search(one, said) is not None for one in rules.get("words", ())},
    }


@cache
def _diagnosed(path: Path) -> Diagnosis:
    return traceroof.diagnose(path, calibrated=False)


def _of_kernel(found: Diagnosis, at: int) -> list[Finding]:
    return [one for one in found.fired() if one.scope == "kernel" and one.subject_index == at]


def _kernel(kernels: Sequence[KernelGroup], name: str, block: Sequence[int] | None) -> int:
    return next(
        at
        for at, one in enumerate(kernels)
        if name in one.kernel and (block is None or one.block == tuple(block))
    )


def _labelled(kernels: Sequence[KernelGroup], label: str) -> int:
    """The kernel that a label means: by its block, by the beginning of its name, by its time."""
    if len(kernels) == 1:
        return 0
    if block := re.search(r"block (\d+)x(\d+)", label):
        return _kernel(kernels, "", (int(block[1]), int(block[2]), 1))
    full = label.split(" (")[0].split("...")[0].strip()
    name = re.split(r" \(|<|\(|\.\.\.", label)[0].strip()
    found = [at for at, one in enumerate(kernels) if full[:60] in one.kernel]
    found = found or [at for at, one in enumerate(kernels) if name in one.kernel]
    if time := re.search(r"([\d.]+) (us|ms)\)", label):
        wanted = float(time[1]) * (1e3 if time[2] == "us" else 1e6)
        return min(found, key=lambda at: abs((kernels[at].median_ns or 0) - wanted))
    return found[0]


def _rows(table: Path) -> list[dict[str, str]]:
    with table.open(encoding="utf-8") as lines:
        return list(csv.DictReader(lines, delimiter="\t"))


def _several(text: str) -> list[str]:
    return [one for one in text.split(";") if one]
