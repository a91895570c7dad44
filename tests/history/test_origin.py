"""Which code a run measured: from the CI job's variables, else from git."""

import subprocess
from pathlib import Path

import pytest

from traceroof.errors import TraceroofError
from traceroof.history.origin import SYSTEMS, origin_of
from traceroof.store.summaries import Origin

SHA = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with one commit of 2026-01-02 03:04:05 +0100 on branch work."""

    def git(*arguments: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=t", "-c", "user.email=t@t.invalid", *arguments],
            cwd=tmp_path, check=True, capture_output=True,
            env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path),
                 "GIT_COMMITTER_DATE": "2026-01-02T03:04:05+01:00",
                 "GIT_AUTHOR_DATE": "2026-01-02T03:04:05+01:00"},
        )  # fmt: skip

    git("init", "-q", "-b", "work")
    (tmp_path / "a.py").write_text("1\n")
    git("add", "a.py")
    git("commit", "-q", "-m", "first")
    return tmp_path


def test_git_tells_commit_branch_and_changes(checkout: Path) -> None:
    """GIVEN a checkout WHEN asked THEN its commit with the time in UTC; a changed tracked file makes
    it dirty, an untracked one (a trace, say) does not."""
    clean = origin_of(environment={}, folder=checkout)
    assert (len(clean.commit or ""), clean.branch, clean.dirty) == (40, "work", False)
    assert clean.committed == "2026-01-02T02:04:05+00:00"
    (checkout / "trace.json").write_text("{}")
    assert origin_of(environment={}, folder=checkout) == clean
    (checkout / "a.py").write_text("2\n")
    assert origin_of(environment={}, folder=checkout).dirty is True


def test_the_job_goes_before_git_and_the_user_before_the_job(checkout: Path) -> None:
    job = {
        "GITHUB_SHA": SHA, "GITHUB_REF_NAME": "main", "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_REPOSITORY": "o/r", "GITHUB_RUN_ID": "7",
    }  # fmt: skip
    address = "https://github.com/o/r/actions/runs/7"
    assert origin_of(environment=job, folder=checkout) == Origin(SHA, None, "main", None, address)
    head = origin_of(environment={}, folder=checkout)
    said = origin_of("HEAD", "release", environment=job, folder=checkout)
    assert said == Origin(head.commit, head.committed, "release", False, address)
    # A name that git does not know is kept as it is: the store may lie elsewhere.
    assert origin_of("v1.2", environment={}, folder=checkout).commit == "v1.2"


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda one: one.name)
def test_every_ci_system_is_known_by_its_variables(system: object, tmp_path: Path) -> None:
    """GIVEN the variables that a system documents WHEN asked THEN its commit and branch."""
    assert hasattr(system, "commit")
    variables = {system.commit: SHA, system.branch[-1]: "origin/main"}  # type: ignore[attr-defined]
    found = origin_of(environment=variables, folder=tmp_path)
    assert (found.commit, found.branch, found.job) == (SHA, "main", None)


def test_nothing_known_is_nothing(tmp_path: Path) -> None:
    assert origin_of(environment={"GITHUB_SHA": " "}, folder=tmp_path) == Origin()
    # An address with a password is not kept.
    job = {"GIT_COMMIT": SHA, "BUILD_URL": "https://user:secret@ci/1"}
    assert origin_of(environment=job, folder=tmp_path).job is None


@pytest.mark.parametrize("wrong", ["", " ", "-x", "a\nb", "x" * 201])
def test_what_is_no_commit_is_refused(wrong: str, tmp_path: Path) -> None:
    with pytest.raises(TraceroofError, match="is not a commit or a branch"):
        origin_of(wrong, environment={}, folder=tmp_path)
