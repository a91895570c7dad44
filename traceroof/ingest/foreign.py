"""What a file is that no parser reads, by its content, and what to export in its place."""

import re
from dataclasses import dataclass
from pathlib import Path

_NSYS_EXPORT = "export it as SQLite: nsys export --type sqlite REPORT.nsys-rep"
_ROCPD = "write it with rocprofv3 --output-format csv (or rocpd, or json)"
_TORCH = "record with torch.profiler: prof.export_chrome_trace('trace.json.gz')"


@dataclass(frozen=True)
class Foreign:
    """A kind of file that is known by name and not read.

    words: what it is, with its article. instead: what to give traceroof in its place. marks: one
    of these stands in the first bytes; at the very beginning where ``at_start``.
    """

    words: str
    instead: str
    marks: tuple[bytes, ...]
    at_start: bool = False


# Outputs of other profilers and tools. What is more specific stands first.
_KINDS = (
    Foreign("a table of an Nsight Systems export in HDF5", _NSYS_EXPORT,
            (b"\x89HDF\r\n\x1a\n",), at_start=True),
    Foreign("a Parquet file: a table of an Nsight Systems export, or of another tool", _NSYS_EXPORT,
            (b"PAR1",), at_start=True),
    Foreign("an Arrow file: a table of an Nsight Systems export, or of another tool", _NSYS_EXPORT,
            (b"ARROW1",), at_start=True),
    Foreign("an Nsight Systems export as JSON lines", _NSYS_EXPORT,
            (b'"TraceProcessEvent"', b'"CudaEvent"', b'"NvtxEvent"', b'"globalTid":"',
             b'"OSRTEvent"', b'"DiagnosticEvent"')),
    Foreign("an event log of TensorBoard",
            "give the trace that torch.profiler wrote beside it (*.pt.trace.json), or the"
            " *.xplane.pb of JAX or TensorFlow",
            (b"brain.Event:2",)),
    Foreign("a report of Intel VTune",
            "traceroof reads no VTune reports; on Intel GPUs, " + _TORCH,
            (b"Collection and Platform Info", b"vtune: Using result path", b"Function,CPU Time",
             b"Function\tCPU Time")),
    Foreign("a summary of Intel's unitrace",
            "traceroof reads no unitrace output; on Intel GPUs, " + _TORCH,
            (b"=== Device Timing Summary ===", b"=== API Timing Summary ===",
             b"== L0 Backend ==", b'"zeCommandList')),
    Foreign("an export of Apple's Instruments (xctrace)",
            "traceroof reads no traces of Apple GPUs",
            (b"<trace-query-result", b"<trace-toc")),
    Foreign("a trace of Moore Threads' profiler (msys)",
            "with torch_musa, " + _TORCH,
            (b"musaLaunchKernel", b"MUSA_ACTIVITY", b"MUPTI_ACTIVITY")),
    Foreign("a trace of Cambricon's profiler (cnperf)",
            "with torch_mlu, " + _TORCH,
            (b"cnInvokeKernel", b"cnperf", b"CNPAPI_ACTIVITY")),
    Foreign("an OTF2 archive (Score-P)", _ROCPD, (b"OTF2",), at_start=True),
    Foreign("a memory snapshot of torch.cuda", _TORCH, (b'"segments"', b'"device_traces"')),
    Foreign("a memory timeline of torch.profiler", _TORCH, (b'"PREEXISTING"',)),
    Foreign("a log in which CUPTI was not permitted to record",
            "permit counters for all users"
            " (https://developer.nvidia.com/ERR_NVGPUCTRPERM), and profile again",
            (b"CUPTI_ERROR_INSUFFICIENT_PRIVILEGES", b"CUPTI_ERROR_VIRTUALIZED_DEVICE")),
    Foreign("a log of nvprof that ended with an error",
            "nvprof supports GPUs up to compute capability 7.5; use nsys and ncu on newer ones",
            (b"======== Error:",), at_start=True),
    Foreign("a log of Nsight Systems, without its report",
            "give the report: nsys export --type sqlite REPORT.nsys-rep",
            (b"Collecting data...",), at_start=True),
    Foreign("an execution trace (Chakra), which holds no times of the GPU",
            "give the Kineto trace that was recorded beside it", (b"-chakra", b'"pg_config"', b"[pytorch|profiler|execution_")),
    Foreign("layer times of trtexec",
            "profile the run: nsys profile --stats=true trtexec …, then nsys export --type sqlite",
            (b'"averageMs"',)),
    Foreign("a summary of Ascend's profiler",
            "traceroof reads no Ascend output; msprof-analyze does",
            (b"op_summary", b"Task Type,Accelerator Core", b"Op Name,OP Type", b"Accelerator Core,",
             b"OP Type,Core Type", b"Communication(Not Overlapped)", b"CREATE TABLE CANN_API",
             b"CREATE TABLE COMPUTE_TASK_INFO")),
    Foreign("a printed table of torch.profiler", _TORCH, (b"Self CPU %", b"Self CUDA %")),
    Foreign("a tree that proton-viewer printed", "give the .hatchet file that it was printed from",
            (" ROOT\n├─ ".encode(), " ROOT\n└─ ".encode())),
    Foreign("the state of the GPUs at one moment (nvidia-smi)",
            "to log clocks and power beside a run: nvidia-smi --query-gpu=timestamp,name,clocks.sm,"
            "power.draw --format=csv -lms 100",
            (b"| NVIDIA-SMI ",)),
    Foreign("a report of Linux perf, which samples the host", "", (b"# Samples: ", b"perf record:")),
    Foreign("a profile of the host (speedscope)", "",
            (b"speedscope.app/file-format-schema",)),
    Foreign("a part of a rocprof-compute folder", "give the folder that holds pmc_perf.csv",
            (b"pmc_perf.csv",)),
    Foreign("a heap dump", "", (b"HPROF",)),
    Foreign("a Python pickle (a memory snapshot?), which is never opened", _TORCH,
            (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"), at_start=True),
    # What is of no profiler.
    Foreign("a report of Nsight Compute (.ncu-rep)", "", (b"NVR\x00",), at_start=True),
    Foreign("an SQLite database without GPU kernels that traceroof knows", "",
            (b"SQLite format 3\x00",), at_start=True),
    Foreign("a program (ELF)", "", (b"\x7fELF",), at_start=True),
    Foreign("a Windows program", "", (b"MZ",), at_start=True),
    Foreign("a PDF", "", (b"%PDF",), at_start=True),
    Foreign("a picture", "", (b"\x89PNG",), at_start=True),
    Foreign("a zip archive", "", (b"PK\x03\x04",), at_start=True),
    Foreign("a file packed with zstd", "unpack it with `zstd -d`", (b"\x28\xb5\x2f\xfd",),
            at_start=True),
    Foreign("a Git LFS pointer, not the file itself", "run `git lfs pull`",
            (b"version https://git-lfs",), at_start=True),
    Foreign("a Python traceback", "", (b"Traceback (most recent call last)",), at_start=True),
    Foreign("a web page", "", (b"<!DOCTYPE", b"<html"), at_start=True),
    Foreign("an XML file", "", (b"<?xml",), at_start=True),
)  # fmt: skip

# A Perfetto trace is packets (field 1, of a length), of which the first ones carry a clock
# snapshot (6), a trace config (33), a track descriptor (60), a time (8), a sequence id (10),
# interned data (12), compressed packets (50) or an uuid (89): perfetto's trace_packet.proto.
_PACKET = re.compile(
    rb"\x0a(?:[\x02-\x7f]|[\x80-\xff][\x01-\x7f]|[\x80-\xff]{2}[\x01-\x7f])"
    rb"(?:\x32|\x8a\x02|\xe2\x03|\x40|\x50|\x62|\x92\x03|\xca\x05)"
)
_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1a]")
_PERFETTO = Foreign(
    "a Perfetto trace",
    f"on AMD, {_ROCPD}; in PyTorch, {_TORCH}",
    (),
)
_LOOKED_AT = 4096

# Result folders, by the name of an entry in them.
_FOLDERS = (
    ("*.vtune", "a result folder of Intel VTune", "traceroof reads no VTune results"),
    ("*.run", "a trace of Apple's Instruments", "traceroof reads no traces of Apple GPUs"),
    ("ASCEND_PROFILER_OUTPUT", "a folder of Ascend's profiler",
     "traceroof reads no Ascend output; msprof-analyze does"),
    ("PROF_*", "a folder of Ascend's profiler (msprof)",
     "traceroof reads no Ascend output; msprof-analyze does"),
    ("traces.otf2", "an OTF2 archive (Score-P)", _ROCPD),
    ("*.tfevents.*", "a log folder of TensorBoard",
     "give the *.pt.trace.json or *.xplane.pb files below it (plugins/profile)"),
)  # fmt: skip
NOT_READ = "`traceroof formats` lists what it reads and how to collect it"


def foreign(head: bytes) -> Foreign | None:
    """The kind of foreign file that begins with ``head``; None where it is none of them."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    near = head[:_LOOKED_AT]
    for kind in _KINDS:
        for mark in kind.marks:
            begins = start[: len(mark)].lower() == mark.lower()
            if begins if kind.at_start else mark in near:
                return kind
    return _PERFETTO if _PACKET.match(head) and _BINARY.search(near) else None


def foreign_folder(folder: Path) -> Foreign | None:
    """The kind of foreign result folder that this is; None where it is none of them."""
    for pattern, words, instead in _FOLDERS:
        if any(folder.glob(pattern)):
            return Foreign(words, instead, ())
    return None


def looks_like(head: bytes) -> tuple[str, str]:
    """What the first bytes of a file look like, in words for an error message, and the hint."""
    kind = foreign(head)
    if kind is not None:
        return f"it looks like {kind.words}", kind.instead or NOT_READ
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if not start:
        return "it is empty", NOT_READ
    if b"\x00" in head[:_LOOKED_AT]:
        return "it looks like a binary file of another kind", NOT_READ
    if start[:1] in b"{[":
        return f"it looks like JSON that begins with {_word(start)!r}", NOT_READ
    return f"it looks like text that begins with {_word(start)!r}", NOT_READ


def _word(start: bytes) -> str:
    """What a text begins with, to be shown: its first word, without the value of a setting. A log
    begins with a command line, and that may hold a password."""
    text = start.splitlines()[0][:60].decode("utf-8", "replace")
    words = text.split() or [text]  # a form feed or a tab of another kind alone is no word
    return re.split("[=:]", words[0])[0]
