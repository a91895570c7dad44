"""Cells without a number: what they say, and files in which nothing was measured."""

from traceroof.core import regex
from traceroof.core.units import count
from traceroof.errors import TraceroofError
from traceroof.parsers.nsight.launches import Launches
from traceroof.parsers.nsight.metrics import fits
from traceroof.parsers.nsight.number_rows import MeasuredNumbers
from traceroof.parsers.nsight.rows import Measured

#: How to permit performance counters, for every refusal that has this cause.
PERMISSION_HINT = (
    "run ncu as administrator, or permit counters for all users "
    "(https://developer.nvidia.com/ERR_NVGPUCTRPERM), and profile again"
)

# The page in text form marks what is no number with "(!)".
_NOT_FINITE = regex.compile(r"[-+]?(?:nan|inf(?:inity)?)")


def refuse_unmeasured(
    launches: Launches, path: str, measured: Measured | MeasuredNumbers, reason: str
) -> None:
    if len(measured) and not launches.knows_metrics:
        names = sorted({slot.metric for slot in launches.slots})
        raise TraceroofError(
            f"{path} has the layout of Nsight Compute's table, and none of its metrics is one "
            f"of Nsight Compute's: {', '.join(names[:5])}"[:400],
            "if labels of an own section hide them: add --print-metric-name name to ncu",
        )
    if measured.any_number or not len(measured):
        return
    kinds = {_no_number(text) for text in measured.unread()}
    if reason and kinds <= {"n/a", "", "nan"}:
        raise TraceroofError(
            f"{path} holds no measurement: Nsight Compute reports {reason!r}, and the metrics "
            f"of its {count(len(launches.found), 'launch', 'launches')} are not available",
            PERMISSION_HINT if "NVGPUCTRPERM" in reason else "solve that and profile again",
        )
    if kinds <= {"n/a", ""}:
        raise TraceroofError(
            f"{path} holds no measurement: every metric of its "
            f"{count(len(launches.found), 'launch', 'launches')} is n/a, which happens when performance counters are not permitted "
            "(ERR_NVGPUCTRPERM)",
            PERMISSION_HINT,
        )
    if kinds <= {"n/a", "", "nan"}:
        raise TraceroofError(
            f"{path} holds no measurement: the metrics of its "
            f"{count(len(launches.found), 'launch', 'launches')} are nan, which happens when ncu is older than the CUDA driver",
            "profile again with the Nsight Compute that belongs to the driver's CUDA version",
        )


def note_cells(launches: Launches, measured: Measured | MeasuredNumbers) -> None:
    """Say what cells held no number, by kind."""
    unreadable = ""
    for text, rows_of in measured.unread().items():
        text = text.strip().lower()
        kind = _no_number(text)
        if kind == "n/a":
            launches.note("metrics that were not available (n/a)", rows_of, severe=False)
        elif kind == "":
            launches.note("metric rows without a value", rows_of, severe=False)
        elif kind == "nan":
            launches.note("values that are not finite (nan, inf)", rows_of, severe=False)
        elif text[0].isdigit() or text[0] in "+-.,":
            unreadable = unreadable or text[:40]
            launches.note(f"numbers that could not be read, such as {unreadable!r}", rows_of)
    for slot, found in zip(launches.slots, measured.numbers_by_slot(), strict=True):
        if fits(slot.metric, slot.unit_text) is False and not slot.statistic:
            reason = f"{slot.unit_text.strip()!r} is not a unit for it"
            if not slot.unit_text.strip():
                reason = "its unit is missing"
            launches.note(f"values of {slot.metric} left out: {reason}", found)
    if measured.contradictions:
        launches.note(
            "values that contradict another row of the same launch", measured.contradictions
        )


def _no_number(text: str) -> str | None:
    """What a cell without a number says: "n/a", "nan" (or infinite), "" for nothing, else None."""
    text = text.strip().lower().removeprefix("(!)").strip()
    if text in ("n/a", ""):
        return text
    return "nan" if _NOT_FINITE.fullmatch(text) else None
