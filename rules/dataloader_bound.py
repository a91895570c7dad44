"""The GPU waits for the next batch."""

from traceroof.rule import Rule
from traceroof.rules._timelines import QUALITY, part, trust

RULES = (
    Rule(
        id="dataloader-bound",
        topic="dataloader",
        title="The GPU waits for data",
        scope="timeline",
        why=(
            "The training loop asked the loader for a batch that was not ready, so the host "
            "launched nothing and the GPU ran dry."
        ),
        condition=(
            "idle for 5 % of the span or more while the host waited for the loader or prepared "
            "the batch"
        ),
        needs=("idle_data_loader_ns", "data_loader_time_ns"),
        uses=("idle_ns", *QUALITY),
        when=lambda k: k.idle_data_loader_ns >= 0.05 * k.span_ns,
        because=(
            "the loader takes {data_loader_time_ns} of the loop's time, and for "
            "{idle_data_loader_ns} of {span_ns} the GPU has nothing to do meanwhile"
        ),
        fix=(
            "Prepare batches ahead: num_workers above 0 (start with 4 a GPU), prefetch_factor, "
            "persistent_workers, pin_memory. Then make a batch cheaper: decode and resize on the "
            "GPU, cached or pre-processed data, a faster disk."
        ),
        refute=(
            "Feed one batch again and again: if the step does not get shorter, the loader was not "
            "the limit."
        ),
        saves=lambda k, peak: part(k.idle_data_loader_ns, k),
        kind="hard",
        grade="observed",
        layer="framework",
        effort="config",
        trust=trust,
        suppresses=("gpu-idle-share",),
        thresholds={"idle_data_loader_ns": ">= 5 % of the span"},
        references=(
            "PyTorch TensorBoard plug-in: data loading above 5 % of a step",
            "PyTorch documentation, torch.utils.data: workers, prefetching, memory pinning",
        ),
        fires=(
            {"span_ns": 1e9, "idle_data_loader_ns": 50e6, "data_loader_time_ns": 60e6},
            {
                "span_ns": 996e6,
                "idle_ns": 393e6,
                "idle_data_loader_ns": 285e6,
                "data_loader_time_ns": 347e6,
            },
        ),
        silent=(
            {"span_ns": 1e9, "idle_data_loader_ns": 49e6, "data_loader_time_ns": 300e6},
            {"span_ns": 1e9, "idle_data_loader_ns": 0.0, "data_loader_time_ns": 0.0},
        ),
    ),
)
