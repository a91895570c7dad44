"""Small runs to compare, made in code."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tests.runs import recording
from traceroof.core.merge_recordings import merge
from traceroof.core.recording import DeviceInfo, Recording, Run, TimeBasis

A100 = DeviceInfo(index=0, name="NVIDIA A100-SXM4-80GB")

#: kernel -> (launches a run, time of a launch in ns): 6 ms, of which "small" takes 5 %.
PROGRAM: Mapping[str, tuple[int, int]] = {
    "sgemm_big(float*)": (10, 400_000),
    "copy_medium(float*)": (34, 50_000),
    "small(float*)": (30, 10_000),
}


def one_run(
    program: Mapping[str, tuple[int, int]] = PROGRAM,
    factor: float = 1.0,
    *,
    start_ns: int = 0,
    rank: int | None = None,
    device: DeviceInfo = A100,
    time_basis: TimeBasis = "timeline",
    columns: Mapping[str, Mapping[str, Any]] | None = None,
) -> Recording:
    """One run of a program: its kernels one after another, all times scaled by a factor.

    columns: column -> kernel -> value, for counters.
    """
    names = [name for name, (count, _) in program.items() for _ in range(count)]
    durations = [round(program[name][1] * factor) for name in names]
    starts = [start_ns + sum(durations[:at]) + 1000 * at for at in range(len(names))]
    more = {
        column: [values.get(name) for name in names] for column, values in (columns or {}).items()
    }
    return recording(
        {
            "kernel_name": names,
            "duration_ns": durations,
            "start_ns": starts if time_basis == "timeline" else [None] * len(names),
            "device": [device.index] * len(names),
            "rank": [rank] * len(names),
            **more,
        },
        time_basis=time_basis,
        devices=(device,),
    )


def side(runs: Sequence[Recording], name: str = "side") -> Run:
    """Several runs of a program as one side of a comparison, a file each."""
    named = [
        replace(one, sources=tuple(replace(s, path=f"{name}{at}.csv") for s in one.sources))
        for at, one in enumerate(runs)
    ]
    return Run(recording=merge(named), name=name)


def repeated(
    factors: Sequence[float], program: Mapping[str, tuple[int, int]] = PROGRAM, **more: Any
) -> Run:
    """One run a factor, in turn."""
    return side([one_run(program, f, start_ns=at * 10**9, **more) for at, f in enumerate(factors)])


def stepped(
    steps: int,
    program: Mapping[str, tuple[int, int]] = PROGRAM,
    factors: Sequence[float] = (),
    gap_ns: int = 1_000_000,
) -> Run:
    """One run that holds so many steps of the program, 1 ms between them."""
    parts: list[Recording] = []
    start = 0
    for at in range(steps):
        parts.append(one_run(program, factors[at] if factors else 1.0, start_ns=start))
        last = parts[-1].kernels.slice(parts[-1].kernels.num_rows - 1)
        start = last["start_ns"][0].as_py() + last["duration_ns"][0].as_py() + gap_ns
    columns = {
        name: [value for part in parts for value in part.kernels[name].to_pylist()]
        for name in ("kernel_name", "duration_ns", "start_ns", "device")
    }
    columns["step"] = [
        f"step {at}" for at, part in enumerate(parts) for _ in range(part.kernels.num_rows)
    ]
    return Run(recording(columns, time_basis="timeline", devices=(A100,)), name="stepped")
