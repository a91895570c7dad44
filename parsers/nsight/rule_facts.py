"""Figures that the profiler's rules print in their sentences.

The default details page names stall reasons, the busiest pipe, uncoalesced accesses, bank conflicts
and uneven load only there: their metrics are printed nowhere else.
"""

import re
from collections.abc import Iterable, Iterator, MutableMapping
from typing import NamedTuple

import numpy as np

from traceroof.core import regex
from traceroof.core.kernel_table import PIPES
from traceroof.core.locales import DecimalSign, number
from traceroof.parsers.nsight.formulas import Floats, book

_STALLED = regex.compile(
    r"being stalled (?P<phrase>.*?)represents about (?P<pct>[\d.,]+)\s*% of the total average",
    re.DOTALL,
)
_GLOBAL = regex.compile(
    r"uncoalesced global accesses? resulting in a total of (?P<excess>[\d.,]+) excessive sectors?"
    r" \([\d.,]+% of the total (?P<total>[\d.,]+) sectors?\)"
)
_SHARED = regex.compile(
    r"uncoalesced shared accesses? resulting in a total of (?P<excess>[\d.,]+) excessive "
    r"wavefronts? \([\d.,]+% of the total (?P<total>[\d.,]+) wavefronts?\)"
)
_CONFLICTS = regex.compile(
    r"access pattern for shared (?P<what>load|store)s .*? across all (?P<requests>[\d.,]+) shared "
    r".*?results in (?P<excess>[\d.,]+) bank conflicts,?\s+which represent\s+[\d.,]+% of the overall "
    r"(?P<total>[\d.,]+) wavefronts",
    re.DOTALL,
)
# Until 2023: bytes of a thread, and sectors of its warp's request.
_REQUESTS = regex.compile(
    r"access pattern for global (?P<what>load|store)s in L1TEX .*?accesses (?P<bytes>[\d.,]+) bytes per "
    r"thread per memory request.*?results in (?P<sectors>[\d.,]+) sectors per request",
    re.DOTALL,
)
_PIPE = regex.compile(
    r"(?P<pipe>[A-Z]\w+)(?: \(\w+\))? is the highest-utilized pipeline \((?P<pct>[\d.,]+)%\)"
    r"(?P<elapsed> based on elapsed cycles)?"
)
_FUSED = regex.compile(
    r"executes (?P<fused>[\d.,]+) fused and (?P<single>[\d.,]+) non-fused FP(?P<bits>32|64) instructions"
)
_SECTOR_USE = regex.compile(
    r"access pattern for global (?P<what>load|store)s .*?only (?P<bytes>[\d.,]+) of the 32 bytes"
)
_IMBALANCE = regex.compile(
    r"One or more (?P<unit>SMs|SMSPs|L1 Slices|L2 Slices|DRAM [A-Z]\w+) have a much .*?"
    r"Maximum instance value is (?P<pct>[\d.,]+)% above the average"
)
_WAVES = regex.compile(r"resulting in only (?P<waves>[\d.,]+) full waves across all SMs")
_SMS = regex.compile(r"less than the GPU's (?P<sms>\d+) multiprocessors")
# Words of which every sentence with a figure has one: most sentences have none.
_WORDS = (
    "being stalled", "uncoalesced", "access pattern", "One or more", "full waves", "multiprocessors",
    "highest-utilized", "non-fused",
)  # fmt: skip
# Real rules have up to 2,000 letters.
_LONGEST_RULE = 8000
_WARP, _SECTOR_BYTES = 32, 32
#: The pipes that a rule calls otherwise than their column, in lower case.
_PIPE_NAMES = {"tc": "tensor", "fmaheavy": "fma", "fmalite": "fma"}
_UNITS = {"SMs": "sm", "SMSPs": "smsp", "L1 Slices": "l1tex", "L2 Slices": "lts"}


class RuleFacts:
    """Figures that the profiler's rules print in their sentences, by launch.

    columns: column -> row -> value. excess: unit -> row -> maximum over mean, minus 1.
    used: how many values of ``columns`` ended in the table.
    """

    def __init__(self, texts: Iterable[tuple[int, str]]) -> None:
        self.columns: dict[str, dict[int, float]] = {}
        self.excess: dict[str, dict[int, float]] = {}
        self.used = 0
        #: basis -> column of the busiest pipe -> row -> percent.
        self.pipes: dict[str, dict[str, dict[int, float]]] = {"active": {}, "elapsed": {}}
        self._stalls: dict[str, dict[int, float]] = {}
        self._conflicts: dict[str, dict[int, float]] = {}
        # Launches of one kernel have most of their sentences in common.
        known: dict[str, list[_Fact]] = {}
        for row, text in texts:
            if text not in known:
                known[text] = list(_facts(text[:_LONGEST_RULE]))
            for fact in known[text]:
                self._add(row, fact)
        self._add_conflicts()

    def stalls(self, count: int) -> dict[str, Floats]:
        """Stall shares by reason."""
        shares = {}
        for reason, known in self._stalls.items():
            shares[reason] = np.full(count, np.nan)
            shares[reason][list(known)] = list(known.values())
        return shares

    def _add(self, row: int, fact: "_Fact") -> None:
        if fact.of == "stalls":
            self._stalls.setdefault(fact.name, {})[row] = fact.value
        elif fact.of == "excess":
            self.excess.setdefault(fact.name, {})[row] = fact.value
        elif fact.of in self.pipes:
            self.pipes[fact.of].setdefault(fact.name, {})[row] = fact.value
        elif fact.of == "conflicts":
            # Loads and stores have a sentence each.
            known = self._conflicts.setdefault(fact.name, {})
            known[row] = known.get(row, 0.0) + fact.value
        else:
            self.columns.setdefault(fact.name, {}).setdefault(row, fact.value)

    def _add_conflicts(self) -> None:
        """Bank conflicts of loads and stores, where no sentence counts those of all accesses: that
        one also knows what wide accesses need."""
        counted = self.columns.get("shared_wavefronts", {}).keys()
        for name, known in self._conflicts.items():
            for row, value in known.items():
                if row not in counted:
                    self.columns.setdefault(name, {}).setdefault(row, value)

    def add_maxima(self, metrics: MutableMapping[str, Floats]) -> None:
        """Give ``metrics`` the maxima over units that only the sentences tell."""
        for unit, known in self.excess.items():
            mean = metrics.get(f"{unit}__cycles_active.avg")
            name = f"{unit}__cycles_active.max"
            if mean is None or name in metrics:
                continue
            above = np.full(len(mean), np.nan)
            above[list(known)] = list(known.values())
            metrics[name] = mean * (1 + above)


class _Fact(NamedTuple):
    """A figure of a sentence: of "stalls", "excess", "conflicts", "active" or "elapsed" (pipes, by
    basis) or "columns", and which of them."""

    of: str
    name: str
    value: float


def _facts(text: str) -> Iterator[_Fact]:
    """What a sentence says."""
    if not any(map(text.__contains__, _WORDS)):
        return
    if (match := _STALLED.search(text)) and (percent := _figure(match["pct"])) is not None:
        reasons = book().stall_phrases.items()
        found = next((one for phrase, one in reasons if phrase in match["phrase"]), None)
        if found is not None:
            yield _Fact("stalls", found, percent / 100)
    for pattern, total_column, part_column in (
        (_GLOBAL, "global_sectors", "global_sectors_ideal"),
        (_SHARED, "shared_wavefronts", "shared_conflicts"),
    ):
        if match := pattern.search(text):
            total, excess = _figure(match["total"]), _figure(match["excess"])
            if total is not None and excess is not None:
                yield _Fact("columns", total_column, total)
                part = excess if pattern is _SHARED else total - excess
                yield _Fact("columns", part_column, part)
    if match := _CONFLICTS.search(text):
        for group, column in (
            ("requests", "shared_requests"),
            ("excess", "shared_conflicts"),
            ("total", "shared_wavefronts"),
        ):
            if (counted := _figure(match[group])) is not None:
                yield _Fact("conflicts", column, counted)
    if match := _REQUESTS.search(text):
        each, sectors = _figure(match["bytes"]), _figure(match["sectors"])
        if each is not None and sectors:
            what = match["what"]
            yield _Fact("columns", f"{what}_sectors_per_request", sectors)
            useful = min(each * _WARP / sectors, float(_SECTOR_BYTES))
            yield _Fact("columns", f"{what}_bytes_per_sector", useful)
    if (match := _PIPE.search(text)) and (percent := _figure(match["pct"])) is not None:
        name = match["pipe"].lower()
        name = _PIPE_NAMES.get(name, name)
        if name in PIPES:
            yield _Fact("elapsed" if match["elapsed"] else "active", f"pipe_{name}_pct", percent)
    if match := _FUSED.search(text):
        fused, single = _figure(match["fused"]), _figure(match["single"])
        if fused is not None and single:
            share = 100 * single / (single + fused)
            yield _Fact("columns", f"fp{match['bits']}_nonfused_pct", share)
    if (match := _SECTOR_USE.search(text)) and (used := _figure(match["bytes"])) is not None:
        yield _Fact("columns", f"{match['what']}_bytes_per_sector", used)
    if (match := _WAVES.search(text)) and (waves := _figure(match["waves"])) is not None:
        yield _Fact("columns", "waves_per_sm", waves)
    if match := _SMS.search(text):
        yield _Fact("columns", "sm_count", float(match["sms"]))
    if (match := _IMBALANCE.search(text)) and (above := _figure(match["pct"])) is not None:
        yield _Fact("excess", _UNITS.get(match["unit"], "dram"), above / 100)


def _figure(text: str) -> float | None:
    """A number in a sentence; the final point or comma belongs to the sentence."""
    value = number(text.rstrip(".,"), DecimalSign.POINT)
    return None if np.isnan(value) else value
