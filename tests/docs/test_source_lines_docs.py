"""The page on source lines names every column of the source table."""

import re
from pathlib import Path

from traceroof.core.source_lines import REASONS, SOURCE


def test_every_column_is_on_the_page(root: Path) -> None:
    page = (root / "docs/source-lines.md").read_text("utf-8")
    table = page.partition("## The source table")[2]
    named = set(re.findall(r"`(\w+)`", table))
    reasons = {f"samples_{reason}" for reason in REASONS}
    assert set(SOURCE.names) - reasons <= named
    # Reasons stand without their prefix, but for the one that is no stall.
    assert set(REASONS) - {"selected"} <= named
