"""The catalogue of runs: an SQL database, SQLite in the store's folder unless told otherwise.

Here is how its tables (``tables``) are brought up to date, and how one writes at a time: SQLite by
BEGIN IMMEDIATE, other databases by a lock on the row that holds the version.
"""

import errno
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from traceroof.errors import TraceroofError
from traceroof.ingest.remote import Location
from traceroof.store import staging
from traceroof.store.tables import METADATA, MIGRATIONS, SCHEMA

#: How long a writer waits for another one.
BUSY_SECONDS = 30

# Where processes on several machines meet, SQLite's write-ahead log does not work: it needs
# memory that all share. Names as in /proc/mounts.
_NETWORKED = (
    *("9p", "afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.glusterfs", "fuse.sshfs", "gpfs"),
    *("lustre", "nfs", "nfs4", "pvfs2", "smb3", "smbfs", "wekafs"),
)

# With less than this SQLite cannot make the file that shares memory (32 KiB), and calls it an
# input/output error.
_SIDE_FILE_BYTES = 1 << 16

# Kinds of error (see ``_kind``) that two processes which create the same tables can meet.
_COLLISIONS = ("BUSY", "EXISTS")

# PostgreSQL's SQLSTATEs, as the kinds that SQLite has.
_STATES = {
    "42P07": "EXISTS",  # duplicate table
    "42710": "EXISTS",  # duplicate object, here the type that goes with a table
    "23505": "EXISTS",  # unique violation, here of a name in the system's own tables
    "55P03": "BUSY",  # lock_timeout has passed
}


@dataclass(frozen=True)
class Catalogue:
    """folder: the store's, for messages. label: what the catalogue is called there, without
    secrets. identity: the same for every process that uses it and for no other catalogue; a digest,
    as it stands for the whole address but the password."""

    folder: Path | Location
    engine: sa.Engine
    label: str
    identity: str

    @classmethod
    def open(cls, folder: Path | Location, url: str | None) -> Self:
        """Open the catalogue, creating its tables or bringing them up to date.

        url: any SQLAlchemy URL; None is ``catalogue.db`` in the folder.
        """
        if url is None:
            if isinstance(folder, Location):
                raise TraceroofError(
                    f"the store in {folder} needs a catalogue of its own",
                    "set TRACEROOF_CATALOGUE to a PostgreSQL database that all who use it reach",
                )
            path = folder / "catalogue.db"
            catalogue = cls(folder, _sqlite_engine(path), path.name, path.name)
        else:
            catalogue = cls(folder, *_engine_of(url))
        with catalogue._explained():
            catalogue._prepare()
        return catalogue

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A transaction that sees the catalogue as it is at one moment."""
        with self._explained(), self.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction that is the only writing one of the whole catalogue; waits for its turn."""
        with self._explained(), self._alone() as connection:
            self._check(self._version(connection))
            yield connection

    @contextmanager
    def _alone(self) -> Iterator[sa.Connection]:
        engine = self.engine.execution_options(traceroof_writes=True)
        with engine.connect() as connection, connection.begin():
            if engine.dialect.name == "postgresql":
                connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{BUSY_SECONDS}s'")
            yield connection

    def _version(self, connection: sa.Connection) -> int | None:
        """The catalogue's version, None before there is one. The write lock except on SQLite."""
        version: Any = connection.scalar(sa.select(SCHEMA.c.version).with_for_update())
        if version is not None and not isinstance(version, int):
            raise self.broken("it has no version")
        return version

    def _check(self, version: int | None) -> None:
        newest = len(MIGRATIONS) + 1
        if version is not None and version > newest:
            raise TraceroofError(
                f"the store in {self.folder} was written by a newer traceroof (its catalogue has "
                f"version {version}, this traceroof knows {newest})",
                "upgrade traceroof, or name another store with --store",
            )
        if version != newest:
            raise self.broken(f"it has turned to version {version}")

    def _prepare(self) -> None:
        newest = len(MIGRATIONS) + 1
        until = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                with self.engine.connect() as connection, connection.begin():
                    exists = sa.inspect(connection).has_table(SCHEMA.name)
                    version = connection.scalar(sa.select(SCHEMA.c.version)) if exists else None
                if version == newest:
                    return
                if isinstance(version, int) and version > newest:
                    self._check(version)
                if version is None and self.engine.dialect.name == "sqlite":
                    self._set_journal()
                with self._alone() as connection:
                    if version is None:
                        self._create(connection)
                    self._bring_up_to_date(connection, newest)
                return
            except DBAPIError as error:
                # Whoever comes second finds it done on the next turn.
                if _kind(error) not in _COLLISIONS or time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def _create(self, connection: sa.Connection) -> None:
        # A run is renamed into place only while the tables exist and the write lock is held.
        runs = None if isinstance(self.folder, Location) else self.folder / "runs"
        has_runs = self._is_own and runs and runs.is_dir() and any(runs.iterdir())
        if has_runs and not sa.inspect(connection).has_table(SCHEMA.name):
            raise self.broken(f"it is empty, but there are runs in {runs}")
        METADATA.create_all(connection)

    def _bring_up_to_date(self, connection: sa.Connection, newest: int) -> None:
        version = self._version(connection)
        if version is None:
            connection.execute(sa.insert(SCHEMA).values(version=newest))
        elif version < newest:
            for step in MIGRATIONS[max(version, 1) - 1 :]:
                step(connection)
            connection.execute(sa.update(SCHEMA).values(version=newest))
        else:  # somebody else was faster
            self._check(version)

    def _set_journal(self) -> None:
        shared = not isinstance(self.folder, Location) and is_networked(self.folder, _mounts())
        mode = "DELETE" if shared else "WAL"
        connection = self.engine.raw_connection()
        try:
            connection.cursor().execute(f"PRAGMA journal_mode={mode}")
        except sqlite3.Error as error:
            raise DBAPIError("PRAGMA journal_mode", None, error) from None
        finally:
            connection.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise self._explanation(error) from None
        except SQLAlchemyError as error:
            raise self._unusable(error) from None
        except UnicodeDecodeError:  # from the driver, when not even names are intact
            raise self.broken("it holds text that is not UTF-8") from None

    def _where(self) -> str:
        return f"{self.folder}/{self.label}" if self._is_own else self.label

    @property
    def _is_own(self) -> bool:
        return "://" not in self.label

    def _unusable(self, error: BaseException | None, hint: str = "") -> TraceroofError:
        text = next(iter(str(error).splitlines()), "") or type(error).__name__
        return TraceroofError(f"the catalogue {self._where()} cannot be used: {text}", hint)

    def _explanation(self, error: DBAPIError) -> TraceroofError:
        kind = _kind(error)
        if kind in ("CORRUPT", "NOTADB"):
            return self.broken(str(error.orig))
        free = staging.free_bytes(self.folder)
        if kind == "FULL" or (kind == "IOERR" and free is not None and free < _SIDE_FILE_BYTES):
            return staging.unwritable(self.folder, OSError(errno.ENOSPC, str(error.orig)))
        if kind == "READONLY":
            return staging.unwritable(self.folder, OSError(errno.EROFS, "it is read-only"))
        if kind == "BUSY":
            return TraceroofError(
                f"other processes have kept the catalogue {self._where()} busy for "
                f"{BUSY_SECONDS} s",
                "try again when they are done",
            )
        if kind == "PROTOCOL":
            return TraceroofError(
                f"the file system of {self._where()} does not lock files as SQLite needs it",
                "name a folder on a local disk with --store, or a PostgreSQL database with "
                "TRACEROOF_CATALOGUE",
            )
        return self._unusable(error.orig)

    def broken(self, text: str) -> TraceroofError:
        """The error that says so."""
        return TraceroofError(
            f"the catalogue {self._where()} is damaged: {text}",
            f"move {self.folder} out of the way and ingest the traces again",
        )


def _engine_of(text: str) -> tuple[sa.Engine, str, str]:
    """The engine for a URL, a label for it without its secrets, and its identity."""
    try:
        url = sa.make_url(text)
    except (ArgumentError, ValueError):
        raise TraceroofError(
            "the catalogue's address is not a database URL",
            "write TRACEROOF_CATALOGUE like postgresql+psycopg://host/database, or unset it",
        ) from None
    # An "@" in a password that is not escaped makes the rest of it part of the host.
    host = url.host.rpartition("@")[2] if url.host else url.host
    place: dict[str, Any] = {"host": host, "port": url.port, "database": url.database}
    label = sa.URL.create(url.drivername, **place).render_as_string()
    if url.get_backend_name() == "sqlite" and url.database:
        # Relative to the folder of whoever uses it: each has a file of its own.
        place["database"] = str(Path(url.database).resolve())
    whole = sa.URL.create(url.drivername, username=url.username, query=url.query, **place)
    identity = sha256(whole.render_as_string().encode()).hexdigest()
    if url.get_backend_name() == "sqlite":
        if url.database in (None, "", ":memory:"):
            raise TraceroofError(
                f"the catalogue {label} would be forgotten at once",
                "name a file: sqlite:///path/to/catalogue.db",
            )
        return _sqlite_engine(Path(str(url.database))), label, identity
    try:
        return sa.create_engine(url, poolclass=sa.NullPool), label, identity
    except ModuleNotFoundError as error:
        raise TraceroofError(
            f"the catalogue {label} needs the Python package {error.name}",
            "pip install 'traceroof[postgres]'" if error.name == "psycopg" else "install it",
        ) from None
    except (SQLAlchemyError, TypeError) as error:
        # The driver's words may repeat the address.
        words = str(error).replace(str(url.password), "***") if url.password else str(error)
        raise TraceroofError(f"the catalogue {label} cannot be used: {words}") from None


def _sqlite_engine(path: Path) -> sa.Engine:
    def connect() -> sqlite3.Connection:
        query = ""
        if path.exists() and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
            # SQLite cannot make its side files here. Without a log nobody is writing either, and
            # the file alone is the whole truth.
            log = path.with_name(f"{path.name}-wal")
            query = "?mode=ro" if log.exists() and log.stat().st_size else "?immutable=1"
        return sqlite3.connect(
            f"file:{quote(str(path.absolute()))}{query}",
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,  # the driver begins nothing by itself: ``begin`` does
            check_same_thread=False,
        )

    def begin(connection: sa.Connection) -> None:
        # A reader that turns writer cannot wait for another writer, so writers say so at once.
        writes = connection.get_execution_options().get("traceroof_writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    engine = sa.create_engine("sqlite://", creator=connect, poolclass=sa.NullPool)
    sa.event.listen(engine, "begin", begin)
    return engine


def _kind(error: DBAPIError) -> str:
    """What kind of error this is: SQLite's primary code without SQLITE_ (BUSY, FULL, ...), or
    EXISTS for a table that is there already; of other databases what is the same, or ''."""
    if not isinstance(error.orig, sqlite3.Error):
        return _STATES.get(str(getattr(error.orig, "sqlstate", "")), "")
    if "already exists" in str(error.orig):
        return "EXISTS"
    name = getattr(error.orig, "sqlite_errorname", None)
    # Without a code it is the driver's own complaint, about text that is no UTF-8.
    return name.removeprefix("SQLITE_").split("_")[0] if name else "CORRUPT"


def _mounts() -> str:
    try:
        return Path("/proc/mounts").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def is_networked(folder: Path, mounts: str) -> bool:
    """Whether a folder is on a file system that machines share.

    mounts: the text of /proc/mounts; without it the answer is False.
    """
    resolved = str(folder.resolve())
    best, networked = -1, False
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) < 3:
            continue
        point = fields[1].replace("\\040", " ").rstrip("/")
        # Of two mounts on the same point the later one is seen.
        if len(point) >= best and (resolved == point or resolved.startswith(f"{point}/")):
            best, networked = len(point), fields[2] in _NETWORKED
    return networked
