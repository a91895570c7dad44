"""How much of the time goes to element-wise kernels of eager PyTorch, and on which operands."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core.kernel_table import Column, sourced
from traceroof.kernels.groups import Groups

#: Columns of the facts of scope ``run`` that come from here; absent where there is no such work.
ELEMENTWISE_COLUMNS: tuple[Column, ...] = sourced(
    (
        Column(name, pa.float64(), unit, meaning, "run", basis)
        for name, unit, meaning, basis in (
            ("eager_pct", "%", "eager element-wise kernels on contiguous operands", "GPU time"),
            ("eager_ns", "ns", "time of these kernels", ""),
            ("eager_launches", "launch", "launches of these kernels", ""),
            ("strided_pct", "%", "eager element-wise kernels on strided operands", "GPU time"),
            ("strided_ns", "ns", "time of these kernels", ""),
            ("strided_launches", "launch", "launches of these kernels", ""),
        )
    ),
    name="eager_pct eager_ns eager_launches strided_pct strided_ns strided_launches",
)


def elementwise(grouped: Groups, total_ns: float) -> Mapping[str, float]:
    """Values by the names of ELEMENTWISE_COLUMNS; empty where no name tells.

    total_ns: time of all GPU activities.
    """
    see = grouped.facts.only(("name_operands", "category", "time_ns", "launches"))
    mine = (see.category == "elementwise") & (see.time_ns > 0)
    found: dict[str, float] = {}
    for short, operands in (("eager", "contiguous"), ("strided", "strided")):
        at: npt.NDArray[np.bool_] = np.asarray(mine & (see.name_operands == operands))
        if at.any():
            time = float(see.time_ns[at].sum())
            found |= {
                f"{short}_pct": time / total_ns * 100,
                f"{short}_ns": time,
                f"{short}_launches": float(see.launches[at].sum()),
            }
    return found
