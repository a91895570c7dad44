"""The device table: every figure against its reference, and which device a profiler means."""

import csv
import dataclasses
import gzip
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceroof.errors import TraceroofError
from traceroof.hardware.device_lookup import find, gfx_of_pair, matches
from traceroof.hardware.devices import DTYPES, Device, all_devices
from traceroof.hardware.partitions import scaled

GIB = 2**30


def device(name: str) -> Device:
    found = find(name)
    assert found is not None, name
    return found


def peak(name: str, dtype: str) -> float:
    """TFLOP/s (TOP/s)."""
    rate = device(name).peak(dtype)
    assert rate is not None, (name, dtype)
    return rate / 1e12


# --- the table as a whole -----------------------------------------------------------------------


@pytest.mark.parametrize("row", all_devices(), ids=lambda row: row.name)
def test_row_is_complete_and_sane(row: Device) -> None:
    """GIVEN any row WHEN read THEN it has a source, a grade, and no zero for an unknown figure."""
    assert row.vendor in {"nvidia", "amd", "hygon"}
    assert row.architecture
    assert (row.compute_capability is None) != (row.vendor == "nvidia")
    assert (row.gfx_target is None) == (row.vendor == "nvidia")
    assert row.wavefront == (64 if (row.gfx_target or "gfx1").startswith("gfx9") else 32)
    assert len(row.source) > 20
    assert row.grade in {"A", "B", "C"}
    assert row.remark or row.grade != "C"
    assert set(row.flops_per_s) <= set(DTYPES)
    assert set(row.attainable_flops_per_s) <= set(row.flops_per_s)
    assert set(row.attainable_bytes_per_s) <= {"read", "write", "copy"}
    assert bool(row.attainable_source) == bool(
        row.attainable_flops_per_s or row.attainable_bytes_per_s
    )
    shares = [rate / row.flops_per_s[name] for name, rate in row.attainable_flops_per_s.items()]
    assert all(0.4 < share < 1 for share in shares)
    figures = [
        row.sm_count,
        row.boost_clock_hz,
        row.memory_bytes,
        row.dram_bandwidth_bytes_per_s,
        row.l2_bytes,
        row.last_cache_bytes,
        *row.flops_per_s.values(),
    ]
    assert all(figure is None or figure > 0 for figure in figures)


def test_names_are_unique() -> None:
    """GIVEN all rows WHEN names and aliases are compared as find does THEN none has two owners."""
    owners: dict[str, str] = {}
    for row in all_devices():
        for name in {row.name, *row.aliases}:
            assert owners.setdefault(name.lower(), row.name) == row.name
            assert row in matches(name)
            assert find(name) == row
    ids = [number for row in all_devices() for number in row.pci_device_ids]
    assert len(ids) == len(set(ids))


def test_shared_names_are_shared() -> None:
    """GIVEN a name that several devices print WHEN nothing else is known THEN nothing is decided.

    A name that the table gives to one row only must still not be taken for it: "Orin" is also
    printed by boards that the table does not have.
    """
    names = {name for row in all_devices() for name in row.shared_names}
    assert len(names) > 15
    for name in names:
        assert find(name) is None
        assert matches(name)


# Ridge points for 16-bit types: the reference table rounds fp16 / bandwidth to a whole FLOP/byte.
RIDGE_16_BIT = {
    "V100-SXM2-16GB": 139,
    "V100-SXM2-32GB": 139,
    "V100-PCIE-16GB": 124,
    "V100-PCIE-32GB": 124,
    "T4": 203,
    "RTX-2080-Ti": 87,
    "RTX-2080-Ti-FE": 92,
    "A100-SXM4-40GB": 201,
    "A100-PCIE-40GB": 201,
    "A100-SXM4-80GB": 153,
    "A100-PCIE-80GB": 161,
    "A30": 177,
    "A10": 208,
    "A40": 215,
    "RTX-3090": 76,
    "L4": 403,
    "L40": 209,
    "L40S": 419,
    "RTX-4090": 164,
    "RTX-6000-Ada": 379,
    "H100-SXM5-80GB": 295,
    "H100-PCIE-80GB": 371,
    "H100-NVL-94GB": 212,
    "H200-SXM-141GB": 206,
    "H20-96GB": 37,
    "H20-141GB": 31,
    "GH200-96GB": 247,
    "GH200-144GB": 202,
    "B100": 219,
    "B200-SXM-180GB": 292,
    "GB200-186GB": 312,
    "B300-SXM-270GB": 292,
    "GB300-279GB": 312,
    "RTX-5090": 117,
    "RTX-PRO-6000-WS": 281,
    "RTX-PRO-6000-Server": 313,
}


@pytest.mark.parametrize(("name", "expected"), RIDGE_16_BIT.items())
def test_ridge(name: str, expected: int) -> None:
    bandwidth = device(name).dram_bandwidth_bytes_per_s
    assert bandwidth is not None
    # 312.5 and the like are rounded either way in the reference.
    assert peak(name, "fp16") * 1e12 / bandwidth == pytest.approx(expected, abs=0.501)


# FP32 FLOP per SM (CU) and clock: two per core and FMA. Cores: CUDA programming guide, table of
# arithmetic throughput; CDNA and RDNA instruction set guides (dual issue and packed math double).
FP32_PER_SM_CLOCK = {
    "6.0": 128,
    "6.1": 256,
    "7.0": 128,
    "7.5": 128,
    "8.0": 128,
    "8.6": 256,
    "8.7": 256,
    "8.9": 256,
    "9.0": 256,
    "10.0": 256,
    "10.3": 256,
    "12.0": 256,
    "gfx906": 128,
    "gfx908": 128,
    "gfx90a": 128,
    "gfx942": 256,
    "gfx950": 256,
    "gfx1100": 256,
    "gfx1201": 256,
    "gfx1101": 256,
    "gfx1102": 256,
    "gfx1150": 256,
    "gfx1151": 256,
    "gfx1200": 256,
    "gfx1030": 128,
    "gfx1031": 128,
    "gfx1032": 128,
}

# Rated at two clocks: FP32 and FP64 at 1980 MHz, tensor rates at the boost clock of the row.
TWO_CLOCKS = {
    "H100-SXM5-80GB",
    "H100-SXM5-96GB",
    "H200-SXM-141GB",
    "H800-SXM5-80GB",
    "GH200-96GB",
    "GH200-144GB",
}


@pytest.mark.parametrize(
    "row",
    [row for row in all_devices() if row.sm_count and row.boost_clock_hz and row.flops_per_s],
    ids=lambda row: row.name,
)
def test_fp32_follows_from_cores_and_clock(row: Device) -> None:
    """GIVEN SMs and boost clock WHEN multiplied THEN the FP32 peak agrees within 1 %."""
    assert row.sm_count is not None
    assert row.boost_clock_hz is not None
    clock = 1.98e9 if row.name in TWO_CLOCKS else row.boost_clock_hz
    per_sm = FP32_PER_SM_CLOCK[row.compute_capability or row.gfx_target or ""]
    assert row.peak("fp32") == pytest.approx(per_sm * row.sm_count * clock, rel=0.01)


# --- traps that public tables fell into ---------------------------------------------------------


def test_sparsity_is_not_counted() -> None:
    """Trap 1: one public table lists H100 BF16 1979, FP8 3958 and L4 BF16 242 as dense."""
    assert peak("H100-SXM5-80GB", "bf16") == 989.4
    assert peak("H100-SXM5-80GB", "fp8") == 1978.9
    assert peak("H100-PCIE-80GB", "bf16") == 756  # 1513 is sparse
    assert peak("L4", "bf16") == 121
    assert peak("B200-SXM-180GB", "fp4") == 9000  # 18000 is sparse
    assert peak("RX-9070-XT", "int8") == 389  # 779 is sparse


@pytest.mark.parametrize("row", all_devices(), ids=lambda row: row.name)
def test_narrower_types_double(row: Device) -> None:
    """GIVEN dense rates WHEN the type is halved THEN the rate doubles; a mix with sparse would be 4."""
    for wide, narrow in (("fp16", "fp8"), ("tf32", "fp16")):
        rates = row.peak(wide), row.peak(narrow)
        if rates[0] is not None and rates[1] is not None:
            assert rates[1] / rates[0] == pytest.approx(2, rel=0.03)
    if row.gfx_target != "gfx908":  # MI100 runs BF16 at half rate
        assert row.peak("bf16") in (None, row.peak("fp16"))


def test_numbers_of_another_device() -> None:
    """Trap 2: a public table gives H100 the TF32 of A100, and L4 the bandwidth of H100."""
    assert peak("A100-SXM4-80GB", "tf32") == 156
    assert peak("H100-SXM5-80GB", "tf32") == 494.7
    assert device("L4").dram_bandwidth_bytes_per_s == 300e9
    assert device("H100-SXM5-80GB").dram_bandwidth_bytes_per_s == 3350e9


def test_no_placeholder_copies() -> None:
    """Trap 3: a public B200 row is a copy of H100; another has FP32 = TF32 and the PCIe bandwidth."""
    b200, h100, pcie = map(device, ("B200-SXM-180GB", "H100-SXM5-80GB", "H100-PCIE-80GB"))
    assert all(b200.peak(dtype) != rate for dtype, rate in h100.flops_per_s.items())
    assert b200.dram_bandwidth_bytes_per_s == 7700e9
    assert h100.peak("fp32") == 66.9e12
    assert pcie.dram_bandwidth_bytes_per_s == 2039e9
    assert (pcie.peak("fp16"), h100.peak("fp16")) == (756e12, 989.4e12)


def test_units_are_decimal() -> None:
    """Trap 4: 600 GiB/s is 7.4 % more than 600 GB/s, 125 * 2**40 is 10 % more than 125 T."""
    a10 = device("A10")
    assert a10.dram_bandwidth_bytes_per_s == 600e9 != 600 * 1024**3
    assert a10.peak("fp16") == 125e12 != 125 * 2**40
    # Memory and caches are binary: drivers report 42,505,273,344 B on 40 GB, 41,943,040 B of L2.
    a100 = device("A100-SXM4-40GB")
    assert a100.memory_bytes == 40 * GIB
    assert a100.l2_bytes == 41_943_040
    assert device("RTX-2080-Ti").l2_bytes == 5.5 * 2**20
    # L2 is the last cache before DRAM, except where AMD has one more.
    assert a100.last_cache_bytes == a100.l2_bytes
    assert device("MI300X").last_cache_bytes == device("MI350X").last_cache_bytes == 256 * 2**20
    assert device("MI210").last_cache_bytes == device("MI210").l2_bytes


def test_decimal_figures_are_exact() -> None:
    """GIVEN 989.4 TFLOP/s WHEN read THEN it is 989.4e12 to the last bit."""
    assert device("H100-SXM5-80GB").peak("fp16") == 989_400_000_000_000.0
    assert device("MI210").dram_bandwidth_bytes_per_s == 1_638_400_000_000.0


@pytest.mark.parametrize(
    ("name", "fp32_accumulate", "fp16_accumulate"),
    [
        ("RTX-2080-Ti", 53.8, 107.6),
        ("RTX-2080-Ti-FE", 56.9, 113.8),
        ("RTX-3090", 71, 142),
        ("RTX-4090", 165.2, 330.3),
        ("RTX-5090", 209.5, 419),
    ],
)
def test_accumulation(name: str, fp32_accumulate: float, fp16_accumulate: float) -> None:
    """Trap 5: GeForce halves the rate with FP32 accumulation, which is what frameworks use."""
    assert peak(name, "fp16") == fp32_accumulate != fp16_accumulate


def test_fp4_is_not_twice_fp8() -> None:
    """Trap 6: 2 x on B200, 15 / 5 = 3 x on GB300, 14 / 4.5 on B300, 4 x on GeForce."""
    ratio = {
        name: peak(name, "fp4") / peak(name, "fp8")
        for name in ("B200-SXM-180GB", "B300-SXM-270GB", "GB300-279GB", "RTX-5090")
    }
    assert ratio["B200-SXM-180GB"] == 2
    assert ratio["GB300-279GB"] == 3
    assert ratio["B300-SXM-270GB"] == pytest.approx(3.11, abs=0.01)
    assert ratio["RTX-5090"] == 4


def test_one_gpu_not_a_pair_or_a_board() -> None:
    """Trap 7: early H100 NVL sheets quote two cards; MI250X has two GCDs; NVL72 has 72 GPUs."""
    nvl = device("H100-NVL-94GB")
    assert nvl.memory_bytes == 94 * GIB
    assert nvl.dram_bandwidth_bytes_per_s == 3938e9  # the pair: 7.8 TB/s
    assert peak("H100-NVL-94GB", "fp16") == 835.5  # the pair, sparse: 3958
    assert peak("GB200-186GB", "fp16") == 2500
    assert peak("MI250X-card", "fp16") == 2 * peak("MI250X-GCD", "fp16") == 383
    card, gcd = device("MI250X-card"), device("AMD Instinct MI250X")
    assert (card.sm_count, gcd.sm_count) == (220, 110)
    assert (
        card.dram_bandwidth_bytes_per_s == 2 * 1638.4e9 == 2 * (gcd.dram_bandwidth_bytes_per_s or 0)
    )


def test_other_engines_do_not_count() -> None:
    """Trap 8: 275 TOPS of the AGX Orin is 170 sparse of the GPU plus 105 of two DLAs."""
    assert peak("Jetson-AGX-Orin-64GB", "int8") == 170 / 2


def test_clock_of_the_rating() -> None:
    """Trap 9: H100 SXM rates vectors at 1980 MHz and tensor cores at 1830 MHz."""
    h100 = device("H100-SXM5-80GB")
    assert h100.boost_clock_hz == 1830e6
    # 4096 dense FP16 FLOP per SM and clock: 1024 FMA in each of four tensor cores, halved for
    # dense. The vector units do 256.
    assert h100.peak("fp16") == pytest.approx(132 * 4096 * 1.83e9, rel=0.001)
    assert h100.peak("fp32") == pytest.approx(132 * 256 * 1.98e9, rel=0.001)


@pytest.mark.parametrize(
    "row", [row for row in all_devices() if row.vendor == "nvidia"], ids=lambda row: row.name
)
def test_types_by_compute_capability(row: Device) -> None:
    """Trap 10: BF16 and TF32 from 8.0, FP8 from 8.9, FP4 from 10.0."""
    capability = float(row.compute_capability or "nan")
    for dtype, least in (("bf16", 8.0), ("tf32", 8.0), ("fp8", 8.9), ("fp4", 10.0)):
        assert row.peak(dtype) is None or capability >= least


def test_aggregators_are_wrong() -> None:
    """Trap 11: one site gives H100 SXM an FP16 of 133, another B300 an FP8 of 7000."""
    assert peak("H100-SXM5-80GB", "fp16") == 989.4
    assert peak("B300-SXM-270GB", "fp8") == 4500


def test_suspect_figures_carry_a_remark() -> None:
    for name, word in (
        ("L40", "suspect"),
        ("H100-NVL-94GB", "suspect"),
        ("B300-SXM-270GB", "disputed"),
        ("GB300-279GB", "disputed"),
        ("A10G", "disputed"),
        ("B100", "not confirmed"),
    ):
        assert word in (device(name).remark or "")


# --- which device a profiler means --------------------------------------------------------------

# Names as torch.profiler, Nsight Systems, Nsight Compute, nvprof and ROCm tools print them.
PRINTED = {
    "NVIDIA A100-SXM4-80GB": "A100-SXM4-80GB",
    "NVIDIA A100-SXM4-40GB": "A100-SXM4-40GB",
    "NVIDIA A100-PCIE-40GB": "A100-PCIE-40GB",
    "A100-PCIE-40GB": "A100-PCIE-40GB",
    "NVIDIA A100 80GB PCIe": "A100-PCIE-80GB",
    "NVIDIA A100-PG509-200": "A100-SXM4-40GB",
    "NVIDIA PG509-210": "A100-SXM4-80GB",
    "NVIDIA H100 80GB HBM3": "H100-SXM5-80GB",
    "NVIDIA H100 PCIe": "H100-PCIE-80GB",
    "NVIDIA H100 NVL": "H100-NVL-94GB",
    "NVIDIA H200": "H200-SXM-141GB",
    "NVIDIA H200 NVL": "H200-NVL-141GB",
    "NVIDIA H20": "H20-96GB",
    "NVIDIA H20-3e": "H20-141GB",
    "NVIDIA H800": "H800-SXM5-80GB",
    "NVIDIA GH200 480GB": "GH200-96GB",
    "NVIDIA GH200 144G HBM3e": "GH200-144GB",
    "NVIDIA B200": "B200-SXM-180GB",
    "NVIDIA GB200": "GB200-186GB",
    "NVIDIA B300 SXM6 AC": "B300-SXM-270GB",
    "NVIDIA GB300": "GB300-279GB",
    "NVIDIA A10": "A10",
    "NVIDIA A10G": "A10G",
    "NVIDIA L4": "L4",
    "NVIDIA L40": "L40",
    "NVIDIA L40S": "L40S",
    "Tesla T4": "T4",
    "Tesla V100-SXM2-16GB": "V100-SXM2-16GB",
    "Tesla V100-PCIE-32GB": "V100-PCIE-32GB",
    "NVIDIA GeForce RTX 4090": "RTX-4090",
    "GeForce RTX 4090": "RTX-4090",
    "nvidia geforce rtx 4090": "RTX-4090",
    "NVIDIA RTX 6000 Ada Generation": "RTX-6000-Ada",
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": "RTX-PRO-6000-WS",
    "GeForce GTX 1080 Ti (0)": "GTX-1080-Ti",
    "AMD Instinct MI300X": "MI300X",
    "AMD Instinct MI300X VF": "MI300X",
    "MI300X_A1": "MI300X",
    "AMD Instinct MI300A Accelerator": "MI300A",
    "AMD Instinct MI210": "MI210",
    "AMD Instinct MI250X": "MI250X-GCD",
    "AMD INSTINCT MI250 (MCM) OAM AC MBA": "MI250-GCD",
    "AMD Instinct MI100": "MI100",
    "AMD Radeon RX 7900 XTX": "RX-7900-XTX",
    "Radeon RX 7900 XTX": "RX-7900-XTX",
}


@pytest.mark.parametrize(("printed", "expected"), PRINTED.items())
def test_printed_names(printed: str, expected: str) -> None:
    assert device(printed).name == expected


@pytest.mark.parametrize(
    "printed",
    [
        "NVIDIA GeForce RTX 3060 Laptop GPU",  # clocks differ from laptop to laptop
        "NVIDIA GeForce RTX 3060 Laptop ",  # as old nsys cuts it
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 4090 D",  # 114 SMs
        "NVIDIA A100-SXM-64GB",  # a custom card of 124 SMs
        "NVIDIA A40-48Q",  # vGPU
        "NVIDIA H1000",
        "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
        "MIG 1g.10gb",  # of what?
        "Intel(R) Data Center GPU Max 1550",
        "",
        "gfx942",  # MI300A, MI300X, MI325X
        "</script>\x00" * 500,
    ],
)
def test_unknown_names_stay_unknown(printed: str) -> None:
    """GIVEN a name that the table does not have WHEN looked up THEN None, whatever else is known."""
    assert find(printed) is None
    if printed and not printed.startswith("gfx"):
        assert find(printed, compute_capability="8.0", sm_count=108) is None


@pytest.mark.parametrize(
    ("sm_count", "memory_bytes", "expected"),
    [
        (132, 84_943_110_144, "H100-SXM5-80GB"),
        (114, 85_028_765_696, "H100-PCIE-80GB"),
        (132, 102_085_492_736, "H100-SXM5-96GB"),  # 95.07 GiB: not the 94 GB of an H100 NVL
        (132, 99_456_909_312, None),  # 92.6 GiB would be an H100 NVL, which prints so
        (132, None, None),
        (78, None, None),
        (78, 84_943_110_144, None),
        (144, 84_943_110_144, None),
    ],
)
def test_h100_is_decided_by_size(
    sm_count: int, memory_bytes: int | None, expected: str | None
) -> None:
    """Trap 12: "NVIDIA H100" is printed by several cards, and export variants have 78 SMs."""
    found = find("NVIDIA H100", sm_count=sm_count, memory_bytes=memory_bytes)
    assert (found.name if found else None) == expected


def test_name_is_not_a_prefix() -> None:
    """GIVEN H20 with 78 SMs and H200 with 132 WHEN names and counts are crossed THEN None."""
    assert device("NVIDIA H20").sm_count == 78
    assert device("NVIDIA H200").sm_count == 132
    assert find("NVIDIA H200", sm_count=78) is None
    assert find("NVIDIA H20", sm_count=132) is None
    assert find("NVIDIA H20", sm_count=78, memory_bytes=97285 * 2**20) == device("H20-96GB")
    assert find("NVIDIA H20", sm_count=78, memory_bytes=143_771 * 2**20) is None


@pytest.mark.parametrize(
    ("printed", "memory_gib", "expected"),
    [
        ("NVIDIA GeForce RTX 3060", 11.76, "RTX-3060-12GB"),
        ("NVIDIA GeForce RTX 3060", 7.78, "RTX-3060-8GB"),
        ("NVIDIA GeForce RTX 3080", 9.77, "RTX-3080-10GB"),
        ("NVIDIA GeForce RTX 3080", 11.75, "RTX-3080-12GB"),
        # 8,585,216,000 B as nsys reports them, 8 GB of the two sizes sold
        ("NVIDIA GeForce RTX 4060 Ti", 8_585_216_000 / GIB, "RTX-4060-Ti-8GB"),
        ("NVIDIA GeForce RTX 5060 Ti", 16_660_430_848 / GIB, "RTX-5060-Ti-16GB"),
    ],
)
def test_memory_tells_cards_of_one_name(printed: str, memory_gib: float, expected: str) -> None:
    found = find(printed, memory_bytes=int(memory_gib * GIB))
    assert found is not None
    assert found.name == expected


def test_hints_that_contradict_give_nothing() -> None:
    assert find("Tesla T4", compute_capability="8.0") is None
    assert find("Tesla T4", sm_count=41) is None
    assert find("Tesla T4", memory_bytes=8 * GIB) is None
    assert find("AMD Instinct MI300X", gfx_target="gfx90a") is None
    assert find("AMD Instinct MI300X", pci_device_id=29711) is None  # MI210's
    assert find("AMD Instinct MI300X", wavefront=32) is None


def test_zero_is_unknown() -> None:
    """GIVEN converters that write 0 for what they lack WHEN looked up THEN 0 does not contradict."""
    assert find("Tesla T4", sm_count=0, memory_bytes=0) == device("T4")


def test_driver_reserve_and_ecc() -> None:
    """GIVEN reported sizes of real cards WHEN looked up THEN they still match the installed size."""
    for printed, mib in (
        ("Tesla T4", 14_910),  # 14.56 GiB of 16
        ("NVIDIA A10G", 22_587),
        ("NVIDIA L40S", 45_589),
        ("NVIDIA RTX 6000 Ada Generation", 48_622),
        ("NVIDIA GH200 144G HBM3e", 153_008_209_920 // 2**20),
        ("Radeon RX 7900 XTX", 24_560),
    ):
        assert find(printed, memory_bytes=mib * 2**20) is not None, printed


def test_architecture_and_sm_count() -> None:
    """GIVEN no usable name WHEN exactly one device fits THEN it, else None."""
    assert find(compute_capability="8.6", sm_count=84, memory_bytes=47_850_782_720) is None  # A40
    assert find(compute_capability="9.0", sm_count=114, memory_bytes=85_028_765_696) is None
    assert find(compute_capability="8.0") is None
    assert find(sm_count=108) is None
    found = find(compute_capability="8.0", sm_count=56)
    assert found is not None
    assert found.name == "A30"
    assert find("gfx908:sramecc+:xnack-", sm_count=120) == device("MI100")
    assert find(gfx_target="gfx942", sm_count=304) is None  # MI300X or MI325X
    assert find(gfx_target="gfx906", sm_count=60) is None  # MI50 or a Hygon Z100


def test_pci_device_id() -> None:
    """GIVEN the name "gfx950" of an agent WHEN the PCI device id is known THEN it decides."""
    for number, expected in (
        (29857, "MI300X"),
        (29877, "MI300X"),
        (29711, "MI210"),
        (29861, "MI325X"),
        (30112, "MI350X"),
        (30115, "MI355X"),
        (29858, "MI308X"),
    ):
        found = find(pci_device_id=number)
        assert found is not None
        assert found.name == expected
    assert find("gfx950", sm_count=256, pci_device_id=30112) == device("MI350X")
    assert find("gfx950", sm_count=256) is None  # MI350X or MI355X
    assert find("AMD Radeon Graphics", pci_device_id=30112) == device("MI350X")
    assert find("gfx950", sm_count=256, pci_device_id=30114) is None  # MI358: not in the table


def test_hip_capability_and_generic_names() -> None:
    """GIVEN torch on ROCm, which prints "" or a generic name and 9.4 for gfx942 THEN size decides."""
    found = find(
        "", compute_capability="9.4", sm_count=304, memory_bytes=206_141_652_992, wavefront=64
    )
    assert found == device("MI300X")
    found = find(
        "AMD Radeon Graphics", compute_capability="9.0", sm_count=104, memory_bytes=68_702_699_520
    )
    assert found is not None
    assert found.name == "MI210 or MI250-GCD"  # alike in every figure
    assert found.peak("fp16") == 181e12
    assert find("AMD Instinct MI250X/MI250", sm_count=110) == device("MI250X-GCD")
    assert find("AMD Instinct MI250X/MI250", sm_count=104) == device("MI250-GCD")
    assert find("AMD Instinct MI250X/MI250") is None


def test_rdna_reports_work_group_processors() -> None:
    """GIVEN HIP, which counts pairs of CUs on RDNA WHEN 48 of 96 THEN it is the whole card."""
    assert find("Radeon RX 7900 XTX", sm_count=48) == device("RX-7900-XTX")
    assert find("AMD Radeon RX 9070 XT", sm_count=32) == device("RX-9070-XT")


# --- partitions ---------------------------------------------------------------------------------


def test_xcd_partitions() -> None:
    """GIVEN an MI300X of 8 XCDs WHEN a partition reports 38, 76 or 152 CUs THEN peaks scale."""
    for cus, share in ((38, 1 / 8), (76, 1 / 4), (152, 1 / 2)):
        part = find("AMD Instinct MI300X", sm_count=cus)
        assert part is not None
        assert part.name == f"MI300X ({cus} of 304 CUs)"
        assert part.peak("fp16") == pytest.approx(1307.4e12 * share)
        assert part.dram_bandwidth_bytes_per_s is None  # depends on the memory partition
        assert part.sm_count == cus
    assert find("AMD Instinct MI300X", sm_count=100) is None
    assert find("AMD Instinct MI300A", sm_count=76) is not None  # 2 of 6 XCDs: TPX
    assert find("AMD Instinct MI300A", sm_count=152) is None  # 4 of 6 is no mode


@pytest.mark.parametrize(
    ("printed", "sms", "share", "gb_per_s"),
    [
        # nsys reports 28 SMs and 466.56e9 byte/s for this slice
        ("NVIDIA A30 MIG 2g.12gb", 28, 28 / 56, 933 / 2),
        # torch.cuda.get_device_properties: 14 SMs, 9728 MiB
        ("NVIDIA A100 80GB PCIe MIG 1g.10gb", 14, 14 / 108, 1935 / 8),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 14, 14 / 108, 1555 / 8),
        ("NVIDIA A100-SXM4-40GB MIG 3g.20gb", 42, 42 / 108, 1555 / 2),
        ("NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb", 14, 14 / 108, 1555 / 2),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", 16, 16 / 132, 3350 / 8),
        ("NVIDIA H200 MIG 1g.18gb", 16, 16 / 132, 4800 / 8),
        ("NVIDIA H200 MIG 3g.71gb", 60, 60 / 132, 4800 / 2),
    ],
)
def test_mig(printed: str, sms: int, share: float, gb_per_s: float) -> None:
    """GIVEN a MIG slice WHEN its SM count is known THEN peaks by SMs, bandwidth by eighths."""
    part = find(printed, sm_count=sms)
    parent = find(printed.partition(" MIG")[0])
    assert part is not None
    assert parent is not None
    assert part.name == f"{parent.name} MIG{printed.partition(' MIG')[2]}"
    assert part.peak("fp16") == pytest.approx(share * (parent.peak("fp16") or 0))
    assert part.dram_bandwidth_bytes_per_s == pytest.approx(gb_per_s * 1e9)
    assert part.l2_bytes is None
    # It has at most all of it.
    assert part.last_cache_bytes == parent.last_cache_bytes


def test_mig_without_sm_count() -> None:
    """GIVEN only the profile WHEN looked up THEN bandwidth is known and peaks are not."""
    part = find("NVIDIA A100-SXM4-40GB MIG 1g.5gb")
    assert part is not None
    assert part.dram_bandwidth_bytes_per_s == pytest.approx(1555e9 / 8)
    assert part.sm_count is None
    assert not part.flops_per_s
    assert find("NVIDIA A100-SXM4-40GB MIG 1g.5gb", sm_count=200) is None
    odd = find("NVIDIA A100-SXM4-40GB MIG 1g.7gb", sm_count=14)  # 1.4 slices: no such profile
    assert odd is not None
    assert odd.dram_bandwidth_bytes_per_s is None


def test_scaled() -> None:
    half = scaled(device("A100-SXM4-80GB"), 54, memory_share=0.5)
    assert half.name == "A100-SXM4-80GB (54 of 108 SMs)"
    assert half.peak("bf16") == pytest.approx(156e12)
    assert half.dram_bandwidth_bytes_per_s == pytest.approx(2039e9 / 2)
    assert half.memory_bytes == 40 * GIB
    assert scaled(device("A100-SXM4-80GB"), 108).dram_bandwidth_bytes_per_s is None
    for sms in (0, 109, -1):
        with pytest.raises(TraceroofError, match="no partition"):
            scaled(device("A100-SXM4-80GB"), sms)
    with pytest.raises(TraceroofError, match="unknown number"):
        scaled(device("B100"), 10)


@given(
    name=st.none() | st.text() | st.sampled_from([*PRINTED, "NVIDIA H100", "MI200", "gfx90a"]),
    compute_capability=st.none() | st.sampled_from(["7.0", "9.0", "9.4", "x"]),
    sm_count=st.none() | st.integers(-1, 400),
    memory_bytes=st.none() | st.integers(-1, 300 * GIB),
    pci_device_id=st.none() | st.sampled_from([29857, 30112, 1]),
    gfx_target=st.none() | st.sampled_from(["gfx942", "gfx90a:xnack-", "", "gfx"]),
)
def test_find_never_fails_and_never_contradicts(**hints: Any) -> None:
    """GIVEN any hints WHEN looked up THEN None or a device that agrees with them."""
    found = find(**hints)
    if found is None:
        return
    if hints["sm_count"]:
        assert found.sm_count in (None, hints["sm_count"], 2 * hints["sm_count"])
    if hints["gfx_target"] and len(hints["gfx_target"]) > 5:
        assert found.gfx_target == hints["gfx_target"].partition(":")[0]


def test_devices_travel() -> None:
    """GIVEN a device WHEN made a dict or a key THEN it works: reports and caches need both."""
    t4 = device("T4")
    assert json.loads(json.dumps(dataclasses.asdict(t4)))["name"] == "T4"
    assert {t4: 1}[device("Tesla T4")] == 1


# --- against the reference and real files -------------------------------------------------------


REFERENCE_NAMES = {
    "V100 SXM2": "V100-SXM2-16GB",
    "V100 PCIe": "V100-PCIE-32GB",
    "RTX 2080 Ti (ref)": "RTX-2080-Ti",
    "RTX 2080 Ti FE": "RTX-2080-Ti-FE",
    "A100-40 SXM": "A100-SXM4-40GB",
    "A100-40 PCIe": "A100-PCIE-40GB",
    "A100-80 SXM": "A100-SXM4-80GB",
    "A100-80 PCIe": "A100-PCIE-80GB",
    "H100 SXM5": "H100-SXM5-80GB",
    "H100 PCIe": "H100-PCIE-80GB",
    "H100 NVL": "H100-NVL-94GB",
    "H200 SXM": "H200-SXM-141GB",
    "B200 SXM (HGX)": "B200-SXM-180GB",
    "GB200 (per GPU)": "GB200-186GB",
    "B300 SXM (HGX)": "B300-SXM-270GB",
    "GB300 (per GPU)": "GB300-279GB",
    "RTX PRO 6000 WS": "RTX-PRO-6000-WS",
    "RTX PRO 6000 Server": "RTX-PRO-6000-Server",
}
REFERENCE_RATES = {
    "fp64": "fp64_tflops",
    "fp64_tensor": "fp64_tc_tflops",
    "fp32": "fp32_tflops",
    "tf32": "tf32_dense",
    "fp16": "fp16_dense_fp32acc",
    "bf16": "bf16_dense",
    "fp8": "fp8_dense",
    "fp4": "fp4_dense",
    "int8": "int8_dense_tops",
}
# Where other evidence settles a cell: a real trace shows 148 SMs on B300 (the reference has the 160
# of the full chip), PyTorch prints 152 on GB200 and GB300, NVIDIA's page gives the H100 NVL.
REFERENCE_EXCEPTIONS = {
    ("B300-SXM-270GB", "sms"): 148,
    ("GB200-186GB", "sms"): 152,
    ("GB300-279GB", "sms"): 152,
    ("H100-NVL-94GB", "grade"): "B",
}


@pytest.mark.corpus
def test_every_cell_of_the_reference(corpus: Path) -> None:
    """GIVEN the reference table WHEN compared cell by cell THEN all agree; FP64 may be filled in."""
    with (corpus.parent / "reference" / "nvidia_devices.csv").open(encoding="utf-8") as file:
        cells = list(csv.DictReader(file))
    assert len(cells) == 35
    for cell in cells:
        row = device(REFERENCE_NAMES.get(cell["device"], cell["device"].replace(" ", "-")))
        expected: dict[str, Any] = {
            "cc": cell["cc"],
            "sms": int(cell["sms"]) if cell["sms"] else None,
            "clock": float(cell["boost_mhz"]) * 1e6 if cell["boost_mhz"] else None,
            "bandwidth": float(cell["bw_gbps"]) * 1e9,
            "l2": float(cell["l2_mb"]) * 2**20 if cell["l2_mb"] else None,
            "grade": cell["grade"],
        }
        got = {
            "cc": row.compute_capability,
            "sms": row.sm_count,
            "clock": row.boost_clock_hz,
            "bandwidth": row.dram_bandwidth_bytes_per_s,
            "l2": row.l2_bytes,
            "grade": row.grade,
        }
        for key, value in expected.items():
            assert got[key] == REFERENCE_EXCEPTIONS.get((row.name, key), value), (row.name, key)
        assert row.memory_bytes in {int(size) * GIB for size in cell["mem_gb"].split("/")}
        for dtype, column in REFERENCE_RATES.items():
            rate = row.peak(dtype)
            if cell[column]:
                assert rate == pytest.approx(float(cell[column]) * 1e12, rel=1e-12), row.name
            else:
                assert rate is None or dtype == "fp64", (row.name, dtype)


# What the files of the corpus print, and the row; None with the reason why it stays unknown.
IN_THE_CORPUS: dict[str, str | None] = {
    "": "MI300X",
    "AMD Instinct MI300X": "MI300X",
    "AMD Instinct MI300X VF": "MI300X",
    "AMD Radeon Graphics": "MI210 or MI250-GCD",
    "NVIDIA A100 80GB PCIe": "A100-PCIE-80GB",
    "NVIDIA A100-PG509-200": "A100-SXM4-40GB",
    "NVIDIA A100-PCIE-40GB": "A100-PCIE-40GB",
    "NVIDIA A100-SXM4-40GB": "A100-SXM4-40GB",
    "NVIDIA A100-SXM4-80GB": "A100-SXM4-80GB",
    "NVIDIA A40": "A40",
    "NVIDIA B200": "B200-SXM-180GB",
    "NVIDIA B300 SXM6 AC": "B300-SXM-270GB",
    "NVIDIA GeForce RTX 3060 Laptop ": None,  # laptop clocks vary: 1282 MHz here, 1425 elsewhere
    "NVIDIA GeForce RTX 3060": "RTX-3060-12GB",
    "NVIDIA GeForce RTX 3070 Laptop GPU": None,  # the same: 1290 MHz here
    "NVIDIA GeForce RTX 3090": "RTX-3090",
    "NVIDIA GeForce RTX 4060": "RTX-4060",
    "NVIDIA GeForce RTX 4060 Ti": "RTX-4060-Ti-8GB",
    "NVIDIA GeForce RTX 5060 Ti": "RTX-5060-Ti-16GB",
    "NVIDIA H100": "H100-SXM5-96GB",
    "NVIDIA H100 80GB HBM3": "H100-SXM5-80GB",
    "NVIDIA H800": "H800-SXM5-80GB",
    "NVIDIA PG509-210": "A100-SXM4-80GB",
    "NVIDIA RTX A5000": "RTX-A5000",
    "Tesla T4": "T4",
    "Tesla V100-DGXS-32GB": "V100-DGXS-32GB",
    "Tesla V100-SXM2-16GB": "V100-SXM2-16GB",
    "Tesla V100-SXM2-32GB": "V100-SXM2-32GB",
}


def _torch_devices(folder: Path) -> Iterator[dict[str, Any]]:
    # Tools that rewrite traces move the key to the end, so the whole file is searched.
    for path in sorted(folder.rglob("*.json*")):
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        for key in (b'"deviceProperties":', b'"computeProperties":'):
            _, found, rest = content.partition(key)
            if found:
                text = rest[:65536].decode("utf-8", "replace").lstrip()
                yield from json.JSONDecoder().raw_decode(text)[0]


@pytest.mark.corpus
def test_torch_devices_of_the_corpus(corpus: Path) -> None:
    """GIVEN deviceProperties of real traces WHEN looked up THEN the row, or a known reason."""
    seen = set()
    for properties in _torch_devices(corpus / "torch"):
        major, minor = properties.get("computeMajor"), properties.get("computeMinor")
        found = find(
            properties["name"],
            compute_capability=f"{major}.{minor}" if major is not None else None,
            sm_count=properties.get("numSms"),
            memory_bytes=properties["totalGlobalMem"],
            wavefront=properties["warpSize"],
        )
        assert (found.name if found else None) == IN_THE_CORPUS[properties["name"]]
        seen.add(properties["name"])
    assert len(seen) == 15


@pytest.mark.corpus
def test_nsys_devices_of_the_corpus(corpus: Path) -> None:
    """GIVEN the driver's figures in nsys exports WHEN compared THEN bandwidth, SMs and L2 agree."""
    checked = unnamed = 0
    for path in sorted((corpus / "nsys").glob("*.sqlite")):
        if path.stat().st_size < 1000:  # a Git LFS pointer
            continue
        address = f"file:{path}?mode=ro&immutable=1"
        with closing(sqlite3.connect(address, uri=True)) as database:
            tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
            if "TARGET_INFO_GPU" not in tables:  # cut down by a tool: names no GPU
                unnamed += 1
                continue
            rows = database.execute(
                "SELECT DISTINCT name, computeMajor || '.' || computeMinor, smCount, totalMemory,"
                " memoryBandwidth, l2CacheSize, clockRate FROM TARGET_INFO_GPU"
            ).fetchall()
        for name, capability, sms, memory, bandwidth, l2, clock in rows:
            found = find(name, compute_capability=capability, sm_count=sms, memory_bytes=memory)
            assert (found.name if found else None) == IN_THE_CORPUS[name]
            if found is None:
                continue
            assert found.dram_bandwidth_bytes_per_s == pytest.approx(bandwidth, rel=0.001)
            assert found.l2_bytes == l2
            # GeForce boards are sold with higher boost clocks; H100 SXM is rated at two.
            assert 0.92 * clock <= (found.boost_clock_hz or 0) <= clock
            checked += 1
    assert (checked, unnamed) == (13, 2)


@pytest.mark.corpus
def test_amd_devices_of_the_corpus(corpus: Path) -> None:
    """GIVEN sysinfo and agent files of ROCm tools WHEN looked up THEN the row."""
    found = {}
    for path in sorted((corpus / "amd").glob("*/sysinfo.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            row = next(csv.DictReader(file))
        chip = row.get("gpu_chip_id")
        # The 128 CUs of the MI350 file are wrong (the GPU has 256), so they are not passed on.
        cus = int(row.get("cu_per_gpu") or row["numCU"])
        device_row = find(
            row.get("gpu_model") or row["name"],
            gfx_target=row.get("gpu_arch") or row["gpu_soc"],
            pci_device_id=int(chip) if chip else None,
            sm_count=cus if cus != 128 else None,
        )
        found[path.parent.name] = device_row.name if device_row else None
    assert found == {
        "Axes1_mi200": "MI210 or MI250-GCD",
        "bmm1_MI300X_A1": "MI300X",
        "vcopy_MI200": "MI210 or MI250-GCD",
        "vcopy_MI300A_A1": "MI300A",
        "vcopy_MI300X_A1_rocpd": "MI300X",
        "vcopy_MI350": "MI350X",
    }
    for path in (corpus / "amd").glob("*agent_info.csv"):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                if row["Agent_Type"] == "GPU":
                    agent = find(
                        row["Product_Name"],
                        gfx_target=row["Name"],
                        sm_count=int(row["Cu_Count"]),
                        pci_device_id=int(row["Device_Id"]),
                        wavefront=int(row["Wave_Front_Size"]),
                    )
                    assert agent == device("MI350X")


def test_the_target_of_a_pair_that_hip_prints() -> None:
    assert gfx_of_pair("9.5") == "gfx950"
    assert gfx_of_pair("9.4") == "gfx942"
    assert gfx_of_pair("8.0") is None  # NVIDIA's
