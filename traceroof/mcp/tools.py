"""What the six tools answer: one library call each, as figures with units.

Names end in the unit (``_ns``, ``_pct``); a ``share`` is 0-1 of what ``share_of`` names, of the kernel
time where it names nothing; null is unknown.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import singledispatchmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import traceroof
from traceroof.errors import TraceroofError
from traceroof.mcp import calls
from traceroof.mcp.answers import Answer
from traceroof.mcp.changed import compared
from traceroof.mcp.roots import Roots
from traceroof.parser import Progress, silent

if TYPE_CHECKING:
    from traceroof.core.recording import Run
    from traceroof.diagnosis.advice import Entry
    from traceroof.diagnosis.diagnosis import Diagnosis, KernelGroup
    from traceroof.store import Store

# So many diagnoses are kept, so that a card after a diagnosis costs nothing.
_KEPT = 4
_FILES = 8


@dataclass(frozen=True)
class Setup:
    """What the user started the server with. folders: below which files may be read."""

    folders: tuple[str, ...]
    store: str | None = None
    config: str | None = None
    no_config: bool = False
    calibrated: bool = True

    @property
    def settings(self) -> Any:
        """As the library takes it."""
        return False if self.no_config else self.config


@dataclass
class Tools:
    """The six tools. progress: hears how far a file is read; stage: what is done beside reading."""

    setup: Setup
    progress: Progress = silent
    stage: Callable[[str], None] = lambda what: None
    _diagnoses: dict[str, "Diagnosis"] = field(default_factory=dict)
    _read: dict[object, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.roots = Roots.of([Path(one) for one in self.setup.folders])

    @singledispatchmethod
    def answer(self, call: Any) -> Answer:
        """The answer to a call. Raises TraceroofError where there is none."""
        raise TypeError(type(call).__name__)

    @answer.register
    def _(self, call: calls.Diagnose) -> Answer:
        if call.paths is not None and call.run is not None:
            raise TraceroofError(
                "diagnose takes paths or a run, not both",
                "give paths for new files, run for a stored run",
            )
        run = (
            self._ingested(_listed(call.paths), call.combine) if call.paths else self._run(call.run)
        )
        return diagnosed(self._narrowed(run, call.kernel), call.top, self.roots)

    @answer.register
    def _(self, call: calls.Explain) -> Answer:
        from traceroof.diagnosis.explain import entry, explain

        if (call.entry is None) == (call.rule is None):
            raise TraceroofError("explain takes an entry or a rule", "give one of the two")
        if call.entry is not None and call.subject is not None:
            raise TraceroofError("subject belongs to a rule, not to an entry", "leave it out")
        diagnosis = self._diagnosis(self._run(call.run))
        wanted = entry(diagnosis, call.entry) if call.entry is not None else str(call.rule)
        if call.subject is not None:
            wanted = f"{wanted}:{call.subject}"
        found = explain(diagnosis, wanted, most=1)
        return _explained(diagnosis, asdict(found.answers[0]), found.left_out)

    @answer.register
    def _(self, call: calls.Card) -> Answer:
        from traceroof.diagnosis.card import card_of

        made = card_of(self._diagnosis(self._run(call.run)), str(call.kernel)).to_dict()
        lists = ("findings", "vendor", "figures")
        # What a column means is in the documentation of the table; here it would fill pages.
        figures = [
            {k: v for k, v in one.items() if v and k != "meaning"} for one in made["figures"]
        ]
        judged = [one for one in made["findings"] if one["state"] != "not-evaluable"]
        made["not_judged"] = [
            one["rule"] for one in made["findings"] if one["state"] == "not-evaluable"
        ]
        parts = [("findings", one) for one in judged]
        parts += [("figures", one) for one in figures]
        parts += [("vendor", one) for one in made["vendor"]]
        return Answer({k: v for k, v in made.items() if k not in lists}, parts, lists)

    @answer.register
    def _(self, call: calls.Compare) -> Answer:
        base, head = self._run(call.base), self._run(call.head)
        self.stage("comparing")
        setup = self.setup
        made = traceroof.compare(
            base,
            head,
            store=setup.store,
            kernel=None if call.kernel is None else str(call.kernel),
            calibrated=setup.calibrated,
            config=setup.settings,
        )
        return compared(made)

    @answer.register
    def _(self, call: calls.NextCapture) -> Answer:
        diagnosis = self._narrowed(self._run(call.run), call.kernel)
        capture = diagnosis.next_capture
        files = [self.roots.shown(one.path) for one in diagnosis.sources[:_FILES]]
        if capture is None:
            return Answer({"run": _named(diagnosis), "command": None, "open_ns": 0})
        made = capture.to_dict()
        rules, missing = made.pop("rules"), made.pop("missing")
        then = [*files, "THE_NEW_FILE"] if capture.adds else ["THE_NEW_FILE"]
        made["kernels"] = [_kernel(one) for one in diagnosis.numbered(capture.kernels)]
        head = {"run": _named(diagnosis), **made, "then": {"tool": "diagnose", "paths": then}}
        parts = [*(("rules", one) for one in rules), *(("missing", one) for one in missing)]
        return Answer(head, parts, ("rules", "missing"))

    @answer.register
    def _(self, call: calls.List) -> Answer:
        if call.what != "kernels" and call.run is not None:
            raise TraceroofError(f"the {call.what} need a run", "leave run out")
        head, lists = {"of": call.what}, (call.what,)
        if call.what == "kernels":
            kernels = self._diagnosis(self._run(call.run)).kernels
            return Answer(head, _Made(kernels, lambda one: ("kernels", _kernel(one))), lists)
        rows = _LISTED[call.what](self, call)
        return Answer(head, [(call.what, one) for one in rows], lists)

    def runs(self, call: calls.List) -> Iterable[dict[str, Any]]:
        """The stored runs, newest first, with the baselines that stand for them."""
        store = self._store()
        stands = {run.id: name for name, run in store.baselines().items()} if store else {}
        for one in store.runs() if store else ():
            yield {
                "id": one.id,
                "name": one.name,
                "baseline": stands.get(one.id),
                "created": one.created,
                "format": one.format,
                "launches": one.launches,
                "kernel_time_ns": one.kernel_time_ns,
                "files": [self.roots.shown(s.path) for s in one.sources[:_FILES]],
            }

    # --- runs ---------------------------------------------------------------------------------

    def _store(self) -> "Store | None":
        """The store, None where there is none yet."""
        from traceroof.store import Store

        folder = self._folder()
        try:
            return Store.open(folder, create=False)
        except TraceroofError as error:
            if error.message.startswith("there is no store"):
                return None
            raise

    def _folder(self) -> Path | None:
        return Path(self.setup.store) if self.setup.store else None

    def _run(self, named: str | None) -> "Run":
        """A stored run, or the profiler file at a path."""
        store = self._store()
        if named is None:
            if store is None:
                raise TraceroofError("no run is stored yet", "diagnose paths first")
            return store.get(None)
        refusal: TraceroofError | None = None
        if store is not None:
            try:
                return store.get(named)
            except TraceroofError as error:
                refusal = error
        path_like = "/" in named or "\\" in named or bool(Path(named).suffix)
        if path_like or (self.roots.folders[0] / named[:255]).exists():
            return self._ingested([named])
        raise refusal or TraceroofError("no run is stored yet", "diagnose paths first")

    def _ingested(self, paths: Sequence[str], combine: str = "auto") -> "Run":
        """The files as a stored run; those that did not change since are not read again."""
        from traceroof.store import Store

        files = list(dict.fromkeys(self.roots.checked(one) for one in paths))
        state = (combine, *((str(one), _state(one)) for one in files))
        if (known := self._read.get(state)) and (store := self._store()):
            try:
                return store.get(known)
            except TraceroofError:
                pass  # removed meanwhile
        Store.open(self._folder())  # says before the reading that it cannot be written
        run = traceroof.ingest(
            files,
            store=self.setup.store,
            config=self.setup.settings,
            progress=self.progress,
            combine=combine,
            jobs=None,
        )
        self._read[state] = run.id
        self._diagnoses.pop(run.id, None)
        return run

    def _diagnosis(self, run: "Run") -> "Diagnosis":
        found = self._diagnoses.pop(run.id, None)
        if found is None:
            self.stage("diagnosing")
            setup = self.setup
            found = traceroof.diagnose(
                run, store=setup.store, calibrated=setup.calibrated, config=setup.settings
            )
        self._diagnoses[run.id] = found
        while len(self._diagnoses) > _KEPT:
            del self._diagnoses[next(iter(self._diagnoses))]
        return found

    def _narrowed(self, run: "Run", kernel: str | int | None) -> "Diagnosis":
        from traceroof.diagnosis.narrow import narrowed

        diagnosis = self._diagnosis(run)
        return diagnosis if kernel is None else narrowed(diagnosis, str(kernel))


class _Made(Sequence[Any]):
    """Parts that are made as a page comes to them: a run may have a hundred thousand kernels."""

    def __init__(self, of: Sequence[Any], make: Callable[[Any], Any]) -> None:
        self._of, self._make = of, make

    def __len__(self) -> int:
        return len(self._of)

    def __getitem__(self, at: Any) -> Any:
        return self._make(self._of[at])


def _listed(paths: list[str] | str) -> list[str]:
    return [paths] if isinstance(paths, str) else paths


def _state(path: Path) -> tuple[int, int]:
    """Changes when the file, or a file in the folder, does."""
    every = [path, *path.rglob("*")] if path.is_dir() else [path]
    stats = [one.stat() for one in every]
    return max(one.st_mtime_ns for one in stats), sum(one.st_size for one in stats)


def _named(diagnosis: "Diagnosis") -> dict[str, Any]:
    return {"id": diagnosis.run_id, "name": diagnosis.run_name}


def diagnosed(diagnosis: "Diagnosis", top: int, roots: Roots) -> Answer:
    """A diagnosis: the advice first, then the kernels."""
    from traceroof.diagnosis import caveats

    totals, open_ = diagnosis.totals, diagnosis.not_judged
    files = [
        {"path": roots.shown(one.path), "format": one.format, "role": one.role or None}
        for one in diagnosis.sources[:_FILES]
    ]
    head = {
        "run": {
            **_named(diagnosis),
            "devices": list(dict.fromkeys(one.name for one in diagnosis.devices if one.name)),
            "times_from": diagnosis.time_basis,
            "files": files,
            "files_in_all": len(diagnosis.sources),
            "counters_cover_pct": diagnosis.join.coverage_time_pct if diagnosis.join else None,
        },
        "narrowed": asdict(diagnosis.narrowed) if diagnosis.narrowed else None,
        "headline": diagnosis.headline,
        "totals": {name: value for name, value in asdict(totals).items() if value is not None},
        "care": [
            {"rule": one.finding.rule, "because": one.finding.because, "fix": one.finding.fix}
            for one in caveats.care(diagnosis)[:3]
        ],
        "not_judged": open_.what if open_ else None,
        "entries_in_all": len(diagnosis.advice),
        "kernels_in_all": len(diagnosis.kernels),
    }
    parts = [("advice", _entry(diagnosis, one)) for one in diagnosis.advice[:top]]
    parts += [("kernels", _kernel(one)) for one in diagnosis.kernels[:top]]
    return Answer(head, parts, ("advice", "kernels"))


def _entry(diagnosis: "Diagnosis", one: "Entry") -> dict[str, Any]:
    """An entry of the advice. Its number is that of the whole run, where there is one."""
    rows = [
        found.subject_index
        for found in one.found
        if found.scope == "kernel" and found.subject_index is not None
    ]
    numbers = [diagnosis.kernels[row].number for row in dict.fromkeys(rows)]
    lead = one.lead
    return {
        "entry": None if diagnosis.narrowed else one.rank,
        "title": one.title,
        "rule": lead.rule,
        "scope": lead.scope,
        "subjects": list(one.subjects[:3]) if lead.scope != "kernel" else [],
        "kernels": numbers[:10],
        "expected_ns": one.expected_ns,
        "bound_ns": one.bound_ns,
        "likely_ns": one.likely_ns,
        "share": one.share,
        "share_of": one.share_of,
        "confidence": one.confidence,
        "severity": one.severity,
        "changes_numerics": lead.kind == "option",
        "once_per_process": one.once,
        "because": one.because,
        "fix": one.fix,
        "where": {name: value for name, value in asdict(one.where).items() if value},
        "also": list(dict.fromkeys(found.rule for found in (*one.found[1:], *one.folded)))[:6],
    }


def _kernel(one: "KernelGroup") -> dict[str, Any]:
    return {
        "number": one.number,
        "name": one.kernel if len(one.kernel) <= _NAME else f"{one.kernel[: _NAME - 1]}…",
        "category": one.category,
        "class": one.primary_class,
        "time_ns": one.time_ns,
        "share": one.share,
        "launches": one.launches,
        "median_ns": one.median_ns,
    }


_NAME = 160


def _explained(diagnosis: "Diagnosis", made: dict[str, Any], more_subjects: int) -> Answer:
    """An explanation: what it says first, then its steps; what other answers say is left out."""
    del made["finding"]
    parts = [(name, one) for name in _STEPS for one in made.pop(name)]
    head = {name: value for name, value in made.items() if value not in (None, "", (), [])}
    return Answer(
        {"run": _named(diagnosis), **head, "more_subjects": more_subjects}, parts, _STEPS[:3]
    )


# The steps of an explanation, what decides first.
_STEPS = ("condition", "bound", "likely", "concerns", "inputs", "unknown", "references")


def _rules(tools: Tools, call: calls.List) -> Iterable[dict[str, Any]]:
    from traceroof.mcp.resources import uri_of
    from traceroof.plugins import rules

    for one in sorted(rules(), key=lambda rule: (rule.scope != "kernel", rule.id)):
        yield {"id": one.id, "scope": one.scope, "finds": one.title, "card": uri_of(one.id)}


def _devices(tools: Tools, call: calls.List) -> Iterable[dict[str, Any]]:
    from traceroof.hardware.devices import all_devices

    for one in all_devices():
        peaks: Mapping[str, float] = one.flops_per_s
        yield {
            "name": one.name,
            "vendor": one.vendor,
            "architecture": one.architecture,
            "multiprocessors": one.sm_count,
            "dram_bytes_per_s": one.dram_bandwidth_bytes_per_s,
            "dense_flop_per_s": dict(peaks),
            "grade": one.grade,
        }


_LISTED: Mapping[str, Callable[[Tools, calls.List], Iterable[dict[str, Any]]]] = {
    "runs": Tools.runs,
    "rules": _rules,
    "devices": _devices,
}
