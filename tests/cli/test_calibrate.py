"""``traceroof calibrate`` as a user meets it, and what every report says of its ceilings."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import jsonschema
import pytest

import traceroof
from tests.cli.test_cli import run
from traceroof.errors import TraceroofError
from traceroof.report.html import render
from traceroof.report.html.roofline_figure import roofline
from traceroof.report.run import (
    markdown,
    operator_card,
    summary,
    terminal,
)

TORCH = "calibration/h100.torch.json"
NCU = "calibration/h100.ncu.csv"
TRACE = "torch/training.rank0.json"


def test_measure_list_use_and_forget(samples: Path, tmp_path: Path) -> None:
    first = run("calibrate", samples / TORCH, samples / NCU, cwd=tmp_path)
    assert "H100-SXM5-80GB, times from a timeline" in first.stdout
    assert "2.98 TB/s      88.9 %     2.15 GB        12  memcpy" in first.stdout
    assert "triad_kernel (3.22 GB): 66.7 % of its bytes are read" in first.stdout
    assert "before" not in first.stdout
    assert first.stderr == "kept in .traceroof: diagnose, report and compare use it from now on\n"

    listed = run("calibrate", cwd=tmp_path).stdout
    assert listed.count("H100-SXM5-80GB") == 2
    assert "measured one kernel at a time by a counter tool" in listed
    again = run("calibrate", samples / TORCH, cwd=tmp_path).stdout
    assert "before" in again
    assert "2.98 TB/s (+0.0 %)" in again

    shown = run("diagnose", samples / TRACE, cwd=tmp_path).stdout
    assert "Likely: bandwidth as calibrated (read 3.12 TB/s, 93 % of nominal; copy 2.98" in shown
    assert "traceroof calibrate" not in shown

    forgotten = run("calibrate", "--forget", "h100-sxm5-80gb", cwd=tmp_path)
    assert forgotten.stderr == "forgot 9 ceilings of H100-SXM5-80GB\n"
    assert "No calibration" in run("calibrate", cwd=tmp_path).stdout
    gone = run("calibrate", "--forget", "H100-SXM5-80GB", cwd=tmp_path, expect=2)
    assert "holds no calibration of 'H100-SXM5-80GB'" in gone.stderr


def test_a_folder_of_profiles_of_several_tools(samples: Path, tmp_path: Path) -> None:
    """Their times do not add up to one run, but each measures something."""
    apart = run("calibrate", samples / TORCH, samples / NCU, cwd=tmp_path)
    folder = run("calibrate", samples / "calibration", "--store", "other", cwd=tmp_path)
    assert sorted(folder.stdout.splitlines()) == sorted(apart.stdout.splitlines())
    measured = traceroof.calibrate(samples / "calibration", store=tmp_path / "third")
    assert {one.time_basis for one in measured.rates} == {"timeline", "counter-tool"}


def test_without_the_store_everything_is_as_before(samples: Path, tmp_path: Path) -> None:
    bare = run("diagnose", samples / TRACE, "-f", "json", cwd=tmp_path).stdout
    assert "bandwidth as published for it" in json.loads(bare)["ceilings"]
    assert list(tmp_path.iterdir()) == []
    assert "No calibration" in run("calibrate", cwd=tmp_path).stdout
    assert list(tmp_path.iterdir()) == []

    run("calibrate", samples / TORCH, "--store", "kept", cwd=tmp_path)
    assert run("diagnose", samples / TRACE, "-f", "json", cwd=tmp_path).stdout == bare
    used = run("diagnose", samples / TRACE, "-f", "json", "--store", "kept", cwd=tmp_path).stdout
    assert used != bare
    assert run("diagnose", samples / TRACE, "-f", "json", cwd=tmp_path,
               TRACEROOF_STORE="kept").stdout == used  # fmt: skip
    ignored = ("--store", "kept", "--no-calibration")
    assert run("diagnose", samples / TRACE, "-f", "json", *ignored, cwd=tmp_path).stdout == bare
    page = run("report", samples / TRACE, "-o", "-", "--store", "kept", cwd=tmp_path).stdout
    assert "as calibrated" in page
    for command in (
        ("report", samples / TRACE, "-o", "-"),
        ("compare", samples / TRACE, samples / TRACE),
    ):
        assert run(*command, *ignored, cwd=tmp_path).stdout == run(*command, cwd=tmp_path).stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("{samples}/torch/decode.json",), "no probe in decode.json"),
        (("{samples}/rocprofv3/pmc_1", "--device", "MI300X"), "no probe in"),
        (("nothing.json",), "nothing.json does not exist"),
        (("unnamed.csv",), "does not say which GPU it was recorded on"),
        (("unnamed.csv", "--device", "H9000"), "H9000 is not one GPU of the device table"),
        (("--forget", "H100", "unnamed.csv"), "--forget takes no PATH"),
        (("--forget", "H100"), "there is no store in"),
    ],
)
def test_what_is_missing_is_one_sentence(
    samples: Path, tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    unnamed = (samples / NCU).read_text("utf-8").replace("NVIDIA H100 80GB HBM3", "")
    (tmp_path / "unnamed.csv").write_text(
        unnamed.replace("9.0", "").replace('"132"', '""'), "utf-8"
    )
    given = [one.format(samples=samples) for one in arguments]
    failed = run("calibrate", *given, cwd=tmp_path, expect=2)
    assert says in failed.stderr
    assert failed.stdout == ""
    assert not (tmp_path / ".traceroof").exists()


def test_a_device_that_the_file_does_not_name(samples: Path, tmp_path: Path) -> None:
    text = (samples / NCU).read_text("utf-8").replace("NVIDIA H100 80GB HBM3", "")
    (tmp_path / "unnamed.csv").write_text(text.replace("9.0", "").replace('"132"', '""'), "utf-8")
    named = run("calibrate", "unnamed.csv", "--device", "H100-SXM5-80GB", cwd=tmp_path)
    assert "read   3.08 TB/s      91.8 %" in named.stdout


def test_a_store_that_cannot_be_read_does_not_stop_a_diagnosis(
    samples: Path, tmp_path: Path
) -> None:
    run("calibrate", samples / TORCH, cwd=tmp_path)
    with closing(sqlite3.connect(tmp_path / ".traceroof/catalogue.db")) as catalogue, catalogue:
        catalogue.execute("UPDATE traceroof_schema SET version = 99")
    shown = run("diagnose", samples / TRACE, cwd=tmp_path)
    assert "bandwidth as published for it" in " ".join(shown.stdout.split())
    assert "note: stored ceilings are left out: the store in .traceroof was written by a newer" in (
        shown.stderr
    )
    assert run("diagnose", samples / TRACE, "--no-calibration", cwd=tmp_path).stderr == ""


def test_the_library_does_the_same(samples: Path, tmp_path: Path) -> None:
    found = traceroof.calibrate([samples / TORCH], store=tmp_path / "kept")
    assert found.replaced == (None,) * 6
    again = traceroof.calibrate(samples / TORCH, store=tmp_path / "kept")
    assert [one.per_s for one in again.replaced if one] == [one.per_s for one in found.rates]
    used = traceroof.diagnose(samples / TRACE, store=tmp_path / "kept")
    assert {one.rate for one in used.calibration} == {one.rate for one in found.rates}
    assert traceroof.diagnose(samples / TRACE, store=tmp_path / "kept", calibrated=False) == (
        traceroof.diagnose(samples / TRACE, store=tmp_path / "none")
    )
    with pytest.raises(TraceroofError, match="no probe"):
        traceroof.calibrate(samples / "torch/decode.json", store=tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_every_report_names_its_ceilings(samples: Path, tmp_path: Path, root: Path) -> None:
    traceroof.calibrate(samples / TORCH, store=tmp_path)
    known = traceroof.diagnose(samples / TRACE, store=tmp_path)
    assumed = traceroof.diagnose(samples / TRACE, calibrated=False)
    schema = json.loads((root / "docs/diagnosis.schema.json").read_text("utf-8"))
    for diagnosis in (known, assumed):
        payload = json.loads(json.dumps(diagnosis.to_dict()))
        jsonschema.validate(payload, schema)
    product = next(one for one in known.kernels if one.category == "gemm")
    roof = product.roofline or {}
    assert (roof["ceiling_basis"], roof["likely_flops_basis"]) == ("device-table", "calibrated")
    assert roof["likely_bytes_ceiling"] == "copy"

    advice = "`traceroof calibrate` measures what this GPU reaches."
    assert summary.ceilings(assumed).endswith(f"nominal FLOP rate (assumed); {advice}")
    assert advice not in summary.ceilings(known)
    for text in (terminal.render(known, width=1000), markdown.render(known), render.render(known)):
        assert "bandwidth as calibrated" in text
        assert "measures what this GPU" not in text
    for text in (terminal.render(assumed, width=1000), render.render(assumed)):
        assert "bandwidth as published for it" in text
        assert "calibrate" in text

    lines = [
        f"{line.label} {line.text}"
        for section in operator_card.sections(product, ())
        for line in section.lines
    ]
    assert any("751 TFLOP/s" in line and "calibrated" in line for line in lines)
    assert any("2.98 TB/s" in line and "calibrated: copy" in line for line in lines)
    chart = roofline(known)
    assert chart is not None
    drawn = [label for _, _, label in chart.legend]
    assert "DRAM 3.35 TB/s, nominal, device table" in drawn
    assert "DRAM copy 2.98 TB/s, calibrated" in drawn
    assert "bf16 751 TFLOP/s, calibrated" in drawn
    plain = roofline(assumed)
    assert plain is not None
    assert not any("calibrated" in label for _, _, label in plain.legend)
