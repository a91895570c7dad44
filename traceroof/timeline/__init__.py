"""How the time of each GPU went by: busy, waiting and for what, overlapped, step by step.

One ``Timeline`` per rank, process and device. Everything is interval algebra over all streams
together (``intervals.py``), so that two kernels at once count once. Definitions, causes of idleness
and where other tools differ: ``docs/timeline.md``.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from traceroof.core.dictionary import coded
from traceroof.core.facts import Facts
from traceroof.timeline.columns import TIMELINE_COLUMNS
from traceroof.timeline.communication import Exchange
from traceroof.timeline.idle import CAUSES, Gap
from traceroof.timeline.partial import partial_of_run
from traceroof.timeline.steps import Step
from traceroof.timeline.timeline import Timeline

if TYPE_CHECKING:
    from traceroof.core.recording import Recording

__all__ = [
    "CAUSES",
    "TIMELINE_COLUMNS",
    "Exchange",
    "Gap",
    "Step",
    "Timeline",
    "facts_of",
    "timelines",
]


def timelines(recording: "Recording", categories: Sequence[str]) -> list[Timeline]:
    """The timelines of a recording, by rank, process and device.

    categories: the category of every row of the kernel table. Only activities with a known start
    and duration count; a counter tool's recording (serialised replays) has no timeline, and
    summaries have none either. Nor has one of copies alone: its kernels were not recorded, so when
    the GPU was busy is unknown.
    """
    return list(partial_of_run(recording, coded(pa.array(categories, pa.string()))).timelines)


def facts_of(found: Sequence[Timeline]) -> Facts:
    """What rules of scope ``timeline`` read: one subject a timeline, columns TIMELINE_COLUMNS."""
    judged = [one.steady_facts or one.facts for one in found]
    columns = {
        entry.name: np.array([one.get(entry.name, np.nan) for one in judged], dtype=np.float64)
        for entry in TIMELINE_COLUMNS
    }
    return Facts(columns, len(found))
