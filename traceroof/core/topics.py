"""What a finding is about: the vocabulary of ``Rule.topic`` and of the advice.

A topic is one thing that one person can go and do something about. Its ``claims`` say which part of
the run's time a fix of that topic takes its saving from, so that two fixes never promise the same
time: causes of idle time (``traceroof.timeline.CAUSES``, patterns allowed; ``pause`` is the part of
``host`` in waits of 1 ms or longer), ``communication`` and ``copy`` that nothing hides (what of
the first a slow link or late ranks cost has claims of its own), or ``kernels``.
"""

from collections.abc import Mapping
from dataclasses import dataclass

KERNELS = "kernels"
COMMUNICATION = "communication"
#: What of it a slow link and ranks that take longer cost: other causes, so that both add up.
SLOW_LINK, LATE_RANK = "communication:slow-link", "communication:late-rank"
COPY = "copy"
#: All idle time, whatever its cause.
IDLE = "idle:*"


@dataclass(frozen=True)
class Topic:
    """One topic: what it is about, in words, and what its savings are taken from.

    claims: see above. categories: where the claim is on kernels of a run, only those of these
    operator categories (all when empty); a finding on one kernel or category claims from that.
    measurement: it says how far the recording can be trusted, not what to speed up; unfit: there
    may be nothing to be learnt from it, so that it comes first where it doubts most. summary: it
    describes the run where no cause is known. once: its time passes once per process, so it is no
    saving of the steady state. whole_run: one switch for the whole run, so one entry, whatever the
    kernels. nothing: where that is all
    there is to say, there is nothing to speed up.
    """

    words: str
    claims: tuple[str, ...] = (KERNELS,)
    categories: tuple[str, ...] = ()
    measurement: bool = False
    unfit: bool = False
    summary: bool = False
    once: bool = False
    whole_run: bool = False
    nothing: bool = False


def _idle(*causes: str) -> tuple[str, ...]:
    return tuple(f"idle:{cause}" for cause in causes)


TOPICS: Mapping[str, Topic] = {
    # The host, and what the GPU waits for.
    "cold-start": Topic(
        "first launches, module load, compilation, tuning",
        _idle("cold", "load", "collect"),
        once=True,
        unfit=True,
    ),
    "host-bound-launch": Topic(
        "the host launches more slowly than the GPU runs",
        _idle("host", "launch", "back_to_back", "unknown", "pause"),
    ),
    "host-bound-other": Topic(
        "the host does something else", _idle("pause", "host", "collect", "unknown")
    ),
    "dependency-wait": Topic("work waits for an event or a stream", _idle("dependency")),
    "sync": Topic("the host waits for the GPU, which then goes idle", _idle("sync")),
    "dataloader": Topic("the host prepares the next batch", _idle("data_loader")),
    "allocation": Topic("memory is allocated or freed", _idle("allocate")),
    "idle": Topic("the GPU is idle", (IDLE,), summary=True),
    "uneven-steps": Topic("some steps take longer", (IDLE, KERNELS)),
    "profiler-overhead": Topic("the profiler slows the host", _idle("profiler", "host", "pause")),
    # Copies and communication.
    "input-copy": Topic("copies between host and device", (COPY, *_idle("copy"))),
    "device-copy": Topic("copies within the device"),
    "exposed-communication": Topic("communication that nothing hides", (COMMUNICATION,)),
    "slow-communication": Topic("communication below the speed of its link", (COMMUNICATION,)),
    "slow-link": Topic("one link is slower than others of its kind", (SLOW_LINK, COMMUNICATION)),
    "small-messages": Topic("many small collectives", (COMMUNICATION,)),
    "late-rank": Topic(
        "some ranks keep the others waiting",
        (LATE_RANK, COMMUNICATION, *_idle("communication")),
    ),
    # The measurement itself.
    "recording-skew": Topic(
        "ranks start recording at different times", (COMMUNICATION,), measurement=True, unfit=True
    ),
    "lost-records": Topic("the profiler lost records", (), measurement=True, unfit=True),
    "too-short-to-judge": Topic("too little was recorded", (), measurement=True, unfit=True),
    "blocking-launches": Topic(
        "each launch waits for its kernel", (IDLE,), measurement=True, unfit=True
    ),
    "clock-falls": Topic("the clock falls along the run"),
    "clock": Topic("the clock is low or falls", (KERNELS,), measurement=True, unfit=True),
    "measurement": Topic("figures that do not fit together", (), measurement=True),
    "not-enough-metrics": Topic("what would decide was not collected", nothing=True),
    "not-comparable": Topic("the two runs differ in more than the code", (), measurement=True),
    # Operators.
    "gemm-precision": Topic(
        "products in a wider type than needed", whole_run=True, categories=("gemm", "conv")
    ),
    "quantisation": Topic("weights in fewer bits", whole_run=True, categories=("gemm", "conv")),
    "gemm-efficiency": Topic("products far from their roof", categories=("gemm", "conv")),
    "gemm-shape": Topic("sizes that products take badly", categories=("gemm", "conv")),
    "conv-efficiency": Topic("convolutions far from their roof", categories=("conv",)),
    "attention-kernel": Topic(
        "attention far from its roof", categories=("attention", "softmax", "gemm")
    ),
    "unfused-norm": Topic(
        "normalisation in several kernels",
        categories=("norm", "reduction", "elementwise", "softmax"),
    ),
    "unfused-elementwise": Topic(
        "element-wise kernels on the same data",
        categories=("elementwise", "norm", "reduction", "quantize"),
    ),
    "layout": Topic("conversions of layout", categories=("layout", "elementwise")),
    "precision-cast": Topic("casts between element types", categories=("quantize", "elementwise")),
    "small-kernels-graph": Topic(
        "launches that a graph would replay", _idle("host", "launch", "back_to_back", "unknown")
    ),
    "small-kernels": Topic("many short kernels", (KERNELS, *_idle("back_to_back")), summary=True),
    "moe": Topic("experts", categories=("moe-routing", "gemm", "sort-scan")),
    "memory-bandwidth-decode": Topic(
        "decoding reads weights or cache slowly", categories=("gemm", "attention")
    ),
    "mixed-prefill-decode": Topic("prompts and tokens in one pass"),
    "kv-cache": Topic("writing the key-value cache"),
    "sampling": Topic(
        "choosing the next token", categories=("sort-scan", "softmax", "reduction", "random")
    ),
    "embedding": Topic("table look-ups and their gradients", categories=("embedding", "reduction")),
    "optimizer": Topic("the optimizer step", categories=("optimizer", "elementwise")),
    "kernel-efficiency": Topic("kernels far from their roof"),
    "fallback-kernel": Topic("a generic implementation"),
    "summary": Topic("where the time goes", summary=True),
    # Kernels, by counters.
    "uncoalesced": Topic("bytes move that no thread asked for"),
    "bank-conflicts": Topic("shared-memory accesses collide"),
    "small-grid": Topic("too few blocks for the device"),
    "tail-wave": Topic("the last wave of blocks is partly empty"),
    "occupancy-registers": Topic("registers limit the resident warps"),
    "occupancy-shared": Topic("shared memory limits the resident warps"),
    "occupancy-block": Topic("the block size limits the resident warps"),
    "long-scoreboard-latency": Topic("warps wait for loads"),
    "latency": Topic("neither compute nor memory is busy"),
    "barrier": Topic("warps wait at barriers"),
    "math-pipe": Topic("an execution pipe is the limit"),
    "tensor-cores-unused": Topic("tensor cores stay idle"),
    "fp64": Topic("double precision"),
    "fp32-gemm-precision": Topic("an FP32 product where a narrower type would do", whole_run=True),
    "divergence": Topic("instructions run for too few threads"),
    "atomics": Topic("atomic operations"),
    "spills": Topic("registers spill to local memory"),
    "dram-wall": Topic("device memory is the limit", nothing=True),
    "l1-traffic": Topic("the first-level cache or shared memory is the limit"),
    "l2-traffic": Topic("the second-level cache is the limit"),
    "write-drain": Topic("warps wait for their stores"),
    "memory-fence": Topic("warps wait for memory fences"),
    "instruction-fetch": Topic("warps wait for instructions"),
    "imbalance": Topic("units carry uneven load"),
    "remote-memory": Topic("data lies behind a link or fabric"),
    "problem-too-small": Topic("the problem does not fill the device"),
    "algorithm": Topic("the algorithm does more work than needed"),
    "random-setup": Topic("set-up of random numbers", nothing=True),
    "toy-kernel-nothing-to-gain": Topic("a toy kernel", nothing=True),
    "nothing-to-gain": Topic("as fast as it can be", nothing=True),
    # Two runs.
    "change": Topic("what changed between two runs"),
}
