"""What the user set: which file wins per key, what is refused, and what it changes."""

import json
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

import traceroof
from traceroof import plugins
from traceroof.config import load
from traceroof.config.own_devices import peaks_of
from traceroof.diagnosis.diagnose import diagnose
from traceroof.diagnosis.explain import explain
from traceroof.errors import TraceroofError
from traceroof.hardware import device_lookup
from traceroof.hardware.devices import knowing
from traceroof.report.run import markdown, terminal

SAMPLE = "nsight_compute/transformer_layer.raw.csv"


@pytest.fixture(autouse=True)
def searched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Files are looked for from a folder of the test's own."""
    monkeypatch.delenv("TRACEROOF_CONFIG")
    monkeypatch.chdir(tmp_path)


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    return file


# --- which file wins -----------------------------------------------------------------------------


def test_the_strongest_file_wins_key_by_key(tmp_path: Path) -> None:
    """GIVEN a key in one, two and three files WHEN loaded THEN each comes from the strongest that
    has it, and says so."""
    write(tmp_path / "pyproject.toml", """
        [tool.traceroof]
        device = "T4"
        store = "of-project"
        [tool.traceroof.severity]
        high = 30
        medium = 4
    """)  # fmt: skip
    write(tmp_path / "traceroof.toml", """
        device = "V100"
        [severity]
        high = 20
        [thresholds.small-grid]
        waves = 0.5
    """)  # fmt: skip
    other = write(tmp_path / "other.toml", 'device = "A100"\n[thresholds.small-grid]\nwaves = 0.25')
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)

    found = load(other, folder=below)
    assert found.device == "A100"
    assert found.store == tmp_path / "of-project"
    assert found.severity == {"high": 0.2, "medium": 0.04}
    assert found.thresholds == {"small-grid": {"waves": 0.25}}
    origins = {key: entry.origin for key, entry in found.entries.items()}
    assert origins == {
        "device": "other.toml",
        "store": "pyproject.toml",
        "severity.high": "traceroof.toml",
        "severity.medium": "pyproject.toml",
        "thresholds.small-grid.waves": "other.toml",
    }
    assert load(folder=below).device == "V100"


def test_the_nearest_file_upwards_counts_alone(tmp_path: Path) -> None:
    write(tmp_path / "traceroof.toml", 'device = "V100"\nstore = "far"')
    write(tmp_path / "a" / "traceroof.toml", 'device = "T4"')
    write(tmp_path / "a" / "pyproject.toml", "[tool.black]")
    found = load(folder=tmp_path / "a")
    assert (found.device, found.store) == ("T4", None)
    assert load(folder=tmp_path).store == tmp_path / "far"


def test_no_file_counts_without_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path / "traceroof.toml", 'device = "V100"')
    assert load(without=True).entries == {}
    monkeypatch.setenv("TRACEROOF_CONFIG", "")
    assert load().entries == {}
    assert load(file).device == "V100"
    other = write(tmp_path / "other.toml", 'device = "T4"')
    monkeypatch.setenv("TRACEROOF_CONFIG", str(other))
    assert load().device == "T4"


def command(*arguments: str | Path, cwd: Path, **env: str) -> tuple[int, str, str]:
    import os

    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRACEROOF")}
    done = subprocess.run(
        [sys.executable, "-m", "traceroof", *map(str, arguments)],
        cwd=cwd, capture_output=True, text=True, check=False, env={**kept, **env, "COLUMNS": "100"},
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def test_option_before_environment_before_files(tmp_path: Path) -> None:
    """GIVEN a store in a file, the environment and an option WHEN asked THEN the option's, else the
    environment's, else the file's."""
    write(tmp_path / "traceroof.toml", 'store = "of-file"')

    def store(*arguments: str, **env: str) -> tuple[str, str]:
        code, said, _ = command("config", "--json", *arguments, cwd=tmp_path, **env)
        assert code == 0
        found = json.loads(said)["store"]
        return Path(found["value"]).name, found["from"]

    assert store() == ("of-file", "traceroof.toml")
    assert store(TRACEROOF_STORE="of-variable") == ("of-variable", "TRACEROOF_STORE")
    assert store("--store", "of-option", TRACEROOF_STORE="x") == ("of-option", "--store")
    assert store("--no-config") == (".traceroof", "default")


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says", "hint"),
    [
        ('devise = "T4"', "unknown key devise", "did you mean device"),
        ("[rules]\nof = []", "unknown key rules.of", "did you mean off?"),
        ('[rules]\noff = "small-grid"', "'small-grid' is not a list", "in brackets"),
        ("[rules]\noff = [3]", "3 names no rule", "small-grid"),
        ('[rules]\noff = [{ rule = "x", kernal = "y" }]', "unknown key kernal", "kernel?"),
        ("[severity]\nhih = 3", "unknown key severity.hih", "did you mean high?"),
        ("[severity]\nhigh = true", "True is not a number", ""),
        (
            "[severity]\nhigh = 1",
            "high 1.0 %, medium 3.0 %, low 0.5 % is not in descending order",
            "10",
        ),
        ("severity = 3", "severity is not a table", "[severity]"),
        ("[thresholds]\nsmall-grid = 3", "thresholds.small-grid is not a table", "[thresholds."),
        ("device = 3", "3 is not text", "quotes"),
        ('accept = "x"', "'x' is not a list", ""),
        ('[[accept]]\nkernel = "x"', "an entry lacks reason", "kernel, until, reason"),
        ('[[accept]]\nkernel = "x"\nreason = "y"\nuntil = "soon"', "'soon' is not a day", "2027"),
        ('[[accept]]\nkern = "x"', "unknown key kern", "kernel?"),
        ('[devices.X]\nlike = "H100-SXM5-80GBX"', "is not one GPU", "H100-SXM5-80GB"),
        ("[devices.X]\nsm_count = 3", "devices.X lacks vendor", "like"),
        ('[devices.X]\nvendor = "intel"', "vendor = 'intel'", "nvidia"),
        ("[devices.X]\nbandwith_gb_per_s = 3", "devices.X.bandwith_gb_per_s", "bandwidth_gb_per_s"),
        ('[devices.X]\nlike = "T4"\ntflops = 3', "a value of a wrong kind", "devices NAME"),
        ("devices = 3", "devices is not a table", ""),
        ("[devices]\nX = 3", "devices.X is not a table", ""),
        ("a = [", "is not valid TOML", ""),
    ],
)
def test_what_is_no_setting_is_one_sentence(
    tmp_path: Path, text: str, says: str, hint: str
) -> None:
    """GIVEN a file with a mistake WHEN loaded THEN the file, the key and what was meant."""
    write(tmp_path / "traceroof.toml", text)
    with pytest.raises(TraceroofError) as refused:
        load()
    assert "traceroof.toml" in refused.value.message
    assert says in refused.value.message
    assert hint in refused.value.hint


@pytest.mark.parametrize(
    ("text", "says", "hint"),
    [
        ('[rules]\noff = ["smal-grid"]', "no rule is called smal-grid", "small-grid"),
        ("[thresholds.small-grd]\nwaves = 1", "no rule is called small-grd", "small-grid"),
        ("[thresholds.small-grid]\nwave = 1", "small-grid has no threshold wave", "waves?"),
    ],
)
def test_a_rule_that_does_not_exist_is_named(
    tmp_path: Path, text: str, says: str, hint: str
) -> None:
    write(tmp_path / "traceroof.toml", text)
    with pytest.raises(TraceroofError) as refused:
        load().rules(plugins.rules())
    assert refused.value.message.startswith("traceroof.toml: ")
    assert says in refused.value.message
    assert hint in refused.value.hint


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceroofError, match="nowhere.toml does not exist"):
        load(tmp_path / "nowhere.toml")
    write(tmp_path / "pyproject.toml", "[tool]\ntraceroof = 3")
    with pytest.raises(TraceroofError, match="tool.traceroof is not a table"):
        load()


# --- what it changes -----------------------------------------------------------------------------


def test_a_rule_that_is_off_is_not_judged(samples: Path, tmp_path: Path) -> None:
    """GIVEN small-grid on one of 17 kernels WHEN off, and off on kernels of another name THEN it is
    gone, and stays."""
    run = traceroof.read(samples / SAMPLE)
    write(tmp_path / "traceroof.toml", '[rules]\noff = ["small-*"]')
    assert "small-grid" not in {one.rule for one in diagnose(run, settings=load()).findings}
    write(tmp_path / "traceroof.toml", '[rules]\noff = [{ rule = "small-grid", kernel = "gemm" }]')
    assert "small-grid" in {one.rule for one in diagnose(run, settings=load()).fired()}


@pytest.mark.parametrize("where", ['kernel = "GatherTopK"', 'category = "sort*"'])
def test_a_finding_that_is_not_wanted_is_suppressed_by_configuration(
    samples: Path, tmp_path: Path, where: str
) -> None:
    """GIVEN small-grid on gatherTopK (category sort-scan) WHEN not wanted there THEN suppressed, by
    configuration, and what it silenced speaks."""
    run = traceroof.read(samples / SAMPLE)
    before = diagnose(run)
    (kernel,) = (one for one in before.kernels if "gatherTopK" in one.kernel)
    assert kernel.category == "sort-scan"
    write(tmp_path / "traceroof.toml", f'[rules]\noff = [{{ rule = "small-grid", {where} }}]')
    found = diagnose(run, settings=load())
    (one,) = (one for one in found.findings if one.rule == "small-grid" and one.suppressed_by)
    assert (one.state, one.suppressed_by) == ("suppressed", "configuration")
    assert "small-grid" not in {entry.lead.rule for entry in found.advice}
    says = explain(found, "small-grid:gatherTopK").answers[0].says
    assert says == "fired, but is not wanted here: see `traceroof config`"
    silenced = {one.rule for one in before.findings if one.suppressed_by == "small-grid"}
    assert silenced
    assert not [one for one in found.findings if one.suppressed_by == "small-grid"]


def test_a_threshold_in_force_is_printed_as_configured(samples: Path, tmp_path: Path) -> None:
    """GIVEN 0.07 waves (8 blocks on 108 multiprocessors) WHEN the limit is 0.05 THEN clear; at 0.5
    it fires, and text, JSON and card say that the number is the user's."""
    run = traceroof.read(samples / SAMPLE)
    write(tmp_path / "traceroof.toml", "[thresholds.small-grid]\nwaves = 0.05")
    assert "small-grid" not in {one.rule for one in diagnose(run, settings=load()).fired()}
    write(tmp_path / "traceroof.toml", "[thresholds.small-grid]\nwaves = 0.5")
    found = diagnose(run, settings=load())
    (one,) = (one for one in found.fired() if one.rule == "small-grid")
    told = next(figure.threshold for figure in one.evidence if figure.metric == "waves")
    assert told.startswith("< 0.5 (configured; by default < 1), < 0.8")
    assert found.to_dict()["config"] == {
        "thresholds.small-grid.waves": {"value": 0.5, "from": "traceroof.toml"}
    }
    line = "Settings (traceroof.toml): thresholds of small-grid.waves."
    assert line in terminal.render(found)
    assert line in markdown.render(found).replace("\\", "")
    words = explain(found, "small-grid").answers[0].words
    assert words.startswith("less than 0.5 (configured; by default 1) wave of blocks")


def test_without_settings_nothing_is_said(samples: Path) -> None:
    found = diagnose(traceroof.read(samples / SAMPLE), settings=load())
    assert found.to_dict()["config"] is None
    assert "Settings" not in terminal.render(found)


def test_severity_follows_the_limits_set(samples: Path, tmp_path: Path) -> None:
    """GIVEN a finding of 1.2 % of the time WHEN medium begins at 1 % THEN it is medium, and so is
    its entry; WHEN low begins at 2 % THEN it is only counted."""
    run = traceroof.read(samples / SAMPLE)
    (usual,) = (one for one in diagnose(run).fired() if one.rule == "small-grid")
    assert usual.severity == "low"
    write(tmp_path / "traceroof.toml", "[severity]\nmedium = 1")
    found = diagnose(run, settings=load())
    (one,) = (one for one in found.fired() if one.rule == "small-grid")
    assert one.severity == "medium"
    assert found.advice[0].severity == "medium"
    assert "medium from 1 %" in explain(found, "small-grid").answers[0].severity
    write(tmp_path / "traceroof.toml", "[severity]\nlow = 2")
    fewer = diagnose(run, settings=load())
    assert fewer.hidden_findings > found.hidden_findings


def test_an_own_gpu_is_known_by_its_names(samples: Path, tmp_path: Path) -> None:
    """GIVEN a GPU like another with other memory WHEN a file names its alias THEN its peaks count,
    and outside the diagnosis the table is as before."""
    write(tmp_path / "traceroof.toml", """
        [devices.LAB-A100]
        like = "A100-SXM4-80GB"
        aliases = ["NVIDIA A100-SXM4-80GB"]
        bandwidth_gb_per_s = 1000.5
        tflops = { bf16 = 200 }
        [devices.NEW-GPU]
        vendor = "amd"
        wavefront = 64
        sm_count = 300
    """)  # fmt: skip
    settings = load()
    lab, new = settings.devices
    known = device_lookup.find("A100-SXM4-80GB")
    assert known
    assert (lab.name, lab.sm_count, lab.dram_bandwidth_bytes_per_s) == ("LAB-A100", 108, 1000.5e9)
    assert lab.flops_per_s == {**known.flops_per_s, "bf16": 200e12}
    assert lab.attainable_bytes_per_s == {}
    assert (new.vendor, new.wavefront, new.dram_bandwidth_bytes_per_s) == ("amd", 64, None)
    found = diagnose(traceroof.read(samples / SAMPLE), settings=settings)
    assert [one.known and one.known.name for one in found.devices] == ["LAB-A100"]
    with knowing(settings.devices):
        assert device_lookup.find("new gpu") == new
        assert device_lookup.find(compute_capability="8.0", sm_count=108) is None
    assert device_lookup.find("new gpu") is None


def test_the_device_set_counts_where_a_file_names_none(samples: Path, tmp_path: Path) -> None:
    write(tmp_path / "traceroof.toml", 'device = "T4"')
    found = diagnose(traceroof.read(samples / SAMPLE), settings=load())
    assert [one.name for one in found.devices] == ["NVIDIA A100-SXM4-80GB"]
    (tmp_path / "k.csv").write_text(
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
        "100.0,1000000,10,100000.0,100000.0,100000,100000,0.0,some_kernel\n"
    )
    bare = traceroof.read(tmp_path / "k.csv")
    assert [one.name for one in diagnose(bare, settings=load()).devices] == ["T4"]
    assert [
        one.name for one in diagnose(bare, device="V100-SXM2-16GB", settings=load()).devices
    ] == ["V100-SXM2-16GB"]


def test_peaks_given_for_once(samples: Path) -> None:
    """GIVEN a report with its own DRAM peak WHEN peaks are given THEN they are the roof."""
    assert peaks_of("bandwidth=3350, bf16=989.4") == {"bandwidth": 3.35e12, "bf16": 989.4e12}
    assert peaks_of("bandwidth=3.35TB/s,fp32=60TFLOP/s") == {"bandwidth": 3.35e12, "fp32": 6e13}
    for wrong in ("bandwith=3", "bf16=fast", "bf16", "bf16=0"):
        with pytest.raises(TraceroofError, match="--peak"):
            peaks_of(wrong)
    settings = load(without=True).with_peaks(peaks_of("bandwidth=4000"), "--peak")
    found = diagnose(traceroof.read(samples / SAMPLE), settings=settings)
    assert {one.known and one.known.dram_bandwidth_bytes_per_s for one in found.devices} == {4e12}
    assert found.grounds
    peaks = found.grounds.scopes["kernel"].facts.only(("dram_peak_bytes_per_s",))
    assert set(peaks.dram_peak_bytes_per_s.tolist()) == {4e12}
    assert found.to_dict()["config"] == {"peak.bandwidth": {"value": 4e12, "from": "--peak"}}


def test_gates_of_the_settings(samples: Path, tmp_path: Path) -> None:
    """GIVEN a gate in the settings WHEN no option is given THEN it decides, and says which finding
    failed it; an option goes before it."""
    write(tmp_path / "traceroof.toml", '[gates]\ndiagnose = "low"')
    code, _, said = command("diagnose", samples / SAMPLE, cwd=tmp_path)
    assert code == 1
    assert "gate failed: small-grid (low) in " in said
    assert command("diagnose", samples / SAMPLE, "--fail-on", "high", cwd=tmp_path)[0] == 0
    write(tmp_path / "traceroof.toml", '[gates]\ndiagnose = "hgih"')
    code, _, said = command("diagnose", samples / SAMPLE, cwd=tmp_path)
    assert code == 2
    assert "gates.diagnose: 'hgih' is not a severity\n  did you mean high?" in said


def test_accepted_regressions_are_read(tmp_path: Path) -> None:
    write(tmp_path / "traceroof.toml", """
        [[accept]]
        kernel = "*flash*"
        until = 2027-01-31
        reason = "exact softmax"
        [[accept]]
        kernel = "gemm"
        reason = "bigger"
    """)  # fmt: skip
    first, second = load().accept
    assert (first.kernel, first.until, first.reason) == (
        "*flash*", date(2027, 1, 31), "exact softmax",
    )  # fmt: skip
    assert second.until is None
