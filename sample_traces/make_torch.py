"""Writes ``torch/``: traces as torch.profiler would write them, of programs that never ran.

Nothing here was measured. A small host and GPU model makes the times: an operator costs the host
a fixed time, a launch call too; a kernel takes as long as its operations or bytes need at a given
percentage of the GPU's peak, starts when its stream is free and its launch has arrived, and a
collective ends on all ranks together. Two runs:

- ``training.rank0.json``, ``training.rank1.json``: three steps of data-parallel training of a
  two-layer transformer (hidden 2,048, 4 x 1,024 tokens, bfloat16) on two H100. The loader of
  rank 1 is slow, so rank 0 waits in the all-reduce; the loss is read back in every step.
- ``decode.json``: four decoding steps of a served model on an MI300X, each a replayed graph.
"""

import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent / "torch"

# NVIDIA H100 SXM5 80GB and AMD Instinct MI300X, dense peaks (traceroof devices).
TENSOR_FLOPS_PER_S, DRAM_BYTES_PER_S, SMS = 989.4e12, 3.35e12, 132
MI300X_BYTES_PER_S = 5.3e12
NVLINK_BYTES_PER_S = 360e9  # of one direction, as an all-reduce reaches it

LAYERS, HIDDEN, HEADS, HEAD, FFN, VOCABULARY = 2, 2048, 16, 128, 8192, 32_000
BATCH, SEQUENCE = 4, 1024
TOKENS = BATCH * SEQUENCE
BF16 = 2

# Host costs in ns.
LAUNCH, OPERATOR, FRAME, LATENCY = 4_200, 3_100, 900, 2_800
GAP = 900  # between two kernels on one stream

MAIN, AUTOGRAD, COMPUTE, COMMUNICATION = 4100, 4188, 7, 20
BASE_NS = 1_751_410_836_000_000_000


@dataclass
class Work:
    """One GPU activity that was launched, in launch order."""

    category: str
    name: str
    stream: int
    launched: int
    duration: int
    args: dict[str, Any]
    after: list[int] = field(default_factory=list)
    is_collective: bool = False
    start: int = 0
    end: int = 0


class Rank:
    """The host of one rank: a clock that operators and launches move, and what they leave."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.random = random.Random(number)
        self.clock = 1_000_000 + 40_000 * number
        self.thread = MAIN
        self.events: list[dict[str, Any]] = []
        self.work: list[Work] = []
        self.correlation = 100
        self.external = self.sequence = self.python = 0

    def event(self, category: str, name: str, start: int, end: int, **args: Any) -> None:
        self.events.append(
            {"ph": "X", "cat": category, "name": name, "pid": 4100, "tid": self.thread,
             "ts": start, "dur": end - start, "args": args}
        )  # fmt: skip

    def tick(self, ns: int) -> None:
        """Host time passes, with a jitter of a tenth."""
        self.clock += ns + self.random.randrange(-ns // 10, ns // 10 + 1)

    @contextmanager
    def range(self, category: str, name: str, cost: int, **args: Any) -> Iterator[None]:
        start = self.clock
        self.tick(cost)
        yield
        self.tick(cost // 2)
        self.event(category, name, start, self.clock, **args)

    @contextmanager
    def annotation(self, name: str) -> Iterator[None]:
        self.external += 1
        with self.range("user_annotation", name, 1_500, **{"External id": self.external}):
            yield

    @contextmanager
    def module(self, name: str) -> Iterator[None]:
        self.python += 1
        with self.range(
            "python_function", f"nn.Module: {name}", FRAME, **{"Python id": self.python}
        ):
            yield

    @contextmanager
    def operator(
        self,
        name: str,
        *shapes: list[int],
        dtypes: str = "c10::BFloat16",
        values: list[str] | None = None,
        sequence: int | None = None,
        **more: Any,
    ) -> Iterator[None]:
        self.external += 1
        args: dict[str, Any] = {"External id": self.external, "Record function id": 0, **more}
        if sequence is not None:
            args["Sequence number"] = sequence
            args["Fwd thread id"] = 0 if self.thread == MAIN else 1
        if shapes:
            args["Concrete Inputs"] = values or [""] * len(shapes)
            args["Input type"] = [dtypes if shape else "Scalar" for shape in shapes]
            args["Input Dims"] = list(shapes)
        with self.range("cpu_op", name, OPERATOR, **args):
            yield

    def launch(
        self,
        name: str,
        duration: float,
        grid: list[int],
        block: int,
        *,
        stream: int = COMPUTE,
        call: str = "cudaLaunchKernel",
        category: str = "kernel",
        registers: int = 40,
        shared: int = 0,
        **more: Any,
    ) -> Work:
        self.correlation += 1
        start = self.clock
        self.tick(LAUNCH)
        self.event("cuda_runtime", call, start, self.clock, correlation=self.correlation,
                   **{"External id": self.external})  # fmt: skip
        args: dict[str, Any] = {"External id": self.external, "device": self.number, "context": 1,
                "stream": stream, "correlation": self.correlation}  # fmt: skip
        if category == "kernel":
            blocks = grid[0] * grid[1] * grid[2]
            warps = -(-block // 32)
            args |= {
                "queued": 0, "registers per thread": registers, "shared memory": shared,
                "blocks per SM": round(blocks / SMS, 6), "warps per SM": round(blocks * warps / SMS, 6),
                "grid": grid, "block": [block, 1, 1],
                "est. achieved occupancy %": min(100, int(100 * min(blocks * warps / SMS, 64) / 64)),
            }  # fmt: skip
        work = Work(category, name, stream, self.clock, max(int(duration), 1_200), args | more)
        self.work.append(work)
        return work


def gemm_ns(m: int, n: int, k: int, percent: float) -> float:
    compute = 2 * m * n * k / TENSOR_FLOPS_PER_S
    moved = BF16 * (m * k + k * n + m * n) / DRAM_BYTES_PER_S
    return max(compute, moved) / percent * 100 * 1e9


def bytes_ns(count: float, percent: float) -> float:
    return count / DRAM_BYTES_PER_S / percent * 100 * 1e9


ELEMENTWISE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::{0}<c10::BFloat16>, "
    "std::array<char*, {1}ul>>(int, at::native::{0}<c10::BFloat16>, std::array<char*, {1}ul>)"
)
GEMM = "nvjet_tst_{0}_64x5_2x1_v_bz_coopA_{1}"
LAYER_NORM = (
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float, "
    "false>(int, float, c10::BFloat16 const*, c10::BFloat16 const*, c10::BFloat16 const*, float*, "
    "float*, c10::BFloat16*)"
)
LAYER_NORM_BACKWARD = (
    "void at::native::(anonymous namespace)::layer_norm_grad_input_kernel_vectorized"
    "<c10::BFloat16, float, false>(c10::BFloat16 const*, c10::BFloat16 const*, float const*, "
    "float const*, c10::BFloat16 const*, c10::BFloat16*, int)"
)
FLASH = (
    "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<128, 128, 64, 4, "
    "false, false, cutlass::bfloat16_t>, false, true>(pytorch_flash::Flash_fwd_params)"
)
FLASH_BACKWARD = (
    "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel"
    "<pytorch_flash::Flash_bwd_kernel_traits<128, 64, 128, 8, 2, 4, 2, false, false, "
    "cutlass::bfloat16_t>, false, true>(pytorch_flash::Flash_bwd_params)"
)
ADAM = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
    "namespace)::FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::"
    "FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)1, false>>"
)
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


class Model:
    """The training program of one rank."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.drawn: list[tuple[int, Callable[[int], None]]] = []

    def draw(self, backward: Callable[[int], None]) -> int:
        """A sequence number; its backward work runs in reverse order."""
        self.rank.sequence += 1
        self.drawn.append((self.rank.sequence, backward))
        return self.rank.sequence

    def product(self, m: int, n: int, k: int, layout: str, tile: str = "256x128") -> None:
        grid = [max(1, m // 256), max(1, n // 128), 1]
        self.rank.launch(GEMM.format(tile, layout), gemm_ns(m, n, k, 71), grid, 384,
                         call="cuLaunchKernelEx", registers=168, shared=213_000)  # fmt: skip

    def linear(self, name: str, n: int, k: int) -> None:
        rank = self.rank

        def backward(sequence: int) -> None:
            with node(rank, "AddmmBackward0", sequence):
                with rank.operator("aten::mm", [TOKENS, n], [n, k]):
                    self.product(TOKENS, k, n, "NNT")
                with rank.operator("aten::mm", [n, TOKENS], [TOKENS, k]):
                    self.product(n, k, TOKENS, "NTT")
                with rank.operator("aten::sum", [TOKENS, n], [], []):
                    rank.launch(
                        "void at::native::reduce_kernel<128, 4, at::native::ReduceOp<c10::BFloat16"
                        ", at::native::func_wrapper_t<c10::BFloat16, at::native::sum_functor<"
                        "c10::BFloat16, float, c10::BFloat16>>, unsigned int, c10::BFloat16, 4>>",
                        bytes_ns(BF16 * TOKENS * n, 62), [n // 128, 1, 1], 512, shared=16,
                    )  # fmt: skip

        with rank.module(name):
            sequence = self.draw(backward)
            with (
                rank.operator("aten::linear", [BATCH, SEQUENCE, k], [n, k], [n], sequence=sequence),
                rank.operator("aten::addmm", [n], [TOKENS, k], [k, n], [], [],
                              values=["", "", "", "1", "1"], sequence=sequence),
            ):  # fmt: skip
                self.product(TOKENS, n, k, "TNT")

    def layer_norm(self, name: str) -> None:
        rank = self.rank
        shape = [BATCH, SEQUENCE, HIDDEN]

        def backward(sequence: int) -> None:
            with (
                node(rank, "NativeLayerNormBackward0", sequence),
                rank.operator("aten::native_layer_norm_backward", shape, shape),
            ):
                rank.launch(LAYER_NORM_BACKWARD, bytes_ns(3 * BF16 * TOKENS * HIDDEN, 64),
                            [TOKENS, 1, 1], 128, shared=512)  # fmt: skip

        with rank.module(name):
            sequence = self.draw(backward)
            with rank.operator("aten::native_layer_norm", shape, [], [HIDDEN], [HIDDEN], [],
                               values=["", f"[{HIDDEN}]", "", "", "1e-05"],
                               sequence=sequence):  # fmt: skip
                rank.launch(LAYER_NORM, bytes_ns(2 * BF16 * TOKENS * HIDDEN, 70),
                            [TOKENS, 1, 1], 128, shared=256)  # fmt: skip

    def elementwise(self, name: str, functor: str, width: int, inputs: int) -> None:
        rank = self.rank
        shape = [BATCH, SEQUENCE, width]

        def launch(count: int, what: str) -> None:
            rank.launch(ELEMENTWISE.format(what, count),
                        bytes_ns(count * BF16 * TOKENS * width, 83),
                        [TOKENS * width // 2048, 1, 1], 128, registers=32)  # fmt: skip

        def backward(sequence: int) -> None:
            title = name.removesuffix("_").capitalize()
            with (
                node(rank, f"{title}Backward0", sequence),
                rank.operator(
                    f"aten::{name}_backward" if inputs == 1 else "aten::mul", shape, shape
                ),
            ):
                launch(3, f"{functor}Backward" if inputs == 1 else "MulFunctor")

        sequence = self.draw(backward)
        with rank.operator(f"aten::{name}", *[shape] * inputs, sequence=sequence):
            launch(inputs + 1, functor)

    def attention(self) -> None:
        rank = self.rank
        shape = [BATCH, HEADS, SEQUENCE, HEAD]
        # Causal: half of the score matrix.
        flop = 2 * BATCH * HEADS * SEQUENCE * SEQUENCE * HEAD
        name = "aten::_scaled_dot_product_flash_attention"

        def backward(sequence: int) -> None:
            with (
                node(rank, "ScaledDotProductFlashAttentionBackward0", sequence),
                rank.operator(f"{name}_backward", *[shape] * 5),
                rank.operator("aten::_flash_attention_backward", *[shape] * 5),
            ):
                rank.launch(FLASH_BACKWARD, 2.5 * flop / TENSOR_FLOPS_PER_S / 0.41 * 1e9,
                            [SEQUENCE // 128, BATCH, HEADS], 256, registers=255,
                            shared=147_456)  # fmt: skip

        sequence = self.draw(backward)
        values = ["", "", "", "0.", "True", "False", ""]
        with (
            rank.operator("aten::scaled_dot_product_attention", shape, shape, shape,
                          sequence=sequence),
            rank.operator(name, shape, shape, shape, [], [], [], [], values=values,
                          sequence=sequence),
            rank.operator("aten::_flash_attention_forward", *[[BATCH, SEQUENCE, HEADS, HEAD]] * 3),
        ):  # fmt: skip
            rank.launch(FLASH, flop / TENSOR_FLOPS_PER_S / 0.52 * 1e9,
                        [SEQUENCE // 128, BATCH, HEADS], 128, registers=255, shared=49_152)  # fmt: skip

    def layer(self, number: int) -> None:
        rank = self.rank
        with rank.module(f"Block_{number}"):
            self.layer_norm(f"LayerNorm_{2 * number}")
            with rank.module(f"Attention_{number}"):
                self.linear(f"Linear_{4 * number}", 3 * HIDDEN, HIDDEN)
                self.attention()
                self.linear(f"Linear_{4 * number + 1}", HIDDEN, HIDDEN)
            self.elementwise("add", "CUDAFunctor_add", HIDDEN, 2)
            self.layer_norm(f"LayerNorm_{2 * number + 1}")
            with rank.module(f"MLP_{number}"):
                self.linear(f"Linear_{4 * number + 2}", FFN, HIDDEN)
                self.elementwise("gelu", "GeluCUDAKernelImpl", FFN, 1)
                self.linear(f"Linear_{4 * number + 3}", HIDDEN, FFN)
            self.elementwise("add", "CUDAFunctor_add", HIDDEN, 2)

    def all_reduce(self, elements: int) -> None:
        rank = self.rank
        what: dict[str, Any] = {
            "Collective name": "allreduce", "In msg nelems": elements, "Out msg nelems": elements,
            "Group size": 2, "dtype": "BFloat16", "Process Group Name": "0",
            "Process Group Description": "default_pg", "Process Group Ranks": "[0, 1]",
        }  # fmt: skip
        with (
            rank.annotation("nccl:all_reduce"),
            rank.operator("c10d::allreduce_", [elements]),
            rank.operator("record_param_comms", [elements], **what),
        ):
            # A ring of two moves 2 (n - 1) / n = 1 times the message.
            duration = elements * BF16 / NVLINK_BYTES_PER_S * 1e9 + 12_000
            work = rank.launch(ALL_REDUCE, duration, [24, 1, 1], 512, stream=COMMUNICATION,
                               call="cudaLaunchKernelExC", registers=96, shared=103_808,
                               **what)  # fmt: skip
            work.is_collective = True
            work.after = [index for index, one in enumerate(rank.work) if one.stream == COMPUTE][
                -1:
            ]

    def step(self, number: int, loader_ns: int) -> Iterator[None]:
        """One training step; yields where the host waits for the GPU."""
        rank = self.rank
        start = rank.clock
        with rank.annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"):
            rank.tick(loader_ns)
        with (
            rank.operator("aten::to", [BATCH, SEQUENCE], dtypes="long int"),
            rank.operator("aten::copy_", *[[BATCH, SEQUENCE]] * 2, [], dtypes="long int"),
        ):
            count = TOKENS * 8
            rank.launch("Memcpy HtoD (Pageable -> Device)", count / 9e9 * 1e9, [], 0,
                        call="cudaMemcpyAsync", category="gpu_memcpy", bytes=count)  # fmt: skip
        self.drawn.clear()
        with rank.module("Transformer_0"):
            for layer in range(LAYERS):
                self.layer(layer)
            self.linear("Linear_99", VOCABULARY, HIDDEN)
        with rank.operator("aten::_log_softmax", [TOKENS, VOCABULARY], [], []):
            rank.launch(
                "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16, "
                "float, float, at::native::(anonymous namespace)::LogSoftMaxForwardEpilogue>"
                "(float*, c10::BFloat16 const*, int)",
                bytes_ns(2 * BF16 * TOKENS * VOCABULARY, 78), [TOKENS, 1, 1], 1024, shared=4096,
            )  # fmt: skip
        self.backward()
        with rank.annotation("Optimizer.step#AdamW.step"):
            parameters = LAYERS * 12 * HIDDEN * HIDDEN + VOCABULARY * HIDDEN
            with rank.operator("aten::_fused_adamw_"):
                work = rank.launch(ADAM, bytes_ns(28 * parameters, 74), [2400, 1, 1], 512,
                                   registers=64)  # fmt: skip
                work.after = [
                    index for index, one in enumerate(rank.work) if one.stream == COMMUNICATION
                ][-1:]
        with (
            rank.operator("aten::item", []),
            rank.operator("aten::_local_scalar_dense", []),
        ):
            copied = rank.launch("Memcpy DtoH (Device -> Pageable)", 1_400, [], 0,
                                 call="cudaMemcpyAsync", category="gpu_memcpy", bytes=4)  # fmt: skip
            waiting = rank.clock
            rank.correlation += 1
            yield
            rank.clock = max(rank.clock, copied.end) + 2_000
            rank.event("cuda_runtime", "cudaStreamSynchronize", waiting, rank.clock,
                       correlation=rank.correlation)  # fmt: skip
        rank.tick(20_000)
        rank.event("user_annotation", f"ProfilerStep#{number}", start - 2_000, rank.clock)

    def backward(self) -> None:
        rank = self.rank
        rank.tick(30_000)
        rank.thread = AUTOGRAD
        half = len(self.drawn) // 2
        for index, (sequence, work) in enumerate(reversed(self.drawn)):
            work(sequence)
            if index in (half, len(self.drawn) - 1):
                self.all_reduce(LAYERS * 6 * HIDDEN * HIDDEN + VOCABULARY * HIDDEN // 2)
        rank.thread = MAIN


@contextmanager
def node(rank: Rank, name: str, sequence: int) -> Iterator[None]:
    with (
        rank.operator(f"autograd::engine::evaluate_function: {name}", sequence=sequence),
        rank.operator(name, sequence=sequence),
    ):
        yield


def schedule(ranks: list[Rank], done: int) -> int:
    """Give the work launched since ``done`` its times on the GPUs; how much there is by now."""
    count = len(ranks[0].work)
    for index in range(done, count):
        works = [rank.work[index] for rank in ranks]
        for rank, work in zip(ranks, works, strict=True):
            earlier = [one.end for one in rank.work[:index] if one.stream == work.stream][-1:]
            free = max([end + GAP for end in earlier], default=0)
            ready = max([rank.work[at].end + GAP for at in work.after], default=0)
            work.start = max(work.launched + LATENCY, free, ready)
            work.end = work.start + work.duration
        if works[0].is_collective:
            together = max(work.end for work in works)
            for work in works:
                work.end = together
    return count


def training() -> None:
    ranks = [Rank(0), Rank(1)]
    models = [Model(rank) for rank in ranks]
    # Rank 1 loads its batches from a slow disk.
    loading = [[180_000, 150_000, 160_000], [900_000, 2_600_000, 2_300_000]]
    done = 0
    for number in range(3):
        steps = [model.step(number + 4, loading[model.rank.number][number]) for model in models]
        for step in steps:
            next(step)
        done = schedule(ranks, done)
        for step in steps:
            next(step, None)
    for rank in ranks:
        write(
            f"training.rank{rank.number}.json",
            [*rank.events, *(activity(work) for work in rank.work)],
            deviceProperties=[
                {"id": number, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_017_755_648,
                 "computeMajor": 9, "computeMinor": 0, "maxThreadsPerBlock": 1024,
                 "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536, "warpSize": 32,
                 "sharedMemPerBlock": 49152, "numSms": SMS}
                for number in range(2)
            ],
            distributedInfo={
                "backend": "nccl", "rank": rank.number, "world_size": 2, "pg_count": 1,
                "pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": 2,
                               "ranks": [0, 1]}],
            },
            with_stack=1,
        )  # fmt: skip


def activity(work: Work) -> dict[str, Any]:
    return {"ph": "X", "cat": work.category, "name": work.name, "pid": work.args["device"],
            "tid": work.stream, "ts": work.start, "dur": work.end - work.start,
            "args": work.args}  # fmt: skip


# What one layer of the served model runs when a token is decoded: kernel and bytes it moves.
# 32 sequences, hidden 4,096, feed-forward 14,336, 8 heads of keys and values, bfloat16.
DECODE_LAYER = (
    ("_ZN4vllm25fused_add_rms_norm_kernelIN3c108BFloat16ELi8EEEvPT_S3_PKS2_fii", 32 * 4096 * 8),
    ("Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT32x64x128_MI16x16x1_SN_LDSB1", 4096 * 6144 * 2),
    ("_ZN4vllm23rotary_embedding_kernelIN3c108BFloat16ELb1EEEvPKlPT_S5_PKS4_illiii", 32 * 5120 * 4),
    ("_ZN4vllm30reshape_and_cache_flash_kernelI14__hip_bfloat16S1_LNS_18Fp8KVCacheDataTypeE0EEE",
     32 * 2048 * 4),
    ("_Z39paged_attention_ll4mi_QKV_mfma16_kernelI14__hip_bfloat16Li16ELi128ELi256EEvPKT_S3_S3_fi",
     32 * 2100 * 8 * 128 * 2 * 2),
    ("_Z35paged_attention_ll4mi_reduce_kernelI14__hip_bfloat16Li128ELi128ELi256EEvPT_PKf",
     32 * 4096 * 12),
    ("Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT32x32x256_MI16x16x1_SN_LDSB1", 4096 * 4096 * 2),
    ("_ZN4vllm25fused_add_rms_norm_kernelIN3c108BFloat16ELi8EEEvPT_S3_PKS2_fii", 32 * 4096 * 8),
    ("Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT64x128x64_MI16x16x1_SN_LDSB1",
     4096 * 28672 * 2),
    ("_ZN4vllm18act_and_mul_kernelIN3c108BFloat16ETnPFT_RKS3_EXadL_ZNS_11silu_kernelEEEEEvPS3_i",
     32 * 14336 * 6),
    ("Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT32x64x256_MI16x16x1_SN_LDSB1",
     14336 * 4096 * 2),
)  # fmt: skip
DECODE_LAYERS = 8


def decode() -> None:
    """Each step: the new tokens are copied in, a graph is replayed, a token is sampled."""
    clock, correlation = 1_000_000, 5_000
    events: list[dict[str, Any]] = []

    def event(
        category: str, name: str, start: int, end: int, pid: int, tid: int, **args: Any
    ) -> None:
        events.append({"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid,
                       "ts": start, "dur": end - start, "args": args})  # fmt: skip

    free = 0
    for step in range(4):
        begin = clock
        clock += 140_000  # the scheduler, in Python
        correlation += 1
        event("cpu_op", "aten::copy_", clock, clock + 16_000, 851, 851,
              **{"Input Dims": [[32], [32], []], "Input type": ["int", "int", "Scalar"]})  # fmt: skip
        event("cuda_runtime", "hipMemcpyWithStream", clock + 4_000, clock + 13_000, 851, 851,
              correlation=correlation, size="128", kind="1")  # fmt: skip
        start = max(free, clock + 7_000)
        free = start + 4_100
        event("gpu_memcpy", "Memcpy HtoD (Host -> Device)", start, free, 2, 0, device=2, stream=0,
              correlation=correlation, kind="HtoD", bytes=128)  # fmt: skip
        clock += 60_000
        correlation += 1
        event("cuda_runtime", "hipGraphLaunch", clock, clock + 95_000, 851, 851,
              correlation=correlation)  # fmt: skip
        start = max(free, clock + 30_000)
        for _ in range(DECODE_LAYERS):
            for name, moved in DECODE_LAYER:
                start += 1_300
                end = start + max(2_100, int(moved / MI300X_BYTES_PER_S / 0.62 * 1e9))
                event("kernel", name, start, end, 2, 0, device=2, stream=0,
                      correlation=correlation, kind="Dispatch Task")  # fmt: skip
                start = end
        free = start
        clock += 120_000
        correlation += 1
        event("cpu_op", "aten::argmax", clock, clock + 21_000, 851, 851,
              **{"Input Dims": [[32, 128256], [], []],
                 "Input type": ["float", "Scalar", "Scalar"],
                 "Concrete Inputs": ["", "-1", "False"]})  # fmt: skip
        name = ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
                "at::native::ArgMaxOps<float>, unsigned int, long, 4, 4>>")  # fmt: skip
        event("cuda_runtime", "hipLaunchKernel", clock + 9_000, clock + 16_000, 851, 851,
              correlation=correlation, kernel=name, grid=[32, 1, 1], block=[512, 1, 1],
              **{"shared memory": 4096})  # fmt: skip
        start = max(free + 1_300, clock + 19_000)
        free = start + 14_800
        event("kernel", name, start, free, 2, 0, device=2, stream=0, correlation=correlation,
              kind="Dispatch Kernel", grid=[32, 1, 1], block=[512, 1, 1])  # fmt: skip
        correlation += 1
        event("cuda_runtime", "hipStreamSynchronize", clock + 22_000, free + 3_000, 851, 851,
              correlation=correlation)  # fmt: skip
        clock = free + 9_000
        length = 2_080 + step
        event("user_annotation",
              f"execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk{32 * length}"
              f"sqsq32sqsk{32 * length})", begin, clock, 851, 851)  # fmt: skip
        clock += 55_000
    write(
        "decode.json",
        events,
        deviceProperties=[
            {"id": 0, "name": "AMD Instinct MI300X", "totalGlobalMem": 206_141_652_992,
             "computeMajor": 9, "computeMinor": 4, "maxThreadsPerBlock": 1024,
             "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 131072, "warpSize": 64,
             "sharedMemPerBlock": 65536, "numSms": 304}
        ],
        roctracer_version=4.1,
        hip_runtime_version=71460850,
        distributedInfo={"backend": "nccl", "rank": 0, "world_size": 1},
    )  # fmt: skip


def write(name: str, events: list[dict[str, Any]], **top: Any) -> None:
    """A trace in Kineto's order of keys, an event a line, times in microseconds."""
    head = {"schemaVersion": 1, **top, "record_shapes": 1, "displayTimeUnit": "ms",
            "baseTimeNanoseconds": BASE_NS}  # fmt: skip
    lines = [json.dumps({**one, "ts": "@ts", "dur": "@dur"})
             .replace('"@ts"', microseconds(one["ts"])).replace('"@dur"', microseconds(one["dur"]))
             for one in events]  # fmt: skip
    text = (
        json.dumps(head)[:-1] + ', "traceEvents": [\n' + ",\n".join(lines)
        + f'\n], "traceName": "{name}"}}\n'
    )  # fmt: skip
    HERE.mkdir(exist_ok=True)
    (HERE / name).write_text(text, "utf-8")


def microseconds(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03}"


if __name__ == "__main__":
    training()
    decode()
