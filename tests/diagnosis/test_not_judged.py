"""What is asked for next: the few metrics that would decide for this kernel, and no others."""

import re
import shlex
from pathlib import Path

import pytest

import traceroof
import traceroof.core.recording
from tests.runs import cut, recording, selection
from traceroof.diagnosis.diagnose import diagnose
from traceroof.diagnosis.findings import NotJudged
from traceroof.diagnosis.narrow import of_kernels

_TIME = ("gpu__time_duration.sum", "usecond", "5,000")
_SM = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
_MEMORY = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
_GLOBAL = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"


def asked(found: NotJudged | None) -> list[str]:
    assert found is not None
    assert found.command is not None
    words = shlex.split(found.command.partition(" YOUR_PROGRAM")[0])
    assert words[:4] == ["ncu", "--csv", "--page", "raw"]
    return words[words.index("--metrics") + 1].split(",")


def of_selection(path: Path, name: str, *metrics: tuple[str, str, str]) -> NotJudged | None:
    file = selection(path / "few.csv", (_TIME, *metrics), name=name)
    return traceroof.diagnose(file, calibrated=False).not_judged


def busy(compute: str, memory: str) -> tuple[tuple[str, str, str], ...]:
    return (_SM, "%", compute), (_MEMORY, "%", memory)


def test_a_histogram_is_asked_for_its_atomics_and_loads(tmp_path: Path) -> None:
    found = of_selection(tmp_path, "histogram(int*, int)", *busy("8", "20"))
    assert found is not None
    assert found.decides[0] == "atomics-per-element"
    assert asked(found)[:3] == [
        _GLOBAL.format("requests", "atom"),
        _GLOBAL.format("requests", "red"),
        _GLOBAL.format("requests", "ld"),
    ]
    assert _GLOBAL.format("sectors", "ld") in asked(found)


def test_a_product_is_asked_for_what_it_computes(tmp_path: Path) -> None:
    found = of_selection(tmp_path, "sgemm_mine(float*, float*, float*)", *busy("95", "60"))
    assert found is not None
    assert "no-register-reuse" in found.decides
    assert "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum" in asked(found)


def test_a_transpose_is_asked_for_its_sectors(tmp_path: Path) -> None:
    found = of_selection(tmp_path, "transpose(float*, float*)", *busy("5", "70"))
    assert found is not None
    assert "uncoalesced-global" in found.decides
    assert _GLOBAL.format("sectors", "st") in asked(found)


def test_a_kernel_that_waits_is_asked_what_for(tmp_path: Path) -> None:
    found = of_selection(tmp_path, "mine(float*)", *busy("10", "15"))
    assert found is not None
    assert "stall-long-scoreboard" in found.decides
    assert "smsp__warp_issue_stalled_long_scoreboard_per_warp_active.pct" in asked(found)


def test_a_bare_time_is_asked_for_its_class_first(tmp_path: Path) -> None:
    found = of_selection(tmp_path, "mine(float*)")
    assert found is not None
    assert found.decides[0] == "class"
    dram = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
    assert asked(found)[:3] == [_SM, _MEMORY, dram]


@pytest.mark.parametrize(
    "name", ["mine(float*)", "histogram(int*)", "reduce(float*)", "sgemm_mine(float*)"]
)
def test_few_are_asked_for_and_none_twice(tmp_path: Path, name: str) -> None:
    for metrics in ((), busy("10", "15"), busy("95", "40"), busy("20", "75")):
        found = of_selection(tmp_path, name, *metrics)
        names = asked(found)
        assert len(names) == len(set(names)) <= 14
        assert found is not None
        assert 1 <= len(found.decides) <= 4
        assert not set(names) & {metric for metric, _, _ in metrics}


def test_nothing_is_asked_where_the_bytes_alone_fill_the_time(tmp_path: Path) -> None:
    """GIVEN a kernel at 93 % of device memory WHEN it is asked THEN not about arithmetic."""
    dram = ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "%", "93")
    found = of_selection(tmp_path, "add(float*)", *busy("10", "93"), dram)
    assert found is not None
    assert not [one for one in found.decides if one.startswith(("compute", "fp64", "nonfused"))]


def test_what_was_found_as_surely_is_not_asked_again(tmp_path: Path) -> None:
    loads = (
        (_GLOBAL.format("requests", "ld"), "request", "1,000,000"),
        (_GLOBAL.format("sectors", "ld"), "sector", "32,000,000"),
    )
    found = of_selection(tmp_path, "mine(float*)", *busy("10", "70"), *loads)
    assert found is not None
    assert "uncoalesced-global" not in found.decides


def test_amd_is_asked_for_blocks() -> None:
    run = recording(
        {"kernel_name": ["yax"], "duration_ns": [5_000_000], "device": [0]},
        devices=(traceroof.core.recording.DeviceInfo(index=0, name="AMD Instinct MI210"),),
    )
    found = diagnose(run).not_judged
    assert found is not None
    assert found.decides[0] == "class"
    assert found.command is not None
    assert re.fullmatch(r"rocprof-compute profile -n more -k yax -b [\d ]+ -- YOUR_PROGRAM", found.command)  # fmt: skip
    assert len(found.command.partition("-b ")[2].partition(" -- ")[0].split()) <= 3


def test_a_card_asks_for_its_own_kernel() -> None:
    run = diagnose(recording({"kernel_name": ["a", "b"], "duration_ns": [9_000_000, 1_000_000]}))
    narrowed = of_kernels(run, (1,))
    (kernel,) = narrowed.kernels
    assert kernel.not_judged is not None
    assert kernel.not_judged.command is not None
    assert "'regex:^(b)$'" in kernel.not_judged.command
    assert run.not_judged is not None
    assert "'regex:^(a|b)$'" in (run.not_judged.command or "")


_LASHI = "known_faults/Lashi0812__CudaProgramming"
_BASE = (_TIME[0], _SM, _MEMORY, r"launch__.*", "sm__warps_active.avg.pct_of_peak_sustained_active")


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("file", "kernel", "topic"),
    [
        (f"{_LASHI}/smemTranspose.raw.csv", "naiveGmem(", "uncoalesced"),
        (f"{_LASHI}/smemTranspose.raw.csv", "transposeSmem(", "bank-conflicts"),
        (f"{_LASHI}/smemReduceInteger.raw.csv", "reduceSmem(", "algorithm"),
        (f"{_LASHI}/smemSquare.raw.csv", "setRowReadCol(", "bank-conflicts"),
        ("known_faults/Olajide-Badejo__GPU-Roofline-Profiler/transpose_naive.csv", "transpose",
         "uncoalesced"),
    ],
)  # fmt: skip
def test_what_is_asked_for_names_the_defect(
    corpus: Path, tmp_path: Path, file: str, kernel: str, topic: str
) -> None:
    """GIVEN a real profile cut to a few metrics WHEN those that are asked for are added THEN the
    known defect is named first or second."""
    few = cut(corpus / file, tmp_path / "few.csv", kernel, _BASE)
    before = traceroof.diagnose(few, calibrated=False)
    assert topic not in [one.topic for one in before.fired()]
    more = (*_BASE, *map(re.escape, asked(before.not_judged)))
    after = traceroof.diagnose(
        cut(corpus / file, tmp_path / "more.csv", kernel, more), calibrated=False
    )
    assert topic in [one.topic for one in after.fired()][:2]


@pytest.mark.corpus
def test_a_kernel_without_time_and_class_is_asked_for_both(corpus: Path) -> None:
    """GIVEN the roofline section alone: the rate of one data type and device memory, no class."""
    name = "CodeGandee__llm-perf-opt__k0001_v2_ncu.section_SpeedOfLight_RooflineChart.csv"
    found = traceroof.diagnose(corpus / "ncu_csv" / name, calibrated=False).not_judged
    assert found is not None
    assert found.decides[0] == "class"
    assert asked(found)[:3] == [_SM, _MEMORY, "gpu__time_duration.sum"]
