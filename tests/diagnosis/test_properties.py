"""What holds for every diagnosis, on random kernel tables: evidence, bounds, order, scale."""

import json
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.runs import recording
from traceroof.core.kernel_table import COLUMNS, SOURCES
from traceroof.core.recording import DeviceInfo
from traceroof.diagnosis.diagnose import diagnose
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.diagnosis.findings import Finding
from traceroof.scopes.subjects import vocabulary

NAMES = (
    "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn",
    "ampere_sgemm_128x64_nn",
    "void vectorized_elementwise_kernel<4, CUDAFunctor_add<float>>(int)",
    "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 64, 64, 4>>(Flash_fwd_params)",
    "void cunn_SoftMaxForward<8, float, float, float>(float*, float*, int)",
    "void layer_norm_grad_input_kernel<float, float>(float const*)",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
    "Cijk_Alik_Bljk_BBS_BH_MT128x128x64_MI16x16x16x1_SN_LDSB1",
    "my_own_kernel",
)

DEVICES = (
    None,
    DeviceInfo(name="NVIDIA A100-SXM4-80GB", index=0, sm_count=108),
    DeviceInfo(name="AMD Instinct MI300X", index=0),
)

# Unit of a column -> the range its values are drawn from.
_RANGES: Mapping[str, tuple[int, int]] = {
    "%": (0, 99), "byte": (0, 10**10), "FLOP": (0, 10**12), "sector": (0, 10**7),
    "request": (0, 10**7), "wavefront": (0, 10**7), "inst": (1, 10**7), "byte/sector": (1, 32),
    "sector/request": (1, 32), "register/thread": (1, 255), "block/SM": (1, 32),
    "byte/block": (0, 200_000), "thread": (1, 32), "warp": (0, 16), "cycle": (1, 100),
    "byte/thread": (0, 512),
}  # fmt: skip

# Counters: what a profiler says of a launch besides its identity and its time.
COUNTERS = {
    entry.name: (0, 1) if entry.name.startswith(("stall_", "wait_", "issue_")) else
    _RANGES.get(entry.unit, (0, 1))
    for entry in COLUMNS
    if entry.group in ("utilisation", "traffic", "arithmetic", "launch", "scheduler", "balance")
    and str(entry.type) == "double"
    and entry.name not in ("sm_count", "warp_size")
}  # fmt: skip
PERCENTAGES = tuple(
    name for name in COUNTERS if name.endswith("_pct") or name.startswith(("stall_", "issue_"))
)


def value(limits: tuple[int, int], random: Random) -> float:
    """Never a round number, on which sums in another order could differ."""
    least, most = limits
    return least + (most - least) * (random.randrange(1000) + 0.37) / 1000.4


@st.composite
def tables(
    draw: st.DrawFn,
    *,
    counters: Sequence[str] = tuple(COUNTERS),
    durations: tuple[int, int] = (200, 50_000_000),
    launches: int = 40,
    shapes: bool = True,
) -> dict[str, list[Any]]:
    """Columns of a kernel table: some kernels, some launches of each, some of the counters."""
    kernels = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True))
    rows = [name for name in kernels for _ in range(draw(st.integers(1, 3)))]
    count = len(rows)
    # A hundred columns of numbers are quicker from a seed than one by one, and shrink as badly.
    random = Random(draw(st.integers(0, 2**32)))
    most = draw(st.sampled_from([0.1, 0.5, 0.9, 1.0]))
    chosen = [name for name in counters if random.random() < most]
    known = draw(st.sampled_from([0.7, 1.0]))

    def column(each: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(each, min_size=count, max_size=count))

    grids = {name: draw(st.integers(1, 5000)) for name in kernels}
    return {
        "kernel_name": rows,
        # Distinct times: which of two equal kernels is the larger one is nobody's matter.
        "duration_ns": draw(
            st.lists(st.integers(*durations), min_size=count, max_size=count, unique=True)
        ),
        "launch_count": column(st.integers(1, launches)),
        "grid_x": [grids[name] for name in rows],
        "block_x": [256] * count,
        "device": [0] * count,
        # A reader that knows the use of a pipe knows what it is measured against.
        "pipe_basis": [draw(st.sampled_from(["elapsed", "active"]))] * count,
        **(_operators(rows, random) if shapes and draw(st.booleans()) else {}),
        **{
            name: [value(COUNTERS[name], random) if random.random() < known else None for _ in rows]
            for name in chosen
        },
    }


def _operators(rows: Sequence[str], random: Random) -> dict[str, list[Any]]:
    """The framework's call behind each kernel, one shape a kernel: products and additions. No two
    kernels share a shape: neighbours that do are taken for one call, and that depends on the order."""
    calls, sizes = {}, [1, 7, 64, 1000, 4096]
    kernels = list(dict.fromkeys(rows))
    for name, m in zip(kernels, random.sample(sizes, len(kernels)), strict=True):
        n, k = random.choice(sizes), random.choice(sizes)
        product = "gemm" in name or "Cijk" in name
        calls[name] = (
            ("aten::mm", [[m, k], [k, n]]) if product else ("aten::add", [[m, n], [m, n], []])
        )
    return {
        "operator": [calls[name][0] for name in rows],
        "input_shapes": [json.dumps(calls[name][1]) for name in rows],
        "input_dtypes": [json.dumps(["c10::Half"] * len(calls[name][1])) for name in rows],
    }


def diagnosed(
    columns: Mapping[str, Sequence[Any]], device: DeviceInfo | None, **more: Any
) -> Diagnosis:
    devices = () if device is None else (device,)
    return diagnose(recording(dict(columns), devices=devices, **more))


def on_a_timeline(columns: dict[str, list[Any]], gap_ns: int) -> dict[str, list[Any]]:
    """The same launches one after another, each launched 10 µs before it starts."""
    starts, at = [], 1_000_000
    for duration in columns["duration_ns"]:
        starts.append(at)
        at += duration + gap_ns
    count = len(starts)
    return {
        **columns,
        "launch_count": [1] * count,
        "start_ns": starts,
        "host_launch_ns": [start - 10_000 for start in starts],
        "host_launch_duration_ns": [4_000] * count,
        "stream": [7] * count,
    }


RUNS = st.one_of(
    tables().map(lambda columns: (columns, {"time_basis": "counter-tool"})),
    st.tuples(tables(), st.sampled_from([0, 3_000, 60_000, 2_000_000])).map(
        lambda drawn: (on_a_timeline(*drawn), {"time_basis": "timeline"})
    ),
)
some_device = st.sampled_from(DEVICES)
#: A whole diagnosis an example, on a machine that has other things to do.
thorough = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


def times_of(diagnosis: Diagnosis, finding: Finding) -> int | None:
    """The time of a finding's subject: nothing can save more."""
    place = finding.subject_index
    assert place is not None
    if finding.scope == "kernel":
        return diagnosis.kernels[place].time_ns
    if finding.scope == "category":
        return diagnosis.categories[place].time_ns
    if finding.scope == "timeline":
        return diagnosis.timelines[place].span_ns
    return diagnosis.totals.span_ns or diagnosis.totals.kernel_time_ns


@thorough
@given(RUNS, some_device)
def test_every_finding_has_evidence(run: tuple[Any, Any], device: DeviceInfo | None) -> None:
    """Rows with a value, a unit, an origin; a percentage with what it is of; and what one of them
    at least was held against."""
    columns, how = run
    for finding in diagnosed(columns, device, **how).findings:
        if finding.state == "not-evaluable":
            assert finding.missing
            continue
        known = vocabulary(finding.scope)
        assert finding.evidence, finding.rule
        assert any(one.threshold for one in finding.evidence), finding.rule
        for one in finding.evidence:
            assert one.value is not None
            assert one.unit == known[one.metric].unit
            assert one.source in SOURCES
            assert one.basis or one.unit != "%", (finding.rule, one.metric)


@thorough
@given(RUNS, some_device)
def test_bounds_are_within_what_they_speak_of(
    run: tuple[Any, Any], device: DeviceInfo | None
) -> None:
    """No bound is negative or above the subject's time, none likelier than possible, and the sum
    of the advice is no more than the time of the run."""
    columns, how = run
    diagnosis = diagnosed(columns, device, **how)
    for finding in diagnosis.findings:
        bound, likely = finding.time_saved_bound_ns, finding.time_saved_likely_ns
        if bound is None:
            assert likely is None
            continue
        assert 0 <= (likely or 0) <= bound
        whole = times_of(diagnosis, finding)
        assert whole is not None
        assert bound <= whole + 1  # rounded to whole nanoseconds
        assert 0 < finding.confidence <= 1
    totals = diagnosis.totals
    assert 0 <= (totals.time_saved_likely_ns or 0) <= (totals.time_saved_bound_ns or 0)
    # Of a timeline its wall time, idle time included; else the time of the kernels.
    whole = totals.wall_ns or totals.kernel_time_ns
    assert (totals.time_saved_bound_ns or 0) <= whole + 1


def said(diagnosis: Diagnosis) -> dict[tuple[str, str, str], tuple[Any, ...]]:
    """What the findings say, without the order that they come in."""
    return {
        (one.rule, one.subject, one.state): (
            one.severity, one.confidence, one.time_saved_bound_ns, one.time_saved_likely_ns,
            one.near_threshold and one.near_threshold.metric,
        )
        for one in diagnosis.findings
        if one.state != "not-evaluable"
    }  # fmt: skip


@thorough
@given(RUNS, some_device, st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(
    run: tuple[Any, Any], device: DeviceInfo | None, random: Any
) -> None:
    columns, how = run
    order = list(range(len(columns["kernel_name"])))
    random.shuffle(order)
    other = {name: [column[row] for row in order] for name, column in columns.items()}
    ours, theirs = diagnosed(columns, device, **how), diagnosed(other, device, **how)
    assert [(one.kernel, one.primary_class) for one in ours.kernels] == [
        (one.kernel, one.primary_class) for one in theirs.kernels
    ]
    assert said(ours).keys() == said(theirs).keys()
    for finding, figures in said(ours).items():
        for one, other_one in zip(figures, said(theirs)[finding], strict=True):
            # Sums in another order differ in the last digits, and then by a nanosecond.
            equal = isinstance(one, int | float) and one == pytest.approx(
                other_one, rel=1e-9, abs=1
            )
            assert one == other_one or equal, finding


@thorough
@given(
    tables(counters=PERCENTAGES, durations=(10_000_000, 90_000_000), launches=1, shapes=False),
    st.sampled_from(DEVICES[:2]),
    st.integers(2, 9),
)
def test_all_times_times_k_give_all_bounds_times_k(
    columns: dict[str, list[Any]], device: DeviceInfo | None, factor: int
) -> None:
    """GIVEN kernels of 10 ms and more with percentages alone: bytes over a longer time would be
    another rate. Then no limit in µs or ms is crossed (5 µs of a short launch, 100 ms of a short
    run is a matter of confidence alone), and only the floor of 2 µs a launch that a bound leaves
    does not grow with the times."""
    ours = diagnosed(columns, device, time_basis="counter-tool")
    scaled = {**columns, "duration_ns": [one * factor for one in columns["duration_ns"]]}
    theirs = diagnosed(scaled, device, time_basis="counter-tool")

    def bounds(found: Diagnosis) -> dict[tuple[str, str], int]:
        return {
            (one.rule, one.subject): one.time_saved_bound_ns
            for one in found.findings
            if one.state in ("fired", "suppressed") and one.time_saved_bound_ns is not None
        }

    before, after = bounds(ours), bounds(theirs)
    launches = len(columns["kernel_name"])
    share = max(after.values(), default=0) and 0.005 * theirs.totals.kernel_time_ns
    for one in before.keys() ^ after.keys():
        # Hidden below 0.5 % of the run on one side, by no more than the floor.
        found = before.get(one, after.get(one, 0)) * (factor if one in before else 1)
        assert found == pytest.approx(share, abs=2_000 * launches * factor)
    for one in before.keys() & after.keys():
        assert after[one] == pytest.approx(before[one] * factor, abs=2_000 * launches * factor + 1)
    assert [one.primary_class for one in ours.kernels] == [
        one.primary_class for one in theirs.kernels
    ]
