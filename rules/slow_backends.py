"""Several GPUs driven the slow way."""

from traceroof.rule import Rule, above
from traceroof.rules._timelines import MATTERS

RULES = (
    Rule(
        id="dp-instead-of-ddp",
        topic="exposed-communication",
        title="torch.nn.DataParallel instead of DistributedDataParallel",
        scope="timeline",
        why=(
            "DataParallel drives all GPUs from one Python process: it copies the model to each at "
            "every step, gathers the outputs on the first, and all threads share one interpreter "
            "lock."
        ),
        condition="a forward pass of DataParallel in the trace",
        needs=("data_parallel_calls",),
        uses=("idle_pct", "communication_ns"),
        when=lambda k: k.meets("data_parallel_calls"),
        because="the trace holds {data_parallel_calls:,.0f} forward passes of DataParallel",
        fix="Use DistributedDataParallel with one process a GPU (torchrun), also on one machine.",
        refute="Compare the time of a step: it must fall on two GPUs already.",
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
            "host-side collectives or barriers for 5 % of the span or more, and the GPU idle for "
            "them for 1 % or more"
        ),
        needs=("host_collective_time_ns", "idle_communication_ns", "span_ns"),
        uses=("collectives",),
        when=lambda k: (
            (k.host_collective_time_ns >= MATTERS * k.span_ns)
            & (k.idle_communication_ns >= 0.01 * k.span_ns)
        ),
        because=(
            "the host spends {host_collective_time_ns} in collectives and barriers of its own, and "
            "the GPU waits for {idle_communication_ns}"
        ),
        fix=(
            "init_process_group('nccl') (on AMD GPUs RCCL goes by that name), or a backend for "
            "each kind of tensor: 'cpu:gloo,cuda:nccl'. Keep barriers out of the step."
        ),
        refute="Switch the backend for one run: the waits must shrink.",
        saves=lambda k, peak: k.idle_communication_ns / k.span_ns,
        kind="hard",
        grade="observed",
        layer="framework",
        effort="one-line",
        thresholds={
            "host_collective_time_ns": ">= 5 % of the span",
            "idle_communication_ns": ">= 1 % of the span",
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
