"""Clock and power logs: every tool's layouts, read by column name."""

from pathlib import Path
from typing import Any

import pytest

from traceroof import plugins
from traceroof.core.clock_log import NVIDIA_REASONS
from traceroof.core.recording import Recording
from traceroof.errors import TraceroofError
from traceroof.ingest import detect
from traceroof.parsers.clock_logs.reader import ClockLogReader

CORPUS = Path(__file__).parents[2].parent / "shared/corpus/other/monitor"


def _read(folder: Path, text: str, name: str = "log") -> Recording:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    (found,) = detect.read_each([file])
    return found


def _rows(recording: Recording, *columns: str) -> list[tuple[Any, ...]]:
    table = recording.clock_logs
    return list(zip(*(table[one].to_pylist() for one in columns), strict=True))


def test_query_with_repeated_header_other_columns_and_a_cut_line(tmp_path: Path) -> None:
    """GIVEN a log appended to with other columns, cells without value, a cut last line WHEN read
    THEN each row by the names above it, units from header or cell, reasons by their names."""
    found = _read(
        tmp_path,
        "timestamp, index, clocks.current.sm [MHz], power.draw [W], "
        "clocks_throttle_reasons.sw_power_cap, clocks_throttle_reasons.hw_slowdown\n"
        "2026/01/02 03:04:05.250, 1, 1410 MHz, [N/A], Active, Not Active\n"
        "timestamp, index, power.draw [W], clocks.current.sm [MHz], clocks_event_reasons.active\n"
        "2026/01/02 03:04:06.250, 1, 300.5, 1980, 0x0000000000000044\n"
        "2026/01/02 03:04:07.250, 1, 300.5, 1980, 0x0000000000000000\n"
        "2026/01/02 03:04:08.2",
    )
    assert _rows(found, "gpu", "sm_clock_hz", "power_w", "throttle_reasons") == [
        (1, 1.41e9, None, "sw_power_cap"),
        (1, 1.98e9, 300.5, "sw_power_cap, hw_thermal_slowdown"),
        (1, 1.98e9, 300.5, ""),
    ]
    # 2026-01-02 03:04:05 as if UTC is 1,767,323,045 s after the epoch (date -u -d ... +%s).
    assert _rows(found, "time_ns", "local_time_ns")[0] == (None, 1_767_323_045_250_000_000)
    assert [note.count for note in found.notes] == [1]
    assert found.kernels.num_rows == 0


def test_dmon_with_and_without_time(tmp_path: Path) -> None:
    """GIVEN dmon with -o DT, header repeated, "-" for what is not there WHEN read THEN local time
    and columns by name."""
    header = "#Date       Time        gpu    pwr  gtemp     sm   mclk   pclk\n"
    units = "#YYYYMMDD   HH:MM:SS    Idx      W      C      %    MHz    MHz\n"
    row = " 20260102   03:04:05      0    164     87    100      -   1777\n"
    found = _read(tmp_path, header + units + row + header + units + row.replace("05", "06"))
    assert _rows(found, "local_time_ns", "power_w", "memory_clock_hz", "sm_clock_hz") == [
        (1_767_323_045_000_000_000, 164.0, None, 1.777e9),
        (1_767_323_046_000_000_000, 164.0, None, 1.777e9),
    ]


def test_dcgmi_counters_are_no_shares(tmp_path: Path) -> None:
    """GIVEN the violation counters of DCGM, which count since the driver came up WHEN read THEN no
    reason follows from them; SM activity is a fraction."""
    found = _read(tmp_path, "#Entity   SMCLK   PVIOL   SMACT\nID\nGPU 3     1590    99123   0.5\n")
    assert _rows(found, "gpu", "sm_clock_hz", "utilisation_pct", "throttle_reasons") == [
        (3, 1.59e9, 50.0, None)
    ]


def test_rocm_smi_key_lines(tmp_path: Path) -> None:
    """GIVEN lines of one key each, twice WHEN read THEN a sample each time a key comes again."""
    once = (
        "GPU[0]\t\t: sclk clock level: 1: (1700Mhz)\n"
        "GPU[0]\t\t: Average Graphics Package Power (W): 35.0\n"
    )
    found = _read(tmp_path, once + once.replace("1700", "1500"))
    assert _rows(found, "gpu", "sm_clock_hz", "power_w") == [(0, 1.7e9, 35.0), (0, 1.5e9, 35.0)]


def test_amd_smi_monitor_csv(tmp_path: Path) -> None:
    """GIVEN monitor as CSV, with power violations WHEN read THEN epoch time and the limit."""
    found = _read(
        tmp_path,
        "timestamp,gpu,power_usage,hotspot_temperature,gfx,gfx_clock,mem_clock,pviol,tviol\n"
        "1786553852,0,750,81,99,1400,1300,12,0\n",
    )
    assert _rows(found, "time_ns", "power_w", "utilisation_pct", "throttle_reasons") == [
        (1_786_553_852_000_000_000, 750.0, 99.0, "power")
    ]


def test_a_log_without_any_figure_is_refused(tmp_path: Path) -> None:
    """GIVEN a log that asked for memory use alone WHEN read THEN a sentence with the command."""
    with pytest.raises(TraceroofError, match="without a clock") as raised:
        _read(tmp_path, "timestamp, power.draw [W]\n2026/01/02 03:04:05.250, [N/A]\n")
    assert "nvidia-smi --query-gpu=" in (raised.value.hint or "")


def test_the_mask_names_each_bit_once() -> None:
    """GIVEN NVIDIA's event mask WHEN listed THEN nine single bits (nvml.h)."""
    assert sorted(NVIDIA_REASONS) == [1 << bit for bit in range(9)]


# Samples, GPUs, largest core clock in MHz and power in W: counted in the files by eye.
_FILES = {
    "amd_smi_metric_mi355x_watch.csv": (5, 3, None, None),
    "amd_smi_monitor_mi300a.txt": (4, 4, 49, 49.0),
    "amd_smi_monitor_rx9070xt_rocm10.txt": (1, 1, 1115, 32.0),
    "dcgmi_dmon_clock_events.txt": (2, 2, 1980, 699.8),
    "dcgmi_dmon_gputl_smact.txt": (5, 1, None, None),
    "hy_smi_bw1000_dtk2604.txt": (2, 2, None, 89.0),
    "hy_smi_k100_loaded.txt": (4, 4, None, 111.0),
    "nvidia-smi_dmon_excerpts.txt": (3, 1, 2370, 411.0),
    "nvidia_smi_dmon_default_load.txt": (4, 1, 1710, 284.0),
    "nvidia_smi_dmon_gb10_no_mclk.txt": (1, 1, 208, 3.0),
    "nvidia_smi_dmon_rtx_pucm.txt": (5, 1, 2422, 411.0),
    "nvidia_smi_inferencex_clocks_b200.csv": (4, 2, 1965, 912.1),
    "nvidia_smi_query_power_50ms.csv": (13, 1, None, 23.0),
    "nvidia_smi_query_rtx4090_1s.csv": (11, 1, None, 309.93),
    "rocm-smi_text.txt": (4, 4, 100, 125.0),
    "rocm_smi_csv_mi355x.txt": (4, 4, None, 812.0),
    "rocm_smi_csv_strix_halo.txt": (1, 1, None, 20.358),
}


@pytest.mark.corpus
@pytest.mark.parametrize("name", _FILES)
def test_real_logs(name: str) -> None:
    """GIVEN a log of each tool WHEN read THEN every sample, with its clock and power."""
    samples, gpus, clock, power = _FILES[name]
    (found,) = detect.read_each([CORPUS / name])
    table = found.clock_logs
    assert (table.num_rows, len(set(table["gpu"].to_pylist()))) == (samples, gpus)
    if clock:
        assert max(filter(None, table["sm_clock_hz"].to_pylist())) == clock * 1e6
    if power:
        assert max(filter(None, table["power_w"].to_pylist())) == power


def test_each_vendor_has_a_command_that_logs_beside_a_run() -> None:
    """GIVEN the readers of clock logs WHEN formats are listed THEN each prints a command that logs in the
    background of the program and stops with it."""
    readers = {one.name: one for one in plugins.parsers() if isinstance(one, ClockLogReader)}
    assert sorted(readers) == ["amd-smi", "dcgmi", "hy-smi", "nvidia-smi", "rocm-smi"]
    for name, one in readers.items():
        assert name.split("-")[0] in one.collect
        assert one.collect.endswith("& COMMAND; kill $!")


def test_what_names_a_machine_is_not_kept(tmp_path: Path) -> None:
    """GIVEN a serial number, a process and a line of a shell in a log THEN none of them is kept."""
    token = "secret-token-for-tests"
    header = "timestamp, name, serial, processes, clocks.current.sm [MHz], power.draw [W]"
    row = f"2026/01/01 10:00:0%d.000, NVIDIA A100, {token}, {token}, 1410 MHz, 300 W"
    lines = [f"$ nvidia-smi # {token}", header, *(row % n for n in range(5)), token]
    recording = _read(tmp_path, "\n".join(lines))
    assert recording.clock_logs.num_rows
    for table in (recording.clock_logs, recording.raw_metrics, recording.kernels):
        assert token not in str(table.to_pylist())
    assert token not in repr(recording.sources) + repr(recording.devices)
