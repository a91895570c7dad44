"""Where in its source a kernel spends its time, and which line a finding speaks of.

A line's time is the kernel's times its share of the samples, and a line's part of a finding is the
finding's bound times the line's share of what was counted: lines are parts and never add up to more.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceroof.core import kernel_names
from traceroof.core.source_lines import COUNTS, SAMPLES_OF
from traceroof.core.units import one_line, percent
from traceroof.diagnosis.findings import Finding, LinePart

Reals = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

#: Lines of a kernel that a diagnosis keeps, those with the most samples.
MOST_LINES = 100
#: Below this part of the samples that were due, only a part of the kernel's time was sampled.
COVERED = 0.9
# A line is named for a finding from this share of its measure on, and so many of them.
_SPEAKS, _NAMED = 0.05, 3
_TEXT = 60
_WARP = 32


@dataclass(frozen=True)
class SourceLine:
    """One line of a kernel, or one instruction where no line is known (file and line are None).

    place: as people read it: ``gemv.cu:41``, or ``f+0x240``. address: of its instruction with the
    most samples, in bytes from the start of function. text: that instruction, or its PTX. share: of
    the kernel's samples, 0-1. time_ns: the same share of its time; None where only a part of the
    kernel was sampled. stalls: reason -> part of the line's samples, most first. counts: of
    ``source_lines.COUNTS``, those that are known.
    """

    place: str
    file: str | None
    line: int | None
    function: str | None
    address: int | None
    text: str | None
    share: float | None
    time_ns: int | None
    stalls: tuple[tuple[str, float], ...]
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class KernelLines:
    """The lines of a kernel group, most samples first.

    samples: of the whole kernel. lines_known: share of the samples whose line is known. covered:
    samples taken, of those that were due in the kernel's time; well below 1 where the profiler's
    buffer was full and only the start of the kernel was sampled.
    """

    lines: tuple[SourceLine, ...]
    samples: int
    lines_known: float | None
    covered: float | None

    @property
    def caveat(self) -> str:
        """What of the kernel the samples do not speak of; empty where they are whole."""
        if self.covered is None or self.covered >= COVERED:
            return ""
        part = percent(self.covered)
        return f"only {part} of the kernel's time was sampled, from its start: what comes later is not seen"


@dataclass(frozen=True)
class _Spot:
    """Where the rows of one line are: a source line, else an address, a line of PTX, or the text of
    the instruction, whichever is the first that is known."""

    file: str | None = None
    line: int | None = None
    function: str | None = None
    address: int | None = None
    ptx_line: int | None = None
    text: str | None = None

    @staticmethod
    def of(
        file: str | None, line: int | None, function: str | None, address: int | None,
        ptx_line: int | None, text: str | None,
    ) -> "_Spot":  # fmt: skip
        if line:
            return _Spot(file or None, line)
        if address is not None:
            return _Spot(function=function, address=address)
        if ptx_line:
            return _Spot(function=function, ptx_line=ptx_line)
        return _Spot(function=function, text=text)

    @property
    def words(self) -> str:
        """``gemv.cu:41``, or ``f+0x240`` where no line is known."""
        if self.line:
            file = PurePosixPath((self.file or "").replace(chr(92), "/")).name
            return f"{file}:{self.line}" if file else f"line {self.line}"
        # Without template arguments: those of one kernel's functions seldom tell them apart.
        name = kernel_names.function(kernel_names.demangled(self.function or "")).partition("<")[0]
        if self.address is not None:
            return "+".join(part for part in (name, f"0x{self.address:x}") if part)
        rest = f"PTX:{self.ptx_line}" if self.ptx_line else one_line(self.text or "")[:_TEXT]
        return " ".join(part for part in (name, rest) if part)


@dataclass(frozen=True)
class _Lines:
    """The lines of one kernel group as columns: n lines. function, address, text: of the
    instruction with the most samples."""

    spot: list[_Spot]
    function: list[str | None]
    address: list[int | None]
    text: list[str | None]
    counts: dict[str, Reals]
    expected: float | None

    @property
    def covered(self) -> float | None:
        """Samples taken, of those that were due."""
        total = float(self.of("samples").sum())
        return total / self.expected if total and self.expected else None

    @property
    def in_part(self) -> bool:
        """Whether only a part of the kernel's time was sampled."""
        return self.covered is not None and self.covered < COVERED

    def of(self, name: str) -> Reals:
        """A count with unknown as 0, for sums."""
        return np.nan_to_num(self.counts[name])


def lines_of_groups(
    source: pa.Table, group_of_row: Sequence[int] | npt.NDArray[np.int64], times: Sequence[float]
) -> "Lines":
    """The lines of every kernel group that has any.

    source: a source table. group_of_row: of each row of the kernel table it points into, -1: none.
    times: ns of each group, NaN where unknown.
    """
    if not source.num_rows:
        return Lines({}, ())
    of_row = np.asarray(group_of_row, dtype=np.int64)
    groups = of_row[source["row"].to_numpy()]
    found = {}
    for group in np.unique(groups[groups >= 0]).tolist():
        # A name may stand for several launches: their instructions are the same.
        found[int(group)] = _gathered(source, pa.array(groups == group))
    return Lines(found, times)


_PLACE = ("file", "line", "function", "address", "ptx_line", "instruction", "ptx")


def _gathered(source: pa.Table, mine: pa.Array) -> _Lines:
    """Rows of one kernel by line, and by instruction where there is no line. mine: which rows."""
    # A million rows are of a few hundred instructions; and a column at a time is held.
    part = source.select(_PLACE).filter(mine)
    instruction, first = _distinct([part[name] for name in _PLACE])
    listed = {name: part[name].take(pa.array(first)).to_pylist() for name in _PLACE}
    text = [one or ptx for one, ptx in zip(listed["instruction"], listed["ptx"], strict=True)]
    places = zip(*(listed[name] for name in _PLACE[:5]), text, strict=True)
    number: dict[_Spot, int] = {}
    spots = [number.setdefault(_Spot.of(*place), len(number)) for place in places]
    of = np.array(spots, dtype=np.int64)[instruction]
    hottest = np.zeros(len(number), dtype=np.int64)
    weight = np.nan_to_num(_reals(source["samples"], mine))
    order = np.argsort(weight, kind="stable")
    hottest[of[order]] = instruction[order]
    counts = {}
    for name in COUNTS:
        values = _reals(source[name], mine)
        known = ~np.isnan(values)
        total = np.bincount(of[known], values[known], minlength=len(number))
        seen = np.bincount(of[known], minlength=len(number)) > 0
        counts[name] = np.where(seen, total, np.nan)
    launches = source.select(("row", "expected_samples")).filter(mine).group_by("row")
    due = launches.aggregate([("expected_samples", "max")])["expected_samples_max"]
    expected = None if due.null_count else pc.sum(due).as_py()
    at = hottest.tolist()
    return _Lines(
        list(number), [listed["function"][one] for one in at],
        [listed["address"][one] for one in at], [text[one] for one in at], counts, expected,
    )  # fmt: skip


def _reals(column: pa.ChunkedArray, mine: pa.Array) -> Reals:
    """Some rows of a column as numbers, NaN where there is none."""
    values: Reals = column.filter(mine).cast(pa.float64()).to_numpy()
    return values


def _distinct(columns: Sequence[pa.ChunkedArray]) -> tuple[Ints, Ints]:
    """(which distinct row each row is, where each of these stands first)."""
    key = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        codes = pa.concat_arrays(coded.unify_dictionaries().chunks)
        key = key * (len(codes.dictionary) + 1) + codes.indices.fill_null(-1).to_numpy() + 1
        # Numbered from 0 again, so that products of columns stay small.
        key = pa.array(key).dictionary_encode().indices.to_numpy().astype(np.int64)
    first = np.zeros(int(key.max(initial=-1)) + 1, np.int64)
    first[key[::-1]] = np.arange(len(key))[::-1]
    return key, first


@dataclass(frozen=True)
class Lines:
    """The lines of the kernel groups of a run."""

    of: Mapping[int, _Lines]
    times: Sequence[float]

    def kernel(self, group: int) -> KernelLines | None:
        """What a diagnosis says of one group; None without a source table."""
        found = self.of.get(group)
        if found is None:
            return None
        samples = found.of("samples")
        total = float(samples.sum())
        weight = samples if total else found.of("instructions")
        order = np.argsort(-weight, kind="stable")[:MOST_LINES].tolist()
        known = np.array([bool(one.line) for one in found.spot], dtype=bool)
        return KernelLines(
            tuple(_line(found, at, total, self.times[group]) for at in order),
            int(total),
            float(samples[known].sum() / total) if total else None,
            found.covered,
        )

    def only(self, groups: Sequence[int]) -> "Lines":
        """The lines of some groups, numbered anew in this order."""
        of = {at: self.of[group] for at, group in enumerate(groups) if group in self.of}
        return Lines(of, [self.times[group] for group in groups] if self.times else ())

    def named(self, finding: Finding) -> Finding:
        """The finding with the lines that it is about, where they are known."""
        measure = _measure(finding.rule)
        index = finding.subject_index
        if measure is None or finding.scope != "kernel" or finding.state != "fired":
            return finding
        found = self.of.get(-1 if index is None else index)
        if found is None:
            return finding
        amount = np.clip(measure.amount(found), 0, None)
        total = amount.sum()
        if not total > 0:
            return finding
        order = np.argsort(-amount, kind="stable")[:_NAMED].tolist()
        # What was counted is the whole kernel's; what was sampled may be of its beginning alone.
        in_part = measure.sampled and found.in_part
        bound = None if in_part else finding.time_saved_bound_ns
        parts = tuple(
            LinePart(
                found.spot[at].words, found.spot[at].file, found.spot[at].line,
                found.function[at], found.address[at],
                float(amount[at] / total),
                None if bound is None else int(bound * (amount[at] / total)),
                measure.says(found, at, percent(float(amount[at] / total))),
            )
            for at in order
            if amount[at] >= _SPEAKS * total
        )  # fmt: skip
        if not parts:
            return finding
        place = parts[0].place
        seen = f" (of the {percent(found.covered)} of its time that was sampled)" if in_part else ""
        return replace(
            finding,
            because=f"{finding.because}; {place} {parts[0].says}{seen}",
            lines=parts,
            where=replace(finding.where, source=place),
        )


NO_LINES = Lines({}, ())


def _line(found: _Lines, at: int, total: float, time: float) -> SourceLine:
    counts = {
        name: int(values[at]) for name, values in found.counts.items() if not np.isnan(values[at])
    }
    samples = counts.get("samples", 0)
    share = samples / total if total else None
    stalls = sorted(
        (
            (reason, counts[name] / samples)
            for reason, name in SAMPLES_OF.items()
            if samples and counts.get(name)
        ),
        key=lambda one: -one[1],
    )
    spot = found.spot[at]
    return SourceLine(
        spot.words, spot.file, spot.line, found.function[at], found.address[at], found.text[at],
        share, None if share is None or np.isnan(time) or found.in_part else int(round(time) * share),
        tuple(stalls), counts,
    )  # fmt: skip


# --- what a finding counts -----------------------------------------------------------------------


@dataclass(frozen=True)
class _Measure:
    """amount: of each line. says: what a line does, given its share as text. sampled: the amount is
    of samples, not counted."""

    amount: Callable[[_Lines], Reals]
    says: Callable[[_Lines, int, str], str]
    sampled: bool = False


def _excess(moved: str, ideal: str, what: str) -> _Measure:
    def says(lines: _Lines, at: int, share: str) -> str:
        needed = lines.of(ideal)[at]
        ratio = f"{lines.of(moved)[at] / needed:.1f} × " if needed else "more than "
        return f"{what} {ratio}what its accesses need: {share} of the excess"

    return _Measure(lambda lines: np.nan_to_num(lines.counts[moved] - lines.counts[ideal]), says)


_ACTIVE, _ON = "thread_instructions", "thread_instructions_predicated"


def _threads(lines: _Lines) -> str:
    """What idle lanes are told by: threads that are not active, or that are predicated off, whichever
    loses more lanes of the kernel."""
    active, on, slots = (lines.of(name) for name in (_ACTIVE, _ON, "instructions"))
    if not on.any() or not active.any():
        return _ACTIVE if active.any() else _ON
    return _ACTIVE if 2 * active.sum() <= _WARP * slots.sum() + on.sum() else _ON


def _idle(lines: _Lines) -> Reals:
    return np.nan_to_num(_WARP * lines.counts["instructions"] - lines.counts[_threads(lines)])


def _idle_says(lines: _Lines, at: int, share: str) -> str:
    column = _threads(lines)
    number = lines.counts[column][at] / lines.counts["instructions"][at]
    what = "active" if column == _ACTIVE else "active and not predicated off"
    return f"runs with {number:.1f} of {_WARP} threads {what}: {share} of the idle lanes"


_SIMPLE: Mapping[str, _Measure] = {
    "uncoalesced-global": _excess("global_sectors", "global_sectors_ideal", "moves"),
    "smem-bank-conflict": _excess("shared_wavefronts", "shared_wavefronts_ideal", "takes"),
    "register-spill": _Measure(
        lambda lines: lines.of("local_sectors"),
        lambda lines, at, share: f"moves {share} of the local-memory sectors",
    ),
    "thread-divergence": _Measure(_idle, _idle_says),
    "divergent-branches": _Measure(
        lambda lines: lines.of("divergent_branches"),
        lambda lines, at, share: f"has {share} of the divergent branches",
    ),
}
# Rules that judge one reason of the stalls, by what their name says.
_REASON_OF: Mapping[str, str] = {
    "math-pipe": "math_pipe_throttle",
    "dispatch": "dispatch_stall",
    "lg-throttle": "lg_throttle",
}


def _measure(rule: str) -> _Measure | None:
    """What of the lines a rule judges; None where no line can be named."""
    if rule in _SIMPLE:
        return _SIMPLE[rule]
    if not rule.startswith("stall-"):
        return None
    name = rule.removeprefix("stall-")
    column = SAMPLES_OF.get(_REASON_OF.get(name, name.replace("-", "_")))
    if column is None:
        return None
    return _Measure(
        lambda lines: lines.of(column),
        lambda lines, at, share: f"is where they wait: {share} of these samples",
        sampled=True,
    )
