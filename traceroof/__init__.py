"""traceroof: which wall did every GPU kernel hit, and what is worth trying.

    import traceroof

    run = traceroof.ingest(["trace.csv"])        # kept in .traceroof/, or traceroof.read(...)
    print(run.kernels)                           # pandas.DataFrame, one row per GPU activity
    diagnosis = traceroof.diagnose(run)
    print(diagnosis.fired()[0].because)

Importing the package costs nothing: pandas and the like load when they are needed.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from traceroof.errors import TraceroofError

if TYPE_CHECKING:
    from traceroof.calibration import Measurement
    from traceroof.core.recording import Recording, Run
    from traceroof.diagnosis.diagnosis import Diagnosis
    from traceroof.hardware.ceilings import MeasuredRate
    from traceroof.ingest.combine import Mode
    from traceroof.store import Store

__version__ = "0.1.0"
__all__ = ["TraceroofError", "__version__", "calibrate", "diagnose", "ingest", "read"]


def read(paths: Sequence[Path | str] | Path | str, **options: Any) -> "Run":
    """Read profiler files or folders without storing them.

    combine: what several files are (``ingest.combine.MODES``). Other options as ``parser.Options``.
    """
    from traceroof.core.recording import Run
    from traceroof.ingest import detect
    from traceroof.parser import Options

    listed = _listed(paths)
    mode = options.pop("combine", "auto")
    recording = detect.read(listed, options=Options(**options), mode=mode)
    return Run(recording=recording, name=run_name(listed))


def ingest(
    paths: Sequence[Path | str] | Path | str,
    *,
    name: str | None = None,
    store: Path | str | None = None,
    into: str | None = None,
    **options: Any,
) -> "Run":
    """Read profiler files or folders into the store and return the run.

    The same bytes ingested twice are the same run. store: folder of the store; by default
    ``$TRACEROOF_STORE`` or ``.traceroof`` in the current folder. into: a stored run that the files
    complete; the result is a run of its own, the old one stays. Other options as for ``read``.
    """
    from traceroof.ingest import detect
    from traceroof.parser import Options
    from traceroof.store import Store

    listed = _listed(paths)
    mode = options.pop("combine", "auto")
    recordings = detect.read_each(listed, options=Options(**options))
    kept = Store.open(Path(store) if store else None)
    return store_run(kept, recordings, [Path(path) for path in listed], name, mode, into)


def store_run(
    kept: "Store",
    recordings: "Sequence[Recording]",
    files: Sequence[Path],
    name: str | None,
    mode: "Mode" = "auto",
    into: str | None = None,
) -> "Run":
    """Combine recordings and keep them as a run. files: what they were read from."""
    from hashlib import sha256

    from traceroof.ingest.combine import combine
    from traceroof.store.digests import digest_of

    before = kept.get(into) if into else None
    together = [*([before.recording] if before else []), *recordings]
    recording = combine(together, mode)
    digest = digest_of(files)
    if before or mode != "auto":
        # The same bytes combined otherwise are another run.
        parts = (digest, before.id if before else "", mode)
        digest = sha256("\n".join(parts).encode()).hexdigest()
    default = before.name if before else run_name(files)
    return kept.add(recording, name=name or default, digest=digest)


def calibrate(
    paths: Sequence[Path | str] | Path | str,
    *,
    device: str | None = None,
    store: Path | str | None = None,
    **options: Any,
) -> "Measurement":
    """Keep what the probes in profiler files measured: the ceilings of their devices.

    From then on ``diagnose`` takes them for what is likely. device: the GPU, where the files do not
    name it. store: as for ``ingest``. Raises TraceroofError where the files hold no probe.
    """
    from dataclasses import replace

    from traceroof import calibration
    from traceroof.ingest import detect
    from traceroof.parser import Options
    from traceroof.store import Store

    # Times of different kinds do not add up, but each measures something.
    recordings = detect.read_each(_listed(paths), options=Options(device=device, **options))
    found = calibration.measure(recordings, device=device)
    kept = Store.open(Path(store) if store else None).calibrate(found.rates)
    return replace(found, replaced=tuple(before for _, before in kept))


def diagnose(
    run: "Run | Sequence[Path | str] | Path | str",
    *,
    store: Path | str | None = None,
    calibrated: bool = True,
    **options: Any,
) -> "Diagnosis":
    """Diagnose a run, or the profiler files at one or more paths (read, not stored).

    store: whose measured ceilings count (``calibrate``), as for ``ingest``; none where there is no
    store. calibrated: False leaves them out. Other options as for ``diagnosis.diagnose.diagnose``.
    """
    from traceroof.core.recording import Run
    from traceroof.diagnosis.diagnose import diagnose as diagnose_run

    if calibrated and "calibration" not in options:
        options["calibration"] = stored_calibration(store)

    if not isinstance(run, Run):
        run = read(run, device=options.get("device"))
    return diagnose_run(run, **options)


def stored_calibration(store: Path | str | None = None) -> "tuple[MeasuredRate, ...]":
    """The measured ceilings that a store holds (as for ``ingest``); none where there is no store."""
    folder = Path(store or os.environ.get("TRACEROOF_STORE") or ".traceroof")
    if not folder.is_dir():
        return ()
    from traceroof.store import calibration_of

    return calibration_of(folder)


def run_name(paths: Sequence[Path | str]) -> str:
    """What a run made of these paths is called: the first file's name, and how many more."""
    first = Path(paths[0])
    stem = first.name or first.resolve().name
    return stem if len(paths) == 1 else f"{stem}+{len(paths) - 1}"


def _listed(paths: Sequence[Path | str] | Path | str) -> list[Path | str]:
    return [paths] if isinstance(paths, Path | str) else list(paths)


class _Package(ModuleType):
    """Keeps functions that share their name with a package (``ingest``): importing
    ``traceroof.ingest.detect`` would otherwise put the package in the function's place."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (isinstance(value, ModuleType) and callable(self.__dict__.get(name))):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
