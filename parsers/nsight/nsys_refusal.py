"""Why an Nsight Systems export holds no kernels, in its own words where it has some."""

import re
from pathlib import Path
from typing import Final

import numpy as np

from traceroof.core.recording import Note
from traceroof.errors import TraceroofError
from traceroof.parsers.nsight.nsys_host import Calls, launches
from traceroof.parsers.nsight.nsys_kernels import Activities
from traceroof.parsers.nsight.nsys_tables import RUNTIME, Export

_PROFILE: Final = "nsys profile --trace=cuda,nvtx,osrt -o report COMMAND"
_EXPORT: Final = "nsys export --type sqlite -o report.sqlite report.nsys-rep"
#: Kernels of replayed graphs are recorded one by one only if asked for.
BY_NODE: Final = "nsys profile --cuda-graph-trace=node"

# Warnings that say nothing about the GPU's work.
_OFF_TOPIC: Final = re.compile(r"NVTX|OpenGL|Vulkan|DX1[12]|paranoid|Scheduling information|OpenMP")
_ON_TOPIC: Final = re.compile(r"CUDA|CUPTI|GPU|driver|device|lost|dropped|overflow", re.IGNORECASE)
_LOST: Final = re.compile(r"Not all CUDA|lost|dropped|overflow", re.IGNORECASE)
_WARNING, _ERROR = 2, 3
# So many of its diagnostics are quoted, and so much of each.
_QUOTED: Final = 3
_LONGEST: Final = 300


def diagnostics(export: Export) -> list[str]:
    """Warnings and errors of the profiler about the GPU's work, errors first, each once."""
    rows = export.database.read("DIAGNOSTIC_EVENT", ("severity", "text"))
    pairs = zip(rows.get("severity", ()), rows.get("text", ()), strict=False)
    found = [
        (severity, " ".join(text.split()))
        for severity, text in pairs
        if severity in (_WARNING, _ERROR) and isinstance(text, str)
    ]
    kept = [
        text
        for severity, text in sorted(found, key=lambda one: -one[0])
        if severity == _ERROR or (_ON_TOPIC.search(text) and not _OFF_TOPIC.search(text))
    ]
    return [_cut(text) for text in dict.fromkeys(kept)]


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def diagnostic_notes(export: Export) -> list[Note]:
    """The profiler's own warnings as notes; severe where it says that it lost something."""
    return [
        Note(f"Nsight Systems says: {text}", severe=bool(_LOST.search(text)))
        for text in diagnostics(export)
    ]


def refuse(path: Path, export: Export, done: Activities, runtime: Calls) -> TraceroofError:
    """The error that says why there are no kernels."""
    why, how = _reason(export, done, runtime)
    said = diagnostics(export)[:_QUOTED]
    quoted = "; ".join(f"“{text}”" for text in said)
    words = f". Nsight Systems says: {quoted}" if said else ""
    return TraceroofError(f"{path} holds no GPU kernels: {why}{words}", how)


def _reason(export: Export, done: Activities, runtime: Calls) -> tuple[str, str]:
    """Why there are no kernels, and what to do."""
    tables = export.database.tables
    replays, launched = int(done.of_kind("graph").sum()), int(launches(runtime).sum())
    if replays:
        what = _counted(replays, "replay of a CUDA graph was", "replays of CUDA graphs were")
        return f"{what} recorded, each as a whole", f"profile again with {BY_NODE}"
    if launched:
        what = _counted(launched, "kernel launch was", "kernel launches were")
        return (
            f"{what} recorded, but no kernel: CUPTI gave the profiler no records",
            f"update Nsight Systems to a version that knows the driver, then {_PROFILE}",
        )
    if len(done):
        kinds = (("memcpy", "copy", "copies"), ("memset", "fill", "fills"))
        parts = [(int(done.of_kind(kind).sum()), one, many) for kind, one, many in kinds]
        words = " and ".join(_counted(*part) for part in parts if part[0])
        verb = "was" if len(done) == 1 else "were"
        return (
            f"only {words} {verb} recorded, and no call launched a kernel",
            "profile a part of the program that launches kernels",
        )
    if len(runtime):
        names = [runtime.texts[code] for code in np.unique(runtime.name[runtime.name >= 0])]
        shown = ", ".join(names[:_QUOTED]) + (", …" if len(names) > _QUOTED else "")
        what = _counted(len(runtime), "CUDA call was", "CUDA calls were")
        none = (
            "which launched no kernel" if len(runtime) == 1 else "none of which launched a kernel"
        )
        return (
            f"{what} recorded ({shown}), {none}",
            f"see that the program gets to its GPU work while it is profiled: {_PROFILE}",
        )
    if not {"EXPORT_META_DATA", "META_DATA_EXPORT"} & set(tables):
        return (
            "it was exported by a version of 2021 or before and has no CUDA tables",
            f"export the report with a newer version: {_EXPORT}",
        )
    what = "CUDA was not traced, or the program made no CUDA call"
    return "its CUDA tables are empty" if RUNTIME in tables else what, f"trace CUDA: {_PROFILE}"


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"
