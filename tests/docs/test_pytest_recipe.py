"""The recipe of docs/pytest.md, executed in a project of its own."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sample_traces.play_edit import Version, ncu, write_traces

COUNTERS = (
    "ncu --metrics sm__throughput.avg.pct_of_peak_sustained_elapsed,"
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed,"
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed,"
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum,"
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum,"
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum,"
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum,"
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio,"
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio PROGRAM"
)


@pytest.fixture
def project(root: Path, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Makes a project with the recipe and profiles of two versions, and runs its tests."""
    (code,) = re.findall(r"```python\n(.*?)```", (root / "docs/pytest.md").read_text(), re.DOTALL)

    def run(
        main: Version, head: Version, *, runs: int = 5, counters: bool = True
    ) -> subprocess.CompletedProcess[str]:
        (tmp_path / "tests").mkdir()
        (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n", "utf-8")
        (tmp_path / "tests" / "test_speed.py").write_text(code, "utf-8")
        profiles = tmp_path / "profiles"
        profiles.mkdir()
        for name, version in (("main", main), ("head", head)):
            for at, path in enumerate(write_traces(version, runs, tmp_path)):
                path.rename(profiles / f"{name}.{at}.json")
        if counters:
            (profiles / "head.csv").write_text(ncu(head, COUNTERS), "utf-8")
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rf"],
            cwd=tmp_path, capture_output=True, text=True, check=False,
            env={**os.environ, "TRACEROOF_CONFIG": ""},
        )  # fmt: skip

    return run


Project = Callable[..., subprocess.CompletedProcess[str]]


def test_a_faster_build_passes(project: Project) -> None:
    done = project("base", "head")
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout


def test_a_slower_build_fails_all_three_with_the_reason(project: Project) -> None:
    """GIVEN a build whose transposition scatters its stores, 4.6 times slower, WHEN tested THEN the
    counter, the finding and the regression fail, each with its figure."""
    done = project("head", "base")
    assert done.returncode == 1
    assert "3 failed" in done.stdout
    # 7/8 of the bytes of stores, which are 32 of 36 sectors.
    assert "77.7" in done.stdout
    assert "uncoalesced-global in transpose" in done.stdout
    assert "regressed" in done.stdout


def test_what_was_not_collected_does_not_pass(project: Project) -> None:
    """GIVEN no counters WHEN tested THEN the counter's test fails with the command that collects it."""
    done = project("head", "base", runs=1, counters=False)
    assert "global_sectors_wasted_pct of transpose" in done.stdout
    assert "collect it: ncu" in done.stdout
    assert "FAILED tests/test_speed.py::test_the_transposition_wastes_no_traffic" in done.stdout
