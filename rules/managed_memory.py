"""Managed memory that moves page by page while kernels wait for it."""

from typing import Any

import numpy as np

from traceroof.rule import Rule, above, at_least, below
from traceroof.rules._doubts import halved

# A prefetch moves 2 MiB at once, which takes 157 us over PCIe 3.0; pages on demand take a few.
_PREFETCHED_NS = 40e3
_MANY = 10
_MUCH = 0.2


def _rule(copies: str, **card: Any) -> Rule:
    """copies: the column of the pieces that moved."""
    return Rule(
        topic="input-copy",
        title="Managed memory moves page by page while kernels wait for it",
        why=(
            "A kernel that touches managed memory which is not on the GPU stops at a page fault, until "
            "the driver has moved the page. Handling a fault takes tens of microseconds, far longer "
            "than moving some kilobytes, so such a kernel can take tens of times its own time."
        ),
        applies=lambda k: ~np.isnan(getattr(k, copies)),
        fix=(
            "Prefetch to the GPU before the kernel, and to the host before the host reads "
            "([nvidia: cudaMemPrefetchAsync][amd: hipMemPrefetchAsync]); initialise on the GPU; or copy "
            "explicitly from pinned memory."
        ),
        refute=(
            "Prefetch the arrays of one kernel. Its time must fall to what it takes in a second run."
        ),
        kind="conditional",
        grade="observed",
        layer="framework",
        effort="refactor",
        severity="info",
        urgent=lambda k: np.ones(len(k), dtype=bool),
        doubts=halved("kernels wait for pages within their time", "kernel", "category", "run"),
        references=(
            "NVIDIA blog, Maximizing Unified Memory Performance in CUDA: faults against prefetches",
        ),
        **card,
    )


_PAGES = {
    "summary_migrations": 3_091.0,
    "summary_migrated_ns": 17.7e6,
    "summary_migration_ns": 5.7e3,
    "kernel_time_ns": 27e6,
}
_MOVED = {
    "managed_copies": 3_091.0,
    "managed_copy_ns": 5.7e3,
    "managed_under_kernels_ns": 17e6,
    "compute_ns": 27e6,
}
_PIECES = (
    "or more pieces of managed memory moved, less than {%s} each (what is prefetched moves in larger "
    "pieces, which take longer)"
)

RULES = (
    _rule(
        "summary_migrations",
        id="managed-memory-migrates",
        scope="run",
        condition=(
            "a summary without a timeline, in which {summary_migrations:.0f} "
            f"{_PIECES % 'summary_migration_ns'}, {{summary_migrated_ns:.0%}} of the kernel time or "
            "more in all"
        ),
        needs=(
            "summary_migrations",
            "summary_migrated_ns",
            "summary_migration_ns",
            "kernel_time_ns",
        ),
        when=lambda k: (
            k.meets("summary_migrations")
            & k.meets("summary_migrated_ns")
            & k.meets("summary_migration_ns")
            & k.meets("kernel_time_ns")
        ),
        because=(
            "{summary_migrations:,.0f} pieces of managed memory moved, {summary_migration_ns} each on "
            "average and {summary_migrated_ns} in all; kernels take {kernel_time_ns}, their waiting "
            "for pages included"
        ),
        # They are copies, too.
        suppresses=("copies-outlast-kernels",),
        thresholds={
            "summary_migrations": at_least(_MANY),
            "summary_migration_ns": below(_PREFETCHED_NS),
            "summary_migrated_ns": at_least(_MUCH, of="kernel_time_ns"),
            "kernel_time_ns": above(0, told=False),
        },
        fires=(_PAGES, {**_PAGES, "summary_migrations": 10.0, "summary_migration_ns": 39e3}),
        silent=(
            {**_PAGES, "summary_migrations": 9.0},
            {**_PAGES, "summary_migration_ns": 157e3},
            {**_PAGES, "kernel_time_ns": 90e6},
            {**_PAGES, "kernel_time_ns": 0.0},
            {"kernel_time_ns": 27e6},
        ),
    ),
    _rule(
        "managed_copies",
        id="pages-move-under-kernels",
        scope="timeline",
        condition=(
            f"{{managed_copies:.0f}} {_PIECES % 'managed_copy_ns'}, while kernels ran for "
            "{managed_under_kernels_ns:.0%} of their time or more"
        ),
        needs=("managed_copies", "managed_copy_ns", "managed_under_kernels_ns", "compute_ns"),
        when=lambda k: (
            k.meets("managed_copies")
            & k.meets("managed_copy_ns")
            & k.meets("managed_under_kernels_ns")
            & k.meets("compute_ns")
        ),
        because=(
            "{managed_copies:,.0f} pieces of managed memory moved, {managed_copy_ns} each on average, for "
            "{managed_under_kernels_ns} of the {compute_ns} in which kernels run"
        ),
        thresholds={
            "managed_copies": at_least(_MANY),
            "managed_copy_ns": below(_PREFETCHED_NS),
            "managed_under_kernels_ns": at_least(_MUCH, of="compute_ns"),
            "compute_ns": above(0, told=False),
        },
        fires=(_MOVED, {**_MOVED, "managed_copies": 10.0, "managed_copy_ns": 39e3}),
        silent=(
            {**_MOVED, "managed_copies": 9.0},
            {**_MOVED, "managed_copy_ns": 157e3},
            {**_MOVED, "managed_under_kernels_ns": 5e6},
            {**_MOVED, "managed_under_kernels_ns": 0.0, "compute_ns": 0.0},
            {"compute_ns": 27e6},
        ),
    ),
)
