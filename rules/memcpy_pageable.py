"""Copies from or to memory that the driver has to stage."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Rule, above, at_least
from traceroof.rules._timelines import part

# What a pinned copy reaches on the fastest common link, PCIe 5.0 x16 (Gen 4: 25, Gen 3: 12 GB/s).
_PINNED_BYTES_PER_S = 50e9


def _fires(k: Facts) -> Mask:
    return k.meets("pageable_copies") & k.meets("pageable_bytes") & k.meets("pageable_exposed_ns")


def _saves(k: Facts) -> Column:
    pinned = k.pageable_bytes / _PINNED_BYTES_PER_S * 1e9
    return part(np.fmin(np.maximum(k.pageable_time_ns - pinned, 0), k.pageable_exposed_ns), k)


RULES = (
    Rule(
        id="memcpy-pageable",
        topic="input-copy",
        title="Copies use pageable host memory",
        scope="timeline",
        why=(
            "The GPU can only access pinned memory. The driver copies pageable memory through a "
            "pinned buffer of its own, piece by piece. This is slower and blocks the host: such a "
            "copy is never asynchronous."
        ),
        condition=(
            "copies with pageable host memory (more than {pageable_copies}) of {pageable_bytes} "
            "KiB or more on average, with more than {pageable_exposed_ns} while nothing else "
            "runs, to the GPU (more than {h2d_exposed_ns}) or to the host (more than "
            "{d2h_exposed_ns})"
        ),
        needs=("pageable_copies", "pageable_bytes", "pageable_time_ns", "pageable_exposed_ns"),
        uses=("span_ns", "h2d_exposed_ns", "d2h_exposed_ns"),
        applies=lambda k: k.meets("h2d_exposed_ns") | k.meets("d2h_exposed_ns"),
        when=_fires,
        because=(
            "{pageable_copies:,.0f} copies of pageable memory move {pageable_bytes} in "
            "{pageable_time_ns}, {pageable_exposed_ns} of it with nothing else running"
        ),
        fix=(
            "Pin the host side ([nvidia: cudaMallocHost][amd: hipHostMalloc], a buffer that is "
            "reused in each step) and copy asynchronously. In PyTorch: "
            "DataLoader(pin_memory=True) and tensor.to(device, non_blocking=True). The copy can "
            "then run beside the kernels of the previous step."
        ),
        refute=(
            "Pin one of the buffers. The copy's rate (bytes over time) must rise to that of the "
            "link: 12 GB/s on PCIe 3.0, 25 on 4.0, 50 on 5.0."
        ),
        saves=lambda k, peak: _saves(k),
        kind="conditional",
        grade="observed",
        layer="framework",
        effort="config",
        risk="memory",
        thresholds={
            "pageable_copies": above(0, told=False),
            # A small copy is latency, pinned or not; the driver takes up to 64 KiB without waiting.
            "pageable_bytes": at_least(
                64,
                measure=lambda k: k.pageable_bytes / 1024,
                of="pageable_copies",
                words="{op} {value} KiB per copy",
            ),
            "pageable_exposed_ns": above(0, told=False),
            "h2d_exposed_ns": above(0, told=False),
            "d2h_exposed_ns": above(0, told=False),
        },
        references=(
            "Nsight Systems expert rule cuda_memcpy_async",
            "CUDA Runtime API, API synchronization behavior: pageable copies",
            "RRZE gpu-benches: 12.3 GB/s pinned on PCIe 3.0 x16",
        ),
        fires=(
            {
                "span_ns": 1e9,
                "h2d_exposed_ns": 13.8e6,
                "pageable_copies": 12.0,
                "pageable_bytes": 115.6e6,
                "pageable_time_ns": 13.8e6,
                "pageable_exposed_ns": 13.8e6,
            },
            {
                "span_ns": 1e9,
                "d2h_exposed_ns": 1_000.0,
                "pageable_copies": 1.0,
                "pageable_bytes": 65_536.0,
                "pageable_time_ns": 20e3,
                "pageable_exposed_ns": 1.0,
            },
        ),
        silent=(
            {
                "span_ns": 1e9,
                "h2d_exposed_ns": 3e6,
                "pageable_copies": 2.0,
                "pageable_bytes": 131_071.0,
                "pageable_time_ns": 3e6,
                "pageable_exposed_ns": 3e6,
            },
            {
                "span_ns": 1e9,
                "h2d_exposed_ns": 3e6,
                "pageable_copies": 12.0,
                "pageable_bytes": 115.6e6,
                "pageable_time_ns": 13.8e6,
                "pageable_exposed_ns": 0.0,
            },
            {"span_ns": 1e9, "h2d_exposed_ns": 0.0, "d2h_exposed_ns": 0.0},
        ),
    ),
)
