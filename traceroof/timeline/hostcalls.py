"""What a host call is for, from its name: the difference between launching, waiting and allocating.

Profilers name runtime and driver calls as the vendor does, and framework ranges as the framework
does; both are told apart here by ordered patterns, the first that matches the whole name.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal, get_args

import numpy as np

from traceroof.core import regex
from traceroof.core.text_search import Texts

HostKind = Literal[
    "launch",  # puts work on a GPU queue
    "sync",  # returns when the GPU has caught up
    "copy",  # copies and returns when it is done
    "fill",  # fills memory and may wait for it
    "allocate",  # asks the driver for memory or gives it back (freeing waits for the GPU)
    "load",  # loads, compiles or tunes code
    "data-loader",  # waits for or prepares the next batch
    "wait",  # waits for another thread, process or file
    "collective",  # waits for other ranks on the host
    "collect",  # collects Python garbage
    "profiler",  # the profiler's own work
    "other",
]

HOST_KINDS: tuple[HostKind, ...] = get_args(HostKind)

# Functions of Python's library that wait for another thread or process, or for a file.
_WAITING = r"_?(get|wait|wait_for_tstate_lock|acquire|join|select|poll|recv\w*|read\w*|result)"

# Sources: CUDA Runtime and Driver API, HIP Runtime API (which calls block: "API synchronization
# behavior"), Unified Runtime specification; annotation names as PyTorch writes them (torch/utils/data, c10d, inductor).
_PATTERNS: tuple[tuple[HostKind, str], ...] = (
    ("sync", r"(cuda|hip)(Device|Stream|Event|Thread|Ctx)Synchronize\w*"),
    ("sync", r"cu(Ctx|Stream|Event)Synchronize\w*"),
    ("launch", r"(cuda|hip|hipExt|cu)(Module)?Launch(Cooperative)?(Kernel|Function|Grid)?\w*"),
    ("launch", r"(cuda|hip|cu)GraphLaunch\w*"),
    ("launch", r"hip(Ext)?(Module|Extension)Launch\w*"),
    ("launch", r"(cuda|hip|cu)Mem(cpy|set)\w*Async\w*"),
    # SYCL on Intel GPUs: Unified Runtime and Level Zero.
    ("launch", r"urEnqueue\w+|zeCommandListAppend\w+|zeCommandQueueExecute\w*"),
    ("sync", r"ur(QueueFinish|EventWait)\w*|ze(CommandQueue|CommandListHost|FenceHost|EventHost)Synchronize"),
    ("allocate", r"urUSM(Device|Host|Shared)?(Alloc|Free|Pool)\w*|zeMem(Alloc|Free)\w*"),
    ("load", r"ur(Program|Kernel)(Build|Compile|Link|Create)\w*|zeModule(Create|DynamicLink)\w*"),
    ("copy", r"(cuda|hip|cu)Memcpy\w*"),
    ("fill", r"(cuda|hip|cu)Memset\w*"),
    ("allocate", r"(cuda|hip)(Ext)?(Host)?(Malloc|Free|Alloc|Register|Unregister)\w*"),
    ("allocate", r"(cuda|hip)(Malloc|Free)\w*|(cuda|hip)MemPool\w*"),
    ("allocate", r"cuMem(Alloc|Free|Create|Release|Map|Unmap|AddressReserve|AddressFree|Set)\w*"),
    ("allocate", r"cuMemHost\w*|hipMem(Create|Release|Map|Unmap|Address|SetAccess)\w*"),
    ("load", r"cu(Module|Library|Link)\w*|(cuda|hip)(Library|Module)(Load|Unload)\w*"),
    ("load", r"nvrtc\w*|hiprtc\w*|Lazy Function Loading|dl(open|close)\(.*\)"),
    ("load", r"Runtime Triggered Module Loading|Driver (Compiler|JIT).*"),
    ("load", r"(cuda|hip|cu)Graph(Instantiate|ExecUpdate|Upload)\w*"),
    ("load", r"(cuda|hip|cu)Stream(BeginCapture|EndCapture)\w*"),
    ("load", r".*(compile_fx|_compile\.|fx_codegen_and_compile|async_compile|CompileFx).*"),
    ("load", r".*(autotune|benchmark_all_configs|entire_frame_compile|dynamo_compile).*"),
    # Frames of Python's own stack, "file.py(line): function" (torch.profiler, with_stack=True).
    ("data-loader", r".*torch/utils/data/(dataloader|_utils/\w+)\.py\(\d+\): \w+"),
    ("wait", r"(.*/)?(queue|threading|selectors|subprocess|socket|ssl)\.py\(\d+\): " + _WAITING),
    ("wait", r"(.*/)?(multiprocessing|concurrent/futures|asyncio)/\w+\.py\(\d+\): " + _WAITING),
    ("wait", r"<built-in method (poll|select|acquire|recv|recv_into|read|sleep|get|epoll_wait) of .*>"),
    ("data-loader", r"enumerate\(DataLoader\).*|.*DataLoaderIter.*|.*\b[Dd]ata[-_ ]?[Ll]oad(er|ing)?\b.*"),
    ("data-loader", r".*\b(wait_for_batch|wait_for_training_batch|(load|next|get|fetch|read)[ _-]?batch(es)?)\b.*"),
    ("collective", r"MPI_(?!I[a-z])(Barrier|Bcast|Reduce|All|Gather|Scatter|Scan|Exscan|Wait|Recv|Send|Ssend|Probe)\w*"),
    ("collective", r"(gloo|mpi|ucc):.*|.*\b(monitored_)?barrier\b.*"),
    ("collect", r"gc\.collect|gc(:.*)?|.*[Gg]arbage.?[Cc]ollect.*"),
    ("profiler", r"Buffer Flush|Instrumentation|Resource|Activity Buffer Request|Overhead.*"),
)  # fmt: skip


@lru_cache(maxsize=1)
def _compiled() -> tuple[tuple[HostKind, re.Pattern[str]], ...]:
    return tuple((kind, regex.compile(pattern)) for kind, pattern in _PATTERNS)


def kinds_of(names: Sequence[str]) -> list[HostKind]:
    """The kind of each host call, by its name."""
    found: list[HostKind] = ["other"] * len(names)
    texts, left = Texts(names), np.ones(len(names), dtype=bool)
    for kind, pattern in _compiled():
        for at in np.flatnonzero(texts.found(pattern, left)).tolist():
            if pattern.fullmatch(names[at]):
                found[at], left[at] = kind, False
    return found


#: What calls are that no name tells: the profiler's own, and those of the operating system, of
#: which readers keep what held a launching thread for long.
OF_CATEGORY: Mapping[str, HostKind] = {"overhead": "profiler", "os_runtime": "wait"}


#: How a copy's direction and host memory stand in its name: Kineto (on Intel GPUs ``M2D``) (``HtoD (Pageable -> Device)``),
#: Nsight Systems (``[CUDA memcpy Host-to-Device]``), ROCm (``MEMORY_COPY_HOST_TO_DEVICE``,
#: ``CopyHostToDevice``).
_DIRECTIONS: Mapping[str, str] = {
    "host-to-device": r"[hm]2d\b|h(ost)?[ _-]?to[ _-]?d(ev(ice)?)?\b|host_?to_?device",
    "device-to-host": r"d2[hm]\b|d(ev(ice)?)?[ _-]?to[ _-]?h(ost)?\b|device_?to_?host",
    "peer-to-peer": r"p(eer)?[ _-]?to[ _-]?p(eer)?\b|peer_?to_?peer",
    "host-to-host": r"h(ost)?[ _-]?to[ _-]?h(ost)?\b|host_?to_?host",
    "device-to-device": r"d2d\b|d(ev(ice)?)?[ _-]?to[ _-]?d(ev(ice)?)?\b|device_?to_?device",
}


@lru_cache(maxsize=1024)
def direction_of(copy_kind: str) -> str:
    """Direction of a copy from the profiler's own words: a key of ``DIRECTIONS`` or ``other``."""
    for direction, pattern in _DIRECTIONS.items():
        if re.search(rf"(?:\b|_|Copy)(?:{pattern})", copy_kind, re.IGNORECASE):
            return direction
    return "other"


DIRECTIONS: tuple[str, ...] = (*_DIRECTIONS, "other")


def is_pageable(copy_kind: str) -> bool | None:
    """Whether the host side of a copy is pageable memory; None where the profiler does not say."""
    if re.search("pageable", copy_kind, re.IGNORECASE):
        return True
    return False if re.search("pinned", copy_kind, re.IGNORECASE) else None


def is_managed(copy_kind: str) -> bool:
    """Whether a copy moves managed memory (NVIDIA's tools: ``Unified Host-to-Device``)."""
    return re.search(r"\bUnified\b", copy_kind) is not None
