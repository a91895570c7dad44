"""Reads a Kineto trace: streams it, links what it holds, refuses what is no such trace.

Pieces of the file are decoded into typed events (``events``), folded into columns (``columns``)
and dropped. At the end GPU activities are linked to the calls, operators, modules and steps behind
them (``link``).
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from traceroof.core import regex
from traceroof.core.memory import give_back
from traceroof.core.recording import Note, Recording, Source
from traceroof.core.units import count
from traceroof.errors import TraceroofError
from traceroof.ingest.decompress import open_inflated
from traceroof.parser import Options, Progress
from traceroof.parsers.torch.event_columns import TORCH_CATEGORIES
from traceroof.parsers.torch.host_events import Host
from traceroof.parsers.torch.launches import Launches
from traceroof.parsers.torch.link import link
from traceroof.parsers.torch.read import (
    PARALLEL_BYTES,
    Folded,
    in_sections,
    whole,
)
from traceroof.parsers.torch.recording import build
from traceroof.parsers.torch.stream import CUT, NotJson

FORMAT: Final = "torch-profiler"

_NSYS: Final = "nsys profile, then nsys export --type sqlite"


@dataclass(frozen=True)
class _Other:
    """Chrome traces of another tool. sign: what the first bytes or the categories of its events hold.
    instead: what to give in their place. always: a file with torch's categories is one, too."""

    sign: re.Pattern[bytes]
    what: str
    instead: str = "`traceroof formats` lists what is read of that tool"
    always: bool = False


_OTHERS: Final = (
    _Other(regex.compile(rb'"BeginNs"|"otherData"'), "a trace of rocprof (version 1)"),
    _Other(regex.compile(rb'"rocprofiler-sdk-tool"'), "JSON of rocprofv3"),
    _Other(regex.compile(rb'/device:(?:TPU|GPU)|XLA Ops|"highres-ticks"|hlo_(?:op|module)'),
           "a trace of XLA (JAX, TensorFlow)", "give the *.xplane.pb that lies beside it"),
    _Other(regex.compile(rb'"cat"\s*:\s*"(?:cuda_api|nvtx|nvtx-kernel)"'),
           "a trace converted from Nsight Systems", f"give the report itself: {_NSYS}"),
    _Other(regex.compile(rb'"cat"\s*:\s*"api_op"'), "a trace of rpd (rocmProfileData)",
           "give the .rpd file that it was made from"),
    _Other(regex.compile(rb'Ascend Hardware|AscendCL|"CANN"|"HCCL"|"Task Type"\s*:\s*"AI_'
                         rb'|"cat"\s*:\s*"(?:async_npu|HostToDevice)"'),
           "a trace of Ascend's profiler (torch_npu, CANN)",
           "traceroof reads no Ascend output; msprof-analyze does", always=True),
    # PaddlePaddle calls its events almost as Kineto does, and its arguments otherwise.
    _Other(regex.compile(rb'"SpanNumber"\s*:|"span_indx"\s*:|"correlation id"\s*:|"smCount"\s*:'
                         rb'|"schemaVersion"\s*:\s*"'),
           "a trace of PaddlePaddle's profiler", f"profile the program with {_NSYS}", always=True),
    _Other(regex.compile(rb'"cat"\s*:\s*"(?:Session|Node)"|_kernel_time"'),
           "a profile of ONNX Runtime",
           f"profile the program with {_NSYS}; on AMD, with rocprofv3", always=True),
    _Other(regex.compile(rb'"cat"\s*:\s*"(?:cnpx|cnnl|mlu|CNRT|CNDrv|CNNL|cnrt)|Cambricon|CNPerf|"cnInvokeKernel'),
           "a trace of Cambricon's profiler (CNPerf)", "with torch_mlu, record with torch.profiler",
           always=True),
    _Other(regex.compile(rb'"cat"\s*:\s*"(?:MUSA|musa_)|"musaLaunchKernel'), "a trace of Moore Threads' profiler",
           "with torch_musa, record with torch.profiler", always=True),
    _Other(regex.compile(rb'"cat"\s*:\s*"(?:disabled-by-default|v8|blink|devtools)'),
           "a trace of a browser"),
)  # fmt: skip
# What only torch.profiler writes, beside its own categories.
_TORCH_TOO: Final = frozenset({"cuda_profiler_range", "cpu_instant_event"})
# Categories of work on accelerators that are no GPUs of ours.
_ACCELERATORS: Final = (
    ("mtia", "Meta's MTIA"),
    ("hpu", "Intel's Gaudi (HPU)"),
    ("glow", "Glow"),
    ("privateuse1", "an accelerator of another vendor (PrivateUse1)"),
)

_PROFILE = (
    "profile with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] and let the GPU work "
    "run inside the recorded steps"
)


def read_trace(source: Path, progress: Progress, options: Options) -> Recording:
    """Read a trace. Raises TraceroofError where it is none, or holds no GPU work."""
    found = _fold(source, progress, options)
    host = Host(found.fold)
    launches = Launches(found.fold)
    links = link(found.fold, host, launches)
    give_back()
    built = build(found.fold, host, links, launches, found.metadata, source)
    notes = (*found.notes, *built.notes)
    return Recording(
        format=FORMAT,
        time_basis="timeline",
        kernels=built.kernels,
        sources=(
            Source(
                str(source),
                FORMAT,
                built.launches,
                notes,
                stacks=bool(found.metadata.get("with_stack")),
            ),
        ),
        devices=built.devices,
        host_calls=built.host_calls,
        spans=built.spans,
    )


def _fold(source: Path, progress: Progress, options: Options) -> Folded:
    """Read a file to its end. Raises TraceroofError when it is no torch.profiler trace."""
    with open_inflated(source, options) as stream:
        size = source.stat().st_size
        found: Folded | None = None
        if options.jobs > 1 and stream.plain and size >= PARALLEL_BYTES:
            found = in_sections(source, size, options, progress)
        if found is None:
            try:
                found = whole(stream, lambda: progress(min(stream.consumed, size), size))
            except NotJson:
                raise TraceroofError(
                    f"{source} is not JSON, so it is not a torch.profiler trace",
                    "`traceroof formats` lists what is read and how to collect it",
                ) from None
        notes = tuple(Note(text, count) for text, count in found.counts.items() if count)
        found = replace(found, notes=(*stream.notes, *notes))
    _refuse_others(source, found)
    _refuse_without_work(source, found)
    return found


def _refuse_others(source: Path, found: Folded) -> None:
    """Raise TraceroofError for a Chrome trace that is not torch.profiler's."""
    categories = found.fold.categories
    is_torch = any(category in TORCH_CATEGORIES | _TORCH_TOO for category in categories)
    seen = found.head + b"".join(b'"cat":"%s"' % str(one).encode() for one in categories)
    for other in _OTHERS:
        if (other.always or not is_torch) and other.sign.search(seen):
            raise TraceroofError(
                f"{source} is {other.what}, not a torch.profiler trace", other.instead
            )
    if is_torch:
        return
    lost = sum(found.counts.values()) - found.counts[CUT]
    if not categories and lost:
        raise TraceroofError(
            f"{source} holds no event that can be read: {lost:,} are broken, or longer than 1 MB",
            "record it again",
        )
    if not categories and found.counts[CUT]:
        raise TraceroofError(f"{source} is cut short before its first event", "record it again")
    shown = ", ".join(str(category) for category, _ in categories.most_common(4) if category)
    raise TraceroofError(
        f"{source} is a Chrome trace, but not one of torch.profiler: "
        + (f"its events are called {shown}" if shown else "it holds no events of its kinds"),
        "`traceroof formats` lists what is read and how to collect it",
    )


def _refuse_without_work(source: Path, found: Folded) -> None:
    """Raise TraceroofError saying why a trace has no GPU work, as far as it shows."""
    fold = found.fold
    if fold.gpu.rows:
        return
    names = list(fold.names)
    calls = [str(names[code]) for code in set(fold.calls.peek("name").tolist())]
    if "cuda_profiler_range" in fold.categories:
        why = "it holds ranges of CUPTI counters, and kernels are not recorded along with them"
        how = "profile once more without experimental_config counters"
    elif found.counts[CUT]:  # before its calls are blamed for work that stood behind the cut
        why = "it is cut short, and GPU work stands last in a trace"
        how = "let the job end, or stop the profiler before it is killed"
    elif accelerator := _accelerator(found):
        why = f"its work ran on {accelerator}, which traceroof does not judge"
        how = "give a trace of the same program on a GPU"
    elif any(_LAUNCHES.search(name) for name in calls):
        why = (
            f"{fold.calls.rows:,} calls to the GPU were recorded, but none of the work they "
            "launched: CUPTI or roctracer gave the profiler no records"
        )
        how = (
            "let a warm-up step pass before the recorded ones, synchronise before the profiler "
            "stops, and see that no other profiler holds the GPU"
        )
    elif fold.calls.rows:
        why = (
            f"no launch call was made while it recorded ({count(fold.calls.rows, 'call')} to the "
            "GPU's runtime): what it recorded ran on the CPU"
        )
        how = _PROFILE
    elif not fold.operators.rows and "cpu_instant_event" in fold.categories:
        why = "it holds events of the memory allocator only"
        how = _PROFILE
    elif found.metadata.get("deviceProperties") == []:
        why = (
            f"only the CPU was recorded ({fold.operators.rows:,} operators), and the process saw no "
            "GPU"
        )
        how = "give the trace of a process that uses a GPU, or let this one see one"
    else:
        why = (
            f"only the CPU was recorded ({fold.operators.rows:,} operators): the GPU was not "
            "among the activities, or CUPTI was not available"
        )
        how = _PROFILE
    if any(str(one).startswith("xpu") for one in fold.categories):
        for ours, intels in _ON_XPU:
            why, how = why.replace(ours, intels), how.replace(ours, intels)
    raise TraceroofError(f"{source} holds no GPU work: {why}", how)


# What records on Intel's GPUs (Profiling Tools Interfaces), and how PyTorch calls them.
_ON_XPU: Final = (
    ("ProfilerActivity.CUDA", "ProfilerActivity.XPU"),
    ("CUPTI or roctracer", "PTI"),
    ("CUPTI", "PTI"),
)
# Calls that put work on a GPU.
_LAUNCHES = regex.compile(r"aunch|Memcpy\w*Async|Memset\w*Async|urEnqueue")


def _accelerator(found: Folded) -> str | None:
    """The accelerator that did the work, where its kind of events is in the trace."""
    categories = [str(one).lower() for one in found.fold.categories]
    for prefix, name in _ACCELERATORS:
        if any(one.startswith(prefix) for one in categories):
            return name
    return None
