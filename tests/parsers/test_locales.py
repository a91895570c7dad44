"""Tables of nsys stats and of AMD's tools in the locales of machines and spreadsheets."""

from collections.abc import Callable
from pathlib import Path

import pytest

from traceroof.core.recording import Recording
from traceroof.ingest.detect import read as read_paths

# What groups digits, what begins decimals.
LOCALES = {
    "US": (",", "."),
    "German": (".", ","),
    "French": ("\u202f", ","),
    "older French": ("\u00a0", ","),
    "Swiss": ("'", "."),
    "blanks": (" ", ","),
}


def spelled(value: str, locale: str) -> str:
    """A number in a locale; any other text as it is."""
    if not value.replace(".", "").isdigit():
        return value
    group, decimal = LOCALES[locale]
    whole, _, part = value.partition(".")
    return f"{int(whole):,}".replace(",", group) + (decimal + part if part else "")


def table(header: str, rows: list[str], locale: str, delimiter: str) -> str:
    """Comma-separated lines as a machine of a locale saves them."""
    lines = [header.split(",")]
    lines += [[f'"{spelled(cell, locale)}"' for cell in row.split(",")] for row in rows]
    return "".join(delimiter.join(line) + "\n" for line in lines)


Make = Callable[[str, str], Recording]


@pytest.fixture
def made(tmp_path: Path) -> Make:
    def read(name: str, text: str) -> Recording:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return read_paths([tmp_path / name])

    return read


def told(recording: Recording) -> bool:
    return any("in the locale of the file" in note.text for note in recording.notes)


# 1,117,344 ns in 12 launches and 17,344 ns in 2.
NSYS = (
    "Time (%),Total Time (ns),Instances,Avg (ns),Min (ns),Max (ns),Name",
    ["98.5,1117344,12,93112.0,90000,99000,k1", "1.5,17344,2,8672.0,8000,9344,k2"],
)
STATS = (
    "Name,Calls,TotalDurationNs,AverageNs,Percentage",
    ["k1,12,1117344,93112.0,98.47", "k2,2,17344,8672.0,1.53"],
)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("locale", LOCALES)
@pytest.mark.parametrize(("name", "rows"), [("kern_sum.csv", NSYS), ("kernel_stats.csv", STATS)])
def test_summaries(
    made: Make, name: str, rows: tuple[str, list[str]], locale: str, delimiter: str
) -> None:
    """GIVEN a summary of a locale THEN the times and counts of the US one, and a note."""
    found = made(name, table(*rows, locale, delimiter))
    assert found.kernels["duration_ns"].to_pylist() == [93_112, 8_672]
    assert found.kernels["launch_count"].to_pylist() == [12, 2]
    assert told(found) == (LOCALES[locale][1] == ",")


def test_nothing_but_groups_of_three(made: Make) -> None:
    """GIVEN 17.344 ns in all and no other sign THEN 17,344: nanoseconds are whole numbers."""
    text = "Time (%);Total Time (ns);Instances;Name\n98;117.344;12;k1\n2;17.344;2;k2\n"
    assert made("sum.csv", text).kernels["duration_ns"].to_pylist() == [9_779, 8_672]


def test_decimals_of_microseconds_are_none_of_groups(made: Make) -> None:
    """GIVEN --timeunit us and 1117.344 us of 12 launches THEN three decimals, 93,112 ns."""
    text = "Time (%),Total Time (us),Instances,Avg (us),Name\n100.0,1117.344,12,93.112,k1\n"
    assert made("sum.csv", text).kernels["duration_ns"].to_pylist() == [93_112]


@pytest.mark.parametrize("locale", LOCALES)
def test_times_and_counters_of_rocprof(made: Make, locale: str) -> None:
    """GIVEN begin and end of rocprof v1 and 8,192 KiB each way THEN as in the US."""
    rows = [
        "0,k1,0,0,1,100,100,1048576,256,8192,8192,811097123456,811097240800",
        "1,k2,0,0,1,100,100,1024,256,1.5,0.25,811097340800,811097358144",
    ]
    header = (
        "Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd,wgr,FETCH_SIZE,WRITE_SIZE,"
        "BeginNs,EndNs"
    )
    kernels = made("results.csv", table(header, rows, locale, ",")).kernels
    assert kernels["start_ns"].to_pylist() == [811_097_123_456, 811_097_340_800]
    assert kernels["duration_ns"].to_pylist() == [117_344, 17_344]
    assert kernels["grid_x"].to_pylist() == [4096, 4]
    assert kernels["dram_bytes"].to_pylist() == [16384 * 1024, 1.75 * 1024]


def test_fractions_of_means_are_no_groups(made: Make) -> None:
    """GIVEN means over passes in ns, 811097123456.333 THEN three decimals."""
    rows = ["0,k1,0,0,1,100,100,256,256,811097123456.333,811097124128.667"]
    header = "Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd,wgr,BeginNs,EndNs"
    assert made("r.csv", header + "\n" + rows[0] + "\n").kernels["duration_ns"].to_pylist() == [672]
