"""Data lies on the other side of a link."""

from traceroof.rule import Rule
from traceroof.rules._kernels import computes, spare

RULES = (
    Rule(
        id="aperture-remote-bound",
        topic="remote-memory",
        title="Data lies on the other side of a link",
        scope="kernel",
        why=(
            "Much of what misses the second-level cache comes from another GPU or from host "
            "memory, over a link with a small part of the bandwidth of device memory."
        ),
        condition="over 40 % of the L2 misses go to a peer or the host, with L2 use above 50 %",
        needs=("remote_memory_pct", "l2_throughput_pct"),
        uses=("primary_class", "compute_pct", "memory_pct", "dram_pct"),
        applies=lambda k: computes(k) & ~(k.l2_throughput_pct <= 50),
        when=lambda k: (k.remote_memory_pct > 40) & (k.l2_throughput_pct > 50),
        because=(
            "{remote_memory_pct} of the L2 misses go to a peer or the host, with the second-level "
            "cache at {l2_throughput_pct} of its peak"
        ),
        fix=(
            "Bring the data to this GPU before the kernel: prefetch managed memory "
            "(cudaMemPrefetchAsync, hipMemPrefetchAsync), advise its place, copy through pinned "
            "memory, keep what is read often in device memory."
        ),
        refute="Prefetch everything to this GPU first: the kernel's time must fall.",
        # The link's own rate is not in the file; local memory would leave the rest as it is.
        saves=spare,
        kind="conditional",
        grade="observed",
        layer="framework",
        effort="one-line",
        thresholds={"remote_memory_pct": "> 40", "l2_throughput_pct": "> 50"},
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
