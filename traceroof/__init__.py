"""traceroof: which wall did every GPU kernel hit, and what is worth trying.

    import traceroof

    run = traceroof.ingest("trace.csv")          # kept in .traceroof/, or traceroof.read(...)
    print(run.kernels)                           # pandas.DataFrame, one row per GPU activity
    diagnosis = traceroof.diagnose(run)          # or diagnose("5621"), or diagnose("trace.csv")
    print(diagnosis.advice[0].fix)
    traceroof.report(run, "report.html")

Functions are called like the commands: ``load``, ``compare``, ``runs``, ``export``, ``calibrate``.

Importing the package costs nothing: pandas and the like load when they are needed.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from traceroof.errors import TraceroofError

if TYPE_CHECKING:
    from typing import Literal

    from traceroof.calibration.measure import Measurement
    from traceroof.compare import Comparison
    from traceroof.compare.noise_profile import Profile
    from traceroof.config import Settings
    from traceroof.core.recording import Recording, Run
    from traceroof.diagnosis.card import KernelCard
    from traceroof.diagnosis.diagnosis import Diagnosis
    from traceroof.hardware.ceilings import MeasuredRate
    from traceroof.history.history import History
    from traceroof.ingest.roles import Mode
    from traceroof.scale.mapping import Keep, Keeper, Mapping
    from traceroof.store import Store
    from traceroof.store.rows import RunInfo

    #: A run, a stored one by its name, or profiler files by their paths.
    Source = Run | Sequence[Path | str] | Path | str
    #: A file with settings; None: those that the command would find; False: none.
    Config = Path | str | Literal[False] | None

__version__ = "0.1.0"
__all__ = [
    "TraceroofError", "__version__", "calibrate", "card", "compare", "diagnose", "export", "history",
    "ingest", "load", "noise",
    "read", "report", "runs",
]  # fmt: skip


def read(paths: Sequence[Path | str] | Path | str, **options: Any) -> "Run":
    """Read profiler files or folders without storing them.

    combine: what several files are (``ingest.roles.MODES``). clock_offset: what the time of a log
    of clocks is ahead of UTC: "+02:00", "-12.5s", "auto". jobs: processes that read; more than one
    needs ``if __name__ == "__main__":`` in the script. scheduler: the Dask cluster that reads
    (``scale.engines.Engine``). whole: keep of several files what the host did, not only what was
    worked out of it. Other options as ``parser.Options``.
    """
    from traceroof.core.recording import Run
    from traceroof.ingest import detect
    from traceroof.ingest.combine import combine
    from traceroof.parser import Options, silent

    listed = _listed(paths)
    mode, offset = options.pop("combine", "auto"), options.pop("clock_offset", None)
    mapping, asked = _mapping(options), Options(**options)
    found = detect.read_each(listed, silent, asked, mapping.read)
    recording = mapping.settled(combine(mapping.with_rows(found), mode, offset))
    return Run(recording=recording, name=name_of(recording, listed))


def ingest(
    paths: Sequence[Path | str] | Path | str,
    *,
    name: str | None = None,
    store: Path | str | None = None,
    into: str | None = None,
    commit: str | None = None,
    branch: str | None = None,
    config: "Config" = None,
    **options: Any,
) -> "Run":
    """Read profiler files or folders into the store and return the run.

    The same bytes ingested twice are the same run. store: folder of the store; by default
    ``$TRACEROOF_STORE``, that of the settings or ``.traceroof`` in the current folder. into: a stored run that the files
    complete; the result is a run of its own, the old one stays. commit, branch: the code that was
    measured; by default what the CI job says, else git in the current folder. progress: called while
    reading with (bytes done, bytes in all) of a file. Other options as for ``read``.
    """
    from traceroof.ingest import detect
    from traceroof.parser import Options, silent
    from traceroof.store import Store
    from traceroof.store.parts import Keeper

    listed, progress = _listed(paths), options.pop("progress", silent)
    mode, offset = options.pop("combine", "auto"), options.pop("clock_offset", None)
    kept = Store.open(_folder(store, _settings(config)))
    mapping = _mapping(options, Keeper(kept.shelf))
    recordings = detect.read_each(listed, progress, Options(**options), mapping.read)
    return store_run(
        kept, recordings, listed, name, mode, into, offset, mapping, commit=commit, branch=branch
    )


def store_run(
    kept: "Store",
    recordings: "Sequence[Recording]",
    files: Sequence[Path | str],
    name: str | None,
    mode: "Mode" = "auto",
    into: str | None = None,
    clock_offset: str | None = None,
    mapping: "Mapping | None" = None,
    *,
    commit: str | None = None,
    branch: str | None = None,
) -> "Run":
    """Combine recordings and keep them as a run. files: what they were read from. mapping: how.
    commit, branch: as for ``ingest``."""
    from hashlib import sha256

    from traceroof.history.origin import origin_of
    from traceroof.history.summary import summary_of
    from traceroof.ingest.combine import combine
    from traceroof.store.parts import made_of

    before = kept.get(into, keep="all") if into else None
    recording = combine([*([before.recording] if before else []), *recordings], mode, clock_offset)
    parts = made_of(recording, mapping) if mapping else ()
    if mapping and not parts and any(one.summaries for one in recordings):
        # Put together otherwise than part by part: what the host did goes with the rest.
        recordings = [mapping.kept_whole(one) for one in recordings]
        together = [*([before.recording] if before else []), *recordings]
        recording = combine(together, mode, clock_offset)
    digest = _digest(files, mapping)
    if before or mode != "auto" or clock_offset:
        # The same bytes combined otherwise are another run.
        how = (digest, before.id if before else "", mode, *filter(None, (clock_offset,)))
        digest = sha256("\n".join(how).encode()).hexdigest()
    default = before.name if before else name_of(recording, files)
    run = kept.add(
        recording,
        name=name or default,
        digest=digest,
        parts=parts,
        summary=summary_of(recording),
        origin=origin_of(commit, branch),
        moved=commit is not None or branch is not None,
    )
    return replace(run, recording=mapping.settled(run.recording)) if mapping and parts else run


def _digest(files: Sequence[Path | str], mapping: "Mapping | None") -> str:
    """The digest of the bytes of files; those that were read by workers were hashed there."""
    from traceroof.store.digests import digest_of, together

    known = (
        {path: bytes.fromhex(one.digest) for path, one in mapping.kept.items()} if mapping else {}
    )
    if any("://" in str(file) for file in files):
        return together(known.values())
    return digest_of([Path(file) for file in files], {Path(path): d for path, d in known.items()})


def calibrate(
    paths: Sequence[Path | str] | Path | str,
    *,
    device: str | None = None,
    store: Path | str | None = None,
    config: "Config" = None,
    **options: Any,
) -> "Measurement":
    """Keep what the probes in profiler files measured: the ceilings of their devices.

    From then on ``diagnose`` takes them for what is likely. device: the GPU, where the files do not
    name it. store: as for ``ingest``. Raises TraceroofError where the files hold no probe.
    """
    from dataclasses import replace

    from traceroof.calibration.measure import measure
    from traceroof.ingest import detect
    from traceroof.parser import Options
    from traceroof.store import Store

    # Times of different kinds do not add up, but each measures something.
    recordings = detect.read_each(_listed(paths), options=Options(device=device, **options))
    found = measure(recordings, device=device)
    kept = Store.open(_folder(store, _settings(config))).calibrate(found.rates)
    return replace(found, replaced=tuple(before for _, before in kept))


def load(
    run: "Source | None" = None,
    *,
    store: Path | str | None = None,
    config: "Config" = None,
    whole: bool = False,
    keep: "Keep" = "rows",
    **options: Any,
) -> "Run":
    """A run as the commands take it: a stored one by its id, the beginning of an id, its name or a
    baseline; the newest where none is given; else the profiler files at one or more paths, read
    and not stored. keep: of several files ``parts`` leaves out the rows. store: as for ``ingest``. config: as for ``diagnose``. options: as for ``read``.
    """
    from traceroof.core.recording import Run

    if isinstance(run, Run):
        return run
    if run is not None and (not isinstance(run, str) or "://" in run or Path(run).exists()):
        return read(run, whole=whole, keep=keep, **options)
    from traceroof.store import Store

    try:
        return Store.open(_folder(store, _settings(config)), create=False).get(
            run, keep="all" if whole else keep
        )
    except TraceroofError:
        if run is not None and ("/" in run or Path(run).suffix):
            raise TraceroofError(f"{run} does not exist") from None
        raise


def diagnose(
    run: "Source | None" = None,
    *,
    store: Path | str | None = None,
    kernel: str | None = None,
    calibrated: bool = True,
    config: "Config" = None,
    **options: Any,
) -> "Diagnosis":
    """Diagnose a run, a stored run by its name, or profiler files by their paths (as ``load``).

    kernel: the kernels to look at alone, by a number of the table, a part of the name or a pattern;
    shares stay those of the whole run. store: whose runs and measured ceilings count (``calibrate``), as for ``ingest``. calibrated:
    False leaves the ceilings out. config: the settings, found as the command finds them; a file in
    place of that, or False for none. Other options as for ``diagnosis.diagnose.diagnose``.
    """
    from traceroof.diagnosis.diagnose import diagnose as diagnose_run

    options = _options(store, calibrated, config, options)
    diagnosis = diagnose_run(_loaded(run, store, options), **options)
    if kernel is None:
        return diagnosis
    from traceroof.diagnosis.narrow import narrowed

    return narrowed(diagnosis, kernel)


def compare(
    base: "Source",
    head: "Source",
    *,
    store: Path | str | None = None,
    kernel: str | None = None,
    calibrated: bool = True,
    config: "Config" = None,
    **options: Any,
) -> "Comparison":
    """What changed from one run to another, each as for ``load``, and whether it is more than noise.

    kernel: the kernels to look at alone; verdicts and shares stay those of the whole comparison.
    Other arguments as for ``diagnose``; other options as for ``compare.compare``.
    """
    from traceroof.compare import compare as compare_runs

    options = _options(store, calibrated, config, options)
    sides = (_loaded(one, store, options) for one in (base, head))
    if "noise" not in options:
        options["noise"] = stored_noise(_folder(store, options["settings"])) if calibrated else ()
    comparison = compare_runs(*sides, **options)
    if kernel is None:
        return comparison
    from traceroof.compare.narrow import narrowed

    return narrowed(comparison, kernel)


def card(run: "Source | Diagnosis | None", kernel: str | int, **options: Any) -> "KernelCard":
    """Everything known about one kernel of a run (as for ``load``) or a diagnosis.

    kernel: a number of the table, a part of the name, or a pattern; of several, the one with the most
    time. Other options as for ``diagnose``.
    """
    from traceroof.diagnosis.card import card_of
    from traceroof.diagnosis.diagnosis import Diagnosis

    diagnosis = run if isinstance(run, Diagnosis) else diagnose(run, **options)
    return card_of(diagnosis, str(kernel))


def report(
    run: "Source | Diagnosis | Comparison | None" = None,
    path: Path | str = "report.html",
    *,
    base: "Source | None" = None,
    **options: Any,
) -> Path:
    """Write the HTML page of a run (as for ``load``), of a diagnosis, or of a comparison.

    base: a run from which every change is shown. Other options as for ``diagnose``, with a base as
    for ``compare``. Raises TraceroofError where the file cannot be written.
    """
    from traceroof.compare import Comparison
    from traceroof.diagnosis.diagnosis import Diagnosis
    from traceroof.report.common.output import write
    from traceroof.report.html.render import render

    shown: Comparison | Diagnosis
    if isinstance(run, Diagnosis | Comparison):
        shown = run
    elif base is None:
        shown = diagnose(run, **options)
    else:
        head = load(run, store=options.get("store"), config=options.get("config"))
        shown = compare(base, head, **options)
    write(render(shown), str(path))
    return Path(path)


def export(
    run: "Source | None",
    path: Path | str,
    *,
    format: str | None = None,
    store: Path | str | None = None,
    calibrated: bool = True,
    config: "Config" = None,
    **options: Any,
) -> Path:
    """Write the kernel table of a run (as for ``load``) to a ``.parquet``, ``.csv`` or ``.jsonl``
    file, or its timeline with findings to a ``.json`` or ``.json.gz`` file that ui.perfetto.dev and
    speedscope open.

    format: "parquet", "csv", "jsonl" or "perfetto", where the file's name does not tell. Other
    arguments as for ``diagnose``; a table needs none of them.
    """
    from traceroof.report.run.export import export_kernels, format_of

    wanted = format_of(str(path), format)
    if wanted != "perfetto":
        export_kernels(load(run, store=store).recording.kernels, Path(path), wanted)
        return Path(path)
    from traceroof.diagnosis.diagnose import diagnose_rows
    from traceroof.report.perfetto.export import export_trace

    options = _options(store, calibrated, config, options)
    found = _loaded(run, store, options, whole=True)
    export_trace(found.recording, *diagnose_rows(found, **options), path)
    return Path(path)


def noise(
    repeats: "Sequence[Source] | Source",
    *,
    name: str | None = None,
    keep: bool = True,
    device: str | None = None,
    settings: "Settings | None" = None,
    store: Path | str | None = None,
    config: "Config" = None,
) -> "Profile":
    """The noise of a program, from repeats of unchanged code, in the order in which they ran.

    repeats: runs, each as for ``load``; a folder holds several. name: of the workload; by default
    that of the first run. keep: in the store, where ``compare`` finds it. device: the GPU, where the
    files do not name it. Raises TraceroofError where there are fewer than 3.
    """
    from traceroof.compare.noise_profile import measure
    from traceroof.core.recording import Run
    from traceroof.ingest.combine import combine

    settings = settings or _settings(config)
    folder = _folder(store, settings)
    several = [repeats] if isinstance(repeats, Run | Path | str) else list(repeats)
    runs = [load(one, store=folder, config=False) for one in several]
    found = [one.recording for one in runs]
    whole = found[0] if len(found) == 1 else combine(found, "repeats")
    profile = measure(Run(whole, name or runs[0].name), device=device, settings=settings)
    if keep:
        keep_noise(profile, folder)
    return profile


def keep_noise(profile: "Profile", store: Path | str | None = None) -> int:
    """Keep measured noise in a store (as for ``ingest``), in place of that of the same workload and
    device. Returns how many it replaced."""
    from traceroof.compare.noise_profile import Profile, same_workload
    from traceroof.store import Store

    def replaces(form: dict[str, Any]) -> bool:
        try:
            return same_workload(Profile.from_dict(form), profile)
        except (ValueError, KeyError):
            return True  # damaged

    return Store.open(store).keep_noise(profile.to_dict(), replaces)


def stored_noise(store: Path | str | None = None) -> "tuple[Profile, ...]":
    """The noise that a store (as for ``ingest``) holds; none where there is no store."""
    folder = str(store or os.environ.get("TRACEROOF_STORE") or ".traceroof")
    if "://" not in folder and not Path(folder).is_dir():
        return ()
    from traceroof.store import noise_of

    forms = noise_of(folder)
    if not forms:
        return ()
    from traceroof.compare.noise_profile import Profile

    return tuple(Profile.from_dict(form) for _, form in forms)


def forget_noise(workload: str, *, store: Path | str | None = None, config: "Config" = None) -> int:
    """Remove the noise of a workload from a store. Returns how many measurements that were; none
    raises TraceroofError."""
    from traceroof.store import Store

    kept = Store.open(_folder(store, _settings(config)), create=False)
    held = kept.noise()
    gone = [number for number, form in held if form.get("workload") == workload]
    if not gone:
        known = ", ".join(dict.fromkeys(str(form.get("workload")) for _, form in held))
        raise TraceroofError(
            f"no noise of {workload} is stored", f"there is that of {known}" if known else "none is"
        )
    kept.forget_noise(gone)
    return len(gone)


def history(
    series: Sequence[str] | str = (),
    *,
    name: str | None = None,
    device: str | None = None,
    branch: str | None = None,
    last: int | None = None,
    least_percent: float = 1.0,
    store: Path | str | None = None,
    config: "Config" = None,
) -> "History":
    """The runs of one workload in the store over time, and where their times changed.

    series: metrics ("step-time"), categories, or parts of kernels' names; by default all metrics
    and what takes the most time. name, device, branch: of the runs; by default those of the newest
    run, and every branch. last: the newest so many runs alone. least_percent: smaller changes are
    left out. Raises TraceroofError where there is no store, run or series that is meant.
    """
    from traceroof.history.history import Wanted, history_of
    from traceroof.store import Store

    kept = Store.open(_folder(store, _settings(config)), create=False)
    if missing := kept.without_summary():
        from traceroof.history.summary import summary_of

        for run in missing:
            try:
                kept.summarise(run, summary_of(kept.get(run).recording))
            except TraceroofError:  # damaged: `traceroof runs show` says how
                continue
    wanted = (series,) if isinstance(series, str) else tuple(series)
    asked = Wanted(wanted, name, device, branch, last, least_percent)
    return history_of(*kept.history(), asked)


def runs(*, store: Path | str | None = None, config: "Config" = None) -> "tuple[RunInfo, ...]":
    """The runs in the store, newest first. Raises TraceroofError where there is no store."""
    from traceroof.store import Store

    return tuple(Store.open(_folder(store, _settings(config)), create=False).runs())


def _loaded(
    run: "Source | None", store: Path | str | None, options: dict[str, Any], *, whole: bool = False
) -> "Run":
    """The run that is meant, read with the settings in ``options``."""
    from traceroof.hardware.devices import knowing

    settings = options["settings"]
    with knowing(settings.devices):
        read_with = {"device": options["device"]} if options.get("device") else {}
        return load(
            run,
            store=_folder(store, settings),
            config=False,
            whole=whole,
            keep="parts",
            **read_with,
        )


def _options(
    store: Path | str | None, calibrated: bool, config: "Config", given: dict[str, Any]
) -> dict[str, Any]:
    """Options of a diagnosis with the settings and the measured ceilings that hold."""
    settings = given.get("settings") or _settings(config)
    options = {**given, "settings": settings}
    if calibrated and "calibration" not in options:
        options["calibration"] = stored_calibration(_folder(store, settings))
    return options


def _settings(config: "Config") -> "Settings":
    from traceroof.config import load as load_settings

    if config is False:
        return load_settings(without=True)
    return load_settings(Path(config) if config else None)


def _folder(store: Path | str | None, settings: "Settings") -> Path | str | None:
    """The store: the one given, else the environment's, else the settings', else the default."""
    if store is not None:
        return store if "://" in str(store) else Path(store)
    return None if os.environ.get("TRACEROOF_STORE") else settings.store


def stored_calibration(store: Path | str | None = None) -> "tuple[MeasuredRate, ...]":
    """The measured ceilings that a store holds (as for ``ingest``); none where there is no store."""
    folder = str(store or os.environ.get("TRACEROOF_STORE") or ".traceroof")
    if "://" not in folder:
        if not Path(folder).is_dir():
            return ()
        from traceroof.calibration.kept import may_hold_some

        if not os.environ.get("TRACEROOF_CATALOGUE") and not may_hold_some(Path(folder)):
            return ()
    from traceroof.store import calibration_of

    return calibration_of(folder)


def run_name(paths: Sequence[Path | str]) -> str:
    """What a run made of these paths is called: the first file's name, and how many more."""
    first = Path(paths[0])
    stem = first.name or first.resolve().name
    return stem if len(paths) == 1 else f"{stem}+{len(paths) - 1}"


def name_of(recording: "Recording", paths: Sequence[Path | str]) -> str:
    """What a run is called: as its paths (``run_name``); ranks by their own order, whatever order
    they were given in."""
    if recording.sources and recording.sources[0].role == "rank":
        return run_name([one.path for one in recording.sources])
    return run_name(paths)


def _mapping(options: dict[str, Any], keeper: "Keeper | None" = None) -> "Mapping":
    """How several files are read; takes what tells it out of ``options``."""
    from traceroof.hardware.devices import own_devices
    from traceroof.scale.mapping import Mapping

    jobs, scheduler = options.pop("jobs", 1), options.pop("scheduler", None)
    wanted: Keep = options.pop("keep", "rows")
    keep: Keep = "all" if options.pop("whole", False) else wanted
    return Mapping(jobs, scheduler, keep, own_devices(), keeper)


def _listed(paths: Sequence[Path | str] | Path | str) -> list[Path | str]:
    return [paths] if isinstance(paths, Path | str) else list(paths)


class _Package(ModuleType):
    """Keeps functions that share their name with a package (``ingest``): importing
    ``traceroof.ingest.detect`` would otherwise put the package in the function's place."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (isinstance(value, ModuleType) and callable(self.__dict__.get(name))):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
