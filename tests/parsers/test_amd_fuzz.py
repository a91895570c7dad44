"""Damaged AMD files: a recording that is whole in itself, or a reason; never a traceback."""

import random
import shutil
from pathlib import Path

import pytest

from tests.mutate import fuzz_count, mutate, time_limit
from tests.parsers.amd_fixtures import PARSERS
from tests.parsers.test_amd_formats import hipprof_rows, v3_json, v3_record
from tests.parsers.test_amd_rocpd import OWN_SCHEMA, SECRET, write_counted
from traceroof.core.kernel_table import KERNELS
from traceroof.core.recording import Recording
from traceroof.diagnosis.diagnose import diagnose
from traceroof.errors import TraceroofError
from traceroof.parser import HEAD_BYTES, Options, silent
from traceroof.report.run import terminal

_LARGEST = 120_000
_DIAGNOSED = 0.2


def _made(root: Path, tmp_path: Path) -> list[bytes]:
    database = tmp_path / "seed.db"
    write_counted(database, OWN_SCHEMA)
    samples = root / "sample_traces"
    files = [*(samples / "rocprofv3").rglob("*.csv"), *(samples / "rocprof_compute").rglob("*.csv")]
    return [
        database.read_bytes(),
        v3_json(kernel_dispatch=[v3_record(n, n * 10, n * 10 + 5) for n in range(9)]).encode(),
        hipprof_rows("TCC_EA_RDREQ", 10).encode(),
        *(path.read_bytes()[:_LARGEST] for path in sorted(files)),
    ]


def _real(root: Path) -> list[bytes]:
    folder = root.parent / "shared" / "corpus" / "amd"
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    small = [path for path in files if path.stat().st_size <= 2 * _LARGEST]
    return [path.read_bytes()[:_LARGEST] for path in small]


def _whole(recording: Recording) -> bool:
    """Whether rows, sources and raw metrics of a recording fit together."""
    count = recording.kernels.num_rows
    rows = recording.raw_metrics["row"].to_pylist()
    sources = recording.kernels["source"].to_pylist()
    return (
        count > 0
        and recording.kernels.schema == KERNELS
        and all(0 <= row < count for row in rows)
        and all(0 <= source < len(recording.sources) for source in sources)
        and all((one or 1) > 0 for one in recording.kernels["duration_ns"].to_pylist())
    )


@pytest.mark.fuzz
def test_damaged_files_give_a_recording_or_a_reason(root: Path, tmp_path: Path) -> None:
    seeds = _made(root, tmp_path) + _real(root)
    databases = [data for data in seeds if data.startswith(b"SQLite")]
    rng = random.Random(4)
    path = tmp_path / "damaged"
    said: list[str] = []
    for number in range(fuzz_count(200)):
        # Databases are few among the seeds, and the only binary ones.
        seed = rng.choice(databases if number % 4 == 0 else seeds)
        data = mutate(seed, rng, seeds)
        path.write_bytes(data)
        for parser in PARSERS:
            with time_limit(30):
                sure = parser.recognises(data[:HEAD_BYTES], path) if data else 0
                # A reader must live with what it did not recognise, too: now and then it is asked.
                if not sure and rng.random() > 0.05:
                    continue
                try:
                    recording = parser.read(path, silent, Options())
                except TraceroofError as refused:
                    said.append(str(refused))
                    continue
            assert _whole(recording), (number, parser.name)
            if rng.random() < _DIAGNOSED:
                # Whatever numbers came through, rules and reports take them.
                terminal.render(diagnose(recording))
    assert said
    assert not any(SECRET in text for text in said)


@pytest.mark.fuzz
def test_damaged_folders_give_a_recording_or_a_reason(root: Path, tmp_path: Path) -> None:
    samples = root / "sample_traces"
    rng = random.Random(5)
    for number in range(max(fuzz_count(200) // 10, 1)):
        folder = tmp_path / "folder"
        shutil.copytree(samples / rng.choice(["rocprofv3", "rocprof_compute"]), folder)
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        for path in rng.sample(files, min(3, len(files))):
            path.write_bytes(mutate(path.read_bytes(), rng))
        for parser in PARSERS:
            with time_limit(30):
                if parser.recognises(b"", folder):
                    try:
                        recording = parser.read(folder, silent, Options())
                    except TraceroofError:
                        continue
                    assert _whole(recording), (number, parser.name)
        shutil.rmtree(folder)
