"""Kernel-table columns from Nsight Compute metrics, by the formulas in a data file.

``nsight_compute_columns.toml`` gives each column its formulas in order of preference; this
module reads and applies them. What no formula can say (stall shares, tensor work, peaks from
several rows) is in ``_nsight_derive``.
"""

import ast
import operator
from collections import ChainMap
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from traceroof.core.toml_tables import toml_table

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

#: Metric name -> its value per launch in base units (ns, Hz, byte, byte/s, %), NaN for unknown.
Metrics = Mapping[str, Floats]

_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


@dataclass(frozen=True)
class Formula:
    """One way to compute a column.

    needs: metrics that must all be known. names: these and those that it can do without. direct: the
    metric whose value the column takes over as it is, or scaled by a constant; None where several are
    combined.
    """

    tree: ast.expr
    needs: frozenset[str]
    names: frozenset[str]
    direct: str | None

    def __call__(self, metrics: Metrics, count: int) -> Floats | None:
        """The value per launch; None when a needed metric is in no launch at all."""
        if not all(name in metrics for name in self.needs):
            return None
        with np.errstate(all="ignore"):
            value = np.asarray(_evaluate(self.tree, metrics), dtype=np.float64)
        return np.where(np.isfinite(value), value, np.nan) if value.shape == (count,) else None


def parse_formula(text: str) -> Formula:
    """Read one formula. Raises SyntaxError or ValueError for what is not in the language."""
    tree = ast.parse(text, mode="eval").body
    names, optional = _names(tree)
    plain = {name for name in names if name != "duration_s"}
    scaled = len(names) == 1 and not optional and not _has_sum(tree)
    direct = next(iter(plain), None) if scaled else None
    return Formula(tree, frozenset(names), frozenset(names | optional), direct)


def _names(node: ast.expr) -> tuple[set[str], set[str]]:
    """The metrics in a formula: needed ones, and those that max(...) can do without."""
    if isinstance(node, ast.Constant):
        return set(), set()
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _names(node.left), _names(node.right)
        return left[0] | right[0], left[1] | right[1]
    if isinstance(node, ast.Call):
        inner = [_names(argument) for argument in node.args]
        names = {name for needed, optional in inner for name in needed | optional}
        return (set(), names) if _function(node) == "max" else (names, set())
    return {_dotted(node)}, set()


def _has_sum(tree: ast.expr) -> bool:
    return any(isinstance(node, ast.Add | ast.Sub) for node in ast.walk(tree))


def _function(node: ast.Call) -> str:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name not in ("max", "positive"):
        raise ValueError(f"no function {ast.unparse(node.func)} in column formulas")
    return name


def _dotted(node: ast.expr) -> str:
    """The metric name that Python reads as attributes: ``dram__bytes.sum.per_second``."""
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    if isinstance(node, ast.Name):
        return node.id
    raise ValueError(f"{ast.unparse(node)} is not a metric")


def _evaluate(node: ast.expr, metrics: Metrics) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.BinOp):
        left, right = _evaluate(node.left, metrics), _evaluate(node.right, metrics)
        return _OPERATORS[type(node.op)](left, right)
    if isinstance(node, ast.Call):
        if _function(node) == "positive":
            value = _evaluate(node.args[0], metrics)
            return np.where(value > 0, value, np.nan)
        known = [metrics[name] for argument in node.args if (name := _dotted(argument)) in metrics]
        return np.fmax.reduce(known) if known else np.nan
    return metrics[_dotted(node)]


@dataclass(frozen=True)
class Book:
    """The data file: formulas per column, and the spellings of sections and stall reasons."""

    columns: Mapping[str, Sequence[Formula]]
    rates: Mapping[str, Sequence[Formula]]
    pipes: Mapping[str, Mapping[str, Sequence[Formula]]]
    stall_names: Mapping[str, str]
    stall_phrases: Mapping[str, str]
    sections: Mapping[str, str]


@cache
def book() -> Book:
    """The data file, read once."""
    data = toml_table("traceroof.parsers.nsight", "columns.toml")
    return Book(
        columns=_formulas(data["columns"]),
        rates=_formulas(data["rates"]),
        pipes={basis: _formulas(data["pipes"], basis=basis) for basis in ("active", "elapsed")},
        stall_names=data["stall_names"],
        stall_phrases=data["stall_phrases"],
        sections={name: key for key, names in data["sections"].items() for name in names},
    )


def _formulas(entries: Mapping[str, Sequence[str]], basis: str = "") -> dict[str, list[Formula]]:
    return {
        column: [parse_formula(text.replace("{basis}", basis)) for text in texts]
        for column, texts in entries.items()
    }


@dataclass
class Columns:
    """What the metrics give: columns by name, and which metrics ended in one unchanged.

    direct: metric -> launches in which a column holds this metric's own value.
    """

    count: int
    values: dict[str, Any] = field(default_factory=dict)
    direct: dict[str, Flags] = field(default_factory=dict)

    def fill(self, column: str, formulas: Sequence[Formula], metrics: Metrics) -> None:
        """Give ``column`` its values from the first formula that knows each launch."""
        value = np.full(self.count, np.nan)
        for formula in formulas:
            missing = np.isnan(value)
            if not missing.any():
                break
            found = formula(metrics, self.count)
            if found is None:
                continue
            used = missing & ~np.isnan(found)
            value[used] = found[used]
            if formula.direct:
                self._took(formula.direct, used)
        if not np.isnan(value).all():
            self.values[column] = value

    def forget(self, column: str, launches: Flags) -> None:
        """Make ``column`` unknown in these launches; the metric then stays a raw one."""
        value = self.values.get(column)
        if value is None or not launches.any():
            return
        value[launches] = np.nan
        for formula in book().columns[column]:
            if formula.direct in self.direct:
                self.direct[formula.direct] = self.direct[formula.direct] & ~launches

    def _took(self, metric: str, launches: Flags) -> None:
        before = self.direct.get(metric)
        self.direct[metric] = launches if before is None else before | launches


def apply_formulas(metrics: Metrics, count: int) -> Columns:
    """All columns that formulas give, for ``count`` launches."""
    columns = Columns(count)
    formulas = book().columns
    columns.fill("duration_ns", formulas["duration_ns"], metrics)
    seconds: dict[str, Floats] = {}
    known: Metrics = ChainMap(seconds, cast("MutableMapping[str, Floats]", metrics))
    if "duration_ns" in columns.values:
        duration = columns.values["duration_ns"]
        # No rate over a time that cannot be one.
        possible = (duration > 0) & (duration < 2**63)
        seconds["duration_s"] = np.where(possible, duration * 1e-9, np.nan)
    for column, ways in formulas.items():
        if column != "duration_ns":
            columns.fill(column, ways, known)
    _apply_pipes(columns, known)
    _apply_rates(columns, known)
    return columns


def _apply_rates(columns: Columns, metrics: Metrics) -> None:
    """Rates of the launches whose duration is unknown; of the others, work and time tell them."""
    duration = columns.values.get("duration_ns")
    timed = np.zeros(columns.count, dtype=bool) if duration is None else duration > 0
    if timed.all():
        return
    needed = {name for ways in book().rates.values() for way in ways for name in way.names}
    untimed = {name: np.where(timed, np.nan, metrics[name]) for name in needed if name in metrics}
    for column, ways in book().rates.items():
        columns.fill(column, ways, untimed)


def _apply_pipes(columns: Columns, metrics: Metrics) -> None:
    """Pipe columns, all of one basis per launch: the one for which more of them are known."""
    sides = {}
    for basis, formulas in book().pipes.items():
        side = Columns(columns.count)
        for column, ways in formulas.items():
            side.fill(column, ways, metrics)
        sides[basis] = side
    active, elapsed = (_known_count(sides[basis]) for basis in ("active", "elapsed"))
    take_elapsed = elapsed > active
    if not (active.any() or elapsed.any()):
        return
    for basis, chosen in (("active", ~take_elapsed), ("elapsed", take_elapsed)):
        for column, value in sides[basis].values.items():
            into = columns.values.setdefault(column, np.full(columns.count, np.nan))
            into[chosen] = value[chosen]
        for metric, launches in sides[basis].direct.items():
            columns._took(metric, launches & chosen)
    names = np.full(columns.count, None, dtype=object)
    names[active > 0] = "active"
    names[take_elapsed] = "elapsed"
    columns.values["pipe_basis"] = names


def _known_count(side: Columns) -> npt.NDArray[np.int64]:
    total = np.zeros(side.count, dtype=np.int64)
    for value in side.values.values():
        total += ~np.isnan(value)
    return total
