"""What every test may ask for."""

import os
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
