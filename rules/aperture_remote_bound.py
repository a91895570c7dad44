"""Data lies on the other side of a link."""

from traceroof.rule import Rule, above
from traceroof.rules._kernels import computes, spare

RULES = (
    Rule(
        id="aperture-remote-bound",
        topic="remote-memory",
        title="Data comes from another GPU or from host memory",
        scope="kernel",
        why=(
            "Many of the misses of the second-level cache go to another GPU or to host memory, "
            "over a link with a small part of the bandwidth of device memory."
        ),
        condition=(
            "more than {remote_memory_pct} of the L2 misses go to a peer or the host, and L2 use "
            "is above {l2_throughput_pct}"
        ),
        needs=("remote_memory_pct", "l2_throughput_pct"),
        uses=("primary_class", "compute_pct", "memory_pct", "dram_pct"),
        applies=lambda k: computes(k) & k.meets("l2_throughput_pct"),
        when=lambda k: k.meets("remote_memory_pct") & k.meets("l2_throughput_pct"),
        because=(
            "{remote_memory_pct} of the L2 misses go to a peer or the host, with the second-level "
            "cache at {l2_throughput_pct} of its peak"
        ),
        fix=(
            "Move the data to this GPU before the kernel: prefetch managed memory "
            "(cudaMemPrefetchAsync, hipMemPrefetchAsync), set its preferred location, copy "
            "through pinned memory, or keep what is read often in device memory."
        ),
        refute="Prefetch everything to this GPU first. The kernel's time must fall.",
        # The link's own rate is not in the file; local memory would leave the rest as it is.
        saves=spare,
        kind="conditional",
        grade="observed",
        layer="framework",
        effort="one-line",
        thresholds={
            "remote_memory_pct": above(40),
            "l2_throughput_pct": above(50, or_unknown=True),
        },
        references=(
            "Nsight Compute MemoryApertureUsage rule: 40 % of misses, L2 above 50 %",
            "RRZE-HPC/gpu-benches, um-stream: 822 to 5 GB/s when managed memory is oversubscribed",
        ),
        fires=(
            {"remote_memory_pct": 40.1, "l2_throughput_pct": 50.1, "memory_pct": 50.1},
            {"remote_memory_pct": 90.0, "l2_throughput_pct": 70.0},
        ),
        silent=(
            {"remote_memory_pct": 40.0, "l2_throughput_pct": 70.0},
            {"remote_memory_pct": 90.0, "l2_throughput_pct": 50.0},
            {
                "remote_memory_pct": 90.0,
                "l2_throughput_pct": 70.0,
                "primary_class": "communication",
            },
        ),
    ),
)
