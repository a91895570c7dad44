"""Which code a run measured: what the CI job says, else git in the working folder."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from traceroof.errors import TraceroofError
from traceroof.store.summaries import Origin
from traceroof.store.tables import NAME_LENGTH


@dataclass(frozen=True)
class CiSystem:
    """The variables of a CI system. branch: the first that is set. job: a template of its address."""

    name: str
    commit: str
    branch: tuple[str, ...]
    job: str


#: The systems that are known, by the variables that each documents.
SYSTEMS: Sequence[CiSystem] = (
    CiSystem("GitHub Actions", "GITHUB_SHA", ("GITHUB_HEAD_REF", "GITHUB_REF_NAME"),
             "{GITHUB_SERVER_URL}/{GITHUB_REPOSITORY}/actions/runs/{GITHUB_RUN_ID}"),
    CiSystem("GitLab", "CI_COMMIT_SHA",
             ("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "CI_COMMIT_BRANCH", "CI_COMMIT_REF_NAME"),
             "{CI_JOB_URL}"),
    CiSystem("Buildkite", "BUILDKITE_COMMIT", ("BUILDKITE_BRANCH",), "{BUILDKITE_BUILD_URL}"),
    CiSystem("CircleCI", "CIRCLE_SHA1", ("CIRCLE_BRANCH",), "{CIRCLE_BUILD_URL}"),
    CiSystem("Azure Pipelines", "BUILD_SOURCEVERSION",
             ("SYSTEM_PULLREQUEST_SOURCEBRANCH", "BUILD_SOURCEBRANCH"),
             "{SYSTEM_COLLECTIONURI}{SYSTEM_TEAMPROJECT}/_build/results?buildId={BUILD_BUILDID}"),
    CiSystem("Bitbucket", "BITBUCKET_COMMIT", ("BITBUCKET_BRANCH",),
             "{BITBUCKET_GIT_HTTP_ORIGIN}/pipelines/results/{BITBUCKET_BUILD_NUMBER}"),
    CiSystem("Travis CI", "TRAVIS_COMMIT", ("TRAVIS_PULL_REQUEST_BRANCH", "TRAVIS_BRANCH"),
             "{TRAVIS_BUILD_WEB_URL}"),
    CiSystem("Drone or Woodpecker", "DRONE_COMMIT_SHA", ("DRONE_SOURCE_BRANCH", "DRONE_BRANCH"),
             "{DRONE_BUILD_LINK}"),
    CiSystem("Woodpecker", "CI_COMMIT_SHA", ("CI_COMMIT_SOURCE_BRANCH", "CI_COMMIT_BRANCH"),
             "{CI_PIPELINE_URL}"),
    CiSystem("AppVeyor", "APPVEYOR_REPO_COMMIT",
             ("APPVEYOR_PULL_REQUEST_HEAD_REPO_BRANCH", "APPVEYOR_REPO_BRANCH"),
             "{APPVEYOR_URL}/project/{APPVEYOR_ACCOUNT_NAME}/{APPVEYOR_PROJECT_SLUG}/builds/{APPVEYOR_BUILD_ID}"),
    CiSystem("Cirrus CI", "CIRRUS_CHANGE_IN_REPO", ("CIRRUS_BRANCH",),
             "https://cirrus-ci.com/build/{CIRRUS_BUILD_ID}"),
    CiSystem("TeamCity", "BUILD_VCS_NUMBER", ("TEAMCITY_BUILD_BRANCH",), "{BUILD_URL}"),
    # What many tools set; last, so that a system's own names go before it.
    CiSystem("Jenkins", "GIT_COMMIT", ("CHANGE_BRANCH", "BRANCH_NAME", "GIT_BRANCH"), "{BUILD_URL}"),
)  # fmt: skip

_PREFIXES = ("refs/heads/", "origin/")
_PATIENCE_S = 10


def origin_of(
    commit: str | None = None,
    branch: str | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Origin:
    """The code that is measured now. Unknown is None; nothing that fails here fails the caller.

    commit, branch: what the user says, which goes before all else; a commit may be any name that
    git knows (``HEAD~1``, a tag). environment, folder: by default those of the process. Raises
    TraceroofError for a commit or branch that cannot be one.
    """
    variables = os.environ if environment is None else environment
    folder = folder or Path.cwd()
    told = _of_ci(variables)
    checkout = _of_git(folder)
    if commit is not None:
        resolved = _git(
            folder, "rev-parse", "--verify", "--quiet", f"{_checked(commit)}^{{commit}}"
        )
        known = (resolved or "").strip() or commit.strip()
        # The working folder says nothing of another commit.
        dirty = checkout.dirty if known == checkout.commit else None
        named = told.branch or (checkout.branch if known == checkout.commit else None)
        found = Origin(known, None, named, dirty, told.job)
    elif told.commit:
        dirty = checkout.dirty if told.commit == checkout.commit else None
        found = replace(told, dirty=dirty)
    else:
        found = replace(checkout, job=told.job)
    if branch is not None:
        found = replace(found, branch=_checked(branch))
    return replace(found, committed=_committed(folder, found.commit))


def _checked(name: str) -> str:
    name = name.strip()
    if not name or not name.isprintable() or len(name) > NAME_LENGTH or name.startswith("-"):
        raise TraceroofError(
            f"{name[:40]!r} is not a commit or a branch",
            f"give 1 to {NAME_LENGTH} printable characters, no - in front",
        )
    return name


def _of_ci(variables: Mapping[str, str]) -> Origin:
    """What the job says; of several systems the first."""
    for system in SYSTEMS:
        commit = variables.get(system.commit, "").strip()
        if not commit or not commit.isprintable() or len(commit) > NAME_LENGTH:
            continue
        named = next((variables[name] for name in system.branch if variables.get(name)), None)
        return Origin(commit, None, _plain(named), None, _job(system.job, variables))
    return Origin()


def _plain(branch: str | None) -> str | None:
    """A branch without what says where it is."""
    if branch is None or not branch.isprintable():
        return None
    for prefix in _PREFIXES:
        branch = branch.removeprefix(prefix)
    return branch or None


def _job(template: str, variables: Mapping[str, str]) -> str | None:
    class Known(dict[str, str]):
        def __missing__(self, key: str) -> str:
            raise KeyError(key)

    try:
        job = template.format_map(Known(variables))
    except KeyError:
        return None
    # An address with a password in it is nobody's to keep.
    fits = job.isprintable() and "@" not in job and len(job) <= 2000
    return job if job and fits else None


def _of_git(folder: Path) -> Origin:
    """The checkout that the folder is in: one call tells commit, branch and changes."""
    status = _git(folder, "status", "--porcelain=v2", "--branch", "--untracked-files=no")
    if status is None:
        return Origin()
    lines = status.splitlines()
    told = dict(
        line.removeprefix("# branch.").split(" ", 1)
        for line in lines
        if line.startswith("# branch.") and " " in line.removeprefix("# branch.")
    )
    commit, branch = told.get("oid"), told.get("head")
    if not commit or commit.startswith("("):
        return Origin()  # no commit yet
    dirty = any(not line.startswith("#") for line in lines)
    return Origin(commit, None, None if branch == "(detached)" else branch, dirty, None)


def _committed(folder: Path, commit: str | None) -> str | None:
    """When it was committed, UTC."""
    text = _git(folder, "show", "-s", "--format=%cI", commit) if commit else None
    try:
        when = datetime.fromisoformat((text or "").strip())
    except ValueError:
        return None
    return when.astimezone(UTC).isoformat(timespec="seconds") if when.tzinfo else None


def _git(folder: Path, *arguments: str) -> str | None:
    """What git prints; None where there is no git, no checkout, or no answer."""
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=_PATIENCE_S,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
            check=False,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None
