"""Equal collectives that take different times."""

from traceroof.rule import Rule, at_least
from traceroof.rules._timelines import part, spread

RULES = (
    Rule(
        id="collective-waits",
        topic="late-rank",
        title="Equal collectives take very different times: they wait for other ranks",
        scope="timeline",
        why=(
            "A collective of one size in one group moves the same bytes each time. The time "
            "beyond the fastest equal collective is spent waiting for a rank that enters late. "
            "Faster links or another protocol do not shorten it."
        ),
        condition=(
            "of at least eight collectives of equal operation, payload and group, what they take beyond "
            "the fastest one is half of the exposed communication or more, and {spread:.0%} of the "
            "span or more"
        ),
        needs=("collective_excess_ns", "exposed_communication_ns", "communication_ns", "span_ns"),
        uses=("collectives", "waiting_ns"),
        # Unknown where no payload is recorded, or no collective comes often enough.
        applies=lambda k: k.collective_excess_ns > 0,
        when=lambda k: k.meets("spread"),
        because=(
            "communication takes {communication_ns}; beyond the fastest equal collective, "
            "collectives wait for {collective_excess_ns} with nothing else running[ (known from "
            "the recorded ranks: {waiting_ns})]"
        ),
        fix=(
            "Find the late rank: record all ranks over the same steps and see who enters last. A rank "
            "that is late in turn points at hosts that stall (CPU pinning, data loading, garbage "
            "collection); one that is always late has more work or a slower GPU."
        ),
        refute=(
            "Run the collective alone, all ranks behind a barrier: if its time varies as much, the "
            "network does it."
        ),
        saves=lambda k, peak: part(spread(k), k),
        kind="hard",
        grade="derived",
        layer="framework",
        effort="refactor",
        suppresses=("comm-below-link",),
        thresholds={
            "spread": at_least(0.05, measure=spread, of="span_ns", column="collective_excess_ns")
        },
        references=("Holistic Trace Analysis: early ranks wait inside collectives",),
        fires=(
            {
                "span_ns": 621e6,
                "communication_ns": 481e6,
                "exposed_communication_ns": 481e6,
                "collective_excess_ns": 432e6,
                "collectives": 81.0,
            },
            {
                "span_ns": 100e6,
                "communication_ns": 10e6,
                "exposed_communication_ns": 10e6,
                "collective_excess_ns": 5e6,
            },
        ),
        silent=(
            {
                "span_ns": 100e6,
                "communication_ns": 30e6,
                "exposed_communication_ns": 30e6,
                "collective_excess_ns": 14.9e6,
            },
            {
                "span_ns": 100e6,
                "communication_ns": 8e6,
                "exposed_communication_ns": 8e6,
                "collective_excess_ns": 4.9e6,
            },
            {},
        ),
    ),
)
