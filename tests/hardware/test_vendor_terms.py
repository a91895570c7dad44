"""One text of a rule in the words of two vendors."""

import re

import pytest

from traceroof.hardware.vendor_terms import (
    AMD,
    NVIDIA,
    on_card,
    said,
)
from traceroof.plugins import rules

TEXTS = ("title", "why", "because", "fix", "refute")


@pytest.mark.parametrize(
    ("text", "amd"),
    [
        ("Warps of a block wait", "Wavefronts of a workgroup wait"),
        ("0.5 waves of blocks on 108 multiprocessors", "0.5 rounds of workgroups on 108 compute units"),
        ("a warp (wavefront) and a warpgroup", "a wavefront and a warpgroup"),
        ("Shared memory (LDS), shared-memory wavefronts", "LDS, LDS cycles"),
        ("tensor-core use; the tensor cores (matrix cores)", "MFMA use; the matrix cores (MFMA)"),
        # Wavefronts stay, and so do names of columns and words that only begin alike.
        ("wavefronts, {blocks:.0f} blocks, blocking", "wavefronts, {blocks:.0f} workgroups, blocking"),
    ],
)  # fmt: skip
def test_things_have_their_names_of_either_vendor(text: str, amd: str) -> None:
    assert said(text, NVIDIA) == text
    assert said(text, AMD) == amd


def test_clauses_are_for_one_vendor() -> None:
    text = "buffer[nvidia:  with TMA][amd:  through LDS], then wait"
    assert said(text, NVIDIA) == "buffer with TMA, then wait"
    assert said(text, AMD) == "buffer through LDS, then wait"
    assert on_card(text) == "buffer with TMA (AMD: through LDS), then wait"
    # Other clauses are the sentence's: they depend on what is known.
    assert said("x[ ({waves} waves)]", AMD) == "x[ ({waves} rounds)]"


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.id)
def test_texts_read_well_in_both(rule: object) -> None:
    for name in TEXTS:
        for vendor in (NVIDIA, AMD):
            text = said(getattr(rule, name), vendor)
            assert not re.search(r"\[(nvidia|amd)|  | [,.;)]|\( ", text), (name, vendor, text)
        assert not re.search(r"\b([Ww]arps?|[Mm]ultiprocessors?)\b", text), text


def test_the_verb_is_no_thread_block() -> None:
    assert said("Copies block the host", "amd") == "Copies block the host"
    assert said("blocks of the grid", "amd") == "workgroups of the grid"
