"""Databases of every tool with a journal beside them: read as SQLite would, or refused."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from tests.parsers.amd_writers import WRITERS
from traceroof.errors import TraceroofError
from traceroof.ingest.detect import read

US = 1_000
LAUNCHES = [("k(float*)", 7_000_000_000_000 + at * 500 * US, 7_000_000_000_000 + at * 500 * US + 200 * US)
            for at in range(20)]  # fmt: skip
#: Tool -> the change of an unfinished transaction: every launch a hundred times as long.
CHANGES = {
    "rocprof_v1_db": 'UPDATE OPS SET "EndNs" = "BeginNs" + 20000000',
    "rpd": 'UPDATE rocpd_op SET "end" = "start" + 20000000',
    "hipprof_db": 'UPDATE HIPOPS_9 SET "EndNs" = "BeginNs" + 20000000',
    "rocpd": 'UPDATE "rocpd_kernel_dispatch_00003fdc_92cb_72cb_9169_c7e541b1fcdf" '
    'SET "end" = "start" + 20000000',
}  # fmt: skip


def copied(source: Path, folder: Path, ends: tuple[str, ...]) -> Path:
    folder.mkdir()
    for end in ("", *ends):
        shutil.copyfile(f"{source}{end}", folder / f"{source.name}{end}")
    return folder / source.name


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def total(path: Path) -> int:
    return sum(read([path]).kernels["duration_ns"].to_pylist())


@pytest.mark.parametrize("tool", CHANGES)
def test_a_hot_journal(tool: str, tmp_path: Path) -> None:
    """GIVEN pages of a transaction that was not ended THEN refused, the file and its folder."""
    source = WRITERS[tool](tmp_path, LAUNCHES)
    connection = sqlite3.connect(source, isolation_level=None)
    connection.execute("PRAGMA cache_size = 1")
    connection.execute("BEGIN EXCLUSIVE")
    connection.execute(CHANGES[tool])
    connection.execute("CREATE TABLE filler (a)")
    for _ in range(200):  # more than the cache holds, so that pages are written
        connection.execute("INSERT INTO filler VALUES (zeroblob(5000))")
    torn = copied(source, tmp_path / "torn", ("-journal",))
    connection.execute("ROLLBACK")
    connection.close()
    for path in (torn, torn.parent):
        with pytest.raises(TraceroofError, match="-journal lies beside it"):
            read([path])


@pytest.mark.parametrize("tool", CHANGES)
@pytest.mark.parametrize("ends", [("-wal", "-shm"), ("-wal",)])
def test_a_write_ahead_log(tool: str, ends: tuple[str, ...], tmp_path: Path) -> None:
    """GIVEN a database that was not closed THEN its last transaction counts; no file changes."""
    source = WRITERS[tool](tmp_path, LAUNCHES)
    connection = sqlite3.connect(source, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute(CHANGES[tool])
    torn = copied(source, tmp_path / "torn", ends)
    connection.close()
    before = content(torn.parent)
    assert total(torn) == total(torn.parent) == 20 * 20_000 * US
    assert content(torn.parent) == before


@pytest.mark.parametrize("journal", [b"", bytes(512)])
def test_a_journal_that_is_done_with(journal: bytes, tmp_path: Path) -> None:
    """GIVEN a journal that was emptied or zeroed (truncate, persist) THEN the database is whole."""
    path = WRITERS["rpd"](tmp_path, LAUNCHES)
    path.with_name(path.name + "-journal").write_bytes(journal)
    assert total(path) == total(tmp_path) == 20 * 200 * US
    assert not read([tmp_path]).notes
