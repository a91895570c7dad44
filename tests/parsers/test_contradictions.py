"""One value of a sound file damaged, where another one of the file shows it: a note says so."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import traceroof
from tests.fuzzing.seeds import _v1_csv, _v1_json
from tests.parsers.ncu_fixtures import Launch, Metric, details
from tests.parsers.test_nvprof import TRACE

ROOT = Path(__file__).resolve().parents[2]
_COPY = "copies whose size and throughput contradict their duration: unknown"
_LAUNCH = '{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":%d,"dur":5,"args":{}}'


def _sample(name: str) -> str:
    return (ROOT / name).read_text()


def _doubled_root(text: str) -> str:
    tree = json.loads(text)
    return json.dumps([tree[0], *tree])


def _units() -> str:
    """Three launches of 1,234 ns, in base units."""
    return details(
        [Launch([Metric("gpu__time_duration.sum", "nsecond", "1,234")], id=at) for at in range(3)]
    )


def _cycles() -> str:
    """100 us are 150,000 cycles at 1.5 GHz."""
    told = [
        Metric("gpu__time_duration.sum", "us", "100.00"),
        Metric("gpc__cycles_elapsed.max", "cycle", "150,000"),
        Metric("gpc__cycles_elapsed.avg.per_second", "Ghz", "1.50"),
    ]
    return details([Launch(told)])


def _rpd() -> str:
    events = ",".join(
        f'{{"name":"k","ph":"X","ts":"{at}","dur":"5","pid":"2","tid":"0","args":{{"desc":"KernelExecution"}}}}'
        for at in (10, 20, 30)
    )
    return f'[{{}},{{"name":"process_name","ph":"M","pid":"2","args":{{"name":"GPU2"}}}},{events}]'


_STATS = (
    '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n"k",2,90,45,90\n"j",1,10,10,10\n'
)


def _first(before: str, after: str) -> Callable[[str], str]:
    def changed(text: str) -> str:
        assert before in text
        return text.replace(before, after, 1)

    return changed


# File -> (its sound text, the damage, the note, launches of known time, sound and damaged).
CASES: dict[str, tuple[Callable[[], str], Callable[[str], str], str, tuple[int, int]]] = {
    # nvprof replays each kernel for each metric and counts its launches once.
    "launches.metrics.csv": (
        lambda: _sample("sample_traces/nvprof/scale.metrics.csv"),
        _first(',4,"achieved', ',9,"achieved'), "several numbers of launches", (0, 0),
    ),
    "uncounted.metrics.csv": (
        lambda: _sample("sample_traces/nvprof/scale.metrics.csv"),
        _first(',4,"achieved', ',text,"achieved'), "number of launches cannot be read", (0, 0),
    ),
    "name.metrics.csv": (
        lambda: _sample("sample_traces/nvprof/scale.metrics.csv"),
        _first("void scale<float>(float*, float, int)", "text"),
        "without all the metrics of the others", (0, 0),
    ),
    # 64 MB at 10.24 GB/s take 6.1 ms, not 6.1 us.
    "copy.gpu_trace.csv": (
        lambda: _sample("sample_traces/nvprof/scale.gpu_trace.csv"),
        _first("6.100806", "0.006100"), _COPY, (9, 8),
    ),
    # The unit of the column is wrong where both copies say so.
    "unit.gpu_trace.csv": (
        lambda: TRACE, _first("s,ms,,", "s,us,,"), "whose unit the size and throughput", (3, 0),
    ),
    "training.kern_sum.csv": (
        lambda: _sample("sample_traces/nsight_systems/training.kern_sum.csv"),
        _first(",60,611818.0", ",text,611818.0"), "rows without a number of launches", (4, 3),
    ),
    "count.hatchet": (
        lambda: _sample("sample_traces/proton/matmul.hatchet"),
        _first('"count": 100', '"count": 0'), "a count taken as 1", (2, 2),
    ),
    "root.hatchet": (
        lambda: _sample("sample_traces/proton/matmul.hatchet"), _doubled_root,
        "nodes that stand in the tree twice", (2, 2),
    ),
    # Queued at 401 ns.
    "results.csv": (
        lambda: _v1_csv().decode(), _first(",401,410,", ",401,5,"), "before they were queued", (9, 8),
    ),
    "results.json": (
        lambda: _v1_json().decode(), _first('"EndNs":"14000"', '"EndNs":"15000"'),
        "contradict their stated duration", (8, 7),
    ),
    "phase.results.json": (
        lambda: _v1_json().decode(), _first('{"ph":"X"', '{"ph":""'), "an unknown phase", (8, 7),
    ),
    "trace.json": (
        lambda: f'{{"traceEvents":[{_LAUNCH % 10},{_LAUNCH % 20}]}}', _first('"ph":"X"', '"ph":""'),
        "an unknown phase (ph)", (2, 1),
    ),
    "rpd.json": (_rpd, _first('"ts":"20"', '"ts":"text"'), "times that are not numbers", (3, 3)),
    "results.stats.csv": (
        lambda: _STATS, _first('"k"', '""'), "rows without a name", (2, 2),
    ),
    # Cycles and clock say what the time is.
    "cycles.csv": (_cycles, _first('"us","100.00"', '"ms","100.00"'), "cycles and clock", (1, 0)),
    # Base units have no microseconds beside 1,234 ns.
    "units.csv": (_units, _first('"nsecond"', '"usecond"'), "durations in a larger unit", (3, 3)),
}  # fmt: skip


def _known(path: Path) -> tuple[int, set[str]]:
    recording = traceroof.read(path).recording
    column = recording.kernels["duration_ns"]
    return len(column) - column.null_count, {note.text for note in recording.notes}


@pytest.mark.parametrize("name", CASES)
def test_what_another_value_contradicts_is_noted(name: str, tmp_path: Path) -> None:
    """GIVEN a sound file and the same with one value damaged WHEN read THEN only the second has the
    note, and no time that cannot be."""
    sound, damage, text, expected = CASES[name]
    path = tmp_path / name
    for changed, launches in zip((False, True), expected, strict=True):
        path.write_text(damage(sound()) if changed else sound())
        known, notes = _known(path)
        assert known == launches, notes
        assert any(text in one for one in notes) == changed, notes
