"""The lines that findings on real reports name: parts of the finding's bound, and the lines at which the
raw samples and counts are."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.parsers import ncu_wire as wire
from tests.parsers.report_table import CORPUS, program_counters
from traceroof.core.source_lines import SAMPLES_OF
from traceroof.diagnosis.diagnose import diagnose
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.parser import Options, silent
from traceroof.parsers.nsight_compute_report import PARSER

REPORTS = sorted(CORPUS.glob("*.ncu-rep")) if CORPUS.is_dir() else []
#: Rule -> what of the raw metrics it finds at a line: samples of a reason.
_REASONS = {f"stall-{reason.replace('_', '-')}": reason for reason in SAMPLES_OF}


def judged(path: Path) -> Diagnosis:
    return diagnose(PARSER.read(path, silent, Options()))


@pytest.mark.corpus
@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.name)
def test_lines_are_parts_and_never_add_up_to_more(path: Path) -> None:
    """The lines of a kernel have no more than its samples and its time; those of a finding no more than
    its bound."""
    made = judged(path)
    for kernel in made.kernels:
        if kernel.source_lines is None:
            continue
        lines = kernel.source_lines.lines
        assert sum(one.counts.get("samples", 0) for one in lines) <= kernel.source_lines.samples
        assert sum(one.share or 0 for one in lines) <= 1 + 1e-9
        assert sum(one.time_ns or 0 for one in lines) <= (kernel.time_ns or 0)
        assert all(sum(share for _, share in one.stalls) <= 1 + 1e-9 for one in lines)
    for finding in made.findings:
        assert sum(one.share for one in finding.lines) <= 1 + 1e-9
        assert all(0 < one.share <= 1 for one in finding.lines)
        known = [one.bound_ns for one in finding.lines if one.bound_ns is not None]
        if known:
            assert finding.time_saved_bound_ns is not None
            assert sum(known) <= finding.time_saved_bound_ns <= kernel_time(made, finding)
        # Sorted: the first is the one that the sentence names.
        shares = [one.share for one in finding.lines]
        assert shares == sorted(shares, reverse=True)


def kernel_time(made: Diagnosis, finding: Any) -> int:
    return made.kernels[finding.subject_index].time_ns or 0


@pytest.mark.corpus
def test_the_line_is_where_the_raw_samples_are() -> None:
    """Of every fired stall rule, the named instruction and its share are those of the raw samples, as
    the second decoder reads them."""
    named = []
    for path in REPORTS:
        recording = PARSER.read(path, silent, Options())
        made = diagnose(recording)
        table = recording.source_lines.to_pylist()
        results = wire.results(path)
        for finding in made.fired():
            reason = _REASONS.get(finding.rule)
            if not finding.lines or reason is None:
                continue
            name = made.kernels[finding.subject_index].kernel  # type: ignore[index]
            counts = Counter[tuple[Any, ...]]()
            for launch, one in enumerate(results):
                if recording.kernels["kernel_name"][launch].as_py() != name:
                    continue
                rows = [row for row in table if row["row"] == launch]
                samples = one.instances[f"smsp__pcsamp_warps_issue_stalled_{reason}"]
                for pc, row in zip(program_counters(one), rows, strict=True):
                    place = (row["file"], row["line"]) if row["line"] else (row["address"],)
                    counts[place] += samples.get(pc, 0)
            [(place, most), *_] = counts.most_common(1)
            line = finding.lines[0]
            assert ((line.file, line.line) if line.line else (line.address,)) == place
            assert line.share == pytest.approx(most / counts.total())
            named.append((path.name, finding.rule))
    # One of bwd29's kernel and one of the report of 2025-04-21, at least.
    assert len({path for path, _ in named}) >= 2
