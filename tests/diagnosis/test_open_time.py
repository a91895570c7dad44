"""Kernels that nothing explains: which are named, what usually limits them, what would tell."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import traceroof
from traceroof.core.facts import Facts
from traceroof.diagnosis.diagnosis import KernelGroup, KernelGroups
from traceroof.diagnosis.findings import NotJudged
from traceroof.diagnosis.open_time import open_time
from traceroof.diagnosis.savings import Pool, pool_of
from traceroof.timeline import Timeline

ASKED = NotJudged("the class of 3 kernels", ("dram_pct",), ("class",), "ncu …")
_UNKNOWN = ("not-evaluable",) * 3


def groups(classes: tuple[str, ...] = _UNKNOWN, **more: list[Any]) -> KernelGroups:
    given: dict[str, list[Any]] = {
        "primary_class": list(classes),
        "by_counters": [0.0] * len(classes),
        **more,
    }
    columns = {
        name: np.array(values, dtype=object if isinstance(values[0], str) else np.float64)
        for name, values in given.items()
    }
    facts = Facts(columns, len(classes))

    def make(row: int) -> KernelGroup:
        return KernelGroup(
            kernel=f"k{row}", category="", primary_class=classes[row], launches=1, time_ns=0,
            share=None, median_ns=None, mad_ns=None, grid=None, block=None, operator=None,
            metrics={}, roofline=None, vendor=(), number=row + 1,
        )  # fmt: skip

    return KernelGroups(facts, [f"k{row}" for row in range(len(classes))], [()] * 3, make)


def pool(*categories: str) -> Pool:
    """Three kernels of 60, 36 and 4 µs."""
    return pool_of(np.array([60e3, 36e3, 4e3]), categories, ())


@pytest.mark.parametrize(
    ("categories", "topic", "title", "because"),
    [
        (
            ("gemm", "gemm", "norm"),
            "gemm-efficiency",
            "Matrix products hold most of the time: record their counters",
            (
                "2 gemm kernels take 96 µs, 96.0 % of the kernel time (#1 60.0 %, #2 36.0 %); without "
                "counters or shapes their limit is unknown. Large products are usually limited by the "
                "matrix units, those of few rows by device memory"
            ),
        ),
        (
            ("attention", "gemm", "norm"),
            "attention-kernel",
            "Attention kernels hold most of the time: record their counters",
            (
                "one attention kernel takes 60 µs, 60.0 % of the kernel time (#1); without counters or "
                "shapes their limit is unknown. Attention over many queries is usually limited by "
                "compute, in decoding by device memory"
            ),
        ),
        (
            ("layout", "layout", "layout"),
            "not-enough-metrics",
            "Layout kernels hold most of the time: record their counters",
            (
                "3 layout kernels take 100 µs, 100.0 % of the kernel time (#1 60.0 %, #2 36.0 %); "
                "without counters or shapes their limit is unknown. Such kernels compute little per "
                "byte: device memory is their likely limit"
            ),
        ),
        (
            ("other", "other", "gemm"),
            "not-enough-metrics",
            "Kernels hold most of the time: record their counters",
            (
                "2 kernels take 96 µs, 96.0 % of the kernel time (#1 60.0 %, #2 36.0 %); without "
                "counters or shapes their limit is unknown"
            ),
        ),
    ],
)
def test_the_category_with_most_of_the_time_is_named(
    categories: tuple[str, ...], topic: str, title: str, because: str
) -> None:
    found = open_time(groups(), pool(*categories), ASKED)
    assert found is not None
    assert (found.finding.topic, found.finding.title) == (topic, title)
    assert found.finding.because == because
    assert (found.rows, found.finding.time_saved_bound_ns) == ((0, 1, 2), None)


def test_where_no_category_has_half_of_it_kernels_are_named_as_such() -> None:
    """GIVEN 45, 36 and 19 µs of three kinds."""
    times = np.array([45e3, 36e3, 19e3])
    found = open_time(groups(), pool_of(times, ("gemm", "norm", "layout"), ()), ASKED)
    assert found is not None
    assert found.finding.topic == "not-enough-metrics"
    assert "3 kernels take 100 µs, 100.0 % of the kernel time (#1 45.0 %" in found.finding.because


def test_beside_a_timeline_shares_are_of_the_wall_time() -> None:
    """GIVEN 96 µs of products in a wall time of 200 µs, as the heading of the advice has it."""
    line = Timeline(
        rank=None, process=1, device=0, sources=(0,), start_ns=0, span_ns=200_000, busy_ns=100_000,
        idle_ns=100_000, compute_ns=100_000, communication_ns=0, exposed_communication_ns=0,
        memcpy_ns=0, exposed_memcpy_ns=0, idle_by_cause={"host": 100_000},
    )  # fmt: skip
    kinds = pool_of(np.array([60e3, 36e3, 4e3]), ("gemm", "gemm", "norm"), (line,))
    found = open_time(groups(), kinds, ASKED)
    assert found is not None
    assert found.finding.because.startswith(
        "2 gemm kernels take 96 µs, 48.0 % of the wall time (#1 30.0 %, #2 18.0 %)"
    )


@pytest.mark.parametrize(
    ("vector", "dtype", "topic"),
    [
        ([1.0, np.nan, 1.0], ["bf16", "bf16", "bf16"], "memory-bandwidth-decode"),
        ([np.nan, 1.0, 1.0], ["bf16", "bf16", "bf16"], "gemm-efficiency"),
        ([1.0, 1.0, 1.0], ["fp64", "fp64", "bf16"], "gemm-efficiency"),
    ],
)
def test_products_with_a_vector_are_limited_by_memory(
    vector: list[float], dtype: list[str], topic: str
) -> None:
    """64 of 100 µs are products of 16-bit operands with a vector; 40; 4."""
    kernels = groups(name_no_matrix=vector, name_dtype=dtype)
    found = open_time(kernels, pool("gemm", "gemm", "gemm"), ASKED)
    assert found is not None
    assert found.finding.topic == topic
    by_vector = "Products with a vector read each weight once" in found.finding.because
    # In any type such a product reads each weight once; in narrow ones it is decoding.
    assert by_vector == (vector[0] == 1.0)


def test_what_has_a_class_is_explained() -> None:
    found = open_time(
        groups(("dram-bound", "not-evaluable", "not-evaluable")),
        pool("norm", "gemm", "gemm"),
        ASKED,
    )
    assert found is not None
    assert found.rows == (1, 2)
    assert found.finding.because.startswith("2 gemm kernels take 40 µs, 40.0 % of the kernel time")


def test_nothing_is_said_where_all_is_known_or_counters_speak_for_themselves() -> None:
    kinds = pool("gemm", "gemm", "gemm")
    assert open_time(groups(("dram-bound",) * 3), kinds, ASKED) is None
    assert open_time(groups(), kinds, None) is None
    assert open_time(groups(by_counters=[1.0, 0.0, 0.0]), kinds, ASKED) is None


def test_the_fix_is_a_command_where_a_tool_has_one() -> None:
    kinds = pool("gemm", "gemm", "gemm")
    with_tool = open_time(groups(), kinds, ASKED)
    without = open_time(groups(), kinds, NotJudged("the class", (), ("class",), None))
    assert with_tool is not None
    assert with_tool.finding.fix.startswith("Collect what the command under 'Not judged' collects")
    assert without is not None
    assert without.finding.fix.startswith("No tool that is known here collects counters")


def test_a_known_cause_comes_before_what_is_not_known(tmp_path: Path) -> None:
    """GIVEN 96 % of the time in a product that Tensile compiled from source code for any GPU, of which no
    figure tells what a tuned one would take THEN that comes first, the counters after it."""
    file = tmp_path / "results.stats.csv"
    file.write_text(
        '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n'
        '"Cijk_Ailk_Bljk_BBS_BH_MT128x32x16_SN_GSU1_ISA000_IU1_K1_KLS_LPA0.kd",20,960000000,48000000,96.0\n'
        '"im2col.kd",20,40000000,2000000,4.0\n'
    )
    found = traceroof.diagnose(file, calibrated=False)
    assert [one.lead.rule for one in found.advice] == [
        "fallback-kernel",
        "im2col-traffic",
        "time-without-a-reason",
    ]


def test_products_of_quantised_weights_with_a_vector_are_decoding(tmp_path: Path) -> None:
    """GIVEN ggml's product of 4-bit weights with a vector on a known GPU THEN its bytes are the likely
    limit; 16 bits would be more of them."""
    file = tmp_path / "sums_cuda_gpu_kern_sum.csv"
    file.write_text(
        "Time (%),Total Time (ns),Instances,Avg (ns),Name\n"
        '100.0,700000000,28000,25000,"void mul_mat_vec_q<(ggml_type)12, (int)1, (bool)0>'
        '(const void *, const void *, const int *, float *, unsigned int)"\n'
    )
    (only,) = traceroof.diagnose(file, device="RTX-4090", calibrated=False).advice
    assert only.topic == "memory-bandwidth-decode"
    assert only.because.endswith("device memory is their likely limit")
