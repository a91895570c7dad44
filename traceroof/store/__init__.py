"""Runs kept: what is known about each run in a catalogue, its tables in Parquet files.

    .traceroof/
      .gitignore          *
      catalogue.db        SQLite, unless TRACEROOF_CATALOGUE names another database
      runs/ID/            kernels.parquet, raw_metrics.parquet, ...; a table without rows: no file
      parts/NAME/         the same of one file of a run of several, which is kept part by part
      incoming/           what live processes are writing (traceroof.store.staging)

A run is what the catalogue says; folders are only what it points at. A kill at any moment leaves
the old state, or the new one (``store.commit``).

The same bytes are the same run. Read again with another outcome (by a newer traceroof, with
another ``--device``), the run keeps its id and holds the newest reading.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import sqlalchemy as sa

from traceroof.core.recording import Recording, Run
from traceroof.errors import TraceroofError
from traceroof.hardware.ceilings import MeasuredRate
from traceroof.ingest.remote import Location
from traceroof.scale.mapping import Keep
from traceroof.store import (
    baselines,
    calibrations,
    commit,
    lookup,
    noise_profiles,
    parquet,
    read_run,
    summaries,
)
from traceroof.store.open_store import OpenStore, exists, explained, open_store
from traceroof.store.rows import RunInfo, bare_info, checked_name
from traceroof.store.shelves import Shelf
from traceroof.store.summaries import Kept, Origin, Series, Summary
from traceroof.store.tables import RUNS

_DIGEST = rf"[0-9a-f]{{{commit.ID_DIGITS},64}}"


class Store:
    """A folder of runs, for any number of threads and processes at once."""

    def __init__(self, opened: OpenStore) -> None:
        self._opened = opened
        self._catalogue = opened.catalogue
        self._identity = opened.identity

    @property
    def folder(self) -> Path | Location:
        """Where it is."""
        return self._opened.folder

    @property
    def shelf(self) -> Shelf:
        """Where runs lie that are kept part by part."""
        return self._opened.shelf

    @classmethod
    def open(
        cls, folder: Path | str | None = None, catalogue: str | None = None, *, create: bool = True
    ) -> Self:
        """Open the store in ``folder``, bringing an older catalogue up to date.

        folder: a folder or the URL of one in object storage; None takes TRACEROOF_STORE, else
        ``.traceroof`` in the current folder.
        catalogue: any SQLAlchemy URL; None takes TRACEROOF_CATALOGUE, else the folder's own.
        create: make a store where there is none, instead of saying so.

        Raises TraceroofError when there is no store, or it cannot be reached, is damaged, or was
        written by a newer traceroof.
        """
        return cls(open_store(folder, catalogue, create=create))

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
        if not re.fullmatch(_DIGEST, digest):
            raise ValueError(f"not a digest: {digest!r}")
        name = None if name is None else checked_name(name)
        recording = parquet.normal(recording)

        def keep(connection: sa.Connection, run: str) -> None:
            if summary is not None:
                self._keep(connection, run, summary, origin, moved=moved)

        with explained(self.folder):
            entry = commit.Entry(recording, digest, name, tuple(parts), keep)
            row = commit.commit(self._opened, entry)
        return Run(recording, row.name, row.id, row.created)

    def get(self, run: str | None = None, *, keep: Keep = "rows") -> Run:
        """A run with all it holds; None is the newest.

        keep: of a run that is kept part by part ``parts`` is what was worked out of its launches
        alone, ``all`` also what the host did, in place of what was worked out of it. run: an id, a baseline, a name (its newest run), or the first digits of
        just one id (four or more), tried in this order.

        Raises TraceroofError when there is none, several match, or its files are damaged.
        """
        with explained(self.folder):
            return read_run.read_run(self._opened, run, keep)

    def runs(self) -> list[RunInfo]:
        """All runs, the most recently ingested first."""
        with self._catalogue.reading() as connection:
            rows = lookup.rows(self._opened, connection)
            return [lookup.info(self._opened, row) for row in rows]

    def remove(self, run: str) -> RunInfo:
        """Forget a run (named as for ``get``) with its files and the baselines that point to it.

        Works for a run whose files are damaged, too. Returns what it was.
        """
        with explained(self.folder):
            row = commit.remove(self._opened, run)
        try:
            return lookup.info(self._opened, row)
        except TraceroofError:
            return bare_info(row)

    def set_baseline(self, name: str, run: str) -> None:
        """Let ``name`` stand for a run from now on, wherever a run is asked for."""
        baselines.point(self._opened, name, run)

    def baselines(self) -> dict[str, RunInfo]:
        """Baselines and their runs, ordered by name."""
        return baselines.read(self._opened)

    def standing_for(self, run: str) -> tuple[str, ...]:
        """Names of the baselines that stand for a run (named as for ``get``), which go with it."""
        return baselines.of_run(self._opened, run)

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
            there = lookup.newest(self._opened, connection, RUNS.c.id == run)
            if there is not None:  # else removed meanwhile
                self._keep(connection, run, summary, None, moved=False)

    def origin(self, run: str) -> Origin | None:
        """The code that a run (named as for ``get``) measured; None where nothing is known."""
        with self._catalogue.reading() as connection:
            row = lookup.resolve(self._opened, connection, run)
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
        summaries.write(connection, self._identity, run, summary, kept or summaries.NOWHERE)

    def calibrate(
        self, rates: Sequence[MeasuredRate]
    ) -> list[tuple[MeasuredRate, MeasuredRate | None]]:
        """Keep measured ceilings, each in place of an earlier one of the same device, times and
        kind. Returns them with what they replace, None where there was none."""
        return calibrations.write(self._opened, rates)

    def calibration(self) -> tuple[MeasuredRate, ...]:
        """The measured ceilings, by device, kind of times and name."""
        with self._catalogue.reading() as connection:
            return calibrations.read(self._opened, connection)

    def forget_calibration(self, device: str) -> tuple[MeasuredRate, ...]:
        """Remove the measured ceilings of a device. Returns them; none raises TraceroofError."""
        return calibrations.forget(self._opened, device)

    def noise(self) -> list[tuple[int, dict[str, Any]]]:
        """What ``keep_noise`` kept, each with its number."""
        return noise_profiles.read(self._opened)

    def keep_noise(
        self, form: Mapping[str, Any], replaces: Callable[[dict[str, Any]], bool]
    ) -> int:
        """Keep measured noise in place of what it ``replaces``. Returns how many that were."""
        return noise_profiles.write(self._opened, form, replaces)

    def forget_noise(self, numbers: Sequence[int]) -> None:
        """Remove kept noise by its numbers."""
        noise_profiles.forget(self._opened, numbers)


def calibration_of(folder: Path | str | None = None) -> tuple[MeasuredRate, ...]:
    """The measured ceilings of the store in ``folder`` (as for ``Store.open``); none where there
    is no store: nothing is created. Raises TraceroofError where the store cannot be read."""
    return Store.open(folder, create=False).calibration() if exists(folder) else ()


def noise_of(folder: Path | str | None = None) -> list[tuple[int, dict[str, Any]]]:
    """The measured noise of the store in ``folder``, as ``calibration_of``."""
    return Store.open(folder, create=False).noise() if exists(folder) else []
