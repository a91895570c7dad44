"""Counters to columns: the expression form, what unknown means, and every formula on small numbers."""

import math
import warnings
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceroof.core import kernel_table
from traceroof.parsers.amd.counter_book import architecture, book, parse
from traceroof.parsers.amd.counter_checks import without_contradicted_times, without_dead_counters
from traceroof.parsers.amd.counters import Derived, Pass, derive
from traceroof.parsers.amd.gpus import Gpu

# An MI300X: 304 compute units on 8 dies.
MI300X = Gpu(name="MI300X", arch="gfx942", pci_device_id=29857, cu=304, xcd=8, se=32, sclk_mhz=2100)
MI210 = Gpu(name="MI210", arch="gfx90a", pci_device_id=29711, cu=104, se=8, sclk_mhz=1700)
MI350 = Gpu(arch="gfx950", pci_device_id=30112, cu=256, xcd=8)
MI100 = Gpu(arch="gfx908", pci_device_id=29580, cu=120, se=8)
MI50 = Gpu(arch="gfx906", cu=60)
NAVI = Gpu(arch="gfx1100", cu=96)
HYGON = Gpu(arch="hygon")
UNKNOWN = Gpu()


def one(counters: Mapping[str, float], spent: float = 1_000, merged: bool = False) -> Pass:
    return Pass(
        "pass", {name: np.array([float(value)]) for name, value in counters.items()},
        np.array([float(spent)]), merged,
    )  # fmt: skip


def columns(gpu: Gpu, *passes: Pass | Mapping[str, float], spent: float = 1_000) -> Derived:
    """What one dispatch of 1,000 ns shows."""
    made = [each if isinstance(each, Pass) else one(each) for each in passes]
    return derive(made, gpu.arch, gpu.facts(), np.array([float(spent)]))


def value(
    gpu: Gpu, column: str, *passes: Pass | Mapping[str, float], spent: float = 1_000
) -> float:
    found = columns(gpu, *passes, spent=spent).columns.get(column)
    return float("nan") if found is None else float(found[0])


def metric(gpu: Gpu, name: str, *passes: Pass | Mapping[str, float]) -> float:
    found = [values for label, _, values in columns(gpu, *passes).metrics if label == name]
    return float(found[0][0]) if found else float("nan")


# --------------------------------------------------------------------------------------------
# Expressions


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("1 + 2 * A", ("+", 1.0, ("*", 2.0, "A"))),
        ("(1 + 2) * A", ("*", ("+", 1.0, 2.0), "A")),
        ("A - B - C", ("-", ("-", "A", "B"), "C")),
        ("max(A - B, 0)", ("max", ("-", "A", "B"), 0.0)),
        ("12.5 / A_sum", ("/", 12.5, "A_sum")),
    ],
)
def test_an_expression_becomes_a_tree(text: str, node: object) -> None:
    assert parse(text) == node


@pytest.mark.parametrize(
    "text", ["", "1 +", "A B", "(A", "max(A)", "A ** B", "__import__('os')", "A; B", "f(A)", "-A"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expression|expected"):
        parse(text)


@given(st.text(alphabet="AB019+-*/(), max_.", max_size=30))
def test_parsing_ends_in_a_tree_or_a_value_error(text: str) -> None:
    try:
        node = parse(text)
    except ValueError:
        return
    assert isinstance(node, float | str | tuple)


def test_every_formula_of_the_book_names_a_column_or_has_a_unit() -> None:
    names = {column.name for column in kernel_table.COLUMNS}
    targets = [formula.target for formula in book().formulas]
    assert len(targets) == len(set(targets)) > 40
    for formula in book().formulas:
        assert (formula.target in names) == (formula.unit is None), formula.target
        assert formula.kind in ("count", "ratio", "rate")
        assert formula.choices


def test_every_name_in_the_book_is_a_counter_a_fact_or_defined() -> None:
    facts = {*MI300X.facts(), "t"}
    known = facts | set(book().short) | {formula.target for formula in book().formulas}

    def check(node: object) -> None:
        if isinstance(node, tuple):
            check(node[1])
            check(node[2])
        elif isinstance(node, str) and node.islower():
            assert node in known, node

    for formula in book().formulas:
        for choice in formula.choices:
            check(choice.expression)


# --------------------------------------------------------------------------------------------
# Device memory (rocprofiler-sdk counter definitions)


def test_reads_of_cdna2() -> None:
    counters = {"TCC_EA_RDREQ_sum": 100, "TCC_EA_RDREQ_32B_sum": 40}
    # 40 requests of 32 bytes, 60 of 64.
    assert value(MI210, "dram_read_bytes", counters) == 40 * 32 + 60 * 64
    # MI100's data has either name.
    assert value(MI100, "dram_read_bytes", counters) == 40 * 32 + 60 * 64
    newer = {name.replace("TCC_EA_", "TCC_EA0_"): one for name, one in counters.items()}
    assert value(MI100, "dram_read_bytes", newer) == 40 * 32 + 60 * 64


def test_reads_of_mi50_need_both_ports() -> None:
    first = {"TCC_EA_RDREQ_sum": 100, "TCC_EA_RDREQ_32B_sum": 0}
    second = {"TCC_EA1_RDREQ_sum": 10, "TCC_EA1_RDREQ_32B_sum": 10}
    assert value(MI50, "dram_read_bytes", first | second) == 6_400 + 320
    assert np.isnan(value(MI50, "dram_read_bytes", first))


def test_reads_of_cdna3_count_lines_of_128_bytes() -> None:
    counters = {"TCC_BUBBLE_sum": 30, "TCC_EA0_RDREQ_sum": 100, "TCC_EA0_RDREQ_32B_sum": 20}
    assert value(MI300X, "dram_read_bytes", counters) == 30 * 128 + 20 * 32 + 50 * 64


def test_counters_of_two_passes_never_give_negative_bytes() -> None:
    counters = {"TCC_BUBBLE_sum": 90, "TCC_EA0_RDREQ_sum": 80, "TCC_EA0_RDREQ_32B_sum": 5}
    assert value(MI300X, "dram_read_bytes", counters) == 90 * 128 + 5 * 32


def test_mi350_never_uses_the_bubble_formula() -> None:
    silent = {"TCC_BUBBLE_sum": 0, "TCC_EA0_RDREQ_sum": 100, "TCC_EA0_RDREQ_32B_sum": 10}
    assert value(MI350, "dram_read_bytes", silent) == 90 * 128 + 10 * 32
    assert "estimated" in columns(MI350, silent).notes[0].text
    by_size = silent | {"TCC_EA0_RDREQ_64B_sum": 50, "TCC_EA0_RDREQ_128B_sum": 40}
    assert value(MI350, "dram_read_bytes", by_size) == 10 * 32 + 50 * 64 + 40 * 128
    exact = by_size | {"TCC_EA0_RDREQ_DRAM_32B_sum": 400}
    assert value(MI350, "dram_read_bytes", exact) == 400 * 32
    # Its FETCH_SIZE holds half the truth.
    assert np.isnan(value(MI350, "dram_read_bytes", {"FETCH_SIZE": 10}))


@pytest.mark.parametrize("arch", ["gfx1100", "gfx1030"])
def test_reads_of_rdna(arch: str) -> None:
    counters = {f"GL2C_EA_RDREQ_{size}B_sum": size // 32 for size in (32, 64, 96, 128)}
    assert value(Gpu(arch=arch), "dram_read_bytes", counters) == 32 + 128 + 288 + 512


def test_reads_of_rdna4_have_no_96_byte_counter() -> None:
    counters = {f"GL2C_EA_RDREQ_{size}B_sum": 1.0 for size in (32, 64, 128)}
    # What the sizes leave of all requests is 256 bytes long; without the total it is unknown.
    assert math.isnan(value(Gpu(arch="gfx1201"), "dram_read_bytes", counters))
    counters["GL2C_EA_RDREQ_sum"] = 4.0
    assert value(Gpu(arch="gfx1201"), "dram_read_bytes", counters) == 224 + 256
    assert np.isnan(value(NAVI, "dram_read_bytes", counters))


@pytest.mark.parametrize("name", ["FETCH_SIZE", "FetchSize"])
@pytest.mark.parametrize("gpu", [UNKNOWN, MI210, NAVI, MI300X])
def test_fetch_size_is_in_kilobytes(name: str, gpu: Gpu) -> None:
    assert value(gpu, "dram_read_bytes", {name: 2.5}) == 2_560


def test_fetch_size_is_not_believed_where_it_is_known_to_be_half() -> None:
    assert np.isnan(value(Gpu(arch="gfx1151"), "dram_read_bytes", {"FETCH_SIZE": 2.5}))


def test_writes() -> None:
    counters = {"TCC_EA0_WRREQ_sum": 100, "TCC_EA0_WRREQ_64B_sum": 75}
    for gpu in (MI300X, MI210, MI350, HYGON):
        assert value(gpu, "dram_write_bytes", counters) == 75 * 64 + 25 * 32
    exact = {"TCC_EA0_WRREQ_WRITE_DRAM_32B_sum": 8, "TCC_EA0_WRREQ_ATOMIC_DRAM_32B_sum": 2}
    assert value(MI350, "dram_write_bytes", counters | exact) == 320
    assert (
        value(NAVI, "dram_write_bytes", {"GL2C_EA_WRREQ_64B_sum": 3, "GL2C_MC_WRREQ_sum": 5}) == 256
    )
    assert value(MI210, "dram_write_bytes", {"WRITE_SIZE": 1}) == 1_024
    # gfx12 defines no WRITE_SIZE.
    assert np.isnan(value(Gpu(arch="gfx1200"), "dram_write_bytes", {"WRITE_SIZE": 1}))


def test_share_of_the_peak_takes_the_time_of_its_pass() -> None:
    # 5,300 GB/s for 500 ns are 2.65 MB; the dispatch itself took twice as long in the trace.
    counters = {"FETCH_SIZE": 2_650_000 / 1024 / 2, "WRITE_SIZE": 2_650_000 / 1024 / 2}
    assert metric(MI300X, "HBM bandwidth of peak", one(counters, spent=500)) == pytest.approx(100)
    # A pass without a duration falls back to the dispatch: 1,000 ns.
    untimed = one(counters, spent=float("nan"))
    assert metric(MI300X, "HBM bandwidth of peak", untimed) == pytest.approx(50)


def test_bytes_of_two_passes_are_combined() -> None:
    reads, small = {"TCC_EA_RDREQ_sum": 100}, {"TCC_EA_RDREQ_32B_sum": 40}
    assert value(MI210, "dram_read_bytes", reads, small) == 40 * 32 + 60 * 64


def test_instances_are_added_up_when_none_is_missing() -> None:
    whole = {f"TCC_EA_RDREQ[{place}]": 10.0 for place in range(16)}
    none_small = {f"TCC_EA_RDREQ_32B[{place}]": 0.0 for place in range(16)}
    assert value(MI210, "dram_read_bytes", whole | none_small) == 160 * 64
    assert value(HYGON, "dram_read_bytes", whole | none_small) == 160 * 64
    partial = {name: one for name, one in whole.items() if name != "TCC_EA_RDREQ[7]"}
    assert np.isnan(value(MI210, "dram_read_bytes", partial | none_small))
    # The sum that the tool made counts before the instances.
    assert value(MI210, "dram_read_bytes", whole | none_small | {"TCC_EA_RDREQ_sum": 1}) == 64


def test_local_share_of_the_reads() -> None:
    counters = {"TCC_EA0_RDREQ_sum": 100, "TCC_EA0_RDREQ_DRAM_sum": 75}
    assert value(MI300X, "remote_memory_pct", counters) == 25


# --------------------------------------------------------------------------------------------
# Caches, LDS, compute


def test_caches() -> None:
    assert value(UNKNOWN, "l2_hit_pct", {"TCC_HIT_sum": 30, "TCC_MISS_sum": 10}) == 75
    assert value(NAVI, "l2_hit_pct", {"GL2C_HIT_sum": 1, "GL2C_MISS_sum": 3}) == 25
    assert value(NAVI, "l2_hit_pct", {"L2CacheHit": 33.5}) == 33.5
    requests = {
        "TCP_TCC_READ_REQ_sum": 20, "TCP_TCC_WRITE_REQ_sum": 5,
        "TCP_TCC_ATOMIC_WITH_RET_REQ_sum": 0, "TCP_TCC_ATOMIC_WITHOUT_RET_REQ_sum": 0,
        "TCP_TOTAL_CACHE_ACCESSES_sum": 100,
    }  # fmt: skip
    assert value(MI210, "l1_hit_pct", requests) == 75
    assert value(MI210, "l1_bytes", requests) == 6_400
    # A lookup covers 64 bytes on MI300 too; a read fetches its line of 128, a write sends 64.
    assert value(MI300X, "l1_bytes", requests) == 6_400
    assert value(MI210, "l2_bytes", requests) == 25 * 64
    assert value(MI300X, "l2_bytes", requests) == 20 * 128 + 5 * 64


def test_l2_use_is_requests_of_channels_and_cycles() -> None:
    gpu = Gpu(arch="gfx90a", cu=104, sclk_mhz=1000, l2_channels=32)
    # 32 channels x 1,000 cycles (1,000 ns at 1 GHz) take 32,000 requests.
    assert value(gpu, "l2_throughput_pct", {"TCC_REQ_sum": 16_000}) == pytest.approx(50)


def test_lds() -> None:
    counters = {
        "SQ_LDS_IDX_ACTIVE": 1_000, "SQ_LDS_BANK_CONFLICT": 200, "SQ_INSTS_LDS": 250,
        "GRBM_GUI_ACTIVE": 800,
    }  # fmt: skip
    # 800 cycles without conflicts, 4 bytes from each of 32 banks.
    assert value(MI300X, "shared_bytes", counters) == 800 * 4 * 32
    assert value(MI300X, "shared_wavefronts", counters) == 1_000
    assert value(MI300X, "shared_conflicts", counters) == 200
    assert value(MI300X, "shared_requests", counters) == 250
    # 100 cycles of each die and 304 compute units.
    assert value(MI300X, "shared_memory_busy_pct", counters) == pytest.approx(100 * 1_000 / 30_400)
    assert metric(MI300X, "LDS conflicts per access", counters) == 0.25
    assert metric(MI300X, "LDS bandwidth", counters) == pytest.approx(800 * 128 / 1_000)
    rdna = {"SQC_LDS_IDX_ACTIVE": 10, "SQC_LDS_BANK_CONFLICT": 4}
    assert value(NAVI, "shared_conflicts", rdna) == 4


def test_cycles_are_divided_by_the_dies() -> None:
    counters = {"SQ_ACTIVE_INST_VALU": 1_520, "GRBM_GUI_ACTIVE": 80}
    # 10 cycles a die x 304 compute units = 3,040.
    assert value(MI300X, "pipe_valu_pct", counters) == pytest.approx(50)
    # Where the number of dies is not known, the cycles are not either.
    lonely = Gpu(arch="gfx942")
    assert np.isnan(value(lonely, "pipe_valu_pct", counters))


def test_units() -> None:
    counters = {
        "GRBM_GUI_ACTIVE": 80, "SQ_VALU_MFMA_BUSY_CYCLES": 6_080, "SQ_ACTIVE_INST_SCA": 304,
        "SQ_ACTIVE_INST_FLAT": 152, "SQ_ACTIVE_INST_VMEM": 152, "SQ_BUSY_CU_CYCLES": 2_432,
        "SQ_INSTS": 4_864, "SQ_THREAD_CYCLES_VALU": 320, "SQ_ACTIVE_INST_VALU": 10,
    }  # fmt: skip
    assert value(MI300X, "pipe_tensor_pct", counters) == pytest.approx(50)  # 6,080 / (3,040 x 4)
    assert value(MI300X, "pipe_uniform_pct", counters) == pytest.approx(10)
    assert value(MI300X, "pipe_lsu_pct", counters) == pytest.approx(10)
    assert value(MI300X, "cu_busy_pct", counters) == pytest.approx(80)
    assert value(MI300X, "ipc", counters) == pytest.approx(2)
    assert value(MI300X, "threads_per_instruction", counters) == 32
    # Undefined upstream on gfx908.
    assert np.isnan(value(MI100, "pipe_tensor_pct", counters))
    assert value(MI100, "pipe_tensor_pct", {"MfmaUtil": 12.0}) == 12
    assert value(NAVI, "pipe_valu_pct", {"VALUBusy": 40.0}) == 40


def test_flop_by_type() -> None:
    counters = {
        f"SQ_INSTS_VALU_{operation}_{kind}": float(number)
        for kind, number in (("F16", 1), ("F32", 2), ("F64", 3))
        for operation in ("ADD", "MUL", "TRANS", "FMA")
    }
    # 64 lanes, an FMA counts 2: 64 x 5 per instruction of each.
    assert value(MI210, "flop_fp16", counters) == 320
    assert value(MI210, "flop_fp32", counters) == 640
    assert value(MI300X, "flop_fp64", counters) == 960
    # gfx908 has no such counters; RDNA neither.
    assert np.isnan(value(MI100, "flop_fp32", counters))
    del counters["SQ_INSTS_VALU_FMA_F32"]
    assert np.isnan(value(MI210, "flop_fp32", counters))


MOPS = "SQ_INSTS_VALU_MFMA_MOPS_"


def test_matrix_operations() -> None:
    types = ("F64", "F32", "F16", "BF16", "F8", "I8")
    counters = {f"{MOPS}{kind}": 0.0 for kind in types} | {f"{MOPS}BF16": 7.0, f"{MOPS}F16": 3.0}
    found = columns(MI300X, counters)
    assert found.columns["flop_tensor"].tolist() == [512 * 10]
    assert found.tensor_dtype.tolist() == ["bf16"]
    # gfx90a has no FP8: nothing is missing.
    less = {name: one for name, one in counters.items() if not name.endswith("F8")}
    assert value(MI210, "flop_tensor", less) == 5_120
    # MI300X has: the total is unknown, the type of most of it is not.
    assert np.isnan(value(MI300X, "flop_tensor", less))
    assert columns(MI300X, less).tensor_dtype.tolist() == ["bf16"]
    idle = {f"{MOPS}{kind}": 0.0 for kind in types}
    assert value(MI300X, "flop_tensor", idle) == 0
    assert columns(MI300X, idle).tensor_dtype.tolist() == [None]


def test_occupancy() -> None:
    # 1,000 cycles x 104 compute units x 32 slots = 3,328,000 wave cycles at most.
    level = {"SQ_LEVEL_WAVES_ACCUM": 1_664_000, "GRBM_GUI_ACTIVE": 1_000}
    assert value(MI210, "achieved_occupancy_pct", level) == pytest.approx(50)
    quads = {"SQ_WAVE_CYCLES": 208_000, "GRBM_GUI_ACTIVE": 1_000}
    assert value(MI210, "achieved_occupancy_pct", quads) == pytest.approx(25)
    # The pass that adds up waves counts before the other formula.
    assert value(MI210, "achieved_occupancy_pct", quads, level) == pytest.approx(50)
    # RDNA does not count in fours.
    rdna = {"SQ_WAVE_CYCLES": 768_000, "GRBM_GUI_ACTIVE": 1_000}
    assert value(NAVI, "achieved_occupancy_pct", rdna) == pytest.approx(25)
    assert value(UNKNOWN, "achieved_occupancy_pct", {"OccupancyPercent": 12.5}) == 12.5


@pytest.mark.parametrize(
    ("column", "counter", "factor"),
    [
        ("insufficient_wave_slots_pct", "SPI_RA_WAVE_SIMD_FULL_CSN", 1),
        ("insufficient_vector_registers_pct", "SPI_RA_VGPR_SIMD_FULL_CSN", 1),
        ("insufficient_scalar_registers_pct", "SPI_RA_SGPR_SIMD_FULL_CSN", 1),
        ("insufficient_lds_pct", "SPI_RA_LDS_CU_FULL_CSN", 4),
        ("insufficient_barriers_pct", "SPI_RA_BAR_CU_FULL_CSN", 4),
        ("insufficient_workgroup_slots_pct", "SPI_RA_TGLIM_CU_FULL_CSN", 4),
    ],
)
def test_occupancy_limiters(column: str, counter: str, factor: int) -> None:
    counters = {counter: 104.0, "GRBM_GUI_ACTIVE": 10.0}
    assert value(MI210, column, counters) == pytest.approx(10 * factor)


def test_waits() -> None:
    counters = {
        "SQ_WAVE_CYCLES": 100, "SQ_WAIT_ANY": 59, "SQ_WAIT_INST_ANY": 34, "SQ_ACTIVE_INST_ANY": 7,
    }  # fmt: skip
    for gpu in (MI300X, MI210, HYGON):
        assert value(gpu, "wait_dependency", counters) == pytest.approx(0.59)
        assert value(gpu, "wait_issue", counters) == pytest.approx(0.34)
        assert value(gpu, "wave_issuing", counters) == pytest.approx(0.07)


# --------------------------------------------------------------------------------------------
# Passes, unknown, impossible


def test_a_ratio_never_mixes_two_passes() -> None:
    waits, cycles = {"SQ_WAIT_ANY": 50}, {"SQ_WAVE_CYCLES": 100}
    assert np.isnan(value(MI300X, "wait_dependency", waits, cycles))
    assert value(MI300X, "wait_dependency", waits | cycles) == 0.5


def test_a_merged_table_counts_where_no_pass_has_both() -> None:
    merged = one({"SQ_WAIT_ANY": 50, "SQ_WAVE_CYCLES": 100}, merged=True)
    single = one({"SQ_WAIT_ANY": 60, "SQ_WAVE_CYCLES": 100})
    assert value(MI300X, "wait_dependency", merged) == 0.5
    assert value(MI300X, "wait_dependency", merged, single) == 0.6


def test_each_pass_uses_its_own_cycles() -> None:
    first = {"GRBM_GUI_ACTIVE": 80, "SQ_BUSY_CU_CYCLES": 1_520}
    second = {"GRBM_GUI_ACTIVE": 160, "SQ_ACTIVE_INST_VALU": 1_520}
    assert value(MI300X, "cu_busy_pct", first, second) == pytest.approx(50)
    assert value(MI300X, "pipe_valu_pct", first, second) == pytest.approx(25)


def test_missing_is_not_zero() -> None:
    # Multiplexed counters: each dispatch has another one.
    counters = {
        "TCC_HIT_sum": np.array([30.0, np.nan]), "TCC_MISS_sum": np.array([10.0, np.nan]),
        "FETCH_SIZE": np.array([np.nan, 1.0]),
    }  # fmt: skip
    both = Pass("pass", counters, np.array([1_000.0, 1_000.0]))
    found = derive([both], "gfx942", MI300X.facts(), both.duration_ns).columns
    assert found["l2_hit_pct"].tolist()[0] == 75
    assert np.isnan(found["l2_hit_pct"][1])
    assert np.isnan(found["dram_read_bytes"][0])
    assert found["dram_read_bytes"][1] == 1_024


def test_nothing_over_nothing_is_unknown() -> None:
    assert np.isnan(value(MI300X, "l2_hit_pct", {"TCC_HIT_sum": 0, "TCC_MISS_sum": 0}))


def test_a_share_beyond_the_whole_is_not_believed() -> None:
    counters = {"SQ_BUSY_CU_CYCLES": 400_000, "GRBM_GUI_ACTIVE": 80}
    found = columns(MI300X, counters)
    assert "cu_busy_pct" not in found.columns
    assert "cu_busy_pct came out beyond" in found.notes[0].text
    # Just beyond is the edge: counters are read at different moments.
    edge = {"SQ_BUSY_CU_CYCLES": 3_100, "GRBM_GUI_ACTIVE": 80}
    assert value(MI300X, "cu_busy_pct", edge) == 100


def test_zero_counters_of_rdna_were_not_collected() -> None:
    silent = one({"GRBM_GUI_ACTIVE": 0, "SQ_WAVES": 0, "FETCH_SIZE": 0, "L2CacheHit": 20})
    cleaned, found = without_dead_counters([silent], "gfx1100")
    assert np.isnan(cleaned[0].counters["FETCH_SIZE"][0])
    assert cleaned[0].counters["L2CacheHit"][0] == 20
    assert "stable_std" in found[0].text
    assert found[0].count == 3


def test_zero_is_a_value_elsewhere() -> None:
    quiet = one({"SQ_LDS_BANK_CONFLICT": 0, "WRITE_SIZE": 0, "SQ_WAVES": 4})
    cleaned, found = without_dead_counters([quiet], "gfx942")
    assert found == []
    assert cleaned[0].counters["WRITE_SIZE"][0] == 0
    # But a dispatch that ran had waves (CDNA names on an MI50 read zero).
    dead, found = without_dead_counters([one({"SQ_WAVES": 0, "SQ_WAVE_CYCLES": 0})], "gfx906")
    assert np.isnan(dead[0].counters["SQ_WAVES"][0])
    assert found


def test_a_program_reads_memory_somewhere() -> None:
    # FETCH_SIZE is always zero on gfx1200, whose files need not name the device.
    for arch in (None, "gfx942"):
        dead, found = without_dead_counters([one({"FETCH_SIZE": 0})], arch)
        assert np.isnan(dead[0].counters["FETCH_SIZE"][0])
        assert "taken as not collected: FETCH_SIZE" in found[0].text
    # A dispatch that found all in the cache is one among others.
    some = Pass("pass", {"FETCH_SIZE": np.array([0.0, 3.0])}, np.array([1.0, 1.0]))
    kept, found = without_dead_counters([some], "gfx942")
    assert kept[0].counters["FETCH_SIZE"].tolist() == [0, 3]
    assert found == []


def test_architectures() -> None:
    assert architecture("gfx940") == architecture("gfx942")
    assert architecture("gfx1151") == architecture("gfx1100")
    assert architecture("gfx90a") != architecture("gfx908")
    assert architecture("gfx803") is None
    assert architecture(None) is None


@pytest.mark.parametrize(
    ("gpu", "kind", "peak"),
    [
        # Data sheets: MI300X 1307.4 BF16, 163.4 FP32; MI210 181 FP16, 22.6 FP64; MI100 184.6 FP16.
        (MI300X, "BF16", 1307.4e12),
        (MI300X, "F8", 2614.9e12),
        (MI300X, "fp32", 163.4e12),
        (MI300X, "fp64", 81.7e12),
        (MI210, "F16", 181e12),
        (MI210, "fp64", 22.6e12),
        (Gpu(arch="gfx908", cu=120, sclk_mhz=1502), "F16", 184.6e12),
        (Gpu(arch="gfx950", cu=256, sclk_mhz=2400), "BF16", 2516.6e12),
        (Gpu(arch="gfx950", cu=256, sclk_mhz=2200), "fp64", 72.1e12),
    ],
)
def test_peaks_follow_from_clock_and_units(gpu: Gpu, kind: str, peak: float) -> None:
    assert gpu.peak_flops_per_s(kind) == pytest.approx(peak, rel=0.003)


def test_a_cycle_counter_of_zero_contradicts_no_time() -> None:
    """GIVEN 0 cycles in every dispatch WHEN held against their times THEN no time is doubted."""
    times = np.full(4, 1e6)
    measured = Pass("pmc", {"GRBM_GUI_ACTIVE": np.zeros(4)}, times)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (cleaned,), wrong = without_contradicted_times([measured], times)
    assert not wrong.any()
    assert cleaned.duration_ns.tolist() == times.tolist()
