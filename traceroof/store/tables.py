"""The tables of the catalogue, and what brings those of an older version up to date."""

from collections.abc import Callable

import sqlalchemy as sa

NAME_LENGTH = 200

METADATA = sa.MetaData()

SCHEMA = sa.Table(
    "traceroof_schema",
    METADATA,
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
)

#: One row per run. ``store`` tells apart the folders that share one catalogue and is empty in a
#: folder's own; the highest ``sequence`` is the newest; ``contents`` is JSON.
RUNS = sa.Table(
    "traceroof_runs",
    METADATA,
    sa.Column("store", sa.String(32), primary_key=True),
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("name", sa.String(NAME_LENGTH), nullable=False),
    sa.Column("created", sa.String(40), nullable=False),
    sa.Column("folder", sa.String(80), nullable=False),
    sa.Column("format", sa.Text, nullable=False),
    sa.Column("time_basis", sa.String(40), nullable=False),
    sa.Column("launches", sa.BigInteger, nullable=False),
    sa.Column("kernel_time_ns", sa.BigInteger, nullable=False),
    sa.Column("contents", sa.Text, nullable=False),
    sa.UniqueConstraint("store", "digest"),
)

#: Names that stand for a run.
BASELINES = sa.Table(
    "traceroof_baselines",
    METADATA,
    sa.Column("store", sa.String(32), primary_key=True),
    sa.Column("name", sa.String(NAME_LENGTH), primary_key=True),
    sa.Column("run", sa.String(64), nullable=False),
)

#: Ceilings that ``traceroof calibrate`` measured, one row each; ``device`` is a row of the device
#: table, ``rate`` what was measured, ``contents`` how, as JSON.
CALIBRATION = sa.Table(
    "traceroof_calibration",
    METADATA,
    sa.Column("store", sa.String(32), primary_key=True),
    sa.Column("device", sa.String(NAME_LENGTH), primary_key=True),
    sa.Column("time_basis", sa.String(40), primary_key=True),
    sa.Column("rate", sa.String(40), primary_key=True),
    sa.Column("per_s", sa.Double, nullable=False),
    sa.Column("nominal_per_s", sa.Double, nullable=False),
    sa.Column("measured", sa.String(40), nullable=False),
    sa.Column("contents", sa.Text, nullable=False),
)

#: What ``traceroof history`` reads of a run, a row each: the code that it measured, and its figures
#: as JSON: lists of numbers of ``SERIES``, values and launches.
HISTORY = sa.Table(
    "traceroof_history",
    METADATA,
    sa.Column("store", sa.String(32), primary_key=True),
    sa.Column("run", sa.String(64), primary_key=True),
    sa.Column("commit_id", sa.String(NAME_LENGTH)),
    sa.Column("committed", sa.String(40)),
    sa.Column("branch", sa.Text),
    sa.Column("dirty", sa.Boolean),
    sa.Column("job", sa.Text),
    sa.Column("device", sa.Text, nullable=False),
    sa.Column("per", sa.String(10), nullable=False),
    sa.Column("figures", sa.Text, nullable=False),
)

#: What the numbers in a run's figures stand for: a metric, a category or a kernel.
SERIES = sa.Table(
    "traceroof_series",
    METADATA,
    sa.Column("store", sa.String(32), primary_key=True),
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("level", sa.String(10), nullable=False),
    sa.Column("name", sa.Text, nullable=False),
)

#: Noise that ``traceroof noise`` measured, a row per device and workload; ``contents`` is JSON.
NOISE = sa.Table(
    "traceroof_noise",
    METADATA,
    sa.Column("store", sa.String(32), primary_key=True),
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("device", sa.Text, nullable=False),
    sa.Column("time_basis", sa.String(40), nullable=False),
    sa.Column("contents", sa.Text, nullable=False),
)


def _add_calibration(connection: sa.Connection) -> None:
    CALIBRATION.create(connection, checkfirst=True)


def _runs_in_parts(connection: sa.Connection) -> None:
    """Nothing to change: what knows only runs in one piece must not read the others as empty."""


def _add_history(connection: sa.Connection) -> None:
    for table in (HISTORY, SERIES, NOISE):
        table.create(connection, checkfirst=True)


#: Step i brings a catalogue of version i + 1 to version i + 2. All steps that are due run in one
#: write transaction, which also raises the version.
MIGRATIONS: tuple[Callable[[sa.Connection], None], ...] = (
    _add_calibration, _runs_in_parts, _add_history,
)  # fmt: skip
