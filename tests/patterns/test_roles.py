"""Roles of launches: every sample of roles.toml, the order of its rows, whole tables."""

import pytest

from traceroof.core.kernel_table import kernel_table
from traceroof.kernels.categories import CATEGORIES
from traceroof.patterns import roles

ROWS = roles.roles()


def first_that_fits(sample: tuple[str, ...]) -> roles.Role | None:
    return next((row for row in ROWS if row.fits(*sample)), None)


@pytest.mark.parametrize(
    ("row", "sample"),
    [
        pytest.param(row, sample, id=f"{row.name}-{at}-{number}")
        for at, row in enumerate(ROWS)
        for number, sample in enumerate(row.samples)
    ],
)
def test_each_sample_is_caught_by_its_own_row(row: roles.Role, sample: tuple[str, ...]) -> None:
    assert first_that_fits(sample) is row


def test_rows_have_samples_and_name_known_categories() -> None:
    for row in ROWS:
        assert row.samples
        assert row.categories <= set(CATEGORIES)


def test_a_table_gets_the_roles_of_its_rows() -> None:
    copy = "void at::native::elementwise_kernel<128, 4, direct_copy_kernel_cuda>(int)"
    kernels = kernel_table(
        {
            "kernel_name": [copy, copy, copy, "sgemm", "Memset (Device)", "reduce_kernel<512>"],
            "kind": ["kernel"] * 4 + ["memset", "kernel"],
            "operator": ["aten::copy_", "aten::copy_", None, "aten::mm", "aten::fill_",
                         "aten::argmax"],
            "input_dtypes": ['["float", "c10::Half"]', '["float", "float"]', None, None, None,
                             "no json"],
            "module_path": [None, None, None, None, "Optimizer.zero_grad#SGD.zero_grad",
                            "Sampler_0"],
        }
    )  # fmt: skip
    categories = ["layout", "layout", "layout", "gemm", "memset", "reduction"]
    found = roles.roles_of(kernels, categories)
    assert found.values().tolist() == [
        "cast", "layout change", "layout change", None, "gradient reset", "sampling",
    ]  # fmt: skip


def test_a_path_alone_makes_no_role_where_the_operator_says_otherwise() -> None:
    """Sampler_3 is a module name; SamplerBuffer is not, nor is a kernel in front of it."""
    kernels = kernel_table(
        {
            "kernel_name": ["k", "k"],
            "module_path": ["ResamplerBlock_0 > Linear_1", "Model_0 > Sampler_3"],
        }
    )
    assert roles.roles_of(kernels, ["gemm", "softmax"]).values().tolist() == [None, "sampling"]


def test_rows_as_long_as_a_vocabulary_are_told_by_their_shape() -> None:
    """29,999 columns are too few; attention's scores are no matrix; no shape says nothing."""
    shapes = ["[[8, 30000], []]", "[[8, 29999], []]", "[[1, 8, 4, 40000], []]", "[[]]", "no", None]
    count = len(shapes)
    kernels = kernel_table(
        {
            "kernel_name": ["k"] * count,
            "operator": ["aten::sort"] * count,
            "input_shapes": shapes,
        }
    )
    found = roles.roles_of(kernels, ["sort-scan"] * count).values().tolist()
    assert found == ["choice among many", *[None] * (count - 1)]


def test_an_empty_table_has_no_roles() -> None:
    assert roles.roles_of(kernel_table({"kernel_name": []}), []).values().tolist() == []


def test_copies_to_and_from_the_host_are_no_copies_within_the_device() -> None:
    kernels = kernel_table(
        {
            "kernel_name": ["Memcpy HtoD (Pageable -> Device)", "Memcpy DtoD (Device -> Device)",
                            "[CUDA memcpy Device-to-Device]", "Memcpy DtoH (Device -> Pinned)"],
            "kind": ["memcpy"] * 4,
        }
    )  # fmt: skip
    assert roles.roles_of(kernels, ["memcpy"] * 4).values().tolist() == [None, "copy", "copy", None]
