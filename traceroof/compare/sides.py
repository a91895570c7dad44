"""One side of a comparison: its diagnosis, its runs and steps, and sums over its rows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from traceroof.compare.pairing import Identity
from traceroof.compare.samples import (
    By,
    Per,
    Runs,
    Samples,
    Steps,
    Whole,
    runs_of,
    samples_of,
    steps_of,
)
from traceroof.config import NONE, Settings
from traceroof.core import kernel_names
from traceroof.core.recording import Run
from traceroof.diagnosis.diagnose import diagnose_rows
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.hardware.ceilings import MeasuredRate
from traceroof.rule import Rule

Reals = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Side:
    """A run, and what its launches belong to: rows are those of one variant in one step on one GPU.

    group: kernel group of each row, numbered as ``diagnosis.kernels``; -1 for copies and fills.
    category: of each row. time_ns, launches: of each row; time is 0 where it is unknown, and
    untimed counts those launches. first: variant of each group's first launch.
    """

    diagnosis: Diagnosis
    group: Whole
    category: npt.NDArray[np.object_]
    source: Whole
    time_ns: Reals
    launches: Reals
    untimed: Reals
    first: Whole
    runs: Runs
    steps: Steps

    @classmethod
    def of(
        cls,
        run: Run,
        device: str | None,
        rules: Sequence[Rule] | None,
        calibration: Sequence[MeasuredRate] = (),
        settings: Settings = NONE,
    ) -> Self:
        """Diagnose a run and find its repetitions and steps."""
        # Every repeat is a sample, so all of them are looked at.
        recording = replace(
            run.recording,
            sources=tuple(replace(one, role="") for one in run.recording.sources),
        )
        everything = replace(run, recording=recording)
        diagnosis, rows = diagnose_rows(
            everything, device=device, rules=rules, calibration=calibration, settings=settings
        )
        entries = rows.variants.by_step
        group = rows.of_variant[entries["variant"]]
        time = entries["time_ns"].astype(np.float64)
        kernel_time = np.where(group >= 0, time, 0.0)
        runs = runs_of(entries, run.recording.kernels, group, kernel_time, run.recording.sources)
        _, first = np.unique(rows.of_variant[rows.of_variant >= 0], return_index=True)
        return cls(
            diagnosis=diagnosis,
            group=group,
            category=np.asarray(rows.category_of_variant, dtype=object)[entries["variant"]],
            source=entries["source"],
            time_ns=time,
            launches=entries["launches"].astype(np.float64),
            untimed=entries["untimed"].astype(np.float64),
            first=np.flatnonzero(rows.of_variant >= 0)[first],
            runs=runs,
            steps=steps_of(entries, rows.variants.steps, diagnosis.timelines, runs, kernel_time),
        )

    @property
    def gpus(self) -> int | None:
        """GPUs that ran side by side in one run; None without a timeline."""
        seen = {
            (one.rank, one.device)
            for one in self.diagnosis.timelines
            if one.sources and self.runs.of_source[one.sources[0]] == 0
        }
        return len(seen) or None

    def counted(self, per: Per, by: By) -> "Counted":
        """The side with its rows dealt out to samples."""
        return Counted(self, samples_of(self.steps, self.runs, self.source, per, by))


@dataclass(frozen=True)
class Counted:
    """A side whose rows are counted in samples."""

    side: Side
    samples: Samples

    def times(self, codes: Whole, count: int) -> Reals:
        """Time per thing and sample, ns of one step or run: (count, samples)."""
        return self.samples.sums(codes, count, self.side.time_ns)

    def untimed(self, codes: Whole, count: int) -> Reals:
        """Share of the launches per thing and sample whose time is unknown, 0 to 1."""
        unknown = self.samples.sums(codes, count, self.side.untimed)
        launches = self.launches(codes, count)
        return np.divide(unknown, launches, out=np.zeros_like(unknown), where=launches > 0)

    def launches(self, codes: Whole, count: int) -> Reals:
        """Launches per thing and sample, of one step or run: (count, samples)."""
        return self.samples.sums(codes, count, self.side.launches)

    def identities(self) -> list[Identity]:
        """What each kernel group is known by."""
        kernels = self.side.diagnosis.kernels
        launches = np.median(self.launches(self.side.group, len(kernels)), axis=1)
        return [
            Identity(
                name=kernel_names.key(one.kernel),
                launch=(one.grid, one.block),
                inputs=(one.input_shapes, one.input_dtypes),
                operator=one.operator,
                category=one.category,
                first=first,
                launches=float(count),
            )
            for one, first, count in zip(
                kernels, self.side.first.tolist(), launches.tolist(), strict=True
            )
        ]

    def of_steps(self, values: Reals) -> Reals:
        """Figures of steps as one row of samples: (1, samples)."""
        return self.samples.of_steps(values)[None, :]
