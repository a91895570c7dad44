"""Replays of graphs of which only the whole was recorded."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Doubt, Rule, at_least


def _known(k: Facts, run: Facts) -> Column:
    return np.asanyarray(np.full(len(k), 1.0) * (1 - run.whole_graphs_pct / 100))


RULES = (
    Rule(
        id="run-graphs-whole",
        topic="measurement",
        title="Kernels of replayed graphs are not in the recording",
        scope="run",
        why=(
            "By default Nsight Systems records each replay of a CUDA graph as one piece of GPU "
            "work. The GPU was busy, but with which kernels is unknown. Kernels, categories and "
            "their shares below are those outside of graphs, which may be the smaller part."
        ),
        condition=(
            "{whole_graphs_pct} of the time of kernels and replays or more is in replays that were "
            "recorded as a whole"
        ),
        needs=("whole_graphs_pct",),
        # Where no graph was replayed whole there is nothing to know.
        applies=lambda k: ~np.isnan(k.whole_graphs_pct),
        when=lambda k: k.meets("whole_graphs_pct"),
        because=(
            "replays of graphs without their kernels take {whole_graphs_pct} of the time of "
            "kernels and replays"
        ),
        fix=(
            "Record the nodes of graphs: nsys profile --cuda-graph-trace=node. Launching costs the "
            "host more then, so judge idle time in a recording without."
        ),
        refute="Count the kernels of one step by hand. If all are in the list, none is missing.",
        kind="conditional",
        grade="observed",
        layer="framework",
        effort="config",
        severity="info",
        urgent=lambda k: k.meets("whole_graphs_pct"),
        doubts=(
            Doubt(
                scope="category",
                what="its kernels in replayed graphs are not in the recording",
                factor=_known,
            ),
        ),
        thresholds={"whole_graphs_pct": at_least(5)},
        references=(
            "Nsight Systems User Guide: --cuda-graph-trace, graph (the default) or node",
            "the 5 % are a judgement",
        ),
        fires=({"whole_graphs_pct": 5.0}, {"whole_graphs_pct": 99.0}),
        silent=({"whole_graphs_pct": 4.9}, {}),
    ),
)
