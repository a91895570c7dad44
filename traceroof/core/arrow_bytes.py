"""Arrow tables as bytes, and back."""

import pyarrow as pa


def packed(table: pa.Table, compression: str | None = "zstd") -> bytes:
    """A table as bytes."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table.unify_dictionaries().combine_chunks())
    found: bytes = sink.getvalue().to_pybytes()
    return found


def unpacked(data: bytes) -> pa.Table:
    """The inverse of ``packed``. Raises pa.ArrowException where ``data`` is something else."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()
