"""Kernels before and after a fix: the rule that names the defect is silent once it is gone."""

import gzip
import shutil
from functools import cache
from pathlib import Path

import pytest

import traceroof
from benchmarks.accuracy import DATA
from traceroof.diagnosis.diagnosis import Diagnosis

pytestmark = pytest.mark.corpus

_LASHI = "known_faults/Lashi0812__CudaProgramming"
_OLAJIDE = "known_faults/Olajide-Badejo__GPU-Roofline-Profiler"
_REDUCE = "ncu_csv/Lashi0812__CudaProgramming__ncu_reduceInteger.csv"
_SHAPES = "ncu_csv/Lashi0812__CudaProgramming__sumMatrix_Occp.csv"
_AMD = "known_faults/amd__HPCTrainingExamples"
_KMERS = "known_faults/BobbyAl__cuda-kmer-counting"


@cache
def diagnosed(path: Path) -> Diagnosis:
    return traceroof.diagnose(path, calibrated=False)


def rules_of(path: Path, kernel: str) -> set[str]:
    """The rules that fired on the kernel of this name or block, or at this place ("#0")."""
    found = diagnosed(path)
    at = next(
        row
        for row, one in enumerate(found.kernels)
        if kernel in (f"#{row}", "x".join(map(str, one.block or ())))
        or ("#" not in kernel and kernel in one.kernel)
    )
    return {one.rule for one in found.fired() if (one.scope, one.subject_index) == ("kernel", at)}


#: Of each fix of the table, by its number: the rule that names the defect, the kernel before and
#: after it.
PAIRS = (
    (1, "divergent-branches", (_REDUCE, "reduceNeighbored("), (_REDUCE, "reduceNeighboredLess(")),
    (2, "uncoalesced-global", (_REDUCE, "reduceNeighboredLess("), (_REDUCE, "reduceInterleaved(")),
    (6, "stall-barrier", (_REDUCE, "reduceUnroll8("), (_REDUCE, "reduceUnroll8Warps(")),
    (8, "uncoalesced-global", (f"{_LASHI}/smemTranspose.raw.csv", "naiveGmem("),
     (f"{_LASHI}/smemTranspose.raw.csv", "transposeSmem(")),
    (9, "smem-bank-conflict", (f"{_LASHI}/smemTranspose.raw.csv", "transposeSmem("),
     (f"{_LASHI}/smemTranspose.raw.csv", "transposeSmemPad(")),
    (12, "work-per-thread", (f"{_LASHI}/smemReduceInteger.raw.csv", "reduceSmem("),
     (f"{_LASHI}/smemReduceInteger.raw.csv", "reduceSmemUnroll4(")),
    (13, "uncoalesced-global", (f"{_LASHI}/simpleAOS.raw.csv", "test"),
     (f"{_LASHI}/simpleSOA.raw.csv", "test")),
    (14, "smem-bank-conflict", (f"{_LASHI}/smemSquare.raw.csv", "setRowReadCol("),
     (f"{_LASHI}/smemSquare.raw.csv", "setRowReadColPad(")),
    (16, "block-shape-measured", (_SHAPES, "32x32x1"), (_SHAPES, "16x16x1")),
    (17, "block-shape-measured", (_SHAPES, "1024x1x1"), (_SHAPES, "256x1x1")),
    (18, "block-shape-measured", (_SHAPES, "2x1x1"), (_SHAPES, "64x4x1")),
    (21, "no-register-reuse", (f"{_OLAJIDE}/gemm_naive.csv", "gemm"),
     (f"{_OLAJIDE}/gemm_register_blocked.csv", "gemm")),
    (22, "no-register-reuse", (f"{_OLAJIDE}/gemm_tiled.csv", "gemm"),
     (f"{_OLAJIDE}/gemm_register_blocked.csv", "gemm")),
    (23, "scalar-accesses", (f"{_OLAJIDE}/gemm_register_blocked.csv", "gemm"),
     (f"{_OLAJIDE}/gemm_vectorized.csv", "gemm")),
    (24, "uncoalesced-global", (f"{_OLAJIDE}/transpose_naive.csv", "transpose"),
     (f"{_OLAJIDE}/transpose_tiled.csv", "transpose")),
    (26, "atomics-by-name", (f"{_KMERS}/ecoli_gpu_kmer_k12.txt", "count"),
     (f"{_KMERS}/ecoli_gpu_kmer_optimized_k12.txt", "count")),
    (27, "atomics-by-name", (f"{_KMERS}/ecoli_gpu_kmer_k4.txt", "count"),
     (f"{_KMERS}/ecoli_gpu_kmer_optimized_k4.txt", "count")),
    (29, "stall-long-scoreboard", ("known_faults/AlpriElse__cs599k/rms_norm_matrix_v1.raw.csv", "rms"),
     ("known_faults/AlpriElse__cs599k/rms_norm_matrix_v2-float4.raw.csv", "rms")),
    (30, "tile-rereads", ("amd/bmm1_MI300X_A1", "batched"), ("bmm3", "batched")),
    (31, "smem-bank-conflict", ("amd/bmm1_MI300X_A1", "batched"), ("bmm2", "batched")),
    (32, "few-blocks", (f"{_AMD}/1-LaunchParameters.txt", "#0"),
     (f"{_AMD}/1-LaunchParameters.txt", "#2")),
    (33, "small-grid", (f"{_AMD}/1-LaunchParameters.txt", "#1"),
     (f"{_AMD}/1-LaunchParameters.txt", "#3")),
    (34, "amd-occ-lds", (f"{_AMD}/2-LDSOccupancyLimit.txt", "#0"),
     (f"{_AMD}/2-LDSOccupancyLimit.txt", "#1")),
    (38, "amd-strided", (f"{_AMD}/4-StridedAccess.txt", "#0"),
     (f"{_AMD}/4-StridedAccess.txt", "#1")),
    (41, "small-grid", (f"{_AMD}/OpenMP_Fortran_1_collapse.txt", "#3"),
     (f"{_AMD}/OpenMP_Fortran_1_collapse.txt", "#4")),
)  # fmt: skip

#: The other readable fixes, and why they have no silent side.
WITHOUT = {
    0: "three kernels became one, in a file without an order of launches",
    3: "half of the defect is left, and the next fix gains from it",
    4: "half of the defect is left, and the next fix gains from it",
    5: "half of the defect is left",
    7: "loop overhead is not named",
    10: "one element per thread at 90 % of device memory is no defect",
    11: "the tree in shared memory still has one element per thread",
    15: "both are toys",
    19: "a fifth of a sector too much at the wall of device memory is not named",
    20: "the fix does not remove the defect: shared memory without registers",
    25: "the faster side was timed and not profiled",
    28: "the other kernel wastes as much of its sectors",
    36: "spills into accumulation registers are not in the counters of the page",
    40: "what is named there is the symptom, and it stays",
    49: "both sides move the same bytes",
}


@pytest.fixture
def folders(corpus: Path, tmp_path: Path) -> Path:
    """The two workloads of rocprof-compute whose files lie in the corpus one by one."""
    source = corpus / "known_faults" / "HGLiu1998__batched_gemm"
    for workload in ("bmm2", "bmm3"):
        folder = tmp_path / workload
        folder.mkdir()
        for file in source.glob(f"{workload}_*"):
            name = file.name.removeprefix(f"{workload}_")
            if name.endswith(".gz"):
                (folder / name.removesuffix(".gz")).write_bytes(gzip.decompress(file.read_bytes()))
            else:
                shutil.copy(file, folder / name)
    return tmp_path


@pytest.mark.parametrize(("rule", "before", "after"), [one[1:] for one in PAIRS])
def test_the_rule_fires_before_the_fix_and_not_after(
    corpus: Path, folders: Path, rule: str, before: tuple[str, str], after: tuple[str, str]
) -> None:
    root = folders if after[0].startswith("bmm") else corpus
    assert rule in rules_of(corpus / before[0], before[1])
    assert rule not in rules_of(root / after[0], after[1])


def test_every_readable_fix_is_among_them() -> None:
    numbers = [entry["number"] for entry in DATA["fault"]]
    assert sorted(numbers) == sorted([*(one[0] for one in PAIRS), *WITHOUT])


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
