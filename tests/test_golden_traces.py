"""What the diagnosis of six real traces says, reviewed line by line.

``pytest tests/test_golden_traces.py --update-golden`` writes the files of ``tests/golden/`` anew.
Each says in ``reading`` what an expert reads in it; that line is written by hand and kept.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import traceroof

GOLDEN = Path(__file__).resolve().parent / "golden"

TRACES: Mapping[str, Sequence[str]] = {
    "host_bound": ("tracelens_b200_eager_vllm_moe.json.gz",),
    "sync_bound": ("saf_asdf_True_compile_cudagraph_a100.json.gz",),
    "gpu_bound": ("hta_ns_resolution_rank-0.pt.trace.json.gz",),
    "straggler_pair": (
        "astrasim_megatron_tp8_rank0_a100.json",
        "astrasim_megatron_tp8_rank1_a100.json",
    ),
    "uneven_steps": (
        "torchrec_a2a_qcomm_v100_54105.pt.trace.json",
        "torchrec_a2a_qcomm_v100_54106.pt.trace.json",
    ),
    "graph_decode": ("tracelens_mi300_vllm_decode_full_graph_execution.json.gz",),
}

_CATEGORIES = 5
_KERNEL_FINDINGS = 6


@pytest.mark.corpus
@pytest.mark.parametrize("name", TRACES)
def test_the_diagnosis_reads_as_reviewed(
    name: str, corpus: Path, request: pytest.FixtureRequest
) -> None:
    files = [corpus / "torch" / file for file in TRACES[name]]
    found = essential(traceroof.diagnose(files).to_dict())
    path = GOLDEN / f"{name}.json"
    kept = json.loads(path.read_text("utf-8")) if path.exists() else {"reading": ""}
    if request.config.getoption("--update-golden"):
        GOLDEN.mkdir(exist_ok=True)
        text = json.dumps({"reading": kept["reading"], **found}, indent=1, ensure_ascii=False)
        path.write_text(text + "\n", "utf-8")
        return
    reading = kept.pop("reading")
    assert found == kept, reading


def essential(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a JSON diagnosis that a reader goes by."""
    return {
        "totals": {
            name: payload["totals"][name]
            for name in (
                "launches", "kernel_time_ns", "span_ns", "gpu_busy_ns", "gpu_idle_ns",
                "exposed_communication_ns",
            )
        },
        "timelines": [_timeline(one) for one in payload["timelines"]],
        "ranks": _ranks(payload["ranks"]),
        "categories": {
            one["category"]: [one["launches"], one["time_ns"]]
            for one in payload["categories"][:_CATEGORIES]
        },
        "classes": _classes(payload["kernels"]),
        "findings": _findings(payload["findings"]),
    }  # fmt: skip


def _timeline(one: Mapping[str, Any]) -> dict[str, Any]:
    causes = one["idle_by_cause"]
    return {
        "rank": one["rank"],
        "span_ns": one["span_ns"],
        "busy_ns": one["busy_ns"],
        "idle_by_cause": {
            cause: time for cause, time in causes.items() if time >= 0.005 * one["span_ns"]
        },
        "step_ns": [step["span_ns"] for step in one["steps"]],
        "longest_gap": {
            name: one["gaps"][0][name] for name in ("duration_ns", "cause", "host")
        },
    }  # fmt: skip


def _ranks(ranks: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if ranks is None:
        return None
    names = ("matched_collectives", "clock_residual_ns", "slowest_rank", "waiting_ns")
    return {name: round(ranks["facts"][name]) for name in names}


def _classes(kernels: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Class -> share of the kernel time, largest first."""
    time: dict[str, int] = {}
    for one in kernels:
        time[one["class"]] = time.get(one["class"], 0) + (one["time_ns"] or 0)
    total = sum(time.values())
    ranked = sorted(time.items(), key=lambda entry: (-entry[1], entry[0]))
    return {name: round(part / total, 4) for name, part in ranked}


def _findings(findings: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What fired: all on timelines and the run, the weightiest on kernels and categories."""
    fired = [one for one in findings if one["state"] == "fired"]
    wide = [one for one in fired if one["scope"] in ("timeline", "run")]
    narrow = [one for one in fired if one not in wide and one["severity"] != "info"]
    return [
        {
            "rule": one["rule"],
            "subject": one["subject"][:60],
            **{name: one[name] for name in ("severity", "time_saved_bound_ns", "because")},
        }
        for one in (*wide, *narrow[:_KERNEL_FINDINGS])
    ]
