"""The command that collects what was missing."""

import re
import shlex
from pathlib import Path

import pytest

import traceroof
from tests.runs import selection
from traceroof.diagnosis import collect
from traceroof.kernels.group_columns import VOCABULARY


def test_metrics_and_kernels_are_listed_once() -> None:
    command = collect.command(
        ["sm_throughput_pct", "compute_pct", "issue_active", "registers_per_thread"],
        ["void a::f<int>(int)", "void a::f<float>(int)", "g"],
    )
    assert command is not None
    words = shlex.split(command.split(" YOUR_PROGRAM")[0])
    assert words[words.index("--metrics") + 1].split(",") == [
        "sm__throughput.avg.pct_of_peak_sustained_elapsed",
        "smsp__issue_active.avg.per_cycle_active",
        "launch__registers_per_thread",
    ]
    assert words[words.index("--kernel-name") + 1] == "regex:^(f|g)$"
    assert "--section" not in words


def test_what_no_metric_gives_is_a_section() -> None:
    command = collect.command(["stall_gmma", "duration_ns"], ["k"])
    assert command is not None
    assert "--section WarpStateStats --metrics gpu__time_duration.sum" in command


def test_names_with_special_letters_stay_one_pattern() -> None:
    command = collect.command(["dram_bytes"], ["f[v1,a+b](int)"])
    assert command is not None
    assert r"regex:^(f\[v1,a\+b\])$" in shlex.split(command.split(" YOUR_PROGRAM")[0])


# 84 letters, as Tensile's names begin.
_LONG = "Cijk_Ailk_Bljk_HHS_BH_Bias_HAS_SAV_UserArgs_MT256x256x64_MI16x16x1_SN_LDSB1_AFC1_AFEM1"


def test_the_pattern_matches_names_that_it_cuts() -> None:
    other = "triton_poi_fused__to_copy_add_0"
    command = collect.command(["dram_bytes"], [_LONG, other])
    assert command is not None
    words = shlex.split(command.split(" YOUR_PROGRAM")[0])
    pattern = words[words.index("--kernel-name") + 1].removeprefix("regex:")
    # However the tool asks, for the whole name or for a part of it.
    for matches in (re.fullmatch, re.search):
        assert matches(pattern, _LONG)
        assert matches(pattern, other)
        assert not matches(pattern, other + "1")
    assert len(pattern) < len(_LONG) + len(other)


def test_names_that_are_cut_alike_stay_one_alternative() -> None:
    command = collect.command(["dram_bytes"], [_LONG + "_1", _LONG + "_2"])
    assert command is not None
    assert "|" not in command


def test_amds_filter_is_a_part_of_the_name() -> None:
    names = [_LONG, "f[v1,a+b](int)", "void a::g<int>(int*)"]
    command = collect.command(["dram_throughput_pct"], names, vendor="amd")
    assert command is not None
    words = shlex.split(command)
    given = words[words.index("-k") + 1 : words.index("-b")]
    assert given == [_LONG[:60], "f", "g"]
    # As text and as an expression.
    for part, name in zip(given, names, strict=True):
        assert part in name
        assert re.search(part, name)


def test_of_many_kernels_the_first_are_listed() -> None:
    command = collect.command(["dram_bytes"], [f"k{i}" for i in range(20)])
    assert command is not None
    assert "regex:^(k0|k1|k2|k3|k4|k5|k6|k7)$" in command


def test_old_gpus_of_nvidia_are_profiled_by_nvprof() -> None:
    assert collect.tool_for("nvidia", (), ("6.1",)) == "nvprof"
    assert collect.tool_for("nvidia", (), ("7.0", None)) == "nvidia"
    assert collect.command(["shared_conflict_pct"], ["f<int>(int)", "g"], vendor="nvprof") == (
        "nvprof --csv --log-file more.csv --kernels 'f|g' --metrics shared_ld_bank_conflict,"
        "shared_st_bank_conflict,shared_load_transactions,shared_store_transactions YOUR_PROGRAM"
    )
    assert collect.command(["imbalance_sm_pct"], ["f"], vendor="nvprof") is None


def test_what_nothing_collects_has_no_command() -> None:
    assert collect.command(["category"], ["k"]) is None


def test_shapes_are_the_frameworks_to_record() -> None:
    for vendor in (None, "amd", "hygon"):
        command = collect.command(["input_shapes", "roof_pct"], ["k"], vendor=vendor)
        assert command is not None
        assert "record_shapes=True" in command


def test_amd_gets_its_own_tool() -> None:
    command = collect.command(["dram_throughput_pct"], ["k"], vendor="amd")
    assert command is not None
    assert command.startswith("rocprof-compute profile")


@pytest.mark.parametrize("tool", ["ncu", "nvprof", "rocprof_compute", "hipprof", "framework"])
def test_prefixes_name_columns_that_exist(tool: str) -> None:
    tables = collect._sources()[tool]
    for table in [tables] if tool == "framework" else tables.values():
        for prefix in table:
            assert any(name.startswith(prefix) for name in VOCABULARY), prefix


# It needs the operator's model beside the bytes; AMD's counters give the rate.
_NEED_MORE = {"traffic_ratio", "fp64_rate_pct"}


def _unit(metric: str) -> str:
    if metric == "gpu__time_duration.sum":
        return "nsecond"
    return "byte" if "_bytes" in metric and metric.endswith(".sum") else ""


@pytest.mark.parametrize("column", sorted(collect._sources()["ncu"]["metrics"]))
def test_the_metrics_give_the_column(column: str, tmp_path: Path) -> None:
    """GIVEN the metrics that a column asks for, and its launch WHEN they are read THEN no column
    that the entry stands for is unknown."""
    metrics = collect._sources()["ncu"]["metrics"][column]
    assert not [one for one in metrics if one.startswith("regex:")]
    if column in _NEED_MORE:
        return
    asked = dict.fromkeys(("gpu__time_duration.sum", *metrics))
    path = selection(tmp_path / "few.csv", [(name, _unit(name), "50") for name in asked])
    found = traceroof.diagnose(path, device="NVIDIA A100-SXM4-80GB", calibrated=False)
    assert found.grounds is not None
    facts = found.grounds.scopes["kernel"].facts
    assert column not in VOCABULARY or facts.value(column, 0) is not None
