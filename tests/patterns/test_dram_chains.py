"""Chains of kernels at DRAM speed: told by the bytes that one writes and the next reads."""

from typing import Any

import numpy as np
import pytest

from tests.runs import recording
from traceroof.core.recording import DeviceInfo
from traceroof.diagnosis.diagnose import diagnose
from traceroof.diagnosis.diagnosis import Diagnosis

# A GTX 1080 Ti: 484 GB/s, 2.75 MiB of L2. What CUDA's sample convolutionFFT2D measured on one:
# bytes read and written, time.
PASSES = {
    "post": (16.8e6, 16.8e6, 91_100),
    "modulate": (33.8e6, 16.8e6, 128_000),
    "pre": (16.8e6, 16.8e6, 89_600),
}


def _diagnosed(**changes: Any) -> Diagnosis:
    names = list(PASSES)
    read, written, spent = (list(one) for one in zip(*PASSES.values(), strict=True))
    columns: dict[str, Any] = {
        "kernel_name": names,
        "duration_ns": spent,
        "start_ns": [1_000_000, 1_100_000, 1_230_000],
        "stream": [7, 7, 7],
        "device": [0, 0, 0],
        "dram_read_bytes": read,
        "dram_write_bytes": written,
        "dram_bytes": [sum(pair) for pair in zip(read, written, strict=True)],
        "dram_throughput_pct": [80.0, 80.0, 80.0],
        "shared_memory_static_bytes": [0.0, 0.0, 0.0],
        "shared_memory_dynamic_bytes": [0.0, 0.0, 0.0],
        **changes,
    }
    gpu = DeviceInfo(index=0, name="NVIDIA GeForce GTX 1080 Ti", compute_capability="6.1")
    return diagnose(recording(columns, devices=(gpu,), time_basis="counter-tool"))


def _chained(found: Diagnosis) -> dict[str, int | None]:
    return {
        one.subject: one.time_saved_bound_ns for one in found.fired() if one.rule == "dram-chain"
    }


def test_a_chain_saves_what_goes_between() -> None:
    """GIVEN three passes, each over the 16.8 MB that the one before wrote
    THEN fused they read 16.8 MB of each of two inputs and write 16.8 MB: 104 of 309 µs at the peak
    of 484.4 GB/s."""
    found = _chained(_diagnosed())
    assert set(found) == set(PASSES)
    peak = 484.4e9
    for name, rest in (("post", 16.8e6), ("modulate", 17.0e6), ("pre", 16.8e6)):
        assert found[name] == pytest.approx(PASSES[name][2] - rest / peak * 1e9, abs=2)
    saved = sum(one or 0 for one in found.values())
    assert saved / 308_700 == pytest.approx(0.661, abs=0.001)  # fusing gained 57 % in the sample


def test_the_order_is_exact_since_an_epoch() -> None:
    """GIVEN starts of 2026 that differ by less than a double can tell, and rows in another order
    THEN the chain is that of the starts."""
    late = 1_790_000_000 * 10**9
    rows = [2, 1, 0]
    columns = {
        "kernel_name": [list(PASSES)[at] for at in rows],
        "duration_ns": [PASSES[list(PASSES)[at]][2] for at in rows],
        "start_ns": [late + 10 * at for at in rows],
        "dram_read_bytes": [[8e6, 33.8e6, 8e6][at] for at in rows],
        "dram_write_bytes": [16.8e6] * 3,
        "dram_bytes": [[24.8e6, 50.6e6, 24.8e6][at] for at in rows],
    }
    assert set(_chained(_diagnosed(**columns))) == {"post", "modulate"}


@pytest.mark.parametrize(
    "changes",
    [
        {"stream": [7, 8, 9]},
        {"start_ns": [1_230_000, 1_000_000, 1_400_000], "dram_read_bytes": [8e6, 33.8e6, 8e6]},
        {"dram_throughput_pct": [80.0, 40.0, 80.0]},
        {"shared_memory_static_bytes": [0.0, 4096.0, 0.0]},
        {"dram_read_bytes": [16.8e6, 8e6, 8e6]},
        {"dram_write_bytes": [2e6, 2e6, 2e6]},
        {"kernel_name": ["post", "post", "post"]},
        {"launch_count": [10, 10, 10]},
        {"start_ns": [None, None, None]},
        {"dram_read_bytes": [np.nan, np.nan, np.nan]},
    ],
    ids=[
        "other streams", "other order", "not at the wall", "blocks exchange data", "reads less",
        "fits L2", "one kernel", "aggregates", "no order", "no counters",
    ],
)  # fmt: skip
def test_what_is_no_chain(changes: dict[str, Any]) -> None:
    assert _chained(_diagnosed(**changes)) == {}
