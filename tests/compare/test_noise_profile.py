"""Noise that was measured on repeats: what it is, how it is kept, and what compare makes of it."""

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import traceroof
from tests.runs import recording
from traceroof.cli.main import app
from traceroof.compare import Comparison, compare, gates
from traceroof.compare.known_noise import KnownNoise, decided, least_called, standard_error
from traceroof.compare.noise_profile import (
    Profile,
    correlation_of,
    measure,
    profile_for,
    same_workload,
    scatter,
)
from traceroof.compare.noise_threshold import Thresholds
from traceroof.compare.student import critical, quantile, two_sided_p
from traceroof.config.settings import Accepted, Settings
from traceroof.core.merge_recordings import merge
from traceroof.core.recording import DeviceInfo, Run
from traceroof.errors import TraceroofError
from traceroof.report.compare import noise as shown
from traceroof.report.compare import terminal, trust_words
from traceroof.store import Store

runner = CliRunner()
DEVICE = (DeviceInfo(index=0, name="NVIDIA H100 80GB HBM3"),)


@pytest.mark.parametrize(
    ("share", "degrees", "t"),
    # Abramowitz and Stegun, table 26.10.
    [
        (0.975, 1, 12.706),
        (0.95, 4, 2.132),
        (0.975, 9, 2.262),
        (0.995, 30, 2.750),
        (0.995, 2, 9.925),
    ],
)
def test_students_t_is_that_of_the_tables(share: float, degrees: int, t: float) -> None:
    assert quantile(share, degrees) == pytest.approx(t, abs=5e-4)
    assert two_sided_p(np.array([t]), degrees)[0] == pytest.approx(2 * (1 - share), rel=1e-3)
    assert critical(np.array([2 * (1 - share)]), degrees)[0] == pytest.approx(t, abs=5e-4)


def times(count: int, *, noise: float = 0.01, seed: int = 1, slow: float = 1.0) -> list[list[int]]:
    """Times of three kernels (10, 5 and 0.1 ms) in so many runs, ns; the second slower by ``slow``."""
    random = np.random.default_rng(seed)
    level = np.array([10e6, 5e6 * slow, 0.1e6])
    made = level * (1 + noise * random.standard_normal((count, 3)))
    return [[int(one) for one in run] for run in made.tolist()]


def runs(each: list[list[int]], name: str = "train") -> Run:
    """Runs of three kernels, one file each, as combined repeats."""
    parts = [
        recording(
            {
                "kernel_name": ["gemm", "softmax", "tiny"],
                "duration_ns": run,
                "device": [0] * 3,
                "start_ns": [at * 10**9 + offset for offset in (0, 20_000_000, 40_000_000)],
            },
            time_basis="timeline",
            devices=DEVICE,
        )
        for at, run in enumerate(each)
    ]
    roles: list[Any] = ["timeline", *["repeat"] * (len(parts) - 1)] if len(parts) > 1 else [""]
    with_roles = [
        replace(one, sources=(replace(one.sources[0], path=f"{at}.json", role=role),))
        for at, (one, role) in enumerate(zip(parts, roles, strict=True))
    ]
    return Run(merge(with_roles), name)


@pytest.fixture(scope="module")
def profile() -> Profile:
    """The noise of ten runs of 1 %."""
    return measure(runs(times(10)), today="2026-11-30")


def test_repeats_tell_scatter_reach_and_the_detectable_change(profile: Profile) -> None:
    """GIVEN ten runs of 1 % noise WHEN measured THEN each figure is that of the runs themselves."""
    values = np.array(times(10), dtype=float).T
    median, sigma, reach = scatter(values)
    assert (profile.runs, profile.per, profile.device) == (10, "run", "H100-SXM5-80GB")
    assert [one.name.split("|")[0] for one in profile.kernels] == ["gemm", "softmax", "tiny"]
    assert [one.median_ns for one in profile.kernels] == median.tolist()
    assert [one.sigma for one in profile.kernels] == pytest.approx(sigma.tolist())
    assert [one.reach for one in profile.kernels] == pytest.approx(reach.tolist())
    total = values.sum(axis=0)
    assert profile.total.sigma == pytest.approx(total.std(ddof=1) / np.median(total))
    limits = Thresholds()
    several = [profile.of_total(count, limits) for count in (1, 3, 5, 10, 40)]
    assert several == sorted(several, reverse=True)
    # Never below what matters: 2 % of the whole.
    assert several[-1] > 0.02
    assert profile.of_kernel(profile.kernels[0], 5, limits) > 0.05
    # 0.1 of 15.1 ms is 0.66 %: 0.25 % of the whole is 38 % of it.
    assert profile.of_kernel(profile.kernels[2], 5, limits) > 0.37


def test_fewer_than_three_are_no_repeats_and_other_launches_are_told() -> None:
    with pytest.raises(TraceroofError, match="3 runs of unchanged code or more, and 1 is given"):
        measure(runs(times(1)))
    with pytest.raises(TraceroofError, match="and 2 are given"):
        measure(runs(times(2)))
    each = runs(times(4))
    odd = recording({"kernel_name": ["gemm"] * 2, "duration_ns": [1, 2], "start_ns": [9**10, 9**11]},
                    time_basis="timeline", devices=DEVICE)  # fmt: skip
    odd = replace(odd, sources=(replace(odd.sources[0], path="odd.json", role="repeat"),))
    found = measure(Run(merge([each.recording, odd]), "x"))
    assert found.notes[-1].endswith("other launch counts in some runs: was the code unchanged?")


def test_correlation_of_runs_is_freed_of_bias() -> None:
    """GIVEN 200 things over ten runs WHEN independent THEN no correlation; WHEN each run keeps half
    of the one before THEN a half."""
    random = np.random.default_rng(4)
    independent = 1 + 0.01 * random.standard_normal((200, 10))
    assert correlation_of(independent) < 0.08
    noise = random.standard_normal((200, 40))
    for at in range(1, 40):
        noise[:, at] = 0.5 * noise[:, at - 1] + np.sqrt(0.75) * noise[:, at]
    assert correlation_of(1 + 0.01 * noise[:, 30:]) == pytest.approx(0.5, abs=0.12)
    assert correlation_of(np.ones((3, 10))) == 0.0
    # Of two runs, two independent ones tell 1/2; with r = 0.5 they vary by (1 + r) / 2.
    assert standard_error(2, 2, 0.0) == pytest.approx(1.0)
    assert standard_error(2, 2, 0.5) == pytest.approx(np.sqrt(1.5))


def test_one_run_decides_the_whole_beyond_three_times_the_largest_difference() -> None:
    """GIVEN a spread of 1 % on 10 repeats, of which two differ by 3 % at most, WHEN one run per side
    differs by 8 or 10 % THEN only the latter is called: it is more than 9 %."""
    known = KnownNoise(np.array([0.01]), np.array([0.03]), 9)
    false = np.array([0.016])

    def sure(change: float) -> bool:
        made = decided(
            np.array([[100.0]]), np.array([[100.0 * (1 + change)]]), known,
            runs=(1, 1), floor=np.array([2.0]), false=false,
        )  # fmt: skip
        return bool(made.sure[0])

    assert [sure(0.08), sure(0.10), sure(-0.10)] == [False, True, True]
    told = least_called(known.sigma, known.reach, np.array([0.02]), false, (1, 1), 9, 0.0)
    assert told[0] == pytest.approx(0.09 + quantile(0.975, 9) * 0.01 * np.sqrt(2))


def test_compare_uses_the_measured_noise_and_says_so(profile: Profile, root: Path) -> None:
    """GIVEN one run per side, 10 % slower as a whole, WHEN noise was measured THEN it is a regression
    where it would be inconclusive, and the report says from which change on one shows."""
    base, head = runs(times(1, seed=8)), runs([[11_000_000, 5_500_000, 110_000]])
    without = compare(base, head)
    assert without.verdict == "inconclusive"
    made = compare(base, head, noise=[profile])
    assert (made.verdict, made.total.verdict, made.total.measured) == (
        "regressed", "regressed", True,
    )  # fmt: skip
    assert made.total.noise == profile.total.sigma
    text = terminal.render(made, width=200)
    assert (
        "noise was measured on 10 runs of train (2026-11-30), whose kernel time scatters by" in text
    )
    assert "with 1 run per side" in text
    assert "all other times need 3 runs per side" in text
    form = json.loads(json.dumps(made.to_dict()))
    assert form["noise"]["runs"] == 10
    assert form["total"]["noise_from"] == "measured"
    jsonschema.validate(form, json.loads((root / "docs" / "comparison.schema.json").read_text()))
    # Kernels need three runs per side: single runs say what is missing.
    assert not made.of("regressed", "improved")
    assert made.of("inconclusive")[0].reason == "one run per side; a verdict needs 3 runs per side"


def test_three_runs_a_side_decide_kernels_with_measured_noise(profile: Profile) -> None:
    """GIVEN three runs per side, softmax 15 % slower, WHEN noise was measured THEN softmax regressed and
    gemm is unchanged; without it nothing is decided."""
    base, head = runs(times(3, seed=20)), runs(times(3, seed=21, slow=1.15))
    assert not compare(base, head).of("regressed")
    made = compare(base, head, noise=[profile])
    found = {one.name: one.verdict for one in made.kernels}
    assert (found["softmax"], found["gemm"]) == ("regressed", "unchanged")
    assert "detectable from" in "\n".join(trust_words.trust(made))
    assert "with 3 runs per side" in "\n".join(trust_words.trust(made))


def test_sides_one_after_the_other_are_told() -> None:
    """GIVEN runs with dates, the head after the base, WHEN compared THEN the report says that a drift
    looks like a change; in turn it does not."""
    day = 1_780_000_000 * 10**9

    def dated(starts: list[int]) -> Run:
        made = runs(times(len(starts))).recording
        column = made.kernels.column_names.index("start_ns")
        values = [day + start * 10**9 + at for start in starts for at in range(3)]
        kernels = made.kernels.set_column(
            column, made.kernels.schema.field(column), pa.array(values, pa.int64())
        )
        return Run(replace(made, kernels=kernels), "dated")

    in_turn, apart = dated([0, 2, 4]), dated([1, 3, 5])
    assert not any("in turn" in one for one in compare(in_turn, apart).notes)
    assert any("in turn" in one for one in compare(dated([0, 1, 2]), dated([3, 4, 5])).notes)


def test_small_differences_say_how_many_runs_would_decide(profile: Profile) -> None:
    base, head = runs(times(3, seed=30, noise=0.03)), runs(times(3, seed=31, noise=0.03, slow=1.06))
    made = compare(base, head, noise=[profile])
    reasons = [one.reason for one in made.kernels if one.verdict == "inconclusive"]
    assert any("with the measured noise of" in one and "would be enough" in one for one in reasons)


def test_only_the_noise_of_this_workload_on_this_device_is_used(profile: Profile) -> None:
    """GIVEN profiles of another GPU, other times or other kernels WHEN compared THEN none is used;
    of two that fit, the newer is."""
    side = compare(runs(times(1)), runs(times(1))).base
    newer = replace(profile, measured="2026-12-01")
    others = [
        replace(profile, device="A100"), replace(profile, per="step"),
        replace(profile, time_basis="counter-tool"), replace(profile, kernels=profile.kernels[1:]),
    ]  # fmt: skip
    assert profile_for(others, side, "run") is None
    assert profile_for([*others, newer, profile], side, "run") == newer
    assert profile_for([profile], side, "run", blocked=True) is None
    assert same_workload(profile, newer)
    assert not any(same_workload(profile, one) for one in others)


def test_accepted_regressions_expire_and_unused_ones_are_named(profile: Profile) -> None:
    """GIVEN an entry for softmax until 2027-01-31, and one that nothing fits, WHEN the gate is asked
    THEN it passes on that day, fails on the next, and names the other."""
    known = Accepted("softmax", date(2027, 1, 31), "exact softmax")
    settings = Settings(accept=(known, Accepted("flash*", None, "old")))
    base, head = runs(times(5, seed=20)), runs(times(5, seed=21, slow=1.15))
    made: Comparison = compare(base, head, noise=[profile], settings=settings)
    assert gates.failures(made, ["regression"], date(2027, 1, 31)) == []
    failed = gates.failures(made, ["regression"], date(2027, 2, 1))
    assert "was accepted until 2027-01-31: exact softmax" in failed[-1]
    assert "accept flash*: no regression matches, remove this entry" in gates.accepted(
        made, date(2027, 1, 31)
    )


def test_both_catalogues_keep_measured_noise(
    tmp_path: Path, url: str | None, profile: Profile
) -> None:
    """GIVEN a store in SQLite or PostgreSQL WHEN noise is kept THEN it comes back; again of the same
    workload it is replaced."""
    store = Store.open(tmp_path / "s", url)

    def keep(one: Profile) -> int:
        return store.keep_noise(
            one.to_dict(), lambda form: same_workload(Profile.from_dict(form), one)
        )

    assert [keep(profile), keep(replace(profile, device="A100")), keep(profile)] == [0, 0, 1]
    held = [Profile.from_dict(form) for _, form in store.noise()]
    assert sorted(one.device for one in held) == ["A100", "H100-SXM5-80GB"]
    assert profile in held
    store.forget_noise([number for number, _ in store.noise()])
    assert store.noise() == []


def test_the_command_measures_keeps_lists_and_forgets(samples: Path, tmp_path: Path) -> None:
    """GIVEN a trace WHEN its noise is measured on repeats THEN compare finds it in the store; what is
    wrong is one sentence."""
    text = json.loads((samples / "torch" / "decode.json").read_text("utf-8"))
    folder = tmp_path / "repeats"
    folder.mkdir()
    random = np.random.default_rng(2)
    for at in range(5):
        for event in text["traceEvents"]:
            if event.get("cat") == "kernel":
                event["dur"] = round(event["dur"] * float(1 + 0.01 * random.standard_normal()), 3)
        (folder / f"{at}.json").write_text(json.dumps(text), "utf-8")
    store = ["--store", str(tmp_path / "s")]
    paths = [str(one) for one in sorted(folder.iterdir())]
    done = runner.invoke(app, ["noise", *paths, "--name", "decode", *store])
    assert done.exit_code == 0, done.output
    assert "decode on" in done.output
    assert "5 runs" in done.output
    assert "compare uses it for this workload" in done.stderr
    done = runner.invoke(app, ["noise", str(folder), "--no-keep", "-f", "json", *store])
    assert json.loads(done.stdout)["schema"] == "traceroof/noise/1"
    done = runner.invoke(app, ["noise", *store])
    assert done.output.count("decode") == 1
    done = runner.invoke(app, ["compare", paths[0], paths[1], *store, "--wide"])
    assert "noise was measured on 5 runs of decode" in " ".join(done.output.split())
    assert len(traceroof.stored_noise(tmp_path / "s")) == 1
    done = runner.invoke(app, ["noise", paths[0], *store])
    assert isinstance(done.exception, TraceroofError)
    assert runner.invoke(app, ["noise", "--forget", "decode", *store]).exit_code == 0
    done = runner.invoke(app, ["noise", *store])
    assert "No noise was measured yet" in done.output
    done = runner.invoke(app, ["noise", "--forget", "decode", *store])
    assert isinstance(done.exception, TraceroofError)
    assert done.exception.hint == "none is"


def test_the_table_says_what_its_columns_are(profile: Profile) -> None:
    text = shown.render(profile, width=120)
    assert "train on H100-SXM5-80GB: 10 runs, whose kernel time scatters by" in text
    assert "detectable from" in text
    assert "softmax" in text
    assert "successive runs are" in text
