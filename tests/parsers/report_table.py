"""Reports against NVIDIA's own CSV of them, and against a second decoder: a row a report.

``python -m tests.parsers.report_table [FOLDER…]`` prints, for each ``.ncu-rep``: its launches, the
columns of the kernel table that were compared, and those that differ. A CSV or text page of the same
name, in the folder or in ``../ncu_csv``, is its partner.
"""

import math
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

from tests.parsers import ncu_fixtures as ncu
from tests.parsers import ncu_wire as wire
from traceroof.core.recording import Recording
from traceroof.errors import TraceroofError
from traceroof.parser import Options, silent
from traceroof.parsers.nsight.log import read_log
from traceroof.parsers.nsight.report_units import unit_of
from traceroof.parsers.nsight.source_metrics import column_of
from traceroof.parsers.nsight_compute_report import PARSER

CORPUS = Path(__file__).parents[3] / "shared/corpus/ncu_rep"
#: What identifies the file or the reader, not the launch.
_OWN = {"source", "process_name", "module_path"}
#: What two decimals hide, and what the sentences of rules round to.
_PRINTED = 0.0051


@dataclass(frozen=True)
class Compared:
    """One comparison: columns that both have, and those that differ (first values that do)."""

    report: str
    against: str
    launches: int
    columns: int
    differences: tuple[str, ...]


def against_wire(path: Path) -> Compared:
    """The kernel table of a report, against what the second decoder reads, printed as a raw page
    with all its digits and read back."""
    ours = PARSER.read(path, silent, Options())
    found = wire.results(path)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.csv"
        page.write_text(ncu.raw([_launch(one, at) for at, one in enumerate(found)], form=str))
        theirs = read_log(page, silent, Options())
    columns, differences = _kernels(ours.kernels, theirs.kernels, exact=True)
    counts, more = _instructions(ours, found)
    said = sum(len(one.sentences) for one in found)
    if ours.verdicts.num_rows != said:
        more = (*more, f"verdicts: {ours.verdicts.num_rows}, not {said}")
    return Compared(path.name, "wire", len(found), columns + counts, (*differences, *more))


def against_page(path: Path, page: Path) -> Compared:
    """The kernel table of a report, against what NVIDIA's own output of it gives."""
    ours = PARSER.read(path, silent, Options()).kernels
    theirs = read_log(page, silent, Options()).kernels
    columns, differences = _kernels(ours, theirs, exact=False)
    return Compared(path.name, page.name, theirs.num_rows, columns, differences)


def partner(path: Path) -> Path | None:
    """NVIDIA's output of a report, where it is beside it."""
    stem = path.name.removesuffix(".ncu-rep")
    folders = (path.parent, path.parent.parent / "ncu_csv")
    names = (f"{stem}.csv", f"{stem}.txt")
    places = [folder / name for folder in folders for name in names]
    return next((one for one in places if one.is_file()), None)


def _launch(one: wire.Result, number: int) -> ncu.Launch:
    metrics = [
        ncu.Metric(name, unit_of(name), value if isinstance(value, str) else Decimal(str(value)))
        for name, value in one.metrics.items()
        if value is not None and not (isinstance(value, float) and math.isnan(value))
    ]
    parts = ("compute_capability_major", "compute_capability_minor", "device_index")
    major, minor, device = (one.metrics.get(f"device__attribute_{part}") for part in parts)
    process = one.process or one.thread or 0
    cells = {
        "Context": _cell(one.context), "Stream": _cell(one.stream), "Device": _cell(device),
        "CC": f"{major}.{minor}" if major is not None else "",
    }  # fmt: skip
    grid, block = one.grid or (1, 1, 1), one.block or (1, 1, 1)
    return ncu.Launch(metrics, (), one.name, number, process, grid, block, cells=cells)


def _cell(value: wire.Value) -> str:
    return "" if value is None else str(value)


def _kernels(ours: pa.Table, theirs: pa.Table, *, exact: bool) -> tuple[int, tuple[str, ...]]:
    """How many columns hold something on both sides, and those whose values differ."""
    compared, differences = 0, []
    if ours.num_rows != theirs.num_rows:
        differences.append(f"launches: {ours.num_rows}, not {theirs.num_rows}")
    for name in theirs.column_names:
        if name in _OWN or ours[name].null_count == ours.num_rows:
            continue
        if theirs[name].null_count == theirs.num_rows:
            continue
        compared += 1
        pairs = zip(ours[name].to_pylist(), theirs[name].to_pylist(), strict=False)
        unlike = [(found, wanted) for found, wanted in pairs if not _same(found, wanted, exact)]
        if unlike:
            differences.append(f"{name}: {unlike[0][0]}, not {unlike[0][1]} ({len(unlike)})")
    return compared, tuple(differences)


def _same(found: object, wanted: object, exact: bool) -> bool:
    if wanted is None or found == wanted:
        return wanted is not None or found is None or not exact
    if not isinstance(found, int | float) or not isinstance(wanted, int | float):
        return False
    if exact:
        return math.isclose(found, wanted, rel_tol=1e-12)
    return abs(found - wanted) <= _PRINTED + 0.005 * abs(wanted)


def _instructions(ours: Recording, found: Sequence[wire.Result]) -> tuple[int, tuple[str, ...]]:
    """The source table: each count of each instruction, by ascending program counter."""
    compared, differences = 0, []
    for at, one in enumerate(found):
        rows = [row for row in ours.source_lines.to_pylist() if row["row"] == at]
        for column, counts in counted(one).items():
            compared += 1
            wanted = [counts.get(pc) for pc in program_counters(one)]
            mine = [row[column] for row in rows]
            if [one or 0 for one in mine] != [one or 0 for one in wanted]:
                differences.append(f"launch {at}: {column} of its instructions")
    return compared, tuple(differences)


def counted(one: wire.Result) -> dict[str, dict[int, int]]:
    """Column of the source table -> program counter -> count."""
    found: dict[str, dict[int, int]] = {}
    for metric, instances in one.instances.items():
        column = column_of(metric)
        if column is not None and instances:
            into = found.setdefault(column, {})
            for pc, count in instances.items():
                into[pc] = into.get(pc, 0) + count
    return found


def program_counters(one: wire.Result) -> list[int]:
    """The instructions of a launch that anything is known of, ascending."""
    return sorted({pc for counts in counted(one).values() for pc in counts})


def comparisons(folders: Iterable[Path]) -> Iterator[Compared]:
    """Every report of some folders: against its partner if it has one, and against the decoder."""
    for path in sorted(one for folder in folders for one in folder.glob("*.ncu-rep")):
        page = partner(path)
        if page is not None:
            yield against_page(path, page)
        yield against_wire(path)


def main() -> None:
    """Print the table."""
    print("| report | against | launches | columns | differences |\n|---|---|---:|---:|---|")
    for one in comparisons([Path(name) for name in sys.argv[1:]] or [CORPUS]):
        unlike = "; ".join(one.differences) or "0"
        print(f"| {one.report} | {one.against} | {one.launches} | {one.columns} | {unlike} |")


if __name__ == "__main__":
    try:
        main()
    except TraceroofError as error:
        sys.exit(error.message)
