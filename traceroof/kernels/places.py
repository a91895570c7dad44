"""Where in the program launches come from: module, operator, range.

A profiler writes a module as its class and a number, ``Qwen2DecoderLayer_0`` (PyTorch), or by its
attributes, ``model.layers.0.mlp`` (NVTX ranges). Modules of one class in one place are one line of
code, so their numbers are put together: ``Qwen2DecoderLayer[0-23].Qwen2RMSNorm``. What stands around
a launch and is no module is a range. Every distinct path is read once, not once a row.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from traceroof.core import regex
from traceroof.core.dictionary import coded, together
from traceroof.kernels.variants import Variants

By = Literal["module", "operator", "range"]

# A module of PyTorch by class and number ("?": one of several, not known which), and what annotations call so that is none.
_INSTANCE = regex.compile(r"^(_*[A-Z]\w*?)_(\d{1,9}|\?)$")
_NO_MODULE = frozenset({"batch", "epoch", "frame", "iter", "iteration", "phase", "stage", "step"})
# A module by its attributes, with the place in a list as a number.
_ATTRIBUTES = regex.compile(r"^[A-Za-z_]\w*(\.\w+)*\.\d{1,9}(\.\w+)*$")
_NUMBER = regex.compile(r"\d{1,9}")
_PLACE = "\0"  # of a number in a range
# A module known for less of the time than this does not speak for the launches.
_SPEAKS = 0.1
_RUNS = 3  # runs of numbers that are written out

Reals = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
# Names from the outside in, and the numbers of each: a path of modules, or of ranges.
Chain = tuple[str, ...]
Numbers = tuple[tuple[int, ...], ...]
# Launches and time by spot.
Weights = Mapping[int, tuple[float, float]]
# Some launches: their variants, how many of each, their time.
Members = tuple[Ints, Reals, Reals]


@dataclass(frozen=True)
class Place:
    """Where launches come from; None where the recording does not tell.

    Each is what most of the time of those launches comes from. launches: those in the module (in
    the range, of the operator where no module is known), of of_launches in all.
    """

    module: str | None = None
    operator: str | None = None
    range: str | None = None
    source: str | None = None
    launches: int | None = None
    of_launches: int | None = None

    @property
    def words(self) -> str:
        """'Qwen2DecoderLayer[0-23].Qwen2RMSNorm (71 ×)': the module, else the innermost range, else
        the operator, with how many launches it has; empty where none is known."""
        name = self.module or (self.range or "").rsplit(" > ", 1)[-1] or self.operator or ""
        if not name or self.launches is None or self.of_launches is None:
            return name
        part = "" if self.launches == self.of_launches else f" of {self.of_launches:,}"
        return f"{name} ({self.launches:,}{part} ×)"


NOWHERE = Place()


@dataclass(frozen=True)
class PlaceTime:
    """Time of the launches of one module, operator or range (None: not recorded); share: of all GPU
    time, 0-1. findings: those whose launches have most of their time there, as rule:index."""

    name: str | None
    launches: int
    time_ns: int
    share: float | None
    findings: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Spot:
    """One distinct pair of path and operator."""

    module: Chain
    module_numbers: Numbers
    range: Chain
    range_numbers: Numbers
    operator: str | None
    source: str | None = None

    def chain(self, by: By) -> Chain:
        if by == "operator":
            return (self.operator,) if self.operator else ()
        return self.module if by == "module" else self.range

    def numbers(self, by: By) -> Numbers:
        if by == "operator":
            return ((),) if self.operator else ()
        return self.module_numbers if by == "module" else self.range_numbers


@dataclass(frozen=True)
class Places:
    """Where launches come from.

    spot: number of each variant's spot. launches, time: of each variant. group: its kernel group,
    -1 for none.
    """

    spots: Sequence[_Spot]
    spot: Ints
    launches: Reals
    time: Reals
    group: Ints

    def rows_of(self, group: int) -> Ints:
        """The variants of a kernel group."""
        bounds, order = self._by_group
        return order[bounds[group] : bounds[group + 1]] if group + 1 < len(bounds) else order[:0]

    def place(self, weights: Weights) -> Place:
        """Where launches come from, by their weights."""
        if not weights or self._nothing_known:
            return NOWHERE
        of = round(sum(launches for launches, _ in weights.values()))
        named = {by: self._most(weights, by) for by in BY}
        launches = next((n for name, n in named.values() if name), None)
        return Place(
            module=named["module"][0],
            operator=named["operator"][0],
            range=named["range"][0],
            source=self._line(weights),
            launches=launches,
            of_launches=None if launches is None else of,
        )

    def _line(self, weights: Weights) -> str | None:
        """The line of the program that launched more than half of what lines are known of."""
        time: dict[str, float] = {}
        for at, (_, weight) in weights.items():
            if line := self.spots[at].source:
                time[line] = time.get(line, 0.0) + weight
        known = sum(time.values())
        if not time or known < _SPEAKS * sum(weight for _, weight in weights.values()):
            return None
        best = max(time, key=lambda line: time[line])
        return best if 2 * time[best] > known else None

    def weights(self, rows: npt.NDArray[np.integer] | npt.NDArray[np.bool_]) -> Weights:
        """Launches and time of some variants, by spot; time is launches where none is known."""
        return self.weighed(rows, self.launches[rows], self.time[rows])

    def weighed(
        self, rows: npt.NDArray[np.integer] | npt.NDArray[np.bool_], launches: Reals, time: Reals
    ) -> Weights:
        """The same of a part of the launches of some variants."""
        spot = self.spot[rows]
        if len(spot) == 1:
            count_of_one = float(launches[0])
            return {int(spot[0]): (count_of_one, float(time[0]) or count_of_one)}
        found, at = np.unique(spot, return_inverse=True)
        count = np.bincount(at, launches, len(found)).tolist()
        summed = np.bincount(at, time, len(found)).tolist() if time.any() else count
        return dict(zip(found.tolist(), zip(count, summed, strict=True), strict=True))

    def table(self, by: By, found: Mapping[str, Weights] | None = None) -> tuple[PlaceTime, ...]:
        """Time by module, operator or range, most first.

        found: of each finding, by its name, the weights of the launches that it speaks of.
        """
        chains = [one.chain(by) for one in self.spots]
        if not any(chains):
            return ()
        keys = list(dict.fromkeys(chains))
        number = {key: at for at, key in enumerate(keys)}
        of_spot = np.array([number[one] for one in chains], dtype=np.int64)
        key = of_spot[self.spot]
        launches = np.bincount(key, self.launches, len(keys))
        time = np.bincount(key, self.time, len(keys))
        total = float(time.sum())
        findings: dict[int, list[str]] = {}
        for name, weights in (found or {}).items():
            here: dict[int, float] = {}
            for at, (_, weight) in weights.items():
                if chains[at]:
                    here[int(of_spot[at])] = here.get(int(of_spot[at]), 0.0) + weight
            if here:
                findings.setdefault(max(here, key=lambda at: here[at]), []).append(name)
        members: dict[Chain, list[Numbers]] = {}
        for one, chain in zip(self.spots, chains, strict=True):
            members.setdefault(chain, []).append(one.numbers(by))
        return tuple(
            PlaceTime(
                name=self._name(keys[at], members[keys[at]], by) if keys[at] else None,
                launches=round(launches[at]),
                time_ns=round(time[at]),
                share=float(time[at]) / total if total else None,
                findings=tuple(findings.get(at, ())),
            )
            for at in np.lexsort((np.arange(len(keys)), -launches, -time)).tolist()
            if launches[at]
        )

    @cached_property
    def _nothing_known(self) -> bool:
        return not any(one.module or one.range or one.operator or one.source for one in self.spots)

    @cached_property
    def _by_group(self) -> tuple[list[int], Ints]:
        """Where each group begins in the rows sorted by group, and those rows."""
        rows = np.flatnonzero(self.group >= 0)
        order = rows[np.argsort(self.group[rows], kind="stable")]
        sizes = np.bincount(self.group[rows])
        return [0, *np.cumsum(sizes).tolist()], order

    def _most(self, weights: Weights, by: By) -> tuple[str | None, int | None]:
        """The innermost module (range, operator) that holds more than half of what is known, and
        how many launches it holds."""
        chains = {at: self.spots[at].chain(by) for at in weights}
        kept = [at for at, chain in chains.items() if chain]
        known = sum(weights[at][1] for at in kept)
        if known < _SPEAKS * sum(time for _, time in weights.values()) or not kept:
            return None, None
        depth = 0
        while True:
            inside: dict[str, list[int]] = {}
            for at in kept:
                if len(chains[at]) > depth:
                    inside.setdefault(chains[at][depth], []).append(at)
            best = max(inside.values(), key=lambda ats: _time(ats, weights), default=[])
            if not best or 2 * _time(best, weights) <= known:
                break
            kept, depth = best, depth + 1
        if not depth:
            return None, None
        numbers = [self.spots[at].numbers(by)[:depth] for at in kept]
        launches = round(sum(weights[at][0] for at in kept))
        return self._name(chains[kept[0]][:depth], numbers, by), launches

    def _name(self, chain: Chain, members: Sequence[Numbers], by: By) -> str:
        """A chain by name, the numbers of its members put together."""
        if by == "operator":
            return chain[0]
        levels = [[one[depth] for one in members] for depth in range(len(chain))]
        if by == "module":
            numbers = [sorted({n for one in level for n in one}) for level in levels]
            return _module(chain, numbers, self._single)
        return " > ".join(
            _range(name, [sorted(set(column)) for column in zip(*level, strict=True)])
            for name, level in zip(chain, levels, strict=True)
        )

    @cached_property
    def _single(self) -> frozenset[str]:
        """The modules of which the recording has one instance."""
        numbers: dict[str, set[tuple[int, ...]]] = {}
        for one in self.spots:
            for name, found in zip(one.module, one.module_numbers, strict=True):
                numbers.setdefault(name, set()).add(found)
        return frozenset(name for name, found in numbers.items() if found <= {(0,), ()})


#: What the time of a run is added up by, beside the category.
BY: tuple[By, ...] = ("module", "range", "operator")


def _time(spots: Iterable[int], weights: Weights) -> float:
    return sum(weights[at][1] for at in spots)


def places_of(variants: Variants, group: Ints) -> Places:
    """Where launches come from. group: kernel group of each variant, -1 for none."""
    kernels = variants.kernels
    paths, operators, lines = (
        coded(kernels[name]) for name in ("module_path", "operator", "source_line")
    )
    spot, first = together((paths.codes, operators.codes, lines.codes))
    read = {path: _read(path) for path in paths.texts}
    spots = [
        _Spot(*(read[path] if path else _NO_PATH), operator, line and _HOME.sub("~/", line))
        for path, operator, line in zip(
            paths.at(first), operators.at(first), lines.at(first), strict=True
        )
    ]
    return Places(spots, spot, variants.launches, variants.time, group)


# Reports are shared: a line of the program is shown without the name of who ran it.
_HOME = regex.compile(r"^(?:/(?:home|Users)/[^/]+|/root)/")
_Read = tuple[Chain, Numbers, Chain, Numbers]
_NO_PATH: _Read = ((), (), (), ())


def _read(path: str) -> _Read:
    """Modules and ranges of a path, from the outside in, each with its numbers."""
    modules: list[tuple[str, tuple[int, ...]]] = []
    ranges: list[tuple[str, tuple[int, ...]]] = []
    for part in path.split(" > "):
        instance = _INSTANCE.match(part)
        if instance and instance[1].lower() not in _NO_MODULE:
            number = () if instance[2] == "?" else (int(instance[2]),)
            modules.append((instance[1], number))
        elif _ATTRIBUTES.match(part):
            # Such a name is the whole path.
            modules = _attributes(part)
        else:
            numbers = tuple(int(one) for one in _NUMBER.findall(part))
            ranges.append((_NUMBER.sub(_PLACE, part), numbers))
    return (
        tuple(name for name, _ in modules),
        tuple(numbers for _, numbers in modules),
        tuple(name for name, _ in ranges),
        tuple(numbers for _, numbers in ranges),
    )


def _attributes(path: str) -> list[tuple[str, tuple[int, ...]]]:
    found: list[tuple[str, tuple[int, ...]]] = []
    for part in path.split("."):
        if part.isdecimal() and len(part) < 10 and found and not found[-1][1]:
            found[-1] = (found[-1][0], (int(part),))
        else:
            found.append((part, ()))
    return found


def _range(name: str, numbers: Sequence[Sequence[int]]) -> str:
    """A range with its numbers back: those that differ in brackets."""
    left = iter(numbers)
    parts = name.split(_PLACE)
    if len(parts) != len(numbers) + 1:
        return name  # the name has such a sign of its own
    text = parts[0]
    for part in parts[1:]:
        found = next(left)
        text += (str(found[0]) if len(found) == 1 else f"[{_runs(found)}]") + part
    return text


def _module(chain: Chain, numbers: Sequence[Sequence[int]], single: frozenset[str]) -> str:
    """Classes from the outside in. Single instances around all others say nothing and are left out;
    the last is numbered only where nothing around it is, and equal numbers are said once."""
    parts: list[str] = []
    before: Sequence[int] = ()
    last = len(chain) - 1
    for depth, (name, found) in enumerate(zip(chain, numbers, strict=True)):
        if name in single and found:
            if parts or depth == last:
                parts.append(name)
            continue
        told = (len(found) > 1 and found == before) or (depth == last and bool(before))
        if found and not told:
            parts.append(f"{name}[{_runs(found)}]")
            before = found
        else:
            parts.append(name)
    return ".".join(parts)


def _runs(numbers: Sequence[int]) -> str:
    """``0-23``, ``0,2,5-7``; first and last of many runs."""
    runs: list[list[int]] = []
    for one in numbers:
        if runs and one == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], one]
        else:
            runs.append([one])
    if len(runs) > _RUNS:
        return f"{numbers[0]}…{numbers[-1]}"
    return ",".join("-".join(map(str, run)) for run in runs)
