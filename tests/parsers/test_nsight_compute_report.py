"""Reports of Nsight Compute: container, launches, values, rules, losses, and NVIDIA's own CSV."""

import gzip
import random
import struct
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.mutate import fuzz_count, mutate, time_limit
from tests.parsers import ncu_fixtures as ncu
from traceroof.core.recording import Recording
from traceroof.errors import TraceroofError
from traceroof.ingest.foreign import looks_like
from traceroof.ingest.messages import messages
from traceroof.parser import Options, silent
from traceroof.parsers.nsight.metrics import fits
from traceroof.parsers.nsight.report_fields import DESCRIBED
from traceroof.parsers.nsight.report_units import unit_of
from traceroof.parsers.nsight_compute import PARSER as CSV
from traceroof.parsers.nsight_compute_report import PARSER

#: What a report is made with: metrics and instances as messages, which the reader takes as bytes.
WRITTEN = {
    **DESCRIBED,
    "Result": DESCRIBED["Result"]
    .replace("metrics *bytes", "metrics *Metric")
    .replace("rules *bytes", "rules *Rule"),
    "Metric": DESCRIBED["Metric"].replace("instances *bytes", "instances *Instance"),
}
_WRITE = messages("tests.ncu_rep", WRITTEN)
Number = int | float | str | None


def sized(message: Any) -> bytes:
    """A message behind its length."""
    data = message if isinstance(message, bytes) else message.SerializeToString()
    return struct.pack("<I", len(data)) + data


class Maker:
    """Writes a report: a block for the session, one per result, the strings in the last header."""

    def __init__(self, version: int = 7) -> None:
        self.version = version
        self.names: list[bytes] = []
        self.blocks: list[tuple[Any, list[Any]]] = []

    def header(self, process: int = 4242, program: bytes = b"/opt/app/program") -> Any:
        header = _WRITE["BlockHeader"]()
        header.process.id, header.process.name = process, program
        return header

    def result(self, metrics: dict[str, Number], name: bytes = b"f(float *)", **fields: Any) -> Any:
        result = _WRITE["Result"](
            thread=4250, demangled=name, function=b"f", mangled=b"_Z1fPf", context=1, stream=7
        )
        result.grid.x, result.grid.y, result.grid.z = 1024, 1, 1
        result.block.x, result.block.y, result.block.z = 256, 1, 1
        for field, value in fields.items():
            setattr(result, field, value)
        for metric, value in metrics.items():
            self.metric(result, metric, value)
        return result

    def metric(self, result: Any, name: str, value: Number) -> Any:
        if name.encode() not in self.names:
            self.names.append(name.encode())
        metric = result.metrics.add(name=self.names.index(name.encode()))
        metric.value.SetInParent()
        put(metric.value, value)
        return metric

    def block(self, *results: Any, header: Any = None, sources: Sequence[bytes] = ()) -> None:
        header = header or self.header()
        header.sources, header.results = len(sources), len(results)
        self.blocks.append((header, [*sources, *results]))

    def written(self) -> bytes:
        last = self.header()
        last.strings.texts.extend(self.names)
        parts = [b"NVR\0", sized(_WRITE["FileHeader"](version=self.version))]
        for header, payload in [*self.blocks, (last, [])]:
            data = b"".join(map(sized, payload))
            header.payload = len(data)
            parts += [sized(header), data]
        return b"".join(parts)


def put(value: Any, number: Number) -> None:
    """Fill a value by the kind of the number."""
    if isinstance(number, str):
        value.text = number.encode()
    elif isinstance(number, float):
        value.real = number
    elif number is not None:
        value.whole = number


def read(folder: Path, data: bytes | Maker, name: str = "run.ncu-rep") -> Recording:
    file = folder / name
    file.write_bytes(data.written() if isinstance(data, Maker) else data)
    return PARSER.read(file, silent, Options())


def severe(recording: Recording) -> list[str]:
    return [note.text for note in recording.notes if note.severe]


_DEVICE: dict[str, Number] = {
    "device__attribute_device_index": 0,
    "device__attribute_display_name": "NVIDIA H100 PCIe",
    "device__attribute_compute_capability_major": 9,
    "device__attribute_compute_capability_minor": 0,
    "device__attribute_multiprocessor_count": 114,
}
_MEASURED: dict[str, Number] = {
    # Three decimals: thousands in no locale.
    "gpu__time_duration.sum": 52_672.125,
    "dram__bytes.sum": 4_194.688,
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": 25.404,
    "smsp__inst_executed.sum": 1_048_576,
    "launch__registers_per_thread": 40,
    "gpc__cycles_elapsed.avg.per_second": 1.5e9,
}


# --- what a report says ------------------------------------------------------------------------


def test_a_launch_with_everything_that_identifies_it(tmp_path: Path) -> None:
    made = Maker()
    made.block(made.result(_DEVICE | _MEASURED), sources=[b"cubin"])
    made.block(made.result(_MEASURED, name=b""), header=made.header(77, rb"C:\app\run.exe"))
    recording = read(tmp_path, made)
    rows = recording.kernels.to_pydict()
    assert rows["kernel_name"] == ["f(float *)", "f"]
    assert rows["process_id"] == [4242, 77]
    assert rows["process_name"] == ["program", "run.exe"]
    assert rows["launch_id"] == [0, 1]
    assert (rows["context"], rows["stream"]) == ([1, 1], [7, 7])
    assert [rows[f"grid_{axis}"][0] for axis in "xyz"] == [1024, 1, 1]
    assert [rows[f"block_{axis}"][0] for axis in "xyz"] == [256, 1, 1]
    assert rows["duration_ns"] == [52_672, 52_672]
    assert rows["dram_bytes"] == [4_194.688, 4_194.688]
    assert rows["registers_per_thread"] == [40, 40]
    assert rows["instructions"] == [1_048_576, 1_048_576]
    device = recording.devices[0]
    assert (device.index, device.name, device.compute_capability) == (0, "NVIDIA H100 PCIe", "9.0")
    assert device.sm_count == 114
    assert not severe(recording)


def test_columns_are_those_of_the_raw_page(tmp_path: Path) -> None:
    made = Maker()
    made.block(made.result(_DEVICE | _MEASURED))
    csv = tmp_path / "raw.csv"
    metrics = [
        ncu.Metric(name, unit_of(name), value if isinstance(value, str) else Decimal(str(value)))
        for name, value in (_DEVICE | _MEASURED).items()
    ]
    csv.write_text(ncu.raw([ncu.Launch(metrics, name="f(float *)")]))
    ours = read(tmp_path, made).kernels.to_pydict()
    theirs = CSV.read(csv, silent, Options()).kernels.to_pydict()
    for column, cells in ours.items():
        wanted = theirs[column]
        if isinstance(cells[0], float):
            # The page prints two decimals.
            assert cells == pytest.approx(wanted, abs=0.005), column
        else:
            assert cells == wanted, column


def test_every_kind_of_value(tmp_path: Path) -> None:
    made = Maker()
    result = made.result(_MEASURED)
    made.metric(result, "a__single.sum", None).value.single = 0.5
    made.metric(result, "a__small.sum", None).value.small = 7
    made.metric(result, "a__text", "PolicySpread")
    made.metric(result, "a__none.sum", None)
    made.metric(result, "a__nan.sum", float("nan"))
    made.metric(result, "a__large.sum", 2**63 + 1)
    listed = made.metric(result, "a__listed.sum", 12)
    for at, value in ((4096, 5), (4112, 7)):
        one = listed.instances.add()
        put(one.at, at)
        put(one.value, value)
    made.block(result)
    recording = read(tmp_path, made)
    raw = {row["metric"]: row for row in recording.raw_metrics.to_pylist()}
    assert raw["a__single.sum"]["value"] == 0.5
    assert raw["a__small.sum"]["value"] == 7
    assert raw["a__text"]["text"] == "PolicySpread"
    assert raw["a__none.sum"]["value"] is None
    assert raw["a__nan.sum"]["value"] is None
    assert raw["a__large.sum"]["value"] == 2.0**63
    assert raw["a__listed.sum"]["value"] == 12
    assert raw["a__listed.sum (instances)"]["text"] == "4096: 5; 4112: 7"
    notes = {note.text: note.count for note in recording.notes}
    assert notes["metrics that were not available (n/a)"] == 1
    assert notes["values that are not finite (nan, inf)"] == 1


def test_a_metric_measured_twice_keeps_the_last(tmp_path: Path) -> None:
    made = Maker()
    result = made.result({"gpu__time_duration.sum": 142_720.0})
    made.metric(result, "gpu__time_duration.sum", 145_056.0)
    made.metric(result, "gpu__time_duration.sum", None)
    made.block(result)
    recording = read(tmp_path, made)
    assert recording.kernels["duration_ns"].to_pylist() == [145_056]
    assert any("measured twice" in note.text for note in recording.notes)


def test_ranges_around_a_launch(tmp_path: Path) -> None:
    made = Maker()
    result = made.result(_MEASURED)
    result.nvtx.domains.add(id=0, name=b"<default domain>")
    result.nvtx.domains.add(id=3, name=b"NCCL")
    thread = result.nvtx.threads.add()
    stack = thread.stacks.add(domain=0)
    for name in (b"step", b"forward"):
        stack.ranges.add(name=name)
    thread.stacks.add(domain=3).ranges.add(name=b"reduce")
    made.block(result)
    path = read(tmp_path, made).kernels["module_path"].to_pylist()
    assert path == ["step > forward > NCCL:reduce"]


def test_rules_become_verdicts(tmp_path: Path) -> None:
    made = Maker()
    result = made.result(_MEASURED)
    rule = result.rules.add(name=b"SOLBottleneck", section=b"SpeedOfLight")
    item = rule.body.items.add()
    item.message.level = 4
    item.message.text = (
        b"Look at the @section:Occupancy:Occupancy@ section and the "
        b"@url:Guide:https://docs.nvidia.com/x.html@, mail a@b.c."
    )
    item.speedup.scope, item.speedup.percent = 1, 19.352
    result.rules.add(name=b"Silent", section=b"SpeedOfLight")
    made.block(result)
    assert read(tmp_path, made).verdicts.to_pylist() == [
        {
            "row": 0,
            "section": "SpeedOfLight",
            "rule": "SOLBottleneck",
            "level": "OPT",
            "text": "Look at the Occupancy section and the Guide, mail a@b.c.",
            "speedup_scope": "local",
            "speedup_pct": 19.35,
        }
    ]


def test_a_damaged_rule_is_noted(tmp_path: Path) -> None:
    """GIVEN a rule that ends inside of its first field THEN it alone is lost."""
    made = Maker()
    result = made.result(_MEASURED)
    result.rules.add(name=b"Sound", section=b"S").body.items.add().message.text = b"A sentence."
    # Field 19, two bytes: a name of 127 bytes.
    made.block(result.SerializeToString() + b"\x9a\x01\x02\x0a\x7f")
    found = read(tmp_path, made)
    assert found.verdicts["text"].to_pylist() == ["A sentence."]
    assert severe(found) == ["results of rules that are damaged left out"]


# --- what is lost ------------------------------------------------------------------------------


def _two() -> Maker:
    made = Maker()
    made.block(header=_with_strings(made))
    for _ in range(2):
        made.block(made.result(_MEASURED))
    return made


def _with_strings(made: Maker) -> Any:
    header = made.header()
    made.names += [name.encode() for name in _MEASURED]
    header.strings.texts.extend(made.names)
    return header


def test_a_report_cut_anywhere_keeps_what_is_whole(tmp_path: Path) -> None:
    made = _two()
    whole = made.written()
    second = made.blocks[2][1][0].SerializeToString()
    inside = whole.rindex(second) + len(second) // 2
    recording = read(tmp_path, whole[:inside])
    assert recording.kernels["duration_ns"].to_pylist() == [52_672]
    assert any("cut off" in text for text in severe(recording))
    for end in range(len(whole)):
        with suppress(TraceroofError):
            found = read(tmp_path, whole[:end])
            assert set(found.kernels["duration_ns"].to_pylist()) == {52_672}


def test_large_sources_are_skipped(tmp_path: Path) -> None:
    made = Maker()
    made.block(made.result(_MEASURED), sources=[b"x" * (3 << 20)])
    whole = made.written()
    for data in (whole, gzip.compress(whole)):
        assert read(tmp_path, data).kernels["duration_ns"].to_pylist() == [52_672]
    with pytest.raises(TraceroofError, match="before its first launch"):
        read(tmp_path, whole[: 2 << 20])


def test_a_damaged_result_costs_itself(tmp_path: Path) -> None:
    made = _two()
    made.blocks[1][1][0] = b"\xff" * 50
    recording = read(tmp_path, made)
    assert recording.kernels["launch_id"].to_pylist() == [1]
    assert [note.count for note in recording.notes if "damaged" in note.text] == [1]


def test_names_and_values_that_cannot_be_read(tmp_path: Path) -> None:
    made = Maker()
    result = made.result(_MEASURED)
    result.metrics.add(name=999).value.whole = 1
    # Field 9 of a value: a kind that a later version may add.
    result.MergeFromString(b"\x6a\x06\x08\x00\x12\x02\x48\x01")
    made.block(result)
    notes = severe(read(tmp_path, made))
    assert any("name is missing" in text for text in notes)
    assert any("unknown kind" in text for text in notes)


def test_a_later_layout_and_ranges_are_said(tmp_path: Path) -> None:
    made = Maker(version=8)
    header = made.header()
    header.ranges = 1
    made.block(made.result(_MEASURED), header=header, sources=[b"x" * 9])
    notes = severe(read(tmp_path, made))
    assert any("layout 8" in text for text in notes)
    assert any("results of ranges" in text for text in notes)


def _only_ranges() -> Maker:
    made = Maker()
    header = made.header()
    header.ranges = 1
    made.block(header=header, sources=[b"x" * 9])
    return made


_REFUSED = {
    "no launch": (Maker().written(), "run.ncu-rep", "no kernel was profiled"),
    "cut": (b"NVR\0\x10\0\0\0", "run.ncu-rep", "before its first launch"),
    "ranges": (_only_ranges().written(), "run.ncu-rep", "of 1 range"),
    "packed": (b"\x01\0\0packed", "run.ncu-repz", "a packed report"),
    "2019": (_two().written(), "run.nsight-cuprof-report", "Nsight Compute 2019"),
}


@pytest.mark.parametrize(("data", "name", "words"), list(_REFUSED.values()), ids=list(_REFUSED))
def test_refusals(tmp_path: Path, data: bytes, name: str, words: str) -> None:
    assert PARSER.recognises(data, Path(name)) == 2
    with pytest.raises(TraceroofError) as caught:
        read(tmp_path, data, name)
    assert words in caught.value.message
    assert name in caught.value.message


@pytest.mark.parametrize("data", [b"", b'"ID","Process ID","Kernel Name"\n', b"SQLite format 3\0"])
def test_other_files_are_not_recognised(data: bytes) -> None:
    assert PARSER.recognises(data, Path("run.ncu-rep")) == 0


def test_commands_that_do_not_take_it_say_what_it_is() -> None:
    assert looks_like(_two().written())[0] == "it looks like a report of Nsight Compute (.ncu-rep)"


def test_damaged_input_gives_launches_or_a_sentence(tmp_path: Path) -> None:
    rng = random.Random(18)
    data = _two().written()
    for _ in range(fuzz_count(200)):
        with time_limit(10), suppress(TraceroofError):
            found = read(tmp_path, mutate(data, rng))
            assert found.kernels.num_rows


# --- units -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "unit"),
    [
        # As ncu 2020.1 to 2026.2 printed them in CSV.
        ("gpu__time_duration.sum", "ns"),
        ("dram__bytes.sum", "byte"),
        ("dram__bytes_read.sum.per_second", "byte/second"),
        ("sm__cycles_elapsed.avg.per_second", "cycle/second"),
        ("dram__sectors_read.sum", "sector"),
        ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "%"),
        ("sm__maximum_warps_per_active_cycle_pct", "%"),
        ("sm__inst_executed.avg.per_cycle_active", "inst/cycle"),
        ("sm__warps_active.avg.per_cycle_active", "warp"),
        ("smsp__average_warp_latency_per_inst_issued.ratio", "cycle"),
        ("smsp__thread_inst_executed_per_inst_executed.ratio", ""),
        ("launch__registers_per_thread", "register/thread"),
        ("launch__shared_mem_per_block_static", "byte/block"),
        ("launch__waves_per_multiprocessor", ""),
        ("launch__occupancy_limit_warps", "block"),
        ("profiler__replayer_bytes_mem_accessible.avg", "byte"),
        ("device__attribute_clock_rate", ""),
    ],
)
def test_units(metric: str, unit: str) -> None:
    assert unit_of(metric) == unit
    assert fits(metric, unit) is not False


# --- real reports ------------------------------------------------------------------------------

# Durations in ns: gpu__time_duration.sum as an independent decoder reads it; of the last report,
# which has none, cycles over their rate, as in NVIDIA's CSV of the same report.
_REAL = {
    "Abhishek7204__raytracingCuda__profile": [11_232_992],
    "AlpriElse__cs599k__2025-04-21_v1": [526_272, 526_592, 526_848],
    "AlpriElse__cs599k__silu-2025-04-18-v7": [145_056, 153_120],
    "AlpriElse__cs599k__silu-2025-04-18-v8": [142_560, 153_184, 152_000],
    "AlpriElse__cs599k__silu-pytorch": [775_680],
    "NVIDIA__nsight-training__CuVectorAddDrv": [3_232],
    "armleth__cuda-mlp-inference__report": [52_576],
    "bwd29__self-join-MiSTIC__profileMSDKT23.out": [
        1_266_778_400, 2_697_579_616, 5_506_745_504, 1_869_270_784,
    ],
    "extra-p__extrap__ex-gpu.s10": [4_064, 4_224, 4_288, 4_512, 4_288, 4_512],
    "josiahls__cuda_learning_mojo__profile": [1_600, 1_472, 1_568, 1_504],
    "wdmapp__gene-paper-artifacts-pop2020__dram_dgdxy_time-0": [
        923_904, 1_057_184, 922_624, 1_057_600, 922_848, 1_057_408, 924_704, 1_057_728,
    ],
}  # fmt: skip


@pytest.mark.corpus
@pytest.mark.parametrize("name", list(_REAL))
def test_real_reports(corpus: Path, name: str) -> None:
    recording = PARSER.read(corpus / "ncu_rep" / f"{name}.ncu-rep", silent, Options())
    rows = recording.kernels.to_pydict()
    assert rows["duration_ns"] == _REAL[name]
    assert rows["launch_id"] == list(range(len(_REAL[name])))
    assert all(rows["process_name"])
    assert not severe(recording)
    assert all(device.name and device.compute_capability for device in recording.devices)


@pytest.mark.corpus
def test_columns_of_nvidias_own_csv(corpus: Path) -> None:
    """The CSV was exported by ncu from the same report, with two decimals and no launch facts."""
    name = "wdmapp__gene-paper-artifacts-pop2020__dram_dgdxy_time-0"
    ours = PARSER.read(corpus / "ncu_rep" / f"{name}.ncu-rep", silent, Options()).kernels
    theirs = CSV.read(corpus / "ncu_csv" / f"{name}.csv", silent, Options()).kernels
    compared = []
    for column in theirs.column_names:
        wanted, found = theirs[column].to_pylist(), ours[column].to_pylist()
        if all(cell is None for cell in wanted):
            continue
        compared.append(column)
        if isinstance(wanted[0], float):
            assert found == pytest.approx(wanted, abs=0.0051), column
        else:
            assert found == wanted, column
    assert {"kernel_name", "process_id", "launch_id", "duration_ns", "dram_bytes"} <= set(compared)
