"""What each launch's operator is at least, row by row: the model beside the measurement."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof import operators


def model_columns(kernels: pa.Table, categories: Sequence[str]) -> Mapping[str, npt.NDArray[Any]]:
    """Modelled work per row of a kernel table; empty where no row has operator shapes.

    model_flops and model_bytes are the row's own part of its operator call (a call may launch
    several kernels), NaN where the operator, its shapes or types are unknown. model_dtype,
    model_unit ("tensor" or "vector") and model_shape are text, None where unknown.
    """
    if kernels["input_shapes"].null_count == kernels.num_rows:
        return {}
    found = operators.works(kernels)
    part = operators.shares(found, kernels, categories)
    # A helper kernel of a call (a layout change beside the product) bears none of its work.
    part = np.where(part > 0, part, np.nan)
    columns: dict[str, npt.NDArray[Any]] = {
        "model_flops": found.column("flops") * part,
        "model_bytes": found.column("bytes_min") * part,
    }
    for name, attribute in (
        ("model", "model"),
        ("model_dtype", "dtype"),
        ("model_unit", "unit"),
        ("model_shape", "shape"),
    ):
        texts = [getattr(work, attribute) if work else None for work in found.distinct]
        distinct = np.array([*texts, None], dtype=object)
        columns[name] = distinct[found.of_row]
        columns[name][np.isnan(part)] = None
    return columns
