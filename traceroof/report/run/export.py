"""The kernel table of a run as a Parquet, CSV or JSON lines file."""

from pathlib import Path

import pyarrow as pa

from traceroof.core.dictionary import Coded, coded
from traceroof.core.kernel_table import TEXT
from traceroof.errors import TraceroofError
from traceroof.report.common.output import write
from traceroof.report.run.csv import cell


def export_kernels(kernels: pa.Table, path: Path) -> None:
    """Write a kernel table; the suffix decides: .parquet (lossless), .csv (formula-safe)
    or .jsonl (an object per line, unknown is null)."""
    suffix = path.suffix.lower()
    if suffix == ".csv":
        frame = kernels.to_pandas(types_mapper=_nullable)
        for name in (one.name for one in kernels.schema if one.type == TEXT):
            column = coded(kernels[name])
            frame[name] = Coded(column.codes, [*map(cell, column.texts)]).values()
        write(frame.to_csv(index=False, lineterminator="\n"), str(path))
    elif suffix == ".parquet":
        from pyarrow import parquet

        unfinished = path.with_name(f".{path.name}.unfinished")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            parquet.write_table(kernels, unfinished, compression="zstd")
            unfinished.replace(path)
        except OSError as error:
            unfinished.unlink(missing_ok=True)
            raise TraceroofError(f"{path} cannot be written: {error.strerror or error}") from None
    elif suffix == ".jsonl":
        frame = kernels.to_pandas(types_mapper=_nullable)
        for name in (one.name for one in kernels.schema if one.type == TEXT):
            frame[name] = frame[name].astype(object)
        write(frame.to_json(orient="records", lines=True, double_precision=15), str(path))
    else:
        raise TraceroofError(
            f"{path} ends in {suffix or 'no suffix'}", "name it .parquet, .csv or .jsonl"
        )


def _nullable(kind: pa.DataType) -> object:
    """Whole numbers stay whole where some are unknown: 7, not 7.0."""
    import pandas as pd

    return pd.Int64Dtype() if pa.types.is_integer(kind) else None
