"""What identifies a launch, as columns of the kernel table: its name, numbers and shape."""

import math
from collections.abc import Mapping

import numpy as np

from traceroof.core import regex
from traceroof.parsers.nsight.formulas import Columns, Floats
from traceroof.parsers.nsight.launches import Launch, Launches
from traceroof.parsers.nsight.numbers import whole

Shape = tuple[int, int, int]
#: The name of a kernel in files that do not give one.
NO_NAME = "(name not in the file)"

_SHAPE = regex.compile(r"\(?\s*(\d{1,10})\s*[,;x]\s*(\d{1,10})\s*[,;x]\s*(\d{1,10})\s*\)?")


def add_identity(launches: Launches, columns: Columns, devices: list[int | None]) -> None:
    """Fill the columns of names and numbers. devices: of each launch, as a number."""
    found = launches.found
    values = columns.values
    values["kernel_name"] = [_name_of(launch) for launch in found]
    values["process_name"] = [launch.process_name.strip() or None for launch in found]
    values["module_path"] = [launch.range or None for launch in found]
    values["process_id"] = [whole(launch.process_id) for launch in found]
    values["launch_id"] = [whole(launch.launch_id) for launch in found]
    values["context"] = [whole(launch.context) for launch in found]
    values["stream"] = [whole(launch.stream) for launch in found]
    values["device"] = devices
    values["launch_count"] = [max(whole(launch.launches) or 1, 1) for launch in found]


def add_shapes(launches: Launches, columns: Columns, metrics: Mapping[str, Floats]) -> None:
    """Grid and block: from the launch's own cells, else its dimensions, else its total.

    Before 2023 tables have no columns for them, and the sections print only how many blocks
    and threads there are. Without those, launches of every size would be one kernel.
    """
    unknown = np.full(len(launches.found), np.nan)
    flattened = np.zeros(len(launches.found), dtype=bool)
    shapes: dict[str, list[Shape | None]] = {"grid": [], "block": []}
    for what, found in shapes.items():
        total = metrics.get(f"launch__{what}_size", unknown)
        by_axis = [columns.values.get(f"{what}_{letter}", unknown) for letter in "xyz"]
        for row, launch in enumerate(launches.found):
            known = shape(getattr(launch, what))
            if known is None and all(_countable(axis[row]) for axis in by_axis):
                known = (int(by_axis[0][row]), int(by_axis[1][row]), int(by_axis[2][row]))
            if known is None and _countable(total[row]):
                known = (int(total[row]), 1, 1)
                flattened[row] = True
            found.append(known)
    blocks = metrics.get("launch__grid_size", unknown).tolist()
    shapes["grid"] = list(map(_in_blocks, shapes["grid"], shapes["block"], blocks))
    for what, found in shapes.items():
        for axis, letter in enumerate("xyz"):
            columns.values[f"{what}_{letter}"] = [known and known[axis] for known in found]
    launches.note(
        "launches whose grid or block is known as a total only, written as (total, 1, 1)",
        int(flattened.sum()),
        severe=False,
    )


def _in_blocks(grid: Shape | None, block: Shape | None, blocks: float) -> Shape | None:
    """The grid in blocks. Reports of 2020 have it in threads, beside the number of blocks."""
    if grid is None or block is None or not _countable(blocks) or math.prod(grid) == blocks:
        return grid
    x, y, z = (whole // part for whole, part in zip(grid, block, strict=True))
    return (x, y, z) if x * y * z == blocks else grid


def shape(text: str) -> Shape | None:
    """``"(256, 1, 1)"`` -> ``(256, 1, 1)``; None for anything else, and for a shape of nothing."""
    match = _SHAPE.fullmatch(text.strip()) if text else None
    found = (int(match[1]), int(match[2]), int(match[3])) if match else (0, 0, 0)
    return found if all(found) else None


def _name_of(launch: Launch) -> str:
    """The kernel's name; that of a range result is its range, each a workload of its own."""
    name = launch.name.strip()
    if name == "range" and _has_no_shape(launch):
        return f"(range {launch.range})" if launch.range else "(range)"
    return name or NO_NAME


def _has_no_shape(launch: Launch) -> bool:
    shapes = {"".join(one.split()) for one in (launch.grid, launch.block)}
    return shapes <= {"", "n/a", "(1,1,1)", "1,1,1", "1"}


def _countable(value: float) -> bool:
    return 1 <= value < 2**62
