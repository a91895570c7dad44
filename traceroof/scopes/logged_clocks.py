"""What clock and power logs beside a run say: percentiles per GPU, and what held the clocks down.

A log also covers what was before and after the run, when the GPU had nothing to do and its clock
was low. Clocks are therefore judged over the samples under load; without a way to tell load,
percentiles are over all samples and nothing is judged.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceroof.core.clock_log import IDLE, LIMITS
from traceroof.core.dictionary import coded
from traceroof.core.kernel_table import as_reals

#: A GPU is under load from this utilisation on: its tools count the time with any kernel.
LOAD_PCT = 50.0
#: Fewer samples under load say nothing of clocks, and fewer nothing of how far they fall.
LEAST_SAMPLES = 3
LEAST_TO_FALL = 20

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Spread:
    """Values at 5, 50 and 95 % of the samples."""

    p5: float
    p50: float
    p95: float


@dataclass(frozen=True)
class GpuClocks:
    """One GPU of a log. basis: the samples that everything is over, "load" or "all".

    loaded: samples under load, None where the log does not tell. throttled: share of the samples
    (0-1) in which a limit of power or temperature held the clock; None where the log has no reasons.
    reasons: share of each reason.
    """

    gpu: int | None
    samples: int
    loaded: int | None
    basis: str
    sm_clock_hz: Spread | None
    memory_clock_hz: Spread | None
    power_w: Spread | None
    temperature_c: Spread | None
    throttled: float | None
    reasons: dict[str, float]

    @property
    def main_reason(self) -> str | None:
        """The limit that held the clock most often."""
        found = [(share, name) for name, share in self.reasons.items() if name in LIMITS]
        return max(found)[1] if found else None

    @property
    def judged(self) -> bool:
        """Whether there are enough samples under load to judge its clock."""
        return self.basis == "load" and (self.loaded or 0) >= LEAST_SAMPLES


@dataclass(frozen=True)
class LoggedClocks:
    """All GPUs of the logs beside a run. tools: what wrote the logs."""

    gpus: tuple[GpuClocks, ...]
    tools: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The JSON contract of ``clocks``."""
        return {"tools": list(self.tools), "aligned": False, "gpus": [asdict(x) for x in self.gpus]}


def logged_clocks(log: pa.Table, tools: Sequence[str]) -> LoggedClocks | None:
    """The log by GPU; None without a log. log: a table of CLOCK_LOG."""
    if not log.num_rows:
        return None
    ordinals = as_reals(log["gpu"])
    found = []
    for ordinal in np.unique(ordinals).tolist():
        here = np.isnan(ordinals) if np.isnan(ordinal) else ordinals == ordinal
        found.append(
            _of_gpu(None if np.isnan(ordinal) else int(ordinal), log.filter(pa.array(here)))
        )
    return LoggedClocks(tuple(found), tuple(dict.fromkeys(tools)))


def of_run(logged: LoggedClocks | None, kernels: pa.Table) -> tuple[GpuClocks, ...]:
    """The GPUs of a log that the run ran on, as far as their clocks can be judged.

    A log counts all GPUs of a machine, a program those that it sees: of one GPU alone under load it
    is taken that the run loaded it.
    """
    if logged is None:
        return ()
    judged = tuple(one for one in logged.gpus if one.judged)
    ran = set(pc.unique(kernels["device"]).drop_null().to_pylist())
    same = tuple(one for one in judged if one.gpu in ran)
    return same or (judged if len(judged) == 1 and len(ran) <= 1 else ())


def _of_gpu(gpu: int | None, log: pa.Table) -> GpuClocks:
    reasons = _reasons(log)
    loaded = _loaded(log, reasons)
    some = loaded is not None and bool(loaded.any())
    over = loaded if loaded is not None and some else np.ones(log.num_rows, dtype=bool)
    told = [
        one
        for one, counts in zip(reasons, over.tolist(), strict=True)
        if counts and one is not None
    ]
    names = dict.fromkeys(name for one in told for name in one)
    return GpuClocks(
        gpu=gpu,
        samples=log.num_rows,
        loaded=None if loaded is None else int(loaded.sum()),
        basis="load" if some else "all",
        **{
            name: _spread(as_reals(log[name])[over])
            for name in ("sm_clock_hz", "memory_clock_hz", "power_w", "temperature_c")
        },
        throttled=sum(not LIMITS.isdisjoint(one) for one in told) / len(told) if told else None,
        reasons={name: sum(name in one for one in told) / len(told) for name in names},
    )


def _reasons(log: pa.Table) -> list[frozenset[str] | None]:
    """The reasons of each sample, None where it does not tell."""
    texts = coded(log["throttle_reasons"])
    sets = [frozenset(filter(None, text.split(", "))) for text in texts.texts]
    return [sets[code] if code >= 0 else None for code in texts.codes.tolist()]


def _loaded(log: pa.Table, reasons: Sequence[frozenset[str] | None]) -> Mask | None:
    """The samples under load; None where the log does not tell."""
    use = as_reals(log["utilisation_pct"])
    if not np.isnan(use).all():
        return np.asarray(use >= LOAD_PCT)
    if any(one is not None and IDLE in one for one in reasons):
        return np.array([one is not None and IDLE not in one for one in reasons], dtype=bool)
    return None


def _spread(values: npt.NDArray[np.float64]) -> Spread | None:
    known = values[~np.isnan(values)]
    if not len(known):
        return None
    return Spread(*np.percentile(known, (5, 50, 95), method="nearest").tolist())
