"""Steps of one kind that take different times."""

from traceroof.rule import Rule, above, at_least
from traceroof.rules._timelines import part

RULES = (
    Rule(
        id="uneven-steps",
        topic="uneven-steps",
        title="One step takes much longer than the others",
        scope="timeline",
        why=(
            "Steps that do the same work should take the same time. A step that does not met "
            "something that comes now and then: allocation, compilation, a checkpoint, a larger "
            "batch, another rank. An average over such steps describes none of them."
        ),
        condition=(
            "at least {steps:.0f} steps after warm-up, and the longest takes more than "
            "{slowest_step:.1f} times the median; the last step, which holds the drain of the "
            "queue, is left out"
        ),
        needs=("slowest_step", "steps", "uneven_ns", "uneven_busy_ns", "span_ns"),
        uses=("median_step_ns", "median_step_busy_ns", "warm_up_steps"),
        # Traces without steps, or with one or two, say nothing about this.
        applies=lambda k: k.meets("steps"),
        when=lambda k: k.meets("slowest_step"),
        because=(
            "the longest of {steps:,.0f} steps takes {slowest_step:.2f} times the median; long "
            "steps take {uneven_ns} beyond it, {uneven_busy_ns} of that with the GPU at work[ "
            "(median step: {median_step_ns})][, in which the GPU is busy for "
            "{median_step_busy_ns}]"
        ),
        fix=(
            "Inspect that step alone (the JSON form lists the steps). More busy time means more "
            "work in it. More idle time means a pause, which the longest gaps name. Use the "
            "median, and record more steps if this one may be a first step."
        ),
        refute="Record ten more steps. If none is as long, it was a single event.",
        # Their idle time has causes of its own, which other rules name.
        saves=lambda k, peak: part(k.uneven_busy_ns, k),
        kind="conditional",
        grade="observed",
        layer="framework",
        effort="refactor",
        thresholds={"slowest_step": above(1.5), "steps": at_least(3)},
        references=(
            "nsys-ai: spikes above 1.5 times the median step",
            "Hoefler and Belli, Scientific Benchmarking of Parallel Computing Systems (SC 2015)",
        ),
        fires=(
            {
                "slowest_step": 1.51,
                "steps": 3.0,
                "uneven_ns": 5.1e6,
                "uneven_busy_ns": 1e6,
                "span_ns": 40e6,
            },
            {
                "slowest_step": 1.75,
                "steps": 3.0,
                "uneven_ns": 230e6,
                "uneven_busy_ns": 37e6,
                "median_step_ns": 141e6,
                "span_ns": 723e6,
                "median_step_busy_ns": 177e6,
            },
        ),
        silent=(
            {
                "slowest_step": 1.5,
                "steps": 3.0,
                "uneven_ns": 5.1e6,
                "uneven_busy_ns": 1e6,
                "span_ns": 40e6,
            },
            {
                "slowest_step": 1.9,
                "steps": 2.0,
                "uneven_ns": 5.1e6,
                "uneven_busy_ns": 1e6,
                "span_ns": 40e6,
            },
            {"steps": 0.0, "span_ns": 40e6},
        ),
    ),
)
