"""The text that ``rocprof-compute analyze`` prints: analyses, each with titled tables.

People paste it into issues and notes, several analyses one after another, with other text between.
"""

from dataclasses import dataclass, field

from traceroof.core import regex

_COMMAND = regex.compile(r"(?:rocprof-compute|omniperf)\s+analyze\b(?P<rest>.*)")
_WORKLOAD = regex.compile(r"(?:-p|--path)[ =](\S+)")
_PANEL = regex.compile(r"(?:^|[╛\s])(?P<number>\d{1,2})\. (?P<title>[A-Z][^│╛]*?)\s*$")
_TABLE = regex.compile(r"(?:^|[╛\s])(?P<number>\d{1,2}\.\d{1,2}) (?P<title>[A-Z][^│╛]*?)\s*$")
_BEGIN = regex.compile(r"Analysis mode\b|(?:^|\s)0\. Top Stats?\s*$")


@dataclass
class Table:
    """One table: the panel and title above it, its header cells and rows of cells."""

    panel: str
    title: str
    header: tuple[str, ...] = ()
    rows: list[list[str]] = field(default_factory=list)


@dataclass
class Analysis:
    """One call of ``analyze``: the workloads that its command names, and its tables."""

    workloads: tuple[str, ...] = ()
    tables: list[Table] = field(default_factory=list)

    def table(self, title: str) -> Table | None:
        return next((one for one in self.tables if one.title == title), None)


def analyses(text: str) -> list[Analysis]:
    """Every analysis in the text that has a table."""
    found: list[Analysis] = [Analysis()]
    panel = ""
    for line in text.splitlines():
        command = _COMMAND.search(line)
        begins = _BEGIN.search(line) is not None and bool(found[-1].tables)
        if command is not None or begins:
            workloads = _WORKLOAD.findall(command["rest"]) if command is not None else ()
            found.append(Analysis(tuple(workloads)))
        if (titled := _TABLE.search(line)) is not None:
            found[-1].tables.append(Table(panel, titled["title"]))
        elif (titled := _PANEL.search(line)) is not None:
            panel = titled["title"]
        elif "│" in line and found[-1].tables:
            _add_row(found[-1].tables[-1], line)
    return [one for one in found if any(table.rows for table in one.tables)]


def _add_row(table: Table, line: str) -> None:
    cells = [cell.strip() for cell in line[line.index("│") + 1 : line.rindex("│")].split("│")]
    if not table.header:
        table.header = tuple(cells)
    elif len(cells) == len(table.header):
        if table.rows and not cells[0] and any(cells):
            # A long name goes on in the next line.
            table.rows[-1] = [
                f"{before} {more}".strip() if more else before
                for before, more in zip(table.rows[-1], cells, strict=True)
            ]
        elif any(cells):
            table.rows.append(cells)
