"""torch.profiler (Kineto) Chrome traces, of any size."""

from pathlib import Path
from typing import Final, Literal

from traceroof.core import regex
from traceroof.core.recording import Recording
from traceroof.parser import Options, Progress

FORMAT: Final = "torch-profiler"

_START = regex.compile(rb"(?:\xef\xbb\xbf)?\s*[\[{]")
# What only Kineto writes.
_SIGNATURE = regex.compile(
    rb'"cat"\s*:\s*"(?:cpu_op|cuda_runtime|cuda_driver|python_function|user_annotation'
    rb"|gpu_memcpy|gpu_memset|gpu_user_annotation|cuda_sync|cpu_instant_event|fwdbwd|ac2g"
    rb'|Operator|Runtime|Memcpy|Memset|async_cpu_to_gpu)"'
    rb'|"(?:External id|external id|Record function id|computeMajor|est\. achieved occupancy %)"'
    rb'|"traceName"\s*:|"schemaVersion"\s*:\s*1\s*,\s*"(?:deviceProperties|distributedInfo)"'
)
_CHROME = regex.compile(rb'"traceEvents"\s*:|"ph"\s*:\s*"')
_ROCPROF_V1 = regex.compile(rb'"BeginNs"|"otherData"')


class _TorchProfiler:
    """The parser of Kineto traces."""

    name = FORMAT
    title = "torch.profiler (Kineto): Chrome trace JSON, plain or gzip, NVIDIA and AMD"
    gives = "one row per kernel, copy and fill: times, launch, operator, shapes, module, step, rank"
    collect = (
        "with torch.profiler.profile(record_shapes=True) as prof: step(); "
        'prof.export_chrome_trace("trace.json.gz")'
    )

    def recognises(self, head: bytes, path: Path) -> Literal[0, 1, 2]:
        if not _START.match(head):
            return 0
        if _SIGNATURE.search(head):
            return 2
        # A long head of metadata may come first; other tools' traces are refused with a name.
        return 1 if _CHROME.search(head) and not _ROCPROF_V1.search(head) else 0

    def read(self, source: Path, progress: Progress, options: Options) -> Recording:
        from traceroof.parsers.torch.trace import read_trace

        return read_trace(source, progress, options)


PARSER = _TorchProfiler()
