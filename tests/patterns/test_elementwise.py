"""Element-wise kernels of eager PyTorch, by operands."""

import pytest

from tests.rules.test_operator_rules import diagnosed, launches

ADD = "CUDAFunctor_add<float>>(int)"


@pytest.mark.parametrize(
    ("kernel", "rule"),
    [
        (f"void at::native::elementwise_kernel<128, 4, {ADD}", "strided-elementwise"),
        (f"void at::native::vectorized_elementwise_kernel<4, {ADD}", "eager-elementwise"),
        (f"void at::native::unrolled_elementwise_kernel<{ADD}", "eager-elementwise"),
    ],
)
def test_the_operands_are_told_by_the_name(kernel: str, rule: str) -> None:
    """GIVEN ten products of 120 µs and ten additions of 80 µs WHEN diagnosed THEN the additions take
    40 % of the time, all of it at most."""
    found = diagnosed(
        launches("ampere_sgemm_128x64_tn", "aten::mm", [[64, 64], [64, 64]], 120, count=10),
        launches(kernel, "aten::add", [[1], [1]], 80, count=10),
    )
    rules = {"strided-elementwise", "eager-elementwise"}
    (fired,) = [one for one in found.findings if one.rule in rules and one.state != "not-evaluable"]
    assert (fired.rule, fired.time_saved_bound_ns) == (rule, 800_000)
    assert "40 % of the GPU time" in fired.because
