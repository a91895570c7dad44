"""Only what lies below the roots is read, whatever a client names."""

import os
from pathlib import Path

import pytest

from traceroof.errors import TraceroofError
from traceroof.mcp.roots import Roots


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A root with a trace and a folder in it, and a secret beside it."""
    root = tmp_path / "root"
    (root / "traces").mkdir(parents=True)
    (root / "traces" / "trace.json").write_text("{}")
    (tmp_path / "secret.json").write_text("{}")
    (tmp_path / "root-of-others").mkdir()
    (tmp_path / "root-of-others" / "trace.json").write_text("{}")
    return tmp_path


def test_what_lies_below_a_root_may_be_read(place: Path) -> None:
    roots = Roots.of([place / "root"])
    trace = place / "root" / "traces" / "trace.json"
    for named in ("traces/trace.json", str(trace), "./traces/../traces/trace.json", "traces"):
        assert roots.checked(named) == (trace if named != "traces" else trace.parent)
    assert roots.shown(str(trace)) == "traces/trace.json"
    assert roots.shown("/elsewhere/x") == "/elsewhere/x"


@pytest.mark.parametrize(
    "named",
    [
        "../secret.json",
        "traces/../../secret.json",
        "{place}/secret.json",
        "{place}/root/../secret.json",
        "/etc/passwd",
        "/proc/self/environ",
        "/dev/zero",
        "{place}/root-of-others/trace.json",  # begins like the root
        "..",
        "/",
    ],
)
def test_what_lies_outside_is_refused(place: Path, named: str) -> None:
    with pytest.raises(TraceroofError, match="lies outside the folders that may be read"):
        Roots.of([place / "root"]).checked(named.format(place=place))


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ("s3://bucket/trace.json", "is a URL"),
        ("https://host/trace.json", "is a URL"),
        ("file:///etc/passwd", "is a URL"),
        ("FILE:/etc/passwd", "is a URL"),
        ("-", "is not a path"),
        ("", "is not a path"),
        ("  ", "is not a path"),
        ("traces/\0trace.json", "is not a path"),
        ("traces/\ntrace.json", "is not a path"),
        ("x" * 100_000, "is not a path"),
        ("/".join(["x"] * 50_000), "is not a path"),
        ("traces/none.json", "does not exist"),
        ("~/trace.json", "does not exist"),
        ("$HOME/trace.json", "does not exist"),
    ],
)
def test_what_is_no_file_is_said_in_a_short_sentence(place: Path, named: str, says: str) -> None:
    with pytest.raises(TraceroofError, match=says) as raised:
        Roots.of([place / "root"]).checked(named)
    assert len(str(raised.value)) < 300


def test_links_that_lead_outside_are_refused(place: Path) -> None:
    """GIVEN a link to a file or folder outside, named or in a folder that is named, or beside the file
    that is named (some formats are several files), THEN refused; a link within the root is followed."""
    root = place / "root"
    roots = Roots.of([root])
    (root / "within.json").symlink_to(root / "traces" / "trace.json")
    assert roots.checked("within.json") == root / "traces" / "trace.json"
    (root / "out.json").symlink_to(place / "secret.json")
    (root / "away").symlink_to(place / "root-of-others")
    for named in ("out.json", "away", "away/trace.json"):
        with pytest.raises(TraceroofError, match="lies outside"):
            roots.checked(named)
    deep = root / "traces" / "a" / "b"
    deep.mkdir(parents=True)
    assert roots.checked("traces") == root / "traces"
    (deep / "agent_info.csv").symlink_to(place / "secret.json")
    with pytest.raises(TraceroofError, match=r"agent_info.csv, a link in traces, lies outside"):
        roots.checked("traces")
    (root / "traces" / "agent_info.csv").symlink_to(place / "secret.json")
    with pytest.raises(TraceroofError, match="lies outside"):
        roots.checked("traces/trace.json")


def test_a_link_to_itself_and_a_pipe(place: Path) -> None:
    root = place / "root"
    (root / "loop").symlink_to(root / "loop")
    os.mkfifo(root / "pipe")
    roots = Roots.of([root])
    with pytest.raises(TraceroofError):
        roots.checked("loop")
    with pytest.raises(TraceroofError, match="neither a file nor a folder"):
        roots.checked("pipe")


def test_several_roots_and_a_root_that_is_a_link(place: Path) -> None:
    (place / "link").symlink_to(place / "root")
    roots = Roots.of([place / "link", place / "root-of-others"])
    assert roots.checked("traces/trace.json") == place / "root" / "traces" / "trace.json"
    other = place / "root-of-others" / "trace.json"
    assert roots.checked(str(other)) == other
    with pytest.raises(TraceroofError, match="is not a folder"):
        Roots.of([place / "secret.json"])
