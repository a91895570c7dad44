"""How often `traceroof compare` is fooled by noise, and how often it misses a change.

    python benchmarks/compare_noise.py [--trials 1000] [--write docs/compare.md]

Runs of a program of 100 kernels are made up: kernel k takes 1/k of the largest, one takes exactly
5 % of the time. Each run scatters around that; the head is the same program, or has the 5 % kernel
slowed down by 10 %. Prints, or writes between its markers on the page, how many unchanged kernels
were called slower, and how often the slow one was found.
"""

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from traceroof.compare.known_noise import LEAST_RUNS, KnownNoise, least_called
from traceroof.compare.noise_profile import correlation_of, scatter
from traceroof.compare.noise_threshold import Thresholds
from traceroof.compare.verdicts import judge, judge_total

Reals = npt.NDArray[np.float64]
Noise = Callable[[np.random.Generator, tuple[int, int]], Reals]

KERNELS = 100
SHARE, SLOWDOWN = 0.05, 0.10
TOTAL_NS = 100e6
JITTERS = (0.02, 0.03, 0.04, 0.05, 0.10)
RUNS = (5, 6, 7, 8, 10)
MARK = "<!-- measured by benchmarks/compare_noise.py -->"


@dataclass(frozen=True)
class Cell:
    """One row of the table: shares of kernels (false), of trials (the others), 0-1.

    false: unchanged kernels called slower. false_trials: trials in which any was. found: the slow
    kernel called slower; unclear: inconclusive; missed: called unchanged or faster.
    """

    false: float
    false_trials: float
    found: float
    unclear: float
    missed: float


def program() -> tuple[Reals, int]:
    """Times of the kernels of one run in ns, and which of them takes 5 %."""
    times = 1 / np.arange(1, KERNELS + 1)
    times = times / times.sum()
    slow = int(np.argmin(np.abs(times - SHARE)))
    times[slow] = SHARE * (times.sum() - times[slow]) / (1 - SHARE)
    return times / times.sum() * TOTAL_NS, slow


def normal(generator: np.random.Generator, shape: tuple[int, int]) -> Reals:
    return generator.standard_normal(shape)


def skewed(generator: np.random.Generator, shape: tuple[int, int]) -> Reals:
    """Log-normal of spread 1: most runs are fast, some are much slower."""
    made = np.exp(generator.standard_normal(shape))
    return np.asarray((made - np.exp(0.5)) / np.sqrt((np.e - 1) * np.e))


def outliers(generator: np.random.Generator, shape: tuple[int, int]) -> Reals:
    """One run in twenty is slower by five times the usual spread."""
    made = generator.standard_normal(shape)
    made = np.where(generator.random(shape) < 0.05, 5 * np.abs(made), made)
    return np.asarray(made / 1.48)  # its standard deviation: sqrt(0.95 + 0.05 x 25) = 1.48


def together(generator: np.random.Generator, shape: tuple[int, int]) -> Reals:
    """Half of the variance moves all kernels of a run alike, as a clock does."""
    own, shared = generator.standard_normal(shape), generator.standard_normal((1, shape[1]))
    return np.asarray((own + shared) / np.sqrt(2))


def heavy(generator: np.random.Generator, shape: tuple[int, int]) -> Reals:
    """Student's t with three degrees of freedom: rare runs are far off."""
    return np.asarray(generator.standard_t(3, shape) / np.sqrt(3))


def bimodal(generator: np.random.Generator, shape: tuple[int, int]) -> Reals:
    """Two modes five spreads apart, three runs in ten in the slower one, all kernels together: as
    with two clocks, or two placements in memory."""
    slow = np.where(generator.random((1, shape[1])) < 0.3, 2.0, 0.0)
    made = slow + 0.4 * generator.standard_normal(shape)
    return np.asarray((made - 0.6) / np.sqrt(4 * 0.21 + 0.16))


def correlated(generator: np.random.Generator, shape: tuple[int, int]) -> Reals:
    """Each run keeps half of the deviation of the run before it: a machine that warms up and cools."""
    made = generator.standard_normal((shape[0], shape[1] + 20))
    for at in range(1, made.shape[1]):
        made[:, at] = CORRELATION * made[:, at - 1] + np.sqrt(1 - CORRELATION**2) * made[:, at]
    return made[:, 20:]


CORRELATION = 0.5


@dataclass(frozen=True)
class Shape:
    """A kind of noise. in_turn: base and head ran in turn, else all of the base first."""

    name: str
    noise: Noise
    in_turn: bool = False

    def sides(self, generator: np.random.Generator, kernels: int, runs: int) -> tuple[Reals, Reals]:
        """The deviations of base and head, in spreads."""
        made = self.noise(generator, (kernels, 2 * runs))
        return (made[:, ::2], made[:, 1::2]) if self.in_turn else (made[:, :runs], made[:, runs:])


NORMAL = Shape("normal", normal)
SHAPES: Sequence[Shape] = (
    NORMAL,
    Shape("skewed", skewed),
    Shape("outliers", outliers),
    Shape("heavy-tailed", heavy),
    Shape("bimodal, shared", bimodal),
    Shape("shared by all kernels", together),
    Shape("correlated, in turn", correlated, in_turn=True),
    Shape("correlated, base first", correlated),
)


def simulate(runs: int, jitter: float, shape: Shape = NORMAL, *, trials: int, seed: int) -> Cell:
    """Compare made-up runs, ``trials`` times with the slow kernel and as often without."""
    generator = np.random.default_rng(seed)
    times, slow = program()
    limits = Thresholds()
    false = false_trials = found = unclear = missed = 0
    for slowdown in (0.0, SLOWDOWN):
        for _ in range(trials):
            sides = [
                times[:, None] * (1 + jitter * one) for one in shape.sides(generator, KERNELS, runs)
            ]
            sides[1][slow] *= 1 + slowdown
            words = judge(
                *sides,
                by="runs",
                least_ns=limits.least(TOTAL_NS),
                percent=limits.percent,
                limits=limits,
            ).word
            wrong = sum(
                word == "regressed" and not (slowdown and at == slow)
                for at, word in enumerate(words)
            )
            false += wrong
            false_trials += wrong > 0
            if slowdown:
                found += words[slow] == "regressed"
                unclear += words[slow] == "inconclusive"
                missed += words[slow] in ("unchanged", "improved")
    unchanged = trials * KERNELS + trials * (KERNELS - 1)
    return Cell(
        false=false / unchanged,
        false_trials=false_trials / (2 * trials),
        found=found / trials,
        unclear=unclear / trials,
        missed=missed / trials,
    )


def runs_needed(jitter: float, *, trials: int) -> int:
    """Runs per side from which on the slow kernel is found in 95 of 100 trials, by halving."""
    low, high = 4, 96
    while high - low > 1:
        middle = (low + high) // 2
        found = simulate(middle, jitter, trials=trials, seed=middle).found >= 0.95
        low, high = (low, middle) if found else (middle, high)
    return high


def least_runs(jitter: float) -> int:
    """Runs per side below which no test finds it in 95 of 100 cases at 1 % false ones, were it made
    for this kernel alone: normal noise, 2 (spread / shift)^2 (z of 99.5 % + z of 95 %)^2."""
    shift = np.log(1 + SLOWDOWN)
    return int(np.ceil(2 * (jitter / shift) ** 2 * (2.576 + 1.645) ** 2))


def percent(share: float, digits: int = 1) -> str:
    return f"{share * 100:.{digits}f} %"


def rows(trials: int) -> Iterable[str]:
    """The tables as Markdown."""
    yield f"{trials:,} trials per row and kind; the noise of a kernel is independent and normal."
    yield ""
    yield from _header("runs per side", "jitter")
    for runs in RUNS:
        for jitter in JITTERS:
            cell = simulate(runs, jitter, trials=trials, seed=runs * 1000 + round(jitter * 1000))
            yield _row(f"{runs}", percent(jitter, 0), cell)
    yield ""
    yield "Other shapes of noise, at 2 % and at 10 % jitter:"
    yield ""
    yield from _header("runs per side", "jitter", "noise")
    for runs in (5, 7, 10):
        for jitter in (0.02, 0.10):
            for shape in SHAPES:
                cell = simulate(runs, jitter, shape, trials=trials, seed=runs)
                yield _row(f"{runs}", percent(jitter, 0), shape.name, cell)
    yield ""
    yield from measured(trials)
    yield ""
    yield "Runs per side that find the slow kernel in 95 of 100 trials, and below how many no test could:"
    yield ""
    yield "| jitter | found from | no test below |"
    yield "|--:|--:|--:|"
    for jitter in JITTERS:
        needed = runs_needed(jitter, trials=max(trials // 4, 1))
        yield f"| {percent(jitter, 0)} | {needed} | {least_runs(jitter)} |"
    yield ""
    yield "Jitter of 10 % from launch to launch, with so many launches per run (the sample is their mean):"
    yield ""
    yield from _header("runs per side", "launches")
    for runs in (5, 10):
        for launches in (1, 10, 25, 100):
            jitter = 0.10 / launches**0.5
            cell = simulate(runs, jitter, trials=trials, seed=runs + launches)
            yield _row(f"{runs}", f"{launches}", cell)


@dataclass(frozen=True)
class Known:
    """One row of the table of measured noise: shares of comparisons, 0-1.

    false: in which any unchanged kernel was called slower; false_total: the whole was. found,
    found_total: in which a slowdown by just the detectable change was called. detectable,
    detectable_total: that change, median.
    """

    false: float
    false_total: float
    found: float
    found_total: float
    detectable: float
    detectable_total: float


def known(shape: Shape, jitter: float, runs: int, repeats: int, *, trials: int, seed: int) -> Known:
    """Measure the noise on so many repeats, then compare so many runs per side: unchanged, and slower
    by just the change that is said to be detectable. The whole varies as its kernels do together."""
    generator = np.random.default_rng(seed)
    times, slow = program()
    limits = Thresholds()
    least = limits.least(TOTAL_NS)
    counts = np.zeros(4)
    told: list[tuple[float, float]] = []
    for _ in range(trials):
        whole = Shape(shape.name, shape.noise, shape.in_turn)
        before = shape.noise(generator, (KERNELS, repeats))
        before_total = TOTAL_NS * (1 + jitter * whole.noise(generator, (1, repeats)))
        values = times[:, None] * (1 + jitter * before)
        correlation = correlation_of(np.concatenate([values, before_total]))

        def noise(of: Reals, correlation: float = correlation) -> KnownNoise:
            _, sigma, reach = scatter(of)
            return KnownNoise(sigma, reach, repeats - 1, correlation)

        of_kernels, of_total = noise(values), noise(before_total)
        shares = times / times.sum() * (times >= least / 2)
        chance = 2 * limits.false * shares / shares.sum()
        floor = np.maximum(limits.percent / 100, least / times)
        kernel = float(least_called(
            of_kernels.sigma, of_kernels.reach, floor, np.where(chance > 0, chance, 1.0),
            (runs, runs), repeats - 1, correlation,
        )[slow])  # fmt: skip
        total = float(least_called(
            of_total.sigma, of_total.reach, np.array([limits.total_percent / 100]),
            np.array([2 * limits.false]), (runs, runs), repeats - 1, correlation,
        )[0])  # fmt: skip
        told.append((kernel, total))
        for changed in (False, True):
            base, head = (
                times[:, None] * (1 + jitter * one) for one in shape.sides(generator, KERNELS, runs)
            )
            wholes = [TOTAL_NS * (1 + jitter * one) for one in whole.sides(generator, 1, runs)]
            if changed:
                head[slow] *= 1 + kernel
                wholes[1] *= 1 + total
            words = judge(base, head, by="runs", least_ns=least, percent=limits.percent,
                          limits=limits, noise=of_kernels).word  # fmt: skip
            verdict = judge_total(*wholes, by="runs", limits=limits, noise=of_total).word[0]
            if changed:
                counts += (0, 0, words[slow] == "regressed", verdict == "regressed")
            else:
                counts += ("regressed" in words, verdict == "regressed", 0, 0)
    shares_found = (counts / trials).tolist()
    return Known(*shares_found, *(float(np.median(one)) for one in zip(*told, strict=True)))


def measured(trials: int) -> Iterable[str]:
    """The table of comparisons against noise that was measured before."""
    yield (
        f"With the noise measured on {REPEATS} repeats (`traceroof noise`), at 1 % jitter. *Found*: the "
        "kernel of 5 % of the time, and the whole, slower by just the change that is said to be "
        "detectable:"
    )
    yield ""
    names = ("runs per side", "noise", "false: kernels", "false: the whole", "detectable: kernel",
             "found", "detectable: the whole", "found")  # fmt: skip
    yield f"| {' | '.join(names)} |"
    yield "|" + "--:|" * len(names)
    for runs in (1, 3, 5, 10):
        for shape in SHAPES:
            one = known(shape, 0.01, runs, REPEATS, trials=trials, seed=runs)
            # One or two runs per side decide the whole alone.
            kernel = ("-", "-") if runs < LEAST_RUNS else (
                percent(one.detectable), percent(one.found),
            )  # fmt: skip
            cells = (
                percent(one.false), percent(one.false_total), *kernel,
                percent(one.detectable_total), percent(one.found_total),
            )  # fmt: skip
            yield f"| {runs} | {shape.name} | {' | '.join(cells)} |"


REPEATS = 10


def _header(*names: str) -> Iterable[str]:
    names = (*names, "false: of kernels", "of comparisons", "found", "inconclusive", "missed")
    yield f"| {' | '.join(names)} |"
    yield "|" + "--:|" * len(names)


def _row(*cells: object) -> str:
    *names, cell = cells
    assert isinstance(cell, Cell)
    shown = (
        percent(cell.false, 3),
        percent(cell.false_trials),
        f"**{percent(cell.found)}**" if cell.found >= 0.95 else percent(cell.found),
        percent(cell.unclear),
        percent(cell.missed),
    )
    return f"| {' | '.join((*map(str, names), *shown))} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    table = "\n".join(rows(arguments.trials))
    if arguments.write is None:
        print(table)
        return
    page = arguments.write.read_text("utf-8")
    between = re.compile(f"{re.escape(MARK)}.*{re.escape(MARK)}", re.DOTALL)
    made = between.sub(lambda _: f"{MARK}\n{table}\n{MARK}", page)
    arguments.write.write_text(made, "utf-8")


if __name__ == "__main__":
    main()
