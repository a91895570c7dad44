"""The kernel table of a run as a Parquet, CSV or JSON lines file."""

from pathlib import Path

import pyarrow as pa

from traceroof.core.dictionary import Coded, coded
from traceroof.core.kernel_table import TEXT
from traceroof.errors import TraceroofError
from traceroof.report.common.output import write
from traceroof.report.run.csv import cell

FORMATS = ("parquet", "csv", "jsonl", "perfetto")
_OF_SUFFIX = {".json": "perfetto", **{f".{name}": name for name in FORMATS[:3]}}


def format_of(path: str | None, wanted: str | None = None) -> str:
    """What to write: what is wanted, else what the file's name says. Raises TraceroofError where
    neither tells, or no file is named for a table."""
    if wanted == "perfetto" or (wanted and path):
        return wanted
    if path is None:
        raise TraceroofError(
            "no file is named", "name it with -o: kernels.parquet, .csv or .jsonl, or trace.json.gz"
        )
    name = Path(path.removesuffix(".gz"))
    found = _OF_SUFFIX.get(name.suffix.lower())
    if found is None or (found != "perfetto" and path.endswith(".gz")):
        raise TraceroofError(
            f"{path} ends in {Path(path).suffix or 'no suffix'}",
            "name it .parquet, .csv or .jsonl; .json or .json.gz for a trace, or give --format",
        )
    return found


def export_kernels(kernels: pa.Table, path: Path, wanted: str | None = None) -> None:
    """Write a kernel table: parquet (lossless), csv (formula-safe) or jsonl (an object per line,
    unknown is null), as wanted, else as the suffix says."""
    format = format_of(str(path), wanted)
    if format == "csv":
        frame = kernels.to_pandas(types_mapper=_nullable)
        for name in (one.name for one in kernels.schema if one.type == TEXT):
            column = coded(kernels[name])
            frame[name] = Coded(column.codes, [*map(cell, column.texts)]).values()
        write(frame.to_csv(index=False, lineterminator="\n"), str(path))
    elif format == "parquet":
        from pyarrow import parquet

        unfinished = path.with_name(f".{path.name}.unfinished")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            parquet.write_table(kernels, unfinished, compression="zstd")
            unfinished.replace(path)
        except OSError as error:
            unfinished.unlink(missing_ok=True)
            raise TraceroofError(f"{path} cannot be written: {error.strerror or error}") from None
    elif format == "jsonl":
        frame = kernels.to_pandas(types_mapper=_nullable)
        for name in (one.name for one in kernels.schema if one.type == TEXT):
            frame[name] = frame[name].astype(object)
        write(frame.to_json(orient="records", lines=True, double_precision=15), str(path))
    else:
        raise TraceroofError(
            f"{path} would be a trace, not a table of kernels",
            "name it .parquet, .csv or .jsonl",
        )


def _nullable(kind: pa.DataType) -> object:
    """Whole numbers stay whole where some are unknown: 7, not 7.0."""
    import pandas as pd

    return pd.Int64Dtype() if pa.types.is_integer(kind) else None
