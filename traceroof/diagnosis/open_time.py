"""The time of kernels that nothing explains: which hold it, what usually limits such kernels, and
what would tell. It is the honest first advice where the kernels are the limit and the file has neither
counters nor shapes."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from traceroof.core.tracing import one_of
from traceroof.core.units import percent, quantity
from traceroof.diagnosis.diagnosis import KernelGroups
from traceroof.diagnosis.findings import Finding, NotJudged
from traceroof.diagnosis.nothing_to_gain import OPEN, OpenTime
from traceroof.diagnosis.savings import Pool

# A category is named where it holds this part of the time.
_MOST = 0.5
# Few kernels are named; those with less of the time than this are not.
_NAMED, _WORTH_NAMING = 3, 0.05

#: By category: what an expert would look into first. Others lack the metrics to say.
_TOPICS: Mapping[str, str] = {
    "gemm": "gemm-efficiency",
    "conv": "gemm-efficiency",
    "attention": "attention-kernel",
}
#: Where most are products of 16-bit or narrower operands with a vector.
_DECODE, _NARROW = "memory-bandwidth-decode", ("fp4", "fp8", "int8", "bf16", "fp16")
_PRODUCTS = (
    "Large products are usually limited by the matrix units, those of few rows by device memory"
)
_BYTES = "Such kernels compute little per byte: device memory is their likely limit"
_LIKELY: Mapping[str, str] = {
    "gemm": _PRODUCTS,
    "conv": _PRODUCTS,
    "attention": (
        "Attention over many queries is usually limited by compute, in decoding by device memory"
    ),
    **dict.fromkeys(
        ("elementwise", "layout", "norm", "softmax", "reduction", "pooling", "optimizer",
         "embedding", "quantize"),
        _BYTES,
    ),
}  # fmt: skip
_VECTOR = "Products with a vector read each weight once: device memory is their likely limit"


def open_time(kernels: KernelGroups, pool: Pool, asked: NotJudged | None) -> OpenTime | None:
    """What to say of kernels that a timeline lists and nothing explains; None where there are none,
    or where a counter tool was pointed at some: then the rules on metrics speak.

    kernels: most time first, as the first cells of ``pool``. asked: the command that would tell.
    """
    rows = kernels.of_class("not-evaluable")
    if not rows or asked is None or (kernels.facts.by_counters == 1).any():
        return None
    times = pool.capacity[: len(kernels)]
    by_category: dict[str, float] = {}
    for row in rows:
        name = str(pool.category[row])
        by_category[name] = by_category.get(name, 0.0) + float(times[row])
    most = max(by_category, key=lambda name: by_category[name])
    whole = sum(by_category.values())
    category = most if by_category[most] >= _MOST * whole else ""
    meant = [row for row in rows if category in ("", pool.category[row])]
    time = sum(float(times[row]) for row in meant)
    vectors = category == "gemm" and _vectors(kernels, meant, times)
    decodes = vectors and _vectors(kernels, meant, times, *_NARROW)
    said = Finding(
        rule=OPEN,
        topic=_DECODE if decodes else _TOPICS.get(category, "not-enough-metrics"),
        title=f"{_subject(category)} hold most of the time: record their counters",
        state="fired",
        scope="run",
        subject="run",
        subject_index=None,
        severity="info",
        confidence=0.9,
        kind="hard",
        role="cause",
        time_saved_bound_ns=None,
        time_saved_likely_ns=None,
        because=(
            f"{_one_of(len(meant), category)} {quantity(time, 'ns')}, "
            f"{percent(time / pool.whole_ns if pool.whole_ns else None)} of the {_whole(pool)}"
            f"{_named(kernels, meant, pool)}; without counters or shapes their limit is unknown"
            f"{_likely(category, vectors)}"
        ),
        fix=_fix(asked),
        refute="",
    )
    return OpenTime(tuple(rows), said)


def _subject(category: str) -> str:
    words = {"gemm": "Matrix products", "conv": "Convolutions", "attention": "Attention kernels"}
    if category in ("", "other"):
        return "Kernels"
    return words.get(category, f"{category[:1].upper()}{category[1:]} kernels")


def _whole(pool: Pool) -> str:
    """What the shares of the advice are of."""
    return "wall time" if pool.reference is not None else "kernel time"


def _one_of(number: int, category: str) -> str:
    kind = f"{category} " if category not in ("", "other") else ""
    return f"one {kind}kernel takes" if number == 1 else f"{number:,} {kind}kernels take"


def _named(kernels: KernelGroups, meant: Sequence[int], pool: Pool) -> str:
    """The kernels of the table that hold most of it: ``#1 alone 40.0 %``."""
    if len(meant) == 1:
        return f" (#{kernels[meant[0]].number})"
    shares = [(row, float(pool.capacity[row]) / max(pool.whole_ns, 1)) for row in meant]
    most = [(row, share) for row, share in shares if share >= _WORTH_NAMING][:_NAMED]
    told = ", ".join(f"#{kernels[row].number} {percent(share)}" for row, share in most)
    return f" ({told})" if told else ""


def _vectors(
    kernels: KernelGroups, meant: Sequence[int], times: npt.NDArray[np.float64], *dtypes: str
) -> bool:
    """Whether most of the time of these products is that of ones with a vector, of these types (by
    default all)."""
    if not {"name_no_matrix", "name_dtype"} <= set(kernels.facts.names()):
        return False
    at = np.asarray(meant, dtype=np.int64)
    vector = kernels.facts.name_no_matrix[at] == 1
    if dtypes:
        vector &= one_of(kernels.facts.name_dtype[at], *dtypes)
    return bool(times[at][vector].sum() >= _MOST * times[at].sum())


def _likely(category: str, vectors: bool) -> str:
    said = _VECTOR if vectors else _LIKELY.get(category, "")
    return f". {said}" if said else ""


def _fix(asked: NotJudged) -> str:
    if asked.command is None:
        return (
            "No tool that is known here collects counters on this GPU. Count the bytes and "
            "operations of one launch from its source, and hold them against the peaks."
        )
    return (
        "Collect what the command under 'Not judged' collects, and diagnose both files together. "
        "Until then, check whether these launches must run as often and move as many bytes."
    )
