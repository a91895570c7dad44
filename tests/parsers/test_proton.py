"""Proton's trees: kernels, the work that scopes state, the block of devices."""

import json
from pathlib import Path
from typing import Any

import pytest

import traceroof
from traceroof.core.recording import Run
from traceroof.diagnosis.diagnose import diagnose
from traceroof.errors import TraceroofError


def _node(name: str, children: Any = (), **metrics: Any) -> dict[str, Any]:
    if "time" in metrics:
        metrics |= {"time (ns)": metrics.pop("time"), "device_id": "0", "device_type": "CUDA"}
    return {"frame": {"name": name}, "metrics": metrics, "children": list(children)}


A100 = {"CUDA": {"0": {"arch": "80", "bus_width": 5120, "clock_rate": 1_410_000,
                       "memory_clock_rate": 1_512_000, "num_sms": 108}}}  # fmt: skip


def _tree() -> list[Any]:
    gemm = _node("ampere_gemm", time=3_000, count=3)
    scope = _node("cublas [M=64]", [gemm], flops16=6e9, bytes=9e6)
    own = _node("triton [M=64]", time=4_000, count=2, flops16=4e9, bytes=2e6)
    several = _node("both", [_node("a", time=10), _node("b", time=20)], flops32=1e6)
    learned = _node("__proton_launch_metadata", [_node("torch_max", time=99)])
    return [_node("ROOT", [scope, own, several, learned], **{"time (ns)": 0, "count": 0}), A100]


def _read(folder: Path, text: str) -> Run:
    path = folder / "profile.hatchet"
    path.write_text(text)
    return traceroof.read(path)


def test_times_and_stated_work(tmp_path: Path) -> None:
    """GIVEN work on a scope and time on its kernel WHEN read THEN they meet, per launch."""
    run = _read(tmp_path, "\n" + json.dumps(_tree()))
    rows = run.kernels.set_index("kernel_name")
    assert list(rows.index) == ["ampere_gemm", "triton [M=64]", "a", "b"]
    gemm = rows.loc["ampere_gemm"]
    assert (gemm.launch_count, gemm.duration_ns) == (3, 1_000)
    assert (gemm.stated_flops, gemm.stated_bytes, gemm.stated_dtype) == (2e9, 3e6, "fp16")
    assert (gemm.operator, gemm.operator_path) == ("cublas [M=64]", "cublas [M=64]")
    assert rows.loc["triton [M=64]"].stated_flops == 2e9
    # Which of two kernels did how much is not stated.
    assert rows.loc["a"].stated_flops != rows.loc["a"].stated_flops
    assert [str(note) for note in run.recording.notes] == [
        "scopes in which Proton itself ran kernels to learn metrics, left out",
        "kernels that share the flops and bytes of one scope: which did how much is unknown (2 times)",
    ]


def test_roofline_of_stated_work(tmp_path: Path) -> None:
    """GIVEN stated FLOPs on an A100 WHEN diagnosed THEN 2 GFLOP in 1 µs are held against its peak."""
    made = diagnose(_read(tmp_path, json.dumps(_tree())))
    assert made.devices[0].name == "A100-PCIE-80GB or A800-PCIE-80GB"
    gemm = next(one for one in made.kernels if one.kernel == "triton [M=64]")
    # 2e9 FLOP in 2 µs are 1e15 FLOP/s: more than the 312e12 of the device, so it is no evidence.
    assert gemm.primary_class in ("not-evaluable", "launch-bound")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (json.dumps([_node("ROOT"), {}]), "recorded no kernel time"),
        (json.dumps(_tree())[:-40], "not a complete Proton tree"),
        ("[" * 100_000, "not a complete Proton tree"),
    ],
)
def test_trees_without_kernels(tmp_path: Path, text: str, reason: str) -> None:
    """GIVEN an empty, cut or hostile tree WHEN read THEN one sentence says which."""
    with pytest.raises(TraceroofError, match=reason):
        _read(tmp_path, text)


@pytest.mark.corpus
def test_corpus(corpus: Path) -> None:
    """GIVEN a real tree WHEN read THEN the golden of four timed nodes; the roofline is plausible."""
    path = corpus / "other" / "proton" / "TianshiXu__matmul_A100.hatchet"
    run = traceroof.read(path)
    rows = run.kernels
    assert (len(rows), int(rows.launch_count.sum())) == (4, 40_000)
    # Means are whole ns: 10,000 launches a node lose at most half a ns each.
    assert abs(int((rows.duration_ns * rows.launch_count).sum()) - 15_974_163_126) <= 20_000
    made = diagnose(run)
    top = made.kernels[0]
    # 687,194,767,360,000 FLOP over 3,822,991,262 ns (mean of two scopes) of 312 TFLOP/s.
    assert top.metrics["model_flop_pct"] == pytest.approx(57.6, abs=0.1)
