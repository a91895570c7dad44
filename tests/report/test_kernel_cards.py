"""Operator cards: one content for terminal, Markdown, JSON and the page."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.runs import recording, two_kernels
from traceroof.diagnosis.diagnose import diagnose
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.diagnosis.narrow import of_kernels
from traceroof.ingest.detect import read
from traceroof.report.common import json as json_report
from traceroof.report.html.kernel_card import Columns, card
from traceroof.report.run import kernel_cards
from traceroof.report.run.card_lines import Section
from traceroof.report.run.operator_card import sections


def product(**more: Any) -> Diagnosis:
    """A product of 1024 x 1024 x 1024 in bf16 on an A100, with counted bytes."""
    return diagnose(
        recording(
            {
                "kernel_name": ["gemm()"] * 3, "operator": ["aten::mm"] * 3,
                "input_shapes": ["[[1024, 1024], [1024, 1024]]"] * 3,
                "input_dtypes": ['["c10::BFloat16", "c10::BFloat16"]'] * 3,
                "duration_ns": [100_000, 102_000, 101_000],
                "sm_throughput_pct": [20.0] * 3, "memory_throughput_pct": [70.0] * 3,
                "dram_throughput_pct": [62.0] * 3, "dram_read_bytes": [100e6] * 3,
                "dram_write_bytes": [20e6] * 3,
                "achieved_occupancy_pct": [40.0] * 3, "theoretical_occupancy_pct": [50.0] * 3,
                "occupancy_limit_registers": [2] * 3, "occupancy_limit_shared_memory": [2] * 3,
                "occupancy_limit_blocks": [32] * 3, "registers_per_thread": [128] * 3,
                "stall_long_scoreboard": [0.6] * 3, "stall_barrier": [0.1] * 3,
                **more,
            }
        ),
        device="A100-SXM4-40GB",
    )  # fmt: skip


def lines_of(made: list[Section], key: str) -> dict[str, str]:
    return {line.label: line.text for one in made if one.key == key for line in one.lines}


@pytest.fixture(scope="module")
def made() -> list[Section]:
    run = of_kernels(product(), (0,))
    return sections(run.kernels[0], run.findings)


def test_what_was_launched(made: list[Section]) -> None:
    assert lines_of(made, "launches") == {
        "time": "303 µs (100.0 % of kernel time)",
        "launches": "3",
        "per launch": "101 µs (median) ± 1 µs",
        "category": "gemm",
        "operator": "aten::mm",
        "input shapes": "2 × 1024x1024",
        "input types": "2 × BFloat16",
        "sizes": "M=1024 N=1024 K=1024",
    }


def test_class_and_why(made: list[Section]) -> None:
    found = lines_of(made, "class")
    assert found["class"].startswith("memory-leaning: memory is the busier side")
    assert found["because"].startswith("compute 20 % of elapsed, memory 70 %")


def test_measured_and_least_bytes_with_their_ratio(made: list[Section]) -> None:
    """Least: 3 x 1024 x 1024 x 2 B = 6.29 MB; measured 120 MB, 19.1 times as much. Operations:
    2 x 1024^3 = 2.15 GFLOP. 120 MB in 101 µs are 1.19 TB/s, 76.4 % of 1,555 GB/s."""
    found = lines_of(made, "roof")
    assert found["DRAM traffic"] == "120 MB (counted)"
    assert (found["… read"], found["… written"]) == ("100 MB", "20 MB")
    assert found["least traffic"] == "6.29 MB (by its shapes)"
    assert found["moved over least"] == "19.1 times"
    assert found["operations"] == "2.15 GFLOP (by its shapes)"
    # 2.147e9 / 6.291e6 = 341.3; 312e12 / 1.555e12 = 200.6.
    assert found["intensity, by its shapes"] == "341 FLOP/byte (ridge 201)"
    assert found["bandwidth"] == "1.19 TB/s"
    assert found["… of nominal"] == "76.4 % of 1.55 TB/s"
    # Five sixths are read: 1,500 GB/s.
    assert found["… of attainable"] == "79.2 % of 1.50 TB/s (published for this GPU: read)"
    # 2.147e9 / 312e12 = 6.9 µs, of 101 µs.
    assert found["least time, by its shapes"] == "6.88 µs at nominal peaks"
    assert found["… over the time"] == "6.8 % (utilisation)"


def test_occupancy_with_what_limits_it(made: list[Section]) -> None:
    found = lines_of(made, "occupancy")
    assert found["registers"] == "128 per thread"
    assert found["limited by"] == "registers, shared memory: 2 blocks fit at once"
    stalls = lines_of(made, "stalls")
    assert list(stalls.items()) == [("long scoreboard", "60.0 %"), ("barrier", "10.0 %")]


def test_findings_and_what_is_missing(made: list[Section]) -> None:
    found = lines_of(made, "findings")
    assert "19.1 times as much" in found["excess-traffic"]
    assert "saves at most " in found["excess-traffic"]
    (missing,) = [one for one in made if one.key == "missing"]
    assert missing.command is not None
    assert missing.command.startswith("ncu --csv ")
    assert "gemm" in missing.command


def test_what_is_unknown_is_left_out() -> None:
    run = of_kernels(diagnose(recording({"kernel_name": ["k()"], "duration_ns": [None]})), (0,))
    made = sections(run.kernels[0], run.findings)
    assert [one.key for one in made] == ["launches", "class", "findings", "missing"]
    assert lines_of(made, "launches") == {"time": "unknown", "launches": "1", "category": "other"}
    text = kernel_cards.render(run)
    assert " 0 " not in text
    assert "nan" not in text


def test_terminal_markdown_and_page_say_the_same(made: list[Section]) -> None:
    run = of_kernels(product(), (0,))
    text = " ".join(kernel_cards.render(run, width=140).split())
    written = kernel_cards.render_markdown(run)
    found = [(0, one) for one in run.findings if one.state == "fired"]
    page = json.dumps(card(run, 0, Columns(), found, named=300), ensure_ascii=False)
    for one in made:
        assert one.title in text
        assert f"**{one.title}**" in written
        for line in one.lines:
            assert line.label in text
            assert line.label.split("[")[0] in written
            if one.key in ("roof", "occupancy", "uses"):
                assert json.dumps(line.text, ensure_ascii=False) in page
    assert "#1 gemm()" in text


def test_names_from_a_file_are_harmless() -> None:
    run = of_kernels(diagnose(two_kernels()), (1,))
    written = kernel_cards.render_markdown(run)
    assert "### #2 ``wait\\|<b>`x`@me(int)``" in written
    evil = recording({"kernel_name": ["k\x1b[31m" + "n" * 6000], "duration_ns": [1000]})
    text = kernel_cards.render(of_kernels(diagnose(evil), (0,)), width=80)
    assert "\x1b" not in text
    assert "…" in text
    assert max(len(line) for line in text.splitlines() if "collect it" not in line) <= 80


def test_bars_stay_within_their_column() -> None:
    run = of_kernels(diagnose(two_kernels()), (0,))
    (uses,) = [one for one in sections(run.kernels[0], ()) if one.key == "uses"]
    assert [(line.label, line.bar) for line in uses.lines] == [
        ("compute", 10.0), ("memory", 90.0), ("DRAM", 90.0),
    ]  # fmt: skip


def test_amd_words(samples: Path) -> None:
    run = of_kernels(diagnose(read([samples / "rocprof_compute/MI210"])), (0,))
    text = kernel_cards.render(run)
    assert "tensor cores" not in text
    assert "warps" not in text


def test_several_cards_and_those_left_out() -> None:
    text = kernel_cards.render(of_kernels(diagnose(two_kernels()), (0, 1)), left_out=3)
    assert "#1 copy<float>(float *)" in text
    assert "#2 wait" in text
    assert "3 more kernels have that name" in text


def test_json_of_some_kernels_follows_the_schema(root: Path) -> None:
    schema = json.loads((root / "docs/diagnosis.schema.json").read_text("utf-8"))
    made = json.loads(json_report.render(of_kernels(product(), (0,))))
    jsonschema.validate(made, schema)
    (kernel,) = made["kernels"]
    assert kernel["number"] == 1
    assert kernel["roofline"]["traffic_basis"] == "measured"
    assert kernel["roofline"]["bytes"] == 120e6
    assert kernel["modelled_roofline"]["traffic_basis"] == "model"
    assert kernel["modelled_roofline"]["bytes"] == 3 * 1024 * 1024 * 2
    assert kernel["metrics"]["traffic_ratio"] == pytest.approx(120e6 / 6291456)
    assert made["findings"]
    assert {found["subject_index"] for found in made["findings"]} == {0}
    (excess,) = [found for found in made["findings"] if found["rule"] == "excess-traffic"]
    product_of_factors = 1.0
    for _, factor in excess["confidence_factors"]:
        product_of_factors *= factor
    assert excess["confidence"] == pytest.approx(product_of_factors, abs=0.006)


def test_no_peaks_no_word_on_where_they_are_from() -> None:
    """GIVEN bytes counted on a GPU that the file does not name: no peak is known."""
    columns: dict[str, Any] = {
        "kernel_name": ["copy_k"], "duration_ns": [100_000], "dram_read_bytes": [1e8],
        "dram_write_bytes": [1e8],
    }  # fmt: skip
    for device, words in ((None, None), ("A100-SXM4-40GB", "the device table")):
        run = of_kernels(diagnose(recording(columns), device=device), (0,))
        roof = lines_of(sections(run.kernels[0], run.findings), "roof")
        assert roof["DRAM traffic"] == "200 MB (counted)"
        assert roof.get("peaks from") == words
