"""Work that was launched and not recorded."""

import pyarrow as pa
import pytest

from traceroof.core.kernel_table import kernel_table
from traceroof.core.recording import HOST_CALLS
from traceroof.timeline.lost_records import launched

#: A profiler's own calls are numbered from here on.
OWN = (1 << 31) + 1


@pytest.mark.parametrize(
    ("ids", "lost"),
    [
        # 20 of 19,001 ids, where 950 are usual.
        ([1 + 1_000 * at for at in range(20)], 1 - 20 / 950.05),
        # Two series of ten, without a gap in either.
        ([*range(1, 11), *range(OWN, OWN + 10)], 0.0),
        # Two series of eleven, both thinned out: 20 steps of 1,000.
        ([base + 1_000 * at for base in (1, OWN) for at in range(11)], 1 - 21 / 1000.05),
    ],
)
def test_ids_of_calls_say_what_was_thinned_out(ids: list[int], lost: float) -> None:
    """GIVEN launch calls that all have their kernels, and the ids that they are numbered with."""
    calls = [
        {"source": 0, "process_id": 7, "thread_id": 1, "category": "cuda_runtime",
         "name": "cudaLaunchKernel", "start_ns": 10 * at, "duration_ns": 5, "correlation_id": one}
        for at, one in enumerate(ids)
    ]  # fmt: skip
    kernels = kernel_table(
        {
            "kernel_name": ["k"] * len(ids), "start_ns": [10 * at + 5 for at in range(len(ids))],
            "duration_ns": [5] * len(ids), "process_id": [7] * len(ids), "source": [0] * len(ids),
            "correlation_id": ids,
        }
    )  # fmt: skip
    found = launched(pa.Table.from_pylist(calls, schema=HOST_CALLS), kernels)[0, 7]
    assert (found.calls, found.lost) == (len(ids), 0)
    assert found.lost_share == pytest.approx(lost)
