"""Host calls and copies by the names that profilers write; names seen in real traces."""

import pytest

from traceroof.core.text_search import FEW
from traceroof.timeline.hostcalls import direction_of, is_pageable, kinds_of


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cudaLaunchKernel", "launch"), ("cudaLaunchKernelExC", "launch"),
        ("cuLaunchKernel", "launch"), ("cuLaunchKernelEx", "launch"),
        ("hipLaunchKernel", "launch"), ("hipExtModuleLaunchKernel", "launch"),
        ("hipModuleLaunchKernel", "launch"), ("hipExtLaunchKernel", "launch"),
        ("cudaLaunchCooperativeKernel", "launch"), ("cudaGraphLaunch", "launch"),
        ("hipGraphLaunch", "launch"), ("cudaMemcpyAsync", "launch"), ("hipMemsetAsync", "launch"),
        ("cudaMemcpy2DAsync", "launch"), ("cuMemcpyHtoDAsync_v2", "launch"),
        ("cudaStreamSynchronize", "sync"), ("cudaDeviceSynchronize", "sync"),
        ("hipEventSynchronize", "sync"), ("cuCtxSynchronize", "sync"),
        ("cudaStreamSynchronize_ptsz", "sync"),
        ("cudaMemcpy", "copy"), ("hipMemcpyWithStream", "copy"), ("cuMemcpyDtoH_v2", "copy"),
        ("cudaMemset", "fill"),
        ("cudaMalloc", "allocate"), ("cudaFree", "allocate"), ("cudaHostAlloc", "allocate"),
        ("hipFree", "allocate"), ("cudaMallocAsync", "allocate"), ("hipHostMalloc", "allocate"),
        ("cuMemCreate", "allocate"), ("cudaHostRegister", "allocate"),
        ("hipModuleLoadData", "load"), ("cuModuleLoadData", "load"),
        ("cuLibraryLoadData", "load"), ("Lazy Function Loading", "load"),
        ("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "data-loader"),
        ("## wait_for_batch ##", "data-loader"), ("## load_batch ##", "data-loader"),
        ("## data_load ##", "data-loader"),
        ("gloo:all_reduce", "collective"), ("c10d::barrier", "collective"),
        ("Activity Buffer Request", "profiler"),
        # polling, recording and asking are none of these
        ("cudaEventQuery", "other"), ("cudaEventRecord", "other"), ("cudaStreamWaitEvent", "other"),
        ("cudaFuncSetAttribute", "other"), ("nccl:all_reduce", "other"), ("aten::mm", "other"),
        ("cudaMemGetInfo", "other"), ("ProfilerStep#5", "other"), ("INVALID", "other"),
    ],
)  # fmt: skip
def test_kinds_of(name: str, kind: str) -> None:
    assert kinds_of([name]) == [kind]
    # Of many names at once Arrow searches.
    assert kinds_of([*["another"] * FEW, name]) == [*["other"] * FEW, kind]


@pytest.mark.parametrize(
    ("text", "direction", "pageable"),
    [
        ("Memcpy HtoD (Pageable -> Device)", "host-to-device", True),
        ("Memcpy HtoD (Pinned -> Device)", "host-to-device", False),
        ("Memcpy DtoH (Device -> Pageable)", "device-to-host", True),
        ("Memcpy DtoD (Device -> Device)", "device-to-device", None),
        ("Memcpy PtoP (Device -> Device)", "peer-to-peer", None),
        ("Memcpy HtoD (Host -> Device)", "host-to-device", None),
        ("[CUDA memcpy HtoD]", "host-to-device", None),
        ("[CUDA memcpy Device-to-Host]", "device-to-host", None),
        ("MEMORY_COPY_HOST_TO_DEVICE", "host-to-device", None),
        ("CopyDeviceToHost", "device-to-host", None),
        ("HOST_TO_DEVICE", "host-to-device", None),
        ("HtoD", "host-to-device", None),
        ("something", "other", None),
    ],
)
def test_copies(text: str, direction: str, pageable: bool | None) -> None:
    assert direction_of(text) == direction
    assert is_pageable(text) is pageable
