"""The GPU waits for the next batch."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Rule, Threshold, above, at_least, at_most
from traceroof.rules._timelines import HOST, MATTERS, QUALITY, off_host, trust


@dataclass(frozen=True)
class _Loader:
    """A way to load data. in_main: how many batches the training process loads itself."""

    id: str
    title: str
    why: str
    how: str
    fix: str
    in_main: Threshold
    example: float


_KINDS = (
    _Loader(
        id="dataloader-in-main-process",
        title="The training process loads the data itself",
        why=(
            "The loader has no worker processes. Each batch is read, decoded and assembled on the "
            "thread that launches kernels, while the GPU has nothing to do."
        ),
        how="a loader without worker processes (_SingleProcessDataLoaderIter) prepared it",
        fix=(
            "Set num_workers above 0 (start with 4 per GPU), with prefetch_factor, "
            "persistent_workers=True and pin_memory=True. Then make a batch cheaper: decode and "
            "resize on the GPU, cached or pre-processed data, a faster disk."
        ),
        in_main=above(0),
        example=6.0,
    ),
    _Loader(
        id="dataloader-bound",
        title="The GPU waits for data",
        why=(
            "The training loop asked for a batch that was not ready, so the host launched nothing "
            "and the GPU went idle. Workers prepare batches too slowly for the GPU."
        ),
        how="the host waited for the loader, a queue or a pipe",
        fix=(
            "The workers are too slow or too few. Raise num_workers up to the available cores, and "
            "prefetch_factor. Check whether workers wait for the disk or the CPU. Make a batch "
            "cheaper: decode and resize on the GPU, cache or pre-process data, use a faster disk. "
            "Keep large objects out of the queue (shared memory, pinned buffers)."
        ),
        in_main=at_most(0, or_unknown=True),
        example=0.0,
    ),
)


def _after_start(k: Facts) -> Column:
    """The span without the cold start: what passes once per process hides no loader, ns."""
    return np.asanyarray(k.span_ns - np.nan_to_num(k.idle_cold_ns))


def _rule(one: _Loader) -> Rule:
    return Rule(
        id=one.id,
        topic="dataloader",
        title=one.title,
        scope="timeline",
        why=one.why,
        condition=(
            f"idle for {{idle:.0%}} of the span without its cold start or more while {one.how}"
        ),
        needs=("idle_data_loader_ns", "span_ns"),
        uses=(
            "data_loader_time_ns",
            "loader_in_main",
            "idle_ns",
            "idle_cold_ns",
            *HOST,
            *(name for name in QUALITY if name != "span_ns"),
        ),
        applies=lambda k: k.meets("loader_in_main"),
        when=lambda k: k.meets("idle"),
        because=(
            "for {idle_data_loader_ns} of {span_ns} the GPU has nothing to do while the host waits "
            "for the next batch[; the loader takes {data_loader_time_ns} of the loop's time]"
        ),
        fix=one.fix,
        refute=(
            "Use one batch again and again. If the step does not get shorter, the loader was not "
            "the limit."
        ),
        saves=lambda k, peak: off_host(k, k.idle_data_loader_ns, k.data_loader_time_ns),
        kind="hard",
        grade="observed",
        layer="framework",
        effort="config",
        trust=trust,
        suppresses=("gpu-idle-share",),
        thresholds={
            "loader_in_main": one.in_main,
            "idle": at_least(
                MATTERS,
                column="idle_data_loader_ns",
                of=_after_start,
                words="{op} {value:.0%} of the span without its cold start",
            ),
        },
        references=(
            "PyTorch TensorBoard plug-in: data loading above 5 % of a step",
            "PyTorch documentation, torch.utils.data: workers, prefetching, memory pinning",
        ),
        fires=_fires(one.example),
        silent=_silent(one.example),
    )


def _fires(in_main: float) -> tuple[Mapping[str, float], ...]:
    return (
        {
            "loader_in_main": in_main,
            "span_ns": 1e9,
            "idle_data_loader_ns": 50e6,
            "data_loader_time_ns": 60e6,
        },
        {
            "loader_in_main": in_main,
            "span_ns": 996e6,
            "idle_ns": 393e6,
            "idle_data_loader_ns": 285e6,
            "data_loader_time_ns": 347e6,
        },
        # 4.1 % of the recording, and 13 % of what is not its start.
        {
            "loader_in_main": in_main,
            "span_ns": 5_244e6,
            "idle_cold_ns": 3_580e6,
            "idle_data_loader_ns": 215e6,
        },
    )


def _silent(in_main: float) -> tuple[Mapping[str, float], ...]:
    short = {"loader_in_main": in_main, "span_ns": 1e9, "idle_data_loader_ns": 49e6}
    return (
        # Fits the other rule of the two.
        {"loader_in_main": 6.0 - in_main, "span_ns": 1e9, "idle_data_loader_ns": 50e6},
        {**short, "data_loader_time_ns": 300e6},
        {**short, "idle_data_loader_ns": 0.0, "data_loader_time_ns": 0.0},
    )


RULES = tuple(_rule(one) for one in _KINDS)
