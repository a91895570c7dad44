"""Reads a Kineto trace: streams it, links what it holds, refuses what is no such trace.

Pieces of the file are decoded into typed events (``events``), folded into columns (``columns``)
and dropped. At the end GPU activities are linked to the calls, operators, modules and steps behind
them (``link``).
"""

from dataclasses import replace
from pathlib import Path
from typing import Final

from traceroof.core import regex
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

# Chrome traces of others, and what they are.
_OTHERS: Final = (
    (regex.compile(rb'"BeginNs"|"otherData"'), "a trace of rocprof (version 1)"),
    (regex.compile(rb'"rocprofiler-sdk-tool"'), "JSON of rocprofv3"),
    (regex.compile(rb'/device:(?:TPU|GPU)|XLA Ops|"highres-ticks"|hlo_(?:op|module)'),
     "a trace of XLA (JAX, TensorFlow)"),
    (regex.compile(rb'"cat"\s*:\s*"(?:cuda_api|nvtx|nvtx-kernel)"'),
     "a trace converted from Nsight Systems"),
    (regex.compile(rb'"cat"\s*:\s*"api_op"'), "a trace of rpd (rocmProfileData)"),
    (regex.compile(rb'Ascend Hardware|AscendCL|"CANN"|"HCCL"'),
     "a trace of Ascend's profiler (torch_npu, CANN)"),
    (regex.compile(rb'"cat"\s*:\s*"(?:Session|Node)"|_kernel_time"'), "a profile of ONNX Runtime"),
    (regex.compile(rb'"cat"\s*:\s*"(?:cnpx|cnnl|mlu)|Cambricon|CNPerf'),
     "a trace of Cambricon's profiler (CNPerf)"),
    (regex.compile(rb'"cat"\s*:\s*"(?:MUSA|musa_)'), "a trace of Moore Threads' profiler"),
    (regex.compile(rb'"cat"\s*:\s*"(?:disabled-by-default|v8|blink|devtools)'), "a trace of a browser"),
)  # fmt: skip
# PaddlePaddle calls its events almost as Kineto does, and its arguments otherwise.
_PADDLE = regex.compile(rb'"SpanNumber"\s*:|"correlation id"\s*:|"smCount"\s*:')
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
            found = in_sections(source, size, options.jobs, progress)
        if found is None:
            try:
                found = whole(stream, lambda: progress(min(stream.consumed, size), size))
            except NotJson:
                raise TraceroofError(
                    f"{source} is not JSON, so it is no torch.profiler trace",
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
    if _PADDLE.search(found.head):
        raise TraceroofError(
            f"{source} is a trace of PaddlePaddle's profiler, which is not read",
            "profile the program with Nsight Systems (nsys profile, nsys export --type sqlite)",
        )
    if any(category in TORCH_CATEGORIES for category in categories):
        return
    seen = found.head + b"".join(b'"cat":"%s"' % str(one).encode() for one in categories)
    for pattern, what in _OTHERS:
        if pattern.search(seen):
            raise TraceroofError(
                f"{source} is {what}, not a torch.profiler trace",
                "`traceroof formats` lists what is read of that tool",
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
    raise TraceroofError(f"{source} holds no GPU work: {why}", how)


# Calls that put work on a GPU.
_LAUNCHES = regex.compile(r"aunch|Memcpy\w*Async|Memset\w*Async|urEnqueue")


def _accelerator(found: Folded) -> str | None:
    """The accelerator that did the work, where its kind of events is in the trace."""
    categories = [str(one).lower() for one in found.fold.categories]
    for prefix, name in _ACCELERATORS:
        if any(one.startswith(prefix) for one in categories):
            return name
    return None
