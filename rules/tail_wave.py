"""The last wave of blocks is partly empty."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Attainable, Rule, at_least, at_most
from traceroof.rules._kernels import HEADROOM, STATE, has_headroom, spare


def _tail(k: Facts) -> Mask:
    return k.meets("whole_waves") & k.meets("waves")


def _saves(k: Facts, peak: Attainable) -> Column:
    return np.asanyarray(np.fmin(1 - k.waves / np.ceil(k.waves), spare(k, peak)))


RULES = (
    Rule(
        id="tail-wave",
        topic="tail-wave",
        title="The last wave of blocks is partly empty",
        scope="kernel",
        why=(
            "Blocks run in waves that fill the device. The last wave takes as long as a full one "
            "but leaves multiprocessors idle. The estimate compares the number of waves with the "
            "next whole number, so a nearly full last wave costs little. It assumes blocks of equal "
            "length."
        ),
        condition="at least one whole wave, and the waves are at most {waves:.0%} full on average",
        needs=("waves",),
        uses=(*STATE, "blocks", "sm_count", "registers_per_thread", "cluster_size"),
        applies=has_headroom,
        when=_tail,
        because="{waves} waves of blocks: the last one is partly empty",
        fix=(
            "Choose the tile or grid so that the last wave is nearly full. Or let one wave of "
            "persistent blocks share the work (stream-K, a loop over tiles)."
        ),
        refute=(
            "Launch as many blocks as fill the last wave. The time must not grow. If it grows with "
            "the number of blocks, their lengths differ and there is no tail to remove."
        ),
        saves=_saves,
        kind="conditional",
        grade="observed",
        layer="hardware",
        thresholds={
            **HEADROOM,
            "whole_waves": at_least(1, column="waves", words=">= {value}"),
            "waves": at_most(
                0.9, of=lambda k: np.ceil(k.waves), words="<= {value} of the next whole number"
            ),
        },
        references=(
            "Nsight Compute LaunchConfiguration rule: tail effect",
            "NVIDIA, Matrix Multiplication Background User's Guide: wave quantisation",
        ),
        # 1 - 1.8/2 = 10 %; 1 - 109/216 = 49.5 %, one block more than a wave of 108.
        fires=({"waves": 1.8}, {"waves": 109 / 108, "blocks": 109.0, "sm_count": 108.0}),
        silent=(
            {"waves": 1.81},
            {"waves": 2.0},
            {"waves": 0.5},
            {"waves": 9.1},
            {"waves": 1.1, "compute_pct": 85.0, "primary_class": "compute-bound"},
        ),
    ),
)
