"""What files that are given together may be, and how it is said which role each got."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, get_args

from traceroof.core.recording import Recording, Role

Mode = Literal["auto", "passes", "join", "repeats", "ranks", "separate"]
MODES: tuple[Mode, ...] = get_args(Mode)

#: Files of one program share at least this part of the smaller file's kernels (by name).
SHARED = 0.5

#: What to do with files that do not record one program.
SEPARATE = "`--combine separate` makes a run of each; give one program's files otherwise"


def with_role(recording: Recording, role: Role) -> Recording:
    """The recording, each of its files in that role."""
    return replace(recording, sources=tuple(replace(one, role=role) for one in recording.sources))


def path_of(recording: Recording) -> str:
    """Its first file, as messages name it."""
    return recording.sources[0].path


_SAID: Mapping[Role, Callable[[int], str]] = {
    "pass": lambda n: f"{n} files are passes of one program: one row per launch",
    "part": lambda n: f"{n} files are parts of one program, put together",
    "rank": lambda n: f"{n} files are ranks or processes of one program, side by side",
    "repeat": lambda n: (
        f"{n + 1} files are runs of the same program: the one of median time is judged"
    ),
}


def said(roles: Sequence[Role]) -> str:
    """What was decided, in one line; empty for a single file."""
    logs = sum(one == "clock-log" for one in roles)
    if logs:
        rest = said([one for one in roles if one != "clock-log"])
        return "; ".join(filter(None, (rest, "a clock log stands beside")))
    if "timeline" in roles and "counters" in roles:
        return "counters of the same program are joined to the timeline"
    if "rank" in roles and "repeat" in roles:
        ranks = sum(one == "rank" for one in roles)
        return (
            f"{len(roles)} files are {len(roles) // ranks} runs of the same {ranks} ranks: the run "
            "of median time is judged"
        )
    for role in ("repeat", "pass", "part", "rank"):
        count = sum(one == role for one in roles)
        if count and len(roles) > 1:
            return _SAID[role](count)
    return ""
