"""The card of one kernel: everything known of it, each figure with its unit and its basis."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Any

from traceroof.core.displayed import Displayed
from traceroof.diagnosis import collect
from traceroof.diagnosis.diagnosis import Diagnosis, KernelGroup
from traceroof.diagnosis.findings import Finding
from traceroof.diagnosis.narrow import kernels_meant, of_kernels
from traceroof.errors import TraceroofError
from traceroof.kernels.group_columns import VOCABULARY
from traceroof.kernels.utilisation import BASIS_OF

SCHEMA = "traceroof/card/1"
_NAME = 120


@dataclass(frozen=True)
class Figure:
    """One figure: a column of the kernel table or of the kernel group, with its unit; of: what a
    percentage or ratio is measured against."""

    name: str
    value: float | str
    unit: str
    of: str
    meaning: str


@dataclass(frozen=True, repr=False)
class KernelCard(Displayed):
    """One kernel group of a run. diagnosis: narrowed to it, with the totals of the whole run.
    also_meant: how many more kernels have the name that was asked for, all with less time."""

    diagnosis: Diagnosis
    also_meant: int = 0

    @property
    def said(self) -> str:
        """The kernel, its class and its time."""
        kernel = self.kernel
        time = "unknown time" if kernel.time_ns is None else f"{kernel.time_ns:,} ns"
        return f"#{kernel.number} {kernel.kernel[:_NAME]}: {kernel.primary_class}, {time}"

    @property
    def kernel(self) -> KernelGroup:
        """The kernel."""
        return self.diagnosis.kernels[0]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found on it, and which rules could not be judged, most worth first."""
        return self.diagnosis.findings

    @property
    def figures_known(self) -> tuple[Figure, ...]:
        """Every figure that is known of it."""
        return tuple(_figures(self.kernel))

    def value(self, name: str) -> float | str:
        """A figure by the name of its column. Raises TraceroofError where it is not known, with what
        collects it."""
        found = self.kernel.metrics.get(name)
        if found is not None:
            return found
        if name not in VOCABULARY:
            near = get_close_matches(name, VOCABULARY, n=3)
            hint = f"did you mean {', '.join(near)}?" if near else "docs/kernel-table.md lists them"
            raise TraceroofError(f"no column is called {name}", hint)
        kernel = self.kernel.kernel
        command = collect.command([name], [kernel], vendor=self.diagnosis.tool)
        raise TraceroofError(
            f"{name} of {kernel[:_NAME]} is not known", f"collect it: {command}" if command else ""
        )

    def to_dict(self) -> dict[str, Any]:
        """The JSON form ``traceroof/card/1``; times in ns, shares 0-1 of the kernel time."""
        kernel, capture = self.kernel, self.diagnosis.next_capture
        return {
            "schema": SCHEMA,
            "run": {"id": self.diagnosis.run_id, "name": self.diagnosis.run_name},
            "kernel": {
                "number": kernel.number,
                "name": kernel.kernel,
                "category": kernel.category,
                "class": kernel.primary_class,
                "class_near": asdict(kernel.class_near) if kernel.class_near else None,
                "missing": list(kernel.missing),
                "launches": kernel.launches,
                "time_ns": kernel.time_ns,
                "share": kernel.share,
                "median_ns": kernel.median_ns,
                "mad_ns": kernel.mad_ns,
                "grid": kernel.grid,
                "block": kernel.block,
                "operator": kernel.operator,
                "input_shapes": kernel.input_shapes,
                "input_dtypes": kernel.input_dtypes,
                "where": asdict(kernel.where),
            },
            "also_meant": self.also_meant,
            "roofline": dict(kernel.roofline) if kernel.roofline else None,
            "findings": [_finding(one) for one in self.findings if one.state != "clear"],
            "vendor": [
                {"rule": one.rule or one.section, "says": one.text} for one in kernel.vendor
            ],
            "figures": [asdict(one) for one in self.figures_known],
            "next_capture": capture.to_dict() if capture else None,
        }


def card_of(diagnosis: Diagnosis, wanted: str) -> KernelCard:
    """The card of the kernel that ``wanted`` means (``narrow.kernels_meant``), of several the one with
    the most time. Raises TraceroofError where there is none."""
    first, *others = kernels_meant(diagnosis, wanted)
    return KernelCard(of_kernels(diagnosis, (first,)), len(others))


def _figures(kernel: KernelGroup) -> Iterable[Figure]:
    for name, value in kernel.metrics.items():
        column = VOCABULARY.get(name)
        basis = column.basis if column else ""
        named = BASIS_OF.get(name, "pipe_basis" if basis == "row" else None)
        if named:
            basis = str(kernel.metrics.get(named) or "")
        yield Figure(
            name, value, column.unit if column else "", basis, column.meaning if column else ""
        )


def _finding(one: Finding) -> dict[str, Any]:
    """A finding in short: the explanation has the rest."""
    made: dict[str, Any] = {"rule": one.rule, "state": one.state, "title": one.title}
    if one.state == "not-evaluable":
        return made | {"missing": list(one.missing)}
    return made | {
        "severity": one.severity,
        "confidence": one.confidence,
        "bound_ns": one.time_saved_bound_ns,
        "likely_ns": one.time_saved_likely_ns,
        "because": one.because,
        "fix": one.fix,
        "suppressed_by": one.suppressed_by,
    }
