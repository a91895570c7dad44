"""Files in object storage and behind other URLs, through ``pyarrow.fs``.

A URL may end in options of its storage (``?region=eu-west-1&anonymous=true``); without them the
storage's usual environment holds. Credentials come from there alone: a URL is printed.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from traceroof.core import regex
from traceroof.core.recording import Recording
from traceroof.errors import TraceroofError

SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs", "file")

_URL = regex.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_GLOB = "*?["
_STEP = 1 << 20

# What a URL of S3 may say of its storage, and how Arrow takes it.
_TIMEOUT, _ATTEMPTS = 20.0, 4
_S3_OPTIONS = ("endpoint_override", "region", "scheme", "anonymous", "timeout", "attempts")


def is_url(text: object) -> bool:
    """Whether a text is a URL and no path."""
    return isinstance(text, str) and bool(_URL.match(text))


@dataclass(frozen=True)
class Location:
    """A place in a storage. path: bucket and key. options: of the storage, from the URL's query."""

    scheme: str
    path: str
    host: str = ""
    options: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        """The URL as it is shown: without options."""
        return f"{self.scheme}://{self.host}{self.path}"

    @property
    def name(self) -> str:
        """Its last part."""
        return self.path.rstrip("/").rpartition("/")[2]

    def at(self, path: str) -> "Location":
        """Another place in the same storage."""
        return replace(self, path=path)

    def below(self, name: str) -> "Location":
        """A place below this one."""
        return self.at(f"{self.path.rstrip('/')}/{name}")

    @property
    def filesystem(self) -> Any:
        """The ``pyarrow.fs.FileSystem`` that holds it."""
        return _filesystem(self.scheme, self.host, self.options)


@dataclass(frozen=True)
class RemoteFile:
    """A file in a storage, and its size in bytes."""

    location: Location
    size: int

    def __str__(self) -> str:
        return str(self.location)

    @property
    def name(self) -> str:
        """The file's name."""
        return self.location.name


def location_of(url: str) -> Location:
    """What a URL names. Raises TraceroofError for a scheme or an option that is not known, and for
    credentials in it."""
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    if scheme not in SCHEMES:
        raise TraceroofError(
            f"{scheme}:// is not a storage that traceroof reads", f"it reads {', '.join(SCHEMES)}"
        )
    azure = scheme in ("abfs", "abfss")
    if parts.password or (parts.username and not azure):
        raise TraceroofError(
            f"the {scheme}:// URL holds credentials, which would be printed",
            "leave them out, and give them as the storage's environment variables or profile",
        )
    # A glob may hold a "?", which begins the options where a "=" follows.
    path, query = parts.path, parts.query
    if query and "=" not in query:
        path, query = f"{path}?{query}", ""
    options = tuple(sorted(parse_qsl(query)))
    if scheme == "s3":
        unknown = [name for name, _ in options if name not in _S3_OPTIONS]
        if unknown:
            raise TraceroofError(
                f"{unknown[0]} is not an option of an s3:// URL",
                f"it takes {', '.join(_S3_OPTIONS)}",
            )
    elif options:
        raise TraceroofError(f"a {scheme}:// URL takes no options", "leave out what follows the ?")
    if scheme in ("s3", "gs", "gcs"):
        return Location(scheme, f"{parts.netloc}{path}", options=options)
    return Location(scheme, path, parts.netloc, options)


@lru_cache(maxsize=16)
def _filesystem(scheme: str, host: str, options: tuple[tuple[str, str], ...]) -> Any:
    from pyarrow import fs

    if scheme == "s3":
        return _s3(dict(options))
    if scheme == "file":
        return fs.LocalFileSystem()
    # Not tested against a real storage: as Arrow resolves them.
    try:
        return fs.FileSystem.from_uri(f"{scheme}://{host or 'bucket'}/")[0]
    except (OSError, ValueError, NotImplementedError) as error:
        text = next(iter(str(error).splitlines()), "")
        if scheme in ("hdfs", "viewfs"):
            raise TraceroofError(
                f"{scheme}:// needs Hadoop's libhdfs and Java, which are not found here: {text}",
                "set JAVA_HOME, HADOOP_HOME and CLASSPATH (`hadoop classpath --glob`), or copy the "
                "files (`hadoop fs -get`)",
            ) from None
        raise TraceroofError(f"{scheme}:// cannot be used here: {text}") from None


def _s3(options: Mapping[str, str]) -> Any:
    from pyarrow import fs

    endpoint = (
        options.get("endpoint_override")
        or os.environ.get("AWS_ENDPOINT_URL_S3")
        or os.environ.get("AWS_ENDPOINT_URL")
    )
    anonymous = options.get("anonymous", os.environ.get("AWS_NO_SIGN_REQUEST", ""))
    try:
        timeout = float(options.get("timeout", _TIMEOUT))
        attempts = int(options.get("attempts", _ATTEMPTS))
    except ValueError:
        raise TraceroofError("timeout and attempts of an s3:// URL are numbers") from None
    return fs.S3FileSystem(
        anonymous=anonymous.lower() in ("1", "true", "yes", "y"),
        region=options.get("region") or os.environ.get("AWS_REGION"),
        endpoint_override=endpoint or None,
        scheme=options.get("scheme"),
        connect_timeout=timeout,
        request_timeout=timeout,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=attempts),
    )


_REASONS: tuple[tuple[re.Pattern[str], str, str], ...] = tuple(
    (regex.compile(pattern, re.IGNORECASE), words, hint)
    for pattern, words, hint in (
        (r"NO_SUCH_BUCKET|bucket does not exist", "does not exist: there is no such bucket",
         "check the bucket's name, and the endpoint"),
        (r"ACCESS_DENIED|HTTP status 403|INVALID_ACCESS_KEY|SIGNATURE", "may not be read or written: access denied",
         "check the credentials in the environment, or add ?anonymous=true for a public bucket"),
        (r"SLOW_DOWN|SERVICE_UNAVAILABLE|HTTP status 50[0-9]|throttl",
         "is not served at the moment: the storage answers that it is overloaded (503)",
         "try again later, or with fewer --jobs"),
        (r"Timeout|timed out|curlCode: 28", "gives no answer: the storage timed out",
         "check the endpoint and the network, or add ?timeout=60"),
        (r"NETWORK_CONNECTION|curlCode|Couldn't connect|resolve", "cannot be reached: no connection to the storage",
         "check the endpoint and the network"),
        (r"NO_SUCH_KEY|does not exist|No such file|not found|HTTP status 404", "does not exist", ""),
        (r"HTTP status 301|PERMANENT_REDIRECT", "is in another region", "add ?region=NAME"),
    )
)  # fmt: skip


class Missing(TraceroofError):
    """There is no such file in the storage."""


@contextmanager
def explained(what: object) -> Iterator[None]:
    """Say in a sentence why a storage did not do what was asked of it. what: the place, as shown."""
    try:
        yield
    except FileNotFoundError:
        raise Missing(f"{what} does not exist") from None
    except OSError as error:
        text = str(error)
        for pattern, words, hint in _REASONS:
            if pattern.search(text):
                raise TraceroofError(f"{what} {words}", hint) from None
        # What follows may repeat a request with its signature.
        kind = re.search(r"AWS Error (\w+)", text)
        reason = kind[1] if kind else error.strerror or type(error).__name__
        raise TraceroofError(f"{what} cannot be used: {reason}") from None


def files_of(url: str) -> list[RemoteFile]:
    """The files that a URL names, by name: one, those of a folder, or those that a pattern matches
    (``*`` within one part of the path). Raises TraceroofError where there is none."""
    from pyarrow import fs

    location = location_of(url)
    filesystem = location.filesystem
    if any(letter in location.path for letter in _GLOB):
        found = _matching(location)
        if not found:
            raise TraceroofError(f"no file matches {location}")
        return found
    with explained(location):
        (info,) = filesystem.get_file_info([location.path.rstrip("/")])
        if info.type == fs.FileType.File:
            return [RemoteFile(location, info.size)]
        listed = []
        if info.type == fs.FileType.Directory:
            listed = filesystem.get_file_info(fs.FileSelector(location.path.rstrip("/")))
    files = [
        RemoteFile(location.at(one.path), one.size)
        for one in sorted(listed, key=lambda one: str(one.path))
        if one.type == fs.FileType.File and one.size
    ]
    if not files:
        raise TraceroofError(f"{location} does not exist, or holds no file")
    return files


def _matching(location: Location) -> list[RemoteFile]:
    from pyarrow import fs

    parts = location.path.split("/")
    fixed = next(at for at, one in enumerate(parts) if any(letter in one for letter in _GLOB))
    if not fixed:
        raise TraceroofError(f"{location}: name the bucket without a pattern")
    root, deep = "/".join(parts[:fixed]), len(parts) - fixed > 1
    with explained(location.at(root)):
        listed = location.filesystem.get_file_info(fs.FileSelector(root, recursive=deep))
    found = []
    for one in listed:
        own = str(one.path).split("/")
        fits = len(own) == len(parts) and all(map(fnmatchcase, own, parts))
        if one.type == fs.FileType.File and fits:
            found.append(RemoteFile(location.at(one.path), one.size))
    return sorted(found, key=str)


def read(file: RemoteFile, reader: Callable[[Path], Recording]) -> Recording:
    """What a reader makes of a remote file."""
    with fetched(file) as local:
        return shown_as(file, local, lambda: reader(local))


@contextmanager
def fetched(file: RemoteFile) -> Iterator[Path]:
    """A remote file as a local one: readers look at a file more than once. One file at a time is
    held on disk, none in memory."""
    with TemporaryDirectory(prefix="traceroof-") as folder:
        # The last parts of the name: they may tell the rank.
        *_, parent, name = ("", *file.location.path.split("/"))
        local = Path(folder) / (parent or "_") / name
        local.parent.mkdir()
        _fetch(file.location, local)
        yield local


def shown_as(file: object, local: Path, reader: Callable[[], Recording]) -> Recording:
    """What ``reader`` makes of a local copy, in which and in whose errors the file has its own
    name."""

    def named(text: str) -> str:
        return text.replace(str(local), str(file))

    try:
        recording = reader()
    except TraceroofError as error:
        raise TraceroofError(named(error.message), named(error.hint)) from None
    if str(local) == str(file):
        return recording
    sources = tuple(
        replace(
            one,
            path=named(one.path),
            notes=tuple(replace(note, text=named(note.text)) for note in one.notes),
        )
        for one in recording.sources
    )
    return replace(recording, sources=sources)


def _fetch(location: Location, local: Path) -> None:
    with explained(location):
        source = location.filesystem.open_input_stream(location.path, buffer_size=_STEP)
    with source, local.open("wb") as copy:
        while True:
            with explained(location):
                data = source.read(_STEP)
            if not data:
                return
            copy.write(data)
