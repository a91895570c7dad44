"""A clock log beside a run: it never adds time, and says whether the clock was held down."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from traceroof.core import kernel_table as tables
from traceroof.core.clock_log import CLOCK_LOG
from traceroof.core.kernel_table import kernel_table
from traceroof.core.recording import DeviceInfo, Recording, Source, empty
from traceroof.diagnosis.diagnose import diagnose
from traceroof.errors import TraceroofError
from traceroof.ingest.combine import combine
from traceroof.ingest.roles import said
from traceroof.report.run.summary import clocks
from traceroof.store import Store

H100 = "NVIDIA H100 80GB HBM3"


def _log(
    clock: float,
    reasons: str,
    *,
    gpu: int = 0,
    name: str = H100,
    path: str = "log",
    load: bool = True,
) -> Recording:
    """60 samples, of which 40 are under load at ``clock``; the rest idles at 345 MHz."""
    loaded = [load and 10 <= at < 50 for at in range(60)]
    columns: dict[str, Sequence[Any]] = {
        "source": [0] * 60,
        "gpu": [gpu] * 60,
        "gpu_name": [name] * 60,
        "sm_clock_hz": [clock if one else 345e6 for one in loaded],
        "power_w": [690.0 if one else 70.0 for one in loaded],
        "utilisation_pct": [99.0 if one else 0.0 for one in loaded],
        "throttle_reasons": [reasons if one else "gpu_idle" for one in loaded],
    }
    table = pa.table(
        {
            one.name: columns.get(one.name, [None] * 60)
            if not pa.types.is_dictionary(one.type)
            else pa.array(columns[one.name], pa.string())
            for one in CLOCK_LOG
        }
    ).cast(CLOCK_LOG)
    return Recording(
        format="nvidia-smi",
        time_basis="timeline",
        kernels=empty(tables.KERNELS),
        sources=(Source(path, "nvidia-smi", 0, role="clock-log"),),
        clock_logs=table,
    )


def _run() -> Recording:
    kernels = kernel_table(
        {
            "source": [0] * 50,
            "device": [0] * 50,
            "kernel_name": ["gemm"] * 50,
            "start_ns": [at * 1_000_000 for at in range(50)],
            "duration_ns": [900_000] * 50,
        }
    )
    return Recording(
        format="test",
        time_basis="timeline",
        kernels=kernels,
        sources=(Source("trace", "test", 50),),
        devices=(DeviceInfo(index=0, name=H100),),
    )


def _throttled(recording: Recording) -> bool:
    return any(one.rule == "run-clock-throttled" for one in diagnose(recording).fired())


def test_throttled_and_healthy() -> None:
    """GIVEN a log at 1,290 MHz held by the power limit, and one at the boost clock WHEN diagnosed
    beside the same run THEN the first is called throttled, the second is not; the time is the
    run's."""
    throttled = combine([_run(), _log(1290e6, "sw_power_cap")])
    healthy = combine([_log(1980e6, ""), _run()])
    assert (_throttled(throttled), _throttled(healthy)) == (True, False)
    assert diagnose(throttled).totals.kernel_time_ns == 50 * 900_000
    found = diagnose(throttled).to_dict()["clocks"]["gpus"][0]
    assert (found["samples"], found["loaded"], found["throttled"]) == (60, 40, 1.0)
    assert found["sm_clock_hz"] == {"p5": 1290e6, "p50": 1290e6, "p95": 1290e6}
    assert found["reasons"] == {"sw_power_cap": 1.0}
    assert diagnose(throttled).to_dict()["clocks"]["tools"] == ["nvidia-smi"]
    (line,) = clocks(diagnose(throttled))
    assert "40 of 60 samples under load" in line
    assert "held by a limit in 100.0 % (sw_power_cap)" in line


@pytest.mark.parametrize(
    ("clock", "reasons", "load", "fires"),
    [
        (1980e6, "sw_thermal_slowdown", True, True),  # a limit, whatever the clock
        (1290e6, "", True, True),  # 70 % of the boost clock of 1,830 MHz, whatever the reasons
        (1980e6, "applications_clocks_setting", True, False),  # somebody's setting
        (1290e6, "sw_power_cap", False, False),  # no sample under load
    ],
)
def test_what_throttles(clock: float, reasons: str, load: bool, fires: bool) -> None:
    """GIVEN logs WHEN judged THEN limits and low clocks count, idling and settings do not."""
    assert _throttled(combine([_run(), _log(clock, reasons, load=load)])) is fires


def test_another_gpus_log_says_nothing() -> None:
    """GIVEN a machine's log where GPU 5 is throttled by another job, and GPU 0 is healthy WHEN
    diagnosed THEN only the run's GPU is judged."""
    both = [_log(1980e6, ""), _log(1290e6, "sw_power_cap", gpu=5, path="other")]
    assert not _throttled(combine([_run(), *both]))


def test_alone_and_of_another_model() -> None:
    """GIVEN a log without a run, or of another GPU model WHEN combined THEN one sentence."""
    with pytest.raises(TraceroofError, match="holds no kernels"):
        combine([_log(1980e6, "")])
    with pytest.raises(TraceroofError, match="another machine"):
        combine([_run(), _log(1980e6, "", name="NVIDIA A100-SXM4-80GB")])


def test_a_slice_of_the_logged_card() -> None:
    """GIVEN a run on a MIG slice, and a log of the whole card WHEN combined THEN they go together."""
    run = replace(_run(), devices=(DeviceInfo(index=0, name=f"{H100} MIG 1g.10gb"),))
    assert combine([run, _log(1980e6, "")]).clock_logs.num_rows == 60


def test_stored_and_completed(tmp_path: Path) -> None:
    """GIVEN a run with a log WHEN stored, read and given another log THEN both logs are there, each
    row with its file."""
    store = Store.open(tmp_path / "store")
    kept = store.add(combine([_run(), _log(1980e6, "")]), digest="0" * 12)
    again = store.get(kept.id).recording
    assert [one.role for one in again.sources] == ["", "clock-log"]
    assert said([one.role for one in again.sources]) == "a clock log stands beside"
    more = combine([again, _log(1290e6, "sw_power_cap", path="later")])
    assert [one.path for one in more.sources] == ["trace", "log", "later"]
    assert more.clock_logs["source"].to_pylist() == [1] * 60 + [2] * 60
    assert more.kernels.num_rows == 50
