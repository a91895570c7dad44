"""Runs kept: what is known about each run in a catalogue, its tables in Parquet files.

    .traceroof/
      .gitignore          *
      catalogue.db        SQLite, unless TRACEROOF_CATALOGUE names another database
      runs/ID/            kernels.parquet, raw_metrics.parquet, ...; a table without rows: no file
      parts/NAME/         the same of one file of a run of several, which is kept part by part
      incoming/           what live processes are writing (traceroof.store.staging)

A run is what the catalogue says; folders are only what it points at. A writer prepares a whole
folder, and then, in one transaction that is the only writing one, renames it into ``runs`` and
adds the row: a kill at any moment leaves the old state, or the new one.

The same bytes are the same run. Read again with another outcome (by a newer traceroof, with
another ``--device``), the run keeps its id and holds the newest reading.
"""

import json
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import msgspec
import sqlalchemy as sa

from traceroof.core import kernel_table
from traceroof.core.recording import Recording, Run, merge
from traceroof.errors import TraceroofError
from traceroof.hardware.ceilings import MeasuredRate
from traceroof.ingest.remote import Location, is_url, location_of
from traceroof.scale.mapping import settled
from traceroof.store import parquet, staging, summaries
from traceroof.store.catalogue import BASELINES, CALIBRATION, NOISE, RUNS, Catalogue
from traceroof.store.parts import load as load_part
from traceroof.store.parts import write as write_part
from traceroof.store.rows import (
    NO_FIELDS,
    Contents,
    Row,
    RunInfo,
    bare_info,
    checked_name,
    counters_beside,
    default_name,
    folder_names,
    listed_runs,
    meant_run,
)
from traceroof.store.shelves import LocalShelf, ObjectShelf, Shelf, unreferenced
from traceroof.store.summaries import NOWHERE, Kept, Origin, Series, Summary

_ID_DIGITS = 12
_PREFIX_DIGITS = 4
# What a store's folder holds, and the beginning of what it holds for a moment.
_OURS = (".gitignore", "catalogue.db", "incoming", "parts", "runs", "store-id")
# What a writer left that was killed so long ago will not be continued.
_STALE_SECONDS = 24 * 3600.0


class Store:
    """A folder of runs, for any number of threads and processes at once."""

    def __init__(self, folder: Path | Location, catalogue: Catalogue, identity: str) -> None:
        self.folder = folder
        self.shelf: Shelf = (
            ObjectShelf(folder.below("parts"))
            if isinstance(folder, Location)
            else LocalShelf(folder / "parts")
        )
        self._catalogue = catalogue
        self._identity = identity

    @classmethod
    def open(
        cls, folder: Path | str | None = None, catalogue: str | None = None, *, create: bool = True
    ) -> Self:
        """Open the store in ``folder``, bringing an older catalogue up to date.

        folder: a folder or the URL of one in object storage; None takes TRACEROOF_STORE, else ``.traceroof`` in the current folder.
        catalogue: any SQLAlchemy URL; None takes TRACEROOF_CATALOGUE, else the folder's own.
        create: make a store where there is none, instead of saying so.

        Raises TraceroofError when there is no store, or it cannot be reached, is damaged, or was
        written by a newer traceroof.
        """
        folder = folder or os.environ.get("TRACEROOF_STORE") or ".traceroof"
        url = catalogue or os.environ.get("TRACEROOF_CATALOGUE") or None
        if is_url(folder):
            place = location_of(str(folder))
            opened = Catalogue.open(place, url)
            return cls(place, opened, _remote_identity(place, create))
        folder = Path(folder)
        with _explained(folder):
            if folder.exists() and not folder.is_dir():
                raise TraceroofError(
                    f"{folder} is a file, not the folder of a store", "name another with --store"
                )
            if not (folder / _mark(url)).exists():
                if not create:
                    raise TraceroofError(
                        f"there is no store in {folder}",
                        "`traceroof ingest PATH` makes one; --store names another folder",
                    )
                _make(folder)
            return cls(folder, Catalogue.open(folder, url), _identity(folder) if url else "")

    def add(
        self,
        recording: Recording,
        *,
        name: str | None = None,
        digest: str,
        parts: Sequence[str] = (),
        summary: Summary | None = None,
        origin: Origin | None = None,
        moved: bool = False,
    ) -> Run:
        """Keep a recording.

        digest: ``digest_of`` the files it was read from, or its first 12 or more digits.
        name: None is the name of its file, or of the folder that its files are in.
        parts: the part of each source, where it was kept in parts (``store.parts``) already.
        summary, origin: what its history shows. The origin of bytes that are stored already stays
        what it was, as they were not measured again, unless the user says that it ``moved``.

        A digest that is stored already gives the same run: its id, creation time and, without
        ``name``, its name stay; what it holds is replaced if this recording differs; and it
        becomes the newest. Raises TraceroofError when the run cannot be written; then nothing
        has changed.
        """
        if not re.fullmatch(rf"[0-9a-f]{{{_ID_DIGITS},64}}", digest):
            raise ValueError(f"not a digest: {digest!r}")
        name = None if name is None else checked_name(name)
        recording = parquet.normal(recording)
        with _explained(self.folder):
            if isinstance(self.folder, Location) and not parts:
                parts = (f"{digest[:40]}.{secrets.token_hex(4)}",)
                write_part(self.shelf, parts[0], recording, recording.summaries)
            self._sweep()
            with self._claim() as claim:

                def keep(connection: sa.Connection, run: str) -> None:
                    if summary is not None:
                        self._keep(connection, run, summary, origin, moved=moved)

                row = self._add(claim, recording, name, digest, tuple(parts), keep)
            self._sweep_parts()
        return Run(recording, row.name, row.id, row.created)

    def get(self, run: str | None = None, *, whole: bool = False) -> Run:
        """A run with all it holds; None is the newest.

        whole: of a run that is kept part by part also what the host did, in place of what was
        worked out of it. run: an id, a baseline, a name (its newest run), or the first digits of just one id (four
        or more), tried in this order.

        Raises TraceroofError when there is none, several match, or its files are damaged.
        """
        with _explained(self.folder):
            with self._catalogue.reading() as connection:
                row = self._resolve(connection, run)
            while True:
                try:
                    return Run(self._load(row, whole), row.name, row.id, row.created)
                except parquet.Unreadable as damage:
                    with self._catalogue.reading() as connection:
                        again = self._row(connection, RUNS.c.id == row.id)
                    if again is None:
                        raise TraceroofError(
                            f"run {row.id} ({row.name}) was removed while it was being read"
                        ) from None
                    if again == row:
                        raise self._damaged(row, str(damage)) from None
                    row = again  # replaced meanwhile

    def runs(self) -> list[RunInfo]:
        """All runs, the most recently ingested first."""
        with self._catalogue.reading() as connection:
            return [self._info(row) for row in self._rows(connection)]

    def remove(self, run: str) -> RunInfo:
        """Forget a run (named as for ``get``) with its files and the baselines that point to it.

        Works for a run whose files are damaged, too. Returns what it was.
        """
        with _explained(self.folder):
            self._sweep()
            with self._claim() as claim, self._catalogue.writing() as connection:
                row = self._resolve(connection, run)
                if claim is not None:
                    claim.note([row.folder], self._catalogue.identity)
                of_run = (BASELINES.c.store == self._identity, BASELINES.c.run == row.id)
                connection.execute(sa.delete(BASELINES).where(*of_run))
                summaries.forget(connection, self._identity, row.id)
                connection.execute(sa.delete(RUNS).where(*self._is(row.id)))
                # While nobody else can refer to them.
                for part in {*self._parts_of(row)} - self._parts(connection):
                    self.shelf.remove(part)
        try:
            return self._info(row)
        except TraceroofError:
            return bare_info(row)

    def set_baseline(self, name: str, run: str) -> None:
        """Let ``name`` stand for a run from now on, wherever a run is asked for."""
        name = checked_name(name)
        mine = {"store": self._identity, "name": name}
        with self._catalogue.writing() as connection:
            row = self._resolve(connection, run)
            connection.execute(sa.delete(BASELINES).filter_by(**mine))
            connection.execute(sa.insert(BASELINES).values(run=row.id, **mine))

    def baselines(self) -> dict[str, RunInfo]:
        """Baselines and their runs, ordered by name."""
        with self._catalogue.reading() as connection:
            chosen = connection.execute(
                sa.select(BASELINES.c.name, BASELINES.c.run).filter_by(store=self._identity)
            ).all()
            runs = {row.id: row for row in self._rows(connection)}
            return {
                name: self._info(runs[run]) for name, run in sorted(chosen, key=str) if run in runs
            }

    def standing_for(self, run: str) -> tuple[str, ...]:
        """Names of the baselines that stand for a run (named as for ``get``), which go with it."""
        with self._catalogue.reading() as connection:
            row = self._resolve(connection, run)
            names = sa.select(BASELINES.c.name).filter_by(store=self._identity, run=row.id)
            return tuple(sorted(connection.execute(names).scalars()))

    def history(self) -> tuple[list[Kept], Mapping[int, Series]]:
        """Every run that has a summary, in no order, and what its series stand for."""
        with self._catalogue.reading() as connection:
            try:
                return summaries.read(connection, self._identity)
            except ValueError as error:
                raise self._catalogue.broken(f"the history in it: {error}") from None

    def without_summary(self) -> list[str]:
        """The ids of runs that an older traceroof stored, which have no summary."""
        with self._catalogue.reading() as connection:
            return summaries.missing(connection, self._identity)

    def summarise(self, run: str, summary: Summary) -> None:
        """Give a stored run, by its id, a summary."""
        with self._catalogue.writing() as connection:
            if self._row(connection, RUNS.c.id == run) is not None:  # else removed meanwhile
                self._keep(connection, run, summary, None, moved=False)

    def origin(self, run: str) -> Origin | None:
        """The code that a run (named as for ``get``) measured; None where nothing is known."""
        with self._catalogue.reading() as connection:
            row = self._resolve(connection, run)
            return summaries.origin_of(connection, self._identity, row.id)

    def _keep(
        self,
        connection: sa.Connection,
        run: str,
        summary: Summary,
        origin: Origin | None,
        *,
        moved: bool,
    ) -> None:
        before = summaries.origin_of(connection, self._identity, run)
        kept = origin if before is None or (moved and origin) else before
        summaries.write(connection, self._identity, run, summary, kept or NOWHERE)

    def calibrate(
        self, rates: Sequence[MeasuredRate]
    ) -> list[tuple[MeasuredRate, MeasuredRate | None]]:
        """Keep measured ceilings, each in place of an earlier one of the same device, times and
        kind. Returns them with what they replace, None where there was none."""
        with self._catalogue.writing() as connection:
            before = {_key(one): one for one in self._calibration(connection)}
            for one in rates:
                device, time_basis, rate = _key(one)
                mine = {"store": self._identity, "device": device, "time_basis": time_basis}
                old = sa.delete(CALIBRATION).filter_by(**mine, rate=rate)
                connection.execute(old)
                how = {name: getattr(one, name) for name in _HOW}
                row = {"per_s": one.per_s, "nominal_per_s": one.nominal_per_s,
                       "measured": one.measured, "contents": json.dumps(how)}  # fmt: skip
                connection.execute(sa.insert(CALIBRATION).values(**mine, rate=rate, **row))
        return [(one, before.get(_key(one))) for one in rates]

    def noise(self) -> list[tuple[int, dict[str, Any]]]:
        """What ``keep_noise`` kept, each with its number."""
        columns = NOISE.c.id, NOISE.c.contents
        query = sa.select(*columns).filter_by(store=self._identity).order_by(NOISE.c.id)
        with self._catalogue.reading() as connection:
            try:
                return [(number, json.loads(text)) for number, text in connection.execute(query)]
            except ValueError as error:
                raise self._catalogue.broken(f"a noise profile in it: {error}") from None

    def keep_noise(
        self, form: Mapping[str, Any], replaces: Callable[[dict[str, Any]], bool]
    ) -> int:
        """Keep measured noise in place of what it ``replaces``. Returns how many that were."""
        with self._catalogue.writing() as connection:
            columns = NOISE.c.id, NOISE.c.contents
            held = connection.execute(sa.select(*columns).filter_by(store=self._identity)).all()
            gone = [number for number, text in held if replaces(json.loads(text))]
            if gone:
                mine = sa.delete(NOISE).filter_by(store=self._identity)
                connection.execute(mine.where(NOISE.c.id.in_(gone)))
            following = max((number for number, _ in held), default=0) + 1
            row = {"device": form["device"], "time_basis": form["time_basis"],
                   "contents": json.dumps(form)}  # fmt: skip
            connection.execute(sa.insert(NOISE).values(store=self._identity, id=following, **row))
        return len(gone)

    def forget_noise(self, numbers: Sequence[int]) -> None:
        """Remove kept noise by its numbers."""
        with self._catalogue.writing() as connection:
            mine = sa.delete(NOISE).filter_by(store=self._identity)
            connection.execute(mine.where(NOISE.c.id.in_(list(numbers))))

    def calibration(self) -> tuple[MeasuredRate, ...]:
        """The measured ceilings, by device, kind of times and name."""
        with self._catalogue.reading() as connection:
            return self._calibration(connection)

    def forget_calibration(self, device: str) -> tuple[MeasuredRate, ...]:
        """Remove the measured ceilings of a device. Returns them; none raises TraceroofError."""
        with self._catalogue.writing() as connection:
            held = self._calibration(connection)
            gone = tuple(one for one in held if one.device.lower() == device.strip().lower())
            if not gone:
                devices = ", ".join(dict.fromkeys(one.device for one in held))
                raise TraceroofError(
                    f"the store in {self.folder} holds no calibration of {device!r}",
                    f"it holds {devices}" if devices else "it holds none at all",
                )
            of_device = CALIBRATION.c.device == gone[0].device
            mine = sa.delete(CALIBRATION).filter_by(store=self._identity).where(of_device)
            connection.execute(mine)
        return gone

    def _calibration(self, connection: sa.Connection) -> tuple[MeasuredRate, ...]:
        columns = CALIBRATION.c
        query = sa.select(CALIBRATION).filter_by(store=self._identity)
        query = query.order_by(columns.device, columns.time_basis, columns.rate)
        found = []
        try:
            for row in connection.execute(query).mappings():
                fields = {str(name): row[name] for name in row if name not in NO_FIELDS}
                how = json.loads(row["contents"])
                found.append(msgspec.convert({**how, **fields}, MeasuredRate))
        except (ValueError, TypeError, RecursionError) as error:
            raise self._catalogue.broken(f"a calibration in it: {error}") from None
        return tuple(found)

    # Rows

    def _is(self, id: str) -> tuple[sa.ColumnElement[bool], ...]:
        return RUNS.c.store == self._identity, RUNS.c.id == id

    def _rows(
        self,
        connection: sa.Connection,
        condition: sa.ColumnElement[bool] | None = None,
        limit: int | None = None,
    ) -> list[Row]:
        query = sa.select(RUNS).filter_by(store=self._identity).order_by(RUNS.c.sequence.desc())
        if condition is not None:
            query = query.where(condition)
        try:
            rows = [
                msgspec.convert(dict(zip(Row.__match_args__, row, strict=True)), Row)
                for row in connection.execute(query.limit(limit))
            ]
        except msgspec.ValidationError as error:
            raise self._catalogue.broken(str(error)) from None
        for row in rows:
            if not staging.FOLDER_NAME.fullmatch(row.folder):
                raise self._catalogue.broken(f"run {row.id} has no proper folder")
        return rows

    def _row(
        self, connection: sa.Connection, condition: sa.ColumnElement[bool] | None = None
    ) -> Row | None:
        return next(iter(self._rows(connection, condition, limit=1)), None)

    def _resolve(self, connection: sa.Connection, run: str | None) -> Row:
        if run is None:
            if (row := self._row(connection)) is None:
                raise TraceroofError(
                    f"the store in {self.folder} holds no run", "`traceroof ingest PATH` adds one"
                )
            return row
        if run.isprintable():  # names are; what is not, no database need be asked for
            baseline = sa.select(BASELINES.c.run).filter_by(store=self._identity, name=run)
            for condition in (
                RUNS.c.id == run.lower(),
                RUNS.c.id == baseline.scalar_subquery(),
                RUNS.c.name == run,
            ):
                if (row := self._row(connection, condition)) is not None:
                    return row
        found: list[Row] = []
        if re.fullmatch(rf"[0-9a-f]{{{_PREFIX_DIGITS},}}", run.lower()):
            found = self._rows(connection, RUNS.c.id.startswith(run.lower()))
        if len(found) == 1:
            return found[0]
        if found:
            raise TraceroofError(
                f"{run} is the beginning of {len(found)} runs in {self.folder}: {listed_runs(found)}",
                "give more digits",
            )
        held = self._rows(connection)
        names = sa.select(BASELINES.c.name).filter_by(store=self._identity)
        baselines = [name for (name,) in connection.execute(names)]
        raise TraceroofError(
            f"the store in {self.folder} holds no run {run!r}", meant_run(run, held, baselines)
        )

    def _contents(self, row: Row) -> Contents:
        try:
            return msgspec.convert(json.loads(row.contents), Contents)
        except (ValueError, RecursionError):
            raise self._damaged(row, "its entry in the catalogue is damaged") from None

    def _info(self, row: Row) -> RunInfo:
        contents = self._contents(row)
        listed = (*contents.sources, *(contents.counters.sources if contents.counters else ()))
        return replace(bare_info(row), sources=listed, devices=contents.devices)

    def _damaged(self, row: Row, text: str) -> TraceroofError:
        return TraceroofError(
            f"run {row.id} ({row.name}) in {self.folder} cannot be read: {text}",
            f"ingest its files again, or drop it with `traceroof runs remove {row.id}`",
        )

    # Adding

    def _add(
        self,
        claim: staging.Claim | None,
        recording: Recording,
        name: str | None,
        digest: str,
        parts: tuple[str, ...],
        keep: Callable[[sa.Connection, str], None],
    ) -> Row:
        files: dict[str, parquet.File] | None = None
        while True:  # another turn means that another process has changed this very run meanwhile
            with self._catalogue.reading() as connection:
                before = self._row(connection, RUNS.c.digest == digest)
            if before is not None and self._holds(before, recording, parts):
                row = self._touch(before, name, keep)
            else:
                if files is None:
                    files = {} if claim is None else self._stage(claim, recording, parts)
                contents = Contents(
                    recording.sources, recording.devices, files, counters_beside(recording), parts
                )
                row = self._publish(claim, recording, contents, before, name, digest, keep)
            if row is not None:
                return row

    def _holds(self, row: Row, recording: Recording, parts: tuple[str, ...]) -> bool:
        try:
            if parts or self._parts_of(row):
                held = self._contents(row)
                return (held.parts, held.sources, held.devices) == (
                    parts, recording.sources, recording.devices,
                )  # fmt: skip
            return self._load(row) == recording
        except (parquet.Unreadable, TraceroofError):
            return False

    def _stage(
        self, claim: staging.Claim, recording: Recording, parts: tuple[str, ...]
    ) -> dict[str, parquet.File]:
        encoded = {} if parts else parquet.encode(recording)
        files = {name: file for name, (file, _) in encoded.items()}
        try:
            staging.write_folder(
                claim.folder / "run",
                {parquet.file_name(name): data for name, (_, data) in encoded.items()},
            )
        except OSError as error:
            claim.discard()
            needs = sum(file.bytes for file in files.values())
            raise staging.unwritable(self.folder, error, needs) from None
        return files

    def _publish(
        self,
        claim: staging.Claim | None,
        recording: Recording,
        contents: Contents,
        before: Row | None,
        name: str | None,
        digest: str,
        keep: Callable[[sa.Connection, str], None],
    ) -> Row | None:
        """Rename the staged folder into place and point the catalogue at it. Does nothing and
        returns None if the run is not (or no longer) what ``before`` says."""
        with self._catalogue.writing() as connection:
            now = self._row(connection, RUNS.c.digest == digest)
            if (now and now.folder) != (before and before.folder):
                return None
            if contents.parts and {*contents.parts} - {*self.shelf.names()}:
                raise TraceroofError(
                    f"parts of the run were removed from the store in {self.folder} meanwhile",
                    "ingest it again",
                )
            id = now.id if now else self._free_id(connection, digest)
            folder = self._placed(claim, id, [now.folder] if now else [])
            times = recording.kernels.select(["kind", "launch_count", "duration_ns"])
            row = Row(
                store=self._identity,
                id=id,
                digest=digest,
                sequence=self._next(connection),
                name=name or (now.name if now else default_name(recording.sources)),
                created=now.created if now else datetime.now(UTC).isoformat(timespec="seconds"),
                folder=folder,
                format=recording.format,
                time_basis=recording.time_basis,
                launches=kernel_table.launches(times),
                kernel_time_ns=kernel_table.total_time_ns(times),
                contents=json.dumps(asdict(contents)),
            )
            connection.execute(sa.delete(RUNS).where(*self._is(id)))
            connection.execute(sa.insert(RUNS).values(asdict(row)))
            keep(connection, id)
        if claim is not None:
            claim.rubbish = [now.folder] if now else []
        return row

    def _placed(self, claim: staging.Claim | None, id: str, replaced: list[str]) -> str:
        """Rename the staged folder of a run into place; returns what it is called there."""
        if claim is None or isinstance(self.folder, Location):
            return next(name for name in folder_names(id) if name not in replaced)
        runs = self.folder / "runs"
        runs.mkdir(exist_ok=True)
        folder = next(name for name in folder_names(id) if not (runs / name).exists())
        claim.note([folder, *replaced], self._catalogue.identity)
        os.rename(claim.folder / "run", runs / folder)
        staging.sync(runs)
        return folder

    def _touch(
        self, before: Row, name: str | None, keep: Callable[[sa.Connection, str], None]
    ) -> Row | None:
        """Make a run the newest, and rename it if a name is given; None if it has changed."""
        with self._catalogue.writing() as connection:
            now = self._row(connection, RUNS.c.id == before.id)
            newest = self._row(connection)
            if now is None or newest is None or now.folder != before.folder:
                return None
            sequence = now.sequence if newest.id == now.id else self._next(connection)
            row = replace(now, name=name or now.name, sequence=sequence)
            if row != now:
                connection.execute(sa.update(RUNS).where(*self._is(row.id)).values(asdict(row)))
            keep(connection, row.id)
            return row

    def _free_id(self, connection: sa.Connection, digest: str) -> str:
        ids = (digest[:digits] for digits in range(_ID_DIGITS, len(digest)))
        return next((id for id in ids if self._row(connection, RUNS.c.id == id) is None), digest)

    def _next(self, connection: sa.Connection) -> int:
        newest = self._row(connection)
        return newest.sequence + 1 if newest else 1

    def _parts_of(self, row: Row) -> tuple[str, ...]:
        """The parts that a run is made of; none where its entry is damaged."""
        try:
            return self._contents(row).parts
        except TraceroofError:
            return ()

    def _parts(self, connection: sa.Connection) -> set[str]:
        """The parts that any run refers to, of whatever store of this catalogue."""
        return {part for row in self._rows(connection) for part in self._parts_of(row)}

    def _sweep_parts(self) -> None:
        """Remove the parts that no run refers to, of writers that were killed long ago."""
        with suppress(OSError, TraceroofError), self._catalogue.reading() as connection:
            for part in unreferenced(self.shelf, self._parts(connection), _STALE_SECONDS):
                self.shelf.remove(part)

    def _from_parts(self, contents: Contents, whole: bool) -> Recording:
        def part(at: int, *, whole: bool) -> Recording:
            found = load_part(self.shelf, contents.parts[at], whole=whole)
            if found is None:
                raise parquet.Unreadable(f"part {contents.parts[at]} is missing")
            return found

        parts = [part(at, whole=whole) for at in range(len(contents.parts))]
        merged = replace(merge(parts), sources=contents.sources, devices=contents.devices)
        if whole or len(parts) == 1:
            return merged
        return settled(merged, lambda at: part(at, whole=True))

    def _load(self, row: Row, whole: bool = False) -> Recording:
        contents = self._contents(row)
        if contents.parts:
            return self._from_parts(contents, whole)
        if isinstance(self.folder, Location):
            raise self._damaged(row, "it has no parts")
        folder = self.folder / "runs" / row.folder
        beside = contents.counters
        counters = None
        if beside is not None:
            counters = Recording(
                format=beside.format,
                time_basis="counter-tool",
                sources=beside.sources,
                devices=beside.devices,
                **parquet.read(folder, contents.files, parquet.COUNTERS),
            )
        return Recording(
            format=row.format,
            time_basis=row.time_basis,
            sources=contents.sources,
            devices=contents.devices,
            counters=counters,
            **parquet.read(folder, contents.files),
        )

    # What was being written

    @contextmanager
    def _claim(self) -> Iterator[staging.Claim | None]:
        """Where to prepare what will be renamed into place; nothing in object storage."""
        if isinstance(self.folder, Location):
            yield None
            return
        claim = staging.new_claim(self.folder / "incoming")
        try:
            yield claim
        finally:
            # What cannot be tidied up now, a later sweep finds.
            with suppress(OSError, TraceroofError):
                self._settle(claim)
            os.close(claim.descriptor)

    def _settle(self, claim: staging.Claim) -> None:
        """Remove a claim, and its rubbish as far as the catalogue does not refer to it."""
        if claim.rubbish and not isinstance(self.folder, Location):
            # Under the write lock, when nobody else is about to take one of these names.
            with self._catalogue.writing() as connection:
                kept = {row.folder for row in self._rows(connection)}
                for name in set(claim.rubbish) - kept:
                    if (folder := self.folder / "runs" / name).exists():
                        claim.put_aside(folder)
        claim.discard()

    def _sweep(self) -> None:
        """Tidy up after writers that were killed, as far as it can be done now."""
        if isinstance(self.folder, Location):
            return
        for lock in (self.folder / "incoming").glob("*.lock"):
            with suppress(OSError, TraceroofError), staging.abandoned_claim(lock) as claim:
                if claim is None:
                    continue
                catalogue, claim.rubbish = claim.journal()
                # Another catalogue may refer to these folders: its users tidy up.
                if not claim.rubbish or catalogue == self._catalogue.identity:
                    self._settle(claim)


# Of a measured ceiling what the column ``contents`` holds.
_HOW = ("probe", "launches", "launch_size")


def _key(one: MeasuredRate) -> tuple[str, str, str]:
    return one.device, one.time_basis, one.rate


def calibration_of(folder: Path | str | None = None) -> tuple[MeasuredRate, ...]:
    """The measured ceilings of the store in ``folder`` (as for ``Store.open``); none where there
    is no store: nothing is created. Raises TraceroofError where the store cannot be read."""
    store = _there(folder)
    return store.calibration() if store else ()


def noise_of(folder: Path | str | None = None) -> list[tuple[int, dict[str, Any]]]:
    """The measured noise of the store in ``folder``, as ``calibration_of``."""
    store = _there(folder)
    return store.noise() if store else []


def _there(folder: Path | str | None) -> Store | None:
    """The store in a folder, if there is one."""
    folder = folder or os.environ.get("TRACEROOF_STORE") or ".traceroof"
    if is_url(folder):
        place = location_of(str(folder))
        there = ObjectShelf(place).read("", "store-id") if _catalogue_url() else None
        return Store.open(folder, create=False) if there else None
    folder = Path(folder)
    if not (folder / _mark(os.environ.get("TRACEROOF_CATALOGUE"))).exists():
        return None
    return Store.open(folder, create=False)


def _catalogue_url() -> str | None:
    return os.environ.get("TRACEROOF_CATALOGUE") or None


def _mark(catalogue: str | None) -> str:
    """The file by which a folder is known to be a store."""
    return "store-id" if catalogue else "catalogue.db"


@contextmanager
def _explained(folder: Path | Location) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise staging.unwritable(folder, error) from None


def _make(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    # Where other things are, `.gitignore` would hide them from git.
    if other := [name for name in os.listdir(folder) if not name.startswith(_OURS)]:
        raise TraceroofError(
            f"{folder} is a folder with other things in it ({other[0]}), not a store",
            "name a new folder with --store",
        )
    ignore = folder / ".gitignore"
    if not ignore.exists() or not ignore.stat().st_size:
        ignore.write_text("*\n", encoding="utf-8")


def _remote_identity(place: Location, create: bool) -> str:
    """The same of a place in object storage."""
    shelf = ObjectShelf(place)
    found = shelf.read("", "store-id")
    if found is None:
        if not create:
            raise TraceroofError(
                f"there is no store in {place}",
                "`traceroof ingest PATH` makes one; --store names another",
            )
        shelf.put("", "store-id", secrets.token_hex(16).encode())
        found = shelf.read("", "store-id") or b""
    return found.decode("ascii", "replace").strip()


def _identity(folder: Path) -> str:
    """What tells this folder apart from others that share its catalogue; made once."""
    path = folder / "store-id"
    if not path.exists():
        draft = folder / f"store-id.{secrets.token_hex(8)}"
        draft.write_text(secrets.token_hex(16), encoding="ascii")
        with suppress(FileExistsError):  # the first of several processes wins
            os.link(draft, path)
        draft.unlink()
    return path.read_text(encoding="ascii", errors="replace").strip()
