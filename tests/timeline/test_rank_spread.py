"""How ranks differ: who is slow and at what, which link is slow, who is missing."""

import numpy as np
import pytest

from traceroof.core.kernel_table import kernel_table
from traceroof.core.merge_recordings import merge
from traceroof.core.recording import Recording, Source
from traceroof.kernels.categories import coded_categories
from traceroof.timeline.partial import partial_of_run
from traceroof.timeline.rank_spread import Cause, Short, SlowGroup, kind_of
from traceroof.timeline.ranks import Ranks, facts_of, ranks

US = 1_000
GEMM, SOFTMAX = "ampere_sgemm_128x64_nn", "softmax_warp_forward"
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"


def file(rank: int, world: int, *, slow: int = 0, slow_link: int = 0, steps: int = 3) -> Recording:
    """A rank of pairs (0, 1), (2, 3), …: each step a product of 100 µs and 20 µs of softmax; then an
    all-reduce of the pair, that takes 50 µs from the last one's start on; all at 1 ms a step.

    slow: µs that the product takes more. slow_link: µs that the all-reduce takes more.
    """
    pair = rank // 2
    columns: dict[str, list[object]] = {
        name: [] for name in (
            "kernel_name", "start_ns", "duration_ns", "step", "collective", "process_group",
            "group_ranks", "group_size", "message_bytes",
        )
    }  # fmt: skip

    def add(name: str, start: int, length: int, step: int, sends: bool) -> None:
        group = (f"pp {pair}", f"[{2 * pair}, {2 * pair + 1}]", 2, 1e6) if sends else (None,) * 4
        values = (name, start * US, length * US, f"ProfilerStep#{step}",
                  "allreduce" if sends else None, *group)  # fmt: skip
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)

    for step in range(steps):
        base = 1_000 * step
        add(GEMM, base, 100 + slow, step, False)
        add(SOFTMAX, base + 100 + slow, 20, step, False)
        # Every pair holds one slow rank at most, whose partner waits.
        begin = base + 120 + slow
        end = base + 120 + PAIR_SLOW.get(pair, 0) + 50 + slow_link
        add(NCCL, begin, end - begin, step, True)
    count = len(columns["kernel_name"])
    kernels = kernel_table(
        {**columns, "rank": [rank] * count, "device": [0] * count, "process_id": [7] * count}
    )
    return Recording("test", "timeline", kernels, (Source(f"rank{rank}", "test", count),))


PAIR_SLOW: dict[int, int] = {}


def compared(files: list[Recording]) -> Ranks:
    joined = merge(files)
    found = ranks(partial_of_run(joined, coded_categories(joined.kernels)))
    assert found is not None
    return found


@pytest.fixture
def pair_slow(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    made: dict[int, int] = {}
    monkeypatch.setattr(f"{__name__}.PAIR_SLOW", made, raising=False)
    monkeypatch.setitem(file.__globals__, "PAIR_SLOW", made)
    return made


def test_a_slow_rank_and_what_it_is_slow_at(pair_slow: dict[int, int]) -> None:
    """Rank 5's product takes 40 µs more in each of three steps, for which its partner waits. The last
    step is short, as nothing follows it, so that the first counts as warm-up: two are judged. In the one
    before the last it idles for so much less."""
    pair_slow[2] = 40
    found = compared([file(rank, 12, slow=40 if rank == 5 else 0) for rank in range(12)])
    (one,) = found.stragglers
    assert (one.rank, one.caused_ns) == (5, 120 * US)
    assert one.causes == (Cause("time", "gemm", 80 * US),)
    assert one.more_ns == 40 * US
    assert [each.category for each in found.categories][:2] == ["gemm", "communication"]
    spread = found.categories[0]
    assert (spread.least_ns, spread.most_ns, spread.rank) == (200 * US, 280 * US, 5)
    facts = facts_of(found)
    assert (facts.stragglers.tolist(), facts.straggler_ranks.tolist()) == ([1.0], ["5"])
    assert facts.straggler_more_ns.tolist() == [40 * US]
    assert np.isnan(facts.slow_groups).all()


def test_of_ranks_that_do_other_work_none_is_a_straggler(pair_slow: dict[int, int]) -> None:
    """Four of twelve ranks have another layer: a pipeline stage, no exception."""
    pair_slow.update({0: 40, 1: 40})
    found = compared([file(rank, 12, slow=40 if rank < 4 else 0) for rank in range(12)])
    assert found.stragglers == ()


def test_the_slow_link_is_found_and_no_other(pair_slow: dict[int, int]) -> None:
    """The pair (6, 7) takes 200 µs for an all-reduce of 1 MB, the five others 50 µs."""
    files = [file(rank, 12, slow_link=150 if rank in (6, 7) else 0) for rank in range(12)]
    found = compared(files)
    assert found.slow_groups == (
        SlowGroup("pp 3", (6, 7), "allreduce", 1_000_000, 200.0 * US, 50.0 * US, 6, 450 * US),
    )
    facts = facts_of(found)
    assert (facts.slow_group_ranks.tolist(), facts.slow_group_ratio.tolist()) == (["6, 7"], [4.0])
    assert facts.slow_group_excess_ns.tolist() == [450 * US]  # three steps of 150 µs
    assert np.isnan(facts.stragglers).all()
    assert found.stragglers == ()
    (kind,) = found.group_kinds
    assert (kind.name, kind.groups, kind.ranks) == ("pp", 6, 12)
    assert kind.time_ns == kind.exposed_ns == (10 * 150 + 2 * 600) * US


def test_waiting_for_a_slow_rank_is_no_slow_link(pair_slow: dict[int, int]) -> None:
    pair_slow[2] = 300
    found = compared([file(rank, 12, slow=300 if rank == 5 else 0) for rank in range(12)])
    assert found.slow_groups == ()


def test_ranks_that_fell_out(pair_slow: dict[int, int]) -> None:
    """Rank 3 has no file, though its partner names it; rank 8 ends after one step of three."""
    files = [file(rank, 12, steps=1 if rank == 8 else 3) for rank in range(12) if rank != 3]
    found = compared(files)
    assert found.missing == (3,)
    assert found.short == (Short(8, 1, 3),)


def test_a_few_files_of_a_large_job_miss_nobody(pair_slow: dict[int, int]) -> None:
    found = compared([file(0, 12), file(2, 12), file(4, 12)])
    assert found.missing == (1, 3, 5)
    (lonely, other) = file(0, 12), file(1, 12)
    assert compared([lonely, other]).missing == ()


@pytest.mark.parametrize(
    ("name", "kind"),
    [("tp 3", "tp"), ("mesh_dp_12", "mesh_dp"), ("TENSOR_MODEL_PARALLEL_GROUP", "TENSOR_MODEL_PARALLEL_GROUP"),
     ("7", ""), ("", "")],
)  # fmt: skip
def test_the_kind_of_a_group_is_its_name_without_its_number(name: str, kind: str) -> None:
    assert kind_of(name) == kind
