"""Kernel tables as diagnosis takes them: their part, and its groups."""

from collections.abc import Mapping

import pyarrow as pa

from traceroof.core.dictionary import Coded
from traceroof.hardware.devices import Device
from traceroof.kernels import groups
from traceroof.kernels.categories import coded_categories, row_categories
from traceroof.kernels.groups import Groups
from traceroof.kernels.modelled_work import model_columns
from traceroof.patterns import roles
from traceroof.patterns.launch_part import LaunchPart, part_of


def judged(
    kernels: pa.Table, gpus: Mapping[int, Device | None] | None = None
) -> tuple[LaunchPart, list[str], Coded, Groups]:
    """The part of a kernel table; the category and role of its variants; their groups."""
    part, _ = part_of(kernels, coded_categories(kernels), (0,))
    table = part.variants.kernels
    categories = row_categories(table)
    role = roles.roles_of(table, categories)
    model = {**model_columns(table, categories, part.variants.part), "role": role}
    return part, categories, role, groups.group(part.variants, categories, gpus or {}, model)
