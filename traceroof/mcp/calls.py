"""The six calls: their arguments, from which the schemas are made that clients see."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from traceroof.core.units import one_line
from traceroof.errors import TraceroofError

Run = Annotated[
    str,
    Meta(
        description="A stored run: its id (as an answer gives it), the beginning of an id, its name or "
        "a baseline; or the path of a profiler file.",
        max_length=1024,
    ),
]
Kernel = Annotated[
    str | int | None,
    Meta(
        description="Analyse only these kernels: a `number` (of the head's kernels where two "
        "runs are "
        "compared), a part of a name, or a pattern. Shares stay those of the whole run."
    ),
]
More = Annotated[
    str | None,
    Meta(description="The cursor `more` of an answer: with the same arguments, what comes next."),
]
Top = Annotated[int, Meta(description="How many entries and kernels.", ge=1, le=50)]


class Call(msgspec.Struct, forbid_unknown_fields=True):
    """The arguments of one call."""


class Diagnose(Call):
    """What limits a run and its kernels, and what to try, best first.

    Give `paths` (one program: trace, counter passes, ranks, repeats together) to read and store
    profiler files, or `run` for a stored run, or neither for the newest run. The answer's `run.id`
    names the run in later calls. `advice` is ordered by `expected_ns`, the time that an entry is
    expected to save; `bound_ns` is the most that it can save.
    """

    paths: Annotated[
        Annotated[list[str], Meta(min_length=1, max_length=256)] | str | None,
        Meta(description="Profiler files or folders below the root."),
    ] = None
    run: Run | None = None
    combine: Annotated[
        Literal["auto", "passes", "join", "repeats", "ranks"],
        Meta(description="What several paths are, where it is not told right by itself."),
    ] = "auto"
    top: Top = 5
    kernel: Kernel = None
    more: More = None


class Explain(Call):
    """The arithmetic behind an entry of the advice, or behind a rule on one subject: the condition
    with its figures, the bound step by step, and how to refute it. Give `entry` or `rule`."""

    run: Run
    entry: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="`entry` of the advice.")
    ] = None
    rule: Annotated[str | None, Meta(description="Id of a rule.")] = None
    subject: Annotated[
        str | int | None,
        Meta(description="Of a rule: number or name of the kernel, category or timeline."),
    ] = None
    more: More = None


class Card(Call):
    """Everything known about one kernel: its class and why, every figure with unit and basis, what was
    found on it, what the vendor's rules say, and what could not be judged."""

    run: Run
    kernel: Annotated[str | int, Meta(description="A number of the list, or a part of a name.")]
    more: More = None


class Compare(Call):
    """The delta after an edit: `verdict` is regressed, improved, unchanged, inconclusive (then `needs`
    says what is missing) or not-comparable (then `differences` says why). `moved` is what changed by
    more than noise, `open` what cannot be told, `unmoved` the rest."""

    base: Run
    head: Run
    kernel: Kernel = None
    more: More = None


class NextCapture(Call):
    """The one capture that would decide most of what a run leaves open: the command, the kernels and
    the time that it would decide. Run it, then diagnose the run's files and the new one together."""

    run: Run
    kernel: Kernel = None
    more: More = None


class List(Call):
    """What there is: stored runs, the kernels of a run, the rules, or the GPUs with their peaks."""

    what: Literal["runs", "kernels", "rules", "devices"]
    run: Annotated[Run | None, Meta(description="Of kernels: the run; the newest by default.")] = (
        None
    )
    more: More = None


CALLS: Mapping[str, type[Call]] = {
    "diagnose": Diagnose,
    "explain": Explain,
    "card": Card,
    "compare": Compare,
    "next_capture": NextCapture,
    "list": List,
}


def call_of(name: str, arguments: Mapping[str, Any]) -> Call:
    """The call with its arguments. Raises TraceroofError for one that does not exist, or arguments that
    it does not take."""
    kind = CALLS.get(name)
    if kind is None:
        raise TraceroofError(
            f"there is no tool {one_line(name)[:80]}", f"there are {', '.join(CALLS)}"
        )
    try:
        return msgspec.convert(dict(arguments), kind)
    except msgspec.ValidationError as error:
        what = one_line(str(error)).replace("`$.", "`").replace(" - at `$`", "")
        raise TraceroofError(
            f"{name}: {what[:1].lower()}{what[1:300]}", "the tool's schema says what it takes"
        ) from None


def schema_of(kind: type[Call]) -> dict[str, Any]:
    """The JSON schema of a call's arguments, without references."""
    made = msgspec.json.schema(kind)
    body: dict[str, Any] = made["$defs"][kind.__name__]
    properties = {name: dict(one) for name, one in body["properties"].items()}
    return {
        "type": "object",
        "properties": properties,
        "required": list(body.get("required", ())),
        "additionalProperties": False,
    }


def words_of(kind: type[Call]) -> str:
    """What a call does, as clients are told."""
    return " ".join((kind.__doc__ or "").split())
