"""What traceroof says of real AMD profiles, as a performance engineer would read it."""

import json
import re
from pathlib import Path

import pytest

from traceroof import diagnose
from traceroof.diagnosis.diagnosis import Diagnosis, KernelGroup
from traceroof.report.common import json as json_report
from traceroof.report.run import terminal

pytestmark = pytest.mark.corpus

CUDA_WORDS = re.compile(
    r"\b(warps?|multiprocessors?|shared memory|tensor cores?|ldmatrix|cp\.async)\b", re.IGNORECASE
)


@pytest.fixture
def amd(corpus: Path) -> Path:
    return corpus / "amd"


def kernel(diagnosis: Diagnosis, part: str) -> KernelGroup:
    (found,) = [one for one in diagnosis.kernels if part in one.kernel]
    return found


def test_the_fill_of_bmm1_is_seen_by_its_bandwidth_alone(amd: Path) -> None:
    diagnosis = diagnose(amd / "bmm1_MI300X_A1")
    fill = kernel(diagnosis, "fillBuffer")
    # 16.8 MB written in 5,584 ns are 3,008 GB/s of 5,324.8 (amd.md, golden values).
    assert fill.metrics["dram_pct"] == pytest.approx(56.5, abs=0.1)
    assert fill.metrics["cu_busy_pct"] == pytest.approx(17.5, abs=0.1)
    assert fill.primary_class == "copy"
    found = [one for one in diagnosis.findings if one.subject == fill.kernel]
    assert not [one.rule for one in found if one.state == "fired"]
    used = {entry.metric for one in diagnosis.findings for entry in one.evidence}
    assert "cu_busy_pct" not in used
    assert "56.5 %" in terminal.render(diagnosis, width=110)


def test_bmm1_waits_for_data_and_collides_in_lds(amd: Path) -> None:
    diagnosis = diagnose(amd / "bmm1_MI300X_A1")
    bmm = kernel(diagnosis, "batched_matrix")
    assert bmm.primary_class == "latency-bound"
    # The small tiles come first; what they explain is silenced, not gone.
    assert diagnosis.fired()[0].rule == "tile-rereads"
    fired = {one.rule: one for one in diagnosis.findings if one.subject == bmm.kernel}
    # Waits 0.59 and 0.34, conflicts in half of the LDS cycles (amd.md, golden values).
    assert "wavefronts spend 59 % of their time" in fired["amd-dependency-wait"].because
    assert "34 % of their time" in fired["amd-issue-wait"].because
    assert fired["smem-bank-conflict"].because.startswith("50 % of the LDS cycles")
    # 2,048 workgroups on 304 compute units that hold 8 each.
    assert fired["small-grid"].because.startswith("0.842 rounds of workgroups")
    assert "occ-achieved-gap" not in fired
    # roofline.csv measured 4,256 GB/s, 79.9 % of 5,324.8.
    assert diagnosis.ceilings.startswith(
        "at most: nominal dense peaks; likely: 4.26 TB/s of DRAM as measured on this device "
        "(79.9 % of nominal)"
    )
    # Launches of 29 µs: launch and flush are part of what its pipes' use is counted over.
    latency = fired["latency-bound"]
    assert [(one.rule, one.factor) for one in latency.doubted_by] == [("amd-short-kernel", 0.6)]
    assert latency.confidence == pytest.approx(0.9 * 0.6)


def test_mi350_vcopy_reads_8_mb(amd: Path) -> None:
    copy = diagnose(amd / "vcopy_MI350").kernels[0]
    assert copy.metrics["dram_read_bytes"] == pytest.approx(8.4e6, rel=0.002)
    # 16.79 MB and twice 14.2 MB or so over 55.5 us are 11 % of 8 TB/s.
    assert copy.metrics["dram_pct"] == pytest.approx(11.3, abs=0.2)
    assert copy.primary_class == "latency-bound"


@pytest.mark.parametrize("name", ["vcopy_MI300A_A1"])
def test_broken_durations_are_unknown_with_the_reason(name: str, amd: Path) -> None:
    diagnosis = diagnose(amd / name)
    (copy,) = diagnosis.kernels
    assert copy.time_ns is None
    assert copy.primary_class == "not-evaluable"
    assert copy.missing == ("duration_ns",)
    assert copy.metrics["dram_read_bytes"] == pytest.approx(8_391_744, rel=0.01)
    assert "dram_pct" not in copy.metrics
    text = " ".join(terminal.render(diagnosis).split())
    assert "An unknown time in 3 launches" in text
    assert "timestamps lost their" in text


def test_mi200_vcopy(amd: Path) -> None:
    diagnosis = diagnose(amd / "vcopy_MI200")
    (copy,) = diagnosis.kernels
    # 45,217,024 B in 52,320 ns (three launches) are 864 GB/s of 1,638.4.
    assert copy.metrics["dram_pct"] == pytest.approx(100 * 45_217_024 / 52_320 / 1_638.4)
    # First launch 35.75 %, 48 % (amd.md); the others lie near, and time weighs them.
    assert copy.metrics["l2_hit_pct"] == pytest.approx(35.2, abs=0.2)
    assert copy.metrics["achieved_occupancy_pct"] == pytest.approx(54.0, abs=0.1)
    assert not diagnosis.not_evaluable()


@pytest.mark.parametrize(
    "name",
    ["bmm1_MI300X_A1", "vcopy_MI200", "vcopy_MI350", "vcopy_MI300X_A1_rocpd", "Axes1_mi200",
     "HGLiu1998__batched_gemm__ck_bmm__37ca13315e70__28_results.db",
     "jimw567__rocprof-unified-viewer__tests__fixtures__decode_stall_counter_collection.csv",
     "LearnMF__kernel-roofline-analysis-tools__cal_pmc-read.csv"],
)  # fmt: skip
def test_amd_users_read_amd_words_and_commands(name: str, amd: Path) -> None:
    diagnosis = diagnose(amd / name)
    payload = json.loads(json_report.render(diagnosis))
    for finding in payload["findings"]:
        if finding["scope"] == "kernel":
            said = " ".join((finding["title"], finding["because"], finding["fix"]))
            assert not CUDA_WORDS.search(said), said
        assert not (finding["command"] or "").startswith("ncu")


def test_every_rule_is_judged_on_a_whole_profile(amd: Path) -> None:
    # A full profile of a kernel without matrix work leaves nothing open.
    # The folder of 2022 has no column of accumulation registers.
    for name, lacks in (
        ("vcopy_MI200", set()),
        ("vcopy_MI350", set()),
        ("Axes1_mi200", {"amd-agpr-spill"}),
    ):
        assert {one.rule for one in diagnose(amd / name).not_evaluable()} == lacks, name


def test_vector_units_at_their_wall(amd: Path) -> None:
    diagnosis = diagnose(amd / "Axes1_mi200")
    busiest = diagnosis.kernels[0]
    assert busiest.primary_class == "compute-bound"
    assert busiest.metrics["pipe_valu_pct"] == pytest.approx(99.0, abs=0.1)
    fired = {one.rule for one in diagnosis.fired() if one.subject_index == 0}
    assert "compute-valu-bound" in fired
    assert all(one.rule != "amd-coalescing" for one in diagnosis.findings)


def test_a_named_device_gives_peaks_to_hygon_counters(amd: Path) -> None:
    path = amd / "LearnMF__kernel-roofline-analysis-tools__cal_pmc-read.csv"
    named = diagnose(path, device="BW1000")
    assert named.vendor == "hygon"
    assert named.devices[0].known is not None
    assert named.kernels[0].metrics["dram_peak_bytes_per_s"] == 1.8432e12
    assert diagnose(path).devices[0].known is None
