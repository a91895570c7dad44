"""What the six tools answer, without the protocol around them."""

import json
from pathlib import Path
from typing import Any

import pytest

from traceroof.mcp.answers import MOST_BYTES, size
from traceroof.mcp.tools import Setup, Tools
from traceroof.mcp.work import answered

TRACE = "torch/training.rank0.json"


@pytest.fixture
def tools(samples: Path, tmp_path: Path) -> Tools:
    """The tools with the samples as their root, and a store of their own."""
    return Tools(Setup((str(samples),), str(tmp_path / "store"), no_config=True))


def ask(tools: Tools, name: str, **arguments: Any) -> dict[str, Any]:
    """The answer to a call; as JSON it is what it was."""
    said = answered(tools, name, arguments)
    assert "error" not in said, said
    answer: dict[str, Any] = said["answer"]
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
    assert size(answer) <= MOST_BYTES
    return answer


def refused(tools: Tools, name: str, **arguments: Any) -> str:
    """The sentence that a call is refused with."""
    said = answered(tools, name, arguments)
    assert set(said) == {"error"}, said
    return str(said["error"])


def test_diagnose_stores_the_run_and_names_it(tools: Tools) -> None:
    """GIVEN a training step WHEN diagnosed THEN its figures in ns, and the run for later calls; WHEN
    asked again by the id, by nothing, and by the path THEN the same run."""
    made = ask(tools, "diagnose", paths=[TRACE], top=3)
    assert made["totals"]["kernel_time_ns"] == 38_153_872
    assert made["run"]["files"] == [{"path": TRACE, "format": "torch-profiler", "role": None}]
    first = made["advice"][0]
    assert (first["entry"], first["rule"], first["share_of"]) == (1, "exposed-comm", "wall")
    assert first["bound_ns"] == 6_928_503
    assert [one["number"] for one in made["kernels"]] == [1, 2, 3]
    assert (made["entries_in_all"], made["kernels_in_all"]) == (2, 30)
    run = made["run"]["id"]
    for asked in ({"run": run}, {"run": run[:6]}, {}, {"run": TRACE}, {"paths": TRACE}):
        assert ask(tools, "diagnose", top=3, **asked)["run"]["id"] == run
    assert [one["id"] for one in ask(tools, "list", what="runs")["runs"]] == [run]


def test_files_that_did_not_change_are_read_once(tools: Tools, monkeypatch: Any) -> None:
    ask(tools, "diagnose", paths=[TRACE])
    monkeypatch.setattr("traceroof.ingest", None)
    ask(tools, "diagnose", paths=[TRACE])


def test_one_kernel(tools: Tools) -> None:
    run = ask(tools, "diagnose", paths=[TRACE])["run"]["id"]
    made = ask(tools, "diagnose", run=run, kernel=2)
    assert made["narrowed"] == {"wanted": "2", "kernels": 1, "of_kernels": 30}
    assert [one["number"] for one in made["kernels"]] == [2]
    assert made["kernels"][0]["share"] == pytest.approx(0.1476, abs=1e-4)
    assert "did you mean multi_tensor_apply_kernel?" in refused(
        tools, "diagnose", run=run, kernel="multi_tenser"
    )


def test_explain_by_entry_and_by_rule(tools: Tools) -> None:
    run = ask(tools, "diagnose", paths=[TRACE])["run"]["id"]
    one = ask(tools, "explain", run=run, entry=1)
    assert (one["rule"], one["state"]) == ("exposed-comm", "fired")
    assert one["condition"][0]["holds"] is True
    assert [step["label"] for step in one["bound"]] == ["share of the time", "time saved"]
    # What it says is never cut: it is what an agent acts on.
    assert not [text for text in one.values() if isinstance(text, str) and text.endswith("…")]
    assert ask(tools, "explain", run=run, rule="exposed-comm") == one
    of_kernel = ask(tools, "explain", run=run, rule="not-enough-metrics", subject=2)
    assert of_kernel["number"] == 2
    assert "takes an entry or a rule" in refused(tools, "explain", run=run)
    assert "takes an entry or a rule" in refused(tools, "explain", run=run, entry=1, rule="x")
    assert "there is no entry 9" in refused(tools, "explain", run=run, entry=9)
    assert "no rule is called nosuch" in refused(tools, "explain", run=run, rule="nosuch")


def test_card_has_units_and_bases(tools: Tools) -> None:
    """GIVEN a profiled layer WHEN the card of its first kernel is asked for THEN every figure has its
    unit, and percentages have what they are of."""
    sample = "nsight_compute/transformer_layer.raw.csv"
    run = ask(tools, "diagnose", paths=[sample])["run"]["id"]
    figures, more = [], None
    while True:
        made = ask(tools, "card", run=run, kernel=1, more=more)
        figures += made.get("figures", [])
        if (more := made.get("more")) is None:
            break
    by_name = {one["name"]: one for one in figures}
    assert len(by_name) == len(figures) > 30
    assert by_name["compute_pct"]["unit"] == "%"
    assert by_name["compute_pct"]["of"]
    assert by_name["dram_bytes"]["unit"] == "byte"


def test_next_capture_names_the_kernels_and_what_to_do_then(tools: Tools) -> None:
    run = ask(tools, "diagnose", paths=[TRACE])["run"]["id"]
    made = ask(tools, "next_capture", run=run)
    assert made["command"].startswith("ncu ")
    assert [one["number"] for one in made["kernels"]] == [2, 15, 26]
    assert made["then"] == {"tool": "diagnose", "paths": [TRACE, "THE_NEW_FILE"]}
    assert made["missing"][:2] == ["sm_throughput_pct", "memory_throughput_pct"]
    assert made["rules"][0] == "class"
    one = ask(tools, "next_capture", run=run, kernel="flash_fwd")
    assert [kernel["number"] for kernel in one["kernels"]] == [26]


def test_compare_says_what_is_missing(tools: Tools) -> None:
    """GIVEN one run per side WHEN compared THEN inconclusive, and that five runs per side decide."""
    made = ask(tools, "compare", base=TRACE, head="torch/training.rank1.json")
    assert made["verdict"] == "inconclusive"
    assert (made["needs"]["runs_a_side"], made["needs"]["runs_of_base"]) == (5, 1)
    assert made["open"][0]["name"].startswith("nccl")
    same = ask(tools, "compare", base=TRACE, head=TRACE, kernel="multi_tensor")
    assert (same["verdict"], same["needs"]) == ("unchanged", None)
    assert [one["verdict"] for one in same["unmoved"]] == ["unchanged"]


def test_lists(tools: Tools) -> None:
    assert ask(tools, "list", what="runs")["runs"] == []
    assert "no run is stored yet" in refused(tools, "list", what="kernels")
    ask(tools, "diagnose", paths=[TRACE])
    assert len(ask(tools, "list", what="kernels")["kernels"]) > 20
    rules = ask(tools, "list", what="rules")
    assert rules["rules"][0]["card"].startswith("traceroof://rules/")
    following = ask(tools, "list", what="rules", more=rules["more"])
    assert following["rules"][0]["id"] not in {one["id"] for one in rules["rules"]}
    devices = ask(tools, "list", what="devices")["devices"]
    v100 = next(one for one in devices if one["name"] == "V100-SXM2-16GB")
    # NVIDIA's data sheet: 900 GB/s, 125 TFLOP/s with tensor cores.
    assert v100["dram_bytes_per_s"] == 900e9
    assert v100["dense_flop_per_s"]["fp16"] == 125e12
    assert "need a run" in refused(tools, "list", what="rules", run="x")


@pytest.mark.parametrize(
    "run",
    [
        "../pyproject.toml", "/etc/passwd", "nsight_compute/../../README.md", "s3://bucket/run",
        "catalogue.db", "'; DROP TABLE runs; --", "%", "*", "a\0b", "", "x" * 1024, "../" * 300,
        "runs/31f0/../../../../etc/passwd", "\u202e",
    ],
)  # fmt: skip
def test_names_of_runs_open_no_files(tools: Tools, run: str) -> None:
    """GIVEN a name that is a path, a pattern or SQL WHEN a run is asked for by it THEN one short
    sentence, and the store is as it was."""
    ask(tools, "diagnose", paths=[TRACE])
    for name, arguments in (
        ("diagnose", {}), ("card", {"kernel": 1}), ("next_capture", {}), ("explain", {"entry": 1}),
    ):  # fmt: skip
        said = refused(tools, name, run=run, **arguments)
        assert len(said) <= 600
        assert "root:" not in said
    assert refused(tools, "compare", base=run, head=TRACE)
    assert len(ask(tools, "list", what="runs")["runs"]) == 1


def test_arguments_that_a_tool_does_not_take(tools: Tools) -> None:
    """GIVEN wrong arguments WHEN called THEN one sentence that names what is wrong."""
    assert "unknown field `pathz`" in refused(tools, "diagnose", pathz=["x"])
    assert "missing required field `kernel`" in refused(tools, "card", run="x")
    assert "at `top`" in refused(tools, "diagnose", top=0)
    assert "at `paths" in refused(tools, "diagnose", paths=[1])
    assert "no tool erase" in refused(tools, "erase")
    assert "not both" in refused(tools, "diagnose", paths=[TRACE], run="x")
    assert "not a profiler file" in refused(tools, "diagnose", paths=["README.md"])


def test_every_answer_on_every_sample_fits(tools: Tools, samples: Path) -> None:
    """GIVEN the samples of all formats WHEN all tools are asked, page by page, THEN every page fits and
    the pages end (``ask`` checks the size)."""
    found = [
        one
        for folder in ("nsight_compute", "torch", "nvprof", "rocprof_compute", "xplane", "proton")
        for one in sorted((samples / folder).iterdir())
    ]
    for file in found:
        path = file.relative_to(samples).as_posix()
        run = ask(tools, "diagnose", paths=[path], top=50)["run"]["id"]
        calls: list[tuple[str, dict[str, Any]]] = [
            ("diagnose", {"run": run, "top": 50}),
            ("card", {"run": run, "kernel": 1}),
            ("next_capture", {"run": run}),
            ("list", {"what": "kernels", "run": run}),
            ("compare", {"base": run, "head": run}),
        ]
        for name, arguments in calls:
            more, pages = None, 0
            while more or not pages:
                more = ask(tools, name, **arguments, more=more).get("more")
                pages += 1
                assert pages < 60
