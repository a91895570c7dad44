"""What joining counters to a timeline costs: CPU time of `diagnose` with and without them.

    python benchmarks/join.py [--rows 400000] [--counters 2000] [--kernels 200] [--rounds 5]

A made-up program whose kernels have names in both tools' spellings; the counter rows are launches of
them. Both sides are timed one after the other in each round, CPU time of
this process; the median of the rounds' ratios is what counts.
"""

import argparse
import time
from statistics import median
from typing import Any

import numpy as np

from traceroof.core.kernel_table import kernel_table
from traceroof.core.recording import DeviceInfo, Recording, Source
from traceroof.diagnosis import judged_groups as rule_firing
from traceroof.diagnosis.diagnose import diagnose
from traceroof.ingest.combine import combine
from traceroof.kernels import counter_join

_GPU = DeviceInfo(index=0, name="NVIDIA A100-SXM4-80GB")


def _names(count: int, counted: bool) -> list[str]:
    spaces, cast = ("", "") if counted else ("at::native::(anonymous namespace)::", "(int)")
    return [
        f"void {spaces}fused_kernel_{at // 4}<{cast}{at % 4}, {spaces}Functor<float> >(int, T{at % 3})"
        for at in range(count)
    ]


def _shapes(of: Any) -> dict[str, Any]:
    ones = np.ones(len(of), dtype=np.int64)
    return {
        "grid_x": 1 + of % 97, "grid_y": ones, "grid_z": ones,
        "block_x": 32 * (1 + of % 8), "block_y": ones, "block_z": ones,
    }  # fmt: skip


def _timeline(rows: int, kernels: int) -> Recording:
    of = np.random.default_rng(1).permutation(rows) % kernels
    names = _names(kernels, counted=False)
    table = kernel_table(
        {
            "source": np.zeros(rows, dtype=np.int64),
            "device": np.zeros(rows, dtype=np.int64),
            "kernel_name": [names[at] for at in of.tolist()],
            "start_ns": 10_000 * np.arange(rows),
            "duration_ns": 5_000 + 10 * (of % 50),
            **_shapes(of),
        }
    )
    return Recording("test", "timeline", table, (Source("trace", "test", rows),), (_GPU,))


def _counters(rows: int, kernels: int) -> Recording:
    of = np.arange(rows) % kernels
    names = _names(kernels, counted=True)
    table = kernel_table(
        {
            "source": np.zeros(rows, dtype=np.int64),
            "kernel_name": [names[at] for at in of.tolist()],
            "duration_ns": 12_000 + 10 * (of % 50),
            "sm_throughput_pct": 20.0 + of % 60,
            "memory_throughput_pct": 30.0 + of % 50,
            "dram_bytes": 1e6 + of,
            "l2_hit_pct": 40.0 + of % 30,
            "achieved_occupancy_pct": 50.0 + of % 40,
            **_shapes(of),
        }
    )
    return Recording("test", "counter-tool", table, (Source("counters", "test", rows),), (_GPU,))


class _Clock:
    """CPU seconds spent in functions while they are wrapped."""

    def __init__(self) -> None:
        self.spent = 0.0

    def around(self, function: Any) -> Any:
        def timed(*args: Any, **named: Any) -> Any:
            began = time.process_time()
            try:
                return function(*args, **named)
            finally:
                self.spent += time.process_time() - began

        return timed


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=400_000)
    options.add_argument("--counters", type=int, default=2_000)
    options.add_argument("--kernels", type=int, default=200)
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args()
    timed, counted = _timeline(given.rows, given.kernels), _counters(given.counters, given.kernels)
    shares = []
    for number in range(given.rounds):
        clock = _Clock()
        plain = counter_join.join, counter_join.with_counters
        counter_join.join, counter_join.with_counters = map(clock.around, plain)
        counting = rule_firing._counted
        rule_firing._counted = clock.around(counting)
        try:
            began = time.process_time()
            both = clock.around(combine)([timed, counted])
            found = diagnose(both)
            whole = time.process_time() - began
        finally:
            counter_join.join, counter_join.with_counters = plain
            rule_firing._counted = counting
        alone_began = time.process_time()
        diagnose(timed)
        alone = time.process_time() - alone_began
        shares.append(clock.spent / alone)
        print(
            f"round {number + 1}: diagnose {alone:.2f} s of CPU; with counters {whole:.2f} s, of "
            f"which the join {clock.spent:.2f} s ({clock.spent / alone:.1%} of diagnose)"
        )
    assert found.join is not None
    print(f"coverage {found.join.coverage_time_pct} %; median {median(shares):.1%} of diagnose")


if __name__ == "__main__":
    main()
