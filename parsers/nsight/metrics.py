"""What Nsight Compute prints for a metric, and which metric that is.

The details page prints labels ("Memory Throughput") that mean different metrics in different
sections; ``nsight_compute_labels.tsv`` holds NVIDIA's own assignment. Metric names are accepted
anywhere.
"""

import csv
import re
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from traceroof.core import regex
from traceroof.parsers.nsight.formulas import book
from traceroof.parsers.nsight.numbers import unit

#: A metric name, and not a label or any other word.
METRIC_NAME = regex.compile(r"[a-z][a-z0-9_]*__[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*")
# The longest real names have about 120 letters; the pattern is slow on very long words.
_LONGEST_NAME = 300
_NAME_IN_LABEL = regex.compile(rf"\(({METRIC_NAME.pattern})\)$|^({METRIC_NAME.pattern}) \(")


def is_metric_name(text: str) -> bool:
    """Whether a word is spelt like a metric: ``dram__bytes.sum``."""
    return len(text) <= _LONGEST_NAME and METRIC_NAME.fullmatch(text) is not None


class _Labels(NamedTuple):
    by_body: dict[tuple[str, str, str], str]
    by_section: dict[tuple[str, str], str]
    by_label: dict[str, frozenset[str]]
    metrics: frozenset[str]


@cache
def _labels() -> _Labels:
    path = Path(__file__).with_name("labels.tsv")
    lines = (
        line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")
    )
    by_body: dict[tuple[str, str, str], str] = {}
    by_section: dict[tuple[str, str], str] = {}
    by_label: dict[str, set[str]] = {}
    for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
        section, body, label, metric = row["section"], row["body"], row["label"], row["metric"]
        if body:
            by_body[section, body, label] = metric
        else:
            by_section[section, label] = metric
        by_label.setdefault(label, set()).add(metric)
    formulas = [way for ways in book().columns.values() for way in ways]
    metrics = {name for found in by_label.values() for name in found}
    metrics.update(name for formula in formulas for name in formula.needs)
    return _Labels(
        by_body,
        by_section,
        {key: frozenset(found) for key, found in by_label.items()},
        frozenset(metrics - {"duration_s"}),
    )


def known_labels() -> frozenset[str]:
    """Every label that has a metric."""
    return frozenset(_labels().by_label)


def section_id(name: str) -> str:
    """The identifier of a section, from its identifier or display name; as given if unknown."""
    return book().sections.get(name, name)


def is_section(name: str) -> bool:
    """Whether a section is one of Nsight Compute's own, or the one of ``--metrics``."""
    return name in book().sections or name == "Command line profiler metrics"


def metric_name(section: str, body: str, label: str, unit_text: str) -> str | None:
    """The metric behind what is printed for it; None where that is not a metric that we know.

    section: identifier or display name. body: label of the chart or table inside the section.
    """
    # A few metrics are called like words: inst_executed.
    if is_metric_name(label) or label in _labels().metrics:
        return label
    if len(label) <= _LONGEST_NAME and (match := _NAME_IN_LABEL.search(label)):
        return match[1] or match[2]
    identifier = section_id(section)
    labels = _labels()
    found = labels.by_body.get((identifier, body, label)) or labels.by_section.get(
        (identifier, label)
    )
    if found:
        return found
    if unit(unit_text).base == "%" and (metric := _breakdown_metric(label)):
        return metric
    # A section that we do not know, or none at all: take a label only where it is unmistakable.
    candidates = labels.by_label.get(label, frozenset())
    if len(candidates) > 1:
        candidates = frozenset(name for name in candidates if fits(name, unit_text) is True)
    return next(iter(candidates)) if len(candidates) == 1 else None


# The unit that a row of a breakdown table begins with, and how metrics spell it.
_UNITS = {
    "SM": "sm", "SMSP": "smsp", "L1": "l1tex", "L1TEX": "l1tex", "L2": "lts", "LTS": "lts",
    "DRAM": "dram", "FBPA": "fbpa", "GPC": "gpc", "IDC": "idc", "TPC": "tpc", "GPU": "gpu",
    "PCIE": "pcie", "FE": "fe", "LTC": "ltc", "MCC": "mcc", "LRC": "lrc", "GCC": "gcc",
}  # fmt: skip
_BREAKDOWN = regex.compile(r"([A-Za-z0-9]{2,5}): ((?:[A-Z][A-Za-z0-9]*)(?: [A-Z0-9][A-Za-z0-9]*)*)")


def _breakdown_metric(label: str) -> str | None:
    """The metric of a row of the breakdown tables: ``SM: Pipe Fma Cycles Active``.

    Their labels are the metric's own name with blanks, on every architecture; all of them are
    averages in percent of the elapsed peak.
    """
    match = _BREAKDOWN.fullmatch(label) if len(label) <= _LONGEST_NAME else None
    if match is None or match[1].upper() not in _UNITS:
        return None
    words = match[2].lower().replace(" ", "_")
    return f"{_UNITS[match[1].upper()]}__{words}.avg.pct_of_peak_sustained_elapsed"


@lru_cache(maxsize=8192)
def _base(metric: str) -> str | None:
    """The base unit that a metric must have to be understood; None where any will do."""
    if metric.endswith(".per_second"):
        if "bytes" in metric:
            return "byte/s"
        return "Hz" if "cycles" in metric else None
    if "pct" in metric.rpartition("__")[2]:
        return "%"
    if "time_duration" in metric:
        return "ns"
    if "bytes" in metric and "average" not in metric and re.search(r"\.(sum|avg|max|min)$", metric):
        return "byte"
    if metric.startswith("launch__shared_mem_per_block_"):
        return "byte/block"
    return None


# A percentage loses nothing without its sign; and shared memory is per block by its name.
_ALSO = {"%": {"%", ""}, "byte/block": {"byte/block", "byte"}}


def fits(metric: str, unit_text: str) -> bool | None:
    """Whether a value of ``metric`` can have this unit; None where every unit is as good."""
    base = _base(metric)
    if base is None:
        return None
    return unit(unit_text).base in _ALSO.get(base, {base})


def is_counted(unit_text: str) -> bool:
    """Whether a unit is counted and printed unscaled: cycles, bytes, nanoseconds, warps."""
    base, scale = unit(unit_text)
    return scale == 1.0 and base in _COUNTED_UNITS


_COUNTED = frozenset({"inst", "byte", "sector", "request", "warp", "thread", "sample"})
_WHOLE_UNITS = frozenset({"register/thread", "byte/block", "block", "SM", "cluster"})
_COUNTED_UNITS = _COUNTED | _WHOLE_UNITS | {"ns", "cycle"}


def is_whole(metric: str, unit_text: str) -> bool:
    """Whether printed values of a metric are whole numbers whatever they are."""
    base, scale = unit(unit_text)
    if scale != 1.0:
        return False
    if base in _WHOLE_UNITS or metric in ("launch__block_size", "launch__grid_size"):
        return True
    return base in _COUNTED and metric.endswith(".sum")
