"""The recording holds the start of the process."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Rule, at_least
from traceroof.rules._timelines import part


def _trust(k: Facts) -> Column:
    # Without a call of the host, only the place of the gaps tells that this is a start.
    return np.asanyarray(np.where(k.linked_activities > 0, 1.0, 0.5))


RULES = (
    Rule(
        id="cold-start",
        topic="cold-start",
        title="Cold start: set-up that happens once per process",
        scope="timeline",
        why=(
            "The first launch of a kernel loads its code, the first use of a library creates "
            "handles and streams, first steps compile, search for the fastest algorithm and fill "
            "the memory cache. None of it recurs in the same process, so it says nothing about "
            "the steady state."
        ),
        condition=(
            "the GPU idle for {cold:.0%} of the recording or more while the host made runtime calls "
            "over a millisecond that are the first of their kernel or of their name, or loaded code and "
            "asked for memory among them; before the first kernel of such a recording, whatever it did; without "
            "any call of the host, nearly all long gaps before a tenth of the launches"
        ),
        needs=("cold_ns", "whole_span_ns", "span_ns"),
        uses=("linked_activities",),
        when=lambda k: k.meets("cold"),
        because=(
            "for {cold_ns} of the recording's {whole_span_ns} the GPU waits for set-up that "
            "happens once per process"
        ),
        trust=_trust,
        fix=(
            "Record again after warm-up: run 10 to 20 iterations with every shape first, and start "
            "the profiler after them (torch.profiler.schedule with wait and warm-up steps; nsys "
            "--capture-range=cudaProfilerApi; rocprofv3 --collection-period). To shorten the start itself, keep "
            "compiled code between runs (TORCHINDUCTOR_CACHE_DIR, TRITON_CACHE_DIR, "
            "CUDA_CACHE_PATH, MIOPEN_USER_DB_PATH) and load modules before the first request "
            "(CUDA_MODULE_LOADING=EAGER)."
        ),
        refute="Record the same steps later in the process: if these calls are as slow, they are no start.",
        saves=lambda k, peak: part(k.cold_ns, k),
        kind="hard",
        grade="observed",
        layer="framework",
        effort="config",
        suppresses=("gpu-idle-share",),
        thresholds={"cold": at_least(0.05, column="cold_ns", of="whole_span_ns")},
        references=(
            "CUDA Programming Guide, lazy loading: kernels load at their first launch",
            "HIP documentation, hipModuleLoad: code objects load at first use",
            "PyTorch documentation, torch.profiler.schedule: wait and warm-up",
        ),
        fires=(
            {"cold_ns": 3_423e6, "whole_span_ns": 5_244e6, "span_ns": 5_244e6},
            {"cold_ns": 5e6, "whole_span_ns": 100e6, "span_ns": 100e6},
        ),
        silent=(
            {"cold_ns": 4.9e6, "whole_span_ns": 100e6, "span_ns": 100e6},
            {"cold_ns": 0.0, "whole_span_ns": 100e6, "span_ns": 100e6},
        ),
    ),
)
