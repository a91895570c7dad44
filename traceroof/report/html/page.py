"""What the HTML report shows, as plain data in its order: fixes, kernels, cards, provenance.

Long lists are cut here, each by a rule that does not depend on the machine; what is cut is
counted, and the page says so.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from traceroof.core.kernel_names import demangled, short_names
from traceroof.core.units import percent, quantity
from traceroof.diagnosis.diagnosis import Diagnosis, KernelGroup
from traceroof.kernels.places import BY
from traceroof.report.html.fixes import Fix, numbers
from traceroof.report.html.palette import look
from traceroof.report.html.timeline_figures import gpu_labels
from traceroof.report.run import operator_card, summary
from traceroof.report.run.rank_lines import rank_lines, straggler

# What rows may take of a page; the limits only matter for thousands of kernels.
_ROW_BYTES, _MOST_ROWS = 110_000, 600
_MOST_GAPS = 15
_NAME_WIDTH = 72
#: How much of a kernel's name every page holds, for its search and its card.
NAMED = 300


@dataclass(frozen=True)
class Row:
    """A kernel in the table; ``fix`` is the number of its entry among the fixes, 0 for none.
    joined: how sure the counters are its own, empty without."""

    index: int
    name: str
    shape: str
    place: str
    joined: str
    category: str
    primary_class: str
    family: str
    mark: str
    time_ns: int | None
    time: str
    share: str
    bar: float
    launches: str
    median_ns: float | None
    median: str
    compute: str
    memory: str
    dram: str
    fix: int


@dataclass(frozen=True)
class Unlisted:
    """The kernels that the table has no room for."""

    kernels: str
    time: str
    share: str
    launches: str


def rows(
    diagnosis: Diagnosis, fixes: Sequence[Fix], *, each: int = 0, most: int | None = None
) -> tuple[list[Row], Unlisted | None]:
    """The kernels with the most time, as many as there is room for, and the sum of the others.

    each: bytes that a row takes beyond what is known here. most: no more rows than these.
    """
    kernels = diagnosis.kernels[: _MOST_ROWS if most is None else most]
    names = short_names((one.kernel for one in kernels), _NAME_WIDTH)
    several = _repeated(one.kernel for one in kernels)
    fix_of = numbers(fixes)
    largest = max((one.share or 0 for one in kernels), default=0)
    rows: list[Row] = []
    room = _ROW_BYTES
    seen: set[str] = set()
    for index, one in enumerate(kernels):
        # In a cell a bracket takes four bytes; a name that several rows share is held once.
        room -= 270 + each + len(escape(names[one.kernel]).encode())
        known = one.where.words if one.where.module or one.where.range else ""
        place = ", ".join(part for part in (known, one.where.source) if part)
        room -= len(escape(place).encode())
        room -= 0 if one.kernel in seen else len(demangled(one.kernel)[:NAMED].encode())
        seen.add(one.kernel)
        if room < 0:
            break
        appearance = look(one.primary_class)
        rows.append(
            Row(
                index=index + 1,
                name=names[one.kernel],
                shape=_launch_shape(one.grid, one.block) if one.kernel in several else "",
                place=place,
                joined=_joined(one),
                category=one.category,
                primary_class=one.primary_class,
                family=appearance.family,
                mark=appearance.mark,
                time_ns=one.time_ns,
                time=quantity(one.time_ns, "ns"),
                share=percent(one.share),
                bar=round(100 * (one.share or 0) / largest, 1) if largest else 0.0,
                launches=f"{one.launches:,}",
                median_ns=one.median_ns,
                median=quantity(one.median_ns, "ns"),
                compute=_use(one.metrics.get("compute_pct")),
                memory=_use(one.metrics.get("memory_pct")),
                dram=_use(one.metrics.get("dram_pct")),
                fix=fix_of.get(index, 0),
            )
        )
    return rows, _unlisted(diagnosis, diagnosis.kernels[len(rows) :])


def _unlisted(diagnosis: Diagnosis, rest: Sequence[KernelGroup]) -> Unlisted | None:
    """The sum of the kernels without a row; None where all have one."""
    if not rest:
        return None
    time = sum(one.time_ns or 0 for one in rest)
    whole = diagnosis.totals.kernel_time_ns
    return Unlisted(
        kernels=f"{len(rest):,}",
        time=quantity(time, "ns"),
        share=percent(time / whole if whole else None),
        launches=f"{sum(one.launches for one in rest):,}",
    )


def _joined(kernel: KernelGroup) -> str:
    sure = kernel.metrics.get("join_confidence")
    return f"{sure:.2f}" if isinstance(sure, float) else ""


@dataclass(frozen=True)
class Times:
    """A table of the time by module, operator or range, as the page's macro takes it."""

    title: str
    header: Sequence[tuple[str, bool]]
    rows: Sequence[Sequence[str]]
    kernels: Sequence[int] = ()


def times(diagnosis: Diagnosis) -> list[Times]:
    """The time by module, operator and range, where they are recorded."""
    header = (("Time", True), ("Share of GPU time", True), ("Launches", True), ("Findings", False))
    made = []
    for by in BY:
        listed = summary.time_by(diagnosis, by)
        if not listed:
            continue
        rows = [
            (
                (one.name or "")[:NAMED],
                quantity(one.time_ns, "ns"),
                percent(one.share),
                f"{one.launches:,}",
                _rules(one.findings),
            )
            for one in listed[:_MOST_TIMES]
        ]
        if left := len(listed) - len(rows):
            rows.append((f"and {left:,} more (diagnose --format json has all)", "", "", "", ""))
        made.append(Times(f"Time by {by}", ((by.capitalize(), False), *header), rows))
    return made


_MOST_TIMES = 15


def _rules(findings: Sequence[str]) -> str:
    """The rules of some findings, each once."""
    counted = Counter(one.partition(":")[0] for one in findings)
    return ", ".join(f"{rule} ({n})" if n > 1 else rule for rule, n in counted.items())


def name_pool(diagnosis: Diagnosis, rows: Sequence[Row]) -> tuple[list[str], list[int]]:
    """The names of the rows' kernels, each once, and which of them each row has."""
    places: dict[str, int] = {}
    of_row = [places.setdefault(one.kernel, len(places)) for one in diagnosis.kernels[: len(rows)]]
    return [demangled(name)[:NAMED] for name in places], of_row


def _repeated(names: Iterable[str]) -> set[str]:
    counted = Counter(names)
    return {name for name, count in counted.items() if count > 1}


def _launch_shape(grid: tuple[int, int, int] | None, block: tuple[int, int, int] | None) -> str:
    shapes = [operator_card.shape(size) for size in (grid, block) if size]
    return " | ".join(shapes)


def _use(value: Any) -> str:
    return quantity(value, "%") if isinstance(value, float | int) else ""


def roofline_command(diagnosis: Diagnosis) -> str | None:
    """The command that collects what a place on the roofline needs."""
    from traceroof.diagnosis import collect

    return collect.command(("intensity", "dram_bytes"), (), vendor=diagnosis.tool)


@dataclass(frozen=True)
class Gap:
    """One of the longest times that a GPU was idle."""

    gpu: str
    time: str
    cause: str
    after: str
    before: str
    host: str


def gaps(diagnosis: Diagnosis) -> list[Gap]:
    """The longest gaps of all GPUs, longest first."""
    listed = [
        (gap, label)
        for label, timeline in zip(gpu_labels(diagnosis), diagnosis.timelines, strict=True)
        for gap in timeline.gaps
    ]
    listed.sort(key=lambda one: -one[0].duration_ns)
    listed = listed[:_MOST_GAPS]
    names = short_names((name for gap, _ in listed for name in (gap.after, gap.before)), 48)
    return [
        Gap(
            gpu=label,
            time=quantity(gap.duration_ns, "ns"),
            cause=gap.cause.replace("_", " "),
            after=names[gap.after],
            before=names[gap.before],
            host=(gap.host or "")[:NAMED],
        )
        for gap, label in listed
    ]


def ranks(diagnosis: Diagnosis) -> list[tuple[int, Sequence[tuple[str, float | None]]]]:
    """A line a rank: its times, what it waited for others and they for it; as text, and as the
    number by which it is sorted."""
    if diagnosis.ranks is None:
        return []
    return [
        (
            one.rank,
            (
                *(
                    (quantity(time, "ns"), time)
                    for time in (one.compute_ns, one.communication_ns,
                                 one.exposed_communication_ns, one.idle_ns, one.waiting_ns,
                                 one.caused_ns)
                ),
                (percent(one.last_share), one.last_share),
            ),
        )
        for one in diagnosis.ranks.ranks
    ]  # fmt: skip


def slow_ranks(diagnosis: Diagnosis) -> list[tuple[int, str]]:
    """The stragglers, each with what is said of it."""
    found = diagnosis.ranks.stragglers if diagnosis.ranks else ()
    return [(one.rank, straggler(one)) for one in found[:_MOST_SLOW]]


def rank_words(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """What else is to be said of the ranks together."""
    return [line for line in rank_lines(diagnosis.ranks) if line[0] != "Stragglers"]


_MOST_SLOW = 50
