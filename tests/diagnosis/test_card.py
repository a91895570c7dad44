"""The card of one kernel: every figure with its unit and basis, and nothing in place of what is unknown."""

import json
from pathlib import Path

import pytest

import traceroof
from tests.runs import two_kernels
from traceroof.diagnosis.card import card_of
from traceroof.diagnosis.diagnose import diagnose
from traceroof.errors import TraceroofError

LAYER = "nsight_compute/transformer_layer.raw.csv"


def test_figures_have_units_and_bases() -> None:
    card = card_of(diagnose(two_kernels()), "copy")
    by_name = {one.name: one for one in card.figures_known}
    assert (by_name["dram_pct"].value, by_name["dram_pct"].unit) == (90.0, "%")
    assert by_name["dram_pct"].of == "elapsed"
    assert by_name["dram_pct"].meaning
    assert card.value("dram_pct") == 90.0
    assert (card.kernel.number, card.also_meant) == (1, 0)


def test_what_is_unknown_is_said_with_what_collects_it() -> None:
    """GIVEN a kernel without counts of local memory WHEN asked for them THEN an error with the command;
    WHEN asked for no column THEN the ones that are near."""
    card = card_of(diagnose(two_kernels()), "2")
    with pytest.raises(TraceroofError, match="registers_per_thread of wait") as raised:
        card.value("registers_per_thread")
    assert "ncu" in raised.value.hint
    with pytest.raises(TraceroofError, match="no column is called dram_percent") as raised:
        card.value("dram_percent")
    assert "dram_pct" in raised.value.hint


def test_of_several_the_one_with_the_most_time(samples: Path) -> None:
    card = traceroof.card(samples / LAYER, "s16816gemm", config=False)
    assert (card.kernel.number, card.also_meant) == (1, 3)
    again = traceroof.card(traceroof.diagnose(samples / LAYER, config=False), 1)
    assert again.kernel == card.kernel
    with pytest.raises(TraceroofError, match="no kernel has 'nosuch'"):
        traceroof.card(samples / LAYER, "nosuch", config=False)


def test_json(samples: Path) -> None:
    made = traceroof.card(samples / LAYER, 1, config=False).to_dict()
    assert made["schema"] == "traceroof/card/1"
    assert made["kernel"]["class"] == "compute-bound"
    assert {one["rule"] for one in made["findings"]} >= {"compute-tensor-bound"}
    assert json.dumps(made, allow_nan=False)
