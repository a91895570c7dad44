"""``traceroof noise``: what repeats of unchanged code scatter by, for every comparison from then on."""

from typing import TYPE_CHECKING, Annotated

import typer

import traceroof
from traceroof.cli.completion import complete_run
from traceroof.cli.inputs import run_of
from traceroof.cli.options import NoiseFormat, Output, ReadOptions, Wide, grouped
from traceroof.cli.output import tell, terminal, write
from traceroof.core.units import count
from traceroof.errors import TraceroofError

if TYPE_CHECKING:
    from traceroof.compare.noise_profile import Profile


@grouped
def noise(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN|PATH...]",
            help="Repeats of unchanged code: stored runs, files, or a folder of them; none: list "
            "what is stored.",
            autocompletion=complete_run,
        ),
    ] = None,
    *,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the workload.")] = None,
    keep: Annotated[
        bool, typer.Option("--keep/--no-keep", help="Keep it in the store, for `compare`.")
    ] = True,
    forget: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Delete the stored noise of a workload, by its name."),
    ] = None,
    top: Annotated[int, typer.Option(metavar="N", min=1, help="Number of kernels to show.")] = 12,
    format: Annotated[
        NoiseFormat, typer.Option("--format", "-f", case_sensitive=False, help="How to write it.")
    ] = NoiseFormat.table,
    output: Output = None,
    wide: Wide = False,
    reading: ReadOptions,
) -> None:
    """Measure the noise of a program on repeats of unchanged code; `compare` uses it."""
    from traceroof.report.compare import noise as shown

    if forget is not None:
        if what:
            raise TraceroofError("--forget takes no RUN", "measuring again replaces by itself")
        gone = traceroof.forget_noise(forget, store=reading.folder, config=False)
        tell(f"forgot {count(gone, 'measurement')} of {forget}")
        return
    width, color = terminal(output, wide=wide)
    if not what:
        profiles = traceroof.stored_noise(reading.folder)
        write(shown.listed(profiles, width=width), output)
        return
    runs = [run_of([one], reading) for one in what]
    found = traceroof.noise(
        runs, name=name, keep=False, device=reading.device, settings=reading.settings
    )
    if keep:
        replaced = traceroof.keep_noise(found, reading.folder)
        again = " in place of what was measured before" if replaced else ""
        tell(f"kept{again}: compare uses it for this workload on {found.device}")
    for note in found.notes:
        tell(f"note: {note}")
    write(_rendered(found, format, top, width, color), output)


def _rendered(found: "Profile", format: NoiseFormat, top: int, width: int, color: bool) -> str:
    if format is NoiseFormat.json:
        from traceroof.report.common import json

        return json.render(found)
    from traceroof.report.compare import noise as shown

    return shown.render(found, top=top, width=width, color=color)
