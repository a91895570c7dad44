"""The walk-through of docs/combining.md is what the program prints today."""

from pathlib import Path

from docs.walk_through import page, walked


def test_the_walk_through_is_true(root: Path) -> None:
    """GIVEN a trace WHEN diagnosed, the printed ncu command played and both diagnosed THEN the page
    shows what was printed, and the counters gave the open kernels a class."""
    text = (root / "docs" / "combining.md").read_text("utf-8")
    walk = walked()
    assert page(text, walk) == text, "run python docs/walk_through.py"
    before, after = walk.split("more.csv --top 5")
    assert "multi_tensor_apply_ke…alse>>  not-evaluable" in before
    assert "multi_tensor_apply_ke…alse>>  dram-bound" in after
    # 5,631.6 + 577.8 of 38,171 µs: the time of the three kernels in the trace.
    assert "Counters cover 16.9 % of kernel time (3 of 30 kernels)" in after
