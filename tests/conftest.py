"""What every test may ask for."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from glob import glob
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine makes any single example slow: time is measured by benchmarks, never by tests.
settings.register_profile("traceroof", deadline=None)
# CI answers for the change at hand, so it draws the same examples each time. A developer's run
# draws others, and adds what it finds as an example.
settings.register_profile("traceroof-ci", settings.get_profile("traceroof"), derandomize=True)
settings.load_profile("traceroof-ci" if "TRACEROOF_CI" in os.environ else "traceroof")

ROOT = Path(__file__).resolve().parent.parent

#: Ask for more tests, and change no result.
KEPT_VARIABLES = {"TRACEROOF_CI", "TRACEROOF_FUZZ"}


def pytest_configure() -> None:
    """Forget the user's settings before anything reads them, and for every process of a test."""
    for name in [name for name in os.environ if name.startswith("TRACEROOF_")]:
        if name not in KEPT_VARIABLES:
            del os.environ[name]
    # Nor do settings in a folder above the checkout, or above a test's, change a result.
    os.environ["TRACEROOF_CONFIG"] = ""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the golden files anew; read the difference line by line before committing",
    )


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def samples(root: Path) -> Path:
    """The sample traces that ship with the project."""
    return root / "sample_traces"


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Real profiler output beside the checkout; tests that need it skip where it is absent."""
    folder = ROOT.parent / "shared" / "corpus"
    if not folder.is_dir():
        pytest.skip("no ../shared/corpus beside the checkout")
    return folder


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The socket folder of a PostgreSQL server of our own, which listens nowhere else."""
    found = [shutil.which("initdb"), *sorted(glob("/usr/lib/postgresql/*/bin/initdb"))]
    initdb = next((path for path in reversed(found) if path), None)
    if initdb is None or not find_spec("psycopg"):
        missing = "PostgreSQL and psycopg are not both installed"
        if os.environ.get("TRACEROOF_CI") == "1":
            pytest.fail(missing)
        pytest.skip(missing)
    # The path of a socket is short, and the server refuses to run as root.
    user = "nobody" if os.getuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="pg") as place:
        if user:
            shutil.chown(place, user)
        data, ctl = f"{place}/data", str(Path(initdb).with_name("pg_ctl"))
        options = f"-k {place} -c listen_addresses='' -c fsync=off"

        def run(*command: str) -> None:
            subprocess.run(
                command, user=user, cwd=place, check=True, stdout=subprocess.DEVNULL, timeout=120
            )

        run(initdb, "-D", data, "-A", "trust", "-U", "tester", "--no-sync", "-E", "UTF8")
        run(ctl, "-D", data, "-l", f"{place}/log", "-w", "-o", options, "start")
        try:
            yield place
        finally:
            run(ctl, "-D", data, "-m", "immediate", "-w", "stop")


@pytest.fixture
def postgresql(server: str, request: pytest.FixtureRequest) -> str:
    """The URL of a database that is empty."""
    import sqlalchemy as sa

    name = "db" + sha256(request.node.nodeid.encode()).hexdigest()[:16]
    address = "postgresql+psycopg://tester@/{}?host=" + server
    engine = sa.create_engine(address.format("postgres"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    engine.dispose()
    return address.format(name)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str | None:
    """What a store is opened with, for tests that hold for either catalogue."""
    return None if request.param == "sqlite" else request.getfixturevalue("postgresql")
