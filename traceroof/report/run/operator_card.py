"""The card of one kernel group: everything known of it, as sections of lines.

``sections`` is the one place that decides what a card holds; terminal, Markdown and the HTML page
show the same lines. What is not known is left out.
"""

from collections.abc import Iterable, Mapping, Sequence

from traceroof.core.units import (
    count,
    percent,
    quantity,
)
from traceroof.diagnosis.diagnosis import KernelGroup
from traceroof.diagnosis.findings import Finding
from traceroof.hardware.devices import AMD
from traceroof.kernels.bound_class import (
    BUSY_PCT,
    CLASSES,
    LAUNCH_NS,
    WALL_PCT,
)
from traceroof.kernels.group_columns import VOCABULARY
from traceroof.report.common import shapes
from traceroof.report.common.console import cut
from traceroof.report.run import summary
from traceroof.report.run.card_lines import Line, Section, in_amd_words
from traceroof.report.run.card_roof import roof_lines
from traceroof.report.run.source_lines import card_lines

# Use of the machine, as bars: label, metric, and the metric that says what it is measured against.
USES = (
    ("compute", "compute_pct", "compute_basis"),
    ("memory", "memory_pct", None),
    ("DRAM", "dram_pct", "dram_basis"),
    ("L2", "l2_throughput_pct", None),
    ("L1", "l1_throughput_pct", None),
    ("tensor cores", "tensor_pct", None),
    ("occupancy", "achieved_occupancy_pct", None),
    ("possible occupancy", "theoretical_occupancy_pct", None),
)

# What decides how many blocks or warps are resident, and what follows.
_OCCUPANCY = (
    ("registers", "registers_per_thread", "", " per thread"),
    ("shared memory", "shared_memory_bytes", "byte", " per block"),
    ("waves of blocks", "waves", "", ""),
    ("scheduler issues", "issue_active", "", " instructions per cycle"),
    ("eligible warps", "warps_eligible", "", " per scheduler"),
)
_LIMIT = "occupancy_limit_"
_INSUFFICIENT = "insufficient_"

STALL = "stall_"
_STALLS_SHOWN = 8
_VENDOR_LENGTH = 700
# Optimizers take lists of a hundred tensors.
_SHAPES_LENGTH = 600


def sections(kernel: KernelGroup, findings: Sequence[Finding]) -> list[Section]:
    """The card of a kernel group, section by section; one with nothing to say is left out.

    findings: all that was found on it, what could not be judged included.
    """
    made = (
        Section("launches", "Launches", tuple(_launches(kernel))),
        Section("class", "Class", tuple(_class(kernel))),
        Section("roof", "Roofline, per launch", tuple(roof_lines(kernel))),
        Section("uses", "Use, of peak", tuple(uses(kernel))),
        Section("occupancy", "Occupancy", tuple(occupancy(kernel))),
        Section("stalls", "Where warps wait", tuple(stalls(kernel))),
        Section("lines", "Source lines, of samples", tuple(card_lines(kernel))),
        Section("findings", "Findings", tuple(_findings(findings))),
        Section("vendor", "The vendor says", tuple(_vendor(kernel))),
        Section("missing", "Not judged", tuple(_missing(kernel, findings)), _command(kernel)),
    )
    on_amd = kernel.metrics.get("vendor") in AMD
    return [in_amd_words(one) if on_amd else one for one in made if one.lines]


def shape(size: tuple[int, int, int] | None) -> str:
    """A launch shape: ``256``, ``86 × 128``; empty where unknown."""
    if size is None:
        return ""
    kept = list(size)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return " × ".join(f"{one:,}" for one in kept)


def _launches(kernel: KernelGroup) -> Iterable[Line]:
    share = f" ({percent(kernel.share)} of kernel time)" if kernel.share is not None else ""
    yield Line("time", f"{quantity(kernel.time_ns, 'ns')}{share}")
    yield Line("launches", f"{kernel.launches:,}")
    if kernel.median_ns is not None:
        # A row of a summary knows the mean of its launches only.
        kind = "mean" if "mean_over_launches" in kernel.metrics else "median"
        text = f"{quantity(kernel.median_ns, 'ns')} ({kind}){spread(kernel)}"
        yield Line("per launch", f"{text}{_extremes(kernel)}")
    yield Line("category", kernel.category)
    yield from facts(kernel)
    yield from _beside(kernel)


def _beside(kernel: KernelGroup) -> Iterable[Line]:
    """What other recordings of the program say of it: whose counters these are, the clock."""
    sure = kernel.metrics.get("join_confidence")
    if isinstance(sure, float):
        yield Line("counters", f"by {kernel.metrics['join_level']}; confidence {sure:.2f}")
    clock, share = (kernel.metrics.get(f"logged_clock_{one}") for one in ("hz", "pct"))
    if isinstance(clock, float):
        boost = f", {quantity(share, '%')} of boost" if isinstance(share, float) else ""
        yield Line("core clock", f"{quantity(clock, 'Hz')}{boost} (clock log)")


def _extremes(kernel: KernelGroup) -> str:
    """``, 23.5 µs to 83.3 µs``: the shortest and the longest launch, where a summary tells them."""
    ends = [kernel.metrics.get(f"{name}_launch_ns") for name in ("shortest", "longest")]
    least, most = (one if isinstance(one, float) else None for one in ends)
    if least is None or most is None:
        return ""
    return f", {quantity(least, 'ns')} to {quantity(most, 'ns')}"


def spread(kernel: KernelGroup) -> str:
    """`` ± 1.2 µs``: how far launches lie from their median; empty where they do not."""
    return f" ± {quantity(kernel.mad_ns, 'ns')}" if kernel.mad_ns else ""


def facts(kernel: KernelGroup) -> Iterable[Line]:
    """What was launched: operator, shapes, types, grid."""
    lines = (
        Line("operator", kernel.operator or ""),
        Line("module", kernel.where.words if kernel.where.module else ""),
        Line("source line", kernel.where.source or ""),
        Line("range", cut(kernel.where.range or "", _SHAPES_LENGTH)),
        Line("input shapes", cut(shapes.shapes(kernel.input_shapes or ""), _SHAPES_LENGTH)),
        Line("input types", cut(shapes.types(kernel.input_dtypes or ""), _SHAPES_LENGTH)),
        Line("sizes", str(kernel.metrics.get("model_shape") or "")),
        Line("grid", shape(kernel.grid)),
        Line("block", shape(kernel.block)),
    )
    return (line for line in lines if line.text)


def _class(kernel: KernelGroup) -> Iterable[Line]:
    primary = kernel.primary_class
    yield Line("class", f"{primary}: {CLASSES.get(primary, '')}")
    because = reason(kernel)
    if because:
        yield Line("because", because)
    if kernel.class_near:
        near = kernel.class_near
        yield Line("nearly", f"{near.primary_class}: {near.metric} is close to a threshold")


def reason(kernel: KernelGroup) -> str:
    """Why a kernel has its class, with the figures that decided."""
    uses = {label: _use(kernel, name, basis) for label, name, basis in USES}
    compute, memory, dram = (uses[label] for label in ("compute", "memory", "DRAM"))
    sides = ", ".join(f"{label} {text}" for label, text in uses.items() if text and label in _SIDES)
    apart = f"{sides}; between {BUSY_PCT:g} and {WALL_PCT:g} %"
    reasons: Mapping[str, str] = {
        "dram-bound": dram and f"DRAM {dram}; {_wall(kernel, 'dram_basis')}",
        "compute-bound": compute and f"compute {compute}; {_wall(kernel, 'compute_basis')}",
        "l2-bound": f"L2 {uses['L2']}, DRAM {dram or 'unknown'}; L2 from {WALL_PCT:g} % on",
        "l1-bound": f"L1 {_use(kernel, 'l1_pct', 'l1_basis')}, DRAM {dram or 'unknown'}; "
        f"L1 from {WALL_PCT:g} % on",
        "memory-bound": f"memory {memory}, DRAM unknown; at its wall from {WALL_PCT:g} % on",
        "memory-leaning": apart,
        "compute-leaning": apart,
        "balanced": f"compute {compute}, memory {memory}; busy from {BUSY_PCT:g} % on",
        "latency-bound": f"{sides}; busy from {BUSY_PCT:g} % on",
        "below-roof": f"{sides}; busy from {BUSY_PCT:g} % on",
        "launch-bound": f"{quantity(kernel.median_ns, 'ns')} a launch; "
        f"short below {quantity(LAUNCH_NS, 'ns')}",
        "not-evaluable": f"missing {', '.join(kernel.missing)}" if kernel.missing else "",
    }
    return reasons.get(kernel.primary_class, "")


_SIDES = ("compute", "memory")


def _wall(kernel: KernelGroup, basis: str) -> str:
    """From which use on a side is at its wall: rates reach less of a peak than counters do."""
    if kernel.metrics.get(basis) in ("elapsed", "pipe"):
        return f"at its wall from {WALL_PCT:g} % on"
    return "at its wall from 0.9 of what is attainable on"


def _use(kernel: KernelGroup, name: str, basis: str | None) -> str:
    """``61.8 % of elapsed``; empty where unknown."""
    value = kernel.metrics.get(name)
    if not isinstance(value, float | int):
        return ""
    against = kernel.metrics.get(basis) if basis else VOCABULARY[name].basis
    against = _BASES.get(str(against), against)
    return quantity(value, "%") + (f" of {against}" if against and against != "group" else "")


_BASES = {"model, nominal peak": "nominal peak, by its shapes", "pipe": "its pipe's peak"}


def uses(kernel: KernelGroup) -> Iterable[Line]:
    for label, name, basis in USES:
        text = _use(kernel, name, basis)
        if text:
            yield Line(label, text, _bar(float(kernel.metrics[name])))


def occupancy(kernel: KernelGroup) -> Iterable[Line]:
    metrics = kernel.metrics
    for label, name, unit, each in _OCCUPANCY:
        value = metrics.get(name)
        if value is not None:
            yield Line(label, quantity(value, unit) + each)
    limits = {
        name.removeprefix(_LIMIT): float(value)
        for name, value in metrics.items()
        if name.startswith(_LIMIT) and isinstance(value, float | int) and value > 0
    }
    if limits:
        fewest = min(limits.values())
        by = ", ".join(_words(name) for name, value in limits.items() if value == fewest)
        yield Line(
            "limited by", f"{by}: {count(round(fewest), 'block fits', 'blocks fit')} at once"
        )
    waited = {
        name.removeprefix(_INSUFFICIENT).removesuffix("_pct"): float(value)
        for name, value in metrics.items()
        if name.startswith(_INSUFFICIENT) and isinstance(value, float | int) and value > 0
    }
    if waited:
        most = max(waited, key=lambda name: waited[name])
        resource = _words(most).replace("wave slots", "wavefront slots")
        yield Line("waits to start for", f"{resource}, {quantity(waited[most], '%')} of the time")


def _words(name: str) -> str:
    return name.replace("_", " ")


def stalls(kernel: KernelGroup) -> Iterable[Line]:
    shares = sorted(
        (
            (-float(value), name)
            for name, value in kernel.metrics.items()
            if name.startswith(STALL) and isinstance(value, float | int)
        ),
    )
    for share, name in shares[:_STALLS_SHOWN]:
        if share:
            yield Line(_words(name.removeprefix(STALL)), percent(-share), _bar(-share * 100))


def _bar(pct: float) -> float:
    return round(min(max(float(pct), 0.0), 100.0), 1)


def _findings(findings: Sequence[Finding]) -> Iterable[Line]:
    for one in findings:
        if one.state in ("fired", "suppressed"):
            saved = saving(one)
            yield Line(one.rule, one.because + (f"; {saved}" if saved else ""))


def saving(finding: Finding) -> str:
    """What a finding saves, or what silences it; empty where nothing can be said."""
    if finding.suppressed_by:
        return f"silenced by {finding.suppressed_by}"
    return summary.savings(finding)


def _missing(kernel: KernelGroup, findings: Sequence[Finding]) -> Iterable[Line]:
    lacking = [one for one in findings if one.state == "not-evaluable"]
    if lacking:
        yield Line("rules", _some([one.rule for one in lacking]))
        yield Line("they need", _some(_columns_missing(findings)))
    if kernel.not_judged and kernel.not_judged.decides:
        yield Line("most telling", ", ".join(kernel.not_judged.decides))


def _command(kernel: KernelGroup) -> str | None:
    """What collects the few metrics that would decide for this kernel."""
    return kernel.not_judged.command if kernel.not_judged else None


def _columns_missing(findings: Sequence[Finding]) -> list[str]:
    lacking = (one for one in findings if one.state == "not-evaluable")
    return list(dict.fromkeys(name for one in lacking for name in one.missing))


def _some(names: Sequence[str]) -> str:
    """The first few names and how many more there are."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


_NAMED = 8


def _vendor(kernel: KernelGroup) -> Iterable[Line]:
    for name, stands, text in vendor(kernel):
        yield Line(name, f"{stands}. {text}" if stands else text)


def vendor(kernel: KernelGroup) -> list[tuple[str, str, str]]:
    """Each verdict of the vendor: its rule, how it stands to ours, what it says."""
    told = []
    for verdict in kernel.vendor:
        stands = ""
        if verdict.classes:
            agrees = kernel.primary_class in verdict.classes
            stands = "agrees" if agrees else f"says otherwise: we say {kernel.primary_class}"
            if not verdict.is_usual:
                stands += f" (on {verdict.launches:,} of {verdict.of_launches:,} launches)"
        elif verdict.estimate_pct is not None:
            stands = f"estimates {quantity(verdict.estimate_pct, '%')}"
            if verdict.speedup_scope:
                # Local ones are no share of the kernel's time.
                unit = verdict.speedup_scope == "local"
                limits = "of one unit's time" if unit else "of the kernel's time"
                limits += ", capped at our bound" if verdict.capped_pct is not None else ""
                stands += f" ({limits})"
        text = cut(verdict.text, _VENDOR_LENGTH)
        told.append((verdict.rule or verdict.section, stands, text))
    return told
