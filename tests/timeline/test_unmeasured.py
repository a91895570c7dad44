"""Gaps in which an activity of unknown time may have run are not called idle."""

from typing import Any

import pytest

from tests.runs import recording
from traceroof.timeline import timelines

US = 1_000


@pytest.mark.parametrize(
    ("unknown", "idle", "unmeasured"),
    [
        # From its start to the next one.
        ({"start_ns": 110 * US}, 10 * US + 100 * US, 290 * US),
        # From its launch call on.
        ({"host_launch_ns": 90 * US}, 100 * US, 300 * US),
        # One gap, the longest: 300 of 400 us.
        ({}, 100 * US, 300 * US),
        # Another GPU's.
        ({"start_ns": 110 * US, "device": 1}, 400 * US, 0),
    ],
)
def test_a_gap_that_may_be_none(unknown: dict[str, Any], idle: int, unmeasured: int) -> None:
    """GIVEN kernels at 0-100, 400-500 and 600-700 us, and one of unknown duration."""
    rows: list[dict[str, Any]] = [
        {"start_ns": at * US, "duration_ns": 100 * US, "device": 0} for at in (0, 400, 600)
    ]
    rows.insert(1, {"device": 0} | unknown)
    names = ("start_ns", "duration_ns", "device", "host_launch_ns")
    columns: dict[str, Any] = {name: [row.get(name) for row in rows] for name in names}
    made = recording(columns | {"kernel_name": ["k"] * 4}, time_basis="timeline")
    found = timelines(made, ["other"] * 4)[0]
    assert (found.busy_ns, found.idle_ns) == (300 * US, idle)
    assert found.facts["unmeasured_ns"] == unmeasured
    assert sum(found.idle_by_cause.values()) == idle
