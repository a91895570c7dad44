"""Files that AMD's tools leave beside a trace: recognised, and refused with what to give instead.

A list of devices, host calls, samples, settings: each looks like profiler output and holds no
kernel of its own. Saying which it is helps more than "unknown format".
"""

from pathlib import Path
from typing import Literal

from traceroof.core.recording import Recording
from traceroof.errors import TraceroofError
from traceroof.parser import Options, Progress
from traceroof.parsers.amd import kinds
from traceroof.parsers.amd.kinds import Kind, layout

_TRACE = "give the kernel trace (*_kernel_trace.csv) with it, or the folder {folder}"
# The counters of all passes, which rocprof-compute writes last.
_COUNTERS = "pmc_perf.csv"
_PROFILE = "give pmc_perf.csv or the profile folder {folder}"

# Kind -> what to give instead.
_HINTS = {
    Kind.V3_AGENTS: _TRACE,
    Kind.V3_API: _TRACE,
    Kind.V3_ALLOCATIONS: _TRACE,
    Kind.V3_SCRATCH: _TRACE,
    Kind.V3_SAMPLES: f"samples need the kernels that they were taken in: {_TRACE}",
    Kind.COMPUTE_SYSTEM: _PROFILE,
    Kind.COMPUTE_ROOFLINE: _PROFILE,
    Kind.COMPUTE_LIST: _PROFILE,
    Kind.SETTINGS: _PROFILE,
    Kind.LOG: _PROFILE,
    Kind.COUNTER_LIST: _PROFILE,
    Kind.ROCMINFO: "give results.csv, results.db or results.json of the same run",
}


class AmdNoKernels:
    """Refuses AMD files without kernels, by name."""

    name = "amd-no-kernels"
    title = "AMD files without kernels (agent_info, API traces, PC samples, sysinfo, settings)"
    gives = ""
    collect = ""

    def recognises(self, head: bytes, path: Path) -> Literal[0, 1, 2]:
        found = layout(head) if head else None
        return 1 if found is not None and found.kind in _HINTS else 0

    def read(self, source: Path, progress: Progress, options: Options) -> Recording:
        found = kinds.look(source)
        if found is None or found.kind not in _HINTS:
            raise TraceroofError(f"{source} holds no kernel")
        hint = _HINTS[found.kind].format(folder=source.parent)
        counters = source.parent / _COUNTERS
        if _HINTS[found.kind] is _PROFILE and not (counters.exists() and counters.stat().st_size):
            state = "empty" if counters.exists() else "missing"
            hint = f"{_COUNTERS} is {state} beside it: let rocprof-compute profile run to its end"
        raise TraceroofError(f"{source} holds {found.kind.value} and no kernels", hint)


PARSER = AmdNoKernels()
