"""What traceroof says against what others measured or computed: ``docs/accuracy.md``.

    python -m benchmarks.accuracy ../shared/corpus > docs/accuracy.md

Our class against NVIDIA's verdict, times against two independent timelines, device-memory figures
of AMD's counters against golden values, FLOPs and bytes against figures computed independently, and
how many findings hang on where exactly a threshold lies (``thresholds``). Golden values and the
explanation of every difference are data (``accuracy.toml``): a difference that nobody explained, an
explanation of something that does not differ, or a finding that hangs on a threshold and does not
say so makes the command fail (exit 1).
"""

import ast
import csv
import math
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import traceroof
from benchmarks import expert_labels, kernel_labels, thresholds
from benchmarks import places as of_places
from tests import closed_forms as more_forms
from tests.oracles import COSTS, FLOORS, KV_CACHES, RIDGES, WAVES
from traceroof.core.kernel_names import short_names
from traceroof.core.recording import Recording
from traceroof.core.units import digits, quantity
from traceroof.diagnosis.diagnose import diagnose
from traceroof.diagnosis.diagnosis import KernelGroup
from traceroof.diagnosis.vendor_verdicts import VendorVerdict
from traceroof.operators import closed_forms, work
from traceroof.report.common.markdown import code, text

DATA = tomllib.loads(Path(__file__).with_name("accuracy.toml").read_text("utf-8"))


@dataclass(frozen=True)
class Difference:
    """A figure of a case that is not the other's."""

    table: str
    case: str
    figure: str
    ours: str
    theirs: str

    @property
    def explained_by(self) -> int | None:
        """The place of its explanation; None where nobody gave one."""
        for number, entry in enumerate(DATA["explained"]):
            if self.table == entry["table"] and all(
                fnmatchcase(value, entry.get(name, "*"))
                for name, value in (("case", self.case), ("figure", self.figure))
            ):
                return number
        return None

    @property
    def why(self) -> str:
        """Its explanation."""
        by = self.explained_by
        return "NOT EXPLAINED" if by is None else str(DATA["explained"][by]["why"])


@dataclass
class Section:
    """One comparison: its text, what differed in it, and what is wrong beyond differences."""

    title: str
    lines: list[str]
    compared: int = 0
    differences: list[Difference] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def compare(
        self, table: str, case: str, figure: str, equal: bool, ours: str, theirs: str
    ) -> None:
        """Count one figure; keep it where it differs."""
        self.compared += 1
        if not equal:
            self.differences.append(Difference(table, case, figure, ours, theirs))

    def page(self) -> list[str]:
        """The section in Markdown, its differences last."""
        lines = [f"## {self.title}", "", *self.lines]
        if self.compared:
            same = self.compared - len(self.differences)
            lines += ["", f"{same:,} of {self.compared:,} figures are equal."]
        if self.differences:
            lines += ["", "| case | figure | ours | theirs | why |", "|---|---|--:|--:|---|"]
            lines += [
                f"| {text(one.case)} | {text(one.figure)} | {one.ours} | {one.theirs} "
                f"| {text(one.why)} |"
                for one in self.differences
            ]
        return [*lines, ""]


# ------------------------------------------------------------------------------------------------
# The class against NVIDIA's verdict


@dataclass(frozen=True)
class Verdict:
    """The launches of one kernel group on which the vendor said one thing."""

    file: str
    kernel: KernelGroup
    verdict: VendorVerdict


def verdicts(folder: Path) -> Iterator[Verdict]:
    """Every SpeedOfLight verdict of the Nsight Compute files below a folder."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.parent.name not in ("ncu_csv", "pair"):
            continue
        one = thresholds.asked(path)
        for kernel in one.found.kernels if one else ():
            for verdict in kernel.vendor:
                if verdict.classes:
                    yield Verdict(f"{path.parent.name}/{path.name}", kernel, verdict)


def classes(folder: Path) -> Section:
    """Our class against NVIDIA's SpeedOfLight verdict, launch by launch."""
    found = list(verdicts(folder))
    section = Section(
        "The class of a kernel against Nsight Compute's own verdict",
        [
            "Nsight Compute's SpeedOfLight rule says of a launch that compute, memory, both or",
            "neither is busy. We say more (which level of memory, whether the launch is too short",
            "to judge), so a class agrees when it lies within what the vendor's sentence allows",
            "(`traceroof/diagnosis/vendor_verdicts.py` has the table). Counted are launches.",
            "",
            "| file | kernel | launches | ours | the vendor says |",
            "|---|---|--:|---|---|",
        ],
    )
    names = short_names([one.kernel.kernel for one in found], 40)
    for one in found:
        said = " ".join(one.verdict.text.split())[:90]
        ours = one.kernel.primary_class
        section.lines.append(
            f"| {text(one.file)} | {code(names[one.kernel.kernel])} | {one.verdict.launches} "
            f"| {ours} | {text(said)} … |"
        )
        agrees = ours in one.verdict.classes
        case = f"{one.file} {names[one.kernel.kernel]}"
        for _ in range(one.verdict.launches):
            section.compare("class", case, "class", agrees, ours, text(said))
    return section


# ------------------------------------------------------------------------------------------------
# Times against two other timelines

# A timeline's figure, the oracle's column (µs), TraceLens's row (ms).
_TIMES: tuple[tuple[str, str | None, str | None], ...] = (
    ("span_ns", "span_us", "total_time"),
    ("busy_ns", "busy_union_us", "busy_time"),
    ("idle_ns", "idle_us", "idle_time"),
    ("compute_ns", "compute_union_us", "computation_time"),
    ("communication_ns", "comm_union_us", "total_comm_time"),
    ("exposed_communication_ns", "exposed_comm_us", "exposed_comm_time"),
    ("memcpy_ns", "memcpy_union_us", "total_memcpy_time"),
    ("exposed_memcpy_ns", None, "exposed_memcpy_time"),
)


def _same_time(ours_ns: float, theirs_ns: float) -> bool:
    """Within 1 µs or 0.01 %."""
    return abs(ours_ns - theirs_ns) <= max(1_000.0, 1e-4 * theirs_ns)


def timelines(folder: Path) -> Section:
    """Every GPU of every trace that the timeline oracle has."""
    with (folder / "torch_timeline_facts.tsv").open() as lines:
        rows = list(csv.DictReader(lines, delimiter="\t"))
    section = Section(
        "Times against an independent timeline",
        [
            "Every GPU of every trace for which the reference has an exact decimal recomputation",
            "(`torch_timeline_facts.tsv`). Equal means within 1 µs or 0.01 %. Communication there",
            "goes by the names of NCCL and RCCL.",
            "",
            "| trace | GPU | span | busy | idle | compute | communication | exposed | copies |",
            "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
        ],
    )
    for source in dict.fromkeys(row["source"] for row in rows):
        expected = [row for row in rows if row["source"] == source]
        asked = thresholds.asked(folder / "torch" / source)
        found = {one.device: one for one in asked.found.timelines} if asked else {}
        for row in expected:
            device = None if row["device"] == "None" else int(row["device"])
            one = found.get(device) or (found.popitem()[1] if len(found) == 1 else None)
            if one is None:
                section.compare("timeline", source, f"GPU {device}", False, "none", "one")
                continue
            ours = {name: getattr(one, name) for name, theirs, _ in _TIMES if theirs}
            shown = " | ".join(quantity(value, "ns") for value in ours.values())
            section.lines.append(f"| {text(source)} | {row['device']} | {shown} |")
            case = f"{source} GPU {row['device']}"
            same = one.facts["activities"] == int(row["events"])
            counts = (digits(one.facts["activities"] or 0), row["events"])
            section.compare("timeline", case, "activities", same, *counts)
            for name, theirs, _ in _TIMES:
                if theirs:
                    _time(section, "timeline", case, name, ours[name], float(row[theirs]) * 1e3)
    return section


def _time(section: Section, table: str, case: str, name: str, ours: float, theirs: float) -> None:
    figure = name.removesuffix("_ns").replace("_", " ").replace("memcpy", "copies")
    shown = (quantity(one, "ns") if one else "0" for one in (ours, theirs))
    section.compare(table, case, figure, _same_time(ours, theirs), *shown)


# TraceLens's published tables -> the trace that they are of.
_PUBLISHED = {
    "mi300_Qwen_Qwe": "tracelens_mi300_Qwen1.5-0.5B.json.gz",
    "mi300_resnet_act_checkpoint_recompute": "tracelens_mi300_resnet_act_checkpoint.json.gz",
    "perf_model_normalization_normalization_layer_test": (
        "tracelens_mi300_normalization_layer_test.json.gz"
    ),
    "torch_compile_triton_trace": "tracelens_mi300_torch_compile_triton.json.gz",
}


def tracelens(folder: Path) -> Section:
    """TraceLens's published times: against all activities, and against those that it counts."""
    section = Section(
        "Times against TraceLens",
        [
            "Its published tables for four traces. It leaves out activities whose launch call is",
            "not in the file, and fills; so each figure is compared twice: as `traceroof diagnose`",
            "gives it, and (*same activities*) on what TraceLens counts. The time of each kernel",
            "name is compared as well. Equal means within 1 µs or 0.01 %.",
            "",
            "| trace | figure | ours | same activities | TraceLens |",
            "|---|---|--:|--:|--:|",
        ],
    )
    for published, trace in _PUBLISHED.items():
        reference = folder / "torch_tracelens_refs" / published
        theirs = _tracelens_times(reference / "gpu_timeline.csv")
        run = traceroof.read(folder / "torch" / trace)
        table = run.recording.kernels
        frame = table.select(["kind", "host_launch_ns"]).to_pandas()
        linked = frame["host_launch_ns"].notna()
        everything = diagnose(run).timelines[0]
        whole = _only(run.recording, linked)
        counted = _only(run.recording, linked & (frame["kind"] != "memset"))
        same = diagnose(counted).timelines[0]
        for name, _, row in _TIMES:
            if row is None or row not in theirs:
                continue
            # The window reaches over fills; idle is what is left of it.
            span = diagnose(whole).timelines[0].span_ns
            of_same = {"span_ns": span, "idle_ns": span - same.busy_ns}
            alike = of_same.get(name, getattr(same, name))
            value = theirs[row] * 1e6
            shown = [quantity(one, "ns") if one else "0"
                     for one in (getattr(everything, name), alike, value)]  # fmt: skip
            section.lines.append(
                f"| {text(trace)} | {row.replace('_', ' ')} | {' | '.join(shown)} |"
            )
            _time(section, "tracelens", trace, name, getattr(everything, name), value)
            _time(section, "tracelens same", trace, name, alike, value)
        _kernel_times(section, trace, run.recording, reference / "kernel_summary.csv")
    return section


def _tracelens_times(path: Path) -> Mapping[str, float]:
    """Its figures in ms. Where it sets recomputation apart, only what adds up is kept."""
    with path.open() as lines:
        rows = list(csv.DictReader(lines))
    if "is_recompute" not in rows[0]:
        return {row["type"]: float(row["time ms"]) for row in rows}
    halves = [
        {row["type"]: float(row["time ms"]) for row in rows if row["is_recompute"] == half}
        for half in ("False", "True")
    ]
    kept = {
        name: halves[0][name] for name in ("total_time", "total_comm_time", "total_memcpy_time")
    }
    return {**kept, "computation_time": sum(one["computation_time"] for one in halves)}


def _only(recording: Recording, mask: Any) -> Recording:
    """A recording of some of the activities."""
    import pyarrow as pa

    return Recording(
        format=recording.format, time_basis=recording.time_basis, sources=recording.sources,
        devices=recording.devices, kernels=recording.kernels.filter(pa.array(mask.to_numpy(bool))),
    )  # fmt: skip


def _kernel_times(section: Section, trace: str, recording: Recording, path: Path) -> None:
    if not path.exists():
        return
    csv.field_size_limit(1 << 24)
    with path.open() as lines:
        rows = list(csv.DictReader(lines))
    theirs: dict[str, float] = {}
    for row in rows:
        name = row["Kernel name"]
        theirs[name] = theirs.get(name, 0.0) + float(row["Kernel duration (µs)_sum"]) * 1e3
    frame = recording.kernels.select(["kind", "kernel_name", "duration_ns"]).to_pandas()
    frame = frame[frame["kind"] != "memset"]
    ours = frame.groupby("kernel_name")["duration_ns"].sum().to_dict()
    for name in sorted(theirs.keys() | ours.keys()):
        case = f"{trace} {name[:60]}"
        _time(section, "tracelens", case, "time_ns", ours.get(name, 0), theirs.get(name, 0.0))


# ------------------------------------------------------------------------------------------------
# Device memory of AMD's counters against golden values


def device_memory(folder: Path) -> Section:
    """HBM bytes, rates and hit rates of AMD's counters against values computed apart."""
    section = Section(
        "Device memory of AMD's counters against golden values",
        [
            "Bytes, times and rates that the reference computed from the same files by the",
            "published formulas, beside the kernel table and the diagnosis. Equal means to the",
            "last digit that the reference prints.",
            "",
            "| file | kernel | figure | ours | golden |",
            "|---|---|---|--:|--:|",
        ],
    )
    runs: dict[str, Any] = {}
    for entry in DATA["memory"]:
        file, kernel = entry["file"], entry.get("kernel", "")
        if file not in runs:
            run = traceroof.read(folder / "amd" / file)
            runs[file] = run.kernels, diagnose(run)
        rows, diagnosis = runs[file]
        rows = rows[
            (rows["kind"] == "kernel") & rows["kernel_name"].str.contains(kernel, regex=False)
        ]
        for figure, golden in entry["golden"].items():
            how, _, column = figure.partition(" ")
            if how == "group":
                group = next(one for one in diagnosis.kernels if kernel in one.kernel)
                found = group.metrics.get(column)
            else:
                values = rows[column].astype(float)
                found = _OF_ROWS[how](values) if how in _OF_ROWS else values.iloc[int(how) - 1]
            decimals = len(str(golden).partition(".")[2]) if isinstance(golden, float) else 0
            ours = "unknown" if found is None or math.isnan(found) else f"{found:,.{decimals}f}"
            theirs = golden if isinstance(golden, str) else f"{golden:,.{decimals}f}"
            label = f"{column}, {how}" if how in ("sum", "mean") else f"{column}, launch {how}"
            label = column if how == "group" else label
            section.lines.append(
                f"| {text(file)} | {text(kernel)} | {text(label)} | {ours} | {theirs} |"
            )
            section.compare(
                "memory", file, f"{kernel} {label}".strip(), ours == theirs, ours, theirs
            )
    return section


_OF_ROWS = {"sum": lambda values: values.sum(), "mean": lambda values: values.mean()}


# ------------------------------------------------------------------------------------------------
# FLOPs and bytes against figures computed apart

_NUMBER = r"([-+\d.e]+)"
_COST = re.compile(rf"^(.*?)\s+FLOP={_NUMBER} bytes={_NUMBER} AI={_NUMBER}")


def flops(folder: Path) -> Section:
    """Every case of the reference's list of roofline figures."""
    section = Section(
        "FLOPs, bytes and intensity against independent arithmetic",
        [
            "The reference's list of roofline figures (`roofline_oracles.txt`), computed by",
            "another program. Equal means to the last digit printed there.",
            "",
            "| case | FLOP | bytes | FLOP/byte |",
            "|---|--:|--:|--:|",
        ],
    )
    listed = (folder.parent / "reference" / "roofline_oracles.txt").read_text().splitlines()
    others: list[str] = []
    for line in listed:
        cost = _COST.match(line)
        if cost:
            name, *theirs = cost.groups()
            ours = COSTS[name][0]
            figures = (f"{ours.flops:.6e}", f"{ours.bytes:.6e}", f"{ours.intensity:.6f}")
            section.lines.append(f"| {text(name)} | {' | '.join(figures)} |")
            for label, value, reference in zip(
                ("FLOP", "bytes", "FLOP/byte"), figures, theirs, strict=True
            ):
                section.compare("flops", name, label, value == reference, value, reference)
        else:
            others.append(line.strip())
    section.lines += ["", "| derived figure | ours |", "|---|---|"]
    for line in others:
        _derived(section, line)
    return section


def _derived(section: Section, line: str) -> None:
    """Ridges, caches, floors, waves and sums: one line of the reference, figure by figure."""
    for prefix, make in _DERIVED:
        if line.startswith(prefix):
            name, ours, theirs = make(line)
            section.lines.append(f"| {text(name)} | {text(' '.join(ours))} |")
            for number, (value, reference) in enumerate(zip(ours, theirs, strict=True), 1):
                figure = f"figure {number}"
                section.compare("flops", name, figure, value == reference, value, reference)
            return
    section.compare("flops", line, "line", False, "no model", "a figure")


_Derived = tuple[str, Sequence[str], Sequence[str]]


def _ridge(line: str) -> _Derived:
    body = line.removeprefix("m* bf16 N=K=4096 ")
    name = body.partition(" ridge=")[0]
    ridge = RIDGES[name][0]
    rows = [
        more_forms.rows_at_ridge(ridge, size, size, activation_size=2, weight_size=2) or 0
        for size in (4096, 8192)
    ]
    return (
        name,
        [f"{one:.1f}" for one in (ridge, *rows)],
        re.findall(r"(?:ridge|m\*)=([\d.]+)", body),
    )


def _cache(line: str) -> _Derived:
    body = line.removeprefix("kv/token ")
    name = re.split(r" \d+ B;", body)[0]
    layers, heads = KV_CACHES[name][:2]
    sizes = [more_forms.kv_cache_bytes(layers, heads, 128, tokens, 2) for tokens in (1, 2048, 4096)]
    ours = [f"{sizes[0]:.0f}", f"{sizes[1]:.0f}", *(f"{one / 2**30:.4f}" for one in sizes[1:])]
    theirs = re.findall(r"(\d+) B;.*?= *(\d+) *=([\d.]+) GiB.*?= ([\d.]+) GiB", body)[0]
    return name, ours, theirs


# As the reference states them per device, byte/s.
_BANDWIDTHS = (2.039e12, 3.35e12, 4.8e12, 0.864e12, 1.008e12)


def _floor(line: str) -> _Derived:
    name = line.removeprefix("TPOT floor ").partition(":")[0]
    parameters, size, _ = FLOORS[name]
    times = [more_forms.time_per_token_floor(parameters, size, one) for one in _BANDWIDTHS]
    return (
        f"TPOT floor {name}",
        [f"{one * 1e3:.3f}" for one in times],
        re.findall(r"([\d.]+)ms", line),
    )


def _waves(line: str) -> _Derived:
    m, n, tile_m, tile_n, sms = (int(one) for one in re.findall(r"\d+", line.partition(")")[0]))
    assert (m, n, tile_m, tile_n, sms) in WAVES
    found = more_forms.waves(m, n, tile_m, tile_n, sms)
    ours = [str(found.tiles), f"{found.waves:.4f}", str(found.rounds), f"{found.efficiency:.4f}",
            f"{found.tile_efficiency:.4f}"]  # fmt: skip
    return line.partition(" tiles")[0], ours, re.findall(r"[\d.]+", line.partition(") tiles")[2])


def _adam(line: str) -> _Derived:
    step = more_forms.optimizer_step(7_000_000_000, "adam 16-bit model, fp32 states").bytes
    device = line.removeprefix("AdamW 7B min time ").partition(" SXM")[0].partition(" ")[0]
    rate = {"A100-80": 2.039e12, "H100": 3.35e12, "H200": 4.8e12}[device]
    ours = [f"{step / rate * 1e3:.2f}", f"{step / rate / 0.85 * 1e3:.2f}"]
    found = re.search(r"([\d.]+) ms at 0.85: ([\d.]+) ms", line)
    assert found
    return f"AdamW 7B on {device}, ms", ours, found.groups()


def _optimizers(line: str) -> _Derived:
    rules = closed_forms.OPTIMIZERS
    if line.startswith("AdamW mixed"):
        rule = rules["adam 16-bit model, fp32 states"]
        moved = more_forms.optimizer_step(7_000_000_000, "adam 16-bit model, fp32 states").bytes
        ours = [f"{rule.read:.0f}", f"{rule.written:.0f}", f"{rule.bytes:.0f}", f"{moved:.0f}"]
        theirs = re.findall(r"=(\d+)[, ].*?=(\d+) -> (\d+) B/param; 7e9 -> (\d+)", line)[0]
        return "AdamW mixed, bytes", ours, theirs
    full, plain, momentum, half = (
        rules[name] for name in ("adam fp32", "sgd fp32", "sgd momentum fp32", "adam 16-bit")
    )
    ours = [f"{one:.0f}" for one in (full.read, full.written, full.bytes, plain.bytes,
                                     momentum.bytes, half.read, half.written, half.bytes)]  # fmt: skip
    pattern = (r"read (\d+) write (\d+) -> (\d+); SGD fp32 (\d+); SGD-mom fp32 (\d+);.*: "
               r"(\d+)r\+(\d+)w=(\d+)")  # fmt: skip
    return "Adam fp32, SGD, Adam 16 bit: bytes", ours, re.findall(pattern, line)[0]


def _rate(line: str) -> _Derived:
    found = re.search(r"at (\d+) tok/s => ([\d.]+) GB/s = ([\d.]+)%", line)
    assert found
    per_second = 6.738e9 * 2 * int(found[1])
    ours = [f"{per_second / 1e9:.1f}", f"{per_second / 2.039e12 * 100:.1f}"]
    return f"7B in 16 bit at {found[1]} tokens/s, GB/s and % of 2039", ours, found.groups()[1:]


def _numbers(line: str) -> _Derived:
    """Plain sums on the costs of above."""
    linear = closed_forms.gemm(65536, 4096, 4096, a_size=2, b_size=2, out_size=2)
    tensor = 32 * 2048 * 4096
    passes = 10 * closed_forms.streaming(tensor, flops=0, reads=[2], writes=[2]).bytes
    if line.startswith("seed check"):
        ours = [f"{linear.flops:.3e}", f"{linear.flops / 300e12 * 1e3:.2f}",
                f"{linear.flops / 312e12 * 1e3:.2f}", f"{linear.bytes / 1e9:.3f}",
                f"{linear.bytes / 2e12 * 1e3:.3f}"]  # fmt: skip
        pattern = (
            r"([\d.e+]+) FLOP -> ([\d.]+) ms .*?, ([\d.]+) ms .*?bytes ([\d.]+) GB -> ([\d.]+)"
        )
        return "linear on [65536, 4096]", ours, re.findall(pattern, line)[0]
    if line.startswith("10 small ops"):
        ours = [f"{one:.9g}" for one in (passes / 1e9, passes / 2e12 * 1e3, passes / 1.7e12 * 1e3)]
        found = re.findall(r"= ([\d.]+) GB -> ([\d.]+) ms at 2TB/s; ([\d.]+) at", line)[0]
        return "ten passes over 512 MiB", ours, [f"{float(one):.9g}" for one in found]
    if line.startswith("tensor"):
        ours = [str(tensor), str(tensor * 2), f"{tensor * 2 / 2**20:.1f}"]
        return (
            "tensor [32, 2048, 4096]",
            ours,
            re.findall(r"elems (\d+).*bytes (\d+) = ([\d.]+)", line)[0],
        )
    if line.startswith("tile"):
        ours = [f"{more_forms.tile_intensity(128, 128, size):.1f}" for size in (2, 4)]
        return "tile 128x128, FLOP/byte", ours, re.findall(r"= *([\d.]+)", line)
    ranks, theirs = re.findall(r"factor (\d+) ([\d.]+)", line)[0]
    return (
        f"ring all-reduce of {ranks}",
        [str(more_forms.wire_factor("allreduce", int(ranks)))],
        [theirs],
    )


_DERIVED = (
    ("m* bf16", _ridge), ("kv/token", _cache), ("TPOT floor", _floor), ("waves", _waves),
    ("AdamW 7B", _adam), ("AdamW", _optimizers), ("7B fp16 at", _rate), ("seed check", _numbers),
    ("10 small ops", _numbers), ("tensor", _numbers), ("tile", _numbers),
    ("ring allreduce", _numbers),
)  # fmt: skip


def operator_calls(folder: Path) -> Section:
    """FLOPs and bytes of recorded operator calls against TraceLens's published figures."""
    section = Section(
        "FLOPs and bytes of recorded operator calls against TraceLens",
        [
            "The same calls, from the shapes and types that PyTorch recorded. Sizes are whole",
            "numbers of FLOP and bytes; TraceLens publishes GFLOP and MiB.",
            "",
            "| operator | inputs | FLOP | TraceLens | bytes | TraceLens |",
            "|---|---|--:|--:|--:|--:|",
        ],
    )
    csv.field_size_limit(1 << 24)
    seen = set()
    for path in sorted((folder / "torch_tracelens_refs").glob("*/*.csv")):
        with path.open() as lines:
            rows = list(csv.DictReader(lines))
        for row in rows if rows and "GFLOPS_first" in rows[0] else []:
            inputs = [
                row[f"{name}_first"] for name in ("Input Dims", "Input type", "Concrete Inputs")
            ]
            key = (row["name"], *inputs)
            if key in seen:
                continue
            seen.add(key)
            dims, dtypes, concrete = (ast.literal_eval(one) for one in inputs)
            ours = work(row["name"], dims, dtypes, training=_trains(row), concrete=concrete)
            theirs = float(row["GFLOPS_first"]) * 1e9, float(row["Data Moved (MB)_first"]) * 2**20
            found = (None, None) if ours is None else (ours.flops, ours.bytes_min)
            case = f"{row['name']} {_shapes(dims)}"
            cells = []
            for figure, value, reference in zip(("FLOP", "bytes"), found, theirs, strict=True):
                shown = "no model" if value is None else f"{value:,.0f}"
                cells += [shown, f"{reference:,.0f}"]
                same = value is not None and abs(value - reference) < 0.5
                section.compare("calls", case, figure, same, shown, f"{reference:,.0f}")
            section.lines.append(f"| {text(row['name'])} | {_shapes(dims)} | {' | '.join(cells)} |")
    return section


def _trains(row: Mapping[str, str]) -> bool:
    return row.get("param: is_training") == "True"


def _shapes(dims: Iterable[Any]) -> str:
    return " ".join("x".join(str(size) for size in one) for one in dims if one)


# ------------------------------------------------------------------------------------------------
# The first entry of the advice against experts


def experts(folder: Path) -> Section:
    """The first entry of the advice against what experts put first."""
    section = Section(
        "The first entry of the advice against experts",
        [
            "Experts read these profiles without our output and said which topic belongs first,",
            "which others they accept there, and what it saves at most. *In the top three*: another",
            "entry comes first here. Bounds are compared where both put the same topic first and",
            "the expert's rests on the file; they agree within 0.7 and 1.5 times. What must not be",
            "said of a profile (`benchmarks/must_not.toml`) is held against the topics of the first",
            "three entries and against everything that is printed.",
            "",
            "| profile | expert | ours | outcome | bound, expert | bound, ours |",
            "|---|---|---|---|--:|--:|",
        ],
    )
    counts: dict[str, int] = {}
    bounds: list[bool] = []
    forbidden: list[bool] = []
    for one in expert_labels.outcomes(folder):
        counts[one.verdict] = counts.get(one.verdict, 0) + 1
        ours = "refused" if one.refused else ", ".join(one.topics[:3])
        shown = ["", ""]
        if one.ratio is not None and one.label.bound_ms is not None:
            low, high = expert_labels.WITHIN
            bounds.append(low <= one.ratio <= high)
            shown = [f"{one.label.bound_ms:g} ms", f"{one.bound_ms or 0:.3g} ms"]
            section.compare("experts", one.label.file, "bound", bounds[-1], shown[1], shown[0])
        section.lines.append(
            f"| {text(one.label.file)} | {one.label.topic} | {ours} | {one.verdict} "
            f"| {shown[0]} | {shown[1]} |"
        )
        agrees = one.verdict in ("right", "accepted")
        section.compare("experts", one.label.file, "first entry", agrees, ours, one.label.topic)
        for what, said in one.forbidden.items():
            forbidden.append(said)
            section.compare("experts", one.label.file, what, not said, "said", "must not be said")
    order = ("right", "accepted", "in the top three", "contradicted")
    section.lines += ["", "| outcome | profiles |", "|---|--:|"]
    section.lines += [f"| {name} | {counts.get(name, 0)} |" for name in order]
    section.lines.append(f"| bound within the label's | {sum(bounds)} of {len(bounds)} |")
    held = len(forbidden) - sum(forbidden)
    section.lines.append(f"| what must not be said and is not | {held} of {len(forbidden)} |")
    return section


# ------------------------------------------------------------------------------------------------
# Counter profiles against what fixes gained, and against experts


def known_faults(folder: Path) -> Section:
    """What we say of kernels before a fix, against what the fix gained."""
    section = Section(
        "Known faults: the defect named, the bound against the gain",
        [
            "Programs before and after a fix, with the time of both. *Place* is that of the defect's",
            "topic among the topics of the kernel's findings; first or second is asked where the fix",
            f"gained over {kernel_labels.WORTH_PCT:g} %. A bound must be at least the gain, and at most",
            f"{kernel_labels.GENEROUS:g} times the honest bound (the honest bound itself where the fix",
            f"gained under {kernel_labels.NOTHING_PCT:g} %).",
            "",
            "| kernel | defect | topic | place | gain | bound, ours | bound, honest |",
            "|---|---|---|--:|--:|--:|--:|",
        ],
    )
    counts: dict[str, list[bool]] = {}
    for one in kernel_labels.faults(folder, DATA["fault"]):
        ours, honest = (
            "none" if bound is None else f"{bound:.1f} %"
            for bound in (one.bound_pct, one.honest_pct)
        )
        section.lines.append(
            f"| {text(one.program)} | {text(one.defect)} | {one.topic} | {one.place or 'none'} "
            f"| {one.gain_pct:.1f} % | {ours} | {honest} |"
        )
        case = f"{one.number} {one.program}"
        for figure, right, mine, theirs in (
            ("defect named", one.named, ", ".join(one.topics[:2]) or "none", one.topic),
            ("bound at least the gain", one.holds, ours, f"{one.gain_pct:.1f} %"),
            ("bound honest", one.honest, ours, honest),
        ):
            if right is not None:
                counts.setdefault(figure, []).append(right)
                section.compare("faults", case, figure, right, mine, theirs)
    section.lines += ["", "| | |", "|---|--:|"]
    section.lines += [f"| {name} | {sum(ones)} of {len(ones)} |" for name, ones in counts.items()]
    return section


def counter_labels(folder: Path) -> Section:
    """The class and the first finding of kernels against experts."""
    section = Section(
        "Kernels with counters against experts",
        [
            "An expert said of each kernel which class is right, which others are accepted, what the",
            "first finding should be about, and what must not be said of it",
            "(`benchmarks/must_not_counters.toml`).",
            "",
            "| file | kernel | class, expert | ours | topic, expert | ours |",
            "|---|---|---|---|---|---|",
        ],
    )
    right: dict[str, list[bool]] = {}
    for one in kernel_labels.labels(folder):
        section.lines.append(
            f"| {text(one.file)} | {code(one.kernel[:40])} | {one.classes[0]} | {one.our_class} "
            f"| {one.topics[0]} | {one.our_topic} |"
        )
        case = f"{one.file} {one.kernel[:60]}"
        for figure, ours, theirs in (
            ("class", one.our_class, one.classes),
            ("topic", one.our_topic, one.topics),
        ):
            agrees = ours in theirs
            section.compare("labels", case, figure, agrees, ours, ", ".join(theirs))
            right.setdefault(f"{figure}, all", []).append(agrees)
            if one.confidence == "high":
                right.setdefault(f"{figure}, experts sure", []).append(agrees)
        for forbidden, said in one.forbidden.items():
            section.compare("labels", case, forbidden, not said, "said", "must not be said")
            right.setdefault("what must not be said and is not", []).append(not said)
    section.lines += ["", "| right or accepted | |", "|---|--:|"]
    section.lines += [f"| {name} | {sum(ones)} of {len(ones)} |" for name, ones in right.items()]
    return section


# ------------------------------------------------------------------------------------------------


def sensitivity(folder: Path) -> Section:
    """How many of the first findings a threshold that moves by a tenth takes away."""
    found = list(thresholds.profiles(folder))
    top = sum(len(one.top) for one in found)
    lost = [(profile, one) for profile in found for one in profile.lost]
    marked = sum(one.near_threshold is not None for profile in found for one in profile.top)
    section = Section(
        "How much hangs on where thresholds lie",
        [
            "Each number in the conditions of the rules, and each threshold of the classes, is",
            f"moved by a tenth, up and down, one at a time, over {len(found)} profiles. Their first",
            f"{thresholds.TOP} findings are {top:,} in all. Not moved are whole numbers up to 4 (counts,",
            "flags and factors) and literals that convert units (100, 1,000, 10^6, 10^9).",
            "",
            "| | |",
            "|---|--:|",
            (
                f"| profiles whose first {thresholds.TOP} lose a finding | "
                f"{sum(bool(one.lost) for one in found)} of {len(found)} |"
            ),
            f"| findings that go when a threshold moves | {len(lost)} of {top:,} |",
            (
                "| of these, marked as near the threshold | "
                f"{sum(one.near_threshold is not None for _, one in lost)} |"
            ),
            f"| marked in all: also those that hang on a figure, not on a number | {marked} |",
            (
                f"| profiles whose first {thresholds.TOP} gain an alarm when all thresholds move | "
                f"{sum(bool(one.entered) for one in found)} |"
            ),
            "",
            "What goes, and what it says of itself:",
            "",
            "| profile | finding | severity | |",
            "|---|---|---|---|",
            *(
                f"| {text(profile.name)} | {one.rule} | {one.severity} "
                f"| {text(one.near_threshold.says if one.near_threshold else 'nothing')} |"
                for profile, one in lost
            ),
        ],
    )
    section.wrong += [
        f"{profile.name}: {one.rule} goes when a threshold moves, and does not say so"
        for profile in found
        for one in profile.unmarked
    ]
    return section


def places(folder: Path) -> Section:
    """How much of the time of each torch trace has a module, a range, an operator, a line."""
    return Section(
        "Where in the program: how much of the time is placed",
        [
            "Shares of kernel time. Modules and lines of Python are known where they were recorded",
            "(`with_stack`), ranges where the program annotates. Of kernels in",
            "replayed graphs a trace tells the replay, not the operator. Launches without a recorded",
            "call, most from before the recording, are placed by recorded launches of the same",
            "kernels in the same order.",
            "",
            *of_places.table(list(of_places.coverage(folder))),
        ],
    )


COMPARISONS = (
    experts, known_faults, counter_labels, classes, timelines, tracelens, device_memory, flops,
    operator_calls, places, sensitivity,
)  # fmt: skip


def page(folder: Path) -> tuple[str, list[str]]:
    """The whole page, and what is wrong with it: unexplained differences, idle explanations."""
    sections = [compare(folder) for compare in COMPARISONS]
    lines = [
        "<!-- Generated by `make accuracy`; the golden values and explanations are in",
        "benchmarks/accuracy.toml. -->",
        "",
        "# How accurate it is",
        "",
        "What traceroof says, held against what others measured or computed, on real profiler",
        "output. Every difference is listed with its reason; one without a reason fails the build.",
        "",
        "| comparison | figures | equal | different, explained |",
        "|---|--:|--:|--:|",
        *(
            f"| {one.title} | {one.compared:,} | {one.compared - len(one.differences):,} "
            f"| {len(one.differences):,} |"
            for one in sections
            if one.compared
        ),
        "",
    ]
    for one in sections:
        lines += one.page()
    different = [one for section in sections for one in section.differences]
    wrong = [
        f"{one.table}: {one.case}, {one.figure}: ours {one.ours}, theirs {one.theirs}: not explained"
        for one in different
        if one.explained_by is None
    ]
    needed = {one.explained_by for one in different}
    wrong += [
        f"accuracy.toml explains what does not differ: {entry}"
        for number, entry in enumerate(DATA["explained"])
        if number not in needed
    ]
    wrong += [line for section in sections for line in section.wrong]
    return "\n".join(lines).rstrip() + "\n", wrong


def main(arguments: Sequence[str]) -> int:
    """Print the page; 1 where it is not all explained."""
    made, wrong = page(Path(arguments[0]) if arguments else Path("../shared/corpus"))
    sys.stdout.write(made)
    for line in wrong:
        sys.stderr.write(f"{line}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
