"""What each launch's operator is at least, row by row: the model beside the measurement."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof import operators
from traceroof.core import regex
from traceroof.core.dictionary import Coded, coded
from traceroof.core.kernel_table import as_reals
from traceroof.kernels import name_features
from traceroof.operators import Works
from traceroof.operators.models import CATEGORY_OF

# What their names say they do is not the product, the convolution or the attention itself.
_HELPERS = ("layout", "quantize", "memcpy", "memset", "communication")
_HEAVY = frozenset({"gemm", "conv", "attention"})

Mask = npt.NDArray[np.bool_]


def parts_of_rows(kernels: pa.Table, categories: Coded) -> npt.NDArray[np.float64] | None:
    """The part of its operator call's work that each row does, 0-1, NaN where it bears none; None
    where no row has operator shapes."""
    if kernels["input_shapes"].null_count == kernels.num_rows:
        return None
    return _parts(operators.works(kernels), kernels, categories)


def model_columns(
    kernels: pa.Table,
    categories: Sequence[str],
    part: npt.NDArray[np.float64] | None = None,
) -> Mapping[str, npt.NDArray[Any] | Coded]:
    """Modelled work per row of a kernel table; empty where no row has operator shapes.

    part: what each row does of its call's work, where that is known (``parts_of_rows``).

    model_flops and model_bytes are the row's own part of its operator call (a call may launch
    several kernels), NaN where the operator, its shapes or types are unknown; so is
    model_weight_bytes, where the work has a weight. model_dtype, model_unit ("tensor" or "vector")
    and model_shape are text. model_on_tensor_cores is 1 where any kernel of
    this work is marked so by its name.
    """
    if kernels["input_shapes"].null_count == kernels.num_rows:
        return _stated(kernels)
    found = operators.works(kernels)
    part = (
        _parts(found, kernels, coded(pa.array(categories, pa.string()))) if part is None else part
    )
    columns: dict[str, npt.NDArray[Any] | Coded] = {
        "model_flops": found.column("flops") * part,
        "model_bytes": found.column("bytes_min") * part,
        "model_weight_bytes": found.column("weight_bytes") * part,
        "model_on_tensor_cores": np.where(_on_tensor_cores(found, kernels), 1.0, np.nan),
    }
    bears = ~np.isnan(part)
    for name, attribute in (
        ("model", "model"),
        ("model_dtype", "dtype"),
        ("model_unit", "unit"),
        ("model_shape", "shape"),
    ):
        texts = [(getattr(work, attribute) if work else None) or "" for work in found.distinct]
        known = np.array([*map(bool, texts), False])
        codes = np.where(bears & known[found.of_row], found.of_row, -1)
        columns[name] = Coded(codes.astype(np.int32), texts)
    return columns


def _stated(kernels: pa.Table) -> Mapping[str, npt.NDArray[Any] | Coded]:
    """The work that the program itself states (Proton's ``flops`` and ``bytes``), as a model."""
    flops, least = as_reals(kernels["stated_flops"]), as_reals(kernels["stated_bytes"])
    known = ~(np.isnan(flops) & np.isnan(least))
    if not known.any():
        return {}
    dtypes = coded(kernels["stated_dtype"])
    narrow = [one in ("fp8", "fp16") for one in dtypes.texts]
    units = ["tensor" if one else "vector" for one in narrow]
    stated = np.where(known, 0, -1).astype(np.int32)
    return {
        "model": Coded(stated, ["stated"]),
        "model_flops": flops,
        "model_bytes": least,
        "model_weight_bytes": np.full(len(flops), np.nan),
        "model_on_tensor_cores": np.full(len(flops), np.nan),
        "model_dtype": dtypes,
        "model_unit": Coded(dtypes.codes, units),
        "model_shape": Coded(np.full(len(flops), -1, dtype=np.int32), []),
    }


def _parts(found: Works, kernels: pa.Table, categories: Coded) -> npt.NDArray[np.float64]:
    """The row's part of its call, 0-1; NaN for a row that bears none of the work."""
    part = operators.shares(found, kernels, categories)
    # A helper kernel of a call (a layout change beside the product) bears none of its work.
    heavy = np.array(
        [CATEGORY_OF.get(one.model, "") in _HEAVY if one else False
         for one in found.distinct] + [False]
    )  # fmt: skip
    helps = np.array([*(one in _HELPERS for one in categories.texts), False])
    helper = categories.spread(helps) & heavy[found.of_row]
    return np.where((part > 0) & ~helper, part, np.nan)


# AMD's matrix units multiply FP32 as it is, but for Tensile's kernels with this mark.
_KEEPS_FP32 = regex.compile(r"Cijk_|gtcx|xdl|mfma|(^|[_:])ck(_tile)?::")
_ROUNDS_FP32 = "_MX_"


def _round_fp32(names: Sequence[str]) -> Mask:
    """Which kernels multiply FP32 operands as TF32, by their names."""
    of_tensor_cores = name_features.columns(names, only="name_tensor_core")
    result: Mask = of_tensor_cores.get("name_tensor_core", np.zeros(len(names))) == 1
    for row in np.flatnonzero(result).tolist():
        kept = _KEEPS_FP32.search(names[row]) is not None
        result[row] = not kept or _ROUNDS_FP32 in names[row]
    return result


def _on_tensor_cores(found: Works, kernels: pa.Table) -> Mask:
    """Rows of which some kernel with the same work is named as one for tensor cores: FP32 products
    then ran as TF32, also those parts of them whose names do not tell (a split's reduction)."""
    names = coded(kernels["kernel_name"])
    marked = names.spread(np.append(_round_fp32(names.texts), False))
    some = np.zeros(len(found.distinct) + 1, dtype=bool)
    some[found.of_row[marked]] = True
    some[-1] = False
    return np.asarray(some[found.of_row])
