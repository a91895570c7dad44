"""What the user's environment holds changes no test."""

import os
import subprocess
import sys
from pathlib import Path

KEPT = {"TRACEROOF_CI", "TRACEROOF_FUZZ"}


def test_no_setting_of_the_user_reaches_a_test() -> None:
    # An empty TRACEROOF_CONFIG is what keeps files with settings out.
    assert os.environ["TRACEROOF_CONFIG"] == ""
    ours = {name for name in os.environ if name.startswith("TRACEROOF_")} - {"TRACEROOF_CONFIG"}
    assert ours <= KEPT


def test_settings_in_the_environment_of_pytest_are_forgotten(root: Path) -> None:
    # GIVEN a store that cannot be made, another catalogue, and one variable that tests may read
    users = {
        "TRACEROOF_STORE": "/nonexistent/store",
        "TRACEROOF_CATALOGUE": "nonsense://",
        "TRACEROOF_FUZZ": "3",
    }
    # WHEN the test above runs in it
    name = f"{Path(__file__).relative_to(root)}::test_no_setting_of_the_user_reaches_a_test"
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", name],
        cwd=root,
        env={**os.environ, **users, "HOME": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    # THEN it passes
    assert ran.returncode == 0, ran.stdout
