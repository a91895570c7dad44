"""Device memory is the busiest unit, but not at its wall."""

from traceroof.core.facts import Facts, Mask
from traceroof.rule import Rule
from traceroof.rules._kernels import of_class, spare, tunable


def _leans_on_dram(k: Facts) -> Mask:
    memory = k.memory_pct >= k.compute_pct + 10
    # Memory throughput is that of its busiest unit: DRAM is the one where the two are the same.
    busiest = (k.dram_pct >= k.memory_pct - 1) & ~(k.dram_pct < k.l2_throughput_pct)
    return memory & busiest & (k.dram_pct >= 50) & (k.dram_pct <= 80)


RULES = (
    Rule(
        id="dram-leaning-headroom",
        topic="dram-wall",
        title="Device memory limits the kernel before its peak",
        scope="kernel",
        why=(
            "Device memory is the busiest unit, yet it idles for a part of the time: too few bytes "
            "are in flight, or accesses are narrow, scattered or misaligned."
        ),
        condition=(
            "memory use at least 10 points above compute use, DRAM its busiest unit and at "
            "50 to 80 % of peak"
        ),
        needs=("dram_pct", "memory_pct", "compute_pct"),
        uses=(
            "primary_class",
            "l2_throughput_pct",
            "dram_bytes_per_s",
            "dram_peak_bytes_per_s",
            "l1_hit_pct",
            "l2_hit_pct",
            "load_bytes_per_sector",
            "store_bytes_per_sector",
            "warps_active",
        ),
        applies=lambda k: tunable(k) & ~of_class(k, "dram-bound"),
        when=_leans_on_dram,
        because=(
            "device memory is the busiest unit at {dram_pct} of its peak; compute runs at "
            "{compute_pct}"
        ),
        fix=(
            "Put more bytes in flight and make each access count: 16 bytes a thread, 128-byte "
            "aligned rows, neighbouring threads on neighbouring addresses, several independent "
            "loads before the first use, asynchronous copies."
        ),
        refute=(
            "Run a copy kernel with the same bytes and the same mix of reads and writes: if it is "
            "no faster, this rate is what the device gives."
        ),
        saves=spare,
        kind="hard",
        role="class",
        grade="observed",
        layer="hardware",
        thresholds={"dram_pct": "50 to 80", "memory_pct": ">= compute_pct + 10"},
        references=(
            "Nsight Compute SpeedOfLight rule: 80 % is high throughput, 10 points are a lean",
            "RRZE-HPC/gpu-benches, gpu-stream: large copies reach 75 to 94 % of nominal bandwidth",
        ),
        fires=(
            {"dram_pct": 50.0, "memory_pct": 50.0, "compute_pct": 40.0},
            {"dram_pct": 80.0, "memory_pct": 80.0, "compute_pct": 20.0, "l2_throughput_pct": 80.0},
            {"dram_pct": 60.0, "memory_pct": 61.0, "compute_pct": 20.0},
        ),
        silent=(
            {"dram_pct": 49.9, "memory_pct": 49.9, "compute_pct": 20.0},
            {"dram_pct": 80.1, "memory_pct": 80.1, "compute_pct": 20.0},
            {"dram_pct": 70.0, "memory_pct": 70.0, "compute_pct": 60.1},
            {"dram_pct": 60.0, "memory_pct": 61.1, "compute_pct": 20.0},
            {"dram_pct": 60.0, "memory_pct": 75.0, "compute_pct": 20.0, "l2_throughput_pct": 75.0},
            {
                "dram_pct": 78.0,
                "memory_pct": 78.0,
                "compute_pct": 9.0,
                "primary_class": "dram-bound",
            },
        ),
    ),
)
