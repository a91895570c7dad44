"""Several GPUs driven the slow way."""

from traceroof.rule import Rule, above, at_least
from traceroof.rules._timelines import MATTERS

RULES = (
    Rule(
        id="dp-instead-of-ddp",
        topic="exposed-communication",
        title="torch.nn.DataParallel instead of DistributedDataParallel",
        scope="timeline",
        why=(
            "DataParallel drives all GPUs from one Python process. It copies the model to each "
            "GPU at every step and gathers the outputs on the first, and all threads share one "
            "interpreter lock."
        ),
        condition="more than {data_parallel_calls} forward passes of DataParallel in the trace",
        needs=("data_parallel_calls",),
        uses=("idle_pct", "communication_ns"),
        when=lambda k: k.meets("data_parallel_calls"),
        because="the trace holds {data_parallel_calls:,.0f} forward passes of DataParallel",
        fix=(
            "Use DistributedDataParallel with one process per GPU (torchrun), also on one machine."
        ),
        refute="Compare the time of a step. It must fall on two GPUs already.",
        kind="option",
        grade="observed",
        layer="framework",
        effort="refactor",
        severity="info",
        thresholds={"data_parallel_calls": above(0)},
        references=(
            "PyTorch TensorBoard plug-in: DataParallel recommendation",
            "PyTorch documentation, torch.nn.DataParallel: use DistributedDataParallel instead",
        ),
        fires=({"data_parallel_calls": 1.0}, {"data_parallel_calls": 12.0, "idle_pct": 40.0}),
        silent=({"data_parallel_calls": 0.0}, {"data_parallel_calls": 0.0, "idle_pct": 90.0}),
    ),
    Rule(
        id="non-nccl-backend",
        topic="slow-communication",
        title="Collectives run on the host",
        scope="timeline",
        why=(
            "Gloo and MPI move GPU tensors through host memory. NCCL and RCCL move them between "
            "the GPUs, beside the kernels."
        ),
        condition=(
            "host-side collectives or barriers take {host_collective_time_ns:.0%} of the span or "
            "more, and the GPU is idle for them for {idle_communication_ns:.0%} or more"
        ),
        needs=("host_collective_time_ns", "idle_communication_ns", "span_ns"),
        uses=("collectives",),
        when=lambda k: k.meets("host_collective_time_ns") & k.meets("idle_communication_ns"),
        because=(
            "the host spends {host_collective_time_ns} in collectives and barriers of its own, and "
            "the GPU waits for {idle_communication_ns}"
        ),
        fix=(
            "Use init_process_group('nccl') (also for RCCL on AMD GPUs), or a backend for each "
            "kind of tensor: 'cpu:gloo,cuda:nccl'. Keep barriers out of the step."
        ),
        refute="Switch the backend for one run. The waits must shrink.",
        saves=lambda k, peak: k.idle_communication_ns / k.span_ns,
        kind="hard",
        grade="observed",
        layer="framework",
        effort="one-line",
        thresholds={
            "host_collective_time_ns": at_least(MATTERS, of="span_ns"),
            "idle_communication_ns": at_least(0.01, of="span_ns"),
        },
        references=("PyTorch TensorBoard plug-in: use NCCL for GPU communication",),
        fires=(
            {"span_ns": 100e6, "host_collective_time_ns": 5e6, "idle_communication_ns": 1e6},
            {"span_ns": 100e6, "host_collective_time_ns": 60e6, "idle_communication_ns": 55e6},
        ),
        silent=(
            {"span_ns": 100e6, "host_collective_time_ns": 4.9e6, "idle_communication_ns": 4e6},
            {"span_ns": 100e6, "host_collective_time_ns": 60e6, "idle_communication_ns": 0.99e6},
        ),
    ),
)
