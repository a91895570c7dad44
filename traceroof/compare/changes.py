"""What changed, one thing at a time: the whole, a category, a kernel, with figures and a verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from traceroof.compare.pairing import TRUST, By
from traceroof.compare.verdicts import Verdicts, Word
from traceroof.core.facts import Facts, whole
from traceroof.core.kernel_names import short_names
from traceroof.diagnosis.diagnosis import KernelGroup
from traceroof.scopes.subjects import COMPARE_COLUMNS, Subjects

Reals = npt.NDArray[np.float64]
Level = Literal["total", "category", "kernel"]
Basis = Literal["time", "counters"]


@dataclass(frozen=True)
class Timed:
    """A time on one side: median and median absolute deviation over the samples; ns of one step,
    or of one run where no steps are known. launches: of one step or run."""

    median_ns: float | None
    mad_ns: float | None
    launches: float | None
    samples: int

    @property
    def call_ns(self) -> float | None:
        """Time of one launch."""
        if self.median_ns is None or not self.launches:
            return None
        return self.median_ns / self.launches


@dataclass(frozen=True)
class KernelPair:
    """The kernel groups behind a change; by: what paired them, None for a kernel of one side."""

    by: By | None
    base: tuple[KernelGroup, ...]
    head: tuple[KernelGroup, ...]

    @property
    def trust(self) -> float:
        """How far the pair is to be trusted, 0-1."""
        return TRUST[self.by] if self.by else 1.0

    @property
    def same_name(self) -> bool:
        """Whether both sides call it the same."""
        return self.by in ("launch", "name")


@dataclass(frozen=True)
class Change:
    """One thing on both sides, and what can be said of the difference.

    verdict: see ``verdicts``. basis: what the verdict rests on. reason: what is missing where it is
    inconclusive. Times in ns of one step or run; low and high: interval of the difference;
    detectable: least relative change that so many samples show; measured: whether noise was measured
    on repeats before, and decided; p and q: of the rank test, q
    adjusted for the number of tests. speed_ns and mix_ns: parts of the difference that come from
    the time of a launch, and from how many launches of what. share, of_total: of the time of
    everything in the base, 0-1.
    """

    level: Level
    name: str
    category: str | None
    verdict: Word
    basis: Basis | None
    reason: str
    base: Timed
    head: Timed
    delta_ns: float | None
    low_ns: float | None
    high_ns: float | None
    p: float | None
    q: float | None
    noise: float | None
    detectable: float | None
    speed_ns: float | None
    mix_ns: float | None
    share: float | None
    of_total: float | None
    pair: KernelPair | None = None
    measured: bool = False

    @property
    def ratio(self) -> float | None:
        """Head over base."""
        base, head = self.base.median_ns, self.head.median_ns
        return head / base if base and head is not None else None

    @property
    def slower_ns(self) -> float:
        """Time of the slower side, 0 where unknown."""
        return max(self.base.median_ns or 0.0, self.head.median_ns or 0.0)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form (``docs/comparison.schema.json``); times as whole ns."""
        made: dict[str, Any] = {
            "name": self.name,
            "verdict": self.verdict,
            "basis": self.basis,
            "reason": self.reason or None,
            "base": _timed_dict(self.base),
            "head": _timed_dict(self.head),
            "delta_ns": whole(self.delta_ns),
            "delta_pct": None if self.ratio is None else (self.ratio - 1) * 100,
            "low_ns": whole(self.low_ns),
            "high_ns": whole(self.high_ns),
            "p": self.p,
            "q": self.q,
            "noise_pct": _pct(self.noise),
            "detectable_pct": _pct(self.detectable),
            "noise_from": None if self.noise is None else "measured" if self.measured else "runs",
            "speed_ns": whole(self.speed_ns),
            "mix_ns": whole(self.mix_ns),
            "share": self.share,
        }
        if self.pair is None:
            return made
        return made | {
            "category": self.category,
            "matched_by": self.pair.by,
            "trust": self.pair.trust,
            "base_kernels": [_group_dict(one) for one in self.pair.base],
            "head_kernels": [_group_dict(one) for one in self.pair.head],
        }


def _pct(share: float | None) -> float | None:
    return None if share is None else share * 100


def _timed_dict(timed: Timed) -> dict[str, Any]:
    return {
        "median_ns": whole(timed.median_ns),
        "mad_ns": whole(timed.mad_ns),
        "launches": timed.launches,
        "call_ns": timed.call_ns,
        "samples": timed.samples,
    }


def _group_dict(group: KernelGroup) -> dict[str, Any]:
    return {
        "kernel": group.kernel,
        "class": group.primary_class,
        "grid": group.grid,
        "block": group.block,
        "operator": group.operator,
        "where": asdict(group.where),
        "median_ns": group.median_ns,
        "metrics": dict(group.metrics),
    }


def changes_of(
    level: Level,
    names: Sequence[str],
    verdicts: Verdicts,
    launches: tuple[Reals, Reals],
    total_ns: float,
    *,
    samples: tuple[int, int],
    categories: Sequence[str] | None = None,
    pairs: Sequence[KernelPair] | None = None,
    compared: bool = True,
) -> list[Change]:
    """The changes of one level.

    launches: of base and head, (g, n) and (g, m). total_ns: time of everything in the base.
    compared: whether times may be compared; else there is no difference, and no verdict on it.
    """
    v = verdicts
    found = []
    for row, name in enumerate(names):
        base = _timed(v.base_ns[row], v.base_mad_ns[row], launches[0][row], samples[0])
        head = _timed(v.head_ns[row], v.head_mad_ns[row], launches[1][row], samples[1])
        word: Word = v.word[row]
        if pairs and pairs[row].by is None:
            word = "gone" if pairs[row].base else "new"
        elif not compared:
            word = "not-compared"
        delta = known(v.delta_ns[row]) if compared else None
        speed, mix = _parts(base, head, delta) if level == "kernel" else (None, None)
        found.append(
            Change(
                level=level,
                name=name,
                category=categories[row] if categories else None,
                verdict=word,
                basis="time" if word in ("regressed", "improved") else None,
                reason=v.reason[row] if word == "inconclusive" else "",
                base=base,
                head=head,
                delta_ns=delta,
                low_ns=known(v.low_ns[row]) if compared else None,
                high_ns=known(v.high_ns[row]) if compared else None,
                p=known(v.p[row]) if compared else None,
                q=known(v.q[row]) if compared else None,
                noise=known(v.noise[row]),
                detectable=known(v.detectable[row]) if compared else None,
                speed_ns=speed,
                mix_ns=mix,
                share=_share(v.base_ns[row], v.head_ns[row], total_ns),
                of_total=delta / total_ns if delta is not None and total_ns else None,
                pair=pairs[row] if pairs else None,
                measured=bool(v.measured[row]),
            )
        )
    return found


def _share(base_ns: float, head_ns: float, total_ns: float) -> float | None:
    """Share of the larger side, of what is known; a side of no time tells nothing of the other."""
    most = float(np.fmax(base_ns, head_ns))
    is_known = total_ns and not (np.isnan(base_ns + head_ns) and most == 0)
    return known(most / total_ns) if is_known else None


def _timed(median: float, mad: float, launches: Reals, samples: int) -> Timed:
    return Timed(
        median_ns=known(median),
        mad_ns=known(mad) if samples > 1 else None,
        launches=float(np.median(launches)) if len(launches) else None,
        samples=samples,
    )


def _parts(base: Timed, head: Timed, delta: float | None) -> tuple[float | None, float | None]:
    """Split a difference: launches of the base at their new time, and the rest."""
    if delta is None:
        return None, None
    if base.launches == head.launches:
        return delta, 0.0
    if base.call_ns is None or head.call_ns is None:
        return 0.0, delta
    # As many launches as both sides have run at either speed.
    speed = (head.call_ns - base.call_ns) * min(base.launches or 0.0, head.launches or 0.0)
    return speed, delta - speed


def known(value: float) -> float | None:
    """A figure, None where it is NaN or infinite."""
    return float(value) if np.isfinite(value) else None


# Per launch, where a kernel is one group on either side: column -> metric of the kernel group.
_PER_LAUNCH: Mapping[str, tuple[str, ...]] = {
    "dram_bytes": ("dram_bytes",),
    "flops": ("flops", "model_flops"),
    "registers_per_thread": ("registers_per_thread",),
    "local_requests": ("local_requests",),
    "operand_dtype": ("operand_dtype",),
    "pipe_tensor_use_pct": ("pipe_tensor_use_pct",),
    "sm_clock_hz": ("sm_clock_hz", "logged_clock_hz"),
}
_NAME_WIDTH = 60
_BLOCK_LIMITS = tuple(
    f"occupancy_limit_{limit}"
    for limit in ("blocks", "registers", "shared_memory", "warps", "barriers")
)


def facts_of(
    changes: Sequence[Change], sampled: str, of_total: Mapping[str, Any], total_ns: float
) -> Subjects:
    """What rules of scope ``compare`` read; of_total: further columns of the whole (level total).

    total_ns: time of everything in the base.
    """
    category_pct = _category_launches(changes)
    rows = [
        _fact(one, category_pct.get(one.category or "")) | {"sampled": sampled} for one in changes
    ]
    for row, one in zip(rows, changes, strict=True):
        if one.level == "total":
            row.update(of_total)
        row["total_pct"] = one.delta_ns / total_ns * 100 if one.delta_ns and total_ns else None
    names = tuple(entry.name for entry in COMPARE_COLUMNS)
    return Subjects(Facts.of(tuple(rows), names), [one.name for one in changes])


def _fact(one: Change, category_pct: float | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "level": one.level,
        "verdict": one.verdict,
        "category": one.category,
        "samples_base": one.base.samples,
        "samples_head": one.head.samples,
        "time_ns": one.slower_ns,
        "base_ns": one.base.median_ns,
        "head_ns": one.head.median_ns,
        "delta_ns": one.delta_ns,
        "delta_pct": None if one.ratio is None or one.delta_ns is None else (one.ratio - 1) * 100,
        "share_pct": _pct(one.share),
        "p_value": one.p,
        "noise_pct": _pct(one.noise),
        "detectable_pct": _pct(one.detectable),
        "speed_ns": one.speed_ns,
        "mix_ns": one.mix_ns,
        "launches_base": one.base.launches,
        "launches_head": one.head.launches,
        "call_base_ns": one.base.call_ns,
        "call_head_ns": one.head.call_ns,
        "category_launches_pct": category_pct,
    }
    if one.pair is None:
        return row
    row |= {
        "matched_by": one.pair.by,
        "kernel_base": _short(one.pair.base[0].kernel) if one.pair.base else None,
    }
    if len(one.pair.base) == len(one.pair.head) == 1:
        row |= _launch_facts(one.pair.base[0], "base") | _launch_facts(one.pair.head[0], "head")
        metrics = one.pair.head[0].metrics
        row |= {name: metrics.get(name) for name in ("dram_peak_bytes_per_s", "flop_peak_per_s")}
    return row


def _short(name: str) -> str:
    return short_names([name], _NAME_WIDTH)[name]


def _launch_facts(group: KernelGroup, side: str) -> dict[str, Any]:
    metrics = group.metrics
    found: dict[str, Any] = {
        f"{column}_{side}": next((metrics[name] for name in names if name in metrics), None)
        for column, names in _PER_LAUNCH.items()
    }
    limits = [float(metrics[name]) for name in _BLOCK_LIMITS if name in metrics]
    found[f"resident_blocks_{side}"] = min(limits, default=None)
    judged = group.primary_class != "not-evaluable"
    found[f"class_{side}"] = group.primary_class if judged else None
    return found


def _category_launches(changes: Sequence[Change]) -> dict[str, float]:
    """Change of the launches of each category, %."""
    return {
        one.name: (one.head.launches / one.base.launches - 1) * 100
        for one in changes
        if one.level == "category" and one.base.launches and one.head.launches is not None
    }
