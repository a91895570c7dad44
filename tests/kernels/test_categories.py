"""Operator categories: the tables, the traps, the spellings, and the accuracy on real labels."""

import csv
import re
import time
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceroof.core.text_search import FEW
from traceroof.kernels import categories
from traceroof.kernels.categories import (
    CATEGORIES,
    KernelPattern,
    categories_of,
    category_of,
    head_of,
    kernel_pattern_of,
    kernel_patterns,
    operator_pattern_of,
    operator_patterns,
)

DESIGN_CATEGORIES = (
    "gemm attention conv norm softmax elementwise reduction embedding moe-routing layout "
    "communication optimizer loss pooling sort-scan random quantize memcpy memset other"
)


def row_id(at: int, row: categories.KernelPattern | categories.OperatorPattern) -> str:
    return f"{at}-{row.category}-{row.family[:40]}"


KERNEL_ROWS = [pytest.param(r, id=row_id(i, r)) for i, r in enumerate(kernel_patterns())]
OPERATOR_ROWS = [pytest.param(r, id=row_id(i, r)) for i, r in enumerate(operator_patterns())]


# --------------------------------------------------------------------------------- the tables


def test_categories_are_those_of_the_design() -> None:
    assert " ".join(CATEGORIES) == DESIGN_CATEGORIES


@pytest.mark.parametrize("row", KERNEL_ROWS)
def test_a_kernel_row_wins_its_own_samples(row: categories.KernelPattern) -> None:
    assert row.category in CATEGORIES
    assert row.family
    assert row.samples
    for sample in row.samples:
        winner = kernel_pattern_of(sample)
        assert winner is not None, sample
        assert winner is row, f"{sample} goes to {winner.category} ({winner.family})"


@pytest.mark.parametrize("row", OPERATOR_ROWS)
def test_an_operator_row_wins_its_own_samples(row: categories.OperatorPattern) -> None:
    assert row.category in CATEGORIES
    assert row.family
    assert row.samples
    for sample in row.samples:
        winner = operator_pattern_of(sample)
        assert winner is not None, sample
        assert winner is row, f"{sample} goes to {winner.category} ({winner.family})"


def test_the_rows_cover_every_category_and_every_rank() -> None:
    assert {row.category for row in kernel_patterns()} == set(CATEGORIES)
    assert {row.overrides for row in operator_patterns()} == {"all", "generic", "other"}


# ---------------------------------------------------------------------------------- the heads


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("volta_sgemm_128x32_nn", "volta_sgemm_128x32_nn"),
        ("void cub::Kernel<A<B>, 4>(int, float*)", "cub::Kernel"),
        ("reduce1(int*)", "reduce1"),
        ("void at::native::(anonymous namespace)::f<float>(int)", "at::native::f"),
        ("void <unnamed>::f<<unnamed>::T<2>, int>(T1 *)", "f"),
        ("std::enable_if<(((8)>(0)))&&a::b<c>::d, void>::type vllm::k<e, 8>(int)", "vllm::k"),
        ("std::enable_if<!(false), void>::type internal::gemvx::kernel<int>(P<int>)",
         "internal::gemvx::kernel"),
        ("_ZN5aiter11topksoftmaxIDF16bLi8EEEvPKT_", "aiter::topksoftmax"),
        ("_ZN2at6native12_GLOBAL__N_117vectorized_gatherILi4EEEvT_.kd",
         "at::native::vectorized_gather"),
        ("_ZL13mul_mat_vec_qIL9ggml_type12EEvPKv", "mul_mat_vec_q"),
        ("_Z28kn_fmla_fwd_splictkv_combineI1TEvv", "kn_fmla_fwd_splictkv_combine"),
        ("vecCopy(double*, double*) [clone .kd]", "vecCopy"),
        ("Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD"),
        ("void at::native::cut_off_by_the_tool<float, (int)4, at::nat...",
         "at::native::cut_off_by_the_tool"),
        ("_Zunreadable", "_Zunreadable"),
        ("", ""),
    ],
)  # fmt: skip
def test_head_of(name: str, head: str) -> None:
    assert head_of(name) == head


# ----------------------------------------------------------- traps seen in real traces and families


@pytest.mark.parametrize(
    ("name", "category"),
    [
        # fbgemm contains gemm
        ("void fbgemm_gpu::permute_2D_lengths_kernel<int>(int, int, int const*)", "embedding"),
        ("fbgemm_gpu::_offsets_range_cuda_kernel<int>(long)", "embedding"),
        # mse, without case, is in Memset
        ("Memset (Device)", "memset"),
        ("[CUDA memset]", "memset"),
        ("mse_loss_kernel", "loss"),
        # turing_ and volta_ are convolutions or products; scudnn decides
        ("cudnn_turing_scudnn_128x64_relu_interior_nn_v1", "conv"),
        ("volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1", "conv"),
        ("volta_sgemm_128x64_nn", "gemm"),
        ("volta_fp16_s884cudnn_fp16_256x128_ldg8_relu_f2f_exp_small_nhwc2nchw_tn_v1", "conv"),
        ("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn", "gemm"),
        # Tensile names carry every token
        ("Cijk_Ailk_Bjlk_BBS_BH_MT32x32x64_SN_ASE_ASLT_CLR1_SASS_SNLL0_NLL_softmax_norm", "gemm"),
        # softmax inside the template arguments of an elementwise kernel
        ("void at::native::vectorized_elementwise_kernel<4, at::native::softmax_scale<float>>(int)",
         "elementwise"),
        # reduce is in the names of collectives and of split-K
        ("ncclDevKernel_Reduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "communication"),
        ("ncclKernel_ReduceScatter_RING_LL_Sum_half(ncclWorkElem)", "communication"),
        ("void splitKreduce_kernel<32, 16, int, float, float>(cublasSplitKParams<float>)", "gemm"),
        ("void cudnn::cnn::reduce_wgrad_nchw_helper<float>(float*)", "conv"),
        # cutlass does products, convolutions, attention and norms
        ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_16x6_tn_align4>(P)", "gemm"),
        ("void cutlass::Kernel<cutlass_tensorop_s1688fprop_optimized_tf32_64x64_nhwc>(P)", "conv"),
        ("void cutlass::device_kernel<flash::FlashAttnFwdSm90<int> >(P)", "attention"),
        ("fmha_cutlassF_f32_aligned_64x64_rf_sm80(P)", "attention"),
        ("kernel_cutlass_kernel_flashinfernormkernelsfused_add_rmsnormFusedAddRMSNormKernel_object",
         "norm"),
        ("void Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_32x6_tn_align8>(P)",
         "gemm"),
        # combine is expert parallelism, split-KV attention and MoE
        ("void deep_ep::intranode::combine<__nv_bfloat16, 8, 768>(int)", "communication"),
        ("void flash::flash_fwd_splitkv_combine_kernel<T, 4, 7, true>(P)", "attention"),
        ("_Z28kn_fmla_fwd_splictkv_combineI1TEvv", "attention"),
        ("moe_combine_kernel", "moe-routing"),
        # topk is routing and sorting; sampling with top-k is sampling
        ("void vllm::moe::topkGatingSoftmax<4, 128>(float const*)", "moe-routing"),
        ("void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>(int)", "sort-scan"),
        ("void flashinfer::sampling::TopKSamplingFromProbKernel<1024u, true, float, int>(float*)",
         "random"),
        # implicit_gemm is a convolution, computeOffsets belongs to one
        ("sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc_kernel", "conv"),
        ("cask_cudnn::computeWgradBOffsetsKernel(P)", "conv"),
        # convert is no convolution, conv3 in a word is
        ("void convert_unary<float, __half>(void const*, __half*)", "layout"),
        # XLA names a fusion after its last instruction: what else it does is not in the name
        ("loop_convert_fusion", "elementwise"),
        ("wrapped_convert.kd", "layout"),
        # pooled embeddings are no pooling
        ("void permute_pooled_embs_kernel<float>(float const*)", "embedding"),
        # rotary embedding is no embedding, rope_norm no norm
        ("void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)", "elementwise"),
        ("void rope_norm<true, false, float>(float const*)", "elementwise"),
        # a vector norm is a reduction, not a normalisation
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, NormTwoOps<float>>>()",
         "reduction"),
        # lambda contains lamb
        ("void at::native::vectorized_elementwise_kernel<4, f()::{lambda()#1}>(int)",
         "elementwise"),
        # masked_fill chooses, FillFunctor fills
        ("void at::native::vectorized_elementwise_kernel<4, at::native::masked_fill_kernel<bool>>()",
         "elementwise"),
        # nonzero counts with a reduction; elsewhere a cub reduction is one
        ("void cub::DeviceReduceKernel<P, cub::TransformInputIterator<bool, NonZeroOp<bool>>>(int)",
         "sort-scan"),
        ("void cub::DeviceReduceKernel<P, float*, float*>(int)", "reduction"),
        # dot_kernel is cuBLAS only with cuBLAS parameters
        ("void dot_kernel<float, 128, 0, cublasDotParams<cublasGemvTensor<float>>>(int)", "gemm"),
        ("void dot_kernel<double>(double const*, double const*)", "reduction"),
        # Inductor: the heaviest operation decides
        ("triton_poi_fused_add_gelu_3", "elementwise"),
        ("triton_red_fused_add_native_layer_norm_1", "norm"),
        ("triton_per_fused__softmax_2", "softmax"),
        ("triton_red_fused__log_softmax_nll_loss_forward_2", "loss"),
        ("triton_per_fused__to_copy_add_mean_mul_pow_rsqrt_0", "norm"),
        ("triton_poi_fused_embedding_0", "embedding"),
        ("triton_poi_fused__unsafe_view_clone_11", "layout"),
        ("triton_poi_fused__unsafe_view_clone_mul_11", "elementwise"),
        ("triton_tem_fused_flex_attention_0", "attention"),
        ("triton_tem_fused_mm_0", "gemm"),
        ("triton_red_fused_sum_0", "reduction"),
        ("triton__0d1d2d3de", "elementwise"),
        # science and hand-written code: clear words count, the rest is other
        ("transposeNoBankConflicts(float*, float*, int, int)", "layout"),
        ("matrixMultiply(float*, float*, float*, int)", "gemm"),
        ("saxpy", "elementwise"),
        ("reduceUnrolling8(int*, int*, unsigned int)", "reduction"),
        ("softmax_kernel", "softmax"),
        ("stencil_3d(float const*, float*)", "other"),
        ("binomialOptionsKernel()", "other"),
        ("Kernel", "other"),
        ("unknown", "other"),
        ("benchmark_func(short*, int)", "other"),
    ],
)  # fmt: skip
def test_traps(name: str, category: str) -> None:
    assert category_of(name) == category


@pytest.mark.parametrize(
    ("category", "spellings"),
    [
        ("norm", [
            "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float>(int)",
            "void at::native::<unnamed>::vectorized_layer_norm_kernel<float>(int)",
            "void vectorized_layer_norm_kernel<float>(int)",
            "vectorized_layer_norm_kernel",
            "_ZN2at6native12_GLOBAL__N_128vectorized_layer_norm_kernelIffEEviT0_PKT_.kd",
        ]),
        ("attention", [
            "void pytorch_flash::flash_fwd_kernel<T<64, 128>, true>(P)",
            "void flash_fwd_kernel<T<64, 128>, true>(P)",
            "flash_fwd_kernel(P)",
            "_ZN13pytorch_flash16flash_fwd_kernelI1TLb1EEEv1P",
        ]),
        ("layout", [
            "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(X&)>",
            "unrolled_elementwise_kernel<direct_copy_kernel_cuda(TensorIteratorBase &)>",
            "_ZN2at6native27unrolled_elementwise_kernelIZZZNS0_23direct_copy_kernel_cudaERNS_E.kd",
        ]),
        ("gemm", [
            "void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_f16_64x64>(P)",
            "void Kernel2<cutlass_80_tensorop_f16_s16816gemm_f16_64x64>(P)",
            "_ZN7cutlass7Kernel2I52cutlass_80_tensorop_f16_s16816gemm_f16_64x64_32x5_nnEEvNT_6ParamsE",
        ]),
    ],
)  # fmt: skip
def test_spellings_of_one_kernel_agree(category: str, spellings: list[str]) -> None:
    assert {name: category_of(name) for name in spellings} == dict.fromkeys(spellings, category)


# ------------------------------------------------------------------------------------ operators


@pytest.mark.parametrize(
    ("name", "operator", "category"),
    [
        # an informative operator outranks the name
        ("volta_sgemm_128x64_nn", "aten::cudnn_convolution", "conv"),
        ("volta_sgemm_128x64_nn", "ConvolutionBackward0", "conv"),
        ("void at::native::vectorized_elementwise_kernel<4, F>(int)", "aten::mse_loss", "loss"),
        ("void at::native::reduce_kernel<512, 1, R>(R)", "aten::native_layer_norm", "norm"),
        ("void at::native::vectorized_elementwise_kernel<4, F>(int)", "aten::native_dropout",
         "random"),
        ("void multi_tensor_apply_kernel<T, L2NormFunctor<float>>(int)", "aten::_foreach_norm",
         "optimizer"),
        ("triton__0d1d2d", "triton_per_fused_native_layer_norm_3", "norm"),
        # runtime copies, collectives and helpers stay what they are
        ("Memcpy DtoD (Device -> Device)", "aten::mm", "memcpy"),
        ("Memset (Device)", "aten::cudnn_convolution_backward_weight", "memset"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(A)", "aten::mul", "communication"),
        ("batched_transpose_32x32_half", "aten::miopen_convolution", "layout"),
        ("void vllm::scaled_fp8_quant_kernel<half>(half*)", "aten::linear", "quantize"),
        # a light operator beside a GEMM, convolution or attention kernel is a wrong link
        ("nvjet_tst_64x8_64x16_4x1_v_bz_TNT", "aten::add", "gemm"),
        ("nvjet_tst_64x8_64x16_4x1_v_bz_TNT", "aten::native_layer_norm", "gemm"),
        # pointwise, reduction and copy operators only rename generic kernels
        ("void at::native::vectorized_elementwise_kernel<4, F>(int)", "aten::_to_copy", "layout"),
        ("void bounds_check_indices_kernel<long>(int)", "aten::zero_", "embedding"),
        # wrappers and replayers say nothing
        *[
            ("void at::native::reduce_kernel<512, 1, R>(R)", wrapper, "reduction")
            for wrapper in (
                "cudaGraphLaunch", "hipGraphLaunch", "CompiledFxGraph", "ProfilerStep#3",
                "## Call CompiledFxGraph fxyz ##", "Torch-Compiled Region: 0/0",
                "CompiledFunctionBackward", "aten::empty", "aten::view", "MyFunctionBackward",
                "autograd::engine::evaluate_function: AddmmBackward0", "",
            )
        ],
        # an expert layer holds several kinds of work
        ("bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2", "vllm::moe_forward", "gemm"),
        ("nobody_knows_this_one", "vllm::moe_forward", "moe-routing"),
        # operators name what the kernel does not
        ("nobody_knows_this_one", "aten::topk", "sort-scan"),
        ("nobody_knows_this_one", "Optimizer.step#AdamW.step", "optimizer"),
        ("nobody_knows_this_one", "aten::addmm_activation_of_mine", "other"),
        ("nobody_knows_this_one", "autograd::engine::evaluate_function: NllLossBackward0", "loss"),
    ],
)  # fmt: skip
def test_name_and_operator(name: str, operator: str, category: str) -> None:
    assert category_of(name, operator) == category


# --------------------------------------------------------------------------------- whole columns


def test_whole_columns_take_lists_series_and_arrow_arrays() -> None:
    names = ["volta_sgemm_128x64_nn", "Memset (Device)", "volta_sgemm_128x64_nn", None]
    operators = ["aten::cudnn_convolution", None, None, "aten::topk"]
    by_name = ["gemm", "memset", "gemm", "other"]
    both = ["conv", "memset", "gemm", "sort-scan"]
    assert categories_of(names) == by_name
    assert categories_of(names, operators) == both
    assert categories_of(pd.Series(names), pd.Series(operators)) == both
    assert categories_of(pd.Series([*names[:3], float("nan")])) == by_name
    assert categories_of(pa.array(names), pa.chunked_array([operators[:1], operators[1:]])) == both
    assert categories_of([]) == []


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        categories_of(["a", "b"], ["aten::mm"])


def test_each_distinct_pair_is_classified_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[str] = Counter()

    def counting(named: KernelPattern | None, operator: str, fused: KernelPattern | None) -> str:
        asked[operator] += 1
        return "other"

    monkeypatch.setattr(categories, "_category", counting)
    # 30,000 rows of 3 names under 2 operators: 6 distinct pairs, each asked for once
    assert categories_of(["a", "b", "c"] * 10_000, ["x", "y"] * 15_000) == ["other"] * 30_000
    assert asked == {"x": 3, "y": 3}


def test_many_names_get_what_each_gets_alone() -> None:
    """GIVEN more names than are looked at one by one THEN each has the category that it has alone."""
    samples = [sample for row in kernel_patterns() for sample in row.samples]
    names = [*samples, *(f"{one}_{n}" for n, one in enumerate(samples)), "kernel", "größe<float>"]
    operators = [None, "aten::mm", "triton_poi_fused_add_0", "aten::add"] * len(names)
    pairs = list(zip(names, operators[: len(names)], strict=True))
    assert len(names) > FEW
    assert categories_of(*zip(*pairs, strict=True)) == [category_of(*pair) for pair in pairs]


# ----------------------------------------------------------------------------------- any input

TOKENS = st.sampled_from(
    ["void ", "_ZN", "_Z", "12", "at::native::", "<", ">", "(", ")", "::", " ", "_", "gemm", "conv"]
    + ["softmax", "triton_poi_fused_", "mean_", "kentry", "[clone .kd]", ".kd", "\n", "\x00", "é"]
)


@given(st.one_of(st.text(), st.lists(TOKENS).map("".join)), st.one_of(st.none(), st.text()))
def test_any_text_gets_a_category(name: str, operator: str | None) -> None:
    assert category_of(name, operator) in CATEGORIES
    assert len(head_of(name)) <= max(len(name), 1024)


@given(st.lists(TOKENS).map("".join))
def test_any_operator_gets_a_category(operator: str) -> None:
    assert category_of("nobody_knows_this_one", operator) in CATEGORIES


def test_hostile_names_cost_little() -> None:
    # GIVEN names of 6 KB that repeat what the patterns look for
    pieces = ["<", "(", "_", "9", "a", "_ZN9", "gemm", "kernel_", "two_shot", "per_token", "mean_"]
    pieces += ["elementwise_kernel", "nchwnhwc", "_to_copy_view", "std::enable_if<(8>0)&&", "é\n"]
    starts = ["", "void ", "_ZN", "triton_poi_fused_", "triton_red_fused_", "__myl_", "volta_"]
    names = [(start + piece * 6000)[:6144] for start in starts for piece in pieces]
    category_of("")  # the tables are compiled once
    # WHEN all 112 are classified THEN it takes a fraction of a second each at the very most
    # (measured: 0.5 s in all; one quadratic pattern took 0.2 s for a single name)
    began = time.process_time()
    assert all(category_of(name, name) in CATEGORIES for name in names)
    assert time.process_time() - began < 30


# ------------------------------------------------------------------------------- real labels


class Label(NamedTuple):
    kernel: str
    operators: tuple[str, ...]  # innermost first
    time_us: float
    source: str


@pytest.fixture(scope="module")
def labels(corpus: Path) -> list[Label]:
    with (corpus / "torch_kernel_labels.tsv").open(encoding="utf-8", newline="") as file:
        return [
            Label(
                row["kernel_name"],
                (row["leaf_cpu_op"], *row["parent_ops_up_to_3"].split(" < ")),
                float(row["total_us"]),
                row["source_file"],
            )
            for row in csv.DictReader(file, delimiter="\t")
            if row["link_method"] == "corr+containment"
        ]


@pytest.fixture(scope="module")
def accepted(root: Path) -> list[tuple[list[str], tuple[str, ...]]]:
    """The table of docs/categories.md: operator globs, and what they accept, their own first."""
    page = (root / "docs" / "categories.md").read_text("utf-8")
    table = page.split("<!-- accepted:begin -->")[1].split("<!-- accepted:end -->")[0]
    rows = []
    for line in table.strip().splitlines()[2:]:
        operators, names, _why = (cell.strip() for cell in line.strip("|").split("|"))
        rows.append((re.findall(r"`([^`]+)`", operators), tuple(names.split())))
    return rows


Accepted = list[tuple[list[str], tuple[str, ...]]]


def accepted_for(operators: tuple[str, ...], table: Accepted) -> tuple[str, ...]:
    for operator in operators:
        for globs, names in table:
            if any(fnmatchcase(operator, glob) for glob in globs):
                return names
    return ()


def test_the_accepted_table_is_honest(accepted: Accepted) -> None:
    assert len(accepted) > 25
    for globs, names in accepted:
        assert globs
        assert set(names) <= set(CATEGORIES)
        assert 1 <= len(names) <= 5, f"{globs} accepts nearly everything: {sorted(names)}"


def report(misses: dict[str, float], total_us: float) -> str:
    largest = sorted(misses.items(), key=lambda item: -item[1])[:25]
    lines = [f"{100 * us / total_us:8.4f} %  {text}" for text, us in largest]
    return "\n".join(["largest misses, share of all labelled GPU time:", *lines])


@pytest.mark.corpus
@pytest.mark.parametrize("with_operator", [False, True], ids=["name only", "with operator"])
def test_accuracy_on_real_labels(
    labels: list[Label], accepted: Accepted, with_operator: bool
) -> None:
    # GIVEN 8.6 s of GPU time whose launching operators are known
    total = sum(label.time_us for label in labels)
    assert total == pytest.approx(8_613_359, rel=1e-6)
    # WHEN every row is classified
    found = categories_of(
        [label.kernel for label in labels],
        [label.operators[0] for label in labels] if with_operator else None,
    )
    right = own = unjudged = other = 0.0
    misses: dict[str, float] = {}
    by_source: dict[str, list[float]] = {}
    for label, category in zip(labels, found, strict=True):
        source = by_source.setdefault(label.source, [0.0, 0.0])
        other += label.time_us * (category == "other")
        fine = accepted_for(label.operators, accepted)
        if not fine:
            unjudged += label.time_us
            continue
        source[1] += label.time_us
        if category in fine:
            right += label.time_us
            own += label.time_us * (category == fine[0])
            source[0] += label.time_us
        else:
            miss = f"{category} for {label.operators[0]}: {label.kernel[:110]}"
            misses[miss] = misses.get(miss, 0.0) + label.time_us
    # THEN nearly all of it is right, also in the worst trace, and next to nothing is left over
    worst = min((good / all_us, source) for source, (good, all_us) in by_source.items() if all_us)
    print(
        f"right {100 * right / total:.3f} % (the operator's own category {100 * own / total:.1f} %),"
        f" no accepted row {100 * unjudged / total:.4f} %,"
        f" other {100 * other / total:.4f} %, worst trace {100 * worst[0]:.2f} % ({worst[1]})"
    )
    print(report(misses, total))
    assert right / total >= 0.995, report(misses, total)
    assert unjudged / total < 0.001
    assert other / total < 0.005
    assert worst[0] >= 0.985, f"{worst[1]}\n{report(misses, total)}"


@pytest.mark.corpus
def test_little_is_left_over_in_system_summaries(corpus: Path) -> None:
    # GIVEN the kernel summaries of other programs, which no label was made from
    summaries = sorted((corpus / "nsys").glob("*kern_sum*.csv"))
    assert len(summaries) == 5
    for path in summaries:
        lines = path.read_text("utf-8").splitlines()
        start = next(i for i, line in enumerate(lines) if "Total Time" in line)
        spent: Counter[str] = Counter()
        for row in csv.DictReader(lines[start:]):
            spent[category_of(row["Name"])] += int(row["Total Time (ns)"])
        # THEN everything of weight has a category
        assert spent["other"] < 0.005 * spent.total(), path.name
