"""One made-up program as every pair of tools writes it: files in, joined kernels out."""

import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import traceroof
from tests.kernels.test_counter_join import SPELLINGS
from tests.parsers import ncu_fixtures as ncu
from tests.parsers.nsys_fixtures import Writer
from tests.parsers.test_nsight_compute_report import Maker, Number
from traceroof.core.canonical_names import canonical
from traceroof.diagnosis.diagnose import diagnose
from traceroof.diagnosis.diagnosis import Diagnosis

# As torch.profiler, Nsight Systems and Nsight Compute print them, and mangled. The mangled names of
# the last three by the Itanium ABI (c++filt gives the first spelling); the others have none.
PROGRAM: tuple[tuple[str, str, str, str], ...] = (
    *((*names, names[2]) for names in SPELLINGS),
    (
        "void foo::kernel<4, float>(float*, int)",
        "void foo::kernel<(int)4, float>(T2 *, int)",
        "void kernel<4, float>(T2 *, int)",
        "_ZN3foo6kernelILi4EfEEvPT0_i",
    ),
    (
        "void foo::kernel<8, float>(float*, int)",
        "void foo::kernel<(int)8, float>(T2 *, int)",
        "void kernel<8, float>(T2 *, int)",
        "_ZN3foo6kernelILi8EfEEvPT0_i",
    ),
    (
        "void at::native::reduce_kernel<512, 1, float>(float*, int)",
        "void at::native::reduce_kernel<(int)512, (int)1, float>(T3 *, int)",
        "void reduce_kernel<512, 1, float>(T3 *, int)",
        "_ZN2at6native13reduce_kernelILi512ELi1EfEEvPT1_i",
    ),
)
_GRID = (8, 1, 1)


def _kineto(
    path: Path, names: Sequence[str], device: str, more: Any = None, grids: Any = None
) -> Path:
    events = [
        {
            "ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": 1000 + 10 * at,
            "dur": 5 + at,
            "args": {
                "device": 0, "stream": 7, "correlation": at + 1, "External id": at + 1,
                "grid": list(grids[at] if grids else _GRID), "block": [256, 1, 1],
            },
        }
        for at, name in enumerate(names)
    ]  # fmt: skip
    properties = {"id": 0, "name": device, **(more or {})}
    document = {"schemaVersion": 1, "deviceProperties": [properties], "traceEvents": events}
    path.write_text(json.dumps(document))
    return path


def _nsys(path: Path, names: Sequence[str]) -> Path:
    made = Writer(path)
    made.gpu()
    for at, name in enumerate(names):
        made.kernel(name, 10_000 * at, 10_000 * at + 5000 + at, gridX=8)
    made.close()
    return path


def _counters(path: Path, names: Sequence[str], page: str) -> Path:
    if page == "report":
        return _report(path.with_suffix(".ncu-rep"), names)
    launches = [
        ncu.Launch(
            name=name, id=at, grid=_GRID,
            metrics=[
                ncu.Metric("lts__t_sector_hit_rate.pct", "%", Decimal(at + 1)),
                ncu.Metric("gpu__time_duration.sum", "ns", Decimal(12_000 + 2 * at)),
            ],
        )
        for at, name in enumerate(names)
    ]  # fmt: skip
    path.write_text(ncu.details(launches) if page == "details" else ncu.raw(launches))
    return path


def _report(path: Path, names: Sequence[str]) -> Path:
    made = Maker()
    for at, name in enumerate(names):
        counted: dict[str, Number] = {
            "lts__t_sector_hit_rate.pct": at + 1.0,
            "gpu__time_duration.sum": 12_000 + 2 * at,
        }
        result = made.result(counted, name=name.encode())
        result.grid.x = _GRID[0]
        made.block(result)
    path.write_bytes(made.written())
    return path


def _table(made: Diagnosis) -> tuple[int, int, int]:
    """Kernels of the timeline that were matched, that are ambiguous, that got another's counters."""
    hit_of = {canonical(names[0]): float(at + 1) for at, names in enumerate(PROGRAM)}
    matched = [one for one in made.kernels if "join_level" in one.metrics]
    wrong = [one for one in matched if one.metrics["l2_hit_pct"] != hit_of[canonical(one.kernel)]]
    assert made.join is not None
    ambiguous = [one for one in made.join.unmatched if one.reason.startswith("ambiguous")]
    return len(matched), len(ambiguous), len(wrong)


@pytest.mark.parametrize("spelling", [2, 3], ids=["demangled", "mangled"])
@pytest.mark.parametrize("page", ["details", "raw", "report"])
@pytest.mark.parametrize("timeline", ["kineto", "kineto-mangled", "nsys"])
def test_one_program_in_every_spelling(
    tmp_path: Path, timeline: str, page: str, spelling: int
) -> None:
    """GIVEN ten kernels as each tool writes them WHEN a timeline and counters are given THEN 10 are
    matched, 0 ambiguous, 0 wrong; the time is the timeline's."""
    if timeline == "nsys":
        trace = _nsys(tmp_path / "trace.sqlite", [one[1] for one in PROGRAM])
        time = sum(5000 + at for at in range(len(PROGRAM)))
    else:
        names = [one[3 if timeline == "kineto-mangled" else 0] for one in PROGRAM]
        trace = _kineto(tmp_path / "trace.json", names, "NVIDIA H100 80GB HBM3")
        time = sum(5000 + 1000 * at for at in range(len(PROGRAM)))
    counters = _counters(tmp_path / "c.csv", [one[spelling] for one in PROGRAM], page)
    made = diagnose(traceroof.read([trace, counters]))
    assert _table(made) == (10, 0, 0)
    assert made.totals.kernel_time_ns == time
    assert made.join is not None
    assert made.join.coverage_time_pct == 100.0


def test_another_build_is_refused_and_half_is_joined(tmp_path: Path) -> None:
    """GIVEN counters of another build, of which one in four kernels has a name of the trace, and of one
    of which half do WHEN read THEN the first are refused in a sentence, the second joined in part."""
    names = [f"void kernel_{at}<float>(float*)" for at in range(8)]
    trace = _kineto(tmp_path / "trace.json", names, "NVIDIA H100 80GB HBM3")
    for known, refused in ((2, True), (4, False)):
        counted = [*names[:known], *(f"void other_{at}<float>(float*)" for at in range(known, 8))]
        counters = _counters(tmp_path / f"{known}.csv", counted, "raw")
        if refused:
            with pytest.raises(traceroof.TraceroofError, match="another program or another build"):
                traceroof.read([trace, counters])
        else:
            made = diagnose(traceroof.read([trace, counters]))
            assert made.join is not None
            assert (made.join.covered, len(made.kernels)) == (4, 8)
            assert sum(one.side == "counters" for one in made.join.unmatched) == 4


@pytest.mark.parametrize("sample", ["rocprofv3/pmc_1", "rocprof_compute/MI210"])
def test_counters_of_amd_on_a_torch_trace(tmp_path: Path, root: Path, sample: str) -> None:
    """GIVEN counters of rocprofv3 or rocprof-compute, and a ROCm trace of torch of the same kernels
    WHEN read together THEN all are joined: the grid is in work-groups on both sides."""
    folder = root / "sample_traces" / sample
    counted = traceroof.read(folder)
    kernels = counted.recording.kernels
    names = kernels["kernel_name"].cast("string").to_pylist()
    grids = list(zip(*(kernels[f"grid_{axis}"].to_pylist() for axis in "xyz"), strict=True))
    device = {
        "rocprofv3/pmc_1": "AMD Instinct MI300X",
        "rocprof_compute/MI210": "AMD Instinct MI210",
    }
    trace = _kineto(
        tmp_path / "trace.json", [f"{name}.kd" for name in names], device[sample],
        {"warpSize": 64}, grids,
    )  # fmt: skip
    document = json.loads(trace.read_text())
    for event, row in zip(document["traceEvents"], range(len(names)), strict=True):
        event["args"]["block"] = [kernels[f"block_{axis}"][row].as_py() for axis in "xyz"]
        # Serialised and at a locked clock the tool's launches take twice as long.
        event |= {"dur": kernels["duration_ns"][row].as_py() / 2000, "ts": 1000 + 1_000_000 * row}
    trace.write_text(json.dumps(document))
    made = diagnose(traceroof.read([trace, folder]))
    assert made.join is not None
    assert (made.join.coverage_time_pct, made.join.ambiguous_time_ns) == (100.0, 0)
    spent = sum(kernels["duration_ns"].to_pylist())
    assert made.totals.kernel_time_ns == pytest.approx(spent / 2, abs=len(names))
