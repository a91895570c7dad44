"""Every layout of AMD's and Hygon's tools in small files, and what a folder of them is."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import traceroof
from tests.parsers.amd_fixtures import (
    V3_AGENTS,
    V3_COUNTER_HEADER,
    V3_TRACE_HEADER,
    claims,
    kernels,
    notes,
    raw,
    read,
    table,
    v3_counter,
    v3_launch,
    write,
)
from traceroof import plugins
from traceroof.core.kernel_table import launches, total_time_ns
from traceroof.diagnosis.diagnose import diagnose
from traceroof.errors import TraceroofError
from traceroof.ingest import detect
from traceroof.parser import Options, silent
from traceroof.parsers import rocprof_v1_csv

# --------------------------------------------------------------------------------------------
# rocprof v1

V1_OLD = (
    "Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd,wgr,lds,scr,vgpr,sgpr,fbar,sig,obj"
)
V1_NEW = (
    "Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd,wgr,lds,scr,arch_vgpr,accum_vgpr,"
    "sgpr,wave_size,sig,obj"
)


def test_v1_old_header_with_counters(tmp_path: Path) -> None:
    text = (
        f"{V1_OLD},SQ_WAVES,FetchSize,DispatchNs,BeginNs,EndNs,CompleteNs\n"
        '0,"f(int, int) [clone .kd]",1,0,0,5,5,1000,256,512,16,24,32,4160,0x0,0x7f,16,2.5,1,100,350,9\n'
    )
    recording = read(write(tmp_path / "results.csv", text))
    row = kernels(recording).iloc[0]
    assert recording.time_basis == "counter-tool"
    assert row["kernel_name"] == "f(int, int)"
    # 1,000 work-items in workgroups of 256: four workgroups.
    assert (row["grid_x"], row["grid_y"], row["block_x"]) == (4, 1, 256)
    assert (row["duration_ns"], row["start_ns"]) == (250, 100)
    assert (row["registers_per_thread"], row["scalar_registers_per_wave"]) == (24, 32)
    assert (row["shared_memory_static_bytes"], row["scratch_bytes_per_thread"]) == (512, 16)
    assert row["dram_read_bytes"] == 2_560
    assert raw(recording, "SQ_WAVES") == [16]
    # fbar, sig and obj are no counters.
    assert set(recording.raw_metrics["metric"].to_pylist()) == {"SQ_WAVES", "FetchSize"}


@pytest.mark.parametrize(
    ("times", "launch"),
    [
        # Queued at 1,000, run from 5,000 to 6,000; the host saw the end at 7,000.
        ((1_000, 5_000, 6_000, 7_000), 1_000),
        # By 50 µs too early: clocks that were fitted to each other.
        ((1_000_000, 5_000_000, 6_000_000, 5_950_000), 1_000_000),
        # The GPU's clock counts from elsewhere: done 12 s before it began, or queued after it.
        ((1_000, 12_000_005_000, 12_000_006_000, 7_000), None),
        ((12_000_000_000, 5_000, 6_000, 12_000_007_000), None),
    ],
)
def test_v1_says_when_the_host_queued_a_dispatch(
    tmp_path: Path, times: tuple[int, ...], launch: int | None
) -> None:
    stamps = ",".join(map(str, times))
    text = (
        f"{V1_OLD},DispatchNs,BeginNs,EndNs,CompleteNs\n"
        f'0,"f.kd",1,0,0,5,5,64,64,0,0,8,8,0,0x0,0x7f,{stamps}\n'
    )
    recording = read(write(tmp_path / "results.csv", text))
    assert recording.kernels["host_launch_ns"].to_pylist() == [launch]


def test_v1_counters_without_timestamps(tmp_path: Path) -> None:
    text = f'{V1_NEW},SQ_WAVES\n0,"f.kd",1,0,0,5,5,64,64,0,0,8,0,16,64,0x0,0x7f,1\n'
    recording = read(write(tmp_path / "results.csv", text))
    assert recording.time_basis == "counter-tool"
    assert kernels(recording)["duration_ns"].isna().all()
    assert kernels(recording)["kernel_name"].tolist() == ["f"]


def test_v1_quoted_trace_behind_noise(tmp_path: Path) -> None:
    header = ",".join(
        f'"{name}"' for name in [*V1_NEW.split(","), "BeginNs", "EndNs", "DurationNs"]
    )
    text = (
        "RPL: on '240101'\nRPL: profiling './a.out'\n"
        f'{header}\n0,"f",2,0,0,5,5,64,64,0,0,8,4,16,64,"0x0","0x7f",10,30,20\n'
    )
    recording = read(write(tmp_path / "results.csv", text))
    assert recording.time_basis == "timeline"
    assert total_time_ns(recording.kernels) == 20


def test_v1_folder_joins_passes_by_occurrence(tmp_path: Path) -> None:
    def run(counter: str, values: list[int], start: int) -> str:
        rows = "".join(
            f'{n},"f",1,0,0,5,5,64,64,0,0,8,0,16,64,0x0,0x7f,{one},{start + n},{start + n + 10}\n'
            for n, one in enumerate(values)
        )
        return f"{V1_NEW},{counter},BeginNs,EndNs\n{rows}"

    write(tmp_path / "a.csv", run("TCC_HIT_sum", [30, 60], 100))
    write(tmp_path / "b.csv", run("TCC_MISS_sum", [10, 20], 900))
    write(
        tmp_path / "b.sysinfo.txt",
        "ROCk module is loaded\nAgent 1\n  Name:  gfx90a\n  Chip ID:  29711(0x740f)\n  Compute Unit:  104\n  Node: 1\n",
    )
    recording = read(tmp_path)
    assert recording.format == "rocprof-v1-csv"
    assert launches(recording.kernels) == 2
    assert raw(recording, "TCC_HIT_sum") == [30, 60]
    assert raw(recording, "TCC_MISS_sum") == [10, 20]
    # Hits and misses were counted in two runs: their ratio is nobody's.
    assert kernels(recording)["l2_hit_pct"].isna().all()
    assert recording.devices[0].gfx_target == "gfx90a"


def test_v1_headerless_rows_with_counters_are_refused(tmp_path: Path) -> None:
    path = write(
        tmp_path / "r.csv", '0,"f [clone .kd]",1,0,0,5,5,64,64,0,0,8,0,16,64,0x0,0x7f,1,2\n'
    )
    assert claims(path) == {}
    with pytest.raises(TraceroofError, match="no table"):
        rocprof_v1_csv.PARSER.read(path, silent, Options())


# --------------------------------------------------------------------------------------------
# rocprofv2

V2 = (
    "Dispatch_ID,GPU_ID,Queue_ID,PID,TID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,"
    "Scratch_Per_Workitem,Arch_VGPR,Accum_VGPR,SGPR,Wave_Size,Kernel_Name,Start_Timestamp,"
    "End_Timestamp,Correlation_ID"
)


def test_v2_one_row_a_die_is_added_up(tmp_path: Path) -> None:
    rows = "".join(
        f'{dispatch},1,1,9,9,512,256,0,0,8,0,16,64,"f(int) (.kd)",100,200,0,{die},{hits},{100 + die}\n'
        for dispatch, hits in ((1, 10.0), (2, 20.0))
        for die in range(4)
    )
    text = f"{V2},XCC_Index,TCC_HIT_sum,TCP_PENDING_max\n\n{rows}"
    recording = read(write(tmp_path / "results_9.csv", text))
    frame = kernels(recording)
    assert frame["kernel_name"].tolist() == ["f(int)", "f(int)"]
    assert raw(recording, "TCC_HIT_sum") == [40, 80]
    assert raw(recording, "TCP_PENDING_max") == [103, 103]
    assert total_time_ns(recording.kernels) == 200


def test_v2_operation_trace_ends_with_stop(tmp_path: Path) -> None:
    text = "Domain,Operation,Kernel_Name,Start_Timestamp,Stop_Timestamp,Correlation_ID\nHCC_OPS,DISPATCH,f,10,25,3\n"
    recording = read(write(tmp_path / "hcc_ops_trace_1.csv", text))
    assert recording.format == "rocprofv2-csv"
    assert total_time_ns(recording.kernels) == 15
    assert recording.time_basis == "timeline"


def test_v2_oldest_header(tmp_path: Path) -> None:
    text = (
        "Dispatch_ID,GPU_ID,Queue_ID,Queue_Index,PID,TID,GRD,WGR,LDS,SCR,Arch_VGPR,ACCUM_VGPR,SGPR,"
        "Wave_Size,SIG,OBJ,Kernel_Name,Start_Timestamp,End_Timestamp,Correlation_ID,SQ_WAVES\n"
        '0,64700,1,0,9,9,512,256,64,0,8,4,16,64,0x0,0x7f,"f",0,7,0,8.000000\n'
    )
    row = kernels(read(write(tmp_path / "results.csv", text))).iloc[0]
    assert (row["device"], row["grid_x"], row["block_x"]) == (64700, 2, 256)
    assert (row["duration_ns"], row["accumulation_registers_per_thread"]) == (7, 4)


# --------------------------------------------------------------------------------------------
# rocprofv3


def v3_counters(*rows: tuple[object, ...]) -> str:
    return table([V3_COUNTER_HEADER, *rows])


def v3_trace(*rows: tuple[object, ...]) -> str:
    return table([V3_TRACE_HEADER, *rows])


@pytest.mark.parametrize(
    ("agent", "device"), [("Agent 2", 0), (2, 0), ("GPU 0", 0), ("GPU 3", 3), ("Agent 9", 9)]
)
def test_v3_agents_become_gpu_ordinals(agent: object, device: int, tmp_path: Path) -> None:
    write(tmp_path / "7_agent_info.csv", V3_AGENTS)
    path = write(tmp_path / "7_kernel_trace.csv", v3_trace(v3_launch(1, agent=agent)))
    recording = read(path)
    row = kernels(recording).iloc[0]
    assert (row["device"], row["process_id"]) == (device, 7)
    # All GPUs of the machine are of one kind, so even a number that is not listed is known.
    assert row["sm_count"] == 304
    assert recording.devices[0].pci_device_id == 29857


def test_v3_oldest_kernel_trace(tmp_path: Path) -> None:
    text = (
        "Kind,Agent_Id,Queue_Id,Kernel_Id,Kernel_Name,Correlation_Id,Start_Timestamp,"
        "End_Timestamp,Private_Segment_Size,Group_Segment_Size,Workgroup_Size_X,Workgroup_Size_Y,"
        "Workgroup_Size_Z,Grid_Size_X,Grid_Size_Y,Grid_Size_Z\n"
        '"KERNEL_DISPATCH",1,139690710949888,13,"f(int, int)",5,10,40,16,512,64,2,1,1024,1024,1\n'
    )
    row = kernels(read(write(tmp_path / "1_kernel_trace.csv", text))).iloc[0]
    assert (row["grid_x"], row["grid_y"], row["grid_z"]) == (16, 512, 1)
    assert (row["stream"], row["duration_ns"]) == (139690710949888, 30)
    assert (row["shared_memory_static_bytes"], row["scratch_bytes_per_thread"]) == (512, 16)


def test_v3_trace_with_a_stated_duration_and_guid(tmp_path: Path) -> None:
    header = ("Guid", *V3_TRACE_HEADER, "Duration_NS")
    rows = [(guid, *v3_launch(1), 10_000) for guid in ("aa-1", "bb-2")]
    frame = kernels(read(write(tmp_path / "out_kernel_trace.csv", table([header, *rows]))))
    # Two processes may have the same dispatch number.
    assert len(frame) == 2
    assert frame["process_id"].nunique() == 2


def test_v3_trace_and_counters_of_one_process_join_by_dispatch(tmp_path: Path) -> None:
    write(tmp_path / "h/7_agent_info.csv", V3_AGENTS)
    write(tmp_path / "h/7_kernel_trace.csv", v3_trace(v3_launch(2, start=50, end=90), v3_launch(1)))
    write(
        tmp_path / "h/7_counter_collection.csv",
        v3_counters(
            v3_counter(1, "TCC_HIT_sum", 30), v3_counter(1, "TCC_MISS_sum", 10),
            v3_counter(2, "TCC_HIT_sum", 1), v3_counter(2, "TCC_MISS_sum", 3),
            v3_counter(3, "TCC_HIT_sum", 5), v3_counter(3, "TCC_MISS_sum", 5),
        ),
    )  # fmt: skip
    recording = read(tmp_path)
    frame = kernels(recording)
    assert frame["launch_id"].tolist() == [1, 2, 3]
    assert frame["l2_hit_pct"].tolist() == [75, 25, 50]
    # Counters were collected while these times were taken.
    assert recording.time_basis == "counter-tool"
    assert frame["duration_ns"].tolist() == [10_000, 40, 10_000]
    assert any("missing from the trace" in note for note in notes(recording))


def test_v3_passes_in_folders_join_by_occurrence(tmp_path: Path) -> None:
    write(tmp_path / "h/7_agent_info.csv", V3_AGENTS)
    write(
        tmp_path / "h/7_kernel_trace.csv",
        v3_trace(
            v3_launch(1, name="f"), v3_launch(2, name="g"), v3_launch(3, name="f"),
            v3_launch(4, name="f", grid=2048),
        ),
    )  # fmt: skip
    # Another run numbers otherwise, and launches one kernel more.
    write(
        tmp_path / "pmc_1/h/8_counter_collection.csv",
        v3_counters(
            *(
                v3_counter(number, "FETCH_SIZE", size, name=name, process=8, grid=grid)
                for number, name, size, grid in (
                    (11, "f", 1, 1024), (12, "f", 2, 1024), (13, "f", 9, 2048), (14, "g", 3, 1024),
                    (15, "extra", 4, 1024),
                )
            )
        ),
    )  # fmt: skip
    write(
        tmp_path / "pmc_2/h/9_counter_collection.csv",
        v3_counters(
            *(v3_counter(n, "WRITE_SIZE", 7, name=k, process=9) for n, k in ((1, "f"), (2, "g")))
        ),
    )
    recording = read(tmp_path)
    frame = kernels(recording)
    assert recording.time_basis == "timeline"
    assert frame["kernel_name"].tolist() == ["f", "g", "f", "f"]
    assert (frame["dram_read_bytes"] / 1024).tolist() == [1, 3, 2, 9]
    written = (frame["dram_write_bytes"] / 1024).tolist()
    assert written[:2] == [7, 7]
    assert np.isnan(written[2:]).all()
    left = next(note for note in recording.notes if "no partner" in note.text)
    assert left.count == 1


def test_v3_two_processes_with_the_same_counters_are_no_passes(tmp_path: Path) -> None:
    for process in (7, 8):
        write(
            tmp_path / f"h/{process}_counter_collection.csv",
            v3_counters(v3_counter(1, "FETCH_SIZE", process, process=process)),
        )
    recording = read(tmp_path)
    frame = kernels(recording)
    assert frame["process_id"].tolist() == [7, 8]
    assert frame["dram_read_bytes"].tolist() == [7_168, 8_192]


def test_v3_replayed_dispatches_count_once(tmp_path: Path) -> None:
    rows = [
        v3_counter(1, "FETCH_SIZE", 4, start=1_000, end=11_000),
        v3_counter(1, "GRBM_GUI_ACTIVE", 800, start=1_000, end=11_000),
        v3_counter(1, "WRITE_SIZE", 2, start=20_000, end=32_000),
        v3_counter(1, "GRBM_GUI_ACTIVE", 900, start=20_000, end=32_000),
    ]
    recording = read(write(tmp_path / "7_counter_collection.csv", v3_counters(*rows)))
    frame = kernels(recording)
    assert len(frame) == 1
    assert frame["dram_read_bytes"].tolist() == [4_096]
    assert frame["dram_write_bytes"].tolist() == [2_048]
    # 10 and 12 microseconds: the middle stands for the dispatch.
    assert frame["duration_ns"].tolist() == [11_000]
    assert sorted(raw(recording, "GRBM_GUI_ACTIVE")) == [800, 900]
    assert any("ran several times" in note for note in notes(recording))


def test_v3_a_counter_absent_on_a_dispatch_is_missing(tmp_path: Path) -> None:
    # Iteration multiplexing: every launch of a kernel carries another counter.
    rows = [v3_counter(1, "FETCH_SIZE", 4), v3_counter(2, "WRITE_SIZE", 6)]
    frame = kernels(read(write(tmp_path / "7_counter_collection.csv", v3_counters(*rows))))
    assert frame["dram_read_bytes"].tolist()[0] == 4_096
    assert np.isnan(frame["dram_read_bytes"].tolist()[1])
    assert np.isnan(frame["dram_write_bytes"].tolist()[0])
    assert frame["dram_bytes"].isna().all()


def test_v3_dispatch_numbers_that_say_nothing_are_no_replays(tmp_path: Path) -> None:
    rows = [v3_counter(0, "FETCH_SIZE", 1, start=n * 100, end=n * 100 + 50) for n in range(400)]
    recording = read(write(tmp_path / "7_counter_collection.csv", v3_counters(*rows)))
    assert launches(recording.kernels) == 400
    assert any("taken as different dispatches" in note for note in notes(recording))


def test_v3_files_of_a_process_given_by_name_are_read_together(tmp_path: Path) -> None:
    """GIVEN the kernels and the calls of process 7, each by its name WHEN they are read in any order
    THEN as one recording, with the launch call; the calls of another process are refused."""
    api = "Domain,Function,Process_Id,Thread_Id,Correlation_Id,Start_Timestamp,End_Timestamp\n"
    launches_of_7 = write(tmp_path / "7_kernel_trace.csv", v3_trace(v3_launch(1, correlation=5)))
    call = f"{api}HIP_RUNTIME_API,hipLaunchKernel,7,8,5,700,750\n"
    calls = write(tmp_path / "7_hip_api_trace.csv", call)
    for files in ([launches_of_7, calls], [calls, launches_of_7]):
        (found,) = detect.read_each(files)
        row = kernels(found).iloc[0]
        assert (row["host_launch_ns"], row["host_launch_duration_ns"]) == (700, 50)
        assert found.host_calls["name"].to_pylist() == ["hipLaunchKernel"]
    other = write(tmp_path / "8_hip_api_trace.csv", call)
    with pytest.raises(TraceroofError, match=r"8_hip_api_trace.csv holds host API calls"):
        detect.read_each([launches_of_7, other])


def test_v3_host_calls_ranges_and_copies(tmp_path: Path) -> None:
    api = "Domain,Function,Process_Id,Thread_Id,Correlation_Id,Start_Timestamp,End_Timestamp\n"
    write(tmp_path / "7_kernel_trace.csv", v3_trace(v3_launch(1, correlation=5)))
    write(
        tmp_path / "7_hip_api_trace.csv",
        f"{api}HIP_RUNTIME_API,hipGetLastError,7,8,5,900,905\nHIP_RUNTIME_API,hipLaunchKernel,7,8,5,700,750\n",
    )
    write(tmp_path / "7_marker_api_trace.csv", f"{api}MARKER_CORE_API,step 1,7,8,1,600,20000\n")
    write(
        tmp_path / "7_memory_copy_trace.csv",
        "Kind,Direction,Stream_Id,Source_Agent_Id,Destination_Agent_Id,Correlation_Id,Start_Timestamp,"
        'End_Timestamp\nMEMORY_COPY,MEMORY_COPY_DEVICE_TO_HOST,4,"Agent 2","Agent 0",6,30000,30400\n',
    )
    write(
        tmp_path / "7_kernel_stats.csv",
        "Name,Calls,TotalDurationNs,AverageNs,Percentage\nk,99,1,1,1\n",
    )
    recording = read(tmp_path)
    assert launches(recording.kernels) == 1
    row = kernels(recording).iloc[0]
    # The call that launches, not the first one with the number.
    assert (row["host_launch_ns"], row["host_launch_duration_ns"]) == (700, 50)
    assert recording.host_calls.num_rows == 2
    assert recording.spans.to_pylist()[0]["name"] == "step 1"
    assert recording.spans.to_pylist()[0]["duration_ns"] == 19_400
    copy = recording.kernels.to_pandas().query("kind == 'memcpy'").iloc[0]
    assert (copy["copy_kind"], copy["duration_ns"], copy["device"]) == ("DtoH", 400, 2)


def test_v3_statistics_count_where_there_is_no_trace(tmp_path: Path) -> None:
    write(tmp_path / "7_agent_info.csv", V3_AGENTS)
    write(
        tmp_path / "7_kernel_stats.csv",
        "Name,Calls,TotalDurationNs,AverageNs,Percentage\nk,4,400,100,1\n",
    )
    write(
        tmp_path / "7_hip_api_stats.csv",
        "Name,Calls,TotalDurationNs,AverageNs,Percentage\nhipMalloc,4,4,1,1\n",
    )
    recording = read(tmp_path)
    assert recording.format == "amd-kernel-stats"
    assert (launches(recording.kernels), total_time_ns(recording.kernels)) == (4, 400)


@pytest.mark.parametrize(
    ("beside", "named"),
    [
        ("7_agent_info.csv", ["AMD Instinct MI300X"]),
        # Of another process, perhaps on another machine.
        ("8_agent_info.csv", [None]),
    ],
)
def test_v3_statistics_take_the_agents_of_their_own_run(
    tmp_path: Path, beside: str, named: list[str | None]
) -> None:
    write(tmp_path / beside, V3_AGENTS)
    text = "Name,Calls,TotalDurationNs,AverageNs,Percentage\nk,4,400,100,1\n"
    recording = read(write(tmp_path / "7_kernel_stats.csv", text))
    assert [one.name for one in recording.devices] == named
    v1 = read(write(tmp_path / "results.stats.csv", text))
    assert [one.name for one in v1.devices] == [None]


SAMPLES = "Sample_Timestamp,Exec_Mask,Dispatch_Id,Instruction,Instruction_Comment,Correlation_Id,Wave_Issued_Instruction,Instruction_Type,Stall_Reason,Wave_Count\n"
REASON = "ROCPROFILER_PC_SAMPLING_INSTRUCTION_NOT_ISSUED_REASON_"


def sample(dispatch: int, instruction: str, issued: int, reason: str) -> str:
    mask = 18446744073709551615
    return f'1,{mask},{dispatch},"{instruction}","",1,{issued},"T","{REASON}{reason}",4\n'


def test_v3_samples_become_stall_shares(tmp_path: Path) -> None:
    write(tmp_path / "7_kernel_trace.csv", v3_trace(v3_launch(1), v3_launch(2)))
    rows = [
        *[sample(1, "s_waitcnt vmcnt(0)", 0, "WAITCNT")] * 4,
        *[sample(1, "s_waitcnt lgkmcnt(0)", 0, "WAITCNT")] * 2,
        sample(1, "s_barrier", 0, "BARRIER_WAIT"),
        sample(1, "v_add", 0, "ALU_DEPENDENCY"),
        # An issued instruction has no reason, whatever the column says.
        *[sample(1, "v_mul", 1, "OTHER_WAIT")] * 2,
        sample(9, "v_mul", 0, "OTHER_WAIT"),
    ]
    write(tmp_path / "7_pc_sampling_stochastic.csv", SAMPLES + "".join(rows))
    recording = read(tmp_path)
    first, second = (row for _, row in kernels(recording).iterrows())
    assert first["stall_long_scoreboard"] == pytest.approx(0.4)
    assert first["stall_short_scoreboard"] == pytest.approx(0.2)
    assert first["stall_barrier"] == first["stall_wait"] == pytest.approx(0.1)
    assert first["stalls_from"] == "pc-samples"
    # Two of ten samples issue; four waves on the compute unit are one on each of its SIMDs.
    assert first["wave_issuing"] == pytest.approx(0.2)
    assert first["warps_active"] == pytest.approx(1)
    assert recording.kernels["stall_misc"].null_count == 2
    assert second["stalls_from"] is None or second["stalls_from"] != second["stalls_from"]
    assert any("samples of dispatches" in note for note in notes(recording))
    # What waves wait for is a finding although no counter says how busy the units are.
    waits = next(one for one in diagnose(recording).fired() if one.rule.startswith("stall-"))
    assert waits.rule == "stall-long-scoreboard"
    assert waits.because.startswith("wavefronts spend 40 % of their cycles waiting for loads")


def v3_json(**records: Any) -> str:
    tool = {
        "metadata": {"pid": 908, "command": ["python", "--token=SECRET"]},
        "agents": [
            {"id": {"handle": 1}, "type": 1, "name": "AMD EPYC", "logical_node_type_id": 0},
            {
                "id": {"handle": 5}, "type": 2, "name": "gfx942", "product_name": "AMD Instinct MI300X",
                "logical_node_type_id": 0, "cu_count": 304, "num_xcc": 8, "device_id": 29857,
                "gfx_target_version": 90402, "max_engine_clk_fcompute": 2100, "num_shader_banks": 32,
            },
        ],
        "counters": [{"id": {"handle": 70}, "name": "TCC_HIT_sum"}, {"id": {"handle": 71}, "name": "TCC_MISS_sum"}],
        "strings": {"buffer_records": [{"kind": "NONE", "operations": []}, {"kind": "MEMORY_COPY", "operations": ["NONE", "HOST_TO_DEVICE"]}]},
        # The list is not in the order of the numbers.
        "kernel_symbols": [
            {"kernel_id": 9, "formatted_kernel_name": "g(int)", "arch_vgpr_count": 8},
            {"kernel_id": 3, "kernel_name": "_Z1fi.kd", "formatted_kernel_name": "f(int)", "arch_vgpr_count": 128, "accum_vgpr_count": 384, "sgpr_count": 112},
        ],
        "callback_records": {"counter_collection": records.pop("counted", [])},
        "buffer_records": records,
    }  # fmt: skip
    return json.dumps({"rocprofiler-sdk-tool": [tool]})


def v3_record(dispatch: int, start: int, end: int, kernel: int = 3) -> dict[str, Any]:
    return {
        "start_timestamp": start, "end_timestamp": end, "correlation_id": {"internal": dispatch},
        "stream_id": {"handle": 2},
        "dispatch_info": {
            "agent_id": {"handle": 5}, "queue_id": {"handle": 1}, "kernel_id": kernel,
            "dispatch_id": dispatch, "group_segment_size": 65536, "private_segment_size": 0,
            "workgroup_size": {"x": 256, "y": 1, "z": 1}, "grid_size": {"x": 512, "y": 4, "z": 1},
        },
    }  # fmt: skip


def test_v3_json_trace_and_copies(tmp_path: Path) -> None:
    copy = {
        "kind": 1, "operation": 1, "correlation_id": {"internal": 4}, "start_timestamp": 5,
        "end_timestamp": 25, "dst_agent_id": {"handle": 5}, "src_agent_id": {"handle": 1}, "bytes": 4096,
    }  # fmt: skip
    text = v3_json(
        kernel_dispatch=[v3_record(2, 50, 80, 9), v3_record(1, 10, 30)], memory_copy=[copy]
    )
    recording = read(write(tmp_path / "908_results.json", text))
    frame = kernels(recording)
    assert recording.time_basis == "timeline"
    assert frame["kernel_name"].tolist() == ["f(int)", "g(int)"]
    assert frame["duration_ns"].tolist() == [20, 30]
    assert frame["grid_x"].tolist() == [2, 2]
    assert frame["accumulation_registers_per_thread"].tolist()[0] == 384
    # The command line may hold secrets: it is not read.
    assert "SECRET" not in str(recording.kernels.to_pylist()) + str(recording.sources)
    moved = recording.kernels.to_pandas().query("kind == 'memcpy'").iloc[0]
    assert (moved["copy_kind"], moved["copy_bytes"], moved["duration_ns"]) == ("HtoD", 4096, 20)


def test_v3_json_counters_sum_their_instances(tmp_path: Path) -> None:
    counted = [
        {
            "dispatch_data": v3_record(1, 10, 30),
            "records": [
                {"counter_id": {"handle": handle}, "value": one}
                for handle, one in ((70, 10.0), (70, 20.0), (71, 10.0))
            ],
        }
    ]
    recording = read(write(tmp_path / "908_results.json", v3_json(counted=counted)))
    frame = kernels(recording)
    assert recording.time_basis == "counter-tool"
    assert raw(recording, "TCC_HIT_sum") == [30]
    assert frame["l2_hit_pct"].tolist() == [75]
    assert frame["duration_ns"].tolist() == [20]


@pytest.mark.parametrize(
    ("field", "value"), [("start_timestamp", "text"), ("dispatch_info", 7), ("stream_id", [1])]
)
def test_v3_json_with_one_value_of_another_type(field: str, value: Any, tmp_path: Path) -> None:
    """GIVEN one of three dispatches with a value of another type WHEN read THEN the other two are as
    they were and a severe note (refused under --strict) counts it."""
    records = [v3_record(n, n * 100, n * 100 + 50) for n in (1, 2, 3)]
    records[1][field] = value
    path = tmp_path / "9_results.json"
    path.write_text(v3_json(kernel_dispatch=records))
    found = traceroof.read(path).recording
    timed = dict(
        zip(*(found.kernels[one].to_pylist() for one in ("start_ns", "duration_ns")), strict=True)
    )
    assert (timed[100], timed[300]) == (50, 50)
    assert "values of another type than rocprofv3 writes, left out" in {
        one.text for one in found.notes
    }
    assert all(one.severe for one in found.notes if "another type" in one.text)


def test_v3_json_of_another_make_is_refused(tmp_path: Path) -> None:
    """GIVEN a document whose processes are no list THEN refused in words."""
    path = tmp_path / "9_results.json"
    path.write_text('{"rocprofiler-sdk-tool": 7}')
    with pytest.raises(TraceroofError, match="not complete JSON"):
        traceroof.read(path)


def test_v3_folder_of_json_reads_each_process_once(tmp_path: Path) -> None:
    text = v3_json(kernel_dispatch=[v3_record(1, 10, 30)])
    write(tmp_path / "h/7_results.json", text)
    write(tmp_path / "h/7_kernel_trace.csv", v3_trace(v3_launch(1)))
    write(tmp_path / "h/8_results.json", text)
    recording = read(tmp_path)
    # Process 7 from its table, process 8 from its document.
    assert sorted(kernels(recording)["kernel_name"]) == ["f(int)", "k(float*)"]


@pytest.mark.parametrize(
    "text",
    ['{"rocprofiler-sdk-tool":[', '{"rocprofiler-sdk-tool": 5}', '{"rocprofiler-sdk-tool":[{}]}'],
)
def test_v3_json_that_is_cut_or_empty_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(TraceroofError):
        read(write(tmp_path / "1_results.json", text))


def test_a_folder_of_several_tools_is_no_run(tmp_path: Path) -> None:
    write(tmp_path / "7_kernel_trace.csv", v3_trace(v3_launch(1)))
    write(tmp_path / "ncu.csv", '"ID","Kernel Name","Metric Name","Metric Value"\n')
    assert claims(tmp_path) == {}
    (tmp_path / "ncu.csv").unlink()
    assert claims(tmp_path) == {"rocprofv3-csv": 2}


# --------------------------------------------------------------------------------------------
# Summaries


def test_the_total_row_of_hipprof_is_dropped(tmp_path: Path) -> None:
    text = (
        "Name,Calls,TotalDurationNs,AverageNs,Percentage\n"
        "f,2,300,150,75\ng,1,100,100,25\nTotal,3,400,133,100\n"
    )
    recording = read(write(tmp_path / "x.hipkernel.csv", text))
    assert kernels(recording)["kernel_name"].tolist() == ["f", "g"]
    assert (launches(recording.kernels), total_time_ns(recording.kernels)) == (3, 400)
    assert notes(recording) == ["the row of totals was left out"]


def test_a_kernel_may_be_called_total(tmp_path: Path) -> None:
    text = "Name,Calls,TotalDurationNs,AverageNs,Percentage\nf,2,300,150,75\ntotal,1,100,100,25\n"
    assert launches(read(write(tmp_path / "k.csv", text)).kernels) == 3


CONTRADICTS = "rows of a summary that contradict themselves (calls, total and mean time)"


@pytest.mark.parametrize(
    ("total", "average", "known", "said"),
    [
        # "abc" is no time, and the average beside it is no substitute: the line is not to be trusted.
        ("abc", "3.0", None, ["times that are not numbers", "kernels whose time is unknown"]),
        ("0", "3.0", None, [CONTRADICTS, "kernels whose time is unknown"]),
        ("", "3.0", 3, []),
        ("", "abc", None, ["times that are not numbers", "kernels whose time is unknown"]),
        # 10.5 ns in three launches, to the nearest nanosecond.
        ("10.5", "3.5", 3, []),
        # Beyond 2**53 a double would lose the last digit: (2**60 + 1) / 3 rounded down to whole ns.
        (str(2**60 + 1), str((2**60 + 2) // 3), (2**60 + 2) // 3, []),
    ],
)
def test_what_is_no_time_in_a_summary_is_counted(
    total: str, average: str, known: int | None, said: list[str], tmp_path: Path
) -> None:
    text = f"Name,Calls,TotalDurationNs,AverageNs,Percentage\nf,3,{total},{average},100\n"
    recording = read(write(tmp_path / "k_stats.csv", text))
    assert recording.kernels["duration_ns"].to_pylist() == [known]
    assert notes(recording) == said
    assert all(note.severe for note in recording.notes)


def test_summaries_with_copies_fills_and_calls(tmp_path: Path) -> None:
    text = (
        "Name,Calls,TotalDurationNs,AverageNs,Percentage,MinNs,MaxNs,StdDev\n"
        '"f(int, int)",4,10,2.500000,10,1,4,1.5\nMEMORY_COPY_HOST_TO_DEVICE,1,5,5,5,5,5,0.00000000e+00\n'
        "FillBuffer,1,7,7,7,7,7,0\nhipMalloc,9,9,1,9,1,1,0\n"
    )
    recording = read(write(tmp_path / "k_stats.csv", text))
    frame = recording.kernels.to_pandas()
    assert frame["kind"].tolist() == ["kernel", "memcpy", "memset"]
    # The mean of four launches of 10 ns together, to the nearest nanosecond (half upwards).
    assert frame["duration_ns"].tolist() == [3, 5, 7]
    assert raw(recording, "longest launch") == [4, 5, 7]
    assert recording.call_sums.drop_columns(["source"]).to_pylist() == [
        {"name": "hipMalloc", "calls": 9, "total_ns": 9, "typical_ns": 1}
    ]
    assert "host calls took 9 ns, 9 ns of it in 9 calls of hipMalloc" in notes(recording)


PRINTED = """\
W20260101 12:00:00.000000 1 tool.cpp:1] something else
    ROCPROFV3 {of}SUMMARY:

    |        NAME         |     DOMAIN      |  CALLS  | DURATION ({unit}) | AVERAGE ({unit}) | PERCENT (INC) | MIN ({unit}) | MAX ({unit}) | STDDEV    |
    |---------------------|-----------------|---------|-----------------|----------------|---------------|------------|------------|-----------|
{rows}
"""
HEAT = "    | final_update | KERNEL_DISPATCH | 500 | {total} | 2.087e+04 | 60.0 | {least} | {most} | 6.712e+02 |"
OR = (
    "    | f<a | b>(int) | KERNEL_DISPATCH | 1 | 7692 | 7.692e+03 | 0.1 | 7692 | 7692 | 0.000e+00 |"
)
CALLS = "    | hipLaunchKernel | HIP_RUNTIME_API | 500 | 3000000 | 6.000e+03 | 39.9 | 4000 | 9000 | 1.0e+02 |"
RANGE = (
    "    | step 1 | MARKER_CORE_API | 1 | 3000000 | 3.000e+06 | 39.9 | 3000000 | 3000000 | 0.0 |"
)


def test_a_summary_as_rocprofv3_prints_it(tmp_path: Path) -> None:
    """GIVEN the console of rocprofv3 -S: a table of one domain, and one of all that holds it again."""
    heat = HEAT.format(total=10434479, least=19230, most=22595)
    one = PRINTED.format(of="KERNEL_DISPATCH ", unit="nsec", rows=f"{heat}\n{OR}")
    every = PRINTED.format(of="", unit="nsec", rows=f"{heat}\n{OR}\n{CALLS}\n{RANGE}\n    | cut")
    recording = read(write(tmp_path / "console.log", f"{one}\n{every}\nDone.\n"))
    frame = recording.kernels.to_pandas()
    assert frame["kernel_name"].tolist() == ["final_update", "f<a | b>(int)"]
    assert frame["launch_count"].tolist() == [500, 1]
    # 10,434,479 ns in 500 launches; the printed mean, 20,870, has four digits.
    assert frame["duration_ns"].tolist() == [20869, 7692]
    assert frame["shortest_launch_ns"].tolist() == [19230, 7692]
    assert recording.call_sums["typical_ns"].to_pylist() == [4000]
    assert notes(recording)[:2] == [
        "lines of a printed summary with another number of cells, left out",
        "rows of named ranges, left out",
    ]


@pytest.mark.parametrize(
    ("unit", "total", "least"),
    [
        ("usec", "10434.479", "19.23"),
        ("msec", "10.434479", "0.01923"),
        ("sec", "0.010434479", "0.00001923"),
    ],
)
def test_the_units_of_a_printed_summary(unit: str, total: str, least: str, tmp_path: Path) -> None:
    rows = HEAT.format(total=total, least=least, most="0.03")
    recording = read(write(tmp_path / "s.txt", PRINTED.format(of="", unit=unit, rows=rows)))
    assert recording.kernels["duration_ns"].to_pylist() == [20869]
    assert recording.kernels["shortest_launch_ns"].to_pylist() == [19230]


# --------------------------------------------------------------------------------------------
# rocprof-compute

SYSTEM = {
    "workload_name": "w", "ip_blocks": "SQ|TCC", "gpu_model": "MI300X_A1", "gpu_arch": "gfx942",
    "gpu_chip_id": 29857, "cu_per_gpu": 304, "se_per_gpu": 32, "max_waves_per_cu": 32,
    "max_sclk": 2100, "max_mclk": 1300, "total_l2_chan": 128, "lds_banks_per_cu": 32, "num_xcd": 8,
    "num_hbm_channels": 128, "compute_partition": "SPX", "memory_partition": "NPS1",
}  # fmt: skip
WIDE = (
    "Dispatch_ID,GPU_ID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Scratch_Per_Workitem,Arch_VGPR,"
    "Accum_VGPR,SGPR,Wave_Size,Kernel_Name"
)


def profile(folder: Path, counters: str, values: str, **system: object) -> Path:
    known = SYSTEM | system
    write(folder / "sysinfo.csv", table([list(known), list(known.values())]))
    row = '0,0,1024,256,0,0,8,0,16,64,"f(int, int)"'
    write(
        folder / "pmc_perf.csv",
        f"{WIDE},{counters},Start_Timestamp,End_Timestamp\n{row},{values},1000,2000\n",
    )
    return folder


def test_accumulated_levels_of_a_merged_table_mean_nothing(tmp_path: Path) -> None:
    folder = profile(
        tmp_path,
        "GRBM_GUI_ACTIVE,SQ_ACCUM_PREV_HIRES,SQ_ACCUM_PREV_HIRES_7,Kernel_ID_1,SQC_DCACHE_REQ_READ_16",
        "80,5,6,3,9",
    )
    recording = read(folder)
    assert kernels(recording)["achieved_occupancy_pct"].isna().all()
    assert set(recording.raw_metrics["metric"].to_pylist()) == {
        "GRBM_GUI_ACTIVE",
        "SQC_DCACHE_REQ_READ_16",
    }


def test_the_level_pass_gives_the_occupancy(tmp_path: Path) -> None:
    folder = profile(tmp_path, "GRBM_GUI_ACTIVE", "160")
    write(
        folder / "SQ_LEVEL_WAVES.csv",
        f'{V2},GRBM_GUI_ACTIVE,SQ_ACCUM_PREV_HIRES\n5,2,1,9,9,1024,256,0,0,8,0,16,64,"f(int, int) (.kd)",7,9,0,80,48640\n',
    )
    recording = read(folder)
    # 48,640 over 10 cycles a die x 304 compute units x 32 slots: half. Its own cycles count.
    assert kernels(recording)["achieved_occupancy_pct"].tolist() == [pytest.approx(50)]
    assert raw(recording, "SQ_LEVEL_WAVES_ACCUM") == [48_640]
    assert sorted(raw(recording, "GRBM_GUI_ACTIVE")) == [80, 160]


@pytest.mark.parametrize(
    ("system", "peak"),
    [
        # 1,300 MHz x 32 bytes x 128 channels; a quarter of it in NPS4.
        ({}, 5_324.8e9),
        ({"memory_partition": "NPS4"}, 5_324.8e9 / 4),
        ({"hbm_bw": 1638.4}, 1_638.4e9),
        ({"max_mclk": ""}, None),
    ],
)
def test_bandwidth_from_sysinfo(
    system: dict[str, object], peak: float | None, tmp_path: Path
) -> None:
    found = kernels(read(profile(tmp_path, "FETCH_SIZE", "1", **system))).iloc[0]
    if peak is None:
        assert np.isnan(found["peak_dram_bytes_per_s"])
    else:
        assert found["peak_dram_bytes_per_s"] == pytest.approx(peak)


def test_ceilings_outside_their_window_are_not_believed(tmp_path: Path) -> None:
    folder = profile(tmp_path, "FETCH_SIZE", "1")
    # Theory: 5,324.8 GB/s, 163.4 FP32, 81.7 FP64 TFLOP/s. 0 is "not supported".
    write(
        folder / "roofline.csv",
        "device,HBMBw,L2Bw,FP32Flops,FP64Flops,MFMAF8Flops\n0,4250,1,30000,80000,0\n",
    )
    recording = read(folder)
    row = kernels(recording).iloc[0]
    assert row["calibrated_dram_bytes_per_s"] == 4_250e9
    assert np.isnan(row["calibrated_fp32_flops_per_s"])
    assert row["calibrated_fp64_flops_per_s"] == 80e12
    assert len([note for note in notes(recording) if "not used" in note]) == 1
    assert row["peaks_from"] == "sysinfo.csv and roofline.csv"


def test_a_partition_keeps_its_size(tmp_path: Path) -> None:
    # CPX: one die of eight. SPX with a wrong count is the whole card.
    part = read(
        profile(
            tmp_path / "a", "FETCH_SIZE", "1", cu_per_gpu=38, num_xcd=1, compute_partition="CPX"
        )
    )
    assert part.devices[0].sm_count == 38
    whole = read(profile(tmp_path / "b", "FETCH_SIZE", "1", cu_per_gpu=152, num_xcd=4))
    assert whole.devices[0].sm_count == 304
    assert any("152 compute units" in note for note in notes(whole))


def test_parts_without_a_merged_table(tmp_path: Path) -> None:
    folder = profile(tmp_path, "FETCH_SIZE", "1")
    (folder / "pmc_perf.csv").unlink()
    row = '0,0,1,9,9,1024,256,0,0,8,0,16,64,"f",1000,3000,1'
    write(folder / "pmc_perf_0.csv", f"{V2},TCC_HIT_sum,TCC_MISS_sum\n{row},30,10\n")
    write(folder / "pmc_perf_1.csv", f"{V2},SQ_WAVES\n{row},16\n")
    recording = read(folder)
    assert recording.format == "rocprof-compute"
    assert kernels(recording)["l2_hit_pct"].tolist() == [75]
    assert raw(recording, "SQ_WAVES") == [16]


def test_one_profile_below_a_name_and_several(tmp_path: Path) -> None:
    profile(tmp_path / "w/MI300X", "FETCH_SIZE", "1")
    assert launches(read(tmp_path / "w").kernels) == 1
    profile(tmp_path / "w/MI300A", "FETCH_SIZE", "1")
    with pytest.raises(TraceroofError, match="2 profile folders"):
        read(tmp_path / "w")


def test_crlf_and_lost_digits(tmp_path: Path) -> None:
    folder = profile(tmp_path, "TCC_HIT_sum,TCC_MISS_sum,FETCH_SIZE", "30,10,1024")
    path = folder / "pmc_perf.csv"
    text = path.read_text().replace(",1000,2000", ",8.1097E+14,8.1097E+14").replace("\n", "\r\n")
    write(path, text)
    recording = read(folder)
    row = kernels(recording).iloc[0]
    assert np.isnan(row["duration_ns"])
    assert np.isnan(row["start_ns"])
    assert row["l2_hit_pct"] == 75
    assert row["dram_read_bytes"] == 1 << 20
    note = next(one for one in recording.notes if "lost their last digits" in one.text)
    assert note.severe


# --------------------------------------------------------------------------------------------
# Hygon

HIPPROF = (
    "Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd,wgr,lds,scr,arch_vgpr,accum_vgpr,sgpr,"
    "wave_size,sig"
)


def hipprof_rows(counter: str, value: int) -> str:
    instances = ",".join(f"{counter}[{n}]" for n in range(4))
    small = "32B" if "RD" in counter else "64B"
    others = ",".join(f"{counter}_{small}[{n}]" for n in range(4))
    values = ",".join([str(value)] * 4)
    zeros = ",".join(["0"] * 4) if "RD" in counter else values
    return (
        f"{HIPPROF},{instances},{others},DispatchNs,BeginNs,EndNs,CompleteNs\n"
        f"0,_Z6k_readPf,0,0,0,9,9,1024,512,0,0,16,0,32,64,0x0,{values},{zeros},1,100,1100,5\n"
    )


def test_hipprof_presets_are_passes(tmp_path: Path) -> None:
    write(tmp_path / "pmc_results_1.csv", hipprof_rows("TCC_EA_RDREQ", 10))
    write(tmp_path / "pmc_results_2.csv", hipprof_rows("TCC_EA_WRREQ", 20))
    recording = read(tmp_path)
    row = kernels(recording).iloc[0]
    assert recording.format == "hipprof"
    assert launches(recording.kernels) == 1
    assert row["dram_read_bytes"] == 4 * 10 * 64
    assert row["dram_write_bytes"] == 4 * 20 * 64
    assert (row["grid_x"], row["block_x"], row["duration_ns"]) == (2, 512, 1_000)


def test_hipprof_database(tmp_path: Path) -> None:
    path = tmp_path / "hip-prof-9.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE STR_TABLE (STR_ID INTEGER, STR_NAME TEXT)")
        connection.execute("INSERT INTO STR_TABLE VALUES (1, 'f(int)'), (2, 'H2D')")
        columns = "(BeginNs INT, EndNs INT, dev_id INT, queue_id INT, Name INT, _Index INT)"
        for name, row in (
            ("HIPOPS_9", (100, 400, 0, 1, 1, 5)),
            ("HIPCOPY_9", (10, 20, 0, 1, 2, 4)),
        ):
            connection.execute(f"CREATE TABLE {name} {columns}")
            connection.execute(f"INSERT INTO {name} VALUES {row}")
    connection.close()
    recording = read(path)
    assert kernels(recording)["kernel_name"].tolist() == ["f(int)"]
    assert total_time_ns(recording.kernels) == 300
    assert launches(recording.kernels, "memcpy") == 1


def test_hipprof_trace(tmp_path: Path) -> None:
    events = [
        {"ph": "X", "cat": "HIPOPS", "name": "f(int)", "args": {"BeginNs": "100", "EndNs": "400", "devId": 0, "queueId": 1, "index": 5}},
        {"ph": "X", "cat": "HIP", "name": "hipMalloc", "args": {"BeginNs": "1", "EndNs": "4"}},
    ]  # fmt: skip
    recording = read(write(tmp_path / "r.json", json.dumps({"traceEvents": events})))
    assert recording.format == "hipprof"
    assert (launches(recording.kernels), total_time_ns(recording.kernels)) == (1, 300)


# --------------------------------------------------------------------------------------------
# What readers are told, and what they say of themselves


def test_the_named_device_reaches_every_reader_of_counters(tmp_path: Path) -> None:
    """GIVEN counters and no device list WHEN the user names the GPU THEN formulas work."""
    rows = [
        v3_counter(1, "SQ_ACTIVE_INST_VALU", 304_000),
        v3_counter(1, "GRBM_GUI_ACTIVE", 8_000),
    ]
    path = write(tmp_path / "7_counter_collection.csv", table([V3_COUNTER_HEADER, *rows]))
    assert detect.read([path]).kernels["pipe_valu_pct"].to_pylist() == [None]
    named = detect.read([path], options=Options(device="MI300X"))
    # 304,000 of 1,000 cycles of each die x 304 compute units.
    assert named.kernels["pipe_valu_pct"].to_pylist() == [pytest.approx(100)]


def test_amd_files_say_whose_gpu_it_was(tmp_path: Path) -> None:
    path = write(
        tmp_path / "results.stats.csv",
        'Name,Calls,TotalDurationNs,AverageNs,Percentage\n"k(int)",2,200,100,100\n',
    )
    assert [one.vendor for one in detect.read([path]).devices] == ["amd"]
    command = diagnose(detect.read([path])).not_evaluable()[0].command
    assert (command or "").startswith("rocprof-compute")


def test_counters_in_the_layout_of_nsight_compute(tmp_path: Path) -> None:
    """GIVEN a published table of a row a counter: 1,124,711,000 bytes fetched, 408,483,000 written in
    2,461.174 us WHEN read THEN the kernel has its time and bytes."""
    rows = [
        ("SQ_INSTS_VALU", "inst", "104751360"), ("FetchSize", "bytes", "1124711000"),
        ("WriteSize", "bytes", "408483000"), ("time", "us", "2461.174"),
    ]  # fmt: skip
    header = "\ufeffID,Process ID,Kernel Name,Metric Name,Metric Unit,Metric Value"
    lines = [header, *(f"0,9,ComputeCurrent,{','.join(row)}" for row in rows)]
    path = write(tmp_path / "mine.csv", "\n".join(lines) + "\n")
    found = detect.read([path])
    assert found.format == "amd-counter-list"
    kernels = found.kernels.to_pylist()
    assert [one["kernel_name"] for one in kernels] == ["ComputeCurrent"]
    assert kernels[0]["duration_ns"] == 2_461_174
    assert kernels[0]["dram_read_bytes"] == 1_124_711_000
    assert kernels[0]["dram_write_bytes"] == 408_483_000
    assert diagnose(found).devices[0].vendor == "amd"


def test_a_time_without_a_unit_is_unknown(tmp_path: Path) -> None:
    header = "ID,Kernel Name,Metric Name,Metric Unit,Metric Value"
    path = write(tmp_path / "mine.csv", f"{header}\n0,k,SQ_WAVES,,16\n0,k,time,,12\n")
    found = detect.read([path])
    assert found.kernels["duration_ns"].to_pylist() == [None]
    assert [str(note) for note in found.sources[0].notes] == ["times whose unit is unknown"]


def test_what_is_only_refused_is_no_format(tmp_path: Path) -> None:
    assert "amd-no-kernels" not in {one.name for one in plugins.formats()}
    machine = "workload_name,ip_blocks,gpu_soc\nmine,SQ,gfx90a\n"
    path = write(tmp_path / "mine.csv", machine)
    with pytest.raises(TraceroofError, match="description of the machine and no kernels"):
        detect.read([path])
    # Among profiler files it is skipped like any other file.
    write(tmp_path / "a" / "mine.csv", machine)
    write(
        tmp_path / "a" / "results.stats.csv",
        'Name,Calls,TotalDurationNs,AverageNs,Percentage\n"k(int)",2,200,100,100\n',
    )
    found = detect.read([tmp_path / "a"])
    assert launches(found.kernels) == 2
