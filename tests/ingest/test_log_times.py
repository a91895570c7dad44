"""A clock log and a run on one clock: by their epochs, by an offset that is named or found."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.ingest.test_clock_logs import H100, _log, _run
from traceroof.compare import compare
from traceroof.core.kernel_table import kernel_table
from traceroof.core.recording import Recording, Run
from traceroof.diagnosis.diagnose import diagnose
from traceroof.diagnosis.narrow import of_kernels
from traceroof.errors import TraceroofError
from traceroof.ingest.combine import combine
from traceroof.ingest.log_times import offset_ns
from traceroof.report.compare.trust_words import surroundings
from traceroof.report.html.clock_figure import course
from traceroof.report.html.roofline_figure import roofline
from traceroof.report.run.kernel_cards import render
from traceroof.report.run.summary import clocks
from traceroof.scopes.logged_clocks import COURSE_POINTS
from traceroof.store import Store

# 2026-01-02 03:04:05 UTC (date -u -d ... +%s).
RAN = 1_767_323_045_000_000_000
HOUR = 3600 * 10**9


def _column(recording: Recording, name: str, values: Sequence[int | None]) -> Recording:
    kernels = recording.clock_logs if name.endswith("time_ns") else recording.kernels
    made = kernels.set_column(
        kernels.column_names.index(name), name, pa.array(values, type=pa.int64())
    )
    if name.endswith("time_ns"):
        return replace(recording, clock_logs=made)
    return replace(recording, kernels=made)


def _at(start: int = RAN) -> Recording:
    """The run of 50 kernels of 0.9 ms, one a millisecond, from ``start`` on."""
    return _column(_run(), "start_ns", [start + at * 1_000_000 for at in range(50)])


def _logged(column: str, first: int, clock: float = 1290e6) -> Recording:
    """The log with a sample every 5 ms, ``first`` the time of sample 0; 10 to 49 are under load."""
    log = _log(clock, "sw_power_cap")
    return _column(log, column, [first + at * 5_000_000 for at in range(60)])


def test_only_the_samples_of_the_run_count() -> None:
    """GIVEN a log with an epoch whose samples 10 to 19 lie in the run (0 to 49.9 ms), and other ones
    at another clock WHEN diagnosed THEN ten samples count, each kernel has the clock of its time, and
    the ceiling at that clock stands beside the nominal one."""
    log = _logged("time_ns", RAN - 50_000_000)
    clock = np.where((np.arange(60) >= 10) & (np.arange(60) < 21), 1.5e9, 1.2e9)
    at = log.clock_logs.column_names.index("sm_clock_hz")
    log = replace(log, clock_logs=log.clock_logs.set_column(at, "sm_clock_hz", pa.array(clock)))
    found = diagnose(combine([_at(), log]))
    assert found.clocks is not None
    assert found.to_dict()["clocks"]["aligned"] is True
    (gpu,) = found.clocks.gpus
    assert (gpu.samples, gpu.loaded, gpu.sm_clock_hz and gpu.sm_clock_hz.p50) == (10, 10, 1.5e9)
    assert found.kernels[0].metrics["logged_clock_hz"] == 1.5e9
    # The H100 SXM5 is rated at 1,830 MHz (NVIDIA H100 data sheet).
    assert found.kernels[0].metrics["logged_clock_pct"] == pytest.approx(1.5e9 / 1.83e9 * 100)
    (line,) = clocks(found)
    assert line.startswith("Clock log of nvidia-smi, the samples of the run. GPU 0, 10 of 10")


def test_a_run_shorter_than_the_interval() -> None:
    """GIVEN a run between two samples WHEN diagnosed THEN those beside it count."""
    run = _column(_run(), "start_ns", [RAN + at * 10_000 for at in range(50)])
    log = _logged("time_ns", RAN - 98_000_000)
    found = diagnose(combine([run, log])).clocks
    assert found is not None
    # 1.5 intervals before and after: samples at -3 and +2, +7 ms; -8 ms is too far.
    assert found.gpus[0].samples == 3


@pytest.mark.parametrize(
    ("offset", "ahead"), [("+02:00", 2 * HOUR), ("-5", -5 * HOUR), ("-12.5s", -12_500_000_000)]
)
def test_a_named_offset(offset: str, ahead: int) -> None:
    """GIVEN a log in local time WHEN its offset is named THEN it is aligned, and stays so in the
    store."""
    assert offset_ns(offset) == ahead
    log = _logged("local_time_ns", RAN - 50_000_000 + ahead)
    made = combine([_at(), log], clock_offset=offset)
    assert made.clock_logs["time_ns"].to_pylist()[0] == RAN - 50_000_000
    found = diagnose(made).clocks
    assert found is not None
    assert not found.unaligned
    assert found.gpus[0].samples == 10


def test_an_offset_that_the_load_tells() -> None:
    """GIVEN a local log of 13 hours, a sample a minute, under load at 09:04 alone, and a run of a
    minute at 03:04 UTC WHEN asked for auto THEN +6 hours; a log that is always under load is refused.
    """
    run = _column(_run(), "start_ns", [RAN + at * 10**9 for at in range(50)])

    def log(loaded: range) -> Recording:
        made = _log(1290e6, "")
        minutes = 13 * 60
        columns = {
            "source": [0] * minutes,
            "local_time_ns": [RAN + at * 60 * 10**9 for at in range(minutes)],
            "utilisation_pct": [99.0 if at in loaded else 1.0 for at in range(minutes)],
        }
        schema = made.clock_logs.schema
        empty = {name: [None] * minutes for name in schema.names}
        return replace(made, clock_logs=pa.table({**empty, **columns}, schema=schema))

    made = combine([run, log(range(359, 362))], clock_offset="auto")
    assert made.clock_logs["time_ns"].to_pylist()[360] == RAN
    with pytest.raises(TraceroofError, match=r"fits the run at .* hours alike"):
        combine([run, log(range(13 * 60))], clock_offset="auto")


def test_a_time_of_day_takes_the_runs_day() -> None:
    """GIVEN a log that tells the time of day alone, past midnight WHEN its offset is named THEN its
    day is the run's; without an offset it is not aligned."""
    midnight = RAN - (3 * HOUR + 4 * 60 * 10**9 + 5 * 10**9)
    run = _at(midnight - 25_000_000)
    day = 24 * HOUR
    of_day = [(day - 75_000_000 + at * 5_000_000) % day for at in range(60)]
    log = _column(_log(1290e6, ""), "local_time_ns", of_day)
    assert combine([run, log]).clock_logs["time_ns"].null_count == 60
    made = combine([run, log], clock_offset="0")
    assert made.clock_logs["time_ns"].to_pylist()[0] == midnight - 75_000_000
    assert made.clock_logs["time_ns"].to_pylist()[59] == midnight - 75_000_000 + 59 * 5_000_000


@pytest.mark.parametrize(
    ("column", "away"),
    [("time_ns", 60 * 10**9), ("local_time_ns", 27 * HOUR), ("local_time_ns", -27 * HOUR)],
)
def test_a_log_of_another_day_is_refused(column: str, away: int) -> None:
    """GIVEN a log that ends before the run began, in UTC or in any zone WHEN combined THEN one
    sentence."""
    with pytest.raises(TraceroofError, match=r"ran 2026-01-02 03:04:05 .* log of another time"):
        combine([_at(), _logged(column, RAN + away)])


def test_why_a_log_counts_as_a_whole() -> None:
    """GIVEN a log in local time, one without any, and a run without a date WHEN diagnosed THEN all
    samples count, and the line says why."""
    local = diagnose(combine([_at(), _logged("local_time_ns", RAN + 2 * HOUR)]))
    none = diagnose(combine([_at(), _log(1290e6, "")]))
    dateless = diagnose(combine([_run(), _logged("time_ns", RAN)]))
    for found, why in (
        (local, "its time zone is unknown: give it with --clock-offset"),
        (none, "the log has no times"),
        (dateless, "the profile has no date"),
    ):
        assert found.clocks is not None
        assert (found.clocks.gpus[0].samples, found.clocks.unaligned) == (60, why)
        assert f"not aligned with the run ({why})" in clocks(found)[0]
        # The median under load stands for the clock of each kernel.
        assert found.kernels[0].metrics["logged_clock_hz"] == 1290e6


@pytest.mark.parametrize("offset", ["tomorrow", "+99:99", "25"])
def test_no_offset(offset: str) -> None:
    """GIVEN what is not an offset, an offset without a log, or for a run without date WHEN combined THEN
    one sentence."""
    with pytest.raises(TraceroofError, match="is not an offset"):
        offset_ns(offset)
    with pytest.raises(TraceroofError, match="none is given"):
        combine([_at()], clock_offset="2")
    with pytest.raises(TraceroofError, match="have no date"):
        combine([_run(), _logged("local_time_ns", RAN)], clock_offset="2")
    with pytest.raises(TraceroofError, match="by --clock-offset 3.*another time"):
        combine([_at(), _logged("local_time_ns", RAN)], clock_offset="3")


def test_the_strip_under_the_timeline() -> None:
    """GIVEN an aligned log WHEN drawn THEN a point per sample, bars where a limit held the clock, and
    two lines at the ends of the run; 1,000 samples are 240 points."""
    found = diagnose(combine([_at(), _logged("time_ns", RAN - 50_000_000)]))
    chart = course(found)
    assert chart is not None
    assert (len(chart.rows), chart.rows[0]) == (60, ("-50.0 ms", "345 MHz", "70 W", "no"))
    assert chart.rows[10] == ("0 ns", "1.29 GHz", "690 W", "yes")
    held, *edges = chart.figure["layout"]["shapes"]
    assert (held["x0"], held["x1"]) == (0.0, 200.0)
    assert [one["x0"] for one in edges] == [0.0, 49.9]
    assert course(diagnose(_at())) is None
    long = _log(1290e6, "")
    many = replace(long, clock_logs=pa.concat_tables([long.clock_logs] * 20))
    drawn = course(diagnose(combine([_at(), many])))
    assert drawn is not None
    assert len(drawn.rows) == COURSE_POINTS
    assert drawn.rows[0][0] == "1"


def test_stored_and_aligned_later(tmp_path: Path) -> None:
    """GIVEN a stored run with a local log WHEN its offset is named THEN it is aligned."""
    kept = Store.open(tmp_path / "s").add(
        combine([_at(), _logged("local_time_ns", RAN - 50_000_000 + HOUR)]), digest="1" * 12
    )
    again = combine([kept.recording], clock_offset="1")
    assert [one.role for one in again.sources] == ["", "clock-log"]
    assert diagnose(again).clocks.gpus[0].samples == 10  # type: ignore[union-attr]
    assert H100 in {one.name for one in again.devices}


def _product() -> Recording:
    """A product of 4,096-cubed matrices in bfloat16, by its shapes: 1.374e11 FLOP in 300 µs."""
    kernels = kernel_table(
        {
            "source": [0] * 50, "device": [0] * 50,
            "kernel_name": ["nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNN"] * 50,
            "operator": ["aten::mm"] * 50,
            "input_shapes": ["[[4096, 4096], [4096, 4096]]"] * 50,
            "input_dtypes": ['["c10::BFloat16", "c10::BFloat16"]'] * 50,
            "start_ns": [RAN + at * 1_000_000 for at in range(50)], "duration_ns": [300_000] * 50,
        }
    )  # fmt: skip
    return replace(_run(), kernels=kernels)


def test_the_ceiling_at_the_clock_that_ran() -> None:
    """GIVEN a product on an H100 and a log at 1,290 MHz WHEN diagnosed THEN the card says the rate at
    that clock, 1,290 of 1,830 MHz of 989.4 TFLOP/s (NVIDIA's data sheet), and the chart has its line;
    the bounds still rest on the nominal peak."""
    plain = diagnose(_product())
    made = diagnose(combine([_product(), _logged("time_ns", RAN - 50_000_000)]))
    roof = made.kernels[0].roofline
    assert roof is not None
    assert roof["clock_hz"] == 1290e6
    assert roof["clock_flops_per_s"] == pytest.approx(989.4e12 * 1290 / 1830, rel=1e-3)
    text = render(of_kernels(made, [0]))
    assert "of 697 TFLOP/s (1.29 GHz, by the clock log)" in text
    chart = roofline(made)
    assert chart is not None
    assert any("at 1.29 GHz, the clock log's" in label for _, _, label in chart.legend)
    before = plain.kernels[0].roofline
    assert before is not None
    assert "clock_flops_per_s" not in before
    assert roof["t_min_ns"] == before["t_min_ns"]


def test_the_same_clock_on_both_sides() -> None:
    """GIVEN two runs with logs WHEN compared THEN clocks 15 % apart block the comparison of times, equal
    ones are said; one log alone says nothing."""
    runs = {
        clock: Run(combine([_at(), _logged("time_ns", RAN - 50_000_000, clock)]), str(clock))
        for clock in (1290e6, 1500e6)
    }
    apart = compare(runs[1500e6], runs[1290e6])
    (found,) = [one for one in apart.differences if one.what == "SM clock"]
    assert (found.base, found.head, found.blocks) == ("1.50 GHz", "1.29 GHz", True)
    assert "SM clock within 3 %" in surroundings(compare(runs[1290e6], runs[1290e6]))
    assert "clocks not recorded" in surroundings(compare(Run(_at(), "x"), runs[1290e6]))
