"""Device memory is the busiest unit, but not at its wall."""

from traceroof.core.facts import Facts, Mask
from traceroof.kernels.bound_class import APART_POINTS, WALL_PCT
from traceroof.rule import Rule, at_least, at_most
from traceroof.rules._kernels import of_class, spare, tunable


def _leans_on_dram(k: Facts) -> Mask:
    # Memory throughput is that of its busiest unit: DRAM is the one where the two are the same.
    busiest = k.meets("dram_is_memory") & k.meets("l2_throughput_pct")
    return k.meets("memory_pct") & busiest & k.meets("dram_least") & k.meets("dram_pct")


RULES = (
    Rule(
        id="dram-leaning-headroom",
        topic="dram-wall",
        title="Device memory limits the kernel before its peak",
        scope="kernel",
        why=(
            "Device memory is the busiest unit, but it is idle for a part of the time. Too few "
            "bytes are in flight, or accesses are narrow, scattered or misaligned."
        ),
        condition=(
            "memory use is at least {memory_pct:.0f} points above compute use, and DRAM is its "
            "busiest unit, at {dram_least} to {dram_pct} of peak"
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
            "Keep more bytes in flight and make each access count: 16 bytes per thread, rows "
            "aligned to 128 bytes, neighbouring threads on neighbouring addresses, several "
            "independent loads before the first use, asynchronous copies."
        ),
        refute=(
            "Run a copy kernel with the same bytes and the same mix of reads and writes. If it is "
            "no faster, this rate is what the device gives."
        ),
        saves=spare,
        kind="conditional",
        role="class",
        yields=True,
        grade="observed",
        layer="hardware",
        thresholds={
            "dram_least": at_least(50, column="dram_pct"),
            "dram_pct": at_most(WALL_PCT),
            "memory_pct": at_least(
                APART_POINTS,
                measure=lambda k: k.memory_pct - k.compute_pct,
                words="{op} {value} points above compute_pct",
            ),
            "dram_is_memory": at_most(
                1,
                column="dram_pct",
                measure=lambda k: k.memory_pct - k.dram_pct,
                words="within a point of memory_pct",
            ),
            "l2_throughput_pct": at_most(1, of="dram_pct", or_unknown=True, words="<= dram_pct"),
        },
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
