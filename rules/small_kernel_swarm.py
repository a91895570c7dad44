"""Many kernels that are too short to be worth a launch."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Rule, at_least
from traceroof.rules._timelines import part


def _fires(k: Facts) -> Mask:
    many = k.meets("short_kernel_time_ns") | k.meets("short_kernels")
    return many & k.meets("kernels")


def _saves(k: Facts) -> Column:
    return part(k.short_kernel_floor_ns + np.nan_to_num(k.idle_back_to_back_ns), k)


RULES = (
    Rule(
        id="small-kernel-swarm",
        topic="small-kernels",
        title="Many kernels shorter than 10 µs",
        scope="timeline",
        why=(
            "A kernel of a few microseconds spends much of its time on starting, filling the GPU "
            "and draining it. Neighbouring kernels that work on the same data each read and write "
            "it again."
        ),
        condition=(
            "at least {kernels} kernels, and the short ones take {short_kernel_time_ns:.0%} of "
            "the busy time or more or are {short_kernels:.0%} of all launches or more"
        ),
        needs=("kernels", "short_kernels", "short_kernel_time_ns", "busy_ns", "span_ns"),
        uses=(
            "short_kernel_floor_ns",
            "idle_back_to_back_ns",
            "tiny_kernels",
            "median_kernel_ns",
            "graph_kernels",
        ),
        when=_fires,
        because=(
            "{short_kernels:,.0f} of {kernels:,.0f} kernels are shorter than 10 µs; together they "
            "take {short_kernel_time_ns}[, of which starting them takes {short_kernel_floor_ns} at most]"
        ),
        fix=(
            "Fuse neighbours: torch.compile for elementwise chains and norms, fused or foreach "
            "optimizers, fused attention or expert kernels, one batched operator for a loop. A "
            "graph removes the launches, not the short kernels."
        ),
        refute=(
            "Fuse the most frequent pair and compare. The count must fall by its launches, and "
            "the time by about the shorter of the two."
        ),
        saves=lambda k, peak: _saves(k),
        kind="conditional",
        grade="observed",
        layer="framework",
        effort="refactor",
        thresholds={
            "kernels": at_least(100),
            "short_kernel_time_ns": at_least(
                0.1, of="busy_ns", words="{op} {value:.0%} of the busy time"
            ),
            "short_kernels": at_least(
                0.5, of="kernels", words="or {op} {value:.0%} of all kernels"
            ),
        },
        references=(
            "nsys-ai and perfxpert: kernels under 10 µs",
            "RRZE gpu-small-kernels: a queued empty kernel takes 1.6 to 2.6 µs on L40, A100, H200",
        ),
        fires=(
            {
                "span_ns": 10e6,
                "busy_ns": 10e6,
                "kernels": 434.0,
                "short_kernels": 100.0,
                "short_kernel_time_ns": 1e6,
                "short_kernel_floor_ns": 0.26e6,
                "idle_back_to_back_ns": 0.1e6,
            },
            {
                "span_ns": 10e6,
                "busy_ns": 10e6,
                "kernels": 100.0,
                "short_kernels": 50.0,
                "short_kernel_time_ns": 0.2e6,
            },
        ),
        silent=(
            {
                "span_ns": 10e6,
                "busy_ns": 10e6,
                "kernels": 434.0,
                "short_kernels": 216.0,
                "short_kernel_time_ns": 0.99e6,
            },
            {
                "span_ns": 10e6,
                "busy_ns": 10e6,
                "kernels": 99.0,
                "short_kernels": 99.0,
                "short_kernel_time_ns": 1e6,
            },
        ),
    ),
)
