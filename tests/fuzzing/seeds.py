"""What every format's damaged inputs are made of: small files, made ones and real ones.

A seed is a folder in memory: file names and contents. Real files are those of ``../shared/corpus``,
where that folder is.
"""

import gzip
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.fuzzing import tables
from tests.parsers.ncu_fixtures import (
    PREAMBLE,
    VARIANTS,
    Launch,
    Metric,
    Rule,
    details,
    summary,
)
from tests.parsers.test_amd_formats import hipprof_rows, v3_json, v3_record
from tests.parsers.test_amd_rocpd import OWN_SCHEMA, write_counted
from tests.parsers.test_amd_samples import (
    write_database,
    write_host_trap,
    write_json,
    write_stochastic,
)
from tests.parsers.test_nsight_compute_report import Maker
from tests.parsers.test_report_modules import COUNTS, launch, module
from tests.parsers.test_source_page import cuda, cuda_sass, ptx, sass

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT.parent / "shared" / "corpus"

#: Larger real files take more time than they find.
_LARGEST = 64_000


@dataclass(frozen=True)
class Seed:
    """Files by name. is_folder: they are read as one folder; else there is one."""

    files: Mapping[str, bytes]
    is_folder: bool = False


_BLOG = (
    "corpus:amd/ROCm__rocm-blogs__blogs__software-tools-optimization__roc-profiling"
    "__tracing_output_examples"
)
_ROOFLINE = "corpus:amd/Techercise__AMD-Instruction-Roofline-using-rocProf-Metrics"

# Format -> files and folders below the checkout, or (after ``corpus:``) below the corpus.
_PATHS: dict[str, tuple[str, ...]] = {
    "torch": (
        "tests/field_cases/torch/hybrid_ep.json.gz",
        "tests/field_cases/torch/exact_times_after_64_metadata.json.gz",
        "tests/field_cases/torch/rocm_overflow_duration.json.gz",
        "tests/field_cases/torch/sglang_merged.trace.json.gz",
        "tests/field_cases/torch/xpu_sync_and_copies.json.gz",
        "tests/field_cases/torch/paddle_trace.json.gz",
        "tests/field_cases/torch/same_pid",
        "tests/field_cases/torch/vllm_dir",
        "corpus:torch/hta_triton_example.json.gz",
        "corpus:torch/hta_cuda_event_sync_multi_stream.json.gz",
        "corpus:torch/tracelens_mi300_torch_compile_triton.json.gz",
        "corpus:torch/hta_amd_mi250_minitoy_rocm6.2.json.gz",
        "corpus:torch/kineto_docs_2026_cuda13_h100_unit.json",
    ),
    "ncu-csv": (
        "sample_traces/nsight_compute/transformer_layer.raw.csv",
        "sample_traces/calibration/h100.ncu.csv",
        "tests/field_cases/nsight_compute/breakdown_label.csv",
        "tests/field_cases/nsight_compute/breakdown_name.csv",
        "tests/field_cases/nsight_compute/merged_variants.csv",
        "tests/field_cases/nsight_compute/range_two_nvtx.csv",
        "tests/field_cases/nsight_compute/roofline_only.csv",
        "tests/field_cases/nsight_compute/vendor_pairing.csv",
        "tests/field_cases/nsight_compute/eu_ns_only.csv",
        "tests/field_cases/nsight_compute/mixed_text_then_csv.log",
        "corpus:ncu_csv/Lashi0812__CudaProgramming__sumMatrix_Occp.csv",
        "corpus:ncu_csv/Olajide-Badejo__GPU-Roofline-Profiler__transpose_tiled.csv",
        "corpus:ncu_csv/CodeGandee__llm-perf-opt__k0001_v2_ncu.section_SchedulerStats.csv",
        "corpus:ncu_csv/wdmapp__gene-paper-artifacts-pop2020__dram_dgdxy_time-0.csv",
    ),
    "ncu-text": (
        "tests/field_cases/nsight_compute/table_name.txt",
        "tests/field_cases/nsight_compute/summary_occ.txt",
        "tests/field_cases/nsight_compute/two_column_rulers.txt",
        "tests/field_cases/nsight_compute/numbered.txt",
        "tests/field_cases/nsight_compute/err_launchfailed.txt",
        "tests/field_cases/nsight_compute/mixed_text_then_csv.log",
        "corpus:ncu_csv/BobbyAl__cuda-kmer-counting__ecoli_gpu_kmer_optimized_k12.txt",
    ),
    "ncu-source": (
        "tests/field_cases/nsight_compute/source_cuda_sass.csv",
    ),
    "ncu-rep": (
        "corpus:ncu_rep/NVIDIA__nsight-training__CuVectorAddDrv.ncu-rep",
        "corpus:ncu_rep/armleth__cuda-mlp-inference__report.ncu-rep",
        "corpus:ncu_rep/extra-p__extrap__ex-gpu.s10.ncu-rep",
        "corpus:ncu_rep/wdmapp__gene-paper-artifacts-pop2020__dram_dgdxy_time-0.ncu-rep",
    ),
    "nsys-sqlite": ("sample_traces/nsight_systems/training.sqlite",),
    "nsys-stats": (
        "sample_traces/nsight_systems/training.kern_sum.csv",
        "sample_traces/nsight_systems/training.gpu_trace.csv",
        "corpus:nsys/dsocr_clip_cuda_gpu_kern_sum.csv",
        "corpus:nsys/nsys_stats_all_SKIPPED.txt",
        "corpus:other/nsys_stats/cutlass_dsl__cuda_gpu_trace_names_replaced_EXCERPT.csv",
        "corpus:other/nsys_stats/locale_decimal_comma__mem_size_sum_EXCERPT.csv",
        "corpus:other/nsys_stats/nsys_stats_stdout_preamble_paths_shortened_EXCERPT.txt",
    ),
    "nvprof": (
        "sample_traces/nvprof/scale.gpu_trace.csv",
        "sample_traces/nvprof/scale.metrics.csv",
        "corpus:nvprof/binomialOptions_trace.csv",
        "corpus:nvprof/convolutionFFT2D_trace.csv",
        "corpus:nvprof/binomialOptions_metrics.csv",
    ),
    "rocprofv3-csv": (
        "tests/field_cases/hostile/kt_orig.csv",
        "tests/field_cases/hostile/cmp_base.csv",
        "tests/field_cases/amd/P2_good",
        "tests/field_cases/amd/F_gfx1201_256B",
        "tests/field_cases/amd/A_agent_relative",
        "tests/field_cases/amd/P4_passes",
        "sample_traces/rocprofv3/model-host",
        "corpus:amd/ROCm__rocm-systems__projects__rocprofiler-sdk__source__docs__data__kernel_trace.csv",
        "corpus:amd/ROCm__rocm-systems__projects__rocprofiler-sdk__source__docs__data__counter_collection.csv",
        "corpus:amd/jimw567__rocprof-unified-viewer__tests__fixtures__decode_fetch_counter_collection.csv",
    ),
    "rocprofv3-json": (
        "tests/field_cases/amd/P3_csv_json/3_results.json",
        "tests/field_cases/amd/P3_csv_json",
    ),
    "rocprofv2-csv": (
        "tests/field_cases/hostile/v2_start_minus5.csv",
        "tests/field_cases/amd/H2_level_waves_zero/SQ_LEVEL_WAVES.csv",
        "corpus:amd/vcopy_MI200/timestamps.csv",
        "corpus:amd/vcopy_MI350/pmc_perf_1.csv",
    ),
    "rocprof-v1-csv": (
        "corpus:amd/ByungHyun21__LLM170__results.excerpt.csv",
        "corpus:amd/kerbowa__rocprof_compare__rocprof_compare__test__test_prof_data_1.csv",
        f"{_BLOG}__HSA_trace__results.csv",
    ),
    "rocprof-v1-json": ("corpus:amd/shashankparsi__HIP_Programming__results.json",),
    "rocprof-v1-db": (
        "tests/field_cases/hostile/v1db_no_beginns.db",
        "corpus:amd/shashankparsi__HIP_Programming__results.db",
    ),
    "rpd": ("tests/field_cases/hostile/hot.rpd", "tests/field_cases/hostile/rpd_negative_dur.json"),
    "rocprof-compute": (
        "tests/field_cases/amd/J_ranks/0",
        "tests/field_cases/amd/C_nps4_cpx",
        "tests/field_cases/amd/H2_level_waves_zero",
        "sample_traces/rocprof_compute/MI210",
    ),
    "rocprof-compute-text": (
        "sample_traces/rocprof_compute_text/scale.txt",
        "corpus:known_faults/amd__HPCTrainingExamples/5-AlgorithmicOptimizations.txt",
    ),
    "amd-kernel-stats": (
        "tests/field_cases/amd/BB_stats_agent",
        "tests/field_cases/amd/K_stats_unquoted",
        "sample_traces/rocprofv3/model-host/4711_kernel_stats.csv",
        "corpus:amd/AMDResearch__intellikit__kerncap__tests__unit__fixtures__rocprofv3_kernel_stats.csv",
    ),
    "amd-counter-list": (
        f"{_ROOFLINE}__LWFA_simulations__mi60_lw_cc_inst_output.csv",
    ),
    "hipprof": (
        "tests/field_cases/amd/H3_hipprof_two_ranks",
        "tests/field_cases/amd/H3_hipprof_two_ranks/hip_prof_rank0.db",
        "corpus:amd/LearnMF__kernel-roofline-analysis-tools__cal_pmc-read.csv",
    ),
    "proton": (
        "sample_traces/proton/matmul.hatchet",
        "corpus:other/proton/TianshiXu__matmul_A100.hatchet",
        "corpus:other/proton/hip.hatchet.json",
    ),
    "xplane": ("sample_traces/xplane/step.xplane.pb",),
}  # fmt: skip

_V1_COLUMNS = (
    "Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd,wgr,lds,scr,vgpr,sgpr,fbar,sig,obj,"
    "DispatchNs,BeginNs,EndNs,CompleteNs,TCC_HIT_sum,TCC_MISS_sum"
)


def _v1_csv() -> bytes:
    rows = [
        f'{n},"k{n % 3}(int)",0,0,{n},7,7,256,64,0,0,8,16,0,0x0,0x0,{n * 100 + 1},{n * 100 + 10},'
        f"{n * 100 + 60},{n * 100 + 70},{n * 5},{n}"
        for n in range(9)
    ]
    return "\n".join([_V1_COLUMNS, *rows, ""]).encode()


def _v1_json() -> bytes:
    events = ",".join(
        f'{{"ph":"X","name":"k(int)","pid":"6","tid":"0","ts":"{n * 9}","dur":"5","args":{{"BeginNs":'
        f'"{n * 9000}","EndNs":"{n * 9000 + 5000}","DurationNs":"5000","pid":"77","tid":"77"}}}}'
        for n in range(1, 9)
    )
    process = '{"ph":"M","pid":6,"name":"process_name","args":{"name":"GPU0"}}'
    return f'{{"traceEvents":[{{}},{process},{events}],"otherData":{{}}}}'.encode()


def _rocpd() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "results.db"
        write_counted(path, OWN_SCHEMA)
        return tables.of_file(path)


def _v3_json() -> bytes:
    records = [v3_record(n, n * 10, n * 10 + 5) for n in range(9)]
    return v3_json(kernel_dispatch=records).encode()


def _report() -> bytes:
    made = Maker()
    result = launch(made, COUNTS)
    made.metric(result, "sm__throughput.avg.pct_of_peak_sustained_elapsed", 40.0)
    made.block(result, sources=[module()])
    return made.written()


def _views() -> dict[str, bytes]:
    """The source page in every view, one kernel and two."""
    views = {"sass": sass, "cuda_sass": cuda_sass, "cuda": cuda, "ptx": ptx}
    return {
        **{f"{name}.csv": view().encode() for name, view in views.items()},
        **{f"{name}_2.csv": (view() + view("g(int)")).encode() for name, view in views.items()},
    }


def _samples() -> Iterator[Seed]:
    """Program-counter samples of AMD GPUs by every method and in every kind of file."""
    writers: dict[str, Callable[[Path], None]] = {
        "": write_stochastic,
        ".": write_host_trap,
        "908_results.json": write_json,
        "28_results.db": write_database,
    }
    for name, write in writers.items():
        with TemporaryDirectory() as place:
            folder = Path(place)
            if name.strip("."):
                write(folder / name)
                yield Seed({name: _content(folder / name)})
            else:
                write(folder)
                yield Seed({one.name: one.read_bytes() for one in sorted(folder.iterdir())}, True)


def _variants() -> dict[str, bytes]:
    """The details page in every layout and two locales, and the pages of other kinds."""
    rule = Rule("WarpStateStats", "CPIStall", "OPT", 'a, b\n"c" (d)', "local", "5.818")
    duration = Metric("gpu__time_duration.sum", "nsecond", Decimal(1234))
    share = Metric("sm__throughput.avg.pct_of_peak_sustained_elapsed", "%", Decimal("12.34"))
    some = [Launch([duration, share, Metric("x", "", "n/a")], [rule], id=n) for n in range(4)]
    made = {
        f"{at}.{locale}.csv": details(some, variant, locale).encode()
        for at, variant in enumerate(VARIANTS)
        for locale in ("C", "de_DE")
    }
    made["summary.csv"] = summary(some).encode()
    made["wide.csv"] = (PREAMBLE + details(some)).encode("utf-16")
    return made


_MADE: dict[str, Callable[[], dict[str, bytes]]] = {
    "ncu-csv": _variants,
    "rocprof-v1-csv": lambda: {"results.csv": _v1_csv()},
    "rocprof-v1-json": lambda: {"results.json": _v1_json()},
    "rocpd": lambda: {"28_results.db": _rocpd()},
    "ncu-rep": lambda: {"made.ncu-rep": _report()},
    "ncu-source": _views,
    "hipprof": lambda: {"pmc_results_0.csv": hipprof_rows("TCC_EA_RDREQ", 10).encode()},
    "rocprofv3-json": lambda: {"9_results.json": _v3_json()},
}

_SAMPLES = "pc-samples"
FORMATS = tuple(dict.fromkeys([*_PATHS, *_MADE, _SAMPLES]))


@cache
def seeds(name: str) -> tuple[Seed, ...]:
    """The seeds of a format, always in the same order."""
    found = list(_read(name))
    if name in _MADE:
        found += [Seed({file: data}) for file, data in _MADE[name]().items()]
    if name == _SAMPLES:
        found += _samples()
    return tuple(found)


def _read(name: str) -> Iterator[Seed]:
    for place in _PATHS.get(name, ()):
        base, _, rest = place.rpartition(":")
        path = (CORPUS if base else ROOT) / rest
        if path.is_dir():
            files = [one for one in sorted(path.rglob("*")) if one.is_file()]
            yield Seed({str(one.relative_to(path)): _content(one) for one in files}, True)
        elif path.exists():
            yield Seed({path.name.removesuffix(".gz"): _content(path)})


def _content(path: Path) -> bytes:
    data = path.read_bytes()
    if data.startswith(b"\x1f\x8b"):
        data = gzip.decompress(data)
    if data.startswith(b"SQLite format 3\0"):
        with TemporaryDirectory() as folder:
            # A copy with its journal: the file itself is left alone.
            for one in path.parent.glob(f"{path.name}*"):
                (Path(folder) / one.name).write_bytes(one.read_bytes())
            return tables.of_file(Path(folder) / path.name)
    return data if data.lstrip()[:1] in (b"{", b"[") or data[:4] == b"NVR\0" else data[:_LARGEST]
