"""Progress, as a terminal shows it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scale.ranks import written

# The command line in a process of its own that shows progress at once, not after a second.
_SHOWN = """
import sys
from traceroof.report.common import progress

progress._PATIENCE_SECONDS = -1.0
from traceroof.cli.main import main

main()
"""


def on_a_terminal(arguments: list[str]) -> str:
    """What a command writes to stderr where that is a terminal of 100 columns."""
    import pty

    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "NO_COLOR": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", _SHOWN, *arguments],
        stdout=subprocess.DEVNULL, stderr=theirs, env=environment,
    ) as process:  # fmt: skip
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 1 << 16):
                shown += part
        except OSError:  # Linux: the other end was closed
            pass
        os.close(ours)
        assert process.wait() == 0, shown
    return shown.decode("utf-8", "replace")


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals there")
def test_ranks_done_the_rate_and_the_time_left_are_shown(tmp_path: Path) -> None:
    files = written(tmp_path, 4)
    shown = on_a_terminal(["diagnose", *map(str, files), "--no-config"])
    assert "4 of 4 files" in shown
    size = sum(file.stat().st_size for file in files)
    assert f"{size / 1000:.1f}/{size / 1000:.1f} kB" in shown
    assert re.search(r"B/s", shown)
    assert "0:00:00" in shown
