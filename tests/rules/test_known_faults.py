"""Kernels before and after a fix: the rule that names the defect is silent once it is gone."""

from functools import cache
from pathlib import Path

import pytest

import traceroof
from traceroof.diagnosis.diagnosis import Diagnosis

pytestmark = pytest.mark.corpus

_LASHI = "known_faults/Lashi0812__CudaProgramming"
_OLAJIDE = "known_faults/Olajide-Badejo__GPU-Roofline-Profiler"
_REDUCE = "ncu_csv/Lashi0812__CudaProgramming__ncu_reduceInteger.csv"
_SHAPES = "ncu_csv/Lashi0812__CudaProgramming__sumMatrix_Occp.csv"
_KMERS = "known_faults/BobbyAl__cuda-kmer-counting"


@cache
def diagnosed(path: Path) -> Diagnosis:
    return traceroof.diagnose(path, calibrated=False)


def rules_of(path: Path, kernel: str) -> set[str]:
    """The rules that fired on the kernel of this name or block."""
    found = diagnosed(path)
    at = next(
        row
        for row, one in enumerate(found.kernels)
        if kernel in one.kernel or kernel == "x".join(map(str, one.block or ()))
    )
    return {one.rule for one in found.fired() if (one.scope, one.subject_index) == ("kernel", at)}


@pytest.mark.parametrize(
    ("rule", "before", "after"),
    [
        ("divergent-branches", (_REDUCE, "reduceNeighbored("), (_REDUCE, "reduceNeighboredLess(")),
        ("stall-barrier", (_REDUCE, "reduceUnroll8("), (_REDUCE, "reduceUnroll8Warps(")),
        ("uncoalesced-global", (f"{_LASHI}/smemTranspose.raw.csv", "naiveGmem("),
         (f"{_LASHI}/smemTranspose.raw.csv", "transposeSmem(")),
        ("smem-bank-conflict", (f"{_LASHI}/smemTranspose.raw.csv", "transposeSmem("),
         (f"{_LASHI}/smemTranspose.raw.csv", "transposeSmemPad(")),
        ("work-per-thread", (f"{_LASHI}/smemReduceInteger.raw.csv", "reduceSmem("),
         (f"{_LASHI}/smemReduceInteger.raw.csv", "reduceSmemUnroll4(")),
        ("uncoalesced-global", (f"{_LASHI}/simpleAOS.raw.csv", "test"),
         (f"{_LASHI}/simpleSOA.raw.csv", "test")),
        ("smem-bank-conflict", (f"{_LASHI}/smemSquare.raw.csv", "setRowReadCol("),
         (f"{_LASHI}/smemSquare.raw.csv", "setRowReadColPad(")),
        ("block-shape-measured", (_SHAPES, "32x32x1"), (_SHAPES, "16x16x1")),
        ("block-shape-measured", (_SHAPES, "2x1x1"), (_SHAPES, "64x4x1")),
        ("no-register-reuse", (f"{_OLAJIDE}/gemm_naive.csv", "gemm"),
         (f"{_OLAJIDE}/gemm_register_blocked.csv", "gemm")),
        ("scalar-accesses", (f"{_OLAJIDE}/gemm_register_blocked.csv", "gemm"),
         (f"{_OLAJIDE}/gemm_vectorized.csv", "gemm")),
        ("uncoalesced-global", (f"{_OLAJIDE}/transpose_naive.csv", "transpose"),
         (f"{_OLAJIDE}/transpose_tiled.csv", "transpose")),
        ("atomics-by-name", (f"{_KMERS}/ecoli_gpu_kmer_k12.txt", "count"),
         (f"{_KMERS}/ecoli_gpu_kmer_optimized_k12.txt", "count")),
        ("stall-long-scoreboard", ("known_faults/AlpriElse__cs599k/rms_norm_matrix_v1.raw.csv", "rms"),
         ("known_faults/AlpriElse__cs599k/rms_norm_matrix_v2-float4.raw.csv", "rms")),
    ],
)  # fmt: skip
def test_the_rule_fires_before_the_fix_and_not_after(
    corpus: Path, rule: str, before: tuple[str, str], after: tuple[str, str]
) -> None:
    assert rule in rules_of(corpus / before[0], before[1])
    assert rule not in rules_of(corpus / after[0], after[1])


def test_a_users_kernel_called_naive_is_no_fallback(corpus: Path) -> None:
    assert "fallback-kernel" not in rules_of(corpus / _OLAJIDE / "transpose_naive.csv", "transpose")


def test_a_description_gives_way_to_its_cause(corpus: Path) -> None:
    found = diagnosed(corpus / _KMERS / "ecoli_gpu_kmer_k12.txt")
    silenced = {one.rule: one.suppressed_by for one in found.findings if one.state == "suppressed"}
    assert silenced["latency-bound"] == "atomics-by-name"


def test_a_bound_is_a_share_where_the_time_is_unknown(corpus: Path) -> None:
    """16 waves on 912 schedulers of an MI300A: 1 - 16/912 = 98.2 %."""
    path = corpus / "known_faults" / "amd__HPCTrainingExamples" / "OpenMP_Fortran_1_collapse.txt"
    found = next(one for one in diagnosed(path).fired() if one.rule == "small-grid")
    assert found.time_saved_bound_ns is None
    assert found.bound_share == pytest.approx(1 - 16 / 912, abs=1e-4)
