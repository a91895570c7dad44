"""Which kernel is which: each key pairs what the tighter ones left over."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceroof.compare.pairing import Identity, Pair, pair

ONE = Identity(
    name="gemm<64>",
    launch=((8, 1, 1), (128, 1, 1)),
    inputs=("[[4,4]]", '["float"]'),
    operator="aten::mm",
    category="gemm",
    first=0,
    launches=3.0,
)


def by(base: list[Identity], head: list[Identity]) -> list[Pair]:
    return sorted(pair(base, head), key=lambda one: (one.base, one.head))


def test_same_launch_before_same_name() -> None:
    wide = replace(ONE, launch=((16, 1, 1), (128, 1, 1)))
    assert by([ONE, wide], [wide, ONE]) == [
        Pair((0,), (1,), "launch"), Pair((1,), (0,), "launch"),
    ]  # fmt: skip
    assert by([ONE], [wide]) == [Pair((0,), (0,), "name")]


def test_other_inputs_in_the_same_launch_are_the_same_kernel() -> None:
    assert by([ONE], [replace(ONE, inputs=("[[4,5]]", '["float"]'))]) == [
        Pair((0,), (0,), "launch")
    ]  # fmt: skip


def test_several_shapes_of_one_name_are_one_pair() -> None:
    """No time is lost: both groups of the base stand against the one of the head."""
    base = [replace(ONE, launch=((n, 1, 1), None)) for n in (1, 2)]
    assert by(base, [replace(ONE, launch=((3, 1, 1), None))]) == [Pair((0, 1), (0,), "name")]


def test_another_name_with_the_same_operator_and_inputs() -> None:
    tuned = replace(ONE, name="sgemm_fast", launch=((1, 1, 1), None))
    assert by([ONE], [tuned]) == [Pair((0,), (0,), "inputs")]
    assert by([ONE], [replace(tuned, inputs=("[[9,9]]", None))]) == [Pair((0,), (0,), "operator")]


def test_renumbered_names_are_one_family_within_a_category() -> None:
    bare = replace(ONE, operator=None, inputs=(None, None))
    base, head = replace(bare, name="triton_add_3"), replace(bare, name="triton_add_17")
    assert by([base], [head]) == [Pair((0,), (0,), "family")]
    assert [one.by for one in by([base], [replace(head, category="norm", launches=9.0)])] == [
        None, None,
    ]  # fmt: skip


BARE = replace(ONE, operator=None, inputs=(None, None), launch=(None, None))


def test_without_operators_the_place_between_paired_kernels_decides() -> None:
    start, end = replace(BARE, name="embed", first=0), replace(BARE, name="loss", first=9)
    base = [start, replace(BARE, name="a", first=5), replace(BARE, name="b", first=1), end]
    head = [start, replace(BARE, name="c", first=2), replace(BARE, name="d", first=7), end]
    assert by(base, head) == [
        Pair((0,), (0,), "launch"), Pair((1,), (2,), "order"),
        Pair((2,), (1,), "order"), Pair((3,), (3,), "launch"),
    ]  # fmt: skip
    # Behind the last kernel instead of before it: another place.
    moved = [start, end, replace(BARE, name="c", first=11)]
    assert [one.by for one in by([start, base[1], end], moved)] == [None, "launch", None, "launch"]


def test_a_category_alone_pairs_nothing() -> None:
    """Two programs of one product each: nothing says that one stands for the other."""
    base = replace(BARE, name="gemm_naive_kernel")
    head = replace(BARE, name="kernel<int,int,__nv_bfloat16,float>")
    assert by([base], [head]) == [Pair((), (0,), None), Pair((0,), (), None)]
    # A word of both names says more; other launch counts are other work.
    tiled = replace(BARE, name="gemm_tiled_kernel<16>")
    assert by([base], [tiled]) == [Pair((0,), (0,), "order")]
    assert [one.by for one in by([base], [replace(tiled, launches=9.0)])] == [None, None]


@pytest.mark.parametrize(
    ("name", "by_what"),
    [
        ("rms_norm_kernel_float4(float*,int)", "family"),
        ("rms_norm_kernel_v2(float*,int)", "family"),
        ("rms_norm_kernelUnroll4(float*,int)", "family"),
        ("rms_norm_kernel_optimized(float*,int)", "family"),
        # Another function, whatever its arguments are called.
        ("rms_norm_backward_kernel(float*,int)", None),
        ("rms_norm_kernel_grad(float*,int)", None),
    ],
)
def test_a_new_version_by_its_name_is_the_kernel(name: str, by_what: str | None) -> None:
    """GIVEN three launches of a kernel, and four of one whose name says more: no order pairs these."""
    old = replace(BARE, name="rms_norm_kernel(float*,int)", launches=3.0)
    new = replace(BARE, name=name, launches=4.0)
    assert by([old], [new])[0].by == by_what


def test_several_versions_in_one_program_are_kernels_of_their_own() -> None:
    old = replace(BARE, name="rms_norm_kernel", launches=3.0)
    news = [replace(BARE, name=f"rms_norm_kernel_v{at}", launches=4.0) for at in (2, 3)]
    assert [one.by for one in by([old], news)] == [None, None, None]


def test_other_work_stays_apart() -> None:
    relu = replace(ONE, name="relu", operator="aten::relu", category="elementwise")
    assert by([ONE], [relu]) == [Pair((), (0,), None), Pair((0,), (), None)]
    odd = replace(ONE, name="x", operator=None, inputs=(None, None), category="other")
    assert by([odd], [replace(odd, name="y")]) == [Pair((), (0,), None), Pair((0,), (), None)]


IDENTITIES = st.lists(
    st.builds(
        Identity,
        name=st.sampled_from(["a1", "a2", "b"]),
        launch=st.tuples(st.sampled_from([None, (1, 1, 1), (2, 1, 1)]), st.none()),
        inputs=st.tuples(st.sampled_from([None, "[[1]]"]), st.none()),
        operator=st.sampled_from([None, "aten::mm", "aten::relu"]),
        category=st.sampled_from(["gemm", "other"]),
        first=st.integers(0, 99),
        launches=st.sampled_from([1.0, 2.0]),
    ),
    max_size=8,
)


@given(base=IDENTITIES, head=IDENTITIES)
def test_every_group_is_in_exactly_one_pair(base: list[Identity], head: list[Identity]) -> None:
    pairs = pair(base, head)
    assert sorted(index for one in pairs for index in one.base) == list(range(len(base)))
    assert sorted(index for one in pairs for index in one.head) == list(range(len(head)))
    for one in pairs:
        assert (one.by is None) == (not one.base or not one.head)
    assert all(one.by == "launch" for one in pair(base, base))
