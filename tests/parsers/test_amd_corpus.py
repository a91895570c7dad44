"""Real AMD and Hygon files: the figures of the reference, counts by an independent reader, refusals.

Golden values: ``reference/amd.md`` section 3, computed there from the files. Counts and sums are
computed here once more from the cells.
"""

import gzip
import json
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.parsers.amd_fixtures import (
    PARSERS,
    cells,
    claims,
    duration,
    kernels,
    notes,
    raw,
    read,
    select,
)
from traceroof.core.kernel_table import launches, total_time_ns
from traceroof.errors import TraceroofError
from traceroof.ingest.decompress import head
from traceroof.parser import HEAD_BYTES, Options

pytestmark = pytest.mark.corpus

SDK = "ROCm__rocm-systems__projects__rocprofiler-sdk__source__docs__data__"
BLOGS = (
    "ROCm__rocm-blogs__blogs__software-tools-optimization__roc-profiling__tracing_output_examples__"
)
JIMW = "jimw567__rocprof-unified-viewer__tests__fixtures__"
KITTENS = "HazyResearch__HipKittens__"
HIT_RATE = "analysis__paper_experiments__phases__ds_write_b64__out__hit_rate"
LDS_CONFLICT = (
    "kernels__gemm__bf16fp32__mi350x__archive__micros__256_64__out__"
    "lds_conflict_counter_collection.csv"
)


@pytest.fixture(scope="module")
def amd(corpus: Path) -> Path:
    return corpus / "amd"


# Files of one row a dispatch: independent sum of positive durations and number of rows.
ROW_FILES = (
    "ByungHyun21__LLM170__results.excerpt.csv",
    f"{BLOGS}HSA_trace__results.csv",
    "LearnMF__kernel-roofline-analysis-tools__cal_pmc-read.csv",
    f"{SDK}kernel_trace.csv",
    f"{SDK}kernel_trace_truncated.csv",
    f"{JIMW}decode_kernel_trace.csv",
    "Axes1_mi200/pmc_perf.csv",
    "Axes1_mi200/SQ_LEVEL_WAVES.csv",
    "Axes1_mi200/timestamps.csv",
    "vcopy_MI200/pmc_perf.csv",
    "vcopy_MI200/SQ_LEVEL_WAVES.csv",
    "vcopy_MI200/SQ_INST_LEVEL_VMEM.csv",
    "vcopy_MI200/timestamps.csv",
    "vcopy_MI300A_A1/pmc_perf.csv",
    "vcopy_MI300A_A1/SQ_LEVEL_WAVES.csv",
    "vcopy_MI300A_A1/timestamps.csv",
    "vcopy_MI350/pmc_perf.csv",
    "vcopy_MI350/pmc_perf_0.csv",
    "vcopy_MI350/pmc_perf_1.csv",
    "vcopy_MI350/SQ_LEVEL_WAVES.csv",
    "vcopy_MI350/SQ_INST_LEVEL_VMEM.csv",
    "bmm1_MI300X_A1/pmc_perf.csv.gz",
)


@pytest.mark.parametrize("name", ROW_FILES)
def test_every_row_is_a_launch(name: str, amd: Path) -> None:
    rows = cells(amd / name)
    spent = [duration(row) for row in rows]
    recording = read(amd / name)
    assert launches(recording.kernels) == len(rows)
    expected = sum(round(one) for one in spent if one is not None and one > 0)
    # 381,872 cycles in 857 ms and 33,766 in 5.4 ms: the first launches of a pass.
    expected -= {"Axes1_mi200/SQ_LEVEL_WAVES.csv": 856_562_635 + 5_404_001}.get(name, 0)
    assert total_time_ns(recording.kernels) == expected
    names = [row.get("Kernel_Name") or row["KernelName"] for row in rows]
    plain = {
        name.removesuffix(" [clone .kd]").removesuffix(" (.kd)").removesuffix(".kd")
        for name in names
    }
    assert set(kernels(recording)["kernel_name"]) == plain


# Long tables: one row for each counter of each dispatch.
LONG_FILES = (
    f"{KITTENS}{HIT_RATE}_counter_collection.csv",
    f"{KITTENS}{LDS_CONFLICT}",
    f"{SDK}counter_collection.csv",
    f"{SDK}kernel_names.csv",
    f"{JIMW}decode_fetch_counter_collection.csv",
    f"{JIMW}decode_stall_counter_collection.csv",
)


@pytest.mark.parametrize("name", LONG_FILES)
def test_every_counter_value_is_kept(name: str, amd: Path) -> None:
    rows = cells(amd / name)
    recording = read(amd / name)
    assert recording.time_basis == "counter-tool"
    assert launches(recording.kernels) == len({row["Dispatch_Id"] for row in rows})
    for counter in {row["Counter_Name"] for row in rows}:
        expected = [float(row["Counter_Value"]) for row in rows if row["Counter_Name"] == counter]
        assert sum(raw(recording, counter)) == pytest.approx(sum(expected), rel=1e-12)
        assert len(raw(recording, counter)) == len(expected)


SUMMARIES = {
    "AMDResearch__intellikit__kerncap__tests__unit__fixtures__rocprofv3_kernel_stats.csv": 8704,
    f"{BLOGS}HIP_trace__results.stats.csv": 1,
    f"{BLOGS}HSA_trace__results.stats.csv": 1,
    f"{BLOGS}SYS_trace__results.stats.csv": 1,
    "shashankparsi__HIP_Programming__results.stats.csv": 1,
    # Copies, no kernels.
    f"{BLOGS}HIP_trace__results.copy_stats.csv": 0,
    f"{BLOGS}HSA_trace__results.copy_stats.csv": 0,
    f"{BLOGS}SYS_trace__results.copy_stats.csv": 0,
    "shashankparsi__HIP_Programming__results.copy_stats.csv": 0,
}


@pytest.mark.parametrize("name", SUMMARIES)
def test_summaries_add_up(name: str, amd: Path) -> None:
    rows = cells(amd / name)
    recording = read(amd / name)
    assert launches(recording.kernels) == SUMMARIES[name]
    assert launches(recording.kernels, None) == sum(int(row["Calls"]) for row in rows)
    total = sum(int(row["TotalDurationNs"]) for row in rows)
    # The mean of a row is a whole nanosecond: its sum is off by half a launch at most.
    calls = sum(int(row["Calls"]) for row in rows)
    assert abs(total_time_ns(recording.kernels, None) - total) <= calls / 2


REFUSED = {
    f"{KITTENS}{HIT_RATE}_agent_info.csv": "list of the machine's devices",
    f"{BLOGS}HIP_trace__results.hip_stats.csv": "calls of the host runtime",
    f"{BLOGS}HIP_trace__results.sysinfo.txt": "rocminfo",
    f"{BLOGS}HSA_trace__results.hsa_stats.csv": "calls of the host runtime",
    f"{BLOGS}SYS_trace__results.hip_stats.csv": "calls of the host runtime",
    f"{BLOGS}SYS_trace__results.hsa_stats.csv": "calls of the host runtime",
    f"{SDK}hip_api_stats.csv": "calls of the host runtime",
    f"{SDK}hip_compile_trace.csv": "host API calls",
    f"{SDK}hip_domain_stats.csv": "calls of the host runtime",
    f"{SDK}hip_runtime_trace.csv": "host API calls",
    f"{SDK}hip_trace.csv": "host API calls",
    f"{SDK}hsa_core_api_trace.csv": "host API calls",
    f"{SDK}marker_api_trace.csv": "host API calls",
    f"{SDK}memory_allocation_trace.csv": "memory allocations",
    f"{SDK}pc_sampling_host_trap.csv": "program-counter samples",
    f"{SDK}pc_sampling_stochastic_debug.csv": "program-counter samples",
    f"{SDK}rccl_trace.csv": "host API calls",
    f"{SDK}rocpd-to-csv.csv": "host API calls",
    f"{SDK}scratch_memory_trace.csv": "scratch-memory allocations",
    f"{JIMW}decode_hip_api_trace.csv": "host API calls",
    "shashankparsi__HIP_Programming__results.hip_stats.csv": "calls of the host runtime",
    **{
        f"{folder}/{name}": words
        for folder, names in (
            ("Axes1_mi200", ("pmc_dispatch_info.csv", "roofline.csv", "sysinfo.csv")),
            ("bmm1_MI300X_A1", ("pmc_dispatch_info.csv", "pmc_kernel_top.csv", "roofline.csv", "sysinfo.csv", "profiling_config.yaml", "log.txt", "perfmon/SQ_LEVEL_WAVES.txt", "perfmon/pmc_perf_0.txt", "perfmon/pmc_perf_5.txt")),
            ("vcopy_MI200", ("pmc_dispatch_info.csv", "roofline.csv", "sysinfo.csv", "log.txt")),
            ("vcopy_MI300A_A1", ("sysinfo.csv",)),
            ("vcopy_MI300X_A1_rocpd", ("sysinfo.csv", "profiling_config.yaml", "log.txt")),
            ("vcopy_MI350", ("pmc_dispatch_info.csv", "sysinfo.csv", "profiling_config.yaml")),
        )
        for name in names
        for words in ("list of counters" if "perfmon" in name else "rocprof-compute",)
    },
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_files_without_kernels_are_refused_by_name(name: str, amd: Path) -> None:
    with pytest.raises(TraceroofError) as refused:
        read(amd / name)
    assert REFUSED[name] in refused.value.message
    assert Path(name).name in refused.value.message
    assert refused.value.hint


PICONGPU = "Techercise__AMD-Instruction-Roofline-using-rocProf-Metrics__{}_inst_output.csv"
# The first line of each: bytes read and written, and the time in microseconds.
LISTS = {
    PICONGPU.format("LWFA_simulations__mi100_lw_cc"): (1124711000, 408483000, 2461.174),
    PICONGPU.format("LWFA_simulations__mi60_lw_cc"): None,
    PICONGPU.format("TWEAC_simulations__mi60_tweac_cc"): None,
    PICONGPU.format("WI_simulations__mi100_wi_cc"): None,
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_counters_are_one_launch(name: str, amd: Path) -> None:
    given = {row["Metric Name"]: float(row["Metric Value"]) for row in cells(amd / name)}
    if known := LISTS[name]:
        assert (given["FetchSize"], given["WriteSize"], given["time"]) == known
    recording = read(amd / name)
    assert total_time_ns(recording.kernels) == round(given["time"] * 1000)
    assert launches(recording.kernels) == 1
    (moved,) = kernels(recording)["dram_bytes"]
    assert moved == given["FetchSize"] + given["WriteSize"]


# Read by tests of their own below.
OTHERS = {
    "AMD-AGI__TraceLens__tests__rocprof__908_results.json.gz",
    "HGLiu1998__batched_gemm__ck_bmm__37ca13315e70__28_results.db",
    f"{BLOGS}HIP_trace__results.db",
    f"{BLOGS}HIP_trace__results.json",
    f"{SDK}memory_copy_trace.csv",
    "ROCm__rocmProfileData__examples__rocm-profile-data__results__matmul_result.json",
    "ROCm__rocmProfileData__examples__rocm-profile-data__results__matmul_result.rpd",
    "kerbowa__rocprof_compare__rocprof_compare__test__test_prof_data_1.csv",
    "shashankparsi__HIP_Programming__results.db",
    "shashankparsi__HIP_Programming__results.json",
    "vcopy_MI300X_A1_rocpd/pmc_perf.csv",
}


def test_no_file_of_the_corpus_is_left_out(amd: Path) -> None:
    present = {str(path.relative_to(amd)) for path in amd.rglob("*") if path.is_file()}
    tested = {*ROW_FILES, *LONG_FILES, *SUMMARIES, *REFUSED, *LISTS, *OTHERS}
    # Files that were added to the corpus after these lists must at least be read or refused.
    for name in sorted(present - tested):
        with suppress(TraceroofError):
            assert read(amd / name).kernels.num_rows > 0, name
    assert tested <= present


def test_files_of_other_tools_are_nobodys(corpus: Path) -> None:
    others = [
        path
        for path in corpus.rglob("*")
        if path.is_file() and not {"amd", "rocpd", "known_faults"} & set(path.parts)
    ]
    assert len(others) > 50
    for path in others:
        try:
            start = head(path, HEAD_BYTES)
        except TraceroofError:
            continue
        sure = {one.name for one in PARSERS if one.recognises(start, path)}
        # One trace among those of torch is really rocprof's, and is called so.
        assert sure == ({"rocprof-v1-json"} if "rocprof_v1" in path.name else set()), path


# --------------------------------------------------------------------------------------------
# rocpd, rocprofv3


def test_rocpd_database(amd: Path) -> None:
    path = amd / "HGLiu1998__batched_gemm__ck_bmm__37ca13315e70__28_results.db"
    recording = read(path)
    frame = kernels(recording)
    assert recording.time_basis == "timeline"
    assert (len(frame), int(frame["duration_ns"].sum())) == (151, 2_604_546)
    suffix = "_00003fdc_92cb_72cb_9169_c7e541b1fcdf"
    direct = select(
        path, f'SELECT start, "end" - start FROM "rocpd_kernel_dispatch{suffix}" ORDER BY id'
    )
    assert list(zip(frame["start_ns"], frame["duration_ns"], strict=True)) == direct
    tile = frame[frame["kernel_name"].str.contains("ck_tile")]
    fill = frame[frame["kernel_name"].str.contains("fillBuffer")]
    assert (len(tile), int(tile["duration_ns"].sum())) == (150, 2_580_371)
    assert (len(fill), int(fill["duration_ns"].sum())) == (1, 24_175)
    one = tile.iloc[0]
    # 512 x 128 work-items in workgroups of 256: two workgroups in x.
    assert (one["grid_x"], one["grid_y"], one["grid_z"]) == (2, 128, 1)
    assert (one["block_x"], one["shared_memory_static_bytes"]) == (256, 65_536)
    assert one["registers_per_thread"] == 128
    assert one["accumulation_registers_per_thread"] == 384
    assert one["scalar_registers_per_wave"] == 112
    # 512 registers: one wave a SIMD, 4 of 32 a compute unit.
    assert one["theoretical_occupancy_pct"] == 12.5
    assert set(frame["device"]) == {0}
    used = recording.devices[0]
    assert (used.index, used.gfx_target, used.pci_device_id, used.sm_count) == (
        0,
        "gfx942",
        29857,
        304,
    )
    # Every dispatch is tied to the hipLaunchKernel that has its stack number.
    assert recording.host_calls.num_rows == 629
    assert frame["host_launch_ns"].notna().all()
    assert (frame["host_launch_ns"] < frame["start_ns"]).all()


def test_rocprofv3_json(amd: Path) -> None:
    path = amd / "AMD-AGI__TraceLens__tests__rocprof__908_results.json.gz"
    frame = kernels(recording := read(path))
    spent = frame["duration_ns"]
    assert (len(frame), int(spent.sum()), int(spent.min())) == (43_915, 4_441_741_378, 560)
    top = (
        frame.groupby("kernel_name")["duration_ns"].agg(["size", "sum"]).sort_values("sum").iloc[-1]
    )
    assert str(top.name).startswith("ncclDevKernel_Generic_1")
    assert (int(top["size"]), int(top["sum"])) == (1_310, 4_158_756_678)
    document = json.loads(gzip.decompress(path.read_bytes()))["rocprofiler-sdk-tool"][0]
    records = document["buffer_records"]["kernel_dispatch"]
    symbols = {one["kernel_id"]: one["formatted_kernel_name"] for one in document["kernel_symbols"]}
    expected = sorted(
        (
            one["dispatch_info"]["dispatch_id"],
            symbols[one["dispatch_info"]["kernel_id"]],
            one["start_timestamp"],
        )
        for one in records
    )
    assert (
        list(zip(frame["launch_id"], frame["kernel_name"], frame["start_ns"], strict=True))
        == expected
    )
    assert recording.devices[0].gfx_target == "gfx950"
    assert recording.devices[0].name == "AMD Instinct MI350X"


def test_rocprofv3_trace_and_counters(amd: Path) -> None:
    frame = kernels(read(amd / f"{JIMW}decode_kernel_trace.csv"))
    spent = frame["duration_ns"]
    assert (len(frame), frame["kernel_name"].nunique(), int(spent.sum())) == (144, 17, 1_857_381)
    assert (int(spent.min()), int(spent.max())) == (962, 168_089)
    fetch = read(amd / f"{JIMW}decode_fetch_counter_collection.csv")
    assert launches(fetch.kernels) == 34
    assert sum(raw(fetch, "FETCH_SIZE")) == 42_346.6875
    assert kernels(fetch)["dram_read_bytes"].sum() == 42_346.6875 * 1024
    stall = read(amd / f"{JIMW}decode_stall_counter_collection.csv")
    assert sum(raw(stall, "GRBM_GUI_ACTIVE")) == 1_295_813


def test_lds_counters_of_hipkittens(amd: Path) -> None:
    recording = read(amd / f"{KITTENS}{LDS_CONFLICT}")
    frame = kernels(recording)
    assert (len(frame), frame["kernel_name"].nunique()) == (362, 33)
    assert frame["shared_requests"].sum() == 580
    assert frame["shared_conflicts"].sum() == 568


def test_a_table_finds_its_device_list(amd: Path) -> None:
    recording = read(amd / f"{KITTENS}{HIT_RATE}_counter_collection.csv")
    assert [Path(one.path).name.rpartition("__")[2] for one in recording.sources] == [
        "hit_rate_counter_collection.csv",
        "hit_rate_agent_info.csv",
    ]
    assert recording.devices[0].gfx_target == "gfx950"
    # Lines have 128 bytes there, but a lookup covers 64: the fill of bmm1 shows it.
    frame = kernels(recording)
    counted = sum(raw(recording, "TCP_TOTAL_CACHE_ACCESSES_sum"))
    assert frame["l1_bytes"].sum() == 64 * counted
    # "Agent 2" is the first GPU: the machine has two processors before it.
    assert set(frame["device"]) == {0}


def test_a_folder_of_rocprofv3_is_one_run(amd: Path, tmp_path: Path) -> None:
    for path in amd.glob(f"{JIMW}*"):
        (tmp_path / path.name.removeprefix(JIMW)).symlink_to(path)
    recording = read(tmp_path)
    frame = kernels(recording)
    # Launches and times of the trace; counters of two other runs of the program.
    assert recording.time_basis == "timeline"
    assert (len(frame), int(frame["duration_ns"].sum())) == (144, 1_857_381)
    assert recording.host_calls.num_rows == 920
    # Each pass has 34 dispatches, three of which came before the trace began.
    assert len(raw(recording, "FETCH_SIZE")) == len(raw(recording, "GRBM_GUI_ACTIVE")) == 31
    assert any("no partner" in note for note in notes(recording))
    assert sum(note.count for note in recording.notes if "no partner" in note.text) == 6


def test_memory_copies_alone(amd: Path) -> None:
    path = amd / f"{SDK}memory_copy_trace.csv"
    rows = cells(path)
    frame = read(path).kernels.to_pandas()
    assert frame["duration_ns"].tolist() == [int(duration(row) or 0) for row in rows]
    short = {"HOST_TO_DEVICE": "HtoD", "DEVICE_TO_HOST": "DtoH"}
    assert frame["copy_kind"].tolist() == [
        short[row["Direction"].removeprefix("MEMORY_COPY_")] for row in rows
    ]
    assert set(frame["kind"]) == {"memcpy"}


# --------------------------------------------------------------------------------------------
# rocprof v1, RPD, Hygon


def test_negative_durations_are_unknown(amd: Path) -> None:
    path = amd / "ByungHyun21__LLM170__results.excerpt.csv"
    stated = [int(row["DurationNs"]) for row in cells(path)]
    assert sorted(one for one in stated if one < 0) == [-1112, -1080, -1042, -756, -473, -12]
    recording = read(path)
    spent = kernels(recording)["duration_ns"]
    assert len(spent) == 19
    assert spent.isna().tolist() == [one < 0 for one in stated]
    assert spent.dropna().tolist() == [one for one in stated if one > 0]
    note = next(one for one in recording.notes if "end before they begin" in one.text)
    assert (note.count, note.severe) == (6, True)


def test_rows_without_a_header(amd: Path) -> None:
    path = amd / "kerbowa__rocprof_compare__rocprof_compare__test__test_prof_data_1.csv"
    # 21 cells behind one quoted name: the last is the duration.
    lines = [line for line in path.read_text().splitlines() if line.strip()]
    expected = [int(line.rpartition(",")[2]) for line in lines]
    frame = kernels(read(path))
    assert frame["duration_ns"].tolist() == expected
    assert not frame["kernel_name"].str.contains("clone").any()
    first = frame.iloc[0]
    assert (first["launch_id"], first["process_id"], first["block_x"]) == (156, 15982, 512)
    assert (first["registers_per_thread"], first["scalar_registers_per_wave"]) == (56, 56)


@pytest.mark.parametrize(
    ("stem", "kernel", "copies"),
    [
        (f"{BLOGS}HIP_trace__results", 5_280, 6),
        ("shashankparsi__HIP_Programming__results", 3_431_611, 3),
    ],
)
def test_database_and_json_of_a_v1_trace_agree(
    stem: str, kernel: int, copies: int, amd: Path
) -> None:
    database, document = read(amd / f"{stem}.db"), read(amd / f"{stem}.json")
    assert total_time_ns(database.kernels) == total_time_ns(document.kernels) == kernel
    columns = [
        "kind",
        "kernel_name",
        "start_ns",
        "duration_ns",
        "device",
        "copy_bytes",
        "grid_x",
        "block_x",
    ]
    by_start = [
        one.kernels.to_pandas()[columns].sort_values("start_ns").reset_index(drop=True)
        for one in (database, document)
    ]
    pd.testing.assert_frame_equal(*by_start)
    assert (by_start[0]["kind"] == "memcpy").sum() == copies
    assert by_start[0]["copy_bytes"].notna().sum() == copies
    direct = select(amd / f"{stem}.db", "SELECT count(*) FROM HIP")
    assert database.host_calls.num_rows == document.host_calls.num_rows == direct[0][0]


def test_v1_json_names_the_devices(amd: Path) -> None:
    found = read(amd / f"{BLOGS}HIP_trace__results.json").devices
    assert {(one.name, one.gfx_target, one.pci_device_id, one.sm_count) for one in found} == {
        ("AMD Instinct MI210", "gfx90a", 29711, 104)
    }
    # The kernel ran on node 2, the first GPU behind two processors.
    assert found[0].index == 2


def test_a_folder_of_rocprof_v1_counts_nothing_twice(amd: Path, tmp_path: Path) -> None:
    for path in amd.glob(f"{BLOGS}HIP_trace__*"):
        (tmp_path / path.name.removeprefix(f"{BLOGS}HIP_trace__")).symlink_to(path)
    recording = read(tmp_path)
    assert recording.format == "rocprof-v1-csv"
    assert launches(recording.kernels) == 1
    assert launches(recording.kernels, "memcpy") == 6
    assert recording.devices[0].name == "AMD Instinct MI210"


def test_rpd_and_its_chrome_trace(amd: Path) -> None:
    stem = "ROCm__rocmProfileData__examples__rocm-profile-data__results__matmul_result"
    exact, coarse = read(amd / f"{stem}.rpd"), read(amd / f"{stem}.json")
    direct = select(
        amd / f"{stem}.rpd",
        'SELECT count(*), sum(o."end" - o.start) FROM rocpd_op o '
        "JOIN rocpd_string t ON t.id = o.opType_id WHERE t.string = 'KernelExecution'",
    )
    assert direct == [(29, 26_399_795)]
    for recording in (exact, coarse):
        assert launches(recording.kernels) == 29
        assert launches(recording.kernels, "memcpy") == 55
        assert launches(recording.kernels, "memset") == 1
    assert total_time_ns(exact.kernels) == 26_399_795
    # Whole microseconds: each loses less than one.
    assert 0 <= 26_399_795 - total_time_ns(coarse.kernels) < 29_000
    gemm = kernels(exact).sort_values("duration_ns").iloc[-1]
    assert (gemm["grid_x"], gemm["grid_y"], gemm["block_x"]) == (1792, 782, 256)
    assert exact.host_calls.num_rows == 125


def test_hygon_counters(amd: Path) -> None:
    recording = read(amd / "LearnMF__kernel-roofline-analysis-tools__cal_pmc-read.csv")
    frame = kernels(recording)
    first = frame.iloc[0]
    assert "k_read" in first["kernel_name"]
    assert first["dram_read_bytes"] == 16_777_315 * 64
    assert first["duration_ns"] == 850_560
    assert first["dram_read_bytes"] / first["duration_ns"] == pytest.approx(1_262, abs=1)
    # The preset for reads has no counter for writes: unknown, not zero.
    assert frame["dram_write_bytes"].isna().all()


# --------------------------------------------------------------------------------------------
# omniperf and rocprof-compute


def test_omniperf_v1(amd: Path) -> None:
    recording = read(amd / "Axes1_mi200")
    frame = kernels(recording)
    assert (len(frame), int(frame["duration_ns"].sum())) == (167, 42_824_116)
    assert frame["dram_read_bytes"].sum() == 31_007_307_392
    assert frame["dram_write_bytes"].sum() == 264_241_152
    assert recording.devices[0].sm_count == 104
    assert set(frame["peak_dram_bytes_per_s"]) == {1638.4e9}
    assert set(frame["calibrated_dram_bytes_per_s"]) == {1404.9331e9}


def test_mi200_vcopy(amd: Path) -> None:
    recording = read(amd / "vcopy_MI200")
    frame = kernels(recording)
    assert recording.time_basis == "counter-tool"
    assert frame["duration_ns"].tolist() == [20_480, 16_320, 15_520]
    assert frame["dram_read_bytes"].tolist()[:2] == [8_389_504, 8_389_504]
    assert frame["dram_write_bytes"].tolist() == [8_388_608, 5_828_608, 5_831_232]
    first = frame.iloc[0]
    assert first["l2_hit_pct"] == pytest.approx(35.75, abs=0.005)
    # From the pass that adds up waves: 44,799,316 / (27,964 cycles x 32 waves x 104 CUs).
    assert first["achieved_occupancy_pct"] == pytest.approx(100 * 44_799_316 / (27_964 * 32 * 104))
    assert round(first["achieved_occupancy_pct"]) == 48
    # 16.78 MB in 20.48 us is half of 1,638.4 GB/s.
    assert raw(recording, "HBM bandwidth of peak")[0] == pytest.approx(50.0, abs=0.01)
    waits = first[["wait_dependency", "wait_issue", "wave_issuing"]].tolist()
    assert [round(one, 2) for one in waits] == [0.90, 0.07, 0.03]
    assert first["stalls_from"] == "wait fractions (coarse)"
    assert first["peak_dram_bytes_per_s"] == 1638.4e9


def test_mi200_vcopy_without_the_level_pass(amd: Path) -> None:
    # One table alone: the other formula, 400 x 10,620,650 / (29,465 x 104 x 32).
    first = kernels(read(amd / "vcopy_MI200/pmc_perf.csv")).iloc[0]
    assert first["achieved_occupancy_pct"] == pytest.approx(400 * 10_620_650 / (29_465 * 104 * 32))
    assert round(first["achieved_occupancy_pct"]) == 43


def test_mi300a_vcopy_has_no_durations(amd: Path) -> None:
    recording = read(amd / "vcopy_MI300A_A1")
    frame = kernels(recording)
    assert len(frame) == 3
    assert frame["duration_ns"].isna().all()
    assert any("lost their last digits" in note for note in notes(recording))
    assert (
        frame["dram_read_bytes"].tolist()[0] == 8_391_744
        or max(frame["dram_read_bytes"]) <= 8_404_000
    )
    assert raw(recording, "TCC_BUBBLE_sum")[0] == 65_536
    assert frame["dram_write_bytes"].tolist()[0] == 8_388_608
    assert frame["l2_hit_pct"].iloc[0] == pytest.approx(33.5, abs=0.1)
    # No bandwidth, no share of the peak: nothing is divided by an unknown time.
    assert raw(recording, "HBM bandwidth of peak") == []
    # Ratios of cycles need no time.
    assert frame["cu_busy_pct"].notna().all()


def test_mi300x_vcopy_in_long_form(amd: Path) -> None:
    path = amd / "vcopy_MI300X_A1_rocpd"
    rows = cells(path / "pmc_perf.csv")
    assert len(rows) == 6_027 == 3 * 2_009
    recording = read(path)
    frame = kernels(recording)
    assert len(frame) == 3
    assert raw(recording, "TCC_BUBBLE_sum")[0] == 65_536
    assert raw(recording, "GRBM_GUI_ACTIVE") == [272_355, 234_038, 231_626]
    # Twelve passes a dispatch, 5,168 to 9,574 ns each: their median stands for it.
    for number, row in enumerate(frame.itertuples(), start=1):
        spent = {
            (one["Start_Timestamp"], int(one["End_Timestamp"]) - int(one["Start_Timestamp"]))
            for one in rows
            if one["Dispatch_ID"] == str(number)
        }
        times = [length for _, length in spent]
        assert len(times) == 12
        assert 5_168 <= min(times) <= max(times) <= 9_574
        assert row.duration_ns == round(float(np.median(times)))
    # Every one of the 2,009 counters of every dispatch is kept.
    counters = recording.raw_metrics.to_pandas()
    assert (counters["section"] != "derived").sum() == 6_027


def test_mi350_vcopy_reads_8_mb(amd: Path) -> None:
    recording = read(amd / "vcopy_MI350")
    frame = kernels(recording)
    row = cells(amd / "vcopy_MI350/pmc_perf.csv")[0]
    assert Decimal(row["TCC_BUBBLE_sum"]) == 0
    requests = int(float(row["TCC_EA0_RDREQ_sum"]))
    assert requests == 65_640
    # By the formula of MI300 it would read half of what was copied.
    assert 64 * requests == 4_200_960
    assert frame["dram_read_bytes"].iloc[0] == 128 * requests
    assert frame["dram_read_bytes"].iloc[0] == pytest.approx(8.4e6, rel=0.001)
    assert any("dram_read_bytes estimated" in note for note in notes(recording))
    # Means over passes, rounded: 21,762, 16,919.75 and 16,864 ns.
    assert frame["duration_ns"].tolist() == [21_762, 16_920, 16_864]
    # The file says 128 compute units; device 30112 unpartitioned has 256.
    assert recording.devices[0].sm_count == 256


def test_bmm1_fill_moves_half_the_peak_while_compute_units_look_idle(amd: Path) -> None:
    recording = read(amd / "bmm1_MI300X_A1")
    frame = kernels(recording)
    assert len(frame) == 301
    fill = frame[frame["kernel_name"].str.contains("fillBuffer")]
    assert len(fill) == 151
    assert fill["duration_ns"].mean() == pytest.approx(5_584, abs=1)
    written = fill["dram_write_bytes"].mean()
    assert written == pytest.approx(16.78e6, rel=0.001)
    moved = (fill["dram_bytes"] / fill["peak_dram_bytes_per_s"] / fill["duration_ns"] * 1e9).mean()
    assert written / fill["duration_ns"].mean() == pytest.approx(3_005, abs=5)
    assert 100 * written / fill["duration_ns"].mean() / 5_324.8 == pytest.approx(56.4, abs=0.15)
    assert 100 * moved == pytest.approx(56.5, abs=0.3)
    # A fill of 16 MiB: what passes the vector cache and goes to L2 is exactly that.
    assert set(fill["l1_bytes"]) == set(fill["l2_bytes"]) == {16 * 1024 * 1024}
    assert set(fill["lines_per_request"]) == {16}
    # 17 % of the compute units busy: shown, and the base of nothing.
    assert fill["cu_busy_pct"].mean() == pytest.approx(17.5, abs=0.1)
    used = fill[["sm_throughput_pct", "sm_busy_pct"]].mean()
    assert (used < 4).all()
    assert fill["memory_throughput_pct"].isna().all()


def test_bmm1_matrix_kernel(amd: Path) -> None:
    recording = read(amd / "bmm1_MI300X_A1")
    frame = kernels(recording)
    bmm = frame[frame["kernel_name"].str.contains("batched_matrix")]
    assert len(bmm) == 150
    spent = bmm["duration_ns"].mean()
    assert spent == pytest.approx(29_054, abs=1)
    assert bmm["dram_read_bytes"].mean() == pytest.approx(52.6e6, rel=0.001)
    assert bmm["dram_write_bytes"].mean() == pytest.approx(16.8e6, rel=0.001)
    assert bmm["dram_bytes"].mean() / spent == pytest.approx(2_388, abs=1)
    assert 100 * bmm["dram_bytes"].mean() / spent / 5_324.8 == pytest.approx(44.9, abs=0.05)
    assert bmm["l2_hit_pct"].mean() == pytest.approx(75.6, abs=0.05)
    assert bmm["pipe_tensor_pct"].mean() == pytest.approx(4.7, abs=0.05)
    assert bmm["pipe_valu_pct"].mean() == pytest.approx(9.86, abs=0.01)
    assert set(bmm["tensor_dtype"]) == {"bf16"}
    assert bmm["flop_tensor"].mean() / spent / 1e3 == pytest.approx(73.9, abs=0.05)
    assert bmm["peak_tensor_flops_per_s"].iloc[0] == pytest.approx(1307.4e12, rel=1e-4)
    waits = bmm[["wait_dependency", "wait_issue", "wave_issuing"]].mean().tolist()
    assert [round(one, 2) for one in waits] == [0.59, 0.34, 0.07]
    assert (bmm["shared_conflicts"] / bmm["shared_wavefronts"]).mean() == pytest.approx(0.5)
    assert bmm["achieved_occupancy_pct"].mean() == pytest.approx(46, abs=0.5)


def test_a_measured_ceiling_beyond_physics_is_not_believed(amd: Path) -> None:
    recording = read(amd / "bmm1_MI300X_A1")
    frame = kernels(recording)
    # FP64 was measured at 130 % of 304 CUs x 2.1 GHz x 128.
    assert any("fp64" in note and "not used" in note for note in notes(recording))
    assert frame["calibrated_fp64_flops_per_s"].isna().all()
    assert frame["peak_fp64_flops_per_s"].iloc[0] == pytest.approx(81.7e12, rel=0.001)
    measured = [float(row["HBMBw"]) for row in cells(amd / "bmm1_MI300X_A1/roofline.csv")]
    assert frame["calibrated_dram_bytes_per_s"].iloc[0] == pytest.approx(
        float(np.median(measured)) * 1e9
    )


def test_parsers_never_claim_each_others_files(amd: Path) -> None:
    for path in amd.rglob("*"):
        scores = claims(path) if path.is_file() or path.parent == amd else {}
        best = max(scores.values(), default=0)
        assert list(scores.values()).count(best) <= 1, (path, scores)


def test_progress_ends_at_the_whole_file(amd: Path) -> None:
    seen: list[tuple[int, int]] = []
    parser = next(one for one in PARSERS if one.name == "rocprofv3-csv")
    parser.read(
        amd / f"{JIMW}decode_kernel_trace.csv",
        lambda done, total: seen.append((done, total)),
        Options(),
    )
    assert seen[-1][0] == seen[-1][1] > 0
