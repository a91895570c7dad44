"""Time that activities of one stream share, however many streams there are."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from traceroof.core.kernel_table import UNKNOWN
from traceroof.timeline.metrics import _within_streams


def _lane(*rows: tuple[int, int, int]) -> Any:
    """Activities (stream, start, end), by start."""
    stream, start, end = (np.array(one, dtype=np.int64) for one in zip(*rows, strict=True))
    return SimpleNamespace(stream=stream, start=start, end=end)


def test_only_activities_of_one_stream_share_time() -> None:
    """GIVEN streams in turn WHEN an activity starts before an earlier one of its stream ended THEN
    what both run is shared; other streams and unknown ones take no part."""
    lane = _lane((7, 0, 10), (8, 2, 9), (7, 6, 20), (UNKNOWN, 7, 30), (UNKNOWN, 8, 31), (9, 8, 9),
                 (8, 9, 12), (7, 15, 18))  # fmt: skip
    assert _within_streams(lane) == (10 - 6) + (18 - 15)


def test_streams_of_one_activity_share_nothing() -> None:
    lane = _lane(*((at, at, at + 100) for at in range(100_000)))
    assert _within_streams(lane) == 0
