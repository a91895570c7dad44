"""Ranks side by side: synthetic pairs with known clocks and waits, and real multi-rank traces."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from traceroof.core.dictionary import coded
from traceroof.core.kernel_table import kernel_table
from traceroof.core.merge_recordings import merge
from traceroof.core.recording import Recording, Source
from traceroof.timeline import Exchange, timelines
from traceroof.timeline.partial import partial_of_run
from traceroof.timeline.ranks import RANK_COLUMNS, Ranks, facts_of, ranks

US = 1_000
Row = tuple[str, int, int]  # category, start, end in µs on the common clock


def of(
    per_rank: Sequence[Sequence[Row]],
    clocks: Sequence[int],
    groups: Callable[[int, Sequence[Row]], dict[str, Any]] | None = None,
    **columns: Any,
) -> Ranks | None:
    """Compare ranks whose own clocks read ``clocks`` µs more than the common one.

    groups: columns that tell the process groups, of a rank and its rows."""
    parts, categories = [], []
    for rank, (rows, clock) in enumerate(zip(per_rank, clocks, strict=True)):
        kernels = kernel_table(
            {
                "kernel_name": [
                    "ncclDevKernel_AllReduce_Sum" if category == "communication" else "k"
                    for category, *_ in rows
                ],
                "start_ns": [(start + clock) * US for _, start, _ in rows],
                "duration_ns": [(end - start) * US for _, start, end in rows],
                "rank": [rank] * len(rows),
                "device": [rank] * len(rows),
                "process_id": [100 + rank] * len(rows),
                **{name: values[: len(rows)] for name, values in columns.items()},
                **(groups(rank, rows) if groups else {}),
            }
        )
        source = Source(f"rank{rank}.json", "test", len(rows))
        parts.append(Recording("test", "timeline", kernels, (source,)))
        categories += [category for category, *_ in rows]
    joined = merge(parts)
    return ranks(partial_of_run(joined, coded(pa.array(categories, pa.string()))))


# Rank 1 computes 40 µs longer before each of two collectives; both leave together.
EARLY: list[Row] = [
    ("gemm", 0, 100), ("communication", 100, 160), ("gemm", 160, 260), ("communication", 260, 320),
]  # fmt: skip
BEHIND: list[Row] = [
    ("gemm", 0, 140), ("communication", 140, 160), ("gemm", 160, 300), ("communication", 300, 320),
]  # fmt: skip


@pytest.mark.parametrize("clock", [0, 7, -11_560_000, 1_700_000_000_000_000])
def test_who_waits_for_whom_whatever_the_clocks_say(clock: int) -> None:
    found = of([EARLY, BEHIND], [0, clock])
    assert found is not None
    assert found.comparable
    first, second = found.ranks
    assert (first.offset_ns, second.offset_ns) == (0, -clock * US)
    assert (first.waiting_ns, second.waiting_ns) == (80 * US, 0)
    assert (first.caused_ns, second.caused_ns) == (0, 80 * US)
    assert (first.last_share, second.last_share) == (0.0, 1.0)
    assert (first.compute_ns, second.compute_ns) == (200 * US, 280 * US)
    facts = found.facts
    assert facts["clock_residual_ns"] == 0
    assert facts["matched_collectives"] == 2
    assert (facts["slowest_rank"], facts["slowest_share"]) == (1, 1.0)
    assert facts["slowest_compute_ratio"] == pytest.approx(280 / 240)
    assert facts["slowest_own_ratio"] == pytest.approx(280 / 240)
    assert facts["waiting_ns"] == 40 * US  # 80 and 0
    assert facts["waiting_share"] == pytest.approx(40 / 80)  # communication 120 and 40
    assert facts["compute_imbalance"] == pytest.approx((280 - 240) / 240)


def test_clocks_that_never_agree_allow_no_comparison() -> None:
    """GIVEN ends 0, 300 and 900 µs apart: the median is 300, what remains 300, 0 and 600 µs."""
    third: Row = ("communication", 500, 510)
    late = [("gemm", 0, 9), *[("communication", at, at + 10) for at in (150, 610, 1400)]]
    found = of([[*EARLY, third], late], [0, 0])
    assert found is not None
    assert not found.comparable
    assert found.facts["clock_residual_ns"] == 300 * US
    assert "slowest_rank" not in found.facts
    assert found.ranks[0].waiting_ns is None


def test_kinds_of_collectives_that_one_rank_saw_more_of_are_left_out() -> None:
    """A window cut differently: counts differ, so nothing can be matched by its place."""
    found = of([EARLY, BEHIND[:2]], [0, 0])
    assert found is not None
    assert "matched_collectives" not in found.facts
    assert found.ranks[0].offset_ns is None


def test_matched_within_steps() -> None:
    """GIVEN one rank with a collective outside any step: the steps' own still match."""
    extra: list[Row] = [*EARLY, ("communication", 400, 410)]
    found = of([extra, BEHIND], [0, 0], step=["s1", "s1", "s2", "s2", None])
    assert found is not None
    assert found.facts["matched_collectives"] == 2
    assert found.ranks[0].step_compute_ns == (100 * US, 100 * US)
    assert found.ranks[1].step_compute_ns == (140 * US, 140 * US)
    assert found.facts["compute_excess_ns"] == 2 * 20 * US  # largest minus median of 100 and 140
    assert found.facts["slowest_changes"] == 0


def test_collectives_are_told_apart_by_their_message() -> None:
    """GIVEN one rank with a further collective of another size: the two kinds stay matched."""
    sizes = [None, 1024, None, 2048, 4096]
    found = of([[*EARLY, ("communication", 400, 410)], BEHIND], [0, 0], message_bytes=sizes)
    assert found is not None
    assert found.facts["matched_collectives"] == 2


# Four ranks, tensor parallel in pairs; the pairs are 500 µs apart in one step and 900 in the next.
# Rank 1 enters late, as in BEHIND.
def moved(rows: Sequence[Row], *by: int) -> list[Row]:
    """The first half of the rows later by one time, the second by another."""
    half = len(rows) // 2
    return [
        (category, start + by[at >= half], end + by[at >= half])
        for at, (category, start, end) in enumerate(rows)
    ]


PAIRS = [EARLY, BEHIND, moved(EARLY, 500, 900), moved(EARLY, 500, 900)]


def ranks_of_pairs(rank: int, rows: Sequence[Row]) -> dict[str, Any]:
    return {"group_ranks": [("[0, 1]", "[2, 3]")[rank // 2]] * len(rows)}


def names_of_pairs(rank: int, rows: Sequence[Row]) -> dict[str, Any]:
    return {"process_group": [f"tp{rank // 2}"] * len(rows), "group_size": [2] * len(rows)}


def numbered_within_the_group(rank: int, rows: Sequence[Row]) -> dict[str, Any]:
    return {**names_of_pairs(rank, rows), "group_ranks": ["[0, 1]"] * len(rows)}


def elided(rank: int, rows: Sequence[Row]) -> dict[str, Any]:
    return {"group_ranks": [("[0, ..., 1]", "[2, ..., 3]")[rank // 2]] * len(rows)}


@pytest.mark.parametrize(
    "groups", [ranks_of_pairs, names_of_pairs, numbered_within_the_group, elided]
)
def test_ranks_meet_in_their_group_only(groups: Any) -> None:
    """WHEN pairs that share no collective are compared THEN rank 1 is late for rank 0, the other
    pair waits for nobody, and its clock is not set against the first one's."""
    found = of(PAIRS, [0, 7, 1_000_000, 1_000_005], groups)
    assert found is not None
    assert found.comparable
    facts = found.facts
    assert (facts["matched_collectives"], facts["clock_residual_ns"]) == (4, 0)
    assert facts["clock_sets"] == 2
    assert (facts["slowest_rank"], facts["slowest_share"]) == (1, 1.0)
    assert facts["slowest_last_share"] == 1.0
    assert facts["slowest_compute_ratio"] == pytest.approx(280 / 240)  # of ranks 0 and 1
    assert facts["waiting_ns"] == 80 * US / 4
    assert [one.waiting_ns for one in found.ranks] == [80 * US, 0, 0, 0]
    assert [one.offset_ns for one in found.ranks] == [0, -7 * US, 0, -5 * US]
    assert [one.aligned_to for one in found.ranks] == [0, 0, 2, 2]
    assert [(one.ranks, one.waiting_ns, one.slowest_rank) for one in found.groups] == [
        ((0, 1), 80 * US, 1),
        ((2, 3), 0, None),
    ]
    assert {one.size for one in found.groups} == ({None} if groups is elided else {2})


def test_a_name_that_stands_for_several_groups_matches_nothing() -> None:
    """GIVEN four ranks that all call a group of two ranks "tp"."""
    found = of(
        PAIRS,
        [0, 0, 0, 0],
        lambda rank, rows: {"process_group": ["tp"] * len(rows), "group_size": [2] * len(rows)},
    )
    assert found is not None
    assert "matched_collectives" not in found.facts
    assert found.ranks[0].aligned_to is None


def test_clocks_are_aligned_along_the_groups() -> None:
    """GIVEN tensor x data parallel, 2 x 2: rank r meets its neighbour, then its replica. Rank 3
    shares no group with rank 0. Rank 1 is 30 µs late for the first, so that both of its pair are
    for the second: 30 µs in the one pair before 1, and 30 in each of two before 0 and 1."""
    early: list[Row] = [
        ("gemm", 0, 100), ("communication", 100, 140), ("gemm", 140, 200),
        ("communication", 200, 240),
    ]  # fmt: skip
    late: list[Row] = [("gemm", 0, 130), ("communication", 130, 140), *early[2:]]
    ahead: list[Row] = [
        ("gemm", 0, 100), ("communication", 100, 110), ("gemm", 110, 170),
        ("communication", 170, 240),
    ]  # fmt: skip
    clocks = [0, 11, -2_000, 5_000_000]

    def groups(rank: int, rows: Sequence[Row]) -> dict[str, Any]:
        pair, replicas = ("[0, 1]", "[2, 3]")[rank // 2], ("[0, 2]", "[1, 3]")[rank % 2]
        return {"group_ranks": [None, pair, None, replicas]}

    found = of([early, late, ahead, ahead], clocks, groups)
    assert found is not None
    assert found.comparable
    assert [one.offset_ns for one in found.ranks] == [-clock * US for clock in clocks]
    assert {one.aligned_to for one in found.ranks} == {0}
    assert (found.facts["clock_sets"], found.facts["clock_residual_ns"]) == (1, 0)
    assert found.facts["matched_collectives"] == 4
    assert [one.waiting_ns for one in found.ranks] == [30 * US, 0, 30 * US, 30 * US]
    assert [one.caused_ns for one in found.ranks] == [30 * US, 60 * US, 0, 0]
    assert (found.facts["slowest_rank"], found.facts["slowest_share"]) == (1, 60 / 90)
    assert {one.ranks for one in found.groups} == {(0, 1), (2, 3), (0, 2), (1, 3)}


def test_a_member_without_a_file_is_not_missed() -> None:
    found = of(
        [EARLY, BEHIND], [0, 0], lambda rank, rows: {"group_ranks": ["[0, 1, 2, 3]"] * len(rows)}
    )
    assert found is not None
    assert found.facts["matched_collectives"] == 2
    assert (found.groups[0].size, found.groups[0].ranks) == (4, (0, 1))


def test_a_group_whose_ends_disagree_is_left_out() -> None:
    """GIVEN a group that meets five times, and one of two collectives whose ends are 400 µs
    apart once: half of that after alignment, as the median lies between. The whole agrees."""
    often: list[Row] = [("communication", 1_000 * at, 1_000 * at + 10) for at in range(5)]
    rare: list[Row] = [("communication", 10_000, 10_010), ("communication", 12_000, 12_010)]
    apart: list[Row] = [rare[0], ("communication", 12_400, 12_410)]

    def groups(rank: int, rows: Sequence[Row]) -> dict[str, Any]:
        return {"group_ranks": ["[0, 1]" if rank < 2 else "[2, 3]"] * len(rows)}

    found = of([often, often, rare, apart], [0, 0, 0, 0], groups)
    assert found is not None
    assert found.comparable
    assert [one.clock_residual_ns for one in found.groups] == [0, 200 * US]
    assert [one.waiting_ns for one in found.groups] == [0, None]
    assert [one.waiting_ns for one in found.ranks] == [0, 0, None, None]


def test_communication_by_collective_and_group() -> None:
    """GIVEN 60 µs in one group and 30 in another, 10 of them beside a gemm."""
    kernels = kernel_table(
        {
            "kernel_name": ["nccl", "nccl", "gemm", "nccl"],
            "start_ns": [0, 60 * US, 100 * US, 110 * US],
            "duration_ns": [40 * US, 20 * US, 20 * US, 30 * US],
            "collective": ["allreduce", "allreduce", None, "allreduce"],
            "process_group": ["tp", "tp", None, "dp"],
            "group_ranks": ["[0, 1]", "[0, 1]", None, "[0, 2]"],
            "group_size": [2, 2, None, 2],
            "message_bytes": [100.0, 50.0, None, None],
        }
    )
    categories = ["communication", "communication", "gemm", "communication"]
    (found,) = timelines(
        Recording("test", "timeline", kernels, (Source("a", "test", 4),)), categories
    )
    assert found.exchanges == (
        Exchange("allreduce", "tp", "[0, 1]", 2, 2, 60 * US, 60 * US, 150),
        Exchange("allreduce", "dp", "[0, 2]", 2, 1, 30 * US, 20 * US, None),
    )


def test_one_rank_is_no_comparison() -> None:
    assert of([EARLY], [0]) is None


def test_facts_are_the_columns_that_rules_read() -> None:
    found = of([EARLY, BEHIND], [0, 5])
    assert found is not None
    assert set(found.facts) <= {entry.name for entry in RANK_COLUMNS}
    assert facts_of(found).slowest_rank.tolist() == [1.0]
    assert facts_of(None).value("slowest_rank", 0) is None


def compared(corpus: Path, *names: str) -> Ranks:
    from traceroof.kernels.categories import categories_of
    from traceroof.parser import Options, silent
    from traceroof.parsers.torch_profiler import PARSER

    joined = merge([PARSER.read(corpus / "torch" / name, silent, Options()) for name in names])
    categories = categories_of(joined.kernels["kernel_name"], joined.kernels["operator"])
    found = ranks(partial_of_run(joined, coded(pa.array(categories, pa.string()))))
    assert found is not None
    return found


@pytest.mark.corpus
def test_a_rank_that_keeps_the_other_waiting(corpus: Path) -> None:
    """Megatron, tensor parallel: rank 1 computes as much as rank 0 but sits in collectives twice
    as long. Both move the same bytes, so what rank 1 spends more, 481.306 - 241.191 ms, is the
    difference of what the two wait; 25.46 ms of it in the first collective, for as long as rank 0
    began to record later."""
    found = compared(
        corpus, "astrasim_megatron_tp8_rank0_a100.json", "astrasim_megatron_tp8_rank1_a100.json"
    )
    assert found.comparable
    assert found.facts["slowest_rank"] == 0
    assert found.facts["slowest_share"] > 0.95
    assert found.facts["slowest_compute_ratio"] == pytest.approx(1.0, abs=0.01)
    first, second = found.ranks
    assert first.waiting_ns is not None
    assert second.waiting_ns is not None
    assert second.skew_ns is not None
    assert second.skew_ns == pytest.approx(25.46e6, rel=0.01)
    assert first.skew_ns == 0
    waited = second.waiting_ns + second.skew_ns - first.waiting_ns
    assert waited == pytest.approx(240.115e6, rel=0.01)


@pytest.mark.corpus
def test_ranks_merged_into_one_file(corpus: Path) -> None:
    """Four ranks: the last one hardly communicates (3.6 of 134 ms) and is idle 87 ms, the others
    wait for it in every collective."""
    found = compared(corpus, "hpctraining_mi300_merged_4ranks_tracefusion.json.gz")
    assert len(found.ranks) == 4
    assert found.comparable
    assert (found.facts["slowest_rank"], found.facts["slowest_share"]) == (3, 1.0)
    assert found.ranks[3].waiting_ns == 0
