"""Findings on memory name the line: a real report of a Triton kernel, whose accesses are as good as they
can be, with the counts of one line made bad. No real report with lines has bad ones.

The kernel loads at the lines of ``standard.py`` and ``silu-triton.py`` and stores at
``silu-triton.py:157``, by eight instructions with 2,097,152 sectors each.
"""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import traceroof
from tests.parsers import ncu_wire as wire
from tests.parsers.test_nsight_compute_report import WRITTEN, sized
from traceroof.diagnosis.findings import Finding
from traceroof.ingest.messages import messages

_REPORT = (
    Path(__file__).parents[3]
    / "shared/corpus/ncu_rep/AlpriElse__cs599k__silu-2025-04-18-v7.ncu-rep"
)
_WRITE = messages("tests.ncu_memory", WRITTEN)
_SECTORS = "memory_l2_theoretical_sectors_global"
_WAVEFRONTS = "memory_l1_wavefronts_shared"
_PIPE = "l1tex__data_pipe_lsu_wavefronts_mem_shared"
_EACH = 2_097_152

Metrics = dict[str, Any]


def changed(change: Callable[[Metrics], None]) -> bytes:
    """The report, with the metrics of the Triton kernel changed."""
    data = _REPORT.read_bytes()
    (length,) = struct.unpack_from("<I", data, 4)
    blocks = list(wire._blocks(data))
    tables = [table for header, _ in blocks for table in wire.every(header, 4)]
    names = [name.decode() for table in tables for name in wire.every(table, 1)]
    out = [data[: 8 + length]]
    for header, payload in blocks:
        head = _WRITE["BlockHeader"].FromString(header)
        parts = list(wire._sized(payload))
        for at in range(head.sources, head.sources + head.results):
            result = _WRITE["Result"].FromString(parts[at])
            if b"silu" in result.function:
                change({names[one.name]: one for one in result.metrics})
            parts[at] = result.SerializeToString()
        body = b"".join(map(sized, parts))
        head.payload = len(body)
        out += [sized(head.SerializeToString()), body]
    return b"".join(out)


def finding(folder: Path, rule: str, change: Callable[[Metrics], None]) -> Finding:
    file = folder / "silu.ncu-rep"
    file.write_bytes(changed(change))
    found = traceroof.diagnose(traceroof.read(file)).findings
    [one] = [one for one in found if one.rule == rule and one.state == "fired"]
    return one


def _put(metric: Any, value: float) -> None:
    metric.value.Clear()
    metric.value.real = value


def _plain(metric: Any, value: float) -> None:
    """A value that the report also lists by number."""
    metric.ClearField("instances")
    _put(metric, value)


def _stores(metrics: Metrics) -> list[Any]:
    """Program counters and counts of the stores: the second half of the accesses."""
    return sorted(metrics[_SECTORS].instances, key=lambda one: int(one.at.whole))[4:]


@pytest.mark.corpus
def test_a_store_with_a_stride_is_named(tmp_path: Path) -> None:
    """GIVEN stores that move 8 sectors where 1 is needed THEN the line of the store is named, with the
    ratio of its sectors and all of the excess."""

    def strided(metrics: Metrics) -> None:
        for one in _stores(metrics):
            one.value.whole = 8 * _EACH
        metrics[_SECTORS].value.whole = (4 + 4 * 8) * _EACH
        for end in ("", "_lookup_miss"):
            _put(metrics[f"l1tex__t_sectors_pipe_lsu_mem_global_op_st{end}.sum"], 32 * _EACH)
        _put(metrics["smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio"], 32 / 8)

    found = finding(tmp_path, "uncoalesced-global", strided)
    assert [one.place for one in found.lines] == ["silu-triton.py:157"]
    assert found.where.source == "silu-triton.py:157"
    assert found.because.endswith(
        "silu-triton.py:157 moves 8.0 × what its accesses need: 100.0 % of the excess"
    )


@pytest.mark.corpus
def test_a_spill_is_named(tmp_path: Path) -> None:
    """GIVEN stores that go to local memory THEN their line is named with all local sectors."""

    def spilled(metrics: Metrics) -> None:
        local = metrics["memory_l2_theoretical_sectors_local"]
        for one in _stores(metrics):
            local.instances.add().CopyFrom(one)
        _put(local, 4 * _EACH)
        for end in ("requests", "sectors"):
            _put(metrics[f"l1tex__t_{end}_pipe_lsu_mem_local_op_st.sum"], 4 * _EACH)
        _put(metrics["smsp__sass_inst_executed_op_local_st.sum"], 4 * _EACH)
        # All that blocks of 1,024 threads allow.
        _plain(metrics["launch__registers_per_thread"], 64)

    found = finding(tmp_path, "register-spill", spilled)
    assert [one.place for one in found.lines] == ["silu-triton.py:157"]
    assert found.because.endswith("moves 100.0 % of the local-memory sectors")


@pytest.mark.corpus
def test_a_bank_conflict_is_named(tmp_path: Path) -> None:
    """GIVEN loads of shared memory that take 4 passes each where 1 is needed THEN their line is named."""

    def colliding(metrics: Metrics) -> None:
        for name, passes in ((_WAVEFRONTS, 4), (f"{_WAVEFRONTS}_ideal", 1)):
            for one in _stores(metrics):
                listed = metrics[name].instances.add()
                listed.CopyFrom(one)
                listed.value.whole = passes * _EACH
            _put(metrics[name], 4 * passes * _EACH)
        _plain(metrics["launch__shared_mem_per_block_dynamic"], 16_384)
        _put(metrics[f"{_PIPE}.sum.pct_of_peak_sustained_elapsed"], 80)
        _put(metrics["gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"], 20)
        _put(metrics["l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"], 12 * _EACH)
        _put(metrics["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"], 12 * _EACH)
        _put(metrics[f"{_PIPE}.sum"], 16 * _EACH)
        _put(metrics[f"{_PIPE}_op_ld.sum"], 16 * _EACH)
        _put(metrics["smsp__sass_inst_executed_op_shared_ld.sum"], 4 * _EACH)

    found = finding(tmp_path, "smem-bank-conflict", colliding)
    assert [one.place for one in found.lines] == ["silu-triton.py:157"]
    assert found.because.endswith("takes 4.0 × what its accesses need: 100.0 % of the excess")
