"""Which metrics of Nsight Compute are counted per instruction, and the columns they fill."""

from collections.abc import Mapping

from traceroof.core.source_lines import SAMPLES_OF
from traceroof.parsers.nsight.formulas import book

#: By metric; several generations name the same count.
COLUMNS: Mapping[str, str] = {
    "inst_executed": "instructions",
    "thread_inst_executed": "thread_instructions",
    "thread_inst_executed_true": "thread_instructions_predicated",
    "smsp__pcsamp_sample_count": "samples",
    "smsp__branch_targets_threads_divergent": "divergent_branches",
    "memory_l2_theoretical_sectors_global": "global_sectors",
    "memory_l2_theoretical_sectors_global_ideal": "global_sectors_ideal",
    "memory_l2_transactions_global": "global_sectors",
    "memory_ideal_l2_transactions_global": "global_sectors_ideal",
    "memory_l2_theoretical_sectors_local": "local_sectors",
    "memory_l2_transactions_local": "local_sectors",
    "memory_l1_wavefronts_shared": "shared_wavefronts",
    "memory_l1_wavefronts_shared_ideal": "shared_wavefronts_ideal",
    "memory_shared_transactions": "shared_wavefronts",
    "memory_ideal_shared_transactions": "shared_wavefronts_ideal",
}
#: Titles of the source page, in small letters, by the metric that they show.
TITLES: Mapping[str, str] = {
    "# samples": "samples",
    "samples": "samples",
    "instructions executed": "instructions",
    "thread instructions executed": "thread_instructions",
    "predicated-on thread instructions executed": "thread_instructions_predicated",
    "divergent branches": "divergent_branches",
    "l2 theoretical sectors global": "global_sectors",
    "l2 theoretical sectors global ideal": "global_sectors_ideal",
    "memory l2 transactions global": "global_sectors",
    "memory ideal l2 transactions global": "global_sectors_ideal",
    "l2 theoretical sectors local": "local_sectors",
    "memory l2 transactions local": "local_sectors",
    "l1 wavefronts shared": "shared_wavefronts",
    "l1 wavefronts shared ideal": "shared_wavefronts_ideal",
    "memory shared transactions": "shared_wavefronts",
    "memory ideal shared transactions": "shared_wavefronts_ideal",
}
#: Titles of all samples where there is no count of them: the name changed over the years.
ALL_SAMPLES = (
    "warp stall sampling (all samples)",
    "warp stall sampling (all cycles)",
    "sampling data (all)",
)
#: Titles of the samples taken while the scheduler issued nothing.
ALL_STALLED = (
    "warp stall sampling (not-issued samples)",
    "warp stall sampling (not-issued cycles)",
    "sampling data (not issued)",
)
NOT_ISSUED = "samples_not_issued"

#: What the codes of ``memory_type`` and ``memory_access_type`` stand for; other codes are unknown.
SPACES: Mapping[int, str] = {4: "global", 8: "local", 16: "shared"}
ACCESSES: Mapping[int, str] = {2: "load", 4: "store"}

_STALLED = "smsp__pcsamp_warps_issue_stalled_"
_PART = "_not_issued"
#: The metric of a kernel that is the sum of a column.
METRIC_OF: Mapping[str, str] = {
    "samples": "smsp__pcsamp_sample_count",
    "instructions": "smsp__inst_executed.sum",
    "thread_instructions": "thread_inst_executed",
    "thread_instructions_predicated": "thread_inst_executed_true",
    **{column: f"{_STALLED}{reason}" for reason, column in SAMPLES_OF.items()},
}


def column_of(metric: str) -> str | None:
    """The column of a metric; None for one that has none."""
    if metric in COLUMNS:
        return COLUMNS[metric]
    if not metric.startswith(_STALLED):
        return None
    reason = metric.removeprefix(_STALLED)
    return NOT_ISSUED if reason.endswith(_PART) else SAMPLES_OF.get(canonical(reason))


def column_of_title(title: str) -> str | None:
    """The column of a title of the source page, in small letters; a metric's name is one too."""
    if title.startswith("stall_"):
        reason, part, _ = title.removeprefix("stall_").partition(" (")
        return NOT_ISSUED if part else SAMPLES_OF.get(canonical(reason))
    return TITLES.get(title) or column_of(title)


def canonical(reason: str) -> str:
    """The name of a stall reason in the kernel table."""
    return book().stall_names.get(reason, reason)
