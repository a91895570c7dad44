"""May the times of these two runs be compared at all? What differs besides the code."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from traceroof.compare.sides import Side
from traceroof.core.clock_log import utc_window
from traceroof.core.recording import Run
from traceroof.core.units import quantity
from traceroof.diagnosis.diagnosis import Diagnosis

#: Clocks this far apart make other times of the same code.
CLOCK_PCT = 3.0


@dataclass(frozen=True)
class Difference:
    """Something other than the code that differs, or that only one side says.

    blocks: times of the two sides do not compare. base, head: None where the file does not say.
    """

    what: str
    base: str | None
    head: str | None
    blocks: bool

    def __str__(self) -> str:
        return f"{self.what}: {self.base or 'not recorded'} → {self.head or 'not recorded'}"


def differences(base: Side, head: Side, work: float | None = None) -> tuple[Difference, ...]:
    """What differs between two runs besides the code, what blocks a comparison first.

    The same on both sides is no difference; known on one side only is one that does not block.
    work: how many times the launches of the base the head recorded throughout, None for as many.
    """
    found: list[Difference] = []
    for what, of, blocks in _QUESTIONS:
        one, other = of(base), of(head)
        # Another GPU has another architecture: one difference, said once.
        if one != other and not (found and what in _OF_A_GPU):
            found.append(Difference(what, one, other, blocks and None not in (one, other)))
    clocks = _clocks(base.diagnosis, head.diagnosis)
    if clocks:
        found.append(clocks)
    if work:
        found.append(
            Difference("recorded work", "1 times the launches", f"{work:.3g} times", blocks=True)
        )
    return tuple(sorted(found, key=lambda one: not one.blocks))


def _each(values: Iterable[object]) -> str | None:
    """The distinct values in words; None where none is known."""
    known = dict.fromkeys(str(value) for value in values if value is not None)
    return ", ".join(sorted(known)) or None


def _gpu(side: Side) -> str | None:
    return _each(one.known.name if one.known else one.info.name for one in side.diagnosis.devices)


def _architecture(side: Side) -> str | None:
    return _each(
        one.info.compute_capability
        or one.info.gfx_target
        or (one.known and (one.known.compute_capability or one.known.gfx_target))
        for one in side.diagnosis.devices
    )


def _multiprocessors(side: Side) -> str | None:
    return _each(
        one.info.sm_count or (one.known and one.known.sm_count) for one in side.diagnosis.devices
    )


def _driver(side: Side) -> str | None:
    return _each(one.info.driver for one in side.diagnosis.devices)


# What is asked of both sides: its name, where the answer is, whether another answer blocks.
_QUESTIONS: Sequence[tuple[str, Callable[[Side], str | None], bool]] = (
    ("GPU", _gpu, True),
    ("architecture", _architecture, True),
    ("multiprocessors", _multiprocessors, True),
    ("driver", _driver, True),
    ("GPUs side by side", lambda side: _each((side.gpus,)), True),
    ("kind of times", lambda side: side.diagnosis.time_basis, True),
    ("tool", lambda side: side.diagnosis.format, True),
    ("rank", lambda side: _each(one.rank for one in side.diagnosis.timelines), False),
)


_OF_A_GPU = ("architecture", "multiprocessors")


def _clocks(base: Diagnosis, head: Diagnosis) -> Difference | None:
    one, other = _clock(base), _clock(head)
    if one is None or other is None:
        return None
    if abs(other - one) <= CLOCK_PCT / 100 * one:
        return None
    return Difference("SM clock", quantity(one, "Hz"), quantity(other, "Hz"), blocks=True)


#: Where the clock of a kernel is told, best first.
CLOCKS = ("sm_clock_hz", "logged_clock_hz")


def _clock(run: Diagnosis) -> float | None:
    """Time-weighted clock of the kernels, by their launches or by a log beside the run; else the
    devices' own; Hz."""
    for name in CLOCKS:
        seen = [
            (one.metrics[name], one.time_ns)
            for one in run.kernels
            if one.time_ns and isinstance(one.metrics.get(name), float)
        ]
        if not seen:
            continue
        clocks, times = (np.array(values, dtype=np.float64) for values in zip(*seen, strict=True))
        return float(np.average(clocks, weights=times))
    known = {one.info.sm_clock_hz for one in run.devices if one.info.sm_clock_hz}
    return known.pop() if len(known) == 1 else None


def one_after_another(base: Run, head: Run, runs: tuple[int, int]) -> tuple[str, ...]:
    """That all runs of one side were measured before those of the other, where files tell the day: a
    drift of the machine then looks like a change. Empty for single runs."""
    windows = [utc_window(one.recording.kernels) for one in (base, head)]
    if min(runs) < 2 or not all(windows):
        return ()
    first, last = sorted(one for one in windows if one)
    if first[1] >= last[0]:
        return ()
    text = (
        "all runs of one side were measured before those of the other, so a drift of the machine "
        "looks like a change: run base and head in turn"
    )
    return (text,)
