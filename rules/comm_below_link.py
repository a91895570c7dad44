"""Large collectives that are slow even where they wait least."""

from traceroof.core.facts import Column, Facts
from traceroof.rule import Rule, above, below
from traceroof.rules._timelines import part

# The slowest link of a current server: PCIe 4.0 x16, or a network of 200 Gbit/s. What is really
# there is not in a trace.
_LINK_BYTES_PER_S = 25e9
_LOW = 0.6
_REACHED = 0.8


def _saves(k: Facts) -> Column:
    share = 1 - k.bus_bytes_per_s / (_REACHED * _LINK_BYTES_PER_S)
    # What remains of the time is waiting for other ranks.
    return part(k.large_collective_floor_ns * share, k)


RULES = (
    Rule(
        id="comm-below-link",
        topic="slow-communication",
        title="Large collectives are slower than a PCIe slot",
        scope="timeline",
        why=(
            "From 16 MiB on, a collective runs at the speed of its slowest link. The fastest "
            "collective is used here, because the others may have waited for a rank. It moves "
            "less than a PCIe 4.0 slot or a 200 Gbit/s network card would."
        ),
        condition=(
            "of the large collectives (more than {large_collectives}), none reaches "
            "{bus_bytes_per_s} of bus bandwidth"
        ),
        needs=("bus_bytes_per_s", "large_collective_time_ns", "span_ns"),
        uses=("large_collectives", "large_collective_floor_ns", "communication_ns"),
        # Unknown where no message is that large, or the file says no sizes.
        applies=lambda k: k.meets("large_collectives"),
        when=lambda k: k.meets("bus_bytes_per_s"),
        because=(
            "the fastest of {large_collectives:,.0f} collectives of 16 MiB or more has a bus "
            "bandwidth of {bus_bytes_per_s}; together they take {large_collective_time_ns}"
        ),
        fix=(
            "Check what the library chose with NCCL_DEBUG=INFO: which links, which protocol (LL "
            "is for small messages), how many channels. `nvidia-smi topo -m` shows the links. "
            "Peer-to-peer or RDMA may be off, or NCCL_PROTO and NCCL_ALGO forced. Merge messages."
        ),
        refute=(
            "Run nccl-tests or rccl-tests with the same size and ranks. If it is as slow there, "
            "the link is the limit, and only less traffic helps."
        ),
        saves=lambda k, peak: _saves(k),
        kind="conditional",
        grade="inferred",
        layer="hardware",
        effort="config",
        thresholds={
            # Of 16 MiB or more; 60 % of 25 GB/s.
            "large_collectives": above(0),
            "bus_bytes_per_s": below(_LOW * _LINK_BYTES_PER_S),
        },
        references=(
            "NCCL tests, doc/PERFORMANCE.md: bus bandwidth",
            "PCI Express 4.0 x16: 31.5 GB/s before protocol overhead, about 25 GB/s measured",
        ),
        fires=(
            {
                "large_collectives": 9.0,
                "bus_bytes_per_s": 12.9e9,
                "large_collective_time_ns": 29e6,
                "large_collective_floor_ns": 25e6,
                "span_ns": 660e6,
            },
            {
                "large_collectives": 1.0,
                "bus_bytes_per_s": 14.9e9,
                "large_collective_time_ns": 50e6,
                "span_ns": 100e6,
            },
        ),
        silent=(
            {
                "large_collectives": 1.0,
                "bus_bytes_per_s": 15e9,
                "large_collective_time_ns": 50e6,
                "span_ns": 100e6,
            },
            {
                "large_collectives": 36.0,
                "bus_bytes_per_s": 126e9,
                "large_collective_time_ns": 80e6,
                "span_ns": 130e6,
            },
            {"span_ns": 100e6},
        ),
    ),
)
