"""What people type for a kernel, a timeline or a rule."""

import pytest

from traceroof.core.selection import choose, known_rule
from traceroof.errors import TraceroofError

NAMES = (
    "ampere_bf16_s16816gemm_128x256",
    "void flash::flash_fwd_kernel<Traits>(Params)",
    "copy<float>(float *)",
    "void cutlass::Gemm<float>(float *)",
)


def chosen(wanted: str) -> tuple[int, ...]:
    return choose(wanted, NAMES, one="kernel", many="kernels", numbered_by="see the table")


@pytest.mark.parametrize(
    ("wanted", "places"),
    [
        ("1", (0,)), ("#4", (3,)), (" 2 ", (1,)),
        ("gemm", (0, 3)), ("GEMM", (0, 3)), ("flash_fwd", (1,)),
        ("ampere_*_128x256", (0,)), ("flash::*", (1,)), ("*gemm*", (0, 3)),
        # A star that is a part of a name is that.
        ("copy<float>(float *)", (2,)), ("(float *)", (2, 3)),
    ],
)  # fmt: skip
def test_a_number_a_part_of_a_name_or_a_pattern(wanted: str, places: tuple[int, ...]) -> None:
    assert chosen(wanted) == places


@pytest.mark.parametrize(
    ("wanted", "message", "hint"),
    [
        ("5", "there is no kernel 5: this run has 4 kernels", "see the table"),
        ("0", "there is no kernel 0: this run has 4 kernels", "see the table"),
        ("flsh", "no kernel has 'flsh' in its name", "did you mean flash_fwd_kernel?"),
        ("qqqq", "no kernel has 'qqqq' in its name", "see the table"),
        ("", "no kernel has '' in its name", "see the table"),
        ("[", "no kernel has '[' in its name", "see the table"),
    ],
)
def test_what_means_nothing_is_said(wanted: str, message: str, hint: str) -> None:
    with pytest.raises(TraceroofError) as caught:
        chosen(wanted)
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_one_of_one() -> None:
    with pytest.raises(TraceroofError, match="this run has 1 timeline"):
        choose("2", ["GPU"], one="timeline", many="timelines", numbered_by="")


def test_a_rule_by_its_id() -> None:
    known = {"small-grid": 1, "tail-wave": 2}
    assert known_rule("small-grid", known) == 1
    for wanted, hint in (
        ("grid", "did you mean small-grid?"),
        ("tial-wave", "did you mean tail-wave?"),
        ("xyz", "`traceroof rules` lists them"),
    ):
        with pytest.raises(TraceroofError, match=f"no rule is called {wanted}") as caught:
            known_rule(wanted, known)
        assert caught.value.hint == hint
