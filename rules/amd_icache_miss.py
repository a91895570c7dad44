"""Instructions come from beyond the instruction cache (AMD)."""

from traceroof.core.facts import Facts, Mask
from traceroof.rule import Rule, at_least, below
from traceroof.rules._kernels import HEADROOM, STATE, has_headroom, on_amd


def _applies(k: Facts) -> Mask:
    return on_amd(k) & has_headroom(k) & k.meets("median_ns")


RULES = (
    Rule(
        id="amd-icache-miss",
        topic="instruction-fetch",
        title="Instructions are fetched from beyond the instruction cache",
        scope="kernel",
        why=(
            "Two compute units (up to four before MI300) share an instruction cache of 32 or 64 "
            "KB. A hot loop that does not fit, or wavefronts that run different code, wait for "
            "instructions from L2."
        ),
        condition=(
            "less than {instruction_cache_hit_pct} of the instruction fetches hit, in a kernel of "
            "{median_ns} or more with nothing at its wall"
        ),
        needs=("instruction_cache_hit_pct",),
        uses=("vendor", *STATE, "median_ns", "wait_issue", "instructions"),
        applies=_applies,
        when=lambda k: k.meets("instruction_cache_hit_pct"),
        because=(
            "{instruction_cache_hit_pct} of the instruction fetches hit the instruction cache"
        ),
        fix=(
            "Make the hot loop smaller: less unrolling and inlining, fewer template variants in "
            "one kernel, rare paths moved out of the loop."
        ),
        refute="Halve the unrolling. The hit rate must rise and the time must fall.",
        kind="conditional",
        grade="observed",
        layer="operator",
        thresholds={
            **HEADROOM,
            "instruction_cache_hit_pct": below(90),
            # A shorter kernel always runs cold: its first fetches miss whatever the code is like.
            "median_ns": at_least(50_000, or_unknown=True),
        },
        references=("rocprofiler-compute, L1I speed-of-light: cache hit rate",),
        fires=(
            {"vendor": "amd", "instruction_cache_hit_pct": 89.9},
            {"vendor": "amd", "instruction_cache_hit_pct": 60.0, "median_ns": 5e5},
        ),
        silent=(
            {"vendor": "amd", "instruction_cache_hit_pct": 90.0},
            {"vendor": "amd", "instruction_cache_hit_pct": 60.0, "median_ns": 49_999.0},
            {"vendor": "amd", "instruction_cache_hit_pct": 60.0, "compute_pct": 90.0},
        ),
    ),
)
