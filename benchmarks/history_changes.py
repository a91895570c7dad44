"""What `traceroof history` finds in made-up series of commits, and what it finds where nothing is.

    python benchmarks/history_changes.py [--series 200] [--write docs/history.md]

A series is one time of 200 commits with five changes of 2 to 10 % up or down, at least ten commits
apart. Found: a change point within five commits of a change; asked for of changes above twice the
noise. False: a change point near none. The same of series without a change. Other libraries are in
the table where they are installed (ruptures; Apache Otava).
"""

import argparse
import re
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from traceroof.history.change_points import levels_of

Reals = npt.NDArray[np.float64]
Noise = Callable[[np.random.Generator, int], Reals]
Detector = Callable[[Reals], list[int]]

COMMITS, CHANGES, APART, NEAR = 200, 5, 10, 5
SMALLEST, LARGEST = 0.02, 0.10
SPREADS = (0.005, 0.01, 0.02, 0.03)
MARK = "<!-- measured by benchmarks/history_changes.py -->"


def normal(generator: np.random.Generator, n: int) -> Reals:
    return generator.standard_normal(n)


def correlated(generator: np.random.Generator, n: int) -> Reals:
    """Each run keeps 0.4 of the deviation of the one before."""
    made = generator.standard_normal(n + 50)
    for at in range(1, len(made)):
        made[at] = 0.4 * made[at - 1] + np.sqrt(1 - 0.16) * made[at]
    return made[50:]


def heavy(generator: np.random.Generator, n: int) -> Reals:
    """Student's t with three degrees of freedom: now and then a run is far off."""
    return np.asarray(generator.standard_t(3, n) / np.sqrt(3))


def outliers(generator: np.random.Generator, n: int) -> Reals:
    """One run in twenty is slower by five times the usual spread or more."""
    made = generator.standard_normal(n)
    made = np.where(generator.random(n) < 0.05, 5 + 3 * np.abs(made), made)
    return np.asarray(made)


def bimodal(generator: np.random.Generator, n: int) -> Reals:
    """Two modes, three runs in ten in the slower one."""
    made = np.where(generator.random(n) < 0.3, 2.0, 0.0) + 0.4 * generator.standard_normal(n)
    return np.asarray((made - 0.6) / np.sqrt(4 * 0.21 + 0.16))


SHAPES: Sequence[tuple[str, Noise]] = (
    ("normal", normal),
    ("correlated (0.4)", correlated),
    ("heavy-tailed", heavy),
    ("outliers", outliers),
    ("bimodal", bimodal),
)


def series(
    generator: np.random.Generator, spread: float, noise: Noise, changes: int = CHANGES
) -> tuple[Reals, list[int], Reals]:
    """Times of the commits, where the changes are, and their sizes (natural logarithms)."""
    room = COMMITS - APART * (changes + 1)
    gaps = np.sort(generator.integers(0, room + 1, changes))
    places = gaps + APART * np.arange(1, changes + 1)
    sizes = np.log1p(generator.uniform(SMALLEST, LARGEST, changes))
    sizes *= np.where(generator.random(changes) < 0.5, 1, -1)
    level = np.zeros(COMMITS)
    for place, size in zip(places.tolist(), sizes.tolist(), strict=True):
        level[place:] += size
    return 10e6 * np.exp(level + spread * noise(generator, COMMITS)), places.tolist(), sizes


def own(values: Reals) -> list[int]:
    return [one.at for one in levels_of(values).changes]


def detectors() -> dict[str, Detector]:
    """Ours, and the libraries that are installed."""
    found: dict[str, Detector] = {"traceroof": own}
    try:
        import ruptures
    except ImportError:
        pass
    else:

        def pelt(values: Reals) -> list[int]:
            logs = np.log(values)
            spread = np.median(np.abs(np.diff(logs))) / 0.6745 / np.sqrt(2)
            fit = ruptures.Pelt(model="l2", min_size=3, jump=1).fit(logs)
            return list(fit.predict(pen=3 * np.log(len(logs)) * spread**2))[:-1]

        def kernel(values: Reals) -> list[int]:
            logs = np.log(values)
            logs = (logs - logs.mean()) / logs.std()
            fit = ruptures.KernelCPD(kernel="rbf", min_size=3).fit(logs[:, None])
            return list(fit.predict(pen=3 * np.log(len(logs)) / 2))[:-1]

        found |= {"ruptures, PELT (l2)": pelt, "ruptures, kernel (rbf)": kernel}
    try:
        from otava.analysis import compute_change_points
    except ImportError:
        pass
    else:

        def otava(values: Reals) -> list[int]:
            try:
                points, _ = compute_change_points(values.tolist())
            except ValueError:  # it fails where a piece is empty
                return []
            return [one.index for one in points]

        found["Apache Otava"] = otava
    return found


def measured(
    detector: Detector,
    spread: float,
    noise: Noise,
    *,
    count: int,
    seed: int,
    changes: int = CHANGES,
) -> tuple[float, float, float, float, float]:
    """Share found of the changes above twice the noise, share of all, false ones per series, size
    error (median, relative to the size), ms per series."""
    generator = np.random.default_rng(seed)
    large = large_found = every = every_found = false = 0
    began = 0.0
    for _ in range(count):
        values, places, sizes = series(generator, spread, noise, changes)
        start = time.perf_counter()
        found = detector(values)
        began += time.perf_counter() - start
        hit = [any(abs(one - place) <= NEAR for one in found) for place in places]
        false += sum(all(abs(one - place) > NEAR for place in places) for one in found)
        every += len(places)
        every_found += sum(hit)
        is_large = np.abs(sizes) > 2 * spread
        large += int(is_large.sum())
        large_found += sum(one for one, big in zip(hit, is_large.tolist(), strict=True) if big)
    nan = float("nan")
    return (
        large_found / large if large else nan,
        every_found / every if every else nan,
        false / count,
        large / count,
        began / count * 1000,
    )


def rows(count: int) -> Iterable[str]:
    yield f"{count:,} series per row; found: within {NEAR} commits."
    yield ""
    yield "| detector | noise | spread | found above 2 x noise | found of all | false per series | false without changes |"
    yield "|---|---|--:|--:|--:|--:|--:|"
    for name, detector in detectors().items():
        for shape, noise in SHAPES:
            for spread in SPREADS if shape == "normal" else (0.01, 0.02):
                of = measured(detector, spread, noise, count=count, seed=round(spread * 1e4))
                still = measured(detector, spread, noise, count=count, seed=7, changes=0)
                yield (
                    f"| {name} | {shape} | {spread * 100:.1f} % | {of[0] * 100:.1f} % "
                    f"| {of[1] * 100:.1f} % | {of[2]:.3f} | {still[2]:.3f} |"
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=200)
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    if arguments.write is None:
        for line in rows(arguments.series):
            print(line, flush=True)
        return
    table = "\n".join(rows(arguments.series))
    page = arguments.write.read_text("utf-8")
    between = re.compile(f"{re.escape(MARK)}.*{re.escape(MARK)}", re.DOTALL)
    made = between.sub(lambda _: f"{MARK}\n{table}\n{MARK}", page)
    arguments.write.write_text(made, "utf-8")


if __name__ == "__main__":
    main()
