"""Steps of one kind that take different times."""

from traceroof.core.facts import Column, Facts
from traceroof.rule import Rule, above, at_least
from traceroof.rules._timelines import part


def _saves(k: Facts) -> Column:
    return part((k.slowest_step - 1) * k.median_step_ns, k)


RULES = (
    Rule(
        id="uneven-steps",
        topic="uneven-steps",
        title="One step takes much longer than the others",
        scope="timeline",
        why=(
            "Steps that do the same work should take the same time. One that does not met "
            "something that comes now and then: memory, compilation, a checkpoint, a larger batch, "
            "another rank. An average over such steps describes none of them."
        ),
        condition="at least 3 steps after warm-up, the longest over 1.5 times the median",
        needs=("slowest_step", "steps", "median_step_ns", "span_ns"),
        uses=("median_step_busy_ns", "warm_up_steps"),
        # Traces without steps, or with one or two, say nothing about this.
        applies=lambda k: k.meets("steps"),
        when=lambda k: k.meets("slowest_step"),
        because=(
            "the longest of {steps:,.0f} steps takes {slowest_step:.2f} times the median of "
            "{median_step_ns}[ (in which the GPU is busy for {median_step_busy_ns})]"
        ),
        fix=(
            "Look at that step alone (the JSON form lists them): more busy time means more work "
            "in it, more idle time a pause, which the longest gaps name. Judge by the median, and "
            "record more steps if this one may be a first."
        ),
        refute="Record ten more steps: if none is as long, it was a single event.",
        saves=lambda k, peak: _saves(k),
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
            {"slowest_step": 1.51, "steps": 3.0, "median_step_ns": 10e6, "span_ns": 40e6},
            {
                "slowest_step": 1.75,
                "steps": 3.0,
                "median_step_ns": 212e6,
                "span_ns": 723e6,
                "median_step_busy_ns": 177e6,
            },
        ),
        silent=(
            {"slowest_step": 1.5, "steps": 3.0, "median_step_ns": 10e6, "span_ns": 40e6},
            {"slowest_step": 1.9, "steps": 2.0, "median_step_ns": 10e6, "span_ns": 40e6},
            {"steps": 0.0, "span_ns": 40e6},
        ),
    ),
)
