"""Verdicts: what noise may not do, what a change must do, and what is said in between."""

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from traceroof.compare.noise_threshold import Thresholds
from traceroof.compare.ranktest import smallest_p
from traceroof.compare.reasons import most_tested
from traceroof.compare.verdicts import judge, judge_total

if TYPE_CHECKING:
    from benchmarks.compare_noise import MARK, simulate
else:
    # A script, not a package: loaded by its path.
    script = Path(__file__).parents[2] / "benchmarks/compare_noise.py"
    spec = importlib.util.spec_from_file_location("compare_noise", script)
    sys.modules["compare_noise"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    MARK, simulate = module.MARK, module.simulate

LIMITS = Thresholds()


def samples(*rows: list[float]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    return np.array(rows, dtype=np.float64)


def verdict(base: list[float], head: list[float], by: str = "runs", least: float = 1.0) -> str:
    made = judge(
        samples(base), samples(head), by=by, least_ns=least, percent=5.0, limits=LIMITS,  # type: ignore[arg-type]
    )  # fmt: skip
    return made.word[0]


def test_five_runs_that_are_all_apart_and_far_enough_are_a_regression() -> None:
    base, head = [100.0, 101, 99, 100, 102], [110.0, 111, 109, 112, 110]
    assert verdict(base, head) == "regressed"
    assert verdict(head, base) == "improved"


def test_a_change_below_five_percent_or_below_the_least_time_is_none() -> None:
    base = [100.0, 101, 99, 100, 102]
    assert verdict(base, [value * 1.04 for value in base]) == "inconclusive"  # -1 to +9 %
    assert verdict(base, [value * 1.01 for value in base]) == "unchanged"
    # 10 of 100 ns, where only 20 ns matter.
    assert verdict(base, [value + 10 for value in base], least=20.0) == "unchanged"


def test_four_runs_are_too_few() -> None:
    made = judge(
        samples([100.0, 101, 99, 100]), samples([150.0, 151, 149, 150]),
        by="runs", least_ns=1.0, percent=5.0, limits=LIMITS,
    )  # fmt: skip
    assert made.word == ("inconclusive",)
    assert made.reason == ("4 runs of the base; a verdict needs 5 per side",)
    assert np.isnan(made.p[0])


def test_runs_that_overlap_are_inconclusive_and_say_how_many_more_would_do() -> None:
    # Medians 100 and 109; deviations from them 0, 3, 8, 10, 12 and 0, 8, 9, 10, 11: MAD 8 and 9.
    base, head = [100.0, 110, 97, 92, 112], [109.0, 101, 120, 99, 118]
    made = judge(samples(base), samples(head), by="runs", least_ns=1.0, percent=5.0, limits=LIMITS)
    assert made.word == ("inconclusive",)
    # The base is above the head in 7 of 25 pairs; tables give 0.310 for U = 7, 5 against 5.
    assert made.p[0] == pytest.approx(0.310, abs=0.0005)
    spread = 1.4826 * (((8 / 100) ** 2 + (9 / 109) ** 2) / 2) ** 0.5
    assert made.noise[0] == pytest.approx(spread)
    needed = np.ceil(2 * (spread / 0.05 * (2.576 + 1.645)) ** 2 / 0.955)
    assert made.reason[0] == (
        f"the runs of both sides overlap (p = 0.31); about {needed:.0f} runs per side would be enough"
    )


def test_steps_of_one_run_decide_nothing_of_a_kernel() -> None:
    base = [100.0, 101, 99, 100, 102, 100]
    for factor in (1.19, 1.21, 3.0, 0.5):
        made = judge(
            samples(base), samples([value * factor for value in base]),
            by="steps", least_ns=1.0, percent=5.0, limits=LIMITS,
        )  # fmt: skip
        assert made.word == ("inconclusive",)
        assert made.reason == ("one run per side; a verdict needs 5 runs per side",)
        assert made.delta_ns[0] == pytest.approx(100 * (factor - 1)), "the change is shown"
        assert np.isnan(made.p[0]), "steps of one run say nothing of other runs"
    assert verdict(base, [value * 1.01 for value in base], by="steps") == "unchanged"
    wild = [100.0, 180, 60, 140, 100, 70]
    assert verdict(wild, [value + 1 for value in wild], by="steps") == "inconclusive"


def test_one_run_a_side_decides_nothing_of_a_kernel() -> None:
    assert verdict([100.0], [300.0], by="none") == "inconclusive"
    assert verdict([100.0], [104.0], by="none") == "unchanged"


@pytest.mark.parametrize(
    ("head", "word"),
    [(119.0, "inconclusive"), (120.0, "regressed"), (80.0, "improved"), (101.9, "unchanged")],
)
def test_a_single_total_counts_from_twenty_percent_on(head: float, word: str) -> None:
    made = judge_total(samples([100.0]), samples([head]), by="none", limits=LIMITS)
    assert made.word == (word,)
    made = judge_total(samples([100.0] * 6), samples([head] * 6), by="steps", limits=LIMITS)
    assert made.word == (word,)


def test_a_run_compared_with_itself_is_unchanged_however_noisy() -> None:
    wild = [100.0, 180, 60, 140, 100, 70]
    for by in ("runs", "steps"):
        assert verdict(wild, wild[::-1], by=by) == "unchanged"


def test_unknown_times_are_inconclusive() -> None:
    assert verdict([np.nan] * 5, [1.0] * 5) == "inconclusive"


@pytest.mark.parametrize(("runs", "things"), [(4, 1), (5, 6), (6, 11), (7, 42)])
def test_how_many_kernels_can_be_tested_at_once(runs: int, things: int) -> None:
    """q / p: 0.05 / (2/70), (2/252), (2/924), (2/3432) = 1, 6, 23, 85; half of it from 10 on."""
    assert most_tested(runs, runs, 0.05) == things
    assert smallest_p(runs, runs) * things <= 0.05


def test_what_five_runs_cannot_test_is_said() -> None:
    """Seven equal kernels, all 10 % slower, runs all apart: six can be called, the seventh not."""
    base = np.tile(100 + np.arange(5.0), (7, 1)) * np.linspace(2, 1, 7)[:, None]
    made = judge(base, base * 1.1, by="runs", least_ns=1.0, percent=5.0, limits=LIMITS)
    assert made.word == (*["regressed"] * 6, "inconclusive")
    assert (
        made.reason[6]
        == "5 runs per side are enough to test the 6 largest kernels; 7 runs per side test more"
    )


CLAIMS = [(5, 0.02), (7, 0.02), (10, 0.03)]
NOISY = [(5, 0.05), (5, 0.10), (10, 0.10)]


@pytest.mark.parametrize(("runs", "jitter"), [*CLAIMS, *NOISY])
def test_noise_is_not_called_a_regression(runs: int, jitter: float) -> None:
    """Under 1 % of kernel groups; the page says far less, and a few comparisons in a hundred."""
    cell = simulate(runs, jitter, trials=100, seed=1)
    assert cell.false < 0.01 / 10
    assert cell.false_trials < 0.03  # of 200 comparisons; under 1 % of 1,000 on the page
    assert cell.missed <= 0.01, "a change that is not found must be inconclusive, not 'unchanged'"


@pytest.mark.parametrize(("runs", "jitter"), CLAIMS)
def test_a_slow_kernel_is_found(runs: int, jitter: float) -> None:
    assert simulate(runs, jitter, trials=200, seed=2).found > 0.95


@pytest.mark.parametrize(("runs", "jitter"), NOISY)
def test_what_noise_hides_is_inconclusive(runs: int, jitter: float) -> None:
    cell = simulate(runs, jitter, trials=100, seed=3)
    assert cell.unclear > 0.5
    assert cell.found + cell.unclear == pytest.approx(1.0)


def test_the_page_shows_what_the_simulation_gives(root: Path) -> None:
    """The table of docs/compare.md, row by row where the claim is; 200 trials against 250: five
    standard errors of the difference apart at most."""
    page = (root / "docs/compare.md").read_text("utf-8").split(MARK)[1]
    shown = [
        [cell.strip(" *%") for cell in line.strip("|").split("|")]
        for line in page.splitlines()
        if line.startswith("| ")
    ]
    for runs, jitter in [*CLAIMS, *NOISY]:
        row = next(one for one in shown if one[:2] == [str(runs), f"{jitter * 100:.0f}"])
        found = float(row[4]) / 100
        again = simulate(runs, jitter, trials=200, seed=4).found
        error = (max(found * (1 - found), 0.001) * (1 / 200 + 1 / 250)) ** 0.5
        assert abs(found - again) <= 5 * error, row
        if (runs, jitter) in CLAIMS:
            assert found > 0.95
        assert float(row[2]) < 1.0
