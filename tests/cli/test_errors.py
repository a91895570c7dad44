"""What goes wrong is one sentence and exit 2; signals clean up; nothing reaches a terminal raw."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import traceroof
from traceroof.cli import main as command
from traceroof.core.units import no_commands, one_line
from traceroof.errors import TraceroofError
from traceroof.store import Store
from traceroof.store.catalogue import _engine_of

RUN = [sys.executable, "-m", "traceroof"]
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("TRACEROOF_")}


def test_an_unexpected_error_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """GIVEN a defect in a command WHEN run THEN exit 2 and one sentence; with TRACEROOF_DEBUG the
    place where it happened."""

    def broken(**_: object) -> None:
        raise ZeroDivisionError("a defect\x1b[31m")

    monkeypatch.setattr(command, "app", broken)
    for debug in (False, True):
        if debug:
            monkeypatch.setenv("TRACEROOF_DEBUG", "1")
        with pytest.raises(SystemExit) as ended:
            command.main()
        said = capsys.readouterr().err
        assert ended.value.code == 2
        assert ("Traceback" in said) is debug
        assert debug or "unexpected error: ZeroDivisionError: a defect\\x1b[31m" in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    """GIVEN a command that waits for stdin WHEN a signal comes THEN 128 + n, no traceback, no file."""
    process = subprocess.Popen(
        [*RUN, "diagnose", "-"], stdin=subprocess.PIPE, stderr=subprocess.PIPE,
        env=CLEAN | {"TMPDIR": str(tmp_path)}, cwd=tmp_path,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not list(tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert list(tmp_path.iterdir())
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert b"Traceback" not in said
    assert not list(tmp_path.iterdir())


def test_closed_streams(tmp_path: Path) -> None:
    """GIVEN closed stderr or stdin WHEN something goes wrong THEN exit 2 all the same."""
    for line in ("diagnose nosuch 2>&-", "diagnose - <&-"):
        done = subprocess.run(
            ["sh", "-c", f"{sys.executable} -m traceroof {line}"],
            env=CLEAN,
            cwd=tmp_path,
            check=False,
        )
        assert done.returncode == 2


def test_names_of_files_are_shown_as_escapes(tmp_path: Path) -> None:
    """GIVEN a file whose name is a terminal command WHEN refused THEN the name as escapes."""
    path = tmp_path / "a\x1b]0;x\x07\u202eb.csv"
    path.write_text("nothing")
    done = subprocess.run(
        [*RUN, "diagnose", str(path)], env=CLEAN, cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode == 2
    assert b"\x1b" not in done.stderr
    assert rb"a\x1b]0;x\x07\u202eb.csv" in done.stderr
    assert one_line("é…\n") == "é…\\n"


def test_lines_are_no_commands_of_a_ci_runner() -> None:
    """GIVEN a line that begins with ::, or holds ##[, WHEN printed THEN it is broken."""
    assert no_commands("a ::b\n  ::error::x\n::set") == "a ::b\n  : :error::x\n: :set"
    assert no_commands("a ##[error]x ##vso[a]b ## c") == "a # #[error]x # #vso[a]b ## c"


@pytest.mark.parametrize("name", ["", "  ", "-h", "--", "..", ".", "é" * 150, "a\nb", "x" * 201])
def test_names_that_are_none(tmp_path: Path, root: Path, name: str) -> None:
    """GIVEN a name that is an option, a path or too long for a file WHEN ingested THEN refused."""
    sample = root / "sample_traces" / "nsight_compute" / "transformer_layer.metrics.csv"
    with pytest.raises(TraceroofError, match="cannot be a name"):
        Store.open(tmp_path).add(traceroof.read(sample).recording, name=name, digest="ab" * 32)


def test_catalogues_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN one relative address in two folders, or two users of one server WHEN opened THEN two
    identities; no label has a login or a part of a password."""
    identities = []
    for name in ("p1", "p2"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        identities.append(_engine_of("sqlite:///cat.db")[2])
    for address in ("postgresql://anna:se@cret@host/db", "postgresql://bob:other@host/db"):
        _, label, identity = _engine_of(address.replace("postgresql:", "postgresql+psycopg:"))
        identities.append(identity)
        assert label == "postgresql+psycopg://host/db"
    assert len(set(identities)) == 4


def test_two_catalogues_over_one_folder_do_not_sweep_each_other(tmp_path: Path, root: Path) -> None:
    """GIVEN a writer killed after its commit, with a catalogue of the same relative address WHEN
    another project writes into the same store folder THEN the first one's run is still there."""
    sample = root / "sample_traces" / "nsight_compute" / "transformer_layer.metrics.csv"
    other = root / "sample_traces" / "nsight_compute" / "transformer_layer.raw.csv"
    env = CLEAN | {
        "TRACEROOF_STORE": str(tmp_path / "store"),
        "TRACEROOF_CATALOGUE": "sqlite:///cat.db",
    }
    kill = (
        "import os, signal, traceroof\nfrom traceroof.store import cleanup\n"
        "cleanup._settle = lambda store, claim: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"traceroof.ingest([{str(sample)!r}], name='first')"
    )
    for name in ("p1", "p2"):
        (tmp_path / name).mkdir()
    killed = subprocess.run([sys.executable, "-c", kill], env=env, cwd=tmp_path / "p1", check=False)
    assert killed.returncode == -signal.SIGKILL
    subprocess.run([*RUN, "ingest", str(other)], env=env, cwd=tmp_path / "p2", check=True)
    subprocess.run([*RUN, "diagnose", "first"], env=env, cwd=tmp_path / "p1", check=True)
